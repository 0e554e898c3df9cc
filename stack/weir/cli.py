"""The command line of `weir`."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from weir import __version__, alerts, config, customers, kafka, ledger, prefixes, sizing, storage
from weir import backup as backups
from weir import forget as forgetting
from weir.clickhouse import ClickHouse, connect
from weir.errors import WeirError
from weir.migrations import apply_access, compiled
from weir.migrations import migrate as apply_migrations
from weir.stack import bring_up, dashboard_url, describe_probe, enrol, take_down
from weir.stages import Stages
from weir.status import all_statuses
from weir.supervisor import Supervisor

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run Weir on one machine, and ask it what happened on the network.\n\nExample: weir up, then weir sql 'SELECT count() FROM v_flows'",
    pretty_exceptions_enable=False,
)
probe_app = typer.Typer(no_args_is_help=True, help="Enrol probes. Example: weir probe add border --workers 4")
letters_app = typer.Typer(
    no_args_is_help=True, help="Messages that a reader could not understand. Example: weir dead-letters list"
)
app.add_typer(probe_app, name="probe")
app.add_typer(letters_app, name="dead-letters")
prefixes_app = typer.Typer(
    no_args_is_help=True,
    help="Customers, sites and tags of address prefixes. Example: weir prefixes set 192.0.2.0/24 --customer 'Fjord Power'",
)
app.add_typer(prefixes_app, name="prefixes")
storage_app = typer.Typer(
    invoke_without_command=True,
    help="What the store holds, and when its disk is full. Example: weir storage, then weir storage keep",
)
app.add_typer(storage_app, name="storage")
console = Console()


class _Options:
    config: Path | None = None


def _stack() -> config.Stack:
    return config.load(_Options.config)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"weir {__version__}")
        raise typer.Exit


@app.callback()
def _global(
    config_file: Annotated[
        Path | None, typer.Option("--config", help="Configuration; default: $WEIR_HOME/weir.yaml.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    _Options.config = config_file


@app.command()
def up(
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return when everything is well.")] = False,
) -> None:
    """Start Kafka, ClickHouse, Flink, Superset and the agents, and wait until each is well.

    Stays until Ctrl-C, which stops everything again; with --detach it returns and `weir down` stops it.

    Example: weir up --detach
    """
    stack = _stack()
    supervisor = Supervisor(stack)
    begin = time.monotonic()
    signal.signal(signal.SIGTERM, _as_interrupt)
    started = False
    try:
        with Stages(console) as stages:
            if supervisor.running():
                raise WeirError("this stack is up already", hint="'weir status' shows it, 'weir down' stops it")
            started = True
            bring_up(stack, supervisor, stages)
        where = f" Dashboard: {dashboard_url(stack)}" if stack.config.superset.enabled else ""
        console.print(f"Weir is up after {time.monotonic() - begin:.0f} s.{where}", highlight=False, soft_wrap=True)
        if detach:
            return
        console.print("Ctrl-C stops it.")
        while supervisor.running():
            time.sleep(1)
        started = False
    except KeyboardInterrupt:
        console.print()
    except WeirError:
        if started:
            take_down(stack, supervisor, console)
        raise
    if started:
        take_down(stack, supervisor, console)
        console.print("Weir is down.")


def _as_interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


@app.command()
def down() -> None:
    """Stop everything that `weir up` started, and nothing else.

    Example: weir down
    """
    stack = _stack()
    supervisor = Supervisor(stack)
    was = supervisor.running()
    take_down(stack, supervisor, console)
    console.print("Weir is down." if was else "Weir was not up.")


@app.command()
def customer(
    name: Annotated[str, typer.Argument(help="Name of the customer, as `weir prefixes list` shows it.")],
    user: Annotated[str, typer.Argument(help="Name of the user.")],
) -> None:
    """Let a customer see its own rows on the dashboards: makes a user, or gives it a new password, and prints it.

    Example: weir customer 'Fjord Power' ola
    """
    stack = _stack()
    password = customers.let_in(stack, name, user)
    console.print(f"{user} sees the rows of {name} at {stack.superset_url}/login/ with the password", highlight=False)
    print(password)


@app.command()
def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show each service: state, port, memory, lag; the ledger's last minute; open alerts; the disk. Exit status 1 where a service is not well.

    Example: weir status
    """
    stack = _stack()
    rows = all_statuses(stack)
    minute: dict[str, int] = {}
    opened: dict[str, int] = {}
    stored: storage.Survey | None = None
    if stack.config.clickhouse.url or any(row.service == "clickhouse" and row.state == "well" for row in rows):
        store = connect(stack, "analyst")
        minute = ledger.totals(ledger.read(store, ledger.condition("75s", None, "15s")))
        opened = alerts.counts(alerts.read(store, since=None))
        with contextlib.suppress(WeirError):  # whoever asks another machine's server need not be its administrator
            stored = storage.survey(stack, connect(stack, "admin"))
    all_well = all(row.state == "well" for row in rows)
    if as_json:
        shown = {
            "services": [vars(row) for row in rows],
            "ledger_last_minute": minute,
            "alerts_open": opened,
            "storage": stored.as_json() if stored else None,
        }
        print(json.dumps(shown, indent=2))
        raise typer.Exit(0 if all_well else 1)
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("service", "state", "port", "pid", "up", "memory", "lag"):
        table.add_column(name, justify="left" if name in ("service", "state") else "right")
    for row in rows:
        table.add_row(
            row.service,
            row.state,
            str(row.port or ""),
            str(row.pid or ""),
            _span(row.up_seconds),
            f"{row.memory_octets / 2**20:,.0f} MiB" if row.memory_octets else "",
            "" if row.lag_messages is None else f"{row.lag_messages:,} messages",
            style="" if row.state == "well" else "red",
        )
    console.print(table)
    memory = sum(row.memory_octets for row in rows) / 2**20
    console.print(f"memory in all {memory:,.0f} MiB; logs in {stack.logs}", highlight=False, soft_wrap=True)
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
            f"store: {storage.show_octets(stored.used)} of {storage.show_octets(stored.budget)}. {stored.forecast()}",
            style="yellow" if stored.part >= 1 else "",
            highlight=False,
            soft_wrap=True,
        )
    raise typer.Exit(0 if all_well else 1)


