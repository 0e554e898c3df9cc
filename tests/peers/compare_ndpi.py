"""Compares the agent's applications with ndpiReader's.

`make check-applications`, or `python tests/peers/compare_ndpi.py CAPTURE_OR_FOLDER ...`, reads each capture with
`weir-probe read --to jsonl` and with `ndpiReader -C`, joins flows by five-tuple and prints how many agree, and why the
others do not. `--records FOLDER` takes the agent's records from FOLDER/CAPTURE.jsonl instead. Both must use the same
version of nDPI.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AGENT = Path(__file__).resolve().parents[2] / "capture/target/release/weir-probe"

SHARED = Path(__file__).resolve().parents[3] / "shared/pcaps/ndpi"

# Protocols above IP with ports; flows of other protocols are identified by their addresses alone.
WITH_PORTS = {6, 17}

COULD_NOT_OPEN = "ndpiReader could not open"

SAME = "the same application"
BOTH_UNKNOWN = "neither says anything"
NOT_OURS = "the agent has no such flow"
NOT_THEIRS = "ndpiReader has no such flow"

FiveTuple = tuple[int, tuple[str, int], tuple[str, int]]


@dataclass(frozen=True)
class Seen:
    """ndpiReader's result for a flow; `master` is 0 if the application has no carrier protocol."""

    master: int
    app: int
    name: str
    octets_above_transport: int


