"""The parts of the stack that need no server."""

from __future__ import annotations

import io
import ipaddress
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from weir import config, demo_sites, forget, frames, kafka, ledger
from weir.demo_traffic import write_capture
from weir.errors import WeirError
from weir.schema import files
from weir.services import cluster_id

CHECKOUT = Path(__file__).resolve().parents[2]


def test_the_example_is_the_defaults() -> None:
    example = yaml.safe_load((CHECKOUT / "stack/weir.example.yaml").read_text())
    assert example == config.Config().model_dump(mode="json")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ports: {kafka: x}", "ports.kafka"),
        ("colour: red", "colour"),
        ("ports: [1", "not valid YAML"),
        ("flink: {jobs: [fly]}", "flink.jobs.0"),
        ("- a", "the file"),
        ("storage: {raw_days: 30, hourly_days: 20}", "hourly_days .20. is less than raw_days .30."),
    ],
)
def test_a_wrong_configuration_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "weir.yaml"
    path.write_text(text)
    with pytest.raises(WeirError, match=says):
        config.load(path)


def test_secrets_are_made_once_and_private(tmp_path: Path) -> None:
    stack = config.Stack(config.Config(), tmp_path)
    first = stack.secret("one")
    assert stack.secret("one") == first != stack.secret("two")
    assert (tmp_path / "secrets/one").stat().st_mode & 0o077 == 0


def test_no_cluster_id_looks_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [uuid.UUID(bytes=bytes([first]) + bytes(15)) for first in (0xF8, 0xFB, 0x04)]
    monkeypatch.setattr(uuid, "uuid4", lambda: made.pop(0))
    assert cluster_id() == "B" + 21 * "A"
    assert not made


def test_topics_are_well_declared() -> None:
    for topic in kafka.declared_topics():
        assert topic["name"].startswith("weir.")
        if topic["file"]:
            message = topic["message"].rsplit(".", 1)[1]
            assert f"message {message} {{" in (CHECKOUT / "schemas" / topic["file"]).read_text()


def test_every_field_of_the_schemas_is_documented() -> None:
    """A comment stands above or behind every field, message, enum and value."""
    for path in (CHECKOUT / "schemas").glob("*.proto"):
        before = ""
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = line.split("//")[0].strip()
            field = "=" in code and code.endswith(";") and not code.startswith(("option", "syntax"))
            if (field or code.startswith(("message ", "enum "))) and "oneof" not in code:
                shown = "//" in line or before.startswith("//") or (field and before.endswith(("{", ";")))
                assert shown, f"{path.name}:{number} has no comment"
            if code or line.strip().startswith("//"):
                before = line.strip()


def test_statements_of_a_migration() -> None:
    text = "-- a; comment\nCREATE TABLE a\n(\n  x String COMMENT 'one; two' -- no\n);\nSELECT 1;\n"
    assert files.statements(text) == ["CREATE TABLE a\n(\n  x String COMMENT 'one; two' -- no\n)", "SELECT 1"]


@pytest.mark.parametrize(
    ("text", "sql"), [("90s", "INTERVAL 90 SECOND"), ("10min", "INTERVAL 10 MINUTE"), ("2 d", "INTERVAL 2 DAY")]
)
def test_spans_of_time(text: str, sql: str) -> None:
    assert sql in ledger.condition(text, None)


@pytest.mark.parametrize("text", ["", "ten", "5 weeks", "1h; DROP TABLE x"])
def test_no_spans_of_time(text: str) -> None:
    with pytest.raises(WeirError):
        ledger.condition(text, None)