def _span(seconds: int) -> str:
    if seconds < 1:
        return ""
    hours, rest = divmod(seconds, 3600)
    return f"{hours}h{rest // 60:02}m" if hours else f"{rest // 60}m{rest % 60:02}s"


@app.command()
def migrate(
    cluster: Annotated[
        str | None, typer.Option(help="Make them on this cluster, replicated and distributed. [clickhouse.cluster]")
    ] = None,
    only_print: Annotated[bool, typer.Option("--print", help="Print the statements; no server is asked.")] = False,
) -> None:
    """Apply the table definitions that are new. `weir up` does this by itself.

    Example: WEIR_PASSWORD_ADMIN=… weir --config server.yaml migrate
    """
    stack = _stack()
    name = stack.config.clickhouse.cluster if cluster is None else cluster
    if only_print:
        for file, statements in compiled(stack.config.clickhouse.database, name):
            print(f"-- {file}\n" if file else "", "\n\n".join(f"{one};" for one in statements), "\n", sep="")
        return
    applied = apply_migrations(connect(stack, "admin"), cluster=name)
    print("\n".join(f"applied {name}" for name in applied) or "nothing new")


@app.command()
def prepare(
    probe: Annotated[list[str] | None, typer.Option(help="Enrol this probe, too; may be given again.")] = None,
) -> None:
    """Make topics, tables, users and roles on servers that run elsewhere. `weir up` needs none of this.

    Example: weir --config servers.yaml prepare --probe border
    """
    stack = _stack()
    made = kafka.create_topics(stack.brokers)
    print("\n".join(f"made {name}" for name in made) or "the shared topics were there already")
    admin = connect(stack, "admin")
    for name in apply_migrations(admin, cluster=stack.config.clickhouse.cluster):
        print(f"applied {name}")
    if stack.config.clickhouse.url:
        count = apply_access(stack, admin)
        print(f"applied {count} statements of {stack.access.name}")
    for name in probe or []:
        enrol(stack, name)
        print(f"enrolled {name}")


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="One SQL statement; - reads it from standard input.")],
    output: Annotated[
        str | None,
        typer.Option("--format", "-f", help="A ClickHouse format: CSVWithNames, JSONEachRow, Vertical, …"),
    ] = None,
    user: Annotated[str, typer.Option(help="Ask as this user.")] = "analyst",
) -> None:
    """Ask ClickHouse. Prints a table on a terminal and tab-separated text elsewhere.

    Example: weir sql "SELECT src, sum(octets) AS o FROM v_flows GROUP BY src ORDER BY o DESC LIMIT 10"
    """
    text = sys.stdin.read() if query == "-" else query
    form = output or ("PrettyCompactMonoBlock" if sys.stdout.isatty() else "TabSeparatedWithNames")
    for chunk in connect(_stack(), user).stream(text, default_format=form):
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


