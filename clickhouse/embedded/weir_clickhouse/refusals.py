"""Statements that nobody may send, whatever the role.

The engine's own grants decide who may read and write which table, and its constraints which settings nobody may change
(`access.users_xml`). This module refuses what the engine would accept (facts of chDB 26.9): several statements in one
text, SET ROLE, INTO OUTFILE even for read-only users, code run by Python() and executable(), files of the machine,
settings of subqueries. A function's name counts wherever it may stand for the function: before a parenthesis, in APPLY,
as an argument, quoted, as a parameter's value, in the default of a column.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import pairwise

from .errors import ServerError
from .lexer import Kind, LexicalError, Token, tokens, unescape
from .statement import Statement, excerpt

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
#: Settings whose value is a path, an address, a language or a piece of a statement, or that open the way to such.
#: Nobody may change them: the engine has that constraint, too, but does not enforce it in subqueries. `extremes` ends the engine
#: (26.9.2) when a column holds states of aggregate functions.
FIXED_SETTINGS = frozenset(
    [
        "additional_result_filter",
        "additional_table_filters",
        "allow_experimental_eval_table_function",
        "allow_experimental_kusto_dialect",
        "allow_experimental_polyglot_dialect",
        "allow_experimental_prql_dialect",
        "allow_introspection_functions",
        "allow_python_table_function",
        "dialect",
        "enable_json_ast_dialect",
        "enable_trino_dialect",
        "extremes",
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
#: Whether the values of an INSERT may be expressions: 0 unless the front has checked the values itself.
VALUES_SETTINGS = frozenset(["input_format_values_interpret_expressions", "input_format_values_deduce_templates_of_expressions"])
#: Table functions whose first argument may be a text that names columns, which could have defaults.
_STRUCTURED = frozenset(["values", "null", "generaterandom", "input"])
_DEFAULTS = frozenset(["DEFAULT", "MATERIALIZED", "ALIAS", "EPHEMERAL", "TTL"])
#: First words of statements that nobody may send.
_LEADING = frozenset({"INTO", "FROM", "PARALLEL", "SET", "DEFAULT", "EXECUTE", "SHOW"})
#: The value of a parameter used as a name.
_PLAIN = re.compile(r"[\w .:-]+")
_SYSTEM_REFUSED = frozenset({"SHUTDOWN", "KILL", "SUSPEND"})
#: Words that may follow a column of the name `settings`, and so are not settings without a value.
_NO_SETTINGS = re.compile(
    "ALL|AND|ANY|ANTI|AS|ASC|ASOF|BETWEEN|BY|CROSS|DESC|ELSE|END|EXCEPT|FINAL|FORMAT|FROM|FULL|GLOBAL|GROUP|HAVING|ILIKE|IN"
    "|INNER|INTERSECT|INTO|IS|JOIN|LEFT|LIKE|LIMIT|NOT|OFFSET|ON|OR|ORDER|PREWHERE|QUALIFY|RIGHT|SAMPLE|SEMI|THEN|UNION"
    "|USING|WHEN|WHERE|WINDOW|WITH"
)


def refuse_dangerous(statement: Statement, params: Mapping[str, str]) -> None:
    """Raise if nobody may send this statement, whatever the role; params: the request's parameters."""
    items = statement.items
    closing = closing_brackets(items)
    for at, (first, second) in enumerate(pairwise(items)):
        if first.is_symbol("{"):
            _refuse_parameter(items, at, params)
        if not first.is_name:
            continue
        if second.is_symbol("("):
            _refuse_defaults(statement, closing, at)
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
        if first.is_word("SHOW") and second.is_word("GRANTS", "ACCESS"):
            # The engine's one user has the roles of all users, and their names.
            raise ServerError(344, f"SHOW {second.value} is disabled: access.yaml lists what each role may read")
    refuse_names(items)
    given = settings_clauses(statement)
    refuse_settings(given)
    if statement.kind == "INSERT" and "insert_deduplicate" in given:
        raise ServerError(
            36,
            "insert_deduplicate has no effect among the SETTINGS of an INSERT:"
            " write deduplicate_insert = 'disable', or insert_deduplicate=0 in the URL",
        )
    if statement.kind == "SYSTEM" and len(items) > 1 and items[1].value in _SYSTEM_REFUSED:
        raise ServerError(344, f"SYSTEM {items[1].value} is disabled: stop the process instead")


