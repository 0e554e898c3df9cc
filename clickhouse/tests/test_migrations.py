"""The migrations, and the ledger's rows for data that the test inserts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from conftest import FOLDER, Server, eventually, migrate
from weir_clickhouse.docs import tables


def _shape(server: Server, database: str) -> str:
    tables = server.sql(
        f"SELECT name, engine, replaceAll(create_table_query, '{database}', 'd') FROM system.tables WHERE database = '{database}' ORDER BY name"
    )
    return tables + server.sql(
        f"SELECT table, name, type FROM system.columns WHERE database = '{database}' ORDER BY table, position"
    )


def test_migrations_can_be_applied_again(server: Server, weir: str) -> None:
    _insert(server, weir)
    before = _shape(server, weir)
    migrate(server, weir)
    assert _shape(server, weir) == before
    assert server.sql(f"SELECT count() FROM {weir}.flows") == "4"


def test_every_table_and_column_has_a_comment(server: Server, weir: str) -> None:
    # The comments on a dictionary's columns are at their source, and those on a materialized view's at their target;
    # ClickHouse keeps no comments on them.
    others = f"SELECT name FROM system.tables WHERE database = '{weir}' AND engine IN ('Dictionary', 'MaterializedView')"
    columns = f"SELECT table, name FROM system.columns WHERE database = '{weir}' AND comment = '' AND table NOT IN ({others})"
    assert server.sql(columns) == ""
    assert server.sql(f"SELECT name FROM system.tables WHERE database = '{weir}' AND comment = ''") == ""


def test_every_table_knows_repeats(server: Server, weir: str) -> None:
    """Flink sends a block again after a crash: each table it writes to must drop it."""
    rows = server.sql(
        f"SELECT name FROM system.tables WHERE database = '{weir}' AND engine LIKE '%MergeTree'"
        " AND toUInt64OrZero(extract(engine_full, 'deduplication_window = ([0-9]+)')) < 1000"
    )
    assert rows == ""


def test_views_fill_the_tables_that_have_their_names_now(own_server: Callable[..., Server]) -> None:
    """A migration that copies a table, and a restore, exchange tables below the views that fill others from them."""
    # A server of the test's own: each migration of a database moves ntopng.flows, of which a server has one.
    server, database = own_server(), "weir"
    migrate(server, database)
    server.sql(f"INSERT INTO {database}.flows (ts, probe, fwd_packets) VALUES ('{TS}', 'p', 5)")
    server.sql("CREATE TABLE flows_anew AS flows ENGINE = MergeTree PRIMARY KEY probe ORDER BY (probe, ts)", database=database)
    server.sql("INSERT INTO flows_anew SELECT * FROM flows", database=database)
    server.sql("EXCHANGE TABLES flows AND flows_anew", database=database)
    server.sql("DROP TABLE flows_anew SYNC", database=database)
    server.sql(f"INSERT INTO {database}.flows (ts, probe, fwd_packets) VALUES ('{TS}', 'p', 7)")
    assert server.sql(f"SELECT sum(records) FROM {database}.arrivals") == "2"
    assert server.sql(f"SELECT sum(packets) FROM {database}.v_flows") == "12"


def test_a_collectors_clock_does_not_move_what_the_law_keeps(server: Server, weir: str) -> None:
    rows = {"right": "now()", "spooled": "now() - 86400", "slow": "now() - 86400 * 400", "fast": "now() + 86400 * 400"}
    for probe, ts in rows.items():
        server.sql(f"INSERT INTO {weir}.nat_events (ts, probe) VALUES ({ts}, '{probe}')")
    asked = (
        f"SELECT probe, dateDiff('day', kept_from, now()), _partition_id = toString(toYYYYMMDD(kept_from)) FROM {weir}.nat_events"
    )
    assert sorted(server.sql(asked).splitlines()) == ["fast\t0\t1", "right\t0\t1", "slow\t3\t1", "spooled\t1\t1"]


@pytest.mark.embedded
def test_the_reference_names_every_column() -> None:
    text = tables(FOLDER / "migrations")
    for words in (
        "## v_ledger\n",
        "## flows\n",
        "| `stored_packets` | `UInt64` | Packets in stored records |",
        "## v_completeness\n",
    ):
        assert words in text


TS = "2026-11-20 10:00:00"


def _insert(server: Server, weir: str, **ledger: Any) -> None:
    """Two batches of two records of one interval, and a ledger row that has seen them."""
    server.sql(
        f"INSERT INTO {weir}.flows (ts, interval_ms, probe, worker, epoch, sequence, fwd_packets, rev_packets, fwd_octets, rev_octets)"
        f" VALUES ('{TS}', 10000, 'p', 0, 7, 1, 10, 5, 1000, 500), ('{TS}', 10000, 'p', 0, 7, 1, 1, 0, 60, 0),"
        f" ('{TS}', 10000, 'p', 0, 7, 2, 20, 10, 2000, 1000), ('{TS}', 10000, 'p', 0, 7, 2, 1, 1, 40, 40)"
    )
    _ledger(server, weir, **ledger)


def _ledger(server: Server, weir: str, **changes: Any) -> None:
    row = {
        "ts": f"'{TS}'",
        "interval_ms": 10000,
        "probe": "'p'",
        "worker": 0,
        "version": 1,
        "state": "'closed'",
        "epoch": 7,
        "epochs": 1,
        "on_interface_packets": 50,
        "captured_packets": 49,
        "captured_octets": 4700,
        "dropped": "map('ring', 1)",
        "flow_packets": 48,
        "flow_octets": 4640,
        "not_metered_packets": "map('arp', 1)",
        "published_batches": 2,
        "published_records": 4,
        "received_batches": 2,
        "received_records": 4,
        "received_packets": 48,
        "received_octets": 4640,
    } | changes
    server.sql(f"INSERT INTO {weir}.ledger ({', '.join(row)}) VALUES ({', '.join(str(v) for v in row.values())})")


def _row(server: Server, weir: str, columns: str, view: str = "v_ledger") -> str:
    return server.sql(f"SELECT {columns} FROM {weir}.{view} WHERE ts = '{TS}'")


def test_the_numbers_of_a_flow_have_names(server: Server, weir: str) -> None:
    server.sql(
        f"INSERT INTO {weir}.prefixes VALUES (3, '192.0.2.0/24', 7, 'Fjord Power', 1, 'oslo', ['power', 'critical'], true, '{TS}'),"
        f" (4, '192.0.2.0/24', 8, 'Skog', 0, '', [], true, '{TS}')"
    )
    server.sql(f"INSERT INTO {weir}.services VALUES (443, 6, 'https'), (443, 17, 'https')")
    server.sql(f"INSERT INTO {weir}.autonomous_systems VALUES ('{TS}', 64500, 'new'), ('2020-01-01 00:00:00', 64500, 'old')")
    columns = "protocol, service, src_prefix, dst_prefix, src_customer, src_as, src_country, site_direction, nation_direction"
    server.sql(f"INSERT INTO {weir}.flows (ts, {columns}) VALUES ('{TS}', 6, 443, 3, 4, 7, 64500, 20047, 'out', 'internal')")
    shown = (
        "service, src_prefix, src_customer, src_site, src_tags, dst_customer, dst_site, dst_tags, src_as, src_as_name,"
        " src_country, dst_as_name, dst_country, site_direction, nation_direction"
    )
    # From another database: views and dictionaries know their own.
    assert server.sql(f"SELECT {shown} FROM {weir}.v_flows", database="default").split("\t") == [
        *("https", "192.0.2.0/24", "Fjord Power", "oslo", "['power','critical']", "Skog", "", "[]"),
        *("64500", "new", "NO", "", "", "out", "internal"),
    ]
    assert server.sql(f"SELECT * FROM {weir}.v_customers ORDER BY customer_id") == "7\tFjord Power\n8\tSkog"


def test_a_dictionary_is_read_again_when_its_lifetime_is_over(server: Server, database: str) -> None:
    server.sql(f"CREATE TABLE {database}.t (id UInt64, name String) ENGINE = MergeTree ORDER BY id")
    server.sql(
        f"CREATE DICTIONARY {database}.d (id UInt64, name String) PRIMARY KEY id"
        f" SOURCE(CLICKHOUSE(TABLE 't')) LAYOUT(HASHED()) LIFETIME(MIN 1 MAX 1)"
    )
    ask = f"SELECT dictGet('{database}.d', 'name', 1)"
    assert server.sql(ask) == ""
    server.sql(f"INSERT INTO {database}.t VALUES (1, 'one')")
    assert eventually(lambda: server.sql(ask) == "one")


STORED = "state, published_batches, stored_batches, stored_records, stored_packets, stored_octets, lost_packets, lost_octets"


def test_a_whole_interval_balances(server: Server, weir: str) -> None:
    _insert(server, weir)
    assert _row(server, weir, STORED) == "closed\t2\t2\t4\t48\t4640\t0\t0"
    columns = "wire_packets, captured_packets, dropped_packets, not_metered_packets, stored_packets, lost_packets, completeness"
    assert _row(server, weir, columns, "v_completeness") == "50\t49\t1\t1\t48\t0\t0.98"


@pytest.mark.parametrize("how", ["DELETE FROM {}.flows WHERE sequence = 2", "ALTER TABLE {}.flows DELETE WHERE sequence = 2"])
def test_a_deleted_batch_is_named(server: Server, weir: str, how: str) -> None:
    _insert(server, weir)
    server.sql(how.format(weir), mutations_sync=2)
    assert _row(server, weir, STORED) == "closed\t2\t1\t2\t16\t1560\t32\t3080"
    assert _row(server, weir, "lost_packets", "v_completeness") == "32"


def test_a_batch_stored_twice_shows_below_zero(server: Server, weir: str) -> None:
    _insert(server, weir)
    server.sql(f"INSERT INTO {weir}.flows SELECT * FROM {weir}.flows WHERE sequence = 1")
    assert _row(server, weir, STORED) == "closed\t2\t2\t6\t64\t6200\t-16\t-1560"
    # Rows stored twice neither lift completeness above 1 nor hide the packet that was dropped.
    columns = "lost_packets, doubled_packets, accounted_packets, missing_packets, completeness"
    assert _row(server, weir, columns, "v_completeness") == "0\t16\t49\t1\t0.98"


def test_the_newest_version_holds(server: Server, weir: str) -> None:
    _insert(
        server,
        weir,
        version=1,
        state="'closing_missing'",
        flow_packets=0,
        flow_octets=0,
        published_batches=0,
        on_interface_packets=0,
    )
    # Without the closing record, the rows that Flink received must be stored.
    assert _row(server, weir, STORED) == "closing_missing\t0\t2\t4\t48\t4640\t0\t0"
    columns = "workers_incomplete, workers_unknown, accounted_packets, missing_packets"
    assert _row(server, weir, columns, "v_completeness") == "1\t1\t49\t1"
    _ledger(server, weir, version=2)
    assert _row(server, weir, "version, state, lost_packets") == "2\tclosed\t0"
    _ledger(server, weir, version=1, state="'missing'")
    assert _row(server, weir, "version, state, lost_packets") == "2\tclosed\t0"


def test_a_missing_interval_and_a_silent_one(server: Server, weir: str) -> None:
    zero = dict.fromkeys(
        ("on_interface_packets", "captured_packets", "flow_packets", "flow_octets", "received_packets", "received_octets"), 0
    )
    empty = zero | {"dropped": "map()", "not_metered_packets": "map()"}
    _ledger(server, weir, state="'missing'", **empty)
    _ledger(server, weir, state="'closed'", worker=1, **empty)
    assert _row(server, weir, "count(), sum(stored_packets), sum(lost_packets)") == "2\t0\t0"
    columns = "workers, workers_incomplete, workers_unknown, missing_packets, completeness"
    assert _row(server, weir, columns, "v_completeness") == "2\t1\t1\t0\t\\N"
    _ledger(server, weir, state="'stopped'", version=2, **empty)
    assert _row(server, weir, columns, "v_completeness") == "2\t0\t0\t0\t1"


def test_each_row_of_the_ledger_adds_up(server: Server, weir: str) -> None:
    """Packets that waited in the ring are on the wire in one interval, and published in the next: both rows are complete."""
    nothing = {"dropped": "map()", "not_metered_packets": "map()", "received_packets": 0, "received_octets": 0}
    waiting = {"captured_packets": 0, "flow_packets": 0, "flow_octets": 0, "on_interface_packets": 48, "in_ring_packets": 48}
    _ledger(server, weir, ts=f"toDateTime('{TS}') - 10", **nothing, **waiting)
    _insert(server, weir, on_interface_packets=0, captured_packets=48, dropped="map()", not_metered_packets="map()")
    columns = "on_interface_packets, waited_packets, dropped_packets + not_metered_packets + published_packets, stored_packets, lost_packets"
    rows = server.sql(f"SELECT {columns} FROM {weir}.v_ledger ORDER BY ts").splitlines()
    assert rows == ["48\t-48\t0\t0\t0", "0\t48\t48\t48\t0"]
    shares = server.sql(f"SELECT missing_packets, completeness FROM {weir}.v_completeness ORDER BY ts").splitlines()
    assert shares == ["0\t1", "0\t1"]


def test_exporters_are_shown_one_by_one(server: Server, weir: str) -> None:
    _ledger(
        server,
        weir,
        exporter_records="map('netflow9 192.0.2.1 domain 7', 5, 'sflow 2001:db8:0:0:0:0:0:1 domain 0', 2)",
        exporter_lost="map('netflow9 192.0.2.1 domain 7, datagrams', 3)",
        exporter_without_sampling_rate="map('sflow 2001:db8:0:0:0:0:0:1 domain 0', 1)",
        # A router that was restarted within the interval; an sFlow agent of which no record came.
        exporter_sampling="map('netflow9 192.0.2.1 domain 7, expected', 3, 'netflow9 192.0.2.1 domain 7, not_understood', 2,"
        " 'sflow 2001:db8:0:0:0:0:0:1 domain 0, expected', 0)",
        exporter_reports="map('netflow9 192.0.2.1 domain 7, nat_events', 6, 'netflow9 192.0.2.1 domain 7, names', 2,"
        " 'reports 192.0.2.9 domain 0, interface_counters', 8)",
        # The corrected ones are complete.
        exporter_refused="map('netflow9 192.0.2.1 domain 7, truncated', 1, 'netflow9 192.0.2.1 domain 7, no_address', 2,"
        " 'netflow9 192.0.2.1 domain 7, time_clamped', 119, 'unknown ? domain 0, socket_full', 9)",
    )
    _ledger(server, weir, worker=1)
    columns = (
        "protocol, exporter, domain, records, lost, lost_unit, without_sampling_rate, sampling, nat_events, interface_counters,"
        " names, refused, refused_causes, corrected, corrected_causes"
    )
    shown = server.sql(f"SELECT {columns} FROM {weir}.v_exporters WHERE ts = '{TS}' AND probe = 'p' ORDER BY protocol")
    assert shown.splitlines() == [
        "netflow9\t192.0.2.1\t7\t5\t3\tdatagrams\t0\tnot_understood\t6\t0\t2\t3\t{'no_address':2,'truncated':1}\t119\t{'time_clamped':119}",
        "reports\t192.0.2.9\t0\t0\t0\t\t0\t\t0\t8\t0\t0\t{}\t0\t{}",
        "sflow\t2001:db8::1\t0\t2\t0\t\t1\texpected\t0\t0\t0\t0\t{}\t0\t{}",
        "unknown\t\t0\t0\t0\t\t0\t\t0\t0\t0\t9\t{'socket_full':9}\t0\t{}",
    ]


def test_what_comes_beside_flows_is_counted_from_its_rows(server: Server, weir: str) -> None:
    """Two batches, one of events and one of events and counters, in addition to two of flows; and names, which newer
    names replace."""
    _insert(server, weir, published_nat_events=6, received_nat_events=4, received_interface_counters=1, received_names=1)
    own = f"'{TS}', 10000, 'p', 0, 7"
    server.sql(
        f"INSERT INTO {weir}.nat_events (ts, interval_ms, probe, worker, epoch, sequence) VALUES ({own}, 10), ({own}, 10), ({own}, 11)"
    )
    server.sql(f"INSERT INTO {weir}.interface_counters (ts, interval_ms, probe, worker, epoch, sequence) VALUES ({own}, 11)")
    server.sql(f"INSERT INTO {weir}.exporter_names (ts, interval_ms, probe, worker, epoch, sequence) VALUES ({own}, 12)")
    columns = "stored_batches, stored_records, published_nat_events, received_nat_events, stored_nat_events, received_interface_counters, stored_interface_counters"
    asked = f"SELECT {columns} FROM {weir}.v_ledger WHERE ts = '{TS}' AND probe = 'p'"
    assert server.sql(asked) == "4\t4\t6\t4\t3\t1\t1"
    for table in ("nat_events", "interface_counters"):
        server.sql(f"OPTIMIZE TABLE {weir}.{table} FINAL")
    assert server.sql(asked) == "4\t4\t6\t4\t3\t1\t1"


@pytest.mark.parametrize("table", ["nat_events", "interface_counters"])
def test_what_comes_beside_flows_is_not_read_for_the_ledger(server: Server, weir: str, table: str) -> None:
    server.sql(
        f"INSERT INTO {weir}.{table} (ts, probe, worker, epoch, sequence) SELECT toDateTime('{TS}') + intDiv(number, 1000) * 10,"
        " 'p' || toString(number % 2), 0, 1, intDiv(number, 500) FROM numbers(200000)"
    )
    plan = server.sql(
        f"EXPLAIN indexes = 1, projections = 1 SELECT sum(stored_nat_events + stored_interface_counters) FROM {weir}.v_ledger"
        f" WHERE ts = '{TS}' AND probe = 'p1'"
    )
    assert "(stored)" in plan
    assert f"({weir}.{table})" not in plan, plan


def test_a_condition_reaches_the_projection(server: Server, weir: str) -> None:
    """The ledger's query must not read the flows themselves, nor those of other days."""
    server.sql(
        f"INSERT INTO {weir}.flows (ts, probe, worker, sequence, fwd_packets) SELECT toDateTime('{TS}') + intDiv(number, 100) * 10,"
        " 'p' || toString(number % 2), 0, intDiv(number, 50), 1 FROM numbers(200000)"
    )
    plan = server.sql(
        f"EXPLAIN indexes = 1, projections = 1 SELECT sum(lost_packets) FROM {weir}.v_ledger WHERE ts = '{TS}' AND probe = 'p1'"
    )
    assert "(stored)" in plan
    assert f"({weir}.flows)" not in plan


