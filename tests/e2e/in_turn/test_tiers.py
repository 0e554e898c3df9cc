"""The tiers through a whole stack: the same totals everywhere, after a kill and after repeated messages; daily lists;
room made by age and by budget.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from datetime import UTC, datetime

import pytest
import yaml

from harness import RunningStack, eventually
from weir.clickhouse import ClickHouse
from weir.storage import hours, service
from window_traffic import Publisher, conversations_and_a_scan

DAY = 86_400
#: Three days ago, ten minutes before midnight: the traffic goes on into the next day.
START = int(time.time()) // DAY * DAY - 2 * DAY - 600


def totals(store: ClickHouse) -> dict[str, list[dict[str, int]]]:
    """The totals of each tier for each day and probe."""
    raw = store.rows(
        "SELECT toString(toDate(ts)) AS day, probe, count() AS records, sum(fwd_packets + rev_packets) AS packets, "
        "sum(fwd_octets + rev_octets) AS octets FROM flows GROUP BY day, probe ORDER BY day, probe"
    )
    out = {"raw": raw}
    for table in ("flows_hourly", "flows_hourly_by_destination"):
        out[table] = store.rows(
            "SELECT toString(toDate(ts)) AS day, probe, sum(t.records) AS records, sum(fwd_packets + rev_packets) AS packets, "
            f"sum(fwd_octets + rev_octets) AS octets FROM {table} AS t GROUP BY day, probe ORDER BY day, probe"
        )
    # Each packet is in the row of its sender and in that of its receiver.
    for table in ("hosts_daily", "talkers_daily"):
        out[table] = store.rows(
            "SELECT toString(day) AS day, probe, intDiv(sum(sent_packets + received_packets), 2) AS packets, "
            f"intDiv(sum(sent_octets + received_octets), 2) AS octets FROM {table} GROUP BY day, probe ORDER BY day, probe"
        )
    out["mixes_daily"] = store.rows(
        "SELECT toString(day) AS day, probe, sum(m.packets) AS packets, sum(m.octets) AS octets FROM mixes_daily AS m "
        "WHERE scope = 'probe' AND dimension = 'total' GROUP BY day, probe ORDER BY day, probe"
    )
    return out


def check(stack: RunningStack, store: ClickHouse, *names: str) -> None:
    """Wait until every tier has the totals of the raw records."""

    def unequal() -> list[str]:
        with service.alone(stack.stack):
            list(hours.roll_up(store, all_now=True))
        found = totals(store)
        return [
            name
            for name in names
            if found[name]
            != [{key: row[key] for key in row if key in (found[name] or [row])[0]} for row in found["raw"]]
        ]

    eventually(lambda: not unequal(), f"equal totals in {names}", 20)


def test_totals_are_equal_in_every_tier(stack: RunningStack, store: ClickHouse) -> None:
    chance = random.Random(5)
    probes = [Publisher(stack, name) for name in ("north", "south")]
    sent = 0
    for tick in range(0, 1200, 10):
        for probe in probes:
            flows = list(conversations_and_a_scan(chance))
            sent += sum(flow.packets for flow in flows)
            probe.interval(1000 * (START + tick), [flow.record() for flow in flows], last=tick == 1190)
        if tick == 600:
            stack.kill("clickhouse")
    eventually(store.ping, "the store again")
    eventually(
        lambda: store.rows("SELECT sum(fwd_packets + rev_packets) AS n FROM flows")[0]["n"] == sent, f"{sent} packets"
    )
    assert len(totals(store)["raw"]) == 4, "two days of two probes"
    check(stack, store, "flows_hourly", "flows_hourly_by_destination", "hosts_daily")


def test_daily_lists_are_written_once_and_again_after_late_data(stack: RunningStack, store: ClickHouse) -> None:
    def windows() -> bool:
        rows = store.rows("SELECT sum(packets) AS n FROM v_mixes WHERE scope = 'probe' AND dimension = 'total'")
        return bool(rows[0]["n"] == store.rows("SELECT sum(fwd_packets + rev_packets) AS n FROM flows")[0]["n"])

    eventually(windows, "windows of all that was stored", 90)
    check(stack, store, "hosts_daily")
    # The nation's windows come after those of the probes, and the service rolls a day up again when more rows arrive.
    eventually(lambda: "nothing has changed" in stack.weir("storage", "roll-up").out, "a roll-up with nothing to do")
    check(stack, store, "talkers_daily", "mixes_daily")
    before = store.rows("SELECT * FROM talkers_daily ORDER BY ALL")

    late = Publisher(stack, "late")
    late.interval(1000 * START, [flow.record() for flow in conversations_and_a_scan(random.Random(6))], last=True)
    eventually(lambda: store.rows("SELECT count() AS n FROM flows WHERE probe = 'late'")[0]["n"] == 90, "late records")
    eventually(windows, "windows of the late records", 90)
    check(stack, store, "hosts_daily")
    assert "talkers_daily" in stack.weir("storage", "roll-up").out
    check(stack, store, "flows_hourly", "hosts_daily", "talkers_daily", "mixes_daily")
    assert store.rows("SELECT * FROM talkers_daily WHERE probe != 'late' ORDER BY ALL") == before
    # The list over all probes adds up the hosts of all, each flow once.
    day = "SELECT toString(day) AS day, sum(sent_octets) AS sent, sum(received_octets) AS received, uniqExact(addr) AS hosts FROM {} GROUP BY day"
    assert store.rows(day.format("national_talkers_daily")) == store.rows(day.format("hosts_daily WHERE NOT duplicate"))
    assert store.rows("SELECT max(probes) AS most FROM national_talkers_daily")[0]["most"] == 3

    # Below the limit each host has a row; beyond it the rest are one.
    shown = store.rows(
        "SELECT max(rank) AS most, countIf(rank = 0) AS rest, count() AS n FROM v_talkers_daily WHERE probe = 'late'"
    )
    hosts = store.rows("SELECT count() AS n FROM hosts FINAL WHERE probe = 'late'")
    assert shown == [{"most": hosts[0]["n"], "rest": 0, "n": hosts[0]["n"]}]


def test_only_the_largest_have_a_row_of_their_own(
    stack: RunningStack, store: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weir.storage import rollup

    day = datetime.fromtimestamp(START, UTC).date()
    monkeypatch.setattr(rollup, "TALKERS", 10)
    with service.alone(stack.stack):
        list(rollup.roll_up(store, day))
    check(stack, store, "talkers_daily")
    own = f"day = '{day}' AND probe = 'north'"
    listed = store.rows(f"SELECT host, octets FROM v_talkers_daily WHERE {own} AND rank BETWEEN 1 AND 10 ORDER BY rank")
    assert listed == store.rows(
        f"SELECT host, sum(h.octets) AS octets FROM hosts AS h WHERE {own} GROUP BY host, network ORDER BY octets DESC LIMIT 10"
    )
    # A tenth as many by packets and by flows: the scanner has too few octets to be among the ten.
    for column, value in (
        ("packets_rank", "sent_packets + received_packets"),
        ("flows_rank", "flows_begun + flows_received"),
    ):
        first = store.rows(f"SELECT {value} AS n FROM v_talkers_daily WHERE {own} AND {column} > 0")
        assert first == store.rows(
            f"SELECT sum({value}) AS n FROM hosts WHERE {own} GROUP BY host, network ORDER BY n DESC LIMIT 1"
        )
    assert store.rows(f"SELECT host FROM v_talkers_daily WHERE {own} AND rank > 10 AND flows_rank = 1") == [
        {"host": "10.9.9.9"}
    ]
    rest = store.rows(f"SELECT hosts, rank, host FROM v_talkers_daily WHERE {own} AND rank = 0")
    hosts_of_day = store.rows(f"SELECT uniqExact(host, network) AS n FROM hosts WHERE {own}")[0]["n"]
    count = store.rows(f"SELECT count() AS n FROM v_talkers_daily WHERE {own} AND rank > 0")[0]["n"]
    assert rest[0]["hosts"] == hosts_of_day - count
    monkeypatch.undo()
    with service.alone(stack.stack):
        list(rollup.roll_up(store, day))
    check(stack, store, "talkers_daily")


def test_storage_shows_tiers_and_a_forecast(stack: RunningStack) -> None:
    shown = json.loads(stack.weir("storage", "--json").out)
    tiers = {tier["tier"]: tier for tier in shown["tiers"]}
    assert tiers["raw"]["rows"] == 241 * 90, "120 intervals of two probes, and one of a late one"
    assert tiers["hourly"]["octets"] > 0
    assert tiers["daily"]["days_kept"] is None
    assert shown["used"] == sum(tier["octets"] for tier in shown["tiers"])
    # The disk counts once, although backups have their own name for it.
    assert shown["disk"]["total"] == shutil.disk_usage(stack.home).total
    text = stack.weir("storage").out
    assert "flows_hourly_by_destination" in text
    assert "of a budget of" in text


def test_what_the_law_keeps_goes_by_its_own_age(stack: RunningStack, store: ClickHouse) -> None:
    for days in (3, 5, 30):
        store.execute(
            "INSERT INTO flows (ts, probe, post_nat_src_addr, post_nat_src_port, post_nat_dst_addr, post_nat_dst_port)"
            f" SELECT now() - 86400 * {days}, 'law', '::ffff:198.51.100.1', 4000, '::ffff:203.0.113.7', 443 FROM numbers(100)"
        )
    # Of a collector whose clock is years off: stored now, so kept as long as what is reported now.
    for ts, kept_from in (
        ("now() - 86400 * 400", "DEFAULT"),
        ("now() + 86400 * 400", "DEFAULT"),
        ("now() - 86400 * 30",) * 2,
    ):
        store.execute(f"INSERT INTO nat_events (ts, kept_from, probe) VALUES ({ts}, {kept_from}, 'law')")
    chosen = yaml.safe_load((stack.home / "weir.yaml").read_text())
    chosen |= {"storage": {"nat_days": 10, "raw_days": 400, "budget": "1kB"}}
    (stack.home / "law.yaml").write_text(yaml.safe_dump(chosen))
    shown = stack.weir("--config", str(stack.home / "law.yaml"), "storage").out
    assert "What the law keeps takes" in shown
    assert "flows are kept for less than 400 days" in shown
    chosen["storage"]["budget"] = "1TB"
    (stack.home / "law.yaml").write_text(yaml.safe_dump(chosen))
    config = ("--config", str(stack.home / "law.yaml"), "storage")
    assert "What the law keeps" not in stack.weir(*config).out
    said = stack.weir(*config, "keep").out
    assert said.count("older than the law keeps them") == 1, said
    assert "dropped nat_events" in said
    assert store.rows("SELECT count() AS n FROM nat_events WHERE probe = 'law'") == [{"n": 2}]
    named = "post_nat_src_addr != '::' OR post_nat_src_port > 0 OR post_nat_dst_addr != '::' OR post_nat_dst_port > 0"
    asked = f"SELECT dateDiff('day', ts, now()) AS days, count() AS n, countIf({named}) AS named FROM flows WHERE probe = 'law'"
    assert store.rows(f"{asked} GROUP BY days ORDER BY days") == [
        {"days": days, "n": 100, "named": 0 if days == 30 else 100} for days in (3, 5, 30)
    ]
    # Other tests' rows may call for a roll-up meanwhile; of the law's, nothing is left.
    again = stack.weir(*config, "keep").out
    assert "the law" not in again
    assert "nat_events" not in again


def test_room_is_made_by_budget_and_by_age(stack: RunningStack, store: ClickHouse) -> None:
    def keep(**settings: object) -> str:
        chosen = yaml.safe_load((stack.home / "weir.yaml").read_text()) | {"storage": settings}
        (stack.home / "tight.yaml").write_text(yaml.safe_dump(chosen))
        done = stack.weir("--config", str(stack.home / "tight.yaml"), "storage", "keep")
        assert done.status == 0, done.err
        return done.out

    hosts = store.rows("SELECT count() AS n, sum(received_octets) AS o FROM hosts_daily")
    assert "dropped" not in keep()
    # With no retention at all, only rows of the last day, and daily ones, stay.
    out = keep(budget="1kB")
    assert "dropped flows " in out
    assert "the budget is spent" in out
    mixes = store.rows("SELECT * FROM mixes_daily ORDER BY ALL")
    assert mixes
    store.execute("TRUNCATE TABLE mixes")  # as when its month is over and its room is needed
    assert store.rows("SELECT count() AS n FROM flows")[0]["n"] == 0
    late = Publisher(stack, "aged")
    late.interval(1000 * START, [flow.record() for flow in conversations_and_a_scan(random.Random(7))], last=True)
    eventually(lambda: store.rows("SELECT count() AS n FROM flows")[0]["n"] == 90, "records again")
    time.sleep(1.1)
    assert "older than its tier is kept" in keep(raw_days=0.00001)
    assert store.rows("SELECT count() AS n FROM flows")[0]["n"] == 0
    # Daily rows are kept, the earlier and the new ones.
    now = store.rows("SELECT sum(received_octets) AS o FROM hosts_daily WHERE probe != 'aged'")
    assert now[0]["o"] == hosts[0]["o"]
    assert store.rows("SELECT count() > 0 AS there FROM talkers_daily")[0]["there"]
    # The windows that the lists of these days were made of are gone: no list is made of the few that came since.
    assert store.rows("SELECT * FROM mixes_daily ORDER BY ALL") == mixes
