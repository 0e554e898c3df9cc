"""Attacks in a capture become alerts, once each, with evidence that the stored rows show again; ordinary crowds do not."""

from __future__ import annotations

import ipaddress
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import RunningStack, eventually
from weir.frames import ACK, PUSH, RST, SYN, SYNACK, TCP, UDP, Packet, ethernet, tcp, udp, write

SECONDS = 25
FLOODED, CROWDED, SCANNER, VICTIM, GUESSER, SERVER = (f"10.166.{host}.80" for host in range(1, 7))


def _address(first: str, more: int) -> str:
    return str(ipaddress.ip_address(first) + more)


def _flood(begin: float) -> Iterator[Packet]:
    """Forged senders, 600 a second, whom the victim answers in vain."""
    for number in range(600 * SECONDS):
        at, sender = begin + number / 600, _address("198.18.0.1", number)
        yield at, ethernet(sender, FLOODED, TCP, tcp(1024 + number % 999, 80, SYN))
        yield at + 0.001, ethernet(FLOODED, sender, TCP, tcp(80, 1024 + number % 999, SYNACK))


def _connection(at: float, client: str, port: int, server: str, service: int, octets: int) -> Iterator[Packet]:
    there, back = (client, server), (server, client)
    for step, (ends, ports, flags, payload) in enumerate(
        (
            (there, (port, service), SYN, b""),
            (back, (service, port), SYNACK, b""),
            (there, (port, service), ACK, b""),
            (there, (port, service), PUSH, bytes(octets)),
            (back, (service, port), PUSH, bytes(octets)),
            (there, (port, service), RST, b""),
        )
    ):
        yield at + 0.002 * step, ethernet(*ends, TCP, tcp(*ports, flags, payload, (1 + step, 1)))


def _crowd(begin: float) -> Iterator[Packet]:
    """As many who do connect."""
    for number in range(300 * SECONDS):
        client = _address("198.19.0.1", number)
        yield from _connection(begin + number / 300, client, 2000 + number % 999, CROWDED, 443, 100 + number % 700)


def _scan(begin: float, scanner: str = SCANNER, hosts: int = 60) -> Iterator[Packet]:
    """SSH of so many hosts."""
    for number in range(hosts):
        target = _address("10.166.9.1", number)
        yield begin + number / 10, ethernet(scanner, target, TCP, tcp(40_000 + number, 22, SYN))


def _reflection(begin: float) -> Iterator[Packet]:
    """Answers of 20 resolvers."""
    for number in range(200 * SECONDS):
        source = _address("192.0.2.1", number % 20)
        yield begin + number / 200, ethernet(source, VICTIM, UDP, udp(53, 4444, bytes(1200)))


def _guesses(begin: float) -> Iterator[Packet]:
    """A connection to SSH each second, one like the other."""
    for number in range(SECONDS):
        yield from _connection(begin + number, GUESSER, 3000 + number, SERVER, 22, 900)


def _alerts(stack: RunningStack) -> list[dict[str, Any]]:
    return stack.store.rows(
        "SELECT reason, subject_kind, subject, toString(severity) AS severity, open, technique, ports, probes, peers, version, query, text"
        " FROM v_alerts WHERE has(mapKeys(probes), 'attacked') ORDER BY reason, subject"
    )


