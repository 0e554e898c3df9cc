"""Compares the names and applications of flows read from captures with those of the same packets on a live interface,
and with tshark and ndpiReader.

`make check-names`, or `python tests/peers/check_names.py CAPTURE_OR_FOLDER ...`, as root. Each capture is read by
`weir-probe read` by itself. Then one agent captures all of them on a veth pair, each capture on a VLAN of its own, with
no bound on the share of inspected packets; its records are read from Kafka. Prints how many flows agree, and those that
do not. Exit status 1 if a name differs between live and file.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError

from bench_live import PROBE, Broker, Link, ip, running
from capture_traces import SHARED, unpacked
from compare_ndpi import FiveTuple, captures_in, five_tuple, judge, read_records, theirs
from fuzz_seeds import frames
from harness import decoded

#: Link types that can be played: Ethernet, and raw IP behind an Ethernet header.
ETHERNET, RAW = 1, (12, 101)
#: Octets of the longest frame that is sent.
LONGEST = 65_000
#: The agent keeps up with this many packets a second, all of them inspected.
RATE = 20_000
#: tshark's fields: first the addresses and ports, then the names.
FIELDS = [
    *("ip.src", "ipv6.src", "ip.dst", "ipv6.dst", "tcp.srcport", "udp.srcport", "tcp.dstport", "udp.dstport"),
    *("tls.handshake.extensions_server_name", "http.host", "dns.qry.name"),
]


@dataclass(frozen=True)
class Known:
    """What is known of a flow: server name, DNS name, application."""

    server: str = ""
    query: str = ""
    application: int = 0

    def joined(self, later: Known) -> Known:
        """With what a later record says: the first names, the last application."""
        return Known(self.server or later.server, self.query or later.query, later.application or self.application)


Flows = dict[FiveTuple, Known]


def add(flows: Flows, key: FiveTuple, known: Known) -> None:
    """Joins a record to its flow."""
    flows[key] = flows.get(key, Known()).joined(known)


def from_file(capture: Path) -> Flows:
    """The flows of a capture; none if it cannot be read."""
    flows: Flows = {}
    with contextlib.suppress(RuntimeError, subprocess.SubprocessError):
        for record in read_records(capture, None):
            if record.get("record_kind", "flow") != "flow":
                continue
            ends = [(record["src_addr"], record["src_port"]), (record["dst_addr"], record["dst_port"])]
            known = Known(record.get("server_name", ""), record.get("dns_query", ""), record.get("application_id", 0))
            add(flows, five_tuple(record["protocol"], ends), known)
    return flows


def played(captures: list[Path]) -> Iterator[tuple[int, bytes]]:
    """The frames of all captures, each with the number of its capture."""
    for number, capture in enumerate(captures):
        for link, octets in frames(unpacked(capture)):
            if link in RAW and octets:
                kind = b"\x86\xdd" if octets[0] >> 4 == 6 else b"\x08\x00"
                yield number, b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02" + kind + octets
            elif link == ETHERNET and len(octets) > 14:
                yield number, octets


def send(captures: list[Path]) -> None:
    """Sends all captures on `weir1` of this network namespace, each on the VLAN of its number plus 1."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    wire.bind(("weir1", 0))
    began, sent = time.monotonic(), 0
    for number, frame in played(captures):
        tagged = frame[:12] + b"\x81\0" + (number + 1).to_bytes(2, "big") + frame[12:]
        if len(tagged) > LONGEST:
            continue
        wire.send(tagged)
        sent += 1
        time.sleep(max(0, began + sent / RATE - time.monotonic()))
    print(sent)


def live(captures: list[Path]) -> list[Flows]:
    """The flows of all captures on a live interface."""
    broker = Broker()
    config = 'interval = "1s"\nworkers = 1\n[applications]\nmax_inspected_percent = 100\n'
    with Link() as link:
        for namespace, end in ((link.agent, "weir0"), (link.sender, "weir1")):
            ip("-n", namespace, "link", "set", end, "mtu", str(LONGEST + 100))
        with running(link, broker, config) as agent:
            command = ["ip", "netns", "exec", link.sender, sys.executable, __file__, "--send", *map(str, captures)]
            sent = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            time.sleep(1)
            agent.stop()
    dropped = agent.summary["dropped"]
    print(f"{sent} packets sent, {agent.summary['packets']['captured']} captured, dropped {dropped}")
    flows: list[Flows] = [{} for _ in captures]
    for message in decoded(kept(broker)):
        for flow in message.batch.flows:
            if not flow.vlan:
                continue
            ends = [
                (str(ip_address(flow.src_addr)), flow.src_port),
                (str(ip_address(flow.dst_addr)), flow.dst_port),
            ]
            known = Known(flow.server_name, flow.dns_query, flow.application_id)
            add(flows[flow.vlan - 1], five_tuple(flow.protocol, ends), known)
    return flows


