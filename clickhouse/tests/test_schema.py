"""The files that define the store: nothing is duplicated, forgotten, or edited afterwards."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Server

from weir_schema import files, retention


def test_no_applied_migration_was_edited() -> None:
    """To add a migration, add its line to `migrations/checksums`; if you edit an old one, every store refuses it."""
    noted = {line.split()[0]: line.split()[1] for line in (files.MIGRATIONS / "checksums").read_text().splitlines()}
    assert noted == {path.name: files.checksum(path) for path in files.migrations()}
    assert noted


def test_views_stand_in_files_of_their_own() -> None:
    for path in files.migrations():
        assert not re.search(r"^CREATE (OR REPLACE )?VIEW\b", path.read_text(), re.MULTILINE), path.name
    found = files.views()
    assert len(found) > 30
    for name, statement in found.items():
        assert statement.startswith(f"CREATE OR REPLACE VIEW {name}\n")
        assert "LIKE " not in statement.split("\nAS ")[0]
        # A user who may read a view needs no right on its tables; a view with parameters runs with its reader's rights.
        assert ("SQL SECURITY DEFINER" in statement) == (name != "v_network")


def test_views_come_after_those_that_they_read() -> None:
    order = list(files.views())
    for at, statement in enumerate(list(files.views().values())[:-1]):
        assert not re.findall(rf"\b(?:FROM|JOIN) ({'|'.join(order[at + 1 :])})\b", statement), order[at]


def test_columns_like_anothers_have_its_type_and_comment(tmp_path: Path) -> None:
    (tmp_path / "migrations").mkdir()
    (tmp_path / "views").mkdir()
    (tmp_path / "migrations/0001_t.sql").write_text(
        "CREATE TABLE t\n(\n    a UInt8 DEFAULT 1 COMMENT 'It''s, a' CODEC(ZSTD(1)),\n    b Map(String, UInt8) COMMENT 'b'\n);\n"
        "ALTER TABLE t\n    ADD COLUMN IF NOT EXISTS c Date COMMENT 'c';\n"
    )
    like = "CREATE OR REPLACE VIEW {}\n(\n    LIKE {}\n)\nAS SELECT 1;\n"
    (tmp_path / "views/a.sql").write_text(like.format("a", "z (a, c)"))
    (tmp_path / "views/z.sql").write_text(like.format("z", "t (b,\n        a, c)"))
    found = files.views(tmp_path / "migrations")
    assert "(\n    b Map(String, UInt8) COMMENT 'b',\n    a UInt8 COMMENT 'It''s, a',\n    c Date COMMENT 'c'\n)" in found["z"]
    assert "(\n    a UInt8 COMMENT 'It''s, a',\n    c Date COMMENT 'c'\n)" in found["a"]
    (tmp_path / "views/z.sql").write_text(like.format("z", "t (b, d)"))
    with pytest.raises(ValueError, match=r"LIKE"):
        files.views(tmp_path / "migrations")


def test_a_select_is_repeated_for_each_number(tmp_path: Path) -> None:
    (tmp_path / "migrations").mkdir()
    (tmp_path / "views").mkdir()
    (tmp_path / "views/v.sql").write_text(
        "CREATE OR REPLACE VIEW v\nAS SELECT *\nFROM\n(\n    FOR EACH n FROM 9 TO 11: SELECT n AS k FROM nets WHERE k > n\n);\n"
    )
    each = [f"    SELECT {n} AS k FROM nets WHERE k > {n}" for n in (9, 10, 11)]
    assert "\n    UNION ALL\n".join(each) in files.views(tmp_path / "migrations")["v"]


def test_views_share_a_part(tmp_path: Path) -> None:
    (tmp_path / "migrations").mkdir()
    (tmp_path / "views/parts").mkdir(parents=True)
    (tmp_path / "views/parts/sums.sql").write_text("-- Of both.\n    a + b AS c,\n    d\n")
    for name in ("v", "w"):
        (tmp_path / f"views/{name}.sql").write_text(
            f"CREATE OR REPLACE VIEW {name}\nAS SELECT\n    x,\n    INCLUDE sums\nFROM {name}s;\n"
        )
    whole = "CREATE OR REPLACE VIEW {0}\nAS SELECT\n    x,\n    a + b AS c,\n    d\nFROM {0}s"
    assert files.views(tmp_path / "migrations") == {name: whole.format(name) for name in ("v", "w")}


def test_every_table_has_one_tier(server: Server, weir: str) -> None:
    made = server.sql(f"SELECT name FROM system.tables WHERE database = '{weir}' AND engine LIKE '%MergeTree' ORDER BY name")
    listed = sorted(table for tier in retention.tiers().values() for table in tier.tables)
    # `weir migrate` creates the table of applied migrations.
    assert listed == sorted([*made.split(), "schema_migrations"])


def test_what_the_law_limits_is_there(server: Server, weir: str) -> None:
    named = [(table, column) for tier in retention.tiers().values() for table, own in tier.columns.items() for column in own]
    assert named
    for table, column in named:
        there = f"SELECT count() FROM system.columns WHERE database = '{weir}' AND table = '{table}' AND name = '{column}'"
        assert server.sql(there) == "1", (table, column)
