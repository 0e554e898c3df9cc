"""What the store has in common with the dashboards: the lockout, and what groups give. Both are in `superset/`."""

from __future__ import annotations

import sys
from pathlib import Path

_FOLDER = str(Path(__file__).resolve().parents[3] / "superset")
# For these imports alone: what is on the path stays readable behind the walls.
sys.path.append(_FOLDER)
import weir_groups  # noqa: E402
import weir_lockout  # noqa: E402

sys.path.remove(_FOLDER)

__all__ = ["weir_groups", "weir_lockout"]
