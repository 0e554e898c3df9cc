"""Users who see networks and no addresses: no view, condition, join, sort, function or error tells them more."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator

import pytest
import yaml
from conftest import FOLDER, Server, fill_windows, roll_up, with_access

from weir_schema import files

pytestmark = pytest.mark.embedded

#: A host of each version, and how many hosts there are in its network.
FOUR, SIX, HOSTS = "10.77.7.9", "2001:db8:77:7::9", 120
#: What would tell a host: as text, as octets, as a hash.
TEXTS = [FOUR, SIX, "10.77.7.1", "host-10-77-7-9", "10.77.7.8/29"]
TELLING = [*map(str.encode, TEXTS), bytes([10, 77, 7, 9]), bytes.fromhex("20010db800770007")]
LISTED = yaml.safe_load((FOLDER / "networks.yaml").read_text())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with with_access(lambda tree: tree["users"].update(nets={"role": "networks"})) as running:
        _fill(running)
        yield running


def _fill(server: Server) -> None:
    """Hosts of one network, each with as many octets as its last octet says, from and to it."""
    server.sql(
        "INSERT INTO weir.prefixes (id, prefix, customer_id, customer, tags) VALUES (1, '10.77.7.8/29', 11, 'Fjord', ['host-10-77-7-9'])"
    )
    columns = "ts, probe, src_addr, dst_addr, src_prefix, dst_prefix, fwd_packets, fwd_octets, src_port, dst_port, protocol, server_name, dns_query"
    told = "1, 1, 1, number, 1000 + number, 443, 6, 'host-10-77-7-9', '10.77.7.9'"
    for src, dst in (
        ("toIPv6('10.77.7.' || toString(number))", "toIPv6('10.88.8.1')"),
        ("toIPv6('10.88.8.1')", "toIPv6('10.77.7.' || toString(number))"),
        ("toIPv6('2001:db8:77:7::' || toString(number))", "toIPv6('2001:db8:88::1')"),
    ):
        server.sql(f"INSERT INTO weir.flows ({columns}) SELECT now() - 60, 'p', {src}, {dst}, {told} FROM numbers(1, {HOSTS})")
    roll_up(server, "weir")
    fill_windows(server, {11: FOUR, 12: "10.88.8.1"})
    server.sql(
        "INSERT INTO weir.port_report (ts, window_s, scope, probe, rank, version, addr, tcp_packets, port_signature)"
        f" VALUES (1700000100, 30, 'probe', 'p', 1, 1, toIPv6('{SIX}'), 9, '22:1000')"
    )


def _asked(server: Server, sql: str, form: str = "TSV") -> bytes:
    return server.ask(sql, user="nets", default_format=form, ok=True).body


def test_every_column_of_every_view_is_decided_on() -> None:
    masked, shown, left = (set(LISTED[kind]) for kind in ("networks", "shown", "left_out"))
    assert len(masked | shown | left) == len(masked) + len(shown) + len(left)
    assert set(files.views()) == set(LISTED["views"]) | set(LISTED["other_views"])
    columns = {name: set(files._columns_of(files.views()[name])) for name in LISTED["views"]}
    for name, has in columns.items():
        assert not has - masked - shown - left, name
    assert masked | shown | left == set().union(*columns.values())
    # What the store keeps as an address is never shown as it is.
    for name in LISTED["views"]:
        for column, declaration in files._columns_of(files.views()[name]).items():
            assert column in masked or " IPv6 " not in declaration, (name, column)


@pytest.mark.parametrize("view", LISTED["views"])
def test_no_view_shows_an_address(server: Server, view: str) -> None:
    whole = server.ask(f"SELECT * FROM weir.{view}", user="analyst", ok=True).text
    for form in ("TSV", "Native", "RowBinary", "JSONEachRow"):
        seen = _asked(server, f"SELECT * FROM {view}", form)
        for one in TELLING:
            assert one not in seen, (one, seen[:300])
    if FOUR in whole and files._columns_of(files.views()[view]).keys() & set(LISTED["networks"]):
        assert b"10.77.7.0" in _asked(server, f"SELECT * FROM {view}")
    assert _asked(server, f"SELECT count() FROM {view}") == server.sql(f"SELECT count() FROM weir.{view}").encode() + b"\n"


def test_addresses_become_networks(server: Server) -> None:
    nets = _asked(server, "SELECT DISTINCT src FROM v_flows ORDER BY src").split()
    assert nets == [b"10.77.7.0/24", b"10.88.8.0/24", b"2001:db8:77::/48"]
    stored = "SELECT DISTINCT src_addr FROM v_records ORDER BY src_addr"
    assert _asked(server, stored).split() == [b"::ffff:10.77.7.0", b"::ffff:10.88.8.0", b"2001:db8:77::"]
    assert _asked(server, "SELECT uniqExact(src), count() FROM v_flows") == f"3\t{3 * HOSTS}\n".encode()


def test_an_address_of_ipv4_inside_one_of_ipv6_becomes_a_network_too(server: Server) -> None:
    asked = "SELECT toString(weir_network_of(toIPv6('{}')))"
    for address, network in (
        ("2002:0a4d:0709:5::1", "2002:a4d:700::"),  # 6to4
        ("64:ff9b::10.77.7.9", "64:ff9b::"),  # NAT64
        ("::ffff:10.77.7.9", "::ffff:10.77.7.0"),
        ("2001:db8:77:7::9", "2001:db8:77::"),
    ):
        assert server.sql(asked.format(address), database="weir") == network


#: Questions about one host. The answers must not depend on whether, and where, it exists.
QUESTIONS = [
    "SELECT count() FROM v_flows WHERE src = '{}'",
    "SELECT count() FROM v_records WHERE src_addr = toIPv6('{}')",
    "SELECT count() FROM v_records PREWHERE src_addr = toIPv6('{}')",
    "SELECT count() FROM v_records WHERE dst_addr IN (SELECT toIPv6('{}'))",
    "SELECT count() FROM v_host_days WHERE addr = toIPv6('{}')",
    "SELECT count() FROM v_host_days WHERE addr BETWEEN toIPv6('{}') AND toIPv6('10.77.7.255')",
    "SELECT count() FROM connections AS a JOIN (SELECT '{}' AS src) AS b USING (src)",
    "SELECT count() FROM v_flows AS a ANY LEFT JOIN (SELECT '{}' AS src, 1 AS hit) AS b USING (src) WHERE hit",
    "SELECT max(src >= '{}') FROM v_flows WHERE src LIKE '10.77%'",
    "SELECT count() FROM v_flows WHERE throwIf(src = '{}', 'there') = 0",
    "SELECT countIf(cityHash64(src_addr) = cityHash64(toIPv6('{}'))) FROM v_records",
    "SELECT count() FROM hosts WHERE position(host, '{}') > 0",
    "SELECT src, count() FROM v_flows GROUP BY src HAVING src = '{}'",
    "SELECT count() FROM v_flows QUALIFY max(src = '{}') OVER () = 1",
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_about_a_host_is_answered_for_its_network(server: Server, question: str) -> None:
    answers = {}
    for host in (FOUR, "10.77.7.250"):
        answer = server.ask(question.format(host), user="nets")
        answers[host] = (answer.status, re.sub(r"10\.77\.7\.\d+", "host", answer.text))
    assert len(set(answers.values())) == 1, answers


#: Ways to list the octets of the hosts of one network, in whatever order the engine gives them.
ORDERS = [
    "SELECT octets FROM v_flows WHERE src = '10.77.7.0/24'",
    "SELECT octets FROM v_flows WHERE src = '10.77.7.0/24' ORDER BY src",
    "SELECT octets FROM v_flows WHERE src = '10.77.7.0/24' ORDER BY dst, src DESC",
    "SELECT arrayJoin(groupArray(octets)) FROM v_flows WHERE src = '10.77.7.0/24'",
    "SELECT octets FROM v_flows WHERE src = '10.77.7.0/24' LIMIT 1000 BY src",
    "SELECT octets FROM (SELECT octets, src FROM v_flows ORDER BY src) WHERE src = '10.77.7.0/24'",
    "SELECT octets FROM v_hourly WHERE src = '10.77.7.0/24' ORDER BY src",
    "SELECT sent_octets FROM v_host_days WHERE host = '10.77.7.0/24' AND sent_octets > 0",
    "SELECT sent_octets FROM v_hosts WHERE host = '10.77.7.0/24' AND sent_octets > 0 ORDER BY ts",
    "SELECT octets FROM connections WHERE src = '10.77.7.0/24'",
    "SELECT octets FROM v_flows WHERE src = '10.77.7.0/24' SETTINGS max_threads = 1",
]


@pytest.mark.parametrize("question", ORDERS)
def test_no_order_of_rows_tells_the_order_of_addresses(server: Server, question: str) -> None:
    numbers = [int(word) for word in _asked(server, question).split()]
    assert sorted(numbers) == list(range(1, HOSTS + 1)), question
    rising = sum(one < other for one, other in itertools.pairwise(numbers))
    # Half of the steps of a shuffled list rise, give or take 5.5.
    assert HOSTS / 2 - 35 < rising < HOSTS / 2 + 35, numbers


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count() FROM weir.v_flows",
        "SELECT count() FROM weir.flows",
        "SELECT count() FROM ntopng.flows",
        "SELECT count() FROM merge('weir.*', '.*')",
        "SELECT dictGet('weir.customer_names', 'customer', 11)",
        "EXPLAIN ESTIMATE SELECT * FROM v_flows",
        "EXPLAIN indexes = 1 SELECT * FROM v_records WHERE src_addr = toIPv6('10.77.7.9')",
        "SELECT count() FROM v_flows SETTINGS max_rows_to_read = 10",
        "SELECT count() FROM v_flows SETTINGS query_plan_remove_redundant_sorting = 1",
        "SET query_plan_remove_redundant_sorting = 1",
        "SELECT * FROM weir_networks.v_alerts",
        "SELECT _part FROM v_flows",
    ],
)
def test_nothing_else_is_open(server: Server, sql: str) -> None:
    answer = server.ask(sql, user="nets")
    assert answer.status >= 400, answer.text
    assert answer.code != 516
    assert _asked(server, "SELECT count() FROM system.tables WHERE database IN ('weir', 'ntopng')") == b"0\n"
    assert server.ask("SELECT 1", user="nets", max_rows_to_read=10).code == 164
    assert server.ask("SELECT 1", user="nets", query_plan_remove_redundant_sorting=1).code == 164


def test_no_column_tells_hosts_apart_that_are_alike() -> None:
    """A rank, or a number of any kind, that follows the addresses."""
    with with_access(lambda tree: tree["users"].update(nets={"role": "networks"})) as server:
        server.sql("INSERT INTO weir.prefixes (id, prefix, customer_id, customer) VALUES (1, '10.77.7.0/24', 11, 'Fjord')")
        server.sql(
            "INSERT INTO weir.flows (ts, probe, src_addr, dst_addr, src_prefix, src_customer, fwd_packets, fwd_octets, src_port, dst_port, protocol)"
            " SELECT now() - 60, 'p', toIPv6('10.77.7.' || toString(number)), toIPv6('10.88.8.1'), 1, 11, 1, 60, 40000, 443, 6"
            f" FROM numbers(1, {HOSTS})"
        )
        roll_up(server, "weir")
        # As the jobs and `weir storage` write hosts that are alike: in the order of addresses.
        addr = f"toIPv6('10.77.7.' || toString(number)) FROM numbers(1, {HOSTS})"
        server.sql(
            "INSERT INTO weir.port_report (ts, window_s, scope, probe, rank, version, tcp_packets, port_signature, addr)"
            f" SELECT 1700000100, 30, 'probe', 'p', number, 1, 9, '22:1000', {addr}"
        )
        ranks = "rank, packets_rank, flows_rank, hosts, addr"
        server.sql(
            f"INSERT INTO weir.national_talkers_daily (day, {ranks}) SELECT '2023-11-14', number, number, number, 1, {addr}"
        )
        server.sql(
            f"INSERT INTO weir.talkers_daily (day, probe, {ranks}) SELECT '2023-11-14', 'p', number, number, number, 1, {addr}"
        )
        for view in ("v_talkers_daily", "v_national_talkers_daily", "v_host_days", "v_port_report", "v_hosts", "v_records"):
            rows = _asked(server, f"SELECT * FROM {view} FORMAT JSONEachRow").splitlines()
            host = [row for row in map(json.loads, rows) if any("10.77.7.0" in str(value) for value in row.values())]
            assert len(host) == HOSTS, view
            for column in host[0]:
                assert len({str(row[column]) for row in host}) < 5, (view, column)
