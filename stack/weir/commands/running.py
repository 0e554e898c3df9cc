"""Start, stop and show a stack; prepare servers that run elsewhere."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from typing import Annotated

import typer

from weir import __version__, alerts, kafka, ledger
from weir import status as statuses
from weir.clickhouse import connect
from weir.commands import configured, console, end_as_ctrl_c_does
from weir.config import Stack
from weir.errors import WeirError
from weir.migrations import apply_access, compiled
from weir.stack import bring_up, dashboard_url, enrol, let_go, migrated, take_down, take_over
from weir.stack import upgrade as upgraded
from weir.stages import Stages
from weir.storage import forecast
from weir.supervisor import Supervisor


def up(
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return when every service is healthy.")] = False,
) -> None:
    """Start Kafka, ClickHouse, Flink, Superset and the agents, and wait until each is healthy.

    The command runs until Ctrl-C, which stops everything again; with --detach it returns, and `weir down` stops the
    stack.

    Example: weir up --detach
    """
    stack = configured()
    supervisor = Supervisor(stack)
    begin = time.monotonic()
    end_as_ctrl_c_does(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    started = False
    try:
        take_over(stack, supervisor, console)
        started = True
        with Stages(console) as stages:
            bring_up(stack, supervisor, stages)
        for text in statuses.certificates(stack):
            console.print(text, style="yellow", highlight=False, soft_wrap=True)
        where = f" Dashboard: {dashboard_url(stack)}" if stack.config.superset.enabled else ""
        console.print(f"Weir is up after {time.monotonic() - begin:.0f} s.{where}", highlight=False, soft_wrap=True)
        if detach:
            let_go(stack)
            return
        console.print("Ctrl-C stops it.")
        while supervisor.running():
            time.sleep(1)
        started = False
    except KeyboardInterrupt:
        console.print("\nStopping Weir; another Ctrl-C changes nothing.")
    except WeirError:
        if started:
            take_down(stack, supervisor, console)
        raise
    if started:
        take_down(stack, supervisor, console)
        console.print("Weir is down.")


def upgrade() -> None:
    """Replace a running stack of another version by this version, which continues with its rows, messages and state.

    The jobs stop with a savepoint, then every service stops, and this version starts: migrations first, then the jobs
    from the savepoint, which stays. Run the command of the new version, with WEIR_HOME as for the old one.

    Example: WEIR_HOME=/var/lib/weir ~/weir-0.2.0/stack/bin/weir upgrade
    """
    stack = configured()
    supervisor = Supervisor(stack)
    begin = time.monotonic()
    with Stages(console) as stages:
        if not supervisor.running():
            raise WeirError("this stack is not up", hint="'weir up' starts it from its newest checkpoint")
        upgraded(stack, supervisor, stages)
    console.print(f"Weir {__version__} is up after {time.monotonic() - begin:.0f} s.", highlight=False)


def down() -> None:
    """Stop everything that `weir up` started, and nothing else.

    Example: weir down
    """
    stack = configured()
    supervisor = Supervisor(stack)
    was = supervisor.running()
    take_down(stack, supervisor, console)
    console.print("Weir is down." if was else "Weir was not up.")


def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show each service: state, port, memory, lag; the ledger's last minute; open alerts; the disk; the store's walls. The exit status is
    1 if a service is not healthy.

    Example: weir status
    """
    stack = configured()
    rows = statuses.all_statuses(stack)
    minute: dict[str, int] = {}
    opened: dict[str, int] = {}
    stored: forecast.Survey | None = None
    if stack.config.clickhouse.url or any(row.service == "clickhouse" and row.state == "well" for row in rows):
        store = connect(stack, "analyst")
        minute = ledger.totals(ledger.read(store, ledger.condition("75s", None, "15s")))
        opened = alerts.counts(alerts.read(store, since=None))
        with contextlib.suppress(WeirError):  # A remote server may refuse this stack's administrator.
            stored = forecast.survey(stack, connect(stack, "admin"))
    held = statuses.walls(stack)
    ends = statuses.certificates(stack)
    all_well = all(row.state == "well" for row in rows)
    if as_json:
        shown = {
            "services": [vars(row) for row in rows],
            "ledger_last_minute": minute,
            "alerts_open": opened,
            "storage": stored.as_json() if stored else None,
            "walls": held,
            "certificates": ends,
        }
        print(json.dumps(shown, indent=2))
        raise typer.Exit(0 if all_well else 1)
    console.print(statuses.table(rows))
    memory = sum(row.memory_octets for row in rows) / 2**20
    console.print(f"total memory {memory:,.0f} MiB; logs in {stack.logs}", highlight=False, soft_wrap=True)
    if minute:
        console.print(
            f"ledger, last minute: on the wire {minute['on_interface_packets']:,}, stored {minute['stored_packets']:,}, "
            f"not metered {minute['not_metered_packets']:,}, dropped {minute['dropped_packets']:,}, lost {minute['lost_packets']:,}",
            highlight=False,
            soft_wrap=True,
        )
    if opened:
        style = "red" if opened["critical"] else "yellow" if any(opened.values()) else ""
        console.print(alerts.summary(opened), style=style, highlight=False)
    if stored:
        console.print(
            f"store: {forecast.show_octets(stored.used)} of {forecast.show_octets(stored.budget)}. {stored.forecast()}",
            style="yellow" if stored.part >= 1 else "",
            highlight=False,
            soft_wrap=True,
        )
        for text in filter(None, (stored.law_says(), stored.beyond_says())):
            console.print(text, style="yellow", highlight=False, soft_wrap=True)
    if held:
        console.print(
            statuses.told(held), style="" if all(held.values()) else "yellow", highlight=False, soft_wrap=True
        )
    for text in ends:
        console.print(text, style="yellow", highlight=False, soft_wrap=True)
    raise typer.Exit(0 if all_well else 1)


def migrate(
    cluster: Annotated[
        str | None,
        typer.Option(help="Create the tables on this cluster, replicated and distributed. [clickhouse.cluster]"),
    ] = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the statements without contacting a server.")
    ] = False,
) -> None:
    """Apply new table definitions. `weir up` does this by itself.

    Example: WEIR_PASSWORD_ADMIN=… weir --config server.yaml migrate
    """
    end_as_ctrl_c_does(signal.SIGTERM, signal.SIGHUP)
    stack = configured()
    name = stack.config.clickhouse.cluster if cluster is None else cluster
    if only_print:
        for file, statements in compiled(stack.config.clickhouse.database, name):
            print(f"-- {file}\n" if file else "", "\n\n".join(f"{one};" for one in statements), "\n", sep="")
        return
    applied = _migrated(stack, name)
    print("\n".join(f"applied {name}" for name in applied) or "nothing new")


def _migrated(stack: Stack, cluster: str) -> list[str]:
    with Stages(console) as stages:
        return migrated(stack, stages, cluster)


def prepare(
    probe: Annotated[list[str] | None, typer.Option(help="Also enrol this probe; repeat the option for more.")] = None,
) -> None:
    """Create topics, tables, users and roles on servers that run elsewhere. `weir up` does not need this.

    Example: weir --config servers.yaml prepare --probe border
    """
    stack = configured()
    made = kafka.create_topics(stack.brokers)
    print("\n".join(f"made {name}" for name in made) or "the shared topics already existed")
    for name in _migrated(stack, stack.config.clickhouse.cluster):
        print(f"applied {name}")
    if stack.config.clickhouse.url:
        count = apply_access(stack, connect(stack, "admin"))
        print(f"applied {count} statements from {stack.access.name}")
    for name in probe or []:
        enrol(stack, name)
        print(f"enrolled {name}")
