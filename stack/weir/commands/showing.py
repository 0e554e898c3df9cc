"""The demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weir.commands import configured, console


def demo(
    pcap: Annotated[Path | None, typer.Option(help="Replay this capture instead of capturing.")] = None,
    iface: Annotated[str | None, typer.Option(help="Capture on this interface instead of generating traffic.")] = None,
    once: Annotated[bool, typer.Option(help="Run the demo, check the result, and stop.")] = False,
    seconds: Annotated[int, typer.Option(min=5, help="Seconds of traffic before the report.")] = 25,
) -> None:
    """Demonstrate the whole path with live traffic: two network namespaces with an HTTP server, a DNS server and
    clients.

    Example: weir demo --pcap capture.pcap
    """
    from weir.demo import run

    raise typer.Exit(run(configured(), console, pcap=pcap, iface=iface, once=once, seconds=seconds))
