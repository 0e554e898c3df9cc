"""Superset's configuration for Weir. Superset imports it by name and reads every upper-case name.

Comes in: WEIR_SUPERSET_HOME (state), WEIR_SUPERSET_SECRET_KEY (kept by the caller: it encrypts what Superset stores),
WEIR_CLICKHOUSE_HOST, WEIR_CLICKHOUSE_PORT, WEIR_PASSWORD_DASHBOARD (how the store is reached). Nothing of the store's
address or password is written to Superset's own database, so that a changed port or password needs no import.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from superset.utils.log import AbstractEventLogger

sys.path.insert(0, str(Path(__file__).resolve().parent))
import weir_assets
import weir_guard

# Superset takes "now" from the machine's clock in its own zone; Weir's times are UTC.
os.environ["TZ"] = "UTC"
time.tzset()

HOME = Path(os.environ["WEIR_SUPERSET_HOME"]).resolve()
SECRET_KEY = os.environ["WEIR_SUPERSET_SECRET_KEY"]
DASHBOARD_PATH = "/superset/dashboard/nation/"

DATA_DIR = str(HOME)
SQLALCHEMY_DATABASE_URI = f"sqlite:///{HOME / 'superset.db'}?check_same_thread=false"


# Caches ---------------------------------------------------------------------------------------------------------------


def _files(name: str, seconds: float) -> dict[str, Any]:
    return {
        "CACHE_TYPE": "FileSystemCache",
        "CACHE_DIR": str(HOME / "cache" / name),
        "CACHE_DEFAULT_TIMEOUT": int(seconds),
        "CACHE_THRESHOLD": 2000,
        "CACHE_KEY_PREFIX": f"weir_{name}_",
    }


CACHE_CONFIG = _files("metadata", 3600)
# Shorter than the dashboard's refresh of 30 s: any number of viewers ask the store once, and each refresh is new.
DATA_CACHE_CONFIG = _files("data", 15)
FILTER_STATE_CACHE_CONFIG = _files("filters", timedelta(days=90).total_seconds())
EXPLORE_FORM_DATA_CACHE_CONFIG = _files("explore", timedelta(days=7).total_seconds())
DASHBOARD_AUTO_REFRESH_MODE = "fetch"

# Viewers --------------------------------------------------------------------------------------------------------------

# Whoever reaches the port may look, unless WEIR_SUPERSET_PUBLIC=no; only the administrator may change. The datasets are
# granted by weir_superset.py.
WEIR_PUBLIC = os.environ.get("WEIR_SUPERSET_PUBLIC", "yes") != "no"
AUTH_ROLE_PUBLIC = "Public"
PUBLIC_ROLE_LIKE = "Public"
CUSTOMER_PATH = "/superset/dashboard/customer/"
SUPERSET_LOG_VIEW = False


class _Forget(AbstractEventLogger):  # type: ignore[misc]
    """Clicks are not recorded: every refresh of every viewer would write to Superset's own database."""

    def log(self, *_args: Any, **_kwargs: Any) -> None:
        """Do nothing with what was gathered."""

    def log_with_context(self, *_args: Any, **_kwargs: Any) -> None:
        """Gather nothing."""


EVENT_LOGGER = _Forget()
FAB_API_SWAGGER_UI = False
WTF_CSRF_ENABLED = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_HTTPONLY = True
ENABLE_UI_THEME_ADMINISTRATION = False
# Guesses at the administrator's password are slowed down; a dashboard asks for forty things at once and is not.
RATELIMIT_ENABLED = True
RATELIMIT_APPLICATION = "400 per second"
RATELIMIT_STORAGE_URI = "memory://"

# Nothing may be asked from outside: the browser is told to refuse it.
CONTENT_SECURITY_POLICY_WARNING = False
TALISMAN_ENABLED = True
TALISMAN_CONFIG = {
    "content_security_policy": {
        "base-uri": ["'self'"],
        "default-src": ["'self'"],
        "img-src": ["'self'", "blob:", "data:"],
        "worker-src": ["'self'", "blob:"],
        "connect-src": ["'self'"],
        "object-src": "'none'",
        "style-src": ["'self'", "'unsafe-inline'"],
        "font-src": ["'self'"],
        "script-src": ["'self'", "'strict-dynamic'"],
        "frame-ancestors": ["'self'"],
    },
    "content_security_policy_nonce_in": ["script-src"],
    "force_https": False,
    "session_cookie_secure": False,
}

