"""Functions that the datasets' SQL calls. They receive the ends of the time range as ISO 8601 text, or None."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import weir_assets

# Whole minutes, hours and days divide evenly into the longer ones, and every interval of an agent up to 10 s into all.
_BUCKETS = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
SHORTEST = _BUCKETS[0]
_MOST_POINTS = 240
# An interval of 10 s, the 10 s of its publishing, a checkpoint, and some more.
SETTLED_SECONDS = 30


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None


def bucket_length(since: datetime | None, until: datetime | None, shortest: int = SHORTEST) -> int:
    """Seconds of one point of a time series, so that a range has at most 240; an hour if the range lacks an end."""
    wanted = (until - since).total_seconds() / _MOST_POINTS if since and until else 3600.0
    return next((bucket for bucket in _BUCKETS if bucket >= max(wanted, shortest)), _BUCKETS[-1])


def bucket_seconds(since_text: str | None, until_text: str | None, shortest: int = SHORTEST) -> str:
    """SQL for the length in seconds of one point of a time series, so that a range has at most 240 points.

    `shortest` is the window of the data. A `shortest` of 10 s becomes 30 s if a probe's own interval is longer than 10
    s. If the range lacks its beginning or its end, a point lasts an hour.
    """
    seconds = bucket_length(_moment(since_text), _moment(until_text), shortest)
    if seconds == SHORTEST:
        return f"if((SELECT max(interval_ms) FROM probes) > 10000, 30, {seconds})"
    return str(seconds)


def is_long(since_text: str | None, until_text: str | None) -> bool:
    """Whether the range is longer than a month: the dataset then reads days, not windows of five minutes."""
    since, until = _moment(since_text), _moment(until_text)
    return not since or not until or until - since > timedelta(days=31)


def counter_window(since_text: str | None, until_text: str | None) -> int:
    """Seconds of the windows in which counters are read: 30 for a range of an hour or less, else 300."""
    since, until = _moment(since_text), _moment(until_text)
    return 30 if since and until and until - since <= timedelta(hours=1) else 300


def since_sql(since_text: str | None) -> str:
    """SQL for the beginning of the time range: seconds from 1970."""
    since = _moment(since_text)
    return str(int(since.timestamp())) if since else "0"


def until_sql(until_text: str | None) -> str:
    """SQL for the end of the time range: seconds from 1970. Never newer than the arrived data, or curves end in a dip."""
    until = _moment(until_text)
    newest = f"toUnixTimestamp(now()) - {SETTLED_SECONDS}"
    return f"least({int(until.timestamp())}, {newest})" if until else newest


def point(column: str) -> str:
    """SQL for the start of the `bucket_s`-second point that contains the time `column`."""
    return f"toDateTime(intDiv(toUnixTimestamp({column}), bucket_s) * bucket_s, 'UTC')"


def within(column: str, since_text: str | None, until_text: str | None) -> str:
    """SQL for the condition that the time `column` is in the time range; two conditions, joined by AND."""
    return _between(column, since_text, until_sql(until_text))


def within_points(column: str, since_text: str | None, until_text: str | None) -> str:
    """The condition `within`, for a time series in points of `bucket_s` seconds: it leaves out an incomplete last point."""
    return _between(column, since_text, f"intDiv({until_sql(until_text)}, bucket_s) * bucket_s")


def _between(column: str, since_text: str | None, until: str) -> str:
    return f"{column} >= toDateTime({since_sql(since_text)}, 'UTC') AND {column} < toDateTime({until}, 'UTC')"


def last_second(until_text: str | None) -> str:
    """SQL for the last second of the time range. Rows without a time of their own get this time, so that they are in
    the range."""
    return f"toDateTime({until_sql(until_text)} - 1, 'UTC')"


def scope_of(filter_values: Callable[..., list[Any]]) -> str:
    """The lists to read: those of the chosen probes or customers, else those over all probes."""
    if filter_values("probe"):
        return "probe"
    return "customer" if filter_values("customer_name") else "all"


def counting(filter_values: Callable[..., list[Any]], alias: str) -> str:
    """SQL for the condition on rows of probes: each flow once, or all that each chosen probe saw."""
    return "1" if filter_values("probe") else f"{alias}.canonical"


def chosen(filter_values: Callable[..., list[Any]], column: str) -> str:
    """SQL for the first value chosen for a column, as text; empty if none is chosen."""
    first = str(next(iter(filter_values(column)), "")).strip()
    return "'" + first.replace("\\", "\\\\").replace("'", "\\'") + "'"


def chosen_host(filter_values: Callable[..., list[Any]]) -> str:
    """SQL for the chosen address; if none is chosen, for the busiest of the last hour."""
    if filter_values("host"):
        return chosen(filter_values, "host")
    return (
        "(SELECT b.host FROM v_top_talkers AS b WHERE b.scope = 'all' AND b.list IN ('host_in', 'host_out') "
        "AND b.ts >= now() - 3600 AND b.ts < now() GROUP BY b.host ORDER BY sum(b.octets) DESC LIMIT 1)"
    )


def host_link(host: str) -> str:
    """SQL for a link that opens the dashboard Investigate for the address that the SQL `host` gives."""
    before, between, after = weir_assets.address_with("investigate", "Address", "host")
    value = f"replaceAll({host}, ':', '%3A')"
    return f"concat('<a href=\"{before}', {value}, '{between}', {value}, '{after}\">', {host}, '</a>')"


#: The lists of flows, as a person chooses them; the lists are those of `v_top_flows`. The first is shown if none is chosen.
FLOW_LISTS = {
    "All, by bytes": "ip_octets",
    "All, by packets": "ip_packets",
    "TCP, by bytes": "tcp_octets",
    "TCP, by packets": "tcp_packets",
    "UDP, by bytes": "udp_octets",
    "UDP, by packets": "udp_packets",
    "ICMP, by bytes": "icmp_octets",
    "ICMP, by packets": "icmp_packets",
}


def flow_list(filter_values: Callable[..., list[Any]]) -> tuple[str, str]:
    """SQL for the name of the chosen list of flows in `v_top_flows`, and for the words that it is chosen by."""
    first = next(iter(FLOW_LISTS))
    words = next((one for one in filter_values("flow_list") if one in FLOW_LISTS), first)
    return f"'{FLOW_LISTS[words]}'", f"'{words}'"


def flow_lists() -> str:
    """SQL for the words by which lists of flows are chosen."""
    return str(list(FLOW_LISTS))


#: What each list of hosts finds, in words; the lists are those of `v_top_indicators`.
FINDINGS = {
    "syn_senders": "sends many SYNs",
    "scan_addresses_tcp": "reaches many addresses by TCP",
    "scan_addresses_udp": "reaches many addresses by UDP",
    "scan_addresses_icmp": "reaches many addresses by ICMP",
    "scan_ports_tcp": "reaches many TCP ports",
    "scan_ports_udp": "reaches many UDP ports",
    "scan_failures": "contacts that were not answered",
    "icmp_senders": "sends ICMP errors",
    "icmp_causers": "causes ICMP errors by UDP",
    "udp_work_weight": "UDP work weight",
    "udp_unanswered": "sends UDP that nobody answers",
}


def host_lists() -> str:
    """SQL for the names of all lists of hosts."""
    return str(list(FINDINGS))


def finding(name: str) -> str:
    """SQL for the description of the list whose name the SQL `name` gives; empty for other lists."""
    return f"transform({name}, {host_lists()}, {list(FINDINGS.values())}, '')"


#: The functions by the names that datasets call them by.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "bucket_seconds": bucket_seconds,
    "chosen": chosen,
    "chosen_host": chosen_host,
    "counter_window": counter_window,
    "counting": counting,
    "finding": finding,
    "flow_list": flow_list,
    "flow_lists": flow_lists,
    "host_link": host_link,
    "host_lists": host_lists,
    "is_long": is_long,
    "last_second": last_second,
    "point": point,
    "scope_of": scope_of,
    "since": since_sql,
    "until": until_sql,
    "within": within,
    "within_points": within_points,
}
