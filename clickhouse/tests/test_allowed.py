"""allowed.yaml is closed by default: what the engine has and the file does not list is refused, wherever it stands."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import FOLDER, Server
from weir_clickhouse.access import Role, load
from weir_clickhouse.allowed import FILE, AllowedError, Vocabulary
from weir_clickhouse.allowed import load as load_allowed
from weir_clickhouse.errors import ServerError
from weir_clickhouse.lexer import Token
from weir_clickhouse.statement import parse

from weir_schema import files

pytestmark = pytest.mark.embedded

ROLES = {name: role for name, role in load(FOLDER / "access.yaml", {}).roles.items() if not role.is_admin}
READERS = [name for name, role in ROLES.items() if role.readonly]
SUPERSET = FOLDER.parent / "superset/assets"

#: Where a name may stand for a function, and be called: `f` is the name.
PLACES = [
    "SELECT f(a)",
    "SELECT f/* */(a)",
    "SELECT `f`(a)",
    'SELECT "f" (a)',
    "SELECT “f”(a)",
    "SELECT lower(f(a))",
    "SELECT * APPLY(f)",
    "SELECT * APPLY f",
    "SELECT * APPLY(x -> f(x))",
    "SELECT COLUMNS('a') APPLY(`f`)",
    "SELECT arrayMap(f, [a])",
    "SELECT arrayMap((f) AS g, [a])",
    "SELECT arrayMap(x -> f(x), [a])",
    "WITH x -> f(x) AS g SELECT g(a)",
    "SELECT 1 WHERE f(a)",
    "SELECT 1 ORDER BY f(a)",
    "SELECT a IN (SELECT f(a))",
    "SELECT * FROM (SELECT * FROM view(SELECT f(a)))",
    "SELECT sum(1) OVER (ORDER BY f(a))",
    "SELECT 1 LIMIT f(a)",
    "SELECT 1 SETTINGS max_threads = f(a)",
    "SELECT 1 AS a |> EXTEND f(a)",
    "EXPLAIN SELECT f(a)",
    "SELECT {p:Identifier}(a)",
    "SELECT arrayMap({p:Identifier}, [a])",
]
#: Where a table function may be called.
TABLE_PLACES = [
    "SELECT * FROM f(a)",
    "SELECT * FROM `f`(a)",
    "SELECT * FROM f /* */ (a)",
    "SELECT 1 IN (SELECT * FROM f(a))",
    "SELECT * FROM t JOIN f(a) AS x ON 1",
    "DESCRIBE TABLE f(a)",
    "EXPLAIN SELECT * FROM f(a)",
]
#: Where a setting may stand.
SETTING_PLACES = [
    "SELECT 1 SETTINGS s = 1",
    "SELECT 1 SETTINGS `s` = 1",
    "SELECT 1 SETTINGS s",
    "SELECT 1 SETTINGS max_threads = 1, s = 1",
    "SELECT 1 SETTINGS final, s",
    "SELECT 1 FORMAT JSON SETTINGS s = 1",
    "SELECT * FROM (SELECT 1 SETTINGS s = 1)",
    "SELECT * FROM (SELECT 1 SETTINGS s)",
    "SELECT 1 IN (SELECT 1 SETTINGS max_threads = 1, s) SETTINGS max_threads = 1",
    "EXPLAIN SELECT 1 SETTINGS s = 1",
    # No list that this parser follows to its end.
    "SELECT 1 SETTINGS max_threads = 1 AS one, s = 1",
    "SET s = 1",
    "SET max_threads = 1, s = 1",
]


@pytest.fixture(scope="module")
def known(server: Server) -> Vocabulary:
    def rows(sql: str) -> list[list[str]]:
        return [line.split("\t") for line in server.sql(sql).split("\n")]

    return Vocabulary.of(rows)


def _refused(role: Role, sql: str, known: Vocabulary, params: dict[str, str] | None = None) -> str:
    """The text of the refusal; '' without one."""
    try:
        role.check(parse(sql.encode(), complete=True), params or {}, known)
    except ServerError as error:
        return str(error)
    return ""


def _closed(known: Vocabulary) -> list[str]:
    listed = load_allowed()
    return [name for name, stands_for in known.functions.items() if stands_for not in listed.functions]


def test_every_listed_name_is_the_engines_own(server: Server) -> None:
    tree = yaml.safe_load(FILE.read_text())
    for key, names in tree["functions"].items():
        of_key = "is_aggregate AND categories NOT IN ('x')" if key == "Aggregate Functions" else f"categories = '{key}'"
        own = set(server.sql(f"SELECT name FROM system.functions WHERE {of_key} AND alias_to = ''").split("\n"))
        assert set(names) - own == set(), key
    for key, table in (("table_functions", "table_functions"), ("settings", "settings")):
        listed = tree[key] if isinstance(tree[key], list) else [*tree[key]["readers"], *tree[key]["writers"]]
        assert set(listed) - set(server.sql(f"SELECT name FROM system.{table}").split()) == set()
        assert len(listed) == len(set(listed))


def test_what_reads_files_runs_code_or_tells_of_the_machine_is_not_listed(known: Vocabulary) -> None:
    listed = load_allowed()
    closed = set(_closed(known))
    told = {
        "file",
        "hostname",
        "fqdn",
        "getmacro",
        "getserversetting",
        "serveruuid",
        "getoskernelversion",
        "addresstoline",
        "flamegraph",
    }
    models = {"aigenerate", "evalmlmethod", "naivebayesclassifier", "regiontoname", "catboostevaluate"} & set(known.functions)
    assert told | models <= closed
    assert len(models) > 3
    opening = {
        name for name in known.table_functions if re.search("file|url|s3|remote|cluster|sql|local|iceberg|lake|python|exec", name)
    }
    assert len(opening) > 20
    assert not opening & listed.table_functions
    pattern = "schema|template|dialect|introspection|file_path|^s3|^url|^additional|^(filter|select|order|sort)$"
    settings = {name for name in known.settings if re.search(pattern, name)}
    assert len(settings) > 50
    # How many rows to look at, and columns that cannot be inferred.
    harmless = {name for name in settings if re.fullmatch("input_format_.*_schema_inference", name)}
    assert not (settings - harmless) & listed.settings["writers"]


@pytest.mark.parametrize("role", ROLES)
def test_a_function_that_is_not_listed_is_refused_wherever_it_stands(known: Vocabulary, role: str) -> None:
    closed = _closed(known)
    assert len(closed) > 100
    for name, place in itertools.product([*closed, "FILE", "HostName", "flameGraphIf"], PLACES):
        sql = re.sub(r"\bf\b", name, place)
        assert "Not enough privileges" in _refused(ROLES[role], sql, known, {"p": name}), sql
        control = re.sub(r"\bf\b", "lower", place)
        assert bool(_refused(ROLES[role], control, known, {"p": "lower"})) == (ROLES[role].hides and "EXPLAIN" in place)


@pytest.mark.parametrize("role", ROLES)
def test_a_table_function_that_is_not_listed_is_refused(known: Vocabulary, role: str) -> None:
    closed = sorted(known.table_functions - load_allowed().table_functions)
    assert len(closed) > 50
    for name, place in itertools.product(closed, TABLE_PLACES):
        sql = re.sub(r"\bf\b", name, place)
        try:
            assert "Not enough privileges" in _refused(ROLES[role], sql, known), sql
        except ServerError:
            pytest.fail(sql)


@pytest.mark.parametrize("role", ROLES)
def test_a_setting_that_is_not_listed_is_refused(known: Vocabulary, role: str) -> None:
    one = ROLES[role]
    listed = load_allowed().settings["readers" if one.readonly else "writers"]
    closed = sorted(known.settings - listed - {"readonly"})
    assert len(closed) > 1000
    for name in [*closed, "param_p"]:
        for place in SETTING_PLACES:
            if name in ("format", "order") and not re.search(r"\bs\b = 1", place):
                # Alone, these are words of the statement; a setting alone has the value 1, which does nothing here.
                continue
            sql = re.sub(r"\bs\b", name, place)
            assert f"Cannot modify '{name}' setting" in _refused(one, sql, known), sql
        with pytest.raises(ServerError, match=f"Cannot modify '{name}' setting"):
            one.settings_for({name: "1"}, {}, known)
    for place in SETTING_PLACES:
        control = re.sub(r"\bs\b", "join_use_nulls", place)
        assert bool(_refused(one, control, known)) == (ROLES[role].hides and "EXPLAIN" in place)
    if one.readonly:
        # Limits may be lowered in the URL alone.
        assert "max_execution_time" in _refused(one, "SELECT 1 SETTINGS max_execution_time = 1", known)
        assert one.settings_for({"max_execution_time": "1"}, {}, known)["max_execution_time"] == "1"


def test_what_a_new_engine_brings_is_refused_until_it_is_listed(known: Vocabulary) -> None:
    functions = {**known.functions, "readanything": "readanything", "readalias": "readanything"}
    newer = replace(
        known,
        functions=functions,
        aggregates=known.aggregates | {"readanything"},
        table_functions=known.table_functions | {"readtable"},
        settings=known.settings | {"allow_anything", "output_format_anything"},
    )
    role = ROLES["analyst"]
    for sql in (
        "SELECT readAnything('x')",
        "SELECT readAlias('x')",
        "SELECT readAnythingOrNullIf('x', 1)",
        "SELECT arrayMap(readAnything, ['x'])",
        "SELECT * FROM readTable('x')",
        "SELECT 1 SETTINGS allow_anything",
        "SELECT 1 SETTINGS output_format_anything = 1",
    ):
        # Today's engine does not know the name, and says so itself.
        assert not _refused(role, sql, known)
        assert _refused(role, sql, newer), sql


@pytest.mark.parametrize("user", ["writer", "analyst", "dashboard"])
@pytest.mark.parametrize(
    ("sql", "code", "told"),
    [
        ("SELECT lowre('A')", 46, "Function with name `lowre` does not exist"),
        ("SELECT sumIff(1, 1)", 46, "`sumIff` does not exist"),
        ("SELECT * FROM numberz(3)", 46, "Unknown table function numberz"),
        ("SELECT src, nothing_like_it FROM v_flows", 47, "nothing_like_it"),
        ("SELECT 1 SETTINGS max_thread = 1", 115, "Maybe you meant ['max_threads']"),
        ("SELEC 1", 62, "failed at position 7 (1)"),
        ("SHOW TABLES FRM weir", 62, "failed at position"),
        ("SELECT 1 FORM v_flows", 62, "failed at position"),
        ("INSRT INTO weir.flows VALUES (1)", 62, "failed at position"),
    ],
)
def test_a_typing_error_gets_the_engines_own_answer(server: Server, user: str, sql: str, code: int, told: str) -> None:
    answer = server.ask(sql, user=user, database="weir")
    assert (answer.code, told in answer.text) == (code, True), answer.text


@pytest.mark.parametrize("user", ["writer", "analyst", "dashboard"])
def test_the_server_enforces_the_file(server: Server, user: str) -> None:
    assert server.ask("SELECT hostName()", user=user).code == 497
    assert server.ask("SELECT arrayMap({p:Identifier}, [1])", user=user, param_p="tcpPort").code == 497
    assert server.ask("SELECT * FROM fuzzJSON('x')", user=user).code == 497
    assert server.ask("SELECT 1", user=user, compile_expressions="0").code == 164
    assert server.ask("SELECT 1", user=user, output_format_json_quote_64bit_integers="1").status == 200
    assert server.sql("SELECT hostName() != ''") == "1"


def test_functions_of_migrations_are_allowed(server: Server) -> None:
    assert server.sql("SELECT weir_protocol_name(6)", user="analyst") == "TCP"


@pytest.mark.parametrize("role", ROLES)
def test_a_role_reads_every_view_that_access_yaml_names_for_it(server: Server, own_customer: Server, role: str) -> None:
    one = ROLES[role]
    asked = {"v_network": "v_network(network = '10.0.0.0/8')"}
    read = 0
    for view in [*files.views(), *(f"{files.NETWORKS_DATABASE}.{view}" for view in files.networks())]:
        place = view if "." in view else f"weir.{view}"
        granted = any(place == target or (target.endswith("*") and place.startswith(target[:-1])) for target in one.objects)
        database, _, name = place.partition(".")
        sql = f"SELECT * FROM {database}.{asked.get(name, name)} LIMIT 1"
        answer = own_customer.ask(sql, user=_OWN[role]) if role in _OWN else server.ask(sql, user=role)
        assert answer.code == (0 if granted else 497), (view, answer.text)
        read += granted
    assert read == len(one.rows) if one.rows else read > 20


#: Users of the roles that have none by default.
_OWN = {"customer": "fjord", "networks": "nets"}


@pytest.fixture(scope="module")
def own_customer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a customer's user, and one who sees networks."""
    from conftest import migrate, start, stop

    folder = tmp_path_factory.mktemp("customer")
    tree = yaml.safe_load((FOLDER / "access.yaml").read_text())
    tree["users"] |= {"fjord": {"role": "customer", "customers": ["Fjord Power"]}, "nets": {"role": "networks"}}
    (folder / "access.yaml").write_text(yaml.safe_dump(tree))
    running = start(folder / "data", access=folder / "access.yaml")
    try:
        migrate(running, "weir")
        yield running
    finally:
        stop(running)


