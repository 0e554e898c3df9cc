"""Access rights: a customer's user sees its own rows, viewers send no SQL of their own, and nobody sees anything
without a login if public access is off.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from typing import Any

import pytest

import page_traffic
import weir_assets
from harness import RunningStack
from viewers import DATASETS, Viewer, between, chosen
from weir.clickhouse import ClickHouse

from .conftest import OWN, Traffic

SUBQUERY = "(SELECT sum(octets) FROM v_mixes)"


@pytest.fixture(scope="module")
def person(viewer: Viewer, login: tuple[str, str]) -> Viewer:
    """The customer's user, who has logged in."""
    person = Viewer(viewer.url, viewer.home)
    assert person.log_in(*login).endswith("/superset/dashboard/customer/")
    return person


def test_a_customer_sees_its_own_rows_alone(
    viewer: Viewer, person: Viewer, store: ClickHouse, traffic: Traffic
) -> None:
    within = between(traffic.begin, traffic.end)
    for table, metric in (("customer_mixes", "mix_octets"), ("customer_talkers", "talker_octets")):
        assert [row["customer_name"] for row in person.rows(table, ["customer_name"], [metric], within)] == [OWN]
    truth = f"probe = 'north' AND ts >= {traffic.begin} AND ts < {traffic.end} AND ({page_traffic.of_customer(OWN)})"
    (raw,) = store.rows(f"SELECT sum(fwd_octets + rev_octets) AS octets FROM flows WHERE {truth}")
    volume = person.values("customer_mixes", ["mix_octets"], within, chosen("dimension", "total"))
    assert int(volume["mix_octets"]) == raw["octets"] > 0
    # A query for another customer by name returns nothing; and the list of choices has one name.
    other = chosen("customer_name", "Fjord Power")
    assert viewer.rows("customer_mixes", ["customer_name"], ["mix_octets"], within, other)
    assert person.rows("customer_mixes", ["customer_name"], ["mix_octets"], within, other) == []
    assert person.rows("customers", ["customer_name"], []) == [{"customer_name": OWN}]
    # Every customer has a row, including the one that has no suspect.
    seen = {row["customer_name"] for row in viewer.rows("customer_suspects", ["customer_name"], [], within)}
    assert seen == {*page_traffic.CUSTOMERS}
    quiet = viewer.rows("customer_suspects", ["host"], ["suspect_value"], within, chosen("customer_name", "Quiet Quay"))
    assert quiet == [{"host": "nobody", "suspect_value": 0}]
    own = person.rows("customer_suspects", ["customer_name"], [], within)
    assert own == [{"customer_name": OWN}]


@pytest.mark.parametrize("table", sorted(set(DATASETS) - set(weir_assets.CUSTOMER_DATASETS)))
def test_a_customer_reads_no_other_dataset(person: Viewer, table: str) -> None:
    column = DATASETS[table]["columns"][0]["column_name"]
    status, answer = person.call("/api/v1/chart/data", person.question(table, {"columns": [column]}))
    assert status == 403, answer


def test_a_customer_changes_and_asks_nothing_else(person: Viewer) -> None:
    for path, body in (
        ("/api/v1/sqllab/execute/", {"database_id": 1, "sql": "SELECT 1"}),
        ("/api/v1/dashboard/", {"dashboard_title": "mine"}),
        ("/api/v1/rowlevelsecurity/", None),
        ("/api/v1/dataset/", None),
        ("/api/v1/database/", None),
    ):
        assert person.call(path, body)[0] in (400, 401, 403, 404), path


def test_viewers_read_and_nothing_more(viewer: Viewer) -> None:
    assert viewer.call("/api/v1/dashboard/nation")[0] == 200
    assert viewer.call("/api/v1/dashboard/", {"dashboard_title": "mine"})[0] in (400, 401, 403)
    assert viewer.call("/api/v1/sqllab/execute/", {"database_id": 1, "sql": "SELECT 1"})[0] in (400, 401, 403)
    status, answer = viewer.call("/api/v1/database/")
    assert status in (401, 403), answer


@pytest.mark.parametrize(
    ("columns", "metrics", "more"),
    [
        ([], [{"expressionType": "SQL", "sqlExpression": SUBQUERY, "label": "x"}], {}),
        # A table behind the views.
        ([], [{"expressionType": "SQL", "sqlExpression": "(SELECT count() FROM flows)", "label": "x"}], {}),
        ([], [{"expressionType": "SQL", "sqlExpression": "countIf(name IN v_customers)", "label": "x"}], {}),
        (
            [{"expressionType": "SQL", "sqlExpression": "dictGet('customer_names', 'customer', 1)", "label": "x"}],
            ["mix_octets"],
            {},
        ),
        (["dictGet('customer_names', 'customer', 1)"], ["mix_octets"], {}),
        (["name"], ["mix_octets"], {"extras": {"where": f"1 = {SUBQUERY}"}}),
        (["name"], ["mix_octets"], {"extras": {"having": "1 = 1"}}),
        (["name"], ["mix_octets"], {"orderby": [[SUBQUERY, True]]}),
        (["name"], ["mix_octets"], {"annotation_layers": [{"name": "x", "value": 1, "sourceType": "line"}]}),
        (
            ["name"],
            ["mix_octets"],
            {"filters": [{"col": {"sqlExpression": SUBQUERY, "label": "x"}, "op": "==", "val": 1}]},
        ),
    ],
)
def test_viewers_write_no_sql(
    viewer: Viewer, person: Viewer, columns: list[Any], metrics: list[Any], more: dict[str, Any]
) -> None:
    """For every dataset and every user, with a customer's name or without any."""
    body = viewer.question("customer_mixes", {"columns": columns, "metrics": metrics, **more})
    for one in (person, viewer):
        status, answer = one.call("/api/v1/chart/data", body)
        assert status == 403, answer
        assert "Refused" in answer["message"]
    query = urllib.parse.quote(json.dumps(body))
    assert person.call(f"/superset/explore_json/?form_data={query}")[0] in (400, 403, 405)


def test_customer_says_what_is_wrong(stack: RunningStack, person: Viewer) -> None:
    done = stack.weir("customer", "Nobody at all", "nobody")
    assert done.status == 2
    named = ", ".join(f"'{name}'" for name in page_traffic.CUSTOMERS)
    assert f"no customer is named 'Nobody at all'; there are {named}" in " ".join(done.err.split())
    done = stack.weir("customer", "Fjord Power", "harbour")
    assert done.status == 2
    assert "the user 'harbour' already exists, with another role" in " ".join(done.err.split())


def test_the_policy_forbids_the_outside(viewer: Viewer) -> None:
    policy = viewer.client.get("/superset/dashboard/nation/").headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert not re.search(r"https?:|\*", policy)


def test_the_front_page_is_the_dashboard(viewer: Viewer) -> None:
    assert viewer.client.get("/").url == f"{viewer.url}/superset/dashboard/now/"
