"""Random statements against the embedded store, from a grammar that knows the engine's functions, table functions,
settings, formats and clauses. `make fuzz-statements MINUTES=20`.

Six roles, three customers of one of them, ask a store in which every row of a customer and every file holds a canary.
What must hold after each statement: no answer has another customer's canary or a file's, nor, for those who see networks
alone, an address; no condition was computed on another customer's row, or on an address that is not shown; no file was written; no setting changed but those that allowed.yaml lists; the server answers,
with an error of its own where it refuses; the writer's next INSERT is stored.

A statement is a function of its seed and of the engine's names. One that breaks a property is printed, and appended to
`tests/statements.jsonl`, whose statements `test_fuzz_statements.py` sends again.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import re
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from conftest import FOLDER, Answer, Server, fill_windows, migrate, roll_up, start, stop
from weir_clickhouse import allowed

#: Customers by user: number, name, host.
CUSTOMERS = {
    "fjord": (61, "FjordZQ", "10.61.173.1"),
    "other": (62, "OtherZQ", "10.62.173.2"),
    "third": (63, "ThirdZQ", "10.63.173.3"),
}
#: Who sees networks alone.
NETS = "nets"
#: Roles, and how often each asks.
USERS = {"fjord": 4, "other": 4, "third": 2, NETS: 4, "analyst": 3, "dashboard": 2, "writer": 4, "admin": 2}
KEPT = Path(__file__).with_name("statements.jsonl")
#: The message of a condition that is true of other customers' rows alone.
LEAK = "LEAKZQ"
_LEAKED = "a condition was computed on another customer's row, or on an address"
_IN_FILES = "CANARY-IN-A-FILE-ZQ"
_TYPES = [
    "UInt8",
    "Int64",
    "String",
    "Float64",
    "Date",
    "DateTime64(3)",
    "IPv6",
    "Array(String)",
    "Nullable(String)",
    "JSON",
    "UUID",
]
#: Expressions that hold of any value `_`.
_SOUND = [
    "_",
    "_",
    "toString(_)",
    "length(toString(_))",
    "lower(toString(_))",
    "reverse(toString(_))",
    "hex(toString(_))",
    "cityHash64(_)",
    "toTypeName(_)",
    "materialize(_)",
    "isNull(_)",
    "tuple(_, 1)",
    "[toString(_)]",
    "toJSONString(_)",
    "formatRow('CSV', _)",
    "substring(toString(_), 1, 5)",
    "concat(toString(_), 'x')",
    "if(toString(_) = '', 1, 2)",
    "base64Encode(toString(_))",
    "arrayMap(x -> toString(x), [toString(_)])",
    "splitByChar('.', toString(_))",
    "(SELECT any(toString(_)))",
    "count(_) OVER ()",
    "arraySort(groupArray(toString(_)) OVER ())",
    "max(toString(_)) OVER (PARTITION BY 1)",
    "uniqExact(_) OVER ()",
    "CAST(_ AS String)",
    "toString(_)::String",
]
_REFUSED = [
    "SYSTEM SHUTDOWN",
    "SYSTEM RELOAD CONFIG",
    "SYSTEM STOP MERGES",
    "CREATE TABLE weir.zq (a UInt8) ENGINE = File(CSV, {path})",
    "CREATE TEMPORARY TABLE zq (a String DEFAULT file({path}))",
    "CREATE FUNCTION zq AS (a) -> file(a)",
    "CREATE VIEW weir.zq AS SELECT {expr}",
    "ALTER TABLE weir.flows DELETE WHERE {expr}",
    "DROP TABLE weir.flows",
    "TRUNCATE TABLE weir.flows",
    "KILL QUERY WHERE {expr}",
    "BACKUP TABLE weir.flows TO File({path})",
    "SET ROLE weir_admin",
    "EXECUTE AS admin {select}",
    "GRANT ALL ON *.* TO default",
    "OPTIMIZE TABLE weir.flows FINAL",
    "CHECK TABLE weir.flows",
    "ATTACH TABLE weir.zq FROM {path} (a UInt8) ENGINE = Memory",
    "DELETE FROM weir.flows WHERE {expr}",
    "{select}; {select}",
    "{select} PARALLEL WITH {select}",
]


#: The parts of a form by name: the content, and "file" if it has the name of a file.
Form = dict[str, list[str]] | None


@dataclass(frozen=True)
class Words:
    """What the engine has; `listed` are the functions of allowed.yaml, the others are in `closed`."""

    listed: list[str]
    closed: list[str]
    aggregates: list[str]
    combinators: list[str]
    table_functions: list[str]
    settings: list[str]
    formats: list[str]
    columns: dict[str, list[str]]
    #: The views that customers may read; the views that show networks.
    granted: list[str]
    masked: list[str]
    system: list[str]
    #: Of each customer's user: hashes of what only others' rows hold; of NETS: of addresses.
    hashes: dict[str, list[str]]
    paths: list[str]


class Grammar:
    """Statements of one seed and user."""

    def __init__(self, words: Words, seed: int, user: str) -> None:
        self._words, self._random, self._user = words, random.Random(f"{seed} {user}"), user
        #: Most statements use what is listed, and columns of their own view, so that many of them run.
        self._calm = self._random.random() < 0.65
        self._view = ""

    def statement(self) -> tuple[str, dict[str, str]]:
        """A statement, and the parameters of its URL."""
        # An administrator may do the rest: it only reads here.
        pick = self._random.random() * (0.79 if self._calm or self._user == "admin" else 1)
        if pick < 0.10:
            text = self.short()
        elif pick < 0.70:
            text = self.select(0)
        elif pick < 0.76:
            kind = self._of(
                ["", "AST", "SYNTAX", "PLAN actions = 1,", "PIPELINE", "ESTIMATE", "QUERY TREE", "indexes = 1, header = 1"]
            )
            text = f"EXPLAIN {kind} {self.select(1)}".replace(", SELECT", " SELECT")
        elif pick < 0.80:
            text = self._of(
                ["DESCRIBE TABLE ", "EXISTS ", "SHOW CREATE TABLE ", "SHOW COLUMNS FROM ", "SHOW INDEX FROM "]
            ) + self.source(1)
        elif pick < 0.83:
            text = self._of(
                ["SHOW TABLES", "SHOW DATABASES", "SHOW SETTINGS LIKE '%'", "SHOW FUNCTIONS", "SHOW GRANTS", "SHOW PROCESSLIST"]
            )
        elif pick < 0.87:
            text = "SET " + ", ".join(f"{self.setting()} = {self.value()}" for _ in range(self._random.randint(1, 2)))
        elif pick < 0.95:
            text = self.insert()
        else:
            text = self._of(_REFUSED).format(path=self.path(), expr=self.expr(2), select=self.select(2))
        if self._random.random() < (0.02 if self._calm else 0.15):
            text = self._mutated(text)
        params = {}
        if self._random.random() < (0.02 if self._calm else 0.15):
            params[self.setting()] = self._of(["1", "0", "2", "x", self._of(self._words.paths), "file('x')"])
        if self._random.random() < (0.02 if self._calm else 0.15):
            params["session_id"] = f"fuzz{self._random.randint(0, 3)}"
        if "{p:" in text or self._random.random() < 0.02:
            params["param_p"] = self._of(
                [self.function_name(), "file", "fi\\x6ce", "dst", "v_flows", self._of(self._words.paths)]
            )
        return text, params

    def request(self) -> tuple[str, dict[str, str], Form]:
        """A statement, its parameters, and the parts of the form in which it is sent; None if its body is the statement."""
        text, params = self.statement()
        if self._user == NETS and self._random.random() < 0.9:
            text = text.replace("weir.", "weir_networks.")
        if self._random.random() >= 0.15:
            return text, params, None
        form: dict[str, list[str]] = {}
        for number in range(self._random.randint(0, 2)):
            name = (
                f"zq{number}"
                if self._calm
                else self._of(["zq0", "flows", "v_flows", "prefixes", "query_log", "a b", "weir.flows", "file"])
            )
            kind = self._of(["TSV", "TSV", "CSV", "Values"]) if self._calm else self._of(self._words.formats)
            sound = ["a String, b UInt8", "a Nullable(String), b Array(UInt8)", "`file` String, b IPv6"]
            columns = self._of(sound if self._calm else [*sound, self._columns])
            description = {f"{name}_format": kind, f"{name}_structure": columns}
            if self._random.random() < 0.5:
                params |= description
            else:
                form |= {key: [value] for key, value in description.items()}
            form[name] = [
                self._of(["x\t1\n", "'x',1\n", "", lambda: f"(file({self.path()}), 1)", lambda: self.expr(2), self.path]),
                "file",
            ]
            text = self._of(
                [f"SELECT * FROM {name}", f"SELECT * FROM {name}, ({self.select(1)})", text, text.replace("weir.", "", 1)]
            )
        if self._random.random() < (0.02 if self._calm else 0.2):
            form[self._of([self.setting(), "user", "session_id", "param_q", "database"])] = [self._of(["1", "admin", "fuzz1"])]
        form |= {name: [value] for name, value in params.items() if name.startswith("param_")}
        params = {name: value for name, value in params.items() if not name.startswith("param_")}
        form["query"] = [text]
        return text, params, form

    def _columns(self) -> str:
        """Columns with more than names and types."""
        return self._of(
            [
                lambda: f"a String DEFAULT {self.expr(2)}",
                lambda: f"a String ALIAS file({self.path()})",
                lambda: f"a String, INDEX i {self.expr(3)} TYPE minmax",
                lambda: f"a String, CONSTRAINT c CHECK {self.expr(3)}",
                lambda: f"a AggregateFunction({self._of(['flameGraph', 'sum'])}, UInt64)",
                lambda: f"a String) ENGINE = File(CSV, {self.path()}) --",
                lambda: f"a String) AS {self.select(2)} --",
                lambda: "a {p:Identifier}",
                lambda: self.expr(2),
            ]
        )

    def short(self) -> str:
        """A query with one trick, which runs if the trick is let through."""
        if self._user in self._words.hashes and self._random.random() < 0.5:
            self._view = self._of(self._words.masked if self._user == NETS else self._words.granted)
            tail = self._of(["", "", f" AND {self.column()} IS NOT NULL", " ORDER BY 1", f" SETTINGS {self._setting_clause()}"])
            return f"SELECT {self._of(['count()', '1', '*', self.column()])} FROM weir.{self._view} WHERE {self._telling()}{tail}"
        name, path = self._styled(self._of(["file", "file", self.function_name()])), self.path()
        return self._of(
            [
                lambda: f"SELECT {name}({path})",
                lambda: f"SELECT arrayMap({name}, [{path}])",
                lambda: f"SELECT arrayMap(({name}) AS f, [{path}])",
                lambda: f"SELECT arrayMap(x -> {name}(x), [{path}])",
                lambda: f"SELECT * APPLY({name}) FROM (SELECT {path} AS p)",
                lambda: f"SELECT COLUMNS('p') APPLY(x -> {name}(x)) FROM (SELECT {path} AS p)",
                lambda: f"SELECT b FROM values('a String, b String ALIAS {name}(a)', {path})",
                lambda: f"SELECT * FROM format(Values, 'x String', $${name}({path})$$)",
                lambda: f"SELECT * FROM {name}({path}, 'LineAsString')",
                lambda: f"SELECT * FROM {name}({path}, 'LineAsString', 'c String')",
                lambda: f"SELECT * FROM default.`{self._of(self._words.paths)}`",
                lambda: "SELECT arrayMap({p:Identifier}, [" + path + "])",
                lambda: f"SELECT 1 FORMAT Template SETTINGS format_template_resultset = {path}",
                lambda: f"SELECT 1 SETTINGS {self._setting_clause()}",
                lambda: f"SELECT * FROM (SELECT 1 SETTINGS {self._setting_clause()})",
                lambda: f"WITH x -> {name}(x) AS f SELECT f({path})",
            ]
        )

    def _telling(self) -> str:
        """A condition that is true of other customers' rows alone, or of addresses, and then fails."""
        named = [one for one in self._words.columns.get(self._view, ()) if re.search("src|dst|host|addr|customer|name", one)]
        test = f"cityHash64(toString({self._of(named or ['src'])})) IN ({', '.join(self._words.hashes[self._user])})"
        return self._of(
            [
                f"throwIf({test}, '{LEAK}') = 0",
                f"NOT throwIf({test}, '{LEAK}')",
                f"if({test}, throwIf(materialize(1), '{LEAK}'), 1)",
            ]
        )

    # -- clauses -----------------------------------------------------------------------------------------------------

    def select(self, depth: int) -> str:
        """A query, with its clauses in the order that the engine wants."""

        def more() -> float:
            # Clauses that are wrong with most others, less often.
            return self._random.random() * (2 if self._calm else 1)

        outer, source = self._view, self.source(depth)
        parts = []
        if more() < 0.15:
            bound = self._of(
                [
                    lambda: f"{self.expr(depth + 1)} AS c0",
                    lambda: f"c0 AS ({self.select(depth + 2)})",
                    lambda: f"x -> {self.expr(depth + 2)} AS c0",
                ]
            )
            parts.append(f"WITH {bound}")
        items = ", ".join(self._item(depth) for _ in range(self._random.randint(1, 3)))
        parts.append(f"SELECT {self._of(['', '', '', 'DISTINCT '])}{items}")
        if self._random.random() < 0.95:
            parts.append(f"FROM {source}{self._of(['', '', '', '', *([] if self._calm else [' FINAL', ' SAMPLE 1 / 2'])])}")
            if more() < 0.1:
                parts.append(f"{self._of(['', 'LEFT '])}ARRAY JOIN {self.expr(depth + 1)} AS j0")
            if more() < 0.12:
                parts.append(
                    f"{self._of(['ANY LEFT', 'FULL', 'CROSS', 'SEMI LEFT', 'ASOF'])} JOIN {self.source(depth + 1)} AS b ON {self.condition(depth + 1)}"
                )
            if more() < 0.1:
                parts.append(f"PREWHERE {self.condition(depth + 1)}")
        if self._random.random() < 0.45:
            parts.append(f"WHERE {self.condition(depth)}")
        if more() < 0.15:
            parts.append(
                f"GROUP BY {self._of(['ALL', '1', lambda: self.expr(depth + 1)])}{self._of(['', '', ' WITH ROLLUP', ' WITH CUBE', ' WITH TOTALS'])}"
            )
            if self._random.random() < 0.3:
                parts.append(f"HAVING {self.condition(depth + 1)}")
        if more() < 0.05:
            parts.append(f"QUALIFY {self.condition(depth + 1)}")
        if more() < 0.15:
            parts.append(f"ORDER BY {self.expr(depth + 1)}{self._of(['', ' DESC', ' WITH FILL', ' NULLS FIRST'])}")
        if more() < 0.05:
            parts.append(f"LIMIT 2 BY {self.expr(depth + 1)}")
        if depth == 0 or more() < 0.2:
            parts.append(
                f"LIMIT {self._random.randint(1, 50)}{self._of(['', '', *([] if self._calm else [' WITH TIES']), ' OFFSET 1'])}"
            )
        if more() < 0.12:
            parts.append("SETTINGS " + ", ".join(self._setting_clause() for _ in range(self._random.randint(1, 3))))
        text = " ".join(parts)
        if more() < 0.06:
            text += f" {self._of(['UNION ALL', 'UNION DISTINCT', 'EXCEPT', 'INTERSECT'])} {self.select(depth + 2)}"
        self._view = outer
        if depth == 0:
            if more() < 0.04 and not self._calm:
                text += f" INTO OUTFILE {self.path()}"
            if self._random.random() < 0.3:
                text += f" FORMAT {self._of(self._words.formats)}"
                if more() < 0.15:
                    text += f" SETTINGS {self._setting_clause()}"
            if more() < 0.03:
                text += f" |> {self._of(['WHERE', 'EXTEND', 'SELECT', 'AGGREGATE'])} {self.expr(1)}"
        return text

    def source(self, depth: int) -> str:
        """What stands after FROM."""
        pick = self._random.random()
        if depth > 3 or pick < (0.8 if self._calm else 0.55):
            # A customer mostly asks the views that it may read.
            own = self._words.granted if self._user in CUSTOMERS and self._random.random() < 0.8 else list(self._words.columns)
            self._view = self._of(own)
            return "weir." + self._view
        if pick < 0.63:
            return f"({self.select(depth + 1)})"
        if pick < 0.70:
            return "system." + self._of(self._words.system)
        if pick < 0.74:
            return self._of(
                [
                    "merge('weir', '^v_')",
                    "merge(REGEXP('weir|system'), 'flows|log')",
                    "merge('system', 'query_log')",
                    "loop(weir.v_flows)",
                ]
            )
        if pick < 0.77:
            return self._of(["default.", "", "information_schema."]) + self._quoted(
                self._of([*self._words.paths, "tables", "c0"])
            )
        if self._calm:
            return self._of(
                [
                    "numbers(9)",
                    "values('a String, b UInt8', ('x', 1))",
                    lambda: f"view({self.select(depth + 1)})",
                    "generateRandom('a String', 1)",
                ]
            )
        arguments = ", ".join(self._table_argument(depth) for _ in range(self._random.randint(0, 3)))
        return f"{self._styled(self._of(self._words.table_functions))}({arguments})"

    def _table_argument(self, depth: int) -> str:
        return self._of(
            [
                self.path,
                lambda: "'a String, b String DEFAULT file(''/etc/hostname'')'",
                lambda: "'a String, b UInt8'",
                lambda: "'CSV'",
                lambda: "LineAsString",
                lambda: str(self._random.randint(0, 20)),
                lambda: f"({self.select(depth + 2)})",
                lambda: self.select(depth + 2),
                lambda: "weir.flows",
                lambda: "weir, v_flows",
                lambda: self.expr(depth + 2),
                lambda: "'127.0.0.1:1'",
            ]
        )

    def _item(self, depth: int) -> str:
        if self._calm and self._random.random() < 0.8:
            return self._of(
                [
                    lambda: self.expr(max(depth, 2)),
                    lambda: self.expr(depth),
                    lambda: "*",
                    lambda: "* APPLY(toString)",
                    lambda: "COLUMNS('c') APPLY(x -> hex(toString(x)))",
                ]
            )
        name = self._styled(self.function_name())
        return self._of(
            [
                lambda: "*",
                lambda: self.expr(depth),
                lambda: self.expr(depth),
                lambda: self.expr(depth),
                lambda: "count()",
                lambda: f"* APPLY({name})",
                lambda: f"COLUMNS('{self._of(['a', 'name', 'dst', '.'])}') APPLY(x -> {self._styled(self.function_name())}(x))",
                lambda: f"* EXCEPT({self.column()})",
                lambda: f"* REPLACE({self.expr(depth + 1)} AS {self.column()})",
                lambda: f"{self.expr(depth + 1)} AS {self._of(['a', 'file', 'c0'])}",
                lambda: f"row_number() OVER (PARTITION BY {self.expr(depth + 1)} ORDER BY {self.column()})",
            ]
        )

    def condition(self, depth: int) -> str:
        """A condition; many of them are true of other customers' rows alone, and then fail."""
        if self._user in CUSTOMERS and self._random.random() < 0.5:
            return self._of([self._telling, self._telling, lambda: f"({self.expr(depth + 2)}) = 1 AND {self._telling()}"])
        left = self.expr(depth + 1)
        return self._of(
            [
                left,
                lambda: f"{left} = {self.value()}",
                lambda: f"{left} IN ({self.select(depth + 2)})",
                lambda: f"{left} LIKE '%a%'",
                lambda: f"{self.column()} IS NOT NULL",
                lambda: "1",
            ]
        )

    # -- expressions -------------------------------------------------------------------------------------------------

    def expr(self, depth: int) -> str:
        """An expression; deeper ones are simpler."""
        pick = self._random.random()
        if self._calm and pick < 0.8:
            inner = self.column() if depth > 2 or pick < 0.6 else self.expr(depth + 1)
            return self._of(_SOUND).replace("_", inner)
        if depth > 3 or pick < 0.3:
            return self._of([self.column(), self.value(), "number"])
        if pick < 0.62:
            arguments = ", ".join(self._argument(depth + 1) for _ in range(self._random.choice([0, 1, 1, 1, 2, 2, 3])))
            return f"{self._styled(self.function_name())}({arguments})"
        if pick < 0.68:
            name = self._styled(self._of(self._words.aggregates)) + self._of(["", "", self._of(self._words.combinators)])
            return f"{name}({self.column()}{self._of(['', ', 1', ', ' + self.value()])})"
        inner = self.expr(depth + 1)
        name = self._styled(self.function_name())
        return self._of(
            [
                lambda: f"toString({inner})",
                lambda: f"concat({inner}, {self.value()})",
                lambda: f"arrayMap({name}, [{inner}])",
                lambda: f"arrayMap(x -> {name}(x), [{inner}])",
                lambda: f"arrayFilter(({name}), [{self.path()}])",
                lambda: f"({inner})::{self._of(_TYPES)}",
                lambda: f"CAST({inner} AS {self._of(_TYPES)})",
                lambda: f"accurateCastOrNull({inner}, '{self._of(_TYPES)}')",
                lambda: f"CASE WHEN {inner} THEN {self.value()} ELSE {name}({self.path()}) END",
                lambda: f"({self.select(depth + 2)})",
                lambda: "{p:Identifier}",
                lambda: "{p:Identifier}(1)",
                lambda: "arrayMap({p:Identifier}, [" + inner + "])",
                lambda: "{p:String}",
                lambda: f"[{inner}, {self.value()}][1]",
                lambda: f"({inner}, 1).1",
                lambda: f"map({inner}, 1)",
                lambda: f"{inner} {self._of(['+', '||', '=', 'AND', 'OR', '%', 'LIKE', 'IN'])} {self.value()}",
                lambda: f"formatRow('{self._of(self._words.formats)}', {inner})",
                lambda: f"dictGet('weir.customer_names', 'customer', {inner})",
                lambda: f"arrayReduce('{self._of(self._words.aggregates)}', [{inner}])",
                lambda: f"getSetting('{self.setting()}')",
            ]
        )

    def _argument(self, depth: int) -> str:
        return self._of(
            [
                lambda: self.expr(depth),
                self.column,
                self.value,
                self.path,
                lambda: f"x -> {self.expr(depth + 1)}",
                lambda: self._quoted(self.function_name()),
            ]
        )

    def function_name(self) -> str:
        """A function's name; in a statement that is not calm, some are closed."""
        return (
            self._of(self._words.listed)
            if self._calm or self._random.random() < 0.6
            else self._of([*self._words.closed, "file", "file"])
        )

    def column(self) -> str:
        """A column of the view that is asked, or of another."""
        if self._view and self._random.random() < (0.97 if self._calm else 0.5):
            return self._of(self._words.columns[self._view])
        view = self._of(list(self._words.columns))
        return self._of(["", "", "", f"{view}."]) + self._of(self._words.columns[view])

    def value(self) -> str:
        """A literal."""
        if self._calm:
            return self._of(["0", "1", "17", "'a'", "''"])
        return self._of(
            [
                "0",
                "1",
                "17",
                "-1",
                "1e3",
                "''",
                "'a'",
                "NULL",
                "[1]",
                "now()",
                "'2023-11-14'",
                "$t$file('x')$t$",
                "x'66696c65'",
                self.path(),
            ]
        )

    def path(self) -> str:
        """The path of a file with a canary, as a literal of some kind."""
        path = self._of(self._words.paths)
        return self._of(
            [f"'{path}'", f"'{path}'", f"$z${path}$z$", f"'file://{path}'", f"‘{path}’", "unhex('" + path.encode().hex() + "')"]
        )

    def setting(self) -> str:
        """A setting's name."""
        if self._calm:
            return self._of(
                [
                    "extremes",
                    "select_sequential_consistency",
                    "join_use_nulls",
                    "final",
                    "max_block_size",
                    "optimize_move_to_prewhere",
                    "enable_analyzer",
                ]
            )
        return self._of(
            ["format_schema", "format_template_resultset", "readonly", "max_execution_time", self._of(self._words.settings)]
        )

    def _setting_clause(self) -> str:
        name = self._of([self.setting(), self._quoted(self.setting()), "max_threads", "param_p"])
        if self._calm:
            return f"{self.setting()} = 1"
        return name + self._of(["", f" = {self.value()}", " = 1", f" = {self.path()}"])

    def insert(self) -> str:
        """An INSERT, into a table that no customer reads; with expressions and files."""
        target = self._of(
            ["weir.applications (number, name)"] * 3
            + [f"FUNCTION {self.source(3)}", f"FUNCTION file({self.path()})", "weir.applications"]
        )
        value = self._of(
            [self.value, lambda: self.expr(2), lambda: f"file({self.path()})", lambda: f"(SELECT * FROM file({self.path()}))"]
        )
        return f"INSERT INTO {target} " + self._of(
            [
                lambda: f"VALUES (65000, {value})",
                lambda: f"VALUES (65000, 'a'), (65001, {value})",
                lambda: f"FORMAT Values (65000, {value})",
                lambda: f"SETTINGS {self._setting_clause()} VALUES (65000, {value})",
                lambda: f"SELECT 65000, {self.expr(2)}",
                lambda: f"{self.select(1)}",
                lambda: f"FROM INFILE {self.path()} FORMAT CSV",
                lambda: 'FORMAT JSONEachRow {"number": 65000, "name": "a"}',
                lambda: f"FORMAT {self._of(self._words.formats)} 65000,a",
            ]
        )

    # -- the letters -------------------------------------------------------------------------------------------------

    def _styled(self, name: str) -> str:
        """A name in one of the ways to write it."""
        plain = [name, name, name, name.upper(), name.swapcase()]
        return self._of(
            [
                *plain,
                self._quoted(name),
                f'"{name}"',
                f"“{name}”",
                f"{name}/**/",
                f"{name} ",
                f"`{name[:1]}\\x{ord(name[1:2] or '_'):02x}{name[2:]}`",
            ]
        )

    def _quoted(self, name: str) -> str:
        return f"`{name}`"

    def _mutated(self, text: str) -> str:
        """The text with one place changed."""
        words = text.split(" ")
        at = self._random.randrange(len(words))
        junk = [
            "/* ' */",
            "-- '\n",
            "# x\n",
            "\u00a0",
            ";",
            "(",
            ")",
            "'",
            "`",
            "\\",
            "\x00",
            "FORMAT",
            "SETTINGS",
            "INTO OUTFILE",
            "UNION ALL",
            "AS file",
        ]
        words[at : at + self._random.choice([0, 1, 1, 2])] = [self._of(junk + words)]
        return " ".join(words)

    def _of(self, choices: Sequence[str | Callable[[], str]]) -> str:
        """One of the choices. Those that take time to make are functions, of which only the chosen one is called."""
        chosen = choices[self._random.randrange(len(choices))]
        return chosen if isinstance(chosen, str) else chosen()


