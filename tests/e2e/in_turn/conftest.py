"""The stack of files that empty its store, damage it or stop its services: they follow each other, in this order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import RunningStack, emptied

#: The last one leaves only the store.
ORDER = ("test_health", "test_tiers", "test_forget")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files of this folder in their order."""
    mine = [place for place, item in enumerate(items) if item.path.parent.name == "in_turn"]
    in_order = sorted((items[place] for place in mine), key=lambda item: ORDER.index(item.path.stem))
    for place, item in zip(mine, in_order, strict=True):
        items[place] = item


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
