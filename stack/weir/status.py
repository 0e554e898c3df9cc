"""State of a stack's services."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass

import httpx
from rich.table import Table

from weir import kafka
from weir.config import Stack
from weir.errors import WeirError
from weir.services import Service, all_services
from weir.supervisor import State, Supervisor


@dataclass(frozen=True)
class ServiceStatus:
    """State of one service; `lag_messages` only if the service reads from Kafka."""

    service: str
    state: str
    port: int
    pid: int
    memory_octets: int
    up_seconds: int
    lag_messages: int | None


def _status(stack: Stack, service: Service, state: State | None) -> ServiceStatus:
    if state is None or state.word != "RUNNING":
        return ServiceStatus(service.name, state.word.lower() if state else "down", service.port, 0, 0, 0, None)
    return ServiceStatus(
        service=service.name,
        state="well" if service.healthy() else "not well",
        port=service.port,
        pid=state.pid,
        memory_octets=state.memory,
        up_seconds=int(time.time() - state.started),
        lag_messages=kafka.lag(stack.brokers) if service.name == "flink" else None,
    )


def all_statuses(stack: Stack) -> list[ServiceStatus]:
    """Every configured service, running or not."""
    states = Supervisor(stack).states()
    return [_status(stack, service, states.get(service.name)) for service in all_services(stack)]


def table(rows: list[ServiceStatus]) -> Table:
    """One row per service; unhealthy ones in red."""
    drawn = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("service", "state", "port", "pid", "up", "memory", "lag"):
        drawn.add_column(name, justify="left" if name in ("service", "state") else "right")
    for row in rows:
        drawn.add_row(
            row.service,
            row.state,
            str(row.port or ""),
            str(row.pid or ""),
            _span(row.up_seconds),
            f"{row.memory_octets / 2**20:,.0f} MiB" if row.memory_octets else "",
            "" if row.lag_messages is None else f"{row.lag_messages:,} messages",
            style="" if row.state == "well" else "red",
        )
    return drawn


def walls(stack: Stack) -> dict[str, bool]:
    """Whether each wall around the embedded store's engine holds; empty for another server, or if it does not answer."""
    if stack.config.clickhouse.url:
        return {}
    with suppress(httpx.HTTPError):
        text = httpx.get(f"{stack.clickhouse_url}/metrics", timeout=5).text
        found = re.findall(r'^weir_clickhouse_wall\{wall="(\w+)"\} (\S+)', text, re.MULTILINE)
        return {name: float(holds) > 0 for name, holds in found}
    return {}


def certificates(stack: Stack) -> list[str]:
    """What somebody must do about certificates of the stack's own broker."""
    if stack.config.kafka.brokers:
        return []
    from weir.authority import ending  # its library takes a while to load

    try:
        return ending(stack.certificates)
    except WeirError as error:
        return [str(error)]


def told(held: dict[str, bool]) -> str:
    """One line on the walls."""
    missing = [name for name, holds in held.items() if not holds]
    if not missing:
        return f"the store's engine is walled in: {', '.join(held)}"
    return f"the store's engine is NOT walled in by: {', '.join(missing)} (docs/how-to/secure.md says why)"


def _span(seconds: int) -> str:
    if seconds < 1:
        return ""
    hours, rest = divmod(seconds, 3600)
    return f"{hours}h{rest // 60:02}m" if hours else f"{rest // 60}m{rest % 60:02}s"
