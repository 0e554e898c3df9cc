"""Writes the exports of `capture/tests/exports`: datagrams built from vendors' documentation, in text form.

`python3 make_exports.py` writes them again; the agent's tests decode them and compare the result with
`capture/tests/golden/exports/own-*.txt`. A line `from ADDRESS PORT to PORT at MS` begins a datagram; the lines after it
are hexadecimal, with comments after `#`.
"""

from __future__ import annotations

import inspect
import ipaddress
import struct
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "capture/tests/exports"
#: When the datagrams come, s.
NOW = 1_790_000_000
#: What exporters say of the time since their boot, ms.
UPTIME = 5_000_000
VARIABLE = 65_535

#: A part of a datagram and what it is.
Line = tuple[bytes, str]
#: An element: enterprise (0: IANA's), number, octets.
Element = tuple[int, int, int]
Value = int | str | bytes

NAMES = {
    1: "octetDeltaCount",
    2: "packetDeltaCount",
    4: "protocolIdentifier",
    5: "ipClassOfService",
    6: "tcpControlBits",
    7: "sourceTransportPort",
    8: "sourceIPv4Address",
    10: "ingressInterface",
    11: "destinationTransportPort",
    12: "destinationIPv4Address",
    14: "egressInterface",
    15: "ipNextHopIPv4Address",
    16: "bgpSourceAsNumber",
    17: "bgpDestinationAsNumber",
    21: "flowEndSysUpTime",
    22: "flowStartSysUpTime",
    23: "postOctetDeltaCount",
    24: "postPacketDeltaCount",
    27: "sourceIPv6Address",
    28: "destinationIPv6Address",
    34: "samplingInterval",
    36: "flowActiveTimeout",
    48: "samplerId",
    49: "samplerMode",
    50: "samplerRandomInterval",
    61: "flowDirection",
    82: "interfaceName",
    83: "interfaceDescription",
    84: "samplerName",
    85: "octetTotalCount",
    86: "packetTotalCount",
    136: "flowEndReason",
    144: "exportingProcessId",
    148: "flowId",
    152: "flowStartMilliseconds",
    153: "flowEndMilliseconds",
    160: "systemInitTimeMilliseconds",
    225: "postNATSourceIPv4Address",
    227: "postNAPTSourceTransportPort",
    230: "natEvent",
    231: "initiatorOctets",
    232: "responderOctets",
    233: "firewallEvent",
    234: "ingressVRFID",
    236: "VRFname",
    302: "selectorId",
    304: "selectorAlgorithm",
    305: "samplingPacketInterval",
    309: "samplingSize",
    310: "samplingPopulation",
    312: "dataLinkFrameSize",
    315: "dataLinkFrameSection",
    323: "observationTimeMilliseconds",
    361: "portRangeStart",
    362: "portRangeEnd",
}


def short(*numbers: int) -> bytes:
    """Numbers of 16 bits."""
    return struct.pack(f">{len(numbers)}H", *numbers)


def words(*numbers: int) -> bytes:
    """Numbers of 32 bits."""
    return struct.pack(f">{len(numbers)}I", *numbers)


def field(value: Value, length: int) -> bytes:
    """A value in this many octets; the text of an address becomes that address."""
    if isinstance(value, int):
        return value.to_bytes(length, "big")
    octets = address_or_text(value) if isinstance(value, str) else value
    if length == VARIABLE:
        return bytes([len(octets)]) + octets if len(octets) < 255 else b"\xff" + short(len(octets)) + octets
    return octets.ljust(length, b"\0")


def address_or_text(value: str) -> bytes:
    """The octets of an address, or of any other text."""
    try:
        return ipaddress.ip_address(value).packed
    except ValueError:
        return value.encode()


def called(element: Element) -> str:
    """The name of an element."""
    pen, number, length = element
    name = NAMES.get(number, str(number)) if pen in (0, 29_305) else f"{pen}.{number}"
    octets = "of variable length" if length == VARIABLE else f"{length} octets"
    return ("reverse " if pen == 29_305 else "") + f"{name}, {octets}"


def a_set(number: int, what: str, lines: Iterable[Line]) -> list[Line]:
    """A set, with its header."""
    lines = list(lines)
    length = 4 + sum(len(octets) for octets, _ in lines)
    return [(short(number, length), f"set {number}: {what}"), *lines]


