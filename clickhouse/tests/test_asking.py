"""One name and one type for one thing in all views, what would find nothing is refused, and the page's statements find what they ask for."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import pytest
from conftest import FOLDER, Server, roll_up, with_access
from weir_clickhouse import slips
from weir_clickhouse.errors import ServerError
from weir_clickhouse.statement import parse

from weir_schema import files

PAGE = FOLDER.parent / "docs/how-to/ask-in-sql.md"
#: The views under names that others gave them.
_OTHERS = {"ntopng.flows"}
#: What a column with one of these names is, in every view that has it.
TYPES = {
    "text": [
        "application",
        "customer",
        "src_customer",
        "dst_customer",
        "protocol_name",
        "src",
        "dst",
        "host",
        "service",
        "src_site",
        "dst_site",
    ],
    "address": ["addr", "src_addr", "dst_addr"],
    "number": [
        "application_id",
        "customer_id",
        "src_customer_id",
        "dst_customer_id",
        "octets",
        "packets",
        "src_as",
        "dst_as",
        "src_port",
        "dst_port",
    ],
}
_KINDS = {"text": r"String", "address": r"IPv6", "number": r"UInt\d+"}


def _columns() -> dict[str, dict[str, str]]:
    """The type of each column of each view."""
    found = {}
    for name, statement in files.views().items():
        if name not in _OTHERS:
            declared = files._columns_of(statement)
            found[name] = {column: one.split(" COMMENT ")[0].split(" ", 1)[1] for column, one in declared.items()}
    return found


@pytest.mark.parametrize(("kind", "column"), [(kind, column) for kind, columns in TYPES.items() for column in columns])
def test_a_name_has_one_type(kind: str, column: str) -> None:
    types = {view: columns[column] for view, columns in _columns().items() if column in columns}
    assert len(types) > 1, "no other view has it"
    assert all(re.fullmatch(_KINDS[kind], one) for one in types.values()), types


def test_a_thing_has_one_name() -> None:
    """What a view shows as text it also has to compare, and what it has of both directions it adds up."""
    together = {
        "src": "src_addr",
        "dst": "dst_addr",
        "host": "addr",
        "fwd_octets": "octets",
        "fwd_packets": "packets",
        "received_octets": "octets",
    }
    without = defaultdict(set)
    for view, columns in _columns().items():
        for column, wanted in together.items():
            if column in columns and wanted not in columns:
                without[view].add(wanted)
    # What the ledger received is no direction.
    assert dict(without) == {"v_ledger": {"octets"}}
    old = {"customer_name", "src_customer_name", "dst_customer_name", "application_name"}
    assert not {view for view, columns in _columns().items() if old & set(columns)}


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT 1 FROM v_flows WHERE protocol_name = 'tcp'", "'TCP'"),
        ("SELECT 1 FROM v_flows AS f WHERE f.protocol_name != 'icmpv6'", "'ICMPv6'"),
        ("SELECT 1 FROM v_flows WHERE protocol_name NOT IN ('TCP', 'Udp')", "'UDP'"),
        ("SELECT 1 FROM v_flows WHERE `protocol_name`='Gre'", "'GRE'"),
        ("SELECT 1 FROM v_flows WHERE isIPAddressInRange(src_addr, '10.0.0.0/8')", "weir_in(src_addr"),
        ("SELECT isipaddressinrange( h.addr , '10.0.0.0/8') FROM v_hosts AS h", "(host)"),
    ],
)
def test_what_finds_nothing_is_refused(sql: str, says: str) -> None:
    with pytest.raises(ServerError) as refused:
        slips.refuse(parse(sql.encode(), complete=True))
    assert refused.value.code == 36
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT protocol_name FROM v_flows WHERE protocol_name IN ('TCP', 'ICMPv6', '99')",
        "SELECT 'tcp' AS protocol_name",
        "SELECT lower(protocol_name) = 'tcp' FROM v_flows",
        "SELECT protocol_name ILIKE 'tcp' FROM v_flows",
        "SELECT isIPAddressInRange(src, '10.0.0.0/8') FROM v_flows",
        "SELECT isIPAddressInRange(weir_addr(src_addr), '10.0.0.0/8') FROM v_flows",
        "SELECT protocol_name",
        "SELECT isIPAddressInRange(",
        "SELECT isIPAddressInRange",
    ],
)
def test_what_may_find_something_is_not(sql: str) -> None:
    slips.refuse(parse(sql.encode(), complete=True))


@pytest.fixture(scope="module")
def filled() -> Iterator[Server]:
    """Two customers at two sites, who exchange traffic on two days, and a scan of one of them."""
    with with_access(
        lambda tree: tree["users"].update(fjord={"role": "customer", "customers": ["Fjord Power"]}, nets={"role": "networks"})
    ) as server:
        server.sql(
            "INSERT INTO weir.prefixes (id, prefix, customer_id, customer, site_id, site) VALUES"
            " (1, '10.1.0.0/16', 11, 'Fjord Power', 1, 'Oslo'), (2, '10.2.0.0/16', 12, 'Harbour', 2, 'Bergen')"
        )
        server.sql("INSERT INTO weir.applications (number, name) VALUES (5, 'DNS'), (91, 'TLS')")
        server.sql("INSERT INTO weir.services (port, protocol, name) VALUES (443, 6, 'https'), (53, 17, 'domain')")
        for name in ("prefix_names", "customer_names", "application_names", "service_names"):
            server.sql(f"SYSTEM RELOAD DICTIONARY weir.{name}")
        columns = "ts, probe, src_addr, dst_addr, src_port, dst_port, service, protocol, application_id, src_prefix, dst_prefix, src_customer, dst_customer"
        rows = []
        for at, host, port, protocol, application, octets in (
            ("2025-10-05 10:00:00", "10.1.0.5", 443, 6, 91, 1000),
            ("2025-11-20 10:00:00", "10.1.0.5", 443, 6, 91, 3000),
            ("2025-11-20 10:00:10", "10.1.0.6", 53, 17, 5, 200),
        ):
            rows.append(
                f"('{at}', 'p', '{host}', '10.2.0.9', 50000, {port}, {port}, {protocol}, {application}, 1, 2, 11, 12, 4, {octets - 100}, 2, 100)"
            )
        server.sql(
            f"INSERT INTO weir.flows ({columns}, fwd_packets, fwd_octets, rev_packets, rev_octets) VALUES {', '.join(rows)}"
        )
        roll_up(server, "weir")
        # The lists of windows and days, as the jobs and `weir storage` write them.
        for scope, customer in (("all", 0), ("customer", 11)):
            for dimension, number in (("total", 0), ("application", 91)):
                server.sql(
                    "INSERT INTO weir.mixes_daily (day, scope, customer, dimension, direction, number, octets, packets) SELECT toDate('2025-11-01') +"
                    f" number, '{scope}', {customer}, '{dimension}', 'in', {number}, if(number < 10, 100, 300), 1 FROM numbers(17)"
                )
                server.sql(
                    "INSERT INTO weir.mixes (ts, window_s, scope, customer, dimension, direction, number, rank, version, octets, packets) SELECT"
                    f" toDateTime('2025-11-20 00:00:00', 'UTC') + 3000 * number, 300, '{scope}', {customer}, '{dimension}', 'in', {number}, 1, 1,"
                    " 37500000 * number, 1 FROM numbers(1, 10)"
                )
        server.sql(
            "INSERT INTO weir.ledger (ts, interval_ms, probe, version, state) SELECT toDateTime('2025-11-20 00:00:00', 'UTC') + 300 * number,"
            " 10000, 'p', 1, 'closed' FROM numbers(1, 100)"
        )
        yield server


#: The page's statements: as strangers first typed such a question, what they got, and what the page's statement answers now.
ANSWERS = {
    "application of v_flows": ("unknown: 47", "TLS\t4000\nDNS\t200"),
    "src_addr of v_flows": ("unknown: 47", "10.2.0.9\t443\tTCP\t3000\n10.2.0.9\t443\tTCP\t1000"),
    "isIPAddressInRange(src_addr, …), and octets of v_records": ("no rows, and unknown: 47", "3\t4200"),
    "dst_customer = 'Harbour' of connections": ("a number, not text: 53", "10.1.0.6\t10.2.0.9\t53"),
    "src_customer = 'Fjord Power' of v_hourly": (
        "a number, not text: 53",
        "2025-10-05 10:00:00\t1000\n2025-11-20 10:00:00\t3200",
    ),
    "addr of hosts": ("unknown: 47", "10.1.0.5\t4000\n10.1.0.6\t200"),
    "sites beyond the raw days": ("no view", "2025-10-01\tOslo\tBergen\t1000\n2025-11-01\tOslo\tBergen\t3200"),
    "what is new": ("no view", "UDP\t53\tdomain\t2025-11-20"),
    "since when": ("no view", "10.1.0.5\tFjord Power\t2025-10-05\t2025-11-20\t2"),
    "this week against the last": ("no view", "TLS\t2100\t700\t3"),
    "customer = 'Fjord Power' of v_rates": ("a number, not text: 53", "Fjord Power\t100\t5.05"),
    "application = 'TLS' of v_mixes": ("a number, not text: 53", "in\t2062500000"),
}


def _statements() -> list[str]:
    parts = re.split(r"^## \d+\. .*$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return ["\n".join(re.findall(r"^    (.*)$", part, re.MULTILINE)) for part in parts]


def test_the_page_has_twelve_statements() -> None:
    assert len(_statements()) == len(ANSWERS) == 12


@pytest.mark.parametrize(("at", "wanted"), list(enumerate(answer for _, answer in ANSWERS.values())), ids=list(ANSWERS))
def test_the_pages_statement_finds_what_it_asks_for(filled: Server, at: int, wanted: str) -> None:
    assert filled.sql(_statements()[at], user="analyst", database="weir") == wanted


def test_readers_meet_the_refusal(filled: Server) -> None:
    answer = filled.ask("SELECT count() FROM v_flows WHERE protocol_name = 'tcp'", user="analyst", database="weir")
    assert (answer.code, "it is written 'TCP'" in answer.text) == (36, True)
    asked = "SELECT count() FROM v_flows WHERE protocol_name = '{}'"
    assert filled.sql(asked.format("TCP"), user="analyst", database="weir") == "2"
    assert filled.sql(asked.format("tcp"), database="weir") == "0", "the administrator's statements are not read"


@pytest.mark.parametrize("view", ["v_sites", "v_first_seen", "v_compared"])
def test_new_views_are_for_networks_too_and_sites_for_customers(filled: Server, view: str) -> None:
    rows = int(filled.sql(f"SELECT count() FROM weir.{view}"))
    assert filled.sql(f"SELECT count() FROM {view}", user="nets", database="weir_networks") == str(rows)
    if view == "v_sites":
        assert 0 < int(filled.sql(f"SELECT count() FROM weir.{view}", user="fjord")) <= rows
        assert filled.sql(f"SELECT DISTINCT src_customer FROM weir.{view}", user="fjord") == "Fjord Power"
    else:
        # These views add up the rows of all customers, and the engine may evaluate a customer's conditions before the row policy.
        assert filled.ask(f"SELECT count() FROM weir.{view}", user="fjord").code == 497


def test_a_kind_reads_its_own_table_only(filled: Server) -> None:
    plan = filled.sql("EXPLAIN indexes = 1 SELECT * FROM weir.v_first_seen WHERE kind = 'port'")
    read = re.findall(r"ReadFromMergeTree \(weir\.(\w+)\)(.*?)(?=ReadFrom|\Z)", plan, re.DOTALL)
    # The plan names the granules of a table that is read.
    granules = [table for table, found in read if "Granules:" in found]
    assert "ports_daily" in granules
    assert "hosts_daily" in {table for table, _ in read} - set(granules)


def test_periods_of_other_lengths_are_not_compared(filled: Server) -> None:
    """Of the four weeks before, the store has ten days less: their sum is no measure of these."""
    asked = "SELECT days_known, previous_days_known, octets_ratio IS NULL FROM weir.v_compared WHERE scope = 'all' AND dimension = 'total' AND days = 28"
    assert filled.sql(asked) == "17\t0\t1"
