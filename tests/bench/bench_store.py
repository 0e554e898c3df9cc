"""Cost of the store: octets per record, records stored per second, and seconds per query.

`make bench-store`, or with ARGS='--quick' in some minutes. A private stack stores the records of real captures
(../shared/pcaps, if present) through agent, Kafka and jobs; in addition the engine generates rows (`store_traffic.py`),
and both are compared column by column: generated rows must not compress better. Then:

  raw         the table of flows and all tables that its views fill, at this many rows; octets per record
  insert      blocks as the sink sends them, with all views, and the hourly rows of them
  hourly      one /24 over the whole span, at each of the given numbers of rows
  daily       a year of talkers and totals of 200 probes

Each question's time stands beside that of a scan of the same columns of all rows of the same table. A table on standard
output and in `.weir/bench/store.md`, all figures in `store.json` beside it. `--questions` runs every saved query of
superset/assets/queries on the data. The data is removed at the end, unless `--keep`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import store_captures
import store_traffic
from capture_traces import SHARED
from harness import BUILT, CHECKOUT, RunningStack, eventually
from store_traffic import Traffic
from weir.clickhouse import ClickHouse, connect
from weir.errors import WeirError
from weir.storage import hours
from weir.storage.rollup import TALKERS

FOLDER = BUILT / "bench"
QUERIES = CHECKOUT / "superset/assets/queries"
#: Rows that the engine generates in one statement, and that the sink sends in one request.
PIECE, BODY = 1_000_000, 250_000
#: Compiled, the engine's arithmetic on random 64 bits gave other rows than interpreted: the rows must be reproducible.
MAKING = {"compile_expressions": "0"}
#: Columns of fewer octets in real rows are not compared one by one: a few odd records decide.
WORTH = 0.05
#: Tables that hold a stored record: time-ordered, and those that views fill.
COPIES = ("flows", "flows_hourly", "flows_hourly_by_destination", "hosts_daily", "ports_daily")
PROBES = 200
#: The address in the saved queries that an analyst replaces.
PLACE = "192.0.2.5"
#: Saved queries over more than some hours.
OF_YEARS = ("08_", "10_", "20_")
console = Console(width=150, highlight=False, soft_wrap=True)


@dataclass
class Result:
    """One line of the table: `met` is None without a target."""

    what: str
    target: str
    measured: str
    met: bool | None = None
    scan: float | None = None  # how many times faster than a scan


class KeptStack(RunningStack):
    """A stack whose data stays."""

    def remove(self) -> None:
        """Print the folder."""
        console.print(f"kept: {self.home}; WEIR_HOME={self.home} stack/bin/weir up starts it again")


class Bench:
    """A store under measurement, and its measurements."""

    def __init__(self, stack: RunningStack, options: argparse.Namespace) -> None:
        self.stack, self.options = stack, options
        self.admin, self.analyst = connect(stack.stack, "admin"), connect(stack.stack, "analyst")
        for client in (self.admin, self.analyst):
            client.client.timeout = 3600
        self.results: list[Result] = []
        self.figures: dict[str, Any] = {}

    # ---- questions ----

    def seconds(self, sql: str, client: ClickHouse | None = None, times: int = 3) -> float:
        """The median time of a query."""
        taken = []
        for _ in range(times):
            begin = time.monotonic()
            (client or self.analyst).execute(sql)
            taken.append(time.monotonic() - begin)
        return statistics.median(taken)

    def scan(self, table: str, columns: str) -> float:
        """The time to read these columns of all rows of a table."""
        return self.seconds(f"SELECT count() FROM {table} WHERE NOT ignore({columns})", self.admin)

    def size(self, *tables: str) -> int:
        """Octets of tables on disk, with marks, indices and projections."""
        names = ", ".join(f"'{table}'" for table in tables)
        found = self.admin.rows(
            f"SELECT sum(bytes_on_disk) AS n FROM system.parts WHERE active AND database = 'weir' AND table IN ({names})"
        )
        return int(found[0]["n"])

    def count(self, table: str) -> int:
        """Rows of a table."""
        return int(self.admin.rows(f"SELECT count() AS n FROM {table}")[0]["n"])

    def columns(self, table: str) -> dict[str, float]:
        """Compressed octets per value of each column."""
        rows = self.count(table)
        found = self.admin.rows(
            "SELECT column, sum(column_data_compressed_bytes) AS n FROM system.parts_columns "
            f"WHERE active AND database = 'weir' AND table = '{table}' GROUP BY column"
        )
        return {row["column"]: row["n"] / rows for row in found}

    # ---- filling ----

    def fill(self, table: str, select: str, **settings: str) -> None:
        """Insert the rows of a SELECT, by the names of its columns."""
        names = ", ".join(row["name"] for row in self.admin.rows(f"DESCRIBE ({select})"))
        self.admin.execute(f"INSERT INTO {table} ({names}) {select}", **MAKING, **settings)

    def merge(self, *tables: str) -> None:
        """Merge tables as they would merge over time."""
        for table in tables:
            console.print(f"merging {table} …")
            self.admin.execute(f"OPTIMIZE TABLE {table} FINAL")

    def add(self, what: str, target: str, measured: str, met: bool | None = None, scan: float | None = None) -> None:
        """A line of the table."""
        self.results.append(Result(what, target, measured, met, scan))
        verdict = {None: "", True: ", met", False: ", MISSED"}[met]
        console.print(f"  {what}: {measured}{f' (target {target}{verdict})' if target else ''}")


@contextmanager
def progress(what: str, total: int) -> Iterator[Any]:
    """A bar on a terminal, a line elsewhere."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    console.print(f"{what} …")
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


