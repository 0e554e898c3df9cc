"""Hourly rows of the raw records, each flow counted once: `weir storage` writes them every minute.

Only when all probes have reported is it known which probe's records of a flow count, so the store's views cannot fill
the hourly tables from each inserted block. Instead, the service adds each interval of the current hour some minutes
after the interval's end. If more records of a written hour come later, the service waits until no more come, and writes
the difference between the rows that the hour has and those that it should have. Nothing is written twice or lost,
whenever the service or the store is killed: the service first makes each block in a separate table, then notes it with
a token, then writes it under this token.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from weir.clickhouse import ClickHouse
from weir.schema import hourly
from weir.storage.times import DAY_S, iso, seconds

HOUR_S = 3600
#: Seconds from an interval's end until it is rolled up: the records of nearly all probes are stored by then.
_DELAY_S = 120
#: Seconds without further late records after which they are added; after an hour they are added in any case. Windows
#: accept late data for as long.
_SETTLED_S = 300
#: Maximum number of records that one statement rolls up, because it keeps a row of each in memory.
PART = 1_000_000

_ENDED = ("dropping", "closed")
_STAGED = "hours_staged"
_SPILL = {"max_bytes_before_external_group_by": "500000000", "max_bytes_before_external_sort": "500000000"}
#: Insert one block, whatever its size, because a token stands for one block. Views that pass a repeat on recognise it
#: by the same token.
_ONE_BLOCK = {
    "max_threads": "1",
    "max_insert_threads": "1",
    "min_insert_block_size_rows": "1000000000000",
    "min_insert_block_size_bytes": "1000000000000",
    "deduplicate_blocks_in_dependent_materialized_views": "1",
    "optimize_on_insert": "0",
}


@dataclass(frozen=True)
class Hour:
    """A row of the table `hours`: how far an hour is rolled up; times in seconds."""

    hour: int
    until: int
    records: int = 0
    generation: int = 0
    state: str = "done"
    token: str = ""


@dataclass(frozen=True)
class Changed:
    """An hour with more arrived records than its rows count, or an hour without a row in `hours` (`was` is None)."""

    hour: int
    was: Hour | None
    arrived: int  # records
    written: int  # part of `arrived`: records before `was.until`
    before: int  # part of `arrived`: records before the moment passed to `changed`
    waits_since: int
    last: int


def noted(admin: ClickHouse, where: str = "1") -> list[Hour]:
    """The rows of `hours` that meet a condition."""
    columns = "toUnixTimestamp(hour) AS hour, toUnixTimestamp(until) AS until, records, generation, toString(state) AS state, token"
    return [
        Hour(**row)
        for row in admin.rows(f"SELECT {columns} FROM (SELECT * FROM hours FINAL) AS h WHERE {where} ORDER BY hour")
    ]


def changed(admin: ClickHouse, day: date | None = None, before: int = 0, of_current: int = 0) -> list[Changed]:
    """Hours (of a day) with arrived records that are not in the hourly rows, the newest first. before, of_current:
    times in seconds up to which `Changed.before` counts; of_current applies to the hour that contains it, before to all
    others.
    """
    current = f"if(a.hour = toDateTime({of_current // HOUR_S * HOUR_S}, 'UTC'), {of_current}, {before})"
    of_day = f"WHERE toDate(ts) = '{day}'" if day else ""
    sums = (
        "SELECT a.hour AS of, any(h.known) AS known, any(h.until) AS noted_until, any(h.records) AS noted_records,"
        " any(h.generation) AS generation, toString(any(h.state)) AS state, any(h.noted_at) AS noted_at,"
        " sum(a.records) AS arrived, sumIf(a.records, a.ts < h.until) AS written,"
        f" sumIf(a.records, toUnixTimestamp(a.ts) < {current}) AS before, min(a.first) AS first, max(a.last) AS last"
        f" FROM (SELECT ts, toStartOfHour(ts) AS hour, records, first, last FROM arrivals {of_day}) AS a"
        " LEFT JOIN (SELECT *, true AS known FROM hours FINAL) AS h ON h.hour = a.hour GROUP BY a.hour"
    )
    rows = admin.rows(
        "SELECT toUnixTimestamp(of) AS hour, known, toUnixTimestamp(noted_until) AS until, noted_records AS records,"
        " generation, state, arrived, written, before, toUnixTimestamp(if(known, toDateTime(noted_at), first)) AS waits_since,"
        f" toUnixTimestamp(last) AS last FROM ({sums})"
        " WHERE NOT known OR state = 'unfinished' OR (state = 'done' AND arrived != noted_records) ORDER BY hour DESC"
    )
    return [
        Changed(
            row["hour"],
            Hour(row["hour"], row["until"], row["records"], row["generation"], row["state"]) if row["known"] else None,
            *(row[name] for name in ("arrived", "written", "before", "waits_since", "last")),
        )
        for row in rows
    ]


def roll_up(
    admin: ClickHouse, now: float | None = None, day: date | None = None, *, all_now: bool = False
) -> Iterator[tuple[str, int]]:
    """Bring the hourly rows (of a day) up to date. Yields each hour and its number of records, when it is written.

    all_now: roll up everything that is stored, instead of waiting for late records.
    """
    moment = time.time() if now is None else now
    _finish(admin)
    current = int(moment if all_now else moment - _DELAY_S) // 60 * 60 + (60 if all_now else 0)
    before = 2**32 - 1 if all_now else current
    for one in changed(admin, day, before, current):
        until = min(current if one.hour == current // HOUR_S * HOUR_S else before, one.hour + HOUR_S)
        if _write_hour(admin, one, until, moment, all_now=all_now):
            yield iso(one.hour) or "", one.before


def drop_day(admin: ClickHouse, day: date) -> None:
    """Note that the raw records of a day are being dropped: its hourly rows are final, and records that come later make
    rows of their own. Call `dropped` next; after a kill, `roll_up` does.
    """
    begin = seconds(day)
    for one in noted(admin, f"hour >= {begin} AND hour < {begin + DAY_S}"):
        if one.state != "dropping":
            _note(admin, replace(one, state="dropping", generation=one.generation + 1, until=one.hour + HOUR_S))


def dropped(admin: ClickHouse) -> None:
    """Drop the raw records of the days that `drop_day` noted."""
    begun = noted(admin, "state = 'dropping'")
    for name in sorted({datetime.fromtimestamp(one.hour, UTC).strftime("%Y%m%d") for one in begun}):
        admin.execute(f"ALTER TABLE flows DROP PARTITION {name}", max_partition_size_to_drop="0")
    for one in begun:
        _note(admin, replace(one, state="done"))


def close(admin: ClickHouse, begin: int, end: int) -> None:
    """Note that the hourly rows of a time span are dropped. While raw records of an hour are left, the service adds
    nothing to the hour: all its rows would come back.
    """
    raw = f"SELECT DISTINCT toUnixTimestamp(toStartOfHour(ts)) AS hour FROM flows WHERE ts >= {begin} AND ts < {end}"
    left = {row["hour"] for row in admin.rows(raw)}
    for one in noted(admin, f"hour >= {begin} AND hour < {end}"):
        if one.hour in left and one.state not in _ENDED:
            _note(admin, replace(one, state="closed"))


def behind_s(admin: ClickHouse, now: float) -> float:
    """How long the oldest records that are not in the hourly rows have waited, in seconds; 0 if all are."""
    return max((now - one.waits_since for one in changed(admin)), default=0.0)


# ---- one hour ----


def _write_hour(admin: ClickHouse, one: Changed, until: int, now: float, *, all_now: bool) -> bool:
    """Write the rows that an hour lacks before `until`; false if it lacks none, or if it is too early."""
    was = one.was
    if not one.before or until <= one.hour:
        return False
    ripe = all_now or now - one.last >= _SETTLED_S or now - one.waits_since >= HOUR_S
    if was is None:
        if until == one.hour + HOUR_S and not ripe:
            return False  # an hour that is over, and more of it is coming
        held, raw = _rows_of(admin, one.hour)
        if held > raw:
            # An earlier version made the rows from more records than are left: they stay as they are.
            _note(admin, Hour(one.hour, one.hour + HOUR_S, one.arrived, state="closed"))
            return False
        if held:
            _correct(admin, replace(Hour(one.hour, until), records=one.before))
        else:
            _append(admin, Hour(one.hour, one.hour), until)
        return True
    if was.state == "unfinished" or (ripe and one.written != was.records):
        if was.state == "done" and _rows_of(admin, one.hour)[1] <= one.written - was.records:
            # Somebody, or a TTL, dropped the raw records: the hour's rows stay, and late records are added.
            was = replace(was, generation=was.generation + 1)
        _correct(admin, replace(was, until=max(until, was.until), records=max(one.before, one.written)))
        return True
    if until <= was.until or one.before <= one.written:
        return False  # only late records, of which more may come
    _append(admin, was, until)
    return True


def _append(admin: ClickHouse, was: Hour, until: int) -> None:
    """Write the next minutes of an hour in blocks of whole minutes with at most `PART` records, or of one minute."""
    minutes = admin.rows(
        "SELECT toUnixTimestamp(a.ts) AS minute, sum(a.records) AS records FROM arrivals AS a"
        f" WHERE toUnixTimestamp(a.ts) >= {was.until} AND toUnixTimestamp(a.ts) < {until} GROUP BY minute ORDER BY minute"
    )
    records = 0
    for at, row in enumerate(minutes):
        records += row["records"]
        if at + 1 < len(minutes) and records + minutes[at + 1]["records"] <= PART:
            continue
        end = minutes[at + 1]["minute"] if at + 1 < len(minutes) else until
        then = replace(was, until=end, records=was.records + records)
        _write(admin, then, hourly.rows(was.until, end, was.generation, join=_one_way(admin)))
        was, records = then, 0


def _correct(admin: ClickHouse, then: Hour) -> None:
    """Write the rows that the whole hour lacks, for one part of the addresses at a time."""
    parts = -(-then.records // PART)
    for part in range(parts):
        state = "done" if part == parts - 1 else "unfinished"
        rows = hourly.correction(then.hour, then.until, then.generation, part, parts, join=_one_way(admin))
        _write(admin, replace(then, state=state), rows)


def _write(admin: ClickHouse, then: Hour, rows: str) -> None:
    """Write a block, and note the state of the hour after it."""
    admin.execute(f"DROP TABLE IF EXISTS {_STAGED} SYNC")
    admin.execute(
        f"CREATE TABLE {_STAGED} AS flows_hourly ENGINE = MergeTree PRIMARY KEY () ORDER BY ()"
        " COMMENT 'A block of hourly rows that is being written'"
    )
    admin.execute(f"INSERT INTO {_STAGED} ({hourly.COLUMNS}) {rows}", **_SPILL)
    token = f"hours/{then.hour}/{secrets.token_hex(8)}/{then.state}"
    _note(admin, replace(then, state="applying", token=token))
    _apply(admin, replace(then, token=token))


def _apply(admin: ClickHouse, then: Hour) -> None:
    admin.execute(
        f"INSERT INTO flows_hourly ({hourly.COLUMNS}) SELECT {hourly.COLUMNS} FROM {_STAGED}",
        insert_deduplication_token=then.token,
        **_ONE_BLOCK,
    )
    _note(admin, then)
    admin.execute(f"DROP TABLE IF EXISTS {_STAGED} SYNC")


def _finish(admin: ClickHouse) -> None:
    """Finish the writes and drops that a kill interrupted."""
    for one in noted(admin, "state = 'applying'"):
        if admin.rows(f"SELECT 1 FROM system.tables WHERE database = currentDatabase() AND name = '{_STAGED}'"):
            # The block may have been written, in part or whole; by its token the engine knows the rest.
            _apply(admin, replace(one, state=one.token.rpartition("/")[2]))
        else:
            _note(admin, replace(one, state="unfinished"))
    dropped(admin)


def _note(admin: ClickHouse, one: Hour) -> None:
    # The newest row counts, even if the store's clock was set back since the last one.
    last = f"(SELECT max(noted_at) FROM hours WHERE hour = toDateTime({one.hour}, 'UTC'))"
    admin.execute(
        "INSERT INTO hours (hour, until, records, generation, state, token, noted_at)"
        f" SELECT {one.hour}, {one.until}, {one.records}, {one.generation}, '{one.state}', '{one.token}',"
        f" greatest(now64(6, 'UTC'), {last} + INTERVAL 1 MICROSECOND)",
        insert_deduplicate="0",
    )


def _one_way(admin: ClickHouse) -> bool:
    """Whether more than one probe sees only one direction."""
    return bool(admin.rows("SELECT count() > 1 AS several FROM v_probes WHERE one_way")[0]["several"])


def _rows_of(admin: ClickHouse, hour: int) -> tuple[int, int]:
    """Records of an hour that are in the hourly rows, and raw ones."""
    moment = f"toDateTime({hour}, 'UTC')"
    held = admin.rows(f"SELECT sum(h.records) AS n FROM flows_hourly AS h WHERE ts = {moment}")
    raw = admin.rows(f"SELECT count() AS n FROM flows WHERE ts >= {moment} AND ts < {moment} + INTERVAL 1 HOUR")
    return held[0]["n"], raw[0]["n"]
