"""Logins: the users of access.yaml, and people whom a directory or an OpenID Connect provider knows.

Who fails to log in must wait, as at the dashboards (`weir_lockout.py`, which both use); but not programs, those that write
and the dashboards: their passwords are generated, and nobody may keep them out. A login that was right is taken as
right for `recheck_s`, by the same password from the same address, without asking again; so who is removed from the directory
has no access after that time. While the directory does not answer, that holds for `grace_s`.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import queue
import secrets
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import metrics
from .access import Access, User
from .audit import SPEAKS_FOR_OTHERS
from .door import LARGEST, PATIENCE
from .errors import ServerError
from .shared import weir_groups, weir_lockout

#: Seconds for which a login is right without `sign_on`; logins that are remembered.
_RECHECK, _MOST = 60.0, 10_000


@dataclass(frozen=True)
class _Login:
    """A login that was right. digest: of its password; at: when that was known; user: who it is."""

    digest: bytes
    at: float
    user: User


class _DownError(Exception):
    """The directory or the provider does not answer."""


class _BusyError(_DownError):
    """Others ask, so that it could not be asked."""


class People:
    """Everybody who may log in.

    counts: file of the lockout; a file beside it has the owner of each name (`Subjects`). sign_on: the key of weir.yaml; door:
    sockets of door.py. proxy_key: by which a reverse proxy proves itself; '' if there is none.
    """

    def __init__(
        self,
        access: Access,
        counts: Path,
        sign_on: Mapping[str, Any] | None = None,
        door: Iterable[socket.socket] = (),
        proxy_key: str = "",
    ) -> None:
        self._access, self._sign_on = access, sign_on or {}
        self._proxy_key = proxy_key
        self._own = {weir_lockout.spelled(name) for name in access.users}
        self._lockout = weir_lockout.Lockout(counts)
        self._subjects = Subjects(counts.with_name("subjects.db"))
        self._door: queue.Queue[socket.socket] = queue.Queue()
        for one in door:
            one.settimeout(3 * PATIENCE)
            self._door.put(one)
        self._recheck = float(self._sign_on.get("recheck_s", _RECHECK))
        self._grace = float(self._sign_on.get("grace_s", 0))
        self._secret = secrets.token_bytes(16)
        self._logins: dict[tuple[str, str], _Login] = {}
        #: Logins that are being checked: name, address, and digest of the password. Guards `_logins`, too.
        self._checking: set[tuple[str, str, bytes]] = set()
        self._turn = threading.Condition()

    def address(self, peer: str, header: Callable[[str], str | None]) -> str:
        """The address of a client: what a proxy with the key says, else the one that the connection comes from."""
        if not self._proxy_key or not hmac.compare_digest(
            (header("X-Weir-Proxy") or "").encode(errors="replace"), self._proxy_key.encode()
        ):
            return peer
        said = (header("X-Forwarded-For") or "").rpartition(",")[2].strip()
        try:
            return str(ipaddress.ip_address(said))
        except ValueError:
            return peer

    def by_password(self, name: str, password: str, peer: str) -> User:
        """The user of this name and password, coming from the address `peer`. Raises ServerError 516."""
        digest = hmac.digest(self._secret, password.encode(errors="surrogateescape"), "sha256")
        if known := self._remembered(name, peer, digest, self._recheck):
            return known.user
        own = self._access.users.get(name)
        if own and (not own.role.readonly or name == SPEAKS_FOR_OTHERS):
            return self._access.authenticate(name, password, peer)
        # The lockout counts an attempt before its end is known: one client's connections, opened at once, would look like guesses.
        with self._alone((name, peer, digest)):
            if known := self._remembered(name, peer, digest, self._recheck):
                return known.user
            return self._checked(name, password, peer, digest)

    def _remembered(self, name: str, peer: str, digest: bytes, seconds: float) -> _Login | None:
        """The login with this password, if it was right within so many seconds."""
        known = self._logins.get((name, peer))
        if known and hmac.compare_digest(known.digest, digest) and time.monotonic() - known.at < seconds:
            return known
        return None

    @contextmanager
    def _alone(self, login: tuple[str, str, bytes]) -> Iterator[None]:
        """Wait until nobody else checks the same login, but not for ever."""
        with self._turn:
            self._turn.wait_for(lambda: login not in self._checking, PATIENCE)
            self._checking.add(login)
        try:
            yield
        finally:
            with self._turn:
                self._checking.discard(login)
                self._turn.notify_all()

    def _checked(self, name: str, password: str, peer: str, digest: bytes) -> User:
        wait = self._lockout.attempt(name, peer)
        if wait:
            metrics.refused.labels("lockout").inc()
            raise ServerError(516, f"{name}: Authentication failed: too many failed logins, try again in {int(wait) + 1} s")
        try:
            user = self._found(name, password, peer)
        except _BusyError:
            # Strangers can bring this about, so it lets nobody in.
            self._lockout.withdraw(name, peer)
            raise ServerError(516, f"{name}: Authentication failed: too many people log in, try again in a moment") from None
        except _DownError:
            self._lockout.withdraw(name, peer)
            if known := self._remembered(name, peer, digest, self._recheck + self._grace):
                return known.user
            raise ServerError(516, f"{name}: Authentication failed: the directory does not answer") from None
        except ServerError:
            self._forget(name, digest)
            raise
        self._lockout.succeeded(name, peer)
        with self._turn:
            while len(self._logins) >= _MOST:
                self._logins.pop(next(iter(self._logins)))
            self._logins[name, peer] = _Login(digest, time.monotonic(), user)
        return user

    def _forget(self, name: str, digest: bytes) -> None:
        """This password is right no more, from wherever."""
        with self._turn:
            for place, login in list(self._logins.items()):
                if place[0] == name and hmac.compare_digest(login.digest, digest):
                    del self._logins[place]

    def unlock(self, name: str) -> None:
        """Forget the failed logins of a user."""
        self._lockout.forget(name, known=False)

    def remove(self, name: str) -> None:
        """Forget a person: the name may be another's from now on."""
        self._subjects.remove(name)
        with self._turn:
            for place in [place for place in self._logins if weir_lockout.spelled(place[0]) == weir_lockout.spelled(name)]:
                del self._logins[place]

    def by_token(self, token: str) -> User:
        """The person whom the provider's token names. Raises ServerError 516."""
        if not self._sign_on.get("oidc"):
            raise ServerError(516, "Authentication failed: this store takes no tokens")
        try:
            return self._person("somebody with a token", {"token": token})
        except _DownError:
            raise ServerError(516, "Authentication failed: the provider does not answer") from None

    def _found(self, name: str, password: str, peer: str) -> User:
        if name in self._access.users or not self._sign_on.get("ldap"):
            return self._access.authenticate(name, password, peer)
        return self._person(name, {"name": name, "password": password})

    def _person(self, name: str, asked: Mapping[str, str]) -> User:
        try:
            "".join(asked.values()).encode()
        except UnicodeEncodeError:
            raise _nobody(name) from None
        said = self._ask(asked)
        if "refused" in said:
            raise _nobody(name)
        name = str(said["name"])
        if weir_lockout.spelled(name) in self._own or not name.isprintable() or name != name.strip():
            # Its own user has this name, and a password of its own; or it would look like another's in the audit.
            raise _nobody(name)
        if said["subject"] and not self._subjects.are(name, said["subject"]):
            raise ServerError(516, f"{name}: Authentication failed: the name is another person's")
        roles, customers = weir_groups.given(self._sign_on, said["groups"])
        role = self._access.person_role(roles, customers)
        if role is None:
            more = "belong to several customers" if len(customers) > 1 else "give no role at the store"
            raise ServerError(516, f"{name}: Authentication failed: the person's groups {more}")
        return User(name, role, ())

    def _ask(self, asked: Mapping[str, str]) -> dict[str, Any]:
        number = secrets.token_hex(8)
        message = json.dumps({"id": number, **asked}, ensure_ascii=True).encode()
        if len(message) > LARGEST:
            return {"refused": "too long"}
        try:
            here = self._door.get(timeout=PATIENCE)
        except queue.Empty:
            raise _BusyError from None
        try:
            here.send(message)
            while True:
                said: dict[str, Any] = json.loads(here.recv(LARGEST))
                # That of an earlier question came too late.
                if said["id"] == number:
                    break
        except (OSError, ValueError):
            raise _DownError from None
        finally:
            self._door.put(here)
        if said.get("down"):
            raise _DownError
        return said


class Subjects:
    """The first person who came with a name keeps it: the provider's subject for each, in the file `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as database:
            database.execute("CREATE TABLE IF NOT EXISTS subjects (name TEXT PRIMARY KEY, subject TEXT NOT NULL) WITHOUT ROWID")

    def are(self, name: str, subject: str) -> bool:
        """Whether the name is this person's, now at the latest."""
        key = weir_lockout.spelled(name)
        with self._open() as database:
            database.execute("INSERT OR IGNORE INTO subjects VALUES (?, ?)", (key, subject))
            ((known,),) = database.execute("SELECT subject FROM subjects WHERE name = ?", (key,)).fetchall()
        return bool(known == subject)

    def remove(self, name: str) -> None:
        """The name is nobody's."""
        with self._open() as database:
            database.execute("DELETE FROM subjects WHERE name = ?", (weir_lockout.spelled(name),))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self._path, timeout=10)
        try:
            with database:
                yield database
        finally:
            database.close()


def _nobody(name: str) -> ServerError:
    return ServerError(516, f"{name}: Authentication failed: password is incorrect, or there is no user with such name")
