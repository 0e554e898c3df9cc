"""Migrations that copy a table: beyond the engine's limit for drops, with a writer at work, and killed before any statement."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import LoneStore
from weir.clickhouse import ClickHouse, connect
from weir.errors import WeirError
from weir.migrations import migrate

ONLY_STORE = True
ROWS = 1_000_000
FIRST = (
    "CREATE TABLE t (number UInt64, text String) ENGINE = MergeTree ORDER BY number"
    " SETTINGS non_replicated_deduplication_window = 1000;\n"
    # What every migration fills.
    "CREATE TABLE services (port UInt16, protocol UInt8, name String) ENGINE = MergeTree ORDER BY port;\n"
    "CREATE TABLE applications (number UInt16, name String, category String, category_number UInt16) ENGINE = MergeTree ORDER BY number;\n"
)
SECOND = """DROP TABLE IF EXISTS t_anew SYNC;

CREATE TABLE t_anew AS t ENGINE = MergeTree ORDER BY (text, number) SETTINGS non_replicated_deduplication_window = 1000;

INSERT INTO t_anew (number, text)
SELECT number, text
FROM t;

EXCHANGE TABLES t AND t_anew;

DROP TABLE t_anew SYNC;
"""


class Killed(BaseException):
    """The end of the command."""


class Limited(ClickHouse):
    """A store that refuses to drop tables of more than a megabyte unless a statement says otherwise. It ends the command
    before the statement that begins with `last`."""

    last = ""

    def execute(self, sql: str, *, database: str | None = None, **settings: str) -> str:
        if self.last and sql.startswith(self.last):
            raise Killed
        return super().execute(sql, database=database, **{"max_table_size_to_drop": "1000000"} | settings)


@pytest.fixture
def store(stack: LoneStore) -> Iterator[Limited]:
    plain = connect(stack.stack, "admin", patience=None)
    plain.execute("DROP DATABASE IF EXISTS upgraded SYNC", database="", max_table_size_to_drop="0")
    store = Limited(plain.url, "admin", stack.stack.password("admin"), "upgraded", None)
    yield store
    plain.execute("DROP DATABASE IF EXISTS upgraded SYNC", database="", max_table_size_to_drop="0")


class Writer(threading.Thread):
    """Inserts numbers one after the other, again and again until the store takes each."""

    def __init__(self, store: ClickHouse) -> None:
        super().__init__()
        self.store, self.written, self.refused, self.stopping = store, 0, 0, threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            number = ROWS + self.written
            try:
                self.store.execute(
                    f"INSERT INTO t VALUES ({number}, 'new')", insert_deduplication_token=f"writer/{number}"
                )
            except WeirError:
                self.refused += 1
                self.stopping.wait(0.05)
            else:
                self.written += 1


@pytest.mark.parametrize("killed_before", ["", "INSERT INTO t_anew", "EXCHANGE", "DROP TABLE t_anew"])
def test_a_copied_table_keeps_every_row(stack: LoneStore, store: Limited, tmp_path: Path, killed_before: str) -> None:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_t.sql").write_text(FIRST)
    migrate(store, folder)
    store.execute(f"INSERT INTO t SELECT number, hex(sipHash128(number)) FROM numbers({ROWS})")
    with pytest.raises(WeirError, match="was not dropped"):
        store.execute("DROP TABLE t SYNC")
    (folder / "0002_order.sql").write_text(SECOND)
    writer = Writer(ClickHouse(store.url, "admin", stack.stack.password("admin"), "upgraded", None))
    writer.start()
    said: list[str] = []
    try:
        if killed_before:
            store.last = killed_before
            with pytest.raises(Killed):
                migrate(store, folder, said=said.append)
            store.last = ""
        assert "0002_order.sql" in migrate(store, folder, said=said.append)
        after = writer.written
        while writer.written < after + 5 and writer.is_alive():
            writer.stopping.wait(0.05)
    finally:
        writer.stopping.set()
        writer.join()
    found = store.rows("SELECT count() AS n, uniqExact(number) AS numbers, max(number) AS last FROM t")[0]
    assert found == {"n": ROWS + writer.written, "numbers": ROWS + writer.written, "last": ROWS + writer.written - 1}
    assert writer.written > after, "the store takes rows again"
    assert "t_anew" not in store.execute("SHOW TABLES")
    assert all(text.startswith("0002_order.sql: ") for text in said)
