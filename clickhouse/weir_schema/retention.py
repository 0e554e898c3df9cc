"""How long each table is kept, from `retention.yaml`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

FILE = Path(__file__).resolve().parent.parent / "retention.yaml"


@dataclass(frozen=True)
class Tier:
    """Tables that are kept equally long.

    days: the key of the configuration with the time; None: for ever. law: kept for exactly this time, whatever the
    disk's budget.
    """

    tables: tuple[str, ...]
    days: str | None
    law: bool = False


def tiers(file: Path = FILE) -> dict[str, Tier]:
    """The tiers by name, in the order in which people meet them."""
    tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {name: Tier(tuple(body["tables"]), body.get("days"), body.get("law", False)) for name, body in tree.items()}
