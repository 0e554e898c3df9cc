"""The processes of a stack, run by supervisord.

supervisord starts, restarts and logs them; `weir` talks to it over a Unix socket in `run/`. Every process it starts
carries `WEIR_INSTANCE=<home>` in its environment, so that `weir` finds the processes of a supervisor that was itself
killed, and never touches any other.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psutil
from supervisor.xmlrpc import SupervisorTransport

from weir.config import Stack
from weir.errors import WeirError
from weir.ports import is_free
from weir.services import Service

MARK = "WEIR_INSTANCE"
#: supervisord starts a process that has ended by itself within this many seconds, or not at all.
_RESTART_S = 3
#: It kills a process that has not ended so many seconds after SIGTERM.
_STOP_S = 30


@dataclass(frozen=True)
class State:
    """State of a process: supervisord's state name, pid, start time (s), memory (octets); whether a signal ended it that it
    cannot refuse.
    """

    word: str
    pid: int
    started: float
    memory: int
    killed: bool = False

    @property
    def runs(self) -> bool:
        """Whether the process runs, or supervisord tries to start it."""
        return self.word in ("RUNNING", "STARTING", "BACKOFF")

    @property
    def may_run(self) -> bool:
        """Whether the process runs, or has ended by itself, so that supervisord may start it again within a second."""
        return self.runs or self.word == "EXITED"


class Supervisor:
    """supervisord for one stack."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.configuration = stack.run / "supervisord.conf"
        # A Unix socket's path may have at most 107 octets; a deep home would exceed that.
        self.socket = stack.run / "supervisor.sock"
        if len(os.fsencode(self.socket)) > 100:
            raise WeirError(
                f"the path of {stack.home} is too long for a Unix socket",
                hint="set WEIR_HOME to a shorter one",
            )
        if unusable := {'"', "\n", ";"} & {*str(stack.home)}:
            raise WeirError(f"supervisord cannot run a stack in a path with {sorted(unusable)[0]!r}: {stack.home}")

    # ---- talking to it ----

    def _rpc(self) -> Any:
        transport = SupervisorTransport(None, None, f"unix://{self.socket}")
        return xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport).supervisor

    def running(self) -> bool:
        """Whether a supervisor responds for this stack."""
        try:
            return bool(self._rpc().getState()["statename"] == "RUNNING")
        except (OSError, xmlrpc.client.Error):
            return False

    def refuse_if_up(self) -> None:
        """Raise WeirError if the stack runs."""
        if self.running():
            raise WeirError("this stack is already up", hint="'weir status' shows it, 'weir down' stops it")

    def states(self) -> dict[str, State]:
        """Every process by name; empty if nothing runs."""
        try:
            infos = self._rpc().getAllProcessInfo()
        except (OSError, xmlrpc.client.Error):
            return {}
        return {
            # supervisord's words for a process that did not end by itself; it has no number for it.
            info["name"]: State(
                info["statename"], info["pid"], info["start"], _memory(info["pid"]), info.get("exitstatus") == -1
            )
            for info in infos
        }

    # ---- starting ----

    def launch(self, services: list[Service]) -> None:
        """Start supervisord with these services declared and none of them running."""
        self.refuse_if_up()
        self.end_leftovers()
        for service in services:
            if not service.needs.exists():
                raise WeirError(f"{service.name}: {service.needs} does not exist", hint="run 'make build' first")
            if service.port and not is_free(service.port):
                raise WeirError(
                    f"port {service.port} for {service.name} is taken by another program",
                    hint=f"set another port in {self.stack.home}/weir.yaml (see stack/weir.example.yaml)",
                )
        self.stack.prepare()
        self._write(services)
        command = [sys.executable, "-m", "supervisor.supervisord", "-c", str(self.configuration)]
        done = subprocess.run(
            command, env=self._environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise WeirError(f"supervisord did not start: {(done.stderr or done.stdout).strip()[-500:]}", status=1)
        for _ in range(100):
            if self.running():
                return
            time.sleep(0.1)
        raise WeirError("supervisord does not answer", hint=f"see {self.stack.logs}/supervisor.log", status=1)

    def _environment(self) -> dict[str, str]:
        return os.environ | {MARK: str(self.stack.home), "PYTHONWARNINGS": "ignore", "TZ": "UTC"}

    def _write(self, services: list[Service]) -> None:
        logs, run = _escape(str(self.stack.logs)), _escape(str(self.stack.run))
        parts = [
            f"[unix_http_server]\nfile={_escape(str(self.socket))}\nchmod=0700",
            f"[supervisord]\nlogfile={logs}/supervisor.log\nlogfile_maxbytes=5MB\nlogfile_backups=1\n"
            f"pidfile={run}/supervisord.pid\nchildlogdir={logs}\nminfds=4096\numask=077",
            "[rpcinterface:supervisor]\nsupervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface",
        ]
        for service in services:
            environment = ",".join(f'{key}="{_escape(value)}"' for key, value in service.environment.items())
            parts.append(
                f"[program:{service.name}]\ncommand={_escape(shlex.join(service.command))}\n"
                f"directory={run}\nenvironment={environment}\nautostart=false\n"
                f"autorestart={'unexpected' if service.ends else 'true'}\n"
                f"startsecs=2\nstartretries=100\nstopwaitsecs={_STOP_S}\nstopasgroup=true\nkillasgroup=true\n"
                f"redirect_stderr=true\nstdout_logfile={_escape(logs)}/{service.name}.log\n"
                "stdout_logfile_maxbytes=20MB\nstdout_logfile_backups=2"
            )
        # supervisord expands the names of its children's logs twice.
        descriptor = os.open(self.configuration, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # it holds passwords
        with os.fdopen(descriptor, "w") as file:
            file.write("\n\n".join(parts) + "\n")

    def start(self, service: Service) -> None:
        """Prepare the service and start it, without waiting until it is healthy. supervisord may just have done so."""
        self._not_stopping(service.name)
        service.prepare()
        try:
            self._rpc().startProcess(service.name, False)
        except xmlrpc.client.Fault as fault:
            if "ALREADY_STARTED" in fault.faultString:
                return
            raise WeirError(
                f"{service.name} did not start: {fault.faultString}", hint=self.log_of(service.name), status=1
            ) from fault

    def wait(self, service: Service) -> float:
        """Wait until the service is healthy; returns the seconds it took.

        Raises WeirError with the log's last line if the service ends or takes too long.
        """
        begin = time.monotonic()
        while not service.healthy():
            state = self.states().get(service.name)
            if (
                state is None
                or state.word in ("FATAL", "EXITED", "STOPPED")
                or (state.word == "BACKOFF" and time.monotonic() - begin > 15)
            ):
                why = (
                    "the system killed it, most likely for memory"
                    if state and state.killed
                    else self.last_line(service.name)
                )
                raise WeirError(
                    f"{service.name} ended during its start: {why}",
                    hint=self.log_of(service.name)
                    + ("; 'weir doctor' shows the memory" if state and state.killed else ""),
                    status=1,
                )
            if time.monotonic() - begin > service.start_seconds:
                raise WeirError(
                    f"{service.name} was not healthy after {service.start_seconds} s: {self.last_line(service.name)}",
                    hint=self.log_of(service.name),
                    status=1,
                )
            time.sleep(0.25)
        return time.monotonic() - begin

    def stop(self, name: str) -> None:
        """Stop one process and wait for its end. supervisord cannot stop a process that has just ended by itself, but starts
        it again: wait for that.
        """
        until = time.monotonic() + _RESTART_S
        while True:
            try:
                self._rpc().stopProcess(name)
                return
            except xmlrpc.client.Fault as fault:
                if "NOT_RUNNING" not in fault.faultString:
                    raise WeirError(f"{name}: {fault.faultString}", status=1) from fault
            state = self._not_stopping(name)
            if state is None or not state.may_run or time.monotonic() > until:
                return
            time.sleep(0.05)

    def _not_stopping(self, name: str) -> State | None:
        """Wait for the end of a process that another command, or one that was interrupted, is stopping; its state then."""
        until = time.monotonic() + 2 * _STOP_S
        while (state := self.states().get(name)) and state.word == "STOPPING" and time.monotonic() < until:
            time.sleep(0.05)
        return state

    def log_of(self, name: str) -> str:
        """Where the log of a process is."""
        return f"its log is {self.stack.logs}/{name}.log"

    def last_line(self, name: str) -> str:
        """The last line that a process printed."""
        path = self.stack.logs / f"{name}.log"
        lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
        return lines[-1][:300] if lines else "it printed nothing"

    # ---- stopping ----

    def shutdown(self, order: list[str]) -> None:
        """Stop every process in the given order, then supervisord itself."""
        if self.running():
            states = self.states()
            for name in [*[n for n in order if n in states], *[n for n in states if n not in order]]:
                if states[name].runs:
                    self.stop(name)
            with contextlib.suppress(OSError, xmlrpc.client.Error):
                self._rpc().shutdown()
            for _ in range(300):
                if not self.running() and not self._ours():
                    break
                time.sleep(0.1)
        self.end_leftovers()

    def _ours(self) -> list[psutil.Process]:
        """Processes that this stack started, identified by the mark in their environment."""
        found = []
        mine = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
        for process in psutil.process_iter():
            try:
                if process.pid not in mine and process.environ().get(MARK) == str(self.stack.home):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def end_leftovers(self) -> None:
        """End the processes that a killed supervisor left running."""
        left = self._ours()
        for process in left:
            _quietly(process.terminate)
        _, alive = psutil.wait_procs(left, timeout=20)
        for process in alive:
            _quietly(process.kill)
        psutil.wait_procs(alive, timeout=5)
        self.socket.unlink(missing_ok=True)


def _quietly(action: Callable[[], None]) -> None:
    with contextlib.suppress(psutil.Error):
        action()


def _escape(text: str) -> str:
    """A value quoted for supervisord's configuration; our values hold no double quotes."""
    return text.replace("%", "%%")


def _memory(pid: int) -> int:
    """Resident octets of a process and its children."""
    if not pid:
        return 0
    total = 0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in [process, *process.children(recursive=True)]:
            total += one.memory_info().rss
    return total
