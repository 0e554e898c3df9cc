"""The lockout's counts: how long each must wait, what they forget, and that they are bounded."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import weir_lockout
from weir_lockout import FREE_PAIR, FREE_WHOLE, LONGEST, Lockout


@pytest.fixture
def counts(tmp_path: Path) -> Lockout:
    return Lockout(tmp_path / "lockout.db")


def test_each_failure_doubles_the_wait(counts: Lockout) -> None:
    now, waits = 1000.0, []
    for _ in range(FREE_PAIR + 14):
        wait = counts.attempt("kari", "192.0.2.1", now)
        waits.append(round(wait))
        now += wait
        if wait:
            assert counts.attempt("kari", "192.0.2.1", now) == 0
    assert waits == [0] * FREE_PAIR + [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, *[LONGEST] * 4]
    assert counts.refused() == {"login_pair": 14}
    assert counts.attempt("kari", "192.0.2.1", now + weir_lockout.FORGOTTEN + 1) == 0
    assert counts.attempt("kari", "192.0.2.1", now + weir_lockout.FORGOTTEN + 1) == 0


def test_an_address_waits_whatever_the_account(counts: Lockout) -> None:
    for number in range(FREE_WHOLE):
        assert counts.attempt(f"somebody {number}", "2001:db8::1", 1000) == 0
    assert counts.attempt("another", "2001:db8::2", 1000) > 0, "the same network of 64 bits"
    assert counts.attempt("another", "2001:db8:1::2", 1000) == 0


def test_an_account_waits_wherever_it_is_guessed_from_but_not_where_it_is_known(counts: Lockout) -> None:
    assert counts.attempt("admin", "192.0.2.1", 1000) == 0
    counts.succeeded("admin", "192.0.2.1", 1000)
    for number in range(FREE_WHOLE):
        assert counts.attempt("ADMIN ", f"198.51.100.{number}", 1000) == 0
    assert counts.attempt("admin", "203.0.113.1", 1000) > 0
    for address in ("192.0.2.1", "127.0.0.1", "::1"):
        assert counts.attempt("admin", address, 1000) == 0, "nobody can keep its owner out"
    counts.forget("admin", known=False)
    for number in range(FREE_WHOLE):
        assert counts.attempt("admin", f"198.51.100.{number}", 1000) == 0
    assert counts.attempt("admin", "203.0.113.1", 1000) > 0
    assert counts.attempt("admin", "192.0.2.1", 1000) == 0, "who is let in again is known where it was known"
    counts.forget("admin")
    assert counts.attempt("admin", "203.0.113.1", 1000) == 0


def test_success_takes_only_its_own_count_back(counts: Lockout) -> None:
    """Whoever has an account cannot pay for guesses at others by logging in between."""
    for number in range(FREE_WHOLE):
        assert counts.attempt(f"somebody {number}", "192.0.2.1", 1000) == 0
    counts.attempt("own", "192.0.2.1", 1001)
    counts.succeeded("own", "192.0.2.1", 1001)
    assert counts.attempt("another", "192.0.2.1", 1000.5) > 0


def test_an_owner_who_logs_in_every_minute_pays_for_no_guesses(counts: Lockout) -> None:
    counts.attempt("own", "192.0.2.1", 1000)
    counts.succeeded("own", "192.0.2.1", 1000)
    for number in range(FREE_WHOLE):
        assert counts.attempt("own", f"198.51.100.{number}", 1001) == 0
        # Counted at this address alone, where it is known.
        counts.attempt("own", "192.0.2.1", 1001)
        counts.succeeded("own", "192.0.2.1", 1001)
        counts.attempt("own", "192.0.2.1", 1001)
        counts.withdraw("own", "192.0.2.1")
    assert counts.attempt("own", "203.0.113.1", 1001) > 0


@pytest.mark.parametrize(
    "other", ["KARI", " kari\t", "\uff2bari", "k\u00aari", "kar\u00adi", "ka\u200bri", "\U0001d424ari"]
)
def test_spellings_of_a_name_are_one(counts: Lockout, other: str) -> None:
    for _ in range(FREE_PAIR):
        assert counts.attempt("kari", "192.0.2.1", 1000) == 0
    assert counts.attempt(other, "192.0.2.1", 1000) > 0
    assert counts.attempt("kaari", "192.0.2.1", 1000) == 0


def test_an_attempt_that_nobody_could_judge_costs_nothing(counts: Lockout) -> None:
    for _ in range(3 * FREE_WHOLE):
        assert counts.attempt("kari", "192.0.2.1", 1000) == 0
        counts.withdraw("kari", "192.0.2.1")
    for _ in range(FREE_PAIR):
        assert counts.attempt("kari", "192.0.2.1", 1000) == 0
    assert counts.attempt("kari", "192.0.2.1", 1000) > 0


def test_many_attempts_at_once_gain_nothing(counts: Lockout, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = weir_lockout._wait

    def slow(count: int, free: int) -> float:
        time.sleep(0.01)  # for others, between reading a count and writing it
        return wait(count, free)

    monkeypatch.setattr(weir_lockout, "_wait", slow)
    with ThreadPoolExecutor(16) as threads:
        waits = [*threads.map(lambda _: Lockout(counts.path).attempt("kari", "192.0.2.1", 1000), range(100))]
    assert waits.count(0) == FREE_PAIR


def test_the_counts_are_bounded(counts: Lockout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weir_lockout, "MOST", 100)
    for number in range(500):
        counts.attempt(f"somebody {number}", f"10.0.{number // 250}.{number % 250}", 1000 + number / 1000)
        counts.succeeded(f"somebody {number}", f"10.0.{number // 250}.{number % 250}", 1000 + number / 1000)
    with counts._changing() as database:
        for table in ("failures", "known"):
            (rows,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
            assert 0 < rows <= 100
