"""Certificates of the stack's parts: who trusts whom, and when one is made anew."""

from __future__ import annotations

import datetime
import stat
from pathlib import Path
from unittest import mock

from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from weir import authority
from weir.authority import issue
from weir.certificates import PARTS, Certificates


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


def test_those_of_another_authority_stay(tmp_path: Path) -> None:
    other, made = _made(tmp_path / "other"), _made(tmp_path / "own")
    with mock.patch.object(authority.socket, "gethostname", return_value="elsewhere"):
        other = Certificates(tmp_path / "elsewhere")
        issue(other, [])
    made.of("broker").write_bytes(other.of("broker").read_bytes())
    issue(made, ["new.example"])
    assert made.of("broker").read_bytes() == other.of("broker").read_bytes()
    made.authority.write_bytes(other.authority.read_bytes())
    (made.folder / "ca.key").unlink()
    made.of("jobs").unlink()
    issue(made, ["new.example"])
    assert not made.of("jobs").exists()
