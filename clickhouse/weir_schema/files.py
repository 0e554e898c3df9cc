"""The statements of migrations and views, and the checksums that reveal a change to them.

A migration makes or changes tables, dictionaries and functions; it is applied once, and never edited afterwards:
`migrations/checksums` holds each file's SHA-256, and its equivalent earlier ones. A view stands in a file of its own,
`views/NAME.sql`, and is created again whenever its statement changes. So is `lists/TABLE.sql`, written by flink-jobs
from its declarations: it adds the names of all lists to a table of windows.

`LIKE table (column, …)` declares columns of a view that have the meaning of another table's or view's columns: such a column
takes its type and comment from that table or view. `FOR EACH n FROM 0 TO 12: SELECT …` is that SELECT once for each number,
joined by UNION ALL. `INCLUDE name` stands for the text of `views/parts/name.sql`,
which several views share. `networks.yaml` says which views exist again with networks instead of addresses.
"""

from __future__ import annotations

import hashlib
import re
from graphlib import TopologicalSorter
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parent.parent
MIGRATIONS = FOLDER / "migrations"


def statements(text: str) -> list[str]:
    """The statements of a file: each ends with `;` at the end of a line; `--` lines are comments."""
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return [part.strip() for part in re.split(r";[ \t]*(?:\n|$)", kept) if part.strip()]


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    return digest(path.read_text(encoding="utf-8"))


def digest(text: str) -> str:
    """SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def migrations(folder: Path = MIGRATIONS) -> list[Path]:
    """The migrations of a folder, in order."""
    return sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))


def lists(folder: Path = MIGRATIONS) -> dict[str, str]:
    """The statement that gives each table of windows the names of all its lists, by the table's name."""
    found = {}
    for path in sorted((folder.parent / "lists").glob("*.sql")):
        (found[path.stem],) = statements(path.read_text())
    return found


def views(folder: Path = MIGRATIONS) -> dict[str, str]:
    """The statement of each view beside a folder of migrations, by name, each after those that it reads."""
    found = {}
    beside = folder.parent / "views"
    for path in sorted(beside.glob("*.sql")):
        text = _INCLUDE.sub(lambda part: (beside / f"parts/{part[1]}.sql").read_text(), path.read_text())
        (found[path.stem],) = statements(_EACH.sub(_repeated, text))
    columns = _columns(folder)
    for _ in found:
        # A view may take columns from a view that itself takes some.
        for name, text in found.items():
            found[name] = _LIKE.sub(lambda like: _declared(columns, like[1], like[2]) or like[0], text)
            columns[name] = _columns_of(found[name]) | columns.get(name, {})
        if not any(_LIKE.search(text) for text in found.values()):
            break
    for name, text in found.items():
        if left := _LIKE.search(text):
            raise ValueError(f"views/{name}.sql: no such columns: {left[0].strip()}")
    read = {name: sorted(_read(text) & set(found) - {name}) for name, text in found.items()}
    return {name: found[name] for name in TopologicalSorter(read).static_order()}


#: A line that declares a column: name, type with its modifiers, comment.
_COLUMN = re.compile(
    r"^\s+(?:(?:ADD|MODIFY) COLUMN (?:IF NOT EXISTS )?)?(\w+)\s+(.+?) COMMENT ('(?:[^'\\]|''|\\.)*')", re.MULTILINE
)
_EACH = re.compile(r"^( +)FOR EACH (\w+) FROM (\d+) TO (\d+): (.*)$", re.MULTILINE)
_INCLUDE = re.compile(r"^    INCLUDE (\w+)\n", re.MULTILINE)
_LIKE = re.compile(r"^    LIKE ([\w.]+) \(([\w,\s]+)\)", re.MULTILINE)


def _columns(folder: Path) -> dict[str, dict[str, str]]:
    """The declaration of each table's columns after all migrations, without defaults and codecs."""
    tables: dict[str, dict[str, str]] = {}
    made = [statement for path in migrations(folder) for statement in statements(path.read_text())]
    for statement in [*made, *lists(folder).values()]:
        # NAME_anew is exchanged with NAME.
        table = re.match(r"(?:CREATE TABLE (?:IF NOT EXISTS )?|ALTER TABLE )(\w+?)(?:_anew)?\n", statement)
        if table:
            tables.setdefault(table[1], {}).update(_columns_of(statement))
    return tables


