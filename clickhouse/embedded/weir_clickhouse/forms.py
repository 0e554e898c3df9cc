"""A body of the type multipart/form-data (RFC 7578), as clients send external data and parameters.

A part with a file name is the data of a temporary table, which the statement can read under the part's name; NAME_format,
NAME_structure and NAME_types, in the URL or in other parts, describe it. The other parts are `query` and the statement's
parameters (`param_…`). Everything else belongs in the URL, and is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.utils import collapse_rfc2231_value

from . import metrics
from .body import bounded
from .errors import ServerError
from .lexer import Kind, LexicalError, Token, tokens

#: Octets of a whole form; of its parts without a file name; and of the head of one part.
_LARGEST, _TEXTS, _HEAD = 16 << 20, 1 << 20, 4 << 10
#: Octets of the header that names a part.
_DISPOSITION = 512
#: A form up to this size costs no more than a statement.
SMALL = 1 << 20
#: Parts of a form; tables of one request.
_PARTS, _TABLES = 1000, 16
#: Columns of a table.
_COLUMNS = 1000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_DESCRIPTION = re.compile(r"(.+)_(format|structure|types)", re.DOTALL)
#: Types that hold the state of a function, which the data could name.
_STATES = frozenset(["aggregatefunction", "simpleaggregatefunction"])


@dataclass(frozen=True)
class External:
    """A temporary table of one request. columns: names and types, in SQL. data: in the format `form`."""

    name: str
    form: str
    columns: tuple[tuple[str, str], ...]
    data: bytes = field(repr=False)

    @property
    def structure(self) -> str:
        """The columns, as in CREATE TABLE."""
        return ", ".join(f"{_quoted(name)} {kind}" for name, kind in self.columns)


@dataclass(frozen=True)
class Form:
    """What the parts of a form hold: texts by name, and data by the name of their table."""

    texts: Mapping[str, str]
    files: Mapping[str, bytes] = field(repr=False)


def boundary(content_type: str) -> bytes | None:
    """The boundary that this Content-Type names; None for a type other than multipart/form-data. Raises ServerError."""
    if not content_type.lower().lstrip().startswith("multipart/form-data"):
        return None
    mark = _attributes(content_type[:_HEAD]).get("boundary", "")
    if not 0 < len(mark) <= 70:
        raise _malformed("its Content-Type names no boundary of at most 70 characters")
    return mark.encode(errors="surrogateescape")


def read(pieces: Iterator[bytes], mark: bytes, large: Callable[[], None]) -> Form:
    """The form that these pieces make up; mark: its boundary. Calls `large` before it holds more than SMALL octets. Raises
    ServerError."""
    held = bytearray(b"\r\n")
    for piece in bounded(pieces, _LARGEST):
        if len(held) + len(piece) > SMALL:
            large()
        held += piece
    body = bytes(held)
    held.clear()
    delimiter = b"\r\n--" + mark
    at = body.find(delimiter)
    texts: dict[str, str] = {}
    files: dict[str, bytes] = {}
    size = 0
    while True:
        if at < 0:
            raise _malformed("it ends without its last boundary")
        begin = at + len(delimiter)
        if body[begin : begin + 2] == b"--":
            return Form(texts, files)
        end_of_line = body.find(b"\r\n", begin, begin + 80)
        if end_of_line < 0 or body[begin:end_of_line].strip():
            raise _malformed("a boundary is not followed by the end of its line")
        head_end = body.find(b"\r\n\r\n", end_of_line, end_of_line + _HEAD)
        at = body.find(delimiter, end_of_line)
        if head_end < 0 or head_end > at >= 0:
            raise _malformed(f"a part has no head of at most {_HEAD} octets")
        if at < 0:
            continue
        name, is_file = _described(body[end_of_line + 2 : head_end])
        content = body[head_end + 4 : at] if head_end + 4 <= at else b""
        if name in texts or name in files:
            raise _malformed(f"it names {name[:80]} twice")
        if len(texts) + len(files) >= _PARTS:
            raise _refused(f"it has more than {_PARTS} parts")
        if is_file:
            files[name] = content
            if len(files) > _TABLES:
                raise _refused(f"it holds more than {_TABLES} tables")
        else:
            size += len(name) + len(content)
            if size > _TEXTS:
                raise _refused(f"its parts without a file name hold more than {_TEXTS} octets")
            texts[name] = content.decode(errors="surrogateescape")


def _described(head: bytes) -> tuple[str, bool]:
    """The name of a part, and whether it has a file name."""
    for one in head.decode(errors="surrogateescape").split("\r\n"):
        key, _, value = one.partition(":")
        if key.strip().lower() != "content-disposition":
            continue
        # The library's time grows with the square of the length.
        if len(value) > _DISPOSITION:
            raise _malformed(f"a part is described in more than {_DISPOSITION} octets")
        attributes = _attributes(value)
        if "name" in attributes:
            return attributes["name"], "filename" in attributes
    raise _malformed("a part has no name")


def _attributes(value: str) -> dict[str, str]:
    """The attributes of a header's value, without quotes."""
    message = Message()
    message["Content-Type"] = value.strip()
    return {key.lower(): collapse_rfc2231_value(text) for key, text in message.get_params(failobj=[], header="Content-Type")[1:]}


