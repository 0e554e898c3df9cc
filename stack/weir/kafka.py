"""Requests to Kafka: topics, lag, dead letters."""

from __future__ import annotations

import functools
import re
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from weir.brokers import Brokers
from weir.config import CHECKOUT
from weir.errors import WeirError

PROBE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
GROUP = "weir"


@functools.cache
def declared_topics(path: Path = CHECKOUT / "schemas/topics.yaml") -> list[dict[str, Any]]:
    """The topics of `schemas/topics.yaml`."""
    topics: list[dict[str, Any]] = yaml.safe_load(path.read_text())["topics"]
    return topics


def admin(brokers: Brokers) -> AdminClient:
    """A client that gives up after seconds, not minutes."""
    return AdminClient(brokers.client({"socket.timeout.ms": 5000}), logger=None)


def reachable(brokers: Brokers) -> bool:
    """Whether the broker answers."""
    try:
        admin(brokers).list_topics(timeout=2)
    except KafkaException:
        return False
    return True


def takes_probes(host: str, port: int, authority: Path) -> bool:
    """Whether the listener of the probes, at an address of this machine, takes a connection and proves who it is."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    checked = ssl.create_default_context(cafile=authority)
    checked.check_hostname = False
    try:
        with socket.create_connection((host, port), 2) as plain, checked.wrap_socket(plain):
            return True
    except OSError:
        return False


def create_topics(brokers: Brokers, probe: str | None = None, workers: int = 1) -> list[str]:
    """Create the shared topics (`probe` None) or those of one probe; returns the new ones.

    If a probe has fewer partitions than `workers`, this adds partitions; Kafka cannot remove any.
    """
    client = admin(brokers)
    try:
        present = client.list_topics(timeout=10).topics
    except KafkaException as error:
        raise WeirError(f"Kafka does not answer at {brokers}", hint="is the stack up? try: weir status") from error
    made = []
    for topic in declared_topics():
        per_probe = "<probe>" in topic["name"]
        if per_probe != (probe is not None):
            continue
        name = topic["name"].replace("<probe>", probe or "")
        partitions = workers if topic["partitions"] == "workers" else int(topic["partitions"])
        config = {key: str(value) for key, value in topic["config"].items()}
        try:
            if name not in present:
                client.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result()
                made.append(name)
            elif len(present[name].partitions) < partitions:
                client.create_partitions([NewPartitions(name, partitions)])[name].result()
        except KafkaException as error:
            # Another command may do the same at the moment.
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise WeirError(f"Kafka did not create {name}: {error}", hint="try again", status=1) from error
    return made


def configure_topics(brokers: Brokers) -> None:
    """Give the topics that are there the bounds that this version declares. Raises WeirError if Kafka refuses."""
    declared = {topic["name"]: topic["config"] for topic in declared_topics()}
    client = admin(brokers)
    changes = []
    try:
        for name in client.list_topics(timeout=10).topics:
            kind = re.sub(r"^(weir\.[a-z]+)\.[^.]+$", r"\1.<probe>", name)
            if config := declared.get(name) or declared.get(kind):
                entries = [
                    ConfigEntry(key, str(value), incremental_operation=AlterConfigOpType.SET)
                    for key, value in config.items()
                ]
                changes.append(ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries))
        for future in client.incremental_alter_configs(changes, request_timeout=30).values() if changes else []:
            future.result(60)
    except KafkaException as error:
        raise WeirError(f"Kafka did not take the bounds of topics: {error}", status=1) from error


def topics_of(probe: str) -> dict[str, bool]:
    """The names of a probe's own topics, and whether it writes to each; it reads the others."""
    return {
        topic["name"].replace("<probe>", probe): topic.get("probe") != "reads"
        for topic in declared_topics()
        if "<probe>" in topic["name"]
    }


def delete_topics(brokers: Brokers, probe: str) -> list[str]:
    """Delete a probe's own topics, with the messages in them; returns those that existed."""
    client = admin(brokers)
    try:
        present = client.list_topics(timeout=10).topics
        names = [name for name in topics_of(probe) if name in present]
        for future in client.delete_topics(names).values() if names else []:
            future.result()
    except KafkaException as error:
        raise WeirError(
            f"Kafka did not delete the topics of {probe}: {error}", hint="try: weir status", status=1
        ) from error
    return names


