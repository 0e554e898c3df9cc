"""Fragments belong to their flow: the same datagrams whole, fragmented, and fragmented and shuffled.

Flows, datagrams and layer-4 octets are equal, and so are the flows' five-tuples. Packets that were already fragments,
and those of IPv6, stay as they are. The metered packets and layer-3 octets are those on the wire, and differ.
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from capture_traces import SHARED, Writer, fragmented, made_frames, ordinary
from harness import AGENT

PACKETS = 100_000
#: Fragments a second: slow enough that no host uses an identification again within a second.
RATE = 20_000
WITH_PORTS = (6, 17, 132, 33, 136)


def made(path: Path) -> None:
    """Generated conversations."""
    writer = Writer(path, 200_000)
    for frame in made_frames(random.Random(1), PACKETS):
        writer.write(frame)
    writer.close()


def metered(path: Path) -> tuple[dict[str, Any], set[Any]]:
    """The summary of a capture, and its flows' five-tuples: the same for both directions."""
    command = [str(AGENT), "read", str(path), "--to", "jsonl", "--keep-time", "--interval", "30s", "--summary", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    tuples = set()
    for line in done.stdout.splitlines():
        one = json.loads(line)
        assert one["record_kind"] == "flow", "there is room for all"
        ends = [(one["src_addr"], one["src_port"]), (one["dst_addr"], one["dst_port"])]
        if one["protocol"] not in WITH_PORTS:
            # The destination port holds the message type.
            ends = [(address, one["dst_port"]) for address, _ in ends]
        tuples.add((one["protocol"], one["vlan"], *sorted(ends)))
    return json.loads(done.stderr.splitlines()[-1]), tuples


@pytest.mark.parametrize("traffic", ["made", "real"])
def test_datagrams_whole_and_fragmented_are_the_same_flows(tmp_path: Path, traffic: str) -> None:
    whole = tmp_path / "whole.pcap"
    if traffic == "made":
        made(whole)
    elif SHARED.is_dir():
        ordinary(whole, PACKETS)
    else:
        pytest.skip("../shared is not here")
    keys = ("flows", "datagrams", "layer4_octets")
    summary, flows = metered(whole)
    print(f"\n| {traffic} | packets | " + " | ".join(keys) + " |\n|---|---:|---:|---:|---:|")
    rows = {"whole": (summary, flows)}
    for window in (1, 32, 100, 2000):
        path = tmp_path / "fragmented.pcap"
        fragmented(path, whole, window, packets=1 << 40, rate=RATE)
        rows["fragmented" if window == 1 else f"shuffled within {window}"] = metered(path)
    for name, (one, _) in rows.items():
        numbers = [one["packets"]["captured"], *(one[key] for key in keys)]
        print(f"| {name} | " + " | ".join(map(str, numbers)) + " |")
    for name, (one, found) in rows.items():
        assert {key: one[key] for key in keys} == {key: summary[key] for key in keys}, name
        assert found == flows, name
    assert rows["fragmented"][0]["packets"]["captured"] > PACKETS * 5 // 4
