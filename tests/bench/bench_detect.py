"""Seconds from an attack's first packet on the wire to its alert on `weir.alerts`, by floods, scans and guesses on a live interface.

`make bench-detect`, at intervals of 10 s and of 1 s. Attacks begin at random moments, each on or by a host of its own; the
time of the alert is that of the broker. A table on standard output, JSON in `.weir/bench-detect.json`.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from rich.console import Console
from rich.table import Table

from harness import AGENT, CHECKOUT, RunningStack
from weir.demo_network import namespaces
from weir.frames import ACK, FIN, PUSH, SYN, SYNACK, TCP, ethernet, tcp
from weir.messages.alert_pb2 import Alert

#: The seconds that an attack lasts.
LASTS = 25
#: What is wanted at each interval: the 99th percentile, s.
TARGETS = {"10s": 16, "1s": 6}


def flood(subject: str) -> Iterator[tuple[float, bytes]]:
    """300 SYNs a second of forged senders."""
    for number in range(300 * LASTS):
        sender = str(ipaddress.ip_address("198.18.64.1") + number)
        yield number / 300, ethernet(sender, subject, TCP, tcp(1024 + number % 9999, 80, SYN))


def scan(subject: str) -> Iterator[tuple[float, bytes]]:
    """SSH of 50 hosts a second, none of which answers."""
    for number in range(50 * LASTS):
        target = str(ipaddress.ip_address("10.200.0.1") + number)
        yield number / 50, ethernet(subject, target, TCP, tcp(30_000 + number % 9999, 22, SYN))


def guesses(subject: str) -> Iterator[tuple[float, bytes]]:
    """Three logins a second."""
    for number in range(3 * LASTS):
        ends, ports = (subject, "10.201.0.22"), (20_000 + number, 22)
        for step, (forward, flags, payload) in enumerate(
            (
                (True, SYN, b""),
                (False, SYNACK, b""),
                (True, ACK, b""),
                (True, PUSH, bytes(800)),
                (False, PUSH, bytes(900)),
                (True, FIN, b""),
                (False, FIN, b""),
            )
        ):
            way = ends if forward else ends[::-1]
            segment = tcp(*(ports if forward else ports[::-1]), flags, payload, (1 + step, 1))
            yield number / 3 + step / 1000, ethernet(*way, TCP, segment)


ATTACKS = {"syn_flood": flood, "scan_horizontal": scan, "password_guessing": guesses}


def send(interface: str, kind: str, subject: str) -> None:
    """Send an attack; print when its first packet left, s from 1970."""
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    link.bind((interface, 0))
    begin = time.time()
    print(begin, flush=True)
    for at, frame in ATTACKS[kind](subject):
        if (wait := begin + at - time.time()) > 0:
            time.sleep(wait)
        link.send(frame)


class Alerts:
    """When the broker received the first message of each alert, s from 1970, by reason and subject."""

    def __init__(self, stack: RunningStack) -> None:
        self.came: dict[tuple[str, str], float] = {}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._read, args=(stack,), daemon=True)
        self.thread.start()

    def _read(self, stack: RunningStack) -> None:
        consumer = Consumer(stack.stack.brokers.client({"group.id": "weir-bench-detect", "enable.auto.commit": False}))
        consumer.assign([TopicPartition("weir.alerts", 0, 0)])
        while not self.ended.is_set():
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                alert = Alert.FromString(message.value())
                self.came.setdefault((alert.reason, alert.subject), message.timestamp()[1] / 1000)
        consumer.close()

    def end(self) -> None:
        """Stop reading."""
        self.ended.set()
        self.thread.join()


def measured(stack: RunningStack, interval: str, trials: int, chance: random.Random) -> dict[str, Any]:
    """The seconds of each kind of attack."""
    probe = f"detect-{interval}"
    stack.enrol(probe)
    begun: dict[tuple[str, str], float] = {}
    alerts = Alerts(stack)
    with namespaces(stack.stack) as net, tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "agent.toml"
        config.write_text(
            f'probe = "{probe}"\ninterval = "{interval}"\nworkers = 1\nstate_dir = "{folder}"\n'
            f'[source]\ninterface = "{net.veth}"\nnetns = "{net.servers}"\nreceive_offloads = "keep"\n'
            f'[kafka]\ncredentials = "{stack.bundle(probe)}"\n'
        )
        agent = subprocess.Popen(
            [str(AGENT), "run", "--config", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        running: list[subprocess.Popen[str]] = []
        try:
            time.sleep(3)
            for number in range(trials):
                for place, kind in enumerate(ATTACKS):
                    subject = f"10.{100 + place}.{int(interval[:-1])}.{1 + number}"
                    command = [
                        "ip",
                        "netns",
                        "exec",
                        net.clients,
                        sys.executable,
                        __file__,
                        "--send",
                        "weir1",
                        kind,
                        subject,
                    ]
                    attack = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                    running.append(attack)
                    assert attack.stdout is not None
                    begun[kind, subject] = float(attack.stdout.readline())
                    time.sleep(chance.uniform(0.5, 4))
            for attack in running:
                attack.wait(LASTS + 60)
            end = time.monotonic() + 30
            while time.monotonic() < end and not begun.keys() <= alerts.came.keys():
                time.sleep(0.5)
        finally:
            for attack in running:
                attack.kill()
            agent.terminate()
            agent.wait(30)
    alerts.end()
    found: dict[str, Any] = {}
    for kind in ATTACKS:
        known = sorted(alerts.came[key] - at for key, at in begun.items() if key[0] == kind and key in alerts.came)
        found[kind] = {"attacks": trials, "alerts": len(known)} | {
            f"p{q}_seconds": known[min(len(known) - 1, len(known) * q // 100)] for q in (50, 99) if known
        }
    return found


def main() -> None:
    """Measure, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20, help="attacks of each kind, at each interval")
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which they begin")
    parser.add_argument("--send", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.send:
        send(*options.send)
        return
    results: dict[str, Any] = {}
    with RunningStack() as stack:
        for interval in TARGETS:
            results[interval] = measured(stack, interval, options.trials, random.Random(options.seed))
    (CHECKOUT / ".weir/bench-detect.json").write_text(json.dumps(results, indent=2) + "\n")
    table = Table("interval", "attack", "attacks", "alerts", "p50 (s)", "p99 (s)", "target (s)", box=None)
    for interval, kinds in results.items():
        for kind, one in kinds.items():
            times = [f"{one[f'p{q}_seconds']:.1f}" if one["alerts"] else "-" for q in (50, 99)]
            table.add_row(interval, kind, str(one["attacks"]), str(one["alerts"]), *times, f"< {TARGETS[interval]}")
    Console().print(table)


if __name__ == "__main__":
    main()
