"""Applied migrations, against a store that only records statements."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weir import long_statements
from weir.errors import WeirError
from weir.migrations import define, migrate
from weir.schema import files


class Store:
    """Remembers the statements and the checksums that it receives."""

    database = "weir"

    def __init__(self, known: dict[str, str] | None = None) -> None:
        self.sql: list[str] = []
        self.known = known or {}

    def execute(self, sql: str, **_: object) -> str:
        self.sql.append(sql)
        if found := re.match(r"INSERT INTO schema_migrations .* VALUES \('(.*)', '(.*)'\)", sql):
            self.known[found[1]] = found[2]
        return ""

    def rows(self, sql: str, **_: object) -> list[dict[str, str]]:
        assert "schema_migrations" in sql
        return [{"name": name, "checksum": checksum} for name, checksum in self.known.items()]

    def made(self) -> list[str]:
        return [found[1] for sql in self.sql if (found := re.match(r"CREATE (?:OR REPLACE )?VIEW (\S+)", sql))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table and two views, one of which reads the other."""
    migrations = tmp_path / "migrations"
    migrations.mkdir()
    (tmp_path / "views").mkdir()
    (migrations / "0001_t.sql").write_text("CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a;\n")
    (tmp_path / "views/a.sql").write_text("CREATE OR REPLACE VIEW a\nAS SELECT 1 FROM b COMMENT 'FROM a';\n")
    (tmp_path / "views/b.sql").write_text("CREATE OR REPLACE VIEW b\nAS SELECT 1 FROM t;\n")
    return migrations


def test_a_view_is_made_when_it_is_new_or_changed(folder: Path) -> None:
    store = Store()
    assert migrate(store, folder)[:3] == ["0001_t.sql", "views/b", "views/a"]  # type: ignore[arg-type]
    assert store.made() == ["b", "a"]
    store.sql.clear()
    migrate(store, folder)  # type: ignore[arg-type]
    assert store.made() == []
    (folder.parent / "views/b.sql").write_text("CREATE OR REPLACE VIEW b\nAS SELECT 2 FROM t;\n")
    assert migrate(store, folder)[0] == "views/b"  # type: ignore[arg-type]
    assert store.made() == ["b"]


def test_after_a_restore_every_view_is_made(folder: Path) -> None:
    store = Store()
    migrate(store, folder)  # type: ignore[arg-type]
    store.sql.clear()
    define(store, folder)  # type: ignore[arg-type]
    migrate(store, folder, all_views=True)  # type: ignore[arg-type]
    assert store.made() == ["b", "a"]
    assert not any("INSERT INTO schema_migrations" in sql for sql in store.sql), "the rows are those of the backup"


def test_an_edited_migration_is_refused(folder: Path) -> None:
    store = Store()
    migrate(store, folder)  # type: ignore[arg-type]
    was = files.checksum(folder / "0001_t.sql")
    (folder / "0001_t.sql").write_text("CREATE TABLE t (b UInt8) ENGINE = MergeTree ORDER BY b;\n")
    store.sql.clear()
    with pytest.raises(WeirError, match=r"0001_t\.sql was changed after it was applied"):
        migrate(store, folder)  # type: ignore[arg-type]
    assert store.sql == []
    # Unless the two are equivalent.
    (folder / "checksums").write_text(f"0001_t.sql {files.checksum(folder / '0001_t.sql')} {was}\n")
    migrate(store, folder)  # type: ignore[arg-type]


def test_migrations_that_this_version_does_not_have_are_refused(folder: Path) -> None:
    store = Store()
    migrate(store, folder)  # type: ignore[arg-type]
    applied = dict(store.known)
    (folder / "0002_new.sql").write_text("CREATE TABLE u (a UInt8) ENGINE = MergeTree ORDER BY a;\n")
    # A line without its file makes nothing acceptable; a view that is gone is no migration.
    (folder / "checksums").write_text("0003_later.sql 5e6f\n")
    for known in ({"0003_later.sql": "5e6f", "0002_later.sql": "1a2b"}, applied | {"0004_later.sql": "3c4d"}):
        foreign = Store(known | {"views/gone": "7a8b"})
        with pytest.raises(WeirError) as refused:
            migrate(foreign, folder)  # type: ignore[arg-type]
        assert ", ".join(sorted(name for name in known if "later" in name)) in str(refused.value)
        assert "docs/how-to/upgrade.md" in refused.value.hint
        assert foreign.sql == []
    assert "0002_new.sql" in migrate(Store(applied | {"views/gone": "7a8b"}), folder)  # type: ignore[arg-type]


def test_a_store_from_before_the_views_had_files_is_taken_over(folder: Path) -> None:
    """Its migrations had the views in them: they have equivalent checksums, and only views and lists are new."""
    migration = folder / "0001_t.sql"
    store = Store({"0001_t.sql": files.digest(migration.read_text() + "CREATE VIEW b AS SELECT 1;\n")})
    former = store.known["0001_t.sql"]
    (folder / "checksums").write_text(f"0001_t.sql {files.checksum(migration)} {former}\n")
    (folder.parent / "lists").mkdir()
    (folder.parent / "lists/t.sql").write_text("ALTER TABLE t\n    MODIFY COLUMN a UInt16;\n")
    applied = migrate(store, folder)  # type: ignore[arg-type]
    assert applied[:3] == ["lists/t", "views/b", "views/a"]
    assert not any(sql.startswith("CREATE TABLE t") for sql in store.sql)


def test_ctrl_c_while_a_table_is_copied_leaves_it_to_its_writers() -> None:
    class Busy(Store):
        def rows(self, sql: str, **_: object) -> list[dict[str, str]]:
            return [{"one": "an insert that began before"}]

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    store = Busy()
    with pytest.raises(KeyboardInterrupt):
        long_statements.run(store, "INSERT INTO t_anew (a) SELECT a FROM t", interrupt)  # type: ignore[arg-type]
    assert "ADD CONSTRAINT" in store.sql[-2]
    assert store.sql[-1].startswith("ALTER TABLE t DROP CONSTRAINT")


def test_an_insert_that_never_ends_holds_nobody_up_for_ever() -> None:
    asked = []

    class Busy(Store):
        def rows(self, sql: str, **_: object) -> list[dict[str, str]]:
            asked.append(sql)
            return [{"one": "1"}]

    with pytest.raises(WeirError, match="an INSERT into flows that began before has not ended for 0 s"):
        long_statements.wait_for_writers(Busy(), table="flows", at_most=0)  # type: ignore[arg-type]
    assert all("positionCaseInsensitive(query, 'flows')" in sql for sql in asked)
