"""Who people are: a process of its own, which asks the LDAP directory, and checks tokens of an OpenID Connect provider.

The store's own process reaches no network (walls.py). It starts this one before its walls are up, and sends it names with
passwords, or tokens, over sockets that both inherit; what comes back is a name with groups, or a refusal. So a fault in the
engine can guess here as any client can, and reads neither the directory nor the password of `bind_user`.

A message is one JSON object: {"id", "name", "password"} or {"id", "token"}. The answer has the same id, and either "name",
"groups" and "subject", or "refused" with the reason, or "down": nobody can say now. The subject is what a provider never gives
to a second person, as it may a name; empty from a directory.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Octets of a message: a token of some hundred groups.
LARGEST = 32 << 10
#: Questions at once, and the seconds that a directory or provider has to answer.
AT_ONCE, PATIENCE = 16, 5
#: A token that was issued earlier than this many seconds ago is refused, whatever it says: its groups may have changed.
OLDEST = 3600
#: Seconds for which the provider's keys hold; and between two questions for a key that is not among them.
_KEYS_HOLD, _KEYS_AGAIN = 600, 10
#: Places that need no certificate.
_NEAR = [("http", host) for host in ("127.0.0.1", "::1", "localhost")]
#: Signatures by a private key alone: with a shared secret, anybody who can check a token can also make one.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class RefusedError(Exception):
    """This is nobody whom the directory or the provider knows; the text says why."""


def start(settings: Path) -> list[socket.socket]:
    """Start the process; returns the sockets by which to ask it, each for one question at a time. It ends with this one.

    settings: the key `sign_on` of weir.yaml as JSON.
    """
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(AT_ONCE)]
    theirs = [pair[1].fileno() for pair in pairs]
    program = str(Path(__file__).resolve().parent)
    command = [sys.executable, program, "door", str(settings), *map(str, theirs)]
    subprocess.Popen(command, pass_fds=theirs, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    for _, own in pairs:
        own.close()
    return [pair[0] for pair in pairs]


def main(arguments: list[str]) -> int:
    """Answer until the other ends of the sockets are closed."""
    settings = json.loads(Path(arguments[0]).read_text())
    ask = Provider(settings["oidc"]).checked if settings.get("oidc") else Directory(settings["ldap"]).checked
    threads = [threading.Thread(target=_answer, args=(socket.socket(fileno=int(number)), ask)) for number in arguments[1:]]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return 0


def _answer(here: socket.socket, ask: Any) -> None:
    while message := here.recv(LARGEST):
        asked = json.loads(message)
        try:
            name, groups, subject = ask(asked)
            said = {"name": name, "groups": groups, "subject": subject}
        except RefusedError as error:
            said = {"refused": str(error)}
        except Exception as error:  # whatever keeps the directory or the provider from answering
            print(f"weir-clickhouse: sign-on: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            said = {"down": True}
        answer = json.dumps({"id": asked["id"], **said}).encode()
        try:
            here.send(
                answer if len(answer) <= LARGEST else json.dumps({"id": asked["id"], "refused": "too many groups"}).encode()
            )
        except OSError:
            return


class Directory:
    """An LDAP directory."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._password = Path(settings["bind_password_file"]).read_text().strip()

    def checked(self, asked: Mapping[str, str]) -> tuple[str, list[str], str]:
        """The name and groups of the person with this name and password, and an empty subject. Raises RefusedError, or the
        library's own errors."""
        import ldap
        import ldap.filter

        from .shared import weir_lockout

        name, password = asked.get("name", ""), asked.get("password", "")
        # With an empty password, a directory lets anybody bind, as nobody.
        if not name or not password:
            raise RefusedError("no name, or no password")
        own = self._settings
        connection = ldap.initialize(own["server"])
        try:
            for option, value in (
                (ldap.OPT_REFERRALS, 0),
                (ldap.OPT_NETWORK_TIMEOUT, PATIENCE),
                (ldap.OPT_TIMEOUT, PATIENCE),
                (ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND),
                *([(ldap.OPT_X_TLS_CACERTFILE, own["authority"])] if own["authority"] else []),
                (ldap.OPT_X_TLS_NEWCTX, 0),
            ):
                connection.set_option(option, value)
            if own["start_tls"]:
                connection.start_tls_s()
            connection.simple_bind_s(own["bind_user"], self._password)
            uid, group = own["uid_field"], own["group_field"]
            wanted = f"({uid}={ldap.filter.escape_filter_chars(name)})"
            wanted = f"(&{own['filter']}{wanted})" if own["filter"] else wanted
            found = [
                (place, attributes)
                for place, attributes in connection.search_s(own["search"], ldap.SCOPE_SUBTREE, wanted, [uid, group])
                if place
            ]
            if len(found) != 1:
                raise RefusedError("nobody has this name, or several have")
            ((place, attributes),) = found
            # The directory may know more spellings of a name than the lockout, which would then count each as a name of its own.
            if weir_lockout.spelled(attributes[uid][0].decode()) != weir_lockout.spelled(name):
                raise RefusedError("nobody has this name in this spelling")
            try:
                connection.simple_bind_s(place, password)
            except (ldap.INVALID_CREDENTIALS, ldap.INAPPROPRIATE_AUTH, ldap.UNWILLING_TO_PERFORM):
                raise RefusedError("the password is wrong") from None
        finally:
            connection.unbind_s()
        # As the directory writes it, not as it was typed.
        return attributes[uid][0].decode(), [one.decode(errors="replace") for one in attributes.get(group, [])], ""


