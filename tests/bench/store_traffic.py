"""Rows as a nation's probes would store them, made by the engine itself about as fast as it stores them.

Row `n` is slot `n % slots` of interval `n / slots`. A slot holds one flow after the other, most of them for one interval,
a few for an hour; what is constant in a flow is drawn from a hash of slot and turn, what is not from a hash with the
interval as well. So rows can be made piece by piece, in any order, and the same rows come again.

Hosts, servers, names and ports have heavy tails. A host asks the servers it knows more often than others; an inside
address is of its probe's network, an outside one has the network and country of its /20 (IPv6: /40). `bench_store.py`
holds the rows against those of real captures, column by column.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Kinds of flows, and of 1,000 flows how many are of an earlier kind.
KINDS = {
    "tls": 0,  # TCP 443
    "quic": 280,  # UDP 443
    "dns": 380,
    "http": 570,
    "ntp": 620,
    "icmp": 635,
    "known": 655,  # mail, shells, proxies and the like
    "scan": 705,  # a SYN that nobody answers
    "peer": 845,  # UDP between high ports: calls, games, file sharing
    "tail": 900,  # TCP to any port
}
WORDS = "'north', 'media', 'cloud', 'data', 'shop', 'news', 'mail', 'play', 'video', 'bank', 'city', 'app'"
KNOWN_PORTS = "[22, 25, 993, 587, 8080, 8443, 3389, 5222, 1883, 5228, 21, 143]"
SCANNED_PORTS = "[23, 22, 445, 8080, 3389, 80, 443, 5555, 2323, 81, 8443, 1433, 6379, 3306, 5060, 8081]"
REGISTERED = "(1433, 1883, 3306, 3389, 3478, 5060, 5222, 6379, 8080, 8443)"
APPLICATIONS = "[91, 126, 119, 124, 220, 212, 178, 211, 140, 157, 176, 7]"
WAYS = "Enum8('unknown' = 0, 'out' = 1, 'in' = 2, 'internal' = 3, 'transit' = 4)"


@dataclass(frozen=True)
class Traffic:
    """How much: probes, records of each in an interval, length of an interval, hosts inside each, and when it begins.

    Each probe has 40,000 IPv4 addresses inside, 157 networks of 256.
    """

    start: int  # seconds from 1970
    probes: int = 4
    per_interval: int = 7_500
    interval_s: int = 10
    hosts: int = 8_000

    @property
    def slots(self) -> int:
        """Records of an interval, of all probes."""
        return self.probes * self.per_interval

    def span_s(self, rows: int) -> float:
        """Seconds that so many rows cover."""
        return rows / self.slots * self.interval_s


def draw(number: int, of: str = "flow") -> str:
    """64 random bits that depend on the number and on the flow, or the row."""
    return f"intHash64({of} + {number * 0x9E3779B97F4A7C15 % 2**64})"


def unit(bits: str) -> str:
    """64 random bits as a number from 0 to 1."""
    return f"({bits} / 18446744073709551616.)"


def ranked(bits: str, count: int) -> str:
    """A rank from 0 to `count` by Zipf's law with exponent 1: each decade of ranks is as frequent."""
    return f"toUInt64(exp({unit(bits)} * log({count + 1})) - 1)"


def address(side: str) -> str:
    """The address of a side from its halves, or from its 32 bits."""
    halves = ", ".join(f"reverse(reinterpretAsFixedString({side}_{half}))" for half in ("high", "low"))
    mapped = f"unhex('00000000000000000000FFFF'), reverse(reinterpretAsFixedString(toUInt32({side}_four)))"
    return f"CAST(toFixedString(if(six, concat({halves}), concat({mapped})), 16) AS IPv6)"


def network(side: str, inside: str) -> dict[str, str]:
    """AS and country of an address as columns: those of its /20 or /40, few of them have most. Inside it is one nation."""
    of = f"sipHash64(bitShiftRight(toUInt128({side}_addr), if(ip_version = 4, 12, 88)))"
    rank = f"toUInt64(exp({unit(of)} * 11))"
    nation = f"toUInt64(pow({unit(f'intHash64({rank} + 5)')}, 3) * 180)"
    country = f"16705 + intHash64({nation}) % 26 * 256 + intHash64({nation} + 1) % 26"
    return {
        f"{side}_as": f"toUInt32(if({inside}, 57000 + bitShiftRight(toUInt128({side}_addr), if(ip_version = 4, 16, 96)) % 7, intHash64({rank}) % 400000))",
        f"{side}_country": f"toUInt16(if({inside}, 20047, {country}))",
    }


