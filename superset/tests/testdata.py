"""Plausible rows for a Weir store, computed by the store itself from numbers(): the same for the same `until`.

Three probes, one worker each, 10-second intervals. `north` is complete; `east` drops packets in its ring and at its
interface for a while; `south` lacks one closing record and lost one batch. Three customers inside the nation
(192.0.2.0/24 and 2001:db8::/48) talk to five networks abroad. Every table that a dashboard reads has rows, as the jobs
would have written them. By hand, against a running store:

    WEIR_PASSWORD_ADMIN=... python testdata.py http://127.0.0.1:8123
"""

from __future__ import annotations

import os
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "clickhouse"))
from weir_schema import files, hourly

PROBES = ["north", "east", "south"]
INTERVAL = 10
FLOWS = 120  # flow records of a probe and interval
CUSTOMERS = ["Fjord Power", "Harbour Hosting", "Northern University"]
# Autonomous systems abroad (numbers for documentation, RFC 5398), each with its country.
NETWORKS = [(64500, "DE"), (64501, "US"), (64502, "JP"), (64503, "BR"), (64504, "FR"), (64505, "GB"), (64506, "ZA")]
AS_NAMES = {64496: "National Carrier", 64500: "Rhine Transit", 64501: "Prairie Cloud", 64502: "Pacific Exchange",
            64503: "Amazonas Telecom", 64504: "Seine Video", 64505: "Thames Mail", 64506: "Cape Fibre"}  # fmt: skip
APPLICATIONS = {5: "DNS", 7: "HTTP", 91: "TLS", 92: "SSH", 124: "YouTube", 126: "Google", 133: "Netflix", 119: "Facebook",
                188: "QUIC", 9: "NTP", 142: "WhatsApp", 212: "Microsoft", 3: "SMTP", 140: "Apple", 81: "ICMP"}  # fmt: skip
_PICK = [91, 124, 126, 133, 119, 142, 140, 0]
# Sets of filters with their labels, and the usual packets per second of the first label.
FILTER_SETS = {
    "cast": (["unicast", "multicast", "broadcast"], 9000),
    "ip_version": (["ipv4", "ipv6"], 8000),
    "protocol": (["tcp", "udp", "icmp"], 7000),
    "ports": (["https", "quic", "dns", "ssh", "web", "smb", "ntp", "sip", "bgp"], 4000),
    "mail": (["smtp", "submission", "imap"], 60),
    "p2p": (["bittorrent", "edonkey"], 30),
    "tcp_flags": (["syn", "synack", "fin", "rst"], 300),
    "icmp_kinds": (["echo", "echo-reply", "unreachable", "time-exceeded"], 40),
    "worms": (["tcp-445", "tcp-23"], 12),
    "reflection": (["dns-answers", "ntp-monlist", "ssdp"], 25),
}


def _country(letters: str) -> int:
    """A country as the store holds it."""
    return ord(letters[0]) * 256 + ord(letters[1])


