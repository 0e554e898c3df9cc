"""The audit says who asked what, from where, and what came back; the front writes it whatever happens to the store."""

from __future__ import annotations

import calendar
import contextlib
import http.client
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import FOLDER, Server, eventually, stop
from weir_clickhouse import chain, metrics
from weir_clickhouse.access import Role, User, load
from weir_clickhouse.audit import SPEAKS_FOR_OTHERS, Audit, AuditBusy, _target
from weir_clickhouse.errors import ServerError
from weir_clickhouse.quotas import Spent
from weir_clickhouse.statement import parse

pytestmark = pytest.mark.embedded

Begin = Callable[..., Server]
READER = User("analyst", Role("analyst", "", ("select",), ("weir.*",), readonly=True), ())
WRITER = User("writer", Role("writer", "", ("insert", "select"), ("weir.*",), readonly=False), ())


def _folder(server: Server) -> Path:
    assert server.data is not None
    return server.data / "audit"


def _entries(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The entries of a kind, each with its text."""
    return [{**one.entry, "text": one.text} for one in chain.entries(folder) if one.entry["kind"] == kind]


def _ask(server: Server, text: str) -> dict[str, Any]:
    """The entry of the statement that contains a text, with its answer."""
    (ask,) = [one for one in _entries(_folder(server), "ask") if text in one["text"]["statement"]]

    def answers() -> list[dict[str, Any]]:
        return [one for one in _entries(_folder(server), "answer") if one["of"] == ask["number"]]

    # The client may have its answer a moment before that is written down.
    assert eventually(lambda: bool(answers()))
    (answer,) = answers()
    return {**ask, **{key: answer[key] for key in ("rows", "octets", "code")}}


def test_an_entry_says_who_asked_what_from_where_and_how_much_came_back(own_server: Begin) -> None:
    server = own_server()
    text = "SELECT number, '192.0.2.7', '2001:DB8::1', '::ffff:198.51.100.9', '203.0.113.0/24' FROM system.numbers LIMIT 7"
    body = server.ask(text, user="analyst", query_id="mine", headers={"User-Agent": "curl/8"}, ok=True).body
    one = _ask(server, "LIMIT 7")
    assert {key: one[key] for key in ("user", "role", "address", "rows", "octets", "code")} == {
        "user": "analyst",
        "role": "analyst",
        "address": "127.0.0.1",
        "rows": 7,
        "octets": len(body),
        "code": 0,
    }
    assert one["text"]["statement"] == text
    assert sorted(one["text"]["addresses"]) == ["192.0.2.7", "198.51.100.9", "2001:db8::1", "203.0.113.0/24"]
    assert one["text"] | {"agent": "curl/8", "query_id": "mine"} == one["text"]
    assert abs(time.time() - _seconds(one["time"])) < 60
    file = next(_folder(server).glob("*.jsonl"))
    assert file.stat().st_mode & 0o777 == 0o600
    assert not chain.walk(_folder(server)).breaks


def _seconds(text: str) -> float:
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))


def test_parameters_count_and_a_long_statement_is_bounded(own_server: Begin) -> None:
    server = own_server()
    long = f"SELECT 'long', '{'x' * 100_000}', '192.0.2.99' FORMAT Null"
    server.ask(long, user="analyst", ok=True)
    server.ask("SELECT {who:String}, 'given'", user="analyst", param_who="192.0.2.98", ok=True)
    one = _ask(server, "'long'")["text"]
    assert (len(one["statement"]), one["statement_octets"]) == (4096, len(long))
    assert one["addresses"] == ["192.0.2.99"]
    given = _ask(server, "'given'")["text"]
    assert (given["parameters"], given["addresses"]) == ("who=192.0.2.98", ["192.0.2.98"])


def test_a_failure_of_the_engine_and_a_refused_statement_have_their_code(own_server: Begin) -> None:
    server = own_server()
    assert server.ask("SELECT throwIf(1)", user="analyst").code == 395
    assert server.ask("SELECT * FROM file('/etc/passwd')", user="analyst").code != 0
    assert server.ask("SELECT 1; DROP TABLE weir.flows", user="analyst").code == 62
    assert server.ask("DROP TABLE nothing", user="analyst").code == 164
    assert _ask(server, "throwIf")["code"] == 395
    refused = {one["text"]["statement"]: one for one in _entries(_folder(server), "refused")}
    assert set(refused) == {"SELECT * FROM file('/etc/passwd')", "SELECT 1; DROP TABLE weir.flows", "DROP TABLE nothing"}
    assert refused["DROP TABLE nothing"]["code"] == 164
    assert refused["DROP TABLE nothing"]["user"] == "analyst"


def test_an_answer_that_ends_in_an_error_has_its_rows(own_server: Begin) -> None:
    """As lines of the answer, or as rows read for it; those count for the quota, too."""
    server = own_server()
    for name, form in (("lines", "TSV"), ("blocks", "Native")):
        asked = f"SELECT number, '{name}', throwIf(number = 3000000) FROM numbers(4000000) FORMAT {form}"
        with pytest.raises(http.client.IncompleteRead):
            server.ask(asked, user="analyst")
    assert server.ask("SELECT max(throwIf(number = 3000000, 'nothing')) FROM numbers(4000000)", user="analyst").code == 395
    stop(server)
    answers = {one["of"]: one for one in _entries(_folder(server), "answer")}
    for name, rows in (("'lines'", True), ("'blocks'", True), ("'nothing'", False)):
        answer = answers[_number(server, name)]
        assert answer["code"] == 395
        assert answer["read_rows"] > 2_900_000, name
        assert (answer["rows"] > 2_000_000, answer["rows"] == 0) == (rows, not rows), name


def _number(server: Server, text: str) -> int:
    (found,) = (one["number"] for one in _entries(_folder(server), "ask") if text in one["text"]["statement"])
    return int(found)


def test_a_refused_insert_of_a_reader_has_an_entry(own_server: Begin) -> None:
    server = own_server()
    assert server.ask("INSERT INTO weir.flows FORMAT TSV\n192.0.2.7\n", user="analyst").code == 164
    stop(server)
    (refused,) = _entries(_folder(server), "refused")
    assert (refused["code"], "weir.flows" in refused["text"]["statement"]) == (164, True)
    assert _entries(_folder(server), "inserts") == []


def test_an_entry_names_the_database(own_server: Begin) -> None:
    server = own_server()
    server.sql("CREATE DATABASE other", database="default")
    server.sql("SELECT 'by parameter'", database="other")
    server.sql("SELECT 'by header'", headers={"X-ClickHouse-Database": "other"})
    server.sql("USE other", session_id="s")
    server.sql("SELECT 'by session'", session_id="s")
    server.ask("SELECT FROM 'refused", database="192.0.2.7")
    stop(server)
    for text in ("'by parameter'", "'by header'", "'by session'"):
        (found,) = (one for one in _entries(_folder(server), "ask") if text in one["text"]["statement"])
        assert found["text"]["database"] == "other", text
    (refused,) = _entries(_folder(server), "refused")
    assert (refused["text"]["database"], refused["text"]["addresses"]) == ("192.0.2.7", ["192.0.2.7"])


def test_external_data_are_in_the_entry(own_server: Begin) -> None:
    server = own_server()
    part = "--q\r\nContent-Disposition: form-data; name=wanted; filename=w\r\n\r\n192.0.2.7\t3\n" + "x\t1\n" * 9000
    form = f"{part}\r\n--q\r\nContent-Disposition: form-data; name=query\r\n\r\nSELECT count() FROM wanted\r\n--q--\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=q"}
    server.ask(form, user="analyst", headers=kind, wanted_structure="a String, n UInt8", ok=True)
    assert server.ask(form, user="analyst", headers=kind, wanted_structure="a String DEFAULT '192.0.2.9'").code == 36
    stop(server)
    text = _ask(server, "FROM wanted")["text"]
    (data,) = text["external"]
    assert (data["name"], data["format"], data["columns"]) == ("wanted", "TabSeparated", "`a` String, `n` UInt8")
    assert data["data"].startswith("192.0.2.7\t3\nx\t1\n")
    assert (data["octets"], len(data["sha256"]), text["addresses"]) == (12 + 9000 * 4, 64, ["192.0.2.7"])
    (refused,) = _entries(_folder(server), "refused")
    assert refused["text"]["statement"] == "SELECT count() FROM wanted"
    assert "wanted_structure=a String DEFAULT" in refused["text"]["form"]
    assert set(refused["text"]["addresses"]) == {"192.0.2.7", "192.0.2.9"}
    assert not chain.walk(_folder(server)).breaks


def test_the_longest_entry_fits_into_its_line(own_server: Begin) -> None:
    server = own_server()
    parts = "".join(
        f"--q\r\nContent-Disposition: form-data; name={'t' * 60}{n}; filename=w\r\n\r\n{chr(1) * 9000}\r\n" for n in range(16)
    )
    described: dict[str, Any] = {f"{'t' * 60}{n}_structure": f"`{chr(2) * 900}` String" for n in range(16)}
    addresses = ", ".join(f"'2001:db8:{n:x}:ffff:ffff:ffff:ffff:{n:x}'" for n in range(200))
    server.ask(
        parts + "--q--\r\n",
        query="SELECT '" + chr(1) * 9000 + f"', {addresses}",
        param_p=chr(3) * 20_000,
        headers={"Content-Type": "multipart/form-data; boundary=q", "User-Agent": "x" * 2000},
        **described,
    )
    stop(server)
    assert not chain.walk(_folder(server)).breaks
    assert max(len(raw) for _, _, raw in chain.lines(_folder(server))) > 40_000


def test_only_the_account_of_the_dashboards_speaks_for_a_person(own_server: Begin) -> None:
    server = own_server()
    claim = {"X-Weir-Person": "Kari%20N%C3%B8rd", "X-Weir-Person-Address": "198.51.100.77"}
    server.ask("SELECT 'a dashboard'", user="dashboard", headers=claim, ok=True)
    server.ask("SELECT 'an analyst'", user="analyst", headers=claim, ok=True)
    through = _ask(server, "'a dashboard'")
    assert (through["user"], through["person"], through["person_address"]) == ("dashboard", "Kari Nørd", "198.51.100.77")
    assert not {"person", "person_address"} & set(_ask(server, "'an analyst'"))


def test_inserts_and_failed_logins_are_summed_up(own_server: Begin) -> None:
    server = own_server()
    server.sql("CREATE DATABASE weir", database="default")
    server.sql("CREATE TABLE weir.t (n UInt64) ENGINE = MergeTree ORDER BY n", database="weir")
    for rows in (1, 2, 3):
        server.ask("INSERT INTO weir.t FORMAT TSV\n" + "7\n" * rows, user="writer", ok=True)
    assert server.ask("INSERT INTO t FORMAT TSV\nno number\n", user="writer").code != 0
    server.ask("INSERT INTO weir.t VALUES (1), (2)", ok=True)
    for name in ("root", "root", "admin"):
        assert server.ask("SELECT 1", headers={"X-ClickHouse-User": name, "X-ClickHouse-Key": "wrong"}).code == 516
    stop(server)
    (inserts,) = _entries(_folder(server), "inserts")
    assert {key: inserts[key] for key in ("user", "address", "count", "failed", "rows")} == {
        "user": "writer",
        "address": "127.0.0.1",
        "count": 4,
        "failed": 1,
        "rows": 6,
    }
    # Beside the entry, since it may hold an address: `weir forget` can erase it.
    assert inserts["text"]["tables"] == {"weir.t": 3, "t": 1}
    (logins,) = _entries(_folder(server), "failed_login")
    assert (logins["address"], logins["count"], logins["text"]["names"]) == ("127.0.0.1", 3, {"admin": 1, "root": 2})
    assert _ask(server, "INSERT INTO weir.t")["rows"] == 2  # an administrator's have entries of their own
    assert not chain.walk(_folder(server)).breaks


def test_many_at_once_make_one_chain(own_server: Begin) -> None:
    server = own_server()

    def ask(worker: int) -> None:
        for turn in range(25):
            server.ask(f"SELECT {turn} + {worker}000", user="admin", ok=True)

    threads = [threading.Thread(target=ask, args=(worker,)) for worker in range(12)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    asked = {one["text"]["statement"] for one in _entries(_folder(server), "ask")}
    assert asked >= {f"SELECT {turn} + {worker}000" for turn in range(25) for worker in range(12)}
    found = chain.walk(_folder(server))
    assert (found.breaks, found.torn) == ([], [])


def test_a_kill_in_the_middle_of_a_statement_leaves_its_question(own_server: Begin) -> None:
    server = own_server()

    def ask() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            server.ask("SELECT sleepEachRow(1) FROM numbers(20)", user="analyst")

    thread = threading.Thread(target=ask)
    thread.start()
    assert eventually(lambda: any("sleepEachRow" in one["text"]["statement"] for one in _entries(_folder(server), "ask")))
    stop(server, 9)
    thread.join()
    # As if the kill had come in the middle of a line.
    file = max(_folder(server).glob("*.jsonl"))
    with file.open("ab") as opened:
        opened.write(b'{"entry":{"address":"127')
    assert "lacks its end" in str(chain.walk(_folder(server)).torn)
    again = own_server()
    again.ask("SELECT 'after'", user="analyst", ok=True)
    found = chain.walk(_folder(again))
    assert found.breaks == []
    assert "cut this line off" in str(found.torn)
    assert _ask(again, "'after'")["code"] == 0


def test_without_its_audit_readers_wait_and_writers_go_on(own_server: Begin, tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    folder.mkdir()
    file = chain.path(folder, "2099-01-01")  # the newest file is the one that is written
    file.touch(mode=0o400)
    server = own_server("--audit", str(folder))
    server.sql("CREATE DATABASE weir", database="default")  # an administrator has to make room
    server.sql("CREATE TABLE weir.t (n UInt64) ENGINE = MergeTree ORDER BY n", database="weir")
    server.ask("INSERT INTO weir.t FORMAT TSV\n7\n", user="writer", ok=True)
    assert server.ask("SELECT count() FROM t", user="writer", database="weir", ok=True).text == "1\n"
    refused = server.ask("SELECT 'in vain'", user="analyst")
    assert refused.code == 75
    assert "The audit cannot be written (Permission denied)" in refused.text

    def shows(line: str) -> bool:
        return line in server.ask(None, path="/metrics", method="GET").text.splitlines()

    assert eventually(lambda: shows("weir_clickhouse_audit_writable 0.0"))
    assert eventually(lambda: shows('weir_clickhouse_refused_total{cause="audit"} 1.0'))
    file.chmod(0o600)
    server.ask("SELECT 'again'", user="analyst", ok=True)
    assert eventually(lambda: shows("weir_clickhouse_audit_writable 1.0"))
    stop(server)
    asked = [one["text"]["statement"] for one in _entries(folder, "ask")]
    assert [text[:22] for text in asked] == [
        "CREATE DATABASE weir",
        "CREATE TABLE weir.t (n",
        "SELECT count() FROM t",
        "SELECT 'again'",
    ]
    assert [one["text"]["statement"] for one in _entries(folder, "refused")] == ["SELECT 'in vain'"]
    found = chain.walk(folder)
    assert (found.breaks, found.torn) == ([], [])


def test_an_administrators_tool_notes_what_it_does(own_server: Begin) -> None:
    server = own_server()
    body = json.dumps({"action": "forget", "person": "kari", "detail": {"rows": 7}})
    number = json.loads(server.ask(body, path="/weir/audit", ok=True).text)["number"]
    (one,) = _entries(_folder(server), "action")
    assert (one["number"], one["action"], one["person"], one["detail"], one["user"]) == (
        number,
        "forget",
        "kari",
        {"rows": 7},
        "admin",
    )
    assert server.ask(body, path="/weir/audit", user="analyst").code == 497
    assert server.ask("[]", path="/weir/audit").code == 36
    assert server.ask("{" * 20_000, path="/weir/audit").code == 307
    assert len(_entries(_folder(server), "action")) == 1


# ---- the writer alone, with its own clock ----


@pytest.fixture
def clock() -> list[float]:
    return [1_800_000_000.0]


@pytest.fixture
def audit(tmp_path: Path, clock: list[float]) -> Iterator[Audit]:
    one = Audit(tmp_path / "audit", clock=lambda: clock[0])
    one.start()
    yield one
    one.stop()


def _question(audit: Audit, user: User, text: str, error: ServerError | None = None) -> None:
    with contextlib.suppress(ServerError), audit.question(user, "192.0.2.1", lambda _: None, {}) as asked:
        asked.read(parse(text.encode(), complete=True), {})
        if error:
            raise error
        asked.begin(Spent(), None)


def test_a_stranger_fills_neither_memory_nor_the_audit(audit: Audit, clock: list[float]) -> None:
    for number in range(5000):
        audit.login_failed(f"2001:db8::{number:x}", f"name {number}" * 100)
        audit.login_failed("192.0.2.7", f"name {number}")
        _question(audit, READER, "DROP TABLE t", ServerError(164, "no"))
    clock[0] += 60
    audit.tick()
    logins = _entries(audit.folder, "failed_login")
    assert len(logins) <= 1002
    assert sum(one["count"] for one in logins) == 10_000
    assert max(len(one["text"]["names"]) for one in logins) <= 21
    refused = _entries(audit.folder, "refused")
    assert len(refused) == 61
    assert sum(one.get("count", 1) for one in refused) == 5000


def test_refused_statements_fill_no_disk(own_server: Begin) -> None:
    """Control characters take six octets each in the file."""
    server = own_server()
    for _ in range(150):
        assert server.ask("BOGUS '" + "\x01" * 4000 + "'", user="analyst").code
    folder = _folder(server)
    assert sum(path.stat().st_size for path in folder.glob("*.jsonl")) < 150 * 4000
    assert len(_entries(folder, "refused")) <= 60


def test_a_minute_has_one_entry_for_a_writer(audit: Audit, clock: list[float]) -> None:
    for _ in range(3):
        for _ in range(100):
            _question(audit, WRITER, "INSERT INTO weir.flows FORMAT Native")
        clock[0] += 60
        audit.tick()
    inserts = _entries(audit.folder, "inserts")
    assert [(one["count"], one["text"]["tables"]) for one in inserts] == [(100, {"weir.flows": 100})] * 3
    assert len({one["minute"] for one in inserts}) == 3
    assert _entries(audit.folder, "ask") == []


def test_files_follow_the_days_and_never_go_back(audit: Audit, clock: list[float]) -> None:
    for step in (0, 86_400, -86_400 * 3, 86_400 * 5):
        clock[0] += step
        _question(audit, READER, "SELECT 1")
    audit.stop()
    clock[0] -= 86_400 * 2
    audit = Audit(audit.folder, clock=lambda: clock[0])
    audit.start()
    audit.stop()
    assert chain.days(audit.folder) == ["2027-01-15", "2027-01-16", "2027-01-18"]
    found = chain.walk(audit.folder)
    assert (found.breaks, found.entries) == ([], 12)


def test_entries_wait_within_a_bound_while_none_can_be_written(audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    lost = metrics.audit_lost._value.get()
    with monkeypatch.context() as patch:
        patch.setattr("weir_clickhouse.audit.os.write", full)
        for _ in range(800):
            _question(audit, WRITER, "SELECT 1")
        with pytest.raises(ServerError, match="The audit cannot be written \\(No space left on device\\)"):
            audit.question(READER, "192.0.2.1", lambda _: None, {}).begin(Spent(), None)
        assert len(audit._waiting) == 1000
    _question(audit, READER, "SELECT 2")
    assert len(_entries(audit.folder, "ask")) + len(_entries(audit.folder, "answer")) == 1002
    assert [one["entries"] for one in _entries(audit.folder, "lost")] == [600]
    assert metrics.audit_lost._value.get() - lost == 600
    assert not chain.walk(audit.folder).breaks


@pytest.mark.parametrize("truncates", [True, False])
def test_a_disk_that_takes_half_a_line(audit: Audit, monkeypatch: pytest.MonkeyPatch, truncates: bool) -> None:
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr("weir_clickhouse.audit.os.write", lambda file, data: write(file, data[:40]))
        if not truncates:
            patch.setattr("weir_clickhouse.audit.os.ftruncate", _refuses)
        _question(audit, READER, "SELECT 1")
        _question(audit, READER, "SELECT 1")
    _question(audit, READER, "SELECT 2")
    found = chain.walk(audit.folder)
    assert (found.breaks, found.torn) == ([], [])
    assert [one["text"]["statement"] for one in _entries(audit.folder, "refused")] == ["SELECT 1"] * 2
    assert [one["text"]["statement"] for one in _entries(audit.folder, "ask")] == ["SELECT 2"]


def _refuses(*_: object) -> None:
    raise OSError(5, "Input/output error")


def test_one_process_writes_at_a_time(audit: Audit) -> None:
    with pytest.raises(AuditBusy, match="another process writes to"):
        Audit(audit.folder).start()


def test_the_table_of_an_insert() -> None:
    for text, table in (
        ("INSERT INTO weir.flows (a, b) FORMAT Native", "weir.flows"),
        ("insert into table `flows` VALUES (1)", "`flows`"),
        ("INSERT INTO flows SETTINGS a = 1 FORMAT TSV", "flows"),
        ("INSERT INTO FUNCTION null('a UInt8') VALUES (1)", "FUNCTION"),
    ):
        assert _target(parse(text.encode(), complete=True)) == table


def test_the_access_file_names_the_account_of_the_dashboards() -> None:
    assert load(FOLDER / "access.yaml", {}).users[SPEAKS_FOR_OTHERS].role.readonly
