"""Certificates of the stack's parts: who trusts whom, and when one is made anew."""

from __future__ import annotations

import datetime
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from weir import authority
from weir.authority import issue
from weir.certificates import PARTS, Certificates
from weir.errors import WeirError


def _made(tmp_path: Path, *hosts: str) -> Certificates:
    made = Certificates(tmp_path / "tls")
    issue(made, hosts)
    return made


def _read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_probes_that_trust_the_authority_accept_the_broker_under_each_of_its_names(tmp_path: Path) -> None:
    made = _made(tmp_path, "kafka.example", "192.0.2.7")
    builder = PolicyBuilder().store(Store([_read(made.authority)]))
    broker = _read(made.of("broker"))
    for name in ("kafka.example", "localhost"):
        assert builder.build_server_verifier(x509.DNSName(name)).verify(broker, [])
    names = broker.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"192.0.2.7", "127.0.0.1"} <= set(map(str, names.get_values_for_type(x509.IPAddress)))
    for part in PARTS:
        assert builder.build_client_verifier().verify(_read(made.of(part)), [])
        assert _read(made.of(part)).subject.rfc4514_string() == f"CN=weir.{part}"


def test_only_their_owner_reads_them(tmp_path: Path) -> None:
    made = _made(tmp_path)
    assert stat.S_IMODE(made.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.folder.iterdir()} == {0o600}
    assert len(list(made.folder.iterdir())) == 2 + len(PARTS)


def test_what_is_good_stays_and_a_new_name_makes_the_broker_s_anew(tmp_path: Path) -> None:
    made = _made(tmp_path, "a.example")
    before = {path.name: path.read_bytes() for path in made.folder.iterdir()}
    issue(made, ["a.example"])
    assert {path.name: path.read_bytes() for path in made.folder.iterdir()} == before
    issue(made, ["a.example", "b.example"])
    after = {path.name: path.read_bytes() for path in made.folder.iterdir()}
    assert {name for name in after if after[name] != before[name]} == {"broker.pem"}


def test_one_that_ends_soon_is_made_anew(tmp_path: Path) -> None:
    with mock.patch.object(authority, "_DAYS", 300):
        made = _made(tmp_path)
    before = _read(made.of("jobs")).not_valid_after_utc
    issue(made, [])
    assert _read(made.of("jobs")).not_valid_after_utc - before > datetime.timedelta(days=3000)


def _of_another(tmp_path: Path, days: int = 3650) -> Certificates:
    """Files of an operator's authority, without its key."""
    other = Certificates(tmp_path / "elsewhere")
    with (
        mock.patch.object(authority.socket, "gethostname", return_value="elsewhere"),
        mock.patch.multiple(authority, _DAYS=days, _RENEWED=0, _AUTHORITY_RENEWED=0),
    ):
        issue(other, [])
    other.key.unlink()
    return other


def test_those_of_another_authority_stay(tmp_path: Path) -> None:
    other, made = _of_another(tmp_path, 180), _made(tmp_path)
    for path in other.folder.iterdir():
        (made.folder / path.name).write_bytes(path.read_bytes())
    before = {path.name: path.read_bytes() for path in made.folder.iterdir()}
    issue(made, ["new.example"])
    assert {path.name: path.read_bytes() for path in made.folder.iterdir()} == before
    assert authority.ending(made) == []


def test_what_clients_would_refuse_is_an_error_before_the_broker_starts(tmp_path: Path) -> None:
    other, made = _of_another(tmp_path), _made(tmp_path)
    good = {path: path.read_bytes() for path in made.folder.iterdir()}
    broker, jobs = made.of("broker"), made.of("jobs")

    def refusal(**changes: bytes) -> str:
        for path, content in good.items():
            path.write_bytes(content)
        for name, content in changes.items():
            (made.folder / name.replace("_", ".")).write_bytes(content)
        with pytest.raises(WeirError) as refused:
            issue(made, [])
        return str(refused.value)

    assert "broker.pem is not signed by ca.pem" in refusal(broker_pem=other.of("broker").read_bytes())
    assert "broker.pem is not signed by ca.pem" in refusal(ca_pem=other.authority.read_bytes())
    _, certificate = jobs.read_bytes().split(b"-----BEGIN CERTIFICATE", 1)
    own = good[broker].split(b"-----BEGIN CERTIFICATE", 1)[0]
    assert "the key in" in refusal(ca_key=_key_of_nobody(), jobs_pem=own + b"-----BEGIN CERTIFICATE" + certificate)
    assert "holds no key beside" in refusal(ca_key=_key_of_nobody(), jobs_pem=b"-----BEGIN CERTIFICATE" + certificate)
    for name in ("broker_pem", "ca_pem", "ca_key"):
        assert "holds no" in refusal(**{name: b""})
    made.key.unlink()
    for path in other.folder.iterdir():
        (made.folder / path.name).write_bytes(path.read_bytes())
    jobs.unlink()
    with pytest.raises(WeirError, match=r"jobs.pem holds no certificate"):
        issue(made, [])


