"""A stack under test, and helpers to inspect and damage it."""

from __future__ import annotations

import fcntl
import functools
import importlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from unittest import mock

import yaml
from confluent_kafka import Consumer, Producer, TopicPartition

from run import new_logs
from weir import config, credentials, kafka, ledger, private
from weir.clickhouse import ClickHouse, connect
from weir.migrations import migrate
from weir.services import all_services
from weir.stack import enrol
from weir.storage import service
from weir.supervisor import Supervisor

CHECKOUT = Path(__file__).resolve().parents[2]
BUILT = CHECKOUT / ".weir"
#: Where `weir` finds the artefacts of `make build`.
ENVIRONMENT = {"WEIR_VENVS": str(BUILT / "venvs"), "WEIR_KAFKA_JARS": str(BUILT / "kafka")}
#: The environment variable that names the folder of a test session; its processes coordinate there.
FOLDER = "WEIR_TEST_FOLDER"
#: The environment variable that names the folder of a run's logs.
LOGS = "WEIR_TEST_LOGS"
#: Tests alongside other work may take this many times as long.
PATIENCE = 4
#: How many seeds `make test` runs of tests that have more; `make test-long` runs all (`WEIR_SEEDS=100`).
SEEDS = int(os.environ.get("WEIR_SEEDS", "1"))
#: Ports of servers under test: below those that the kernel gives to clients.
PORTS = range(11_000, 32_000)
#: A folder with a `java` that suits stacks of a few minutes.
QUICK_JAVA = CHECKOUT / "tests/lib/bin"
#: Public captures beside the checkout, which may be absent.
SHARED = CHECKOUT.parent / "shared"
AGENT = Path(os.environ.get("WEIR_PROBE", CHECKOUT / "capture/target/release/weir-probe"))
BENCH = Path(os.environ.get("WEIR_BENCH", CHECKOUT / "capture/target/release/weir-bench"))


