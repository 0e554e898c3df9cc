"""Memory that a stack takes, and that there is."""

from __future__ import annotations

from pathlib import Path

import psutil

from weir.config import Stack, octets
from weir.errors import WeirError

#: Octets that a stack takes besides the heaps of its Java programs.
BESIDE_HEAPS = 1300 << 20
#: Heaps where memory is short, unless the configuration sets them.
SMALL = {"flink": "700m", "kafka": "256m"}
_CGROUP = Path("/sys/fs/cgroup")


def need(stack: Stack) -> int:
    """Octets of memory that a start of this stack takes."""
    config = stack.config
    heaps = [config.flink.heap] + ([] if config.kafka.brokers else [config.kafka.heap])
    return sum(octets(one) for one in heaps) + BESIDE_HEAPS


def available() -> tuple[int, int]:
    """Octets of memory that this process may use: in all, and free. A container's bound counts."""
    seen = psutil.virtual_memory()
    total, free = seen.total, seen.available
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            bound, usage = (int((_CGROUP / name).read_text()) for name in (limit, used))
        except (OSError, ValueError):
            continue
        if bound < total:
            total, free = bound, min(free, max(0, bound - usage))
    return total, free


def settle(stack: Stack) -> str:
    """Make the heaps small where memory is short; returns what to tell the user, or nothing.

    Raises WeirError if less than half of what the stack then takes is free.
    """
    total, free = available()
    if free >= need(stack):
        return ""
    for name, heap in SMALL.items():
        part = getattr(stack.config, name)
        if "heap" not in part.model_fields_set and octets(heap) < octets(part.heap):
            part.heap = heap
    said = f"{gib(free)} of {gib(total)} free, a stack takes {gib(need(stack))}"
    if free * 2 < need(stack):
        raise WeirError(f"not enough memory: {said}", hint="end other programs, or use a larger machine")
    return f"short: {said}"


def gib(count: int) -> str:
    """Octets for people, in GiB."""
    return f"{count / 2**30:.1f} GiB"
