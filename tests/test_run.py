"""`tests/run.py` notices tests that failed, were skipped, or never ran."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import run
from harness import CHECKOUT

#: Runs the parts that `parts` returns, and returns the exit status.
Runner = Callable[..., int]


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    def start(parts: list[run.Part], *words: str) -> int:
        monkeypatch.setattr(run, "LOGS", tmp_path)
        monkeypatch.setattr(run, "parts", lambda what: parts)
        monkeypatch.setattr(sys, "argv", ["run.py", "check", *words])
        return run.main()

    return start


def by_pytest(folder: Path, content: str) -> run.Part:
    """A part with one file of tests."""
    (folder / "test_one.py").write_text(content)
    report = f"--junitxml {folder}/python.xml -p no:cacheprovider --rootdir {folder}"
    return run.Part("python", str(folder), [f"{sys.executable} -m pytest -q {report} {{only}}"], "-k {}")


def test_a_command_that_fails_fails_the_part_and_ends_it(runner: Runner, capfd: pytest.CaptureFixture[str]) -> None:
    parts = [run.Part("bad", ".", ["echo before", "false", "echo after"]), run.Part("good", ".", ["true"])]
    assert runner(parts) == 1
    out = capfd.readouterr().out
    assert "FAILED" in out
    assert ": bad;" in out
    assert "all passed" not in out
    assert "    before" in out
    assert "    after" not in out
    assert runner([run.Part("good", ".", ["true"])]) == 0


def test_a_skipped_test_is_counted_and_named(runner: Runner, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    content = """
import pytest
def test_runs(): pass
@pytest.mark.skip(reason="no moon")
def test_waits(): pass
"""
    rust = "printf 'running 9 tests\\n...\\nSKIPPED 2 ../shared is absent: a, b\\n......\\ntest result: ok. 9 passed; 0 failed; 1 ignored\\n'"
    assert runner([by_pytest(tmp_path, content), run.Part("rust", ".", [rust])]) == 0
    out = capfd.readouterr().out
    assert "skipped: python: 1: no moon (it should have run)\n" in out
    assert "skipped: rust: 2: ../shared is absent: a, b\n" in out
    assert "10 tests ran, 3 were skipped" in out


def test_only_this_runs_reports_of_surefire_count(tmp_path: Path) -> None:
    reports = tmp_path / "target/surefire-reports"
    reports.mkdir(parents=True)
    case = "<testsuite><testcase/><testcase/><testcase><skipped message='why'/></testcase></testsuite>"
    for name in ("TEST-new.xml", "TEST-old.xml"):
        (reports / name).write_text(case)
    os.utime(reports / "TEST-old.xml", (1, 1))
    part = run.Part("java", str(tmp_path), ["mvn test {only}"], began=time.time())
    run.LOGS.mkdir(parents=True, exist_ok=True)
    part.log.touch()
    try:
        assert run.counted(part) == (2, {"why": 1})
    finally:
        part.log.unlink()


@pytest.mark.parametrize("words", [(), ("--part", "python")])
def test_a_name_that_no_test_has_is_an_error(
    words: tuple[str, ...], runner: Runner, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    parts = [by_pytest(tmp_path, "def test_runs(): pass\n"), run.Part("lint", ".", ["true"])]
    assert runner(parts, *words, "--only", "runs") == 0
    assert "all passed" in capfd.readouterr().out
    assert runner(parts, *words, "--only", "bogus") == 1
    out = capfd.readouterr().out
    assert "no test ran" in out
    assert "'bogus'" in out
    assert "all passed" not in out
    # A part without tests has none of this name.
    assert runner(parts, "--part", "lint", "--only", "runs") == 1


def test_a_part_of_tests_that_runs_none_fails(runner: Runner, capfd: pytest.CaptureFixture[str]) -> None:
    assert runner([run.Part("rust", ".", ["true {only}"], "{}")]) == 1
    assert "no test ran" in capfd.readouterr().out


def test_a_selection_is_given_to_tests_and_to_nothing_else() -> None:
    for part in [*run.parts("check"), *run.parts("test"), *run.parts("long")]:
        every, some = part.selected(None), part.selected("my name")
        assert len(every) == len(part.commands)
        assert not any("{only}" in command for command in every + some)
        assert all("my name" in command for command in some)
        assert bool(some) == bool(part.select), part.name
        for tool in ("cargo fmt", "cargo clippy", "cargo check", "ruff", "mypy"):
            assert not any(tool in command for command in some), part.name


def test_an_unknown_part_is_named_and_list_names_all(runner: Runner, capfd: pytest.CaptureFixture[str]) -> None:
    parts = [run.Part("good", ".", ["true"]), run.Part("other", ".", ["true"])]
    with pytest.raises(SystemExit, match="no part is called 'typo'; there are: good, other"):
        runner(parts, "--part", "typo", "--find")
    assert runner(parts, "--part", "list") == 0
    assert capfd.readouterr().out == "good\nother\n"
    assert runner(parts, "--part", "good", "--find") == 0
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_everything_that_was_started(number: signal.Signals, tmp_path: Path) -> None:
    waiting = tmp_path / "waiting"
    (tmp_path / "wait.py").write_text(f"""
import os, sys, time
with open("{waiting}.new", "w") as file:
    file.write(f"{{os.getpid()}} {{sys.argv[1]}}")
os.rename("{waiting}.new", "{waiting}")
time.sleep(300)
""")
    script = tmp_path / "start.py"
    # The shell's process in the background ignores SIGINT.
    script.write_text(f"""
import sys, pathlib
sys.path.insert(0, {str(CHECKOUT / "tests")!r})
import run
run.LOGS = pathlib.Path({str(tmp_path)!r})
run.parts = lambda what: [run.Part("slow", ".", ["sleep 300 & {sys.executable} {tmp_path}/wait.py $!; true"])]
sys.argv = ["run.py", "check"]
run.start()
""")
    process = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE, text=True)
    try:
        wait_for(waiting.exists)
        children = [int(word) for word in waiting.read_text().split()]
        process.send_signal(number)
        assert "interrupted" in process.communicate(timeout=30)[1]
        assert process.returncode == 1
        wait_for(lambda: not any(map(is_running, children)))
    finally:
        process.kill()


def wait_for(done: Callable[[], bool]) -> None:
    """Waits up to 30 s."""
    until = time.monotonic() + 30
    while not done():
        assert time.monotonic() < until
        time.sleep(0.05)


def is_running(process: int) -> bool:
    """Whether the process exists and has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
