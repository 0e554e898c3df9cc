"""The agent's cost compared with its peers: `make bench-capture`.

Generates the traces (`capture_traces.py`), runs agent and peers side by side on them, then the agent on a live link,
and prints one table with targets; misses are marked. The table is also in `.weir/bench/capture.md`, all measurements in
`.weir/bench/capture.json`. `--only PATTERN` runs some rows, `--quick` each once.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bench_live
import capture_traces
from harness import AGENT, BENCH, BUILT

HERE = Path(__file__).resolve().parent
FOLDER = BUILT / "bench"
MEMORY = Path("/dev/shm")
#: Debian's packages of the peers, by program.
PACKAGES = {
    "softflowd": "softflowd",
    "nfpcapd": "nfdump",
    "argus": "argus-server",
    "pmacctd": "pmacct",
    "ndpiReader": "libndpi-bin",
    "tcpdump": "tcpdump",
    "valgrind": "valgrind",
}
#: Without nDPI, and with room for every flow of every trace, as for softflowd.
PLAIN = '[applications]\nndpi = "off"\n[limits]\nmemory = "8GiB"\nmax_records_per_interval = 20000000\n'
WITH_NDPI = PLAIN.replace('"off"', '"on"')
WITHOUT_FILTERS = PLAIN + "[filters]\ndefault = false\n"
#: After a run this long, s, a peer is not run again.
LONG = 10.0
#: Timeout of a run, s.
LONGEST = 120


# ---- running ----


@dataclass
class Spent:
    """Resources used by one run of a command."""

    cpu_seconds: float
    peak_mb: float
    output: str


#: Runs a command and reports on descriptor 3 its exit status, the CPU of it and all its children, orphans included
#: (PR_SET_CHILD_SUBREAPER), and the peak memory of any one of them. It is a small process of its own, because a child's
#: peak starts from its parent's at the time of the fork.
LAUNCHER = """
import ctypes, json, os, resource, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_CLOSE, 3)])
status = 1
try:
    while True:
        ended, how = os.wait()
        if ended == pid:
            status = os.waitstatus_to_exitcode(how)
