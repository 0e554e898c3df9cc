"""Run the tests side by side, and report those that were skipped.

`make check`, `make test` and `make test-long` call this. Two lanes work through a list of parts, since a developer has
at least two cores; each part's output goes to `<part>.log` in this run's folder of `.weir/test-logs`, to which the link
`latest` leads, and the end of a failed part's output is shown. The last lines give the number of tests that ran, the
duration of each part, and each skipped test with its reason and count. A part that runs no test has failed, and so has
a run whose `--only` selects none.

Once the parts have ended, or a signal has ended the run, no process is left that they started, detached ones included.

Example: python tests/run.py test --part e2e --only test_path
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import long_results

CHECKOUT = Path(__file__).resolve().parents[1]
VENVS = CHECKOUT / ".weir/venvs"
#: A folder for each run, and the link `latest` to that of the latest one.
LOGS = CHECKOUT / ".weir/test-logs"
#: Folders of earlier runs to keep.
KEPT = 10
STACK = VENVS / "stack/bin"
#: Seconds that processes have to end after SIGINT, and after SIGTERM, before they are killed.
PATIENCE = 60
#: Lines of a failed part's output to show.
SHOWN = 120
#: Status of a part whose commands all ended well, and ran no test: that of pytest for the same.
NONE_RAN = 5
#: Permitted reasons to skip a test on a fresh Debian as root; with any other reason the test should have run.
MAY_LACK = re.compile(r"\.\./shared|kernel module|libpfring|a measurement")
#: Permitted too for `make check`, which builds nothing.
NOT_BUILT = re.compile(r"older than its sources: make build")
#: The reason for tests that cargo's harness ignored: its totals give none.
NO_REASON = "ignored by cargo without a reason"
#: The tests end to end, in four processes. Those with the mark `long` repeat a promise on whole captures, or after a kill at every
#: point, or need a stack as no other test does: `make test-long` runs them.
END_TO_END = "-v -n 4 --dist loadfile --no-loadscope-reorder e2e"
NOT_LONG = "-m 'not long'"
#: A file system in memory, on which the tests' servers create and delete files at less cost.
MEMORY = Path("/dev/shm")
#: Octets that must be free there, several times what the tests hold at once.
ROOM = 4 << 30
#: Set by a second signal: processes that still run are killed at once.
HURRY = threading.Event()


@dataclass
class Part:
    """Commands that run one after another.

    select: options that take the place of `{only}` in a command, to run only tests whose name contains `{}`. A command
    without `{only}` has no tests to select from, and is left out if tests are selected. usual: those options if no name is given.
    later: the number of tests that these leave to `make test-long`.
    """

    name: str
    folder: str
    commands: list[str]
    select: str = ""
    nice: int = 0
    usual: str = ""
    logs: Path = LOGS
    began: float = 0.0
    seconds: float = 0.0
    #: None until all its commands have ended and its tests are counted.
    status: int | None = None
    ran: int = 0
    later: int = 0
    skipped: collections.Counter[str] = field(default_factory=collections.Counter)

    def selected(self, only: str | None) -> list[str]:
        """The commands that run everything, or only tests whose name contains `only`."""
        if only is None:
            return [command.replace("{only}", self.usual).rstrip() for command in self.commands]
        options = self.select.replace("{}", shlex.quote(only))
        return [command.replace("{only}", options) for command in self.commands if "{only}" in command]

    @property
    def log(self) -> Path:
        """Log of the part's output."""
        return self.logs / f"{self.name}.log"

    @property
    def is_maven(self) -> bool:
        """Whether Maven runs the tests, so that surefire reports on them."""
        return any(command.startswith("mvn") for command in self.commands)

    @property
    def report(self) -> Path:
        """pytest's report on each test (JUnit's XML)."""
        return self.logs / f"{self.name}.xml"


def place() -> str:
    """The folder for temporary files: `TMPDIR`, or memory where it has room and programs can be run from it."""
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK):
        memory = os.statvfs(MEMORY)
        if memory.f_bavail * memory.f_frsize >= ROOM and not memory.f_flag & os.ST_NOEXEC:
            return str(MEMORY)
    return tempfile.gettempdir()


