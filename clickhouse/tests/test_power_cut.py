"""Acknowledged rows survive a power cut.

The store's folder is a file system in an image file. A copy of the image, made at the moment of an acknowledgement while
the server is halted, has the content that a disk would have: all data written with fsync, and any other data that the kernel
happened to write. A server on the copy must have every acknowledged row.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Server, start, stop

BATCH = 500
THREADS = 3


def _can_mount() -> bool:
    """Whether this machine lets this user mount a file system from a file: a container often does not."""
    if os.geteuid() or not shutil.which("mkfs.ext4"):
        return False
    with tempfile.TemporaryDirectory(prefix="weir-clickhouse-") as folder:
        image = Path(folder) / "disk.img"
        try:
            _format(image, 16)
            with _mounted(image):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


def _format(image: Path, mebibytes: int) -> None:
    """Make an empty file system of this size in a file."""
    with image.open("wb") as file:
        file.truncate(mebibytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True, capture_output=True)


@contextmanager
def _mounted(image: Path) -> Iterator[Path]:
    point = image.with_suffix(".mount")
    point.mkdir()
    subprocess.run(["mount", "-o", "loop", image, point], check=True, capture_output=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", point], check=True)


@contextmanager
def _running(data: Path) -> Iterator[Server]:
    server = start(data)
    try:
        yield server
    finally:
        stop(server, signal.SIGKILL)


def _insert(server: Server, batch: int) -> int:
    body = b"".join(b"%d\t%d\n" % (n, n % 7) for n in range(batch * BATCH, (batch + 1) * BATCH))
    token = f"b{batch}"
    server.ask(
        body,
        query="INSERT INTO d.t FORMAT TSV",
        ok=True,
        insert_deduplication_token=token,
        deduplicate_blocks_in_dependent_materialized_views=1,
    )
    return batch


@pytest.mark.embedded
def test_a_power_cut_keeps_every_acknowledged_row() -> None:
    if not _can_mount():
        pytest.skip("needs root, mkfs.ext4 and loop devices, of a kernel module that containers often cannot use")
    with tempfile.TemporaryDirectory(prefix="weir-clickhouse-") as folder:
        image, copies = Path(folder) / "disk.img", list[tuple[Path, int]]()
        _format(image, 400)
        with _mounted(image) as disk, _running(disk / "data") as server:
            server.sql("CREATE DATABASE d")
            deduplicates = "SETTINGS non_replicated_deduplication_window = 1000"
            server.sql(f"CREATE TABLE d.t (a UInt64, b UInt64) ENGINE = MergeTree ORDER BY a {deduplicates}")
            server.sql(f"CREATE TABLE d.s (b UInt64, n UInt64) ENGINE = SummingMergeTree ORDER BY b {deduplicates}")
            server.sql("CREATE MATERIALIZED VIEW d.v TO d.s AS SELECT b, count() AS n FROM d.t GROUP BY b")
            # Everything so far is on the disk; what follows is there only if the server sees to it.
            os.sync()
            acknowledged = 0
            for cut in range(3):
                batches = range(acknowledged, acknowledged + 12)
                with ThreadPoolExecutor(THREADS) as pool:
                    acknowledged = max(pool.map(lambda number: _insert(server, number), batches)) + 1
                assert server.process is not None
                server.process.send_signal(signal.SIGSTOP)
                copies.append((Path(folder) / f"cut-{cut}.img", acknowledged))
                subprocess.run(["cp", "--sparse=always", image, copies[-1][0]], check=True)
                server.process.send_signal(signal.SIGCONT)
        for copy, count in copies:
            with _mounted(copy) as disk, _running(disk / "data") as server:
                rows = str(count * BATCH)
                counts = "SELECT count(), uniqExact(a), (SELECT sum(n) FROM d.s) FROM d.t"
                assert server.sql(counts) == f"{rows}\t{rows}\t{rows}"
                # Jobs that did not hear of the acknowledgements send the blocks again.
                for batch in range(count):
                    _insert(server, batch)
                assert server.sql(counts) == f"{rows}\t{rows}\t{rows}"
