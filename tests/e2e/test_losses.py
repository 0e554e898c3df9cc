"""A relay drops datagrams and messages of real exporters; the collector reports the same losses, within one record."""

from __future__ import annotations

from pathlib import Path

import pytest

from check_losses import FLOWS, LOSSY, Lossy, messages
from check_peers import make_capture


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("losses") / "made.pcap"
    make_capture(path, FLOWS)
    return path


@pytest.mark.parametrize("lossy", LOSSY, ids=lambda lossy: lossy.name)
def test_losses_of_an_exporter_are_said_right(lossy: Lossy, capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By sequence numbers, in the exporter's own units."""
    if lossy.missing():
        pytest.skip(f"{lossy.needs} is not installed")
    monkeypatch.setenv("PATH", "/usr/sbin:/sbin", prepend=":")
    found = lossy.run(capture)
    assert found.dropped > 5, "too little was dropped to prove anything"
    assert abs(found.lost - found.told) <= 1, found
    assert "socket_full" not in found.refused


def test_lost_messages_of_an_nprobe_are_said_right(capture: Path) -> None:
    """By the numbers of messages."""
    found = messages(capture)
    assert found.dropped > 0, "nothing was dropped"
    assert found.lost == found.told, found
