"""Finds the code within documents, and the commands, files and headings that it names."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
#: Suffixes that only this project's own files have.
SOURCES = (".rs", ".py", ".java", ".sql", ".proto", ".sh")
#: Folders of build results and installed programs.
_BUILT = {".git", ".weir", "target", "node_modules", "__pycache__", ".ruff_cache", ".mypy_cache", ".pytest_cache"}


@dataclass(frozen=True)
class Page:
    """A document; `spans` are its inline pieces of code, `blocks` the others."""

    path: Path
    text: str

    @property
    def _unfenced(self) -> str:
        return re.sub(r"^```\w*\n.*?^```", "", self.text, flags=re.M | re.S)

    @property
    def blocks(self) -> list[str]:
        """Fenced and indented blocks, without their indentation."""
        fenced = re.findall(r"^```\w*\n(.*?)^```", self.text, re.M | re.S)
        indented = re.findall(r"(?:^|\n)\n((?:    .*\n|\n(?=    ))+)", self._unfenced)
        return fenced + [re.sub(r"^    ", "", block, flags=re.M) for block in indented]

    @property
    def spans(self) -> list[str]:
        """Text between back-ticks."""
        return [" ".join(span.split()) for span in re.findall(r"(?<!`)`([^`]+)`", self._unfenced)]

    def commands(self, name: str) -> Iterator[list[str]]:
        """The words after the name of each command that begins with it."""
        for line in [*self.spans, *(line for block in self.blocks for line in block.replace("\\\n", " ").splitlines())]:
            for command in re.split(r"[|;&]+|\$\(", line.split(" #")[0]):
                words = command.split()
                while words and (re.fullmatch(r"\$|sudo|[A-Z_]+=\S*", words[0])):
                    del words[0]
                if words and words[0].rsplit("/", 1)[-1] == name:
                    yield words[1:]

    def anchors(self) -> set[str]:
        """The anchors of the page, which links can name."""
        headings = re.findall(r"^#+ (.*)$", self._unfenced, re.M)
        plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower().replace("`", "") for heading in headings]
        return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


def pages(*patterns: str) -> list[Page]:
    """The documents that match."""
    found = sorted({path for pattern in patterns for path in CHECKOUT.glob(pattern)})
    return [Page(path, path.read_text()) for path in found]


def written() -> list[Page]:
    """The documents that people write about the project as it is."""
    return pages("README.md", "CONTRIBUTING.md", "SECURITY.md", "*/README.md", "docs/[!r]*/**/*.md", "docs/README.md")


def project_files() -> list[str]:
    """Names of the project's files. Without git: the files outside the folders of build results."""
    with suppress(OSError):
        # The checkout may belong to another user.
        command = ["git", "-c", "safe.directory=*", "ls-files"]
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.splitlines()
    found = list[str]()
    for folder, folders, names in os.walk(CHECKOUT):
        folders[:] = [name for name in folders if name not in _BUILT]
        found += [Path(folder, name).relative_to(CHECKOUT).as_posix() for name in names]
    return sorted(found)


def targets() -> set[str]:
    """The targets of the Makefile."""
    rules = re.findall(r"^([a-z][\w -]*):(?!=)", (CHECKOUT / "Makefile").read_text(), re.M)
    return {target for rule in rules for target in rule.split()}


def is_file(name: str, page: Path, tracked: list[str]) -> bool:
    """Whether a name is a tracked file's, or its end, seen from the checkout or from the page's folder."""
    pattern = re.compile(r"(?:^|/)" + re.escape(name).replace(r"\*", "[^/]*") + "$")
    return (page.parent / name).exists() or any(pattern.search(path) for path in tracked)
