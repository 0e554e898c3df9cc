"""Forms: external data, and parameters in the body, through the published client and as octets."""

from __future__ import annotations

import http.client
import io
import threading
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any

import numpy
import pyarrow
import pyarrow.parquet
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, StreamFailureError
from clickhouse_connect.driver.external import ExternalData
from conftest import Answer, Server
from test_clients import client_of
from weir_clickhouse import forms
from weir_clickhouse.errors import ServerError

USERS = ["admin", "writer", "analyst", "dashboard"]
HOSTS = b"192.0.2.7\t3\n192.0.2.8\t4\n"
COLUMNS = "host String, n UInt16"


def _form(server: Server, *parts: tuple[str, bytes], user: str | None = None, mark: str = "zq", **params: object) -> Answer:
    """Send a form whose parts have these heads and contents."""
    body = b"".join(b"--%s\r\n%s\r\n\r\n%s\r\n" % (mark.encode(), head.encode(), content) for head, content in parts)
    kind = {"Content-Type": f"multipart/form-data; boundary={mark}"}
    return server.ask(body + f"--{mark}--\r\n".encode(), user=user, headers=kind, **params)  # type: ignore[arg-type]


def _text(name: str) -> str:
    return f'Content-Disposition: form-data; name="{name}"'


def _file(name: str) -> str:
    return f'content-disposition: form-data; name="{name}"; filename="{name}.tsv"\r\nContent-Type: application/octet-stream'


@pytest.fixture(params=USERS)
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Any]:
    if request.param not in server.users:
        pytest.skip("its password is not set")
    made = client_of(server, request.param)
    yield made
    made.close()


# ---- external data ----


def test_external_data_join_with_what_is_stored(client: Any) -> None:
    data = ExternalData(file_name="wanted.tsv", data=HOSTS, structure=COLUMNS)
    asked = "SELECT number, host FROM numbers(10) AS a JOIN wanted ON a.number = wanted.n ORDER BY number"
    assert client.query(asked, external_data=data).result_rows == [(3, "192.0.2.7"), (4, "192.0.2.8")]


def test_several_tables_and_formats(client: Any) -> None:
    columns = pyarrow.table({"n": pyarrow.array([3, 5], pyarrow.uint16()), "note": ["three", "five"]})
    file = io.BytesIO()
    pyarrow.parquet.write_table(columns, file)
    data = ExternalData(file_name="wanted.tsv", data=HOSTS, structure=COLUMNS)
    data.add_file(file_name="notes.parquet", data=file.getvalue(), fmt="Parquet", structure=["n UInt16", "note String"])
    data.add_file(file_name="more.csv", data=b'"x",7\n', fmt="CSV", types="String,UInt8")
    asked = "SELECT host, note, (SELECT (_1, _2) FROM more) FROM wanted JOIN notes USING n"
    assert client.query(asked, external_data=data).result_rows == [("192.0.2.7", "three", ("x", 7))]


def test_empty_external_data(client: Any) -> None:
    data = ExternalData(file_name="none.csv", data=b"", structure="a String")
    assert client.query("SELECT * FROM none", external_data=data).result_rows == []
    assert client.command("SELECT count() FROM none", external_data=data) == 0


def test_external_data_are_gone_with_their_request(server: Server) -> None:
    for user in USERS:
        own = client_of(server, user)
        data = ExternalData(file_name="once.tsv", data=HOSTS, structure=COLUMNS)
        assert own.command("SELECT count() FROM once", external_data=data) == 2
        with pytest.raises(DatabaseError, match="UNKNOWN_TABLE"):
            own.query("SELECT count() FROM once")
        own.close()


def test_external_data_in_a_session_with_tables_of_its_own(server: Server, database: str) -> None:
    own = client_of(server, database=database, session_id=database)
    own.command("CREATE TEMPORARY TABLE kept (a UInt8)")
    own.command("INSERT INTO kept VALUES (9)")
    data = ExternalData(file_name="once.tsv", data=HOSTS, structure=COLUMNS)
    assert own.query("SELECT count(), any(a) FROM once, kept", external_data=data).result_rows == [(2, 9)]
    assert own.query("SELECT count(), any(a) FROM once, kept", external_data=data).result_rows == [(2, 9)]
    clash = ExternalData(file_name="kept.tsv", data=HOSTS, structure=COLUMNS)
    with pytest.raises(DatabaseError, match="TABLE_ALREADY_EXISTS"):
        own.query("SELECT count() FROM kept", external_data=clash)
    assert own.query("SELECT a FROM kept").result_rows == [(9,)]
    own.close()


