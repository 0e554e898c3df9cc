"""The tokenizer, against ClickHouse's own."""

from __future__ import annotations

import pytest
from conftest import Server
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from weir_clickhouse.errors import ServerError
from weir_clickhouse.lexer import Kind, LexicalError, tokens
from weir_clickhouse.statement import Incomplete, parse

#: Pieces that meet each other's edges: quotes, escapes, comments, heredocs, numbers, odd white space.
PIECES = [
    "'",
    "''",
    "//",
    "\r",
    "@",
    "N",
    "x",
    "B",
    "\\'",
    "\\\\",
    "\\",
    '"',
    '""',
    "`",
    "``",
    "--",
    "-",
    "\n",
    "#",
    "# ",
    "#!",
    "/*",
    "*/",
    "/",
    "*",
    "$",
    "$$",
    "$a$",
    "$b$",
    "a",
    "b1",
    "1",
    "1.5",
    ".",
    "1e5",
    "1e",
    "e+1",
    "0x1f",
    "_",
    " ",
    "\t",
    "\u00a0",
    "\u200b",
    "\ufeff",
    "‘",
    "’",
    "“",
    "”",
    "−",
    "é",
    ";",
    ",",
    "(",
    ")",
    "::",
    "{",
    "}",
    "SELECT",
    "FORMAT",
    "x'ff'",
    "b'01'",
]


def _again(text: bytes) -> bytes:
    """The text rebuilt from its tokens, with one blank between any two that were apart."""
    out, last = bytearray(), 0
    for token in tokens(text):
        if token.start > last:
            out += b" "
        out += text[token.start : token.end]
        last = token.end
    return bytes(out) + b" "


def _texts(text: bytes) -> list[bytes]:
    return [text[token.start : token.end] for token in tokens(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a -- b\nc", ["a", "c"]),
        ("a # b\nc", ["a", "c"]),
        ("a // b ' \nc", ["a", "c"]),
        ("x'\\' b'0''1'", ["x'\\'", "b'0'", "'1'"]),
        ("a #! b\nc", ["a", "c"]),
        ("a /* b /* ' */ ' */ d", ["a", "d"]),
        ("a/*/b*/c", ["a", "c"]),
        ("'it''s' 'a\\'b' \"c\"\"d\" `e\\`f`", ["'it''s'", "'a\\'b'", '"c""d"', "`e\\`f`"]),
        ("$a$ ' $b$ ; $a$ x", ["$a$ ' $b$ ; $a$", "x"]),
        ("$$;$$ x", ["$$;$$", "x"]),
        ("a$b$c", ["a$b$c"]),
        ("1st 1e5 1e+5+2 * .5 t.1.2 1_000", ["1st", "1e5", "1e+5", "+", "2", "*", ".5", "t", ".", "1", ".", "2", "1_000"]),
        ("1st$a$ ' $a$ 3HE--'", ["1st", "$a$ ' $a$", "3HE"]),
        ("$$$a$'$a$", ["$", "$", "$a$'$a$"]),
        ("a\u00a0b\ufeffc", ["a", "b", "c"]),
        ("‘;’ “;”", ["‘;’", "“;”"]),
        ("'--' '/*' '#!'", ["'--'", "'/*'", "'#!'"]),
    ],
)
def test_examples(text: str, expected: list[str]) -> None:
    assert [part.decode() for part in _texts(text.encode())] == expected


@pytest.mark.parametrize("text", ["'a", '"a', "`a", "/* a", "'a\\'", "‘a", "é", "a \x00 b", "#x"])
def test_doubt_is_an_error(text: str) -> None:
    with pytest.raises(LexicalError):
        list(tokens(text.encode()))


@pytest.mark.parametrize(("raw", "name"), [("`a``b`", "a`b"), ('"a\\"b"', 'a"b'), ("`f\\x69le`", "file"), ("`a\\nb`", "a\nb")])
def test_identifiers_are_unescaped(raw: str, name: str) -> None:
    assert [token.value for token in tokens(raw.encode())] == [name]


@given(st.binary(max_size=200))
def test_any_octets_end_in_tokens_or_an_error(data: bytes) -> None:
    last = 0
    try:
        for token in tokens(data):
            assert last <= token.start < token.end <= len(data)
            last = token.end
    except LexicalError as error:
        last = max(last, error.position) if last <= error.position else len(data) + 1
    assert last <= len(data)


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_a_text_read_in_two_parts_is_read_the_same(parts: list[str]) -> None:
    """Wherever the text is cut, the parser finds the head of an INSERT as soon as it is complete, and never before."""
    data = b"INSERT INTO t FORMAT TSV\n" + "".join(parts).encode()
    whole = parse(data, complete=True)
    for cut in range(len(data)):
        try:
            part = parse(data[:cut], complete=False)
        except Incomplete:
            continue
        assert part.text == whole.text
        assert part.data == whole.data


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), min_size=20, max_size=20))
@pytest.mark.embedded
def test_the_engine_sees_the_same_tokens(server: Server, texts: list[str]) -> None:
    """normalizeQueryKeepNames runs the engine's lexer, drops comments and white space and writes `?` for literals.

    If this tokenizer accepts a text, the engine must read the text rebuilt from its tokens the same, apart from white
    space: no comment or string begins or ends elsewhere. The tokenizer may refuse more than the engine.
    """
    pairs = []
    for text in texts:
        try:
            # A word first and a blank last: the engine reads the very first and last octets of a text differently.
            whole = f"a {text} ".encode()
            pairs.append((whole, _again(whole)))
        except LexicalError:
            continue
    if not pairs:
        return
    sql = "SELECT " + ", ".join(
        f"replaceAll(normalizeQueryKeepNames(unhex('{a.hex()}')), ' ', '') = replaceAll(normalizeQueryKeepNames(unhex('{b.hex()}')), ' ', '')"
        for a, b in pairs
    )
    same = server.sql(sql).split("\t")
    for (sent, again), equal in zip(pairs, same, strict=True):
        assert equal == "1", (sent, again)


@given(st.text(max_size=60))
def test_nothing_escapes_a_string(text: str) -> None:
    quoted = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    kinds = [token.kind for token in tokens(f"SELECT {quoted} AS x".encode())]
    assert kinds == [Kind.WORD, Kind.STRING, Kind.WORD, Kind.WORD]


@given(st.lists(st.sampled_from([*PIECES, ";", "; ", "SELECT 1"]), max_size=14))
def test_a_second_statement_is_never_taken(parts: list[str]) -> None:
    text = "".join(parts).encode()
    try:
        statement = parse(text, complete=True)
    except ServerError:
        return
    if statement.data < 0:
        assert all(token.value != ";" for token in statement.items if token.kind is Kind.SYMBOL)
        assert all(token.value == ";" for token in tokens(text) if token.start >= len(statement.text))
