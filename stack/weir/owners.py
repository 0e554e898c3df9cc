"""Whose files are in a stack's folder, where commands ran as root once and as a user another time."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from weir.errors import WeirError


def explained(error: PermissionError, home: Path) -> WeirError | None:
    """What to tell a user whom the system refused a file of the stack; None if the file is the user's own."""
    path = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else home
    owner = _owner(path)
    if owner is None or owner == os.geteuid():
        return None
    theirs, mine = _name(owner), _name(os.geteuid())
    return WeirError(
        f"{path} belongs to {theirs}: a command of this stack ran as {theirs}",
        hint=f"stop that with 'weir down' as {theirs}, then: sudo chown -R {mine} '{home}'",
    )


def give_back(home: Path) -> None:
    """Give the files of a stack that is down back to the user who called `sudo`, if the folder around it is that user's."""
    user = os.environ.get("SUDO_UID", "")
    if os.geteuid() != 0 or not user.isdigit() or not home.is_dir() or home.parent.stat().st_uid != int(user):
        return
    group = int(os.environ.get("SUDO_GID") or -1)
    for path in (home, *home.rglob("*")):
        os.chown(path, int(user), group, follow_symlinks=False)


def _owner(path: Path) -> int | None:
    """Owner of a path, or of the nearest folder above it that can be seen."""
    for one in (path, *path.parents):
        try:
            return one.lstat().st_uid
        except OSError:
            continue
    return None


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
