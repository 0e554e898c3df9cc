"""People of a directory, or of an OpenID Connect provider, at the store: their groups give the role; who is removed is gone; who
guesses must wait.
"""

from __future__ import annotations

import base64
import http.server
import json
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest
import weir_clickhouse.people
from conftest import FOLDER, PASSWORDS, Answer, Server, eventually, migrate, start, stop
from cryptography.hazmat.primitives.asymmetric import rsa
from directory import GROUPS, PEOPLE, Directory
from jwt.algorithms import RSAAlgorithm
from weir_clickhouse.access import Access, load
from weir_clickhouse.door import LARGEST
from weir_clickhouse.errors import ServerError
from weir_clickhouse.people import People
from weir_clickhouse.shared import weir_lockout

pytestmark = pytest.mark.embedded

#: Seconds for which a login is right, and for which it holds without the directory.
RECHECK, GRACE = 1, 600


def _in_groups(form: Callable[[str], str]) -> dict[str, Any]:
    return {
        "admin": [form("admins")],
        "viewer": [form("noc")],
        "analyst": [form("analysts")],
        "networks": [form("networks")],
        "customers": {"Fjord Power": [form("fjord")], "Other": [form("other")]},
    }


def _started(folder: Path, **sign_on: Any) -> Server:
    known = {"ldap": None, "oidc": None, "recheck_s": RECHECK, "grace_s": GRACE, **sign_on}
    (folder / "sign-on.json").write_text(json.dumps(known))
    (folder / "proxy-key").write_text("the-proxy-s\n")
    server = start(folder / "data", "--sign-on", str(folder / "sign-on.json"), "--proxy-key", str(folder / "proxy-key"))
    migrate(server, "weir")
    server.sql("INSERT INTO weir.prefixes (id, prefix, customer_id, customer) VALUES (1, '10.1.0.0/16', 11, 'Fjord Power')")
    for src, customer in (("10.1.0.7", 11), ("10.9.0.7", 0)):
        server.sql(
            "INSERT INTO weir.flows (ts, probe, src_addr, dst_addr, src_prefix, src_customer, fwd_packets)"
            f" VALUES (now(), 'p', '::ffff:{src}', '::ffff:192.0.2.1', {int(bool(customer))}, {customer}, 1)"
        )
    server.sql("SYSTEM RELOAD DICTIONARIES")
    return server


@pytest.fixture(scope="module")
def directory() -> Iterator[Directory]:
    with tempfile.TemporaryDirectory(prefix="weir-ldap-") as folder:
        one = Directory(Path(folder))
        one.start()
        names = ("anna", "bo", "cecilie", "dag", "eva", "fred", "gone", "left", "analyst", "Writer")
        groups = {
            "analysts": ["anna", "gone", "left", "analyst", "Writer"],
            "networks": ["bo"],
            "fjord": ["cecilie", "eva"],
            "other": ["eva"],
            "noc": ["dag"],
            "nobody": ["fred"],
        }
        one.fill({name: f"{name}-s" for name in names}, groups)
        yield one
        one.stop()


@pytest.fixture(scope="module")
def server(directory: Directory) -> Iterator[Server]:
    """A store whose people are in the directory."""
    with tempfile.TemporaryDirectory(prefix="weir-clickhouse-") as name:
        folder = Path(name)
        running = _started(
            folder, ldap=directory.settings(folder), roles=_in_groups(lambda group: f"CN={group.title()},{GROUPS}")
        )
        try:
            yield running
        finally:
            assert stop(running) == 0


def _asked(
    server: Server, name: str, password: str, sql: str = "SELECT src FROM v_flows ORDER BY src", address: str = ""
) -> Answer:
    login = base64.b64encode(f"{name}:{password}".encode()).decode()
    through = {"X-Weir-Proxy": "the-proxy-s", "X-Forwarded-For": f"203.0.113.9, {address}"} if address else {}
    return server.ask(sql, headers={"Authorization": f"Basic {login}", **through})


def test_the_groups_of_a_person_give_the_role(server: Server) -> None:
    assert _asked(server, "anna", "anna-s").text == "10.1.0.7\n10.9.0.7\n"
    assert _asked(server, "anna", "anna-s", "SELECT count() FROM weir.flows").text == "2\n"
    assert _asked(server, "bo", "bo-s").text == "10.1.0.0/24\n10.9.0.0/24\n"
    assert _asked(server, "cecilie", "cecilie-s").text == "10.1.0.7\n"
    assert _asked(server, "cecilie", "cecilie-s", "SELECT count() FROM weir.flows").code == 497
    for name, said in (("dag", "no role at the store"), ("fred", "no role at the store"), ("eva", "several customers")):
        answer = _asked(server, name, f"{name}-s")
        assert (answer.code, said in answer.text) == (516, True), answer.text


