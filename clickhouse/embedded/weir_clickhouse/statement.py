"""What a text asks for: its kind, where an INSERT's data begin, its FORMAT clause; and what nobody may ask for.

The engine's own grants decide who may read and write which table, and its constraints which settings nobody may change
(`access.users_xml`). Here is refused what the engine lets through (facts of chDB 26.9): several statements in one text,
SET ROLE, INTO OUTFILE even for read-only users, code run by Python() and executable(), files of the machine, settings of
subqueries. A function's name counts wherever it may stand for the function: before a parenthesis, in APPLY, as an
argument, quoted, as a parameter's value, in the default of a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .errors import ServerError
from .lexer import Kind, LexicalError, Token, tokens, unescape

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
        "catboostevaluate",
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
        "yamlregexptree",
    ]
)
#: Settings whose value is a path, an address, a language or a piece of a statement, or that open the way to such. Nobody
#: may change them: the engine is told so too, but does not hold to it in subqueries.
FIXED_SETTINGS = frozenset(
    [
        "additional_result_filter",
        "additional_table_filters",
        "allow_experimental_eval_table_function",
        "allow_experimental_kusto_dialect",
        "allow_experimental_polyglot_dialect",
        "allow_experimental_prql_dialect",
        "allow_python_table_function",
        "dialect",
        "enable_json_ast_dialect",
        "enable_trino_dialect",
        "filter",
        "format_avro_schema_registry_url",
        "format_schema",
        "format_schema_source",
        "format_template_resultset",
        "format_template_row",
        "implicit_table_at_top_level",
        "input_format_record_errors_file_path",
        "order",
        "output_format_schema",
        "parallel_replicas_custom_key",
        "polyglot_dialect",
        "rename_files_after_processing",
        "s3_base",
        "schema_inference_hints",
        "select",
        "sort",
        "url_base",
    ]
)
#: Whether the values of an INSERT may be expressions: 0 but where the front has looked through the values itself.
VALUES_SETTINGS = frozenset(["input_format_values_interpret_expressions", "input_format_values_deduce_templates_of_expressions"])
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
#: Of these, the ones whose first argument may be a text that names columns, which could have defaults.
_STRUCTURED = frozenset(["values", "null", "generaterandom", "input"])
_DEFAULTS = frozenset(["DEFAULT", "MATERIALIZED", "ALIAS", "EPHEMERAL", "TTL"])
#: Words that begin what nobody may ask for.
_LEADING = frozenset({"INTO", "FROM", "PARALLEL", "SET", "DEFAULT", "EXECUTE"})
#: The value of a parameter that stands for a name.
_PLAIN = re.compile(r"[\w .:-]+")
_SYSTEM_REFUSED = frozenset({"SHUTDOWN", "KILL", "SUSPEND"})
#: Words that may follow a column of the name `settings`, and so are no settings without a value.
_NO_SETTINGS = re.compile(
    "ALL|AND|ANY|ANTI|AS|ASC|ASOF|BETWEEN|BY|CROSS|DESC|ELSE|END|EXCEPT|FINAL|FORMAT|FROM|FULL|GLOBAL|GROUP|HAVING|ILIKE|IN"
    "|INNER|INTERSECT|INTO|IS|JOIN|LEFT|LIKE|LIMIT|NOT|OFFSET|ON|OR|ORDER|PREWHERE|QUALIFY|RIGHT|SAMPLE|SEMI|THEN|UNION"
    "|USING|WHEN|WHERE|WINDOW|WITH"
)


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
                elif not insert_select and last.is_word("VALUES"):
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


def _excerpt(text: bytes, position: int) -> str:
    return text[position : position + 80].decode(errors="replace")


def refuse_dangerous(statement: Statement, params: Mapping[str, str]) -> None:
    """Raise where the statement is one that nobody may send, whatever the role; params: the request's parameters."""
    items = statement.items
    for at, (first, second) in enumerate(pairwise(items)):
        if first.is_symbol("{"):
            _refuse_parameter(items, at, params)
        if not first.is_name:
            continue
        if second.is_symbol("("):
            _refuse_defaults(statement, at)
        if first.value not in _LEADING:
            continue
        if first.is_word("INTO", "FROM") and second.is_word("OUTFILE", "INFILE"):
            raise ServerError(344, f"{first.value} {second.value} is disabled: this server opens no files for its clients")
        if first.is_word("PARALLEL") and second.is_word("WITH"):
            raise ServerError(344, "PARALLEL WITH is disabled: one statement a request")
        if first.is_word("SET", "DEFAULT") and second.is_word("ROLE"):
            raise ServerError(344, "SET ROLE is disabled: a user's role is fixed by access.yaml")
        if first.is_word("EXECUTE") and second.is_word("AS") and not at:
            raise ServerError(344, "EXECUTE AS is disabled: a user's role is fixed by access.yaml")
    refuse_names(items)
    refuse_settings(settings_clauses(statement))
    if statement.kind == "SYSTEM" and len(items) > 1 and items[1].value in _SYSTEM_REFUSED:
        raise ServerError(344, f"SYSTEM {items[1].value} is disabled: stop the process instead")