# ---- real records ----


def declared(folder: Path) -> Path:
    """A file of prefixes that hold the inside addresses of most captures: 700 networks of 40 customers."""
    lines = ["prefix,customer,site,tags,national"]
    networks = [f"192.168.{n}.0/24" for n in range(256)] + [f"10.{n}.0.0/16" for n in range(256)]
    networks += [f"172.{n}.0.0/16" for n in range(16, 32)] + [f"147.32.{n}.0/24" for n in range(64, 128)]
    lines += [f"{network},Customer {number % 40},lab,,true" for number, network in enumerate(networks)]
    path = folder / "prefixes.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def real_records(bench: Bench) -> int:
    """Store the captures' records through agent, Kafka and jobs, into flows; returns their number."""
    if not SHARED.is_dir():
        console.print(f"no captures in {SHARED}: generated rows are not compared with real ones")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        capture = folder / "all.pcap"
        packets = store_captures.laid_over(capture)
        console.print(f"{packets:,} packets of real captures through agent, Kafka and jobs …")
        for words in (
            ("probe", "add", "real", "--workers", "2", "--site", "lab"),
            ("prefixes", "import", str(declared(folder))),
        ):
            done = bench.stack.weir(*words)
            assert done.status == 0, done.err
        time.sleep(5)  # the jobs know the prefixes
        summary = bench.stack.read("real", capture, words=("--workers", "2"))
        bench.stack.settled("real", summary["packets"]["in_flow_records"] + summary["packets"]["in_overflow_records"])
    if bench.options.questions:
        # A window of five minutes is written once it is over.
        console.print("generating the windows of mixes, which some queries read (this takes some minutes) …")
        eventually(lambda: bench.count("mixes"), "windows of mixes", 400)
    return bench.count("flows")


