"""The stack's own certificate authority: makes the files that `certificates` names."""

from __future__ import annotations

import datetime
import ipaddress
import socket
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from weir import private
from weir.certificates import PARTS, Certificates
from weir.errors import WeirError

#: Validity of the authority and of what it issues, in days.
_DAYS = 3650
#: A certificate is issued anew if fewer days are left, and that of the authority, under the same key, if fewer of these:
#: probes that trust the earlier one alone have so long to enrol again.
_RENEWED = 365
_AUTHORITY_RENEWED = 730
#: Days before the end of a certificate from which `ending` names it.
_SOON = 60
#: A clock that says less is that of a machine whose battery is empty.
_BORN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def issue(certificates: Certificates, hosts: Iterable[str]) -> None:
    """Make what is missing, ends within a year or has not begun, or (the broker's certificate) does not name all of `hosts`.

    Renews the authority's certificate under the same key before its end: what it signed earlier and later is valid under
    both. Files of an authority whose key is not here are checked and stay. Raises WeirError if the broker's clients would
    refuse one of the files, or the clock cannot be right.
    """
    now = datetime.datetime.now(datetime.UTC)
    if now < _BORN:
        raise WeirError(f"the clock of this machine says {now:%Y-%m-%d}", hint="set it; certificates depend on it")
    certificates.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not certificates.authority.exists():
        _make_authority(certificates)
    authorities = _certificates(certificates.authority)
    if not _is_own(certificates, authorities[0]):
        for path in (certificates.authority, *map(certificates.of, PARTS)):
            _check(path, authorities, now)
        return
    if not _lasts(authorities[0], now, _AUTHORITY_RENEWED):
        private.write(certificates.earlier, certificates.authority.read_bytes(), over=True)
        _make_authority(certificates)
        authorities = _certificates(certificates.authority)
    reached = sorted({_normal(name) for name in (*hosts, "localhost", "127.0.0.1", "::1", socket.gethostname())})
    for part in PARTS:
        path = certificates.of(part)
        names = reached if part == "broker" else [f"weir.{part}"]
        if path.exists() and _certificates(path)[0].issuer != authorities[0].subject:
            _check(path, authorities, now)
        elif not (path.exists() and _is_current(_certificates(path)[0], authorities[0], names, now)):
            _issue(path, part, names, authorities[0], certificates.key)


def store_of_one(part: str, password: str) -> bytes:
    """A PKCS #12 store with a key and the certificate that it signed itself: those who hold it, and trust nothing else, trust each
    other alone.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"weir.{part}")])
    made = _builder(name, name, key.public_key()).sign(key, hashes.SHA256())
    return pkcs12.serialize_key_and_certificates(
        part.encode(), key, made, None, BestAvailableEncryption(password.encode())
    )


def ending(certificates: Certificates) -> list[str]:
    """A sentence on each certificate that ends within 60 days, and on an earlier one of the authority that probes may still
    trust alone.
    """
    now = datetime.datetime.now(datetime.UTC)
    said = []
    for path in (certificates.authority, *map(certificates.of, PARTS)):
        if path.exists() and not _lasts(found := _certificates(path)[0], now, _SOON):
            said.append(
                f"the certificate {path} ends on {found.not_valid_after_utc:%Y-%m-%d}: 'weir up' renews its own, put a new"
                " one of another authority there"
            )
    if certificates.earlier.exists():
        end = _certificates(certificates.earlier)[0].not_valid_after_utc
        if end > now:
            said.append(
                f"the authority's certificate was renewed: probes that enrolled before accept the broker until {end:%Y-%m-%d};"
                " give each new credentials by then (weir probe rotate)"
            )
    return said


def _make_authority(certificates: Certificates) -> None:
    """Make the authority's certificate, and its key unless there is one."""
    if not certificates.key.exists():
        private.write(certificates.key, _key(ec.generate_private_key(ec.SECP256R1())))
    key = _signing_key(certificates.key)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Weir on {socket.gethostname()}"[:64])])
    if certificates.authority.exists():
        name = _certificates(certificates.authority)[0].subject
    made = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    private.write(certificates.authority, made.public_bytes(Encoding.PEM), over=True)


def _certificates(path: Path) -> list[x509.Certificate]:
    """The certificates in a file. Raises WeirError if there is none."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError) as error:
        raise WeirError(f"{path} holds no certificate ({error})", hint=_AWAY) from error


def _signing_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise WeirError(f"{path} holds no key ({error})", hint=_AWAY) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise WeirError(f"{path} holds no key of an elliptic curve", hint=_AWAY)
    return key


#: What to do about an unreadable file.
_AWAY = "move it away: if its authority is that of weir, 'weir up' makes it anew"


def _is_own(certificates: Certificates, authority: x509.Certificate) -> bool:
    """Whether the key of this authority is here."""
    return certificates.key.exists() and _signing_key(certificates.key).public_key() == authority.public_key()


def _lasts(found: x509.Certificate, now: datetime.datetime, days: int) -> bool:
    """Whether the certificate is valid, and for so many days more."""
    return found.not_valid_before_utc <= now <= found.not_valid_after_utc - datetime.timedelta(days=days)


def _check(path: Path, authorities: list[x509.Certificate], now: datetime.datetime) -> None:
    """Raises WeirError if the broker or its clients would refuse a file that `weir` does not make."""
    own = [] if path.name == Certificates.AUTHORITY else _certificates(path)
    for found in own or authorities:
        if not _lasts(found, now, 0):
            raise WeirError(
                f"the certificate in {path} is valid from {found.not_valid_before_utc:%Y-%m-%d} to"
                f" {found.not_valid_after_utc:%Y-%m-%d}, and this machine's clock says {now:%Y-%m-%d}",
                hint="put a new one there, or set the clock",
            )
    if not own:
        return
    if not any(_is_signed(own[0], one) for one in (*own[1:], *authorities)):
        raise WeirError(
            f"the certificate in {path} is not signed by {Certificates.AUTHORITY} beside it",
            hint="put the certificate of its authority there, or move the file away",
        )
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError) as error:
        raise WeirError(
            f"{path} holds no key beside its certificate ({error})", hint="see docs/how-to/secure.md"
        ) from error
    if key.public_key() != own[0].public_key():
        raise WeirError(
            f"the key in {path} is not that of its certificate", hint="put the key of this certificate there"
        )


def _is_signed(found: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        found.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _is_current(found: x509.Certificate, issuer: x509.Certificate, names: list[str], now: datetime.datetime) -> bool:
    """Whether a certificate of the stack's authority stays as it is: it is valid for long, and for these names."""
    return _is_signed(found, issuer) and _lasts(found, now, _RENEWED) and set(names) <= set(_names(found))


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = extension.get_values_for_type(x509.IPAddress)
    return [*extension.get_values_for_type(x509.DNSName), *map(str, addresses)]


def _normal(name: str) -> str:
    """A name or address as certificates write it. Raises WeirError if it is neither."""
    try:
        return str(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        pass
    try:
        return name if name.isascii() else name.encode("idna").decode()
    except UnicodeError as error:
        raise WeirError(f"'{name}' is no name of a host: {error}", hint="see kafka.advertised in weir.yaml") from error


def _issue(path: Path, part: str, names: list[str], issuer: x509.Certificate, signing: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    ca_key = _signing_key(signing)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"weir.{part}")])
    # The broker is a client, too: of its own controller.
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if part == "broker" else [])]
    made = (
        _builder(subject, issuer.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
    )
    content = _key(key) + made.sign(ca_key, hashes.SHA256()).public_bytes(Encoding.PEM)
    private.write(path, content, over=True)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # Probes' clocks may be behind.
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
