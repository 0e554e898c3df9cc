"""Variants of captures: one packet in five, one direction alone, without the first third, and several merged."""

from __future__ import annotations

import hashlib
import struct
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import packets as packet_reader
from packets import SECOND

Choice = Callable[[int], bool]
#: How a pcap file of microseconds begins, as most machines write it.
LITTLE = bytes.fromhex("d4c3b2a1")
ETHERNET = struct.pack("<I", 1)


def octets_of(capture: Path, folder: Path) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """The header of a capture as pcap, and the header and octets of each packet."""
    data = capture.read_bytes()
    if data[:4] not in (LITTLE, LITTLE[::-1]):
        copy = folder / f"{capture.name}.copy"
        done = subprocess.run(["editcap", "-F", "pcap", str(capture), str(copy)], capture_output=True, check=False)
        data = copy.read_bytes() if done.returncode == 0 else LITTLE + bytes(20)
        copy.unlink(missing_ok=True)
    order = "<" if data[:4] == LITTLE else ">"
    at, found = 24, []
    while at + 16 <= len(data):
        length = struct.unpack_from(f"{order}I", data, at + 8)[0]
        found.append((data[at : at + 16], data[at + 16 : at + 16 + length]))
        at += 16 + length
    return data[:24], found


def chosen(capture: Path, folder: Path, name: str, choice: Choice) -> Path:
    """The capture with some of its packets."""
    header, raw = octets_of(capture, folder)
    target = folder / f"{capture.stem}-{name}.pcap"
    target.write_bytes(header + b"".join(before + octets for at, (before, octets) in enumerate(raw) if choice(at)))
    return target


def thinned(capture: Path, folder: Path) -> Path:
    """One packet in five, as a sampling device takes them."""
    return chosen(capture, folder, "thinned", lambda at: at % 5 == 2)


def one_way(capture: Path, folder: Path) -> Path:
    """Only the packets of the lower address of each pair, as with asymmetric routes."""
    frames = packet_reader.read(capture)
    return chosen(capture, folder, "one-way", lambda at: frames[at].src <= frames[at].dst)


def from_the_middle(capture: Path, folder: Path) -> Path:
    """The capture without its first third, so that it begins in the middle of flows."""
    third = len(octets_of(capture, folder)[1]) // 3
    return chosen(capture, folder, "middle", lambda at: at >= third)


def at_once(captures: Iterable[Path], folder: Path, name: str, seconds: int = 200) -> Path:
    """Ethernet captures side by side: each begins within the same `seconds`, and ends with them."""
    start, header, merged = 1_700_000_010, b"", []
    for capture in captures:
        if capture.read_bytes()[:4] != LITTLE:
            continue
        head, raw = octets_of(capture, folder)
        if head[20:24] != ETHERNET or not raw:
            continue
        header = head
        first = times(raw[0][0])
        offset = int.from_bytes(hashlib.sha256(capture.name.encode()).digest()[:2], "big") * seconds * 1000 // 65_536
        for before, octets in raw:
            at = times(before) - first + offset * 1_000_000
            if 0 <= at < seconds * SECOND:
                at += start * SECOND
                stamp = struct.pack("<II", at // SECOND, at % SECOND // 1000)
                merged.append((at, stamp + before[8:] + octets))
    target = folder / f"{name}.pcap"
    target.write_bytes(header + b"".join(octets for _, octets in sorted(merged, key=lambda one: one[0])))
    return target


def times(header: bytes) -> int:
    """Nanoseconds of a packet's header, of a capture of microseconds."""
    seconds, micros = struct.unpack_from("<II", header)
    return int(seconds) * SECOND + int(micros) * 1000
