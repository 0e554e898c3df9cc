"""`make` changes nothing outside the checkout, whatever characters the checkout's path contains."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import documents
from harness import CHECKOUT

#: The prerequisites of the targets of `make build` that make looks for.
NEEDED = [
    "Makefile",
    "capture/path.sh",
    "clickhouse/embedded/requirements.txt",
    "stack/kafka/jars.sha256",
    "stack/kafka/pom.xml",
    "stack/requirements.txt",
    "stack/supply/uv.txt",
    "superset/requirements.txt",
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A Makefile in a path that make would split into three words, the first of which is an existing folder."""
    folder = tmp_path / "my weir ø" / "weir"
    folder.mkdir(parents=True)
    for name in NEEDED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, folder / name)
    (tmp_path / "my").mkdir()
    (tmp_path / "my/precious").touch()
    for built in (".weir/venvs", "capture/target", "flink-jobs/target"):
        (folder / built).mkdir(parents=True)
    return folder


def make(folder: Path, *words: str, **environment: str) -> str:
    """The output of make, with these variables besides its environment."""
    known = os.environ | environment
    return subprocess.run(["make", *words], cwd=folder, env=known, capture_output=True, text=True, check=True).stdout


def test_clean_removes_what_was_built_and_nothing_else(checkout: Path, tmp_path: Path) -> None:
    make(checkout, "clean")
    left = [str(path.relative_to(checkout)) for path in checkout.rglob("*") if path.is_file()]
    assert sorted(left) == NEEDED
    assert not list(checkout.rglob("target"))
    assert (tmp_path / "my/precious").exists()


def test_clean_keeps_data_secrets_and_settings(checkout: Path) -> None:
    for name in ("data/kafka/log", "secrets/key", "weir.yaml", "stacks/lab/weir.yaml", "venvs/stack/bin/python3"):
        (checkout / ".weir" / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / ".weir" / name).touch()
    said = make(checkout, "clean")
    assert sorted(path.name for path in (checkout / ".weir").iterdir()) == ["data", "secrets", "stacks", "weir.yaml"]
    assert "kept: .weir/data" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="changing owners takes root")
def test_with_sudo_the_owner_of_the_checkout_builds_it(checkout: Path) -> None:
    os.chown(checkout, 65534, 65534)
    for user, is_owner in (("65534", True), ("1", False), ("0", False)):
        shown = make(checkout, "-n", "build", SUDO_UID=user)
        assert ("runuser -u nobody -- env HOME=" in shown) == is_owner, shown


