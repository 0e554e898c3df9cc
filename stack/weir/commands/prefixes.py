"""`weir prefixes`: customers, sites and tags of address prefixes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, TaskID

from weir import prefixes
from weir.commands import configured, console
from weir.errors import WeirError


def set_(
    prefix: Annotated[str, typer.Argument(help="Such as 192.0.2.0/24 or 2001:db8::/32; the longest match wins.")],
    customer: Annotated[str, typer.Option(help="Whose it is.")] = "",
    site: Annotated[str, typer.Option(help="Its site; probes at this site see it as inside.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="A label; repeat the option for more.")] = None,
    national: Annotated[bool, typer.Option("--national", help="The prefix is inside the nation.")] = False,
) -> None:
    """Declare a prefix; this replaces its earlier declaration. It takes effect within seconds, without a restart.

    Example: weir prefixes set 192.0.2.0/24 --customer "Fjord Power" --site oslo --tag power --national
    """
    try:
        name, said = prefixes.canonical(prefix), prefixes.describe(customer, site, tag or [], national)
    except ValueError as error:
        raise WeirError(str(error)) from None
    done = prefixes.apply(configured(), {name: said})
    print(f"{name} is set, id {done.set[name].id}" if done.set else f"{name} was already declared so")


def remove(prefix: Annotated[str, typer.Argument(help="A declared prefix.")]) -> None:
    """Remove the declaration of a prefix. Stored records keep its customer; new records get that of the next shorter
    prefix, if any.

    Example: weir prefixes remove 192.0.2.0/24
    """
    try:
        name = prefixes.canonical(prefix)
    except ValueError as error:
        raise WeirError(str(error)) from None
    if not prefixes.apply(configured(), {}, removed=[name]).removed:
        raise WeirError(f"{name} is not declared", hint="weir prefixes list shows the declared ones", status=1)
    print(f"{name} is removed")


def list_() -> None:
    """List the declared prefixes: as a table on a terminal, elsewhere as CSV that `weir prefixes import` reads.

    Example: weir prefixes list > prefixes.csv
    """
    found = prefixes.declared(configured().brokers)
    if not sys.stdout.isatty():
        prefixes.write_file(found, sys.stdout)
        return
    console.print(
        prefixes.table(found)
        if found
        else "No prefix is declared. Example: weir prefixes set 192.0.2.0/24 --customer Fjord"
    )


def import_(
    file: Annotated[Path, typer.Argument(help="CSV with the header prefix,customer,site,tags,national.")],
    replace: Annotated[bool, typer.Option("--replace", help="Remove every prefix that is not in the file.")] = False,
) -> None:
    """Declare the prefixes of a file. If a line is wrong, nothing changes.

    Separate tags with spaces or semicolons; national is true or false. Only changed prefixes get a new id.

    Example: weir prefixes import customers.csv --replace
    """
    wanted = prefixes.read_file(file)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what)
            bar.update(tasks[what], completed=done, total=total)

        done = prefixes.apply(configured(), wanted, replace=replace, progress=progress)
    print(f"{file}: {done}")
