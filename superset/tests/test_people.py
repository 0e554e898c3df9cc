"""People log in, here and by single sign-on; who is removed is gone; who guesses passwords must wait."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import flask
import httpx
import oidc_provider_mock
import pytest
from conftest import ADMIN
from directory import GROUPS, PEOPLE, Directory
from flask.sessions import SecureCookieSessionInterface
from servers import Person, command, eventually, free_port, serving

import weir_lockout

#: Seconds between two checks of a session; and for which sessions go on without the directory.
RECHECK, GRACE = 1, 3
PROXY_KEY = "the-proxy-s"


@pytest.fixture(scope="module")
def here(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A Superset with accounts of its own, behind a proxy with TLS."""
    home = Path(shutil.copytree(prepared, tmp_path_factory.mktemp("here") / "home"))
    with serving(home, WEIR_SUPERSET_PROXY_KEY=PROXY_KEY, WEIR_SUPERSET_URL="https://weir.example") as url:
        yield url, home


def _through(address: str) -> dict[str, str]:
    """What a proxy sends on behalf of a client."""
    return {"X-Weir-Proxy": PROXY_KEY, "X-Forwarded-For": address, "X-Forwarded-Proto": "https"}


def test_an_account_is_made_and_removed_and_its_session_ends(here: tuple[str, Path]) -> None:
    url, home = here
    assert command(home, "user", "add", "kari", "--role", "viewer").returncode == 0
    kari = _logged_in(url, "kari", "p")
    assert kari.name() == "kari"
    assert kari.roles() == ["Viewer"]
    listed = {one["user"]: one for one in json.loads(command(home, "user", "list").stdout.splitlines()[-1])}
    assert (listed["kari"]["roles"], listed["kari"]["source"]) == (["Viewer"], "here")
    assert "already exists, with another role" in command(home, "user", "add", "kari", "--role", "admin").stderr
    # A new password ends the sessions of the old one.
    assert command(home, "user", "add", "kari", "--role", "viewer").returncode == 0
    assert kari.name() == ""
    kari = _logged_in(url, "kari", "p")
    assert command(home, "user", "remove", "kari").returncode == 0
    assert kari.name() == ""
    # The database gives the number of the account to the next one.
    assert command(home, "user", "add", "boss", "--role", "admin").returncode == 0
    assert kari.name() == ""
    assert command(home, "user", "remove", "boss").returncode == 0
    assert "no user is named 'kari'" in command(home, "user", "remove", "kari").stderr
    assert "'admin' stays" in command(home, "user", "remove", "admin").stderr


def test_a_session_ends_twelve_hours_after_the_login(here: tuple[str, Path]) -> None:
    url, home = here
    assert command(home, "user", "add", "nils", "--role", "viewer").returncode == 0
    nils = _logged_in(url, "nils", "p")
    browser = flask.Flask("browser")
    browser.secret_key = "k"
    signing = SecureCookieSessionInterface().get_signing_serializer(browser)
    assert signing
    held = signing.loads(nils.client.headers["Cookie"].removeprefix("session="))
    for hours, name in ((11.9, "nils"), (12.1, "")):
        aged = signing.dumps(held | {"weir_since": held["weir_since"] - 3600 * hours})
        nils.client.headers["Cookie"] = f"session={aged}"
        assert nils.name() == name


def test_who_has_logged_in_guesses_no_faster(here: tuple[str, Path]) -> None:
    url, home = here
    assert command(home, "user", "add", "tor", "--role", "viewer").returncode == 0
    address = "192.0.2.77"
    tor = _logged_in(url, "tor", "p", address)
    for _ in range(8):
        own = tor.client.post("/login/", data={"username": "admin", "password": "wrong"})
        assert own.status_code != 429
        tor.client.get("/login/")
    _guess(home, "admin", address)
    tor.client.post("/login/", data={"username": "admin", "password": "wrong"})
    assert _try(Person(url, headers=_through(address)), "admin", "wrong").status_code == 429


def _guess(home: Path, account: str, address: str) -> None:
    """As after eleven failed logins, the last of them now: the next has a minute to wait, however slow the machine."""
    pair = weir_lockout._keys(account, address)["pair"]
    with weir_lockout.Lockout(home / "lockout.db")._changing() as database:
        database.execute("REPLACE INTO failures VALUES (?, 11, ?)", (pair, time.time()))


def _until_refused(attempt: Callable[[], httpx.Response], passes: int) -> None:
    """Fail to log in until that is refused: `passes` failures are free, and each further one doubles the wait."""
    statuses: list[int] = []
    while not statuses or statuses[-1] != 429:
        statuses.append(attempt().status_code)
        assert len(statuses) < 20, statuses
    assert 429 not in statuses[:passes], statuses


