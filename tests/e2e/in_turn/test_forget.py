"""Removes an address from every column of every table, in every notation; this file reimplements the search in Python."""

from __future__ import annotations

import ipaddress
import json
import random
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from rich.console import Console

from harness import CHECKOUT, RunningStack, emptied, eventually
from weir import forget
from weir.clickhouse import ClickHouse, connect
from weir.stages import Stages
from window_traffic import TCP, Publisher, Seen, Way, conversations_and_a_scan

#: Addresses to remove, and a neighbour of each to keep.
GONE = ("10.66.0.6", "2001:db8:66::6")
KEPT = ("10.66.0.7", "2001:db8:66::7")


def written(address: str) -> list[str]:
    """The notations of an address in a text."""
    parsed = ipaddress.ip_address(address)
    if parsed.version == 4:
        forms = [
            address,
            f"::ffff:{address}",
            f"0:0:0:0:0:FFFF:{address}",
            address.replace(".", "-"),
            ".".join(f"{int(number):03}" for number in address.split(".")),
            f"::ffff:{int(parsed) >> 16:x}:{int(parsed) & 0xFFFF:x}",
            parsed.reverse_pointer,
        ]
    else:
        forms = [address, address.upper(), parsed.exploded, parsed.exploded.upper(), parsed.reverse_pointer]
        forms += [parsed.exploded.replace(":", "-"), address.replace(":", "-")]
    return [
        text
        for form in forms
        for text in (form, f"host {form}.", f"[{form}]:443", f"from:{form} to", f"host-{form}.example.net")
    ]


def named(text: str, addresses: tuple[str, ...]) -> list[str]:
    """The addresses that a text names, found by this test's own search."""
    found = []
    for address in addresses:
        parsed = ipaddress.ip_address(address)
        plain = {address, parsed.exploded, parsed.reverse_pointer}
        if parsed.version == 4:
            plain |= {address.replace(".", "-"), f"{int(parsed) >> 16:x}:{int(parsed) & 0xFFFF:x}"}
        else:
            plain |= {address.replace(":", "-"), parsed.exploded.replace(":", "-")}
        if any(re.search(rf"(?<![0-9a-f]){re.escape(form)}(?![0-9a-f])", text, re.IGNORECASE) for form in plain):
            found.append(address)
    return found


def everything(store: ClickHouse) -> dict[str, str]:
    """All rows of all tables, as text."""
    store.execute("SYSTEM FLUSH LOGS", log_queries="0")
    tables = store.rows(
        "SELECT concat('`', database, '`.`', name, '`') AS name FROM system.tables WHERE engine LIKE '%MergeTree'",
        log_queries="0",
    )
    return {
        row["name"]: store.execute(f"SELECT * FROM {row['name']} FORMAT JSONEachRow", log_queries="0") for row in tables
    }


def test_of_real_traffic_nothing_is_left(stack: RunningStack, store: ClickHouse) -> None:
    publisher = Publisher(stack, "border")
    start = int(time.time()) // 60 * 60 - 600
    chance = random.Random(3)
    for tick in range(6):
        flows = list(conversations_and_a_scan(chance))
        for gone, kept in zip(GONE, KEPT, strict=True):
            server = "198.51.100.1" if ":" not in gone else "2001:db8:1::1"
            for port, host in enumerate((gone, kept), 2000):
                flows.append(Seen(host, server, port, 443, TCP, Way(90, 90_000), Way(90, 90_000)))
                flows.append(Seen(server, host, 443, port, TCP, Way(9, 900), Way(9, 900)))
        publisher.interval(1000 * (start + 10 * tick), [flow.record() for flow in flows], last=tick == 5)
    eventually(lambda: store.rows("SELECT count() AS n FROM mixes")[0]["n"] > 0, "windows", 120)
    eventually(
        lambda: store.rows("SELECT count() AS n FROM top_talkers WHERE addr = toIPv6('2001:db8:66::6')")[0]["n"],
        "lists",
        120,
    )
    stack.weir("storage", "roll-up")
    # A user queried it.
    stack.store.execute(f"SELECT count() FROM v_flows WHERE src = '{GONE[0]}'")
    before = everything(store)
    holding = {name for name, text in before.items() if named(text, GONE)}
    assert {
        "`weir`.`flows`",
        "`weir`.`flows_hourly`",
        "`weir`.`flows_hourly_by_destination`",
        "`weir`.`hosts_daily`",
        "`weir`.`top_flows`",
        "`weir`.`top_talkers`",
        "`system`.`statement_log`",
    } <= holding
    stack.stop("flink")

    for gone in GONE:
        dry = stack.weir("forget", gone, "--dry-run")
        assert dry.status == 0, dry.err
        assert "weir.flows " in dry.out
    refused = stack.weir("forget", GONE[0])
    assert refused.status == 2
    assert "--yes" in refused.err
    assert holding <= {name for name, text in everything(store).items() if named(text, GONE)}, "nothing was removed yet"

    for gone in GONE:
        done = stack.weir("forget", gone, "--yes")
        assert done.status == 0, done.err + done.out
        assert "Kafka keeps the agents' messages" in done.out
    after = everything(store)
    assert [name for name, text in after.items() if named(text, GONE)] == []
    for name in holding - {"`system`.`statement_log`"}:
        assert named(after[name], KEPT) == list(KEPT) or name == "`weir`.`talkers_daily`", name
    # The removal itself leaves no trace in the logs.
    traces = store.execute("SELECT * FROM system.mutations FORMAT JSONEachRow")
    assert named(traces, GONE) == []
    assert "weir_forget" not in store.execute("SHOW DATABASES")
    # The other tests need the store alone, and empty, since each searches all of it.
    for service in ("storage", "kafka"):
        stack.stop(service)
    emptied(stack)
    for table in store.execute(
        "SELECT name FROM system.tables WHERE database = 'system' AND engine LIKE '%MergeTree'"
    ).split():
        store.execute(f"TRUNCATE TABLE system.{table} SYNC")


