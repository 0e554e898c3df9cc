"""The agent on a private live link, for `bench_capture.py`: two network namespaces joined by a veth pair.

`weir-bench blast` sends; the agent captures at the other end and publishes to a broker within this process
(librdkafka's mock), so that the agent does all the work of a real deployment. Sender, agent and broker share the
machine.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer

from harness import AGENT, BENCH

#: Octets on the wire per frame beside the frame itself: preamble, delimiter, gap.
AROUND_FRAME = 20
GIGABIT = 1e9
PROBE = "bench"


def wire_rate(octets: int) -> float:
    """Frames of this size (octets with FCS) that gigabit Ethernet carries per second."""
    return GIGABIT / 8 / (octets + AROUND_FRAME)


class Broker:
    """A Kafka broker within this process. It keeps the last 5 MB of each partition, and nobody reads them."""

    def __init__(self) -> None:
        self.producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 3})
        broker = next(iter(self.producer.list_topics(timeout=10).brokers.values()))
        self.address = f"{broker.host}:{broker.port}"
        for topic in (f"weir.flows.{PROBE}", f"weir.counters.{PROBE}"):
            self.producer.list_topics(topic, timeout=10)


class Link:
    """A veth pair: `weir0` in the agent's namespace, `weir1` in the sender's. It carries no other traffic."""

    def __init__(self) -> None:
        self.agent, self.sender = (f"weir-bench-{os.getpid()}-{side}" for side in "ab")

    def __enter__(self) -> Link:
        for namespace in (self.agent, self.sender):
            ip("netns", "add", namespace)
        ip("link", "add", "weir0", "netns", self.agent, "type", "veth", "peer", "name", "weir1", "netns", self.sender)
        for namespace, end in ((self.agent, "weir0"), (self.sender, "weir1")):
            quiet = ["sysctl", "-qw", f"net.ipv6.conf.{end}.disable_ipv6=1"]
            subprocess.run(["ip", "netns", "exec", namespace, *quiet], check=True)
            ip("-n", namespace, "link", "set", end, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for namespace in (self.agent, self.sender):
            subprocess.run(["ip", "netns", "del", namespace], check=False)

    def received(self) -> int:
        """Packets that the agent's end has received, by the kernel's own counter."""
        shown = ip("-n", self.agent, "-s", "-j", "link", "show", "weir0")
        return int(json.loads(shown)[0]["stats64"]["rx"]["packets"])

    def blast(self, *words: str, cpu: int | None = 0) -> subprocess.Popen[str]:
        """Start a sender."""
        pinned = [] if cpu is None else ["taskset", "-c", str(cpu)]
        ends = ["weir1", "--netns", self.sender, "--peer", f"{self.agent}/weir0"]
        command = [*pinned, str(BENCH), "blast", *ends, *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def ip(*words: str) -> str:
    """Run `ip`."""
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


class Agent:
    """A running agent; `summary` is set once it has stopped."""

    def __init__(self, link: Link, broker: Broker, config: str, source: str = "") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="weir-bench-"))
        text = f'probe = "{PROBE}"\nstate_dir = "{self.folder}"\n{config}\n'
        text += f'[source]\ninterface = "weir0"\nnetns = "{link.agent}"\n{source}\n'
        # Without the credentials of an agent of this machine.
        text += f'[kafka]\nbrokers = "{broker.address}"\ncredentials = ""\n[metrics]\n'
        (self.folder / "weir-probe.toml").write_text(text)
        command = [str(AGENT), "run", "--summary", "json", "--config", str(self.folder / "weir-probe.toml")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.log: list[str] = []
        self.summary: dict[str, Any] = {}
        assert self.process.stderr
        for line in self.process.stderr:
            self.log.append(line)
            if "capturing on" in line:
                break
        else:
            raise RuntimeError("the agent did not start: " + "".join(self.log[-1:]).strip())
        threading.Thread(target=lambda: self.log.extend(self.process.stderr or []), daemon=True).start()

    def stop(self) -> dict[str, Any]:
        """Shut it down cleanly; returns its summary."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stdout
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.summary = json.loads(self.process.stdout.read())
        return self.summary


@contextmanager
def running(link: Link, broker: Broker, config: str, source: str = "") -> Iterator[Agent]:
    """An agent that is stopped at the end in any case."""
    agent = Agent(link, broker, config, source)
    try:
        yield agent
    finally:
        if agent.process.poll() is None:
            agent.stop()


@dataclass
class Cell:
    """One load and its result."""

    load: str
    #: Packets per second of gigabit Ethernet with frames of this size; 0: the sender went as fast as it could.
    wire: float
    sent: int
    #: Packets per second that the sender reached.
    rate: float
    on_interface: int
    captured: int
    dropped: int
    not_metered: int
    #: Longest over all closes.
    longest_stall_us: int

    @property
    def lost(self) -> int:
        """Packets sent that are not in the records."""
        return max(0, self.sent - self.captured) + self.not_metered

    @property
    def at_wire_rate(self) -> bool:
        """Whether the sender reached the wire's rate."""
        return self.rate >= 0.99 * self.wire