@dataclass
class World:
    """A store with canaries, and what was seen of it."""

    server: Server
    words: Words
    folder: Path
    canaries: dict[str, list[bytes]]
    inserted: int = 0
    codes: collections.Counter[int] = field(default_factory=collections.Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)
    own_settings: dict[str, str] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    told: list[str] = field(default_factory=list)

    def ask(self, user: str, text: str, params: dict[str, str], form: Form = None) -> str:
        """Send a statement; returns the property that it broke, '' if none."""
        asked: dict[str, Any] = {"database": "weir_networks" if user == NETS else "weir", "max_execution_time": "2", **params}
        body = text
        if form is not None:
            heads = {name: f'name="{name}"' + '; filename="f"' * (len(part) > 1) for name, part in form.items()}
            parts = (f"--zq\r\nContent-Disposition: form-data; {heads[name]}\r\n\r\n{form[name][0]}\r\n" for name in form)
            body = "".join(parts) + "--zq--\r\n"
            asked["headers"] = {"Content-Type": "multipart/form-data; boundary=zq"}
        try:
            answer = self.server.ask(body.encode("utf-8", "replace"), user=user, **asked)
        except OSError as error:
            return f"no answer: {type(error).__name__} {error}"
        with self.lock:
            self.codes[answer.code if answer.status >= 400 else 0] += 1
        broken = self._broken(user, answer)
        if broken == _LEAKED:
            # The engine may compute throwIf() in the branch of an if() that is not taken: then it throws whatever the rows hold.
            for number in self.words.hashes[user]:
                body = body.replace(number, str(int(number) ^ 1))
            control = self._broken(user, self.server.ask(body.encode("utf-8", "replace"), user=user, **asked))
            broken = "" if control == _LEAKED else broken
        return broken

    def _broken(self, user: str, answer: Answer) -> str:
        body = answer.body
        if _IN_FILES.encode() in body:
            return "a file's canary is in the answer"
        for canary in self.canaries.get(user, ()):
            if canary in body:
                return f"another customer's canary is in the answer: {canary!r}"
        if user in self.words.hashes and body.startswith(f"Code: 395. DB::Exception: {LEAK}".encode()):
            return _LEAKED
        if answer.status >= 500 and not answer.code:
            return f"HTTP {answer.status} without an error of ClickHouse"
        return ""

    def check(self) -> str:
        """What holds besides; returns the property that was broken, '' if none."""
        process = self.server.process
        assert process is not None
        if process.poll() is not None:
            return f"the server ended with status {process.returncode}"
        if any("Traceback" in line for line in self.told):
            return "an unexpected exception:\n" + "".join(self.told[-30:])
        if self.server.sql("SELECT count() FROM weir.v_flows", user="analyst") != str(2 * len(CUSTOMERS)):
            return "rows are gone, or new"
        self.inserted += 1
        answer = self.server.ask(
            f"INSERT INTO weir.applications (number, name) VALUES (64999, 'n{self.inserted}')", user="writer"
        )
        stored = self.server.sql(f"SELECT count() FROM weir.applications WHERE name = 'n{self.inserted}'")
        if answer.status != 200 or stored != "1":
            return f"the writer's INSERT was not stored: {answer.text}"
        if self._files() != self.files:
            return f"files changed: {sorted(self._files() ^ self.files)}"
        for user in USERS:
            if user == "admin":
                # An administrator's session may have any setting.
                continue
            for session in [dict[str, str](), *({"session_id": f"fuzz{n}"} for n in range(4))]:
                changed = self.settings(user, **session)
                listed = allowed.load().settings["writers" if user == "writer" else "readers"] if session else set()
                wrong = {
                    name for name in changed if name not in listed and changed[name] != self.own_settings.get(f"{user} {name}")
                }
                if wrong:
                    return f"{user} changed {sorted(wrong)}"
        return ""

    def settings(self, user: str, **params: Any) -> dict[str, str]:
        """The settings of a user's connection that differ from the engine's; without those that each request has of its own."""
        answer = self.server.ask(
            "SELECT name, value FROM system.settings WHERE changed AND name NOT IN ('log_comment', 'max_memory_usage') FORMAT JSONCompactEachRow",
            user=user,
            **params,
        )
        if answer.status != 200:
            # A limit that a session lowered, or a format.
            return {}
        return dict(json.loads(line) for line in answer.text.splitlines())

    def _files(self) -> frozenset[str]:
        """Files of the folders in which the engine itself makes none."""
        own = self.folder / "data/front"
        places = [self.folder / "outside", own / "user_files", own / "format_schemas", self.folder / "backups"]
        return frozenset(str(path) for place in places for path in place.glob("**/*"))


