"""Catching up: the rows of a backlog read at once, beside the rows of the same records read as they came.

`make bench-catch-up` lets 20 probes of 2,000 flows/s each write for an hour (144 million records), interval by interval,
while the jobs read them. Then the jobs lose their state and the store its rows, and the jobs read the same messages at
once, from the beginning: a backlog common to all probes, which the broker received when the records came. The rows of
every view of windows must be equal, but for the number of times that each was written.

While the jobs catch up it samples the heap, and how far apart the probes are. `--flows` makes flows recur; without it every record is a flow of its own, and
windows of 40,000 flows/s need more heap than the jobs have by default, or they aggregate the smaller flows, in other
places at each reading. A table on standard output, JSON in `.weir/bench-catch-up.json`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
from confluent_kafka import Consumer, TopicPartition
from rich.console import Console

from harness import BENCH, BUILT, RunningStack, eventually, run
from weir import kafka
from weir.clickhouse import connect

INTERVAL_S = 10
#: Without another stored row for this long, s, a run has failed.
STUCK = 600
#: The longest windows that are compared, s, and how long after their end rows are written.
WINDOW, DELAY = 300, 30
#: Windows are complete when their rows have not changed for this long, s.
QUIET = 45


@dataclass
class Catch:
    """One run of the jobs over all records."""

    name: str
    records: int
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_heap_octets: int = 0
    peak_rss_octets: int = 0
    restarts: int = 0
    #: Greatest number of ends of flows that a subtask added up, because windows had more than they keep.
    coarsened: int = 0
    #: Intervals that the probe furthest ahead was before the one furthest behind, at each sample.
    apart: list[float] = field(default_factory=list)
    #: Records that waited in Kafka, the most of all samples.
    lag: int = 0
    rows: dict[str, int] = field(default_factory=dict)


def load(stack: RunningStack, probes: list[str], options: argparse.Namespace) -> None:
    """Write the records while they come; each probe has one worker, and as many records in each interval."""
    # The records of an interval are written when it has ended.
    start_ms = int(time.time() - INTERVAL_S) * 1000
    command = [str(BENCH), "generate", "--records", str(options.records), "--probes", ",".join(probes)]
    command += ["--rate", str(options.rate * len(probes)), "--per-interval", str(options.rate * INTERVAL_S)]
    command += ["--start-ms", str(start_ms), *(["--flows", str(options.flows)] if options.flows else [])]
    done = run([*command, "--credentials", str(stack.operator)], timeout=4 * 3600)
    assert done.status == 0, done.err
    assert sum(one["records"] for one in json.loads(done.out)["probes"].values()) == options.records


class Positions:
    """How far the jobs have read each probe's topic, as intervals from the beginning."""

    def __init__(self, stack: RunningStack, probes: list[str]) -> None:
        settings = stack.stack.brokers.client({"group.id": "bench", "enable.auto.commit": False})
        consumer = Consumer(settings)
        topics = {f"weir.flows.{probe}" for probe in probes}
        # Flink's reporter writes an underscore for these characters.
        self.ends = {
            re.sub(r"[.-]", "_", name): consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=30)[1]
            for name in topics
        }
        consumer.close()

    def read(self, text: str, intervals: int) -> list[float]:
        """For each probe, how many of its intervals the jobs have read; none before they have begun with every topic."""
        found = re.findall(r'_partition_currentOffset{[^}]*topic="(weir_flows_[^"]*)"[^}]*} ([0-9.E+-]+)', text)
        at = {topic: float(value) for topic, value in found if topic in self.ends}
        known = len(at) == len(self.ends) and max(at.values()) >= 0
        return [max(0, at[topic] + 1) / end * intervals for topic, end in self.ends.items()] if known else []


def metrics(stack: RunningStack) -> str:
    """The metrics of the jobs; empty if they do not answer."""
    with suppress(httpx.HTTPError):
        return httpx.get(f"http://127.0.0.1:{stack.ports['flink_metrics']}/metrics", timeout=5).text
    return ""