def compare(bench: Bench, real: int) -> None:
    """Real rows and as many generated ones in tables of the same form: octets per value, column by column."""
    intervals = bench.admin.rows("SELECT uniqExact(ts) AS n FROM flows")[0]["n"]
    names = [row["name"] for row in bench.admin.rows("DESCRIBE flows") if row["default_type"] != "ALIAS"]
    known = {
        name: sql for side in ("src", "dst") for name, sql in store_traffic.network(side, f"{side}_prefix != 0").items()
    }
    for kind in ("real", "made"):
        bench.admin.execute(f"CREATE OR REPLACE TABLE compared_{kind} AS flows")
        # A part of few rows has all columns in one file, and does not report the size of each.
        bench.admin.execute(f"ALTER TABLE compared_{kind} MODIFY SETTING min_bytes_for_wide_part = 0")
    # No file of networks comes with the project: both kinds of rows get AS and country by the same rule.
    bench.admin.execute(
        f"INSERT INTO compared_real ({', '.join(names)}) SELECT {', '.join(known.get(name, name) for name in names)} FROM flows"
    )
    traffic = Traffic(start=int(time.time()) // 300 * 300, probes=1, per_interval=real // intervals, hosts=800)
    bench.fill("compared_made", store_traffic.flows(traffic, 0, real))
    bench.admin.execute("OPTIMIZE TABLE compared_real FINAL")
    bench.admin.execute("OPTIMIZE TABLE compared_made FINAL")
    shape = (
        "uniqExact(src_addr) AS sources, uniqExact(dst_addr) AS destinations, uniqExact(src_addr, dst_addr) AS pairs, "
        "uniqExact(dst_port) AS ports, uniqExact(server_name) AS server_names, uniqExact(dns_query) AS dns_names"
    )
    shapes = {name: bench.admin.rows(f"SELECT {shape} FROM compared_{name}")[0] for name in ("real", "made")}
    octets = {name: bench.columns(f"compared_{name}") for name in ("real", "made")}
    totals = {name: sum(values.values()) for name, values in octets.items()}
    table = Table(title=f"Octets of a value, {real:,} rows each", title_justify="left", box=None, header_style="bold")
    for heading in ("column", "real", "made", "made to real"):
        table.add_column(heading, justify="left" if heading == "column" else "right")
    easier = []
    for column, value in sorted(octets["real"].items(), key=lambda item: -item[1]):
        made = octets["made"].get(column, 0)
        if value < WORTH and made < WORTH:
            continue
        if value >= WORTH and made < 0.95 * value:
            easier.append(f"{column} ({made:.2f} to {value:.2f})")
        table.add_row(column, f"{value:.3f}", f"{made:.3f}", f"{made / value:.2f}" if value else "")
    table.add_row(
        "all", f"{totals['real']:.2f}", f"{totals['made']:.2f}", f"{totals['made'] / totals['real']:.2f}", style="bold"
    )
    console.print(table)
    for name, found in shapes.items():
        console.print(f"  {name}: " + ", ".join(f"{value:,} {what.replace('_', ' ')}" for what, value in found.items()))
    if easier:
        console.print("  more compressible than real: " + ", ".join(easier))
    bench.figures["compared"] = {"rows": real, "octets": octets, "shapes": shapes, "more_compressible": easier}
    bench.add(
        "octets of a row, made to real",
        "not less",
        f"{totals['made'] / totals['real']:.2f} ({totals['made']:.1f} to {totals['real']:.1f}, {real:,} rows)",
        totals["made"] >= totals["real"],
    )
    for name in ("flows", *COPIES[1:]):
        bench.admin.execute(f"TRUNCATE TABLE {name}")


# ---- raw ----


def bodies(bench: Bench, traffic: Traffic, rows: int) -> Iterator[tuple[int, bytes]]:
    """Request bodies as the sink builds them: Native blocks of 16,384 rows, zstd."""
    settings = {"enable_http_compression": "1", "max_block_size": "16384", "database": "weir", **MAKING}
    for first in range(0, rows, BODY):
        count = min(BODY, rows - first)
        sql = store_traffic.flows(traffic, first, count) + " FORMAT Native"
        with bench.admin.client.stream(
            "POST", "/", params=settings, content=sql.encode(), headers={"Accept-Encoding": "zstd"}
        ) as answer:
            body = b"".join(answer.iter_raw())
            assert answer.status_code == 200, body[:500]
            assert answer.headers.get("content-encoding") == "zstd", "the store did not compress"
        yield count, body


def insert(bench: Bench, traffic: Traffic, rows: int) -> None:
    """The sink's own requests, two at a time as two subtasks send them; all views are filled before the answer. Then
    the hourly rows, as the service writes them.
    """
    with progress(f"{rows:,} rows as the sink sends them", rows) as advance:
        made = []
        for count, body in bodies(bench, traffic, rows):
            made.append((count, body))
            advance(count)
    writer = connect(bench.stack.stack, "writer")
    writer.client.timeout = 600
    waiting = list(enumerate(made))
    lock = threading.Lock()
    errors: list[str] = []

    def send() -> None:
        while True:
            with lock:
                if not waiting or errors:
                    return
                number, (_, body) = waiting.pop(0)
            params = {
                "database": "weir",
                "query": "INSERT INTO flows FORMAT Native",
                "insert_deduplication_token": f"bench/flows/{number}",
                "insert_deduplicate": "1",
                "async_insert": "0",
                "optimize_on_insert": "0",
                "deduplicate_blocks_in_dependent_materialized_views": "1",
                "input_format_native_allow_types_conversion": "1",
                "min_insert_block_size_rows": "1048576",
                "min_insert_block_size_bytes": "0",
                "max_insert_block_size": "1048576",
                "wait_end_of_query": "1",
            }
            answer = writer.client.post("/", params=params, content=body, headers={"Content-Encoding": "zstd"})
            if answer.status_code != 200:
                errors.append(answer.text[:500])

    process = psutil.Process(bench.stack.pid("clickhouse"))
    before = process.cpu_times()
    begin = time.monotonic()
    threads = [threading.Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begin
    after = process.cpu_times()
    assert not errors, errors[0]
    begin = time.monotonic()
    list(hours.roll_up(bench.admin, all_now=True))
    rolled_s, rolled = time.monotonic() - begin, process.cpu_times()
    rolled_cpu = rolled.user + rolled.system - after.user - after.system
    for table, sums in (("flows", "count()"), ("flows_hourly", "sum(records)"), ("hosts_daily", "sum(flows_begun)")):
        there = bench.admin.rows(f"SELECT {sums} AS n FROM {table}")[0]["n"]
        assert there >= rows // 2 if table == "hosts_daily" else there == rows, f"{table} has {there} of {rows}"
    cpu = after.user + after.system - before.user - before.system
    octets = sum(len(body) for _, body in made)
    bench.figures["insert"] = {
        "rows": rows,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "hours_seconds": rolled_s,
        "hours_cpu_seconds": rolled_cpu,
        "octets_sent": octets,
        "rows_a_request": BODY,
    }
    bench.add(
        "records stored a second, hourly rows included",
        "250,000",
        f"{rows / (seconds + rolled_s):,.0f} ({rows / seconds:,.0f} inserted, {cpu / rows * 1e6:.1f} us of CPU a record and "
        f"{octets / rows:.0f} octets sent; hourly rows {rolled_cpu / rows * 1e6:.1f} us)",
        rows / (seconds + rolled_s) >= 250_000,
    )


def raw(bench: Bench, traffic: Traffic, have: int, rows: int) -> None:
    """Up to this many rows of flows with all tables that views fill, and the disk space per record."""
    with progress(f"{rows:,} rows of flows and their views", rows - have) as advance:
        for first in range(have, rows, PIECE):
            count = min(PIECE, rows - first)
            bench.fill("flows", store_traffic.flows(traffic, first, count))
            advance(count)
    list(hours.roll_up(bench.admin, all_now=True))
    bench.merge(*COPIES)
    octets = {table: bench.size(table) / rows for table in COPIES}
    columns = bench.columns("flows")
    counts = {table: bench.count(table) for table in COPIES}
    span_h = traffic.span_s(rows) / 3600
    networks = traffic.probes * 157
    bench.figures["raw"] = {
        "rows": rows,
        "hours": span_h,
        "traffic": asdict(traffic),
        "octets_a_record": octets,
        "rows_of": counts,
        "octets_of_columns": columns,
    }
    console.print(
        f"  {rows:,} records of {traffic.probes} probes in {span_h:.2f} hours: {rows / span_h:,.0f} an hour, "
        f"{rows / networks:,.0f} for each /24 inside; {counts['flows_hourly'] / rows:.2f} hourly rows a record"
    )
    shown = Table(title="Octets of a record by column", title_justify="left", box=None, header_style="bold")
    for heading in ("column", "octets", "share"):
        shown.add_column(heading, justify="left" if heading == "column" else "right")
    for column, value in sorted(columns.items(), key=lambda item: -item[1]):
        if value >= 0.02:
            shown.add_row(column, f"{value:.3f}", f"{value / octets['flows']:.1%}")
    rest = octets["flows"] - sum(value for value in columns.values() if value >= 0.02)
    shown.add_row("all others, marks, index, projection", f"{rest:.3f}", f"{rest / octets['flows']:.1%}")
    console.print(shown)
    bench.add("octets of a record, time-ordered", "24", f"{octets['flows']:.2f} ({rows:,} rows)", octets["flows"] <= 24)
    parts = ", ".join(f"{table} {octets[table]:.1f}" for table in COPIES)
    total = sum(octets.values())
    bench.add("octets of a record, all copies", "40", f"{total:.2f} ({parts})", total <= 40)
    sums = "sum(fwd_octets + rev_octets)"
    begin, end = day_of(traffic.start), day_of(traffic.start + int(traffic.span_s(rows)) + 86_400)
    where = f"WHERE ts >= '{begin} 00:00:00' AND ts < '{end} 00:00:00'"
    taken = bench.seconds(f"SELECT {sums} FROM flows {where}")
    read = bench.seconds(f"SELECT {sums} FROM flows {where} SETTINGS optimize_use_projections = 0", bench.admin)
    full = bench.scan("flows", "fwd_octets, rev_octets")
    bench.figures["raw"]["day_total_s"] = {"as_asked": taken, "without_projection": read, "scan": full}
    bench.add(
        "total of a day, from raw records",
        "1 s",
        f"{taken:.3f} s ({rows:,} rows; {read:.2f} s where every record is read)",
        taken <= 1,
        full / taken,
    )


def reached(taken: float, target: float, whole: bool) -> bool | None:
    """Whether a target is met; a time measured on fewer rows than the target's does not count."""
    return False if taken > target else True if whole else None


# ---- hourly ----


def hourly(bench: Bench, counts: list[int], until: int) -> None:
    """A query for one /24 over growing numbers of hourly rows: the rows per hour stay the same, the time span grows."""
    probes, an_hour = 20, 570
    widest = Traffic(start=0, probes=probes, per_interval=an_hour, interval_s=3600)
    span_h = int(widest.span_s(max(counts)) / 3600)
    traffic = Traffic(start=until - span_h * 3600, probes=probes, per_interval=an_hour, interval_s=3600)
    for table in COPIES[1:]:
        bench.admin.execute(f"TRUNCATE TABLE {table}")
    have = 0
    found = []
    question = (
        "SELECT host, sum(octets) AS octets, uniqExact(peer) AS peers, min(ts), max(ts) FROM v_network(network = '78.3.5.0/24') "
        "GROUP BY host ORDER BY octets DESC"
    )
    for rows in sorted(counts):
        with progress(f"{rows:,} hourly rows", rows - have) as advance:
            for first in range(have, rows, PIECE):
                # The views add rows to the table of destinations, to hosts_daily and to ports_daily.
                bench.fill("flows_hourly", store_traffic.hourly(traffic, first, min(PIECE, rows - first)))
                advance(min(PIECE, rows - first))
        have = rows
        wait_for_merges(bench)
        taken = bench.seconds(question)
        full = bench.scan("flows_hourly", "ts, src_addr, dst_addr, fwd_octets, rev_octets")
        full += bench.scan("flows_hourly_by_destination", "ts, src_addr, dst_addr, fwd_octets, rev_octets")
        network = bench.analyst.rows("SELECT count() AS n FROM v_network(network = '78.3.5.0/24')")[0]["n"]
        parts = bench.admin.rows("SELECT count() AS n FROM system.parts WHERE active AND table LIKE 'flows_hourly%'")[
            0
        ]["n"]
        days = traffic.span_s(rows) / 86_400
        octets = bench.size("flows_hourly", "flows_hourly_by_destination") / rows
        found.append(
            {
                "rows": rows,
                "days": days,
                "seconds": taken,
                "scan_s": full,
                "rows_of_24": network,
                "parts": parts,
                "octets": octets,
            }
        )
        largest = rows == max(counts)
        bench.add(
            f"one /24 over {days:,.0f} days of hourly rows, {rows:,}",
            "2 s at 200 million" if largest else "",
            f"{taken:.2f} s ({network:,} rows of it, {parts} parts, {octets:.1f} octets a row in both orders)",
            reached(taken, 2, rows >= 200_000_000) if largest else None,
            full / taken,
        )
    bench.figures["hourly"] = {"rows_an_hour": traffic.slots, "runs": found}
    if len(found) > 1:
        least, most = found[0], found[-1]
        bench.add(
            f"the same, growth from {least['rows']:,} to {most['rows']:,} rows",
            "",
            f"{most['seconds'] / least['seconds']:.1f} times the time for {most['rows'] / least['rows']:.0f} times the rows",
        )


def wait_for_merges(bench: Bench, seconds: int = 300) -> None:
    """Wait until the engine has finished its merges, but at most `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if bench.admin.rows("SELECT count() AS n FROM system.merges")[0]["n"] == 0:
            return
        time.sleep(1)


# ---- daily ----


def daily(bench: Bench, listed: int, days: int, until: int) -> None:
    """A year of talkers and totals."""
    first = datetime.fromtimestamp(until, UTC).date() - timedelta(days=days)
    with progress(f"{days} days of {listed:,} talkers of {PROBES} probes", days) as advance:
        for day in range(days):
            bench.fill("talkers_daily", store_traffic.talkers(PROBES, listed, str(first + timedelta(days=day))))
            advance(1)
    console.print("totals and mixes …")
    bench.fill("mixes_daily", store_traffic.mixes(PROBES, days, str(first)), max_partitions_per_insert_block="0")
    wait_for_merges(bench)
    rows = bench.count("talkers_daily")
    where = f"WHERE day >= '{first}'"
    talkers = f"SELECT weir_addr(addr) AS host, any(as_number), sum(t.octets) AS octets FROM v_talkers_daily AS t {where} AND rank > 0 GROUP BY addr ORDER BY octets DESC LIMIT 50"
    taken = bench.seconds(talkers)
    by_table = bench.seconds(
        f"SELECT addr, sum(sent_octets + received_octets) AS octets FROM talkers_daily {where} AND rank > 0 GROUP BY addr ORDER BY octets DESC LIMIT 50"
    )
    full = bench.scan("talkers_daily", "day, rank, addr, sent_octets, received_octets")
    octets = bench.size("talkers_daily") / rows
    bench.figures["daily"] = {
        "talkers": rows,
        "listed": listed,
        "days": days,
        "talkers_s": taken,
        "scan_s": full,
        "octets": octets,
    }
    bench.add(
        f"top 50 talkers of {days} days from the lists of {PROBES} probes",
        "",
        f"{taken:.2f} s ({rows:,} rows, {listed:,} a probe and day; {octets:.1f} octets a row; {by_table:.2f} s from the table itself)",
        None,
        full / taken,
    )
    with progress("the national list of each day", days) as advance:
        for day in range(days):
            bench.admin.execute(store_traffic.national(str(first + timedelta(days=day)), TALKERS))
            advance(1)
    wait_for_merges(bench)
    national = talkers.replace("v_talkers_daily", "v_national_talkers_daily")
    same = len(
        {row["host"] for row in bench.analyst.rows(talkers)} & {row["host"] for row in bench.analyst.rows(national)}
    )
    rows = bench.count("national_talkers_daily")
    taken = bench.seconds(national)
    full = bench.scan("national_talkers_daily", "day, rank, addr, sent_octets, received_octets")
    bench.figures["daily"] |= {"national": rows, "national_s": taken, "national_scan_s": full, "same_of_50": same}
    bench.add(
        f"top 50 talkers of {days} days from the national list",
        "1 s for a year",
        f"{taken:.2f} s ({rows:,} rows; {same} of the 50 are the same)",
        reached(taken, 1, days >= 365),
        full / taken,
    )
    rows = bench.count("mixes_daily")
    total = f"SELECT direction, sum(octets) FROM v_mixes_daily {where} AND scope = 'all' AND dimension = 'total' GROUP BY direction"
    taken = bench.seconds(total)
    full = bench.scan("mixes_daily", "day, scope, direction, dimension, octets")
    bench.figures["daily"] |= {
        "mixes": rows,
        "total_s": taken,
        "mixes_scan_s": full,
        "mixes_octets": bench.size("mixes_daily") / rows,
    }
    bench.add(
        f"national total of {days} days",
        "0.2 s for a year",
        f"{taken:.3f} s ({rows:,} rows of mixes_daily)",
        reached(taken, 0.2, days >= 365),
        full / taken,
    )


# ---- saved queries ----


def busy_host(bench: Bench) -> str:
    """An address that has raw, hourly and daily rows, for the questions about one address."""
    found = bench.admin.rows(
        "SELECT weir_addr(src_addr) AS host FROM flows WHERE src_addr IN (SELECT src_addr FROM flows_hourly WHERE probe = 'probe-0' "
        "AND ts > now() - INTERVAL 90 DAY) AND ts > now() - INTERVAL 5 HOUR GROUP BY src_addr ORDER BY count() DESC LIMIT 1"
    )
    return str(found[0]["host"]) if found else PLACE


def questions(bench: Bench, title: str, asked: list[Path]) -> None:
    """Saved queries on the existing data: their times, their rows, the first of them."""
    host = busy_host(bench)
    console.print(f"questions about one address ask for {host}")
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    for heading in ("query", "seconds", "rows", "first row"):
        table.add_column(heading, justify="right" if heading in ("seconds", "rows") else "left")
    found: list[dict[str, Any]] = []
    for path in asked:
        begin = time.monotonic()
        try:
            rows = bench.analyst.rows(path.read_text().replace(PLACE, host).strip().rstrip(";"))
        except WeirError as error:
            found.append({"query": path.stem, "error": str(error)})
            table.add_row(path.stem, "", "", f"FAILED: {str(error)[:100]}")
            continue
        taken = time.monotonic() - begin
        found.append({"query": path.stem, "seconds": taken, "rows": len(rows), "first": rows[:1]})
        first = json.dumps(rows[0], ensure_ascii=False) if rows else "none"
        table.add_row(path.stem, f"{taken:.2f}", f"{len(rows):,}", first[:100])
    console.print(table)
    bench.figures.setdefault("questions", []).extend(found)


# ---- all ----


def day_of(seconds: int) -> str:
    """The day of a time, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def show(bench: Bench) -> None:
    """Print the table, and write it and all figures."""
    heads = ("what", "target", "measured", "", "to a scan")
    rows = [
        (
            one.what,
            one.target,
            one.measured,
            {None: "", True: "met", False: "MISSED"}[one.met],
            "" if one.scan is None else f"{one.scan:,.1f}x faster" if one.scan >= 1 else f"{1 / one.scan:,.1f}x slower",
        )
        for one in bench.results
    ]
    title = f"The store, {psutil.cpu_count()} cores, embedded, {datetime.now(UTC):%Y-%m-%d}"
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = [f"# {title}", "", "| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    (FOLDER / "store.md").write_text("\n".join(lines) + "\n")
    figures = {"cores": psutil.cpu_count(), "results": [asdict(one) for one in bench.results]} | bench.figures
    (FOLDER / "store.json").write_text(json.dumps(figures, indent=1, default=str) + "\n")
    console.print(f"written: {FOLDER / 'store.md'} and store.json")


def main() -> int:
    """Measure; returns 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", type=int, default=20_000_000, metavar="N", help="rows of flows (20 million)")
    parser.add_argument(
        "--insert",
        type=int,
        default=5_000_000,
        metavar="N",
        help="number of these rows to insert as the sink does (5 million)",
    )
    parser.add_argument(
        "--hourly", type=int, nargs="*", default=[20_000_000, 200_000_000], metavar="N", help="rows of flows_hourly"
    )
    parser.add_argument(
        "--talkers", type=int, default=1_000, metavar="N", help="listed hosts of a probe and day (1,000)"
    )
    parser.add_argument("--days", type=int, default=365, metavar="N", help="days of daily rows (365)")
    parser.add_argument("--quick", action="store_true", help="2 million raw, 2 million hourly, 30 days of 100 talkers")
    parser.add_argument("--questions", action="store_true", help="run every saved query on the data, too")
    parser.add_argument("--keep", action="store_true", help="keep the data, and print its path")
    options = parser.parse_args()
    if options.quick:
        options.raw, options.insert, options.hourly = 2_000_000, 1_000_000, [200_000, 2_000_000]
        options.talkers, options.days = 100, 30
    options.insert = min(options.insert, options.raw)
    until = int(time.time()) // 3600 * 3600
    with (KeptStack if options.keep else RunningStack)() as stack:
        bench = Bench(stack, options)
        try:
            if real := real_records(bench):
                compare(bench, real)
            for service in ("flink", "kafka", "storage"):
                stack.stop(service)
            span = Traffic(start=0).span_s(options.raw)
            traffic = Traffic(start=(until - int(span)) // 300 * 300)
            if options.insert:
                insert(bench, traffic, options.insert)
            if options.raw:
                raw(bench, traffic, options.insert, options.raw)
            of_years = [path for path in sorted(QUERIES.glob("*.sql")) if path.stem.startswith(OF_YEARS)]
            if options.questions:
                # Most ask about the last hours, so they run before those are over.
                others = [path for path in sorted(QUERIES.glob("*.sql")) if path not in of_years]
                questions(bench, "Questions about the last hours", others)
            if options.hourly:
                hourly(bench, options.hourly, until)
            if options.talkers:
                daily(bench, options.talkers, options.days, until)
            if options.questions:
                questions(bench, "Questions about years", of_years)
        finally:
            # The measurements are written even if a later part fails.
            show(bench)
    return 1 if any(one.met is False for one in bench.results) else 0


if __name__ == "__main__":
    sys.exit(main())
