"""A terminal on which a command is typed, and what a person does to it meanwhile; runs in a container, with Python alone.

    terminal.py [--do MOMENT:ACTION]... -- COMMAND

MOMENT is a number of seconds after the command was typed, or a file that appears. ACTION is `ctrl-c`, `twice` (Ctrl-C,
and again half a second later), `hangup` (the terminal is closed) or `kill` (SIGKILL to the `weir` that runs, or to make
if none does yet). Prints what the terminal shows, and ends with the command's status, or 129 after a hangup.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

PROMPT = "ready> "
_CTRL_C = b"\x03"


def main(words: list[str]) -> int:
    """Type the command, and act at the moments given."""
    plan = []
    while words[0] == "--do":
        moment, _, action = words[1].rpartition(":")
        plan.append((moment, action))
        words = words[2:]
    typed = " ".join(words[1:])
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(PS1=PROMPT, TERM="xterm", HISTFILE="")
        os.execvp("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 50, 300, 0, 0))
    shown, began = "", 0.0
    while True:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if ready:
            try:
                new = os.read(terminal, 1 << 16).decode(errors="replace")
            except OSError:
                new = ""
            if not new:
                break
            shown += new
            print(new, end="", flush=True)
        prompts = shown.count(PROMPT)
        if prompts and not began:
            os.write(terminal, f"{typed}\n".encode())
            began = time.monotonic()
            continue
        if prompts > 1:
            os.write(terminal, b"exit $?\n")
            plan, shown = [], ""
        if plan and began and _has_come(plan[0][0], began):
            action = plan.pop(0)[1]
            print(f"\n[{time.monotonic() - began:.1f} s: {action}]", flush=True)
            if action == "hangup":
                os.close(terminal)
                os.waitpid(child, 0)
                return 129
            _act(action, terminal)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _has_come(moment: str, began: float) -> bool:
    if re.fullmatch(r"[\d.]+", moment):
        return time.monotonic() - began >= float(moment)
    return Path(moment).exists()


def _act(action: str, terminal: int) -> None:
    if action in ("ctrl-c", "twice"):
        os.write(terminal, _CTRL_C)
    if action == "twice":
        time.sleep(0.5)
        os.write(terminal, _CTRL_C)
    if action == "kill":
        for wanted in (b"-m\0weir\0", b"make\0"):
            if found := [number for number, line in _processes() if wanted in line]:
                os.kill(min(found), signal.SIGKILL)
                return


def _processes() -> list[tuple[int, bytes]]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            found.append((int(place.name), (place / "cmdline").read_bytes()))
        except OSError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
