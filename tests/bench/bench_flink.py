"""Records per second and CPU seconds of each job alone and of all together, from Kafka to a sink that counts.

`make bench-flink RECORDS=8000000`. It writes the records into Kafka first; then, for each choice of jobs, a new jobs'
process reads them from the beginning without earlier state, with `--sink count`. The clock runs from the first record
read to the last. `filters` reads counters, not records, and is measured only with the others. A table on standard
output, JSON in `.weir/bench-flink.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from rich.console import Console
from rich.table import Table

from harness import BENCH, BUILT, CHECKOUT, RunningStack, free_ports, run
from weir.services import flink_memory

#: `WEIR_JOBS_JAR` compares with another version.
JAR = Path(os.environ.get("WEIR_JOBS_JAR", CHECKOUT / "flink-jobs/target/weir-flink-jobs.jar"))
WINDOWS = "topn,indicators,mixes"
UNDETECTED = "ingest,topn,indicators,mixes,filters,health"
ALL = UNDETECTED + ",detect"
TARGET = 400_000


@dataclass
class Load:
    """Records of one kind in Kafka."""

    name: str
    records: int
    options: list[str]
    probes: list[str]


@dataclass
class Run:
    """One process of jobs over one load."""

    load: str
    jobs: str
    records: int
    seconds: float
    cpu_seconds: float
    peak_rss_octets: int
    heap_after_octets: int
    checkpoint_octets: int
    checkpoint_ms: int
    rows: int
    profile: list[tuple[str, float]]

    @property
    def rate(self) -> float:
        """Records per second of wall clock."""
        return self.records / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU microseconds per record."""
        return self.cpu_seconds / self.records * 1e6


class Jobs:
    """A separate process of jobs; a context manager."""

    def __init__(self, brokers: str, login: Path, jobs: str, pattern: str, heap: str, profile: Path | None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="weir-bench-"))
        self.rest, self.metrics = free_ports(2)
        java = ["java", f"-Djava.io.tmpdir={self.folder}", *flink_memory(heap)]
        if profile:
            settings = f"filename={profile},settings=profile,dumponexit=true"
            java.append(f"-XX:StartFlightRecording={settings}")
        options = [
            "--jobs",
            jobs,
            "--brokers",
            brokers,
            "--kafka-properties",
            str(login),
            "--group",
            "bench",
            "--sink",
            "count",
            "--start",
            "earliest",
        ]
        options += ["--topics", pattern, "--resume", "none", "--checkpoints", str(self.folder / "state")]
        options += ["--rest-port", str(self.rest), "--metrics-port", str(self.metrics)]
        self.log = (self.folder / "log").open("w")
        command = [*java, "-jar", str(JAR), *options]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.ps = psutil.Process(self.process.pid)

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(60)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def cpu(self) -> float:
        """CPU seconds so far."""
        times = self.ps.cpu_times()
        return times.user + times.system

    def sum(self, metric: str) -> int:
        """The sum of a Prometheus metric over all subtasks; 0 if it does not exist yet."""
        assert self.process.poll() is None, (self.folder / "log").read_text()[-3000:]
        try:
            text = httpx.get(f"http://127.0.0.1:{self.metrics}/metrics", timeout=5).text
        except httpx.HTTPError:
            return 0
        found = re.findall(rf"^flink_\w*{metric}(?:{{[^}}]*}})? ([0-9.E+-]+)", text, re.M)
        return int(sum(float(value) for value in found))

    def checkpoint(self) -> tuple[int, int]:
        """Octets and milliseconds of the largest completed checkpoint."""
        base = f"http://127.0.0.1:{self.rest}/jobs"
        job = httpx.get(base, timeout=5).json()["jobs"][0]["id"]
        done = httpx.get(f"{base}/{job}/checkpoints", timeout=5).json()["history"]
        sizes = [(one["state_size"], one["end_to_end_duration"]) for one in done if one["status"] == "COMPLETED"]
        return max(sizes, default=(0, 0))


def hot(profile: Path, top: int = 12) -> list[tuple[str, float]]:
    """CPU profile by the topmost method of ours or of Flink on the stack, from a flight recording."""
    done = subprocess.run(
        ["jfr", "print", "--events", "jdk.ExecutionSample", "--stack-depth", "24", str(profile)],
        capture_output=True,
        text=True,
        check=True,
    )
    counts: dict[str, int] = {}
    total = 0
    for event in done.stdout.split("jdk.ExecutionSample {")[1:]:
        frames = re.findall(r"^\s+([\w.$<>]+)\(.*?line:", event, re.M)
        if not frames:
            continue
        total += 1
        own = next((frame for frame in frames if frame.startswith("io.weir.jobs")), None)
        name = own or next((frame for frame in frames if "flink" in frame or "kafka" in frame), frames[0])
        short = ".".join(name.split(".")[-2:])
        counts[short] = counts.get(short, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: -item[1])[:top]
    return [(name, count / max(total, 1)) for name, count in ordered]


