"""Hourly rows of raw records, in SQL: which record of a flow counts if several probes saw it, and the rows that a range of
records adds to `flows_hourly`. The module returns text only; `weir storage` sends it.

In each window of 30 s one probe's records of a flow count, those that the view `v_observations` calls canonical. The other
probes' records are kept as duplicates, in rows of their own: a sum over one probe includes both.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The key of an hourly row.
KEY = (
    *("src_addr", "dst_addr", "protocol", "port", "ts", "probe", "folded", "record_kind", "src_prefix", "dst_prefix"),
    *("duplicate", "generation"),
)
#: Columns that are equal, or nearly so, in all rows of one key; the highest of several values counts.
SAME = (
    *("src_customer", "dst_customer", "src_as", "dst_as", "src_country", "dst_country", "site_direction"),
    *("nation_direction", "application_id"),
)
#: Columns that are added up.
SUMS = ("records", "flows", "fwd_packets", "fwd_octets", "rev_packets", "rev_octets", "fwd_tcp_syn", "rev_tcp_rst")
COLUMNS = ", ".join((*KEY, *SAME, *SUMS))

#: A value that all records of a flow in its window of 30 s share.
_FLOW = "weir_flow(ts, record_kind, protocol, src_addr, src_port, dst_addr, dst_port)"
#: The order of v_observations as one number; the lowest counts; its last 29 bits are the probe. `numbers` has the first
#: bit and the last 29 bits of each probe.
_PLACE = """transform(toString(probe), numbers.1, numbers.2, toUInt64(0)) + bitShiftLeft(toUInt64(greatest(sampling_rate, 1)), 31)
        + if(site_direction NOT IN ('out', 'internal'), 1073741824, 0) + if(site_direction NOT IN ('in', 'internal'), 536870912, 0)"""
_NUMBERS = """SELECT (
        arrayPushFront(groupArray(name), ''),
        arrayPushFront(arrayMap((one_way, place) -> bitShiftLeft(toUInt64(one_way), 63) + place, groupArray(one_way), arrayEnumerate(groupArray(name))), toUInt64(0)))
    FROM
    (
        SELECT toString(probe) AS name, dictGetOrDefault('probe_places', 'one_way', tuple(name), false) AS one_way FROM {}
        WHERE {} GROUP BY name
        ORDER BY dictGetOrDefault('probe_places', 'rank', tuple(name), toUInt32(100)), name
    )"""
_PROBE = 2**29 - 1
#: Records of one flow are in one part, and so are those of one hourly row: a /16 of IPv4 or a /48 whole.
_NETWORK = "IPv6CIDRToRange({0}, if({0} BETWEEN toIPv6('::ffff:0.0.0.0') AND toIPv6('::ffff:255.255.255.255'), toUInt8(112), toUInt8(48))).1"
_PART = f"toUInt32((cityHash64({_NETWORK.format('src_addr')}) + cityHash64({_NETWORK.format('dst_addr')})) % {{}})"
#: The columns of raw records that this reads.
_READ = ", ".join(
    (
        *("ts", "probe", "record_kind", "protocol", "ip_version", "service", "src_addr", "src_port", "dst_addr", "dst_port"),
        *("src_prefix", "dst_prefix", *SAME, "sampling_rate", "first_seen", "flow_start", *SUMS[2:]),
    )
)


_KEY_OF_RECORD = """f.src_addr AS src_addr, if(folded, weir_network(f.dst_addr, f.ip_version), f.dst_addr) AS dst_addr,
    f.protocol AS protocol, weir_kept_port(f.service, f.record_kind, f.protocol, f.dst_port) AS port, toStartOfHour(f.ts) AS ts,
    f.probe AS probe,
    weir_unanswered(f.record_kind, f.rev_packets, f.protocol, f.fwd_packets, f.fwd_tcp_syn, f.dst_port, f.probe) AS folded,
    f.record_kind AS record_kind, f.src_prefix AS src_prefix, f.dst_prefix AS dst_prefix"""
_SAME_OF_RECORD = ", ".join(f"max(f.{name}) AS {name}" for name in SAME)


_TOTALS = ", ".join(f"sum(w.{name}) AS {name}" for name in SUMS)
_SAME = ", ".join(f"max(w.{name}) AS {name}" for name in SAME)
_CHANGED = " OR ".join(f"{name} != 0" for name in SUMS)


def _negative(table: str) -> str:
    return ", ".join(f"toUInt64(negate({table}.{name})) AS {name}" for name in SUMS)


def _time(moment: int) -> str:
    return f"toDateTime({moment}, 'UTC')"


def _moment(milliseconds: int) -> str:
    return f"fromUnixTimestamp64Milli({milliseconds}, 'UTC')"


@dataclass(frozen=True)
class Rows:
    """Rows that a statement reads: a table and a condition."""

    table: str
    where: str


def came(begin: int, end: int, until: int = 2**41) -> Rows:
    """The raw records from `begin` to `end`, seconds, that arrived until the moment `until`, in milliseconds."""
    return Rows("flows", f"ts >= {_time(begin)} AND ts < {_time(end)} AND late_at <= {_moment(until)}")


def held(hour: int, generation: int) -> Rows:
    """The hourly rows of an hour."""
    return Rows("flows_hourly", f"ts = {_time(hour)} AND generation = {generation}")


def copies(raw: Rows, of_hour: Rows, parts: int) -> tuple[str, str]:
    """A SELECT of raw records and one of an hour's rows, each with the column `part`: from tables that hold them in
    this order, a statement reads only one part.
    """
    number = f"{_PART.format(parts)} AS part"
    return (
        f"SELECT {_READ}, {number} FROM {raw.table} WHERE {raw.where}",
        f"SELECT {COLUMNS}, {number} FROM {of_hour.table} WHERE {of_hour.where}",
    )


def rows(raw: Rows, generation: int = 0, *, join: bool = False) -> str:
    """A SELECT of the hourly rows (`COLUMNS`) of raw records; it needs all records that a flow has in a window of 30 s.

    join: more than one probe sees only one direction. If only such probes saw a flow, the direction that the best of them did not
    see counts from the best of those that saw it; the windows do the same.
    """
    source, where = raw.table, raw.where
    numbers = _NUMBERS.format(source, where)
    records = f"""(
    SELECT {_READ}, (src_addr, src_port) <= (dst_addr, dst_port) AS upwards,
        {_FLOW} AS flow,
        {_PLACE} AS place
    FROM {source} WHERE {where}
)"""
    one_each = f"""WITH ({numbers}) AS numbers
