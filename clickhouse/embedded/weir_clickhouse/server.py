"""ClickHouse's HTTP interface, in front of `Engine`.

The way of a request: `Gateway.respond` → path → `_query`: authenticate, take a place among the queries that run, read
as much of the body as holds the statement, refuse what must be refused, then `_insert` (the rest of the body streams
into the engine) or `_select` (the result streams out). An error before the first octet of the answer gets its status;
later ones end the body with ClickHouse's exception mark and break the connection off, so that no client takes the
answer for whole.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
import shutil
import threading
import time
import urllib.parse
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import cheroot.errors
import cheroot.server

from . import codec, framing, metrics
from .access import Access, User
from .connections import Connection, Limits, Stream, Waiting
from .engine import Cancelled, Engine, Request
from .errors import ServerError, http_status
from .quotas import Quotas
from .sessions import Sessions
from .statement import READS, STREAMS, Incomplete, Statement, parse, refuse_dangerous, refuse_values

#: As much of a body is read at once, octets.
_PIECE = 1 << 20
#: An answer up to this size is held back until the query has ended, so that a late error still gets its status.
_HOLD = 1 << 20
#: Longest statement without data, octets: the engine's own bound by default, and as far as max_query_size can raise it.
_STATEMENT, _LONGEST_STATEMENT = 256 << 10, 1 << 20
#: Up to this size the values of an administrator's INSERT may be expressions, octets: they are looked through first.
_EXPRESSIONS = 1 << 20
#: Until so much of a statement has come it is tried with each piece; later whenever it has doubled, so that its length
#: costs linear time, however it is cut.
_SMALL = 1 << 10
#: Parameters in a URL.
_PARAMETERS = 1000
#: Seconds that a client may leave octets of its answer unread.
_PATIENCE = 300
#: Parameters of the URL that are not settings.
_RESERVED = frozenset(
    [
        "query",
        "database",
        "user",
        "password",
        "query_id",
        "session_id",
        "session_timeout",
        "session_check",
        "close_session",
        "default_format",
        "compress",
        "decompress",
        "wait_end_of_query",
        "buffer_size",
        "quota_key",
        "stacktrace",
        "role",
        "client_protocol_version",
        "enable_http_compression",
        "http_zlib_compression_level",
        "send_progress_in_http_headers",
        "http_headers_progress_interval_ms",
        "cancel_http_readonly_queries_on_client_close",
        "http_write_exception_in_output_format",
        "http_response_buffer_size",
        "log_comment",
        "add_http_cors_header",
        "http_wait_end_of_query",
        "http_make_head_request",
        "http_native_compression_disable_checksumming_on_decompress",
        "wait_for_async_insert",
        "async_insert",
        "network_compression_method",
    ]
)
_CONTENT_TYPES = {
    "JSON": "application/json; charset=UTF-8",
    "XML": "application/xml; charset=UTF-8",
    "CSV": "text/csv; charset=UTF-8; header=absent",
    "CSVWithNames": "text/csv; charset=UTF-8; header=present",
    "TabSeparated": "text/tab-separated-values; charset=UTF-8",
    "TSV": "text/tab-separated-values; charset=UTF-8",
    "TabSeparatedWithNames": "text/tab-separated-values; charset=UTF-8",
    "JSONEachRow": "application/x-ndjson; charset=UTF-8",
    "Native": "application/octet-stream",
    "RowBinary": "application/octet-stream",
    "RowBinaryWithNamesAndTypes": "application/octet-stream",
    "Parquet": "application/octet-stream",
    "Arrow": "application/octet-stream",
    "ArrowStream": "application/octet-stream",
}


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass
class Front:
    """What all requests share. concurrent: statements at once; largest_body: octets, as sent and as decompressed.

    A quarter of the places is for those who write, and a reader has no more than a quarter unless access.yaml says
    otherwise: readers keep nobody's inserts out.
    """

    engine: Engine
    access: Access
    concurrent: int
    largest_body: int
    limits: Limits = field(default_factory=Limits)
    sessions: Sessions = field(default_factory=Sessions)
    quotas: Quotas = field(default_factory=Quotas)
    stopping: bool = False
    _running: int = 0
    _reading: int = 0
    _of_user: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.sizes = metrics.Sizes(
            lambda: self.engine.admin_rows(
                "SELECT database, sum(bytes_on_disk), sum(rows) FROM system.parts WHERE active GROUP BY database ORDER BY database"
            )
        )

    @contextmanager
    def place(self, user: User) -> Iterator[None]:
        """A place among the statements that run; raises error 202 where there is none for this user."""
        self._enter(user)
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._reading -= user.role.readonly
                self._of_user[user.name] -= 1
                metrics.in_flight.set(self._running)

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
        """Take nothing new and wait for what runs, no longer than `seconds`; whether all ended."""
        self.stopping = True
        end = time.monotonic() + seconds
        while self._running and time.monotonic() < end:
            time.sleep(0.02)
        return not self._running


class Server(cheroot.server.HTTPServer):
    """The listening server; `front` says what it serves."""

    ConnectionClass = Connection
    timeout: Any
    waiting: Waiting
    _connections: Any

    def __init__(self, address: tuple[str, int], front: Front) -> None:
        super().__init__(
            address, Gateway, minthreads=front.concurrent + 8, maxthreads=front.concurrent + 8, server_name="ClickHouse"
        )
        self.front = front
        self.max_request_header_size = 1 << 20
        self.timeout = front.limits.idle
        self.request_queue_size = 256
        self.shutdown_timeout = 5

    def prepare(self) -> None:
        """Listen."""
        super().prepare()
        self._connections._selector.close()
        self._connections = self.waiting = Waiting(self, self.front.limits)

    @property
    def can_add_keepalive_connection(self) -> bool:
        """Always: `Waiting` keeps their number down itself."""
        return bool(self.ready)

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        """Nothing for a client that hangs up; the rest to stderr."""
        if level > 20 and "Broken pipe" not in msg:
            super().error_log(msg, level, traceback)


class _BrokenOff(Exception):
    """The answer cannot be ended properly: the connection is to be closed as it is."""


class Body:
    """The body of a request, in pieces, as sent; raises where it is cut short or too large."""

    def __init__(self, req: Any, largest: int) -> None:
        self._file: Stream = req.conn.rfile
        self._chunked: bool = req.chunked_read
        self._left = 0 if self._chunked else int(req.inheaders.get(b"Content-Length", 0))
        self._largest, self._seen = largest, 0
        self._broken = False
        self.ended = not self._chunked and not self._left
        if self._left < 0:
            raise ServerError(102, "Content-Length is below 0")

    def check(self) -> None:
        """Raise where the body is known to be too large."""
        if self._left > self._largest:
            raise self._too_large()

    def _too_large(self) -> ServerError:
        metrics.refused.labels("body_too_large").inc()
        return ServerError(307, f"The request's body is larger than the limit of {self._largest} octets")

    def _too_slow(self) -> ServerError:
        self._broken = True
        metrics.refused.labels("too_slow").inc()
        return ServerError(209, "Timeout exceeded while reading the request's body: it came too slowly")

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self._left and self._chunked and not self.ended:
            self._next_chunk()
        if self.ended or not self._left:
            self.ended = True
            raise StopIteration
        try:
            # read1 gives what has come, so that a slow sender's rows go on at once.
            piece: bytes = self._file.read1(min(_PIECE, self._left))
        except TimeoutError:
            raise self._too_slow() from None
        except OSError as error:
            raise ServerError(210, f"The body could not be read: {error}") from None
        if not piece:
            raise ServerError(210, "The client closed the connection in the middle of the body")
        self._left -= len(piece)
        self._seen += len(piece)
        metrics.octets_in.inc(len(piece))
        if not self._left:
            if self._chunked:
                if self._line() != b"":
                    self._broken = True
                    raise ServerError(102, "Chunked body: a chunk is longer than it says")
            else:
                self.ended = True
        return piece

    def _next_chunk(self) -> None:
        # Until its size is known to be one, nothing more can be read of this body.
        self._broken = True
        text = self._line().split(b";")[0].strip()
        try:
            if not text or not set(text) <= set(b"0123456789abcdefABCDEF"):
                raise ValueError
            self._left = int(text, 16)
        except ValueError:
            raise ServerError(102, f"Chunked body: not a size: {text[:20]!r}") from None
        if not self._left:
            while self._line():
                pass
            self.ended = True
        self._broken = False
        if self._seen + self._left > self._largest:
            raise self._too_large()

    def _line(self) -> bytes:
        try:
            line: bytes = self._file.readline(4096)
        except TimeoutError:
            raise self._too_slow() from None
        except OSError as error:
            raise ServerError(210, f"The body could not be read: {error}") from None
        if not line.endswith(b"\n"):
            raise ServerError(210, "The client closed the connection in the middle of the body")
        return line.rstrip(b"\r\n")

    def drain(self, octets: int) -> bool:
        """Read what is left, as far as it has come and is no more than `octets`; whether the body is at its end."""
        if self._broken:
            return False
        self._largest = 1 << 62
        self._file.allow(0)
        with suppress(ServerError):
            for piece in self:
                octets -= len(piece)
                if octets < 0:
                    break
        return self.ended


class Gateway(cheroot.server.Gateway):
    """Answers one request."""

    req: Any

    def respond(self) -> None:
        """Answer; an exception leaves the connection to be closed."""
        req = self.req
        front: Front = req.server.front
        req.conn.socket.settimeout(_PATIENCE)
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
        """Before an early answer: read what has come of a small body, else close after the answer."""
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
            front.sizes.refresh()
            free = shutil.disk_usage(front.engine.directory).free
            self._plain("200 OK", metrics.text(free), "text/plain; version=0.0.4; charset=utf-8")
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
            text = f"There is no handle {path.decode(errors='replace')}\n\nUse / or /ping for health checks.\nSend queries from your program with POST method or GET /?query=...\n"
            self._plain("404 Not Found", text.encode())

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
        """Answer with an error; where an answer has begun already, break it off."""
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


def error_text(front: Front, error: ServerError) -> bytes:
    """The error as ClickHouse writes it into a body."""
    return f"{error} (version {front.engine.version} (official build))\n".encode(errors="replace")


class Query:
    """One statement sent over HTTP, from its parameters to the end of its answer."""

    def __init__(self, gateway: Gateway, front: Front, params: dict[str, str], body: Body) -> None:
        self._gateway, self._front, self._params, self._body = gateway, front, params, body
        self._id = params.get("query_id") or str(uuid.uuid4())
        gateway._id = self._id

    def answer(self) -> None:
        """Run the statement and answer."""
        user = self._authenticate()
        # A connection is its users' from the first right password on, and one without has had nothing of its body read.
        self._gateway.req.conn.known = True
        with self._front.place(user):
            begun = time.monotonic()
            kind = self._run(user)
            metrics.seconds.labels(kind).observe(time.monotonic() - begun)

    def _authenticate(self) -> User:
        gateway, params = self._gateway, self._params
        name, password = gateway.header("X-ClickHouse-User"), gateway.header("X-ClickHouse-Key")
        authorization = gateway.header("Authorization")
        if name is None and authorization and authorization[:6].lower() == "basic ":
            try:
                name, _, password = base64.b64decode(authorization[6:], validate=True).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError):
                name = None
        if name is None:
            name, password = params.get("user", "default"), params.get("password", "")
        try:
            return self._front.access.authenticate(name, password or "", self._gateway.req.conn.remote_addr or "127.0.0.1")
        except ServerError:
            metrics.refused.labels("authentication").inc()
            raise

    def _statement(self, pieces: Iterator[bytes]) -> tuple[Statement, Iterator[bytes]]:
        """The statement, and the data that follow it."""
        longest = self._longest()
        query = self._params.get("query")
        if query is not None:
            text = query.encode("utf-8", "surrogateescape")
            if text.strip():
                statement = _parse(text, longest, complete=True)
                if statement.data >= 0:
                    # Data may begin in the URL and go on in the body.
                    return statement, _joined(text[statement.data :], pieces)
                # A statement may be continued by the body.
                rest = b"".join(_bounded(pieces, longest))
                if not rest.strip():
                    return statement, iter(())
                text += b"\n" + rest
                statement = _parse(text, longest, complete=True)
                return statement, iter((text[statement.data :],) if statement.data >= 0 else ())
        head = bytearray()
        tried = 0
        for piece in pieces:
            head += piece
            if _SMALL <= len(head) < 2 * tried:
                continue
            tried = len(head)
            with suppress(Incomplete):
                text = bytes(head)
                statement = _parse(text, longest, complete=False)
                return statement, _joined(text[statement.data :], pieces)
        text = bytes(head)
        statement = _parse(text, longest, complete=True)
        return statement, iter((text[statement.data :],) if statement.data >= 0 else ())

    def _longest(self) -> int:
        """Octets that the statement may have."""
        asked = self._params.get("max_query_size", "")
        return min(max(_STATEMENT, int(asked[:10]) if asked.isdecimal() else 0), _LONGEST_STATEMENT)

    def _run(self, user: User) -> str:
        params, gateway, front = self._params, self._gateway, self._front
        role = user.role
        stream = gateway.req.conn.rfile
        stream.allow(front.limits.statement)
        pieces: Iterator[bytes] = codec.decode(self._body, gateway.header("Content-Encoding") or "")
        if params.get("decompress") == "1":
            pieces = framing.decode(pieces)
        statement, data = self._statement(_bounded(pieces, front.largest_body))
        stream.allow(front.limits.data, front.limits.pace)
        named = {name[6:]: value for name, value in params.items() if name.startswith("param_")}
        try:
            refuse_dangerous(statement, named)
            role.check(statement)
            role.check_calls(statement, front.engine.table_functions, front.engine.functions)
            settings = {name: value for name, value in params.items() if name not in _RESERVED and not name.startswith("param_")}
            if gateway.req.method in (b"GET", b"HEAD") and not role.readonly:
                if statement.kind not in READS:
                    raise ServerError(
                        164,
                        "Cannot execute query in readonly mode. For queries over HTTP, method GET implies readonly. You should use method POST for modifying queries",
                    )
                settings["readonly"] = "2"
            expressions = False
            if statement.kind == "INSERT" and role.is_admin and self._data_format(statement).lower() == "values":
                data, expressions = _looked_through(data)
        except ServerError:
            metrics.refused.labels("statement").inc()
            raise
        for value in named.values():
            value.encode()
        database = params.get("database") or gateway.header("X-ClickHouse-Database")
        with (
            front.quotas.charge(user.name, f"weir_{role.name}", role.quotas) as spent,
            front.sessions.use(user.name, params) as session,
        ):
            request = Request(
                role,
                database or session.database or self._default_database(),
                {**session.settings, **settings},
                named,
                f"{self._id} {params.get('log_comment', '')}".rstrip(),
                expressions,
                spent,
            )
            return self._execute(statement, data, request, session)

    def _data_format(self, statement: Statement) -> str:
        """The format of an INSERT's data."""
        named = statement.format or self._gateway.header("X-ClickHouse-Format") or self._params.get("default_format")
        return named or "Values"

    def _default_database(self) -> str | None:
        name = self._front.access.database
        return name if name and self._front.engine.has_database(name) else None

    def _execute(self, statement: Statement, data: Iterator[bytes], request: Request, session: Any) -> str:
        engine = self._front.engine
        with session.connection(engine, request, statement) as connection:
            report = engine.classify(connection, statement)
            if report["statement_count"] > 1:
                raise ServerError(62, "Syntax error (Multi-statements are not allowed)")
            if request.role.readonly and report["query_class"] not in ("READ_ONLY",) and statement.kind in READS:
                raise ServerError(164, f"Cannot execute query in readonly mode: it is {report['query_class']}")
            if statement.kind == "INSERT" and statement.data >= 0:
                written = engine.insert(connection, statement, self._data_format(statement), data)
                metrics.inserts.labels(request.role.name).inc()
                metrics.rows_inserted.inc(written.rows)
                self._head("TabSeparated", {"written_rows": written.rows, "written_bytes": written.octets}, length=0)
                return "insert"
            metrics.queries.labels(request.role.name).inc()
            wanted = self._gateway.header("X-ClickHouse-Format") or self._params.get("default_format") or "TabSeparated"
            if statement.format:
                wanted = statement.format
            if statement.kind in STREAMS:
                self._send(wanted, engine.stream(connection, statement, request, wanted, self._gateway.req.conn.socket))
                return "select"
            result = engine.run(connection, statement, request, wanted)
            session.remember(engine, connection, statement)
            self._send(wanted, iter((result,)))
            return "select" if statement.kind in READS else "other"

    def _send(self, output_format: str, pieces: Iterator[bytes]) -> None:
        """Send a result: what is small at once, with its length; what is large as it comes."""
        hold = (
            _LARGE_HOLD if "1" in (self._params.get("wait_end_of_query"), self._params.get("http_wait_end_of_query")) else _HOLD
        )
        encoding = None
        if self._params.get("compress") == "1":
            encode: codec.Encoder = framing.FrameEncoder()
        else:
            if self._params.get("enable_http_compression") in ("1", "true"):
                encoding = codec.choose(self._gateway.header("Accept-Encoding") or "")
            encode = codec.encoder(encoding)
        held: list[bytes] = []
        size = 0
        try:
            for piece in pieces:
                held.append(piece)
                size += len(piece)
                if size > hold:
                    break
            else:
                out = b"".join([encode.encode(piece) for piece in held] + [encode.finish()])
                self._head(output_format, {}, length=len(out), encoding=encoding if out else None)
                self._write(out)
                return
            tag = secrets.token_hex(8)
            self._head(output_format, {}, encoding=encoding, tag=tag)
            for piece in held:
                self._write(encode.encode(piece))
            held.clear()
            try:
                for piece in pieces:
                    self._write(encode.encode(piece))
            except ServerError as error:
                text = error_text(self._front, error)
                mark = b"\r\n__exception__\r\n%s\r\n%s%d %s\r\n__exception__\r\n" % (tag.encode(), text, len(text), tag.encode())
                self._write(encode.encode(mark) + encode.finish())
                raise
            self._write(encode.finish())
        except (OSError, Cancelled):
            metrics.cancelled.inc()
            raise
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:
                close()

    def _head(
        self,
        output_format: str,
        summary: dict[str, int],
        *,
        length: int | None = None,
        encoding: str | None = None,
        tag: str | None = None,
    ) -> None:
        keys = (
            "read_rows",
            "read_bytes",
            "written_rows",
            "written_bytes",
            "total_rows_to_read",
            "result_rows",
            "result_bytes",
            "elapsed_ns",
        )
        if summary:
            summary = {**summary, "result_rows": summary["written_rows"], "result_bytes": summary["written_bytes"]}
        headers = [
            ("Content-Type", _CONTENT_TYPES.get(output_format, "text/plain; charset=UTF-8")),
            ("X-ClickHouse-Server-Display-Name", "weir"),
            ("X-ClickHouse-Query-Id", self._id),
            ("X-ClickHouse-Format", output_format),
            ("X-ClickHouse-Timezone", self._front.engine.timezone),
            ("X-ClickHouse-Summary", json.dumps({key: str(summary.get(key, 0)) for key in keys}, separators=(",", ":"))),
        ]
        if length is not None:
            headers.append(("Content-Length", str(length)))
        if encoding:
            headers.append(("Content-Encoding", encoding))
        if tag:
            headers.append(("X-ClickHouse-Exception-Tag", tag))
        self._gateway.send_head("200 OK", headers)

    def _write(self, data: bytes) -> None:
        if data and not self._gateway._head:
            metrics.octets_out.inc(len(data))
            self._gateway.req.write(data)


