"""The stored rows of each window equal plain SQL over the raw rows, in every row and column.

Each data set passes through a whole stack; then the store computes the expected rows itself (see `windows_sql`). The
jobs write rows some time after the records arrive, so the test repeats the comparison until there is no difference or
the time runs out.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

import connection_logs
import windows_sql
from harness import RunningStack, eventually
from weir import kafka
from weir import stack as stacks
from weir.clickhouse import ClickHouse
from weir.maxmind import address_file
from window_traffic import COUNTRIES, INTERVAL_MS, SYSTEMS, TCP, Publisher, Seen, Way, day, flood, traffic

WINDOW = 30

# A mixture: scans and malware, and ordinary traffic, part of which two probes see. Times are those of the captures.
SCANS = {
    "synscan": "ndpi/synscan.pcap",
    "tcp-scan": "ndpi/tcp_scan.pcapng",
    "slips-malicious": "slips/test7-malicious.pcap",
    "slips-control": "slips/test-cc-capture-2.pcap",
    "slips-icmp-scan": "slips/test12-icmp-portscan.pcap",
}
ORDINARY = {
    "echo": "zeek/echo-connections.pcap.gz",
    "echo-again": "zeek/echo-connections.pcap.gz",
    "icmp-errors": "zeek/icmp-destunreach-udp.pcap",
    "dns": "ndpi/dnscrypt-v1-and-resolver-pings.pcap",
    "kxun": "ndpi/1-1kxun.pcap",
    "vpn": "ndpi/anyconnect-vpn.pcap",
    "bittorrent": "ndpi/bittorrent.pcap",
    "ssh": "zeek/ssh.pcap",
}
BEFORE_TODAY = 1_780_000_000


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack with known autonomous systems and countries."""
    folder = tmp_path_factory.mktemp("addresses")
    systems = address_file(folder / "systems.mmdb", SYSTEMS, "Places of a test")
    countries = address_file(folder / "countries.mmdb", COUNTRIES, "Places of a test")
    with RunningStack(as_database=str(systems), country_database=str(countries), national_delay="5s") as running:
        yield running


def equal(stack: RunningStack, store: ClickHouse, first: int, last: int, seconds: float = 120) -> None:
    """Wait until every published record is stored, and the jobs' rows of that time equal plain SQL."""
    eventually(lambda: kafka.lag(stack.stack.brokers) == 0, "everything in Kafka read", seconds)
    end, before = time.monotonic() + seconds, None
    while True:
        # A comparison costs more than the jobs' rows did: it waits until no more of them arrive.
        while (now := windows_sql.rows_stored(store)) != before:
            before = now
            time.sleep(3)
        if not (found := windows_sql.differences(store, first, last)):
            break
        assert time.monotonic() < end, f"{len(found)} differences from plain SQL:\n" + "\n".join(found[:20])
        time.sleep(3)
    for name in windows_sql.tables():
        assert windows_sql.expected(store, name), f"there is nothing in {name}"


def past(hours: int) -> int:
    """The start of a mix this many seconds ago: other tests use other windows."""
    return (int(time.time()) - 3600 * hours) // 300 * 300


@pytest.fixture(scope="module")
def starts(stack: RunningStack) -> dict[str, int]:
    """Start times of the day and the flood, both published: the tests wait for them together."""
    return {"day": day(stack, random.Random(4)), "flood": flood(stack, random.Random(5))}


def test_a_day_that_several_probes_saw(stack: RunningStack, store: ClickHouse, starts: dict[str, int]) -> None:
    start = starts["day"]
    equal(stack, store, start, start + 86_400)
    joined = f"SELECT count() FROM {windows_sql.DATABASE}.others WHERE other_fwd.2 > 0 OR other_rev.2 > 0"
    assert windows_sql.count(store, joined), "no flow of which two probes saw one direction each"
    # The view marks the same observations in the stored records.
    octets, by = "sum(fwd_octets + rev_octets) AS octets", "GROUP BY w, probe ORDER BY w, probe"
    chosen = store.rows(f"SELECT w, probe, {octets} FROM {windows_sql.DATABASE}.observed WHERE probe = best {by}")
    marked = (
        f"SELECT toUnixTimestamp(window_start) AS w, probe, {octets} FROM v_observations WHERE canonical "
        f"AND record_kind = 'flow' AND window_start >= {start} AND window_start < {start + 86_400} {by}"
    )
    eventually(lambda: store.rows(marked) == chosen, "the same observations marked as counted", 90)
    said = store.rows(
        f"SELECT DISTINCT probes_reported, probes_expected FROM v_indicators WHERE scope = 'probe' AND ts >= {start} "
        f"AND ts < {start + 86_400}"
    )
    assert said == [{"probes_reported": 1, "probes_expected": 1}]


