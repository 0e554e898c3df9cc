"""Daily lists of the days that are over: `weir storage roll-up`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime

from weir.clickhouse import ClickHouse
from weir.errors import WeirError
from weir.storage import hours
from weir.storage.partitions import partitions

#: Number of hosts per probe and day with their own row in talkers_daily, and per day in national_talkers_daily: the
#: largest by octets. A tenth as many are the largest by packets, and as many by flows.
TALKERS = 10_000

# A host's place needs no other host: without this frame, the engine would keep all of them in memory.
_FRAME = "ROWS BETWEEN CURRENT ROW AND CURRENT ROW"

# The largest hosts of a day and one row for all others: per probe, or over all if `probe` is not among the columns.
_LIST_SQL = """
INSERT INTO {{table}} (
    day, rank, packets_rank, flows_rank, {own}, addr, network, customer, as_number, country, hosts,
    sent_packets, sent_octets, received_packets, received_octets, flows_begun, flows_received)
SELECT
    toDate('{{day}}') AS day, if(listed, place, 0) AS rank,
    if(rank > 0 AND any(packets_place) <= {{others}}, any(packets_place), 0),
    if(rank > 0 AND any(flows_place) <= {{others}}, any(flows_place), 0), {shown},
    if(rank = 0, toIPv6('::'), any(addr)), if(rank = 0, false, any(network)),
    if(rank = 0, 0, any(customer)), if(rank = 0, 0, any(as_number)), if(rank = 0, 0, any(country)),
    countIf(NOT nobody) AS hosts,
    sum(sp), sum(so), sum(rp), sum(ro), sum(begun), sum(received)
FROM
(
    SELECT *, NOT nobody AND (octets_place <= {{talkers}} OR packets_place <= {{others}} OR flows_place <= {{others}}) AS listed,
        row_number() OVER ({partition} ORDER BY listed DESC, octets_place {frame}) AS place
    FROM
    (
        SELECT *, addr = toIPv6('::') AS nobody,
            row_number() OVER ({partition} ORDER BY addr = toIPv6('::'), so + ro DESC, addr, network {frame}) AS octets_place,
            row_number() OVER ({partition} ORDER BY addr = toIPv6('::'), sp + rp DESC, addr, network {frame}) AS packets_place,
            row_number() OVER ({partition} ORDER BY addr = toIPv6('::'), begun + received DESC, addr, network {frame}) AS flows_place
        FROM
        (
            SELECT
                {grouped}, addr, network, max(h.customer) AS customer, max(h.as_number) AS as_number, max(h.country) AS country,
                {sums}
            FROM hosts_daily AS h
            WHERE day = '{{day}}'
            GROUP BY addr, network{by}
        )
    )
)
GROUP BY rank{by}
"""
_SUMS = {
    "sp": "sent_packets",
    "so": "sent_octets",
    "rp": "received_packets",
    "ro": "received_octets",
    "begun": "flows_begun",
    "received": "flows_received",
}


def _lists_of_hosts(column: str, shown: str, grouped: str, total: str, each: str = "") -> str:
    """The statement that writes a day's lists of hosts: one for each value of `each`, or a single one. `column` is
    filled with `shown`, which may use the `grouped` columns; `total` adds up a count.
    """
    return _LIST_SQL.format(
        own=column,
        shown=shown,
        grouped=grouped,
        partition=f"PARTITION BY {each}" if each else "",
        frame=_FRAME,
        by=f", {each}" if each else "",
        sums=", ".join(f"{total.format(count)} AS {name}" for name, count in _SUMS.items()),
    )


_TALKERS_SQL = _lists_of_hosts("probe", shown="probe", grouped="probe", total="sum({})", each="probe")
# Each flow once, however many probes saw it.
_NATIONAL_SQL = _lists_of_hosts(
    "probes", shown="max(seen)", grouped="uniqExact(probe) AS seen", total="sumIf({}, NOT duplicate)"
)

_MIXES_SQL = """
INSERT INTO {table} (
    day, scope, probe, customer, dimension, direction, number, application, remainder, windows,
    octets, packets, flows, ipv6_octets, ipv6_packets, ipv6_flows, overflow_octets)
