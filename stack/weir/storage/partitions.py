"""Partitions of the store's tables, their disk, and the order in which to drop them."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from weir import config, snapshot
from weir.clickhouse import ClickHouse
from weir.config import Stack
from weir.schema import retention
from weir.storage.times import DAY_S, seconds

#: Tables of each tier: `clickhouse/retention.yaml`. Tables in none of them are kept and counted as `other`.
TIERS = retention.tiers()
#: No store is older: seconds.
_BORN = seconds(date(2026, 1, 1))
_TIER_OF = {table: name for name, tier in TIERS.items() for table in tier.tables}


@dataclass(frozen=True)
class Partition:
    """One partition of a table: its name, its time range, when it was first seen, its last change, its size; times in
    seconds.
    """

    table: str
    name: str
    begin: int
    end: int
    first_seen: int
    changed: int
    rows: int
    octets: int

    @property
    def day(self) -> date:
        """The day on which the partition begins, UTC; a partition of raw records is that whole day."""
        return datetime.fromtimestamp(self.begin, UTC).date()

    @property
    def tier(self) -> str:
        return _TIER_OF.get(self.table, "other")

    @property
    def law(self) -> bool:
        """Whether the law fixes the partition's retention."""
        return self.tier in TIERS and TIERS[self.tier].law

    def ended(self, now: float) -> int:
        """The partition's end; if it lies in the future, as a wrong clock may cause, the time at which it was first
        seen."""
        return self.end if self.begin <= now else self.first_seen

    def age_s(self, now: float) -> float:
        """Seconds since the partition's end or since it was first seen, whichever is less; for legally required data,
        since the end.

        The partition's last change does not count, because merges and removals rewrite parts without making records
        younger.
        """
        return now - (self.ended(now) if self.law else max(self.ended(now), self.first_seen))


@dataclass(frozen=True)
class Disk:
    """Octets of the store's disk: total, free, and those that only a copy of the store holds, which a backup or a restore
    drops when it ends."""

    total: int
    free: int
    copies: int = 0

    @property
    def left(self) -> int:
        """Octets that are free once the copies are dropped. Until then, to drop a partition that a copy holds, too, frees
        nothing: by the free octets alone, the budget would fall with each drop."""
        return self.free + self.copies


@dataclass(frozen=True)
class Dropped:
    """A dropped partition, and the reason: `age` or `budget`."""

    partition: Partition
    why: str


@dataclass(frozen=True)
class Emptied:
    """Columns of a partition whose own retention has ended before that of the rows."""

    partition: Partition
    columns: tuple[str, ...]


def partitions(admin: ClickHouse) -> list[Partition]:
    """Every partition of every table of the database, oldest first."""
    rows = admin.rows(
        "SELECT p.table AS table, p.partition AS partition,"
        " toUnixTimestamp(any(s.first_seen)) AS noted, toUnixTimestamp(min(p.modification_time)) AS oldest,"
        " toUnixTimestamp(max(p.modification_time)) AS changed, sum(p.rows) AS rows, sum(p.bytes_on_disk) AS octets"
        " FROM system.parts AS p LEFT JOIN"
        " (SELECT name, partition, min(first_seen) AS first_seen FROM partitions_seen GROUP BY name, partition) AS s"
        " ON s.name = p.table AND s.partition = p.partition"
        f" WHERE p.database = '{admin.database}' AND p.active GROUP BY p.table, p.partition"
    )
    found = []
    for row in rows:
        begin, end = span(row["partition"])
        times = begin, end, row["noted"] or row["oldest"], row["changed"]
        found.append(Partition(row["table"], row["partition"], *times, row["rows"], row["octets"]))
    return sorted(found, key=lambda one: (one.begin, one.table))


