"""Cost of records that arrive after their hour was rolled up: CPU of the correction, from late records and their flows,
and from the whole hour.

`make bench-late`, some minutes. An hour of records of four probes is stored and rolled up but for the late ones, which
then follow: single records of the whole hour, or all that one probe saw in five minutes. CPU time of the whole process,
which merges the new rows meanwhile, and the rows that the statements read.
"""

from __future__ import annotations

import argparse
import time
from typing import Any
from unittest import mock

import psutil

import store_traffic
from harness import BUILT, LoneStore, lone_store
from store_traffic import Traffic
from weir.clickhouse import ClickHouse, connect
from weir.storage import hours

HOUR = 1_795_000_000 // 3600 * 3600
BLOCK = 250_000
SPOOL = "probe = (SELECT min(probe) FROM base) AND toMinute(ts) BETWEEN 20 AND 24"

#: The first lines of the table.
HEAD = (
    "| records of the hour | late | read from | CPU s | s | rows read |",
    "|---:|---:|---|---:|---:|---:|",
)


def generate(store: ClickHouse, rows: int) -> None:
    """Fill the table `base` with the records of an hour; `place` is a number of each, drawn."""
    traffic = Traffic(start=HOUR, per_interval=rows // 360 // 4)
    store.execute("DROP TABLE IF EXISTS base SYNC")
    store.execute("CREATE TABLE base AS flows ENGINE = MergeTree PRIMARY KEY () ORDER BY ()")
    store.execute("ALTER TABLE base ADD COLUMN place UInt64")
    for first in range(0, rows, BLOCK):
        sql = store_traffic.flows(traffic, first, min(BLOCK, rows - first))
        names = ", ".join(row["name"] for row in store.rows(f"DESCRIBE ({sql})"))
        place = f"cityHash64({first}, rowNumberInAllBlocks())"
        store.execute(f"INSERT INTO base ({names}, place) SELECT *, {place} FROM ({sql})", compile_expressions="0")


def put(store: ClickHouse, where: str) -> int:
    """Store the records of `base` that meet a condition; returns their number."""
    skipped = ("ALIAS", "MATERIALIZED")
    columns = [row["name"] for row in store.rows("DESCRIBE weir.flows") if row["default_type"] not in skipped]
    names = ", ".join(name for name in columns if name != "late_at")
    store.execute(f"INSERT INTO flows ({names}) SELECT {names} FROM base WHERE {where}", optimize_on_insert="0")
    return int(store.rows(f"SELECT count() AS n FROM base WHERE {where}")[0]["n"])


def settle(store: ClickHouse) -> None:
    """Wait for the end of all merges."""
    while store.rows("SELECT count() AS n FROM system.merges")[0]["n"]:
        time.sleep(0.2)


def correct(stack: LoneStore, store: ClickHouse, late: str, *, whole: bool) -> dict[str, Any]:
    """Store the records that are not late, roll them up, store the others, and measure their correction."""
    for table in ("flows", "flows_hourly", "flows_hourly_by_destination", "hosts_daily", "arrivals", "hours"):
        store.execute(f"TRUNCATE TABLE {table} SYNC")
    put(store, f"NOT ({late})")
    list(hours.roll_up(store, all_now=True))
    number = put(store, late)
    settle(store)
    process = psutil.Process(stack.process.pid)
    plain, comment = ClickHouse.execute, f"bench-late-{time.monotonic_ns()}"

    def commented(self: ClickHouse, sql: str, **settings: Any) -> str:
        return plain(self, sql, **{"log_comment": comment, "log_queries": "1"} | settings)

    begun, clock = process.cpu_times(), time.monotonic()
    with (
        mock.patch.object(ClickHouse, "execute", commented),
        mock.patch.object(hours, "_add_late", (lambda *_: None) if whole else hours._add_late),
    ):
        list(hours.roll_up(store, all_now=True))
    took = time.monotonic() - clock
    settle(store)
    ended = process.cpu_times()
    store.execute("SYSTEM FLUSH LOGS")
    read = store.rows(
        f"SELECT sum(read_rows) AS n FROM system.query_log WHERE type = 'QueryFinish' AND position(log_comment, '{comment}') > 0"
    )
    return {
        "late": number,
        "cpu": ended.user + ended.system - begun.user - begun.system,
        "took": took,
        "read": read[0]["n"],
        "sums": store.rows(
            "SELECT duplicate, sum(h.records) AS n, sum(fwd_octets) AS o, sum(rev_octets) AS r FROM flows_hourly AS h GROUP BY duplicate ORDER BY duplicate"
        ),
    }


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 3_000_000], metavar="N")
    parser.add_argument("--late", type=int, nargs="+", default=[1, 1_000, 100_000], metavar="N")
    options = parser.parse_args()
    lines = list(HEAD)
    with lone_store() as stack:
        store = connect(stack.stack, "admin", patience=None)
        for rows in options.rows:
            generate(store, rows)
            scattered = {
                f"{number:,}": f"place IN (SELECT place FROM base ORDER BY place LIMIT {number})"
                for number in options.late
            }
            for name, where in {**scattered, "five minutes of a probe": SPOOL}.items():
                sums = []
                for whole in (True, False):
                    found = correct(stack, store, where, whole=whole)
                    sums.append(found["sums"])
                    label = name if name[0].isdigit() else f"{found['late']:,}: {name}"
                    lines.append(
                        f"| {rows:,} | {label} | {'the whole hour' if whole else 'late records'} | {found['cpu']:.2f} | {found['took']:.2f} | {found['read']:,} |"
                    )
                    print(lines[-1], flush=True)
                if sums[0] != sums[1]:
                    raise SystemExit(f"the sums differ: {sums}")
    (BUILT / "bench").mkdir(parents=True, exist_ok=True)
    (BUILT / "bench/late.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
