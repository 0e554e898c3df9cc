#!/usr/bin/env python3
"""Prepare and run Superset for Weir: `init`, then `serve`. `--help` says how."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
import warnings
from pathlib import Path

import weir_assets

FOLDER = Path(__file__).resolve().parent
ADMIN = "admin"
STAMP = "prepared"

EXAMPLES = """\
environment:
  WEIR_SUPERSET_HOME            folder of the state: Superset's own database and caches
  WEIR_SUPERSET_SECRET_KEY      keep it: sessions and stored secrets are encrypted by it
  WEIR_SUPERSET_ADMIN_PASSWORD  password of the user admin; viewers need none
  WEIR_SUPERSET_PORT            port, 8088 by default
  WEIR_SUPERSET_LISTEN          address, 127.0.0.1 by default
  WEIR_CLICKHOUSE_HOST, WEIR_CLICKHOUSE_PORT, WEIR_PASSWORD_DASHBOARD   the store; user dashboard

examples:
  weir_superset.py init          make or renew everything; done at once when nothing changed
  weir_superset.py serve         run in the foreground; well when GET /health answers OK
"""


def main() -> int:
    """The command. Exit status 2, with one line, where the environment lacks something."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["init", "serve"], help="init prepares the state, serve runs the server")
    command = parser.parse_args().command
    needed = ["WEIR_SUPERSET_HOME", "WEIR_SUPERSET_SECRET_KEY"] + (
        ["WEIR_SUPERSET_ADMIN_PASSWORD"] if command == "init" else []
    )
    missing = [name for name in needed if not os.environ.get(name)]
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
    return init(home)


def fingerprint() -> str:
    """What the prepared state was made from: the sources, the libraries, the key and the administrator's password."""
    digest = hashlib.sha256()
    sources = [FOLDER / "requirements.txt", FOLDER / "superset_config.py", FOLDER / "weir_superset.py"]
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for name, text in sorted(weir_assets.bundle().items()):
        digest.update(name.encode() + b"\0" + text.encode() + b"\0")
    for name in ("WEIR_SUPERSET_SECRET_KEY", "WEIR_SUPERSET_ADMIN_PASSWORD"):
        digest.update(os.environ[name].encode() + b"\0")
    return digest.hexdigest()


def init(home: Path) -> int:
    """Bring Superset's database, roles and dashboards up to date. Idempotent; broken off, it is simply run again."""
    stamp, wanted = home / STAMP, fingerprint()
    if stamp.exists() and stamp.read_text() == wanted and (home / "superset.db").exists():
        print("superset: nothing changed")
        return 0
    stamp.unlink(missing_ok=True)
    began = time.monotonic()

    def done(what: str) -> None:
        print(f"superset: {what} ({time.monotonic() - began:.1f} s)", flush=True)

    warnings.simplefilter("ignore")
    from superset.app import create_app

    app = create_app()
    with app.app_context():
        from flask_migrate import upgrade

        upgrade(directory=str(Path(sys.modules["superset"].__file__ or "").parent / "migrations"))
        done("database upgraded")
        from superset.extensions import appbuilder, security_manager

        appbuilder.add_permissions(update_perms=True)
        security_manager.sync_role_definitions()
        _administrator(os.environ["WEIR_SUPERSET_ADMIN_PASSWORD"])
        done("roles made")
        _import()
        done("dashboards imported")
        _grant_viewers()
    stamp.write_text(wanted)
    done("ready")
    return 0


def _administrator(password: str) -> None:
    from superset.extensions import security_manager

    user = security_manager.find_user(ADMIN)
    if user is None:
        role = security_manager.find_role("Admin")
        security_manager.add_user(ADMIN, "Weir", "Administrator", "admin@weir.invalid", role, password)
    else:
        security_manager.reset_password(user.id, password)


def _import() -> None:
    """Import the assets, and remove what an earlier release had brought and this one no longer has."""
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
    """Let whoever comes without a name read the datasets, and nothing else of the store."""
    from superset import db
    from superset.connectors.sqla.models import SqlaTable
    from superset.extensions import security_manager

    public = security_manager.find_role("Public")
    ours = [
        weir_assets.uuid_of("datasets", path.stem)
        for path in (weir_assets.FOLDER / "datasets" / weir_assets.DATABASE).glob("*.yaml")
    ]
    for dataset in db.session.query(SqlaTable).filter(SqlaTable.uuid.in_(ours)):
        security_manager.add_permission_role(
            public, security_manager.add_permission_view_menu("datasource_access", dataset.get_perm())
        )
    db.session.commit()


def serve() -> None:
    """Become gunicorn: one process that answers on many threads. Does not return.

    A second process would cost another 0.3 GB; what a viewer waits for is the store, and threads wait as well.
    There is no file with the process's number: one left by a kill would keep the next start from its port.
    """
    listen = f"{os.environ.get('WEIR_SUPERSET_LISTEN', '127.0.0.1')}:{os.environ.get('WEIR_SUPERSET_PORT', '8088')}"
    arguments = [
        "--worker-class",
        "gthread",
        "--workers",
        "1",
        "--threads",
        "16",
        "--timeout",
        "120",
        "--graceful-timeout",
        "5",
    ]
    arguments += ["--no-control-socket", "--bind", listen, "superset.app:create_app()"]
    os.execv(sys.executable, [sys.executable, "-m", "gunicorn", *arguments])


if __name__ == "__main__":
    sys.exit(main())
