"""One statement sent over HTTP, from its parameters to the end of its answer.

The steps: authenticate, take a place among the running queries, read the part of the body that contains the statement, refuse
forbidden statements, then insert (the rest of the body streams into the engine) or select (the result streams out). An error
before the first octet of the answer gets its status; later ones end the body with ClickHouse's exception mark and close
the connection, so that no client mistakes the answer for a complete one.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from . import codec, forms, framing, metrics, reading
from .access import Role, User
from .audit import Asked
from .body import Body, bounded
from .engine import OUT_OF_MEMORY, Cancelled, ExternalTooLarge, Request, comment
from .errors import ServerError
from .front import Front, error_text
from .refusals import assigned
from .sessions import Session
from .statement import READS, STREAMS, Statement

if TYPE_CHECKING:
    from .gateway import Gateway

#: An answer up to this size is held back until the query has ended, so that a late error still gets its status.
_HOLD = 1 << 20
#: The bound of an answer held back by wait_end_of_query.
_LARGE_HOLD = 64 << 20
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
#: Formats with one line for each row.
_LINES = frozenset(
    ["CSV", "CSVWithNames", "JSONCompactEachRow", "JSONEachRow", "TabSeparated", "TabSeparatedWithNames", "TSV", "TSVWithNames"]
)


class _TooSmall(Exception):
    """A statement needs more memory than its share, and its answer has not begun."""


class Query:
    """One statement sent over HTTP, from its parameters to the end of its answer."""

    def __init__(self, gateway: Gateway, front: Front, params: dict[str, str], body: Body) -> None:
        self._gateway, self._front, self._params, self._body = gateway, front, params, body
        self._has_room = False
        self._id = params.get("query_id") or str(uuid.uuid4())
        gateway._id = self._id

    def answer(self) -> None:
        """Run the statement and answer."""
        user = self.log_in()
        with (
            self._front.audit.question(user, self._peer, self._gateway.header, self._params) as asked,
            self._front.place(user),
            ExitStack() as self._room,
        ):
            self._asked = asked
            begun = time.monotonic()
            kind = self._run(user, asked)
            metrics.seconds.labels(kind).observe(time.monotonic() - begun)

    @property
    def _peer(self) -> str:
        """The address of the client."""
        return self._front.people.address(self._gateway.req.conn.remote_addr or "127.0.0.1", self._gateway.header)

    def log_in(self) -> User:
        """The user of this request. Raises ServerError."""
        user = self._authenticate()
        # A connection belongs to its users from the first correct password on; before that, none of its body is read.
        self._gateway.admit(user.name)
        return user

    def _authenticate(self) -> User:
        gateway, params = self._gateway, self._params
        name, password = gateway.header("X-ClickHouse-User"), gateway.header("X-ClickHouse-Key")
        authorization = gateway.header("Authorization")
        if name is None and authorization and authorization[:6].lower() == "basic ":
            try:
                name, _, password = base64.b64decode(authorization[6:], validate=True).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError):
                name = None
        if name is None and authorization and authorization[:7].lower() == "bearer ":
            return self._counted("a token", lambda: self._front.people.by_token(authorization[7:].strip()))
        if name is None:
            name, password = params.get("user", "default"), params.get("password", "")
        asked, given = name, password or ""
        return self._counted(name, lambda: self._front.people.by_password(asked, given, self._peer))

    def _counted(self, name: str, login: Callable[[], User]) -> User:
        try:
            return login()
        except ServerError:
            metrics.refused.labels("authentication").inc()
            self._front.audit.login_failed(self._peer, name.encode(errors="replace").decode())
            raise

    def _run(self, user: User, asked: Asked) -> str:
        params, gateway, front = self._params, self._gateway, self._front
        role = user.role
        stream = gateway.req.conn.rfile
        stream.allow(front.limits.statement)
        pieces: Iterator[bytes] = codec.decode(self._body, gateway.header("Content-Encoding") or "")
        if params.get("decompress") == "1":
            pieces = framing.decode(pieces)
        pieces = asked.hear(bounded(pieces, front.largest_body))
        form = None
        if (mark := forms.boundary(gateway.header("Content-Type") or "")) is not None:
            asked.form = True
            stream.allow(front.limits.data)
            form = forms.read(pieces, mark, lambda: self._take_room(user))
            params = self._params = forms.parameters(form, params)
            pieces = iter(())
        statement, data = reading.statement(params, pieces)
        stream.allow(front.limits.data, front.limits.pace)
        named = {name[6:]: value for name, value in params.items() if name.startswith("param_")}
        asked.read(statement, named)
        try:
            tables = forms.tables(form, params, None if role.is_admin else role.allowed.formats) if form else ()
            asked.add(tables)
            if tables:
                self._take_room(user)
            front.check(role, statement, named)
            settings = {name: value for name, value in params.items() if name not in _RESERVED and not name.startswith("param_")}
            if gateway.req.method in (b"GET", b"HEAD") and not role.readonly:
                if statement.kind not in READS:
                    raise ServerError(
                        164,
                        "Cannot execute query in readonly mode. For queries over HTTP, method GET implies readonly. You should use method POST for modifying queries",
                    )
                settings["readonly"] = "2"
            if role.readonly:
                # A connection that may only read accepts them where they change nothing.
                settings |= assigned(statement)
            expressions = False
            if statement.kind == "INSERT" and statement.data >= 0 and self._data_format(statement).lower() == "values":
                if role.is_admin:
                    data, expressions = reading.looked_through(data)
                elif named:
                    data, expressions = reading.with_parameters(data)
                else:
                    data = reading.literals(data)
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
                database or session.database or self._default_database(role),
                {**session.settings, **settings},
                named,
                comment(self._id, params.get("log_comment", "")),
                expressions,
                spent,
                tables,
            )
            asked.begin(spent, request.database)
            self._session = session
            return self._execute(user, statement, data, request, session)

    def _take_room(self, user: User) -> None:
        """Room for a large form, or for external data, until the end of this request; once only. Raises ServerError."""
        if not self._has_room:
            self._room.enter_context(self._front.outside(user))
            self._has_room = True

    def _data_format(self, statement: Statement) -> str:
        """The format of an INSERT's data."""
        named = statement.format or self._gateway.header("X-ClickHouse-Format") or self._params.get("default_format")
        return named or "Values"

    def _default_database(self, role: Role) -> str | None:
        name = role.database or self._front.access.database
        return name if name and self._front.engine.has_database(name) else None

    def _execute(self, user: User, statement: Statement, data: Iterator[bytes], request: Request, session: Session) -> str:
        if statement.kind != "INSERT" or statement.data < 0:
            metrics.queries.labels(request.role.name).inc()
        if not request.role.readonly:
            return self._attempt(statement, data, request, session)
        memory = self._front.memory
        # One customer must leave others theirs.
        alone, most = (user.name, memory.most // 2) if request.role.rows else ("", memory.most)
        with memory.small() as share, suppress(_TooSmall):
            return self._try(statement, data, replace(request, share=share, again=True), session)
        share = memory.most // 4
        with memory.large(share, alone), suppress(_TooSmall):
            return self._try(statement, data, replace(request, share=share, again=True, made=[]), session)
        with memory.large(most, alone):
            return self._attempt(statement, data, replace(request, share=most, made=[]), session)

    def _try(self, statement: Statement, data: Iterator[bytes], request: Request, session: Session) -> str:
        """Run a reader's statement within its share of the memory. Raises _TooSmall if it must run again with a larger one."""
        try:
            return self._attempt(statement, data, request, session)
        except ExternalTooLarge:
            raise
        except ServerError as error:
            if error.code == OUT_OF_MEMORY and not self._gateway.req.sent_headers:
                raise _TooSmall from None
            raise

    def _attempt(self, statement: Statement, data: Iterator[bytes], request: Request, session: Session) -> str:
        engine = self._front.engine
        with session.connection(engine, request, statement) as connection:
            report = engine.classify(connection, statement)
            if report["statement_count"] > 1:
                raise ServerError(62, "Syntax error (Multi-statements are not allowed)")
            if not request.role.is_admin and report["query_class"] != "READ_ONLY" and statement.kind in READS:
                error = engine.syntax_error(statement.text)
                raise error or ServerError(164, f"Cannot execute query in readonly mode: it is {report['query_class']}")
            if statement.kind == "INSERT" and statement.data >= 0:
                written = engine.insert(connection, statement, request, self._data_format(statement), data)
                metrics.inserts.labels(request.role.name).inc()
                metrics.rows_inserted.inc(written.rows)
                self._asked.inserted = written.rows
                session.finish()
                self._head("TabSeparated", {"written_rows": written.rows, "written_bytes": written.octets}, length=0)
                return "insert"
            wanted = self._gateway.header("X-ClickHouse-Format") or self._params.get("default_format") or "TabSeparated"
            if statement.format:
                wanted = statement.format
            request.role.check_format(wanted)
            if statement.kind in STREAMS:
                self._send(wanted, engine.stream(connection, statement, request, wanted, self._gateway.req.conn.socket))
                return "select"
            result = engine.run(connection, statement, request, wanted)
            session.remember(engine, connection, statement)
            self._send(wanted, iter((result,)))
            return "select" if statement.kind in READS else "other"

    def _send(self, output_format: str, pieces: Iterator[bytes]) -> None:
        """Send a result: a small one whole, with its length; a large one as the engine produces it."""
        hold = self._hold()
        encoding = None
        if self._params.get("compress") == "1":
            encode: codec.Encoder = framing.FrameEncoder()
        else:
            if self._params.get("enable_http_compression") in ("1", "true"):
                encoding = codec.choose(self._gateway.header("Accept-Encoding") or "")
            encode = codec.encoder(encoding)
        held: list[bytes] = []
        size = lines = 0
        begun = False
        try:
            for piece in pieces:
                held.append(piece)
                size += len(piece)
                if size > hold:
                    break
            else:
                out = b"".join([encode.encode(piece) for piece in held] + [encode.finish()])
                self._session.finish()
                self._head(output_format, {}, length=len(out), encoding=encoding if out else None)
                self._write(out)
                return
            tag = secrets.token_hex(8)
            self._head(output_format, {}, encoding=encoding, tag=tag)
            for piece in held:
                self._write(encode.encode(piece))
                lines += piece.count(b"\n")
            held.clear()
            begun = True
            try:
                for piece in pieces:
                    self._write(encode.encode(piece))
                    lines += piece.count(b"\n")
            except ServerError as error:
                text = error_text(self._front, error)
                mark = b"\r\n__exception__\r\n%s\r\n%s%d %s\r\n__exception__\r\n" % (tag.encode(), text, len(text), tag.encode())
                self._write(encode.encode(mark) + encode.finish())
                raise
            begun = False
            self._session.finish()
            self._write(encode.finish())
        except (OSError, Cancelled):
            metrics.cancelled.inc()
            raise
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:
                close()
            if begun:
                # Rows of an answer that did not end: its lines, or what was read for it if it has none.
                self._asked.broke_off(lines if output_format in _LINES else None)

    def _hold(self) -> int:
        """Octets of an answer that wait for the end of the query: as the client asks, since only an error before the first octet
        has a status of its own."""
        waits = (self._params.get("wait_end_of_query"), self._params.get("http_wait_end_of_query"))
        if "1" in waits:
            return _LARGE_HOLD
        for name in ("http_response_buffer_size", "buffer_size"):
            if (size := self._params.get(name, "")).isdecimal():
                return min(int(size[:9]), _LARGE_HOLD)
        return 0 if "0" in waits else _HOLD

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
            self._asked.octets += len(data)
            self._gateway.req.write(data)
