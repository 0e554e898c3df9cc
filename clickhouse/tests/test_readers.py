"""Statements that `analyst` and `dashboard` may not send: the store refuses each with ClickHouse's error.

164 READONLY, 344 SUPPORT_IS_DISABLED, 497 ACCESS_DENIED; 158, 159, 241 and 396 are limits, 201 the quota.
test_refused.py tests tricks that hide such statements, test_customers.py the users of customers.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import FOLDER, Server, eventually

pytestmark = pytest.mark.embedded

#: Refused to both, by their effect.
REFUSED = {
    "read a file": ("SELECT * FROM file('/etc/passwd', 'LineAsString')", 344),
    "write a file by INTO OUTFILE": ("SELECT 1 INTO OUTFILE '/tmp/weir-refused'", 344),
    "write a file by INSERT": ("INSERT INTO FUNCTION file('/tmp/weir-refused', 'CSV', 'a UInt8') VALUES (1)", 344),
    "load a file": ("INSERT INTO weir.flows FROM INFILE '/etc/passwd' FORMAT CSV", 344),
    "fetch by url()": ("SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')", 497),
    "fetch by s3()": ("SELECT * FROM s3('http://127.0.0.1:1/b/k', 'CSV')", 497),
    "ask another server by remote()": ("SELECT * FROM remote('127.0.0.1', 'system.one')", 497),
    "run a program": ("SELECT * FROM executable('id', TabSeparated, 'a String')", 344),
    "run Python": ("SELECT * FROM Python(os)", 344),
    "set readonly = 0": ("SET readonly = 0", 164),
    "set readonly = 0 in a query": ("SELECT 1 SETTINGS readonly = 0", 164),
    "raise the limit of time": ("SET max_execution_time = 100000", 164),
    "lift the limit of memory": ("SELECT 1 SETTINGS max_memory_usage = 0", 164),
    "filter tables by a setting": ("SELECT 1 SETTINGS additional_table_filters = {'weir.v_flows': '1'}", 164),
    "allow suspicious codecs": ("SET allow_suspicious_codecs = 1", 164),
    "take another role": ("SET ROLE weir_admin", 344),
    "kill a query": ("KILL QUERY WHERE 1", 164),
    "kill a mutation": ("KILL MUTATION WHERE 1", 164),
    "create a table": ("CREATE TABLE weir.x (a UInt8) ENGINE = Memory", 164),
    "create a temporary table": ("CREATE TEMPORARY TABLE x (a UInt8)", 164),
    "create a view": ("CREATE VIEW weir.x AS SELECT 1", 164),
    "create a user": ("CREATE USER x", 164),
    "lift a row policy": ("CREATE ROW POLICY x ON weir.v_flows USING 1 TO ALL", 164),
    "lift a quota": ("CREATE QUOTA x FOR INTERVAL 1 hour MAX queries = 9 TO ALL", 164),
    "grant": ("GRANT SELECT ON *.* TO analyst", 164),
    "alter a table": ("ALTER TABLE weir.flows ADD COLUMN x UInt8", 164),
    "delete by mutation": ("ALTER TABLE weir.flows DELETE WHERE 1", 164),
    "delete": ("DELETE FROM weir.flows WHERE 1", 164),
    "insert": ("INSERT INTO weir.flows (vlan) VALUES (1)", 164),
    "truncate": ("TRUNCATE TABLE weir.flows", 164),
    "drop": ("DROP TABLE weir.flows", 164),
    "rename": ("RENAME TABLE weir.flows TO weir.x", 164),
    "back up": ("BACKUP DATABASE weir TO Disk('backups', 'tmp/weir-refused')", 164),
    "restore": ("RESTORE DATABASE weir FROM Disk('backups', 'tmp/weir-refused')", 164),
    "stop merges": ("SYSTEM STOP MERGES", 164),
    "stop the server": ("SYSTEM SHUTDOWN", 344),
    "send two statements": ("SELECT 1; DROP TABLE weir.flows", 62),
    "list users": ("SELECT * FROM system.users", 497),
    "list row policies": ("SELECT * FROM system.row_policies", 497),
    "list quotas": ("SELECT * FROM system.quotas", 497),
    "see grants of users": ("SELECT * FROM system.grants", 497),
}

#: Refused to dashboard alone, which reads views.
VIEWS_ALONE = {
    "read a table": "SELECT count() FROM weir.flows",
    "read a table by JOIN": "SELECT count() FROM weir.v_flows AS a JOIN weir.flows AS b ON a.ts = b.ts",
    "read a table by a subquery": "SELECT (SELECT count() FROM weir.flows)",
    "read a table by view()": "SELECT * FROM view(SELECT * FROM weir.flows)",
    "describe a table": "DESCRIBE TABLE weir.flows",
    "read the names of prefixes": "SELECT * FROM weir.prefixes",
    "read a dictionary": "SELECT dictGet('weir.customer_names', 'customer', 1)",
    "read a dictionary as a table": "SELECT * FROM dictionary('weir.customer_names')",
}


@pytest.mark.parametrize("user", ["analyst", "dashboard"])
@pytest.mark.parametrize(("sql", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_a_reader_cannot(server: Server, user: str, sql: str, code: int) -> None:
    answer = server.ask(sql, user=user, database="weir")
    assert answer.code == code, answer.text
    assert not Path("/tmp/weir-refused").exists()


@pytest.mark.parametrize("sql", VIEWS_ALONE.values(), ids=VIEWS_ALONE.keys())
def test_a_dashboard_cannot(server: Server, sql: str) -> None:
    assert server.ask(sql, user="dashboard", database="weir").code == 497


@pytest.mark.parametrize("user", ["analyst", "dashboard", "writer"])
def test_nobody_sees_the_questions_of_others(server: Server, user: str) -> None:
    mark = f"other_{uuid.uuid4().hex}"
    server.ask(f"SELECT throwIf(1, '{mark}')", user="admin")
    server.sql("SYSTEM FLUSH LOGS")
    # The word is put together, so that it is not in the question itself.
    known = "concat('other', '_', '" + mark[6:] + "')"
    assert int(server.sql(f"SELECT count() FROM system.query_log WHERE position(query, {known}) > 0")) > 0
    for table, column in (("query_log", "query"), ("processes", "query"), ("errors", "last_error_message")):
        assert server.sql(f"SELECT count() FROM system.{table} WHERE position({column}, {known}) > 0", user=user) == "0"
    assert server.sql("SELECT count() FROM system.processes", user=user) == "0"


#: A limit that a query meets, and the error it then gets.
LIMITED = {
    "time": ("SELECT sleepEachRow(1) FROM numbers(100)", {"max_execution_time": 1, "max_block_size": 1}, 159),
    "memory": ("SELECT length(groupArray(toString(number))) FROM numbers(100000000)", {}, 241),
    "rows of the answer": ("SELECT number FROM numbers(20000000) FORMAT Null", {}, 396),
}


@pytest.mark.parametrize(("sql", "settings", "code"), LIMITED.values(), ids=LIMITED.keys())
def test_limits_of_an_analyst(server: Server, sql: str, settings: dict[str, Any], code: int) -> None:
    assert server.ask(sql, user="analyst", **settings).code == code


@pytest.fixture
def frugal(tmp_path: Path, own_server: Callable[..., Server]) -> Server:
    """A server with a small daily quota for analysts."""
    tree = yaml.safe_load((FOLDER / "access.yaml").read_text())
    tree["roles"]["analyst"]["quota"] = [
        {"interval": "365 days", "queries": 200, "result_rows": 1000, "read_rows": 5000, "execution_time": 1000}
    ]
    tree["roles"]["dashboard"]["quota"] = [{"interval": "365 days", "execution_time": 0.5}]
    tree["users"]["second"] = {"role": "analyst"}
    path = tmp_path / "access.yaml"
    path.write_text(yaml.safe_dump(tree))
    return own_server(access=path)


def test_quotas_end_in_error_201(frugal: Server) -> None:
    ask = frugal.ask
    assert ask("SELECT number FROM numbers(1000)", user="analyst").status == 200
    assert ask("SELECT 1", user="analyst").status == 200
    # A busy server accounts for a query shortly after its answer.
    assert eventually(lambda: ask("SELECT 1", user="analyst").code == 201)
    refused = ask("SELECT 1", user="analyst").text
    assert re.search(r"Quota for user `analyst` for 31536000s has been exceeded: result_rows = 10\d\d/1000\.", refused)
    # Each user has a quota of its own.
    assert ask("SELECT sum(number) FROM numbers(6000)", user="second").status == 200
    assert eventually(lambda: re.search(r"read_rows = 60\d\d/5000", ask("SELECT 1", user="second").text) is not None)
    assert ask("SELECT sleep(1)", user="dashboard").status == 200
    assert eventually(lambda: "execution_time" in ask("SELECT 1", user="dashboard").text)
    assert ask("SELECT 1", user="writer").status == 200


def test_a_quota_of_queries_counts_those_that_fail(frugal: Server) -> None:
    for _ in range(200):
        assert frugal.ask("SELECT nothing", user="analyst").code == 47
    assert "queries = 201/200" in frugal.ask("SELECT 1", user="analyst").text


@pytest.mark.embedded
@pytest.mark.parametrize("user", ["analyst", "dashboard"])
def test_listed_settings_in_set_and_in_a_clause(server: Server, user: str) -> None:
    """In a session until its end, and in one statement; those that are not listed, and limits, are refused as before."""
    own: dict[str, Any] = {"user": user, "session_id": f"settings of {user}"}
    server.sql("SET max_block_size = 77, join_use_nulls = true, format_csv_delimiter = ';'", **own)
    asked = "SELECT getSetting('max_block_size'), getSetting('join_use_nulls')"
    assert server.sql(asked, **own) == "77\ttrue"
    assert server.sql("SELECT 1, 2 FORMAT CSV", **own) == "1;2"
    assert server.sql("SELECT getSetting('max_block_size') SETTINGS max_block_size = 78, final = 0", **own) == "78"
    assert server.sql(asked, **own) == "77\ttrue"
    assert server.sql("SELECT getSetting('max_block_size')", user=user) != "77"
    for text in ("SET readonly = 0", "SET max_memory_usage = 99999999999", "SET max_block_size = 1, s3_base = 'x'"):
        assert server.ask(text, **own).code in (115, 164, 180), text
    assert server.sql("SELECT getSetting('readonly')", **own) == "1"


@pytest.mark.embedded
@pytest.mark.parametrize("user", ["admin", "writer", "analyst", "dashboard"])
def test_extremes_which_end_the_engine_are_refused(server: Server, user: str) -> None:
    assert server.ask("SELECT 1", user=user, extremes=1).code == 164
    for text in ("SELECT 1 SETTINGS extremes = 1", "SELECT * FROM (SELECT 1 SETTINGS extremes)", "SET extremes = 1"):
        assert server.ask(text, user=user).code == 164
    assert server.sql("SELECT 1", user=user) == "1"
