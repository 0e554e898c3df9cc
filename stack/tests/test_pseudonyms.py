"""Pseudonyms are those of the agent, and nobody turns one back alone, or without an entry in the audit."""

from __future__ import annotations

import ipaddress
import itertools
import random
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from weir import audit, commands, pseudonyms
from weir.cli import app
from weir.config import Config, Stack
from weir.errors import WeirError
from weir.pseudonyms import CryptoPan

#: The key of the sample in the authors' package (Crypto-PAn 1.0).
SAMPLE = bytes.fromhex("1522178d33a4cf80130a5b1649907d10d8988f8379796527" + "62574c2d2a842202")
#: As in the tests of `capture/src/privacy/mod.rs`.
KEY = b"a key of tests, and no other one"
DAY = 86_400
HOLDERS = ["anna", "ben", "cleo"]


@pytest.mark.parametrize(
    ("address", "pseudonym"),
    [
        ("128.11.68.132", "135.242.180.132"),
        ("129.118.74.4", "134.136.186.123"),
        ("192.102.249.13", "252.138.62.131"),
        ("2001:db8::1", "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e"),
    ],
)
def test_the_vectors_come_out(address: str, pseudonym: str) -> None:
    pan = CryptoPan(SAMPLE)
    assert str(pan.pseudonym(ipaddress.ip_address(address))) == pseudonym
    assert str(pan.address(ipaddress.ip_address(pseudonym))) == address


def test_periods_have_the_keys_of_the_agent() -> None:
    number = pseudonyms.period(datetime.fromtimestamp(20_000 * DAY + 7, UTC), DAY)
    assert number == 20_000
    pan = CryptoPan(pseudonyms.period_key(KEY, DAY, number))
    made = [str(pan.pseudonym(ipaddress.ip_address(one))) for one in ("192.0.2.7", "2001:db8::7")]
    assert made == ["62.4.233.236", "9e0d:2347:77fb:78:fe00:37ff:807f:fff7"]
    assert pseudonyms.period(datetime.now(UTC), 0) == 0
    assert pseudonyms.period_key(KEY, 0, 0) == KEY


def test_what_was_replaced_can_be_turned_back_and_prefixes_stay_together() -> None:
    drawn, pan = random.Random(3), CryptoPan(SAMPLE)
    for text in ("198.51.100.0/22", "2001:db8:40::/43"):
        network = ipaddress.ip_network(text)
        translated = pan.network(network)
        for _ in range(50):
            address = network[drawn.randrange(network.num_addresses)]
            pseudonym = pan.pseudonym(address)
            assert pan.address(pseudonym) == address != pseudonym
            assert pseudonym in translated
        outside = network.network_address - 1
        assert pan.pseudonym(outside) not in translated


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    own = Stack(Config(), tmp_path / "home")
    monkeypatch.setattr("weir.commands.privacy.configured", lambda: own)
    monkeypatch.setattr(commands, "configured", lambda: own)
    return own


@pytest.fixture
def shares(stack: Stack, tmp_path: Path) -> list[Path]:
    """The shares of three people."""
    return pseudonyms.split(stack, tmp_path / "privacy.key", HOLDERS, tmp_path / "shares")


def text_of(files: list[Path]) -> list[str]:
    return [file.read_text() for file in files]


def test_any_two_people_have_the_key(stack: Stack, shares: list[Path], tmp_path: Path) -> None:
    key = tmp_path / "privacy.key"
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in [key, *shares])
    for two in itertools.permutations(range(3), 2):
        opened = pseudonyms.opened(stack, text_of([shares[number] for number in two]))
        assert opened.master == pseudonyms.read_key(key)
        assert opened.holders == tuple(HOLDERS[number] for number in two)


def test_one_person_has_none(stack: Stack, shares: list[Path], tmp_path: Path) -> None:
    own, other = text_of(shares)[:2]
    invented = [*other.split()[:-1], "academic"]
    for given in ([], [own], [own, own], [own, own.upper()], [own, "academic"], [own, " ".join(invented)]):
        with pytest.raises(WeirError, match="takes the shares of 2 people"):
            pseudonyms.opened(stack, given)
    # The shares of two people, but of different keys.
    another = pseudonyms.split(stack, tmp_path / "another.key", HOLDERS, tmp_path / "others")
    with pytest.raises(WeirError, match="these shares give no key"):
        pseudonyms.opened(stack, [own, another[1].read_text()])


