"""Backup and restore through a whole stack: the store's directory is lost, and a restore brings everything back."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import SEEDS, RunningStack, eventually
from weir.clickhouse import ClickHouse, connect
from window_traffic import Publisher, conversations_and_a_scan

INTERVAL_S = 10
#: These tests throw its data away.
OWN_STACK: dict[str, object] = {"mix_window": "30s"}


@pytest.fixture(scope="module")
def place(stack: RunningStack) -> Path:
    """The folder for backups; removed with the stack."""
    return stack.home / "backups"


def content(store: ClickHouse) -> dict[str, str]:
    """Every table's rows, and the definition of every table, view and dictionary."""
    out = {}
    for row in store.rows(
        "SELECT concat(database, '.', name) AS name, engine, create_table_query AS made FROM system.tables "
        "WHERE database IN ('weir', 'ntopng') ORDER BY name"
    ):
        out[f"made {row['name']}"] = row["made"]
        if row["engine"].endswith("MergeTree"):
            # Merges may join rows of one key, or leave old versions out, at any time.
            final = "" if row["engine"] == "MergeTree" else "FINAL"
            text = store.execute(f"SELECT * FROM {row['name']} {final} ORDER BY ALL")
            out[f"rows {row['name']}"] = f"{len(text.splitlines())} {hashlib.sha256(text.encode()).hexdigest()}"
    return out


def publish(stack: RunningStack, store: ClickHouse, probe: str, seed: int) -> int:
    """Store some intervals of a probe; returns the number of records."""
    chance, publisher, sent = random.Random(seed), Publisher(stack, probe), 0
    start = int(time.time()) // 600 * 600 - 3600
    for tick in range(12):
        flows = list(conversations_and_a_scan(chance))
        sent += len(flows)
        publisher.interval(1000 * (start + tick * INTERVAL_S), [flow.record() for flow in flows], last=tick == 11)
    eventually(
        lambda: store.rows(f"SELECT count() AS n FROM flows WHERE probe = '{probe}'")[0]["n"] == sent, "all records"
    )
    return sent


def lose_everything(stack: RunningStack) -> None:
    stack.stop("clickhouse")
    shutil.rmtree(stack.home / "data/clickhouse")
    stack.start("clickhouse")


def test_a_lost_directory_is_brought_back_whole(stack: RunningStack, store: ClickHouse, place: Path) -> None:
    publish(stack, store, "before", 1)
    eventually(lambda: store.rows("SELECT count() AS n FROM mixes")[0]["n"] > 0, "windows", 120)
    for service in ("storage", "flink"):
        stack.stop(service)
    done = stack.weir("backup", str(place / "first"))
    assert done.status == 0, done.err
    # The backup itself inserts the blocks that the stopped jobs left.
    before = content(store)
    assert before["rows weir.flows"].split()[0] == str(12 * 90)
    assert "ok     write" in done.out, "progress, as lines where there is no terminal"
    assert "weir_snapshot" not in store.execute("SHOW DATABASES")
    assert stack.weir("restore", str(place / "first"), "--check").status == 0
    assert content(store) == before, "looking changes nothing"

    lose_everything(stack)
    assert "weir" not in store.execute("SHOW DATABASES", database="")
    refused = stack.weir("backup", str(place / "empty"))
    assert refused.status == 1
    assert "nothing to back up" in refused.err
    done = stack.weir("restore", str(place / "first"))
    assert done.status == 0, done.err
    after = content(store)
    assert {name for name in before if before[name] != after.get(name)} == set()
    assert set(after) == set(before)
    assert "weir_restore" not in store.execute("SHOW DATABASES")


def test_a_store_that_holds_something_is_not_replaced_unasked(
    stack: RunningStack, store: ClickHouse, place: Path
) -> None:
    before = content(store)
    done = stack.weir("restore", str(place / "first"))
    assert done.status == 2
    assert "not empty" in done.err
    assert "--force" in done.err
    assert content(store) == before


def test_a_later_backup_needs_only_what_is_new(stack: RunningStack, store: ClickHouse, place: Path) -> None:
    store.execute("INSERT INTO flows (ts, probe, fwd_packets) SELECT now() - number, 'later', 1 FROM numbers(1000)")
    done = stack.weir("backup", str(place / "second"), "--base", str(place / "first"))
    assert done.status == 0, done.err
    before = content(store)

    def parts_of(table: str, backup: str) -> int:
        return sum(path.stat().st_size for path in (place / backup / "data/weir" / table).rglob("*") if path.is_file())

    assert parts_of("services", "second") < parts_of("services", "first")
    store.execute("ALTER TABLE flows DELETE WHERE 1", mutations_sync="2")
    store.execute("INSERT INTO probes (probe) VALUES ('stranger')")
    done = stack.weir("restore", str(place / "second"), "--force")
    assert done.status == 0, done.err
    assert {name for name, rows in content(store).items() if before[name] != rows} == set()
    done = stack.weir("restore", str(place / "first"), "--force")
    assert done.status == 0, done.err
    assert store.rows("SELECT DISTINCT probe FROM flows") == [{"probe": "before"}]


