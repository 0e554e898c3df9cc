"""ClickHouse's HTTP interface, in front of `Engine`: the server that listens.

The way of a request: `connections.Waiting` until its head is complete → `gateway.Gateway.respond` → its path →
`query.Query`.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import cheroot.server

from .connections import Connection, Waiting
from .front import Front
from .gateway import Gateway


class Server(cheroot.server.HTTPServer):
    """The listening server; it serves `front`."""

    ConnectionClass = Connection
    timeout: Any
    waiting: Waiting
    requests: Any
    _connections: Any

    def __init__(self, listening: socket.socket, front: Front) -> None:
        """listening: behind the walls no socket can be made."""
        super().__init__(
            listening.getsockname()[:2],
            Gateway,
            minthreads=front.concurrent + 8,
            maxthreads=front.concurrent + 8,
            server_name="ClickHouse",
        )
        self.front, self._listening = front, listening
        self.max_request_header_size = 1 << 20
        self.timeout = front.limits.idle
        self.request_queue_size = 256
        self.shutdown_timeout = 5

    def prepare(self) -> None:
        """Listen."""
        super().prepare()
        self._connections._selector.close()
        self._connections = self.waiting = Waiting(self, self.front.limits)

    def bind(self, *_: int) -> socket.socket:
        """Take the socket that listens already."""
        self.socket = self._listening
        return self._listening

    @property
    def can_add_keepalive_connection(self) -> bool:
        """Always: `Waiting` itself bounds the number of connections."""
        return bool(self.ready)

    def break_off(self) -> None:
        """End the connections of all workers, so that none of them waits for its client."""
        for worker in list(self.requests._threads):
            conn = worker.conn
            if conn is not None:
                with suppress(OSError, AttributeError):
                    conn.socket.shutdown(socket.SHUT_RDWR)

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        """Logs errors to stderr, except for clients that disconnect."""
        if level > 20 and "Broken pipe" not in msg:
            super().error_log(msg, level, traceback)
