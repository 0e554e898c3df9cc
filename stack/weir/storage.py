"""Size of the store, its forecast, and making room: `weir storage`.

Every table belongs to a tier. Raw records, windows and hourly records are dropped by age; if the disk's budget is
smaller than their retention needs, the oldest partition among them goes first, whichever tier it belongs to. Daily rows
stay for ever. The age of a partition counts from its event time or from its last write, whichever is later: a capture
of ten years ago that was read today stays as long as today's records.
"""

from __future__ import annotations

import fcntl
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import prometheus_client
from rich.console import Console
from rich.table import Table

from weir import config
from weir.clickhouse import ClickHouse, connect
from weir.config import Stack
from weir.errors import WeirError
from weir.schema import retention

#: Tables of each tier: `clickhouse/retention.yaml`. What stands in none is kept and counted as `other`.
TIERS = retention.tiers()
DAY_S = 86400
#: Number of hosts per probe and day with their own row in talkers_daily, and per day in national_talkers_daily.
TALKERS = 10_000


@dataclass(frozen=True)
class Partition:
    """One partition of a table: its name, the start of its time range, its last change (both seconds), its size."""

    table: str
    name: str
    begin: int
    end: int
    changed: int
    rows: int
    octets: int

    @property
    def tier(self) -> str:
        return next((name for name, tier in TIERS.items() if self.table in tier.tables), "other")

    def age_s(self, now: float) -> float:
        """Seconds since its end or since its last write, whichever is less."""
        return now - max(self.end, self.changed)


@dataclass(frozen=True)
class Disk:
    """Total and free octets of the store's disk."""

    total: int
    free: int


@dataclass(frozen=True)
class Dropped:
    """A dropped partition, and the reason: `age` or `budget`."""

    partition: Partition
    why: str


def partitions(admin: ClickHouse) -> list[Partition]:
    """Every partition of every table of the database, oldest first."""
    rows = admin.rows(
        "SELECT table, partition, toUnixTimestamp(max(modification_time)) AS changed, sum(rows) AS rows, sum(bytes_on_disk) AS octets"
        f" FROM system.parts WHERE database = '{admin.database}' AND active GROUP BY table, partition"
    )
    found = []
    for row in rows:
        begin, end = span(row["partition"])
        found.append(Partition(row["table"], row["partition"], begin, end, row["changed"], row["rows"], row["octets"]))
    return sorted(found, key=lambda one: (one.begin, one.table))


def span(partition: str) -> tuple[int, int]:
    """First and last moment (seconds, end exclusive) of a partition by month, week or day; 0 and 0 for others."""
    if re.fullmatch(r"\d{6}", partition):
        begin = date(int(partition[:4]), int(partition[4:]), 1)
        end = (begin + timedelta(days=31)).replace(day=1)
    elif re.fullmatch(r"\d{8}", partition):
        begin = date(int(partition[:4]), int(partition[4:6]), int(partition[6:]))
        end = begin + timedelta(days=1)
    elif re.fullmatch(r"\d{4}-\d\d-\d\d", partition):
        begin = date.fromisoformat(partition)
        end = begin + timedelta(days=7)
    else:
        return 0, 0
    return _seconds(begin), _seconds(end)