@app.command(name="ledger")
def ledger_command(
    since: Annotated[str, typer.Option(help="How far back: 90s, 10min, 1h, 2d.")] = "10min",
    until: Annotated[
        str,
        typer.Option(help="Leave out what is younger than this; the newest intervals are still on their way."),
    ] = "20s",
    probe: Annotated[str | None, typer.Option(help="One probe alone.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: the rows, the sums, the findings.")] = False,
    limit: Annotated[int, typer.Option(help="Rows of the table.")] = 20,
) -> None:
    """Show where every packet went, interval by interval. Exit status 1 where something is missing.

    Example: weir ledger --since 1h --probe border
    """
    store = connect(_stack(), "analyst")
    rows = ledger.read(store, ledger.condition(since, probe, until))
    stale = ledger.staleness(store)
    if as_json:
        found = [*ledger.findings(rows), *([stale] if stale else [])]
        shown = {"rows": rows, "sums": ledger.totals(rows), "findings": [vars(one) for one in found]}
        print(json.dumps(shown, indent=2))
        raise typer.Exit(1 if any(one.loss for one in found) else 0)
    sound = ledger.show(console, rows, limit=limit)
    if stale:
        console.print(f"{stale.probe}: {stale.text}", style="red", highlight=False)
    raise typer.Exit(0 if sound and not stale else 1)