def test_a_split_overwrites_nothing_and_needs_two_people(stack: Stack, shares: list[Path], tmp_path: Path) -> None:
    before = text_of(shares)
    for holders in (["anna"], ["anna", "anna"], ["anna", ".."], ["dora", "anna"]):
        with pytest.raises(WeirError):
            pseudonyms.split(stack, tmp_path / "privacy.key", holders, tmp_path / "shares")
    assert text_of(shares) == before
    assert not (tmp_path / "shares/dora.share").exists()


class Noted:
    """Stands for the audit of a store."""

    def __init__(self, *, works: bool = True) -> None:
        self.works, self.entries = works, list[tuple[str, dict[str, Any]]]()

    def note(self, _stack: Stack, action: str, detail: Mapping[str, Any]) -> int:
        if not self.works:
            raise WeirError("nothing was done: the audit has no entry on it (ConnectError)", status=1)
        self.entries.append((action, dict(detail)))
        return len(self.entries)


def weir(*words: object, share: list[Path]) -> Result:
    named = [word for file in share for word in ("--share", str(file))]
    return CliRunner().invoke(app, [*map(str, words), *named])


def in_period(address: str, tmp_path: Path) -> tuple[str, list[str]]:
    """The pseudonym of an address on 2026-11-27, and the options that say so."""
    moment = datetime(2026, 11, 27, tzinfo=UTC)
    number = pseudonyms.period(moment, 7 * DAY)
    pan = CryptoPan(pseudonyms.period_key(pseudonyms.read_key(tmp_path / "privacy.key"), 7 * DAY, number))
    return str(pan.pseudonym(ipaddress.ip_address(address))), [
        "--period",
        "7d",
        "--at",
        "2026-11-27",
        "--reason",
        "order 17",
    ]


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7"])
def test_the_audit_has_both_names_and_the_reason_before_the_address_is_shown(
    address: str, stack: Stack, shares: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pseudonym, options = in_period(address, tmp_path)
    monkeypatch.setattr(audit, "note", (noted := Noted()).note)
    done = weir("reveal", pseudonym, *options, share=shares[1:])
    assert done.output.split() == [address]
    ((action, detail),) = noted.entries
    assert action == "reveal"
    assert (detail["holders"], detail["reason"], detail["pseudonym"]) == (["ben", "cleo"], "order 17", pseudonym)
    assert detail["digest"] == audit.keyed(stack, ipaddress.ip_network(address))
    assert address not in str(detail)
    monkeypatch.setattr(audit, "note", Noted(works=False).note)
    refused = weir("reveal", pseudonym, *options, share=shares[1:])
    assert refused.exit_code != 0
    assert address not in refused.output


def test_one_key_is_refused_and_nothing_is_shown(
    shares: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pseudonym, options = in_period("192.0.2.7", tmp_path)
    monkeypatch.setattr(audit, "note", (noted := Noted()).note)
    for given in ([shares[0]], [shares[0], shares[0]]):
        refused = weir("reveal", pseudonym, *options, share=given)
        assert isinstance(refused.exception, WeirError)
        assert "these are of anna" in str(refused.exception)
        assert "192.0.2.7" not in refused.output
    # The audit has each attempt, and who explains nothing is refused before.
    assert [action for action, _ in noted.entries] == ["reveal_refused"] * 2
    assert noted.entries[0][1]["reason"] == "order 17"
    assert "these are of anna" in noted.entries[0][1]["why"]
    assert "192.0.2.7" not in str(noted.entries)
    unexplained = [*options[:-1], " "]
    assert "reason" in str(weir("reveal", pseudonym, *unexplained, share=shares[:2]).exception)
    assert len(noted.entries) == 2


def test_a_prefix_is_translated_with_an_entry_in_the_audit(
    shares: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pseudonym, options = in_period("192.0.2.7", tmp_path)
    monkeypatch.setattr(audit, "note", (noted := Noted()).note)
    done = weir("privacy", "translate", "192.0.2.0/24", *options, share=shares[:2])
    assert ipaddress.ip_address(pseudonym) in ipaddress.ip_network(done.output.strip())
    assert [action for action, _ in noted.entries] == ["translate"]