#: The bound of an answer held back by wait_end_of_query.
_LARGE_HOLD = 64 << 20


def _parse(text: bytes, longest: int, *, complete: bool) -> Statement:
    """As `parse`, of a text that may be as long as any where its statement is not."""
    statement = None
    if complete and len(text) <= longest:
        return parse(text, complete=True)
    with suppress(Incomplete):
        statement = parse(text[:longest], complete=False)
    if statement is None:
        if len(text) <= longest:
            raise Incomplete
        raise ServerError(62, f"Max query size exceeded: the statement is longer than {longest} octets")
    return statement


def _looked_through(data: Iterator[bytes]) -> tuple[Iterator[bytes], bool]:
    """The same data, and whether they are few enough to have been looked through; raises where they must not be taken."""
    held = bytearray()
    for piece in data:
        held += piece
        if len(held) > _EXPRESSIONS:
            return _joined(bytes(held), data), False
    refuse_values(bytes(held))
    return iter((bytes(held),)), True


def _joined(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _bounded(pieces: Iterable[bytes], largest: int) -> Iterator[bytes]:
    """The same pieces, as long as they are no more than `largest` octets together."""
    seen = 0
    for piece in pieces:
        seen += len(piece)
        if seen > largest:
            metrics.refused.labels("body_too_large").inc()
            raise ServerError(307, f"The request's body is larger than the limit of {largest} octets")
        yield piece
