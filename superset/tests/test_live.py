"""Superset on a store: the numbers and pages that an anonymous viewer gets."""

from __future__ import annotations

import base64
import json
import re
import shutil
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

import weir_assets
from conftest import CHECKOUT, MINUTES, Store, Superset
from render import Browser

DASHBOARD = "/superset/dashboard/nation/"
BUNDLE: dict[str, dict[str, Any]] = {name: yaml.safe_load(text) for name, text in weir_assets.bundle().items()}
DATASETS = {thing["table_name"]: thing for name, thing in BUNDLE.items() if name.startswith("datasets/")}
CHARTS = {thing["uuid"]: thing for name, thing in BUNDLE.items() if name.startswith("charts/")}
DASHBOARDS = {thing["slug"]: thing for name, thing in BUNDLE.items() if name.startswith("dashboards/")}


def call(
    superset: Superset,
    path: str,
    body: dict[str, Any] | None = None,
    opener: urllib.request.OpenerDirector | None = None,
) -> tuple[int, dict[str, Any]]:
    """One request of an anonymous viewer, or of the person whose session the opener has: status and JSON."""
    request = urllib.request.Request(
        superset.url + path,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Content-Type": "application/json", "Accept": "application/json"},
    )
    try:
        with (opener or urllib.request.build_opener()).open(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else {"text": text.decode(errors="replace")}


def objects(superset: Superset) -> dict[str, Any]:
    """The assets in Superset's own database: every UUID with its number, and the number of rows that refer to them."""
    with sqlite3.connect(superset.home / "superset.db") as database:
        found: dict[str, Any] = {
            table: dict(database.execute(f"SELECT hex(uuid), id FROM {table}").fetchall())
            for table in ("dbs", "tables", "slices", "dashboards", "table_columns", "sql_metrics")
        }
        for table in ("dashboard_slices", "ab_user", "ab_role"):
            found[table] = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return found


def question(superset: Superset, table: str, asked: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The body of a chart-data query on a dataset."""
    return {
        "datasource": {"id": objects(superset)["tables"][uuid_hex(DATASETS[table]["uuid"])], "type": "table"},
        "queries": [{"row_limit": 1000, "filters": [], **asked}],
        "result_format": "json",
        "result_type": "full",
        "force": True,
        **more,
    }


def query(superset: Superset, table: str, asked: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The first result of a chart-data query on a dataset."""
    status, answer = call(superset, "/api/v1/chart/data", question(superset, table, asked, **more))
    assert status == 200, answer
    (result,) = answer["result"]
    assert not result.get("error"), result
    return dict(result)


def uuid_hex(text: str) -> str:
    return text.replace("-", "").upper()


def charts_of(slug: str) -> list[dict[str, Any]]:
    """The charts of a dashboard."""
    nodes = DASHBOARDS[slug]["position"].values()
    return [CHARTS[node["meta"]["uuid"]] for node in nodes if isinstance(node, dict) and node["type"] == "CHART"]


def between(since: int, until: int) -> dict[str, Any]:
    """A filter on time, [since, until) in seconds from 1970."""
    first, last = (datetime.fromtimestamp(one, UTC).strftime("%Y-%m-%dT%H:%M:%S") for one in (since, until))
    return {"col": "time", "op": "TEMPORAL_RANGE", "val": f"{first} : {last}"}


def test_second_init_is_quick_and_third_changes_nothing(superset: Superset) -> None:
    before = objects(superset)
    assert len(before["slices"]) == len(CHARTS)
    assert before["dashboard_slices"] == sum(len(charts_of(slug)) for slug in DASHBOARDS)
    began = time.monotonic()
    assert superset.init() == "superset: nothing changed\n"
    assert time.monotonic() - began < 10
    # Without its stamp `init` does everything again, and still nothing may exist twice.
    (superset.home / "prepared").unlink()
    assert "dashboards imported" in superset.init()
    after = objects(superset)
    # Superset renews the rows of columns and metrics at an import; their number must stay the same.
    for table in ("table_columns", "sql_metrics"):
        assert len(after.pop(table)) == len(before.pop(table))
    assert after == before


@pytest.mark.parametrize("table", DATASETS)
def test_every_column_and_metric_answers(superset: Superset, store: Store, table: str) -> None:
    dataset = DATASETS[table]
    columns = [column["column_name"] for column in dataset["columns"]]
    filters = [between(store.until - 1800, store.until - 60)] if dataset["main_dttm_col"] else []
    if table.startswith("customer_"):
        filters.append({"col": "customer_name", "op": "IN", "val": ["Fjord Power"]})
    rows = query(superset, table, {"columns": columns, "metrics": [], "filters": filters, "row_limit": 5})
    assert rows["rowcount"] > 0
    assert set(rows["colnames"]) == set(columns)
    metrics = [metric["metric_name"] for metric in dataset["metrics"]]
    values = query(superset, table, {"columns": [], "metrics": metrics, "filters": filters})["data"][0]
    assert set(values) == set(metrics)
    assert None not in values.values()


@pytest.mark.parametrize("grain", [("PT1H", 3600), ("P1D", 86400), ("PT1M", 60)], ids=lambda one: one[0])
@pytest.mark.parametrize(
    ("table", "metric", "truth"),
    [
        ("windows", "total_octets", "sum(window_octets) FROM v_top_flows WHERE scope = 'all' AND rank = 1"),
        ("counters", "counter_packets", "sum(packets) FROM v_counters WHERE 1"),
    ],
)
def test_time_grains_add_up(
    superset: Superset, store: Store, grain: tuple[str, int], table: str, metric: str, truth: str
) -> None:
    """apache/superset 40807: a grain of an hour lost the first bucket, a grain of a day over hours lost everything."""
    until = store.until - 120
    since = until - (MINUTES - 10) * 60
    axis = {
        "label": "time",
        "sqlExpression": "time",
        "expressionType": "SQL",
        "columnType": "BASE_AXIS",
        "timeGrain": grain[0],
    }
    asked = {
        "columns": [axis],
        "metrics": [metric],
        "filters": [between(since, until)],
        "extras": {"time_grain_sqla": grain[0]},
    }
    got = {int(row["time"]) // 1000: int(row[metric]) for row in query(superset, table, asked)["data"]}
    wanted = store.ask(
        f"SELECT intDiv(toUnixTimestamp(ts), {grain[1]}) * {grain[1]} AS t, {truth} AND ts >= {since} AND ts < {until} GROUP BY t ORDER BY t"
    )
    assert len(wanted) > 2 or grain[0] == "P1D"
    assert got == {int(t): int(value) for t, value in wanted}


def test_rates_are_octets_over_seconds(superset: Superset, store: Store) -> None:
    until = store.until - 120
    since = until - 600
    got = query(
        superset,
        "windows",
        {"columns": [], "metrics": ["bit_rate", "packet_rate", "active_flows"], "filters": [between(since, until)]},
    )["data"][0]
    # Over all probes, if no two probes saw the same flow: as much as the records hold.
    octets, packets = map(
        int, store.ask(f"SELECT sum(octets), sum(packets) FROM v_flows WHERE ts >= {since} AND ts < {until}")[0]
    )
    assert got["bit_rate"] == pytest.approx(octets * 8 / 600)
    assert got["packet_rate"] == pytest.approx(packets / 600)
    flows = store.ask(
        f"SELECT avg(window_flows) FROM v_top_flows WHERE scope = 'all' AND rank = 1 AND ts >= {since} AND ts < {until}"
    )
    assert got["active_flows"] == pytest.approx(float(flows[0][0]))


@pytest.mark.parametrize(
    ("chosen", "scope"),
    [
        ([], "scope = 'all'"),
        ([{"col": "probe", "op": "IN", "val": ["north"]}], "scope = 'probe' AND probe = 'north'"),
        (
            [{"col": "customer_name", "op": "IN", "val": ["Fjord Power"]}],
            "scope = 'customer' AND customer_name = 'Fjord Power'",
        ),
    ],
    ids=["all", "probe", "customer"],
)
def test_a_choice_changes_the_lists_that_are_read(
    superset: Superset, store: Store, chosen: list[dict[str, Any]], scope: str
) -> None:
    """Without a choice each flow counts once; with a probe or a customer the page reads its own lists, not a part of
    all.
    """
    until = store.until // 300 * 300 - 600
    filters = [between(until - 3600, until), *chosen]
    asked = {
        "columns": [],
        "metrics": ["mix_octets"],
        "filters": [*filters, {"col": "dimension", "op": "==", "val": "as"}],
    }
    (row,) = query(superset, "mixes", asked)["data"]
    truth = (
        f"SELECT sum(octets) FROM v_mixes WHERE dimension = 'as' AND ts >= {until - 3600} AND ts < {until} AND {scope}"
    )
    assert int(row["mix_octets"]) == int(store.ask(truth)[0][0]) > 0
    asked = {
        "columns": ["host"],
        "metrics": ["talker_received"],
        "filters": [*filters, {"col": "list", "op": "==", "val": "host_in"}],
    }
    got = {row["host"]: int(row["talker_received"]) for row in query(superset, "talkers", asked)["data"]}
    truth = f"SELECT host, sum(in_octets) FROM v_top_talkers WHERE list = 'host_in' AND ts >= {until - 3600} AND ts < {until} AND {scope} GROUP BY host"
    assert got == {host: int(octets) for host, octets in store.ask(truth)}


@pytest.mark.parametrize("table", ["customer_mixes", "customer_talkers", "customer_rates"])
def test_customers_are_not_added_up(superset: Superset, store: Store, table: str) -> None:
    """Traffic between two customers is in the rows of both: their sum would be more than there was."""
    filters = [between(store.until - 3600, store.until - 600)]
    (metric,) = {
        "customer_mixes": ["mix_octets"],
        "customer_talkers": ["talker_octets"],
        "customer_rates": ["both_95"],
    }[table]
    for names, known in (([], False), (["Fjord Power", "Harbour Hosting"], False), (["Fjord Power"], True)):
        chosen = [{"col": "customer_name", "op": "IN", "val": names}] if names else []
        asked = {"columns": [], "metrics": [metric], "filters": [*filters, *chosen]}
        (row,) = query(superset, table, asked)["data"]
        assert (row[metric] is not None) == known, names


def test_one_address_from_its_own_side(superset: Superset, store: Store) -> None:
    """Sent and received, whichever side began the flow; an address in quotes is not SQL."""
    until = store.until - 120
    for host in ("192.0.2.5", "2001:db8::5"):
        filters = [between(until - 600, until), {"col": "host", "op": "IN", "val": [host]}]
        (row,) = query(
            superset, "address", {"columns": [], "metrics": ["host_sent", "host_received"], "filters": filters}
        )["data"]
        sent, got = "sumIf(o.{}_octets, src = '{h}') + sumIf(o.{}_octets, dst = '{h}')", ("fwd", "rev")
        truth = (
            f"SELECT {sent.format(*got, h=host)}, {sent.format(*reversed(got), h=host)} FROM v_observations AS o"
            f" WHERE canonical AND window_start >= {until - 600} AND window_start < {until}"
        )
        assert [row["host_sent"], row["host_received"]] == [int(value) for value in store.ask(truth)[0]]
    for host in ("198.51.100.250", "nonsense", "x') OR 1 = 1 --", "\\"):
        filters = [between(until - 600, until), {"col": "host", "op": "IN", "val": [host]}]
        rows = query(
            superset, "identity", {"columns": ["host", "as_label"], "metrics": ["identity_records"], "filters": filters}
        )
        assert [(row["host"], row["identity_records"]) for row in rows["data"]] == [(host, 0)]


def test_lists_say_that_nobody_is_in_them(superset: Superset, store: Store) -> None:
    """Before the first rows: a sentence, not an empty table."""
    filters = [between(store.until - 86400, store.until - 86000)]
    for table, column, said in (
        # The open alert of the test data is shown regardless of the time range, and the one that has ended is not.
        ("alerts", "message", "Probe east drops 2.1 %"),
        ("port_report", "flags", "No TCP control packets"),
        ("signatures", "signature", "No host had"),
        ("talkers", "label", "No customer is declared"),
        ("suspects", "host", "nobody"),
        ("findings", "meaning", "In no list of suspects"),
        ("identity", "as_label", "not seen in this time"),
    ):
        more = [{"col": "host", "op": "IN", "val": ["192.0.2.1"]}] if table in ("findings", "identity") else []
        rows = query(superset, table, {"columns": [column], "metrics": [], "filters": filters + more})["data"]
        assert any(said in row[column] for row in rows), (table, rows)


def test_what_strays_from_the_usual_is_found(superset: Superset, store: Store) -> None:
    """`worms` has risen tenfold in the last half hour; nothing else has."""
    filters = [between(store.until - 86400, store.until)]
    rows = query(
        superset,
        "filter_graphs",
        {
            "columns": ["counter_set", "label", "graph"],
            "metrics": ["rate_now", "rate_usual", "rate_strays"],
            "filters": filters,
        },
    )["data"]
    assert {row["counter_set"] for row in rows if row["rate_strays"] > 5} == {"worms"}
    assert all(row["rate_now"] > 5 * row["rate_usual"] for row in rows if row["counter_set"] == "worms")
    pictures = [re.fullmatch(r'<img [^>]*src="data:image/svg\+xml;base64,([^"]+)">', row["graph"]) for row in rows]
    for picture in pictures:
        assert picture
        drawing = ElementTree.fromstring(base64.b64decode(picture[1]))
        line = drawing.find("{http://www.w3.org/2000/svg}polyline")
        assert line is not None
        points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        assert len(points) > 60
        assert all(0 <= x <= 240 and 0 <= y <= 40 for x, y in points)


def test_ranges_end_before_what_is_still_arriving(superset: Superset) -> None:
    """The store holds rows of the future; no curve may show the last half minute."""
    now = time.time()
    newest = query(
        superset,
        "windows",
        {"columns": ["ts"], "metrics": ["total_packets"], "filters": [between(int(now) - 900, int(now) + 900)]},
    )
    assert 30 < now - max(int(row["ts"]) // 1000 for row in newest["data"]) + 1 < 120


def test_completeness_tells_the_truth(superset: Superset, store: Store) -> None:
    """`south` lacks a closing record and lost 500 packets; `north` is complete."""
    filters = [between(store.until - (MINUTES - 60) * 60, store.until + 1800)]
    metrics = [
        "completeness",
        "packets_missing",
        "reports_missing",
        "packets_lost",
        "packets_dropped_ring",
        "packets_dropped_interface",
    ]
    gaps = store.ask("SELECT probe, state, toUnixTimestamp(ts) FROM v_ledger WHERE state != 'closed' ORDER BY ts")
    assert [gap[:2] for gap in gaps] == [["south", "batches_missing"], ["south", "closing_missing"]]
    rows = {
        row["probe"]: row
        for row in query(superset, "ledger", {"columns": ["probe"], "metrics": metrics, "filters": filters})["data"]
    }
    span = f"ts >= {store.until - (MINUTES - 60) * 60} AND ts < intDiv(toUnixTimestamp(now()) - 30, 60) * 60"
    truth = store.ask(
        "SELECT probe, countIf(state = 'closing_missing'), sum(lost_packets), sum(dropped['ring']), sum(dropped['interface']), "
        f"sum(stored_packets + not_metered_packets) FROM v_ledger WHERE {span} GROUP BY probe"
    )
    for probe, *counts in truth:
        reports, lost, ring, card, accounted = map(int, counts)
        row = rows[probe]
        assert [int(row[name]) for name in metrics[2:]] == [reports, lost, ring, card]
        missing = lost + ring + card
        assert int(row["packets_missing"]) == missing
        assert row["completeness"] == pytest.approx(accounted / (accounted + missing), abs=1e-5)
    assert rows["north"]["completeness"] == 1
    assert 0.9 < rows["east"]["completeness"] < 1
    assert rows["south"]["packets_lost"] == 500
    assert rows["south"]["reports_missing"] == 1


def test_drill_to_detail(superset: Superset, store: Store) -> None:
    """Superset and the dialect quote calculated columns alike."""
    asked = {
        "columns": [],
        "metrics": [],
        "filters": [between(store.until - 600, store.until - 60), {"col": "time", "op": "IS NOT NULL"}],
        "row_limit": 5,
    }
    rows = query(superset, "address", asked, result_type="drill_detail")
    assert rows["rowcount"] == 5
    assert "`" not in rows["query"]


def test_viewers_read_and_nothing_more(superset: Superset) -> None:
    assert call(superset, "/api/v1/dashboard/nation")[0] == 200
    assert call(superset, "/api/v1/dashboard/", {"dashboard_title": "mine"})[0] in (400, 401, 403)
    assert call(superset, "/api/v1/sqllab/execute/", {"database_id": 1, "sql": "SELECT 1"})[0] in (400, 401, 403)
    status, answer = call(superset, "/api/v1/database/")
    assert status in (401, 403), answer
    # A table behind the views stays closed, also to SQL in a chart's query.
    body = {
        "datasource": {"id": objects(superset)["tables"][uuid_hex(DATASETS["windows"]["uuid"])], "type": "table"},
        "queries": [
            {
                "columns": [],
                "metrics": [{"expressionType": "SQL", "sqlExpression": "(SELECT count() FROM flows)", "label": "x"}],
            }
        ],
    }
    status, answer = call(superset, "/api/v1/chart/data", body)
    assert status >= 400, answer


def test_the_policy_forbids_the_outside(superset: Superset) -> None:
    with urllib.request.urlopen(superset.url + DASHBOARD, timeout=60) as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert not re.search(r"https?:|\*", policy)


def test_the_front_page_is_the_dashboard(superset: Superset) -> None:
    with urllib.request.urlopen(superset.url + "/", timeout=60) as answer:
        assert answer.url == superset.url + DASHBOARD


def test_the_password_is_not_kept(superset: Superset) -> None:
    with sqlite3.connect(superset.home / "superset.db") as database:
        rows = database.execute("SELECT sqlalchemy_uri, password FROM dbs").fetchall()
    assert rows == [("clickhousedb://dashboard@weir:8123/weir", None)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all pages: a page's second visit costs only its data, which no cache holds."""
    with Browser() as one:
        yield one


@pytest.mark.parametrize("slug", DASHBOARDS)
def test_the_dashboard_is_drawn(
    superset: Superset, browser: Browser, slug: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every chart is drawn from rows of its own queries, for an anonymous viewer, without a request to another host."""
    shutil.rmtree(superset.home / "cache/data", ignore_errors=True)
    queries: list[dict[str, Any]] = []
    picture = superset.home / f"{slug}.png"
    report = browser.render(f"{superset.url}/superset/dashboard/{slug}/", picture, timeout=180, queries=queries)
    with capsys.disabled():
        print(f"\n{slug}: data after {report.data_seconds} s, drawn after {report.seconds} s, {report.queries} queries")
    assert report.problems == []
    assert sorted(report.charts) == sorted(chart["slice_name"] for chart in charts_of(slug))
    assert set(report.charts.values()) == {"drawn"}
    assert picture.read_bytes().startswith(b"\x89PNG")
    numbers = objects(superset)["slices"]
    timeless = numbers[weir_assets.uuid_of("charts", "address_days").replace("-", "").upper()]
    asked: set[int] = set()
    for one in queries:
        assert one["status"] == 200
        chart = (one["asked"] or {}).get("form_data", {}).get("slice_id")
        for result in one["answer"]["result"]:
            assert result["status"] == "success"
            assert result["rowcount"] > 0
        if chart:
            asked.add(int(chart))
            # The dashboard's time filter reaches every chart through the calculated column.
            if slug == "customer":
                named = [held for held in one["asked"]["queries"][0]["filters"] if held["col"] == "customer_name"]
                assert [held["val"] for held in named] == [["Fjord Power"]], "the first, and never the sum of all"
            if chart != timeless:
                (filtered,) = [held for held in one["asked"]["queries"][0]["filters"] if held["op"] == "TEMPORAL_RANGE"]
                assert filtered["col"] == "time"
                assert all("DATEADD" in query["time_range"] for query in one["asked"]["queries"])
    # The map uses Superset's older API, which is not among the queries.
    wanted = {numbers[uuid_hex(chart["uuid"])] for chart in charts_of(slug) if chart["viz_type"] != "world_map"}
    assert asked == wanted


def test_dark_colours(superset: Superset, browser: Browser) -> None:
    """The page follows the browser's dark-mode preference; the switch at the top overrides it."""
    grounds = {}
    for scheme in ("light", "dark"):
        # A new page each time: Superset still writes into the address of a page that is being left.
        page = browser.context.new_page()
        try:
            page.emulate_media(color_scheme=scheme)
            page.goto(f"{superset.url}/superset/dashboard/customer/", wait_until="domcontentloaded")
            page.locator('[data-test="chart-grid-component"] canvas').first.wait_for(timeout=60000)
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            grounds[scheme] = sum(map(int, re.findall(r"\d+", ground)[:3]))
        finally:
            page.close()
    assert grounds["light"] > 600
    assert grounds["dark"] < 150


def test_an_address_leads_to_its_own_page(superset: Superset, browser: Browser) -> None:
    """A click on an address in a list opens Investigate with that address chosen."""
    page = browser.context.new_page()
    try:
        page.goto(f"{superset.url}/superset/dashboard/talkers/", wait_until="domcontentloaded")
        link = page.locator('[data-test-chart-name="Hosts that receive most"] a[href*="investigate"]').first
        link.wait_for(timeout=60000)
        host = link.inner_text()
        link.click()
        page.locator('[data-test-chart-name="Who it is"] tbody td').first.wait_for(timeout=60000)
        assert page.locator('[data-test-chart-name="Who it is"] tbody td').first.inner_text() == host
    finally:
        page.close()


def test_init_says_what_is_missing() -> None:
    import subprocess

    from conftest import python_of

    done = subprocess.run(
        [python_of("superset"), str(CHECKOUT / "superset/weir_superset.py"), "init"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "WEIR_SUPERSET_HOME" in done.stderr
