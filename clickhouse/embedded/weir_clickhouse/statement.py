"""Parses a statement: its kind, where an INSERT's data begin, its FORMAT clause. `refusals` decides which statements no
user may send.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from .errors import ServerError
from .lexer import Kind, LexicalError, Token, tokens

#: First words that only read.
READS = frozenset({"SELECT", "WITH", "FROM", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN", "CHECK"})
#: Those with a possibly large result, which is streamed.
STREAMS = frozenset({"SELECT", "WITH", "FROM"})
#: First words that change the session: the front keeps them itself.
SESSION = frozenset({"SET", "USE"})


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, cut out of a text.

    text: the statement without a trailing semicolon; for an INSERT with data, only the part before FORMAT or VALUES.
    kind: its first word, upper case; an opening parenthesis counts as SELECT. format: the format its FORMAT clause
    names. data: for an INSERT with data, the position in the given text where the data begin; else -1. format_at: start
    and end of the FORMAT clause in `text`; (-1, -1) without one. names: every name followed by an opening parenthesis,
    lower case. items: the tokens; for an INSERT with data up to where the data begin.
    """

    text: bytes
    kind: str
    format: str | None
    data: int
    format_at: tuple[int, int]
    names: frozenset[str]
    items: tuple[Token, ...]


class Incomplete(Exception):
    """The text ended before its kind was clear."""


def parse(text: bytes, *, complete: bool) -> Statement:
    """Cut the statement out of `text`, which may be followed by an INSERT's data.

    complete: `text` is the whole text; otherwise this raises Incomplete when it needs more. Raises ServerError 62 for
    anything but one statement of ClickHouse's lexis.
    """
    items: list[Token] = []
    depth = 0
    insert_select = reads_input = False
    end = len(text)
    try:
        stream = tokens(text)
        for token in stream:
            if token.kind is Kind.SYMBOL:
                if token.value == ";":
                    # Nothing may follow a semicolon.
                    for extra in stream:
                        if not extra.is_symbol(";"):
                            raise _several(extra.start)
                    end = token.start
                    break
                depth += (token.value in "([{") - (token.value in ")]}")
            items.append(token)
            if token.is_symbol("(") and len(items) > 1 and items[-2].is_name and items[-2].value.lower() == "input":
                reads_input = True
            if depth == 0 and items[0].is_word("INSERT") and _insert_head(items):
                last = items[-1]
                if last.is_word("SELECT", "WITH", "FROM", "WATCH"):
                    insert_select = True
                elif not insert_select and last.is_word("VALUES") and not items[-2].is_word("FORMAT"):
                    return _insert(text, items, last.start, "Values", last.end, complete)
                elif items[-2].is_word("FORMAT") and last.is_name and (not insert_select or reads_input):
                    if last.end == len(text) and not complete:
                        raise Incomplete
                    name = text[last.start : last.end].decode(errors="replace")
                    return _insert(text, items, items[-2].start, name, last.end, complete)
    except LexicalError as error:
        if error.cut and not complete:
            raise Incomplete from None
        raise ServerError(
            62, f"Syntax error: failed at position {error.position + 1}: {error}: {excerpt(text, error.position)}"
        ) from None
    if not complete:
        raise Incomplete
    if not items:
        raise ServerError(62, "Empty query")
    kind = "SELECT" if items[0].is_symbol("(") else items[0].value if items[0].kind is Kind.WORD else ""
    if kind == "INSERT" and not insert_select:
        # INSERT without FORMAT: its format is named by a header, its data follow elsewhere.
        return Statement(text[: items[-1].end], kind, None, len(text), (-1, -1), _calls(items), tuple(items))
    clause, place = _format_clause(text, items)
    return Statement(text[: min(end, items[-1].end)], kind, clause, -1, place, _calls(items), tuple(items))


