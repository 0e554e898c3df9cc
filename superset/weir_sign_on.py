"""Single sign-on: people whose accounts are in an LDAP directory or at an OpenID Connect provider.

WEIR_SUPERSET_SIGN_ON holds the key `sign_on` of weir.yaml as JSON; the secrets are in files that it names. The
groups of a person give the roles, at every login and at every check: who has none is refused. Sessions are checked
against the directory every `recheck_s` seconds, when they are used. Who is gone, disabled or in no listed group any more
is logged out then, and everybody is if the directory does not answer for `grace_s`.

Accounts of Superset itself stay: the name of one is never signed on from outside.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flask_appbuilder.const import AUTH_DB, AUTH_LDAP, AUTH_OAUTH
from superset.security import SupersetSecurityManager

import weir_assets
import weir_groups
import weir_lockout
from weir_secrets import secret

_LOG = logging.getLogger("weir.sign_on")
#: Seconds that a directory or a provider has to answer.
PATIENCE = 5
PROVIDER = "oidc"

SETTINGS: dict[str, Any] = json.loads(secret("WEIR_SUPERSET_SIGN_ON") or "{}")
LDAP: dict[str, Any] = SETTINGS.get("ldap") or {}
OIDC: dict[str, Any] = SETTINGS.get("oidc") or {}
SOURCE = "ldap" if LDAP else "oidc" if OIDC else ""
_TABLE = """CREATE TABLE IF NOT EXISTS people (
    name TEXT PRIMARY KEY, source TEXT NOT NULL, subject TEXT NOT NULL, token TEXT NOT NULL,
    checked REAL NOT NULL, good REAL NOT NULL, gone INTEGER NOT NULL) WITHOUT ROWID"""


class GoneError(Exception):
    """The directory no longer lets this person in; the text says why."""


def _read(path: str) -> str:
    return Path(path).read_text().strip() if path else ""


def configuration() -> dict[str, Any]:
    """Superset's settings for signing on."""
    found: dict[str, Any] = {"CUSTOM_SECURITY_MANAGER": People, "AUTH_TYPE": AUTH_DB}
    if SOURCE:
        # The mapping itself is roles_of(); a mapping that is not empty makes Flask-AppBuilder ask for the groups.
        found |= {"AUTH_ROLES_SYNC_AT_LOGIN": True, "AUTH_ROLES_MAPPING": {"-": []}}
    if LDAP:
        found |= {
            "AUTH_TYPE": AUTH_LDAP,
            "AUTH_LDAP_SERVER": LDAP["server"],
            "AUTH_LDAP_USE_TLS": LDAP["start_tls"],
            "AUTH_LDAP_TLS_DEMAND": True,
            "AUTH_LDAP_TLS_CACERTFILE": LDAP["authority"],
            "AUTH_LDAP_SEARCH": LDAP["search"],
            "AUTH_LDAP_SEARCH_FILTER": LDAP["filter"],
            "AUTH_LDAP_BIND_USER": LDAP["bind_user"],
            "AUTH_LDAP_BIND_PASSWORD": _read(LDAP["bind_password_file"]),
            "AUTH_LDAP_UID_FIELD": LDAP["uid_field"],
            "AUTH_LDAP_GROUP_FIELD": LDAP["group_field"],
            # No attribute: Superset then makes an address of the name.
            "AUTH_LDAP_EMAIL_FIELD": "weirNoMail",
        }
        import ldap

        ldap.set_option(ldap.OPT_NETWORK_TIMEOUT, PATIENCE)
        ldap.set_option(ldap.OPT_TIMEOUT, PATIENCE)
    if OIDC:
        remote = {
            "client_id": OIDC["client_id"],
            "client_secret": _read(OIDC["client_secret_file"]),
            "server_metadata_url": OIDC["issuer"].rstrip("/") + "/.well-known/openid-configuration",
            "client_kwargs": {"scope": OIDC["scope"], "timeout": PATIENCE, "code_challenge_method": "S256"},
        }
        provider = {"name": PROVIDER, "icon": "fa-key", "token_key": "access_token", "remote_app": remote}
        found |= {"AUTH_TYPE": AUTH_OAUTH, "OAUTH_PROVIDERS": [provider]}
    return found


def roles_of(groups: Iterable[str]) -> list[str]:
    """Names of the roles that these groups give."""
    plain, customers = weir_groups.given(SETTINGS, groups)
    named = [title for role, title in (("admin", "Admin"), ("viewer", "Viewer")) if role in plain]
    return [*named, *(weir_assets.CUSTOMER_ROLE + name for name in customers)]


