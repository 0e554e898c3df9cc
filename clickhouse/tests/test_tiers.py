"""The tiers: hourly and daily rows agree with the raw records, each counted once, and so do the views on them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from conftest import PASSWORDS, Server, migrate, roll_up

HOUR = "2026-11-20 10:00:00"
SUMS = "sum(fwd_packets), sum(fwd_octets), sum(rev_packets), sum(rev_octets)"
DEFAULTS: dict[str, object] = {
    "ts": HOUR,
    "interval_ms": 10000,
    "probe": "p",
    "epoch": 1,
    "sequence": 1,
    "src_addr": "::ffff:192.0.2.1",
    "dst_addr": "::ffff:198.51.100.7",
    "src_port": 50000,
    "dst_port": 443,
    "protocol": 6,
    "ip_version": 4,
    "first_seen_offset_ms": 100,
    "last_seen_offset_ms": 800,
    "fwd_packets": 5,
    "fwd_octets": 500,
    "rev_packets": 4,
    "rev_octets": 4000,
}


def _insert(server: Server, weir: str, *records: dict[str, object], token: str = "") -> None:
    rows = [DEFAULTS | record for record in records]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    values = ", ".join("(" + ", ".join(repr(row[name]) if name in row else "DEFAULT" for name in columns) + ")" for row in rows)
    settings = {"insert_deduplication_token": token, "deduplicate_blocks_in_dependent_materialized_views": 1} if token else {}
    server.sql(f"INSERT INTO {weir}.flows ({', '.join(columns)}) VALUES {values}", **settings)


def _many(server: Server, weir: str, rows: int, seed: int, token: str) -> None:
    """Rows of every kind, a mixture that depends on the seed alone."""
    settings = {"insert_deduplication_token": token, "deduplicate_blocks_in_dependent_materialized_views": 1}
    server.sql(
        f"""INSERT INTO {weir}.flows (ts, interval_ms, probe, epoch, sequence, record_kind, src_addr, dst_addr, src_port, dst_port,
            protocol, ip_version, first_seen_offset_ms, last_seen_offset_ms, flow_age_ms, fwd_packets, fwd_octets, rev_packets, rev_octets, fwd_tcp_syn,
            rev_tcp_rst, service, src_customer, src_prefix, application_id)
        WITH cityHash64(number, {seed}) AS h, number % 11 = 0 AS six, number % 97 = 0 AS over
        SELECT toDateTime('2026-11-19 22:00:00', 'UTC') + (h % 1000) * 10 AS t, 10000, ['a', 'b', 'c'][1 + h % 3], 1, number,
            if(over, 'overflow', 'flow'),
            if(six, toIPv6(concat('2001:db8::', hex(h % 50))), toIPv6(concat('::ffff:10.0.', toString(h % 5), '.', toString(h % 31)))),
            if(over, toIPv6('::'), if(six, toIPv6(concat('2001:db8:1::', hex(h % 77))), toIPv6(concat('::ffff:203.0.113.', toString(h % 77))))),
            1024 + h % 60000, [53, 80, 443, 40000 + h % 20000, 8][1 + h % 5], [6, 17, 1][1 + h % 3], if(six, 6, 4),
            1000, 1000, if(h % 2 = 0, 0, 101000), 1 + h % 3 AS p, p * 100, if(h % 4 = 0, 0, h % 9) AS q, q * 700,
            if(h % 3 = 0, p, 0), h % 2, if(h % 5 = 1, 80, 0), h % 4, h % 4, h % 300
        FROM numbers({rows})""",
        **settings,
    )


def _totals(server: Server, weir: str) -> dict[str, str]:
    """The sums of each tier for the same days: records, flows, packets and octets by probe."""
    per = "GROUP BY day, probe ORDER BY day, probe"
    begun = "countIf(record_kind = 'flow' AND first_seen = flow_start)"
    hourly = f"SELECT toDate(ts) AS day, probe, sum(records), sum(flows), {SUMS}"
    hosts = (
        "SELECT day, probe, sum(flows_begun), sum(flows_received), sum(sent_packets), sum(received_packets),"
        " sum(sent_octets), sum(received_octets)"
    )
    either = f"SELECT toDate(ts) AS day, probe, {begun}, {begun}, sum(fwd_packets + rev_packets) AS p, p, sum(fwd_octets + rev_octets) AS o, o"
    return {
        "raw": server.sql(f"SELECT toDate(ts) AS day, probe, count(), {begun}, {SUMS} FROM {weir}.flows {per}"),
        "by source": server.sql(f"{hourly} FROM {weir}.flows_hourly {per}"),
        "by destination": server.sql(f"{hourly} FROM {weir}.flows_hourly_by_destination {per}"),
        "raw, each end": server.sql(f"{either} FROM {weir}.flows {per}"),
        "hosts": server.sql(f"{hosts} FROM {weir}.hosts_daily {per}"),
        "raw, TCP and UDP": server.sql(
            f"SELECT toDate(ts) AS day, probe, {begun}, sum(fwd_packets + rev_packets), sum(fwd_octets + rev_octets)"
            f" FROM {weir}.flows WHERE protocol IN (6, 17) {per}"
        ),
        "raw, without records": server.sql(f"SELECT toDate(ts) AS day, probe, {begun}, {SUMS} FROM {weir}.flows {per}"),
        "sites": server.sql(f"SELECT day, probe, sum(flows), {SUMS} FROM {weir}.sites_daily {per}"),
        "ports": server.sql(f"SELECT day, probe, sum(p.flows), sum(p.packets), sum(p.octets) FROM {weir}.ports_daily AS p {per}"),
    }


@pytest.mark.parametrize("turn", range(3))
def test_every_tier_has_the_same_totals_and_a_repeat_changes_none(server: Server, weir: str, turn: int) -> None:
    seed = random.randrange(1_000_000)
    print(f"turn {turn}, seed {seed}")
    for block in range(3):
        _many(server, weir, 5000, seed + block, f"block {block}")
    roll_up(server, weir)
    once = _totals(server, weir)
    assert once["raw"].count("\n") == 5, "two days of three probes"
    assert once["by source"] == once["raw"]
    assert once["by destination"] == once["raw"]
    assert once["hosts"] == once["raw, each end"]
    assert once["ports"] == once["raw, TCP and UDP"]
    assert once["sites"] == once["raw, without records"]
    for block in (1, 0, 2):
        _many(server, weir, 5000, seed + block, f"block {block}")
    roll_up(server, weir)
    assert _totals(server, weir) == once
    for table in ("flows_hourly", "flows_hourly_by_destination", "hosts_daily", "ports_daily", "sites_daily"):
        server.sql(f"OPTIMIZE TABLE {weir}.{table} FINAL")
    assert _totals(server, weir) == once


def _hourly(server: Server, weir: str, columns: str) -> str:
    roll_up(server, weir)
    answers = {
        server.sql(f"SELECT {columns} FROM {weir}.{table} FINAL ORDER BY ALL")
        for table in ("flows_hourly", "flows_hourly_by_destination")
    }
    assert len(answers) == 1, answers
    return answers.pop()


def test_ephemeral_ports_are_folded_and_services_kept(server: Server, weir: str) -> None:
    _insert(
        server,
        weir,
        {"src_port": 50000, "service": 443},
        {"src_port": 50001, "service": 443},
        {"src_port": 50002, "dst_port": 40000},
        {"src_port": 50003, "dst_port": 40001},
        {"src_port": 50004, "dst_port": 9000},
        {"src_port": 3074, "dst_port": 51820, "protocol": 17, "service": 51820},
        {"protocol": 1, "src_port": 0, "dst_port": 2048},
    )
    assert _hourly(server, weir, "protocol, port, records, flows, fwd_packets") == (
        "1\t2048\t1\t1\t5\n6\t0\t2\t2\t10\n6\t443\t2\t2\t10\n6\t9000\t1\t1\t5\n17\t51820\t1\t1\t5"
    )
    ports = f"SELECT protocol_name, port, sum(p.packets), sum(p.flows) FROM {weir}.v_ports_daily AS p GROUP BY ALL ORDER BY ALL"
    assert server.sql(ports) == "TCP\t0\t18\t2\nTCP\t443\t18\t2\nTCP\t9000\t9\t1\nUDP\t51820\t9\t1"


SCAN = {"fwd_packets": 1, "fwd_octets": 40, "rev_packets": 0, "rev_octets": 0, "fwd_tcp_syn": 1, "dst_port": 22}


@pytest.mark.parametrize(
    ("change", "network"),
    [
        pytest.param({}, "::ffff:203.0.113.0", id="one SYN"),
        pytest.param({"fwd_packets": 3, "fwd_tcp_syn": 3}, "::ffff:203.0.113.0", id="a SYN sent again"),
        pytest.param({"ip_version": 6, "dst_addr": "2001:db8:5:6::9"}, "2001:db8:5::", id="IPv6"),
        pytest.param({"protocol": 17, "fwd_tcp_syn": 0}, "::ffff:203.0.113.0", id="UDP"),
        pytest.param({"protocol": 1, "dst_port": 2048, "fwd_tcp_syn": 0}, "::ffff:203.0.113.0", id="an echo request"),
        pytest.param({"rev_packets": 1}, None, id="answered"),
        pytest.param({"fwd_packets": 2}, None, id="a SYN and data"),
        pytest.param({"protocol": 17, "fwd_packets": 2, "fwd_tcp_syn": 0}, None, id="two UDP packets"),
        pytest.param({"protocol": 1, "dst_port": 769, "fwd_tcp_syn": 0}, None, id="an ICMP error"),
        pytest.param({"protocol": 17, "fwd_tcp_syn": 0, "probe": "oneway"}, None, id="UDP seen one way"),
        pytest.param({"probe": "oneway"}, "::ffff:203.0.113.0", id="a SYN seen one way"),
        pytest.param({"record_kind": "overflow"}, None, id="overflow"),
    ],
)
def test_unanswered_attempts_are_folded(server: Server, weir: str, change: dict[str, object], network: str | None) -> None:
    server.sql(f"INSERT INTO {weir}.probes (probe, one_way) VALUES ('oneway', true)")
    server.sql(f"SYSTEM RELOAD DICTIONARY {weir}.probe_places")
    record = SCAN | {"dst_addr": "::ffff:203.0.113.5"} | change
    _insert(server, weir, record)
    shown = "true" if network else "false"
    assert _hourly(server, weir, "folded, dst_addr, fwd_packets, fwd_octets") == (
        f"{shown}\t{network or record['dst_addr']}\t{record['fwd_packets']}\t40"
    )
    hosts = server.sql(f"SELECT addr, network, sent_packets, received_packets, unanswered FROM {weir}.hosts_daily").splitlines()
    sent, received, unanswered = record["fwd_packets"], record["rev_packets"], record["fwd_packets"] if network else 0
    assert sorted(hosts) == sorted(
        [
            f"::ffff:192.0.2.1\tfalse\t{sent}\t{received}\t{unanswered}",
            f"{network or record['dst_addr']}\t{shown}\t{received}\t{sent}\t{unanswered}",
        ]
    )


def test_a_scan_of_a_network_is_one_row(server: Server, weir: str) -> None:
    _insert(server, weir, *(SCAN | {"dst_addr": f"::ffff:203.0.113.{host}", "src_port": 40000 + host} for host in range(256)))
    assert _hourly(server, weir, "port, records, fwd_packets, fwd_tcp_syn") == "22\t256\t256\t256"
    assert server.sql(f"SELECT host, network, unanswered FROM {weir}.hosts FINAL WHERE network") == "203.0.113.0/24\ttrue\t256"
    assert server.sql(f"SELECT port, flows, unanswered FROM {weir}.v_ports_daily FINAL") == "22\t256\t256"


def test_one_address_or_network_is_found_on_either_side(server: Server, weir: str) -> None:
    _insert(
        server,
        weir,
        {"dst_addr": "::ffff:198.51.100.7"},
        {"src_addr": "::ffff:198.51.100.7", "dst_addr": "::ffff:192.0.2.9", "fwd_octets": 10, "rev_octets": 20},
        {"src_addr": "::ffff:198.51.100.8", "dst_addr": "::ffff:198.51.100.7", "fwd_octets": 1, "rev_octets": 2},
        {"src_addr": "2001:db8::1", "dst_addr": "2001:db8:9::1", "ip_version": 6},
        SCAN | {"dst_addr": "::ffff:198.51.100.99"},
    )
    roll_up(server, weir)

    def ask(network: str) -> str:
        return server.sql(
            f"SELECT side, host, peer, sum(sent_octets), sum(received_octets) FROM {weir}.v_network(network = '{network}') GROUP BY ALL ORDER BY ALL"
        )

    both = "destination\t198.51.100.0/24\t192.0.2.1\t0\t40\ndestination\t198.51.100.7\t192.0.2.1\t4000\t500"
    assert (
        ask("198.51.100.7") == f"{both}\ndestination\t198.51.100.7\t198.51.100.8\t2\t1\nsource\t198.51.100.7\t192.0.2.9\t10\t20"
    )
    whole = ask("198.51.100.0/24")
    assert "source\t198.51.100.8\t198.51.100.7\t1\t2" in whole
    assert "destination\t198.51.100.7\t198.51.100.8\t2\t1" in whole
    assert ask("192.0.2.1").splitlines()[0] == "source\t192.0.2.1\t198.51.100.0/24\t40\t0"
    assert ask("2001:db8::/32").count("\n") == 1
    assert ask("203.0.113.0/24") == ""


def test_connections_add_up_intervals(server: Server, weir: str) -> None:
    later = {"ts": "2026-11-20 10:00:10", "first_seen_offset_ms": 2000, "last_seen_offset_ms": 1500, "flow_age_ms": 11900}
    _insert(
        server,
        weir,
        {"fwd_tcp_syn": 1, "rev_tcp_synack": 1, "tcp_handshake_rtt_us": 1200},
        later | {"server_name": "www.example.org", "application_id": 91, "fwd_tcp_fin": 1, "rev_tcp_fin": 1},
        {"src_port": 50001},
        {"record_kind": "overflow", "src_port": 0},
    )
    columns = (
        "src, src_port, dst, intervals, packets, octets, duration_s, server_name, fwd_tcp_syn, tcp_fin, tcp_handshake_rtt_us"
    )
    assert server.sql(f"SELECT {columns} FROM {weir}.connections ORDER BY src_port") == (
        "192.0.2.1\t50000\t198.51.100.7\t2\t18\t9000\t13.4\twww.example.org\t1\t2\t1200\n"
        "192.0.2.1\t50001\t198.51.100.7\t1\t9\t4500\t0.8\t\t0\t0\t0"
    )


@pytest.fixture
def alone(own_server: Callable[..., Server]) -> Server:
    """A server of the test's own: there is one database ntopng on a server."""
    server = own_server()
    migrate(server, "weir")
    return server


