"""Superset's connections to the store: this process's address and password, connection reuse, and the name of who asks."""

from __future__ import annotations

import functools
import os
import urllib.parse
from typing import Any

from weir_secrets import secret

PREVENT_UNSAFE_DB_CONNECTIONS = True


# Idle connections, by the address they were made for.
_idle: dict[str, list[Any]] = {}


def _who_asks() -> dict[str, str]:
    """Headers with the login name and the address of whoever asks, for the store's audit, which believes them of the user
    `dashboard` alone. A viewer without a login has only an address.
    """
    from flask import has_request_context, request
    from superset.utils.core import get_username

    person, address = get_username(), request.remote_addr if has_request_context() else None
    named = {"X-Weir-Person": person, "X-Weir-Person-Address": address}
    return {name: urllib.parse.quote(value) for name, value in named.items() if value}


def _borrow(uri: Any, arguments: dict[str, Any]) -> Any:
    """A connection to the store that returns to the pool when it is closed.

    Superset opens four connections for each chart, and each new one first sends the server three queries, which take
    most of the time of a short query. Only one thread uses a connection at a time, and a query can leave no state in
    it: the user `dashboard` may set nothing. Only the headers with the person's name are renewed.
    """
    from clickhouse_connect.cc_sqlalchemy.dialect import ClickHouseDialect
    from clickhouse_connect.dbapi.connection import Connection

    class Kept(Connection):  # type: ignore[misc]
        def close(self) -> None:
            free.append(self)

    free = _idle.setdefault(uri.render_as_string(hide_password=False), [])
    try:
        lent = free.pop()
    except IndexError:
        _, made_of = ClickHouseDialect().create_connect_args(uri)
        lent = Kept(**(made_of | arguments))
    others = {name: value for name, value in lent.client.headers.items() if not name.startswith("X-Weir-")}
    lent.client.headers = others | _who_asks()
    return lent


def DB_CONNECTION_MUTATOR(  # Superset fixes the name and the arguments.
    uri: Any, params: dict[str, Any], username: str | None, security_manager: Any, source: Any
) -> tuple[Any, dict[str, Any]]:
    """Replace the address in the assets by the store's address and password of this process."""
    if uri.host == "weir":
        uri = uri.set(
            host=os.environ.get("WEIR_CLICKHOUSE_HOST", "127.0.0.1"),
            port=int(os.environ.get("WEIR_CLICKHOUSE_PORT", "8123")),
            username="dashboard",
            password=secret("WEIR_PASSWORD_DASHBOARD"),
        )
        if os.environ.get("WEIR_CLICKHOUSE_TLS") == "yes":
            # The certificate is checked, by an authority of one's own if one is named.
            authority = os.environ.get("WEIR_CLICKHOUSE_AUTHORITY")
            uri = uri.update_query_dict(
                {"secure": "true", "verify": "true", **({"ca_cert": authority} if authority else {})}
            )
        params["creator"] = functools.partial(_borrow, uri, dict(params.get("connect_args", {})))
    return uri, params
