"""Records per second from Kafka to stored rows, CPU seconds per process, memory; and the time from packet to row.

`make bench-pipeline RECORDS=10000000`. It writes the records into Kafka first, with the jobs stopped; then it starts
the jobs, and the clock runs from the first stored row to the last. A table on standard output, JSON in
`.weir/bench-pipeline.json`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from harness import AGENT, BENCH, BUILT, RunningStack, run
from weir.demo_network import Traffic, namespaces

SERVICES = ["kafka", "flink", "clickhouse"]
#: Without a new row for this long, s, a run has failed.
STUCK = 300


def usage(stack: RunningStack, service: str) -> tuple[float, int]:
    """CPU seconds (user and system) so far, and resident octets, of a service and its children."""
    process = psutil.Process(stack.pid(service))
    family = [process, *process.children(recursive=True)]
    times = [one.cpu_times() for one in family]
    return sum(t.user + t.system for t in times), sum(one.memory_info().rss for one in family)


class Peaks:
    """The highest memory of each service, and of all together, sampled during a run."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self.octets = dict.fromkeys(SERVICES, 0)
        self.together = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._sample, daemon=True)
        self.thread.start()

    def _sample(self) -> None:
        while not self.ended.wait(0.5):
            now = {}
            for service in SERVICES:
                try:
                    now[service] = usage(self.stack, service)[1]
                except (psutil.Error, KeyError):
                    now[service] = 0
                self.octets[service] = max(self.octets[service], now[service])
            self.together = max(self.together, sum(now.values()))

    def end(self) -> None:
        """Stop sampling."""
        self.ended.set()
        self.thread.join()


def stored(stack: RunningStack, table: str = "flows") -> int:
    """Rows in a table, from the counts of its parts, so that the query costs nothing."""
    return int(stack.one(f"SELECT count() AS n FROM {table}"))


def accounted(stack: RunningStack) -> str:
    """The ledger's counts of the records."""
    sums = "published_records", "received_records", "missing_batches", "repeated_batches", "stored_records"
    columns = ", ".join(f"sum({column}) AS {column}" for column in sums)
    return json.dumps(
        stack.store.rows(f"SELECT worker, state, count() AS intervals, {columns} FROM v_ledger GROUP BY ALL")
    )


def throughput(stack: RunningStack, records: int, probes: list[str], workers: int) -> dict[str, Any]:
    """Drain a backlog of this many records and measure the rate."""
    for probe in probes:
        stack.enrol(probe, workers)
    stack.stop("flink")
    before = stored(stack)
    command = [str(BENCH), "generate", "--records", str(records), "--probes", ",".join(probes)]
    done = run([*command, "--workers", str(workers), "--credentials", str(stack.operator)], timeout=1800)
    assert done.status == 0, done.err
    written = json.loads(done.out)
    total = sum(one["records"] for one in written["probes"].values())
    cpu = {service: usage(stack, service)[0] for service in ("kafka", "clickhouse")} | {"flink": 0.0}
    peaks = Peaks(stack)
    stack.start("flink", wait=False)
    begin = first = last = time.monotonic()
    seen = 0
    while seen < total:
        time.sleep(0.2)
        now = stored(stack) - before
        if seen == 0 and now:
            first, first_rows = time.monotonic(), now
        if now > seen:
            last = time.monotonic()
        seen = now
        if time.monotonic() - last > STUCK:
            raise AssertionError(f"{seen} of {total} records are stored, and no more in {STUCK} s; {accounted(stack)}")
    peaks.end()
    after = {service: usage(stack, service)[0] for service in SERVICES}
    assert seen == total, f"{seen} rows for {total} records"
    return {
        "records": total,
        "seconds_from_start_of_jobs": last - begin,
        "records_per_second": total / (last - begin),
        "records_per_second_after_first_commit": (total - first_rows) / max(last - first, 0.001),
        "cpu_seconds": {service: after[service] - cpu[service] for service in SERVICES},
        "peak_rss_octets": peaks.octets | {"together": peaks.together},
    }


