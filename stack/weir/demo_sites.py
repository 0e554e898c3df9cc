"""The demo's sites: a trickle of made traffic, as long as the demo runs, of a nation that does not exist.

`python -m weir.demo_sites oslo --since 900` writes a capture to its standard output, first that of the last 900 s, then at the
pace of the clock. The same second has the same traffic in every run. All addresses and AS numbers are reserved for documentation and
benchmarks (RFC 5737, 2544, 3849, 5398); the database says so in its names.
"""

from __future__ import annotations

import heapq
import math
import random
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from weir import frames, maxmind, prefixes
from weir.frames import ACK, FIN, ICMP, PUSH, SYN, SYNACK, TCP, UDP, Packet, ethernet, tcp, udp

#: Probes, with their sites; the traffic of each is between its own customers and everybody else.
SITES = {"oslo": "Oslo", "bergen": "Bergen", "tromso": "Tromsø"}
CUSTOMERS = ("Fjord University", "Harbour Hospital", "Northern Schools", "Coast Museum")
#: Networks that do not exist: name, country, and what their servers serve.
SYSTEMS = [
    (" ".join(name), country, service)
    for *name, country, service in map(
        str.split,
        """
        Example Video DE tls
        Example Cloud US tls
        Example News NO http
        Example Mail SE smtp
        Example Research GB ssh
        Example Games JP udp
        Example Names NL dns
        Example Clocks FI ntp
        Example Swarm BR bittorrent
        Example Photos US tls
        """.strip().splitlines(),
    )
]
#: Share of conversations by what is served.
_WEIGHTS = {"tls": 5, "http": 3, "smtp": 1, "ssh": 1, "udp": 2, "dns": 6, "ntp": 1, "bittorrent": 1}
_PORTS = {"tls": 443, "http": 80, "smtp": 25, "ssh": 22, "udp": 3074, "dns": 53, "ntp": 123, "bittorrent": 6881}
_OWN_AS, _FIRST_AS = 64_496, 64_500


def own_networks() -> dict[str, prefixes.Description]:
    """The declared prefixes: the customers of each site."""
    found = {}
    for number, site in enumerate(SITES.values()):
        for part, customer in enumerate(CUSTOMERS):
            found[f"198.19.{16 * number + 4 * part}.0/22"] = prefixes.describe(customer, site, ["demo"], True)
            found[f"2001:db8:{1 + number}:{part}::/64"] = prefixes.describe(customer, site, ["demo"], True)
    return found


def write_databases(folder: Path) -> tuple[Path, Path]:
    """Write databases of AS and countries for the demo's addresses."""
    systems = {"198.18.0.0/17": _OWN_AS, "198.19.0.0/16": _OWN_AS}
    countries = {"198.18.0.0/17": "NO", "198.19.0.0/16": "NO"}
    names = {_OWN_AS: "Demo Network (synthetic)"}
    for number, (name, country, _) in enumerate(SYSTEMS):
        names[_FIRST_AS + number] = f"{name} (synthetic)"
        for prefix in (f"198.18.{128 + 4 * number}.0/22", f"2001:db8:{0xF0 + number:x}::/48"):
            systems[prefix], countries[prefix] = _FIRST_AS + number, country
    for number in range(len(SITES)):
        systems[f"2001:db8:{1 + number}::/48"], countries[f"2001:db8:{1 + number}::/48"] = _OWN_AS, "NO"
    about = "Synthetic: places of the demo, which do not exist"
    by_system = {
        prefix: {"autonomous_system_number": system, "autonomous_system_organization": names[system]}
        for prefix, system in systems.items()
    }
    by_country = {prefix: {"country": {"iso_code": country}} for prefix, country in countries.items()}
    return (
        maxmind.address_file(folder / "demo-systems-synthetic.mmdb", by_system, about),
        maxmind.address_file(folder / "demo-countries-synthetic.mmdb", by_country, about),
    )


def second(probe: str, at: int) -> Iterator[Packet]:
    """The conversations that begin within a second, with their later packets."""
    number = [*SITES].index(probe)
    chance = random.Random(f"{probe} {at}")
    # Two waves of different lengths, so that charts have a shape.
    busy = 1 + 0.4 * math.sin(2 * math.pi * at / 600 + number) + 0.2 * math.sin(2 * math.pi * at / 97)
    for _ in range(round(4 * busy * (1.0, 0.7, 0.5)[number])):
        yield from _conversation(number, at + chance.random(), chance)
    minute = at // 60 % 15
    if minute in (3, 4):
        yield from _scan(number, at, chance)
    if probe == "oslo" and minute == 9 and at % 60 < 30:
        yield from _flood(at, chance)
    if at % 5 == 0:
        yield from _unanswered(number, at + 0.5, chance)


