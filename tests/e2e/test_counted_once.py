"""A flow that several probes saw counts once for the nation and for customers at every age, and every packet of every
probe counts for that probe: hourly and daily rows against sums of the raw records, whatever comes late and wherever the
service or the store is killed.
"""

from __future__ import annotations

import ipaddress
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from harness import CHECKOUT, LoneStore, emptied, eventually, keep
from weir.clickhouse import ClickHouse
from weir.errors import WeirError
from weir.schema import hourly
from weir.storage import hours, rollup
from weir.storage.times import iso

ONLY_STORE = True
DAY_S = 86_400
NOW = time.time()
#: The last hours of a day, two days ago.
EVENING = int(NOW) // DAY_S * DAY_S - 2 * DAY_S - 2 * 3600


@pytest.fixture
def store(stack: LoneStore) -> ClickHouse:
    """The store without rows, with all rights."""
    store = emptied(stack)
    store.execute(
        "INSERT INTO probes (probe, rank, one_way) VALUES ('b', 100, false), ('a', 100, false), ('first', 5, false), ('half', 1, true), ('other half', 2, true)"
    )
    store.execute("SYSTEM RELOAD DICTIONARY probe_places")
    return store


@dataclass(frozen=True)
class Record:
    """A raw record, from which hourly rows are made."""

    ts: int
    probe: str
    src_addr: str
    dst_addr: str
    src_port: int
    dst_port: int
    fwd_packets: int
    fwd_octets: int
    rev_packets: int
    rev_octets: int
    fwd_tcp_syn: int
    flow_age_ms: int
    sampling_rate: int
    site_direction: str
    src_customer: int
    record_kind: str = "flow"
    protocol: int = 6
    ip_version: int = 4

    @property
    def begins(self) -> bool:
        return self.record_kind == "flow" and self.flow_age_ms == 0

    @property
    def destination(self) -> tuple[str, bool]:
        """The destination in the hourly row, and whether it is a network."""
        if self.record_kind == "flow" and self.rev_packets == 0 and self.fwd_packets == self.fwd_tcp_syn:
            return str(ipaddress.ip_network(f"{self.dst_addr}/24", strict=False)[0]), True
        return self.dst_addr, False


RANKS = {"first": 5, "half": 1, "other half": 2}
ONE_WAY = ("half", "other half")


