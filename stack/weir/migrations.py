"""Apply `clickhouse/migrations/NNNN_name.sql` in order, each once, to any server, and apply `clickhouse/lists` and
`clickhouse/views` whenever they change.

A migration is idempotent: if it was interrupted, it is simply applied again. `schema_migrations` records each applied
migration with a checksum, which reveals a file that was changed afterwards, or is not in this checkout: such a store is
refused before any statement runs. Views and `schemas/services.csv` may change: `weir` then creates the views or loads the
services again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from weir import long_statements
from weir.clickhouse import ClickHouse
from weir.config import CHECKOUT, Stack
from weir.errors import WeirError
from weir.schema import Cluster, files, on_cluster

FOLDER = files.MIGRATIONS
SERVICES = CHECKOUT / "schemas/services.csv"

#: The table of applied migrations.
_APPLIED = (
    "CREATE TABLE IF NOT EXISTS schema_migrations (name String COMMENT 'File', checksum String "
    "COMMENT 'SHA-256 of the file', applied_at DateTime('UTC') DEFAULT now() COMMENT 'When') "
    "ENGINE = ReplacingMergeTree ORDER BY name COMMENT 'Migrations that were applied'"
)


def compiled(database: str, cluster: str, folder: Path = FOLDER) -> list[tuple[str, list[str]]]:
    """Each migration's name and statements, then each view's, for one node, or for a cluster if one is named.

    The first has no name: it creates the database and the table of applied migrations. Raises WeirError.
    """
    texts = [("", [f"CREATE DATABASE IF NOT EXISTS {database} ENGINE = Atomic", _APPLIED])]
    texts += [(path.name, files.statements(path.read_text())) for path in files.migrations(folder)]
    texts += [(name, [statement]) for name, statement in files.renewed(folder).items()]
    if not cluster:
        return texts
    try:
        form = Cluster(cluster, database)
        return [(name, [one for text in found for one in form.compile(text)]) for name, found in texts]
    except ValueError as error:
        raise WeirError(f"cluster: {error}") from None


def migrate(
    clickhouse: ClickHouse,
    folder: Path = FOLDER,
    cluster: str = "",
    *,
    all_views: bool = False,
    said: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Apply new migrations and views, on every node if a cluster is named; returns the names of those applied.

    all_views: create views again even if they have not changed, because a restore brings back only tables. said: called
    with the progress of a long statement; `clickhouse` needs patience for it. Raises WeirError if the store has other
    migrations than `folder`, or if a statement fails.
    """
    (_, first), *found = compiled(clickhouse.database, cluster, folder)
    known = checksums(clickhouse, clickhouse.database)
    refuse_others(known, "the store", folder)
    migrations = {path.name for path in files.migrations(folder)}
    sums = {path.name: files.checksum(path) for path in files.migrations(folder)}
    sums |= {name: files.digest(statement) for name, statement in files.renewed(folder).items()}
    clickhouse.execute(first[0], database="")
    for statement in first[1:]:
        clickhouse.execute(statement)
    applied = []
    for name, wanted in found:
        if name in migrations and name in known:
            continue
        unchanged = known.get(name) == sums[name]
        if unchanged and not (all_views and name.startswith("views/")):
            continue
        for statement in wanted:
            try:
                long_statements.run(clickhouse, statement, _about(name, said))
            except WeirError as error:
                raise WeirError(f"{name}: {error}", status=1) from error
        if not unchanged:
            _note(clickhouse, name, sums[name])
        applied.append(name)
    for load in (_services, _applications):
        if loaded := load(clickhouse, known):
            applied.append(loaded)
    return applied


def checksums(clickhouse: ClickHouse, database: str) -> dict[str, str]:
    """The checksums of the files that were applied to a database, by name; none if it is new."""
    there = f"SELECT 1 FROM system.tables WHERE database = '{database}' AND name = 'schema_migrations'"
    if not clickhouse.rows(there, database=""):
        return {}
    rows = clickhouse.rows(f"SELECT name, checksum FROM {database}.schema_migrations FINAL", database="")
    return {row["name"]: row["checksum"] for row in rows}


