"""Back the store up, and restore it: `weir backup` and `weir restore`.

A backup holds the tables of one moment, and the state of the jobs at that moment (`jobs_state.py`): the jobs are paused
while the tables are cloned. After a restore they continue from there. The migrations create views, dictionaries and
functions again. A backup is the engine's own (BACKUP … TO Disk('backups', …)), so it works on any server with such a
disk. It reads a snapshot (clones of all tables, which share the tables' files) and holds one extra table: the manifest,
with the row count and a checksum of every table. The manifest verifies a restored copy in a second database before the
copy replaces the store's tables.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from weir import jobs_state, snapshot
from weir.clickhouse import ClickHouse, connect
from weir.config import Stack
from weir.errors import WeirError
from weir.migrations import checksums, define, migrate, refuse_others
from weir.services import all_services
from weir.stages import Stages
from weir.storage import hours, service
from weir.supervisor import Supervisor

DISK = "backups"
MANIFEST = "backup_manifest"
#: Tables that `weir migrate` fills: a store with rows in these alone counts as empty.
_FILLED = {"schema_migrations", "services", "applications"}
#: In the table of an exchange: the restore puts the jobs' state, too, as its last step.
_WITH_STATE = "jobs"


#: A condition for tables that hold rows; names that begin with a dot belong to views.
_HOLDS_ROWS = "engine LIKE '%MergeTree' AND NOT startsWith(name, '.')"


@dataclass(frozen=True)
class Entry:
    """One table: its rows and the sum of their hashes, in any order."""

    table: str
    rows: int
    checksum: int


@dataclass(frozen=True)
class Result:
    """Tables that were backed up or restored, and lines on the jobs: why there is no state of them, or what cannot be
    read again.
    """

    entries: list[Entry]
    lines: list[str]


def backup(stack: Stack, directory: Path, stages: Stages, base: Path | None = None, *, pause: bool = True) -> Result:
    """Write a backup of every table into `directory`; only data newer than `base`, an earlier backup, is written.

    pause: stop the jobs with a savepoint while the tables are cloned, and keep their state. `restore` refuses an
    interrupted backup. Raises WeirError.
    """
    with snapshot.alone(stack), _store(stack, stages, with_kafka=pause and jobs_state.left(stack)) as store:
        place = _place(store, directory)
        if _is_local(store) and directory.exists() and any(directory.iterdir()):
            raise WeirError(f"{directory} is not empty", hint="each backup has a directory of its own")
        snapshot.refuse_unfinished(store)
        clones = snapshot.of_backup(store.database)
        snapshot.drop(store, clones)
        try:
            with service.alone(stack):  # hourly rows and notes on them belong together
                # Records that arrive meanwhile are at worst counted but absent: their hour is then just rolled up
                # again.
                tables = sorted(_tables(store, store.database), key=lambda table: table == "arrivals")
                if "schema_migrations" not in tables:
                    raise WeirError(f"there is nothing to back up: {store.url} has no tables of Weir", status=1)
                if "hours" in tables:
                    # A restored table does not know the token of a block that a kill interrupted: it would accept the
                    # block twice.
                    hours.finish(store)
                    tables = [table for table in tables if not hours.is_staged(table)]
                store.execute(f"CREATE DATABASE {clones} ENGINE = Atomic", database="")
                with jobs_state.held(stack, stages, pause=pause) as jobs:
                    stages.begin("snapshot")
                    for table in tables:
                        store.execute(f"CREATE TABLE {clones}.{table} CLONE AS {store.database}.{table}", database="")
                        # Merges would join rows of the clone after the count.
                        store.execute(f"SYSTEM STOP MERGES {clones}.{table}", database="")
                    stages.done("snapshot", f"{len(tables)} tables")
            facts = "" if isinstance(jobs, str) else jobs_state.describe(jobs)
            entries = _count(store, clones, tables, stages)
            _write_manifest(store, clones, entries, jobs_state.checksum(facts) if facts else "")
            listed = ", ".join(f"TABLE {clones}.{name} AS {store.database}.{name}" for name in [*tables, MANIFEST])
            settings = f" SETTINGS base_backup = {_place(store, base)}" if base else ""
            stages.begin("write")
            _run(store, f"BACKUP {listed} TO {place}{settings}", directory, stages, "write")
        finally:
            snapshot.drop(store, clones)
        if isinstance(jobs, str):
            return Result(entries, [f"It holds no state of the jobs and no offsets: {jobs}."])
        jobs_state.write(jobs, facts, directory)
    return Result(entries, [])


def restore(stack: Stack, directory: Path, stages: Stages, *, force: bool = False, check: bool = False) -> Result:
    """Replace the contents of the store with the backup in `directory`; the jobs stop while it takes the tables' place,
    and resume from their state in the backup.

    force: replace the rows of a store that is not empty. check: only restore the backup into a second database, compare
    it with its manifest, and drop it again. If anything is wrong, the store stays as it was. Raises WeirError.
    """
    with snapshot.alone(stack), _store(stack, stages, with_kafka=not check and jobs_state.present(directory)) as store:
        beside = snapshot.of_restore(store.database)
        _settle(stack, store)  # after a restore that was killed
        held = {} if force or check else _held(store)
        if held:
            most = max(held, key=lambda table: held[table])
            raise WeirError(
                f"the store is not empty: {most} has {held[most]:,} rows",
                hint="--force replaces it with the backup; its rows are then lost",
            )
        snapshot.drop(store, beside)
        try:
            entries, checksum = _bring(store, directory, beside, stages)
            facts = jobs_state.verify(directory, checksum)
            lines = [] if facts else ["It holds no state of the jobs: they continue from where they are."]
            if not check:
                # A round by hand, or from a timer, must not cross the exchange.
                with _quiet(stack, stages), service.alone(stack):
                    if facts:
                        lines = jobs_state.prepare(stack, directory, facts)
                    with _exchanged(stack, store, [entry.table for entry in entries], stages, with_state=bool(facts)):
                        if facts:
                            jobs_state.put(stack, facts)
        finally:
            if not _originals(store, beside):
                snapshot.drop(store, beside)
    return Result(entries, lines)


# ---- the store ----


@contextmanager
def _store(stack: Stack, stages: Stages, *, with_kafka: bool) -> Iterator[ClickHouse]:
    """Connect to the store; if the stack is down, start the store for this command, and Kafka on request."""
    if stack.config.clickhouse.cluster:
        raise WeirError(
            "this command does not back up or restore a cluster",
            hint="docs/how-to/run-on-a-cluster.md has the statements",
        )
    supervisor = Supervisor(stack)
    services = {service.name: service for service in all_services(stack)}
    wanted = [name for name in ("kafka", "clickhouse") if name in services and (name == "clickhouse" or with_kafka)]
    alone = [] if supervisor.running() else wanted
    if alone:
        supervisor.launch([services[name] for name in alone])
    try:
        for name in alone:
            stages.begin(name)
            supervisor.start(services[name])
        for name in alone:
            supervisor.wait(services[name])
            stages.done(name, "started for this command only")
        yield connect(stack, "admin", patience=None)
    finally:
        if alone:
            supervisor.shutdown(list(reversed(alone)))


@contextmanager
def _quiet(stack: Stack, stages: Stages) -> Iterator[None]:
    """Stop the store's writers meanwhile."""
    supervisor = Supervisor(stack)
    services = {service.name: service for service in all_services(stack)}
    stopped: list[str] = []
    try:
        states = supervisor.states()
        for name in ("storage", "flink"):
            if name in states and states[name].may_run:
                stopped.append(name)  # before it stops: Ctrl-C meanwhile must not leave it stopped
                supervisor.stop(name)
        if stopped:
            stages.begin("stop")
            stages.done("stop", f"{' and '.join(stopped)}, until the restore is done")
        yield
    finally:
        for name in reversed(stopped):
            stages.begin(name)
            supervisor.start(services[name])
            supervisor.wait(services[name])
            stages.done(name, "started again")


