"""Any machine: ports that others hold, folders of another user, paths and locales."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from rich.console import Console

from weir import demo_network, disks, java, owners, ports
from weir import stack as stacks
from weir.config import Config, Ports, Stack, home, load, use_name
from weir.errors import WeirError, as_typed
from weir.stages import Stages
from weir.supervisor import Supervisor


@contextlib.contextmanager
def held(count: int) -> Iterator[list[int]]:
    """Ports of the loopback interface that somebody holds."""
    with contextlib.ExitStack() as stays:
        sockets = [stays.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
            one.listen()
        yield [one.getsockname()[1] for one in sockets]


def stack(home: Path, defaults: dict[str, int], named: dict[str, int] | None = None) -> Stack:
    """A stack whose default ports are these, and otherwise free; its file sets those that are `named`."""
    made, named = Stack(Config(), home), named or {}
    values = dict.fromkeys(Ports.model_fields, 0) | defaults | named
    made.config.ports = Ports.model_construct(_fields_set={*named}, **values)
    return made


def test_ports_that_others_hold_are_exchanged_and_stay_so(tmp_path: Path) -> None:
    with held(2) as (one, other):
        here = stack(tmp_path, {"kafka": one, "flink": other})
        new = ports.choose(here)
        assert {*new} == {"kafka", "flink"}
        assert (here.config.ports.kafka, here.config.ports.flink) == (new["kafka"], new["flink"])
        assert len({one, other, *new.values()}) == 4
        assert all(ports.is_free(port) for port in new.values())
    with mock.patch.dict(os.environ, {"WEIR_HOME": str(tmp_path)}):
        assert load(None).config.ports.kafka == new["kafka"]
        (tmp_path / "weir.yaml").write_text("ports: {kafka: 19092}")
        assert load(None).config.ports.kafka == 19092, "what the file says comes first"
        assert load(None).config.ports.flink == new["flink"]


def test_ports_that_the_file_names_or_probes_know_are_not_exchanged(tmp_path: Path) -> None:
    with held(3) as (one, other, third):
        named = stack(tmp_path, {"superset": third}, {"kafka": one, "flink": other})
        with pytest.raises(WeirError, match=rf"ports {other} \(ports.flink\), {one} \(ports.kafka\)"):
            ports.choose(named)
        enrolled = stack(tmp_path, {"kafka_probes": one})
        assert ports.choose(enrolled)["kafka_probes"] != one
        (tmp_path / "data/kafka").mkdir(parents=True)
        with pytest.raises(WeirError, match="kafka_probes"):
            ports.choose(stack(tmp_path, {"kafka_probes": one}))


@pytest.mark.parametrize("content", ["", "[]", '{"kafka": "x"}', '"text"'])
def test_an_unreadable_file_of_ports_changes_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "ports.json").write_text(content)
    assert ports.chosen(tmp_path) == {}


def test_java_reads_what_was_written(tmp_path: Path) -> None:
    values = {"log.dirs": "/x/my weir ø/𝄞", "rule": r"^CN=(weir\.[a-z]+)$", "led": " x", "lines": "a\nb"}
    (tmp_path / "it.properties").write_text(java.properties(values), encoding="latin-1")
    (tmp_path / "Read.java").write_text(
        "public class Read { public static void main(String[] a) throws Exception { var p = new java.util.Properties();"
        " p.load(new java.io.FileInputStream(a[0])); for (int i = 1; i < a.length; i++) for (char c :"
        ' p.getProperty(a[i]).toCharArray()) System.out.print((int) c + (i < a.length ? " " : "")); } }'
    )
    found = subprocess.run(
        ["java", str(tmp_path / "Read.java"), str(tmp_path / "it.properties"), *values],
        capture_output=True,
        text=True,
        check=True,
    )
    units = bytes(octet for unit in found.stdout.split() for octet in int(unit).to_bytes(2, "big"))
    assert units.decode("utf-16-be") == "".join(values.values())


@pytest.mark.skipif(os.geteuid() != 0, reason="changing owners takes root")
def test_files_of_another_user_are_explained_and_given_back(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "secrets").mkdir(parents=True)
    (home / "secrets/key").write_text("x")
    for path in (tmp_path, home, home / "secrets", home / "secrets/key"):
        os.chown(path, 65534, 65534)
    said = owners.explained(PermissionError(13, "Permission denied", str(home / "secrets/key")), home)
    assert said
    assert f"{home}/secrets/key belongs to nobody" in str(said)
    assert "sudo chown -R root" in said.hint
    os.chown(home / "secrets/key", 0, 0)
    assert owners.explained(PermissionError(13, "Permission denied", str(home / "secrets/key")), home) is None
    owners.give_back(home)
    assert (home / "secrets/key").stat().st_uid == 0, "nobody called sudo"
    with mock.patch.dict(os.environ, {"SUDO_UID": "1", "SUDO_GID": "1"}):
        owners.give_back(home)
        assert (home / "secrets/key").stat().st_uid == 0, "another user's folder"
    with mock.patch.dict(os.environ, {"SUDO_UID": "65534", "SUDO_GID": "65534"}):
        owners.give_back(home)
    assert (home / "secrets/key").stat().st_uid == 65534


def test_namespaces_of_a_killed_demo_are_removed(tmp_path: Path) -> None:
    here = Stack(Config(), tmp_path)
    here.prepare()
    (here.run / "demo-namespaces").write_text("weir-servers-1\nweir-clients-1\n")
    with mock.patch.object(demo_network.subprocess, "run") as ran:
        demo_network.remove_leftovers(here)
        demo_network.remove_leftovers(here)
    assert [call.args[0][-1] for call in ran.call_args_list] == ["weir-servers-1", "weir-clients-1"]


def test_where_no_namespace_can_be_made_the_demo_is_told_so(tmp_path: Path) -> None:
    here = Stack(Config(), tmp_path)
    refused = mock.Mock(returncode=1, stderr="mount --make-shared /run/netns failed: Operation not permitted")
    with (
        mock.patch.object(demo_network.subprocess, "run", return_value=refused),
        pytest.raises(demo_network.NoNamespacesError, match="Operation not permitted"),
        demo_network.namespaces(here),
    ):
        pass
    assert not (here.run / "demo-namespaces").exists()


def test_what_the_user_stops_has_not_failed() -> None:
    for kind, word in ((KeyboardInterrupt, "stop"), (RuntimeError, "FAILED")):
        shown = io.StringIO()
        with contextlib.suppress(kind), Stages(Console(file=shown)) as stages:
            stages.begin("kafka")
            raise kind
        assert shown.getvalue().split()[0] == word


def test_a_home_that_supervisord_cannot_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeirError, match="supervisord cannot run"):
        Supervisor(Stack(Config(), tmp_path / "a;b"))
    with pytest.raises(WeirError, match="too long"):
        Supervisor(Stack(Config(), Path("/" + "ø" * 50)))


def test_commands_in_hints_can_be_typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(Path(__file__).parents[2])
    hint = "'weir down' stops it; logs in /x/weir up.log; run weir-probe; weir probe add x"
    typed = "'stack/bin/weir down' stops it; logs in /x/weir up.log; run weir-probe; stack/bin/weir probe add x"
    assert as_typed(hint) == typed
    (tmp_path / "weir").write_text("#!/bin/sh\n")
    (tmp_path / "weir").chmod(0o755)
    assert as_typed(hint) == hint


def test_a_stack_beside_the_first_one_has_a_home_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_HOME", "/nowhere")
    use_name("lab")
    assert home().parts[-3:] == (".weir", "stacks", "lab")
    with pytest.raises(WeirError, match="cannot name a stack"):
        use_name("../lab")


@pytest.mark.parametrize("command", ["killed", "alive", "detached"])
def test_what_a_killed_command_left_is_taken_down_and_nothing_else(tmp_path: Path, command: str) -> None:
    here = Stack(Config(), tmp_path)
    with (
        subprocess.Popen(["sleep", "60"]) as other,
        mock.patch.object(Supervisor, "running", return_value=False) as running,
        mock.patch.object(stacks, "take_down") as take_down,
    ):
        with mock.patch.object(os, "getpid", return_value=other.pid):
            stacks.take_over(here, Supervisor(here), Console(quiet=True))
        if command == "detached":
            stacks.let_go(here)
        if command != "alive":
            other.kill()
            other.wait()
        running.side_effect = lambda: not take_down.called
        refused = contextlib.nullcontext() if command == "killed" else pytest.raises(WeirError, match="already up")
        with refused:
            stacks.take_over(here, Supervisor(here), Console(quiet=True))
        other.kill()
    assert take_down.called == (command == "killed")


def test_a_start_without_room_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    here = Stack(Config(), tmp_path / "home")
    with (
        mock.patch.object(shutil, "disk_usage", return_value=mock.Mock(free=100 << 20)),
        pytest.raises(
            WeirError, match=f"not enough room on the disk: 0.1 GiB free in {tmp_path}, a start takes 0.5 GiB"
        ),
    ):
        stacks.take_over(here, Supervisor(here), Console(quiet=True))
    assert not here.home.exists()
    full = disks.explained(OSError(errno.ENOSPC, "No space left on device"), here.home)
    assert str(full) == f"the disk is full: {tmp_path}"
    assert disks.explained(OSError(errno.ENOENT, "no such file"), here.home) is None
