"""Messages as agents would publish them, for traffic that no capture contains: observations of the same flows by
several probes, sampled or one-way, and a flood that makes agents count flows together.
"""

from __future__ import annotations

import ipaddress
import itertools
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import Producer

from harness import RunningStack, eventually, schemas

INTERVAL_MS = 10_000
TCP, UDP, ICMP, GRE, ICMP6 = 6, 17, 1, 47, 58


def packed(address: str) -> bytes:
    """An address in a record's form; empty for none."""
    return ipaddress.ip_address(address).packed if address else b""


@dataclass(frozen=True)
class Loss:
    """What an interval loses: packets dropped before the agent, by place, those that wait in the ring at its end, and whether
    its batches or its closing record never arrive.
    """

    dropped: dict[str, int] = field(default_factory=dict)
    waiting: int = 0
    batches: bool = False
    closing: bool = False


class Publisher:
    """One worker of a probe with this many workers; `words` are options of `weir probe add`."""

    def __init__(self, stack: RunningStack, probe: str, *words: str, worker: int = 0, workers: int = 1) -> None:
        self.probe, self.worker, self.workers = probe, worker, workers
        stack.enrol(probe, workers, *words)
        self.producer = Producer(stack.stack.brokers.client({"enable.idempotence": True}))
        self.epoch = int(time.time() * 1e6)
        self.sequence = 0
        self.waiting = 0

    def interval(
        self, start_ms: int, records: Iterable[Any], *, close: bool = True, last: bool = False, loss: Loss | None = None
    ) -> None:
        """Publish the observations of one interval, and the closing record, without what is lost."""
        records, loss = list(records), loss or Loss()
        first, messages = self.sequence, []
        for at in range(0, len(records), 500):
            message = self._message(start_ms)
            message.batch.flows.extend(records[at : at + 500])
            messages.append(message)
        if close:
            message = self._message(start_ms)
            closing = message.closing
            closing.first_sequence, closing.batches, closing.records = first, len(messages), len(records)
            closing.workers, closing.first, closing.last = self.workers, first == 0, last
            self._account(closing.interval, records, loss)
            messages.append(message)
        for message in messages:
            if (loss.batches and message.HasField("batch")) or (loss.closing and message.HasField("closing")):
                continue
            self.producer.produce(f"weir.flows.{self.probe}", message.SerializeToString(), partition=self.worker)
        assert self.producer.flush(30) == 0

    def _account(self, sums: Any, records: list[Any], loss: Loss) -> None:
        """The sums of an interval, which balance."""
        for record in records:
            volume = sums.in_overflow_records if record.record_kind else sums.in_flow_records
            for total in (volume, sums.captured):
                total.packets += record.fwd_packets + record.rev_packets
                total.octets += record.fwd_octets + record.rev_octets
        for cause, packets in loss.dropped.items():
            sums.dropped.add(cause=cause, packets=packets)
        sums.in_ring_packets = loss.waiting
        arrived = sums.captured.packets + sum(loss.dropped.values()) + loss.waiting - self.waiting
        sums.on_interface.packets = arrived
        self.waiting = loss.waiting

    def _message(self, start_ms: int) -> Any:
        message = schemas().FlowMessage(
            major=1,
            probe=self.probe,
            worker=self.worker,
            epoch=self.epoch,
            sequence=self.sequence,
            interval_start_ms=start_ms,
            interval_ms=INTERVAL_MS,
        )
        self.sequence += 1
        return message


@dataclass
class Way:
    """The packets of one direction in an interval."""

    packets: int = 0
    octets: int = 0
    syn: int = 0
    synack: int = 0
    fin: int = 0
    rst: int = 0
    icmp_errors: int = 0
    icmp_errors_udp: int = 0

    def sampled(self, rate: int, chance: random.Random) -> Way:
        """The same traffic as a probe that samples one packet in `rate` reports it, scaled up."""

        def thinned(count: int) -> int:
            return rate * sum(chance.random() < 1 / rate for _ in range(count))

        packets = thinned(self.packets)
        if not packets:
            return Way()
        size = self.octets // self.packets
        counts = {
            name: min(packets, thinned(getattr(self, name))) for name in ("syn", "synack", "fin", "rst", "icmp_errors")
        }
        udp = min(counts["icmp_errors"], thinned(self.icmp_errors_udp))
        return Way(packets=packets, octets=packets * size, icmp_errors_udp=udp, **counts)


