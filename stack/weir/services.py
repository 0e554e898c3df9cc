"""The services of a stack: how to prepare, start and check each.

All services look the same: a name, a command, an environment, a port, and a `healthy` that returns quickly.
"""

from __future__ import annotations

import base64
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from weir import kafka
from weir.clickhouse import connect
from weir.config import Agent, Stack, octets
from weir.errors import WeirError
from weir.java import NO_FILES
from weir.java import properties as java_properties

#: Seconds after which Kafka asks a probe for its password again.
REAUTHENTICATION_S = 8
#: Seconds after which Kafka ends a connection on which nothing comes, a login that does not go on included.
IDLE_S = 60
#: Per cent of one thread's time that Kafka gives to the requests of one user, a probe or the jobs.
REQUEST_PERCENT = 100
#: Octets of a request to Kafka; a message of the jobs has up to 8 MiB.
REQUEST_OCTETS = 10 << 20


@dataclass(frozen=True)
class Service:
    """One process of the stack."""

    name: str
    command: list[str]
    port: int
    healthy: Callable[[], bool]
    needs: Path  # a file without which the command cannot run
    environment: dict[str, str] = field(default_factory=dict)
    prepare: Callable[[], None] = lambda: None
    start_seconds: int = 120  # how long it may take to become healthy
    ends: bool = False  # whether it may end by itself: with status 0 it is not started again


def all_services(stack: Stack) -> list[Service]:
    """Every configured service, in start order."""
    services = []
    if not stack.config.kafka.brokers:
        services.append(_kafka(stack))
    if not stack.config.clickhouse.url:
        services.append(_clickhouse(stack))
    services.append(_flink(stack))
    if stack.config.storage.every_minutes:
        services.append(_storage(stack))
    if stack.config.superset.enabled:
        services.append(_superset(stack))
    services += [agent(stack, one) for one in stack.config.agents]
    return services


def answers(url: str) -> bool:
    """Whether a GET returns 200 within two seconds."""
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def _kafka(stack: Stack) -> Service:
    ports, data = stack.config.ports, stack.data / "kafka"
    properties = stack.run / "kafka.properties"
    # The first jar's classes take the place of Kafka's: they bound what the broker makes of a batch.
    java = ["java", *broker_java(stack, ports.kafka_probes), "-cp", f"{stack.broker_jar}:{stack.kafka_jars}/*"]

    def prepare() -> None:
        from weir.authority import issue  # its library takes a while to load, and most commands need none of it

        issue(stack.certificates, [stack.probes_host])
        properties.write_text(java_properties(broker_properties(stack, data)))
        if not (data / "meta.properties").exists():
            storage = [
                *java,
                "kafka.tools.StorageTool",
                "format",
                "-t",
                cluster_id(),
                "-c",
                str(properties),
                "--standalone",
            ]
            done = subprocess.run(storage, capture_output=True, text=True, check=False)
            if done.returncode:
                raise WeirError(f"formatting Kafka's storage failed: {done.stderr.strip()[-500:]}", status=1)

    return Service(
        name="kafka",
        command=[*java, "kafka.Kafka", str(properties)],
        port=ports.kafka,
        healthy=lambda: (
            kafka.takes_probes(stack.config.kafka.listen, ports.kafka_probes, stack.certificates.authority)
            and kafka.reachable(stack.brokers)
        ),
        needs=stack.broker_jar,
        prepare=prepare,
    )


def broker_java(stack: Stack, probes: int) -> list[str]:
    """Java's options for a broker that takes probes on this port."""
    return [
        f"-Xmx{stack.config.kafka.heap}",
        NO_FILES,
        "-XX:+UseSerialGC",
        # A broker that has run out of memory serves nobody: the supervisor starts it again.
        "-XX:+ExitOnOutOfMemoryError",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        # It keeps nothing about the producers that a probe may invent: see BoundedRecords.
        "-Dio.weir.noproducerids=true",
        # On this port each address has a share of the memory for requests (`io.weir.kafka.Unfinished`).
        f"-Dweir.probes.port={probes}",
    ]