def specifier(element: Element) -> Line:
    """A field specifier (RFC 7011, section 3.2; of NetFlow v9 where it is IANA's)."""
    pen, number, length = element
    octets = short(number | 0x8000, length) + words(pen) if pen else short(number, length)
    return octets, called(element)


def template(form: int, number: int, elements: list[Element]) -> list[Line]:
    """A template of NetFlow v9 (9) or IPFIX (10)."""
    head = (short(number, len(elements)), f"template {number}")
    return a_set(0 if form == 9 else 2, "a template", [head, *map(specifier, elements)])


def options(form: int, number: int, scopes: list[Element], elements: list[Element]) -> list[Line]:
    """An options template of NetFlow v9, whose scopes have numbers of their own, or IPFIX."""
    counts = (4 * len(scopes), 4 * len(elements)) if form == 9 else (len(scopes) + len(elements), len(scopes))
    head = (short(number, *counts), f"options template {number}")
    kinds = {1: "system", 2: "interface", 3: "line card", 4: "cache", 5: "template"}
    of_scopes = [
        (short(kind, length), f"scope: {kinds[kind]}, {length} octets")
        if form == 9
        else (specifier((pen, kind, length))[0], f"scope: {called((pen, kind, length))}")
        for pen, kind, length in scopes
    ]
    return a_set(1 if form == 9 else 3, "an options template", [head, *of_scopes, *map(specifier, elements)])


def data(number: int, elements: list[Element], *rows: list[Value]) -> list[Line]:
    """Records by a template."""
    lines = []
    for row in rows:
        octets = [field(value, element[2]) for value, element in zip(row, elements, strict=True)]
        lines.append((b"".join(octets), ", ".join(str(value) for value in row if not isinstance(value, bytes))))
    return a_set(number, "records", lines)


def version9(sequence: int, *sets: list[Line], source: int = 1, uptime: int = UPTIME, at: int = NOW) -> list[Line]:
    """A packet of NetFlow v9 (RFC 3954, section 5.1)."""
    head = short(9, len(sets)) + words(uptime, at, sequence, source)
    return [(head, f"NetFlow v9, {len(sets)} sets, number {sequence}, source {source}"), *chain.from_iterable(sets)]


def ipfix(sequence: int, *sets: list[Line], domain: int = 1, at: int = NOW) -> list[Line]:
    """A message of IPFIX (RFC 7011, section 3.1)."""
    body = list(chain.from_iterable(sets))
    length = 16 + sum(len(octets) for octets, _ in body)
    return [(short(10, length) + words(at, sequence, domain), f"IPFIX, number {sequence}, domain {domain}"), *body]


class Export:
    """The datagrams of one file."""

    def __init__(self, name: str, about: str, address: str, port: int, to: int) -> None:
        self.name, self.to, self.address, self.port = name, to, address, port
        self.text = "".join(f"# {line}\n" for line in about.splitlines())

    def send(self, lines: list[Line], *, after: float = 0, port: int = 0, cut: int = 0) -> None:
        """One datagram, sent after `after` s, optionally from another port or shortened by some octets."""
        at = int((NOW + after) * 1000)
        self.text += f"\nfrom {self.address} {port or self.port} to {self.to} at {at}\n"
        if cut:
            lines = [*lines[:-1], (lines[-1][0][:-cut], f"{lines[-1][1]} (and {cut} octets more, cut off)")]
        for octets, what in lines:
            for begin in range(0, len(octets), 32):
                row = octets[begin : begin + 32].hex(" ", -4)
                self.text += f"{row}  # {what}\n" if begin == 0 and what else f"{row}\n"

    def write(self) -> None:
        """Write the file."""
        (FOLDER / f"{self.name}.txt").write_text(self.text)


#: Every export, with the function that sends its datagrams.
EXPORTS: list[tuple[Export, Callable[[Export], None]]] = []


def exported(
    name: str, *, address: str = "192.0.2.1", port: int = 50_000, to: int = 2055
) -> Callable[[Callable[[Export], None]], Callable[[Export], None]]:
    """The function sends the datagrams of the file `name`, which begins with the function's docstring."""

    def add(send: Callable[[Export], None]) -> Callable[[Export], None]:
        EXPORTS.append((Export(name, inspect.cleandoc(send.__doc__ or ""), address, port, to), send))
        return send

    return add


