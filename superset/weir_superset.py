#!/usr/bin/env python3
"""Prepare and run Superset for Weir: `init`, then `serve`; `customer` creates a customer's user, `user` others. See `--help`."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sqlite3
import sys
import time
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import weir_assets
import weir_people
from weir_secrets import secret

FOLDER = Path(__file__).resolve().parent
ADMIN = "admin"
STAMP = "prepared"

EXAMPLES = """\
environment:
  WEIR_SUPERSET_HOME            folder of the state: Superset's own database and caches
  WEIR_SUPERSET_SECRET_KEY      keep it: it encrypts sessions and stored secrets
  WEIR_SUPERSET_ADMIN_PASSWORD  password of the user admin
  WEIR_SUPERSET_PUBLIC          no: viewers must log in; by default they need not
  WEIR_SUPERSET_USER_PASSWORD   password of the user that `customer` or `user add` makes
  WEIR_SUPERSET_URL             address by which people reach the pages; with https, cookies travel by TLS alone
  WEIR_SUPERSET_PROXY_KEY       what a reverse proxy sends as X-Weir-Proxy, so that its X-Forwarded-For is believed
  WEIR_SUPERSET_SIGN_ON         the key sign_on of weir.yaml, as JSON
  WEIR_SUPERSET_PORT            port, 8088 by default
  WEIR_SUPERSET_LISTEN          address, 127.0.0.1 by default
  WEIR_CLICKHOUSE_HOST, WEIR_CLICKHOUSE_PORT, WEIR_PASSWORD_DASHBOARD   the store; user dashboard
  WEIR_CLICKHOUSE_TLS           yes: the store is asked by https; WEIR_CLICKHOUSE_AUTHORITY names the authority's file
A secret may stand in a file instead, which the variable with _FILE at its end names: WEIR_SUPERSET_SECRET_KEY_FILE.

examples:
  weir_superset.py init          make or renew everything; done at once when nothing changed
  weir_superset.py serve         run in the foreground; well when GET /health answers OK
  weir_superset.py customer 'Fjord Power' ola     ola sees only the dashboard Customer, and only Fjord Power's rows
  weir_superset.py user add kari --role admin
"""


def main() -> int:
    """The command. Exit status 2, with one line, if the environment lacks a variable."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("init", help="prepare the state")
    commands.add_parser("serve", help="run the server")
    of_customer = commands.add_parser(
        "customer", help="create a user who sees only one customer's rows, or renew its password"
    )
    of_customer.add_argument("name", help="name of the customer, as `weir prefixes list` shows it")
    of_customer.add_argument(
        "user", nargs="?", help="name of the user; without it, only the role of the customer's users"
    )
    users = commands.add_parser("user", help="accounts of Superset").add_subparsers(dest="action", required=True)
    for action, text in (
        ("add", "make an account, or set its password"),
        ("remove", "remove an account, and end its sessions"),
        ("unlock", "forget an account's failed logins"),
    ):
        one = users.add_parser(action, help=text)
        one.add_argument("name")
        if action == "add":
            one.add_argument("--role", choices=[*weir_people.ROLES], default="viewer")
    users.add_parser("list", help="all accounts, as JSON")
    given = parser.parse_args()
    command = given.command
    needed = ["WEIR_SUPERSET_HOME", "WEIR_SUPERSET_SECRET_KEY"]
    needed += ["WEIR_SUPERSET_ADMIN_PASSWORD"] if command == "init" else []
    makes = (command == "customer" and given.user) or (command == "user" and given.action == "add")
    needed += ["WEIR_SUPERSET_USER_PASSWORD"] if makes else []
    missing = [name for name in needed if not os.environ.get(name) and not os.environ.get(f"{name}_FILE")]
    if missing:
        print(f"weir_superset: set {', '.join(missing)} in the environment; see --help", file=sys.stderr)
        return 2
    home = Path(os.environ["WEIR_SUPERSET_HOME"]).resolve()
    home.mkdir(parents=True, exist_ok=True)
    os.environ["SUPERSET_HOME"] = str(home)
    os.environ["SUPERSET_CONFIG_PATH"] = str(FOLDER / "superset_config.py")
    os.environ["FLASK_APP"] = "superset.app:create_app()"
    if command == "serve":
        serve()
    if command == "customer":
        return customer(home, given.name, given.user)
    if command == "user":
        return user(home, given)
    return init(home)


def fingerprint() -> str:
    """Fingerprint of the prepared state: the sources, the libraries, the key and the administrator's password."""
    digest = hashlib.sha256()
    sources = [FOLDER / "requirements.txt", *sorted(FOLDER.glob("*.py"))]
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for name, text in sorted(weir_assets.bundle().items()):
        digest.update(name.encode() + b"\0" + text.encode() + b"\0")
    for name in ("WEIR_SUPERSET_SECRET_KEY", "WEIR_SUPERSET_ADMIN_PASSWORD", "WEIR_SUPERSET_PUBLIC"):
        digest.update(secret(name).encode() + b"\0")
    return digest.hexdigest()


