"""The tree of assets by itself: Superset's importer accepts dangling references, so these tests look for them."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml

import weir_assets
import weir_templates

BUNDLE: dict[str, dict[str, Any]] = {name: yaml.safe_load(text) for name, text in weir_assets.bundle().items()}
DATASETS = {thing["uuid"]: thing for name, thing in BUNDLE.items() if name.startswith("datasets/")}
CHARTS = {name: thing for name, thing in BUNDLE.items() if name.startswith("charts/")}
DASHBOARDS = {name: thing for name, thing in BUNDLE.items() if name.startswith("dashboards/")}
# Chart types of this Superset release that were checked.
VIZ_TYPES = {
    "big_number",
    "big_number_total",
    "echarts_area",
    "echarts_timeseries_line",
    "echarts_timeseries_bar",
    "mixed_timeseries",
    "sankey_v2",
    "table",
    "world_map",
}
# Datasets that a filter's list may come from: never records.
SMALL = {"probes", "customers", "directions", "filter_sets", "flow_lists", "hosts"}
# Datasets without a time range.
TIMELESS = {*SMALL, "host_days"}


def test_the_filters_page_knows_the_fixed_sets() -> None:
    """A set that every agent or collector counts is not a good first choice."""
    sql = next(thing["sql"] for thing in DATASETS.values() if thing["table_name"] == "filters")
    excluded = re.search(r"counter_set NOT IN \((.*?)\)", sql)
    schema = (weir_assets.FOLDER.parents[1] / "schemas/counters.proto").read_text()
    assert excluded
    assert re.findall(r"'(\w+)'", excluded[1]) == re.findall(r"^//   (\w+)  ", schema, re.MULTILINE)


def test_every_file_is_of_a_known_kind_and_has_its_own_uuid() -> None:
    uuids = [thing["uuid"] for name, thing in BUNDLE.items() if name != "metadata.yaml"]
    assert len(set(uuids)) == len(uuids)
    assert all(uuid.UUID(one).version == 5 for one in uuids)
    kinds = {name.split("/")[0] for name in BUNDLE}
    assert kinds == {"metadata.yaml", "databases", "datasets", "charts", "dashboards", "queries"}
    assert BUNDLE["metadata.yaml"]["type"] == "assets"


def test_uuids_never_change() -> None:
    """Addresses and bookmarks hold UUIDs, so a UUID must depend on the file's name alone."""
    assert weir_assets.uuid_of("dashboards", "nation") == BUNDLE["dashboards/nation.yaml"]["uuid"]
    assert weir_assets.uuid_of("dashboards", "nation") == "83d7f870-25bd-56f0-a13c-64fa542e3c99"


def test_datasets_belong_to_the_database() -> None:
    assert {thing["database_uuid"] for thing in DATASETS.values()} == {BUNDLE["databases/weir.yaml"]["uuid"]}


def test_no_password_in_the_assets() -> None:
    assert re.fullmatch(r"clickhousedb://dashboard@weir:8123/weir", BUNDLE["databases/weir.yaml"]["sqlalchemy_uri"])


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=lambda one: one["table_name"])
def test_dataset(dataset: dict[str, Any]) -> None:
    columns = [column["column_name"] for column in dataset["columns"]]
    metrics = [metric["metric_name"] for metric in dataset["metrics"]]
    assert len(set(columns)) == len(columns)
    assert len(set(metrics)) == len(metrics)
    assert not set(columns) & set(metrics), "a metric with the name of a column is refused by ClickHouse (error 184)"
    shown = [metric["verbose_name"] for metric in dataset["metrics"]]
    assert len(set(shown)) == len(shown), "Superset refuses a query with two metrics of one label"
    assert all(column["description"] for column in dataset["columns"])
    assert all(metric["description"] and metric["d3format"] for metric in dataset["metrics"])
    times = [column for column in dataset["columns"] if column["is_dttm"]]
    if dataset["table_name"] not in TIMELESS:
        assert dataset["main_dttm_col"] == "time"
        assert [(column["column_name"], column["expression"]) for column in times] == [("time", "ts")]
        assert not next(column for column in dataset["columns"] if column["column_name"] == "ts")["is_dttm"]
    # Names in the metrics are columns or functions of ClickHouse.
    for metric in dataset["metrics"]:
        bare = re.sub(r"'[^']*'", "", metric["expression"])
        names = set(re.findall(r"\b[a-z_]\w*\b(?!\s*\()", bare))
        assert names <= set(columns), f"{metric['metric_name']} names {names - set(columns)}"


