"""allowed.yaml: what every role but the administrator's may use; everything else that the engine has is refused.

The engine tells what it has (`Vocabulary`). A name that it does not have is no hole but a typing error, and the engine
itself answers it, with its place. A function's name counts wherever it may stand for the function; a setting's in every
SETTINGS clause, since the engine does not enforce constraints in subqueries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .errors import ServerError
from .lexer import Kind, LexicalError, Token, tokens
from .refusals import argument_text, closing_brackets, may_be_function, parameter_values, settings_clauses
from .statement import Statement

#: The file of the checkout.
FILE = Path(__file__).resolve().parents[2] / "allowed.yaml"
_GROUPS = ("readers", "writers")
#: Functions that take another function's name as a text, and the place of that argument.
_TAKES_FUNCTION = {"arrayreduce": 0, "arrayreduceinranges": 0, "initializeaggregation": 0}
#: Those that take a type as a text, and where; a type can hold the state of a function, and names it.
_TAKES_TYPE = {
    "_cast": 1,
    "accuratecast": 1,
    "accuratecastordefault": 1,
    "accuratecastornull": 1,
    "cast": 1,
    "defaultvalueoftypename": 0,
    "dynamicelement": 1,
    "jsonextract": -1,
    "jsonextractcaseinsensitive": -1,
    "jsonextractkeysandvalues": -1,
    "jsonextractkeysandvaluescaseinsensitive": -1,
    "reinterpret": 1,
    "variantelement": 1,
}
#: Table functions whose first argument may be a text with names and types of columns.
_TAKES_COLUMNS = frozenset(["generaterandom", "input", "null", "values"])
_STATES = frozenset(["aggregatefunction", "simpleaggregatefunction"])
_KEYS = {"statements", "settings", "table_functions", "functions", "formats"}


class AllowedError(ValueError):
    """allowed.yaml is wrong; the message names the place."""


@dataclass(frozen=True)
class Vocabulary:
    """What the engine has. All names are lower case, except those of settings.

    functions: each name with the one that it is another name for, or itself. aggregates: those among them that take
    combinators (sumIf); combinators: their names.
    """

    functions: Mapping[str, str] = field(default_factory=dict)
    aggregates: frozenset[str] = frozenset()
    combinators: tuple[str, ...] = ()
    table_functions: frozenset[str] = frozenset()
    settings: frozenset[str] = frozenset()

    @classmethod
    def of(cls, rows: Callable[[str], list[list[str]]]) -> Vocabulary:
        """That of an engine; rows: the rows of a query."""
        functions = rows("SELECT lower(name), lower(alias_to), is_aggregate FROM system.functions WHERE origin = 'System'")
        return cls(
            {name: stands_for or name for name, stands_for, _ in functions},
            frozenset(name for name, _, is_aggregate in functions if is_aggregate == "1"),
            tuple(name for (name,) in rows("SELECT lower(name) FROM system.aggregate_function_combinators")),
            frozenset(name for (name,) in rows("SELECT lower(name) FROM system.table_functions")),
            frozenset(name for (name,) in rows("SELECT name FROM system.settings")),
        )

    def function(self, name: str) -> str | None:
        """The function that a name stands for, without combinators; None if the engine has none of this name."""
        name = name.lower()
        return self.functions.get(name) or self._aggregate(name)

    def _aggregate(self, name: str) -> str | None:
        for combinator in self.combinators:
            rest = name.removesuffix(combinator)
            if rest != name:
                found = self.functions[rest] if rest in self.aggregates else self._aggregate(rest)
                if found is not None:
                    return found
        return None


@dataclass(frozen=True)
class Allowed:
    """All of allowed.yaml. statements: first words, upper case. statements and settings are of `readers` and, with
    those of readers, of `writers`. functions, table_functions, formats (of external data): lower case."""

    statements: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=lambda: dict.fromkeys(_GROUPS, ()))
    settings: Mapping[str, frozenset[str]] = field(default_factory=lambda: dict.fromkeys(_GROUPS, frozenset()))
    functions: frozenset[str] = frozenset()
    table_functions: frozenset[str] = frozenset()
    formats: frozenset[str] = frozenset()

    def has_statement(self, group: str, statement: Statement) -> bool:
        """Whether users of a group may send statements that begin as this one."""
        words = tuple(token.value if token.kind is Kind.WORD else "" for token in statement.items[:4])
        if statement.items and statement.items[0].is_symbol("("):
            words = (statement.kind,)
        return any(words[: len(first)] == first for first in self.statements[group])

    def check_functions(self, role: str, statement: Statement, params: Mapping[str, str], known: Vocabulary) -> None:
        """Raise error 497 if the statement names a function of the engine that is not listed; params: the request's."""
        items = statement.items
        closing = closing_brackets(items)
        for at, token in enumerate(items):
            if token.is_name and self._is_closed(items, at, known):
                raise ServerError(497, f"Not enough privileges: the role {role} may not use {token.value}()")
            if token.is_name and at + 1 < len(items) and items[at + 1].is_symbol("("):
                self._check_texts(role, statement, closing, at, params, known)
            if token.is_symbol("{"):
                for value in parameter_values(items, at, params):
                    if self._closes(value, known):
                        raise ServerError(497, f"Not enough privileges: the role {role} may not use {value}()")

    def _check_texts(
        self,
        role: str,
        statement: Statement,
        closing: Mapping[int, int],
        at: int,
        params: Mapping[str, str],
        known: Vocabulary,
    ) -> None:
        """Raise error 497 if the call at `at` names a function that is not listed in a text, or if the text that is to name one is
        an expression."""
        called = statement.items[at].value
        name = known.function(called) or called.lower()
        takes_function = name in _TAKES_FUNCTION
        if not takes_function and name not in _TAKES_TYPE and name not in _TAKES_COLUMNS:
            return
        place = _TAKES_FUNCTION[name] if takes_function else _TAKES_TYPE.get(name, 0)
        text = argument_text(statement, closing, at + 1, place, params)
        if text is None:
            if name in _TAKES_COLUMNS:
                return  # `refusals` sees to it that columns are literals
            raise ServerError(497, f"Not enough privileges: the name in {called}() must be a text in quotes, no expression")
        try:
            names = [one.value.lower() for one in tokens(text.encode(errors="surrogateescape")) if one.is_name]
        except LexicalError:
            names = []
        if not takes_function and not _STATES & set(names):
            return
        for one in names:
            if self._closes(one, known):
                raise ServerError(497, f"Not enough privileges: the role {role} may not use {one}()")

    def _is_closed(self, items: Sequence[Token], at: int, known: Vocabulary) -> bool:
        name = items[at].value.lower()
        called = at + 1 < len(items) and items[at + 1].is_symbol("(")
        if called and name in known.table_functions:
            return name not in self.table_functions
        return self._closes(name, known) and may_be_function(items, at)

    def _closes(self, name: str, known: Vocabulary) -> bool:
        function = known.function(name)
        return function is not None and function not in self.functions

    def check_settings(self, group: str, statement: Statement, limits: Mapping[str, Any], known: Vocabulary) -> None:
        """Raise error 164 if the statement changes a setting that is not listed, or one of the limits."""
        for name in settings_clauses(statement, known.settings):
            if name in limits or self.closes_setting(group, name, known):
                raise fixed(name)

    def closes_setting(self, group: str, name: str, known: Vocabulary) -> bool:
        """Whether the engine has this setting, and the group may not change it. One could set a query's parameters, too."""
        return name not in self.settings[group] and (name in known.settings or name.startswith("param_"))


