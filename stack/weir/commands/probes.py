"""`weir probe`: enrol, change and list probes."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console

from weir import audit, credentials, kafka, locks, orders, private, probes
from weir.clickhouse import connect
from weir.commands import configured, console
from weir.config import Stack
from weir.errors import WeirError
from weir.stack import describe_probe, enrol, retire
from weir.terminal import printable

OneWay = Annotated[
    bool | None, typer.Option("--one-way/--two-way", help="The probe sees only one direction of each flow, or both.")
]
Pseudonyms = Annotated[
    bool | None,
    typer.Option(
        "--pseudonyms/--addresses",
        help="Its agent makes pseudonyms, or publishes addresses. It matters to jobs that hold a key of pseudonyms.",
    ),
]
Bundle = Annotated[
    Path | None, typer.Option("--bundle", help="Write the credentials to this file, for its owner alone.")
]
#: What is no bundle.
note = Console(stderr=True)


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
    pseudonyms: Pseudonyms = None,
    bundle: Bundle = None,
) -> None:
    """Enrol a probe: create its topics, so that the ledger expects its records, and print the credentials by which its
    agent can publish.

    The credentials (the bundle) go to the standard output, or to a file; `weir-probe enrol` on the probe keeps them. If
    the probe is already enrolled, omitted options keep their values, and so do its credentials.

    Example: weir probe add border --workers 4 --site "Oslo, exchange" --bundle border.bundle
    """
    stack = configured()
    if not kafka.PROBE_NAME.fullmatch(name):
        raise WeirError(
            f"'{name}' is not a valid probe name",
            hint="lowercase letters, digits and hyphens, 63 at most, such as border-1",
        )
    if interval not in (1, 2, 5, 10, 15, 30):
        raise WeirError(f"an interval of {interval} s does not divide every window", hint="use 1, 2, 5, 10, 15 or 30")
    with _alone(stack):
        fresh = credentials.manages(stack) and not credentials.has(stack, name)
        with _handed_over(bundle if fresh else None) as out:
            made = enrol(stack, name, workers, interval, site, rank, one_way, pseudonyms)
            out.write(made.bundle)
    topics = f" ({', '.join(made.topics)})" if made.topics else ", its topics already existed"
    note.print(f"enrolled {name}{topics}", highlight=False)
    if made.bundle:
        _say_where(name, bundle)
    elif credentials.manages(stack):
        note.print(f"it keeps its credentials; `weir probe rotate {name}` prints new ones", highlight=False)
    else:
        note.print(f"{stack.brokers} has its own users: let {name} write to these topics there", highlight=False)


def rotate(
    name: Annotated[str, typer.Argument(help="An enrolled probe.")],
    bundle: Bundle = None,
) -> None:
    """Print new credentials of a probe. Within ten seconds the earlier ones are worth nothing. An agent of `agents:` in
    weir.yaml gets them at once.

    Its agent goes on once `weir-probe enrol` has kept the new ones; until then its records wait in its spool.

    Example: weir probe rotate border | ssh border weir-probe enrol -
    """
    stack = _managing(name)
    with _alone(stack), _handed_over(bundle) as out:
        text = credentials.mint(stack, name)
        out.write(text)
        if own := name in {one.probe for one in stack.config.agents}:
            # Before another rotation: that one's must stay.
            private.write(stack.kept_credentials(name), text.encode(), over=True)
    _say_where(name, bundle)
    if own:
        note.print(f"the agent of {name} here has them already", highlight=False)


def revoke(
    name: Annotated[str, typer.Argument(help="An enrolled probe.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Take the credentials of a probe: Kafka accepts nothing more from it. Its topics and its declaration stay.

    `weir probe rotate` gives it new ones.

    Example: weir probe revoke border
    """
    stack = _managing(name)
    if not yes:
        typer.confirm(f"Accept nothing more from {name}?", abort=True)
    with _alone(stack):
        credentials.revoke(stack, name)
    note.print(f"revoked {name}: Kafka accepts nothing more from it", highlight=False)


def _managing(name: str) -> Stack:
    """The stack, whose own broker knows the probe. Raises WeirError."""
    stack = configured()
    if not credentials.manages(stack):
        raise WeirError(f"{stack.brokers} has its own users", hint="change the probe's password there")
    if name not in {row["probe"] for row in probes.enrolled(connect(stack, "analyst"))}:
        raise WeirError(f"no probe is named '{name}'", hint="weir probe list shows them")
    return stack


