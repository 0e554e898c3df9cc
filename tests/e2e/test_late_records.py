"""Late records correct an hour from themselves and the flows that they belong to; where that is not certain, the service
reads the whole hour again. Both give the same rows.
"""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from harness import SEEDS, LoneStore
from hourly_truth import EVENING, Record, check, expected, held, insert, traffic, with_probes
from weir.clickhouse import ClickHouse
from weir.schema import hourly
from weir.storage import hours

ONLY_STORE = True


@pytest.fixture
def store(stack: LoneStore, monkeypatch: pytest.MonkeyPatch) -> ClickHouse:
    """The store without rows; the service takes what arrived just now."""
    monkeypatch.setattr(hours, "_IN_FLIGHT_S", 0)
    return with_probes(stack)


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Hours of which the service read all records."""
    seen: list[int] = []
    correct = hours._correct

    def noted(admin: ClickHouse, then: hours.Hour) -> None:
        seen.append(then.hour)
        correct(admin, then)

    monkeypatch.setattr(hours, "_correct", noted)
    return seen


def by_label(store: ClickHouse) -> list[dict[str, Any]]:
    """What is left of an hour's rows by each of their labels; nothing may be below 0."""
    sums = ", ".join(f"toInt64(sum(h.{name})) AS {name}" for name in hourly.SUMS)
    same = ", ".join(hourly.SAME)
    return store.rows(
        f"SELECT * FROM (SELECT {same}, {sums} FROM flows_hourly AS h GROUP BY {same}, {', '.join(hourly.KEY)})"
        f" WHERE {' OR '.join(f'{name} < 0' for name in hourly.SUMS)}"
    )


@pytest.mark.parametrize(("seed", "part"), [(2, 30), (0, 1_000_000), (1, 1_000_000)][:SEEDS])
def test_late_records_alone_give_the_rows_of_the_whole_hour(
    store: ClickHouse, whole: list[int], monkeypatch: pytest.MonkeyPatch, seed: int, part: int
) -> None:
    """Blocks in any order, each of an hour that is rolled up already."""
    store.execute("SYSTEM STOP MERGES flows_hourly")
    monkeypatch.setattr(hours, "PART", part)
    chance = random.Random(seed)
    records = traffic(chance, 50, EVENING + 3000, 240)
    chance.shuffle(records)
    stored: list[Record] = []
    while len(stored) < len(records):
        block = records[len(stored) : len(stored) + chance.choice([1, 20, 60])]
        insert(store, block)
        stored += block
        list(hours.roll_up(store, time.time() + 4000))
        assert held(store)["hours"] == expected(stored)["hours"]
        assert by_label(store) == []
    check(store, records)
    store.execute("SYSTEM START MERGES flows_hourly")
    store.execute("OPTIMIZE TABLE flows_hourly FINAL")
    check(store, records)
    assert whole == [], "no round needed the whole hour"


def test_a_late_record_reads_only_its_own_flow(stack: LoneStore, store: ClickHouse, whole: list[int]) -> None:
    """Not the other records of its hour, however many."""
    many = 400_000
    columns = "ts, probe, src_addr, dst_addr, src_port, dst_port, protocol, ip_version, fwd_packets, fwd_octets"
    store.execute(
        f"INSERT INTO flows ({columns}) SELECT {EVENING} + number % 360 * 10, 'a', toIPv6(concat('::ffff:10.1.', toString(number % 200), '.1')),"
        f" toIPv6(concat('::ffff:203.0.', toString(number % 211), '.1')), 2000 + number % 7919, 443, 6, 4, 1, 100 FROM numbers({many})"
    )
    store.execute("OPTIMIZE TABLE flows FINAL")
    list(hours.roll_up(store, all_now=True))
    store.execute(
        f"INSERT INTO flows ({columns}) VALUES ({EVENING + 600}, 'first', '::ffff:10.1.0.1', '::ffff:203.0.60.1', 9999, 443, 6, 4, 1, 100)"
    )
    execute = ClickHouse.execute

    def commented(self: ClickHouse, sql: str, **settings: str) -> str:
        return execute(self, sql, **{"log_comment": "one-late", "log_queries": "1", **settings})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClickHouse, "execute", commented)
        assert list(hours.roll_up(store, time.time() + 4000))
    store.execute("SYSTEM FLUSH LOGS")
    read = "SELECT sum(read_rows) AS n FROM system.query_log WHERE type = 'QueryFinish' AND position(log_comment, 'one-late') > 0"
    assert 0 < store.rows(read)[0]["n"] < many / 8
    assert whole == []
    assert store.rows("SELECT sum(h.records) AS n FROM flows_hourly AS h") == [{"n": many + 1}]