def pytest(part: str, python: Path, words: str) -> str:
    """A command that runs pytest and reports as this part."""
    # Concurrent sessions would delete each other's folders: each has its own.
    places = f'--junitxml "$WEIR_TEST_LOGS"/{part}.xml --basetemp "$TMPDIR"/{part}'
    return f"{shlex.quote(str(python))} -m pytest -q {places} {words} {{only}}"


def cargo(words: str) -> str:
    """A command of cargo in `capture`, which refuses a path in which it would do harm."""
    return f"./path.sh && cargo {words}"


def parts(what: str) -> list[Part]:
    """The parts of `check`, `test` or `long`, the longest first."""
    stack, clickhouse = VENVS / "stack/bin/python", VENVS / "clickhouse/bin/python"
    quoted = shlex.quote(str(STACK))
    by_pytest, by_cargo = "-k {}", "{}"
    # A class whose name contains it, or a method.
    by_surefire = "-Dtest='*'{}'*,*#*'{}'*' -Dsurefire.failIfNoSpecifiedTests=false"
    python = Part(
        "lint",
        ".",
        [
            f"{quoted}/ruff check --quiet stack tests docs clickhouse superset",
            f"{quoted}/ruff format --quiet --check stack tests docs superset",
            f"cd stack && {quoted}/mypy --no-error-summary weir supply",
            f"cd tests && {quoted}/mypy --no-error-summary .",
            f"cd superset && {quoted}/mypy --no-error-summary *.py tests/*.py",
            f"cd clickhouse && {shlex.quote(str(VENVS))}/clickhouse/bin/mypy --no-error-summary",
        ],
    )
    clippy = Part(
        "clippy",
        "capture",
        [
            cargo("fmt --check"),
            cargo("clippy --quiet --locked --all-targets -- -D warnings"),
            cargo("check --quiet --locked --manifest-path fuzz/Cargo.toml --lib --bins --target-dir target"),
            cargo("test --quiet --locked --manifest-path mutants/Cargo.toml --target-dir target {only}"),
        ],
        by_cargo,
        nice=5,
    )
    own = sorted(path.name for path in (CHECKOUT / "tests").glob("test_*.py"))
    documents = pytest("documents", stack, " ".join([*(f"tests/{name}" for name in own), "tests/peers"]))
    if what == "check":
        return [
            Part("rust", "capture", [*clippy.commands, cargo("test --locked --quiet --lib {only}")], by_cargo),
            Part(
                "java",
                "flink-jobs",
                ["mvn -q -B spotless:check test -DexcludedGroups=engine {only}"],
                by_surefire,
            ),
            python,
            Part("stack", "stack", [pytest("stack", stack, "tests")], by_pytest),
            Part("assets", ".", [pytest("assets", stack, "superset/tests/test_assets.py")], by_pytest),
            Part(
                "store",
                "clickhouse",
                [pytest("store", clickhouse, "-n 0 tests/test_lexer.py tests/test_schema.py tests/test_views.py")],
                by_pytest,
            ),
            Part("documents", ".", [documents], by_pytest),
        ]
    if what == "long":
        seeded = ["e2e/test_backup.py", "e2e/test_counted_once.py", "e2e/test_late_records.py"]
        return [
            Part(
                "e2e-long",
                "tests",
                [f"WEIR_KILLS=20 {pytest('e2e-long', stack, END_TO_END)}"],
                by_pytest,
                usual="-m long",
            ),
            Part("seeds", "tests", [f"WEIR_SEEDS=100 {pytest('seeds', stack, ' '.join(seeded))}"], by_pytest),
            Part("jobs", ".", ["make simulate SEEDS=20000"], nice=5),
            Part("restarts", "flink-jobs", ["mvn -q -B test -Dtest=JobTraceTest -Dweir.restarts=1000"], nice=5),
            Part("collector", ".", ["make simulate-collector SEEDS=20000"], nice=5),
            Part("agent", ".", ["make simulate-agent SEEDS=20000"], nice=5),
            Part("mutants", ".", ["make mutants PART=capture"], nice=5),
            Part("mutants-jobs", ".", ["make mutants PART=jobs"], nice=5),
            Part("answers", ".", ["make check-answers", "make check-answers-seeded"]),
            Part("captures", ".", ["make check-captures"]),
            Part("exports", ".", ["make check-exports"]),
            Part("tcp", ".", ["make check-tcp"]),
            Part("applications", ".", ["make check-applications"]),
            Part("names", ".", ["make check-names"]),
            Part("fuzz", ".", ["make fuzz MINUTES=5"]),
            Part("reproducible", ".", ["make check-reproducible"]),
            Part("compose", ".", ["make test-compose"]),
            Part("machines", ".", ["make test-machines"]),
        ]
    return [
        Part("e2e", "tests", [pytest("e2e", stack, END_TO_END)], by_pytest, usual=NOT_LONG),
        Part("superset", ".", [pytest("superset", stack, "superset/tests")], by_pytest),
        Part("capture", "capture", [cargo("test --locked --quiet {only}")], by_cargo, nice=5),
        Part(
            "flink-jobs",
            "flink-jobs",
            ["mvn -q -B verify {only}"],
            by_surefire,
            5,
        ),
        Part("clickhouse", "clickhouse", [pytest("clickhouse", clickhouse, "")], by_pytest, 5),
        clippy,
        python,
        Part("stack", "stack", [pytest("stack", stack, "tests")], by_pytest),
        Part("documents", ".", [documents], by_pytest),
    ]


