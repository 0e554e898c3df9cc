"""Quotas: the amount that one user may query in a time interval, as ClickHouse counts it.

The engine inside this process knows only one user, so the front keeps the sums itself: before a statement it checks
that no quota is used up, and afterwards adds the statement's cost. It lets a running statement finish; a
clickhouse-server interrupts it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from .errors import ServerError

#: The quantities that a quota can bound, with the names of CREATE QUOTA: statements, rows of answers, rows read for
#: them, seconds.
RESOURCES = ("queries", "result_rows", "read_rows", "execution_time")


@dataclass(frozen=True)
class Quota:
    """Bounds that hold together for one interval of `seconds`; intervals begin at whole multiples of it since 1970."""

    seconds: int
    limits: Mapping[str, int | float]


@dataclass
class Spent:
    """The cost of one statement, filled in by the engine while it runs."""

    result_rows: int = 0
    read_rows: int = 0


@dataclass
class _Usage:
    begun: int = 0
    used: dict[str, float] = field(default_factory=lambda: dict.fromkeys(RESOURCES, 0.0))


class Quotas:
    """The sums of every user; lost when the process ends, as in a clickhouse-server."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._usage: dict[tuple[str, int], _Usage] = {}
        self._lock = threading.Lock()

    @contextmanager
    def charge(self, user: str, template: str, quotas: tuple[Quota, ...]) -> Iterator[Spent]:
        """Count one statement of `user` under `quotas`; raises error 201 if one of them is used up.

        template: the quota's name in the error.
        """
        spent = Spent()
        with self._lock:
            for quota in quotas:
                usage = self._of(user, quota)
                usage.used["queries"] += 1
                for name, most in quota.limits.items():
                    if usage.used[name] > most:
                        end = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(usage.begun + quota.seconds))
                        raise ServerError(
                            201,
                            f"Quota for user `{user}` for {quota.seconds}s has been exceeded: "
                            f"{name} = {usage.used[name]:.10g}/{most:.10g}. Interval will end at {end}. "
                            f"Name of quota template: `{template}`",
                        )
        begun = time.monotonic()
        try:
            yield spent
        finally:
            took = time.monotonic() - begun
            with self._lock:
                for quota in quotas:
                    used = self._of(user, quota).used
                    used["result_rows"] += spent.result_rows
                    used["read_rows"] += spent.read_rows
                    used["execution_time"] += took

    def _of(self, user: str, quota: Quota) -> _Usage:
        """The sums of the current interval."""
        begun = int(self._clock()) // quota.seconds * quota.seconds
        usage = self._usage.get((user, quota.seconds))
        if usage is None or usage.begun != begun:
            usage = self._usage[user, quota.seconds] = _Usage(begun)
        return usage