def _alone(stack: Stack) -> AbstractContextManager[None]:
    """Keep other commands from changing probes. Raises WeirError if one does."""
    return locks.held(stack, "probes", refused="another command enrols, changes or removes a probe")


def _handed_over(path: Path | None) -> AbstractContextManager[TextIO]:
    """Where a bundle goes. A file is made before anything changes: a password that nobody can read would be lost."""
    return private.new(path) if path else nullcontext(sys.stdout)


def _say_where(name: str, path: Path | None) -> None:
    if path:
        note.print(
            f"the credentials of {name} are in {path}; on the probe: weir-probe enrol {path.name}", highlight=False
        )
    elif sys.stdout.isatty():
        note.print(f"this is the bundle of {name}: keep it secret, and enrol it there", highlight=False)


def set_(
    name: Annotated[str, typer.Argument(help="An enrolled probe.")],
    site: Annotated[str | None, typer.Option(help="Its site; '' for none.")] = None,
    rank: Annotated[int | None, _rank()] = None,
    one_way: OneWay = None,
    pseudonyms: Pseudonyms = None,
) -> None:
    """Change the declaration of a probe; it takes effect within seconds, without a restart.

    Example: weir probe set border --site oslo --rank 10
    """
    now = describe_probe(configured(), name, site, rank, one_way, pseudonyms)
    view = "one direction of each flow" if now.one_way else "both directions"
    print(f"{name}: site '{now.site}', rank {now.rank}, sees {view}" + (", makes pseudonyms" if now.pseudonyms else ""))


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
    with _alone(stack):
        deleted = retire(stack, name)
    print(f"removed {name}" + (f" ({', '.join(deleted)})" if deleted else ", it had no topics"))


def filters(
    name: Annotated[str, typer.Argument(help="An enrolled probe.")],
    file: Annotated[
        Path | None, typer.Argument(help="A section [filters] of an agent's configuration; - reads the standard input.")
    ] = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Use the sets of the agent's own configuration again.")
    ] = False,
    key: Annotated[
        bool, typer.Option("--key", help="Print the public key of orders, for a probe without credentials of ours.")
    ] = False,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the agent's answer.")] = 90,
) -> None:
    """Replace the filter sets of a probe's agent by those of a file, from its next interval on; without a file, show the
    last order.

    The order is signed; the agent follows it if the signature is that of the key in its credentials, and keeps it across
    restarts. An agent that is away follows it when it is back.

    Example: weir probe filters border suspicious.toml
    """
    stack = configured()
    if name not in {row["probe"] for row in probes.enrolled(connect(stack, "analyst"))}:
        raise WeirError(f"no probe is named '{name}'", hint="weir probe list shows them")
    if key:
        print(orders.public_key(stack))
        return
    if file is None and not reset:
        _show_order(stack, name)
        return
    if file is not None and reset:
        raise WeirError("a file and --reset exclude each other")
    toml = orders.checked(_read(file)) if file else ""
    answers = orders.Answers(stack, name)
    try:
        order = orders.issue(stack, name, toml, audit.person())
        with note.status(f"waiting for the next interval of {name}"):
            answer = answers.wait(order.number, wait)
    finally:
        answers.close()
    if answer is None:
        note.print(f"{name} has not answered within {wait:g} s; it follows the order once it reads it", highlight=False)
        raise typer.Exit(1)
    if answer.refusal:
        raise WeirError(printable(answer.refusal), hint="its earlier filter sets stay in force", status=1)
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(answer.since_ms / 1000))
    print(f"{name}: order {order.number} is in force since {since}")


def _read(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise WeirError(f"cannot read {file}: {error}") from error


def _show_order(stack: Stack, name: str) -> None:
    """Print the last order to a probe."""
    order = orders.newest(stack, name)
    if order is None:
        if number := orders.in_force(stack, name):
            print(
                f"{name} follows order {number}, which it got before it was enrolled again; 'weir probe filters {name} --reset' ends that"
            )
            return
        print(f"{name} has no order: the filter sets of its agent's configuration count")
        return
    note.print(f"{name}: order {order.number}, issued by {order.issued_by or 'nobody named'}", highlight=False)
    print(order.filters.toml or "# the filter sets of the agent's configuration\n", end="")


def list_() -> None:
    """List the enrolled probes, and when each last published.

    Example: weir probe list
    """
    rows = probes.enrolled(connect(configured(), "analyst"))
    console.print(probes.table(rows) if rows else "No probe is enrolled. Example: weir probe add border")
