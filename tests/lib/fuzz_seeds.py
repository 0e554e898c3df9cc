"""Seeds for fuzzing: fills `capture/fuzz/corpus/TARGET/` from public captures, or from generated traffic if there are
none.

`python3 tests/lib/fuzz_seeds.py [FOLDER]`; the default folder is `../shared/pcaps` beside the checkout.
"""

from __future__ import annotations

import hashlib
import random
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

from capture_traces import SHARED, fragments_of, made_frames

CORPUS = Path(__file__).resolve().parents[2] / "capture/fuzz/corpus"
#: As in `capture/fuzz/src/packet.rs`.
LINKS = [1, 101, 0, 113, 276, 9, 104, 107, 105, 127, 10, 239]
#: Maximum octets of an input, and maximum frames read of a capture.
MOST = 4096
FRAMES = 200


def seed(target: str, octets: bytes) -> None:
    """Write an input."""
    (CORPUS / target / hashlib.sha1(octets).hexdigest()).write_bytes(octets)


def frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The link type and the octets of a capture's packets, as far as readable; pcapng of either byte order."""
    if len(data) < 24:
        return
    if data[:4] == b"\x0a\x0d\x0d\x0a":
        yield from blocks(data)
        return
    order = {
        b"\xd4\xc3\xb2\xa1": "<",
        b"\xa1\xb2\xc3\xd4": ">",
        b"\x4d\x3c\xb2\xa1": "<",
        b"\xa1\xb2\x3c\x4d": ">",
    }.get(data[:4])
    if order is None:
        return
    link = struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF
    at = 24
    while at + 16 <= len(data):
        captured = struct.unpack_from(order + "I", data, at + 8)[0]
        yield link, data[at + 16 : at + 16 + captured]
        at += 16 + captured


def blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The packets of a pcapng file's first section."""
    order = "<" if data[8:12] == b"\x4d\x3c\x2b\x1a" else ">"
    links: list[int] = []
    at = 0
    while at + 12 <= len(data):
        kind, length = struct.unpack_from(order + "II", data, at)
        body = data[at + 8 : at + length - 4]
        if kind == 1 and len(body) >= 2:
            links.append(struct.unpack_from(order + "H", body)[0])
        elif kind == 6 and len(body) >= 20:
            interface, captured = struct.unpack_from(order + "I8xI", body)
            yield links[interface] if interface < len(links) else 1, body[20 : 20 + captured]
        at += max(length, 12)


def packets(link: int, some: list[bytes], how: int) -> bytes:
    """An input of the target `packet`."""
    octets = bytes([LINKS.index(link), 7, 7, 60, how])
    for frame in some:
        octets += struct.pack("<HHHH", len(frame), 1, 0, 0) + frame
    return octets


def payload(link: int, frame: bytes) -> bytes:
    """The payload of TCP or UDP in an Ethernet frame of IPv4; empty if there is none."""
    if link != 1 or frame[12:14] != b"\x08\0" or len(frame) < 42:
        return b""
    layer4 = frame[14 + (frame[14] & 15) * 4 :]
    if frame[23] == 17:
        return layer4[8:]
    if frame[23] == 6 and len(layer4) > 12:
        return layer4[(layer4[12] >> 4) * 4 :]
    return b""


def is_named(octets: bytes, frame: bytes) -> bool:
    """Whether a payload may contain a name."""
    ports = frame[34:38]
    if frame[23:24] == b"\x11" and octets[:1] >= b"\xc0":
        return True
    return octets[:2] == b"\x16\x03" or b"\nHost:" in octets or b"\0\x35" in (ports[:2], ports[2:])


def from_frames(link: int, some: list[bytes], dice: random.Random) -> None:
    """The inputs from a capture's packets."""
    if link in LINKS:
        chunk: list[bytes] = []
        made = 0
        for frame in some:
            if len(frame) > MOST // 2:
                continue
            if sum(map(len, chunk)) + len(frame) > MOST // 2 or len(chunk) == 8:
                seed("packet", packets(link, chunk, dice.randrange(4)))
                chunk = []
                made += 1
            if made == 4:
                break
            chunk.append(frame)
        if chunk:
            seed("packet", packets(link, chunk, dice.randrange(4)))
    named = [octets for frame in some if (octets := payload(link, frame)) and is_named(octets, frame)]
    for octets in named[:4]:
        seed("names", octets[:MOST])
        seed("hello", octets[:MOST])
    for octets in [octets for frame in some if frame[23:24] == b"\x11" and is_export(octets := payload(link, frame))][
        :8
    ]:
        from_exports([octets])


def datagram(octets: bytes, exporter: int = 0) -> bytes:
    """A datagram in an input of the target `netflow`, a second after the previous one."""
    return struct.pack(">BHH", exporter, 125, len(octets)) + octets


