"""Time of the query that the law requires: who had this address and port at that time?

`make bench-nat`, or ROWS=100000000. A private store gets reports of a translator as it would make them in 90 days:
4,096 public addresses, a session in two reports (beginning and end) some minutes apart, and blocks of 512 ports for
each 20th address. It then runs the query of `weir nat`, for randomly chosen times (by a seed) at which some subscriber
had the port, and for times at which no subscriber had it, and compares each answer with the generated sessions. A table
on standard output, and all figures in `.weir/bench/nat.json`. The data is removed at the end.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import random
import statistics
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rich.console import Console
from rich.table import Table

from harness import BUILT, RunningStack
from weir import nat
from weir.clickhouse import ClickHouse, connect

PUBLIC, DAYS, PIECE = 4096, 90, 2_000_000
#: Session n is on public address n % PUBLIC and the port below; it begins in the order of n, and lasts up to an hour.
SECONDS = DAYS * 86_400
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
PRIVATE = ipaddress.IPv4Address("100.64.0.0")
SEEN = ipaddress.IPv4Address("198.18.0.0")


@dataclass(frozen=True)
class Session:
    """A holding: subscriber, address and port, from and until (ms from FIRST)."""

    seen: ipaddress.IPv4Address
    port: int
    subscriber: ipaddress.IPv4Address
    begin_ms: int
    end_ms: int


def session(number: int, sessions: int) -> Session:
    """Session `number` of this many, as `fill` generates it in SQL."""
    begin = number * SECONDS * 1000 // sessions
    mixed = number * 2654435761 % 2**32
    return Session(
        SEEN + number % PUBLIC,
        1024 + number // PUBLIC % 64_512,
        PRIVATE + mixed % 2**21,
        begin,
        begin + 60_000 + mixed % 3_540_000,
    )


def fill(store: ClickHouse, rows: int, console: Console) -> float:
    """Two reports for each session; returns the seconds it took."""
    sessions = rows // 2
    began = time.monotonic()
    for first in range(0, sessions, PIECE):
        count = min(PIECE, sessions - first)
        store.execute(
            "INSERT INTO nat_events (ts, event_at, event, nat_event, src_addr, src_port, post_src_addr, post_src_port,"
            " protocol, dst_addr, dst_port, exporter_addr, probe, interval_ms)"
            " SELECT toDateTime(event_at, 'UTC'), toDateTime64('2026-01-01 00:00:00', 3, 'UTC') + toIntervalMillisecond(at) AS event_at,"
            " if(ends, 'delete', 'create'), 4 + ends, toIPv6(IPv4NumToString(toUInt32(toUInt32(toIPv4('100.64.0.0')) + mixed % 2097152))), 1024 + mixed % 60000,"
            f" toIPv6(IPv4NumToString(toUInt32(toUInt32(toIPv4('198.18.0.0')) + n % {PUBLIC}))), 1024 + intDiv(n, {PUBLIC}) % 64512,"
            " if(mixed % 4 = 0, 17, 6), toIPv6(IPv4NumToString(toUInt32(cityHash64(n)))), 443, toIPv6('192.0.2.254'), 'cgn', 10000"
            f" FROM (SELECT number + {first} AS n, (n * 2654435761) % 4294967296 AS mixed, ends,"
            f" intDiv(n * {SECONDS * 1000}, {sessions}) + ends * (60000 + mixed % 3540000) AS at"
            f" FROM numbers({count}) ARRAY JOIN [0, 1] AS ends)",
            max_partitions_per_insert_block="1000",
        )
        console.print(f"{min(first + PIECE, sessions) * 2:,} of {rows:,} reports", highlight=False)
    return time.monotonic() - began


def questions(rows: int, count: int, seed: int) -> list[tuple[nat.Who, datetime, str | None]]:
    """An address and port, a moment, and the subscriber that had them then; None if no subscriber had."""
    sessions = rows // 2
    round_of = PUBLIC * 64_512
    drawn = random.Random(seed)
    found = []
    for at in range(count):
        one = session(drawn.randrange(sessions), sessions)
        held = at % 2 == 0
        # Before the next session on the same port, for there are no more than one round of them in some rows.
        moment = (one.begin_ms + one.end_ms) // 2 if held else one.end_ms + 1_000
        if not held and sessions > round_of:
            moment = one.begin_ms - 1
        time_of = FIRST + timedelta(milliseconds=moment)
        found.append((nat.Who(one.seen, one.port), time_of, str(one.subscriber) if held else None))
    return found


def main() -> None:
    """Fill the store, query, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000, help="reports to store (default: %(default)s)")
    parser.add_argument("--questions", type=int, default=200, help="number of queries (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    console = Console()
    with RunningStack() as stack:
        for service in ("superset", "flink", "kafka"):
            if (stack.home / f"run/{service}.pid").exists():
                stack.stop(service)
        store, analyst = connect(stack.stack, "admin", patience=None), connect(stack.stack, "analyst")
        took = fill(store, arguments.rows, console)
        size = store.rows(
            "SELECT sum(rows) AS rows, sum(bytes_on_disk) AS octets FROM system.parts WHERE table = 'nat_events' AND active"
        )[0]
        took_ms, wrong = [], 0
        for wanted, at, subscriber in questions(arguments.rows, arguments.questions, arguments.seed):
            began = time.monotonic()
            answer = nat.ask(analyst, wanted, at)
            took_ms.append((time.monotonic() - began) * 1000)
            said = {one.subscriber for one in answer.holders}
            wrong += said != ({subscriber} if subscriber else set())
    took_ms.sort()
    figures = {
        "rows": size["rows"],
        "octets_per_row": round(size["octets"] / size["rows"], 2),
        "inserted_per_second": round(arguments.rows / took),
        "questions": arguments.questions,
        "wrong": wrong,
        "median_ms": round(statistics.median(took_ms), 1),
        "p99_ms": round(took_ms[int(len(took_ms) * 0.99)], 1),
        "longest_ms": round(took_ms[-1], 1),
    }
    table = Table("figure", "value", header_style="bold", box=None)
    for name, value in figures.items():
        table.add_row(name, f"{value:,}")
    console.print(table)
    (BUILT / "bench").mkdir(parents=True, exist_ok=True)
    (BUILT / "bench/nat.json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
