"""The guard: every address of Superset is refused to those who are no administrators, but for the listed ones; and a
query with anything that is not listed is refused."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import PYTHON, environment

import weir_guard
import weir_requests

#: Runs in Superset's environment: each rule of its URL map, asked by each of these.
_WALK = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import os
os.environ["SUPERSET_HOME"] = os.environ["WEIR_SUPERSET_HOME"]
os.environ["SUPERSET_CONFIG_PATH"] = sys.argv[1] + "/superset_config.py"
from superset.app import create_app
app = create_app()
app.config["RATELIMIT_ENABLED"] = app.config["WTF_CSRF_ENABLED"] = False
with app.app_context():
    from superset import db
    from superset.extensions import security_manager
    import weir_people
    import weir_superset
    sessions = {"public": {}}
    for name, role in (("viewer", "Viewer"), ("customer", "Customer Fjord"), ("editor", "Alpha"), ("admin", "Admin")):
        if role.startswith("Customer"):
            weir_superset._viewer_role(role, [])
            db.session.commit()
        found = security_manager.find_user(name) or security_manager.add_user(
            name, name, name, name + "@weir.invalid", security_manager.find_role(role), "p")
        sessions[name] = {"_user_id": str(found.id), "_fresh": True, "weir_since": time.time(),
            "weir_account": weir_people._identity(found)}
found = []
with app.test_request_context("/"):
    asked = []
    for rule in app.url_map.iter_rules():
        known = {"filename": "nothing", "datasource_type": "table", "table_name": "t"}
        values = {name: known.get(name, 1 if "Integer" in type(c).__name__ or name == "pk" else "1") for name, c in rule._converters.items()}
        for method in sorted(rule.methods - {"OPTIONS"}):
            asked.append((method, rule.rule, rule.build(values)[1]))
for who in sys.argv[2].split():
    for method, rule, path in asked:
        client = app.test_client()
        with client.session_transaction() as session:
            session.update(sessions[who])
        while (answer := client.open(path, method=method)).status_code == 429:
            time.sleep(1)  # Superset's limit of requests a second
        message = (answer.get_json(silent=True) or {}).get("message", "") if answer.is_json else ""
        found.append((who, method, rule, answer.status_code, answer.headers.get("Location", ""), str(message)))
        answer.close()
client = app.test_client()
with client.session_transaction() as session:
    session.update(sessions["admin"])
admin = [client.get(path).status_code for path in ("/api/v1/database/", "/api/v1/security/users/", "/chart/list/")]
print(json.dumps({"found": found, "admin": admin}))
"""


