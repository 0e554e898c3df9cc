"""The images of the machines, and the checkout with what is built."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from machine import HERE, TREE, commit, make_built, make_images


@pytest.fixture(scope="session", autouse=True)
def images() -> None:
    """The machines' images."""
    if os.geteuid() != 0:
        pytest.fail("containers with users of their own take root")
    os.environ["CONTAINERS_CONF"] = str(HERE.parent / "compose/containers.conf")
    os.environ["BUILDAH_FORMAT"] = "docker"
    commit()
    make_images()


@pytest.fixture(scope="session")
def built(images: None) -> Iterator[Path]:
    """The checkout with what is built, for machines to begin with."""
    TREE.mkdir(parents=True, exist_ok=True)
    with (TREE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield make_built()