def test_an_administrator_stores_external_data(server: Server, database: str) -> None:
    own = client_of(server, database=database)
    data = ExternalData(file_name="new.tsv", data=HOSTS, structure=COLUMNS)
    own.command("CREATE TABLE stored ENGINE = MergeTree ORDER BY n EMPTY AS SELECT * FROM new", external_data=data)
    own.command("INSERT INTO stored SELECT * FROM new", external_data=data)
    assert own.command("SELECT sum(n) FROM stored") == 7
    own.close()


# ---- parameters in a form ----


def test_parameters_in_a_form(server: Server) -> None:
    for user in USERS:
        own = client_of(server, user, form_encode_query_params=True)
        given = {"a": 7, "b": "it's\n\t\\ß", "c": [1, 2], "d": None}
        asked = "SELECT {a:UInt8}, {b:String}, {c:Array(UInt8)}, {d:Nullable(String)} IS NULL"
        assert own.query(asked, parameters=given).result_rows == [(7, "it's\n\t\\ß", [1, 2], 1)]
        assert own.raw_query("SELECT {a:Int32} + 1", parameters={"a": 9}) == b"10\n"
        own.close()


def test_a_long_list_as_a_parameter_of_a_form(server: Server) -> None:
    """It would not fit into a URL."""
    own = client_of(server, "analyst", form_encode_query_params=True)
    asked = "SELECT count() FROM numbers(100000) WHERE number IN {wanted:Array(UInt32)}"
    assert own.query(asked, parameters={"wanted": list(range(0, 80_000, 2))}).result_rows == [(40_000,)]
    own.close()


def test_parameters_and_external_data_in_one_form(server: Server) -> None:
    own = client_of(server, "analyst", form_encode_query_params=True)
    data = ExternalData(file_name="wanted.tsv", data=HOSTS, structure=COLUMNS)
    asked = "SELECT host FROM wanted WHERE n > {least:UInt16}"
    assert own.query(asked, parameters={"least": 3}, external_data=data).result_rows == [("192.0.2.8",)]
    probe = own.query(f"{asked} LIMIT 0", parameters={"least": 3}, external_data=data)
    assert probe.column_names == ("host",)
    own.close()


# ---- parameters in INSERT ----


@pytest.mark.parametrize("user", ["admin", "writer"])
def test_parameters_among_the_values_of_an_insert(server: Server, user: str) -> None:
    own = client_of(server, user, database="weir")
    name = f"ünit {user} 'q'"
    own.command(
        "INSERT INTO applications (number, name) VALUES ({n:UInt16}, {name:String}), (64001, 'l')", {"n": 64000, "name": name}
    )
    stored = client_of(server).query("SELECT number FROM weir.applications WHERE name = {name:String}", {"name": name})
    assert stored.result_rows == [(64000,)]
    own.close()


@pytest.mark.parametrize("user", ["admin", "writer"])
def test_parameters_of_an_insert_in_a_form(server: Server, user: str) -> None:
    own = client_of(server, user, database="weir", form_encode_query_params=True)
    asked = "INSERT INTO applications (number, name) VALUES ({n:UInt16}, {name:String})"
    own.raw_query(asked, parameters={"n": 64002, "name": f"form {user}"})
    assert client_of(server).command(f"SELECT count() FROM weir.applications WHERE name = 'form {user}'") == 1
    own.close()


@pytest.mark.parametrize("user", ["admin", "writer"])
def test_parameters_of_an_insert_of_a_query(server: Server, user: str) -> None:
    own = client_of(server, user, database="weir", form_encode_query_params=True)
    own.raw_query(
        "INSERT INTO applications (number, name) SELECT {n:UInt16}, {name:String}", parameters={"n": 64003, "name": f"of {user}"}
    )
    assert client_of(server).command(f"SELECT count() FROM weir.applications WHERE name = 'of {user}'") == 1
    own.close()


