"""The shipped reverse proxy, in front of a real stack: what it lets through, and whom the audit names behind it."""

from __future__ import annotations

import json
import re
import socket
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from harness import RunningStack, free_ports
from nginx import NAME, Nginx
from viewers import Viewer
from weir.clickhouse import ClickHouse
from weir.errors import WeirError

#: The address from which the person comes.
CLIENT = "127.0.0.5"
FORGED = {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9", "X-Real-IP": "203.0.113.9"}


@pytest.fixture(scope="module")
def stack() -> Iterator[RunningStack]:
    """A stack whose pages people reach by https."""
    running = RunningStack(superset=True)
    file = running.home / "weir.yaml"
    settings = yaml.safe_load(file.read_text())
    # A visitor without a login asks, too.
    settings["superset"] |= {"url": f"https://{NAME}", "public": True}
    file.write_text(yaml.safe_dump(settings))
    running.stack = running._load()
    with running:
        yield running


@pytest.fixture(scope="module")
def proxy(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    http, pages, store = free_ports(3)
    ports = stack.stack.config.ports
    key = stack.stack.secret("superset-proxy")
    with Nginx(tmp_path_factory.mktemp("nginx"), (http, pages, store), ports.superset, ports.clickhouse, key) as one:
        yield one


def _viewer(stack: RunningStack, proxy: Nginx, address: str = CLIENT) -> Viewer:
    """A viewer who knows the proxy by its name, and forges addresses."""
    viewer = Viewer(f"https://127.0.0.1:{proxy.pages}", stack.stack.data / "superset")
    trusted = ssl.create_default_context(cafile=str(proxy.authority))
    transport = httpx.HTTPTransport(verify=trusted, local_address=address)
    viewer.client = httpx.Client(
        base_url=viewer.url,
        transport=transport,
        headers={"Host": NAME, **FORGED},
        timeout=60,
        event_hooks={"request": [_by_name]},
    )
    return viewer


def _by_name(request: httpx.Request) -> None:
    """The name in the handshake; and the Referer that a browser sends with a form."""
    request.extensions["sni_hostname"] = NAME
    if request.method == "POST":
        request.headers["Referer"] = f"https://{NAME}/"


def _log_in(viewer: Viewer, name: str, password: str) -> httpx.Response:
    """Log in; the cookies are for the proxy's name, and the test carries them."""
    form = viewer.client.get("/login/")
    _carry(viewer, form)
    token = re.search(r'csrf_token[^>]*?value="([^"]+)"|"csrf_token": ?"([^"]+)"', form.text)
    assert token, form.text[:300]
    fields = {"username": name, "password": password, "csrf_token": token[1] or token[2]}
    answer = viewer.client.post("/login/", data=fields)
    _carry(viewer, answer)
    return answer


def _carry(viewer: Viewer, answer: httpx.Response) -> None:
    for line in answer.headers.get_list("set-cookie"):
        assert "Secure" in line
        viewer.client.headers["Cookie"] = line.split(";")[0]


def _asked(stack: RunningStack, since: float, user: str) -> list[dict[str, Any]]:
    """What the user of the store, or the person, asked since then."""
    done = stack.weir("audit", "show", "--since", "1h", "--limit", "10000", "--user", user, "--json")
    assert done.status == 0, done.err
    begin = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    found = [one for one in map(json.loads, done.out.splitlines()) if one["time"] >= begin]
    assert found
    return found


def test_a_question_names_the_person_and_the_address_before_the_proxy(stack: RunningStack, proxy: Nginx) -> None:
    made = stack.weir("user", "add", "kari")
    assert made.status == 0, made.err
    began = time.time()
    viewer = _viewer(stack, proxy)
    assert _log_in(viewer, "kari", made.out.split()[-1]).status_code == 302
    assert viewer.call("/api/v1/me/")[1]["result"]["username"] == "kari"
    status, answer = viewer.call("/api/v1/chart/data", viewer.question("customers", {"columns": ["customer_name"]}))
    assert status == 200, answer
    entries = _asked(stack, began, "kari")
    assert {(one["user"], one["person"], one["person_address"]) for one in entries} == {("dashboard", "kari", CLIENT)}
    # Whoever reaches the server itself is not believed.
    began = time.time()
    direct = Viewer(stack.stack.superset_url, stack.stack.data / "superset")
    direct.client.headers.update({**FORGED, "X-Weir-Proxy": "guessed"})
    assert direct.call("/api/v1/chart/data", direct.question("customers", {"columns": ["customer_name"]}))[0] == 200
    # A new connection of Superset asks for the server's version first, on behalf of nobody.
    said = {one.get("person_address") for one in _asked(stack, began, "dashboard") if not one.get("person")}
    assert said - {None} == {"127.0.0.1"}
    assert stack.weir("user", "remove", "kari").status == 0
    assert "username" not in viewer.call("/api/v1/me/")[1]["result"], "the session has ended"


def test_no_log_holds_what_a_client_of_the_store_sends_in_the_address(tmp_path: Path) -> None:
    http, pages, store, nobody, answering = free_ports(5)
    with Nginx(tmp_path, (http, pages, store), nobody, answering, "k"):
        client = httpx.Client(base_url=f"https://127.0.0.1:{store}", verify=False, event_hooks={"request": [_by_name]})
        for path in (
            "/?user=kari&password=s3cret",
            "/nothing?password=s3cret",
            "/?password=s3cret&query=" + "x" * 50_000,
        ):
            client.post(path)
    logs = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert '"POST /"' in logs
    assert "s3cret" not in logs


def test_only_tls_and_only_its_name(proxy: Nginx) -> None:
    plain = httpx.get(f"http://127.0.0.1:{proxy.http}/superset/dashboard/nation/")
    assert (plain.status_code, plain.headers["location"]) == (301, f"https://{NAME}/superset/dashboard/nation/")
    for name, newest in (("other.example.org", ssl.TLSVersion.TLSv1_3), (NAME, ssl.TLSVersion.TLSv1_1)):
        context = ssl.create_default_context(cafile=str(proxy.authority))
        context.check_hostname = False
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, newest
        with socket.create_connection(("127.0.0.1", proxy.pages), 10) as raw, pytest.raises(ssl.SSLError):
            context.wrap_socket(raw, server_hostname=name)


def test_slow_and_large_requests_end_at_the_proxy(stack: RunningStack, proxy: Nginx) -> None:
    context = ssl.create_default_context(cafile=str(proxy.authority))
    with (
        socket.create_connection(("127.0.0.1", proxy.pages), 10) as raw,
        context.wrap_socket(raw, server_hostname=NAME) as slow,
    ):
        began = time.monotonic()
        slow.sendall(b"GET / HTTP/1.1\r\nHost: " + NAME.encode() + b"\r\n")
        slow.settimeout(30)
        assert slow.recv(100) == b""
        assert 8 < time.monotonic() - began < 20
    viewer = _viewer(stack, proxy)
    assert viewer.client.post("/login/", content=b"x" * 11_000_000).status_code == 413
    assert viewer.client.get("/weir/metrics").status_code == 404
    # Guesses at passwords are slowed down here, too.
    statuses = [viewer.client.get("/login/").status_code for _ in range(40)]
    assert statuses[0] == 200
    assert 429 in statuses


def test_the_store_is_asked_by_tls(stack: RunningStack, proxy: Nginx) -> None:
    url, password = f"https://127.0.0.1:{proxy.store}", stack.stack.password("dashboard")
    store = ClickHouse(url, "dashboard", password, authority=str(proxy.authority))
    store.client.headers.update({"X-Weir-Person": "somebody", "X-Weir-Person-Address": "203.0.113.9"})
    began = time.time()
    assert store.rows("SELECT 'through the proxy' AS said") == [{"said": "through the proxy"}]
    assert store.ping()
    assert "somebody" not in json.dumps(_asked(stack, began, "dashboard")), "a client names no person"
    for path in ("/metrics", "/weir/audit", "/weir/unlock", "/weir/remove"):
        assert store.client.get(path).status_code == 404
        assert store.client.post(path, json={}).status_code == 404
    with pytest.raises(WeirError, match="does not answer"):
        ClickHouse(url, "dashboard", password).rows("SELECT 1")
