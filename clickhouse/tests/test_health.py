"""The views of counters' means, of the baseline, and of alerts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from conftest import Server


def _mean(server: Server, weir: str, ts: datetime, label: str, rate: float, *, version: int = 1, seen: int = 30) -> None:
    server.sql(
        f"INSERT INTO {weir}.counter_means (ts, window_s, scope, probe, counter_set, label, version, packets, octets,"
        " packets_per_second, octets_per_second, intervals_seen, intervals_expected, probes_reported, probes_expected)"
        f" VALUES ('{ts:%F %T}', 300, 'probe', 'p', 'web', '{label}', {version}, {rate * 300}, {rate * 30000},"
        f" {rate}, {rate * 100}, {seen}, 30, 1, 1)"
    )


def test_means_show_the_newest_version_and_the_gap(server: Server, weir: str) -> None:
    ts = datetime(2026, 11, 20, 10, tzinfo=UTC)
    _mean(server, weir, ts, "in", 1, seen=15)
    columns = "window, version, packets, octets_per_second, coverage"
    assert server.sql(f"SELECT {columns} FROM {weir}.v_counter_means") == "5 min\t1\t300\t100\t0.5"
    _mean(server, weir, ts, "in", 2, version=2)
    assert server.sql(f"SELECT {columns} FROM {weir}.v_counter_means") == "5 min\t2\t600\t200\t1"


def test_the_baseline_is_of_the_same_hour_and_counts_what_is_absent_as_0(server: Server, weir: str) -> None:
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    for weeks, rate in ((1, 10.0), (2, 20.0), (3, 90.0)):
        _mean(server, weir, hour - timedelta(weeks=weeks), "in", rate)
    _mean(server, weir, hour - timedelta(weeks=1), "out", 5)
    # Too long ago, too few of its rows, and another hour.
    _mean(server, weir, hour - timedelta(weeks=5), "in", 1000)
    _mean(server, weir, hour - timedelta(weeks=1) + timedelta(minutes=5), "in", 1000, seen=14)
    _mean(server, weir, hour - timedelta(weeks=1, hours=-1), "in", 1000)
    rows = server.sql(
        "SELECT label, windows, packets_per_second, packets_per_second_mad, octets_per_second, octets_per_second_mad"
        f" FROM {weir}.v_baseline WHERE hour = {hour.hour} AND probe = 'p' AND counter_set = 'web' ORDER BY label"
    )
    assert rows == "in\t3\t20\t10\t2000\t1000\nout\t3\t0\t0\t0\t0"


def test_weekends_have_a_baseline_of_their_own(server: Server, weir: str) -> None:
    monday = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    monday -= timedelta(days=7 + monday.weekday())
    for day in range(7):
        _mean(server, weir, monday + timedelta(days=day), "in", 1.0 if day < 5 else 100.0)
    rows = server.sql(f"SELECT weekend, hour, windows, packets_per_second FROM {weir}.v_baseline ORDER BY weekend")
    assert rows == "false\t12\t5\t1\ntrue\t12\t2\t100"


def _alert(server: Server, weir: str, name: str, opened: str, table: str = "alerts", **changes: object) -> None:
    row: dict[str, object] = {
        "ts": f"'{opened}'",
        "id": f"'{name}'",
        "reason": "'probe_silent'",
        "probe": "'p'",
        "severity": "'warning'",
        "opened_at": f"'{opened}.250'",
        "updated_at": f"'{opened}.250'",
        "text": "'Probe p has sent nothing for 60 s.'",
        "values": "map('silent_ms', 60000)",
        "version": 1,
    } | changes
    server.sql(f"INSERT INTO {weir}.{table} ({', '.join(row)}) VALUES ({', '.join(str(v) for v in row.values())})")


def test_an_alert_says_whether_the_jobs_or_an_agent_raised_it(server: Server, weir: str) -> None:
    opened = "2026-11-20 10:00:00"
    _alert(server, weir, "a", opened, reason="'checkpoints_failing'")
    _alert(server, weir, "p:a", opened, "agent_alerts", reason="'checkpoints_failing'")
    rows = server.sql(f"SELECT id, origin FROM {weir}.v_alerts WHERE reason = 'checkpoints_failing' ORDER BY id")
    assert rows == "a\tjobs\np:a\tagent"


def test_open_alerts_come_first_and_the_newest_version_holds(server: Server, weir: str) -> None:
    _alert(server, weir, "a", "2026-11-20 10:00:00")
    _alert(server, weir, "b", "2026-11-20 10:01:00", severity="'critical'")
    _alert(server, weir, "c", "2026-11-20 10:02:00")
    _alert(server, weir, "c", "2026-11-20 10:02:00", version=2, closed_at="'2026-11-20 10:03:00.250'", text="'Over.'")
    rows = server.sql(f"SELECT id, open, severity, closed_at, version, text = 'Over.' FROM {weir}.v_alerts")
    assert rows == ("b\ttrue\tcritical\t\\N\t1\t0\na\ttrue\twarning\t\\N\t1\t0\nc\tfalse\twarning\t2026-11-20 10:03:00.250\t2\t1")
    assert server.sql(f"SELECT lasted_s, values['silent_ms'] FROM {weir}.v_alerts WHERE NOT open") == "60\t60000"
    assert server.sql(f"SELECT min(lasted_s) > 0 FROM {weir}.v_alerts WHERE open") == "1"
