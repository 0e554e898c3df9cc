"""How people, programs and host names write an address in a text: the one list that the audit and `weir forget` share.

The patterns are those of RE2, in which the engine searches the store (`weir forget`); `named` searches a text with them in
Python. They find candidates: whoever uses them parses each, and drops what is none. Standard library only.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from collections.abc import Iterator

#: Numbers with points, and the length of a prefix after them; numbers with hyphens, as in names of hosts. Every four in
#: succession are read, since `host-3-10-66-0-6` may mean the first or the last.
IPV4 = (r"([0-9]+(?:[.][0-9]+){3,})(?:/([0-9]{1,3}))?", r"([0-9]+(?:-[0-9]+){3,})()")
_TAIL = r"(?:[0-9]{1,3}(?:[.][0-9]{1,3}){3}|[0-9A-Fa-f]{1,4})"
_GROUPS = rf"(?:[0-9A-Fa-f]{{1,4}}::?){{1,7}}{_TAIL}?|::(?:[0-9A-Fa-f]{{1,4}}::?){{0,6}}{_TAIL}"
#: At the start of a word; within one; after a word that looks like a group, but begins no address in use.
IPV6 = (
    rf"\b({_GROUPS})(?:/([0-9]{{1,3}}))?",
    rf"({_GROUPS})(?:/([0-9]{{1,3}}))?",
    rf"\b(?:[0-9A-Fa-f]{{1,3}}|[014-9A-Ea-e][0-9A-Fa-f]{{3}}):({_GROUPS})(?:/([0-9]{{1,3}}))?",
)
#: In the name of a host: 2001-db8--7. It begins as addresses of hosts do, since words may precede it.
HYPHENED6 = r"((?:[23][0-9A-Fa-f]{3}|[fF][c-eC-E][0-9A-Fa-f]{2})(?:--?[0-9A-Fa-f]{1,4}\b){1,7}(?:--)?)()"
REVERSED4 = r"(?i)\b([0-9]{1,3})[.]([0-9]{1,3})[.]([0-9]{1,3})[.]([0-9]{1,3})[.]in-addr[.]arpa"
REVERSED6 = r"(?i)((?:[0-9a-f][.]){32})ip6[.]arpa"
#: What a text without any address most often lacks.
WORTH = r"[0-9][.-][0-9]|:|[23fF][0-9A-Fa-f]{3}-|[.]ip6[.]"

#: Addresses listed of one text.
ADDRESSES = 100
#: Octets that are searched at once, and how far back the end of a word is looked for. Other requests may have the interpreter in
#: between: whoever sends a long text must not delay them.
_WINDOW, _WORD = 8 << 10, 512
_SEPARATOR = re.compile(rb"[^0-9A-Za-z.:/%-]")
_WORTH = re.compile(WORTH.encode())
#: No match begins within a number: a long one costs linear time.
_IPV4 = [re.compile(rb"(?<![0-9])" + one.encode()) for one in IPV4]
_IPV6 = [re.compile(one.encode()) for one in IPV6]
#: The address without a bit; a prefix of it is everything.
_EVERYTHING = re.compile(rb"(?<![0-9A-Za-z:.])::(?:/([0-9]|[1-9][0-9]|1[01][0-9]|12[0-8]))?(?![0-9A-Za-z:/])")
_HYPHENED6 = re.compile(HYPHENED6.encode())
_REVERSED4 = re.compile(REVERSED4.encode())
_ARPA6 = re.compile(rb"(?i)ip6[.]arpa")
_NIBBLES = re.compile(rb"(?i)(?:[0-9a-f][.]){32}")
_MAPPED = bytes(10) + b"\xff\xff"
#: Whether an address begins as those in use do: a cast such as a::Date in SQL looks like one.
_IN_USE = re.compile(rb"(?i)[23][0-9a-f]{3}:|f[c-f][0-9a-f]{2}:|64:ff9b:|(?:0{1,4}:){0,5}:?ffff:|::ffff:")

#: An address of 16 octets, and the length of its prefix.
_Found = tuple[bytes, int]


def named(text: bytes, most: int = ADDRESSES) -> tuple[list[str], bool]:
    """The addresses and prefixes that a text names in any notation, IPv4-mapped ones as IPv4; and whether there are more than
    are listed. A prefix with bits beyond its length is an address with a length, as on an interface."""
    out: dict[_Found, None] = {}
    for window in _windows(text):
        for packed, bits in _candidates(window):
            # Both addresses of a network of two belong to hosts.
            is_host = bits >= 127 or int.from_bytes(packed) & ((1 << (128 - bits)) - 1)
            out.setdefault((packed, 128 if is_host else bits))
            if len(out) > most:
                return [_shown(*one) for one in list(out)[:most]], True
    return [_shown(*one) for one in out], False


def _shown(packed: bytes, bits: int) -> str:
    if packed.startswith(_MAPPED) and bits >= 96:
        address: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.IPv4Address(packed[12:])
        return str(address) if bits == 128 else f"{address}/{bits - 96}"
    address = ipaddress.IPv6Address(packed)
    return str(address) if bits == 128 else f"{address}/{bits}"


def _windows(text: bytes) -> Iterator[bytes]:
    """Pieces that together hold every word of the text whole, if it is not too long."""
    at = 0
    while at < len(text):
        end = at + _WINDOW
        if end < len(text):
            cuts = [found.start() for found in _SEPARATOR.finditer(text, end - _WORD, end)]
            end = cuts[-1] if cuts else end
            time.sleep(0)
        piece = text[at:end]
        if _WORTH.search(piece):
            yield piece
        # A word that is too long: what its end may have begun is read again.
        at = end if end >= len(text) or _SEPARATOR.match(text, end) else end - _WORD


def _candidates(text: bytes) -> Iterator[_Found]:
    """The addresses in a piece of text."""
    if b"ip6" in text.lower():
        spans = [(found.start() - 64, found.end()) for found in _ARPA6.finditer(text) if found.start() >= 64]
        for begin, end in reversed(spans):
            if _NIBBLES.fullmatch(text, begin, begin + 64):
                yield bytes.fromhex(text[begin : begin + 64].replace(b".", b"")[::-1].decode()), 128
                text = text[:begin] + b" " + text[end:]
    forward = _REVERSED4.sub(rb"\4.\3.\2.\1", text)
    for pattern in _IPV4:
        for found in pattern.finditer(forward):
            yield from _fours(re.split(rb"[.-]", found[1]), found[2])
    if b":" in text:
        for pattern in _IPV6:
            for found in pattern.finditer(text):
                # Most are times, and cost little.
                if b"::" in found[1] or found[1].count(b":") >= 6:
                    yield from _six(text, found)
        for found in _EVERYTHING.finditer(text):
            yield bytes(16), int(found[1] or 128)
    for found in _HYPHENED6.finditer(text):
        yield from _parsed(found[1].replace(b"-", b":"), 128)


def _fours(numbers: list[bytes], length: bytes) -> Iterator[_Found]:
    octets = [int(one) if len(one := number.lstrip(b"0") or b"0") <= 3 else 256 for number in numbers]
    last = len(octets) - 4
    for four in dict.fromkeys(zip(octets, octets[1:], octets[2:], octets[3:], strict=False)):
        if max(four) <= 255:
            if length and list(four) == octets[last:]:
                bits = int(length)
                if (bits := bits + 96 if bits <= 32 else bits) <= 128:
                    yield _MAPPED + bytes(four), bits
            else:
                yield _MAPPED + bytes(four), 128


def _six(text: bytes, found: re.Match[bytes]) -> Iterator[_Found]:
    # A colon that follows may belong to the text.
    whole = found[1][:-1] if found[1].endswith(b":") and not found[1].endswith(b"::") else found[1]
    after = text[found.end(1) : found.end(1) + 1]
    before = text[found.start(1) - 1 : found.start(1)]
    if (after.isalnum() or after == b"_" or before.isalnum() or before == b"_") and not _IN_USE.match(whole):
        return
    bits = int(found[2]) if found[2] else 128
    if bits <= 128:
        yield from _parsed(whole, bits)


def _parsed(text: bytes, bits: int) -> Iterator[_Found]:
    try:
        yield socket.inet_pton(socket.AF_INET6, text.decode()), bits
    except OSError:
        return
