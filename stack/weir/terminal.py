"""Texts of others on the terminal."""

from __future__ import annotations

import unicodedata

from rich.markup import escape


def printable(text: str) -> str:
    """For the terminal: no control characters, and none that only change how others are shown (categories Cc, Cf, Zl, Zp)."""
    return "".join("?" if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") else one for one in text)


def escaped(text: str) -> str:
    """The same for rich, without markup."""
    return escape(printable(text))
