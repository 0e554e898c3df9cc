"""Rounds of retention in the store alone that records, errors, kills and wrong clocks meet at the worst moment: nothing that
was accepted is lost, and a list that is kept for ever is written before its source goes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any
from unittest import mock

import pytest
from rich.console import Console

from harness import Killed, LoneStore, before_each_statement, emptied, eventually, keep, once
from hourly_truth import DAY_S, EVENING, NOW, flows
from weir import forget
from weir.clickhouse import ClickHouse, connect
from weir.errors import WeirError
from weir.stages import Stages
from weir.storage import hours
from weir.storage.rollup import TALKERS, roll_up

pytestmark = pytest.mark.long

ONLY_STORE = True
LATE = 5000
#: No raw records are kept.
DROPPING: dict[str, object] = {"raw_days": 0.00001}


@pytest.fixture
def store(stack: LoneStore, monkeypatch: pytest.MonkeyPatch) -> ClickHouse:
    """The store without rows; the service takes what arrived just now."""
    monkeypatch.setattr(hours, "_IN_FLIGHT_S", 0)
    return emptied(stack)


def day(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def windows(at: int) -> str:
    """An INSERT of ten windows of a mix."""
    return (
        "INSERT INTO mixes (ts, window_s, scope, dimension, direction, rank, version, octets, packets, flows)"
        f" SELECT {at} + 300 * number, 300, 'all', 'total', 'in', 1, 1, 1000, 1, 1 FROM numbers(10)"
    )


def counted(store: ClickHouse) -> list[int]:
    """Records in the hourly rows, in either order, and as many as the daily rows of their source make."""
    sums = ("sum(h.records) AS n FROM flows_hourly", "sum(h.records) AS n FROM flows_hourly_by_destination")
    hosts = "intDiv(sum(sent_octets), 100) AS n FROM hosts_daily"
    return [int(store.rows(f"SELECT {one} AS h")[0]["n"]) for one in (*sums, hosts)]


def refusing(*parts: str) -> Callable[[str], None]:
    """The store refuses statements that hold all of these."""

    def refuse(sql: str) -> None:
        if all(part in sql for part in parts):
            raise WeirError("MEMORY_LIMIT_EXCEEDED", status=1)

    return refuse


def kill() -> None:
    raise Killed


@pytest.mark.parametrize(
    "when", ["before the drop", "before it, and merged", "after a kill before it", "after a kill behind it"]
)
def test_records_that_come_while_their_day_is_dropped_are_counted(
    stack: LoneStore, store: ClickHouse, when: str
) -> None:
    store.execute(flows(EVENING, 100))

    def late() -> None:
        store.execute(flows(EVENING, 7, LATE))
        if when == "before it, and merged":
            store.execute("OPTIMIZE TABLE flows FINAL")

    drop = "ALTER TABLE flows DROP PART"
    moment = once("INSERT INTO hours", kill, drop) if when == "after a kill behind it" else once(drop, late)
    with before_each_statement(once(drop, kill) if when == "after a kill before it" else moment):
        try:
            keep(stack, store, NOW + DAY_S, **DROPPING)
        except Killed:
            late()
    for after in (400, 4000):
        list(hours.roll_up(store, NOW + DAY_S + after))
    assert counted(store) == [107] * 3
    assert hours.changed(store) == []
    keep(stack, store, NOW + 2 * DAY_S, **DROPPING)
    assert store.rows("SELECT count() AS n FROM flows") == [{"n": 0}]
    assert counted(store) == [107] * 3


def test_records_that_are_being_inserted_when_their_day_is_looked_at_are_counted(
    stack: LoneStore, store: ClickHouse
) -> None:
    """The engine merges them with the others before it drops these."""
    store.execute(flows(EVENING, 100))
    slow = flows(EVENING, 7, LATE).replace(" + number, 443", " + number + sleepEachRow(0.5), 443")
    running = "SELECT count() AS n FROM system.processes WHERE query LIKE 'INSERT INTO flows (%sleepEachRow%'"
    thread = threading.Thread(
        target=connect(stack.stack, "admin").execute, args=(slow,), kwargs={"max_block_size": "1"}
    )

    def merge() -> None:
        thread.join()
        store.execute("OPTIMIZE TABLE flows FINAL")

    thread.start()
    eventually(lambda: store.rows(running) == [{"n": 1}], "the records being inserted")
    with before_each_statement(once("ALTER TABLE flows DROP PART", merge)):
        keep(stack, store, NOW + DAY_S, **DROPPING)
    list(hours.roll_up(store, NOW + DAY_S + 4000))
    assert counted(store) == [107] * 3
    keep(stack, store, NOW + 2 * DAY_S, **DROPPING)
    assert store.rows("SELECT count() AS n FROM flows") == [{"n": 0}]
    assert counted(store) == [107] * 3


@pytest.mark.parametrize("case", ["late records", "a backlog of hours"])
def test_a_day_that_is_dropped_while_its_hours_wait_has_its_lists(
    stack: LoneStore, store: ClickHouse, case: str
) -> None:
    old = EVENING - 20 * DAY_S
    if case == "late records":
        store.execute(flows(old, 30))
        keep(stack, store, time.time() + 400, raw_days=30)
    store.execute(flows(old, 30, LATE, "10.0.0.2"))
    keep(stack, store, time.time() + 5, **DROPPING)
    assert store.rows("SELECT count() AS n FROM flows") == [{"n": 0}]
    said = keep(stack, store, time.time() + 4000)
    assert any("talkers_daily" in line for line in said)
    for table in ("talkers_daily", "national_talkers_daily"):
        sums = f"SELECT intDiv(sum(sent_octets), 100) AS n FROM {table} WHERE day = '{day(old)}'"
        assert store.rows(sums) == [{"n": counted(store)[2]}], table
    assert keep(stack, store, time.time() + 4000) == [], "written once"


@pytest.mark.parametrize("table", ["talkers_daily", "mixes_daily"])
def test_a_list_that_cannot_be_written_holds_up_no_other(stack: LoneStore, store: ClickHouse, table: str) -> None:
    """Nor do its windows go before it is written."""
    first, second = EVENING - DAY_S, EVENING
    for at in (first, second):
        store.execute(flows(at, 10))
        store.execute(windows(at))
    written = f"SELECT DISTINCT toString(day) AS day FROM {table} ORDER BY day"
    with before_each_statement(refusing(f"INSERT INTO {table}", day(first))):
        for after in (400, 60 * DAY_S):
            with pytest.raises(WeirError, match=rf"lists of {day(first)} .* MEMORY_LIMIT_EXCEEDED"):
                keep(stack, store, time.time() + after, window_days=20)
            assert store.rows(written) == [{"day": day(second)}]
    keep(stack, store, time.time() + 61 * DAY_S, window_days=20)
    assert store.rows(written) == [{"day": day(at)} for at in (first, second)]
    assert store.rows("SELECT count() AS n FROM mixes") == [{"n": 0}]


def test_a_day_that_the_store_does_not_drop_holds_up_no_other(stack: LoneStore, store: ClickHouse) -> None:
    for at in (EVENING - DAY_S, EVENING):
        store.execute(flows(at, 50))
    failed: dict[int, WeirError] = {}
    refused = f"DROP PART '{day(EVENING - DAY_S).replace('-', '')}"
    with before_each_statement(refusing(refused)):
        with pytest.raises(WeirError, match="MEMORY_LIMIT_EXCEEDED"):
            keep(stack, store, NOW + DAY_S, **DROPPING)
        assert store.rows("SELECT DISTINCT toUnixTimestamp(toStartOfHour(ts)) AS h FROM flows") == [
            {"h": EVENING - DAY_S}
        ]
        store.execute(flows(EVENING + 3600, 20))
        list(hours.roll_up(store, time.time() + 4000, failed=failed))
        assert list(failed) == [EVENING - DAY_S], "named as one that fails"
    assert counted(store) == [120] * 3
    list(hours.roll_up(store, time.time() + 4000, failed=failed))
    assert failed == {}
    assert store.rows("SELECT count() AS n FROM flows") == [{"n": 20}]


def test_a_list_is_not_added_to_by_a_statement_that_a_killed_process_left(stack: LoneStore, store: ClickHouse) -> None:
    store.execute(flows(EVENING, 10))
    left = f"INSERT INTO talkers_daily (day, probe, rank) SELECT '{day(EVENING)}', 'a', number + sleepEachRow(0.5) FROM numbers(30)"

    def leave() -> None:
        with suppress(WeirError):
            connect(stack.stack, "admin").execute(left, max_block_size="1")

    thread = threading.Thread(target=leave)
    thread.start()
    running = "SELECT count() AS n FROM system.processes WHERE query LIKE 'INSERT INTO talkers_daily (day%'"
    eventually(lambda: store.rows(running) == [{"n": 1}], "the statement running")
    assert any("talkers_daily" in line for line in keep(stack, store, NOW + DAY_S))
    assert store.rows(running) == [{"n": 0}]
    thread.join()
    assert store.rows("SELECT count() AS n, uniqExact(rank) AS ranks FROM talkers_daily") == [{"n": 2, "ranks": 2}]


@pytest.mark.parametrize("table", ["talkers_daily", "national_talkers_daily"])
def test_the_list_of_a_day_with_a_million_hosts_needs_no_room_for_all(
    store: ClickHouse, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """Such are days of a flood from random addresses."""
    store.execute(
        "INSERT INTO hosts_daily (day, probe, addr, sent_octets, sent_packets, flows_begun) SELECT"
        f" '{day(EVENING)}', 'a', toIPv6(IPv4NumToString(toUInt32(4000 * number))), number, 1, 1 FROM numbers(1000000)"
    )
    execute = ClickHouse.execute

    def bounded(self: ClickHouse, sql: str, **settings: Any) -> str:
        bound = {"max_memory_usage": "500000000"} if f"INSERT INTO {table} " in sql else {}
        return execute(self, sql, **settings, **bound)

    monkeypatch.setattr(ClickHouse, "execute", bounded)
    (rows,) = [rows for _, name, rows in roll_up(store, date.fromisoformat(day(EVENING))) if name == table]
    assert TALKERS < rows <= TALKERS + 2 * (TALKERS // 10) + 1
    sums = f"SELECT sum(hosts) AS hosts, sum(sent_octets) AS octets, max(rank) AS last FROM {table}"
    assert store.rows(sums) == [{"hosts": 1_000_000, "octets": 499_999_500_000, "last": rows - 1}]


def test_hourly_rows_stay_while_a_block_for_them_cannot_be_written(stack: LoneStore, store: ClickHouse) -> None:
    """Their day's raw records stay, too: the daily rows are made of them."""
    old = EVENING - 20 * DAY_S
    store.execute(flows(old, 200))
    keep(stack, store, time.time() + 400, raw_days=400)
    store.execute(flows(old, 7, LATE))
    with before_each_statement(refusing("INSERT INTO flows_hourly ")), pytest.raises(WeirError):
        keep(stack, store, time.time() + 5000, raw_days=400, budget="1B")
    for after in (9000, 15000):
        keep(stack, store, time.time() + after, raw_days=400)
    assert counted(store)[2] == 207
    keep(stack, store, time.time() + 16000, **DROPPING)
    assert store.rows("SELECT count() AS n FROM flows") == [{"n": 0}]
    assert counted(store)[2] == 207


