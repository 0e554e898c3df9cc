"""The state of the jobs in a backup: what is written, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from weir import config, jobs_state, kafka, services
from weir.errors import WeirError


@pytest.fixture
def state(tmp_path: Path) -> jobs_state.State:
    """A state of two files, and its metadata without blocks."""
    folder = tmp_path / "savepoint-0123ab-0123456789ab"
    folder.mkdir()
    (folder / "_metadata").write_bytes(b"with blocks")
    (folder / "windows").write_bytes(b"w")
    return jobs_state.State(folder, b"without blocks", "cluster-1", {"weir.flows.a": {"0": 7, "1": 9}})


@pytest.fixture
def backup(state: jobs_state.State, tmp_path: Path) -> tuple[Path, str]:
    """The directory of a backup with that state, and the checksum in its manifest."""
    directory = tmp_path / "backup"
    directory.mkdir()
    facts = jobs_state.describe(state)
    jobs_state.write(state, facts, directory)
    return directory, jobs_state.checksum(facts)


def facts_of(backup: tuple[Path, str]) -> jobs_state.Facts:
    """The facts of a backup that is whole."""
    facts = jobs_state.verify(*backup)
    assert facts
    return facts


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> config.Stack:
    """A stack with a later checkpoint, and marks of later rows."""
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(kafka, "cluster", lambda _: "cluster-1")
    monkeypatch.setattr(
        kafka, "begins", lambda _: {("weir.flows.a", 0): 5, ("weir.flows.a", 1): 12, ("weir.flows.b", 0): 0}
    )
    stack = config.load(None)
    for name in ("0" * 32 + "/chk-9", "rows/flows/inserted", "savepoint-ffffff-ffffffffffff"):
        (stack.data / "flink" / name).mkdir(parents=True)
    return stack


def test_a_backup_holds_the_files_and_the_metadata_without_blocks(backup: tuple[Path, str]) -> None:
    directory, checksum = backup
    assert (directory / "jobs/_metadata").read_bytes() == b"without blocks"
    facts = jobs_state.verify(directory, checksum)
    assert facts
    assert facts.offsets == {"weir.flows.a": {"0": 7, "1": 9}}
    assert jobs_state.verify(directory, "") is None


HARMS: dict[str, Callable[[Path], object]] = {
    "no folder": lambda folder: folder.rename(folder.with_name("gone")),
    "a file lost": lambda folder: (folder / "windows").unlink(),
    "a file changed": lambda folder: (folder / "windows").write_bytes(b"v"),
    "facts changed": lambda folder: (folder / "jobs.json").write_text("{}"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_state_that_is_not_whole_is_refused(backup: tuple[Path, str], harm: str) -> None:
    directory, checksum = backup
    HARMS[harm](directory / "jobs")
    with pytest.raises(WeirError, match="the backup is damaged: jobs/"):
        jobs_state.verify(directory, checksum)


def test_a_state_that_changes_while_it_is_written_is_an_error(state: jobs_state.State, tmp_path: Path) -> None:
    facts = jobs_state.describe(state)
    (state.folder / "windows").write_bytes(b"changed")
    with pytest.raises(WeirError, match="jobs/windows"):
        jobs_state.write(state, facts, tmp_path)


def test_the_state_takes_the_place_of_later_ones(backup: tuple[Path, str], stack: config.Stack) -> None:
    directory, facts = backup[0], facts_of(backup)
    assert jobs_state.prepare(stack, directory, facts) == [
        "weir.flows.a: Kafka no longer has 3 messages since the backup; they cannot be read again."
    ]
    assert len(list((stack.data / "flink").iterdir())) == 4, "the old ones are there until the tables are in place"
    jobs_state.put(stack, facts)
    (only,) = (stack.data / "flink").iterdir()
    assert (only / "_metadata").read_bytes() == b"without blocks"
    assert jobs_state.left(stack)


def test_offsets_are_of_one_kafka(
    backup: tuple[Path, str], stack: config.Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, facts = backup[0], facts_of(backup)
    done: list[object] = []
    monkeypatch.setattr(kafka, "cluster", lambda _: "cluster-2")
    monkeypatch.setattr(kafka, "forget_group", done.append)
    monkeypatch.setattr(jobs_state, "_program", lambda _, words: done.append(words[0]))
    (line,) = jobs_state.prepare(stack, directory, facts)
    assert "Kafka is another one" in line
    jobs_state.put(stack, facts)
    assert done == ["drop-offsets", stack.brokers]


def test_without_an_answer_of_kafka_it_is_not_known(
    backup: tuple[Path, str], stack: config.Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "cluster", lambda _: None)
    (line,) = jobs_state.prepare(stack, backup[0], facts_of(backup))
    assert "does not answer" in line


def test_the_program_gets_the_options_of_the_jobs(stack: config.Stack) -> None:
    """They follow the jar in the command of the service."""
    flink = next(one for one in services.all_services(stack) if one.name == "flink")
    assert flink.command[flink.command.index("-jar") + 2] == "--jobs"
