"""The command `init`, before it starts anything."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import weir_superset


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


def test_an_interrupted_upgrade_begins_anew(tmp_path: Path) -> None:
    database = tmp_path / "superset.db"

    def tables(more: str = "") -> list[str]:
        with closing(sqlite3.connect(database)) as one:
            if more:
                one.execute(f"CREATE TABLE {more} (number INTEGER)")
            return [name for (name,) in one.execute("SELECT name FROM sqlite_master ORDER BY name")]

    weir_superset.before_upgrade(tmp_path)
    assert tables("half") == ["half"]
    kept = weir_superset.before_upgrade(tmp_path)
    assert tables() == [], "the first run was interrupted"
    assert tables("whole") == ["whole"]
    kept.unlink()
    weir_superset.before_upgrade(tmp_path)
    assert tables("half") == ["half", "whole"]
    weir_superset.before_upgrade(tmp_path)
    assert tables() == ["whole"]