@pytest.mark.embedded
@pytest.mark.parametrize("values", ["(64004, {f:Identifier})", "(64004, upper({n:String}))", "(64004, {n:String} || 'x')"])
def test_a_writers_values_are_no_expressions_beside_parameters(server: Server, values: str) -> None:
    answer = server.ask(
        f"INSERT INTO weir.applications (number, name) VALUES {values}", user="writer", param_n="a", param_f="name"
    )
    assert answer.status >= 400
    assert server.sql("SELECT count() FROM weir.applications WHERE number = 64004") == "0"


# ---- what is refused ----


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ("a String DEFAULT file('/etc/hostname')", 36),
        ("a String ALIAS 'x'", 36),
        ("a String, INDEX i a TYPE minmax", 36),
        ("a String, CONSTRAINT c CHECK sleep(1)", 36),
        ("a String) ENGINE = File(CSV, 'x') --", 36),
        ("a String; SELECT 1", 36),
        ("a {t:Identifier}", 36),
        ("a", 36),
        ("", 36),
        ("a AggregateFunction(flameGraph, UInt64)", 497),
        ("a Tuple(b `AggregateFunction`(sum, UInt8))", 497),
    ],
)
def test_columns_are_names_and_types(server: Server, columns: str, code: int) -> None:
    answer = _form(server, (_file("t"), b"x\n"), user="analyst", query="SELECT * FROM t", t_structure=columns)
    assert answer.code == code, answer.text


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("parts", "params", "code"),
    [
        ([(_file("a b"), b"")], {}, 36),
        ([(_file("x" * 65), b"")], {}, 36),
        ([(_file("weir.flows"), b"")], {}, 36),
        ([(_file("t"), b"")], {"t_structure": "a String", "t_format": "Native"}, 497),
        ([(_file("t"), b"")], {"t_structure": "a String", "t_format": "Template"}, 497),
        ([(_file("t"), b"")], {"t_structure": "a String", "t_types": "String"}, 36),
        ([(_file("t"), b""), (_file("t"), b"")], {"t_types": "String"}, 36),
        ([(_text("max_threads"), b"1")], {}, 36),
        ([(_text("user"), b"admin")], {}, 36),
        ([(_text("session_id"), b"x")], {}, 36),
        ([(_text("t_format"), b"CSV")], {}, 36),
        ([(_text("param_a"), b"1")], {"param_a": 2}, 36),
        ([("X: y", b"1")], {}, 36),
        ([(_file(f"t{n}"), b"") for n in range(17)], {}, 307),
        ([(_text(f"param_{n}"), b"") for n in range(1001)], {}, 307),
        ([(_text("param_a"), bytes(1 << 20))], {}, 307),
    ],
)
def test_what_a_form_may_hold(server: Server, parts: list[tuple[str, bytes]], params: dict[str, str], code: int) -> None:
    answer = _form(server, *parts, user="analyst", query="SELECT 1", **params)
    assert answer.code == code, answer.text


@pytest.mark.embedded
@pytest.mark.parametrize(
    "body", [b"", b"--zq", b"--zq--", b"--zqx\r\n", b"--zq\r\n\r\n", b"--zq\r\nContent-Disposition: form-data; name=a\r\n\r\n1"]
)
def test_a_form_that_is_cut_off(server: Server, body: bytes) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=zq"}
    answer = server.ask(body, user="analyst", headers=headers, query="SELECT 'ran'")
    if body == b"--zq--":
        assert answer.text == "ran\n"
    else:
        assert (answer.code, "ran" in answer.text) == (36, False), answer.text


@pytest.mark.embedded
@pytest.mark.parametrize(
    "kind", ["multipart/form-data", "multipart/form-data; boundary=", f"multipart/form-data; boundary={'x' * 71}"]
)
def test_a_form_without_a_boundary(server: Server, kind: str) -> None:
    assert server.ask(b"SELECT 1", user="analyst", headers={"Content-Type": kind}).code == 36


@pytest.mark.embedded
def test_no_form_is_read_before_the_login(server: Server) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=zq", "X-ClickHouse-Key": "wrong"}
    assert server.ask(b"--zq" + bytes(1 << 20), headers=headers).code == 516


@pytest.mark.embedded
def test_a_statement_in_a_form_passes_the_first_wall(server: Server) -> None:
    for asked, code in [("SELECT * FROM file('x')", 344), ("SELECT 1; SELECT 2", 62), ("DROP TABLE weir.flows", 164)]:
        assert _form(server, (_text("query"), asked.encode()), user="analyst").code == code
    split = _form(server, (_text("query"), b"('x')"), user="analyst", query="SELECT file")
    assert split.code == 344


