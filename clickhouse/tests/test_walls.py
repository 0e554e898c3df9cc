"""The second wall: what the engine's process reaches once a statement has got past the first one."""

from __future__ import annotations

import http.server
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import FOLDER, PASSWORDS, Server, start, stop

EMBEDDED = FOLDER / "embedded"
WALLS = EMBEDDED / "weir_clickhouse/walls.py"
pytestmark = pytest.mark.embedded

#: Starts the server without its first wall: every statement, function and setting is the administrator's.
BROKEN = """
import os, sys
os.umask(0o077)  # as supervisord does
sys.path.insert(0, {embedded!r})
from weir_clickhouse import refusals
refusals.refuse_dangerous = refusals.refuse_settings = refusals.refuse_names = lambda *_: None
refusals.FIXED_SETTINGS = frozenset()
from weir_clickhouse import access
access._ADMIN = "ALL"
from weir_clickhouse.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("broken")
    program = folder / "broken.py"
    program.write_text(BROKEN.format(embedded=str(EMBEDDED)))
    server = start(folder / "data", program=program)
    yield server
    stop(server, signal.SIGKILL)


def opened(folder: Path) -> None:
    """Let every user enter a test's folder."""
    for one in (folder, *folder.parents):
        mode = one.stat().st_mode
        if mode & 0o005 != 0o005:
            one.chmod(mode | 0o055)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text("nobody's business\n")
    opened(tmp_path)
    file.chmod(0o644)
    return file


@pytest.fixture
def listener() -> Iterator[tuple[int, list[str]]]:
    """A web server on loopback: its port, and the requests that it got."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"1\n")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1], asked
        server.shutdown()
        thread.join()


def test_all_walls_hold(broken: Server) -> None:
    line = next(line for line in [*broken.log, broken.process.stderr.readline().decode()] if "second wall" in line)  # type: ignore[union-attr]
    assert "NOT" not in line
    metrics = broken.ask(method="GET", path="/metrics").text
    assert set(re.findall(r'^weir_clickhouse_wall\{wall="(\w+)"\} 1\.0', metrics, re.MULTILINE)) == {
        "user",
        "files",
        "network",
        "calls",
    }


def test_the_first_wall_is_open_here(broken: Server) -> None:
    """Otherwise the tests below would prove nothing."""
    assert broken.data
    (own,) = (broken.data / "front").glob("users.xml")
    assert "weir_admin" in broken.sql(f"SELECT * FROM file('{own}', 'LineAsString')")
    assert broken.sql("SELECT arrayMap(file, ['" + str(own) + "'])").count("weir_admin")
    broken.sql(f"SELECT 42 INTO OUTFILE '{broken.data}/out' FORMAT TSV")
    assert (broken.data / "out").read_text() == "42\n"


@pytest.mark.parametrize(
    "how", ["SELECT * FROM file('{}', 'LineAsString')", "SELECT file('{}')", "SELECT arrayMap(file, ['{}'])"]
)
def test_no_file_is_read(broken: Server, secret: Path, how: str) -> None:
    for path in (
        secret,
        "/etc/passwd",
        FOLDER / "access.yaml",
        "/proc/self/environ",
        "/proc/self/mem",
        f"/proc/{os.getpid()}/environ",
        "/proc/self/task/self/environ",
    ):
        answer = broken.ask(how.format(path))
        assert answer.status != 200, path
        assert re.search("ermission denied|Access denied|Cannot open|File not found|doesn't exist|not exist", answer.text), (
            answer.text
        )
    assert secret.read_text() == "nobody's business\n"


def test_no_file_is_written(broken: Server, secret: Path) -> None:
    for statement in (
        f"SELECT 1 INTO OUTFILE '{secret.parent}/made' FORMAT TSV",
        f"INSERT INTO FUNCTION file('{secret.parent}/made', 'TSV', 'a Int32') VALUES (1)",
        f"INSERT INTO FUNCTION file('{secret}', 'TSV', 'a Int32') SETTINGS engine_file_truncate_on_insert = 1 VALUES (1)",
        "BACKUP DATABASE system TO File('/tmp/weir-wall-backup')",
    ):
        assert broken.ask(statement).status != 200, statement
    assert sorted(path.name for path in secret.parent.iterdir()) == ["secret"]
    assert secret.read_text() == "nobody's business\n"


def test_nothing_is_asked_of_the_network(broken: Server, listener: tuple[int, list[str]]) -> None:
    port, asked = listener
    with socket.create_connection(("127.0.0.1", port)):
        pass  # somebody answers there
    for statement in (
        f"SELECT * FROM url('http://127.0.0.1:{port}/x', 'LineAsString')",
        f"SELECT * FROM s3('http://127.0.0.1:{port}/b/k', 'CSV', 'a Int32')",
        f"SELECT * FROM remote('127.0.0.1:{port}', 'system.one')",
        f"SELECT * FROM mysql('127.0.0.1:{port}', 'a', 'b', 'c', 'd')",
        "SELECT * FROM url('http://a-secret.example/', 'LineAsString')",
    ):
        assert broken.ask(statement, http_max_tries=1, connect_timeout=1).status != 200, statement
    assert not asked


def test_no_program_is_run(broken: Server) -> None:
    for statement in (
        "SELECT * FROM executable('id', 'LineAsString', 'a String')",
        "SELECT * FROM executable('../../../../bin/sh -c id', TSV, 'a String')",
        "SELECT * FROM Python(os)",
    ):
        answer = broken.ask(statement)
        assert answer.status != 200, statement
        assert "uid=" not in answer.text


def test_a_backup_goes_to_its_place_and_back(broken: Server) -> None:
    assert broken.data
    broken.sql("CREATE DATABASE w ENGINE = Atomic")
    broken.sql("CREATE TABLE w.t (a Int32) ENGINE = MergeTree ORDER BY a")
    broken.sql("INSERT INTO w.t VALUES (1), (2)")
    broken.sql("BACKUP TABLE w.t TO Disk('backups', 'one')")
    assert (broken.data.parent / "backups/one/.backup").exists()
    broken.sql("RESTORE TABLE w.t AS w.u FROM Disk('backups', 'one')")
    assert broken.sql("SELECT sum(a) FROM w.u") == "3"


# ---- the walls alone ----

#: What a process may not do behind its walls, and may do; each line prints what it could.
TRIES = """
import ctypes, importlib, os, signal, socket, sys, threading
sys.path.insert(0, sys.argv[1])
import walls
data, outside, parent = sys.argv[2], sys.argv[3], int(sys.argv[4])
import pathlib
held = walls.raise_walls([pathlib.Path(data)])
print("held", sorted(name for name, what in held.named().items() if what))

