"""Messages of routers' exports, built only from RFC 7011, RFC 8158 and Cisco's description of NetFlow version 5."""

from __future__ import annotations

import socket
import struct
import time
from ipaddress import IPv4Address

DOMAIN = 77
#: natEvent, observationTimeMilliseconds, protocol, source, destination, ports, and source and its port after translation.
NAT_FIELDS = ((230, 1), (323, 8), (4, 1), (8, 4), (12, 4), (7, 2), (11, 2), (225, 4), (227, 2))
#: A subscriber behind the translator, the address that the server sees, and the server.
SUBSCRIBER, SEEN, SERVER = IPv4Address("100.64.7.7"), IPv4Address("198.51.100.77"), IPv4Address("203.0.113.7")


def packed(fields: tuple[tuple[int, int], ...], values: list[int | bytes]) -> bytes:
    """A record: values of these elements and lengths."""
    pairs = zip(fields, values, strict=True)
    return b"".join(
        value.ljust(length, b"\0") if isinstance(value, bytes) else value.to_bytes(length, "big")
        for (_, length), value in pairs
    )


def data_set(number: int, body: bytes) -> bytes:
    """A set of an IPFIX message."""
    return struct.pack(">HH", number, 4 + len(body)) + body


def template(number: int, fields: tuple[tuple[int, int], ...], scopes: int = 0) -> bytes:
    """The set with a template, or with an options template if it has scopes."""
    head = struct.pack(">HHH", number, len(fields), scopes) if scopes else struct.pack(">HH", number, len(fields))
    return data_set(3 if scopes else 2, head + b"".join(struct.pack(">HH", *field) for field in fields))


def ipfix(sequence: int, *sets: bytes) -> bytes:
    """An IPFIX message."""
    body = b"".join(sets)
    return struct.pack(">HHIII", 10, 16 + len(body), int(time.time()), sequence, DOMAIN) + body


def translation(event: int, at_ms: int, port: int, seen: int) -> bytes:
    """A record of NAT_FIELDS."""
    values: list[int | bytes] = [event, at_ms, 6, SUBSCRIBER.packed, SERVER.packed, port, 443, SEEN.packed, seen]
    return packed(NAT_FIELDS, values)


def netflow5(sequence: int, packets: int, octets: int) -> bytes:
    """A NetFlow v5 datagram with one flow of the last ten seconds, of no customer; `sequence` flows were exported before."""
    head = struct.pack("!HHIIIIBBH", 5, 1, 3_600_000, int(time.time()), 0, sequence, 0, 0, 0)
    ends = socket.inet_aton("192.0.2.200") + socket.inet_aton("198.51.100.3") + bytes(4)
    span = 3_590_000, 3_599_000
    return (
        head
        + ends
        + struct.pack("!HHIIIIHHBBBBHHBBH", 1, 2, packets, octets, *span, 40_000, 443, 0, 0x1B, 6, 0, 0, 0, 0, 0, 0)
    )
