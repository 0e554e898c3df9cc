"""Flow records of a router, from the wire to SQL: NetFlow v9 over UDP into `weir-probe collect`, through Kafka and the
jobs.

The test implements the exporter only from RFC 3954.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from ipaddress import IPv4Address
from pathlib import Path

from harness import RunningStack, collector, eventually, free_ports

#: Type and length of each field: addresses, ports, protocol, flags, octets, packets, first and last switched, interfaces.
FIELDS = ((8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (6, 1), (1, 4), (2, 4), (22, 4), (21, 4), (10, 2), (14, 2))
RECORD = struct.Struct(">4s4sHHBBIIIIHH")
#: samplingInterval, in each record.
SAMPLED = (*FIELDS, (34, 4))
CLIENT, SERVER = IPv4Address("192.0.2.10"), IPv4Address("198.51.100.20")


class Exporter:
    """A router that exports NetFlow v9; its uptime began an hour ago."""

    def __init__(self, port: int, source: int, rate: int | None = None) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.to, self.source, self.rate = ("127.0.0.1", port), source, rate
        self.booted, self.sequence = time.time() - 3600, 0
        self.packets = self.octets = 0

    def send(self, flowset: int, body: bytes, count: int = 1, lost: bool = False) -> None:
        """One export packet with one flowset; a lost one uses a number and is not sent."""
        body += bytes(-len(body) % 4)
        now = time.time()
        uptime = int((now - self.booted) * 1000)
        header = struct.pack(">HHIIII", 9, count, uptime, int(now), self.sequence, self.source)
        self.sequence += 1
        if not lost:
            self.socket.sendto(header + struct.pack(">HH", flowset, 4 + len(body)) + body, self.to)

    def template(self) -> None:
        """The template of the records."""
        fields = SAMPLED if self.rate else FIELDS
        self.send(0, struct.pack(">HH", 256, len(fields)) + b"".join(struct.pack(">HH", *field) for field in fields))

    def flows(self, count: int, seconds: int, lost: bool = False) -> None:
        """Flows that lasted this long until now, each direction in its own record."""
        last = int((time.time() - self.booted) * 1000)
        first, records = last - seconds * 1000, []
        for number in range(count):
            port = 20_000 + number
            both = ((CLIENT, SERVER, port, 443, 2), (SERVER, CLIENT, 443, port, 5))
            for src, dst, sport, dport, kilo in both:
                octets, packets = kilo * 1000 + number, kilo * 10
                values = (src.packed, dst.packed, sport, dport, 6, 0x1B, octets, packets, first, last, 3, 4)
                records.append(RECORD.pack(*values) + (struct.pack(">I", self.rate) if self.rate else b""))
                if not lost:
                    self.packets += packets * (self.rate or 1)
                    self.octets += octets * (self.rate or 1)
        for begin in range(0, len(records), 20):
            some = records[begin : begin + 20]
            self.send(256, b"".join(some), len(some), lost)


def test_records_of_routers_become_ours_and_the_ledger_knows_what_is_missing(
    stack: RunningStack, tmp_path: Path
) -> None:
    stack.enrol("routers")
    port = free_ports(1)[0]
    whole, sampling = Exporter(port, 1), Exporter(port, 2, rate=100)
    exporters = (whole, sampling)
    with collector(stack, port, tmp_path) as process:
        for exporter in exporters:
            exporter.template()
            exporter.flows(30, seconds=25)
    assert process.stdout is not None
    summary = json.loads(process.stdout.read())
    assert summary["packets"] == whole.packets + sampling.packets
    (tmp_path / "log").unlink()
    # The collector restarts, and templates are not sent again; meanwhile one export packet is lost.
    with collector(stack, port, tmp_path):
        whole.flows(10, seconds=0, lost=True)
        for exporter in exporters:
            exporter.flows(40, seconds=70)
        time.sleep(6)
        for exporter in exporters:
            exporter.flows(20, seconds=12)
    packets, octets = (sum(getattr(one, what) for one in exporters) for what in ("packets", "octets"))
    sums = stack.settled("routers", packets)
    assert (sums["packets"], sums["octets"]) == (packets, octets)

    found = stack.store.rows(
        "SELECT toString(exporter_addr) AS exporter, sampling_rate, uniqExact(src_port) AS flows, "
        "groupUniqArray(dst_port) AS ports, max(input_interface) AS interface, "
        "uniqExact(ts) AS intervals, countIf(rev_packets = 0 OR fwd_packets = 0) AS one_way "
        "FROM flows WHERE probe = 'routers' GROUP BY ALL ORDER BY sampling_rate"
    )
    for row, rate in zip(found, (0, 100), strict=True):
        assert (row["exporter"], row["sampling_rate"]) == ("::ffff:127.0.0.1", rate)
        # A record and its answer are one biflow, with the client as source.
        assert (row["flows"], row["ports"], row["interface"], row["one_way"]) == (40, [443], 3, 0)
        assert row["intervals"] >= 15

    def closed() -> bool:
        rows = [row for row in stack.ledger("routers") if row["published_packets"]]
        return (
            all((row["state"], row["lost_packets"], row["missing_batches"]) == ("closed", 0, 0) for row in rows)
            and sum(row["published_packets"] for row in rows) == packets
        )

    eventually(closed, "every interval closed, what came late in its own")
    done = stack.weir("ledger", "--probe", "routers", "--since", "15min", "--until", "0s", "--json")
    findings = {finding["text"]: finding["loss"] for finding in json.loads(done.out)["findings"]}
    assert done.status == 1
    assert findings["netflow9 127.0.0.1 domain 1: 1 datagrams were sent but did not arrive"]
    assert not findings[
        "netflow9 127.0.0.1 domain 1: 180 records arrived without a sampling rate and are counted unscaled"
    ]
    assert not any("domain 2" in text for text in findings), findings