def measure(stack: RunningStack, load: Load, jobs: str, *, heap: str, profile: bool = False) -> Run:
    """Read all records of a load with these jobs."""
    recording = Path(tempfile.mktemp(suffix=".jfr")) if profile else None
    pattern = "|".join(load.probes)
    with Jobs(
        str(stack.stack.brokers), stack.stack.run / "kafka-command.properties", jobs, pattern, heap, recording
    ) as process:
        peak = 0
        ended = threading.Event()

        def sample() -> None:
            nonlocal peak
            while not ended.wait(0.5):
                peak = max(peak, process.ps.memory_info().rss)

        sampler = threading.Thread(target=sample, daemon=True)
        sampler.start()
        deadline = time.monotonic() + 900
        while process.sum("weir_received_records") < load.records // 20:
            assert time.monotonic() < deadline, "the jobs do not read"
            time.sleep(0.05)
        begin, cpu, first = time.monotonic(), process.cpu(), process.sum("weir_received_records")
        while (seen := process.sum("weir_received_records")) < load.records:
            assert time.monotonic() < deadline, f"only {seen} of {load.records} records"
            time.sleep(0.5)
        seconds, used = time.monotonic() - begin, process.cpu() - cpu
        time.sleep(8)  # a checkpoint after the last record, and the last windows
        ended.set()
        sampler.join()
        octets, ms = process.checkpoint()
        result = Run(
            load=load.name,
            jobs=jobs,
            records=load.records - first,
            seconds=seconds,
            cpu_seconds=used,
            peak_rss_octets=peak,
            heap_after_octets=process.sum("Status_JVM_Memory_Heap_Used"),
            checkpoint_octets=octets,
            checkpoint_ms=ms,
            rows=process.sum("weir_counted_rows"),
            profile=[],
        )
    if recording:
        result.profile = hot(recording)
        recording.unlink()
    return result


def fill(stack: RunningStack, load: Load, start_ms: int) -> None:
    """Write a load into Kafka."""
    for probe in load.probes:
        stack.enrol(probe, 2)
    command = [str(BENCH), "generate", "--records", str(load.records), "--probes", ",".join(load.probes)]
    command += ["--workers", "2", "--credentials", str(stack.operator), "--start-ms", str(start_ms), *load.options]
    done = run(command, timeout=900)
    assert done.status == 0, done.err


def main() -> None:
    """Run all and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=8_000_000)
    parser.add_argument("--heap", default="2500m")
    parser.add_argument("--only", default="", help="only loads and jobs whose names contain this")
    options = parser.parse_args()
    console = Console(width=140)
    n = options.records
    loads = [
        Load("each record a flow", n, [], ["new-a", "new-b"]),
        Load("10 thousand flows", n // 2, ["--flows", "2500"], ["few-a", "few-b"]),
        Load("1 million flows", n // 2, ["--flows", "250000", "--per-interval", "400000"], ["many-a", "many-b"]),
        Load("half a flood", n // 2, ["--flood", "50"], ["flood-a", "flood-b"]),
    ]
    wanted = [
        (loads[0], jobs)
        for jobs in ("ingest", "topn", "indicators", "mixes", "health", "detect", WINDOWS, UNDETECTED, ALL)
    ]
    wanted += [(load, ALL) for load in loads[1:]]
    wanted = [(load, jobs) for load, jobs in wanted if options.only in f"{load.name}:{jobs}"]
    runs: list[Run] = []
    start_ms = int(time.time() - 3600) // 300 * 300_000
    with RunningStack(as_shipped=True) as stack:
        stack.stop("flink")
        for load in loads:
            if any(load is one for one, _ in wanted):
                console.print(f"{load.records:,} records into Kafka: {load.name} …")
                fill(stack, load, start_ms)
        stack.stop("clickhouse")
        for load, jobs in wanted:
            console.print(f"{load.name}: {jobs} …")
            runs.append(measure(stack, load, jobs, heap=options.heap))
            if jobs == ALL and load is loads[0]:
                # A run of its own, because the recording takes time, too.
                runs[-1].profile = measure(stack, load, jobs, heap=options.heap, profile=True).profile
    show(console, runs)
    target = BUILT / "bench-flink.json"
    target.write_text(json.dumps({"cores": psutil.cpu_count(), "runs": [asdict(one) for one in runs]}, indent=2) + "\n")
    console.print(f"JSON: {target}", highlight=False, soft_wrap=True)


def show(console: Console, runs: list[Run]) -> None:
    """Print the figures as tables."""
    table = Table(
        title=f"From Kafka to a sink that counts, {psutil.cpu_count()} cores",
        title_justify="left",
        box=None,
        header_style="bold",
    )
    for name in ("load", "jobs", "records/s", "CPU us/record", "CPU s", "peak RSS", "checkpoint", "rows"):
        table.add_column(name, justify="left" if name in ("load", "jobs") else "right")
    for one in runs:
        table.add_row(
            one.load,
            "all"
            if one.jobs == ALL
            else "all but detect"
            if one.jobs == UNDETECTED
            else "windows"
            if one.jobs == WINDOWS
            else one.jobs,
            f"{one.rate:,.0f}",
            f"{one.cpu_us:.2f}",
            f"{one.cpu_seconds:.1f}",
            f"{one.peak_rss_octets / 2**20:,.0f} MiB",
            f"{one.checkpoint_octets / 2**20:,.1f} MiB, {one.checkpoint_ms:,} ms",
            f"{one.rows:,}",
        )
    console.print(table)
    by_load: dict[str, Any] = {one.load: one for one in runs if one.jobs == ALL}
    few, many, all_new = (by_load.get(name) for name in ("10 thousand flows", "1 million flows", "each record a flow"))
    if all_new:
        console.print(f"all together: {all_new.rate:,.0f} records/s (target {TARGET:,})", highlight=False)
    if few and many:
        ratio = many.cpu_us / few.cpu_us
        console.print(
            f"CPU of a record, 1 million flows to 10 thousand: {ratio:.2f} (target at most 2)", highlight=False
        )
    for one in runs:
        for name, share in one.profile:
            console.print(f"  {share:6.1%}  {name}", highlight=False)


if __name__ == "__main__":
    main()
