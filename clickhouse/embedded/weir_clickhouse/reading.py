"""The statement of a request, from its URL and body; this does not read the data that follow."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from .body import bounded
from .errors import ServerError
from .lexer import Kind, LexicalError, Token, tokens
from .refusals import after_semicolon, refuse_values
from .statement import Incomplete, Statement, parse

#: Longest statement without data, octets: the engine's own bound by default, and as far as max_query_size can raise it.
_STATEMENT, _LONGEST_STATEMENT = 256 << 10, 1 << 20
#: Up to this size the values of an administrator's INSERT may be expressions, octets: they are searched first.
_EXPRESSIONS = 1 << 20
#: Up to this size, parse a statement again with each piece; later whenever it has doubled, so that its length
#: costs linear time, however it is cut.
_SMALL = 1 << 10
#: The rest of a string, up to its closing quote; and values up to a semicolon, or to a string that is cut off.
#: Not with possessive groups, which Python before 3.11.5 matches wrongly; each step can continue in only one way, so
#: none takes long.
_QUOTED = re.compile(rb"(?s:[^'\\]*(?:\\.[^'\\]*)*)")
_OUTSIDE = re.compile(rb"(?s:[^';]*(?:'[^'\\]*(?:\\.[^'\\]*)*'[^';]*)*)")


def statement(params: Mapping[str, str], pieces: Iterator[bytes]) -> tuple[Statement, Iterator[bytes]]:
    """The statement of a request with these parameters and this body, and the data that follow it.

    Raises ServerError, of `pieces` too.
    """
    longest = _longest(params)
    query = params.get("query")
    if query is not None:
        text = query.encode("utf-8", "surrogateescape")
        if text.strip():
            found = _parse(text, longest, complete=True)
            if found.data >= 0:
                # Data may begin in the URL and continue in the body.
                return found, _joined(text[found.data :], pieces)
            # A statement may be continued by the body.
            rest = b"".join(bounded(pieces, longest))
            if not rest.strip():
                return found, iter(())
            text += b"\n" + rest
            found = _parse(text, longest, complete=True)
            return found, iter((text[found.data :],) if found.data >= 0 else ())
    head = bytearray()
    tried = 0
    for piece in pieces:
        head += piece
        if _SMALL <= len(head) < 2 * tried:
            continue
        tried = len(head)
        with suppress(Incomplete):
            text = bytes(head)
            found = _parse(text, longest, complete=False)
            return found, _joined(text[found.data :], pieces)
    text = bytes(head)
    found = _parse(text, longest, complete=True)
    return found, iter((text[found.data :],) if found.data >= 0 else ())


def _longest(params: Mapping[str, str]) -> int:
    """Maximum length of the statement in octets."""
    asked = params.get("max_query_size", "")
    return min(max(_STATEMENT, int(asked[:10]) if asked.isdecimal() else 0), _LONGEST_STATEMENT)


def _parse(text: bytes, longest: int, *, complete: bool) -> Statement:
    """Does what `parse` does, for a text of any length whose statement is short."""
    found = None
    if complete and len(text) <= longest:
        return parse(text, complete=True)
    with suppress(Incomplete):
        found = parse(text[:longest], complete=False)
    if found is None:
        if len(text) <= longest:
            raise Incomplete
        raise ServerError(62, f"Max query size exceeded: the statement is longer than {longest} octets")
    return found


def literals(data: Iterator[bytes]) -> Iterator[bytes]:
    """The same data, values of an INSERT without expressions; raises an error if any follow a semicolon, before the engine sees
    that: it would ignore them, and acknowledge the INSERT.
    """
    quoted = escaped = False
    for piece in filter(None, data):
        at = 0
        if quoted:
            at = _end(_QUOTED, piece, int(escaped))
            quoted = piece[at : at + 1] != b"'"
            at += 1
        if not quoted:
            at = _end(_OUTSIDE, piece, at)
            if piece[at : at + 1] == b";":
                yield piece[:at]
                for rest in itertools.chain([piece[at:]], data):
                    if rest.strip(b"; \t\r\n\f\v"):
                        raise after_semicolon()
                return
            if at < len(piece):
                quoted = True
                at = _end(_QUOTED, piece, at + 1) + 1
        # The search for the closing quote ended at the last octet, a backslash.
        escaped = quoted and at == len(piece)
        yield piece


def _end(pattern: re.Pattern[bytes], text: bytes, begin: int) -> int:
    found = pattern.match(text, begin)
    return found.end() if found else begin


def looked_through(data: Iterator[bytes]) -> tuple[Iterator[bytes], bool]:
    """The same data, and whether they were small enough to search; raises an error if they must not be accepted."""
    held = bytearray()
    for piece in data:
        held += piece
        if len(held) > _EXPRESSIONS:
            return literals(_joined(bytes(held), data)), False
    refuse_values(bytes(held))
    return iter((bytes(held),)), True


def with_parameters(data: Iterator[bytes]) -> tuple[Iterator[bytes], bool]:
    """The same data, and whether they are small, and consist of literals and parameters ({name:Type}) alone: the engine may
    then read them as expressions. Raises as `literals`."""
    held = bytearray()
    for piece in data:
        held += piece
        if len(held) > _EXPRESSIONS:
            return literals(_joined(bytes(held), data)), False
    whole = bytes(held)
    if b"{" in whole:
        with suppress(LexicalError):
            if _plain(list(tokens(whole))):
                refuse_values(whole)
                return iter((whole,)), True
    return literals(iter((whole,))), False


def _plain(items: Sequence[Token]) -> bool:
    """Whether values consist of literals and parameters."""
    at = 0
    while at < len(items):
        token = items[at]
        if token.is_symbol("{"):
            if at + 3 >= len(items) or not (items[at + 1].is_name and items[at + 2].is_symbol(":")):
                return False
            at += 3
            if items[at].is_word("IDENTIFIER"):
                return False
            while at < len(items) and not items[at].is_symbol("}"):
                if items[at].kind is Kind.SYMBOL and items[at].value not in "(),":
                    return False
                at += 1
        elif token.kind is Kind.SYMBOL:
            if token.value not in "(),[];+-":
                return False
        elif token.is_name and not token.is_word("NULL", "TRUE", "FALSE", "NAN", "INF"):
            return False
        at += 1
    return True


def _joined(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest
