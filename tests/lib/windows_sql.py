"""The expected rows of the window jobs, computed by the store itself in plain SQL from the raw rows of `flows`.

Each step is a table of a database of its own, so that the next step is easy to read: `seen` is each probe's share of
each flow in a window, `counted` the same by scope with each flow once, `ends` both ends of these flows, `hosts` the
activity of each host. This module creates those tables. For each list, indicator and mix, `flink-jobs` declares how to
compute it from these tables; `io.weir.jobs.Definitions json` prints the SQL, the columns to compare and the view that
holds them.
"""

from __future__ import annotations

import functools
import json
import subprocess
from typing import Any

from weir.clickhouse import ClickHouse
from weir.config import CHECKOUT

DATABASE = "plain_sql"

# Rows of a table by their key: the window's start in seconds, then the key's columns.
Rows = dict[tuple[Any, ...], dict[str, Any]]

# Columns of a flow that are counted by direction.
_COUNTS = ("octets", "packets", "tcp_syn", "tcp_synack", "tcp_fin", "tcp_rst", "icmp_errors", "icmp_errors_udp")
_DIRECTED = [f"{way}_{count}" for way in ("fwd", "rev") for count in _COUNTS]
_TUPLE = "src_addr, dst_addr, src_port, dst_port, protocol"
# Key of the entries of one window and probe: five-tuple; for overflow records also their aggregation key.
_ENTRY = f"{_TUPLE}, okey, overflow_version"
_ATTRIBUTES = "application, src_as, dst_as, src_country, dst_country, src_customer, dst_customer"

_KIND = "multiIf(protocol = 6, 'tcp', protocol = 17, 'udp', protocol IN (1, 58), 'icmp', '')"

# HyperLogLog of 128 registers with linear counting, after Flajolet and others (2007).
_ESTIMATE = (
    "if(raw <= 320 AND empty > 0, 128 * log(128 / empty), raw) "
    ", arrayCount(r -> r = 0, registers) AS empty"
    ", 0.7213 / (1 + 1.079 / 128) * 128 * 128 / arraySum(r -> pow(2, -toFloat64(r)), registers) AS raw"
)


