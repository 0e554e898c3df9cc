"""Roles of access.yaml: the tables that each may read, in every form of query."""

from __future__ import annotations

import pytest
from conftest import Server

#: Every way to a table that is not granted.
WAYS = [
    "SELECT count() FROM weir.flows",
    "SELECT count() FROM `weir`.`flows`",
    'SELECT count() FROM "weir"."flows"',
    "SELECT count() FROM flows AS v_flows",
    "WITH v_flows AS (SELECT * FROM flows) SELECT count() FROM v_flows",
    "SELECT count() FROM v_flows AS a JOIN flows AS b ON a.probe = b.probe",
    "SELECT (SELECT count() FROM flows)",
    "SELECT 1 WHERE 1 IN (SELECT vlan FROM flows)",
    "SELECT 1 FROM v_flows WHERE src IN flows",
    "SELECT count() FROM merge('weir', '^flows$')",
    "SELECT count() FROM merge(REGEXP('we.*'), '^flows$')",
    "SELECT count() FROM view(SELECT * FROM flows)",
    "SELECT count() FROM loop(weir.flows)",
    "SELECT * FROM mergeTreeIndex(weir, flows)",
    "SELECT * FROM mergeTreeProjection(weir, flows, stored)",
    "(SELECT count() FROM v_flows) UNION ALL (SELECT count() FROM flows)",
    "SELECT count() FROM v_flows EXCEPT SELECT count() FROM flows",
    "SHOW CREATE TABLE flows",
    "EXPLAIN SELECT * FROM flows",
    "EXPLAIN ESTIMATE SELECT * FROM flows",
    "DESCRIBE TABLE flows",
    "CHECK TABLE flows",
    "SELECT joinGet('weir.flows', 'vlan', 1)",
    "SELECT dictGet('weir.flows', 'vlan', 1)",
    "SELECT * FROM dictionary('weir.flows')",
    "SELECT count() FROM cluster('default', weir, flows)",
    "SELECT hasColumnInTable('weir', 'flows', 'vlan')",
]


@pytest.fixture(autouse=True)
def _users(server: Server) -> None:
    if set(server.users) != {"admin", "writer", "analyst", "dashboard"}:
        pytest.skip("WEIR_PASSWORD_<USER> of the users of access.yaml are not set")


@pytest.mark.parametrize("sql", WAYS)
def test_a_dashboard_reads_views_alone(server: Server, sql: str) -> None:
    answer = server.ask(sql, user="dashboard", database="weir")
    assert answer.status >= 400, answer.text
    assert answer.code != 516


@pytest.mark.parametrize(
    "view",
    [
        "v_flows",
        "v_customers",
        "v_autonomous_systems",
        "v_hosts",
        "v_top_flows",
        "v_top_talkers",
        "v_mixes",
        "v_port_report",
        "v_signatures",
        "v_top_indicators",
        "v_indicators",
        "v_counters",
        "v_ledger",
        "v_exporters",
        "v_completeness",
        "v_rates",
        "v_counter_means",
        "v_baseline",
        "v_alerts",
        "probes",
    ],
)
def test_views_read_what_their_reader_may_not(server: Server, view: str) -> None:
    for user in ("dashboard", "analyst", "writer", "admin"):
        assert server.sql(f"SELECT count() FROM weir.{view}", user=user).isdigit()
        assert server.sql(f"WITH x AS (SELECT * FROM weir.{view}) SELECT count() FROM x AS y", user=user).isdigit()


def test_names_are_shown_to_who_may_not_read_their_tables(server: Server) -> None:
    names = "src_customer, dst_as_name, service, src_tags, src_country"
    for user in ("dashboard", "analyst"):
        assert server.ask(f"SELECT {names} FROM weir.v_flows LIMIT 1", user=user).status == 200


def test_system_tables_show_what_may_be_seen(server: Server) -> None:
    seen = server.sql("SELECT name FROM system.tables WHERE database = 'weir' ORDER BY name", user="dashboard").splitlines()
    assert "v_flows" in seen
    assert "flows" not in seen
    columns = server.sql("SELECT DISTINCT table FROM system.columns WHERE database = 'weir'", user="dashboard").splitlines()
    # A view with parameters has columns only with their values.
    assert set(columns) == set(seen) - {"v_network"}
    assert server.sql("SHOW TABLES FROM weir", user="dashboard").splitlines() == seen
    assert "flows" in server.sql("SHOW TABLES FROM weir", user="analyst").splitlines()


def test_an_analyst_reads_every_table_and_writes_none(server: Server) -> None:
    assert server.sql("SELECT count() FROM weir.flows WHERE vlan = 77", user="analyst") == "0"
    assert server.ask("INSERT INTO weir.probes (probe) VALUES ('x')", user="analyst").code in (164, 497)


def test_a_writer_inserts_into_weir_alone(server: Server, database: str) -> None:
    server.sql(f"CREATE TABLE {database}.t (a UInt8) ENGINE = Memory")
    assert server.ask(f"INSERT INTO {database}.t VALUES (1)", user="writer").code == 497
    assert server.ask(f"SELECT * FROM {database}.t", user="writer").code == 497
    assert server.ask("ALTER TABLE weir.flows DELETE WHERE 1", user="writer").code == 497


@pytest.mark.embedded
def test_limits_can_be_lowered_and_not_raised(server: Server) -> None:
    ask = "SELECT getSetting('max_execution_time')"
    assert server.sql(ask, user="dashboard") == "60"
    assert server.sql(ask, user="dashboard", max_execution_time=5) == "5"
    for value in ("61", "0", "-1", "x"):
        assert server.ask(ask, user="dashboard", max_execution_time=value).code in (164, 36)
    for clause in ("max_execution_time = 61", "max_execution_time = 5", "max_insert_block_size = 1"):
        assert server.ask(f"SELECT 1 SETTINGS {clause}", user="dashboard").code == 164
    slow = server.ask("SELECT sleepEachRow(1) FROM numbers(100)", user="dashboard", max_execution_time=1, max_block_size=1)
    assert slow.code == 159


@pytest.mark.embedded
def test_a_readers_question_leaves_memory_for_inserts(server: Server) -> None:
    # A small share, and a large one for what fails within that.
    assert int(server.sql("SELECT getSetting('max_memory_usage')", user="analyst")) <= (1 << 30) * 0.15
    answer = server.ask("SELECT length(groupArray(toString(number))) FROM numbers(100000000)", user="analyst")
    assert answer.code == 241


def test_a_role_cannot_be_changed(server: Server) -> None:
    for sql in ("SET ROLE weir_admin", "SET ROLE ALL", "SET DEFAULT ROLE ALL TO default"):
        assert server.ask(sql, user="dashboard", session_id="role").status >= 400
    assert server.ask("SELECT count() FROM weir.flows", user="dashboard", session_id="role").code == 497


@pytest.mark.embedded
def test_sessions_belong_to_one_user(server: Server) -> None:
    server.sql("SET max_block_size = 99", user="admin", session_id="shared")
    assert server.sql("SELECT getSetting('max_block_size')", user="writer", session_id="shared") != "99"
