"""ClickHouse's HTTP interface as curl sees it."""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.parse
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import Server


def test_ping_answers_without_a_password(server: Server) -> None:
    assert server.ask(path="/ping", method="GET", headers={"X-ClickHouse-Key": "wrong"}).body == b"Ok.\n"
    assert server.ask(path="/replicas_status", method="GET").body == b"Ok.\n"
    assert server.ask(path="/", method="GET").body == b"Ok.\n"
    head = server.ask(path="/ping", method="HEAD")
    assert (head.status, head.body) == (200, b"")


def test_an_unknown_path_is_404(server: Server) -> None:
    assert server.ask(path="/nothing", method="GET").status == 404


def test_query_in_the_url_in_the_body_and_in_both(server: Server) -> None:
    assert server.ask(method="GET", query="SELECT 1", ok=True).text == "1\n"
    assert server.sql("SELECT 2") == "2"
    assert server.ask(" + 1", query="SELECT 2", ok=True).text == "3\n"
    assert server.sql("SELECT 4 ;  -- the end") == "4"


@pytest.mark.parametrize("how", ["header", "basic", "url"])
def test_every_way_to_give_a_password(server: Server, how: str) -> None:
    name, password = server.admin
    headers, params = {}, {}
    if how == "header":
        headers = {"X-ClickHouse-User": name, "X-ClickHouse-Key": password}
    elif how == "basic":
        headers = {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}
    else:
        params = {"user": name, "password": password}
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    connection.request("POST", "/?" + urllib.parse.urlencode(params), "SELECT 1", headers)
    response = connection.getresponse()
    assert (response.status, response.read()) == (200, b"1\n")
    connection.close()


@pytest.mark.parametrize("name", ["", "admin", "nobody", "default"])
def test_a_wrong_password_is_refused(server: Server, name: str) -> None:
    answer = server.ask("SELECT 1", headers={"X-ClickHouse-User": name, "X-ClickHouse-Key": "wrong"})
    assert answer.status in (401, 403)
    assert answer.code in (516, 194)
    assert "Authentication failed" in answer.text


@pytest.mark.parametrize(
    ("sql", "status", "code", "words"),
    [
        ("SELEC 1", 400, 62, "Syntax error"),
        ("SELECT 1 FROM", 400, 62, "Syntax error"),
        ("SELECT 'open", 400, 62, "Syntax error"),
        ("SELECT * FROM no_such_table", 404, 60, "UNKNOWN_TABLE"),
        ("SELECT nothing", 404, 47, "UNKNOWN_IDENTIFIER"),
        ("SELECT no_such_function(1)", 404, 46, "UNKNOWN_FUNCTION"),
        ("SELECT throwIf(number = 2) FROM numbers(5)", 500, 395, "FUNCTION_THROW_IF"),
        ("SELECT 1 SETTINGS no_such_setting = 1", 404, 115, "UNKNOWN_SETTING"),
        ("", 400, 62, ""),
    ],
)
def test_errors_have_clickhouses_shape(server: Server, sql: str, status: int, code: int, words: str) -> None:
    answer = server.ask(sql)
    assert answer.code == code
    assert answer.status == status
    assert answer.text.startswith(f"Code: {code}. DB::Exception: ")
    assert words in answer.text
    assert "OUTFILE" not in answer.text
    assert answer.text.count("DB::Exception") == 1


def test_formats_by_clause_header_and_parameter(server: Server) -> None:
    assert json.loads(server.sql("SELECT 1 AS a FORMAT JSON"))["data"] == [{"a": 1}]
    assert server.sql("SELECT 1 AS a", headers={"X-ClickHouse-Format": "JSONEachRow"}) == '{"a":1}'
    assert server.sql("SELECT 1 AS a", default_format="CSVWithNames") == '"a"\n1'
    assert server.sql("SELECT 1 AS a FORMAT CSV SETTINGS max_threads = 1", default_format="JSON") == "1"
    assert server.ask("SELECT 1", ok=True).headers["x-clickhouse-format"] == "TabSeparated"
    assert server.ask("SELECT 1 FORMAT NoSuch").code == 73