except ChildProcessError:
    pass
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
os.write(3, json.dumps([status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3]).encode())
"""


def spend(command: list[str], stdin: Path | None = None) -> Spent:
    """Run a command to its end: processor time (user and system) of it and all its children, and the peak memory of any
    one of them.
    """
    launch = ["sh", "-c", 'exec "$0" -I -S -c "$@" 3>&4', sys.executable, LAUNCHER, *command]
    with (
        tempfile.TemporaryFile("w+") as said,
        tempfile.TemporaryFile("w+") as told,
        (stdin or Path(os.devnull)).open("rb") as given,
    ):
        launch[2] = launch[2].replace("3>&4", f"3>&{told.fileno()}")
        process = subprocess.Popen(
            launch, stdin=given, stdout=said, stderr=said, pass_fds=(told.fileno(),), start_new_session=True
        )
        try:
            process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise RuntimeError(f"{Path(command[0]).name} did not end within {LONGEST} s") from None
        said.seek(0)
        told.seek(0)
        output, report = said.read(), told.read()
    status, cpu, peak = json.loads(report or "[1, 0, 0]")
    if status:
        last = output.strip().splitlines()[-1:] or ["it says nothing"]
        raise RuntimeError(f"{Path(command[0]).name} ended with {status}: {last[0]}")
    return Spent(cpu, peak, output)


def available_mb() -> float:
    """Memory still available to programs."""
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) / 1e3


def install() -> dict[str, str]:
    """Install missing peers if possible; returns the reasons for those still missing."""
    missing = {program: package for program, package in PACKAGES.items() if not shutil.which(program)}
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        command = ["apt-get", "install", "-y", "--no-install-recommends", *missing.values()]
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update"], env=quiet, capture_output=True, check=False)
        for package in missing.values():
            subprocess.run([*command[:4], package], env=quiet, capture_output=True, check=False)
    absent = {p: f"not installed (Debian's {package})" for p, package in PACKAGES.items() if not shutil.which(p)}
    for program, why in absent.items():
        say(f"{program}: {why}: its figures are left out")
    return absent


def say(text: str) -> None:
    """Progress, on the standard error."""
    print(f"▸ {text}", file=sys.stderr, flush=True)


# ---- traces ----


class Traces:
    """The traces: kept on disk, one at a time copied into memory."""

    def __init__(self) -> None:
        maker = Path(capture_traces.__file__)
        kind = "real" if capture_traces.SHARED.is_dir() else "made"
        version = hashlib.sha256(maker.read_bytes()).hexdigest()[:12]
        self.kept = FOLDER / "traces" / f"{kind}-{version}"
        for old in (FOLDER / "traces").glob("*"):
            if old != self.kept:
                shutil.rmtree(old)
        self.memory = Path(tempfile.mkdtemp(prefix="weir-bench-", dir=MEMORY if MEMORY.is_dir() else None))
        self.kind = "protocol suites' captures, addresses varied" if kind == "real" else "generated conversations"
        # In a process of its own: its memory must not count towards that of children.
        subprocess.run([sys.executable, str(maker), str(self.kept)], check=True)

    def get(self, name: str) -> Path:
        """A trace in memory."""
        target = self.memory / f"{name}.pcap"
        if not target.exists():
            shutil.copy(self.kept / target.name, target)
        return target

    def cut(self, name: str, packets: int) -> Path:
        """The first packets of a trace, in memory."""
        target = self.memory / f"{name}-first-{packets}.pcap"
        with (self.kept / f"{name}.pcap").open("rb") as source, target.open("wb") as cut:
            cut.write(source.read(24))
            for _ in range(packets):
                head = source.read(16)
                cut.write(head + source.read(struct.unpack("<8xI4x", head)[0]))
        return target

    def drop(self) -> None:
        """Delete all copies in memory."""
        for path in self.memory.iterdir():
            path.unlink()

    def end(self) -> None:
        """Delete the folder in memory."""
        shutil.rmtree(self.memory, ignore_errors=True)


def packets_in(path: Path) -> int:
    """Packets of a trace."""
    size, at, count = path.stat().st_size, 24, 0
    with path.open("rb", buffering=1 << 20) as file:
        while at < size:
            file.seek(at + 8)
            at += 16 + int(struct.unpack("<I", file.read(4))[0])
            count += 1
    return count


# ---- the table ----


def shown_as(title: str, **options: Any) -> Any:
    """A field of `Row` that the table shows under this title."""
    return field(metadata={"title": title}, **options)


@dataclass
class Row:
    """One line of the table; cells are text."""

    case: str = shown_as("case")
    ours: str = shown_as("ours", default="")
    median: str = shown_as("median", default="")
    whole: str = shown_as("whole process", default="")
    softflowd: str = shown_as("softflowd", default="")
    peer: str = shown_as("best peer", default="")
    ratio: str = shown_as("ratio", default="")
    target: str = shown_as("target", default="")
    #: None: not shown, for the reason in `note`.
    met: bool | None = shown_as("verdict", default=None)
    note: str = ""
    data: dict[str, Any] = field(default_factory=dict)


#: Titles of the columns, by field.
HEAD = {one.name: one.metadata["title"] for one in fields(Row) if one.metadata}


def aligned(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table that reads well as text."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return "\n".join([line(head), "|" + "|".join("-" * (width + 2) for width in widths) + "|", *map(line, rows)])


def verdict(row: Row) -> str:
    """The verdict in a few words."""
    if row.met is None:
        return row.note or "no target"
    return ("met" if row.met else "MISSED") + (f" ({row.note})" if row.note else "")


class Bench:
    """All rows, and their shared state."""

    def __init__(self, traces: Traces, absent: dict[str, str], once: bool) -> None:
        self.traces, self.absent, self.once = traces, absent, once
        self.rows: list[Row] = []
        self.tables: dict[str, list[bench_live.Cell]] = {}
        self.peers: dict[str, dict[str, dict[str, Any]]] = {}
        self.counts: dict[str, int] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="weir-bench-"))

    def count(self, trace: str) -> int:
        """Packets of a trace."""
        if trace not in self.counts:
            self.counts[trace] = packets_in(self.traces.kept / f"{trace}.pcap")
        return self.counts[trace]

    def config(self, text: str) -> str:
        """A configuration file with this text."""
        path = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.toml"
        path.write_text(text)
        return str(path)

    # ---- ours ----

    def metering(self, trace: str, config: str, *words: str, rounds: int = 1) -> tuple[list[float], dict[str, Any]]:
        """Mpps per CPU second of metering and publishing, run by run, and the summary."""
        path, rates, summary = self.traces.get(trace), [], {}
        for _ in range(rounds):
            done = spend([str(BENCH), "meter", str(path), "--repeat", "1", "--config", self.config(config), *words])
            result = json.loads(done.output.splitlines()[-1])
            summary = result["summary"]
            rates += [summary["packets"]["captured"] / run["cpu_seconds"] / 1e6 for run in result["runs"]]
        return rates, summary

    def whole(self, trace: str, config: str, rounds: int) -> list[float]:
        """Mpps per CPU second of the whole process, start-up included, as for peers."""
        command = [str(AGENT), "read", str(self.traces.get(trace)), "--to", "none", "--config", self.config(config)]
        return [self.count(trace) / spend(command).cpu_seconds / 1e6 for _ in range(rounds)]

    # ---- peers ----

    def commands(self, path: Path) -> dict[str, list[str]]:
        """The command with which each peer reads a trace."""
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        pmacct = self.folder / "pmacctd.conf"
        pmacct.write_text(
            f"daemonize: false\npcap_savefile: {path}\nplugins: nfprobe[x]\nnfprobe_receiver[x]: 127.0.0.1:9\nnfprobe_version[x]: 9\n"
        )
        softflowd = ["softflowd", "-r", str(path), "-m", "4000000", "-t", "expint=0", "-t", "maxlife=0"]
        return {
            "tcpdump": ["tcpdump", "-r", str(path), "-w", "/dev/null"],
            "softflowd": [*softflowd, "-p", str(scratch / "pid"), "-c", "none"],
            "nfpcapd": ["nfpcapd", "-r", str(path), "-w", str(scratch)],
            "argus": ["argus", "-X", "-r", str(path), "-w", "/dev/null"],
            "pmacctd": ["pmacctd", "-f", str(pmacct)],
            "ndpiReader": ["ndpiReader", "-q", "-i", str(path)],
        }

    def measure_peers(self, trace: str, names: list[str]) -> dict[str, dict[str, Any]]:
        """Peers on a trace: the best of five runs, or fewer if a run is long. tcpdump meters nothing: it measures
        reading alone.
        """
        found = self.peers.setdefault(trace, {})
        for name in names:
            if name in found:
                continue
            if name in self.absent:
                found[name] = {"failed": self.absent[name]}
                continue
            if name in ("argus", "ndpiReader") and available_mb() < 10_000:
                found[name] = {"failed": "left out: it may take 8 GB of memory"}
                continue
            say(f"{trace}: {name}")
            runs: list[Spent] = []
            try:
                while len(runs) < (1 if self.once else 5) and sum(run.cpu_seconds for run in runs) < LONG:
                    runs.append(spend(self.commands(self.traces.get(trace))[name]))
            except RuntimeError as error:
                found[name] = {"failed": str(error)}
                continue
            rates = [self.count(trace) / run.cpu_seconds / 1e6 for run in runs]
            found[name] = {"mpps": rates, "best": max(rates), "peak_mb": max(run.peak_mb for run in runs)}
            if name == "softflowd":
                forced = re.search(r"\((\d+) forced\)", runs[-1].output)
                found[name]["forced_out"] = int(forced[1]) if forced else None
        return found

    # ---- rows ----

    def speed(
        self,
        case: str,
        trace: str,
        config: str,
        least: float,
        peers: list[str],
        against: str,
        factor: float,
        *words: str,
    ) -> None:
        """A row with a target rate, and a target factor over a peer if it has one."""
        say(case)
        rates, summary = self.metering(trace, config, *words, rounds=1 if self.once else 5)
        row = Row(case, f"{max(rates):.2f}", f"{statistics.median(rates):.2f}", target=f"{least:g}")
        row.met = max(rates) >= least
        row.data = {"mpps": rates, "summary": summary}
        if not words:
            whole = self.whole(trace, config, 1 if self.once else 5)
            row.whole, row.data["whole_mpps"] = f"{max(whole):.2f}", whole
        measured = self.measure_peers(trace, peers)
        best = {name: one["best"] for name, one in measured.items() if "best" in one}
        row.softflowd = f"{best['softflowd']:.2f}" if "softflowd" in best else "-"
        meters = {name: rate for name, rate in best.items() if name != "tcpdump"}
        if meters:
            name = max(meters, key=lambda name: meters[name])
            row.peer = f"{name} {meters[name]:.2f}"
        if factor:
            row.target += f", {factor:g}x {against}"
            if against in best:
                ratio = max(whole) / best[against]
                row.ratio, row.met = f"{ratio:.1f}x", row.met and ratio >= factor
            else:
                row.note = f"without {against}"
        if (overflow := summary["packets"]["in_overflow_records"]) > 0:
            row.note = f"{overflow} packets overflowed"
        self.rows.append(row)

    def compare(
        self, case: str, base: tuple[str, str], other: tuple[str, str], least: float, above: bool = False
    ) -> None:
        """A row whose target is a ratio: `other` over `base`, each a trace and a configuration, run in turn."""
        say(case)
        bases: list[float] = []
        others: list[float] = []
        for _ in range(1 if self.once else 7):
            bases += self.metering(*base)[0]
            others += self.metering(*other)[0]
        ratio = max(others) / max(bases)
        row = Row(case, f"{max(others):.2f}", f"{statistics.median(others):.2f}", ratio=f"{ratio:.3f}")
        row.target, row.met = (f"> {least:g}", ratio > least) if above else (f">= {least:g}", ratio >= least)
        row.data = {"of": other[0], "base": base[0], "mpps": others, "base_mpps": bases, "ratio": ratio}
        row.peer = f"base {max(bases):.2f}"
        self.rows.append(row)

    def ordinary(self) -> None:
        """Real traffic, without and with nDPI."""
        names = ["softflowd", "nfpcapd", "argus", "pmacctd", "tcpdump"]
        self.speed("ordinary, default filter sets", "ordinary", PLAIN, 8, names, "softflowd", 3)
        names = ["softflowd", "ndpiReader"]
        self.speed("ordinary, with nDPI", "ordinary", WITH_NDPI, 3, names, "ndpiReader", 3)

    def new_flows(self) -> None:
        """Each packet a new flow, metered and encoded; and the memory it takes."""
        names = ["softflowd", "nfpcapd", "pmacctd", "tcpdump", "argus", "ndpiReader"]
        self.speed("each packet a new flow", "new-flows", PLAIN, 8, names, "softflowd", 6)
        self.speed("the same, every record encoded", "new-flows", PLAIN, 5, names, "", 0, "--encode")

    def memory(self) -> None:
        """2 million live flows. The agent reads from standard input, so that no trace is mapped and all resident memory
        is its own.
        """
        for case, trace, words in (
            ("2 M live flows, peak RSS (MB)", "new-flows", ["--interval", "10s"]),
            ("2 M live flows over three intervals, peak RSS (MB)", "live-flows", ["--interval", "5s"]),
        ):
            say(case)
            config = self.config(PLAIN)
            command = [str(AGENT), "read", "-", "--keep-time", "--to", "none", "--summary", "json", "--config", config]
            spent = spend([*command, *words], stdin=self.traces.get(trace))
            summary = json.loads(spent.output.splitlines()[-1])
            row = Row(case, f"{spent.peak_mb:.0f}", target="<= 300", met=spent.peak_mb <= 300)
            row.data = {"peak_mb": spent.peak_mb, "summary": summary}
            if trace == "new-flows":
                peers = self.measure_peers(trace, ["softflowd", "nfpcapd", "pmacctd", "argus", "ndpiReader"])
                peaks = {name: one["peak_mb"] for name, one in peers.items() if "peak_mb" in one and name != "tcpdump"}
                if "softflowd" in peaks:
                    row.softflowd, row.ratio = f"{peaks['softflowd']:.0f}", f"{spent.peak_mb / peaks['softflowd']:.2f}"
                if peaks:
                    name = min(peaks, key=lambda name: peaks[name])
                    row.peer = f"{name} {peaks[name]:.0f}"
            self.rows.append(row)

    def many_flows(self) -> None:
        """From one thousand to ten million flows."""
        best: dict[int, float] = {}
        for flows in (1_000, 10_000, 100_000, 1_000_000, 10_000_000):
            say(f"{flows:,} flows")
            rates, summary = self.metering(f"flows-{flows}", PLAIN, rounds=1 if self.once else 3)
            best[flows] = max(rates)
            row = Row(f"{flows:,} flows", f"{max(rates):.2f}", f"{statistics.median(rates):.2f}")
            row.ratio = f"{best[flows] / best[1_000]:.2f}"
            row.data = {"mpps": rates, "summary": summary}
            if flows == 10_000_000:
                row.target, row.met = "> 0.5 of the first", best[flows] / best[1_000] > 0.5
            self.rows.append(row)
            self.traces.drop()

    def fragments(self) -> None:
        """Fragments shuffled over few and over many packets."""
        self.compare(
            "fragments shuffled over 2,000, to over 100", ("fragments-100", PLAIN), ("fragments-2000", PLAIN), 0.9
        )

    def doubled(self) -> None:
        """Every TCP packet twice."""
        self.compare("every TCP packet doubled, to undoubled", ("undoubled", PLAIN), ("doubled", PLAIN), 0.9)

    def expressions(self) -> None:
        """80 BPF expressions."""
        for name, what in (("filters-80", "constant in a flow"), ("filters-80-varying", "also flags, lengths")):
            text = PLAIN + (HERE / "bench" / f"{name}.toml").read_text()
            self.compare(f"80 expressions ({what}), to none", ("ordinary", WITHOUT_FILTERS), ("ordinary", text), 0.95)

    def instructions(self) -> None:
        """Instructions per packet by callgrind, over the first 300,000 packets, without the start-up."""
        for trace in ("ordinary", "new-flows"):
            case = f"instructions a packet: {trace}"
            say(case)
            if "valgrind" in self.absent:
                self.rows.append(Row(case, note=self.absent["valgrind"]))
                continue
            counts = []
            for packets in (1, 300_000):
                path = self.traces.cut(trace, packets)
                ours = [str(BENCH), "meter", str(path), "--repeat", "1", "--config", self.config(PLAIN)]
                counts.append([self.callgrind(ours)])
                if "softflowd" not in self.absent:
                    counts[-1].append(self.callgrind(self.commands(path)["softflowd"]))
            each = [(long - short) / 300_000 for short, long in zip(*counts, strict=True)]
            row = Row(case, f"{each[0]:.0f}", data={"instructions": each[0]})
            if len(each) > 1:
                row.softflowd, row.ratio = f"{each[1]:.0f}", f"{each[0] / each[1]:.2f}"
                row.data["softflowd_instructions"] = each[1]
            self.rows.append(row)

    def callgrind(self, command: list[str]) -> int:
        """Instructions of a command, in all its threads."""
        out = f"--callgrind-out-file={self.folder / 'callgrind.out'}"
        found = re.search(r"Collected : (\d+)", spend(["valgrind", "--tool=callgrind", out, *command]).output)
        if not found:
            raise RuntimeError("callgrind did not report the number of instructions")
        return int(found[1])

    # ---- live ----

    def live(self) -> None:
        """The rows that need a live link."""
        if os.geteuid() != 0 or not shutil.which("ip"):
            self.rows.append(Row("live rows", note="skipped: they need root and iproute2"))
            return
        seconds = 1.0 if self.once else 3.0
        broker = bench_live.Broker()
        with bench_live.Link() as link:
            self.live_rows(link, broker, seconds)

    def live_rows(self, link: bench_live.Link, broker: bench_live.Broker, seconds: float) -> None:
        """The grids, two workers, overdriven, idle."""
        text = (HERE / "filters-80.toml").read_text()
        sets = ["[filters.sets." + part for part in text.split("[filters.sets.")[1:]]
        say("Ourmon's tables, live")
        self.grid("Ourmon's tables 2 to 6", bench_live.ourmon(link, broker, sets, seconds))
        say("PNA's sweep, live")
        sweep = bench_live.sweep(link, broker, seconds)
        self.grid("PNA's sweep", sweep)
        stall = max(cell.longest_stall_us for cell in sweep)
        what = "PNA's sweep: longest stall at a close (us)"
        self.rows.append(Row(what, f"{stall}", target="< 1000", met=stall < 1000))

        say("two workers, live")
        cell = bench_live.two_workers(link, broker, 2 * seconds)
        self.tables["Two workers"] = [cell]
        row = Row("live, two workers: Mpps sent", f"{cell.rate / 1e6:.2f}", target="no loss")
        row.met, row.note, row.data = cell.lost == 0, f"{cell.lost} lost", asdict(cell)
        self.rows.append(row)
        over = bench_live.overdriven(link, broker, 2 * seconds)
        self.tables["Overdriven"] = [over]
        missing = over.on_interface - over.captured
        row = Row("live, overdriven: drops reported", f"{over.dropped}", target=f"= the kernel's {missing}")
        row.met, row.data = over.dropped == missing and over.dropped > 0, asdict(over)
        row.note = "" if over.dropped else "nothing was dropped"
        self.rows.append(row)

        say("idle")
        resident, share = bench_live.idle(link, broker, 2 if self.once else 10)
        self.rows.append(Row("idle: RSS (MB)", f"{resident:.1f}", target="< 30", met=resident < 30))
        self.rows.append(Row("idle: share of a processor", f"{share:.2%}", target="< 1 %", met=share < 0.01))

    def grid(self, what: str, cells: list[bench_live.Cell]) -> None:
        """A row for a table of its own: met if nothing was lost at the wire's rate; not shown if the sender did not
        reach that rate.
        """
        self.tables[what] = cells
        lost, slow = sum(cell.lost > 0 for cell in cells), sum(not cell.at_wire_rate for cell in cells)
        row = Row(what, f"{len(cells) - lost} of {len(cells)} without loss", target="no loss at gigabit rate")
        share = min(cell.rate / cell.wire for cell in cells)
        if lost or slow == 0:
            row.met = lost == 0
        if slow:
            row.note = f"the sender reached {share:.0%} to 100% of gigabit, less in {slow} cells"
            row.note = row.note if lost else "not shown: " + row.note
        row.data = {"cells": [asdict(cell) for cell in cells]}
        self.rows.append(row)

    # ---- all of it ----

    def text(self) -> str:
        """The tables, and how to read them."""
        rows = [[verdict(row) if key == "met" else str(getattr(row, key)) for key in HEAD] for row in self.rows]
        parts = [aligned(list(HEAD.values()), rows), NOTES.format(traces=self.traces.kind)]
        if self.peers:
            parts.append("Every tool on its traces:\n\n" + self.peers_table())
        for what, cells in self.tables.items():
            parts.append(f"{what}, live:\n\n" + live_table(cells))
        return "\n\n".join(parts) + "\n"

    def peers_table(self) -> str:
        """Each peer's rate and memory."""
        lines = []
        for trace, tools in self.peers.items():
            for name, one in tools.items():
                label = f"{name} (reading alone)" if name == "tcpdump" else name
                if "best" not in one:
                    lines.append([trace, label, "-", "-", "-", one["failed"]])
                    continue
                numbers = [f"{one['best']:.2f}", f"{statistics.median(one['mpps']):.2f}", f"{one['peak_mb']:.0f}"]
                forced = one.get("forced_out")
                lines.append([trace, label, *numbers, f"{forced} flows forced out" if forced is not None else ""])
        return aligned(["trace", "tool", "best", "median", "peak MB", "remarks"], lines)


