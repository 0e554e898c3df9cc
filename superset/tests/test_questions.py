"""The saved queries: each runs as the user of the dashboards, returns rows, and appears unchanged in the documents."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import testdata
import weir_assets
from conftest import CHECKOUT, PASSWORDS, Store

QUESTIONS = sorted((weir_assets.FOLDER / "queries").glob("*.sql"))
PAGE = CHECKOUT / "docs/how-to/twenty-questions.md"


def test_there_are_twenty() -> None:
    assert len(QUESTIONS) == 20
    assert {path.stem for path in QUESTIONS} == {path.stem for path in (weir_assets.FOLDER / "queries").glob("*.yaml")}


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.stem)
def test_it_answers(store: Store, path: Path) -> None:
    text = testdata.execute(
        store.url,
        f"{path.read_text()} FORMAT TSVWithNames",
        user="dashboard",
        password=PASSWORDS["WEIR_PASSWORD_DASHBOARD"],
    )
    assert len(text.splitlines()) > 1, "no rows"


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.stem)
def test_it_is_in_the_documents(path: Path) -> None:
    page = PAGE.read_text()
    query = yaml.safe_load(path.with_suffix(".yaml").read_text())
    assert f"## {int(path.stem[:2])}. {query['label']}\n" in page
    assert query["description"] in page
    assert "\n".join(f"    {line}" for line in path.read_text().splitlines()) in page
