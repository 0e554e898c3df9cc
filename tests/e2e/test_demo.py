"""The demo, run as a user runs it: live packets, and the report."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness import CHECKOUT, RunningStack, live_possible, run


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
