"""`weir doctor`: what is wrong on this machine, and what to do about it.

Each check looks at one thing and returns its findings; none changes anything.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import shutil
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import psutil

from weir import __version__, disks, memories, ports, status
from weir.config import Stack
from weir.errors import WeirError
from weir.java import NO_FILES
from weir.supervisor import MARK, Supervisor

#: Octets of disk that should be free.
LEAST_DISK = 5 << 30
LEAST_FILES = 4096
_NET = Path("/sys/class/net")


class Grade(IntEnum):
    """How bad a finding is: the command's exit status."""

    GOOD = 0
    WARNING = 1
    BAD = 2


@dataclass(frozen=True)
class Finding:
    """What a check found, and what to do about it if that is not good."""

    grade: Grade
    what: str
    found: str
    to_do: str = ""


def examine(stack: Stack, interface: str = "") -> list[Finding]:
    """Run every check; `interface` is looked at besides those of the stack's own agents. The worst come first."""
    up = Supervisor(stack).running()
    checks: list[Callable[[], Iterator[Finding]]] = [
        lambda: memory(stack, up),
        lambda: disk(stack),
        clock,
        lambda: capturing(stack),
        lambda: versions(stack),
        lambda: files(stack),
        lambda: held_ports(stack, up),
        lambda: leftovers(stack, up),
        lambda: interfaces(stack, interface),
        lambda: services(stack, up),
    ]
    found = [finding for check in checks for finding in check()]
    return sorted(found, key=lambda finding: -finding.grade)


def memory(stack: Stack, up: bool) -> Iterator[Finding]:
    """Memory that a start would find."""
    total, free = memories.available()
    needed = 0 if up else memories.need(stack)
    said = f"{memories.gib(free)} of {memories.gib(total)} free" + (
        "" if up else f"; a stack takes {memories.gib(needed)}"
    )
    if up and free < 256 << 20:
        yield Finding(Grade.WARNING, "memory", said, "the system may end services: set smaller heaps in weir.yaml")
    elif free < needed:
        to_do = "give this machine more, or set flink.heap and clickhouse.memory in weir.yaml to less"
        yield Finding(Grade.BAD, "memory", said, to_do)
    else:
        yield Finding(Grade.GOOD, "memory", said)


def disk(stack: Stack) -> Iterator[Finding]:
    """Room where the stack keeps its data."""
    place = disks.place(stack.home)
    seen = shutil.disk_usage(place)
    said = f"{memories.gib(seen.free)} of {memories.gib(seen.total)} free in {place}"
    if seen.free < LEAST_DISK:
        to_do = "make room, or set WEIR_HOME to another disk; storage.budget in weir.yaml bounds the store"
        yield Finding(Grade.BAD if seen.free < disks.NEED else Grade.WARNING, "disk", said, to_do)
    else:
        yield Finding(Grade.GOOD, "disk", said)
    nodes = os.statvfs(place)
    if nodes.f_files and nodes.f_favail * 100 < nodes.f_files:
        yield Finding(Grade.BAD, "disk", f"{nodes.f_favail:,} inodes free in {place}", "remove small files there")


class _Timex(ctypes.Structure):
    """struct timex of Linux, as far as it is read here."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def synchronised() -> bool | None:
    """Whether the kernel's clock is disciplined (adjtimex); None if the system does not say."""
    seen = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(seen))
    except (OSError, AttributeError):
        return None
    unsynchronised = 0x0040
    return None if state < 0 else not seen.status & unsynchronised


def clock() -> Iterator[Finding]:
    """Whether the clock can be trusted: windows and the ledger are by time."""
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    match synchronised():
        case True:
            yield Finding(Grade.GOOD, "clock", f"{now}, synchronised")
        case False:
            to_do = "run chrony or systemd-timesyncd (in a container: on its host)"
            yield Finding(Grade.WARNING, "clock", f"{now}, not synchronised with a time server", to_do)
        case None:
            yield Finding(Grade.WARNING, "clock", f"{now}; the system does not say whether it is synchronised")