def latency(stack: RunningStack, seconds: int) -> dict[str, Any]:
    """Time from a packet on the wire until its record can be queried, at 10 s intervals: live capture of the demo's
    traffic.
    """
    stack.enrol("latency")
    delays: list[float] = []
    with namespaces(stack.stack) as net, tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "agent.toml"
        config.write_text(
            f'probe = "latency"\ninterval = "10s"\nworkers = 1\nstate_dir = "{folder}"\n'
            f'[source]\ninterface = "{net.veth}"\nnetns = "{net.servers}"\nreceive_offloads = "keep"\n'
            f'[kafka]\ncredentials = "{stack.bundle("latency")}"\n'
        )
        agent = subprocess.Popen(
            [str(AGENT), "run", "--config", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        traffic = Traffic(net, Path(folder) / "traffic.log")
        try:
            time.sleep(1)
            traffic.begin(seconds)
            end, known = time.monotonic() + seconds + 25, 0
            while time.monotonic() < end:
                rows = stack.store.rows(
                    "SELECT toFloat64(first_seen) AS first, toFloat64(last_seen) AS last, fwd_packets + rev_packets AS packets "
                    f"FROM flows WHERE probe = 'latency' ORDER BY ts, sequence LIMIT 10000000 OFFSET {known}"
                )
                now = time.time()
                for row in rows:
                    # A record gives the times of its first and last packet; those between lie between.
                    delays += [now - row["first"], now - row["last"]] if row["packets"] > 1 else [now - row["first"]]
                known += len(rows)
                time.sleep(0.2)
        finally:
            traffic.stop()
            agent.terminate()
            agent.wait(30)
    delays.sort()
    assert delays, "no record of the latency run was stored"
    return {"packets": len(delays)} | {
        f"p{q}_seconds": delays[min(len(delays) - 1, len(delays) * q // 100)] for q in (50, 90, 99)
    }


def away(stack: RunningStack, seconds: int) -> dict[str, Any]:
    """Memory while ClickHouse is away and records keep arriving."""
    stack.enrol("away", 2)
    peaks = Peaks(stack)
    stack.stop("clickhouse")
    command = [
        str(BENCH),
        "generate",
        "--records",
        str(50_000 * seconds),
        "--probes",
        "away",
        "--workers",
        "2",
        "--rate",
        "50000",
    ]
    done = run([*command, "--credentials", str(stack.operator)], timeout=600)
    assert done.status == 0, done.err
    stack.start("clickhouse")
    total = sum(one["records"] for one in json.loads(done.out)["probes"].values())
    end = time.monotonic() + 600
    while stack.sums("away")["records"] < total:
        assert time.monotonic() < end, "the store did not catch up"
        time.sleep(0.5)
    peaks.end()
    assert stack.sums("away")["records"] == total
    return {"seconds": seconds, "records": total, "peak_rss_octets": peaks.octets | {"together": peaks.together}}


def main() -> None:
    """Run the three measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--probes", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--latency-seconds", type=int, default=60, help="0: leave it out")
    parser.add_argument("--away-seconds", type=int, default=60, help="0: leave it out")
    options = parser.parse_args()
    console = Console()
    results: dict[str, Any] = {"cores": psutil.cpu_count()}
    with RunningStack(as_shipped=True, checkpoint_interval="3s") as stack:
        if options.latency_seconds:
            console.print(f"from packet to row, for {options.latency_seconds} s …")
            results["latency"] = latency(stack, options.latency_seconds)
        if options.away_seconds:
            console.print(f"ClickHouse away for {options.away_seconds} s …")
            results["clickhouse_away"] = away(stack, options.away_seconds)
        console.print(f"{options.records:,} records from Kafka to stored rows …")
        probes = [f"bench-{number}" for number in range(options.probes)]
        results["throughput"] = throughput(stack, options.records, probes, options.workers)
    target = BUILT / "bench-pipeline.json"
    target.write_text(json.dumps(results, indent=2) + "\n")
    show(console, results)
    console.print(f"JSON: {target}", highlight=False, soft_wrap=True)


def show(console: Console, results: dict[str, Any]) -> None:
    """Print the figures as tables."""
    speed = results["throughput"]
    table = Table(
        title=f"Kafka to stored rows, {speed['records']:,} records, {results['cores']} cores",
        title_justify="left",
        box=None,
        header_style="bold",
    )
    for name in ("process", "CPU s", "CPU us/record", "peak RSS"):
        table.add_column(name, justify="left" if name == "process" else "right")
    for service in SERVICES:
        cpu = speed["cpu_seconds"][service]
        table.add_row(
            service,
            f"{cpu:.1f}",
            f"{cpu / speed['records'] * 1e6:.2f}",
            f"{speed['peak_rss_octets'][service] / 2**20:,.0f} MiB",
        )
    cpu = sum(speed["cpu_seconds"].values())
    table.add_row(
        "all",
        f"{cpu:.1f}",
        f"{cpu / speed['records'] * 1e6:.2f}",
        f"{speed['peak_rss_octets']['together'] / 2**20:,.0f} MiB",
        style="bold",
    )
    console.print(table)
    console.print(
        f"{speed['records_per_second']:,.0f} records/s from the start of the jobs' process ({speed['seconds_from_start_of_jobs']:.1f} s), "
        f"{speed['records_per_second_after_first_commit']:,.0f} records/s after the first commit (target 150,000, aim 200,000)",
        highlight=False,
    )
    if "latency" in results:
        delay = results["latency"]
        console.print(
            f"from packet to row: p50 {delay['p50_seconds']:.1f} s, p90 {delay['p90_seconds']:.1f} s, p99 {delay['p99_seconds']:.1f} s (target p99 < 20 s)",
            highlight=False,
        )
    if "clickhouse_away" in results:
        gone = results["clickhouse_away"]
        console.print(
            f"ClickHouse away for {gone['seconds']} s at 50,000 records/s: peak {gone['peak_rss_octets']['together'] / 2**20:,.0f} MiB "
            "without Superset (target 4,096 MiB), nothing lost",
            highlight=False,
        )


if __name__ == "__main__":
    main()