def note_partitions(admin: ClickHouse, now: float) -> None:
    """Note when partitions were first seen, and forget those that are gone. A time of the future, which a clock noted that was
    ahead, becomes the present: the engine keeps the lower one. A clock from before Weir, such as that of a machine whose battery
    is empty, says nothing."""
    if now < _BORN:
        return
    found = {(one.table, one.name): one for one in partitions(admin) if one.end}
    noted = {(row["name"], row["partition"]) for row in admin.rows("SELECT name, partition FROM partitions_seen")}
    first_seen = {place: one.first_seen if one.first_seen <= now + DAY_S else int(now) for place, one in found.items()}
    news = {place for place, one in found.items() if place not in noted or one.first_seen != first_seen[place]}
    values = ", ".join(f"('{table}', '{name}', {first_seen[table, name]})" for table, name in sorted(news))
    if values:
        admin.execute(
            f"INSERT INTO partitions_seen (name, partition, first_seen) VALUES {values}", insert_deduplicate="0"
        )
    forget_partitions(admin, noted - found.keys())


def forget_partitions(admin: ClickHouse, gone: Collection[tuple[str, str]]) -> None:
    """Forget when these partitions, (table, name), were first seen; if they appear again, they count as new."""
    if gone:
        pairs = ", ".join(f"('{table}', '{name}')" for table, name in sorted(gone))
        admin.execute(f"ALTER TABLE partitions_seen DELETE WHERE (name, partition) IN ({pairs})", mutations_sync="2")


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
    return seconds(begin), seconds(end)


def disk(admin: ClickHouse) -> Disk:
    """The disks that hold the store's parts, added up; the disk for backups is not among them."""
    row = admin.rows(
        "SELECT sum(total_space) AS total, sum(free_space) AS free FROM system.disks"
        f" WHERE name IN (SELECT disk_name FROM system.parts WHERE database = '{admin.database}' AND active)"
    )[0]
    return Disk(row["total"], row["free"], _held_by_copies(admin))


def _held_by_copies(admin: ClickHouse) -> int:
    """Octets of parts that only copies of the store hold: clones share the files of parts that the store still has."""
    own = f"SELECT hash_of_all_files FROM system.parts WHERE database = '{admin.database}' AND active"
    row = admin.rows(
        "SELECT sum(bytes_on_disk) AS octets FROM system.parts"
        f" WHERE database IN {snapshot.names(admin.database)} AND active AND hash_of_all_files NOT IN ({own})"
    )[0]
    return int(row["octets"])


def budget(stack: Stack, space: Disk, used: int) -> int:
    """Octets that the store may use: as configured, else nine tenths of the space that is free or already the store's."""
    configured = stack.config.storage.budget
    return config.octets(configured) if configured else (space.left + used) * 9 // 10


def kept_days(stack: Stack) -> dict[str, float]:
    """Retention of each tier in days; tiers without an entry are kept for ever."""
    ages = stack.config.storage
    return {name: getattr(ages, tier.days) for name, tier in TIERS.items() if tier.days}


