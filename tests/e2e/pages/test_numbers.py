"""The numbers that Superset gets from each dataset: those of the raw records, and of the captures."""

from __future__ import annotations

import base64
import itertools
import math
import re
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import page_traffic
import weir_templates
from harness import RunningStack, eventually
from viewers import DATASETS, Viewer, between, chosen
from weir.clickhouse import ClickHouse

from .conftest import CAPTURES, LOSSES, RETURNED, SECONDS, SILENT, Traffic

#: Filters that leave out the sentence which a list has if nobody is in it.
SOMEBODY: dict[str, dict[str, Any]] = {
    "alerts": {"col": "state", "op": "!=", "val": "none"},
    "customer_suspects": {"col": "host", "op": "!=", "val": "nobody"},
    "findings": {"col": "windows", "op": ">", "val": 0},
    "port_report": {"col": "tcp_packets", "op": ">", "val": 0},
    "signatures": {"col": "hosts", "op": ">", "val": 0},
    "suspects": {"col": "host", "op": "!=", "val": "nobody"},
    "talkers": {"col": "windows", "op": ">", "val": 0},
}
OCTETS, PACKETS = "sum(fwd_octets + rev_octets)", "sum(fwd_packets + rev_packets)"


def raw(store: ClickHouse, what: str, where: str) -> dict[str, Any]:
    """An aggregate over the raw records."""
    (row,) = store.rows(f"SELECT {what} FROM flows WHERE {where}")
    return row


def test_a_time_without_reports_is_a_gap(viewer: Viewer, traffic: Traffic, usual: None) -> None:
    """A chart gets every point between its first and its last; those of which nobody reported have no value."""
    metric, within = "total_octets", between(traffic.hours, time.time())
    asked = {
        "columns": [{"sqlExpression": "time", "label": "time", "columnType": "BASE_AXIS", "expressionType": "SQL"}],
        "metrics": [metric],
        "filters": [within],
        "post_processing": [
            {
                "operation": "pivot",
                "options": {"index": ["time"], "columns": [], "aggregates": {metric: {"operator": "mean"}}},
            },
            {"operation": "flatten"},
        ],
    }
    points = {row["time"] / 1000: row[metric] for row in viewer.query("windows", asked)["data"]}
    times = [*points]
    assert len({later - earlier for earlier, later in itertools.pairwise(times)}) == 1
    assert traffic.hours_end < traffic.begin
    assert [*points.values()].count(None) > 2
    assert times[-1] <= time.time()
    there = [value for value in points.values() if value is not None]
    assert sum(there) == viewer.values("windows", [metric], within)[metric]


@pytest.mark.parametrize("table", DATASETS)
def test_every_column_and_metric_answers(viewer: Viewer, traffic: Traffic, usual: None, table: str) -> None:
    dataset = DATASETS[table]
    columns = [column["column_name"] for column in dataset["columns"]]
    filters = [between(traffic.begin, time.time())] if dataset["main_dttm_col"] else []
    if table.startswith("customer_"):
        filters.append(chosen("customer_name", "Fjord Power"))
    filters += [SOMEBODY[table]] if table in SOMEBODY else []
    found = viewer.query(table, {"columns": columns, "filters": filters, "row_limit": 5})
    assert found["rowcount"] > 0
    assert set(found["colnames"]) == set(columns)
    metrics = [metric["metric_name"] for metric in dataset["metrics"]]
    values = viewer.values(table, metrics, *filters)
    assert set(values) == set(metrics)
    assert None not in values.values()


