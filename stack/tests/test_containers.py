"""What the containers of docker-compose.yml are handed."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from weir import config, containers, credentials

SETTINGS = 'kafka: {brokers: "kafka:9092", managed: true, advertised: probes.example}\nports: {kafka_probes: 19094}\n'


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folders of the parts, after `keys`."""
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "home"))
    for name in ("broker", "jobs", "agent"):
        (tmp_path / "out" / name).mkdir(parents=True)
    _keys(tmp_path / "out")
    return tmp_path / "out"


def _keys(out: Path) -> None:
    assert containers.main(["keys", "--settings", SETTINGS, "--out", str(out)]) == 0


def test_each_part_gets_its_own_and_no_other_key(out: Path) -> None:
    broker, jobs = ((out / name / "key.pem").read_text() for name in ("broker", "jobs"))
    assert broker != jobs
    assert x509.load_pem_x509_certificate(jobs.encode()).subject.rfc4514_string() == "CN=weir.jobs"
    names = x509.load_pem_x509_certificate(broker.encode()).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert {"kafka", "probes.example"} <= set(names.value.get_values_for_type(x509.DNSName))
    every = "".join(path.read_text() for path in out.rglob("*") if path.is_file() and path.suffix != ".p12")
    assert every.count("PRIVATE KEY") == 4  # two keys, a line before and a line after each
    for path in out.rglob("*"):
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == 0o640, path


def test_the_parts_of_the_cluster_trust_each_other_alone(out: Path) -> None:
    password = (out / "jobs/cluster.password").read_bytes()
    key, certificate, others = pkcs12.load_key_and_certificates((out / "jobs/cluster.p12").read_bytes(), password)
    assert key
    assert certificate
    assert others == []
    assert key.public_key() == certificate.public_key()
    # Nothing that the authority issues is taken for one of them.
    certificate.verify_directly_issued_by(certificate)
    with pytest.raises(ValueError, match="password"):
        pkcs12.load_key_and_certificates((out / "jobs/cluster.p12").read_bytes(), b"another")


def test_the_broker_listens_by_tls_alone(out: Path) -> None:
    lines = (out / "broker/broker.properties").read_text().splitlines()
    found = dict(line.split("=", 1) for line in lines)
    assert found["listeners"] == "INTERNAL://:9092,PROBES://:9094,CONTROLLER://127.0.0.1:9093"
    assert found["advertised.listeners"] == "INTERNAL://kafka:9092,PROBES://probes.example:19094"
    assert "PLAINTEXT" not in found["listener.security.protocol.map"]
    assert found["listener.name.internal.ssl.client.auth"] == "required"
    assert "-Dweir.probes.port=9094" in (out / "broker/java").read_text().splitlines()
    assert "producer_byte_rate=50000000" in (out / "broker/limits").read_text()


def test_a_second_start_changes_neither_keys_nor_the_cluster(out: Path) -> None:
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    _keys(out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_managed_broker_is_reached_as_the_stacks_own(out: Path) -> None:
    stack = config.load(None)
    assert credentials.manages(stack)
    assert stack.brokers.addresses == "kafka:9092"
    assert stack.brokers.login["ssl.certificate.location"].endswith("command.pem")
    assert stack.probes_brokers == "probes.example:19094"


def test_wrong_settings_are_answered_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEIR_HOME", str(tmp_path))
    assert containers.main(["keys", "--settings", "kafka: {broker: x}", "--out", str(tmp_path)]) == 2
    assert "kafka.broker" in capsys.readouterr().err