FIVE = [(0, 8, 4), (0, 12, 4), (0, 7, 2), (0, 11, 2), (0, 4, 1)]
COUNTS = [(0, 2, 4), (0, 1, 4)]
UPTIMES = [(0, 22, 4), (0, 21, 4)]
MILLISECONDS = [(0, 152, 8), (0, 153, 8)]


def tcp_packet(length: int) -> bytes:
    """The first 40 octets of an IPv4 TCP packet of this many octets."""
    ends = ipaddress.ip_address("198.51.100.7").packed + ipaddress.ip_address("203.0.113.9").packed
    head = struct.pack(">BBHHHBBH", 0x45, 0x28, length, 1, 0, 64, 6, 0) + ends
    return head + struct.pack(">HHIIBBHHH", 40_000, 443, 7, 9, 0x50, 0x18, 4000, 0, 0)


def frame(length: int, vlan: int = 0) -> bytes:
    """The beginning of a frame of Ethernet with that packet."""
    tag = short(0x8100, vlan) if vlan else b""
    return bytes.fromhex("020000000002 020000000001") + tag + short(0x0800) + tcp_packet(length)


@exported("cisco-netflow5")
def netflow5(export: Export) -> None:
    """NetFlow v5 of a router that samples 1 in 100 (mode 1), AS numbers of 16 bits, one ICMP echo."""

    def record(source: str, destination: str, ports: tuple[int, int], protocol: int, packets: int, octets: int) -> Line:
        ends = b"".join(ipaddress.ip_address(end).packed for end in (source, destination, "192.0.2.254"))
        middle = short(3, 4) + words(packets, octets, UPTIME - 30_000, UPTIME - 1000) + short(*ports)
        rest = bytes([0, 0x1B, protocol, 0xB8]) + short(64_496, 64_511) + bytes([24, 16, 0, 0])
        return ends + middle + rest, f"{source} > {destination}, {packets} packets, {octets} octets"

    head = short(5, 2) + words(UPTIME, NOW, 0, 4000) + bytes([0, 1]) + short(0x4064)
    export.send(
        [
            (head, "NetFlow v5, 2 records, number 4000, engine 0/1, sampling 1 in 100"),
            record("198.51.100.7", "203.0.113.9", (40_000, 443), 6, 12, 9000),
            record("198.51.100.7", "203.0.113.9", (0, 0x0800), 1, 2, 168),
        ]
    )
    head = short(5, 1) + words(UPTIME + 1000, NOW + 1, 0, 4007) + bytes([0, 1]) + short(0x4064)
    absurd = record("198.51.100.7", "203.0.113.9", (1, 2), 17, 1, 4_000_000_000)
    export.send([(head, "five records before it never came; this one counts what cannot be"), absurd], after=1)


@exported("cisco-ios-xe-netflow9")
def flexible_netflow(export: Export) -> None:
    """Flexible NetFlow: interfaces and samplers by options of the whole system; flows name their sampler. The flows
    come first, and wait for their template.
    """
    flow = [*FIVE, (0, 6, 1), (0, 10, 4), (0, 14, 4), (0, 48, 1), *COUNTS, *UPTIMES]
    interfaces = [(0, 10, 4), (0, 82, 16), (0, 83, 24)]
    samplers = [(0, 48, 1), (0, 49, 1), (0, 50, 4), (0, 84, 12)]
    rows: list[list[Value]] = [
        ["198.51.100.7", "203.0.113.9", 40_000, 443, 6, 0x1B, 5, 6, 2, 12, 9000, UPTIME - 60_000, UPTIME - 2000],
        ["203.0.113.9", "198.51.100.7", 443, 40_000, 6, 0x1B, 6, 5, 2, 20, 28_000, UPTIME - 59_990, UPTIME - 2000],
    ]
    export.send(version9(900, data(257, flow, *rows)))
    export.send(
        version9(
            901,
            options(9, 258, [(0, 1, 4)], interfaces),
            data(258, [(0, 1, 4), *interfaces], [0, 5, "Gi0/0/1", "to the exchange"], [0, 6, "Gi0/0/2", "customers"]),
            options(9, 259, [(0, 1, 4)], samplers),
            data(259, [(0, 1, 4), *samplers], [0, 2, 2, 500, "random"]),
            template(9, 257, flow),
        ),
        after=1,
    )