@contextmanager
def world() -> Iterator[World]:
    """A store with three customers, and canaries in rows and files."""
    with tempfile.TemporaryDirectory(prefix="weir-fuzz-") as name:
        folder = Path(name)
        tree = yaml.safe_load((FOLDER / "access.yaml").read_text())
        tree["users"] |= {user: {"role": "customer", "customers": [customer]} for user, (_, customer, _) in CUSTOMERS.items()}
        tree["users"][NETS] = {"role": "networks"}
        for role in tree["roles"].values():
            role.pop("quota", None)
        (folder / "access.yaml").write_text(yaml.safe_dump(tree))
        (folder / "outside").mkdir()
        # A directory of its own for the backups, too.
        server = start(folder / "data", "--backups", str(folder / "backups"), access=folder / "access.yaml")
        try:
            yield _filled(server, folder)
        finally:
            stop(server)


def _filled(server: Server, folder: Path) -> World:
    told: list[str] = []
    assert server.process is not None
    assert server.process.stderr is not None
    lines = server.process.stderr

    def listen() -> None:
        # The server's output is closed while it is read, at the end.
        with suppress(ValueError):
            for raw in lines:
                told.append(raw.decode(errors="replace"))

    threading.Thread(target=listen, daemon=True).start()
    migrate(server, "weir")
    for number, customer, host in CUSTOMERS.values():
        prefix = host.rsplit(".", 1)[0] + ".0/24"
        server.sql(
            f"INSERT INTO weir.prefixes (id, prefix, customer_id, customer, tags) VALUES ({number}, '{prefix}', {number}, '{customer}', ['tag{customer}'])"
        )
        for src, dst, source, destination in ((host, "10.9.9.9", number, 0), ("10.9.9.8", host, 0, number)):
            server.sql(
                "INSERT INTO weir.flows (ts, probe, src_addr, dst_addr, src_prefix, dst_prefix, src_customer, dst_customer, fwd_packets, server_name)"
                f" VALUES (now(), 'p', '::ffff:{src}', '::ffff:{dst}', {source}, {destination}, {source}, {destination}, 1, 'name{customer}')"
            )
    roll_up(server, "weir")
    fill_windows(server, {number: host for number, _, host in CUSTOMERS.values()})
    inside = [folder / "data/front/user_files/canary.csv", folder / "data/front/canary.txt"]
    for path in [*inside, folder / "outside/canary.csv"]:
        path.write_text(f'"{_IN_FILES}"\n')
        path.chmod(0o644)
    canaries, hashes = {}, {}
    for user in CUSTOMERS:
        others = [one for name, one in CUSTOMERS.items() if name != user]
        canaries[user] = [text for _, customer, host in others for text in _forms(customer, host)]
        texts = [text for _, customer, host in others for text in (customer, host, f"::ffff:{host}", f"name{customer}")]
        hashes[user] = server.sql("SELECT cityHash64(arrayJoin([" + ", ".join(f"'{text}'" for text in texts) + "]))").split()
    hosts = ["10.9.9.9", "10.9.9.8", *(host for _, _, host in CUSTOMERS.values())]
    canaries[NETS] = [
        *(form for host in hosts for form in _forms(host, host)),
        *(f"name{one}".encode() for _, one, _ in CUSTOMERS.values()),
    ]
    texts = [text for host in hosts for text in (host, f"::ffff:{host}")]
    hashes[NETS] = server.sql("SELECT cityHash64(arrayJoin([" + ", ".join(f"'{text}'" for text in texts) + "]))").split()
    made = World(
        server,
        _words(server, hashes, [str(path) for path in [*inside, folder / "outside/canary.csv"]]),
        folder,
        canaries,
        told=told,
    )
    made.files = made._files()
    made.own_settings = {f"{user} {name}": value for user in USERS for name, value in made.settings(user).items()}
    return made