@pytest.mark.embedded
def test_queries_made_for_ntopng_run(alone: Server) -> None:
    record = {"fwd_tcp_syn": 1, "rev_tcp_synack": 1, "fwd_tcp_fin": 1, "server_name": "www.example.org", "src_country": 20047}
    record |= {"fwd_class_of_service": 0xB8, "rev_class_of_service": 0x2B}
    _insert(alone, "weir", record, {"src_addr": "2001:db8::1", "dst_addr": "2001:db8::2", "ip_version": 6})
    shown = alone.sql(
        "SELECT IPv4NumToString(IPV4_SRC_ADDR), IPv4NumToString(IPV4_DST_ADDR), IPV6_SRC_ADDR, IP_DST_PORT, TOTAL_BYTES, PACKETS,"
        " SRC2DST_TCP_FLAGS, DST2SRC_TCP_FLAGS, SRC2DST_DSCP, DST2SRC_DSCP, INFO, SRC_COUNTRY_CODE, NTOPNG_INSTANCE_NAME FROM flows"
        " WHERE FIRST_SEEN >= toDateTime('2026-11-20 10:00:00') AND IP_PROTOCOL_VERSION = 4",
        database="ntopng",
    )
    assert shown == "192.0.2.1\t198.51.100.7\t::\t443\t4500\t9\t3\t18\t46\t10\twww.example.org\t20047\tp"
    top = (
        "SELECT IPV6_SRC_ADDR, SUM(SRC2DST_BYTES) AS sent FROM flows WHERE IPV6_SRC_ADDR != toIPv6('::')"
        " GROUP BY IPV6_SRC_ADDR ORDER BY sent DESC LIMIT 10"
    )
    assert alone.sql(top, database="ntopng") == "2001:db8::1\t500"
    answer = alone.ask("SELECT count() FROM flows", user="analyst", database="ntopng")
    assert answer.text == "2\n", PASSWORDS["analyst"]


@pytest.mark.parametrize("form", ["Native", "JSONEachRow", "RowBinaryWithNamesAndTypes"])
def test_a_record_that_comes_late_is_stamped(server: Server, weir: str, form: str) -> None:
    """By the store, whichever way it is inserted; the jobs send Native without the column."""
    for ago in (30, 3600):
        record = f"SELECT now('UTC') - {ago} AS ts, 10000::UInt32 AS interval_ms, 'p'::LowCardinality(String) AS probe"
        body = server.ask(query=f"{record} FORMAT {form}", ok=True).body
        server.ask(body, query=f"INSERT INTO flows FORMAT {form}", database=weir, ok=True)
    stamps = f"SELECT now() - ts > 1800, toUnixTimestamp(late_at) = 0, now() - late_at < 60 FROM {weir}.flows ORDER BY ts"
    assert server.sql(stamps) == "1\t0\t1\n0\t1\t0"