class Lanes:
    """Works through the parts, `width` at a time; files that they write beside the logs go to the folder
    `temporary`. `keep` is called with each part that has ended by itself.
    """

    def __init__(
        self, todo: list[Part], only: str | None, width: int, temporary: str, keep: Callable[[Part], None] | None = None
    ) -> None:
        self.todo, self.only, self.width, self.temporary = list(todo), only, width, temporary
        self.keep = keep
        self.lock = threading.Lock()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.ended = False

    def run(self) -> None:
        """Waits until every part has ended, or the user interrupts; then it ends every process that is left."""
        lanes = [threading.Thread(target=self._lane, daemon=True) for _ in range(self.width)]
        for lane in lanes:
            lane.start()
        known = set[int]()
        try:
            for lane in lanes:
                while lane.is_alive():
                    lane.join(0.5)
        except BaseException:
            with self.lock:
                self.ended = True
                groups = [process.pid for process in self.running.values()]
            known = processes(self.temporary)
            end(groups, signal.SIGINT)
            # The tests take down their stacks.
            until = time.monotonic() + PATIENCE
            while any(lane.is_alive() for lane in lanes) and time.monotonic() < until and not HURRY.is_set():
                time.sleep(0.1)
            raise
        finally:
            try:
                ended = take_down(self.temporary)
            except KeyboardInterrupt:
                # The first signal, and the parts have ended by themselves.
                take_down(self.temporary)
                raise
            remove_namespaces(known | ended)
            for lane in lanes:
                lane.join()
            if ended and not known:
                say(f"ended {len(ended)} processes that the tests had left running")

    def _lane(self) -> None:
        while not self.ended:
            with self.lock:
                if not self.todo:
                    return
                part = self.todo.pop(0)
            try:
                self._part(part)
            except Exception:
                # Without a status the part has failed. The lane goes on with the others.
                say(f"✗ {part.name}: this run failed, not the part:\n{traceback.format_exc()}")

    def _part(self, part: Part) -> None:
        part.began = time.time()
        say(f"▸ {part.name}")
        part.report.unlink(missing_ok=True)
        peers = CHECKOUT / ".weir/peers/bin"
        environment = os.environ | {
            "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin:{peers}",
            # By it, `take_down` recognizes every process of this run.
            "TMPDIR": self.temporary,
            "WEIR_TEST_LOGS": str(part.logs),
        }
        ended = 0
        with part.log.open("wb") as log:
            for command in part.selected(self.only):
                log.write(f"$ {command}\n".encode())
                log.flush()
                with self.lock:
                    if self.ended:
                        break
                    process = subprocess.Popen(
                        ["nice", "-n", str(part.nice), "bash", "-c", command],
                        cwd=CHECKOUT / part.folder, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                        start_new_session=True,
                    )  # fmt: skip
                    self.running[part.name] = process
                status = process.wait()
                # pytest exits with 5 if no test matched: another part has the requested tests.
                if status and not (self.only and status == NONE_RAN):
                    ended = status
                    break
        self.running.pop(part.name, None)
        part.seconds = time.time() - part.began
        part.ran, part.skipped = counted(part)
        left = re.findall(r"(\d+) deselected", part.log.read_text(errors="replace"))
        part.later = int(left[-1]) if left and part.usual == NOT_LONG and self.only is None else 0
        if part.select and not ended and not part.ran and not self.only:
            ended = NONE_RAN
            with part.log.open("a") as log:
                log.write("no test ran\n")
        part.status = ended
        if self.keep and not self.ended:
            with self.lock:
                self.keep(part)
        say(f"{'✓' if not part.status else '✗'} {part.name} {part.seconds:.0f} s")
        if part.status and not self.ended:
            lines = part.log.read_text(errors="replace").splitlines()
            say("\n".join(f"    {line}" for line in lines[-SHOWN:]))


