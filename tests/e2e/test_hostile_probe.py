"""What somebody with a probe's credentials, or with nothing but the network, can do to the broker and the jobs."""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from harness import RunningStack, eventually, schemas
from probe_login import RawLogin, login
from weir import kafka
from weir.demo_traffic import write_capture
from weir.services import REQUEST_OCTETS

#: Octets of a message once decompressed: more than the heaps of the jobs and the broker hold several of.
LARGE = 100_000_000


def sent(properties: dict[str, Any], topic: str, value: bytes, headers: int = 0) -> str:
    """Kafka's answer to one message."""
    answers: list[str] = []

    def answered(error: KafkaError | None, _message: Message) -> None:
        answers.append("written" if error is None else error.name())

    bounds = {"message.max.bytes": 1_000_000_000, "message.timeout.ms": 120_000, "socket.timeout.ms": 60_000}
    producer = Producer({**properties, **bounds})
    producer.produce(topic, value, partition=0, headers=[("", b"")] * headers, on_delivery=answered)
    producer.flush(150)
    return answers[0]


def of_empty_flows(count: int) -> bytes:
    """A message of two octets for each flow."""
    kind = schemas().FlowMessage
    start = int(time.time()) * 1000
    message = kind(major=1, probe="hostile", epoch=1, sequence=1, interval_start_ms=start, interval_ms=1000)
    for _ in range(count):
        message.batch.flows.add()
    return bytes(message.SerializeToString())


def stored(stack: RunningStack, probe: str) -> int:
    """Packets of a probe in the store."""
    return int(stack.sums(probe)["packets"])


def test_no_message_of_a_probe_stops_the_jobs_or_the_broker(stack: RunningStack, tmp_path: Path) -> None:
    for probe in ("hostile", "beside"):
        stack.enrol(probe)
    before = stack.pid("flink"), stack.pid("kafka")
    packets = write_capture(tmp_path / "first.pcap", 400, 20)
    stack.read("beside", tmp_path / "first.pcap")
    own = login(stack.bundle("hostile"))
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        answer = sent({**own, "compression.type": codec}, "weir.flows.hostile", bytes(LARGE))
        assert (codec, answer) == (codec, "MSG_SIZE_TOO_LARGE")
    assert sent(own, "weir.counters.hostile", b"", headers=150_000) == "MSG_SIZE_TOO_LARGE"
    flows = of_empty_flows(1_900_000)
    assert [sent(own, "weir.flows.hostile", flows) for _ in range(4)] == ["written"] * 4
    client = AdminClient(own)
    for question in (OffsetSpec.max_timestamp(), OffsetSpec.for_timestamp(1)):
        asked = client.list_offsets({TopicPartition("weir.flows.hostile", 0): question})
        assert all(0 <= answer.result(60).offset < 4 for answer in asked.values())

    packets += write_capture(tmp_path / "second.pcap", 600, 20)
    stack.read("beside", tmp_path / "second.pcap")
    eventually(lambda: stored(stack, "beside") == packets, "records of the probe beside it")
    assert (stack.pid("flink"), stack.pid("kafka")) == before
    assert "too_many_parts" in (stack.home / "logs/flink.log").read_text()


def test_the_broker_keeps_nothing_about_the_producers_that_a_probe_invents(stack: RunningStack) -> None:
    """It remembers an id for each that a log holds, also when it reads the log again."""
    stack.enrol("hostile")
    own = {**login(stack.bundle("hostile")), "enable.idempotence": True}
    assert sent(own, "weir.counters.hostile", b"x") == "written"
    log = (stack.home / "data/kafka/weir.counters.hostile-0/00000000000000000000.log").read_bytes()
    kept = set()
    while log:
        (length,) = struct.unpack(">i", log[8:12])
        kept.add(struct.unpack(">qhi", log[43:57]))  # id, epoch and sequence of the batch
        log = log[12 + length :]
    assert kept == {(-1, -1, -1)}


def test_requests_that_are_never_finished_keep_nobody_waiting(stack: RunningStack, tmp_path: Path) -> None:
    """Stolen credentials, used from several addresses, announce requests of far more memory than the broker has for them."""
    for probe in ("stolen", "waiting"):
        stack.enrol(probe)
    allowed = stack.stack.config.kafka.address_connections
    held = []
    try:
        for address in range(2, 7):
            for _ in range(allowed):
                held.append(one := RawLogin(stack.bundle("stolen"), f"127.0.0.{address}"))
                one.begin(REQUEST_OCTETS)
        began = time.monotonic()
        assert sent(login(stack.bundle("waiting")), "weir.flows.waiting", b"x") == "written"
        probe_s = time.monotonic() - began
        began = time.monotonic()
        assert kafka.reachable(stack.stack.brokers)
        print(f"the other probe waited {probe_s:.1f} s, the command {time.monotonic() - began:.1f} s")
        packets = write_capture(tmp_path / "waiting.pcap", 400, 20)
        stack.read("waiting", tmp_path / "waiting.pcap")
        eventually(lambda: stored(stack, "waiting") == packets, "records of the other probe")
        kept = sum(is_open(one.socket) for one in held)
        assert 0 < kept < len(held), "some requests get memory, and those beyond their share are refused"
    finally:
        for one in held:
            one.close()


@pytest.mark.parametrize("octets", [b"\x16", b""])
def test_one_address_keeps_few_connections(stack: RunningStack, octets: bytes) -> None:
    stack.enrol("beside")
    allowed = stack.stack.config.kafka.address_connections
    held = []
    try:
        for _ in range(3 * allowed):
            one = socket.create_connection(("127.0.0.1", stack.ports["kafka_probes"]), 20, ("127.0.0.2", 0))
            one.sendall(octets)
            held.append(one)
        eventually(lambda: sum(map(is_open, held)) <= allowed, "connections beyond the bound are closed")
        assert sum(map(is_open, held)) > 0
        assert sent(login(stack.bundle("beside")), "weir.flows.beside", b"x") == "written"
    finally:
        for one in held:
            one.close()


def is_open(connection: socket.socket) -> bool:
    """Whether the broker has not closed a connection on which it sends nothing."""
    connection.settimeout(0.01)
    try:
        return connection.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False
