"""`make check-answers` can compute every list and mix that the jobs write."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

import definitions
from harness import CHECKOUT

COMPUTED: dict[str, Mapping[str, object]] = {
    "top_flows": definitions.flow_lists([]),
    "top_talkers": definitions.talker_lists([], {}),
    "top_indicators": definitions.indicator_lists([], {}, {}),
    "mixes": definitions.mixes([], {}, lambda flow: 0, "all"),
}


@pytest.mark.parametrize("table", sorted(path.stem for path in (CHECKOUT / "clickhouse/lists").glob("*.sql")))
def test_every_list_that_the_jobs_write_has_a_definition(table: str) -> None:
    enumeration = re.search(r"Enum8\(([^)]+)\)", (CHECKOUT / f"clickhouse/lists/{table}.sql").read_text())
    assert enumeration
    assert set(re.findall(r"'(\w+)'", enumeration[1])) == set(COMPUTED[table])