def _key_of_nobody() -> bytes:
    return authority._key(ec.generate_private_key(ec.SECP256R1()))


def test_a_certificate_near_its_end_is_named(tmp_path: Path) -> None:
    other = _of_another(tmp_path, 50)
    named = authority.ending(other)
    assert len(named) == 1 + len(PARTS)
    assert all("ends on 20" in text for text in named)
    with _clock(55), pytest.raises(WeirError, match="is valid from"):
        issue(other, [])


def _clock(days: int) -> Any:
    """In place of `datetime`: a clock that is ahead by this many days."""
    ahead = datetime.timedelta(days=days)
    clock = SimpleNamespace(now=lambda zone: datetime.datetime.now(zone) + ahead)
    return mock.patch.object(authority, "datetime", SimpleNamespace(**vars(datetime) | {"datetime": clock}))


def _trusts(trusted: bytes, made: Certificates, days: int) -> bool:
    """Whether a probe with this authority accepts the broker so many days from now."""
    then = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    store = Store(x509.load_pem_x509_certificates(trusted))
    verifier = PolicyBuilder().store(store).time(then).build_server_verifier(x509.DNSName("localhost"))
    try:
        return bool(verifier.verify(_read(made.of("broker")), []))
    except VerificationError:
        return False


def test_the_authority_is_renewed_while_probes_trust_the_earlier_one(tmp_path: Path) -> None:
    made = _made(tmp_path)
    earlier = made.authority.read_bytes()
    old_broker = made.of("broker").read_bytes()
    issue(made, [])
    assert (made.authority.read_bytes(), authority.ending(made)) == (earlier, [])
    with _clock(3650 - 700):
        issue(made, [])
        (said,) = authority.ending(made)
    assert f"until {x509.load_pem_x509_certificate(earlier).not_valid_after_utc:%Y-%m-%d}" in said
    assert made.authority.read_bytes() != earlier
    for days in (3650 - 700, 3649):
        assert _trusts(earlier, made, days), "probes that have not enrolled again"
        assert _trusts(made.authority.read_bytes(), made, days)
    assert not _trusts(earlier, made, 3652)
    with _clock(3650 - 300):
        issue(made, [])
    assert made.of("broker").read_bytes() != old_broker
    assert _trusts(made.authority.read_bytes(), made, 3652)


@pytest.mark.parametrize("days", [700, 3660])
def test_a_clock_that_was_ahead_at_the_first_start_keeps_nobody_out(tmp_path: Path, days: int) -> None:
    with _clock(days):
        made = _made(tmp_path)
    assert not _trusts(made.authority.read_bytes(), made, 0)
    issue(made, [])
    assert _trusts(made.authority.read_bytes(), made, 0)


def test_nothing_is_issued_by_a_clock_that_stands_before_weir(tmp_path: Path) -> None:
    with (
        _clock(-365 * 16),
        pytest.raises(WeirError, match=r"the clock of this machine says 201\d"),
    ):
        _made(tmp_path)


def test_a_lost_certificate_of_the_authority_is_made_again_under_its_key(tmp_path: Path) -> None:
    made = _made(tmp_path)
    earlier = made.authority.read_bytes()
    made.authority.unlink()
    issue(made, [])
    assert made.authority.read_bytes() != earlier
    assert _trusts(earlier, made, 0)
    assert _trusts(made.authority.read_bytes(), made, 0)


def test_names_are_compared_as_certificates_write_them(tmp_path: Path) -> None:
    made = _made(tmp_path, "2001:DB8::1", "bücher.example")
    before = made.of("broker").read_bytes()
    issue(made, ["[2001:db8::1]", "bücher.example"])
    assert made.of("broker").read_bytes() == before
    assert b"xn--bcher-kva.example" in _read(made.of("broker")).public_bytes(Encoding.DER)
    with pytest.raises(WeirError, match="is no name of a host"):
        issue(made, [f"{'ü' * 70}.example"])