def _logged_in(url: str, name: str, password: str, address: str = "192.0.2.1") -> Person:
    """Somebody behind the proxy, whose cookies need TLS: the test carries them there itself."""
    person = Person(url, headers=_through(address))
    answer = _try(person, name, password)
    assert (answer.status_code, person.name()) == (302, name), answer.text[:500]
    return person


def _try(person: Person, name: str, password: str) -> httpx.Response:
    form = person.client.get("/login/")
    _carry(person, form)
    token = re.search(r'csrf_token[^>]*?value="([^"]+)"|"csrf_token": ?"([^"]+)"', form.text)
    assert token
    fields = {"username": name, "password": password, "csrf_token": token[1] or token[2]}
    answer = person.client.post(
        "/login/", data=fields, headers={"Referer": f"{person.client.base_url}".replace("http:", "https:")}
    )
    _carry(person, answer)
    return answer


def _carry(person: Person, answer: httpx.Response) -> None:
    for line in answer.headers.get_list("set-cookie"):
        name, _, rest = line.partition("=")
        person.client.headers["Cookie"] = f"{name}={rest.split(';')[0]}"


def test_a_form_of_nobody_is_refused_by_its_length(here: tuple[str, Path]) -> None:
    """And the connection is good for another request: who is still sending when it closes may lose the refusal."""
    url, _ = here
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    for form in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        connection.request("POST", "/login/", b"password=" + b"x" * (2 << 20), {"Content-Type": form})
        with connection.getresponse() as answer:
            assert answer.status == 413, (form, answer.status)
            answer.read()
    connection.close()


def test_cookies_travel_by_tls_alone_and_no_script_reads_them(here: tuple[str, Path]) -> None:
    url, _ = here
    (cookie,) = Person(url).client.get("/login/").headers.get_list("set-cookie")
    words = {word.strip() for word in cookie.split(";")}
    assert words >= {"Secure", "HttpOnly", "SameSite=Lax"}


def test_who_guesses_must_wait_and_the_owner_need_not(here: tuple[str, Path]) -> None:
    """The count is one of all processes of the server."""
    url, home = here
    assert command(home, "user", "add", "owner", "--role", "viewer").returncode == 0
    _logged_in(url, "owner", "p", "192.0.2.10")
    guesser = Person(url, headers=_through("198.51.100.7"))
    _until_refused(lambda: _try(guesser, "owner", "wrong"), passes=5)
    _guess(home, "owner", "198.51.100.7")
    # Even the right password is refused meanwhile, from there; the owner comes in from where it is known.
    answer = _try(guesser, "owner", "p")
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1
    assert guesser.client.get("/chart/list/").status_code == 302
    assert guesser.client.get("/api/v1/database/").status_code == 403
    counted = guesser.client.get("/weir/metrics").text
    for cause in ("login_pair", "address"):
        assert re.search(rf'^weir_superset_refused_total{{cause="{cause}"}} [1-9]', counted, re.M), counted
    _logged_in(url, "owner", "p", "192.0.2.10")
    assert command(home, "user", "unlock", "owner").returncode == 0
    _logged_in(url, "owner", "p", "198.51.100.7")


def test_a_client_cannot_give_itself_another_address(here: tuple[str, Path]) -> None:
    """Without the proxy's key, X-Forwarded-For does not count; with it, the last address does."""
    url, home = here
    assert command(home, "user", "add", "forged", "--role", "viewer").returncode == 0
    addresses = (f"203.0.113.{number}" for number in itertools.count())

    def guessing() -> dict[str, str]:
        return {"X-Forwarded-For": next(addresses), "X-Weir-Proxy": "guessed"}

    def behind() -> dict[str, str]:
        return _through(f"{next(addresses)}, 198.51.100.20")

    _until_refused(lambda: _try(Person(url, headers=guessing()), "forged", "wrong"), passes=5)
    _guess(home, "forged", "127.0.0.1")
    assert _try(Person(url, headers={"X-Forwarded-For": next(addresses)}), "forged", "p").status_code == 429
    _until_refused(lambda: _try(Person(url, headers=behind()), "forged", "wrong"), passes=5)
    _guess(home, "forged", "198.51.100.20")
    assert _try(Person(url, headers=behind()), "forged", "p").status_code == 429
    _logged_in(url, "forged", "p", "198.51.100.21")


# ---- LDAP ----

