"""The copies of the store that a backup and a restore make beside it: databases named after the store's.

Only the process that holds the lock `backup.lock` makes, reads and drops them: what is there while nobody holds it was left
by a process that was killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from weir import locks
from weir.clickhouse import ClickHouse
from weir.config import Stack
from weir.errors import WeirError
from weir.long_statements import DROP_ANY

#: A table of the database `restoring` that says how to put the store's own tables back: while it is there, so are they.
ORIGINALS = "originals"


def of_backup(database: str) -> str:
    """The clones of the tables of a database, which a backup reads."""
    return f"{database}_snapshot"


def of_restore(database: str) -> str:
    """The tables that a restore brings, and then those whose place they took."""
    return f"{database}_restore"


def names(database: str) -> tuple[str, str]:
    """Every copy that may be beside a database."""
    return of_backup(database), of_restore(database)


@contextmanager
def alone(stack: Stack) -> Iterator[None]:
    """Hold the lock that lets only one process of this stack back up or restore. Raises WeirError if another one does."""
    with locks.held(stack, "backup", refused="another backup or restore of this store runs"):
        yield


def is_unfinished(store: ClickHouse) -> bool:
    """Whether a restore lets tables change places, or was killed meanwhile."""
    table = f"database = '{of_restore(store.database)}' AND name = '{ORIGINALS}'"
    return bool(store.rows(f"SELECT 1 AS it FROM system.tables WHERE {table}", database=""))


def refuse_unfinished(store: ClickHouse) -> None:
    """Raise WeirError if a restore was killed while tables changed places: rows that are written now would be lost with the
    tables that go.
    """
    if is_unfinished(store):
        raise WeirError(
            "a restore was interrupted while tables changed places",
            hint="'weir up' puts the store's own tables back, or completes the restore if the jobs have the backup's state",
            status=1,
        )


def drop(store: ClickHouse, database: str) -> None:
    """Drop a copy."""
    store.execute(f"DROP DATABASE IF EXISTS {database} SYNC", database="", **DROP_ANY)


def drop_left(stack: Stack, store: ClickHouse) -> list[str]:
    """Drop the copies that a killed backup or restore left, whose files nothing else would free; returns their names. A copy
    with the store's own tables stays: the next restore puts them back.
    """
    if not _ownerless(store):
        return []
    with ExitStack() as held:
        try:
            held.enter_context(alone(stack))
        except WeirError:
            return []  # their owner is at work
        left = _ownerless(store)
        for database in left:
            drop(store, database)
    return left


def _ownerless(store: ClickHouse) -> list[str]:
    """The copies that nobody needs, if nobody holds the lock."""
    listed = ", ".join(f"'{name}'" for name in names(store.database))
    rows = store.rows(
        f"SELECT name FROM system.databases WHERE name IN ({listed}) AND name NOT IN"
        f" (SELECT database FROM system.tables WHERE name = '{ORIGINALS}')",
        database="",
    )
    return [row["name"] for row in rows]