def name(of: str) -> str:
    """A host name of the usual length that belongs to 64 bits."""
    return (
        f"concat(arrayElement(['www.', 'api.', 'cdn.', '', 'static.', 'img', 'edge-', 'm.'], 1 + {of} % 8), "
        f"arrayElement([{WORDS}], 1 + intDiv({of}, 8) % 12), lower(hex(toUInt16(intDiv({of}, 96) % 65536))), "
        f"arrayElement(['.com', '.net', '.no', '.org', '.io'], 1 + intDiv({of}, 7000) % 5))"
    )


def flows(traffic: Traffic, first: int, rows: int) -> str:
    """A SELECT of rows `first` to `first + rows` with the columns of `flows` that are not always defaults."""
    inner = _slots(traffic, first, rows)
    for layer in (_kinds(traffic), _ends(), _sides(), _amounts()):
        inner = f"SELECT *, {', '.join(f'{sql} AS {column}' for column, sql in layer.items())} FROM ({inner})"
    inner = f"SELECT *, {', '.join(f'{sql} AS {column}' for column, sql in _columns(traffic).items())} FROM ({inner})"
    columns = {column: column for column in _columns(traffic)} | network("src", "src_in") | network("dst", "dst_in")
    for side in ("src", "dst"):
        # Half of a probe's addresses are in two large prefixes, as homes are, the others in networks of 1,024.
        wide = f"if(bitAnd({side}_four, 65535) < 20000, 16384, 1024)"
        block = f"intHash64(intDiv(if(six, {side}_high, {side}_four), if(six, 1048576, {wide})))"
        columns[f"{side}_prefix"] = f"toUInt32(if({side}_in AND {block} % 10 < 7, 1 + {block} % 20000, 0))"
        columns[f"{side}_customer"] = f"toUInt32(if({side}_prefix = 0, 0, 1 + intHash64({side}_prefix) % 3000))"
    return "SELECT " + ", ".join(f"{sql} AS {column}" for column, sql in columns.items()) + f" FROM ({inner})"


def hourly(traffic: Traffic, first: int, rows: int) -> str:
    """A SELECT of as many rows of `flows_hourly`; the traffic's intervals are hours."""
    return (
        "SELECT ts, probe, 'flow' AS record_kind, src_addr, "
        "weir_unanswered('flow', rev_packets, protocol, fwd_packets, fwd_tcp_syn, dst_port, probe) AS folded, "
        "if(folded, weir_network(raw.dst_addr, ip_version), raw.dst_addr) AS dst_addr, "
        "protocol, weir_kept_port(service, 'flow', protocol, dst_port) AS port, src_prefix, dst_prefix, src_customer, dst_customer, "
        "src_as, dst_as, src_country, dst_country, site_direction, nation_direction, application_id, "
        "toUInt64(1 + intDiv(fwd_packets, 4)) AS records, toUInt64(1 + intDiv(fwd_packets, 8)) AS flows, "
        "fwd_packets, fwd_octets, rev_packets, rev_octets, toUInt64(raw.fwd_tcp_syn) AS fwd_tcp_syn, toUInt64(raw.rev_tcp_rst) AS rev_tcp_rst "
        f"FROM ({flows(traffic, first, rows)}) AS raw"
    )


def talkers(probes: int, listed: int, day: str) -> str:
    """A SELECT of rows of `talkers_daily` of one day: `listed` hosts of each probe, most of them the same every day, and the rest."""
    inside = f"1308622848 + number % {probes} * 65536 + host % 40000"
    four = f"toUInt32(if(host % 4, 16777216 + host % 3238002688, {inside}))"
    columns = {
        "day": "day",
        "probe": f"concat('probe-', toString(number % {probes}))",
        "rank": "place",
        "addr": "if(place = 0, toIPv6('::'), CAST(toFixedString(concat(unhex('00000000000000000000FFFF'), "
        f"reverse(reinterpretAsFixedString({four}))), 16) AS IPv6))",
        "network": "false",
        "customer": "toUInt32(if(host % 4, 0, 1 + host % 3000))",
        "as_number": "toUInt32(host % 60000)",
        "country": "toUInt16(16705 + host % 26 * 256 + intDiv(host, 26) % 26)",
        "hosts": "toUInt64(if(place = 0, 150000, 1))",
        "received_octets": f"toUInt64(8e11 / if(place = 0, 0.2, place) * (0.5 + {unit('dice')}))",
        "sent_octets": "toUInt64(received_octets * ((intHash64(host + 1) % 1000) / 1500.))",
        "received_packets": "intDiv(received_octets, 900 + host % 500)",
        "sent_packets": "intDiv(sent_octets, 400 + host % 700)",
        "flows_begun": "intDiv(received_packets, 50 + dice % 100)",
        "flows_received": "intDiv(sent_packets, 50 + dice % 200)",
    }
    return (
        "SELECT "
        + ", ".join(f"{sql} AS {column}" for column, sql in columns.items())
        + f" FROM (SELECT number, toDate('{day}') AS day, toUInt16(intDiv(number, {probes})) AS place, "
        "intHash64(number + toUInt64(day) * 1000003) AS dice, "
        # Of ten hosts seven are there every day, and three are others each day.
        f"intHash64(if(dice % 10 < 7, number, dice) + 1) AS host FROM numbers({probes * (listed + 1)}))"
    )


