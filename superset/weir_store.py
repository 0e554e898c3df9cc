"""Superset's connections to the store: this process's address and password, and connection reuse."""

from __future__ import annotations

import functools
import os
from typing import Any

from weir_secrets import secret

PREVENT_UNSAFE_DB_CONNECTIONS = True


# Idle connections, by the address they were made for.
_idle: dict[str, list[Any]] = {}


def _borrow(uri: Any, arguments: dict[str, Any]) -> Any:
    """A connection to the store that returns to the pool when it is closed.

    Superset opens four connections for each chart, and each new one first sends the server three queries, which take
    most of the time of a short query. Only one thread uses a connection at a time, and a query can leave no state in
    it: the user `dashboard` may set nothing.
    """
    from clickhouse_connect.cc_sqlalchemy.dialect import ClickHouseDialect
    from clickhouse_connect.dbapi.connection import Connection

    class Kept(Connection):  # type: ignore[misc]
        def close(self) -> None:
            free.append(self)

    free = _idle.setdefault(uri.render_as_string(hide_password=False), [])
    try:
        return free.pop()
    except IndexError:
        _, made_of = ClickHouseDialect().create_connect_args(uri)
        return Kept(**(made_of | arguments))


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
        params["creator"] = functools.partial(_borrow, uri, dict(params.get("connect_args", {})))
    return uri, params
