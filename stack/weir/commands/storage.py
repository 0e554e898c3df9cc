"""`weir storage`: what the store holds, and for how long."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from weir import sizing, storage
from weir.clickhouse import connect
from weir.commands import configured, console


def show(context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show what each tier of the store takes, what a day adds, and the day on which the budget is spent.

    Example: weir storage --json
    """
    if context.invoked_subcommand is None:
        stack = configured()
        seen = storage.survey(stack, connect(stack, "admin"))
        if as_json:
            print(json.dumps(seen.as_json(), indent=2))
        else:
            seen.show(console)


def keep(
    every: Annotated[float, typer.Option(min=0, help="Stay, and do it again each so many minutes.")] = 0,
) -> None:
    """Make room: drop what is older than its tier is kept, and the oldest where the budget is spent; roll days up.

    `weir up` runs it as a service (storage.every_minutes).

    Example: weir storage keep
    """
    stack = configured()
    if every:
        storage.serve(stack, every)
        return
    done = 0
    for line in storage.keep(stack, connect(stack, "admin")):
        print(line)
        done += 1
    if not done:
        print("nothing to do: all fits, and every day is rolled up")


def roll_up(
    day: Annotated[str | None, typer.Option(help="This day anew, such as 2026-11-20; else all that changed.")] = None,
) -> None:
    """Write the daily lists (talkers_daily, mixes_daily) of days that are over. The service does it by itself.

    Example: weir storage roll-up --day 2026-11-20
    """
    stack = configured()
    with storage.alone(stack):
        done = list(storage.roll_up(connect(stack, "admin"), storage.parse_day(day) if day else None))
    print("\n".join(f"{when} {table}: {rows:,} rows" for when, table, rows in done) or "nothing has changed")


def plan(
    flows_per_second: Annotated[float, typer.Option(help="Flows that begin in a second, on the average over a day.")],
    probes: Annotated[int, typer.Option(min=1, help="Probes that they come from.")] = 1,
    raw_days: Annotated[float, typer.Option(help="How long raw records are kept.")] = 7,
    hourly_years: Annotated[float, typer.Option(help="How long hourly records are kept.")] = 2,
    daily_years: Annotated[
        float, typer.Option(help="For how long daily rows, which are never dropped, are reckoned.")
    ] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Reckon rows, disk and machines before there is a store, from what was measured.

    Example: weir storage plan --flows-per-second 2000 --raw-days 14 --hourly-years 3
    """
    plan = sizing.Plan(flows_per_second, probes, raw_days, hourly_years, daily_years)
    if as_json:
        print(json.dumps(plan.as_json(), indent=2))
    else:
        plan.show(console)
