"""Lockout: whoever fails to log in must wait, longer after each failure.

The counts are in a file that all processes of the server share. Three of them belong to each attempt, and the longest
wait holds:

- the account from this address: 5 failures are free;
- this address, whatever the account: 20 are free;
- the account, from wherever: 20 are free.

Each further failure doubles the wait, from 1 s to 15 minutes; an hour without a failure forgets them. The last two do
not hold for an address from which the account has logged in before, nor on the machine itself: so nobody can keep an
account's owner out from elsewhere. An attempt counts before its password is checked, so that many at once gain nothing; success takes the
count back.
"""

from __future__ import annotations

import hashlib
import ipaddress
import sqlite3
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Failures that cost no wait: of an account from one address, and of an address or an account as a whole.
FREE_PAIR, FREE_WHOLE = 5, 20
#: Seconds of the longest wait; after which a count is forgotten; and for which an address is known.
LONGEST, FORGOTTEN, KNOWN = 900, 3600, 90 * 86_400
#: Rows of each table: then the oldest make room.
MOST = 20_000

_HERE = ("address 127.0.0.1", "address ::/64")
_TABLES = """
CREATE TABLE IF NOT EXISTS failures (key TEXT PRIMARY KEY, count INTEGER NOT NULL, at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS failures_at ON failures (at);
CREATE TABLE IF NOT EXISTS known (key TEXT PRIMARY KEY, account TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS known_at ON known (at);
CREATE TABLE IF NOT EXISTS refused (cause TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
"""


class Lockout:
    """The counts in the file `path`, which is made if absent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._changing() as database:
            database.executescript(_TABLES)

    def attempt(self, account: str, address: str, now: float | None = None) -> float:
        """Count an attempt, before its password is checked. Returns 0, or the seconds to wait: then it must be refused, and
        is not counted."""
        now = time.time() if now is None else now
        keys = _keys(account, address)
        with self._changing() as database:
            database.execute("DELETE FROM failures WHERE at < ?", (now - FORGOTTEN,))
            database.execute("DELETE FROM known WHERE at < ?", (now - KNOWN,))
            held = _held(database, keys)
            waits = {}
            for kind, key in held.items():
                row = database.execute("SELECT count, at FROM failures WHERE key = ?", (key,)).fetchone()
                if row:
                    waits[kind] = row[1] + _wait(row[0] + 1, FREE_PAIR if kind == "pair" else FREE_WHOLE) - now
            wait, cause = max(((seconds, kind) for kind, seconds in waits.items()), default=(0.0, ""))
            if wait > 0:
                _count(database, f"login_{cause}")
                return wait
            for key in held.values():
                database.execute(
                    "INSERT INTO failures VALUES (?, 1, ?)"
                    " ON CONFLICT (key) DO UPDATE SET count = count + 1, at = excluded.at",
                    (key, now),
                )
            _bound(database, "failures")
        return 0

    def withdraw(self, account: str, address: str) -> None:
        """Take one attempt's counts back: nobody could say whether it was right."""
        with self._changing() as database:
            for key in _held(database, _keys(account, address)).values():
                database.execute("UPDATE failures SET count = count - 1 WHERE key = ? AND count > 0", (key,))

    def succeeded(self, account: str, address: str, now: float | None = None) -> None:
        """Take the attempt's counts back, and remember the address."""
        now = time.time() if now is None else now
        keys = _keys(account, address)
        with self._changing() as database:
            for key in _held(database, keys).values():
                database.execute("UPDATE failures SET count = count - 1 WHERE key = ? AND count > 0", (key,))
            database.execute("DELETE FROM failures WHERE key = ?", (keys["pair"],))
            database.execute("REPLACE INTO known VALUES (?, ?, ?)", (keys["pair"], keys["account"], now))
            _bound(database, "known")

    def forget(self, account: str, *, known: bool = True) -> None:
        """Let an account in again; known: forget where it was known, too."""
        with self._changing() as database:
            digest = _digest(account)
            database.execute(
                "DELETE FROM failures WHERE key = ? OR key LIKE ?", (f"account {digest}", f"pair {digest} %")
            )
            if known:
                database.execute("DELETE FROM known WHERE account = ?", (f"account {digest}",))

    def count(self, cause: str) -> None:
        """Count a request that was refused for another reason."""
        with self._changing() as database:
            _count(database, cause)

    def refused(self) -> dict[str, int]:
        """Requests refused so far, by cause: login_pair, login_address and login_account are attempts to log in."""
        with self._changing() as database:
            return dict(database.execute("SELECT cause, count FROM refused").fetchall())

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """The database, which no other process changes meanwhile."""
        database = sqlite3.connect(self.path, timeout=10, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = OFF")
            database.execute("BEGIN IMMEDIATE")
            yield database
            if database.in_transaction:
                database.execute("COMMIT")
        finally:
            database.close()


def _held(database: sqlite3.Connection, keys: dict[str, str]) -> dict[str, str]:
    """Those of an attempt's keys by which it is counted."""
    known = database.execute("SELECT 1 FROM known WHERE key = ?", (keys["pair"],)).fetchone()
    return {"pair": keys["pair"]} if known or keys["address"] in _HERE else keys


def _count(database: sqlite3.Connection, cause: str) -> None:
    database.execute("INSERT INTO refused VALUES (?, 1) ON CONFLICT (cause) DO UPDATE SET count = count + 1", (cause,))


def _wait(count: int, free: int) -> float:
    """Seconds between a failure and the next attempt, which is number `count`."""
    beyond = count - free
    return float(min(2 ** min(beyond - 1, 30), LONGEST)) if beyond > 0 else 0


def _keys(account: str, address: str) -> dict[str, str]:
    digest, network = _digest(account), _network(address)
    return {"pair": f"pair {digest} {network}", "address": f"address {network}", "account": f"account {digest}"}


def spelled(account: str) -> str:
    """One spelling of all those that a directory may take for the same name: without case, width, invisible characters and
    further spaces (RFC 4518, section 2)."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", account).casefold())
    seen = "".join(one for one in folded if one.isspace() or unicodedata.category(one) not in ("Cc", "Cf", "Mn"))
    return " ".join(seen.split())


def _digest(account: str) -> str:
    """Not the name itself: people type passwords there."""
    return hashlib.sha256(spelled(account).encode(errors="replace")).hexdigest()[:32]


def _network(address: str) -> str:
    """An address; of IPv6 the network of 64 bits, all of which one host may use."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return "none"
    if found.version == 6 and found.ipv4_mapped:
        found = found.ipv4_mapped
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))


def _bound(database: sqlite3.Connection, table: str) -> None:
    (rows,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
    if rows > MOST:
        # A tenth at once, so that a flood does not sort the table at each attempt.
        database.execute(
            f"DELETE FROM {table} WHERE key IN (SELECT key FROM {table} ORDER BY at LIMIT ?)", (rows - MOST * 9 // 10,)
        )
