"""The audit's files: entries chained by hash, and a walk over them that finds whatever was changed, removed or moved.

One line of JSON for each entry, in files named by the day (UTC): `{"entry": …, "hash": …, "text": …}`. `entry` holds its
number (from 1 on), the hash of the entry before it, the time and what happened. `hash` is the SHA-256 of `entry` in its
canonical form: keys sorted, no blanks, ASCII. What may name a person stands beside it in `text`, with random salt; the
entry holds only the SHA-256 of it, its seal. So `weir forget` can erase a text, and the chain stays whole.

This module needs Python's standard library alone, because the command `weir` reads the same files.
"""

from __future__ import annotations

import errno
import hashlib
import ipaddress
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .notations import named

#: The hash before the first entry.
GENESIS = "0" * 64
#: No line is longer, octets.
LONGEST = 64 << 10
#: Addresses read from a text that lists none, or not all.
_LISTED = 4000
#: Breaks that a walk lists.
_BREAKS = 100
_DAY = re.compile(r"\d{4}-\d\d-\d\d\.jsonl")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class Place:
    """Where an entry stands, or is to stand: its file's day, the octet at which its line begins, its number, and the hash
    of the entry before it."""

    day: str
    start: int
    number: int
    previous: str


@dataclass(frozen=True)
class Entry:
    """One entry as it stands in its file. text: None if there is none, or if it was erased. size: octets of the line."""

    place: Place
    entry: Mapping[str, Any]
    hash: str
    text: Mapping[str, Any] | None
    size: int

    @property
    def erased(self) -> bool:
        """Whether its text was erased."""
        return self.text is None and "seal" in self.entry


@dataclass(frozen=True)
class Break:
    """A place at which the chain does not hold: the number of the entry, and what is wrong with it."""

    number: int
    what: str

    def __str__(self) -> str:
        return f"entry {self.number:,}: {self.what}"


@dataclass
class Found:
    """What a walk found. last: the last entry. days: number and hash of each day's last entry. torn: lines that the end of
    a process cut off, as the next entry states. erased: entries whose text `weir forget` erased."""

    entries: int = 0
    first: Place | None = None
    last: Entry | None = None
    days: dict[str, tuple[int, str]] = field(default_factory=dict)
    torn: list[str] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    erased: int = 0

    def broken(self, number: int, what: str) -> None:
        """Note a break; a walk lists the first hundred."""
        if len(self.breaks) < _BREAKS:
            self.breaks.append(Break(number, what))


