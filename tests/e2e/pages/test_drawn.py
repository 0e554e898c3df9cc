"""Every page in a real browser, as a viewer without a login sees it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Page

import page_traffic
import weir_assets
from harness import RunningStack, eventually
from render import Browser, Report
from viewers import DASHBOARDS, Viewer, bare, charts_of, objects
from weir.clickhouse import ClickHouse

from .conftest import LOSSES, Traffic


@dataclass(frozen=True)
class Drawn:
    """A drawn page: its report, and its chart-data queries with their answers."""

    report: Report
    queries: list[dict[str, Any]]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of all queries, by names of columns and metrics."""
        return [row for one in self.queries for result in one["answer"]["result"] for row in result["data"]]

    def value(self, metric: str) -> Any:
        """The number of a card that shows this metric."""
        (found,) = {row[metric] for row in self.rows if set(row) == {metric}}
        return found


@pytest.fixture(scope="module")
def drawn(stack: RunningStack, viewer: Viewer, browser: Browser, usual: None) -> Callable[[str], Drawn]:
    """Draws a page, once for all tests, when the points of all records are over."""
    eventually(lambda: stack.one("SELECT max(ts) < now() - 65 FROM flows WHERE probe = 'routers'"), "time to pass")
    pages: dict[str, Drawn] = {}

    def draw(slug: str) -> Drawn:
        if slug not in pages:
            queries: list[dict[str, Any]] = []
            url = f"{viewer.url}/superset/dashboard/{slug}/"
            pages[slug] = Drawn(browser.render(url, None, timeout=180, queries=queries, axe=True), queries)
        return pages[slug]

    return draw


