"""Ethernet frames and captures (pcap), for made traffic."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from pathlib import Path

TCP, UDP, ICMP = 6, 17, 1
SYN, SYNACK, ACK, PUSH, FIN, RST = 0x02, 0x12, 0x10, 0x18, 0x11, 0x14
#: A packet: its time, seconds from the Unix epoch, and its frame.
Packet = tuple[float, bytes]
#: What a capture begins with: microseconds, Ethernet.
FILE_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


def ethernet(source: str, target: str, protocol: int, payload: bytes, to: str = "02:00:00:00:00:01") -> bytes:
    """A frame with a packet of IPv4 or IPv6, by its addresses."""
    ends = ipaddress.ip_address(source).packed + ipaddress.ip_address(target).packed
    start = bytes.fromhex(to.replace(":", "")) + bytes.fromhex("020000000002")
    if ":" in source:
        header = struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64)
        return start + b"\x86\xdd" + header + ends + payload
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0)
    return start + b"\x08\x00" + header + ends + payload


def tcp(source: int, target: int, flags: int, payload: bytes = b"", numbers: tuple[int, int] = (1, 1)) -> bytes:
    """A segment of TCP; `numbers` are its sequence and acknowledgement."""
    return struct.pack("!HHIIBBHHH", source, target, *numbers, 0x50, flags, 65_535, 0, 0) + payload


def udp(source: int, target: int, payload: bytes) -> bytes:
    """A datagram of UDP."""
    return struct.pack("!HHHH", source, target, 8 + len(payload), 0) + payload


def question(name: str, number: int) -> bytes:
    """A DNS query for an address (RFC 1035, section 4)."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!HHHHHH", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", 1, 1)


def recorded(packet: Packet) -> bytes:
    """A packet as a capture holds it."""
    moment, frame = packet
    return struct.pack("<IIII", int(moment), int(moment % 1 * 1e6), len(frame), len(frame)) + frame


def write(path: Path, packets: Iterable[Packet]) -> int:
    """Write the capture; returns the number of packets."""
    ordered = sorted(packets)
    with path.open("wb") as file:
        file.write(FILE_HEADER)
        file.writelines(map(recorded, ordered))
    return len(ordered)
