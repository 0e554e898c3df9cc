"""The chain of the audit: whatever is done to its files afterwards is found, with the number of the entry."""

from __future__ import annotations

import ipaddress
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from weir_clickhouse import chain, notations
from weir_clickhouse.access import Role, User
from weir_clickhouse.audit import Audit
from weir_clickhouse.quotas import Spent
from weir_clickhouse.statement import parse

READER = User("analyst", Role("analyst", "", ("select",), ("weir.*",), readonly=True), ())
ADMIN = User("admin", Role("admin", "", ("all",), (), readonly=False), ())
Lines = list[bytes]


def _ask(audit: Audit, text: str) -> None:
    with audit.question(READER, "192.0.2.1", lambda _: None, {}) as asked:
        asked.read(parse(text.encode(), complete=True), {})
        asked.begin(Spent(), None)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days of an audit, each with ten entries or more: 1 to 11, 12 to 21, 22 to 32."""
    clock = [1_800_000_000.0]
    audit = Audit(tmp_path_factory.mktemp("kept") / "audit", clock=lambda: clock[0])
    audit.start()
    for day in range(3):
        clock[0] = 1_800_000_000.0 + day * 86_400
        for number in range(5):
            _ask(audit, f"SELECT * FROM flows WHERE src_addr = '192.0.2.{number}'")
    audit.stop()
    return audit.folder


def _read(folder: Path) -> list[Lines]:
    return [chain.path(folder, day).read_bytes().splitlines(keepends=True) for day in chain.days(folder)]


def _walk(files: list[Lines], kept: Path, folder: Path) -> chain.Found:
    """What is found in these lines, given the head that was noted before."""
    head = chain.walk(kept).last
    assert head is not None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for day, lines in zip(chain.days(kept), files, strict=True):
        if lines:
            chain.path(folder, day).write_bytes(b"".join(lines))
    return chain.walk(folder, heads=[(head.place.number, head.hash)])


def _changed(files: list[Lines]) -> None:
    files[0][3] = files[0][3].replace(b'"user":"analyst"', b'"user":"someone"')


def _changed_with_its_hash(files: list[Lines]) -> None:
    one = json.loads(files[0][3])
    one["entry"]["user"] = "someone"
    del one["entry"]["seal"]
    files[0][3] = chain.line(one["entry"], one["text"])[0]


def _last_changed_with_its_hash(files: list[Lines]) -> None:
    one = json.loads(files[2][-1])
    one["entry"]["version"] = "another"
    files[2][-1] = chain.line(one["entry"], None)[0]


def _text_changed(files: list[Lines]) -> None:
    files[0][3] = files[0][3].replace(b"192.0.2.1'", b"192.0.2.9'")


def _text_removed(files: list[Lines]) -> None:
    begin = files[0][3].index(b'"text":') + 7
    files[0][3] = files[0][3][:begin] + b"null}\n"


def _line_ends_removed(files: list[Lines]) -> None:
    files[0][3] = files[0][3][:-1] + b" \n"


def _swapped(files: list[Lines]) -> None:
    files[0][3], files[0][4] = files[0][4], files[0][3]


@pytest.mark.parametrize(
    ("does", "number", "why"),
    [
        (_changed, 4, "was changed: its hash is another"),
        (_changed_with_its_hash, 4, "was replaced: entry 5 holds another hash of it"),
        (_last_changed_with_its_hash, 32, "was replaced: its hash was noted elsewhere"),
        (_text_changed, 4, "its text was changed"),
        (_text_removed, 4, "its text was removed, and no entry says"),
        (lambda files: files[0].__setitem__(0, b" " + files[0][0]), 1, "its line was changed"),
        (_line_ends_removed, 4, "its line was changed"),
        (lambda files: files[0].pop(3), 4, "missing: entry 5 stands in its place"),
        (lambda files: files[0].pop(0), 1, "missing: entry 2 stands in its place"),
        (_swapped, 4, "missing: entry 5 stands in its place"),
        (lambda files: files[0].insert(7, files[0][3]), 4, "stands after entry 7: moved, or written twice"),
        (lambda files: files[1].clear(), 12, "missing, with those up to 21: entry 22 stands in its place"),
        (lambda files: files[2].clear(), 22, "the tail is cut off: entries up to 32 were noted elsewhere"),
        (lambda files: files[2].pop(), 32, "the tail is cut off"),
        (lambda files: files[0].insert(3, b"no entry\n"), 4, "the line where it belongs is no entry"),
        (lambda files: files[0].__setitem__(3, b'{"entry"'), 4, "the line where it belongs is no entry"),
        (lambda files: [one.clear() for one in files], 1, "the tail is cut off"),
    ],
)
def test_a_break_is_found_with_its_number(
    kept: Path, tmp_path: Path, does: Callable[[list[Lines]], object], number: int, why: str
) -> None:
    files = _read(kept)
    assert _walk(files, kept, tmp_path / "audit").breaks == []
    does(files)
    first = _walk(files, kept, tmp_path / "audit").breaks[0]
    assert (first.number, why in first.what) == (number, True), first


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_breaks_are_found(kept: Path, tmp_path: Path, data: st.DataObject) -> None:
    files = _read(kept)
    before = [list(lines) for lines in files]
    day = data.draw(st.integers(0, 2))
    lines = files[day]
    at = data.draw(st.integers(0, len(lines) - 1))
    way = data.draw(st.sampled_from(["octet", "remove", "repeat", "swap", "cut", "bit", "insert"]))
    if way == "remove":
        del lines[at : at + data.draw(st.integers(1, 3))]
    elif way == "repeat":
        lines.insert(data.draw(st.integers(0, len(lines))), lines[at])
    elif way == "swap":
        other = data.draw(st.integers(0, len(lines) - 1))
        lines[at], lines[other] = lines[other], lines[at]
    elif way == "cut":
        lines[at:] = [lines[at][: data.draw(st.integers(0, len(lines[at]) - 1))]]
    else:
        place = data.draw(st.integers(0, len(lines[at]) - 1))
        octet = data.draw(st.integers(0, 255)) if way != "bit" else lines[at][place] ^ 1 << data.draw(st.integers(0, 7))
        lines[at] = lines[at][:place] + bytes([octet]) + lines[at][place + (way != "insert") :]
    found = _walk(files, kept, tmp_path / "audit")
    assert bool(found.breaks) == (files != before)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10), st.data())
def test_a_kill_at_any_octet_leaves_a_chain_that_goes_on(kept: Path, tmp_path: Path, count: int, data: st.DataObject) -> None:
    lines = _read(kept)[0]
    piece = lines[count][: data.draw(st.integers(0, len(lines[count]) - 1) | st.just(len(lines[count]) - 1))]
    folder = tmp_path / "audit"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    chain.path(folder, chain.days(kept)[0]).write_bytes(b"".join(lines[:count]) + piece)
    now = 1_800_000_000.0 + 86_400 * data.draw(st.integers(0, 1))
    audit = Audit(folder, clock=lambda: now)
    audit.start()
    audit.stop()
    found = chain.walk(folder)
    assert found.breaks == []
    whole = len(piece) == len(lines[count]) - 1  # only the line feed is missing
    assert found.entries == count + 2 + whole
    assert len(found.torn) == (bool(piece) and not whole)


def test_an_erased_text_leaves_the_chain_whole(kept: Path, tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    shutil.copytree(kept, folder)
    wanted = ipaddress.ip_network("192.0.2.2/31")
    audit = Audit(folder, clock=lambda: 1_800_400_000.0)
    audit.start()
    asked = [one for one in chain.entries(folder) if one.text is not None and chain.within(one.text, wanted)]
    assert len(asked) == 6
    numbers = [one.place.number for one in asked]
    audit.action(ADMIN, "127.0.0.1", {"action": "erase", "person": "kari", "detail": {"entries": numbers}})
    for one in asked:
        chain.erase(folder, one)
    audit.stop()
    found = chain.walk(folder)
    assert (found.breaks, found.erased) == ([], 6)
    everything = b"".join(chain.path(folder, day).read_bytes() for day in chain.days(folder))
    assert (b"192.0.2.2'" in everything, b"192.0.2.3'" in everything, b"192.0.2.4'" in everything) == (False, False, True)


def test_an_address_beyond_those_listed_is_found_in_the_kept_text() -> None:
    named = [f"10.0.{n}.1" for n in range(150)]
    statement = f"SELECT * FROM flows WHERE src_addr IN ({', '.join(named)})"
    listed, more = notations.named(statement.encode())
    text = {"statement": statement, "addresses": listed, "more_addresses": more}
    for wanted in ("10.0.7.1", "10.0.149.0/24"):
        assert chain.within(text, ipaddress.ip_network(wanted))
        assert chain.touches(text, ipaddress.ip_network(wanted))
    assert not chain.within(text, ipaddress.ip_network("10.0.150.1"))
    assert chain.within({"names": {"192.0.2.7": 3}}, ipaddress.ip_network("192.0.2.7"))


def test_a_part_of_the_chain_holds_from_a_place_on(kept: Path, tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    shutil.copytree(kept, folder)
    second = next(one.place for one in chain.entries(folder) if one.place.day == chain.days(folder)[1])
    chain.path(folder, chain.days(folder)[0]).unlink()
    assert [one.number for one in chain.walk(folder).breaks] == [1]
    assert (chain.walk(folder, second).breaks, chain.walk(folder, second).entries) == ([], 21)