def _place(store: ClickHouse, directory: Path) -> str:
    """A directory on the server's disk for backups, in SQL."""
    disks = store.rows(f"SELECT path FROM system.disks WHERE name = '{DISK}'", database="")
    if not disks:
        raise WeirError(
            f"the server at {store.url} has no disk '{DISK}'",
            hint="docs/how-to/backup.md says how to configure one",
        )
    root = Path(disks[0]["path"])
    absolute = directory.resolve()
    if not absolute.is_relative_to(root) or absolute == root:
        raise WeirError(
            f"{absolute} is not on the server's disk '{DISK}'",
            hint=f"name a directory in {root}, or another place for backups in weir.yaml (clickhouse: {{backups: …}})",
        )
    path = str(absolute.relative_to(root)).replace("\\", "\\\\").replace("'", "\\'")
    return f"Disk('{DISK}', '{path}')"


def _hand_over(store: ClickHouse, directory: Path) -> None:
    """Give a backup that root has put in its place to the user as whom the store runs."""
    if os.geteuid() or not _is_local(store) or not directory.is_dir():
        return
    owner = directory.parent.stat()
    for _, _, files, folder in os.fwalk(directory):
        os.fchown(folder, owner.st_uid, owner.st_gid)
        for name in files:
            os.chown(name, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)