def capabilities() -> set[str]:
    """Those of capturing that this process has."""
    numbers = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_ADMIN": 21}
    text = Path("/proc/self/status").read_text()
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", text, re.MULTILINE)
    held = int(found[1], 16) if found else 0
    return {name for name, bit in numbers.items() if held >> bit & 1}


def captures_by_file(stack: Stack) -> bool:
    """Whether the agent's file has capabilities, so that a user may capture."""
    try:
        return "security.capability" in os.listxattr(stack.agent_binary)
    except OSError:
        return False


def capturing(stack: Stack) -> Iterator[Finding]:
    """Whether packets can be captured live from here."""
    missing = {"CAP_NET_ADMIN", "CAP_NET_RAW"} - capabilities()
    if captures_by_file(stack):
        yield Finding(Grade.GOOD, "capture", "the agent's file has capabilities")
    elif not missing:
        yield Finding(Grade.GOOD, "capture", "interfaces can be captured")
    else:
        to_do = f"run as root, or once: sudo setcap cap_net_raw,cap_net_admin=p '{stack.agent_binary}'"
        yield Finding(Grade.WARNING, "capture", f"no live capture: {', '.join(sorted(missing))} missing", to_do)
    if "CAP_SYS_ADMIN" not in capabilities():
        yield Finding(
            Grade.WARNING,
            "capture",
            "no network namespaces: the demo replays a capture",
            "root outside a container has them",
        )


def versions(stack: Stack) -> Iterator[Finding]:
    """Whether what is built fits together."""
    parts = {
        "the agent": stack.agent_binary,
        "the jobs": stack.flink_jar,
        "Kafka": stack.kafka_jars,
        "the store": stack.venvs / "clickhouse/bin/python",
    }
    if stack.config.superset.enabled:
        parts["the dashboards"] = stack.venvs / "superset/bin/python"
    if absent := [name for name, path in parts.items() if not path.exists()]:
        yield Finding(Grade.BAD, "build", f"not built: {', '.join(absent)}", f"make -C '{stack.checkout}' build")
    agent = _first_line([str(stack.agent_binary), "--version"])
    java = re.search(r'"(\d+)', _first_line(["java", NO_FILES, "-version"]))
    if stack.agent_binary.exists() and agent.split()[1:2] != [__version__]:
        said = f"weir is {__version__}, the agent '{agent}'"
        yield Finding(Grade.BAD, "build", said, f"make -C '{stack.checkout}' build")
    if java is None or int(java[1]) < 17:
        said = f"Java {java[1]}" if java else "no Java"
        yield Finding(Grade.BAD, "java", f"{said}; 17 or newer is needed", "apt-get install openjdk-17-jdk-headless")
    if not absent:
        yield Finding(Grade.GOOD, "build", f"weir {__version__}, {agent}" + (f", Java {java[1]}" if java else ""))


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next(iter((done.stdout + done.stderr).splitlines()), "")


def files(stack: Stack) -> Iterator[Finding]:
    """Whether this user owns the stack's folder, and may open enough files."""
    places = (stack.home, stack.data, stack.run, stack.logs, stack.home / "secrets")
    foreign = [place for place in places if place.exists() and place.stat().st_uid != os.geteuid()]
    if foreign and os.geteuid() != 0:
        to_do = f"sudo chown -R $(id -u) '{stack.home}' while the stack is down"
        yield Finding(Grade.BAD, "files", f"{foreign[0]} belongs to user {foreign[0].stat().st_uid}", to_do)
    loose = [place for place in (stack.data, stack.home / "secrets") if place.exists() and place.stat().st_mode & 0o077]
    if loose:
        yield Finding(Grade.BAD, "files", f"others may enter {loose[0]}", f"chmod 700 '{loose[0]}'")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < LEAST_FILES:
        to_do = f"ulimit -n {LEAST_FILES}, or LimitNOFILE= in the unit"
        yield Finding(Grade.WARNING, "files", f"a process may open {soft:,} files", to_do)
    try:
        Supervisor(stack)
    except WeirError as error:
        yield Finding(Grade.BAD, "files", str(error), error.hint or "set WEIR_HOME to another folder")