def broker_properties(stack: Stack, data: Path) -> dict[str, object]:
    """The broker's properties; its data are in `data`."""
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{stack.config.ports.kafka_controller}",
        "controller.listener.names": "CONTROLLER",
        **_kafka_security(stack),
        "log.dirs": data,
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "message.max.bytes": 8388608,
        # Those in logs of earlier versions, which a broker reads again after it was killed.
        "producer.id.expiration.ms": 600000,
        "num.recovery.threads.per.data.dir": 2,
        # How often Kafka applies the bounds of topics, in octets and time.
        "log.retention.check.interval.ms": 30000,
    }


def _kafka_security(stack: Stack) -> dict[str, object]:
    """The broker's properties that say who may connect, and as whom.

    The stack's own parts present a certificate (listener INTERNAL, loopback alone); probes a name and password (PROBES).
    What no rule permits is refused.
    """
    ports, listen = stack.config.ports, stack.config.kafka.listen
    internal = f"INTERNAL://127.0.0.1:{ports.kafka}"
    return {
        "listeners": f"{internal},PROBES://{listen}:{ports.kafka_probes},CONTROLLER://127.0.0.1:{ports.kafka_controller}",
        "advertised.listeners": f"{internal},PROBES://{stack.probes_brokers}",
        "listener.security.protocol.map": "INTERNAL:SSL,PROBES:SASL_SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "INTERNAL",
        "listener.name.internal.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(weir\\.[a-z]+)$/$1/",
        **_pem_files(stack, "broker"),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.probes.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        # A password that is no longer valid ends a connection within this time.
        "listener.name.probes.scram-sha-512.connections.max.reauth.ms": REAUTHENTICATION_S * 1000,
        # Whoever connects to it makes the broker reserve memory: for the connection, before the login, and for each request.
        "listener.name.probes.max.connections": stack.config.kafka.probe_connections,
        "max.connections.per.ip": stack.config.kafka.address_connections,
        # The stack's own parts connect from there.
        "max.connections.per.ip.overrides": "127.0.0.1:100000",
        "connections.max.idle.ms": IDLE_S * 1000,
        "sasl.server.max.receive.size": 16 << 10,
        "socket.request.max.bytes": REQUEST_OCTETS,
        # Beyond this, requests wait in their senders' sockets.
        "queued.max.request.bytes": octets(stack.config.kafka.heap) * 2 // 5,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": "User:weir.broker;User:weir.command",
    }


def _pem_files(stack: Stack, part: str) -> dict[str, object]:
    return pem_files(stack.certificates.of(part), stack.certificates.authority)


def pem_files(key: Path, authority: Path) -> dict[str, object]:
    """Properties of Kafka's Java programs: the file with a part's key and certificate, and that of the authority that it trusts."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": key,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority,
    }


def limit_probes(stack: Stack) -> None:
    """Bound what each probe may publish and ask, unless the broker already does. Only Kafka's own command can say it.

    Raises WeirError if that command fails.
    """
    rate = stack.config.kafka.probe_rate
    done = stack.data / "kafka/weir-probe-rate"
    limits = f"{rate} {REQUEST_PERCENT}%"
    if done.exists() and done.read_text() == limits:
        return
    login = stack.run / "kafka-command.properties"
    properties = {"security.protocol": "SSL", **_pem_files(stack, "command")}
    login.write_text(java_properties(properties))
    command = ["java", "-Xmx96m", NO_FILES, "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command += ["-cp", f"{stack.kafka_jars}/*", "kafka.admin.ConfigCommand", "--bootstrap-server", str(stack.brokers)]
    command += ["--command-config", str(login), *probe_limits(stack)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise WeirError(f"Kafka took no limit for probes: {(answer.stdout + answer.stderr).strip()[-500:]}", status=1)
    done.write_text(limits)


def probe_limits(stack: Stack) -> list[str]:
    """Words for Kafka's command kafka.admin.ConfigCommand: how many octets a second each probe may publish, and how much of the
    broker's time its requests may take."""
    rate = stack.config.kafka.probe_rate
    change = ["--add-config", f"request_percentage={REQUEST_PERCENT}"]
    if rate:
        change[1] += f",producer_byte_rate={octets(rate)}"
    else:
        change += ["--delete-config", "producer_byte_rate"]
    return ["--alter", "--entity-type", "users", "--entity-default", *change]