def free_ports(count: int) -> list[int]:
    """Ports without a TCP listener or a UDP socket, below those that the kernel gives to clients; a session hands out each one once."""
    session, found = os.environ.get(FOLDER), list[int]()
    # Outside a session of tests nobody else draws from the same numbers, and nothing is to stay behind.
    with (Path(session) / "ports").open("a+") if session else tempfile.TemporaryFile("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        port = int(file.read() or random.randrange(PORTS.start, PORTS.stop))
        while len(found) < count:
            port = port + 1 if port + 1 in PORTS else PORTS.start
            with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
                try:
                    tcp.bind(("127.0.0.1", port))
                    udp.bind(("127.0.0.1", port))
                except OSError:
                    continue
            found.append(port)
        file.truncate(0)
        file.write(str(port))
    return found


def live_possible() -> bool:
    """Whether this machine permits network namespaces."""
    if os.geteuid() or not shutil.which("ip"):
        return False
    made = (
        subprocess.run(["ip", "netns", "add", f"weir-try-{os.getpid()}"], capture_output=True, check=False).returncode
        == 0
    )
    subprocess.run(["ip", "netns", "delete", f"weir-try-{os.getpid()}"], capture_output=True, check=False)
    return made


def logs() -> Path:
    """The folder of this run's logs: that of `tests/run.py`, or a new one that this process and its children share."""
    if LOGS not in os.environ:
        os.environ[LOGS] = str(new_logs(BUILT / "test-logs"))
    return Path(os.environ[LOGS])


def skipped(reason: str, count: int = 1) -> None:
    """Print the line by which `tests/run.py` counts tests that a program left out."""
    print(f"SKIPPED {count} {reason}", flush=True)


def eventually(question: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Repeat the query until the answer is true, and return it; fail with `what` after several times the seconds that it takes
    on a machine with nothing else to do."""
    seconds *= PATIENCE
    end = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if answer := question():
            return answer
        now = time.monotonic()
        if now > end:
            raise AssertionError(f"not within {seconds:.0f} s: {what}; the last answer was {answer!r}")
        # Polling takes at most a tenth of the time, so that the polled services can work.
        time.sleep(max(0.4, 9 * (now - began)))


@dataclass
class Done:
    """The result of a command."""

    status: int
    out: str
    err: str


class RunningStack:
    """`weir up --detach` in a folder of its own; a context manager that stops it again.

    With `home` it attaches to the stack that already runs there; a new one is in a folder that is called `named`. A stack
    `as_shipped` runs as a user's does; any other has less memory, and a `java` that starts quickly.
    """

    def __init__(
        self,
        *,
        home: Path | None = None,
        named: str = "",
        as_shipped: bool = False,
        superset: bool = False,
        proxied_clickhouse: bool = False,
        **flink: Any,
    ) -> None:
        # A private folder: Unix sockets need a short path, and another pytest session deletes pytest's folders.
        self.home = home or Path(tempfile.mkdtemp(prefix="weir-", dir=os.environ.get(FOLDER))) / named
        if home is None:
            self.home.mkdir(exist_ok=True)
            self._configure(superset, proxied_clickhouse, flink if as_shipped else {"heap": "900m", **flink})
        self.environment = os.environ | {"WEIR_HOME": str(self.home)} | ENVIRONMENT
        if not as_shipped:
            self.environment["PATH"] = f"{QUICK_JAVA}:{self.environment['PATH']}"
        os.environ.update(ENVIRONMENT)
        self.stack = self._load()
        self.ports: dict[str, int] = self.stack.config.ports.model_dump()
        self.supervisor = Supervisor(self.stack)

    def _configure(self, superset: bool, proxied_clickhouse: bool, flink: dict[str, Any]) -> None:
        names = list(config.Ports.model_fields)
        settings: dict[str, Any] = {
            "ports": dict(zip(names, free_ports(len(names)), strict=True)),
            "superset": {"enabled": superset},
            "flink": {"checkpoint_interval": "2s", **flink},
        }
        if proxied_clickhouse:
            self.proxy_port = free_ports(1)[0]
            settings["flink"]["clickhouse_url"] = f"http://127.0.0.1:{self.proxy_port}"
        (self.home / "weir.yaml").write_text(yaml.safe_dump(settings))

    def _load(self) -> config.Stack:
        before = os.environ.get("WEIR_HOME")
        os.environ["WEIR_HOME"] = str(self.home)
        try:
            return config.load(None)
        finally:
            if before is None:
                del os.environ["WEIR_HOME"]
            else:
                os.environ["WEIR_HOME"] = before

    def __enter__(self) -> RunningStack:
        self.bring_up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.take_down()

    def bring_up(self) -> None:
        """`weir up --detach`; a failure leaves nothing behind."""
        done = self.weir("up", "--detach", timeout=300)
        if done.status:
            self.keep_logs()
            self.remove()
            raise AssertionError(f"weir up failed:\n{done.out}\n{done.err}")

    def take_down(self) -> None:
        """`weir down`, and remove the folder; the logs are kept."""
        self.keep_logs()
        done = self.weir("down", timeout=120)
        self.remove()
        assert done.status == 0, done.err

    def remove(self) -> None:
        """Remove the folder; leaving the context does so, too."""
        shutil.rmtree(self.home, ignore_errors=True)

    def keep_logs(self) -> None:
        """Copy the logs to the place where CI and people look for them: a folder for each stack."""
        target = logs() / self.home.name
        target.mkdir(parents=True, exist_ok=True)
        for log in (self.home / "logs").glob("*.log"):
            shutil.copy(log, target / log.name)

    # ---- commands ----

    def weir(self, *words: str, timeout: float = 600) -> Done:
        """Run the command `weir` against this stack."""
        return run([str(CHECKOUT / "stack/bin/weir"), *words], self.environment, timeout)

    def read(self, probe: str, *captures: Path, words: Iterable[str] = ()) -> dict[str, Any]:
        """`weir-probe read` into Kafka; returns the summary."""
        done = run([*self.read_command(probe, *captures), *words], self.environment)
        assert done.status == 0, done.err
        summary: dict[str, Any] = json.loads(done.out)
        return summary

    def read_command(self, probe: str, *captures: Path) -> list[str]:
        """The command that `read` runs."""
        words = ["--to", "kafka", *self.login_of(probe), "--summary", "json"]
        return [str(AGENT), "read", *map(str, captures), *words]

    def enrol(self, probe: str, workers: int = 1, *words: str) -> None:
        """`weir probe add` with these options; without any, in this process, which need not start another Python."""
        path = self.bundle(probe)
        path.parent.mkdir(exist_ok=True)
        if words:
            done = self.weir("probe", "add", probe, "--workers", str(workers), "--bundle", str(path), *words)
            assert done.status == 0, done.err
        elif made := enrol(self.stack, probe, workers).bundle:
            path.unlink(missing_ok=True)
            private.write_new(path, made)

    def bundle(self, probe: str) -> Path:
        """The file of an enrolled probe's credentials for Kafka."""
        return self.home / "bundles" / f"{probe}.toml"

    def login_of(self, probe: str) -> list[str]:
        """Options by which an agent logs in as the probe; as the operator, if a test enrolled it in another way."""
        bundle = self.bundle(probe)
        return ["--probe", probe, "--credentials", str(bundle if bundle.exists() else self.operator)]

    @property
    def login(self) -> list[str]:
        """Options that let the agent read from and export to this stack's Kafka, as a broker of somebody else."""
        return [f"{key}={value}" for key, value in self.stack.brokers.login.items()]

    @property
    def operator(self) -> Path:
        """A file of credentials that may write to the topics of every probe."""
        return credentials.of_this_command(self.stack)

    # ---- inspecting ----

    @functools.cached_property
    def store(self) -> ClickHouse:
        """The store, as the analyst."""
        return connect(self.stack, "analyst")

    def one(self, sql: str) -> Any:
        """The single value of a query."""
        rows = self.store.rows(sql)
        assert len(rows) == 1, rows
        return next(iter(rows[0].values()))

    def sums(self, probe: str) -> dict[str, int]:
        """Records, packets and octets stored for a probe."""
        return self.store.rows(
            "SELECT count() AS records, sum(fwd_packets + rev_packets) AS packets, "
            f"sum(fwd_octets + rev_octets) AS octets FROM flows WHERE probe = '{probe}'"
        )[0]

    def ledger(self, probe: str) -> list[dict[str, Any]]:
        """The ledger's rows of a probe."""
        return ledger.read(self.store, f"probe = '{probe}'")

    def settled(self, probe: str, packets: int, seconds: float = 60) -> dict[str, int]:
        """Wait until that many packets of the probe are stored and no more arrive; returns the sums."""
        eventually(lambda: self.sums(probe)["packets"] >= packets, f"{packets} packets of {probe} stored", seconds)
        eventually(
            lambda: kafka.lag(self.stack.brokers, probe=probe) == 0, f"everything of {probe} in Kafka read", seconds
        )
        return self.sums(probe)

    # ---- damaging ----

    def pid(self, service: str) -> int:
        """Process id of a running service."""
        state = self.supervisor.states()[service]
        return state.pid if state.word == "RUNNING" else 0

    def kill(self, service: str) -> None:
        """kill -9, like a power failure of one process; the supervisor starts it again."""
        os.kill(eventually(lambda: self.pid(service), f"{service} running"), signal.SIGKILL)

    def stop(self, service: str) -> None:
        """Stop a service until `start`."""
        self.supervisor.stop(service)

    def start(self, service: str, wait: bool = True) -> None:
        """Start a stopped service."""
        one = next(one for one in all_services(self.stack) if one.name == service)
        self.supervisor.start(one)
        if wait:
            self.supervisor.wait(one)

    @contextmanager
    def without(self, service: str) -> Iterator[None]:
        """Stop a service for as long as the context lasts."""
        self.stop(service)
        try:
            yield
        finally:
            self.start(service)

    # ---- messages ----

    def messages(self, topic: str) -> list[tuple[int, bytes]]:
        """Every message of a topic as (partition, value)."""
        consumer = Consumer(self.stack.brokers.client({"group.id": "weir-tests", "enable.auto.commit": False}))
        found = []
        try:
            for place in kafka.partitions(self.stack.brokers, topic):
                if place.topic != topic:
                    continue
                low, high = consumer.get_watermark_offsets(place, timeout=10)
                consumer.assign([TopicPartition(topic, place.partition, low)])
                while low < high:
                    message = consumer.poll(10)
                    assert message is not None, "no answer"
                    assert not message.error(), message.error()
                    low = message.offset() + 1
                    found.append((place.partition, message.value()))
        finally:
            consumer.close()
        return found

    def publish(self, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
        """Publish values to one partition, in order."""
        producer = Producer(self.stack.brokers.client({"enable.idempotence": True, "linger.ms": 5}))
        for value in values:
            producer.produce(topic, value, partition=partition)
            producer.poll(0)
        assert producer.flush(30) == 0


class LoneStore(RunningStack):
    """Settings of a stack that runs only the store."""

    process: subprocess.Popen[bytes]

    def begin(self) -> ClickHouse:
        """Start the store; a connection with all rights."""
        (clickhouse,) = [one for one in all_services(self.stack) if one.name == "clickhouse"]
        with (self.home / "logs/clickhouse.log").open("a") as log:
            environment = os.environ | clickhouse.environment
            self.process = subprocess.Popen(clickhouse.command, env=environment, stdout=log, stderr=log)
        admin = connect(self.stack, "admin")
        eventually(admin.ping, "the store")
        return admin

    def kill_store(self) -> None:
        """End the store as a crash does."""
        self.process.kill()
        self.process.wait(60)


@contextmanager
def lone_store(access: Path | None = None) -> Iterator[LoneStore]:
    """A store alone, with all tables; access: another access file."""
    running = LoneStore()
    running.stack.config.clickhouse.access = str(access or "")
    running.stack.prepare()
    try:
        migrate(running.begin())
        yield running
    finally:
        running.process.terminate()
        running.process.wait(60)
        running.keep_logs()
        running.remove()


def emptied(stack: RunningStack) -> ClickHouse:
    """A connection to a store without rows, with all rights."""
    store = connect(stack.stack, "admin")
    filled = "SELECT name FROM system.tables WHERE database = 'weir' AND engine LIKE '%MergeTree' AND total_rows > 0"
    for table in store.execute(filled).split():
        if table != "schema_migrations":
            store.execute(f"TRUNCATE TABLE {table} SYNC")
    return store


def keep(stack: RunningStack, store: ClickHouse, at: float | None, **settings: object) -> list[str]:
    """Run one round of `weir storage keep` as if it were that time (None: that of the clock), with room for everything, however
    full this disk is.
    """
    storage = stack.stack.config.storage.model_copy(update={"budget": "1TB", **settings})
    with (
        mock.patch.object(stack.stack.config, "storage", storage),
        mock.patch.object(service, "shortage", return_value=0),
    ):
        return list(service.keep(stack.stack, store, at))


class Killed(BaseException):
    """The end of a process in the middle of its work."""


@contextmanager
def before_each_statement(act: Callable[[str], None]) -> Iterator[None]:
    """Call `act` with each statement that is about to be sent to the store; it may send others, or raise an error."""
    execute, acting = ClickHouse.execute, False

    def send(self: ClickHouse, sql: str, **settings: Any) -> str:
        nonlocal acting
        if not acting:
            acting = True
            try:
                act(sql)
            finally:
                acting = False
        return execute(self, sql, **settings)

    with mock.patch.object(ClickHouse, "execute", send):
        yield


def once(begins: str, act: Callable[[], None], after: str = "") -> Callable[[str], None]:
    """Act before the first statement that begins so, once another that begins with `after` was sent."""
    seen, done = not after, False

    def at(sql: str) -> None:
        nonlocal seen, done
        if seen and not done and sql.startswith(begins):
            done = True
            act()
        seen = seen or sql.startswith(after)

    return at


@contextmanager
def collector(stack: RunningStack, port: int, state: Path, probe: str = "routers") -> Iterator[subprocess.Popen[str]]:
    """`weir-probe collect`, shut down cleanly."""
    words = ["collect", "--netflow", f"127.0.0.1:{port}", *stack.login_of(probe)]
    words += ["--interval", "5s", "--state-dir", str(state), "--summary", "json"]
    process = subprocess.Popen(
        [str(AGENT), *words], stdout=subprocess.PIPE, stderr=(state / "log").open("a"), text=True
    )
    try:
        eventually(lambda: (state / "log").read_text().count("listening on") > 0, "the collector listening")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def run(command: list[str], environment: dict[str, str] | None = None, timeout: float = 600) -> Done:
    """Run a command to its end."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


@functools.cache
def schemas(name: str = "flow") -> Any:
    """The Python module generated from a file of `schemas/`, regenerated for this run."""
    from grpc_tools import protoc

    folder = tempfile.mkdtemp(prefix="weir-proto-", dir=os.environ.get(FOLDER))
    include = f"-I{Path(protoc.__file__).parent / '_proto'}"
    files = sorted(path.name for path in (CHECKOUT / "schemas").glob("*.proto"))
    assert protoc.main(["protoc", f"-I{CHECKOUT / 'schemas'}", include, f"--python_out={folder}", *files]) == 0
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(f"{name}_pb2")
    finally:
        sys.path.remove(folder)
        shutil.rmtree(folder)


def decoded(values: Iterable[bytes]) -> list[Any]:
    """FlowMessages from their bytes."""
    return [schemas().FlowMessage.FromString(value) for value in values]


def batch_volume(message: Any) -> tuple[int, int]:
    """Packets and octets of a batch."""
    flows = message.batch.flows
    return (sum(f.fwd_packets + f.rev_packets for f in flows), sum(f.fwd_octets + f.rev_octets for f in flows))
