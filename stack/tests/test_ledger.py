"""The ledger's lines about exporters."""

from __future__ import annotations

import collections
import io
import re
from typing import Any
from unittest import mock

import pytest
from rich.console import Console
from typer.testing import CliRunner

from weir import ledger
from weir.cli import app
from weir.commands import asking
from weir.config import CHECKOUT
from weir.errors import WeirError
from weir.ledger import _TAKEN, _of_exporters


def test_what_was_taken_is_no_loss() -> None:
    refused = {
        "ipfix 192.0.2.1 domain 0, time_clamped": 3,
        "ipfix 192.0.2.1 domain 0, repeated": 2,
        "ipfix 192.0.2.1 domain 0, bad_template": 1,
        "ipfix 192.0.2.1 domain 0, may_be_repeated": 4,
    }
    nothing: dict[str, int] = {}
    rows = [
        {
            "time": "2026-11-22T10:00:00Z",
            "probe": "routers",
            "worker": 0,
            "exporter_lost": nothing,
            "exporter_without_sampling_rate": nothing,
            "exporter_sampling": nothing,
            "exporter_refused": counts,
        }
        for counts in (refused, {"ipfix 192.0.2.1 domain 0, repeated": 5})
    ]
    found = {one.text: one.loss for one in _of_exporters(rows)}
    assert found == {
        "ipfix 192.0.2.1 domain 0: 1 were unreadable (bad template)": True,
        "ipfix 192.0.2.1 domain 0: 4 running totals counted nothing: what came before them is unknown": True,
        "ipfix 192.0.2.1 domain 0: 7 arrived twice and were stored once": False,
        "ipfix 192.0.2.1 domain 0: 3 records were stored at the time of their export: theirs was impossible": False,
    }


def test_the_view_of_exporters_names_the_same_causes() -> None:
    """`v_exporters` counts as refused what `weir ledger` reports as unreadable."""
    [named] = re.findall(
        r"\[([^\]]+)\] AS nothing_missing", (CHECKOUT / "clickhouse/views/v_exporters.sql").read_text()
    )
    assert {name.strip(" '") for name in named.split(",")} == set(_TAKEN)


def test_a_probe_that_nobody_knows_is_an_error_with_the_nearest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    store = mock.Mock()
    store.rows.side_effect = lambda sql: [{"probe": "border"}, {"probe": "campus"}] if "UNION" in sql else []
    monkeypatch.setattr(asking, "connect", lambda *_: store)
    done = CliRunner().invoke(app, ["ledger", "--probe", "bordre"])
    assert isinstance(done.exception, WeirError)
    assert (str(done.exception), done.exception.hint) == ("no probe is named 'bordre'", "known: border")


def test_the_sentence_that_matters_comes_last() -> None:
    row: dict[str, Any] = collections.defaultdict(int, dict.fromkeys(ledger.totals([]), 0))
    row |= {column: {} for column, _, _ in ledger._EXPORTERS} | {"not_metered": {}}
    row |= {"time": "2026-11-22T12:00:00Z", "probe": "border", "state": "missing"}
    shown = io.StringIO()
    assert not ledger.show(Console(file=shown, width=200), [row] * 40)
    last = shown.getvalue().strip().splitlines()[-1]
    assert last.startswith("lost 0 packets, dropped 0: 1 of 1 probes (border);")
