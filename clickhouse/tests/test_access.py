"""access.yaml: errors are reported; a valid file compiles."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import FOLDER, Server
from weir_clickhouse.access import AccessError, access_sql, load
from weir_clickhouse.docs import statements, statements_of
from weir_clickhouse.errors import ServerError

GOOD = """
database: d
roles:
  boss: {grants: [all]}
  reader: {grants: [select], tables: [d.v, 'd.w*'], readonly: true, limits: {max_execution_time: 5}, quota: [{interval: 1 hour, queries: 7}]}
  part: {grants: [select], rows: {d.v: [src_c, dst_c], d.u: [c]}, readonly: true}
users:
  boss: {role: boss, networks: [127.0.0.1, '10.0.0.0/8']}
  ann: {role: reader}
  fjord: {role: part, customers: ["Fjord 'n' Power"]}
  delta: {role: part, customers: [Delta, Echo]}
"""


def _load(tmp_path: Path, text: str) -> object:
    path = tmp_path / "access.yaml"
    path.write_text(text)
    return load(path, {"WEIR_PASSWORD_ANN": "secret"})


def test_a_password_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "ann").write_text("from a file\n")
    (tmp_path / "access.yaml").write_text(GOOD)
    names = {"WEIR_PASSWORD_ANN_FILE": str(tmp_path / "ann"), "WEIR_PASSWORD_ANN": "from the environment"}
    access = load(tmp_path / "access.yaml", names)
    assert access.authenticate("ann", "from a file", "127.0.0.1").name == "ann"
    with pytest.raises(ServerError):
        access.authenticate("ann", "from the environment", "127.0.0.1")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "access.yaml", {"WEIR_PASSWORD_ANN_FILE": str(tmp_path / "absent")})


def test_the_projects_file_is_right() -> None:
    access = load(FOLDER / "access.yaml", {})
    assert {"admin", "writer", "analyst", "dashboard"} <= set(access.roles)
    views = " ".join(statements(FOLDER / "migrations"))
    for name in access.roles["dashboard"].tables:
        assert f"VIEW {name.removeprefix('weir.')}\n" in views or name == "weir.probes"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[all]", "[everything]"), "roles.boss: grants"),
        (("grants: [all]", "grants: [all], tables: [d.x]"), "roles.boss"),
        (("tables: [d.v, 'd.w*'], ", ""), "roles.reader: give either `tables` or `rows`"),
        (("d.v,", "'d.v; DROP',"), "roles.reader: tables"),
        (("readonly: true", "readonly: maybe"), "roles.reader: readonly"),
        (("[select]", "[select, insert]"), "roles.reader: readonly"),
        (("max_execution_time: 5", "max_execution_time: 0"), "limits.max_execution_time"),
        (("max_execution_time: 5", "'x; y': 5"), "limits"),
        (("interval: 1 hour", "interval: sometimes"), "quota: interval"),
        (("queries: 7", "queries: none"), "quota.queries must be a positive"),
        (("queries: 7", "colours: 7"), "quota: bounds of queries"),
        (
            ("{interval: 1 hour, queries: 7}", "{interval: 1 hour, queries: 7}, {interval: 60 minutes, queries: 8}"),
            "equally long",
        ),
        (("rows: {d.v: [src_c, dst_c], ", "rows: {d.*: [src_c], "), "roles.part: rows: d"),
        (("d.u: [c]", "d.u: []"), "roles.part: rows: d.u"),
        (("d.u: [c]", "d.u: ['c; x']"), "roles.part: rows: d.u"),
        (("rows: {d", "tables: [d.x], rows: {d"), "roles.part: give either"),
        (("d.u: [c]}, readonly: true", "d.u: [c]}"), "roles.part: rows requires readonly"),
        (("role: part, customers: [Delta, Echo]", "role: part"), "users.delta: `customers`"),
        (("ann: {role: reader", "ann: {customers: [x], role: reader"), "users.ann: `customers`"),
        (("[Delta, Echo]", "[1]"), "users.delta: customers"),
        (("role: reader", "role: writer"), "users.ann"),
        (("10.0.0.0/8", "10.0.0.1/8"), "users.boss: networks"),
        (("database: d", "database: d;"), "database"),
        (("users:", "user:"), "needs the keys"),
        (("roles:", "roles: ["), "not YAML"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    with pytest.raises(AccessError, match=words.replace("[", r"\[")):
        _load(tmp_path, GOOD.replace(*change))


def test_sql_for_a_server(tmp_path: Path, server: Server) -> None:
    access = load(_write(tmp_path, GOOD), {"WEIR_PASSWORD_ANN": "secret"})
    text = access_sql(access)
    assert "secret" not in text
    assert "GRANT SELECT ON d.v TO weir_reader;" in text
    assert "max_execution_time = 5 MAX 5, readonly = 2" in text
    assert "ALTER USER boss HOST NONE" in text
    assert (
        "CREATE QUOTA OR REPLACE weir_reader KEYED BY user_name FOR INTERVAL 3600 second MAX queries = 7 TO weir_reader;" in text
    )
    assert "GRANT SELECT ON d.u TO weir_part;" in text
    assert "query_plan_merge_filters = 0 CONST" in text
    assert (
        "CREATE ROW POLICY OR REPLACE weir_delta ON d.v FOR SELECT USING src_c IN ('Delta', 'Echo') OR dst_c IN ('Delta', 'Echo') TO delta;"
        in text
    )
    assert "CREATE ROW POLICY OR REPLACE weir_fjord ON d.u FOR SELECT USING c IN ('Fjord \\'n\\' Power') TO fjord;" in text
    assert "CREATE ROW POLICY OR REPLACE weir_all_rows ON d.u FOR SELECT USING 1 TO ALL EXCEPT fjord, delta;" in text
    assert (
        "ALTER USER ann IDENTIFIED WITH sha256_hash BY '2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b'" in text
    )
    (tmp_path / "1.sql").write_text(text)
    for statement in statements_of(tmp_path / "1.sql"):
        server.sql(
            "SELECT formatQuery({q:String})", param_q=statement.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
        )


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "access.yaml"
    path.write_text(text)
    return path


def test_a_user_without_a_password_cannot_log_in(tmp_path: Path) -> None:
    access = load(_write(tmp_path, GOOD), {"WEIR_PASSWORD_ANN": "secret"})
    assert access.authenticate("ann", "secret", "127.0.0.1").role.name == "reader"
    for name, password, peer in (
        ("ann", "", "127.0.0.1"),
        ("boss", "", "127.0.0.1"),
        ("x", "", "127.0.0.1"),
        ("ann", "Secret", "::1"),
    ):
        with pytest.raises(Exception, match="Authentication failed"):
            access.authenticate(name, password, peer)


def test_networks(tmp_path: Path) -> None:
    access = load(_write(tmp_path, GOOD), {"WEIR_PASSWORD_BOSS": "b"})
    for peer in ("127.0.0.1", "10.3.4.5", "::ffff:10.3.4.5"):
        assert access.authenticate("boss", "b", peer).name == "boss"
    for peer in ("192.168.0.1", "::1"):
        with pytest.raises(Exception, match="Authentication failed"):
            access.authenticate("boss", "b", peer)
