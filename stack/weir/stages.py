"""Progress of several concurrent stages: spinners on a terminal, one line per stage elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Stages:
    """A list of stages, each waiting, running, done or failed, with its duration in seconds.

    Use it as a context manager; leaving it by an exception marks the running stages as failed, or as stopped if the user
    ended the command.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.rows: dict[str, list[object]] = {}  # name -> [state, begin, seconds, note]
        self.live = Live(self, console=console, refresh_per_second=8, transient=False) if console.is_terminal else None

    def __enter__(self) -> Stages:
        if self.live:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            for name, row in self.rows.items():
                if row[0] == "running":
                    self._finish(name, "stopped" if kind is KeyboardInterrupt else "failed", "")
        if self.live:
            self.live.stop()

    def begin(self, name: str) -> None:
        """Begin a stage."""
        self.rows[name] = ["running", time.monotonic(), 0.0, ""]

    def done(self, name: str, note: str = "") -> None:
        """End a stage successfully; the note gives its result."""
        self._finish(name, "done", note)

    def failed(self, name: str, note: str) -> None:
        """End a stage that failed, while the others go on; the note gives the reason."""
        self._finish(name, "failed", note)

    def note(self, name: str, note: str) -> None:
        """Show the progress of a running stage."""
        self.rows[name][3] = note

    def _finish(self, name: str, state: str, note: str) -> None:
        row = self.rows[name]
        begin = row[1]
        assert isinstance(begin, float)
        row[0], row[2], row[3] = state, time.monotonic() - begin, note or row[3]
        if not self.live:
            mark = {"done": "ok", "failed": "FAILED", "stopped": "stop"}[state]
            self.console.print(f"  {mark:6} {name:34} {row[2]:6.1f} s  {row[3]}", highlight=False, soft_wrap=True)

    def __rich__(self) -> Table:
        table = Table.grid(padding=(0, 1))
        for name, (state, begin, seconds, note) in self.rows.items():
            assert isinstance(begin, float)
            now = time.monotonic()
            mark = {
                "running": Text(_FRAMES[int(now * 8) % 10], "cyan"),
                "done": Text("✔", "green"),
                "failed": Text("✘", "red"),
                "stopped": Text("■", "yellow"),
            }[str(state)]
            took = now - begin if state == "running" else seconds
            table.add_row(" ", mark, Text(name), Text(f"{took:6.1f} s", "dim"), Text(str(note), "dim"))
        return table
