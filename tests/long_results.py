"""The page that shows the last result of each part of `make test-long`.

`run.py` writes a part's row when the part ends. The rows of other parts stay, each with the commit that it ran on: the
whole takes longer than many a working day, and may be run part by part.
"""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

PAGE = Path("docs/explanation/long-tests.md")
#: `tests/machines` writes this one.
MACHINES = Path("docs/explanation/machines.md")
HEAD = """<!-- Written by tests/run.py long; do not edit. -->

# Last result of each long test

`make test-long` runs these parts, two at a time; `make test-long PART=name` runs one of them. The commit is the one that
the part ran on; "changed" after it means that the checkout also held changes that were not committed. The last column is
the last line that the part printed, or its number of tests.

| part | commit | date | result | duration | output |
|---|---|---|---|---|---|
"""
#: Characters of a part's last line to keep.
KEPT = 160


@dataclass(frozen=True)
class Result:
    """How a part ended. commit: of the checkout when it began; seconds: its duration; said: the end of its output."""

    part: str
    commit: str
    passed: bool
    seconds: float
    said: str


def commit(checkout: Path) -> str:
    """The checkout's commit, followed by "changed" if there are changes outside the pages that tests write; "unknown" without git."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ".", f":!{PAGE}", f":!{MACHINES}")
        return git("rev-parse", "--short=8", "HEAD") + (" changed" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def last_line(output: str) -> str:
    """The last line of a part's output that is neither empty nor a command, fit for a cell of a table."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    lines = [line.strip() for line in plain.splitlines() if line.strip() and not line.startswith(("$ ", "make"))]
    return lines[-1][:KEPT].replace("|", "/") if lines else ""


def row(result: Result, date: str) -> str:
    """The row of a part."""
    minutes = f"{result.seconds / 60:.0f} min" if result.seconds >= 90 else f"{result.seconds:.0f} s"
    ended = "passed" if result.passed else "**failed**"
    return f"| {result.part} | {result.commit} | {date} | {ended} | {minutes} | {result.said} |"


def keep(checkout: Path, result: Result, order: list[str]) -> None:
    """Replace the part's row on the page; the rows follow in this order of parts, and those of no part go."""
    page = checkout / PAGE
    text = page.read_text() if page.exists() else ""
    lines = {found[1]: found[0] for found in re.finditer(r"^\| (\S+) \| [0-9a-fu].*\|$", text, re.MULTILINE)}
    lines[result.part] = row(result, time.strftime("%Y-%m-%d"))
    page.write_text(HEAD + "".join(f"{lines[part]}\n" for part in order if part in lines))
