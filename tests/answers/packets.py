"""Packets of a capture, as tshark reads them, and their flows, by the definitions in the documents.

Nothing here knows Weir's records: a packet's fields come from tshark, one line each, and a flow is defined by
`docs/explanation/design.md` and the glossary.
"""

from __future__ import annotations

import csv
import functools
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

TCP, UDP, ICMP, ICMP6, SCTP, DCCP = 6, 17, 1, 58, 132, 33
FIN, SYN, RST, ACK = 1, 2, 4, 16
#: An interval of the agent, its grace at the close, and the time after which a flow ends, nanoseconds.
SECOND = 1_000_000_000
INTERVAL, GRACE, IDLE = 10 * SECOND, SECOND // 5, 60 * SECOND
#: Extension headers of IPv6 and the field that names the next header.
EXTENSIONS = {
    0: "ipv6.hopopts.nxt",
    43: "ipv6.routing.nxt",
    44: "ipv6.fraghdr.nxt",
    60: "ipv6.dstopts.nxt",
    51: "ah.next_header",
}
#: Link layers that tcpdump's expressions look through.
PLAIN = (["eth", "ethertype"], ["sll", "ethertype"], ["sll2", "ethertype"], ["raw"], ["null"])
# fmt: off
FIELDS = [
    "frame.time_epoch", "frame.len", "frame.protocols", "eth.dst", "vlan.id",
    "ip.src", "ip.dst", "ip.len", "ip.proto", "ip.id", "ip.flags.mf", "ip.frag_offset",
    "ipv6.src", "ipv6.dst", "ipv6.plen", "ipv6.nxt", "ipv6.fraghdr.offset", "ipv6.fraghdr.more", "ipv6.fraghdr.ident",
    "tcp.srcport", "tcp.dstport", "tcp.flags", "udp.srcport", "udp.dstport", "sctp.srcport", "sctp.dstport", "dccp.srcport", "dccp.dstport",
    "icmp.type", "icmp.code", "icmpv6.type", "icmpv6.code",
    *EXTENSIONS.values(),
]
# fmt: on

Key = tuple[str, int, str, int, int]