def a_set(number: int, *parts: bytes) -> bytes:
    """A FlowSet of NetFlow v9 (RFC 3954, section 5), or a Set of IPFIX (RFC 7011, section 3.3)."""
    body = b"".join(parts)
    return struct.pack(">HH", number, 4 + len(body)) + body


def version9(sequence: int, *sets: bytes) -> bytes:
    """A packet of NetFlow v9 (RFC 3954, section 5.1)."""
    return struct.pack(">HHIIII", 9, len(sets), 3_600_000, 1_700_000_000, sequence, 7) + b"".join(sets)


def ipfix(sequence: int, *sets: bytes) -> bytes:
    """A message of IPFIX (RFC 7011, section 3.1)."""
    body = b"".join(sets)
    return struct.pack(">HHIII", 10, 16 + len(body), 1_700_000_000, sequence, 7) + body


def exports(dice: random.Random) -> Iterator[list[bytes]]:
    """Datagrams as exporters send them, in order of arrival."""

    def fields(*pairs: tuple[int, int]) -> bytes:
        return b"".join(struct.pack(">HH", *pair) for pair in pairs)

    header = struct.pack(">HHIIIIBBH", 5, 2, 3_600_000, 1_700_000_000, 0, 1, 1, 1, 0x4064)
    yield [header + dice.randbytes(96)]
    addresses = ((8, 4), (12, 4), (7, 2), (11, 2), (4, 1))
    template = a_set(0, struct.pack(">HH", 256, 9), fields(*addresses, (2, 4), (1, 4), (22, 4), (21, 4)))
    data = a_set(256, dice.randbytes(29 * 3), bytes(1))
    options = a_set(1, struct.pack(">HHH", 257, 4, 8), fields((1, 4), (34, 4), (35, 1)), bytes(2))
    rate = a_set(257, struct.pack(">IIB", 7, 100, 1), bytes(3))
    yield [version9(1, template, options, rate), version9(2, data)]
    yield [version9(1, data), version9(2, template), version9(9, data, data)]  # data that wait, and a gap
    # Milliseconds, a reverse counter (RFC 5103), two of ntop's elements, names of any length.
    more = ((2 | 0x8000, 8), (118 | 0x8000, 2), (188 | 0x8000, 0xFFFF))
    enterprises = (29_305, 35_632, 35_632)
    own = b"".join(struct.pack(">HHI", *pair, pen) for pair, pen in zip(more, enterprises, strict=True))
    plain = fields(*addresses, (2, 8), (1, 8), (152, 8), (153, 8))
    template = a_set(2, struct.pack(">HH", 256, 12), plain, own)
    six = a_set(2, struct.pack(">HH", 258, 5), fields((27, 16), (28, 16), (2, 8), (1, 8), (34, 4)))
    names = (b"\x0bexample.org", b"\0", b"\xff\0\x0bexample.net")
    times = struct.pack(">QQ", 1_699_999_970_000, 1_700_000_000_000)
    counts = struct.pack(">QQ", 10, 1000)
    records = [dice.randbytes(13) + counts + times + struct.pack(">QH", 3, 91) + name for name in names]
    options = a_set(3, struct.pack(">HHH", 257, 2, 1), fields((149, 4), (305, 4)))
    rate = a_set(257, struct.pack(">II", 7, 1000))
    data = a_set(256, *records)
    yield [ipfix(0, template, six, options), ipfix(0, rate, data, a_set(258, dice.randbytes(52)))]
    withdrawn = a_set(2, struct.pack(">HH", 256, 0))
    yield [ipfix(0, data), ipfix(3, template), ipfix(3, data), ipfix(6, withdrawn), ipfix(6, data)]
    # A counter sample and a flow sample that holds the header of a packet (sFlow version 5, section 5.3).
    frame = next(made_frames(dice, 1))[:126]
    frame += bytes(-len(frame) % 4)
    raw = struct.pack(">IIIIII", 1, 16 + len(frame), 1, 1500, 4, len(frame)) + frame
    flow = struct.pack(">IIIIIIII", 1, 3, 512, 51_200, 0, 1, 2, 1) + raw
    interface = struct.pack(">IIIII", 1, 3, 1, 1, 88) + bytes(88)
    samples = b"".join(struct.pack(">II", kind, len(one)) + one for kind, one in ((1, flow), (2, interface)))
    yield [struct.pack(">IIIIIII", 5, 1, 0xC0000201, 0, 1, 1000, 2) + samples]


