"""The expected rows of the window jobs, computed by the store itself in plain SQL from the raw rows of `flows`.

Each step is a table of a separate database, so that the next one reads clearly: `seen` holds each probe's observation
of each flow in a window, `counted` the same by scope with each flow once, `ends` both ends of these, `hosts` the
activity of each host. From them come the tables that the jobs write, with the same columns. The definitions are those
of the tables' comments.
"""

from __future__ import annotations

from typing import Any

from weir.clickhouse import ClickHouse

DATABASE = "plain_sql"

# Rows of a table by their key: the window's start in seconds, then the columns that COMPARED names.
Rows = dict[tuple[Any, ...], dict[str, Any]]

# Columns of a flow that are counted by direction.
_COUNTS = ("octets", "packets", "tcp_syn", "tcp_synack", "tcp_fin", "tcp_rst", "icmp_errors")
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


def _steps(first: int, last: int, window: int, answer: int, top: int, report: int) -> dict[str, str]:
    """Name and SELECT of each table, in order of creation."""
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
                   first, one_way, guess, quotes_udp
            FROM counted"""

    shares = ["overflow_octets"] + [f"ipv{v}_{what}" for v in (4, 6) for what in ("octets", "packets", "flows")]
    talker_sums = """
        sum(octets_received) AS in_octets, sum(packets_received) AS in_packets,
        sum(octets_sent) AS out_octets, sum(packets_sent) AS out_packets,
        uniqExactIf(flow, okey = 0) AS flows, sumIf(octets_sent + octets_received, okey != 0) AS overflow_octets"""
    flow = f"tuple({_TUPLE}) AS flow"

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
                   max(f.icmp_quoted_protocol = 17) AS quotes_udp,
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
            SELECT w, {_ENTRY}, {joined}, {_ATTRIBUTES}, ipv6, first, began, guess, quotes_udp,
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
                   max(quotes_udp), min(one_way), max(src_national), max(dst_national), max(nation_way)
            FROM seen WHERE okey != 0 GROUP BY w, {_ENTRY}, one_way""",
        "counted": f"""
            SELECT w, 'probe' AS scope, probe, toUInt32(0) AS customer, {_ENTRY}, {", ".join(_DIRECTED)}, {_ATTRIBUTES},
                   ipv6, first, began, guess, quotes_udp, one_way, src_at_site AS src_local, dst_at_site AS dst_local,
                   site_way AS way
            FROM seen
            UNION ALL
            SELECT w, if(of_customer = 0, 'all', 'customer'), '', of_customer, {_ENTRY}, {", ".join(_DIRECTED)},
                   {_ATTRIBUTES}, ipv6, first, began, guess, quotes_udp, one_way, src_national, dst_national,
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
        # ---- top lists ----
        "top_flows": f"""
            SELECT c.w AS w, c.scope AS scope, c.probe AS probe, c.customer AS customer, list,
                   row_number() OVER (PARTITION BY w, scope, probe, customer, list ORDER BY value DESC, {_TUPLE}) AS rank,
                   {_TUPLE}, fwd_octets + rev_octets AS octets, fwd_packets + rev_packets AS packets,
                   fwd_octets, fwd_packets, rev_octets, rev_packets,
                   window_octets, window_packets, window_flows, overflow_octets, duplicate_octets
            FROM (SELECT *, concat(family, '_', by) AS list,
                         if(by = 'octets', fwd_octets + rev_octets, fwd_packets + rev_packets) AS value
                  FROM counted ARRAY JOIN arrayFilter(n -> n != '', ['ip', {_KIND}]) AS family
                  ARRAY JOIN ['octets', 'packets'] AS by
                  WHERE okey = 0 AND value > 0) AS c
            INNER JOIN totals AS t
                ON t.w = c.w AND t.scope = c.scope AND t.probe = c.probe AND t.customer = c.customer
            QUALIFY rank <= {top}""",
        "talkers": f"""
            SELECT w, scope, probe, toUInt32(0) AS of_customer, 'host' AS what, host AS addr, toUInt64(0) AS number,
                   max(host_customer) AS whose, {talker_sums}
            FROM (SELECT *, {flow} FROM ends WHERE scope != 'customer') GROUP BY w, scope, probe, host
            UNION ALL
            SELECT w, scope, probe, customer, if(protocol = 6, 'port_tcp', 'port_udp') AS list, toIPv6('::'),
                   toUInt64(dst_port) AS port, 0,
                   sum(fwd_octets), sum(fwd_packets), sum(rev_octets), sum(rev_packets),
                   uniqExactIf(flow, okey = 0), sumIf(fwd_octets + rev_octets, okey != 0)
            FROM (SELECT *, {flow} FROM counted WHERE protocol IN (6, 17) AND okey != 3)
            GROUP BY w, scope, probe, customer, list, port
            UNION ALL
            SELECT w, scope, probe, of_customer, 'as', toIPv6('::'), toUInt64(host_as) AS system, 0, {talker_sums}
            FROM (SELECT *, {flow} FROM ends WHERE host_as != 0) GROUP BY w, scope, probe, of_customer, system
            UNION ALL
            SELECT w, scope, probe, toUInt32(0), 'customer', toIPv6('::'), toUInt64(host_customer) AS whom, 0, {talker_sums}
            FROM (SELECT *, {flow} FROM ends WHERE host_customer != 0 AND scope != 'customer')
            GROUP BY w, scope, probe, whom""",
        "top_talkers": f"""
            SELECT c.w AS w, c.scope AS scope, c.probe AS probe, c.customer AS customer, list,
                   row_number() OVER (PARTITION BY w, scope, probe, customer, list ORDER BY value DESC, addr, number) AS rank,
                   addr, number, in_octets + out_octets AS octets, in_packets + out_packets AS packets,
                   in_octets, in_packets, out_octets, out_packets, flows, c.overflow_octets AS overflow_octets,
                   window_octets, window_packets, window_keys, t.overflow_octets AS window_overflow_octets
            FROM (SELECT *, multiIf(list = 'host_in', in_octets, list = 'host_out', out_octets, in_octets + out_octets) AS value,
                         count() OVER (PARTITION BY w, scope, probe, customer, list) AS window_keys
                  FROM (SELECT * REPLACE (if(what = 'host' AND whom != 0, 'customer', scope) AS scope),
                               if(what = 'host', whom, of_customer) AS customer
                        FROM (SELECT *, arrayJoin(if(what = 'host' AND scope = 'all' AND whose != 0, [toUInt32(0), whose], [toUInt32(0)])) AS whom,
                                     arrayJoin(if(what = 'host', ['host_in', 'host_out'], [what])) AS list FROM talkers))) AS c
            INNER JOIN totals AS t
                ON t.w = c.w AND t.scope = c.scope AND t.probe = c.probe AND t.customer = c.customer
            WHERE value > 0
            QUALIFY rank <= {top}""",
        # ---- mixes ----
        "ways": """
            SELECT intDiv(w, 300) * 300 AS w, scope, probe, customer, way AS direction, application, ipv6, okey,
                   fwd_octets AS octets, fwd_packets AS packets, if(fwd_packets > 0, began, 0) AS began,
                   src_as AS sender_as, dst_as AS receiver_as, src_country AS sender_country,
                   dst_country AS receiver_country, src_customer AS sender_customer, dst_customer AS receiver_customer
            FROM counted WHERE fwd_packets > 0
            UNION ALL
            SELECT intDiv(w, 300) * 300 AS w, scope, probe, customer, transform(way, ['in', 'out'], ['out', 'in'], way),
                   application, ipv6, okey, rev_octets, rev_packets, if(fwd_packets > 0, 0, began),
                   dst_as, src_as, dst_country, src_country, dst_customer, src_customer
            FROM counted WHERE rev_packets > 0""",
        "shares": """
            SELECT w, scope, probe, customer, part.1 AS dimension, direction, toUInt32(part.2) AS number,
                   sumIf(octets, NOT ipv6) AS ipv4_octets, sumIf(packets, NOT ipv6) AS ipv4_packets,
                   sumIf(began, NOT ipv6) AS ipv4_flows, sumIf(octets, ipv6) AS ipv6_octets,
                   sumIf(packets, ipv6) AS ipv6_packets, sumIf(began, ipv6) AS ipv6_flows,
                   sumIf(octets, okey != 0) AS overflow_octets
            FROM ways
            ARRAY JOIN [('total', toUInt32(0)), ('application', toUInt32(application)),
                        ('as', if(direction = 'out', receiver_as, sender_as)),
                        ('country', toUInt32(if(direction = 'out', receiver_country, sender_country))),
                        ('customer', if(direction = 'in', receiver_customer, sender_customer))] AS part
            GROUP BY w, scope, probe, customer, dimension, direction, number""",
        "mixes": f"""
            SELECT w, scope, probe, customer, dimension, direction, rank, number, remainder,
                   ipv4_octets + ipv6_octets AS octets, ipv4_packets + ipv6_packets AS packets,
                   ipv4_flows + ipv6_flows AS flows, ipv4_octets, ipv4_packets, ipv4_flows, ipv6_octets, ipv6_packets,
                   ipv6_flows, overflow_octets, direction_octets, direction_packets, direction_flows
            FROM (SELECT w, scope, probe, customer, dimension, direction, least(place, most + 1) AS rank,
                         if(rank > most, 0, any(number)) AS number, rank > most AS remainder,
                         {", ".join(f"sum({name}) AS {name}" for name in shares)}
                  FROM (SELECT *, multiIf(dimension = 'as', 20, dimension = 'country', 300, 50) AS most,
                               row_number() OVER (PARTITION BY w, scope, probe, customer, dimension, direction
                                                  ORDER BY ipv4_octets + ipv6_octets DESC, number) AS place FROM shares)
                  GROUP BY w, scope, probe, customer, dimension, direction, rank, most) AS s
            INNER JOIN (SELECT w, scope, probe, customer, direction, ipv4_octets + ipv6_octets AS direction_octets,
                               ipv4_packets + ipv6_packets AS direction_packets, ipv4_flows + ipv6_flows AS direction_flows
                        FROM shares WHERE dimension = 'total') AS t USING (w, scope, probe, customer, direction)""",
    } | _indicators(first, last, window, answer, top, report)


def _indicators(first: int, last: int, window: int, answer: int, top: int, report: int) -> dict[str, str]:
    edge = (window - answer) * 1000
    stats = ("syn_sent", "fin_recv", "rst_recv", "tcp_packets", "work_weight", "udp_sent", "icmp_errors_sent")
    ports = "arraySlice(arraySort(p -> (p.2, p.1), groupArray((port, seen, packets))), 1, 10)"
    return {
        # ---- activity of each host; one-way observations are left out of figures that need both directions ----
        "did": """
            SELECT w, scope, probe, host, max(host_customer) AS customer, max(local) AS local,
                   sumIf(tcp_syn_sent, tcp) AS syn_sent, sumIf(tcp_synack_sent, tcp) AS synack_sent,
                   sumIf(tcp_fin_sent, tcp) AS fin_sent, sumIf(tcp_rst_sent, tcp) AS rst_sent,
                   sumIf(tcp_syn_received, tcp) AS syn_recv, sumIf(tcp_synack_received, tcp) AS synack_recv,
                   sumIf(tcp_fin_received, tcp) AS fin_recv, sumIf(tcp_rst_received, tcp) AS rst_recv,
                   sumIf(packets_sent, tcp) AS tcp_sent, sumIf(packets_received, tcp) AS tcp_recv,
                   sumIf(packets_sent, protocol = 17 AND NOT one_way) AS udp_sent,
                   sum(icmp_errors_sent) AS icmp_sent, sum(icmp_errors_received) AS icmp_recv,
                   sumIf(icmp_errors_received, quotes_udp) AS icmp_recv_udp,
                   sumIf(packets_sent + packets_received, okey != 0) AS overflow_packets,
                   sumIf(packets_sent + packets_received, okey != 0 AND tcp) AS overflow_tcp_packets
            FROM (SELECT *, protocol = 6 AND NOT one_way AS tcp FROM ends WHERE scope != 'customer')
            GROUP BY w, scope, probe, host""",
        # A SYN is judged in the window in which its answer's timeout ends; the answer may come until that window's end.
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
        # ---- TCP port report ----
        "tcp_sent": """
            SELECT w, scope, probe, host, peer, okey, own_port, peer_port, packets_sent AS packets, first
            FROM ends WHERE protocol = 6 AND NOT one_way AND packets_sent > 0 AND scope != 'customer'""",
        "reached": """
            SELECT w, scope, probe, host, uniqExactIf(peer, okey = 0) AS peers, uniqExact(peer_port) AS l4d
            FROM tcp_sent GROUP BY w, scope, probe, host""",
        "peer_ports": f"""
            SELECT w, scope, probe, host, {ports} AS ports
            FROM (SELECT w, scope, probe, host, peer_port AS port, min(first) AS seen, sum(packets) AS packets
                  FROM tcp_sent GROUP BY w, scope, probe, host, port) GROUP BY w, scope, probe, host""",
        "own_ports": f"""
            SELECT w, scope, probe, host, {ports} AS ports
            FROM (SELECT w, scope, probe, host, own_port AS port, min(first) AS seen, sum(packets) AS packets
                  FROM tcp_sent WHERE okey = 0 GROUP BY w, scope, probe, host, port) GROUP BY w, scope, probe, host""",
        "port_report": f"""
            SELECT h.w AS w, h.scope AS scope, h.probe AS probe,
                   row_number() OVER (PARTITION BY w, scope, probe ORDER BY host) AS rank,
                   h.host AS host, customer, local, syn_sent, synack_sent, fin_sent, rst_sent,
                   syn_recv, synack_recv, fin_recv, rst_recv, tcp_packets, tcp_sent, work_weight, sa_s,
                   peers + estimate AS l3d, l4d, icmp_recv AS icmp_errors,
                   concat(if(icmp_recv > 0, 'E', ''), multiIf(work_weight >= 90, 'W', work_weight >= 50, 'w', ''),
                          if(fin_recv = 0, 'O', ''), if(rst_recv > 0, 'R', ''),
                          if(toInt64(tcp_recv) - toInt64(syn_recv + synack_recv + fin_recv + rst_recv) < toInt64(syn_sent),
                             'M', '')) AS flags,
                   arrayStringConcat(arrayMap(p -> concat(toString(p.1), ':', toString(intDiv(1000 * p.3, tcp_sent))),
                                              arraySort(p.ports)), ',') AS port_signature,
                   arrayStringConcat(arrayMap(p -> concat(toString(p.1), ':', toString(p.3)), arraySort(o.ports)), ',')
                       AS l4s,
                   overflow_tcp_packets AS overflow_packets,
                   toUInt64(ceil(3 * 1.04 / sqrt(128) * estimate)) + least(estimate, peers) AS l3d_error
            FROM (SELECT *, row_number() OVER (PARTITION BY w, scope, probe ORDER BY control DESC, host) AS place FROM hosts
                  WHERE control > 0 AND tcp_packets > 0 QUALIFY place <= {report}) AS h
            LEFT JOIN reached AS r ON r.w = h.w AND r.scope = h.scope AND r.probe = h.probe AND r.host = h.host
            LEFT JOIN peer_ports AS p ON p.w = h.w AND p.scope = h.scope AND p.probe = h.probe AND p.host = h.host
            LEFT JOIN own_ports AS o ON o.w = h.w AND o.scope = h.scope AND o.probe = h.probe AND o.host = h.host
            LEFT JOIN (SELECT * FROM sketches WHERE kind = 'tcp') AS s
                ON s.w = h.w AND s.scope = h.scope AND s.probe = h.probe AND s.host = h.host""",
        # ---- lists ----
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
        "values": """
            SELECT w, scope, probe, host, 'syn_senders' AS list, toInt64(syn_sent) AS value, toUInt64(0) AS error,
                   toUInt64(0) AS addresses, toUInt64(0) AS ports FROM hosts
            UNION ALL SELECT w, scope, probe, host, 'scan_failures', toInt64(failed) - toInt64(answered), 0, 0, 0 FROM hosts
            UNION ALL SELECT w, scope, probe, host, 'icmp_senders', toInt64(icmp_sent), 0, 0, 0 FROM hosts
            UNION ALL SELECT w, scope, probe, host, 'icmp_causers', toInt64(icmp_recv_udp), 0, 0, 0 FROM hosts
            UNION ALL SELECT w, scope, probe, host, 'udp_work_weight', toInt64(udp_work_weight), 0, 0, 0 FROM hosts
            UNION ALL SELECT w, scope, probe, host, concat('scan_addresses_', kind), toInt64(addresses), error, addresses,
                             ports FROM scans WHERE addresses >= 2
            UNION ALL SELECT w, scope, probe, host, concat('scan_ports_', kind), toInt64(ports), 0, addresses, ports
                      FROM scans WHERE ports >= 2 AND kind != 'icmp'""",
        "top_indicators": f"""
            SELECT w, if(whose = 0, scope, 'customer') AS scope, probe, whose AS customer, list,
                   row_number() OVER (PARTITION BY w, v.scope, probe, whose, list ORDER BY value DESC, host) AS rank,
                   host, value, error AS value_error, local, {", ".join(s for s in stats if s != "icmp_errors_sent")},
                   icmp_sent AS icmp_errors_sent, icmp_recv_udp AS icmp_errors_recv, addresses, ports, failed, answered,
                   overflow_packets
            FROM values AS v
            INNER JOIN (SELECT *, arrayJoin(if(scope = 'all' AND customer != 0, [toUInt32(0), customer], [toUInt32(0)])) AS whose
                        FROM hosts) AS h USING (w, scope, probe, host)
            WHERE value > 0
            QUALIFY rank <= {top}""",
        "indicators": """
            SELECT h.w AS w, if(whose = 0, h.scope, 'customer') AS scope, h.probe AS probe, whose AS customer,
                   countIf(in_flows) AS hosts, countIf(control > 0 AND tcp > 0) AS report_hosts,
                   countIf(syns >= 10 AND work_weight >= 40 AND local) AS worms_us,
                   countIf(syns >= 10 AND work_weight >= 40 AND NOT local) AS worms_them,
                   max(weight) AS udp_work_weight,
                   if(udp_work_weight = 0, '', weir_addr(argMin(host, (-toInt64(weight), host)))) AS udp_work_weight_host,
                   countIf(toInt64(not_answered) - toInt64(were_answered) >= 4) AS scanners,
                   sum(not_answered) AS failed, if(whose = 0, any(o.tcp_syns), sum(syns)) AS syn_sent,
                   sum(tcp) AS tcp_packets, sum(icmp_sent) AS icmp_errors, sum(overflowed) AS overflow_packets,
                   if(whose = 0, any(o.packets), 0) AS one_way_packets
            FROM (SELECT *, failed AS not_answered, answered AS were_answered, syn_sent AS syns, tcp_packets AS tcp,
                         udp_work_weight AS weight, overflow_packets AS overflowed,
                         arrayJoin(if(scope = 'all' AND customer != 0, [toUInt32(0), customer], [toUInt32(0)])) AS whose
                  FROM hosts) AS h
            LEFT JOIN (SELECT w, scope, probe, sumIf(fwd_packets + rev_packets, one_way) AS packets,
                              sumIf(fwd_tcp_syn + rev_tcp_syn, protocol = 6 AND NOT one_way) AS tcp_syns
                       FROM counted WHERE scope != 'customer' GROUP BY w, scope, probe) AS o
                ON o.w = h.w AND o.scope = h.scope AND o.probe = h.probe
            GROUP BY h.w, h.scope, h.probe, whose""",
    }


# The comparison: the view, the key of its rows, and the other columns with their plain SQL.
_SCOPE = ("scope", "probe")
_OF = (*_SCOPE, "customer")
COMPARED: dict[str, tuple[tuple[str, ...], str]] = {
    "top_flows": (
        (*_OF, "list", "rank"),
        "weir_protocol_name(protocol) AS protocol_name, weir_addr(src_addr) AS src, src_port, weir_addr(dst_addr) AS dst, "
        "dst_port, octets, packets, fwd_octets, fwd_packets, rev_octets, rev_packets, window_octets, window_packets, "
        "window_flows, overflow_octets, duplicate_octets",
    ),
    "top_talkers": (
        (*_OF, "list", "rank"),
        "if(startsWith(list, 'host'), weir_addr(addr), '') AS host, number, octets, packets, in_octets, in_packets, "
        "out_octets, out_packets, flows, overflow_octets, window_octets, window_packets, window_keys, window_overflow_octets",
    ),
    "mixes": (
        (*_OF, "dimension", "direction", "rank"),
        "number, remainder, octets, packets, flows, ipv4_octets, ipv4_packets, ipv4_flows, ipv6_octets, ipv6_packets, "
        "ipv6_flows, overflow_octets, direction_octets, direction_packets, direction_flows",
    ),
    "port_report": (
        (*_SCOPE, "rank"),
        "weir_addr(host) AS host, customer, local, syn_sent, synack_sent, fin_sent, rst_sent, syn_recv, synack_recv, "
        "fin_recv, rst_recv, tcp_packets, tcp_sent, work_weight, sa_s, l3d, l4d, icmp_errors, flags, port_signature, l4s, "
        "overflow_packets, l3d_error",
    ),
    "top_indicators": (
        (*_OF, "list", "rank"),
        "weir_addr(host) AS host, value, value_error, local, syn_sent, fin_recv, rst_recv, tcp_packets, work_weight, "
        "udp_sent, icmp_errors_sent, icmp_errors_recv, addresses, ports, failed, answered, overflow_packets",
    ),
    "indicators": (
        _OF,
        "hosts, report_hosts, worms_us, worms_them, udp_work_weight, udp_work_weight_host, scanners, failed, "
        "syn_sent, tcp_packets, icmp_errors, overflow_packets, one_way_packets",
    ),
}


def work_out(
    store: ClickHouse, first: int, last: int, *, window: int = 30, answer: int = 10, top: int = 50, report: int = 1000
) -> None:
    """Create all tables again from the rows of `flows` of a time range, in seconds; `store` is the admin's."""
    store.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
    store.execute(f"CREATE DATABASE {DATABASE}")
    for name, select in _steps(first, last, window, answer, top, report).items():
        store.execute(f"CREATE TABLE {name} ENGINE = Memory AS {select}", database=DATABASE)


