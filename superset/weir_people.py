"""People at the door: the lockout before a login, the check of sessions after it, and the accounts of Superset itself."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import weir_assets
from weir_lockout import Lockout

#: Roles that `user add` gives, by their words on the command line.
ROLES = {"viewer": "Viewer", "admin": "Admin"}
#: Where accounts of Superset itself log in if everybody else comes from an OpenID Connect provider.
LOCAL_LOGIN = "/login/local"
#: Counters, for Prometheus on this machine; the shipped proxy lets nobody through to them.
METRICS = "/weir/metrics"
_LOGINS = ("/login/", LOCAL_LOGIN)
_FORM = """<!doctype html><title>Weir</title><style>body{{font-family:sans-serif;margin:4em}}input{{display:block;margin:.5em 0}}</style>
<h1>Weir</h1><p>{said}</p><form method=post><input name=username placeholder=Name autofocus autocomplete=username>
<input name=password type=password placeholder=Password autocomplete=current-password>
<input type=hidden name=csrf_token value="{token}"><button>Log in</button></form>"""


def lockout() -> Lockout:
    """The counts of failed logins."""
    return Lockout(Path(os.environ["WEIR_SUPERSET_HOME"]) / "lockout.db")


def attach(app: Any, front_page: str) -> None:
    """Make the application count failed logins, and end the sessions of those whom their directory no longer lets in."""
    from flask import g, redirect, request, session
    from flask_login import current_user, logout_user, user_logged_in
    from superset.extensions import security_manager

    import weir_sign_on

    counts = lockout()

    @app.before_request  # type: ignore[untyped-decorator]
    def wait_first() -> Any:
        if request.method != "POST" or request.path not in _LOGINS:
            return None
        if current_user.is_authenticated:
            # Superset would check no password, and this would count as a login.
            return redirect("/")
        g.weir_account = _account(security_manager, request.form.get("username", ""))
        wait = counts.attempt(g.weir_account, request.remote_addr or "")
        if not wait:
            g.weir_attempt = True
            return None
        seconds = str(int(wait) + 1)
        said = f"Too many failed logins. Try again in {seconds} s.\n"
        return said, 429, {"Retry-After": seconds, "Content-Type": "text/plain; charset=utf-8"}

    @app.after_request  # type: ignore[untyped-decorator]
    def count(answer: Any) -> Any:
        if g.get("weir_attempt") and current_user.is_authenticated and current_user.username == g.weir_account:
            counts.succeeded(g.weir_account, request.remote_addr or "")
        return answer

    def begun(_app: Any, user: Any) -> None:
        session["weir_since"] = time.time()
        session["weir_account"] = _identity(user)

    user_logged_in.connect(begun, app, weak=False)

    @app.before_request  # type: ignore[untyped-decorator]
    def still_welcome() -> Any:
        if not current_user.is_authenticated or request.path.startswith("/static/"):
            return None
        # Flask itself counts from the session's last change on.
        old = time.time() - session.get("weir_since", 0) > app.config["PERMANENT_SESSION_LIFETIME"].total_seconds()
        other = session.get("weir_account") != _identity(current_user)
        if old or other or not weir_sign_on.still_welcome(security_manager, current_user._get_current_object()):
            counts.count("old" if old else "gone")
            logout_user()
            session.clear()
            return (
                ({"message": "Your session has ended"}, 401)
                if request.path.startswith("/api/")
                else redirect("/login/")
            )
        return None

    app.add_url_rule(METRICS, "weir_metrics", lambda: _metrics(counts))
    if weir_sign_on.OIDC:
        app.add_url_rule(
            LOCAL_LOGIN, "weir_local_login", _local_login(security_manager, front_page), methods=["GET", "POST"]
        )


def _metrics(counts: Lockout) -> tuple[str, int, dict[str, str]]:
    """The counters of all processes, for Prometheus."""
    lines = [
        "# HELP weir_superset_refused_total Requests that were refused, by cause.",
        "# TYPE weir_superset_refused_total counter",
    ]
    lines += [
        f'weir_superset_refused_total{{cause="{cause}"}} {count}' for cause, count in sorted(counts.refused().items())
    ]
    return "\n".join(lines) + "\n", 200, {"Content-Type": "text/plain; version=0.0.4"}


def _identity(user: Any) -> str:
    """What tells this account from a later one, to which the database may give the same number, and from itself with another
    password."""
    password = hashlib.sha256(str(user.password).encode()).hexdigest()
    return f"{user.id} {user.username} {user.created_on} {password[:32]}"


def _account(manager: Any, name: str) -> str:
    """The account that a name or an address of mail means: the same for both."""
    name = name.strip()[:256]
    found = (manager.find_user(username=name) or manager.find_user(email=name)) if name else None
    return str(found.username) if found else name


def _local_login(manager: Any, front_page: str) -> Any:
    def view() -> Any:
        from flask import redirect, request
        from flask_login import login_user
        from flask_wtf.csrf import generate_csrf

        said = ""
        if request.method == "POST":
            user = manager.auth_user_db(request.form.get("username", ""), request.form.get("password", ""))
            if user:
                login_user(user, remember=False)
                return redirect(front_page)
            said = "The name or the password is wrong."
        return _FORM.format(said=said, token=generate_csrf())

    return view


# ---- the commands ----


def add(name: str, role: str, password: str) -> str:
    """Make an account of Superset itself, or give it a new password; returns what is wrong, or nothing."""
    from superset.extensions import security_manager

    import weir_sign_on

    user = security_manager.find_user(name)
    if user is None:
        made = security_manager.add_user(
            name, name, "of Weir", f"{name}@weir.invalid", security_manager.find_role(ROLES[role]), password
        )
        return "" if made else f"'{name}' was not made: another account has its address of mail, {name}@weir.invalid"
    if weir_sign_on.is_foreign(user.username):
        return f"'{name}' signs on from outside: the directory has the password"
    if [one.name for one in user.roles] != [ROLES[role]]:
        return f"the user '{name}' already exists, with another role"
    security_manager.reset_password(user.id, password)
    return ""


def remove(name: str, kept: str) -> str:
    """Remove an account; its sessions end with it. Returns what is wrong, or nothing. `kept`: the one that stays."""
    from superset import db
    from superset.extensions import security_manager

    import weir_sign_on

    user = security_manager.find_user(name)
    if user is None:
        return f"no user is named '{name}'"
    if user.username == kept:
        return f"'{kept}' stays: it is the administrator whom weir itself makes"
    held = user.username
    _release(user)
    db.session.delete(user)
    db.session.commit()
    weir_sign_on.forget(held)
    lockout().forget(held)
    return ""


def _release(user: Any) -> None:
    """Let go of all that refers to the user, who could not be deleted otherwise."""
    from superset import db

    for table in db.metadata.sorted_tables:
        for column in table.columns:
            if any(key.column.table.name == "ab_user" for key in column.foreign_keys):
                here = column == user.id
                if column.nullable and table.name != "ab_user_role":
                    db.session.execute(table.update().where(here).values({column.name: None}))
                else:
                    db.session.execute(table.delete().where(here))
    db.session.expire_all()


def listed() -> list[dict[str, Any]]:
    """All accounts: name, roles, where it comes from, and the last login."""
    from superset import db
    from superset.extensions import security_manager

    import weir_sign_on

    found = []
    for user in db.session.query(security_manager.user_model).order_by("username"):
        row = weir_sign_on.row_of(user.username)
        roles = sorted(role.name.removeprefix(weir_assets.CUSTOMER_ROLE) for role in user.roles)
        last = user.last_login.strftime("%Y-%m-%d %H:%M:%S") if user.last_login else ""
        source = "here" if row is None else row["source"] + (", gone" if row["gone"] else "")
        found.append({"user": user.username, "roles": roles, "source": source, "last_login": last})
    return found


def fail(said: str) -> int:
    """Print what is wrong; the status of the command."""
    if said:
        print(f"weir_superset: {said}", file=sys.stderr)
    return 2 if said else 0
