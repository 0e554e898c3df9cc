"""nProbe's JSON as input: over ZeroMQ and from Kafka into `weir-probe collect`, and on to SQL.

The agent's own export sends over ZeroMQ; the test generates records in Kafka from nProbe's public list of elements.
"""

from __future__ import annotations

import json
import random
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from capture_traces import made_frames
from harness import AGENT, RunningStack, eventually, free_ports, run
from weir import kafka

TOPIC = "nprobe-flows"


@contextmanager
def collector(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """`weir-probe collect`, shut down cleanly if it still runs; its output is in the folder's files `out` and `log`."""
    (folder / "log").unlink(missing_ok=True)
    command = [str(AGENT), "collect", "--interval", "1s", "--state-dir", str(folder), "--summary", "json", *words]
    process = subprocess.Popen(command, stdout=(folder / "out").open("wb"), stderr=(folder / "log").open("wb"))
    try:
        said(folder, "listening on")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def said(folder: Path, what: str) -> None:
    """Wait until the collector's log contains a text."""
    eventually(lambda: what in (folder / "log").read_text(), what)


def capture(path: Path, packets: int) -> None:
    """A capture of generated packets, a thousandth of a second apart."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
        for number, frame in enumerate(made_frames(random.Random(7), packets)):
            at = (1_600_000_000 + number // 1000, number % 1000 * 1000)
            file.write(struct.pack("<IIII", *at, len(frame), len(frame)) + frame)


def published(folder: Path) -> dict[str, int]:
    """Sums of the records that a collector printed."""
    sums = {"packets": 0, "octets": 0}
    for line in (folder / "out").read_text().splitlines():
        record = json.loads(line)
        for what in sums:
            sums[what] += record[f"fwd_{what}"] + record[f"rev_{what}"]
    return sums


@pytest.mark.parametrize("labels", [False, True])
def test_what_an_agent_publishes_over_zeromq_is_taken_in(labels: bool, tmp_path: Path) -> None:
    """Connected to the publisher; keys are numbers or names."""
    port = free_ports(1)[0]
    capture(tmp_path / "trace.pcap", 20_000)
    with collector(tmp_path, "--nprobe-zmq", f"tcp://127.0.0.1:{port}", "--to", "jsonl"):
        words = [f"--export=nprobe-zmq=tcp://127.0.0.1:{port}", "--template=@NTOPNG@", "--summary=json"]
        words += ["--json-labels"] if labels else []
        done = run([str(AGENT), "read", str(tmp_path / "trace.pcap"), *words])
        assert done.status == 0, done.err
        sent = json.loads(done.out)
        expected = {what: sent[what]["in_flow_records"] for what in ("packets", "octets")}
        assert expected["packets"] == 20_000
        said(tmp_path, "nProbe publishes on")
        time.sleep(2)  # The publisher's messages pass through the queues of two processes.
    assert published(tmp_path) == expected
    summary = json.loads((tmp_path / "log").read_text().splitlines()[-1])
    assert summary["nprobe"]["messages"]["flow"] > 0
    assert (summary["lost"]["records_or_datagrams"], summary["refused"]) == (0, {})
    assert set(summary["nprobe"]["elements_left_out"]) == {"DIRECTION", "FLOW_SOURCE"}


def test_a_collector_that_listens_hears_who_connects(tmp_path: Path) -> None:
    """`tcp://*:PORTc` in ntopng's notation, and nProbe's --zmq-probe-mode."""
    port = free_ports(1)[0]
    capture(tmp_path / "trace.pcap", 2000)
    with collector(tmp_path, "--nprobe-zmq", f"tcp://*:{port}c", "--to", "jsonl"):
        words = ["-i", str(tmp_path / "trace.pcap"), "-n", "none", "--zmq", f"tcp://127.0.0.1:{port}"]
        done = run([str(AGENT), "nprobe", *words, "--zmq-probe-mode", "-T", "@NTOPNG@"])
        assert done.status == 0, done.err
        said(tmp_path, "nProbe publishes on")
        time.sleep(2)
    # An old capture with its own times: the collector replaces them with the time of arrival, and counts this.
    assert published(tmp_path)["packets"] == 2000
    summary = json.loads((tmp_path / "log").read_text().splitlines()[-1])
    assert set(summary["refused"]) == {"time_clamped"}


def test_inputs_that_cannot_be_are_refused_in_a_line(tmp_path: Path) -> None:
    """Exit status 2, and the option to use instead."""
    for words, what in (
        (["--nprobe-zmq", "tcp://*:5556"], "end it with c"),
        (["--nprobe-kafka", "127.0.0.1:9092"], "brokers;topic"),
        (["--nprobe-kafka", "127.0.0.1:9092;flows", "--nprobe-kafka-conf", "nothing"], "not of the form key=value"),
        ([], "--nprobe-kafka or --nprobe-zmq"),
    ):
        done = run([str(AGENT), "collect", "--to", "none", "--state-dir", str(tmp_path), *words])
        assert done.status == 2, done.err
        assert what in done.err


class Nprobe:
    """Writes records to a topic, each of its own flow."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack, self.flows, self.packets, self.octets = stack, 0, 0, 0

    def write(self, count: int) -> None:
        """This many records: with names and numbers for keys, with times and without, alone and several in a message."""
        messages: list[bytes] = []
        for _ in range(count):
            number = self.flows
            now = time.time()
            source, port = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}", 20_000 + number % 20_000
            counts = (3, 300 + number % 1000, 2, 2000)
            if number % 2:
                record = {"8": source, "12": "198.51.100.7", "7": port, "11": "443", "4": 6, "35632.118": "91.178"}
                record |= dict(zip(("2", "1", "24", "23"), counts, strict=True)) | {"130": "192.0.2.77", "34": 1}
            else:
                record = {"IPV4_SRC_ADDR": source, "IPV4_DST_ADDR": "198.51.100.7", "L4_SRC_PORT": port}
                record |= {"L4_DST_PORT": 443, "PROTOCOL": 6, "SRC_TOS": 0, "SAMPLING_RATE": 1}
                record |= dict(zip(("IN_PKTS", "IN_BYTES", "OUT_PKTS", "OUT_BYTES"), counts, strict=True))
                record |= {"FIRST_SWITCHED": int(now) - 2, "LAST_SWITCHED": int(now)}
            self.flows += 1
            self.packets += counts[0] + counts[2]
            self.octets += counts[1] + counts[3]
            if number % 5 == 4:
                messages[-1] = b"[" + messages[-1] + b"," + json.dumps(record).encode() + b"]"
            else:
                messages.append(json.dumps(record).encode())
        for partition in (0, 1):
            self.stack.publish(TOPIC, messages[partition::2], partition)


