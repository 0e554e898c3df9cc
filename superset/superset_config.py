"""Superset's configuration for Weir. Superset imports this module by name and reads every upper-case name.

Input: WEIR_SUPERSET_HOME (state), WEIR_SUPERSET_SECRET_KEY (kept by the caller: it encrypts Superset's stored secrets),
WEIR_CLICKHOUSE_HOST, WEIR_CLICKHOUSE_PORT, WEIR_PASSWORD_DASHBOARD (address and password of the store). Superset's own
database holds neither the store's address nor its password, so that a changed port or password needs no import.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import weir_dialect
import weir_guard
import weir_pages
import weir_people
import weir_points
import weir_proxy
import weir_sign_on
import weir_templates
from weir_looks import *  # noqa: F403
from weir_secrets import secret
from weir_store import *  # noqa: F403
from weir_viewers import *  # noqa: F403

# Superset takes "now" from the machine's clock in its own zone; Weir's times are UTC.
os.environ["TZ"] = "UTC"
time.tzset()

HOME = Path(os.environ["WEIR_SUPERSET_HOME"]).resolve()
SECRET_KEY = secret("WEIR_SUPERSET_SECRET_KEY")
globals().update(weir_sign_on.configuration())
ADDITIONAL_MIDDLEWARE = [weir_proxy.behind_proxy(secret("WEIR_SUPERSET_PROXY_KEY"))]
LOGO_TARGET_PATH = FRONT_PAGE  # noqa: F405

DATA_DIR = str(HOME)
SQLALCHEMY_DATABASE_URI = f"sqlite:///{HOME / 'superset.db'}?check_same_thread=false"


def _files(name: str, seconds: float) -> dict[str, Any]:
    return {
        "CACHE_TYPE": "FileSystemCache",
        "CACHE_DIR": str(HOME / "cache" / name),
        "CACHE_DEFAULT_TIMEOUT": int(seconds),
        "CACHE_THRESHOLD": 2000,
        "CACHE_KEY_PREFIX": f"weir_{name}_",
    }


CACHE_CONFIG = _files("metadata", 3600)
# Shorter than the dashboard's refresh of 30 s: any number of viewers query the store once, and each refresh is new.
DATA_CACHE_CONFIG = _files("data", 15)
FILTER_STATE_CACHE_CONFIG = _files("filters", timedelta(days=90).total_seconds())
EXPLORE_FORM_DATA_CACHE_CONFIG = _files("explore", timedelta(days=7).total_seconds())
DASHBOARD_AUTO_REFRESH_MODE = "fetch"

FEATURE_FLAGS = {
    "ENABLE_TEMPLATE_PROCESSING": True,
    "DRILL_BY": False,
    "LISTVIEWS_DEFAULT_CARD_VIEW": False,
    "ALERT_REPORTS": False,
}
# Superset's defaults are midnight.
DEFAULT_RELATIVE_START_TIME = "now"
DEFAULT_RELATIVE_END_TIME = "now"
ROW_LIMIT = 10000
SUPERSET_WEBSERVER_TIMEOUT = 70
LOG_LEVEL = "WARNING"
ALEMBIC_SKIP_LOG_CONFIG = True

JINJA_CONTEXT_ADDONS = weir_templates.FUNCTIONS


def FLASK_APP_MUTATOR(app: Any) -> None:  # Superset fixes the name.
    """Fix the dialect and the gaps, watch the logins, and guard the requests."""
    weir_dialect.mend()
    weir_points.mend()
    weir_pages.attach(app)
    weir_people.attach(app, FRONT_PAGE)  # noqa: F405
    weir_guard.attach(app, FRONT_PAGE)  # noqa: F405