@dataclass
class Seen:
    """A flow in one interval."""

    src: str
    dst: str
    src_port: int
    dst_port: int
    protocol: int
    forward: Way
    back: Way
    first_ms: int = 0
    age_ms: int = 0
    guess: bool = False
    application: int = 0
    vlan: int = 0
    rate: int = 0
    quoted: int = 0
    words: dict[str, Any] = field(default_factory=dict)

    def turned(self) -> Seen:
        """The same flow from a probe that mistook the other side for the source."""
        return replace(
            self,
            src=self.dst,
            dst=self.src,
            src_port=self.dst_port,
            dst_port=self.src_port,
            forward=self.back,
            back=self.forward,
            guess=True,
        )

    def sampled(self, rate: int, chance: random.Random) -> Seen:
        """The same flow from a probe that samples one packet in `rate`."""
        return replace(
            self, rate=rate, forward=self.forward.sampled(rate, chance), back=self.back.sampled(rate, chance)
        )

    @property
    def packets(self) -> int:
        """Packets in both directions."""
        return self.forward.packets + self.back.packets

    def record(self) -> Any:
        """The agent's record of it."""
        flow = schemas().Flow(
            src_addr=packed(self.src),
            dst_addr=packed(self.dst),
            src_port=self.src_port,
            dst_port=self.dst_port,
            protocol=self.protocol,
            ip_version=6 if ":" in self.src + self.dst else 4,
            vlan=self.vlan,
            first_seen_offset_ms=self.first_ms,
            flow_age_ms=self.age_ms,
            initiator_guess=self.guess,
            application_id=self.application,
            sampling_rate=self.rate,
            **self.words,
        )
        for prefix, way in (("fwd", self.forward), ("rev", self.back)):
            setattr(flow, f"{prefix}_packets", way.packets)
            setattr(flow, f"{prefix}_octets", way.octets)
            setattr(flow, f"{prefix}_icmp_errors", way.icmp_errors)
            setattr(flow, f"{prefix}_icmp_errors_udp", way.icmp_errors_udp)
            for name in ("syn", "synack", "fin", "rst"):
                setattr(flow, f"{prefix}_tcp_{name}", getattr(way, name))
        if self.quoted:
            flow.icmp_quoted_flow.protocol = self.quoted
            flow.icmp_quoted_flow.src_addr, flow.icmp_quoted_flow.dst_addr = packed(self.dst), packed(self.src)
        return flow


def overflow(
    key: int,
    protocol: int,
    packets: int,
    *,
    octets: int = 0,
    syn: int = 0,
    host: str = "",
    port: int = 0,
    version: int = 4,
    inbound: bool = False,
    registers: bytes = b"",
    first_ms: int = 0,
) -> Any:
    """A record of many flows counted together by `key`, numbered as in `Overflow.Key`."""
    flow = schemas().Flow(
        record_kind=1,
        protocol=protocol,
        ip_version=version,
        fwd_packets=packets,
        fwd_octets=octets or 40 * packets,
        fwd_tcp_syn=syn,
        dst_port=port,
        first_seen_offset_ms=first_ms,
    )
    flow.overflow.key, flow.overflow.inbound, flow.overflow.distinct_sketch = key, inbound, registers
    if key == 1:
        flow.src_addr = packed(host)
    elif key == 2:
        flow.dst_addr = packed(host)
    return flow


# ---- a day seen by several probes ----

PREFIXES = """prefix,customer,site,tags,national
10.1.0.0/16,Alpha,north,,true
10.1.7.0/24,Gamma,north,,true
10.2.0.0/16,Beta,south,,true
10.3.0.0/16,,north,,true
2001:db8:1::/48,Alpha,south,,true
198.51.100.0/24,Delta,,,false
"""
INSIDE = ("10.1.0.", "10.1.7.", "10.2.0.", "10.3.0.", "2001:db8:1::")
OUTSIDE = ("198.51.100.", "203.0.113.", "192.0.2.", "2001:db8:9::")


