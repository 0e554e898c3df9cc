"""A stack in a folder with a space and letters beyond ASCII, in another locale and time zone, interrupted twice."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness import CHECKOUT, RunningStack, eventually
from weir.demo_traffic import write_capture
from weir.supervisor import MARK

pytestmark = pytest.mark.long


@pytest.fixture
def stack() -> Iterator[RunningStack]:
    one = RunningStack(named="my weir ø 50%20", superset=True)
    one.environment |= {"LC_ALL": "C", "TZ": "Asia/Kathmandu"}
    try:
        yield one
    finally:
        one.take_down()
        shutil.rmtree(one.home.parent, ignore_errors=True)


def processes(stack: RunningStack) -> list[psutil.Process]:
    """Those that the stack has started."""
    found = []
    for one in psutil.process_iter():
        try:
            if one.environ().get(MARK) == str(stack.home):
                found.append(one)
        except psutil.Error:
            continue
    return found


def test_a_folder_of_any_name_keeps_everything(stack: RunningStack, tmp_path: Path) -> None:
    stack.bring_up()
    packets = write_capture(tmp_path / "demo.pcap")
    stack.enrol("border")
    stack.read("border", tmp_path / "demo.pcap")
    sums = stack.settled("border", packets)
    eventually(lambda: [*(stack.home / "data/flink").rglob("_metadata")], "a checkpoint")
    assert stack.weir("down").status == 0

    # Two interrupts, the second while the first one is being heeded.
    command = [str(CHECKOUT / "stack/bin/weir"), "up"]
    with subprocess.Popen(command, env=stack.environment, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout
        shown = ""
        while "Ctrl-C stops it." not in shown:
            line = up.stdout.readline()
            assert line, shown
            shown += line
        assert stack.sums("border") == sums
        up.send_signal(signal.SIGINT)
        time.sleep(0.5)
        up.send_signal(signal.SIGINT)
        shown = up.stdout.read()
    assert up.returncode == 0
    assert "Weir is down." in shown
    assert "FAILED" not in shown
    assert not processes(stack)

    # The jobs went on from their checkpoint, and nothing is elsewhere.
    (line,) = [one for one in (stack.home / "logs/flink.log").read_text().splitlines() if "state: " in one][-1:]
    assert f"state: {stack.home}/data/flink/" in line
    assert [*stack.home.parent.iterdir()] == [stack.home]