@exported("cisco-ios-xr-ipfix")
def ios_xr(export: Export) -> None:
    """A selector that takes 1 packet out of 256, in the elements 309 and 310; 305 is 1 and 306 is not there. VRFs are
    named by options.
    """
    selector = [(0, 305, 4), (0, 304, 2), (0, 309, 4), (0, 310, 4)]
    flow = [*FIVE, (0, 234, 4), (0, 302, 4), *COUNTS, *MILLISECONDS]
    now = NOW * 1000
    export.send(
        ipfix(
            70,
            options(10, 257, [(0, 302, 4)], selector),
            data(257, [(0, 302, 4), *selector], [1, 1, 3, 1, 256]),
            options(10, 258, [(0, 234, 4)], [(0, 236, 16)]),
            data(258, [(0, 234, 4), (0, 236, 16)], [0x6000_0001, "customer-7"]),
            template(10, 256, flow),
            data(
                256,
                flow,
                ["198.51.100.7", "203.0.113.9", 53, 40_000, 17, 0x6000_0001, 1, 3, 1500, now - 15_000, now - 500],
            ),
        )
    )


@exported("cisco-asa-nsel")
def asa(export: Export) -> None:
    """NetFlow Secure Event Logging: a connection is created, updated (5) and ended (2). The end tells the counts of the
    last update again, at the same time; they count once. A second connection is denied. Octets count the payload alone.
    """
    event = [
        (0, 148, 4),
        *FIVE,
        (0, 225, 4),
        (0, 227, 2),
        (0, 233, 1),
        (0, 323, 8),
        (0, 231, 4),
        (0, 232, 4),
        (0, 152, 8),
    ]
    now = NOW * 1000

    def row(connection: int, kind: int, at: int, sent: int, answered: int) -> list[Value]:
        ends: list[Value] = [
            "10.1.2.3",
            "203.0.113.9",
            40_000 + connection,
            443,
            6,
            "198.51.100.1",
            50_000 + connection,
        ]
        return [connection, *ends, kind, at, sent, answered, now - 40_000]

    export.send(
        version9(
            1,
            template(9, 263, event),
            data(
                263,
                event,
                row(1, 1, now - 40_000, 0, 0),
                row(1, 5, now - 20_000, 600, 7000),
                row(1, 2, now - 20_000, 600, 7000),
                row(2, 3, now - 1000, 0, 0),
            ),
        )
    )


@exported("line-cards-netflow9")
def line_cards(export: Export) -> None:
    """Two line cards share source id and sequence; one booted 113 s after the other. Neither starts anew."""
    flow = [*FIVE, *COUNTS, *UPTIMES]
    export.send(version9(100, template(9, 256, flow)))
    for number in range(4):
        uptime = UPTIME - 113_000 * (number % 2)
        row: list[Value] = ["198.51.100.7", f"203.0.113.{number}", 1000, 53, 17, 1, 100, uptime - 10_000, uptime - 5000]
        export.send(version9(101 + number, data(256, flow, row), uptime=uptime), after=0.01 * number)


@exported("juniper-inline-ipfix")
def juniper_inline(export: Export) -> None:
    """The boot time and the sampling interval are options of the exporting process; times of flows count from the boot.
    After a restart the numbers begin anew by another port, and the rate is sent again.
    """
    about = [(0, 160, 8), (0, 34, 4), (0, 36, 2)]
    flow = [*FIVE, (0, 10, 4), (0, 14, 4), (0, 136, 1), (0, 61, 1), *COUNTS, *UPTIMES]
    boot = NOW * 1000 - UPTIME
    row: list[Value] = ["198.51.100.7", "203.0.113.9", 40_000, 443, 6, 501, 502, 2, 0, 5, 4000]
    sets = [
        options(10, 512, [(0, 144, 4)], about),
        data(512, [(0, 144, 4), *about], [2, boot, 1000, 60]),
        template(10, 256, flow),
    ]
    export.send(ipfix(5000, *sets, data(256, flow, [*row, UPTIME - 61_000, UPTIME - 1000])))
    export.send(ipfix(0, *sets, data(256, flow, [*row, UPTIME - 10_000, UPTIME - 500])), after=2, port=50_321)


@exported("frame-section-ipfix")
def frames(export: Export) -> None:
    """Records that hold the first octets of a sampled frame (315) and its length (312), instead of addresses; the
    packet has 1,400 octets by its own header.
    """
    flow = [(0, 10, 4), (0, 14, 4), (0, 312, 2), (0, 315, VARIABLE)]
    rows: list[list[Value]] = [[7, 8, 1418, frame(1400, 30)], [7, 8, 60, bytes(12) + short(0x0806) + bytes(28)]]
    export.send(ipfix(1, template(10, 300, flow), data(300, flow, *rows)))


