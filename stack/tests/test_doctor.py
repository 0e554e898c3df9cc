"""`weir doctor` finds each fault that is put in; `weir uninstall` removes what it names."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
from typer.testing import CliRunner

from weir import doctor, memories, status, uninstall
from weir.cli import app
from weir.config import Config, Ports, Stack
from weir.doctor import Finding, Grade
from weir.errors import WeirError
from weir.status import ServiceStatus
from weir.supervisor import MARK, Supervisor


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """A stack whose parts all seem built, on a large machine."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: mock.Mock(total=64 << 30, available=32 << 30))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: mock.Mock(total=100 << 30, used=1 << 30, free=99 << 30))
    one = Stack(Config(), tmp_path / "home")
    one.config.ports = Ports.model_construct(**dict.fromkeys(Ports.model_fields, 0))
    one.prepare()
    for path in ("agent", "jar", "kafka", "venvs/clickhouse/bin/python", "venvs/superset/bin/python"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    one.agent_binary, one.flink_jar, one.kafka_jars = tmp_path / "agent", tmp_path / "jar", tmp_path / "kafka"
    one.venvs = tmp_path / "venvs"
    script(one.agent_binary, f"echo weir-probe {doctor.__version__}")
    return one


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def examined(stack: Stack, fault: str, stays: contextlib.ExitStack) -> list[Finding]:
    """Put a fault in, and run every check."""
    interface = ""

    def replaced(target: Any, name: str, value: Any) -> None:
        stays.enter_context(mock.patch.object(target, name, value))

    match fault:
        case "full_disk":
            replaced(shutil, "disk_usage", lambda _: mock.Mock(total=100 << 30, used=100 << 30, free=1 << 20))
        case "free_clock":
            replaced(doctor, "synchronised", lambda: False)
        case "no_capabilities":
            replaced(doctor, "capabilities", set)
        case "other_agent":
            script(stack.agent_binary, "echo weir-probe 0.0.1")
        case "no_jar":
            stack.flink_jar.unlink()
        case "open_folder":
            stack.data.chmod(0o755)
        case "few_files":
            replaced(resource, "getrlimit", lambda _: (256, 1024))
        case "no_interface":
            interface = "weir-has-none"
        case "little_memory":
            (stack.run / "memory.max").write_text(f"{2 << 30}\n")
            (stack.run / "memory.current").write_text(f"{1 << 30}\n")
            replaced(memories, "_CGROUP", stack.run)
        case "old_java":
            script(stack.home / "java", "echo 'openjdk version \"11.0.2\"' >&2")
            stays.enter_context(mock.patch.dict(os.environ, {"PATH": f"{stack.home}:{os.environ['PATH']}"}))
        case "held_port":
            holder = stays.enter_context(socket.socket())
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            stack.config.ports = stack.config.ports.model_copy(update={"kafka": holder.getsockname()[1]})
        case "left_over":
            left = subprocess.Popen(
                [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={MARK: str(stack.home)}
            )
            stays.callback(left.wait)
            stays.callback(left.kill)
        case "sick_service":
            (stack.logs / "flink.log").write_text("started\nout of ideas\n")
            rows = [
                ServiceStatus("kafka", "well", 1, 1, 1, 1, None),
                ServiceStatus("flink", "backoff", 1, 0, 0, 0, None),
            ]
            replaced(status, "all_statuses", lambda _: rows)
            replaced(Supervisor, "running", lambda _: True)
    return doctor.examine(stack, interface)


#: Fault, grade, and parts of what is found and of what to do.
FAULTS = """
little_memory | BAD | 1.0 GiB of 2.0 GiB free; a stack takes | flink.heap
full_disk | BAD | 0.0 GiB of 100.0 GiB free | make room
free_clock | WARNING | not synchronised | chrony
no_capabilities | WARNING | CAP_NET_ADMIN, CAP_NET_RAW missing | setcap
other_agent | BAD | 0.0.1 | build
no_jar | BAD | not built: the jobs | build
old_java | BAD | Java 11; 17 or newer | openjdk-17
open_folder | BAD | others may enter | chmod 700
few_files | WARNING | 256 files | ulimit -n 4096
held_port | BAD | another program holds | ports.kafka
left_over | WARNING | of a killed stack: python | weir down
no_interface | BAD | there is no weir-has-none | weir-probe interfaces
sick_service | BAD | flink is backoff | out of ideas
"""


@pytest.mark.parametrize("row", FAULTS.strip().splitlines())
def test_each_fault_is_found_with_what_to_do(stack: Stack, row: str) -> None:
    fault, name, found, to_do = row.split(" | ")
    grade = Grade[name]
    with contextlib.ExitStack() as stays:
        findings = examined(stack, fault, stays)
    assert [one for one in findings if one.grade is grade and found in one.found and to_do in one.to_do], findings
    assert not [one for one in findings if one.grade > grade], findings


def test_without_a_fault_nothing_stops_weir(stack: Stack) -> None:
    assert [one for one in doctor.examine(stack) if one.grade is Grade.BAD] == []


@pytest.mark.parametrize(("grades", "status"), [([Grade.GOOD], 0), ([Grade.GOOD, Grade.WARNING], 1), ([Grade.BAD], 2)])
def test_the_exit_status_is_the_worst(grades: list[Grade], status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Finding(grade, "disk", "found", "mend it") for grade in grades]
    monkeypatch.setattr(doctor, "examine", lambda *_: found)
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == status
    assert done.output.count("→ mend it") == len(grades)


@pytest.mark.parametrize("other", ["", ".weir", ".weir/stacks/lab", "running"])
def test_uninstall_asks_and_removes_what_it_names_but_nothing_of_another_stack(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, checkout, caches = tmp_path / "home", tmp_path / "checkout", tmp_path / "caches"
    built = [checkout / ".weir/venvs", checkout / "capture/target"]
    theirs = [checkout / other / "data"] if other.startswith(".") else []
    for path in (home / "data/kafka", home / "secrets", *built, *theirs, caches):
        path.mkdir(parents=True)
        (path / "file").write_text("x")
    (home / "mine").write_text("of somebody else")
    monkeypatch.setenv("WEIR_HOME", str(home))
    monkeypatch.setenv("UV_CACHE_DIR", str(caches))
    monkeypatch.setattr(uninstall, "CHECKOUT", checkout)
    lives = [mock.Mock(**{"environ.return_value": {MARK: "/elsewhere"}, "cmdline.return_value": [f"{checkout}/java"]})]
    monkeypatch.setattr(psutil, "process_iter", lambda: lives if other == "running" else [])
    with mock.patch.object(Supervisor, "shutdown"):
        assert CliRunner().invoke(app, ["uninstall"], input="n\n").exit_code == 1
        assert (home / "data/kafka/file").exists()
        done = CliRunner().invoke(app, ["uninstall", "--yes"])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in home.iterdir()) == ["mine"]
    assert all((path / "file").exists() for path in theirs)
    assert [path.exists() for path in built] == [bool(other)] * 2, "another stack needs them"
    assert (f"these stacks need it: {checkout / other}" in done.output) == other.startswith(".")
    assert (caches / "file").exists(), "other programs use it"


def test_where_memory_is_short_heaps_are_small_unless_they_are_set(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memories, "available", lambda: (4 << 30, 5 << 29))
    assert "short: 2.5 GiB of 4.0 GiB free" in memories.settle(stack)
    assert (stack.config.flink.heap, stack.config.kafka.heap) == ("700m", "256m")
    assert memories.settle(stack) == "", "that is enough"
    stack.config.flink = type(stack.config.flink)(heap="3g")
    memories.settle(stack)
    assert stack.config.flink.heap == "3g"
    monkeypatch.setattr(memories, "available", lambda: (1 << 30, 1 << 29))
    with pytest.raises(WeirError, match=r"not enough memory: 0.5 GiB of 1.0 GiB free"):
        memories.settle(stack)


def test_an_agent_s_file_with_capabilities_lets_a_user_capture(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not doctor.captures_by_file(stack)
    monkeypatch.setattr(os, "listxattr", lambda path: ["security.capability"] if path == stack.agent_binary else [])
    assert doctor.captures_by_file(stack)
