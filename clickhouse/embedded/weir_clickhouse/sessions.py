"""Sessions: the state that `session_id` carries from one request to the next.

This module keeps settings (SET) and the database (USE) and applies them to each request's own connection. Only a
session that has created a temporary table keeps a connection, because the table exists only in it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from chdb.state.sqlitelike import Connection

from .engine import Engine, Request
from .errors import ServerError
from .lexer import Kind
from .statement import Statement

_TIMEOUT = 60
_LONGEST = 3600
_MOST = 10_000
#: Seconds that a request waits for another of its session whose statement is over.
_WAIT = 2.0


@dataclass
class Session:
    """The state of one session, or of a single request without a `session_id`."""

    named: bool
    settings: dict[str, str] = field(default_factory=dict)
    database: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    expires: float = 0.0
    #: Whether the request that has the session only sends the rest of its answer.
    finishing: bool = False
    _held: Connection | None = None

    @contextmanager
    def connection(self, engine: Engine, request: Request, statement: Statement) -> Iterator[Connection]:
        """The connection for one request of this session."""
        if self._held is None and self.named and _makes_temporary(statement):
            self._held = engine.open()
        if self._held is None:
            with engine.connection(request) as connection:
                yield connection
            return
        # Settings and tables of one request must not reach the next.
        engine.reset(self._held)
        try:
            engine.prepare(self._held, request)
            yield self._held
        finally:
            engine.clear(self._held, request)

    def remember(self, engine: Engine, connection: Connection, statement: Statement) -> None:
        """Store the change of a SET or USE that has just run."""
        if not self.named:
            return
        if statement.kind == "USE":
            self.database = connection.query("SELECT currentDatabase()", "TSVRaw").bytes().decode().rstrip("\n")
        elif statement.kind == "SET":
            names = [
                a.value for a, b in zip(statement.items, statement.items[1:], strict=False) if a.is_name and b.is_symbol("=")
            ]
            lower = {statement.text[t.start : t.end].decode() for t in statement.items if t.kind is Kind.WORD} | set(names)
            for name, value in engine.changed(connection):
                if name in lower:
                    self.settings[name] = value

    def finish(self) -> None:
        """The statement is over; its client may have the whole answer, and ask again, before the request is over."""
        self.finishing = True

    def close(self) -> None:
        """Release the held connection."""
        if self._held is not None:
            self._held.close()
            self._held = None


def _makes_temporary(statement: Statement) -> bool:
    return statement.kind == "CREATE" and any(token.is_word("TEMPORARY") for token in statement.items[1:4])


class Sessions:
    """All sessions, by user and id."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], Session] = {}
        self._lock = threading.Lock()

    @contextmanager
    def use(self, user: str, params: Mapping[str, str]) -> Iterator[Session]:
        """The session of a request, reserved for this request.

        Raises error 373 while another request has it, 372 if session_check=1 and there is none, 374 for a bad timeout.
        """
        name = params.get("session_id")
        if not name:
            yield Session(named=False)
            return
        try:
            timeout = int(params.get("session_timeout") or _TIMEOUT)
        except ValueError:
            raise ServerError(374, f"Invalid session timeout: '{params['session_timeout']}'") from None
        if not 0 < timeout <= _LONGEST:
            raise ServerError(374, f"Session timeout '{timeout}' is larger than max_session_timeout: {_LONGEST}")
        key = (user, name)
        with self._lock:
            self._expire()
            session = self._sessions.get(key)
            if session is None:
                if params.get("session_check") == "1":
                    raise ServerError(372, f"Session {name} not found")
                session = self._sessions[key] = Session(named=True, expires=time.monotonic() + timeout)
        if not session.lock.acquire(timeout=_WAIT if session.finishing else 0):
            raise ServerError(373, f"Session {name} is locked by a concurrent client")
        with self._lock:
            self._sessions[key] = session
        session.finishing = False
        try:
            yield session
        finally:
            session.expires = time.monotonic() + timeout
            session.lock.release()

    def end(self, user: str) -> None:
        """Forget the sessions of a user, but for those in use, which keep their state until they expire."""
        with self._lock:
            for key in [key for key, session in self._sessions.items() if key[0] == user and not session.lock.locked()]:
                self._sessions.pop(key).close()

    def _expire(self) -> None:
        """Forget expired sessions, and the oldest if there are too many."""
        now = time.monotonic()
        idle = [key for key, session in self._sessions.items() if not session.lock.locked()]
        gone = [key for key in idle if self._sessions[key].expires < now]
        if len(self._sessions) - len(gone) > _MOST:
            gone = sorted(idle, key=lambda key: self._sessions[key].expires)[: len(self._sessions) // 2]
        for key in gone:
            self._sessions.pop(key).close()

    def close(self) -> None:
        """Forget all sessions."""
        with self._lock:
            for session in self._sessions.values():
                session.close()
            self._sessions.clear()
