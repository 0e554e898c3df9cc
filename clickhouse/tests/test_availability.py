"""Hostile clients keep no insert out. `make bench-availability` measures the same with more of them, and its time."""

from __future__ import annotations

import collections
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from conftest import FOLDER, Server
from hostile import KINDS

pytestmark = pytest.mark.embedded

_CLIENTS, _SECONDS = 800, 15


@pytest.fixture
def besieged(tmp_path: Path, own_server: Callable[..., Server]) -> Server:
    """A store with a customer's user."""
    tree = yaml.safe_load((FOLDER / "access.yaml").read_text())
    tree["users"]["fjord"] = {"role": "customer", "customers": ["Fjord Power"]}
    (tmp_path / "access.yaml").write_text(yaml.safe_dump(tree))
    server = own_server(access=tmp_path / "access.yaml")
    server.sql("CREATE DATABASE weir ENGINE = Atomic")
    server.sql("CREATE TABLE weir.t (a UInt32) ENGINE = MergeTree ORDER BY a")
    return server


#: A statement that takes all the memory it may have, and one that takes 80 MB.
_GREEDY = "SELECT length(groupArray(toString(number))) FROM numbers(100000000)"
_LARGE = "SELECT length(groupArray(number)) FROM numbers(4000000)"


def test_all_that_readers_ask_at_once_leaves_memory_for_inserts(besieged: Server) -> None:
    stop = threading.Event()
    codes: collections.Counter[int] = collections.Counter()

    def greedy(user: str) -> None:
        while not stop.is_set():
            codes[besieged.ask(_GREEDY, user=user).code] += 1

    readers = [threading.Thread(target=greedy, args=(user,)) for user in ("fjord", "analyst", "dashboard") for _ in range(4)]
    for thread in readers:
        thread.start()
    # 80 MB and more of 1 GiB each, in one block.
    rows = "INSERT INTO weir.t SELECT number FROM numbers(20000000) SETTINGS max_threads = 1"
    answers = [
        besieged.ask(rows, user="admin", max_insert_block_size=20000000, min_insert_block_size_rows=20000000) for _ in range(12)
    ]
    stop.set()
    for thread in readers:
        thread.join()
    assert [answer.text for answer in answers if answer.status != 200] == []
    # The readers were bounded, each by itself or in their waiting for a large share.
    assert codes.keys() <= {241, 202}
    assert codes[241] > 4


def test_a_statement_that_needs_more_memory_than_most_gets_it(besieged: Server) -> None:
    assert int(besieged.sql("SELECT getSetting('max_memory_usage')", user="analyst")) < 40 << 20
    for user in ("analyst", "fjord"):
        assert besieged.sql(_LARGE, user=user) == "4000000"
    assert besieged.ask(_GREEDY, user="analyst").code == 241


def test_no_insert_is_refused_while_hostile_clients_hold_what_they_can(besieged: Server) -> None:
    command = [sys.executable, str(Path(__file__).with_name("hostile.py")), besieged.host, str(besieged.port)]
    sent = 0
    with subprocess.Popen([*command, str(_CLIENTS), str(_SECONDS), "fjord", "fjord"], stdout=subprocess.PIPE) as attack:
        while attack.poll() is None:
            # On a connection of its own each time, which is the harder way.
            answer = besieged.ask(f"INSERT INTO weir.t VALUES ({sent})", user="writer")
            assert answer.status == 200, answer.text
            sent += 1
        assert attack.stdout is not None
        seen = json.loads(attack.stdout.read())
    assert sent > 20
    assert besieged.sql("SELECT count() FROM weir.t") == str(sent)
    # Each kind was there, and the customer was kept to its places.
    assert set(seen["opened"]) == set(KINDS)
    assert seen["answers"]["customer's half body: 503"] > 0
    assert seen["answers"]["wrong password: 403"] > 0
    assert besieged.ask("SELECT 1", user="analyst").status == 200
