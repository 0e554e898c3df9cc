"""`weir uninstall`: names all that is left of Weir on this machine, and removes it. What is built serves every stack of the
checkout: it goes with the last one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from weir.config import CHECKOUT, Stack
from weir.supervisor import MARK

#: What a stack keeps in its folder.
KEPT = {
    "data": "stored records, messages and state",
    "backups": "backups",
    "secrets": "passwords, certificates and keys",
    "weir.yaml": "settings",
    "ports.json": "exchanged ports",
    "audit-heads.json": "ends of the audit",
    "logs": "logs",
    "run": "files of running services",
}


@dataclass(frozen=True)
class Leftover:
    """Something that Weir wrote; `shared` if other programs use it, too, so that it stays unless asked for. needed: the folders of
    the other stacks that need it, so that it stays.
    """

    path: Path
    what: str
    shared: bool = False
    needed: tuple[Path, ...] = ()

    def octets(self) -> int:
        """Its size on disk."""
        if not self.path.is_dir():
            return self.path.lstat().st_blocks * 512
        return sum(one.lstat().st_blocks * 512 for one in self.path.rglob("*"))

    def remove(self) -> None:
        """Remove it, with all that is in it. Raises OSError."""
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path)
        else:
            self.path.unlink()


def leftovers(stack: Stack) -> list[Leftover]:
    """All that is there, what is built last: this command runs from it."""
    return [one for one in _known(stack) if os.path.lexists(one.path)]


def others(stack: Stack) -> tuple[Path, ...]:
    """Folders of the checkout's other stacks: those in `.weir` that keep something, and those elsewhere that run."""
    built = CHECKOUT / ".weir"
    found = {home for home in (built, *(built / "stacks").glob("*")) if any((home / name).exists() for name in KEPT)}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            mark = process.environ().get(MARK, "")
            if mark and any(word.startswith(f"{CHECKOUT}/") for word in process.cmdline()):
                found.add(Path(mark))
    return tuple(sorted(found - {stack.home}))


def _known(stack: Stack) -> Iterator[Leftover]:
    built, needed = CHECKOUT / ".weir", others(stack)
    for name, what in KEPT.items():
        yield Leftover(stack.home / name, what)
    if stack.backups != stack.home / "backups":
        yield Leftover(stack.backups, "backups", shared=True)
    user = Path.home()
    cargo, uv = os.environ.get("CARGO_HOME", user / ".cargo"), os.environ.get("UV_CACHE_DIR", user / ".cache/uv")
    yield Leftover(Path(cargo) / "registry", "crates that Cargo keeps", shared=True)
    yield Leftover(user / ".m2/repository", "libraries that Maven keeps", shared=True)
    yield Leftover(Path(uv), "libraries that uv keeps", shared=True)
    yield Leftover(CHECKOUT / "capture/target", "the built agent", needed=needed)
    yield Leftover(CHECKOUT / "flink-jobs/target", "the built jobs", needed=needed)
    if not needed and stack.home == built:
        yield Leftover(built, "Python environments, Kafka, and whatever else is built")
    elif built.is_dir():
        for child in sorted(built.iterdir()):
            if child.name not in {*KEPT, "stacks"}:
                yield Leftover(child, "built", needed=needed)