def init(home: Path) -> int:
    """Bring Superset's database, roles and dashboards up to date. Idempotent: after an interruption, run it again."""
    stamp, wanted = home / STAMP, fingerprint()
    if stamp.exists() and stamp.read_text() == wanted and (home / "superset.db").exists():
        print("superset: nothing changed")
        return 0
    stamp.unlink(missing_ok=True)
    began = time.monotonic()

    def done(what: str) -> None:
        print(f"superset: {what} ({time.monotonic() - began:.1f} s)", flush=True)

    warnings.simplefilter("ignore")
    before = before_upgrade(home)
    from superset.app import create_app

    app = create_app()
    with app.app_context():
        from flask_migrate import upgrade

        upgrade(directory=str(Path(sys.modules["superset"].__file__ or "").parent / "migrations"))
        before.unlink()
        done("database upgraded")
        from superset.extensions import appbuilder, security_manager

        appbuilder.add_permissions(update_perms=True)
        security_manager.sync_role_definitions()
        _administrator(secret("WEIR_SUPERSET_ADMIN_PASSWORD"))
        done("roles made")
        _import()
        done("dashboards imported")
        _grant_viewers()
    stamp.write_text(wanted)
    done("ready")
    return 0


def before_upgrade(home: Path) -> Path:
    """Keep a copy of the database until its upgrade is done, and return its path. Where an upgrade was interrupted, the copy takes
    the database's place first: SQLite does not take back the half of a migration that was done.
    """
    database, kept, new = (home / f"superset.db{end}" for end in ("", ".before", ".new"))
    if kept.exists():
        for end in ("-journal", "-wal", "-shm"):
            (home / f"superset.db{end}").unlink(missing_ok=True)
        kept.replace(database)
    new.unlink(missing_ok=True)
    new.touch()
    # Not a copy of the file: a journal may belong to it.
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(new)) as copy:
        source.backup(copy)
    new.replace(kept)
    return kept


def _administrator(password: str) -> None:
    from superset.extensions import security_manager

    user = security_manager.find_user(ADMIN)
    if user is None:
        role = security_manager.find_role("Admin")
        security_manager.add_user(ADMIN, "Weir", "Administrator", "admin@weir.invalid", role, password)
    else:
        security_manager.reset_password(user.id, password)


def _import() -> None:
    """Import the assets, and remove those of an earlier release that this one no longer has."""
    import yaml
    from superset import db
    from superset.commands.importers.v1.assets import ImportAssetsCommand
    from superset.connectors.sqla.models import SqlaTable
    from superset.extensions import security_manager
    from superset.models.core import Database
    from superset.models.dashboard import Dashboard
    from superset.models.slice import Slice
    from superset.utils.core import override_user

    contents = weir_assets.bundle()
    with override_user(security_manager.find_user(ADMIN)):
        ImportAssetsCommand(contents).run()
    ours = {str(yaml.safe_load(text).get("uuid")) for text in contents.values()}
    database = db.session.query(Database).filter_by(uuid=weir_assets.uuid_of("databases", weir_assets.DATABASE)).one()
    for model in (Dashboard, Slice):
        for thing in db.session.query(model).filter_by(is_managed_externally=True):
            if str(thing.uuid) not in ours:
                db.session.delete(thing)
    for dataset in db.session.query(SqlaTable).filter_by(database_id=database.id, is_managed_externally=True):
        if str(dataset.uuid) not in ours:
            db.session.delete(dataset)
    db.session.commit()


def _grant_viewers() -> None:
    """Let the role Viewer read the dashboards and nothing else of the store; so may visitors without a login, unless
    public access is off.
    """
    from flask import current_app
    from superset import db
    from superset.extensions import security_manager

    _viewer_role(
        "Viewer", [path.stem for path in (weir_assets.FOLDER / "datasets" / weir_assets.DATABASE).glob("*.yaml")]
    )
    viewer, public = (security_manager.find_role(name) for name in ("Viewer", "Public"))
    public.permissions = list(viewer.permissions) if current_app.config["WEIR_PUBLIC"] else []
    db.session.commit()


def _viewer_role(name: str, datasets: list[str]) -> Any:
    """A role that reads dashboards of these datasets, and changes nothing. Creates or updates it."""
    from superset import db
    from superset.connectors.sqla.models import SqlaTable
    from superset.extensions import security_manager

    role = security_manager.add_role(name)
    # The permissions that Superset grants to readers of a public dashboard, except those that query past charts.
    wanted = security_manager.PUBLIC_ROLE_PERMISSIONS - {("can_query", "Api"), ("can_external_metadata", "Datasource")}
    read = [security_manager.find_permission_view_menu(permission, view) for permission, view in sorted(wanted)]
    ours = [weir_assets.uuid_of("datasets", dataset) for dataset in datasets]
    read += [
        security_manager.add_permission_view_menu("datasource_access", dataset.get_perm())
        for dataset in db.session.query(SqlaTable).filter(SqlaTable.uuid.in_(ours))
    ]
    role.permissions = [one for one in read if one is not None]
    return role


