"""The audit's second place finds what its files alone cannot show; the listing joins questions and answers."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from weir import audit, audit_log
from weir.cli import app
from weir.config import Config, Stack
from weir.errors import WeirError
from weir.schema import chain

TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=1, microsecond=0)


class Writer:
    """Writes entries as the store's front does, in days before today."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self.number, self.previous = folder, 0, chain.GENESIS

    def add(self, days: int = 0, text: dict[str, Any] | None = None, **fields: Any) -> int:
        """An entry so many days ago; returns its number."""
        time = (TODAY - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        entry = {"kind": "ask", "time": time, "number": self.number + 1, "previous": self.previous} | fields
        line, self.previous = chain.line(entry, chain.sealed(text) if text else None)
        self.number += 1
        with chain.path(self.folder, time[:10]).open("ab") as file:
            file.write(line)
        return self.number

    def ask(self, days: int, address: str, **fields: Any) -> int:
        """A question and its answer; returns the question's number."""
        text = {"statement": f"SELECT * FROM v_flows WHERE src_addr = '{address}'", "addresses": [address]}
        number = self.add(days, text, **{"user": "analyst", "address": "198.51.100.1"} | fields)
        self.add(days, kind="answer", of=number, rows=number * 1000, octets=1, code=0, milliseconds=7)
        return number


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(Config(), tmp_path)


@pytest.fixture
def writer(stack: Stack) -> Writer:
    one = Writer(stack.audit)
    for days in (500, 300, 10, 0):
        for address in ("192.0.2.7", "192.0.2.8", "2001:db8::7"):
            one.ask(days, address)
    return one


def _last_file(stack: Stack) -> Path:
    return chain.path(stack.audit, chain.days(stack.audit)[-1])


def _rewritten(stack: Stack, writer: Writer) -> None:
    """What someone with the store's rights can do: the whole chain anew, with hashes that match."""
    lines = list(chain.entries(stack.audit))
    for day in chain.days(stack.audit):
        chain.path(stack.audit, day).unlink()
    anew = Writer(stack.audit / "new")
    for one in lines:
        fields = {k: v for k, v in one.entry.items() if k not in ("number", "previous", "seal")}
        text = {k: v for k, v in one.text.items() if k != "salt"} if one.text else None
        if one.place.number == 9:
            fields["user"] = "someone"
        line, anew.previous = chain.line(fields | {"number": anew.number + 1, "previous": anew.previous}, text)
        anew.number += 1
        with chain.path(stack.audit, one.place.day).open("ab") as file:
            file.write(line)


@pytest.mark.parametrize(
    ("does", "number"),
    [
        (_rewritten, 6),  # the first day's last entry is noted
        (lambda stack, writer: _last_file(stack).unlink(), 19),
        (lambda stack, writer: os.truncate(_last_file(stack), _last_file(stack).stat().st_size - 10), 24),
        (lambda stack, writer: [one.unlink() for one in stack.audit.iterdir()], 1),
    ],
)
def test_what_the_files_alone_do_not_show(
    stack: Stack, writer: Writer, does: Callable[[Stack, Writer], object], number: int
) -> None:
    found, _ = audit.verify(stack)
    assert (found.breaks, found.entries) == ([], 24)
    does(stack, writer)
    if does is not _rewritten:
        assert chain.walk(stack.audit).breaks == []
    assert audit.verify(stack)[0].breaks[0].number == number
    assert audit.follow(stack).breaks
    before = stack.audit_heads.read_text()
    assert audit.verify(stack)[0].breaks, "a broken audit must not become the one that is expected"
    assert stack.audit_heads.read_text() == before


def test_the_end_is_noted_as_it_grows(stack: Stack, writer: Writer) -> None:
    audit.follow(stack)
    assert audit.Heads.load(stack.audit_heads).expected()[-1] == (24, writer.previous)
    writer.ask(0, "192.0.2.9")
    assert audit.follow(stack).entries == 3  # the noted one, and two
    assert audit.Heads.load(stack.audit_heads).expected()[-1] == (26, writer.previous)
    assert stack.audit_heads.stat().st_mode & 0o777 == 0o600
    # The noted entry is changed, and the next one follows the changed one.
    lines = _last_file(stack).read_bytes().splitlines(keepends=True)
    one = json.loads(lines[-1])["entry"] | {"rows": 0}
    lines[-1], writer.previous = chain.line(one, None)
    _last_file(stack).write_bytes(b"".join(lines))
    writer.ask(0, "192.0.2.9")
    assert [one.number for one in audit.follow(stack).breaks] == [26]


def test_the_service_notes_every_minute_and_says_once_what_is_wrong(
    stack: Stack, writer: Writer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "EVERY_S", 0.02)
    stopping = threading.Event()
    thread = threading.Thread(target=audit.keep_noting, args=(stack, stopping))
    thread.start()
    try:
        assert _within(5, lambda: stack.audit_heads.exists() and audit._NOTED._value.get() == 24)
        assert audit._BROKEN._value.get() == 0
        _last_file(stack).unlink()
        assert _within(5, lambda: audit._BROKEN._value.get() == 1)
        time.sleep(0.2)
    finally:
        stopping.set()
        thread.join()
    assert capsys.readouterr().out.count("weir audit verify") == 1


def _within(seconds: float, check: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not check():
        time.sleep(0.01)
    return check()


def test_old_days_go_and_the_rest_stays_verifiable(stack: Stack, writer: Writer) -> None:
    stack.config.storage.audit_days = 100
    audit.follow(stack)
    days = chain.days(stack.audit)
    now = time.time()
    assert [line.split()[2] for line in audit.expire(stack, now)] == [f"{day}:" for day in days[:2]]
    assert chain.days(stack.audit) == days[2:]
    assert list(audit.expire(stack, now)) == []
    found, heads = audit.verify(stack)
    assert (found.breaks, found.entries) == ([], 12)
    assert heads.begin is not None
    assert heads.begin.number == 13
    # The newest stays, however old; and the first kept one is anchored.
    assert len(list(audit.expire(stack, now + 500 * 86_400))) == 1
    chain.path(stack.audit, days[3]).write_bytes(b"".join(_last_file(stack).read_bytes().splitlines(keepends=True)[1:]))
    assert audit.verify(stack)[0].breaks[0].number == 19


def test_days_that_the_store_gave_the_names_of_old_ones_stay(stack: Stack, writer: Writer) -> None:
    audit.follow(stack)
    for number, day in enumerate(chain.days(stack.audit)[:-1], 1):
        chain.path(stack.audit, day).rename(chain.path(stack.audit, f"2020-01-0{number}"))
    days = chain.days(stack.audit)
    with pytest.raises(WeirError, match="no file is deleted"):
        list(audit.expire(stack, time.time()))
    assert chain.days(stack.audit) == days
    assert "stands in the file of an earlier day: 2020-01-01" in str(audit.verify(stack)[0].breaks[0])


@pytest.mark.parametrize(
    "detail",
    [
        '{"entries":[1],"proof":"\\ud800"}',
        '{"entries":' + "[" * 5000 + "]" * 5000 + ',"proof":""}',
        '{"entries":[' + "9" * 5000 + '],"proof":""}',
    ],
    ids=["a half character", "a deep list", "a huge number"],
)
def test_nothing_that_the_store_writes_ends_the_noting(stack: Stack, writer: Writer, detail: str) -> None:
    audit.follow(stack)
    head = f'"kind":"action","number":25,"previous":"{writer.previous}","time":"{TODAY:%Y-%m-%dT%H:%M:%S}.000Z"'
    entry = f'{{"action":"erase","detail":{detail},{head}}}'
    own = hashlib.sha256(entry.encode()).hexdigest()
    with _last_file(stack).open("a") as file:
        file.write(f'{{"entry":{entry},"hash":"{own}","text":null}}\n')
    audit.follow(stack)
    audit.verify(stack)
    stopping = threading.Event()
    thread = threading.Thread(target=audit.keep_noting, args=(stack, stopping))
    thread.start()
    time.sleep(0.3)
    assert thread.is_alive()
    stopping.set()
    thread.join(10)


def test_a_pipe_or_a_link_among_the_files_is_a_break(stack: Stack, writer: Writer) -> None:
    audit.follow(stack)
    os.mkfifo(chain.path(stack.audit, "2999-12-31"))
    assert audit.follow(stack).breaks
    assert audit.verify(stack)[0].breaks
    chain.path(stack.audit, "2999-12-31").unlink()
    # An erasure follows no link, and writes over nothing but the line that it read.
    victim = stack.home / "victim"
    entries = [one for one in chain.entries(stack.audit) if one.text is not None]
    file = chain.path(stack.audit, entries[0].place.day)
    moved = file.rename(file.with_suffix(".moved"))
    victim.write_bytes(moved.read_bytes())
    file.symlink_to(victim)
    before = victim.read_bytes()
    with pytest.raises(OSError, match="symbolic links"):
        chain.erase(stack.audit, entries[0])
    file.unlink()
    file.write_bytes(b"X" + before[1:])
    with pytest.raises(OSError, match="is not where it was read"):
        chain.erase(stack.audit, entries[0])
    assert (victim.read_bytes(), file.read_bytes()) == (before, b"X" + before[1:])


def test_nothing_is_deleted_from_a_broken_audit(stack: Stack, writer: Writer) -> None:
    audit.follow(stack)
    days = chain.days(stack.audit)
    third = chain.path(stack.audit, days[2])
    third.write_bytes(b"".join(third.read_bytes().splitlines(keepends=True)[2:]))
    stack.config.storage.audit_days = 100
    with pytest.raises(WeirError, match="no file is deleted"):
        list(audit.expire(stack, time.time()))
    assert chain.days(stack.audit) == days


def test_an_accepted_break_stays_on_record(stack: Stack, writer: Writer) -> None:
    audit.verify(stack)
    second = chain.path(stack.audit, chain.days(stack.audit)[1])
    second.unlink()
    assert [one.number for one in audit.accept(stack, "the disk died")] == [7]
    found, heads = audit.verify(stack)
    assert (found.breaks, found.entries) == ([], 12)
    assert heads.accepted[0]["reason"] == "the disk died"
    assert heads.accepted[0]["breaks"] == ["entry 7: missing, with those up to 12: entry 13 stands in its place"]
    writer.ask(0, "192.0.2.9")
    assert audit.follow(stack).breaks == []
    _last_file(stack).unlink()
    assert audit.verify(stack)[0].breaks


def test_a_lost_audit_can_begin_anew(stack: Stack, writer: Writer) -> None:
    audit.verify(stack)
    for one in stack.audit.iterdir():
        one.unlink()
    stack.audit.rmdir()
    again = Writer(stack.audit)
    again.ask(0, "192.0.2.9")
    assert audit.verify(stack)[0].breaks
    audit.accept(stack, "restored without it")
    assert (audit.verify(stack)[0].breaks, audit.verify(stack)[0].entries) == ([], 2)


# ---- weir forget ----


@pytest.fixture
def front(stack: Stack, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The store's front, as far as it takes entries from `weir`."""
    taken: list[dict[str, Any]] = []

    def post(url: str, *, json: dict[str, Any], headers: dict[str, str], timeout: float) -> httpx.Response:
        assert url == "http://127.0.0.1:8123/weir/audit"
        assert headers == {"X-ClickHouse-User": "admin", "X-ClickHouse-Key": stack.password("admin")}
        taken.append(json)
        return httpx.Response(200, json={"number": writer.add(kind="action", user="admin", **json)})

    monkeypatch.setattr(httpx, "post", post)
    return taken


def test_a_forgotten_address_leaves_who_asked_and_a_keyed_digest(
    stack: Stack, writer: Writer, front: list[dict[str, Any]]
) -> None:
    audit.verify(stack)
    wanted = ipaddress.ip_network("192.0.2.7")
    assert audit.erase(stack, wanted) == 4
    everything = b"".join(one.read_bytes() for one in stack.audit.iterdir()) + stack.audit_heads.read_bytes()
    assert (b"192.0.2.7" in everything, b"192.0.2.8" in everything) == (False, True)
    assert [one["action"] for one in front] == ["erase"]
    found, _ = audit.verify(stack)
    assert (found.breaks, found.erased) == ([], 4)
    assert audit.follow(stack).breaks == []
    # Who holds the key, and knows the address, still finds who asked about it.
    lines = audit_log.read(stack, audit_log.Wanted(address=wanted), 50)
    assert [(one.entry["number"], one.erased, one.answer["rows"]) for one in lines] == [
        (number, True, number * 1000) for number in (1, 7, 13, 19)
    ]
    (stack.home / "secrets/audit-key").write_text("another")
    assert audit_log.read(stack, audit_log.Wanted(address=wanted), 50) == []
    assert audit.erase(stack, wanted) == 0


def test_the_tables_of_inserts_are_erased_in_any_notation(
    stack: Stack, writer: Writer, front: list[dict[str, Any]]
) -> None:
    audit.verify(stack)
    sums: dict[str, Any] = {
        "kind": "inserts",
        "user": "writer",
        "address": "a",
        "minute": "",
        "count": 2,
        "failed": 0,
        "rows": 2,
    }
    gone = writer.add(0, {"tables": {"weir.`host-3-192-0-2-9`": 1, "weir.`2001-db8--9`": 1}}, **sums)
    writer.add(0, {"tables": {"weir.flows": 2}}, **sums)
    writer.add(0, tables={"weir.of_an_earlier_release": 2}, **sums)
    for wanted in ("192.0.2.9", "2001:db8::9"):
        lines = audit_log.read(stack, audit_log.Wanted(address=ipaddress.ip_network(wanted)), 50)
        assert [one.entry["number"] for one in lines] == [gone], wanted
    assert audit.erase(stack, ipaddress.ip_network("192.0.2.9")) == 1
    assert b"host-3" not in b"".join(one.read_bytes() for one in stack.audit.iterdir())
    assert audit.verify(stack)[0].breaks == []
    said = [audit_log.what(one) for one in audit_log.read(stack, audit_log.Wanted(user="writer"), 50)]
    assert ["(erased)" in said[0], "(weir.flows 2)" in said[1], "(weir.of_an_earlier_release 2)" in said[2]] == [
        True
    ] * 3


def test_without_an_entry_nothing_is_erased(stack: Stack, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpx, "post", lambda *_, **__: httpx.Response(500, text="Code: 75. DB::Exception: full"))
    with pytest.raises(WeirError, match=r"nothing was done: the audit has no entry on it \(Code: 75"):
        audit.erase(stack, ipaddress.ip_network("192.0.2.7"))
    assert audit.verify(stack)[0].erased == 0


def test_an_erasure_of_a_text_that_was_not_named_is_a_break(
    stack: Stack, writer: Writer, front: list[dict[str, Any]]
) -> None:
    other = next(one for one in chain.entries(stack.audit) if one.place.number == 3)
    assert audit.erase(stack, ipaddress.ip_network("192.0.2.7")) == 4
    chain.erase(stack.audit, other)
    assert [one.number for one in audit.verify(stack)[0].breaks] == [3]


def test_the_store_alone_cannot_claim_an_erasure(stack: Stack, writer: Writer) -> None:
    other = next(one for one in chain.entries(stack.audit) if one.place.number == 3)
    writer.add(
        kind="action", action="erase", user="admin", detail={"digest": "0" * 64, "entries": [3], "proof": "0" * 64}
    )
    chain.erase(stack.audit, other)
    assert chain.walk(stack.audit).breaks == []
    assert [one.number for one in audit.verify(stack)[0].breaks] == [3]


def test_a_clickhouse_server_has_no_audit_of_weirs(tmp_path: Path) -> None:
    stack = Stack(Config.model_validate({"clickhouse": {"url": "http://192.0.2.1:8123"}}), tmp_path)
    assert audit.note(stack, "forget", {}) == 0
    assert audit.erase(stack, ipaddress.ip_network("192.0.2.7")) == 0
    audit.keep_noting(stack, threading.Event())
    with pytest.raises(WeirError, match="only the embedded store writes an audit"):
        audit.verify(stack)


# ---- the command ----


@pytest.fixture
def run(stack: Stack, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    monkeypatch.setenv("WEIR_HOME", str(stack.home))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("weir.commands.console.width", 200, raising=False)

    def begin(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["audit", *arguments])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.output

    return begin


def test_show_filters_and_joins(run: Callable[..., tuple[int, str]], stack: Stack, writer: Writer) -> None:
    writer.ask(0, "203.0.113.0/24", user="dashboard", person="kari", person_address="198.51.100.99")
    writer.add(0, {"statement": "DROP TABLE flows\x1b[31m", "addresses": []}, kind="refused", user="olav", code=164)
    shown = [
        json.loads(line) for line in run("show", "--json", "--address", "192.0.2.7", "--since", "30d")[1].splitlines()
    ]
    assert [(one["number"], one["rows"], one["statement"][-11:]) for one in shown] == [
        (13, 13000, "'192.0.2.7'"),
        (19, 19000, "'192.0.2.7'"),
    ]
    assert not {"salt", "seal", "previous"} & set(shown[0])
    _, text = run("show", "--user", "kari")
    assert ("kari (dashboard)" in text, "198.51.100.99" in text, "25,000" in text) == (True, True, True)
    assert "203.0.113.0/24" in run("show", "--address", "203.0.113.9")[1]
    _, text = run("show", "--user", "olav")
    assert "refused, error 164: DROP TABLE flows?[31m" in text
    assert run("show", "--user", "nobody")[1] == "No entry.\n"
    assert [json.loads(line)["number"] for line in run("show", "--json", "--limit", "2")[1].splitlines()] == [25, 27]
    with pytest.raises(WeirError, match="not a time span"):
        run("show", "--since", "yesterday")


def test_show_says_what_entries_do_not_list(run: Callable[..., tuple[int, str]], writer: Writer) -> None:
    assert "may name" not in run("show", "--address", "192.0.2.99")[1]
    for user in ("olav", "kari"):
        writer.add(0, {"statement": "SELECT", "addresses": ["192.0.2.1"], "more_addresses": True}, user=user)
    assert (
        "2 further entries name more addresses than they list, and may name 192.0.2.99, too"
        in (run("show", "--address", "192.0.2.99")[1])
    )
    assert "1 further entries" in run("show", "--address", "192.0.2.99", "--user", "olav")[1]
    assert "may name" not in run("show", "--address", "192.0.2.1")[1]


def test_what_an_intruder_wrote_does_not_end_the_listing(run: Callable[..., tuple[int, str]], writer: Writer) -> None:
    writer.add(0, kind="inserts", user="[red]x[/red]\x1b[31m", address="a")
    status, text = run("show")
    assert (status, "not the store's" in text, "[red]x[/red]?[31m" in text) == (0, True, True)


def test_verify_has_a_status(run: Callable[..., tuple[int, str]], stack: Stack) -> None:
    assert run("verify") == (0, "The audit is whole: entries 1 to 24.\n")
    lines = _last_file(stack).read_bytes().splitlines(keepends=True)
    _last_file(stack).write_bytes(b"".join([*lines[:2], *lines[3:]]))
    status, text = run("verify")
    assert (status, "entry 21: missing: entry 22 stands in its place" in text) == (1, True)
    assert json.loads(run("verify", "--json")[1])["breaks"][0]["number"] == 21
    assert run("verify", "--accept", "a test")[0] == 0
    status, text = run("verify")
    assert (status, "a test" in text) == (0, True)
