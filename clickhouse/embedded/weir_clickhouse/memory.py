"""The memory of readers: half of the engine's at most, whatever all of them ask at once, so that inserts and merges have theirs.

The engine bounds each statement, and all of them together with inserts, but not readers alone. So the front gives each
statement of a reader a share before it runs, and the engine holds it to that. The share is small, since nearly all statements
need little. One that needs more fails before its answer begins, and runs again with a larger share, of which there are few:
it waits for one in the order of arrival.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from . import metrics
from .errors import ServerError

#: Parts of the engine's memory: for small shares together, and for large ones together.
_SMALL, _LARGE = 0.15, 0.35
#: The part of the free room for small shares that the next statement gets.
_PART = 8
#: Seconds that a statement waits for a large share.
_PATIENCE = 20.0


@dataclass(eq=False)
class _Waiter:
    """A statement that waits for a large share, of a user who may have one at a time; of anybody if the name is empty."""

    alone: str


class Memory:
    """Shares of the engine's memory; sizes are octets."""

    def __init__(self, octets: int, patience: float = _PATIENCE) -> None:
        """octets: the engine's memory. patience: seconds."""
        self._free_small, self._free_large = int(octets * _SMALL), int(octets * _LARGE)
        #: The largest share that there is.
        self.most = self._free_large
        self._patience = patience
        #: Those who wait for a large share, the first first, and the users who have their only one.
        self._waiting: list[_Waiter] = []
        self._holding: set[str] = set()
        self._changed = threading.Condition()

    @property
    def waiting(self) -> int:
        """Statements that wait for a large share."""
        return len(self._waiting)

    @contextmanager
    def small(self) -> Iterator[int]:
        """A share for a statement's first attempt: the fewer statements run, the larger it is."""
        with self._changed:
            share = self._free_small // _PART
            self._free_small -= share
        try:
            yield share
        finally:
            with self._changed:
                self._free_small += share

    @contextmanager
    def large(self, share: int, alone: str = "") -> Iterator[None]:
        """A share of this size, at most `most`. alone: the user, if it may have one at a time. Raises error 202 if there was none
        for too long.
        """
        me = _Waiter(alone)
        end = time.monotonic() + self._patience
        with self._changed:
            self._waiting.append(me)
            try:
                while self._next() is not me or self._free_large < share:
                    if not self._changed.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                        metrics.refused.labels("memory").inc()
                        raise ServerError(
                            202,
                            "Too many simultaneous queries that need much memory: send it again later, or ask for less (fewer "
                            "columns, a shorter time)",
                        )
                self._free_large -= share
                self._holding.add(alone)
            finally:
                self._waiting.remove(me)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._free_large += share
                self._holding.discard(alone)
                self._changed.notify_all()

    def _next(self) -> _Waiter | None:
        """Whose turn it is."""
        return next((one for one in self._waiting if not one.alone or one.alone not in self._holding), None)
