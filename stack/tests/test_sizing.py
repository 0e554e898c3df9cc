"""Sizing: the tiers add up, and grow with the flows."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from weir import sizing
from weir.cli import app
from weir.config import CHECKOUT, Storage
from weir.errors import WeirError

SITE = sizing.Plan(flows_a_second=2_000, probes=1, raw_days=14, hourly_years=3, daily_years=10)
NATION = sizing.Plan(flows_a_second=100_000, probes=200, raw_days=3, hourly_years=1, daily_years=10)


@pytest.mark.parametrize("plan", [SITE, NATION])
def test_the_whole_is_the_sum_of_its_tiers(plan: sizing.Plan) -> None:
    assert plan.octets == pytest.approx(sum(t.rows_a_day * t.octets_a_row * t.days for t in plan.tiers))
    assert plan.disk_octets > plan.octets
    raw = plan.tiers[0]
    assert raw.rows_a_day == plan.flows_a_second * 86_400 * sizing.RECORDS_A_FLOW.value
    assert plan.cores * sizing.RECORDS_A_CORE.value * sizing.INSERT_SHARE >= plan.records_a_second


def test_twice_the_days_are_twice_the_raw_records_and_no_more_of_others() -> None:
    longer = dataclasses.replace(SITE, raw_days=28)
    assert longer.tiers[0].octets == 2 * SITE.tiers[0].octets
    assert longer.tiers[1:] == SITE.tiers[1:]


def test_a_site_fits_one_machine_and_a_nation_does_not() -> None:
    assert SITE.machines == 1
    assert NATION.machines > 1


@pytest.mark.parametrize("change", [{"flows_a_second": 0}, {"raw_days": -1}, {"hourly_years": 0}])
def test_what_cannot_be_is_refused_by_name(change: dict[str, float]) -> None:
    with pytest.raises(WeirError, match=next(iter(change)).replace("_", " ")):
        dataclasses.replace(SITE, **change)


def test_the_command_prints_the_plan_with_the_sources_of_its_numbers() -> None:
    words = ["storage", "plan", "--flows-per-second", "2000", "--raw-days", "14", "--hourly-years", "3"]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0
    assert "259,200,000" in shown.stdout
    made = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert made["octets"] == pytest.approx(SITE.octets)
    assert all(one["source"] for one in made["constants"].values())


def test_the_command_takes_retention_from_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_HOME", str(tmp_path))

    def days(*more: str) -> list[float]:
        words = ["storage", "plan", "--flows-per-second", "2000", "--json", *more]
        return [tier["days"] for tier in json.loads(CliRunner().invoke(app, words).stdout)["tiers"][:2]]

    assert days() == pytest.approx([Storage().raw_days, Storage().hourly_days])
    (tmp_path / "weir.yaml").write_text("storage: {raw_days: 5, hourly_days: 730}\n")
    assert days() == pytest.approx([5, 730])
    assert days("--raw-days", "6", "--hourly-years", "1") == pytest.approx([6, 365])


def test_the_page_shows_what_the_command_prints() -> None:
    page = (CHECKOUT / "docs/explanation/sizing.md").read_text()
    for plan in (SITE, NATION):
        text = io.StringIO()
        plan.show(Console(file=text, width=130))
        for line in text.getvalue().splitlines():
            assert f"    {line.rstrip()}\n" in page