#: A column of each type that can name an address, in INSERT syntax.
KINDS = {
    "IPv6": "'::ffff:{}'",
    "IPv4": "'{}'",
    "Nullable(IPv6)": "'::ffff:{}'",
    "Array(IPv6)": "['::', '::ffff:{}']",
    "Array(Array(IPv4))": "[[], ['{}']]",
    "FixedString(16)": "reinterpretAsFixedString(toIPv6('::ffff:{}'))",
    "String": "'{}'",
    "LowCardinality(String)": "'{}'",
    "LowCardinality(Nullable(String))": "'seen {}.'",
    "Array(LowCardinality(String))": "['', 'a {} b']",
    "Map(String, UInt64)": "map('{}', 1)",
    "Map(LowCardinality(String), Array(String))": "map('x', ['{}'])",
    "Tuple(name String, addr IPv6)": "('', '::ffff:{}')",
    "Tuple(UInt8, Array(Tuple(a IPv4, b UInt8)))": "(1, [('{}', 2)])",
    "SimpleAggregateFunction(max, IPv6)": "'::ffff:{}'",
    "SimpleAggregateFunction(any, Nullable(String))": "'{}'",
}


def test_every_type_that_can_name_an_address_is_searched(store: ClickHouse) -> None:
    """A table for each type, all in one search, which costs seconds."""
    with ExitStack() as made:
        for place, (kind, form) in enumerate(KINDS.items()):
            made.enter_context(scratch(store, f"x {kind}", table=f"scratch_{place}"))
            for number, address in enumerate((GONE[0], KEPT[0])):
                store.execute(f"INSERT INTO scratch_{place} (n, x) SELECT {number}, {form.format(address)}")
        assert _forget(store, GONE[0]) == len(KINDS)
        for place, kind in enumerate(KINDS):
            assert store.rows(f"SELECT n FROM scratch_{place}") == [{"n": 1}], kind


def test_a_table_of_many_texts_is_searched_in_each_of_them(store: ClickHouse) -> None:
    """As the system's logs are: texts, arrays and maps of them, and addresses beside them."""
    kinds = [
        *["String"] * 18,
        "LowCardinality(String)",
        "Array(LowCardinality(String))",
        "Map(String, LowCardinality(String))",
    ]
    forms = [*["'x {} y'"] * 19, "['', 'a\\n{}']", "map('x', '{}')"]
    columns = ", ".join(f"x{number} {kind}" for number, kind in enumerate(kinds))
    with scratch(store, f"a IPv6, {columns}"):
        for address in (GONE[0], KEPT[0]):
            values = [f"(0, '::ffff:{address}'" + ", default" * len(kinds) + ")"]
            for place, form in enumerate(forms):
                texts = [form.format(address) if other == place else "default" for other in range(len(kinds))]
                values.append(f"({place + 1}, '::', {', '.join(texts)})")
            store.execute(f"INSERT INTO scratch VALUES {', '.join(values)}")
        assert _forget(store, GONE[0]) == len(kinds) + 1
        assert store.rows("SELECT n FROM scratch ORDER BY n") == [{"n": n} for n in range(len(kinds) + 1)]
        assert _forget(store, GONE[0]) == 0