@pytest.mark.embedded
def test_a_table_in_the_place_of_a_view_shows_no_other_rows(server: Server) -> None:
    data = (_file("flows"), b"1\n")
    answer = _form(server, data, user="analyst", query="SELECT count() FROM weir.v_flows", flows_types="UInt8")
    assert answer.text == "0\n"
    own = _form(server, data, user="analyst", query="SELECT _1 FROM flows", flows_types="UInt8")
    assert own.text == "1\n"


@pytest.mark.embedded
def test_nobody_sees_the_external_data_of_another(server: Server) -> None:
    """While a request has them, by the names of all tables that the engine has."""
    asked = "SELECT sleep(2) FROM t FORMAT Null"
    slow = threading.Thread(target=_form, args=(server, (_file("t"), b"secret\n")), kwargs={"query": asked, "t_types": "String"})
    slow.start()
    time.sleep(0.5)
    names = server.sql("SELECT database || '.' || name FROM system.tables WHERE database LIKE '%external%'").split()
    for user in ("analyst", "dashboard", "writer"):
        assert server.ask("SELECT * FROM t", user=user).code == 60
        assert server.sql("SELECT count() FROM system.tables WHERE database LIKE '%external%'", user=user) == "0"
        for name in names:
            assert server.ask(f"SELECT * FROM {name}", user=user).status >= 400
    slow.join()


@pytest.mark.embedded
def test_external_data_have_a_bounded_size(server: Server) -> None:
    zeros = pyarrow.table({"a": numpy.zeros(20_000_000, dtype="int64")})
    file = io.BytesIO()
    pyarrow.parquet.write_table(zeros, file, compression="zstd")
    assert len(file.getvalue()) < 1 << 20
    for user in ("analyst", "admin"):
        answer = _form(
            server, (_file("t"), file.getvalue()), user=user, query="SELECT count() FROM t", t_format="Parquet", t_types="Int64"
        )
        assert (answer.code, "External data" in answer.text) == (241, True)
    many = [(_file(f"t{n}"), b"1234567\n" * 240_000) for n in range(8)]
    described = {f"t{n}_types": "UInt256" for n in range(8)}
    assert _form(server, *many, user="analyst", query="SELECT 1", **described).code == 241
    assert _form(server, (_file("t"), bytes(17 << 20)), user="analyst", query="SELECT 1", t_types="String").code == 307


@pytest.mark.embedded
def test_external_data_of_one_user_leave_room_for_others(server: Server) -> None:
    running = []

    def ask() -> None:
        asked = "SELECT sleep(2) FROM t FORMAT Null"
        running.append(_form(server, (_file("t"), b"1\n"), user="analyst", query=asked, t_types="UInt8").code)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    data = (_file("t"), b"1\n")
    assert _form(server, data, user="analyst", query="SELECT _1 FROM t", t_types="UInt8").code == 202
    assert _form(server, data, user="dashboard", query="SELECT _1 FROM t", t_types="UInt8").text == "1\n"
    for thread in threads:
        thread.join()
    assert running == [0, 0]
    assert _form(server, data, user="analyst", query="SELECT _1 FROM t", t_types="UInt8").text == "1\n"


# ---- the end of an answer ----


def _failing(rows: int) -> str:
    return f"SELECT sleepEachRow(0.01), throwIf(number = {rows}) FROM numbers(100) SETTINGS max_block_size = 1"


_SOON: dict[str, Any] = {"wait_end_of_query": 0}


def test_an_error_in_mid_stream(server: Server) -> None:
    for user in ("admin", "analyst"):
        own = client_of(server, user)
        with pytest.raises(StreamFailureError, match=r"throwIf.*non-zero"):
            _ = own.query(_failing(30), settings=_SOON).result_rows
        assert own.command("SELECT 1") == 1
        own.close()


def test_an_error_in_mid_stream_while_rows_are_read(server: Server) -> None:
    own = client_of(server)
    seen: list[Any] = []
    with pytest.raises(StreamFailureError, match="Code: 395"), own.query_rows_stream(_failing(30), settings=_SOON) as stream:
        seen.extend(stream)
    assert seen
    own.close()


