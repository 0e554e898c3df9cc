"""Queries: SQL, the ledger, alerts."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from weir import alerts as alerts_of
from weir import ledger as ledgers
from weir import nat as nats
from weir.clickhouse import connect
from weir.commands import configured, console
from weir.errors import WeirError, nearest


def sql(
    query: Annotated[str, typer.Argument(help="One SQL statement; - reads it from standard input.")],
    output: Annotated[
        str | None,
        typer.Option("--format", "-f", help="A ClickHouse format: CSVWithNames, JSONEachRow, Vertical, …"),
    ] = None,
    user: Annotated[str, typer.Option(help="Query as this user.")] = "analyst",
) -> None:
    """Query ClickHouse. Prints a table on a terminal and tab-separated text elsewhere.

    Example: weir sql "SELECT src, sum(octets) AS o FROM v_flows GROUP BY src ORDER BY o DESC LIMIT 10"
    """
    text = sys.stdin.read() if query == "-" else query
    form = output or ("PrettyCompactMonoBlock" if sys.stdout.isatty() else "TabSeparatedWithNames")
    for chunk in connect(configured(), user).stream(text, default_format=form):
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def ledger(
    since: Annotated[str, typer.Option(help="How far back: 90s, 10min, 1h, 2d.")] = "10min",
    until: Annotated[
        str,
        typer.Option(help="Leave out intervals more recent than this; their records are still in transit."),
    ] = "20s",
    probe: Annotated[str | None, typer.Option(help="One probe alone.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: the rows, the sums, the findings.")] = False,
    limit: Annotated[int, typer.Option(help="Rows to print.")] = 20,
) -> None:
    """Account for every packet, interval by interval. The exit status is 1 if anything is missing.

    Example: weir ledger --since 1h --probe border
    """
    store = connect(configured(), "analyst")
    rows = ledgers.read(store, ledgers.condition(since, probe, until))
    if probe and not rows and probe not in (known := ledgers.probes(store)):
        raise WeirError(f"no probe is named '{probe}'", hint=nearest(probe, known))
    stale = ledgers.staleness(store)
    if as_json:
        found = [*ledgers.findings(rows), *([stale] if stale else [])]
        shown = {"rows": rows, "sums": ledgers.totals(rows), "findings": [vars(one) for one in found]}
        print(json.dumps(shown, indent=2))
        raise typer.Exit(1 if any(one.loss for one in found) else 0)
    sound = ledgers.show(console, rows, limit=limit)
    if stale:
        console.print(f"{stale.probe}: {stale.text}", style="red", highlight=False)
    raise typer.Exit(0 if sound and not stale else 1)


def alerts(
    only_open: Annotated[bool, typer.Option("--open", help="Leave out closed alerts.")] = False,
    since: Annotated[str, typer.Option(help="Show alerts closed within this time: 90s, 10min, 1h, 2d.")] = "1h",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show alerts on probes, open ones first. The exit status is 1 if a critical alert is open, or if the jobs do not
    report.

    Example: weir alerts --since 1d
    """
    store = connect(configured(), "analyst")
    rows = alerts_of.read(store, since=None if only_open else since)
    # While the jobs are down nobody opens alerts.
    stale = ledgers.staleness(store)
    if as_json:
        print(json.dumps({"alerts": rows, "stale": stale.text if stale else None}, indent=2))
    else:
        alerts_of.show(console, rows)
        if stale:
            console.print(f"alerts may be old: {stale.text}", style="red", highlight=False)
    raise typer.Exit(1 if stale or alerts_of.counts(rows)["critical"] else 0)


def nat(
    who: Annotated[str, typer.Argument(metavar="ADDRESS:PORT", help="The address and port that others saw.")],
    at: Annotated[str, typer.Option(metavar="TIME", help="The moment, ISO 8601, UTC: 2026-11-22T18:30:05Z.")],
    protocol: Annotated[str | None, typer.Option(help="tcp, udp, icmp, sctp or a number.")] = None,
    to: Annotated[str | None, typer.Option(metavar="ADDRESS", help="The destination that saw the address.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find who had an address and port at a given time, from the reports of translators (NAT) and firewalls.

    If a translator maps the address and port inwards, the answer is the server behind it. Prints one answer or "not
    known", with the reports before and after that time. The exit status is 1 if the answer is not known.

    Example: weir nat 192.0.2.7:4711 --at 2026-11-22T18:30:05Z --protocol tcp
    """
    address, port = nats.who(who)
    wanted = nats.Who(address, port, nats.protocol(protocol), nats.who(to)[0] if to else None)
    moment = nats.moment(at)
    answer = nats.ask(connect(configured(), "analyst"), wanted, moment)
    if as_json:
        print(json.dumps(answer.json(), indent=2))
    else:
        nats.show(console, wanted, moment, answer)
    raise typer.Exit(0 if answer.known else 1)
