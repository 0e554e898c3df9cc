"""A flood of more flows than windows keep (`--window-flows`), through a whole stack: memory stays bounded, sums stay
exact, and listed values are within the error that their row states.
"""

from __future__ import annotations

import ipaddress
import random
import re
import time
from collections.abc import Iterable

import httpx
import pytest

from harness import RunningStack, eventually
from weir import kafka
from weir.clickhouse import ClickHouse
from window_traffic import INTERVAL_MS, TCP, Publisher, Seen, Way

pytestmark = pytest.mark.long

KEPT = 10_000
FORGED = 15_000  # in each interval: four and a half times the bound
#: Windows that keep few flows.
OWN_STACK = {"window_flows": KEPT, "national_delay": "5s"}


def flood(chance: random.Random) -> Iterable[Seen]:
    """SYNs from forged sources, and fifty hosts that transfer data, a little in every interval."""
    for _ in range(FORGED):
        yield Seen(str(ipaddress.IPv4Address(chance.getrandbits(32))), "203.0.113.80", chance.randint(1024, 65_535), 80,
                   TCP, Way(1, 40, syn=1), Way(), first_ms=chance.randint(0, 9_999))  # fmt: skip
    for host in range(1, 51):
        octets = 1_500 * (10 + 4 * host)
        yield Seen(
            f"10.1.0.{host}", "198.51.100.7", 40_000, 443, TCP, Way(10, 600), Way(octets // 1_500, octets), guess=True
        )


def entries(stack: RunningStack) -> int:
    """Entries in all windows, as reported by the jobs' process."""
    text = httpx.get(f"http://127.0.0.1:{stack.stack.config.ports.flink_metrics}/metrics", timeout=5).text
    return int(
        sum(float(value) for value in re.findall(r"^flink_\w*weir_window_entries(?:{[^}]*})? ([0-9.E+-]+)", text, re.M))
    )


def test_a_flood_beyond_what_windows_keep(stack: RunningStack, store: ClickHouse) -> None:
    start, chance, most = (int(time.time()) - 7_200) // 300 * 300, random.Random(7), 0
    probe = Publisher(stack, "bounded")
    for tick in range(3):
        probe.interval(1000 * start + tick * INTERVAL_MS, [one.record() for one in flood(chance)], last=tick == 2)
        eventually(lambda: kafka.lag(stack.stack.brokers) == 0, "everything in Kafka read")
        most = max(most, entries(stack))
    of = f"ts >= {start} AND ts < {start + 30} AND probe = 'bounded'"
    assert 0 < most < 3 * KEPT, "windows keep more than they were told to"
    eventually(lambda: store.rows(f"SELECT 1 FROM v_top_flows WHERE {of} LIMIT 1"), "a list", 60)

    # Sums are exact.
    truth = store.rows(
        f"SELECT sum(fwd_octets + rev_octets) AS octets, sum(fwd_packets + rev_packets) AS packets, sum(fwd_tcp_syn) AS syns, "
        f"uniqExact(src_addr, src_port, dst_addr, dst_port) AS flows FROM flows WHERE {of}"
    )[0]
    assert truth["flows"] > 3 * FORGED
    for table in ("v_top_flows", "v_top_talkers"):
        assert store.rows(
            f"SELECT DISTINCT window_octets AS octets, window_packets AS packets FROM {table} WHERE {of}"
        ) == [{"octets": truth["octets"], "packets": truth["packets"]}]
    assert store.rows(f"SELECT syn_sent FROM v_indicators WHERE {of}") == [{"syn_sent": truth["syns"]}]

    # Listed values are within the stated error, and no larger flow than that is missing.
    listed = store.rows(
        "SELECT src, src_port AS port, octets, error_octets FROM v_top_flows "
        f"WHERE {of} AND list = 'ip_octets' ORDER BY rank"
    )
    exact = {
        (row["src"], row["port"]): row["octets"]
        for row in store.rows(
            "SELECT src, src_port AS port, sum(fwd_octets + rev_octets) AS octets FROM v_flows "
            f"WHERE {of} GROUP BY src, port ORDER BY octets DESC LIMIT 50"
        )
    }
    error = listed[0]["error_octets"]
    assert error > 0
    assert {(row["src"], row["port"]) for row in listed} >= {key for key, octets in exact.items() if octets > error}
    for row in listed:
        assert 0 <= exact[row["src"], row["port"]] - row["octets"] <= error

    # The target, and the number of hosts, are still reported.
    victim = store.rows(
        f"SELECT host, in_packets FROM v_top_talkers WHERE {of} AND list = 'host_in' AND host = '203.0.113.80'"
    )
    assert victim == [{"host": "203.0.113.80", "in_packets": 3 * FORGED}]
