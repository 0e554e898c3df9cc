"""Superset on a store: what a viewer without a name gets, number by number and on the screen."""

from __future__ import annotations

import json
import re
import sqlite3
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import weir_assets
from conftest import CHECKOUT, MINUTES, Store, Superset
from render import Report, render

DASHBOARD = "/superset/dashboard/network-overview/"
BUNDLE: dict[str, dict[str, Any]] = {name: yaml.safe_load(text) for name, text in weir_assets.bundle().items()}
DATASETS = {thing["table_name"]: thing for name, thing in BUNDLE.items() if name.startswith("datasets/")}
CHARTS = {thing["slice_name"] for name, thing in BUNDLE.items() if name.startswith("charts/")}


def call(superset: Superset, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    """One request of a viewer without a name: status and JSON."""
    request = urllib.request.Request(
        superset.url + path,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Content-Type": "application/json", "Accept": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else {"text": text.decode(errors="replace")}


def objects(superset: Superset) -> dict[str, Any]:
    """What Superset's own database holds of the assets: every UUID with its number, and how many rows hang on them."""
    with sqlite3.connect(superset.home / "superset.db") as database:
        found: dict[str, Any] = {
            table: dict(database.execute(f"SELECT hex(uuid), id FROM {table}").fetchall())
            for table in ("dbs", "tables", "slices", "dashboards", "table_columns", "sql_metrics")
        }
        for table in ("dashboard_slices", "ab_user", "ab_role"):
            found[table] = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return found


def query(superset: Superset, table: str, asked: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The first result of a chart-data query on a dataset."""
    dataset = uuid_hex(DATASETS[table]["uuid"])
    body = {
        "datasource": {"id": objects(superset)["tables"][dataset], "type": "table"},
        "queries": [{"row_limit": 1000, "filters": [], **asked}],
        "result_format": "json",
        "result_type": "full",
        "force": True,
        **more,
    }
    status, answer = call(superset, "/api/v1/chart/data", body)
    assert status == 200, answer
    (result,) = answer["result"]
    assert not result.get("error"), result
    return dict(result)


def uuid_hex(text: str) -> str:
    return text.replace("-", "").upper()


def between(since: int, until: int) -> dict[str, Any]:
    """A filter on time, [since, until) in seconds from 1970."""
    first, last = (datetime.fromtimestamp(one, UTC).strftime("%Y-%m-%dT%H:%M:%S") for one in (since, until))
    return {"col": "time", "op": "TEMPORAL_RANGE", "val": f"{first} : {last}"}


def test_second_init_is_quick_and_third_changes_nothing(superset: Superset) -> None:
    before = objects(superset)
    assert len(before["slices"]) == len(CHARTS)
    assert before["dashboard_slices"] == len(CHARTS)
    began = time.monotonic()
    assert superset.init() == "superset: nothing changed\n"
    assert time.monotonic() - began < 10
    # Without its stamp it does everything again, and still nothing may be there twice.
    (superset.home / "prepared").unlink()
    assert "dashboards imported" in superset.init()
    after = objects(superset)
    # Superset renews the rows of columns and metrics at an import; there must be as many.
    for table in ("table_columns", "sql_metrics"):
        assert len(after.pop(table)) == len(before.pop(table))
    assert after == before


@pytest.mark.parametrize("table", DATASETS)
def test_every_column_and_metric_answers(superset: Superset, store: Store, table: str) -> None:
    dataset = DATASETS[table]
    columns = [column["column_name"] for column in dataset["columns"]]
    filters = [between(store.until - 1800, store.until - 60)] if dataset["main_dttm_col"] else []
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
        ("traffic", "total_octets", "sum(octets) FROM v_flows"),
        ("v_hosts", "octets_sent", "sum(sent_octets) FROM v_hosts"),
    ],
)
def test_time_grains_add_up(
    superset: Superset, store: Store, grain: tuple[str, int], table: str, metric: str, truth: str
) -> None:
    """apache/superset 40807: with a grain of an hour the first bucket went, with one of a day over hours everything."""
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
        f"SELECT intDiv(toUnixTimestamp(ts), {grain[1]}) * {grain[1]} AS t, {truth} WHERE ts >= {since} AND ts < {until} GROUP BY t ORDER BY t"
    )
    assert len(wanted) > 2 or grain[0] == "P1D"
    assert got == {int(t): int(value) for t, value in wanted}


def test_rates_are_octets_over_seconds(superset: Superset, store: Store) -> None:
    until = store.until - 120
    since = until - 600
    got = query(
        superset,
        "traffic",
        {"columns": [], "metrics": ["bit_rate", "packet_rate", "active_flows"], "filters": [between(since, until)]},
    )["data"][0]
    (octets, packets, records) = map(
        int,
        store.ask(f"SELECT sum(octets), sum(packets), count() FROM v_flows WHERE ts >= {since} AND ts < {until}")[0],
    )
    assert got["bit_rate"] == pytest.approx(octets * 8 / 600)
    assert got["packet_rate"] == pytest.approx(packets / 600)
    assert got["active_flows"] == pytest.approx(records / 60)


def test_ranges_end_before_what_is_still_arriving(superset: Superset) -> None:
    """There are rows of the future in the store; no curve may show the last half minute."""
    now = time.time()
    newest = query(
        superset,
        "traffic",
        {"columns": ["ts"], "metrics": ["total_packets"], "filters": [between(int(now) - 900, int(now) + 900)]},
    )
    assert 30 < now - max(int(row["ts"]) // 1000 for row in newest["data"]) + 1 < 120


def test_completeness_tells_the_truth(superset: Superset, store: Store) -> None:
    """Of `south` a closing record is missing and 500 packets were lost; `north` is whole."""
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
    truth = store.ask(
        f"SELECT probe, sum(lost_packets), sum(dropped['ring']), sum(dropped['interface']), countIf(state != 'closed') FROM v_ledger "
        f"WHERE ts >= {store.until - (MINUTES - 60) * 60} AND ts < intDiv(toUnixTimestamp(now()) - 30, 60) * 60 GROUP BY probe"
    )
    for probe, lost, ring, card, reports in truth:
        row = rows[probe]
        assert [int(row[name]) for name in metrics[2:]] == [int(reports), int(lost), int(ring), int(card)]
        assert int(row["packets_missing"]) == int(lost) + int(ring) + int(card)
    assert rows["north"]["completeness"] == 1
    assert 0.9 < rows["east"]["completeness"] < 1
    assert rows["south"]["packets_lost"] == 500
    assert rows["south"]["reports_missing"] == 2
    # One interval is unknown: the share falls by its part of all intervals, whatever else is lost.
    (unknown, intervals, wire, accounted) = map(
        int,
        store.ask(
            "SELECT countIf(state = 'closing_missing'), count(), sum(on_interface_packets), "
            "sumIf(stored_packets + not_metered_packets, state != 'closing_missing') FROM v_ledger WHERE probe = 'south' "
            f"AND ts >= {store.until - (MINUTES - 60) * 60} AND ts < {store.until - 60}"
        )[0],
    )
    filters = [
        between(store.until - (MINUTES - 60) * 60, store.until - 60),
        {"col": "probe", "op": "IN", "val": ["south"]},
    ]
    south = query(superset, "ledger", {"columns": [], "metrics": ["completeness"], "filters": filters})["data"][0][
        "completeness"
    ]
    assert south == pytest.approx(accounted / wire * (1 - unknown / intervals), abs=1e-5)
    assert south < 1


def test_drill_to_detail(superset: Superset, store: Store) -> None:
    """Calculated columns are quoted by Superset and by the dialect alike."""
    asked = {
        "columns": [],
        "metrics": [],
        "filters": [between(store.until - 600, store.until - 60), {"col": "time", "op": "IS NOT NULL"}],
        "row_limit": 5,
    }
    rows = query(superset, "v_hosts", asked, result_type="drill_detail")
    assert rows["rowcount"] == 5
    assert "`" not in rows["query"]


def test_viewers_read_and_nothing_more(superset: Superset) -> None:
    assert call(superset, "/api/v1/dashboard/network-overview")[0] == 200
    assert call(superset, "/api/v1/dashboard/", {"dashboard_title": "mine"})[0] in (400, 401, 403)
    assert call(superset, "/api/v1/sqllab/execute/", {"database_id": 1, "sql": "SELECT 1"})[0] in (400, 401, 403)
    status, answer = call(superset, "/api/v1/database/")
    assert status in (401, 403), answer
    # A table behind the views stays closed, also to who writes SQL into a chart's query.
    body = {
        "datasource": {"id": objects(superset)["tables"][uuid_hex(DATASETS["traffic"]["uuid"])], "type": "table"},
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
def drawn(superset: Superset) -> tuple[Report, list[dict[str, Any]], Path]:
    """The dashboard in Chromium: the report, the queries with their answers, the picture."""
    queries: list[dict[str, Any]] = []
    picture = superset.home / "network-overview.png"
    return render(superset.url + DASHBOARD, picture, timeout=180, queries=queries), queries, picture


def test_the_dashboard_is_drawn(drawn: tuple[Report, list[dict[str, Any]], Path]) -> None:
    report, _, picture = drawn
    assert report.problems == []
    assert set(report.charts) == CHARTS
    assert set(report.charts.values()) == {"drawn"}
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_every_chart_asks_and_gets_rows(superset: Superset, drawn: tuple[Report, list[dict[str, Any]], Path]) -> None:
    """The queries that the browser sent as a viewer without a name, one a chart at least."""
    asked: set[int] = set()
    for one in drawn[1]:
        assert one["status"] == 200
        chart = (one["asked"] or {}).get("form_data", {}).get("slice_id")
        for result in one["answer"]["result"]:
            assert result["status"] == "success"
            assert result["rowcount"] > 0
        if chart:
            asked.add(int(chart))
            # The dashboard's filter on time reaches every chart, by way of the calculated column.
            (filtered,) = [held for held in one["asked"]["queries"][0]["filters"] if held["op"] == "TEMPORAL_RANGE"]
            assert filtered["col"] == "time"
            assert all("DATEADD" in query["time_range"] for query in one["asked"]["queries"])
    assert asked == set(objects(superset)["slices"].values())


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