@functools.cache
def services() -> dict[int, set[int]]:
    """Ports that are registered for a service, by protocol."""
    found: dict[int, set[int]] = defaultdict(set)
    with (Path(__file__).resolve().parents[2] / "schemas/services.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            found[int(row["protocol"])].add(int(row["port"]))
    return found


@dataclass(eq=False)
class Flow:
    """Packets with the same addresses, ports, protocol and VLAN, in both directions, until idle."""

    src: str
    src_port: int
    dst: str
    dst_port: int
    protocol: int
    start: int
    guess: bool
    last: int = 0

    @property
    def key(self) -> Key:
        """The five-tuple, the initiator first."""
        return self.src, self.src_port, self.dst, self.dst_port, self.protocol

    @property
    def served_by_source(self) -> bool:
        """Whether the service's port is the source's: the beginning was missed, and the destination's port is not
        registered, but the source's is, or neither is and the source's is lower. Port 0 is none."""
        mine, theirs = (port in services()[self.protocol] for port in (self.src_port, self.dst_port))
        return self.guess and not theirs and (mine or 0 < self.src_port < self.dst_port)


@dataclass(eq=False)
class Packet:
    """One IP packet, the outermost of nested ones. `at` is the time at which it counts: late packets are moved."""

    time: int
    version: int
    src: str
    dst: str
    protocol: int
    octets: int
    src_port: int = 0
    dst_port: int = 0
    flags: int = 0
    icmp: tuple[int, int] | None = None
    error: bool = False
    quoted: tuple[str, int, str, int, int] | None = None
    vlan: int = 0
    fragment: tuple[str, str, int, str] | None = None
    later_fragment: bool = False
    frame_octets: int = 0
    cast: str = "unicast"
    plain: bool = True
    begins: bool = False
    at: int = 0
    flow: Flow = field(default=None, repr=False)  # type: ignore[assignment]

    @property
    def forward(self) -> bool:
        """Whether the flow's source sent it."""
        return (self.src, self.src_port) == (self.flow.src, self.flow.src_port) or (
            self.protocol in (ICMP, ICMP6) and self.src == self.flow.src
        )

    def has(self, flag: int) -> bool:
        """Whether it is a TCP packet with that flag."""
        return self.protocol == TCP and bool(self.flags & flag)

    @property
    def syn(self) -> bool:
        """A SYN without ACK."""
        return self.has(SYN) and not self.flags & ACK

    @property
    def synack(self) -> bool:
        """A SYN with ACK."""
        return self.has(SYN) and bool(self.flags & ACK)


def read(capture: Path) -> list[Packet]:
    """The frames of a capture; those without IP have version 0."""
    options = ["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE", "-o", "tcp.desegment_tcp_streams:FALSE"]
    form = ["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=|"]
    words = [word for name in FIELDS for word in ("-e", name)]
    shown = subprocess.run(
        ["tshark", "-n", "-r", str(capture), *options, *form, *words], capture_output=True, text=True, check=False
    )
    frames = []
    for line in shown.stdout.split("\n"):
        if not line:
            continue
        fields = {name: value.split("|") if value else [] for name, value in zip(FIELDS, line.split("\t"), strict=True)}
        frames.append(_packet(fields) or _other(fields))
    _join_fragments(frames)
    return frames


def _other(fields: dict[str, list[str]]) -> Packet:
    at, length = _nanos(fields["frame.time_epoch"][0]), int(fields["frame.len"][0])
    link = _link(fields)
    return Packet(at, 0, "", "", -1, length - link if link else 0, frame_octets=length, cast=_cast(fields))


def _link(fields: dict[str, list[str]]) -> int:
    """Octets of Ethernet's header with VLAN tags, 0 for another link layer."""
    return 14 + 4 * len(fields["vlan.id"]) if fields["eth.dst"] else 0


def _nanos(text: str) -> int:
    seconds, _, rest = text.partition(".")
    return int(seconds) * SECOND + int(rest.ljust(9, "0")[:9])


def _cast(fields: dict[str, list[str]]) -> str:
    if not fields["eth.dst"]:
        return "unicast"
    address = fields["eth.dst"][0]
    if address == "ff:ff:ff:ff:ff:ff":
        return "broadcast"
    return "multicast" if int(address[:2], 16) & 1 else "unicast"


def _packet(fields: dict[str, list[str]]) -> Packet | None:
    names = fields["frame.protocols"][0].split(":") if fields["frame.protocols"] else []
    outer = next((name for name in names if name in ("ip", "ipv6")), None)
    needed = (
        ("ip.src", "ip.dst", "ip.len", "ip.proto")
        if outer == "ip"
        else ("ipv6.src", "ipv6.dst", "ipv6.plen", "ipv6.nxt")
    )
    if outer is None or not all(fields[name] for name in needed):
        return None
    place = names.index(outer)

    def first(name: str) -> int:
        """The first value of a field, 0 without one."""
        return int(fields[name][0], 0) if fields[name] else 0

    def flag(name: str) -> bool:
        return bool(fields[name]) and fields[name][0] in ("1", "True")

    if outer == "ip":
        protocol, octets = first("ip.proto"), first("ip.len")
        offset, more, ident = first("ip.frag_offset"), flag("ip.flags.mf"), (fields["ip.id"] or [""])[0]
    else:
        protocol, octets = first("ipv6.nxt"), 40 + first("ipv6.plen")
        seen = {name: iter(fields[name]) for name in EXTENSIONS.values()}
        while protocol in EXTENSIONS and (step := next(seen[EXTENSIONS[protocol]], None)) is not None:
            protocol = int(step, 0)
        offset, more = first("ipv6.fraghdr.offset"), flag("ipv6.fraghdr.more")
        ident = (fields["ipv6.fraghdr.ident"] or [""])[0]
    if link := _link(fields):
        whole = first("frame.len") - link
        # A jumbogram (RFC 2675) has no length in its header; a length beyond the frame is none that was on the wire.
        octets = whole if octets == 40 and outer == "ipv6" else min(octets, whole)
    packet = Packet(
        time=_nanos(fields["frame.time_epoch"][0]),
        version=4 if outer == "ip" else 6,
        src=fields[f"{outer}.src"][0],
        dst=fields[f"{outer}.dst"][0],
        protocol=protocol,
        octets=octets,
        vlan=first("vlan.id"),
        later_fragment=offset > 0,
        frame_octets=first("frame.len"),
        cast=_cast(fields),
        plain=names[:place] in PLAIN and not offset and (outer == "ip" or first("ipv6.nxt") not in EXTENSIONS),
    )
    if offset or more:
        packet.fragment = (packet.src, packet.dst, protocol, ident)
    if offset:
        return packet
    name = {TCP: "tcp", UDP: "udp", SCTP: "sctp", DCCP: "dccp"}.get(protocol)
    if name:
        packet.src_port, packet.dst_port = first(f"{name}.srcport"), first(f"{name}.dstport")
        packet.flags = first("tcp.flags") if protocol == TCP else 0
    elif protocol in (ICMP, ICMP6):
        name = "icmp" if protocol == ICMP else "icmpv6"
        if fields[f"{name}.type"]:
            packet.icmp = (first(f"{name}.type"), first(f"{name}.code"))
            # RFC 1122, 3.2.2: destination unreachable, source quench, redirect, time exceeded, parameter problem.
            # RFC 4443, 2.1: messages with types below 128 are errors.
            packet.error = packet.icmp[0] in (3, 4, 5, 11, 12) if protocol == ICMP else packet.icmp[0] < 128
            if packet.error:
                packet.quoted = _quoted(fields, names[place + 1 :])
    return packet


def _quoted(fields: dict[str, list[str]], after: list[str]) -> tuple[str, int, str, int, int] | None:
    inner = next((name for name in after if name in ("ip", "ipv6")), None)
    if inner is None:
        return None
    sources = fields[f"{inner}.src"]
    at = 1 if len(sources) > 1 else 0
    if not sources or len(fields["ip.proto" if inner == "ip" else "ipv6.nxt"]) <= at:
        return None
    rest = after[after.index(inner) + 1 :]
    protocol = int(fields["ip.proto" if inner == "ip" else "ipv6.nxt"][at])
    name = {TCP: "tcp", UDP: "udp"}.get(protocol, "")
    ports = [0, 0]
    if name in rest and fields[f"{name}.srcport"]:
        ports = [int(fields[f"{name}.srcport"][0]), int(fields[f"{name}.dstport"][0])]
    return sources[at], ports[0], fields[f"{inner}.dst"][at], ports[1], protocol


def _join_fragments(packets: list[Packet]) -> None:
    """Later fragments get the ports of their first, seen within 30 s before or after."""
    firsts: dict[tuple[str, str, int, str], Packet] = {}
    for packet in packets:
        if packet.fragment and not packet.later_fragment:
            firsts[packet.fragment] = packet
        elif packet.fragment and packet.fragment in firsts:
            _same_flow(packet, firsts[packet.fragment])
    seen: dict[tuple[str, str, int, str], Packet] = {}
    for packet in reversed(packets):
        if packet.fragment and not packet.later_fragment:
            seen[packet.fragment] = packet
        elif packet.fragment and packet.fragment in seen and not packet.src_port and not packet.icmp:
            _same_flow(packet, seen[packet.fragment])


def _same_flow(packet: Packet, first: Packet) -> None:
    if abs(packet.time - first.time) <= 30 * SECOND:
        packet.src_port, packet.dst_port, packet.icmp = first.src_port, first.dst_port, first.icmp


def place(frames: Iterable[Packet], shift: int) -> list[Flow]:
    """Move times by `shift`, and assign each frame its interval and each packet its flow; returns the flows.

    An interval closes by packet time plus 200 ms of grace; an older packet counts in the open interval. Where packets of
    a whole interval's length are older, the clock was set back: the next one opens its own interval, and flows begin anew.
    """
    flows: list[Flow] = []
    live: dict[object, Flow] = {}
    opened = behind = 0
    for packet in frames:
        packet.time += shift
        start = packet.time // INTERVAL * INTERVAL
        if start >= opened:
            behind = 0
        elif not behind or packet.time < behind:
            behind = packet.time
        elif packet.time - behind >= INTERVAL:
            opened, behind = start, 0
            live.clear()
        if not opened:
            opened = start
        while packet.time >= opened + INTERVAL + GRACE:
            opened = max(opened + INTERVAL, (packet.time - GRACE) // INTERVAL * INTERVAL)
        packet.at = packet.time if start >= opened else opened
        if not packet.version:
            continue
        name = _name(packet)
        flow = live.get(name)
        if flow is None or packet.time - flow.last >= IDLE:
            flow = Flow(packet.src, packet.src_port, packet.dst, packet.dst_port, packet.protocol, packet.time, True)
            if packet.icmp:
                flow.src_port, flow.dst_port = 0, packet.icmp[0] * 256 + packet.icmp[1]
            if packet.icmp and packet.protocol in (ICMP, ICMP6) and packet.icmp[0] in ANSWERS:
                flow.src, flow.dst = packet.dst, packet.src
                flow.dst_port = ANSWERS[packet.icmp[0]] * 256 + packet.icmp[1]
            if packet.icmp and packet.icmp[0] in (*ANSWERS, *ANSWERS.values()):
                flow.guess = False
            packet.begins = True
            flows.append(flow)
            live[name] = flow
        # The sender of the SYN; where none was seen, the receiver of its answer. So do answers of ICMP above.
        if flow.guess and packet.syn:
            flow.src, flow.src_port, flow.dst, flow.dst_port = packet.src, packet.src_port, packet.dst, packet.dst_port
            flow.guess = False
        elif flow.guess and packet.synack:
            flow.src, flow.src_port, flow.dst, flow.dst_port = packet.dst, packet.dst_port, packet.src, packet.src_port
            flow.guess = False
        flow.last = max(flow.last, packet.time)
        packet.flow = flow
    return flows


#: Types of ICMP and ICMPv6 that answer each other.
ANSWERS = {0: 8, 14: 13, 16: 15, 18: 17, 129: 128}


def _name(packet: Packet) -> object:
    if packet.icmp:
        kind = (ANSWERS.get(packet.icmp[0], packet.icmp[0]), packet.icmp[1])
        return frozenset((packet.src, packet.dst)), kind, packet.protocol, packet.vlan
    ends = frozenset(((packet.src, packet.src_port), (packet.dst, packet.dst_port)))
    return ends, packet.protocol, packet.vlan
