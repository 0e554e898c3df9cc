"""The second place of the audit: its end and each day's, noted where the store cannot write; what is verified against it.

The store's front writes the audit (`clickhouse/embedded/weir_clickhouse/audit.py`); who gains the store's rights could
write it anew, with hashes that match. Therefore the service `storage` reads on every minute and notes number and hash of
the last entry in `audit-heads.json`. From then on, no earlier entry can be changed or removed without being found.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import os
import pwd
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import prometheus_client

from weir import locks
from weir.config import Stack
from weir.errors import WeirError
from weir.schema import chain

#: Seconds between two notes.
EVERY_S = 60
#: Entries that one action lists.
_LISTED = 1000

_NOTED = prometheus_client.Gauge("weir_audit_noted_entry", "Number of the last entry of the audit that was noted")
_NOTED_AT = prometheus_client.Gauge(
    "weir_audit_noted_timestamp_seconds", "Time at which the audit was last found whole"
)
_BROKEN = prometheus_client.Gauge("weir_audit_broken", "1 if new entries do not follow those noted before; else 0")


@dataclass
class Heads:
    """What is noted. begin: from where on the audit is verified, if not from its first entry. last, last_hash: the last entry.
    days: number and hash of each day's last entry. accepted: breaks that an operator accepted, with the reason."""

    begin: chain.Place | None = None
    last: chain.Place | None = None
    last_hash: str = ""
    noted: str = ""
    days: dict[str, tuple[int, str]] = field(default_factory=dict)
    accepted: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def load(cls, file: Path) -> Heads:
        """What the file holds; nothing if there is none. Raises WeirError."""
        try:
            tree = json.loads(file.read_text())
            places = {name: chain.Place(**tree[name]) if tree[name] else None for name in ("begin", "last")}
            days = {day: (int(number), str(own)) for day, (number, own) in tree["days"].items()}
            return cls(places["begin"], places["last"], tree["last_hash"], tree["noted"], days, tree["accepted"])
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise WeirError(f"{file}: cannot be read ({type(error).__name__}: {error})") from error

    def save(self, file: Path) -> None:
        """Replace the file; after a crash it is the old or the new one."""
        tree = {name: vars(value) if isinstance(value, chain.Place) else value for name, value in vars(self).items()}
        new = file.with_suffix(".new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
            json.dump(tree, opened, indent=1)
            opened.flush()
            os.fsync(opened.fileno())
        new.replace(file)

    def note(self, found: chain.Found) -> None:
        """Take over the end of what was found whole."""
        if found.last is not None:
            self.last, self.last_hash, self.noted = found.last.place, found.last.hash, _now()
            self.days |= found.days

    def expected(self) -> list[tuple[int, str]]:
        """The entries whose hashes are known."""
        return [*self.days.values(), *([(self.last.number, self.last_hash)] if self.last else [])]


def here(stack: Stack) -> bool:
    """Whether this stack's store writes an audit: the embedded one does, a clickhouse-server does not."""
    return not stack.config.clickhouse.url


@contextmanager
def _alone(stack: Stack) -> Iterator[Heads]:
    """What is noted, which no other process changes meanwhile. Raises WeirError if there is no audit."""
    if not here(stack):
        raise WeirError(
            "only the embedded store writes an audit; this stack uses the server at clickhouse.url",
            hint="a clickhouse-server has system.query_log and system.session_log",
        )
    try:
        with locks.held(stack, "audit"):
            if not stack.audit.is_dir():
                raise WeirError(f"there is no audit yet: {stack.audit} does not exist", hint="weir up starts the store")
            yield Heads.load(stack.audit_heads)
    except OSError as error:
        raise WeirError(
            f"the audit cannot be read: {error}", hint="run weir as the user who started the stack"
        ) from error


def verify(stack: Stack) -> tuple[chain.Found, Heads]:
    """Check every kept entry, and note the end if all is whole. Raises WeirError if there is no audit."""
    with _alone(stack) as heads:
        found = chain.walk(stack.audit, heads.begin, heads.expected(), _prover(stack))
        if not found.breaks:
            heads.note(found)
            heads.save(stack.audit_heads)
        return found, heads


def follow(stack: Stack) -> chain.Found:
    """Check the entries since the noted one, itself included, and note the new end if they are whole. Raises WeirError."""
    with _alone(stack) as heads:
        found = chain.walk(stack.audit, heads.last or heads.begin, heads.expected()[-1:], _prover(stack))
        if not found.breaks and found.last and found.last.hash != heads.last_hash:
            heads.note(found)
            heads.save(stack.audit_heads)
        return found


def accept(stack: Stack, reason: str) -> list[chain.Break]:
    """Verify from behind the last break on, from now on; the breaks stay noted, with the reason. Returns them. Raises
    WeirError."""
    with _alone(stack) as heads:
        found = chain.walk(stack.audit, heads.begin, heads.expected(), _prover(stack))
        if found.breaks:
            begin = _sound_end(stack)
            texts = [str(one) for one in found.breaks]
            heads.accepted.append({"time": _now(), "person": person(), "reason": reason, "breaks": texts})
            heads.begin, heads.last, heads.last_hash, heads.days = begin, None, "", {}
            heads.note(chain.walk(stack.audit, begin))
            heads.save(stack.audit_heads)
        return found.breaks


def _sound_end(stack: Stack) -> chain.Place | None:
    """Where the longest unbroken end of the audit begins; None if there are no entries."""
    begin: chain.Place | None = None
    before: chain.Entry | None = None
    for day, start, raw in chain.lines(stack.audit):
        one = chain.parsed(raw, day, start) if raw.endswith(b"\n") else None
        if one is None:
            continue
        follows = before and (one.place.number, one.place.previous) == (before.place.number + 1, before.hash)
        if not follows or begin is None:
            begin = one.place
        before = one
    if begin is not None and before is not None and chain.walk(stack.audit, begin, (), _prover(stack)).breaks:
        return before.place
    return begin


def expire(stack: Stack, now: float) -> Iterator[str]:
    """Delete the files of days older than `storage.audit_days`, but never the newest; note first where the rest begins.
    Yields one line per file. Raises WeirError if the rest does not follow what is deleted: then nothing is."""
    if not here(stack) or not stack.audit.is_dir():
        return
    oldest = datetime.fromtimestamp(now - stack.config.storage.audit_days * 86_400, UTC).strftime("%Y-%m-%d")
    kept = chain.days(stack.audit)
    old = [day for day in kept[:-1] if day < oldest]
    if not old:
        return
    with _alone(stack) as heads:
        # Only what was noted may go: the store could give other days the names of old ones.
        found = chain.walk(stack.audit, heads.begin, heads.expected(), _prover(stack))
        noted = {day: head for day, head in heads.days.items() if day <= old[-1]}
        first = next(chain.entries(stack.audit, chain.Place(kept[len(old)], 0, 0, "")), None)
        if found.breaks or first is None or {day: found.days.get(day) for day in old} != noted:
            raise WeirError(
                "the audit's old days are not those that were noted: no file is deleted",
                hint="weir audit verify says where",
                status=1,
            )
        heads.begin = first.place
        heads.days = {day: head for day, head in heads.days.items() if day > old[-1]}
        heads.save(stack.audit_heads)
        for day in old:
            chain.path(stack.audit, day).unlink(missing_ok=True)
            yield f"dropped audit {day}: older than storage.audit_days"


def keep_noting(stack: Stack, stopping: threading.Event) -> None:
    """Note the audit's end every minute until `stopping`; what is wrong is logged once, and a metric."""
    said = ""
    while here(stack):
        try:
            found = follow(stack)
            trouble = "; ".join(map(str, found.breaks[:3]))
            _BROKEN.set(bool(trouble))
            if not trouble:
                _NOTED_AT.set_to_current_time()
            if found.last and not trouble:
                _NOTED.set(found.last.place.number)
        except WeirError as error:
            trouble = str(error)
        except Exception as error:  # the store wrote what is read here: nothing in it may end this thread
            trouble = f"{type(error).__name__}: {error}"
            _BROKEN.set(1)
        if trouble and trouble != said:
            print(f"{_now()} the audit: {trouble}; 'weir audit verify' says more", flush=True)
        said = trouble
        if stopping.wait(EVERY_S):
            return


# ---- what weir itself does to the store ----


def note(stack: Stack, action: str, detail: Mapping[str, Any]) -> int:
    """Write an entry on an action of this command, with the person who runs it; returns its number, 0 if the store has no
    audit. Whatever shows or removes what belongs to persons calls this first. Raises WeirError."""
    if not here(stack):
        return 0
    try:
        return int(_ask(stack, "audit", {"action": action, "person": person(), "detail": dict(detail)})["number"])
    except _RefusedError as why:
        raise WeirError(f"nothing was done: the audit has no entry on it ({why})", status=1) from None


def tell(stack: Stack, action: str, name: str) -> None:
    """Have the store `unlock` a user, whose failed logins it forgets, or `remove` a person. Raises WeirError."""
    try:
        if here(stack):
            _ask(stack, action, {"user": name})
    except _RefusedError as why:
        raise WeirError(f"the store did not {action} {name} ({why})", status=1) from None


class _RefusedError(Exception):
    """The store did not do what it was asked to; the text says why."""


def _ask(stack: Stack, action: str, body: Mapping[str, Any]) -> Any:
    head = {"X-ClickHouse-User": "admin", "X-ClickHouse-Key": stack.password("admin")}
    try:
        answer = httpx.post(f"{stack.clickhouse_url}/weir/{action}", json=body, headers=head, timeout=30)
    except httpx.HTTPError as error:
        raise _RefusedError(type(error).__name__) from None
    if answer.status_code != 200:
        raise _RefusedError(answer.text.strip())
    return answer.json()


def person() -> str:
    """The login name of who runs this command, also behind sudo."""
    if known := os.environ.get("SUDO_USER"):
        return known
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def keyed(stack: Stack, wanted: ipaddress.IPv4Network | ipaddress.IPv6Network) -> str:
    """The digest that stands for an address or prefix: HMAC-SHA-256 under a key of this stack, which the store does not have."""
    return hmac.new(stack.secret("audit-key").encode(), str(wanted).encode(), hashlib.sha256).hexdigest()


def erase(stack: Stack, wanted: ipaddress.IPv4Network | ipaddress.IPv6Network) -> int:
    """Erase the texts of all entries that name an address of `wanted`, or a prefix in it; what was asked when by whom stays,
    and so does a keyed digest, by which `weir audit show --address` finds them. Returns how many. Raises WeirError."""
    if not here(stack):
        return 0
    with _alone(stack):
        named = [one for one in chain.entries(stack.audit) if one.text is not None and chain.within(one.text, wanted)]
        for begin in range(0, len(named), _LISTED):
            some = named[begin : begin + _LISTED]
            detail = {"digest": keyed(stack, wanted), "entries": [one.place.number for one in some]}
            note(stack, "erase", {**detail, "proof": _proof(stack, detail)})
            for one in some:
                chain.erase(stack.audit, one)
        return len(named)


def _proof(stack: Stack, detail: Mapping[str, Any]) -> str:
    """What only this side can add to an erasure: who has the store's rights could otherwise remove texts, and say so."""
    return hmac.new(
        stack.secret("audit-erase-key").encode(), chain.canonical(detail).encode(), hashlib.sha256
    ).hexdigest()


def _prover(stack: Stack) -> Callable[[Mapping[str, Any]], bool]:
    """Whether an erasure has its proof."""

    def proven(detail: Mapping[str, Any]) -> bool:
        said = {key: value for key, value in detail.items() if key != "proof"}
        return hmac.compare_digest(str(detail.get("proof")).encode(errors="replace"), _proof(stack, said).encode())

    return proven


def _now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
