"""Customers, sites and tags of address prefixes: the compacted topic `weir.prefixes`, and the table `prefixes` that
keeps the meaning of every id.

The topic holds the current declarations. A prefix gets a new id whenever its declaration changes, so ids in stored
records keep their meaning.
"""

from __future__ import annotations

import contextlib
import csv
import ipaddress
import json
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from rich.table import Table

from weir import kafka, locks
from weir.brokers import Brokers
from weir.clickhouse import ClickHouse, connect
from weir.config import Stack
from weir.errors import WeirError
from weir.messages.declarations_pb2 import Prefix

TOPIC = "weir.prefixes"
COLUMNS = ("prefix", "customer", "site", "tags", "national")
_LONGEST = 200
_IPV4_MAPPED = 0xFFFF
_ROWS_OF_AN_INSERT = 20_000
_WORDS = {"": False, "false": False, "no": False, "0": False, "true": True, "yes": True, "1": True}

# Progress callback: (stage, done, total).
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Description:
    """The declaration of a prefix."""

    customer: str = ""
    site: str = ""
    tags: tuple[str, ...] = ()
    national: bool = False


@dataclass(frozen=True)
class Entry:
    """A declared prefix and its numbers."""

    description: Description
    id: int
    customer_id: int
    site_id: int


@dataclass
class Numbers:
    """The numbers in use: the largest id so far, and the number of each customer and site by name."""

    last_id: int = 0
    customers: dict[str, int] = field(default_factory=dict)
    sites: dict[str, int] = field(default_factory=dict)

    def know(self, entry: Entry) -> None:
        """Record numbers in use."""
        self.last_id = max(self.last_id, entry.id)
        for names, name, number in (
            (self.customers, entry.description.customer, entry.customer_id),
            (self.sites, entry.description.site, entry.site_id),
        ):
            if name and number:
                names.setdefault(name, number)

    def number(self, description: Description) -> Entry:
        """A new entry for a declaration."""
        self.last_id += 1
        customer, site = self._of(self.customers, description.customer), self._of(self.sites, description.site)
        return Entry(description, self.last_id, customer, site)

    @staticmethod
    def _of(names: dict[str, int], name: str) -> int:
        if not name:
            return 0
        if name not in names:
            names[name] = max(names.values(), default=0) + 1
        return names[name]


def canonical(text: str) -> str:
    """The prefix in canonical text (RFC 5952 for IPv6); a bare address is the prefix of its full length.

    Raises ValueError, with one line for the user, if the text is not a prefix.
    """
    address, slash, length = text.strip().partition("/")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        octets = socket.inet_pton(family, address)
    except OSError:
        octets = b""
    bits = 8 * len(octets)
    if not octets or (slash and not (length.isascii() and length.isdigit() and int(length) <= bits)):
        raise ValueError(f"'{text}' is not a prefix, such as 192.0.2.0/24 or 2001:db8::/32")
    width = int(length) if slash else bits
    number = int.from_bytes(octets)
    kept = number >> (bits - width) << (bits - width)
    if family == socket.AF_INET6 and kept >> 32 == _IPV4_MAPPED:
        raise ValueError(f"'{text}' is an IPv4-mapped IPv6 prefix; write it as IPv4")
    network = f"{socket.inet_ntop(family, kept.to_bytes(len(octets)))}/{width}"
    if kept != number:
        raise ValueError(f"'{text}' has bits set beyond its length; {network} would contain it")
    return network


def describe(customer: str, site: str, tags: Iterable[str], national: bool) -> Description:
    """A declaration with sorted tags. Raises ValueError if a name is too long or holds control characters."""
    customer, site = customer.strip(), site.strip()
    labels = tuple(sorted({tag.strip() for tag in tags if tag.strip()}))
    for what, name in (("customer", customer), ("site", site), *(("tag", tag) for tag in labels)):
        if len(name) > _LONGEST:
            raise ValueError(f"the {what} '{name[:20]}…' is longer than {_LONGEST} characters")
        if not name.isprintable():
            raise ValueError(f"the {what} {name!r} holds unprintable characters")
    if any(";" in tag or " " in tag for tag in labels):
        raise ValueError("a tag may not hold spaces or semicolons")
    return Description(customer, site, labels, national)


