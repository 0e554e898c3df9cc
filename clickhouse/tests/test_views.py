"""A SELECT on every view succeeds, and the access file gives each role the tables, limits and quotas that the project intends."""

from __future__ import annotations

import re

import pytest
import yaml
from conftest import FOLDER, Server

from weir_schema import files

#: Views with parameters.
_PARAMETERS = {"v_network": "(network = '10.0.0.0/8')"}

#: What bounds one statement of a role: seconds, octets of memory, rows of its answer (0: unbounded), statements at once.
_LIMITS = {
    "analyst": (120, 4_000_000_000, 10_000_000, 8),
    "dashboard": (60, 4_000_000_000, 0, 16),
    "networks": (120, 4_000_000_000, 10_000_000, 4),
    "customer": (60, 2_000_000_000, 10_000_000, 4),
}
#: What bounds one user of a role in an hour: statements, rows of answers, rows read for them (0: unbounded), seconds.
_HOURLY = {
    "analyst": (10_000, 200_000_000, 1_000_000_000_000, 14_400),
    "dashboard": (100_000, 0, 0, 86_400),
    "networks": (10_000, 200_000_000, 1_000_000_000_000, 14_400),
    "customer": (2_000, 50_000_000, 200_000_000_000, 3_600),
}
#: The views that customers may read. A row is theirs by columns that name a customer, never by another.
_CUSTOMERS = [
    "weir.hosts",
    "weir.v_customers",
    "weir.v_flows",
    "weir.v_hourly",
    "weir.v_indicators",
    "weir.v_mixes",
    "weir.v_mixes_daily",
    "weir.v_national_talkers_daily",
    "weir.v_port_report",
    "weir.v_rates",
    "weir.v_sites",
    "weir.v_talkers_daily",
    "weir.v_top_flows",
    "weir.v_top_indicators",
    "weir.v_top_talkers",
]
_NAMES_CUSTOMERS = {"customer", "src_customer", "dst_customer"}


@pytest.mark.parametrize("view", files.views())
def test_a_view_can_be_read(server: Server, migrated: str, view: str) -> None:
    # A view's own text is resolved when it is read; `*` asks for all its columns.
    place = view if "." in view else f"{migrated}.{view}"
    header = server.sql(f"SELECT * FROM {place}{_PARAMETERS.get(view, '')} LIMIT 0 FORMAT TSVWithNames", database=migrated)
    assert header.split("\t")[0]


def test_every_view_is_among_them(server: Server, migrated: str) -> None:
    made = server.sql(f"SELECT name FROM system.tables WHERE database IN ('{migrated}', 'ntopng') AND engine = 'View'").split()
    assert sorted(made) == sorted(name.removeprefix("ntopng.") for name in files.views())


def test_roles_may_spend_what_is_meant() -> None:
    roles = yaml.safe_load((FOLDER / "access.yaml").read_text())["roles"]
    assert set(roles) == {"admin", "writer", *_LIMITS}
    limits, hourly = {}, {}
    for name in _LIMITS:
        found = roles[name].pop("limits")
        settings = ("max_execution_time", "max_memory_usage", "max_result_rows", "max_concurrent_queries_for_user")
        limits[name] = tuple(found.pop(setting, 0) for setting in settings)
        assert not found, name
        (quota,) = roles[name].pop("quota")
        assert quota.pop("interval") == "1 hour"
        hourly[name] = tuple(quota.pop(bound, 0) for bound in ("queries", "result_rows", "read_rows", "execution_time"))
        assert not quota, name
        assert roles[name]["readonly"] is True
        assert roles[name]["grants"] == ["select"]
    assert limits == _LIMITS
    assert hourly == _HOURLY


def test_customers_see_the_views_that_are_meant_by_columns_that_name_customers() -> None:
    customer = yaml.safe_load((FOLDER / "access.yaml").read_text())["roles"]["customer"]
    assert sorted(customer["rows"]) == sorted(_CUSTOMERS)
    assert "tables" not in customer
    for view, columns in customer["rows"].items():
        assert set(columns) <= _NAMES_CUSTOMERS, view


@pytest.mark.parametrize("view", sorted(set(files.views()) - set(_PARAMETERS)))
def test_a_view_declares_its_columns_as_it_selects_them(server: Server, migrated: str, view: str) -> None:
    """The list of columns before a view's SELECT has their types and comments: two that were swapped would go
    unnoticed."""
    database, name = view.split(".") if "." in view else (migrated, view)
    of_view = f"database = '{database}' AND {{}} = '{name}'"
    selects = server.sql(f"SELECT as_select FROM system.tables WHERE {of_view.format('name')} FORMAT TSVRaw")
    selected = server.sql(f"DESCRIBE ({selects}) FORMAT TSV", database=migrated).splitlines()
    declared = server.sql(f"SELECT name FROM system.columns WHERE {of_view.format('table')} ORDER BY position").split()
    assert [line.split("\t")[0] for line in selected] == declared


