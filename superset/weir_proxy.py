"""A reverse proxy in front of the server: whose word about a client's address and about TLS is believed.

The proxy proves itself by a key in the header X-Weir-Proxy. Nobody else's X-Forwarded headers count, so neither a client
nor another user of this machine can give itself another address in the audit or before the lockout.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from typing import Any

_FORWARDED = ("FORWARDED", *(f"X_FORWARDED_{name}" for name in ("FOR", "HOST", "PORT", "PREFIX", "PROTO")))


def behind_proxy(key: str) -> Callable[[Any], Any]:
    """A wrapper of WSGI applications; without a key no proxy is believed."""

    def wrap(direct: Any) -> Any:
        from werkzeug.middleware.proxy_fix import ProxyFix

        proxied = ProxyFix(direct, x_for=1, x_proto=1, x_host=1)

        def application(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            shown = environ.pop("HTTP_X_WEIR_PROXY", "")
            if key and hmac.compare_digest(shown.encode("latin-1"), key.encode()):
                answer: Iterable[bytes] = proxied(environ, start)
                return answer
            for name in _FORWARDED:
                environ.pop(f"HTTP_{name}", None)
            direct_answer: Iterable[bytes] = direct(environ, start)
            return direct_answer

        return application

    return wrap
