"""What the end-to-end tests stand on: a stack of their own, on free ports, in a folder of its own.

Nothing is shared with a stack that a user runs, and nothing is left behind. Builds and environments are those of
the checkout's `.weir`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "stack"))

from harness import RunningStack


@pytest.fixture(scope="session")
def stack() -> Iterator[RunningStack]:
    """A running stack without dashboards, for tests that leave it well."""
    with RunningStack() as running:
        yield running


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of public captures beside the checkout; tests that want it skip where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "pcaps").is_dir():
        pytest.skip("../shared is not here: the public captures are only beside the developers' checkout")
    return folder