def test_top_flows_show_the_newest_version(server: Server, weir: str) -> None:
    for version, octets in ((1, 100), (2, 250)):
        server.sql(
            f"INSERT INTO {weir}.top_flows (ts, window_s, scope, rank, version, src_addr, dst_addr, protocol, octets, packets, window_octets)"
            f" VALUES ('{TS}', 30, 'all', 1, {version}, '::ffff:10.0.0.1', '2001:db8::1', 6, {octets}, 1, 1000)"
        )
    assert (
        _row(server, weir, "version, src, dst, protocol_name, octets, share", "v_top_flows")
        == "2\t10.0.0.1\t2001:db8::1\tTCP\t250\t0.25"
    )


def test_flows_are_readable(server: Server, weir: str) -> None:
    server.sql(
        f"INSERT INTO {weir}.flows (ts, probe, src_addr, dst_addr, src_port, dst_port, protocol, fwd_packets, rev_packets, fwd_octets, rev_octets)"
        f" VALUES ('{TS}', 'p', '::ffff:192.0.2.1', '::ffff:192.0.2.2', 5, 53, 17, 1, 2, 3, 4), ('{TS}', 'p', '2001:db8::1', '::', 0, 0, 99, 1, 0, 60, 0)"
    )
    assert server.sql(f"SELECT src, dst, protocol_name, packets, octets FROM {weir}.v_flows ORDER BY protocol_name DESC") == (
        "192.0.2.1\t192.0.2.2\tUDP\t3\t7\n2001:db8::1\t::\t99\t1\t60"
    )
    assert server.sql(f"SELECT host, sent_octets, received_octets FROM {weir}.v_hosts ORDER BY host") == (
        "192.0.2.1\t3\t4\n192.0.2.2\t4\t3\n2001:db8::1\t60\t0"
    )


