"""Exports within public captures are decoded as tshark decodes them (all of them: `python3 check_exports.py`)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from capture_traces import SHARED
from check_exports import EXPORTS, FORMS, TRAFFIC, difference, exported, theirs


@pytest.mark.parametrize("name", EXPORTS)
def test_public_exports_decode_as_tshark_decodes_them(name: str) -> None:
    """Real agents' datagrams."""
    if not (SHARED / name).is_file() or not shutil.which("tshark"):
        pytest.skip(f"{SHARED / name} or tshark is not here")
    assert difference(SHARED / name) == ""


@pytest.mark.parametrize("name", TRAFFIC)
@pytest.mark.parametrize("form", FORMS)
def test_what_pmacctd_exports_decodes_as_tshark_decodes_it(form: str, name: str, tmp_path: Path) -> None:
    """Another implementation's datagrams of a real capture."""
    if not (SHARED / name).is_file() or not shutil.which("tshark") or not shutil.which("pmacctd"):
        pytest.skip(f"{SHARED / name}, tshark or pmacctd is not here")
    path = exported(SHARED / name, form, tmp_path)
    assert theirs(path), "pmacctd exported nothing"
    assert difference(path) == ""
