"""`tests/run.py` notices tests that failed, were skipped, or never ran."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import documents
import long_results
import run
from harness import CHECKOUT, live_possible

#: Runs the parts that `parts` returns, and returns the exit status.
Runner = Callable[..., int]


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    def start(parts: list[run.Part], *words: str, what: str = "check") -> int:
        monkeypatch.setattr(run, "LOGS", tmp_path)
        monkeypatch.setattr(run, "parts", lambda what: parts)
        monkeypatch.setattr(sys, "argv", ["run.py", what, *words])
        return run.main()

    return start


def by_pytest(folder: Path, content: str) -> run.Part:
    """A part with one file of tests."""
    (folder / "test_one.py").write_text(content)
    report = f'--junitxml "$WEIR_TEST_LOGS"/python.xml -p no:cacheprovider --rootdir {shlex.quote(str(folder))}'
    return run.Part("python", str(folder), [f"{shlex.quote(sys.executable)} -m pytest -q {report} {{only}}"], "-k {}")


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


@pytest.mark.parametrize(("user", "ci", "status"), [(1000, "", 0), (0, "", 1), (1000, "1", 1)])
def test_a_skipped_test_is_counted_and_named(
    runner: Runner,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    user: int,
    ci: str,
    status: int,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setenv("CI", ci)
    content = """
