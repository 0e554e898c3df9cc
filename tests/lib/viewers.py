"""Viewers of the dashboards: their requests to a running Superset, and the assets that it shows them."""

from __future__ import annotations

import re
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import yaml

import weir_assets

BUNDLE: dict[str, dict[str, Any]] = {name: yaml.safe_load(text) for name, text in weir_assets.bundle().items()}
DATASETS = {thing["table_name"]: thing for name, thing in BUNDLE.items() if name.startswith("datasets/")}
CHARTS = {thing["uuid"]: thing for name, thing in BUNDLE.items() if name.startswith("charts/")}
DASHBOARDS = {thing["slug"]: thing for name, thing in BUNDLE.items() if name.startswith("dashboards/")}


def charts_of(slug: str) -> list[dict[str, Any]]:
    """The charts of a dashboard."""
    nodes = DASHBOARDS[slug]["position"].values()
    return [CHARTS[node["meta"]["uuid"]] for node in nodes if isinstance(node, dict) and node["type"] == "CHART"]


def objects(home: Path) -> dict[str, Any]:
    """The assets in Superset's own database: each UUID with its number, and the number of rows that refer to them."""
    with sqlite3.connect(home / "superset.db") as database:
        found: dict[str, Any] = {
            table: dict(database.execute(f"SELECT lower(hex(uuid)), id FROM {table}").fetchall())
            for table in ("dbs", "tables", "slices", "dashboards", "table_columns", "sql_metrics")
        }
        for table in ("dashboard_slices", "ab_user", "ab_role"):
            found[table] = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return found


def bare(uuid: str) -> str:
    """A UUID as the keys of `objects` have it."""
    return uuid.replace("-", "")


def between(since: float, until: float) -> dict[str, Any]:
    """A filter on time, [since, until) in seconds from 1970."""
    first, last = (datetime.fromtimestamp(int(one), UTC).strftime("%Y-%m-%dT%H:%M:%S") for one in (since, until))
    return {"col": "time", "op": "TEMPORAL_RANGE", "val": f"{first} : {last}"}


def chosen(column: str, *values: str) -> dict[str, Any]:
    """A filter on the values of a column."""
    return {"col": column, "op": "IN", "val": list(values)}


class Viewer:
    """A viewer of the Superset at `url`, whose state is in the folder `home`; without a login until `log_in`."""

    def __init__(self, url: str, home: Path) -> None:
        self.url, self.home = url, home
        self.client = httpx.Client(base_url=url, follow_redirects=True, timeout=60)

    def log_in(self, user: str, password: str) -> str:
        """Log in through the form; returns the address of the page that follows."""
        form = self.client.get("/login/").text
        token = re.search(r'csrf_token[^>]*?value="([^"]+)"|"csrf_token": ?"([^"]+)"', form)
        fields = {"username": user, "password": password, "csrf_token": (token[1] or token[2]) if token else ""}
        landed = str(self.client.post("/login/", data=fields).url)
        assert "/login" not in landed
        return landed

    def call(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """One request: status and JSON."""
        headers = {"Accept": "application/json"}
        answer = self.client.request("GET" if body is None else "POST", path, json=body, headers=headers)
        return answer.status_code, answer.json() if answer.text.startswith("{") else {"text": answer.text}

    def question(self, table: str, asked: dict[str, Any], **more: Any) -> dict[str, Any]:
        """The body of a chart-data query on a dataset."""
        return {
            "datasource": {"id": objects(self.home)["tables"][bare(DATASETS[table]["uuid"])], "type": "table"},
            "queries": [{"row_limit": 10_000, "filters": [], "columns": [], "metrics": [], **asked}],
            "result_format": "json",
            "result_type": "full",
            "force": True,
            **more,
        }

    def query(self, table: str, asked: dict[str, Any], **more: Any) -> dict[str, Any]:
        """The result of a chart-data query on a dataset."""
        status, answer = self.call("/api/v1/chart/data", self.question(table, asked, **more))
        assert status == 200, answer
        (result,) = answer["result"]
        assert not result.get("error"), result
        return dict(result)

    def rows(
        self, table: str, columns: list[str], metrics: list[str], *filters: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Metrics of a dataset by these columns."""
        found: list[dict[str, Any]] = self.query(
            table, {"columns": columns, "metrics": metrics, "filters": list(filters)}
        )["data"]
        return found

    def values(self, table: str, metrics: list[str], *filters: dict[str, Any]) -> dict[str, Any]:
        """Metrics of a dataset over all of its rows."""
        (row,) = self.rows(table, [], metrics, *filters)
        return row
