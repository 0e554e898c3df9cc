"""Upgrades a stack of an earlier version to this one: its stored rows, its messages in Kafka, and the state of its
jobs.

`make check-upgrade FROM=v0.1.0` builds that version in a separate folder (some minutes) and runs this.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import CHECKOUT, RunningStack, eventually, run
from weir.demo_traffic import write_capture

#: Tables and views whose rows an upgrade keeps, with the key of a row.
KEPT = {
    "flows": "count(), sum(fwd_packets + rev_packets), sum(fwd_octets + rev_octets)",
    "flows_hourly": "sum(records), sum(fwd_octets + rev_octets)",
    "v_ledger": "sum(captured_packets), sum(stored_packets)",
    "v_top_flows": "count(), sum(octets)",
    "v_mixes": "count(), sum(octets)",
}


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkout of the earlier version, built."""
    version = os.environ["WEIR_UPGRADE_FROM"]
    folder = tmp_path_factory.mktemp("upgrade") / "weir"
    subprocess.run(["git", "worktree", "add", "--detach", str(folder), version], cwd=CHECKOUT, check=True)
    try:
        subprocess.run(["make", "build"], cwd=folder, check=True)
        yield folder
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(folder)], cwd=CHECKOUT, check=True)


def state(stack: RunningStack, probe: str) -> dict[str, object]:
    """The stored rows of a probe."""
    return {
        name: stack.store.rows(f"SELECT {columns} FROM {name} WHERE probe = '{probe}'")
        for name, columns in KEPT.items()
    }


def test_an_upgrade_keeps_rows_messages_and_state(before: Path, tmp_path: Path) -> None:
    stack = RunningStack(as_shipped=True)
    old = stack.environment | {
        "WEIR_VENVS": str(before / ".weir/venvs"),
        "WEIR_KAFKA_JARS": str(before / ".weir/kafka"),
    }

    def weir(*words: str) -> None:
        done = run([str(before / "stack/bin/weir"), *words], old, 300)
        assert done.status == 0, done.out + done.err

    agent = [str(before / "capture/target/release/weir-probe"), "read"]
    publish = ["--to", "kafka", "--brokers", stack.stack.brokers]
    try:
        first = write_capture(tmp_path / "first.pcap", packets=4_000, seconds=120)
        second = write_capture(tmp_path / "second.pcap", packets=3_000)
        weir("up", "--detach")
        weir("probe", "add", "kept")
        weir("probe", "add", "waiting")
        done = run([*agent, str(tmp_path / "first.pcap"), *publish, "--probe", "kept"], old)
        assert done.status == 0, done.err
        stack.settled("kept", first)
        eventually(
            lambda: stack.store.rows("SELECT 1 FROM v_top_flows WHERE probe = 'kept' LIMIT 1"), "its windows", 120
        )
        # The new jobs read messages that the old version's agent published while its jobs were down.
        stack.stop("flink")
        done = run([*agent, str(tmp_path / "second.pcap"), *publish, "--probe", "waiting"], old)
        assert done.status == 0, done.err
        stored = state(stack, "kept")
        weir("down")
        stack.bring_up()
        del stack.store
        assert state(stack, "kept") == stored
        assert stack.settled("waiting", second, 120)["packets"] == second
        # Read once: not again from the topic's beginning.
        assert stack.sums("kept")["packets"] == first
        stack.enrol("new")
        third = write_capture(tmp_path / "third.pcap", packets=2_000)
        stack.read("new", tmp_path / "third.pcap")
        assert stack.settled("new", third)["packets"] == third
    finally:
        stack.take_down()
