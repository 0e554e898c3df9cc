"""Random statements, and those that once broke a property: see `fuzz_statements.py`. `make fuzz-statements` sends more."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest
from conftest import Answer
from fuzz_statements import _IN_FILES, CUSTOMERS, KEPT, LEAK, Grammar, World, run, world

pytestmark = pytest.mark.embedded

#: A few of the grammar's clauses and ways, each of which some statement must have.
REACHED = [
    "APPLY(",
    "arrayMap(",
    "SETTINGS ",
    "FORMAT Values",
    "VALUES (",
    "INTO OUTFILE",
    "merge(",
    "JOIN",
    "{p:Identifier}",
    "file(",
    "SET ",
    "EXPLAIN",
    "`",
    "|>",
]


@pytest.fixture(scope="module")
def made() -> Iterator[World]:
    with world() as one:
        yield one


def test_some_random_statements(made: World) -> None:
    assert run(made, iter(range(1000)), lambda: False) == []
    # They are neither all refused nor all harmless.
    assert made.codes[0] > 100
    assert sum(made.codes[code] for code in (497, 344, 164)) > 100


def test_the_grammar_reaches_its_clauses_and_is_repeatable(made: World) -> None:
    texts = [Grammar(made.words, seed, "analyst").request() for seed in range(3000)]
    for part in REACHED:
        assert any(part in text for text, _, _ in texts), part
    assert texts[:100] == [Grammar(made.words, seed, "analyst").request() for seed in range(100)]
    forms = str([(params, form) for _, params, form in texts if form])
    for part in ("_structure", "_format", "DEFAULT", "AggregateFunction", "'file']", "v_flows", "'user'", "param_p"):
        assert part in forms, part
    some = "\n".join(text for text, _, _ in texts)
    assert sum(name in some for name in made.words.table_functions) > 80
    assert sum(name in some for name in made.words.closed) > 100
    assert sum(name in some for name in made.words.formats) > 50


def test_each_broken_property_is_noticed(made: World) -> None:
    def asked(body: str, user: str = "fjord", status: int = 200) -> str:
        return made._broken(user, Answer(status, {}, body.encode()))

    assert "file" in asked(_IN_FILES, "admin")
    for text in (CUSTOMERS["other"][1], CUSTOMERS["third"][2], CUSTOMERS["other"][1].encode().hex().upper()):
        assert "another customer's canary" in asked(text)
        assert asked(text, "analyst") == ""
    assert asked(CUSTOMERS["fjord"][1]) == ""
    assert "canary" in asked(CUSTOMERS["other"][2], "nets")
    assert asked(f"{CUSTOMERS['other'][1]} 10.62.173.0/24", "nets") == ""
    assert "condition" in asked(f"Code: 395. DB::Exception: {LEAK}: while executing", status=500)
    assert "without an error" in asked("Oops", status=500)
    # A form reaches the engine, with a table.
    with_table = {"zq0": ["x\t7\n", "file"], "zq0_structure": ["a String, b UInt8"], "query": ["SELECT a, b FROM zq0"]}
    for user in ("fjord", "writer"):
        assert made.ask(user, "", {}, with_table) == ""
        made.canaries[user] = [*made.canaries.get(user, []), b"x\t7"]
        assert "canary" in made.ask(user, "", {}, with_table)
        made.canaries[user].pop()
    # The canaries are there to be found.
    everything = made.server.ask("SELECT * FROM weir.v_flows", user="analyst").body
    own = made.server.ask("SELECT * FROM weir.v_flows", user="fjord").body
    for _, name, host in CUSTOMERS.values():
        assert name.encode() in everything
        assert (host.encode() in own) == (name == CUSTOMERS["fjord"][1])
    condition = f"throwIf(cityHash64(toString(src)) IN ({', '.join(made.words.hashes['fjord'])}), '{LEAK}') = 0"
    assert "Code: 395" in made.server.ask(f"SELECT 1 FROM weir.v_flows WHERE {condition}", user="analyst").text
    assert made.ask("fjord", f"SELECT 1 FROM weir.v_flows WHERE {condition}", {}) == ""
    # One that every row meets, or none, tells nothing.
    always = f"SELECT 1 FROM weir_networks.v_hosts WHERE if(cityHash64(host) IN ({made.words.hashes['nets'][0]}), throwIf(materialize(1), '{LEAK}'), 1)"
    assert "Code: 395" in made.server.ask(always, user="nets").text
    assert made.ask("nets", always, {}) == ""
    assert made.check() == ""
    made.server.ask("SET max_block_size = 9", user="analyst", session_id="fuzz0")
    assert made.check() == ""
    strange = made.folder / "outside/new"
    strange.write_text("")
    assert "files changed" in made.check()
    strange.unlink()
    made.own_settings["analyst max_execution_time"] = "1"
    assert "analyst changed ['max_execution_time']" in made.check()
    made.own_settings["analyst max_execution_time"] = "120"
    made.told.append("Traceback (most recent call last):")
    assert "unexpected exception" in made.check()
    made.told.clear()


@pytest.mark.parametrize("line", KEPT.read_text().splitlines())
def test_a_statement_that_broke_a_property_is_refused_now(made: World, line: str) -> None:
    kept = json.loads(line.replace("{folder}", str(made.folder)))
    # The hashes of a statement are of the rows that its own user must not see.
    users = [] if LEAK in kept["sql"] else CUSTOMERS
    for user in dict.fromkeys(itertools.chain([kept["user"]], users)):
        assert made.ask(user, kept["sql"], kept["params"], kept.get("form")) == ""
    assert made.check() == ""
