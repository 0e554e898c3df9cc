"""Texts of others, which come with alerts and dead letters."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from weir import alerts
from weir.terminal import escaped


@pytest.mark.parametrize("text", ["[/x]", "[red]calm[/red]", "a\x1b]0;owned\x07b\x1b[2J", "\x9b2J"])
def test_an_alert_is_shown_as_it_is(text: str) -> None:
    row = {
        "severity": "warning",
        "opened": "now",
        "open": 1,
        "lasted_s": 1,
        "reason": "r",
        "probe": "p",
        "subject": text,
    }
    shown = io.StringIO()
    alerts.show(Console(file=shown, width=200), [row | {"text": text}])
    assert text.replace("\x1b", "?").replace("\x07", "?").replace("\x9b", "?") in shown.getvalue()
    assert not set(shown.getvalue()) & set("\x1b\x07\x9b")
    assert "\x1b" not in escaped(text)
