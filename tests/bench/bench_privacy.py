"""What pseudonyms cost: `make bench-privacy`, a minute or two.

`weir-bench privacy` makes the pseudonyms of the records of captures (by default the chosen public ones), in their order and
with a memory that is empty in each round, and of random addresses, of which it remembers none. Beside it nfdump's `nfanon`
does the same in files of one-way UDP flows between random addresses; the time in which `nfdump` alone copies the same file is
taken off. Both replace two addresses of each record. A table on standard output, with JSON in `.weir/bench/privacy.json`; exit
status 1 if a target is missed: 60 ns on captures, 250 ns for new IPv4, 1,000 ns for new IPv6.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_capture import FOLDER
from capture_traces import header
from harness import BENCH, CHECKOUT
from public_captures import chosen_captures

#: Targets, ns per record.
TARGETS = {"ordinary": 60, "new_ipv4": 250, "new_ipv6": 1000}
#: Records in a file for nfanon.
RECORDS = 100_000
TITLES = {"ordinary": "records of captures", "new_ipv4": "new addresses, IPv4", "new_ipv6": "new addresses, IPv6"}


def random_capture(path: Path, version: int) -> None:
    """One datagram of each flow."""
    drawn = random.Random(version)
    with path.open("wb") as file:
        file.write(header())
        for number in range(RECORDS):
            datagram = struct.pack("!HHHH", 1024 + number % 60_000, 53, 8, 0)
            if version == 4:
                ends = drawn.getrandbits(64).to_bytes(8, "big")
                packet = struct.pack("!BBHHHBBH", 0x45, 0, 28, 0, 0, 64, 17, 0) + ends + datagram
            else:
                packet = (
                    struct.pack("!IHBB", 6 << 28, 8, 17, 64) + drawn.getrandbits(256).to_bytes(32, "big") + datagram
                )
            frame = bytes(12) + (b"\x08\x00" if version == 4 else b"\x86\xdd") + packet
            file.write(struct.pack("<IIII", 1_790_000_000 + number // 10_000, number % 10_000, len(frame), len(frame)))
            file.write(frame)


def cpu_s(words: list[str]) -> float:
    """CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def nfanon_ns(version: int) -> float:
    """Nanoseconds of CPU per record, the best of three."""
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        capture, flows = Path(folder, "made.pcap"), Path(folder, "flows")
        random_capture(capture, version)
        flows.mkdir()
        cpu_s(["nfpcapd", "-r", str(capture), "-w", str(flows)])
        (made,) = flows.glob("nfcapd.*")
        out = str(Path(folder, "out"))
        hidden = min(cpu_s(["nfanon", "-q", "-K", "k" * 32, "-r", str(made), "-w", out]) for _ in range(3))
        copied = min(cpu_s(["nfdump", "-q", "-r", str(made), "-w", out]) for _ in range(3))
        return (hidden - copied) / RECORDS * 1e9


def main() -> int:
    """Measure and print."""
    captures = [Path(word) for word in sys.argv[1:]] or chosen_captures(CHECKOUT.parent / "shared")
    if not captures:
        print("no captures: name some (CAPTURES='files')", file=sys.stderr)
        return 2
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    done = subprocess.run(
        [str(BENCH), "privacy", *map(str, captures), "--rounds", "50"], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    theirs = {f"new_ipv{version}": nfanon_ns(version) for version in (4, 6)} if shutil.which("nfanon") else {}
    lines = ["| records | weir, ns per record | target | nfanon 1.7.1, ns per record |", "|---|---:|---:|---:|"]
    for name, target in TARGETS.items():
        other = f"{theirs[name]:,.0f}" if name in theirs else ""
        title = f"{TITLES[name]}, {found[name]['records']:,} of them"
        lines.append(f"| {title} | {found[name]['ns_per_record']:,.1f} | {target:,} | {other} |")
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "privacy.json").write_text(json.dumps({"weir": found, "nfanon_ns_per_record": theirs}, indent=1) + "\n")
    print("\n".join(lines))
    return int(any(found[name]["ns_per_record"] > target for name, target in TARGETS.items()))


if __name__ == "__main__":
    raise SystemExit(main())
