"""The state of the jobs in a backup: offsets in Kafka, open windows, the ledger's memory.

A start of the jobs inserts the blocks that their state lists once more, and relies on the tables' memory of tokens.
Restored tables have no such memory. So `weir backup` inserts these blocks before it clones the tables, and keeps a copy
of the state that lists none (`SavedState` of the jobs' program does both).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from weir import kafka, savepoint
from weir.config import Stack
from weir.errors import WeirError
from weir.java import NO_FILES
from weir.services import all_services
from weir.stages import Stages
from weir.supervisor import Supervisor

#: In the directory of a backup.
_FOLDER = "jobs"
_FACTS = "jobs.json"
_METADATA = "_metadata"


@dataclass(frozen=True)
class State:
    """A state of stopped jobs, whose blocks are all in the store."""

    folder: Path
    metadata: bytes  # in place of the folder's own, which lists the blocks
    kafka: str  # id of the cluster; empty: not known
    offsets: dict[str, dict[str, int]]  # topic, partition, and the offset that the jobs read next


@dataclass(frozen=True)
class Facts:
    """The description of a state in a backup."""

    kafka: str
    offsets: dict[str, dict[str, int]]
    files: dict[str, str]  # name and SHA-256


# ---- backing up ----


def left(stack: Stack) -> bool:
    """Whether the jobs left any state."""
    folder = stack.data / "flink"
    return any(folder.glob("savepoint-*/_metadata")) or any(folder.glob("*/chk-*/_metadata"))


@contextmanager
def held(stack: Stack, stages: Stages, *, pause: bool) -> Iterator[State | str]:
    """Keep the jobs stopped meanwhile; yields their state, or a line that says why the backup has none.

    Raises WeirError if running jobs do not stop with a savepoint; they then keep running.
    """
    if not pause:
        yield "the jobs were not paused"
        return
    if stack.config.clickhouse.url:
        yield f"the store at {stack.clickhouse_url} is not this stack's own"
        return
    supervisor = Supervisor(stack)
    states = supervisor.states()
    if "flink" in states and states["flink"].may_run:
        if stack.config.flink.resume != "latest":
            raise WeirError(
                f"the jobs would not resume from a savepoint: flink.resume is '{stack.config.flink.resume}'",
                hint="set it to latest, or use --no-pause",
            )
        with _paused(stack, supervisor, stages) as path:
            state = _settle(stack)
            if state is None or state.folder != path:
                raise WeirError(f"the savepoint {path} is not the newest state", status=1)
            yield state
        return
    try:
        found = _settle(stack) if left(stack) else None
    except WeirError as error:
        yield f"the jobs do not run, and what they left cannot be used: {error}"
        return
    yield found or "the jobs do not run, and left no state"


@contextmanager
def _paused(stack: Stack, supervisor: Supervisor, stages: Stages) -> Iterator[Path]:
    """Stop the jobs with a savepoint, and start them again from it."""
    flink = next(service for service in all_services(stack) if service.name == "flink")
    stages.begin("jobs")
    stages.note("jobs", "stop with a savepoint")
    begin = time.monotonic()
    try:
        try:
            path = savepoint.stop(stack)
        except (savepoint.Unfinished, KeyboardInterrupt):
            supervisor.stop("flink")  # else the jobs might end later
            raise
        supervisor.stop("flink")
        stages.note("jobs", "stopped")
        yield path
    finally:
        # Jobs that ended by themselves after the savepoint have exited, and supervisord leaves them so.
        if not supervisor.states()["flink"].runs:
            stages.note("jobs", "start again")
            supervisor.start(flink)
            supervisor.wait(flink)
    stages.done("jobs", f"paused for {time.monotonic() - begin:.1f} s; they resume from {path.name}")


def _settle(stack: Stack) -> State | None:
    """Insert the blocks that the newest state lists; None if there is no state."""
    flink = next(service for service in all_services(stack) if service.name == "flink")
    options = flink.command[flink.command.index("-jar") + 2 :]
    with tempfile.TemporaryDirectory(dir=stack.run) as folder:
        told = json.loads(_program(stack, ["settle", folder, *options], flink.environment))
        if not told["state"]:
            return None
        metadata = (Path(folder) / _METADATA).read_bytes()
    return State(Path(told["state"]), metadata, kafka.cluster(stack.brokers) or "", told["offsets"])


def _program(stack: Stack, words: list[str], environment: dict[str, str] | None = None) -> str:
    java = ["java", "-Xmx512m", NO_FILES, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command = [*java, "-cp", str(stack.flink_jar), "io.weir.jobs.SavedState", *words]
    done = subprocess.run(
        command, env=os.environ | (environment or {}), capture_output=True, text=True, check=False, cwd=stack.run
    )
    if done.returncode:
        raise WeirError(f"the state of the jobs: {(done.stderr.strip().splitlines() or ['no answer'])[-1]}", status=1)
    return (done.stdout.splitlines() or [""])[-1]  # after lines of its log


def describe(state: State) -> str:
    """The facts of a state, as a backup keeps them."""
    files = {
        path.name: _sum(path.read_bytes())
        for path in sorted(state.folder.iterdir())
        if path.is_file() and path.name != _METADATA
    }
    return json.dumps(asdict(Facts(state.kafka, state.offsets, files | {_METADATA: _sum(state.metadata)})), indent=1)


def write(state: State, facts: str, directory: Path) -> None:
    """Write a state and its facts into the directory of a backup. Raises WeirError if it has changed since."""
    folder = directory / _FOLDER
    try:
        folder.mkdir()
        for name in json.loads(facts)["files"]:
            if name != _METADATA:
                shutil.copyfile(state.folder / name, folder / name)
        (folder / _METADATA).write_bytes(state.metadata)
        (folder / _FACTS).write_text(facts)
    except OSError as error:
        raise WeirError(f"the state of the jobs was not written: {error}", status=1) from error
    verify(directory, checksum(facts))


def checksum(facts: str) -> str:
    """The checksum of a state's facts."""
    return _sum(facts.encode())


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# ---- restoring ----


