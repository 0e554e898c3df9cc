"""No client can block others: not with connections, unfinished bodies, or statements that are slow to parse."""

from __future__ import annotations

import http.client
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import FOLDER, PASSWORDS, Server, eventually
from weir_clickhouse import metrics, reading
from weir_clickhouse.access import load
from weir_clickhouse.allowed import Vocabulary
from weir_clickhouse.audit import Audit
from weir_clickhouse.connections import Limits, Stream
from weir_clickhouse.errors import ServerError
from weir_clickhouse.front import Front
from weir_clickhouse.lexer import LexicalError, tokens
from weir_clickhouse.people import People
from weir_clickhouse.refusals import refuse_dangerous
from weir_clickhouse.server import Server as Listener
from weir_clickhouse.statement import Statement, parse

pytestmark = pytest.mark.embedded


def _send(server: Server, data: bytes) -> socket.socket:
    raw = socket.create_connection((server.host, server.port), timeout=60)
    raw.sendall(data)
    return raw


def _head(user: str, length: int = 100, password: str | None = None) -> bytes:
    key = PASSWORDS[user] if password is None else password
    head = f"POST /?max_block_size=1 HTTP/1.1\r\nHost: x\r\nX-ClickHouse-User: {user}\r\nX-ClickHouse-Key: {key}\r\n"
    return f"{head}Content-Length: {length}\r\n\r\n".encode()


def _answered(raw: socket.socket, seconds: float) -> bytes:
    """The received part of an answer's first line."""
    raw.settimeout(seconds)
    try:
        return raw.recv(12)
    except TimeoutError:
        return b""


