"""Connections that no worker is handling: those with an incomplete request, idle ones, and closing ones.

A worker gets a connection when the head of a request (its line and headers) is complete, so that no client keeps a worker waiting
before its request. One thread reads all heads. Every such connection has a time limit, and their number and memory are limited.
At the limit, the store closes the oldest connection of an unknown client; if users occupy most of the space, it closes the oldest
connection of the user who occupies the most.
"""

from __future__ import annotations

import errno
import os
import re
import select
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import cheroot.connections
import cheroot.makefile
import cheroot.server

from . import metrics

#: Seconds for which a connection that will be closed is still read, so that the client gets the answer before the reset that
#: unread octets would cause.
_LINGER = 2.0
#: Seconds that a worker waits for the rest of a body once the server is stopping.
_LAST = 1.0
#: Seconds between checks, by a worker that waits for a body, whether the server is stopping.
_LOOK = 0.25
#: Maximum octets that are read from a connection at once.
_PIECE = 1 << 16
#: Lines in a head; the parser is slower with each.
_LINES = 256
_HEAD_ENDS = re.compile(rb"\n\r?\n")


@dataclass(frozen=True)
class Limits:
    """Time limits for clients. Times are seconds, sizes octets.

    head: for a request's line and headers, from the first octet, or from the start of the connection. idle: between two
    requests. statement: for the part of the body that holds the statement. data: for the rest of the body, at any one
    time; `pace` octets buy back a second. connections: maximum number of connections without a worker; heads: maximum octets that
    these have sent.
    """

    head: float = 10
    idle: float = 30
    statement: float = 20
    data: float = 60
    pace: int = 1024
    connections: int = 512
    heads: int = 64 << 20


class Stream:
    """A client's input, read ahead by `Waiting` up to the end of a head, then by the request's worker.

    `allow` sets the total time that the worker may spend waiting for the client. stopping: whether the server is; if so, the
    worker waits for a second at most.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._fd = sock.fileno()
        self.stopping: Callable[[], bool] = lambda: False
        self._buffer = bytearray()
        self._searched = 0
        self._seconds, self._most, self._pace = 0.0, 0.0, 0
        #: Asked for by cheroot.
        self.bytes_read = 0

    def __len__(self) -> int:
        """Octets received and not yet read."""
        return len(self._buffer)

    def has_data(self) -> bool:
        """Whether received octets remain unread."""
        return bool(self._buffer)

    def fill(self) -> bool:
        """Read the received octets, without waiting; returns False if the client has closed the connection. Raises
        OSError."""
        with suppress(BlockingIOError):
            piece = os.read(self._fd, _PIECE)
            self._buffer += piece
            return bool(piece)
        return True

    def has_head(self) -> bool:
        """Whether the head of a request is complete."""
        found = _HEAD_ENDS.search(self._buffer, max(0, self._searched - 3))
        self._searched = found.start() if found else len(self._buffer)
        return found is not None

    def lines(self) -> int:
        """Number of lines in the part of the head that was searched."""
        return self._buffer.count(b"\n", 0, self._searched)

    def allow(self, seconds: float, pace: int = 0) -> None:
        """Let the client keep the reader waiting for this long; each `pace` octets received extend that by a second."""
        self._seconds = self._most = seconds
        self._pace = pace

    def read1(self, size: int) -> bytes:
        """The available octets, at most `size`; waits for at least one. Empty at the end. Raises TimeoutError, OSError."""
        if self._buffer:
            out = bytes(self._buffer[:size])
            self._take(len(out))
            return out
        out = self._wait_for(size)
        self.bytes_read += len(out)
        return out

    def readline(self, size: int = -1) -> bytes:
        """The octets up to the next line's end, at most `size`. Raises as `read1`."""
        while True:
            end = self._buffer.find(b"\n", 0, size if size >= 0 else len(self._buffer)) + 1
            if not end and 0 <= size <= len(self._buffer):
                end = size
            if not end:
                piece = self._wait_for(_PIECE)
                self._buffer += piece
                if piece:
                    continue
                end = len(self._buffer)
            out = bytes(self._buffer[:end])
            self._take(end)
            return out

    def close(self) -> None:
        """Discard unread octets."""
        self._buffer.clear()

    def let_go(self) -> None:
        """Read nothing more: the system gives the socket's number to the next one, whose octets are not this client's. Whoever
        still tries gets OSError."""
        self._fd = -1

    def _take(self, count: int) -> None:
        del self._buffer[:count]
        self._searched = 0
        self.bytes_read += count

    def _wait_for(self, size: int) -> bytes:
        while True:
            with suppress(BlockingIOError):
                out = os.read(self._fd, size)
                if self._pace and not self.stopping():
                    self._seconds = min(self._most, self._seconds + len(out) / self._pace)
                return out
            if self.stopping():
                self._seconds = min(self._seconds, _LAST)
            if self._seconds <= 0:
                raise TimeoutError("timed out")
            begun = time.monotonic()
            poll = select.poll()
            try:
                poll.register(self._fd, select.POLLIN)
            except ValueError as error:  # a negative number
                raise OSError(errno.EBADF, "the connection is closed") from error
            poll.poll(min(self._seconds, _LOOK) * 1000)
            self._seconds -= time.monotonic() - begun


def _make_file(sock: socket.socket, mode: str = "r", _size: int = 0) -> Any:
    return Stream(sock) if "r" in mode else cheroot.makefile.StreamWriter(sock, mode)


