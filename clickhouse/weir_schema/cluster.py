"""The same migrations for a cluster: compiles every statement to its cluster form. The module handles text only; it contacts no
server.

A table becomes two: NAME_local, Replicated…MergeTree on every node, and NAME, Distributed over them. Materialized
views, which fill tables, connect local tables; readers (views, dictionaries, people) read Distributed ones. All
statements run ON CLUSTER. Rows are sharded by probe, so that versions of a row, and the rows that views derive from it,
are on one shard; tables without a probe are sharded by their whole order. Each node needs the macros {shard} and
{replica}.
"""

from __future__ import annotations

import re

#: A replicated table forgets a token older than this, a week: longer than any job retries.
_TOKENS_S = 7 * 86_400

_ENGINE = re.compile(r"\bENGINE = (\w*MergeTree)(?:\(([^)]*)\))?")
_ORDER = re.compile(r"^\s*ORDER BY (?:\((.*)\)|(\S+))\s*$|\bORDER BY (\w+)(?= COMMENT)", re.MULTILINE)
_NAME = r"((?:\w+\.)?\w+)"


class Cluster:
    """Compiles statements. Pass them in migration order: it learns from earlier ones which names are tables."""

    def __init__(self, name: str, database: str = "weir") -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name):
            raise ValueError(f"{name!r} is not a cluster name")
        self.name, self.database = name, database
        self._on = f"ON CLUSTER '{name}'"
        self._tables: dict[str, str] = {}  # table -> its sharding key

    def compile(self, statement: str) -> list[str]:
        """The cluster form of a migration's statement. Raises ValueError for an unknown kind of statement."""
        # A comment inside a statement would hide its words.
        text = re.sub(r"^\s*--.*\n?", "", statement, flags=re.MULTILINE).strip()
        rules = (
            (rf"CREATE DATABASE (?:IF NOT EXISTS )?{_NAME}", self._after_name),
            (rf"CREATE TABLE (?:IF NOT EXISTS )?{_NAME}", self._create_table),
            (rf"CREATE MATERIALIZED VIEW (?:IF NOT EXISTS )?{_NAME}", self._materialized),
            (rf"CREATE (?:OR REPLACE )?(?:VIEW|DICTIONARY|FUNCTION) (?:IF NOT EXISTS )?{_NAME}", self._after_name),
            (rf"ALTER TABLE {_NAME}", self._alter),
            (rf"DROP TABLE (?:IF EXISTS )?{_NAME}", self._drop_table),
            (rf"DROP (?:VIEW|DICTIONARY|FUNCTION) (?:IF EXISTS )?{_NAME}", self._after_name),
            (rf"EXCHANGE TABLES {_NAME} AND {_NAME}", self._exchange),
            (r"INSERT INTO ", lambda text, _: [text]),
        )
        for pattern, rule in rules:
            found = re.match(pattern, text, re.IGNORECASE)
            if found:
                return rule(text, found)
        raise ValueError(f"a statement without a cluster form yet: {text[:80]}")

    def _after_name(self, text: str, found: re.Match[str]) -> list[str]:
        return [f"{text[: found.end()]} {self._on}{text[found.end() :]}"]

    def _create_table(self, text: str, found: re.Match[str]) -> list[str]:
        name = found[1]
        engine = _ENGINE.search(text)
        order = list(_ORDER.finditer(text, engine.end() if engine else 0))
        if engine is None or not order:
            raise ValueError(f"the table {name} has no MergeTree engine with ORDER BY")
        keys = next(group for group in order[0].groups() if group)
        self._tables[name] = "probe" if re.search(r"\bprobe\b", keys) else keys
        places = "'/clickhouse/tables/{uuid}/{shard}', '{replica}'"
        arguments = f"{places}, {engine[2]}" if engine[2] else places
        local = text[: engine.start()] + f"ENGINE = Replicated{engine[1]}({arguments})" + text[engine.end() :]
        local = re.sub(
            r"\bnon_replicated_deduplication_window = (\d+)",
            rf"replicated_deduplication_window = \1, replicated_deduplication_window_seconds = {_TOKENS_S}",
            local,
        )
        head = f"{text[: found.end()]}_local {self._on}"
        rest = re.sub(r"^( AS )(\w+)", lambda m: f"{m[1]}{self._local(m[2])}", local[found.end() :])
        return [head + rest, self._distributed(name, text[: found.start(1)])]

    def _distributed(self, name: str, head: str) -> str:
        key = f"cityHash64({self._tables[name]})"
        return (
            f"{head}{name} {self._on} AS {name}_local\n"
            f"ENGINE = Distributed('{self.name}', '{self.database}', '{name}_local', {key})"
        )

    def _local(self, name: str) -> str:
        return f"{name}_local" if name in self._tables else name

    def _materialized(self, text: str, found: re.Match[str]) -> list[str]:
        rest = re.sub(r"\b(TO|FROM|JOIN) (\w+)\b", lambda m: f"{m[1]} {self._local(m[2])}", text[found.end() :])
        return [f"{text[: found.end()]} {self._on}{rest}"]

    def _alter(self, text: str, found: re.Match[str]) -> list[str]:
        name = found[1]
        commands = _parts(text[found.end() :])
        out = [f"ALTER TABLE {name}_local {self._on}\n    " + ",\n    ".join(commands)]
        # A Distributed table has columns, and nothing else to alter.
        plain = [_plain(command) for command in commands if re.match(r"\w+ COLUMN\b", command)]
        columns = [command for command in plain if not re.fullmatch(r"MODIFY COLUMN (IF EXISTS )?\w+", command)]
        if columns:
            out.append(f"ALTER TABLE {name} {self._on}\n    " + ",\n    ".join(columns))
        return out

    def _drop_table(self, text: str, found: re.Match[str]) -> list[str]:
        rest = text[found.end() :]
        head = text[: found.start(1)]
        name = found[1]
        return [f"{head}{name} {self._on}{rest}", f"{head}{name}_local {self._on}{rest}"]

    def _exchange(self, _: str, found: re.Match[str]) -> list[str]:
        one, other = found[1], found[2]
        self._tables[one], self._tables[other] = self._tables[other], self._tables[one]
        # A Distributed table has columns of its own: copy those of the local table that it now reads.
        return [
            f"EXCHANGE TABLES {one}_local AND {other}_local {self._on}",
            self._distributed(one, "CREATE OR REPLACE TABLE "),
            self._distributed(other, "CREATE OR REPLACE TABLE "),
        ]


