"""The engine: one chDB in one directory, a connection of its own for every request.

A result is streamed through a named pipe: the engine itself writes it, in any of its formats, and stops when nobody
reads. (chDB's own streaming calls repeat a format's header in every chunk.) A connection assumes the user's role and
settings before it sees the client's statement, so nothing leaks from one request to the next.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import socket
import sys
import threading
import urllib.parse
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from chdb.state.sqlitelike import Connection

from . import deduplication, metrics
from .access import Access, Role, users_xml
from .allowed import Vocabulary
from .errors import ServerError
from .forms import External
from .quotas import Spent
from .reading import literals
from .refusals import VALUES_SETTINGS
from .statement import Statement, hides_comment, parse, with_input, with_output

_FORMAT = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: How the engine names the pipe of an insert in its messages.
_OWN_PIPE = re.compile(r" ?\(in file/uri /proc/self/fd/\d+\):?|/proc/self/fd/\d+")
#: Largest piece read from a pipe at once; the pipe is made as large.
PIECE = 1 << 20
#: The engine's log of statements. It names each by an id of the engine's own, and shows the front's pipes; the view query_log has
#: the client's id, comment and text.
STATEMENT_LOG = "statement_log"
_QUERY_LOG = rf"""
CREATE OR REPLACE VIEW system.query_log AS
SELECT
    * REPLACE (
        if(match(log_comment, '^[^ ]+ (.* )?[0-9a-f]{{32}}$'), decodeURLComponent(extract(log_comment, '^[^ ]+')), query_id) AS query_id,
        if(match(log_comment, '^[^ ]+ (.* )?[0-9a-f]{{32}}$'), decodeURLComponent(extract(log_comment, '^[^ ]+')), initial_query_id)
            AS initial_query_id,
        replaceRegexpOne(log_comment, '^[^ ]+ ((.*) )?[0-9a-f]{{32}}$', '\2') AS log_comment,
        replaceRegexpOne(replaceRegexpOne(query,
            '\s INTO OUTFILE ''[^'']*/pipes/[0-9a-f]{{32}}'' APPEND COMPRESSION ''none'' (FORMAT \w+) $', '\n\1'),
            ' FROM INFILE ''/proc/self/fd/\d+'' COMPRESSION ''none'' ', ' ') AS query
    )
