"""Messages that a reader refused, kept on `weir.dead-letters` with cause and origin in their headers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from rich.table import Table

from weir import kafka
from weir.brokers import Brokers
from weir.errors import WeirError
from weir.terminal import escaped

TOPIC = "weir.dead-letters"


@dataclass(frozen=True)
class DeadLetter:
    """One refused message: its origin, its cause, and its bytes."""

    offset: int
    at_ms: int
    cause: str
    topic: str
    partition: int
    origin_offset: int
    value: bytes
    cut: bool  # the message was too large to keep whole, so it cannot be put back


def read(brokers: Brokers) -> Iterator[DeadLetter]:
    """Every refused message that Kafka still keeps, oldest first."""
    consumer = Consumer(brokers.client({"group.id": "weir-dead-letters", "enable.auto.commit": False}))
    try:
        for place in kafka.partitions(brokers, TOPIC):
            low, high = consumer.get_watermark_offsets(place, timeout=5)
            consumer.assign([TopicPartition(place.topic, place.partition, low)])
            position = low
            while position < high:
                message = consumer.poll(10)
                if message is None:
                    raise WeirError(f"Kafka stopped answering while reading {TOPIC}", status=1)
                if message.error():
                    raise WeirError(f"reading {TOPIC}: {message.error()}", status=1)
                position = message.offset() + 1
                headers = {key: (value or b"").decode(errors="replace") for key, value in message.headers() or []}
                yield DeadLetter(
                    offset=message.offset(),
                    at_ms=message.timestamp()[1],
                    cause=headers.get("weir-cause", "unknown"),
                    topic=headers.get("weir-topic", ""),
                    partition=int(headers.get("weir-partition", -1)),
                    origin_offset=int(headers.get("weir-offset", -1)),
                    value=message.value() or b"",
                    cut="weir-truncated" in headers,
                )
    except KafkaException as error:
        raise WeirError(f"Kafka does not answer at {brokers}", hint="is the stack up? try: weir status") from error
    finally:
        consumer.close()


def table(letters: list[DeadLetter]) -> Table:
    """One row per message."""
    drawn = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("number", "when (UTC)", "from", "octets"):
        drawn.add_column(name, no_wrap=True)
    drawn.add_column("cause", overflow="fold")
    for letter in letters:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(letter.at_ms / 1000))
        origin = f"{letter.topic}/{letter.partition}@{letter.origin_offset}"
        drawn.add_row(str(letter.offset), when, origin, f"{len(letter.value):,}", escaped(letter.cause))
    return drawn


def send_back(brokers: Brokers, letters: list[DeadLetter]) -> int:
    """Put refused messages back on the topic and partition they came from; returns how many arrived.

    The jobs refuse a message again if they still cannot read it; if it was stored meanwhile, they recognise its
    sequence and drop it.
    """
    known = {(place.topic, place.partition) for place in kafka.partitions(brokers)}
    producer = Producer(brokers.client({"enable.idempotence": True}))
    arrived = 0

    def delivered(error: Any, _message: Any) -> None:
        nonlocal arrived
        arrived += error is None

    for letter in letters:
        if (letter.topic, letter.partition) in known and not letter.cut:
            producer.produce(letter.topic, letter.value, partition=letter.partition, on_delivery=delivered)
            producer.poll(0)
    producer.flush(30)
    return arrived
