"""The command `init`, before it starts anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_init_says_what_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve().parents[1] / "weir_superset.py"), "init"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "WEIR_SUPERSET_HOME" in done.stderr