def national(day: str, listed: int) -> str:
    """An INSERT of a day's national list, from the lists of all probes."""
    sums = "sent_packets", "sent_octets", "received_packets", "received_octets", "flows_begun", "flows_received"
    added = ", ".join(f"sum(t.{column}) AS {column}" for column in sums)
    kept = ("addr", "network", "customer", "as_number", "country", "probes", "hosts", *sums)
    return (
        f"INSERT INTO national_talkers_daily (day, rank, {', '.join(kept)}) SELECT '{day}' AS day, "
        f"toUInt16(row_number() OVER (ORDER BY sent_octets + received_octets DESC, addr)) AS rank, {', '.join(kept)} FROM ("
        "SELECT addr, any(t.network) AS network, any(t.customer) AS customer, any(t.as_number) AS as_number, any(t.country) AS country, "
        f"count() AS probes, toUInt64(1) AS hosts, {added} FROM talkers_daily AS t WHERE day = '{day}' AND t.rank > 0 GROUP BY addr "
        f"ORDER BY sent_octets + received_octets DESC LIMIT {listed})"
    )


def mixes(probes: int, days: int, day: str) -> str:
    """A SELECT of rows of `mixes_daily` of so many days from `day`: of each probe and of all, totals and 40 of each dimension."""
    return (
        "SELECT dimension, scope, probe, direction, number, day, windows, octets, packets, flows, ipv6_octets, ipv6_packets, ipv6_flows FROM ("
        f"SELECT toDate('{day}') + intDiv(n, {484 * (probes + 1)}) AS day, n % {484 * (probes + 1)} AS rest, rest % 4 AS way, intDiv(rest, 4) % 121 AS place, "
        "intDiv(rest, 484) AS place_of_probe, if(place_of_probe = 0, 'all', 'probe') AS scope, "
        "if(place_of_probe = 0, '', concat('probe-', toString(place_of_probe - 1))) AS probe, "
        "multiIf(place = 0, 'total', place <= 40, 'application', place <= 80, 'as', 'country') AS dimension, "
        "['out', 'in', 'internal', 'transit'][1 + way] AS direction, toUInt32(if(place = 0, 0, intHash64(place) % 60000)) AS number, "
        "toUInt32(288) AS windows, intHash64(n) AS dice, "
        "toUInt64(if(place_of_probe = 0, 200, 1) * 4e12 / (1 + place) * (0.5 + dice / 18446744073709551616.)) AS octets, "
        "intDiv(octets, 700 + dice % 200) AS packets, intDiv(packets, 40 + dice % 30) AS flows, intDiv(octets * 3, 10) AS ipv6_octets, "
        "intDiv(packets * 3, 10) AS ipv6_packets, intDiv(flows * 3, 10) AS ipv6_flows "
        f"FROM (SELECT number AS n FROM numbers({days * 4 * 121 * (probes + 1)})))"
    )


def _is(*kinds: str) -> str:
    numbers = [str(list(KINDS).index(kind)) for kind in kinds]
    return f"(kind IN ({', '.join(numbers)}))"


TCP = _is("tls", "http", "known", "scan", "tail")
WEB = _is("tls", "quic", "http")
SCAN, DNS, NTP, ICMP, KNOWN, PEER = (_is(kind) for kind in ("scan", "dns", "ntp", "icmp", "known", "peer"))


