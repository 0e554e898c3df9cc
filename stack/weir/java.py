"""Files of Java's programs."""

from __future__ import annotations

from collections.abc import Mapping

#: Java's option by which a program leaves no folder in /tmp.
NO_FILES = "-XX:-UsePerfData"


def properties(values: Mapping[str, object]) -> str:
    """The text of a file of properties. Java reads such files as Latin-1: other characters are escaped by their UTF-16 units."""
    return "".join(f"{_escaped(key)}={_escaped(str(value))}\n" for key, value in values.items())


def _escaped(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    plain = "".join(one if " " <= one <= "~" else _units(one) for one in plain)
    return plain.replace(" ", "\\ ", 1) if plain.startswith(" ") else plain


def _units(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
