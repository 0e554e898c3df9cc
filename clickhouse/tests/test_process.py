"""The process: starting, stopping, one owner of the directory, limits, memory, and clients that go away."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from conftest import FOLDER, PASSWORDS, Server, eventually, stop
from weir_clickhouse import engine

pytestmark = pytest.mark.embedded


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_")} | {"WEIR_PASSWORD_ADMIN": "a"}
    command = [sys.executable, str(FOLDER / "embedded/weir_clickhouse"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)


def _begin(server: Server, sql: str) -> socket.socket:
    """Send a statement and do not wait for its answer."""
    raw = socket.create_connection((server.host, server.port), timeout=60)
    body = sql.encode()
    raw.sendall(
        f"POST / HTTP/1.1\r\nHost: x\r\nX-ClickHouse-User: admin\r\nX-ClickHouse-Key: {PASSWORDS['admin']}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    return raw


def _running(server: Server, mark: str) -> int:
    return int(
        server.sql(f"SELECT count() FROM system.processes WHERE query LIKE '%{mark}%' AND query NOT LIKE '%system.processes%'")
    )


def test_a_second_start_is_refused_in_one_line(server: Server) -> None:
    second = _run("--data", str(server.data), "--listen", "127.0.0.1:0", "--access", str(FOLDER / "access.yaml"))
    assert second.returncode == 2
    last = second.stderr.strip().splitlines()[-1]
    assert server.process is not None
    assert f"in use by process {server.process.pid}" in last
    assert server.sql("SELECT 1") == "1"


def test_a_taken_port_is_refused_in_one_line(server: Server, tmp_path: Path) -> None:
    second = _run("--data", str(tmp_path / "d"), "--listen", f"127.0.0.1:{server.port}", "--access", str(FOLDER / "access.yaml"))
    assert second.returncode == 2
    assert f"cannot listen on 127.0.0.1:{server.port}" in second.stderr.strip().splitlines()[-1]
    assert "Traceback" not in second.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--data", "/tmp/x", "--access", "/no/such/access.yaml"],
        ["--data", "/tmp/x", "--access", "a", "--listen", "nowhere"],
        ["--data", "/tmp/x", "--access", "a", "--memory", "much"],
        ["--data", "/tmp/x", "--access", "a", "--max-queries", "0"],
        ["access-sql", "/no/such/file"],
    ],
)
def test_bad_arguments_end_with_2(arguments: list[str]) -> None:
    done = _run(*arguments)
    assert done.returncode == 2
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr


def test_no_secret_is_left_in_the_process(own_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET_ACCESS_KEY", "hush-hush")
    monkeypatch.setenv("SOME_OTHER_NAME", "kept")
    server = own_server()
    assert server.process is not None
    seen = Path(f"/proc/{server.process.pid}")
    environment, command = (seen / "environ").read_bytes(), (seen / "cmdline").read_bytes()
    for secret in (*PASSWORDS.values(), "hush-hush"):
        assert secret.encode() not in environment + command
    assert b"WEIR_PASSWORD_" not in environment
    assert b"SOME_OTHER_NAME=kept" in environment
    assert not [link for link in (seen / "fd").iterdir() if "passwords" in str(link.readlink())]
    for user in PASSWORDS:
        assert server.sql("SELECT 1", user=user) == "1"


def test_help_has_an_example() -> None:
    done = _run("--help")
    assert done.returncode == 0
    assert "example:" in done.stdout


def test_sigterm_lets_a_query_end_and_keeps_the_data(own_server: Callable[..., Server]) -> None:
    server = own_server()
    server.sql("CREATE DATABASE d")
    server.sql("CREATE TABLE d.t (a UInt64) ENGINE = MergeTree ORDER BY a")
    server.sql("INSERT INTO d.t SELECT number FROM numbers(1000)")
    raw = _begin(server, "SELECT 'mark-end', sum(sleepEachRow(0.1)) FROM numbers(15) SETTINGS max_block_size = 1")
    assert eventually(lambda: _running(server, "mark-end") == 1)
    assert stop(server, signal.SIGTERM) == 0
    answer = raw.recv(10_000)
    assert answer.startswith(b"HTTP/1.1 200 ")
    raw.close()
    again = own_server()
    assert again.sql("SELECT count() FROM d.t") == "1000"


def test_sigterm_stops_what_will_not_end(own_server: Callable[..., Server]) -> None:
    server = own_server("--stop-timeout", "0.5")
    with _begin(server, "SELECT 'mark-long', sum(sleepEachRow(1)) FROM numbers(1000) SETTINGS max_block_size = 1") as raw:
        assert eventually(lambda: _running(server, "mark-long") == 1)
        assert stop(server, signal.SIGTERM) == 0
        assert raw.recv(10_000).startswith(b"HTTP/1.1 500 ")


def test_sigterm_ends_a_body_that_keeps_coming(own_server: Callable[..., Server]) -> None:
    """However long running statements may take: nothing of its block is stored, and the engine is closed."""
    server = own_server("--stop-timeout", "3600")
    server.sql("CREATE DATABASE d")
    server.sql("CREATE TABLE d.t (a UInt64) ENGINE = MergeTree ORDER BY a")
    ended = threading.Event()
    with socket.create_connection((server.host, server.port), timeout=60) as raw:
        raw.sendall(
            f"POST /?query=INSERT+INTO+d.t+FORMAT+TSV HTTP/1.1\r\nHost: x\r\nX-ClickHouse-User: admin\r\n"
            f"X-ClickHouse-Key: {PASSWORDS['admin']}\r\nContent-Length: 1000000000\r\n\r\n1\n".encode()
        )
        assert eventually(lambda: _running(server, "INTO d.t") == 1)

        def send() -> None:
            with suppress(OSError):
                while not ended.wait(0.3):
                    raw.sendall(b"1\n" * 2000)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            assert stop(server, signal.SIGTERM) == 0
        finally:
            ended.set()
            sender.join()
    assert own_server().sql("SELECT count() FROM d.t") == "0"


def test_sigterm_ends_an_answer_that_nobody_reads(own_server: Callable[..., Server]) -> None:
    server = own_server("--stop-timeout", "0.5")
    with _begin(server, "SELECT number FROM system.numbers") as raw:
        assert raw.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert stop(server, signal.SIGTERM) == 0


def test_a_client_that_goes_away_stops_its_query(server: Server) -> None:
    raw = _begin(server, "SELECT 'mark-gone', sum(sleepEachRow(1)) FROM numbers(1000) SETTINGS max_block_size = 1")
    assert eventually(lambda: _running(server, "mark-gone") == 1)
    raw.close()
    assert eventually(lambda: _running(server, "mark-gone") == 0)


def test_a_client_that_goes_away_in_mid_answer_stops_its_query(server: Server) -> None:
    raw = _begin(server, "SELECT 'mark-half', number FROM system.numbers")
    assert raw.recv(1000).startswith(b"HTTP/1.1 200 ")
    assert _running(server, "mark-half") == 1
    raw.close()
    assert eventually(lambda: _running(server, "mark-half") == 0)
    pipes = server.data / "front/pipes" if server.data else Path()
    assert eventually(lambda: not list(pipes.iterdir()))


def test_a_query_id_stops_no_other_query(server: Server) -> None:
    """Clients choose the id: stopping an id that is a prefix of another one must not stop the other query."""
    with _begin(server, "SELECT 'mark-other', sum(sleepEachRow(0.2)) FROM numbers(10) SETTINGS max_block_size = 1") as raw:
        assert eventually(lambda: _running(server, "mark-other") == 1)
        connection = socket.create_connection((server.host, server.port), timeout=60)
        body = b"SELECT 'mark-mine', sum(sleepEachRow(1)) FROM numbers(1000) SETTINGS max_block_size = 1"
        connection.sendall(
            f"POST /?query_id= HTTP/1.1\r\nHost: x\r\nX-ClickHouse-User: admin\r\nX-ClickHouse-Key: {PASSWORDS['admin']}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        assert eventually(lambda: _running(server, "mark-mine") == 1)
        connection.close()
        assert eventually(lambda: _running(server, "mark-mine") == 0)
        assert raw.recv(10_000).startswith(b"HTTP/1.1 200 ")


def test_too_many_queries_are_refused_with_202(own_server: Callable[..., Server]) -> None:
    server = own_server("--max-queries", "2")
    held = [_begin(server, "SELECT number FROM system.numbers") for _ in range(2)]
    assert all(raw.recv(1000).startswith(b"HTTP/1.1 200 ") for raw in held)
    answer = server.ask("SELECT 1")
    assert answer.status == 503
    assert "Too many simultaneous queries" in answer.text
    assert server.ask(path="/ping", method="GET").body == b"Ok.\n"
    for raw in held:
        raw.close()
    assert eventually(lambda: server.ask("SELECT 1").status == 200)


def test_a_large_result_needs_little_memory(own_server: Callable[..., Server]) -> None:
    """0.9 GB of answer and 0.5 GB of body pass; the process grows by no more than 400 MB."""
    server = own_server()
    assert server.process is not None
    process = psutil.Process(server.process.pid)
    server.sql("SELECT number FROM numbers(1000000) FORMAT JSONEachRow")
    before = process.memory_info().rss
    most = before
    with _begin(server, "SELECT number, toString(number) FROM numbers(25000000) FORMAT JSONEachRow") as raw:
        raw.settimeout(60)
        seen = 0
        buffer = bytearray(1 << 20)
        while count := raw.recv_into(buffer):
            if seen >> 26 != (seen + count) >> 26:
                most = max(most, process.memory_info().rss)
            seen += count
            if buffer[:count].endswith(b"0\r\n\r\n"):
                break
    assert seen > 800_000_000
    server.sql("CREATE DATABASE d")
    server.sql("CREATE TABLE d.t (a UInt64) ENGINE = Null")
    pieces = (bytes(1 << 20) for _ in range(512))
    server.ask(pieces, query="INSERT INTO d.t FORMAT RowBinary", ok=True)
    most = max(most, process.memory_info().rss)
    assert most - before < 400_000_000


def test_metrics(server: Server) -> None:
    server.sql("SELECT 1")
    server.ask("SELECT nothing")
    server.ask("SELECT 1; SELECT 2")
    server.ask("SELECT 1", headers={"X-ClickHouse-Key": "wrong"})
    text = server.ask(path="/metrics", method="GET").text

    def value(name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        assert found, name
        return float(found[1])

    assert value('weir_clickhouse_queries_total{role="admin"}') >= 1
    assert value('weir_clickhouse_errors_total{code="47"}') >= 1
    assert value('weir_clickhouse_refused_total{cause="authentication"}') >= 1
    assert value("weir_clickhouse_resident_octets") > 1e7
    assert value("weir_clickhouse_in_flight") == 0
    assert "weir_clickhouse_request_seconds_bucket" in text


def test_log_comment_and_query_id_find_a_query_in_the_log(server: Server) -> None:
    server.sql("SELECT 'logged'", query_id="find-me", log_comment="from a test")
    server.sql("SYSTEM FLUSH LOGS")
    asked = "SELECT log_comment FROM system.query_log WHERE query_id = 'find-me' AND type = 'QueryFinish' LIMIT 1"
    assert server.sql(asked) == "from a test"


def test_repeated_starts_leave_nothing_behind(own_server: Callable[..., Server]) -> None:
    threads = threading.active_count()
    for turn in range(2):
        server = own_server()
        assert server.sql("SELECT count() FROM system.databases") != "", turn
        begun = time.monotonic()
        assert stop(server) == 0
        assert time.monotonic() - begun < 30
    assert threading.active_count() == threads


def test_the_process_ends_when_the_engine_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine then refuses every statement until it is started again; other errors end nothing."""
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    for text in ("Code: 241. DB::Exception: no fatal error.", "Code: 236. DB::Exception: Cancelled. (ABORTED)"):
        engine._end_with_the_engine(text)
    assert ended == []
    engine._end_with_the_engine("Code: 236. DB::Exception: The server is shutting down due to a fatal error. (ABORTED)")
    assert ended == [70]


def test_memory_of_the_other_processes_of_its_control_group_is_not_the_engines(server: Server) -> None:
    """In a container or a unit they are the stack's other services: `--memory` bounds this process alone."""
    asked = "SELECT value FROM system.server_settings WHERE name = 'memory_worker_use_cgroup'"
    assert server.sql(asked).strip() == "0"