def _slots(traffic: Traffic, first: int, rows: int) -> str:
    """Where a row is, and which flow its slot holds: since when, and whether it ends in this interval."""
    return (
        f"SELECT number % {traffic.slots} AS slot, slot % {traffic.probes} AS probe_number, "
        f"{traffic.start // traffic.interval_s} + intDiv(number, {traffic.slots}) AS interval, intHash64(slot + 77) AS dice_of_slot, "
        "arrayElement([1, 2, 6, 30, 360], multiIf(dice_of_slot % 100 < 68, 1, dice_of_slot % 100 < 84, 2, dice_of_slot % 100 < 93, 3, "
        "dice_of_slot % 100 < 98, 4, 5)) AS life, intDiv(dice_of_slot, 128) % life AS phase, intDiv(interval + phase, life) AS turn, "
        "turn * life - phase AS begun, begun = interval AS new, (interval + 1 + phase) % life = 0 AS ends, "
        f"intHash64(slot * 1000003 + turn) AS flow, intHash64(flow + interval * 7919) AS row FROM numbers({first}, {rows})"
    )


def _kinds(traffic: Traffic) -> dict[str, str]:
    """What flow it is, which way it goes, and the hosts and servers of its ends by number."""
    ends = list(KINDS.values())[1:]
    kind = "multiIf(" + ", ".join(f"dice < {end}, {number}" for number, end in enumerate(ends)) + f", {len(ends)})"
    local = "(host + probe_number * 1000000)"
    favourite = ranked(f"intHash64({local} * 64 + toUInt64(40 * pow({unit(draw(8))}, 2)))", 2_000_000)
    return {
        "dice": f"{draw(1)} % 1000",
        "kind": kind,
        "dice_of_way": f"{draw(2)} % 100",
        "way": f"multiIf({SCAN} OR {PEER} AND dice_of_way < 40, 2, dice_of_way < 76, 1, dice_of_way < 93, 2, dice_of_way < 98, 3, 4)",
        "six": f"way IN (1, 2) AND {draw(3)} % 100 < multiIf({WEB}, 30, {DNS}, 12, {ICMP}, 25, {PEER}, 10, 2)",
        "host": f"toUInt64({traffic.hosts} * pow({unit(draw(4))}, 2.5))",
        "other": f"toUInt64({traffic.hosts} * pow({unit(draw(5))}, 4))",
        "host_bits": f"intHash64{local}",
        "other_bits": "intHash64(other + probe_number * 1000000)",
        "server": f"multiIf({DNS} AND {draw(6)} % 100 < 80, {draw(7)} % 5 + probe_number % 3, "
        f"{SCAN}, {ranked(draw(8), 60_000)} + 10000000, {PEER}, {ranked(draw(8), 40_000_000)} + 50000000, "
        f"{draw(9)} % 100 < 65, {favourite}, {ranked(draw(9), 2_000_000)})",
    }


def _ends() -> dict[str, str]:
    """Addresses: of IPv4 32 bits, of IPv6 two halves. Three servers share a /24 or a /40."""
    return {
        "near": f"toUInt64(1308622848 + probe_number * 65536 + if({SCAN}, {draw(10)} % 65536, host_bits % 40000))",
        "near_too": "toUInt64(1308622848 + probe_number * 65536 + other_bits % 40000)",
        "place": "intHash64(intDiv(server, 3) + 5)",
        "far": "toUInt64(bitAnd(16777216 + place % 3238002688, 4294967040) + intHash64(server) % 256)",
        "far_too": f"toUInt64(16777216 + intHash64({draw(11)} % 4000000 + 9) % 3238002688)",
        "near_high": "bitOr(toUInt64(0x2a00000000000000), bitOr(bitShiftLeft(probe_number, 32), bitShiftLeft(host_bits % 40000, 8)))",
        "near_low": "intHash64(host_bits)",
        "far_high": "bitOr(toUInt64(0x2600000000000000), bitShiftLeft(place % 1048576, 24))",
        "far_low": "if(server % 3 = 0, intHash64(server), intHash64(server) % 65536)",
    }


def _sides() -> dict[str, str]:
    return {
        "src_in": "way IN (1, 3)",
        "dst_in": "way IN (2, 3)",
        "src_high": "if(src_in, near_high, far_high)",
        "src_low": "if(src_in, near_low, far_low)",
        "dst_high": "if(dst_in, near_high, far_high)",
        "dst_low": "if(dst_in, near_low, far_low)",
        "src_four": "if(src_in, near, far)",
        "dst_four": "multiIf(way = 1, far, way = 2, near, way = 3, near_too, far_too)",
        "u1": unit(draw(20, "row")),
        "u2": unit(draw(21, "row")),
        "u3": unit(draw(22, "row")),
        "u4": unit(draw(23, "row")),
    }