def _forms(customer: str, host: str) -> list[bytes]:
    packed = bytes(int(part) for part in host.split("."))
    return [
        customer.encode(),
        host.encode(),
        b"\xff\xff" + packed,
        packed.hex().upper().encode(),
        customer.encode().hex().upper().encode(),
    ]


def _words(server: Server, hashes: dict[str, list[str]], paths: list[str]) -> Words:
    def names(sql: str) -> list[str]:
        return server.sql(sql).split()

    listed = allowed.load()
    functions = names("SELECT name FROM system.functions WHERE NOT is_aggregate AND origin = 'System' ORDER BY name")
    views = names(
        "SELECT name FROM system.tables WHERE database = 'weir' AND engine = 'View' AND name != 'v_network' ORDER BY name"
    )
    columns = {
        view: names(f"SELECT name FROM system.columns WHERE database = 'weir' AND table = '{view}'")
        for view in [*views, "flows", "prefixes"]
    }
    return Words(
        [name for name in functions if name.lower() in listed.functions and not name.startswith("sleep")],
        [name for name in functions if name.lower() not in listed.functions],
        names("SELECT name FROM system.functions WHERE is_aggregate ORDER BY name"),
        names("SELECT name FROM system.aggregate_function_combinators ORDER BY name"),
        names("SELECT name FROM system.table_functions ORDER BY name"),
        names("SELECT name FROM system.settings ORDER BY name"),
        names("SELECT name FROM system.formats ORDER BY name"),
        columns,
        [
            view.removeprefix("weir.")
            for view in yaml.safe_load((FOLDER / "access.yaml").read_text())["roles"]["customer"]["rows"]
        ],
        names("SELECT name FROM system.tables WHERE database = 'weir_networks' ORDER BY name"),
        names(
            "SELECT name FROM system.tables WHERE database = 'system' AND name NOT LIKE 'zeros%' AND name NOT LIKE 'numbers%' ORDER BY name"
        ),
        hashes,
        paths,
    )


