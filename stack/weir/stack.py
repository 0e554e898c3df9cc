"""Start and stop a whole stack."""

from __future__ import annotations

import functools
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from weir import (
    alerts,
    backup,
    credentials,
    demo_network,
    disks,
    kafka,
    locks,
    memories,
    owners,
    ports,
    private,
    savepoint,
)
from weir.clickhouse import connect
from weir.config import Stack
from weir.errors import WeirError
from weir.migrations import migrate
from weir.probes import Declaration, declare, is_enrolled, undeclare
from weir.services import Service, agent, all_services, limit_probes
from weir.stages import Stages
from weir.supervisor import Supervisor


@dataclass(frozen=True)
class Enrolment:
    """topics: those that are new. bundle: the credentials, if the probe had none."""

    topics: list[str]
    bundle: str


# Agents first, so that their last messages reach a running broker; the store before the broker.
_STOP_ORDER = ["superset", "storage", "flink", "clickhouse", "kafka"]


def stop_order(stack: Stack, extra: list[str] | None = None) -> list[str]:
    """Names of the processes in stop order."""
    return [*(extra or []), *(f"agent-{one.probe}" for one in stack.config.agents), *_STOP_ORDER]


def migrated(stack: Stack, stages: Stages, cluster: str) -> list[str]:
    """Apply new migrations, with their progress as a stage; returns the names of those applied."""
    stages.begin("migrations")
    said = functools.partial(stages.note, "migrations")
    applied = migrate(connect(stack, "admin", patience=None), cluster=cluster, said=said)
    stages.done("migrations", f"{len(applied)} applied" if applied else "nothing new")
    return applied


def take_over(stack: Stack, supervisor: Supervisor, console: Console) -> None:
    """Let the stack be this command's, whose end takes it down. What such a command left running that was killed itself is
    stopped first. Raises WeirError if the stack is up otherwise, or its disk has no room for a start.
    """
    kept = _command_of(stack)
    if supervisor.running() and kept.exists() and kept.read_text() != _named(kept.read_text().partition(" ")[0]):
        console.print("The command that ran this stack was killed: stopping what it left.")
        take_down(stack, supervisor, console)
    supervisor.refuse_if_up()
    disks.check(stack)
    stack.prepare()
    kept.write_text(_named(str(os.getpid())))


def let_go(stack: Stack) -> None:
    """Let the stack stay up when this command ends."""
    _command_of(stack).unlink(missing_ok=True)


def _command_of(stack: Stack) -> Path:
    """The file that names the process whose end takes the stack down."""
    return stack.run / "command"


def _named(pid: str) -> str:
    """A process's number, and when it started (clock ticks since the machine's start); nothing if there is no such process."""
    try:
        # The second field, the name, may hold anything; the next is the state.
        state, *rest = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else f"{pid} {rest[18]}"


def _settle_ports(stack: Stack, supervisor: Supervisor, stages: Stages) -> None:
    """Exchange ports that other programs hold for free ones. Raises WeirError if the stack is up."""
    supervisor.refuse_if_up()
    supervisor.end_leftovers()
    before = stack.config.ports
    if moved := ports.choose(stack):
        stages.begin("ports")
        stages.done(
            "ports", ", ".join(f"{name} {port} ({getattr(before, name)} is taken)" for name, port in moved.items())
        )


def bring_up(
    stack: Stack,
    supervisor: Supervisor,
    stages: Stages,
    extra: list[Service] | None = None,
    wait_for_superset: bool = True,
) -> None:
    """Start every service in the order of its dependencies, and wait until each is healthy.

    `extra` are services that are declared but not started. An agent whose credentials Kafka does not accept is left out.
    Raises WeirError at the first other failure.
    """
    stack.prepare()
    _settle_ports(stack, supervisor, stages)
    if said := memories.settle(stack):
        stages.begin("memory")
        stages.done("memory", said)
    services = {service.name: service for service in all_services(stack)}
    supervisor.launch([*services.values(), *(extra or [])])
    for name in ("kafka", "clickhouse", "superset"):
        if name in services:
            stages.begin(name)
            supervisor.start(services[name])
    if "kafka" in services:
        supervisor.wait(services["kafka"])
        limit_probes(stack)
        credentials.permit_jobs(stack)
    made = kafka.create_topics(stack.brokers)
    if "kafka" in services:
        kafka.configure_topics(stack.brokers)
        stages.done("kafka", f"{stack.brokers}" + (f", {len(made)} topics created" if made else ""))
    if "clickhouse" in services:
        supervisor.wait(services["clickhouse"])
        stages.done("clickhouse", stack.clickhouse_url)
    backup.recover(stack)
    migrated(stack, stages, stack.config.clickhouse.cluster)
    complete_probes(stack)
    stages.begin("flink")
    supervisor.start(services["flink"])
    supervisor.wait(services["flink"])
    stages.done("flink", f"{stack.flink_url}, jobs {', '.join(stack.config.flink.jobs)}")
    if "storage" in services:
        stages.begin("storage")
        supervisor.start(services["storage"])
        supervisor.wait(services["storage"])
        stages.done("storage")
    for one in stack.config.agents:
        service = agent(stack, one)
        stages.begin(service.name)
        try:
            enrol_here(stack, one.probe)
        except credentials.Unusable as error:
            stages.failed(service.name, f"not started: {error}; {error.hint}")
            continue
        supervisor.start(service)
        supervisor.wait(service)
        stages.done(service.name)
    if wait_for_superset:
        superset_up(stack, supervisor, stages)