def _amounts() -> dict[str, str]:
    """Packets, with a heavy tail; a scan's are one or a few SYNs."""
    return {
        "sent": f"multiIf({SCAN}, if(u1 < 0.85, 1, 2 + (u1 > 0.95)), {DNS}, 1 + (u1 > 0.96), {NTP}, 1, {ICMP}, if(u1 < 0.5, 1, 1 + toUInt64(u2 * 10)), "
        "life > 1, toUInt64(1 + exp(u1 * u2 * 9)), toUInt64(3 + exp((u1 + u2 + u3) * 1.9 - 0.5)))",
        "back": f"multiIf({SCAN}, {draw(13)} % 100 < 12, {DNS}, u1 < 0.97, {NTP}, u2 < 0.95, {ICMP}, if(u3 < 0.8, sent, 0), "
        f"{draw(14)} % 100 < 6, 0, toUInt64(1 + sent * (0.4 + u3 * u4 * 2.5)))",
    }


def _columns(traffic: Traffic) -> dict[str, str]:
    """The columns of `flows` but what is known of both ends."""
    length = traffic.interval_s * 1000
    # Batches of up to 500 records; the last of an interval is what is left.
    batches = max(2, round(traffic.per_interval / 2 / 450))
    handshake = f"{TCP} AND new AND back > 0 AND NOT {SCAN} AND {draw(28)} % 100 >= 7"
    over = f"{TCP} AND ends AND NOT {SCAN}"
    rtt = f"300 + (intHash64(if(way = 1, dst_four, src_four)) % 90000) * (0.9 + 0.3 * {unit(draw(39))}) + {draw(40)} % 4000"
    return {
        "ts": f"toDateTime(interval * {traffic.interval_s}, 'UTC')",
        "interval_ms": f"toUInt32({length})",
        "probe": "concat('probe-', toString(probe_number))",
        "worker": f"toUInt16({draw(16)} % 2)",
        "epoch": "toUInt64(1767225000000000 + intHash64(probe_number) % 500000000)",
        "sequence": f"toUInt64(interval % 10000000 * {batches} + {draw(18)} % {batches})",
        "src_addr": address("src"),
        "dst_addr": address("dst"),
        "src_port": f"toUInt16(multiIf({ICMP}, 0, {NTP} AND {draw(19)} % 2, 123, {PEER} AND {draw(19)} % 3 = 0, 1024 + intHash64(host + 3) % 64000, "
        f"32768 + {draw(24)} % 28232))",
        "dst_port": f"toUInt16(multiIf({_is('tls', 'quic')}, 443, {DNS}, 53, {_is('http')}, 80, {NTP}, 123, {ICMP}, if({draw(25)} % 5, 2048, 771), "
        f"{KNOWN}, arrayElement({KNOWN_PORTS}, 1 + toUInt8(12 * pow({unit(draw(25))}, 1.7))), "
        f"{SCAN}, if({draw(26)} % 8 = 0, arrayElement({SCANNED_PORTS}, 1 + toUInt8(16 * pow({unit(draw(25))}, 1.7))), 1 + {draw(25)} % 65535), "
        f"{PEER}, if({draw(26)} % 10 < 3, arrayElement([3478, 6881, 51413, 27015, 5004], 1 + {draw(25)} % 5), 1024 + {draw(25)} % 64512), "
        f"if({draw(26)} % 5, 1024 + {draw(25)} % 48128, least({ranked(draw(12), 64_000)} + 1001, 65535))))",
        "protocol": f"toUInt8(multiIf({TCP}, 6, {ICMP}, if(six, 58, 1), 17))",
        "ip_version": "toUInt8(if(six, 6, 4))",
        "vlan": f"toUInt16(if(probe_number % 3, 0, 100 + {draw(27)} % 4))",
        "initiator_guess": f"toBool(NOT {TCP} OR {draw(28)} % 100 < 7)",
        "first_seen_offset_ms": f"toInt64(if(new, {draw(17)} % {length}, toUInt64({length} * pow(u4, 4))))",
        "last_seen_offset_ms": f"toUInt64(multiIf(sent + back <= 1, 0, {DNS}, 1 + 90 * u2 * u3 * u4, "
        f"NOT ends, ({length - 1} - first_seen_offset_ms) * (1 - pow(u3, 5)), ({length - 1} - first_seen_offset_ms) * u2 * sqrt(u4)))",
        "flow_age_ms": f"if(new, 0, toUInt64((interval - begun) * {length} + first_seen_offset_ms - {draw(17)} % {length}))",
        "fwd_packets": "toUInt64(sent)",
        "fwd_octets": f"multiIf({SCAN}, sent * (40 + {draw(29)} % 3 * 4 + ({draw(29)} % 7 = 0) * 12), {DNS}, sent * (56 + {draw(30)} % 30), {NTP}, 76, "
        f"{ICMP}, sent * if({draw(30)} % 3, 84, 28 + {draw(31)} % 60), toUInt64(sent * (52 + {_is('quic', 'peer')} * 20 + pow(u3, 3) * 900)))",
        "rev_packets": "toUInt64(back)",
        "rev_octets": f"multiIf(back = 0, 0, {SCAN}, 40, {DNS}, back * (70 + toUInt64(u3 * u3 * 400)), {NTP}, 76, {ICMP}, back * 84, "
        "toUInt64(back * (52 + pow(u2, 0.9) * 1400)))",
        "fwd_tcp_syn": f"toUInt32(multiIf({SCAN}, sent, {TCP} AND new AND {draw(28)} % 100 >= 7, 1 + (u1 > 0.98), 0))",
        "rev_tcp_synack": f"toUInt32({handshake})",
        "fwd_tcp_fin": f"toUInt32({over} AND {draw(32)} % 100 < 70)",
        "rev_tcp_fin": f"toUInt32({over} AND {draw(32)} % 100 < 62 AND back > 0)",
        "fwd_tcp_rst": f"toUInt32(if({over} AND {draw(33)} % 100 < 17, 1 + (u2 > 0.8), 0))",
        "rev_tcp_rst": f"toUInt32({SCAN} AND back > 0 OR {over} AND {draw(34)} % 100 < 7)",
        "fwd_tcp_retransmissions": f"toUInt32(multiIf({SCAN}, sent - 1, {TCP} AND {draw(35, 'row')} % 100 < 6, 1 + toUInt64(sent * u1 * u2 * u3 * 0.3), 0))",
        "rev_tcp_retransmissions": f"toUInt32(if({TCP} AND back > 0 AND {draw(36, 'row')} % 100 < 8, 1 + toUInt64(back * u1 * u2 * u4 * 0.3), 0))",
        "fwd_tcp_out_of_order": f"toUInt32({TCP} AND {draw(37, 'row')} % 100 < 2)",
        "rev_tcp_out_of_order": f"toUInt32(if({TCP} AND back > 2 AND {draw(38, 'row')} % 100 < 4, 1 + toUInt64(back * u1 * u2 * 0.1), 0))",
        "tcp_handshake_rtt_us": f"toUInt32(if({handshake}, {rtt}, 0))",
        "fwd_icmp_errors": f"toUInt32(if({ICMP} AND {draw(25)} % 5 = 0, sent, 0))",
        "application_id": f"toUInt16(multiIf({DNS}, 5, {NTP}, 9, {ICMP}, if(six, 102, 81), {SCAN}, 0, "
        f"{PEER}, arrayElement([0, 0, 37, 78, 87, 142, 0, 10], 1 + {draw(41)} % 8), {_is('known', 'tail')}, if({draw(41)} % 3, 0, 92), "
        f"arrayElement({APPLICATIONS}, 1 + toUInt8(12 * pow({unit('intHash64(intDiv(server, 2) + 17)')}, 1.6)))))",
        "server_name": f"if({WEB} AND {draw(42)} % 100 < 70, {name('intHash64(intDiv(server, 2) + 11)')}, '')",
        "dns_query": f"if({DNS} AND {draw(43)} % 100 < 95, {name(f'intHash64({ranked(draw(15), 3_000_000)} + 13)')}, '')",
        "site_direction": f"CAST(toInt8(way) AS {WAYS})",
        "nation_direction": f"CAST(toInt8(way) AS {WAYS})",
        # One port in four of those that IANA gives out has a name.
        "service": f"toUInt16(if(NOT {ICMP} AND (dst_port < 1024 OR dst_port IN {REGISTERED} OR dst_port < 49152 AND intHash64(dst_port) % 4 = 0), dst_port, 0))",
    }