class Provider:
    """An OpenID Connect provider, whose tokens prove themselves by its keys."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._keys: dict[str, Any] = {}
        self._asked_at = float("-inf")
        self._lock = threading.Lock()

    def checked(self, asked: Mapping[str, str]) -> tuple[str, list[str], str]:
        """The name, the groups and the subject that a token names: one that the provider made for Weir, not long ago. Raises
        RefusedError, or what keeps the provider's keys away."""
        import jwt

        from .shared import weir_groups

        own = self._settings
        try:
            key = self._key(str(jwt.get_unverified_header(asked.get("token", "")).get("kid", "")))
            said = jwt.decode(
                asked["token"],
                key,
                algorithms=_ALGORITHMS,
                audience=own["client_id"],
                issuer=own["issuer"],
                leeway=10,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, KeyError) as error:
            raise RefusedError(f"the token proves nothing: {error}") from None
        if "events" in said:
            raise RefusedError("the token ends a session")
        if isinstance(said["aud"], list) and len(said["aud"]) > 1 and said.get("azp") != own["client_id"]:
            raise RefusedError("the token was made for another client")
        if time.time() - said["iat"] > OLDEST:
            raise RefusedError("the token is older than an hour")
        name = said.get(own["username_claim"])
        if not isinstance(name, str) or not name:
            raise RefusedError(f"the token has no claim {own['username_claim']}")
        return name, weir_groups.claimed(said.get(own["groups_claim"])), str(said["sub"])

    def _key(self, number: str) -> Any:
        """The provider's key of that number. Whoever invents numbers asks the provider no more often than every ten seconds."""
        import jwt

        with self._lock:
            age = time.monotonic() - self._asked_at
            if age > _KEYS_HOLD or (number not in self._keys and age > _KEYS_AGAIN):
                self._asked_at = time.monotonic()
                place = _fetched(self._settings["issuer"].rstrip("/") + "/.well-known/openid-configuration")["jwks_uri"]
                keys = jwt.PyJWKSet.from_dict(_fetched(place)).keys
                self._keys = {str(key.key_id or ""): key for key in keys if key.public_key_use in (None, "sig")}
            if number not in self._keys:
                raise RefusedError("the provider has no such key")
            return self._keys[number]


def _fetched(url: str) -> Any:
    """A JSON document of the provider, of 1 MiB at most."""
    place = urllib.parse.urlsplit(url)
    if place.scheme != "https" and (place.scheme, place.hostname) not in _NEAR:
        raise ValueError(f"not an address that proves itself: {url[:200]}")
    with _OPENER.open(url, timeout=PATIENCE) as answer:
        return json.loads(answer.read(1 << 20))


class _Stay(urllib.request.HTTPRedirectHandler):
    """No answer leads elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""
        return


_OPENER = urllib.request.build_opener(_Stay)