def _is_local(store: ClickHouse) -> bool:
    return store.url.startswith(("http://127.0.0.1:", "http://localhost:"))


def _tables(store: ClickHouse, database: str) -> list[str]:
    """The tables that hold rows, without a manifest."""
    rows = store.rows(
        f"SELECT name FROM system.tables WHERE database = '{database}' AND {_HOLDS_ROWS} AND name != '{MANIFEST}' ORDER BY name",
        database="",
    )
    return [row["name"] for row in rows]


def _held(store: ClickHouse) -> dict[str, int]:
    """Tables with rows that migrations did not insert, and their row counts."""
    rows = store.rows(
        f"SELECT table, sum(rows) AS n FROM system.parts WHERE active AND database = '{store.database}' GROUP BY table HAVING n > 0",
        database="",
    )
    return {row["table"]: row["n"] for row in rows if row["table"] not in _FILLED}


# ---- the manifest ----


def _count(store: ClickHouse, database: str, tables: list[str], stages: Stages) -> list[Entry]:
    """Rows and checksum of every table."""
    entries = []
    stages.begin("count")
    for at, table in enumerate(tables, 1):
        stages.note("count", f"{table}, {at} of {len(tables)}")
        columns = store.rows(
            f"SELECT name FROM system.columns WHERE database = '{database}' AND table = '{table}' "
            "AND default_kind NOT IN ('ALIAS', 'EPHEMERAL') ORDER BY position",
            database="",
        )
        names = ", ".join(f"t.`{column['name']}`" for column in columns)
        # RowBinary tells NULL from 0 and covers every type.
        row = store.rows(
            f"SELECT count() AS found, sum(cityHash64(formatRowNoNewline('RowBinary', {names}))) AS hash FROM {database}.{table} AS t",
            database="",
        )[0]
        entries.append(Entry(table, row["found"], row["hash"]))
    stages.done("count", f"{sum(entry.rows for entry in entries):,} rows")
    return entries


def _write_manifest(store: ClickHouse, database: str, entries: list[Entry], jobs: str) -> None:
    store.execute(
        f"CREATE TABLE {database}.{MANIFEST} (table String COMMENT 'Table', rows UInt64 COMMENT 'Its rows', "
        "checksum UInt64 COMMENT 'Sum of the hashes of its rows', made_at DateTime('UTC') COMMENT 'When', "
        "jobs String COMMENT 'Checksum of jobs.json, which describes the state of the jobs; empty: none') "
        "ENGINE = MergeTree ORDER BY table COMMENT 'What a backup holds'",
        database="",
    )
    values = ", ".join(f"('{entry.table}', {entry.rows}, {entry.checksum}, now(), '{jobs}')" for entry in entries)
    store.execute(f"INSERT INTO {database}.{MANIFEST} VALUES {values}", database="")


# ---- restoring ----


