"""Secrets of this process: from files that belong to its user, or from the environment."""

from __future__ import annotations

import os
from pathlib import Path


def secret(name: str) -> str:
    """The content of the file that the variable `<name>_FILE` names, else the variable; empty without either.

    Raises OSError if the file cannot be read.
    """
    file = os.environ.get(f"{name}_FILE")
    return Path(file).read_text().strip() if file else os.environ.get(name, "")
