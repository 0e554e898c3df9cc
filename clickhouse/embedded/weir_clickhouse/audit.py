"""The audit: who asked what, from where, when, and how much came back. The front writes it, not the engine.

A statement has two entries: `ask`, written before the engine sees it, so that no crash hides it, and `answer`. INSERTs
with data are summed by minute, user and address, and so are failed logins. `chain.py` has the form of the files.

If an entry cannot be written, readers' statements are refused; those of others go on, and their entries wait in memory,
within a bound, until they can be written.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import threading
import time
import urllib.parse
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import chain, metrics, notations
from .access import User
from .errors import ServerError
from .forms import External
from .quotas import Spent
from .statement import Statement

#: The user who speaks for persons: the others' headers that name one are ignored.
SPEAKS_FOR_OTHERS = "dashboard"
PERSON, PERSON_ADDRESS = "X-Weir-Person", "X-Weir-Person-Address"
#: Octets kept of a statement; characters kept of a name.
_STATEMENT, _NAME = 4096, 128
#: Octets of a statement with its external data that are searched for addresses: the longest statement without max_query_size.
_SEARCHED = 256 << 10
#: Parameters that describe external data.
_DESCRIBES = ("_structure", "_types", "_format")
#: Refused statements a minute and user with an entry of their own, and octets kept of each; further ones are counted.
_REFUSED, _REFUSED_STATEMENT = 60, 512
#: Users with their addresses, or addresses, that one minute tells apart; and names or tables of each. All others count as one.
_MOST, _NAMES = 1000, 20
#: Entries that wait while none can be written.
_WAITING = 1000
#: Seconds between two looks at what waits; how long after an entry it is on the disk.
_TICK_S = 1.0
_OTHERS = "others"


class AuditBusy(Exception):
    """Another process writes to the directory; the message names it."""


@dataclass
class _Sum:
    """What one minute sums up for a user or an address."""

    count: int = 0
    failed: int = 0
    rows: int = 0
    names: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, rows: int = 0, *, failed: bool = False) -> None:
        """Count one; name: of its table, or the one that a login gave."""
        self.count += 1
        self.failed += failed
        self.rows += rows
        name = name[:_NAME]
        key = name if name in self.names or len(self.names) < _NAMES else _OTHERS
        self.names[key] = self.names.get(key, 0) + 1


@dataclass
class _Waiting:
    """An entry that could not be written yet."""

    kind: str
    fields: dict[str, Any]
    text: dict[str, Any] | None


class Audit:
    """The writer of one directory. `start` opens it, `stop` closes it; one process writes at a time."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.folder, self._clock = folder, clock
        self._lock = threading.RLock()
        self._file = self._directory = -1
        self._day = ""
        self._number, self._previous = 0, chain.GENESIS
        self._torn: dict[str, Any] | None = None
        #: Size of the file before a line that found no room.
        self._cut: int | None = None
        self._waiting: deque[_Waiting] = deque()
        self._lost = 0
        self._minute = 0
        self._inserts: dict[tuple[str, str], _Sum] = {}
        self._logins: dict[str, _Sum] = {}
        self._refusals: dict[str, _Sum] = {}
        self._dirty = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    # ---- opening and closing ----

    def start(self, version: str = "") -> None:
        """Continue the chain where it ended. A line that the end of an earlier process cut off stays, and the first entry
        names it. Raises AuditBusy, and OSError unless it is the disk that is full."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._directory)
            self._directory = -1
            raise AuditBusy(f"another process writes to {self.folder}") from None
        self._continue()
        self._minute = int(self._clock()) // 60
        metrics.audit_writable.set(1)
        self._sure("start", {"version": version, "process": os.getpid()})
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    def _continue(self) -> None:
        """Find the last entry, and what follows it."""
        for day in reversed(chain.days(self.folder)):
            self._day = self._day or day
            last: chain.Entry | None = None
            for raw, start in _backwards(chain.path(self.folder, day)):
                if raw.endswith(b"\n"):
                    last = chain.parsed(raw, day, start)
                    if last is not None:
                        break
                elif raw:
                    last = chain.parsed(raw + b"\n", day, start)
                    if last is not None and chain.digest(last.entry) == last.hash:
                        self._end_line(day)
                        break
                    last = None
                    if self._torn is None:
                        self._torn = {"octets": len(raw), "sha256": hashlib.sha256(raw).hexdigest(), "day": day}
            if last is not None:
                self._number, self._previous = last.place.number, last.hash
                return

    def _end_line(self, day: str) -> None:
        """Give the last line of a file its end."""
        with chain.path(self.folder, day).open("ab") as file:
            file.write(b"\n")

    def stop(self) -> None:
        """Write what is summed up, and close."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._lock:
            if self._directory < 0:
                return
            self._sum_up()
            self._sure("stop", {})
            if self._file >= 0:
                with suppress(OSError):
                    os.fsync(self._file)
                os.close(self._file)
            os.close(self._directory)
            self._file = self._directory = -1

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_S):
            self.tick()

    def tick(self) -> None:
        """Write the sums of a minute that is over and the entries that wait, and put all on the disk."""
        with self._lock:
            minute = int(self._clock()) // 60
            if minute != self._minute:
                self._sum_up()
                self._minute = minute
            with suppress(OSError):
                self._write_waiting()
            file = os.dup(self._file) if self._dirty and self._file >= 0 else -1
            self._dirty = False
        if file >= 0:
            with suppress(OSError):
                os.fsync(file)
            os.close(file)

    # ---- entries ----

    def append(self, kind: str, fields: Mapping[str, Any], text: Mapping[str, Any] | None = None) -> int:
        """Write an entry, after those that wait; returns its number. Raises OSError."""
        with self._lock:
            self._write_waiting()
            return self._write(kind, {"time": self._now(), **fields}, text)

    def _sure(self, kind: str, fields: Mapping[str, Any], text: Mapping[str, Any] | None = None) -> None:
        """Write an entry, or let it wait until that is possible."""
        with self._lock:
            timed = {"time": self._now(), **fields}
            try:
                self._write_waiting()
                self._write(kind, timed, text)
            except OSError:
                if len(self._waiting) < _WAITING:
                    self._waiting.append(_Waiting(kind, timed, dict(text) if text is not None else None))
                else:
                    self._lost += 1
                    metrics.audit_lost.inc()

    def _write_waiting(self) -> None:
        while self._waiting:
            one = self._waiting[0]
            self._write(one.kind, one.fields, one.text)
            self._waiting.popleft()
        if self._lost:
            self._write("lost", {"time": self._now(), "entries": self._lost}, None)
            self._lost = 0

    def _write(self, kind: str, fields: Mapping[str, Any], text: Mapping[str, Any] | None) -> int:
        """Add one line with one call of the kernel. Raises OSError; the file is then as before, or will be before the next
        entry is added."""
        try:
            if self._cut is not None:
                os.ftruncate(self._file, self._cut)
                self._cut = None
            # Never before the day of the entry, should the clock be set back meanwhile.
            self._open(max(time.strftime("%Y-%m-%d", time.gmtime(self._clock())), str(fields["time"])[:10]))
            entry = {**fields, "kind": kind, "number": self._number + 1, "previous": self._previous}
            if self._torn:
                entry["torn"] = {key: self._torn[key] for key in ("octets", "sha256")}
            made, own = chain.line(entry, chain.sealed(text) if text is not None else None)
            before = os.fstat(self._file).st_size
            # In a new day's file nothing precedes this line.
            out = b"\n" + made if self._torn and self._torn["day"] == self._day and before else made
            written = os.write(self._file, out)
            if written < len(out):
                self._cut = before
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            metrics.audit_writable.set(0)
            raise
        self._number, self._previous, self._torn = self._number + 1, own, None
        self._dirty = True
        metrics.audit_writable.set(1)
        metrics.audit_entries.labels(kind).inc()
        return self._number

    def _open(self, today: str) -> None:
        """Open the day's file; never one before the last, should the clock be set back."""
        if self._file >= 0 and today <= self._day:
            return
        day = max(today, self._day)
        file = os.open(chain.path(self.folder, day), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if self._file >= 0:
            with suppress(OSError):
                os.fsync(self._file)
            os.close(self._file)
        os.fsync(self._directory)
        self._file, self._day = file, day

    def _now(self) -> str:
        now = self._clock()
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"

    # ---- what is summed up ----

    def login_failed(self, address: str, name: str) -> None:
        """Count a failed login from an address, with the name that it gave."""
        with self._lock:
            self._of(self._logins, address).add(name)

    def inserted(self, user: str, address: str, table: str, rows: int, *, failed: bool) -> None:
        """Count an INSERT with data."""
        with self._lock:
            self._of(self._inserts, (user, address)).add(table, rows, failed=failed)

    def may_refuse(self, user: str) -> bool:
        """Whether a refused statement of this user gets an entry of its own; else it is counted."""
        with self._lock:
            known = self._of(self._refusals, user)
            known.count += 1
            return known.count <= _REFUSED

    @staticmethod
    def _of(sums: dict[Any, _Sum], key: Any) -> _Sum:
        if key not in sums and len(sums) >= _MOST:
            key = (_OTHERS, "") if isinstance(key, tuple) else _OTHERS
        return sums.setdefault(key, _Sum())

    def _sum_up(self) -> None:
        minute = time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(self._minute * 60))
        for (user, address), one in self._inserts.items():
            self._sure(
                "inserts",
                {"minute": minute, "user": user, "address": address, "count": one.count, "failed": one.failed, "rows": one.rows},
                # A table's name is the client's, and may hold an address.
                {"tables": one.names},
            )
        for address, one in self._logins.items():
            fields = {"minute": minute, "address": address, "count": one.count}
            # Some people type a password where the name belongs.
            self._sure("failed_login", fields, {"names": one.names})
        for user, one in self._refusals.items():
            if one.count > _REFUSED:
                self._sure("refused", {"minute": minute, "user": user, "count": one.count - _REFUSED})
        self._inserts.clear()
        self._logins.clear()
        self._refusals.clear()

    # ---- what asks ----

    def question(self, user: User, address: str, header: Callable[[str], str | None], params: Mapping[str, str]) -> Asked:
        """A statement that a user who has logged in sends from an address."""
        return Asked(self, user, address, header, params)

    def action(self, user: User, address: str, fields: Mapping[str, Any]) -> int:
        """An entry on something that was done to the store besides SQL, such as `weir forget`: its `action`, the `person`
        and a `detail`. Returns its number. Raises ServerError if it cannot be written."""
        try:
            return self.append("action", {**fields, "user": user.name, "role": user.role.name, "address": address})
        except OSError as error:
            raise unwritable(error) from None


