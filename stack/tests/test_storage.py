"""The partitions that are dropped first when the store is too full, and the forecast."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from weir.config import Stack, octets
from weir.storage.clock import leap_s, trust
from weir.storage.forecast import full_day, law_first, show_octets, sizes
from weir.storage.partitions import Disk, Partition, budget, due, due_columns, shortage, span
from weir.storage.times import DAY_S

NOW = int(datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp())
DAYS = {"agent_alerts": 90.0, "raw": 14.0, "windows": 400.0, "hourly": 1100.0}


def _partition(table: str, name: str, size: int = 100, written: int = 0, changed: int = 0) -> Partition:
    begin, end = span(name)
    return Partition(table, name, begin, end, written or end, changed or written or end, 10, size)


def _partitions(**names: list[str]) -> list[Partition]:
    """Partitions of 100 octets each, by table and names."""
    return [_partition(table, name) for table in names for name in names[table]]


@pytest.mark.parametrize(
    ("name", "begin", "end"),
    [
        ("202612", "2026-12-01", "2027-01-01"),
        ("20261231", "2026-12-31", "2027-01-01"),
        ("2026-11-16", "2026-11-16", "2026-11-23"),
    ],
)
def test_partitions_tell_their_time(name: str, begin: str, end: str) -> None:
    assert [datetime.fromtimestamp(moment, UTC).date().isoformat() for moment in span(name)] == [begin, end]


def test_a_table_without_partitions_has_no_time() -> None:
    assert span("tuple()") == (0, 0)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("500GB", 500 * 10**9),
        ("2TiB", 2 * 2**40),
        ("1.5 MB", 1_500_000),
        ("7", 7),
        ("1kB", 1000),
        ("1 parsec", None),
        ("", None),
    ],
)
def test_sizes_are_read(text: str, count: int | None) -> None:
    if count is None:
        with pytest.raises(ValueError, match="not a size"):
            octets(text)
    else:
        assert octets(text) == count


def test_sizes_are_shown() -> None:
    assert [show_octets(count) for count in (0, 999, 1_500, 2_000_000, 3e15)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "2.0 MB",
        "3,000.0 TB",
    ]


def test_what_is_too_old_goes_and_daily_rows_stay() -> None:
    found = _partitions(
        hosts_daily=["199812"], flows_hourly=["2020-11-16"], flows=["20261101", "20261110"], mixes=["202510", "202511"]
    )
    gone = due(found, DAYS, 10**9, NOW)
    assert [(one.partition.table, one.partition.name, one.why) for one in gone] == [
        ("flows_hourly", "2020-11-16", "age"),
        ("flows", "20261101", "age"),
    ]


def test_an_old_capture_that_was_read_today_stays() -> None:
    found = [_partition("flows", "19980602", written=NOW - 3600)]
    assert due(found, DAYS, 10**9, NOW) == []
    assert due(found, DAYS, 10**9, NOW + 15 * DAY_S)[0].why == "age"


def test_what_was_rewritten_is_as_old_as_before() -> None:
    """Records older than their tier's retention, in a part that a removal or merge has just rewritten."""
    found = [
        _partition("flows", "20261101", changed=NOW),
        _partition("flows", "19980602", written=NOW - 15 * DAY_S, changed=NOW),
        _partition("flows", "20990101", written=NOW - 15 * DAY_S, changed=NOW),
        _partition("nat_events", "20990101", written=NOW - 15 * DAY_S, changed=NOW),
    ]
    gone = due(found, DAYS | {"nat": 14.0}, 10**9, NOW)
    assert [(one.partition.table, one.partition.name) for one in gone] == [
        ("flows", "20261101"),
        ("flows", "19980602"),
        ("flows", "20990101"),
        ("nat_events", "20990101"),
    ]


def test_a_partition_of_the_present_is_not_old_whenever_it_was_first_seen() -> None:
    found = [_partition("mixes", "202611", written=NOW - 21 * DAY_S), _partition("mixes", "202611", written=NOW)]
    assert due(found, {"windows": 7.0}, 10**9, NOW) == []


def test_partitions_of_the_future_are_as_old_as_their_first_write() -> None:
    found = [
        _partition("flows", "20990101", 1000, written=NOW - 13 * DAY_S),
        _partition("flows_hourly", "2025-11-17", 100),
        _partition("nat_events", "20990101", 100, written=NOW - 13 * DAY_S),
    ]
    days = DAYS | {"nat": 13.5}
    assert due(found, days, 10**9, NOW) == []
    assert [one.partition.table for one in due(found, days, 300, NOW)] == ["flows"], "not years of hourly rows instead"
    assert [one.partition.table for one in due(found, days, 10**9, NOW + DAY_S)] == ["nat_events"]
    assert len(due(found, days, 10**9, NOW + 2 * DAY_S)) == 2


