"""Tokens of inserts that a kill or a power cut interrupted.

A MergeTree table writes an insert's block id into its deduplication log just before it puts the part in place. A process killed
in between leaves the id without the part: the insert, never acknowledged and sent again, would be dropped as a repeat, and its
rows would be lost. So the server, when it starts, withdraws ids without a part, with the same record that the engine itself
writes when it drops a part.

The engine does not write these logs to the disk with fsync, as it does with parts. After a power cut the rows of an acknowledged
insert would be on the disk and its id would not, and a repeat of the insert would count twice. So the server itself writes the
logs to the disk before it acknowledges an insert.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: First field of a record of the log: a block id was added, or removed.
_ADD, _DROP = "1", "2"


@dataclass(frozen=True)
class Blocks:
    """The range of block numbers that one part of a partition holds."""

    partition: str
    first: int
    last: int

    @classmethod
    def of(cls, part: str) -> Blocks:
        """Parse a part's name, `partition_first_last_level[_mutation]`. Raises ValueError."""
        partition, first, last, *_ = part.split("_")
        return cls(partition, int(first), int(last))

    def hold(self, other: Blocks) -> bool:
        """Whether the part is `other`, or was merged from it and others."""
        return self.partition == other.partition and self.first <= other.first and other.last <= self.last


class OnDisk:
    """The logs of all tables below these folders, and how many octets of each are on the disk."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._folders = [Path(folder) for folder in folders]
        self._octets: dict[Path, int] = {}
        self._lock = threading.Lock()

    def sync(self) -> None:
        """Write to the disk what has been added to any log. Raises OSError."""
        with self._lock:
            for folder in self._folders:
                for log in folder.glob("store/*/*/deduplication_logs/deduplication_log_*.txt"):
                    # A table may be dropped meanwhile.
                    with suppress(FileNotFoundError):
                        self._sync(log)

    def _sync(self, log: Path) -> None:
        octets = log.stat().st_size
        if self._octets.get(log) == octets:
            return
        _fsync(log)
        if log not in self._octets:
            _fsync(log.parent)
        self._octets[log] = octets


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def logs(table: Iterable[str]) -> list[Path]:
    """The deduplication logs of a table with these data paths, oldest first."""
    found = (log for path in table for log in Path(path, "deduplication_logs").glob("deduplication_log_*.txt"))
    return sorted(found, key=lambda log: int(log.stem.rpartition("_")[2]))


def lost(files: Iterable[Path], parts: Iterable[str]) -> list[tuple[str, str]]:
    """Part and block id of every insert that the logs contain but no part of the table holds."""
    known: dict[str, str] = {}
    for file in files:
        for line in file.read_text().splitlines():
            # Ignore a last line that was cut off, as the engine does.
            operation, part, block, *_ = [*line.split("\t"), "", ""]
            if operation == _ADD and block:
                known[block] = part
            elif operation == _DROP:
                known.pop(block, None)
    held: dict[str, list[Blocks]] = {}
    for part in parts:
        blocks = Blocks.of(part)
        held.setdefault(blocks.partition, []).append(blocks)

    def is_held(part: str) -> bool:
        blocks = Blocks.of(part)
        return any(other.hold(blocks) for other in held.get(blocks.partition, ()))

    return [(part, block) for block, part in known.items() if not is_held(part)]


def take_back(log: Path, entries: Iterable[tuple[str, str]]) -> None:
    """Record in the newest log that these ids are gone; its table must be detached."""
    with log.open("r+b") as file:
        # End a line that was cut off, so that it does not spoil our first line.
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write("".join(f"{_DROP}\t{part}\t{block}\n" for part, block in entries).encode())
        file.flush()
        os.fsync(file.fileno())
