"""Rounds that keep the store within its ages and its budget: `weir storage keep`."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date

import prometheus_client

from weir import audit, locks, snapshot
from weir.clickhouse import ClickHouse, connect
from weir.config import Stack
from weir.errors import WeirError
from weir.forget import drop_ranges
from weir.storage import clock, hours, rollup
from weir.storage.forecast import show_octets, survey
from weir.storage.partitions import (
    TIERS,
    Partition,
    budget,
    columns_held,
    disk,
    drop,
    due,
    due_columns,
    empty,
    forget_partitions,
    kept_days,
    note_partitions,
    partitions,
    shortage,
)
from weir.storage.times import DAY_S, iso, seconds


@contextmanager
def alone(stack: Stack) -> Iterator[None]:
    """Wait for and hold the lock that lets only one process of this stack change the store's tiers."""
    with locks.held(stack, "storage"):
        yield


def keep(
    stack: Stack,
    admin: ClickHouse,
    now: float | None = None,
    failing: dict[int, WeirError] | None = None,
    *,
    trust_clock: bool = False,
) -> Iterator[str]:
    """One round: write hourly rows and the daily lists that are due, and drop partitions that are too old or exceed the
    budget. Yields one line per action.

    now: a time that the caller vouches for. failing: as `failed` of `hours.roll_up`; without it, raises HoursFailed at the end.
    trust_clock: drop what is too old even if the clock leapt ahead; otherwise, this raises WeirError at the end.
    """
    causes = {} if failing is None else failing
    moment = time.time() if now is None else now
    failed: WeirError | None = None
    with alone(stack):
        snapshot.refuse_unfinished(admin)
        leap = 0.0 if now is not None else _leap_s(stack, admin, moment, trust_clock)
        try:
            drop_ranges(admin)
            for name in snapshot.drop_left(stack, admin):
                yield f"dropped {name}: a backup or a restore that was killed left it"
            _write_hours(admin, moment, causes)
            for line in rollup.roll_up(admin, now=moment, all_now=False):
                yield _rolled(*line)
        except WeirError as error:
            failed = error  # room is made all the same
        try:
            note_partitions(admin, moment)
        except WeirError as error:
            failed = error
        found, space = partitions(admin), disk(admin)
        allowed = budget(stack, space, sum(one.octets for one in found))
        days = kept_days(stack)
        if leap and any(gone.why == "age" for gone in due(found, days, allowed, moment)):
            failed = failed or WeirError(
                f"the clock is {leap / DAY_S:,.0f} days ahead of the last round: nothing is dropped for its age until the clock has"
                " run for a day",
                hint="if it is right, 'weir storage keep --trust-clock' drops what is too old now",
                status=1,
            )
        if leap:
            days = dict.fromkeys(days, math.inf)
        law = sum(one.octets for one in found if one.law)
        spent = f"the oldest of a tier beyond its share, the budget is spent{_of_which(law)}"
        dropped: set[Partition] = set()
        stay: set[tuple[str, str]] = set()
        # Where the clock is ahead, today's partitions are those of the time before it leapt.
        for gone in due(found, days, allowed, moment - leap, shortage(space)):
            one = gone.partition
            if (one.tier, one.name) in stay and TIERS[one.tier].together:
                continue
            try:
                yield from _drop(admin, one, moment)
            except WeirError as error:
                failed = error
                stay.add((one.tier, one.name))
                continue
            why = "older than its tier is kept" if gone.why == "age" else spent
            dropped.add(one)
            yield f"dropped {one.table} {one.name}: {one.rows:,} rows, {show_octets(one.octets)}, {why}"
        rest = [one for one in found if one not in dropped]
        for old in due_columns(rest, columns_held(admin), days, moment):
            empty(admin, old)
            names = ", ".join(old.columns)
            yield f"emptied {names} of {old.partition.table} {old.partition.name}: older than the law keeps them"
        forget_partitions(admin, {(one.table, one.name) for one in dropped})
        if not leap:
            try:
                yield from audit.expire(stack, moment)
            except WeirError as error:
                failed = failed or error
    if failed:
        raise failed
    if failing is None and causes:
        raise hours.HoursFailed(causes)


def _leap_s(stack: Stack, admin: ClickHouse, now: float, trusted: bool) -> float:
    """As `clock.leap_s` of this stack's rounds."""
    file = stack.run / "storage-clock.json"
    if trusted:
        clock.trust(file, now)
        return 0.0
    before = admin.rows("SELECT toUnixTimestamp(max(noted_at)) AS last FROM hours")[0]["last"]
    return clock.leap_s(file, now, before or None)


def _write_hours(admin: ClickHouse, now: float, failing: dict[int, WeirError]) -> None:
    """Write hourly rows, the newest first. After an upgrade or a backlog there are many: other processes wait for the
    lock, too."""
    end = time.monotonic() + _HOURS_AT_MOST_S
    for _ in hours.roll_up(admin, now, failed=failing):
        if time.monotonic() > end:
            return


