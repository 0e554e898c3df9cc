"""The reference of tables and columns in Markdown, from the comments in the migrations."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chdb.state.sqlitelike import Connection

# The package beside the migrations, in the same checkout.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from weir_schema import files


def statements(folder: Path) -> Iterator[str]:
    """The statements of a folder of migrations, and of the views beside it."""
    for path in files.migrations(folder):
        yield from statements_of(path)
    yield from files.renewed(folder).values()


def statements_of(path: Path) -> list[str]:
    """The statements of one file."""
    return files.statements(path.read_text(encoding="utf-8"))


def tables(folder: Path) -> str:
    """The reference of the tables that a folder of migrations creates; applies these to an engine in memory."""
    connection = Connection(":memory:")
    try:
        connection.query("CREATE DATABASE weir ENGINE = Atomic")
        connection.query("USE weir")
        for statement in statements(folder):
            connection.query(statement)

        def rows(sql: str) -> list[dict[str, Any]]:
            return [json.loads(line) for line in connection.query(sql, "JSONEachRow").bytes().decode().splitlines()]

        return _markdown(
            rows(
                "SELECT name, engine, comment, sorting_key, partition_key FROM system.tables"
                " WHERE database = 'weir' AND engine NOT IN ('Dictionary', 'MaterializedView')"
                " ORDER BY startsWith(name, 'v_'), name"
            ),
            rows("SELECT table, name, type, comment FROM system.columns WHERE database = 'weir' ORDER BY table, position"),
        )
    finally:
        connection.close()


def _markdown(found: list[dict[str, Any]], columns: list[dict[str, Any]]) -> str:
    """One section for each table: its comment, its order, its columns."""
    out = ["# Tables", "", "Made from the comments in `clickhouse/migrations`. Times are UTC; octets are those of layer 3.", ""]
    for table in found:
        name = table["name"]
        kind = "view" if table["engine"] == "View" else table["engine"]
        out += [f"## {name}", "", f"{_cell(table['comment'])}.", ""]
        if table["sorting_key"]:
            partition = f", partitioned by `{table['partition_key']}`" if table["partition_key"] else ""
            out += [f"{kind}, ordered by `{table['sorting_key']}`{partition}.", ""]
        out += ["| column | type | meaning |", "|---|---|---|"]
        out += [f"| `{c['name']}` | `{_cell(c['type'])}` | {_cell(c['comment'])} |" for c in columns if c["table"] == name]
        out.append("")
    return "\n".join(out)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
