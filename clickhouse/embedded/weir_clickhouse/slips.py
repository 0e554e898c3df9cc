"""Comparisons that find nothing, whatever the store holds, because a value is not written as it is stored.

The engine answers them without a word; a reader takes the empty answer for the truth. They are refused with the words that work.
This is help, no wall: how a statement is written, it may hide such a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence

from .errors import ServerError
from .lexer import Kind, Token
from .statement import Statement

#: Names of protocols as `weir_protocol_name` writes them (clickhouse/migrations/0001_flows.sql).
PROTOCOLS = ("ICMP", "IGMP", "TCP", "UDP", "IPv6", "GRE", "ESP", "AH", "ICMPv6", "OSPF", "PIM", "SCTP")
_WRITTEN = {name.lower(): name for name in PROTOCOLS}
#: Columns that hold addresses in the stored form, IPv4 mapped into IPv6.
_STORED = frozenset(["addr", "src_addr", "dst_addr"])
_BAD_ARGUMENTS = 36


def refuse(statement: Statement) -> None:
    """Raise error 36 if the statement makes such a comparison."""
    items = statement.items
    for at, token in enumerate(items):
        if not token.is_name:
            continue
        name = token.value.lower()
        if name == "protocol_name":
            _check_protocols(statement, items, at + 1)
        elif name == "isipaddressinrange" and (column := _first_argument(items, at + 1)):
            raise ServerError(
                _BAD_ARGUMENTS,
                f"isIPAddressInRange() finds no IPv4 in {column}, which holds addresses in the stored form: "
                f"write weir_in({column}, '192.0.2.0/24'), or isIPAddressInRange() of the address as text ({_text_of(column)})",
            )


def _check_protocols(statement: Statement, items: Sequence[Token], at: int) -> None:
    """The texts that the name of a protocol is compared with, which begin at `at`: = '…', != '…', <> '…', [NOT] IN ('…', …)."""
    while at < len(items) and (items[at].is_word("NOT", "IN") or (items[at].kind is Kind.SYMBOL and items[at].value in "=!<>([")):
        at += 1
    while at < len(items) and items[at].kind is Kind.STRING:
        written = statement.text[items[at].start : items[at].end].decode(errors="replace").strip("'")
        name = _WRITTEN.get(written.lower())
        if name is not None and name != written:
            raise ServerError(_BAD_ARGUMENTS, f"no protocol_name is '{written}': it is written '{name}'")
        at += 2 if at + 1 < len(items) and items[at + 1].is_symbol(",") else 1


def _first_argument(items: Sequence[Token], at: int) -> str | None:
    """The column in the stored form that a call's first argument is, with or without its table's name."""
    if at >= len(items) or not items[at].is_symbol("("):
        return None
    at += 1
    while at + 2 < len(items) and items[at].is_name and items[at + 1].is_symbol("."):
        at += 2
    alone = at + 1 < len(items) and items[at + 1].is_symbol(",")
    name = items[at].value.lower() if at < len(items) and items[at].is_name else ""
    return name if alone and name in _STORED else None


def _text_of(column: str) -> str:
    return "host" if column == "addr" else column.removesuffix("_addr")