@pytest.mark.parametrize("name", CHARTS)
def test_chart_names_what_is_there(name: str) -> None:
    chart = CHARTS[name]
    assert chart["viz_type"] in VIZ_TYPES
    assert chart["params"]["viz_type"] == chart["viz_type"]
    assert chart["description"]
    dataset = DATASETS[chart["dataset_uuid"]]
    columns = {column["column_name"] for column in dataset["columns"]}
    metrics = {metric["metric_name"] for metric in dataset["metrics"]}
    params = chart["params"]
    asked = [
        *params.get("metrics", []),
        *params.get("metrics_b", []),
        *([params["metric"]] if "metric" in params else []),
    ]
    assert asked
    assert set(asked) <= metrics
    assert params.get("timeseries_limit_metric", asked[0]) in metrics
    assert {*params.get("groupby", []), *params.get("groupby_b", [])} <= columns
    assert {params[key] for key in ("source", "target", "entity") if key in params} <= columns
    conditions = [one for key in params if key.startswith("adhoc_filters") for one in params[key]]
    assert {one["subject"] for one in conditions} <= columns
    assert params.get("x_axis", next(iter(columns))) in columns
    assert params.get("x_axis_sort", asked[0]) in columns | metrics
    assert set(params.get("column_config", {})) <= set(asked) | set(params.get("groupby", []))
    assert {one["column"] for one in params.get("conditional_formatting", [])} <= set(asked)
    timed = [one["subject"] for one in conditions if one["operator"] == "TEMPORAL_RANGE"]
    assert set(timed) == ({"time"} if dataset["main_dttm_col"] else set())


def _lists(column: str) -> dict[str, set[str]]:
    """The names of lists, and of the dimensions of mixes, by table."""
    found = {}
    for path in (weir_assets.FOLDER.parents[1] / "clickhouse/lists").glob("*.sql"):
        if enum := re.search(rf"MODIFY COLUMN {column} Enum8\(([^)]*)\)", path.read_text()):
            found[path.stem] = set(re.findall(r"'(\w+)'", enum[1]))
    return found


@pytest.mark.parametrize("column", ["list", "dimension"])
def test_a_chart_names_lists_that_the_jobs_write(column: str) -> None:
    chosen = 0
    for name, chart in CHARTS.items():
        views = set(re.findall(r"\bv_(\w+)", DATASETS[chart["dataset_uuid"]]["sql"] or ""))
        known = {
            one
            for table, names in _lists(column).items()
            if table in {v.removesuffix("_daily") for v in views}
            for one in names
        }
        params = chart["params"]
        for one in [one for key in params if key.startswith("adhoc_filters") for one in params[key]]:
            if one["subject"] == column:
                value = one["comparator"]
                assert set(value if isinstance(value, list) else [value]) <= known, (name, value)
                chosen += 1
    assert chosen > 3


def _placed(name: str) -> list[dict[str, Any]]:
    nodes = DASHBOARDS[name]["position"].values()
    return [node["meta"] for node in nodes if isinstance(node, dict) and node["type"] == "CHART"]


def test_every_chart_is_on_a_dashboard_and_every_place_has_its_chart() -> None:
    placed = {name: _placed(name) for name in DASHBOARDS}
    assert {meta["uuid"] for page in placed.values() for meta in page} == {chart["uuid"] for chart in CHARTS.values()}
    for page in placed.values():
        assert all(isinstance(meta["chartId"], int) for meta in page)
        assert len({meta["chartId"] for meta in page}) == len({meta["sliceName"] for meta in page}) == len(page)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_explains_itself(name: str) -> None:
    """Text stands at the top, and every link in it leads to an existing dashboard."""
    nodes = DASHBOARDS[name]["position"]
    first = nodes[nodes["GRID_ID"]["children"][0]]["children"][0]
    assert nodes[first]["type"] == "MARKDOWN"
    slugs = {dashboard["slug"] for dashboard in DASHBOARDS.values()}
    for node in nodes.values():
        if isinstance(node, dict) and node["type"] == "MARKDOWN":
            assert set(re.findall(r"\]\(/superset/dashboard/([\w-]*)/\)", node["meta"]["code"])) <= slugs
    assert DASHBOARDS[name]["description"]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_layout_hangs_together(name: str) -> None:
    nodes = {key: node for key, node in DASHBOARDS[name]["position"].items() if isinstance(node, dict)}
    children = [child for node in nodes.values() for child in node.get("children", [])]
    assert len(set(children)) == len(children)
    assert set(children) == set(nodes) - {"ROOT_ID", "HEADER_ID"}
    for node in nodes.values():
        if node["type"] == "ROW":
            assert sum(nodes[child]["meta"]["width"] for child in node["children"]) == 12