FROM system.{STATEMENT_LOG}
"""
#: How often to check dictionaries, seconds.
_REFRESH_S = 2


#: Settings for reading external data: in one thread, within little memory.
_LOADING = {"input_format_parallel_parsing": "0", "max_insert_threads": "1"}
#: The error of a statement that needs more memory than it may have.
OUT_OF_MEMORY = 241
#: Errors of a statement that has read nothing yet: of syntax, types, names and rights.
_BEFORE_START = frozenset([42, 43, 46, 47, 48, 53, 60, 62, 81, 115, 164, 456, 457, 497])


class EngineBusy(Exception):
    """Another process uses the directory; the message names it."""


class ExternalTooLarge(ServerError):
    """The external data of a request need more memory than they may."""


class Cancelled(Exception):
    """The client went away, and the query was stopped."""


@dataclass(frozen=True)
class Request:
    """The context of a query: user, database, settings and parameters.

    comment: its log_comment in the query log. expressions: whether the values of an INSERT may be expressions. spent:
    receives its cost. tables: its external data; made: those that exist. share: octets of memory that a reader's query may take;
    again: it runs once more, with a larger share, if it needs more than that. tag: unique and secret; it ends log_comment and
    identifies the query to stop it.
    """

    role: Role
    database: str | None
    settings: Mapping[str, str]
    params: Mapping[str, str]
    comment: str
    expressions: bool = False
    spent: Spent = field(default_factory=Spent)
    tables: tuple[External, ...] = ()
    made: list[str] = field(default_factory=list)
    share: int = 0
    again: bool = False
    tag: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass(frozen=True)
class Written:
    """Rows and octets that an INSERT wrote. They include blocks dropped as repeats, as in a clickhouse-server."""

    rows: int
    octets: int


class Engine:
    """The engine over one directory. `start` opens it, `stop` closes it; the directory is locked in between."""

    def __init__(self, directory: Path, backups: Path, access: Access, *, memory: int, threads: int, config: str = "") -> None:
        """directory, backups: for data and for backups, created if absent. memory: bound of the engine, octets. threads:
        concurrent queries.

        config: elements of a further ClickHouse configuration (XML), for storage policies and the like.
        """
        self.directory, self.backups = directory.resolve(), backups.resolve()
        self._access, self.memory, self._threads, self._config = access, memory, threads, config
        #: Octets of memory that the external data of one request may take.
        self.external = memory // 64
        self._front = self.directory / "front"
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="query")
        self._lock: Any = None
        self._keep: Connection | None = None
        self._url = ""
        self.version = ""
        self.timezone = ""
        self.known = Vocabulary()
        self._current: dict[str, str] = {}
        self._databases: frozenset[str] = frozenset()
        self._tokens = deduplication.OnDisk(())
        self._stopping = threading.Event()
        self._refresher: threading.Thread | None = None

    def start(self) -> None:
        """Lock the directory and open the engine. Raises EngineBusy, OSError, ServerError."""
        self._front.mkdir(parents=True, exist_ok=True)
        # Opened without truncating: the error message shows the text that the owner wrote into the file.
        self._lock = open(self._front / "lock", "a+", encoding="utf-8")  # noqa: SIM115
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.seek(0)
            owner = self._lock.read().strip() or "unknown"
            self._lock.close()
            raise EngineBusy(f"{self.directory} is in use by process {owner}") from None
        self._lock.truncate(0)
        self._lock.write(f"{os.getpid()}\n")
        self._lock.flush()
        for name in ("user_files", "format_schemas", "pipes"):
            (self._front / name).mkdir(exist_ok=True)
        for stale in (self._front / "pipes").iterdir():
            stale.unlink()
        (self._front / "users.xml").write_text(users_xml(self._access), encoding="utf-8")
        (self._front / "config.xml").write_text(self._config_xml(), encoding="utf-8")
        # The engine's own log in stores of earlier versions.
        logs = self.directory / "engine/data/system"
        if (logs / "query_log").is_dir() and not (logs / STATEMENT_LOG).exists():
            (logs / "query_log").rename(logs / STATEMENT_LOG)
        # The engine takes what follows the question mark apart, and decodes it.
        self._url = f"{self.directory / 'engine'}?config-file={urllib.parse.quote(str(self._front / 'config.xml'))}"
        try:
            self._keep = Connection(self._url)
            admin = next((role for role in self._access.roles.values() if role.is_admin), None)
            if admin is None:
                raise ServerError(36, "access.yaml has no role with the grant all")
            self._admin = admin
            self._take_back_lost_inserts()
            disks = self.admin_rows("SELECT path FROM system.disks WHERE name != 'backups'")
            self._tokens = deduplication.OnDisk(path for (path,) in disks)
            self.version, self.timezone = self.admin_rows("SELECT version(), timezone()")[0]
            self.known = Vocabulary.of(self.admin_rows)
            self.admin_rows("SYSTEM FLUSH LOGS")
            self.admin_rows(_QUERY_LOG)
            plain = Request(self._admin, None, {}, {}, "front")
            with self.connection(plain) as connection:
                self._current = dict(self.changed(connection))
        except RuntimeError as error:
            raise ServerError.from_engine(str(error)) from None
        self._refresher = threading.Thread(target=self._refresh_dictionaries, name="dictionaries", daemon=True)
        self._refresher.start()

    def stop(self) -> None:
        """Close the engine and release the directory; queries must have ended."""
        self._stopping.set()
        if self._refresher is not None:
            self._refresher.join()
            self._refresher = None
        self._pool.shutdown(wait=True)
        if self._keep is not None:
            self._keep.close()
            self._keep = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _refresh_dictionaries(self) -> None:
        """Reload dictionaries whose lifetime is over: a clickhouse-server does so by itself, chDB does not."""
        while not self._stopping.wait(_REFRESH_S):
            try:
                due = self.admin_rows(
                    "SELECT database, name FROM system.dictionaries WHERE status IN ('LOADED', 'FAILED') AND lifetime_max > 0"
                    " AND last_successful_update_time + lifetime_max < now()"
                )
            except (RuntimeError, ServerError) as error:
                _end_with_the_engine(str(error))
                continue
            for database, name in due:
                # A dictionary whose source cannot be read keeps its data, and is retried.
                with suppress(RuntimeError, ServerError):
                    self.admin_rows(f"SYSTEM RELOAD DICTIONARY {identifier(database)}.{identifier(name)}")

    def _take_back_lost_inserts(self) -> None:
        tables: dict[tuple[str, str], list[str]] = {}
        for database, name, path in self.admin_rows(
            "SELECT database, name, arrayJoin(data_paths) FROM system.tables"
            " WHERE engine LIKE '%MergeTree' AND database != 'system'"
        ):
            tables.setdefault((database, name), []).append(path)
        for (database, name), paths in tables.items():
            logs = deduplication.logs(paths)
            if not logs:
                continue
            own = f"database = {quote(database)} AND table = {quote(name)}"
            parts = self.admin_rows(f"SELECT name FROM system.parts WHERE {own} AND active")
            lost = deduplication.lost(logs, (part for (part,) in parts))
            if lost:
                table = f"{identifier(database)}.{identifier(name)}"
                self.admin_rows(f"DETACH TABLE {table} SYNC")
                try:
                    deduplication.take_back(logs[-1], lost)
                finally:
                    self.admin_rows(f"ATTACH TABLE {table}")

    def _config_xml(self) -> str:
        cores = os.cpu_count() or 1
        front = escape(str(self._front))
        log = "<partition_by>toYYYYMMDD(event_date)</partition_by><ttl>event_date + INTERVAL 2 DAY DELETE</ttl><flush_interval_milliseconds>10000</flush_interval_milliseconds>"
        return (
            "<clickhouse>\n"
            f"<users_config>{front}/users.xml</users_config>\n"
            f"<user_files_path>{front}/user_files/</user_files_path>\n"
            f"<format_schema_path>{front}/format_schemas/</format_schema_path>\n"
            "<timezone>UTC</timezone>\n"
            "<backups><allowed_disk>backups</allowed_disk></backups>\n"
            f"<storage_configuration><disks><backups><type>local</type><path>{escape(str(self.backups))}/</path>"
            "<skip_access_check>true</skip_access_check></backups></disks></storage_configuration>\n"
            f"<max_server_memory_usage>{self.memory}</max_server_memory_usage>\n"
            # That bound is for this process: its control group, as a container's or a unit's, holds the stack's other services, too.
            "<memory_worker_use_cgroup>0</memory_worker_use_cgroup>\n"
            f"<background_pool_size>{max(2, cores)}</background_pool_size>\n"
            "<background_merges_mutations_concurrency_ratio>2</background_merges_mutations_concurrency_ratio>\n"
            f"<background_schedule_pool_size>{max(4, 2 * cores)}</background_schedule_pool_size>\n"
            "<background_common_pool_size>2</background_common_pool_size>\n"
            f"<mark_cache_size>{self.memory // 8}</mark_cache_size>\n"
            f"<uncompressed_cache_size>{self.memory // 16}</uncompressed_cache_size>\n"
            # An acknowledged insert survives a power cut. Merges need no fsync: their sources stay for eight minutes.
            "<merge_tree><fsync_after_insert>1</fsync_after_insert><fsync_part_directory>1</fsync_part_directory>"
            "<number_of_free_entries_in_pool_to_execute_mutation>1</number_of_free_entries_in_pool_to_execute_mutation>"
            "<number_of_free_entries_in_pool_to_lower_max_size_of_merge>1</number_of_free_entries_in_pool_to_lower_max_size_of_merge>"
            "<number_of_free_entries_in_pool_to_execute_optimize_entire_partition>1</number_of_free_entries_in_pool_to_execute_optimize_entire_partition>"
            "</merge_tree>\n"
            f"<query_log><database>system</database><table>{STATEMENT_LOG}</table>{log}</query_log>\n"
            f"<part_log><database>system</database><table>part_log</table>{log}</part_log>\n"
            f"{self._config}</clickhouse>\n"
        )

    # -- connections -------------------------------------------------------------------------------------------------

    @contextmanager
    def connection(self, request: Request) -> Iterator[Connection]:
        """A connection with the request's role, database and settings; raises ServerError if they do not apply."""
        connection = Connection(self._url)
        try:
            self.prepare(connection, request)
            yield connection
        finally:
            connection.close()

    def open(self) -> Connection:
        """A fresh connection, for `prepare`."""
        return Connection(self._url)

    def reset(self, connection: Connection) -> None:
        """Undo the settings of an earlier request on a kept connection."""
        names = [name for name, _ in self.changed(connection)]
        if names:
            connection.query("SET " + ", ".join(f"{name} = DEFAULT" for name in names))

    def changed(self, connection: Connection) -> list[tuple[str, str]]:
        """The settings of a connection that differ from the engine's own."""
        # One value, which no setting of the connection (extremes, limit, formats) adds to or cuts short.
        pairs = "arrayStringConcat(groupArray(hex(name) || '=' || hex(value)), ',')"
        text = connection.query(f"SELECT {pairs} FROM system.settings", "RawBLOB").bytes().decode()
        rows = (
            [bytes.fromhex(part).decode(errors="surrogateescape") for part in pair.split("=")] for pair in text.split(",") if pair
        )
        return [(name, value) for name, value in rows if self._current.get(name) != value]

    def has_database(self, name: str) -> bool:
        """Whether there is a database of this name."""
        if name not in self._databases:
            self._databases = frozenset(row[0] for row in self.admin_rows("SELECT name FROM system.databases"))
        return name in self._databases

    def prepare(self, connection: Connection, request: Request) -> None:
        """Apply the request's role, database and settings, and make the tables of its external data."""
        settings = self._settings(request)
        if request.tables:
            self._lay_out(connection, request, settings)
        self._apply(connection, request.role, request.database, settings)

    def clear(self, connection: Connection, request: Request) -> None:
        """Drop the tables of the request's external data from a connection that others use afterwards."""
        for name in request.made:
            with suppress(RuntimeError):
                connection.query(f"DROP TEMPORARY TABLE IF EXISTS {identifier(name)}")

    def _lay_out(self, connection: Connection, request: Request, settings: Mapping[str, str]) -> None:
        """Make the tables of external data. Only statements of the front's own run meanwhile, so it needs no reader's rights."""
        left = self.external
        for table in request.tables:
            # An INSERT owns the memory of the rows that it leaves in a table of the engine Memory.
            if not _FORMAT.fullmatch(table.form):
                raise ServerError(36, f"Unknown format {table.form[:80]}")
            loading = {**settings, "max_memory_usage": str(max(left, 1)), **dict.fromkeys(VALUES_SETTINGS, "0")}
            loading |= _LOADING
            loading.pop("readonly", None)
            loading.pop("insert_deduplication_token", None)
            loading["log_comment"] = f"{request.comment} external {request.tag}"
            self._apply(connection, self._admin, None, loading)
            made = f"CREATE TEMPORARY TABLE {identifier(table.name)} ({table.structure}) ENGINE = Memory"
            insert = parse(f"INSERT INTO {identifier(table.name)} FORMAT {table.form}\n".encode(), complete=True)
            try:
                connection.query(made.encode(errors="surrogateescape"))
                request.made.append(table.name)
                pieces: Iterable[bytes] = (table.data[at : at + PIECE] for at in range(0, len(table.data), PIECE))
                if table.form.lower() == "values":
                    pieces = literals(iter(pieces))
                if table.data:
                    left -= self.insert(connection, insert, request, table.form, pieces).octets
            except RuntimeError as error:
                raise ServerError.from_engine(str(error)) from None
            except ServerError as error:
                if error.code == OUT_OF_MEMORY:
                    metrics.refused.labels("external").inc()
                    raise ExternalTooLarge(
                        OUT_OF_MEMORY, f"External data need more than {self.external} octets of memory"
                    ) from None
                raise
        added = ", ".join(f"{name} = DEFAULT" for name in (*_LOADING, "max_memory_usage"))
        connection.query(f"SET {added}")

    def _settings(self, request: Request) -> dict[str, str]:
        """All settings of a request. Raises ServerError."""
        settings = request.role.settings_for(request.settings, self._current, self.known)
        settings["log_comment"] = f"{request.comment} {request.tag}"
        settings |= dict.fromkeys(VALUES_SETTINGS, str(int(request.expressions)))
        if settings.get("insert_deduplicate", "1").lower() in ("0", "false"):
            # The engine looks at this newer setting alone.
            settings.setdefault("deduplicate_insert", "disable")
        if request.role.readonly:
            settings["readonly"] = "1"
            settings["max_memory_usage"] = str(min(int(float(settings.get("max_memory_usage", request.share))), request.share))
        return settings

    def _apply(self, connection: Connection, role: Role, database: str | None, settings: Mapping[str, str]) -> None:
        changes = []
        for name, value in settings.items():
            if not _NAME.fullmatch(name):
                raise ServerError(115, f"Unknown setting '{name}'")
            changes.append(f"{name} = {quote(value)}")
        try:
            connection.query(f"SET ROLE {role.engine_role}")
            if database:
                connection.query(f"USE {identifier(database)}".encode(errors="surrogateescape"))
            connection.query(("SET " + ", ".join(changes)).encode(errors="surrogateescape"))
        except RuntimeError as error:
            raise ServerError.from_engine(str(error)) from None

    def admin_rows(self, sql: str) -> list[list[str]]:
        """The rows of an internal query, as text."""
        with self.connection(Request(self._admin, None, {}, {}, "front")) as connection:
            text = connection.query(sql.encode(errors="surrogateescape"), "TSV").bytes().decode()
        return [[unescape(field) for field in line.split("\t")] for line in text.split("\n")[:-1]]

    def syntax_error(self, text: bytes) -> ServerError | None:
        """The engine's own error for a text that is no statement; None if it is one. This executes nothing."""
        try:
            self.admin_rows(f"SELECT formatQuery({quote(text.decode(errors='surrogateescape'))}) FORMAT Null")
        except RuntimeError as error:
            return ServerError.from_engine(str(error))
        return None

    def kill(self, tag: str) -> bool:
        """Stop the query with this tag, if it still runs; all queries if the tag is empty. Returns whether one ran."""
        with suppress(RuntimeError, ServerError), self.connection(Request(self._admin, None, {}, {}, "front")) as connection:
            stopped = connection.query(
                f"KILL QUERY WHERE endsWith(Settings['log_comment'], {quote(tag)}) AND query NOT LIKE 'KILL%' ASYNC", "TSV"
            )
            return bool(stopped.bytes())
        return False

    # -- queries -----------------------------------------------------------------------------------------------------

    def run(self, connection: Connection, statement: Statement, request: Request, output_format: str) -> bytes:
        """Run a statement and return its whole result, for statements with a small one."""
        if not _FORMAT.fullmatch(output_format):
            raise ServerError(36, f"Unknown format {output_format}")
        try:
            result = connection.query(statement.text, output_format, params=dict(request.params))
        except RuntimeError as error:
            self._note_failed(request, str(error))
            raise ServerError.from_engine(str(error)) from None
        if statement.kind == "INSERT":
            self._tokens.sync()
        _note(result, request.spent)
        return bytes(result.bytes())

    def stream(
        self,
        connection: Connection,
        statement: Statement,
        request: Request,
        output_format: str,
        client: socket.socket | None = None,
    ) -> Iterator[bytes]:
        """Run a query and yield its result in pieces of at most PIECE octets, as fast as the client reads.

        Raises ServerError, at any piece; Cancelled if `client` is closed meanwhile. Closing the iterator stops the
        query.
        """
        if not _FORMAT.fullmatch(output_format):
            raise ServerError(36, f"Unknown format {output_format}")
        path = self._front / "pipes" / uuid.uuid4().hex
        os.mkfifo(path, 0o600)
        pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        waker, wake = os.pipe()
        # The engine's end is opened once only; nothing else needs the name. It is removed when the query is over.
        text = with_output(statement, str(path), output_format)
        done: Future[None] | None = None

        def work() -> None:
            try:
                _note(connection.query(text, output_format, params=dict(request.params)), request.spent)
            finally:
                os.write(wake, b"x")

        try:
            with suppress(OSError):
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIECE)
            done = self._pool.submit(work)
            yield from self._read(pipe, waker, client)
            try:
                done.result()
            except RuntimeError as error:
                failure = ServerError.from_engine(str(error))
                if failure.code == 62:
                    # The error would show a text that is not the client's: let the engine report the error in the client's own
                    # text.
                    with suppress(RuntimeError):
                        result = connection.query(statement.text, output_format, params=dict(request.params))
                        yield bytes(result.bytes())
                        return
                    self.run(connection, statement, request, output_format)
                raise failure from None
        finally:
            if done is not None:
                self._end(done, pipe, request.tag)
                if why := done.exception():
                    self._note_failed(request, str(why))
            os.close(pipe)
            os.close(waker)
            os.close(wake)
            path.unlink(missing_ok=True)

    def _note_failed(self, request: Request, text: str) -> None:
        """The cost of a reader's query that failed: the engine tells it in its log alone."""
        code = ServerError.from_engine(text).code
        if not request.role.readonly or code in _BEFORE_START or (request.again and code == OUT_OF_MEMORY):
            return
        with suppress(RuntimeError, ServerError):
            self.admin_rows("SYSTEM FLUSH LOGS query_log")
            ((rows,),) = self.admin_rows(
                f"SELECT max(read_rows) FROM system.{STATEMENT_LOG} WHERE event_date >= yesterday() AND event_time >= now() - 60"
                f" AND endsWith(log_comment, {quote(request.tag)})"
            )
            request.spent.read_rows = max(request.spent.read_rows, int(rows))

    def _end(self, done: Future[None], pipe: int, tag: str) -> None:
        """Stop a query whose client has gone away, and wait until it has ended.

        This repeats the request, because the engine may not know the query yet. Meanwhile it empties the pipe rather
        than closing it: otherwise a writer that has not opened it yet would wait for a reader forever.
        """
        turn = 0
        while not done.done():
            if turn % 10 == 0:
                self.kill(tag)
            turn += 1
            with suppress(BlockingIOError):
                while os.read(pipe, PIECE):
                    pass
            wait([done], 0.05)

    def _read(self, pipe: int, waker: int, client: socket.socket | None) -> Iterator[bytes]:
        """The pipe's pieces until the query has ended."""
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        poll.register(waker, select.POLLIN)
        if client is not None:
            poll.register(client, select.POLLRDHUP)
        ended = False
        while True:
            events = dict(poll.poll())
            if client is not None and client.fileno() in events:
                raise Cancelled
            ended = ended or waker in events
            if pipe in events or ended:
                try:
                    piece = os.read(pipe, PIECE)
                except BlockingIOError:
                    piece = b""
                if piece:
                    yield piece
                elif ended:
                    return
                else:
                    # The engine closed its end; only the query's end is still to come.
                    poll.unregister(pipe)

    # -- inserts -----------------------------------------------------------------------------------------------------

    def insert(
        self, connection: Connection, statement: Statement, request: Request, data_format: str, pieces: Iterable[bytes]
    ) -> Written:
        """Run an INSERT with its data; returns when the rows are written. Raises ServerError.

        The engine reads the data from a pipe, as from a file: chDB's own streaming insert reports success even where the
        last block could not be written. If `pieces` raises, the insert is stopped and the error propagates: nothing of
        the block being read is stored, and earlier blocks remain, as in a clickhouse-server.
        """
        if not _FORMAT.fullmatch(data_format):
            raise ServerError(36, f"Unknown format {data_format}")
        if "input" in statement.names:
            raise ServerError(48, "INSERT ... SELECT ... FROM input() with data is not supported by the embedded server")
        if data_format.lower() == "npy":
            raise ServerError(48, "INSERT in FORMAT Npy is not supported by the embedded server: it needs a file")
        if hides_comment(statement):
            raise ServerError(36, "log_comment of an INSERT is a parameter of the URL here, not one of its SETTINGS")
        # This end stays open until the insert is over, so that data written to the pipe waits for the engine.
        held, pipe = os.pipe()
        waker, wake = os.pipe()
        text = with_input(statement, f"/proc/self/fd/{held}", data_format)

        def work() -> Written:
            try:
                result = connection.query(text, params=dict(request.params))
                return Written(int(result.rows_written()), int(result.bytes_written()))
            finally:
                os.write(wake, b"x")

        try:
            os.set_blocking(pipe, False)
            with suppress(OSError):
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIECE)
            done = self._pool.submit(work)
            try:
                _feed(pipe, waker, pieces)
            except BaseException:
                self._stop_insert(done, request.tag)
                raise
            finally:
                os.close(pipe)
                wait([done])
            written = done.result()
            self._tokens.sync()
            return written
        except RuntimeError as error:
            raise ServerError.from_engine(_OWN_PIPE.sub("", str(error))) from None
        finally:
            for end in (held, waker, wake):
                os.close(end)

    def _stop_insert(self, done: Future[Written], tag: str) -> None:
        """Stop an insert whose data are cut off, before it mistakes their end for the end of the rows."""
        while not done.done() and not self.kill(tag):
            # The engine does not know the query yet.
            wait([done], 0.05)

    def classify(self, connection: Connection, statement: Statement) -> dict[str, Any]:
        """The engine's own classification of a statement: query_class and statement_count."""
        report = connection._conn.classify_query(statement.text)
        return {"query_class": report["query_class"].name, "statement_count": int(report["statement_count"])}