def user(home: Path, given: argparse.Namespace) -> int:
    """Make, remove, unlock or list accounts."""
    if not (home / STAMP).exists():
        return weir_people.fail("nothing is prepared yet: run init first")
    warnings.simplefilter("ignore")
    from superset.app import create_app

    with create_app().app_context():
        if given.action == "add":
            return weir_people.fail(weir_people.add(given.name, given.role, secret("WEIR_SUPERSET_USER_PASSWORD")))
        if given.action == "remove":
            return weir_people.fail(weir_people.remove(given.name, kept=ADMIN))
        if given.action == "unlock":
            weir_people.lockout().forget(given.name, known=False)
            return 0
        print(json.dumps(weir_people.listed()))
    return 0


def customer(home: Path, name: str, user: str | None) -> int:
    """Give a customer access: a role with a row-level rule, and a user, if one is named, with only this role."""
    if not (home / STAMP).exists():
        print("weir_superset: nothing is prepared yet: run init first", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")
    from superset.app import create_app

    with create_app().app_context():
        from superset import db
        from superset.connectors.sqla.models import RowLevelSecurityFilter, SqlaTable
        from superset.extensions import security_manager
        from superset.models.core import Database

        store = db.session.query(Database).filter_by(uuid=weir_assets.uuid_of("databases", weir_assets.DATABASE)).one()
        known = {
            str(row.customer): int(row.customer_id)
            for row in store.get_df("SELECT customer, customer_id FROM v_customers ORDER BY customer").itertuples()
        }
        if name not in known:
            there = ", ".join(f"'{one}'" for one in known) or "none: weir prefixes set declares them"
            print(f"weir_superset: no customer is named '{name}'; there are {there}", file=sys.stderr)
            return 2
        role_name = weir_assets.CUSTOMER_ROLE + name
        role = _viewer_role(role_name, list(weir_assets.CUSTOMER_DATASETS))
        # Rules filter by number: a name would need quoting, and may change.
        rule = (
            db.session.query(RowLevelSecurityFilter).filter_by(name=role_name).one_or_none() or RowLevelSecurityFilter()
        )
        rule.name, rule.filter_type, rule.clause = role_name, "Regular", f"customer_id = {known[name]}"
        rule.description = f"Rows of {name} alone"
        rule.roles = [role]
        ours = [weir_assets.uuid_of("datasets", one) for one in weir_assets.CUSTOMER_DATASETS]
        rule.tables = db.session.query(SqlaTable).filter(SqlaTable.uuid.in_(ours)).all()
        db.session.add(rule)
        if user is None:
            db.session.commit()
            print(f"superset: the role of {name}'s users is ready")
            return 0
        password = secret("WEIR_SUPERSET_USER_PASSWORD")
        there_already = security_manager.find_user(user)
        if there_already is None:
            if not security_manager.add_user(user, user, name, f"{user}@weir.invalid", role, password):
                print(f"weir_superset: '{user}' was not made: another account has its address of mail", file=sys.stderr)
                return 2
        elif [one.name for one in there_already.roles] != [role_name]:
            print(f"weir_superset: the user '{user}' already exists, with another role", file=sys.stderr)
            db.session.rollback()
            return 2
        else:
            security_manager.reset_password(there_already.id, password)
        db.session.commit()
    print(f"superset: the user {user} sees only the rows of {name}")
    return 0


def serve() -> None:
    """Become gunicorn: processes that answer on many threads. Does not return.

    Python needs a tenth of a second of CPU for each chart, and the threads of one process share a single core. With a
    second process, for another 0.3 GB, a page of twenty charts takes little more than half the time. There is no pid
    file: one left by a kill would block the next start.
    """
    listen = f"{os.environ.get('WEIR_SUPERSET_LISTEN', '127.0.0.1')}:{os.environ.get('WEIR_SUPERSET_PORT', '8088')}"
    arguments = [
        "--worker-class",
        "gthread",
        "--workers",
        str(min(2, os.cpu_count() or 1)),
        "--threads",
        "8",
        "--timeout",
        "120",
        "--graceful-timeout",
        "5",
    ]
    arguments += ["--no-control-socket", "--bind", listen, "superset.app:create_app()"]
    os.execv(sys.executable, [sys.executable, "-m", "gunicorn", *arguments])


if __name__ == "__main__":
    sys.exit(main())
