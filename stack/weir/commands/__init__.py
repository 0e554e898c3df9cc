"""The commands of `weir`, one file per group; `weir.cli` names and orders them."""

from __future__ import annotations

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