def may(name, action):
    try:
        action()
        print("may", name)
    except (OSError, ImportError) as error:
        print("not", name, getattr(error, "errno", ""))

def write():
    with open(data + "/new", "w") as file:
        file.write("x")
    os.rename(data + "/new", data + "/renamed")
    os.mkfifo(data + "/pipe")
    os.mkdir(data + "/folder")

def pipe():
    ends = os.pipe()
    os.write(ends[1], b"x")
    with open(f"/proc/self/fd/{ends[0]}", "rb", buffering=0) as file:
        assert file.read(1) == b"x"

def thread():
    seen = []
    one = threading.Thread(target=lambda: seen.append(open(data + "/renamed").read()))
    one.start()
    one.join()
    assert seen == ["x"]

def run():
    child = os.fork()
    if not child:
        try:
            os.execv("/bin/true", ["true"])
        finally:
            os._exit(9)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise OSError(0, "")

libc = ctypes.CDLL(None, use_errno=True)

def call(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "")

may("write data", write)
may("use a pipe", pipe)
may("start a thread", thread)
may("import", lambda: importlib.import_module("colorsys"))
may("read the clock's zone", lambda: os.stat("/usr/share/zoneinfo"))
may("read a file", lambda: open(outside + "/secret").read())
may("list a folder", lambda: os.listdir(outside))
may("write a file", lambda: open(outside + "/made", "w"))
may("append to a file", lambda: open(outside + "/secret", "a"))
may("truncate a file", lambda: os.truncate(outside + "/secret", 0))
may("link out of its data", lambda: os.link(outside + "/secret", data + "/linked"))
may("read what it began with", lambda: open("/proc/self/environ").read())
may("read its memory", lambda: open("/proc/self/mem", "rb").read(1))
may("read its parent's variables", lambda: open(f"/proc/{parent}/environ").read())
may("signal its parent", lambda: os.kill(parent, 0))
may("speak TCP", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
may("speak UDP", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
may("speak to local programs", lambda: socket.socket(socket.AF_UNIX))
may("run a program", run)
may("trace its parent", lambda: call(101, 16, parent, 0, 0))
may("make a namespace", lambda: call(272, 0x10000000))
may("make a namespace by clone", lambda: call(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0))
may("use io_uring", lambda: call(425, 1, 0))
may("become root", lambda: os.setuid(0) if os.getuid() else os.setuid(65534) or os.setuid(0))
"""
MAY = ["write data", "use a pipe", "start a thread", "import", "read the clock's zone"]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of system calls are those of x86-64")
@pytest.mark.parametrize("user", ["root", "another"])
def test_behind_the_walls(tmp_path: Path, user: str, readable_python: str) -> None:
    if os.geteuid() != 0 and user == "root":
        pytest.skip("needs root")
    opened(tmp_path)
    code, data, outside = (tmp_path / name for name in ("code", "data", "outside"))
    for folder in (code, data, outside):
        folder.mkdir()
        folder.chmod(0o777)
    shutil.copy(WALLS, code)
    (code / "tries.py").write_text(TRIES)
    (outside / "secret").write_text("x")
    (outside / "secret").chmod(0o666)
    drop: Callable[[], None] | None = None
    if user == "another" and os.geteuid() == 0:

        def drop() -> None:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

    arguments = [readable_python, str(code / "tries.py"), str(code), str(data), str(outside), str(os.getpid())]
    done = subprocess.run(arguments, preexec_fn=drop, capture_output=True, text=True, timeout=60, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == "held ['calls', 'files', 'network', 'user']"
    assert [line.removeprefix("may ") for line in said if line.startswith("may ")] == MAY, done.stdout
    assert len([line for line in said if line.startswith("not ")]) == TRIES.count("\nmay(") - len(MAY)
    assert (outside / "secret").read_text() == "x"
    assert {path.name for path in outside.iterdir()} == {"secret"}


#: Loads the engine behind the walls with an environment that stands elsewhere in memory, and what follows it is no
#: auxiliary vector, as after some changes of variables.
LOADS = """
import ctypes, os, pathlib, sys
from weir_clickhouse import walls
data = pathlib.Path(sys.argv[1])
walls.raise_walls([data])
os.chdir(data)
moved, text = (ctypes.c_uint64 * 8)(), ctypes.create_string_buffer(b"TMPDIR=" + bytes(data))
moved[0], moved[2], moved[3] = ctypes.addressof(text), 33, 2
ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ").value = ctypes.addressof(moved)
with walls.own_vector_readable():
    import chdb
try:
    open("/proc/self/auxv", "rb")
except OSError:
    print("loaded, and closed again")
"""


def test_the_engine_is_loaded_wherever_the_environment_stands(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    opened(tmp_path)
    tmp_path.chmod(0o777)
    environment = os.environ | {"PYTHONPATH": str(WALLS.parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", LOADS, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "loaded, and closed again\n"), done.stderr


@pytest.fixture
def readable_python() -> str:
    """An interpreter that every user may run; the walls need no library."""
    for path in (Path(sys.executable), Path("/usr/bin/python3")):
        found = path.resolve()
        if path.exists() and all(folder.stat().st_mode & 0o001 for folder in found.parents):
            return str(found)
    pytest.skip("no Python that another user may run")


def test_the_passwords_are_kept_as_hashes(broken: Server) -> None:
    """Nothing that the process can be made to print holds one."""
    assert broken.process
    memory = Path(f"/proc/{broken.process.pid}/environ").read_bytes()
    for password in PASSWORDS.values():
        assert password.encode() not in memory
