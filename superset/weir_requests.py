"""What a viewer's request for data may contain: a list of keys, each with the values that it may have.

A dashboard asks for columns and metrics by name, and needs no SQL. SQL in a query (Superset's "custom SQL") could read
other tables of the store than the dataset's, and bypass the rules on a customer's rows. So a query with a key or a
value that is not listed here is refused. The settings of the chart (`form_data`), which come along, are cut down to
the listed ones: the others describe how the browser draws it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

#: Octets of a request's body.
MOST_OCTETS = 1 << 20
#: Characters of a range of time, and of other texts that Superset itself reads.
MOST_SPAN = 200
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_GRAIN = re.compile(r"[A-Z0-9/:.T-]{0,64}\Z")
_TABLE = re.compile(r"[0-9]{1,9}__table\Z")
_OPERATORS = frozenset(
    [
        "==",
        "!=",
        ">",
        "<",
        ">=",
        "<=",
        "LIKE",
        "NOT LIKE",
        "ILIKE",
        "NOT ILIKE",
        "IN",
        "NOT IN",
        "IS NULL",
        "IS NOT NULL",
        "IS TRUE",
        "IS FALSE",
        "TEMPORAL_RANGE",
    ]
)
_AGGREGATES = frozenset(["AVG", "COUNT", "COUNT_DISTINCT", "MAX", "MIN", "SUM"])
# Those that cost no more than the rows that came.
_OPERATIONS = frozenset(["aggregate", "contribution", "cum", "flatten", "pivot", "rank", "rename", "sort"])


# Neither quotation marks nor the backslash, and no two signs that begin a comment.
_LABEL = re.compile(r"(?!.*(--|/\*|\*/))[\w %().,:/+*<>=&°µ×–-]{1,250}")


class RefusedError(Exception):
    """A request has something that is not on the list; the text says what."""


Check = Callable[[Any], Any]


def chart_data(body: Any) -> dict[str, Any]:
    """The body of a request for a chart's data, cut down to what is listed. Raises RefusedError."""
    found: dict[str, Any] = _only("the request", _BODY)(body)
    if not isinstance(found.get("datasource"), dict) or not found.get("queries"):
        raise RefusedError("it names no dataset, or no query")
    return found


def legacy_chart(form: Mapping[str, str]) -> dict[str, str]:
    """The form of a request for the data of a world map, which alone uses Superset's older interface. Raises RefusedError."""
    asked = _kept(_LEGACY)(_parsed(form.get("form_data", "")))
    if asked.get("viz_type") != "world_map":
        raise RefusedError("only world maps ask here")
    return {"form_data": json.dumps(asked)}


def arguments(given: Mapping[str, str]) -> dict[str, str]:
    """The arguments in the address of a request for data. Raises RefusedError."""
    kept = {}
    for name, value in given.items():
        if name == "form_data":
            kept[name] = json.dumps(_only(name, {"slice_id": _whole})(_parsed(value)))
        elif name == "dashboard_id":
            kept[name] = str(_whole(_parsed(value)))
        elif name == "force" and value in ("true", "false"):
            kept[name] = value
        else:
            raise RefusedError(f"the argument '{name[:40]}' is not on the list")
    return kept


def filter_state(body: Any) -> dict[str, Any]:
    """The body of a request that keeps the chosen filters of a page: a text, which only browsers read. Raises RefusedError."""
    found: dict[str, Any] = _only("the request", {"value": _text})(body)
    return found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise RefusedError("it holds something that is not JSON") from None


# ---- values ----


def _whole(value: Any) -> Any:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise RefusedError("a number was expected")


def _rows(value: Any) -> Any:
    return _whole(int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 9 else value)


