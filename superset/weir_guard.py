"""The queries that a viewer may send: the columns and metrics of a dataset by name, and no SQL of their own.

A dashboard needs nothing else. SQL in a query (Superset's "custom SQL") could read other tables of the store than the
dataset's, and bypass the rules on a customer's rows. Administrators may write any SQL.
"""

from __future__ import annotations

import json
import re
from typing import Any

import weir_assets

#: Front page of a customer's users.
CUSTOMER_PAGE = "/superset/dashboard/customer/"
#: Endpoints that accept queries.
PATHS = ("/api/v1/chart/", "/superset/explore_json", "/datasource/samples", "/api/v1/query/")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Lists in a query whose texts Superset takes for SQL if no column has that name.
_NAMED = frozenset(
    [
        "columns",
        "groupby",
        "groupby_b",
        "metrics",
        "metrics_b",
        "metric",
        "orderby",
        "series_columns",
        "all_columns",
        "entity",
        "source",
        "target",
        "series",
        "series_limit_metric",
        "timeseries_limit_metric",
        "secondary_metric",
        "x_axis",
        "granularity",
        "granularity_sqla",
        "sqlExpression",
    ]
)
# Free text that becomes SQL, and charts drawn from other charts' data.
_EMPTY = frozenset(["where", "having", "annotation_layers"])


def refused(asked: Any) -> str | None:
    """Why a query is refused, given its JSON; None if it uses only names."""
    if isinstance(asked, dict):
        for key, value in asked.items():
            if key in _EMPTY and value:
                return f"'{key}' is for administrators"
            if key in _NAMED and not all(map(_is_name, _texts(value))):
                return f"'{key}' names something that is not a column or metric"
            # Some requests carry a chart's own parameters as text.
            if key in ("params", "form_data", "extra_form_data", "query_context") and isinstance(value, str):
                value = _decoded(value)
            if why := refused(value):
                return why
    elif isinstance(asked, list):
        return next((why for one in asked if (why := refused(one))), None)
    return None


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _is_name(text: str) -> bool:
    return text == "" or _NAME.match(text) is not None


def _texts(value: Any) -> list[str]:
    """The texts in nested lists; refused() inspects objects."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return []


def attach(app: Any, front_page: str) -> None:
    """Make the application send visitors to their front page, and refuse viewers' requests that hold SQL."""
    from flask import jsonify, redirect, request
    from flask_login import current_user

    def roles() -> set[str]:
        return {role.name for role in current_user.roles} if current_user.is_authenticated else set()

    @app.before_request  # type: ignore[untyped-decorator]
    def arrive() -> Any:
        if request.path in ("/", "/superset/welcome/"):
            if any(role.startswith(weir_assets.CUSTOMER_ROLE) for role in roles()):
                return redirect(CUSTOMER_PAGE)
            if request.path == "/" and not current_user.is_authenticated:
                return redirect(front_page)
        return None

    @app.before_request  # type: ignore[untyped-decorator]
    def names_alone() -> Any:
        if not request.path.startswith(PATHS) or "Admin" in roles():
            return None
        asked = [request.get_json(silent=True, force=True), request.form.to_dict(), request.args.to_dict()]
        why = refused(asked)
        return (jsonify({"message": f"Refused: {why}"}), 403) if why else None
