"""Signals that end a command: it cleans up as on Ctrl-C."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from weir import backup
from weir.commands import keeping

ENDING = (signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The signals end a process, even if the tests run under `nohup`; afterwards all is as before."""
    before = {one: signal.signal(one, signal.SIG_DFL) for one in ENDING}
    yield
    for one, action in before.items():
        signal.signal(one, action)


@pytest.mark.parametrize("number", ENDING)
def test_a_backup_cleans_up_when_it_is_ended(number: signal.Signals) -> None:
    cleaned = []

    def ended(*_: object, **__: object) -> None:
        try:
            os.kill(os.getpid(), number)
        finally:
            os.kill(os.getpid(), number)  # as a shutdown that has no patience
            cleaned.append(number)

    with mock.patch.object(backup, "backup", ended), pytest.raises(KeyboardInterrupt):
        keeping.backup(Path("nowhere"), None, False)
    assert cleaned == [number]


def test_a_signal_that_nohup_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with mock.patch.object(backup, "backup", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        keeping.backup(Path("nowhere"), None, False)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
