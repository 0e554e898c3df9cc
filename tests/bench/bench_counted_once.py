"""Cost of counting a flow once at every age: octets of a record and CPU, with 5 and with 80 % of the flows seen by two
or three probes.

`make bench-counted-once`, some minutes. The same blocks go into two databases of one store: into one where a view fills
the hourly rows at the insert, so that no row is marked as a duplicate, and into one as it is, whose hourly rows are
written once the records are stored. CPU time of the statements, by the engine's query log, and of
the whole process, merges included.
"""

from __future__ import annotations

import argparse
from typing import Any

import psutil

import store_traffic
from harness import BUILT, LoneStore, lone_store
from store_traffic import Traffic
from weir.clickhouse import ClickHouse, connect
from weir.migrations import migrate
from weir.schema import hourly
from weir.storage import hours

COPIES = ("flows", "flows_hourly", "flows_hourly_by_destination", "hosts_daily", "arrivals", "hours")
MAKING = {"compile_expressions": "0"}
BLOCK = 250_000


#: What the service `storage` does later, without asking which of a flow's records counts.
AT_INSERT = """CREATE MATERIALIZED VIEW fill_flows_hourly TO flows_hourly
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    toStartOfHour(f.ts) AS ts, probe, record_kind, src_addr,
    weir_unanswered(record_kind, rev_packets, protocol, fwd_packets, fwd_tcp_syn, dst_port, probe) AS folded,
    if(folded, weir_network(f.dst_addr, ip_version), f.dst_addr) AS dst_addr,
    protocol, weir_kept_port(service, record_kind, protocol, dst_port) AS port, src_prefix, dst_prefix, {same},
    toUInt64(1) AS records, toUInt64(record_kind = 'flow' AND first_seen = flow_start) AS flows,
    fwd_packets, fwd_octets, rev_packets, rev_octets, toUInt64(f.fwd_tcp_syn) AS fwd_tcp_syn, toUInt64(f.rev_tcp_rst) AS rev_tcp_rst
FROM flows AS f"""


def filled_at_insert(stack: LoneStore) -> ClickHouse:
    """A database whose views fill the hourly rows at the insert."""
    store = connect(stack.stack, "admin", patience=None)
    store.database = "at_insert"
    migrate(store)
    store.execute("DROP VIEW fill_arrivals")
    store.execute(AT_INSERT.format(same=", ".join(hourly.SAME)))
    return store


def cpu(store: ClickHouse, comment: str) -> float:
    """CPU seconds of the statements with this comment."""
    store.execute("SYSTEM FLUSH LOGS")
    spent = "sum(ProfileEvents['OSCPUVirtualTimeMicroseconds']) / 1e6 AS s"
    rows = store.rows(
        f"SELECT {spent} FROM system.query_log WHERE type = 'QueryFinish' AND position(log_comment, '{comment}') > 0"
    )
    return float(rows[0]["s"])


def measure(process: psutil.Process, store: ClickHouse, name: str, share: int, base: int) -> dict[str, Any]:
    """Store the base records, and these flows' records of other probes; returns figures for a record."""
    for table in COPIES:
        store.execute(f"TRUNCATE TABLE {table} SYNC")
    columns = [row["name"] for row in store.rows("DESCRIBE weir.base") if row["default_type"] != "ALIAS"]
    of_flow = "cityHash64(src_addr, dst_addr, src_port, dst_port, protocol) % 200"
    others = "[probe, concat(probe, '-b'), concat(probe, '-c')]"
    number = f"multiIf({of_flow} < {share}, 3, {of_flow} < {2 * share}, 2, 1)"
    shown = ", ".join(f"arrayJoin(arraySlice({others}, 1, {number})) AS probe" if c == "probe" else c for c in columns)
    comment = f"bench-{store.database}-{share}"
    begun = process.cpu_times()
    for first in range(0, base, BLOCK):
        store.execute(
            f"INSERT INTO flows ({', '.join(columns)}) SELECT {shown} FROM (SELECT * FROM weir.base LIMIT {first}, {BLOCK})",
            log_comment=f"{comment}-insert",
            log_queries="1",
            optimize_on_insert="0",
            max_insert_threads="1",
        )
    rolled = 0.0
    if name == "after it":
        plain = ClickHouse.execute

        def commented(self: ClickHouse, sql: str, **settings: Any) -> str:
            return plain(self, sql, **{"log_comment": f"{comment}-hours", "log_queries": "1"} | settings)

        ClickHouse.execute = commented  # type: ignore[method-assign]
        try:
            list(hours.roll_up(store, all_now=True))
        finally:
            ClickHouse.execute = plain  # type: ignore[method-assign]
        rolled = cpu(store, f"{comment}-hours")
    rows = store.rows("SELECT count() AS n FROM flows")[0]["n"]
    for table in COPIES[:4]:
        store.execute(f"OPTIMIZE TABLE {table} FINAL")
    ended = process.cpu_times()
    sizes = store.rows(
        f"SELECT table, sum(bytes_on_disk) AS n FROM system.parts WHERE active AND database = '{store.database}' GROUP BY table"
    )
    octets = {row["table"]: row["n"] / rows for row in sizes if row["table"] in COPIES}
    return {
        "rows": rows,
        "insert_us": cpu(store, f"{comment}-insert") / rows * 1e6,
        "hours_us": rolled / rows * 1e6,
        "all_us": (ended.user + ended.system - begun.user - begun.system) / rows * 1e6,
        "octets": sum(octets.values()),
        "octets_of": octets,
    }


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", type=int, default=2_000_000, metavar="N", help="records of the first probe of each flow"
    )
    options = parser.parse_args()
    lines = [
        "| flows seen by several | hourly rows filled | records | insert, CPU us | hourly rows, CPU us | all with merges, CPU us | octets of a record |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    with lone_store() as stack:
        store = connect(stack.stack, "admin", patience=None)
        traffic = Traffic(start=1_795_000_000 // 3600 * 3600)
        store.execute("CREATE TABLE base AS flows ENGINE = MergeTree PRIMARY KEY () ORDER BY ()")
        for first in range(0, options.rows, BLOCK):
            sql = store_traffic.flows(traffic, first, BLOCK)
            names = ", ".join(row["name"] for row in store.rows(f"DESCRIBE ({sql})"))
            store.execute(f"INSERT INTO base ({names}) {sql}", **MAKING)
        stores = {"at the insert": filled_at_insert(stack), "after it": store}
        for share in (5, 80):
            for name, one in stores.items():
                found = measure(psutil.Process(stack.process.pid), one, name, share, options.rows)
                of = ", ".join(f"{table} {size:.2f}" for table, size in found["octets_of"].items())
                lines.append(
                    f"| {share} % | {name} | {found['rows']:,} | {found['insert_us']:.2f} | {found['hours_us']:.2f} | {found['all_us']:.2f} | {found['octets']:.2f} ({of}) |"
                )
                print(lines[-1], flush=True)
    print("\n".join(lines))
    (BUILT / "bench").mkdir(parents=True, exist_ok=True)
    (BUILT / "bench/counted_once.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