def upgrade(stack: Stack, supervisor: Supervisor, stages: Stages) -> None:
    """Replace the running services of another version: their jobs stop with a savepoint, from which those of this
    version start. Raises WeirError; without a savepoint everything continues as before.
    """
    stages.begin("savepoint")
    path = savepoint.stop(stack)
    stages.done("savepoint", str(path))
    stages.begin("stop")
    supervisor.shutdown(stop_order(stack))
    stages.done("stop")
    let_go(stack)
    bring_up(stack, supervisor, stages)


def superset_up(stack: Stack, supervisor: Supervisor, stages: Stages) -> None:
    """Wait for the dashboards."""
    if stack.config.superset.enabled:
        supervisor.wait(next(service for service in all_services(stack) if service.name == "superset"))
        stages.done("superset", dashboard_url(stack))


def dashboard_url(stack: Stack) -> str:
    """Address of the first page to open: it shows numbers within a minute."""
    return f"{stack.superset_url}/superset/dashboard/now/"


def take_down(stack: Stack, supervisor: Supervisor, console: Console, extra: list[str] | None = None) -> None:
    """Stop every process that this stack started, and no other."""
    with console.status("stopping: agents first, then the store, then the broker"):
        supervisor.shutdown(stop_order(stack, extra))
    demo_network.remove_leftovers(stack)
    owners.give_back(stack.home)


def enrol(
    stack: Stack,
    name: str,
    workers: int = 1,
    interval_s: int = 10,
    site: str | None = None,
    rank: int | None = None,
    one_way: bool | None = None,
    pseudonyms: bool | None = None,
) -> Enrolment:
    """Create a probe's topics, declare the probe, write its row in `probes`, and give it a password if it has none.

    A `site`, `rank`, `one_way` or `pseudonyms` of None keeps the declared value. Raises credentials.Unusable if the probe is revoked.
    """
    if credentials.manages(stack):
        credentials.check_not_revoked(stack, name)
    kafka.create_topics(stack.brokers)
    made = kafka.create_topics(stack.brokers, name, workers)
    declared = declare(stack.brokers, name, site, rank, one_way, pseudonyms)
    row = {
        "probe": name,
        "workers": workers,
        "interval_ms": interval_s * 1000,
        "site": declared.site,
        "rank": declared.rank,
        "one_way": declared.one_way,
        "enrolled_at": int(time.time()),
        "updated_at": time.time(),
    }
    connect(stack, "writer").execute(f"INSERT INTO probes FORMAT JSONEachRow\n{json.dumps(row)}")
    new = credentials.manages(stack) and not credentials.has(stack, name)
    return Enrolment(made, credentials.mint(stack, name) if new else "")


def complete_probes(stack: Stack) -> None:
    """Give enrolled probes the topics and rights that they lack: those that this version adds to earlier ones', or that an
    interrupted command left out."""
    rows = connect(stack, "writer").rows("SELECT probe, workers FROM probes FINAL")
    present = {place.topic for place in kafka.partitions(stack.brokers)}
    for row in rows:
        if not kafka.topics_of(row["probe"]).keys() <= present:
            kafka.create_topics(stack.brokers, row["probe"], row["workers"])
    if credentials.manages(stack):
        credentials.permit(stack, [row["probe"] for row in rows])


def enrol_here(stack: Stack, name: str, site: str | None = None) -> list[str]:
    """Enrol a probe whose agent runs on this machine, and keep its credentials; returns the new topics.

    Raises credentials.Unusable if Kafka does not accept those that it has: somebody revoked them, or restored others.
    """
    with locks.held(stack, "probes"):
        path = stack.kept_credentials(name)
        if credentials.manages(stack) and path.exists() and is_enrolled(connect(stack, "writer"), name):
            credentials.check_kept(stack, name, path)
        made = enrol(stack, name, site=site)
        if credentials.manages(stack) and (made.bundle or not path.exists()):
            private.write(path, (made.bundle or credentials.mint(stack, name)).encode(), over=True)
    return made.topics


def retire(stack: Stack, name: str) -> list[str]:
    """Take a probe's rights, delete its topics, its declaration and its row in `probes`, and close its alerts; returns the
    topics. Stored records stay.

    Raises WeirError if no such probe is enrolled.
    """
    store = connect(stack, "admin")
    if not is_enrolled(store, name):
        raise WeirError(f"no probe is named '{name}'", hint="weir probe list shows them")
    # The row comes last, so that an interrupted removal can be repeated.
    if credentials.manages(stack):
        credentials.revoke(stack, name)
    deleted = kafka.delete_topics(stack.brokers, name)
    alerts.close(store, name)
    undeclare(stack.brokers, name)
    store.execute(f"ALTER TABLE probes DELETE WHERE probe = '{name}' SETTINGS mutations_sync = 2")
    if credentials.manages(stack):
        credentials.forget(stack, name)
    return deleted


def describe_probe(
    stack: Stack, name: str, site: str | None, rank: int | None, one_way: bool | None, pseudonyms: bool | None
) -> Declaration:
    """Change the declaration of an enrolled probe; None keeps a value. Returns the new declaration.

    Raises WeirError if no such probe is enrolled.
    """
    store = connect(stack, "writer")
    rows = {row["probe"]: row for row in store.rows("SELECT * FROM probes FINAL")}
    if name not in rows:
        raise WeirError(f"no probe is named '{name}'", hint=f"weir probe list shows them; weir probe add {name}")
    kafka.create_topics(stack.brokers)
    declared = declare(stack.brokers, name, site, rank, one_way, pseudonyms)
    row = rows[name] | {"site": declared.site, "rank": declared.rank, "one_way": declared.one_way}
    row["updated_at"] = time.time()
    store.execute(f"INSERT INTO probes FORMAT JSONEachRow\n{json.dumps(row)}")
    return declared