@pytest.mark.parametrize(("gone", "kept"), list(zip(GONE, KEPT, strict=True)))
def test_every_way_to_write_an_address_is_found(store: ClickHouse, gone: str, kept: str) -> None:
    with scratch(store, "x String"):
        for number, address in enumerate((gone, kept)):
            rows = [{"n": number, "x": text} for text in written(address)]
            lines = "\n".join(map(json.dumps, rows))
            store.execute(f"INSERT INTO scratch FORMAT JSONEachRow\n{lines}")
        assert _forget(store, gone) == len(written(gone))
        assert store.rows("SELECT DISTINCT n FROM scratch") == [{"n": 1}]
        assert store.rows("SELECT count() AS n FROM scratch")[0]["n"] == len(written(kept))


#: Texts that name the first address of GONE, or the second; and texts that name neither, though they look like it.
NAMES = json.loads((CHECKOUT / "clickhouse/tests/notations.json").read_text())


@pytest.mark.parametrize("gone", GONE)
def test_names_made_from_an_address_name_it_and_longer_numbers_do_not(store: ClickHouse, gone: str) -> None:
    with scratch(store, "x String"):
        texts = [text for texts in NAMES.values() for text in texts]
        lines = "\n".join(json.dumps({"n": 0, "x": text}) for text in texts)
        store.execute(f"INSERT INTO scratch FORMAT JSONEachRow\n{lines}")
        _forget(store, gone)
        left = {row["x"] for row in store.rows("SELECT x FROM scratch")}
    assert sorted(set(texts) - left) == sorted(NAMES[gone])


def test_a_prefix_is_all_its_addresses_and_prefixes_within(store: ClickHouse) -> None:
    texts = {
        "10.66.0.0": True, "10.66.0.255": True, "10.66.1.0": False, "10.65.255.255": False, "10.66.0.0/24": True,
        "10.66.0.0/23": False, "10.66.0.128/25": True, "10.0.0.0/8": False, "::ffff:10.66.0.9": True, "1.10.66.0": False,
        "910.66.0.1": False, "10.66.0.300": False, "9.0.66.10.in-addr.arpa": True, "10.66.0.9.in-addr.arpa": False,
        "10.66.0.7/16": True, "10.66.1.7/16": False, "10.66.0.0/31": True, "at 10:66:00": False, "2026-10-66": False, "": False, "10.66.0": False,
    }  # fmt: skip
    with scratch(store, "x String"):
        lines = "\n".join(json.dumps({"n": 0, "x": text}) for text in texts)
        store.execute(f"INSERT INTO scratch FORMAT JSONEachRow\n{lines}")
        _forget(store, "10.66.0.0/24")
        assert {row["x"] for row in store.rows("SELECT x FROM scratch")} == {
            text for text, gone in texts.items() if not gone
        }


def test_random_addresses_are_judged_as_pythons_library_does(store: ClickHouse) -> None:
    chance = random.Random(11)
    with scratch(store, "x IPv6, y String"):
        rows: list[dict[str, Any]] = []
        for _ in range(500):
            six = chance.random() < 0.5
            low = chance.choice([0x20010DB8 << 96, 0x20010DB80066 << 80]) if six else 0x0A420000
            bits = chance.choice([4, 12, 40]) if six else chance.choice([4, 10, 16])
            address = (ipaddress.IPv6Address if six else ipaddress.IPv4Address)(low + chance.getrandbits(bits))
            shown = f"::ffff:{address}" if not six else str(address)
            rows.append(
                {"n": 0, "x": shown, "y": ""} if chance.random() < 0.5 else {"n": 0, "x": "::", "y": str(address)}
            )
        store.execute("INSERT INTO scratch FORMAT JSONEachRow\n" + "\n".join(map(json.dumps, rows)))
        for wanted in ("10.66.0.0/28", "10.66.4.0/22", "2001:db8::/120", "2001:db8:66::/115"):
            net = ipaddress.ip_network(wanted)

            def inside(row: dict[str, Any], net: Any = net) -> bool:
                address = ipaddress.ip_address((row["y"] or row["x"]).removeprefix("::ffff:"))
                return address.version == net.version and address in net

            expected = sum(map(inside, rows))
            assert _forget(store, wanted) == expected
            rows = [row for row in rows if not inside(row)]
        assert store.rows("SELECT count() AS n FROM scratch")[0]["n"] == len(rows)