def held_ports(stack: Stack, up: bool) -> Iterator[Finding]:
    """Ports that other programs hold."""
    if up:
        return
    config = stack.config.ports
    for name in ports.used(stack):
        port = getattr(config, name)
        if ports.is_free(port):
            continue
        if name in ports.bound(stack):
            to_do = f"end that program, or set ports.{name} in weir.yaml"
            yield Finding(Grade.BAD, "ports", f"another program holds {port} ({name})", to_do)
        else:
            said = f"another program holds {port} ({name}): weir takes another port"
            yield Finding(Grade.WARNING, "ports", said, f"set ports.{name} in weir.yaml if it must be a certain one")


def leftovers(stack: Stack, up: bool) -> Iterator[Finding]:
    """Processes and namespaces of a stack that was killed."""
    left = []
    for process in psutil.process_iter(["name"]):
        try:
            if not up and process.environ().get(MARK) == str(stack.home) and process.pid != os.getpid():
                left.append(f"{process.info['name']} ({process.pid})")
        except psutil.Error:
            continue
    if left:
        yield Finding(Grade.WARNING, "left over", f"of a killed stack: {', '.join(left[:5])}", "weir down ends them")
    if not up and (stack.run / "demo-namespaces").exists():
        yield Finding(Grade.WARNING, "left over", "network namespaces of a killed demo", "weir down removes them")


def interfaces(stack: Stack, named: str) -> Iterator[Finding]:
    """The interfaces on which this stack's agents capture."""
    wanted = {named: "off"} if named else {}
    for agent in stack.config.agents:
        try:
            source = tomllib.loads(agent.config.read_text()).get("source", {})
        except (OSError, tomllib.TOMLDecodeError) as error:
            yield Finding(Grade.BAD, "agent", f"{agent.config}: {error}", "mend that file")
            continue
        if not source.get("netns") and ":" not in (name := str(source.get("interface", ""))):
            wanted |= dict.fromkeys(filter(None, name.split(",")), str(source.get("receive_offloads", "off")))
    for name, offloads in wanted.items():
        if not (_NET / name).exists():
            yield Finding(Grade.BAD, "interface", f"there is no {name}", "weir-probe interfaces lists them")
            continue
        if (_NET / name / "operstate").read_text().strip() not in ("up", "unknown"):
            yield Finding(Grade.WARNING, "interface", f"{name} is down", f"ip link set {name} up")
        merging = _merging(name)
        if merging and offloads == "keep":
            to_do = 'source.receive_offloads = "off", or: ethtool -K ' + name + " gro off lro off"
            yield Finding(
                Grade.WARNING, "interface", f"{name} merges packets ({', '.join(merging)}): counted as one", to_do
            )
        else:
            yield Finding(Grade.GOOD, "interface", name + (": the agent switches merging off" if merging else ""))


def _merging(interface: str) -> list[str]:
    """The receive offloads that are on."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    tool = shutil.which("ethtool", path=path)
    if tool is None:
        return []
    shown = subprocess.run([tool, "-k", interface], capture_output=True, text=True, check=False).stdout
    return re.findall(r"^(generic-receive-offload|large-receive-offload): on", shown, re.MULTILINE)


def services(stack: Stack, up: bool) -> Iterator[Finding]:
    """Each service's health."""
    if not up:
        yield Finding(Grade.GOOD, "services", "the stack is down ('weir up' starts it)")
        return
    rows, supervisor = status.all_statuses(stack), Supervisor(stack)
    for row in rows:
        if row.state != "well":
            to_do = f"{supervisor.log_of(row.service)}: {supervisor.last_line(row.service)}"
            yield Finding(Grade.BAD, "services", f"{row.service} is {row.state}", to_do)
    well = [row.service for row in rows if row.state == "well"]
    if well:
        yield Finding(Grade.GOOD, "services", f"well: {', '.join(well)}")
    behind = [row for row in rows if (row.lag_messages or 0) > 100_000]
    if behind:
        said = f"the jobs are {behind[0].lag_messages:,} messages behind"
        yield Finding(Grade.WARNING, "services", said, "weir status shows whether that shrinks; flink.parallelism")


def as_json(found: list[Finding]) -> str:
    """The findings for programs."""
    return json.dumps([vars(one) | {"grade": one.grade.name.lower()} for one in found], indent=2)
