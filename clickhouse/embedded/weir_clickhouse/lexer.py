"""ClickHouse's lexis: where a statement's words, strings and comments begin and end.

This module interprets nothing. `refusals.py` decides on these tokens which statements to refuse, so a word inside a string or a
comment is never mistaken for SQL, nor SQL for a comment. Where the text ends inside a string, a comment or an identifier, or
contains a byte that ClickHouse does not accept, it raises `LexicalError`: a doubtful text is refused, not passed on.

The rules are those of the engine (property tests compare both): comments `--`, `//`, `# `, `#!` and `/* */`, also
nested; strings in '…' with `\\` and `''` escapes; identifiers in `…` and "…" likewise; the typographic quotes ‘…’ and
“…”; heredocs $tag$…$tag$; the white space of Unicode.

Time is linear in the length of the text, whatever it contains: its sender may be hostile, and all other requests wait for the
Python interpreter meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple


class Kind(Enum):
    """The kind of a token."""

    WORD = auto()  # a bare word: keyword or identifier
    IDENTIFIER = auto()  # a quoted identifier
    STRING = auto()
    NUMBER = auto()
    SYMBOL = auto()  # one character of punctuation


class Token(NamedTuple):
    """One token and its place in the text, in bytes."""

    kind: Kind
    start: int
    end: int
    #: Upper case for a WORD; the unescaped name for an IDENTIFIER; the character for a SYMBOL; else empty.
    value: str

    def is_word(self, *words: str) -> bool:
        """Whether this is one of these bare words (given in upper case)."""
        return self.kind is Kind.WORD and self.value in words

    def is_symbol(self, character: str) -> bool:
        """Whether this is that character of punctuation."""
        return self.kind is Kind.SYMBOL and self.value == character

    @property
    def is_name(self) -> bool:
        """Whether this may be a name: a bare word or a quoted identifier."""
        return self.kind in (Kind.WORD, Kind.IDENTIFIER)


class LexicalError(ValueError):
    """The text is not lexically valid for ClickHouse; `position` is the byte at which the invalid token begins.

    `cut` is true if the text merely ended too early.
    """

    def __init__(self, message: str, position: int, *, cut: bool = False) -> None:
        super().__init__(message)
        self.position = position
        self.cut = cut


_DIGITS = frozenset(b"0123456789")
_HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")
_WORD_START = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_WORD = _WORD_START | _DIGITS | frozenset(b"$")
_UNICODE_SPACE = b"|".join(
    chr(code).encode()
    for code in (*(0x85, 0xA0, 0x180E, *range(0x2000, 0x200E), 0x2028, 0x2029, 0x202F, 0x205F, 0x2060, 0x3000, 0xFEFF),)
)
_CURLY = {"‘".encode(): ("’".encode(), Kind.STRING), "“".encode(): ("”".encode(), Kind.IDENTIFIER)}
_MINUS = "−".encode()
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "0": "\0", "a": "\a", "v": "\v", "e": "\x1b"}

#: The tokens of most texts; other octets are examined one by one. No alternative can match in two ways, and nothing
#: backtracks (`*+`), so a truncated text costs no more than a whole one.
_COMMON = re.compile(
    rb"(?P<space>(?:[ \t\n\r\f\v]|" + _UNICODE_SPACE + rb")++|(?:--|//|\#[ !])[^\n]*+)"
    rb"|(?P<hexadecimal>[xXbB]'[^']*+')"
    rb"|(?P<word>(?![xXbB]')[A-Za-z_][A-Za-z0-9_$]*+)"
    rb"|(?P<integer>[0-9]++(?![0-9A-Za-z_.]))"
    rb"|(?P<string>'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+')"
    rb"|(?P<identifier>`[^`\\]*+(?:(?:\\.|``)[^`\\]*+)*+`|\"[^\"\\]*+(?:(?:\\.|\"\")[^\"\\]*+)*+\")"
    rb"|(?P<comment>/\*)"
    rb"|(?P<symbol>[()\[\]{},;*+\-/%=<>!?:|@^&~\\]|\.(?![0-9]))",
    re.DOTALL,
)
_COMMENT = re.compile(rb"/\*|\*/")
_TAG = re.compile(rb"(?=(\$[A-Za-z0-9_]*+\$))")


def tokens(text: bytes, start: int = 0) -> Iterator[Token]:
    """The tokens of `text` from `start` on, without white space and comments.

    Raises LexicalError at the first invalid place, after yielding the tokens before it.
    """
    at, size = start, len(text)
    before: Token | None = None
    heredocs: _Heredocs | None = None
    while at < size:
        found = _COMMON.match(text, at)
        if found is None:
            byte = text[at]
            if byte in _DIGITS or (byte == 0x2E and _begins_number(before)):
                end, kind = _number(text, at, after_dot=before is not None and before.is_symbol("."))
                before = Token(kind, at, end, text[at:end].decode().upper() if kind is Kind.WORD else "")
            elif byte == 0x2E:
                before = Token(Kind.SYMBOL, at, at + 1, ".")
            elif byte == 0x24:
                heredocs = heredocs or _Heredocs(text)
                end = heredocs.end(at)
                before = Token(Kind.STRING, at, end, "") if end else Token(Kind.SYMBOL, at, at + 1, "$")
            else:
                before = _rare(text, at)
            yield before
            at = before.end
            continue
        kind_of, at, begin = found.lastgroup, found.end(), at
        if kind_of == "space":
            continue
        if kind_of == "comment":
            at = _comment(text, begin)
            continue
        if kind_of == "word":
            before = Token(Kind.WORD, begin, at, found[0].decode().upper())
        elif kind_of == "symbol":
            before = Token(Kind.SYMBOL, begin, at, chr(text[begin]))
        elif kind_of == "integer":
            before = Token(Kind.NUMBER, begin, at, "")
        elif kind_of == "identifier":
            before = Token(Kind.IDENTIFIER, begin, at, unescape(text[begin + 1 : at - 1], chr(text[begin])))
        else:
            before = Token(Kind.STRING, begin, at, "")
        yield before


def _rare(text: bytes, at: int) -> Token:
    """The typographic token at `at`; raises if there is none, or if a quote of any kind is not closed."""
    three = text[at : at + 3]
    if three in _CURLY:
        close_mark, kind = _CURLY[three]
        close = text.find(close_mark, at + 3)
        if close >= 0:
            inner = text[at + 3 : close].decode(errors="surrogateescape")
            return Token(kind, at, close + 3, inner if kind is Kind.IDENTIFIER else "")
    elif three == _MINUS:
        return Token(Kind.SYMBOL, at, at + 3, "-")
    elif text[at] not in b"'`\"xXbB":
        raise LexicalError("Unrecognized token", at, cut=len(three) < 3 and text[at] >= 0x80)
    raise LexicalError("Quote is not closed", at, cut=True)


def _comment(text: bytes, at: int) -> int:
    """The end of the comment at `at`, including nested ones."""
    depth = 0
    for mark in _COMMENT.finditer(text, at):
        depth += 1 if mark[0] == b"/*" else -1
        if not depth:
            return mark.end()
    raise LexicalError("Comment is not closed", at, cut=True)


class _Heredocs:
    """The dollars of a text that begin a heredoc: found in one pass for all of them, then looked up one by one."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._last = {found[1]: found.start() for found in _TAG.finditer(text)}

    def end(self, at: int) -> int:
        """The end of the heredoc whose first dollar is at `at`; 0 if the dollar begins none."""
        found = _TAG.match(self._text, at)
        if found is None or self._last[found[1]] < at + len(found[1]):
            return 0
        return self._text.find(found[1], at + len(found[1])) + len(found[1])