def _flag(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    raise RefusedError("true or false was expected")


def _text(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    raise RefusedError("a text was expected")


def _span(value: Any) -> Any:
    """A range of time in words: Superset parses it, in time that grows faster than its length."""
    if value is None or (isinstance(value, str) and len(value) <= MOST_SPAN):
        return value
    raise RefusedError(f"a text of at most {MOST_SPAN} characters was expected")


def _scalar(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise RefusedError("a single value was expected")


def _name(value: Any) -> Any:
    """A column or a metric of the dataset."""
    if value is None or value == "" or (isinstance(value, str) and _NAME.match(value)):
        return value
    raise RefusedError("it names something that is not a column or metric")


def _grain(value: Any) -> Any:
    if value is None or (isinstance(value, str) and _GRAIN.match(value)):
        return value
    raise RefusedError("it names something that is not a grain of time")


def _one_of(*values: Any) -> Check:
    def check(value: Any) -> Any:
        if isinstance(value, (str, int, type(None))) and value in values:
            return value
        raise RefusedError("a value is not on the list")

    return check


def _nothing(value: Any) -> Any:
    """Free text that becomes SQL, and charts drawn from other charts' data."""
    if value:
        raise RefusedError("it is for administrators")
    return value


def _empty(_value: Any) -> dict[str, Any]:
    return {}


def _list(check: Check, most: int = 100) -> Check:
    def each(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > most:
            raise RefusedError(f"a list of at most {most} was expected")
        return [check(one) for one in value]

    return each


def _only(what: str, keys: Mapping[str, Check]) -> Check:
    """An object with these keys alone."""

    def check(value: Any) -> Any:
        if not isinstance(value, dict):
            raise RefusedError(f"{what} is not an object")
        for key in value:
            if key not in keys:
                raise RefusedError(f"'{str(key)[:40]}' is not on the list")
        return _kept(keys)(value)

    return check


def _kept(keys: Mapping[str, Check]) -> Check:
    """An object, without its other keys."""

    def check(value: Any) -> Any:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise RefusedError("an object was expected")
        kept = {}
        for key, allowed in keys.items():
            if key in value:
                try:
                    kept[key] = allowed(value[key])
                except RefusedError as error:
                    raise RefusedError(f"'{key}': {error}") from None
        return kept

    return check


def _column(value: Any) -> Any:
    """A column's name, also in the form that the axis of a chart has."""
    if not isinstance(value, dict):
        return _name(value)
    return _only("a column", _AXIS)(value)


def _metric(value: Any) -> Any:
    """A metric's name, or an aggregate of a column."""
    if not isinstance(value, dict):
        return _name(value)
    if value.get("expressionType") != "SIMPLE" or not value.get("column") or not value.get("label"):
        raise RefusedError("it names something that is not a column or metric")
    return {"expressionType": "SIMPLE", **_kept(_AGGREGATE)(value)}


def _spanning(check: Check, operator: str, operand: str) -> Check:
    """A comparison, whose operand may be a range of time."""

    def checked(value: Any) -> Any:
        found = check(value)
        if found.get(operator) == "TEMPORAL_RANGE":
            found[operand] = _span(found.get(operand))
        return found

    return checked


def _order(value: Any) -> Any:
    if not isinstance(value, list) or len(value) != 2:
        raise RefusedError("a metric and a direction were expected")
    return [_metric(value[0]), _flag(value[1])]


def _compared(value: Any) -> Any:
    return _list(_scalar, 1000)(value) if isinstance(value, list) else _scalar(value)


def _operation(value: Any) -> Any:
    if value is None:
        return None
    found: dict[str, Any] = _only("an operation", _OPERATION)(value)
    options = found.get("options")
    # With every combination of several columns, a few rows become a table that fills the memory.
    if found.get("operation") == "pivot" and isinstance(options, dict):
        axes = [one for name in ("index", "columns") for one in options.get(name) or ()]
        if len(axes) > 2:
            options["drop_missing_columns"] = True
    return found


def _label(value: Any) -> str:
    """The name of a metric, which becomes a quoted name in SQL: nothing in it may end the quotation."""
    if not isinstance(value, str) or not _LABEL.fullmatch(value):
        raise RefusedError("a label may hold letters, digits, blanks and some signs, but no quotation mark")
    return value


def _plain(value: Any, depth: int = 6) -> Any:
    """Options of an operation on rows that are already there: nested, but not deep."""
    if depth == 0:
        raise RefusedError("it is nested too deep")
    if isinstance(value, dict):
        return {str(key): _plain(one, depth - 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one, depth - 1) for one in value]
    return _scalar(value)


def _simple_filter(value: Any) -> Any:
    if not isinstance(value, dict) or value.get("expressionType") != "SIMPLE":
        raise RefusedError("a filter may compare a column, and nothing else")
    compared = _spanning(_kept(_COMPARISON), "operator", "comparator")(value)
    return {"expressionType": "SIMPLE", "clause": "WHERE", **compared}


# ---- keys ----

_AXIS: dict[str, Check] = {
    "sqlExpression": _name,
    "label": _name,
    "timeGrain": _grain,
    "columnType": _one_of("BASE_AXIS", None),
    "expressionType": _one_of("SQL", None),
    "isColumnReference": _flag,
}
_AGGREGATE: dict[str, Check] = {
    "column": _kept({"column_name": _name}),
    "aggregate": _one_of(*_AGGREGATES),
    "label": _label,
    "hasCustomLabel": _flag,
}
_FILTER: dict[str, Check] = {
    "col": _name,
    "op": _one_of(*_OPERATORS),
    "val": _compared,
    "grain": _grain,
    "isExtra": _flag,
}
_FILTERED = _spanning(_only("a filter", _FILTER), "op", "val")
_COMPARISON: dict[str, Check] = {
    "subject": _name,
    "operator": _one_of(*_OPERATORS),
    "comparator": _compared,
    "isExtra": _flag,
}
_EXTRAS: dict[str, Check] = {
    "having": _nothing,
    "where": _nothing,
    "time_grain_sqla": _grain,
    "relative_start": _one_of("now", "today", None),
    "relative_end": _one_of("now", "today", None),
    "instant_time_comparison_range": _nothing,
}
_OPERATION: dict[str, Check] = {"operation": _one_of(*_OPERATIONS), "options": _plain}
_QUERY: dict[str, Check] = {
    "annotation_layers": _nothing,
    "applied_time_extras": _empty,
    "columns": _list(_column),
    "custom_form_data": _empty,
    "custom_params": _empty,
    "extras": _only("'extras'", _EXTRAS),
    "filters": _list(_FILTERED),
    "granularity": _name,
    "group_others_when_limit_reached": _flag,
    "groupby": _list(_column),
    "is_rowcount": _flag,
    "is_timeseries": _flag,
    "metrics": _list(_metric),
    "order_desc": _flag,
    "orderby": _list(_order),
    "post_processing": _list(_operation, 20),
    "row_limit": _rows,
    "row_offset": _rows,
    "series_columns": _list(_column),
    "series_limit": _rows,
    "series_limit_metric": _metric,
    "time_offsets": _nothing,
    "time_range": _span,
    "url_params": _empty,
}
#: What Superset itself reads of a chart's settings.
_SETTINGS: dict[str, Check] = {
    "dashboardId": _whole,
    "datasource": _span,
    "native_filter_id": _span,
    "row_limit": _rows,
    "slice_id": _whole,
    "type": _span,
    "viz_type": _span,
    "x_axis": _column,
}
_BODY: dict[str, Check] = {
    "datasource": _only("the dataset", {"id": _whole, "type": _one_of("table")}),
    "force": _flag,
    "form_data": _kept(_SETTINGS),
    "queries": _list(_only("a query", _QUERY), 10),
    "result_format": _one_of("json"),
    "result_type": _one_of("drill_detail", "full", "results"),
}


def _dataset(value: Any) -> Any:
    if isinstance(value, str) and _TABLE.match(value):
        return value
    raise RefusedError("it names no dataset")


_LEGACY: dict[str, Check] = {
    "adhoc_filters": _list(_simple_filter),
    "color_by": _one_of("metric", "country"),
    "country_fieldtype": _span,
    "dashboardId": _whole,
    "datasource": _dataset,
    "entity": _name,
    "extra_filters": _list(_FILTERED),
    "extra_form_data": _kept(
        {
            "adhoc_filters": _list(_simple_filter),
            "filters": _list(_FILTERED),
            "time_range": _span,
        }
    ),
    "granularity_sqla": _name,
    "metric": _metric,
    "row_limit": _rows,
    "secondary_metric": _metric,
    "show_bubbles": _flag,
    "slice_id": _whole,
    "time_range": _span,
    "viz_type": _span,
}
