"""What the pages are given for readers who hear them, and for those with a narrow screen."""

from __future__ import annotations

import pytest
import yaml

import weir_assets
import weir_pages

#: Every page, by name, as it is imported.
PAGES = {name: text for name, text in weir_assets.bundle().items() if name.startswith("dashboards/")}


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        ("<!DOCTYPE html>\n<html>\n<p>", '<!DOCTYPE html>\n<html lang="pt-BR">\n<p>'),
        ('<html class="x">', '<html lang="pt-BR" class="x">'),
        ('<html lang="de">', '<html lang="de">'),
        ("no page", "no page"),
    ],
)
def test_a_page_names_its_language(page: str, wanted: str) -> None:
    assert weir_pages.with_language(page, "pt_BR") == wanted


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_narrow_screen_has_one_column_with_every_cell(name: str) -> None:
    made = yaml.safe_load(PAGES[name])
    layout = made["position"]
    before = [cell for row in layout["GRID_ID"]["children"] for cell in layout[row]["children"]]
    narrow = weir_pages.one_column(layout)
    rows = narrow["GRID_ID"]["children"]
    assert [narrow[row]["children"] for row in rows] == [[cell] for cell in before]
    for row in rows:
        (cell,) = narrow[row]["children"]
        assert narrow[cell]["meta"]["width"] == 12
        assert narrow[cell]["parents"] == ["ROOT_ID", "GRID_ID", row]
        assert narrow[row]["id"] == row
    # The text at the top has room for its lines, in each of which there are fewer words.
    (top,) = narrow[rows[0]]["children"]
    assert layout[top]["type"] == "MARKDOWN"
    assert narrow[top]["meta"]["height"] > 2 * layout[top]["meta"]["height"]
    assert PAGES[name] == yaml.safe_dump(made, sort_keys=False, allow_unicode=True), "changed in place"


def test_another_layout_stays() -> None:
    assert weir_pages.one_column({"DASHBOARD_VERSION_KEY": "v2"}) == {"DASHBOARD_VERSION_KEY": "v2"}