def test_a_flood(stack: RunningStack, store: ClickHouse, starts: dict[str, int]) -> None:
    start = starts["flood"]
    equal(stack, store, start, start + 300)
    of = f"ts >= {start} AND ts < {start + 300} AND probe = 'flood-edge'"
    assert store.rows(f"SELECT max(rank) AS most FROM v_port_report WHERE {of}") == [{"most": 1000}]
    sketched = f"SELECT count() FROM v_top_indicators WHERE {of} AND list = 'scan_addresses_tcp' AND value_error > 0"
    assert windows_sql.count(store, sketched), "no scanner whose destinations a sketch tells"


@pytest.fixture(scope="module")
def captures(stack: RunningStack, shared: Path) -> None:
    """The mixture of captures, published."""
    for probe, capture in (SCANS | ORDINARY).items():
        stack.enrol(probe)
        stack.read(probe, shared / "pcaps" / capture, words=("--keep-time", "--interval", "5s"))


@pytest.mark.long
@pytest.mark.usefixtures("captures")
def test_captures(stack: RunningStack, store: ClickHouse) -> None:
    equal(stack, store, 0, BEFORE_TODAY)
    show(store, "synscan", "tcp-scan", "slips-malicious", "slips-control", "slips-icmp-scan", "echo", "vpn", "ssh")


def show(store: ClickHouse, *probes: str) -> None:
    """Print the values of hosts, probe by probe: `pytest -s`."""
    for probe in probes:
        of = f"probe = '{probe}' AND scope = 'probe'"
        print(f"\n{probe}\n  window, host, SYNs, work weight, addresses, ports, flags, signature")
        for row in store.rows(
            "SELECT ts, host, syn_sent, work_weight, l3d, l4d, flags, port_signature FROM v_port_report "
            f"WHERE {of} ORDER BY ts, rank LIMIT 12"
        ):
            print("  " + "  ".join(map(str, row.values())))
        for row in store.rows(
            "SELECT list, host, max(value) AS value FROM v_top_indicators "
            f"WHERE {of} AND startsWith(toString(list), 'scan') AND rank <= 2 GROUP BY list, host ORDER BY list, value DESC"
        ):
            print("  " + "  ".join(map(str, row.values())))


@pytest.mark.long
@pytest.mark.usefixtures("captures")
@pytest.mark.parametrize(
    ("probe", "host", "least", "ports"),
    [
        # One host by ports, many hosts by addresses: values in lists.
        ("synscan", "172.16.0.8", {"syn_senders": 1_900, "scan_ports_tcp": 900}, {53, 143, 443}),
        (
            "slips-malicious",
            "192.168.2.16",
            {"syn_senders": 130, "scan_addresses_tcp": 40, "scan_failures": 20},
            {23, 8080},
        ),
    ],
)
def test_a_scanner_is_named(
    stack: RunningStack, store: ClickHouse, probe: str, host: str, least: dict[str, int], ports: set[int]
) -> None:
    """In the port report, with flags and signature, and first in its lists."""
    of = f"probe = '{probe}' AND scope = 'probe' AND host = '{host}'"
    reported = eventually(
        lambda: store.rows(f"SELECT * FROM v_port_report WHERE {of} ORDER BY syn_sent DESC LIMIT 1"),
        "the scanner's row",
    )[0]
    assert "W" in reported["flags"]
    assert reported["work_weight"] >= 90
    assert ports <= {int(port.split(":")[0]) for port in reported["port_signature"].split(",")}
    listed = {
        row["list"]: row
        for row in store.rows(f"SELECT list, value, rank FROM v_top_indicators WHERE {of} AND ts = '{reported['ts']}'")
    }
    for name, value in least.items():
        assert listed[name]["rank"] == 1
        assert listed[name]["value"] >= value


