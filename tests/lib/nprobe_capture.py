"""A small capture whose records fill every field of nProbe's messages."""

from __future__ import annotations

import ipaddress
import struct
from pathlib import Path

from check_peers import write_pcap
from weir.frames import question

#: First packet, seconds from the Unix epoch.
START = 1_790_000_000
FIN, SYN, RST, ACK = 1, 2, 4, 16


def ethernet(source: str, destination: str, protocol: int, layer4: bytes) -> bytes:
    """A frame of IPv4 or IPv6."""
    ends = [ipaddress.ip_address(end) for end in (source, destination)]
    raw = b"".join(end.packed for end in ends)
    if ends[0].version == 6:
        return bytes(12) + b"\x86\xdd" + struct.pack("!IHBB", 0x60000000, len(layer4), protocol, 64) + raw + layer4
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(layer4), 0, 0, 64, protocol, 0)
    return bytes(12) + b"\x08\x00" + head + raw + layer4


def tcp(ports: tuple[int, int], sequence: int, acknowledged: int, flags: int, payload: bytes = b"") -> bytes:
    return struct.pack("!HHIIBBHHH", *ports, sequence, acknowledged, 0x50, flags, 1000, 0, 0) + payload


def udp(ports: tuple[int, int], payload: bytes) -> bytes:
    return struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload


def request(host: str) -> bytes:
    return f"GET / HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tests\r\n\r\n".encode()


def connection(when: float, client: str, server: str, port: int, host: str) -> list[tuple[float, bytes]]:
    """A connection with a handshake of 30 ms, one segment sent twice and two out of order."""
    there, back = (port, 80), (80, port)
    asked, told = request(host), b"x" * 400
    sent = [
        (0.000, client, tcp(there, 100, 0, SYN)),
        (0.020, server, tcp(back, 500, 101, SYN | ACK)),
        (0.030, client, tcp(there, 101, 501, ACK)),
        (0.031, client, tcp(there, 101, 501, ACK, asked)),
        (0.300, client, tcp(there, 101, 501, ACK, asked)),
        (0.350, server, tcp(back, 901, 101 + len(asked), ACK, told)),
        (0.351, server, tcp(back, 501, 101 + len(asked), ACK, told)),
        (0.400, client, tcp(there, 101 + len(asked), 1301, ACK)),
        (0.500, server, tcp(back, 1301, 101 + len(asked), FIN | ACK)),
        (12.00, client, tcp(there, 101 + len(asked), 1302, RST)),
    ]
    return [
        (when + after, ethernet(source, server if source == client else client, 6, layer4))
        for after, source, layer4 in sent
    ]


def make(path: Path, flows: int = 120) -> None:
    """Write it: connections, DNS queries and echoes over IPv4 and IPv6, more than a few messages of records."""
    frames: list[tuple[float, bytes]] = []
    for number in range(flows):
        six, when = number % 3 == 2, START + number * 0.05
        client, server = (
            f"2001:db8::{1 + number % 40:x}" if six else f"198.18.0.{1 + number % 40}",
            "2001:db8::ff" if six else "203.0.113.9",
        )
        port = 20_000 + number
        if number % 4 < 2:
            frames += connection(when, client, server, port, f"host-{number}.example.org")
        elif number % 4 == 2:
            asked = udp((port, 53), question(f"name-{number}.example.net", number))
            frames.append((when, ethernet(client, server, 17, asked)))
        else:
            echo = struct.pack("!BBHHH", 128 if six else 8, 0, 0, number, 1) + b"echo"
            frames.append((when, ethernet(client, server, 58 if six else 1, echo)))
    with path.open("wb") as file:
        write_pcap(file, sorted(frames))