@pytest.mark.parametrize("name", DASHBOARDS)
def test_filters(name: str) -> None:
    metadata = DASHBOARDS[name]["metadata"]
    assert metadata["refresh_frequency"] in (0, 30, 60)
    time, *lists = metadata["native_filter_configuration"]
    default = time["defaultDataMask"]["extraFormData"]["time_range"]
    # A preset of the picker, or words that Superset reads (it knows no hours): the filter shows them as they are here.
    assert re.fullmatch(r"Last (day|\d+ minutes)", default)
    shown = {meta["uuid"] for meta in _placed(name)}
    datasets = [DATASETS[chart["dataset_uuid"]] for chart in CHARTS.values() if chart["uuid"] in shown]
    for one in lists:
        (target,) = one["targets"]
        listed = DATASETS[target["datasetUuid"]]
        assert listed["table_name"] in SMALL
        column = target["column"]["name"]
        assert column in {have["column_name"] for have in listed["columns"]}
        # The filter has an effect: charts use datasets that have the column, or whose SQL asks for the choice.
        asks = f'filter_values, "{column}"', f"filter_values('{column}')", "chosen_host" if column == "host" else "?"
        assert any(
            column in {have["column_name"] for have in dataset["columns"]} or any(ask in dataset["sql"] for ask in asks)
            for dataset in datasets
        )


#: Names of which a window lists only the largest, and how many: a list 50, a mix of AS 20. It adds up the others.
LISTED = {"application", "as", "customer", "host_in", "host_out", "port_tcp", "port_udp"}
LISTS = {"dimension": ("five-minute", {"as": 20}), "list": ("30-second", {})}


def test_a_chart_of_sums_says_which_windows_they_cover() -> None:
    """A sum over a day covers only windows in which the name was among the largest."""
    checked = 0
    for name, chart in CHARTS.items():
        if DATASETS[chart["dataset_uuid"]]["table_name"].removeprefix("customer_") in ("mixes", "talkers"):
            for one in chart["params"]["adhoc_filters"]:
                if one["subject"] in LISTS and one["comparator"] in LISTED:
                    window, fewer = LISTS[one["subject"]]
                    most = fewer.get(one["comparator"], 50)
                    words = rf"{window} windows that list (it|them|the host) among the {most} largest"
                    assert re.search(words, chart["description"]), name
                    checked += 1
    assert checked > 8
    for page, words in (("nation", "20 largest AS and 50 largest app"), ("customer", "20 largest autonomous systems")):
        assert words in yaml.safe_dump(DASHBOARDS[f"dashboards/{page}.yaml"]["position"], width=10_000), page


def test_the_page_of_a_customer_shows_one() -> None:
    """Traffic between two customers is in the rows of both: a sum over several of them would count it twice."""
    (chosen,) = [
        one
        for one in DASHBOARDS["dashboards/customer.yaml"]["metadata"]["native_filter_configuration"]
        if one["name"] == "Customer"
    ]
    assert (
        chosen["controlValues"] | {"multiSelect": False, "enableEmptyFilter": True, "defaultToFirstItem": True}
        == (chosen["controlValues"])
    )
    assert chosen["requiredFirst"]
    for name in weir_assets.CUSTOMER_DATASETS:
        if name != "customers":
            for metric in BUNDLE[f"datasets/weir/{name}.yaml"]["metrics"]:
                assert "if(uniqExact(customer_id) > 1, NULL, " in metric["expression"], (name, metric)


def test_a_sum_of_nothing_is_not_known_to_be_zero() -> None:
    """Where nothing has arrived, a page says so, and neither "0 worms" nor "100 % complete"."""
    known = {
        (dataset["table_name"], metric["metric_name"])
        for dataset in DATASETS.values()
        for metric in dataset["metrics"]
        if not metric["expression"].startswith("if(count() = 0, NULL, ")
    }
    # Nobody reports, and no alert is open: that is known.
    assert known == {("ledger", "probes_reporting"), ("alerts", "alerts_open")}


def test_completeness_and_missing_are_one_measure() -> None:
    """Both leave out the intervals without a report, which have a measure of their own on the same pages."""
    metrics = {one["metric_name"]: one["expression"] for one in BUNDLE["datasets/weir/ledger.yaml"]["metrics"]}
    assert "sum(missing)" in metrics["completeness"]
    assert metrics["packets_missing"] == "if(count() = 0, NULL, sum(missing))"
    assert metrics["reports_share"] == "if(count() = 0, NULL, floor(1 - sum(intervals_unknown) / sum(intervals), 5))"
    assert metrics["reports_missing"] == "if(count() = 0, NULL, sum(intervals_unknown))"
    for page in ("fleet", "nation"):
        shown = {meta["sliceName"] for meta in _placed(f"dashboards/{page}.yaml")}
        assert {"Completeness", "Reports"} <= shown, page


