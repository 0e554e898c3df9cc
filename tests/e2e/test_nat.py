"""Who had an address and port at a given time: `weir nat` over rows as the jobs write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness import RunningStack
from weir.clickhouse import connect

#: Reports of one translator: time, event, subscriber, its port, what others saw, its port, protocol, destination, its port,
#: last port of a block, user. Addresses of one test alone: the store is shared.
REPORTS = [
    ("10:00:00.000", "create", "100.64.0.1", 1000, "198.51.100.1", 4000, 6, "", 0, 0, ""),
    ("10:05:00.000", "delete", "100.64.0.1", 1000, "198.51.100.1", 4000, 6, "", 0, 0, ""),
    # Its end was lost: the next subscriber of the same port ends it.
    ("10:06:00.000", "create", "100.64.0.2", 2000, "198.51.100.1", 4000, 6, "", 0, 0, ""),
    ("10:07:00.000", "create", "100.64.0.3", 2000, "198.51.100.1", 4000, 6, "", 0, 0, ""),
    ("10:07:00.000", "create", "100.64.0.4", 2000, "198.51.100.1", 4000, 17, "", 0, 0, ""),
    ("09:00:00.000", "port_block_allocate", "100.64.0.9", 0, "198.51.100.2", 1024, 0, "", 0, 2047, "anna"),
    ("12:00:00.000", "port_block_free", "100.64.0.9", 0, "198.51.100.2", 1024, 0, "", 0, 2047, "anna"),
    # Within the block, of another subscriber.
    ("10:00:00.000", "create", "100.64.0.8", 7, "198.51.100.2", 1100, 6, "", 0, 0, ""),
    ("11:30:00.000", "delete", "100.64.0.7", 77, "198.51.100.3", 5000, 6, "", 0, 0, ""),
    # One port towards two destinations; the end of one names none.
    ("13:00:00.000", "create", "100.64.0.5", 50, "198.51.100.9", 6000, 6, "203.0.113.1", 443, 0, ""),
    ("13:01:00.000", "create", "100.64.0.6", 50, "198.51.100.9", 6000, 6, "203.0.113.2", 443, 0, ""),
    ("13:10:00.000", "delete", "100.64.0.5", 50, "198.51.100.9", 6000, 6, "", 0, 0, ""),
    ("13:00:00.000", "address_bind", "2001:db8:a::1", 0, "2001:db8:b::1", 0, 0, "", 0, 0, ""),
    # An end was lost, the port was another's, and the first subscriber had it again.
    ("14:00:00.000", "create", "100.64.0.1", 1, "198.51.100.10", 7000, 6, "", 0, 0, ""),
    ("14:10:00.000", "create", "100.64.0.2", 1, "198.51.100.10", 7000, 6, "", 0, 0, ""),
    ("14:20:00.000", "delete", "100.64.0.2", 1, "198.51.100.10", 7000, 6, "", 0, 0, ""),
    ("14:30:00.000", "create", "100.64.0.1", 1, "198.51.100.10", 7000, 6, "", 0, 0, ""),
    ("14:40:00.000", "delete", "100.64.0.1", 1, "198.51.100.10", 7000, 6, "", 0, 0, ""),
    # Reports that contradict each other.
    ("15:00:00.000", "create", "100.64.0.1", 1, "198.51.100.11", 7000, 6, "", 0, 0, ""),
    ("15:10:00.000", "create", "100.64.0.2", 1, "198.51.100.11", 7000, 6, "", 0, 0, ""),
    ("15:40:00.000", "delete", "100.64.0.1", 1, "198.51.100.11", 7000, 6, "", 0, 0, ""),
    # A block, and on one of its ports very many sessions that ended.
    ("09:00:00.000", "port_block_allocate", "100.64.0.9", 0, "198.51.100.12", 1024, 0, "", 0, 2047, ""),
    *(
        (f"10:00:{second:02}.000", event, "100.64.0.9", 10_000 + second, "198.51.100.12", 1024, 6, "", 0, 0, "")
        for second in range(60)
        for event in ("create", "delete")
    ),
    # Refused: nobody had anything.
    ("13:00:00.000", "deny", "100.64.0.5", 51, "198.51.100.9", 6001, 6, "203.0.113.1", 22, 0, ""),
]


def _address(text: str) -> str:
    return text if ":" in text else f"::ffff:{text}" if text else "::"


@pytest.fixture(scope="module")
def told(stack: RunningStack) -> RunningStack:
    """A stack in which the reports are stored."""
    rows = ", ".join(
        f"(now(), '2026-11-20 {at}', '{event}', '{_address(src)}', {src_port}, '{_address(post)}', {post_port},"
        f" {protocol}, '{_address(dst)}', {dst_port}, {end}, '{user}', '::ffff:192.0.2.254', 'cgn')"
        for at, event, src, src_port, post, post_port, protocol, dst, dst_port, end, user in REPORTS
    )
    connect(stack.stack, "admin").execute(
        "INSERT INTO nat_events (ts, event_at, event, src_addr, src_port, post_src_addr, post_src_port, protocol, dst_addr,"
        f" dst_port, port_block_end, user_name, exporter_addr, probe) VALUES {rows}"
    )
    return stack


@pytest.fixture(scope="module")
def inwards(stack: RunningStack) -> RunningStack:
    """A stack in which reports on connections from outside are stored."""
    rows = ", ".join(
        f"(now(), '2026-11-20 {at}', '{event}', 6, '{_address(client)}', {client_port}, '{_address(client)}', {client_port},"
        f" '{_address(asked)}', {port}, '{_address(server)}', {server_port}, '::ffff:192.0.2.254', 'cgn')"
        for at, event, client, client_port, asked, port, server, server_port in INWARDS
    )
    connect(stack.stack, "admin").execute(
        "INSERT INTO nat_events (ts, event_at, event, protocol, src_addr, src_port, post_src_addr, post_src_port, dst_addr,"
        f" dst_port, post_dst_addr, post_dst_port, exporter_addr, probe) VALUES {rows}"
    )
    return stack


def asked(
    stack: RunningStack, who: str, at: str, options: list[str], known: bool
) -> tuple[list[str], list[dict[str, Any]]]:
    """The subscribers of the answer, in order, and its rows; it is certain if it is `known`."""
    done = stack.weir("nat", who, "--at", f"2026-11-20T{at}Z", "--json", *options)
    assert done.status == (0 if known else 1), done.err
    answer = json.loads(done.out)
    assert answer["known"] is known
    return sorted({row["subscriber"] for row in answer["holders"]}), answer["holders"]


@pytest.mark.parametrize(
    ("who", "at", "options", "subscribers", "known"),
    [
        ("198.51.100.1:4000", "10:01:00", [], ["100.64.0.1"], True),
        ("198.51.100.1:4000", "09:59:59", [], [], False),
        ("198.51.100.1:4000", "10:05:30", [], [], False),
        ("198.51.100.1:4000", "10:06:30", [], ["100.64.0.2"], True),
        ("198.51.100.1:4000", "10:08:00", ["--protocol", "tcp"], ["100.64.0.3"], True),
        ("198.51.100.1:4000", "10:08:00", [], ["100.64.0.3", "100.64.0.4"], False),
        ("198.51.100.2:1500", "10:08:00", [], ["100.64.0.9"], True),
        ("198.51.100.2:2048", "10:08:00", [], [], False),
        ("198.51.100.2:1500", "12:00:01", [], [], False),
        # A session of one within the block of another: the reports contradict each other.
        ("198.51.100.2:1100", "10:08:00", [], ["100.64.0.8", "100.64.0.9"], False),
        # Its beginning was not stored: the end alone names nobody.
        ("198.51.100.3:5000", "10:08:00", [], [], False),
        ("198.51.100.9:6000", "13:02:00", [], ["100.64.0.5", "100.64.0.6"], False),
        ("198.51.100.9:6000", "13:02:00", ["--to", "203.0.113.2"], ["100.64.0.6"], True),
        ("198.51.100.9:6000", "13:20:00", [], ["100.64.0.6"], True),
        ("198.51.100.9:6001", "13:20:00", [], [], False),
        ("[2001:db8:b::1]:80", "13:20:00", [], ["2001:db8:a::1"], True),
        ("198.51.100.10:7000", "14:15:00", [], ["100.64.0.2"], True),
        ("198.51.100.10:7000", "14:25:00", [], [], False),
        ("198.51.100.11:7000", "15:20:00", [], ["100.64.0.1", "100.64.0.2"], False),
        ("198.51.100.12:1024", "10:30:00", [], ["100.64.0.9"], True),
    ],
)
def test_who_had_it(
    told: RunningStack, who: str, at: str, options: list[str], subscribers: list[str], known: bool
) -> None:
    assert asked(told, who, at, options, known)[0] == subscribers


#: Connections from outside: time, event, client, its port, the address and port that it asked for, the server within, its port.
INWARDS = [
    ("10:00:00.000", "create", "203.0.113.7", 5000, "198.51.100.30", 443, "10.0.0.5", 8443),
    ("10:01:00.000", "create", "203.0.113.7", 5001, "198.51.100.30", 443, "10.0.0.5", 8443),
    # The end of the first leaves the server open.
    ("10:02:00.000", "delete", "203.0.113.7", 5000, "198.51.100.30", 443, "198.51.100.30", 443),
    ("10:03:00.000", "delete", "203.0.113.7", 5001, "198.51.100.30", 443, "10.0.0.5", 8443),
    # One port before two servers.
    ("11:00:00.000", "create", "203.0.113.7", 5002, "198.51.100.30", 443, "10.0.0.5", 8443),
    ("11:00:00.000", "create", "203.0.113.8", 5002, "198.51.100.30", 443, "10.0.0.6", 8443),
    # Refused, and not translated: nobody is behind it.
    ("12:00:00.000", "deny", "203.0.113.7", 5003, "198.51.100.30", 22, "10.0.0.5", 22),
    ("12:00:00.000", "create", "203.0.113.7", 5003, "198.51.100.30", 23, "198.51.100.30", 23),
]


@pytest.mark.parametrize(
    ("who", "at", "options", "servers", "known"),
    [
        ("198.51.100.30:443", "09:59:59", [], [], False),
        ("198.51.100.30:443", "10:00:30", [], ["10.0.0.5"], True),
        ("198.51.100.30:443", "10:02:30", [], ["10.0.0.5"], True),
        ("198.51.100.30:443", "10:03:30", [], [], False),
        ("198.51.100.30:443", "10:00:30", ["--protocol", "udp"], [], False),
        ("198.51.100.30:443", "11:00:30", [], ["10.0.0.5", "10.0.0.6"], False),
        ("198.51.100.30:443", "11:00:30", ["--to", "203.0.113.8"], ["10.0.0.6"], True),
        ("198.51.100.30:22", "12:00:30", [], [], False),
        ("198.51.100.30:23", "12:00:30", [], [], False),
        # The client is nobody's subscriber.
        ("203.0.113.7:5000", "10:00:30", [], [], False),
    ],
)
def test_who_is_behind_an_address_that_is_mapped_inwards(
    inwards: RunningStack, who: str, at: str, options: list[str], servers: list[str], known: bool
) -> None:
    subscribers, holders = asked(inwards, who, at, options, known)
    assert subscribers == servers
    assert all(row["inwards"] and row["subscriber_port"] == 8443 for row in holders)
    shown = inwards.weir("nat", who, "--at", f"2026-11-20T{at}Z", *options).out
    assert ("to which connections from outside were mapped" in " ".join(shown.split())) is known


def test_a_session_without_an_end_is_not_believed_for_ever(told: RunningStack) -> None:
    later = told.weir("nat", "198.51.100.9:6000", "--at", "2026-11-21T13:20:00Z", "--json")
    assert (later.status, json.loads(later.out)["holders"]) == (1, [])
    block = told.weir("nat", "198.51.100.12:1999", "--at", "2026-12-31T13:20:00Z", "--json")
    assert block.status == 0


def test_the_reports_beside_the_moment_are_shown(told: RunningStack) -> None:
    done = told.weir("nat", "198.51.100.1:4000", "--at", "2026-11-20T10:05:30Z")
    assert "not known" in done.out
    assert "10:05:00.000Z  delete" in done.out
    assert "10:06:00.000Z  create" in done.out
    answer = json.loads(told.weir("nat", "198.51.100.1:4000", "--at", "2026-11-20T10:08:00Z", "--json").out)
    assert [row["subscriber"] for row in answer["superseded"]] == ["100.64.0.2"]


@pytest.mark.parametrize(
    "arguments", [("198.51.100.1:70000", "2026-11-20"), ("anna:1", "2026-11-20"), ("::1", "today")]
)
def test_a_wrong_question_is_an_error(told: RunningStack, arguments: tuple[str, str]) -> None:
    done = told.weir("nat", arguments[0], "--at", arguments[1])
    assert done.status == 2
    assert arguments[0 if arguments[0] != "::1" else 1] in done.err
