"""Connections of labelled logs as an agent would record them: Zeek's conn.log and Argus's binetflow."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from window_traffic import ICMP, INTERVAL_MS, TCP, UDP, Publisher, Seen, Way

PROTOCOLS = {"tcp": TCP, "udp": UDP, "icmp": ICMP}


def zeek(path: Path) -> Iterator[tuple[float, Seen]]:
    """Connections of a conn.log, as lines of JSON or separated by tabs, with their start times (seconds)."""
    names: list[str] = []
    for line in path.read_text().splitlines():
        if line.startswith("#fields"):
            names = line.split("\t")[1:]
        elif not line.startswith("#"):
            row = json.loads(line) if line.startswith("{") else dict(zip(names, line.split("\t"), strict=True))
            # Capitals are the originator's packets: S SYN, h SYN-ACK, F FIN, R RST; each letter once.
            history = str(row.get("history", ""))
            forward, back = (
                Way(
                    int(row[f"{side}_pkts"]),
                    int(row[f"{side}_ip_bytes"]),
                    syn=letters.count("s"),
                    synack=letters.count("h"),
                    fin=letters.count("f"),
                    rst=letters.count("r"),
                )
                for side, letters in (
                    ("orig", "".join(one for one in history if one.isupper()).lower()),
                    ("resp", "".join(one for one in history if one.islower())),
                )
            )
            yield (
                float(row["ts"]),
                seen(row["id.orig_h"], row["id.resp_h"], row, forward, back, "proto", "id.orig_p", "id.resp_p"),
            )


def argus(path: Path) -> Iterator[tuple[float, Seen]]:
    """Flows of a binetflow file. Its states S0 are SYNs without an answer: packets back are not answers."""
    with path.open() as lines:
        for row in csv.DictReader(lines):
            when = datetime.strptime(row["StartTime"], "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC)
            sent = int(row["SrcPkts"])
            forward = Way(sent, int(row["SrcBytes"]), syn=sent if row["State"] == "S0" else 0)
            back = Way(int(row["TotPkts"]) - sent, int(row["TotBytes"]) - int(row["SrcBytes"]))
            yield when.timestamp(), seen(row["SrcAddr"], row["DstAddr"], row, forward, back, "Proto", "Sport", "Dport")


def seen(src: str, dst: str, row: Any, forward: Way, back: Way, protocol: str, src_port: str, dst_port: str) -> Seen:
    """One connection; a port that is not a number (ICMP's type in hexadecimal, nothing) becomes 0."""
    ports = [int(row[name]) if str(row[name]).isdecimal() else 0 for name in (src_port, dst_port)]
    number = PROTOCOLS[row[protocol]]
    return Seen(src, dst, ports[0], ports[1], number, forward, back, guess=number != TCP or forward.syn == 0)


def publish(probe: Publisher, connections: Iterator[tuple[float, Seen]], start_ms: int) -> int:
    """Publish a log so that its first connection is in the interval at `start_ms`; returns the last interval's start."""
    ordered = sorted(connections, key=lambda one: one[0])
    intervals: dict[int, list[Any]] = {}
    for when, connection in ordered:
        since_ms = int((when - ordered[0][0]) * 1000)
        connection.first_ms = since_ms % INTERVAL_MS
        intervals.setdefault(start_ms + since_ms // INTERVAL_MS * INTERVAL_MS, []).append(connection.record())
    # Two more windows: the last SYNs are judged in the next one.
    last = max(intervals) + 60_000
    for start in range(start_ms, last + 1, INTERVAL_MS):
        probe.interval(start, intervals.get(start, []), last=start == last)
    return last
