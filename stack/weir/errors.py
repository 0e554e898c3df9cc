"""Errors that the command reports in one line."""

import difflib
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import typer

from weir.terminal import printable

_HERE = Path(__file__).resolve().parents[1] / "bin/weir"


def as_typed(text: str) -> str:
    """A text with its commands `weir …` as they must be typed: by their path if `weir` is not on the PATH."""
    return text if shutil.which("weir") else re.sub(r"(?<![\w./-])weir (?=[a-z])", f"{os.path.relpath(_HERE)} ", text)


def nearest(name: str, known: Iterable[str]) -> str:
    """What to tell somebody who mistyped a name: the known ones like it, or all if they are few."""
    names = sorted({*known})
    like = difflib.get_close_matches(name, names, n=3, cutoff=0.6) or (names if len(names) <= 5 else [])
    return f"known: {', '.join(like)}" if like else ""


class WeirError(Exception):
    """Ends the command with one clear line on standard error and an exit status.

    `hint` tells the user what to do about the error; it is printed on a line of its own.
    """

    def __init__(self, text: str, *, hint: str = "", status: int = 2) -> None:
        super().__init__(text)
        self.hint = hint
        self.status = status

    def show(self) -> None:
        """Print the error and its hint for the user."""
        typer.echo(f"weir: {_lines(str(self))}", err=True)
        if self.hint:
            typer.echo(f"      {_lines(as_typed(self.hint))}", err=True)


def _lines(text: str) -> str:
    """The text may be another's, such as an agent's."""
    return "\n".join(map(printable, text.split("\n")))
