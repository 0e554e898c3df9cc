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

from harness import CHECKOUT, RunningStack, eventually, run
from weir.demo_traffic import write_capture

#: Tables and views whose rows are complete when the records are stored: an upgrade keeps them as they are.
KEPT = {
    "flows": "count(), sum(fwd_packets + rev_packets), sum(fwd_octets + rev_octets)",
    "v_ledger": "sum(captured_packets), sum(stored_packets), sum(missing_batches), sum(repeated_batches)",
    "v_counters": "count(), sum(packets), sum(octets)",
}
#: Rows of windows, which hold what came before the upgrade and what came after it: each question names a view and sums
#: of it that equal those of `flows` or `counters`, however often the rows are written.
WINDOWS = {
    # Hours that are over, which the service "storage" writes.
    "hours": (
        "SELECT sum(records) AS records, sum(fwd_octets + rev_octets) AS octets FROM flows_hourly WHERE probe = '{probe}'",
        "SELECT count() AS records, sum(fwd_octets + rev_octets) AS octets FROM flows WHERE probe = '{probe}' "
        "AND toStartOfHour(ts) IN (SELECT ts FROM flows_hourly WHERE probe = '{probe}')",
    ),
    "mixes": (
        "SELECT sum(octets) AS octets, sum(packets) AS packets FROM v_mixes WHERE dimension = 'total' AND probe = '{probe}'",
        "SELECT sum(fwd_octets + rev_octets) AS octets, sum(fwd_packets + rev_packets) AS packets FROM flows WHERE probe = '{probe}'",
    ),
    "top flows": (
        "SELECT sum(window_octets) AS octets, sum(window_packets) AS packets FROM v_top_flows WHERE list = 'ip_octets' AND rank = 1 AND probe = '{probe}'",
        "SELECT sum(fwd_octets + rev_octets) AS octets, sum(fwd_packets + rev_packets) AS packets FROM flows WHERE probe = '{probe}'",
    ),
    **{
        f"means of {seconds} s": (
            f"SELECT sum(packets) AS packets, sum(octets) AS octets FROM v_counter_means WHERE window_s = {seconds} AND probe = '{{probe}}'",
            "SELECT sum(packets) AS packets, sum(octets) AS octets FROM v_counters WHERE probe = '{probe}'",
        )
        for seconds in (30, 300, 3_600)
    },
}
#: Seconds until rows of windows of five minutes are written.
WINDOW = 400


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkout of the earlier version, built."""
    version = os.environ["WEIR_UPGRADE_FROM"]
    if (Path(version) / "stack/bin/weir").exists():
        yield Path(version).resolve()
        return
    folder = tmp_path_factory.mktemp("upgrade") / "weir"
    subprocess.run(["git", "worktree", "add", "--detach", str(folder), version], cwd=CHECKOUT, check=True)
    try:
        subprocess.run(["make", "build"], cwd=folder, check=True)
        yield folder
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(folder)], cwd=CHECKOUT, check=True)


def kept(stack: RunningStack, probe: str) -> dict[str, object]:
    """The stored rows of a probe."""
    return {
        name: stack.store.rows(f"SELECT {columns} FROM {name} WHERE probe = '{probe}'")
        for name, columns in KEPT.items()
    }


def windows(stack: RunningStack, probe: str) -> dict[str, tuple[object, object]]:
    """The rows of windows of a probe that differ from the sums of all that is stored of it: these sums, and those."""
    found = {
        name: (stack.store.rows(rows.format(probe=probe)), stack.store.rows(all_.format(probe=probe)))
        for name, (rows, all_) in WINDOWS.items()
    }
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}


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
        done = run([*agent, "--to", "kafka", "--brokers", stack.stack.brokers, "--probe", probe], old)
        assert done.status == 0, done.err
        return written

    try:
        weir("up", "--detach")
        for probe in ("kept", "waiting", "both"):
            weir("probe", "add", probe)
        packets = {"kept": read("kept", 4_000, 120), "both": read("both", 2_000)}
        for probe in packets:
            stack.settled(probe, packets[probe], 120)
        stored = kept(stack, "kept")
        # The new jobs read messages that the old version's agent published while its jobs were down or about to stop.
        if how is stop_and_start:
            stack.stop("flink")
        packets["waiting"] = read("waiting", 3_000)
        del stack.store
        how(stack, command, old)
        assert kept(stack, "kept") == stored
        stack.enrol("new")
        third = write_capture(tmp_path / "third.pcap", packets=2_000)
        # A new run of the agent of "both" adds to windows that are in the state.
        for probe in ("new", "both"):
            stack.read(probe, tmp_path / "third.pcap")
            packets[probe] = packets.get(probe, 0) + third
        for probe, count in packets.items():
            assert stack.settled(probe, count, 180)["packets"] == count, f"{probe}: once, and not again"
        for probe in packets:
            eventually(lambda probe=probe: not windows(stack, probe), f"all windows of {probe} written", WINDOW)  # type: ignore[misc]
        done = stack.weir("ledger", "--since", "2 h")
        assert done.status == 0, done.out + done.err
        for probe, count in packets.items():
            (sums,) = stack.store.rows(
                "SELECT sum(captured_packets) AS captured, sum(stored_packets) AS stored, sum(missing_batches) AS missing, "
                f"sum(repeated_batches) AS repeated FROM v_ledger WHERE probe = '{probe}'"
            )
            assert sums == {"captured": count, "stored": count, "missing": 0, "repeated": 0}, probe
        log = (stack.home / "logs/flink.log").read_text()
        assert "cannot read the state" not in log
    finally:
        stack.take_down()
