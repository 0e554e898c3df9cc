"""Orders to a probe's agent, on the compacted topic `weir.control.<probe>`: signed with the stack's key (Ed25519, RFC 8032).

`secrets/orders.pem` holds the key; its public half is in each probe's credentials.
"""

from __future__ import annotations

import base64
import hashlib
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from google.protobuf.message import DecodeError

from weir import audit, kafka, locks, private
from weir.config import Stack
from weir.errors import WeirError
from weir.messages.alert_pb2 import Alert
from weir.messages.control_pb2 import FilterOrder, Order, SignedOrder
from weir.messages.counters_pb2 import CounterMessage

#: Key of the orders on filter sets in the topic.
FILTERS = "filters"
#: What is signed begins with these octets.
_PURPOSE = b"weir.order.1"
#: Octets of an order's text; the topic takes 256 KiB.
_LONGEST = 200_000
#: Messages at the end of a partition in which the newest counters are looked for.
_LOOKED_AT = 3


@dataclass(frozen=True)
class Answer:
    """What an agent did with an order: the start of the first interval in which it was in force (ms), or its refusal."""

    since_ms: int = 0
    refusal: str = ""


def public_key(stack: Stack) -> str:
    """The public half of the stack's key of orders: 32 octets in base 64. Makes the key if there is none."""
    raw = _key(stack).public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return base64.b64encode(raw).decode()


def checked(text: str) -> str:
    """The text of a file with a section [filters], as agents read it. Raises WeirError if it is none."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WeirError(f"the file is no TOML: {error}") from error
    if set(found) != {"filters"} or not isinstance(found["filters"], dict):
        raise WeirError(
            "the file needs one section, [filters], as in an agent's configuration",
            hint='for example: [filters.sets.web] and below it http = "tcp port 80"',
        )
    if len(text.encode()) > _LONGEST:
        raise WeirError(f"the file has more than {_LONGEST:,} bytes")
    return text


def newest(stack: Stack, probe: str) -> Order | None:
    """The order on filter sets that was issued last; None if there was none, or somebody else wrote rubbish over it."""
    value = kafka.compacted(stack.brokers, topic(probe)).get(FILTERS)
    try:
        return Order.FromString(SignedOrder.FromString(value).order) if value else None
    except DecodeError:
        return None


def in_force(stack: Stack, probe: str) -> int:
    """The number of the order that the agent's newest counters name; 0 if there is none. An agent keeps its order when its
    probe is removed and enrolled again, and the topic is new.
    """
    name = f"weir.counters.{probe}"
    consumer = Consumer(stack.brokers.client({"group.id": "weir-answers", "enable.auto.commit": False}))
    newest_ms, number = 0, 0
    try:
        for place in kafka.partitions(stack.brokers, name):
            low, high = consumer.get_watermark_offsets(place, timeout=10)
            if place.topic != name or low == high:
                continue
            consumer.assign([TopicPartition(name, place.partition, max(low, high - _LOOKED_AT))])
            for message in consumer.consume(_LOOKED_AT, timeout=2):
                counters = _counters(message)
                if counters and counters.interval_start_ms >= newest_ms:
                    newest_ms, number = counters.interval_start_ms, counters.order
    except KafkaException as error:
        raise WeirError(f"Kafka does not answer at {stack.brokers}", hint="try: weir status") from error
    finally:
        consumer.close()
    return number


def issue(stack: Stack, probe: str, toml: str, issued_by: str) -> Order:
    """Order a probe to use these filter sets (the text of a file; empty: those of its configuration). The audit has an entry
    on it first. Raises WeirError.
    """
    # Two orders at once would bear one number, and each would be told that it is in force.
    with locks.held(stack, f"orders-{probe}"):
        last = newest(stack, probe)
        number = max(time.time_ns() // 1_000_000, last.number + 1 if last else 0)
        order = Order(major=1, probe=probe, number=number, issued_by=issued_by, filters=FilterOrder(toml=toml))
        audit.note(
            stack,
            "order",
            {
                "probe": probe,
                "order": number,
                "filters": "sets" if toml else "reset",
                "sha256": hashlib.sha256(toml.encode()).hexdigest(),
            },
        )
        if kafka.publish(stack.brokers, topic(probe), [(FILTERS, sign(stack, order))]) != 1:
            raise WeirError(f"{topic(probe)} did not accept the order", hint="try: weir status", status=1)
    return order


def sign(stack: Stack, order: Order) -> bytes:
    """The message that carries the order."""
    text = order.SerializeToString(deterministic=True)
    return SignedOrder(order=text, signature=_key(stack).sign(_PURPOSE + text)).SerializeToString()


def topic(probe: str) -> str:
    """The topic of the orders to a probe."""
    return f"weir.control.{probe}"


class Answers:
    """What an agent says from now on: its counters name the order in force, its alerts an order that it refused."""

    def __init__(self, stack: Stack, probe: str) -> None:
        self._consumer = Consumer(stack.brokers.client({"group.id": "weir-answers", "enable.auto.commit": False}))
        counters, alerts = f"weir.counters.{probe}", f"weir.alerts.{probe}"
        places = [place for place in kafka.partitions(stack.brokers, counters) if place.topic == counters]
        places.append(TopicPartition(alerts, 0))
        try:
            for place in places:
                place.offset = self._consumer.get_watermark_offsets(place, timeout=10)[1]
            self._consumer.assign(places)
        except KafkaException as error:
            self._consumer.close()
            raise WeirError(f"Kafka does not answer at {stack.brokers}", hint="try: weir status") from error

    def close(self) -> None:
        """Stop listening."""
        self._consumer.close()

    def wait(self, number: int, patience_s: float, waiting: Callable[[], None] = lambda: None) -> Answer | None:
        """The agent's answer to this order; None if there is none within `patience_s`."""
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            waiting()
            for message in self._consumer.consume(100, timeout=0.2):
                if message.error():
                    continue
                if message.topic().startswith("weir.alerts."):
                    alert = _alert(message)
                    if alert and alert.reason == "order_refused" and alert.values.get("order") == number:
                        return Answer(refusal=alert.text)
                    continue
                counters = _counters(message)
                if counters and counters.order == number:
                    return Answer(since_ms=counters.interval_start_ms)
        return None


def _alert(message: Message) -> Alert | None:
    """None if it is none: whoever has the probe's credentials writes there."""
    try:
        return Alert.FromString(message.value() or b"")
    except DecodeError:
        return None


def _counters(message: Message) -> CounterMessage | None:
    """As `_alert`."""
    try:
        return None if message.error() else CounterMessage.FromString(message.value() or b"")
    except DecodeError:
        return None


def _key(stack: Stack) -> Ed25519PrivateKey:
    path = stack.home / "secrets/orders.pem"
    if not path.exists():
        made = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        private.write(path, made)
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, Ed25519PrivateKey):
        raise WeirError(
            f"{path} is no key of Ed25519", hint="move it away: weir makes another; then enrol probes again"
        )
    return key