def from_exports(some: list[bytes]) -> None:
    """The inputs from an exporter's datagrams, and variants with a loss or with another exporter."""
    if some[0][:4] == struct.pack(">I", 5):
        seed("sflow", b"".join(struct.pack(">H", len(one) - 4) + one[4:] for one in some)[:MOST])
        return
    whole = [datagram(one) for one in some]
    seed("netflow", b"".join(whole)[:MOST])
    seed("netflow", b"".join(reversed(whole))[:MOST])
    seed("netflow", b"".join(datagram(one, 4 | number % 3) for number, one in enumerate(some * 2))[:MOST])
    for target, version in (("netflow5", b"\0\5"), ("netflow9", b"\0\x09"), ("ipfix", b"\0\x0a")):
        bodies = [one[2:] for one in some if one[:2] == version]
        if bodies:
            seed(target, b"".join(map(datagram, bodies))[:MOST])
            seed(target, b"".join(datagram(one, 4 | number % 3) for number, one in enumerate(bodies * 2))[:MOST])


def is_export(octets: bytes) -> bool:
    """Whether a datagram may be NetFlow, IPFIX or sFlow."""
    return len(octets) > 20 and (octets[:2] in (b"\0\5", b"\0\x09", b"\0\x0a") or octets[:4] == b"\0\0\0\5")


def nprobe() -> None:
    """Messages as nProbe and netflow2ng write them."""
    named = (
        b'{"IPV4_SRC_ADDR":"10.0.0.1","IPV4_DST_ADDR":"10.0.0.2","L4_SRC_PORT":40000,"L4_DST_PORT":443,"PROTOCOL":6,'
        b'"IN_PKTS":3,"IN_BYTES":300,"OUT_PKTS":2,"OUT_BYTES":2000,"FIRST_SWITCHED":1599999990,"L7_PROTO":"91.178",'
        b'"SERVER_NW_LATENCY_MS":1.5,"TLS_SERVER_NAME":"example.org","EXPORTER_IPV4_ADDRESS":"192.0.2.1"}'
    )
    numbered = (
        b'{"27":"2001:db8::1","28":"2001:db8::2","1":"9","152":1599999990123,"35632.188":"a\\u00e9","61":0,"x":[{}]}'
    )
    tlv = b"\x01\x01\x24\x08\x0a\0\0\x01\x2b\x0c\0\x0810.0.0.2\x23\x01\x01\x2c\xba\0\x0935632.124\0\0\xc0\x3f\x01"
    for text in (named, numbered, b"[" + named + b"," + numbered + b"]", named + b"\n" + numbered):
        seed("nprobe_json", text)
    topic = b"flow".ljust(16, b"\0")
    small = zlib.compress(b"[" + named + b"]")
    four = struct.pack("<16sBBHII", topic, 4, 4, 0, 400, len(small)) + struct.pack(">II", 1, 0)
    for header, payload in (
        (topic + b"\x02\x01\x01\0\0\0\0\x01", b"[" + named + b"]"),
        (topic + b"\x02\x01\x01\0\0\0\0\x02", b"\0" + small),
        (topic + b"\x03\x01\0\x40\0\0\0\x03", tlv),
        (topic + b"\x02\0\x01\0\0\0\0\x04\x05\0\0\0", b"[" + numbered + b"]"),
        (four, small),
    ):
        seed("nprobe_zmq", bytes([len(header)]) + header + struct.pack("<H", len(payload)) + payload)


def main(folder: Path) -> None:
    """Write all seeds."""
    for target in (
        "packet",
        "captures",
        "fragments",
        "names",
        "hello",
        "netflow",
        "netflow5",
        "netflow9",
        "ipfix",
        "sflow",
        "nprobe_json",
        "nprobe_zmq",
    ):
        (CORPUS / target).mkdir(parents=True, exist_ok=True)
    dice = random.Random(1)
    paths = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
    for path in paths:
        data = path.read_bytes()[: 1 << 20]
        seed("captures", data[:MOST])
        by_link: dict[int, list[bytes]] = {}
        for _, (link, frame) in zip(range(FRAMES), frames(data), strict=False):
            by_link.setdefault(link, []).append(frame)
        for link, some in by_link.items():
            from_frames(link, some, dice)
    if not paths:
        made = list(made_frames(dice, FRAMES))
        pieces = [piece for number, frame in enumerate(made) for piece in fragments_of(frame, number)]
        dice.shuffle(pieces)
        from_frames(1, made, dice)
        from_frames(1, pieces, dice)
        records = b"".join(struct.pack("<IIII", 1_600_000_000, 0, len(frame), len(frame)) + frame for frame in made[:8])
        seed("captures", struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1) + records)
    for some in exports(dice):
        from_exports(some)
    nprobe()
    for kind in range(64):
        seed("fragments", bytes([kind % 2]) + dice.randbytes(8 * (kind + 1)))
    for corpus in sorted(CORPUS.iterdir()):
        print(f"{corpus.name}: {len(list(corpus.iterdir()))} inputs")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED)