def test_a_clock_of_1970_makes_nothing_old(stack: LoneStore, store: ClickHouse) -> None:
    store.execute(flows(EVENING - 60 * DAY_S, 10))
    for now in (NOW + 400, 1000.0, NOW + 800):
        with mock.patch.object(time, "time", return_value=now), suppress(WeirError):
            keep(stack, store, None)
    keep(stack, store, NOW + 2 * DAY_S)
    assert store.rows("SELECT count() AS n FROM flows") == [{"n": 10}]


def test_hourly_rows_that_were_not_dropped_take_late_records(stack: LoneStore, store: ClickHouse) -> None:
    """The service is killed between its note that they go and their drop; then they may stay."""
    store.execute(flows(EVENING - 20 * DAY_S, 100))
    keep(stack, store, time.time() + 400, raw_days=400)
    with before_each_statement(once("ALTER TABLE flows_hourly DROP", kill)), suppress(Killed):
        keep(stack, store, time.time() + 400, raw_days=400, hourly_days=0.00001)
    assert [one.state for one in hours.noted(store)] == ["closed"]
    store.execute(flows(EVENING - 20 * DAY_S, 7, LATE))
    keep(stack, store, time.time() + 5000, raw_days=400)
    assert counted(store) == [107] * 3


def test_what_a_clock_stamped_that_was_ahead_is_rolled_up_and_ages(stack: LoneStore, store: ClickHouse) -> None:
    store.execute(flows(EVENING, 100))
    ahead = 10 * 365 * DAY_S
    store.execute(
        f"ALTER TABLE arrivals UPDATE first = first + {ahead}, last = last + {ahead} WHERE true", mutations_sync="2"
    )
    store.execute(
        f"INSERT INTO partitions_seen VALUES ('flows', '{day(EVENING).replace('-', '')}', {int(NOW) + ahead})"
    )
    keep(stack, store, time.time() + 400)
    assert counted(store) == [100] * 3
    keep(stack, store, NOW + 13 * DAY_S)
    assert store.rows("SELECT count() AS n FROM flows") == [{"n": 100}]
    keep(stack, store, NOW + 15 * DAY_S)
    assert store.rows("SELECT count() AS n FROM flows") == [{"n": 0}]