import pytest
def test_runs(): pass
@pytest.mark.skip(reason="no moon")
def test_waits(): pass
"""
    rust = "printf 'running 9 tests\\n...\\nSKIPPED 2 ../shared is absent: a, b\\n......\\ntest result: ok. 9 passed; 0 failed; 1 ignored\\n'"
    live = "printf 'test result: ok. 1 passed; 0 failed; 4 ignored\\nSKIPPED 3 no kernel module: d, e, f\\nSKIPPED 1 a measurement: g\\n'"
    assert runner([by_pytest(tmp_path, content), run.Part("rust", ".", [rust, live])]) == status
    out = capfd.readouterr().out
    assert "skipped: python: 1: no moon (it should have run)\n" in out
    assert "skipped: rust: 2: ../shared is absent: a, b\n" in out
    assert "skipped: rust: 3: no kernel module: d, e, f\n" in out
    assert "skipped: rust: 1: a measurement: g\n" in out
    assert "skipped: rust: 1: ignored by cargo without a reason (it should have run)\n" in out
    assert "11 tests ran, 8 were skipped" in out
    assert ("all passed" in out) == (status == 0)
    assert ("FAILED" in out) == (status == 1)
    assert ("2 tests were skipped that should have run" in out) == (status == 1)


def test_only_a_check_may_skip_programs_that_are_not_built(
    runner: Runner, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "1")
    old = run.Part("old", ".", ["echo 'SKIPPED 1 the jar is absent or older than its sources: make build'"])
    assert runner([old]) == 0
    assert "should have run" not in capfd.readouterr().out
    assert runner([old], what="test") == 1
    assert "(it should have run)" in capfd.readouterr().out


def test_what_is_left_to_the_long_tests_is_said(
    runner: Runner, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = "import pytest\ndef test_runs(): pass\n@pytest.mark.long\ndef test_lasts(): pass\n"
    part = by_pytest(tmp_path, content)
    part.usual = run.NOT_LONG
    assert runner([part]) == 0
    assert "1 tests ran, 0 were skipped, 1 are for make test-long;" in capfd.readouterr().out
    # A test runs if its name is given, long or not.
    assert runner([part], "--only", "lasts") == 0
    assert "1 tests ran, 0 were skipped; " in capfd.readouterr().out


def test_only_this_runs_reports_of_surefire_count(tmp_path: Path) -> None:
    reports = tmp_path / "target/surefire-reports"
    reports.mkdir(parents=True)
    case = "<testsuite><testcase/><testcase/><testcase><skipped message='why'/></testcase></testsuite>"
    for name in ("TEST-new.xml", "TEST-old.xml"):
        (reports / name).write_text(case)
    os.utime(reports / "TEST-old.xml", (1, 1))
    part = run.Part("java", str(tmp_path), ["mvn test {only}"], logs=tmp_path, began=time.time())
    part.log.touch()
    assert run.counted(part) == (2, {"why": 1})


def test_a_part_that_this_run_cannot_start_or_count_fails(
    runner: Runner, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = run.Part("broken", ".", ['echo "<half" >"$WEIR_TEST_LOGS"/broken.xml {only}'], "{}")
    absent = run.Part("absent", str(tmp_path / "absent"), ["true"])
    assert runner([broken, absent, run.Part("good", ".", ["true"])], "--lanes", "1") == 1
    out = capfd.readouterr().out
    for said in ("ParseError", "FileNotFoundError", "✓ good", "FAILED", ": broken, absent;"):
        assert said in out


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


def test_a_selection_of_java_tests_holds_for_classes_and_methods() -> None:
    for what in ("check", "test"):
        (part,) = (part for part in run.parts(what) if part.is_maven)
        (command,) = part.selected("some name")
        assert "-Dtest=*some name*,*#*some name*" in shlex.split(command)


def test_every_file_of_tests_stands_in_a_part() -> None:
    places = []
    for part in [*run.parts("check"), *run.parts("test"), *run.parts("long")]:
        for command in part.commands:
            if " -m pytest " in command:
                folder = CHECKOUT / part.folder
                named = [folder / word for word in command.split() if (folder / word).exists() and word != "."]
                places += [place for place in named if "/venvs/" not in str(place)] or [folder / "tests"]
    files = [CHECKOUT / name for name in documents.project_files() if Path(name).match("test_*.py")]
    assert len(files) > 60
    left = [str(file.relative_to(CHECKOUT)) for file in files if not {file, *file.parents} & set(places)]
    # `make test-compose` and `test-machines` are parts of `make test-long`; `make check-upgrade` needs the tag of a version.
    machines = "tests/machines/test_machines.py"
    assert left == ["tests/compose/test_containers.py", machines, "tests/upgrade/test_upgrade.py"]


def test_an_unknown_part_is_named_and_list_names_all(runner: Runner, capfd: pytest.CaptureFixture[str]) -> None:
    parts = [run.Part("good", ".", ["true"]), run.Part("other", ".", ["true"])]
    with pytest.raises(SystemExit, match="no part is called 'typo'; there are: good, other"):
        runner(parts, "--part", "typo", "--find")
    assert runner(parts, "--part", "list") == 0
    assert capfd.readouterr().out == "good\nother\n"
    assert runner(parts, "--part", "good", "--find") == 0
    assert capfd.readouterr().out == ""


#: Starts a process of each kind, writes their ids, and waits: one that ignores SIGINT, as a shell's background job does;
#: one of a session of its own; one that also lost its environment; one that ignores every signal but SIGKILL.
WAIT = """
import os, pathlib, signal, subprocess, sys, tempfile, time
sleep = ["sleep", "300"]
started = [
    subprocess.Popen(["bash", "-c", "trap '' INT; sleep 300 & wait"]),
    subprocess.Popen(sleep, start_new_session=True),
    subprocess.Popen(["tail", "-f", tempfile.mkstemp()[1]], start_new_session=True, env={}),
    subprocess.Popen(["bash", "-c", "trap '' INT TERM HUP; while true; do sleep 1; done"], start_new_session=True),
]
file = pathlib.Path(sys.argv[1])
file.with_suffix(".new").write_text(" ".join(str(one.pid) for one in started) + f" {os.getpid()}")
file.with_suffix(".new").rename(file)
time.sleep(float(sys.argv[2]))
"""


@contextlib.contextmanager
def started(
    tmp_path: Path, seconds: float, patience: float, before: list[str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A run whose one part starts processes and lasts so many seconds, and the ids of those processes; all end with it.
    `before`: words before its command."""
    waiting = tmp_path / "waiting"
    (tmp_path / "wait.py").write_text(WAIT)
    script = tmp_path / "start.py"
    wait = shlex.join([sys.executable, str(tmp_path / "wait.py"), str(waiting), str(seconds)])
    script.write_text(f"""
import sys, pathlib
sys.path.insert(0, {str(CHECKOUT / "tests")!r})
import run
run.LOGS = pathlib.Path({str(tmp_path)!r})
run.PATIENCE = {patience}
run.parts = lambda what: [run.Part("slow", ".", [{f"{wait}; true"!r}])]
sys.argv = ["run.py", "check"]
run.start()
""")
    # The run's own processes name a folder of its own; those of this test's run name another.
    # Under `nohup make test` the tests ignore SIGHUP, and so would the run.
    command = [*(before or ["env", "--default-signal=HUP"]), sys.executable, str(script)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(waiting.exists)
    children = [int(word) for word in waiting.read_text().split()]
    try:
        yield process, children
    finally:
        clear(process, children)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_everything_that_was_started(number: signal.Signals, tmp_path: Path) -> None:
    with started(tmp_path, 300, patience=2) as (process, children):
        assert all(map(is_running, children))
        process.send_signal(number)
        assert "interrupted: all started processes have ended" in process.communicate(timeout=60)[1]
        assert process.returncode == 1
        assert not any(map(is_running, children))


def test_a_run_under_nohup_outlasts_its_terminal(tmp_path: Path) -> None:
    with started(tmp_path, 300, patience=1, before=["nohup"]) as (process, children):
        ignored = re.search(r"^SigIgn:\s*(\w+)$", Path(f"/proc/{process.pid}/status").read_text(), re.M)
        assert ignored
        # The lowest bit is that of signal 1, SIGHUP.
        assert int(ignored[1], 16) & 1
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert not any(map(is_running, children))


def test_a_second_signal_kills_at_once_what_still_runs(tmp_path: Path) -> None:
    with started(tmp_path, 300, patience=1000) as (process, children):
        process.send_signal(signal.SIGINT)
        # All end by themselves but the one that ignores signals.
        wait_for(lambda: not any(map(is_running, children[:3])))
        assert is_running(children[3])
        process.send_signal(signal.SIGINT)
        assert "interrupted: all started processes have ended" in process.communicate(timeout=60)[1]
        assert not any(map(is_running, children))


def test_a_run_leaves_no_process_behind(tmp_path: Path) -> None:
    with started(tmp_path, 0, patience=1) as (process, children):
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert "processes that the tests had left running" in out
        assert not any(map(is_running, children))


def test_a_signal_at_the_end_of_a_run_ends_everything_too(tmp_path: Path) -> None:
    with started(tmp_path, 0, patience=5) as (process, children):
        # The last one ignores SIGTERM, so that the run waits for it.
        wait_for(lambda: not any(map(is_running, children[:3])))
        process.send_signal(signal.SIGINT)
        assert "interrupted: all started processes have ended" in process.communicate(timeout=60)[1]
        assert not any(map(is_running, children))


def test_the_message_names_what_could_not_be_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PATIENCE", 0.2)
    monkeypatch.setattr(run, "processes", lambda folder: {2**22 + 1})
    with pytest.raises(SystemExit, match=f"still run: {2**22 + 1}"):
        run.take_down(str(tmp_path))


@pytest.mark.skipif(not live_possible(), reason="no root or no network namespaces here")
def test_temporary_files_go_to_memory_if_it_has_room_and_nothing_else_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "MEMORY", tmp_path)
    monkeypatch.setattr(run, "ROOM", 1)
    monkeypatch.setenv("TMPDIR", str(tmp_path.parent))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert run.place() == str(tmp_path.parent)
    monkeypatch.delenv("TMPDIR")
    assert run.place() == str(tmp_path)
    monkeypatch.setattr(run, "ROOM", 1 << 60)
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert run.place() == "/tmp"
    monkeypatch.setattr(run, "MEMORY", tmp_path / "none")
    assert run.place() == "/tmp"