SELECT
    {_KEY_OF_RECORD},
    CAST(f.record_kind = 'flow' AND b.best != 0 AND bitAnd(b.best, {_PROBE}) != bitAnd(f.place, {_PROBE}), 'Bool') AS duplicate,
    toUInt16({generation}) AS generation, {_SAME_OF_RECORD},
    count() AS records, countIf(f.record_kind = 'flow' AND f.first_seen = f.flow_start) AS flows,
    sum(f.fwd_packets) AS fwd_packets, sum(f.fwd_octets) AS fwd_octets, sum(f.rev_packets) AS rev_packets,
    sum(f.rev_octets) AS rev_octets, sum(f.fwd_tcp_syn) AS fwd_tcp_syn, sum(f.rev_tcp_rst) AS rev_tcp_rst
FROM {records} AS f
GLOBAL ANY LEFT JOIN
(
    SELECT flow, min(place) AS best FROM {records} WHERE record_kind = 'flow'
    GROUP BY flow HAVING min(bitAnd(place, {_PROBE})) != max(bitAnd(place, {_PROBE}))
) AS b ON b.flow = f.flow
GROUP BY {", ".join(KEY)}"""
    if not join:
        return one_each
    # The other direction is taken from its duplicates and counted.
    taken = ", ".join(
        f"sumIf(f.{name}, {name[:3]}_counts) AS {name}_, if(duplicate, toUInt64(negate({name}_)), {name}_) AS {name}"
        for name in SUMS[2:]
    )
    joined = f"""WITH ({numbers}) AS numbers
