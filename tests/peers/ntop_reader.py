"""A reader of nProbe's messages, written from the public format and independent of our code.

It takes the place of ntopng and of the consumers of nProbe's Kafka topics: two frames of ZeroMQ, or one message of
Kafka, go in, records by element name come out, and any deviation from the format raises a `FormatError` that describes
it.

Sources: ntopng's receiver (the headers, the maximum size of an expanded text, the keys of each topic's JSON), nProbe's
user's guide (elements: name, NetFlow v9 number, number under enterprise 35632, octets), IANA's registry of IPFIX
elements.
"""

from __future__ import annotations

import ipaddress
import json
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

import zmq

#: char url[16]; u8 version; u8 source_id; u16 size; u32 msg_id, the last two big endian.
HEADER = struct.Struct("!16sBBHI")
VERSION = 2
TOPICS = ("flow", "event", "counter", "template", "option", "hello")
#: A compressed text may expand to five times its octets, or to this many if that is more; beyond that ntopng reports
#: an error.
GROWTH, LEAST_ROOM = 5, 8192
NTOP = 35632
#: An element of ntop's has this offset in NetFlow v9 over its enterprise number.
NETFLOW_V9 = 57472

Kind = Literal["unsigned", "decimal", "text", "ipv4", "ipv6", "mac", "protocol"]
Form = Literal["numbers", "labels"]
Record = dict[str, Any]


class FormatError(ValueError):
    """A message that ntopng, or a consumer of nProbe's JSON, would misread or not read at all."""


@dataclass(frozen=True)
class Element:
    """One information element: its number under its enterprise (0: IANA's), its octets in a record, its JSON type."""

    name: str
    enterprise: int
    number: int
    octets: int
    kind: Kind = "unsigned"

    @property
    def keys(self) -> tuple[str, ...]:
        """The forms of its number in JSON."""
        if self.enterprise == 0:
            return (str(self.number),)
        return (f"{self.enterprise}.{self.number}", str(NETFLOW_V9 + self.number))


def _table(enterprise: int, text: str) -> list[Element]:
    rows = (line.split() for line in text.strip().splitlines())
    return [Element(name, enterprise, int(number), int(octets), kind) for name, number, octets, kind in rows]  # type: ignore[arg-type]


