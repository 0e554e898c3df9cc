"""Every list, indicator and mix of a window, from its packets, by its published definition.

The definitions are those of the columns' comments in `docs/reference/tables.md`, of `docs/explanation/windows.md` and
`docs/how-to/read-indicators.md`, and of the papers that they name. They were written without reading the jobs' code.
"""

from __future__ import annotations

import ipaddress
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import world
from packets import FIN, ICMP, ICMP6, RST, SECOND, TCP, UDP, Flow, Packet

WINDOW, MIX = 30 * SECOND, 300 * SECOND
TIMEOUT = 10 * SECOND
TOP, TOP_MIX, TOP_AS = 50, 50, 20


@dataclass
class Answer:
    """The expected contents of a list of a window.

    rows: the expected columns by key; value: the column that orders them, empty for tables without order;
    top: the maximum number of rows, 0 for all.
    """

    rows: dict[Any, dict[str, Any]]
    value: str = ""
    top: int = 0


def flow_lists(packets: list[Packet]) -> dict[str, Answer]:
    """Top flows: the key is the five-tuple, the octets and packets are those of both directions."""
    rows: dict[Any, dict[str, Any]] = {}
    for packet in packets:
        row = rows.setdefault(
            packet.flow.key,
            dict.fromkeys(("octets", "packets", "fwd_octets", "fwd_packets", "rev_octets", "rev_packets"), 0),
        )
        side = "fwd" if packet.forward else "rev"
        for unit, count in (("octets", packet.octets), ("packets", 1)):
            row[unit] += count
            row[f"{side}_{unit}"] += count
    whole = {
        "window_octets": sum(packet.octets for packet in packets),
        "window_packets": len(packets),
        "window_flows": len(rows),
    }
    for row in rows.values():
        row |= whole
    kinds = {"ip": None, "tcp": (TCP,), "udp": (UDP,), "icmp": (ICMP, ICMP6)}
    return {
        f"{kind}_{unit}": Answer(
            {key: row for key, row in rows.items() if protocols is None or key[4] in protocols}, unit, TOP
        )
        for kind, protocols in kinds.items()
        for unit in ("octets", "packets")
    }


#: The columns with the ranks of a list of talkers, by unit.
RANKS = {"octets": "rank", "packets": "packets_rank", "flows": "flows_rank"}


def talker_lists(packets: list[Packet], customers: dict[str, int]) -> dict[str, dict[str, Answer]]:
    """The largest by octets, packets and flows: hosts by traffic received and sent, ports of services by traffic both ways, AS and
    customers in and out."""
    hosts, systems, owners = Talkers(), Talkers(), Talkers()
    ports = {TCP: Talkers(), UDP: Talkers()}
    for packet in packets:
        for talkers, of in (
            (hosts, str),
            (systems, lambda a: world.system(a) or None),
            (owners, lambda a: customers.get(world.customer(a))),
        ):
            talkers.add(of(packet.src), packet, "out")
            talkers.add(of(packet.dst), packet, "in")
        if packet.protocol in ports:
            flow, back = packet.flow, packet.flow.served_by_source
            to_port = packet.forward != back
            ports[packet.protocol].add(flow.src_port if back else flow.dst_port, packet, "in" if to_port else "out")
    whole = {"window_octets": sum(packet.octets for packet in packets), "window_packets": len(packets)}
    return {
        "host_in": hosts.answers("in_", whole),
        "host_out": hosts.answers("out_", whole),
        "port_tcp": ports[TCP].answers("", whole),
        "port_udp": ports[UDP].answers("", whole),
        "as": systems.answers("", whole),
        "customer": owners.answers("", whole),
    }


