"""Orders to an agent, and alerts of one: what it follows, what it refuses, and what a job forwards."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness import AGENT, RunningStack, eventually, free_ports, live_possible
from weir import dead_letters, kafka, orders
from weir import stack as stacks
from weir.messages.alert_pb2 import Alert
from weir.messages.control_pb2 import Order, SignedOrder
from weir.messages.counters_pb2 import CounterMessage
from weir.schema import chain

pytestmark = pytest.mark.skipif(not live_possible(), reason="a live agent needs root and network namespaces")

PROBE = "ordered"
INTERVAL_MS = 2_000
RUBBISH = b"\xff"
SETS = '[filters]\ndefault = false\n[filters.sets.asked]\npings = "icmp"\n'


@dataclass
class Agent:
    """An agent that captures in a network namespace of its own."""

    stack: RunningStack
    folder: Path
    netns: str
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait for its first counters."""
        config = self.folder / "weir-probe.toml"
        config.write_text(
            f'probe = "{PROBE}"\ninterval = "{INTERVAL_MS // 1000}s"\nworkers = 1\nstate_dir = "{self.folder}"\n'
            f'[source]\ninterface = "lo"\nnetns = "{self.netns}"\n[filters]\ndefault = false\n'
            f'[metrics]\nlisten = "127.0.0.1:{free_ports(1)[0]}"\n[kafka]\ncredentials = "{self.stack.bundle(PROBE)}"\n'
        )
        before = len(self.counters())
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([str(AGENT), "run", "--config", str(config)], stderr=log, stdout=log)
        ended = self.process.poll
        eventually(lambda: len(self.counters()) > before or ended() is not None, "the agent's counters")
        assert ended() is None, (self.folder / "log").read_text()

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None

    def counters(self) -> list[CounterMessage]:
        """All that it has published."""
        values = [value for _, value in self.stack.messages(f"weir.counters.{PROBE}")]
        return [CounterMessage.FromString(value) for value in values if value != RUBBISH]

    def in_force(self) -> int:
        """The order in force in its newest interval."""
        return self.counters()[-1].order

    def refusals(self) -> list[dict[str, Any]]:
        """Its alerts in the store."""
        return self.stack.store.rows(
            f"SELECT id, subject, text, open FROM v_alerts WHERE reason = 'order_refused' AND probe = '{PROBE}' "
            "ORDER BY opened_at"
        )


@pytest.fixture(scope="module")
def agent(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    stack.enrol(PROBE)
    netns = f"weir-orders-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", netns], check=True)
    subprocess.run(["ip", "-n", netns, "link", "set", "lo", "up"], check=True)
    running = Agent(stack, tmp_path_factory.mktemp("orders"), netns)
    try:
        running.start()
        yield running
    finally:
        running.end()
        subprocess.run(["ip", "netns", "delete", netns], check=True)


def put(agent: Agent, value: bytes) -> None:
    """Publish a message on the topic of the agent's orders, as one who has broken into the broker can."""
    assert kafka.publish(agent.stack.stack.brokers, orders.topic(PROBE), [(orders.FILTERS, value)]) == 1


def test_an_order_is_in_force_from_the_next_interval_on(agent: Agent, tmp_path: Path) -> None:
    """And after a kill; until another order."""
    file = tmp_path / "sets.toml"
    file.write_text(SETS)
    assert agent.in_force() == 0
    issued_ms = time.time() * 1000
    done = agent.stack.weir("probe", "filters", PROBE, str(file))
    assert done.status == 0, done.err
    ordered = [message for message in agent.counters() if message.order]
    number, since = ordered[0].order, ordered[0].interval_start_ms
    assert f"order {number} is in force" in done.out
    # Reading it may take until the interval after the one in which it was issued.
    assert since - issued_ms < 3 * INTERVAL_MS

    subprocess.run(["ip", "netns", "exec", agent.netns, "ping", "-c", "3", "-i", "0.2", "127.0.0.1"], check=True)
    pings = f"SELECT sum(packets) FROM v_counters WHERE probe = '{PROBE}' AND counter_set = 'asked' AND label = 'pings'"
    eventually(lambda: agent.stack.one(pings) >= 6, "the pings counted by the ordered set")

    agent.end(signal.SIGKILL)
    published = len(agent.counters())
    agent.start()
    assert {message.order for message in agent.counters()[published:]} == {number}

    shown = agent.stack.weir("probe", "filters", PROBE)
    assert (shown.status, shown.out) == (0, SETS), shown.err
    done = agent.stack.weir("probe", "filters", PROBE, "--reset")
    assert done.status == 0, done.err
    last = agent.counters()[-1]
    assert last.order > number
    assert not any(counter.set == "asked" for counter in last.counters)


def test_an_order_whose_expression_is_wrong_is_answered(agent: Agent, tmp_path: Path) -> None:
    before, file = agent.in_force(), tmp_path / "sets.toml"
    file.write_text(SETS.replace("icmp", "icmp or or"))
    done = agent.stack.weir("probe", "filters", PROBE, str(file))
    assert done.status == 1
    assert "line 4: filters.sets.asked.pings" in done.err
    assert agent.in_force() == before