@pytest.fixture(scope="module")
def attacked(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The alerts after a capture with all of these was read."""
    capture = tmp_path_factory.mktemp("attacks") / "attacks.pcap"
    begin = time.time() // 10 * 10 - 600
    packets = [*_flood(begin), *_crowd(begin), *_scan(begin), *_reflection(begin), *_guesses(begin)]
    # A minute and more later, so that the floods are over.
    packets.append((begin + 120, ethernet("10.166.7.1", "10.166.7.2", UDP, udp(4000, 4001, bytes(10)))))
    write(capture, packets)
    stack.enrol("attacked")
    stack.read("attacked", capture, words=("--keep-time",))
    stack.settled("attacked", len(packets))

    def over() -> list[dict[str, Any]]:
        found = _alerts(stack)
        closed = {one["reason"] for one in found if not one["open"]}
        return found if {"syn_flood", "reflection"} <= closed else []

    alerts: list[dict[str, Any]] = eventually(over, "the floods' alerts have closed", 180)
    return alerts


def test_each_attack_is_one_alert_and_a_crowd_is_none(attacked: list[dict[str, Any]]) -> None:
    assert [(one["reason"], one["subject"], one["severity"]) for one in attacked] == [
        ("password_guessing", GUESSER, "info"),
        ("reflection", VICTIM, "warning"),
        ("scan_horizontal", SCANNER, "info"),
        ("syn_flood", FLOODED, "warning"),
    ]
    for one in attacked:
        assert one["probes"].keys() == {"attacked"}, one
        assert one["version"] <= 3, one
    kinds = {one["subject"]: (one["subject_kind"], one["technique"], one["ports"]) for one in attacked}
    assert kinds[SCANNER] == ("host", "T1046", [22])
    assert kinds[FLOODED] == ("host", "T1498.001", [80])
    assert [one["open"] for one in attacked if one["reason"] in ("syn_flood", "reflection")] == [False] * 2


def test_the_sql_of_an_alert_shows_its_evidence(stack: RunningStack, attacked: list[dict[str, Any]]) -> None:
    for one in attacked:
        rows = stack.store.rows(one["query"])
        assert rows, one["query"]
        shown = {row[end] for row in rows for end in ("src", "dst") if end in row}
        if one["reason"] != "syn_flood":  # of its many senders the first hundred are shown, ordered by their packets
            assert one["peers"].keys() <= shown, (one["reason"], one["peers"], shown)


def test_people_see_who_and_what(stack: RunningStack, attacked: list[dict[str, Any]]) -> None:
    printed = stack.weir("alerts", "--since", "1h").out
    for one in attacked:
        assert one["subject"] in printed, printed


def test_a_rule_is_in_force_without_a_restart_and_a_wrong_one_is_refused(stack: RunningStack, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(
        "rules:\n"
        "  - {name: strict, detector: scan_horizontal, prefixes: [10.167.0.0/16], parameters: {hosts: 10, walk: 5}, severity: critical}\n"
        "  - {name: ours, detector: scan_horizontal, off: true, prefixes: [10.168.0.0/16]}\n"
    )
    assert stack.weir("rules", "set", str(file)).out == "2 set, 0 removed, 0 unchanged\n"
    stack.enrol("ruled")

    def scanned(*scans: tuple[str, int]) -> None:
        begin = time.time() // 10 * 10 - 60
        capture = tmp_path / "scan.pcap"
        write(capture, [packet for scan in scans for packet in _scan(begin, *scan)])
        stack.read("ruled", capture, words=("--keep-time",))

    def alerts() -> dict[str, str]:
        rows = stack.store.rows(
            "SELECT subject, toString(severity) AS severity FROM v_alerts WHERE has(mapKeys(probes), 'ruled')"
        )
        return {row["subject"]: row["severity"] for row in rows}

    tries = itertools.count(1)

    def in_force() -> bool:
        scanned((f"10.167.0.{next(tries)}", 12))
        time.sleep(3)
        return bool(alerts())

    eventually(in_force, "the rule with 10 hosts counts", 180)
    assert {*alerts().values()} == {"critical"}
    scanned(("10.168.0.1", 60), ("10.169.0.1", 60))
    eventually(lambda: "10.169.0.1" in alerts(), "the scanner without a rule", 120)
    assert "10.168.0.1" not in alerts()
    file.write_text("rules:\n  - {name: wrong, detector: scan_sideways}\n")
    refused = stack.weir("rules", "set", str(file))
    assert refused.status == 2
    assert f"{file}:2: no detector is called 'scan_sideways'" in refused.err
    assert len(json.loads(stack.weir("rules", "list", "--json").out)) == 2
    file.write_text("rules: []\n")
    assert stack.weir("rules", "set", str(file)).out == "0 set, 2 removed, 0 unchanged\n"
