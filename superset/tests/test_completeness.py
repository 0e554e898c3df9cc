"""Completeness, missing packets and missing reports: what each covers, in the dataset and its metrics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

import testdata
import weir_assets
from conftest import PASSWORDS, Store
from rendered import rendered

METRICS = {
    metric["metric_name"]: metric["expression"]
    for metric in yaml.safe_load(weir_assets.bundle()["datasets/weir/ledger.yaml"])["metrics"]
}
#: Worker that no other test names.
WORKER = 11


@pytest.fixture(scope="module")
def moment(store: Store) -> Iterator[int]:
    """A moment days before the rows of the fixture, at which three probes have ten intervals each.

    `whole` is complete, and stored one interval twice; `silent` reported nothing; in each of two intervals, `lossy`
    dropped 10 of its 100 packets, and another one waited in its ring for the next interval.
    """
    begin = (store.until - 4 * 86400) // 600 * 600
    columns = "ts, interval_ms, probe, worker, version, state, on_interface_packets, in_ring_packets, captured_packets, dropped, flow_packets"
    rows = []
    for at in range(begin, begin + 100, 10):
        rows.append(f"({at}, 10000, 'whole', {WORKER}, 1, 'closed', 100, 0, 100, map(), 100)")
        rows.append(f"({at}, 10000, 'silent', {WORKER}, 1, 'missing', 0, 0, 0, map(), 0)")
        lost, waits = 10 * (at < begin + 20), int(at == begin)
        wire = 100 + waits - (at == begin + 10)
        rows.append(
            f"({at}, 10000, 'lossy', {WORKER}, 1, 'closed', {wire}, {waits}, {100 - lost}, map('ring', {lost}), {100 - lost})"
        )
    _admin(store, f"INSERT INTO ledger ({columns}) VALUES {', '.join(rows)}")
    stored = (
        "INSERT INTO flows (ts, interval_ms, probe, worker, epoch, sequence, fwd_packets, protocol, ip_version) SELECT"
    )
    _admin(store, f"{stored} {begin} + 10 * number, 10000, 'whole', {WORKER}, 1, number, 100, 6, 4 FROM numbers(10)")
    _admin(store, f"{stored} {begin}, 10000, 'whole', {WORKER}, 2, 1, 100, 6, 4")
    lossy = "100 - 10 * (number < 2)"
    _admin(
        store, f"{stored} {begin} + 10 * number, 10000, 'lossy', {WORKER}, 1, number, {lossy}, 6, 4 FROM numbers(10)"
    )
    yield begin
    for table in ("ledger", "flows"):
        _admin(store, f"ALTER TABLE {table} DELETE WHERE worker = {WORKER} SETTINGS mutations_sync = 2")


def _admin(store: Store, sql: str) -> None:
    testdata.execute(store.url, sql, password=PASSWORDS["WEIR_PASSWORD_ADMIN"])


def _shown(store: Store, moment: int, *probes: str, seconds: int = 600) -> dict[str, float | None]:
    """The metrics that the pages show for these probes."""
    names = ("completeness", "packets_missing", "packets_doubled", "reports_share", "reports_missing")
    asked = ", ".join(METRICS[name] for name in names)
    sql = rendered("ledger", moment, moment + seconds)
    (row,) = store.ask(f"SELECT {asked} FROM ({sql}) WHERE probe IN {(*probes, 'none')}")
    return {name: None if value == "\\N" else float(value) for name, value in zip(names, row, strict=True)}


def test_a_silent_probe_lowers_reports_and_nothing_else(store: Store, moment: int) -> None:
    """With nothing missing of what was reported, completeness is 100 %: the two cannot contradict each other."""
    found = _shown(store, moment, "whole", "silent")
    assert found["packets_missing"] == 0
    assert found["completeness"] == 1
    assert found["reports_share"] == 0.5
    assert found["reports_missing"] == 10
    assert _shown(store, moment, "silent")["completeness"] is None, "nothing is known"


def test_completeness_is_what_is_not_missing(store: Store, moment: int) -> None:
    found = _shown(store, moment, "lossy")
    assert (found["packets_missing"], found["completeness"]) == (20, 0.98)
    assert (found["reports_share"], found["packets_doubled"]) == (1, 0)
    # A packet that waits in the ring is missing in no interval.
    assert _shown(store, moment, "lossy", seconds=10) | {"packets_missing": 10, "completeness": 0.9} == _shown(
        store, moment, "lossy", seconds=10
    )


def test_what_is_stored_twice_hides_no_loss(store: Store, moment: int) -> None:
    found = _shown(store, moment, "whole", "lossy")
    assert (found["packets_missing"], found["packets_doubled"]) == (20, 100)
    assert found["completeness"] == 0.99
