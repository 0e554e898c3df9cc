"""The statements of migrations and views, and the checksums by which a change to them is noticed.

A migration makes or changes tables, dictionaries and functions; it is applied once, and never edited afterwards:
`migrations/checksums` holds each file's SHA-256, and those that it had before and that are as good. A view stands in a
file of its own, `views/NAME.sql`, and is made anew whenever the file changes.
"""

from __future__ import annotations

import hashlib
import re
from graphlib import TopologicalSorter
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent
MIGRATIONS = FOLDER / "migrations"


def statements(text: str) -> list[str]:
    """The statements of a file: each ends with `;` at the end of a line; `--` lines are comments."""
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return [part.strip() for part in re.split(r";[ \t]*(?:\n|$)", kept) if part.strip()]


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def migrations(folder: Path = MIGRATIONS) -> list[Path]:
    """The migrations of a folder, in order."""
    return sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))


def views(folder: Path = MIGRATIONS) -> list[Path]:
    """The views that go with a folder of migrations, each after those that it reads."""
    found = {path.stem: path for path in sorted((folder.parent / "views").glob("*.sql"))}
    read = {name: sorted(_read(path) & set(found) - {name}) for name, path in found.items()}
    return [found[name] for name in TopologicalSorter(read).static_order()]


def _read(view: Path) -> set[str]:
    """Names of what a view reads."""
    text = re.sub(r"'(?:[^'\\]|''|\\.)*'", "''", "\n".join(statements(view.read_text())))
    return set(re.findall(r"\b(?:FROM|JOIN) (\w+)\b", text))


def accepted(folder: Path = MIGRATIONS) -> dict[str, set[str]]:
    """The checksums under which a migration may have been applied: the file's own, and those in `checksums`."""
    known = {path.name: {checksum(path)} for path in migrations(folder)}
    noted = folder / "checksums"
    for line in noted.read_text().splitlines() if noted.exists() else ():
        name, *sums = line.split()
        known.setdefault(name, set()).update(sums)
    return known