SELECT
    toDate('{day}') AS day, scope, probe, customer, dimension, direction, number, application, remainder, count() AS windows,
    sum(m.octets), sum(m.packets), sum(m.flows), sum(m.ipv6_octets), sum(m.ipv6_packets), sum(m.ipv6_flows), sum(m.overflow_octets)
FROM mixes AS m FINAL
WHERE {of_day} AND packets > 0
GROUP BY scope, probe, customer, dimension, direction, number, application, remainder
"""


def _of_day(day: str) -> str:
    """A condition that selects windows that begin on the day, UTC."""
    return f"ts >= toDateTime('{day} 00:00:00', 'UTC') AND ts < toDateTime('{day} 00:00:00', 'UTC') + INTERVAL 1 DAY"


#: A number for all that was rolled up of some hours.
_ROLLED = "sum(cityHash64(hour, records))"
#: A number for all windows of one list: of one length, and of one probe, customer or all.
_WINDOWS_OF = "cityHash64(scope, probe, customer, window_s)"


@dataclass(frozen=True)
class _RollUp:
    """Daily lists: the source, the target and the statement of each."""

    source: str
    lists: dict[str, str]

    def fingerprint(self, admin: ClickHouse, day: str, raw_rows: int) -> int:
        """A value that changes whenever the source of that day changes: hours rolled up, raw records removed, windows
        written again. When the day's raw records are dropped, `raw_dropped` makes it the value for no records."""
        if self.source == "hosts_daily":
            rolled = f"SELECT {_ROLLED} AS it FROM hours FINAL WHERE toDate(hour) = '{day}'"
            return (int(admin.rows(rolled)[0]["it"]) + raw_rows) % 2**64
        # Only the newest versions count, so that a merge that removes older ones changes nothing.
        newest = f"SELECT {_WINDOWS_OF} AS list, ts, max(version) AS newest FROM {self.source} WHERE {_of_day(day)} GROUP BY list, ts"
        return int(admin.rows(f"SELECT sum(cityHash64(list, ts, newest)) AS it FROM ({newest})")[0]["it"])

    def shrunk(self, admin: ClickHouse, day: str) -> bool:
        """Whether the source has lost rows of the day, because of their age or for lack of disk. If so, the list, which
        is kept for ever, stays as it is.
        """
        if not any(_there(admin, table, day) for table in self.lists):
            return False
        if self.source == "hosts_daily":
            return not _there(admin, self.source, day)
        if admin.rows(f"SELECT 1 AS there FROM roll_ups FINAL WHERE {self._noted(day)} AND notEmpty(windows)"):
            missing = (
                f"SELECT 1 AS it FROM (SELECT windows.list AS list, windows.starts AS starts FROM roll_ups FINAL ARRAY JOIN windows"
                f" WHERE {self._noted(day)}) ARRAY JOIN starts AS start WHERE (list, start) NOT IN"
                f" (SELECT {_WINDOWS_OF}, toUnixTimestamp(ts) FROM {self.source} WHERE {_of_day(day)}) LIMIT 1"
            )
        else:  # A list that was written before windows were noted: it counts them.
            (written,) = self.lists
            missing = (
                f"SELECT 1 AS it FROM (SELECT scope, probe, customer, max(windows) AS listed FROM {written} WHERE day = '{day}'"
                " GROUP BY ALL) AS l LEFT JOIN (SELECT scope, probe, customer, uniqExact(ts, window_s) AS held"
                f" FROM {self.source} WHERE {_of_day(day)} GROUP BY ALL) AS h USING (scope, probe, customer)"
                " WHERE listed > held LIMIT 1"
            )
        return bool(admin.rows(missing))

    def begin(self, admin: ClickHouse, day: str) -> None:
        """Record that the lists of the day are being written, and from which windows: an interrupted day is written
        again, but never from fewer windows.
        """
        windows = "[]"
        if self.source != "hosts_daily":
            starts = f"SELECT {_WINDOWS_OF} AS list, arraySort(groupUniqArray(toUnixTimestamp(ts))) AS starts"
            windows = (
                "(SELECT arraySort(groupArray((list, starts))) FROM"
                f" ({starts} FROM {self.source} WHERE {_of_day(day)} GROUP BY list))"
            )
        admin.execute(
            "INSERT INTO roll_ups (day, source, fingerprint, rows, done_at, windows)"
            f" SELECT '{day}', '{self.source}', 0, 0, now64(3), {windows}"
        )

    def done(self, admin: ClickHouse, day: str, fingerprint: int, rows: int | None = None) -> None:
        """Record that the lists of the day are complete. rows: their number, by default the recorded one."""
        admin.execute(
            "INSERT INTO roll_ups (day, source, fingerprint, rows, done_at, windows)"
            f" SELECT day, source, {fingerprint}, {'rows' if rows is None else rows}, now64(3), windows FROM roll_ups FINAL WHERE {self._noted(day)}"
        )

    def _noted(self, day: str) -> str:
        return f"day = '{day}' AND source = '{self.source}'"


