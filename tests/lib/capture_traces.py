"""Captures for measuring the agent: ordinary traffic, floods, fragments, doubled segments.

Every generator writes one pcap file (microseconds, Ethernet). Ordinary traffic is cut out of ../shared/pcaps if
present; otherwise it is generated. Example: python tests/lib/capture_traces.py /tmp/traces
"""

from __future__ import annotations

import gzip
import math
import random
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

SHARED = Path(__file__).resolve().parents[3] / "shared/pcaps"
#: First packet of every trace, seconds from the Unix epoch.
START = 1_600_000_000
ETHERNET = bytes.fromhex("020000000001020000000009")


def header(link: int = 1) -> bytes:
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, link)


class Writer:
    """A pcap file with evenly spaced packets, `rate` per second."""

    def __init__(self, path: Path, rate: int) -> None:
        self.file = path.open("wb", buffering=1 << 20)
        self.file.write(header())
        self.rate, self.count = rate, 0

    def write(self, frame: bytes) -> None:
        micros = self.count * 1_000_000 // self.rate
        self.count += 1
        size = len(frame)
        self.file.write(struct.pack("<IIII", START + micros // 1_000_000, micros % 1_000_000, size, size) + frame)

    def close(self) -> int:
        self.file.close()
        return self.count


def unpacked(path: Path) -> bytes:
    """The octets of a file, decompressed; none if that fails."""
    data = path.read_bytes()
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError):
        return b""


def frames(path: Path) -> Iterator[bytes]:
    """The whole Ethernet frames of a pcap file that hold IP; none from any other file."""
    data = unpacked(path)
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">", b"\x4d\x3c\xb2\xa1": "<"}.get(data[:4])
    if order is None or struct.unpack(order + "I", data[20:24])[0] & 0xFFFF != 1:
        return
    at = 24
    while at + 16 <= len(data):
        captured, length = struct.unpack(order + "II", data[at + 8 : at + 16])
        at += 16
        if (
            captured == length <= 1514
            and at + captured <= len(data)
            and data[at + 12 : at + 14] in (b"\x08\x00", b"\x86\xdd")
        ):
            yield data[at : at + captured]
        at += captured


def readdressed(frame: bytes, copy: int) -> bytes:
    """The frame between other hosts: one octet of both addresses changes, so that pairs stay pairs."""
    if copy == 0:
        return frame
    changed = bytearray(frame)
    for at in (27, 31) if frame[12] == 8 else (28, 44):
        changed[at] ^= copy * 37 & 0xFF
    return bytes(changed)


def ordinary_frames() -> Iterator[bytes]:
    """Real protocol traffic if present, otherwise connections with realistic sizes."""
    if SHARED.is_dir():
        for folder in ("ndpi", "zeek", "ipfixprobe", "slips"):
            for path in sorted((SHARED / folder).rglob("*cap*")):
                if path.is_file():
                    yield from frames(path)
        return
    yield from made_frames(random.Random(1), 500_000)


def made_frames(dice: random.Random, count: int) -> Iterator[bytes]:
    """TCP and UDP conversations, up to 64 at once, their lengths and sizes with heavy tails."""
    open_flows: list[tuple[bytes, bytes, int]] = []
    for _ in range(count):
        if len(open_flows) < 64:
            hosts = [struct.pack(">I", base + int(dice.random() ** 3 * 60_000)) for base in (0x0A000000, 0xC6120000)]
            tcp = dice.random() < 0.8
            ports = [
                struct.pack(">H", port) for port in (dice.randrange(1024, 65536), dice.choice((80, 443, 53, 22, 25)))
            ]
            sides = [four(hosts, ports, tcp, at, 1 - at) for at in (0, 1)]
            open_flows.append((sides[0], sides[1], int(dice.paretovariate(1.1)) + 2))
        number = dice.randrange(len(open_flows))
        there, back, left = open_flows[number]
        size = dice.choice((0, 0, 60, 500, 1400, 1400))
        yield with_payload(there if dice.random() < 0.5 else back, size)
        open_flows[number] = (there, back, left - 1)
        if left <= 1:
            open_flows.pop(number)


def four(hosts: list[bytes], ports: list[bytes], tcp: bool, src: int, dst: int) -> bytes:
    """The headers of an IPv4 packet from one side to the other, its lengths still 0."""
    ip = b"\x45\0\0\0\0\1\0\0\x40" + (b"\6" if tcp else b"\x11") + b"\0\0" + hosts[src] + hosts[dst]
    layer4 = ports[src] + ports[dst] + (b"\0" * 8 + b"\x50\x10\xff\xff\0\0\0\0" if tcp else b"\0\0\0\0")
    return ETHERNET + b"\x08\0" + ip + layer4


def with_payload(headers: bytes, size: int) -> bytes:
    frame = bytearray(headers + b"\0" * size)
    struct.pack_into(">H", frame, 16, len(frame) - 14)
    return bytes(frame)


def ordinary(path: Path, packets: int = 2_600_000, rate: int = 200_000) -> int:
    """Ordinary traffic, repeated between other hosts until there is enough; pieces of 16 frames alternate."""
    once = list(ordinary_frames())
    copies = max(1, math.ceil(packets / max(len(once), 1)))
    writer = Writer(path, rate)
    for at in range(0, len(once), 16):
        for copy in range(copies):
            for frame in once[at : at + 16]:
                if writer.count < packets:
                    writer.write(readdressed(frame, copy))
    return writer.close()