def test_nobody_comes_in_by_a_trick(server: Server) -> None:
    tricks = [("anna", "wrong"), ("anna", ""), ("", "x"), ("*", "anna-s"), ("a*", "anna-s"), ("anna)(uid=*", "anna-s")]
    # The store has an analyst of its own, with another password.
    for name, password in [*tricks, ("analyst", "analyst-s"), ("Writer", "Writer-s"), ("nobody", "x"), ("anna\x00", "anna-s")]:
        assert _asked(server, name, password).code == 516, name
    assert server.sql("SELECT 1", user="analyst") == "1"


def test_the_audit_names_the_person_and_the_address(server: Server) -> None:
    assert _asked(server, "ANNA", "anna-s", "SELECT 'a marked one'", "198.51.100.9").status == 200
    assert server.data

    def entries() -> list[dict[str, Any]]:
        lines = [
            line for path in (server.data or Path()).glob("audit/*") for line in path.read_text(errors="replace").splitlines()
        ]
        return [json.loads(line)["entry"] for line in lines if "a marked one" in line and line.startswith("{")]

    assert eventually(lambda: bool(entries()))
    (entry,) = entries()
    assert (entry["user"], entry["address"]) == ("anna", "198.51.100.9")


def test_who_is_removed_from_the_directory_is_gone(server: Server, directory: Directory) -> None:
    assert _asked(server, "gone", "gone-s").status == 200
    directory.change(f"dn: uid=gone,{PEOPLE}\nchangetype: delete\n")
    assert eventually(lambda: _asked(server, "gone", "gone-s").code == 516)


def test_who_was_refused_does_not_come_in_because_the_directory_is_away(server: Server, directory: Directory) -> None:
    for address in ("198.51.100.40", "198.51.100.41"):
        assert _asked(server, "left", "left-s", address=address).status == 200
    directory.change(f"dn: uid=left,{PEOPLE}\nchangetype: delete\n")
    assert eventually(lambda: _asked(server, "left", "left-s", address="198.51.100.40").code == 516)
    directory.stop()
    try:
        # Nor from where it was known, too.
        for address in ("198.51.100.40", "198.51.100.41"):
            time.sleep(RECHECK)
            assert _asked(server, "left", "left-s", address=address).code == 516
    finally:
        directory.start()
    assert eventually(lambda: _asked(server, "bo", "bo-s", address="198.51.100.31").status == 200)


def test_all_spellings_of_a_name_are_counted_together(server: Server) -> None:
    # The directory takes all of them for `dag`.
    spellings = ["dag", "DAG", "\uff44\uff41\uff47", "\u24d3ag", "d\u00aag", "\U0001d41dag", " dag", "d\u00adag"]
    texts = [_asked(server, name, "wrong", address=f"198.51.101.{number}").text for number, name in enumerate(spellings * 4)]
    assert "too many failed logins" in texts[-1]
    assert sum("too many" in text for text in texts) == len(texts) - weir_lockout.FREE_WHOLE


def test_who_guesses_must_wait_and_programs_need_not(server: Server) -> None:
    guesser, owner = "198.51.100.7", "198.51.100.8"
    assert _asked(server, "anna", "anna-s", address=owner).status == 200
    texts = [_asked(server, "anna", "wrong", address=guesser).text for _ in range(40)]
    assert "too many failed logins" in texts[-1]
    assert not any("too many" in text for text in texts[:5])
    # Even the right password, from there; the owner comes in from elsewhere, and from there once an administrator says so.
    assert "too many failed logins" in _asked(server, "anna", "anna-s", address=guesser).text
    assert server.ask('{"user": "Anna"}', path="/weir/unlock", user="analyst").code == 497
    assert server.ask('{"name": "anna"}', path="/weir/unlock").code == 36
    assert server.ask('{"user": "Anna"}', path="/weir/unlock").status == 200
    assert _asked(server, "anna", "anna-s", address=guesser).status == 200
    assert _asked(server, "anna", "anna-s", address=owner).status == 200
    assert 'weir_clickhouse_refused_total{cause="lockout"}' in server.ask(path="/metrics", method="GET").text
    for _ in range(40):
        assert _asked(server, "writer", "wrong", address=guesser).code == 516
        assert _asked(server, "analyst", "wrong").code == 516
    assert _asked(server, "writer", PASSWORDS["writer"], "SELECT 1", address=guesser).status == 200


