"""Questions to the audit: which entries concern a user, an address, a time; and how they are printed."""

from __future__ import annotations

import collections
import ipaddress
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rich.table import Table

from weir import audit
from weir.config import Stack
from weir.errors import WeirError
from weir.schema import chain
from weir.terminal import escaped

_UNITS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}
#: Characters of a statement in the table.
_SHORT = 300
#: Kinds of entries that a listing shows; `answer` joins its question.
_SHOWN = ("ask", "refused", "inserts", "failed_login", "action", "start", "stop", "lost")


@dataclass
class Line:
    """One line of a listing: an entry, its text if there is one, and the answer to it."""

    entry: dict[str, Any]
    text: dict[str, Any] | None
    erased: bool
    answer: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Everything that the entries say, without what only chains them."""
        chained = ("previous", "seal")
        out = {key: value for key, value in self.entry.items() if key not in chained}
        out |= {key: self.answer[key] for key in ("rows", "octets", "code", "milliseconds") if key in self.answer}
        text = {key: value for key, value in (self.text or {}).items() if key != "salt"}
        return out | text | ({"erased": True} if self.erased else {})


@dataclass(frozen=True)
class Wanted:
    """Which entries: since a time (ISO 8601), of a user or person, that name an address or a prefix that overlaps it."""

    since: str = ""
    user: str | None = None
    address: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None


def seconds(text: str) -> int:
    """Seconds of a span such as 90s, 10min, 1h or 2d. Raises WeirError."""
    found = re.fullmatch(r"\s*(\d{1,6})\s*(s|min|m|h|d)\s*", text)
    if not found:
        raise WeirError(f"'{text}' is not a time span", hint="write it as 90s, 10min, 1h or 2d")
    return int(found[1]) * _UNITS[found[2]]


def ago(text: str) -> str:
    """The time so long ago, ISO 8601; `text` such as 90s, 10min, 1h or 2d. Raises WeirError."""
    moment = time.time() - seconds(text)
    return datetime.fromtimestamp(max(moment, 0), UTC).strftime("%Y-%m-%dT%H:%M:%S")


def read(stack: Stack, wanted: Wanted, limit: int) -> list[Line]:
    """The newest entries that match, oldest first. Raises WeirError if there is no audit."""
    if not stack.audit.is_dir():
        raise WeirError(f"there is no audit yet: {stack.audit} does not exist", hint="weir up starts the store")
    begin = chain.Place(wanted.since[:10], 0, 0, "") if wanted.since else None
    out: collections.deque[Line] = collections.deque(maxlen=limit)
    asked: dict[int, Line] = {}
    try:
        forgotten = _forgotten(stack, wanted)
        for one in chain.entries(stack.audit, begin):
            if one.entry["kind"] == "answer":
                if line := asked.pop(one.entry["of"], None):
                    line.answer = dict(one.entry)
                continue
            if not _matches(one, wanted, forgotten):
                continue
            line = Line(dict(one.entry), dict(one.text) if one.text is not None else None, one.erased)
            if len(out) == limit and out:
                asked.pop(out[0].entry["number"], None)
            out.append(line)
            if one.entry["kind"] == "ask":
                asked[one.place.number] = line
    except OSError as error:
        raise WeirError(
            f"the audit cannot be read: {error}", hint="run weir as the user who started the stack"
        ) from error
    return list(out)


def possible(stack: Stack, wanted: Wanted) -> int:
    """How many further entries name more addresses than they list, so that they may name the wanted one, too."""
    if wanted.address is None or not stack.audit.is_dir():
        return 0
    begin = chain.Place(wanted.since[:10], 0, 0, "") if wanted.since else None
    anything = Wanted(wanted.since, wanted.user)
    return sum(
        one.text is not None
        and bool(one.text.get("more_addresses"))
        and _matches(one, anything, set())
        and not chain.touches(one.text, wanted.address)
        for one in chain.entries(stack.audit, begin)
    )


def _forgotten(stack: Stack, wanted: Wanted) -> set[int]:
    """The entries that named the wanted address until `weir forget` erased their texts."""
    if wanted.address is None:
        return set()
    own = audit.keyed(stack, wanted.address)
    erasures = (one.entry["detail"] for one in chain.entries(stack.audit) if one.entry.get("action") == "erase")
    return {number for detail in erasures if detail.get("digest") == own for number in detail.get("entries", ())}


def _matches(one: chain.Entry, wanted: Wanted, forgotten: set[int]) -> bool:
    entry = one.entry
    if entry["kind"] not in _SHOWN or entry["time"] < wanted.since:
        return False
    if wanted.user is not None and wanted.user not in (entry.get("user"), entry.get("person")):
        return False
    if wanted.address is None or one.place.number in forgotten:
        return True
    return one.text is not None and chain.touches(one.text, wanted.address)


def table(lines: list[Line]) -> Table:
    """One row per entry."""
    drawn = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("entry", "time (UTC)", "who", "from", "rows", "ms"):
        drawn.add_column(name, no_wrap=True, justify="right" if name in ("entry", "rows", "ms") else "left")
    drawn.add_column("what", overflow="fold")
    for one in lines:
        entry = one.entry
        who = entry.get("user", "")
        if entry.get("person"):
            who = f"{entry['person']} ({who})"
        where = entry.get("person_address") or entry.get("address", "")
        took = str(one.answer["milliseconds"]) if one.answer else ""
        try:
            rows, said = _rows(one), what(one)
        except (KeyError, TypeError, ValueError, AttributeError):
            rows, said = "", "an entry that is not the store's: weir audit verify"
        drawn.add_row(str(entry["number"]), entry["time"][:19], _escaped(who), _escaped(where), rows, took, said)
    return drawn


def _rows(one: Line) -> str:
    rows = one.answer.get("rows", one.entry.get("rows"))
    return "" if rows is None else f"{rows:,}"


def what(one: Line) -> str:
    """An entry in words, without the markup of the terminal."""
    entry, text = one.entry, one.text or {}
    kind = entry["kind"]
    if kind in ("ask", "refused"):
        said = "its text was erased by weir forget" if one.erased else " ".join(text.get("statement", "").split())
        if "parameters" in text:
            said += f" [{' '.join(text['parameters'].split())}]"
        if kind == "refused":
            said = (
                f"refused, error {entry['code']}: {said}"
                if "code" in entry
                else f"{entry['count']:,} refused statements"
            )
        elif one.answer.get("code"):
            code = one.answer["code"]
            said = f"{'the client went away' if code == -1 else f'error {code}'}: {said}"
        elif not one.answer:
            said = f"no answer: {said}"
        return _escaped(said)
    if kind == "inserts":
        # In the entry itself until release 0.1.0.
        named = text.get("tables", entry.get("tables", {}))
        tables = "erased" if one.erased else ", ".join(f"{name} {count:,}" for name, count in named.items())
        failed = f", {entry['failed']:,} failed" if entry["failed"] else ""
        return _escaped(f"{entry['count']:,} INSERTs in {entry['minute']} ({tables}){failed}")
    if kind == "failed_login":
        names = (
            "erased"
            if one.erased
            else ", ".join(f"'{name}' {count:,}" for name, count in text.get("names", {}).items())
        )
        return _escaped(f"{entry['count']:,} failed logins in {entry['minute']}: {names}")
    if kind == "action":
        return _escaped(f"weir {entry['action']}: {chain.canonical(entry['detail'])}")
    if kind == "lost":
        return f"{entry['entries']:,} entries found no room: the disk was full"
    return f"the store {'started' if kind == 'start' else 'stopped'}"


def _escaped(text: str) -> str:
    """For rich, and for the terminal: no control characters."""
    short = text if len(text) <= _SHORT else text[:_SHORT] + " …"
    return escaped(short)
