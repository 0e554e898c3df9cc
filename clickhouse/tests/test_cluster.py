"""The statements for a cluster, parsed by the engine. The tests run none of them, because the embedded engine has no
replicas."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from conftest import FOLDER, Server
from weir_clickhouse.access import access_sql, load
from weir_clickhouse.docs import statements, statements_of

from weir_schema.cluster import Cluster, on_cluster


def _parsed(server: Server, statement: str) -> str:
    """The statement as the engine's parser reads it; fails if it cannot."""
    escaped = statement.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    return server.sql("SELECT formatQuerySingleLine({q:String}) FORMAT TSVRaw", param_q=escaped)


def test_every_migration_is_parsed(server: Server) -> None:
    form = Cluster("weir")
    made = [one for statement in statements(FOLDER / "migrations") for one in form.compile(statement)]
    assert len(made) > 100
    for statement in made:
        understood = _parsed(server, statement)
        assert "ON CLUSTER weir" in understood or understood.startswith("INSERT"), understood[:300]


def test_the_engines_settings_have_these_names(server: Server) -> None:
    form = Cluster("weir")
    made = "\n".join(one for statement in statements(FOLDER / "migrations") for one in form.compile(statement))
    for name in ("replicated_deduplication_window", "replicated_deduplication_window_seconds"):
        assert f"{name} = " in made
        assert server.sql(f"SELECT count() FROM system.replicated_merge_tree_settings WHERE name = '{name}'") == "1"


def test_access_is_parsed(server: Server, tmp_path: Path) -> None:
    tree = yaml.safe_load((FOLDER / "access.yaml").read_text())
    tree["users"]["fjord"] = {"role": "customer", "customers": ["Fjord 'n' Power"]}
    path = tmp_path / "access.yaml"
    path.write_text(yaml.safe_dump(tree))
    (tmp_path / "1.sql").write_text(access_sql(load(path, {"WEIR_PASSWORD_FJORD": "secret"})))
    for statement in statements_of(tmp_path / "1.sql"):
        assert "ON CLUSTER weir" in _parsed(server, on_cluster(statement.strip(), "weir"))
        _parsed(server, statement)


def test_the_statements_of_the_how_to_are_parsed(server: Server) -> None:
    page = (FOLDER.parent / "docs/how-to/run-on-a-cluster.md").read_text()
    found = re.findall(r"^ {4,}([A-Z]{3,} .*);$|`([A-Z]{3,} [^`]*);`", page, re.MULTILINE)
    assert len(found) >= 5
    for block, inline in found:
        assert "ON CLUSTER weir" in _parsed(server, block or inline)