ELEMENTS = (
    *_table(
        0,
        """
        IN_BYTES 1 8 unsigned
        IN_PKTS 2 8 unsigned
        PROTOCOL 4 1 unsigned
        SRC_TOS 5 1 unsigned
        TCP_FLAGS 6 2 unsigned
        L4_SRC_PORT 7 2 unsigned
        IPV4_SRC_ADDR 8 4 ipv4
        IPV4_SRC_MASK 9 1 unsigned
        INPUT_SNMP 10 4 unsigned
        L4_DST_PORT 11 2 unsigned
        IPV4_DST_ADDR 12 4 ipv4
        IPV4_DST_MASK 13 1 unsigned
        OUTPUT_SNMP 14 4 unsigned
        IPV4_NEXT_HOP 15 4 ipv4
        SRC_AS 16 4 unsigned
        DST_AS 17 4 unsigned
        LAST_SWITCHED 21 8 unsigned
        FIRST_SWITCHED 22 8 unsigned
        OUT_BYTES 23 8 unsigned
        OUT_PKTS 24 8 unsigned
        MIN_IP_PKT_LEN 25 2 unsigned
        MAX_IP_PKT_LEN 26 2 unsigned
        IPV6_SRC_ADDR 27 16 ipv6
        IPV6_DST_ADDR 28 16 ipv6
        IPV6_SRC_MASK 29 1 unsigned
        IPV6_DST_MASK 30 1 unsigned
        ICMP_TYPE 32 2 unsigned
        SAMPLING_INTERVAL 34 4 unsigned
        SAMPLING_ALGORITHM 35 1 unsigned
        FLOW_ACTIVE_TIMEOUT 36 2 unsigned
        FLOW_INACTIVE_TIMEOUT 37 2 unsigned
        ENGINE_TYPE 38 1 unsigned
        ENGINE_ID 39 1 unsigned
        TOTAL_BYTES_EXP 40 8 unsigned
        TOTAL_PKTS_EXP 41 8 unsigned
        TOTAL_FLOWS_EXP 42 8 unsigned
        MIN_TTL 52 1 unsigned
        MAX_TTL 53 1 unsigned
        DST_TOS 55 1 unsigned
        IN_SRC_MAC 56 6 mac
        OUT_DST_MAC 57 6 mac
        SRC_VLAN 58 2 unsigned
        DST_VLAN 59 2 unsigned
        IP_PROTOCOL_VERSION 60 1 unsigned
        DIRECTION 61 1 unsigned
        IPV6_NEXT_HOP 62 16 ipv6
        MPLS_LABEL_1 70 3 unsigned
        IN_DST_MAC 80 6 mac
        OUT_SRC_MAC 81 6 mac
        INTERFACE_NAME 82 8 text
        OCTET_TOTAL 85 8 unsigned
        PACKET_TOTAL 86 8 unsigned
        APPLICATION_ID 95 4 unsigned
        APPLICATION_NAME 96 16 text
        BGP_NEXT_ADJACENT_ASN 128 4 unsigned
        BGP_PREV_ADJACENT_ASN 129 4 unsigned
        EXPORTER_IPV4_ADDRESS 130 4 ipv4
        EXPORTER_IPV6_ADDRESS 131 16 ipv6
        FLOW_END_REASON 136 1 unsigned
        FLOW_ID 148 8 unsigned
        FLOW_START_SEC 150 4 unsigned
        FLOW_END_SEC 151 4 unsigned
        FLOW_START_MILLISECONDS 152 8 unsigned
        FLOW_END_MILLISECONDS 153 8 unsigned
        FLOW_START_MICROSECONDS 154 8 unsigned
        FLOW_END_MICROSECONDS 155 8 unsigned
        FLOW_DURATION_MILLISECONDS 161 4 unsigned
        FLOW_DURATION_MICROSECONDS 162 4 unsigned
        ICMP_IPV4_TYPE 176 1 unsigned
        ICMP_IPV4_CODE 177 1 unsigned
        INITIATOR_OCTETS 231 8 unsigned
        RESPONDER_OCTETS 232 8 unsigned
        INGRESS_VRFID 234 4 unsigned
        EGRESS_VRFID 235 4 unsigned
        BIFLOW_DIRECTION 239 1 unsigned
        DOT1Q_SRC_VLAN 243 2 unsigned
        DOT1Q_DST_VLAN 254 2 unsigned
        OBSERVATION_POINT_TYPE 277 2 unsigned
        INITIATOR_PKTS 298 8 unsigned
        RESPONDER_PKTS 299 8 unsigned
        OBSERVATION_POINT_ID 300 2 unsigned
        SELECTOR_ID 302 2 unsigned
        """,
    ),
    *_table(
        NTOP,
        """
        CLIENT_TCP_FLAGS 78 1 unsigned
        SERVER_TCP_FLAGS 79 1 unsigned
        SRC_FRAGMENTS 80 2 unsigned
        DST_FRAGMENTS 81 2 unsigned
        SRC_IP_COUNTRY 101 2 text
        DST_IP_COUNTRY 103 2 text
        LONGEST_FLOW_PKT 107 2 unsigned
        SHORTEST_FLOW_PKT 108 2 unsigned
        RETRANSMITTED_IN_PKTS 109 4 unsigned
        RETRANSMITTED_OUT_PKTS 110 4 unsigned
        OOORDER_IN_PKTS 111 4 unsigned
        OOORDER_OUT_PKTS 112 4 unsigned
        L7_PROTO 118 2 protocol
        L7_PROTO_NAME 119 16 text
        NPROBE_INSTANCE_NAME 122 32 text
        CLIENT_NW_LATENCY_MS 123 4 decimal
        SERVER_NW_LATENCY_MS 124 4 decimal
        APPL_LATENCY_MS 125 4 decimal
        RETRANSMITTED_IN_BYTES 127 4 unsigned
        RETRANSMITTED_OUT_BYTES 128 4 unsigned
        TLS_SERVER_NAME 188 48 text
        DNS_QUERY 205 256 text
        NPROBE_IPV4_ADDRESS 471 4 ipv4
        L7_PROTO_CATEGORY 501 16 text
        L7_PROTO_RISK 509 8 unsigned
        L7_INFO 539 24 text
        L7_CONFIDENCE 560 1 unsigned
        FLOW_EXPORT_TIME 573 4 unsigned
        FLOW_SOURCE 579 1 unsigned
        UNIQUE_SOURCE_ID 589 4 unsigned
        """,
    ),
)
BY_NAME = {element.name: element for element in ELEMENTS}
BY_KEY = {key: element for element in ELEMENTS for key in element.keys}

