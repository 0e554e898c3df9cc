"""Rules for detectors: what a file may say, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from weir import rules
from weir.errors import WeirError
from weir.messages.alert_pb2 import Severity

GOOD = """\
rules:
  - name: house-scanner
    detector: scan_vertical
    off: true
    prefixes: [192.0.2.7, 2001:db8::/48]
    why: the scanner of our own security team
  - name: busy-servers
    detector: syn_flood
    customers: [Fjord Power]
    probes: [north]
    parameters: {host_per_second: 2000}
    severity: info
"""


def _file(folder: Path, text: str) -> Path:
    path = folder / "rules.yaml"
    path.write_text(text)
    return path


def test_a_file_becomes_messages(tmp_path: Path) -> None:
    scanner, busy = rules.read_file(_file(tmp_path, GOOD))
    left_out = rules.message(scanner, {})
    assert left_out.off
    assert left_out.detector == "scan_vertical"
    assert list(left_out.prefixes) == ["192.0.2.7/32", "2001:db8::/48"]
    said = rules.message(busy, {"Fjord Power": 3})
    assert said == rules.Rule(
        major=1,
        name="busy-servers",
        detector="syn_flood",
        customer_ids=[3],
        probes=["north"],
        parameters={"host_per_second": 2000},
        severity=Severity.SEVERITY_INFO,
    )
    console = Console(record=True, width=120)
    console.print(rules.table({"busy-servers": said}))
    text = console.export_text()
    assert "customer 3" in text
    assert "host_per_second 2000" in text


def test_a_customer_without_a_prefix_is_refused(tmp_path: Path) -> None:
    busy = rules.read_file(_file(tmp_path, GOOD))[1]
    with pytest.raises(WeirError, match="'Fjord Power', who has no declared prefix"):
        rules.message(busy, {"Fjord Powers": 3})


@pytest.mark.parametrize(
    ("change", "line", "reason"),
    [
        (("scan_vertical", "scan_vertikal"), 2, r"no detector is called 'scan_vertikal' \(known: scan_vertical"),
        (("off: true", "off: maybe"), 4, "'off' is true or false"),
        (("192.0.2.7", "192.0.2.7/24"), 5, "bits set beyond its length"),
        (("why:", "because:"), 6, "a rule has no 'because'"),
        (("name: busy-servers", "name: house-scanner"), 7, "already on line 2"),
        (("name: busy-servers", "name: Busy"), 7, "small letters, digits and hyphens"),
        (("host_per_second", "hosts"), 11, "the detector syn_flood has no 'hosts'"),
        (("2000", "many"), 11, "'host_per_second' is a number from 1 to 1e.09"),
        (("2000", "-1"), 11, "'host_per_second' is a number from 1"),
        (("2000", ".nan"), 11, "'host_per_second' is a number from 1"),
        (("severity: info", "severity: loud"), 7, "'severity' is one of info, warning, critical"),
        (("rules:", "regeln:"), 1, "the file has no 'regeln'"),
        (("[north]", "north"), 10, "'probes' is a list"),
        (("[Fjord Power]", "[Fjord Power"), 10, "expected"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(
    tmp_path: Path, change: tuple[str, str], line: int, reason: str
) -> None:
    assert change[0] in GOOD
    with pytest.raises(WeirError, match=rf"rules.yaml:{line}: .*{reason}"):
        rules.read_file(_file(tmp_path, GOOD.replace(*change, 1)))


def test_an_empty_file_and_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WeirError, match="begins with 'rules:'"):
        rules.read_file(_file(tmp_path, ""))
    with pytest.raises(WeirError, match="cannot read"):
        rules.read_file(tmp_path / "absent.yaml")
    assert rules.read_file(_file(tmp_path, "rules: []\n")) == []
