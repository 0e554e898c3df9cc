"""What a text asks for: its kind, where an INSERT's data begin, its FORMAT clause; and what nobody may ask for.

The engine's own grants decide who may read and write which table. Here is refused what the engine lets through
(facts of chDB 26.9): several statements in one text, SET ROLE, INTO OUTFILE even for read-only users, code run by
Python() and executable(), files of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from .errors import ServerError
from .lexer import Kind, LexicalError, Token, tokens

#: First words that only read.
READS = frozenset({"SELECT", "WITH", "FROM", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN", "CHECK"})
#: Those of them whose result may be large: it is streamed.
STREAMS = frozenset({"SELECT", "WITH", "FROM"})
#: First words that change the session: the front keeps them itself.
SESSION = frozenset({"SET", "USE"})

#: Functions and table engines that run code or open files: refused to everybody. Compared without case.
DANGEROUS = frozenset(
    [
        "python",
        "executable",
        "executablepool",
        "file",
        "filecluster",
        "filelog",
        "filesystem",
        "sqlite",
        "arrowstream",
        "eval",
        "iceberglocal",
        "iceberglocalcluster",
        "deltalakelocal",
        "deltalakelocalcluster",
        "paimonlocal",
        "paimonlocalcluster",
        "hudilocal",
        "catboostevaluate",
    ]
)
#: Table functions that read nothing but their arguments and the tables that the engine's grants guard. A role that is
#: not admin may call no other table function.
SAFE_TABLE_FUNCTIONS = frozenset(
    [
        "numbers",
        "numbers_mt",
        "zeros",
        "zeros_mt",
        "null",
        "values",
        "format",
        "input",
        "generaterandom",
        "generateseries",
        "generate_series",
        "primes",
        "loop",
        "view",
        "viewifpermitted",
        "viewexplain",
        "dictionary",
        "merge",
    ]
)
_SYSTEM_REFUSED = frozenset({"SHUTDOWN", "KILL", "SUSPEND"})


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, cut out of a text.

    text: the statement without a trailing semicolon; for an INSERT with data only what stands before FORMAT or VALUES.
    kind: its first word, upper case; an opening parenthesis counts as SELECT.
    format: the format its FORMAT clause names.
    data: for an INSERT with data, where in the given text the data begin; else -1.
    format_at: start and end of the FORMAT clause in `text`; (-1, -1) without one.
    names: every name followed by an opening parenthesis, lower case.
    items: the tokens; for an INSERT with data up to where the data begin.
    """

    text: bytes
    kind: str
    format: str | None
    data: int
    format_at: tuple[int, int]
    names: frozenset[str]
    items: tuple[Token, ...]


class Incomplete(Exception):
    """The text ended before it was clear what it is."""


def parse(text: bytes, *, complete: bool) -> Statement:
    """Cut the statement out of `text`, which may be followed by an INSERT's data.

    complete: `text` is everything there is. Where it is not, Incomplete is raised when more is needed.
    Raises ServerError 62 for what is not one statement of ClickHouse's lexis.
    """
    items: list[Token] = []
    depth = 0
    insert_select = False
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
            if depth == 0 and items[0].is_word("INSERT") and _insert_head(items):
                last = items[-1]
                if last.is_word("SELECT", "WITH", "FROM", "WATCH"):
                    insert_select = True
                elif not insert_select and last.is_word("VALUES"):
                    return _insert(text, items, last.start, "Values", last.end, complete)
                elif items[-2].is_word("FORMAT") and last.is_name and (not insert_select or _is_input(items)):
                    if last.end == len(text) and not complete:
                        raise Incomplete
                    name = text[last.start : last.end].decode(errors="replace")
                    return _insert(text, items, items[-2].start, name, last.end, complete)
    except LexicalError as error:
        if error.cut and not complete:
            raise Incomplete from None
        raise ServerError(
            62, f"Syntax error: failed at position {error.position + 1}: {error}: {_excerpt(text, error.position)}"
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
    while at < len(items) and items[at].is_symbol("."):
        at += 2
    return len(items) > at


def _is_input(items: list[Token]) -> bool:
    return any(a.is_name and a.value.lower() == "input" and b.is_symbol("(") for a, b in pairwise(items))


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


def _excerpt(text: bytes, position: int) -> str:
    return text[position : position + 80].decode(errors="replace")


def refuse_dangerous(statement: Statement) -> None:
    """Raise where the statement is one that nobody may send, whatever the role."""
    items = statement.items
    for first, second in pairwise(items):
        if first.is_word("INTO", "FROM") and second.is_word("OUTFILE", "INFILE"):
            raise ServerError(344, f"{first.value} {second.value} is disabled: this server opens no files for its clients")
        if first.is_word("PARALLEL") and second.is_word("WITH"):
            raise ServerError(344, "PARALLEL WITH is disabled: one statement a request")
        if first.is_word("SET", "DEFAULT") and second.is_word("ROLE"):
            raise ServerError(344, "SET ROLE is disabled: a user's role is fixed by access.yaml")
        if first.is_word("EXECUTE") and second.is_word("AS") and first is items[0]:
            raise ServerError(344, "EXECUTE AS is disabled: a user's role is fixed by access.yaml")
        if first.is_word("ENGINE"):
            at = items.index(second) + second.is_symbol("=")
            if at < len(items) and items[at].value.lower() in DANGEROUS:
                raise ServerError(344, f"The table engine {items[at].value} is disabled on this server")
    for name in statement.names:
        if name in DANGEROUS:
            raise ServerError(344, f"{name}() is disabled: this server runs no code and opens no files for its clients")
    if statement.kind == "SYSTEM" and len(items) > 1 and items[1].value in _SYSTEM_REFUSED:
        raise ServerError(344, f"SYSTEM {items[1].value} is disabled: stop the process instead")


def settings_clauses(statement: Statement) -> list[str]:
    """The names of all settings in SETTINGS clauses, those of subqueries included, as written."""
    names: list[str] = []
    items = statement.items
    depth = 0
    inside: int | None = None
    for at, token in enumerate(items):
        if token.kind is Kind.SYMBOL:
            depth += (token.value in "([{") - (token.value in ")]}")
        if token.is_word("SETTINGS"):
            inside = depth
        elif inside is not None and depth < inside:
            inside = None
        elif inside == depth and token.is_name and at + 1 < len(items) and items[at + 1].is_symbol("="):
            bare = token.kind is Kind.WORD
            names.append(statement.text[token.start : token.end].decode() if bare else token.value)
    return names


def with_output(statement: Statement, path: str, output_format: str) -> bytes:
    """The statement's text, its result written to `path` (a pipe of the front's own making) in `output_format`."""
    clause = f" INTO OUTFILE '{path}' APPEND COMPRESSION 'none' FORMAT {output_format} ".encode()
    start, end = statement.format_at
    if start >= 0:
        return statement.text[:start] + clause + statement.text[end:]
    return statement.text + b"\n" + clause
