"""The demo's network: two namespaces joined by a veth pair, servers in one, clients in the other."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weir.config import Stack
from weir.errors import WeirError


class NoNamespacesError(Exception):
    """This machine lets nobody make network namespaces here, as in an ordinary container."""


@dataclass(frozen=True)
class Namespaces:
    """Two network namespaces joined by a veth pair; the servers' end is `veth`."""

    servers: str
    clients: str
    veth: str = "weir0"
    server_addr: str = "198.18.0.1"
    client_addr: str = "198.18.0.2"

    def run(self, namespace: str, *command: str) -> None:
        """Run a short command in a namespace."""
        _check("ip", "netns", "exec", namespace, *command)

    def packets(self) -> int:
        """Packets that the servers' end of the veth received and sent, by its own counters."""
        shown = subprocess.run(
            ["ip", "-n", self.servers, "-j", "-s", "link", "show", self.veth], capture_output=True, check=True
        )
        stats = json.loads(shown.stdout)[0]["stats64"]
        return int(stats["rx"]["packets"] + stats["tx"]["packets"])


def _check(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WeirError(f"{' '.join(command)}: {done.stderr.strip()}", status=1)


@contextlib.contextmanager
def namespaces(stack: Stack) -> Iterator[Namespaces]:
    """Create the namespaces, and remove them at the end. Raises NoNamespacesError."""
    remove_leftovers(stack)
    net = Namespaces(f"weir-servers-{os.getpid()}", f"weir-clients-{os.getpid()}")
    stack.prepare()
    _list(stack).write_text(f"{net.servers}\n{net.clients}\n")
    try:
        for name in (net.servers, net.clients):
            try:
                _check("ip", "netns", "add", name)
            except (WeirError, OSError) as error:
                raise NoNamespacesError(str(error)) from error
            # No router discovery: once the interfaces are up they are quiet until the clients begin.
            net.run(name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=0", "net.ipv6.conf.default.accept_ra=0")
            net.run(name, "ip", "link", "set", "lo", "up")
        _check(
            "ip",
            "-n",
            net.servers,
            "link",
            "add",
            net.veth,
            "type",
            "veth",
            "peer",
            "name",
            "weir1",
            "netns",
            net.clients,
        )
        for name, device, four, six in (
            (net.servers, net.veth, net.server_addr, "2001:db8::1"),
            (net.clients, "weir1", net.client_addr, "2001:db8::2"),
        ):
            # A large segment would be one packet here and many on a wire.
            net.run(name, "ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off")
            _check("ip", "-n", name, "addr", "add", f"{four}/24", "dev", device)
            _check("ip", "-n", name, "addr", "add", f"{six}/64", "dev", device, "nodad")
            _check("ip", "-n", name, "link", "set", device, "up")
        for last in range(10, 30):
            _check("ip", "-n", net.clients, "addr", "add", f"198.18.0.{last}/24", "dev", "weir1")
        yield net
    finally:
        remove_leftovers(stack)


def remove_leftovers(stack: Stack) -> None:
    """Remove the namespaces of a demo, with all that is in them, also if it was killed."""
    if _list(stack).exists():
        for name in _list(stack).read_text().split():
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
        _list(stack).unlink()


def _list(stack: Stack) -> Path:
    return stack.run / "demo-namespaces"


class Traffic:
    """Servers in one namespace, clients in the other."""

    def __init__(self, net: Namespaces, log: Path) -> None:
        self.net = net
        self.log = log.open("w")
        self.servers = self._start(net.servers, "serve")
        self.clients: subprocess.Popen[bytes] | None = None

    def _start(self, namespace: str, *role: str) -> subprocess.Popen[bytes]:
        command = ["ip", "netns", "exec", namespace, sys.executable, "-m", "weir.demo_traffic", *role]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def begin(self, seconds: int) -> None:
        """Run clients for that many seconds."""
        self.clients = self._start(self.net.clients, "ask", "--seconds", str(seconds))

    def wait(self) -> None:
        """Wait until the clients have finished."""
        if self.clients and self.clients.wait():
            raise WeirError("the demo's clients failed", hint=f"see {self.log.name}", status=1)

    def stop(self) -> None:
        """End servers and clients."""
        for process in (self.clients, self.servers):
            if process and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(5)
                if process.poll() is None:
                    process.kill()
        self.log.close()
