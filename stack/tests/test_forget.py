"""Cases that `weir forget` refuses before it removes anything."""

from __future__ import annotations

from typing import Any, cast

import pytest
from rich.console import Console

from weir import forget
from weir.clickhouse import ClickHouse
from weir.errors import WeirError
from weir.stages import Stages


class _Replicated:
    """A node whose flows_local has a replica on another node."""

    def rows(self, sql: str, **_: Any) -> list[dict[str, Any]]:
        assert "total_replicas > 1" in sql
        return [{"database": "weir", "table": "flows_local"}]


def test_tables_with_replicas_on_other_nodes_are_refused() -> None:
    found = [forget.Found("weir.flows_local", 3, {"src_addr": 3}), forget.Found("system.query_log", 1)]
    with (
        Stages(Console(quiet=True)) as stages,
        pytest.raises(WeirError, match=r"nothing was removed: weir\.flows_local:"),
    ):
        forget.forget(cast(ClickHouse, _Replicated()), forget.network("192.0.2.7"), stages, found)
