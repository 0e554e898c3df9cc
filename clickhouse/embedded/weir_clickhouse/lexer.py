"""ClickHouse's lexis: where a statement's words, strings and comments begin and end.

Nothing is interpreted here. What is refused is decided in `statement.py` on these tokens, so a word inside a string or
a comment is never mistaken for SQL, nor SQL for a comment. Where the text ends inside a string, a comment or an
identifier, or holds a byte that ClickHouse does not know, `LexicalError` is raised: doubt is refused, not passed on.

The rules are those of the engine (property tests compare both): comments `--`, `//`, `# `, `#!` and `/* */`, one in
another too;
strings in '…' with `\\` and `''` escapes; identifiers in `…` and "…" likewise; the typographic quotes ‘…’ and “…”;
heredocs $tag$…$tag$; the white space of Unicode.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """What a token is."""

    WORD = auto()  # a bare word: keyword or identifier
    IDENTIFIER = auto()  # a quoted identifier
    STRING = auto()
    NUMBER = auto()
    SYMBOL = auto()  # one character of punctuation


@dataclass(frozen=True, slots=True)
class Token:
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
        """Whether this may stand for a name: a bare word or a quoted identifier."""
        return self.kind in (Kind.WORD, Kind.IDENTIFIER)


class LexicalError(ValueError):
    """The text is not ClickHouse's lexis; `position` is the byte where the token that fails begins.

    `cut` is true where the text merely ended too early.
    """

    def __init__(self, message: str, position: int, *, cut: bool = False) -> None:
        super().__init__(message)
        self.position = position
        self.cut = cut


_DIGITS = frozenset(b"0123456789")
_DIGIT_TEXTS = frozenset(bytes([digit]) for digit in _DIGITS)
_HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")
_WORD_START = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_WORD = _WORD_START | _DIGITS | frozenset(b"$")
_SPACE = frozenset(b" \t\n\r\f\v")
_SYMBOLS = frozenset(b"()[]{},;.*+-/%=<>!?:|@^&~\\")
_LINE_COMMENTS = frozenset((b"--", b"//", b"# ", b"#!"))
_UNICODE_SPACE = tuple(
    chr(code).encode()
    for code in (*(0x85, 0xA0, 0x180E, *range(0x2000, 0x200E), 0x2028, 0x2029, 0x202F, 0x205F, 0x2060, 0x3000, 0xFEFF),)
)
_CURLY = {"‘".encode(): ("’".encode(), Kind.STRING), "“".encode(): ("”".encode(), Kind.IDENTIFIER)}
_MINUS = "−".encode()
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "0": "\0", "a": "\a", "v": "\v", "e": "\x1b"}


def tokens(text: bytes, start: int = 0) -> Iterator[Token]:
    """The tokens of `text` from `start` on, without white space and comments.

    Raises LexicalError at the first place that is none; tokens before it have been given by then.
    """
    at, size = start, len(text)
    before: Token | None = None
    while at < size:
        byte = text[at]
        if byte in _SPACE:
            at += 1
        elif text[at : at + 2] in _LINE_COMMENTS:
            newline = text.find(b"\n", at)
            at = size if newline < 0 else newline + 1
        elif byte == 0x2F and text.startswith(b"/*", at):
            at = _comment(text, at)
        elif byte in b"'`\"":
            end = _quoted(text, at, byte)
            if byte == 0x27:
                yield (before := Token(Kind.STRING, at, end, ""))
            else:
                yield (before := Token(Kind.IDENTIFIER, at, end, _unescape(text[at + 1 : end - 1], chr(byte))))
            at = end
        elif byte in _WORD_START:
            end = _run(text, at, _WORD)
            if end == at + 1 and byte in b"xXbB" and text[end : end + 1] == b"'":
                # A hexadecimal or binary string, x'ff' or b'01', knows no escapes.
                close = text.find(b"'", end + 1)
                if close < 0:
                    raise LexicalError("Quote is not closed", at, cut=True)
                yield (before := Token(Kind.STRING, at, close + 1, ""))
                at = close + 1
                continue
            yield (before := Token(Kind.WORD, at, end, text[at:end].decode().upper()))
            at = end
        elif byte in _DIGITS or (byte == 0x2E and _begins_number(text, at, before)):
            end, kind = _number(text, at, after_dot=before is not None and before.is_symbol("."))
            yield (before := Token(kind, at, end, text[at:end].decode().upper() if kind is Kind.WORD else ""))
            at = end
        elif byte == 0x24:
            end, kind = _dollar(text, at)
            yield (before := Token(kind, at, end, "" if kind is Kind.STRING else "$"))
            at = end
        elif byte in _SYMBOLS:
            yield (before := Token(Kind.SYMBOL, at, at + 1, chr(byte)))
            at += 1
        else:
            for space in _UNICODE_SPACE:
                if text.startswith(space, at):
                    at += len(space)
                    break
            else:
                three = text[at : at + 3]
                if three in _CURLY:
                    close_mark, kind = _CURLY[three]
                    close = text.find(close_mark, at + 3)
                    if close < 0:
                        raise LexicalError("Quote is not closed", at, cut=True)
                    inner = text[at + 3 : close].decode(errors="surrogateescape")
                    yield (before := Token(kind, at, close + 3, inner if kind is Kind.IDENTIFIER else ""))
                    at = close + 3
                elif three == _MINUS:
                    yield (before := Token(Kind.SYMBOL, at, at + 3, "-"))
                    at += 3
                else:
                    raise LexicalError("Unrecognized token", at, cut=len(three) < 3 and byte >= 0x80)


def _comment(text: bytes, at: int) -> int:
    """The end of the comment at `at`, those inside it included."""
    depth, here = 1, at + 2
    while depth:
        close = text.find(b"*/", here)
        if close < 0:
            raise LexicalError("Comment is not closed", at, cut=True)
        # In /*/ the opening comes first.
        opening = text.find(b"/*", here, close + 1)
        depth, here = (depth + 1, opening + 2) if opening >= 0 else (depth - 1, close + 2)
    return here


def _quoted(text: bytes, at: int, quote: int) -> int:
    """The end of the quoted run that begins at `at`, one past its closing quote."""
    here, size = at + 1, len(text)
    mark = bytes([quote])
    while True:
        close = text.find(mark, here)
        if close < 0:
            raise LexicalError("Quote is not closed", at, cut=True)
        escape = text.find(b"\\", here, close)
        if escape >= 0:
            here = escape + 2
        elif close + 1 < size and text[close + 1] == quote:
            here = close + 2
        else:
            return close + 1


def _unescape(raw: bytes, quote: str) -> str:
    """The name that a quoted identifier stands for."""
    text = raw.decode(errors="surrogateescape")
    if "\\" not in text and quote not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            nxt = text[at + 1]
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


def _begins_number(text: bytes, at: int, before: Token | None) -> bool:
    """Whether the point at `at` begins a number; after a name, a number or a bracket it selects a part of it."""
    if text[at + 1 : at + 2] not in _DIGIT_TEXTS:
        return False
    return before is None or not (before.is_name or before.kind is Kind.NUMBER or before.is_symbol(")") or before.is_symbol("]"))


def _digits(text: bytes, at: int, allowed: frozenset[int], *, first: bool) -> int:
    """The end of a run of digits with single underscores between them; `first`: none may come first."""
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


def _dollar(text: bytes, at: int) -> tuple[int, Kind]:
    """The end of what a dollar begins: a heredoc, or nothing, and then it stands for itself."""
    tag_end = _run(text, at + 1, _WORD - frozenset(b"$"))
    if text[tag_end : tag_end + 1] == b"$":
        tag = text[at : tag_end + 1]
        close = text.find(tag, tag_end + 1)
        if close >= 0:
            return close + len(tag), Kind.STRING
    return at + 1, Kind.SYMBOL