class Connection(cheroot.server.HTTPConnection):
    """A connection. known: a user has logged in on it, most recently `user`. answered: a request on it has been
    answered. lingers: close it only when its answer has arrived. until, since, held_for: valid while no worker has it.
    """

    rfile: Stream
    socket: Any

    def __init__(self, server: Any, sock: socket.socket, _makefile: object = None) -> None:
        super().__init__(server, sock, _make_file)
        self.rfile.stopping = lambda: server.front.stopping
        self.known = self.answered = self.lingers = False
        self.user = self.held_for = ""
        self.until = self.since = 0.0

    def close(self) -> None:
        """Close the connection, or hand it over to be closed soon."""
        if self.lingers and self.server.ready:
            self.rfile.close()
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)
                self.server.waiting.linger(self)
                return
        self.lingers = False
        self.rfile.let_go()
        # The file would hold the socket open until the next garbage collection.
        with suppress(OSError, ValueError):
            self.wfile.close()
        super().close()


class Waiting(cheroot.connections.ConnectionManager):
    """All connections that no worker is handling."""

    # Attributes of the base class that its type stubs lack.
    _selector: Any
    _stop_requested: bool
    _num_connections: int
    _from_server_socket: Callable[[Any], Connection | None]
    _remove_invalid_sockets: Callable[[], None]

    def __init__(self, server: Any, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(server)
        self._limits, self._clock = limits, clock
        #: All of them, the oldest first, by user; those of unknown clients under an empty name. Finding the oldest takes
        #: no longer where there are many, and strangers can make it necessary thousands of times a second.
        self._of_user: dict[str, dict[Connection, None]] = {}
        self._lock = threading.Lock()

    def put(self, conn: Connection) -> None:
        """Take back a connection whose request has been answered; called by workers."""
        conn.answered = True
        conn.rfile.allow(0)
        if conn.rfile.has_head():
            self.server.process_conn(conn)
        else:
            self._hold(conn, self._limits.head if len(conn.rfile) else self._limits.idle)

    def linger(self, conn: Connection) -> None:
        """Take over a connection to close it; called by workers."""
        self._hold(conn, _LINGER)

    def _hold(self, conn: Connection, seconds: float) -> None:
        conn.since = self._clock()
        conn.until = conn.since + seconds
        with self._lock:
            conn.held_for = conn.user if conn.known else ""
            self._of_user.setdefault(conn.held_for, {})[conn] = None
        self._selector.register(conn.socket.fileno(), selectors.EVENT_READ, data=conn)

    def _release(self, conn: Connection, number: int) -> None:
        """Watch a connection no longer."""
        with self._lock:
            group = self._of_user.get(conn.held_for, {})
            group.pop(conn, None)
            if not group:
                self._of_user.pop(conn.held_for, None)
        with suppress(KeyError, ValueError):
            self._selector.unregister(number)

    def _run(self, expiration_interval: float) -> None:
        """The loop of the one thread, until `stop`."""
        checked = self._clock()
        while not self._stop_requested:
            try:
                ready = list(self._selector.select(timeout=expiration_interval))
            except OSError:
                self._remove_invalid_sockets()
                continue
            for number, conn in ready:
                if conn is self.server:
                    self._accept()
                else:
                    self._received(number, conn)
            if self._clock() - checked > expiration_interval:
                self._expire_all()
                checked = self._clock()

    def _accept(self) -> None:
        try:
            conn = self._from_server_socket(self.server.socket)
        except OSError:
            # No descriptors left, for a moment: make room, and accept it later.
            self._drop_oldest("no_descriptors")
            return
        if conn is not None:
            self._hold(conn, self._limits.head)
            if self._num_connections > self._limits.connections:
                self._drop_oldest("too_many")

    def _received(self, number: int, conn: Connection) -> None:
        if conn.lingers:
            try:
                ended = not os.read(number, _PIECE)
            except BlockingIOError:
                return
            except OSError:
                ended = True
            if ended:
                self._drop(conn, "")
            return
        idle = not len(conn.rfile)
        try:
            open_ = conn.rfile.fill()
        except OSError:
            open_ = False
        if not open_:
            self._drop(conn, "")
        elif conn.rfile.has_head() or len(conn.rfile) > self.server.max_request_header_size:
            if conn.rfile.lines() > _LINES and not conn.known:
                self._drop(conn, "head_too_long")
                return
            self._release(conn, number)
            self.server.process_conn(conn)
        elif idle and conn.answered:
            conn.until = self._clock() + self._limits.head
        elif len(conn.rfile) > _PIECE and sum(len(one.rfile) for one in self._held()) > self._limits.heads:
            self._drop_oldest("heads_too_large")

    def _held(self) -> list[Connection]:
        return [conn for _, conn in list(self._selector.connections) if conn is not self.server]

    def _expire_all(self) -> None:
        now = self._clock()
        for conn in self._held():
            if conn.until < now:
                # A connection that was idle, or was to be closed, is not an error.
                begun = len(conn.rfile) or not conn.answered
                self._drop(conn, "head_too_slow" if begun and not conn.lingers else "")

    def _drop_oldest(self, cause: str) -> None:
        """Drop the oldest connection of an unknown client; if users occupy most places, the oldest of the user with the most."""
        with self._lock:
            groups = {user: held for user, held in self._of_user.items() if user}
            strangers = self._of_user.get("")
            known = sum(map(len, groups.values()))
            most = strangers
            if groups and not (strangers and known <= self._limits.connections * 3 // 4):
                most = max(groups.values(), key=len)
            oldest = next(iter(most)) if most else None
        if oldest is not None:
            self._drop(oldest, cause)

    def _drop(self, conn: Connection, cause: str) -> None:
        """Close a connection; cause: the reason for the metrics, if the client did not ask for it."""
        if cause:
            metrics.dropped.labels(cause).inc()
        self._release(conn, conn.socket.fileno())
        conn.lingers = False
        with suppress(OSError):
            conn.close()
