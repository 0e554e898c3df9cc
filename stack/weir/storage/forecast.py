"""The size of each tier, its daily growth, and the day on which the budget is spent: `weir storage`."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from weir.clickhouse import ClickHouse
from weir.config import Stack
from weir.storage.partitions import TIERS, Disk, Partition, budget, disk, due, kept_days, partitions, shortage
from weir.storage.times import DAY_S, iso


@dataclass(frozen=True)
class TierSize:
    """A tier: its size, the time of its oldest row (seconds, 0 if it is empty), its growth per day, its retention in
    days (None: for ever), and whether the law sets that retention.
    """

    tier: str
    rows: int
    octets: int
    oldest: int
    octets_per_day: float
    days: float | None
    law: bool = False

    @property
    def octets_at_age(self) -> float:
        """Octets that the tier will take when its oldest rows reach their full age, at today's rate."""
        return self.octets if self.days is None else max(self.octets, self.octets_per_day * self.days)


@dataclass(frozen=True)
class Law:
    """Disk use of the legally required tiers at their full age and today's rate, and the budget left for the other
    tiers, which would need `asked` at their full age. All in octets.
    """

    octets: int
    left: int
    asked: int

    @property
    def short(self) -> bool:
        """Whether retention required by law is a reason why other tiers are kept for fewer days than configured."""
        return self.octets > 0 and self.asked > self.left

    def says(self, raw_days: float | None) -> str:
        """One sentence on this shortage; empty if the other tiers have room."""
        if not self.short:
            return ""
        flows = f"flows are kept for less than {raw_days:g} days" if raw_days else "flows are dropped earlier"
        return (
            f"What the law keeps takes {show_octets(self.octets)} at today's rate and leaves {show_octets(self.left)} of the"
            f" budget; the other tiers ask for {show_octets(self.asked)}: {flows}."
        )


def law_first(tiers: list[TierSize], allowed: int) -> Law:
    """How the tiers share the budget: tiers required by law take precedence."""
    law = round(sum(tier.octets_at_age for tier in tiers if tier.law))
    asked = round(sum(tier.octets_at_age for tier in tiers if not tier.law))
    return Law(law, max(allowed - law, 0), asked)


def sizes(found: list[Partition], days: dict[str, float], now: float) -> list[TierSize]:
    """The sizes of each tier. The daily growth is the average over the last week, or over the store's age if that is
    shorter: in a store that is a day old, a month's partition holds one day.
    """
    since = min((one.begin for one in found if one.table == "flows" and one.begin > now - 40 * DAY_S), default=0)
    out = []
    for tier in TIERS:
        own = [one for one in found if one.tier == tier]
        recent = [one for one in own if one.end > now - 7 * DAY_S and one.begin < now]
        # A partition counts by the share of its time that has passed.
        seconds = max((min(now, one.end) for one in recent), default=now) - min(
            (max(one.begin, since) for one in recent), default=now
        )
        dated = [one.begin for one in own if one.end]
        per_day = sum(one.octets for one in recent if one.end) * DAY_S / max(seconds, 3600)
        out.append(
            TierSize(
                tier,
                sum(one.rows for one in own),
                sum(one.octets for one in own),
                min(dated, default=0),
                per_day,
                days.get(tier),
                TIERS[tier].law,
            )
        )
    return out


def full_day(tiers: list[TierSize], allowed: int, now: float) -> date | None:
    """The day on which the store reaches the budget at its present growth; None if that is more than 20 years away."""
    for ahead in range(20 * 365):
        if sum(_size_after(tier, ahead, now) for tier in tiers) > allowed:
            return datetime.fromtimestamp(now + ahead * DAY_S, UTC).date()
    return None


def _size_after(tier: TierSize, ahead: int, now: float) -> float:
    grown = tier.octets + tier.octets_per_day * ahead
    if tier.days is None or not tier.oldest:
        return grown
    held = (now - tier.oldest) / DAY_S
    return grown if held + ahead <= tier.days else max(tier.octets, tier.octets_per_day * tier.days)