def parameters(form: Form, params: Mapping[str, str]) -> dict[str, str]:
    """The request's parameters: those of the URL, with those of the form. Raises ServerError."""
    out = dict(params)
    for name, text in form.texts.items():
        described = _DESCRIPTION.fullmatch(name)
        known = name == "query" or name.startswith("param_") or (described is not None and described[1] in form.files)
        if not known:
            raise ServerError(
                36, f"The form names {name[:80]}: it may hold query, param_… and tables; settings belong in the URL"
            )
        if name in params and name != "query":
            raise ServerError(36, f"The form and the URL both give {name[:80]}")
        out[name] = f"{params['query']}\n{text}" if params.get(name) else text
    return out


def tables(form: Form, params: dict[str, str], allowed: frozenset[str] | None) -> tuple[External, ...]:
    """The tables of a form. Takes their descriptions out of `params`. allowed: formats that the user may send, lower case; None
    for all, and then columns may have types that hold the states of functions. Raises ServerError."""
    out = []
    for name, data in form.files.items():
        if not _NAME.fullmatch(name):
            raise ServerError(36, f"{name[:80]!r} is not a name for external data: letters, digits and _, at most 64")
        given = {key: params.pop(f"{name}_{key}", "") for key in ("format", "structure", "types")}
        if bool(given["structure"]) == bool(given["types"]):
            raise ServerError(36, f"External data need either {name}_structure or {name}_types")
        text = given["structure"] or given["types"]
        columns = _columns(name, text, named=bool(given["structure"]), states=allowed is None)
        kind = given["format"] or "TabSeparated"
        if allowed is not None and kind.lower() not in allowed:
            raise ServerError(
                497, f"Not enough privileges: external data in {kind[:80]} are not among those that allowed.yaml lists"
            )
        out.append(External(name, kind, columns, data))
    return tuple(out)


def _columns(table: str, text: str, *, named: bool, states: bool) -> tuple[tuple[str, str], ...]:
    """Names and types, and nothing else: no default, no index, no constraint, since those are expressions."""
    raw = text.encode(errors="surrogateescape")
    try:
        items = list(tokens(raw))
    except LexicalError as error:
        raise ServerError(62, f"Cannot parse the columns of {table}: {error}") from None
    out: list[tuple[str, str]] = []
    column: list[Token] = []
    depth = 0
    for token in [*items, Token(Kind.SYMBOL, len(raw), len(raw), ",")]:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth or not token.is_symbol(","):
            column.append(token)
            continue
        kind = column[1:] if named else column
        if not kind or not (column[0].is_name and _is_type(kind)) or len(out) >= _COLUMNS:
            raise ServerError(36, f"The columns of {table} must be names and types alone, at most {_COLUMNS}")
        if not states and any(one.is_name and one.value.lower() in _STATES for one in kind):
            raise ServerError(497, f"Not enough privileges: the columns of {table} hold states of aggregate functions")
        own = raw[column[0].start : column[0].end].decode(errors="replace") if column[0].kind is Kind.WORD else column[0].value
        out.append((own if named else f"_{len(out) + 1}", raw[kind[0].start : kind[-1].end].decode(errors="surrogateescape")))
        column = []
    return tuple(out)


def _is_type(items: list[Token]) -> bool:
    """Whether the tokens are a name, with at most one pair of brackets after it that ends them."""
    if not items[0].is_name or len(items) == 1:
        return items[0].is_name
    depth = 0
    for at, token in enumerate(items[1:], 1):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if token.is_symbol(";") or token.is_symbol("{") or (depth <= 0) != (at == len(items) - 1):
            return False
    return depth == 0


def _quoted(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _malformed(why: str) -> ServerError:
    return ServerError(36, f"The form cannot be read: {why}")


def _refused(why: str) -> ServerError:
    metrics.refused.labels("form").inc()
    return ServerError(307, f"The form is too large: {why}")