def _conversation(site: int, at: float, chance: random.Random) -> Iterator[Packet]:
    service = chance.choices([*_WEIGHTS], [*_WEIGHTS.values()])[0]
    served = [place for place, (_, _, what) in enumerate(SYSTEMS) if what == service]
    system, host, part = chance.choice(served), chance.randint(1, 30), min(3, int(chance.expovariate(1.2)))
    client = f"198.19.{16 * site + 4 * part}.{min(250, 1 + int(chance.expovariate(0.05)))}"
    server = f"198.18.{128 + 4 * system}.{host}"
    if chance.random() < 0.25:
        client = f"2001:db8:{1 + site}:{part}::{host:x}"
        server = f"2001:db8:{0xF0 + system:x}::{host:x}"
    name = f"www{host}.{SYSTEMS[system][0].lower().replace(' ', '-')}.example"
    port, own = _PORTS[service], chance.randint(32_768, 60_999)
    if service in ("dns", "ntp", "udp"):
        asked = {"dns": frames.question(name, own), "ntp": b"\x23" + bytes(47), "udp": chance.randbytes(60)}[service]
        for turn in range(chance.randint(20, 80) if service == "udp" else 1):
            yield at + 0.05 * turn, ethernet(client, server, UDP, udp(own, port, asked))
            yield at + 0.05 * turn + 0.02, ethernet(server, client, UDP, udp(port, own, asked + bytes(90)))
        return
    hello = {
        "tls": _client_hello(name, chance),
        "http": f"GET / HTTP/1.1\r\nHost: {name}\r\nUser-Agent: demo\r\n\r\n".encode(),
        "smtp": b"EHLO client.example\r\n",
        "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
        "bittorrent": b"\x13BitTorrent protocol" + bytes(48),
    }[service]
    blocks = min(400, 3 + int(chance.paretovariate(0.9) * (8 if service == "tls" else 3)))
    trip = 0.005 + 0.002 * system
    turns = [(True, SYN, b""), (False, SYNACK, b""), (True, ACK, b""), (True, PUSH, hello)]
    turns += [(False, ACK, bytes(1400))] * blocks + [(True, FIN, b""), (False, FIN, b""), (True, ACK, b"")]
    sent, received, moment = 100, 500, at
    for forward, flags, payload in turns:
        moment += trip if flags != ACK or not payload else 0.004
        length = len(payload) + (flags in (SYN, SYNACK, FIN))
        if forward:
            yield moment, ethernet(client, server, TCP, tcp(own, port, flags, payload, (sent, received)))
            sent += length
        else:
            yield moment, ethernet(server, client, TCP, tcp(port, own, flags, payload, (received, sent)))
            received += length


def _scan(site: int, at: int, chance: random.Random) -> Iterator[Packet]:
    """A host of the schools that looks for a file service everywhere, mostly in vain."""
    source = f"198.19.{16 * site + 8}.77"
    for number in range(12):
        target = f"198.18.{chance.randint(128, 167)}.{chance.randint(1, 250)}"
        yield at + number / 12, ethernet(source, target, TCP, tcp(chance.randint(1024, 65_000), 445, SYN))


def _flood(at: int, chance: random.Random) -> Iterator[Packet]:
    """Half-open connections from forged addresses to one server."""
    for number in range(60):
        source = f"198.18.{chance.randint(128, 167)}.{chance.randint(1, 250)}"
        yield at + number / 60, ethernet(source, "198.19.4.80", TCP, tcp(chance.randint(1024, 65_000), 443, SYN))


def _unanswered(site: int, at: float, chance: random.Random) -> Iterator[Packet]:
    """A datagram to a closed port, and the error that comes back."""
    source, target = f"198.19.{16 * site}.40", f"198.18.{chance.randint(128, 167)}.9"
    sent = ethernet(source, target, UDP, udp(4000, chance.randint(1, 1023), bytes(20)))
    yield at, sent
    yield at + 0.01, ethernet(target, source, ICMP, b"\x03\x03" + bytes(6) + sent[14:42])


def _client_hello(name: str, chance: random.Random) -> bytes:
    """The first message of a TLS client, with the server's name (RFC 8446, section 4.1.2; RFC 6066, section 3)."""
    host = name.encode()
    named = struct.pack("!HHHBH", 0, len(host) + 5, len(host) + 3, 0, len(host)) + host
    body = b"\x03\x03" + chance.randbytes(32) + b"\0\0\x02\x13\x01\x01\0" + struct.pack("!H", len(named)) + named
    handshake = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + len(handshake).to_bytes(2, "big") + handshake


def stream(probe: str, begin: int, out: BinaryIO, until: int | None = None, kept: Path | None = None) -> None:
    """Write the packets from `begin` on, not before their time; up to `until`, or for ever. `kept` holds the second
    reached."""
    out.write(frames.FILE_HEADER)
    waiting: list[Packet] = []
    at = begin
    while until is None or at < until:
        for packet in second(probe, at):
            heapq.heappush(waiting, packet)
        while waiting and waiting[0][0] < at + 1:
            out.write(frames.recorded(heapq.heappop(waiting)))
        out.flush()
        at += 1
        if kept:
            kept.write_text(str(at))
        time.sleep(max(0.0, at - time.time()))


def main(
    probe: str,
    since: Annotated[int, typer.Option(help="Seconds before now.")] = 900,
    kept: Annotated[Path | None, typer.Option(help="Go on where the last run ended, which this file says.")] = None,
) -> None:
    """Write a site's traffic to standard output."""
    begin = int(time.time()) - since
    if kept and kept.exists():
        begin = max(begin, int(kept.read_text() or 0))
    try:
        stream(probe, begin, sys.stdout.buffer, kept=kept)
    except BrokenPipeError:
        sys.exit(0)


if __name__ == "__main__":
    typer.run(main)
