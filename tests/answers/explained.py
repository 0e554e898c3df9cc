"""Differences between tables and packets that somebody has read, by the capture: which of the two is at fault, or why they differ."""

from __future__ import annotations

import re

#: By a part of the file's name; variants of a capture have its name in theirs.
EXPLAINED = {
    r"^at-once": "dozens of captures at once, among them those below",
    r"bigtcp|mpls-6in6-broken|fabric-path|802\.11": "tshark and the agent read broken headers, jumbograms and these link layers differently",
    r"frag|reassembly": "fragments without a first fragment count when their wait ends, which the check does not model",
    r"instagram|tls_|query-method": "ndpiReader names applications by segments that the agent does not inspect",
}


def reason(capture: str) -> str | None:
    """Why a capture differs, if somebody has found out."""
    return next((reason for pattern, reason in EXPLAINED.items() if re.search(pattern, capture)), None)
