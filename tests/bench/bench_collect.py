"""Cost per record of `weir-probe collect`: `make bench-collect`.

In memory: generated datagrams of NetFlow v5 and v9, IPFIX and sFlow, and nProbe's JSON, are decoded; then decoded,
added up and encoded as messages for Kafka, which are discarded; then the same with flows that lasted a minute, which
are split over seven intervals. It prints records per second of one core and of CPU, and instructions per record if
valgrind is installed.

Compared with peers: the same datagrams over UDP on loopback into `weir-probe collect`, goflow2, nfcapd or sfcapd, and
nfacctd or sfacctd, one after the other. The sender waits while a receiver's socket holds more than a little, so that no
receiver loses any. The figure is the records that the receiver reports as accepted, per second of its CPU time
(user and system, children included).

Tables on standard output and in `.weir/bench/collect.md`, all figures in `collect.json` beside it. Example: make
bench-collect ARGS='--quick --only ipfix'
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from bench_capture import FOLDER, LAUNCHER, MEMORY, aligned, say
from check_peers import waiting
from harness import AGENT, BENCH, eventually, free_ports

#: Number of flows; a round has two records of each.
FLOWS = 100_000
#: Duration of the flows of the last rows, ms: from the seventh interval before the end of the last one.
LONG_MS = 60_000
#: Records of a run in memory (of JSON, or split, fewer), and rounds of a run over loopback.
RECORDS, ROUNDS = 6_000_000, 10
#: After this much CPU, s, a receiver is not run again.
LONG = 10.0
#: The sender checks the receiver's socket after this many datagrams, and waits while it holds this many octets.
LOOK_EVERY, MOST_WAITING = 16, 64 << 10
#: Socket buffer that each receiver requests, if it has an option for it.
BUFFER = 4 << 20
#: Target: weir-probe is this many times as fast as the best peer.
FACTOR = 2


@dataclass(frozen=True)
class Form:
    """A protocol, as `weir-bench decode` makes it."""

    name: str
    #: Target: records per second of one core, decoded and metered.
    target: int
    #: Records per datagram; position of the sequence number in its header, and its increment per datagram.
    records: int
    sequence: tuple[int, int] = (0, 0)


FORMS = [
    Form("netflow5", 1_000_000, 24, (16, 24)),
    Form("netflow9", 1_000_000, 24, (12, 1)),
    Form("ipfix", 1_000_000, 24, (8, 24)),
    Form("sflow", 500_000, 8, (16, 1)),
    # JSON arrives through ZeroMQ or Kafka: in memory alone.
    Form("nprobe", 300_000, 24),
]


@dataclass
class Row:
    """One line of a table."""

    cells: list[str]
    data: dict[str, Any] = field(default_factory=dict)
    met: bool | None = None


def verdict(met: bool | None) -> str:
    """The verdict in one word; empty without a target."""
    return {None: "", True: "met", False: "MISSED"}[met]


# ---- in memory ----


def bench_decode(form: Form, *words: str, before: tuple[str, ...] = ()) -> str:
    """Run `weir-bench decode`; returns its output."""
    command = [*before, str(BENCH), "decode", "--protocol", form.name, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")
    return done.stdout + done.stderr


def instructions(form: Form, *words: str) -> float:
    """Instructions per record: the difference between one and two rounds of the same records."""
    before = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
    flows = 20_000
    one, two = (
        int(re.findall(r"Collected : (\d+)", bench_decode(form, *words, *rounds, before=before))[0])
        for rounds in (
            ("--flows", str(flows), "--records", "1"),
            ("--flows", str(flows), "--records", str(2 * flows + form.records)),
        )
    )
    return (two - one) / (2 * flows)


def in_memory(form: Form, runs: int, counted: bool) -> list[Row]:
    """The rows of a protocol."""
    rows = []
    cases: list[tuple[str, int | None, tuple[str, ...]]] = [
        ("decoded", None, ()),
        ("metered and encoded", form.target, ("--metered",)),
    ]
    if form.name in ("netflow9", "ipfix"):
        cases.append(("metered, without the router's data", form.target, ("--metered", "--without-routes")))
    if form.name != "sflow":  # A sample has no duration.
        cases.append(("the same, each over 7 intervals", None, ("--metered", "--lasting", str(LONG_MS))))
    for case, target, words in cases:
        say(f"{form.name}: {case}")
        share = (6 if "--lasting" in words else 1) * (5 if form.name == "nprobe" else 1)
        records = ("--flows", str(FLOWS), "--records", str(RECORDS // share))
        found = [json.loads(bench_decode(form, *words, *records)) for _ in range(runs)]
        best = max(one["records_per_cpu_second"] for one in found)
        wall = max(one["records"] / one["seconds"] for one in found)
        each = instructions(form, *words) if counted else None
        met = best >= target if target else None
        cells = [
            form.name,
            case,
            f"{best:,.0f}",
            f"{wall:,.0f}",
            f"{1e9 / best:,.0f}",
            f"{each:,.0f}" if each else "-",
            f"{target:,}" if target else "",
            verdict(met),
        ]
        data = {"protocol": form.name, "case": case, "runs": found, "instructions": each, "target": target}
        rows.append(Row(cells, data, met))
    return rows


# ---- compared with peers ----


@dataclass
class Receiving:
    """A receiver that has received everything."""

    port: int
    folder: Path
    web_port: int
    output: str = ""


@dataclass(frozen=True)
class Receiver:
    """Any collector."""

    name: str
    needs: str
    forms: tuple[str, ...]
    command: Callable[[Receiving, Form], list[str]]
    #: Functions that read the number of accepted packets or records, before the receiver ends or, from its output,
    #: after; and which of the two units it counts.
    accepted: Callable[[Receiving], float]
    before_end: bool = False
    counts_packets: bool = False


def ours(of: Receiving, form: Form) -> list[str]:
    """`weir-probe collect`: adds records up, encodes and discards them."""
    listen = "--sflow" if form.name == "sflow" else "--netflow"
    state = ["--state-dir", str(of.folder / "state")]
    return [str(AGENT), "collect", listen, f"127.0.0.1:{of.port}", "--to", "none", "--summary", "json", *state]


def goflow2(of: Receiving, form: Form) -> list[str]:
    """goflow2: Protocol Buffers into /dev/null."""
    scheme = "sflow" if form.name == "sflow" else "netflow"
    command = ["goflow2", "-listen", f"{scheme}://127.0.0.1:{of.port}", "-addr", f"127.0.0.1:{of.web_port}"]
    return [*command, "-format", "bin", "-transport.file", "/dev/null", "-templates.path", "/templates"]


def goflow2_accepted(of: Receiving) -> float:
    """Records, from its own metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{of.web_port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    # In NetFlow v5 each record is a set of its own.
    names = r"goflow2_flow_process_(nf_flowset_records|nf_flowset|sf_samples)_total"
    counted = re.findall(rf"^{names}(\{{.*\}}) (\S+)$", text, re.MULTILINE)
    return sum(
        float(value)
        for name, labels, value in counted
        if "Template" not in labels and (name != "nf_flowset" or 'version="5"' in labels)
    )


def nfdump_s(of: Receiving, form: Form) -> list[str]:
    """nfcapd, sfcapd: write to a file in memory."""
    program = "sfcapd" if form.name == "sflow" else "nfcapd"
    return [program, "-b", "127.0.0.1", "-p", str(of.port), "-w", str(of.folder), "-t", "86400", "-B", str(BUFFER)]


def nfdump_accepted(of: Receiving) -> float:
    """Flows, from its final report."""
    return float(sum(int(flows) for flows in re.findall(r"Flows: (\d+)", of.output)))


def pmacct_s(of: Receiving, form: Form) -> list[str]:
    """nfacctd, sfacctd: add records up by flow, and write them to a file in memory at the end."""
    program = "sfacctd" if form.name == "sflow" else "nfacctd"
    (of.folder / "pmacct.conf").write_text(
        f"daemonize: false\n{program}_ip: 127.0.0.1\n{program}_port: {of.port}\n{program}_pipe_size: {BUFFER}\n"
        f"plugins: print\naggregate: src_host, dst_host, src_port, dst_port, proto\n"
        f"plugin_pipe_size: {64 << 20}\nplugin_buffer_size: {64 << 10}\nprint_cache_entries: 400009\n"
        f"print_output: csv\nprint_output_file: {of.folder / 'pmacct.csv'}\nprint_output_file_append: true\nprint_refresh_time: 3600\n"
    )
    return [program, "-f", str(of.folder / "pmacct.conf")]


def pmacct_accepted(of: Receiving) -> float:
    """Sum of packets in its output."""
    head, *lines = (of.folder / "pmacct.csv").read_text().splitlines()
    column = head.split(",").index("PACKETS")
    counts = (line.split(",")[column] for line in lines)
    return float(sum(int(count) for count in counts if count.isdigit()))


NETFLOW = ("netflow5", "netflow9", "ipfix")
OURS = Receiver(
    "weir-probe collect",
    str(AGENT),
    (*NETFLOW, "sflow"),
    ours,
    lambda of: float(json.loads(of.output.splitlines()[-1])["records_received"]),
)
PEERS = [
    Receiver("goflow2", "goflow2", (*NETFLOW, "sflow"), goflow2, goflow2_accepted, before_end=True),
    Receiver("nfcapd", "nfcapd", NETFLOW, nfdump_s, nfdump_accepted),
    Receiver("sfcapd", "sfcapd", ("sflow",), nfdump_s, nfdump_accepted),
    Receiver("nfacctd", "nfacctd", NETFLOW, pmacct_s, pmacct_accepted, counts_packets=True),
    Receiver("sfacctd", "sfacctd", ("sflow",), pmacct_s, pmacct_accepted, counts_packets=True),
]


class Datagrams:
    """The datagrams of a round, ready for repeated sending."""

    def __init__(self, form: Form, folder: Path) -> None:
        self.form = form
        path = folder / "datagrams"
        bench_decode(form, "--flows", str(FLOWS), "--write", str(path))
        data, at = path.read_bytes(), 0
        self.all: list[bytearray] = []
        while at < len(data):
            length = int.from_bytes(data[at : at + 2], "big")
            self.all.append(bytearray(data[at + 2 : at + 2 + length]))
            at += 2 + length
        has_template = form.name in ("netflow9", "ipfix")
        self.template = self.all.pop(0) if has_template else None
        self.records = len(self.all) * form.records

    def send(self, port: int, rounds: int) -> None:
        """Send them, no faster than the receiver reads them; sequence numbers continue from round to round."""
        at, step = self.form.sequence
        # NetFlow v9 counts the template's datagram; IPFIX would count its records.
        sequence = 1 if self.form.name == "netflow9" else 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.connect(("127.0.0.1", port))
            if self.template:
                one.send(self.template)
                # Some receivers read several datagrams at once.
                time.sleep(0.3)
            for _ in range(rounds):
                for number, datagram in enumerate(self.all):
                    struct.pack_into("!I", datagram, at, sequence & 0xFFFFFFFF)
                    sequence += step
                    one.send(datagram)
                    if number % LOOK_EVERY == 0:
                        while (waiting(port) or 0) > MOST_WAITING:
                            time.sleep(0.0002)


def cpu_seconds(process: psutil.Process) -> float:
    """CPU used by a process and its children so far."""
    spent = 0.0
    for one in [process, *process.children(recursive=True)]:
        times = one.cpu_times()
        spent += times.user + times.system
    return spent


def drops(port: int) -> int:
    """Datagrams dropped because the socket of this port had no room."""
    lines = Path("/proc/net/udp").read_text().splitlines()[1:]
    return sum(int(line.split()[-1]) for line in lines if int(line.split()[1].rpartition(":")[2], 16) == port)


def receive(receiver: Receiver, form: Form, datagrams: Datagrams, rounds: int) -> dict[str, float]:
    """One run: CPU seconds from the start of listening to the end, and the accepted records."""
    with (
        tempfile.TemporaryDirectory(prefix="weir-bench-", dir=MEMORY if MEMORY.is_dir() else None) as name,
        tempfile.TemporaryFile("w+") as said,
        tempfile.TemporaryFile("w+") as told,
    ):
        port, other = free_ports(2)
        of = Receiving(port, Path(name), other)
        command = ["sh", "-c", f'exec "$0" -I -S -c "$@" 3>&{told.fileno()}', sys.executable, LAUNCHER]
        launcher = subprocess.Popen(
            [*command, *receiver.command(of, form)], stdout=said, stderr=said, pass_fds=(told.fileno(),)
        )
        watched = psutil.Process(launcher.pid)
        try:
            eventually(lambda: waiting(of.port) is not None or launcher.poll() is not None, f"{receiver.name} listens")
            time.sleep(1)
            if launcher.poll() is not None:
                said.seek(0)
                raise RuntimeError(f"{receiver.name} ended at once: {said.read()[-400:]}")
            [program] = watched.children()
            began = cpu_seconds(program)
            datagrams.send(of.port, rounds)
            eventually(lambda: not waiting(of.port), f"{receiver.name} has read everything")
            # Wait until it has processed the datagrams it has read.
            before = -1.0
            while (now := cpu_seconds(program)) > before:
                before = now
                time.sleep(0.5)
            lost = drops(of.port)
            accepted = receiver.accepted(of) if receiver.before_end else 0.0
            program.send_signal(signal.SIGINT)
            launcher.wait(60)
        finally:
            for one in [*watched.children(recursive=True), watched] if launcher.poll() is None else []:
                one.kill()
            launcher.wait()
        said.seek(0)
        told.seek(0)
        of.output = said.read()
        _, total, _ = json.loads(told.read())
        if not receiver.before_end:
            accepted = receiver.accepted(of)
        found = {"cpu_seconds": total - began, "accepted": accepted, "lost": float(lost)}
        if receiver is OURS:
            found["packets"] = json.loads(of.output.splitlines()[-1])["packets"]
        return found


def installed(receiver: Receiver) -> bool:
    """Whether its program is installed."""
    return shutil.which(receiver.needs) is not None


def beside_peers(form: Form, runs: int, rounds: int) -> list[Row]:
    """A row for each receiver of a protocol, the best of its runs; weir-probe first, with its ratio to the best peer."""
    measured: list[tuple[Receiver, dict[str, float] | None, list[dict[str, float]]]] = []
    with tempfile.TemporaryDirectory(prefix="weir-bench-", dir=MEMORY if MEMORY.is_dir() else None) as name:
        for receiver in [OURS, *PEERS]:
            if form.name not in receiver.forms:
                continue
            if not installed(receiver):
                measured.append((receiver, None, []))
                continue
            say(f"{form.name}: {receiver.name}")
            found: list[dict[str, float]] = []
            while len(found) < runs and sum(run["cpu_seconds"] for run in found) < LONG:
                # Generated now, so that times in records are near their arrival.
                datagrams = Datagrams(form, Path(name))
                run = receive(receiver, form, datagrams, rounds)
                run["sent"] = rounds * datagrams.records
                if receiver.counts_packets and form.name != "sflow":
                    # By packets, whose number weir-probe reports.
                    run["accepted"] *= measured[0][2][0]["accepted"] / measured[0][2][0]["packets"]
                run["rate"] = run["accepted"] / run["cpu_seconds"]
                found.append(run)
            measured.append((receiver, max(found, key=lambda run: run["rate"]), found))
    peers = {receiver.name: best["rate"] for receiver, best, _ in measured[1:] if best}
    rows = []
    for receiver, best, found in measured:
        if best is None:
            rows.append(Row([form.name, receiver.name, "not installed", "", "", "", "", ""]))
            continue
        row = Row([form.name, receiver.name, f"{best['accepted']:,.0f}", f"{best['sent']:,.0f}"])
        row.cells += [f"{best['cpu_seconds']:.2f}", f"{best['rate']:,.0f}", "", ""]
        row.data = {"protocol": form.name, "receiver": receiver.name, "runs": found}
        if receiver is OURS and peers:
            ratio = best["rate"] / max(peers.values())
            row.met = ratio >= FACTOR
            row.cells[-2:] = [f"{ratio:.2f}x {max(peers, key=lambda name: peers[name])}", verdict(row.met)]
        rows.append(row)
    return rows


IN_MEMORY = ["protocol", "case", "records/CPU s", "records/s", "ns", "instructions", "target", "verdict"]
BESIDE = ["protocol", "receiver", "accepted", "sent", "CPU s", "records/CPU s", "ratio", f"target {FACTOR}x"]


def main() -> int:
    """Measure; returns 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", default="", help="protocols whose name has this: " + names())
    parser.add_argument(
        "--quick", action="store_true", help="run each once, with fewer records and without counting instructions"
    )
    parser.add_argument("--no-peers", action="store_true", help="in memory alone")
    options = parser.parse_args()
    forms = [form for form in FORMS if options.only in form.name]
    if not forms:
        parser.error(f"--only {options.only}: there are {names()}")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    runs, rounds = (1, ROUNDS // 2) if options.quick else (3, ROUNDS)
    counted = not options.quick and shutil.which("valgrind") is not None
    alone = [row for form in forms for row in in_memory(form, runs, counted)]
    tables = [aligned(IN_MEMORY, [row.cells for row in alone])]
    beside: list[Row] = []
    if not options.no_peers:
        beside = [row for form in forms if form.name in OURS.forms for row in beside_peers(form, runs, rounds)]
    if beside:
        tables.append(aligned(BESIDE, [row.cells for row in beside]))
    text = "\n\n".join(tables)
    print(text)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "collect.md").write_text(text + "\n")
    result = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "flows": FLOWS,
        "in_memory": [row.data for row in alone],
        "beside_peers": [row.data for row in beside],
    }
    (FOLDER / "collect.json").write_text(json.dumps(result, indent=1) + "\n")
    return 1 if any(row.met is False for row in alone + beside) else 0


def names() -> str:
    """The protocols, for people."""
    return ", ".join(form.name for form in FORMS)


if __name__ == "__main__":
    sys.exit(main())
