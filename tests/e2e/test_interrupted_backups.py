"""Backups and restores of the store alone that are interrupted or killed, or meet another: they leave the store as it was,
and nothing that would make retention drop more or a removal wait.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from rich.console import Console

from harness import Killed, LoneStore, before_each_statement, emptied, keep, once
from hourly_truth import EVENING, NOW, flows
from weir import backup, forget, jobs_state, snapshot
from weir.clickhouse import ClickHouse, connect
from weir.errors import WeirError
from weir.stages import Stages
from weir.storage import hours
from weir.storage.partitions import disk

pytestmark = pytest.mark.long

ONLY_STORE = True


@pytest.fixture
def store(stack: LoneStore) -> Iterator[ClickHouse]:
    """The store with 100 records, while commands back up and restore it alone."""
    admin = emptied(stack)
    admin.execute(flows(EVENING, 100))
    list(hours.roll_up(admin, all_now=True))

    @contextmanager
    def lone(*_: object, **__: object) -> Iterator[ClickHouse]:
        yield connect(stack.stack, "admin", patience=None)

    with mock.patch.object(backup, "_store", lone), mock.patch.object(backup, "_quiet", lone):
        yield admin


@pytest.fixture
def stages() -> Iterator[Stages]:
    with Stages(Console(quiet=True)) as quiet:
        yield quiet


def kill(*_: object, **__: object) -> None:
    raise Killed


@pytest.fixture
def place(stack: LoneStore) -> Iterator[Path]:
    """A folder for the backups of one test, where the store may write."""
    folder = stack.stack.backups / secrets.token_hex(4)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def killed_backup(stack: LoneStore, folder: Path, stages: Stages) -> None:
    """A backup that ends without cleaning up while it counts."""
    with (
        mock.patch.object(backup, "_count", kill),
        mock.patch.object(snapshot, "drop"),
        pytest.raises(Killed),
    ):
        backup.backup(stack.stack, folder, stages, pause=False)


def databases(store: ClickHouse) -> set[str]:
    names = snapshot.names(store.database)
    return {row["name"] for row in store.rows("SELECT name FROM system.databases", database="") if row["name"] in names}


def test_retention_drops_the_snapshot_of_a_killed_backup(
    stack: LoneStore, store: ClickHouse, stages: Stages, place: Path
) -> None:
    killed_backup(stack, place / "killed", stages)
    assert databases(store) == {"weir_snapshot"}
    with snapshot.alone(stack.stack):
        keep(stack, store, NOW)
    assert databases(store) == {"weir_snapshot"}, "it belongs to the process that holds the lock"
    before = disk(store)
    store.execute("ALTER TABLE flows DELETE WHERE src_port < 2050", mutations_sync="2")
    assert disk(store).copies > before.copies, "what only the snapshot holds will be free again"
    assert any("weir_snapshot" in line for line in keep(stack, store, NOW))
    assert databases(store) == set()
    assert disk(store).copies == 0


def test_a_removal_does_not_wait_for_a_snapshot(
    stack: LoneStore, store: ClickHouse, stages: Stages, place: Path
) -> None:
    """Merges of its tables are stopped, so that no removal from them would end."""
    killed_backup(stack, place / "killed", stages)
    impatient, wanted = connect(stack.stack, "admin", patience=30), forget.network("10.0.0.1")
    forget.forget(impatient, wanted, stages, forget.search(impatient, wanted, stages))
    assert store.rows("SELECT count() AS n FROM flows") == [{"n": 0}]


def test_of_two_backups_at_once_the_second_is_refused(
    stack: LoneStore, store: ClickHouse, stages: Stages, place: Path
) -> None:
    count = backup._count

    def meanwhile(*given: object) -> list[backup.Entry]:
        one_more = mock.patch.object(backup, "_count", count)
        with one_more, pytest.raises(WeirError, match="another backup or restore"):
            backup.backup(stack.stack, place / "second", stages, pause=False)
        return count(*given)  # type: ignore[arg-type]

    with mock.patch.object(backup, "_count", meanwhile):
        backup.backup(stack.stack, place / "first", stages, pause=False)
    backup.restore(stack.stack, place / "first", stages, check=True)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("how", "error"),
    [
        (once("CREATE OR REPLACE VIEW", interrupt), KeyboardInterrupt),
        (once("EXCHANGE TABLES weir.hours AND", kill), Killed),
    ],
    ids=["Ctrl-C", "kill"],
)
def test_a_restore_that_is_interrupted_leaves_the_store_as_it_was(
    stack: LoneStore,
    store: ClickHouse,
    stages: Stages,
    place: Path,
    how: Callable[[str], None],
    error: type[BaseException],
) -> None:
    """Ctrl-C after all tables changed places, and a kill in the middle."""
    backup.backup(stack.stack, place / "whole", stages, pause=False)
    store.execute(flows(EVENING + 3600, 300))
    list(hours.roll_up(store, all_now=True))

    def restore(how: Callable[[str], None]) -> None:
        with before_each_statement(how), pytest.raises(error):
            backup.restore(stack.stack, place / "whole", stages, force=True)

    if error is Killed:
        with mock.patch.object(backup, "_settle"), mock.patch.object(snapshot, "drop"):
            restore(how)
        refusals: list[Callable[[], object]] = [
            lambda: keep(stack, store, NOW),
            lambda: list(hours.roll_up(store, all_now=True)),
            lambda: forget.search(store, forget.network("10.9.9.9"), stages),
            lambda: backup.backup(stack.stack, place / "more", stages, pause=False),
        ]
        for refused in refusals:
            with pytest.raises(WeirError, match="a restore was interrupted"):
                refused()
        assert databases(store) == {"weir_restore"}, "it holds the store's own tables"
        how = once("RESTORE", kill)  # the next one puts them back first
    restore(how)
    assert databases(store) == set()
    store.execute(flows(EVENING + 7200, 10))
    list(hours.roll_up(store, all_now=True))
    counts = {table: f"SELECT sum(t.records) AS n FROM {table} AS t" for table in ("arrivals", "flows_hourly")}
    counts["flows"] = "SELECT count() AS n FROM flows"
    assert {table: store.rows(sql)[0]["n"] for table, sql in counts.items()} == dict.fromkeys(counts, 410)


@pytest.mark.parametrize(
    ("state", "rows"), [("is put", 100), ("waits", 110), ("is not in the backup", 110), ("is not noted yet", 110)]
)
def test_a_restore_that_is_killed_is_completed_or_undone(
    stack: LoneStore, store: ClickHouse, stages: Stages, place: Path, state: str, rows: int
) -> None:
    """As the jobs' state is: tables and offsets are of one moment. Killed at its end, or before it notes its tables."""
    backup.backup(stack.stack, place / "whole", stages, pause=False)
    store.execute(flows(EVENING + 3600, 10))
    at = "INSERT INTO" if state == "is not noted yet" else "DROP TABLE"
    with (
        mock.patch.object(backup, "_settle"),
        mock.patch.object(snapshot, "drop"),
        before_each_statement(once(f"{at} weir_restore.originals", kill)),
        pytest.raises(Killed),
    ):
        backup.restore(stack.stack, place / "whole", stages, force=True)
    if state in ("is put", "waits"):
        store.execute(f"INSERT INTO weir_restore.originals VALUES ('', '', '{backup._WITH_STATE}')", database="")
    with mock.patch.object(jobs_state, "waits", return_value=state == "waits"):
        backup.recover(stack.stack)
    assert store.rows("SELECT count() AS n FROM flows") == [{"n": rows}]
    keep(stack, store, NOW)
    assert databases(store) == set()


