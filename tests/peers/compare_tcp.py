"""Compares the agent's round trips, retransmissions and out-of-order segments with tshark's TCP analysis.

`make check-tcp`, or `python tests/peers/compare_tcp.py CAPTURE_OR_FOLDER ...`: for every capture with TCP, flow by flow
and direction by direction, the counts of `weir-probe read --to jsonl` and tshark's `tcp.analysis` fields; then the
causes of the differences, derived from the segments themselves. Exit status 1 if a difference has no known cause.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from harness import AGENT, CHECKOUT

#: Source address and port, destination address and port.
Direction = tuple[str, int, str, int]

#: tshark's fields of a segment, in this order.
FIELDS = [
    "frame.protocols",
    "frame.time_epoch",
    "ip.src",
    "ipv6.src",
    "ip.dst",
    "ipv6.dst",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.stream",
    "tcp.flags",
    "tcp.len",
    "tcp.analysis.initial_rtt",
    "tcp.analysis.retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.keep_alive",
    "tcp.analysis.zero_window_probe",
    "tcp.seq_raw",
    "frame.number",
]

FIN, SYN, RST, ACK = 1, 2, 4, 16
#: How long the agent keeps a flow without packets, s.
IDLE = 60

UNEXPLAINED = "UNEXPLAINED"


class Segment(NamedTuple):
    """A segment as captured."""

    frame: int
    stream: str
    time: float
    sequence: int
    octets: int
    flags: int
    #: tshark calls it retransmitted or out of order.
    called: bool
    #: Its header is truncated.
    cut: bool

    def end(self) -> int:
        """The sequence number after it."""
        return self.sequence + self.octets + bool(self.flags & SYN) + bool(self.flags & FIN)


@dataclass
class Side:
    """One direction of a flow, as tshark sees it."""

    retransmissions: int = 0
    out_of_order: int = 0
    streams: set[str] = field(default_factory=set)
    #: Counts among the retransmitted or out-of-order segments: with RST; without octets; probes of a closed window.
    resets: int = 0
    empty: int = 0
    probes: int = 0
    segments: list[Segment] = field(default_factory=list)


@dataclass
class Capture:
    """Both views of a capture."""

    path: Path
    theirs: dict[Direction, Side]
    ours: dict[Direction, tuple[int, int]]
    #: Handshakes' round trips by the initiator's direction, microseconds.
    their_rtt: dict[Direction, list[int]]
    our_rtt: dict[Direction, list[int]]
    initiators: set[Direction]
    #: The VLANs of each flow's records, by either direction.
    vlans: dict[Direction, set[int]]


def back(direction: Direction) -> Direction:
    """The other direction."""
    return direction[2], direction[3], direction[0], direction[1]


def is_outer(protocols: str) -> bool:
    """Whether the outermost IP header carries TCP."""
    layers = protocols.split(":")
    for at, layer in enumerate(layers):
        if layer in ("ip", "ipv6"):
            above = (name for name in layers[at + 1 :] if not name.startswith("ipv6."))
            return next(above, "") == "tcp"
    return False


def read_tshark(path: Path) -> tuple[dict[Direction, Side], dict[Direction, list[int]]]:
    """The directions and the round trips; tunnelled segments and those quoted by ICMP are left out."""
    command = ["tshark", "-n", "-r", str(path), "-Y", "tcp", "-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"]
    command += ["-T", "fields", "-E", "occurrence=f", *(word for name in FIELDS for word in ("-e", name))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    sides: defaultdict[Direction, Side] = defaultdict(Side)
    first_rtt: dict[str, tuple[Direction, int]] = {}
    initiator: dict[str, Direction] = {}
    for line in done.stdout.splitlines():
        one = dict(zip(FIELDS, line.split("\t"), strict=True))
        if not is_outer(one["frame.protocols"]) or not one["tcp.srcport"]:
            continue
        direction = (
            one["ip.src"] or one["ipv6.src"],
            int(one["tcp.srcport"]),
            one["ip.dst"] or one["ipv6.dst"],
            int(one["tcp.dstport"]),
        )
        side, stream = sides[direction], one["tcp.stream"]
        flags = int(one["tcp.flags"] or "0", 16)
        length = int(one["tcp.len"] or 0)
        side.streams.add(stream)
        again, overtaken = bool(one["tcp.analysis.retransmission"]), bool(one["tcp.analysis.out_of_order"])
        sequence, cut = int(one["tcp.seq_raw"] or 0), not one["tcp.len"]
        at = float(one["frame.time_epoch"])
        side.segments.append(
            Segment(int(one["frame.number"]), stream, at, sequence, length, flags, again or overtaken, cut)
        )
        side.retransmissions += again
        side.out_of_order += overtaken
        if again or overtaken:
            side.resets += bool(flags & RST)
            side.empty += length == 0 and not flags & (SYN | FIN | RST)
            side.probes += bool(one["tcp.analysis.zero_window_probe"] or one["tcp.analysis.keep_alive"])
        if flags & (SYN | ACK) == SYN:
            initiator.setdefault(stream, direction)
        if one["tcp.analysis.initial_rtt"]:
            first_rtt.setdefault(stream, (direction, round(float(one["tcp.analysis.initial_rtt"]) * 1e6)))
    rtt: defaultdict[Direction, list[int]] = defaultdict(list)
    for stream, (direction, micros) in first_rtt.items():
        rtt[initiator.get(stream, direction)].append(micros)
    return dict(sides), dict(rtt)


def read_agent(
    path: Path,
) -> tuple[dict[Direction, tuple[int, int]], dict[Direction, list[int]], set[Direction], dict[Direction, set[int]]]:
    """Retransmissions and out-of-order segments by direction, round trips, the initiators' directions, VLANs."""
    command = [str(AGENT), "read", str(path), "--to", "jsonl", "--keep-time"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    counts: defaultdict[Direction, tuple[int, int]] = defaultdict(lambda: (0, 0))
    rtt: defaultdict[Direction, list[int]] = defaultdict(list)
    initiators = set()
    vlans: defaultdict[Direction, set[int]] = defaultdict(set)
    for line in done.stdout.splitlines():
        record = json.loads(line)
        if record["protocol"] != 6 or record["record_kind"] != "flow":
            continue
        direction = (record["src_addr"], record["src_port"], record["dst_addr"], record["dst_port"])
        initiators.add(direction)
        for way, prefix in ((direction, "fwd"), (back(direction), "rev")):
            vlans[way].add(record["vlan"])
            again, overtaken = counts[way]
            counts[way] = (
                again + record.get(f"{prefix}_tcp_retransmissions", 0),
                overtaken + record.get(f"{prefix}_tcp_out_of_order", 0),
            )
        if micros := record.get("tcp_handshake_rtt_us"):
            rtt[direction].append(micros)
    return dict(counts), dict(rtt), initiators, dict(vlans)


def read(path: Path) -> Capture:
    """Both views of a capture."""
    theirs, their_rtt = read_tshark(path)
    ours, our_rtt, initiators, vlans = read_agent(path)
    return Capture(path, theirs, ours, their_rtt, our_rtt, initiators, vlans)


def idle(side: Side, other: Side | None) -> bool:
    """Whether the flow was silent for longer than the agent keeps an idle flow."""
    times = sorted(segment.time for one in (side, other) if one for segment in one.segments)
    return any(later - earlier > IDLE for earlier, later in pairwise(times))


def is_first(segment: Segment, side: Side) -> bool:
    """Whether all octets of a segment are new."""
    return not any(
        earlier.frame < segment.frame
        and earlier.stream == segment.stream
        and earlier.sequence < segment.end()
        and segment.sequence < earlier.end()
        for earlier in side.segments
    )


def why(side: Side, other: Side | None, ours: tuple[int, int]) -> str:
    """The cause of a difference in one direction."""
    theirs = (side.retransmissions, side.out_of_order)
    if any(segment.cut for segment in side.segments):
        return "TCP headers are truncated: tshark does not analyse such segments"
    if sum(theirs) == sum(ours):
        return "the same segments: out of order to tshark, retransmitted to the agent, or the reverse"
    first = sum(segment.called and is_first(segment, side) for segment in side.segments)
    if first and sum(theirs) - first == sum(ours):
        return "octets seen for the first time, after an ACK of them or beyond them: tshark calls them retransmitted"
    if len(side.streams) > 1 or (other and len(other.streams) > 1):
        return "ports used again"
    if side.resets:
        return "resets"
    if side.probes or side.empty:
        return "keep-alives and probes"
    if idle(side, other):
        return "idle for more than 60 s"
    return UNEXPLAINED


def same_rtt(theirs: list[int], ours: list[int]) -> bool:
    """Equal except for rounding to a microsecond."""
    return len(theirs) == len(ours) and all(
        abs(one - other) <= 1 for one, other in zip(sorted(theirs), sorted(ours), strict=True)
    )


def report(captures: list[Capture], verbose: bool) -> bool:
    """Print the tables; true if every difference has a cause."""
    totals: Counter[tuple[str, str]] = Counter()
    causes: Counter[tuple[str, str]] = Counter()
    lines = []
    for capture in captures:
        here: Counter[tuple[str, str]] = Counter()
        for direction, side in capture.theirs.items():
            way = "from the initiator" if direction in capture.initiators else "to the initiator"
            ours = capture.ours.get(direction, (0, 0))
            theirs = (side.retransmissions, side.out_of_order)
            for name, value in zip(("tshark again", "tshark overtaken"), theirs, strict=True):
                here[way, name] += value
            for name, value in zip(("agent again", "agent overtaken"), ours, strict=True):
                here[way, name] += value
            here[way, "directions"] += 1
            here[way, "equal"] += theirs == ours
            if theirs != ours:
                cause = why(side, capture.theirs.get(back(direction)), ours)
                causes["segments", cause] += 1
                if verbose:
                    print(f"{capture.path.name} {direction}: tshark {theirs}, agent {ours}: {cause}")
        for direction in capture.their_rtt.keys() | capture.our_rtt.keys():
            theirs_, ours_ = capture.their_rtt.get(direction, []), capture.our_rtt.get(direction, [])
            here["round trip", "directions"] += 1
            here["round trip", "equal"] += same_rtt(theirs_, ours_)
            if not same_rtt(theirs_, ours_):
                cause = why_rtt(capture, direction, theirs_, ours_)
                causes["round trip", cause] += 1
                if verbose:
                    print(f"{capture.path.name} {direction}: round trip tshark {theirs_}, agent {ours_}: {cause}")
        for way in ("from the initiator", "to the initiator"):
            if here[way, "directions"] != here[way, "equal"]:
                lines.append(row(capture.path.name, way, here))
        totals += here
    print("| capture | direction | flows | equal | retransmitted: tshark | agent | out of order: tshark | agent |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for line in lines:
        print(line)
    for way in ("from the initiator", "to the initiator"):
        print(row(f"all {len(captures)}", way, totals))
    flows, same = (totals["round trip", name] for name in ("directions", "equal"))
    print(f"\nHandshake round-trip time: measured for {flows} flows, equal to the microsecond for {same}.\n")
    print("| figure | flows and directions | cause of the difference |\n|---|---:|---|")
    for (of, cause), count in causes.most_common():
        print(f"| {of} | {count} | {cause} |")
    return not any(cause == UNEXPLAINED for _, cause in causes)


def why_rtt(capture: Capture, direction: Direction, theirs: list[int], ours: list[int]) -> str:
    """The cause of a difference of round trips."""
    none = Side()
    there, here = (capture.theirs.get(way, none) for way in (direction, back(direction)))
    if len(capture.vlans.get(direction, ())) > 1:
        return "each direction has its own VLAN: two flows to the agent"
    if len(there.streams) > 1:
        return "ports used again"
    if any(segment.flags & SYN and segment.flags & (FIN | RST) for segment in there.segments):
        return "SYN and FIN in one segment: fuzzed"
    answers = [segment for segment in here.segments if segment.flags & (SYN | ACK) == SYN | ACK]
    asked = [segment for segment in there.segments if segment.flags & SYN]
    if not answers:
        return "no SYN-ACK was captured, or a reset is the answer: tshark takes any ACK"
    if asked and answers[0].frame < asked[0].frame:
        return "the capture has the SYN-ACK before the SYN"
    done = [segment for segment in there.segments if not segment.flags & SYN and segment.frame > answers[0].frame]
    if asked and done and done[0].time - asked[0].time < 3e-6:
        return "the capture's times put the whole handshake in one moment: the agent reports 1 or 2 us, tshark none or that of a later ACK"
    return UNEXPLAINED


def row(name: str, way: str, counts: Counter[tuple[str, str]]) -> str:
    """A line of the table."""
    of = [
        counts[way, key]
        for key in ("directions", "equal", "tshark again", "agent again", "tshark overtaken", "agent overtaken")
    ]
    return f"| {name} | {way} | " + " | ".join(map(str, of)) + " |"


def files(given: list[Path]) -> Iterator[Path]:
    """The named files, and every file within the named folders."""
    for path in given:
        yield from sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]


def main() -> None:
    """Command-line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="*", type=Path, default=[CHECKOUT.parent / "shared/pcaps/zeek"])
    parser.add_argument("--verbose", action="store_true", help="every difference, one a line")
    options = parser.parse_args()
    with ThreadPoolExecutor(2) as pool:
        captures = [capture for capture in pool.map(read, files(options.captures)) if capture.theirs]
    if not captures:
        sys.exit("no TCP found: name captures, or put the public ones beside the checkout (../shared/pcaps/zeek)")
    sys.exit(0 if report(captures, options.verbose) else 1)


if __name__ == "__main__":
    main()