SELECT
    {_KEY_OF_RECORD}, f.duplicate AS duplicate,
    toUInt16({generation}) AS generation, {_SAME_OF_RECORD}, toUInt64(0) AS records, toUInt64(0) AS flows, {taken}
FROM
(
    SELECT f.*, arrayJoin([false, true]) AS duplicate,
        if(f.upwards, o.up, o.down) = bitAnd(f.place, {_PROBE}) AND f.fwd_packets > 0 AS fwd_counts,
        if(f.upwards, o.down, o.up) = bitAnd(f.place, {_PROBE}) AND f.rev_packets > 0 AS rev_counts
    FROM {records} AS f
    GLOBAL INNER JOIN
    (
        SELECT flow, bitAnd(min(place), {_PROBE}) AS best,
            if(has(groupUniqArrayIf(bitAnd(place, {_PROBE}), sent > 0) AS of_up, best), 0, bitAnd(minIf(place, sent > 0), {_PROBE})) AS up,
            if(has(groupUniqArrayIf(bitAnd(place, {_PROBE}), got > 0) AS of_down, best), 0, bitAnd(minIf(place, got > 0), {_PROBE})) AS down
        FROM (SELECT flow, place, if(upwards, fwd_packets, rev_packets) AS sent, if(upwards, rev_packets, fwd_packets) AS got FROM {records} WHERE record_kind = 'flow')
        GROUP BY flow HAVING min(place) >= {2**63} AND up + down > 0
    ) AS o ON o.flow = f.flow
    WHERE f.record_kind = 'flow' AND (fwd_counts OR rev_counts)
) AS f
GROUP BY {", ".join(KEY)}"""
    return f"SELECT {COLUMNS} FROM ({one_each}) UNION ALL SELECT {COLUMNS} FROM ({joined})"


def correction(raw: Rows, of_hour: Rows, generation: int = 0, *, join: bool = False) -> str:
    """A SELECT of the rows (`COLUMNS`) that make an hour's rows those of its raw records: each sum is the difference.
    Differences below 0 wrap, as sums of 64 bits do, so that adding them up gives the sum.
    """
    # Also by the values that rows share: if one has changed, the difference is below 0 under the old value.
    groups = ", ".join((*KEY, *SAME))
    return f"""SELECT {groups}, {_TOTALS}
FROM
(
    SELECT {COLUMNS} FROM ({rows(raw, generation, join=join)})
    UNION ALL
    SELECT {groups}, {_negative("h")} FROM {of_hour.table} AS h WHERE {of_hour.where}
) AS w
GROUP BY {groups}
HAVING {_CHANGED}"""


def whole(hour: int) -> str:
    """A SELECT of the differences between the hourly rows of all raw records of an hour and those it has."""
    return correction(came(hour, hour + 3600), held(hour, 0))


# ---- late records ----


@dataclass(frozen=True)
class Late:
    """The late records of a time span: those that arrived after the rows of their minute were made, and until a
    moment."""

    begin: int  # seconds
    end: int
    taken: tuple[int, ...]  # for each minute of the hour, until when its records are in the rows, in milliseconds
    until: int  # milliseconds

    @property
    def came(self) -> Rows:
        """All records of the span, late ones too."""
        return came(self.begin, self.end, self.until)

    @property
    def condition(self) -> str:
        """Whether a record arrived after the rows of its minute were made."""
        since = min(moment for moment in self.taken if moment)
        return f"(late_at > {_moment(since)} AND toUnixTimestamp64Milli(late_at) > {list(self.taken)}[toMinute(ts) + 1])"


def late_minutes(late: Late) -> str:
    """A SELECT of the minutes of a span: how many records arrived, how many of these were late, and how many after
    `until`."""
    span = f"ts >= {_time(late.begin)} AND ts < {_time(late.end)}"
    came = f"late_at <= {_moment(late.until)}"
    return f"""SELECT toUnixTimestamp(minute) AS minute, sum(m.records) AS records, sum(m.late) AS late, sum(m.newer) AS newer