#: Elements whose absence from a template makes ntopng warn.
MANDATORY = frozenset(
    [
        "FIRST_SWITCHED",
        "LAST_SWITCHED",
        "L4_SRC_PORT",
        "L4_DST_PORT",
        "IP_PROTOCOL_VERSION",
        "PROTOCOL",
        "IN_BYTES",
        "IN_PKTS",
        "OUT_BYTES",
        "OUT_PKTS",
    ]
)

#: A shape of JSON: a name gives the type of its value, a shape again, or (with a final "?") one that may be absent.
Shape = dict[str, Any]
EVENT: Shape = {
    "time": int,
    "bytes": int,
    "packets": int,
    "packet_drops?": int,
    "iface": {"name": str, "speed": int, "ip": str},
    "probe": {
        "public_ip?": str,
        "ip": str,
        "version": str,
        "osname": str,
        "license?": str,
        "edition?": str,
        "maintenance?": str,
        "uuid?": str,
    },
    "avg": {"bps": int, "pps": int},
    "timeout": {"lifetime": int, "idle": int, "collected_lifetime?": int},
    "drops": {
        "export_queue_full": int,
        "too_many_flows": int,
        "elk_flow_drops?": int,
        "sflow_pkt_sample_drops?": int,
        "flow_collection_drops?": int,
        "flow_collection_udp_socket_drops?": int,
    },
    "flow_collection?": {"nf_ipfix_flows?": int, "sflow_samples?": int},
    "zmq?": {"num_flow_exports": int, "num_exporters": int},
}
#: The receiver's buffer sizes, octets with the final NUL.
EVENT_ROOM = {
    "iface.name": 32,
    "iface.ip": 64,
    "probe.ip": 64,
    "probe.public_ip": 64,
    "probe.version": 64,
    "probe.osname": 64,
}
COUNTER: Shape = {
    "deviceIP": str,
    "ifIndex": int,
    "samplesGenerated?": int,
    "ifName?": str,
    "ifType?": int,
    "ifSpeed?": int,
    "ifFullDuplex?": int,
    "ifDirection?": int,
    "ifAdminStatus?": int,
    "ifOperStatus?": int,
    "ifInOctets": int,
    "ifInPackets": int,
    "ifInErrors": int,
    "ifOutOctets": int,
    "ifOutPackets": int,
    "ifOutErrors": int,
    "ifPromiscuousMode?": int,
}
TEMPLATE: Shape = {"PEN": int, "field": int, "len": int, "format?": str, "name": str, "descr": str}
OPTION: Shape = {"PEN": int, "field": int, "value": int, "map": {"name": str}}


@dataclass(frozen=True)
class Message:
    """One decoded ZeroMQ message: records for "flow", the JSON itself for every other topic."""

    topic: str
    source_id: int
    msg_id: int
    compressed: bool
    octets: int
    payload: Any
    form: Form | None = None


@dataclass
class Reader:
    """Reads messages in order of arrival, and checks each source's numbers for gaps."""

    last: dict[int, int] = field(default_factory=dict)

    def read(self, frames: list[bytes]) -> Message:
        """One message's frames. Raises FormatError."""
        if len(frames) != 2:
            raise FormatError(f"{len(frames)} frames, but a message has two: the header and the payload")
        head, body = frames
        if len(head) != HEADER.size:
            raise FormatError(f"the header has {len(head)} octets, version {VERSION} has {HEADER.size}")
        url, version, source, size, number = HEADER.unpack(head)
        if version != VERSION:
            raise FormatError(f"version {version}, not {VERSION}")
        name, _, padding = url.partition(b"\0")
        topic = name.decode("ascii", "replace")
        if topic not in TOPICS:
            raise FormatError(f"topic {topic!r} is none of {', '.join(TOPICS)}")
        if (not padding and len(name) == 16) or padding.strip(b"\0"):
            raise FormatError(f"topic {topic!r} is not padded with NUL: {url!r}")
        if size != len(body):
            raise FormatError(f"size says {size} octets, the payload has {len(body)}")
        before = self.last.get(source)
        if before is not None and number != (before + 1) % 2**32:
            raise FormatError(
                f"source {source}: msg_id {number} after {before}: ntopng counts the gap as lost messages"
            )
        self.last[source] = number
        text, compressed = expand(body)
        payload = parse(text)
        form: Form | None = None
        if topic == "flow":
            payload, form = records(payload)
        else:
            CHECKS[topic](payload)
        return Message(topic, source, number, compressed, len(body), payload, form)


