"""Counters of each interval: the fixed sets from tshark's fields, filter sets by tcpdump with the same expressions."""

from __future__ import annotations

import struct
import subprocess
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from definitions import Answer
from harness import CHECKOUT
from packets import ICMP, ICMP6, INTERVAL, TCP, UDP, Packet
from variants import LITTLE, octets_of

#: Octets of the frame with its checksum: the sizes of RFC 2819.
SIZES = ((64, "64"), (127, "65-127"), (255, "128-255"), (511, "256-511"), (1023, "512-1023"), (1518, "1024-1518"))
NAMES = {TCP: "tcp", UDP: "udp", ICMP: "icmp", ICMP6: "icmpv6"}
Rows = dict[tuple[str, str], dict[str, int]]


def fixed(frames: Iterable[Packet]) -> dict[int, dict[str, Answer]]:
    """By interval and set: cast, ip_version, protocol and size."""
    return _answers(
        (frame, name, label)
        for frame in frames
        for name, label in (
            ("cast", frame.cast),
            ("ip_version", f"ipv{frame.version}" if frame.version else "other"),
            ("protocol", NAMES.get(frame.protocol, "other") if frame.version else ""),
            ("size", next((label for most, label in SIZES if frame.frame_octets + 4 <= most), "1519+")),
        )
        if label
    )


def filters(captures: list[tuple[Path, list[Packet]]]) -> list[dict[int, dict[str, Answer]]]:
    """For each capture, by interval and set: the packets that tcpdump matches with the shipped expressions.

    tcpdump reads all captures as one, once for each expression.
    """
    sets = tomllib.loads((CHECKOUT / "capture/filters.default.toml").read_text())["filters"]["sets"]
    counted: list[list[tuple[Packet, str, str]]] = [[] for _ in captures]
    by_link: dict[bytes, list[tuple[int, Packet, bytes]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for place, (capture, frames) in enumerate(captures):
            header, raw = octets_of(capture, Path(folder))
            if len(raw) == len(frames):
                link = header[20:24] if header[:4] == LITTLE else header[:19:-1]
                by_link[link] += [(place, frame, octets) for frame, (_, octets) in zip(frames, raw, strict=True)]
        numbered = Path(folder) / "numbered.pcap"
        for link, every in by_link.items():
            write_numbered(numbered, link, [octets for _, _, octets in every])
            for name, labels in sets.items():
                for label, expression in labels.items():
                    for index in matched(numbered, expression):
                        place, frame, _ = every[index]
                        counted[place].append((frame, name, label))
    return [_answers(one) for one in counted]


def _answers(counted: Iterable[tuple[Packet, str, str]]) -> dict[int, dict[str, Answer]]:
    found: dict[int, dict[str, Answer]] = defaultdict(dict)
    for frame, name, label in counted:
        rows = found[frame.at // INTERVAL * INTERVAL].setdefault(name, Answer({})).rows
        row = rows.setdefault(label, {"packets": 0, "octets": 0})
        row["packets"] += 1
        row["octets"] += frame.octets
    return found


def write_numbered(target: Path, link: bytes, frames: list[bytes]) -> None:
    """A pcap file whose packets have their number, from 0, as their time."""
    with target.open("wb") as file:
        file.write(LITTLE + struct.pack("<HHiII", 2, 4, 0, 0, 262_144) + link)
        for index, octets in enumerate(frames):
            file.write(struct.pack("<IIII", index, 0, len(octets), len(octets)) + octets)


def matched(numbered: Path, expression: str) -> list[int]:
    """Numbers of the packets that tcpdump writes."""
    done = subprocess.run(["tcpdump", "-r", str(numbered), "-w", "-", expression], capture_output=True, check=False)
    data, found, at = done.stdout, [], 24
    while at + 16 <= len(data):
        index, _, length = struct.unpack_from("<III", data, at)
        found.append(index)
        at += 16 + length
    return found