def read_file(path: Path) -> dict[str, Description]:
    """Read a CSV file with the columns of COLUMNS in any order; only `prefix` is required.

    Tags are separated by spaces or semicolons. Raises WeirError with the line's number if any line is wrong; no line of
    the file then takes effect.
    """
    found: dict[str, Description] = {}
    lines: dict[str, int] = {}
    errors: list[str] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            header = [name.strip().lower() for name in next(rows, [])]
            if "prefix" not in header or not set(header) <= set(COLUMNS) or len(set(header)) < len(header):
                raise WeirError(
                    f"{path}:1: the first line must name the columns", hint=f"it should be: {','.join(COLUMNS)}"
                )
            for row in rows:
                if not row:
                    continue
                try:
                    prefix, description = _row(header, row)
                    if prefix in found:
                        raise ValueError(f"{prefix} was already on line {lines[prefix]}")
                    found[prefix], lines[prefix] = description, rows.line_num
                except ValueError as error:
                    errors.append(f"{path}:{rows.line_num}: {error}")
    except OSError as error:
        raise WeirError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WeirError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from error
    except csv.Error as error:
        raise WeirError(f"{path}:{rows.line_num}: {error}") from error
    if errors:
        more = f" (and {len(errors) - 1} more lines are wrong)" if len(errors) > 1 else ""
        raise WeirError(errors[0] + more, hint="nothing was changed")
    return found


def _row(header: list[str], row: list[str]) -> tuple[str, Description]:
    if len(row) != len(header):
        raise ValueError(f"{len(row)} columns where the first line names {len(header)}")
    cells = dict(zip(header, row, strict=True))
    word = cells.get("national", "").strip().lower()
    if word not in _WORDS:
        raise ValueError(f"national must be true or false, not '{word}'")
    tags = cells.get("tags", "").replace(";", " ").split()
    description = describe(cells.get("customer", ""), cells.get("site", ""), tags, _WORDS[word])
    return canonical(cells["prefix"]), description


def write_file(entries: dict[str, Entry], out: Any) -> None:
    """Write the CSV that `read_file` reads."""
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    for prefix, entry in sorted_entries(entries):
        said = entry.description
        rows.writerow([prefix, said.customer, said.site, " ".join(said.tags), str(said.national).lower()])


def sorted_entries(entries: dict[str, Entry]) -> list[tuple[str, Entry]]:
    """Sort key: by address, IPv4 first."""

    def place(item: tuple[str, Entry]) -> tuple[int, int, int]:
        network = ipaddress.ip_network(item[0])
        return network.version, int(network.network_address), network.prefixlen

    return sorted(entries.items(), key=place)


def table(entries: dict[str, Entry]) -> Table:
    """One row per prefix."""
    drawn = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("prefix", "id", "customer", "site", "tags", "national"):
        drawn.add_column(name)
    for prefix, entry in sorted_entries(entries):
        said = entry.description
        national = "yes" if said.national else ""
        drawn.add_row(prefix, str(entry.id), said.customer, said.site, " ".join(said.tags), national)
    return drawn


def declared(brokers: Brokers) -> dict[str, Entry]:
    """The current declarations, by prefix. Leaves out entries that it cannot read; the jobs cannot read them either."""
    found = {}
    for prefix, value in kafka.compacted(brokers, TOPIC).items():
        with contextlib.suppress(DecodeError, ValueError):
            message = Prefix.FromString(value)
            if message.major == 1 and canonical(prefix) == message.prefix:
                said = Description(message.customer, message.site, tuple(message.tags), message.national)
                found[prefix] = Entry(said, message.id, message.customer_id, message.site_id)
    return found


@dataclass
class Changes:
    """The result of a command."""

    set: dict[str, Entry]
    removed: list[str]
    unchanged: int

    def __str__(self) -> str:
        return f"{len(self.set):,} set, {len(self.removed):,} removed, {self.unchanged:,} unchanged"


