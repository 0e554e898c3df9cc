"""`weir audit`: who asked what, and whether the record of it is whole."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from weir import audit, audit_log, forget
from weir.commands import configured, console
from weir.errors import WeirError


def show(
    since: Annotated[str, typer.Option(help="Within this time: 90s, 10min, 1h, 2d.")] = "1d",
    user: Annotated[
        str | None, typer.Option(help="Of this user of the store, or this person on the dashboards.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Statements that name it, or a prefix that overlaps it.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="The newest entries to show.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line per entry, with all fields.")] = False,
) -> None:
    """Show who asked what, from where, and how many rows came back: the newest last.

    Example: weir audit show --since 7d --address 192.0.2.7
    """
    wanted = audit_log.Wanted(audit_log.ago(since), user, forget.network(address) if address else None)
    lines = audit_log.read(configured(), wanted, limit)
    if as_json:
        for one in lines:
            print(json.dumps(one.as_json()))
    elif lines:
        console.print(audit_log.table(lines), highlight=False)
    else:
        console.print("No entry.")
    if not as_json and (further := audit_log.possible(configured(), wanted)):
        console.print(
            f"{further:,} further entries name more addresses than they list, and may name {address}, too.",
            highlight=False,
        )


def verify(
    accept: Annotated[
        str | None,
        typer.Option(
            metavar="REASON", help="Keep what is broken on record, with this reason, and verify from behind it on."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check that no entry of the audit was changed, removed or moved, and that its end is not cut off. The exit status is 1 if
    it is broken.

    Example: weir audit verify
    """
    stack = configured()
    if accept is not None:
        if not accept.strip():
            raise WeirError("a reason must say why a broken audit is accepted")
        broken = audit.accept(stack, accept.strip())
        console.print(f"{len(broken):,} breaks are accepted and stay on record.", highlight=False)
        return
    found, heads = audit.verify(stack)
    if as_json:
        first, last = found.first.number if found.first else 0, found.last.place.number if found.last else 0
        counted = {"entries": found.entries, "first": first, "last": last, "erased": found.erased}
        print(
            json.dumps(
                counted
                | {"breaks": [vars(one) for one in found.breaks], "torn": found.torn, "accepted": heads.accepted},
                indent=2,
            )
        )
        raise typer.Exit(1 if found.breaks else 0)
    for line in found.torn:
        console.print(f"note: {line}", highlight=False, soft_wrap=True)
    for old in heads.accepted:
        text = f"accepted on {old['time']} by {old['person']} ({old['reason']}): {'; '.join(old['breaks'][:3])}"
        console.print(text, style="yellow", highlight=False, soft_wrap=True, markup=False)
    for one in found.breaks:
        console.print(str(one), style="red", highlight=False, soft_wrap=True)
    if found.breaks:
        raise typer.Exit(1)
    span = f"{found.first.number:,} to {found.last.place.number:,}" if found.first and found.last else "none yet"
    gone = f"; weir forget erased the texts of {found.erased:,}" if found.erased else ""
    console.print(f"The audit is whole: entries {span}{gone}.", style="green", highlight=False, soft_wrap=True)
