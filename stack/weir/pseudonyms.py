"""Pseudonyms of addresses (Crypto-PAn) as agents and jobs make them, and the shares of the key that turn one back.

`capture/src/privacy/` makes the same ones. The stack does not keep the key: two of the people who hold a share of it
(SLIP-39, Shamir's secret sharing) bring theirs, and the audit has their names before anything is shown.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from shamir_mnemonic import MnemonicError, combine_mnemonics, generate_mnemonics

from weir.config import Stack
from weir.errors import WeirError
from weir.private import write_new

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Octets of a key.
KEY_OCTETS = 32
#: Shares that it takes.
THRESHOLD = 2
#: People who may hold one: SLIP-39 knows no more.
MOST_HOLDERS = 16
#: HKDF's `info`, before the number of the period in 8 octets: as in `capture/src/privacy/mod.rs`.
_INFO = b"weir cryptopan period "


class CryptoPan:
    """Prefix-preserving pseudonyms under one key of 32 octets (Fan, Xu, Ammar and Moon 2002)."""

    def __init__(self, key: bytes) -> None:
        # Each block is a message of its own: what ECB is for.
        self._cipher = Cipher(algorithms.AES(key[:16]), modes.ECB()).encryptor()
        self._pad = int.from_bytes(self._cipher.update(key[16:]), "big")

    def _flip(self, before: int, bits: int) -> int:
        """Whether the bit changes that follows the first `bits` bits, which `before` has at its top, of 128."""
        mask = ((1 << bits) - 1) << (128 - bits)
        block = (before & mask) | (self._pad & ~mask)
        return self._cipher.update(block.to_bytes(16, "big"))[0] >> 7

    def _turn(self, bits: int, wide: int, length: int, *, back: bool) -> int:
        """The first `length` bits of an address of `wide` bits, replaced or turned back."""
        given, out = bits << (128 - wide), 0
        for at in range(length):
            place = 127 - at
            out |= (given >> place & 1 ^ self._flip(out if back else given, at)) << place
        return out >> (128 - wide)

    def pseudonym(self, address: Address) -> Address:
        """The pseudonym of an address."""
        return type(address)(self._turn(int(address), address.max_prefixlen, address.max_prefixlen, back=False))

    def address(self, pseudonym: Address) -> Address:
        """The address of a pseudonym."""
        return type(pseudonym)(self._turn(int(pseudonym), pseudonym.max_prefixlen, pseudonym.max_prefixlen, back=True))

    def network(self, network: Network) -> Network:
        """The prefix that the pseudonyms of a prefix's addresses share."""
        first = self._turn(int(network.network_address), network.max_prefixlen, network.prefixlen, back=False)
        return type(network)((first, network.prefixlen))


def period(at: datetime, seconds: int) -> int:
    """The number of the period of `seconds` that a time is in; 0 if there is only one (`seconds` is 0)."""
    return int(at.timestamp()) // seconds if seconds else 0


def period_key(master: bytes, seconds: int, number: int) -> bytes:
    """The key of a period; the master key itself if there is only one."""
    if not seconds:
        return master
    return HKDF(hashes.SHA256(), KEY_OCTETS, None, _INFO + number.to_bytes(8, "big")).derive(master)


def time(text: str) -> datetime:
    """A time as ISO 8601, UTC unless it says otherwise. Raises WeirError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise WeirError(f"'{text}' is not a time", hint="such as 2026-11-27T08:00:00") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


# ---- the key and its shares ----


def read_key(path: Path) -> bytes:
    """The master key in a file, as `weir-probe` and `nfanon -K` take it. Raises WeirError."""
    try:
        text = path.read_bytes().rstrip()
    except OSError as error:
        raise WeirError(f"cannot read {path}: {error.strerror}") from error
    if len(text) == KEY_OCTETS:
        return text
    try:
        key = bytes.fromhex(text.removeprefix(b"0x").decode("ascii")) if text.startswith(b"0x") else b""
    except ValueError:
        key = b""
    if len(key) != KEY_OCTETS:
        raise WeirError(f"{path} holds no key", hint="32 characters, or 0x and 64 hexadecimal digits")
    return key


def split(stack: Stack, key_file: Path, holders: list[str], folder: Path) -> list[Path]:
    """Write a share of the key for each holder into `folder`, of which two give the key, and note whose is whose; makes the
    key if the file does not exist. Returns the files. Raises WeirError."""
    if not THRESHOLD <= len(holders) <= MOST_HOLDERS:
        raise WeirError(f"a key is split among {THRESHOLD} to {MOST_HOLDERS} people", hint="--holder anna --holder ben")
    if len(set(holders)) != len(holders) or not all(name.isprintable() and name.strip("./ ") for name in holders):
        raise WeirError("each holder needs a name of their own")
    files = [folder / f"{name.replace('/', '-')}.share" for name in holders]
    if taken := [file for file in {*files} if file.exists()]:
        raise WeirError(f"{taken[0]} exists: nothing was written")
    if len({*files}) != len(files):
        raise WeirError("each holder needs a name of their own")
    if not key_file.exists():
        write_new(key_file, f"0x{secrets.token_hex(KEY_OCTETS)}\n")
    (shares,) = generate_mnemonics(1, [(THRESHOLD, len(holders))], read_key(key_file))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    known = _holders(stack) | {_digest(share): name for share, name in zip(shares, holders, strict=True)}
    stack.prepare()
    new = _register(stack).with_suffix(".new")
    new.unlink(missing_ok=True)
    write_new(new, json.dumps(known, indent=1))
    new.replace(_register(stack))
    for file, share in zip(files, shares, strict=True):
        write_new(file, share + "\n")
    return files


def _register(stack: Stack) -> Path:
    """Whose share is whose, by digests of the shares: these tell nothing of a key."""
    return stack.home / "privacy-holders.json"


def _digest(share: str) -> str:
    return hashlib.sha256(share.encode()).hexdigest()


def _holders(stack: Stack) -> dict[str, str]:
    """Names by the digests of their shares. Raises WeirError."""
    try:
        found = json.loads(_register(stack).read_text())
        return {str(digest): str(name) for digest, name in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        raise WeirError(f"{_register(stack)}: cannot be read ({type(error).__name__})") from error


@dataclass(frozen=True)
class Opened:
    """A master key, and the names of the people whose shares opened it."""

    master: bytes
    holders: tuple[str, ...]


def opened(stack: Stack, shares: list[str]) -> Opened:
    """The key that the shares of two people give. Raises WeirError if they give none, or nobody is known to hold one."""
    words = [" ".join(share.split()) for share in shares]
    known = _holders(stack)
    names = [known.get(_digest(share)) for share in words]
    if len({name for name in names if name}) < THRESHOLD:
        whose = ", ".join(sorted({name for name in names if name})) or "nobody"
        raise WeirError(
            f"nothing is shown: it takes the shares of {THRESHOLD} people, and these are of {whose}",
            hint="--share FILE twice; weir privacy split makes shares and notes whose they are",
        )
    try:
        master = combine_mnemonics(words)
    except (MnemonicError, ValueError) as error:
        raise WeirError(f"nothing is shown: these shares give no key ({error})") from None
    return Opened(master, tuple(name for name in names if name))