@pytest.mark.parametrize("name", ["JSON", "CSVWithNames", "TSVWithNamesAndTypes", "RowBinaryWithNamesAndTypes", "XML", "Native"])
def test_a_streamed_result_has_one_header(server: Server, name: str) -> None:
    """An answer in pieces equals the whole answer."""
    sql = f"SELECT number, toString(number) AS text FROM numbers(300000) FORMAT {name} SETTINGS max_threads = 1, output_format_write_statistics = 0"
    streamed = server.ask(sql, ok=True)
    whole = server.ask(sql, wait_end_of_query=1, ok=True)
    assert streamed.headers.get("transfer-encoding") == "chunked"
    assert streamed.body == whole.body
    if name == "JSON":
        assert json.loads(streamed.body)["rows"] == 300000


def test_headers_of_an_answer(server: Server) -> None:
    name = f"id {uuid.uuid4()}"
    headers = server.ask("SELECT 1", query_id=name, ok=True).headers
    assert headers["x-clickhouse-query-id"] == name
    assert headers["x-clickhouse-timezone"] == "UTC"
    assert headers["x-clickhouse-server-display-name"]
    assert set(json.loads(headers["x-clickhouse-summary"])) >= {"read_rows", "written_rows", "elapsed_ns"}


@pytest.mark.embedded
def test_a_query_id_cannot_add_a_header(server: Server) -> None:
    answer = server.ask("SELECT 1", query_id="x\r\nX-Evil: 1\r\n\r\nbody", ok=True)
    assert "x-evil" not in answer.headers
    assert answer.body == b"1\n"


@pytest.mark.embedded
def test_octets_that_are_not_utf8(server: Server) -> None:
    assert server.ask(b"SELECT hex('\xff\xfe')", ok=True).text == "FFFE\n"
    assert server.ask(path="/?query=SELECT%20hex(%27%FF%27)", method="GET", ok=True).text == "FF\n"
    assert server.ask(path="/?param_a=%FF", body="SELECT hex({a:String})").code == 36
    assert server.ask(path="/?log_comment=%FF&query_id=%FE", body="SELECT 1", ok=True).text == "1\n"


def test_parameters(server: Server) -> None:
    text = server.sql(
        "SELECT {s:String}, {n:UInt8} + 1, {a:Array(UInt8)}, {t:Identifier} FROM system.one",
        param_s="it's \\\\ a \\t tab; --",
        param_n=4,
        param_a="[1,2]",
        param_t="dummy",
    )
    assert text == "it\\'s \\\\ a \\t tab; --\t5\t[1,2]\t0"


def test_settings_of_the_url_hold_for_one_request(server: Server) -> None:
    ask = "SELECT getSetting('max_block_size')"
    before = server.sql(ask)
    assert server.sql(ask, max_block_size=77) == "77"
    assert server.sql(ask) == before
    assert server.ask(ask, no_such_setting=1).code == 115


def test_database_by_parameter_and_header(server: Server, database: str) -> None:
    assert server.sql("SELECT currentDatabase()", database=database) == database
    assert server.sql("SELECT currentDatabase()", headers={"X-ClickHouse-Database": database}) == database
    assert server.ask("SELECT 1", database="no_such_database").code == 81


