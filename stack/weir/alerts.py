"""Alerts on probes: the queries, and the printed table."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from weir.clickhouse import ClickHouse
from weir.ledger import interval
from weir.terminal import escaped

_FIELDS = """
    id, open, origin, toString(severity) AS severity, reason, probe, subject,
    formatDateTime(opened_at, '%Y-%m-%dT%H:%i:%SZ') AS opened,
    if(open, '', formatDateTime(assumeNotNull(closed_at), '%Y-%m-%dT%H:%i:%SZ')) AS closed,
    lasted_s, text, values, version
"""

SEVERITIES = ("critical", "warning", "info")


def read(clickhouse: ClickHouse, *, since: str | None) -> list[dict[str, Any]]:
    """Open alerts, most severe first, then those closed within `since` (such as `1h`), newest first; None for open ones
    only.
    """
    closed = f" OR closed_at >= now() - {interval(since)}" if since else ""
    return clickhouse.rows(
        f"SELECT {_FIELDS} FROM v_alerts WHERE open{closed} ORDER BY open DESC, v_alerts.severity DESC, opened_at DESC"
    )


def close(admin: ClickHouse, probe: str) -> None:
    """Close the open alerts of a probe that is removed, its agent's and the jobs' about it. The jobs close those on
    `weir.alerts` within about an hour.
    """
    fields = "ts, id, reason, probe, subject, severity, opened_at"
    for table in ("alerts", "agent_alerts"):
        admin.execute(
            f"INSERT INTO {table} ({fields}, updated_at, closed_at, text, values, version)"
            f" SELECT {fields}, now64(3), now64(3), concat('Over, as the probe was removed: ', text), values, version + 1"
            f" FROM {table} FINAL WHERE probe = '{probe}' AND toUnixTimestamp64Milli(closed_at) = 0"
        )


def counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Number of open alerts by severity."""
    return {severity: sum(row["open"] and row["severity"] == severity for row in rows) for severity in SEVERITIES}


def summary(opened: dict[str, int]) -> str:
    """One line that counts the open alerts."""
    words = [f"{count} {severity}" for severity, count in opened.items() if count]
    return f"alerts open: {', '.join(words)} ('weir alerts')" if words else "alerts open: none"


def show(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print alerts as a table."""
    if not rows:
        console.print("No alerts.", style="green")
        return
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("severity", "opened (UTC)", "lasts", "reason", "probe"):
        table.add_column(name, no_wrap=True)
    table.add_column("what", overflow="fold")
    styles = {"critical": "red", "warning": "yellow"}
    for row in rows:
        minutes, seconds = divmod(row["lasted_s"], 60)
        lasts = f"{minutes:,}m{seconds:02}s" + ("" if row["open"] else ", over")
        style = styles.get(row["severity"], "") if row["open"] else "dim"
        where = f"{row['probe']} {row['subject']}".strip()
        said = f"{row['text']} (says its agent)" if row["origin"] == "agent" else row["text"]
        table.add_row(
            row["severity"], row["opened"], lasts, escaped(row["reason"]), escaped(where), escaped(said), style=style
        )
    console.print(table)