def kept(broker: Broker) -> Iterator[bytes]:
    """The messages of the flow topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "names",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([f"weir.flows.{PROBE}"])
    ended: set[int] = set()
    partitions = len(consumer.list_topics(f"weir.flows.{PROBE}").topics[f"weir.flows.{PROBE}"].partitions)
    while len(ended) < partitions:
        message = consumer.poll(10)
        if message is None:
            raise RuntimeError("the broker does not answer")
        error: Any = message.error()
        if error is None:
            yield message.value()
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        else:
            raise RuntimeError(str(error))
    consumer.close()


def from_tshark(capture: Path) -> Flows:
    """The names that tshark finds, of packets outside tunnels."""
    command = ["tshark", "-n", "-r", str(capture), "-T", "fields", "-E", "separator=/t", "-E", "aggregator=|"]
    names = " or ".join(FIELDS[-3:])
    done = subprocess.run(
        [*command, "-Y", names, *(word for name in FIELDS for word in ("-e", name))],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
        check=False,
    )
    flows: Flows = {}
    for line in done.stdout.splitlines():
        columns = line.split("\t")
        if len(columns) != len(FIELDS):
            continue
        source, destination = columns[0] or columns[1], columns[2] or columns[3]
        # Two addresses: a tunnel, or an error that quotes a packet.
        if "|" in source or not source or bool(columns[4]) == bool(columns[5]) or "|" in columns[4] + columns[5]:
            continue
        protocol = 6 if columns[4] else 17
        key = five_tuple(
            protocol,
            [
                (source, int(columns[4] or columns[5])),
                (destination, int(columns[6] or columns[7])),
            ],
        )
        first = [named.split("|")[0].lower().removesuffix(".") for named in columns[8:]]
        host = first[1] if first[1].startswith("[") else first[1].partition(":")[0]
        add(flows, key, Known(first[0] or host.removesuffix("."), first[2]))
    return flows


def compared(pairs: Iterable[tuple[Flows, Flows]], field: str) -> Counter[str]:
    """How one field of the same flows relates."""
    counts: Counter[str] = Counter()
    for first, second in pairs:
        for key in first.keys() | second.keys():
            one, other = (getattr(flows.get(key, Known()), field) for flows in (first, second))
            if one or other:
                counts["same" if one == other else "first" if not other else "second" if not one else "differ"] += 1
    return counts


def row(title: str, counts: Counter[str]) -> str:
    """A row of the table."""
    cells = [counts.total(), *(counts[kind] for kind in ("same", "first", "second", "differ"))]
    return f"| {title} | " + " | ".join(map(str, cells)) + " |"


def differences(captures: list[Path], first: list[Flows], second: list[Flows], fields: list[str]) -> list[str]:
    """The flows that differ, by capture."""
    lines = []
    for capture, one, other in zip(captures, first, second, strict=True):
        for key in sorted(one.keys() | other.keys()):
            known = [flows.get(key, Known()) for flows in (one, other)]
            for field in fields:
                values = [getattr(each, field) for each in known]
                if values[0] != values[1]:
                    lines.append(f"{capture.name}: {key}: {field} {values[0]!r}, {values[1]!r}")
    return lines


def main() -> int:
    """Command-line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="*", type=Path, default=[SHARED / "ndpi"])
    parser.add_argument("--send", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.send:
        send(options.captures)
        return 0
    captures = captures_in(options.captures)
    if not captures:
        print("SKIPPED: no captures: name some, or put the public ones beside the checkout (../shared/pcaps/ndpi)")
        return 0
    if os.geteuid() != 0:
        print("SKIPPED: network namespaces take root")
        return 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        files = list(pool.map(from_file, captures))
        shark = list(pool.map(from_tshark, captures))
    wire = live(captures)
    played_ones = {number for number, _ in played(captures)}
    print(f"{len(captures)} captures, {len(played_ones)} of them played")
    both = [(files[number], wire[number]) for number in sorted(played_ones)]
    beside = list(zip(files, shark, strict=True))
    print("\n| | either says | same | first alone | second alone | differ |\n|---|---:|---:|---:|---:|---:|")
    for title, field in (("server names", "server"), ("DNS names", "query"), ("applications", "application")):
        print(row(f"{title}: file, live", compared(both, field)))
    for title, field in (("server names", "server"), ("DNS names", "query")):
        print(row(f"{title}: file, tshark", compared(beside, field)))
    print(row("applications: live, ndpiReader", against_ndpi(captures, wire, played_ones)))
    file_ones, live_ones = ([flows[number] for number in sorted(played_ones)] for flows in (files, wire))
    chosen = [captures[number] for number in sorted(played_ones)]
    names = differences(chosen, file_ones, live_ones, ["server", "query"])
    for title, lines in (
        ("names: file, live", names),
        ("applications: file, live", differences(chosen, file_ones, live_ones, ["application"])),
        ("names: file, tshark", differences(captures, files, shark, ["server", "query"])),
    ):
        print(f"\n## {title}: {len(lines)}\n" + "\n".join(lines))
    return 1 if names else 0


def against_ndpi(captures: list[Path], wire: list[Flows], played_ones: set[int]) -> Counter[str]:
    """How the applications on the live interface relate to ndpiReader's, of flows that both have."""
    counts: Counter[str] = Counter()
    for number in sorted(played_ones):
        try:
            seen = theirs(captures[number])
        except (OSError, RuntimeError, subprocess.SubprocessError):
            continue
        for key, ones in seen.items():
            if key not in wire[number]:
                continue
            application = wire[number][key].application
            _, one = judge(ones, application, None)
            if application or one.app:
                same = application == one.app
                counts["same" if same else "first" if not one.app else "second" if not application else "differ"] += 1
    return counts


if __name__ == "__main__":
    sys.exit(main())
