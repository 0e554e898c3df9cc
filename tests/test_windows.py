"""What the jobs store of each window equals plain SQL over the raw rows, in every row and column.

Each data set comes through a whole stack; then the store works everything out itself (see `windows_sql`). Rows are
written a while after they came, so the question is asked until there is no difference or time is up.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from weir import kafka
from weir.clickhouse import ClickHouse, connect

import windows_sql
from harness import RunningStack, eventually
from window_traffic import COUNTRIES, INTERVAL_MS, SYSTEMS, TCP, Publisher, Seen, Way, address_file, day, flood, traffic

WINDOW = 30

# A mixture: scans and malware, and ordinary traffic of which one is seen by two probes. Times are those of the captures.
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
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack with known autonomous systems and countries."""
    folder = tmp_path_factory.mktemp("addresses")
    files = {
        "as_database": str(address_file(folder / "systems.mmdb", SYSTEMS)),
        "country_database": str(address_file(folder / "countries.mmdb", COUNTRIES)),
    }
    with RunningStack(**files) as running:
        yield running


@pytest.fixture(scope="module")
def store(windows: RunningStack) -> ClickHouse:
    """The store, as the one user who may make tables."""
    return connect(windows.stack, "admin")


def equal(stack: RunningStack, store: ClickHouse, first: int, last: int, seconds: float = 120) -> None:
    """Wait until all that was published is stored, and what the jobs stored of that time equals plain SQL."""
    eventually(lambda: kafka.lag(stack.stack.brokers) == 0, "everything in Kafka read", seconds)
    end = time.monotonic() + seconds
    while found := windows_sql.differences(store, first, last):
        assert time.monotonic() < end, f"{len(found)} differences from plain SQL:\n" + "\n".join(found[:20])
        time.sleep(2)
    for name in windows_sql.COMPARED:
        assert windows_sql.expected(store, name), f"there is nothing in {name}"


def past(hours: int) -> int:
    """The start of a mix so long ago, in seconds: other tests look at other windows."""
    return (int(time.time()) - 3600 * hours) // 300 * 300


def test_a_day_that_several_probes_saw(windows: RunningStack, store: ClickHouse) -> None:
    start = day(windows, random.Random(4))
    equal(windows, store, start, start + 86_400)
    said = store.rows(
        f"SELECT DISTINCT probes_reported, probes_expected FROM v_indicators WHERE scope = 'probe' AND ts >= {start} "
        f"AND ts < {start + 86_400}"
    )
    assert said == [{"probes_reported": 1, "probes_expected": 1}]


def test_a_flood(windows: RunningStack, store: ClickHouse) -> None:
    start = flood(windows, random.Random(5))
    equal(windows, store, start, start + 300)
    of = f"ts >= {start} AND ts < {start + 300} AND probe = 'flood-edge'"
    assert store.rows(f"SELECT max(rank) AS most FROM v_port_report WHERE {of}") == [{"most": 1000}]
    assert store.rows(f"SELECT count() AS n FROM v_top_indicators WHERE {of} AND list = 'scan_addresses_tcp' AND value_error > 0")[0]["n"] > 0


def test_captures(windows: RunningStack, store: ClickHouse, shared: Path) -> None:
    for probe, capture in (SCANS | ORDINARY).items():
        windows.enrol(probe)
        windows.read(probe, shared / "pcaps" / capture, words=("--keep-time", "--interval", "5s"))
    equal(windows, store, 0, BEFORE_TODAY)
    show(store, "synscan", "slips-malicious", "slips-control", "echo", "ssh")


def show(store: ClickHouse, *probes: str) -> None:
    """Print the port reports side by side: `pytest -s`."""
    for probe in probes:
        rows = store.rows(
            "SELECT ts, host, syn_sent, fin_recv, rst_recv, tcp_packets, work_weight, sa_s, l3d, l4d, flags, port_signature "
            f"FROM v_port_report WHERE probe = '{probe}' AND scope = 'probe' ORDER BY ts, rank LIMIT 12"
        )
        print(f"\n{probe}")
        for row in rows:
            print("  " + "  ".join(f"{value}" for value in row.values()))


def test_the_scanners_are_named(windows: RunningStack, store: ClickHouse, shared: Path) -> None:
    """Beside ordinary captures; after `test_captures`, which brings both."""
    scanner = "172.16.0.8"
    row = store.rows(
        f"SELECT * FROM v_port_report WHERE probe = 'synscan' AND scope = 'probe' AND host = '{scanner}' ORDER BY syn_sent DESC"
    )[0]
    assert "W" in row["flags"]
    assert row["work_weight"] >= 90
    assert row["l4d"] > 900
    listed = {
        one["list"]: one
        for one in store.rows(
            f"SELECT list, value, rank FROM v_top_indicators WHERE probe = 'synscan' AND host = '{scanner}' "
            f"AND ts = '{row['ts']}'"
        )
    }
    assert listed["syn_senders"]["rank"] == 1
    assert listed["scan_ports_tcp"]["rank"] == 1
    assert listed["scan_ports_tcp"]["value"] == row["l4d"]
    ordinary = store.rows("SELECT host FROM v_port_report WHERE probe IN ('echo', 'ssh') AND flags LIKE '%W%'")
    assert not ordinary


def test_late_data_makes_a_new_version(windows: RunningStack, store: ClickHouse) -> None:
    """What comes after a window was written: answers to SYNs, one of which the next window has judged."""
    start = past(5)
    probe = Publisher(windows, "late")
    host, early, tardy = "10.1.0.1", "192.0.2.1", "192.0.2.2"

    def contact(peer: str, first_ms: int = 0, **back: int) -> Any:
        forward = Way() if back else Way(1, 40, syn=1)
        return Seen(host, peer, 1024, 80, TCP, forward, Way(1, 40, **back) if back else Way(), first_ms=first_ms).record()

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
    equal(windows, store, start, start + 60)
    assert [row["host"] for window in (0, 30) for row in failures(start + window)] == [host, host]
    assert versions(start) == {1}
    probe.interval(1000 * start, [contact(early, synack=1)], close=False)
    probe.interval(1000 * start + 2 * INTERVAL_MS, [contact(tardy, first_ms=6_000, synack=1)], close=False)
    equal(windows, store, start, start + 60)
    assert not failures(start)
    assert not failures(start + 30)
    assert min(versions(start)) > 1


def test_a_restart_in_mid_window(windows: RunningStack, store: ClickHouse) -> None:
    """kill -9 when a window is partly stored in state and partly on its way."""
    start, chance = past(6), random.Random(6)
    probes = [Publisher(windows, "restart-a"), Publisher(windows, "restart-b", "--rank", "1")]
    for tick in range(6):
        flows = traffic(chance)
        for probe in probes:
            seen = [one for one in flows if chance.random() < 0.8]
            probe.interval(1000 * start + tick * INTERVAL_MS, [one.record() for one in seen], last=tick == 5)
        if tick == 1:
            eventually(lambda: kafka.lag(windows.stack.brokers) == 0, "half a window in a checkpoint")
        if tick == 3:
            windows.kill("flink")
    equal(windows, store, start, start + 60)
