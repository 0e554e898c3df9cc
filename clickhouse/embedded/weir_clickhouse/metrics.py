"""What the front counts, for Prometheus: `GET /metrics`."""

from __future__ import annotations

import os

import psutil
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

registry = CollectorRegistry()

queries = Counter("weir_clickhouse_queries", "Statements other than INSERT, by role", ["role"], registry=registry)
inserts = Counter("weir_clickhouse_inserts", "INSERTs acknowledged, by role", ["role"], registry=registry)
rows_inserted = Counter("weir_clickhouse_inserted_rows", "Rows in acknowledged INSERTs", registry=registry)
octets_in = Counter("weir_clickhouse_received_octets", "Octets of request bodies, as sent", registry=registry)
octets_out = Counter("weir_clickhouse_sent_octets", "Octets of response bodies, as sent", registry=registry)
errors = Counter("weir_clickhouse_errors", "Requests that failed, by ClickHouse's code", ["code"], registry=registry)
refused = Counter(
    "weir_clickhouse_refused",
    "Requests refused before the engine saw them, by cause: authentication, busy, statement, body_too_large, stopping",
    ["cause"],
    registry=registry,
)
cancelled = Counter("weir_clickhouse_cancelled", "Queries stopped because the client went away", registry=registry)
seconds = Histogram(
    "weir_clickhouse_request_seconds",
    "Time of a statement from its text to the end of its answer",
    ["kind"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
    registry=registry,
)
in_flight = Gauge("weir_clickhouse_in_flight", "Statements that run now", registry=registry)
resident = Gauge("weir_clickhouse_resident_octets", "Resident memory of the process", registry=registry)
disk = Gauge(
    "weir_clickhouse_disk_octets", "Octets on disk of the tables' active parts, by database", ["database"], registry=registry
)
disk_free = Gauge("weir_clickhouse_disk_free_octets", "Octets free on the file system of the data", registry=registry)
rows_stored = Gauge("weir_clickhouse_stored_rows", "Rows in active parts, by database", ["database"], registry=registry)

_process = psutil.Process(os.getpid())


def text(parts: list[list[str]], free: int) -> bytes:
    """The metrics in Prometheus' text format; parts: database, octets on disk, rows of each database."""
    resident.set(_process.memory_info().rss)
    disk_free.set(free)
    for database, octets, rows in parts:
        disk.labels(database).set(int(octets))
        rows_stored.labels(database).set(int(rows))
    return generate_latest(registry)
