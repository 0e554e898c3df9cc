"""Viewers: roles, sessions, cookies, request limits, and the content security policy."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from superset.utils.log import AbstractEventLogger

# Anyone who reaches the port may look, unless WEIR_SUPERSET_PUBLIC=no; only the administrator may change.
# weir_superset.py grants the datasets.
WEIR_PUBLIC = os.environ.get("WEIR_SUPERSET_PUBLIC", "yes") != "no"
AUTH_ROLE_PUBLIC = "Public"
PUBLIC_ROLE_LIKE = "Public"
SUPERSET_LOG_VIEW = False


class _NoEvents(AbstractEventLogger):  # type: ignore[misc]
    """Clicks are not recorded: every refresh of every viewer would write to Superset's own database."""

    def log(self, *_args: Any, **_kwargs: Any) -> None:
        """Discard the record."""

    def log_with_context(self, *_args: Any, **_kwargs: Any) -> None:
        """Record nothing."""


EVENT_LOGGER = _NoEvents()
FAB_API_SWAGGER_UI = False
WTF_CSRF_ENABLED = True
# The address by which people reach the pages; behind a proxy with TLS it begins with https, and cookies travel by TLS alone.
WEIR_HTTPS = os.environ.get("WEIR_SUPERSET_URL", "").startswith("https://")
SESSION_COOKIE_SAMESITE = REMEMBER_COOKIE_SAMESITE = "Lax"  # Strict would lose the way back from a sign-on
SESSION_COOKIE_HTTPONLY = REMEMBER_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = REMEMBER_COOKIE_SECURE = WEIR_HTTPS
PERMANENT_SESSION_LIFETIME = timedelta(hours=12)
PREFERRED_URL_SCHEME = "https" if WEIR_HTTPS else "http"
ENABLE_UI_THEME_ADMINISTRATION = False
# Slows down guessing of the administrator's password; a dashboard's forty requests at once are exempt.
RATELIMIT_ENABLED = True
RATELIMIT_APPLICATION = "400 per second"
RATELIMIT_STORAGE_URI = "memory://"

# The browser may load nothing from outside: this policy refuses it.
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
    "session_cookie_secure": WEIR_HTTPS,
}