def row(**changed: Any) -> dict[str, Any]:
    """A valid row of the ledger, with the given changes."""
    sound: dict[str, Any] = {
        "at": 1_700_000_000, "time": "2023-11-14T22:13:20Z", "interval_ms": 10_000, "probe": "p", "worker": 0, "state": "closed",
        "epochs": 1, "on_interface_packets": 10, "captured_packets": 10, "captured_octets": 1000, "dropped_packets": 0, "dropped": {},
        "in_ring_packets": 0, "waited_packets": 0, "carried_in_packets": 0, "carried_out_packets": 0, "flow_packets": 9, "overflow_packets": 0,
        "not_metered_packets": 1, "not_metered": {"not_ip": 1}, "late_packets": 0, "published_batches": 1, "published_records": 2,
        "published_packets": 9, "published_octets": 900, "received_batches": 1, "received_records": 2, "received_packets": 9,
        "repeated_batches": 0, "missing_batches": 0, "missing_sequences": [], "stored_records": 2, "stored_packets": 9,
        "stored_octets": 900, "lost_packets": 0, "lost_octets": 0, "gap_packets": 0, "interface_packets": 10, "source": "file:x",
        "exporter_records": {}, "exporter_lost": {}, "exporter_without_sampling_rate": {}, "exporter_refused": {},
        "exporter_sampling": {}, "published_nat_events": 5, "received_nat_events": 5, "stored_nat_events": 5,
        "published_interface_counters": 0, "received_interface_counters": 2, "stored_interface_counters": 2,
    }  # fmt: skip
    return sound | changed


@pytest.mark.parametrize(
    ("changed", "says", "loss"),
    [
        ({"state": "missing"}, "nothing arrived", True),
        ({"state": "batches_missing", "missing_batches": 1, "missing_sequences": [7]}, "sequence 7", True),
        ({"state": "closing_missing"}, "no closing record", True),
        ({"lost_packets": 3, "lost_octets": 300}, "3 packets", True),
        ({"lost_packets": -3}, "never published", True),
        ({"dropped_packets": 4, "dropped": {"kernel": 4}}, "kernel 4", True),
        ({"stored_nat_events": 3}, "2 events of translators and firewalls arrived but are not stored", True),
        ({"stored_nat_events": 10}, "5 stored events of translators and firewalls never arrived", True),
        ({"published_nat_events": 12}, "7 events of translators and firewalls were published but did not arrive", True),
        ({"received_interface_counters": 3}, "1 samples of interface counters arrived but", True),
        ({"gap_packets": 5}, "while no agent ran", True),
        ({"repeated_batches": 2}, "arrived again", False),
        ({"captured_packets": 12}, "do not balance", True),
        ({"exporter_lost": {"sflow 192.0.2.1 domain 0, samples": 2}}, "domain 0: 2 samples were sent", True),
        ({"exporter_without_sampling_rate": {"ipfix 192.0.2.1 domain 7": 9}}, "9 records arrived without", False),
        (
            {"exporter_sampling": {"ipfix 192.0.2.1 domain 7, not_understood": 3}},
            "a form that Weir cannot read; 3",
            False,
        ),
        ({"exporter_refused": {"ipfix 192.0.2.1 domain 7, bad_length": 1}}, "unreadable (bad length)", True),
    ],
)
def test_findings(changed: dict[str, Any], says: str, loss: bool) -> None:
    found = ledger.findings([row(), row(**changed)])
    assert [one.loss for one in found] == [loss]
    assert says in found[0].text


def test_what_an_exporter_lost_is_added_up() -> None:
    name = "netflow9 192.0.2.1 domain 7, datagrams"
    found = ledger.findings([row(exporter_lost={name: 2}), row(), row(exporter_lost={name: 3}), row(probe="q")])
    assert [one.text for one in found] == ["netflow9 192.0.2.1 domain 7: 5 datagrams were sent but did not arrive"]


class Answers:
    """A store that always gives the same answer."""

    def __init__(self, **answer: Any) -> None:
        self.answer = answer

    def rows(self, _sql: str) -> list[dict[str, Any]]:
        """Returns the same answer to any query."""
        return [self.answer]


@pytest.mark.parametrize(
    ("probes", "newest", "says"),
    [(0, 0, None), (3, 990, None), (3, 500, "ends at then"), (3, 0, "is empty")],
)
def test_a_ledger_that_nobody_writes_is_a_loss(probes: int, newest: int, says: str | None) -> None:
    found = ledger.staleness(Answers(probes=probes, newest=newest, now=1000, time="then"))  # type: ignore[arg-type]
    assert (found is not None) == (says is not None)
    if found and says:
        assert says in found.text
        assert found.loss