def test_what_the_law_orders_to_keep_goes_by_name_alone(stack: RunningStack, store: ClickHouse) -> None:
    gone = "10.66.8.8"
    store.execute(
        f"INSERT INTO nat_events (ts, src_addr, post_src_addr) VALUES (now(), '::ffff:{gone}', '::ffff:198.51.100.1'),"
        " (now(), '::ffff:10.66.8.9', '::ffff:198.51.100.1')"
    )
    store.execute(f"INSERT INTO flows (ts, probe, src_addr) VALUES (now(), 'law', '::ffff:{gone}')")

    def left() -> list[int]:
        condition = f"WHERE src_addr = toIPv6('::ffff:{gone}')"
        return [
            store.rows(f"SELECT count() AS n FROM {table} {condition}")[0]["n"] for table in ("flows", "nat_events")
        ]

    dry = stack.weir("forget", gone, "--dry-run", "--nat")
    assert "weir.nat_events" in dry.out
    assert "because the law requires" not in dry.out
    done = stack.weir("forget", gone, "--yes")
    assert (done.status, left()) == (0, [0, 1]), done.err
    assert (
        "weir.nat_events: 1 rows that name it stay, because the law requires them (storage.nat_days: 180)" in done.out
    )
    again = stack.weir("forget", gone, "--yes")
    # Lines of the query log that name it may have been written since: these tests' own questions do.
    assert (again.status, left()) == (0, [0, 1]), again.err
    assert "weir.nat_events: 1 rows that name it stay" in again.out
    named = stack.weir("forget", gone, "--yes", "--nat")
    assert (named.status, left()) == (0, [0, 0]), named.err
    assert store.rows("SELECT count() AS n FROM nat_events") == [{"n": 1}]


def test_runs_beside_each_other_remove_each_its_own(stack: RunningStack, store: ClickHouse) -> None:
    gone, kept = [[f"10.66.{net}.{host}" for host in range(3)] for net in (8, 9)]
    now = int(time.time())
    left, used = (f"weir_forget_{now - days * 86_400}_ab" for days in (8, 6))
    with scratch(store, "x IPv6"):
        for number, address in enumerate(gone + kept):
            store.execute(f"INSERT INTO scratch SELECT {number}, '::ffff:{address}' FROM numbers({number + 1})")
        for name in (left, used):
            store.execute(f"CREATE DATABASE {name} ENGINE = Atomic", database="")
        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(lambda one: _forget(connect(stack.stack, "admin"), one), gone)) == [1, 2, 3]
        assert store.rows("SELECT n, count() AS c FROM scratch GROUP BY n ORDER BY n") == [
            {"n": number, "c": number + 1} for number in (3, 4, 5)
        ]
        # The range of a run that was killed goes, one that may be in use stays.
        assert [name for name in store.execute("SHOW DATABASES").split() if "forget" in name] == [used]
        store.execute(f"DROP DATABASE {used} SYNC", database="")


def test_a_removal_that_was_interrupted_blocks_nothing(stack: RunningStack, store: ClickHouse) -> None:
    own = f"weir_forget_{int(time.time())}_{'ab' * 8}"
    with scratch(store, "x IPv6"):
        store.execute("INSERT INTO scratch SELECT number, toIPv6('::ffff:10.66.7.1') FROM numbers(5)")
        store.execute(f"CREATE DATABASE {own} ENGINE = Atomic", database="")
        store.execute(
            f"CREATE TABLE {own}.range ENGINE = Memory AS SELECT toIPv6('::1') AS first, toIPv6('::1') AS last"
        )
        store.execute("SYSTEM STOP MERGES scratch")
        store.execute(
            f"ALTER TABLE scratch DELETE WHERE x BETWEEN (SELECT first FROM {own}.range) AND (SELECT last FROM {own}.range)",
            mutations_sync="0",
        )
        store.execute(f"DROP DATABASE {own} SYNC", database="")
        store.execute("SYSTEM START MERGES scratch")
        eventually(
            lambda: (
                store.rows("SELECT latest_fail_reason != '' AS failed FROM system.mutations WHERE NOT is_done")
                == [{"failed": True}]
            ),
            "the removal fails for want of its range",
        )
        assert _forget(store, "10.66.7.1") == 5
        assert store.rows("SELECT count() AS n FROM system.mutations WHERE NOT is_done") == [{"n": 0}]


@contextmanager
def scratch(store: ClickHouse, columns: str, table: str = "scratch") -> Iterator[None]:
    """A table of the database, with a number `n` and further columns."""
    store.execute(
        f"CREATE TABLE {table} (n UInt64, {columns}) ENGINE = MergeTree ORDER BY n",
        allow_suspicious_low_cardinality_types="1",
    )
    try:
        yield
    finally:
        store.execute(f"DROP TABLE {table} SYNC")


def _forget(store: ClickHouse, wanted: str) -> int:
    """Remove the address; returns the number of rows removed from the tables `scratch…`."""
    with Stages(Console(quiet=True)) as stages:
        found = forget.search(store, forget.network(wanted), stages)
        forget.forget(store, forget.network(wanted), stages, found)
    return sum(one.rows for one in found if one.table.startswith("weir.scratch"))
