"""Inserts beside hostile clients: how many the store refuses, and how long they take.

`make bench-availability`. A private store gets records as the jobs' sink sends them, at a steady rate (100,000 rows a
second by default, in bodies of 20,000 rows on kept connections), first in quiet, then beside 5,000 hostile connections:
silent ones, half heads, half bodies and wrong passwords of strangers, half bodies and heavy statements of a customer.
An insert's time is from the moment at which it was due to its answer, so that one which had to wait counts what it
waited. A table on standard output, all figures in `.weir/bench/availability.json`. It fails if an insert was refused, or
if the p99 beside hostile clients is more than twice that in quiet.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

import store_traffic
from harness import BUILT, CHECKOUT, LoneStore, lone_store
from store_traffic import Traffic
from weir.clickhouse import connect

ROWS = 20_000
HOSTILE = CHECKOUT / "clickhouse/tests/hostile.py"
#: As the sink asks.
SETTINGS = {
    "database": "weir",
    "query": "INSERT INTO flows FORMAT Native",
    "insert_deduplicate": "1",
    "deduplicate_blocks_in_dependent_materialized_views": "1",
    "optimize_on_insert": "0",
    "min_insert_block_size_rows": "1048576",
    "min_insert_block_size_bytes": "0",
    "max_insert_block_size": "1048576",
    "wait_end_of_query": "1",
}


@dataclass
class Round:
    """The inserts of one round: seconds from due to answered, and the answers that were none of success."""

    took: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    #: Connections that the store closed before it answered, upon which the sink sends again.
    closed: int = 0

    def figures(self) -> dict[str, Any]:
        """Counts, and the distribution of times in ms."""
        cuts = statistics.quantiles(self.took, n=100)
        return {
            "inserts": len(self.took),
            "refused": len(self.refused),
            "closed": self.closed,
            "p50_ms": round(cuts[49] * 1000),
            "p90_ms": round(cuts[89] * 1000),
            "p99_ms": round(cuts[98] * 1000),
            "max_ms": round(max(self.took) * 1000),
        }


def made(stack: LoneStore, count: int) -> list[bytes]:
    """Bodies of records, as the sink builds them."""
    admin = connect(stack.stack, "admin", patience=None)
    traffic = Traffic(start=int(time.time()) // 3600 * 3600)
    bodies = []
    for turn in range(count):
        sql = store_traffic.flows(traffic, turn * ROWS, ROWS) + " FORMAT Native"
        params = {
            "enable_http_compression": "1",
            "max_block_size": "16384",
            "database": "weir",
            "compile_expressions": "0",
        }
        headers = {"Accept-Encoding": "zstd"}
        with admin.client.stream("POST", "/", params=params, content=sql.encode(), headers=headers) as answer:
            bodies.append(b"".join(answer.iter_raw()))
            if answer.status_code != 200:
                raise SystemExit(bodies[-1].decode(errors="replace"))
    return bodies


def inserts(stack: LoneStore, bodies: list[bytes], rate: float, seconds: float, senders: int) -> Round:
    """Send bodies at `rate` rows a second for so long, by so many senders, each with a connection that it keeps."""
    place = urllib.parse.urlsplit(stack.stack.clickhouse_url)
    headers = {
        "X-ClickHouse-User": "writer",
        "X-ClickHouse-Key": stack.stack.password("writer"),
        "Content-Encoding": "zstd",
    }
    out, lock = Round(), threading.Lock()
    due: queue.Queue[tuple[int, float] | None] = queue.Queue()

    def send() -> None:
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        while (one := due.get()) is not None:
            number, at = one
            token = {"insert_deduplication_token": f"{os.urandom(4).hex()} {number}"}
            path = "/?" + urllib.parse.urlencode(SETTINGS | token)
            for _ in range(10):
                try:
                    connection.request("POST", path, bodies[number % len(bodies)], headers)
                    answer = connection.getresponse()
                    text = answer.read().decode(errors="replace")
                except (OSError, http.client.HTTPException):
                    connection.close()
                    with lock:
                        out.closed += 1
                    continue
                break
            else:
                answer, text = None, "no answer"
            with lock:
                out.took.append(time.monotonic() - at)
                if answer is None or answer.status != 200:
                    out.refused.append(text)
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(senders)]
    for thread in threads:
        thread.start()
    begun = time.monotonic()
    for number in range(int(seconds * rate / ROWS)):
        at = begun + number * ROWS / rate
        time.sleep(max(0.0, at - time.monotonic()))
        due.put((number, at))
    for _ in threads:
        due.put(None)
    for thread in threads:
        thread.join()
    return out


def besieged(stack: LoneStore, options: argparse.Namespace, bodies: list[bytes]) -> tuple[Round, dict[str, Any]]:
    """The same beside hostile clients, of lower priority than the store: they stand for other machines."""
    place = urllib.parse.urlsplit(stack.stack.clickhouse_url)
    command = [
        "nice",
        "-n",
        "10",
        sys.executable,
        str(HOSTILE),
        str(place.hostname),
        str(place.port),
        str(options.connections),
        str(options.seconds + 10),
        "fjord",
        stack.stack.password("fjord"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as attack:
        # All are there when the inserts begin.
        time.sleep(5)
        out = inserts(stack, bodies, options.rate, options.seconds, options.senders)
        assert attack.stdout is not None
        seen: dict[str, Any] = json.loads(attack.stdout.read())
    return out, seen


def main() -> int:
    """Measure, print a table in Markdown; 1 if an insert was refused, or took too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=100_000, help="rows a second (100000)")
    parser.add_argument("--seconds", type=float, default=60, help="of each round (60)")
    parser.add_argument("--connections", type=int, default=5_000, help="hostile ones at a time (5000)")
    parser.add_argument("--senders", type=int, default=4, help="connections of inserts (4)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-access-") as folder:
        tree = yaml.safe_load((CHECKOUT / "clickhouse/access.yaml").read_text())
        tree["users"]["fjord"] = {"role": "customer", "customers": ["Fjord Power"]}
        access = Path(folder) / "access.yaml"
        access.write_text(yaml.safe_dump(tree))
        with lone_store(access) as stack:
            bodies = made(stack, 20)
            inserts(stack, bodies, options.rate, 5, options.senders)
            quiet = inserts(stack, bodies, options.rate, options.seconds, options.senders)
            load = os.getloadavg()[0]
            hostile, seen = besieged(stack, options, bodies)
            stored = int(connect(stack.stack, "admin").rows("SELECT count() AS n FROM flows")[0]["n"])
    sent = (len(quiet.took) + len(hostile.took) + int(5 * options.rate / ROWS)) * ROWS
    rounds = {"quiet": quiet.figures(), "hostile": hostile.figures()}
    print("\n| round | inserts | refused | closed before an answer | p50 ms | p90 ms | p99 ms | longest ms |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, one in rounds.items():
        print(f"| {name} | " + " | ".join(f"{value:,}" for value in one.values()) + " |")
    figures = {
        "rate": options.rate,
        "seconds": options.seconds,
        "connections": options.connections,
        "cores": psutil.cpu_count(),
        "load_before_the_siege": load,
        "rounds": rounds,
        "hostile": seen,
        "rows_sent": sent,
        "rows_stored": stored,
        "refusals": hostile.refused[:10],
    }
    (BUILT / "bench").mkdir(parents=True, exist_ok=True)
    (BUILT / "bench/availability.json").write_text(json.dumps(figures, indent=1) + "\n")
    bad = quiet.refused or hostile.refused or stored != sent
    return 1 if bad or rounds["hostile"]["p99_ms"] > 2 * rounds["quiet"]["p99_ms"] else 0


if __name__ == "__main__":
    sys.exit(main())