@pytest.mark.parametrize("cause", ["unmarked", "ranks", "one way", "removed", "earlier version", "clock"])
def test_where_late_records_are_not_certain_the_whole_hour_is_read(
    store: ClickHouse, whole: list[int], cause: str
) -> None:
    """Records that the store stamped as in time and showed late; other ranks of probes; records that somebody removed before
    they were written; rows of a version without the note; a clock that was set back."""
    chance = random.Random(11)
    records = [one for one in traffic(chance, 80, EVENING, 3500) if one.ts < EVENING + 3600]
    chance.shuffle(records)
    first, late = records[:250], records[250:]
    insert(store, first)
    list(hours.roll_up(store, all_now=True))
    if cause in ("ranks", "one way"):
        # The last of the probes so far.
        values = "1, false" if cause == "ranks" else "100, true"
        store.execute(f"INSERT INTO probes (probe, rank, one_way) VALUES ('b', {values})")
        store.execute("SYSTEM RELOAD DICTIONARY probe_places")
    if cause == "earlier version":
        columns = "hour, until, records, generation, state, token, noted_at + INTERVAL 1 SECOND"
        store.execute(
            f"INSERT INTO hours (hour, until, records, generation, state, token, noted_at) SELECT {columns} FROM (SELECT * FROM hours FINAL) AS h"
        )
    if cause == "clock":
        store.execute(
            "ALTER TABLE hours UPDATE taken = arrayMap(t -> t + 3600000, taken) WHERE true SETTINGS mutations_sync = 2"
        )
    insert(store, late)
    if cause == "unmarked":
        store.execute(
            "ALTER TABLE flows UPDATE late_at = toDateTime64(0, 3, 'UTC') WHERE true SETTINGS mutations_sync = 2"
        )
    if cause == "removed":
        late = late[1:]
        gone = records[250]
        removed = f"ts = {gone.ts} AND probe = '{gone.probe}' AND src_port = {gone.src_port} AND fwd_octets = {gone.fwd_octets} AND dst_addr = '::ffff:{gone.dst_addr}'"
        store.execute(
            f"ALTER TABLE flows DELETE WHERE {removed} AND late_at > '1971-01-01' SETTINGS mutations_sync = 2"
        )
    list(hours.roll_up(store, time.time() + 4000))
    assert whole == [EVENING]
    left = store.rows("SELECT count() AS n FROM flows")[0]["n"]
    assert store.rows("SELECT sum(h.records) AS n FROM flows_hourly AS h") == [{"n": left}]
    if cause in ("unmarked", "earlier version", "clock"):
        check(store, records)
    assert list(hours.roll_up(store, time.time() + 8000)) == []


def test_records_still_in_flight_are_left_to_the_next_correction(
    store: ClickHouse, whole: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store stamps a record before it shows it: the service takes records only some time after their stamp."""
    chance = random.Random(12)
    records = [one for one in traffic(chance, 40, EVENING, 3500) if one.ts < EVENING + 3600]
    insert(store, records[10:])
    list(hours.roll_up(store, all_now=True))
    monkeypatch.setattr(hours, "_IN_FLIGHT_S", 30)
    insert(store, records[:10])
    list(hours.roll_up(store, time.time() + 4000))
    assert held(store)["hours"] == expected(records[10:])["hours"]
    store.execute(
        "ALTER TABLE flows UPDATE late_at = late_at - INTERVAL 40 SECOND WHERE late_at > '1971-01-01' SETTINGS mutations_sync = 2"
    )
    store.execute(
        "ALTER TABLE hours UPDATE taken = arrayMap(t -> t - 40000, taken) WHERE true SETTINGS mutations_sync = 2"
    )
    list(hours.roll_up(store, time.time() + 4000))
    check(store, records)
    assert whole == []
