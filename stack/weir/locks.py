"""Locks that let only one process of a stack do a thing at a time: the kernel frees a lock when its process ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from weir.config import Stack
from weir.errors import WeirError


@contextmanager
def held(stack: Stack, name: str, *, refused: str = "") -> Iterator[None]:
    """Hold the lock of this name. refused: raise WeirError with this text if another process holds it; otherwise, wait for it."""
    stack.prepare()
    with (stack.run / f"{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if refused else 0))
        except BlockingIOError:
            raise WeirError(refused, hint="try again when it is done", status=1) from None
        yield