def execute(url: str, sql: str, *, database: str = "weir", user: str = "admin", password: str | None = None) -> str:
    """Send one statement; returns its response as text. Raises RuntimeError with the server's message."""
    password = os.environ.get(f"WEIR_PASSWORD_{user.upper()}", "") if password is None else password
    query = urllib.parse.urlencode({"database": database} if database else {})
    request = urllib.request.Request(
        f"{url}/?{query}", data=sql.encode(), headers={"X-ClickHouse-User": user, "X-ClickHouse-Key": password}
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{error.read().decode()}\n{sql}") from None


def migrate(url: str) -> None:
    """Create the tables and views as `weir migrate` does."""
    execute(url, "CREATE DATABASE IF NOT EXISTS weir ENGINE = Atomic", database="")
    for path in files.migrations():
        for statement in files.statements(path.read_text()):
            execute(url, statement)
    for statement in files.renewed().values():
        execute(url, statement)


def fill(url: str, until: int, minutes: int = 60, ahead: int = 0) -> None:
    """Insert rows for every probe, from `minutes` before to `ahead` minutes after the time `until` (seconds from 1970).

    All gaps are in the 20 minutes before `until`.
    """
    start = until // INTERVAL * INTERVAL - minutes * 60
    count = (minutes + ahead) * 60 // INTERVAL
    probes = f"{PROBES}[1 + p]"
    # A random number in 0..1 that depends only on the row.
    roll = "(cityHash64(p, i, f, '{0}') % 1000 / 1000)"
    execute(
        url,
        f"INSERT INTO probes (probe, workers, interval_ms, site, enrolled_at, updated_at) SELECT {PROBES}[1 + number], 1, "
        f"{INTERVAL * 1000}, 'Site ' || {PROBES}[1 + number], toDateTime({start}), now64(3) FROM numbers({len(PROBES)})",
    )
    # Flow records. The busy ones last for the whole time; the load swings once in twenty minutes.
    execute(
        url,
        f"""
        INSERT INTO flows (ts, interval_ms, probe, worker, epoch, sequence, src_addr, dst_addr, src_port, dst_port, protocol,
            ip_version, first_seen_offset_ms, last_seen_offset_ms, flow_age_ms, fwd_packets, fwd_octets, rev_packets, rev_octets, fwd_tcp_syn,
            application_id, server_name, service, site_direction, nation_direction, src_as, dst_as, src_country, dst_country,
            src_prefix, dst_prefix, src_customer, dst_customer)
        SELECT
            toDateTime({start} + i * {INTERVAL}), {INTERVAL * 1000}, {probes}, 0, 1, i,
            if(inbound, outside, inside), if(inbound, inside, outside),
            if(kind = 1, 0, 32768 + cityHash64(f, p) % 28000),
            multiIf(kind = 1, 2048, kind = 17, [53, 443, 123][1 + f % 3], [443, 443, 80, 22, 8443][1 + f % 5]) AS port,
            kind, if(v6, 6, 4),
            0, 9000, i * {INTERVAL * 1000},
            packets AS fwd_packets, packets * (60 + f % 90) AS fwd_octets,
            if(f % 7 = 3, 0, packets * 2) AS rev_packets, if(f % 7 = 3, 0, packets * 2 * (700 + f % 600)) AS rev_octets,
            if(kind = 6, 1 + f % 3, 0), app, if(port IN (443, 80), concat('www', toString(f % 9), '.example'), ''), port,
            if(inbound, 'in', 'out'), if(inbound, 'in', 'out'),
            if(inbound, far_as, 64496), if(inbound, 64496, far_as), if(inbound, far, home), if(inbound, home, far),
            if(inbound, 0, customer), if(inbound, customer, 0), if(inbound, 0, customer), if(inbound, customer, 0)
        FROM
        (
            SELECT *, f % 9 = 4 AS inbound,
                if(v6, toIPv6(concat('2001:db8::', hex(1 + f % 9))), toIPv6(concat('::ffff:192.0.2.', toString(1 + f % 40)))) AS inside,
                if(v6, toIPv6(concat('2001:db8:ff::', hex(1 + f % 5))), toIPv6(concat('::ffff:198.51.100.', toString(1 + f % 11)))) AS outside,
                1 + cityHash64(inside) % {len(CUSTOMERS)} AS customer,
                1 + cityHash64(outside) % {len(NETWORKS)} AS network, {[number for number, _ in NETWORKS]}[network] AS far_as,
                {[_country(letters) for _, letters in NETWORKS]}[network] AS far, {_country("IS")} AS home,
                multiIf(kind = 1, 81, kind = 17, [5, 188, 9][1 + f % 3],
                    [{_PICK}[1 + cityHash64(f) % {len(_PICK)}], 91, 7, 92, 212][1 + f % 5]) AS app
            FROM (
            SELECT intDiv(number, {FLOWS * len(PROBES)}) AS i, number % {FLOWS} AS f, intDiv(number, {FLOWS}) % {len(PROBES)} AS p,
                f % 5 = 2 AS v6,
                toUInt8(multiIf(f % 29 = 0, 1, f % 4 = 1, 17, 6)) AS kind,
                toUInt64(1 + (5000 / (1 + f)) * (1.2 + sin(i / 19 + p)) * (0.8 + 0.4 * {roll.format("load")})) AS packets
            FROM numbers({count * FLOWS * len(PROBES)}))
        )""",
    )
    for hour in range(start // 3600 * 3600, start + count * INTERVAL, 3600):
        execute(url, f"INSERT INTO flows_hourly ({hourly.COLUMNS}) {hourly.whole(hour)}")
    # The agents' counters, from the same records.
    execute(
        url,
        """
        INSERT INTO counters (ts, interval_ms, probe, worker, counter_set, label, packets, octets)
        SELECT ts, any(interval_ms), probe, 0, c.1, c.2, sum(toUInt64(c.3)), sum(toUInt64(c.4))
        FROM
        (
            SELECT ts, interval_ms, probe, fwd_packets + rev_packets AS n, fwd_octets + rev_octets AS o,
                arrayJoin([
                    ('ip_version', if(ip_version = 6, 'ipv6', 'ipv4'), n, o),
                    ('protocol', multiIf(protocol = 6, 'tcp', protocol = 17, 'udp', 'icmp'), n, o),
                    ('cast', 'unicast', intDiv(n * 90, 100), intDiv(o * 90, 100)), ('cast', 'multicast', intDiv(n * 7, 100), intDiv(o * 7, 100)),
                    ('cast', 'broadcast', intDiv(n * 3, 100), intDiv(o * 3, 100)),
                    ('size', '64', intDiv(n * 18, 100), 0), ('size', '65-127', intDiv(n * 22, 100), 0), ('size', '128-255', intDiv(n * 9, 100), 0),
                    ('size', '256-511', intDiv(n * 6, 100), 0), ('size', '512-1023', intDiv(n * 15, 100), 0),
                    ('size', '1024-1518', intDiv(n * 29, 100), 0), ('size', '1519+', intDiv(n, 100), 0)]) AS c
            FROM flows
        )
        GROUP BY ts, probe, c.1, c.2""",
    )
    execute(
        url,
        f"""
        INSERT INTO ledger (ts, interval_ms, probe, worker, version, state, epoch, epochs, on_interface_packets, captured_packets,
            captured_octets, dropped, flow_packets, flow_octets, not_metered_packets, published_batches, published_records,
            received_batches, received_records, received_packets, received_octets, missing_batches, agent_version, source, cpu_permille,
            rss_octets, exporter_records, exporter_lost, exporter_without_sampling_rate, exporter_refused,
            exporter_sampling, updated_at)
        SELECT ts, {INTERVAL * 1000}, probe, 0, 1,
            multiIf(silent, 'closing_missing', short, 'batches_missing', 'closed'), 1, 1,
            if(silent, 0, p + lost + ring + card + 3), if(silent, 0, p + lost + 3), o,
            if(probe = 'east', map('kernel', 0, 'ring', ring, 'interface', card), map('kernel', 0, 'ring', 0)),
            if(silent, 0, p + lost), o, if(silent, map(), map('not_ip', 3)), 1, n, 1, n, p, o, short, '0.1.0', 'af_packet:eth0',
            180 + 60 * sin(back / 60) + 5 * length(probe), 61000000 + 1000000 * length(probe) + (back + 2000) * 300,
            if(routers, map('netflow9 192.0.2.1 domain 7', n * 2, 'ipfix 2001:db8:0:0:0:0:0:1 domain 0', n), map()),
            if(routers AND back % 20 = 0, map('netflow9 192.0.2.1 domain 7, datagrams', 3), map()),
            if(routers, map('ipfix 2001:db8:0:0:0:0:0:1 domain 0', n), map()),
            if(routers AND back % 30 = 0, map('netflow9 192.0.2.1 domain 7, unknown_template', 2, 'netflow9 192.0.2.1 domain 7, time_clamped', 5, 'unknown ? domain 0, socket_full', 40), map()),
            if(routers, map('ipfix 2001:db8:0:0:0:0:0:1 domain 0, not_understood', n), map()),
            toDateTime64(ts, 3) + {INTERVAL} + 11 + cityHash64(ts, probe) % 40 / 10
        FROM
        (
            SELECT ts, probe, count() AS n, sum(fwd_packets + rev_packets) AS p, sum(fwd_octets + rev_octets) AS o,
                intDiv(toInt64(toUnixTimestamp(ts)) - {start}, {INTERVAL}) - {minutes * 60 // INTERVAL} AS back,
                probe = 'north' AS routers, probe = 'south' AND back = -60 AS silent, probe = 'south' AND back = -90 AS short, if(short, 500, 0) AS lost,
                if(probe = 'east' AND back BETWEEN -110 AND -95, intDiv(p, 50), 0) AS ring,
                if(probe = 'east' AND back BETWEEN -102 AND -99, intDiv(p, 80), 0) AS card
            FROM flows GROUP BY ts, probe
        )""",
    )
    _names(url, start)
    _windows(url)
    _years(url, until)
    _threats(url)
    _usual(url, until, ahead)
    _alerts(url, until)


def _names(url: str, start: int) -> None:
    """Customers, autonomous systems, applications, services; and the dictionaries read again."""
    prefixes = ", ".join(
        f"({number}, '192.0.2.{number * 16}/28', {number}, '{name}', 0, '', [], true, toDateTime64({start}, 3, 'UTC'))"
        for number, name in enumerate(CUSTOMERS, start=1)
    )
    execute(
        url,
        "INSERT INTO prefixes (id, prefix, customer_id, customer, site_id, site, tags, national, since) "
        f"SELECT * FROM values('id UInt32, prefix String, customer_id UInt32, customer String, site_id UInt32, site String, "
        f"tags Array(String), national Bool, since DateTime64(3)', {prefixes})",
    )
    names = ", ".join(f"({start}, {number}, '{name}')" for number, name in AS_NAMES.items())
    execute(
        url, f"INSERT INTO autonomous_systems SELECT * FROM values('ts UInt32, number UInt32, name String', {names})"
    )
    applications = ", ".join(f"({number}, '{name}', 'Web')" for number, name in APPLICATIONS.items())
    execute(
        url,
        "INSERT INTO applications (number, name, category) "
        f"SELECT * FROM values('number UInt16, name String, category String', {applications})",
    )
    execute(
        url,
        "INSERT INTO services SELECT * FROM values('port UInt16, protocol UInt8, name String', (443, 6, 'https'), (443, 17, 'quic'), "
        "(80, 6, 'http'), (53, 17, 'domain'), (123, 17, 'ntp'), (22, 6, 'ssh'), (8443, 6, 'https-alt'), (445, 6, 'microsoft-ds'))",
    )
    for one in ("prefix_names", "customer_names", "autonomous_system_names", "application_names", "service_names"):
        execute(url, f"SYSTEM RELOAD DICTIONARY {one}")


# A flow record counts in the list of its probe, in the list over all, and in the list of its customer.
_SCOPED = """
    ARRAY JOIN
        ['probe', 'all', 'customer'] AS scope,
        [toString(probe), '', ''] AS probe_name,
        [0, 0, greatest(src_customer, dst_customer)] AS customer
"""


def _windows(url: str) -> None:
    """Lists of flows, hosts, ports, AS and customers of 30 s, and mixes of 5 min, added up from the flow records."""
    execute(
        url,
        f"""
        INSERT INTO top_flows (ts, window_s, scope, probe, customer, list, rank, version, src_addr, dst_addr, src_port, dst_port,
            protocol, octets, packets, fwd_octets, fwd_packets, rev_octets, rev_packets, window_octets, window_packets,
            window_flows, probes_reported, probes_expected)
        SELECT t, 30, scope, probe_name, customer, 'ip_octets', rank, 1, src_addr, dst_addr, src_port, dst_port, protocol,
            fo + ro, fp + rp, fo, fp, ro, rp, all_octets, all_packets, all_flows, 3, 3
        FROM
        (
            SELECT toStartOfInterval(ts, INTERVAL 30 SECOND) AS t, scope, probe_name, customer, src_addr, dst_addr, src_port,
                dst_port, protocol, sum(fwd_octets) AS fo, sum(fwd_packets) AS fp, sum(rev_octets) AS ro, sum(rev_packets) AS rp,
                row_number() OVER (PARTITION BY t, scope, probe_name, customer ORDER BY fo + ro DESC) AS rank,
                sum(fo + ro) OVER (PARTITION BY t, scope, probe_name, customer) AS all_octets,
                sum(fp + rp) OVER (PARTITION BY t, scope, probe_name, customer) AS all_packets,
                count() OVER (PARTITION BY t, scope, probe_name, customer) AS all_flows
            FROM flows {_SCOPED}
            GROUP BY t, scope, probe_name, customer, src_addr, dst_addr, src_port, dst_port, protocol
        )
        WHERE rank <= 20""",
    )
    # Each record from the point of view of each list: list, subject, received, sent.
    sides = """
        arrayFilter(side -> side.1 != '', [
            (if(scope = 'customer' AND src_customer = 0, '', 'host_in'), src_addr, toUInt32(0), rev_octets, fwd_octets, rev_packets, fwd_packets),
            (if(scope = 'customer' AND dst_customer = 0, '', 'host_in'), dst_addr, 0, fwd_octets, rev_octets, fwd_packets, rev_packets),
            (if(scope = 'customer' AND src_customer = 0, '', 'host_out'), src_addr, 0, rev_octets, fwd_octets, rev_packets, fwd_packets),
            (if(scope = 'customer' AND dst_customer = 0, '', 'host_out'), dst_addr, 0, fwd_octets, rev_octets, fwd_packets, rev_packets),
            (multiIf(protocol = 6, 'port_tcp', protocol = 17, 'port_udp', ''), toIPv6('::'), dst_port, fwd_octets, rev_octets, fwd_packets, rev_packets),
            ('as', toIPv6('::'), if(nation_direction = 'out', dst_as, src_as), fwd_octets, rev_octets, fwd_packets, rev_packets),
            (if(scope = 'customer', '', 'customer'), toIPv6('::'), greatest(src_customer, dst_customer), fwd_octets, rev_octets, fwd_packets, rev_packets)])
    """
    execute(
        url,
        f"""
        INSERT INTO top_talkers (ts, window_s, scope, probe, customer, list, rank, version, addr, number, octets, packets, in_octets,
            in_packets, out_octets, out_packets, flows, window_octets, window_packets, window_keys, probes_reported, probes_expected)
        SELECT t, 30, scope, probe_name, customer, list, rank, 1, addr, number, i + o, ip + op, i, ip, o, op, n, all_octets,
            all_packets, all_keys, 3, 3
        FROM
        (
            SELECT t, scope, probe_name, customer, side.1 AS list, side.2 AS addr, side.3 AS number, sum(side.4) AS i, sum(side.5) AS o,
                sum(side.6) AS ip, sum(side.7) AS op, count() AS n,
                row_number() OVER (PARTITION BY t, scope, probe_name, customer, list ORDER BY if(list = 'host_out', o, if(list = 'host_in', i, i + o)) DESC) AS rank,
                sum(i + o) OVER (PARTITION BY t, scope, probe_name, customer, list) AS all_octets,
                sum(ip + op) OVER (PARTITION BY t, scope, probe_name, customer, list) AS all_packets,
                count() OVER (PARTITION BY t, scope, probe_name, customer, list) AS all_keys
            FROM
            (
                SELECT toStartOfInterval(ts, INTERVAL 30 SECOND) AS t, scope, probe_name, customer, arrayJoin({sides}) AS side
                FROM flows {_SCOPED}
            )
            GROUP BY t, scope, probe_name, customer, list, addr, number
        )
        WHERE rank <= 50""",
    )
    ways = """
        [('in', if(nation_direction = 'in', fwd_octets, rev_octets), if(nation_direction = 'in', fwd_packets, rev_packets), nation_direction = 'in'),
         ('out', if(nation_direction = 'out', fwd_octets, rev_octets), if(nation_direction = 'out', fwd_packets, rev_packets), nation_direction = 'out')]
    """
    keys = """
        [('total', toUInt32(0), toUInt16(0)), ('application', application_id, 0), ('as', if(nation_direction = 'out', dst_as, src_as), 0),
         ('country', if(nation_direction = 'out', dst_country, src_country), 0), ('customer', greatest(src_customer, dst_customer), 0),
         ('as_application', if(nation_direction = 'out', dst_as, src_as), application_id)]
    """
    execute(
        url,
        f"""
        INSERT INTO mixes (ts, window_s, scope, probe, customer, dimension, direction, rank, version, number, application, octets, packets, flows,
            ipv4_octets, ipv4_packets, ipv6_octets, ipv6_packets, direction_octets, direction_packets, probes_reported, probes_expected)
        SELECT t, 300, scope, probe_name, customer, key.1, way.1, row_number() OVER (PARTITION BY t, scope, probe_name, customer, key.1, way.1 ORDER BY o DESC),
            1, key.2, key.3, sum(way.2) AS o, sum(way.3), intDiv(sum(way.4), 30), sumIf(way.2, ip_version = 4), sumIf(way.3, ip_version = 4),
            sumIf(way.2, ip_version = 6), sumIf(way.3, ip_version = 6),
            sum(o) OVER (PARTITION BY t, scope, probe_name, customer, key.1, way.1), 1, 3, 3
        FROM
        (
            SELECT toStartOfInterval(ts, INTERVAL 300 SECOND) AS t, scope, probe_name, customer, ip_version,
                arrayJoin({ways}) AS way, arrayJoin({keys}) AS key
            FROM flows {_SCOPED}
        )
        GROUP BY t, scope, probe_name, customer, key, way.1""",
    )


def _years(url: str, until: int) -> None:
    """Mixes and hosts of the days before, as the roll-up leaves them; the traffic grows, and IPv6 faster."""
    today = until // 86400
    execute(
        url,
        f"""
        INSERT INTO mixes_daily (day, scope, probe, customer, dimension, direction, number, windows, octets, packets, flows, ipv6_octets)
        SELECT toDate({today} - n), s.1, s.2, s.3, key.1, way, key.2, 288, share.1 AS octets, intDiv(octets, 700), intDiv(octets, 90000),
            toUInt64(octets * (0.3 - n / 2000))
        FROM
        (
            SELECT 1 + number AS n, arrayJoin([('all', '', 0), {", ".join(f"('probe', '{one}', 0)" for one in PROBES)},
                {", ".join(f"('customer', '', {1 + one})" for one in range(len(CUSTOMERS)))}]) AS s,
                arrayJoin(['in', 'out']) AS way,
                arrayJoin([('total', 0), {", ".join(f"('application', {one})" for one in APPLICATIONS)},
                    {", ".join(f"('as', {one})" for one, _ in NETWORKS)},
                    {", ".join(f"('country', {_country(one)})" for _, one in NETWORKS)}]) AS key
            FROM numbers(120)
        )
        ARRAY JOIN [tuple(toUInt64(1e12 * (1.4 - n / 300) * (0.8 + 0.2 * (n % 7 < 5)) * if(way = 'in', 1, 0.2)
            / multiIf(s.1 = 'all', 1, 3) / if(key.1 = 'total', 1, 2 + key.2 % 13)))] AS share""",
    )
    execute(
        url,
        f"""
        INSERT INTO hosts_daily (day, probe, addr, prefix, customer, as_number, country, sent_octets, received_octets, flows_begun, flows_received)
        SELECT toDate({today} - 1 - intDiv(number, 50)), 'north', toIPv6(concat('::ffff:', if(number % 50 < 40, '192.0.2.', '198.51.100.'),
            toString(1 + if(number % 50 < 40, number % 50, number % 50 - 40)))), 0, 1, 64496, {_country("IS")},
            1000000000 + cityHash64(number) % 900000000, 5000000000 + cityHash64(number, 1) % 4000000000, 400, 30
        FROM numbers(120 * 50)""",
    )


def _threats(url: str) -> None:
    """A worm on four hosts of one customer, scans from abroad, and hosts that receive ICMP errors."""
    windows = "(SELECT DISTINCT ts AS t, scope, probe FROM top_flows WHERE scope != 'customer')"
    roll = "cityHash64(w.t, n) % 100"
    execute(
        url,
        f"""
        INSERT INTO port_report (ts, window_s, scope, probe, rank, version, addr, customer, local, syn_sent, synack_sent, fin_sent,
            rst_sent, syn_recv, synack_recv, fin_recv, rst_recv, tcp_packets, tcp_sent, work_weight, sa_s, l3d, l4d, icmp_errors, flags,
            port_signature, l4s, probes_reported, probes_expected)
        SELECT w.t, 30, w.scope, w.probe, 1 + n, 1,
            toIPv6(if(n < 4, concat('192.0.2.', toString(33 + n)), concat('203.0.113.', toString(n)))), if(n < 4, 3, 0), n < 4,
            if(n < 4, 400 + {roll}, 40 + 9 * n), 0, if(n < 10, 0, 30), 0, 0, 2, if(n < 10, 0, 30), if(n < 4, 310, 12) AS back,
            if(n < 10, 420 + 11 * n, 900), 400 + {roll}, multiIf(n < 4, 98, n < 10, 71, 22), if(n < 10, 0, 48), if(n < 4, 380, 30 + n),
            if(n < 4, 2, 9), if(n < 4, 120, 3), multiIf(n < 4, 'EWORM', n < 10, 'wOR', ''),
            multiIf(n < 4, '139:500,445:500', n < 10, concat('22:', toString(990 - n), ',2222:', toString(10 + n)), '443:900,80:100'),
            '40112:3', 3, 3
        FROM {windows} AS w CROSS JOIN (SELECT number AS n FROM numbers(16)) AS hosts""",
    )
    lists = (
        "['syn_senders', 'scan_addresses_tcp', 'scan_addresses_udp', 'scan_addresses_icmp', 'scan_ports_tcp', 'scan_ports_udp', "
        "'scan_failures', 'icmp_senders', 'icmp_causers', 'udp_work_weight', 'udp_unanswered']"
    )
    execute(
        url,
        f"""
        INSERT INTO top_indicators (ts, window_s, scope, probe, customer, list, rank, version, addr, value, local, syn_sent, fin_recv,
            rst_recv, tcp_packets, work_weight, udp_sent, icmp_errors_sent, icmp_errors_recv, addresses, ports, failed, answered,
            probes_reported, probes_expected)
        SELECT w.t, 30, (arrayJoin(if(w.scope = 'all' AND n < 4, [('all', 0), ('customer', 3)], [(toString(w.scope), 0)])) AS s).1,
            if(s.1 = 'probe', w.probe, ''), s.2, arrayJoin({lists}) AS list, 1 + n, 1,
            toIPv6(if(n < 4, concat('192.0.2.', toString(33 + n)), concat('203.0.113.', toString(n)))),
            multiIf(list = 'udp_work_weight', 90000, list = 'scan_failures', 370, 420) - 30 * n - {roll} / 4, n < 4, 400 - 20 * n, 0, 310, 800,
            98 - 3 * n, 300, 40, 300, match(list, '^scan_(addresses|ports)') * (380 - 20 * n),
            match(list, '^scan_(addresses|ports)') * (1 + n), 375 - 30 * n, 5, 3, 3
        FROM {windows} AS w
        CROSS JOIN (SELECT number AS n FROM numbers(12)) AS hosts
        """,
    )
    execute(
        url,
        f"""
        INSERT INTO indicators (ts, window_s, scope, probe, customer, rank, version, hosts, report_hosts, worms_us, worms_them,
            udp_work_weight, udp_work_weight_addr, scanners, failed, syn_sent, tcp_packets, icmp_errors, probes_reported, probes_expected)
        SELECT w.t, 30, s.1, if(s.1 = 'probe', w.probe, ''), s.2, 1, 1, 56, 16, 4, if(s.1 = 'customer', 0, 6 + n % 3),
            90000 - 200 * n, toIPv6('192.0.2.33'), 8 + n % 5, 1500 + 10 * n, 2600 + 20 * n, 9000, 480 + n, 3, 3
        FROM (SELECT *, cityHash64(t, probe) % 40 AS n FROM {windows}) AS w
        ARRAY JOIN if(w.scope = 'all', [('all', 0), ('customer', 3)], [(toString(w.scope), 0)]) AS s""",
    )


def _usual(url: str, until: int, ahead: int) -> None:
    """Means of five minutes of every filter set over four weeks; `worms` has risen tenfold in the last half hour."""
    labels = ", ".join(
        f"('{name}', '{label}', {usual / (1 + place) ** 1.5:.3f})"
        for name, (labels, usual) in FILTER_SETS.items()
        for place, label in enumerate(labels)
    )
    windows = 28 * 288
    last = until // 300 * 300 + ahead // 5 * 300
    execute(
        url,
        f"""
        INSERT INTO counter_means (ts, window_s, scope, probe, counter_set, label, version, packets, octets, packets_per_second,
            octets_per_second, peak_packets_per_second, peak_octets_per_second, intervals_seen, intervals_expected, probes_reported,
            probes_expected)
        SELECT toDateTime(at), 300, if(p = 0, 'all', 'probe'), ['', {", ".join(f"'{one}'" for one in PROBES)}][1 + p], s.1, s.2, 1,
            rate * 300, rate * 300 * 420, rate, rate * 420, rate * 1.4, rate * 1.4 * 420, 30, 30, 3, 3
        FROM
        (
            SELECT number % 4 AS p, {last} - intDiv(number, 4) * 300 AS at, s,
                s.3 * if(p = 0, 3, 1) * (1 + 0.6 * sin(toHour(toDateTime(at, 'UTC')) / 3.8)) * (0.9 + cityHash64(at, s.2, p) % 200 / 1000)
                    * if(s.1 = 'worms' AND at > {until} - 1800, 10, 1) AS rate
            FROM numbers({windows * 4}) ARRAY JOIN [{labels}] AS s
        )""",
    )


def _alerts(url: str, until: int) -> None:
    """One open alert and one closed one."""
    execute(
        url,
        f"""
        INSERT INTO alerts (ts, id, reason, probe, subject, severity, opened_at, updated_at, closed_at, text, values, version) SELECT
            toDateTime({until} - age), toString(cityHash64(reason, probe)), reason, probe, '', severity, toDateTime64({until} - age, 3),
            toDateTime64({until} - 60, 3), toDateTime64(if(over, {until} - age + 300, 0), 3), text, map('packets', toUInt64(512)), 2
        FROM values('age UInt32, reason String, probe String, severity String, over Bool, text String',
            (1100, 'probe_drops', 'east', 'warning', false, 'Probe east drops 2.1 % of its packets: its ring is full'),
            (700, 'ledger_incomplete', 'south', 'warning', true, 'Of probe south a closing record did not come'))""",
    )


if __name__ == "__main__":
    migrate(sys.argv[1])
    fill(sys.argv[1], int(time.time()), minutes=90, ahead=30)
