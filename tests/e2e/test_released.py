"""What each release left is taken over by this version: its rows, its unread messages, and its jobs' state.

The archives are in `tests/upgrade/released`. `make check-upgrade` does more, with the release itself.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

import upgrades
from harness import RunningStack
from releases import Released, all_released
from weir.demo_traffic import write_capture


@pytest.mark.parametrize("released", all_released(), ids=lambda one: one.release)
def test_this_version_takes_over(released: Released, tmp_path: Path) -> None:
    stack = RunningStack()
    with tarfile.open(released.archive) as archive:
        archive.extractall(stack.home, filter="data")
    (saved,) = (stack.home / "data/flink").glob("savepoint-*/_metadata")
    with stack:
        assert f"state: {saved.parent}" in (stack.home / "logs/flink.log").read_text()
        assert upgrades.kept(stack, "kept") == released.kept
        more = write_capture(tmp_path / "more.pcap", packets=1_000)
        stack.enrol("new")
        packets = dict(released.packets)
        # A new run of the agent of "both" continues what is in the state.
        for probe in ("new", "both"):
            stack.read(probe, tmp_path / "more.pcap")
            packets[probe] = packets.get(probe, 0) + more
        upgrades.check(stack, packets, over=("kept", "waiting"))
