"""The tables that batches fill are those that the options of `schemas/flow.proto` declare."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import message_factory

import flow_columns
from harness import BUILT, CHECKOUT, run

#: The engine's columns after every migration; ALIAS columns are computed, not declared.
#: Columns that the store fills itself.
OF_THE_STORE = {"late_at"}
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
    "SELECT table, name, type, compression_codec AS codec, comment FROM system.columns "
    "WHERE database = 'weir' AND default_kind IN ('', 'DEFAULT')"
)
print(connection.query(question, "JSONEachRow").bytes().decode())
"""


@pytest.fixture(scope="module")
def stored() -> dict[tuple[str, str], dict[str, Any]]:
    """The columns in an engine that has run the migrations, by table and name."""
    python = BUILT / "venvs/clickhouse/bin/python"
    path = {"PYTHONPATH": f"{CHECKOUT / 'clickhouse/embedded'}:{CHECKOUT / 'clickhouse'}"}
    done = run([str(python), "-c", ASK, str(CHECKOUT / "clickhouse/migrations")], path)
    assert done.status == 0, done.err
    return {(row["table"], row["name"]): row for row in map(json.loads, filter(None, done.out.splitlines()))}


@pytest.mark.parametrize("table", flow_columns.TABLES)
def test_the_table_has_the_declared_columns(stored: dict[tuple[str, str], dict[str, Any]], table: str) -> None:
    left = {name for of, name in stored if of == table} - OF_THE_STORE
    # In other tables, what the comments of the batch's own columns call a flow is an event or a sample.
    header = set() if table == "flows" else {column.name for column in flow_columns.of_message("FlowMessage")}
    for column in flow_columns.declared(table):
        assert column.name in left, (
            f"`python schemas/flow_columns.py --table {table} --migration` prints the migration that adds it"
        )
        left.remove(column.name)
        found = stored[table, column.name]
        # The engine writes Delta with the width that it took from the type.
        codec = re.sub(r"Delta\(\d\)", "Delta", found["codec"].removeprefix("CODEC(").removesuffix(")"))
        assert (found["type"], codec) == (column.type, column.codec), column.name
        assert found["comment"] == column.comment or column.name in header, column.name
    assert not left, "columns that no schema declares"


def test_a_new_field_is_a_migration() -> None:
    known, new = (
        flow_columns.Column("src_port", "UInt16", "", ""),
        flow_columns.Column("tos", "UInt8", "ZSTD(1)", "the sender's"),
    )
    assert flow_columns.migration([known]) == ""
    assert flow_columns.migration([known, new]) == (
        "ALTER TABLE flows\n"
        "    ADD COLUMN IF NOT EXISTS tos UInt8 COMMENT 'the sender''s' CODEC(ZSTD(1)) AFTER src_port;\n"
    )


def test_every_message_with_columns_fills_a_table() -> None:
    schemas = flow_columns.pool()
    options = message_factory.GetMessageClass(schemas.FindMessageTypeByName("google.protobuf.FieldOptions"))
    column: Any = schemas.FindExtensionByName("weir.v1.column")

    def has_columns(field: Any) -> bool:
        return bool(options.FromString(field.GetOptions().SerializeToString()).HasExtension(column))

    def within(message: Any) -> Iterator[Any]:
        yield message
        for nested in message.nested_types:
            yield from within(nested)

    with_columns = {
        message.name
        for file in flow_columns.compiled("--include_source_info")
        for top in file.message_type
        for message in within(schemas.FindMessageTypeByName(f"{file.package}.{top.name}"))
        if any(map(has_columns, message.fields))
    }
    assert "Flow" in with_columns
    assert with_columns == {message for message, _ in flow_columns.by_field()}