@pytest.mark.parametrize("slug", DASHBOARDS)
def test_a_page_is_drawn_on_what_the_jobs_wrote(
    viewer: Viewer, drawn: Callable[[str], Drawn], slug: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every chart is drawn from rows of its own queries, without a request to another host."""
    page = drawn(slug)
    report = page.report
    with capsys.disabled():
        print(f"\n{slug}: data after {report.data_seconds} s, drawn after {report.seconds} s, {report.queries} queries")
    assert report.problems == []
    assert report.charts == dict.fromkeys((chart["slice_name"] for chart in charts_of(slug)), "drawn")
    numbers = objects(viewer.home)["slices"]
    timeless = numbers[bare(weir_assets.uuid_of("charts", "address_days"))]
    asked: set[int] = set()
    for one in page.queries:
        assert one["status"] == 200
        for result in one["answer"]["result"]:
            assert result["status"] == "success"
            assert result["rowcount"] > 0
        chart = (one["asked"] or {}).get("form_data", {}).get("slice_id")
        if chart:
            asked.add(int(chart))
            filters = one["asked"]["queries"][0]["filters"]
            if slug == "customer":
                named = [held["val"] for held in filters if held["col"] == "customer_name"]
                assert named == [["Fjord Power"]], "the first, and never the sum of all"
            # The dashboard's time filter reaches every chart through the calculated column.
            if chart != timeless:
                (filtered,) = [held for held in filters if held["op"] == "TEMPORAL_RANGE"]
                assert filtered["col"] == "time"
                assert all(query["time_range"].startswith("Last ") for query in one["asked"]["queries"])
    # The map uses Superset's older API, which is not among the queries.
    assert asked == {numbers[bare(chart["uuid"])] for chart in charts_of(slug) if chart["viz_type"] != "world_map"}


@pytest.mark.parametrize("slug", DASHBOARDS)
def test_a_page_keeps_nobody_out(drawn: Callable[[str], Drawn], slug: str) -> None:
    """axe-core finds nothing serious: no text without contrast, no element without a name, nothing out of a keyboard's reach."""
    assert drawn(slug).report.barriers == []


def test_a_narrow_screen_shows_every_chart_with_its_title(viewer: Viewer, browser: Browser) -> None:
    """At 390 points, the width of a phone: one chart below the other, no wider than the screen."""
    page = browser.context.new_page()
    try:
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(f"{viewer.url}/superset/dashboard/nation/", wait_until="domcontentloaded")
        page.locator('[data-test="chart-grid-component"]').first.wait_for(timeout=60_000)
        titles = page.locator('[data-test="chart-grid-component"] [data-test="slice-header"]')
        boxes = [title.bounding_box() for title in titles.all()]
        wanted = [chart["slice_name"] for chart in charts_of("nation")]
        assert sorted(text.split("\n")[0] for text in titles.all_inner_texts()) == sorted(wanted)
        assert all(box and box["width"] > 250 and box["x"] + box["width"] <= 390 for box in boxes), boxes
        assert page.evaluate("document.documentElement.lang") == "en"
    finally:
        page.close()


def test_a_silent_probe_is_no_loss_of_packets(
    stack: RunningStack, drawn: Callable[[str], Drawn], traffic: Traffic
) -> None:
    """Fleet: of what was reported nothing is missing but what `lossy` lost, and the reports of one probe are."""
    page = drawn("fleet")
    stored = stack.one(f"SELECT sum(fwd_packets + rev_packets) FROM flows WHERE ts >= {traffic.losses}")
    missing = sum(sum(loss.dropped.values()) + 100 * loss.batches for loss in LOSSES.values())
    assert page.value("packets_missing") == missing
    assert page.value("completeness") == math.floor(1e5 * stored / (stored + missing)) / 1e5
    assert 0 < page.value("reports_share") < 1


def test_the_page_of_a_customer_is_of_one(store: ClickHouse, drawn: Callable[[str], Drawn]) -> None:
    """Volume is that of the first customer by name, not of all of them."""
    # All that a customer sent or received was seen by one of these.
    seen = f"probe IN ('early', 'north') AND ({page_traffic.of_customer('Fjord Power')})"
    (row,) = store.rows(f"SELECT sum(fwd_octets + rev_octets) AS octets FROM flows WHERE {seen}")
    assert int(drawn("customer").value("mix_octets")) == row["octets"] > 0


def test_scanners_are_listed_with_what_they_tried(drawn: Callable[[str], Drawn]) -> None:
    rows = [row for row in drawn("threats").rows if "suspect_tried" in row]
    assert {host for host in page_traffic.SCANNERS if any(host in row["host_link"] for row in rows)} == set(
        page_traffic.SCANNERS
    )
    assert all(row["suspect_tried"] >= row["suspect_failed"] > 0 for row in rows)


@pytest.fixture(scope="module")
def talkers(viewer: Viewer, browser: Browser) -> Iterator[Page]:
    """The page Talkers, in light colours, once its first chart is there."""
    page = browser.context.new_page()
    page.emulate_media(color_scheme="light")
    page.goto(f"{viewer.url}/superset/dashboard/talkers/", wait_until="domcontentloaded")
    page.locator('[data-test="chart-grid-component"] canvas').first.wait_for(timeout=60_000)
    yield page
    page.close()


def test_dark_colours(talkers: Page) -> None:
    """The page follows the browser's dark-mode preference; the switch at the top overrides it."""

    def brightness() -> int:
        return sum(
            map(int, re.findall(r"\d+", talkers.evaluate("getComputedStyle(document.body).backgroundColor"))[:3])
        )

    assert brightness() > 600
    talkers.emulate_media(color_scheme="dark")
    eventually(lambda: brightness() < 150, "dark colours", 10)


def test_a_time_range_is_written_as_people_write_it(talkers: Page) -> None:
    shown = talkers.locator(".date-label-content").inner_text()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d to (\d{4}-\d\d-\d\d )?\d\d:\d\d UTC", shown), shown


def test_an_address_leads_to_its_own_page(talkers: Page) -> None:
    """A click on an address in a list opens Investigate with that address chosen."""
    link = talkers.locator('[data-test-chart-name="Hosts that receive most"] a[href*="investigate"]').first
    link.wait_for(timeout=60_000)
    host = link.inner_text()
    link.click()
    named = talkers.locator('[data-test-chart-name="Who it is"] tbody td').first
    named.wait_for(timeout=60_000)
    assert named.inner_text() == host