def test_a_clock_that_leapt_ahead_makes_nothing_old(stack: LoneStore, store: ClickHouse) -> None:
    """Neither a wrong clock nor, for a day, one that is right after the store was off for long."""
    store.execute(flows(EVENING, 10))

    def round_at(now: float) -> list[str]:
        with mock.patch.object(time, "time", return_value=now):
            return keep(stack, store, None)

    round_at(NOW + 400)
    later = NOW + 40 * DAY_S
    for wrong in (NOW + 4 * 365 * DAY_S, later, later + DAY_S - 60):
        with pytest.raises(WeirError, match="days ahead of the last round"):
            round_at(wrong)
        assert store.rows("SELECT count() AS n FROM flows") == [{"n": 10}]
        if wrong > later + DAY_S:
            round_at(NOW + 800)  # set right
    assert any("dropped flows " in line for line in round_at(later + DAY_S + 60))


def test_a_block_that_is_written_between_search_and_removal_is_no_error(store: ClickHouse) -> None:
    """The service writes on while the operator is asked: the rows of the block are in another table by then."""
    store.execute(flows(EVENING, 50))
    with before_each_statement(once("INSERT INTO flows_hourly", kill)), suppress(Killed):
        list(hours.roll_up(store, all_now=True))
    wanted = forget.network("10.0.0.1")
    with Stages(Console(quiet=True)) as stages:
        found = forget.search(store, wanted, stages)
        assert any("hours_staged" in one.table for one in found)
        list(hours.roll_up(store, all_now=True))
        with pytest.raises(WeirError, match="still named in"):
            forget.forget(store, wanted, stages, found)
        forget.forget(store, wanted, stages, forget.search(store, wanted, stages))
        assert forget.search(store, wanted, stages) == []


def test_the_range_of_a_removal_that_was_killed_is_dropped(stack: LoneStore, store: ClickHouse) -> None:
    store.execute(flows(EVENING, 5))
    with (
        before_each_statement(once("DROP DATABASE IF EXISTS weir_forget_", kill)),
        suppress(Killed),
        Stages(Console(quiet=True)) as stages,
    ):
        forget.search(store, forget.network("10.0.0.1"), stages)
    assert "weir_forget_" in store.execute("SHOW DATABASES")
    keep(stack, store, NOW)
    assert "weir_forget_" not in store.execute("SHOW DATABASES")