def partitions(brokers: Brokers, prefix: str = "weir.") -> list[TopicPartition]:
    """Every partition of the topics whose names begin with `prefix`."""
    topics = admin(brokers).list_topics(timeout=10).topics
    return [
        TopicPartition(name, number)
        for name, topic in topics.items()
        if name.startswith(prefix)
        for number in topic.partitions
    ]


def lag(brokers: Brokers, group: str = GROUP, probe: str = "") -> int | None:
    """Messages that the jobs have not yet committed, over the flows and counters topics of all probes, or of one; None if unknown."""
    try:
        kinds = ("weir.flows.", "weir.counters.")
        wanted = [
            place
            for place in partitions(brokers)
            if (place.topic in [kind + probe for kind in kinds] if probe else place.topic.startswith(kinds))
        ]
        consumer = Consumer(brokers.client({"group.id": group}))
        try:
            total = 0
            for place in consumer.committed(wanted, timeout=5) if wanted else []:
                low, high = consumer.get_watermark_offsets(place, timeout=5)
                total += high - (place.offset if place.offset >= 0 else low)
            return total
        finally:
            consumer.close()
    except KafkaException:
        return None


def cluster(brokers: Brokers) -> str | None:
    """The id of Kafka's cluster, drawn at random for each new one; None if it does not answer."""
    try:
        found: str | None = admin(brokers).list_topics(timeout=10).cluster_id
    except KafkaException:
        return None
    return found


def begins(brokers: Brokers) -> dict[tuple[str, int], int]:
    """The offset of the oldest message of every partition of Weir's topics."""
    consumer = Consumer(brokers.client({"group.id": GROUP}))
    try:
        return {
            (place.topic, place.partition): consumer.get_watermark_offsets(place, timeout=10)[0]
            for place in partitions(brokers)
        }
    finally:
        consumer.close()


def forget_group(brokers: Brokers) -> None:
    """Remove the offsets that the jobs committed; no job may run. Raises WeirError if Kafka refuses it."""
    client = admin(brokers)
    try:
        # A new Kafka has no topic of offsets: a request to delete some might wait for it.
        found = client.list_consumer_groups(request_timeout=10).result(20)
        if GROUP in {one.group_id for one in found.valid}:
            client.delete_consumer_groups([GROUP], request_timeout=30)[GROUP].result(60)
    except (KafkaException, TimeoutError) as error:
        raise WeirError(f"Kafka did not remove the offsets of the jobs: {error}", status=1) from error


def compacted(brokers: Brokers, topic: str) -> dict[str, bytes]:
    """The newest value of each key of a compacted topic of one partition; empty if the topic does not exist."""
    consumer = Consumer(brokers.client({"group.id": "weir-compacted", "enable.auto.commit": False}))
    found: dict[str, bytes] = {}
    try:
        place = TopicPartition(topic, 0)
        if topic not in consumer.list_topics(timeout=10).topics:
            return found
        low, high = consumer.get_watermark_offsets(place, timeout=5)
        consumer.assign([TopicPartition(topic, 0, low)])
        # Where compaction removed the last messages, the position moves past them without a message.
        while low < high:
            for message in consumer.consume(10_000, timeout=0.5):
                if message.error():
                    raise WeirError(f"reading {topic}: {message.error()}", status=1)
                key = (message.key() or b"").decode(errors="replace")
                if message.value():
                    found[key] = message.value()
                else:
                    found.pop(key, None)
            low = max(low, consumer.position([place])[0].offset)
    except KafkaException as error:
        raise WeirError(f"Kafka does not answer at {brokers}", hint="is the stack up? try: weir status") from error
    finally:
        consumer.close()
    return found


def publish(
    brokers: Brokers,
    topic: str,
    messages: Sequence[tuple[str, bytes | None]],
    progress: Callable[[int], None] = lambda _done: None,
) -> int:
    """Publish messages (key, value; None removes the key) to partition 0, in order; returns how many arrived."""
    settings = {
        "enable.idempotence": True,
        "message.timeout.ms": 30_000,
        "queue.buffering.max.messages": 1_000_000,
    }
    producer = Producer(brokers.client(settings))
    arrived = 0

    def delivered(error: Any, _message: Any) -> None:
        nonlocal arrived
        arrived += error is None

    for number, (key, value) in enumerate(messages, 1):
        producer.produce(topic, value, key.encode(), partition=0, on_delivery=delivered)
        if number % 10_000 == 0:
            producer.flush(35)
            progress(arrived)
    producer.flush(35)
    progress(arrived)
    return arrived
