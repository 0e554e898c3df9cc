"""Declared probes on the compacted topic `weir.probes`: site, rank, and view."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rich.table import Table

from weir import kafka
from weir.brokers import Brokers
from weir.clickhouse import ClickHouse
from weir.errors import WeirError
from weir.messages.declarations_pb2 import Probe
from weir.terminal import escaped

TOPIC = "weir.probes"


@dataclass(frozen=True)
class Declaration:
    """One probe: its site, its rank among the probes that see the same flow (the lowest comes first), whether it
    sees only one direction of each flow, and whether its agent makes pseudonyms.
    """

    site: str = ""
    rank: int = 100
    one_way: bool = False
    pseudonyms: bool = False


def declared(brokers: Brokers) -> dict[str, Declaration]:
    """The declarations, by probe name."""
    found = {}
    for name, value in kafka.compacted(brokers, TOPIC).items():
        message = Probe.FromString(value)
        found[name] = Declaration(message.site, message.rank, message.one_way, message.pseudonyms)
    return found


def declare(
    brokers: Brokers,
    name: str,
    site: str | None = None,
    rank: int | None = None,
    one_way: bool | None = None,
    pseudonyms: bool | None = None,
) -> Declaration:
    """Declare a probe; None keeps a declared value. Returns the new declaration."""
    before = declared(brokers).get(name)
    after = before or Declaration()
    after = replace(
        after,
        site=after.site if site is None else site,
        rank=after.rank if rank is None else rank,
        one_way=after.one_way if one_way is None else one_way,
        pseudonyms=after.pseudonyms if pseudonyms is None else pseudonyms,
    )
    if after != before:
        message = Probe(major=1, name=name, **vars(after))
        if kafka.publish(brokers, TOPIC, [(name, message.SerializeToString())]) != 1:
            raise WeirError(f"{TOPIC} did not accept the declaration of {name}", hint="try: weir status", status=1)
    return after


def undeclare(brokers: Brokers, name: str) -> None:
    """Remove the declaration of a probe, if there is one."""
    if name in declared(brokers) and kafka.publish(brokers, TOPIC, [(name, None)]) != 1:
        raise WeirError(f"{TOPIC} did not accept the removal of {name}", hint="try: weir status", status=1)


def is_enrolled(store: ClickHouse, name: str) -> bool:
    """Whether a probe of this name is enrolled."""
    return bool(kafka.PROBE_NAME.fullmatch(name)) and bool(
        store.rows(f"SELECT probe FROM probes FINAL WHERE probe = '{name}'")
    )


def enrolled(store: ClickHouse) -> list[dict[str, Any]]:
    """The enrolled probes, each with the time it last published and the version of its agent."""
    return store.rows(
        "SELECT p.probe AS probe, p.workers AS workers, p.interval_ms AS interval_ms, p.site AS site, p.rank AS rank, p.one_way AS one_way, "
        "if(l.last = 0, '', formatDateTime(toDateTime(l.last, 'UTC'), '%Y-%m-%dT%H:%i:%SZ')) AS last_heard, l.version AS version "
        "FROM (SELECT * FROM probes FINAL) AS p LEFT JOIN (SELECT probe, toUnixTimestamp(max(ts)) AS last, anyLast(agent_version) AS version "
        "FROM ledger WHERE state IN ('closed', 'batches_missing') GROUP BY probe) AS l ON l.probe = p.probe ORDER BY probe"
    )


def table(rows: list[dict[str, Any]]) -> Table:
    """One row per probe."""
    drawn = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("probe", "workers", "interval", "site", "rank", "sees", "last heard (UTC)", "agent"):
        drawn.add_column(name)
    for row in rows:
        drawn.add_row(
            row["probe"],
            str(row["workers"]),
            f"{row['interval_ms'] / 1000:g} s",
            escaped(row["site"]),
            str(row["rank"]),
            "one way" if row["one_way"] else "both ways",
            row["last_heard"] or "never",
            escaped(row["version"]),
        )
    return drawn
