"""`weir customer` and `weir user`: accounts of the dashboards."""

from __future__ import annotations

import enum
import json
from typing import Annotated

import typer
from rich.table import Table

from weir import people
from weir.commands import configured, console

Name = Annotated[str, typer.Argument(help="Name of the user.")]


class Role(enum.StrEnum):
    """What an account may do: read the dashboards, or change everything."""

    viewer = "viewer"
    admin = "admin"


def customer(
    name: Annotated[str, typer.Argument(help="Name of the customer, as `weir prefixes list` shows it.")],
    user: Annotated[
        str | None, typer.Argument(help="Name of the user; without it, only the role for those who sign on.")
    ] = None,
) -> None:
    """Give a customer access to its own rows on the dashboards: create a user, or set a new password, and print it.

    Example: weir customer 'Fjord Power' ola
    """
    stack = configured()
    if user is None:
        people.prepare_customer(stack, name)
        console.print(f"The groups that weir.yaml lists for {name} can now sign on.", highlight=False)
        return
    password = people.let_in(stack, name, user)
    console.print(
        f"{user} can log in to see the rows of {name} at {stack.superset_url}/login/ with the password", highlight=False
    )
    print(password)


def add(name: Name, role: Annotated[Role, typer.Option(help="What the account may do.")] = Role.viewer) -> None:
    """Make a personal account for the dashboards, or set a new password, and print it.

    Example: weir user add kari --role admin
    """
    password = people.add(configured(), name, role.value)
    console.print(f"{name} can log in with the password", highlight=False)
    print(password)


def remove(name: Name) -> None:
    """Remove an account from the dashboards; its open sessions end at their next request.

    Example: weir user remove kari
    """
    people.remove(configured(), name)
    console.print(f"{name} is removed.", highlight=False)


def unlock(name: Name) -> None:
    """Let an account log in again at once after failed logins.

    Example: weir user unlock kari
    """
    people.unlock(configured(), name)
    console.print(f"The failed logins of {name} are forgotten.", highlight=False)


def list_(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the accounts of the dashboards, with where each comes from.

    Example: weir user list
    """
    found = people.accounts(configured())
    if as_json:
        print(json.dumps(found))
        return
    table = Table("user", "roles", "comes from", "last login", box=None)
    for one in found:
        table.add_row(one["user"], ", ".join(one["roles"]), one["source"], one["last_login"])
    console.print(table, highlight=False)