@pytest.mark.long
def test_labelled_scans_are_named(stack: RunningStack, store: ClickHouse, shared: Path) -> None:
    """A scan of many hosts, of many ports, and a slow one, from logs labelled so."""
    folder, start = shared / "labels/slips", past(7)
    scans = {
        "horizontal": (connection_logs.zeek(folder / "port-scans/horizontal/conn.log"), "10.0.2.112"),
        "vertical": (connection_logs.zeek(folder / "port-scans/vertical/conn.log"), "192.168.1.9"),
        "ports-and-pings": (connection_logs.argus(folder / "test11-portscan.binetflow"), "10.8.0.69"),
    }
    last = max(
        connection_logs.publish(Publisher(stack, name), connections, start * 1000)
        for name, (connections, _) in scans.items()
    )
    equal(stack, store, start, last // 1000 + 300)
    show(store, *scans)
    found = {
        (row["probe"], row["list"]): row["host"]
        for row in store.rows(
            "SELECT probe, toString(list) AS list, argMax(host, value) AS host FROM v_top_indicators "
            f"WHERE scope = 'probe' AND probe IN {tuple(scans)} GROUP BY probe, list"
        )
    }
    # Many hosts, most of which answer; closed ports of one host; unanswered ports, each tried again, and pings.
    for name, lists, flag in (
        ("horizontal", ("scan_addresses_tcp",), ""),
        ("vertical", ("scan_ports_tcp", "syn_senders"), "R"),
        ("ports-and-pings", ("scan_ports_tcp", "scan_addresses_icmp", "scan_failures"), "O"),
    ):
        host = scans[name][1]
        for list_name in lists:
            assert found.get((name, list_name)) == host, f"{host} does not lead {list_name} of {name}"
        of = f"scope = 'probe' AND probe = '{name}' AND host = '{host}'"
        reported = store.rows(f"SELECT flags, port_signature FROM v_port_report WHERE {of}")
        assert reported, f"{host} is not in the port report of {name}"
        assert flag in reported[0]["flags"]
        assert reported[0]["port_signature"]


@pytest.mark.long
@pytest.mark.usefixtures("captures")
def test_ordinary_hosts_are_not_flagged(store: ClickHouse) -> None:
    judged = "SELECT DISTINCT probe FROM v_indicators WHERE scope = 'probe' AND probe IN ('echo', 'ssh') ORDER BY probe"
    eventually(lambda: store.rows(judged) == [{"probe": "echo"}, {"probe": "ssh"}], "their windows", 120)
    assert not store.rows(
        "SELECT probe, host, flags FROM v_port_report WHERE probe IN ('echo', 'ssh') AND flags LIKE '%W%'"
    )


def test_late_data_makes_a_new_version(stack: RunningStack, store: ClickHouse) -> None:
    """Data that arrives after a window was written: answers to SYNs, one of which the next window has judged."""
    start = past(5)
    probe = Publisher(stack, "late")
    host, early, tardy = "10.1.0.1", "192.0.2.1", "192.0.2.2"

    def contact(peer: str, first_ms: int = 0, **back: int) -> Any:
        forward = Way() if back else Way(1, 40, syn=1)
        return Seen(
            host, peer, 1024, 80, TCP, forward, Way(1, 40, **back) if back else Way(), first_ms=first_ms
        ).record()

    def failures(window: int) -> list[dict[str, Any]]:
        return store.rows(
            "SELECT host, value, version FROM v_top_indicators WHERE probe = 'late' AND list = 'scan_failures' "
            f"AND ts = {window}"
        )

    def versions(window: int) -> set[int]:
        return {
            store.rows(f"SELECT max(version) AS v FROM {table} WHERE probe = 'late' AND ts = {window}")[0]["v"]
            for table in ("v_top_flows", "v_top_talkers", "v_port_report", "v_indicators")
        }

    for tick in range(6):
        records = {0: [contact(early)], 2: [contact(tardy, first_ms=5_000)]}.get(tick, [])
        other = Seen("10.1.0.2", "192.0.2.3", 1025, 443, TCP, Way(9, 900), Way(9, 9_000), guess=True).record()
        probe.interval(1000 * start + tick * INTERVAL_MS, [*records, other])
    equal(stack, store, start, start + 60)
    assert [row["host"] for window in (0, 30) for row in failures(start + window)] == [host, host]
    assert versions(start) == {1}
    probe.interval(1000 * start, [contact(early, synack=1)], close=False)
    probe.interval(1000 * start + 2 * INTERVAL_MS, [contact(tardy, first_ms=6_000, synack=1)], close=False)
    equal(stack, store, start, start + 60)
    assert not failures(start)
    assert not failures(start + 30)
    assert min(versions(start)) > 1


def committed(stack: RunningStack, topic: str) -> int:
    """The jobs' place in partition 0 of a topic, as of their last checkpoint; negative if they have none."""
    consumer = Consumer(stack.stack.brokers.client({"group.id": kafka.GROUP}))
    try:
        return int(consumer.committed([TopicPartition(topic, 0)], timeout=10)[0].offset)
    finally:
        consumer.close()


def test_a_restart_in_mid_window(stack: RunningStack, store: ClickHouse) -> None:
    """kill -9 while a window is partly in state and partly in transit; a probe that never sent anything is removed."""
    start, chance = past(6), random.Random(6)
    # Both workers of the second probe see packets of the same flows.
    probes = [
        Publisher(stack, "restart-a"),
        *(Publisher(stack, "restart-b", "--rank", "1", worker=worker, workers=2) for worker in range(2)),
    ]
    for tick in range(6):
        flows = traffic(chance)
        for probe in probes:
            seen = [one for one in flows if chance.random() < 0.8]
            probe.interval(1000 * start + tick * INTERVAL_MS, [one.record() for one in seen], last=tick == 5)
        if tick == 1:
            eventually(lambda: kafka.lag(stack.stack.brokers) == 0, "half a window in a checkpoint")
            stack.enrol("restart-gone")
            eventually(lambda: committed(stack, "weir.flows.restart-gone") == 0, "its place in a checkpoint")
        if tick == 3:
            stacks.retire(stack.stack, "restart-gone")
            stack.kill("flink")
    equal(stack, store, start, start + 60)
