"""Applied migrations, against a store that only records statements."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weir.errors import WeirError
from weir.migrations import FOLDER, define, migrate
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

    def rows(self, sql: str) -> list[dict[str, str]]:
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
    with pytest.raises(WeirError, match=r"0001_t\.sql was changed after it was applied"):
        migrate(store, folder)  # type: ignore[arg-type]
    # Unless the two are equivalent.
    (folder / "checksums").write_text(f"0001_t.sql {files.checksum(folder / '0001_t.sql')} {was}\n")
    migrate(store, folder)  # type: ignore[arg-type]


def test_a_store_from_before_the_views_had_files_is_taken_over() -> None:
    former = {line.split()[0]: line.split()[-1] for line in (FOLDER / "checksums").read_text().splitlines()}
    assert former["0006_views.sql"] != files.checksum(FOLDER / "0006_views.sql")
    store = Store(dict(former))
    applied = migrate(store)  # type: ignore[arg-type]
    assert {name for name in applied if name.startswith("views/")} == {f"views/{name}" for name in files.views()}
    assert {name for name in applied if name.startswith("lists/")} == {f"lists/{name}" for name in files.lists()}
    assert not any(sql.startswith(("CREATE TABLE IF NOT EXISTS flows", "ALTER TABLE flows")) for sql in store.sql)
