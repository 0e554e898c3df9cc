"""The commands of `weir`, one file per group; `weir.cli` names and orders them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from rich.console import Console

from weir.config import Stack, load

console = Console()


class _Options:
    config: Path | None = None


def use(file: Path | None) -> None:
    """Use this configuration file; None: the default one."""
    _Options.config = file


def configured() -> Stack:
    """The stack of the configuration that the command line named.

    Raises WeirError if the file is absent or wrong.
    """
    return load(_Options.config)


def end_as_ctrl_c_does(*signals: signal.Signals) -> None:
    """Let these signals end the command as Ctrl-C does, so that it cleans up. Further ones then change nothing; a signal that
    the command was started to ignore, as by nohup, is ignored."""

    def interrupt(number: int, _frame: object) -> None:
        for one in signals:
            signal.signal(one, lambda *_: None)
        if number == signal.SIGHUP:
            # The terminal may have gone: what cleaning up prints must not fail.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(nowhere, stream)
        raise KeyboardInterrupt

    for one in signals:
        if signal.getsignal(one) != signal.SIG_IGN:
            signal.signal(one, interrupt)
