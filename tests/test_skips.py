"""Programs that compare with peers say which peer was absent in the line that `run.py` counts."""

from __future__ import annotations

import collections
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import check_exports
import check_losses
import check_peers

ABSENT = SimpleNamespace(needs="nfcapd", name="nfcapd", missing=lambda: "nfcapd", installed=lambda: False)


def test_peers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    absent = SimpleNamespace(**vars(ABSENT) | {"name": lambda: "nfcapd, IPFIX"})
    monkeypatch.setattr(check_peers, "TRIPS", [absent])
    monkeypatch.setattr(check_peers, "ARRIVALS", [absent])
    nothing = check_peers.Volumes(collections.Counter(), collections.Counter())
    assert check_peers.ours_into_theirs(Path("none.pcap"), nothing) == 0
    assert check_peers.theirs_into_ours(Path("none.pcap"), nothing) == 0
    assert capsys.readouterr().out.count("SKIPPED 1 nfcapd is not installed\n") == 2


def test_losses(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(check_losses, "LOSSY", [ABSENT])
    monkeypatch.setattr(check_losses, "make_capture", lambda *_: None)
    monkeypatch.setattr(check_losses, "messages", lambda _: check_losses.Found(9, 1, 1, 1, {}))
    assert check_losses.main() == 0
    assert "SKIPPED 1 nfcapd is not installed\n" in capsys.readouterr().out


def test_exports(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    monkeypatch.setattr(check_exports, "SHARED", tmp_path)
    monkeypatch.setattr(check_exports, "EXPORTS", [])
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["check_exports.py"])
    with pytest.raises(SystemExit) as ended:
        check_exports.main()
    assert ended.value.code == 0
    count = len(check_exports.TRAFFIC) * len(check_exports.FORMS)
    assert f"SKIPPED {count} pmacctd is not installed\n" in capsys.readouterr().out