def _feed(pipe: int, waker: int, pieces: Iterable[bytes]) -> None:
    """Write the pieces into the pipe, until the query that reads them has ended."""
    poll = select.poll()
    poll.register(pipe, select.POLLOUT)
    poll.register(waker, select.POLLIN)
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            try:
                rest = rest[os.write(pipe, rest) :]
            except BlockingIOError:
                if waker in dict(poll.poll()):
                    return


def _end_with_the_engine(error: str) -> None:
    """End the process if this error says that the engine refuses everything after a fatal error of its own. The supervisor
    starts the store again, as after a crash."""
    if "fatal error" in error and ServerError.from_engine(error).code == 236:
        print(f"weir-clickhouse: the engine has failed, the process ends: {error}", file=sys.stderr, flush=True)
        os._exit(70)


def _note(result: Any, spent: Spent) -> None:
    """The cost of a query."""
    spent.result_rows, spent.read_rows = int(result.rows_read()), int(result.storage_rows_read())


def comment(query_id: str, text: str) -> str:
    """The log_comment of a client's statement, from which the view query_log takes the two apart."""
    return f"{query_id.replace('%', '%25').replace(' ', '%20')} {text}".rstrip()


def quote(value: str) -> str:
    """A string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def unescape(text: str) -> str:
    """A field of TabSeparated."""
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}.get(m[1], m[1]), text)


def identifier(name: str) -> str:
    """A quoted identifier."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