@dataclass(frozen=True)
class Survey:
    """The present state of the store."""

    tiers: list[TierSize]
    tables: list[tuple[str, str, int, int]]  # tier, table, rows, octets
    disk: Disk
    budget: int
    full: date | None
    now: float
    beyond: int = 0  # octets beyond the budget even after all possible drops

    @property
    def used(self) -> int:
        """Octets of all tiers."""
        return sum(tier.octets for tier in self.tiers)

    @property
    def part(self) -> float:
        """The fraction of the budget that is used."""
        return self.used / max(self.budget, 1)

    @property
    def law(self) -> Law:
        """The disk use of legally required data, and the rest of the budget."""
        return law_first(self.tiers, self.budget)

    def law_says(self) -> str:
        """One sentence if retention required by law leaves flows less disk than they need; else empty."""
        return self.law.says(next((tier.days for tier in self.tiers if tier.tier == "raw"), None))

    def beyond_says(self) -> str:
        """One sentence if the store exceeds its budget even after all possible drops; else empty."""
        if not self.beyond:
            return ""
        return (
            f"The store stays {show_octets(self.beyond)} beyond its budget: what the law keeps, the daily tier, the last day"
            " and each tier's share need more. Raise storage.budget, or keep tiers for fewer days."
        )

    def as_json(self) -> dict[str, Any]:
        """The state for programs; times in ISO 8601."""
        return {
            "tiers": [
                {
                    "tier": tier.tier,
                    "rows": tier.rows,
                    "octets": tier.octets,
                    "oldest": iso(tier.oldest),
                    "octets_per_day": round(tier.octets_per_day),
                    "days_kept": tier.days,
                }
                for tier in self.tiers
            ],
            "tables": [
                {"tier": tier, "table": table, "rows": rows, "octets": size} for tier, table, rows, size in self.tables
            ],
            "disk": asdict(self.disk),
            "budget": self.budget,
            "used": self.used,
            "beyond_budget": self.beyond,
            "law": {**asdict(self.law), "short": self.law.short},
            "budget_spent_on": self.full.isoformat() if self.full else None,
        }

    def show(self, console: Console) -> None:
        """Print tiers, tables and the forecast."""
        tiers = _grid("tier", "rows", "size", "oldest", "a day adds", "kept")
        for tier in self.tiers:
            tiers.add_row(
                tier.tier,
                f"{tier.rows:,}",
                show_octets(tier.octets),
                (iso(tier.oldest) or "")[:10],
                show_octets(tier.octets_per_day) if tier.octets_per_day else "",
                "for ever" if tier.days is None else f"{tier.days:g} days",
            )
        console.print(tiers)
        console.print()
        tables = _grid("table", "tier", "rows", "size", "octets a row")
        for own, table, rows, size in self.tables:
            tables.add_row(table, own, f"{rows:,}", show_octets(size), f"{size / rows:.1f}" if rows else "")
        console.print(tables)
        console.print()
        part = self.part
        bar = "█" * round(20 * min(part, 1)) + "░" * (20 - round(20 * min(part, 1)))
        console.print(
            f"{bar} {show_octets(self.used)} of a budget of {show_octets(self.budget)} ({part:.1%}); "
            f"{show_octets(self.disk.free)} of the disk's {show_octets(self.disk.total)} are free",
            highlight=False,
            soft_wrap=True,
        )
        console.print(self.forecast(), highlight=False, soft_wrap=True)
        for text in filter(None, (self.law_says(), self.beyond_says())):
            console.print(text, style="yellow", highlight=False, soft_wrap=True)

    def forecast(self) -> str:
        """One sentence on when the budget is spent."""
        if self.part >= 1:
            return "The budget is spent: the service drops partitions, raw records first ('weir storage keep')."
        if self.full is None:
            return "At today's rate the budget is not spent within 20 years."
        return (
            f"At today's rate the budget is spent on {self.full}; from then on the service drops partitions, raw records"
            " first."
        )


def _grid(*names: str) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify="left" if name in ("tier", "table") else "right", no_wrap=True)
    return table


def survey(stack: Stack, admin: ClickHouse, now: float | None = None) -> Survey:
    """Read the present state of the store."""
    moment = time.time() if now is None else now
    found, space = partitions(admin), disk(admin)
    days = kept_days(stack)
    tiers, used = sizes(found, days, moment), sum(one.octets for one in found)
    allowed = budget(stack, space, used)
    gone = sum(one.partition.octets for one in due(found, days, allowed, moment, shortage(space)))
    tables: dict[tuple[str, str], list[int]] = {}
    for one in found:
        sums = tables.setdefault((one.tier, one.table), [0, 0])
        sums[0] += one.rows
        sums[1] += one.octets
    listed = sorted(
        ((tier, table, rows, size) for (tier, table), (rows, size) in tables.items()), key=lambda row: -row[3]
    )
    return Survey(
        tiers, listed, space, allowed, full_day(tiers, allowed, moment), moment, max(used - gone - allowed, 0)
    )


def show_octets(count: float) -> str:
    """Octets for people, in units of 1000."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
