"""Servers for the tests: an embedded one in a temporary directory, or the one that WEIR_CLICKHOUSE_URL names.

WEIR_CLICKHOUSE_URL=http://host:8123 with WEIR_CLICKHOUSE_USER and WEIR_CLICKHOUSE_PASSWORD of an administrator runs
the tests of the interface against any server. Tests of roles then need the users of access.yaml and their passwords in
WEIR_PASSWORD_<USER>; tests marked `embedded` are left out.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from weir_clickhouse.access import load
from weir_clickhouse.docs import statements

from weir_schema import hourly

FOLDER = Path(__file__).resolve().parent.parent
PASSWORDS = {"admin": "a'dmin", "writer": "wr!ter", "analyst": "anälyst", "dashboard": "dash board"}
BodyLike = bytes | str | Iterable[bytes] | None


@dataclass
class Answer:
    """A server's answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def code(self) -> int:
        return int(self.headers.get("x-clickhouse-exception-code", 0))


@dataclass
class Server:
    """A server under test; `users` are the names and passwords known."""

    host: str
    port: int
    admin: tuple[str, str]
    users: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    data: Path | None = None
    log: list[str] = field(default_factory=list)

    def ask(
        self,
        body: BodyLike = None,
        *,
        user: str | None = None,
        headers: dict[str, str] | None = None,
        method: str = "POST",
        path: str = "/",
        ok: bool = False,
        **params: object,
    ) -> Answer:
        """One request on a connection of its own; an iterable body goes in chunks. A header Authorization stands for the user."""
        name, password = self.admin if user is None else (user, self.users[user])
        connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        try:
            query = urllib.parse.urlencode({key: str(value) for key, value in params.items()})
            login = {"X-ClickHouse-User": name, "X-ClickHouse-Key": password.encode().decode("latin-1")}
            sent = {**({} if headers and "Authorization" in headers else login), **(headers or {})}
            data = body.encode() if isinstance(body, str) else body
            chunked = data is not None and not isinstance(data, bytes)
            if chunked:
                sent["Transfer-Encoding"] = "chunked"
            connection.request(method, path + ("?" + query if query else ""), data, sent, encode_chunked=chunked)
            response = connection.getresponse()
            answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()
        if ok:
            assert answer.status == 200, answer.text
        return answer

    def sql(self, text: BodyLike, **params: object) -> str:
        """Run a statement that must succeed; returns its output without the last line end."""
        return self.ask(text, ok=True, **params).text.removesuffix("\n")  # type: ignore[arg-type]


def start(
    data: Path,
    *arguments: str,
    memory: str = "1GiB",
    access: Path = FOLDER / "access.yaml",
    program: Path = FOLDER / "embedded/weir_clickhouse",
) -> Server:
    """Start an embedded server on a free port; a user of `access` that is not in PASSWORDS has its name as password."""
    passwords = {name: PASSWORDS.get(name, name) for name in load(access, {}).users}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_")}
    environment |= {f"WEIR_PASSWORD_{name.upper()}": password for name, password in passwords.items()}
    command = [sys.executable, str(program), "--data", str(data), "--listen", "127.0.0.1:0"]
    command += ["--access", str(access), "--memory", memory, *arguments]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    assert process.stderr is not None
    lines: list[str] = []
    for raw in process.stderr:
        lines.append(raw.decode())
        found = re.search(r"listens on http://127\.0\.0\.1:(\d+)", lines[-1])
        if found:
            return Server("127.0.0.1", int(found[1]), ("admin", PASSWORDS["admin"]), passwords, process, data, lines)
    process.wait()
    process.stderr.close()
    pytest.fail(f"the server did not start: {''.join(lines)}")


def stop(server: Server, number: int = signal.SIGTERM) -> int:
    """Send a signal and wait for the end; returns the exit status."""
    assert server.process is not None
    assert server.process.stderr is not None
    if server.process.poll() is None:
        server.process.send_signal(number)
    status = server.process.wait(60)
    server.process.stderr.close()
    return status


def migrate(server: Server, database: str) -> None:
    """Apply all migrations to a database."""
    server.sql(f"CREATE DATABASE IF NOT EXISTS {database} ENGINE = Atomic", database="default")
    for statement in statements(FOLDER / "migrations"):
        server.sql(statement, database=database)


def roll_up(server: Server, database: str) -> None:
    """Bring the hourly rows of all raw records up to date, as `weir storage` does."""
    hours = server.sql(f"SELECT DISTINCT toUnixTimestamp(toStartOfHour(ts)) FROM {database}.flows ORDER BY 1").split()
    for hour in map(int, hours):
        server.sql(f"INSERT INTO flows_hourly ({hourly.COLUMNS}) {hourly.whole(hour)}", database=database)


