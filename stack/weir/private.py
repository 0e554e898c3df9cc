"""Files that their owner alone may read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from weir.errors import WeirError


def write(path: Path, content: bytes, *, over: bool = False, group: int | None = None) -> None:
    """Write a file as a whole, whoever reads it meanwhile. over: replace one that is there; otherwise that one stays. group: the
    number of a group that may read it, too."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    made = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            if group is not None:
                os.fchown(handle, -1, group)
                os.fchmod(handle, 0o640)
            os.fsync(handle)
        if over:
            made.replace(path)
        else:
            path.hardlink_to(made)
    except FileExistsError:
        pass
    finally:
        made.unlink(missing_ok=True)


@contextmanager
def new(path: Path) -> Iterator[TextIO]:
    """A file that was not there, open for writing; it goes again if the block raises, or writes nothing.

    Raises WeirError if it cannot be made or written.
    """
    kept = False
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            try:
                yield file
                kept = file.tell() > 0
            finally:
                if not kept:
                    path.unlink()
    except OSError as error:
        raise WeirError(f"cannot write {path}: {error.strerror}", hint="name a file that does not exist") from error


def write_new(path: Path, text: str) -> None:
    """Write a file that was not there. Raises WeirError if it cannot be written."""
    with new(path) as file:
        file.write(text)
