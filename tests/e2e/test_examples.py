"""Each example of `--help` does what it shows: those of `weir` on a stack of its own in the order in which a user could type them,
those of the agent in a network namespace that has an interface `eth0`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import AGENT, CHECKOUT, RunningStack, live_possible
from weir.demo_traffic import write_capture

pytestmark = pytest.mark.long

REFERENCE = CHECKOUT / "docs/reference"
#: Examples of `weir` by how they begin, in an order in which each finds what it needs; with the exit statuses that they may have.
ORDER: dict[str, set[int]] = {
    "weir up": {0},
    "weir status": {0},
    "weir doctor": {0, 1, 2},
    "weir probe add": {0},
    "weir probe set": {0},
    "weir probe rotate": {0},
    # No agent is there to follow the order.
    "weir probe filters": {1},
    "weir probe list": {0},
    "weir prefixes set": {0},
    "weir prefixes import": {0},
    "weir prefixes list": {0},
    "weir sql": {0},
    "weir ledger": {0, 1},
    "weir alerts": {0, 1},
    "weir nat": {0, 1},
    "weir customer": {0},
    "weir user add": {0},
    "weir user unlock": {0},
    "weir user list": {0},
    "weir user remove": {0},
    "weir prefixes remove": {0},
    "weir dead-letters list": {0},
    "weir dead-letters replay": {0},
    "weir storage": {0},
    "weir privacy split": {0},
    "weir privacy translate": {0},
    "weir reveal": {0},
    "weir backup": {0},
    "weir forget": {0},
    "weir audit show": {0},
    "weir audit verify": {0},
    "weir probe revoke": {0},
    "weir probe remove": {0},
    "weir restore": {0},
    "weir down": {0},
}
#: Examples that need another version, other servers or a machine to themselves, and the tests of the same.
ELSEWHERE = {
    "weir upgrade": "tests/upgrade/test_upgrade.py",
    "weir migrate": "tests/e2e/test_upgrade_of_a_store.py",
    "weir prepare": "tests/e2e/test_oauthbearer.py",
    "weir demo": "tests/e2e/test_demo.py",
    # It removes what is built, too.
    "weir uninstall": "stack/tests/test_doctor.py",
    "weir-probe enrol oslo.bundle": "tests/e2e/test_credentials.py",
    "ssh collector weir probe add oslo | sudo weir-probe enrol -": "tests/e2e/test_credentials.py",
    "weir-probe nprobe -i trace.pcap -n none --kafka '192.0.2.9:9092;flows' --json-labels": "tests/e2e/test_peers.py",
}


def of_weir() -> list[str]:
    """The examples of all commands, but for those that are groups of commands."""
    text = (REFERENCE / "weir.md").read_text()
    found = []
    for section in re.split(r"^#{2,3} `", text, flags=re.M)[1:]:
        name = section.split("`")[0]
        said = re.search(r"^Example: (.+)$", section.split("**Usage**")[0], re.M)
        if "COMMAND [ARGS]" in section or (said is None and re.search(r"^#{3} `" + re.escape(name), text, re.M)):
            continue
        assert said, f"`{name} --help` has no example"
        found.append(said[1])
    return found


def of_agent() -> list[str]:
    """The examples of the agent's commands that are command lines."""
    text = (REFERENCE / "weir-probe.md").read_text()
    found = []
    for block in re.findall(r"^Examples?:\n((?:  .+\n)+)", text, re.M):
        lines = re.sub(r"\n  (?!(weir-probe|tcpdump|ssh|ln) )", " ", block.strip("\n")).splitlines()
        found += [line.strip() for line in lines if line.strip() not in ELSEWHERE]
    return found


