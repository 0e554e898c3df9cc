"""Runs every public capture through `weir-probe read --to none`, and compares with tshark.

`make check-captures`. For each file: no crash, no hang, a summary that balances; and if tshark reads it without
complaint, exit status 0 and as many IP packets metered as tshark counts, except for listed causes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import AGENT, CHECKOUT
from public_captures import ip_volume

#: Captures of which the agent meters more packets than tshark counts, and why.
MORE = dict.fromkeys(
    ("LINKTYPE_IPV4_invalid.pcap", "LINKTYPE_IPV6_invalid.pcap"),
    "the link type promises one version of IP and the packet has the other: the agent believes the packet",
)


@dataclass
class Result:
    """The result of one capture: `verdict` is one word, `text` explains it to a person."""

    path: Path
    verdict: str
    text: str = ""


def check(path: Path) -> Result:
    """Read one capture and judge it."""
    command = [str(AGENT), "read", str(path), "--to", "none", "--summary", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return Result(path, "HANG")
    if done.returncode not in (0, 2, 3):
        return Result(path, "CRASH", f"exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    shown = subprocess.run(
        ["tshark", "-n", "-r", str(path), "-w", "/dev/null"], capture_output=True, text=True, check=False
    )
    clean = shown.returncode == 0 and "tshark:" not in shown.stderr
    if done.returncode == 2:
        if len(done.stderr.strip().splitlines()) != 1:
            return Result(path, "UNCLEAR", done.stderr.strip()[-300:])
        return Result(path, "refused, tshark reads it" if clean else "refused, so does tshark", done.stderr.strip())
    summary = json.loads(done.stdout)
    wrong = unbalanced(summary)
    if wrong:
        return Result(path, "UNBALANCED", wrong)
    if not clean:
        return Result(path, "balanced, tshark complains")
    if done.returncode:
        return Result(
            path, "STATUS", f"exit status {done.returncode} where tshark is content: {done.stderr.strip()[-200:]}"
        )
    metered = summary["packets"]["in_flow_records"] + summary["packets"]["in_overflow_records"]
    octets = summary["octets"]["in_flow_records"] + summary["octets"]["in_overflow_records"]
    expected = ip_volume(path)
    if (metered, octets) == expected:
        return Result(path, "equal")
    causes = summary["packets"]["not_metered"]
    text = f"metered {metered} packets {octets} octets, tshark {expected[0]} {expected[1]}, not metered {causes}"
    if metered > expected[0] and path.name in MORE:
        return Result(path, "more, with a cause", f"{text}: {MORE[path.name]}")
    if metered != expected[0]:
        accounted = 0 < expected[0] - metered <= sum(causes.values())
        return Result(path, "fewer, with a cause" if accounted else "PACKETS DIFFER", text)
    return Result(path, "packets equal, octets differ", text)


def unbalanced(summary: dict[str, Any]) -> str:
    """Empty if the law of conservation holds, in packets and in octets."""
    for unit in ("packets", "octets"):
        one = summary[unit]
        there = one["in_flow_records"] + one["in_overflow_records"] + sum(one["not_metered"].values())
        if one["captured"] != there:
            return f"{unit}: captured {one['captured']}, accounted for {there}"
    return ""


def main() -> None:
    """Check every capture and print a table of verdicts; exit status 1 if a verdict is in capitals, which marks a
    fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=CHECKOUT.parent / "shared/pcaps")
    options = parser.parse_args()
    if not options.folder.is_dir():
        sys.exit(f"{options.folder} is not here: the public captures exist only beside the developers' checkout")
    paths = sorted(path for path in options.folder.rglob("*") if path.is_file())
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(check, paths))
    for result in results:
        if result.verdict not in ("equal", "balanced, tshark complains"):
            print(f"{result.verdict:30} {result.path.relative_to(options.folder)}: {result.text}")
    print(f"\n{len(results)} captures")
    for verdict, count in Counter(result.verdict for result in results).most_common():
        print(f"{count:6} {verdict}")
    sys.exit(1 if any(result.verdict.split()[0].isupper() for result in results) else 0)


if __name__ == "__main__":
    main()
