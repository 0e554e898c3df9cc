"""Other machines than the author's: containers with users of their own, in which the checkout's last commit is used as built here."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import base_images
import long_results

CHECKOUT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PAGE = long_results.MACHINES
#: Each image and container has it.
LABEL = "io.weir.machines"
IMAGE = "localhost/weir-test-machines"
BARE = f"{IMAGE}-bare"
USER = "ada"
#: Where the checkout is in a container, unless a row says otherwise.
PLACE = "/home/ada/weir"
#: What the demo prints when everything is up.
UP = "Weir stays up until"
#: Seconds that a command may take on a slow machine.
PATIENCE = 900
#: What is built and never changes by being used.
BUILT = (
    "capture/target/release/weir-probe",
    "capture/target/release/weir-bench",
    "flink-jobs/target/weir-flink-jobs.jar",
    "flink-jobs/target/weir-flink-jobs-broker.jar",
    ".weir/kafka",
)
VENVS = ".weir/venvs"
#: Targets that make compares with their sources by time.
STAMPS = (".weir/kafka/.stamp", *BUILT[:4])
#: Where the checkout is that the machines begin with.
TREE = CHECKOUT / ".weir/machines"
#: A file by which a command on a terminal learns that it is to be stopped.
STOP = "/dev/shm/stop"
#: Caches of packages: what Weir may write besides the checkout.
CACHES = (".cache", ".m2", ".cargo", ".config/pip")

_BARE = f"""FROM {base_images.DEBIAN}
RUN apt-get update && apt-get install -y --no-install-recommends git make ca-certificates && rm -rf /var/lib/apt/lists/* \\
 && mkdir -p /usr/share/man/man1
COPY settings /
# The authorities that this machine trusts, as an administrator installs them.
RUN cd /usr/local/share/ca-certificates && update-ca-certificates && \\
 csplit -s -z -f this-machine- -b %03d.crt /settings.crt /-----BEGIN/ '{{*}}' && update-ca-certificates && rm /settings.crt
"""

_FILE = f"""FROM {BARE}
COPY setup.sh /tmp/checkout/stack/setup.sh
COPY Cargo.toml /tmp/checkout/capture/Cargo.toml
RUN apt-get update && apt-get install -y --no-install-recommends sudo && /tmp/checkout/stack/setup.sh \\
 && rm -rf /tmp/checkout /var/lib/apt/lists/* && useradd --create-home --shell /bin/bash --uid 1000 {USER}
"""


def podman(*words: str, check: bool = True) -> str:
    """What podman prints."""
    done = subprocess.run(["podman", *words], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"podman {' '.join(words)}: {done.stderr}"
    return done.stdout.strip()


def make_images() -> None:
    """The machines: Debian 12 with the packages that `setup.sh` asks for, and a user without rights; and one with git and make
    alone. They stay for the next run."""
    base_images.make([base_images.DEBIAN])
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="weir-machines-") as temporary:
        folder = Path(temporary)
        base_images.settings(folder)
        shutil.move(folder / "settings/etc/ssl/certs/ca-certificates.crt", folder / "settings/settings.crt")
        for name in ("stack/setup.sh", "capture/Cargo.toml"):
            shutil.copy2(CHECKOUT / name, folder)
        for image, file in ((BARE, _BARE), (IMAGE, _FILE)):
            (folder / "Dockerfile").write_text(file)
            words = ("--layers", "--network", "host", "--label", f"{LABEL}=image", "-t", image, str(folder))
            base_images.said(*base_images.PODMAN, *words)


def clone(folder: Path) -> None:
    """The last commit as a user gets it; later changes are not in it."""
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(CHECKOUT), str(folder)], check=True)
    subprocess.run(["chown", "-R", "1000:1000", str(folder)], check=True)


def make_built() -> Path:
    """A clone with what is built already, but the Python environments: they are made in a container, by its Python. It stays in
    `.weir` for the next run; nobody else may use it meanwhile.
    """
    folder, venvs = TREE / "weir", TREE / "venvs"
    if (folder / VENVS).exists():
        (folder / VENVS).rename(venvs)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(CHECKOUT), str(folder)], check=True)
    for name in BUILT:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", str(CHECKOUT / name), str(folder / name)], check=True)
    if venvs.exists():
        venvs.rename(folder / VENVS)
    cache = Path(os.environ.get("UV_CACHE_DIR", Path.home() / ".cache/uv"))
    cache.mkdir(parents=True, exist_ok=True)
    words = ["--rm", "--network", "host", "--label", f"{LABEL}={os.getpid()}", "-v", f"{cache}:/root/.cache/uv"]
    words += ["-v", f"{folder}:{PLACE}", "-w", PLACE, IMAGE]
    podman("run", *words, "make", "venv-stack", "venv-clickhouse", "venv-superset")
    for name in STAMPS:
        (folder / name).touch()
    subprocess.run(["chown", "-R", "1000:1000", str(folder)], check=True)
    return folder


@dataclass
class Done:
    """What came of a command: what its terminal showed, its status, and how long it took (s)."""

    shown: str
    status: int
    seconds: float

    @property
    def lines(self) -> list[str]:
        """The lines without colours and without what make adds."""
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.shown).replace("\r", "")
        return [line.strip() for line in plain.splitlines() if line.strip() and not line.startswith("make: ***")]

    def line(self, part: str) -> str:
        """The last line with this text in it."""
        found = [line for line in self.lines if part in line]
        assert found, f"no line with '{part}' in:\n{self.shown[-6000:]}"
        return found[-1]


@dataclass
class Machine:
    """A container, its checkout at `place`. peak: octets of memory that its processes held at most, files in memory aside."""

    name: str
    place: str
    peak: int = 0
    _end: threading.Event = field(default_factory=threading.Event)

    def run(
        self, typed: str, *do: str, user: str = USER, env: dict[str, str] | None = None, limit: float = PATIENCE
    ) -> Done:
        """Type a command in the checkout, on a terminal; `do` are moments and actions (`terminal.py`)."""
        began = time.monotonic()
        with self.begin(typed, *do, user=user, env=env) as process:
            try:
                shown, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                process.kill()
                shown, _ = process.communicate()
                raise AssertionError(f"'{typed}' did not end within {limit:g} s:\n{shown[-6000:]}") from None
        return Done(shown, process.returncode, time.monotonic() - began)

    @contextlib.contextmanager
    def begin(
        self, typed: str, *do: str, user: str = USER, env: dict[str, str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """The same without waiting for the command's end. `STOP` is a moment, too: when `stop` is called."""
        words = [word for one in do for word in ("--do", one)]
        home = "/root" if user == "root" else f"/home/{user}"
        variables = {"HOME": home, "USER": user} | (env or {})
        command = ["podman", "exec", "--user", user, "-w", self.place]
        for name, value in variables.items():
            command += ["-e", f"{name}={value}"]
        command += [self.name, "python3", "-X", "utf8", "/machines/terminal.py", *words, "--", typed]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def plain(self, typed: str, limit: float) -> Done:
        """Let root run a command without a terminal, where no Python is that would make one."""
        began = time.monotonic()
        words = ["podman", "exec", "-w", self.place, self.name, "bash", "-c", f"{typed} 2>&1"]
        done = subprocess.run(words, stdout=subprocess.PIPE, encoding="utf-8", check=False, timeout=limit)
        return Done(done.stdout, done.returncode, time.monotonic() - began)

    def stop(self) -> None:
        """Let the moment STOP come."""
        self.said(f"touch {STOP}")

    def said(self, command: str, user: str = "root", env: dict[str, str] | None = None) -> str:
        """What a command of bash prints in the checkout. Raises AssertionError if it fails."""
        words = [word for name, value in (env or {}).items() for word in ("-e", f"{name}={value}")]
        return podman("exec", "--user", user, "-w", self.place, *words, self.name, "bash", "-c", command)

    def look(self, env: dict[str, str] | None = None) -> dict[str, int]:
        """What `look.py` finds on the running stack."""
        python = "PYTHONPATH=tests/lib:stack:superset .weir/venvs/stack/bin/python /machines/look.py"
        found: dict[str, int] = json.loads(self.said(python, USER, env).splitlines()[-1])
        return found

    def processes(self) -> list[str]:
        """The processes that are there besides the container's own."""
        listed = self.said(
            "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null | cut -c1-120 && echo; done"
        ).splitlines()
        own = ("bash -c trap", "sleep infinity", "bash -c for p in", "tr \\0", "cut -c")
        return [line for line in listed if line.strip() and not line.startswith(own)]

    def ended(self, seconds: float = 120) -> list[str]:
        """The processes that are left, once all have had time to end."""
        until = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < until:
            time.sleep(1)
        return left

    def written(self) -> list[str]:
        """Files made, changed or removed outside the checkout, package caches aside, since the container began."""
        ours = [f"/home/{USER}/{name}" for name in CACHES] + [f"/root/{name}" for name in CACHES]
        # What podman itself puts into a container, and what looking at it leaves.
        folders = {"/tmp", "/var/tmp"}
        ours += ["/run/", "/proc", "/sys", "/dev", "/etc/mtab", "/machines", self.place]
        found = []
        changes = [line.split(" ", 1) for line in podman("diff", self.name).splitlines()]
        made = {path for kind, path in changes if kind in "AD"}
        for kind, path in changes:
            is_above = kind == "C" and any(other.startswith(f"{path}/") for other in {p for _, p in changes} | {*ours})
            is_above = is_above or (kind == "C" and path in folders)
            if not is_above and not path.startswith(tuple(ours)) and not any(up in made for up in _above(path)):
                found.append(f"{kind} {path}")
        return [*found, *(f"A /dev/shm/{name}" for name in self.said("ls -A /dev/shm").splitlines() if name != "stop")]

    def disk(self) -> int:
        """Octets that the stacks of the checkout hold."""
        return int(self.said("du -sB1 --exclude=venvs --exclude=kafka .weir | cut -f1") or 0)

    def watch(self) -> None:
        """Note the peak of memory, until the container goes."""
        (state,) = json.loads(podman("container", "inspect", self.name))
        pid = state["State"]["Pid"]
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            for root, key in (("/sys/fs/cgroup/memory", "total_rss"), ("/sys/fs/cgroup", "anon")):
                stat = Path(root + path, "memory.stat")
                if kinds in ("memory", "") and stat.exists():
                    threading.Thread(target=self._note, args=(stat, key), daemon=True).start()
                    return

    def _note(self, stat: Path, key: str) -> None:
        while not self._end.wait(0.5):
            with contextlib.suppress(OSError):
                found = re.search(rf"^{key} (\d+)$", stat.read_text(), re.M)
                self.peak = max(self.peak, int(found[1]) if found else 0)


def until(process: subprocess.Popen[str], text: str) -> str:
    """What is shown, up to the line with this text."""
    assert process.stdout
    shown = ""
    while text not in shown:
        line = process.stdout.readline()
        assert line, shown[-6000:]
        shown += line
    return shown


def _above(path: str) -> list[str]:
    return [str(one) for one in Path(path).parents]


@contextlib.contextmanager
def machine(tree: Path, *options: str, place: str = PLACE, image: str = IMAGE) -> Iterator[Machine]:
    """A container in which the tree is at `place`; what is written there goes with it."""
    name = f"weir-machines-{os.getpid()}-{time.monotonic_ns() % 10**9}"
    words = ["run", "-d", "--name", name, "--label", f"{LABEL}={os.getpid()}", "-v", f"{tree}:{place}:O"]
    words += ["-v", f"{HERE}:/machines:ro", "--cpu-shares", "512", *options, image]
    # It takes orphans on, as the first process of a machine does.
    podman(*words, "bash", "-c", "trap 'exit 0' TERM; sleep infinity & wait")
    made = Machine(name, place)
    made.watch()
    try:
        yield made
    finally:
        made._end.set()
        podman("rm", "-f", "-t", "5", name)


HEAD = """<!-- Written by tests/machines; do not edit. -->

# First runs, by machine

`make test-machines` makes each machine as a container with users of its own, types the command on a terminal there, and compares what comes with what
should come: Weir works, or says in one sentence what to do. The commit is the one that the row ran on. Memory is the most that all processes held at
once, disk what the stack kept at the end (in MB); where they are empty nothing was started. All but the row "from nothing" begin with what is built.

| machine | typed | what came | seconds | memory | disk | commit |
|---|---|---|---|---|---|---|
"""


@functools.cache
def commit() -> str:
    """The commit on which this run began."""
    return long_results.commit(CHECKOUT)


def keep(row: str, typed: str, came: str, seconds: float, peak: int = 0, disk: int = 0) -> str:
    """Replace a row of the page; rows stand in the order in which they first came. Returns the row."""
    page = CHECKOUT / PAGE
    text = page.read_text() if page.exists() else ""
    lines = {found[1]: found[0] for found in re.finditer(r"^\| ([^|]+) \| `.*\|$", text, re.M)}
    memory, kept = (f"{octets / 1e6:,.0f}" if octets else "" for octets in (peak, disk))
    told = came.replace("|", "/")
    lines[row] = f"| {row} | `{typed}` | {told} | {seconds:.0f} | {memory} | {kept} | {commit()} |"
    page.write_text(HEAD + "".join(f"{line}\n" for line in lines.values()))
    return lines[row]