def _insert(text: bytes, items: list[Token], head_end: int, name: str, data: int, complete: bool) -> Statement:
    """The INSERT whose data follow; ClickHouse skips blanks and one line end before them."""
    if name != "Values":
        while text[data : data + 1] in (b" ", b"\t", b"\f", b"\v"):
            data += 1
        if data == len(text) and not complete:
            raise Incomplete
        if text[data : data + 1] == b";":
            # Only allowed when nothing but white space follows it.
            if text[data:].strip(b"; \t\r\n\f\v"):
                raise ServerError(62, "You have excessive ';' symbol before data for INSERT")
            data = len(text)
        elif text[data : data + 2] == b"\r\n":
            data += 2
        elif text[data : data + 1] in (b"\n", b"\r"):
            if text[data : data + 1] == b"\r" and data + 1 == len(text) and not complete:
                raise Incomplete
            data += 1
    return Statement(text[:head_end].rstrip(), "INSERT", name, data, (-1, -1), _calls(items), tuple(items))


def _insert_head(items: list[Token]) -> bool:
    """Whether the table of an INSERT has been named, so that the next words are clauses."""
    at = 1
    for word in ("INTO", "TABLE"):
        if at < len(items) - 1 and items[at].is_word(word):
            at += 1
    if at >= len(items):
        return False
    if items[at].is_word("FUNCTION"):
        return len(items) > at + 2
    # A table's name may itself be a keyword: name [. name].
    at += 1
    for _ in range(3):
        at += 2 * (at < len(items) and items[at].is_symbol("."))
    return len(items) > at


def _format_clause(text: bytes, items: list[Token]) -> tuple[str | None, tuple[int, int]]:
    """The last FORMAT clause outside parentheses: at the end, or followed by SETTINGS."""
    depth = 0
    for at in range(len(items) - 1, 0, -1):
        token = items[at]
        if token.kind is Kind.SYMBOL:
            depth += (token.value in ")]}") - (token.value in "([{")
        if depth == 0 and items[at - 1].is_word("FORMAT") and token.is_name:
            if at + 1 == len(items) or items[at + 1].is_word("SETTINGS"):
                name = text[token.start : token.end].decode(errors="replace").strip('`"')
                return name, (items[at - 1].start, token.end)
            return None, (-1, -1)
    return None, (-1, -1)


def _calls(items: list[Token]) -> frozenset[str]:
    return frozenset(a.value.lower() for a, b in pairwise(items) if a.is_name and b.is_symbol("("))


def _several(position: int) -> ServerError:
    return ServerError(62, f"Syntax error (Multi-statements are not allowed): failed at position {position + 1}")


def excerpt(text: bytes, position: int) -> str:
    return text[position : position + 80].decode(errors="replace")


def with_output(statement: Statement, path: str, output_format: str) -> bytes:
    """The statement's text, changed to write its result to `path` (a pipe that the front end creates) in
    `output_format`."""
    clause = f" INTO OUTFILE '{path}' APPEND COMPRESSION 'none' FORMAT {output_format} ".encode()
    start, end = statement.format_at
    if start >= 0:
        return statement.text[:start] + clause + statement.text[end:]
    return statement.text + b"\n" + clause


def with_input(statement: Statement, path: str, data_format: str) -> bytes:
    """The text of an INSERT with data, which the engine is to read from `path` (a pipe of the front's own making)."""
    at = _settings(statement)
    clause = f" FROM INFILE '{path}' COMPRESSION 'none' ".encode()
    return statement.text[:at] + clause + statement.text[at:] + f" FORMAT {data_format}".encode()


def _settings(insert: Statement) -> int:
    """Where the SETTINGS clause of an INSERT begins in its text; without one, the end."""
    depth = 0
    for at, token in enumerate(insert.items):
        if token.kind is Kind.SYMBOL:
            depth += (token.value in "([{") - (token.value in ")]}")
        if depth == 0 and token.is_word("SETTINGS") and _insert_head(list(insert.items[: at + 1])):
            return token.start
    return len(insert.text)


def hides_comment(insert: Statement) -> bool:
    """Whether the INSERT sets its own log_comment, by which the front finds it to stop it."""
    begin = _settings(insert)
    return any(token.start >= begin and token.is_name and token.value.lower() == "log_comment" for token in insert.items)