def counted(part: Part) -> tuple[int, collections.Counter[str]]:
    """The number of tests of a part that ran, and the reasons why others were skipped, each with its count: from the
    reports of pytest and surefire, and from cargo's lines `test result:` and lines `SKIPPED <count> <reason>` in the
    output.
    """
    ran = 0
    skipped: collections.Counter[str] = collections.Counter()
    # An earlier run's reports stay in surefire's folder.
    surefire = (CHECKOUT / part.folder / "target/surefire-reports").glob("*.xml") if part.is_maven else []
    for report in [part.report, *surefire]:
        if not report.exists() or report.stat().st_mtime < part.began - 1:
            continue
        for test in ElementTree.parse(report).iter("testcase"):
            reason = test.find("skipped")
            if reason is None:
                ran += 1
            else:
                skipped[reason.get("message") or "no reason given"] += 1
    ignored = 0
    for line in part.log.read_text(errors="replace").splitlines():
        if result := re.match(r"test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored", line):
            ran += int(result[1]) + int(result[2])
            skipped[NO_REASON] += ignored
            ignored = int(result[3])
        elif said := re.fullmatch(r"SKIPPED (\d+) (.+)", line):
            skipped[said[2]] += int(said[1])
            # A program's own harness says after its result why it ignored tests; before it, a test that passed says that
            # it had nothing to do.
            ignored = max(0, ignored - int(said[1]))
    skipped[NO_REASON] += ignored
    return ran, +skipped


def keep_result(part: Part, commit: str) -> None:
    """Write the result of a part of `make test-long`, which began on this commit, to its page in the documents."""
    reported = part.report.exists() or part.is_maven
    said = f"{part.ran} tests" if reported else long_results.last_line(part.log.read_text(errors="replace"))
    result = long_results.Result(part.name, commit, part.status == 0, part.seconds, said)
    long_results.keep(CHECKOUT, result, [one.name for one in parts("long")])


def end(groups: list[int], number: signal.Signals) -> None:
    """Sends a signal to every process of these groups."""
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)


def processes(folder: str) -> set[int]:
    """The processes whose environment or command line names this folder, without this one."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        # A process that is ending has neither any more; those of other users cannot be read.
        with contextlib.suppress(OSError):
            named = folder.encode()
            if named in (place / "environ").read_bytes() or named in (place / "cmdline").read_bytes():
                found.add(int(place.name))
    return found - {os.getpid()}


def take_down(folder: str) -> set[int]:
    """Ends every process whose environment or command line names this folder, and returns those that it ended.

    Raises SystemExit if one outlasts even SIGKILL.
    """
    ended, asked = set[int](), set[int]()
    began, clean = time.monotonic(), 0
    while clean < 2:
        left = processes(folder)
        # A process may have forked while this one read the list.
        clean = 0 if left else clean + 1
        ended |= left
        passed = time.monotonic() - began
        if passed > 2 * PATIENCE:
            raise SystemExit(f"these processes still run: {', '.join(map(str, sorted(left)))}")
        kill = passed > PATIENCE or HURRY.is_set()
        for process in left if kill else left - asked:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL if kill else signal.SIGTERM)
        asked |= left
        time.sleep(0.1)
    return ended


def remove_namespaces(owners: set[int]) -> None:
    """Removes the network namespaces that these processes made: each has its maker's id in its name."""
    for place in Path("/run/netns").glob("weir-*"):
        if any(word.isdecimal() and int(word) in owners for word in place.name.split("-")):
            subprocess.run(["ip", "netns", "delete", place.name], capture_output=True, check=False)


