"""Conversion of times and days between the store's format and a readable one."""

from __future__ import annotations

from datetime import UTC, date, datetime

from weir.errors import WeirError

DAY_S = 86_400


def seconds(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


def iso(moment: float) -> str | None:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def parse_day(text: str) -> date:
    """`2026-11-20`. Raises WeirError."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise WeirError(f"'{text}' is not a day", hint="write it as 2026-11-20") from None