def _columns_of(statement: str) -> dict[str, str]:
    found = {}
    for name, kind, comment in _COLUMN.findall(statement):
        found[name] = f"{name} {re.split(r' (?:DEFAULT|ALIAS|MATERIALIZED) ', kind)[0].strip()} COMMENT {comment}"
    return found


def _repeated(each: re.Match[str]) -> str:
    indent, name, first, last, select = each.groups()
    numbers = range(int(first), int(last) + 1)
    return f"\n{indent}UNION ALL\n".join(indent + re.sub(rf"\b{name}\b", str(number), select) for number in numbers)


def _declared(columns: dict[str, dict[str, str]], table: str, names: str) -> str:
    """The declarations of these columns of a table or view; empty if one is unknown."""
    known = columns.get(table, {})
    wanted = [name.strip() for name in names.split(",")]
    return ",\n".join(f"    {known[name]}" for name in wanted) if all(name in known for name in wanted) else ""


#: The database of the views that show networks, and the file that says what they show.
NETWORKS_DATABASE, NETWORKS = "weir_networks", FOLDER / "networks.yaml"


def networks(folder: Path = MIGRATIONS) -> dict[str, str]:
    """The statement of each view that shows networks instead of addresses, by the name of the view whose rows it has.

    Their rows come shuffled: the order in which the store keeps rows is that of addresses.
    """
    listed = yaml.safe_load((folder.parent / NETWORKS.name).read_text())
    made = views(folder)
    return {name: _masked(name, made[name], set(listed["networks"]), set(listed["shown"])) for name in listed["views"]}


def _masked(view: str, statement: str, masked: set[str], shown: set[str]) -> str:
    declared, selected = [], []
    for column, declaration in _columns_of(statement).items():
        if column in masked:
            kind = declaration.split(" COMMENT ")[0].split(" ", 1)[1]
            says = "network" if kind == "String" else "first address of the network"
            declared.append(f"    {column} {kind} COMMENT 'The {says}, /24 or /48, of the address that {view} has here'")
            selected.append(f"weir_network_{'text' if kind == 'String' else 'of'}(m.{column}) AS {column}")
        elif column in shown:
            declared.append(f"    {declaration}")
            selected.append(f"m.{column} AS {column}")
    return (
        f"CREATE OR REPLACE VIEW {NETWORKS_DATABASE}.{view}\n(\n" + ",\n".join(declared) + "\n)\n"
        "DEFINER = CURRENT_USER SQL SECURITY DEFINER\n"
        f"AS SELECT\n    {', '.join(selected)}\nFROM {view} AS m\nORDER BY rand()\n"
        f"COMMENT 'The rows of {view}, with networks instead of addresses, in no order'"
    )


def _read(view: str) -> set[str]:
    """Names of the tables and views that a view reads."""
    text = re.sub(r"'(?:[^'\\]|''|\\.)*'", "''", view)
    return set(re.findall(r"\b(?:FROM|JOIN) (\w+)\b", text))


def renewed(folder: Path = MIGRATIONS) -> dict[str, str]:
    """The statements applied whenever they have changed, in order, by file name without extension: lists, then views, then views
    of networks."""
    found = {f"lists/{name}": statement for name, statement in lists(folder).items()}
    found |= {f"views/{name}": statement for name, statement in views(folder).items()}
    if (folder.parent / NETWORKS.name).exists():
        found |= {f"views/{NETWORKS_DATABASE}.{name}": statement for name, statement in networks(folder).items()}
    return found


def accepted(folder: Path = MIGRATIONS) -> dict[str, set[str]]:
    """The checksums under which a migration may have been applied: the file's own, and those in `checksums`."""
    known = {path.name: {checksum(path)} for path in migrations(folder)}
    noted = folder / "checksums"
    for line in noted.read_text().splitlines() if noted.exists() else ():
        name, *sums = line.split()
        known.setdefault(name, set()).update(sums)
    return known
