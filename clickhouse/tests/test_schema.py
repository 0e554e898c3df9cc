"""The files that say what the store consists of: nothing in two places, nothing forgotten, nothing edited afterwards."""

from __future__ import annotations

import re

from conftest import Server

from weir_schema import files, retention


def test_no_applied_migration_was_edited() -> None:
    """Who adds a migration adds its line to `migrations/checksums`; who edits one makes every store refuse it."""
    noted = {line.split()[0]: line.split()[1] for line in (files.MIGRATIONS / "checksums").read_text().splitlines()}
    assert noted == {path.name: files.checksum(path) for path in files.migrations()}
    assert len(noted) > 20


def test_views_stand_in_files_of_their_own() -> None:
    for path in files.migrations():
        assert not re.search(r"^CREATE (OR REPLACE )?VIEW\b", path.read_text(), re.MULTILINE), path.name
    found = files.views()
    assert len(found) > 30
    for path in found:
        (statement,) = files.statements(path.read_text())
        assert statement.startswith(f"CREATE OR REPLACE VIEW {path.stem}\n")
        # Whoever may read a view needs no right on its tables; a view with parameters asks with its reader's rights.
        assert ("SQL SECURITY DEFINER" in statement) == (path.stem != "v_network")


def test_views_come_after_those_that_they_read() -> None:
    order = [path.stem for path in files.views()]
    for at, path in enumerate(files.views()[:-1]):
        later = re.findall(rf"\b(?:FROM|JOIN) ({'|'.join(order[at + 1 :])})\b", " ".join(files.statements(path.read_text())))
        assert not later, path.name


def test_every_table_has_one_tier(server: Server, weir: str) -> None:
    made = server.sql(f"SELECT name FROM system.tables WHERE database = '{weir}' AND engine LIKE '%MergeTree' ORDER BY name")
    listed = sorted(table for tier in retention.tiers().values() for table in tier.tables)
    # `weir migrate` makes the one that notes what was applied.
    assert listed == sorted([*made.split(), "schema_migrations"])