def day(stack: RunningStack, chance: random.Random, flows: int = 250) -> int:
    """Windows spread over the day before yesterday, seen by five probes; returns the start of the first in seconds."""
    start = (int(time.time()) - 2 * 86_400) // 300 * 300
    probes = [
        Publisher(stack, "day-all", "--site", "north", "--rank", "50"),
        Publisher(stack, "day-tenth", "--site", "south", "--rank", "10"),
        Publisher(stack, "day-hundredth", "--site", "north", "--rank", "20"),
        Publisher(stack, "day-out", "--one-way", "--rank", "60"),
        Publisher(stack, "day-in", "--one-way", "--rank", "70"),
    ]
    _declare(stack, probes[0], start - 3600)
    # Some follow each other, so that SYNs are answered in the next one; the third is in the same mix as the first two.
    windows = [0, 30, 60, 7_200, 7_230, 40_020, 79_980]
    for number, window in enumerate(windows):
        lasting: list[Seen] = []
        for tick in range(3):
            begun = traffic(chance, flows)
            goes_on = [_goes_on(one, chance) for one in lasting if chance.random() < 0.5]
            lasting = begun + goes_on
            end = number == len(windows) - 1 and tick == 2
            at = 1000 * (start + window) + tick * INTERVAL_MS
            for probe in probes:
                seen = [one for flow in lasting if (one := _observed(flow, probe.probe, chance)) is not None]
                probe.interval(at, [one.record() for one in seen], last=end)
    return start


def _declare(stack: RunningStack, probe: Publisher, start: int) -> None:
    """Declare the prefixes, and wait until stored records carry them."""
    (stack.home / "prefixes.csv").write_text(PREFIXES)
    done = stack.weir("prefixes", "import", str(stack.home / "prefixes.csv"))
    assert done.status == 0, done.err
    starts = itertools.count(1000 * start, INTERVAL_MS)

    def known() -> Any:
        seen = Seen("10.1.0.1", "203.0.113.1", 1024, 80, TCP, Way(1, 40), Way())
        probe.interval(next(starts), [seen.record()])
        time.sleep(2)
        return stack.one(
            "SELECT countIf(site_direction = 'out' AND src_customer != 0) FROM flows WHERE probe = 'day-all'"
        )

    eventually(known, "the prefixes in force")


def traffic(chance: random.Random, flows: int = 200) -> list[Seen]:
    """Generates flows of all kinds in one interval."""
    return [_flow(chance) for _ in range(flows)]


def _address(places: tuple[str, ...], chance: random.Random, version: int) -> str:
    place = chance.choice([one for one in places if (":" in one) == (version == 6)])
    # A few hosts have most of the flows, as in real traffic.
    return place + str(1 + min(chance.randrange(250), chance.randrange(250), chance.randrange(250)))


def _flow(chance: random.Random) -> Seen:
    version = 6 if chance.random() < 0.2 else 4
    src = _address(chance.choice((INSIDE, INSIDE, OUTSIDE)), chance, version)
    dst = _address(chance.choice((INSIDE, OUTSIDE, OUTSIDE)), chance, version)
    protocol = chance.choice((TCP, TCP, TCP, UDP, UDP, ICMP if version == 4 else ICMP6, GRE))
    forward = Way(packets=chance.randint(1, 40))
    back = Way(packets=chance.choice((0, chance.randint(1, 60))))
    ports = (chance.randint(1024, 65_535), chance.choice((22, 53, 80, 443, 445, 8080, chance.randint(1, 65_535))))
    quoted = 0
    if protocol == TCP:
        forward.syn = chance.choice((0, 1, 1, min(3, forward.packets)))
        if back.packets:
            back.synack = chance.choice((0, 1, 1))
            back.rst = chance.choice((0, 0, 0, 1))
            back.fin = chance.choice((0, 1))
        forward.fin = chance.choice((0, 1))
        forward.rst = chance.choice((0, 0, 0, 1))
    elif protocol != UDP:
        ports = (0, 0)
        if protocol in (ICMP, ICMP6):
            if chance.random() < 0.5:
                forward.icmp_errors, quoted = forward.packets, chance.choice((UDP, TCP))
                forward.icmp_errors_udp = chance.randint(0, forward.packets)
                ports = (0, 3 * 256 + 3)
            else:
                ports = (0, 8 * 256)
    forward.octets = forward.packets * chance.randint(40, 1500)
    back.octets = back.packets * chance.randint(40, 1500)
    return Seen(
        src,
        dst,
        *ports,
        protocol,
        forward,
        back,
        first_ms=chance.randint(-100, 9_900),
        guess=protocol == TCP and not forward.syn,
        application=chance.choice((0, 5, 7, 91, 126, chance.randint(1, 400))),
        vlan=chance.choice((0, 0, 0, 12)),
        quoted=quoted,
    )