def greatest(text: str, name: str) -> int:
    """The greatest value of a metric, 0 if there is none."""
    found = re.findall(rf"^flink_\w*{name}(?:{{[^}}]*}})? ([0-9.E+-]+)", text, re.M)
    return int(max((float(value) for value in found), default=0.0))


def watch(stack: RunningStack, catch: Catch, positions: Positions | None, intervals: int) -> None:
    """Sample until every record is stored."""
    seen, moved = 0, time.monotonic()
    while seen < catch.records:
        time.sleep(0.5)
        text = metrics(stack)
        catch.peak_heap_octets = max(catch.peak_heap_octets, greatest(text, "Status_JVM_Memory_Heap_Used"))
        catch.restarts = max(catch.restarts, greatest(text, "job_numRestarts"))
        catch.coarsened = max(catch.coarsened, greatest(text, "weir_window_coarsened_entries"))
        with suppress(psutil.Error, KeyError):
            process = psutil.Process(stack.pid("flink"))
            catch.peak_rss_octets = max(catch.peak_rss_octets, process.memory_info().rss)
            times = process.cpu_times()
            catch.cpu_seconds = max(catch.cpu_seconds, times.user + times.system)
        at = positions.read(text, intervals) if positions else []
        if at and min(at) < intervals:
            catch.apart.append(max(at) - min(at))
        stored = int(stack.one("SELECT count() AS n FROM flows"))
        if stored > seen:
            seen, moved = stored, time.monotonic()
        assert time.monotonic() - moved < STUCK, f"{seen} of {catch.records} records are stored, and no more"
    assert seen == catch.records, f"{seen} rows for {catch.records} records"


def tables(stack: RunningStack) -> dict[str, list[str]]:
    """The views of windows with the columns that are compared."""
    rows = stack.store.rows(
        "SELECT table, groupArray(name) AS columns FROM (SELECT table, name FROM system.columns WHERE database = 'weir' "
        "AND table LIKE 'v\\\\_%' ORDER BY table, position) GROUP BY table "
        "HAVING has(columns, 'window_s') AND has(columns, 'version') AND has(columns, 'probes_reported')"
    )
    return {row["table"]: [one for one in row["columns"] if one != "version"] for row in rows}