# Looks ----------------------------------------------------------------------------------------------------------------

APP_NAME = "Weir"
LOGO_TARGET_PATH = DASHBOARD_PATH
_PRIMARY = "#1F8FB0"


def _wordmark(ink: str) -> str:
    """The logo as an address of its own: water falling over a weir, and the name in `ink`."""
    return "data:image/svg+xml," + quote(
        '<svg xmlns="http://www.w3.org/2000/svg" width="96" height="32" viewBox="0 0 96 32">'
        f'<g fill="none" stroke="{_PRIMARY}" stroke-width="2.6" stroke-linecap="round">'
        '<path d="M2 8h11c5 0 5 9 10 9h7M2 13h8c5 0 5 9 10 9h10M2 18h5c5 0 5 9 10 9h13"/></g>'
        f'<path d="M14 29V12l5 5v12z" fill="{ink}" fill-opacity=".9"/>'
        '<text x="36" y="23" font-family="Inter,Helvetica,Arial,sans-serif" font-size="22" font-weight="600" '
        f'fill="{ink}">Weir</text></svg>'
    )


_SPINNER = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" viewBox="0 0 40 40" fill="none" stroke="#1F8FB0" '
    'stroke-width="4" stroke-linecap="round"><path d="M20 5a15 15 0 0 1 15 15"><animateTransform attributeName="transform" '
    'type="rotate" from="0 20 20" to="360 20 20" dur="1s" repeatCount="indefinite"/></path></svg>'
)
APP_ICON = _wordmark("#1d3f4d")
_TOKENS: dict[str, Any] = {
    "brandAppName": APP_NAME,
    "brandLogoAlt": APP_NAME,
    "brandLogoUrl": APP_ICON,
    "brandLogoHref": DASHBOARD_PATH,
    "brandLogoHeight": "28px",
    "brandLogoMargin": "14px 0",
    "brandIconMaxWidth": 96,
    "brandSpinnerSvg": _SPINNER,
    "colorPrimary": _PRIMARY,
    "colorLink": _PRIMARY,
    "colorError": "#CF4B47",
    "colorWarning": "#E89B2E",
    "colorSuccess": "#4FA974",
    "fontUrls": [],
    "fontFamily": "Inter, Helvetica, Arial, sans-serif",
}
_DARK_TOKENS = {
    "brandLogoUrl": _wordmark("#dfeaf0"),
    "colorPrimary": "#3FB1D2",
    "colorLink": "#5CC3E0",
    "colorBgBase": "#10191f",
}
# Whoever's browser prefers dark colours gets them; the switch at the top chooses otherwise.
THEME_DEFAULT = {"token": _TOKENS, "algorithm": "default"}
THEME_DARK = {"token": _TOKENS | _DARK_TOKENS, "algorithm": "dark"}
# Eleven that are told apart on white and on the dark ground, also by most who are colour-blind.
EXTRA_CATEGORICAL_COLOR_SCHEMES = [
    {
        "id": weir_assets.COLORS,
        "description": "",
        "label": "Weir",
        "isDefault": True,
        "colors": [
            "#1F8FB0", "#E89B2E", "#4FA974", "#8E6BB0", "#CF4B47", "#7CC4DA",
            "#B98B4A", "#93CDA6", "#C3AEDA", "#E58A87", "#6C7F89",
        ],
    }
]  # fmt: skip
EXTRA_SEQUENTIAL_COLOR_SCHEMES = [
    {
        "id": weir_assets.COLORS,
        "description": "",
        "isDiverging": False,
        "label": "Weir",
        "isDefault": True,
        "colors": ["#D5ECF3", "#9FD3E3", "#63B5CE", "#1F8FB0", "#146680", "#0B3F51"],
    }
]
# "$" in a number's format is the place of a currency; no money is shown here, so it carries the unit of rates.
D3_FORMAT = {"decimal": ".", "thousands": ",", "grouping": [3], "currency": ["", "bit/s"]}
# Superset's defaults are midnight.
DEFAULT_RELATIVE_START_TIME = "now"
DEFAULT_RELATIVE_END_TIME = "now"
ROW_LIMIT = 10000
SUPERSET_WEBSERVER_TIMEOUT = 70
LOG_LEVEL = "WARNING"
ALEMBIC_SKIP_LOG_CONFIG = True

