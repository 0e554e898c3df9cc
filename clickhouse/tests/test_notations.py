"""Addresses in texts, as the audit finds them. `notations.json` has the notations that `weir forget` finds in rows
(tests/e2e/in_turn/test_forget.py): the audit finds them, too."""

from __future__ import annotations

import ipaddress
import json
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from weir_clickhouse import chain, notations

NAMES = json.loads(Path(__file__).with_name("notations.json").read_text())


@pytest.mark.parametrize("address", ["10.66.0.6", "2001:db8:66::6"])
def test_every_notation_that_forget_finds(address: str) -> None:
    for text in NAMES[address]:
        assert address in notations.named(f"SELECT '{text}'".encode())[0], text
        assert chain.within({"tables": {text: 1}}, ipaddress.ip_network(address)), text
    others = [text for key, texts in NAMES.items() if key != address for text in texts]
    for text in others:
        assert address not in notations.named(f"SELECT '{text}'".encode())[0], text


@given(st.ip_addresses(), st.sampled_from(["{}", "host {}.", "[{}]:443", "WHERE a='{}'", "({},", "x {}"]))
def test_any_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address, form: str) -> None:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    for text in (str(address), str(address).upper(), address.exploded, address.reverse_pointer):
        assert str(mapped or address) in notations.named(form.format(text).encode())[0], form.format(text)


def test_an_address_after_thousands_that_look_like_one() -> None:
    false = " ".join(["999.1.1.1", "1:2:3", "10:20:30", "300-1-1-1"] * 5000)
    assert notations.named(f"{false} 192.0.2.7 {false} 2001:db8::7".encode()) == (["192.0.2.7", "2001:db8::7"], False)


@pytest.mark.parametrize("piece", [b"/* long */", b"1.1.1.", b"f:", b"999.1.1.1 ", b"a-", b"1", b"2001-"])
def test_a_long_text_leaves_others_the_interpreter(piece: bytes) -> None:
    gaps: list[float] = []
    over = threading.Event()

    def other() -> None:
        before = time.monotonic()
        while not over.is_set():
            time.sleep(0.001)
            now = time.monotonic()
            gaps.append(now - before)
            before = now

    thread = threading.Thread(target=other)
    thread.start()
    notations.named(piece * ((1 << 20) // len(piece)))
    over.set()
    thread.join()
    assert sorted(gaps)[-1] < 0.1 or sorted(gaps)[-3] < 0.05, sorted(gaps)[-3:]


@given(st.binary(max_size=200) | st.text("0123456789abf:.-/ ip6rpa", max_size=200).map(str.encode))
def test_whatever_is_named_is_an_address_or_a_prefix(text: bytes) -> None:
    for one in notations.named(text)[0]:
        ipaddress.ip_network(one)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("src_addr = '192.0.2.7' OR dst_addr = toIPv6('2001:db8::7')", {"192.0.2.7", "2001:db8::7"}),
        ("isIPAddressInRange(a, '192.0.2.0/24') AND b IN '2001:db8::/32'", {"192.0.2.0/24", "2001:db8::/32"}),
        ("'::ffff:192.0.2.7' '::FFFF:C000:0207' '192.0.2.7/24'", {"192.0.2.7"}),
        ("x::UInt8, a::Date, 'b'::String, 10:20:30, '2026-11-27 10:20:30', 1.5, 25.8.2", set()),
        ("'256.1.1.1' 1.2.3.4.5 00.1.2.3", {"1.2.3.4", "2.3.4.5", "0.1.2.3"}),
        ("[fe80::1%eth0]:80 http://192.0.2.9:8080/x 192.0.2.8,192.0.2.10", {"192.0.2.9", "192.0.2.8", "192.0.2.10"}),
        ("'::'", {"::"}),
        ("'host-192-000-002-007.example' '2026-11-27' '1-2-3-4-5'", {"192.0.2.7", "1.2.3.4", "2.3.4.5"}),
        ("'7.2.0.192.IN-ADDR.arpa'", {"192.0.2.7"}),
        ("a IN ('::/0', '0.0.0.0/0') AND toString(x)::Date, y::Date, c::Decimal(3, 2)", {"::/0", "0.0.0.0/0"}),
        (f"'7.{'0.' * 23}8.b.d.0.1.0.0.2.ip6.arpa'", {"2001:db8::7"}),
    ],
)
def test_the_addresses_of_a_text(text: str, addresses: set[str]) -> None:
    found, more = notations.named(text.encode())
    assert (set(found) - {"fe80::1"}, more) == (addresses, False)


def test_addresses_are_bounded_and_cost_linear_time() -> None:
    found, more = notations.named(" ".join(f"10.{n // 256}.{n % 256}.1" for n in range(5000)).encode())
    assert (len(found), more) == (notations.ADDRESSES, True)
    for piece in (
        b":",
        b"1.",
        b"f:",
        b"1.1.1.1.",
        b"::1",
        b"a" * 50 + b":",
        b"1:2:3:4:5:6:7:x",
        b"1-",
        b"a.",
        b"10.1.2.3,",
        b"999.1.1.1 ",
        b"1:2:3 ",
    ):
        begun = time.monotonic()
        notations.named(piece * ((1 << 18) // len(piece)))
        assert time.monotonic() - begun < 2, piece
    assert notations.named(b"10.1.2.3," * 5000) == (["10.1.2.3"], False)
