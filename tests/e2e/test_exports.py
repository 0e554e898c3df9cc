"""Decodes exports within public captures and compares them with tshark (all of them: `python3 check_exports.py`)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from capture_traces import SHARED
from check_exports import EXPORTS, FORMS, TRAFFIC, difference, exported, theirs


def needs(program: str, capture: str) -> None:
    """Skip if the capture or the program is absent."""
    if not (SHARED / capture).is_file():
        pytest.skip("../shared is not here")
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")


@pytest.mark.parametrize("name", EXPORTS)
def test_public_exports_decode_as_tshark_decodes_them(name: str) -> None:
    """Real agents' datagrams."""
    needs("tshark", name)
    assert difference(SHARED / name) == ""


@pytest.mark.parametrize("name", TRAFFIC)
@pytest.mark.parametrize("form", FORMS)
def test_what_pmacctd_exports_decodes_as_tshark_decodes_it(form: str, name: str, tmp_path: Path) -> None:
    """Datagrams that another implementation exported from a real capture."""
    needs("tshark", name)
    needs("pmacctd", name)
    path = exported(SHARED / name, form, tmp_path)
    assert theirs(path), "pmacctd exported nothing"
    assert difference(path) == ""
