"""Points that a chart needs to draw a gap as one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import weir_points
from weir_points import COMING, MOST, grid

#: A full hour.
NOW = 497_222 * 3600


def test_a_gap_has_every_point() -> None:
    assert grid([NOW - 900, NOW - 600], 60, NOW, NOW)[:7] == [NOW - 960 + 60 * n for n in range(7)]


def test_the_axis_ends_with_the_range_and_never_beyond_now() -> None:
    for until in (NOW - 1200, NOW, NOW + 86_400):
        points = grid([NOW - 3600], 60, until, NOW)
        assert points[0] == NOW - 3660
        assert points[-1] == min(until, NOW) // 60 * 60 - 60
    assert grid([NOW - 120], 60, NOW, NOW) == [NOW - 180, NOW - 120], "newer ones may still come"
    late = NOW - COMING - 180
    assert grid([late], 60, NOW, NOW)[-1] > late


def test_there_are_bounds() -> None:
    assert grid([], 60, NOW, NOW) == []
    assert len(grid([0], 10, NOW, NOW)) == MOST + 1


@pytest.mark.parametrize(
    ("sql", "times", "hours", "length"),
    [
        ("SELECT {{ bucket_seconds(from_dttm, to_dttm, 300) }} AS bucket_s", [0, 300], 1, 300),
        ("SELECT {{ bucket_seconds(from_dttm, to_dttm) }} AS bucket_s", [0, 10], 0.5, 10),
        ("SELECT {{ bucket_seconds(from_dttm, to_dttm) }} AS bucket_s", [0, 30, 90], 0.5, 30),
        ("SELECT {{ bucket_seconds(from_dttm, to_dttm, 30) }} AS bucket_s", [0], 24, 600),
        ("SELECT ts FROM v_alerts", [0], 24, 0),
    ],
)
def test_points_last_as_long_as_the_dataset_makes_them(sql: str, times: list[int], hours: float, length: int) -> None:
    until = datetime.fromtimestamp(NOW, UTC)
    since = until - timedelta(hours=hours)
    assert weir_points.length_of(sql, times, since, until) == length
