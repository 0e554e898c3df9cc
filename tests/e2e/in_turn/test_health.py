"""A silent probe raises an alert, which closes when the probe returns; the means of counters equal plain SQL."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness import BENCH, CHECKOUT, RunningStack, eventually, schemas
from weir import kafka
from weir.demo_traffic import write_capture
from weir.probes import declared


@pytest.fixture(scope="module", autouse=True)
def skewed(stack: RunningStack) -> Iterator[None]:
    """A probe whose clock is two minutes behind closes an interval each second, while the tests run."""
    stack.enrol("skewed")
    ended = threading.Event()

    def publish() -> None:
        epoch, start = time.time_ns() // 1000, (time.time_ns() // 10**9 - 120) * 1000
        for sequence in itertools.count():
            message = schemas().FlowMessage(major=1, probe="skewed", epoch=epoch, sequence=sequence, interval_ms=1000)
            message.interval_start_ms = start + 1000 * sequence
            message.closing.first_sequence = sequence
            message.closing.workers = 1
            message.closing.source = "af_packet:eth0"
            stack.publish("weir.flows.skewed", [message.SerializeToString()])
            if ended.wait(1):
                return

    thread = threading.Thread(target=publish)
    thread.start()
    yield
    ended.set()
    thread.join()


def _alerts(stack: RunningStack, *words: str) -> tuple[int, list[dict[str, Any]]]:
    """`weir alerts --json`: exit status and alerts."""
    done = stack.weir("alerts", "--json", *words)
    return done.status, json.loads(done.out)["alerts"]


def _published(stack: RunningStack, alert: str) -> list[Any]:
    """Messages on weir.alerts of one alert."""
    messages = [schemas("alert").Alert.FromString(value) for _, value in stack.messages("weir.alerts")]
    return [message for message in messages if message.id == alert]


@contextmanager
def _agent(stack: RunningStack, probe: str) -> Iterator[None]:
    """An agent that closes an interval each second, and is killed at the end."""
    words = ["--credentials", str(stack.operator), "--probes", probe, "--interval", "1s"]
    command = [str(BENCH), "generate", "--records", "100000", "--per-interval", "100", "--rate", "100", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


def test_a_silent_probe_opens_an_alert_and_its_return_closes_it(stack: RunningStack) -> None:
    stack.enrol("fickle")
    with _agent(stack, "fickle"):
        eventually(lambda: len(stack.ledger("fickle")) > 1, "closed intervals")
    opened = eventually(
        lambda: stack.store.rows("SELECT * FROM v_alerts WHERE probe = 'fickle' AND severity = 'critical'"),
        "an alert",
        60,
    )[0]
    assert (opened["reason"], opened["open"]) == ("probe_silent", True)
    assert opened["values"]["silent_ms"] >= 3_000 + 2_000
    status, listed = _alerts(stack, "--open")
    assert status == 1
    assert [row["id"] for row in listed if row["probe"] == "fickle"] == [opened["id"]]
    assert "critical" in stack.weir("status").out
    message = eventually(lambda: _published(stack, opened["id"]), "it on weir.alerts")[0]
    assert (message.reason, message.probe, message.closed_ms) == ("probe_silent", "fickle", 0)
    assert message.text == opened["text"]

    with _agent(stack, "fickle"):
        row = eventually(
            lambda: [row for row in _alerts(stack)[1] if row["id"] == opened["id"] and not row["open"]], "it closed", 40
        )[0]
    assert row["version"] >= 2
    eventually(lambda: _published(stack, opened["id"])[-1].closed_ms > message.opened_ms, "it closed on weir.alerts")


def test_a_removed_probe_is_no_longer_expected(stack: RunningStack) -> None:
    stack.enrol("retired", 1, "--site", "gone")
    eventually(lambda: stack.ledger("retired"), "intervals without messages", 90)
    done = stack.weir("probe", "remove", "retired", "--yes")
    assert done.status == 0, done.out
    assert "weir.flows.retired" in done.out
    assert not [name for name in kafka.admin(stack.stack.brokers).list_topics(timeout=10).topics if "retired" in name]
    assert "retired" not in declared(stack.stack.brokers)
    assert not stack.store.rows("SELECT * FROM v_probes WHERE probe = 'retired'")
    again = stack.weir("probe", "remove", "retired", "--yes")
    assert again.status == 2, again.out
    # The jobs read the list of topics every few seconds; then they expect no further interval, and go on with the others.
    time.sleep(10)
    last = stack.ledger("retired")[-1]["at"]
    others = len(stack.ledger("skewed"))
    eventually(lambda: len(stack.ledger("skewed")) > others + 20, "intervals of another probe", 90)
    assert stack.ledger("retired")[-1]["at"] == last


def test_a_clock_that_is_behind_is_told_by_kafkas(stack: RunningStack) -> None:
    rows = eventually(lambda: [row for row in _alerts(stack)[1] if row["probe"] == "skewed"], "an alert")
    assert [(row["reason"], row["open"]) for row in rows] == [("clock_off", True)]
    assert 118_000 <= rows[0]["values"]["behind_ms"] <= 150_000


def test_means_equal_plain_sql(stack: RunningStack, tmp_path: Path) -> None:
    packets = write_capture(tmp_path / "means.pcap", packets=3_000, seconds=70)
    stack.enrol("means")
    stack.read("means", tmp_path / "means.pcap")
    counted = "SELECT sum(packets) FROM counters WHERE probe = 'means' AND counter_set = 'cast'"
    eventually(lambda: stack.one(counted) == packets, "every counter stored")
    raw = """SELECT toUnixTimestamp(toStartOfInterval(ts, INTERVAL 30 SECOND)) AS w, counter_set, label,
        sum(packets) AS packets, sum(octets) AS octets FROM counters WHERE probe = 'means'
        GROUP BY w, counter_set, label ORDER BY w, counter_set, label"""
    kept = """SELECT toUnixTimestamp(ts) AS w, counter_set, label, packets, octets FROM v_counter_means
        WHERE window_s = 30 AND scope = 'probe' AND probe = 'means' ORDER BY w, counter_set, label"""
    expected = stack.store.rows(raw)
    assert expected
    eventually(lambda: stack.store.rows(kept) == expected, "the means of every half minute", 60)
    rate = "SELECT max(abs(packets_per_second - packets / 30)) FROM v_counter_means WHERE window_s = 30 AND probe = 'means' AND coverage = 1 AND intervals_seen = 3"
    assert stack.one(rate) == 0


def test_what_the_page_on_filter_sets_asks_is_understood(stack: RunningStack) -> None:
    page = (CHECKOUT / "docs/how-to/filter-sets.md").read_text()
    query = page[page.index('weir sql "') + len('weir sql "') :]
    assert stack.store.rows(query[: query.index('"')]) == []
