"""Converts the tree assets/, written for people, to the bundle of files that Superset imports.

In the tree files refer to each other by file name: a chart says `dataset: traffic`, the dashboard `chart: top_flows`. A
dataset with a `.sql` beside it is virtual, and so is one with `customers_of`, which takes another's SQL. This module
turns the names into UUIDs (version 5, of one namespace, so that they are the same everywhere and for ever), and adds the
settings that every dataset and chart shares. It imports nothing of Superset.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

FOLDER = Path(__file__).resolve().parent / "assets"
NAMESPACE = uuid.UUID("6b3f2c0e-6d5e-5b0a-9a56-0d0f7f5a7e11")
VERSION = "1.0.0"
DATABASE = "weir"

# The datasets' SQL makes the points of time charts, so the charts ask for no grain.
_TIME_CHARTS = {"big_number", "echarts_area", "echarts_timeseries_line", "echarts_timeseries_bar", "mixed_timeseries"}
COLORS = "weir"
# A customer's role has this prefix and the customer's name; it may read these datasets, and only its own rows in them.
CUSTOMER_ROLE = "Customer "
CUSTOMER_DATASETS = ("customer_mixes", "customer_rates", "customer_talkers", "customer_suspects", "customers")
_SERIES_DEFAULTS: dict[str, Any] = {
    "color_scheme": COLORS,
    "legendOrientation": "top",
    "legendType": "scroll",
    "show_legend": True,
    "rich_tooltip": True,
    "showTooltipTotal": True,
    "tooltipTimeFormat": "%Y-%m-%d %H:%M:%S",
    "x_axis_time_format": "%d %b %H:%M",
    "row_limit": 10000,
    "sort_series_type": "sum",
    "sort_series_ascending": False,
    "truncate_metric": True,
    "show_empty_columns": True,
}
# Each chart obeys the time filter, and each top list has an end: badges that say so on every chart only distract.
CSS = """\
.filter-counts, [data-test="slice-header"] [data-test="warning"] {display: none !important;}
.dashboard-markdown h3 {margin-top: 0;}
"""
DEFAULTS: dict[str, dict[str, Any]] = {
    "big_number": {
        "header_font_size": 0.4,
        "subheader_font_size": 0.15,
        "show_trend_line": True,
        "time_format": "%Y-%m-%d %H:%M",
        "rolling_type": "None",
    },
    "big_number_total": {"header_font_size": 0.4, "subheader_font_size": 0.15},
    "echarts_area": {**_SERIES_DEFAULTS, "seriesType": "line", "stack": "Stack", "opacity": 0.7, "only_total": True},
    "echarts_timeseries_line": {**_SERIES_DEFAULTS, "seriesType": "line", "opacity": 0.2},
    "echarts_timeseries_bar": {**_SERIES_DEFAULTS, "orientation": "vertical"},
    "mixed_timeseries": {
        "color_scheme": COLORS,
        "legendOrientation": "top",
        "legendType": "scroll",
        "show_legend": True,
        "rich_tooltip": True,
        "tooltipTimeFormat": "%Y-%m-%d %H:%M:%S",
        "x_axis_time_format": "%d %b %H:%M",
        "row_limit": 10000,
        "row_limit_b": 10000,
        "truncate_metric": True,
        "truncate_metric_b": True,
    },
    "sankey_v2": {"color_scheme": COLORS, "row_limit": 30, "sort_by_metric": True},
    "world_map": {
        "country_fieldtype": "cca2",
        "linear_color_scheme": COLORS,
        "color_scheme": COLORS,
        "color_by": "metric",
        "show_bubbles": False,
        "max_bubble_size": "25",
        "row_limit": 300,
    },
    "table": {
        "query_mode": "aggregate",
        "show_cell_bars": True,
        "table_timestamp_format": "%Y-%m-%d %H:%M:%S",
        "percent_metrics": [],
        "all_columns": [],
        "order_by_cols": [],
    },
}


def uuid_of(kind: str, name: str) -> str:
    """The UUID of the asset `name` of the kind databases, datasets, charts or dashboards."""
    return str(uuid.uuid5(NAMESPACE, f"{kind}/{name}"))


def address_with(dashboard: str, name: str, column: str) -> tuple[str, str, str]:
    """The address of a dashboard with one value of its filter `name` chosen, as text before, between and after the
    value.

    The value appears twice, as the condition of the queries and as the text in the filter. In Rison, as the browser
    itself writes it; percent-encoded, so that it may stand in an attribute.
    """
    node = filter_id(dashboard, name)
    parts = (
        f"({node}:(extraFormData:(filters:!((col:{column},op:IN,val:!('",
        "')))),filterState:(value:!('",
        f"')),id:{node},ownState:()))",
    )
    before, between, after = (quote(part, safe="():!,") for part in parts)
    return f"/superset/dashboard/{dashboard}/?native_filters={before}", between, after


def bundle(folder: Path = FOLDER) -> dict[str, str]:
    """Every file that Superset's importer needs: its path and its YAML text.

    Raises KeyError if an asset refers to a name that does not exist.
    """
    made = {
        "metadata.yaml": _read(folder / "metadata.yaml"),
        f"databases/{DATABASE}.yaml": {
            **_read(folder / f"databases/{DATABASE}.yaml"),
            "uuid": uuid_of("databases", DATABASE),
            "version": VERSION,
        },
    }
    datasets = {path.stem: _dataset(path) for path in sorted((folder / "datasets" / DATABASE).glob("*.yaml"))}
    made |= {f"datasets/{DATABASE}/{name}.yaml": dataset for name, dataset in datasets.items()}
    charts = {path.stem: _chart(path, datasets) for path in sorted((folder / "charts").glob("*.yaml"))}
    made |= {f"charts/{name}.yaml": chart for name, chart in charts.items()}
    colors = _read(folder / "colors.yaml")
    for path in sorted((folder / "dashboards").glob("*.yaml")):
        made[f"dashboards/{path.stem}.yaml"] = _dashboard(path, charts, datasets, colors)
    for path in sorted((folder / "queries").glob("*.yaml")):
        made[f"queries/{DATABASE}/weir/{path.stem}.yaml"] = _query(path)
    return {name: yaml.safe_dump(content, sort_keys=False, allow_unicode=True) for name, content in made.items()}


def _read(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text())
    assert isinstance(content, dict), f"{path} is not a mapping"
    return content


def _sources(path: Path) -> tuple[dict[str, Any], str | None]:
    """A dataset as its file describes it, and its SQL (None if the dataset is a view).

    With `customers_of: talkers` the dataset has the SQL, the metrics and the columns of `talkers`, except columns that
    its own file describes or lists in `without`. In that SQL `of_customers` is then true: one row for each customer.
    Traffic between two customers is in the rows of both, so a metric of rows of several customers is NULL.
    """
    dataset = _read(path)
    if "customers_of" not in dataset:
        sql = path.with_suffix(".sql")
        return dataset, sql.read_text() if sql.exists() else None
    base, sql_of_base = _sources(path.with_name(f"{dataset.pop('customers_of')}.yaml"))
    own = {column["column_name"]: column for column in dataset["columns"]}
    kept = {column["column_name"]: column for column in base["columns"]}
    for name in dataset.pop("without"):
        del kept[name]
    metrics = [
        {**metric, "expression": f"if(uniqExact(customer_id) > 1, NULL, {metric['expression']})"}
        for metric in base["metrics"]
    ]
    return (
        {**base, **dataset, "columns": list({**kept, **own}.values()), "metrics": metrics},
        f"{{% set of_customers = true -%}}\n{sql_of_base}",
    )


def _metric(metric: dict[str, Any]) -> dict[str, Any]:
    """A metric that is NULL where there are no rows: a sum of nothing is not known to be 0. With `none_is_zero: true` it is."""
    known = metric.get("none_is_zero", False)
    plain = metric["expression"]
    described = {name: value for name, value in metric.items() if name != "none_is_zero"}
    return {"extra": None, **described, "expression": plain if known else f"if(count() = 0, NULL, {plain})"}


def _dataset(path: Path) -> dict[str, Any]:
    dataset, sql = _sources(path)
    columns = [
        {"is_dttm": False, "is_active": True, "groupby": True, "filterable": True, **column}
        for column in dataset["columns"]
    ]
    timed = any(column["column_name"] == "ts" for column in columns)
    if timed:
        # Superset names the rounded time after the column, and ClickHouse then reads that name in WHERE as the rounded
        # one (apache/superset 40807). A calculated column keeps the two apart.
        columns.append(
            {
                "column_name": "time",
                "verbose_name": "Time",
                "type": "DateTime",
                "expression": "ts",
                "is_dttm": True,
                "is_active": True,
                "groupby": True,
                "filterable": True,
                "description": "Time, UTC",
            }
        )
    return {
        **dataset,
        "columns": columns,
        "metrics": [_metric(metric) for metric in dataset["metrics"]],
        "sql": sql,
        "schema": "weir",
        "main_dttm_col": "time" if timed else None,
        "filter_select_enabled": True,
        "offset": 0,
        "uuid": uuid_of("datasets", path.stem),
        "database_uuid": uuid_of("databases", DATABASE),
        "version": VERSION,
    }


def _chart(path: Path, datasets: dict[str, dict[str, Any]]) -> dict[str, Any]:
    chart = _read(path)
    dataset = chart.pop("dataset")
    viz_type = chart["viz_type"]
    params = {**DEFAULTS[viz_type], **chart["params"], "viz_type": viz_type}
    if viz_type == "table":
        # Other tables show what came from outside, such as the texts of alerts, as it is written.
        params["allow_render_html"] = any(
            str(column).endswith("_link") or column == "graph" for column in params.get("groupby", ())
        )
    timed = bool(datasets[dataset]["main_dttm_col"])
    # A mixed chart sends two queries: parameters that end in _b belong to the second.
    for end in ("", "_b") if viz_type == "mixed_timeseries" else ("",):
        params[f"adhoc_filters{end}"] = _conditions(params.pop(f"filters{end}", {}), timed)
    if timed:
        params["granularity_sqla"] = "time"
    if viz_type in _TIME_CHARTS:
        params.setdefault("x_axis", "time")
        params["time_grain_sqla"] = None
    return {
        **chart,
        "params": params,
        "query_context": None,
        "cache_timeout": None,
        "uuid": uuid_of("charts", path.stem),
        "dataset_uuid": datasets[dataset]["uuid"],
        "is_managed_externally": True,
        "version": VERSION,
    }


def _conditions(equal_to: dict[str, Any], timed: bool) -> list[dict[str, Any]]:
    """Conditions of a chart: columns that equal a value, or one of a list; and the placeholder for the dashboard's
    time.
    """
    conditions = [
        {
            "clause": "WHERE",
            "expressionType": "SIMPLE",
            "operator": "IN" if isinstance(value, list) else "==",
            "subject": column,
            "comparator": value,
        }
        for column, value in equal_to.items()
    ]
    if timed:
        conditions.append(
            {
                "clause": "WHERE",
                "expressionType": "SIMPLE",
                "operator": "TEMPORAL_RANGE",
                "subject": "time",
                "comparator": "No filter",
            }
        )
    return conditions


def _query(path: Path) -> dict[str, Any]:
    """A saved query: its name and description, and the SQL beside it."""
    query = _read(path)
    return {
        "schema": "weir",
        "catalog": None,
        "label": query["label"],
        "description": query["description"],
        "sql": path.with_suffix(".sql").read_text(),
        "uuid": uuid_of("queries", path.stem),
        "version": VERSION,
        "database_uuid": uuid_of("databases", DATABASE),
    }


def _dashboard(
    path: Path, charts: dict[str, dict[str, Any]], datasets: dict[str, dict[str, Any]], colors: dict[str, str]
) -> dict[str, Any]:
    dashboard = _read(path)
    numbers = {name: number for number, name in enumerate(charts, start=1)}
    rows = dashboard.pop("rows")
    filters = [_filter(path.stem, one, datasets) for one in dashboard.pop("filters")]
    refresh_seconds = dashboard.pop("refresh_seconds")
    return {
        **dashboard,
        "css": CSS,
        "position": _position(dashboard["dashboard_title"], rows, charts, numbers),
        "metadata": {
            "refresh_frequency": refresh_seconds,
            "native_filter_configuration": filters,
            "filter_bar_orientation": "HORIZONTAL",
            "cross_filters_enabled": True,
            "chart_configuration": {},
            "global_chart_configuration": {"scope": {"rootPath": ["ROOT_ID"], "excluded": []}},
            "color_scheme": COLORS,
            "label_colors": colors,
            "shared_label_colors": [],
            "expanded_slices": {},
            "timed_refresh_immune_slices": [],
            "default_filters": "{}",
        },
        "published": True,
        "uuid": uuid_of("dashboards", path.stem),
        "is_managed_externally": True,
        "version": VERSION,
    }


def filter_id(dashboard: str, name: str) -> str:
    """The id of a dashboard's filter."""
    return f"NATIVE_FILTER-{uuid_of('filters', f'{dashboard}/{name}')}"


