"""Compares the losses that the collector reports with the drops of a relay between exporter and collector.

`python3 check_losses.py` prints a table; `test_losses.py` does the same with the installed peers. Exporters send a
capture to the relay, which drops random datagrams (with a fixed seed) and passes the others on. The test counts drops
in the exporter's own units: the increase of its sequence numbers from a dropped datagram to the next one. For sFlow
these are the samples in the dropped datagrams, for nProbe the messages.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

import zmq

from check_peers import by_softflowd, export, make_capture, said_by, waiting
from harness import AGENT, eventually, free_ports, skipped

#: One datagram in so many is dropped; never one of the first, which hold templates and the number to begin with.
DROPPED_OF = 8
KEPT_FIRST = 4
#: Time between two datagrams that are passed on, s: a collector's socket holds few.
PACE = 0.001
SEED = 20_261_123
#: Flows of the capture: some hundred datagrams.
FLOWS = 3000


class Relay(ABC):
    """Forwards received datagrams or messages to the port `to`, except those that it drops, until its context ends."""

    def __init__(self, to: int) -> None:
        self.to = to
        self.dice = random.Random(SEED)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.settle()
        self.ended.set()
        self.thread.join()
        self.close()

    def settle(self) -> None:  # noqa: B027 a relay may have nothing to wait for
        """Wait, before the end, until everything that must arrive has arrived."""

    @abstractmethod
    def run(self) -> None:
        """Pass on datagrams or messages until the relay is ended and nothing more arrives."""

    @abstractmethod
    def close(self) -> None:
        """Release its sockets."""


class DatagramRelay(Relay):
    """Forwards datagrams received on `port`; the last one always passes, because a loss shows only in the datagram after
    it.
    """

    def __init__(self, to: int) -> None:
        super().__init__(to)
        self.heard: list[tuple[bytes, bool]] = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.2)
        self.port: int = self.socket.getsockname()[1]

    def settle(self) -> None:
        """Wait until it has read everything."""
        eventually(lambda: not waiting(self.port), "the relay has read everything")

    def close(self) -> None:
        """Close its socket."""
        self.socket.close()

    def run(self) -> None:
        """Pass on datagrams until it is stopped and nothing more arrives."""
        held: bytes | None = None
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            while True:
                try:
                    data = self.socket.recv(65_535)
                except TimeoutError:
                    if self.ended.is_set():
                        break
                    continue
                if held is not None:
                    drops = len(self.heard) >= KEPT_FIRST and self.dice.randrange(DROPPED_OF) == 0
                    self.pass_on(out, held, drops)
                held = data
            if held is not None:
                self.pass_on(out, held, False)

    def pass_on(self, out: socket.socket, data: bytes, drops: bool) -> None:
        """Pass a datagram on or drop it."""
        self.heard.append((data, drops))
        if not drops:
            out.sendto(data, ("127.0.0.1", self.to))
            time.sleep(PACE)

    def dropped(self) -> int:
        """Datagrams that were dropped."""
        return sum(drops for _, drops in self.heard)

    def lost(self, so_far: bool) -> int:
        """The content of the dropped datagrams, in the exporter's units; `so_far`: a datagram's sequence number
        includes its own content.
        """
        by_domain: dict[bytes, list[tuple[bytes, bool]]] = {}
        for data, drops in self.heard:
            by_domain.setdefault(domain(data), []).append((data, drops))
        lost = 0
        for of, heard in by_domain.items():
            if of == b"sflow":
                lost += sum(samples(data) for data, drops in heard if drops)
                continue
            # From each to the next one, or from the one before to each.
            for (before, drops), (after, drops_after) in pairwise(heard):
                if drops_after if so_far else drops:
                    lost += (number(after) - number(before)) % (1 << 32)
        return lost


def domain(data: bytes) -> bytes:
    """The sequence that a datagram's number belongs to."""
    version = data[:2]
    if version == b"\0\0":
        return b"sflow"
    return version + {b"\0\x05": data[20:22], b"\0\x09": data[16:20], b"\0\x0a": data[12:16]}[version]