def _seconds(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


def disk(admin: ClickHouse) -> Disk:
    """The disks that hold the store's parts, added up; the disk for backups is not among them."""
    row = admin.rows(
        "SELECT sum(total_space) AS total, sum(free_space) AS free FROM system.disks"
        f" WHERE name IN (SELECT disk_name FROM system.parts WHERE database = '{admin.database}' AND active)"
    )[0]
    return Disk(row["total"], row["free"])


def budget(stack: Stack, space: Disk, used: int) -> int:
    """Octets that the store may take: as configured, else nine tenths of the space that is free or already the store's."""
    configured = stack.config.storage.budget
    return config.octets(configured) if configured else (space.free + used) * 9 // 10


def kept_days(stack: Stack) -> dict[str, float]:
    """Retention of each tier in days; tiers without an entry are kept for ever."""
    ages = stack.config.storage
    return {name: getattr(ages, tier.days) for name, tier in TIERS.items() if tier.days}


def due(found: list[Partition], days: dict[str, float], allowed: int, now: float) -> list[Dropped]:
    """The partitions to drop: first by age, then the oldest until the rest fits into `allowed` octets.

    The present and the last day are never among them, so that too small a budget does not stop the present.
    """
    out, left = [], []
    for one in found:
        tier_days = days.get(one.tier)
        if tier_days is not None and one.end and one.age_s(now) > tier_days * DAY_S:
            out.append(Dropped(one, "age"))
        else:
            left.append(one)
    over = sum(one.octets for one in left) - allowed
    for one in left:
        if over <= 0:
            break
        if one.tier in days and one.end and one.end < now - DAY_S:
            out.append(Dropped(one, "budget"))
            over -= one.octets
    return out


def drop(admin: ClickHouse, one: Partition) -> None:
    """Drop a partition, whatever its size."""
    name = one.name if one.name.isdigit() else f"'{one.name}'"
    admin.execute(f"ALTER TABLE {one.table} DROP PARTITION {name}", max_partition_size_to_drop="0")


# -- the forecast ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TierSize:
    """A tier: its size, its first moment (seconds, 0 for an empty one), its growth per day, its retention in days
    (None: for ever).
    """

    tier: str
    rows: int
    octets: int
    oldest: int
    octets_per_day: float
    days: float | None


def sizes(found: list[Partition], days: dict[str, float], now: float) -> list[TierSize]:
    """Each tier. A day's growth is that of the last week, or of the time there is: a month's
    partition of a store that is a day old holds one day."""
    since = min((one.begin for one in found if one.table == "flows" and one.begin > now - 40 * DAY_S), default=0)
    out = []
    for tier in TIERS:
        own = [one for one in found if one.tier == tier]
        recent = [one for one in own if one.end > now - 7 * DAY_S and one.begin < now]
        # A partition counts by the part of it that has passed.
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

    @property
    def used(self) -> int:
        """Octets of all tiers."""
        return sum(tier.octets for tier in self.tiers)

    @property
    def part(self) -> float:
        """Used part of the budget."""
        return self.used / max(self.budget, 1)

    def as_json(self) -> dict[str, Any]:
        """The state for programs; times in ISO 8601."""
        return {
            "tiers": [
                {
                    "tier": tier.tier,
                    "rows": tier.rows,
                    "octets": tier.octets,
                    "oldest": _iso(tier.oldest),
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
                (_iso(tier.oldest) or "")[:10],
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

    def forecast(self) -> str:
        """One sentence on when the budget is spent."""
        if self.part >= 1:
            return "The budget is spent: the oldest partitions go first ('weir storage keep')."
        if self.full is None:
            return "At today's rate the budget is not spent within 20 years."
        return f"At today's rate the budget is spent on {self.full}; from then on the oldest partitions go first."


def _grid(*names: str) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify="left" if name in ("tier", "table") else "right", no_wrap=True)
    return table


def _iso(moment: float) -> str | None:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def survey(stack: Stack, admin: ClickHouse, now: float | None = None) -> Survey:
    """Read the present state of the store."""
    moment = time.time() if now is None else now
    found, space = partitions(admin), disk(admin)
    tiers = sizes(found, kept_days(stack), moment)
    allowed = budget(stack, space, sum(one.octets for one in found))
    tables: dict[tuple[str, str], list[int]] = {}
    for one in found:
        sums = tables.setdefault((one.tier, one.table), [0, 0])
        sums[0] += one.rows
        sums[1] += one.octets
    listed = sorted(
        ((tier, table, rows, size) for (tier, table), (rows, size) in tables.items()), key=lambda row: -row[3]
    )
    return Survey(tiers, listed, space, allowed, full_day(tiers, allowed, moment), moment)


# -- roll-up --------------------------------------------------------------------------------------------------------

# The largest hosts of a day and one row for all others: per probe, or over all if `probe` is not among the columns.
_LIST_SQL = """
INSERT INTO {{table}} (
    day, rank, {own}, addr, network, customer, as_number, country, hosts,
    sent_packets, sent_octets, received_packets, received_octets, flows_begun, flows_received)
SELECT
    toDate('{{day}}') AS day, if(place <= {{talkers}} AND NOT nobody, place, 0) AS rank, {shown},
    if(rank = 0, toIPv6('::'), any(addr)), if(rank = 0, false, any(network)),
    if(rank = 0, 0, any(customer)), if(rank = 0, 0, any(as_number)), if(rank = 0, 0, any(country)),
    countIf(NOT nobody) AS hosts,
    sum(sp), sum(so), sum(rp), sum(ro), sum(begun), sum(received)
FROM
(
    SELECT *, addr = toIPv6('::') AS nobody,
        row_number() OVER ({partition} ORDER BY addr = toIPv6('::'), so + ro DESC, addr, network) AS place
    FROM
    (
        SELECT
            {grouped}, addr, network, max(h.customer) AS customer, max(h.as_number) AS as_number, max(h.country) AS country,
            sum(sent_packets) AS sp, sum(sent_octets) AS so, sum(received_packets) AS rp, sum(received_octets) AS ro,
            sum(flows_begun) AS begun, sum(flows_received) AS received
        FROM hosts_daily AS h
        WHERE day = '{{day}}'
        GROUP BY addr, network{by}
    )
)
GROUP BY rank{by}
"""
_TALKERS_SQL = _LIST_SQL.format(
    own="probe", shown="probe", partition="PARTITION BY probe", grouped="probe", by=", probe"
)
_NATIONAL_SQL = _LIST_SQL.format(
    own="probes", shown="max(seen)", partition="", grouped="uniqExact(probe) AS seen", by=""
)

_MIXES_SQL = """
INSERT INTO {table}
SELECT
    toDate('{day}') AS day, scope, probe, customer, dimension, direction, number, remainder, count() AS windows,
    sum(m.octets), sum(m.packets), sum(m.flows), sum(m.ipv6_octets), sum(m.ipv6_packets), sum(m.ipv6_flows), sum(m.overflow_octets)
FROM mixes AS m FINAL
WHERE ts >= toDateTime('{day} 00:00:00', 'UTC') AND ts < toDateTime('{day} 00:00:00', 'UTC') + INTERVAL 1 DAY AND packets > 0
GROUP BY scope, probe, customer, dimension, direction, number, remainder
"""


@dataclass(frozen=True)
class _RollUp:
    """Daily lists: the source, the target and the statement of each."""

    source: str
    lists: dict[str, str]

    def fingerprint(self, admin: ClickHouse, day: str, raw_rows: int) -> int:
        """Changes whenever the source of that day changes: raw records added or dropped, windows written again."""
        if self.source == "hosts_daily":
            return raw_rows
        return int(
            admin.rows(
                f"SELECT cityHash64(count(), sum(version)) AS it FROM {self.source} WHERE ts >= toDateTime('{day} 00:00:00', 'UTC')"
                f" AND ts < toDateTime('{day} 00:00:00', 'UTC') + INTERVAL 1 DAY"
            )[0]["it"]
        )

    def complete(self, admin: ClickHouse, day: str) -> bool:
        """Whether the daily rows include all raw records of the day: a block is in `flows` before the views have filled
        the other tables, and after a crash much earlier.
        """
        if self.source != "hosts_daily":
            return True
        raw = admin.rows(
            # The projection `stored` answers this.
            "SELECT sum(p) AS packets FROM (SELECT probe, worker, ts, sum(fwd_packets + rev_packets) AS p FROM flows"
            f" WHERE toDate(ts) = '{day}' GROUP BY probe, worker, ts)"
        )
        sums = " UNION ALL ".join(
            f"SELECT sum(sent_packets + received_packets) AS packets FROM {table} WHERE day = '{day}'"
            for table in self.lists
        )
        # Each packet counts for its sender and for its receiver.
        return all(own["packets"] == 2 * raw[0]["packets"] for own in admin.rows(sums))


#: After so many seconds without new raw records of a day, its daily rows are complete.
_SETTLED_S = 3600
_ROLL_UPS = (
    _RollUp("hosts_daily", {"talkers_daily": _TALKERS_SQL, "national_talkers_daily": _NATIONAL_SQL}),
    _RollUp("mixes", {"mixes_daily": _MIXES_SQL}),
)


def roll_up(admin: ClickHouse, day: date | None = None, now: float | None = None) -> Iterator[tuple[str, str, int]]:
    """Write the daily lists of every finished day that changed since they were written, or of one day in any case.

    A day changes as long as its raw records are kept: they have one partition per day. Yields the day, the table and
    the number of rows, as each is done. A day interrupted half-way is not marked as done, and is written again; so is a
    day whose raw records are newer than the rows that views derived from them.
    """
    moment = time.time() if now is None else now
    today = datetime.fromtimestamp(moment, UTC).date()
    days = {
        date.fromisoformat(f"{one.name[:4]}-{one.name[4:6]}-{one.name[6:]}"): one
        for one in partitions(admin)
        if one.table == "flows" and (day is None or one.begin == _seconds(day))
    }
    noted = {
        (row["day"], row["source"]): row["fingerprint"]
        for row in admin.rows("SELECT toString(day) AS day, source, fingerprint FROM roll_ups FINAL")
    }
    for when, raw in sorted(days.items()):
        name = when.isoformat()
        for one in _ROLL_UPS:
            now_is = one.fingerprint(admin, name, raw.rows)
            if day is None and (when >= today or noted.get((name, one.source)) == now_is):
                continue
            written = {table: _write(admin, table, statement, name) for table, statement in one.lists.items()}
            if one.complete(admin, name) or moment - raw.changed > _SETTLED_S:
                rows = sum(written.values())
                admin.execute(f"INSERT INTO roll_ups VALUES ('{name}', '{one.source}', {now_is}, {rows}, now64(3))")
            yield from ((name, table, rows) for table, rows in written.items())


def _write(admin: ClickHouse, table: str, statement: str, day: str) -> int:
    """Replace a day's list; returns its number of rows."""
    if admin.rows(f"SELECT 1 AS there FROM {table} WHERE day = '{day}' LIMIT 1"):
        admin.execute(f"ALTER TABLE {table} DELETE WHERE day = '{day}'", mutations_sync="2")
    # The engine sorts days of many hosts on disk rather than refuse them.
    admin.execute(
        statement.format(table=table, day=day, talkers=TALKERS),
        max_bytes_before_external_group_by="500000000",
        max_bytes_before_external_sort="500000000",
    )
    return int(admin.rows(f"SELECT count() AS n FROM {table} WHERE day = '{day}'")[0]["n"])


# -- keeping --------------------------------------------------------------------------------------------------------


@contextmanager
def alone(stack: Stack) -> Iterator[None]:
    """Hold the lock that lets only one process of this stack change the store's tiers; waits for it."""
    stack.prepare()
    with (stack.run / "storage.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def keep(stack: Stack, admin: ClickHouse, now: float | None = None) -> Iterator[str]:
    """One round: write due daily lists, drop partitions that are too old or too much. Yields one line per action."""
    moment = time.time() if now is None else now
    with alone(stack):
        for day, table, rows in roll_up(admin, now=moment):
            yield f"rolled up {day} into {table}: {rows:,} rows"
        found = partitions(admin)
        allowed = budget(stack, disk(admin), sum(one.octets for one in found))
        for gone in due(found, kept_days(stack), allowed, moment):
            one = gone.partition
            drop(admin, one)
            why = "older than its tier is kept" if gone.why == "age" else "the oldest while the budget is spent"
            yield f"dropped {one.table} {one.name}: {one.rows:,} rows, {show_octets(one.octets)}, {why}"


_SIZE = prometheus_client.Gauge("weir_storage_octets", "Bytes that a tier takes on disk", ["tier"])
_BUDGET = prometheus_client.Gauge("weir_storage_budget_octets", "Bytes that the store may take")
_FREE = prometheus_client.Gauge("weir_storage_disk_free_octets", "Free bytes on the store's disk")
_SPENT = prometheus_client.Gauge(
    "weir_storage_budget_spent_timestamp_seconds",
    "Time at which the budget is spent at today's rate; 0: not within 20 years",
)
_ACTIONS = prometheus_client.Counter("weir_storage_actions", "Days rolled up and partitions dropped", ["action"])
_FAILED = prometheus_client.Counter("weir_storage_failed_rounds", "Rounds that ended in an error; the log says which")
_DONE = prometheus_client.Gauge("weir_storage_last_round_timestamp_seconds", "Time of the last successful round")


def serve(stack: Stack, every_minutes: float) -> None:
    """Keep the store in rounds until SIGTERM or SIGINT; metrics are on the port `storage_metrics`.

    A round that fails, for example because the store is away, is logged, counted and retried in the next round.
    """
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    prometheus_client.start_http_server(stack.config.ports.storage_metrics, "127.0.0.1")
    while True:
        try:
            admin = connect(stack, "admin")
            for line in keep(stack, admin):
                _log(line)
                _ACTIONS.labels(line.split()[0]).inc()
            seen = survey(stack, admin)
            for tier in seen.tiers:
                _SIZE.labels(tier.tier).set(tier.octets)
            _BUDGET.set(seen.budget)
            _FREE.set(seen.disk.free)
            _SPENT.set(_seconds(seen.full) if seen.full else 0)
            _DONE.set_to_current_time()
        except WeirError as error:
            _FAILED.inc()
            _log(str(error))
        if stopping.wait(every_minutes * 60):
            return


def _log(line: str) -> None:
    print(f"{_iso(time.time())} {line}", flush=True)


def parse_day(text: str) -> date:
    """`2026-11-20`. Raises WeirError."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise WeirError(f"'{text}' is not a day", hint="write it as 2026-11-20") from None


def show_octets(count: float) -> str:
    """Octets for people, in units of 1000."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
