"""The saved queries, each as the user of the dashboards."""

from __future__ import annotations

from pathlib import Path

import pytest

import weir_assets
from harness import RunningStack
from weir.clickhouse import ClickHouse, connect

QUESTIONS = sorted((weir_assets.FOLDER / "queries").glob("*.sql"))


@pytest.fixture(scope="module")
def dashboard(stack: RunningStack) -> ClickHouse:
    return connect(stack.stack, "dashboard")


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.stem)
def test_it_answers(dashboard: ClickHouse, usual: None, present: None, path: Path) -> None:
    assert dashboard.rows(path.read_text()), "no rows"