def live_table(cells: list[bench_live.Cell]) -> str:
    """Loads and their results."""
    head = ["load", "gigabit, pps", "sent, pps", "sent", "captured", "dropped", "lost", "stall us"]
    lines = []
    for cell in cells:
        wire = f"{cell.wire:,.0f}" if cell.wire else "-"
        numbers = [f"{number:,}" for number in (cell.sent, cell.captured, cell.dropped, cell.lost)]
        lines.append([cell.load, wire, f"{cell.rate:,.0f}", *numbers, f"{cell.longest_stall_us:,}"])
    return aligned(head, lines)


NOTES = """\
Rates are million packets per second of processor time (user and system), best of five runs (three where runs are long,
seven in turn for ratios), traces wholly in memory ("ordinary": {traces}). "ours" and "median" are metering and publishing alone (`weir-bench meter`), "whole
process" is `weir-probe read FILE --to none` from start to end, as every peer is measured; ratios to peers are of
those. A target's rate is compared with "ours". In rows of ratios, "base" is the divisor.
Peers: `softflowd -r FILE -m 4000000 -t expint=0 -t maxlife=0 -c none` (it expires nothing early), `nfpcapd -r FILE -w FOLDER`,
`argus -X -r FILE -w /dev/null`, `pmacctd` with `nfprobe`, `ndpiReader -q -i FILE`. weir-probe: limits that hold every flow,
nDPI off unless stated. Memory (of a peer with several processes: of the largest): peak resident memory; weir-probe reads standard input so that no trace is mapped.
Live: sender, agent and broker share the machine's processors; a rate that the sender did not reach is not shown by
this run, even if nothing was lost."""


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="PATTERN", default="", help="run only the groups whose names match")
    parser.add_argument(
        "--quick", action="store_true", help="run everything once, to see that it works rather than to measure"
    )
    options = parser.parse_args()
    absent = install()
    FOLDER.mkdir(parents=True, exist_ok=True)
    say("making the traces (some minutes the first time)")
    traces = Traces()
    bench = Bench(traces, absent, options.quick)
    groups: list[Callable[[], None]] = [bench.ordinary, bench.new_flows, bench.memory, bench.many_flows]
    groups += [bench.fragments, bench.doubled, bench.expressions, bench.instructions, bench.live]
    try:
        for group in groups:
            if not re.search(options.only, group.__name__):
                continue
            try:
                group()
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                bench.rows.append(Row(group.__name__, met=False, note=f"failed: {error}"))
            traces.drop()
    finally:
        traces.end()
        shutil.rmtree(bench.folder, ignore_errors=True)
    text = bench.text()
    print(text, end="")
    (FOLDER / "capture.md").write_text(text)
    result = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": options.quick,
        "rows": [asdict(row) for row in bench.rows],
        "peers": bench.peers,
        "live": {what: [asdict(cell) for cell in cells] for what, cells in bench.tables.items()},
    }
    (FOLDER / "capture.json").write_text(json.dumps(result, indent=1) + "\n")
    say(f"written: {FOLDER / 'capture.md'} and capture.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