def number(data: bytes) -> int:
    """The sequence number of a datagram of NetFlow or IPFIX."""
    at = {5: 16, 9: 12, 10: 8}[data[1]]
    found: int = struct.unpack_from(">I", data, at)[0]
    return found


def samples(data: bytes) -> int:
    """Samples of packets in a datagram of sFlow from an agent with an address of IPv4."""
    at, found = 28, 0
    for _ in range(struct.unpack_from(">I", data, 24)[0]):
        form, length = struct.unpack_from(">II", data, at)
        found += form in (1, 3)
        at += 8 + length
    return found


class MessageRelay(Relay):
    """Passes on nProbe's messages over ZeroMQ from a publisher on the port `source`, except those that it drops."""

    def __init__(self, source: int, to: int) -> None:
        super().__init__(to)
        self.source = source
        self.count = 0
        self.drops = 0
        self.context = zmq.Context()

    def close(self) -> None:
        """End ZeroMQ."""
        self.context.term()

    def run(self) -> None:
        """Wait for the collector, then pass on messages until it is stopped and nothing more arrives."""
        publisher, subscriber = self.context.socket(zmq.XPUB), self.context.socket(zmq.SUB)
        publisher.set(zmq.SNDHWM, 0)
        subscriber.set(zmq.RCVHWM, 0)
        publisher.bind(f"tcp://127.0.0.1:{self.to}")
        while not self.ended.is_set() and not publisher.poll(200):
            pass
        subscriber.subscribe(b"")
        subscriber.connect(f"tcp://127.0.0.1:{self.source}")
        held: list[bytes] = []
        while not self.ended.is_set() or subscriber.poll(500):
            if not subscriber.poll(200):
                continue
            message = subscriber.recv_multipart()
            if held:
                drops = self.count >= KEPT_FIRST and self.dice.randrange(DROPPED_OF) == 0
                self.drops += drops
                self.count += 1
                if not drops:
                    publisher.send_multipart(held)
            held = message
        if held:
            self.count += 1
            publisher.send_multipart(held)
        subscriber.close()
        publisher.close(linger=2000)


def softflowd(version: str) -> Callable[[Path, int, Path], None]:
    """softflowd, in this version of NetFlow."""

    def send(capture: Path, port: int, folder: Path) -> None:
        by_softflowd(capture, version, port, folder)

    return send


def pmacctd(plugin: str, *options: str) -> Callable[[Path, int, Path], None]:
    """pmacctd with a plugin that exports."""

    def send(capture: Path, port: int, folder: Path) -> None:
        config = folder / "pmacctd.conf"
        lines = [f"daemonize: false\npcap_savefile: {capture}\nplugins: {plugin}[send]"]
        lines.append("aggregate: src_host, dst_host, src_port, dst_port, proto")
        config.write_text("\n".join([*lines, f"{plugin}_receiver[send]: 127.0.0.1:{port}", *options]) + "\n")
        said_by(["pmacctd", "-f", str(config)], harmless="no more plugins active")

    return send


def own(form: str) -> Callable[[Path, int, Path], None]:
    """The agent's own export."""
    return lambda capture, port, _: export(capture, form, f"udp://127.0.0.1:{port}", [])


