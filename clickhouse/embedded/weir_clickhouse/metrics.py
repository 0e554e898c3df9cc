"""The front end's metrics, for Prometheus: `GET /metrics`."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

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
    "Requests refused before the engine saw them, by cause: authentication, lockout, busy, statement, audit, body_too_large, form, external, memory, too_slow, stopping",
    ["cause"],
    registry=registry,
)
dropped = Counter(
    "weir_clickhouse_connections_dropped",
    "Connections closed before a request was whole, by cause: head_too_slow, head_too_long, heads_too_large, too_many, no_descriptors",
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
walls = Gauge(
    "weir_clickhouse_wall",
    "1 if the engine is held by this wall: user (of its own), files, network, calls (of the kernel); 0 if not",
    ["wall"],
    registry=registry,
)

audit_entries = Counter("weir_clickhouse_audit_entries", "Entries written to the audit, by kind", ["kind"], registry=registry)
audit_writable = Gauge(
    "weir_clickhouse_audit_writable",
    "1 if the latest entry could be written to the audit; 0: readers are refused",
    registry=registry,
)
audit_lost = Counter(
    "weir_clickhouse_audit_lost",
    "Entries that found no room among those that wait until the audit can be written",
    registry=registry,
)

_process = psutil.Process(os.getpid())


class Sizes:
    """The stored sizes by database, which a thread of its own asks for: no client's request reaches the engine for them."""

    def __init__(self, ask: Callable[[], Iterable[Sequence[str]]], *, seconds: float = 10) -> None:
        """ask: returns database, octets on disk, rows. seconds: between two questions."""
        self._ask, self._seconds = ask, seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sizes", daemon=True)

    def start(self) -> None:
        """Begin to ask; the engine must have started."""
        self._thread.start()

    def stop(self) -> None:
        """End the questions; returns when none runs."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            # A store that cannot answer now keeps its last sizes.
            with suppress(RuntimeError):
                for database, octets, rows in self._ask():
                    disk.labels(database).set(int(octets))
                    rows_stored.labels(database).set(int(rows))
            if self._stopping.wait(self._seconds):
                return


class Text:
    """The metrics in Prometheus' text format, made at most once a second, because any client may ask for them."""

    def __init__(self, free: Callable[[], int], *, seconds: float = 1) -> None:
        """free: octets on the file system of the data."""
        self._free, self._seconds = free, seconds
        self._made = -math.inf
        self._text = b""
        self._lock = threading.Lock()

    def get(self) -> bytes:
        """The text; that of the last second, or while another thread makes a new one."""
        if self._lock.acquire(blocking=not self._text):
            try:
                if time.monotonic() - self._made >= self._seconds:
                    resident.set(_process.memory_info().rss)
                    disk_free.set(self._free())
                    self._text = generate_latest(registry)
                    self._made = time.monotonic()
            finally:
                self._lock.release()
        return self._text