def test_beyond_the_budget_tiers_lose_what_is_beyond_their_share() -> None:
    found = _partitions(
        hosts_daily=["202401"],
        flows_hourly=["2025-11-17", "2026-11-09"],
        flows_hourly_by_destination=["2025-11-17"],
        flows=["20261114", "20261115", "20261121", "20261122"],
    )

    def gone(budget: int) -> list[tuple[str, str]]:
        return [(one.partition.table, one.partition.name) for one in due(found, DAYS, budget, NOW)]

    assert gone(800) == []
    # Raw records are beyond their half of the budget and go first, although rows of hours are a year older.
    assert gone(750) == [("flows", "20261114")]
    # Both orders of the hourly rows go together.
    hourly = [("flows_hourly", "2025-11-17"), ("flows_hourly_by_destination", "2025-11-17")]
    assert gone(500) == [("flows", "20261114"), ("flows", "20261115"), *hourly]
    # The present, the last day and daily rows stay, whatever the budget.
    left = [one for one in found if one not in [gone.partition for gone in due(found, DAYS, 0, NOW)]]
    assert [(one.table, one.name) for one in left] == [
        ("hosts_daily", "202401"),
        ("flows", "20261121"),
        ("flows", "20261122"),
    ]


def test_raw_records_go_before_the_hourly_rows_of_their_time() -> None:
    found = [
        _partition("flows_hourly", "2026-11-02", 900),
        _partition("flows", "20261107", 100),
        _partition("flows", "20261118", 100),
    ]
    assert [one.partition for one in due(found, DAYS, 1050, NOW)] == [found[1]]
    assert [one.partition for one in due(found, DAYS, 950, NOW)] == [found[1], found[0]]


def test_tables_that_hold_the_same_rows_lose_them_together() -> None:
    """By age, too, although a removal or a restore may have recreated one of them."""
    week = "2020-11-16"
    pair = [
        _partition("flows_hourly", week, written=NOW - 1200 * DAY_S),
        _partition("flows_hourly_by_destination", week, written=NOW - DAY_S),
    ]
    assert due(pair, DAYS, 10**9, NOW) == []
    assert [one.partition.table for one in due(pair, DAYS, 10**9, NOW + 1100 * DAY_S)] == [one.table for one in pair]


def test_copies_of_a_store_take_nothing_from_its_budget() -> None:
    """What a backup's snapshot holds alone is free again when the backup ends."""
    stack = cast(Stack, SimpleNamespace(config=SimpleNamespace(storage=SimpleNamespace(budget=""))))
    before, dropped = Disk(10_000, 400, 0), Disk(10_000, 400, 3_000)
    assert budget(stack, dropped, 6_000) == budget(stack, before, 9_000)
    assert (shortage(before), shortage(dropped)) == (100, 0)


def test_a_clock_that_leapt_ahead_is_believed_after_a_day(tmp_path: Path) -> None:
    file = tmp_path / "clock.json"
    assert leap_s(file, NOW, NOW - 600) == 0
    assert leap_s(file, NOW + DAY_S, None) == 0, "a daily timer"
    wrong = NOW + 1000 * DAY_S
    assert leap_s(file, wrong, None) == 999 * DAY_S
    assert leap_s(file, wrong + 600, None) == 999 * DAY_S
    assert leap_s(file, NOW + DAY_S + 1200, None) == 0, "set right"
    off = NOW + 40 * DAY_S
    assert leap_s(file, off, None) > 38 * DAY_S
    assert leap_s(file, off + DAY_S - 1, None) > 38 * DAY_S
    assert leap_s(file, off + DAY_S, None) == 0
    assert leap_s(file, wrong, None) > 0
    trust(file, wrong)
    assert leap_s(file, wrong + 600, None) == 0
    assert leap_s(file, wrong + 3 * DAY_S, None) > 0, "off for some days"
    assert leap_s(file, wrong + 400 * DAY_S, None) > 399 * DAY_S, "and wrong soon afterwards"
    assert leap_s(file, wrong + 400 * DAY_S + 600, None) > 399 * DAY_S
    file.write_text("")
    assert leap_s(file, NOW, NOW - 3 * DAY_S) == 3 * DAY_S, "what the store noted last"
    file.write_text("")
    assert leap_s(file, NOW, None) == 0, "a new store"


TABLES = ["flows", "mixes", "ledger", "flows_hourly", "hosts_daily", "nat_events", "alerts", "agent_alerts"]
FORMS = {"flows": "%Y%m%d", "agent_alerts": "%Y%m%d", "nat_events": "%Y%m%d", "flows_hourly": "%Y-%m-%d"}


