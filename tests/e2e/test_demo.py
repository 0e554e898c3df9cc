"""The demo, run as a user runs it: live packets, the report, the dashboard."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness import BUILT, CHECKOUT, RunningStack, live_possible, run
from weir.demo_traffic import write_capture


def test_demo_once() -> None:
    if not live_possible():
        pytest.skip("no root or no network namespaces here: nothing can be captured live")
    before = namespaces()
    stack = RunningStack(as_shipped=True)
    done = run([str(CHECKOUT / "stack/bin/weir"), "demo", "--once", "--seconds", "15"], stack.environment, 300)
    stack.keep_logs()
    stack.remove()
    print(done.out)
    assert done.status == 0, done.out + done.err
    assert "lost 0" in done.out
    assert "198.18.0.1:80" in done.out
    assert not subprocess.run(["pgrep", "-f", str(stack.home)], capture_output=True, check=False).stdout
    # Other runs' demos may have made or removed theirs meanwhile; those of a process that has ended are this one's.
    left = namespaces() - before
    assert not [name for name in left if not Path("/proc", name.rsplit("-", 1)[1]).exists()]


def namespaces() -> set[str]:
    """The network namespaces of demos."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listed.splitlines() if line.startswith(("weir-servers-", "weir-clients-"))}


def test_the_dashboard_is_full(tmp_path: Path) -> None:
    """Superset on the rows of a replayed capture, drawn in a real browser."""
    with RunningStack(superset=True) as stack:
        packets = write_capture(tmp_path / "shown.pcap", packets=20_000, seconds=600)
        stack.enrol("shown")
        stack.read("shown", tmp_path / "shown.pcap")
        stack.settled("shown", packets)
        picture = BUILT / "dashboard.png"
        url = f"{stack.stack.superset_url}/superset/dashboard/talkers/"
        done = run(
            [
                sys.executable,
                str(CHECKOUT / "superset/tests/render.py"),
                "--url",
                url,
                "--out",
                str(picture),
            ],
            stack.environment,
            240,
        )
        assert done.status == 0, done.out + done.err
        assert picture.stat().st_size > 50_000
