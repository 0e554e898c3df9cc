"""The demo, and the dashboards' users."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weir import customers
from weir.commands import configured, console


def demo(
    pcap: Annotated[Path | None, typer.Option(help="Replay this capture instead of capturing.")] = None,
    iface: Annotated[str | None, typer.Option(help="Capture on this interface instead of making traffic.")] = None,
    once: Annotated[bool, typer.Option(help="Show it, check it, stop again.")] = False,
    seconds: Annotated[int, typer.Option(min=5, help="How long traffic is made or captured before the report.")] = 25,
) -> None:
    """Show the whole path with live traffic: two network namespaces, an HTTP and a DNS server, clients.

    Example: weir demo --pcap capture.pcap
    """
    from weir.demo import run

    raise typer.Exit(run(configured(), console, pcap=pcap, iface=iface, once=once, seconds=seconds))


def customer(
    name: Annotated[str, typer.Argument(help="Name of the customer, as `weir prefixes list` shows it.")],
    user: Annotated[str, typer.Argument(help="Name of the user.")],
) -> None:
    """Let a customer see its own rows on the dashboards: makes a user, or gives it a new password, and prints it.

    Example: weir customer 'Fjord Power' ola
    """
    stack = configured()
    password = customers.let_in(stack, name, user)
    console.print(f"{user} sees the rows of {name} at {stack.superset_url}/login/ with the password", highlight=False)
    print(password)
