"""Places of the sources that share six lines or more, ignoring white space, comments and imports; and files with six lines
in a row that differ in names, strings and numbers alone.

`python tests/copies.py` lists the pairs, the longest first; `test_copies.py` bounds their number.
"""

from __future__ import annotations

import collections
import os
import re
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
#: Lines that two places must share.
RUN = 6
#: A run that stands in more places than this is an idiom of the language, not a copy.
MOST_PLACES = 8
SOURCES = {".py", ".rs", ".java", ".sql", ".proto", ".sh", ".c", ".pyi"}
#: Generated files (the views of windows: flink-jobs declares them), or test vectors that must be readable on their own.
LEFT_OUT = re.compile(
    r"stack/weir/messages/|/tests/golden/|/cluster/"
    r"|views/v_(indicators|mixes|port_report|top_flows|top_indicators|top_talkers)\.sql"
)
#: Characters that the shape of a run must have; shorter ones are lists of fields, constants or parameters.
LEAST_SHAPE = 60
THIN = re.compile(r"[\W_]*|(use|import|from|package|pub use|mod|pub mod)\b.*|(//|#|--|\*|/\*|\"\"\").*")


@dataclass(frozen=True, order=True)
class Copy:
    """Two places that share `lines` lines; a place is a file and its first line."""

    lines: int
    first: tuple[str, int]
    second: tuple[str, int]

    def __str__(self) -> str:
        return f"{self.lines:3} lines  {self.first[0]}:{self.first[1]}  {self.second[0]}:{self.second[1]}"


def read(path: Path) -> list[tuple[int, str]]:
    """The lines to compare, with their numbers."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    folded = ((number, " ".join(line.split())) for number, line in enumerate(lines, 1))
    return [(number, line) for number, line in folded if not THIN.fullmatch(line)]


def copies(names: list[str]) -> list[Copy]:
    """Every pair of places that share a run, the longest first; if two files share several runs, each of them."""
    files = {name: read(CHECKOUT / name) for name in names}
    places: dict[tuple[str, ...], list[tuple[str, int]]] = collections.defaultdict(list)
    for name, lines in files.items():
        for at in range(len(lines) - RUN + 1):
            places[tuple(line for _, line in lines[at : at + RUN])].append((name, at))
    pairs = {
        pair for where in places.values() if 1 < len(where) <= MOST_PLACES for pair in combinations(sorted(where), 2)
    }
    found = []
    for (a, i), (b, j) in pairs:
        if ((a, i - 1), (b, j - 1)) in pairs or (a == b and j - i < RUN):
            continue
        length = 0
        while ((a, i + length), (b, j + length)) in pairs:
            length += 1
        found.append(Copy(length + RUN - 1, (a, files[a][i][0]), (b, files[b][j][0])))
    return sorted(found, reverse=True)


TOKEN = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(\d[\w.]*)|[A-Za-z_]\w*""")


def shape(line: str) -> str:
    """A line with `s` for each string, `0` for each number and `n` for each word."""
    return TOKEN.sub(lambda token: "s" if token[1] else "0" if token[2] else "n", line)


def alike(names: list[str]) -> list[tuple[str, str]]:
    """Every pair of files, or file with itself, that share a run of shapes."""
    places: dict[tuple[str, ...], list[tuple[str, int]]] = collections.defaultdict(list)
    for name in names:
        shapes = [shape(line) for _, line in read(CHECKOUT / name)]
        for at in range(len(shapes) - RUN + 1):
            run = tuple(shapes[at : at + RUN])
            if sum(map(len, run)) >= LEAST_SHAPE:
                places[run].append((name, at))
    return sorted(
        {
            (a, b)
            for where in places.values()
            if 1 < len(where) <= MOST_PLACES
            for (a, i), (b, j) in combinations(sorted(where), 2)
            if a != b or j - i >= RUN
        }
    )


def sources() -> list[str]:
    """The hand-written files of the checkout."""
    found = []
    for folder, folders, files in os.walk(CHECKOUT):
        folders[:] = [name for name in folders if name not in ("target", "node_modules") and name[0] not in "._"]
        found += [Path(folder, name).relative_to(CHECKOUT).as_posix() for name in files]
    return sorted(name for name in found if Path(name).suffix in SOURCES and not LEFT_OUT.search(name))


if __name__ == "__main__":
    every = copies(sources())
    print("\n".join(map(str, every)))
    print(f"{len(every)} pairs of places")
    files = alike(sources())
    print("\n".join(" ".join(pair) for pair in files))
    print(f"{len(files)} pairs of files")