def _walk(home: Path, people: str, **more: str) -> dict[str, Any]:
    command: list[str | Path] = [PYTHON, "-c", _WALK, Path(__file__).resolve().parents[1], people]
    done = subprocess.run(command, env=environment(home, **more), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _refused(method: str, status: int, location: str, message: str) -> bool:
    said = message.startswith("Refused: ") or method == "HEAD"  # whose answers have no body
    return (status == 403 and said) or (status == 302 and location.startswith("/login/?"))


# Whether the dashboards are public changes what visitors reach, and nothing else.
@pytest.mark.parametrize(("public", "people"), [("yes", "public viewer customer editor"), ("no", "public")])
def test_every_address_is_refused_but_the_listed_ones(home: Path, public: str, people: str) -> None:
    walked = _walk(home, people, WEIR_SUPERSET_PUBLIC=public)
    rules = {(method, rule) for _, method, rule, *_ in walked["found"]}
    assert len(rules) > 400
    assert {*people.split()} == {who for who, *_ in walked["found"]}
    for who, method, rule, status, location, message in walked["found"]:
        pages = weir_guard.PAGES if who != "public" or public == "yes" else frozenset()
        listed = (method.replace("HEAD", "GET"), rule) in weir_guard.ENTRY | pages
        refused = _refused(method, status, location, message)
        if not listed:
            assert refused, f"{who} reaches {method} {rule}: {status} {message}"
        elif status == 403 and refused:
            # A body is missing here, not the right.
            assert "is for administrators" not in message, f"{who} does not reach {method} {rule}"
    # Nothing is listed that Superset does not have.
    assert rules >= weir_guard.ENTRY | weir_guard.PAGES
    assert walked["admin"] == [200, 200, 200]


def _asked() -> dict[str, Any]:
    """A request as a browser sends it."""
    return {
        "datasource": {"id": 3, "type": "table"},
        "force": False,
        "queries": [
            {
                "filters": [{"col": "dimension", "op": "IN", "val": ["as"]}],
                "extras": {"time_grain_sqla": None, "having": "", "where": ""},
                "applied_time_extras": {},
                "columns": ["name", {"sqlExpression": "time", "label": "time", "columnType": "BASE_AXIS"}],
                "metrics": ["mix_octets", _aggregate("name")],
                "orderby": [["mix_octets", False]],
                "annotation_layers": [],
                "row_limit": 50,
                "time_range": 'DATEADD(DATETIME("now"), -24, hour) : now',
                "url_params": {"any": "thing"},
                "post_processing": [{"operation": "pivot", "options": {"index": ["time"]}}, {"operation": "flatten"}],
            }
        ],
        "form_data": {"slice_id": 7, "color_scheme": "weir", "tooltip_contents": ["(SELECT 1)"]},
        "result_format": "json",
        "result_type": "full",
    }


def _aggregate(column: str) -> dict[str, Any]:
    kept = {"column_name": column, "expression": "(SELECT 1)"}
    return {"expressionType": "SIMPLE", "column": kept, "aggregate": "COUNT", "label": "count"}


def test_a_browser_s_request_passes_and_is_cut_down() -> None:
    passed = weir_requests.chart_data(_asked())
    assert passed["queries"][0]["columns"] == _asked()["queries"][0]["columns"]
    assert passed["queries"][0]["filters"] == _asked()["queries"][0]["filters"]
    assert passed["form_data"] == {"slice_id": 7}
    assert "SELECT" not in json.dumps(passed)
    assert "any" not in json.dumps(passed)


SQL = "(SELECT 1)"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(
            (key, value)
            for key in ("columns", "groupby", "series_columns")
            for value in ([SQL], [{"sqlExpression": SQL}])
        ),
        ("columns", [{"sqlExpression": "time", "unknown": 1}]),
        ("metrics", [{"expressionType": "SQL", "sqlExpression": SQL, "label": "x"}]),
        ("metrics", [SQL]),
        ("metrics", [_aggregate(SQL)]),
        ("metrics", [{**_aggregate("name"), "aggregate": "any"}]),
        ("orderby", [[SQL, True]]),
        ("orderby", [["name", SQL]]),
        ("series_limit_metric", SQL),
        ("granularity", SQL),
        ("extras", {"where": "1 = 1"}),
        ("extras", {"having": "1 = 1"}),
        ("extras", {"time_grain_sqla": SQL}),
        ("extras", {"unknown": ""}),
        ("filters", [{"col": SQL, "op": "==", "val": 1}]),
        ("filters", [{"col": {"sqlExpression": SQL}, "op": "==", "val": 1}]),
        ("filters", [{"col": "name", "op": "OR 1 = 1", "val": 1}]),
        ("filters", [{"col": "name", "op": "==", "val": {"a": 1}}]),
        ("filters", [{"col": "name", "op": "IN", "val": ["a"] * 1001}]),
        ("annotation_layers", [{"name": "x"}]),
        ("time_offsets", ["1 week ago"]),
        ("row_limit", "1; SELECT"),
        ("post_processing", [{"operation": "resample", "options": {"rule": "1ns"}}]),
        ("time_range", "x" * 201),
        ("filters", [{"col": "time", "op": "TEMPORAL_RANGE", "val": "1 " * 101}]),
        ("unknown", None),
    ],
)
def test_a_query_with_anything_else_is_refused(key: str, value: Any) -> None:
    body = _asked()
    body["queries"][0][key] = value
    with pytest.raises(weir_requests.RefusedError):
        weir_requests.chart_data(body)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("datasource", {"id": 1, "type": "query"}),
        ("datasource", "1__table"),
        ("queries", []),
        ("queries", [{}] * 11),
        ("result_type", "query"),
        ("result_type", "samples"),
        ("result_format", "csv"),
        ("templateParams", '{"_filters": []}'),
        ("custom_cache_timeout", -1),
        ("form_data", {"x_axis": SQL}),
    ],
)
def test_a_request_with_anything_else_is_refused(key: str, value: Any) -> None:
    with pytest.raises(weir_requests.RefusedError):
        weir_requests.chart_data({**_asked(), key: value})


