"""The second wall: what this process can still reach once a statement has got past grants and refusals.

`raise_walls` gives up, for this process and for ever, everything that the engine does not need: another user's rights
(a user of its own where it started as root, else a user namespace), all files but its data and the code that it runs
(Landlock), all network but its listener (an empty network namespace, Landlock, seccomp), and programs, other processes
and the kernel's rarer services (seccomp). Landlock and seccomp bind the calling thread and those that it starts later:
call this before any other thread exists.

Sources: landlock(7), seccomp(2), user_namespaces(7); the kernel's tables of system calls.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import pwd
import re
import stat
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

#: The account that the engine runs as where this process starts as root; without it, a number that no account has
#: (Debian's policy keeps 30000 to 59999 free).
ACCOUNT, NUMBER = "weir-store", 59133

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEWNS, _NEWIPC, _NEWUSER, _NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _CAP_LAST = 38, 24, 63
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
#: Landlock's system calls have the same numbers on all architectures.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_SOCK, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEV = 1 << 6, 1 << 9, 1 << 11, 1 << 14, 1 << 15
#: Rights that the data do not get: running programs, devices and sockets.
_NOT_GRANTED = _EXECUTE | _MAKE_CHAR | _MAKE_SOCK | _MAKE_BLOCK
#: Rights by Landlock's version: of files, of TCP, of other processes.
_FILES = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_TCP, _SCOPES = 0b11, 0b11

#: Files of the system that the engine reads: its clock, the names of this host, and what it measures its host by.
_SYSTEM = (
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/proc/cpuinfo",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
    "/proc/vmstat",
    "/proc/diskstats",
    "/proc/filesystems",
    "/proc/sys",
    "/proc/pressure",
    "/sys/block",
    "/sys/devices",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
)
#: Of itself: neither its memory nor its environment, nor those of its threads.
_OWN = ("auxv", "cgroup", "fd", "io", "limits", "maps", "mountinfo", "mounts", "sched", "schedstat", "stat", "statm", "status")
_LIBRARIES = ("/usr/lib", "/lib", "/lib64", "/usr/local/lib", "/etc/ld.so.cache")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")

#: System calls that end in an error, by name with their numbers on x86-64 and aarch64; -1: not there.
_REFUSED = {
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "execve": (59, 221),
    "execveat": (322, 281),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "open_by_handle_at": (304, 265),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "personality": (135, 92),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "iopl": (172, -1),
    "ioperm": (173, -1),
}
#: System calls that the process is told do not exist: the C library then uses clone instead of clone3, and nobody needs
#: io_uring.
_ABSENT = {"clone3": (435, 435), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427)}
_CLONE = (56, 220)
#: Flags of clone(2) that make namespaces.
_NAMESPACES = 0x7E020000
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x40000000


class WallError(Exception):
    """A wall that the host has cannot be raised; the message names it."""


@dataclass(frozen=True)
class Walls:
    """Which walls hold, each with what it is made of; empty where it does not hold."""

    user: str = ""
    files: str = ""
    network: str = ""
    calls: str = ""

    def told(self) -> str:
        """One line for people."""
        held = [f"{name}: {what}" for name, what in self.named().items() if what]
        missing = [name for name, what in self.named().items() if not what]
        return "; ".join([*held, *([f"NOT held: {', '.join(missing)}"] if missing else [])])

    def named(self) -> Mapping[str, str]:
        """By name."""
        return vars(self)


def raise_walls(writable: Iterable[Path]) -> Walls:
    """Raise all walls that this host allows. writable: directories of data, which exist; besides these only the code that
    Python runs can be read. Raises WallError."""
    data = [path.resolve() for path in writable]
    code = [Path(path).resolve() for path in _python() if Path(path).exists()]
    network = []
    user = ""
    if os.geteuid() == 0:
        own = _account()
        code = [path for path in code if _may_search(path, *own)]
        if _unshare(_NEWNET | _NEWIPC):
            network.append("an empty namespace")
        if _unshare(_NEWNS) and _LIBC.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) == 0:
            _open_ways([*data, *code], *own)
        user = _become(data, *own)
        if not user and all(path.stat().st_uid == 0 for path in data):
            _drop_capabilities()
    elif _own_namespace():
        network.append("an empty namespace")
        user = "a user namespace"
    _check(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    version = _landlock(data, code)
    if version >= 4:
        network.append("no TCP")
    calls = _filter()
    if calls:
        network.append("no sockets")
    return Walls(
        user,
        f"only the data and the code (Landlock {version})" if version else "",
        ", ".join(network),
        calls,
    )


def _python() -> Iterator[str]:
    """Where Python finds what it imports later."""
    yield from _LIBRARIES
    yield from (str(Path(os.__file__).parent), sys.prefix, sys.base_prefix + "/lib")
    yield from (path for path in sys.path if path)


def _check(status: int, what: str) -> int:
    if status < 0:
        number = ctypes.get_errno()
        raise WallError(f"the second wall, {what}: {os.strerror(number)}")
    return status


# ---- a user of its own ----


def _unshare(flags: int) -> bool:
    """New namespaces; False where that is not allowed, as in most containers."""
    return bool(_LIBC.unshare(flags) == 0)


def _own_namespace() -> bool:
    """A user namespace with the same user, and an empty network; False where that is not allowed."""
    child = os.fork()  # Some hosts allow the namespace, and then nothing in it.
    if not child:
        allowed = False
        try:
            allowed = _enter()
        finally:  # whatever was raised, this copy of the process ends here
            os._exit(not allowed)
    return os.waitpid(child, 0)[1] == 0 and _enter()


def _enter() -> bool:
    user, group = os.geteuid(), os.getegid()
    if not _unshare(_NEWUSER | _NEWNET | _NEWIPC):
        return False
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _drop_capabilities()
    return True


def _account() -> tuple[int, int]:
    """User and group of the store."""
    with suppress(KeyError):
        known = pwd.getpwnam(ACCOUNT)
        return known.pw_uid, known.pw_gid
    return NUMBER, NUMBER


def _become(data: list[Path], user: int, group: int) -> str:
    """Become the account of the store, to which the data then belong; '' if it could not reach its files."""
    needed = [Path(__file__).parent, Path(os.__file__).parent, Path(sys.prefix), *(path.parent for path in data)]
    if not all(_may_search(one, user, group) for path in needed for one in (path, *path.parents)):
        return ""
    try:
        for path in data:
            _give(path, user, group)
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    except PermissionError:  # of a root without capabilities
        return ""
    return f"only {user}" if user == NUMBER else f"only {ACCOUNT} ({user})"


def _give(top: Path, user: int, group: int) -> None:
    """Make everything below a directory, and last itself, the user's; it follows no link."""
    if top.stat().st_uid == user and all(one.stat(follow_symlinks=False).st_uid == user for one in os.scandir(top)):
        return
    for _, _, files, descriptor in os.fwalk(top, topdown=False, follow_symlinks=False):
        for name in files:
            with suppress(FileNotFoundError):
                os.chown(name, user, group, dir_fd=descriptor, follow_symlinks=False)
        os.fchown(descriptor, user, group)