def refuse_names(items: Sequence[Token]) -> None:
    """Raise if a name of DANGEROUS stands where it may be the function, the table function or the engine."""
    for at, token in enumerate(items):
        if token.is_name and token.value.lower() in DANGEROUS and may_be_function(items, at):
            raise ServerError(344, f"{token.value} is disabled: this server runs no code and opens no files for its clients")


def may_be_function(items: Sequence[Token], at: int) -> bool:
    """Whether the name at `at` may be that of a function.

    It is one of a column, a table or an alias in an unambiguous place: after AS, FROM or JOIN, beside a point, in WITH.
    """
    token = items[at]
    before = items[at - 1] if at else None
    after = items[at + 1] if at + 1 < len(items) else None
    then = items[at + 2] if at + 2 < len(items) else None
    if after is not None and after.is_symbol("("):
        return True
    qualified = any(one is not None and one.is_symbol(".") for one in (before, after))
    named = before is not None and before.is_word("AS", "FROM", "JOIN")
    common = after is not None and after.is_word("AS") and then is not None and then.is_symbol("(")
    # Words of other things: a format, SYSTEM CLEAR FILESYSTEM CACHE.
    other = token.is_word("ARROWSTREAM") or (
        token.is_word("FILESYSTEM") and after is not None and after.is_word("CACHE", "CACHES")
    )
    return not (qualified or named or common or other)


def refuse_settings(names: Iterable[str]) -> None:
    """Raise if no request may change one of these settings."""
    for name in names:
        if name in FIXED_SETTINGS or name in VALUES_SETTINGS:
            raise ServerError(164, f"Cannot modify '{name}' setting: this server runs no code and opens no files for its clients")


def refuse_values(data: bytes) -> None:
    """Raise if the values of an INSERT could run code or open files, or continue after a semicolon; otherwise they may
    hold expressions."""
    try:
        items = list(tokens(data))
        for first, second in pairwise(items):
            if first.is_symbol(";") and not second.is_symbol(";"):
                raise after_semicolon()
        refuse_names(items)
    except LexicalError as error:
        raise ServerError(62, f"Cannot parse the values of the INSERT: {error}: {excerpt(data, error.position)}") from None


def after_semicolon() -> ServerError:
    """The engine would ignore these data, and acknowledge them."""
    return ServerError(33, "Cannot read data after semicolon: one INSERT a request, whose values end there")


def _refuse_defaults(statement: Statement, closing: Mapping[int, int], at: int) -> None:
    """Raise if the table function at `at` takes columns with defaults, which are expressions inside a string."""
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
        # A name may stand for a string, as a parameter does. A string with an alias or a sign beside it is still a
        # string.
        if (only is not None and only.is_name) or (only is None and not _is_value(items, closing, at + 2)):
            raise ServerError(344, "The columns and values of values() must be literals, tuples or calls")
    elif first is not None and not first.is_symbol(")") and not (name == "generaterandom" and first.kind is Kind.NUMBER):
        raise ServerError(344, f"The columns of {name}() must be a string literal")


def _only(items: Sequence[Token], begin: int) -> Token | None:
    """The single token of the argument that begins at `begin`, ignoring parentheses; None if there are more."""
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