FROM
(
    SELECT a.ts AS minute, a.records AS records, 0 AS late, 0 AS newer FROM arrivals AS a WHERE {span}
    UNION ALL
    SELECT toStartOfMinute(f.ts) AS minute, 0 AS records, toUInt64({came}) AS late, toUInt64(NOT {came}) AS newer
    FROM flows AS f WHERE {span} AND {late.condition}
) AS m
GROUP BY minute ORDER BY minute"""


def with_late(late: Late) -> str:
    """A SELECT of the records of all flows to which late records belong, in the windows of these, with the column `late`. It
    reads the parts of `flows` where such records can be, by the table's order and its index of destinations.
    """
    where = late.came.where
    of_late = f"FROM flows WHERE {where} AND {late.condition}"
    ends = "[(dst_port, dst_addr), (src_port, src_addr)]"
    return f"""SELECT {_READ}, {late.condition} AS late FROM flows
WHERE {where}
    AND (toStartOfFiveMinutes(ts), protocol, dst_port) GLOBAL IN (SELECT toStartOfFiveMinutes(ts), protocol, arrayJoin({ends}).1 {of_late})
    AND dst_addr GLOBAL IN (SELECT arrayJoin({ends}).2 {of_late})
    AND {_FLOW} GLOBAL IN (SELECT {_FLOW} {of_late})"""


def additions(table: str, generation: int = 0, *, join: bool = False) -> str:
    """A SELECT of the changes by late records, from a table of `with_late`: the rows of these flows less their rows without
    the late records. One row per key.
    """
    keys = ", ".join(KEY)
    return f"""SELECT {keys}, {_SAME}, {_TOTALS}
FROM
(
    SELECT {COLUMNS} FROM ({rows(Rows(table, "true"), generation, join=join)})
    UNION ALL
    SELECT {", ".join((*KEY, *SAME))}, {_negative("h")} FROM ({rows(Rows(table, "NOT late"), generation, join=join)}) AS h
) AS w
GROUP BY {keys}
HAVING {_CHANGED}"""


#: Whether an addition takes something away.
LESS = " OR ".join(f"toInt64({name}) < 0" for name in SUMS)


def relabelled(table: str, of_hour: Rows) -> str:
    """A SELECT of the rows of a table of `additions`. Rows that subtract from a key are combined with the hour's rows
    of that key, which could otherwise fall below zero under another customer, AS or application.
    """
    keys, groups = ", ".join(KEY), ", ".join((*KEY, *SAME))
    less = f"(SELECT {keys} FROM {table} WHERE {LESS})"
    # Addresses first, because the table is ordered by them.
    own = (
        f"SELECT {COLUMNS} FROM {of_hour.table} WHERE {of_hour.where}"
        f" AND (src_addr, dst_addr) GLOBAL IN (SELECT src_addr, dst_addr FROM {table} WHERE {LESS}) AND ({keys}) GLOBAL IN {less}"
    )
    return f"""SELECT {COLUMNS} FROM {table} WHERE ({keys}) NOT IN {less}
UNION ALL
SELECT {groups}, {_TOTALS}
FROM
(
    SELECT {keys}, {_SAME}, {_TOTALS} FROM ({own} UNION ALL SELECT {COLUMNS} FROM {table} WHERE ({keys}) IN {less}) AS w GROUP BY {keys}
    UNION ALL
    SELECT {groups}, {_negative("h")} FROM ({own}) AS h
) AS w
GROUP BY {groups}
HAVING {_CHANGED}"""
