"""The cluster form of the migrations, compared with a golden file; clickhouse/tests/test_cluster.py tests that the
engine's parser accepts all of them.

After a change: `python stack/tests/test_cluster.py` writes the golden file again; read the differences.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weir.config import load
from weir.migrations import apply_access, compiled
from weir.schema import Cluster, files, on_cluster

FOLDER = Path(__file__).parent / "cluster"


def form() -> str:
    """The cluster form of the sample."""
    cluster = Cluster("weir")
    text = (FOLDER / "sample.sql").read_text()
    return "\n\n".join(f"{one};" for statement in files.statements(text) for one in cluster.compile(statement)) + "\n"


def test_one_of_each_kind() -> None:
    assert form() == (FOLDER / "sample.golden.sql").read_text()


def test_no_table_of_the_migrations_is_left_on_one_node() -> None:
    made = [one for _, found in compiled("weir", "c") for one in found]
    assert len(made) > 100
    for statement in made:
        assert "ON CLUSTER 'c'" in statement or statement.startswith("INSERT INTO "), statement[:200]
        assert not re.search(r"ENGINE = \w*MergeTree", statement) or "ENGINE = Replicated" in statement, statement[:200]
        assert "non_replicated" not in statement
    tables = {found[1] for one in made if (found := re.match(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)_local ", one))}
    over = {found[1] for one in made if (found := re.search(r"Distributed\('c', 'weir', '(\w+)_local'", one))}
    assert tables == over
    for statement in made:
        if statement.startswith("CREATE MATERIALIZED VIEW"):
            assert re.search(r"\bTO \w+_local\b", statement)
            assert re.search(r"\bFROM \w+_local\b", statement)


def test_versions_of_a_row_meet_on_one_shard() -> None:
    """The sharding key of a Distributed table is part of the sorting key by which its rows replace each other."""
    orders: dict[str, str] = {}
    for _, found in compiled("weir", "c"):
        for one in found:
            if match := re.match(r"CREATE (?:OR REPLACE )?TABLE (?:IF NOT EXISTS )?(\w+)_local ", one):
                order = re.search(r"ORDER BY (.*)", one)
                assert order
                orders[match[1]] = order[1]
            if match := re.search(r"Distributed\('c', 'weir', '(\w+)_local', cityHash64\((.*)\)\)", one):
                for name in re.findall(r"\w+", match[2]):
                    assert re.search(rf"\b{name}\b", orders[match[1]]), match[0]


def test_on_one_node_nothing_is_changed() -> None:
    for name, found in compiled("weir", ""):
        assert not any("ON CLUSTER" in one or "_local" in one.split("(")[0] for one in found), name


def test_what_has_no_form_is_refused() -> None:
    for statement in ("OPTIMIZE TABLE flows", "CREATE TABLE x (a UInt8) ENGINE = Memory", "SET a = 1"):
        with pytest.raises(ValueError, match=r"without a cluster form|no MergeTree"):
            Cluster("c").compile(statement)
    with pytest.raises(ValueError, match="not a cluster name"):
        Cluster("c'; DROP")


class Heard:
    """A store that only records statements."""

    def __init__(self) -> None:
        self.sql: list[str] = []

    def execute(self, sql: str) -> str:
        """Record the statement."""
        self.sql.append(sql)
        return ""

    def rows(self, sql: str, **_: object) -> list[dict[str, str]]:
        """The users that Weir made before."""
        assert "system.role_grants" in sql
        return [{"user": name} for name in ("admin", "analyst", "one_who_left")]


def test_users_are_made_on_every_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_HOME", str(tmp_path))
    stack, heard = load(None), Heard()
    stack.config.clickhouse.cluster = "c"
    apply_access(stack, heard)  # type: ignore[arg-type]
    assert heard.sql
    assert all("ON CLUSTER 'c'" in statement for statement in heard.sql)
    assert [sql for sql in heard.sql if sql.startswith("DROP USER")] == [
        "DROP USER IF EXISTS `one_who_left` ON CLUSTER 'c'"
    ]
    assert any(re.match(r"REVOKE .*weir_admin.* FROM analyst", sql) for sql in heard.sql)
    with pytest.raises(ValueError, match="not a statement on access"):
        on_cluster("SELECT 1", "c")


if __name__ == "__main__":
    (FOLDER / "sample.golden.sql").write_text(form())