@pytest.mark.parametrize("base", ["mixes", "rates", "suspects", "talkers"])
def test_a_dataset_of_customers_reads_customers_alone(base: str) -> None:
    """It shares the SQL of its base but not the choice of a scope; row-level security filters on `customer_id`."""
    whole, customers = (BUNDLE[f"datasets/weir/{name}.yaml"] for name in (base, f"customer_{base}"))
    assert customers["sql"] == "{% set of_customers = true -%}\n" + whole["sql"]
    other = "'probe'" if base == "rates" else "scope_of(filter_values)"
    assert f"{{% set scope = 'customer' if of_customers else {other} -%}}" in whole["sql"]
    assert re.findall(r"\.scope = (\S+ \S+ \S+)", whole["sql"]) == ["'{{ scope }}'"]
    columns, of_customers = ({column["column_name"] for column in one["columns"]} for one in (whole, customers))
    assert columns - of_customers >= {"probe"}
    assert of_customers - columns == {"customer_id"}


def test_colours_are_of_things_that_are_there() -> None:
    metrics = {metric["metric_name"] for dataset in DATASETS.values() for metric in dataset["metrics"]}
    for label, colour in yaml.safe_load((weir_assets.FOLDER / "colors.yaml").read_text()).items():
        assert re.fullmatch(r"#[0-9A-F]{6}", colour)
        # Columns that look like metrics are metrics; others are labels in the data.
        assert "_" not in label or label in metrics


def test_the_dashboards_user_may_read_what_the_datasets_read() -> None:
    access = yaml.safe_load((Path(__file__).resolve().parents[2] / "clickhouse/access.yaml").read_text())
    role = access["roles"][access["users"]["dashboard"]["role"]]
    allowed = {table.removeprefix("weir.") for table in role["tables"]}
    for dataset in DATASETS.values():
        sql = re.sub(r"--.*", "", dataset["sql"]) if dataset["sql"] else f"FROM {dataset['table_name']}"
        named = set(re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", sql))
        assert named - set(re.findall(r"(\w+) AS\s*\(", sql)) - {"numbers"} <= allowed
    assert role["readonly"] is True


def test_a_wrong_name_is_an_error(tmp_path: Path) -> None:
    """The check itself: it rejects a chart of a missing dataset."""
    for path in weir_assets.FOLDER.rglob("*"):
        if path.is_file():
            copy = tmp_path / path.relative_to(weir_assets.FOLDER)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(path.read_text().replace("dataset: talkers", "dataset: guests"))
    with pytest.raises(KeyError, match="guests"):
        weir_assets.bundle(tmp_path)


def test_only_tables_with_links_render_html_and_texts_of_strangers_are_escaped() -> None:
    tables = {name: chart for name, chart in CHARTS.items() if chart["viz_type"] == "table"}
    rendered = {name for name, chart in tables.items() if chart["params"]["allow_render_html"]}
    assert 5 < len(rendered) < len(tables)
    outside = {
        "server_name",
        "dns_query",
        "text",
        "subject",
        "label",
        "counter_set",
        "name",
        "description",
        "interface_name",
    }
    shown = {name: outside & {str(one) for one in tables[name]["params"].get("groupby", ())} for name in rendered}
    assert {column for columns in shown.values() for column in columns} == {
        "server_name",
        "dns_query",
        "label",
        "counter_set",
    }
    sql = (weir_assets.FOLDER / "datasets/weir/address.sql").read_text()
    assert "encodeXMLComponent(r.server_name)" in sql
    assert "encodeXMLComponent(r.dns_query)" in sql
    assert {name for name in rendered if "graph" in tables[name]["params"]["groupby"]} == {
        "charts/filter_now.yaml",
        "charts/now_filters.yaml",
    }
    graphs = (weir_assets.FOLDER / "datasets/weir/filter_graphs.sql").read_text()
    assert "encodeXMLComponent(graphs.counter_set)" in graphs
    assert "encodeXMLComponent(graphs.label)" in graphs


def test_every_list_of_hosts_has_words() -> None:
    text = (Path(__file__).resolve().parents[2] / "clickhouse/lists/top_indicators.sql").read_text()
    assert list(weir_templates.FINDINGS) == re.findall(r"'(\w+)' = \d+", text)


@pytest.mark.parametrize(("minutes", "window"), [(5, 30), (60, 30), (61, 300), (1440, 300)])
def test_counters_are_read_in_half_minutes_up_to_an_hour(minutes: int, window: int) -> None:
    until = f"2026-11-27T{minutes // 60 % 24:02}:{minutes % 60:02}:00"
    since = "2026-11-27T00:00:00" if minutes < 1440 else "2026-11-26T00:00:00"
    assert weir_templates.counter_window(since, until) == window
    assert weir_templates.counter_window(None, until) == 300