def refuse_names(items: Sequence[Token]) -> None:
    """Raise where a name of DANGEROUS stands where it may be the function, the table function or the engine.

    It may still name a column, a table or an alias that says so: after AS, FROM or JOIN, beside a point, in WITH.
    """
    for at, token in enumerate(items):
        if not token.is_name or token.value.lower() not in DANGEROUS:
            continue
        before = items[at - 1] if at else None
        after = items[at + 1] if at + 1 < len(items) else None
        then = items[at + 2] if at + 2 < len(items) else None
        is_called = after is not None and after.is_symbol("(")
        qualified = any(one is not None and one.is_symbol(".") for one in (before, after))
        named = before is not None and before.is_word("AS", "FROM", "JOIN")
        common = after is not None and after.is_word("AS") and then is not None and then.is_symbol("(")
        # Words of other things: a format, SYSTEM CLEAR FILESYSTEM CACHE.
        other = token.is_word("ARROWSTREAM") or (
            token.is_word("FILESYSTEM") and after is not None and after.is_word("CACHE", "CACHES")
        )
        if is_called or not (qualified or named or common or other):
            raise ServerError(344, f"{token.value} is disabled: this server runs no code and opens no files for its clients")


def refuse_settings(names: Iterable[str]) -> None:
    """Raise where one of these settings is one that no request may change."""
    for name in names:
        if name in FIXED_SETTINGS or name in VALUES_SETTINGS:
            raise ServerError(164, f"Cannot modify '{name}' setting: this server runs no code and opens no files for its clients")


def refuse_values(data: bytes) -> None:
    """Raise where the values of an INSERT hold what could run code or open files; then they may hold expressions."""
    try:
        refuse_names(list(tokens(data)))
    except LexicalError as error:
        raise ServerError(62, f"Cannot parse the values of the INSERT: {error}: {_excerpt(data, error.position)}") from None


def _refuse_defaults(statement: Statement, at: int) -> None:
    """Raise where the table function at `at` takes columns with defaults: these are expressions, written in a text."""
    items = statement.items
    name = items[at].value.lower()
    if name == "format":
        # The function format() has a pattern. The table function of that name reads any text in any format.
        pattern = _only(items, at + 2)
        if pattern is None or "{" not in (_literal(statement.text[pattern.start : pattern.end]) or ""):
            raise ServerError(344, "The table function format() is disabled on this server")
        return
    if name not in _STRUCTURED:
        return
    begin = at + 2
    while begin < len(items) and items[begin].is_symbol("("):
        begin += 1
    first = items[begin] if begin < len(items) else None
    only = _only(items, at + 2)
    if only is not None and only.kind is Kind.STRING:
        text = _literal(statement.text[only.start : only.end])
        if text is None:
            raise ServerError(344, f"The columns of {name}() must be a string in quotes")
        try:
            columns = list(tokens(text.encode(errors="surrogateescape")))
        except LexicalError:
            # No columns, then: a value.
            columns = []
        if any(one.is_word(*_DEFAULTS) for one in columns[1:]):
            raise ServerError(344, f"The columns of {name}() must be names and types alone, without defaults")
    elif name == "values":
        # A name may stand for a text, as a parameter does; what is computed is a value.
        if (first is not None and first.is_symbol("{")) or (only is not None and only.is_name):
            raise ServerError(344, "The columns and values of values() must be literals")
    elif first is not None and not first.is_symbol(")") and not (name == "generaterandom" and first.kind is Kind.NUMBER):
        raise ServerError(344, f"The columns of {name}() must be a string literal")