def _bring(store: ClickHouse, directory: Path, beside: str, stages: Stages) -> tuple[list[Entry], str]:
    """Restore into the database `beside` and verify it; returns the manifest, and the checksum of the jobs' state."""
    place = _place(store, directory)
    _hand_over(store, directory)
    store.execute(f"CREATE DATABASE {beside} ENGINE = Atomic", database="")
    try:
        store.execute(f"RESTORE TABLE {store.database}.{MANIFEST} AS {beside}.{MANIFEST} FROM {place}", database="")
    except WeirError as error:
        raise WeirError(
            f"{directory} holds no complete backup of {store.database}: none was written there, or it was interrupted",
            hint=_short(str(error)),
            status=1,
        ) from error
    rows = store.rows(f"SELECT * FROM {beside}.{MANIFEST} ORDER BY table", database="")
    manifest = [Entry(row["table"], row["rows"], row["checksum"]) for row in rows]
    _refuse_others(store, beside, place)
    listed = ", ".join(f"TABLE {store.database}.{entry.table} AS {beside}.{entry.table}" for entry in manifest)
    stages.begin("read")
    # Tables first, empty and without merges, so that the counts match those of the backup.
    store.execute(f"DROP TABLE {beside}.schema_migrations SYNC", database="")
    store.execute(f"RESTORE {listed} FROM {place} SETTINGS structure_only = true", database="")
    for entry in manifest:
        store.execute(f"SYSTEM STOP MERGES {beside}.{entry.table}", database="")
    _run(store, f"RESTORE {listed} FROM {place}", directory, stages, "read")
    for was, now in zip(manifest, _count(store, beside, [entry.table for entry in manifest], stages), strict=True):
        if was != now:
            raise WeirError(
                f"the backup is damaged: {was.table} had {was.rows:,} rows, {now.rows:,} were restored"
                + ("" if was.rows != now.rows else " with another checksum"),
                hint="nothing was changed; use another backup",
                status=1,
            )
    for entry in manifest:
        store.execute(f"SYSTEM START MERGES {beside}.{entry.table}", database="")
    # A backup of an earlier version has no such column.
    return manifest, rows[0].get("jobs", "")


def _refuse_others(store: ClickHouse, beside: str, place: str) -> None:
    """Raise WeirError if the backup has migrations that this program does not know."""
    store.execute(
        f"RESTORE TABLE {store.database}.schema_migrations AS {beside}.schema_migrations FROM {place}", database=""
    )
    refuse_others(checksums(store, beside), "the backup")


@contextmanager
def _exchanged(
    stack: Stack, store: ClickHouse, tables: list[str], stages: Stages, *, with_state: bool
) -> Iterator[None]:
    """Replace the tables of the same names with the restored ones. If anything fails or is interrupted before the end of the
    context, the store's own tables are put back, unless the jobs have the backup's state already.
    """
    beside = snapshot.of_restore(store.database)
    stages.begin("put in place")
    store.execute(f"CREATE DATABASE IF NOT EXISTS {store.database} ENGINE = Atomic", database="")
    present = _numbers(store, store.database)
    # Tables that the backup lacks come from a newer Weir: they start empty.
    for table in present.keys() - set(tables):
        store.execute(f"CREATE TABLE {beside}.{table} AS {store.database}.{table}", database="")
    brought = _numbers(store, beside)
    store.execute(
        f"CREATE TABLE {beside}.{snapshot.ORIGINALS} (name String COMMENT 'Table', own String COMMENT 'Number of the store''s own; empty: it had"
        " none', brought String COMMENT 'Number of the one that takes its place') ENGINE = MergeTree ORDER BY name"
        " COMMENT 'Tables that are changing places'",
        database="",
    )
    values = ", ".join(
        f"('{table}', '{present.get(table, '')}', '{number}')" for table, number in brought.items() if table != MANIFEST
    )
    values += f", ('', '', '{_WITH_STATE}')" if with_state else ""
    store.execute(f"INSERT INTO {beside}.{snapshot.ORIGINALS} VALUES {values}", database="")
    try:
        for table in sorted(brought.keys() - {MANIFEST}):
            here, there = f"{store.database}.{table}", f"{beside}.{table}"
            exchange = f"EXCHANGE TABLES {here} AND {there}" if table in present else f"RENAME TABLE {there} TO {here}"
            store.execute(exchange, database="")
        _make_views(store)
        stages.done("put in place", f"{len(tables)} tables")
        yield
        store.execute(f"DROP TABLE {beside}.{snapshot.ORIGINALS} SYNC", database="")
    except BaseException:
        _settle(stack, store)
        raise


