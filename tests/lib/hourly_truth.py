"""Records of flows that several probes saw, and the sums that hourly and daily rows should have of them, from the records
alone.
"""

from __future__ import annotations

import ipaddress
import json
import random
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from harness import RunningStack, emptied
from weir.clickhouse import ClickHouse

DAY_S = 86_400
NOW = time.time()
#: The last hours of a day, two days ago.
EVENING = int(NOW) // DAY_S * DAY_S - 2 * DAY_S - 2 * 3600


def with_probes(stack: RunningStack) -> ClickHouse:
    """The store without rows but for the probes, with all rights."""
    store = emptied(stack)
    store.execute(
        "INSERT INTO probes (probe, rank, one_way) VALUES ('b', 100, false), ('a', 100, false), ('first', 5, false), ('half', 1, true), ('other half', 2, true)"
    )
    store.execute("SYSTEM RELOAD DICTIONARY probe_places")
    return store


def flows(begin: int, count: int, application: int = 0, source: str = "10.0.0.1") -> str:
    """An INSERT of records of one probe, ten seconds apart."""
    return (
        "INSERT INTO flows (ts, probe, src_addr, dst_addr, src_port, dst_port, protocol, ip_version, fwd_packets, fwd_octets,"
        f" application_id) SELECT {begin} + 10 * number, 'a', '::ffff:{source}', '::ffff:203.0.113.1', {2000 + application} + number,"
        f" 443, 6, 4, 1, 100, {application} FROM numbers({count})"
    )


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
        _add(sums["ports of probes"], (day, one.probe, one.protocol, one.dst_port), _port(both))
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
            _add(sums["ports"], (day, one.protocol, one.dst_port), _port(both))
            for addr, is_network, of in ends:
                _add(sums["hosts"], (day, addr, is_network), list(map(int, of)))
    return sums


def _port(both: list[int]) -> list[int]:
    """Packets, octets and flows of a port."""
    _, flows, fwd_packets, fwd_octets, rev_packets, rev_octets = both
    return [fwd_packets + rev_packets, fwd_octets + rev_octets, flows]


def held(store: ClickHouse, table: str = "flows_hourly") -> dict[str, Sums]:
    """The same sums, from the tables. Rows whose sums are all 0 are left out."""
    sums = "sum(h.records), sum(h.flows), sum(fwd_packets), sum(fwd_octets), sum(rev_packets), sum(rev_octets)"
    of_hosts = "sum(sent_octets), sum(h.received_octets), sum(flows_begun), sum(flows_received)"
    of_ports = "protocol, port, sum(p.packets), sum(p.octets), sum(p.flows) FROM ports_daily AS p"
    hour, host = "toUnixTimestamp(ts)", "toString(day), {} weir_addr(addr), network"
    asked = {
        "hours of probes": (4, f"{hour}, probe, weir_addr(src_addr), weir_addr(dst_addr), {sums} FROM {table} AS h"),
        "hours": (3, f"{hour}, weir_addr(src_addr), weir_addr(dst_addr), {sums} FROM {table} AS h WHERE NOT duplicate"),
        "customers": (2, f"{hour}, src_customer, {sums} FROM {table} AS h WHERE NOT duplicate"),
        "hosts of probes": (4, f"{host.format('probe,')}, {of_hosts} FROM hosts_daily AS h"),
        "hosts": (3, f"{host.format('')}, {of_hosts} FROM hosts_daily AS h WHERE NOT duplicate"),
        "ports of probes": (4, f"toString(day), probe, {of_ports}"),
        "ports": (3, f"toString(day), {of_ports} WHERE NOT duplicate"),
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
    # The view on the raw records agrees, figure by figure, except where it leaves out a direction.
    view = store.rows(
        "SELECT probe, sum(o.fwd_octets) AS n FROM v_observations AS o WHERE canonical AND probe NOT LIKE '%half' GROUP BY probe ORDER BY probe"
    )
    rows = store.rows(
        "SELECT probe, sum(h.fwd_octets) AS n FROM flows_hourly AS h WHERE NOT duplicate AND probe NOT LIKE '%half' GROUP BY probe ORDER BY probe"
    )
    assert [row for row in rows if row["n"]] == view