def fill_windows(server: Server, hosts: dict[int, str]) -> None:
    """A row for each customer's host in every table of windows and days that customers may read."""
    # The views leave out rows of nothing.
    counted = {
        "top_flows": "packets",
        "top_talkers": "packets",
        "mixes": "packets",
        "top_indicators": "value",
        "indicators": "probes_reported",
        "port_report": "tcp_packets",
        "talkers_daily": "hosts",
        "national_talkers_daily": "hosts",
        "mixes_daily": "packets",
    }
    for customer, host in hosts.items():
        for table, column in counted.items():
            row: dict[str, Any] = {
                "ts": 1_700_000_000,
                "day": "2023-11-14",
                "customer": customer,
                "rank": customer + 1,
                "version": 1,
            }
            row |= {column: 1, "addr": f"::ffff:{host}"}
            names = server.sql(f"SELECT name FROM system.columns WHERE database = 'weir' AND table = '{table}'").splitlines()
            known = json.dumps({name: value for name, value in row.items() if name in names})
            server.sql(f"INSERT INTO weir.{table} FORMAT JSONEachRow {known}")


@contextmanager
def with_access(change: Callable[[dict[str, Any]], None]) -> Iterator[Server]:
    """A server with the migrations applied, whose access file is changed."""
    tree = yaml.safe_load((FOLDER / "access.yaml").read_text())
    change(tree)
    with tempfile.TemporaryDirectory(prefix="weir-clickhouse-") as folder:
        access = Path(folder) / "access.yaml"
        access.write_text(yaml.safe_dump(tree))
        running = start(Path(folder) / "data", access=access)
        try:
            migrate(running, "weir")
            yield running
        finally:
            status = stop(running)
        assert status == 0


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server that the tests share, with the migrations applied."""
    url = os.environ.get("WEIR_CLICKHOUSE_URL")
    if url:
        parts = urllib.parse.urlsplit(url)
        admin = (os.environ["WEIR_CLICKHOUSE_USER"], os.environ["WEIR_CLICKHOUSE_PASSWORD"])
        users = {name: os.environ.get(f"WEIR_PASSWORD_{name.upper()}", "") for name in PASSWORDS}
        outside = Server(parts.hostname or "127.0.0.1", parts.port or 8123, admin, {k: v for k, v in users.items() if v})
        migrate(outside, "weir")
        yield outside
        return
    with with_access(lambda _: None) as running:
        yield running


@pytest.fixture
def own_server() -> Iterator[Callable[..., Server]]:
    """Starts embedded servers for one test, and stops those that still run at its end."""
    running: list[Server] = []
    with tempfile.TemporaryDirectory(prefix="weir-clickhouse-") as folder:

        def begin(*arguments: str, **options: Any) -> Server:
            running.append(start(Path(folder) / "data", *arguments, **options))
            return running[-1]

        yield begin
        for one in running:
            stop(one, signal.SIGKILL)


@pytest.fixture(scope="session")
def migrated(server: Server) -> Iterator[str]:
    """A database with the migrations applied, for all tests."""
    name = f"weir_test_{uuid.uuid4().hex[:12]}"
    migrate(server, name)
    yield name
    server.sql(f"DROP DATABASE {name} SYNC", database="default")


@pytest.fixture
def weir(server: Server, migrated: str) -> Iterator[str]:
    """The same database, without rows: emptied after each test, because creating it takes seconds."""
    yield migrated
    filled = f"SELECT name FROM system.tables WHERE database = '{migrated}' AND engine LIKE '%MergeTree' AND total_rows > 0"
    for table in server.sql(filled).split():
        server.sql(f"TRUNCATE TABLE {migrated}.{table} SYNC")
    loaded = f"SELECT name FROM system.dictionaries WHERE database = '{migrated}' AND status != 'NOT_LOADED'"
    for dictionary in server.sql(loaded).split():
        server.sql(f"SYSTEM RELOAD DICTIONARY {migrated}.{dictionary}")


@pytest.fixture
def database(server: Server) -> Iterator[str]:
    """An empty database of the test's own."""
    name = f"weir_test_{uuid.uuid4().hex[:12]}"
    server.sql(f"CREATE DATABASE {name} ENGINE = Atomic", database="default")
    yield name
    server.sql(f"DROP DATABASE {name} SYNC", database="default")


def eventually(check: Callable[[], bool], seconds: float = 30) -> bool:
    """Whether a condition becomes true within a generous time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check():
            return True
        time.sleep(0.05)
    return check()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "embedded: about the embedded server alone")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("WEIR_CLICKHOUSE_URL"):
        for item in items:
            if item.get_closest_marker("embedded"):
                item.add_marker(pytest.mark.skip(reason="WEIR_CLICKHOUSE_URL names another server"))