ROLES = {
    "admin": [f"cn=admins,{GROUPS}"],
    "viewer": [f"CN=NOC,{GROUPS}"],
    "customers": {"Fjord Power": [f"cn=fjord,{GROUPS}"]},
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    one = Directory(tmp_path_factory.mktemp("ldap"))
    one.start()
    people = {name: f"{name}-s" for name in ("anna", "bo", "cecilie", "dag", "eva", "admin")}
    groups = {"admins": ["anna", "admin"], "noc": ["bo", "eva"], "fjord": ["cecilie"], "others": ["dag"]}
    one.fill(people, groups)
    yield one
    one.stop()


@pytest.fixture(scope="module")
def ldap(prepared: Path, directory: Directory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A Superset whose people are in the directory."""
    folder = tmp_path_factory.mktemp("with-ldap")
    home = Path(shutil.copytree(prepared, folder / "home"))
    _make_customer(home)
    sign_on = {"ldap": directory.settings(folder), "oidc": None, "roles": ROLES, "recheck_s": RECHECK, "grace_s": GRACE}
    with serving(home, WEIR_SUPERSET_SIGN_ON=json.dumps(sign_on)) as url:
        yield url, home


def _make_customer(home: Path) -> None:
    """The role of a customer's users, as `weir customer` makes it on a store that knows the customer."""
    from conftest import PYTHON, SCRIPT, environment

    code = (
        f"import sys, os; sys.path.insert(0, {str(SCRIPT.parent)!r}); os.environ['SUPERSET_HOME'] = {str(home)!r}\n"
        f"os.environ['SUPERSET_CONFIG_PATH'] = {str(SCRIPT.parent / 'superset_config.py')!r}\n"
        "from superset.app import create_app\nimport weir_superset\n"
        "with create_app().app_context():\n    from superset import db\n"
        "    weir_superset._viewer_role('Customer Fjord Power', []); db.session.commit()\n"
    )
    done = subprocess.run([PYTHON, "-c", code], env=environment(home), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _signed_on(url: str, name: str) -> Person:
    person = Person(url)
    person.log_in(name, f"{name}-s")
    return person


def test_groups_give_the_roles(ldap: tuple[str, Path]) -> None:
    url, home = ldap
    for name, roles in (("anna", ["Admin"]), ("bo", ["Viewer"]), ("cecilie", ["Customer Fjord Power"])):
        person = _signed_on(url, name)
        assert (person.name(), person.roles()) == (name, roles)
    # Another spelling is the same account, and no second one.
    anna = Person(url)
    anna.log_in("ANNA", "anna-s")
    assert anna.name() == "anna"
    listed = {one["user"]: one["source"] for one in json.loads(command(home, "user", "list").stdout.splitlines()[-1])}
    assert (listed["anna"], listed["admin"]) == ("ldap", "here")
    assert [name for name in listed if name.lower() == "anna"] == ["anna"]


def test_nobody_else_comes_in(ldap: tuple[str, Path]) -> None:
    """Without a listed group, with a wrong or no password, or with a filter for a name."""
    url, _ = ldap
    for name, password in (("dag", "dag-s"), ("bo", "wrong"), ("bo", ""), ("*", "bo-s"), ("b*)(uid=bo", "bo-s")):
        person = Person(url)
        person.log_in(name, password)
        assert person.name() == "", (name, password)


def test_an_account_here_is_not_signed_on_from_outside(ldap: tuple[str, Path]) -> None:
    """The directory has somebody named admin, too; the administrator whom Weir made comes in without the directory."""
    url, _ = ldap
    assert _signed_on(url, "admin").name() == ""
    person = Person(url)
    person.log_in("admin", ADMIN)
    assert person.name() == "admin"


def test_who_leaves_the_directory_loses_the_session(ldap: tuple[str, Path], directory: Directory) -> None:
    url, _ = ldap
    eva, bo = _signed_on(url, "eva"), _signed_on(url, "bo")
    assert (eva.name(), bo.name()) == ("eva", "bo")
    directory.change(f"dn: uid=eva,{PEOPLE}\nchangetype: delete\n")
    eventually(lambda: eva.name() == "", "the session of eva to end", RECHECK + 5)
    assert bo.name() == "bo"
    person = Person(url)
    person.log_in("eva", "eva-s")
    assert person.name() == ""
    # Who changes groups changes roles, without a new login.
    moved = "dn: cn={},{}\nchangetype: modify\n{}: member\nmember: uid=bo,{}\n"
    directory.change(moved.format("admins", GROUPS, "add", PEOPLE))
    eventually(lambda: sorted(bo.roles()) == ["Admin", "Viewer"], "the role of the new group", RECHECK + 5)
    directory.change(moved.format("admins", GROUPS, "delete", PEOPLE))
    eventually(lambda: bo.roles() == ["Viewer"], "the role to go", RECHECK + 5)


def test_sessions_end_if_the_directory_stays_away(ldap: tuple[str, Path], directory: Directory) -> None:
    url, _ = ldap
    bo = _signed_on(url, "bo")
    assert bo.name() == "bo"
    directory.stop()
    time.sleep(RECHECK + 0.2)
    assert bo.name() == "bo", "it may be away for a while"
    time.sleep(GRACE)
    eventually(lambda: bo.name() == "", "the session to end", 10)
    directory.start()


# ---- OpenID Connect ----


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    port = free_port()
    with oidc_provider_mock.run_server_in_thread(port=port):
        url = f"http://localhost:{port}"
        for sub, name, groups in (
            ("1", "frida", ["noc"]),
            ("2", "geir", ["others"]),
            ("3", "admin", ["admins"]),
            ("4", "frida", ["admins"]),
        ):
            # The first says that an address is its own that an account of Weir will have.
            claims = {"preferred_username": name, "groups": groups, "email": "ingrid@weir.invalid"}
            httpx.put(f"{url}/users/{sub}", json=claims).raise_for_status()
        yield url


@pytest.fixture(scope="module")
def oidc_home(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(prepared, tmp_path_factory.mktemp("with-oidc") / "home"))


@pytest.fixture(scope="module")
def oidc(oidc_home: Path, provider: str) -> Iterator[str]:
    """A Superset whose people come from the provider."""
    home, folder = oidc_home, oidc_home.parent
    (folder / "secret").write_text("s\n")
    own = {"issuer": provider, "client_id": "weir", "client_secret_file": str(folder / "secret")}
    own |= {"scope": "openid profile email", "username_claim": "preferred_username", "groups_claim": "groups"}
    roles: dict[str, Any] = {"admin": ["admins"], "viewer": ["noc"], "customers": {}}
    sign_on = {"ldap": None, "oidc": own, "roles": roles, "recheck_s": RECHECK, "grace_s": GRACE}
    with serving(home, WEIR_SUPERSET_SIGN_ON=json.dumps(sign_on)) as url:
        yield url


def _sent_by(url: str, sub: str) -> Person:
    """Somebody who logs in at the provider."""
    person = Person(url)
    away = person.client.get("/login/oidc")
    assert away.status_code == 302, away.text[:500]
    assert "code_challenge=" in away.headers["location"]
    back = httpx.post(away.headers["location"], data={"sub": sub})
    assert back.status_code == 302, back.text[:500]
    person.client.get(back.headers["location"])
    return person


def test_a_provider_signs_people_on(oidc: str, oidc_home: Path) -> None:
    frida = _sent_by(oidc, "1")
    # What she says her address of mail is blocks nobody.
    assert command(oidc_home, "user", "add", "ingrid", "--role", "viewer").returncode == 0
    assert "ingrid" in command(oidc_home, "user", "list").stdout
    assert (frida.name(), frida.roles()) == ("frida", ["Viewer"])
    # No listed group; the name of an account here; the name of somebody else at the provider.
    for sub in ("2", "3", "4"):
        assert _sent_by(oidc, sub).name() == "", sub
    assert frida.roles() == ["Viewer"]
    # Accounts of Superset itself have a form of their own, behind the same lockout.
    person = Person(oidc)
    person.log_in("admin", ADMIN, "/login/local")
    assert person.name() == "admin"
    _until_refused(lambda: Person(oidc).log_in("nobody", "wrong", "/login/local"), passes=5)


def test_an_answer_that_the_browser_did_not_ask_for_signs_nobody_on(oidc: str) -> None:
    asked = Person(oidc).client.get("/login/oidc").headers["location"]
    back = httpx.post(asked, data={"sub": "1"}).headers["location"]
    victim = Person(oidc)
    victim.client.get(back)
    assert victim.name() == ""


def test_who_is_gone_at_the_provider_loses_the_session(oidc: str, provider: str) -> None:
    frida = _sent_by(oidc, "1")
    assert frida.name() == "frida"
    httpx.post(f"{provider}/users/1/revoke-tokens").raise_for_status()
    eventually(lambda: frida.name() == "", "the session to end", RECHECK + 5)
    frida = _sent_by(oidc, "1")
    assert frida.name() == "frida"
    claims = {"preferred_username": "frida", "groups": ["others"], "email": "frida1@example.org"}
    httpx.put(f"{provider}/users/1", json=claims).raise_for_status()
    eventually(lambda: frida.name() == "", "the session without a group to end", RECHECK + 5)