def test_hosts_of_one_scan_are_one_signature(server: Server, weir: str) -> None:
    """Six hosts send to 22 and 2222, each in its own proportion, one of them to a third port by chance; others send elsewhere."""
    hosts = [("10.0.0.1", "22:500,2222:500", 3)]
    hosts += [(f"10.0.0.{n}", f"22:{990 - 90 * n},2222:{10 + 90 * n}", 3) for n in range(2, 6)]
    hosts += [
        ("10.0.0.6", "22:600,443:5,2222:395", 3),
        ("10.0.0.7", "22:1000", 3),
        ("10.0.0.8", "", 3),
        ("10.0.0.9", "22:500,2222:500", 0),
    ]
    rows = ", ".join(
        f"('2026-11-20 10:00:00', 30, 'all', '', {rank}, 1, '::ffff:{host}', true, 10, {packets}, '{signature}')"
        for rank, (host, signature, packets) in enumerate(hosts, 1)
    )
    columns = "ts, window_s, scope, probe, rank, version, addr, local, syn_sent, tcp_packets, port_signature"
    server.sql(f"INSERT INTO {weir}.port_report ({columns}) VALUES {rows}")
    asked = server.sql(
        f"SELECT ports, port_signature, hosts, hosts_local, syn_sent FROM {weir}.v_signatures ORDER BY hosts DESC, ports"
    )
    found = [line.split("\t") for line in asked.splitlines()]
    assert found == [["22,2222", "22:633,2222:366", "6", "6", "60"], ["", "", "1", "1", "10"], ["22", "22:1000", "1", "1", "10"]]


def _rates(server: Server, weir: str, begin: str) -> None:
    """110 windows of a link, of which the probe reported 100, and 10 of these had traffic: 1 to 10 Mbit/s in, half of that out."""
    server.sql(f"INSERT INTO {weir}.prefixes (id, prefix, customer_id, customer) VALUES (1, '10.1.0.0/16', 11, 'Fjord Power')")
    server.sql(f"SYSTEM RELOAD DICTIONARY {weir}.customer_names")
    window = f"toDateTime('{begin}', 'UTC') + number * 300"
    columns = "ts, interval_ms, probe, worker, version, state"
    for workers, states in ((1, "if(number < 100, 'closed', 'missing')"), (2, "if(number < 50, 'closing_missing', 'missing')")):
        server.sql(
            f"INSERT INTO {weir}.ledger ({columns}) SELECT {window} + 290, 10000, 'link', {workers}, 1, {states} FROM numbers(110)"
        )
    server.sql(f"INSERT INTO {weir}.ledger ({columns}) SELECT {window}, 10000, 'gone', 0, 1, 'stopped' FROM numbers(110)")
    for scope, probe, customer in (("probe", "link", 0), ("all", "", 0), ("customer", "", 11)):
        for direction, octets in (("in", "number * 37500000"), ("out", "number * 18750000")):
            server.sql(
                f"INSERT INTO {weir}.mixes (ts, window_s, scope, probe, customer, dimension, direction, rank, version, octets, packets)"
                f" SELECT {window.replace('number', 'number * 7')}, 300, '{scope}', '{probe}', {customer}, 'total', '{direction}', 1, 1,"
                f" {octets}, 1 FROM numbers(1, 10)"
            )


def test_windows_without_traffic_lower_a_percentile(server: Server, weir: str) -> None:
    """The documented query. Of 100 windows 95 are at or below 5 Mbit/s; over the rows of mixes alone it would be 10."""
    _rates(server, weir, "2025-11-20 00:00:00")
    page = (FOLDER.parent / "docs/how-to/twenty-questions.md").read_text()
    query = "\n".join(re.findall(r"^    (.*)$", page[page.index("the 95th percentile of a link") :], re.MULTILINE))
    assert "v_rates" in query
    month = query.replace("2026-11", "2025-11").replace("2026-12", "2025-12")
    assert server.sql(month, database=weir) == "link\t100\t95\t5\t2.5\t7.5"
    of_customers = month.replace("scope = 'probe'", "scope = 'customer'").replace("probe", "customer")
    assert server.sql(of_customers, database=weir) == "Fjord Power\t100\t95\t5\t2.5\t7.5"
    of_all = month.replace("scope = 'probe'", "scope = 'all'")
    assert server.sql(of_all, database=weir) == "\t100\t95\t5\t2.5\t7.5"


def test_rates_of_other_times_are_not_read(server: Server, weir: str) -> None:
    _rates(server, weir, "2025-11-20 00:00:00")
    server.sql(
        f"INSERT INTO {weir}.mixes (ts, window_s, scope, dimension, direction, rank, version, octets, packets)"
        f" SELECT toDateTime('2025-10-01 00:00:00', 'UTC') + intDiv(number, 100) * 300, 300, 'all', 'total', 'in', number % 100, 1, 1, 1"
        f" FROM numbers(200000)"
    )
    plan = server.sql(
        f"EXPLAIN indexes = 1 SELECT sum(octets) FROM {weir}.v_rates WHERE scope = 'all' AND ts >= '2025-11-20 00:00:00'"
        f" AND ts < '2025-11-20 01:00:00'"
    )
    read = plan[plan.index(f"({weir}.mixes)") :]
    granules = re.findall(r"Granules: (\d+)/(\d+)", read)
    assert granules
    assert min(int(kept) for kept, _ in granules) <= 3, plan


def test_a_window_that_may_not_be_written_yet_has_no_rate(server: Server, weir: str) -> None:
    """A window is reported by the ledger before its mix is stored: it must not count as one without traffic."""
    server.sql(
        f"INSERT INTO {weir}.ledger (ts, interval_ms, probe, worker, version, state) SELECT toStartOfFiveMinutes(now('UTC') - 120) - number * 300,"
        f" 10000, 'link', 0, 1, 'closed' FROM numbers(3)"
    )
    newest = server.sql(f"SELECT count(), now('UTC') - max(ts) >= 300 + 120 FROM {weir}.v_rates WHERE scope = 'probe'")
    assert newest == "2\t1"
