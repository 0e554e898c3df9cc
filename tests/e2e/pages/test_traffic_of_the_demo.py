"""The capture that `weir demo` replays, drawn beside all else: this file's tests run last, since it adds rows."""

from __future__ import annotations

from pathlib import Path

from harness import RunningStack
from render import Browser
from viewers import Viewer
from weir.demo_traffic import write_capture


def test_the_talkers_of_the_demo_are_drawn(
    stack: RunningStack, viewer: Viewer, browser: Browser, tmp_path: Path
) -> None:
    packets = write_capture(tmp_path / "shown.pcap", packets=20_000, seconds=600)
    stack.enrol("shown")
    stack.read("shown", tmp_path / "shown.pcap")
    assert stack.settled("shown", packets)["packets"] == packets
    picture = tmp_path / "talkers.png"
    report = browser.render(f"{viewer.url}/superset/dashboard/talkers/", picture, timeout=180)
    assert report.problems == []
    assert set(report.charts.values()) == {"drawn"}
    assert picture.stat().st_size > 50_000