@dataclass
class Talkers:
    """Traffic by host, port, AS or customer."""

    rows: defaultdict[Any, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    flows: defaultdict[Any, set[Any]] = field(default_factory=lambda: defaultdict(set))

    def add(self, key: Any, packet: Packet, way: str) -> None:
        """Count a packet; ignore an empty key."""
        if key is None:
            return
        for unit, count in (("octets", packet.octets), ("packets", 1)):
            self.rows[key][unit] += count
            self.rows[key][f"{way}_{unit}"] += count
        self.flows[key].add(packet.flow.key)

    def answers(self, way: str, whole: dict[str, int]) -> dict[str, Answer]:
        """The list of those with traffic of this way, by octets, packets and flows."""
        return {
            unit: self._answer(unit if unit == "flows" else f"{way}{unit}", f"{way}packets", whole) for unit in RANKS
        }

    def _answer(self, value: str, traffic: str, whole: dict[str, int]) -> Answer:
        names = [f"{way}{unit}" for way in ("", "in_", "out_") for unit in ("octets", "packets")]
        rows = {
            key: {name: row[name] for name in names} | {"flows": len(self.flows[key]), **whole}
            for key, row in self.rows.items()
            if row[traffic]
        }
        for row in rows.values():
            row["window_keys"] = len(self.rows)
        return Answer(rows, value, TOP)


def host_counts(packets: Iterable[Packet]) -> dict[str, Counter[str]]:
    """The packets that each host sent, and those that came back to it."""
    hosts: dict[str, Counter[str]] = defaultdict(Counter)
    for packet in packets:
        sender, receiver = hosts[packet.src], hosts[packet.dst]
        if packet.protocol == TCP:
            sender["tcp_packets"] += 1
            receiver["tcp_packets"] += 1
            sender["tcp_sent"] += 1
            for name, there in (
                ("syn", packet.syn),
                ("synack", packet.synack),
                ("fin", packet.has(FIN)),
                ("rst", packet.has(RST)),
            ):
                sender[f"{name}_sent"] += there
                receiver[f"{name}_recv"] += there
        sender["udp_sent"] += packet.protocol == UDP
        if packet.error:
            sender["icmp_errors_sent"] += 1
            receiver["icmp_errors"] += 1
            if packet.quoted and packet.quoted[4] == UDP:
                hosts[packet.quoted[0]]["icmp_errors_recv"] += 1
    for host in hosts.values():
        host["work_weight"] = 100 * control(host) // host["tcp_packets"] if host["tcp_packets"] else 0
        syns = host["syn_recv"] + host["syn_sent"]
        host["sa_s"] = 100 * host["synack_sent"] // syns if syns else 0
    return hosts


def control(host: Counter[str]) -> int:
    """Packets that the work weight compares with all."""
    return host["syn_sent"] + host["fin_sent"] + host["rst_recv"]


def port_report(packets: list[Packet], hosts: dict[str, Counter[str]], scope: str) -> Answer:
    """Ourmon's TCP port report: hosts with a work weight above 0."""
    sent: dict[str, list[Packet]] = defaultdict(list)
    for packet in packets:
        if packet.protocol == TCP:
            sent[packet.src].append(packet)
    names = [
        "syn_sent",
        "synack_sent",
        "fin_sent",
        "rst_sent",
        "syn_recv",
        "synack_recv",
        "fin_recv",
        "rst_recv",
        "tcp_packets",
        "tcp_sent",
        "work_weight",
        "sa_s",
        "icmp_errors",
    ]
    rows: dict[Any, dict[str, Any]] = {}
    for addr, host in hosts.items():
        if not host["work_weight"]:
            continue
        ports, sources = met(sent[addr], "dst_port"), met(sent[addr], "src_port")
        rows[addr] = {name: host[name] for name in names} | {
            "l3d": len({packet.dst for packet in sent[addr]}),
            "l4d": len(ports),
            "local": world.inside(addr, scope),
            "flags": flags(host),
            "port_signature": ",".join(
                f"{port}:{1000 * count // host['tcp_sent']}" for port, count in sorted(list(ports.items())[:10])
            ),
            "l4s": ",".join(f"{port}:{count}" for port, count in sorted(list(sources.items())[:10])),
        }
    return Answer(rows)


def met(packets: list[Packet], name: str) -> Counter[int]:
    """Packets by port, in the order in which the ports were met: to the millisecond, then by number."""
    first: dict[int, tuple[int, int]] = {}
    for packet in packets:
        port = getattr(packet, name)
        first.setdefault(port, (packet.time // 1_000_000, port))
    counts = Counter(getattr(packet, name) for packet in packets)
    return Counter({port: counts[port] for port in sorted(first, key=lambda port: first[port])})


def flags(host: Counter[str]) -> str:
    """E W w O R M, as the comment of the column `flags` defines them."""
    received = host["tcp_packets"] - host["tcp_sent"]
    data = received - host["syn_recv"] - host["synack_recv"] - host["fin_recv"] - host["rst_recv"]
    found = [
        ("E", host["icmp_errors"] > 0),
        ("W", host["work_weight"] >= 90),
        ("w", 50 <= host["work_weight"] < 90),
        ("O", host["fin_recv"] == 0),
        ("R", host["rst_recv"] > 0),
        ("M", data < host["syn_sent"]),
    ]
    return "".join(letter for letter, true in found if true)


def indicator_lists(
    packets: list[Packet], hosts: dict[str, Counter[str]], judged: dict[str, dict[str, bool]]
) -> dict[str, Answer]:
    """SYN senders, scans, ICMP errors and UDP."""
    found: dict[str, Answer] = {}

    def listed(name: str, value: Callable[[Counter[str]], int], columns: str) -> None:
        rows = {
            addr: {"value": value(host), **{column: host[column] for column in columns.split()}}
            for addr, host in hosts.items()
            if value(host) > 0
        }
        found[name] = Answer(rows, "value", TOP)

    listed("syn_senders", lambda host: host["syn_sent"], "syn_sent fin_recv rst_recv tcp_packets work_weight")
    listed("icmp_senders", lambda host: host["icmp_errors_sent"], "icmp_errors_sent")
    listed("icmp_causers", lambda host: host["icmp_errors_recv"], "icmp_errors_recv udp_sent")
    listed("udp_work_weight", udp_work_weight, "icmp_errors_recv udp_sent")

    for name, protocols in (("tcp", (TCP,)), ("udp", (UDP,)), ("icmp", (ICMP, ICMP6))):
        reached: dict[str, set[Flow]] = defaultdict(set)
        spoke: set[tuple[str, str]] = set()
        for packet in packets:
            flow = packet.flow
            spoke.add((packet.src, packet.dst))
            # Where nobody knows who began, TCP is left out, and so is an ICMP message to a host that sent one before.
            unsure = flow.guess and (
                packet.protocol == TCP or (packet.protocol != UDP and (flow.dst, flow.src) in spoke)
            )
            if packet.protocol in protocols and not unsure:
                reached[flow.src].add(flow)
        rows = {
            addr: {"addresses": len({flow.dst for flow in flows}), "ports": len({flow.dst_port for flow in flows})}
            for addr, flows in reached.items()
        }
        for what, column in (("addresses", "addresses"), ("ports", "ports")):
            if what == "addresses" or name != "icmp":
                # The list leaves out hosts with one destination, though no document says so.
                scans = {addr: {"value": row[column], **row} for addr, row in rows.items() if row[column] > 1}
                found[f"scan_{what}_{name}"] = Answer(scans, "value", TOP)

    answered = {packet.flow.key for packet in packets if not packet.forward}
    silent = Counter(packet.src for packet in packets if packet.protocol == UDP and packet.flow.key not in answered)
    found["udp_unanswered"] = Answer({addr: {"value": count} for addr, count in silent.items()}, "value", TOP)

    failures = {}
    for addr, contacts in judged.items():
        failed, good = sum(not ok for ok in contacts.values()), sum(contacts.values())
        if failed > good:
            failures[addr] = {"value": failed - good, "failed": failed, "answered": good}
    found["scan_failures"] = Answer(failures, "value", TOP)
    return found


def udp_work_weight(host: Counter[str]) -> int:
    """Ourmon's: UDP packets sent * ICMP errors that came back for UDP."""
    return host["udp_sent"] * host["icmp_errors_recv"]


def first_contacts(packets: list[Packet]) -> dict[int, dict[str, dict[str, bool]]]:
    """By window, host and destination: whether a SYN was answered. A window judges the SYNs whose answer timeout ends
    in it, by all packets seen up to its end.
    """
    answers: dict[tuple[str, str, int, int], list[int]] = defaultdict(list)
    for packet in packets:
        if packet.synack:
            answers[packet.dst, packet.src, packet.dst_port, packet.src_port].append(packet.at)
    judged: dict[int, dict[str, dict[str, bool]]] = defaultdict(lambda: defaultdict(dict))
    for packet in packets:
        if packet.syn:
            window = (packet.at + TIMEOUT) // WINDOW * WINDOW
            seen = answers[packet.src, packet.dst, packet.src_port, packet.dst_port]
            good = any(packet.at // WINDOW * WINDOW <= at < window + WINDOW for at in seen)
            contacts = judged[window][packet.src]
            contacts[packet.dst] = contacts.get(packet.dst, False) or good
    return judged


def indicators(
    packets: list[Packet], hosts: dict[str, Counter[str]], judged: dict[str, dict[str, bool]], scope: str
) -> Answer:
    """The sums of a window."""
    worms = [addr for addr, host in hosts.items() if host["work_weight"] >= 40 and host["syn_sent"] >= 10]
    failed = {addr: sum(not ok for ok in contacts.values()) for addr, contacts in judged.items()}
    good = {addr: sum(contacts.values()) for addr, contacts in judged.items()}
    row = {
        "hosts": len({addr for packet in packets for addr in (packet.src, packet.dst)}),
        "report_hosts": sum(host["work_weight"] > 0 for host in hosts.values()),
        "worms_us": sum(world.inside(addr, scope) for addr in worms),
        "worms_them": sum(not world.inside(addr, scope) for addr in worms),
        "udp_work_weight": max(map(udp_work_weight, hosts.values()), default=0),
        "scanners": sum(failed[addr] - good[addr] >= 4 for addr in judged),
        "failed": sum(failed.values()),
        "syn_sent": sum(packet.syn for packet in packets),
        "tcp_packets": 2 * sum(packet.protocol == TCP for packet in packets),
        "icmp_errors": sum(packet.error for packet in packets),
        "overflow_packets": 0,
        "one_way_packets": 0,
    }
    return Answer({"": row})


def direction(packet: Packet, scope: str) -> str:
    """The direction of the packet."""
    return {(True, False): "out", (False, True): "in", (True, True): "internal", (False, False): "transit"}[
        world.inside(packet.src, scope), world.inside(packet.dst, scope)
    ]


def mixes(
    packets: list[Packet], customers: dict[str, int], applications: Callable[[Flow], int] | None, scope: str
) -> dict[str, Answer]:
    """Totals and shares by direction, by number and application (0 but for as_application); as, country: those of the outside
    end; customer: that of the inside end; if there is none, of the sender; as_application: pairs of such an AS and an
    application."""

    def outside(packet: Packet) -> str:
        return packet.dst if direction(packet, scope) == "out" else packet.src

    def within(packet: Packet) -> str:
        return packet.dst if direction(packet, scope) == "in" else packet.src

    dimensions: dict[str, tuple[Callable[[Packet], int], int]] = {
        "total": (lambda packet: 0, 1),
        "as": (lambda packet: world.system(outside(packet)), TOP_AS),
        "country": (lambda packet: world.country(outside(packet)), 1000),
        "customer": (lambda packet: customers.get(world.customer(within(packet)), 0), TOP_MIX),
    }
    if applications:
        dimensions["application"] = (lambda packet: applications(packet.flow), TOP_MIX)
    found = {name: _mix(packets, _alone(number), top, scope) for name, (number, top) in dimensions.items()}
    if applications:
        found["as_application"] = _mix(
            packets, lambda packet: (world.system(outside(packet)), applications(packet.flow)), TOP_MIX, scope
        )
    return found


def _alone(number: Callable[[Packet], int]) -> Callable[[Packet], tuple[int, int]]:
    """A number without an application."""
    return lambda packet: (number(packet), 0)


def _beginnings(packets: list[Packet], scope: str) -> set[int]:
    """Ids of the packets with which flows count: the first of each end in the window of 30 s in which the flow began; if
    all of the flow's packets are of one direction, that of its source, or the other end's if there is none."""
    found = {id(packet.flow): packet for packet in packets if packet.begins}
    sent: dict[tuple[int, bool], Packet] = {}
    for packet in packets:
        first = found.get(id(packet.flow))
        if first and packet.at // (30 * SECOND) == first.at // (30 * SECOND):
            sent.setdefault((id(packet.flow), packet.forward), packet)
    return {
        id(packet)
        for (flow, forward), packet in sent.items()
        if forward or (flow, True) not in sent or direction(packet, scope) in ("in", "out")
    }


def _mix(packets: list[Packet], of: Callable[[Packet], tuple[int, int]], top: int, scope: str) -> Answer:
    sums: dict[tuple[str, tuple[int, int]], Counter[str]] = defaultdict(Counter)
    whole: dict[str, Counter[str]] = defaultdict(Counter)
    begun = _beginnings(packets, scope)
    for packet in packets:
        way = direction(packet, scope)
        for unit, count in (("octets", packet.octets), ("packets", 1), ("flows", int(id(packet) in begun))):
            sums[way, of(packet)][unit] += count
            sums[way, of(packet)][f"ipv{packet.version}_{unit}"] += count
            whole[way][f"direction_{unit}"] += count
    kept: dict[tuple[str, int, int, bool], Counter[str]] = defaultdict(Counter)
    for way in whole:
        order = sorted((-row["octets"], key) for (at, key), row in sums.items() if at == way)
        best = {key for _, key in order[:top]}
        for (at, key), row in sums.items():
            if at == way:
                kept[(way, *(key if key in best else (0, 0)), key not in best)].update(row)
    names = [f"{kind}{unit}" for kind in ("", "ipv4_", "ipv6_") for unit in ("octets", "packets", "flows")]
    return Answer(
        {
            key: {name: row[name] for name in names}
            | {f"direction_{u}": whole[key[0]][f"direction_{u}"] for u in ("octets", "packets", "flows")}
            for key, row in kept.items()
        }
    )


def by_window(packets: Iterable[Packet], length: int) -> dict[int, list[Packet]]:
    """Packets by the start of their window, in their order."""
    found: dict[int, list[Packet]] = defaultdict(list)
    for packet in packets:
        found[packet.at // length * length].append(packet)
    return dict(sorted(found.items()))


def address_order(addresses: Iterable[str]) -> list[str]:
    """A sort key for addresses, with IPv4 in its mapped form."""
    return sorted(addresses, key=lambda text: _mapped(text))


def _mapped(text: str) -> int:
    ip = ipaddress.ip_address(text)
    return int(ip) if ip.version == 6 else 0xFFFF << 32 | int(ip)
