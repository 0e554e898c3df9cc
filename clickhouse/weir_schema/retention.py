"""How long each table is kept, from `retention.yaml`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import yaml

FILE = Path(__file__).resolve().parent.parent / "retention.yaml"


@dataclass(frozen=True)
class Tier:
    """Tables with the same retention.

    days: the key of the configuration that sets it; None: for ever. share: hundredths of the budget that the tier keeps.
    law: the law sets the retention, so it is neither shortened for lack of disk nor extended.
    columns: by table, columns of other tiers' tables that hold the same data, and are emptied at this tier's age.
    together: the tables hold the same rows, so that partitions of the same name go together.
    """

    tables: tuple[str, ...]
    days: str | None
    share: int = 0
    law: bool = False
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    together: bool = False


def tiers(file: Path = FILE) -> dict[str, Tier]:
    """The tiers by name, in the order of the file."""
    tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {
        name: Tier(
            tuple(body["tables"]),
            body.get("days"),
            body.get("share", 0),
            body.get("law", False),
            {table: tuple(columns) for table, columns in body.get("columns", {}).items()},
            body.get("together", False),
        )
        for name, body in tree.items()
    }