def _may_search(folder: Path, user: int, group: int) -> bool:
    found = folder.stat()
    bit = stat.S_IXUSR if found.st_uid == user else stat.S_IXGRP if found.st_gid == group else stat.S_IXOTH
    return bool(found.st_mode & bit)


def _open_ways(paths: Iterable[Path], user: int, group: int) -> None:
    """In this process's own view of the file systems, replace each folder that the user cannot enter by one that holds
    nothing but the ways to `paths`."""
    below: dict[Path, list[Path]] = {}
    for path in paths:
        closed = [one for one in path.parents if not _may_search(one, user, group)]
        if closed:
            below.setdefault(closed[-1], []).append(path)
    before = os.umask(0o022)
    for folder, wanted in below.items():
        kept = {path: os.open(path, os.O_PATH) for path in wanted}
        _check(_LIBC.mount(b"weir", os.fsencode(folder), b"tmpfs", 0, b"mode=755,size=1m"), f"a way through {folder}")
        for path, descriptor in kept.items():
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            source = f"/proc/self/fd/{descriptor}".encode()
            _check(_LIBC.mount(source, os.fsencode(path), None, _MS_BIND | _MS_REC, None), f"the way to {path}")
            os.close(descriptor)
    os.umask(before)


def _drop_capabilities() -> None:
    """Give up all capabilities, those that a new user namespace gives included."""
    for number in range(_CAP_LAST + 1):
        _LIBC.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    head, nothing = struct.pack("<Ii", 0x20080522, 0), bytes(24)
    _check(_LIBC.capset(head, nothing), "capset")