@pytest.mark.parametrize(
    ("table", "sums", "dimension"),
    [
        ("windows", {"total_octets": OCTETS, "total_packets": PACKETS}, ""),
        ("mixes", {"mix_octets": OCTETS, "mix_packets": PACKETS}, "total"),
        ("mixes", {"mix_octets": OCTETS, "mix_packets": PACKETS}, "application"),
        ("mixes", {"mix_octets": OCTETS, "mix_packets": PACKETS}, "as_application"),
        ("ledger", {"packets_stored": PACKETS}, ""),
        ("address", {"host_both": OCTETS, "host_packets": PACKETS}, ""),
        ("identity", {"identity_records": "count()"}, ""),
    ],
)
@pytest.mark.parametrize("probe", CAPTURES)
def test_sums_are_those_of_the_raw_records(
    viewer: Viewer,
    store: ClickHouse,
    shared: Path,
    probe: str,
    table: str,
    sums: dict[str, str],
    dimension: str,
) -> None:
    """Of real captures."""
    span = "toUnixTimestamp(min(ts)) AS first, toUnixTimestamp(max(ts)) AS last"
    busiest = "weir_addr(topKWeighted(1)(src_addr, fwd_octets + rev_octets)[1]) AS host"
    first, last, host = raw(store, f"{span}, {busiest}", f"probe = '{probe}'").values()
    filters, own = [between(first // 3600 * 3600, last // 3600 * 3600 + 3600), chosen("probe", probe)], "true"
    if dimension:
        filters.append(chosen("dimension", dimension))
    if table in ("address", "identity"):
        filters.append(chosen("host", host))
        own = f"'{host}' IN (weir_addr(src_addr), weir_addr(dst_addr))"
    wanted = raw(store, ", ".join(f"{sql} AS {name}" for name, sql in sums.items()), f"probe = '{probe}' AND {own}")
    said: list[dict[str, Any]] = []

    def same() -> bool:
        said.append(viewer.values(table, list(sums), *filters))
        return said[-1] == wanted

    try:
        eventually(same, table, 60)
    except AssertionError:
        assert said[-1] == wanted


@pytest.mark.parametrize("grain", [("PT1H", 3600), ("P1D", 86400), ("PT1M", 60)], ids=lambda one: one[0])
@pytest.mark.parametrize(
    ("table", "metric", "truth"),
    [
        ("windows", "total_octets", f"{OCTETS} AS value FROM flows"),
        ("counters", "counter_packets", "sum(packets) AS value FROM counters"),
    ],
)
def test_time_grains_add_up(
    viewer: Viewer, store: ClickHouse, traffic: Traffic, grain: tuple[str, int], table: str, metric: str, truth: str
) -> None:
    """apache/superset 40807: a grain of an hour lost the first bucket, a grain of a day over hours lost everything."""
    since, until = traffic.hours, traffic.hours_end
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
    got = {int(row["time"]) // 1000: int(row[metric]) for row in viewer.query(table, asked)["data"]}
    wanted = store.rows(
        f"SELECT intDiv(toUnixTimestamp(ts), {grain[1]}) * {grain[1]} AS t, {truth} WHERE ts >= {since} AND ts < {until} GROUP BY t"
    )
    assert len(wanted) > 2 or grain[0] == "P1D"
    assert got == {row["t"]: row["value"] for row in wanted}


def test_rates_are_octets_over_seconds(viewer: Viewer, store: ClickHouse, traffic: Traffic) -> None:
    """Of a time in which only one probe saw anything."""
    since, until = traffic.begin + SECONDS // 2, traffic.end
    got = viewer.values("windows", ["bit_rate", "packet_rate", "active_flows"], between(since, until))
    within = f"ts >= {since} AND ts < {until}"
    sums = raw(store, f"{OCTETS} AS octets, {PACKETS} AS packets, uniqExact(probe) AS probes", within)
    assert sums["probes"] == 1
    assert got["bit_rate"] == pytest.approx(sums["octets"] * 8 / (until - since))
    assert got["packet_rate"] == pytest.approx(sums["packets"] / (until - since))
    flow = "(intDiv(toUnixTimestamp(ts), 30), src_addr, dst_addr, src_port, dst_port, protocol)"
    flows = raw(store, f"uniqExact({flow}) AS n", within)["n"]
    assert got["active_flows"] == pytest.approx(flows / ((until - since) / 30))


@pytest.mark.parametrize(
    ("filters", "seen"),
    [
        # `north` saw all that another probe did, but for one flow that `west` alone saw.
        ([], "probe = 'north' OR (probe = 'west' AND 4001 IN (src_port, dst_port))"),
        ([chosen("probe", "south")], "probe = 'south'"),
        ([chosen("customer_name", "Fjord Power")], f"probe = 'north' AND ({page_traffic.of_customer('Fjord Power')})"),
    ],
    ids=["all", "probe", "customer"],
)
def test_a_choice_changes_the_lists_that_are_read(
    viewer: Viewer, store: ClickHouse, traffic: Traffic, filters: list[dict[str, Any]], seen: str
) -> None:
    """Without a choice each flow counts once; with a probe or a customer the page reads its own lists, not a part of
    all.
    """
    within = f"ts >= {traffic.begin} AND ts < {traffic.end} AND ({seen})"
    filters = [between(traffic.begin, traffic.end), *filters]
    octets = raw(store, f"{OCTETS} AS octets", within)["octets"]
    mix = viewer.values("mixes", ["mix_octets"], *filters, chosen("dimension", "as"))
    assert int(mix["mix_octets"]) == octets > 0
    metrics = ["talker_received", "talker_sent"]
    listed = viewer.rows("talkers", ["number"], metrics, *filters, chosen("list", "port_tcp"))
    truth = store.rows(
        f"SELECT dst_port, sum(fwd_octets) AS there, sum(rev_octets) AS back FROM flows WHERE protocol = 6 AND {within} GROUP BY dst_port"
    )
    assert {row["number"]: (row["talker_received"], row["talker_sent"]) for row in listed} == {
        row["dst_port"]: (row["there"], row["back"]) for row in truth
    }


@pytest.mark.parametrize("words", sorted(weir_templates.FLOW_LISTS))
def test_the_chosen_list_of_flows_is_shown(viewer: Viewer, store: ClickHouse, traffic: Traffic, words: str) -> None:
    filters = [between(traffic.begin, traffic.end), chosen("flow_list", words)]
    shown = viewer.rows("top_flows", ["rank", "src", "dst", "dst_port"], ["flow_octets", "flow_packets"], *filters)
    listed = f"scope = 'all' AND list = '{weir_templates.FLOW_LISTS[words]}' AND ts >= {traffic.begin} AND ts < {traffic.end}"
    newest = f"ts = (SELECT max(ts) FROM v_top_flows WHERE {listed})"
    wanted = store.rows(
        f"SELECT rank, src, dst, dst_port, octets, packets FROM v_top_flows WHERE {listed} AND {newest}"
    )
    assert sorted(tuple(row.values()) for row in shown) == sorted(tuple(row.values()) for row in wanted) != []


@pytest.mark.parametrize(
    ("table", "owner", "seen"),
    [
        ("rates", chosen("probe", "north"), "true"),
        ("customer_rates", chosen("customer_name", "Fjord Power"), page_traffic.of_customer("Fjord Power")),
    ],
)
def test_a_rate_is_that_of_five_minutes(
    viewer: Viewer, store: ClickHouse, traffic: Traffic, table: str, owner: dict[str, Any], seen: str
) -> None:
    windows = store.rows(
        f"SELECT {OCTETS} * 8 / 300 AS rate FROM flows WHERE probe = 'north' AND ts >= {traffic.begin} AND ts < {traffic.end} AND ({seen})"
        " GROUP BY intDiv(toUnixTimestamp(ts), 300)"
    )
    rates = [row["rate"] for row in windows]
    assert len(rates) == SECONDS // 300
    shown = viewer.values(table, ["both_mean", "both_95", "both_highest"], between(traffic.begin, traffic.end), owner)
    # Of fewer than twenty windows, the 95th percentile is the highest.
    wanted = {"both_mean": sum(rates) / len(rates), "both_95": max(rates), "both_highest": max(rates)}
    assert shown == pytest.approx(wanted)


@pytest.mark.parametrize("table", ["customer_mixes", "customer_talkers", "customer_rates"])
def test_customers_are_not_added_up(viewer: Viewer, traffic: Traffic, table: str) -> None:
    """Traffic between two customers is in the rows of both: their sum would be more than there was."""
    metric = {"customer_mixes": "mix_octets", "customer_talkers": "talker_octets", "customer_rates": "both_95"}[table]
    within = between(traffic.begin, traffic.end)
    for names, known in (([], False), (["Fjord Power", "Harbour Hosting"], False), (["Fjord Power"], True)):
        filters = [chosen("customer_name", *names)] if names else []
        assert (viewer.values(table, [metric], within, *filters)[metric] is not None) == known, names


def test_one_address_from_its_own_side(viewer: Viewer, store: ClickHouse, traffic: Traffic) -> None:
    """Sent and received, whichever side began the flow; an address in quotes is not SQL."""
    within = between(traffic.begin, traffic.end)
    for host in ("192.0.2.5", "2001:db8:1::5"):
        sent, got = "sumIf({}_octets, h = src_addr) + sumIf({}_octets, h = dst_addr)", ("fwd", "rev")
        truth = raw(
            store,
            f"toIPv6('{host}') AS h, {sent.format(*got)} AS host_sent, {sent.format(*reversed(got))} AS host_received",
            f"probe = 'north' AND ts >= {traffic.begin} AND ts < {traffic.end} GROUP BY h",
        )
        assert truth["host_sent"] > 0
        asked = viewer.values("address", ["host_sent", "host_received"], within, chosen("host", host))
        assert asked == {name: truth[name] for name in asked}
    for host in ("198.51.100.251", "x') OR 1 = 1 --", "\\"):
        rows = viewer.rows("identity", ["host"], ["identity_records"], within, chosen("host", host))
        assert rows == [{"host": host, "identity_records": 0}]


@pytest.mark.parametrize("typed", ["hello", "192.0.2.5.", "192.0.2.256", "2001:db8::x"])
def test_a_text_that_is_no_address_shows_nothing(
    viewer: Viewer, store: ClickHouse, traffic: Traffic, typed: str
) -> None:
    """Not the records without an address, `::`, which agents write when they reach a bound."""
    assert raw(store, "count() AS n", f"src_addr = '::' AND ts >= {traffic.losses} AND ts < {traffic.end}")["n"] == 1
    within, host = between(traffic.losses, traffic.end), chosen("host", typed)
    for table, metric, filters in (("address", "host_flows", [within]), ("host_days", "day_sent", [])):
        assert viewer.rows(table, ["probe"], [metric], *filters, host) == [], table
    rows = viewer.rows("identity", ["as_label"], ["identity_records"], within, host)
    assert rows == [{"as_label": "not an address", "identity_records": 0}]


@pytest.mark.parametrize(
    ("table", "metrics"), [("address", ["host_sent", "host_received"]), ("host_days", ["day_sent", "day_received"])]
)
def test_a_dataset_counts_each_flow_once(viewer: Viewer, traffic: Traffic, table: str, metrics: list[str]) -> None:
    """Three probes saw one flow, one of them from its other end; another flow was seen by that one alone."""
    filters = [between(traffic.begin, traffic.end)] if table == "address" else []

    def octets(*probes: str) -> int:
        named = [chosen("probe", *probes)] if probes else []
        return sum(viewer.values(table, metrics, *filters, chosen("host", page_traffic.LASTING), *named).values())

    flow = 10 * 200
    assert octets() == 2 * flow
    assert octets("north") == octets("south") == flow
    assert octets("west") == 2 * flow


def test_lists_say_that_nobody_is_in_them(viewer: Viewer) -> None:
    """Of a time before the first rows: a sentence, not an empty table."""
    until = time.time() - 86_400
    for table, column, said in (
        ("port_report", "flags", "No TCP control packets"),
        ("signatures", "signature", "No host had"),
        ("talkers", "label", "No customer is declared"),
        ("suspects", "host", "nobody"),
        ("findings", "meaning", "In no list of suspects"),
        ("identity", "as_label", "not seen in this time"),
    ):
        host = [chosen("host", "192.0.2.1")] if table in ("findings", "identity") else []
        rows = viewer.rows(table, [column], [], between(until - 400, until), *host)
        assert any(said in row[column] for row in rows), (table, rows)


def test_an_open_alert_is_shown_at_any_time(stack: RunningStack, viewer: Viewer, traffic: Traffic) -> None:
    """The alert on a silent probe stays; that on one that reported later is over, and is shown in its own time alone."""
    over = f"SELECT count() FROM v_alerts WHERE reason = 'probe_silent' AND probe = '{RETURNED}' AND NOT open"
    eventually(lambda: stack.one(over), "the end of an alert")

    def shown(since: float, until: float) -> dict[str, str]:
        rows = viewer.rows("alerts", ["probe", "state"], [], between(since, until), chosen("reason", "probe_silent"))
        return {row["probe"]: row["state"] for row in rows}

    assert shown(traffic.begin - 90_000, traffic.begin - 86_400) == {SILENT: "open"}
    assert shown(traffic.begin, time.time()) == {SILENT: "open", RETURNED: "ended"}


def test_what_strays_from_the_usual_is_found(viewer: Viewer, traffic: Traffic, usual: None) -> None:
    """Hosts look for one service ten times as much as is usual; nothing else has changed."""
    rows = viewer.rows(
        "filter_graphs",
        ["counter_set", "label", "graph"],
        ["rate_now", "rate_usual", "rate_strays"],
        between(traffic.end - 86_400, traffic.end),
    )
    assert [(row["counter_set"], row["label"]) for row in rows if row["rate_strays"] > 5] == [("ports", "smb")]
    (smb,) = [row for row in rows if row["label"] == "smb"]
    assert smb["rate_now"] == pytest.approx(10 * smb["rate_usual"])
    assert len(rows) > 20
    drawings = [re.fullmatch(r'<img [^>]*src="data:image/svg\+xml;base64,([^"]+)">', row["graph"]) for row in rows]
    for drawing in drawings:
        assert drawing
        line = ElementTree.fromstring(base64.b64decode(drawing[1])).find("{http://www.w3.org/2000/svg}polyline")
        assert line is not None
        points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        assert points
        assert all(0 <= x <= 240 and 0 <= y <= 40 for x, y in points)


def test_ranges_end_before_what_is_still_arriving(stack: RunningStack, viewer: Viewer, present: None) -> None:
    """The store has a newer window, and records of the future; no curve may show the last half minute."""
    newer = "SELECT max(toUnixTimestamp(ts)) >= intDiv(toUnixTimestamp(now()) - 30, 30) * 30 FROM v_top_flows WHERE scope = 'all'"
    eventually(lambda: stack.one(newer), "a window of the last minute")
    eventually(lambda: stack.one("SELECT max(ts) > now() FROM flows"), "records of the future")
    now = time.time()
    points = viewer.rows("windows", ["ts"], ["total_packets"], between(now - 900, now + 900))
    newest = max(int(row["ts"]) // 1000 for row in points)
    assert time.time() - newest >= 60
    assert now - newest < 150


def test_completeness_tells_the_truth(viewer: Viewer, traffic: Traffic) -> None:
    """`lossy` dropped packets in its ring and at its interface, and lost a batch and a closing record; `north` is complete."""
    metrics = ["completeness", "packets_missing", "reports_missing", "packets_lost", "packets_dropped_ring"]
    metrics += ["packets_dropped_interface", "packets_doubled"]
    losses = between(traffic.losses, traffic.losses + 100)
    (row,) = viewer.rows("ledger", ["probe"], metrics, losses, chosen("probe", "lossy"))
    dropped = {place: sum(loss.dropped.get(place, 0) for loss in LOSSES.values()) for place in ("ring", "interface")}
    # Ten intervals of 100 packets, and nine packets counted together.
    assert row == {
        "probe": "lossy",
        "completeness": math.floor(1e5 * (1009 - 125) / 1009) / 1e5,
        "packets_missing": 125,
        "reports_missing": 1,
        "packets_lost": 100,
        "packets_dropped_ring": dropped["ring"],
        "packets_dropped_interface": dropped["interface"],
        "packets_doubled": 0,
    }
    # A packet that waits in the ring is missing in no interval.
    first = between(traffic.losses, traffic.losses + 10)
    shown = viewer.values("ledger", ["packets_missing", "completeness"], first, chosen("probe", "lossy"))
    assert shown == {"packets_missing": 10, "completeness": 0.9}
    whole = viewer.values("ledger", metrics, between(traffic.begin, traffic.end), chosen("probe", "north"))
    assert whole == {**dict.fromkeys(metrics, 0), "completeness": 1}


def test_a_silent_probe_lowers_reports_and_nothing_else(viewer: Viewer, store: ClickHouse, traffic: Traffic) -> None:
    """With nothing missing of what was reported, completeness is 100 %: the two cannot contradict each other."""
    metrics = ["completeness", "packets_missing", "reports_share", "reports_missing"]
    ledger = f"FROM ledger FINAL WHERE probe IN ('north', '{SILENT}')"
    # The rows of a probe come in order: before the newest one none is still to come.
    newest = [row["newest"] for row in store.rows(f"SELECT toUnixTimestamp(max(ts)) AS newest {ledger} GROUP BY probe")]
    until = min(*newest, int(time.time()) - 30) // 60 * 60
    counted = f"SELECT probe, count() AS n {ledger} AND ts >= {traffic.begin} AND ts < {until} GROUP BY probe"
    due = {row["probe"]: row["n"] for row in store.rows(counted)}
    within = between(traffic.begin, until)
    silent = viewer.values("ledger", metrics, within, chosen("probe", SILENT))
    assert silent == {"completeness": None, "packets_missing": 0, "reports_share": 0, "reports_missing": due[SILENT]}, (
        "nothing is known"
    )
    both = viewer.values("ledger", metrics, within, chosen("probe", "north", SILENT))
    share = math.floor(1e5 * (1 - due[SILENT] / sum(due.values()))) / 1e5
    assert both == {"completeness": 1, "packets_missing": 0, "reports_share": share, "reports_missing": due[SILENT]}


def test_what_is_stored_twice_hides_no_loss(viewer: Viewer, store: ClickHouse, traffic: Traffic) -> None:
    """Imitated, because no job stores a record twice: a copy of the records of one interval, of a time that no other test reads."""
    store.execute(f"INSERT INTO flows SELECT * FROM flows WHERE probe = 'twice' AND ts = {traffic.twice}")
    metrics = ["packets_missing", "packets_doubled", "completeness"]
    shown = viewer.values("ledger", metrics, between(traffic.twice, traffic.begin), chosen("probe", "lossy", "twice"))
    completeness = math.floor(1e5 * (2018 - 125) / 2018) / 1e5
    assert shown == {"packets_missing": 125, "packets_doubled": 100, "completeness": completeness}


def test_exporters_are_shown_with_what_they_sent(viewer: Viewer, traffic: Traffic) -> None:
    """A router of whose flows some were lost, a translator, and somebody whose datagram nobody can read."""
    metrics = ["exporter_records", "exporter_lost", "exporter_without_rate", "exporter_reports", "exporter_refused"]
    rows = viewer.rows("exporters", ["exporter"], metrics, between(traffic.end, time.time()))
    assert {row["exporter"]: [row[metric] for metric in metrics] for row in rows} == {
        "127.0.0.1": [2, 3, 2, 0, 0],
        "127.0.0.2": [0, 0, 0, 1, 0],
        "unknown exporter": [0, 0, 0, 0, 1],
    }


def test_drill_to_detail(viewer: Viewer, traffic: Traffic) -> None:
    """Superset and the dialect quote calculated columns alike."""
    filters = [between(traffic.begin, traffic.end), {"col": "time", "op": "IS NOT NULL"}]
    found = viewer.query("address", {"filters": filters, "row_limit": 5}, result_type="drill_detail")
    assert found["rowcount"] == 5
    assert "`" not in found["query"]
