"""Public captures: the ones a test uses, and tshark's counts for them."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path


def ip_volume(capture: Path) -> tuple[int, int]:
    """IP packets and layer-3 octets, as tshark counts them; if IP headers are nested, only the outermost counts.

    A packet counts if tshark reads a length from its IP header. A packet with the EtherType of IP but a header of
    version 2 has no IP length: tshark calls it bogus, the agent malformed.
    """
    fields = [word for name in ("frame.protocols", "ip.len", "ipv6.plen") for word in ("-e", name)]
    options = ["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE", "-E", "separator=;", "-E", "occurrence=f"]
    command = ["tshark", "-n", "-r", str(capture), "-Y", "ip.len or ipv6.plen", "-T", "fields", *options, *fields]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    packets = octets = 0
    for line in shown.stdout.splitlines():
        protocols, four, six = line.split(";")
        outermost = next(name for name in protocols.split(":") if name in ("ip", "ipv6"))
        length = four if outermost == "ip" else six
        if length:
            packets += 1
            octets += int(length) + (0 if outermost == "ip" else 40)
    return packets, octets


def chosen_captures(shared: Path, count: int = 20) -> list[Path]:
    """The captures whose file names have the smallest SHA-256, among those that capinfos accepts; and one large one."""
    every = sorted(
        (path for path in (shared / "pcaps").rglob("*") if path.is_file()),
        key=lambda path: hashlib.sha256(path.name.encode()).hexdigest(),
    )
    chosen: list[Path] = []
    for path in every:
        if subprocess.run(["capinfos", str(path)], capture_output=True, check=False).returncode == 0:
            chosen.append(path)
        if len(chosen) == count:
            break
    return [*chosen, shared / "pcaps/zeek/echo-connections.pcap.gz"]
