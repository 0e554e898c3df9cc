"""The ledger reports each loss with its place and amount."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import RunningStack, batch_volume, decoded, eventually
from weir.demo_traffic import write_capture


@pytest.fixture(scope="module")
def real_messages(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The messages of a real agent for a capture of some intervals."""
    capture = tmp_path_factory.mktemp("ledger") / "origin.pcap"
    write_capture(capture, packets=8_000, seconds=60)
    stack.enrol("origin")
    stack.read("origin", capture)
    return [value for _, value in stack.messages("weir.flows.origin")]


def renamed(messages: list[Any], probe: str) -> list[Any]:
    """The same messages under another probe's name."""
    for message in messages:
        message.probe = probe
    return messages


def report(stack: RunningStack, probe: str) -> tuple[int, list[dict[str, Any]], list[dict[str, Any]]]:
    """`weir ledger --json`: exit status, rows, findings."""
    done = stack.weir("ledger", "--probe", probe, "--since", "15min", "--until", "0s", "--json")
    shown = json.loads(done.out)
    return done.status, shown["rows"], shown["findings"]


def wait_for(stack: RunningStack, probe: str, test: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The ledger row that passes the test, as soon as it exists."""
    return eventually(lambda: next((row for row in stack.ledger(probe) if test(row)), None), f"a row of {probe}", 90)  # type: ignore[no-any-return]


def test_nothing_missing_is_exit_status_0(stack: RunningStack, real_messages: list[bytes]) -> None:
    stack.enrol("whole")
    messages = renamed(decoded(real_messages), "whole")
    stack.publish("weir.flows.whole", [m.SerializeToString() for m in messages])
    packets = sum(batch_volume(m)[0] for m in messages)
    stack.settled("whole", packets)
    wait_for(stack, "whole", lambda row: row["state"] == "closed")
    eventually(lambda: report(stack, "whole")[0] == 0, "a ledger without findings")


def test_a_deleted_batch_is_named(stack: RunningStack, real_messages: list[bytes]) -> None:
    stack.enrol("no-batch")
    messages = renamed(decoded(real_messages), "no-batch")
    gone = [m for m in messages if m.WhichOneof("body") == "batch"][3]
    packets, octets = batch_volume(gone)
    stack.publish("weir.flows.no-batch", [m.SerializeToString() for m in messages if m is not gone])
    row = wait_for(stack, "no-batch", lambda row: row["missing_batches"] == 1)
    assert (row["state"], row["at"] * 1000, row["missing_sequences"]) == (
        "batches_missing",
        gone.interval_start_ms,
        [gone.sequence],
    )
    eventually(
        lambda: wait_for(stack, "no-batch", lambda r: r["missing_batches"] == 1)["lost_packets"] == packets,
        "the amount",
    )
    status, rows, findings = report(stack, "no-batch")
    assert status == 1
    assert sum(r["lost_packets"] for r in rows) == packets
    assert sum(r["lost_octets"] for r in rows) == octets
    assert any(f"sequence {gone.sequence}" in finding["text"] for finding in findings)


def test_a_deleted_closing_record_is_named(stack: RunningStack, real_messages: list[bytes]) -> None:
    stack.enrol("no-closing")
    messages = renamed(decoded(real_messages), "no-closing")
    closings = [m for m in messages if m.WhichOneof("body") == "closing"]
    gone = closings[len(closings) // 2]
    stack.publish("weir.flows.no-closing", [m.SerializeToString() for m in messages if m is not gone])
    row = wait_for(
        stack,
        "no-closing",
        lambda row: row["at"] * 1000 == gone.interval_start_ms and row["state"] == "closing_missing",
    )
    volume = gone.closing.interval.in_flow_records
    assert (row["published_packets"], row["published_octets"]) == (volume.packets, volume.octets)
    status, _, findings = report(stack, "no-closing")
    assert status == 1
    assert any("no closing record" in finding["text"] and finding["time"] == row["time"] for finding in findings)


def test_a_batch_sent_twice_is_dropped_and_named(stack: RunningStack, real_messages: list[bytes]) -> None:
    stack.enrol("twice")
    messages = renamed(decoded(real_messages), "twice")
    batches = [m for m in messages if m.WhichOneof("body") == "batch"]
    values = [m.SerializeToString() for m in messages]
    values.insert(7, batches[2].SerializeToString())
    values.append(batches[0].SerializeToString())
    stack.publish("weir.flows.twice", values)
    packets = sum(batch_volume(m)[0] for m in messages)
    assert stack.settled("twice", packets)["packets"] == packets
    eventually(lambda: sum(row["repeated_batches"] for row in stack.ledger("twice")) == 2, "both repeats counted")
    status, rows, findings = report(stack, "twice")
    assert status == 0, findings
    assert {row["at"] * 1000 for row in rows if row["repeated_batches"]} == {
        batches[0].interval_start_ms,
        batches[2].interval_start_ms,
    }


def test_a_capture_read_again_and_again_is_not_more_than_all(stack: RunningStack, tmp_path: Path) -> None:
    """Each reading is a run of its own in the same intervals: what it published counts, as what it stored does."""
    capture = tmp_path / "again.pcap"
    packets = 4 * write_capture(capture, packets=2_000, seconds=60)
    stack.enrol("again")
    sent = [stack.read("again", capture, words=("--keep-time",)) for _ in range(4)]
    assert sent
    eventually(lambda: stack.sums("again")["packets"] >= packets, "four times the capture")
    columns = "max(completeness) AS highest, min(completeness) AS lowest, sum(lost_packets) AS lost, sum(doubled_packets) AS doubled"
    asked = f"SELECT {columns}, sum(accounted_packets) AS accounted FROM v_completeness WHERE probe = 'again'"
    whole = {"highest": 1, "lowest": 1, "lost": 0, "doubled": 0, "accounted": packets}
    eventually(lambda: stack.store.rows(asked)[0] == whole, "nothing missing, nothing beyond what was published")
    assert {row["epochs"] for row in stack.ledger("again") if row["received_packets"]} == {4}
    assert report(stack, "again")[2] == []


def test_an_agent_killed_is_named(stack: RunningStack, real_messages: list[bytes]) -> None:
    stack.enrol("killed")
    messages = renamed(decoded(real_messages), "killed")
    # The agent dies while publishing its second interval.
    starts = sorted({m.interval_start_ms for m in messages})
    before = [m for m in messages if m.interval_start_ms <= starts[1]]
    assert before[-1].WhichOneof("body") == "closing"
    stack.publish("weir.flows.killed", [m.SerializeToString() for m in before[:-1]])
    row = wait_for(stack, "killed", lambda row: row["state"] == "closing_missing")
    assert row["at"] * 1000 == starts[1]
    received = sum(batch_volume(m)[0] for m in before[:-1] if m.interval_start_ms == starts[1])
    assert row["received_packets"] == received
    assert report(stack, "killed")[0] == 1


def test_a_silent_probe_is_named(stack: RunningStack) -> None:
    stack.enrol("silent", workers=2)
    rows = eventually(
        lambda: [row for row in stack.ledger("silent") if row["state"] == "missing"] or None, "missing intervals", 90
    )
    eventually(lambda: {row["worker"] for row in stack.ledger("silent")} == {0, 1}, "a row for each worker")
    status, _, findings = report(stack, "silent")
    assert status == 1
    assert any("nothing arrived" in finding["text"] and finding["time"] == rows[0]["time"] for finding in findings)