@app.command(name="alerts")
def alerts_command(
    only_open: Annotated[bool, typer.Option("--open", help="Leave out those that are over.")] = False,
    since: Annotated[str, typer.Option(help="How long ago one may have ended: 90s, 10min, 1h, 2d.")] = "1h",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show alerts on probes, open ones first. Exit status 1 where a critical one is open, or the jobs tell nothing.

    Example: weir alerts --since 1d
    """
    store = connect(_stack(), "analyst")
    rows = alerts.read(store, since=None if only_open else since)
    # Where the jobs are down nobody opens alerts.
    stale = ledger.staleness(store)
    if as_json:
        print(json.dumps({"alerts": rows, "stale": stale.text if stale else None}, indent=2))
    else:
        alerts.show(console, rows)
        if stale:
            console.print(f"alerts may be old: {stale.text}", style="red", highlight=False)
    raise typer.Exit(1 if stale or alerts.counts(rows)["critical"] else 0)


@probe_app.command("add")
def probe_add(
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
    stack = _stack()
    if not kafka.PROBE_NAME.fullmatch(name):
        raise WeirError(
            f"'{name}' is no name for a probe",
            hint="small letters, digits and hyphens, 63 at most, such as border-1",
        )
    if interval not in (1, 2, 5, 10, 15, 30):
        raise WeirError(f"an interval of {interval} s does not divide every window", hint="use 1, 2, 5, 10, 15 or 30")
    made = enrol(stack, name, workers, interval, site, rank, one_way)
    print(f"enrolled {name}" + (f" ({', '.join(made)})" if made else ", its topics were there already"))


@probe_app.command("set")
def probe_set(
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
    now = describe_probe(_stack(), name, site, rank, one_way)
    view = "one direction of each flow" if now.one_way else "both directions"
    print(f"{name}: site '{now.site}', rank {now.rank}, sees {view}")


@probe_app.command("list")
def probe_list() -> None:
    """List the enrolled probes, and when each was last heard.

    Example: weir probe list
    """
    store: ClickHouse = connect(_stack(), "analyst")
    rows = store.rows(
        "SELECT p.probe AS probe, p.workers AS workers, p.interval_ms AS interval_ms, p.site AS site, p.rank AS rank, p.one_way AS one_way, "
        "if(l.last = 0, '', formatDateTime(toDateTime(l.last, 'UTC'), '%Y-%m-%dT%H:%i:%SZ')) AS last_heard, l.version AS version "
        "FROM (SELECT * FROM probes FINAL) AS p LEFT JOIN (SELECT probe, toUnixTimestamp(max(ts)) AS last, anyLast(agent_version) AS version "
        "FROM ledger WHERE state IN ('closed', 'batches_missing') GROUP BY probe) AS l ON l.probe = p.probe ORDER BY probe"
    )
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("probe", "workers", "interval", "site", "rank", "sees", "last heard (UTC)", "agent"):
        table.add_column(name)
    for row in rows:
        table.add_row(
            row["probe"],
            str(row["workers"]),
            f"{row['interval_ms'] / 1000:g} s",
            row["site"],
            str(row["rank"]),
            "one way" if row["one_way"] else "both ways",
            row["last_heard"] or "never",
            row["version"],
        )
    console.print(table if rows else "No probe is enrolled. Example: weir probe add border")


@prefixes_app.command("set")
def prefixes_set(
    prefix: Annotated[str, typer.Argument(help="Such as 192.0.2.0/24 or 2001:db8::/32; the longest match wins.")],
    customer: Annotated[str, typer.Option(help="Whose it is.")] = "",
    site: Annotated[str, typer.Option(help="Where it is; a probe there sees it as inside.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="A label; may be given again.")] = None,
    national: Annotated[bool, typer.Option("--national", help="It is inside the nation.")] = False,
) -> None:
    """Say whose a prefix is; all that was said of it before is replaced. It holds within seconds, and nothing restarts.

    Example: weir prefixes set 192.0.2.0/24 --customer "Fjord Power" --site oslo --tag power --national
    """
    try:
        name, said = prefixes.canonical(prefix), prefixes.describe(customer, site, tag or [], national)
    except ValueError as error:
        raise WeirError(str(error)) from None
    done = prefixes.apply(_stack(), {name: said})
    print(f"{name} is set, id {done.set[name].id}" if done.set else f"{name} was so already")


@prefixes_app.command("remove")
def prefixes_remove(prefix: Annotated[str, typer.Argument(help="A declared prefix.")]) -> None:
    """Forget a prefix. What is stored keeps its name; new records get that of the next shorter prefix, if any.

    Example: weir prefixes remove 192.0.2.0/24
    """
    try:
        name = prefixes.canonical(prefix)
    except ValueError as error:
        raise WeirError(str(error)) from None
    if not prefixes.apply(_stack(), {}, removed=[name]).removed:
        raise WeirError(f"{name} is not declared", hint="weir prefixes list shows what is", status=1)
    print(f"{name} is removed")


@prefixes_app.command("list")
def prefixes_list() -> None:
    """List the declared prefixes: a table on a terminal, elsewhere CSV that `weir prefixes import` reads.

    Example: weir prefixes list > prefixes.csv
    """
    found = prefixes.declared(_stack().brokers)
    if not sys.stdout.isatty():
        prefixes.write_file(found, sys.stdout)
        return
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("prefix", "id", "customer", "site", "tags", "national"):
        table.add_column(name)
    for prefix, entry in prefixes.sorted_entries(found):
        said = entry.description
        national = "yes" if said.national else ""
        table.add_row(prefix, str(entry.id), said.customer, said.site, " ".join(said.tags), national)
    console.print(table if found else "No prefix is declared. Example: weir prefixes set 192.0.2.0/24 --customer Fjord")


@prefixes_app.command("import")
def prefixes_import(
    file: Annotated[Path, typer.Argument(help="CSV with the header prefix,customer,site,tags,national.")],
    replace: Annotated[bool, typer.Option("--replace", help="Remove every prefix that is not in the file.")] = False,
) -> None:
    """Declare the prefixes of a file. Where a line is wrong nothing is changed.

    Tags are separated by spaces or semicolons; national is true or false. Only what differs gets a new id.

    Example: weir prefixes import customers.csv --replace
    """
    wanted = prefixes.read_file(file)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what)
            bar.update(tasks[what], completed=done, total=total)

        done = prefixes.apply(_stack(), wanted, replace=replace, progress=progress)
    print(f"{file}: {done}")


@letters_app.command("list")
def letters_list(limit: Annotated[int, typer.Option(help="The newest so many.")] = 20) -> None:
    """List refused messages with their causes, newest last.

    Example: weir dead-letters list
    """
    letters = list(kafka.dead_letters(_stack().brokers))
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("number", "when (UTC)", "from", "octets"):
        table.add_column(name, no_wrap=True)
    table.add_column("cause", overflow="fold")
    for letter in letters[-limit:]:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(letter.at_ms / 1000))
        origin = f"{letter.topic}/{letter.partition}@{letter.origin_offset}"
        table.add_row(str(letter.offset), when, origin, f"{len(letter.value):,}", letter.cause)
    if letters:
        console.print(table)
    console.print(f"{len(letters)} refused messages" if letters else "No refused messages.")


@letters_app.command("replay")
def letters_replay(
    number: Annotated[int | None, typer.Option(help="One message alone, by its number in the list.")] = None,
    cause: Annotated[str | None, typer.Option(help="Only those of one cause (its first word).")] = None,
) -> None:
    """Put refused messages back where they came from, for a newer reader.

    What is still not understood is refused again; what is stored already is recognised and dropped.

    Example: weir dead-letters replay --cause major
    """
    stack = _stack()
    letters = [
        letter
        for letter in kafka.dead_letters(stack.brokers)
        if number in (None, letter.offset) and cause in (None, letter.cause.split(":")[0])
    ]
    arrived = kafka.send_back(stack.brokers, letters)
    print(f"{arrived} of {len(letters)} messages put back")
    raise typer.Exit(0 if arrived == len(letters) else 1)


@storage_app.callback()
def storage_show(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """Show what each tier of the store takes, what a day adds, and the day on which the budget is spent.

    Example: weir storage --json
    """
    if context.invoked_subcommand is None:
        stack = _stack()
        seen = storage.survey(stack, connect(stack, "admin"))
        if as_json:
            print(json.dumps(seen.as_json(), indent=2))
        else:
            seen.show(console)


@storage_app.command("keep")
def storage_keep(
    every: Annotated[float, typer.Option(min=0, help="Stay, and do it again each so many minutes.")] = 0,
) -> None:
    """Make room: drop what is older than its tier is kept, and the oldest where the budget is spent; roll days up.

    `weir up` runs it as a service (storage.every_minutes).

    Example: weir storage keep
    """
    stack = _stack()
    if every:
        storage.serve(stack, every)
        return
    done = 0
    for line in storage.keep(stack, connect(stack, "admin")):
        print(line)
        done += 1
    if not done:
        print("nothing to do: all fits, and every day is rolled up")


@storage_app.command("roll-up")
def storage_roll_up(
    day: Annotated[str | None, typer.Option(help="This day anew, such as 2026-11-20; else all that changed.")] = None,
) -> None:
    """Write the daily lists (talkers_daily, mixes_daily) of days that are over. The service does it by itself.

    Example: weir storage roll-up --day 2026-11-20
    """
    stack = _stack()
    with storage.alone(stack):
        done = list(storage.roll_up(connect(stack, "admin"), storage.parse_day(day) if day else None))
    print("\n".join(f"{when} {table}: {rows:,} rows" for when, table, rows in done) or "nothing has changed")


@storage_app.command("plan")
def storage_plan(
    flows_per_second: Annotated[float, typer.Option(help="Flows that begin in a second, on the average over a day.")],
    probes: Annotated[int, typer.Option(min=1, help="Probes that they come from.")] = 1,
    raw_days: Annotated[float, typer.Option(help="How long raw records are kept.")] = 7,
    hourly_years: Annotated[float, typer.Option(help="How long hourly records are kept.")] = 2,
    daily_years: Annotated[
        float, typer.Option(help="For how long daily rows, which are never dropped, are reckoned.")
    ] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Reckon rows, disk and machines before there is a store, from what was measured.

    Example: weir storage plan --flows-per-second 2000 --raw-days 14 --hourly-years 3
    """
    plan = sizing.Plan(flows_per_second, probes, raw_days, hourly_years, daily_years)
    if as_json:
        print(json.dumps(plan.as_json(), indent=2))
    else:
        plan.show(console)


@app.command()
def backup(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Made where absent; each backup has its own.")],
    base: Annotated[
        Path | None, typer.Option(help="An earlier backup: what it holds is not written again. Keep both.")
    ] = None,
) -> None:
    """Back up every table of the store, with a manifest to verify it by. Everything goes on meanwhile.

    Where the stack is down, the store alone is started for it.

    Example: weir backup /var/backups/weir/2026-11-22
    """
    with Stages(console) as stages:
        entries = backups.backup(_stack(), directory, stages, base)
    console.print(
        f"{directory}: {len(entries)} tables, {sum(entry.rows for entry in entries):,} rows. "
        "Passwords are not in it: keep the folder secrets/ too.",
        highlight=False,
        soft_wrap=True,
    )


@app.command()
def restore(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="What weir backup wrote.")],
    force: Annotated[bool, typer.Option("--force", help="Replace what the store holds.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only verify the backup; nothing is changed.")] = False,
) -> None:
    """Put a backup in the place of what the store holds, once it is verified. The jobs stop meanwhile.

    Where anything is wrong with it, what was there stays.

    Example: weir restore /var/backups/weir/2026-11-22
    """
    with Stages(console) as stages:
        entries = backups.restore(_stack(), directory, stages, force=force, check=check)
    rows = sum(entry.rows for entry in entries)
    done = "is whole" if check else "is restored"
    console.print(f"{directory} {done}: {len(entries)} tables, {rows:,} rows.", highlight=False, soft_wrap=True)