def refuse_others(known: dict[str, str], owner: str, folder: Path = FOLDER) -> None:
    """Raise WeirError if `owner`, to which files with these checksums were applied, has migrations that are not in `folder`,
    or not with this text.
    """
    good = files.accepted(folder)
    applied = sorted(name for name in known if name.endswith(".sql"))
    if others := sorted(set(applied) - {path.name for path in files.migrations(folder)}):
        raise WeirError(
            f"{owner} has migrations that this version of Weir does not have: {', '.join(others)}",
            hint="use the version that applied them, or follow docs/how-to/upgrade.md, which also covers stores from before 0.1.0",
            status=1,
        )
    for name in applied:
        if known[name] not in good[name]:
            raise WeirError(
                f"{name} was changed after it was applied",
                hint="a change to the tables is a new migration, never an edit",
                status=1,
            )


def _about(name: str, said: Callable[[str], None]) -> Callable[[str], None]:
    return lambda progress: said(f"{name}: {progress}")


#: Statements that only define something: views, dictionaries, functions, databases. They hold no rows.
_DEFINITION = re.compile(
    r"(CREATE( OR REPLACE)?|DROP) (MATERIALIZED VIEW|VIEW|DICTIONARY|FUNCTION)\b|CREATE DATABASE\b", re.IGNORECASE
)


def define(clickhouse: ClickHouse, folder: Path = FOLDER) -> None:
    """Create dictionaries and functions of the applied migrations again; tables and their rows stay. `migrate` then
    creates all views.
    """
    applied = checksums(clickhouse, clickhouse.database)
    for path in files.migrations(folder):
        for statement in files.statements(path.read_text()) if path.name in applied else []:
            if _DEFINITION.match(statement):
                clickhouse.execute(statement)


def _note(clickhouse: ClickHouse, name: str, checksum: str) -> None:
    clickhouse.execute(f"INSERT INTO schema_migrations (name, checksum) VALUES ('{name}', '{checksum}')")


def _services(clickhouse: ClickHouse, known: dict[str, str]) -> str | None:
    """Load the names of services again if their file has changed; returns its name if so."""
    text = SERVICES.read_text()
    checksum = hashlib.sha256(text.encode()).hexdigest()
    if known.get(SERVICES.name) == checksum:
        return None
    clickhouse.execute(f"INSERT INTO services FORMAT CSVWithNames\n{text}")
    _note(clickhouse, SERVICES.name, checksum)
    return SERVICES.name


def _applications(clickhouse: ClickHouse, known: dict[str, str]) -> str | None:
    """Load the names of applications again if the agent on this machine numbers them differently; returns their source."""
    agent = CHECKOUT / "capture/target/release/weir-probe"
    if not agent.exists():
        return None
    done = subprocess.run([agent, "applications", "--to", "json"], capture_output=True, text=True, check=False)
    checksum = hashlib.sha256(done.stdout.encode()).hexdigest()
    if done.returncode or not done.stdout or known.get("applications") == checksum:
        return None  # built without nDPI: numbers stay without names
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    names = {"number": "id", "name": "name", "category": "category", "category_number": "category_id"}
    lines = "\n".join(json.dumps({column: row[name] for column, name in names.items()}) for row in rows)
    clickhouse.execute(f"INSERT INTO applications ({', '.join(names)}) FORMAT JSONEachRow\n{lines}")
    _note(clickhouse, "applications", checksum)
    return "applications"


def apply_access(stack: Stack, admin: ClickHouse) -> int:
    """Send the access file's users, roles, grants, limits, quotas and row policies to a clickhouse-server as SQL, and drop
    the users whom the file no longer names; returns the number of statements.

    The embedded store reads the file itself. This runs the embedded store's compiler as a program.
    """
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT / "clickhouse/embedded")} | stack.passwords
    command = [sys.executable, "-m", "weir_clickhouse", "access-sql", str(stack.access)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WeirError(f"{stack.access}: {done.stderr.strip()}", status=1)
    wanted = files.statements(done.stdout)
    made = admin.rows(
        "SELECT DISTINCT user_name AS user FROM system.role_grants WHERE startsWith(granted_role_name, 'weir_') AND user_name != ''",
        database="",
    )
    wanted += [f"DROP USER IF EXISTS `{row['user']}`" for row in made if row["user"] not in stack.users]
    if stack.config.clickhouse.cluster:
        wanted = [on_cluster(statement, stack.config.clickhouse.cluster) for statement in wanted]
    for statement in wanted:
        admin.execute(statement)
    return len(wanted)
