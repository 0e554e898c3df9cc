"""Servers for the tests on people: Superset itself, and a directory (slapd)."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from conftest import PYTHON, SCRIPT, environment

#: Distinguished names of the directory.
TREE = "dc=example,dc=org"
PEOPLE, GROUPS, SERVICE = f"ou=people,{TREE}", f"ou=groups,{TREE}", f"cn=weir,{TREE}"
_SLAPD = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload memberof
TLSCACertificateFile {folder}/ca.pem
TLSCertificateFile {folder}/ca.pem
TLSCertificateKeyFile {folder}/key.pem
pidfile {folder}/slapd.pid
database mdb
suffix "{tree}"
rootdn "cn=root,{tree}"
rootpw root
directory {folder}/data
overlay memberof
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{service}" read by * none
"""


def free_port() -> int:
    """A port of the loopback interface that nobody uses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def eventually(holds: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Wait until something holds; returns it."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)
    return found


@contextmanager
def serving(home: Path, **more: str) -> Iterator[str]:
    """A running Superset; its address."""
    port = free_port()
    with (home.parent / "serve.log").open("w") as log:
        process = subprocess.Popen(
            [PYTHON, SCRIPT, "serve"],
            env=environment(home, WEIR_SUPERSET_PORT=str(port), **more),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            eventually(
                lambda: process.poll() is not None or answers(f"http://127.0.0.1:{port}/health"), "Superset", 180
            )
            assert process.poll() is None, (home.parent / "serve.log").read_text()[-3000:]
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def answers(url: str) -> bool:
    """Whether a GET returns 200."""
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def command(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """One command of `weir_superset.py`."""
    known = environment(home, WEIR_SUPERSET_USER_PASSWORD="p", **more)
    return subprocess.run([PYTHON, SCRIPT, *words], env=known, capture_output=True, text=True, check=False)


class Person:
    """A browser of somebody."""

    def __init__(self, url: str, **options: Any) -> None:
        self.client = httpx.Client(base_url=url, timeout=60, **options)

    def log_in(self, name: str, password: str, path: str = "/login/", **headers: str) -> httpx.Response:
        """Send the form; what came back."""
        form = self.client.get(path, headers=headers).text
        token = re.search(r'csrf_token[^>]*?value="([^"]+)"|"csrf_token": ?"([^"]+)"', form)
        assert token, form[:500]
        fields = {"username": name, "password": password, "csrf_token": token[1] or token[2]}
        return self.client.post(path, data=fields, headers=headers)

    def name(self) -> str:
        """Who is logged in; empty if nobody is."""
        answer = self.client.get("/api/v1/me/")
        return str(answer.json()["result"].get("username", "")) if answer.status_code == 200 else ""

    def roles(self) -> list[str]:
        """Names of the roles of whoever is logged in."""
        return [*self.client.get("/api/v1/me/roles/").json()["result"]["roles"]]


class Directory:
    """A running slapd with TLS alone, and the people in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"ldaps://127.0.0.1:{self.port}"
        (folder / "data").mkdir(parents=True)
        (folder / "slapd.conf").write_text(_SLAPD.format(folder=folder, tree=TREE, service=SERVICE))
        key, certificate = folder / "key.pem", folder / "ca.pem"
        made = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=directory -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}"
        subprocess.run(made.split(), check=True, capture_output=True)
        self.authority = str(certificate)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = ["slapd", "-d", "0", "-h", self.url, "-f", str(self.folder / "slapd.conf")]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(self._answers, "slapd")

    def stop(self) -> None:
        """Stop it."""
        if self.process:
            self.process.terminate()
            self.process.wait(30)
            self.process = None

    def _answers(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def change(self, text: str, *, new: bool = False) -> None:
        """Apply LDIF, as the administrator of the directory."""
        words = ["ldapadd" if new else "ldapmodify", "-x", "-H", self.url, "-D", f"cn=root,{TREE}", "-w", "root"]
        known = {**os.environ, "LDAPTLS_CACERT": self.authority}
        done = subprocess.run(words, input=text, env=known, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def fill(self, people: dict[str, str], groups: dict[str, list[str]]) -> None:
        """Add people with their passwords, and groups with their members."""
        entries = [f"dn: {TREE}\nobjectClass: dcObject\nobjectClass: organization\no: x\ndc: example"]
        entries += [f"dn: {one}\nobjectClass: organizationalUnit" for one in (PEOPLE, GROUPS)]
        service = "objectClass: organizationalRole\nobjectClass: simpleSecurityObject\nuserPassword: service"
        entries += [f"dn: {SERVICE}\n{service}"]
        for name, password in people.items():
            own = f"sn: {name}\ncn: {name}\ngivenName: {name}\nmail: {name}@example.org\nuserPassword: {password}"
            entries.append(f"dn: uid={name},{PEOPLE}\nobjectClass: inetOrgPerson\nuid: {name}\n{own}")
        for group, members in groups.items():
            named = "\n".join(f"member: uid={one},{PEOPLE}" for one in members)
            entries.append(f"dn: cn={group},{GROUPS}\nobjectClass: groupOfNames\n{named}")
        self.change("\n\n".join(entries) + "\n", new=True)
