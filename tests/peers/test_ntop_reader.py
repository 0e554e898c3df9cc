"""The reader of nProbe's messages reads correct messages, and names the fault of wrong ones."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from ntop_reader import HEADER, FormatError, Reader, kafka

FLOW = {"IPV4_SRC_ADDR": "192.0.2.1", "IPV4_DST_ADDR": "198.51.100.2", "IN_PKTS": 3, "L7_PROTO": 91}
NUMBERED = {"8": "192.0.2.1", "12": "198.51.100.2", "2": 3, "35632.118": 91}
IN_V9 = {"8": "192.0.2.1", "12": "198.51.100.2", "2": 3, "57590": 91}
EVENT: dict[str, Any] = {
    "time": 1_600_000_000,
    "bytes": 1000,
    "packets": 10,
    "iface": {"name": "eth0", "speed": 1000, "ip": "192.0.2.9"},
    "probe": {"ip": "192.0.2.9", "version": "1.0", "osname": "Linux"},
    "avg": {"bps": 800, "pps": 1},
    "timeout": {"lifetime": 10, "idle": 10},
    "drops": {"export_queue_full": 0, "too_many_flows": 0},
}
OPTION = {"PEN": 35632, "field": 118, "value": 700, "map": {"name": "Ours"}}


def frames(
    payload: Any, topic: bytes = b"flow", number: int = 1, version: int = 2, source: int = 0, size: int | None = None
) -> list[bytes]:
    """A message; a payload other than octets is written as JSON."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return [HEADER.pack(topic, version, source, len(body) if size is None else size, number), body]


def compressed(text: bytes) -> bytes:
    return b"\0" + zlib.compress(text)


@pytest.mark.parametrize("flow", [FLOW, NUMBERED, IN_V9])
@pytest.mark.parametrize("pack", [bytes, compressed])
def test_a_flow_is_read_by_name_however_it_is_keyed_and_packed(flow: dict[str, Any], pack: Any) -> None:
    message = Reader().read(frames(pack(json.dumps([flow]).encode())))
    assert (message.topic, message.compressed, message.payload) == ("flow", pack is compressed, [FLOW])
    assert kafka(json.dumps(flow).encode())[0] == [FLOW]


def test_every_topic_is_read_and_sources_are_numbered_apart() -> None:
    reader = Reader()
    reader.read(frames([FLOW], number=2**32 - 1))
    reader.read(frames(EVENT, b"event", number=0))
    reader.read(frames(OPTION, b"option", number=7, source=9))
    assert reader.read(frames({}, b"hello", number=8, source=9)).source_id == 9


WRONG: list[tuple[list[bytes], str]] = [
    (frames([FLOW])[:1], "1 frames"),
    ([b"\0" * 40, b"[]"], "header has 40 octets"),
    (frames([FLOW], version=3), "version 3"),
    (frames([FLOW], topic=b"flows"), "topic 'flows'"),
    (frames([FLOW], topic=b"flow\0\0x"), "padded with NUL"),
    (frames([FLOW], size=3), "size says 3 octets"),
    (frames(b"[{]"), "not JSON"),
    (frames(b""), "empty"),
    (frames(b'[{"8":"192.0.2.1","8":"192.0.2.1"}]'), "8 twice"),
    (frames(b'[{"35632.124":NaN}]'), "no NaN"),
    (frames([]), "contains none"),
    (frames([FLOW, NUMBERED]), "mixed"),
    (frames([{"IPV4_SRC": "192.0.2.1"}]), "'IPV4_SRC' is no element"),
    (frames([{"35632.8": 1}]), "'35632.8' is no element"),
    (frames([FLOW | {"IN_PKTS": "3"}]), "IN_PKTS is unsigned"),
    (frames([FLOW | {"IN_PKTS": -1}]), "IN_PKTS is unsigned"),
    (frames([FLOW | {"L4_SRC_PORT": 65536}]), "L4_SRC_PORT is unsigned of 2"),
    (frames([FLOW | {"IPV4_SRC_ADDR": "2001:db8::1"}]), "IPV4_SRC_ADDR is ipv4"),
    (frames([FLOW | {"IPV6_SRC_ADDR": "2001:db8::1"}]), "IPV4_SRC_ADDR and IPV6_SRC_ADDR"),
    (frames([FLOW | {"IP_PROTOCOL_VERSION": 6}]), "IP_PROTOCOL_VERSION 6 beside IPV4"),
    (frames([FLOW | {"FIRST_SWITCHED": 2, "LAST_SWITCHED": 1}]), "is after"),
    (frames([FLOW | {"LAST_SWITCHED": 1_600_000_000_000}]), "seconds from the epoch"),
    (frames(b"\0" + b"nothing"), "not zlib's"),
    (frames(compressed(json.dumps([FLOW]).encode())[:-2]), "cut short"),
    (frames(compressed(json.dumps([FLOW] * 1000).encode())), "room for"),
    (frames({}, b"event"), "event lacks time"),
    (frames(EVENT | {"bytes": "1000"}, b"event"), "event.bytes is int"),
    (frames(EVENT | {"colour": 1}, b"event"), "event has colour"),
    (frames(EVENT | {"avg": {"bps": 1}}, b"event"), "event.avg lacks pps"),
    (frames(EVENT | {"iface": {"name": "x" * 32, "speed": 0, "ip": ""}}, b"event"), "ntopng keeps 31"),
    (frames([{"PEN": 0, "field": 9, "len": 4, "name": "IN_PKTS", "descr": ""}], b"template"), "IN_PKTS is 0.2"),
    (frames([{"PEN": 0, "field": 2, "len": 4, "name": "IN_PKTS", "descr": ""}], b"template"), "misses FIRST_SWITCHED"),
    (frames([OPTION], b"option"), "option is an object"),
    (frames({"deviceIP": "192.0.2.1"}, b"counter"), "counter lacks ifIndex"),
]


@pytest.mark.parametrize(("message", "says"), WRONG, ids=[says for _, says in WRONG])
def test_what_is_wrong_is_said(message: list[bytes], says: str) -> None:
    with pytest.raises(FormatError, match=says.replace(".", r"\.")):
        Reader().read(message)


def test_a_gap_in_the_numbers_is_an_error() -> None:
    reader = Reader()
    reader.read(frames([FLOW], number=5))
    with pytest.raises(FormatError, match="msg_id 7 after 5"):
        reader.read(frames([FLOW], number=7))