def test_one_observation_of_each_flow_counts(server: Server, weir: str) -> None:
    """Three probes see a flow, one of them backwards and sampled; a second flow is seen by one probe alone."""
    server.sql(f"INSERT INTO {weir}.probes (probe, rank, one_way) VALUES ('a', 5, 0), ('b', 1, 0), ('c', 9, 1)")
    server.sql(f"SYSTEM RELOAD DICTIONARY {weir}.probe_places")
    seen = [
        ("a", "::ffff:192.0.2.1", 1000, "::ffff:192.0.2.2", 80, 0, 10, "transit"),
        ("b", "::ffff:192.0.2.2", 80, "::ffff:192.0.2.1", 1000, 10, 20, "out"),
        ("c", "::ffff:192.0.2.1", 1000, "::ffff:192.0.2.2", 80, 0, 30, "out"),
        ("c", "::ffff:192.0.2.9", 7, "::ffff:192.0.2.2", 80, 100, 40, "unknown"),
    ]
    rows = ", ".join(
        f"('{TS}', '{probe}', '{src}', {src_port}, '{dst}', {dst_port}, 6, {rate}, {octets}, '{direction}')"
        for probe, src, src_port, dst, dst_port, rate, octets, direction in seen
    )
    server.sql(
        f"INSERT INTO {weir}.flows (ts, probe, src_addr, src_port, dst_addr, dst_port, protocol, sampling_rate, fwd_octets, site_direction)"
        f" VALUES {rows}"
    )
    asked = f"SELECT probe, fwd_octets, canonical, observers FROM {weir}.v_observations WHERE window_start = '{TS}' ORDER BY 2"
    assert server.sql(asked).strip().splitlines() == [
        "a\t10\ttrue\t3",
        "b\t20\tfalse\t3",
        "c\t30\tfalse\t3",
        "c\t40\ttrue\t1",
    ]


def test_observations_of_other_times_are_not_read(server: Server, weir: str) -> None:
    server.sql(
        f"INSERT INTO {weir}.flows (ts, probe, fwd_packets) SELECT toDateTime('{TS}') + number * 10, 'p', 1 FROM numbers(200000)"
    )
    plan = server.sql(f"EXPLAIN indexes = 1 SELECT count() FROM {weir}.v_observations WHERE window_start = '{TS}' AND canonical")
    granules = re.findall(r"Granules: (\d+)/(\d+)", plan)
    assert int(granules[0][0]) <= 2 < int(granules[0][1]), plan
