"""Makes what a release leaves for later versions to upgrade: run it in a checkout of the release, built.

Example: python tests/upgrade/make_released.py 0.1.0
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tarfile
import tempfile
from dataclasses import asdict
from pathlib import Path

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

import upgrades
from harness import CHECKOUT, RunningStack
from releases import FOLDER, Released
from weir import savepoint
from weir.demo_traffic import write_capture


def keep_messages(stack: RunningStack) -> None:
    """Let Kafka keep the messages for as long as the archive is used."""
    client = AdminClient(stack.stack.brokers.client())
    topics = [name for name in client.list_topics(timeout=10).topics if name.startswith("weir.")]
    forever = ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET)
    resources = [ConfigResource("topic", name, incremental_configs=[forever]) for name in topics]
    for future in client.incremental_alter_configs(resources).values():
        future.result(30)


def fill(stack: RunningStack, folder: Path) -> tuple[dict[str, int], dict[str, list[dict[str, object]]]]:
    """Publish, store, and stop in the middle; returns the packets of each probe, and the rows of `kept`."""

    def read(probe: str, packets: int, seconds: int = 60) -> int:
        written = write_capture(folder / "written.pcap", packets, seconds)
        stack.read(probe, folder / "written.pcap")
        return written

    packets = {}
    for probe in ("kept", "both", "waiting"):
        stack.enrol(probe)
    keep_messages(stack)
    for probe, count, seconds in (("kept", 2_000, 120), ("both", 1_000, 60)):
        packets[probe] = read(probe, count, seconds)
    for probe, count in packets.items():
        assert stack.settled(probe, count, 120)["packets"] == count, probe
    savepoint.stop(stack.stack)
    stack.stop("flink")
    packets["waiting"] = read("waiting", 1_000)
    return packets, upgrades.kept(stack, "kept")


def main() -> None:
    """Make the archive and its description."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("release", help="such as 0.1.0")
    release = parser.parse_args().release
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    stack = RunningStack()
    try:
        stack.bring_up()
        with tempfile.TemporaryDirectory() as folder:
            packets, kept = fill(stack, Path(folder))
        done = stack.weir("down")
        assert done.status == 0, done.err
        made = Released(release, head.stdout.strip(), packets, kept)
        FOLDER.mkdir(exist_ok=True)
        with tarfile.open(made.archive, "w:xz", preset=9) as archive:
            archive.add(stack.home / "data", "data")
        made.archive.with_name(f"{release}.json").write_text(json.dumps(asdict(made), indent=1) + "\n")
    finally:
        stack.remove()


if __name__ == "__main__":
    main()
