"""Retention and daily lists in the store alone, without the services around it: rewriting makes no row younger, and a
list that is kept for ever is never replaced by a smaller one.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress
from datetime import UTC, date, datetime

import pytest
from rich.console import Console

from harness import RunningStack, emptied, keep
from weir import forget
from weir.clickhouse import ClickHouse
from weir.errors import WeirError
from weir.stages import Stages
from weir.storage import rollup
from weir.storage.forecast import survey

ONLY_STORE = True
DAY_S = 86_400
NOW = time.time()


def day(ago: int) -> str:
    return datetime.fromtimestamp(NOW - ago * DAY_S, UTC).strftime("%Y-%m-%d")


@pytest.fixture
def store(stack: RunningStack) -> ClickHouse:
    """The store without rows, with all rights."""
    return emptied(stack)


def records(store: ClickHouse, when: str, count: int = 5, src: str = "10.9.0.1", probe: str = "p") -> None:
    """Raw records of a moment, with an address that a translator gave."""
    store.execute(
        "INSERT INTO flows (ts, probe, src_addr, dst_addr, fwd_packets, fwd_octets, post_nat_src_addr)"
        f" SELECT toDateTime('{when}', 'UTC') + number, '{probe}', '::ffff:{src}', '::ffff:10.9.0.2', 1, 100, '::ffff:198.51.100.1'"
        f" FROM numbers({count})"
    )


def windows(store: ClickHouse, start: str, count: int, octets: int, probe: str = "", length: int = 300) -> None:
    """Windows of the mix of a probe, or of all probes."""
    store.execute(
        "INSERT INTO mixes (ts, window_s, scope, probe, dimension, direction, rank, version, octets, packets, flows)"
        f" SELECT toDateTime('{start}', 'UTC') + {length} * number, {length}, '{'probe' if probe else 'all'}', '{probe}', 'total', 'in',"
        f" 1, 1, {octets}, 1, 1 FROM numbers({count})"
    )


def held(store: ClickHouse) -> list[str]:
    return store.execute("SELECT DISTINCT toDate(ts) FROM flows ORDER BY 1").split()


def remove(store: ClickHouse, address: str) -> None:
    with Stages(Console(quiet=True)) as stages:
        found = forget.search(store, forget.network(address), stages)
        forget.forget(store, forget.network(address), stages, found)


def rewritten(store: ClickHouse, moment: float) -> bool:
    rows = store.rows(
        "SELECT min(toUnixTimestamp(modification_time)) AS t FROM system.parts WHERE active AND table = 'flows'"
    )
    return bool(rows[0]["t"] >= int(moment))


@pytest.mark.parametrize("how", ["removal", "emptied column", "merge"])
def test_records_grow_no_younger_when_parts_are_rewritten(stack: RunningStack, store: ClickHouse, how: str) -> None:
    """Rows of yesterday, of an old capture that was read today, and of a clock that is ahead: each is kept for its
    retention."""
    ahead, today, old = day(-40), day(0), day(300)
    began = time.time()
    for when in (ahead, today, old):
        records(store, f"{when} 00:00:00")
        records(store, f"{when} 00:00:00", 1, src="10.66.0.6")
    ended = time.time()
    keep(stack, store, NOW)
    time.sleep(3)
    rewriting = time.time()
    if how == "removal":
        remove(store, "10.66.0.6")
    elif how == "merge":
        store.execute("OPTIMIZE TABLE flows FINAL")
    else:
        for when in held(store):
            name = when.replace("-", "")
            store.execute(f"ALTER TABLE flows CLEAR COLUMN post_nat_src_addr IN PARTITION {name}", mutations_sync="2")
    assert rewritten(store, rewriting)
    keep(stack, store, began + 14 * DAY_S - 2)
    assert held(store) == [old, today, ahead]
    keep(stack, store, ended + 14 * DAY_S + 1)
    assert held(store) == [today]
    keep(stack, store, (began // DAY_S + 15) * DAY_S + 1)
    assert held(store) == []
    assert store.execute("SELECT partition FROM partitions_seen WHERE name = 'flows'") == ""
    records(store, f"{old} 00:00:00")
    keep(stack, store, time.time() + 13 * DAY_S)
    assert held(store) == [old], "read again, it is new again"


def test_translated_addresses_go_at_the_laws_age_however_often_their_parts_are_rewritten(
    stack: RunningStack, store: ClickHouse
) -> None:
    records(store, f"{day(-400)} 01:00:00")
    records(store, f"{day(-400)} 02:00:00", 1, src="10.66.0.6")
    ended = time.time()
    keep(stack, store, NOW, raw_days=400)
    time.sleep(3)
    remove(store, "10.66.0.6")
    assert any("emptied" in line for line in keep(stack, store, ended + 180 * DAY_S + 1, raw_days=400))


def lists(store: ClickHouse, of: str) -> list[dict[str, object]]:
    return store.rows(f"SELECT probe, octets, windows FROM mixes_daily WHERE day = '{of}' ORDER BY probe")


def test_a_list_is_not_replaced_by_one_of_other_windows(store: ClickHouse) -> None:
    """The morning's windows went with their month; those of the afternoon are as many, or more, or of another probe."""
    of = day(30)
    records(store, f"{of} 01:00:00")
    windows(store, f"{of} 00:00:00", 100, 1000)
    windows(store, f"{of} 00:00:00", 100, 1000, "north")
    list(rollup.roll_up(store))
    morning = lists(store, of)
    assert morning == [
        {"probe": "", "octets": 100_000, "windows": 100},
        {"probe": "north", "octets": 100_000, "windows": 100},
    ]
    for start, count, probe in (("13:00", 100, ""), ("12:00", 140, ""), ("00:00", 288, "south"), ("00:00", 120, "")):
        store.execute("TRUNCATE TABLE mixes")
        records(store, f"{of} 13:00:00")
        windows(store, f"{of} {start}:00", count, 7000, probe)
        assert [line for line in rollup.roll_up(store) if line[1] == "mixes_daily"] == []
        with pytest.raises(WeirError, match="stays as it is"):
            list(rollup.roll_up(store, date.fromisoformat(of)))
        assert lists(store, of) == morning
    # With all of them, and more, it is made anew.
    windows(store, f"{of} 00:00:00", 150, 2000)
    windows(store, f"{of} 00:00:00", 100, 1000, "north")
    records(store, f"{of} 14:00:00")
    list(rollup.roll_up(store))
    assert lists(store, of)[0]["octets"] != 100_000


