"""Invalid messages on the topics: counted, kept, and replayed once a reader understands them; nothing is stored twice."""

from __future__ import annotations

from pathlib import Path

from harness import RunningStack, batch_volume, decoded, eventually
from weir import dead_letters
from weir.demo_traffic import write_capture


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

    def refused() -> list[dead_letters.DeadLetter]:
        return [one for one in dead_letters.read(stack.stack.brokers) if one.topic == "weir.flows.poison"]

    letters = eventually(lambda: refused() if len(refused()) >= len(poison) else None, "four dead letters")
    assert {letter.value for letter in letters} == poison
    assert len({letter.cause for letter in letters}) >= 3, letters
    assert stack.settled("poison", packets)["packets"] == packets
    listed = stack.weir("dead-letters", "list")
    assert listed.status == 0
    assert "weir.flows.poison" in listed.out


def test_dead_letters_come_back_once(stack: RunningStack, tmp_path: Path) -> None:
    """A batch refused for its version and later understood, here after correcting the version."""
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
    # As if a newer reader ran: the dead letter lies in the topic with its origin, and is understood today.
    from confluent_kafka import Producer

    producer = Producer(stack.stack.brokers.client())
    headers = {
        "weir-cause": "major: 2, this reader knows 1",
        "weir-topic": "weir.flows.later",
        "weir-partition": "0",
        "weir-offset": "0",
    }
    producer.produce(dead_letters.TOPIC, held.SerializeToString(), headers=headers)
    producer.flush(10)
    for _ in range(2):
        done = stack.weir("dead-letters", "replay", "--cause", "major")
        assert done.status == 0, done.out + done.err
    assert stack.settled("later", packets)["packets"] == packets
    eventually(
        lambda: sum(row["repeated_batches"] for row in stack.ledger("later")) >= 1, "the second replay recognised"
    )
    assert stack.sums("later")["packets"] == packets