def _timed(ask: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.monotonic()
    return ask(), time.monotonic() - begun


@pytest.fixture
def with_table(own_server: Callable[..., Server]) -> Callable[..., Server]:
    def begin(*arguments: str) -> Server:
        server = own_server(*arguments)
        server.sql("CREATE DATABASE weir ENGINE = Atomic")
        server.sql("CREATE TABLE weir.t (a UInt8) ENGINE = Memory")
        return server

    return begin


def test_bodies_half_sent_keep_no_insert_out(with_table: Callable[..., Server]) -> None:
    server = with_table()
    with ExitStack() as held:
        half = [held.enter_context(_send(server, _head("analyst") + b"S")) for _ in range(40)]
        # The server answers statements beyond the user's bound without reading the rest of their bodies.
        time.sleep(1)
        refused = [raw for raw in half if _answered(raw, 0.05) == b"HTTP/1.1 503"]
        assert len(refused) >= 30
        for _ in range(20):
            answer, took = _timed(lambda: server.ask("INSERT INTO weir.t VALUES (1)", user="writer"))
            assert answer.status == 200, answer.text
            assert took < 5
    assert eventually(lambda: server.ask("SELECT 1", user="analyst").status == 200)


def test_slow_statements_keep_no_insert_out(with_table: Callable[..., Server]) -> None:
    server = with_table("--max-queries", "8")
    slow = b"SELECT sleepEachRow(1) FROM numbers(60)"
    with ExitStack() as held:
        for user in ("analyst", "dashboard", "analyst", "dashboard"):
            for _ in range(8):
                held.enter_context(_send(server, _head(user, len(slow)) + slow))
        assert eventually(lambda: "in_flight 6.0" in server.ask(path="/metrics", method="GET").text)
        for _ in range(20):
            assert server.ask("INSERT INTO weir.t VALUES (1)", user="writer").status == 200
        # Two places are reserved for writers.
        assert server.ask("SELECT 1", user="analyst").code == 202
        assert server.ask("SELECT 1", user="dashboard").code == 202


def test_a_user_has_no_more_than_its_places(own_server: Callable[..., Server]) -> None:
    server = own_server()
    slow = b"SELECT sleepEachRow(1) FROM numbers(60)"
    with ExitStack() as held:
        for _ in range(20):
            held.enter_context(_send(server, _head("analyst", len(slow)) + slow))
        assert eventually(lambda: "in_flight 8.0" in server.ask(path="/metrics", method="GET").text)
        answer = server.ask("SELECT 1", user="analyst")
        assert (answer.status, answer.code) == (503, 202)
        assert "Too many simultaneous queries for user analyst. Maximum: 8" in answer.text
        assert server.ask("SELECT 1", user="dashboard").status == 200


@pytest.mark.parametrize("part", [b"", b"POST / HTTP/1.1\r\nX: ", b"POST /ping HTTP/1.1\r\nContent-Length: 100\r\n\r\nx"])
def test_connections_without_a_login_keep_nobody_out(own_server: Callable[..., Server], part: bytes) -> None:
    """Six hundred connections of each kind exceed the workers, and the connections that the server holds open."""
    server = own_server()
    with ExitStack() as held:
        for _ in range(600):
            held.enter_context(_send(server, part))
        for _ in range(5):
            answer, took = _timed(lambda: server.ask(path="/ping", method="GET"))
            assert answer.body == b"Ok.\n"
            assert took < 5
            answer, took = _timed(lambda: server.ask("SELECT 1", user="writer"))
            assert answer.status == 200
            assert took < 5


def test_the_login_comes_before_the_body(server: Server) -> None:
    for user, password in (("writer", "wrong"), ("writer", ""), ("nobody", "x")):
        raw = _send(server, _head(user, 1 << 30, password))
        raw.settimeout(5)
        assert raw.recv(12) == b"HTTP/1.1 403"
        raw.close()


def test_a_refused_body_costs_no_worker(own_server: Callable[..., Server]) -> None:
    """The server does not wait for a stranger's body, and the answer arrives although the body was not read."""
    server = own_server()
    with ExitStack() as held:
        strangers = [held.enter_context(_send(server, _head("writer", 1 << 30, "wrong") + bytes(100_000))) for _ in range(100)]
        assert all(raw.recv(12) == b"HTTP/1.1 403" for raw in strangers)
        answer, took = _timed(lambda: server.ask("SELECT 1"))
        assert answer.status == 200
        assert took < 5


def _hard(n: int) -> dict[str, bytes]:
    """Texts of about n octets that are slow to read."""
    return {
        "numbers": b"SELECT " + b"1," * (n // 2) + b"1",
        "words": b"SELECT " + b"a " * (n // 2),
        "opened heredocs": b"SELECT " + b" ".join(b"$a%d$" % n for n in range(n // 8)),
        "dollars": b"$" * n,
        "comments in comments": b"/*" * (n // 4) + b"*/" * (n // 4),
        "comments never closed": b"/*" * (n // 2),
        "escapes": b"'" + b"\\a" * (n // 2) + b"'",
        "a string never closed": b"'" + b"\\'" * (n // 2),
        "quotes": b"'" * (n - 1),
        "points": b"INSERT INTO a" + b".a" * (n // 2),
        "formats": b"INSERT INTO a SELECT " + b"FORMAT a " * (n // 9),
        "engines": b"CREATE TABLE a " + b"ENGINE a " * (n // 9),
        "settings": b"SELECT 1 " + b"SETTINGS a " * (n // 11),
        "a list of settings": b"SELECT 1 SETTINGS " + b"a = 1, " * (n // 7),
        "settings in values of settings": b"SELECT " + b"SETTINGS a=(" * (n // 12),
        "settings named settings": b"SELECT 1 SETTINGS " + b"settings," * (n // 9),
        "tuples in table functions": b"SELECT " + b"values((1,2)," * (n // 13),
        "table functions": b"SELECT " + b"values(" * (n // 7),
        "table functions in brackets": b"SELECT " + b"values(" + b"(" * n,
        "closed table functions": b"SELECT " + b"values('a b')," * (n // 14),
        "parameters": b"SELECT " + b"{a:Identifier}," * (n // 15),
        "brackets": b"(" * n,
    }


HARD = _hard(256 << 10)


@pytest.mark.parametrize("shape", HARD)
def test_reading_a_statement_takes_linear_time(shape: str) -> None:
    """A quarter MiB of the slowest text to parse, which would take minutes if it were parsed repeatedly."""
    begun = time.process_time()
    try:
        refuse_dangerous(parse(HARD[shape], complete=True), {"a": "x"})
        list(tokens(HARD[shape]))
    except (LexicalError, ServerError):
        pass
    assert time.process_time() - begun < 15


class _Counted(bytes):
    """Octets that count how many of them are looked at one by one."""

    looked = 0

    def find(self, sub: Any, start: Any = 0, end: Any = None, /) -> int:
        found = super().find(sub, start, len(self) if end is None else end)
        type(self).looked += (found if found >= 0 else len(self)) - start
        return found

    def __getitem__(self, place: Any) -> Any:
        out = super().__getitem__(place)
        type(self).looked += len(out) if isinstance(out, bytes) else 1
        return out


def _steps(shape: str, n: int, known: Vocabulary) -> int:
    """Lines of Python run, and octets cut out of the text or searched, to decide on a statement of n octets."""
    role = load(FOLDER / "access.yaml", {}).roles["analyst"]
    lines = [0]

    def count(_frame: Any, event: str, _argument: Any) -> Any:
        lines[0] += event == "line"
        return count

    _Counted.looked = 0
    text = _Counted(_hard(n)[shape])
    before = sys.gettrace()
    sys.settrace(count)
    try:
        statement = parse(text, complete=True)
        refuse_dangerous(statement, {"a": "x"})
        role.check(statement, {"a": "x"}, known)
    except (LexicalError, ServerError):
        pass
    finally:
        sys.settrace(before)
    return lines[0] + _Counted.looked


@pytest.mark.parametrize("shape", HARD)
def test_the_steps_of_reading_a_statement_are_linear(shape: str) -> None:
    """Four times the text, four times the steps: counted, not timed."""
    names = ("values", "a", "x", "file")
    known = Vocabulary(
        {name: name for name in names}, table_functions=frozenset(["values"]), settings=frozenset(["a", "settings"])
    )
    few, many = _steps(shape, 4 << 10, known), _steps(shape, 16 << 10, known)
    assert many < 4.4 * few + 1000, (few, many)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_statement_in_many_pieces_is_read_a_few_times(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    sql = b"SELECT " + b"1+" * 20_000 + b"1"
    read: list[int] = []

    def counted(text: bytes, *, complete: bool) -> Statement:
        read.append(len(text))
        return parse(text, complete=complete)

    monkeypatch.setattr(reading, "parse", counted)
    found, _ = reading.statement({}, (sql[at : at + size] for at in range(0, len(sql), size)))
    assert found.text == sql
    # Of the first KiB, each piece; then a text twice as long each time, and the whole.
    assert sum(read) < (1 << 20) // size + 4 * len(sql)


def _asked_in_pieces(server: Server, sql: bytes, size: int) -> float:
    begun = time.monotonic()
    pieces = (sql[at : at + size] for at in range(0, len(sql), size))
    assert server.ask(pieces, user="analyst").status >= 400
    return time.monotonic() - begun


def test_a_statement_in_many_pieces_costs_little_more(server: Server) -> None:
    sql = b"SELECT count() FROM (SELECT " + b"1+" * 50_000 + b"1" + b"  " * 25_000 + b") AS ("
    whole = min(_asked_in_pieces(server, sql, len(sql)) for _ in range(2))
    assert min(_asked_in_pieces(server, sql, 1000) for _ in range(2)) < 5 * whole + 3


def test_a_statement_has_a_bounded_length(server: Server, database: str) -> None:
    def text(octets: int) -> str:
        return f"SELECT length('{'x' * octets}')"

    assert server.sql(text(200_000), user="analyst") == "200000"
    long = server.ask(text(300_000), user="analyst")
    assert (long.status, long.code) == (400, 62)
    assert "Max query size exceeded" in long.text
    assert server.sql(text(900_000), user="analyst", max_query_size=1_000_000) == "900000"
    assert server.ask(text(1_100_000), user="analyst", max_query_size=2_000_000).code == 62
    assert server.ask(text(300_000), user="analyst", method="GET", path="/", query="").code == 62
    # The data of an INSERT do not count.
    server.sql("CREATE TABLE t (a UInt32) ENGINE = Memory", database=database)
    server.sql("INSERT INTO t VALUES " + ",".join(f"({n})" for n in range(400_000)), database=database)
    assert server.sql("SELECT count() FROM t", database=database) == "400000"


def test_a_url_has_a_bounded_number_of_parameters(server: Server) -> None:
    answer = server.ask(path="/?" + "&".join(f"a{n}=1" for n in range(2000)), body="SELECT 1")
    assert answer.code == 36


def test_metrics_of_a_stranger_cost_nothing() -> None:
    """A scrape never asks the engine, and makes no text within a second of the last."""
    asked: list[int] = []
    sizes = metrics.Sizes(lambda: asked.append(1) or [["d", "5", "6"]], seconds=60)  # type: ignore[func-returns-value]
    free: list[int] = []
    text = metrics.Text(lambda: len(free.append(1) or free), seconds=60)  # type: ignore[func-returns-value]
    first = text.get()
    for _ in range(100):
        assert text.get() is first
    assert (len(asked), len(free)) == (0, 1)
    sizes.start()
    assert eventually(lambda: metrics.disk.labels("d")._value.get() == 5)
    sizes.stop()
    assert len(asked) == 1
    later = metrics.Text(lambda: len(free.append(1) or free), seconds=0)  # type: ignore[func-returns-value]
    assert later.get() is not later.get()


def test_a_scrape_waits_for_no_other() -> None:
    gate = threading.Event()
    inside = threading.Event()
    waits = [False, True]

    def free() -> int:
        if waits.pop(0):
            inside.set()
            gate.wait(30)
        return 1

    text = metrics.Text(free, seconds=0)
    first = text.get()
    slow = threading.Thread(target=text.get)
    slow.start()
    assert inside.wait(30)
    assert text.get() is first
    gate.set()
    slow.join()


# -- time limits, short ones, of a listener in this process -----------------------------------------------------------


@pytest.fixture
def listen(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """A listener without an engine, since no request reaches it."""
    with ExitStack() as ends:
        audit = Audit(tmp_path / "audit")
        audit.start()
        ends.callback(audit.stop)

        def begin(**limits: float) -> Server:
            access = load(FOLDER / "access.yaml", {f"WEIR_PASSWORD_{name.upper()}": key for name, key in PASSWORDS.items()})
            engine: Any = SimpleNamespace(version="0", memory=1 << 30, timezone="UTC")
            front = Front(engine, access, 4, 1 << 30, audit, People(access, tmp_path / "lockout.db"), Limits(**limits))  # type: ignore[arg-type]
            listener = Listener(socket.create_server(("127.0.0.1", 0)), front)
            listener.prepare()
            thread = threading.Thread(target=listener.serve)
            thread.start()
            ends.callback(thread.join)
            ends.callback(listener.stop)
            return Server("127.0.0.1", listener.bind_addr[1], ("admin", PASSWORDS["admin"]), PASSWORDS)

        yield begin


def _dripped(raw: socket.socket, drop: bytes, every: float) -> tuple[bytes, float]:
    """Send small pieces until an answer or the end; returns the answer and the time."""
    begun = time.monotonic()
    raw.settimeout(every)
    while time.monotonic() - begun < 30:
        try:
            return raw.recv(1 << 16), time.monotonic() - begun
        except TimeoutError:
            try:
                raw.sendall(drop)
            except OSError:
                return b"", time.monotonic() - begun
        except OSError:
            return b"", time.monotonic() - begun
    pytest.fail("nothing for 30 s")


def _until(raw: socket.socket, end: bytes) -> bytes:
    answer = b""
    while not answer.endswith(end):
        answer += (piece := raw.recv(1 << 16))
        assert piece, answer
    return answer


def test_a_head_must_come_in_time(listen: Callable[..., Server]) -> None:
    server = listen(head=1)
    for part in (b"", b"POST / HT", b"POST / HTTP/1.1\r\nX: "):
        answer, took = _dripped(_send(server, part), b"x" if part else b"", 0.1)
        assert answer == b""
        assert 0.5 < took < 10
    # A kept connection has the same time from the first octet of the next request.
    ping = b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"
    raw = _send(server, ping)
    assert _until(raw, b"Ok.\n").startswith(b"HTTP/1.1 200")
    time.sleep(1.5)
    raw.sendall(ping)
    assert _until(raw, b"Ok.\n").startswith(b"HTTP/1.1 200")
    answer, took = _dripped(raw, b"G", 0.1)
    assert answer == b""
    assert took < 10


def test_a_statement_must_come_in_time(listen: Callable[..., Server]) -> None:
    server = listen(statement=1)
    answer, took = _dripped(_send(server, _head("writer", 10_000) + b"SELECT "), b"1", 0.1)
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"Code: 209" in answer
    assert 0.5 < took < 10


def test_data_must_keep_a_pace() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    stream = Stream(ours)
    with ours, theirs:
        # 0.5 s to begin with, and a second more for each 100 octets; never more than 0.5 s at a time.
        stream.allow(0.5, 100)
        for _ in range(8):
            theirs.sendall(bytes(50))
            time.sleep(0.1)
            assert len(stream.read1(1000)) == 50
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            stream.read1(1)
        assert 0.4 < time.monotonic() - begun < 5
        stream.allow(0.5, 100)
        begun = time.monotonic()
        sending = threading.Timer(0, _drip, (theirs,))
        sending.start()
        with pytest.raises(TimeoutError):  # noqa: PT012
            while True:
                assert stream.read1(1000)
        sending.join()
        assert time.monotonic() - begun < 5
        theirs.close()
        assert stream.read1(1000) is not None


def _drip(raw: socket.socket) -> None:
    for _ in range(20):
        time.sleep(0.05)
        raw.sendall(b"x")


def test_strangers_go_first_where_there_are_too_many(listen: Callable[..., Server]) -> None:
    server = listen(connections=20, head=60)
    known = http.client.HTTPConnection(server.host, server.port, timeout=60)
    key = PASSWORDS["writer"]
    known.request("POST", "/?query=", "SELECT 1; SELECT 2", {"X-ClickHouse-User": "writer", "X-ClickHouse-Key": key})
    response = known.getresponse()
    assert b"Multi-statements" in response.read()
    with ExitStack() as held:
        strangers = [held.enter_context(_send(server, b"POST / HTTP/1.1\r\n")) for _ in range(60)]
        assert eventually(lambda: _gone(strangers[0]))
        known.request("GET", "/ping")
        assert known.getresponse().read() == b"Ok.\n"
        assert server.ask(path="/ping", method="GET").body == b"Ok.\n"
        assert not _gone(strangers[-1])
    known.close()


def _gone(raw: socket.socket) -> bool:
    raw.settimeout(0.05)
    try:
        return raw.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_large_heads_are_bounded_together(listen: Callable[..., Server]) -> None:
    server = listen(heads=1 << 20, head=60)
    with ExitStack() as held:
        large = [held.enter_context(_send(server, b"GET /?a=" + b"x" * 500_000)) for _ in range(6)]
        assert eventually(lambda: _gone(large[0]))
        assert not _gone(large[-1])
    assert server.ask(path="/?query=" + "x" * 900_000, method="GET").code != 0


def test_one_users_connections_keep_nobody_out(listen: Callable[..., Server]) -> None:
    server = listen(connections=20, idle=60)
    with ExitStack() as held:
        for _ in range(60):
            one = http.client.HTTPConnection(server.host, server.port, timeout=60)
            held.callback(one.close)
            headers = {"X-ClickHouse-User": "writer", "X-ClickHouse-Key": PASSWORDS["writer"]}
            one.request("POST", "/?query=", "SELECT 1; SELECT 2", headers)
            assert b"Multi-statements" in one.getresponse().read()
        for _ in range(5):
            assert server.ask(path="/ping", method="GET").body == b"Ok.\n"


def test_answers_that_a_stranger_does_not_read_hold_no_worker(listen: Callable[..., Server]) -> None:
    server = listen()
    request = b"GET /" + b"a" * 60_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    with ExitStack() as held:
        for _ in range(50):
            raw = held.enter_context(socket.create_connection((server.host, server.port)))
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.settimeout(1)
            with suppress(OSError):
                for _ in range(100):
                    raw.sendall(request)
        begun = time.monotonic()
        assert server.ask(path="/ping", method="GET").body == b"Ok.\n"
        assert time.monotonic() - begun < 15


def test_a_closed_connection_reads_nothing_of_the_next_one_with_its_number() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    stream = Stream(ours)
    number = ours.fileno()
    stream.let_go()
    ours.close()
    out, into = os.pipe()
    try:
        os.dup2(out, number)
        os.write(into, b"of another")
        stream.allow(1)
        for reading in (stream.fill, lambda: stream.read1(10), stream.readline):
            with pytest.raises(OSError, match=r"(?i)bad file|closed"):
                reading()
        assert os.read(number, 100) == b"of another"
    finally:
        for one in {number, out, into}:
            os.close(one)
        theirs.close()