def on_cluster(statement: str, name: str) -> str:
    """The cluster form of a statement on users, roles, profiles, quotas or row policies (of `access-sql`)."""
    kinds = (
        r"CREATE SETTINGS PROFILE OR REPLACE \w+",
        r"CREATE ROLE IF NOT EXISTS \w+",
        r"CREATE QUOTA OR REPLACE \w+",
        r"CREATE USER IF NOT EXISTS \w+",
        r"CREATE ROW POLICY OR REPLACE \w+",
        r"ALTER USER \w+",
        r"DROP USER IF EXISTS `[^`]+`",
        r"GRANT",
        r"REVOKE",
    )
    found = re.match("|".join(kinds), statement)
    if found is None:
        raise ValueError(f"not a statement on access: {statement[:80]}")
    return f"{found[0]} ON CLUSTER '{name}'{statement[found.end() :]}"


def _plain(command: str) -> str:
    """A column command without the parts that only stored columns have."""
    return re.sub(r" CODEC\((?:[^()]|\([^()]*\))*\)", "", command)


def _parts(text: str) -> list[str]:
    """The commands of an ALTER: separated by commas outside brackets and strings."""
    parts, depth, begin, quoted = [], 0, 0, False
    for at, char in enumerate(text):
        if char == "'":
            quoted = not quoted
        elif not quoted:
            depth += (char in "([") - (char in ")]")
            if char == "," and not depth:
                parts.append(text[begin:at].strip())
                begin = at + 1
    return [*parts, text[begin:].strip()]
