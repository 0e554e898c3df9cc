"""The command line: `python -m weir_clickhouse`, see --help."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import sys
import threading
from pathlib import Path

if not __package__:
    # Run as a directory, `python clickhouse/embedded/weir_clickhouse`: make the package importable by its name.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

_EXAMPLE = """example:
  export WEIR_PASSWORD_ADMIN=a WEIR_PASSWORD_WRITER=w WEIR_PASSWORD_ANALYST=n WEIR_PASSWORD_DASHBOARD=d
  python clickhouse/embedded/weir_clickhouse --data /tmp/weir-data --access clickhouse/access.yaml
  curl 'http://127.0.0.1:8123/?user=analyst&password=n' -d 'SELECT version()'

passwords:
  The server reads the file that WEIR_PASSWORD_<USER>_FILE names, or WEIR_PASSWORD_<USER>, and starts itself again
  without them, and without other variables that look like secrets: what runs later can read nothing from its environment.

commands:
  access-sql FILE   print access.yaml as SQL for a clickhouse-server
  tables-md FOLDER  print a Markdown reference of the tables that a folder of migrations makes
"""


def main(arguments: list[str]) -> int:
    """Run the command; returns the exit status: 0, or 2 with one line on stderr if it cannot start."""
    if {"-h", "--help"} & set(arguments):
        _parser().print_help()
        return 0
    if arguments[:1] == ["access-sql"]:
        return _access_sql(arguments[1:])
    if arguments[:1] == ["tables-md"]:
        return _tables_md(arguments[1:])
    if arguments[:1] == ["door"]:
        from weir_clickhouse import door

        return door.main(arguments[1:])
    options = _parser().parse_args(arguments)
    return _serve(options, _passwords())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m weir_clickhouse",
        description="chDB, ClickHouse's engine, behind ClickHouse's HTTP interface, for one machine.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="directory of the data; only one process can use it"
    )
    parser.add_argument(
        "--listen", default="127.0.0.1:8123", metavar="HOST:PORT", help="default 127.0.0.1:8123; port 0: any free"
    )
    parser.add_argument("--access", type=Path, required=True, metavar="FILE", help="access.yaml: roles and users")
    parser.add_argument(
        "--backups", type=Path, metavar="DIR", help="where BACKUP writes and RESTORE reads; default: `backups` beside the data"
    )
    parser.add_argument("--audit", type=Path, metavar="DIR", help="directory of the audit; default: `audit` in the data")
    parser.add_argument(
        "--sign-on", type=Path, metavar="FILE", help="people of a directory or provider: the key sign_on of weir.yaml as JSON"
    )
    parser.add_argument(
        "--proxy-key", type=Path, metavar="FILE", help="key by which a reverse proxy proves itself, which names its clients"
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="further ClickHouse configuration (XML); the disks in it are writable"
    )
    parser.add_argument("--memory", type=_octets, default=2 << 30, metavar="SIZE", help="limit of the engine's memory (2GiB)")
    parser.add_argument("--max-queries", type=_positive, default=32, metavar="N", help="statements at once (32)")
    parser.add_argument("--max-body", type=_octets, default=16 << 30, metavar="SIZE", help="largest request body (16GiB)")
    parser.add_argument(
        "--stop-timeout",
        type=float,
        default=20.0,
        metavar="S",
        help="seconds that running statements have to end after SIGTERM (20)",
    )
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _octets(text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([KMGT]?)(i?B)?", text, re.IGNORECASE)
    if not found or int(found[1]) < 1:
        raise argparse.ArgumentTypeError(f"not a size: {text} (2GiB, 500M)")
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[found[2].upper()]


def _say(text: str) -> None:
    print(f"weir-clickhouse: {text}", file=sys.stderr, flush=True)


#: Variables of the environment that no server needs once it runs.
_SECRET = re.compile(r"PASSW|SECRET|TOKEN|CREDENTIAL|(^|_)KEY(_|$)", re.IGNORECASE)
#: Names the descriptor from which the passwords are read.
_DESCRIPTOR = "WEIR_PASSWORDS_FD"


def _passwords() -> dict[str, str]:
    """The variables WEIR_PASSWORD_<USER> and WEIR_PASSWORD_<USER>_FILE; afterwards the environment holds no secrets.

    If it holds any, this process executes itself again without them: `/proc/self/environ` shows the environment that a
    process began with, whatever it removed since. The passwords pass through an unnamed file.
    """
    secrets = {name: value for name, value in os.environ.items() if _SECRET.search(name) and name != _DESCRIPTOR}
    if secrets:
        descriptor = os.memfd_create("passwords", 0)
        os.write(descriptor, json.dumps({k: v for k, v in secrets.items() if k.startswith("WEIR_PASSWORD_")}).encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        environment = {name: value for name, value in os.environ.items() if name not in secrets}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment | {_DESCRIPTOR: str(descriptor)})
    number = os.environ.pop(_DESCRIPTOR, "")
    if not number:
        return {}
    with os.fdopen(int(number), encoding="utf-8") as file:
        found: dict[str, str] = json.load(file)
    return found


def _access_sql(arguments: list[str]) -> int:
    from weir_clickhouse.access import AccessError, access_sql, load

    if len(arguments) != 1:
        _say("access-sql takes one file: access.yaml")
        return 2
    try:
        print(access_sql(load(Path(arguments[0]), os.environ)), end="")
    except (AccessError, OSError) as error:
        _say(str(error))
        return 2
    return 0


def _tables_md(arguments: list[str]) -> int:
    from weir_clickhouse.docs import tables

    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        _say("tables-md takes one folder: that of the migrations")
        return 2
    print(tables(Path(arguments[0])), end="")
    return 0


def _further(file: Path | None) -> str:
    """The elements of a further configuration; '' without one. Raises OSError."""
    if file is None:
        return ""
    inner = re.search(r"<(clickhouse|yandex)>(.*)</\1>", file.read_text(encoding="utf-8"), re.DOTALL)
    if inner is None:
        raise OSError(f"{file}: no element <clickhouse> in it")
    return inner[2]


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    both = family == socket.AF_INET6 and address[0] == "::"
    listening = socket.create_server(address[:2], family=family, backlog=256, dualstack_ipv6=both)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _serve(options: argparse.Namespace, passwords: dict[str, str]) -> int:
    # The engine reads its time zone here; all times of Weir are UTC.
    os.environ["TZ"] = "UTC"
    host, _, port = options.listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        _say(f"--listen: not HOST:PORT: {options.listen}")
        return 2

    from weir_clickhouse import door, walls
    from weir_clickhouse.access import AccessError, load
    from weir_clickhouse.allowed import AllowedError

    data = options.data.resolve()
    backups = (options.backups or data.parent / "backups").resolve()
    audit_folder = (options.audit or data / "audit").resolve()
    try:
        access = load(options.access, passwords)
        proxy_key = options.proxy_key.read_text().strip() if options.proxy_key else ""
        sign_on = json.loads(options.sign_on.read_text()) if options.sign_on else None
        config = _further(options.config)
        for folder in (data, backups, audit_folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (AccessError, AllowedError, OSError, ValueError) as error:
        _say(str(error))
        return 2
    for name in (name for name, known in access.hashes.items() if not known):
        _say(f"user {name} is disabled: WEIR_PASSWORD_{name.upper()} is not set")
    try:
        # The port first: it is the cheaper question, and behind the walls none can be asked for.
        listening = _listen(host.strip("[]"), int(port))
    except OSError as error:
        _say(f"cannot listen on {options.listen}: {error.strerror or error}")
        return 2
    doors = []
    if sign_on:
        access = access.with_customers(sign_on["roles"].get("customers") or {})
        # Before the walls, beyond which nothing can be asked of a directory.
        doors = door.start(options.sign_on.resolve())
    from weir_clickhouse.people import People

    own_audit = [] if audit_folder.is_relative_to(data) else [audit_folder]
    try:
        # Before the engine is loaded: its library starts threads, and walls bind those of later.
        held = walls.raise_walls([data, backups, *own_audit, *walls.disks(config)])
    except walls.WallError as error:
        _say(str(error))
        return 2

    # The folder that it began in may be behind the walls. The engine's library writes into TMPDIR as it is loaded.
    os.chdir(data)
    own = data / "front/tmp"
    own.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = str(own)

    from weir_clickhouse.audit import Audit, AuditBusy

    with walls.own_vector_readable():
        from weir_clickhouse.engine import Engine, EngineBusy
    from weir_clickhouse.errors import ServerError
    from weir_clickhouse.front import Front
    from weir_clickhouse.server import Server

    # The thread that accepts connections gives way to those that insert soon, whatever strangers have it do.
    sys.setswitchinterval(0.0005)
    engine = Engine(data, backups, access, memory=options.memory, threads=options.max_queries, config=config)
    audit = Audit(audit_folder)
    people = People(access, data / "front/lockout.db", sign_on, doors, proxy_key)
    front = Front(engine, access, options.max_queries, options.max_body, audit, people, walls=held)
    server = Server(listening, front)
    server.prepare()
    try:
        engine.start()
        audit.start(engine.version)
    except (EngineBusy, AuditBusy, OSError, ServerError) as error:
        server.stop()
        _say(str(error))
        return 2

    front.sizes.start()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=server.serve, name="http", daemon=True).start()
    bound = server.bind_addr
    _say(f"ClickHouse {engine.version} (chDB) listens on http://{bound[0]}:{bound[1]}, data in {engine.directory}")
    _say(f"second wall: {held.told()}")
    stop.wait()
    _say("stopping")
    if not front.drain(options.stop_timeout):
        _say(f"statements still running after {options.stop_timeout:g} s: stopped")
        for turn in range(10):
            engine.kill("")
            if turn:
                server.break_off()
            if front.drain(0.5):
                break
        else:
            # Closing the engine under a statement would crash. Without that, the next start finds the directory as a
            # kill leaves it.
            audit.stop()
            _say("statements do not end: stopped without closing the engine")
            os._exit(1)
    server.stop()
    front.sizes.stop()
    front.sessions.close()
    audit.stop()
    engine.stop()
    _say("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