@app.command()
def forget(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="An address, or a prefix: all addresses in it.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove an address from everything that is stored, and search for it again. There is no way back.

    Example: weir forget 192.0.2.7 --dry-run
    """
    stack = _stack()
    store, wanted = connect(stack, "admin", patience=None), forgetting.network(address)
    with Stages(console) as stages:
        found = forgetting.search(store, wanted, stages)
    table = Table(header_style="bold", box=None, pad_edge=False)
    for title in ("table", "rows", "named in"):
        table.add_column(title, justify="right" if title == "rows" else "left")
    for one in found:
        table.add_row(one.table, f"{one.rows:,}", ", ".join(f"{column} {n:,}" for column, n in one.columns.items()))
    name = wanted[0] if wanted.num_addresses == 1 else wanted
    console.print(table if found else f"Nothing that is stored names {name}.", highlight=False)
    if found and not dry_run:
        if not yes:
            if not sys.stdin.isatty():
                raise WeirError(
                    "nothing was removed: nobody was there to confirm it", hint="--yes removes without asking"
                )
            typer.confirm(f"Remove these rows for ever, of every table, because they name {name}?", abort=True)
        with Stages(console) as stages:
            forgetting.forget(store, wanted, stages, found)
        rows = sum(one.rows for one in found)
        console.print(f"{name} is removed: {rows:,} rows of {len(found)} tables.", highlight=False)
    console.print("Where else it is, and what stays:")
    for line in forgetting.elsewhere():
        console.print(f"- {line}", highlight=False, soft_wrap=True)


@app.command()
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

    raise typer.Exit(run(_stack(), console, pcap=pcap, iface=iface, once=once, seconds=seconds))


def main() -> None:
    """Entry point: every expected error is one line and an exit status."""
    try:
        app(prog_name="weir")
    except WeirError as error:
        error.show()
        sys.exit(error.status)
    except BrokenPipeError:
        sys.exit(0)