def new_flows(
    path: Path,
    packets: int = 2_000_000,
    rate: int = 1_488_095,
    size: int = 60,
    flows: int | None = None,
    port: int = 4000,
) -> int:
    """UDP packets of `size` octets (without checksum) to `port`, each in a new flow, or cycling through `flows` flows."""
    flows = flows or packets
    record = 16 + size
    payload = b"\0" * (size - 42)
    frame = ETHERNET + b"\x08\0\x45\0" + struct.pack(">H", size - 14) + b"\0\1\0\0\x40\x11\0\0" + bytes(8)
    frame += struct.pack(">HHHH", 0, port, size - 34, 0) + payload
    with path.open("wb") as file:
        file.write(header())
        for first in range(0, packets, 1 << 18):
            count = min(1 << 18, packets - first)
            numbers = [number % flows for number in range(first, first + count)]
            block = bytearray((struct.pack("<IIII", 0, 0, size, size) + frame) * count)
            micros = [number * 1_000_000 // rate for number in range(first, first + count)]
            # Column by column. A flow's number is spread over both addresses and the source port.
            columns: dict[int, list[int]] = {}
            for byte in range(4):
                columns[byte] = [(START + micro // 1_000_000) >> 8 * byte & 0xFF for micro in micros]
                columns[4 + byte] = [micro % 1_000_000 >> 8 * byte & 0xFF for micro in micros]
            for place, shift in ((27, 16), (28, 8), (29, 0)):
                columns[16 + place] = [number >> shift & 0xFF for number in numbers]
            for place, shift in ((32, 5), (33, 13), (34, 3), (35, 11)):
                columns[16 + place] = [number * 2_654_435_761 >> shift & 0xFF for number in numbers]
            columns[16 + 26], columns[16 + 30] = [10] * count, [172] * count
            for at, values in columns.items():
                block[at::record] = bytes(values)
            file.write(block)
    return packets


def packets_of(path: Path) -> Iterator[bytes]:
    """The frames of a file generated here."""
    with path.open("rb", buffering=1 << 20) as file:
        file.read(24)
        while len(head := file.read(16)) == 16:
            yield file.read(struct.unpack("<8xI4x", head)[0])


def fragments_of(frame: bytes, number: int, most: int = 256) -> list[bytes]:
    """An IPv4 packet as fragments of at most `most` octets of payload; small packets and all others unchanged."""
    ip = 14
    length = (frame[ip] & 15) * 4
    total = struct.unpack_from(">H", frame, ip + 2)[0]
    place = struct.unpack_from(">H", frame, ip + 6)[0]
    if frame[12:14] != b"\x08\0" or frame[ip] >> 4 != 4 or total <= most or place & 0x3FFF or ip + total > len(frame):
        return [frame]
    payload = frame[ip + length : ip + total]
    pieces = []
    for at in range(0, len(payload), most):
        piece = payload[at : at + most]
        head = bytearray(frame[: ip + length])
        more = 0x2000 if at + most < len(payload) else 0
        struct.pack_into(">H", head, ip + 2, length + len(piece))
        struct.pack_into(">HH", head, ip + 4, number & 0xFFFF, more | at // 8)
        pieces.append(bytes(head) + piece)
    return pieces


def fragmented(path: Path, source: Path, window: int = 1, packets: int = 900_000, rate: int = 200_000) -> int:
    """The traffic of `source`, fragmented; frames are shuffled within windows of `window` frames."""
    dice = random.Random(2)
    writer = Writer(path, rate)
    waiting: list[bytes] = []
    for number, frame in enumerate(packets_of(source)):
        waiting.extend(fragments_of(frame, number))
        if len(waiting) >= window:
            if window > 1:
                dice.shuffle(waiting)
            for piece in waiting:
                writer.write(piece)
            waiting.clear()
        if writer.count >= packets:
            break
    for piece in waiting:
        writer.write(piece)
    return writer.close()


def whole(path: Path, source: Path, packets: int) -> int:
    """The first packets of `source`."""
    writer = Writer(path, 200_000)
    for frame in packets_of(source):
        if writer.count >= packets:
            break
        writer.write(frame)
    return writer.close()


def doubled(path: Path, source: Path, packets: int = 2_000_000) -> int:
    """The traffic of `source`, every TCP segment twice."""
    writer = Writer(path, 200_000)
    for frame in packets_of(source):
        writer.write(frame)
        if frame[12:14] == b"\x08\0" and frame[23] == 6:
            writer.write(frame)
        if writer.count >= packets:
            break
    return writer.close()


def main(folder: Path) -> None:
    """Generate all traces."""
    folder.mkdir(parents=True, exist_ok=True)
    real = folder / "ordinary.pcap"
    makers: list[tuple[str, Callable[[Path], int]]] = [
        ("ordinary", ordinary),
        ("new-flows", new_flows),
        # Each of 2 million flows once in every 5 s.
        ("live-flows", lambda path: new_flows(path, 6_000_000, rate=400_000, flows=2_000_000)),
        ("undoubled", lambda path: whole(path, real, 1_000_000)),
        ("doubled", lambda path: doubled(path, real)),
        *(
            (f"fragments-{window}", lambda path, window=window: fragmented(path, real, window))
            for window in (1, 32, 100, 2000)
        ),
        *(
            (f"flows-{flows}", lambda path, flows=flows: new_flows(path, max(4_000_000, 2 * flows), flows=flows))
            for flows in (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
        ),
    ]
    for name, make in makers:
        path = folder / f"{name}.pcap"
        if not path.exists():
            partial = path.with_suffix(".partial")
            print(f"{name}: {make(partial)} packets", file=sys.stderr, flush=True)
            partial.rename(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