class Subscriber:
    """Subscribed to a publisher on this machine as ntopng is: to each topic. At most this many messages wait (0: any
    number).
    """

    def __init__(self, port: int, waiting: int = 0) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.SUB)
        self.socket.set(zmq.RCVHWM, waiting)
        for topic in TOPICS:
            self.socket.subscribe(topic)
        self.socket.connect(f"tcp://127.0.0.1:{port}")
        self.reader = Reader()
        self.messages: list[Message] = []

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close(linger=0)
        self.context.term()

    def receive(self, more: Callable[[], bool]) -> list[Message]:
        """Read while more is expected, then until a second passes without a message; returns everything so far. Raises
        FormatError.
        """
        while more() or self.socket.poll(1000):
            if self.socket.poll(100):
                self.messages.append(self.reader.read(self.socket.recv_multipart()))
        return self.messages


def flows(messages: list[Message]) -> list[Record]:
    """The records among messages."""
    return [record for message in messages if message.topic == "flow" for record in message.payload]


def expand(body: bytes) -> tuple[bytes, bool]:
    """A payload's text, and whether it arrived compressed: a 0 and then zlib's stream."""
    if not body:
        raise FormatError("the payload is empty")
    if body[0] != 0:
        return body, False
    stream = zlib.decompressobj()
    room = max(GROWTH * len(body), LEAST_ROOM)
    try:
        text = stream.decompress(body[1:], room)
    except zlib.error as error:
        raise FormatError(f"the payload begins with 0 and is not zlib's: {error}") from error
    if stream.unconsumed_tail:
        raise FormatError(f"{len(body)} compressed octets hold more than the {room} that ntopng has room for")
    if not stream.eof or stream.unused_data:
        raise FormatError("zlib's stream is cut short or has octets after it")
    return text, True


def kafka(value: bytes) -> tuple[list[Record], Form]:
    """The records of one message of Kafka, plain JSON. Raises FormatError."""
    return records(parse(value))