def duplicates(records: list[Record]) -> dict[int, tuple[bool, bool]]:
    """Places of the records that count for their probe alone, and for each of their two directions whether it counts
    nevertheless, because no better probe saw it.
    """
    flows = defaultdict(list)
    for at, one in enumerate(records):
        if one.record_kind == "flow":
            ends = frozenset([(one.src_addr, one.src_port), (one.dst_addr, one.dst_port)])
            flows[one.ts // 30, ends, one.protocol].append(at)
    out: dict[int, tuple[bool, bool]] = {}
    for places in flows.values():

        def place(at: int) -> tuple[object, ...]:
            one = records[at]
            outside, into = one.site_direction not in ("out", "internal"), one.site_direction not in ("in", "internal")
            return one.probe in ONE_WAY, max(one.sampling_rate, 1), outside, into, RANKS.get(one.probe, 100), one.probe

        best = records[min(places, key=place)].probe
        others = [at for at in places if records[at].probe != best]
        out |= dict.fromkeys(others, (False, False))
        for sender in {(one.src_addr, one.src_port) for one in (records[at] for at in places)} | {
            (one.dst_addr, one.dst_port) for one in (records[at] for at in places)
        }:

            def sends(at: int, sender: tuple[str, int] = sender) -> bool:
                one = records[at]
                return one.fwd_packets > 0 if sender == (one.src_addr, one.src_port) else one.rev_packets > 0

            seeing = [at for at in others if sends(at)]
            if best in ONE_WAY and seeing and not any(sends(at) for at in places if records[at].probe == best):
                joined = records[min(seeing, key=place)].probe
                for at in (at for at in seeing if records[at].probe == joined):
                    forward = sender == (records[at].src_addr, records[at].src_port)
                    out[at] = (out[at][0] or forward, out[at][1] or not forward)
    return out


Sums = dict[tuple[object, ...], list[int]]


def _add(sums: Sums, key: tuple[object, ...], values: list[int]) -> None:
    sums[key] = [a + b for a, b in zip(sums.get(key, [0] * len(values)), values, strict=True)]


def expected(records: list[Record]) -> dict[str, Sums]:
    """The sums of each age, from the records alone."""
    gone = duplicates(records)
    sums: dict[str, Sums] = defaultdict(dict)
    for at, one in enumerate(records):
        hour, day = one.ts // 3600 * 3600, datetime.fromtimestamp(one.ts, UTC).strftime("%Y-%m-%d")
        destination, network = one.destination
        values = [one.begins, one.fwd_packets, one.fwd_octets, one.rev_packets, one.rev_octets]
        sent, received = (
            [one.fwd_octets, one.rev_octets, one.begins, 0],
            [one.rev_octets, one.fwd_octets, 0, one.begins],
        )
        both = [1, *map(int, values)]
        ends = [(one.src_addr, False, sent), (destination, network, received)]
        _add(sums["hours of probes"], (hour, one.probe, one.src_addr, destination), both)
        for addr, is_network, of in ends:
            _add(sums["hosts of probes"], (day, one.probe, addr, is_network), list(map(int, of)))
        if at in gone:
            forward, reverse = gone[at]
            # Neither a record nor a flow of its own.
            kept = replace(
                one,
                fwd_packets=one.fwd_packets * forward,
                fwd_octets=one.fwd_octets * forward,
                rev_packets=one.rev_packets * reverse,
                rev_octets=one.rev_octets * reverse,
            )
            both = [0, 0, kept.fwd_packets, kept.fwd_octets, kept.rev_packets, kept.rev_octets]
            ends = [
                (one.src_addr, False, [kept.fwd_octets, kept.rev_octets, 0, 0]),
                (destination, network, [kept.rev_octets, kept.fwd_octets, 0, 0]),
            ]
        if at not in gone or any(gone[at]):
            _add(sums["hours"], (hour, one.src_addr, destination), both)
            _add(sums["customers"], (hour, one.src_customer), both)
            for addr, is_network, of in ends:
                _add(sums["hosts"], (day, addr, is_network), list(map(int, of)))
    return sums


def held(store: ClickHouse, table: str = "flows_hourly") -> dict[str, Sums]:
    """The same sums, from the tables. Rows whose sums are all 0 are left out."""
    sums = "sum(h.records), sum(h.flows), sum(fwd_packets), sum(fwd_octets), sum(rev_packets), sum(rev_octets)"
    of_hosts = "sum(sent_octets), sum(h.received_octets), sum(flows_begun), sum(flows_received)"
    hour, host = "toUnixTimestamp(ts)", "toString(day), {} weir_addr(addr), network"
    asked = {
        "hours of probes": (4, f"{hour}, probe, weir_addr(src_addr), weir_addr(dst_addr), {sums} FROM {table} AS h"),
        "hours": (3, f"{hour}, weir_addr(src_addr), weir_addr(dst_addr), {sums} FROM {table} AS h WHERE NOT duplicate"),
        "customers": (2, f"{hour}, src_customer, {sums} FROM {table} AS h WHERE NOT duplicate"),
        "hosts of probes": (4, f"{host.format('probe,')}, {of_hosts} FROM hosts_daily AS h"),
        "hosts": (3, f"{host.format('')}, {of_hosts} FROM hosts_daily AS h WHERE NOT duplicate"),
    }
    out: dict[str, Sums] = {}
    for name, (keys, sql) in asked.items():
        text = store.execute(
            f"SELECT {sql} GROUP BY ALL FORMAT JSONCompactEachRow", output_format_json_quote_64bit_integers="0"
        )
        rows = [json.loads(line) for line in text.splitlines()]
        out[name] = {tuple(row[:keys]): row[keys:] for row in rows if any(row[keys:])}
    return out


def lists(store: ClickHouse) -> dict[str, Sums]:
    """The lists of finished days, as `held` has the hosts."""
    out: dict[str, Sums] = {}
    of = "weir_addr(addr), network, sent_octets, received_octets, flows_begun, flows_received"
    for name, sql, keys in (
        ("hosts of probes", f"toString(day), probe, {of} FROM talkers_daily WHERE rank > 0", 4),
        ("hosts", f"toString(day), {of} FROM national_talkers_daily WHERE rank > 0", 3),
    ):
        text = store.execute(f"SELECT {sql} FORMAT JSONCompactEachRow", output_format_json_quote_64bit_integers="0")
        rows = [json.loads(line) for line in text.splitlines()]
        out[name] = {tuple(row[:keys]): row[keys:] for row in rows if any(row[keys:])}
    return out


def traffic(chance: random.Random, count: int, begin: int, length: int) -> list[Record]:
    """Flows of a few hosts, each seen by one to four probes, from either side, in some of its windows."""
    out = []
    for _ in range(count):
        src, dst = f"10.0.{chance.randrange(2)}.{chance.randrange(6)}", f"203.0.113.{chance.randrange(6)}"
        ports = 1024 + chance.randrange(40), chance.choice([53, 443])
        probes = chance.choice(
            [
                chance.sample(["a", "b", "first", "half", "other half"], chance.choice([1, 1, 2, 2, 3, 4])),
                ["half", "other half"],
            ]
        )
        start = begin + chance.randrange(length) // 10 * 10
        for probe in probes:
            backwards = chance.random() < 0.2
            for tick in range(chance.choice([1, 1, 2, 5])):
                scan = chance.random() < 0.2
                fwd, rev = chance.randrange(1, 9), 0 if scan else chance.randrange(1, 9)
                if probe in ONE_WAY and not scan and chance.random() < 0.8:
                    fwd, rev = (fwd, 0) if (probe == "half") != backwards else (0, rev)
                out.append(
                    Record(
                        ts=start + 10 * tick,
                        probe=probe,
                        src_addr=dst if backwards else src,
                        dst_addr=src if backwards else dst,
                        src_port=ports[1] if backwards else ports[0],
                        dst_port=ports[0] if backwards else ports[1],
                        fwd_packets=fwd,
                        fwd_octets=100 * fwd,
                        rev_packets=rev,
                        rev_octets=70 * rev,
                        fwd_tcp_syn=fwd if scan else 0,
                        flow_age_ms=chance.choice([0, 5000]),
                        sampling_rate=chance.choice([0, 1, 1, 100]),
                        site_direction=chance.choice(["out", "in", "internal", "transit"]),
                        src_customer=int(src[5]),
                        record_kind=chance.choices(["flow", "overflow"], [20, 1])[0],
                    )
                )
    return out


def insert(store: ClickHouse, records: list[Record]) -> None:
    """Store records as one block."""
    if not records:
        return
    names = list(asdict(records[0]))
    values = []
    for one in records:
        row = asdict(one) | {name: f"::ffff:{getattr(one, name)}" for name in ("src_addr", "dst_addr")}
        values.append("(" + ", ".join(repr(row[name]) for name in names) + ")")
    store.execute(f"INSERT INTO flows ({', '.join(names)}) VALUES {', '.join(values)}", insert_deduplicate="0")


def check(store: ClickHouse, records: list[Record]) -> None:
    """All tables have the sums of all records."""
    wanted = expected(records)
    for table in ("flows_hourly", "flows_hourly_by_destination"):
        found = held(store, table)
        for name, sums in wanted.items():
            assert found[name] == sums, (table, name)
    listed = lists(store)
    if listed["hosts"]:
        for name, sums in listed.items():
            assert sums == {key: row for key, row in wanted[name].items() if any(row)}, name
    # The view on the raw records agrees, figure by figure, where it does not leave out a direction.
    view = store.rows(
        "SELECT probe, sum(o.fwd_octets) AS n FROM v_observations AS o WHERE canonical AND probe NOT LIKE '%half' GROUP BY probe ORDER BY probe"
    )
    rows = store.rows(
        "SELECT probe, sum(h.fwd_octets) AS n FROM flows_hourly AS h WHERE NOT duplicate AND probe NOT LIKE '%half' GROUP BY probe ORDER BY probe"
    )
    assert [row for row in rows if row["n"]] == view


class Killed(BaseException):
    """The service's end at a statement."""


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


@pytest.mark.parametrize("seed", range(6))
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
    for table in ("flows_hourly", "flows_hourly_by_destination", "hosts_daily"):
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


def _flows(begin: int, count: int, application: int = 0) -> str:
    """An INSERT of records of one probe, ten seconds apart."""
    return (
        "INSERT INTO flows (ts, probe, src_addr, dst_addr, src_port, dst_port, protocol, ip_version, fwd_packets, fwd_octets,"
        f" application_id) SELECT {begin} + 10 * number, 'a', '::ffff:10.0.0.1', '::ffff:203.0.113.1', {2000 + application} + number,"
        f" 443, 6, 4, 1, 100, {application} FROM numbers({count})"
    )


def _stored(store: ClickHouse) -> int:
    return int(store.rows("SELECT sum(h.records) AS n FROM flows_hourly AS h")[0]["n"])


def test_a_late_record_erases_no_rows_whose_raw_records_somebody_dropped(store: ClickHouse) -> None:
    """A time to live of the table, or an operator."""
    store.execute(_flows(EVENING, 100))
    list(hours.roll_up(store, all_now=True))
    store.execute(f"ALTER TABLE flows DROP PARTITION {datetime.fromtimestamp(EVENING, UTC):%Y%m%d}")
    for late in (1, 2):
        store.execute(_flows(EVENING, 1, application=late))
        list(hours.roll_up(store, all_now=True))
        assert _stored(store) == 100 + late
    assert not hours.changed(store)


def test_the_clock_of_the_store_may_be_set_back(store: ClickHouse) -> None:
    """The notes of an hour hold in the order in which they were made."""
    for part in range(3):
        store.execute(_flows(EVENING + part * 300, 30))
        list(hours.roll_up(store, EVENING + part * 300 + 480))
        columns = "hour, until, records, generation, state, token, noted_at + INTERVAL 1 HOUR"
        store.execute(f"INSERT INTO hours SELECT {columns} FROM (SELECT * FROM hours FINAL) AS h")
    list(hours.roll_up(store, all_now=True))
    assert (_stored(store), hours.changed(store)) == (90, [])


def test_a_sum_by_application_is_right_before_rows_are_merged(store: ClickHouse) -> None:
    """Records that change the application of an hourly row."""
    store.execute("SYSTEM STOP MERGES flows_hourly")
    store.execute(_flows(EVENING, 5))
    list(hours.roll_up(store, all_now=True))
    store.execute(_flows(EVENING, 5, application=91))
    list(hours.roll_up(store, all_now=True))
    most = store.rows(
        "SELECT max(octets) AS n, sum(octets) AS s FROM (SELECT application, sum(octets) AS octets FROM v_hourly GROUP BY application)"
    )
    store.execute("SYSTEM START MERGES flows_hourly")
    assert (int(most[0]["n"]), int(most[0]["s"])) == (1000, 1000)


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
        noted = "INSERT INTO hours" in sql or "DROP PARTITION" in sql
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
        store.execute(_flows(EVENING, 30))  # late
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
    store.execute(_flows(EVENING, 180))
    store.execute(_flows(EVENING + 7200, 7))
    assert hours.arrears(store, now) == (1800, 7)
    list(hours.roll_up(store, EVENING + 600))
    assert hours.arrears(store, now) == (1800 - 480, 7)
    list(hours.roll_up(store, now))
    assert hours.arrears(store, now) == (120, 7)
    store.execute(_flows(EVENING - 7200, 3))
    list(hours.roll_up(store, now))
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
    store.execute(_flows(EVENING, 100))
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
        store.execute(_flows(EVENING, 1, application=late))
    keep(stack, store, NOW + DAY_S, raw_days=0.00001)
    assert _stored(store) == 100
    for late in (3, 4):
        store.execute(_flows(EVENING, 1, application=late))
        list(hours.roll_up(store, all_now=True))
        assert _stored(store) == 100 + late - 2


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
    quick = f"from weir.storage import hours, service; hours._DELAY_S = hours._SETTLED_S = 0; service._HOURS_EVERY_S = 1; {further}"
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
    fails = "made = hours.hourly.rows; hours.hourly.rows = lambda begin, *a, **k: 'SELECT no_such_column' if begin == %d else made(begin, *a, **k)"
    with serving(stack, fails % EVENING) as log:
        for at in (1, 2):
            store.execute(_flows(EVENING - at * 3600, 10))

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
