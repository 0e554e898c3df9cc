"""Hostile clients keep no insert out. `make bench-availability` measures the same with more of them, and its time."""

from __future__ import annotations

import json
import subprocess
import sys
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


def test_all_that_a_customer_runs_at_once_leaves_memory_for_inserts(besieged: Server) -> None:
    most = int(besieged.sql("SELECT getSetting('max_memory_usage')", user="fjord"))
    at_once = yaml.safe_load((FOLDER / "access.yaml").read_text())["roles"]["customer"]["limits"][
        "max_concurrent_queries_for_user"
    ]
    assert 0.5 * (1 << 30) < most * at_once <= 0.6 * (1 << 30)
    assert besieged.ask("SELECT length(groupArray(toString(number))) FROM numbers(100000000)", user="fjord").code == 241


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