def test_sessions_keep_settings_and_temporary_tables(server: Server) -> None:
    one, other = f"s{uuid.uuid4()}", f"s{uuid.uuid4()}"
    server.sql("SET max_block_size = 123, session_timezone = 'Asia/Tokyo'", session_id=one)
    ask = "SELECT getSetting('max_block_size'), timezone()"
    assert server.sql(ask, session_id=one) == "123\tAsia/Tokyo"
    assert not server.sql(ask, session_id=other).startswith("123\t")
    assert not server.sql(ask).startswith("123\t")
    server.sql("USE system", session_id=one)
    assert server.sql("SELECT currentDatabase()", session_id=one) == "system"
    server.sql("CREATE TEMPORARY TABLE kept (a UInt8)", session_id=one)
    server.sql("INSERT INTO kept VALUES (1), (2)", session_id=one)
    assert server.sql("SELECT sum(a), getSetting('max_block_size') FROM kept", session_id=one, max_block_size=5) == "3\t5"
    assert server.sql("SELECT sum(a), getSetting('max_block_size') FROM kept", session_id=one) == "3\t123"
    assert server.ask("SELECT sum(a) FROM kept", session_id=other).code == 60
    assert server.ask("SELECT 1", session_id=f"s{uuid.uuid4()}", session_check=1).code == 372


@pytest.mark.embedded
def test_a_session_takes_one_request_at_a_time(server: Server) -> None:
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(server.ask, "SELECT sleepEachRow(1) FROM numbers(3) SETTINGS max_block_size = 1", session_id="busy")
        time.sleep(0.5)
        codes = set()
        while not slow.done():
            codes.add(server.ask("SELECT 1", session_id="busy").code)
    assert slow.result().status == 200
    assert 373 in codes <= {0, 373}
    # One after another, as a client does: never refused.
    for _ in range(50):
        server.sql("SELECT 1", session_id="busy")


def test_get_only_reads(server: Server, database: str) -> None:
    answer = server.ask(method="GET", query=f"CREATE TABLE {database}.t (a UInt8) ENGINE = Memory")
    assert answer.code == 164
    assert server.sql(f"EXISTS TABLE {database}.t") == "0"


def test_head_of_a_query_has_no_body(server: Server) -> None:
    answer = server.ask(method="HEAD", query="SELECT 1")
    assert (answer.status, answer.body) == (200, b"")


def test_a_late_error_breaks_the_answer_off(server: Server) -> None:
    """A client must not mistake half an answer for a complete one."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    name, password = server.admin
    sql = "SELECT number, throwIf(number = 4000000) FROM numbers(10000000) SETTINGS max_block_size = 65536 FORMAT TSV"
    connection.request("POST", "/", sql, {"X-ClickHouse-User": name, "X-ClickHouse-Key": password})
    response = connection.getresponse()
    assert response.status == 200
    tag = response.getheader("X-ClickHouse-Exception-Tag")
    got = bytearray()
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):  # noqa: PT012
        try:
            while piece := response.read(1 << 20):
                got += piece
        except http.client.IncompleteRead as error:
            got += error.partial
            raise
    connection.close()
    if tag is not None:
        assert b"__exception__" in got[-2000:]
        assert tag.encode() in got[-2000:]
        assert b"Code: 395. DB::Exception" in got[-2000:]


def test_a_connection_is_kept_after_answers_and_errors(server: Server) -> None:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    name, password = server.admin
    headers = {"X-ClickHouse-User": name, "X-ClickHouse-Key": password}
    connection.connect()
    socket = connection.sock
    for sql, status in (
        ("SELECT 1", 200),
        ("SELECT nothing", 404),
        ("SELECT 2", 200),
        ("SELECT 1; SELECT 2", 400),
        ("SELECT 3", 200),
    ):
        connection.request("POST", "/", sql, headers)
        response = connection.getresponse()
        response.read()
        assert response.status == status
        assert connection.sock is socket
    connection.close()


def test_expect_100_continue(server: Server, database: str) -> None:
    server.sql(f"CREATE TABLE {database}.t (a UInt8) ENGINE = Memory")
    server.ask(b"1\n2\n", headers={"Expect": "100-continue"}, query=f"INSERT INTO {database}.t FORMAT TSV", ok=True)
    assert server.sql(f"SELECT sum(a) FROM {database}.t") == "3"
