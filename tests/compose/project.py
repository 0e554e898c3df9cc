"""podman-compose on the checkout's `docker-compose.yml`, under a project name of its own, for tests."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

CHECKOUT = Path(__file__).resolve().parents[2]
#: Seconds for a whole start, on a slow machine.
PATIENCE = 900
#: The secrets that the compose file's head tells people to make.
SECRETS = ("admin", "writer", "analyst", "dashboard", "superset-key", "superset-admin")
#: Where Debian's packages put programs that a user's path lacks.
_PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


def podman(*words: str, check: bool = True) -> str:
    """What podman prints."""
    done = subprocess.run(["podman", *words], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"podman {' '.join(words)}: {done.stderr}"
    return done.stdout.strip()


def free_port() -> int:
    """A TCP port that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def until(what: str, holds: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Wait until it holds; returns what it gave."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(httpx.HTTPError, OSError):
            if found := holds():
                return found
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(1)


@dataclass
class Project:
    """One start of the compose file: its ports, secrets, networks, volumes and images are its own."""

    folder: Path
    interface: str
    other: str
    name: str = field(default_factory=lambda: f"weir-test-{os.getpid()}")
    store: int = field(default_factory=free_port)
    dashboards: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        for one in SECRETS:
            (self.folder / one).write_text(secrets.token_hex(24))

    @property
    def environment(self) -> dict[str, str]:
        """What compose puts into the file."""
        ports = {"STORE": self.store, "DASHBOARDS": self.dashboards}
        ports |= {one: free_port() for one in ("PROBES", "JOBS_METRICS", "AGENT_METRICS")} if not self.kept else {}
        self.kept |= {f"WEIR_{one}_PORT": str(port) for one, port in ports.items()}
        return {
            **os.environ,
            **self.kept,
            "PATH": _PATH,
            "WEIR_IMAGES": self.name,
            "WEIR_SECRETS": str(self.folder),
            "WEIR_INTERFACE": self.interface,
        }

    kept: dict[str, str] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    before: set[str] = field(default_factory=lambda: set(podman("volume", "ls", "-q").splitlines()))

    def compose(self, *words: str, files: tuple[Path, ...] = (), timeout: float = PATIENCE, check: bool = True) -> str:
        """Run podman-compose; returns what it printed."""
        own = Path(sys.executable).with_name("podman-compose")
        command = [str(own), "--podman-path", str(Path(__file__).with_name("podman")), "-p", self.name]
        command += ["--in-pod", "false", "--podman-build-args", "--network host"]
        for file in (CHECKOUT / "docker-compose.yml", *files):
            command += ["-f", str(file)]
        # Health checks go on while dependants wait: the group ends as a whole.
        process = subprocess.Popen(
            [*command, *words],
            cwd=CHECKOUT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 15)
            said, _ = process.communicate(timeout=60)
            assert not check, f"podman-compose {' '.join(words)} did not end:\n{said[-6000:]}\n{self.states()}"
            return said
        except BaseException:
            os.killpg(process.pid, 15)
            raise
        assert not check or process.returncode == 0, f"podman-compose {' '.join(words)}:\n{said[-6000:]}"
        return said

    def container(self, service: str) -> str:
        """The name of a service's container."""
        return f"{self.name}_{service}_1"

    def containers(self) -> list[dict[str, Any]]:
        """The project's containers."""
        label = f"label=io.podman.compose.project={self.name}"
        found: list[dict[str, Any]] = json.loads(podman("ps", "-a", "--filter", label, "--format", "json"))
        return found

    def states(self) -> dict[str, str]:
        """The state of each service's container, as `running`, `exited` or `created`."""
        return {one["Labels"]["com.docker.compose.service"]: one["State"] for one in self.containers()}

    def logs(self, service: str) -> str:
        """What a service wrote."""
        done = subprocess.run(["podman", "logs", self.container(service)], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def rows(self, statement: str, user: str = "admin") -> list[dict[str, Any]]:
        """Rows of a statement at the store."""
        answer = httpx.post(
            f"http://127.0.0.1:{self.store}/",
            params={"default_format": "JSONEachRow", "database": "weir"},
            headers={"X-ClickHouse-User": user, "X-ClickHouse-Key": (self.folder / user).read_text()},
            content=statement,
            timeout=60,
        )
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]

    def left(self) -> dict[str, list[str]]:
        """What podman still has of the project, by kind; images are those that compose built."""
        by = ["--filter", f"label=io.podman.compose.project={self.name}", "-q"]
        volumes = podman("volume", "ls", "-q").splitlines()
        networks = podman("network", "ls", "-q").splitlines()
        images = podman("images", "--format", "{{.Repository}}").splitlines()
        return {
            "containers": podman("ps", "-a", *by).splitlines(),
            "volumes": [one for one in volumes if one not in self.before],
            "networks": [one for one in networks if one.startswith(self.name)],
            "images": [one for one in images if self.name in one],
        }

    def remove(self) -> None:
        """Remove everything of the project, its images too; the layers that building them left stay for the next run."""
        self.compose("down", "-v", "-t", "20", check=False)
        for kind, names in self.left().items():
            for name in names:
                words = {
                    "containers": ["rm", "-f"],
                    "volumes": ["volume", "rm", "-f"],
                    "networks": ["network", "rm", "-f"],
                }
                podman(*words.get(kind, ["rmi", "-f"]), name, check=False)


@contextlib.contextmanager
def wire() -> Iterator[tuple[str, str]]:
    """Two interfaces of a wire of its own: what is sent on the second arrives at the first."""
    one, other = f"wct{os.getpid() % 100000}a", f"wct{os.getpid() % 100000}b"
    ip = shutil.which("ip", path=_PATH) or "ip"
    subprocess.run([ip, "link", "add", one, "type", "veth", "peer", "name", other], check=True)
    try:
        for name in (one, other):
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            subprocess.run([ip, "link", "set", name, "up"], check=True)
        yield one, other
    finally:
        subprocess.run([ip, "link", "delete", one], check=False)


class Traffic:
    """UDP from 192.0.2.1 to port 53 of 32 hosts of 198.51.100.0/24, until it is left; `packets` counts what was sent."""

    HOSTS, OCTETS = 32, 200

    def __init__(self, interface: str) -> None:
        self.packets = 0
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self._socket.bind((interface, 0))
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._socket.close()

    def stop(self) -> None:
        """Send no more."""
        self._end.set()
        self._thread.join()

    def _send(self) -> None:
        while not self._end.wait(0.25):
            for host in range(self.HOSTS):
                self._socket.send(self._frame(host))
                self.packets += 1

    def _frame(self, host: int) -> bytes:
        udp = struct.pack("!4H", 40000 + host, 53, self.OCTETS - 20, 0) + bytes(self.OCTETS - 28)
        head = struct.pack(
            "!BBHHHBBH4s4s", 0x45, 0, self.OCTETS, 0, 0, 64, 17, 0, bytes((192, 0, 2, 1)), bytes((198, 51, 100, host))
        )
        total = sum(struct.unpack("!10H", head))
        total = (total & 0xFFFF) + (total >> 16)
        check = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
        return (
            bytes.fromhex("020000000001020000000002" + "0800") + head[:10] + struct.pack("!H", check) + head[12:] + udp
        )