# The store ------------------------------------------------------------------------------------------------------------

PREVENT_UNSAFE_DB_CONNECTIONS = True


def DB_CONNECTION_MUTATOR(  # Superset fixes the name and the arguments.
    uri: Any, params: dict[str, Any], username: str | None, security_manager: Any, source: Any
) -> tuple[Any, dict[str, Any]]:
    """Put the store's address and password of this process into the address that the assets carry."""
    if uri.host == "weir":
        uri = uri.set(
            host=os.environ.get("WEIR_CLICKHOUSE_HOST", "127.0.0.1"),
            port=int(os.environ.get("WEIR_CLICKHOUSE_PORT", "8123")),
            username="dashboard",
            password=os.environ.get("WEIR_PASSWORD_DASHBOARD", ""),
        )
    return uri, params


# Templates of the datasets --------------------------------------------------------------------------------------------

# The datasets' SQL names these functions; they are given the ends of the time range as ISO 8601 text, or nothing.
FEATURE_FLAGS = {
    "ENABLE_TEMPLATE_PROCESSING": True,
    "DRILL_BY": False,
    "LISTVIEWS_DEFAULT_CARD_VIEW": False,
    "ALERT_REPORTS": False,
}

# Whole minutes, hours and days divide evenly into the longer ones, and every interval of an agent up to 10 s into all.
_BUCKETS = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_MOST_POINTS = 240
# An interval of 10 s, the 10 s over which it is published, a checkpoint, and some more.
SETTLED_SECONDS = 30


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None


def bucket_seconds(since_text: str | None, until_text: str | None, shortest: int = _BUCKETS[0]) -> str:
    """SQL for the length in seconds of one point of a time series, so that a range has at most 240 points.

    `shortest` is the window of the data. Where that is 10 s, it is 30 s if a probe's own interval is longer than 10 s. A
    range without both ends: an hour.
    """
    since, until = _moment(since_text), _moment(until_text)
    wanted = (until - since).total_seconds() / _MOST_POINTS if since and until else 3600.0
    seconds = next((bucket for bucket in _BUCKETS if bucket >= max(wanted, shortest)), _BUCKETS[-1])
    if seconds == _BUCKETS[0]:
        return f"if((SELECT max(interval_ms) FROM probes) > 10000, 30, {seconds})"
    return str(seconds)


def is_long(since_text: str | None, until_text: str | None) -> bool:
    """Whether the range is more than a month: then days are read, not windows of five minutes."""
    since, until = _moment(since_text), _moment(until_text)
    return not since or not until or until - since > timedelta(days=31)


def since_sql(since_text: str | None) -> str:
    """SQL for the beginning of the time range: seconds from 1970."""
    since = _moment(since_text)
    return str(int(since.timestamp())) if since else "0"


def until_sql(until_text: str | None) -> str:
    """SQL for the end of the time range: seconds from 1970. Never newer than what has arrived, or curves end in a dip."""
    until = _moment(until_text)
    newest = f"toUnixTimestamp(now()) - {SETTLED_SECONDS}"
    return f"least({int(until.timestamp())}, {newest})" if until else newest


def scope_of(filter_values: Callable[..., list[Any]]) -> str:
    """Which lists to read: those of probes or of customers where one is chosen, else those over all probes."""
    if filter_values("probe"):
        return "probe"
    return "customer" if filter_values("customer_name") else "all"