class People(SupersetSecurityManager):  # type: ignore[misc]
    """Logins of accounts here and elsewhere."""

    @property
    def auth_user_registration(self) -> bool:
        """Whoever may sign on gets an account. The setting of this name would also offer a form to register."""
        return bool(SOURCE)

    @property
    def auth_user_registration_role(self) -> str:
        """None but those of the groups."""
        return ""

    def auth_user_ldap(self, username: str, password: str) -> Any:
        """The user if the directory, or an account of Superset itself, has this password."""
        if not username or not password:
            return None
        user = self.find_user(username=username)
        if user and not is_foreign(user.username):
            return self.auth_user_db(username, password)
        # As the directory writes it: in another spelling it would be a second account.
        username = self._spelled(username)
        user = self.find_user(username=username) if username else None
        if not username or (user and not is_foreign(user.username)):
            return None
        user = super().auth_user_ldap(username, password)
        return self._let_in(user, "ldap", user.username if user else "", {}) if user else None

    def auth_user_db(self, username: str, password: str) -> Any:
        """The user if the password is right: of accounts of Superset itself alone."""
        user = super().auth_user_db(username, password)
        return user if user and not is_foreign(user.username) else None

    def _ldap_calculate_user_roles(self, user_attributes: dict[str, Any]) -> list[Any]:
        return self._found(roles_of(self.ldap_extract_list(user_attributes, self.auth_ldap_group_field)))

    def oauth_user_info(self, provider: str, response: dict[str, Any]) -> dict[str, Any]:
        """What the provider says of a person. Its library has checked the signature, the audience and the nonce."""
        remote = self.oauth_remotes[provider]
        said = {**(response.get("userinfo") or {}), **remote.userinfo(token=response)}
        if not response.get("userinfo") or said.get("sub") != response["userinfo"].get("sub"):
            raise GoneError("no identity token, or one of somebody else")
        return {**_described(said), "token": response}

    def auth_user_oauth(self, userinfo: dict[str, Any]) -> Any:
        """The user whom the provider sends."""
        name, subject = str(userinfo.get("username") or ""), str(userinfo.get("sub") or "")
        known = row_of(name)
        user = self.find_user(username=name) if name else None
        if not subject or (user and not known) or (known and known["subject"] != subject):
            _LOG.warning("nobody is signed on as %r: the name is another account's", name[:80])
            return None
        user = super().auth_user_oauth(userinfo)
        return self._let_in(user, "oidc", subject, userinfo["token"]) if user else None

    def _oauth_calculate_user_roles(self, userinfo: dict[str, Any]) -> list[Any]:
        return self._found(roles_of(userinfo["role_keys"]))

    def _found(self, names: list[str]) -> list[Any]:
        return [role for name in names if (role := self.find_role(name))]

    def _let_in(self, user: Any, source: str, subject: str, token: dict[str, Any]) -> Any:
        """Note where the account comes from; None if its groups give no role."""
        now, kept = time.time(), {key: token.get(key) for key in ("access_token", "refresh_token", "token_type")}
        with _people() as table:
            row = (user.username, source, subject, json.dumps(kept), now, now, int(not user.roles))
            table.execute("REPLACE INTO people VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        if not user.roles:
            _LOG.warning("%r may not sign on: its groups give no role", user.username)
            return None
        return user

    def roles_now(self, row: dict[str, Any]) -> list[str]:
        """The roles that the directory gives a person now.

        Raises GoneError, and any other exception if the directory does not answer.
        """
        return self._roles_at_provider(row) if row["source"] == "oidc" else self._roles_in_directory(row["name"])

    def _spelled(self, name: str) -> str:
        """The name as the directory writes it; empty if nobody has it, or the directory does not answer."""
        import ldap
        from ldap.filter import escape_filter_chars

        wanted = f"({LDAP['uid_field']}={escape_filter_chars(name)})"
        wanted = f"(&{LDAP['filter']}{wanted})" if LDAP["filter"] else wanted
        try:
            with self._directory() as connection:
                rows = connection.search_s(LDAP["search"], ldap.SCOPE_SUBTREE, wanted, [LDAP["uid_field"]])
        except ldap.LDAPError as error:
            _LOG.warning("the directory does not answer: %s", type(error).__name__)
            return ""
        found = [attributes for place, attributes in rows if place]
        own = str(found[0][LDAP["uid_field"]][0].decode()) if len(found) == 1 else ""
        # The directory may know more spellings of a name than the lockout, which would then count each as a name of its own.
        return own if weir_lockout.spelled(own) == weir_lockout.spelled(name) else ""

    @contextmanager
    def _directory(self) -> Iterator[Any]:
        """A connection to the directory as the account that may read it."""
        import ldap

        connection = ldap.initialize(self.auth_ldap_server)
        try:
            connection.set_option(ldap.OPT_REFERRALS, 0)
            if LDAP["authority"]:
                ldap.set_option(ldap.OPT_X_TLS_CACERTFILE, LDAP["authority"])
            ldap.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
            ldap.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
            if self.auth_ldap_use_tls:
                connection.start_tls_s()
            connection.simple_bind_s(self.auth_ldap_bind_user, self.auth_ldap_bind_password)
            yield connection
        finally:
            connection.unbind_s()

    def _roles_in_directory(self, name: str) -> list[str]:
        import ldap

        with self._directory() as connection:
            found, attributes = self._search_ldap(ldap, connection, name)
        if found is None:
            raise GoneError("the directory has no such person")
        return roles_of(self.ldap_extract_list(attributes, self.auth_ldap_group_field))

    def _roles_at_provider(self, row: dict[str, Any]) -> list[str]:
        import requests

        remote, token = self.oauth_remotes[PROVIDER], json.loads(row["token"])
        metadata = remote.load_server_metadata()

        def ask() -> Any:
            head = {"Authorization": f"Bearer {token['access_token']}"}
            return requests.get(metadata["userinfo_endpoint"], headers=head, timeout=PATIENCE, allow_redirects=False)

        answer = ask()
        if answer.status_code in (400, 401, 403) and token.get("refresh_token"):
            asked = {"grant_type": "refresh_token", "refresh_token": token["refresh_token"]}
            login = (OIDC["client_id"], _read(OIDC["client_secret_file"]))
            renewed = requests.post(metadata["token_endpoint"], data=asked, auth=login, timeout=PATIENCE)
            if renewed.status_code in (400, 401, 403):
                raise GoneError("the provider does not renew the session")
            renewed.raise_for_status()
            token |= {key: value for key, value in renewed.json().items() if key in token}
            with _people() as table:
                table.execute("UPDATE people SET token = ? WHERE name = ?", (json.dumps(token), row["name"]))
            answer = ask()
        if answer.status_code in (400, 401, 403, 404):
            raise GoneError("the provider no longer answers for this session")
        answer.raise_for_status()
        said = answer.json()
        if said.get("sub") != row["subject"]:
            raise GoneError("the provider names somebody else")
        return roles_of(_described(said)["role_keys"])


def _described(said: dict[str, Any]) -> dict[str, Any]:
    return {
        "sub": said.get("sub"),
        "username": said.get(OIDC["username_claim"]),
        # Superset wants each address once: what people say of themselves would block another's name.
        "email": f"{said.get(OIDC['username_claim'])}@{PROVIDER}.invalid",
        "first_name": said.get("given_name") or "",
        "last_name": said.get("family_name") or "",
        "role_keys": weir_groups.claimed(said.get(OIDC["groups_claim"])),
    }


# ---- who comes from outside ----


@contextmanager
def _people() -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(Path(os.environ["WEIR_SUPERSET_HOME"]) / "people.db", timeout=10, isolation_level=None)
    try:
        database.row_factory = sqlite3.Row
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(_TABLE)
        yield database
    finally:
        database.close()


def row_of(name: str) -> dict[str, Any] | None:
    """What is noted of an account from outside; None for one of Superset itself."""
    with _people() as table:
        row = table.execute("SELECT * FROM people WHERE name = ?", (name,)).fetchone()
        return dict(row) if row else None


def is_foreign(name: str) -> bool:
    """Whether the account comes from outside."""
    return row_of(name) is not None


def forget(name: str) -> None:
    """Remove what is noted of an account."""
    with _people() as table:
        table.execute("DELETE FROM people WHERE name = ?", (name,))


def still_welcome(manager: Any, user: Any) -> bool:
    """Whether a session may go on; asks the directory if that was not done for `recheck_s` seconds, and gives the user the
    roles that it finds."""
    row = row_of(user.username)
    if row is None:
        return True
    if row["gone"] or row["source"] != SOURCE:
        return False
    now = time.time()
    if now - row["checked"] < SETTINGS["recheck_s"]:
        return True
    with _people() as table:
        # One request asks, while the others of the page go on.
        mine = table.execute(
            "UPDATE people SET checked = ? WHERE name = ? AND checked = ?", (now, row["name"], row["checked"])
        ).rowcount
    if not mine:
        return True
    try:
        roles = manager._found(manager.roles_now(row))
        if not roles:
            raise GoneError("its groups give no role")
    except GoneError as error:
        _LOG.warning("%r is logged out: %s", user.username, error)
        with _people() as table:
            table.execute("UPDATE people SET gone = 1, token = '{}' WHERE name = ?", (row["name"],))
        return False
    except Exception as error:  # whatever keeps the directory from answering
        _LOG.warning("the directory does not answer about %r: %s", user.username, type(error).__name__)
        return bool(now - row["good"] < SETTINGS["grace_s"])
    if set(roles) != set(user.roles):
        user.roles = roles
        manager.update_user(user)
    with _people() as table:
        table.execute("UPDATE people SET good = ? WHERE name = ?", (now, row["name"]))
    return True