def test_a_restore_waits_for_a_round_by_hand(stack: LoneStore, store: ClickHouse, stages: Stages, place: Path) -> None:
    backup.backup(stack.stack, place / "whole", stages, pause=False)
    store.execute(flows(EVENING + 3600, 10))
    with ThreadPoolExecutor(1) as others:
        restored: list[Future[object]] = []

        def begin() -> None:
            restored.append(others.submit(backup.restore, stack.stack, place / "whole", stages, force=True))
            with pytest.raises(TimeoutError):
                restored[0].result(5)

        with before_each_statement(once("INSERT INTO flows_hourly ", begin)):
            keep(stack, store, time.time() + 5000)
    assert [future.result() for future in restored]
    store.execute(flows(EVENING + 3600, 10))  # the jobs read them again
    for after in (5000, 9000, 16000):
        keep(stack, store, time.time() + after)
    counts = {table: f"SELECT sum(t.records) AS n FROM {table} AS t" for table in ("arrivals", "flows_hourly")}
    assert {table: store.rows(sql)[0]["n"] for table, sql in counts.items()} == dict.fromkeys(counts, 110)


@pytest.mark.parametrize(
    "how",
    [once("INSERT INTO flows_hourly ", kill), once("", kill, after="INSERT INTO flows_hourly ")],
    ids=["before", "after"],
)
def test_hourly_rows_whose_writing_broke_off_are_restored_once(
    stack: LoneStore, store: ClickHouse, stages: Stages, place: Path, how: Callable[[str], None]
) -> None:
    """The service is killed around the statement that writes a block of them, and a backup is made before it goes on."""
    store.execute(flows(EVENING + 3600, 300))
    with before_each_statement(how), pytest.raises(Killed):
        list(hours.roll_up(store, all_now=True))
    backup.backup(stack.stack, place / "killed", stages, pause=False)
    backup.restore(stack.stack, place / "killed", stages, force=True)
    list(hours.roll_up(store, all_now=True))
    raw = store.rows("SELECT probe, count() AS n, sum(fwd_octets) AS octets FROM flows GROUP BY probe ORDER BY probe")
    assert sum(row["n"] for row in raw) == 400
    for table in ("flows_hourly", "flows_hourly_by_destination"):
        sums = f"SELECT probe, sum(h.records) AS n, sum(fwd_octets) AS octets FROM {table} AS h GROUP BY probe ORDER BY probe"
        assert store.rows(sums) == raw, table