def test_a_login_holds_while_the_directory_is_away(server: Server, directory: Directory) -> None:
    assert _asked(server, "cecilie", "cecilie-s").status == 200
    directory.stop()
    try:
        time.sleep(RECHECK + 0.2)
        assert _asked(server, "cecilie", "cecilie-s").status == 200
        assert "does not answer" in _asked(server, "cecilie", "wrong").text
        assert "does not answer" in _asked(server, "bo", "bo-s", address="198.51.100.30").text
    finally:
        directory.start()
    assert eventually(lambda: _asked(server, "bo", "bo-s", address="198.51.100.30").status == 200)


# ---- OpenID Connect ----


class Provider:
    """A provider's two documents, and tokens of its."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        outer = self
        self.asked = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.endswith("openid-configuration"):
                    said: dict[str, Any] = {"issuer": outer.url, "jwks_uri": f"{outer.url}/keys"}
                else:
                    outer.asked += 1
                    public = json.loads(RSAAlgorithm.to_jwk(outer.key.public_key()))
                    said = {
                        "keys": [{**public, "kid": "1", "alg": "RS256", "use": "sig"}, {**public, "kid": "enc", "use": "enc"}]
                    }
                body = json.dumps(said).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, *, key: Any = None, algorithm: str = "RS256", number: str = "1", **claims: Any) -> str:
        now = int(time.time())
        said = {"iss": self.url, "aud": "weir", "sub": "7", "iat": now, "exp": now + 300, "preferred_username": "frida"}
        said |= {"groups": ["analysts"], **claims}
        kept = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(kept, self.key if key is None else key, algorithm=algorithm, headers={"kid": number})


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    one = Provider()
    yield one
    one.server.shutdown()


@pytest.fixture(scope="module")
def tokens(provider: Provider) -> Iterator[Server]:
    """A store whose people come from the provider."""
    with tempfile.TemporaryDirectory(prefix="weir-clickhouse-") as name:
        own = {"issuer": provider.url, "client_id": "weir", "username_claim": "preferred_username", "groups_claim": "groups"}
        running = _started(Path(name), oidc=own, roles=_in_groups(str))
        try:
            yield running
        finally:
            assert stop(running) == 0


def _with(server: Server, token: str, sql: str = "SELECT src FROM v_flows ORDER BY src") -> Answer:
    return server.ask(sql, headers={"Authorization": f"Bearer {token}"})


def test_a_token_of_the_provider_lets_in(tokens: Server, provider: Provider) -> None:
    assert _with(tokens, provider.token()).text == "10.1.0.7\n10.9.0.7\n"
    assert _with(tokens, provider.token(aud=["somebody", "weir"], azp="weir")).status == 200
    assert _with(tokens, provider.token(groups="networks")).text == "10.1.0.0/24\n10.9.0.0/24\n"
    assert _with(tokens, provider.token(groups=["fjord", "x"], preferred_username="gro", sub="8")).text == "10.1.0.7\n"
    assert tokens.sql("SELECT 1", user="analyst") == "1"


def test_a_name_belongs_to_the_person_who_came_with_it_first(tokens: Server, provider: Provider) -> None:
    first, second = provider.token(preferred_username="hanne", sub="1"), provider.token(preferred_username="Hanne", sub="2")
    assert _with(tokens, first).status == 200
    for _ in range(2):
        assert "another person's" in _with(tokens, second).text
    assert _with(tokens, first).status == 200
    assert tokens.ask('{"user": "hanne"}', path="/weir/remove", user="analyst").code == 497
    assert tokens.ask('{"user": "hanne"}', path="/weir/remove").status == 200
    assert _with(tokens, second).status == 200
    assert "another person's" in _with(tokens, first).text


def test_no_other_token_does(tokens: Server, provider: Provider) -> None:
    now, other = int(time.time()), rsa.generate_private_key(public_exponent=65537, key_size=2048)
    wrong = {
        "another key": provider.token(key=other),
        "an unknown key": provider.token(number="2"),
        "a secret": provider.token(key="0123456789abcdef0123456789abcdef", algorithm="HS256"),
        "no signature": provider.token(key="", algorithm="none"),
        "over": provider.token(exp=now - 60),
        "without an end": provider.token(exp=None),
        "too old": provider.token(iat=now - 3700, exp=now + 300),
        "for others": provider.token(aud="somebody"),
        "of others": provider.token(iss="https://elsewhere.example"),
        "of nobody": provider.token(preferred_username=None),
        "a user of the store": provider.token(preferred_username="admin"),
        "no group": provider.token(groups=[]),
        "as a user of the store": provider.token(preferred_username="\uff41dmin"),
        "another spelling of a user": provider.token(preferred_username="Dashboard "),
        "no name to show": provider.token(preferred_username="analyst\n"),
        "for others, too": provider.token(aud=["somebody", "weir"], azp="somebody"),
        "an end of a session": provider.token(events={"http://schemas.openid.net/event/backchannel-logout": {}}),
        "a key to encrypt": provider.token(number="enc"),
        "groups are compared exactly": provider.token(groups=["Analysts", " analysts"]),
        "groups are no keys": provider.token(groups={"analysts": 1}),
        "rubbish": "a.b.c",
        "nothing": "",
        "too long": "x" * 9000,
    }
    for what, token in wrong.items():
        answer = _with(tokens, token)
        assert answer.status in (401, 403), (what, answer.status, answer.text)
    before = provider.asked
    for number in range(20):
        _with(tokens, provider.token(number=f"invented-{number}"))
    assert provider.asked - before < 5


# ---- without a directory ----


def test_a_right_login_is_remembered_by_its_password_and_address(tmp_path: Path) -> None:
    access = load(FOLDER / "access.yaml", {"WEIR_PASSWORD_ANALYST": "right"})
    people = People(access, tmp_path / "lockout.db")
    assert people.by_password("analyst", "right", "192.0.2.1").name == "analyst"
    for _ in range(10):
        with pytest.raises(ServerError):
            people.by_password("analyst", "wrong", "192.0.2.1")
        # Who is known there goes on, whatever somebody guesses beside it.
        assert people.by_password("analyst", "right", "192.0.2.1").name == "analyst"
    for said in (*["password is incorrect"] * 5, "too many failed logins"):
        with pytest.raises(ServerError, match=said):
            people.by_password("analyst", "wrong", "192.0.2.2")
    with pytest.raises(ServerError, match="takes no tokens"):
        people.by_token("x")


def test_a_queue_before_the_directory_lets_nobody_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers can fill it."""
    monkeypatch.setattr(weir_clickhouse.people, "PATIENCE", 0.01)
    settings = {"ldap": {"server": "ldap://x"}, "recheck_s": 0, "grace_s": 900, "roles": _in_groups(str)}
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    people = People(load(FOLDER / "access.yaml", {}), tmp_path / "lockout.db", settings, [here])

    def answers(said: dict[str, Any]) -> threading.Thread:
        def answer() -> None:
            there.send(json.dumps({"id": json.loads(there.recv(LARGEST))["id"], **said}).encode())

        thread = threading.Thread(target=answer)
        thread.start()
        return thread

    known = {"name": "anna", "groups": ["analysts"], "subject": ""}
    thread = answers(known)
    assert people.by_password("anna", "right", "192.0.2.1").name == "anna"
    thread.join()
    # The directory is away: it holds.
    thread = answers({"down": True})
    assert people.by_password("anna", "right", "192.0.2.1").name == "anna"
    thread.join()
    people._door.get()
    with pytest.raises(ServerError, match="too many people"):
        people.by_password("anna", "right", "192.0.2.1")
    people._door.put(here)
    for name, password in (("anna", "\udc80"), ("\udc80", "x")):
        with pytest.raises(ServerError, match="password is incorrect"):
            people.by_password(name, password, "192.0.2.1")
    here.close()
    there.close()


