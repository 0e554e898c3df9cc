"""The table `flows` is the one that the options of `schemas/flow.proto` declare."""

from __future__ import annotations

import json
from typing import Any

import pytest

import flow_columns
from harness import BUILT, CHECKOUT, run

#: What the engine has after every migration; ALIAS columns are computed, not declared.
ASK = """
import json, sys
from pathlib import Path
from chdb.state.sqlitelike import Connection
from weir_clickhouse.docs import statements
connection = Connection(":memory:")
connection.query("CREATE DATABASE weir ENGINE = Atomic")
connection.query("USE weir")
for statement in statements(Path(sys.argv[1])):
    connection.query(statement)
question = (
    "SELECT name, type, compression_codec AS codec, comment FROM system.columns "
    "WHERE database = 'weir' AND table = 'flows' AND default_kind = ''"
)
print(connection.query(question, "JSONEachRow").bytes().decode())
"""


@pytest.fixture(scope="module")
def stored() -> dict[str, dict[str, Any]]:
    """The columns of `flows` in an engine that has run the migrations."""
    python = BUILT / "venvs/clickhouse/bin/python"
    path = {"PYTHONPATH": f"{CHECKOUT / 'clickhouse/embedded'}:{CHECKOUT / 'clickhouse'}"}
    done = run([str(python), "-c", ASK, str(CHECKOUT / "clickhouse/migrations")], path)
    assert done.status == 0, done.err
    return {row["name"]: row for row in map(json.loads, filter(None, done.out.splitlines()))}


def test_the_table_has_the_declared_columns(stored: dict[str, dict[str, Any]]) -> None:
    for column in flow_columns.declared():
        assert column.name in stored, "`python schemas/flow_columns.py --migration` prints the migration that adds it"
        found = stored.pop(column.name)
        # The engine writes Delta with the width that it took from the type.
        codec = found["codec"].removeprefix("CODEC(").removesuffix(")").replace("Delta(2)", "Delta")
        assert (found["type"], codec, found["comment"]) == (column.type, column.codec, column.comment), column.name
    assert not stored, "columns that no schema declares"


def test_a_new_field_is_a_migration() -> None:
    known, new = (
        flow_columns.Column("src_port", "UInt16", "", ""),
        flow_columns.Column("tos", "UInt8", "ZSTD(1)", "the sender's"),
    )
    assert flow_columns.migration([known]) == ""
    assert flow_columns.migration([known, new]) == (
        "ALTER TABLE flows\n"
        "    ADD COLUMN IF NOT EXISTS tos UInt8 COMMENT 'the sender\\'s' CODEC(ZSTD(1)) AFTER src_port;\n"
    )
