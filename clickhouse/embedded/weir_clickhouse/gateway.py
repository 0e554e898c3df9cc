"""One request: dispatches its path, and turns errors into answers."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import cheroot.errors
import cheroot.server

from . import actions, metrics
from .body import Body
from .engine import Cancelled
from .errors import ServerError, http_status
from .front import Front, error_text
from .query import Query

#: Parameters in a URL.
_PARAMETERS = 1000
#: Seconds that a client may leave octets of its answer unread.
_PATIENCE = 300
#: The same before it has logged in: no stranger may hold a worker with unread answers.
_STRANGERS_PATIENCE = 2
_ACTIONS = {b"/weir/audit": actions.note, b"/weir/unlock": actions.unlock, b"/weir/remove": actions.remove}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_REASONS = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    411: "Length Required",
    413: "Content Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
}


class _BrokenOff(Exception):
    """The answer cannot be ended properly: close the connection as it is."""


class Gateway(cheroot.server.Gateway):
    """Answers one request."""

    req: Any

    def respond(self) -> None:
        """Answer; an exception leaves the connection to be closed."""
        req = self.req
        front: Front = req.server.front
        req.conn.socket.settimeout(_PATIENCE if req.conn.known else _STRANGERS_PATIENCE)
        self._head = req.method == b"HEAD"
        body: Body | None = None
        self._id = ""
        try:
            try:
                body = Body(req, front.largest_body)
                body.check()
                self._route(front, body)
            except ServerError as error:
                self._error(front, error, body)
            except UnicodeError as error:
                self._error(front, ServerError(36, f"The request is not UTF-8: {error}"), body)
        except (OSError, Cancelled, _BrokenOff):
            req.close_connection = True
            raise cheroot.errors.FatalSSLAlert from None
        finally:
            if body is not None and not body.ended:
                self._give_up(body)
            with suppress(OSError):
                req.conn.socket.settimeout(req.server.timeout)

    def _give_up(self, body: Body | None) -> None:
        """Before an early answer: read the received part of a small body, else close after the answer."""
        if body is None or not body.drain(8 << 20):
            self.req.close_connection = self.req.conn.lingers = True

    def _route(self, front: Front, body: Body) -> None:
        req = self.req
        path, method = req.path, req.method
        if method not in (b"GET", b"HEAD", b"POST", b"OPTIONS"):
            self._plain("501 Not Implemented", b"Not implemented\n")
        elif path in (b"/ping", b"/replicas_status"):
            self._plain("200 OK", b"Ok.\n")
        elif path == b"/metrics":
            self._plain("200 OK", front.metrics.get(), "text/plain; version=0.0.4; charset=utf-8")
        elif (action := _ACTIONS.get(path)) and method == b"POST":
            params = dict(urllib.parse.parse_qsl(req.qs.decode(errors="surrogateescape"), max_num_fields=10))
            done = action(front, Query(self, front, params, body), body, req.conn)
            self._plain("200 OK", done, "application/json; charset=UTF-8")
        elif path in (b"/", b"/query", b"/?"):
            try:
                found = urllib.parse.parse_qsl(
                    req.qs.decode(errors="surrogateescape"),
                    keep_blank_values=True,
                    errors="surrogateescape",
                    max_num_fields=_PARAMETERS,
                )
            except ValueError:
                raise ServerError(36, f"The URL has more than {_PARAMETERS} parameters") from None
            params = dict(found)
            if method in (b"GET", b"HEAD") and "query" not in params:
                self._plain("200 OK", b"Ok.\n")
            else:
                Query(self, front, params, body).answer()
        else:
            text = f"There is no handle {path[:200].decode(errors='replace')}\n\nUse / or /ping for health checks.\nSend queries from your program with POST method or GET /?query=...\n"
            self._plain("404 Not Found", text.encode())

    def admit(self, user: str) -> None:
        """A user has logged in on this connection, which gets more time to read."""
        conn = self.req.conn
        conn.known, conn.user = True, user
        conn.socket.settimeout(_PATIENCE)

    def header(self, name: str) -> str | None:
        """A header of the request."""
        value = self.req.inheaders.get(name.title().encode())
        return None if value is None else value.decode(errors="surrogateescape")

    def send_head(self, status: str, headers: Iterable[tuple[str, str]]) -> None:
        """Send status and headers; once only."""
        req = self.req
        req.status = status.encode()
        # A query id comes from the client: no line end in it may end a header.
        req.outheaders = [(name.encode(), _CONTROL.sub("?", value).encode(errors="replace")) for name, value in headers]
        # cheroot would read the rest of a body into memory; ours is read already, or the connection is closed.
        req.rfile = None
        req.sent_headers = True
        req.send_headers()

    def _plain(self, status: str, text: bytes, kind: str = "text/html; charset=UTF-8") -> None:
        self.send_head(status, [("Content-Type", kind), ("Content-Length", str(len(text)))])
        if not self._head:
            self.req.write(text)

    def _error(self, front: Front, error: ServerError, body: Body | None) -> None:
        """Answer with an error; if an answer has already begun, break it off."""
        metrics.errors.labels(str(error.code)).inc()
        self._give_up(body)
        if self.req.sent_headers:
            raise _BrokenOff
        text = error_text(front, error)
        status = http_status(error.code)
        headers = [
            ("Content-Type", "text/plain; charset=UTF-8"),
            ("X-ClickHouse-Exception-Code", str(error.code)),
            ("X-ClickHouse-Query-Id", self._id),
            ("X-ClickHouse-Server-Display-Name", "weir"),
            ("X-ClickHouse-Timezone", front.engine.timezone),
            ("Content-Length", str(len(text))),
        ]
        if status == 401:
            headers.append(("WWW-Authenticate", 'Basic realm="ClickHouse server HTTP API"'))
        self.send_head(f"{status} {_REASONS.get(status, 'Error')}", headers)
        if not self._head:
            self.req.write(text)