@pytest.mark.parametrize("seed", range(300))
def test_any_budget_and_any_calendar(seed: int) -> None:
    """Rules for any stored data: which partitions may be dropped, in which order, and no more than needed."""
    chance = random.Random(seed)
    found = []
    for table in TABLES:
        oldest = NOW - chance.randrange(2000) * DAY_S
        names = {
            datetime.fromtimestamp(chance.randint(oldest, NOW + 40 * DAY_S), UTC).strftime(FORMS.get(table, "%Y%m"))
            for _ in range(chance.randrange(30))
        }
        size = chance.choice([1, 100, 10_000])
        found += [
            _partition(
                table,
                name,
                chance.randrange(1, 2 * size),
                chance.choice([0, NOW, NOW - 30 * DAY_S]),
                chance.choice([0, NOW]),
            )
            for name in names
        ]
    found.sort(key=lambda one: (one.begin, one.table))
    days = DAYS | {"nat": 180.0}
    budget = chance.randrange(1, 2 * sum(one.octets for one in found) + 2)
    short = chance.choice([0, 0, budget // 10])
    out = due(found, days, budget, NOW, short)
    gone = [one.partition for one in out]
    assert len(set(gone)) == len(gone)
    aged = [one.partition for one in out if one.why == "age"]
    own_age = {one: NOW - (one.end if one.begin <= NOW else one.first_seen) for one in found}
    assert aged == [
        one
        for one in found
        if one.tier in days
        and (own_age[one] if one.law else min(own_age[one], NOW - one.first_seen)) > days[one.tier] * DAY_S
    ]
    left = [one for one in found if one not in aged]
    shares = {"agent_alerts": 1, "raw": 50, "windows": 9, "hourly": 40}
    fixed = sum(one.octets for one in left if one.tier not in shares)
    size = {tier: sum(one.octets for one in left if one.tier == tier) for tier in shares}
    may_go = {tier: [one for one in left if one.tier == tier and own_age[one] > DAY_S] for tier in shares}
    present = {tier: size[tier] - sum(one.octets for one in may_go[tier]) for tier in shares}
    fits = fixed + sum(present.values()) <= budget
    room = budget - fixed if fits else budget
    freed = sum(one.octets for one in aged)
    for one in (each.partition for each in out if each.why == "budget"):
        hours = may_go["hourly"][:1]
        assert one == may_go[one.tier].pop(0), "the oldest of its tier"
        older = own_age[may_go["raw"][0]] if may_go["raw"] else -1
        assert one.tier != "hourly" or older < own_age[one], "raw records go before the hourly rows of their time"
        for_hours = one.tier == "raw" and hours and own_age[one] >= own_age[hours[0]]
        others = [tier for tier in shares if may_go[tier] or tier == one.tier]
        beyond = [tier for tier in others if size[tier] * 100 > shares[tier] * room]
        if fits:
            assert fixed + sum(size.values()) > budget, "no more than needed"
            assert not beyond or one.tier == beyond[0] or (for_hours and beyond[0] == "hourly"), (
                "the first beyond its share"
            )
        elif beyond:
            assert one.tier == beyond[0] or (for_hours and beyond[0] == "hourly"), "the first beyond its share"
        else:
            assert freed < short, "of its share only while the disk runs full"
        size[one.tier] -= one.octets
        freed += one.octets
    if fits:
        assert fixed + sum(size.values()) <= budget, "enough"
    else:
        assert all(size[tier] * 100 <= shares[tier] * budget or not may_go[tier] for tier in shares), (
            "down to its share"
        )
        assert freed >= short or not any(may_go.values()), "enough of the disk"


def test_a_flood_of_alerts_of_agents_takes_no_room_of_records() -> None:
    records = _partitions(flows=["20261114", "20261115"], flows_hourly=["2025-11-17"], alerts=["202511"])
    flood = [_partition("agent_alerts", f"202611{day:02}", 1000) for day in range(1, 21)]
    for found in (records, [*records, *flood]):
        gone = [one.partition for one in due(sorted(found, key=lambda one: one.begin), DAYS, 500, NOW)]
        assert [one for one in gone if one.table != "agent_alerts"] == []
    assert len(gone) == len(flood)


@pytest.mark.parametrize(
    "reason",
    [
        pytest.param([_partition("flows", "20261121", 3000), _partition("flows", "20261122", 3000)], id="one flood"),
        pytest.param([_partition("nat_events", f"202611{day:02}", 400) for day in range(1, 21)], id="the law"),
        pytest.param([_partition("hosts_daily", f"2026{month:02}", 600) for month in range(1, 12)], id="for ever"),
        pytest.param([_partition("mixes", "202611", 6000)], id="the present month"),
    ],
)
def test_tiers_keep_their_shares_where_no_loss_would_make_it_fit(reason: list[Partition]) -> None:
    hours = [_partition("flows_hourly", f"202{year}-0{month}-01", 100) for year in (5, 6) for month in range(1, 10)]
    found = sorted(
        [*hours, *(_partition("flows", f"202611{day}", 500) for day in range(10, 16)), *reason], key=lambda o: o.begin
    )
    days = DAYS | {"nat": 180.0}
    gone = due(found, days, 5000, NOW)
    assert {one.partition.tier for one in gone} <= {"raw"}, "1,800 of hours are less than two fifths"
    raw = sum(one.octets for one in found if one.tier == "raw" and one not in [each.partition for each in gone])
    assert raw <= 2500 or reason[0].table == "flows"
    # Once the disk itself runs full, raw records go before rows of hours, and no more than needed.
    short = sum(one.partition.octets for one in gone) + 450
    assert [one.partition.tier for one in due(found, days, 5000, NOW, short)][len(gone) :] in (["raw"], ["hourly"] * 5)


def test_what_the_law_keeps_has_its_room_first() -> None:
    found = [
        _partition("nat_events", "20260601", 300),
        _partition("nat_events", "20260801", 300),
        *(_partition("flows", f"202611{day}") for day in (15, 16, 21, 22)),
    ]
    days = DAYS | {"nat": 150.0}
    assert [(one.partition.name, one.why) for one in due(found, days, 10**9, NOW)] == [("20260601", "age")]
    # 300 are the law's: of 500 the flows have 200.
    assert [one.partition.name for one in due(found, days, 500, NOW)] == ["20260601", "20261115", "20261116"]
    # The law's own go by their age alone, and the present stays, however small the budget.
    assert [one.partition.name for one in due(found, days, 0, NOW)] == ["20260601", "20261115", "20261116"]


def test_what_the_law_leaves_is_stated() -> None:
    days = DAYS | {"nat": 180.0}
    flows = [_partition("flows", f"202611{day:02}", 1000) for day in range(15, 22)]
    reports = [_partition("nat_events", f"202611{day:02}", 100) for day in range(15, 22)]
    law = law_first(sizes([*flows, *reports], days, NOW), 40_000)
    assert (law.octets, law.left, law.asked, law.short) == (18_000, 22_000, 14_000, False)
    assert law.says(14) == ""
    tight = law_first(sizes([*flows, *reports], days, NOW), 20_000)
    assert (tight.left, tight.short) == (2_000, True)
    assert tight.says(14) == (
        "What the law keeps takes 18.0 kB at today's rate and leaves 2.0 kB of the budget; the other tiers ask for 14.0 kB:"
        " flows are kept for less than 14 days."
    )
    assert not law_first(sizes(flows, days, NOW), 100).short, "no law is the reason"


def test_columns_that_say_what_the_law_keeps_go_at_its_age() -> None:
    held = {
        ("flows", name): {"post_nat_src_addr", "post_nat_dst_port"} for name in ("20261101", "20261120", "20310101")
    }
    found = [
        _partition("flows", "20261101"),
        _partition("flows", "20261102"),  # emptied before
        _partition("flows", "20261120"),
        _partition("flows", "20310101", written=NOW - 20 * DAY_S),  # of a clock that is years ahead
        _partition("flows_hourly", "2026-10-26"),
    ]
    gone = due_columns(found, held, DAYS | {"nat": 10.0}, NOW)
    assert [(one.partition.name, one.columns) for one in gone] == [
        ("20261101", ("post_nat_dst_port", "post_nat_src_addr")),
        ("20310101", ("post_nat_dst_port", "post_nat_src_addr")),
    ]
    assert due_columns(found, held, DAYS, NOW) == []


def test_the_forecast_knows_that_tiers_stop_growing() -> None:
    found = [_partition("flows", f"202611{day:02}", 1000) for day in range(15, 22)]
    tiers = sizes(found, DAYS, NOW)
    raw = tiers[1]
    assert (raw.rows, raw.octets, raw.days) == (70, 7000, 14.0)
    assert raw.octets_per_day == pytest.approx(1000)
    assert full_day(tiers, 9_999, NOW) == date(2026, 11, 25)
    assert full_day(tiers, 20_000, NOW) is None, "14 days of raw records fit"
    daily = sizes([*found, _partition("hosts_daily", "202610", 31_000)], DAYS, NOW)
    assert full_day(daily, 60_000, NOW) is None, "nothing was added to the daily rows this week"


def test_a_month_of_a_young_store_is_as_long_as_the_store() -> None:
    tiers = sizes([_partition("flows", "20261121", 500), _partition("mixes", "202611", 300)], DAYS, NOW)
    assert tiers[2].octets_per_day == pytest.approx(200), "from the 21st to noon of the 22nd"


def test_a_forecast_of_nothing_is_none() -> None:
    assert full_day(sizes([], DAYS, NOW), 1, NOW) is None