def chosen(filter_values: Callable[..., list[Any]], column: str) -> str:
    """SQL for the first value that is chosen for a column, a text; empty without a choice."""
    first = str(next(iter(filter_values(column)), "")).strip()
    return "'" + first.replace("\\", "\\\\").replace("'", "\\'") + "'"


def chosen_host(filter_values: Callable[..., list[Any]]) -> str:
    """SQL for the address that was chosen; without a choice, for the busiest of the last hour."""
    if filter_values("host"):
        return chosen(filter_values, "host")
    return (
        "(SELECT b.host FROM v_top_talkers AS b WHERE b.scope = 'all' AND b.list IN ('host_in', 'host_out') "
        "AND b.ts >= now() - 3600 AND b.ts < now() GROUP BY b.host ORDER BY sum(b.octets) DESC LIMIT 1)"
    )


def host_link(host: str) -> str:
    """SQL for a link that opens the dashboard Investigate for the address that the SQL `host` gives."""
    before, between, after = weir_assets.address_with("investigate", "Address", "host")
    value = f"replaceAll({host}, ':', '%3A')"
    return f"concat('<a href=\"{before}', {value}, '{between}', {value}, '{after}\">', {host}, '</a>')"


JINJA_CONTEXT_ADDONS: dict[str, Callable[..., Any]] = {
    "bucket_seconds": bucket_seconds,
    "chosen": chosen,
    "chosen_host": chosen_host,
    "host_link": host_link,
    "is_long": is_long,
    "scope_of": scope_of,
    "since": since_sql,
    "until": until_sql,
}


# Mending ClickHouse's dialect -----------------------------------------------------------------------------------------


def FLASK_APP_MUTATOR(app: Any) -> None:  # Superset fixes the name.
    """Quote names with double quotes, read times as UTC, open on a dashboard, and keep viewers to names."""
    from clickhouse_connect.cc_sqlalchemy.dialect import ClickHouseDialect
    from clickhouse_connect.cc_sqlalchemy.sql.preparer import ChIdentifierPreparer
    from flask import jsonify, redirect, request
    from flask_login import current_user
    from superset.db_engine_specs.clickhouse import ClickHouseBaseEngineSpec

    def double_quoted(name: str) -> str:
        escaped = name.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    # Drill to detail compares a calculated column quoted by the dialect with one quoted by Superset: with the
    # dialect's backticks they never agree, and the column is not found.
    class DoubleQuotes(ChIdentifierPreparer):  # type: ignore[misc]
        quote_identifier = staticmethod(double_quoted)

        def _quote_raw_identifier(self, value: str) -> str:
            return str(self._escape_percents(double_quoted(value)))

    ClickHouseDialect.preparer = DoubleQuotes

    # The server reads a moment without a zone in a zone of its own.
    plain = ClickHouseBaseEngineSpec.convert_dttm.__func__

    def in_utc(cls: Any, target_type: str, dttm: datetime, db_extra: dict[str, Any] | None = None) -> str | None:
        text: str | None = plain(cls, target_type, dttm, db_extra)
        return text[:-1] + ", 'UTC')" if text and text.startswith("toDateTime(") else text

    ClickHouseBaseEngineSpec.convert_dttm = classmethod(in_utc)

    def roles() -> set[str]:
        return {role.name for role in current_user.roles} if current_user.is_authenticated else set()

    @app.before_request  # type: ignore[untyped-decorator]
    def front_page() -> Any:
        if request.path in ("/", "/superset/welcome/"):
            if any(role.startswith(weir_assets.CUSTOMER_ROLE) for role in roles()):
                return redirect(CUSTOMER_PATH)
            if request.path == "/" and not current_user.is_authenticated:
                return redirect(DASHBOARD_PATH)
        return None

    @app.before_request  # type: ignore[untyped-decorator]
    def names_alone() -> Any:
        if not request.path.startswith(weir_guard.PATHS) or "Admin" in roles():
            return None
        asked = [request.get_json(silent=True, force=True), request.form.to_dict(), request.args.to_dict()]
        why = weir_guard.refused(asked)
        return (jsonify({"message": f"Refused: {why}"}), 403) if why else None
