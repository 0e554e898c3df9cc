"""Bytes that routers' routing data take, per record: `make bench-routes`.

Generated IPFIX records of one direction go through `weir-probe collect`, Kafka and the jobs into `flows`, a stack for each
case: without routing data; with next hop, autonomous systems and prefix lengths; with every field of a router in the core.
Destinations lie in 20,000 prefixes, few of which have most of the traffic; a prefix has one autonomous system, one next
hop and one neighbour. All cases have the same flows, by a seed. Reported: bytes of Kafka's messages before compression,
of the topic on disk, and of the merged rows with marks, index and projection; then each column that differs. The data is
removed at the end. Figures in `.weir/bench/routes.json`.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench_capture import FOLDER, aligned, say
from bench_collect import FORMS, Datagrams
from harness import RunningStack, collector, free_ports
from weir.clickhouse import connect

PROBE = "routers"
#: Length of the collector's intervals, s, and records in each.
INTERVAL, RECORDS = 5, 100_000
PREFIXES, SYSTEMS, HOPS, CUSTOMERS = 20_000, 4_000, 8, 500
SEED = 20_261_124
FORM = next(form for form in FORMS if form.name == "ipfix")
#: Fields (information element, octets) of each case, in the order of `record`.
FLOW = [(8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (6, 1), (5, 1), (2, 4), (1, 4), (152, 8), (153, 8), (10, 4), (14, 4)]
FIVE = [(15, 4), (16, 4), (17, 4), (9, 1), (13, 1)]
#: BGP next hop, neighbours, direction, end reason, forwarding status, lowest and highest TTL, VRFs.
MORE = [(18, 4), (128, 4), (129, 4), (61, 1), (136, 1), (89, 1), (52, 1), (53, 1), (234, 4), (235, 4)]
CASES = {"without": FLOW, "five fields": FLOW + FIVE, "all fields": FLOW + FIVE + MORE}
WORDS = {1: "B", 2: "H", 4: "I", 8: "Q"}
SERVICES = [(443, 6)] * 9 + [(443, 17)] * 4 + [(53, 17)] * 4 + [(80, 6), (22, 6), (123, 17)]


def record(dice: random.Random, start_ms: int) -> list[int]:
    """The values of every field of a flow within an interval that begins at `start_ms`."""
    prefix = int(dice.paretovariate(1.0)) % PREFIXES
    customer = dice.randrange(CUSTOMERS)
    length = 16 + prefix % 9
    source = 0x0A00_0000 | customer << 8 | int(dice.paretovariate(1.2)) % 254 + 1
    destination = 0x2000_0000 + (prefix << 16) | int(dice.paretovariate(0.8)) % (1 << (32 - length))
    port, protocol = dice.choice(SERVICES)
    packets = 1 + int(dice.paretovariate(1.1)) % 5000
    began = start_ms + dice.randrange(4000)
    ended = min(began + int(dice.expovariate(1 / 800)), start_ms + 4900) if packets > 1 else began
    system, hop = 1000 + prefix * 7919 % SYSTEMS, prefix % HOPS
    ttl = 64 - prefix % 17
    flow = [source, destination, dice.randrange(1024, 65_536), port, protocol, 0x1B if protocol == 6 else 0]
    flow += [0, packets, packets * dice.randrange(60, 1400), began, ended, 1 + customer % 16, 100 + hop]
    five = [0xC000_0201 + hop, 64_512 + customer % 40, system, 24, length]
    more = [
        0xC633_6401 + hop,
        174 + hop,
        64_512 + customer % 40,
        0,
        1 + (packets > 1) * 2,
        64,
        ttl,
        ttl,
        customer % 4,
        0,
    ]
    return flow + five + more


class Round(Datagrams):
    """The datagrams of an interval."""

    def __init__(self, dice: random.Random, fields: list[tuple[int, int]], end: int) -> None:
        self.form = FORM
        packed = struct.Struct(">" + "".join(WORDS[octets] for _, octets in fields))
        rows = [packed.pack(*record(dice, (end - INTERVAL) * 1000)[: len(fields)]) for _ in range(RECORDS)]
        step = FORM.records
        self.all = [bytearray(self.message(end, 256, b"".join(rows[at : at + step]))) for at in range(0, RECORDS, step)]
        head = struct.pack(">HH", 256, len(fields))
        self.template = bytearray(self.message(end, 2, head + b"".join(struct.pack(">HH", *field) for field in fields)))

    @staticmethod
    def message(now: int, number: int, body: bytes) -> bytes:
        """An IPFIX message of one set."""
        return struct.pack(">HHIIIHH", 10, 20 + len(body), now, 0, 7, number, 4 + len(body)) + body


def measure(rounds: int, fields: list[tuple[int, int]]) -> dict[str, Any]:
    """Octets per record of one case."""
    dice = random.Random(SEED)
    with RunningStack() as stack, tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
        folder, (port,) = Path(name), free_ports(1)
        stack.enrol(PROBE)
        with collector(stack, port, folder, PROBE) as process:
            for _ in range(rounds):
                end = int(time.time()) // INTERVAL * INTERVAL
                Round(dice, fields, end).send(port, 1)
                # Each round has an interval of its own.
                time.sleep(max(0.0, end + INTERVAL + 0.1 - time.time()))
        summary = json.loads((process.stdout and process.stdout.read()) or "{}")
        rows = stack.settled(PROBE, summary["packets"], 300)["records"]
        topic = f"weir.flows.{PROBE}"
        messages = sum(len(value) for _, value in stack.messages(topic))
        segments = (stack.stack.data / "kafka").glob(f"{topic}-*/*.log")
        admin = connect(stack.stack, "admin", patience=None)
        admin.execute("OPTIMIZE TABLE flows FINAL")
        parts = "FROM system.parts{} WHERE active AND database = 'weir' AND table = 'flows'"
        columns = admin.rows(
            f"SELECT column, sum(column_data_compressed_bytes) AS n {parts.format('_columns')} GROUP BY column"
        )
        return {
            "received": summary["records_received"],
            "records": rows,
            "message": messages / rows,
            "topic": sum(path.stat().st_size for path in segments) / rows,
            "row": int(admin.rows(f"SELECT sum(bytes_on_disk) AS n {parts.format('')}")[0]["n"]) / rows,
            "columns": {row["column"]: int(row["n"]) / rows for row in columns},
        }


def main() -> int:
    """Measure the cases, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help=f"rounds of {RECORDS:,} records (default: %(default)s)")
    options = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    for case, fields in CASES.items():
        say(f"routing data: {case}")
        found[case] = measure(options.rounds, fields)
    names = {"message": "message, before compression", "topic": "topic on Kafka's disk", "row": "row in flows"}
    lines = [[name, *(f"{one[key]:.2f}" for one in found.values())] for key, name in names.items()]
    for column in sorted({column for one in found.values() for column in one["columns"]}):
        octets = [one["columns"].get(column, 0.0) for one in found.values()]
        if max(octets) - min(octets) >= 0.01:
            lines.append([f"column {column}", *(f"{each:.2f}" for each in octets)])
    lines.append(["stored records", *(f"{one['records']:,}" for one in found.values())])
    print(aligned(["bytes per record", *found], lines))
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "routes.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
