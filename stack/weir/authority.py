"""The stack's own certificate authority: makes the files that `certificates` names."""

from __future__ import annotations

import datetime
import ipaddress
import os
import socket
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from weir.certificates import PARTS, Certificates

#: Validity of the authority and of what it issues, in days.
_DAYS = 3650
#: A certificate is issued anew if fewer days are left.
_RENEWED = 365


def issue(certificates: Certificates, hosts: Iterable[str]) -> None:
    """Make what is missing, expires within a year, or (the broker's certificate) does not name all of `hosts`."""
    certificates.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    signing = certificates.folder / "ca.key"
    if not certificates.authority.exists():
        _make_authority(certificates.authority, signing)
    if not signing.exists():
        return
    issuer = x509.load_pem_x509_certificate(certificates.authority.read_bytes())
    reached = sorted({*hosts, "localhost", "127.0.0.1", "::1", socket.gethostname()})
    for part in PARTS:
        names = reached if part == "broker" else [f"weir.{part}"]
        if not _is_current(certificates.of(part), issuer, names):
            _issue(certificates.of(part), part, names, issuer, signing)


def _make_authority(certificate: Path, signing: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Weir on {socket.gethostname()}"[:64])])
    made = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(signing, _key(key))
    _write(certificate, made.public_bytes(Encoding.PEM))


def _is_current(path: Path, issuer: x509.Certificate, names: list[str]) -> bool:
    """Whether the certificate stays as it is: it is another authority's, or is valid for long and for these names."""
    if not path.exists():
        return False
    found = x509.load_pem_x509_certificate(path.read_bytes())
    if found.issuer != issuer.subject:
        return True
    left = found.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    return left.days >= _RENEWED and set(names) <= set(_names(found))


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = extension.get_values_for_type(x509.IPAddress)
    return [*extension.get_values_for_type(x509.DNSName), *map(str, addresses)]


def _issue(path: Path, part: str, names: list[str], issuer: x509.Certificate, signing: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    ca_key = load_pem_private_key(signing.read_bytes(), None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
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
    _write(path, _key(key) + made.sign(ca_key, hashes.SHA256()).public_bytes(Encoding.PEM))


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


def _write(path: Path, content: bytes) -> None:
    """Replace a file, which only its owner may read."""
    made = path.with_name(f".{path.name}")
    with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        os.fsync(file.fileno())
    made.replace(path)