@pytest.mark.long
def test_a_restart_in_mid_stream_loses_nothing_of_a_topic(stack: RunningStack, tmp_path: Path) -> None:
    """Shut down cleanly, the collector counts everything once; killed, it reads again the messages it had not
    published.
    """
    admin = kafka.admin(stack.stack.brokers)
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(30)
    nprobe = Nprobe(stack)
    nprobe.write(10)  # Older than the collector's first start, so not read.
    nprobe = Nprobe(stack)
    try:
        stack.enrol("nprobes")
        words = ["--credentials", str(stack.bundle("nprobes"))]
        words += [word for property in stack.login for word in ("--nprobe-kafka-conf", property)]
        words += ["--nprobe-kafka", f"{stack.stack.brokers};{TOPIC};1;snappy"]
        with collector(tmp_path, *words):
            said(tmp_path, "of 2 partitions")
            time.sleep(3)  # The collector asks where the topic ends.
            nprobe.write(3000)
            time.sleep(1.5)
            nprobe.write(2000)
        summary = json.loads((tmp_path / "out").read_text())
        assert summary["packets"] > 0
        nprobe.write(1000)
        with collector(tmp_path, *words):
            said(tmp_path, "of 2 partitions")
            nprobe.write(500)
            eventually(lambda: stack.sums("nprobes")["packets"] >= nprobe.packets, "everything stored")
        sums = stack.settled("nprobes", nprobe.packets)
        assert (sums["packets"], sums["octets"]) == (nprobe.packets, nprobe.octets)
        with collector(tmp_path, *words) as process:
            said(tmp_path, "of 2 partitions")
            nprobe.write(2000)
            time.sleep(1.5)
            nprobe.write(1000)
            process.kill()
            process.wait()
        nprobe.write(1000)
        with collector(tmp_path, *words):
            flows = "SELECT uniqExact(src_addr) FROM flows WHERE probe = 'nprobes'"
            eventually(lambda: stack.one(flows) == nprobe.flows, "every flow stored")
        assert stack.sums("nprobes")["packets"] >= nprobe.packets
        exporters = stack.store.rows(
            "SELECT toString(exporter_addr) AS exporter, any(application_id) AS application, "
            "uniqExact(src_addr) AS flows FROM flows WHERE probe = 'nprobes' GROUP BY exporter ORDER BY exporter"
        )
        assert [(row["exporter"], row["application"], row["flows"]) for row in exporters] == [
            ("::ffff:127.0.0.1", 0, nprobe.flows // 2),
            ("::ffff:192.0.2.77", 178, nprobe.flows // 2),
        ]
    finally:
        admin.delete_topics([TOPIC])[TOPIC].result(30)
