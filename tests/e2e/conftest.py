"""Fixtures of the end-to-end tests.

They run side by side (`-n 4`): the tests of a file follow each other in one process, and so do those of the folders `pages`,
whose files share a stack with dashboards, and `in_turn`, whose files may damage theirs. One stack without dashboards serves
every other test that leaves it healthy: the first process that needs it starts it, the others attach to it, and the process
that collects the results stops it. A file that needs other settings, or loses a stack's data, declares its own stack's settings
in `OWN_STACK`; one that needs the store alone says `ONLY_STORE = True`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from harness import FOLDER, SHARED, RunningStack, logs, lone_store
from weir.clickhouse import ClickHouse, connect

#: Files and folders with the longest tests begin first; the seconds are those of a whole run on 2 cores.
LONGEST_FIRST = {
    "in_turn": 635,
    "pages": 620,
    "test_privacy": 480,
    "test_backup": 460,
    "test_windows": 460,
    "test_credentials": 240,
    "test_counted_once": 220,
    "test_faults": 170,
    "test_interrupted_backups": 155,
    "test_retention": 155,
    "test_storage_schedules": 150,
    "test_path": 140,
    "test_ledger": 135,
    "test_oauthbearer": 130,
    "test_proxy": 120,
    "test_demo": 115,
    "test_late_records": 110,
    "test_places": 100,
    "test_nprobe_in": 90,
    "test_window_bound": 90,
    "test_prefixes": 85,
    "test_orders": 80,
    "test_exports": 80,
    "test_nat": 70,
    "test_detect": 45,
}
#: The order of the files of `in_turn`: windows of probes that publish the present, as those of `test_health` do, are written up
#: to five minutes later, when the store of the next file holds nothing else of them; `test_forget` leaves only the store.
IN_TURN = ("test_tiers", "test_health", "test_forget")


def pytest_configure(config: pytest.Config) -> None:
    """One folder for all processes of this session, and one for its logs."""
    config.pluginmanager.register(Deselected())
    if not hasattr(config, "workerinput"):
        logs()
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="weir-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the shared stack, and those of interrupted tests."""
    if hasattr(config, "workerinput"):
        return
    folder = Path(os.environ.pop(FOLDER))
    for settings in folder.glob("*/weir.yaml"):
        RunningStack(home=settings.parent).take_down()
    shutil.rmtree(folder, ignore_errors=True)


def place(nodeid: str) -> str:
    """The file or folder beside this file that a test is in: `test_path` of `e2e/test_path.py::test_it`, `pages` of
    `e2e/pages/test_drawn.py::test_it`.
    """
    path = PurePosixPath(nodeid.split("::", 1)[0])
    return path.relative_to("e2e").parts[0].removesuffix(".py")


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """The tests of a file, or of a folder, go to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return place(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    """Distribute by file and folder."""
    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, and those of `in_turn` in their order."""
    turns = {name: turn for turn, name in enumerate(IN_TURN)}
    items.sort(key=lambda item: (-LONGEST_FIRST.get(place(item.nodeid), 0), turns.get(item.path.stem, 0)))


class Deselected:
    """How many tests the mark leaves out, which only the processes know that run the others: the report says it."""

    def __init__(self) -> None:
        self.count = 0

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """In a process that runs tests."""
        self.count += len(items)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the process that collects the results."""
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["deselected"] = self.count

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Each process has left out the same tests."""
        self.count = max(self.count, getattr(node, "workeroutput", {}).get("deselected", 0))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """As pytest says it of one process."""
        if self.count and not hasattr(terminalreporter.config, "workerinput"):
            terminalreporter.write_line(f"{self.count} deselected")


@pytest.fixture(scope="module")
def stack(request: pytest.FixtureRequest) -> Iterator[RunningStack]:
    """The file's own stack if it names one, or one of which only the store runs; else the running stack that tests share:
    each test uses its own probes, and no test stops or fills that stack.
    """
    if getattr(request.module, "ONLY_STORE", False):
        with lone_store() as alone:
            yield alone
        return
    own = getattr(request.module, "OWN_STACK", None)
    if own is not None:
        with RunningStack(**own) as running:
            yield running
        return
    folder = Path(os.environ[FOLDER])
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "home").exists():
            running = RunningStack()
            running.bring_up()
            (folder / "home").write_text(str(running.home))
    yield RunningStack(home=Path((folder / "home").read_text()))


@pytest.fixture(scope="module")
def store(stack: RunningStack) -> ClickHouse:
    """The store of the fixture `stack`, with all rights."""
    return connect(stack.stack, "admin")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of public captures beside the checkout; tests that need it skip if it is absent."""
    if not (SHARED / "pcaps").is_dir():
        pytest.skip("../shared is not here")
    return SHARED