# ---- files ----


@contextmanager
def own_vector_readable() -> Iterator[None]:
    """Let this process read its auxiliary vector, as the engine's library does while it is loaded.

    A process that changed its user may not. The library then takes what follows the environment in memory for the
    vector, and crashes if the environment has been moved there.
    """
    before = _LIBC.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)
    _LIBC.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    try:
        yield
    finally:
        _LIBC.prctl(_PR_SET_DUMPABLE, before, 0, 0, 0)


def _landlock(data: Iterable[Path], code: Iterable[Path]) -> int:
    """Close all files but these, and TCP; returns Landlock's version, 0 where the kernel has none."""
    version = int(_LIBC.syscall(_CREATE_RULESET, None, 0, 1))
    if version < 1:
        return 0
    files = _FILES[max(known for known in _FILES if known <= version)]
    attributes = struct.pack("<QQQ", files, _TCP if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    rules = _check(_LIBC.syscall(_CREATE_RULESET, attributes, size, 0), "Landlock")
    try:
        for path in data:
            _allow(rules, path, files & ~_NOT_GRANTED)
        for path in code:
            _allow(rules, path, files & (_READ_FILE | _READ_DIR))
        for name in (*_SYSTEM, *(f"/proc/self/{one}" for one in _OWN)):
            _allow(rules, Path(name), files & (_READ_FILE | _READ_DIR))
        for name in _DEVICES:
            _allow(rules, Path(name), files & (_READ_FILE | _WRITE_FILE | _IOCTL_DEV))
        _check(_LIBC.syscall(_RESTRICT_SELF, rules, 0), "Landlock")
    finally:
        os.close(rules)
    return version


def _allow(rules: int, path: Path, rights: int) -> None:
    """Allow rights on a file, or on everything below a directory; nothing if it does not exist."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
        _check(_LIBC.syscall(_ADD_RULE, rules, 1, struct.pack("<Qi", rights, descriptor), 0), f"Landlock for {path}")
    finally:
        os.close(descriptor)


# ---- system calls ----


def _filter() -> str:
    """Refuse the system calls that the engine does not need; returns which kind, '' on another architecture."""
    if platform.machine() not in _ARCHITECTURES or sys.maxsize < 2**32:
        return ""
    column, architecture = _ARCHITECTURES[platform.machine()]
    program = assembled(column, architecture)
    filled = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(filled))
    # With TSYNC: for all threads, should there be any.
    status = _LIBC.syscall((317, 277)[column], 1, 1, header)
    if status < 0 and ctypes.get_errno() in (errno.ENOSYS, errno.EINVAL):
        return ""  # a kernel without it
    _check(status, "seccomp")
    return "no programs, no other processes (seccomp)"


def assembled(column: int, architecture: int) -> bytes:
    """The filter's program, for the machine of BPF in the kernel; column: of the numbers above."""
    load, equal, least, has, back = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, kill = 0x7FFF0000, 0x80000000

    def failing(number: int) -> int:
        return 0x00050000 | number

    def one(code: int, then: int, other: int, value: int) -> bytes:
        return struct.pack("<HBBI", code, then, other, value)

    out = [one(load, 0, 0, 4), one(equal, 1, 0, architecture), one(back, 0, 0, kill), one(load, 0, 0, 0)]
    if column == 0:
        out += [one(least, 0, 1, _X32), one(back, 0, 0, failing(errno.EPERM))]
    for calls, answer in ((_REFUSED, errno.EPERM), (_ABSENT, errno.ENOSYS)):
        for numbers in calls.values():
            if numbers[column] >= 0:
                out += [one(equal, 0, 1, numbers[column]), one(back, 0, 0, failing(answer))]
    # The flags of clone are its first argument.
    out += [
        one(equal, 0, 3, _CLONE[column]),
        one(load, 0, 0, 16),
        one(has, 0, 1, _NAMESPACES),
        one(back, 0, 0, failing(errno.EPERM)),
    ]
    out += [one(back, 0, 0, allow)]
    return b"".join(out)


def disks(config: str) -> Iterator[Path]:
    """The directories that a further configuration of the engine names for its disks."""
    for found in re.finditer(r"<path>\s*(/[^<]*?)\s*</path>", config):
        yield Path(found[1])
