"""Hourly rows of the raw records, each flow counted once: `weir storage` writes them every minute.

Only when all probes have reported is it known which probe's records of a flow count, so the store's views cannot fill
the hourly tables from each inserted block. Instead, the service adds each interval of the current hour some minutes
after the interval's end. If more records of a written hour arrive later, the service waits until no more arrive, and
writes the difference that they make to the flows that they belong to; if that is not certain, the difference between
the rows that the hour has and those that it should have. Nothing is written twice or lost, whenever the service or the
store is killed: the service first makes each block in a separate table, then notes it with a token, then writes it
under this token.
"""

from __future__ import annotations

import secrets
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from weir import snapshot
from weir.clickhouse import ClickHouse
from weir.errors import WeirError
from weir.long_statements import wait_for_writers
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

#: Seconds that the store may take to show a record after it stamped it: later ones are left to the next correction.
_IN_FLIGHT_S = 30
#: How long an INSERT may be under way before the drop of a day is left to the next round, in seconds.
_INSERT_S = 300

_ENDED = ("dropping", "closed")
#: Start of the token of an hour whose raw records are being dropped; the number of their newest block and the moment
#: follow.
_DROPPING = "drop/"
#: Token of an hour whose hourly rows are being dropped.
_CLOSING = "close"
#: How often merges may remove parts that are being dropped.
_MERGES = 5
#: Followed by the hour: a block that could not be written stays until it can, along with those of other hours.
_STAGED = "hours_staged_"
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


class HoursFailed(WeirError):
    """Hours whose rows could not be written; the others were. causes: the errors by hour, seconds."""

    def __init__(self, causes: dict[int, WeirError]) -> None:
        (hour, first), others = next(iter(causes.items())), len(causes) - 1
        more = f", nor those of {others} other hours" if others else ""
        super().__init__(
            f"the hourly rows of {iso(hour)} could not be written{more}: {first}", hint=first.hint, status=1
        )
        self.causes = causes