def shortage(space: Disk) -> int:
    """Octets to drop, regardless of the tiers' shares, so that a twentieth of the disk is free."""
    return max(space.total // 20 - space.left, 0)


def due(found: list[Partition], days: dict[str, float], allowed: int, now: float, short: int = 0) -> list[Dropped]:
    """The partitions to drop: first by age, then until the rest fits into `allowed` octets.

    Legally required tiers and those kept for ever take their room first; the others share the rest. A tier that
    exceeds its share loses its oldest partitions, raw records before window and hourly rows of the same time. Today's and yesterday's
    partitions stay, so that too small a budget does not remove current data; if these are the reason why the rest does
    not fit, tiers shrink below their shares as well.

    If the partitions that must stay exceed `allowed` by themselves, no drop would make them fit: each tier then keeps
    its share of the whole of `allowed`, and loses part of it only if the disk runs full, that is, until `short` octets
    (`shortage`) are free.
    """
    out: list[Dropped] = []
    left: list[_Unit] = []
    for one in _units(found):
        tier_days = days.get(one.tier)
        if tier_days is not None and one.age_s(now) > tier_days * DAY_S:
            out += one.dropped("age")
        else:
            left.append(one)
    shares = {name: tier.share for name, tier in TIERS.items() if name in days and not tier.law}
    whole = sum(shares.values())
    may_go = {name: deque(one for one in left if one.tier == name and one.ended(now) < now - DAY_S) for name in shares}
    taken = {name: sum(one.octets for one in left if one.tier == name) for name in shares}
    fixed = sum(one.octets for one in left if one.tier not in shares)
    over = fixed + sum(taken.values()) - allowed
    fits = over <= sum(one.octets for own in may_go.values() for one in own)
    room = allowed - fixed if fits else allowed
    for of_shares in (False, True):
        if of_shares and not fits:
            over = short - sum(gone.partition.octets for gone in out)
        for name, share in shares.items():
            while may_go[name] and over > 0 and (of_shares or taken[name] * whole > room * share):
                one = _first_to_go(name, may_go, now)
                out += one.dropped("budget")
                taken[one.tier] -= one.octets
                over -= one.octets
    return out


def _first_to_go(tier: str, may_go: dict[str, deque[_Unit]], now: float) -> _Unit:
    """Take the oldest partitions that this tier may lose; before hourly rows, raw records of that time or before: late ones
    could no longer be added to hours that have gone, nor from there to the days.
    """
    raw = may_go.get("raw")
    if tier == "hourly" and raw and raw[0].ended(now) <= may_go[tier][0].ended(now):
        return raw.popleft()
    return may_go[tier].popleft()


@dataclass(frozen=True)
class _Unit:
    """Partitions that are dropped together: usually one, or those of one name if their tables hold the same rows."""

    parts: tuple[Partition, ...]

    @property
    def tier(self) -> str:
        return self.parts[0].tier

    @property
    def octets(self) -> int:
        return sum(one.octets for one in self.parts)

    def ended(self, now: float) -> float:
        """As of a partition; for ever if they have no time."""
        return max(one.ended(now) if one.end else math.inf for one in self.parts)

    def age_s(self, now: float) -> float:
        return min(one.age_s(now) if one.end else -math.inf for one in self.parts)

    def dropped(self, why: str) -> list[Dropped]:
        return [Dropped(one, why) for one in self.parts]


def _units(found: list[Partition]) -> list[_Unit]:
    together: dict[tuple[str, str], list[Partition]] = {}
    for one in found:
        of_tier = one.tier in TIERS and TIERS[one.tier].together
        together.setdefault((one.tier if of_tier else one.table, one.name), []).append(one)
    return [_Unit(tuple(parts)) for parts in together.values()]


def due_columns(
    found: list[Partition], held: dict[tuple[str, str], set[str]], days: dict[str, float], now: float
) -> list[Emptied]:
    """Columns whose legal retention has ended before that of their rows; `held` comes from `columns_held`."""
    out = []
    for name, tier in TIERS.items():
        for one in found:
            if name in days and one.end and now - one.ended(now) > days[name] * DAY_S:
                columns = held.get((one.table, one.name), set()).intersection(tier.columns.get(one.table, ()))
                if columns:
                    out.append(Emptied(one, tuple(sorted(columns))))
    return out


def columns_held(admin: ClickHouse) -> dict[tuple[str, str], set[str]]:
    """The columns that still hold values, among those that `due_columns` may request, by table and partition."""
    wanted = {(table, column) for tier in TIERS.values() for table, own in tier.columns.items() for column in own}
    pairs = ", ".join(f"('{table}', '{column}')" for table, column in sorted(wanted))
    rows = admin.rows(
        "SELECT table, partition, groupUniqArray(column) AS columns FROM system.parts_columns"
        f" WHERE database = '{admin.database}' AND active AND (table, column) IN ({pairs}) GROUP BY table, partition"
    )
    return {(row["table"], row["partition"]): set(row["columns"]) for row in rows}


def empty(admin: ClickHouse, due: Emptied) -> None:
    """Empty columns of a partition. The engine links the files of the other columns, and rewrites only small parts."""
    name = _literal(due.partition)
    commands = ", ".join(f"CLEAR COLUMN {column} IN PARTITION {name}" for column in due.columns)
    admin.execute(f"ALTER TABLE {due.partition.table} {commands}", mutations_sync="2")


def _literal(one: Partition) -> str:
    return one.name if one.name.isdigit() else f"'{one.name}'"


def drop(admin: ClickHouse, one: Partition) -> None:
    """Drop a partition, whatever its size."""
    admin.execute(f"ALTER TABLE {one.table} DROP PARTITION {_literal(one)}", max_partition_size_to_drop="0")
