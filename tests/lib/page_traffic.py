"""A capture with something of everything that the dashboards show, at any time and of any length."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from weir.frames import ACK, FIN, ICMP, PUSH, RST, SYN, SYNACK, TCP, UDP, Packet, ethernet, tcp, udp

#: Prefixes of each customer; the last one has no traffic.
CUSTOMERS = {
    "Fjord Power": ("192.0.2.0/28", "2001:db8:1::/48"),
    "Harbour Hosting": ("192.0.2.16/28",),
    "Northern University": ("192.0.2.32/27",),
    "Quiet Quay": ("192.0.2.128/28",),
}
PREFIXES = "prefix,customer,site,tags,national\n" + "".join(
    f"{prefix},{name},north,,true\n" for name, prefixes in CUSTOMERS.items() for prefix in prefixes
)
SYSTEMS = {
    f"198.51.100.{8 * i}/29": {"autonomous_system_number": 64_500 + i, "autonomous_system_organization": f"System {i}"}
    for i in range(32)
} | {"192.0.2.0/24": {"autonomous_system_number": 64_496, "autonomous_system_organization": "National Carrier"}}
COUNTRIES = {
    "198.51.100.0/25": {"country": {"iso_code": "DE"}},
    "198.51.100.128/25": {"country": {"iso_code": "US"}},
    "203.0.113.0/24": {"country": {"iso_code": "BR"}},
}
#: Services that the clients use: port, protocol, first octets of the client.
SERVICES = [
    (80, TCP, b"GET / HTTP/1.1\r\nHost: www.example.net\r\n\r\n"),
    (443, TCP, b"\x16\x03\x01\x00\x05"),
    (22, TCP, b"SSH-2.0-OpenSSH_9.2\r\n"),
    (25, TCP, b"EHLO example.net\r\n"),
    (6881, TCP, b"\x13BitTorrent protocol" + bytes(48)),
    (53, UDP, bytes.fromhex("000101000001000000000000") + b"\x03www\x07example\x03net\x00\x00\x01\x00\x01"),
    (123, UDP, b"\x23" + bytes(47)),
]
#: Hosts of one customer that look for one service everywhere, in vain.
SCANNERS = [f"192.0.2.{host}" for host in range(33, 37)]
#: A client of no customer.
LASTING = "10.77.0.1"


def mixture(begin: float, seconds: int, every: int = 1) -> Iterator[Packet]:
    """Conversations, scans and answers, in one of `every` seconds; a longer mixture begins with a shorter one's packets."""
    chance = random.Random(1)
    for second in range(0, seconds, every):
        at = begin + second
        for _ in range(2):
            yield from _conversation(at + 0.5 * chance.random(), chance)
        if second % 3 == 0:
            yield from _scan(at, second, chance)
            yield from _unanswered(at + 0.2, chance)
        if second % 10 == 0:
            for group in ("ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:fb"):
                yield at, ethernet("192.0.2.9", "192.0.2.255", UDP, udp(5353, 5353, bytes(60)), to=group)


def lasting(
    begin: float, intervals: int, *, client: str = LASTING, port: int = 4000, turned: bool = False
) -> Iterator[Packet]:
    """A flow with a packet of 100 octets each way in each of these intervals of 10 s; `turned`, the capture begins with the
    server's first packet.
    """
    server = "203.0.113.77"
    there = ethernet(client, server, UDP, udp(port, 443, bytes(72)))
    back = ethernet(server, client, UDP, udp(443, port, bytes(72)))
    for number in range(intervals):
        at = begin + 10 * number
        yield at + turned, there
        yield at + 0.5, back


def of_customer(name: str) -> str:
    """SQL for the condition that one end of a record is the customer's."""
    ends = itertools.product(("src", "dst"), CUSTOMERS[name])
    return " OR ".join(f"isIPAddressInRange(weir_addr({end}_addr), '{prefix}')" for end, prefix in ends)


def _conversation(at: float, chance: random.Random) -> Iterator[Packet]:
    port, protocol, hello = chance.choice(SERVICES)
    own, far = chance.randint(1, 40), chance.randint(1, 250)
    ends = (f"192.0.2.{own}", f"198.51.100.{far}")
    if chance.random() < 0.2:
        ends = (f"2001:db8:1::{own:x}", f"2001:db8:ff::{far:x}")
    # Some of the servers are at home.
    client, server = ends if chance.random() < 0.8 else ends[::-1]
    from_port = chance.randint(32_768, 60_999)
    if protocol == UDP:
        yield at, ethernet(client, server, UDP, udp(from_port, port, hello))
        yield at + 0.01, ethernet(server, client, UDP, udp(port, from_port, hello + bytes(100)))
        return
    turns = [(True, SYN, b""), (False, SYNACK, b""), (True, ACK, b""), (True, PUSH, hello)]
    turns += [(False, PUSH, bytes(chance.randint(200, 1400))) for _ in range(chance.randint(1, 20))]
    turns += [(True, FIN, b""), (False, FIN, b""), (True, ACK, b"")]
    for step, (forward, flags, payload) in enumerate(turns):
        source, target = (client, server) if forward else (server, client)
        ports = (from_port, port) if forward else (port, from_port)
        yield at + 0.02 * step, ethernet(source, target, TCP, tcp(*ports, flags, payload))


def _scan(at: float, second: int, chance: random.Random) -> Iterator[Packet]:
    for source in SCANNERS:
        for number in range(5):
            target = f"203.0.113.{chance.randint(1, 254)}"
            port = (139, 445)[number % 2]
            yield at + 0.01 * number, ethernet(source, target, TCP, tcp(1024 + second, port, SYN))
            if number == 4:
                yield at + 0.05, ethernet(target, source, TCP, tcp(port, 1024 + second, RST))


def _unanswered(at: float, chance: random.Random) -> Iterator[Packet]:
    """Datagrams to closed ports, and the errors that come back."""
    target = f"203.0.113.{chance.randint(1, 254)}"
    sent = ethernet("192.0.2.40", target, UDP, udp(4000, chance.randint(1, 1023), bytes(20)))
    yield at, sent
    yield at + 0.01, ethernet(target, "192.0.2.40", ICMP, b"\x03\x03" + bytes(6) + sent[14:42])