class Asked:
    """One statement, until its answer has ended."""

    def __init__(
        self, audit: Audit, user: User, address: str, header: Callable[[str], str | None], params: Mapping[str, str]
    ) -> None:
        self._audit, self._user, self._params, self._header = audit, user, params, header
        self._fields: dict[str, Any] = {"user": user.name, "role": user.role.name, "address": address}
        if user.name == SPEAKS_FOR_OTHERS:
            for name, key in ((PERSON, "person"), (PERSON_ADDRESS, "person_address")):
                if value := header(name):
                    self._fields[key] = urllib.parse.unquote(value)[:_NAME]
        self._heard = bytearray()
        self._statement: Statement | None = None
        self._named: Mapping[str, str] = {}
        self._tables: Sequence[External] = ()
        #: Whether its body is a form.
        self.form = False
        self._database: str | None = params.get("database") or header("X-ClickHouse-Database")
        self._number = 0
        self._begun = time.monotonic()
        self._spent = Spent()
        #: Octets sent of its answer.
        self.octets = 0
        #: Rows that it inserted.
        self.inserted = 0

    def hear(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The same body; its beginning is kept, in case no statement can be read from it."""
        for piece in pieces:
            if len(self._heard) < _STATEMENT:
                self._heard += piece[: _STATEMENT - len(self._heard)]
            yield piece

    def read(self, statement: Statement, named: Mapping[str, str]) -> None:
        """The statement, with its parameters."""
        self._statement, self._named = statement, named

    def add(self, tables: Sequence[External]) -> None:
        """The external data that it brings with it."""
        self._tables = tables

    def begin(self, spent: Spent, database: str | None) -> None:
        """The engine is about to run it in a database; `spent` receives its cost. Raises ServerError if a reader's statement
        cannot be written down."""
        self._spent, self._database = spent, database
        if self._summed:
            return
        try:
            self._number = self._audit.append("ask", self._fields, self._text())
        except OSError as error:
            if self._user.role.readonly:
                metrics.refused.labels("audit").inc()
                raise unwritable(error) from None
            self._audit._sure("ask", self._fields, self._text())
            self._number = -1

    def broke_off(self, rows: int | None) -> None:
        """Its answer ended early, after so many rows; None if they cannot be counted: then as many as it has read."""
        self._spent.result_rows = max(self._spent.result_rows, self._spent.read_rows if rows is None else rows)

    @property
    def _summed(self) -> bool:
        one = self._statement
        role = self._user.role
        return one is not None and one.kind == "INSERT" and one.data >= 0 and not role.is_admin and not role.readonly

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        code = 0 if error is None else error.code if isinstance(error, ServerError) else -1
        if self._summed and self._statement is not None:
            address = self._fields["address"]
            self._audit.inserted(self._user.name, address, _target(self._statement), self.inserted, failed=bool(code))
        elif self._number:
            answer = {"rows": self._spent.result_rows or self.inserted, "read_rows": self._spent.read_rows}
            answer |= {"octets": self.octets, "code": code}
            answer["milliseconds"] = int((time.monotonic() - self._begun) * 1000)
            self._audit._sure("answer", {"of": self._number, **answer})
        elif self._audit.may_refuse(self._user.name):
            self._audit._sure("refused", {**self._fields, "code": code}, self._text(_REFUSED_STATEMENT))

    def _text(self, most: int = _STATEMENT) -> dict[str, Any]:
        """The statement, its parameters, and the addresses that they name; `most` octets of it are kept, and of parameters at
        most half of that."""
        if self._statement is not None:
            whole = self._statement.text
        else:
            whole = self._params.get("query", "").encode(errors="surrogateescape") + bytes(self._heard)
        out: dict[str, Any] = {"statement": whole[:most].decode(errors="replace")}
        if len(whole) > most:
            out |= {"statement_octets": len(whole), "statement_sha256": hashlib.sha256(whole).hexdigest()}
        everything = whole
        if self._named:
            given = "\n".join(f"{name}={value}" for name, value in self._named.items()).encode(errors="surrogateescape")
            everything += b"\n" + given
            out["parameters"] = given[: most // 2].decode(errors="replace")
        given_too = (
            ("agent", self._header("User-Agent")),
            ("query_id", self._params.get("query_id")),
            ("database", self._database),
        )
        for name, value in given_too:
            if value:
                out[name] = value[:_NAME].encode(errors="replace").decode()
                everything += b"\n" + out[name].encode()
        more = False
        if self.form and not self._tables:
            # It may have been refused for what the form holds.
            described = (f"{name}={text}" for name, text in self._params.items() if name.endswith(_DESCRIBES))
            form = "\n".join(described).encode(errors="surrogateescape")[: _STATEMENT // 2] + b"\n" + bytes(self._heard)
            out["form"] = form[: most // 4].decode(errors="replace")
            everything += b"\n" + form
        if self._tables:
            kept = most // 4 // len(self._tables)
            out["external"] = [
                {
                    "name": one.name,
                    "format": one.form[:_NAME],
                    "columns": one.structure.encode(errors="surrogateescape")[: kept // 2].decode(errors="replace"),
                    "data": one.data[:kept].decode(errors="replace"),
                    "octets": len(one.data),
                    "sha256": hashlib.sha256(one.data).hexdigest(),
                }
                for one in self._tables
            ]
            for one in self._tables:
                everything += b"\n" + one.structure.encode(errors="surrogateescape") + b"\n" + one.data[:_SEARCHED]
                more = more or len(one.data) > _SEARCHED
        out["addresses"], many = notations.named(everything[:_SEARCHED])
        if more or many or len(everything) > _SEARCHED:
            out["more_addresses"] = True
        return out


def unwritable(error: OSError) -> ServerError:
    """What a reader is told while no entry can be written."""
    why = error.strerror or str(error)
    return ServerError(75, f"The audit cannot be written ({why}): nobody may read without an entry in it. Tell the operator")


def _target(insert: Statement) -> str:
    """The table that an INSERT names."""
    begin = 2 if len(insert.items) > 1 and insert.items[1].is_word("INTO") else 1
    if len(insert.items) > begin and insert.items[begin].is_word("TABLE"):
        begin += 1
    out: list[str] = []
    for token in insert.items[begin : begin + 3]:
        if not (token.is_name or token.is_symbol(".")) or (out and token.is_name and out[-1] != "."):
            break
        out.append("." if token.is_symbol(".") else insert.text[token.start : token.end].decode(errors="replace"))
    return "".join(out)


def _backwards(file: Path) -> Iterator[tuple[bytes, int]]:
    """The lines of a file, each with the octet at which it begins, from the last one on. One that lacks its end comes first; it
    is empty if none does."""
    with file.open("rb") as opened:
        at = opened.seek(0, os.SEEK_END)
        held = b""
        first = True
        while at > 0 or held:
            while at > 0 and held.count(b"\n") < 2:
                step = min(at, chain.LONGEST)
                at -= step
                opened.seek(at)
                held = opened.read(step) + held
            if first:
                first = False
                cut = held.rfind(b"\n") + 1
                yield held[cut:], at + cut
                held = held[:cut]
                continue
            cut = held.rfind(b"\n", 0, len(held) - 1) + 1
            if held:
                yield held[cut:], at + cut
            held = held[:cut]
