"""All public captures merged in one pcap file, as if they had happened at the same time: the traffic of a busy probe."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from capture_traces import SHARED, START, header, unpacked

FOLDERS = ("ndpi", "zeek", "ipfixprobe", "slips")
#: Seconds taken of each capture; the captures begin within the first ten.
SECONDS = 60
IP = (b"\x08\x00", b"\x86\xdd")


def laid_over(path: Path) -> int:
    """Write the captures of ../shared/pcaps to one pcap file in the order of time; returns the number of packets, 0 if
    there are none.
    """
    packets: list[tuple[int, bytes]] = []
    captures = sorted(one for folder in FOLDERS for one in (SHARED / folder).rglob("*") if one.is_file())
    for number, capture in enumerate(captures):
        begin = None
        for micros, frame in timed(capture):
            begin = micros if begin is None else begin
            # A later capture must not begin in step with the others.
            at = micros - begin + number * 10_000_000 // len(captures)
            if 0 <= micros - begin < SECONDS * 1_000_000:
                packets.append((at, frame))
    packets.sort(key=lambda packet: packet[0])
    with path.open("wb") as file:
        file.write(header())
        for at, frame in packets:
            size = len(frame)
            seconds, micros = divmod(at, 1_000_000)
            file.write(struct.pack("<IIII", START + seconds, micros, size, size) + frame)
    return len(packets)


def timed(path: Path) -> Iterator[tuple[int, bytes]]:
    """Time in microseconds and octets of the whole Ethernet frames with IP in a pcap or pcapng file; nothing from any
    other file.
    """
    data = unpacked(path)
    packets = _pcapng(data) if data[:4] == b"\x0a\x0d\x0d\x0a" else _pcap(data)
    for micros, length, frame in packets:
        if len(frame) == length and frame[12:14] in IP:
            yield micros, frame


def _pcap(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    kinds = {
        b"\xd4\xc3\xb2\xa1": ("<", 1),
        b"\xa1\xb2\xc3\xd4": (">", 1),
        b"\x4d\x3c\xb2\xa1": ("<", 1000),
        b"\xa1\xb2\x3c\x4d": (">", 1000),
    }
    order, fraction = kinds.get(data[:4], ("", 1))
    if not order or struct.unpack(order + "I", data[20:24])[0] & 0xFFFF != 1:
        return
    at = 24
    while at + 16 <= len(data):
        seconds, part, captured, length = struct.unpack(order + "IIII", data[at : at + 16])
        yield seconds * 1_000_000 + part // fraction, length, data[at + 16 : at + 16 + captured]
        at += 16 + captured


def _pcapng(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    order, at = "<", 0
    ethernet: list[bool] = []
    while at + 12 <= len(data):
        if data[at : at + 4] == b"\x0a\x0d\x0d\x0a":
            order, ethernet = "<" if data[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">", []
        kind, size = struct.unpack(order + "II", data[at : at + 8])
        if size < 12:
            return
        if kind == 1:
            # Interfaces with a unit other than microseconds are rare, and left out.
            plain = b"\x09\x00\x01\x00" not in data[at + 16 : at + size - 4]
            ethernet.append(plain and struct.unpack(order + "H", data[at + 8 : at + 10])[0] == 1)
        elif kind == 6 and at + 28 <= len(data):
            interface, high, low, captured, length = struct.unpack(order + "IIIII", data[at + 8 : at + 28])
            if interface < len(ethernet) and ethernet[interface]:
                yield high << 32 | low, length, data[at + 28 : at + 28 + captured]
        at += size
