"""`weir uninstall`: names all that is left of Weir on this machine, and removes it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weir.config import CHECKOUT, Stack


@dataclass(frozen=True)
class Leftover:
    """Something that Weir wrote; `shared` if other programs use it, too, so that it stays unless asked for."""

    path: Path
    what: str
    shared: bool = False

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


def _known(stack: Stack) -> Iterator[Leftover]:
    built = CHECKOUT / ".weir"
    kept = {
        "data": "stored records, messages and state",
        "backups": "backups",
        "secrets": "passwords, certificates and keys",
        "weir.yaml": "settings",
        "ports.json": "exchanged ports",
        "audit-heads.json": "ends of the audit",
        "logs": "logs",
        "run": "files of running services",
    }
    for name, what in kept.items():
        yield Leftover(stack.home / name, what)
    if stack.backups != stack.home / "backups":
        yield Leftover(stack.backups, "backups", shared=True)
    user = Path.home()
    cargo, uv = os.environ.get("CARGO_HOME", user / ".cargo"), os.environ.get("UV_CACHE_DIR", user / ".cache/uv")
    yield Leftover(Path(cargo) / "registry", "crates that Cargo keeps", shared=True)
    yield Leftover(user / ".m2/repository", "libraries that Maven keeps", shared=True)
    yield Leftover(Path(uv), "libraries that uv keeps", shared=True)
    yield Leftover(CHECKOUT / "capture/target", "the built agent")
    yield Leftover(CHECKOUT / "flink-jobs/target", "the built jobs")
    if stack.home == built and not any((built / "stacks").glob("*")):
        yield Leftover(built, "Python environments, Kafka, and whatever else is built")
    elif built.is_dir():  # It holds, or may hold, other stacks' data.
        for child in sorted(built.iterdir()):
            if child.name not in {*kept, "stacks"}:
                yield Leftover(child, "built")