def _goes_on(flow: Seen, chance: random.Random) -> Seen:
    """The same flow in the next interval."""
    forward, back = Way(packets=chance.randint(0, 20)), Way(packets=chance.randint(1, 20))
    forward.octets, back.octets = 100 * forward.packets, 900 * back.packets
    if flow.protocol == TCP:
        back.synack = int(flow.forward.syn > 0 and flow.back.synack == 0 and chance.random() < 0.5)
        back.fin = chance.choice((0, 1))
    first = chance.randint(0, 9_900)
    return replace(
        flow,
        forward=forward,
        back=back,
        first_ms=first,
        age_ms=flow.age_ms + INTERVAL_MS + first - flow.first_ms,
        application=flow.application or chance.choice((0, 91)),
        quoted=0,
    )


def _observed(flow: Seen, probe: str, chance: random.Random) -> Seen | None:
    """A probe's observation of a flow; None if the probe does not see the flow."""
    # The same flow takes the same path in every interval.
    path = random.Random(f"{probe} {flow.src} {flow.dst} {flow.src_port} {flow.dst_port}")
    if path.random() < 0.4:
        return None
    one = flow
    if probe == "day-tenth":
        one = flow.sampled(10, chance)
    elif probe == "day-hundredth":
        one = flow.sampled(100, chance)
    elif probe == "day-out":
        one = replace(flow, back=Way())
    elif probe == "day-in":
        one = replace(flow.turned(), back=Way())
    if probe != "day-in" and path.random() < 0.2:
        one = one.turned()
    return one if one.packets else None


# ---- a flood ----


def registers(distinct: int, chance: random.Random) -> bytes:
    """A HyperLogLog of 128 registers with this many items, whose values do not matter."""
    found = bytearray(128)
    for _ in range(distinct):
        place, rest = chance.randrange(128), chance.getrandbits(57)
        found[place] = max(found[place], 58 - rest.bit_length())
    return bytes(found)


def flood(stack: RunningStack, chance: random.Random, sources: int = 2_000) -> int:
    """SYNs from forged sources to one host, scans and an answer to each, where agents reached their bound; returns the
    start of the first of three windows in seconds.
    """
    start = (int(time.time()) - 7_200) // 300 * 300
    probes = [Publisher(stack, "flood-edge", "--rank", "1"), Publisher(stack, "flood-core", "--rank", "2")]
    for tick in range(9):
        everything = [*_forged(chance, sources), *_scans(tick), *_errors(chance)]
        for number, probe in enumerate(probes):
            seen = [one for one in everything if chance.random() < 0.9]
            records = [one.record() for one in seen] + _uncounted(chance, version=6 if number else 4)
            probe.interval(1000 * start + tick * INTERVAL_MS, records, last=tick == 8)
    return start


def _forged(chance: random.Random, sources: int) -> Iterable[Seen]:
    for _ in range(sources):
        src = str(ipaddress.IPv4Address(chance.getrandbits(32)))
        back = Way(1, 44, synack=1) if chance.random() < 0.1 else Way()
        yield Seen(src, "203.0.113.80", chance.randint(1024, 65_535), 80, TCP, Way(1, 40, syn=1), back,
                   first_ms=chance.randint(0, 9_999))  # fmt: skip


def _scans(tick: int) -> Iterable[Seen]:
    """By addresses, by ports, and by ports of one address in UDP. Late attempts are answered in the next window."""
    for host in range(1, 200):
        back = Way(1, 40, rst=1) if host % 7 == 0 else Way()
        yield Seen("10.1.0.66", f"192.0.2.{host}", 4000 + tick, (139, 445)[host % 2], TCP, Way(1, 48, syn=1), back,
                   first_ms=50 * host)  # fmt: skip
    for port in range(1, 150):
        yield Seen("10.1.0.67", "198.51.100.9", 5000 + tick, port, TCP, Way(1, 48, syn=1), Way(1, 40, rst=1))
        yield Seen("10.1.0.68", "198.51.100.9", 5000 + tick, port, UDP, Way(1, 30), Way())
    for host in range(1, 60):
        # Tried in the last interval of a window, answered in the first of the next.
        tried, answered = tick % 3 == 2, tick % 3 == 0
        forward = Way(1, 48, syn=1) if tried else Way(1, 40)
        back = Way(1, 44, synack=1) if answered and host % 2 else Way()
        yield Seen(
            "10.2.0.5", f"192.0.2.{host}", 6000, 8080, TCP, forward, back, first_ms=1_000 + host, guess=not tried
        )