def _drop(admin: ClickHouse, one: Partition, now: float) -> Iterator[str]:
    """Drop a partition once all that is kept for longer is made of it; raises WeirError if that fails. Yields one line per list
    that was made before."""
    if one.table == "flows":
        hours.drop_day(admin, one.day, _rolled_up(admin, one.day, now))
        rollup.raw_dropped(admin, one.day, one.rows)
        return
    for line in rollup.before_drop(admin, one.table, one.begin, one.end):
        yield _rolled(*line)
    if one.tier == "hourly":
        # What is still missing from these rows would never reach the daily ones.
        for raw in partitions(admin):
            if raw.table == "flows" and one.begin <= raw.begin < one.end:
                _rolled_up(admin, raw.day, now)
        hours.close(admin, one.begin, one.end)
    drop(admin, one)


def _rolled_up(admin: ClickHouse, day: date, now: float) -> hours.Newest:
    """Write the hourly rows of all records of a day; returns the newest block of these."""
    for _ in range(_ROUNDS):
        last = hours.newest(admin, day)
        for _ in hours.roll_up(admin, now, day, all_now=True):
            pass
        # More may have arrived meanwhile.
        if not hours.changed(admin, day) and hours.newest_block(admin, day) == last.block:
            return last
    raise WeirError(f"more and more records of {day} arrive: its raw records stay until the next round", status=1)


def _rolled(day: str, table: str, rows: int) -> str:
    return f"rolled up {day} into {table}: {rows:,} rows"


def _of_which(law: int) -> str:
    return f" ({show_octets(law)} of it for what the law keeps)" if law else ""


_SIZE = prometheus_client.Gauge("weir_storage_octets", "Bytes that a tier takes on disk", ["tier"])
_BUDGET = prometheus_client.Gauge("weir_storage_budget_octets", "Bytes that the store may take")
_BEYOND = prometheus_client.Gauge(
    "weir_storage_beyond_budget_octets", "Bytes by which the store exceeds its budget even after all possible drops"
)
_FREE = prometheus_client.Gauge("weir_storage_disk_free_octets", "Free bytes on the store's disk")
_SPENT = prometheus_client.Gauge(
    "weir_storage_budget_spent_timestamp_seconds",
    "Time at which the budget is spent at today's rate; 0: not within 20 years",
)
#: How often the hours of a day are written before the day is dropped, if more records keep arriving.
_ROUNDS = 5
#: How often hourly rows are written, and how long one such run may last, in seconds.
_HOURS_EVERY_S = 60
_HOURS_AT_MOST_S = 60
_ACTIONS = prometheus_client.Counter("weir_storage_actions", "Days rolled up and partitions dropped", ["action"])
_BEHIND = prometheus_client.Gauge(
    "weir_storage_hourly_behind_seconds",
    "Time since the oldest interval with records missing from the hourly rows: minutes while all is well; after late"
    " records, since the start of their hour",
)
_FUTURE = prometheus_client.Gauge(
    "weir_storage_future_records", "Records whose interval is yet to begin: the hourly rows include them once it ends"
)
_FAILING = prometheus_client.Gauge(
    "weir_storage_failing_hours",
    "Hours whose hourly rows could not be written at the last attempt; the log says why, once",
)
_FAILED = prometheus_client.Counter("weir_storage_failed_rounds", "Rounds that ended in an error; the log says which")
_DONE = prometheus_client.Gauge("weir_storage_last_round_timestamp_seconds", "Time of the last successful round")


def serve(stack: Stack, every_minutes: float) -> None:
    """Repeat what `weir storage keep` does until SIGTERM or SIGINT, and write hourly rows every minute between. Note the
    audit's end every minute. Metrics are on the port `storage_metrics`.

    A round that fails, for example because the store is away, is logged, counted and retried in the next round.
    """
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    prometheus_client.start_http_server(stack.config.ports.storage_metrics, "127.0.0.1")
    threading.Thread(target=audit.keep_noting, args=(stack, stopping), name="audit", daemon=True).start()
    next_round = 0.0
    failing: dict[int, WeirError] = {}
    said: set[int] = set()
    while True:
        try:
            admin = connect(stack, "admin")
            if time.monotonic() >= next_round:
                next_round = time.monotonic() + every_minutes * 60
                _round(stack, admin, failing)
            else:
                with alone(stack):
                    _write_hours(admin, time.time(), failing)
            behind, future = hours.arrears(admin, time.time())
            _BEHIND.set(behind)
            _FUTURE.set(future)
        except WeirError as error:
            _FAILED.inc()
            _log(f"{error}{f'; {error.hint}' if error.hint else ''}")
        for hour in failing.keys() - said:
            _log(f"the hourly rows of {iso(hour)} could not be written; trying again: {failing[hour]}")
        said = set(failing)
        _FAILING.set(len(failing))
        if stopping.wait(min(_HOURS_EVERY_S, every_minutes * 60)):
            return


def _round(stack: Stack, admin: ClickHouse, failing: dict[int, WeirError]) -> None:
    failed = None
    try:
        for line in keep(stack, admin, failing=failing):
            _log(line)
            _ACTIONS.labels(line.split()[0]).inc()
    except WeirError as error:
        failed = error
    seen = survey(stack, admin)
    for tier in seen.tiers:
        _SIZE.labels(tier.tier).set(tier.octets)
    _BUDGET.set(seen.budget)
    _BEYOND.set(seen.beyond)
    _FREE.set(seen.disk.free)
    _SPENT.set(seconds(seen.full) if seen.full else 0)
    if failed:
        raise failed
    _DONE.set_to_current_time()


def _log(line: str) -> None:
    print(f"{iso(time.time())} {line}", flush=True)