@pytest.mark.parametrize("bound", [{"wait_end_of_query": 0}, {"buffer_size": 1}, {"http_response_buffer_size": 10}])
def test_the_first_rows_arrive_before_the_last(server: Server, bound: dict[str, int]) -> None:
    answer = _answer_of(server, _failing(99), bound)
    assert answer.getheader("X-ClickHouse-Exception-Tag")
    begun = time.monotonic()
    assert answer.readline()
    assert time.monotonic() - begun < 0.9


def _answer_of(server: Server, sql: str, params: dict[str, int]) -> Any:
    name, password = server.admin
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    query = urllib.parse.urlencode(params)
    connection.request("POST", f"/?{query}", sql, {"X-ClickHouse-User": name, "X-ClickHouse-Key": password})
    return connection.getresponse()


# ---- one session, used by two ----


@pytest.mark.parametrize("user", ["admin", "writer", "analyst"])
def test_a_session_serves_one_at_a_time(server: Server, user: str) -> None:
    codes: list[str] = []

    def ask() -> None:
        own = client_of(server, user, session_id=f"one of {user}")
        try:
            own.command("SELECT sleep(1)")
            codes.append("")
        except DatabaseError as error:
            codes.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted("SESSION_IS_LOCKED" in code for code in codes) == [False, True]


def test_a_client_may_ask_again_as_soon_as_it_has_the_answer(server: Server) -> None:
    own = [client_of(server, session_id="again") for _ in range(2)]
    for turn in range(200):
        assert own[turn % 2].command(f"SELECT {turn}") == turn


# ---- the administrator's views ----


def test_the_query_log_has_the_clients_ids(server: Server) -> None:
    own = client_of(server)
    told = own.query("SELECT 'in the log'", settings={"query_id": "an id with blanks % and more", "log_comment": "why"})
    own.command("SYSTEM FLUSH LOGS")
    asked = "SELECT query, log_comment FROM system.query_log WHERE query_id = {id:String} AND type = 'QueryFinish'"
    ((text, comment),) = own.query(asked, parameters={"id": told.query_id}).result_rows
    assert text.startswith("SELECT 'in the log'")
    assert ("OUTFILE" in text, comment) == (False, "why")
    own.close()


def test_the_query_log_has_an_insert_by_its_id(server: Server, database: str) -> None:
    own = client_of(server, database=database)
    own.command("CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a")
    written = own.insert("t", [[1], [2]], column_names=["a"])
    own.command("SYSTEM FLUSH LOGS")
    asked = "SELECT written_rows, query FROM system.query_log WHERE query_id = {id:String} AND type = 'QueryFinish'"
    ((rows, text),) = own.query(asked, parameters={"id": written.query_id()}).result_rows
    assert (rows, "INFILE" in text) == (2, False)
    own.close()


def test_the_query_log_has_a_failed_statement_by_its_id(server: Server) -> None:
    own = client_of(server)
    with pytest.raises(DatabaseError):
        own.query("SELECT throwIf(number = 3) FROM numbers(9)", settings={"query_id": "it-fails"})
    own.command("SYSTEM FLUSH LOGS")
    asked = "SELECT exception_code FROM system.query_log WHERE query_id = 'it-fails' AND type = 'ExceptionWhileProcessing'"
    assert own.query(asked).result_rows == [(395,)]
    own.close()


@pytest.mark.parametrize("asked", ["SHOW POLICIES", "SHOW ROW POLICIES", "SHOW POLICIES ON system.processes"])
def test_an_administrator_lists_row_policies(server: Server, asked: str) -> None:
    own = client_of(server)
    shown = own.command(asked)
    assert "default" in str(shown)
    own.close()


def test_a_head_that_would_take_long_to_read_is_refused() -> None:
    """The library's time for a header grows with the square of its length."""
    heads = [b'Content-Disposition: form-data; name="p%d"' % n + b';"' * 1500 for n in range(500)]
    body = b"".join(b"--zq\r\n" + head + b"\r\n\r\n1\r\n" for head in heads) + b"--zq--\r\n"
    with pytest.raises(ServerError, match="described in more than"):
        forms.read(iter([body]), b"zq", lambda: None)
    named = b'--zq\r\nContent-Disposition: form-data; name="a"; filename="%s"\r\n\r\n1\r\n--zq--\r\n' % (b"x" * 255)
    assert list(forms.read(iter([named]), b"zq", lambda: None).files) == ["a"]
