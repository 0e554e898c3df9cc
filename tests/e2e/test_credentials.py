"""Credentials of probes: what one who holds them may do in Kafka, how they are replaced and taken, and that nothing of a
probe is lost meanwhile.
"""

from __future__ import annotations

import itertools
import socket
import ssl
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from harness import AGENT, RunningStack, collector, eventually, free_ports, run
from probe_login import login
from router_messages import netflow5
from weir import credentials, kafka, orders
from weir import stack as stacks
from weir.authority import issue
from weir.certificates import Certificates
from weir.commands import probes as commands
from weir.config import Agent
from weir.errors import WeirError
from weir.services import REAUTHENTICATION_S, limit_probes


def written(properties: dict[str, Any], topic: str) -> str:
    """Kafka's answer to one message: `written`, or the name of the error."""
    answers: list[str] = []

    def answered(error: KafkaError | None, _message: Message) -> None:
        answers.append("written" if error is None else error.name())

    producer = Producer({**properties, "message.timeout.ms": 8_000})
    producer.produce(topic, b"forged", partition=0, on_delivery=answered)
    producer.flush(10)
    return answers[0]


def refusal(act: Callable[[], Any]) -> str:
    """The name of the error with which Kafka refuses an act."""
    with pytest.raises(KafkaException) as refused:
        act()
    return str(refused.value.args[0].name())


