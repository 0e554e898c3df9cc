"""`weir probe`: enrol, change and list probes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from weir import kafka, probes
from weir.clickhouse import connect
from weir.commands import configured, console
from weir.errors import WeirError
from weir.stack import describe_probe, enrol, retire

OneWay = Annotated[
    bool | None, typer.Option("--one-way/--two-way", help="The probe sees only one direction of each flow, or both.")
]


def _rank(default: str = "") -> Any:
    """The option `--rank`; `default` ends its help."""
    text = f"Rank among the probes that see the same flow; the lowest comes first.{default}"
    return typer.Option(min=0, max=2**31 - 1, help=text)


def add(
    name: Annotated[str, typer.Argument(help="Lowercase letters, digits and hyphens, 63 at most.")],
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="Maximum number of workers of its agent: partitions of its topics.")
    ] = 1,
    interval: Annotated[int, typer.Option(help="Length of its intervals in seconds: 1, 2, 5, 10, 15 or 30.")] = 10,
    site: Annotated[str | None, typer.Option(help="Its site; prefixes of this site are inside for the probe.")] = None,
    rank: Annotated[int | None, _rank(" [100]")] = None,
    one_way: OneWay = None,
) -> None:
    """Enrol a probe: create its topics, so that its agent can publish and the ledger expects its records.

    If the probe is already enrolled, omitted options keep their values.

    Example: weir probe add border --workers 4 --site "Oslo, exchange"
    """
    stack = configured()
    if not kafka.PROBE_NAME.fullmatch(name):
        raise WeirError(
            f"'{name}' is not a valid probe name",
            hint="lowercase letters, digits and hyphens, 63 at most, such as border-1",
        )
    if interval not in (1, 2, 5, 10, 15, 30):
        raise WeirError(f"an interval of {interval} s does not divide every window", hint="use 1, 2, 5, 10, 15 or 30")
    made = enrol(stack, name, workers, interval, site, rank, one_way)
    print(f"enrolled {name}" + (f" ({', '.join(made)})" if made else ", its topics already existed"))


def set_(
    name: Annotated[str, typer.Argument(help="An enrolled probe.")],
    site: Annotated[str | None, typer.Option(help="Its site; '' for none.")] = None,
    rank: Annotated[int | None, _rank()] = None,
    one_way: OneWay = None,
) -> None:
    """Change the declaration of a probe; it takes effect within seconds, without a restart.

    Example: weir probe set border --site oslo --rank 10
    """
    now = describe_probe(configured(), name, site, rank, one_way)
    view = "one direction of each flow" if now.one_way else "both directions"
    print(f"{name}: site '{now.site}', rank {now.rank}, sees {view}")


def remove(
    name: Annotated[str, typer.Argument(help="An enrolled probe, whose agent has stopped.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove a probe: delete its topics with the messages in them, and its declaration. Stored records stay.

    The ledger expects nothing from it any more; within an hour the jobs close its alerts.

    Example: weir probe remove border
    """
    stack = configured()
    if not yes:
        typer.confirm(f"Delete the topics of {name}, with messages that the jobs have not read?", abort=True)
    deleted = retire(stack, name)
    print(f"removed {name}" + (f" ({', '.join(deleted)})" if deleted else ", it had no topics"))


def list_() -> None:
    """List the enrolled probes, and when each last published.

    Example: weir probe list
    """
    rows = probes.enrolled(connect(configured(), "analyst"))
    console.print(probes.table(rows) if rows else "No probe is enrolled. Example: weir probe add border")