def _is_value(items: Sequence[Token], closing: Mapping[int, int], begin: int) -> bool:
    """Whether the argument that begins at `begin` names no columns: a text, or a name that may stand for a text, is in it only
    within a tuple, a list or a call. Parentheses around a single item are ignored."""
    at, depth = begin, 0
    while at < len(items) and (depth or not items[at].is_symbol(",")):
        token = items[at]
        if token.is_symbol(")"):
            if not depth:
                return True
            depth -= 1
            at += 1
            continue
        if token.is_symbol("("):
            if not _has_comma(items, closing, at):
                depth += 1
                at += 1
                continue
            at = closing[at]
        elif token.is_symbol("["):
            at = closing[at]
        elif token.is_name and at + 1 < len(items) and items[at + 1].is_symbol("("):
            at = closing[at + 1]
        elif token.kind is not Kind.NUMBER and not _is_any(token, "+-*/%"):
            return False
        at += 1
    return at < len(items)


def _has_comma(items: Sequence[Token], closing: Mapping[int, int], opening: int) -> bool:
    """Whether the brackets contain a list of several items."""
    at = opening + 1
    while at < closing[opening] and at < len(items):
        if items[at].is_symbol(","):
            return True
        at = closing.get(at, at) + 1
    return False


def _is_any(token: Token, characters: str) -> bool:
    return token.kind is Kind.SYMBOL and token.value in characters


def closing_brackets(items: Sequence[Token]) -> dict[int, int]:
    """Index of the closing bracket for the index of each opening one; the end of the text if there is none."""
    opened: list[int] = []
    places: dict[int, int] = {}
    for at, token in enumerate(items):
        if _is_any(token, "([{"):
            opened.append(at)
        elif _is_any(token, ")]}") and opened:
            places[opened.pop()] = at
    return places | dict.fromkeys(opened, len(items))


def argument_text(
    statement: Statement, closing: Mapping[int, int], opening: int, place: int, params: Mapping[str, str]
) -> str | None:
    """The text that stands at a place among the arguments in these brackets, as a literal or a parameter; None for an expression.
    Empty if there is no such argument, as in CAST with AS. place: -1 for the last."""
    items = statement.items
    end = closing[opening]
    commas = [opening]
    at = opening + 1
    while at < end:
        if items[at].is_symbol(","):
            commas.append(at)
        at = closing.get(at, at) + 1
    if place >= len(commas):
        return ""
    first = commas[place] + 1
    last = (commas[place + 1] if -1 < place < len(commas) - 1 else end) - 1
    while first < last and items[first].is_symbol("(") and closing[first] == last:
        first, last = first + 1, last - 1
    if first > last:
        return ""
    if first == last and items[first].kind is Kind.STRING:
        return _literal(statement.text[items[first].start : items[first].end])
    if items[first].is_symbol("{") and closing[first] == last and last - first >= 4:
        return next((value for key, value in params.items() if key.upper() == items[first + 1].value.upper()), "")
    return None


def _literal(raw: bytes) -> str | None:
    """The content of a string literal in quotes or of a heredoc; None for other kinds."""
    if raw[:1] == b"'":
        return unescape(raw[1:-1], "'")
    if raw[:1] == b"$":
        tag = raw.index(b"$", 1) + 1
        return raw[tag:-tag].decode(errors="surrogateescape")
    return None


def parameter_values(items: Sequence[Token], at: int, params: Mapping[str, str]) -> list[str]:
    """The values of the parameter {name:Identifier} at `at`, which may name a function; none for other kinds. Raises an
    error if it is unknown, or no plain name."""
    if at + 4 >= len(items) or not (items[at + 2].is_symbol(":") and items[at + 3].is_word("IDENTIFIER")):
        return []
    name = items[at + 1]
    values = [value for key, value in params.items() if key.upper() == name.value.upper()]
    if not values or not all(_PLAIN.fullmatch(value) for value in values):
        raise _no_name(name)
    return values


def _refuse_parameter(items: Sequence[Token], at: int, params: Mapping[str, str]) -> None:
    """Raise if the parameter {name:Identifier} at `at` could stand for a name of DANGEROUS."""
    if any(value.lower() in DANGEROUS for value in parameter_values(items, at, params)):
        raise _no_name(items[at + 1])


