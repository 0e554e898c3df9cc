"""`weir storage`: size and retention of the store."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from typing import Annotated

import typer

from weir import sizing
from weir.clickhouse import connect
from weir.commands import configured, console
from weir.storage import forecast, hours, rollup, service, times


def show(context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show each tier's size, its growth per day, and the day on which the budget is spent.

    Example: weir storage --json
    """
    if context.invoked_subcommand is None:
        stack = configured()
        seen = forecast.survey(stack, connect(stack, "admin"))
        if as_json:
            print(json.dumps(seen.as_json(), indent=2))
        else:
            seen.show(console)


def keep(
    every: Annotated[float, typer.Option(min=0, help="Keep running, and repeat after this many minutes.")] = 0,
    trust_clock: Annotated[
        bool,
        typer.Option("--trust-clock", help="Drop what is too old even if the clock is days ahead of the last round."),
    ] = False,
) -> None:
    """Write hourly rows and daily lists. Make room: drop partitions that exceed their tier's age and, if the budget is
    spent, partitions of tiers that exceed their share.

    `weir up` runs it as a service (storage.every_minutes).

    Example: weir storage keep
    """
    stack = configured()
    if every:
        service.serve(stack, every)
        return
    _print_each(
        service.keep(stack, connect(stack, "admin"), trust_clock=trust_clock),
        "nothing to do: everything fits, and every day has its lists",
    )


def roll_up(
    day: Annotated[
        str | None, typer.Option(help="Only this day, such as 2026-11-20; otherwise every day that changed.")
    ] = None,
) -> None:
    """Write the hourly rows of all that is stored, and the daily lists (talkers_daily, mixes_daily) of finished days.
    The service does this by itself when late records arrive.

    Example: weir storage roll-up --day 2026-11-20
    """
    stack = configured()
    wanted, admin = times.parse_day(day) if day else None, connect(stack, "admin")
    # The daily lists retry the hours that failed, and raise.
    hourly = hours.roll_up(admin, day=wanted, all_now=True, failed={})
    daily = rollup.roll_up(admin, wanted)
    with service.alone(stack):
        _print_each(
            chain(
                (f"{hour} flows_hourly: {n:,} records" for hour, n in hourly),
                (f"{when} {table}: {rows:,} rows" for when, table, rows in daily),
            ),
            "nothing has changed",
        )


def write_hours() -> None:
    """Write the hourly rows of all records that are stored by now. The service does this every minute; on a cluster,
    run it from a timer.

    Example: weir storage hours
    """
    stack = configured()
    with service.alone(stack):
        written = hours.roll_up(connect(stack, "admin"))
        _print_each((f"{hour}: {n:,} records" for hour, n in written), "nothing has changed")


def plan(
    flows_per_second: Annotated[float, typer.Option(help="New flows per second, averaged over a day.")],
    probes: Annotated[int, typer.Option(min=1, help="Number of probes.")] = 1,
    raw_days: Annotated[
        float | None, typer.Option(help="Retention of raw records; by default, storage.raw_days of the configuration.")
    ] = None,
    hourly_years: Annotated[
        float | None,
        typer.Option(help="Retention of hourly records; by default, storage.hourly_days of the configuration."),
    ] = None,
    daily_years: Annotated[
        float, typer.Option(help="Time span for the estimate of daily rows, which are never dropped.")
    ] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Estimate rows, disk and machines of a planned store, from measurements.

    Example: weir storage plan --flows-per-second 2000 --raw-days 14 --hourly-years 3
    """
    kept = configured().config.storage
    raw_days = kept.raw_days if raw_days is None else raw_days
    hourly_years = kept.hourly_days / 365 if hourly_years is None else hourly_years
    plan = sizing.Plan(flows_per_second, probes, raw_days, hourly_years, daily_years)
    if as_json:
        print(json.dumps(plan.as_json(), indent=2))
    else:
        plan.show(console)


def _print_each(lines: Iterable[str], otherwise: str) -> None:
    """Print each line as it comes, or `otherwise` if none does."""
    line = None
    for line in lines:
        print(line)
    if line is None:
        print(otherwise)