def place(example: str) -> str:
    """How an example begins in one of the two tables."""
    command = re.search(r"(?:^|[\s/])weir (?:--config \S+ )?([a-z].*)", example)
    assert command, example
    words = [word for word in command[1].split() if not word.startswith("-")]
    for length in (2, 1):
        name = " ".join(["weir", *words[:length]])
        if name in ORDER or name in ELSEWHERE:
            return name
    raise AssertionError(f"no place in ORDER for: {example}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the examples name: captures, lists, the programs, and an `ssh` that stays on this machine."""
    made = tmp_path_factory.mktemp("examples")
    programs = made / "programs"
    programs.mkdir()
    (made / "etc").mkdir()
    # Another machine has another /var/lib.
    (programs / "ssh").write_text(
        '#!/bin/bash\nshift\nexec unshare --mount bash -c \'mount -t tmpfs none /var/lib && exec "$@"\' - "$@"\n'
    )
    for one in programs.iterdir():
        one.chmod(0o755)
    # A copy: what an example writes to must not be the agent of other tests.
    shutil.copy(AGENT, programs / "weir-probe")
    (made / "weir-probe").symlink_to(programs / "weir-probe")
    for name in ("trace.pcap", "monday.pcapng", "exports.pcap"):
        write_capture(made / name, packets=200)
    subprocess.run(["gzip", "-kc", str(made / "trace.pcap")], stdout=(made / "tuesday.pcap.gz").open("wb"), check=True)
    subprocess.run([AGENT, "config-example"], stdout=(made / "weir-probe.toml").open("wb"), check=True)
    (made / "customers.csv").write_text("prefix,customer,site,tags,national\n192.0.2.0/24,Fjord Power,oslo,power,yes\n")
    (made / "suspicious.toml").write_text('[filters.sets.suspicious]\ntelnet = "tcp port 23"\n')
    yield made
    shutil.rmtree(made, ignore_errors=True)


def shell(
    command: str, folder: Path, environment: dict[str, str], *, seconds: float = 300, answers: str = ""
) -> tuple[int, str]:
    """Run a command line as a user types it, in this folder."""
    # The first is that of the tests' own `java`, which looks for the real one in the others.
    first, others = environment["PATH"].split(":", 1)
    path = f"{first}:{folder / 'programs'}:{CHECKOUT / 'stack/bin'}:{others}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], cwd=folder, env={**environment, "PATH": path}, input=answers,
        capture_output=True, text=True, check=False, timeout=seconds,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_the_examples_of_the_command(folder: Path) -> None:
    stack = RunningStack(superset=True)
    examples = sorted((one for one in of_weir() if place(one) in ORDER), key=lambda one: [*ORDER].index(place(one)))
    assert {place(one) for one in examples} == set(ORDER)
    failed = []
    try:
        for example in examples:
            # The store is not lost here.
            command = example + (" --force" if example.startswith("weir restore") else "")
            command = command.replace(
                "--share a --share b", f"--share {folder}/shares/anna.share --share {folder}/shares/ben.share"
            )
            # The status of the command itself, not of what its output is piped into.
            status, said = shell(command, folder, stack.environment, answers="yes\n")
            print(f"$ {command}\n{said}")
            if status not in ORDER[place(example)] or "Traceback" in said:
                failed.append((status, example, said[-600:]))
        assert failed == []
    finally:
        stack.weir("down")
        stack.remove()


@pytest.mark.parametrize("example", of_agent())
def test_an_example_of_the_agent(folder: Path, example: str) -> None:
    if not live_possible():
        pytest.skip("no root or no network namespaces here: nothing can be captured live")
    # A namespace of its own, too, for what the agent keeps in /var/lib.
    inside = "mount -t tmpfs none /var/lib && ip link set lo up && ip link add eth0 type veth peer name far && ip link set eth0 up && ip link set far up && "
    command = example.replace("/etc/bash_completion.d", str(folder / "etc"))
    status, said = shell(
        f"unshare --net --mount bash -c {shlex.quote(inside + 'timeout --signal INT 6 bash -c ' + shlex.quote(command))}",
        folder, {**os.environ, "WEIR_HOME": str(folder / "nowhere")}, seconds=60,
    )  # fmt: skip
    print(status, said)
    # Those that go on until they are stopped are stopped here; `head` and nobody at the other end are no fault of the example.
    assert status in (0, 124, 130), said
    assert "Usage:" not in said
