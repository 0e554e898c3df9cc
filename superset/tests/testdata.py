"""Plausible rows for a Weir store, made by the store itself from numbers(): the same for the same `until`.

Three probes, one worker each, 10-second intervals. `north` is whole; `east` drops packets in its ring and at its
interface for a while; of `south` one closing record is missing and one batch was lost. By hand, against a store in use:

    WEIR_PASSWORD_ADMIN=... python testdata.py http://127.0.0.1:8123
"""

from __future__ import annotations

import os
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

MIGRATIONS = Path(__file__).resolve().parents[2] / "clickhouse/migrations"
PROBES = ["north", "east", "south"]
INTERVAL = 10
FLOWS = 120  # flow records of a probe and interval


def execute(url: str, sql: str, *, database: str = "weir", user: str = "admin", password: str | None = None) -> str:
    """Send one statement; its answer as text. Raises RuntimeError with the server's words."""
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
    """Make the tables and views as `weir migrate` does."""
    execute(url, "CREATE DATABASE IF NOT EXISTS weir ENGINE = Atomic", database="")
    for path in sorted(MIGRATIONS.glob("[0-9]*.sql")):
        text = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("--"))
        for statement in (text + "\n").split(";\n"):
            if statement.strip():
                execute(url, statement)


def fill(url: str, until: int, minutes: int = 60, ahead: int = 0) -> None:
    """Insert `minutes` of rows up to `until`, seconds from 1970, and `ahead` minutes after it, for every probe.

    What is missing is missing in the 20 minutes before `until`.
    """
    start = until // INTERVAL * INTERVAL - minutes * 60
    count = (minutes + ahead) * 60 // INTERVAL
    probes = f"{PROBES}[1 + p]"
    # A random number in 0..1 that depends on the row alone.
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
            ip_version, first_seen_offset_ms, last_seen_offset_ms, flow_age_ms, fwd_packets, fwd_octets, rev_packets, rev_octets)
        SELECT
            toDateTime({start} + i * {INTERVAL}), {INTERVAL * 1000}, {probes}, 0, 1, i,
            if(v6, toIPv6(concat('2001:db8::', hex(1 + f % 9))), toIPv6(concat('::ffff:192.0.2.', toString(1 + f % 40)))),
            if(v6, toIPv6(concat('2001:db8:ff::', hex(1 + f % 5))), toIPv6(concat('::ffff:198.51.100.', toString(1 + f % 11)))),
            if(kind = 1, 0, 32768 + cityHash64(f, p) % 28000),
            multiIf(kind = 1, 2048, kind = 17, [53, 443, 123][1 + f % 3], [443, 443, 80, 22, 8443][1 + f % 5]),
            kind, if(v6, 6, 4),
            0, 9000, i * {INTERVAL * 1000},
            packets AS fwd_packets, packets * (60 + f % 90) AS fwd_octets,
            if(f % 7 = 3, 0, packets * 2) AS rev_packets, if(f % 7 = 3, 0, packets * 2 * (700 + f % 600)) AS rev_octets
        FROM
        (
            SELECT intDiv(number, {FLOWS * len(PROBES)}) AS i, number % {FLOWS} AS f, intDiv(number, {FLOWS}) % {len(PROBES)} AS p,
                f % 5 = 2 AS v6,
                toUInt8(multiIf(f % 29 = 0, 1, f % 4 = 1, 17, 6)) AS kind,
                toUInt64(1 + (5000 / (1 + f)) * (1.2 + sin(i / 19 + p)) * (0.8 + 0.4 * {roll.format("load")})) AS packets
            FROM numbers({count * FLOWS * len(PROBES)})
        )""",
    )
    # What the agents counted, from the same records.
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
            received_batches, received_records, received_packets, received_octets, missing_batches, updated_at)
        SELECT ts, {INTERVAL * 1000}, probe, 0, 1,
            multiIf(silent, 'closing_missing', short, 'batches_missing', 'closed'), 1, 1,
            if(silent, 0, p + lost + ring + card + 3), if(silent, 0, p + lost + 3), o,
            if(probe = 'east', map('kernel', 0, 'ring', ring, 'interface', card), map('kernel', 0, 'ring', 0)),
            if(silent, 0, p + lost), o, if(silent, map(), map('not_ip', 3)), 1, n, 1, n, p, o, short, now64(3)
        FROM
        (
            SELECT ts, probe, count() AS n, sum(fwd_packets + rev_packets) AS p, sum(fwd_octets + rev_octets) AS o,
                intDiv(toInt64(toUnixTimestamp(ts)) - {start}, {INTERVAL}) - {minutes * 60 // INTERVAL} AS back,
                probe = 'south' AND back = -60 AS silent, probe = 'south' AND back = -90 AS short, if(short, 500, 0) AS lost,
                if(probe = 'east' AND back BETWEEN -110 AND -95, intDiv(p, 50), 0) AS ring,
                if(probe = 'east' AND back BETWEEN -102 AND -99, intDiv(p, 80), 0) AS card
            FROM flows GROUP BY ts, probe
        )""",
    )
    execute(
        url,
        """
        INSERT INTO top_flows (ts, window_s, scope, probe, rank, version, src_addr, dst_addr, src_port, dst_port, protocol, octets,
            packets, fwd_octets, fwd_packets, rev_octets, rev_packets, window_octets, window_packets, window_flows,
            probes_reported, probes_expected)
        SELECT t, 30, 'probe', probe, rank, 1, src_addr, dst_addr, src_port, dst_port, protocol, fo + ro, fp + rp, fo, fp, ro, rp,
            all_octets, all_packets, all_flows, 1, 1
        FROM
        (
            SELECT toStartOfInterval(ts, INTERVAL 30 SECOND) AS t, probe, src_addr, dst_addr, src_port, dst_port, protocol,
                sum(fwd_octets) AS fo, sum(fwd_packets) AS fp, sum(rev_octets) AS ro, sum(rev_packets) AS rp,
                row_number() OVER (PARTITION BY t, probe ORDER BY fo + ro DESC) AS rank,
                sum(fo + ro) OVER (PARTITION BY t, probe) AS all_octets,
                sum(fp + rp) OVER (PARTITION BY t, probe) AS all_packets, count() OVER (PARTITION BY t, probe) AS all_flows
            FROM flows GROUP BY t, probe, src_addr, dst_addr, src_port, dst_port, protocol
        )
        WHERE rank <= 20""",
    )


if __name__ == "__main__":
    migrate(sys.argv[1])
    fill(sys.argv[1], int(time.time()), minutes=90, ahead=30)
