"""Back the store up, restore it, remove an address from it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from weir import audit, snapshot
from weir import backup as backups
from weir import forget as forgetting
from weir.clickhouse import connect
from weir.commands import configured, console, end_as_ctrl_c_does
from weir.config import Stack
from weir.errors import WeirError
from weir.stages import Stages
from weir.storage.service import alone

#: Signals that a shutdown, a timer and a closed terminal send.
_ENDING = (signal.SIGTERM, signal.SIGHUP)


def backup(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Directory for this backup alone; created if absent. A name without a slash is beside the other backups.",
        ),
    ],
    base: Annotated[Path | None, typer.Option(help="An earlier backup; only newer data is written. Keep both.")] = None,
    no_pause: Annotated[
        bool, typer.Option("--no-pause", help="Do not pause the jobs: the backup then does not contain their state.")
    ] = False,
) -> None:
    """Back up every table of the store, and the state of the jobs at the same moment, with checksums that verify the
    backup.

    The jobs pause for some seconds, in which Kafka keeps the messages; the command shows for how long. If the stack is
    down, the command starts the store, and Kafka, for the backup alone.

    Example: weir backup 2026-11-22
    """
    end_as_ctrl_c_does(*_ENDING)
    stack = configured()
    directory, base = placed(stack, directory), placed(stack, base) if base else None
    with Stages(console) as stages:
        done = backups.backup(stack, directory, stages, base, pause=not no_pause)
    console.print(
        f"{directory}: {len(done.entries)} tables, {sum(entry.rows for entry in done.entries):,} rows. "
        "It does not include passwords: keep the folder secrets/ too.",
        highlight=False,
        soft_wrap=True,
    )
    _say(done.lines)


def placed(stack: Stack, directory: Path) -> Path:
    """The directory of a backup: a name without a slash is in the one place where the embedded store writes backups."""
    return directory if len(directory.parts) > 1 else stack.backups / directory


def _say(lines: list[str]) -> None:
    for line in lines:
        console.print(line, style="yellow", highlight=False, soft_wrap=True)


def restore(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory that weir backup wrote, or its name.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the contents of the store.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only verify the backup; change nothing.")] = False,
) -> None:
    """Replace the contents of the store with a backup, after verifying it. The jobs stop in the meantime, and resume
    from their state in the backup: they read the messages since then from Kafka again.

    If the backup is damaged, the store stays as it was.

    Example: weir restore 2026-11-22
    """
    end_as_ctrl_c_does(*_ENDING)
    stack = configured()
    directory = placed(stack, directory)
    with Stages(console) as stages:
        done = backups.restore(stack, directory, stages, force=force, check=check)
    rows = sum(entry.rows for entry in done.entries)
    how = "is whole" if check else "is restored"
    console.print(f"{directory} {how}: {len(done.entries)} tables, {rows:,} rows.", highlight=False, soft_wrap=True)
    _say(done.lines)


def forget(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="An address, or a prefix: all addresses in it.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the rows that would be removed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    nat: Annotated[
        bool,
        typer.Option("--nat", help="Also remove reports of translators (nat_events), which you must keep by law."),
    ] = False,
) -> None:
    """Remove an address from everything in the store, and search for it again. This cannot be undone.

    Reports of translators stay, because you must keep them by law; the command counts those that name the address.

    Example: weir forget 192.0.2.7 --dry-run
    """
    end_as_ctrl_c_does(*_ENDING)
    stack = configured()
    store, wanted = connect(stack, "admin", patience=None), forgetting.network(address)
    # The service `storage` writes blocks through a table that comes and goes.
    with alone(stack), Stages(console) as stages:
        snapshot.drop_left(stack, store)
        everything = forgetting.search(store, wanted, stages)
    found = [one for one in everything if nat or not one.law]
    stays = forgetting.kept([one for one in everything if one not in found], stack.config.storage.nat_days)
    name = wanted[0] if wanted.num_addresses == 1 else wanted
    none = f"No {'other ' if stays else ''}stored row names {name}."
    console.print(forgetting.table(found) if found else none, highlight=False)
    if stays:
        console.print(stays, style="yellow", highlight=False, soft_wrap=True)
    if found and not dry_run:
        if not yes:
            if not sys.stdin.isatty():
                raise WeirError(
                    "nothing was removed: there is no terminal to confirm it", hint="--yes removes without asking"
                )
            typer.confirm(f"Permanently remove these rows from every table, because they name {name}?", abort=True)
        # Meanwhile the service `storage` must not build a daily list from rows that are yet to be removed.
        rows = sum(one.rows for one in found)
        audit.note(stack, "forget", {"digest": audit.keyed(stack, wanted), "rows": rows, "tables": len(found)})
        with alone(stack), Stages(console) as stages:
            forgetting.forget(store, wanted, stages, found)
        console.print(f"{name} is removed: {rows:,} rows of {len(found)} tables.", highlight=False)
    if not dry_run and (erased := audit.erase(stack, wanted)):
        console.print(f"The texts of {erased:,} entries of the audit that named {name} are erased.", highlight=False)
    console.print("Other places that may hold it, and rows that stay:")
    for line in forgetting.elsewhere():
        console.print(f"- {line}", highlight=False, soft_wrap=True)