def _scratch(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(len(data) // 2, len(data) // 2 + 16):
        data[at] ^= 0xFF
    path.write_bytes(data)


def _largest(backup: Path) -> Path:
    return max(backup.rglob("*.bin"), key=lambda file: file.stat().st_size)


HARMS: dict[str, Callable[[Path], None]] = {
    "nothing there": lambda backup: shutil.rmtree(backup),
    "broken off": lambda backup: (backup / ".backup").unlink(),
    "a file lost": lambda backup: _largest(backup).unlink(),
    "octets changed": lambda backup: _scratch(_largest(backup)),
}


def test_a_backup_that_is_not_whole_changes_nothing(stack: RunningStack, store: ClickHouse, place: Path) -> None:
    before = content(store)
    for name, harm in HARMS.items():
        copy = place / "harmed" / name.replace(" ", "-")
        shutil.copytree(place / "first", copy)
        harm(copy)
        done = stack.weir("restore", str(copy), "--force")
        assert done.status == 1, (name, done.out)
        assert done.err.startswith("weir: "), done.err
        assert "Traceback" not in done.err
        assert content(store) == before, name
    done = stack.weir("backup", str(place / "first"))
    assert done.status == 2
    assert "is not empty" in done.err


def test_what_has_migrations_of_another_version_is_refused(stack: RunningStack, store: ClickHouse, place: Path) -> None:
    store.execute("INSERT INTO schema_migrations (name, checksum) VALUES ('9999_later.sql', '')")
    with_it = content(store)
    done = stack.weir("migrate")
    assert done.status == 1
    assert "the store has migrations that this version of Weir does not have: 9999_later.sql" in done.err
    assert content(store) == with_it
    assert stack.weir("backup", str(place / "later")).status == 0
    store.execute("ALTER TABLE schema_migrations DELETE WHERE name = '9999_later.sql'", mutations_sync="2")
    before = content(store)
    done = stack.weir("restore", str(place / "later"), "--force")
    assert done.status == 1
    assert "the backup has migrations that this version of Weir does not have: 9999_later.sql" in done.err
    assert content(store) == before


def test_the_jobs_go_on_after_a_restore(stack: RunningStack, store: ClickHouse, place: Path) -> None:
    stack.start("flink")
    pid = stack.pid("flink")
    assert stack.weir("restore", str(place / "second")).status == 2, "the store is not empty"
    assert stack.pid("flink") == pid, "what is refused stops nothing"
    done = stack.weir("restore", str(place / "second"), "--force", timeout=300)
    assert done.status == 0, done.err
    assert "flink" in done.out
    assert stack.pid("flink") not in (0, pid)
    sent = publish(stack, store, "after", 3)
    # The views that fill the tiers belong to the tables that are in place now.
    assert stack.weir("storage", "roll-up").status == 0
    eventually(
        lambda: store.rows("SELECT sum(h.records) AS n FROM flows_hourly AS h WHERE probe = 'after'")[0]["n"] == sent,
        "hourly rows",
    )
    eventually(lambda: store.rows("SELECT count() > 0 AS n FROM hosts WHERE probe = 'after'")[0]["n"], "daily hosts")

    pid = stack.pid("flink")
    done = stack.weir("backup", str(place / "unpaused"), "--no-pause")
    assert done.status == 0, done.err
    assert "It holds no state of the jobs and no offsets: the jobs were not paused." in done.out
    assert stack.pid("flink") == pid


class Stream(threading.Thread):
    """Two probes that publish an interval again and again, until `finish`."""

    def __init__(self, stack: RunningStack, name: str, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.publishers = [Publisher(stack, f"{name}-a"), Publisher(stack, f"{name}-b")]
        self.chance = chance
        self.start_ms = 1000 * (int(time.time()) // 600 * 600 - 7_200)
        self.ticks = 0
        self.sums = {one.probe: {"records": 0, "packets": 0, "octets": 0} for one in self.publishers}
        self.ending = threading.Event()
        self.stopped = False

    def run(self) -> None:
        ended = False
        while not ended and not self.stopped:
            # The last interval ends a window of every job.
            ended = self.ending.is_set() and self.ticks % 30 == 29
            for one in self.publishers:
                flows = list(conversations_and_a_scan(self.chance))
                at = self.start_ms + 1000 * INTERVAL_S * self.ticks
                one.interval(at, [flow.record() for flow in flows], last=ended)
                sums = self.sums[one.probe]
                sums["records"] += len(flows)
                sums["packets"] += sum(flow.packets for flow in flows)
                sums["octets"] += sum(flow.forward.octets + flow.back.octets for flow in flows)
            self.ticks += 1
            time.sleep(0 if self.ending.is_set() else self.chance.uniform(0, 0.3))

    def published_more(self, ticks: int) -> None:
        """Wait until the probes have published so many intervals more."""
        until = self.ticks + ticks
        eventually(lambda: self.ticks >= until, "intervals published")

    def stop(self) -> None:
        """End, whatever is published."""
        self.stopped = True
        self.join(60)

    def finish(self) -> None:
        """Publish to the end of a window, and end."""
        self.ending.set()
        self.join(60)


#: Sums over what is stored of each probe, which equal those of what it published.
STORED = {
    "flows": "SELECT probe, count() AS records, sum(fwd_packets + rev_packets) AS packets,"
    " sum(fwd_octets + rev_octets) AS octets FROM flows GROUP BY probe",
    "mixes": "SELECT probe, sum(packets) AS packets, sum(octets) AS octets FROM v_mixes"
    " WHERE dimension = 'total' AND probe != '' GROUP BY probe",
    "top flows": "SELECT probe, sum(window_packets) AS packets, sum(window_octets) AS octets FROM v_top_flows"
    " WHERE list = 'ip_octets' AND rank = 1 AND probe != '' GROUP BY probe",
    "ledger": "SELECT probe, sum(stored_packets) AS packets, sum(missing_batches) AS missing,"
    " sum(repeated_batches) AS repeated, countIf(state != 'closed') AS incomplete FROM v_ledger"
    # The probes publish the past; meanwhile they are silent.
    " WHERE ts < now() - INTERVAL 1 HOUR GROUP BY probe",
}


def lacking(stack: RunningStack, stream: Stream) -> dict[str, object]:
    """The sums over the store that differ from what the stream's probes published."""
    wrong: dict[str, object] = {}
    for name, asked in STORED.items():
        rows = {row.pop("probe"): row for row in connect(stack.stack, "analyst").rows(asked)}
        for probe, sums in stream.sums.items():
            expected = sums | {"missing": 0, "repeated": 0, "incomplete": 0}
            found = rows.get(probe, {})
            if not found or any(expected[column] != value for column, value in found.items()):
                wrong[f"{name} of {probe}"] = (found, sums)
    return wrong


@pytest.mark.long
@pytest.mark.parametrize("seed", range(max(1, SEEDS // 5)))
def test_what_came_after_a_backup_is_read_again_once(stack: RunningStack, place: Path, seed: int) -> None:
    """A backup at a drawn moment of a stream; then the store is lost, and later the store and the state of the jobs."""
    chance = random.Random(f"{os.environ.get('WEIR_SEED', '1')} {seed}")
    backup = str(place / f"stream{seed}")
    stream = Stream(stack, f"stream{seed}", chance)
    stream.start()
    stream.published_more(chance.randint(5, 40))
    done = stack.weir("backup", backup)
    assert done.status == 0, done.err
    print(done.out)
    assert "paused for" in done.out
    assert "no state of the jobs" not in done.out
    stream.published_more(10)
    stream.finish()
    eventually(lambda: not lacking(stack, stream), "all stored, and the jobs' state beyond the backup", 120)
    lose_everything(stack)
    done = stack.weir("restore", backup)
    assert done.status == 0, done.err
    assert "cannot be read" not in done.out
    eventually(lambda: not lacking(stack, stream), "all read again", 120)

    stack.stop("flink")
    shutil.rmtree(stack.home / "data/flink")
    lose_everything(stack)
    done = stack.weir("restore", backup)
    assert done.status == 0, done.err
    assert len(lacking(stack, stream)) == len(STORED) * len(stream.sums), "the backup is of the middle of the stream"
    stack.start("flink")
    eventually(lambda: not lacking(stack, stream), "all read again", 120)
    time.sleep(5)  # a repeat would come now
    assert lacking(stack, stream) == {}


def test_a_stack_that_is_down_is_backed_up_and_restored(stack: RunningStack, store: ClickHouse, place: Path) -> None:
    """The jobs are killed with blocks on their way; then a new, empty Kafka is there."""
    stream = Stream(stack, "killed", random.Random(5))
    stream.start()
    rows = "SELECT count() AS n FROM flows WHERE probe = 'killed-a'"
    eventually(lambda: store.rows(rows)[0]["n"], "rows")
    stack.kill("flink")
    stream.stop()
    assert stack.weir("down").status == 0
    done = stack.weir("backup", str(place / "third"))
    assert done.status == 0, done.err
    assert "no state of the jobs" not in done.out
    for lost in ("clickhouse", "flink", "kafka"):
        shutil.rmtree(stack.home / "data" / lost)
    done = stack.weir("restore", str(place / "third"))
    assert done.status == 0, done.err
    assert "Kafka is another one than that of the backup" in done.out
    assert not stack.supervisor.running()
    stack.bring_up()
    before = store.rows(rows)[0]["n"]
    assert before
    # Fewer messages than the lost Kafka had: none is taken for one that was read already.
    publish(stack, store, "afresh", 6)
    publisher = Publisher(stack, "killed-a")
    flows = [flow.record() for flow in conversations_and_a_scan(random.Random(7))]
    publisher.interval(stream.start_ms + 1000 * INTERVAL_S * 300, flows, last=True)
    eventually(
        lambda: store.rows(rows)[0]["n"] == before + len(flows),
        "the messages of the new Kafka",
    )