def test_orders_of_others_are_refused(agent: Agent) -> None:
    """Forged, unsigned, replayed, addressed to another probe, rubbish: nothing changes, and an alert says so."""
    stack = agent.stack.stack
    first = orders.issue(stack, PROBE, SETS, "test")
    second = orders.issue(stack, PROBE, "", "test")
    eventually(lambda: agent.in_force() == second.number, "the second order in force")

    later = Order(major=1, probe=PROBE, number=second.number + 1, filters=first.filters)
    text = later.SerializeToString()
    forged = SignedOrder(order=text, signature=Ed25519PrivateKey.generate().sign(b"weir.order.1" + text))
    elsewhere = Order(major=1, probe="another", number=second.number + 1, filters=first.filters)
    put(agent, forged.SerializeToString())
    put(agent, orders.sign(stack, first))
    put(agent, orders.sign(stack, elsewhere))
    put(agent, b"rubbish")

    def refused() -> list[dict[str, Any]]:
        return [alert for alert in agent.refusals() if alert["subject"] != "wrong"]

    alerts = eventually(lambda: refused() if len(refused()) >= 4 else None, "four alerts")
    assert sorted(alert["subject"] for alert in alerts) == ["forged", "other_probe", "replayed", "unreadable"]
    assert not any(alert["open"] for alert in alerts)
    assert all(alert["id"].startswith(f"{PROBE}:") for alert in alerts)
    forwarded = {Alert.FromString(value).id for _, value in agent.stack.messages("weir.alerts")}
    assert {alert["id"] for alert in alerts} <= forwarded
    published = len(agent.counters())
    eventually(lambda: len(agent.counters()) > published, "another interval")
    assert {message.order for message in agent.counters()[published - 1 :]} == {second.number}


def test_rubbish_in_place_of_an_answer_ends_nothing(agent: Agent) -> None:
    stack = agent.stack.stack
    answers = orders.Answers(stack, PROBE)
    try:
        for topic in ("alerts", "counters"):
            assert kafka.publish(stack.brokers, f"weir.{topic}.{PROBE}", [("", RUBBISH)]) == 1
        order = orders.issue(stack, PROBE, SETS, "test")
        answer = answers.wait(order.number, 90)
    finally:
        answers.close()
    assert answer
    assert answer.refusal == ""


def test_an_order_is_in_the_audit(agent: Agent) -> None:
    issued = [orders.issue(agent.stack.stack, PROBE, toml, "test") for toml in (SETS, "")]
    entries = [one.entry for one in chain.entries(agent.stack.stack.audit) if one.entry.get("action") == "order"]
    for order, toml, entry in zip(issued, (SETS, ""), entries[-2:], strict=True):
        assert entry["person"]
        assert entry["detail"] == {
            "probe": PROBE,
            "order": order.number,
            "filters": "sets" if toml else "reset",
            "sha256": hashlib.sha256(toml.encode()).hexdigest(),
        }
    eventually(lambda: agent.in_force() == issued[1].number, "the second order in force")


def test_an_order_from_before_another_enrolment_is_shown(agent: Agent) -> None:
    """The topic of orders is then new, and the agent has kept the order."""
    stack = agent.stack.stack
    order = orders.issue(stack, PROBE, SETS, "test")
    eventually(lambda: agent.in_force() == order.number, "the order in force")
    client = kafka.admin(stack.brokers)
    client.delete_topics([orders.topic(PROBE)])[orders.topic(PROBE)].result(20)
    eventually(lambda: orders.topic(PROBE) not in client.list_topics(timeout=5).topics, "the topic gone")
    stacks.complete_probes(stack)
    shown = agent.stack.weir("probe", "filters", PROBE)
    assert (shown.status, f"{PROBE} follows order {order.number}" in shown.out) == (0, True), shown.out + shown.err


def test_an_alert_in_the_name_of_another_probe_is_set_aside(stack: RunningStack) -> None:
    stack.enrol("claims")
    now_ms = time.time_ns() // 1_000_000

    def alert(number: str, probe: str) -> tuple[str, bytes]:
        message = Alert(major=1, id=number, reason="claimed", probe=probe, severity="SEVERITY_WARNING", text="Look.")
        message.opened_ms = message.updated_ms = message.closed_ms = now_ms
        return number, message.SerializeToString()

    sent = [alert("1", PROBE), alert("2", "claims")]
    assert kafka.publish(stack.stack.brokers, "weir.alerts.claims", sent) == 2

    def stored() -> list[dict[str, Any]]:
        return stack.store.rows("SELECT id, probe, text FROM v_alerts WHERE reason = 'claimed'")

    assert eventually(stored, "the alert stored") == [{"id": "claims:2", "probe": "claims", "text": "Look."}]
    letters = [one for one in dead_letters.read(stack.stack.brokers) if one.topic == "weir.alerts.claims"]
    assert [letter.cause for letter in letters] == [f"wrong_probe: {PROBE} on the topic of claims"]
    assert stored() == [{"id": "claims:2", "probe": "claims", "text": "Look."}]


def test_what_an_agent_left_open_is_closed_with_its_removal(stack: RunningStack) -> None:
    stack.enrol("leaves")
    now_ms = time.time_ns() // 1_000_000
    left = Alert(major=1, id="1", reason="claimed", probe="leaves", severity="SEVERITY_WARNING", text="Look.")
    left.opened_ms = left.updated_ms = now_ms
    assert kafka.publish(stack.stack.brokers, "weir.alerts.leaves", [("1", left.SerializeToString())]) == 1

    def stored() -> list[dict[str, Any]]:
        return stack.store.rows("SELECT id, open, text FROM v_alerts WHERE probe = 'leaves' AND reason = 'claimed'")

    assert eventually(stored, "the alert stored") == [{"id": "leaves:1", "open": True, "text": "Look."}]
    assert stack.weir("probe", "remove", "leaves", "--yes").status == 0
    assert stored() == [{"id": "leaves:1", "open": False, "text": "Over, as the probe was removed: Look."}]