def cluster_id() -> str:
    """A new id for a Kafka cluster: 128 random bits in 22 characters. Like Kafka's own, none begins with a dash, which
    its commands would take for an option.
    """
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return made


def _clickhouse(stack: Stack) -> Service:
    python = stack.venvs / "clickhouse/bin/python"
    return Service(
        name="clickhouse",
        command=[
            str(python),
            "-m",
            "weir_clickhouse",
            "--data",
            str(stack.data / "clickhouse"),
            "--backups",
            str(stack.backups),
            "--audit",
            str(stack.audit),
            "--listen",
            f"127.0.0.1:{stack.config.ports.clickhouse}",
            "--access",
            str(stack.access),
            "--memory",
            stack.config.clickhouse.memory,
            "--proxy-key",
            str(stack.secret_file("superset-proxy")),
            *(["--sign-on", file] if (file := _sign_on(stack)) else []),
        ],
        environment={"PYTHONPATH": str(stack.checkout / "clickhouse/embedded")} | stack.passwords,
        port=stack.config.ports.clickhouse,
        healthy=lambda: connect(stack, "admin").ping(),
        needs=python,
    )


def flink_memory(heap: str) -> list[str]:
    """Java's options for the jobs: the JVM reserves all memory at the start, in large pages if the system has them.

    The jobs fill their heap within seconds. Page faults during that growth would cost them a quarter of their time
    (measured once with `make bench-flink`).
    """
    return [
        f"-Xms{heap}",
        f"-Xmx{heap}",
        "-XX:+AlwaysPreTouch",
        "-XX:+UseTransparentHugePages",
        "-XX:MetaspaceSize=128m",
        "-XX:+UseParallelGC",
    ]


def _flink(stack: Stack) -> Service:
    settings = stack.config.flink
    scratch = stack.run / "flink"

    def prepare() -> None:
        # Remove the files that an earlier process left behind: a gigabyte after thirty of them.
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True, exist_ok=True)
        if not stack.config.kafka.brokers:
            properties = {"security.protocol": "SSL", **_pem_files(stack, "jobs")}
            _own_jobs_login(stack).write_text(java_properties(properties))

    return Service(
        name="flink",
        command=[
            "java",
            NO_FILES,
            f"-Djava.io.tmpdir={scratch}",
            *flink_memory(settings.heap),
            "-jar",
            str(stack.flink_jar),
            "--jobs",
            ",".join(settings.jobs),
            "--brokers",
            str(stack.brokers),
            "--kafka-properties",
            str(_jobs_login(stack) or ""),
            "--group",
            kafka.GROUP,
            "--clickhouse",
            settings.clickhouse_url or stack.clickhouse_url,
            "--database",
            stack.config.clickhouse.database,
            "--user",
            "writer",
            "--checkpoints",
            str(stack.data / "flink"),
            "--checkpoint-interval",
            settings.checkpoint_interval,
            "--parallelism",
            str(settings.parallelism),
            "--start",
            settings.start,
            "--resume",
            settings.resume,
            "--mix-window",
            settings.mix_window,
            "--topics",
            settings.topics,
            "--top",
            str(settings.top),
            "--port-report",
            str(settings.port_report),
            "--mix-top",
            str(settings.mix_top),
            "--mix-top-as",
            str(settings.mix_top_as),
            "--window-flows",
            str(settings.window_flows),
            "--window",
            settings.window,
            "--answer-timeout",
            settings.answer_timeout,
            "--national-delay",
            settings.national_delay,
            "--discovery-interval",
            settings.discovery_interval,
            "--max-pending",
            settings.max_pending,
            "--retry-for",
            settings.retry_for,
            *(["--as-database", settings.as_database] if settings.as_database else []),
            *(["--country-database", settings.country_database] if settings.country_database else []),
            *(["--privacy-key", settings.privacy_key] if settings.privacy_key else []),
            "--privacy-period",
            settings.privacy_period,
            "--privacy-names",
            settings.privacy_names,
            "--rest-port",
            str(stack.config.ports.flink),
            "--metrics-port",
            str(stack.config.ports.flink_metrics),
        ],
        environment=stack.password_file("writer"),
        prepare=prepare,
        port=stack.config.ports.flink,
        healthy=lambda: _flink_runs(stack),
        needs=stack.flink_jar,
        ends=True,
    )


