"""Rubbish on the topics, parts that are away: counted, kept or retried; nothing accepted is lost or stored twice."""

from __future__ import annotations

import subprocess
from pathlib import Path

from weir import kafka
from weir.demo_traffic import write_capture

from harness import AGENT, RunningStack, batch_volume, decoded, eventually


def test_poisoned_messages_are_set_aside(stack: RunningStack, tmp_path: Path) -> None:
    packets = write_capture(tmp_path / "poison.pcap", packets=2_000)
    stack.enrol("poison")
    stack.read("poison", tmp_path / "poison.pcap")
    future = decoded([stack.messages("weir.flows.poison")[0][1]])[0]
    future.major = 2
    other = decoded([stack.messages("weir.flows.poison")[0][1]])[0]
    other.probe = "somebody-else"
    poison = {bytes(range(200, 256)) * 3, future.SerializeToString(), other.SerializeToString(), b""}
    stack.publish("weir.flows.poison", sorted(poison))

    def refused() -> list[kafka.DeadLetter]:
        return [one for one in kafka.dead_letters(stack.stack.brokers) if one.topic == "weir.flows.poison"]

    letters = eventually(lambda: refused() if len(refused()) >= len(poison) else None, "four dead letters")
    assert {letter.value for letter in letters} == poison
    assert len({letter.cause for letter in letters}) >= 3, letters
    assert stack.settled("poison", packets)["packets"] == packets
    listed = stack.weir("dead-letters", "list")
    assert listed.status == 0
    assert "weir.flows.poison" in listed.out


def test_dead_letters_come_back_once(stack: RunningStack, tmp_path: Path) -> None:
    """A batch refused for its version, then understood: here by putting the version right."""
    packets = write_capture(tmp_path / "later.pcap", packets=2_000)
    for probe in ("donor", "later"):
        stack.enrol(probe)
    stack.read("donor", tmp_path / "later.pcap")
    messages = decoded(value for _, value in stack.messages("weir.flows.donor"))
    for message in messages:
        message.probe = "later"
    held = next(m for m in messages if m.WhichOneof("body") == "batch")
    stack.publish("weir.flows.later", [m.SerializeToString() for m in messages if m is not held])
    stack.settled("later", packets - batch_volume(held)[0])
    # As if the reader had been renewed: the letter lies in the topic with its origin, and is understood today.
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": stack.stack.brokers})
    headers = {
        "weir-cause": "major: 2, this reader knows 1",
        "weir-topic": "weir.flows.later",
        "weir-partition": "0",
        "weir-offset": "0",
    }
    producer.produce(kafka.DEAD_LETTERS, held.SerializeToString(), headers=headers)
    producer.flush(10)
    for _ in range(2):
        done = stack.weir("dead-letters", "replay", "--cause", "major")
        assert done.status == 0, done.out + done.err
    assert stack.settled("later", packets)["packets"] == packets
    eventually(
        lambda: sum(row["repeated_batches"] for row in stack.ledger("later")) >= 1, "the second replay recognised"
    )
    assert stack.sums("later")["packets"] == packets


def test_clickhouse_away_loses_nothing(stack: RunningStack, tmp_path: Path) -> None:
    packets = write_capture(tmp_path / "away.pcap", packets=6_000)
    stack.enrol("away")
    stack.stop("clickhouse")
    try:
        summary = stack.read("away", tmp_path / "away.pcap")
        eventually(lambda: kafka.lag(stack.stack.brokers) == 0, "the jobs to have read all while the store is away")
    finally:
        stack.start("clickhouse")
    sums = stack.settled("away", packets, 120)
    assert sums == {"records": summary["records"], "packets": packets, "octets": summary["octets"]["in_flow_records"]}


def test_kafka_away_at_the_agents_start(stack: RunningStack, tmp_path: Path) -> None:
    packets = write_capture(tmp_path / "early.pcap", packets=2_000)
    stack.enrol("early")
    stack.stop("kafka")
    try:
        command = [
            str(AGENT),
            "read",
            str(tmp_path / "early.pcap"),
            "--to",
            "kafka",
            "--probe",
            "early",
            "--brokers",
            stack.stack.brokers,
            "--summary",
            "json",
        ]
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            waiting.wait(5)
            raise AssertionError(f"the agent gave up: {waiting.communicate()}")
        except subprocess.TimeoutExpired:
            pass
    finally:
        stack.start("kafka")
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    assert out
    assert stack.settled("early", packets, 120)["packets"] == packets
