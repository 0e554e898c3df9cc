"""Points of a time series in which nothing was reported: a chart draws a gap there, not a line from one side to the other."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime
from typing import Any

import weir_templates

#: The newest points may come this many seconds after their end: until then, nothing is missing.
COMING = 150
#: Points of a chart: a range without an end has no more.
MOST = 1000
_BUCKETS = re.compile(r"bucket_seconds\([^)]*?(?:,\s*(\d+))?\s*\)")


def grid(times: list[int], length: int, until: int, now: int) -> list[int]:
    """The starts of all points of a series, whose own are `times`, and which last `length` seconds; all in seconds from 1970.

    They begin one before the first that is there, so that a single one does not make an axis of two days, and end with the last
    complete one of the range; if the last that is there is new, with that.
    """
    if not times:
        return []
    first, last = min(times) - length, max(times)
    end = min(until, now) // length * length - length
    if end - last > COMING + length:
        last = end
    return [*range(first, min(last, first + MOST * length) + 1, length)]


def length_of(sql: str, times: list[int], since: datetime | None, until: datetime | None) -> int:
    """Seconds that a point of a dataset lasts, whose SQL this is; 0 if it makes none."""
    found = _BUCKETS.search(sql)
    if not found:
        return 0
    shortest = int(found[1] or weir_templates.SHORTEST)
    length = weir_templates.bucket_length(since, until, shortest)
    ordered = sorted(times)
    steps = [later - earlier for earlier, later in itertools.pairwise(ordered) if later > earlier]
    # The probes' own interval may be longer than the shortest point.
    return 30 if length == weir_templates.SHORTEST and steps and min(steps) >= 30 else length


def mend() -> None:
    """Make Superset add the missing points to what a time chart gets."""
    from superset.common.query_object import QueryObject

    plain = QueryObject.exec_post_processing

    def with_gaps(query: Any, frame: Any) -> Any:
        return _with_gaps(query, plain(query, frame))

    QueryObject.exec_post_processing = with_gaps


def _with_gaps(query: Any, frame: Any) -> Any:
    import pandas  # type: ignore[import-untyped]

    sql = getattr(query.datasource, "sql", None)
    if not sql or "time" not in frame.columns or not query.post_processing or not frame["time"].is_unique:
        return frame
    times = [int(moment.timestamp()) for moment in frame["time"].dt.tz_localize("UTC")]
    length = length_of(sql, times, query.from_dttm, query.to_dttm)
    if not length or any(moment % length for moment in times):
        return frame
    until = query.to_dttm.replace(tzinfo=UTC).timestamp() if query.to_dttm else datetime.now(UTC).timestamp()
    points = grid(times, length, int(until), int(datetime.now(UTC).timestamp()))
    whole = pandas.to_datetime([*points], unit="s")
    return frame.set_index("time").reindex(whole).rename_axis("time").reset_index()
