"""The store's audit names the person behind each question of the dashboards, also on a connection that is used again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import eventually, free_port

CHECKOUT = Path(__file__).resolve().parents[2]
VENVS = Path(os.environ.get("WEIR_VENVS", CHECKOUT / ".weir/venvs"))

#: Runs in Superset's environment: requests of several people, one after the other, on one connection.
_ASKS = """
import sys
from types import SimpleNamespace
import flask
import superset.utils.core  # as in Superset, before any request
from sqlalchemy.engine import make_url
sys.path.insert(0, sys.argv[1])
import weir_store

_, params = weir_store.DB_CONNECTION_MUTATOR(make_url("clickhousedb://weir/weir"), {}, None, None, None)
made = set()
for person, address in (("kari", "198.51.100.1"), ("Øystein", "2001:db8::5"), (None, "198.51.100.3")):
    with flask.Flask("test").test_request_context("/", environ_base={"REMOTE_ADDR": address}):
        flask.g.user = SimpleNamespace(username=person) if person else SimpleNamespace()
        connection = params["creator"]()
        made.add(id(connection))
        connection.client.query(f"SELECT 'asked from {address}'")
        connection.close()
assert len(made) == 1, "the connection is used again"
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Port and audit of an embedded store."""
    program = [VENVS / "clickhouse/bin/python", CHECKOUT / "clickhouse/embedded/weir_clickhouse"]
    options = ["--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--access", CHECKOUT / "clickhouse/access.yaml"]
    command = [str(word) for word in (*program, *options, "--memory", "1GiB")]
    users = {"WEIR_PASSWORD_ADMIN": "a", "WEIR_PASSWORD_DASHBOARD": "d"}
    process = subprocess.Popen(command, env={**os.environ, **users}, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    port = next((int(found[1]) for text in process.stderr if (found := re.search(r"listens on .*:(\d+)", text))), 0)
    head = {"X-ClickHouse-User": "admin", "X-ClickHouse-Key": "a"}
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/?database=default", b"CREATE DATABASE weir", head)
    urllib.request.urlopen(asked, timeout=60).close()
    yield port, tmp_path / "data/audit"
    process.terminate()
    process.wait(60)
    process.stderr.close()


def _environment(port: int, **more: str) -> dict[str, str]:
    known = {"WEIR_CLICKHOUSE_PORT": str(port), "WEIR_PASSWORD_DASHBOARD": "d", "SUPERSET_SECRET_KEY": "k"}
    return {**os.environ, **known, **more}


def _certificate(folder: Path) -> Path:
    folder.mkdir()
    names = "subjectAltName=IP:127.0.0.1"
    made = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=store -addext {names}"
    made += f" -keyout {folder}/key.pem -out {folder}/certificate.pem"
    subprocess.run(made.split(), check=True, capture_output=True)
    return folder / "certificate.pem"


def test_a_remote_store_must_prove_itself(store: tuple[int, Path], tmp_path: Path) -> None:
    own, other, port = _certificate(tmp_path / "own"), _certificate(tmp_path / "other"), free_port()
    server = f"listen 127.0.0.1:{port} ssl; ssl_certificate {own}; ssl_certificate_key {own.parent}/key.pem;"
    server += f" location / {{ proxy_pass http://127.0.0.1:{store[0]}; }}"
    folders = " ".join(
        f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid; events {{}} http {{ access_log off; {folders} server {{ {server} }} }}"
    )
    words = ["nginx", "-c", str(tmp_path / "nginx.conf"), "-e", str(tmp_path / "error.log"), "-g", "daemon off;"]
    nginx = subprocess.Popen(words)
    try:
        eventually(lambda: (tmp_path / "pid").exists(), "nginx")
        command: list[str | Path] = [VENVS / "superset/bin/python", "-c", _ASKS, CHECKOUT / "superset"]
        for authority, tls, works in ((own, "yes", True), (other, "yes", False), (own, "no", False)):
            known = _environment(port, WEIR_CLICKHOUSE_TLS=tls, WEIR_CLICKHOUSE_AUTHORITY=str(authority))
            done = subprocess.run(command, env=known, capture_output=True, text=True, check=False)
            assert (done.returncode == 0) == works, done.stderr
            assert works or tls == "no" or "CERTIFICATE_VERIFY_FAILED" in done.stderr
    finally:
        nginx.terminate()
        nginx.wait(30)


def test_each_question_has_its_persons_name_and_address(store: tuple[int, Path]) -> None:
    port, audit = store
    environment = _environment(port)
    command: list[str | Path] = [VENVS / "superset/bin/python", "-c", _ASKS, CHECKOUT / "superset"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    entries = [json.loads(line) for file in audit.glob("*.jsonl") for line in file.read_text().splitlines()]
    asked = {
        one["text"]["statement"]: (one["entry"]["user"], one["entry"].get("person"), one["entry"]["person_address"])
        for one in entries
        if one["entry"]["kind"] == "ask" and "asked from" in one["text"]["statement"]
    }
    assert [(text[19:].split("'")[0], *who) for text, who in asked.items()] == [
        ("198.51.100.1", "dashboard", "kari", "198.51.100.1"),
        ("2001:db8::5", "dashboard", "Øystein", "2001:db8::5"),
        ("198.51.100.3", "dashboard", None, "198.51.100.3"),
    ]
