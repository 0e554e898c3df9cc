"""What releases left: for each a stopped stack with rows, unread messages and a savepoint, and a description of it.

`make released RELEASE=0.1.0` makes them in `tests/upgrade/released`; `tests/e2e/test_released.py` upgrades them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from harness import CHECKOUT

FOLDER = CHECKOUT / "tests/upgrade/released"


@dataclass(frozen=True)
class Released:
    """A release, and the stack that it left."""

    release: str
    #: The commit that the release's tag names.
    commit: str
    #: Packets that each probe captured; those of `waiting` are in Kafka only.
    packets: dict[str, int]
    #: Rows of the probe `kept` (`upgrades.kept`), all of whose records are stored.
    kept: dict[str, list[dict[str, object]]]

    @property
    def archive(self) -> Path:
        """The stack's folder."""
        return FOLDER / f"{self.release}.tar.xz"


def all_released() -> list[Released]:
    """Every release, the oldest first."""
    return [Released(**json.loads(path.read_text())) for path in sorted(FOLDER.glob("*.json"))]


def commit(version: str) -> str:
    """The commit of a release, such as v0.1.0, also in a clone without tags; any other name as it is."""
    return next((one.commit for one in all_released() if f"v{one.release}" == version), version)