@dataclass(frozen=True)
class Hour:
    """A row of the table `hours`: how far an hour is rolled up; times in seconds."""

    hour: int
    until: int
    records: int = 0
    generation: int = 0
    state: str = "done"
    token: str = ""
    #: For each minute, until when its records are in the rows, in milliseconds (0: they are not); empty: not known.
    taken: tuple[int, ...] = ()
    rule: int = 0  # as of `Rule.value`; 0: not known

    def with_taken(self, begin: int, end: int, moment: int) -> tuple[int, ...]:
        """`taken` when the rows from `begin` to `end` hold the records that arrived until this moment."""
        if not self.taken and self.until > self.hour:
            return ()
        minutes = list(self.taken or [0] * 60)
        for at in range((begin - self.hour) // 60, -(-(end - self.hour) // 60)):
            minutes[at] = moment
        return tuple(minutes)


@dataclass(frozen=True)
class Rule:
    """What hourly rows depend on besides raw records."""

    value: int
    join: bool  # as of `hourly.rows`


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

    @property
    def lacks_from(self) -> int | None:
        """Start of the first interval whose records before the given moment may be missing from the rows."""
        if not self.was:
            return self.hour if self.before else None
        if self.was.state != "done" or self.written != self.was.records:
            return self.hour
        return self.was.until if self.before > self.written else None


def noted(admin: ClickHouse, where: str = "1") -> list[Hour]:
    """The rows of `hours` that meet a condition."""
    columns = (
        "toUnixTimestamp(hour) AS hour, toUnixTimestamp(until) AS until, records, generation, toString(state) AS state, token,"
        " taken, rule"
    )
    return [
        Hour(**row | {"taken": tuple(row["taken"])})
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
        "SELECT a.hour AS of, any(h.known) AS known, any(h.records) AS noted_records,"
        " toString(any(h.state)) AS state, any(h.noted_at) AS noted_at,"
        " sum(a.records) AS arrived, sumIf(a.records, a.ts < h.until) AS written,"
        f" sumIf(a.records, toUnixTimestamp(a.ts) < {current}) AS before, min(a.first) AS first, max(a.last) AS last"
        f" FROM (SELECT ts, toStartOfHour(ts) AS hour, records, first, last FROM arrivals {of_day}) AS a"
        " LEFT JOIN (SELECT hour, until, records, state, noted_at, true AS known FROM hours FINAL) AS h ON h.hour = a.hour GROUP BY a.hour"
    )
    rows = admin.rows(
        "SELECT toUnixTimestamp(of) AS hour, known, arrived, written, before,"
        " toUnixTimestamp(if(known, toDateTime(noted_at), first)) AS waits_since,"
        f" toUnixTimestamp(last) AS last FROM ({sums})"
        " WHERE NOT known OR state IN ('unfinished', 'applying') OR (state = 'done' AND arrived != noted_records) ORDER BY hour DESC"
    )
    known = ", ".join(str(row["hour"]) for row in rows if row["known"])
    was = {one.hour: one for one in noted(admin, f"toUnixTimestamp(h.hour) IN ({known})")} if known else {}
    figures = ("arrived", "written", "before", "waits_since", "last")
    return [Changed(row["hour"], was.get(row["hour"]), *(row[name] for name in figures)) for row in rows]


def roll_up(
    admin: ClickHouse,
    now: float | None = None,
    day: date | None = None,
    *,
    all_now: bool = False,
    failed: dict[int, WeirError] | None = None,
) -> Iterator[tuple[str, int]]:
    """Bring the hourly rows (of a day) up to date. Yields each hour and its number of records, when it is written.

    all_now: roll up everything that is stored, instead of waiting for late records. failed: keeps, from one call to the next, the
    hours whose rows could not be written, and why; they are tried after the others. Without it, raises HoursFailed at the
    end.
    """
    snapshot.refuse_unfinished(admin)
    moment = time.time() if now is None else now
    causes = {} if failed is None else failed
    unfinished = finish(admin, causes)
    current = int(moment if all_now else moment - _DELAY_S) // 60 * 60 + (60 if all_now else 0)
    before = 2**32 - 1 if all_now else current
    found = changed(admin, day, before, current)
    for gone in causes.keys() - {one.hour for one in found} - unfinished:
        causes.pop(gone)
    for one in sorted(found, key=lambda one: one.hour in causes):
        if one.was and one.was.state == "applying":
            continue  # its block could not be written just now
        until = min(current if one.hour == current // HOUR_S * HOUR_S else before, one.hour + HOUR_S)
        try:
            written = _write_hour(admin, one, until, moment, all_now=all_now)
        except WeirError as error:
            _failed(admin, causes, one.hour, error)
            continue
        causes.pop(one.hour, None)
        if written:
            yield iso(one.hour) or "", one.before
    own = {hour: cause for hour, cause in causes.items() if not day or hour // DAY_S * DAY_S == seconds(day)}
    if failed is None and own:
        raise HoursFailed(own)


def finish(admin: ClickHouse, failed: dict[int, WeirError] | None = None) -> set[int]:
    """Finish what a kill interrupted; returns the hours for which that failed. failed: as of `roll_up`; without it,
    raises the error."""
    applying = noted(admin, "state = 'applying'")
    own = "SELECT name FROM system.tables WHERE database = currentDatabase()"
    staged = {row["name"] for row in admin.rows(own) if is_staged(row["name"])}
    unfinished = set()
    for one in applying:
        if _staged(one) not in staged:
            _note(admin, replace(one, state="unfinished"))
            continue
        try:
            # The block may have been written, in part or whole; its token tells the engine what is left to write.
            _apply(admin, replace(one, state=one.token.rpartition("/")[2]))
        except WeirError as error:
            if failed is None:
                raise
            _failed(admin, failed, one.hour, error)
            unfinished.add(one.hour)
        else:
            if failed:
                failed.pop(one.hour, None)
    for name in staged - {_staged(one) for one in applying}:
        admin.execute(f"DROP TABLE IF EXISTS {name} SYNC")
    for one in noted(admin, f"state = 'closed' AND token = '{_CLOSING}'"):
        # Killed before the drop, or refused: the rows still exist, and accept new records.
        _note(admin, replace(one, state="done" if _held(admin, one.hour) else "closed", token=""))
    for token, begun in {one.token: one for one in noted(admin, "state = 'dropping'")}.items():
        try:
            _drop(admin, datetime.fromtimestamp(begun.hour, UTC).date(), token)
        except WeirError as error:
            if failed is None:
                raise
            _failed(admin, failed, begun.hour, error)
            unfinished.add(begun.hour)
    return unfinished


# ---- dropping ----


@dataclass(frozen=True)
class Newest:
    """The newest block of records of a day, by the engine's number, and the time at which it was the newest, in
    milliseconds. A later insert has a higher number, and merges change nothing. If it is still the newest block, the records of
    these blocks, and no others, have stamps (`flows.late_at`) until that time."""

    block: int
    moment: int


def newest(admin: ClickHouse, day: date) -> Newest:
    """The present state of a day of raw records. A record's stamp is the time at which its INSERT began: waits for those that are
    under way, whose records make newer blocks. Raises WeirError if one of these does not end."""
    last = Newest(newest_block(admin, day), _now(admin))
    wait_for_writers(admin, table="flows", at_most=_INSERT_S)
    return last


def newest_block(admin: ClickHouse, day: date) -> int:
    """The number of the newest block of records of a day, 0 if it has none."""
    return max((part["newest"] for part in _parts(admin, day)), default=0)


def drop_day(admin: ClickHouse, day: date, last: Newest) -> None:
    """Drop the raw records of a day up to this block, all of which are in its hourly rows: these are final. Records
    that arrived later stay, and make rows of their own. After a kill, `finish` drops the rest.
    """
    begin = seconds(day)
    of_day = noted(admin, f"hour >= {begin} AND hour < {begin + DAY_S}")
    if any(one.state == "applying" for one in of_day):
        raise WeirError(f"a block of hourly rows of {day} is not written: its raw records stay", status=1)
    token = f"{_DROPPING}{last.block}/{last.moment}"
    for one in of_day:
        then = replace(one, state="dropping", generation=one.generation + 1, until=one.hour + HOUR_S, token=token)
        _note(admin, then)
    _drop(admin, day, token)


def _drop(admin: ClickHouse, day: date, token: str) -> None:
    """Drop the raw records of a day that this token stands for, and note that they are gone. A part holds these, or later ones, or
    both, if the engine merged them meanwhile: then the records' stamps decide."""
    last, moment = map(int, token.removeprefix(_DROPPING).split("/"))
    for _ in range(_MERGES):
        old = [part["name"] for part in _parts(admin, day) if part["newest"] <= last]
        for name in old:
            try:
                admin.execute(f"ALTER TABLE flows DROP PART '{name}'", max_partition_size_to_drop="0")
            except WeirError:
                if name in {part["name"] for part in _parts(admin, day)}:
                    raise  # no merge took it
        if not old:
            break
    mixed = ", ".join(f"'{part['name']}'" for part in _parts(admin, day) if part["oldest"] <= last)
    was_there = f"late_at <= fromUnixTimestamp64Milli({moment}, 'UTC')"
    if mixed and admin.rows(f"SELECT 1 AS one FROM flows WHERE _part IN ({mixed}) AND {was_there} LIMIT 1"):
        admin.execute(f"ALTER TABLE flows DELETE IN PARTITION {day:%Y%m%d} WHERE {was_there}", mutations_sync="2")
    for one in noted(admin, f"state = 'dropping' AND token = '{token}'"):
        _note(admin, replace(one, state="done"))


def _parts(admin: ClickHouse, day: date) -> list[dict[str, Any]]:
    """The parts with records of a day, and the numbers of their oldest and newest blocks."""
    return admin.rows(
        "SELECT name, min_block_number AS oldest, max_block_number AS newest FROM system.parts"
        f" WHERE database = currentDatabase() AND table = 'flows' AND partition = '{day:%Y%m%d}' AND active AND rows > 0"
    )


def close(admin: ClickHouse, begin: int, end: int) -> None:
    """Note that the hourly rows of a time span are being dropped; `finish` looks whether they were. While raw records of an hour
    are left, the service adds nothing to the hour: all its rows would come back.
    """
    raw = f"SELECT DISTINCT toUnixTimestamp(toStartOfHour(ts)) AS hour FROM flows WHERE ts >= {begin} AND ts < {end}"
    left = {row["hour"] for row in admin.rows(raw)}
    for one in noted(admin, f"hour >= {begin} AND hour < {end}"):
        if one.hour in left and one.state not in _ENDED:
            _note(admin, replace(one, state="closed", token=_CLOSING))


def arrears(admin: ClickHouse, now: float) -> tuple[float, int]:
    """Seconds since the oldest interval with records missing from the hourly rows (0: none), and the number of records
    from the future, which are not due yet.
    """
    found = changed(admin, before=int(now), of_current=int(now))
    oldest = min((begin for one in found if (begin := one.lacks_from) is not None), default=now)
    return max(now - oldest, 0.0), sum(one.arrived - one.before for one in found)


# ---- one hour ----


def _write_hour(admin: ClickHouse, one: Changed, until: int, now: float, *, all_now: bool) -> bool:
    """Write the rows that an hour lacks before `until`; false if it lacks none, or if it is too early."""
    was = one.was
    if not one.before or until <= one.hour:
        return False
    # A stamp in the future, from a clock that was ahead, means nothing: do not wait for it.
    ahead = max(one.last, one.waits_since) > now + HOUR_S
    ripe = all_now or ahead or now - one.last >= _SETTLED_S or now - one.waits_since >= HOUR_S
    margin = 0 if all_now else _IN_FLIGHT_S
    if was is None:
        if until == one.hour + HOUR_S and not ripe:
            return False  # an hour that is over, and more of it is coming
        held = _held(admin, one.hour)
        if held and not _more_than(admin, one.hour, held - 1):
            # An earlier version made the rows from more records than are left: they stay as they are.
            _note(admin, Hour(one.hour, one.hour + HOUR_S, one.arrived, state="closed"))
            return False
        if held:
            _correct(admin, Hour(one.hour, until))
        else:
            _append(admin, Hour(one.hour, one.hour), until, margin)
        return True
    if was.state == "unfinished" or (ripe and one.written != was.records):
        until = max(until, was.until)
        if was.state == "done" and not _more_than(admin, one.hour, one.written - was.records):
            # Somebody, or a TTL, dropped the raw records: the hour's rows stay, and late records are added.
            was = replace(was, generation=was.generation + 1, taken=())
        then = _add_late(admin, was, margin) if was.state == "done" else None
        if then is None:
            _correct(admin, replace(was, until=until))
        elif until > then.until:
            _append(admin, then, until, margin)
        return True
    if until <= was.until or one.before <= one.written:
        return False  # only late records, and more may arrive
    _append(admin, was, until, margin)
    return True


def _append(admin: ClickHouse, was: Hour, until: int, margin: int) -> None:
    """Write the next minutes of an hour in blocks of whole minutes with at most `PART` records, or of one minute."""
    rule, moment = _rule(admin), _now(admin) - margin * 1000
    minutes = admin.rows(
        "SELECT toUnixTimestamp(a.ts) AS minute, sum(a.records) AS records FROM arrivals AS a"
        f" WHERE toUnixTimestamp(a.ts) >= {was.until} AND toUnixTimestamp(a.ts) < {until} GROUP BY minute ORDER BY minute"
    )
    for at, group in enumerate(groups := list(_groups(minutes))):
        end = groups[at + 1][0]["minute"] if at + 1 < len(groups) else until
        raw = hourly.came(was.until, end, moment)
        then = replace(was, until=end, taken=was.with_taken(was.until, end, moment))
        made = _stage(admin, then, hourly.rows(raw, was.generation, join=rule.join))
        # More than had arrived: the store is still writing them, and the rows may have missed one.
        records = was.records + min(made, sum(row["records"] for row in group))
        known = was.until == was.hour or was.rule == rule.value
        was = _commit(admin, replace(then, records=records, rule=_unchanged(admin, rule) if known else 0))


def _groups(minutes: list[dict[str, int]]) -> Iterator[list[dict[str, int]]]:
    """Successive minutes with at most `PART` records together, or one minute."""
    group: list[dict[str, int]] = []
    for row in minutes:
        if group and sum(one["records"] for one in group) + row["records"] > PART:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _add_late(admin: ClickHouse, was: Hour, margin: int) -> Hour | None:
    """Add what late records change; returns the hour's state after it. None if that is not certain, because the hour
    has more records than its rows and the late ones together, or because another rule made its rows.
    """
    rule = _rule(admin)
    if not any(was.taken) or was.rule != rule.value:
        return None
    moment = _now(admin) - margin * 1000
    minutes = admin.rows(hourly.late_minutes(hourly.Late(was.hour, was.until, was.taken, moment)))
    newer = sum(row["newer"] for row in minutes)
    late = sum(row["late"] for row in minutes)
    if sum(row["records"] for row in minutes) - was.records != late + newer or (newer and not margin):
        return None
    for group in _groups([row for row in minutes if row["late"]]):
        span = hourly.Late(group[0]["minute"], group[-1]["minute"] + 60, was.taken, moment)
        found = sum(row["late"] for row in group)
        then = replace(was, records=was.records + found, taken=was.with_taken(span.begin, span.end, moment))
        made = _stage_late(admin, then, span, rule)
        if made != found or not _unchanged(admin, rule):
            return None
        was = _commit(admin, then)
    return was


def _stage_late(admin: ClickHouse, then: Hour, span: hourly.Late, rule: Rule) -> int:
    """Make the block that late records add to an hour; returns its number of records."""
    about = "Hour being corrected: records of flows with late records, and what these change"
    records, changes = tables = [f"{_staged(then)}_{name}" for name in ("records", "changes")]
    for table in tables:
        admin.execute(f"DROP TABLE IF EXISTS {table} SYNC")
    # Copied once, so that all that follows sees the same records.
    _copy(admin, records, "()", hourly.with_late(span), about)
    _copy(admin, changes, "(src_addr, dst_addr)", hourly.additions(records, then.generation, join=rule.join), about)
    less = admin.rows(f"SELECT count() AS n FROM {changes} WHERE {hourly.LESS}")[0]["n"]
    rows = hourly.relabelled(changes, hourly.held(then.hour, then.generation)) if less else f"SELECT * FROM {changes}"
    made = _stage(admin, then, rows)
    for table in tables:
        admin.execute(f"DROP TABLE IF EXISTS {table} SYNC")
    return made


def _correct(admin: ClickHouse, then: Hour) -> None:
    """Write what the whole hour lacks; if it has many records, some of the addresses at a time."""
    rule = _rule(admin)
    span = f"ts >= {then.hour} AND ts < {then.until}"
    now = admin.rows(
        "SELECT toUnixTimestamp64Milli(now64(3)) AS moment,"
        f" (SELECT toUnixTimestamp64Milli(max(late_at)) FROM flows WHERE {span}) AS latest,"
        f" (SELECT sum(a.records) FROM arrivals AS a WHERE {span}) AS records"
    )[0]
    # The clock of the store may have been set back.
    moment = max(now["moment"], now["latest"], *then.taken, 0)
    taken = Hour(then.hour, then.hour).with_taken(then.hour, then.until, moment)
    then = replace(then, records=now["records"], taken=taken, rule=rule.value, state="done")
    raw, held = hourly.came(then.hour, then.until, moment), hourly.held(then.hour, then.generation)
    parts = max(1, -(-then.records // PART))
    if parts == 1:
        _stage(admin, then, hourly.correction(raw, held, then.generation, join=rule.join))
        _commit(admin, replace(then, rule=_unchanged(admin, rule)))
        return
    # Sorted by part once; otherwise each part would read the whole hour.
    tables = [f"{_staged(then)}_{name}" for name in ("records", "held")]
    for table, rows in zip(tables, hourly.copies(raw, held, parts), strict=True):
        admin.execute(f"DROP TABLE IF EXISTS {table} SYNC")
        _copy(admin, table, "part", rows, "Hour being corrected, sorted by part")
    for number in range(parts):
        of_raw, of_held = (hourly.Rows(table, f"part = {number}") for table in tables)
        _stage(admin, then, hourly.correction(of_raw, of_held, then.generation, join=rule.join))
        state = "done" if number == parts - 1 else "unfinished"
        _commit(admin, replace(then, state=state, rule=_unchanged(admin, rule)))
    for table in tables:
        admin.execute(f"DROP TABLE IF EXISTS {table} SYNC")


def _copy(admin: ClickHouse, table: str, order: str, rows: str, about: str) -> None:
    admin.execute(f"CREATE TABLE {table} ENGINE = MergeTree ORDER BY {order} COMMENT '{about}' AS {rows}", **_SPILL)


def _stage(admin: ClickHouse, then: Hour, rows: str) -> int:
    """Make a block of hourly rows; returns how many records it adds."""
    staged = _staged(then)
    admin.execute(f"DROP TABLE IF EXISTS {staged} SYNC")
    admin.execute(
        f"CREATE TABLE {staged} AS flows_hourly ENGINE = MergeTree PRIMARY KEY () ORDER BY ()"
        " COMMENT 'A block of hourly rows that is being written'"
    )
    admin.execute(f"INSERT INTO {staged} ({hourly.COLUMNS}) SELECT {hourly.COLUMNS} FROM ({rows})", **_SPILL)
    return int(admin.rows(f"SELECT toInt64(sum(s.records)) AS n FROM {staged} AS s")[0]["n"])


def _commit(admin: ClickHouse, then: Hour) -> Hour:
    """Write the block that was made, and note the state of the hour after it."""
    token = f"hours/{then.hour}/{secrets.token_hex(8)}/{then.state}"
    then = replace(then, token=token)
    _note(admin, replace(then, state="applying"))
    _apply(admin, then)
    return then


def _apply(admin: ClickHouse, then: Hour) -> None:
    admin.execute(
        f"INSERT INTO flows_hourly ({hourly.COLUMNS}) SELECT {hourly.COLUMNS} FROM {_staged(then)}",
        insert_deduplication_token=then.token,
        **_ONE_BLOCK,
    )
    _note(admin, then)
    admin.execute(f"DROP TABLE IF EXISTS {_staged(then)} SYNC")


def is_staged(table: str) -> bool:
    """Whether a table holds a block that is being written."""
    return table.startswith(_STAGED.rstrip("_"))


def _staged(one: Hour) -> str:
    """The table of the block of an hour that is being written."""
    return f"{_STAGED}{one.hour}"


def _failed(admin: ClickHouse, causes: dict[int, WeirError], hour: int, error: WeirError) -> None:
    """Keep the error of an hour, so that others continue; raise it if the store is away."""
    if not admin.ping():
        raise error
    causes[hour] = error


def _note(admin: ClickHouse, one: Hour) -> None:
    # The newest row counts, even if the store's clock was set back since the last one.
    last = f"(SELECT max(noted_at) FROM hours WHERE hour = toDateTime({one.hour}, 'UTC'))"
    admin.execute(
        "INSERT INTO hours (hour, until, records, generation, state, token, taken, rule, noted_at)"
        f" SELECT {one.hour}, {one.until}, {one.records}, {one.generation}, '{one.state}', '{one.token}',"
        f" {list(one.taken)}, {one.rule},"
        f" greatest(now64(6, 'UTC'), {last} + INTERVAL 1 MICROSECOND)",
        insert_deduplicate="0",
    )


def _now(admin: ClickHouse) -> int:
    """The time of the store, in milliseconds."""
    return int(admin.rows("SELECT toUnixTimestamp64Milli(now64(3)) AS now")[0]["now"])


def _rule(admin: ClickHouse) -> Rule:
    """What turns raw records into hourly rows now: the statement, and the probes' ranks that differ from the
    default."""
    statement = zlib.crc32(hourly.rows(hourly.Rows("flows", "true"), join=True).encode())
    places = (
        "SELECT sum(cityHash64(p.probe, p.rank, p.one_way)) FROM probe_places AS p WHERE p.rank != 100 OR p.one_way"
    )
    several = "SELECT count() > 1 FROM v_probes WHERE one_way"
    row = admin.rows(
        f"SELECT ({several}) AS several_one_way, cityHash64(({places}), several_one_way, {statement}) AS rule"
    )[0]
    return Rule(row["rule"], bool(row["several_one_way"]))


def _unchanged(admin: ClickHouse, rule: Rule) -> int:
    """The value of the rule if it holds still, else 0."""
    return rule.value if _rule(admin) == rule else 0


def _held(admin: ClickHouse, hour: int) -> int:
    """Records of an hour that are in the hourly rows."""
    found = admin.rows(f"SELECT sum(h.records) AS n FROM flows_hourly AS h WHERE ts = toDateTime({hour}, 'UTC')")
    return int(found[0]["n"])


def _more_than(admin: ClickHouse, hour: int, records: int) -> bool:
    """Whether an hour has more raw records than these. Reads no more of them than it must."""
    raw = f"SELECT 1 FROM flows WHERE ts >= {hour} AND ts < {hour + HOUR_S} LIMIT {max(records, 0) + 1}"
    settings = {"max_block_size": "8192", "max_threads": "1"}
    return bool(admin.rows(f"SELECT count() > {records} AS more FROM ({raw})", **settings)[0]["more"])
