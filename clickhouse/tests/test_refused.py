"""Statements that the store must refuse, with tricks that hide them; and harmless ones that look alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Server

SECRET = "weir-secret-in-a-file"

#: Refused for everybody, the administrator included.
ALWAYS = [
    "SELECT 1 INTO OUTFILE '{file}.out'",
    "SELECT 1 into/**/outfile '{file}.out'",
    "SELECT 1 INTO--\nOUTFILE '{file}.out' FORMAT CSV",
    "SELECT 1 // ' \n INTO OUTFILE '{file}.out' -- '",
    "SELECT 1 //\n; SELECT 2",
    "SELECT x'\\' INTO OUTFILE '{file}.out' -- '",
    "SELECT 1 /* /* */ ' */ INTO OUTFILE '{file}.out' -- '",
    "SELECT 3HE--' \n INTO OUTFILE '{file}.out' -- '",
    "SELECT 1 INTO # x\n OUTFILE '{file}.out' TRUNCATE",
    "SELECT 1 INTO\u00a0OUTFILE '{file}.out'",
    "SELECT 1 INTO\u2003OUTFILE '{file}.out'",
    "SELECT '\\'' INTO OUTFILE '{file}.out' -- '",
    "SELECT 'it''s' INTO OUTFILE '{file}.out'",
    "SELECT $a$ ' $a$ INTO OUTFILE '{file}.out' -- ' $a$",
    "SELECT ‘'’ INTO OUTFILE '{file}.out' -- '",
    "SELECT 1 AS `a\\`b` INTO OUTFILE '{file}.out' -- `",
    "SHOW TABLES INTO OUTFILE '{file}.out'",
    # These name the roles of all users.
    "SHOW GRANTS",
    "show/**/grants FOR default",
    "SHOW GRANTS FOR CURRENT_USER FORMAT JSON",
    "SHOW ACCESS",
    "(SELECT 1) UNION ALL SELECT 2 INTO OUTFILE '{file}.out'",
    "EXPLAIN SELECT 1 INTO OUTFILE '{file}.out'",
    "INSERT INTO t FROM INFILE '{file}' FORMAT TSV",
    "INSERT INTO t FROM/* */INFILE '{file}' FORMAT TSV",
    "SELECT * FROM file('{file}', 'LineAsString')",
    "SELECT * FROM FILE('{file}', 'LineAsString')",
    "SELECT * FROM file/**/('{file}', 'LineAsString')",
    "SELECT * FROM file -- \n ('{file}', 'LineAsString')",
    "SELECT * FROM `file`('{file}', 'LineAsString')",
    "SELECT * FROM \"file\"('{file}', 'LineAsString')",
    "SELECT * FROM `f\\x69le`('{file}', 'LineAsString')",
    "SELECT * FROM “file”('{file}', 'LineAsString')",
    "SELECT * FROM (SELECT * FROM (SELECT * FROM file('{file}', 'LineAsString')))",
    "SELECT (SELECT any(line) FROM file('{file}', 'LineAsString', 'line String'))",
    "WITH x AS (SELECT * FROM file('{file}', 'LineAsString')) SELECT * FROM x",
    "SELECT * FROM view(SELECT * FROM file('{file}', 'LineAsString'))",
    "SELECT * FROM system.one WHERE 'a' IN (SELECT * FROM file('{file}', 'LineAsString'))",
    "SELECT * FROM fileCluster('c', '{file}', 'LineAsString')",
    "SELECT * FROM filesystem('/etc')",
    "SELECT file('{file}')",
    "DESCRIBE TABLE file('{file}', 'LineAsString')",
    "EXPLAIN SELECT * FROM file('{file}', 'LineAsString')",
    "INSERT INTO FUNCTION file('{file}.out', 'CSV', 'a UInt8') VALUES (1)",
    "INSERT INTO TABLE FUNCTION file('{file}.out', 'CSV', 'a UInt8') SELECT 1",
    "SELECT * FROM default.`{file}`",
    "SELECT * FROM `{file}`",
    "SELECT * FROM '{file}'",
    # A function by its name, without a call of it.
    "SELECT * APPLY(file) FROM (SELECT '{file}' AS p)",
    "SELECT * APPLY file FROM (SELECT '{file}' AS p)",
    "SELECT * APPLY(`file`) FROM (SELECT '{file}' AS p)",
    "SELECT * APPLY(\"file\") FROM (SELECT '{file}' AS p)",
    "SELECT * APPLY(x -> file(x)) FROM (SELECT '{file}' AS p)",
    "SELECT COLUMNS('p') APPLY(file) FROM (SELECT '{file}' AS p)",
    "SELECT COLUMNS('^name$') REPLACE('{file}' AS name) APPLY(file) FROM (SELECT 'x' AS name)",
    "SELECT p APPLY file FROM (SELECT '{file}' AS p)",
    "SELECT arrayMap(file, ['{file}'])",
    "SELECT arrayMap(/* */file/* */, ['{file}'])",
    "SELECT arrayMap((file), ['{file}'])",
    "SELECT arrayMap(file AS f, ['{file}'])",
    "SELECT arrayMap(file f, ['{file}'])",
    "SELECT arrayMap(`file`, ['{file}'])",
    "SELECT arrayMap(`fi\\x6ce`, ['{file}'])",
    "SELECT arrayMap(`fi\\Nle`, ['{file}'])",
    "SELECT arrayMap(“file”, ['{file}'])",
    "SELECT `fi\\Nle`('{file}')",
    "SELECT arrayMap(x -> file(x), ['{file}'])",
    "SELECT arrayFilter(file, ['{file}'])",
    "FROM (SELECT '{file}' AS p) |> SELECT file(p)",
    "SELECT '{file}' AS p |> EXTEND file(p) AS c",
    "SELECT '{file}' AS p |> AGGREGATE any(file(p))",
    "SELECT file('{file}') AS file",
    # Expressions in texts: the defaults of columns, and values.
    "SELECT b FROM values('a String, b String ALIAS file(''{file}'')', 'x')",
    "SELECT b FROM VALUES('a String, b String ALIAS file(''{file}'')', 'x')",
    "SELECT b FROM values(('a String, b String ALIAS file(''{file}'')'), 'x')",
    "SELECT b FROM values('a String, b String ALIAS file(''{file}'')' AS s, 'x')",
    "SELECT b FROM values(('a String, b String ALIAS file(''{file}'')' AS s), 'x')",
    "SELECT b FROM values(+'a String, b String ALIAS file(''{file}'')', 'x')",
    "SELECT b FROM values(‘a String, b String ALIAS file(''{file}'')’ AS s, 'x')",
    "SELECT b FROM values($s$a String, b String ALIAS file('{file}')$s$, 'x')",
    "SELECT b FROM values('a String, b String AL\\NIAS file(''{file}'')', 'x')",
    "SELECT b FROM values('a String, b String \\x41LIAS fil\\x65(''{file}'')', 'x')",
    "SELECT b FROM values(x'6120537472696e672c206220537472696e6720414c4941532066696c6528272f6574632f686f73746e616d652729', 'x')",
    "WITH 'a String, b String ALIAS file(''{file}'')' AS s SELECT b FROM values(s, 'x')",
    "SELECT b FROM generateRandom('a String, b String ALIAS file(''{file}'')') LIMIT 1",
    "SELECT b FROM generateRandom(concat('a String, b String ALIAS fi', 'le(''{file}'')')) LIMIT 1",
    "SELECT b FROM null('a String, b String ALIAS file(''{file}'')')",
    "SELECT * FROM format(JSONEachRow, 'a String, b String DEFAULT file(''{file}'')', '{\"a\":\"1\"}')",
    "SELECT * FROM format('JSONEachRow', concat('a String, b String DEFAULT fi', 'le(''{file}'')'), '{\"a\":\"1\"}')",
    "SELECT * FROM format(Values, 'x String', $$(file('{file}'))$$)",
    "SELECT * FROM format(Values, 'x String', $$((SELECT c FROM file('{file}', 'LineAsString', 'c String') LIMIT 1))$$)",
    "SELECT * FROM format(Values, 'x String', $$((SELECT currentUser()))$$)",
    # Settings that name a file, or are a piece of a statement.
    "SELECT 1 FORMAT Template SETTINGS format_template_resultset = '{file}'",
    "SELECT 1 SETTINGS format_template_resultset = '{file}' FORMAT Template",
    "SELECT formatRow('Template', 1) SETTINGS format_template_row = '{file}'",
    "SELECT * FROM (SELECT formatRow('Template', 1) SETTINGS format_template_row = '{file}')",
    "SELECT * FROM (SELECT formatRow('Template', 1) SETTINGS `format_template_row` = '{file}')",
    "SELECT * FROM (SELECT 1 SETTINGS select = 'file(''{file}'')')",
    "SELECT * FROM (SELECT 1 SETTINGS max_threads = 1, filter = 'file(''{file}'') = 1')",
    "SELECT * FROM (SELECT 1 SETTINGS final, select = 'file(''{file}'')')",
    "SELECT * FROM (SELECT 1 SETTINGS final.x = 1, select = 'file(''{file}'')')",
    "SELECT * FROM (SELECT 1 SETTINGS ALL.x = 1, filter = 'throwIf(1, file(''{file}'')) = 1')",
    "SELECT * FROM (SELECT 1 SETTINGS max_threads = 1, `final`.`x` = 1, select = 'file(''{file}'')')",
    "SELECT 1 SETTINGS final, input_format_values_interpret_expressions = 1",
    "SELECT 1 SETTINGS select = 'file(''{file}'')'",
    "SELECT 1 SETTINGS order = 'file(''{file}'')'",
    "SELECT 1 SETTINGS additional_result_filter = 'throwIf(1, file(''{file}''))'",
    "SELECT 1 SETTINGS format_schema = '{file}:x'",
    "SELECT 1 SETTINGS output_format_schema = '{file}.out'",
    "SELECT 1 SETTINGS input_format_record_errors_file_path = '{file}.out'",
    "SELECT 1 SETTINGS dialect = 'prql'",
    "SELECT 1 SETTINGS input_format_values_interpret_expressions = 1",
    "SET select = 'file(''{file}'')'",
    "SET input_format_values_interpret_expressions = 1",
    "SELECT * FROM url('file://{file}', 'LineAsString', 'c String')",
    "SELECT * FROM sqlite('{file}', 't')",
    "SELECT * FROM Python(os)",
    "SELECT * FROM python(os)",
    "SELECT * FROM Python/* */(os)",
    "SELECT * FROM `Python`(os)",
    "SELECT * FROM executable('id', TabSeparated, 'a String')",
    "SELECT * FROM `executable`('id', TabSeparated, 'a String')",
    "CREATE TABLE weir.x (a String) ENGINE = File(CSV, '{file}')",
    "CREATE TABLE weir.x (a String) ENGINE = `File`(CSV, '{file}')",
    "CREATE TABLE weir.x (a String) ENGINE File(CSV)",
    "CREATE TABLE weir.x (a String) ENGINE = Executable('id', TabSeparated)",
    "CREATE TABLE weir.x (a String) ENGINE = ExecutablePool('id', TabSeparated)",
    "CREATE DICTIONARY weir.x (a String) PRIMARY KEY a SOURCE(EXECUTABLE(COMMAND 'id' FORMAT TabSeparated)) LIFETIME(1) LAYOUT(COMPLEX_KEY_DIRECT())",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP DATABASE weir",
    "SELECT 1;;; SELECT 2",
    "SELECT ';'; SELECT 2",
    "SELECT 1 /* ; */; SELECT 2",
    "SELECT 1; -- \nSELECT 2",
    "SET ROLE weir_admin",
    "set/**/role ALL",
    "SET DEFAULT ROLE weir_admin TO default",
    "EXECUTE AS default SELECT 1",
    "DROP TABLE IF EXISTS weir.nothing PARALLEL WITH DROP TABLE IF EXISTS weir.nothing2",
    "SYSTEM SHUTDOWN",
    "SYSTEM KILL",
    "CREATE USER mallory",
    "GRANT ALL ON *.* TO default",
    "SELECT 'open",
    "SELECT 1 /* open",
    "SELECT `open",
    "SELECT 1 \x00; SELECT 2",
]

#: Refused for readers, and for the writer.
READERS = [
    "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
    "SELECT * FROM `url`('http://127.0.0.1:1/', 'LineAsString')",
    "SELECT * FROM s3('http://127.0.0.1:1/b/k', 'CSV')",
    "SELECT * FROM gcs('http://127.0.0.1:1/b/k', 'CSV')",
    "SELECT * FROM remote('127.0.0.1', 'system.one')",
    "SELECT * FROM remoteSecure('127.0.0.1', 'system.one')",
    "SELECT * FROM cluster('default', system.one)",
    "SELECT * FROM clusterAllReplicas('default', system.one)",
    "SELECT * FROM mysql('127.0.0.1:1', 'd', 't', 'u', 'p')",
    "SELECT * FROM postgresql('127.0.0.1:1', 'd', 't', 'u', 'p')",
    "SELECT * FROM mongodb('127.0.0.1:1', 'd', 't', 'u', 'p', 'a String')",
    "SELECT * FROM redis('127.0.0.1:1', 'k', 'k String, v String')",
    "SELECT * FROM jdbc('x', 'd', 't')",
    "SELECT * FROM odbc('x', 'd', 't')",
    "SELECT * FROM hdfs('hdfs://127.0.0.1:1/x', 'CSV')",
    "SELECT * FROM azureBlobStorage('x', 'c', 'b')",
    "SELECT * FROM iceberg('http://127.0.0.1:1/b/k')",
    "SELECT * FROM icebergLocal('/etc')",
    "SELECT * FROM deltaLake('http://127.0.0.1:1/b/k')",
    "SELECT * FROM hudi('http://127.0.0.1:1/b/k')",
    "SHOW PROCESSLIST",
    "SHOW CLUSTERS",
    "SHOW USERS",
    "CHECK TABLE weir.flows",
    "SYSTEM FLUSH LOGS",
    "SYSTEM DROP MARK CACHE",
    "SYSTEM RELOAD CONFIG",
    "ATTACH TABLE weir.flows",
    "DETACH TABLE weir.flows",
    "KILL QUERY WHERE 1",
    "KILL MUTATION WHERE 1",
    "CREATE TABLE weir.x (a UInt8) ENGINE = Memory",
    "CREATE DATABASE x",
    "CREATE VIEW weir.x AS SELECT 1",
    "CREATE FUNCTION x AS (a) -> a",
    "CREATE TEMPORARY TABLE x (a UInt8)",
    "CREATE NAMED COLLECTION x AS a = 1",
    "ALTER TABLE weir.flows DELETE WHERE 1",
    "ALTER TABLE weir.flows MODIFY TTL ts + INTERVAL 1 SECOND",
    "DELETE FROM weir.flows WHERE 1",
    "UPDATE weir.flows SET vlan = 1 WHERE 1",
    "TRUNCATE TABLE weir.flows",
    "DROP TABLE weir.flows",
    "DROP VIEW weir.v_flows",
    "RENAME TABLE weir.flows TO weir.x",
    "EXCHANGE TABLES weir.flows AND weir.top_flows",
    "OPTIMIZE TABLE weir.flows FINAL",
    "BACKUP TABLE weir.flows TO File('/tmp/x')",
    "RESTORE TABLE weir.flows FROM File('/tmp/x')",
    "GRANT SELECT ON weir.* TO default",
    "CREATE ROLE x",
    "/* hidden */ DROP TABLE weir.flows",
    "-- hidden\nDROP TABLE weir.flows",
    "#! hidden\nDROP TABLE weir.flows",
    "\ufeffDROP TABLE weir.flows",
    "WITH x AS (SELECT 1) INSERT INTO weir.flows (vlan) SELECT nothing FROM x",
    "EXPLAIN AST DROP TABLE weir.flows; DROP TABLE weir.flows",
]

#: Refused for readers alone.
READONLY = [
    "INSERT INTO weir.flows (vlan) VALUES (1)",
    "INSERT INTO weir.flows (vlan) SELECT 1",
    "SELECT 1 SETTINGS readonly = 0",
    "SELECT 1 SETTINGS max_memory_usage = 0",
    "SELECT 1 SETTINGS max_execution_time = 0",
    "SET readonly = 0",
    "SET max_execution_time = 0",
    "SELECT * FROM (SELECT 1 SETTINGS readonly = 0)",
    "SELECT * FROM (SELECT 1 SETTINGS allow_introspection_functions)",
    "SELECT * FROM (SELECT 1 SETTINGS final, allow_introspection_functions)",
    "SELECT * FROM (SELECT 1 SETTINGS final.x = 1, query_plan_merge_filters)",
    "SELECT * FROM (SELECT 1 SETTINGS max_threads = 1, query_plan_merge_filters)",
    "SELECT 1 WHERE 1 IN (SELECT 1 SETTINGS query_plan_merge_filters, allow_reorder_prewhere_conditions)",
    "SELECT * FROM (SELECT 1 SETTINGS query_plan_merge_filters) SETTINGS max_threads = 1",
]

#: Harmless statements that only look like refused ones.
ALLOWED = [
    "SELECT 'INTO OUTFILE ''x''; DROP TABLE weir.flows'",
    "SELECT 1 -- ; SELECT 2",
    "SELECT 1 /* INTO OUTFILE 'x' */",
    "SELECT $t$ file('/etc/passwd'); SET ROLE x $t$",
    "SELECT 1 AS `file('x')`",
    'SELECT 1 AS "INTO OUTFILE"',
    "SELECT 1 AS file, 2 AS outfile, 3 AS `into`",
    "WITH file AS (SELECT 1 AS a) SELECT a FROM file",
    "SELECT file.a FROM (SELECT 1 AS a) AS file",
    "SELECT t.file FROM (SELECT 1 AS file) AS t",
    "SELECT 'file', 'file(''/etc/hostname'')', ['file'], 'SETTINGS select = 1'",
    "SELECT * FROM values('a String, b String', ('file', 'DEFAULT'), ('file(''/x'')', 'ALIAS'))",
    "SELECT * FROM values('file', 'default', 'it''s')",
    "SELECT * FROM values(('file', 1), ('default', 2))",
    "SELECT format('{}{}', 'a', materialize('b')), format('file {}', 'x')",
    "SELECT 1 FORMAT ArrowStream",
    "SELECT settings FROM (SELECT 1 AS settings)",
    "SELECT arrayMap(x -> x + 1, [1]), arrayMap(lower, ['A'])",
    "SELECT number FROM generateRandom('number UInt8', 1) LIMIT 1",
    "SELECT 1;",
    "SELECT 1 ; -- done",
    "SELECT ‘quoted’",
    "SELECT number FROM numbers(3)",
    "SELECT count() FROM generateRandom('a UInt8', 1, 1, 1) LIMIT 0",
    "SELECT * FROM values('a UInt8', 1, 2)",
    "SELECT * FROM view(SELECT 1)",
    "(SELECT 1) UNION ALL (SELECT 2)",
    "SELECT format('{}', 1), formatRow('CSV', 1)",
    "EXPLAIN SELECT 1",
    "SHOW TABLES",
    "SHOW DATABASES",
    "DESCRIBE TABLE v_flows",
    "EXISTS TABLE v_flows",
    "SELECT name FROM system.columns WHERE table = 'v_flows' LIMIT 1",
    "SELECT name, value FROM system.settings LIMIT 1",
    "SELECT currentUser(), version(), timezone()",
]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.csv"
    path.write_text(SECRET + "\n")
    return path


def _refused(server: Server, user: str, sql: str, secret: Path) -> None:
    answer = server.ask(sql.replace("{file}", str(secret)), user=user, database="weir")
    assert answer.status >= 400, answer.text
    assert answer.code not in (0, 516), answer.text
    assert SECRET not in answer.text
    assert [path.name for path in secret.parent.iterdir()] == ["secret.csv"]


@pytest.mark.embedded
@pytest.mark.parametrize("sql", ALWAYS)
def test_refused_for_everybody(server: Server, secret: Path, sql: str) -> None:
    for user in server.users:
        _refused(server, user, sql, secret)


@pytest.mark.parametrize("sql", READERS)
def test_refused_for_all_but_the_administrator(server: Server, secret: Path, sql: str) -> None:
    for user in set(server.users) - {"admin"}:
        _refused(server, user, sql, secret)


@pytest.mark.parametrize("sql", READONLY)
def test_refused_for_readers(server: Server, secret: Path, sql: str) -> None:
    for user in set(server.users) & {"analyst", "dashboard"}:
        _refused(server, user, sql, secret)


@pytest.mark.parametrize("sql", ALLOWED)
def test_allowed(server: Server, sql: str) -> None:
    for user in server.users:
        answer = server.ask(sql, user=user, database="weir")
        assert answer.status == 200, f"{user}: {answer.text}"


@pytest.mark.embedded
@pytest.mark.parametrize("sql", ["INSERT INTO t VALUES (1); DROP TABLE t", "INSERT INTO t FORMAT TSV\n1\n; DROP TABLE t"])
def test_nothing_runs_behind_the_data_of_an_insert(server: Server, database: str, sql: str) -> None:
    server.sql("CREATE TABLE t (a UInt8) ENGINE = Memory", database=database)
    server.ask(sql, database=database)
    assert server.sql("EXISTS TABLE t", database=database) == "1"


@pytest.mark.embedded
@pytest.mark.parametrize(
    "value",
    [
        "file('{file}')",
        "lower(file('{file}'))",
        "(SELECT c FROM file('{file}', 'LineAsString', 'c String') LIMIT 1)",
        "arrayMap(file, ['{file}'])[1]",
        "`fi\\Nle`('{file}')",
    ],
)
@pytest.mark.parametrize("how", ["VALUES (1, {})", "FORMAT Values (1, {})", "VALUES (1, 'x'), (2, {}), (3, 'y')"])
def test_the_data_of_an_insert_open_no_files(server: Server, secret: Path, how: str, value: str) -> None:
    """The writer's values are never expressions; the server checks the administrator's."""
    sql = f"INSERT INTO weir.applications (number, name) {how.format(value.format(file=secret))}"
    for user in ("writer", "admin"):
        for text, params in ((sql, {}), (sql.encode()[20:], {"query": sql[:20]})):
            answer = server.ask(text, user=user, **params)  # type: ignore[arg-type]
            assert answer.status >= 400, answer.text
            assert SECRET not in answer.text
    # Too many for the server to check.
    many = "INSERT INTO weir.applications (number, name) VALUES " + "(1, 'x')," * 200_000 + value.format(file=secret)
    assert server.ask(many, user="admin").status >= 400
    assert server.sql(f"SELECT count() FROM weir.applications WHERE name LIKE '%{SECRET}%'") == "0"


@pytest.mark.embedded
def test_an_administrators_values_may_be_expressions(server: Server, database: str) -> None:
    server.sql("CREATE TABLE t (a String, b DateTime) ENGINE = Memory", database=database)
    server.sql("INSERT INTO t VALUES (lower('FILE'), now()), ('file(''x'')', '2026-01-01 00:00:00')", database=database)
    assert server.sql("SELECT a FROM t ORDER BY a", database=database) == "file\nfile(\\'x\\')"
    # The writer's are literals, of every kind.
    server.sql("INSERT INTO weir.applications (number, name) VALUES (65009, 'file(''/x'')')", user="writer")
    assert server.sql("SELECT name FROM weir.applications WHERE number = 65009") == "file(\\'/x\\')"
    server.sql("ALTER TABLE weir.applications DELETE WHERE number = 65009", mutations_sync=2)


@pytest.mark.embedded
@pytest.mark.parametrize("value", ["file", "`file`", '"file"', "fi\\x6ce", "fi\\Nle", "File"])
def test_a_parameter_is_no_function(server: Server, secret: Path, value: str) -> None:
    for sql in ("SELECT arrayMap({p:Identifier}, ['{file}'])", "SELECT arrayMap({ p /* */ : Identifier }, ['{file}'])"):
        for user in server.users:
            answer = server.ask(sql.replace("{file}", str(secret)), user=user, param_p=value)
            assert answer.status >= 400
            assert SECRET not in answer.text
    # A parameter that the request lacks may be in the session.
    server.ask("SET param_p = 'file'", session_id="parameter")
    server.ask("CREATE TEMPORARY TABLE held (a UInt8)", session_id="parameter")
    server.ask("SET param_p = 'file'", session_id="parameter")
    answer = server.ask(f"SELECT arrayMap({{p:Identifier}}, ['{secret}'])", session_id="parameter")
    assert answer.status >= 400
    assert SECRET not in answer.text


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format_template_resultset", "{file}"),
        ("format_template_row", "{file}"),
        ("select", "file('{file}')"),
        ("order", "file('{file}')"),
        ("filter", "throwIf(1, file('{file}'))"),
        ("additional_result_filter", "throwIf(1, file('{file}'))"),
        ("dialect", "prql"),
        ("input_format_values_interpret_expressions", "1"),
        ("input_format_values_deduce_templates_of_expressions", "1"),
        ("input_format_record_errors_file_path", "{file}.out"),
        ("allow_python_table_function", "1"),
    ],
)
def test_settings_that_name_files_or_code_are_fixed(server: Server, secret: Path, name: str, value: str) -> None:
    for user in server.users:
        params = {name: value.replace("{file}", str(secret))}
        for sql in ("SELECT 1", "SELECT 1 FORMAT Template", "SELECT formatRow('Template', 1)"):
            answer = server.ask(sql, user=user, **params)  # type: ignore[arg-type]
            assert answer.status >= 400, answer.text
            assert SECRET not in answer.text
    # The engine holds to it too, without the front.
    assert server.sql(f"SELECT readonly FROM system.settings WHERE name = '{name}'") == (
        "0" if name.startswith("input_format_values") else "1"
    )
    assert [path.name for path in secret.parent.iterdir()] == ["secret.csv"]


@pytest.mark.embedded
def test_a_parameter_cannot_smuggle_a_statement(server: Server, secret: Path) -> None:
    for sql, value in (
        ("SELECT * FROM {p:Identifier}", f"file('{secret}')"),
        ("SELECT * FROM {p:Identifier}", str(secret)),
        ("SELECT {p:String}", "'; DROP DATABASE weir"),
    ):
        answer = server.ask(sql, user="analyst", param_p=value)
        assert SECRET not in answer.text
    assert server.sql("EXISTS DATABASE weir") == "1"


@pytest.mark.embedded
def test_settings_of_the_url_cannot_free_a_reader(server: Server, secret: Path) -> None:
    for name, value in (
        ("readonly", "0"),
        ("allow_ddl", "2"),
        ("max_memory_usage", "0"),
        ("max_memory_usage", "99000000000"),
        ("max_execution_time", "0"),
        ("additional_table_filters", "{'weir.flows': '1'}"),
        ("format_schema", "x"),
        ("output_format_schema", str(secret) + ".out"),
        ("log_comment' = 1, readonly", "0"),
    ):
        answer = server.ask("SELECT 1", user="analyst", **{name: value})  # type: ignore[arg-type]
        assert answer.code in (164, 115, 36), name
    assert server.ask("SELECT 1", user="analyst", max_execution_time=5, output_format_json_quote_64bit_integers=0).status == 200
