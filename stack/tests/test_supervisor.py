"""A process that has just ended by itself counts as one that runs: supervisord starts it again within a second."""

from __future__ import annotations

import xmlrpc.client
from pathlib import Path
from unittest import mock

import pytest
from rich.console import Console

from weir import backup, jobs_state
from weir.config import Config, Stack
from weir.errors import WeirError
from weir.stages import Stages
from weir.supervisor import State, Supervisor


def process(word: str) -> dict[str, object]:
    return {"name": "flink", "statename": word, "pid": 0, "start": 0}


@pytest.mark.parametrize(("after", "asked"), [(["EXITED", "EXITED"], 3), (["STOPPED"], 1), (["FATAL"], 1)])
def test_stopping_waits_for_a_process_that_is_started_again(tmp_path: Path, after: list[str], asked: int) -> None:
    rpc = mock.Mock()
    rpc.stopProcess.side_effect = [*[xmlrpc.client.Fault(70, "NOT_RUNNING: flink")] * len(after), True]
    rpc.getAllProcessInfo.side_effect = [[process(word)] for word in after]
    with mock.patch.object(Supervisor, "_rpc", return_value=rpc):
        Supervisor(Stack(Config(), tmp_path)).stop("flink")
    assert rpc.stopProcess.call_count == asked


def test_a_process_that_is_being_stopped_is_waited_for(tmp_path: Path) -> None:
    """By the next command that stops it, and by one that starts it."""
    rpc = mock.Mock()
    rpc.stopProcess.side_effect = [xmlrpc.client.Fault(70, "NOT_RUNNING: flink")]
    words = iter(["STOPPING", "STOPPING", "STOPPED", "STOPPING", "STOPPED"])
    rpc.getAllProcessInfo.side_effect = lambda: [process(next(words))]
    with mock.patch.object(Supervisor, "_rpc", return_value=rpc):
        supervisor = Supervisor(Stack(Config(), tmp_path))
        supervisor.stop("flink")
        assert rpc.getAllProcessInfo.call_count == 3
        service = mock.Mock()
        service.name = "flink"
        supervisor.start(service)
    assert rpc.getAllProcessInfo.call_count == 5
    assert rpc.startProcess.called


def test_what_ctrl_c_interrupted_while_it_stopped_is_started_again(tmp_path: Path) -> None:
    with (
        mock.patch.object(Supervisor, "states", return_value={"flink": State("RUNNING", 0, 0, 0)}),
        mock.patch.object(Supervisor, "stop", side_effect=KeyboardInterrupt),
        mock.patch.object(Supervisor, "start") as start,
        mock.patch.object(Supervisor, "wait"),
        Stages(Console(quiet=True)) as stages,
        pytest.raises(KeyboardInterrupt),
        backup._quiet(Stack(Config(), tmp_path), stages),
    ):
        pass
    assert start.called


@pytest.mark.parametrize(
    ("word", "stops"), [("RUNNING", True), ("BACKOFF", True), ("EXITED", True), ("STOPPED", False)]
)
def test_a_restore_stops_jobs_between_two_starts(tmp_path: Path, word: str, stops: bool) -> None:
    """They end again and again while the store's database is missing."""
    with (
        mock.patch.object(Supervisor, "states", return_value={"flink": State(word, 0, 0, 0)}),
        mock.patch.object(Supervisor, "stop") as stop,
        mock.patch.object(Supervisor, "start") as start,
        mock.patch.object(Supervisor, "wait"),
        Stages(Console(quiet=True)) as stages,
        backup._quiet(Stack(Config(), tmp_path), stages),
    ):
        assert stop.called == stops
        assert not start.called
    assert start.called == stops


@pytest.mark.parametrize(("word", "starts"), [("RUNNING", False), ("STOPPED", True), ("EXITED", True)])
def test_jobs_that_ended_by_themselves_after_the_savepoint_are_started_again(
    tmp_path: Path, word: str, starts: bool
) -> None:
    """They may end before the command stops them; supervisord does not start what ended with status 0."""
    stack = Stack(Config(), tmp_path)
    with (
        mock.patch.object(Supervisor, "states", return_value={"flink": State(word, 0, 0, 0)}),
        mock.patch.object(Supervisor, "stop"),
        mock.patch.object(Supervisor, "start") as start,
        mock.patch.object(Supervisor, "wait"),
        mock.patch.object(jobs_state.savepoint, "stop", return_value=tmp_path / "savepoint-1"),
        Stages(Console(quiet=True)) as stages,
        jobs_state._paused(stack, Supervisor(stack), stages) as path,
    ):
        assert path == tmp_path / "savepoint-1"
    assert start.called == starts


def test_what_supervisord_has_started_meanwhile_is_started(tmp_path: Path) -> None:
    supervisor, rpc, service = Supervisor(Stack(Config(), tmp_path)), mock.Mock(), mock.Mock()
    service.name = "flink"
    rpc.getAllProcessInfo.return_value = []
    rpc.startProcess.side_effect = xmlrpc.client.Fault(60, "ALREADY_STARTED: flink")
    with mock.patch.object(Supervisor, "_rpc", return_value=rpc):
        supervisor.start(service)
    rpc.startProcess.side_effect = xmlrpc.client.Fault(50, "SPAWN_ERROR: flink")
    with mock.patch.object(Supervisor, "_rpc", return_value=rpc), pytest.raises(WeirError, match="did not start"):
        supervisor.start(service)
