"""The captures that `make check-answers` reads when it gets no CAPTURE: captures of many kinds, and variants of
some."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from variants import at_once, from_the_middle, one_way, thinned

#: File names of kinds that are rare among the others.
RARE = re.compile(
    r"frag|ipv6|icmp|scan|flood|syn|unreach|gre|vlan|sctp|unanswered|tunnel|mpls|worm|ports", re.IGNORECASE
)
#: What is varied: whole connections, scans, many hosts.
VARIED = [
    "ipfixprobe/http.pcap",
    "ndpi/KakaoTalk_chat.pcap",
    "ndpi/synscan.pcap",
    "zeek/ipv6.pcap",
    "zeek/var-services-std-ports.pcap",
]
#: What tshark or the capture itself gets wrong: not among those that are put side by side.
AWKWARD = re.compile(r"broken|bigtcp|state-leak|tls\.pcap|LINKTYPE|oobr", re.IGNORECASE)
SMALLEST, LARGEST = 300, 1_000_000


def selection(shared: Path, folder: Path, rare: int = 50, others: int = 50) -> list[Path]:
    """Captures of rare kinds, and others, both chosen by the SHA-256 of their names; and variants, written to the
    folder."""
    every = sorted(
        (path for path in shared.rglob("*") if path.is_file() and SMALLEST < path.stat().st_size < LARGEST),
        key=lambda path: hashlib.sha256(path.name.encode()).hexdigest(),
    )
    named = [path for path in every if RARE.search(path.name)][:rare]
    plain = [path for path in every if not RARE.search(path.name)][:others]
    whole = [path for path in (shared / one for one in VARIED) if path.exists()]
    made = [make(path, folder) for path in whole for make in (thinned, one_way, from_the_middle)]
    tame = [path for path in every if "tcpdump" not in path.parts and not AWKWARD.search(path.name)]
    return [*named, *plain, *made, *(at_once(tame[part::3], folder, f"at-once-{part}") for part in range(3))]