def parse(text: bytes) -> Any:
    """JSON, strictly: UTF-8, no duplicate name, no NaN."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise FormatError(f"JSON has {', '.join(twice)} twice in an object")
        return dict(pairs)

    def never(word: str) -> Any:
        raise FormatError(f"JSON has no {word}")

    try:
        return json.loads(text.decode(), object_pairs_hook=once, parse_constant=never)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FormatError(f"the payload is not JSON: {error}: {text[:80]!r}") from error


def records(payload: Any) -> tuple[list[Record], Form]:
    """The flows of a JSON array or object, by element name, and the notation of their keys."""
    flows = payload if isinstance(payload, list) else [payload]
    if not flows:
        raise FormatError("a message of flows contains none")
    forms: set[Form] = set()
    read = []
    for flow in flows:
        if not isinstance(flow, dict) or not flow:
            raise FormatError(f"a flow is an object with fields, not {flow!r}")
        record = {}
        for key, value in flow.items():
            element, form = named(key)
            forms.add(form)
            if element.name in record:
                raise FormatError(f"{element.name} comes twice in a record")
            check_value(element, value)
            record[element.name] = value
        check_record(record)
        read.append(record)
    if len(forms) != 1:
        raise FormatError("numbers and labels are mixed among the keys")
    return read, forms.pop()


def named(key: str) -> tuple[Element, Form]:
    """The element of a key: "8", "IPV4_SRC_ADDR", "35632.118", "57590"."""
    if (element := BY_NAME.get(key)) is not None:
        return element, "labels"
    if (element := BY_KEY.get(key)) is not None:
        return element, "numbers"
    raise FormatError(f"key {key!r} is no element that nProbe or IANA's registry has")


def check_value(element: Element, value: Any) -> None:
    """A value's type and range."""
    whole, text = type(value) is int, isinstance(value, str)
    match element.kind:
        case "unsigned":
            good = whole and 0 <= value < 1 << 8 * element.octets
        case "decimal":
            good = type(value) in (int, float) and value >= 0
        case "text":
            good = text
        case "protocol":
            good = (whole and 0 <= value < 1 << 16) or (text and re.fullmatch(r"\d+(\.\d+)?", value) is not None)
        case "mac":
            good = text and re.fullmatch(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", value) is not None
        case "ipv4" | "ipv6":
            good = text and _version(value) == int(element.kind[-1])
    if not good:
        raise FormatError(f"{element.name} is {element.kind} of {element.octets} octets, not {value!r}")


def _version(address: str) -> int:
    try:
        return ipaddress.ip_address(address).version
    except ValueError:
        return 0


def check_record(record: Record) -> None:
    """Consistency of the fields of one record."""
    for side in ("SRC", "DST"):
        # ntopng takes the first of two and warns of every record.
        both = [f"IPV{version}_{side}_ADDR" for version in (4, 6) if f"IPV{version}_{side}_ADDR" in record]
        if len(both) == 2 and all(int(ipaddress.ip_address(record[name])) for name in both):
            raise FormatError(f"a record has {' and '.join(both)}")
        version = record.get("IP_PROTOCOL_VERSION")
        if version is not None and both and f"IPV{version}_{side}_ADDR" not in both:
            raise FormatError(f"IP_PROTOCOL_VERSION {version} beside {both[0]}")
    for first, last in (
        ("FIRST_SWITCHED", "LAST_SWITCHED"),
        ("FLOW_START_SEC", "FLOW_END_SEC"),
        ("FLOW_START_MILLISECONDS", "FLOW_END_MILLISECONDS"),
    ):
        if first in record and last in record and record[first] > record[last]:
            raise FormatError(f"{first} {record[first]} is after {last} {record[last]}")
    for name in ("FIRST_SWITCHED", "LAST_SWITCHED"):
        # ntopng keeps seconds from the Unix epoch, 32 bits of them.
        if record.get(name, 0) >= 1 << 32:
            raise FormatError(f"{name} is seconds from the epoch in JSON, not {record[name]}")


def check_shape(shape: Shape, value: Any, where: str) -> None:
    """Requires every name of the shape, no others, each with its type."""
    if not isinstance(value, dict):
        raise FormatError(f"{where} is an object, not {value!r}")
    known = {name.removesuffix("?"): (of, name.endswith("?")) for name, of in shape.items()}
    if strange := sorted(value.keys() - known.keys()):
        raise FormatError(f"{where} has {', '.join(strange)}, which the format has not")
    for name, (of, may_be_absent) in known.items():
        if name not in value:
            if may_be_absent:
                continue
            raise FormatError(f"{where} lacks {name}")
        if isinstance(of, dict):
            check_shape(of, value[name], f"{where}.{name}")
        elif type(value[name]) is not of or (of is int and value[name] < 0):
            raise FormatError(f"{where}.{name} is {of.__name__}, not {value[name]!r}")


def check_event(value: Any) -> None:
    check_shape(EVENT, value, "event")
    for path, room in EVENT_ROOM.items():
        outer, inner = path.split(".")
        text = value[outer].get(inner)
        if text is not None and len(text.encode()) >= room:
            raise FormatError(f"event.{path} has {len(text.encode())} octets, ntopng keeps {room - 1}")


def check_template(value: Any) -> None:
    if not isinstance(value, list) or not value:
        raise FormatError("a template is an array with elements")
    for row in value:
        check_shape(TEMPLATE, row, "template")
        element = BY_NAME.get(row["name"])
        if element is None:
            raise FormatError(f"template: no element is called {row['name']}")
        numbers = {(element.enterprise, element.number)}
        if element.enterprise == NTOP:
            numbers |= {(NTOP, NETFLOW_V9 + element.number), (0, NETFLOW_V9 + element.number)}
        if (row["PEN"], row["field"]) not in numbers:
            raise FormatError(
                f"template: {element.name} is {element.enterprise}.{element.number}, not {row['PEN']}.{row['field']}"
            )
    names = [row["name"] for row in value]
    if len(set(names)) != len(names):
        raise FormatError("template: an element comes twice")
    if missing := sorted(MANDATORY - set(names)):
        raise FormatError(f"template: ntopng misses {', '.join(missing)}")


def check_hello(value: Any) -> None:
    # ntopng reads nothing of it: its arrival is the message.
    if not isinstance(value, dict):
        raise FormatError(f"hello is an object, not {value!r}")


CHECKS = {
    "event": check_event,
    "counter": lambda value: check_shape(COUNTER, value, "counter"),
    "template": check_template,
    "option": lambda value: check_shape(OPTION, value, "option"),
    "hello": check_hello,
}
