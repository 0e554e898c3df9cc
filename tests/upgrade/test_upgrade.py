"""Upgrades a stack of an earlier version to this one: its stored rows, its messages in Kafka, and the state of its
jobs.

`make check-upgrade FROM=v0.1.0` builds that version in a separate folder (some minutes) and runs this. With
`FROM=/path/to/checkout` the earlier version is that checkout, built already.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import upgrades
from harness import CHECKOUT, RunningStack, run
from releases import commit
from weir.demo_traffic import write_capture


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkout of the earlier version, built."""
    version = os.environ["WEIR_UPGRADE_FROM"]
    if (Path(version) / "stack/bin/weir").exists():
        yield Path(version).resolve()
        return
    folder = tmp_path_factory.mktemp("upgrade") / "weir"
    subprocess.run(["git", "worktree", "add", "--detach", str(folder), commit(version)], cwd=CHECKOUT, check=True)
    try:
        subprocess.run(["make", "build"], cwd=folder, check=True)
        yield folder
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(folder)], cwd=CHECKOUT, check=True)


def stop_and_start(stack: RunningStack, weir: list[str], old: dict[str, str]) -> None:
    """`weir down` of the earlier version, `weir up` of this one: the jobs resume from their newest checkpoint."""
    done = run([*weir, "down"], old, 300)
    assert done.status == 0, done.out + done.err
    stack.bring_up()


def upgrade(stack: RunningStack, _weir: list[str], _old: dict[str, str]) -> None:
    """`weir upgrade` of this version, while all is running: the jobs resume from a savepoint."""
    done = stack.weir("upgrade", timeout=600)
    assert done.status == 0, done.out + done.err
    (savepoint,) = (stack.home / "data/flink").glob("savepoint-*/_metadata")
    log = (stack.home / "logs/flink.log").read_text()
    assert f"state: {savepoint.parent}" in log, "the jobs started from the savepoint"


@pytest.mark.parametrize("how", [stop_and_start, upgrade])
def test_an_upgrade_keeps_rows_messages_and_state(before: Path, tmp_path: Path, how) -> None:  # type: ignore[no-untyped-def]
    stack = RunningStack(as_shipped=True)
    old = stack.environment | {
        "WEIR_VENVS": str(before / ".weir/venvs"),
        "WEIR_KAFKA_JARS": str(before / ".weir/kafka"),
    }
    command = [str(before / "stack/bin/weir")]

    def weir(*words: str) -> None:
        done = run([*command, *words], old, 300)
        assert done.status == 0, done.out + done.err

    def read(probe: str, packets: int, seconds: int = 60) -> int:
        """The earlier version's agent reads a new capture; the number of its packets."""
        written = write_capture(tmp_path / "old.pcap", packets, seconds)
        agent = [str(before / "capture/target/release/weir-probe"), "read", str(tmp_path / "old.pcap")]
        done = run([*agent, "--to", "kafka", "--brokers", str(stack.stack.brokers), "--probe", probe], old)
        assert done.status == 0, done.err
        return written

    try:
        weir("up", "--detach")
        for probe in ("kept", "waiting", "both"):
            weir("probe", "add", probe)
        packets = {"kept": read("kept", 4_000, 120), "both": read("both", 2_000)}
        for probe in packets:
            stack.settled(probe, packets[probe], 120)
        stored = upgrades.kept(stack, "kept")
        # The new jobs read messages that the old version's agent published while its jobs were down or about to stop.
        if how is stop_and_start:
            stack.stop("flink")
        packets["waiting"] = read("waiting", 3_000)
        del stack.store
        how(stack, command, old)
        assert upgrades.kept(stack, "kept") == stored
        stack.enrol("new")
        third = write_capture(tmp_path / "third.pcap", packets=2_000)
        # A new run of the agent of "both" adds to windows that are in the state.
        for probe in ("new", "both"):
            stack.read(probe, tmp_path / "third.pcap")
            packets[probe] = packets.get(probe, 0) + third
        upgrades.check(stack, packets)
        done = stack.weir("ledger", "--since", "2 h")
        assert done.status == 0, done.out + done.err
    finally:
        stack.take_down()
