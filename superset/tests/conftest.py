"""A real store and a real Superset on free ports, started once for all tests and stopped at the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
VENVS = Path(os.environ.get("WEIR_VENVS", CHECKOUT / ".weir/venvs"))
sys.path[:0] = [str(CHECKOUT / "superset"), str(Path(__file__).resolve().parent)]

import testdata  # noqa: E402

PASSWORDS = {f"WEIR_PASSWORD_{user}": f"test-{user.lower()}" for user in ("ADMIN", "WRITER", "ANALYST", "DASHBOARD")}
MINUTES = 200


def python_of(part: str) -> str:
    """The interpreter of a part's virtual environment; if it is missing, tests that need it are skipped."""
    python = VENVS / part / "bin/python"
    if not python.exists():
        pytest.skip(f"{python} is missing: make venv-{part}")
    return str(python)


def free_port() -> int:
    """A free port."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path, seconds: float) -> None:
    """Wait until `url` responds; fails with the end of the log if the process ends first or the time runs out."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"{url} does not answer (exit status {process.poll()}):\n{log.read_text()[-3000:]}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and, if it survives, its whole group."""
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@dataclass
class Store:
    """The embedded ClickHouse: its address, and the end of the rows in it (seconds from 1970)."""

    port: int
    until: int
    url: str = field(init=False)

    def __post_init__(self) -> None:
        self.url = f"http://127.0.0.1:{self.port}"

    def ask(self, sql: str) -> list[list[str]]:
        """The rows of a query, as text."""
        text = testdata.execute(self.url, f"{sql} FORMAT TSV", password=PASSWORDS["WEIR_PASSWORD_ADMIN"])
        return [line.split("\t") for line in text.splitlines()]


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with every migration and the rows of testdata.py up to now."""
    folder, port = tmp_path_factory.mktemp("store"), free_port()
    log = folder / "log"
    command = [
        python_of("clickhouse"),
        "-m",
        "weir_clickhouse",
        "--data",
        str(folder / "data"),
        "--listen",
        f"127.0.0.1:{port}",
    ]
    command += ["--access", str(CHECKOUT / "clickhouse/access.yaml")]
    environment = {**os.environ, **PASSWORDS, "PYTHONPATH": str(CHECKOUT / "clickhouse/embedded")}
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    try:
        wait_for(f"http://127.0.0.1:{port}/ping", process, log, 60)
        os.environ.update(PASSWORDS)
        made = Store(port, int(time.time()) // 60 * 60)
        testdata.migrate(made.url)
        # Rows extend past the present, so that slow tests still end on data.
        testdata.fill(made.url, made.until, MINUTES, ahead=30)
        yield made
    finally:
        stop(process)


@dataclass
class Superset:
    """A running Superset: its address, its folder, and how to prepare it again."""

    port: int
    home: Path
    environment: dict[str, str]

    @property
    def url(self) -> str:
        """The base address."""
        return f"http://127.0.0.1:{self.port}"

    def init(self) -> str:
        """Run `init`; returns its output."""
        done = subprocess.run(
            [python_of("superset"), str(CHECKOUT / "superset/weir_superset.py"), "init"],
            env=self.environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        return done.stdout

    @contextlib.contextmanager
    def serving(self) -> Iterator[Superset]:
        """Run the server on this state for as long as the context lasts."""
        log = self.home / f"serve-{self.port}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [python_of("superset"), str(CHECKOUT / "superset/weir_superset.py"), "serve"],
                env=self.environment, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        try:
            wait_for(f"{self.url}/health", process, log, 180)
            yield self
        finally:
            stop(process)

    @contextlib.contextmanager
    def beside(self, changed: dict[str, str]) -> Iterator[Superset]:
        """A second server, prepared and run on a copy of this one's state with a changed environment."""
        home, port = self.home.with_name(f"{self.home.name}-beside"), free_port()
        shutil.copytree(self.home, home, ignore=shutil.ignore_patterns("cache", "*.log", "*.png"))
        environment = {**self.environment, "WEIR_SUPERSET_HOME": str(home), "WEIR_SUPERSET_PORT": str(port), **changed}
        other = Superset(port, home, environment)
        other.init()
        with other.serving():
            yield other


@pytest.fixture(scope="session")
def superset(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Superset]:
    """Superset, prepared from nothing, on the store; the machine's zone is far from UTC."""
    home, port = tmp_path_factory.mktemp("superset"), free_port()
    environment = {
        **os.environ,
        **PASSWORDS,
        "TZ": "Asia/Tokyo",
        "WEIR_SUPERSET_HOME": str(home),
        "WEIR_SUPERSET_SECRET_KEY": "a key for the tests, long enough for anything",
        "WEIR_SUPERSET_ADMIN_PASSWORD": "test-superset-admin",
        "WEIR_SUPERSET_PORT": str(port),
        "WEIR_CLICKHOUSE_HOST": "127.0.0.1",
        "WEIR_CLICKHOUSE_PORT": str(store.port),
    }
    made = Superset(port, home, environment)
    assert "ready" in made.init()
    with made.serving():
        yield made
