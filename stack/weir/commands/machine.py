"""What is wrong on this machine; what is left of Weir on it."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer
from rich.table import Table

from weir import doctor as doctors
from weir import uninstall as uninstalling
from weir.commands import configured, console
from weir.stack import take_down
from weir.storage.forecast import show_octets
from weir.supervisor import Supervisor

_STYLES = {doctors.Grade.GOOD: "", doctors.Grade.WARNING: "yellow", doctors.Grade.BAD: "red"}
_MARKS = {doctors.Grade.GOOD: "✔", doctors.Grade.WARNING: "!", doctors.Grade.BAD: "✘"}


def doctor(
    interface: Annotated[str, typer.Option(help="Also look at this interface.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what is wrong on this machine and what to do: memory, disk, clock, capabilities, versions, files, ports, interfaces,
    and each service. The exit status is 0 if all is well, 1 after warnings, 2 if something stops Weir.

    Example: weir doctor --interface eth0
    """
    found = doctors.examine(configured(), interface)
    worst = max((one.grade for one in found), default=doctors.Grade.GOOD)
    if as_json:
        print(doctors.as_json(found))
        raise typer.Exit(int(worst))
    table = Table(box=None, pad_edge=False, show_header=False)
    for one in found:
        said = f"{one.found}\n→ {one.to_do}" if one.to_do else one.found
        table.add_row(_MARKS[one.grade], one.what, said, style=_STYLES[one.grade])
    console.print(table, highlight=False)
    bad, warned = (sum(one.grade is grade for one in found) for grade in (doctors.Grade.BAD, doctors.Grade.WARNING))
    ends = {
        0: "All is well.",
        1: f"{warned} to look at; nothing stops Weir.",
        2: f"{bad} to mend before Weir can run well.",
    }
    console.print(f"\n{ends[int(worst)]}", style=_STYLES[worst], highlight=False)
    raise typer.Exit(int(worst))


def uninstall(
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
    caches: Annotated[bool, typer.Option("--caches", help="Also remove what other programs may use, too.")] = False,
) -> None:
    """Stop the stack, name all that Weir has left on this machine, and remove it: stored records, secrets and settings
    included. The sources stay, and so do packages of the system, and what is built if another stack of the checkout
    needs it.

    Example: weir uninstall
    """

    def goes(one: uninstalling.Leftover) -> bool:
        return not one.needed and (caches or not one.shared)

    stack = configured()
    left = uninstalling.leftovers(stack)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(overflow="fold")
    for one in left:
        stays = "" if goes(one) else "stays (--caches removes it)" if one.shared else "stays"
        table.add_row(str(one.path), one.what, show_octets(one.octets()), stays)
    console.print(table, highlight=False)
    if needed := next((one.needed for one in left if one.needed), ()):
        named = ", ".join(map(str, needed))
        console.print(f"What is built stays: these stacks need it: {named}", highlight=False, soft_wrap=True)
    if not any(goes(one) for one in left):
        console.print("Nothing is left to remove.")
        return
    if not yes and not typer.confirm("Remove these for good?"):
        console.print("Nothing was removed.")
        raise typer.Exit(1)
    take_down(stack, Supervisor(stack), console)
    for one in left:
        if goes(one) and one.path.exists():
            one.remove()
    with contextlib.suppress(OSError):  # A folder that the user chose may hold other files.
        stack.home.rmdir()
    console.print(f"Removed. The sources are left: {stack.checkout}", highlight=False, soft_wrap=True)