def unescape(raw: bytes, quote: str) -> str:
    """The text in quotes: the name of an identifier, the content of a string."""
    text = raw.decode(errors="surrogateescape")
    if "\\" not in text and quote not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            nxt = text[at + 1]
            if nxt == "N":
                # The engine's sign for NULL, which leaves no text.
                at += 2
                continue
            if nxt == "x" and at + 3 < len(text):
                try:
                    out.append(chr(int(text[at + 2 : at + 4], 16)))
                    at += 4
                    continue
                except ValueError:
                    pass
            out.append(_ESCAPES.get(nxt, nxt))
            at += 2
        elif char == quote:
            out.append(quote)
            at += 2
        else:
            out.append(char)
            at += 1
    return "".join(out)


def _run(text: bytes, at: int, allowed: frozenset[int]) -> int:
    while at < len(text) and text[at] in allowed:
        at += 1
    return at


def _begins_number(before: Token | None) -> bool:
    """Whether a point before a digit begins a number; after a name, a number or a bracket it selects a part of it."""
    return before is None or not (before.is_name or before.kind is Kind.NUMBER or before.is_symbol(")") or before.is_symbol("]"))


def _digits(text: bytes, at: int, allowed: frozenset[int], *, first: bool) -> int:
    """The end of a run of digits with single underscores between them; `first`: no underscore may come first."""
    while at < len(text):
        if text[at] in allowed:
            first = False
        elif text[at] != 0x5F or first or at + 1 >= len(text) or text[at + 1] not in allowed:
            break
        at += 1
    return at


def _number(text: bytes, at: int, *, after_dot: bool) -> tuple[int, Kind]:
    """The end of the number at `at`, or of the word that begins like one (1st_place)."""
    begin, allowed, exponents = at, _DIGITS, b"eE"
    if text[at] == 0x2E:
        at = _digits(text, at + 1, allowed, first=True)
    elif after_dot:
        # The second part of t.1.2 is two numbers, not 1.2.
        at = _digits(text, at + 1, allowed, first=False)
        allowed = frozenset()
    else:
        first = False
        if text[at : at + 2] in (b"0x", b"0X") and text[at + 2 : at + 3] and text[at + 2] in _HEX_DIGITS:
            at, allowed, exponents, first = at + 2, _HEX_DIGITS, b"pP", True
        elif text[at : at + 2] in (b"0b", b"0B") and text[at + 2 : at + 3] in (b"0", b"1"):
            at, first = at + 2, True
        else:
            at += 1
        at = _digits(text, at, allowed, first=first)
        if text[at : at + 1] == b".":
            at = _digits(text, at + 1, allowed, first=True)
    if allowed and at + 1 < len(text) and text[at] in exponents:
        at += 1
        if at + 1 < len(text) and text[at] in b"+-":
            at += 1
        at = _digits(text, at, _DIGITS, first=True)
    end = _run(text, at, _WORD - frozenset(b"$"))
    if end == at or text[begin] == 0x2E:
        return at, Kind.NUMBER
    if set(text[begin:end]) <= _WORD:
        return end, Kind.WORD
    raise LexicalError("Wrong number", begin)