def test_only_the_runs_own_namespaces_go() -> None:
    mine, others = 2**22 + 1, 2**22 + 2
    names = [f"weir-servers-{mine}", f"weir-bench-{mine}-a", f"weir-servers-{others}"]
    for name in names:
        subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        run.remove_namespaces({mine})
        assert [name for name in names if Path("/run/netns", name).exists()] == names[2:]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def test_each_run_has_logs_of_its_own_and_the_oldest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = [tmp_path / f"20200101T0000{second:02}-{2**22 + second}" for second in range(run.KEPT + 2)]
    running = tmp_path / f"20191231T000000-{os.getppid()}"
    for folder in [*ended, running, tmp_path / "other"]:
        folder.mkdir()
    mine = run.new_logs(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {mine.name, "latest", "other", running.name, *(path.name for path in ended[-run.KEPT :])}
    assert (tmp_path / "latest").resolve() == mine
    monkeypatch.setattr(os, "getpid", lambda: 2**22)
    other = run.new_logs(tmp_path)
    assert other != mine
    assert mine.is_dir()
    assert (tmp_path / "latest").resolve() == other


def test_a_part_writes_where_its_run_does(runner: Runner, tmp_path: Path) -> None:
    written = run.Part("good", ".", ['echo "$WEIR_TEST_LOGS" "$TMPDIR"'])
    assert runner([written]) == 0
    logs = (tmp_path / "latest").resolve()
    folder, temporary = (logs / "good.log").read_text().splitlines()[-1].split()
    assert folder == str(logs)
    assert "weir-tests-" in temporary
    assert not Path(temporary).exists()


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


def clear(process: subprocess.Popen[str], children: list[int]) -> None:
    """Ends the processes that a failed test would leave behind."""
    for one in [*children, process.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def test_a_long_part_leaves_its_result_in_the_documents(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / long_results.PAGE
    page.parent.mkdir(parents=True)
    for words in (
        ["init", "-q"],
        ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(run, "CHECKOUT", tmp_path)

    def rows() -> list[list[str]]:
        return [
            re.split(r" ?\| ?", line)[1:-1]
            for line in page.read_text().splitlines()
            if re.match(r"\| \w+ \| \w{8}", line)
        ]

    good, bad = (
        run.Part("good", "/", ["echo 20 schedules, none failing"]),
        run.Part("bad", "/", ["echo 'a | b'; false"]),
    )
    assert runner([good, bad], what="long") == 1
    ended = {name: (result, said) for name, _, _, result, _, said in rows()}
    assert ended == {"good": ("passed", "20 schedules, none failing"), "bad": ("**failed**", "a / b")}
    # The runner's logs are in the same folder, which git does not ignore.
    assert all(re.fullmatch(r"[0-9a-f]{8} changed", commit) for _, commit, *_ in rows())
    bad.commands = ["echo cured"]
    assert runner([good, bad], "--part", "bad", what="long") == 0
    assert [(name, result, said) for name, _, _, result, _, said in rows()] == [
        ("good", "passed", "20 schedules, none failing"),
        ("bad", "passed", "cured"),
    ]
    assert runner([good, bad], "--only", "x", what="long") == 1
    assert runner([good, bad], what="check") == 0
    assert len(rows()) == 2
