"""Estimate of a planned store: rows, disk and machines from flows per second (`weir storage plan`).

Every constant is a measurement, or is marked as an assumption. docs/explanation/sizing.md compares the same arithmetic
with measured stores.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from rich.console import Console
from rich.table import Table

from weir.errors import WeirError

DAY_S = 86_400


@dataclass(frozen=True)
class Constant:
    """A constant of the estimate, and its source."""

    value: float
    source: str


MEASURED = "make bench-store"
#: Interval records per flow at intervals of 10 s; a longer flow has further records.
RECORDS_A_FLOW = Constant(1.5, "assumed; 1.14 in the public captures, 1.29 in the benchmark's traffic")
RAW_OCTETS = Constant(22.9, MEASURED)
#: Hourly rows per record: pairs of addresses recur within the hour.
HOURLY_ROWS_A_RECORD = Constant(0.61, MEASURED)
#: Octets per row, both orders together.
HOURLY_OCTETS = Constant(25.9, MEASURED)
#: Rows of hosts_daily per probe and day: factor * (its records) ** exponent, because hosts recur.
HOSTS_EXPONENT = Constant(
    0.68, "make bench-store: 135,000 hosts of one probe in 0.5 million records, 455,000 in 3 million"
)
HOSTS_FACTOR = Constant(18, "make bench-store: the same two")
HOSTS_OCTETS = Constant(10.7, MEASURED)
TALKERS_A_PROBE = Constant(12_001, "stack/weir/storage/rollup.py: at most; the list and its remainder")
TALKERS_OCTETS = Constant(23.2, MEASURED)
PORTS_A_PROBE = Constant(20_000, "assumed: ports below 32768, and services, that flows and scans reach on a day")
PORTS_OCTETS = Constant(10.7, "assumed: as hosts_daily")
#: Rows per probe, or over all: totals, applications, AS, countries, AS with application, in each direction.
MIXES_A_PROBE = Constant(1_000, "assumed: 120 names and 130 pairs of AS and application, in 4 directions")
MIXES_OCTETS = Constant(22.2, MEASURED)
#: Records that one core stores per second, with all views.
RECORDS_A_CORE = Constant(150_000, "make bench-store: 6.4 us of CPU per record")
#: How full a disk may be: merging needs space in addition to the stored data.
DISK_FILL = Constant(0.8, "ClickHouse merges a partition into a copy of itself")
MACHINE_CORES, MACHINE_OCTETS = 16, 16 * 10**12
#: Share of the cores for inserts; queries get the rest.
INSERT_SHARE = 0.5


@dataclass(frozen=True)
class Tier:
    """One tier: its growth per day, its retention, its final size."""

    name: str
    tables: str
    rows_a_day: float
    octets_a_row: float
    days: float

    @property
    def octets_a_day(self) -> float:
        return self.rows_a_day * self.octets_a_row

    @property
    def octets(self) -> float:
        return self.octets_a_day * self.days


@dataclass(frozen=True)
class Plan:
    """A store for a given rate of flows."""

    flows_a_second: float
    probes: int
    raw_days: float
    hourly_years: float
    daily_years: float

    def __post_init__(self) -> None:
        for what, value in asdict(self).items():
            if value <= 0:
                raise WeirError(f"{what.replace('_', ' ')} must be more than 0, not {value:g}")

    @property
    def records_a_second(self) -> float:
        """Interval records per second, on average."""
        return self.flows_a_second * RECORDS_A_FLOW.value

    @property
    def tiers(self) -> list[Tier]:
        """Raw, hourly, daily."""
        records = self.records_a_second * DAY_S
        hosts = self.probes * HOSTS_FACTOR.value * (records / self.probes) ** HOSTS_EXPONENT.value
        hosts = min(hosts, 2 * records)  # each record has two ends
        daily = self.daily_years * 365
        return [
            Tier("raw", "flows", records, RAW_OCTETS.value, self.raw_days),
            Tier(
                "hourly",
                "flows_hourly, in both orders",
                records * HOURLY_ROWS_A_RECORD.value,
                HOURLY_OCTETS.value,
                self.hourly_years * 365,
            ),
            Tier("daily", "hosts_daily", hosts, HOSTS_OCTETS.value, daily),
            Tier(
                "daily", "talkers_daily", min(self.probes * TALKERS_A_PROBE.value, hosts), TALKERS_OCTETS.value, daily
            ),
            Tier("daily", "national_talkers_daily", TALKERS_A_PROBE.value, TALKERS_OCTETS.value, daily),
            Tier("daily", "ports_daily", self.probes * PORTS_A_PROBE.value, PORTS_OCTETS.value, daily),
            Tier("daily", "mixes_daily", (self.probes + 1) * MIXES_A_PROBE.value, MIXES_OCTETS.value, daily),
        ]

    @property
    def octets(self) -> float:
        """Octets of all tiers at the end of their retention."""
        return sum(tier.octets for tier in self.tiers)

    @property
    def disk_octets(self) -> float:
        """Octets that the disks must hold, including room for merges."""
        return self.octets / DISK_FILL.value

    @property
    def cores(self) -> int:
        """Number of cores; half of them are for inserts."""
        return max(2, ceil(self.records_a_second / RECORDS_A_CORE.value / INSERT_SHARE))

    @property
    def machines(self) -> int:
        """The number of machines with 16 cores and 16 TB, for one copy of everything."""
        return max(ceil(self.cores / MACHINE_CORES), ceil(self.disk_octets / MACHINE_OCTETS))

    def as_json(self) -> dict[str, Any]:
        """The plan and its constants."""
        constants = {name.lower(): asdict(one) for name, one in globals().items() if isinstance(one, Constant)}
        return asdict(self) | {
            "records_a_second": self.records_a_second,
            "tiers": [asdict(tier) | {"octets_a_day": tier.octets_a_day, "octets": tier.octets} for tier in self.tiers],
            "octets": self.octets,
            "disk_octets": self.disk_octets,
            "cores": self.cores,
            "machines": self.machines,
            "constants": constants,
        }

    def show(self, console: Console) -> None:
        """Print the plan for people."""
        table = Table(header_style="bold", box=None, pad_edge=False)
        for heading in ("tier", "tables", "rows a day", "octets a row", "a day", "kept", "in all"):
            table.add_column(heading, justify="left" if heading in ("tier", "tables") else "right")
        for tier in self.tiers:
            table.add_row(
                tier.name,
                tier.tables,
                f"{tier.rows_a_day:,.0f}",
                f"{tier.octets_a_row:.1f}",
                octets(tier.octets_a_day),
                f"{tier.days:,.0f} days" if tier.days < 365 else f"{tier.days / 365:.3g} years",
                octets(tier.octets),
            )
        console.print(table)
        lines = [
            f"{self.flows_a_second:,.0f} flows/s are {self.records_a_second:,.0f} records/s "
            f"({RECORDS_A_FLOW.value:g} per flow), from {self.probes} probe{'s' if self.probes > 1 else ''}",
            f"disk: {octets(self.disk_octets)}, of which {octets(self.octets)} is data and the rest is room to merge",
            f"cores: {self.cores}, half of them for inserts "
            f"({RECORDS_A_CORE.value:,.0f} records/s per core with all views)",
            "one machine suffices"
            if self.machines == 1
            else f"machines: {self.machines} of {MACHINE_CORES} cores and {octets(MACHINE_OCTETS)}; "
            "twice as many if everything is replicated",
        ]
        console.print("\n".join(lines), highlight=False, soft_wrap=True)


def octets(value: float) -> str:
    """Octets in the unit that fits, in powers of ten as disks are sold."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"
