"""Who had an address and port: incomplete or late reports, in another form or from another unit, over rows as the jobs
write them.

Every case states which subscriber really held the port. The answer may not name anyone else; an answer with several
names is not wrong.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from harness import RunningStack
from weir.clickhouse import connect


@dataclass(frozen=True)
class Report:
    """One row of nat_events; `P` stands for the case's own address."""

    at: str
    event: str
    src: str
    src_port: int = 0
    post_port: int = 0
    protocol: int = 6
    dst: str = ""
    dst_port: int = 0
    end: int = 0
    user: str = ""
    exporter: str = "192.0.2.254"
    vrf: int = 0


@dataclass(frozen=True)
class Case:
    name: str
    reports: list[Report]
    port: int
    at: str
    #: Subscribers whom the answer may name: exactly one of them if `known` is True; any or none if it is None.
    truth: list[str]
    known: bool | None
    options: list[str] = field(default_factory=list)
    user: str | None = None


A, B = "100.64.0.1", "100.64.0.2"
DAY = "2026-11-20 "
X, Y = "203.0.113.1", "203.0.113.2"


def create(at: str, src: str, **more: object) -> Report:
    return Report(at, "create", src, **{"src_port": 1000, "post_port": 4000, **more})  # type: ignore[arg-type]


def delete(at: str, src: str, **more: object) -> Report:
    return Report(at, "delete", src, **{"src_port": 1000, "post_port": 4000, **more})  # type: ignore[arg-type]


def given(at: str, src: str, **more: object) -> Report:
    return Report(at, "port_block_allocate", src, **{"post_port": 1024, "end": 2047, "protocol": 0, **more})  # type: ignore[arg-type]


def freed(at: str, src: str, **more: object) -> Report:
    return Report(at, "port_block_free", src, **{"post_port": 1024, "end": 2047, "protocol": 0, **more})  # type: ignore[arg-type]


MANY = [create(f"{DAY}10:00:{at:02}.000", A, dst=f"203.0.113.{at + 100}", dst_port=443) for at in range(25)]
CASES = [
    Case(
        "a superseded holder does not come back",
        [create(DAY + "09:00:00.000", A), create(DAY + "10:00:00.000", B), delete(DAY + "10:10:00.000", B)],
        4000,
        DAY + "11:00:00",
        [],
        False,
    ),
    Case(
        "a session whose end was lost yields to a block given since",
        [create("2026-08-01 10:00:00.000", A, post_port=1500), given(DAY + "09:00:00.000", B)],
        1500,
        DAY + "10:00:00",
        [B],
        None,
    ),
    Case(
        "a session whose end was lost yields to an address bound since",
        [create("2026-06-01 10:00:00.000", A), Report("2026-07-01 10:00:00.000", "address_bind", B, protocol=0)],
        4000,
        DAY + "10:00:00",
        [B],
        None,
    ),
    Case(
        "an end after the moment does not outdo a block that was held",
        [
            given(DAY + "09:00:00.000", B),
            freed(DAY + "12:00:00.000", B),
            delete(DAY + "18:00:00.000", A, post_port=1500),
        ],
        1500,
        DAY + "10:00:00",
        [B],
        True,
    ),
    Case(
        "an end without its beginning reaches back to the holder in between at most",
        [create(DAY + "10:00:00.000", B), delete(DAY + "10:05:00.000", B), delete(DAY + "12:00:00.000", A)],
        4000,
        DAY + "09:00:00",
        [],
        False,
    ),
    Case(
        "an end that names no destination says nothing of the time before its beginning",
        [create(DAY + "10:00:00.000", A, dst=X, dst_port=443), delete(DAY + "10:05:00.000", A)],
        4000,
        DAY + "09:00:00",
        [],
        False,
    ),
    Case(
        "an end that names a destination ends what began without one",
        [create(DAY + "10:00:00.000", A), delete(DAY + "10:05:00.000", A, dst=X, dst_port=443)],
        4000,
        DAY + "11:00:00",
        [],
        False,
    ),
    Case(
        "an end without the inside port is an end",
        [create(DAY + "10:00:00.000", A), delete(DAY + "10:05:00.000", A, src_port=0)],
        4000,
        DAY + "11:00:00",
        [],
        False,
    ),
    Case(
        "an end without a protocol is one of all",
        [create(DAY + "10:00:00.000", A), delete(DAY + "10:05:00.000", A, protocol=0)],
        4000,
        DAY + "11:00:00",
        [],
        False,
    ),
    Case(
        "an end may come from the other unit of a pair",
        [create(DAY + "10:00:00.000", A, exporter="192.0.2.1"), delete(DAY + "10:05:00.000", A, exporter="192.0.2.2")],
        4000,
        DAY + "11:00:00",
        [],
        False,
    ),
    Case(
        "a block freed by its start is free",
        [given(DAY + "10:00:00.000", A), freed(DAY + "10:05:00.000", A, end=0)],
        1500,
        DAY + "11:00:00",
        [],
        False,
    ),
    Case(
        "an address taken back ends its ports",
        [
            create(DAY + "09:00:00.000", A),
            Report(DAY + "10:00:00.000", "address_unbind", A, protocol=0),
            Report(DAY + "10:30:00.000", "address_bind", B, protocol=0),
        ],
        4000,
        DAY + "11:00:00",
        [B],
        None,
    ),
    Case(
        "a ping, or ESP, is no holder of the whole address",
        [create(DAY + "10:00:00.000", A, src_port=0, post_port=0, protocol=1, dst=X)],
        4000,
        DAY + "10:30:00",
        [],
        False,
    ),
    Case(
        "many sessions of one hide no other",
        [*MANY, create(DAY + "09:59:00.000", B, dst=X, dst_port=80)],
        4000,
        DAY + "10:30:00",
        [A, B],
        False,
    ),
    Case(
        "many sessions do not hide their end",
        [*MANY, delete(DAY + "10:20:00.000", A)],
        4000,
        DAY + "10:30:00",
        [],
        False,
    ),
    Case(
        "a private address in two VRFs is two subscribers",
        [
            create(DAY + "10:00:00.000", "10.0.0.1", vrf=7, user="north", dst=X),
            create(DAY + "10:01:00.000", "10.0.0.1", vrf=8, user="south", dst=Y),
        ],
        4000,
        DAY + "10:10:00",
        ["10.0.0.1"],
        False,
    ),
    Case(
        "the user is that of the moment",
        [
            given("2026-08-01 10:00:00.000", A, user="zoe"),
            freed("2026-08-02 10:00:00.000", A, user="zoe"),
            given(DAY + "09:00:00.000", A, user="anna"),
        ],
        1500,
        DAY + "10:00:00",
        [A],
        True,
        user="anna",
    ),
    Case(
        "a VRF's user is that of the VRF",
        [
            create(DAY + "10:00:00.000", "10.0.0.1", vrf=7, user="north"),
            create(DAY + "10:05:00.000", "10.0.0.1", vrf=8, user="south"),
        ],
        4000,
        DAY + "10:03:00",
        ["10.0.0.1"],
        True,
        user="north",
    ),
    Case(
        "IPv6 is written as it is",
        [create(DAY + "10:00:00.000", "2001:db8::ffff:5")],
        4000,
        DAY + "10:10:00",
        ["2001:db8::ffff:5"],
        True,
    ),
    Case(
        "a report without a subscriber tells nobody",
        [create(DAY + "10:00:00.000", "::")],
        4000,
        DAY + "10:10:00",
        [],
        False,
    ),
    Case(
        "a moment told to the second is the whole second",
        [create(DAY + "09:00:00.000", B), delete(DAY + "10:00:00.200", B), create(DAY + "10:00:00.300", A)],
        4000,
        DAY + "10:00:00",
        [A, B],
        False,
    ),
    Case(
        "NAT64: --to is the destination that saw it",
        [create(DAY + "10:00:00.000", "2001:db8::5", dst="64:ff9b::cb00:7101")],
        4000,
        DAY + "10:10:00",
        ["2001:db8::5"],
        True,
        ["--to", X],
    ),
    Case(
        "a firewall before which nothing is translated tells nobody",
        [
            given(DAY + "09:00:00.000", B),
            create(DAY + "10:00:00.000", "PUBLIC", src_port=1500, post_port=1500, exporter="192.0.2.77", dst=X),
        ],
        1500,
        DAY + "10:00:01",
        [B],
        True,
    ),
    Case(
        "ended and begun anew in one millisecond",
        [create(DAY + "09:00:00.000", A), delete(DAY + "10:00:00.200", A), create(DAY + "10:00:00.200", A)],
        4000,
        DAY + "10:10:00",
        [A],
        True,
    ),
]


