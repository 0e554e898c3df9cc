"""The stack of files that empty its store, damage it or stop its services: they follow each other in the order of
`IN_TURN`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import RunningStack, emptied


@pytest.fixture(scope="package")
def of_all() -> Iterator[RunningStack]:
    """The stack, whose windows wait only briefly."""
    with RunningStack(national_delay="2s") as running:
        yield running


@pytest.fixture(scope="module")
def stack(of_all: RunningStack) -> RunningStack:
    """The stack, with an empty store."""
    emptied(of_all)
    return of_all