def _expressions(tree: object) -> Iterator[str]:
    """The SQL in a chart or dataset of Superset."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key in ("expression", "sqlExpression") and isinstance(value, str):
                yield value
            yield from _expressions(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _expressions(value)


def test_the_questions_of_documents_and_dashboards_pass(known: Vocabulary) -> None:
    """The texts with templates are filled in with names; `tests/e2e/pages` runs them as they are."""
    queries = [path.read_text() for path in sorted(SUPERSET.glob("**/*.sql"))]
    queries += [
        f"SELECT {one}" for path in sorted(SUPERSET.glob("**/*.yaml")) for one in _expressions(yaml.safe_load(path.read_text()))
    ]
    templates = re.compile(r"\{%.*?%\}|\{#.*?#\}", re.DOTALL)
    queries = [re.sub(r"\{\{.*?\}\}", " x ", templates.sub(" ", text), flags=re.DOTALL) for text in queries]
    for page in sorted((FOLDER.parent / "docs").glob("**/*.md")):
        queries += [
            block.strip()
            for block in re.findall(r"\n\n((?:    (?:SELECT|WITH)\b.*\n)(?:    .*\n|\n(?=    ))*)", page.read_text())
        ]
    assert len(queries) > 100
    for sql in queries:
        for role in ("dashboard", "analyst"):
            assert not _refused(ROLES[role], sql, known), sql


#: Where a text may name an aggregate function: `f` is the name.
TEXT_PLACES = [
    "SELECT arrayReduce('f', [1])",
    "SELECT arrayReduce('fIf', [1], [1])",
    "SELECT arrayReduce('f(1)', [1])",
    "SELECT arrayReduce((('f')), [1])",
    "SELECT arrayReduce($x$f$x$, [1])",
    "SELECT arrayReduce(‘f’, [1])",
    "SELECT arrayReduce('\\x{0}', [1])",
    "SELECT `arrayReduce`('f', [1])",
    "SELECT ARRAYREDUCE('F', [1])",
    "SELECT arrayMap(x -> arrayReduce('f', [x]), [1])",
    "SELECT arrayReduce({p:String}, [1])",
    "SELECT arrayReduceInRanges('f', [(1, 1)], [1])",
    "SELECT initializeAggregation('f', 1)",
    "SELECT initializeAggregation(concat('f', ''), 1)",
    "SELECT initializeAggregation(x, 1) FROM (SELECT 'f' AS x)",
    "WITH 'f' AS x SELECT arrayReduce(x, [1])",
    "SELECT CAST(unhex('00'), 'AggregateFunction(f, UInt64)')",
    "SELECT CAST(unhex('00'), concat('AggregateFunction(', 'f, UInt64)'))",
    "SELECT cast(unhex('00'), 'Array(AggregateFunction(1, f(3), UInt64))')",
    "SELECT CAST(unhex('00') AS AggregateFunction(f, UInt64))",
    "SELECT unhex('00')::AggregateFunction(f, UInt64)",
    "SELECT accurateCastOrNull(1, 'SimpleAggregateFunction(f, UInt64)')",
    "SELECT JSONExtract('{}', 'a', 'AggregateFunction(f, UInt64)')",
    "SELECT defaultValueOfTypeName('AggregateFunction(f, UInt64)')",
    "SELECT reinterpret('a', 'AggregateFunction(f, UInt64)')",
    "SELECT * FROM values('a AggregateFunction(f, UInt64)', 'x')",
    "SELECT * FROM generateRandom('a AggregateFunction(f, UInt64)')",
    "SELECT {p:AggregateFunction(f, UInt64)}",
]


@pytest.mark.parametrize("place", TEXT_PLACES)
def test_an_aggregate_function_that_is_not_listed_is_refused_in_texts(known: Vocabulary, place: str) -> None:
    closed = [name for name in _closed(known) if name in known.aggregates]
    assert "flamegraph" in closed
    for name in closed:
        text = (
            place.replace("\\x{0}", f"\\x{ord(name[0]):02x}{name[1:]}")
            if "{0}" in place
            else re.sub(r"\b([fF])(?=\b|If)", name, place)
        )
        assert "may not use" in (said := _refused(ROLES["analyst"], text, known, {"p": name})) or "no expression" in said, text
    # The same with a function that is listed, unless an expression makes the name.
    if "concat" not in place and "‘" not in place and " x" not in place and "{0}" not in place:
        assert _refused(ROLES["analyst"], re.sub(r"\b([fF])(?=\b|If)", "sum", place), known, {"p": "sum"}) == "", place


def test_texts_that_name_no_function_pass(known: Vocabulary) -> None:
    for text in (
        "SELECT CAST(1, 'UInt8'), CAST(1 AS UInt8), JSONExtract('{}', 'flameGraph', 'String'), accurateCastOrDefault(1, 'Int8', 3)",
        "SELECT 'flameGraph', arrayReduce('quantileExactInclusive(0.5)', [1]), CAST(1, {p:String}), position('aggThrow', 'a')",
        "SELECT * FROM values('flameGraph UInt8, b Tuple(aggThrow String)', (1, ('x')))",
    ):
        assert _refused(ROLES["analyst"], text, known, {"p": "UInt8"}) == "", text


@pytest.mark.parametrize("piece", ["CAST(", "arrayReduce('sum',", "CAST(1,((", "JSONExtract(1,"])
def test_nested_calls_cost_linear_time(known: Vocabulary, piece: str) -> None:
    """Counted, not timed: how often a token is looked at."""
    looked = []
    for size in (500, 1000):
        statement = parse(f"SELECT {piece * size}".encode(), complete=True)
        counted = _Counted(statement.items)
        with contextlib.suppress(ServerError):
            ROLES["analyst"].check(replace(statement, items=counted), {}, known)
        looked.append(counted.looked)
    assert looked[1] < 2.2 * looked[0]


class _Counted(tuple[Token, ...]):
    """Tokens that count how often one is taken."""

    looked = 0

    def __getitem__(self, at: Any) -> Any:
        self.looked += 1
        return super().__getitem__(at)


@pytest.mark.parametrize(
    "change",
    [
        (lambda text: text.replace("statements:", "statement:"), "needs the keys formats, functions"),
        (lambda text: text + "\nmore: 1\n", "needs the keys formats, functions"),
        (lambda text: text.replace("writers: [INSERT]", "writers: INSERT"), "statements.writers: must be a list of names"),
        (lambda text: text.replace("  writers: [INSERT]", "  admins: [INSERT]"), "needs the keys readers and writers"),
        (lambda _: "[", "not YAML"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, change: tuple[Callable[[str], str], str]) -> None:
    path = tmp_path / "allowed.yaml"
    path.write_text(change[0](FILE.read_text()))
    with pytest.raises(AllowedError, match=change[1]):
        load_allowed(path)