@exported("srv6-two-headers-ipfix")
def segment_routing(export: Export) -> None:
    """Segment routing: the outer IPv6 header first, then the customer's, with the same elements for ports and protocol."""
    flow = [(0, 27, 16), (0, 28, 16), (0, 7, 2), (0, 11, 2), (0, 4, 1), *FIVE, *COUNTS, *MILLISECONDS]
    now = NOW * 1000
    inner: list[Value] = ["198.51.100.7", "203.0.113.9", 40_000, 443, 6, 9, 8000, now - 9000, now - 1000]
    export.send(ipfix(1, template(10, 1500, flow), data(1500, flow, ["2001:db8::1", "2001:db8::2", 0, 0, 43, *inner])))


@exported("carrier-nat-netflow9")
def carrier_nat(export: Export) -> None:
    """RFC 8158: a block of ports is allocated and given back, a session is created and deleted; none counts packets."""
    block = [(0, 8, 4), (0, 225, 4), (0, 230, 1), (0, 323, 8), (0, 361, 2), (0, 362, 2)]
    session = [(0, 8, 4), (0, 225, 4), (0, 7, 2), (0, 227, 2), (0, 4, 1), (0, 230, 1), (0, 323, 8)]
    now = NOW * 1000
    export.send(
        version9(
            1,
            template(9, 270, block),
            template(9, 271, session),
            data(
                270,
                block,
                ["100.64.0.9", "198.51.100.1", 16, now - 9000, 2048, 2303],
                ["100.64.0.9", "198.51.100.1", 17, now - 10, 2048, 2303],
            ),
            data(
                271,
                session,
                ["100.64.0.9", "198.51.100.1", 40_000, 2049, 17, 4, now - 8000],
                ["100.64.0.9", "198.51.100.1", 40_000, 2049, 17, 5, now - 20],
            ),
        )
    )


@exported("yaf-biflow-ipfix", to=4739)
def yaf(export: Export) -> None:
    """Totals of a connection in both directions (RFC 5103), reported three times as it grows, the third time without
    anything new; flags of the first packet and of the others apart.
    """
    reverse = 29_305
    flow = [
        *((0, 152, 8), (0, 153, 8), (0, 85, 8), (reverse, 85, 8), (0, 86, 8), (reverse, 86, 8)),
        *FIVE,
        *((6871, 14, 1), (6871, 15, 1), (6871, 16_398, 1), (6871, 16_399, 1)),
    ]
    now = NOW * 1000
    ends: list[Value] = ["198.51.100.7", "203.0.113.9", 40_000, 443, 6, 2, 0x18, 0x12, 0x18]
    totals = [
        (now - 30_000, 900, 12_000, 9, 12),
        (now - 5000, 1500, 52_000, 15, 40),
        (now - 5000, 1500, 52_000, 15, 40),
    ]
    rows = [[now - 60_000, last, *counts, *ends] for last, *counts in totals]
    export.send(ipfix(11, template(10, 0xB000, flow), data(0xB000, flow, *rows)))


@exported("egress-counters-netflow9")
def on_leaving(export: Export) -> None:
    """An exporter that counts where packets leave: IN_BYTES and IN_PKTS are 0, OUT_BYTES and OUT_PKTS (23, 24) count."""
    flow = [*FIVE, *COUNTS, (0, 24, 4), (0, 23, 4), *UPTIMES]
    row: list[Value] = ["198.51.100.7", "203.0.113.9", 40_000, 443, 6, 0, 0, 6, 4200, UPTIME - 5000, UPTIME - 100]
    nothing: list[Value] = [*row[:7], 0, 0, *row[9:]]
    export.send(version9(1, template(9, 256, flow), data(256, flow, row, nothing)))


