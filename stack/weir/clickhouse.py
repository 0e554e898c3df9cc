"""Requests to ClickHouse over its HTTP interface, to the embedded store or to any server."""

from __future__ import annotations

import ipaddress
import json
import ssl
from collections.abc import Iterator
from typing import Any

import httpx

from weir.config import Stack
from weir.errors import WeirError


class ClickHouse:
    """A connection to the store as one user."""

    def __init__(
        self,
        url: str,
        user: str,
        password: str,
        database: str = "weir",
        patience: float | None = 130,
        authority: str = "",
    ) -> None:
        """patience: seconds without data from the server before giving up, None for ever. authority: file of the authority
        that a server with TLS must prove itself by, the system's if empty."""
        self.url = url
        self.database = database
        self.client = httpx.Client(
            base_url=url,
            headers={"X-ClickHouse-User": user, "X-ClickHouse-Key": password},
            timeout=httpx.Timeout(patience, connect=5),
            verify=ssl.create_default_context(cafile=authority) if authority else True,
        )

    def _send(self, sql: str, database: str | None, settings: dict[str, str]) -> httpx.Response:
        params = {"database": self.database if database is None else database, **settings}
        try:
            request = self.client.build_request("POST", "/", params=params, content=sql.encode())
            response = self.client.send(request, stream=True)
        except httpx.HTTPError as error:
            raise WeirError(
                f"ClickHouse does not answer at {self.url} ({type(error).__name__})",
                hint="is the stack up? try: weir status",
            ) from error
        if response.status_code != 200:
            text = response.read().decode(errors="replace").strip()
            response.close()
            raise WeirError(f"ClickHouse: {text}", status=1)
        return response

    def stream(self, sql: str, **settings: str) -> Iterator[bytes]:
        """The response as a stream."""
        response = self._send(sql, None, settings)
        try:
            yield from response.iter_bytes()
        except httpx.HTTPError as error:
            raise WeirError(f"ClickHouse ended its response early ({error})", status=1) from error
        finally:
            response.close()

    def execute(self, sql: str, *, database: str | None = None, **settings: str) -> str:
        """Run one statement and return its output."""
        response = self._send(sql, database, settings)
        try:
            return response.read().decode()
        finally:
            response.close()

    def rows(self, sql: str, *, database: str | None = None, **settings: str) -> list[dict[str, Any]]:
        """Run a SELECT and return its rows; 64-bit integers as integers."""
        settings = {"default_format": "JSONEachRow", "output_format_json_quote_64bit_integers": "0", **settings}
        text = self.execute(sql, database=database, **settings)
        return [json.loads(line) for line in text.splitlines()]

    def ping(self) -> bool:
        """Whether the server answers."""
        try:
            return self.client.get("/ping", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False


def connect(stack: Stack, user: str, patience: float | None = 130) -> ClickHouse:
    """Connect to the store of this stack, as one of the users of `clickhouse/access.yaml`: in the database of its role, if
    the role has one of its own."""
    store = stack.config.clickhouse
    database = stack.database_of(user) or store.database
    return ClickHouse(
        stack.clickhouse_url, user, stack.password(user), database, patience, store.authority if store.url else ""
    )


def mapped(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """An address as columns of type IPv6 hold it: IPv4 mapped."""
    return f"::ffff:{address}" if address.version == 4 else str(address)