def test_each_row_of_a_ledger_adds_up() -> None:
    """Packets that waited in the ring are on the wire in one interval, and published in the next."""
    early = {"on_interface_packets": 10, "captured_packets": 0, "flow_packets": 0, "not_metered_packets": 0}
    early |= {"published_packets": 0, "stored_packets": 0, "not_metered": {}, "in_ring_packets": 10}
    rows = [row(**early, waited_packets=-10), row(on_interface_packets=0, waited_packets=10)]
    console = Console(file=io.StringIO(), width=200)
    assert ledger.show(console, rows)
    lines = [line.split() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert lines[1][4:] == ["on", "the", "wire", "waited", "dropped", "not", "metered", "published", "stored", "lost"]
    assert [line[4:] for line in lines[2:4]] == [["10", "-10", *"00000"], ["0", "10", "0", "1", "9", "9", "0"]]


def test_a_sound_ledger_says_so() -> None:
    console = Console(file=io.StringIO(), width=200)
    assert ledger.show(console, [row(), row(state="stopped")])
    assert "lost 0" in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_made_capture_is_the_same_size_each_time(tmp_path: Path) -> None:
    assert write_capture(tmp_path / "a", 1000) == write_capture(tmp_path / "b", 1000)
    assert (tmp_path / "a").stat().st_size == (tmp_path / "b").stat().st_size


@pytest.mark.parametrize(
    ("text", "shown"),
    [("192.0.2.7", "192.0.2.7/32"), ("::ffff:192.0.2.0/120", "192.0.2.0/24"), ("2001:DB8::/32", "2001:db8::/32")],
)
def test_what_can_be_forgotten(text: str, shown: str) -> None:
    assert str(forget.network(text)) == shown


@pytest.mark.parametrize(
    "text", ["", "host", "192.0.2.7/24", "0.0.0.0/0", "::/0", "::", "::/64", "192.0.2.0/33", "1.2.3"]
)
def test_what_cannot_be_forgotten(text: str) -> None:
    with pytest.raises(WeirError):
        forget.network(text)


def test_the_made_sites_are_the_same_each_time_and_go_on_where_they_ended(tmp_path: Path) -> None:
    whole, first, rest = io.BytesIO(), io.BytesIO(), io.BytesIO()
    demo_sites.stream("oslo", 1_790_000_000, whole, 1_790_000_060)
    kept = tmp_path / "second"
    demo_sites.stream("oslo", 1_790_000_000, first, 1_790_000_030, kept)
    assert kept.read_text() == "1790000030"
    demo_sites.stream("oslo", int(kept.read_text()), rest, 1_790_000_060)
    assert whole.getvalue().startswith(first.getvalue())
    header = len(frames.FILE_HEADER)
    # Conversations that begin before an end lose what comes after it.
    assert rest.getvalue()[header:][:16] in whole.getvalue()
    moments = [at for at, _ in packets_of(whole.getvalue()[header:])]
    assert moments == sorted(moments)
    assert 1_000 < len(moments) < 60_000


def packets_of(content: bytes) -> Iterator[tuple[float, int]]:
    """Times and lengths of a capture's packets."""
    at = 0
    while at < len(content):
        seconds, micros, length, _ = struct.unpack_from("<IIII", content, at)
        yield seconds + micros / 1e6, length
        at += 16 + length


def test_every_made_site_has_networks_and_every_network_a_place(tmp_path: Path) -> None:
    declared = {ipaddress.ip_network(prefix): one.site for prefix, one in demo_sites.own_networks().items()}
    assert {*declared.values()} == {*demo_sites.SITES.values()}
    for probe, site in demo_sites.SITES.items():
        own = [network for network, where in declared.items() if where == site]
        for at in range(1_790_000_000, 1_790_000_020):
            for _, frame in demo_sites.second(probe, at):
                ends = [frame[26:30], frame[30:34]] if frame[12] == 8 else [frame[22:38], frame[38:54]]
                assert sum(any(ipaddress.ip_address(end) in network for network in own) for end in ends) == 1
    for file in demo_sites.write_databases(tmp_path):
        assert "synthetic" in file.name


def test_a_user_is_asked_for_in_the_database_of_its_role(tmp_path: Path) -> None:
    access = tmp_path / "access.yaml"
    access.write_text(
        "roles: {analyst: {}, networks: {database: weir_networks}}\nusers: {ola: {role: networks}, kari: {role: analyst}}\n"
    )
    stack = config.Stack(config.Config.model_validate({"clickhouse": {"access": str(access)}}), tmp_path)
    assert [stack.database_of(user) for user in ("ola", "kari", "nobody")] == ["weir_networks", "", ""]