@functools.cache
def definitions() -> dict[str, Any]:
    """The jobs' declarations of their tables."""
    jar = CHECKOUT / "flink-jobs/target/weir-flink-jobs.jar"
    command = ["java", "-cp", str(jar), "io.weir.jobs.Definitions", "json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found


def tables() -> list[str]:
    """The tables that are compared."""
    return list(definitions()["tables"])


def _declared(**options: int) -> dict[str, str]:
    """Name and SELECT of each table that the jobs declare, `{top}` and so on replaced."""
    steps = {}
    for table in definitions()["tables"].values():
        for name, select in table["steps"]:
            for option, value in options.items():
                select = select.replace(f"{{{option}}}", str(value))
            steps[name] = select
    return steps


def _steps(first: int, last: int, window: int, answer: int) -> dict[str, str]:
    """Name and SELECT of each table that the declared ones are made of, in the order in which they are made."""
    sums = ", ".join(f"sum(toUInt64(f.{name})) AS {name}" for name in _DIRECTED)
    swapped = {"fwd": "rev", "rev": "fwd"}
    joined = ", ".join(
        # For a one-way observation, the missing direction from the best other observation that has it.
        f"if(c.one_way AND c.{way}_packets = 0, c.other_{way}.{number}, c.{way}_{count}) AS {way}_{count}"
        for way in ("fwd", "rev")
        for number, count in enumerate(_COUNTS, 1)
    )
    zeros = ", ".join("toUInt64(0)" for _ in _COUNTS)

    def other(way: str) -> str:
        def values(side: str) -> str:
            return ", ".join(f"o.{side}_{count}" for count in _COUNTS)

        has = f"if(o.turned = c.turned, o.{way}_packets, o.{swapped[way]}_packets) > 0 AND o.probe != c.probe"
        value = f"if(o.turned = c.turned, ({values(way)}), ({values(swapped[way])}))"
        return f"argMinIf({value}, o.preference, {has}) AS other_{way}"

    def end(source: bool) -> str:
        mine, theirs = ("src", "dst") if source else ("dst", "src")
        out, back = ("fwd", "rev") if source else ("rev", "fwd")
        return f"""
            SELECT w, scope, probe, customer AS of_customer, {_ENTRY}, {_ATTRIBUTES},
                   {mine}_addr AS host, {theirs}_addr AS peer, {mine}_customer AS host_customer, {mine}_as AS host_as,
                   {mine}_port AS own_port, {theirs}_port AS peer_port, {mine}_local AS local,
                   {"1" if source else "0"} AS is_source,
                   {", ".join(f"{out}_{c} AS {c}_sent, {back}_{c} AS {c}_received" for c in _COUNTS)},
                   first, one_way, guess
            FROM counted"""

    return {
        # ---- observations of each probe ----
        "places": """
            SELECT p.id AS id, any(p.site) AS site, any(p.national) AS national FROM weir.prefixes AS p FINAL GROUP BY id""",
        "seen": f"""
            SELECT toUnixTimestamp(toStartOfInterval(f.ts, INTERVAL {window} SECOND)) AS w, f.probe AS probe,
                   f.src_addr AS src_addr, f.dst_addr AS dst_addr, f.src_port AS src_port, f.dst_port AS dst_port,
                   f.protocol AS protocol,
                   multiIf(f.record_kind = 'flow', 0, f.overflow_key = 'source_and_port', 1,
                           f.overflow_key = 'destination_and_port', 2, 3) AS okey,
                   if(okey = 3, f.ip_version, 0) AS overflow_version,
                   {sums},
                   max(f.application_id) AS application, max(f.src_as) AS src_as, max(f.dst_as) AS dst_as,
                   max(f.src_country) AS src_country, max(f.dst_country) AS dst_country,
                   max(f.src_customer) AS src_customer, max(f.dst_customer) AS dst_customer,
                   max(f.ip_version) = 6 AS ipv6,
                   min(toUnixTimestamp64Milli(f.first_seen)) - w * 1000 AS first,
                   countIf(f.flow_start = f.first_seen AND f.record_kind = 'flow') AS began,
                   min(f.initiator_guess) AS guess,
                   greatest(1, max(f.sampling_rate)) AS rate,
                   max(f.record_kind = 'flow' AND f.initiator_guess
                       AND if(f.service != 0, f.service != f.dst_port, f.src_port != 0 AND f.src_port < f.dst_port)) AS service_at_source,
                   any(p.one_way) AS one_way, any(p.rank) AS probe_rank,
                   max(p.site != '' AND s.site = p.site) AS src_at_site,
                   max(p.site != '' AND d.site = p.site) AS dst_at_site,
                   max(s.national) AS src_national, max(d.national) AS dst_national,
                   max(toString(f.site_direction)) AS site_way, max(toString(f.nation_direction)) AS nation_way,
                   (src_addr, src_port) > (dst_addr, dst_port) AS turned,
                   if(turned, (dst_addr, src_addr, dst_port, src_port, protocol),
                              (src_addr, dst_addr, src_port, dst_port, protocol)) AS both_ways,
                   (one_way, rate, NOT src_at_site, NOT dst_at_site, probe_rank, probe) AS preference
            FROM weir.flows AS f
            LEFT JOIN (SELECT * FROM weir.probes FINAL) AS p ON p.probe = f.probe
            LEFT JOIN places AS s ON s.id = f.src_prefix
            LEFT JOIN places AS d ON d.id = f.dst_prefix
            WHERE f.ts >= {first} AND f.ts < {last}
            GROUP BY w, probe, {_ENTRY}""",
        # ---- each flow once ----
        "chosen": """
            SELECT w, both_ways, argMin((src_addr, src_port), preference) AS source,
                   argMin(probe, preference) AS best
            FROM seen WHERE okey = 0 GROUP BY w, both_ways""",
        "observed": """
            SELECT s.*, c.best AS best, c.best = s.probe AND c.source = (s.src_addr, s.src_port) AS is_best
            FROM seen AS s INNER JOIN chosen AS c ON c.w = s.w AND c.both_ways = s.both_ways WHERE s.okey = 0""",
        "others": f"""
            SELECT c.w AS w, c.both_ways AS both_ways, {other("fwd")}, {other("rev")}
            FROM observed AS c INNER JOIN observed AS o ON o.w = c.w AND o.both_ways = c.both_ways
            WHERE c.is_best AND c.one_way GROUP BY w, both_ways""",
        "national": f"""
            SELECT w, {_ENTRY}, {joined}, {_ATTRIBUTES}, ipv6, first, began, guess, service_at_source,
                   one_way AND NOT ((c.fwd_packets = 0 AND c.other_fwd.2 > 0) OR (c.rev_packets = 0 AND c.other_rev.2 > 0))
                       AS one_way,
                   src_national, dst_national, nation_way
            FROM (SELECT o.*, if(o.is_best, t.other_fwd, ({zeros})) AS other_fwd,
                         if(o.is_best, t.other_rev, ({zeros})) AS other_rev
                  FROM observed AS o LEFT JOIN others AS t ON t.w = o.w AND t.both_ways = o.both_ways
                  WHERE o.probe = o.best) AS c
            UNION ALL
            SELECT w, {_ENTRY}, {", ".join(f"sum({name})" for name in _DIRECTED)},
                   {", ".join(f"max({name})" for name in _ATTRIBUTES.split(", "))}, max(ipv6), min(first), 0, min(guess),
                   max(service_at_source), min(one_way), max(src_national), max(dst_national), max(nation_way)
            FROM seen WHERE okey != 0 GROUP BY w, {_ENTRY}, one_way""",
        "counted": f"""
            SELECT w, 'probe' AS scope, probe, toUInt32(0) AS customer, {_ENTRY}, {", ".join(_DIRECTED)}, {_ATTRIBUTES},
                   ipv6, first, began, guess, service_at_source, one_way, src_at_site AS src_local, dst_at_site AS dst_local,
                   site_way AS way
            FROM seen
            UNION ALL
            SELECT w, if(of_customer = 0, 'all', 'customer'), '', of_customer, {_ENTRY}, {", ".join(_DIRECTED)},
                   {_ATTRIBUTES}, ipv6, first, began, guess, service_at_source, one_way, src_national, dst_national,
                   multiIf(of_customer = 0, nation_way, src_customer != of_customer, 'in',
                           dst_customer != of_customer, 'out', 'internal')
            FROM national
            ARRAY JOIN arrayDistinct(arrayConcat([toUInt32(0)], arrayFilter(c -> c != 0, [src_customer, dst_customer])))
                AS of_customer""",
        # Over all probes, the bytes left out are the sum of all observations minus the counted ones.
        "totals": """
            SELECT w, scope, probe, customer, sum(fwd_octets + rev_octets) AS window_octets,
                   sum(fwd_packets + rev_packets) AS window_packets, countIf(okey = 0) AS window_flows,
                   sumIf(fwd_octets + rev_octets, okey != 0) AS overflow_octets,
                   if(scope = 'all', any(s.octets) - window_octets, 0) AS duplicate_octets
            FROM counted AS c
            LEFT JOIN (SELECT w, sum(fwd_octets + rev_octets) AS octets FROM seen GROUP BY w) AS s USING w
            GROUP BY w, scope, probe, customer""",
        # ---- both ends ----
        "ends": f"{end(True)} WHERE okey IN (0, 1) UNION ALL {end(False)} WHERE okey IN (0, 2)",
        # ---- both ways of each flow, in windows of mixes ----
        "ways": """
            SELECT intDiv(w, 300) * 300 AS w, scope, probe, customer, way AS direction, application, ipv6, okey,
                   fwd_octets AS octets, fwd_packets AS packets, if(fwd_packets > 0, began, 0) AS began,
                   src_as AS sender_as, dst_as AS receiver_as, src_country AS sender_country,
                   dst_country AS receiver_country, src_customer AS sender_customer, dst_customer AS receiver_customer
            FROM counted WHERE fwd_packets > 0
            UNION ALL
            SELECT intDiv(w, 300) * 300 AS w, scope, probe, customer, transform(way, ['in', 'out'], ['out', 'in'], way),
                   application, ipv6, okey, rev_octets, rev_packets, if(fwd_packets > 0 AND way NOT IN ('in', 'out'), 0, began),
                   dst_as, src_as, dst_country, src_country, dst_customer, src_customer
            FROM counted WHERE rev_packets > 0""",
    } | _hosts(first, last, window, answer)


def _hosts(first: int, last: int, window: int, answer: int) -> dict[str, str]:
    edge = (window - answer) * 1000
    own = "".join(f", {sql} AS {name}" for name, sql in definitions()["host_counts"].items())
    return {
        # ---- what each host did; one-way observations are left out of what needs both directions ----
        "did": f"""
            SELECT w, scope, probe, host, max(host_customer) AS customer, max(local) AS local,
                   sumIf(tcp_syn_sent, tcp) AS syn_sent, sumIf(tcp_synack_sent, tcp) AS synack_sent,
                   sumIf(tcp_fin_sent, tcp) AS fin_sent, sumIf(tcp_rst_sent, tcp) AS rst_sent,
                   sumIf(tcp_syn_received, tcp) AS syn_recv, sumIf(tcp_synack_received, tcp) AS synack_recv,
                   sumIf(tcp_fin_received, tcp) AS fin_recv, sumIf(tcp_rst_received, tcp) AS rst_recv,
                   sumIf(packets_sent, tcp) AS tcp_sent, sumIf(packets_received, tcp) AS tcp_recv,
                   sumIf(packets_sent, protocol = 17 AND NOT one_way) AS udp_sent,
                   sum(icmp_errors_sent) AS icmp_sent, sum(icmp_errors_received) AS icmp_recv,
                   sum(icmp_errors_udp_received) AS icmp_recv_udp,
                   sumIf(packets_sent + packets_received, okey != 0) AS overflow_packets,
                   sumIf(packets_sent + packets_received, okey != 0 AND tcp) AS overflow_tcp_packets{own}
            FROM (SELECT *, protocol = 6 AND NOT one_way AS tcp FROM ends WHERE scope != 'customer')
            GROUP BY w, scope, probe, host""",
        # A SYN is judged in the window in which its answer's timeout ends; the answer may arrive until that window's
        # end.
        "attempts": f"""
            SELECT w AS tried, if(first < {edge}, w, w + {window}) AS judged,
                   probe, src_addr, dst_addr, src_port, dst_port, protocol, src_customer, src_at_site, src_national
            FROM seen
            WHERE protocol = 6 AND okey = 0 AND NOT one_way AND NOT guess AND fwd_tcp_syn > 0""",
        "answers": """
            SELECT w AS answered, probe, src_addr, dst_addr, src_port, dst_port, protocol
            FROM seen WHERE rev_tcp_synack > 0 AND NOT one_way AND okey = 0""",
        "contacts": """
            SELECT t.judged AS w, 'probe' AS scope, t.probe AS probe, t.src_addr AS host, t.dst_addr AS peer,
                   max(answered BETWEEN tried AND judged) AS replied,
                   max(src_customer) AS customer, max(src_at_site) AS local
            FROM attempts AS t
            LEFT JOIN answers AS a USING (probe, src_addr, dst_addr, src_port, dst_port, protocol)
            GROUP BY w, scope, probe, host, peer
            UNION ALL
            SELECT t.judged AS w, 'all' AS scope, '' AS nobody, t.src_addr AS host, t.dst_addr AS peer,
                   max(answered BETWEEN tried AND judged) AS replied,
                   max(src_customer) AS customer, max(src_national) AS local
            FROM attempts AS t
            LEFT JOIN (SELECT DISTINCT * EXCEPT probe FROM answers) AS a
                USING (src_addr, dst_addr, src_port, dst_port, protocol)
            GROUP BY w, scope, host, peer""",
        # A window has rows of a probe if the probe saw anything in it.
        "verdicts": """
            SELECT w, scope, probe, host, max(customer) AS customer, max(local) AS local,
                   countIf(NOT replied) AS failed, countIf(replied) AS answered
            FROM contacts WHERE (w, scope, probe) IN (SELECT w, scope, probe FROM totals)
            GROUP BY w, scope, probe, host""",
        "hosts": """
            SELECT w, scope, probe, host, d.host != toIPv6('::') OR d.w != 0 AS in_flows,
                   greatest(d.customer, v.customer) AS customer, greatest(d.local, v.local) AS local,
                   d.* EXCEPT (w, scope, probe, host, customer, local), v.failed AS failed, v.answered AS answered,
                   syn_sent + fin_sent + rst_recv AS control, tcp_sent + tcp_recv AS tcp_packets,
                   if(tcp_packets = 0, 0, intDiv(100 * control, tcp_packets)) AS work_weight,
                   if(syn_recv + syn_sent = 0, 0, intDiv(100 * synack_sent, syn_recv + syn_sent)) AS sa_s,
                   udp_sent * icmp_recv_udp AS udp_work_weight
            FROM did AS d FULL JOIN verdicts AS v USING (w, scope, probe, host)""",
        # ---- distinct counterparts, from the sketches of overflow records ----
        "sketches": f"""
            SELECT w, scope, probe, host, kind, toUInt64(sum(floor(estimate + 0.5))) AS estimate
            FROM (SELECT w, scope, name AS probe, host, {_KIND} AS kind,
                         maxForEach(arrayMap(i -> reinterpretAsUInt8(substring(sketch, i, 1)), range(1, 129))) AS registers,
                         {_ESTIMATE.replace(", arrayCount", " AS estimate, arrayCount", 1)}
                  FROM (SELECT toUnixTimestamp(toStartOfInterval(ts, INTERVAL {window} SECOND)) AS w, probe, src_addr AS host,
                               protocol, overflow_distinct AS sketch FROM weir.flows
                        WHERE ts >= {first} AND ts < {last} AND overflow_key = 'source_and_port' AND length(overflow_distinct) = 128) AS s
                  ARRAY JOIN ['probe', 'all'] AS scope, [s.probe, ''] AS name
                  GROUP BY w, scope, name, host, protocol)
            WHERE kind != '' GROUP BY w, scope, probe, host, kind""",
        # ---- what the flows of hosts reached ----
        "begun": f"""
            SELECT w, scope, probe, host, kind, uniqExactIf(peer, okey = 0) AS peers, uniqExact(peer_port) AS ports
            FROM (SELECT *, {_KIND} AS kind FROM ends WHERE scope != 'customer')
            WHERE is_source AND multiIf(kind = 'tcp', NOT guess, kind = 'udp', 1,
                                        kind = 'icmp', icmp_errors_sent + icmp_errors_received = 0, 0)
            GROUP BY w, scope, probe, host, kind""",
        "scans": """
            SELECT b.w AS w, b.scope AS scope, b.probe AS probe, b.host AS host, b.kind AS kind, ports,
                   peers + estimate AS addresses,
                   toUInt64(ceil(3 * 1.04 / sqrt(128) * estimate)) + least(estimate, peers) AS error
            FROM begun AS b LEFT JOIN sketches AS s USING (w, scope, probe, host, kind)""",
    }


def work_out(
    store: ClickHouse, first: int, last: int, *, window: int = 30, answer: int = 10, top: int = 50, report: int = 1000
) -> None:
    """Create all tables again from the rows of `flows` of a time range, in seconds; `store` is a connection of the user
    admin."""
    store.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
    store.execute(f"CREATE DATABASE {DATABASE}")
    steps = _steps(first, last, window, answer) | _declared(top=top, report=report, mix_top=50, mix_top_as=20)
    for name, select in steps.items():
        store.execute(f"CREATE TABLE {name} ENGINE = Memory AS {select}", database=DATABASE)


def expected(store: ClickHouse, name: str) -> Rows:
    """The rows of a table according to plain SQL."""
    table = definitions()["tables"][name]
    compared = ", ".join(f"{sql} AS {column}" for column, sql in table["compared"].items())
    key = ", ".join(["w", *(column for column in table["key"] if column not in table["compared"])])
    return _by_key(store, f"SELECT {key}, {compared} FROM {DATABASE}.{name}", table["key"])


def stored(store: ClickHouse, name: str, first: int, last: int) -> Rows:
    """The same rows, as the jobs stored them."""
    table = definitions()["tables"][name]
    columns = ", ".join(dict.fromkeys([*table["key"], *table["compared"]]))
    select = f"SELECT toUnixTimestamp(ts) AS w, {columns} FROM weir.{table['view']}"
    return _by_key(store, f"{select} WHERE ts >= {first} AND ts < {last}", table["key"])


def rows_stored(store: ClickHouse) -> list[int]:
    """The number of rows that the jobs have stored in each table, including all versions of a row."""
    return [count(store, f"SELECT count() FROM weir.{name}") for name in tables()]


def _by_key(store: ClickHouse, sql: str, key: list[str]) -> Rows:
    return {(row["w"], *(row[name] for name in key)): row for row in store.rows(sql)}


def count(store: ClickHouse, sql: str) -> int:
    """The number that a query returns."""
    return int(store.execute(sql))


def differences(store: ClickHouse, first: int, last: int) -> list[str]:
    """Differences between the jobs' rows of a time range and plain SQL over the rows as they are now, one line each."""
    work_out(store, first, last)
    found = []
    for name in tables():
        wanted, had = expected(store, name), stored(store, name, first, last)
        for key in sorted(wanted.keys() | had.keys(), key=str):
            a, b = wanted.get(key), had.get(key)
            if a is None or b is None:
                found.append(f"{name} {key}: {'stored, but not in plain SQL' if a is None else 'not stored'}: {b or a}")
            else:
                apart = ", ".join(f"{c} {b[c]!r} is to be {a[c]!r}" for c in a if a[c] != b[c])
                if apart:
                    found.append(f"{name} {key}: {apart}")
    return found