def canonical(value: Mapping[str, Any]) -> str:
    """The one form of which hashes are made."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(value: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical form, hexadecimal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def sealed(text: Mapping[str, Any]) -> dict[str, Any]:
    """A text with 128 bits of salt: its hash then tells nothing about it."""
    return {**text, "salt": secrets.token_hex(16)}


def line(entry: Mapping[str, Any], text: Mapping[str, Any] | None) -> tuple[bytes, str]:
    """The line of an entry, and its hash; `text` as `sealed` returns it. The entry gets its seal."""
    if text is not None:
        entry = {**entry, "seal": digest(text)}
    own = digest(entry)
    return _head(entry, own) + (canonical(text) if text is not None else "null").encode() + b"}\n", own


def _head(entry: Mapping[str, Any], own: str) -> bytes:
    return f'{{"entry":{canonical(entry)},"hash":"{own}","text":'.encode()


def parsed(raw: bytes, day: str, start: int) -> Entry | None:
    """The entry of a line, which ends with a line feed; None if the line is none. Its hashes are not checked."""
    try:
        value = json.loads(raw)
        entry, own, text = value["entry"], value["hash"], value["text"]
        place = Place(day, start, entry["number"], entry["previous"])
        if not isinstance(place.number, int) or not isinstance(place.previous, str) or not isinstance(own, str):
            return None
        if not 0 < place.number < 1 << 63:
            return None
        if not (text is None or isinstance(text, dict)):
            return None
        if not isinstance(entry["kind"], str) or not isinstance(entry["time"], str):
            return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return Entry(place, entry, own, text, len(raw))


def days(folder: Path) -> list[str]:
    """The days that have a file, in order. Raises OSError."""
    return sorted(one.stem for one in folder.iterdir() if _DAY.fullmatch(one.name))


def path(folder: Path, day: str) -> Path:
    """The file of a day."""
    return folder / f"{day}.jsonl"


def lines(folder: Path, begin: Place | None = None) -> Iterator[tuple[str, int, bytes]]:
    """Day, start and octets of each line from a place on, or from the first; pieces of a line that is too long. The last
    line of a file may lack its end. Raises OSError."""
    for day in days(folder):
        if begin is not None and day < begin.day:
            continue
        start = begin.start if begin is not None and day == begin.day else 0
        descriptor = os.open(path(folder, day), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                # A pipe would hold the reader up.
                yield day, start, b"no regular file\n"
                continue
            file.seek(start)
            while raw := file.readline(LONGEST):
                yield day, start, raw
                start += len(raw)


def entries(folder: Path, begin: Place | None = None) -> Iterator[Entry]:
    """The entries from a place on, without any check. Raises OSError."""
    for day, start, raw in lines(folder, begin):
        found = parsed(raw, day, start) if raw.endswith(b"\n") else None
        if found is not None:
            yield found


def walk(
    folder: Path,
    begin: Place | None = None,
    heads: Iterable[tuple[int, str]] = (),
    proven: Callable[[Mapping[str, Any]], bool] = lambda _: True,
) -> Found:
    """Check every entry from `begin` on (the first one of all by default), and that the entries with these numbers have
    these hashes. proven: whether an entry that says that texts were erased, with this detail, is to be believed. Raises
    OSError."""
    found = Found()
    number, previous = (begin.number, begin.previous) if begin else (1, GENESIS)
    expected = dict(heads)
    highest = max(expected, default=0)
    torn: tuple[str, str, str] | None = None  # of a line that is no entry: where, octets and SHA-256
    last_raw = b"\n"
    erased: set[int] = set()
    permitted: set[int] = set()
    for day, start, raw in lines(folder, begin):
        last_raw = raw
        one = parsed(raw, day, start) if raw.endswith(b"\n") else None
        where = f"{day}.jsonl, octet {start}"
        if one is None:
            if torn:
                found.broken(number, f"a line before it is no entry ({torn[0]})")
            whole = raw.removesuffix(b"\n")
            torn = (where, str(len(whole)), hashlib.sha256(whole).hexdigest())
            continue
        at = one.place
        if torn:
            told = one.entry.get("torn")
            if isinstance(told, dict) and (str(told.get("octets")), told.get("sha256")) == torn[1:]:
                found.torn.append(f"{torn[0]}: the end of the process cut this line off")
            else:
                found.broken(number, f"the line where it belongs is no entry ({torn[0]})")
                if at.number == number + 1:  # its successor tells its hash
                    number, previous = at.number, at.previous
            torn = None
        _follow(found, one, number, previous)
        try:
            _content(found, one, raw)
            permitted |= _permits(one, proven)
        except (ValueError, TypeError, RecursionError) as error:
            found.broken(at.number, f"cannot be read: {type(error).__name__}")
        if one.entry["time"][:10] > day:
            found.broken(at.number, f"stands in the file of an earlier day: {day}.jsonl")
        if expected.get(at.number, one.hash) != one.hash:
            found.broken(at.number, "was replaced: its hash was noted elsewhere, and is another")
        if one.erased:
            erased.add(at.number)
            found.erased += 1
        number, previous = at.number + 1, one.hash
        found.entries += 1
        found.first = found.first or at
        found.last = one
        found.days[day] = (at.number, one.hash)
    if torn:
        if last_raw.endswith(b"\n") or len(last_raw) == LONGEST:
            found.broken(number, f"the line where it belongs is no entry ({torn[0]})")
        else:
            found.torn.append(f"{torn[0]}: the last line lacks its end; it is being written, or its process ended")
    if number <= highest:
        found.broken(number, f"the tail is cut off: entries up to {highest:,} were noted elsewhere")
    for lost in sorted(erased - permitted):
        found.broken(lost, "its text was removed, and no entry says that `weir forget` did so")
    found.breaks.sort(key=lambda one: one.number)
    return found


def _follow(found: Found, one: Entry, number: int, previous: str) -> None:
    """Note a break if an entry is not the one that is due."""
    at = one.place
    if at.number > number:
        until = f" to {at.number - 1:,}" if at.number > number + 1 else ""
        found.broken(number, f"missing{until and ', with those up'}{until}: entry {at.number:,} stands in its place")
    elif at.number < number:
        found.broken(at.number, f"stands after entry {number - 1:,}: moved, or written twice")
    elif at.previous != previous:
        found.broken(max(number - 1, 1), f"was replaced: entry {number:,} holds another hash of it")


def _content(found: Found, one: Entry, raw: bytes) -> None:
    """Note a break if an entry or its text is not what its hashes say; an octet that means nothing counts, too."""
    number = one.place.number
    if digest(one.entry) != one.hash:
        found.broken(number, "was changed: its hash is another")
    elif one.text is not None:
        if digest(one.text) != one.entry.get("seal"):
            found.broken(number, "its text was changed: its seal is another")
        elif raw != line(one.entry, one.text)[0]:
            found.broken(number, "its line was changed")
    else:
        head = _head(one.entry, one.hash)
        rest = raw[len(head) :]
        # Blanks take the place of an erased text.
        if not raw.startswith(head) or (rest.replace(b" ", b"") if one.erased else rest) != b"null}\n":
            found.broken(number, "its line was changed")


def _permits(one: Entry, proven: Callable[[Mapping[str, Any]], bool]) -> set[int]:
    """The numbers of the earlier entries whose texts an entry says to be erased."""
    detail = one.entry.get("detail")
    if one.entry.get("action") != "erase" or not isinstance(detail, dict) or not proven(detail):
        return set()
    named = detail.get("entries")
    return {n for n in named if isinstance(n, int) and n < one.place.number} if isinstance(named, list) else set()


def erase(folder: Path, one: Entry) -> None:
    """Overwrite the text of an entry in its file; the line keeps its length, so that entries can be added meanwhile.

    First add an entry with the action `erase` that names its number, else `walk` finds a break. Raises OSError, also if
    the line is another one by now.
    """
    head = _head(one.entry, one.hash)
    rest = one.size - len(head)
    # The store may have put a link there.
    descriptor = os.open(path(folder, one.place.day), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if os.pread(descriptor, one.size, one.place.start) != line(one.entry, one.text)[0]:
            raise OSError(errno.ESTALE, f"entry {one.place.number} is not where it was read")
        os.pwrite(descriptor, b"null" + b" " * (rest - 6) + b"}\n", one.place.start + len(head))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def within(text: Mapping[str, Any], wanted: Network) -> bool:
    """Whether a text of an entry names an address of `wanted`, or a prefix in it."""
    return any(_networks(one, wanted, subnet=True) for one in _all(text))


def touches(text: Mapping[str, Any], wanted: Network) -> bool:
    """Whether a text of an entry names an address of `wanted`, or a prefix that overlaps it."""
    return any(_networks(one, wanted, subnet=False) for one in _all(text))


def _all(text: Mapping[str, Any]) -> list[str]:
    """The addresses that a text names: those listed, and if that is not all, or there is no list, those of what is kept."""
    listed = list(text.get("addresses", ()))
    if "addresses" in text and not text.get("more_addresses"):
        return listed
    return listed + named(" ".join(map(str, text.values())).encode(), _LISTED)[0]


def _networks(name: object, wanted: Network, *, subnet: bool) -> bool:
    try:
        one = ipaddress.ip_network(str(name), strict=False)
    except ValueError:
        return False
    if isinstance(one, ipaddress.IPv4Network) and isinstance(wanted, ipaddress.IPv4Network):
        return one.subnet_of(wanted) if subnet else one.overlaps(wanted)
    if isinstance(one, ipaddress.IPv6Network) and isinstance(wanted, ipaddress.IPv6Network):
        return one.subnet_of(wanted) if subnet else one.overlaps(wanted)
    return False
