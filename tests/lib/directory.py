"""A directory (slapd) with people and groups, for the tests on signing on."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

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


class Directory:
    """A running slapd with TLS alone, and the people in it."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.folder, self.port = folder, int(one.getsockname()[1])
        self.url = f"ldaps://127.0.0.1:{self.port}"
        (folder / "data").mkdir(parents=True)
        (folder / "slapd.conf").write_text(_SLAPD.format(folder=folder, tree=TREE, service=SERVICE))
        key, certificate = folder / "key.pem", folder / "ca.pem"
        made = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=directory -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}"
        subprocess.run(made.split(), check=True, capture_output=True)
        self.authority = str(certificate)
        self.process: subprocess.Popen[bytes] | None = None

    def settings(self, folder: Path) -> dict[str, object]:
        """The key `sign_on.ldap` of weir.yaml; the password of the account that searches goes into the folder."""
        (folder / "password").write_text("service\n")
        return {
            "server": self.url,
            "start_tls": False,
            "authority": self.authority,
            "search": PEOPLE,
            "filter": "",
            "bind_user": SERVICE,
            "bind_password_file": str(folder / "password"),
            "uid_field": "uid",
            "group_field": "memberOf",
        }

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = ["slapd", "-d", "0", "-h", self.url, "-f", str(self.folder / "slapd.conf")]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not self._answers():
            assert time.monotonic() < end, "slapd does not answer"
            time.sleep(0.1)

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
