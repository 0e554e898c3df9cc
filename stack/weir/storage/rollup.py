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
        row_number() OVER ({partition} ORDER BY listed DESC, octets_place) AS place
    FROM
    (
        SELECT *, addr = toIPv6('::') AS nobody,
            row_number() OVER ({partition} ORDER BY addr = toIPv6('::'), so + ro DESC, addr, network) AS octets_place,
            row_number() OVER ({partition} ORDER BY addr = toIPv6('::'), sp + rp DESC, addr, network) AS packets_place,
            row_number() OVER ({partition} ORDER BY addr = toIPv6('::'), begun + received DESC, addr, network) AS flows_place
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


#: A number for all windows of one list: of one length, and of one probe, customer or all.
_WINDOWS_OF = "cityHash64(scope, probe, customer, window_s)"


@dataclass(frozen=True)
class _RollUp:
    """Daily lists: the source, the target and the statement of each."""

    source: str
    lists: dict[str, str]

    def fingerprint(self, admin: ClickHouse, day: str, raw_rows: int) -> int:
        """A value that changes whenever the source of that day changes: hours rolled up, raw records removed, windows
        written again."""
        if self.source == "hosts_daily":
            rolled = f"SELECT sum(cityHash64(hour, until, records, generation)) AS it FROM hours FINAL WHERE toDate(hour) = '{day}'"
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

    def done(self, admin: ClickHouse, day: str, fingerprint: int, rows: int) -> None:
        """Record that the lists of the day are complete."""
        admin.execute(
            "INSERT INTO roll_ups (day, source, fingerprint, rows, done_at, windows)"
            f" SELECT day, source, {fingerprint}, {rows}, now64(3), windows FROM roll_ups FINAL WHERE {self._noted(day)}"
        )

    def _noted(self, day: str) -> str:
        return f"day = '{day}' AND source = '{self.source}'"


_ROLL_UPS = (
    _RollUp("hosts_daily", {"talkers_daily": _TALKERS_SQL, "national_talkers_daily": _NATIONAL_SQL}),
    _RollUp("mixes", {"mixes_daily": _MIXES_SQL}),
)


def roll_up(
    admin: ClickHouse, day: date | None = None, now: float | None = None, *, all_now: bool = True
) -> Iterator[tuple[str, str, int]]:
    """Write the daily lists of every finished day that changed since they were written, or of one given day.

    A day can change as long as its raw records exist, in one partition per day. Windows without raw records are
    added up once. Yields the day, the table and the number of rows, as each is done. An interrupted day is not marked
    as done and is written again. A list whose source has lost rows of the day stays unchanged; if that day was
    requested, this raises WeirError.

    all_now: write the hourly rows, too, and raise HoursFailed at the end if some could not be; otherwise, days with records
    that are still missing from them wait.
    """
    moment = time.time() if now is None else now
    today = datetime.fromtimestamp(moment, UTC).date()
    failed: dict[int, WeirError] = {}
    if all_now:
        for _ in hours.roll_up(admin, moment, day, all_now=True, failed=None if day else failed):
            pass
    waiting = {datetime.fromtimestamp(one.hour, UTC).date() for one in hours.changed(admin)}
    raw = {one.day: one for one in partitions(admin) if one.table == "flows"}
    noted = {
        (row["day"], row["source"]): row["fingerprint"]
        for row in admin.rows("SELECT toString(day) AS day, source, fingerprint FROM roll_ups FINAL")
    }
    days = {day} if day else raw.keys() | _days_of_windows(admin)
    for when, one in ((when, one) for when in sorted(days) for one in _ROLL_UPS):
        name, of_day = when.isoformat(), raw.get(when)
        now_is = one.fingerprint(admin, name, of_day.rows if of_day else 0)
        if day is None and (when >= today or noted.get((name, one.source)) == now_is):
            continue
        if day is None and one.source == "hosts_daily" and (of_day is None or when in waiting):
            continue
        if one.shrunk(admin, name):
            if day is None:
                continue
            lists = ", ".join(one.lists)
            raise WeirError(f"{one.source} no longer holds all of {name}: {lists} stays as it is", status=1)
        one.begin(admin, name)
        written = {table: _write(admin, table, sql, name) for table, sql in one.lists.items()}
        one.done(admin, name, now_is, sum(written.values()))
        yield from ((name, table, rows) for table, rows in written.items())
    if failed:
        raise hours.HoursFailed(failed)


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
    if _there(admin, table, day):
        admin.execute(f"ALTER TABLE {table} DELETE WHERE day = '{day}'", mutations_sync="2")
    # The engine sorts days of many hosts on disk rather than refuse them.
    admin.execute(
        statement.format(table=table, day=day, of_day=_of_day(day), talkers=TALKERS, others=TALKERS // 10),
        max_bytes_before_external_group_by="500000000",
        max_bytes_before_external_sort="500000000",
    )
    return int(admin.rows(f"SELECT count() AS n FROM {table} WHERE day = '{day}'")[0]["n"])
