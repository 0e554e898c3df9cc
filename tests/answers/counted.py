"""Counters and filters of each interval: the fixed sets from tshark's fields, filter sets by tcpdump's own verdict."""

from __future__ import annotations

from typing import Any


def judge(stack: Any, case: Any, verdicts: Any) -> None:
    """Compare the counters of a probe."""