def _errors(chance: random.Random) -> Iterable[Seen]:
    for host in range(1, 40):
        errors = chance.randint(1, 5)
        udp = chance.randint(0, errors)
        way = Way(errors, 56 * errors, icmp_errors=errors, icmp_errors_udp=udp)
        # The first error that a record counted quotes TCP.
        yield Seen(f"198.51.100.{host}", "10.1.0.68", 0, 3 * 256 + 3, ICMP, way, Way(), quoted=TCP)
        yield Seen("10.1.0.69", f"198.51.100.{host}", 0, 8 * 256, ICMP, Way(1, 84), Way(1, 84))


def _uncounted(chance: random.Random, version: int) -> list[Any]:
    """Overflow records of every kind."""
    network, victim = ("10.1.0.", "203.0.113.80") if version == 4 else ("2001:db8:1::", "2001:db8:9::80")
    scanner = f"{network}66"
    return [
        overflow(1, TCP, 900, syn=900, host=scanner, port=445, registers=registers(850, chance), version=version),
        overflow(1, TCP, 10, syn=10, host=scanner, port=139, registers=registers(10, chance), version=version),
        overflow(1, UDP, 70, host=scanner, port=53, registers=registers(60, chance), version=version),
        overflow(
            1, ICMP if version == 4 else ICMP6, 20, host=scanner, registers=registers(20, chance), version=version
        ),
        # A host seen only in overflow records: it reaches many ports of one host.
        *(
            overflow(1, TCP, 1, syn=1, host=f"{network}167", port=port, version=version, first_ms=port)
            for port in range(30)
        ),
        # A sketch that no reader understands.
        overflow(1, UDP, 5, host=f"{network}168", port=53, registers=bytes(64), version=version),
        overflow(2, TCP, 5_000, syn=5_000, host=victim, port=80, registers=registers(4_000, chance), version=version),
        overflow(2, UDP, 300, octets=420_000, host=victim, port=123, registers=registers(90, chance), version=version),
        *(
            overflow(3, protocol, 100 * protocol, version=of, inbound=inbound, registers=registers(200, chance))
            for protocol in (TCP, UDP, GRE)
            for of in (4, 6)
            for inbound in (False, True)
        ),
        overflow(0, TCP, 3, version=version),
    ]


# ---- files of autonomous systems and countries ----

SYSTEMS = {
    "10.1.0.0/16": {"autonomous_system_number": 64_501, "autonomous_system_organization": "North"},
    "10.2.0.0/16": {"autonomous_system_number": 64_502, "autonomous_system_organization": "South"},
    "198.51.100.0/25": {"autonomous_system_number": 64_510, "autonomous_system_organization": "Elsewhere"},
    "198.51.100.128/25": {"autonomous_system_number": 4_200_000_001, "autonomous_system_organization": "Far"},
    "2001:db8::/32": {"autonomous_system_number": 64_520, "autonomous_system_organization": "Six"},
} | {
    # More systems than a mix has rows for.
    f"203.0.113.{8 * i}/29": {"autonomous_system_number": 64_600 + i, "autonomous_system_organization": f"Small {i}"}
    for i in range(32)
}
COUNTRIES = {
    "10.0.0.0/8": {"country": {"iso_code": "NO"}},
    "198.51.100.0/24": {"country": {"iso_code": "SE"}},
    "192.0.2.0/24": {"country": {"iso_code": "DK"}},
    "2001:db8:9::/48": {"country": {"iso_code": "SE"}},
}


def conversations_and_a_scan(chance: random.Random) -> Iterable[Seen]:
    """Clients, servers, and an unanswered scan."""
    for _ in range(60):
        sent, back = chance.randint(1, 20), chance.randint(0, 30)
        yield Seen(
            f"10.0.{chance.randint(0, 9)}.{chance.randint(1, 250)}", f"198.51.100.{chance.randint(1, 250)}",
            chance.randint(1024, 65_535), chance.choice([53, 80, 443, 9_999, 50_000]), chance.choice([TCP, UDP]),
            Way(sent, 60 * sent), Way(back, 900 * back), first_ms=chance.randint(0, 9_000), application=chance.randint(0, 99),
            age_ms=chance.choice([0, 0, 500_000]),
        )  # fmt: skip
    for host in range(30):
        yield Seen("10.9.9.9", f"203.0.113.{host}", 40_000 + host, 22, TCP, Way(1, 40, syn=1), Way())