def test_what_takes_rights_is_said_before_anything_is_built(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = ["make", "demo", "IFACE=eth9"]
    done = subprocess.run(words, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "sudo make demo IFACE=eth9" in done.stdout
    assert "building" not in done.stdout


def test_make_elsewhere_is_refused(checkout: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for precious in (".weir/data", "capture/target", "flink-jobs/target"):
        (other / precious).mkdir(parents=True)
    for own in (False, True):
        if own:
            (other / "Makefile").touch()
        words = ["make", "-f", str(checkout / "Makefile"), "clean"]
        done = subprocess.run(words, cwd=other, capture_output=True, text=True)
        assert done.returncode == 2
        assert "run make in the folder of its Makefile" in done.stderr
        assert (other / ".weir/data").exists()
    (checkout / "plain").symlink_to(checkout)
    assert "Remove what was built" in make(checkout, "-f", "plain/Makefile", "help")


def test_clean_stops_the_stack_that_it_removes(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weir, python = checkout / "stack/bin/weir", checkout / ".weir/venvs/stack/bin/python"
    for program in (weir, python):
        program.parent.mkdir(parents=True)
        program.write_text('#!/bin/sh\necho "$1 of ${WEIR_HOME:-.weir}"\n')
        program.chmod(0o755)
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "mine"))
    assert "down of .weir\n" in make(checkout, "clean")


@pytest.mark.parametrize(
    "target", ["capture/target/release/weir-probe", "simulate-agent", "mutants-capture", "fuzz", "check"]
)
def test_nothing_is_built_where_a_librarys_script_would_run_what_the_path_begins_with(
    checkout: Path, tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("cargo", "cargo-mutants"):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\ntouch '{tmp_path}/built'\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=":")
    (checkout / "tests").mkdir()
    copy_runner(checkout)
    command = ["python3", "tests/run.py", "check", "--part", "rust"] if target == "check" else ["make", target]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    assert done.returncode
    assert "librdkafka cannot be built in a path with a space; move the checkout" in done.stdout + done.stderr
    assert not (tmp_path / "built").exists()
    plain = tmp_path / "capture"
    plain.mkdir()
    shutil.copy(checkout / "capture/path.sh", plain)
    subprocess.run([plain / "path.sh"], check=True)
    odd = tmp_path / "50%" / "capture"
    odd.mkdir(parents=True)
    shutil.copy(checkout / "capture/path.sh", odd)
    refused = subprocess.run([odd / "path.sh"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "Superset cannot make its database in a path with a percent sign" in refused.stderr


def copy_runner(checkout: Path) -> None:
    """Copy `run.py`, which needs no package."""
    for name in ("run.py", "long_results.py"):
        shutil.copy(CHECKOUT / "tests" / name, checkout / "tests" / name)


@pytest.mark.parametrize("target", ["check", "test", "test-long"])
def test_the_name_of_a_part_is_looked_up_before_anything_is_installed(checkout: Path, target: str) -> None:
    (checkout / "tests").mkdir()
    copy_runner(checkout)
    names = make(checkout, target, "PART=list").split()
    assert {"check": "rust", "test": "e2e", "test-long": "e2e-long"}[target] in names
    done = subprocess.run(["make", target, "PART=typo"], cwd=checkout, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"no part is called 'typo'; there are: {', '.join(names)}" in done.stderr
    assert not done.stdout


@pytest.mark.parametrize(
    ("target", "read", "other"),
    [
        (
            "capture/target/release/weir-probe",
            r"capture/|schemas/(columns|flow|counters)\.proto",
            r"capture/(fuzz|mutants|proptest-regressions|tests)/|Dockerfile|\.md$|\.service$|/(rustfmt\.toml|path\.sh)$",
        ),
        (
            "flink-jobs/target/weir-flink-jobs.jar",
            r"flink-jobs/|schemas/.*\.(proto|csv)$",
            r"Dockerfile|containers/|\.md$",
        ),
    ],
)
def test_a_program_is_built_again_when_a_file_that_it_is_built_from_changes(target: str, read: str, other: str) -> None:
    rules = subprocess.run(["make", "-pq"], cwd=CHECKOUT, capture_output=True, text=True).stdout
    known = re.search(rf"^{re.escape(target)}:(.*)$", rules, re.M)
    assert known
    files = {name for name in documents.project_files() if re.match(read, name) and not re.search(other, name)}
    assert len(files) > 100
    assert sorted(name for name in files - set(known[1].split()) if (CHECKOUT / name).exists()) == []


def test_recipes_run_files_that_are_there() -> None:
    recipes = "".join(re.findall(r"^\t.*\n", (CHECKOUT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"(?<![\w/.])(?:tests|stack|capture|docs|superset|clickhouse)/[\w./-]+\.\w+", recipes))
    assert len(named) > 15
    assert not [name for name in named if not (CHECKOUT / name).exists()]
    for name in re.findall(r"-Dtest='?\*?(\w+)", recipes):
        assert list((CHECKOUT / "flink-jobs/src/test").rglob(f"*{name}.java")), name


@pytest.mark.parametrize("target", ["check", "test"])
def test_a_part_and_a_test_are_handed_on_and_a_failure_too(checkout: Path, target: str) -> None:
    (checkout / "tests").mkdir()
    (checkout / "tests/run.py").write_text("")
    (checkout / "stack/setup.sh").write_text("#!/bin/sh\n")
    said = make(checkout, "--dry-run", target, "PART=some", "T=my name")
    assert f"tests/run.py {target} --part 'some' --only 'my name'\n" in said
    assert not re.search(r"^\t+@?-", (CHECKOUT / "Makefile").read_text().split("clean:")[0], re.M)


def test_nothing_is_made_outside(checkout: Path) -> None:
    commands = make(checkout, "--dry-run", "build")
    assert ".weir/venvs/stack" in commands
    # The one absolute path is quoted.
    assert not re.search(rf'(?<!"){re.escape(str(checkout))}', commands)