def test_a_list_from_before_windows_were_noted_is_not_replaced_by_fewer(store: ClickHouse) -> None:
    of = day(30)
    records(store, f"{of} 01:00:00")
    windows(store, f"{of} 00:00:00", 100, 1000, "north")
    list(rollup.roll_up(store))
    store.execute("ALTER TABLE roll_ups UPDATE windows = [], fingerprint = 1 WHERE true", mutations_sync="2")
    store.execute("TRUNCATE TABLE mixes")
    windows(store, f"{of} 00:00:00", 288, 1000, "south")
    list(rollup.roll_up(store))
    assert [row["probe"] for row in lists(store, of)] == ["north"]
    windows(store, f"{of} 00:00:00", 100, 1000, "north")
    list(rollup.roll_up(store))
    assert [row["probe"] for row in lists(store, of)] == ["north", "south"]


def test_a_list_that_broke_off_is_written_again(store: ClickHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between removing a day's list and writing it: even if windows are gone by then, there is no list to keep."""
    of = day(30)
    records(store, f"{of} 01:00:00")
    windows(store, f"{of} 00:00:00", 100, 1000)
    list(rollup.roll_up(store))

    class Killed(BaseException):
        pass

    def cut(self: ClickHouse, sql: str, **settings: str) -> str:
        if sql.lstrip().startswith("INSERT INTO mixes_daily"):
            raise Killed
        return execute(self, sql, **settings)

    for left in (100, 48):
        with monkeypatch.context() as patch:
            execute = ClickHouse.execute
            patch.setattr(ClickHouse, "execute", cut)
            with pytest.raises(Killed):
                list(rollup.roll_up(store, date.fromisoformat(of)))
        assert lists(store, of) == []
        store.execute(
            f"ALTER TABLE mixes DELETE WHERE ts >= toDateTime('{of} 00:00:00') + 300 * {left}", mutations_sync="2"
        )
        list(rollup.roll_up(store))
        assert lists(store, of) == [{"probe": "", "octets": 1000 * left, "windows": left}]


def test_nothing_new_means_nothing_to_write(store: ClickHouse) -> None:
    of = day(3)
    records(store, f"{of} 01:00:00")
    for _ in range(2):
        windows(store, f"{of} 00:00:00", 10, 1000)
    assert len(list(rollup.roll_up(store))) == 3
    store.execute("OPTIMIZE TABLE mixes FINAL")
    assert list(rollup.roll_up(store)) == [], "older versions were merged away"
    store.execute("INSERT INTO mixes SELECT * REPLACE (version + 1 AS version, 5 AS octets) FROM mixes LIMIT 1")
    assert list(rollup.roll_up(store)) == [(of, "mixes_daily", 1)], "a window was written again"
    assert lists(store, of) == [{"probe": "", "octets": 9005, "windows": 10}]
    records(store, f"{of} 02:00:00", 1, src="10.66.0.6")
    list(rollup.roll_up(store))
    remove(store, "10.66.0.6")
    assert len(list(rollup.roll_up(store))) == 2, "the lists of hosts, whose ranks changed"
    assert list(rollup.roll_up(store)) == [], "although a removal leaves more of the peers than of the records"


def test_windows_of_two_lengths_and_windows_without_records_are_rolled_up(store: ClickHouse) -> None:
    """After the window length was changed at noon, windows of both lengths begin at the same times, in different
    lists."""
    of = day(30)
    windows(store, f"{of} 00:00:00", 144, 1000, length=300)
    windows(store, f"{of} 00:00:00", 72, 7, length=600)
    assert [line[:2] for line in rollup.roll_up(store)] == [(of, "mixes_daily")]
    assert lists(store, of) == [{"probe": "", "octets": 144 * 1000 + 72 * 7, "windows": 216}]
    assert list(rollup.roll_up(store)) == []
    records(store, f"{of} 02:00:00")
    windows(store, f"{of} 23:00:00", 2, 1000)
    list(rollup.roll_up(store))
    assert lists(store, of)[0]["windows"] == 218


def test_a_budget_that_cannot_be_met_is_reported(
    stack: RunningStack, store: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    records(store, f"{day(0)} 00:00:00", 10_000)
    assert survey(stack.stack, store).beyond_says() == ""
    keep(stack, store, NOW, budget="1kB")
    storage = stack.stack.config.storage.model_copy(update={"budget": "1kB"})
    monkeypatch.setattr(stack.stack.config, "storage", storage)
    seen = survey(stack.stack, store)
    assert seen.beyond == seen.used - 1000
    assert "beyond its budget" in seen.beyond_says()
    assert seen.as_json()["beyond_budget"] == seen.beyond


@pytest.mark.parametrize("seed", range(2))
def test_a_list_never_lacks_a_window_that_it_had(store: ClickHouse, seed: int) -> None:
    """Windows arrive, arrive again with a higher version, and are dropped, in any order, with rounds and manual
    rewriting in between."""
    chance = random.Random(seed)
    of = day(30)
    held: dict[tuple[str, int], int] = {}  # octets of each window: probe and place in the day
    listed: dict[tuple[str, int], int] = {}
    stayed = 0
    records(store, f"{of} 01:00:00")
    for version in range(1, 13):
        probe, first, count = chance.choice(["", "north"]), chance.randrange(16), chance.randrange(4, 9)
        if version > 2 and chance.random() < 0.3:
            where = f"intDiv(toUnixTimestamp(ts) % {DAY_S}, 300) BETWEEN {first} AND {first + 9}"
            store.execute(f"ALTER TABLE mixes DELETE WHERE {where}", mutations_sync="2")
            held = {key: octets for key, octets in held.items() if not first <= key[1] <= first + 9}
        else:
            octets = chance.randrange(1, 1000)
            store.execute(
                "INSERT INTO mixes (ts, window_s, scope, probe, dimension, direction, rank, version, octets, packets, flows)"
                f" SELECT toDateTime('{of} 00:00:00', 'UTC') + 300 * ({first} + number), 300, '{'probe' if probe else 'all'}',"
                f" '{probe}', 'total', 'in', 1, {version}, {octets}, 1, 1 FROM numbers({count})"
            )
            held |= {(probe, first + place): octets for place in range(count)}
        with suppress(WeirError):  # asked for by hand, and windows are gone
            list(rollup.roll_up(store, date.fromisoformat(of) if chance.random() < 0.5 else None))
        if listed.keys() <= held.keys():
            listed = dict(held)
        else:
            stayed += 1
        sums: dict[str, list[int]] = {}
        for (of_probe, _), octets in listed.items():
            sums.setdefault(of_probe, [0, 0])
            sums[of_probe] = [sums[of_probe][0] + octets, sums[of_probe][1] + 1]
        assert lists(store, of) == [
            {"probe": of_probe, "octets": octets, "windows": count}
            for of_probe, (octets, count) in sorted(sums.items())
        ], (seed, version)
    assert stayed, "windows of a list went"
