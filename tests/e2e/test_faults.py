"""kill -9 of the jobs at random moments: rows and octets stay exactly those produced.

`WEIR_KILLS=20 pytest test_faults.py` kills twenty times; the default suits a test run.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import socket
import subprocess
import threading
import time
import urllib.parse
from pathlib import Path
from typing import Any

import pytest

from harness import BENCH, RunningStack, eventually, run
from weir import kafka
from weir.demo_traffic import write_capture

pytestmark = pytest.mark.long

KILLS = int(os.environ.get("WEIR_KILLS", "3"))


class HoldingProxy:
    """A proxy between the jobs and the store that can hold back the store's answer to an insert.

    While armed, it withholds the first answer to an insert: the rows are in the store, but the jobs do not know it.
    """

    def __init__(self, port: int, target: int) -> None:
        self.target = target
        self.armed = threading.Event()
        self.holding = threading.Event()
        self.held: list[str] = []
        self.listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            client.close()
            return
        tokens: list[str] = []

        def forward() -> None:
            while data := _receive(client):
                if found := re.search(rb"insert_deduplication_token=([^& ]+)", data):
                    tokens.append(urllib.parse.unquote(found[1].decode()))
                server.sendall(data)
            _close(server)

        threading.Thread(target=forward, daemon=True).start()
        while data := _receive(server):
            if tokens and "/flows/" in tokens[-1] and self.armed.is_set() and data.startswith(b"HTTP/1.1 200"):
                self.held.append(tokens[-1])
                self.holding.set()
                break  # withhold the answer
            try:
                client.sendall(data)
            except OSError:
                break
        else:
            _close(client)

    def close(self) -> None:
        """Stop listening."""
        self.listener.close()


def _receive(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except OSError:
        return b""


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def generating(stack: RunningStack, records: int, *probes: str) -> list[str]:
    """The command that writes synthetic records into Kafka, and prints a summary."""
    words = ["--records", str(records), "--probes", ",".join(probes), "--credentials", str(stack.operator)]
    return [str(BENCH), "generate", *words]


@pytest.fixture(scope="module")
def hurt() -> Any:
    """A private stack whose jobs reach the store through the proxy."""
    running = RunningStack(checkpoint_interval="2s", proxied_clickhouse=True)
    proxy = HoldingProxy(running.proxy_port, running.ports["clickhouse"])
    try:
        with running:
            yield running, proxy
    finally:
        proxy.close()


def stored(stack: RunningStack) -> dict[str, tuple[int, int]]:
    """Rows and octets in the store, per probe."""
    rows = stack.store.rows("SELECT probe, count() AS n, sum(fwd_octets + rev_octets) AS o FROM flows GROUP BY probe")
    return {row["probe"]: (row["n"], row["o"]) for row in rows}


def test_killed_again_and_again_nothing_is_lost_or_doubled(hurt: tuple[RunningStack, HoldingProxy]) -> None:
    stack, proxy = hurt
    probes = ["kill-a", "kill-b"]
    for probe in probes:
        stack.enrol(probe, 2)
    chance = random.Random(os.environ.get("WEIR_SEED", "20"))
    command = [*generating(stack, KILLS * 400_000, *probes), "--workers", "2", "--rate", "30000"]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        for number in range(KILLS):
            if number % 3 == 0:
                proxy.holding.clear()
                proxy.armed.set()
                assert proxy.holding.wait(90), "no insert passed while waiting to kill between it and its answer"
                stack.kill("flink")
                proxy.armed.clear()
            else:
                time.sleep(chance.uniform(1, 12))
                stack.kill("flink")
        out, _ = writer.communicate(timeout=900)
    finally:
        writer.kill()  # after a failure the writer must not go on
    written = json.loads(out)
    eventually(lambda: kafka.lag(stack.stack.brokers) == 0, "all read", 300)
    expected = {probe: (one["records"], one["octets"]) for probe, one in written["probes"].items()}
    eventually(lambda: stored(stack) == expected, f"exactly {expected}", 120)
    log = (stack.home / "logs/flink.log").read_text(errors="replace")
    again = set(re.findall(r"recommit of token (\S+) ", log))
    print(f"{KILLS} kills, {len(proxy.held)} between an insert and its answer; inserted again under the same token:")
    for token in proxy.held:
        print(f"  {token} {'again' if token in again else 'NOT AGAIN'}")
    assert proxy.held
    assert set(proxy.held) <= again


def test_started_without_state_nothing_is_a_false_repeat(hurt: tuple[RunningStack, HoldingProxy]) -> None:
    stack, _ = hurt
    stack.enrol("fresh")
    before = stored(stack)
    stack.stop("flink")
    for folder in (stack.home / "data/flink").iterdir():
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    done = run(generating(stack, 400_000, "fresh"), timeout=600)
    assert done.status == 0, done.err
    written = json.loads(done.out)
    stack.start("flink")
    expected = before | {"fresh": (written["probes"]["fresh"]["records"], written["probes"]["fresh"]["octets"])}
    eventually(lambda: stored(stack) == expected, f"exactly {expected}", 120)


def capture_of(stack: RunningStack, probe: str, folder: Path, packets: int) -> tuple[Path, int]:
    """Enrol a probe, and write a capture of at least `packets` packets; returns its path and the exact number of
    packets."""
    path = folder / f"{probe}.pcap"
    stack.enrol(probe)
    return path, write_capture(path, packets=packets)


def test_clickhouse_away_loses_nothing(hurt: tuple[RunningStack, HoldingProxy], tmp_path: Path) -> None:
    stack, _ = hurt
    path, packets = capture_of(stack, "away", tmp_path, 6_000)
    with stack.without("clickhouse"):
        summary = stack.read("away", path)
        eventually(lambda: kafka.lag(stack.stack.brokers) == 0, "the jobs to have read all while the store is away")
    sums = stack.settled("away", packets, 120)
    assert sums == {"records": summary["records"], "packets": packets, "octets": summary["octets"]["in_flow_records"]}


def test_kafka_away_at_the_agents_start(hurt: tuple[RunningStack, HoldingProxy], tmp_path: Path) -> None:
    stack, _ = hurt
    path, packets = capture_of(stack, "early", tmp_path, 2_000)
    with stack.without("kafka"):
        command = stack.read_command("early", path)
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            waiting.wait(5)
            raise AssertionError(f"the agent gave up: {waiting.communicate()}")
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    assert out
    assert stack.settled("early", packets, 120)["packets"] == packets
