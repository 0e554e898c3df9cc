"""State shared by all requests: the engine, the users, and the slots for running statements."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from . import metrics
from .access import Access, Role, User
from .audit import Audit
from .connections import Limits
from .engine import Engine
from .errors import ServerError
from .memory import Memory
from .people import People
from .quotas import Quotas
from .refusals import refuse_dangerous
from .sessions import Sessions
from .statement import Statement
from .walls import Walls

#: Requests with external data at once, of all users and of one: their tables have an eighth of the memory together.
_OUTSIDE, _OUTSIDE_OF_USER = 8, 2


@dataclass
class Front:
    """State shared by all requests. concurrent: maximum statements at the same time; largest_body: octets, as sent and as
    decompressed. audit: has started. people: who may log in. walls: those around this process.

    A quarter of the places is reserved for writers, and a reader has at most a quarter unless access.yaml says otherwise, so
    readers never block inserts.
    """

    engine: Engine
    access: Access
    concurrent: int
    largest_body: int
    audit: Audit
    people: People
    limits: Limits = field(default_factory=Limits)
    sessions: Sessions = field(default_factory=Sessions)
    quotas: Quotas = field(default_factory=Quotas)
    stopping: bool = False
    walls: Walls = field(default_factory=Walls)
    _running: int = 0
    _reading: int = 0
    _of_user: Counter[str] = field(default_factory=Counter)
    _outside: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        for name, what in self.walls.named().items():
            metrics.walls.labels(name).set(bool(what))
        self.sizes = metrics.Sizes(
            lambda: self.engine.admin_rows(
                "SELECT database, sum(bytes_on_disk), sum(rows) FROM system.parts WHERE active GROUP BY database ORDER BY database"
            )
        )
        self.memory = Memory(self.engine.memory)
        self.metrics = metrics.Text(lambda: shutil.disk_usage(self.engine.directory).free)

    @contextmanager
    def place(self, user: User) -> Iterator[None]:
        """A slot for a running statement; raises error 202 if this user has none left."""
        self._enter(user)
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._reading -= user.role.readonly
                self._of_user[user.name] -= 1
                metrics.in_flight.set(self._running)

    @contextmanager
    def outside(self, user: User) -> Iterator[None]:
        """Room for the external data of a request; raises error 202 if there is none left."""
        with self._lock:
            if self._outside.total() >= _OUTSIDE or self._outside[user.name] >= _OUTSIDE_OF_USER:
                metrics.refused.labels("external").inc()
                raise ServerError(202, "Too many simultaneous queries with external data: send it again later")
            self._outside[user.name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._outside[user.name] -= 1

    def check(self, role: Role, statement: Statement, params: Mapping[str, str]) -> None:
        """Raise an error if this role may not send the statement; params: the request's parameters."""
        refuse_dangerous(statement, params)
        # The text of an INSERT with data is not whole.
        if not role.may_begin(statement) and statement.data < 0 and (error := self.engine.syntax_error(statement.text)):
            # A typing error, not a lack of rights.
            raise error
        role.check(statement, params, self.engine.known)

    def _enter(self, user: User) -> None:
        quarter = max(1, self.concurrent // 4)
        own = user.role.at_once or (quarter if user.role.readonly else self.concurrent)
        with self._lock:
            if self.stopping:
                metrics.refused.labels("stopping").inc()
                raise ServerError(202, "The server is stopping")
            if self._running >= self.concurrent or (user.role.readonly and self._reading >= self.concurrent - quarter):
                metrics.refused.labels("busy").inc()
                raise ServerError(202, f"Too many simultaneous queries. Maximum: {self.concurrent}")
            if self._of_user[user.name] >= own:
                metrics.refused.labels("busy").inc()
                raise ServerError(202, f"Too many simultaneous queries for user {user.name}. Maximum: {own}")
            self._running += 1
            self._reading += user.role.readonly
            self._of_user[user.name] += 1
            metrics.in_flight.set(self._running)

    def drain(self, seconds: float) -> bool:
        """Accept no new statements and wait for running ones, at most `seconds`; returns whether all ended."""
        self.stopping = True
        end = time.monotonic() + seconds
        while self._running and time.monotonic() < end:
            time.sleep(0.02)
        return not self._running


def error_text(front: Front, error: ServerError) -> bytes:
    """The error as ClickHouse writes it into a body."""
    return f"{error} (version {front.engine.version} (official build))\n".encode(errors="replace")