def _own_jobs_login(stack: Stack) -> Path:
    return stack.run / "jobs-kafka.properties"


def _jobs_login(stack: Stack) -> Path | None:
    """The file of Kafka's properties by which the jobs log in."""
    given = stack.config.flink.kafka_properties
    if given:
        return Path(given).expanduser().absolute()
    return None if stack.config.kafka.brokers else _own_jobs_login(stack)


def _flink_runs(stack: Stack) -> bool:
    try:
        jobs = httpx.get(f"{stack.flink_url}/jobs/overview", timeout=2).json()["jobs"]
    except (httpx.HTTPError, ValueError, KeyError):
        return False
    return any(job["state"] == "RUNNING" and job["tasks"]["running"] == job["tasks"]["total"] for job in jobs)


def _storage(stack: Stack) -> Service:
    port = stack.config.ports.storage_metrics
    command = [str(stack.checkout / "stack/bin/weir"), *(["--config", str(stack.file)] if stack.file else [])]
    return Service(
        name="storage",
        command=[*command, "storage", "keep", "--every", str(stack.config.storage.every_minutes)],
        environment={"WEIR_HOME": str(stack.home), "WEIR_VENVS": str(stack.venvs)},
        port=port,
        healthy=lambda: answers(f"http://127.0.0.1:{port}/metrics"),
        needs=stack.venvs / "stack/bin/python",
    )


def _superset(stack: Stack) -> Service:
    python, script, environment = superset_command(stack)
    # Preparing the metadata takes a while the first time; as part of the command it shares the log and the restarts.
    line = f"{shlex.quote(str(python))} {shlex.quote(str(script))}"
    return Service(
        name="superset",
        command=["bash", "-c", f"{line} init && exec {line} serve"],
        environment=environment,
        port=stack.config.ports.superset,
        healthy=lambda: answers(f"{stack.superset_url}/health"),
        needs=python,
        start_seconds=240,
    )


def superset_command(stack: Stack) -> tuple[Path, Path, dict[str, str]]:
    """The interpreter, the script weir_superset.py and its environment."""
    settings, store = stack.config.superset, httpx.URL(stack.clickhouse_url)
    tls = store.scheme == "https"
    environment = {
        "WEIR_SUPERSET_HOME": str(stack.data / "superset"),
        "WEIR_SUPERSET_SECRET_KEY_FILE": str(stack.secret_file("superset-key")),
        "WEIR_SUPERSET_ADMIN_PASSWORD_FILE": str(stack.secret_file("superset-admin")),
        "WEIR_SUPERSET_PORT": str(stack.config.ports.superset),
        "WEIR_SUPERSET_PUBLIC": "yes" if stack.config.is_public else "no",
        "WEIR_SUPERSET_URL": settings.url,
        "WEIR_SUPERSET_PROXY_KEY_FILE": str(stack.secret_file("superset-proxy")),
        "WEIR_CLICKHOUSE_HOST": store.host,
        "WEIR_CLICKHOUSE_PORT": str(store.port or (8443 if tls else 8123)),
        "WEIR_CLICKHOUSE_TLS": "yes" if tls else "no",
        "WEIR_CLICKHOUSE_AUTHORITY": stack.config.clickhouse.authority,
        **stack.password_file("dashboard"),
    }
    if file := _sign_on(stack):
        environment["WEIR_SUPERSET_SIGN_ON_FILE"] = file
    return stack.venvs / "superset/bin/python", stack.checkout / "superset/weir_superset.py", environment


def _sign_on(stack: Stack) -> str:
    """The file with the key `sign_on`, for the store and the dashboards; empty if people's accounts are nowhere else."""
    if not stack.config.sign_on:
        return ""
    file = stack.run / "sign-on.json"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.write_text(stack.config.sign_on.model_dump_json())
    return str(file)


def agent(stack: Stack, one: Agent) -> Service:
    """A capture agent on this machine."""
    login = [] if stack.config.kafka.brokers else ["--credentials", str(stack.kept_credentials(one.probe))]
    return Service(
        name=f"agent-{one.probe}",
        command=[str(stack.agent_binary), "run", "--config", str(one.config), *login],
        port=0,
        healthy=lambda: True,
        needs=stack.agent_binary,
    )