def _address(text: str) -> str:
    return text if ":" in text else f"::ffff:{text}" if text else "::"


def seen(number: int) -> str:
    """The public address of a case: the store is shared."""
    return f"198.18.7.{number + 1}"


def row(number: int, one: Report) -> str:
    return (
        f"(now(), '{one.at}', '{one.event}', '{_address(one.src.replace('PUBLIC', seen(number)))}', {one.src_port}, '{_address(seen(number))}', {one.post_port},"
        f" {one.protocol}, '{_address(one.dst)}', {one.dst_port}, {one.end}, '{one.user}', '{_address(one.exporter)}', {one.vrf}, 'attack')"
    )


COLUMNS = (
    "ts, event_at, event, src_addr, src_port, post_src_addr, post_src_port, protocol, dst_addr, dst_port, port_block_end, user_name,"
    " exporter_addr, ingress_vrf, probe"
)


def judge(case: Case, known: bool, holders: list[dict[str, object]]) -> None:
    named = {str(one["subscriber"]) for one in holders}
    if case.known is False:
        assert not known, f"named {sorted(named)}"
    elif case.known:
        assert known, f"named {sorted(named)}"
        assert named == set(case.truth)
    else:
        assert not known or named <= set(case.truth), f"named {sorted(named)}"
    if case.user is not None:
        assert holders[0]["user"] == case.user, f"named {holders[0]['user']}"


@pytest.fixture(scope="module")
def told(stack: RunningStack) -> RunningStack:
    rows = ", ".join(row(number, one) for number, case in enumerate(CASES) for one in case.reports)
    connect(stack.stack, "admin").execute(f"INSERT INTO nat_events ({COLUMNS}) VALUES {rows}")
    return stack


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_nobody_else_is_named(told: RunningStack, number: int) -> None:
    case = CASES[number]
    who = f"{seen(number)}:{case.port}"
    done = told.weir("nat", who, "--at", case.at.replace(" ", "T") + "Z", "--json", *case.options)
    answer = json.loads(done.out)
    judge(case, answer["known"], answer["holders"])
