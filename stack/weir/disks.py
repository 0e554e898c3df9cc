"""Room on the disk of a stack."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from weir.config import Stack
from weir.errors import WeirError
from weir.memories import gib

#: Octets that a start and the first minutes take.
NEED = 512 << 20
#: With fewer octets free, what failed most likely failed for want of room.
_FULL = 16 << 20
_TO_DO = "make room there, or set WEIR_HOME to a folder on another disk"


def place(home: Path) -> Path:
    """The folder of a stack, or the nearest one above that is there."""
    return next(path for path in (home, *home.parents) if path.exists())


def check(stack: Stack) -> None:
    """Raise WeirError if the disk has no room for a start."""
    where = place(stack.home)
    free = shutil.disk_usage(where).free
    if free < NEED:
        raise WeirError(
            f"not enough room on the disk: {gib(free)} free in {where}, a start takes {gib(NEED)}", hint=_TO_DO
        )


def is_full(home: Path) -> bool:
    """Whether the disk of a stack has next to no room left."""
    return shutil.disk_usage(place(home)).free < _FULL


def explained(error: OSError, home: Path) -> WeirError | None:
    """What to tell a user whose disk is full; None if the error is another one."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    return full(home)


def full(home: Path) -> WeirError:
    """What to tell a user whose disk is full."""
    return WeirError(f"the disk is full: {place(home)}", hint=_TO_DO, status=1)
