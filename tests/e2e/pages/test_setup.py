"""Preparing Superset: again without effect, and again with another setting."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path

from harness import RunningStack, eventually, free_ports, run
from viewers import CHARTS, DASHBOARDS, Viewer, between, charts_of, objects
from weir.services import answers, superset_command

from .conftest import FIRST_TEXTS, RETURNED, SILENT, Traffic, first_text


def init(stack: RunningStack, **changed: str) -> str:
    """Run `init`; returns its output."""
    python, script, environment = superset_command(stack.stack)
    done = run([str(python), str(script), "init"], os.environ | environment | changed)
    assert done.status == 0, done.out + done.err
    return done.out


def test_a_second_init_is_quick_and_changes_nothing(stack: RunningStack, viewer: Viewer) -> None:
    before = objects(viewer.home)
    assert len(before["slices"]) == len(CHARTS)
    assert before["dashboard_slices"] == sum(len(charts_of(slug)) for slug in DASHBOARDS)
    began = time.monotonic()
    assert init(stack) == "superset: nothing changed\n"
    assert time.monotonic() - began < 10
    assert objects(viewer.home) == before


def test_a_shut_door(
    stack: RunningStack, viewer: Viewer, login: tuple[str, str], traffic: Traffic, tmp_path: Path
) -> None:
    """With `superset: {public: false}` a visitor without a login sees nothing. `init` does everything again for it, and
    still nothing may exist twice; a customer's user sees its rows as before.
    """
    home = tmp_path / "superset"
    shutil.copytree(viewer.home, home, ignore=shutil.ignore_patterns("cache", "*.log"))
    before, port = objects(home), free_ports(1)[0]
    changed = {"WEIR_SUPERSET_HOME": str(home), "WEIR_SUPERSET_PUBLIC": "no", "WEIR_SUPERSET_PORT": str(port)}
    assert "dashboards imported" in init(stack, **changed)
    after = objects(home)
    # Superset renews the rows of columns and metrics at an import; their number must stay the same.
    for table in ("table_columns", "sql_metrics"):
        assert len(after.pop(table)) == len(before.pop(table))
    assert after == before

    python, script, environment = superset_command(stack.stack)
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [str(python), str(script), "serve"], env=os.environ | environment | changed, stdout=log, stderr=log
        )
    try:
        visitor = Viewer(f"http://127.0.0.1:{port}", home)
        eventually(lambda: answers(f"{visitor.url}/health"), "the second server", 60)
        asked = visitor.question("mixes", {"columns": ["name"], "metrics": ["mix_octets"]})
        assert visitor.call("/api/v1/chart/data", asked)[0] in (401, 403)
        assert visitor.call("/api/v1/dashboard/nation")[0] in (401, 403, 404)
        assert "/login" in str(visitor.client.get("/").url)
        visitor.log_in(*login)
        assert visitor.rows("customer_mixes", ["customer_name"], ["mix_octets"], between(traffic.begin, traffic.end))
    finally:
        server.terminate()
        server.wait(60)


def test_the_password_is_not_kept(viewer: Viewer) -> None:
    with sqlite3.connect(viewer.home / "superset.db") as database:
        rows = database.execute("SELECT sqlalchemy_uri, password FROM dbs").fetchall()
    assert rows == [("clickhousedb://dashboard@weir:8123/weir", None)]


def test_an_empty_page_says_the_next_step(viewer: Viewer) -> None:
    assert FIRST_TEXTS[0].startswith(f"**Nothing has arrived from {RETURNED}, {SILENT} yet.**")
    # What was missing has come.
    assert first_text(viewer, "now").startswith("[Now]")