def run(
    made: World, seeds: Iterator[int], done: Callable[[], bool], *, threads: int = 4, every: int = 500
) -> list[dict[str, object]]:
    """Send a statement of each seed, until `done`; returns those that broke a property."""
    broken: list[dict[str, object]] = []
    users = [user for user, weight in USERS.items() for _ in range(weight)]

    def work() -> None:
        while not done() and not broken:
            with made.lock:
                seed = next(seeds, None)
            if seed is None:
                return
            user = users[seed % len(users)]
            text, params, form = Grammar(made.words, seed, user).request()
            what = made.ask(user, text, params, form) or (made.check() if seed % every == 0 else "")
            if what:
                broken.append({"user": user, "sql": text, "params": params, "form": form, "what": what, "seed": seed})

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if not broken and (what := made.check()):
        broken.append({"what": what})
    return broken


def main() -> int:
    """Fuzz for some minutes, and print a table; returns 1 if a property was broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 40), help="the first seed; by default drawn")
    options = parser.parse_args()
    end = time.monotonic() + options.minutes * 60
    begun, seed, sent, found = time.monotonic(), options.seed, 0, 0
    codes: collections.Counter[int] = collections.Counter()
    while time.monotonic() < end and found < 20:
        with world() as made:
            seeds = iter(range(seed, seed + (1 << 30)))
            broken = run(made, seeds, lambda: time.monotonic() >= end)
            seed = next(seeds)
            codes += made.codes
            sent = codes.total()
        for one in broken:
            found += 1
            print(json.dumps(one, ensure_ascii=False), flush=True)
            if "sql" in one:
                with KEPT.open("a", encoding="utf-8") as file:
                    file.write(
                        json.dumps(
                            {
                                key: _portable(one[key], made.folder)
                                for key in ("user", "sql", "params", "form")
                                if one[key] is not None
                            },
                            ensure_ascii=False,
                        )
                        + "\n"
                    )
    minutes = (time.monotonic() - begun) / 60
    most = ", ".join(f"{code}: {number}" for code, number in codes.most_common(8) if code)
    print("\n| minutes | first seed | statements | answered | refused or wrong, by ClickHouse's code | properties broken |")
    print("|---:|---:|---:|---:|---|---:|")
    print(f"| {minutes:.1f} | {options.seed} | {sent} | {codes[0]} | {most} | {found} |")
    return 1 if found else 0


def _portable(value: object, folder: Path) -> object:
    """A text without the place of a store that is gone."""
    if isinstance(value, dict):
        return {key: _portable(inner, folder) for key, inner in value.items()}
    if isinstance(value, list):
        return [_portable(inner, folder) for inner in value]
    return str(value).replace(str(folder), "{folder}")


if __name__ == "__main__":
    sys.exit(main())