@dataclass(frozen=True)
class Lossy:
    """An exporter behind the relay."""

    name: str
    needs: str
    send: Callable[[Path, int, Path], None]
    #: Its numbers count what a message itself holds.
    so_far: bool = False

    def missing(self) -> bool:
        """Whether its program is not installed."""
        return bool(self.needs) and not shutil.which(self.needs, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")

    def run(self, capture: Path) -> Found:
        """Send a capture through the relay."""
        port = free_ports(1)[0]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with Collector(folder, "--netflow", f"127.0.0.1:{port}") as collector:
                with DatagramRelay(port) as relay:
                    self.send(capture, relay.port, folder)
                eventually(lambda: not waiting(port), "the collector has read everything")
            said = collector.summary()
        lost = said["lost"]
        is_sflow = relay.heard[0][0][:2] == b"\0\0"
        told = lost["samples"] if is_sflow else lost["records_or_datagrams"]
        return Found(len(relay.heard), relay.dropped(), relay.lost(self.so_far), told, said["refused"])


@dataclass(frozen=True)
class Found:
    """The result of a run: datagrams or messages, the number dropped, the content lost with them, and the collector's
    reported losses and refusals.
    """

    sent: int
    dropped: int
    lost: int
    told: int
    refused: dict[str, int]

    def is_right(self) -> bool:
        """Whether the collector is right within one record."""
        return self.dropped > 0 and abs(self.lost - self.told) <= 1


class Collector:
    """`weir-probe collect` without a destination, whose summary is read at its end."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.log = folder / "log"
        self.out = folder / "summary"
        words = ["collect", *options, "--to", "none", "--summary", "json", "--state-dir", str(folder / "state")]
        with self.log.open("w") as log, self.out.open("w") as out:
            self.process = subprocess.Popen([str(AGENT), *words], stdout=out, stderr=log)

    def __enter__(self) -> Collector:
        # The socket exists before the collector is ready for a signal to end.
        ready = ("listening on", "subscribed")
        eventually(
            lambda: any(word in self.log.read_text() for word in ready) or self.process.poll() is not None, "it listens"
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)

    def summary(self) -> dict[str, dict[str, int]]:
        """Its summary at the end."""
        if self.process.returncode:
            raise AssertionError(f"the collector ended with {self.process.returncode}: {self.log.read_text()}")
        said: dict[str, dict[str, int]] = json.loads(self.out.read_text())
        return said


def messages(capture: Path) -> Found:
    """Send nProbe's messages of the agent's own export through a relay."""
    source, to = free_ports(2)
    with tempfile.TemporaryDirectory() as name:
        with (
            MessageRelay(source, to) as relay,
            Collector(Path(name), "--nprobe-zmq", f"tcp://127.0.0.1:{to}") as collector,
        ):
            export(capture, "nprobe-zmq", f"tcp://127.0.0.1:{source}", ["--template", "@NTOPNG@"])
            relay.ended.set()
            relay.thread.join()
            time.sleep(1)
        said = collector.summary()
    return Found(relay.count, relay.drops, relay.drops, said["lost"]["records_or_datagrams"], said["refused"])


LOSSY = [
    Lossy("softflowd, NetFlow v5", "softflowd", softflowd("5")),
    Lossy("softflowd, NetFlow v9", "softflowd", softflowd("9")),
    Lossy("softflowd, IPFIX", "softflowd", softflowd("10"), so_far=True),
    Lossy("pmacctd nfprobe, NetFlow v5", "pmacctd", pmacctd("nfprobe", "nfprobe_version: 5")),
    Lossy("pmacctd nfprobe, NetFlow v9", "pmacctd", pmacctd("nfprobe", "nfprobe_version: 9")),
    Lossy("pmacctd nfprobe, IPFIX", "pmacctd", pmacctd("nfprobe", "nfprobe_version: 10")),
    Lossy("pmacctd sfprobe, sFlow", "pmacctd", pmacctd("sfprobe", "sampling_rate: 1")),
    Lossy("weir-probe, NetFlow v9", "", own("netflow-v9")),
    Lossy("weir-probe, IPFIX", "", own("ipfix")),
]
LINE = "{:<30} {:>9} {:>8} {:>8} {:>8}  {}"


def main() -> int:
    """Print the table; returns 1 if the collector is wrong about any."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    wrong = 0
    print(LINE.format("exporter and form", "datagrams", "dropped", "lost", "told", "verdict"))
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "made.pcap"
        make_capture(capture, FLOWS)
        runs: list[tuple[str, Callable[[], Found] | None]] = [
            (lossy.name, None if lossy.missing() else lambda lossy=lossy: lossy.run(capture))  # type: ignore[misc]
            for lossy in LOSSY
        ]
        for name, run in [*runs, ("weir-probe, nProbe's messages", lambda: messages(capture))]:
            if run is None:
                print(LINE.format(name, "", "", "", "", "skipped"), flush=True)
                skipped(f"{name} is not installed")
                continue
            found = run()
            wrong += not found.is_right()
            verdict = ("right" if found.is_right() else "WRONG") + (
                f", refused {found.refused}" if found.refused else ""
            )
            print(LINE.format(name, found.sent, found.dropped, found.lost, found.told, verdict), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