def present(directory: Path) -> bool:
    """Whether the directory of a backup holds a state; `verify` tells whether it is whole."""
    return (directory / _FOLDER).exists()


def verify(directory: Path, expected: str) -> Facts | None:
    """The facts of a backup's state; None if the backup has none. Raises WeirError if anything is missing or changed.

    expected: the checksum of the facts, empty for none.
    """
    if not expected:
        return None
    folder = directory / _FOLDER
    try:
        text = (folder / _FACTS).read_text()
        if checksum(text) != expected:
            raise _damaged(_FACTS)
        facts = Facts(**json.loads(text))
        for name, of_file in facts.files.items():
            if _sum((folder / name).read_bytes()) != of_file:
                raise _damaged(name)
    except FileNotFoundError as error:
        raise _damaged(Path(error.filename).name) from error
    return facts


def _damaged(name: str) -> WeirError:
    return WeirError(
        f"the backup is damaged: {_FOLDER}/{name}, of the jobs' state, is missing or changed",
        hint="nothing was changed; use another backup",
        status=1,
    )


def prepare(stack: Stack, directory: Path, facts: Facts) -> list[str]:
    """Copy the state of a backup beside that of the stopped jobs; returns lines on what cannot be read again."""
    new = _beside(stack)
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for name in facts.files:
        shutil.copyfile(directory / _FOLDER / name, new / name)
    cluster = kafka.cluster(stack.brokers)
    if facts.offsets and _is_another(facts, cluster):
        _program(stack, ["drop-offsets", str(new)])
    lines = _compared(stack, facts, cluster)
    if stack.config.flink.resume != "latest":
        lines.append(f"flink.resume is '{stack.config.flink.resume}': the jobs do not start from the backup's state.")
    return lines


def waits(stack: Stack) -> bool:
    """Whether a prepared state was not put."""
    return _beside(stack).exists()


def put(stack: Stack, facts: Facts) -> None:
    """Replace the state of the stopped jobs with the one that was prepared."""
    if _is_another(facts, kafka.cluster(stack.brokers)):
        # Without offsets in their state, the jobs would begin at those that were committed.
        kafka.forget_group(stack.brokers)
    new = _beside(stack)
    (new / _METADATA).touch()
    # Its name makes it a state of the jobs, and its time the newest.
    kept = new.rename(new.parent / f"savepoint-{secrets.token_hex(3)}-{secrets.token_hex(6)}")
    # Later states, and marks of later rows, belong to the tables that were replaced.
    for other in kept.parent.iterdir():
        if other.is_dir() and other != kept:
            shutil.rmtree(other)


def _beside(stack: Stack) -> Path:
    return stack.data / "flink/restoring"


def _is_another(facts: Facts, cluster: str | None) -> bool:
    """Whether Kafka is known to be another one than that of the backup."""
    return bool(facts.kafka and cluster and facts.kafka != cluster)


def _compared(stack: Stack, facts: Facts, cluster: str | None) -> list[str]:
    """The messages since the backup that Kafka, with this cluster id (None: it does not answer), no longer has."""
    if cluster is None:
        return [f"Kafka does not answer at {stack.brokers}: cannot tell whether it still has every message."]
    if _is_another(facts, cluster):
        return [
            "Kafka is another one than that of the backup: the jobs read all that it has; what only the lost one"
            " had received since the backup cannot be read again."
        ]
    lines = []
    begins = kafka.begins(stack.brokers)
    for topic, offsets in facts.offsets.items():
        gone = sum(max(0, begins.get((topic, int(number)), 0) - offset) for number, offset in offsets.items())
        if gone:
            lines.append(f"{topic}: Kafka no longer has {gone:,} messages since the backup; they cannot be read again.")
        elif any((topic, int(number)) not in begins for number in offsets):
            lines.append(
                f"{topic}: Kafka no longer has this topic; its messages since the backup cannot be read again."
            )
    return lines
