"""The sums of quotas, with the test's own clock."""

from __future__ import annotations

from contextlib import suppress

import pytest
from weir_clickhouse.errors import ServerError
from weir_clickhouse.quotas import Quota, Quotas


def _ask(quotas: Quotas, user: str, bounds: tuple[Quota, ...], rows: int = 0) -> None:
    with quotas.charge(user, "weir_x", bounds) as spent:
        spent.result_rows = rows


def test_a_new_interval_begins_anew() -> None:
    now = [7205.0]
    quotas = Quotas(lambda: now[0])
    bounds = (Quota(60, {"queries": 2}), Quota(3600, {"result_rows": 10}))
    _ask(quotas, "a", bounds, 6)
    _ask(quotas, "a", bounds, 6)
    with pytest.raises(ServerError, match=r"queries = 3/2\. Interval will end at 1970-01-01 02:01:00"):
        _ask(quotas, "a", bounds)
    _ask(quotas, "b", bounds)
    now[0] = 7260.0
    with pytest.raises(ServerError, match=r"for 3600s has been exceeded: result_rows = 12/10"):
        _ask(quotas, "a", bounds)
    now[0] = 10800.0
    _ask(quotas, "a", bounds)


def test_what_fails_is_counted_too() -> None:
    quotas = Quotas(lambda: 0.0)
    bounds = (Quota(60, {"result_rows": 5}),)
    with suppress(RuntimeError), quotas.charge("a", "weir_x", bounds) as spent:
        spent.result_rows = 6
        raise RuntimeError
    with pytest.raises(ServerError, match="result_rows = 6/5"):
        _ask(quotas, "a", bounds)


def test_without_quotas_nothing_is_refused() -> None:
    quotas = Quotas(lambda: 0.0)
    for _ in range(1000):
        _ask(quotas, "a", (), 10**9)
