"""v_interfaces: the counters of an exporter's interface beside the sums of its flows, in the same five minutes."""

from __future__ import annotations

import random
import re

from conftest import Server

EXPORTER = "::ffff:192.0.2.1"
COUNTS = ("in_octets", "in_packets", "in_errors", "in_discards", "out_octets", "out_packets", "out_errors", "out_discards")


def _sample(
    server: Server, weir: str, at: str, span_s: float, counts: list[int], probe: str = "p", interface: int = 7, domain: int = 0
) -> None:
    server.sql(
        f"INSERT INTO {weir}.interface_counters (ts, probe, exporter_addr, domain, interface, speed, status, span_ms, {', '.join(COUNTS)})"
        f" VALUES ('2026-11-20 {at}', '{probe}', '{EXPORTER}', {domain}, {interface}, 1000000000, 3, {round(span_s * 1000)},"
        f" {', '.join(map(str, counts))})"
    )


def _shown(server: Server, weir: str, columns: str) -> list[str]:
    return server.sql(f"SELECT {columns} FROM {weir}.v_interfaces WHERE ts >= '2026-11-20 00:00:00' ORDER BY ts").splitlines()


def test_an_hour_of_counters_is_spread_over_the_hour(server: Server, weir: str) -> None:
    """A device that sends counters once an hour, while its flows show one packet per second through it."""
    _sample(server, weir, "11:02:00", 3600, [3_600_000, 3600, 1, 0, 0, 0, 0, 0])
    server.sql(
        f"INSERT INTO {weir}.flows (ts, interval_ms, probe, exporter_addr, input_interface, fwd_packets, fwd_octets)"
        f" SELECT toDateTime('2026-11-20 10:02:00', 'UTC') + number * 10, 10000, 'p', '{EXPORTER}', 7, 10, 9000 FROM numbers(360)"
    )
    shown = [
        row.split("\t") for row in _shown(server, weir, "ts, counted_s, in_packets, flow_in_packets, in_difference, in_errors")
    ]
    assert len(shown) == 13
    assert shown[0] == ["2026-11-20 10:00:00", "180", "180", "180", "0", "1"]
    assert {tuple(row[1:]) for row in shown[1:-1]} == {("300", "300", "300", "0", "0")}
    assert shown[-1] == ["2026-11-20 11:00:00", "120", "120", "120", "0", "0"]


def test_nothing_is_lost_by_spreading(server: Server, weir: str) -> None:
    seed = random.randrange(1_000_000)
    print("seed", seed)
    chance = random.Random(seed)
    sums = [0] * len(COUNTS)
    for number in range(40):
        counts = [chance.choice([0, 1, 7, chance.randrange(2**40), 2**57]) for _ in COUNTS]
        span = chance.choice([0, 0.001, 30, 299.999, 300, 1234.567, 3600])
        _sample(server, weir, f"12:{chance.randrange(60):02}:{chance.randrange(60):02}", span, counts, interface=number)
        sums = [before + count for before, count in zip(sums, counts, strict=True)]
    assert any(sums)
    shown = [row.split("\t") for row in _shown(server, weir, ", ".join(COUNTS))]
    assert [sum(map(int, column)) for column in zip(*shown, strict=True)] == sums


def test_what_two_collectors_hear_counts_once(server: Server, weir: str) -> None:
    for probe, packets in (("p", 100), ("q", 90)):
        # The second collector began later.
        _sample(server, weir, "10:01:00", packets * 0.3, [1000 * packets, packets, 0, 0, 0, 0, 0, 0], probe)
        server.sql(
            f"INSERT INTO {weir}.flows (ts, probe, exporter_addr, input_interface, fwd_packets)"
            f" VALUES ('2026-11-20 10:01:00', '{probe}', '{EXPORTER}', 7, {packets})"
        )
    assert _shown(server, weir, "counted_s, in_octets, in_packets, flow_in_packets, in_difference") == ["30\t100000\t100\t100\t0"]


def test_an_interface_that_two_sub_agents_count_counts_once(server: Server, weir: str) -> None:
    """The row names the sub-agent that counted; the flows of both sub-agents stand next to it."""
    for domain, span in ((1, 20), (4, 30)):
        _sample(server, weir, "10:01:00", span, [1000 * span, span, 0, 0, 0, 0, 0, 0], domain=domain)
    server.sql(
        f"INSERT INTO {weir}.flows (ts, probe, exporter_addr, input_interface, fwd_packets)"
        f" VALUES ('2026-11-20 10:01:00', 'p', '{EXPORTER}', 7, 10), ('2026-11-20 10:01:00', 'p', '{EXPORTER}', 7, 20)"
    )
    assert _shown(server, weir, "domain, counted_s, in_packets, flow_in_packets, in_difference") == ["4\t30\t30\t30\t0"]


def test_a_range_of_time_reads_that_range(server: Server, weir: str) -> None:
    server.sql(
        f"INSERT INTO {weir}.interface_counters (ts, probe, exporter_addr, interface, span_ms) SELECT"
        f" toDateTime('2026-11-20 00:00:00', 'UTC') + number * 10, 'p', '{EXPORTER}', 7, 10000 FROM numbers(300000)"
    )
    plan = server.sql(
        f"EXPLAIN indexes = 1 SELECT sum(in_octets) FROM {weir}.v_interfaces WHERE ts >= '2026-11-20 10:00:00' AND ts < '2026-11-20 11:00:00'"
    )
    last = [tuple(map(int, found)) for found in re.findall(r"PrimaryKey.*?Granules: (\d+)/(\d+)", plan, re.DOTALL)]
    assert len(last) == 13, plan
    assert all(read <= 2 < of for read, of in last), plan
