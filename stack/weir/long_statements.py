"""Statements that take long: those of migrations, which may take hours on a large store, and inserts under way."""

from __future__ import annotations

import math
import re
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress

from weir.clickhouse import ClickHouse
from weir.errors import WeirError

#: The engine refuses to drop tables of more than 50 GB unless told otherwise.
DROP_ANY = {"max_table_size_to_drop": "0", "max_partition_size_to_drop": "0"}
#: A table that a migration fills from another, before the two are swapped.
_COPY = re.compile(r"INSERT INTO (\w+)_anew\b.*\bFROM \1\b", re.DOTALL)
#: Refuses all rows: its name tells a writer why.
_HOLD = "weir_migrate_copies_this_table"

Said = Callable[[str], None]


def run(store: ClickHouse, sql: str, said: Said) -> None:
    """Run a statement, however long it takes and however large the tables are that it drops. said: called each second
    with the progress. While a table is copied, the store refuses new rows for it, which would be missing in the copy;
    writers try again.
    """
    copied = _COPY.match(sql)
    if not copied:
        _run(store, sql, said)
        return
    table = copied[1]
    # An interrupted migration may have left it, and a table created like this one has it.
    store.execute(f"ALTER TABLE {table}_anew DROP CONSTRAINT IF EXISTS {_HOLD}")
    store.execute(f"ALTER TABLE {table} ADD CONSTRAINT IF NOT EXISTS {_HOLD} CHECK 0 = 1")
    try:
        wait_for_writers(store, said)
        _run(store, sql, said)
    except (WeirError, KeyboardInterrupt):
        with suppress(WeirError):
            store.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {_HOLD}")
        raise


def _run(store: ClickHouse, sql: str, said: Said) -> None:
    name = f"weir-migrate-{secrets.token_hex(8)}"
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(store.execute, sql, query_id=name, **DROP_ANY)
        while not _ended(done):
            for row in store.rows(
                f"SELECT read_rows, total_rows_approx AS of_rows FROM system.processes WHERE query_id = '{name}'"
            ):
                said(f"{row['read_rows']:,} of about {row['of_rows']:,} rows" if row["of_rows"] else "under way")
        done.result()


def _ended(done: Future[str]) -> bool:
    try:
        done.exception(timeout=1)
    except NotYet:
        return False
    return True


def wait_for_writers(
    store: ClickHouse, said: Said = lambda _: None, table: str = "", at_most: float = math.inf
) -> None:
    """Wait for the inserts that have begun until now, for example before rows were refused. table: only for those that
    name it. at_most: seconds; raises WeirError after that.
    """
    begun = time.monotonic()
    while store.rows(
        "SELECT 1 AS one FROM system.processes WHERE query_kind = 'Insert'"
        f" AND positionCaseInsensitive(query, '{table}') > 0 AND elapsed > {time.monotonic() - begun} LIMIT 1"
    ):
        if time.monotonic() - begun > at_most:
            raise WeirError(f"an INSERT into {table} that began before has not ended for {at_most:.0f} s", status=1)
        said("waiting for inserts that began before")
        time.sleep(0.2)