_ROLL_UPS = (
    _RollUp("hosts_daily", {"talkers_daily": _TALKERS_SQL, "national_talkers_daily": _NATIONAL_SQL}),
    _RollUp("mixes", {"mixes_daily": _MIXES_SQL}),
)


class ListsFailed(WeirError):
    """Daily lists that could not be written; the others were. causes: the errors, by day and source."""

    def __init__(self, causes: dict[tuple[date, str], WeirError]) -> None:
        ((day, source), first), others = next(iter(causes.items())), len(causes) - 1
        more = f", nor {others} others" if others else ""
        super().__init__(
            f"the lists of {day} from {source} could not be written{more}: {first}", hint=first.hint, status=1
        )
        self.causes = causes


def roll_up(
    admin: ClickHouse, day: date | None = None, now: float | None = None, *, all_now: bool = True
) -> Iterator[tuple[str, str, int]]:
    """Write the daily lists of every finished day that changed since they were written, or of one given day.

    Lists of hosts are made of daily rows, which are kept for ever, whether or not the day has raw records; windows are
    added up as long as all windows of a list exist. Yields the day, the table and the number of rows, as each is done.
    An interrupted day is not marked as done and is written again. A list whose source has lost rows of the day stays
    unchanged; if that day was requested, this raises WeirError. A list that cannot be written does not hold up the
    others: at the end, this raises ListsFailed.

    all_now: write the hourly rows, too, and raise HoursFailed at the end if some could not be; otherwise, days with records
    that are still missing from them wait.
    """
    moment = time.time() if now is None else now
    failed: dict[int, WeirError] = {}
    if all_now:
        for _ in hours.roll_up(admin, moment, day, all_now=True, failed=None if day else failed):
            pass
    due = [(day, one) for one in _ROLL_UPS] if day else _due(admin, moment)
    yield from _write_each(admin, due, requested=day is not None)
    if failed:
        raise hours.HoursFailed(failed)


def before_drop(admin: ClickHouse, table: str, begin: int, end: int) -> Iterator[tuple[str, str, int]]:
    """Write the lists that are due and have this table as their source, of days within this time: their windows are about to
    be dropped. Raises ListsFailed if some could not be written."""
    first, last = (datetime.fromtimestamp(at, UTC).date() for at in (begin, end - 1))
    due = _due(admin, None) if any(one.source == table for one in _ROLL_UPS) else []
    yield from _write_each(admin, [(when, one) for when, one in due if one.source == table and first <= when <= last])


def raw_dropped(admin: ClickHouse, day: date, raw_rows: int) -> None:
    """Note that a day's raw records, so many rows, were dropped: its lists are no more outdated than before."""
    name = day.isoformat()
    (hosts,) = [one for one in _ROLL_UPS if one.source == "hosts_daily"]
    if _noted(admin).get((name, hosts.source)) == hosts.fingerprint(admin, name, raw_rows):
        hosts.done(admin, name, hosts.fingerprint(admin, name, 0))


