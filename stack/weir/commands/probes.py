"""`weir probe`: enrol probes."""

from __future__ import annotations

from typing import Annotated

import typer

from weir import kafka, probes
from weir.clickhouse import connect
from weir.commands import configured, console
from weir.errors import WeirError
from weir.stack import describe_probe, enrol


def add(
    name: Annotated[str, typer.Argument(help="Small letters, digits and hyphens, 63 at most.")],
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="Workers its agent may have: partitions of its topics.")
    ] = 1,
    interval: Annotated[int, typer.Option(help="Length of its intervals in seconds: 1, 2, 5, 10, 15 or 30.")] = 10,
    site: Annotated[
        str | None, typer.Option(help="Where it stands: the site of the prefixes that are inside, seen from it.")
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option(
            min=0, max=2**31 - 1, help="Place among the probes that see the same flow; the lower comes first. [100]"
        ),
    ] = None,
    one_way: Annotated[
        bool | None, typer.Option("--one-way/--two-way", help="It sees one direction of each flow only, or both.")
    ] = None,
) -> None:
    """Enrol a probe: make its topics, so that its agent can publish and the ledger expects it.

    Of a probe that is enrolled, what is not given stays as it is.

    Example: weir probe add border --workers 4 --site "Oslo, exchange"
    """
    stack = configured()
    if not kafka.PROBE_NAME.fullmatch(name):
        raise WeirError(
            f"'{name}' is no name for a probe",
            hint="small letters, digits and hyphens, 63 at most, such as border-1",
        )
    if interval not in (1, 2, 5, 10, 15, 30):
        raise WeirError(f"an interval of {interval} s does not divide every window", hint="use 1, 2, 5, 10, 15 or 30")
    made = enrol(stack, name, workers, interval, site, rank, one_way)
    print(f"enrolled {name}" + (f" ({', '.join(made)})" if made else ", its topics were there already"))


def set_(
    name: Annotated[str, typer.Argument(help="An enrolled probe.")],
    site: Annotated[str | None, typer.Option(help="Where it stands; '' for nowhere.")] = None,
    rank: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, help="Place among the probes that see the same flow; the lower first."),
    ] = None,
    one_way: Annotated[
        bool | None, typer.Option("--one-way/--two-way", help="It sees one direction of each flow only, or both.")
    ] = None,
) -> None:
    """Change what is declared of a probe; it holds within seconds, and nothing restarts.

    Example: weir probe set border --site oslo --rank 10
    """
    now = describe_probe(configured(), name, site, rank, one_way)
    view = "one direction of each flow" if now.one_way else "both directions"
    print(f"{name}: site '{now.site}', rank {now.rank}, sees {view}")


def list_() -> None:
    """List the enrolled probes, and when each was last heard.

    Example: weir probe list
    """
    rows = probes.enrolled(connect(configured(), "analyst"))
    console.print(probes.table(rows) if rows else "No probe is enrolled. Example: weir probe add border")
