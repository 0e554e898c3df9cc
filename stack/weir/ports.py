"""Ports of a stack: those that another program holds are exchanged for free ones, unless the configuration names them."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from weir.errors import WeirError

if TYPE_CHECKING:
    from weir.config import Stack

#: Distance between the ports that are tried, and how many are.
STEP, TRIED = 100, 50


def chosen(home: Path) -> dict[str, int]:
    """The ports that `choose` has exchanged for this home, by name; empty if none or if their file is unreadable."""
    try:
        found = json.loads(_file(home).read_text())
        return {str(name): int(port) for name, port in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def choose(stack: Stack) -> dict[str, int]:
    """Exchange ports that other programs hold for free ones, and keep them for the next start; returns the new ones by name.
    The stack must be down.

    Raises WeirError, which names every port, if the configuration asks for one that is held, or if probes know it.
    """
    ports = stack.config.ports
    held = [name for name in used(stack) if not is_free(getattr(ports, name))]
    if refused := [name for name in held if name in bound(stack)]:
        named = ", ".join(f"{getattr(ports, name)} (ports.{name})" for name in refused)
        raise WeirError(
            f"other programs hold {'ports' if len(refused) > 1 else 'port'} {named}",
            hint=f"end them, or set other ports in {stack.home}/weir.yaml (see stack/weir.example.yaml)",
        )
    taken = {getattr(ports, name) for name in type(ports).model_fields}
    new: dict[str, int] = {}
    for name in held:
        candidates = (getattr(ports, name) + STEP * step for step in range(1, TRIED + 1))
        port = next((one for one in candidates if one < 65_536 and one not in taken and is_free(one)), None)
        if port is None:
            raise WeirError(f"no port is free for {name}", hint="set one in weir.yaml (ports)")
        taken.add(port)
        new[name] = port
    if new:
        stack.home.mkdir(parents=True, exist_ok=True)
        _file(stack.home).write_text(json.dumps(chosen(stack.home) | new, indent=2) + "\n")
        stack.config.ports = ports.model_copy(update=new)
    return new


def bound(stack: Stack) -> set[str]:
    """Names of the ports that are not exchanged: the configuration names them, or probes elsewhere have them in their credentials."""
    ports, before = stack.config.ports, chosen(stack.home)
    named = {name for name in ports.model_fields_set if before.get(name) != getattr(ports, name)}
    return named | ({"kafka_probes"} if (stack.data / "kafka").exists() else set())


def is_free(port: int) -> bool:
    """Whether nobody listens on a port of the loopback interface."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _file(home: Path) -> Path:
    return home / "ports.json"


def used(stack: Stack) -> list[str]:
    """Names of the ports on which this stack itself listens."""
    config = stack.config
    names = ["flink", "flink_metrics", "agent_metrics"]
    if not config.kafka.brokers:
        names += ["kafka", "kafka_controller", "kafka_probes"]
    if not config.clickhouse.url:
        names.append("clickhouse")
    if config.superset.enabled:
        names.append("superset")
    if config.storage.every_minutes:
        names.append("storage_metrics")
    return names
