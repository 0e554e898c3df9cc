"""The columns of the tables that batches fill, as declared by the options of `flow.proto` (see `columns.proto`).

`python schemas/flow_columns.py` prints those of `flows` as ClickHouse's column list (`--table` those of another table);
with `--migration` the statement that adds columns missing from the migrations, to be saved as the next file of
`clickhouse/migrations`.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor
from grpc_tools import protoc

FOLDER = Path(__file__).resolve().parent
MIGRATIONS = FOLDER.parent / "clickhouse/migrations"
#: The codec of a column whose declaration states none.
CODEC = "ZSTD(1)"
#: The messages whose fields are columns of each table; so are those of messages within Flow.
TABLES = {
    "flows": ("FlowMessage", "Flow", "Known"),
    "nat_events": ("FlowMessage", "NatEvent", "Kept"),
    "interface_counters": ("FlowMessage", "ExporterCounters"),
    "exporter_names": ("FlowMessage", "ExporterName"),
}


@dataclass(frozen=True)
class Column:
    """A column: name, type, codecs (empty for the engine's default) and comment, as ClickHouse writes them."""

    name: str
    type: str
    codec: str
    comment: str

    def definition(self) -> str:
        """The column's definition for CREATE TABLE or ADD COLUMN."""
        comment = self.comment.replace("\\", "\\\\").replace("'", "''")
        return f"{self.name} {self.type} COMMENT '{comment}'" + (
            f" CODEC({self.codec})" if self.codec else ""
        )


def compiled(option: str) -> Iterable[descriptor_pb2.FileDescriptorProto]:
    """Every schema, compiled with this option of protoc. Raises SystemExit if one does not compile."""
    names = sorted(path.name for path in FOLDER.glob("*.proto"))
    include = Path(protoc.__file__).parent / "_proto"
    with tempfile.NamedTemporaryFile() as file:
        arguments = [
            f"-I{FOLDER}",
            f"-I{include}",
            option,
            f"--descriptor_set_out={file.name}",
        ]
        if protoc.main(["protoc", *arguments, *names]):
            raise SystemExit("the schemas do not compile")
        files: Iterable[descriptor_pb2.FileDescriptorProto] = (
            descriptor_pb2.FileDescriptorSet.FromString(file.read()).file
        )
    return files


def pool() -> descriptor_pool.DescriptorPool:
    """Every schema, its options included."""
    made = descriptor_pool.DescriptorPool()
    for one in compiled("--include_imports"):
        made.Add(one)
    return made


def by_field(*tables: str) -> dict[tuple[str, str], Column]:
    """Every column of these tables, or of all, by its message and field, in the order of the messages' declarations."""
    schemas = pool()
    options = message_factory.GetMessageClass(
        schemas.FindMessageTypeByName("google.protobuf.FieldOptions")
    )
    extension: Any = schemas.FindExtensionByName("weir.v1.column")
    found: dict[tuple[str, str], Column] = {}

    def take(message: Descriptor) -> None:
        for field in message.fields:
            known = options.FromString(field.GetOptions().SerializeToString())
            if known.HasExtension(extension):
                said = known.Extensions[extension]
                codec = said.codec if said.HasField("codec") else CODEC
                column = Column(said.name or field.name, said.type, codec, said.comment)
                found[message.name, field.name] = column
            elif field.message_type and message.name == "Flow":
                take(field.message_type)

    for name in dict.fromkeys(
        name for table in tables or TABLES for name in TABLES[table]
    ):
        take(schemas.FindMessageTypeByName(f"weir.v1.{name}"))
    return found


def of_message(message: str) -> list[Column]:
    """Every column of one message."""
    return [column for (name, _), column in by_field().items() if name == message]


def declared(table: str = "flows") -> list[Column]:
    """Every column of a table."""
    return list(by_field(table).values())


def migration(columns: list[Column], table: str = "flows") -> str:
    """The statement that adds the columns that no migration of the table names; empty if there are none."""
    text = "".join(path.read_text() for path in sorted(MIGRATIONS.glob("[0-9]*.sql")))
    text = "".join(
        statement
        for statement in text.split(";\n")
        if re.search(rf"TABLE (IF NOT EXISTS )?{table}(_anew)?\n", statement)
    )
    lines = []
    for before, column in zip([None, *columns], columns, strict=False):
        if not re.search(
            rf"^\s*(ADD COLUMN (IF NOT EXISTS )?)?{column.name} ", text, re.MULTILINE
        ):
            place = f" AFTER {before.name}" if before else ""
            lines.append(f"    ADD COLUMN IF NOT EXISTS {column.definition()}{place}")
    return f"ALTER TABLE {table}\n" + ",\n".join(lines) + ";\n" if lines else ""


def main() -> None:
    """Print the columns or the migration."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--migration",
        action="store_true",
        help="print the statement that adds columns that no migration names",
    )
    parser.add_argument("--table", choices=TABLES, default="flows")
    arguments = parser.parse_args()
    columns = declared(arguments.table)
    if arguments.migration:
        print(migration(columns, arguments.table), end="")
    else:
        print(",\n".join(f"    {column.definition()}" for column in columns))


if __name__ == "__main__":
    main()
