"""Texts of others, which come with alerts and dead letters."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from weir import alerts, ledger, probes
from weir.errors import WeirError
from weir.terminal import escaped, printable


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
        "origin": "agent",
    }
    shown = io.StringIO()
    alerts.show(Console(file=shown, width=200), [row | {"text": text}])
    assert "(says its agent)" in shown.getvalue()
    assert text.replace("\x1b", "?").replace("\x07", "?").replace("\x9b", "?") in shown.getvalue()
    assert not set(shown.getvalue()) & set("\x1b\x07\x9b")
    assert "\x1b" not in escaped(text)


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\ufeff", "\u2028"])
def test_what_only_changes_how_others_look_is_shown_as_a_question_mark(hidden: str) -> None:
    assert printable(f"a{hidden}\u00e9\u4e16b") == "a?\u00e9\u4e16b"


def test_what_an_agent_says_of_itself_is_shown_as_it_is() -> None:
    """Its version and the causes of its ledger, which nobody but the agent chooses."""
    row = {"probe": "p", "workers": 1, "interval_ms": 1000, "site": "[/s]", "rank": 1, "one_way": False}
    shown = io.StringIO()
    Console(file=shown, width=200).print(probes.table([row | {"last_heard": "", "version": "[/red]\x1b"}]))
    assert "[/red]?" in shown.getvalue()
    assert "[/s]" in shown.getvalue()


def test_the_ledger_shows_causes_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    amounts = dict.fromkeys(
        [*ledger._AMOUNTS.values(), "captured_packets", "captured_octets", "flow_packets", "overflow_packets"], 0
    )
    amounts |= dict.fromkeys(
        ["published_octets", "stored_octets", "stored_records", "gap_packets", "interface_packets", "late_packets"], 0
    )
    row = amounts | {"time": "2026-11-22T10:00:00Z", "probe": "p", "worker": 0, "state": "closed"}
    found = ledger.Finding(row["time"], "p", 0, "dropped 1 ([/red]\x1b)", True)
    monkeypatch.setattr(ledger, "findings", lambda _: [found])
    shown = io.StringIO()
    ledger.show(Console(file=shown, width=200), [row | {"not_metered": {"[/blue]\x1b": 1}}])
    assert "([/red]?)" in shown.getvalue()
    assert "[/blue]? 1" in shown.getvalue()


def test_an_error_shows_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    WeirError("no\x1b[2J", hint="a\u202eb").show()
    said = capsys.readouterr().err
    assert "no?[2J" in said
    assert "a?b" in said