@pytest.fixture
def exporter() -> Iterator[Callable[[int], int]]:
    """Sends a flow by NetFlow v5 to a port; returns its packets."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        numbers = itertools.count()

        def send(port: int) -> int:
            sender.sendto(netflow5(next(numbers), 7, 700), ("127.0.0.1", port))
            return 7

        yield send


def test_a_probe_whose_password_is_replaced_and_taken_loses_nothing(
    stack: RunningStack, tmp_path: Path, exporter: Callable[[int], int]
) -> None:
    """An agent that runs takes new credentials without a restart; without valid ones, its records wait in the spool."""
    probe = "rotated"
    stack.enrol(probe)
    kept, sent, port = stack.bundle(probe), 0, free_ports(1)[0]

    def enrol_with(words: list[str]) -> None:
        bundle = tmp_path / f"{words[1]}.bundle"
        done = stack.weir(*words, "--bundle", str(bundle))
        assert done.status == 0, done.err
        done = run([str(AGENT), "enrol", str(bundle), "--to", str(kept)])
        assert done.status == 0, done.err
        bundle.unlink()

    def stays_away() -> None:
        before = stack.sums(probe)["packets"]
        nonlocal sent
        sent += exporter(port)
        time.sleep(REAUTHENTICATION_S + 6)
        assert stack.sums(probe)["packets"] == before < sent

    with collector(stack, port, tmp_path, probe):
        sent += exporter(port)
        eventually(lambda: stack.sums(probe)["packets"] == sent, "the first flow stored")
        # The earlier password is worth nothing at once for a new connection, and soon for that of the agent.
        earlier = login(kept)
        assert stack.weir("probe", "rotate", probe).status == 0
        assert written(earlier, f"weir.flows.{probe}") != "written"
        time.sleep(REAUTHENTICATION_S + 2)
        stays_away()
        enrol_with(["probe", "rotate", probe])
        eventually(lambda: stack.sums(probe)["packets"] == sent, "the spool stored after the rotation")
        # Taken: at once, also for the connection that there is.
        assert stack.weir("probe", "revoke", probe, "--yes").status == 0
        stays_away()
        assert not credentials.has(stack.stack, probe)
        enrol_with(["probe", "rotate", probe])
        eventually(lambda: stack.sums(probe)["packets"] == sent, "the spool stored after the revocation")
    rows = eventually(
        lambda: (found := stack.ledger(probe)) and sum(row["stored_packets"] for row in found) == sent and found,
        "the ledger complete",
    )
    assert not any(row["lost_packets"] or row["missing_batches"] for row in rows)


def test_stolen_credentials_reach_the_probe_s_own_topics_alone(stack: RunningStack) -> None:
    for probe in ("stolen", "honest"):
        stack.enrol(probe)
    own = login(stack.bundle("stolen"))
    for topic in ("weir.flows.stolen", "weir.counters.stolen", "weir.alerts.stolen"):
        assert written(own, topic) == "written"
    others = [f"weir.{kind}.honest" for kind in ("flows", "counters", "alerts", "control")]
    for topic in (*others, "weir.control.stolen", "weir.alerts", "weir.probes", "weir.prefixes"):
        assert written(own, topic) == "TOPIC_AUTHORIZATION_FAILED", topic

    def reads(topic: str) -> str:
        consumer = Consumer({**own, "group.id": "stolen", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            # Reading needs no group of consumers; the probe may use none.
            while (message := consumer.poll(10)) is not None:
                error = message.error()
                if error is None or error.name() != "GROUP_AUTHORIZATION_FAILED":
                    return "read" if error is None else str(error.name())
            return "nothing"
        finally:
            consumer.close()

    for topic in (*others, "weir.flows.stolen", "weir.counters.stolen"):
        assert kafka.publish(stack.stack.brokers, topic, [("key", b"secret")]) == 1
        assert reads(topic) != "read", topic
    assert reads("weir.alerts") != "read"
    orders.issue(stack.stack, "stolen", "", "test")
    assert reads("weir.control.stolen") == "read"
    # It does not even learn what there is.
    assert set(AdminClient(own).list_topics(timeout=10).topics) == set(kafka.topics_of("stolen"))


def test_stolen_credentials_change_nothing_in_kafka(stack: RunningStack) -> None:
    stack.enrol("meddling")
    client = AdminClient(login(stack.bundle("meddling")), logger=None)

    def first(futures: dict[Any, Any]) -> Any:
        (future,) = futures.values()
        return future.result(20)

    user = UserScramCredentialUpsertion("meddling", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"another")
    right = credentials._may("meddling", AclOperation.READ, ResourceType.TOPIC, "weir.alerts")
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    acts: dict[str, Callable[[], Any]] = {
        "create": lambda: first(client.create_topics([NewTopic("weir.flows.invented", 1, 1)])),
        "delete": lambda: first(client.delete_topics(["weir.flows.meddling"])),
        "partitions": lambda: first(client.create_partitions([NewPartitions("weir.flows.meddling", 9)])),
        "password": lambda: first(client.alter_user_scram_credentials([user])),
        "permit": lambda: first(client.create_acls([right])),
        "rights": lambda: first(client.delete_acls([everything])),
        "offsets": lambda: first(client.delete_consumer_groups([kafka.GROUP])),
    }
    refused = {name: refusal(act) for name, act in acts.items()}
    assert all(name.endswith("AUTHORIZATION_FAILED") for name in refused.values()), refused
    assert "weir.flows.meddling" in kafka.admin(stack.stack.brokers).list_topics(timeout=10).topics


def test_without_credentials_nobody_gets_in(stack: RunningStack, tmp_path: Path) -> None:
    stack.enrol("guarded")
    own = login(stack.bundle("guarded"))
    inside = str(stack.stack.brokers)
    wrong: dict[str, dict[str, Any]] = {
        "a wrong password": {"sasl.password": "guessed"},
        "another's name": {"sasl.username": "weir.command"},
        "no TLS": {"security.protocol": "sasl_plaintext"},
        "no login": {"security.protocol": "ssl"},
        "the inner listener, with a password": {"bootstrap.servers": inside},
        "the inner listener, without": {"bootstrap.servers": inside, "security.protocol": "ssl"},
        "the inner listener, in plain text": {"bootstrap.servers": inside, "security.protocol": "plaintext"},
    }
    # Whoever makes an authority of his own is nobody.
    made = Certificates(tmp_path / "tls")
    issue(made, [])
    own_certificate = {
        "ssl.certificate.location": str(made.of("command")),
        "ssl.key.location": str(made.of("command")),
    }
    wrong["the inner listener, with a certificate of another authority"] = {
        "bootstrap.servers": inside,
        "security.protocol": "ssl",
        **own_certificate,
    }
    # And a probe does not tell its password to a broker of another authority.
    wrong["a broker of another authority"] = {"ssl.ca.pem": made.authority.read_text()}

    def topics(what: str) -> list[str]:
        try:
            return list(AdminClient({**own, **wrong[what]}, logger=None).list_topics(timeout=6).topics)
        except KafkaException:
            return []

    with ThreadPoolExecutor(len(wrong)) as pool:
        assert dict(zip(wrong, pool.map(topics, wrong), strict=True)) == {what: [] for what in wrong}
    assert AdminClient(own, logger=None).list_topics(timeout=10).topics
    # The protocols of TLS are those of today.
    host, port = tomllib.loads(stack.bundle("guarded").read_text())["brokers"].split(":")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection((host, int(port)), 5) as plain, pytest.raises(ssl.SSLError):
        old.wrap_socket(plain)


def test_one_probe_does_not_fill_the_broker(stack: RunningStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka slows down a probe that publishes more than `kafka.probe_rate`, and no other."""
    for probe in ("flooding", "modest"):
        stack.enrol(probe)
    monkeypatch.setattr(stack.stack.config.kafka, "probe_rate", "1MB")
    limit_probes(stack.stack)
    throttled: list[float] = []

    def slowed(event: Any) -> None:
        throttled.append(event.throttle_time)

    producer = Producer(
        {
            **login(stack.bundle("flooding")),
            "throttle_cb": slowed,
            "queue.buffering.max.kbytes": 1 << 21,
            "linger.ms": 50,
        }
    )
    body = bytes(1 << 19)
    begun = time.monotonic()
    while not throttled and time.monotonic() < begun + 60:
        producer.poll(0.01)
        if len(producer) < 200:
            producer.produce("weir.counters.flooding", body, partition=0)
    assert throttled
    assert written(login(stack.bundle("modest")), "weir.flows.modest") == "written"
    producer.purge()
    monkeypatch.undo()
    limit_probes(stack.stack)