def _only(items: Sequence[Token], begin: int) -> Token | None:
    """The token that is all of the argument that begins at `begin`, parentheses aside; None where there are more."""
    depth = 0
    while begin < len(items) and items[begin].is_symbol("("):
        depth += 1
        begin += 1
    end = begin + 1
    while depth and end < len(items) and items[end].is_symbol(")"):
        depth -= 1
        end += 1
    if depth or end >= len(items) or not (items[end].is_symbol(",") or items[end].is_symbol(")")):
        return None
    return items[begin]


def _literal(raw: bytes) -> str | None:
    """The text of a string literal in quotes or of a heredoc; None for other kinds."""
    if raw[:1] == b"'":
        return unescape(raw[1:-1], "'")
    if raw[:1] == b"$":
        tag = raw.index(b"$", 1) + 1
        return raw[tag:-tag].decode(errors="surrogateescape")
    return None


def _refuse_parameter(items: Sequence[Token], at: int, params: Mapping[str, str]) -> None:
    """Raise where the parameter {name:Identifier} at `at` could stand for a name of DANGEROUS."""
    if at + 4 >= len(items) or not (items[at + 2].is_symbol(":") and items[at + 3].is_word("IDENTIFIER")):
        return
    name = items[at + 1]
    values = [value for key, value in params.items() if key.upper() == name.value.upper()]
    if not values or any(not _PLAIN.fullmatch(value) or value.lower() in DANGEROUS for value in values):
        raise ServerError(344, f"The parameter {name.value} must be the name of a table or a column")


def settings_clauses(statement: Statement) -> list[str]:
    """The names of all settings in SETTINGS clauses and in SET, those of subqueries included, as written."""
    names: list[str] = []
    items = statement.items
    begins = [at + 1 for at, token in enumerate(items) if token.is_word("SETTINGS")]
    if statement.kind == "SET":
        begins.append(1)
    for begin in begins:
        at = begin
        while at < len(items) and items[at].is_name:
            token = items[at]
            valued = at + 1 < len(items) and items[at + 1].is_symbol("=")
            if not valued and _NO_SETTINGS.fullmatch(token.value):
                break
            bare = token.kind is Kind.WORD
            names.append(statement.text[token.start : token.end].decode() if bare else token.value)
            at = _after_value(items, at + 2) if valued else at + 1
            if at >= len(items) or not items[at].is_symbol(","):
                break
            at += 1
    return names


def _after_value(items: Sequence[Token], at: int) -> int:
    """The place after the value of a setting that begins at `at`: a literal, a name, a call, or what is in brackets."""
    while at < len(items) and items[at].kind is Kind.SYMBOL and items[at].value in "+-":
        at += 1
    depth = 0
    while at < len(items):
        token = items[at]
        if token.kind is Kind.SYMBOL:
            depth += (token.value in "([{") - (token.value in ")]}")
        if depth < 0:
            return at
        at += 1
        if depth == 0 and not (at < len(items) and items[at].kind is Kind.SYMBOL and items[at].value in "(["):
            return at
    return at


def with_output(statement: Statement, path: str, output_format: str) -> bytes:
    """The statement's text, its result written to `path` (a pipe of the front's own making) in `output_format`."""
    clause = f" INTO OUTFILE '{path}' APPEND COMPRESSION 'none' FORMAT {output_format} ".encode()
    start, end = statement.format_at
    if start >= 0:
        return statement.text[:start] + clause + statement.text[end:]
    return statement.text + b"\n" + clause
