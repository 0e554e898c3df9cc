"""The packages that `stack/setup.sh` finds missing."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """A folder of commands that precede the system's on the path, so that setup.sh installs nothing."""
    for name in ("apt-cache", "apt-get", "sudo"):
        command(tmp_path, name, "exit 1")
    return tmp_path


def command(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def ran(commands: Path) -> subprocess.CompletedProcess[str]:
    """Run setup.sh."""
    path = f"{commands}:{os.environ['PATH']}"
    run = [str(CHECKOUT / "stack/setup.sh")]
    return subprocess.run(run, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)


def setup(commands: Path) -> str:
    """Run setup.sh; returns its output."""
    return ran(commands).stdout


def test_it_wants_the_rust_that_the_agent_needs(commands: Path) -> None:
    least = tomllib.loads((CHECKOUT / "capture/Cargo.toml").read_text())["package"]["rust-version"]
    major, minor = least.split(".")
    command(commands, "cargo", f"echo cargo {major}.{int(minor) - 1}.1")
    assert f"cargo {least} or newer" in setup(commands)
    command(commands, "cargo", f"echo cargo {least}.0")
    assert "cargo" not in setup(commands)


def test_it_wants_the_openssl_that_the_agent_links(commands: Path) -> None:
    command(commands, "pkg-config", "exit 1")
    assert "libssl-dev" in setup(commands)


def test_a_user_who_may_install_nothing_is_asked_for_nothing_that_only_a_part_needs(commands: Path) -> None:
    command(commands, "id", "echo 1000")
    command(commands, "apt-cache", "exit 0")
    command(commands, "cargo", "echo cargo 9.0.0")
    command(commands, "pkg-config", '[ "$2" != libndpi ]')
    done = ran(commands)
    assert (done.returncode, done.stderr) == (0, "")
    assert "left out, as installing takes root: libndpi-dev" in done.stdout
    command(commands, "pkg-config", "exit 1")
    done = ran(commands)
    assert done.returncode == 2
    assert "ask an administrator" in done.stderr
    assert "libssl-dev" in done.stderr
    assert "sudo" not in done.stderr, "there is none"