def recover(stack: Stack) -> None:
    """Complete or undo a restore that was killed, before anything is written. Raises WeirError while one runs."""
    store = connect(stack, "admin", patience=None)
    if snapshot.is_unfinished(store):
        with snapshot.alone(stack):
            _settle(stack, store)


def _settle(stack: Stack, store: ClickHouse) -> None:
    """Complete a restore that was interrupted after the jobs had got the backup's state; otherwise put the store's own tables
    back.
    """
    beside = snapshot.of_restore(store.database)
    originals = _originals(store, beside)
    if any(row["brought"] == _WITH_STATE for row in originals) and not jobs_state.waits(stack):
        store.execute(f"DROP TABLE {beside}.{snapshot.ORIGINALS} SYNC", database="")
        snapshot.drop(store, beside)
    else:
        _put_back(store, beside)


def _put_back(store: ClickHouse, beside: str) -> None:
    """Put the store's own tables back in their places; nothing to do unless an exchange was interrupted."""
    originals = _originals(store, beside)
    # The last exchange may be under way.
    while moved := _moved(store, originals):
        for row in moved:
            own, there = f"{store.database}.{row['name']}", f"{beside}.{row['name']}"
            back = f"EXCHANGE TABLES {own} AND {there}" if row["own"] else f"RENAME TABLE {own} TO {there}"
            store.execute(back, database="")
    if any(row["own"] for row in originals):
        _make_views(store)
    if snapshot.is_unfinished(store):  # even if it was killed before it noted any table
        store.execute(f"DROP TABLE {beside}.{snapshot.ORIGINALS} SYNC", database="")


def _moved(store: ClickHouse, originals: list[dict[str, str]]) -> list[dict[str, str]]:
    """The tables that the restored ones have replaced."""
    here = _numbers(store, store.database)
    return [row for row in originals if here.get(row["name"]) == row["brought"]]


def _originals(store: ClickHouse, beside: str) -> list[dict[str, str]]:
    """The tables whose exchange is not complete; none if there is no exchange."""
    if not snapshot.is_unfinished(store):
        return []
    return store.rows(f"SELECT name, own, brought FROM {beside}.{snapshot.ORIGINALS}", database="")


def _numbers(store: ClickHouse, database: str) -> dict[str, str]:
    """The engine's own number of each table that holds rows: it keeps the number wherever it goes."""
    rows = store.rows(
        f"SELECT name, toString(uuid) AS number FROM system.tables WHERE database = '{database}' AND {_HOLDS_ROWS}",
        database="",
    )
    return {row["name"]: row["number"] for row in rows}


def _make_views(store: ClickHouse) -> None:
    """Make views, dictionaries and functions of the tables that are in place, and apply migrations that these lack."""
    define(store)
    migrate(store, all_views=True)
    store.execute("SYSTEM RELOAD DICTIONARIES", database="")


# ---- long statements ----


def _run(store: ClickHouse, sql: str, directory: Path, stages: Stages, stage: str) -> None:
    """Run a BACKUP or RESTORE in the background of the server, showing its progress."""
    number = store.execute(
        f"{sql} ASYNC" if " SETTINGS " not in sql else sql.replace(" SETTINGS ", " SETTINGS async = true, "),
        database="",
    )
    name = number.split("\t")[0]
    begun = time.monotonic()
    while True:
        row = store.rows(
            "SELECT toString(status) AS status, error, num_files, total_size, bytes_read "
            f"FROM system.backups WHERE id = '{name}'",
            database="",
        )[0]
        if row["status"] in ("BACKUP_CREATED", "RESTORED"):
            stages.done(stage, f"{row['num_files']:,} files, {row['total_size'] / 2**20:,.1f} MiB, {directory}")
            return
        if row["status"] not in ("CREATING_BACKUP", "RESTORING"):
            raise WeirError(f"{stage}: {_short(row['error']) or row['status']}", status=1)
        size = f"{row['total_size'] / 2**20:,.0f} MiB" if row["total_size"] else "looking"
        stages.note(stage, size)
        time.sleep(min(1.0, 0.05 + (time.monotonic() - begun) / 20))


def _short(error: str) -> str:
    """The engine's message without its stack trace."""
    return re.sub(r",? ?Stack trace.*", "", error, flags=re.DOTALL).strip()[:400]