def changes(
    before: dict[str, Entry], wanted: dict[str, Description], removed: Iterable[str], numbers: Numbers
) -> Changes:
    """The changes that establish `wanted` and delete `removed`; only changed prefixes get a new id."""
    for entry in before.values():
        numbers.know(entry)
    differing = {
        prefix: said for prefix, said in wanted.items() if prefix not in before or before[prefix].description != said
    }
    return Changes(
        {prefix: numbers.number(said) for prefix, said in differing.items()},
        [prefix for prefix in removed if prefix in before],
        len(wanted) - len(differing),
    )


def apply(
    stack: Stack,
    wanted: dict[str, Description],
    *,
    removed: Iterable[str] = (),
    replace: bool = False,
    progress: Progress = lambda _what, _done, _all: None,
) -> Changes:
    """Establish `wanted`: write the names to ClickHouse first, then the declarations to the topic, which the jobs
    follow.

    `replace` also removes prefixes that are not in `wanted`. Only one such command can run at a time, because each
    takes the next free ids. Raises WeirError if Kafka or ClickHouse refuses.
    """
    with locks.held(stack, "prefixes", refused="another command is changing the prefixes"):
        kafka.create_topics(stack.brokers)
        before = declared(stack.brokers)
        store = connect(stack, "writer")
        if replace:
            removed = [prefix for prefix in before if prefix not in wanted]
        planned = changes(before, wanted, removed, _given_out(store))
        # Names first: an id in a record then has a name from its first moment.
        _store(store, planned.set, progress)
        messages: list[tuple[str, bytes | None]] = [
            (prefix, _message(prefix, entry)) for prefix, entry in planned.set.items()
        ]
        messages += [(prefix, None) for prefix in planned.removed]
        arrived = kafka.publish(
            stack.brokers, TOPIC, messages, lambda done: progress("publishing", done, len(messages))
        )
        if arrived < len(messages):
            raise WeirError(
                f"{TOPIC} accepted {arrived:,} of {len(messages):,} changes", hint="run the command again", status=1
            )
    if planned.set:
        # The store reloads names once a minute; a user with the grant can make it reload now.
        with contextlib.suppress(WeirError):
            for name in ("prefix_names", "customer_names"):
                connect(stack, "admin").execute(f"SYSTEM RELOAD DICTIONARY {name}")
    return planned


def _given_out(store: ClickHouse) -> Numbers:
    """The numbers of every prefix ever declared, removed ones included."""
    last = store.rows("SELECT max(id) AS id FROM prefixes")[0]["id"]
    names = {
        kind: {
            row["name"]: row["number"]
            for row in store.rows(
                f"SELECT {kind} AS name, max({kind}_id) AS number FROM prefixes WHERE {kind}_id != 0 GROUP BY {kind}"
            )
        }
        for kind in ("customer", "site")
    }
    return Numbers(last, names["customer"], names["site"])


def _store(store: ClickHouse, entries: dict[str, Entry], progress: Progress) -> None:
    now = time.time()
    rows = [
        {
            "id": entry.id,
            "prefix": prefix,
            "customer_id": entry.customer_id,
            "customer": entry.description.customer,
            "site_id": entry.site_id,
            "site": entry.description.site,
            "tags": entry.description.tags,
            "national": entry.description.national,
            "since": now,
        }
        for prefix, entry in entries.items()
    ]
    for at in range(0, len(rows), _ROWS_OF_AN_INSERT):
        part = "\n".join(json.dumps(row) for row in rows[at : at + _ROWS_OF_AN_INSERT])
        store.execute(f"INSERT INTO prefixes FORMAT JSONEachRow\n{part}")
        progress("storing names", min(at + _ROWS_OF_AN_INSERT, len(rows)), len(rows))


def _message(prefix: str, entry: Entry) -> bytes:
    message = Prefix(
        major=1,
        prefix=prefix,
        **vars(entry.description),
        id=entry.id,
        customer_id=entry.customer_id,
        site_id=entry.site_id,
    )
    return message.SerializeToString()