def test_a_bundle_that_kafka_does_not_accept_is_not_kept(stack: RunningStack, tmp_path: Path) -> None:
    stack.enrol("fresh")
    good = stack.bundle("fresh").read_text()
    to = tmp_path / "kept.toml"

    def enrol(text: str, *words: str) -> Any:
        (tmp_path / "bundle").write_text(text)
        return run([str(AGENT), "enrol", str(tmp_path / "bundle"), "--to", str(to), *words])

    password = tomllib.loads(good)["password"]
    for text in (good.replace(password, "guessed"), good.replace('user = "fresh"', 'user = "nobody"'), "rubbish"):
        done = enrol(text)
        assert done.status == 2
        assert "guessed" not in done.out + done.err
        assert not to.exists()
    done = enrol(good)
    assert (done.status, to.read_text(), to.stat().st_mode & 0o777) == (0, good, 0o600), done.err
    # Once removed, a probe has nothing left in Kafka: neither password nor rights.
    stacks.retire(stack.stack, "fresh")
    assert not credentials.has(stack.stack, "fresh")
    assert enrol(good).status == 2


def test_a_bundle_that_cannot_be_written_changes_nothing(stack: RunningStack, tmp_path: Path) -> None:
    stack.enrol("unwritten")
    there = tmp_path / "there.bundle"
    there.write_text("mine")
    for words in (["rotate", "unwritten"], ["add", "unwritten-too"]):
        done = stack.weir("probe", *words, "--bundle", str(there))
        assert (done.status, there.read_text()) == (2, "mine"), done.err
    assert written(login(stack.bundle("unwritten")), "weir.flows.unwritten") == "written"
    assert not credentials.has(stack.stack, "unwritten-too")


def test_an_interrupted_enrolment_is_completed(stack: RunningStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """However far it came, the next one completes it; and a restart of the stack completes topics and rights."""
    for number, step in enumerate(("_permit", "_users", "has")):
        probe = f"interrupted-{number}"
        with monkeypatch.context() as patch:
            patch.setattr(credentials, step, lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                stack.enrol(probe)
        stack.enrol(probe)
        assert written(login(stack.bundle(probe)), f"weir.flows.{probe}") == "written"
    topic = f"weir.alerts.{probe}"
    mine = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    client = kafka.admin(stack.stack.brokers)
    for future in [*client.delete_acls([mine]).values(), *client.delete_topics([topic]).values()]:
        future.result(20)
    credentials.revoke(stack.stack, "interrupted-0")
    eventually(lambda: topic not in client.list_topics(timeout=5).topics, "the topic gone")
    stacks.complete_probes(stack.stack)
    assert eventually(lambda: written(login(stack.bundle(probe)), topic) == "written", "the right complete")
    assert written(login(stack.bundle("interrupted-0")), "weir.flows.interrupted-0") != "written"


def test_two_enrolments_at_once_are_one(stack: RunningStack, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        both = list(
            pool.map(lambda n: stack.weir("probe", "add", "two-at-once", "--bundle", str(tmp_path / str(n))), range(2))
        )
    assert sorted(done.status for done in both) in ([0, 0], [0, 1])
    assert "Traceback" not in "".join(done.err for done in both)
    (made,) = tmp_path.iterdir()
    assert written(login(made), "weir.flows.two-at-once") == "written"


def test_an_own_agent_s_credentials_stay_revoked_until_somebody_rotates_them(
    stack: RunningStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe, own = "own-agent", stack.stack
    stacks.enrol_here(own, probe)
    kept = own.kept_credentials(probe)
    stacks.enrol_here(own, probe)
    good = kept.read_text()
    for text in ("", good.replace(tomllib.loads(good)["password"], "of-a-backup")):
        kept.write_text(text)
        with pytest.raises(WeirError, match="holds") as refused:
            stacks.enrol_here(own, probe)
        assert f"weir probe rotate {probe}" in str(refused.value.hint)
    credentials.revoke(own, probe)
    with pytest.raises(WeirError, match="revoked"):
        stacks.enrol_here(own, probe)
    kept.unlink()
    for enrol in (stacks.enrol_here, stacks.enrol):
        with pytest.raises(WeirError, match="revoked"):
            enrol(own, probe)
    assert not credentials.has(own, probe)
    monkeypatch.setattr(own.config, "agents", [Agent(probe=probe, config=Path("unread"))])
    monkeypatch.setattr(commands, "configured", lambda: own)
    commands.rotate(probe)
    stacks.enrol_here(own, probe)
    assert written(login(kept), f"weir.flows.{probe}") == "written"
    with monkeypatch.context() as patch:
        patch.setattr(credentials, "has", lambda *_: 1 / 0)  # interrupted before it takes the password
        with pytest.raises(ZeroDivisionError):
            credentials.revoke(own, probe)
    with pytest.raises(WeirError, match="revoked"):
        stacks.enrol(own, probe)
    stacks.retire(own, probe)
    assert stacks.enrol(own, probe).bundle
    stacks.retire(own, probe)