@dataclass
class Comparison:
    """The comparison of the flows of some captures."""

    # By verdict, and whether the flow had payload.
    flows: Counter[tuple[str, bool]] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    where: defaultdict[tuple[str, str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    failed: list[str] = field(default_factory=list)

    def add(self, verdict: str, payload: bool, theirs: str, ours: str, capture: str) -> None:
        """Count one flow."""
        self.flows[verdict, payload] += 1
        if verdict not in (SAME, BOTH_UNKNOWN):
            self.pairs[verdict, theirs, ours] += 1
            self.where[verdict, theirs, ours][capture] += 1


def five_tuple(protocol: int, ends: Iterable[tuple[str, int]]) -> FiveTuple:
    """A key that is the same for both directions of a flow. Addresses are as ndpiReader writes them, with every `:0:`
    as `::`.
    """
    ported = protocol in WITH_PORTS
    low, high = sorted((address.replace(":0:", "::"), port if ported else 0) for address, port in ends)
    return protocol, low, high


def theirs(capture: Path) -> dict[FiveTuple, list[Seen]]:
    """The flows that ndpiReader finds."""
    flows = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "flows.csv"
        # Only this verbosity writes all flows to the CSV: lower ones omit undetected flows.
        command = ["ndpiReader", "-v", "2", "-i", str(capture), "-C", str(out)]
        done = subprocess.run(command, capture_output=True, timeout=120, check=True)
        text = done.stdout + done.stderr
        # It exits with 0 if it cannot read a capture.
        if error := re.search(rb"ERROR: could not open([^\n]*)", text):
            raise RuntimeError(f"{COULD_NOT_OPEN}{error[1].decode()}")
        unique = re.search(rb"Unique flows:\s+(\d+)", text)
        with out.open(encoding="utf-8", errors="replace", newline="") as lines:
            header = next(lines).lstrip("#").strip().split(",")
            for row in csv.reader(lines, quoting=csv.QUOTE_NONE):
                # Names may hold commas: only columns before the first name are read by position.
                one = dict(zip(header, row, strict=False))
                ids = [int(number) for number in one["ndpi_proto_num"].split(".")]
                ends = [(one["src_ip"], int(one["src_port"])), (one["dst_ip"], int(one["dst_port"]))]
                flows[five_tuple(int(one["protocol"]), ends)].append(
                    Seen(
                        master=ids[0] if len(ids) > 1 else 0,
                        app=ids[-1],
                        name=one["ndpi_proto"],
                        octets_above_transport=number(one, "c_to_s_goodput_bytes")
                        + number(one, "s_to_c_goodput_bytes"),
                    )
                )
    written = sum(map(len, flows.values()))
    if written != (int(unique[1]) if unique else 0):
        raise RuntimeError(f"ndpiReader wrote {written} flows but reports {unique and int(unique[1])}")
    return flows


def number(row: dict[str, str], key: str) -> int:
    """A number that a name with a comma may have shifted."""
    try:
        return int(row[key])
    except (KeyError, ValueError):
        return 1


def ours(capture: Path, records: Path | None) -> dict[FiveTuple, tuple[int, str | None]]:
    """The agent's flows: the last application stated for each, and why it was not inspected, if it was not."""
    flows: dict[FiveTuple, tuple[int, str | None]] = {}
    for record in read_records(capture, records):
        if record.get("record_kind", "flow") != "flow":
            continue
        ends = [(record["src_addr"], record["src_port"]), (record["dst_addr"], record["dst_port"])]
        key = five_tuple(record["protocol"], ends)
        before, why = flows.get(key, (0, None))
        flows[key] = (record.get("application_id", 0) or before, record.get("application_not_inspected") or why)
    return flows


def read_records(capture: Path, records: Path | None) -> Iterator[dict[str, Any]]:
    """The agent's records of a capture."""
    if records:
        text = (records / f"{capture.name}.jsonl").read_text(encoding="utf-8")
    else:
        command = [str(AGENT), "read", str(capture), "--to", "jsonl", "--keep-time"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        # 3: the capture is truncated, and its complete part was metered.
        if done.returncode not in (0, 3):
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        text = done.stdout
    return map(json.loads, text.splitlines())


def has_payload(seen: list[Seen]) -> bool:
    """Whether the flow had payload to inspect."""
    return any(one.octets_above_transport > 0 for one in seen)


def judge(seen: list[Seen], application: int, not_inspected: str | None) -> tuple[str, Seen]:
    """One phrase on how the agent's and ndpiReader's results for a flow relate."""
    for one in seen:
        if application == one.app:
            return SAME if application else BOTH_UNKNOWN, one
    last = seen[-1]
    for one in seen:
        if application and application == one.master:
            return "the agent says only the protocol below", one
    if application == 0:
        if not_inspected:
            return f"not inspected: {not_inspected}", last
        if not has_payload(seen):
            return "the agent says nothing, ndpiReader guesses by port or address", last
        return "the agent says nothing", last
    if all(one.app == 0 for one in seen):
        return "ndpiReader says nothing", last
    return "another application", last


def names() -> dict[int, str]:
    """The agent's names of applications."""
    done = subprocess.run([str(AGENT), "applications"], capture_output=True, text=True, check=True)
    return {int(row["id"]): row["name"] for row in csv.DictReader(done.stdout.splitlines())}


def compare(captures: list[Path], records: Path | None) -> Comparison:
    """Compare the flows of all captures."""
    comparison = Comparison()
    known = names()

    def both(capture: Path) -> tuple[dict[FiveTuple, list[Seen]], dict[FiveTuple, tuple[int, str | None]]] | str:
        try:
            return theirs(capture), ours(capture, records)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            return f"{capture.name}: {error}"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for capture, found in zip(captures, pool.map(both, captures), strict=True):
            if isinstance(found, str):
                comparison.failed.append(found)
                continue
            reader, agent = found
            for key, seen in reader.items():
                if key not in agent:
                    comparison.add(NOT_OURS, has_payload(seen), seen[-1].name, "-", capture.name)
                    continue
                application, not_inspected = agent[key]
                verdict, one = judge(seen, application, not_inspected)
                name = known.get(application, str(application))
                comparison.add(verdict, has_payload(seen), one.name, name, capture.name)
            for key in agent.keys() - reader.keys():
                name = known.get(agent[key][0], "-")
                # Its packets are not in ndpiReader's output, so whether they had payload is unknown.
                comparison.add(NOT_THEIRS, True, "-", name, capture.name)
    return comparison


def table(comparison: Comparison, commonest: int) -> str:
    """The report, in Markdown."""
    joined = {key: count for key, count in comparison.flows.items() if key[0] not in (NOT_OURS, NOT_THEIRS)}
    one_sided = sum(comparison.flows.values()) - sum(joined.values())
    lines = [
        "| flows in both | | same application | neither identifies one | differ | same, where either identifies one |"
    ]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for title, kinds in (("with payload", {True}), ("without payload", {False}), ("all", {True, False})):
        of = {verdict: sum(joined.get((verdict, kind), 0) for kind in kinds) for verdict in (SAME, BOTH_UNKNOWN)}
        flows = sum(count for (_, payload), count in joined.items() if payload in kinds)
        said = flows - of[BOTH_UNKNOWN]
        lines.append(
            f"| {title} | {flows} | {of[SAME]} | {of[BOTH_UNKNOWN]} | {said - of[SAME]} | {share(of[SAME], said)} |"
        )
    lines += ["", f"{one_sided} flows in one only; {len(comparison.failed)} captures not compared.", ""]
    lines += ["| flows | with payload | |", "|---:|---:|---|"]
    verdicts = {verdict for verdict, _ in comparison.flows}
    for verdict in sorted(
        verdicts, key=lambda verdict: -sum(comparison.flows[verdict, kind] for kind in (True, False))
    ):
        with_payload = comparison.flows[verdict, True]
        lines.append(f"| {with_payload + comparison.flows[verdict, False]} | {with_payload} | {verdict} |")
    lines += ["", "| flows | why | ndpiReader | agent | captures |", "|---:|---|---|---|---|"]
    for pair, count in comparison.pairs.most_common(commonest):
        verdict, theirs_, ours_ = pair
        captures = ", ".join(name for name, _ in comparison.where[pair].most_common(3))
        lines.append(f"| {count} | {verdict} | {theirs_} | {ours_} | {captures} |")
    lines += ["", *comparison.failed] if comparison.failed else []
    return "\n".join(lines)


def share(part: int, whole: int) -> str:
    """A share in per cent."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def captures_in(given: list[Path]) -> list[Path]:
    """The files given, and those in the folders given."""
    return sorted(file for path in given for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())


def main() -> int:
    """Command-line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="*", type=Path, default=[SHARED], help="capture files, or folders of them")
    parser.add_argument("--records", type=Path, help="folder with the agent's records, CAPTURE.jsonl each")
    parser.add_argument("--commonest", type=int, default=40, help="disagreements to list")
    options = parser.parse_args()
    captures = captures_in(options.captures)
    if not captures:
        sys.exit("no captures: name some, or put the public ones beside the checkout (../shared/pcaps/ndpi)")
    comparison = compare(captures, options.records)
    print(table(comparison, options.commonest))
    # Files that ndpiReader does not read as captures are not compared.
    return 1 if any(COULD_NOT_OPEN not in failure for failure in comparison.failed) else 0


if __name__ == "__main__":
    sys.exit(main())