def _no_name(parameter: Token) -> ServerError:
    return ServerError(344, f"The parameter {parameter.value} must be the name of a table or a column")


def settings_clauses(statement: Statement, watched: Container[str] = FIXED_SETTINGS | VALUES_SETTINGS) -> list[str]:
    """The names of all settings in SETTINGS clauses and in SET, those of subqueries included, as written.

    Besides, every setting of `watched`, or query parameter, that is assigned a value anywhere after the first SETTINGS: this finds such a
    setting even where the engine parses a list differently.
    """
    names: list[str] = []
    items = statement.items
    begins = [at + 1 for at, token in enumerate(items) if token.is_word("SETTINGS")]
    if statement.kind == "SET":
        begins.append(1)
    if not begins:
        return names
    closing = closing_brackets(items)
    seen: set[int] = set()
    for begin in begins:
        at = begin
        while at < len(items) and items[at].is_name and at not in seen:
            seen.add(at)
            token, after = items[at], at + 1
            parts = [token]
            while after + 1 < len(items) and items[after].is_symbol(".") and items[after + 1].is_name:
                parts.append(items[after + 1])
                after += 2
            valued = after < len(items) and items[after].is_symbol("=")
            ends = after >= len(items) or not items[after].is_symbol(",")
            if not valued and ends and len(parts) == 1 and _NO_SETTINGS.fullmatch(token.value):
                break
            names += [_written(statement, part) for part in parts]
            at = _after_value(items, closing, after + 1) if valued else after
            if at >= len(items) or not items[at].is_symbol(","):
                break
            at += 1
    for name, equals in pairwise(items[min(begins) :]):
        if name.is_name and equals.is_symbol("="):
            written = _written(statement, name)
            if written in watched or written.startswith("param_"):
                names.append(written)
    return names


def assigned(statement: Statement) -> dict[str, str]:
    """The settings that SET, or the SETTINGS of the statement itself rather than of a subquery, gives as literals."""
    out: dict[str, str] = {}
    items = statement.items
    depth = 0
    begins = [1] if statement.kind == "SET" else []
    for at, token in enumerate(items):
        depth += _is_any(token, "([{") - _is_any(token, ")]}")
        if not depth and token.is_word("SETTINGS"):
            begins.append(at + 1)
    for begin in begins:
        at = begin
        while at + 2 < len(items) and items[at].is_name and items[at + 1].is_symbol("="):
            name, value = items[at], items[at + 2]
            negative = value.is_symbol("-") and at + 3 < len(items)
            at += 3 + negative
            value = items[at - 1]
            raw = statement.text[value.start : value.end]
            if value.kind is Kind.NUMBER:
                out[_written(statement, name)] = "-" * negative + raw.decode()
            elif value.kind is Kind.STRING and (text := _literal(raw)) is not None:
                out[_written(statement, name)] = text
            elif value.is_word("TRUE", "FALSE"):
                out[_written(statement, name)] = str(int(value.is_word("TRUE")))
            if at >= len(items) or not items[at].is_symbol(","):
                break
            at += 1
    return out


def _written(statement: Statement, token: Token) -> str:
    """A name as in the statement, without quotes."""
    bare = token.kind is Kind.WORD
    return statement.text[token.start : token.end].decode() if bare else token.value


def _after_value(items: Sequence[Token], closing: Mapping[int, int], at: int) -> int:
    """The place after the value of a setting that begins at `at`: a literal, a name, a call, or a bracketed expression."""
    while at < len(items) and items[at].kind is Kind.SYMBOL and items[at].value in "+-":
        at += 1
    if at < len(items) and not _is_any(items[at], ")]}"):
        at = closing.get(at, at) + 1
        while at in closing and _is_any(items[at], "(["):
            at = closing[at] + 1
    return at