def new_logs(root: Path) -> Path:
    """A folder for the logs of this run, to which the link `latest` leads; the oldest runs' folders go."""
    folder = root / f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    link = root / f"latest-{os.getpid()}"
    link.unlink(missing_ok=True)
    link.symlink_to(folder.name)
    link.replace(root / "latest")
    runs = sorted(path for path in root.iterdir() if re.fullmatch(r"\d{8}T\d{6}-\d+", path.name) and path != folder)
    for old in runs[:-KEPT]:
        if not Path("/proc", old.name.split("-")[1]).exists():
            shutil.rmtree(old, ignore_errors=True)
    return folder


def say(text: str) -> None:
    """Print and flush at once: several parts write."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run the requested parts; returns 0 if all passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "test", "long"])
    parser.add_argument("--part", help="run only this part; --part list prints the names of all parts")
    parser.add_argument("--only", help="only tests whose name contains this")
    parser.add_argument("--lanes", type=int, default=2, help="parts at once (default 2)")
    parser.add_argument("--find", action="store_true", help="only check whether there is such a part")
    options = parser.parse_args()
    todo = parts(options.what)
    names = [part.name for part in todo]
    if options.part == "list":
        say("\n".join(names))
        return 0
    if options.part:
        todo = [part for part in todo if part.name == options.part]
        if not todo:
            raise SystemExit(f"no part is called '{options.part}'; there are: {', '.join(names)}")
    if options.find:
        return 0
    if options.only:
        todo = [part for part in todo if part.select]
    logs = new_logs(LOGS)
    for part in todo:
        part.logs = logs
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="weir-tests-", dir=place(), ignore_cleanup_errors=True) as temporary:
        # Tests run programs as other users.
        Path(temporary).chmod(0o755)
        keep = None
        if options.what == "long" and not options.only:
            keep = functools.partial(keep_result, commit=long_results.commit(CHECKOUT))
        Lanes(todo, options.only, options.lanes, temporary, keep).run()
    lacking = 0
    for part in todo:
        for reason, count in sorted(part.skipped.items()):
            should = not (MAY_LACK.search(reason) or (options.what == "check" and NOT_BUILT.search(reason)))
            lacking += count if should else 0
            say(f"skipped: {part.name}: {count}: {reason}{' (it should have run)' if should else ''}")
    failed = [part.name for part in todo if part.status != 0]
    took = time.monotonic() - began
    times = ", ".join(f"{part.name} {part.seconds:.0f} s" for part in todo)
    ran, left = sum(part.ran for part in todo), sum(part.skipped.total() for part in todo)
    later = sum(part.later for part in todo)
    say(f"{ran} tests ran, {left} were skipped{f', {later} are for make test-long' if later else ''}; {times}")
    if failed:
        say(f"FAILED after {took:.0f} s: {', '.join(failed)}; whole outputs are in {logs}")
        return 1
    if options.only and not any(part.ran for part in todo):
        say(
            f"FAILED after {took:.0f} s: no test ran: none has a name that contains '{options.only}', or all were skipped"
        )
        return 1
    # Without root many tests cannot run; a machine of CI has what they need.
    if lacking and (os.geteuid() == 0 or os.environ.get("CI")):
        say(f"FAILED after {took:.0f} s: {lacking} tests were skipped that should have run")
        return 1
    say(f"all passed in {took:.0f} s")
    return 0


#: A closed terminal sends SIGHUP.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt(_number: int, _frame: object) -> None:
    """Raises KeyboardInterrupt, upon which the run ends all processes that it started; a further signal only makes it
    kill them."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: HURRY.set())
    raise KeyboardInterrupt


def start() -> None:
    """Run, and end everything that was started if a signal ends this process."""
    for number in SIGNALS:
        # A shell's background job ignores SIGINT, and so would the processes that are to end by it. `nohup` has this
        # run ignore SIGHUP.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted: all started processes have ended")


if __name__ == "__main__":
    start()