@exported("broken-ipfix")
def broken(export: Export) -> None:
    """A set that breaks off after its first record, a set shorter than its header, a template without fields' ends, a
    set of reserved id, a set whose template never comes, a datagram twice, and one of no known version.
    """
    flow = [*FIVE, *COUNTS]
    rows: list[list[Value]] = [["198.51.100.7", f"203.0.113.{last}", 1000, 53, 17, 1, 100] for last in (1, 2)]
    export.send(ipfix(10, template(10, 256, flow), data(256, flow, *rows)), cut=9)
    export.send(ipfix(12, [(short(256, 3) + bytes([1]) * 8, "a set of 3 octets")]), after=1)
    export.send(ipfix(12, a_set(2, "a template", [(short(257, 4, 8, 4), "that breaks off")])), after=2)
    export.send(ipfix(12, a_set(77, "reserved", [(words(1), "")])), after=3)
    export.send(ipfix(12, data(300, flow, *rows)), after=4)
    for after in (5, 5.1):
        export.send(ipfix(14, data(256, flow, rows[0])), after=after)
    export.send([(short(11, 4) + words(1), "version 11")], after=6)


def flow_sample(
    number: int, source: int, ports: tuple[int, int], rest: list[Line], pool: tuple[int, int]
) -> list[Line]:
    """A sample of a packet (sFlow version 5, `flow_sample`)."""
    count = sum(1 for _, what in rest if what)
    head = words(number, source, 512, *pool, *ports, count)
    length = len(head) + sum(len(octets) for octets, _ in rest)
    said = f"number {number} of source {source}, 1 in 512, pool {pool[0]}, drops {pool[1]}"
    return [(words(1, length), "a sample of a packet"), (head, said), *rest]


def record(number: int, octets: bytes, what: str) -> Line:
    """A record within a sample."""
    padded = octets.ljust(-(-len(octets) // 4) * 4, b"\0")
    return words(number, len(padded)) + padded, what


def agent(address: str, sub_agent: int, number: int, *samples: list[Line]) -> list[Line]:
    """A datagram of sFlow."""
    head = words(5, 1) + ipaddress.ip_address(address).packed + words(sub_agent, number, UPTIME + number, len(samples))
    return [
        (head, f"sFlow, agent {address}/{sub_agent}, number {number}, {len(samples)} samples"),
        *chain.from_iterable(samples),
    ]


def header(length: int, stripped: int) -> Line:
    """A record of a packet's header, of which some octets were captured."""
    octets = frame(length)
    return record(
        1,
        words(1, length + 18, stripped, len(octets)) + octets,
        f"the frame: {length + 18} octets, {stripped} stripped",
    )


@exported("switch-sflow", port=9999, to=6343)
def sflow_switch(export: Export) -> None:
    """A switch that counts octets that it did not capture as `stripped`; VLAN and interface unknown; the counters of an
    interface; a sample of a dropped packet (format 5), which is not read. Source 3 lost two samples on the way.
    """
    switch = record(1001, words(0xFFFFFFFF, 0, 33, 0), "VLANs: unknown, and 33")
    router = record(1002, words(1) + ipaddress.ip_address("192.0.2.254").packed + words(24, 16), "a next hop")
    path = words(1, 0xC000_02FD, 64_499, 64_500, 64_502, 1, 2, 2, 64_503, 64_504)
    gateway = record(1003, path + words(0, 0), "the path 64503 64504")
    one = flow_sample(1, 3, (0x3FFF_FFFF, 7), [switch, router, gateway, header(1344, 1290)], (10_000, 0))
    two = flow_sample(4, 3, (5, 7), [header(600, 4)], (12_000, 0))
    interface = words(5, 6, 0, 1_000_000_000, 1, 3, 1, 2, 10, 20, 30, 4, 5, 6, 0, 77, 1, 2, 3, 8, 9, 0)
    counters = [(words(2, 12 + 8 + len(interface)), "a sample of counters"), (words(1, 5, 1), "number 1 of source 5")]
    counters.append(record(1, interface, "an interface"))
    dropped = [(words(5, 12) + words(1, 9, 5), "a sample of a dropped packet")]
    export.send(agent("192.0.2.9", 0, 1, one, two, counters, dropped))


@exported("forwarder-sflow", address="192.0.2.100", to=6343)
def sflow_forwarder(export: Export) -> None:
    """Two agents, one of them with two sub-agents, behind one forwarder: the same packet three times, of three."""
    for name, sub_agent in (("203.0.113.1", 0), ("203.0.113.2", 0), ("203.0.113.2", 1)):
        export.send(agent(name, sub_agent, 1, flow_sample(1, 3, (5, 7), [header(1000, 4)], (512, 0))))


def main() -> None:
    """Write all files."""
    FOLDER.mkdir(exist_ok=True)
    for export, send in EXPORTS:
        send(export)
        export.write()


if __name__ == "__main__":
    main()
