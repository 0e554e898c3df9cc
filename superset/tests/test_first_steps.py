"""The next step, which a page says where there is nothing to show yet."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

import weir_assets
import weir_first_steps

WHOLE: dict[str, Any] = {"probes": "north, south", "flows": 1, "customers": 2, "systems": 9}
PAGES = {name: yaml.safe_load(text) for name, text in weir_assets.bundle().items() if name.startswith("dashboards/")}


@pytest.mark.parametrize(
    ("lacking", "page", "said"),
    [
        ({"probes": "", "flows": 0}, "now", "weir probe add NAME"),
        ({"probes": "", "flows": 0}, "customer", "weir probe add NAME"),
        ({"flows": 0}, "talkers", "Nothing has arrived from north, south yet"),
        ({"flows": 0}, "customer", "Nothing has arrived from any probe yet"),
        ({"customers": 0}, "customer", "weir prefixes set"),
        ({"customers": 0}, "threats", ""),
        ({"systems": 0}, "nation", "flink.as_database"),
        ({"systems": 0}, "fleet", ""),
        ({}, "customer", ""),
    ],
)
def test_the_step_is_that_which_the_page_lacks(lacking: dict[str, Any], page: str, said: str) -> None:
    text = weir_first_steps.next_step(WHOLE | lacking, page)
    assert said in text
    assert bool(text) == bool(said)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_it_stands_above_all_others(name: str) -> None:
    layout = PAGES[name]["position"]
    before = yaml.safe_dump(layout)
    made = weir_first_steps.above(layout, "**Next.**")
    first, *others = made["GRID_ID"]["children"]
    assert others == layout["GRID_ID"]["children"]
    (cell,) = made[first]["children"]
    assert made[cell]["meta"]["code"] == "**Next.**"
    assert (made[cell]["type"], made[cell]["meta"]["width"]) == ("MARKDOWN", 12)
    assert made[cell]["parents"] == ["ROOT_ID", "GRID_ID", first]
    assert made[first]["id"] == first
    assert yaml.safe_dump(layout) == before, "changed in place"


def test_the_store_is_asked_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[dict[str, Any] | None] = [None, {**WHOLE, "flows": 0}, WHOLE]
    now = 1000.0
    monkeypatch.setattr(weir_first_steps, "_ask", lambda: answers.pop(0))
    monkeypatch.setattr("weir_first_steps.time.monotonic", lambda: now)
    known = weir_first_steps.Known()
    found = []
    for passed in (0, 19, 2, 19, 2, 500):
        now += passed
        found.append(known.held())
    assert found == [None, None, {**WHOLE, "flows": 0}, {**WHOLE, "flows": 0}, WHOLE, WHOLE]
