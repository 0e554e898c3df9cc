"""Circles of imports among the files of `capture/src`: files each of which imports, in the end, itself.

`python tests/imports.py` lists them with the imports that close them; `test_imports.py` bounds their size. Tests and
simulators do not count, nor does a module's import from its own submodules, which it shows to others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
SOURCES = CHECKOUT / "capture/src"
#: A module by its path within the crate; that of `packet/mod.rs` is ("packet",).
Module = tuple[str, ...]


def modules(folder: Path) -> dict[Module, str]:
    """The sources by module, without comments and unit tests."""
    found = {}
    for path in folder.rglob("*.rs"):
        words = path.relative_to(folder).with_suffix("").parts
        if words[0] == "bin" or words == ("main",) or re.search(r"simulator|tests?$", "/".join(words)):
            continue
        text = re.split(r"\n#\[cfg\(test\)\]\s*\nmod \w+ \{", path.read_text())[0]
        found[words[:-1] if words[-1] in ("mod", "lib") else words] = re.sub(r"//.*", "", text)
    return found


def paths(tree: str) -> Iterator[list[str]]:
    """The paths of a tree of `use`: `a::{b, c::d}` has two."""
    head, brace, inside = tree.partition("{")
    if not brace:
        yield [word for word in re.sub(r"\s+as\s.*", "", tree.strip()).split("::") if word.strip()]
        return
    start = [word.strip() for word in head.split("::") if word.strip()]
    depth, begin = 0, 0
    inside = inside.rpartition("}")[0] + ","
    for at, letter in enumerate(inside):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and not depth:
            if inside[begin:at].strip():
                yield from (start + path for path in paths(inside[begin:at]))
            begin = at + 1


def imported(own: Module, text: str, known: set[Module]) -> set[Module]:
    """The modules of which a file names something."""
    uses = re.findall(r"\buse ([^;]+);", text)
    rest = re.sub(r"\buse [^;]+;", "", text)
    named = [path for use in uses for path in paths(use)]
    named += [path.split("::") for path in re.findall(r"\b(?:crate|super)(?:::\w+)+", rest)]
    found = set()
    for path in named:
        if path[0] == "crate":
            full = tuple(path[1:])
        elif path[0] in ("self", "super"):
            above = path.count("super")
            full = own[: len(own) - above] + tuple(word for word in path if word not in ("self", "super"))
        else:
            full = own + tuple(path)
        while full and full not in known:
            full = full[:-1]
        # What a path names in the crate's root or in a submodule of its own is no import from elsewhere.
        if full and full[: len(own)] != own:
            found.add(full)
    return found


def graph(folder: Path = SOURCES) -> dict[Module, set[Module]]:
    """What each module imports."""
    texts = modules(folder)
    return {module: imported(module, text, set(texts)) for module, text in texts.items()}


def circles(graph: dict[Module, set[Module]]) -> list[list[Module]]:
    """The groups of modules each of which imports, through others, all of the group; the largest first."""
    reached: dict[Module, set[Module]] = {}
    for start in graph:
        seen, left = set[Module](), [start]
        while left:
            for other in graph.get(left.pop(), set()) - seen:
                seen.add(other)
                left.append(other)
        reached[start] = seen
    groups = {
        tuple(sorted(other for other in seen if one in reached.get(other, set())))
        for one, seen in reached.items()
        if one in seen
    }
    return sorted(map(list, groups), key=lambda group: (-len(group), group))


def told(graph: dict[Module, set[Module]], group: list[Module]) -> str:
    """A circle's imports, one on each line."""
    return "\n".join(
        f"    {'/'.join(one)} imports {', '.join('/'.join(other) for other in sorted(graph[one] & set(group)))}"
        for one in group
    )


if __name__ == "__main__":
    imports = graph()
    for circle in circles(imports):
        print(f"{len(circle)} files import each other:\n{told(imports, circle)}")