def measure(
    link: Link,
    broker: Broker,
    load: str,
    words: list[str],
    config: str,
    wire: float = 0,
    source: str = "",
    cpu: int | None = 0,
) -> Cell:
    """Send one load to a fresh agent."""
    before = link.received()
    with running(link, broker, config, source) as agent:
        rate = ["--rate", str(wire)] if wire else []
        sender = link.blast(*words, *rate, cpu=cpu)
        out, _ = sender.communicate(timeout=60)
        if sender.returncode:
            raise RuntimeError("the sender failed")
        sent = json.loads(out)
        on_interface = link.received() - before
        time.sleep(0.1)  # Skip the last block of the ring.
        summary = agent.stop()
    if sent["packets"] != on_interface:
        raise RuntimeError(f"{load}: {sent['packets']} packets sent, {on_interface} received by the interface")
    return cell(load, wire, sent, on_interface, summary)


def cell(
    load: str,
    wire: float,
    sent: dict[str, Any],
    on_interface: int,
    summary: dict[str, Any],
) -> Cell:
    """The counts of the sender, the interface and the agent for one load."""
    return Cell(
        load=load,
        wire=wire,
        sent=sent["packets"],
        rate=sent["packets_per_second"],
        on_interface=on_interface,
        captured=summary["packets"]["captured"],
        dropped=summary["dropped"]["kernel"],
        not_metered=sum(summary["packets"]["not_metered"].values()),
        longest_stall_us=summary["longest_close_stall_us"],
    )


def one_worker(sets: str) -> tuple[str, str]:
    """Configuration of one worker beside its sender: capture has its own processor if there are two."""
    config = f'interval = "1s"\nworkers = 1\n[applications]\nndpi = "off"\n[limits]\nmax_records_per_interval = 3000000\n{sets}'
    return config, "cpus = [1]" if (os.cpu_count() or 1) > 1 else ""


def ourmon(link: Link, broker: Broker, filter_sets: list[str], seconds: float) -> list[Cell]:
    """Ourmon's tables 2 to 6: sizes by rolling destinations by numbers of filter sets."""
    cells = []
    for octets in (64, 1518):
        for destinations in (1, 100, 1_000, 10_000):
            for count in (0, 1, 4, 8):
                config, source = one_worker("[filters]\ndefault = false\n" + "\n".join(filter_sets[:count]))
                load = f"{octets} octets, {destinations:,} destinations, {count} filter sets"
                words = ["--octets", str(octets), "--destinations", str(destinations), "--seconds", str(seconds)]
                cells.append(measure(link, broker, load, words, config, wire_rate(octets), source))
    return cells


def sweep(link: Link, broker: Broker, seconds: float) -> list[Cell]:
    """PNA's sweep: sizes, each packet a new flow, intervals of 1 s so that it closes while full."""
    cells = []
    for octets in (64, 128, 256, 512, 1024, 1518):
        config, source = one_worker("")
        words = ["--octets", str(octets), "--sources", "0", "--seconds", str(seconds)]
        load = f"{octets} octets, each packet a new flow"
        cells.append(measure(link, broker, load, words, config, wire_rate(octets), source))
    return cells


TWO_WORKERS = 'interval = "1s"\nworkers = 2\n[applications]\nndpi = "off"\n'


def two_workers(link: Link, broker: Broker, seconds: float) -> Cell:
    """Two workers share the traffic of one sender."""
    words = ["--destinations", "1000", "--seconds", str(seconds)]
    return measure(link, broker, "64 octets, 1,000 destinations, two workers", words, TWO_WORKERS, cpu=None)


def overdriven(link: Link, broker: Broker, seconds: float) -> Cell:
    """The agent is stopped (SIGSTOP) for a part of the time, so that its ring must overflow."""
    before = link.received()
    with running(link, broker, TWO_WORKERS) as agent:
        sender = link.blast("--destinations", "1000", "--seconds", str(seconds), cpu=None)
        time.sleep(seconds / 6)
        agent.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds * 4 / 6)
        finally:
            agent.process.send_signal(signal.SIGCONT)
        out, _ = sender.communicate(timeout=60)
        on_interface = link.received() - before
        summary = agent.stop()
    sent = json.loads(out)
    load = f"64 octets, two workers, held up for {seconds * 4 / 6:.1f} s of {seconds:.0f} s"
    return cell(load, 0, sent, on_interface, summary)


def idle(link: Link, broker: Broker, seconds: float) -> tuple[float, float]:
    """An agent as shipped on a quiet link: resident MB, and the share of one processor."""
    with running(link, broker, "") as agent:
        process = psutil.Process(agent.process.pid)
        time.sleep(1)
        before = process.cpu_times()
        time.sleep(seconds)
        after, resident = process.cpu_times(), process.memory_info().rss
    return resident / 1e6, (after.user + after.system - before.user - before.system) / seconds
