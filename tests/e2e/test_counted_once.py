"""A flow that several probes saw counts once for the nation and for customers at every age, and every packet of every
probe counts for that probe: hourly and daily rows against sums of the raw records, whatever comes late and wherever the
service or the store is killed.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from harness import CHECKOUT, SEEDS, Killed, LoneStore, eventually, keep
from hourly_truth import (
    DAY_S,
    EVENING,
    NOW,
    Record,
    check,
    duplicates,
    expected,
    flows,
    held,
    insert,
    traffic,
    with_probes,
)
from weir.clickhouse import ClickHouse
from weir.errors import WeirError
from weir.schema import hourly
from weir.storage import hours, rollup
from weir.storage.times import iso

ONLY_STORE = True


@pytest.fixture
def store(stack: LoneStore, monkeypatch: pytest.MonkeyPatch) -> ClickHouse:
    """The store without rows; the service takes what arrived just now."""
    monkeypatch.setattr(hours, "_IN_FLIGHT_S", 0)
    return with_probes(stack)


def killing(patch: pytest.MonkeyPatch, chance: random.Random) -> None:
    """Let one of the next statements of the service be its last: before it, or after it and before its answer."""
    left, after = chance.randrange(1, 16), chance.random() < 0.5
    execute = ClickHouse.execute

    def cut(self: ClickHouse, sql: str, **settings: object) -> str:
        nonlocal left
        left -= 1
        if left or not after:
            if not left:
                raise Killed
            return execute(self, sql, **settings)  # type: ignore[arg-type]
        execute(self, sql, **settings)  # type: ignore[arg-type]
        raise Killed

    patch.setattr(ClickHouse, "execute", cut)


@pytest.mark.parametrize("seed", range(min(6, SEEDS)))
def test_every_age_counts_each_flow_once(store: ClickHouse, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Blocks of several probes, in any order, rounds between them, kills within the rounds."""
    chance = random.Random(seed)
    monkeypatch.setattr(hours, "PART", chance.choice([60, 1_000_000]))
    late = traffic(chance, 40, EVENING, 4 * 3600)
    present = traffic(chance, 20, int(NOW) // 3600 * 3600 - 1800, 3600)
    records = late + present
    if chance.random() < 0.7:
        chance.shuffle(records)
    else:
        records.sort(key=lambda one: (one.probe, one.ts))  # one probe after another
    stored: list[Record] = []
    while len(stored) < len(records):
        block = records[len(stored) : len(stored) + chance.randrange(10, 90)]
        insert(store, block)
        stored += block
        for _ in range(chance.randrange(2)):
            with monkeypatch.context() as patch:
                if chance.random() < 0.5:
                    killing(patch, chance)
                try:
                    if chance.random() < 0.3:
                        list(rollup.roll_up(store))
                    else:
                        list(
                            hours.roll_up(
                                store, time.time() + chance.choice([0, 0, 400, 4000]), all_now=chance.random() < 0.2
                            )
                        )
                except Killed:
                    pass
        if chance.random() < 0.3:
            store.execute("OPTIMIZE TABLE flows_hourly FINAL")
    end = max(NOW, max(one.ts for one in records)) + 2 * DAY_S
    list(hours.roll_up(store, end))
    list(rollup.roll_up(store, now=end))
    assert hours.changed(store) == []
    check(store, records)
    for table in ("flows_hourly", "flows_hourly_by_destination", "hosts_daily", "ports_daily"):
        store.execute(f"OPTIMIZE TABLE {table} FINAL")
    check(store, records)
    insert(store, [])
    assert list(hours.roll_up(store, end, all_now=True)) == [], "nothing more came"


def test_records_that_come_after_their_day_went_are_added(stack: LoneStore, store: ClickHouse) -> None:
    """Retention drops the raw records of a day; records of that day that come later get hourly rows, too, and earlier
    rows stay."""
    chance = random.Random(1)
    records = traffic(chance, 30, EVENING, 3600)
    later = traffic(chance, 20, EVENING, 3600)
    insert(store, records)
    keep(stack, store, NOW + DAY_S, raw_days=0.00001)
    assert store.rows("SELECT count() AS n FROM flows")[0]["n"] == 0, "rolled up first, then dropped"
    once = totals([*records])
    assert sums_by_probe(store) == once
    for at in (0, len(later) // 2):
        insert(store, later[at : at + (len(later) + 1) // 2])
        list(hours.roll_up(store, all_now=True))
    both = totals(records, later)
    assert sums_by_probe(store) == both
    store.execute("OPTIMIZE TABLE flows_hourly FINAL")
    insert(store, later[:1])
    list(hours.roll_up(store, all_now=True))
    keep(stack, store, NOW + DAY_S, raw_days=0.00001)
    assert sums_by_probe(store) == totals(records, [*later, later[0]])


def _stored(store: ClickHouse) -> int:
    return int(store.rows("SELECT sum(h.records) AS n FROM flows_hourly AS h")[0]["n"])


def test_a_late_record_erases_no_rows_whose_raw_records_somebody_dropped(store: ClickHouse) -> None:
    """A time to live of the table, or an operator."""
    store.execute(flows(EVENING, 100))
    list(hours.roll_up(store, all_now=True))
    store.execute(f"ALTER TABLE flows DROP PARTITION {datetime.fromtimestamp(EVENING, UTC):%Y%m%d}")
    for late in (1, 2):
        store.execute(flows(EVENING, 1, application=late))
        list(hours.roll_up(store, all_now=True))
        assert _stored(store) == 100 + late
    assert not hours.changed(store)


def test_the_clock_of_the_store_may_be_set_back(store: ClickHouse) -> None:
    """The notes of an hour hold in the order in which they were made."""
    for part in range(3):
        store.execute(flows(EVENING + part * 300, 30))
        list(hours.roll_up(store, EVENING + part * 300 + 480))
        later = "* REPLACE (noted_at + INTERVAL 1 HOUR AS noted_at)"
        store.execute(f"INSERT INTO hours SELECT {later} FROM (SELECT * FROM hours FINAL) AS h")
    list(hours.roll_up(store, all_now=True))
    assert (_stored(store), hours.changed(store)) == (90, [])


def test_a_sum_by_application_is_right_before_rows_are_merged(store: ClickHouse) -> None:
    """Records that change the application of an hourly row."""
    store.execute("SYSTEM STOP MERGES flows_hourly")
    store.execute(flows(EVENING, 5))
    list(hours.roll_up(store, all_now=True))
    store.execute(flows(EVENING, 5, application=91))
    list(hours.roll_up(store, all_now=True))
    sums = store.rows("SELECT toInt64(sum(fwd_octets)) AS n FROM flows_hourly GROUP BY application_id ORDER BY n")
    store.execute("SYSTEM START MERGES flows_hourly")
    assert sum(row["n"] for row in sums) == 1000
    assert sums[0]["n"] >= 0


def test_a_day_that_cannot_be_rolled_up_is_not_dropped(
    stack: LoneStore, store: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = traffic(random.Random(2), 10, EVENING, 3600)
    insert(store, records)
    with monkeypatch.context() as patch:
        patch.setattr(hourly, "rows", lambda *_, **__: "SELECT no_such_column")
        with pytest.raises(WeirError, match="no_such_column"):
            keep(stack, store, NOW + DAY_S, raw_days=0.00001)
    assert store.rows("SELECT count() AS n FROM flows")[0]["n"] == len(records)
    keep(stack, store, NOW + DAY_S, raw_days=0.00001)
    assert store.rows("SELECT count() AS n FROM flows")[0]["n"] == 0
    assert sums_by_probe(store) == totals(records)


@pytest.mark.parametrize("statements", [1, 2, 3])
def test_a_drop_that_broke_off_is_finished(
    stack: LoneStore, store: ClickHouse, monkeypatch: pytest.MonkeyPatch, statements: int
) -> None:
    records = traffic(random.Random(3), 10, EVENING, 3600)
    insert(store, records)
    list(hours.roll_up(store, all_now=True))
    execute = ClickHouse.execute

    def cut(self: ClickHouse, sql: str, **settings: object) -> str:
        nonlocal statements
        noted = "INSERT INTO hours" in sql or "DROP PART" in sql
        statements -= noted
        if noted and not statements:
            raise Killed
        return execute(self, sql, **settings)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(ClickHouse, "execute", cut)
        with pytest.raises(Killed):
            keep(stack, store, NOW + DAY_S, raw_days=0.00001)
    list(hours.roll_up(store, all_now=True))
    keep(stack, store, NOW + DAY_S, raw_days=0.00001)
    assert store.rows("SELECT count() AS n FROM flows")[0]["n"] == 0
    assert sums_by_probe(store) == totals(records)


def test_hourly_rows_that_went_do_not_come_back(stack: LoneStore, store: ClickHouse) -> None:
    """Hourly rows are kept for less long than raw ones: late records do not bring the others back, nor count hosts twice."""
    records = traffic(random.Random(4), 10, EVENING - 20 * DAY_S, 3600)
    insert(store, records)
    keep(stack, store, NOW + DAY_S, raw_days=400)
    hosts = store.rows("SELECT sum(sent_octets) AS n FROM hosts_daily")
    keep(stack, store, NOW + 2 * DAY_S, raw_days=400, hourly_days=0.00001)
    assert store.rows("SELECT count() AS n FROM flows_hourly")[0]["n"] == 0
    insert(store, records[:3])
    assert list(hours.roll_up(store, all_now=True)) == []
    assert store.rows("SELECT sum(sent_octets) AS n FROM hosts_daily") == hosts
    # When the raw records are gone, too, what comes is new.
    keep(stack, store, NOW + 2 * DAY_S, raw_days=0.00001)
    insert(store, records[:3])
    list(hours.roll_up(store, all_now=True))
    assert store.rows("SELECT sum(h.records) AS n FROM flows_hourly AS h") == [{"n": 3}]


def refusing(patch: pytest.MonkeyPatch, begins: str, hour: int) -> None:
    """Let the store refuse the service's statements on an hour that begin with these words."""
    execute = ClickHouse.execute

    def refuse(self: ClickHouse, sql: str, **settings: object) -> str:
        of_hour = f"hours_staged_{hour}" in sql
        if of_hour and sql.startswith(begins):
            raise WeirError("ClickHouse: no such luck", status=1)
        return execute(self, sql, **settings)  # type: ignore[arg-type]

    patch.setattr(ClickHouse, "execute", refuse)


@pytest.mark.parametrize("begins", ["CREATE TABLE", "INSERT INTO hours_staged", "INSERT INTO flows_hourly"])
def test_an_hour_that_fails_holds_up_no_other(
    stack: LoneStore, store: ClickHouse, monkeypatch: pytest.MonkeyPatch, begins: str
) -> None:
    """The newest of three, which is written first."""
    records = traffic(random.Random(7), 60, EVENING - 3600, 3 * 3600 - 600)
    insert(store, records)
    failed: dict[int, WeirError] = {}
    with monkeypatch.context() as patch:
        refusing(patch, begins, EVENING + 3600)
        for _ in range(2):
            list(hours.roll_up(store, time.time() + 4000, failed=failed))
            assert list(failed) == [EVENING + 3600]
            assert hours.arrears(store, NOW)[0] == NOW - EVENING - 3600
        others = [one for one in records if one.ts < EVENING + 3600]
        assert held(store)["hours"] == expected(others)["hours"]
        with pytest.raises(hours.HoursFailed, match="no such luck"):
            list(hours.roll_up(store, all_now=True))
        with pytest.raises(hours.HoursFailed):
            keep(stack, store, NOW + DAY_S, raw_days=0.00001)
        assert store.rows("SELECT count() AS n FROM flows")[0]["n"] == len(records), "the day stays"
        store.execute(flows(EVENING, 30))  # late
        list(hours.roll_up(store, time.time() + 4000, failed=failed))
        assert list(failed) == [EVENING + 3600]
        assert _stored(store) == len(others) + 30
    list(hours.roll_up(store, failed=failed, all_now=True))
    assert failed == {}
    assert hours.arrears(store, NOW) == (0, 0)
    assert _stored(store) == len(records) + 30
    assert "hours_staged" not in store.execute("SHOW TABLES")


def test_arrears_are_those_of_the_oldest_interval(store: ClickHouse) -> None:
    """Parts of a backlog that are written do not make the rest look new, and records of the future make nothing look old."""
    assert hours.arrears(store, NOW) == (0, 0)
    now = EVENING + 1800
    store.execute(flows(EVENING, 180))
    store.execute(flows(EVENING + 7200, 7))
    assert hours.arrears(store, now) == (1800, 7)
    list(hours.roll_up(store, EVENING + 600))
    assert hours.arrears(store, now) == (1800 - 480, 7)
    list(hours.roll_up(store, now))
    assert hours.arrears(store, now) == (120, 7)
    store.execute(flows(EVENING - 7200, 3))
    list(hours.roll_up(store, time.time()))
    assert hours.arrears(store, now) == (9000, 7), "it waits for more of them"
    list(hours.roll_up(store, time.time() + 4000, all_now=True))
    assert hours.arrears(store, now) == (0, 0)


@pytest.mark.parametrize(("slow", "fast"), [("a", "b"), ("b", "a")])
def test_intervals_of_different_lengths_count_a_flow_once(store: ClickHouse, slow: str, fast: str) -> None:
    """30 and 10 seconds, as agents have them; `a` counts, as the first by name."""
    for probe, length in ((slow, 30), (fast, 10)):
        store.execute(
            "INSERT INTO flows (ts, interval_ms, probe, src_addr, dst_addr, src_port, dst_port, protocol, ip_version, fwd_packets,"
            f" fwd_octets, rev_packets) SELECT {EVENING + 600} + {length} * number, {length} * 1000, '{probe}', '::ffff:10.0.0.1',"
            f" '::ffff:203.0.113.1', 2000, 443, 6, 4, {length}, 100 * {length}, 1 FROM numbers({120 // length})"
        )
    list(hours.roll_up(store, all_now=True))
    sums = store.rows(
        "SELECT probe, duplicate, sum(fwd_octets) AS n FROM flows_hourly GROUP BY probe, duplicate ORDER BY probe"
    )
    assert [(row["probe"], row["duplicate"], row["n"]) for row in sums] == [("a", False, 12_000), ("b", True, 12_000)]


def test_hours_of_an_earlier_version_without_their_raw_records_are_closed(stack: LoneStore, store: ClickHouse) -> None:
    """They stay as they are while raw records are there; what comes after these were dropped is added."""
    store.execute(flows(EVENING, 100))
    list(hours.roll_up(store, all_now=True))
    # An upgrade finds the hourly rows of 100 records, and 40 of these.
    store.execute("ALTER TABLE flows DELETE WHERE src_port < 2060", mutations_sync="2")
    store.execute("TRUNCATE TABLE hours SYNC")
    store.execute("TRUNCATE TABLE arrivals SYNC")
    store.execute(
        "INSERT INTO arrivals SELECT toStartOfMinute(f.ts) AS ts, count(), now('UTC'), now('UTC') FROM flows AS f GROUP BY ts"
    )
    for late in (1, 2):
        list(hours.roll_up(store, all_now=True))
        assert [one.state for one in hours.noted(store)] == ["closed"]
        assert (_stored(store), hours.changed(store)) == (100, [])
        store.execute(flows(EVENING, 1, application=late))
    keep(stack, store, NOW + DAY_S, raw_days=0.00001)
    assert _stored(store) == 100
    for late in (3, 4):
        store.execute(flows(EVENING, 1, application=late))
        list(hours.roll_up(store, all_now=True))
        assert _stored(store) == 100 + late - 2


@pytest.mark.long
def test_the_store_is_killed_while_rows_are_written(stack: LoneStore, store: ClickHouse) -> None:
    chance = random.Random(5)
    records = traffic(chance, 400, EVENING, 4 * 3600)
    cut = 0
    for at in range(0, len(records), 200):
        insert(store, records[at : at + 200])
        wait = chance.uniform(0, 1.5)

        def kill(wait: float = wait) -> None:
            time.sleep(wait)
            stack.kill_store()

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            list(hours.roll_up(store, all_now=True))
        except WeirError:
            cut += 1
        killer.join()
        store = stack.begin()
    assert cut, "no kill met the service at work"
    list(rollup.roll_up(store))
    check(store, records)


def totals(*generations: list[Record]) -> dict[str, list[int]]:
    """Octets by probe, all and those that count; a record counts by comparison with the records of its generation
    alone."""
    out: dict[str, list[int]] = {}
    for records in generations:
        gone = duplicates(records)
        for at, one in enumerate(records):
            octets = one.fwd_octets + one.rev_octets
            forward, reverse = gone.get(at, (True, True))
            before = out.get(one.probe, [0, 0])
            counted = one.fwd_octets * forward + one.rev_octets * reverse
            out[one.probe] = [before[0] + octets, before[1] + counted]
    return out


def sums_by_probe(store: ClickHouse) -> dict[str, list[int]]:
    """The same sums from the hourly rows, and from the hosts, whose rows have every octet twice."""
    rows = store.rows(
        "SELECT probe, sum(fwd_octets + rev_octets) AS n, sumIf(fwd_octets + rev_octets, NOT duplicate) AS counted"
        " FROM flows_hourly GROUP BY probe"
    )
    hosts = store.rows(
        "SELECT probe, sum(sent_octets + received_octets) AS n, sumIf(sent_octets + received_octets, NOT duplicate) AS counted"
        " FROM hosts_daily GROUP BY probe"
    )
    by_probe = {row["probe"]: [row["n"], row["counted"]] for row in rows}
    assert {row["probe"]: [row["n"] // 2, row["counted"] // 2] for row in hosts} == by_probe
    return by_probe


def test_the_service_writes_hours_between_its_rounds(stack: LoneStore, store: ClickHouse) -> None:
    """The service's first round begins at once, the next after ten minutes; records come in between."""
    with serving(stack):
        eventually(lambda: b"behind_seconds 0" in metrics(stack), "its first round")
        hour = int(time.time()) // 3600 * 3600
        records = traffic(random.Random(6), 10, hour - 3600, 1800)
        present = [replace(one, ts=int(time.time()) // 60 * 60 - 60) for one in records]
        insert(store, present)
        eventually(
            lambda: store.rows("SELECT sum(h.records) AS n FROM flows_hourly AS h")[0]["n"] == len(present), "rows"
        )


@contextmanager
def serving(stack: LoneStore, further: str = "") -> Iterator[Path]:
    """The service with a round every second that waits for nothing; yields its log."""
    quick = f"from weir.storage import hours, service; hours._DELAY_S = hours._SETTLED_S = hours._IN_FLIGHT_S = 0; service._HOURS_EVERY_S = 1; {further}"
    serve = f"{quick}\nfrom weir.commands import configured; service.serve(configured(), 10)"
    path = stack.home / "logs/serving.log"
    with path.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", serve], env=os.environ | stack.environment, cwd=CHECKOUT / "stack", stdout=log
        )
    try:
        yield path
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_the_service_names_an_hour_that_fails_once(stack: LoneStore, store: ClickHouse) -> None:
    insert(store, traffic(random.Random(8), 10, EVENING, 3600))
    fails = "made = hours.hourly.rows; hours.hourly.rows = lambda raw, *a, **k: 'SELECT no_such_column' if '>= toDateTime(%d' in raw.where else made(raw, *a, **k)"
    with serving(stack, fails % EVENING) as log:
        for at in (1, 2):
            store.execute(flows(EVENING - at * 3600, 10))

            def written(records: int = 10 * at) -> bool:
                return _stored(store) == records

            eventually(written, "an older hour")
        assert b"weir_storage_failing_hours 1" in metrics(stack)
        (line,) = [line for line in log.read_text().splitlines() if "no_such_column" in line]
        assert str(iso(EVENING)) in line


def metrics(stack: LoneStore) -> bytes:
    """The metrics of the service `storage`; empty if it does not answer."""
    with suppress(httpx.HTTPError):
        return httpx.get(f"http://127.0.0.1:{stack.stack.config.ports.storage_metrics}/metrics").content
    return b""
