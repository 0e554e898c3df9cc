"""The datasets of single records count a flow that several probes saw once, and for each probe where probes are chosen."""

from __future__ import annotations

import pytest
from weir_schema import hourly

import testdata
from conftest import PASSWORDS, Store
from rendered import rendered

#: AS that no other test names.
AS = 65_111
#: Worker of which the ledger has no row, so that its sums stay as they are.
WORKER = 9


@pytest.fixture(scope="module")
def seen(store: Store) -> int:
    """A moment in which three probes saw a flow of 10 intervals, one of them from its other end, and one a flow of its own.

    It lies days before the rows of the fixture, so that no other test adds these records up.
    """
    moment = (store.until - 3 * 86400) // 600 * 600
    password = PASSWORDS["WEIR_PASSWORD_ADMIN"]
    for probe, src, dst, ports in (
        ("north", "10.77.0.1", "203.0.113.77", (4000, 443)),
        ("south", "10.77.0.1", "203.0.113.77", (4000, 443)),
        ("west", "203.0.113.77", "10.77.0.1", (443, 4000)),
        ("west", "10.77.0.1", "203.0.113.77", (4001, 443)),
    ):
        testdata.execute(
            store.url,
            "INSERT INTO flows (ts, interval_ms, probe, worker, src_addr, dst_addr, src_port, dst_port, protocol, ip_version, fwd_packets,"
            f" fwd_octets, rev_packets, rev_octets, src_as, dst_as) SELECT {moment} + 10 * number, 10000, '{probe}', {WORKER},"
            f" '::ffff:{src}', '::ffff:{dst}', {ports[0]}, {ports[1]}, 6, 4, 1, 100, 1, 100, {AS}, {AS} FROM numbers(10)",
            password=password,
        )
    for hour in {moment // 3600 * 3600, (moment + 99) // 3600 * 3600}:
        sql = f"INSERT INTO flows_hourly ({hourly.COLUMNS}) {hourly.whole(hour)}"
        testdata.execute(store.url, sql, password=password)
    return moment


@pytest.mark.parametrize(
    ("name", "sums", "where"),
    [
        ("address", "sum(sent_octets + received_octets)", "1"),
        ("host_days", "sum(sent_octets + received_octets)", "1"),
    ],
)
def test_a_dataset_counts_each_flow_once(store: Store, seen: int, name: str, sums: str, where: str) -> None:
    def octets(**filters: list[str]) -> int:
        sql = rendered(name, seen, seen + 600, host=["10.77.0.1"], **filters)
        # The dashboard adds the filter on probes to the query.
        chosen = f" AND probe IN {tuple(filters['probe'])}" if filters else ""
        return int(store.ask(f"SELECT {sums} FROM ({sql}) WHERE {where}{chosen}")[0][0])

    flow = 10 * 200
    assert octets() == 2 * flow
    assert octets(probe=["north", "none"]) == flow
    assert octets(probe=["south", "none"]) == flow
    assert octets(probe=["west", "none"]) == 2 * flow


@pytest.mark.parametrize("typed", ["hello", "10.77.0.1.", "10.77.0.256", "2001:db8::x"])
def test_a_text_that_is_no_address_shows_nothing(store: Store, seen: int, typed: str) -> None:
    """Not the records without an address, `::`, which agents write when they reach a bound."""
    columns = (
        "ts, interval_ms, probe, worker, record_kind, src_addr, dst_addr, protocol, ip_version, fwd_packets, fwd_octets"
    )
    testdata.execute(
        store.url,
        f"INSERT INTO flows ({columns}) VALUES ({seen}, 10000, 'north', {WORKER}, 'overflow', '::', '::', 6, 4, 9, 900)",
        password=PASSWORDS["WEIR_PASSWORD_ADMIN"],
    )
    for name in ("address", "host_days"):
        assert store.ask(f"SELECT count() FROM ({rendered(name, seen, seen + 600, host=[typed])})") == [["0"]], name
    sql = rendered("identity", seen, seen + 600, host=[typed])
    assert store.ask(f"SELECT as_label, records FROM ({sql})") == [["not an address", "0"]]