def _filter(dashboard: str, one: dict[str, Any], datasets: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A native filter; it applies to every chart whose dataset has the column, whichever dataset lists the choices.

    With `required: true` the page begins with the first choice, and always has one.
    """
    default = one.get("default")
    required = one.get("required", False)
    target = (
        {"datasetUuid": datasets[one["dataset"]]["uuid"], "column": {"name": one["column"]}} if "dataset" in one else {}
    )
    return {
        "id": filter_id(dashboard, one["name"]),
        "name": one["name"],
        "description": one["description"],
        "filterType": one["type"],
        "type": "NATIVE_FILTER",
        "targets": [target],
        "scope": {"rootPath": ["ROOT_ID"], "excluded": []},
        "cascadeParentIds": [],
        "controlValues": {
            "enableEmptyFilter": required,
            "multiSelect": one.get("several", True),
            "creatable": one.get("typed", False),
            "searchAllOptions": one.get("typed", False),
            "inverseSelection": False,
            "defaultToFirstItem": required,
        },
        "requiredFirst": required,
        "defaultDataMask": {
            "extraFormData": {"time_range": default} if default else {},
            "filterState": {"value": default} if default else {},
            "ownState": {},
        },
    }


def _position(
    title: str, rows: list[dict[str, Any]], charts: dict[str, dict[str, Any]], numbers: dict[str, int]
) -> dict[str, Any]:
    """Superset's layout: a flat mapping of nodes that name their children and parents."""
    nodes: dict[str, Any] = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"id": "ROOT_ID", "type": "ROOT", "children": ["GRID_ID"]},
        "HEADER_ID": {"id": "HEADER_ID", "type": "HEADER", "meta": {"text": title}},
        "GRID_ID": {"id": "GRID_ID", "type": "GRID", "children": [], "parents": ["ROOT_ID"]},
    }
    for row_number, row in enumerate(rows, start=1):
        row_id = f"ROW-{row_number}"
        nodes["GRID_ID"]["children"].append(row_id)
        nodes[row_id] = {
            "id": row_id,
            "type": "ROW",
            "children": [],
            "parents": ["ROOT_ID", "GRID_ID"],
            "meta": {"background": "BACKGROUND_TRANSPARENT"},
        }
        for cell_number, cell in enumerate(row["cells"], start=1):
            meta: dict[str, Any] = {"width": cell["width"], "height": row["height"]}
            if "chart" in cell:
                chart = charts[cell["chart"]]
                kind, name = "CHART", cell["chart"]
                meta |= {"uuid": chart["uuid"], "chartId": numbers[name], "sliceName": chart["slice_name"]}
            else:
                kind, name = "MARKDOWN", f"{row_number}-{cell_number}"
                meta["code"] = cell["markdown"]
            node_id = f"{kind}-{name}"
            nodes[row_id]["children"].append(node_id)
            nodes[node_id] = {
                "id": node_id,
                "type": kind,
                "children": [],
                "parents": ["ROOT_ID", "GRID_ID", row_id],
                "meta": meta,
            }
    return nodes