def fixed(name: str) -> ServerError:
    """The error for a setting that a user may not change."""
    return ServerError(164, f"Cannot modify '{name}' setting: it is not among those that allowed.yaml lists for this role")


def load(path: Path = FILE) -> Allowed:
    """Read allowed.yaml. Raises AllowedError, OSError."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise AllowedError(f"{path}: not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(tree, dict) or set(tree) != _KEYS:
        raise AllowedError(f"{path}: needs the keys {', '.join(sorted(_KEYS))}, and no others")
    statements = _groups(f"{path}: statements", tree["statements"])
    settings = _groups(f"{path}: settings", tree["settings"])
    categories = tree["functions"]
    if not isinstance(categories, dict):
        raise AllowedError(f"{path}: functions: must map categories to lists of names")
    functions = [name for key, names in categories.items() for name in _names(f"{path}: functions.{key}", names)]
    return Allowed(
        {group: tuple(tuple(words.upper().split()) for words in listed) for group, listed in statements.items()},
        {group: frozenset(listed) for group, listed in settings.items()},
        frozenset(name.lower() for name in functions),
        frozenset(name.lower() for name in _names(f"{path}: table_functions", tree["table_functions"])),
        frozenset(name.lower() for name in _names(f"{path}: formats", tree["formats"])),
    )


def _groups(where: str, body: Any) -> dict[str, list[str]]:
    if not isinstance(body, dict) or set(body) != set(_GROUPS):
        raise AllowedError(f"{where}: needs the keys {' and '.join(_GROUPS)}, and no others")
    readers, writers = (_names(f"{where}.{group}", body[group]) for group in _GROUPS)
    return {"readers": readers, "writers": readers + writers}


def _names(where: str, body: Any) -> list[str]:
    if not isinstance(body, list) or not all(isinstance(name, str) and name for name in body):
        raise AllowedError(f"{where}: must be a list of names")
    return body