def test_only_a_proxy_with_the_key_names_addresses(tmp_path: Path) -> None:
    people = People(load(FOLDER / "access.yaml", {}), tmp_path / "lockout.db", proxy_key="k")
    said = {"X-Weir-Proxy": "k", "X-Forwarded-For": "203.0.113.9, 198.51.100.7"}
    assert people.address("127.0.0.1", said.get) == "198.51.100.7"
    for wrong in ({"X-Weir-Proxy": "x"}, {"X-Weir-Proxy": "é"}, {"X-Forwarded-For": "rubbish"}, {"X-Weir-Proxy": ""}):
        assert people.address("127.0.0.1", {**said, **wrong}.get) == "127.0.0.1", wrong
    without = People(load(FOLDER / "access.yaml", {}), tmp_path / "other.db")
    assert without.address("127.0.0.1", {**said, "X-Weir-Proxy": ""}.get) == "127.0.0.1"


def test_connections_opened_at_once_are_no_guesses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = load(FOLDER / "access.yaml", {f"WEIR_PASSWORD_{name.upper()}": key for name, key in PASSWORDS.items()})
    people = People(access, tmp_path / "lockout.db")
    checked = Access.authenticate

    def slow(*asked: Any) -> Any:
        time.sleep(0.05)  # so that all are there before the first one is known
        return checked(*asked)

    monkeypatch.setattr(Access, "authenticate", slow)

    with ThreadPoolExecutor(30) as threads:
        logins = threads.map(lambda _: people.by_password("analyst", PASSWORDS["analyst"], "192.0.2.1").name, range(30))
        assert [*logins] == ["analyst"] * 30