@pytest.mark.parametrize(
    "label", ['x\\", (SELECT 1) AS y, -- ', 'a"b', "a'b", "a`b", "a\nb", "a -- b", "a /* b", "", "x" * 251]
)
def test_a_label_cannot_end_its_quotation(label: str) -> None:
    asked = _asked()
    asked["queries"][0]["metrics"] = [_aggregate("name") | {"label": label}]
    with pytest.raises(weir_requests.RefusedError):
        weir_requests.chart_data(asked)


def test_a_pivot_of_several_columns_makes_no_combinations_that_did_not_come() -> None:
    asked = _asked()
    options = {"index": ["a", "b"], "columns": ["c"], "drop_missing_columns": False}
    asked["queries"][0]["post_processing"] = [{"operation": "pivot", "options": options}]
    (passed,) = weir_requests.chart_data(asked)["queries"][0]["post_processing"]
    assert passed["options"]["drop_missing_columns"] is True


def test_arguments_are_listed_too() -> None:
    kept = weir_requests.arguments({"form_data": '{"slice_id":7}', "dashboard_id": "5"})
    assert {name: json.loads(value) for name, value in kept.items()} == {
        "form_data": {"slice_id": 7},
        "dashboard_id": 5,
    }
    for name, value in (("form_data", '{"adhoc_filters": []}'), ("csv", "true"), ("query", "true"), ("force", SQL)):
        with pytest.raises(weir_requests.RefusedError):
            weir_requests.arguments({name: value})


def test_a_world_map_asks_with_names() -> None:
    kept = {"expressionType": "SIMPLE", "clause": "WHERE", "subject": "dimension", "operator": "==", "comparator": "as"}
    asked = {
        "datasource": "21__table",
        "viz_type": "world_map",
        "entity": "name",
        "metric": "mix_octets",
        "adhoc_filters": [kept],
        "row_limit": 300,
        "where": "1 = 1",
        "linear_color_scheme": "weir",
    }
    (passed,) = weir_requests.legacy_chart({"form_data": json.dumps(asked)}).values()
    assert json.loads(passed) == {key: asked[key] for key in asked if key not in ("where", "linear_color_scheme")}
    for key, value in (
        ("viz_type", "table"),
        ("entity", SQL),
        ("metric", SQL),
        ("adhoc_filters", [{**kept, "subject": SQL}]),
        ("adhoc_filters", [{"expressionType": "SQL", "sqlExpression": SQL, "clause": "WHERE"}]),
        ("extra_filters", [{"col": SQL, "op": "==", "val": 1}]),
        ("extra_form_data", {"filters": [{"col": SQL, "op": "==", "val": 1}]}),
        ("datasource", "1__query"),
        ("time_range", "x" * 201),
        ("extra_form_data", {"time_range": "x" * 201}),
        ("adhoc_filters", [{**kept, "operator": "TEMPORAL_RANGE", "comparator": "x" * 201}]),
    ):
        changed = copy.deepcopy(asked) | {key: value}
        with pytest.raises(weir_requests.RefusedError):
            weir_requests.legacy_chart({"form_data": json.dumps(changed)})
