"""The saved queries appear unchanged in the documents; `tests/e2e/pages/test_questions.py` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import weir_assets

QUESTIONS = sorted((weir_assets.FOLDER / "queries").glob("*.sql"))
PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/twenty-questions.md"


def test_there_are_twenty() -> None:
    assert len(QUESTIONS) == 20
    assert {path.stem for path in QUESTIONS} == {path.stem for path in (weir_assets.FOLDER / "queries").glob("*.yaml")}


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.stem)
def test_it_is_in_the_documents(path: Path) -> None:
    page = PAGE.read_text()
    query = yaml.safe_load(path.with_suffix(".yaml").read_text())
    assert f"## {int(path.stem[:2])}. {query['label']}\n" in page
    assert query["description"] in page
    assert "\n".join(f"    {line}" for line in path.read_text().splitlines()) in page
