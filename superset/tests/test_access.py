"""Access rights: a customer's user sees its own rows, viewers send no SQL of their own, and nobody sees anything
without a login if public access is off.
"""

from __future__ import annotations

import http.cookiejar
import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import pytest
from test_live import DATASETS, between, call, question

import weir_assets
import weir_guard
from conftest import CHECKOUT, Store, Superset, python_of

PASSWORD = "test-customer"


class Person:
    """A user who has logged in through the login form."""

    def __init__(self, superset: Superset, user: str, password: str) -> None:
        """Log in. Raises AssertionError if the login fails."""
        self.superset = superset
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        with self.opener.open(f"{superset.url}/login/", timeout=60) as page:
            token = re.search(r'csrf_token[^>]*?value="([^"]+)"|"csrf_token": ?"([^"]+)"', page.read().decode())
        fields = {"username": user, "password": password, "csrf_token": (token[1] or token[2]) if token else ""}
        with self.opener.open(f"{superset.url}/login/", urllib.parse.urlencode(fields).encode(), timeout=60) as page:
            self.landed = page.url
        assert "/login" not in self.landed

    def call(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """One request: status and JSON."""
        return call(self.superset, path, body, self.opener)

    def ask(self, table: str, columns: list[str], metrics: list[str], filters: list[dict[str, Any]]) -> tuple[int, Any]:
        """A chart-data query: status, and the rows or the refusal."""
        status, answer = self.call(
            "/api/v1/chart/data",
            question(self.superset, table, {"columns": columns, "metrics": metrics, "filters": filters}),
        )
        return status, answer["result"][0]["data"] if status == 200 else answer


def make(superset: Superset, name: str, user: str) -> subprocess.CompletedProcess[str]:
    """Run the command `customer`."""
    return subprocess.run(
        [python_of("superset"), str(CHECKOUT / "superset/weir_superset.py"), "customer", name, user],
        env=superset.environment | {"WEIR_SUPERSET_USER_PASSWORD": PASSWORD},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def person(superset: Superset) -> Person:
    """The user of the customer Harbour Hosting."""
    done = make(superset, "Harbour Hosting", "harbour")
    assert done.returncode == 0, done.stderr
    return Person(superset, "harbour", PASSWORD)


def test_a_customer_sees_its_own_rows_alone(superset: Superset, store: Store, person: Person) -> None:
    assert person.landed.endswith("/superset/dashboard/customer/")
    until = store.until // 300 * 300 - 300
    filters = [between(until - 3600, until)]
    for table, metric in (("customer_mixes", "mix_octets"), ("customer_talkers", "talker_octets")):
        status, rows = person.ask(table, ["customer_name"], [metric], filters)
        assert status == 200
        assert [row["customer_name"] for row in rows] == ["Harbour Hosting"]
    truth = f"SELECT sum(octets) FROM v_mixes WHERE scope = 'customer' AND customer_name = 'Harbour Hosting' AND ts >= {until - 3600} AND ts < {until}"
    assert int(person.ask("customer_mixes", [], ["mix_octets"], filters)[1][0]["mix_octets"]) == int(
        store.ask(truth)[0][0]
    )
    # A query for another customer by name returns nothing; and the list of choices has one name.
    other = [*filters, {"col": "customer_name", "op": "IN", "val": ["Fjord Power"]}]
    assert person.ask("customer_mixes", ["customer_name"], ["mix_octets"], other) == (200, [])
    assert person.ask("customers", ["customer_name"], [], []) == (200, [{"customer_name": "Harbour Hosting"}])
    # The suspects of the test data belong to another customer.
    _, rows = person.ask("customer_suspects", ["host", "customer_name"], ["suspect_value"], filters)
    assert rows == [{"host": "nobody", "customer_name": "Harbour Hosting", "suspect_value": 0}]


@pytest.mark.parametrize("table", sorted(set(DATASETS) - set(weir_assets.CUSTOMER_DATASETS)))
def test_a_customer_reads_no_other_dataset(person: Person, table: str) -> None:
    status, answer = person.ask(table, [DATASETS[table]["columns"][0]["column_name"]], [], [])
    assert status == 403, answer


def test_a_customer_changes_and_asks_nothing_else(person: Person) -> None:
    for path, body in (
        ("/api/v1/sqllab/execute/", {"database_id": 1, "sql": "SELECT 1"}),
        ("/api/v1/dashboard/", {"dashboard_title": "mine"}),
        ("/api/v1/rowlevelsecurity/", None),
        ("/api/v1/dataset/", None),
        ("/api/v1/database/", None),
    ):
        assert person.call(path, body)[0] in (400, 401, 403, 404), path


SUBQUERY = "(SELECT sum(octets) FROM v_mixes)"


@pytest.mark.parametrize(
    ("columns", "metrics", "more"),
    [
        ([], [{"expressionType": "SQL", "sqlExpression": SUBQUERY, "label": "x"}], {}),
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
    superset: Superset, person: Person, columns: list[Any], metrics: list[Any], more: dict[str, Any]
) -> None:
    """For every dataset and every user, with a customer's name or without any."""
    body = question(superset, "customer_mixes", {"columns": columns, "metrics": metrics, **more})
    for status, answer in (person.call("/api/v1/chart/data", body), call(superset, "/api/v1/chart/data", body)):
        assert status == 403, answer
        assert "Refused" in answer["message"]
    query = urllib.parse.quote(json.dumps(body))
    assert person.call(f"/superset/explore_json/?form_data={query}")[0] in (400, 403, 405)


def test_the_guard_lets_names_through() -> None:
    assert (
        weir_guard.refused(
            {"columns": ["name", {"sqlExpression": "time", "label": "time"}], "orderby": [["mix_octets", False]]}
        )
        is None
    )
    assert weir_guard.refused({"queries": [{"extras": {"where": "", "having": ""}, "annotation_layers": []}]}) is None
    assert weir_guard.refused([None, {"form_data": '{"metrics": ["max(x)"]}'}]) is not None
    assert weir_guard.refused({"form_data": "no JSON"}) is None


def test_customer_says_what_is_wrong(superset: Superset, person: Person) -> None:
    done = make(superset, "Nobody at all", "nobody")
    assert done.returncode == 2
    assert (
        "no customer is named 'Nobody at all'; there are 'Fjord Power', 'Harbour Hosting', 'Northern University'"
        in done.stderr
    )
    done = make(superset, "Fjord Power", "harbour")
    assert done.returncode == 2
    assert "the user 'harbour' already exists, with another role" in done.stderr


def test_a_shut_door(superset: Superset) -> None:
    """With WEIR_SUPERSET_PUBLIC=no an anonymous visitor sees nothing; the customers' users are as before."""
    shut = superset.beside({"WEIR_SUPERSET_PUBLIC": "no"})
    with shut as other:
        status, _ = call(
            other, "/api/v1/chart/data", question(superset, "mixes", {"columns": ["name"], "metrics": ["mix_octets"]})
        )
        assert status in (401, 403)
        assert call(other, "/api/v1/dashboard/nation")[0] in (401, 403, 404)
        with urllib.request.urlopen(other.url + "/", timeout=60) as page:
            assert "/login" in page.url
        assert Person(other, "harbour", PASSWORD).ask("customers", ["customer_name"], [], [])[0] == 200