def settled(stack: RunningStack, names: list[str]) -> None:
    """Wait until no row of windows is written any more."""
    state, since = "", time.monotonic()
    (last,) = stack.store.rows("SELECT toUnixTimestamp(max(ts)) AS at FROM flows")
    time.sleep(max(0.0, (last["at"] // WINDOW + 1) * WINDOW + DELAY - time.time()))

    def quiet() -> bool:
        nonlocal state, since
        now = json.dumps([stack.store.rows(f"SELECT count() AS n, sum(version) AS v FROM {name}") for name in names])
        if now != state:
            state, since = now, time.monotonic()
        return time.monotonic() - since > QUIET

    eventually(quiet, "no window changes", 1_800)


def dump(stack: RunningStack, catch: Catch, folder: Path) -> None:
    """Write the rows of each view of windows to a file, sorted."""
    found = tables(stack)
    settled(stack, list(found))
    admin = connect(stack.stack, "admin", patience=None)
    for name, columns in found.items():
        text = admin.execute(f"SELECT {', '.join(columns)} FROM {name} ORDER BY ALL FORMAT TSVWithNames")
        (folder / f"{catch.name}-{name}.tsv").write_text(text)
        catch.rows[name] = text.count("\n") - 1


def differences(folder: Path, one: Catch, other: Catch) -> dict[str, list[str]]:
    """Rows by table that only one of the runs has, the first few of each."""
    found = {}
    for name in sorted(one.rows | other.rows):
        rows = [set((folder / f"{run.name}-{name}.tsv").read_text().splitlines()) for run in (one, other)]
        only = [(run.name, row) for run, own in ((one, rows[0] - rows[1]), (other, rows[1] - rows[0])) for row in own]
        if only:
            only.sort(key=lambda pair: pair[1])
            found[name] = [f"{len(only)} rows", *(f"{run}: {row}" for run, row in only[:20])]
    return found


def live(stack: RunningStack, options: argparse.Namespace, probes: list[str], folder: Path) -> Catch:
    """The jobs read while the records come."""
    catch, begin = Catch("live", options.records), time.monotonic()
    load(stack, probes, options)
    catch.lag = kafka.lag(stack.stack.brokers) or 0
    watch(stack, catch, None, 0)
    catch.seconds = time.monotonic() - begin
    dump(stack, catch, folder)
    return catch


def at_once(stack: RunningStack, options: argparse.Namespace, probes: list[str], folder: Path) -> Catch:
    """The jobs begin without state, and all records wait for them."""
    catch = Catch("at-once", options.records)
    stack.stop("flink")
    shutil.rmtree(stack.home / "data/flink")
    admin = connect(stack.stack, "admin")
    for name in ["flows", *(view.removeprefix("v_") for view in tables(stack))]:
        admin.execute(f"TRUNCATE TABLE {name} SYNC")
    positions, begin = Positions(stack, probes), time.monotonic()
    stack.start("flink", wait=False)
    watch(stack, catch, positions, options.records // (len(probes) * options.rate * INTERVAL_S))
    catch.seconds = time.monotonic() - begin
    dump(stack, catch, folder)
    return catch


def main() -> None:
    """Run both and compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=144_000_000)
    parser.add_argument("--probes", type=int, default=20)
    parser.add_argument("--rate", type=int, default=2_000, help="records a second of each probe")
    parser.add_argument("--flows", type=int, default=0, help="distinct flows of each probe; 0: each record is a flow")
    parser.add_argument("--heap", default="1600m", help="of the jobs; the default of `weir.yaml`")
    options = parser.parse_args()
    options.records -= options.records % (options.probes * options.rate * INTERVAL_S)
    console = Console(width=140)
    probes = [f"catch-{number:02}" for number in range(options.probes)]
    folder = Path(tempfile.mkdtemp(prefix="weir-catch-up-"))
    try:
        with RunningStack(as_shipped=True, heap=options.heap, start="earliest") as stack:
            for probe in probes:
                stack.enrol(probe)
            minutes = options.records / (options.probes * options.rate * 60)
            console.print(f"{options.records:,} records in {minutes:.1f} min, read as they come …")
            runs = [live(stack, options, probes, folder)]
            console.print("the same, read at once …")
            runs.append(at_once(stack, options, probes, folder))
        found = differences(folder, *runs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show(console, runs, found)
    target = BUILT / "bench-catch-up.json"
    result: dict[str, Any] = {"cores": psutil.cpu_count(), "runs": [asdict(one) for one in runs], "differences": found}
    target.write_text(json.dumps(result, indent=2) + "\n")
    console.print(f"JSON: {target}", highlight=False, soft_wrap=True)
    sys.exit(1 if found else 0)


def show(console: Console, runs: list[Catch], found: dict[str, list[str]]) -> None:
    """Print the figures."""
    for one in runs:
        console.print(
            f"{one.name}: {one.records:,} records in {one.seconds:,.0f} s ({one.records / one.seconds:,.0f} records/s), "
            f"CPU of the jobs {one.cpu_seconds:,.0f} s, peak heap {one.peak_heap_octets / 2**20:,.0f} MiB, "
            f"peak RSS {one.peak_rss_octets / 2**20:,.0f} MiB, {one.restarts} restarts, {one.coarsened:,} ends of flows added up, {sum(one.rows.values()):,} rows of windows",
            highlight=False,
            soft_wrap=True,
        )
    if apart := runs[1].apart:
        console.print(
            f"probes apart at {len(apart)} samples: {max(apart):.1f} intervals at most, "
            f"{sum(apart) / len(apart):.1f} on average (target 1)",
            highlight=False,
        )
    else:
        console.print("probes apart: not measured, the jobs read everything between two samples")
    console.print(f"waiting in Kafka when the last record had come: {runs[0].lag} messages")
    if not found:
        console.print("the rows of all windows are equal")
    for name, lines in found.items():
        console.print(f"{name}: {lines[0]} differ", highlight=False)
        for line in lines[1:7]:
            console.print(f"  {line}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