def _due(admin: ClickHouse, now: float | None) -> list[tuple[date, _RollUp]]:
    """Days before the present one (None: all) and their lists that changed since they were written."""
    waiting = {datetime.fromtimestamp(one.hour, UTC).date() for one in hours.changed(admin)}
    raw = {one.day: one for one in partitions(admin) if one.table == "flows"}
    noted = _noted(admin)
    rolled = {
        date.fromisoformat(row["day"]): row["rolled"]
        for row in admin.rows(
            f"SELECT toString(toDate(hour)) AS day, {_ROLLED} AS rolled FROM hours FINAL GROUP BY day"
        )
    }
    of_windows = raw.keys() | _days_of_windows(admin)
    due = []
    for when in sorted(rolled.keys() | of_windows):
        if now is not None and when >= datetime.fromtimestamp(now, UTC).date():
            continue
        raw_rows = raw[when].rows if when in raw else 0
        for one in _ROLL_UPS:
            was = noted.get((when.isoformat(), one.source))
            if one.source == "hosts_daily":
                changed = when in rolled and when not in waiting and was != (rolled[when] + raw_rows) % 2**64
            else:
                changed = when in of_windows and was != one.fingerprint(admin, when.isoformat(), raw_rows)
            if changed:
                due.append((when, one))
    return due


def _write_each(
    admin: ClickHouse, due: list[tuple[date, _RollUp]], *, requested: bool = False
) -> Iterator[tuple[str, str, int]]:
    """As `roll_up`. requested: raise WeirError if a list cannot be made again."""
    raw = {one.day: one.rows for one in partitions(admin) if one.table == "flows"}
    causes: dict[tuple[date, str], WeirError] = {}
    for when, one in due:
        name = when.isoformat()
        try:
            if one.shrunk(admin, name):
                if not requested:
                    continue
                lists = ", ".join(one.lists)
                raise WeirError(f"{one.source} no longer holds all of {name}: {lists} stays as it is", status=1)
            now_is = one.fingerprint(admin, name, raw.get(when, 0))
            one.begin(admin, name)
            written = {table: _write(admin, table, sql, name) for table, sql in one.lists.items()}
            one.done(admin, name, now_is, sum(written.values()))
        except WeirError as error:
            if not admin.ping():
                raise
            causes[when, one.source] = error
            continue
        yield from ((name, table, rows) for table, rows in written.items())
    if causes:
        raise ListsFailed(causes)


def _noted(admin: ClickHouse) -> dict[tuple[str, str], int]:
    """The fingerprint of each day's lists, by day and source."""
    rows = admin.rows("SELECT toString(day) AS day, source, fingerprint FROM roll_ups FINAL")
    return {(row["day"], row["source"]): row["fingerprint"] for row in rows}


def _days_of_windows(admin: ClickHouse) -> set[date]:
    """Days with windows that are not in any daily list yet. The engine skips granules of other days."""
    rows = admin.rows(
        "SELECT DISTINCT toString(toDate(ts)) AS day FROM mixes"
        " WHERE toDate(ts) NOT IN (SELECT day FROM roll_ups FINAL WHERE source = 'mixes' AND fingerprint != 0)"
    )
    return {date.fromisoformat(row["day"]) for row in rows}


def _there(admin: ClickHouse, table: str, day: str) -> bool:
    return bool(admin.rows(f"SELECT 1 AS there FROM {table} WHERE day = '{day}' LIMIT 1"))


def _write(admin: ClickHouse, table: str, statement: str, day: str) -> int:
    """Replace a day's list; returns its number of rows."""
    # The engine goes on with the statement of a process that was killed or lost patience, and would add its rows later.
    admin.execute(f"KILL QUERY WHERE startsWith(trimLeft(query), 'INSERT INTO {table} ') SYNC")
    if _there(admin, table, day):
        admin.execute(f"ALTER TABLE {table} DELETE WHERE day = '{day}'", mutations_sync="2")
    # The engine sorts days of many hosts on disk rather than refuse them.
    admin.execute(
        statement.format(table=table, day=day, of_day=_of_day(day), talkers=TALKERS, others=TALKERS // 10),
        max_bytes_before_external_group_by="500000000",
        max_bytes_before_external_sort="500000000",
    )
    return int(admin.rows(f"SELECT count() AS n FROM {table} WHERE day = '{day}'")[0]["n"])