def expected(store: ClickHouse, name: str) -> Rows:
    """The rows of a table from plain SQL."""
    key, columns = COMPARED[name]
    return _by_key(store, f"SELECT w, {', '.join(key)}, {columns} FROM {DATABASE}.{name}", key)


def stored(store: ClickHouse, name: str, first: int, last: int) -> Rows:
    """The same rows as the jobs stored them."""
    key, columns = COMPARED[name]
    names = [column.rsplit(" AS ", 1)[-1].strip() for column in _split(columns)]
    select = f"SELECT toUnixTimestamp(ts) AS w, {', '.join(key)}, {', '.join(names)} FROM weir.v_{name}"
    return _by_key(store, f"{select} WHERE ts >= {first} AND ts < {last}", key)


def _split(columns: str) -> list[str]:
    """The columns between commas outside brackets."""
    depth, start, parts = 0, 0, []
    for at, letter in enumerate(columns):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(columns[start:at])
            start = at + 1
    return [*parts, columns[start:]]


def _by_key(store: ClickHouse, sql: str, key: tuple[str, ...]) -> Rows:
    return {(row["w"], *(row[name] for name in key)): row for row in store.rows(sql)}


def count(store: ClickHouse, sql: str) -> int:
    """The number in the answer."""
    return int(store.execute(sql))


def differences(store: ClickHouse, first: int, last: int) -> list[str]:
    """Differences between the jobs' rows of a time range and plain SQL over the rows as they are now, one line each."""
    work_out(store, first, last)
    found = []
    for name in COMPARED:
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
