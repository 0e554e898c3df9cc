"""Texts of others on the terminal."""

from __future__ import annotations

import re

from rich.markup import escape


def escaped(text: str) -> str:
    """For rich, and for the terminal: no control characters, which can change what it shows, and no markup."""
    return escape(re.sub(r"[\x00-\x1f\x7f-\x9f]", "?", text))
