"""Base images under their vendors' names, made from Debian's packages and the registries of Rust, Java and Python.

No image registry is asked. What a build on them shows holds for Weir's own files, not for the vendors' images: those
differ in how they were made. The images are this machine's: they hold its package settings (certificates, proxies,
indexes), which the repository does not. Each has the label `io.weir.test`, a hash of what it was made from, and stays
for the next run; `python tests/compose/base_images.py --remove` removes them. An image of that name without the label, such
as a vendor's, is used as it is.

Example: python tests/compose/base_images.py
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
LABEL = "io.weir.test"
DEBIAN = "debian:bookworm-slim"
FLINK = "2.3.0"

#: apt in a build, without what it leaves behind.
_APT = "apt-get update && apt-get install -y --no-install-recommends {} && rm -rf /var/lib/apt/lists/*"

_PYTHON = f"""FROM {DEBIAN}
RUN {_APT.format("ca-certificates python3.11 python3-pip python3-venv")} \\
 && ln -s python3.11 /usr/bin/python && rm -f /usr/lib/python3.11/EXTERNALLY-MANAGED
COPY settings /
CMD ["python3"]
"""

_RUST = f"""FROM {DEBIAN}
RUN {_APT.format("ca-certificates gcc libc6-dev")}
COPY settings /
COPY rust /usr/local
ENV CARGO_HOME=/usr/local/cargo PATH=/usr/local/cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""

_MAVEN = f"""FROM {DEBIAN}
RUN mkdir -p /usr/share/man/man1 \\
 && {_APT.format("ca-certificates curl maven openjdk-17-jdk-headless")}
COPY settings /
ENV JAVA_HOME=/usr/lib/jvm/java-17-openjdk-amd64
"""

_KAFKA = f"""FROM {DEBIAN}
RUN mkdir -p /usr/share/man/man1 && {_APT.format("openjdk-17-jre-headless")}
COPY kafka /opt/kafka/libs
RUN useradd --uid 1000 appuser && mkdir -p /var/lib/kafka/data && chown -R appuser /var/lib/kafka /opt/kafka
USER appuser
"""

_FLINK = f"""# Of the packages apache-flink and apache-flink-libraries.
FROM {DEBIAN}
RUN mkdir -p /usr/share/man/man1 && {_APT.format("curl openjdk-17-jre-headless procps")}
ENV JAVA_HOME=/usr/lib/jvm/java-17-openjdk-amd64 FLINK_HOME=/opt/flink PATH=/opt/flink/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
RUN useradd --system --uid 9999 --home /opt/flink flink
COPY --chown=flink:flink flink /opt/flink
WORKDIR /opt/flink
RUN chmod 755 bin/*
USER flink
"""

_SUPERSET = f"""FROM python:3.11-slim-bookworm
RUN {_APT.format("curl gcc g++ python3-dev libldap-dev libsasl2-dev")}
RUN pip install --no-cache-dir uv && python -m venv /app/.venv
COPY requirements.txt /tmp/requirements.txt
RUN . /app/.venv/bin/activate && uv pip install --no-cache --no-deps --require-hashes -r /tmp/requirements.txt
RUN useradd --uid 1000 --create-home superset && chown superset /app
USER superset
"""


PODMAN = ("podman", "build", "-q", "--format", "docker")


class Failed(Exception):
    """A step that failed; the message is for people."""


def said(*command: str, folder: Path | None = None) -> str:
    """Output of a command. Raises Failed with the end of what it said."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(command[:4])} …: {(done.stderr or done.stdout).strip()[-3000:]}")
    return done.stdout


def _link(source: Path, target: Path) -> None:
    """Copy a file or folder of this machine, if it is there."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def settings(folder: Path) -> None:
    """This machine's package settings, in the places where images read them."""
    home = Path.home()
    into = folder / "settings"
    for name in ("etc/ssl/certs/ca-certificates.crt", "etc/ssl/certs/java/cacerts"):
        _link(Path("/") / name, into / name)
    for name in ("cargo/config.toml", "m2/settings.xml"):
        _link(home / f".{name}", into / ("usr/local/cargo/config.toml" if "cargo" in name else f"root/.{name}"))
    found = said("python3", "-m", "pip", "config", "list") if shutil.which("python3") else ""
    lines = ["[global]", "cert = /etc/ssl/certs/ca-certificates.crt"]
    for line in found.splitlines():
        key, _, value = line.partition("=")
        if key.rpartition(".")[2] in ("index-url", "extra-index-url", "default-timeout", "timeout", "proxy"):
            lines.append(f"{key.rpartition('.')[2].removeprefix('default-')} = {value.strip(chr(39))}")
    (into / "etc/uv").mkdir(parents=True)
    (into / "etc/pip.conf").write_text("\n".join(lines) + "\n")
    (into / "etc/uv/uv.toml").write_text("native-tls = true\n")


def _rust(folder: Path) -> None:
    settings(folder)
    root = Path(said("rustc", "--print", "sysroot", folder=CHECKOUT / "capture").strip())
    for name in ("bin", "lib"):
        _link(root / name, folder / "rust" / name)


def _kafka(folder: Path) -> None:
    said("make", ".weir/kafka/.stamp", folder=CHECKOUT)
    _link((CHECKOUT / ".weir/kafka").resolve(), folder / "kafka")


def _flink(folder: Path) -> None:
    """The distribution as PyPI has it: the jars in the source of one package, which is unpacked alone; scripts in another."""
    pip = [sys.executable, "-m", "pip"] if _has_pip() else ["python3", "-m", "pip"]
    fetch = [*pip, "download", "--quiet", "--no-deps", "-d", str(folder / "fetched")]
    said(*fetch, "--no-binary", ":all:", f"apache-flink-libraries=={FLINK}")
    said(*fetch, f"apache-flink=={FLINK}")
    for path in sorted((folder / "fetched").iterdir()):
        shutil.unpack_archive(path, folder / "unpacked", "zip" if path.suffix == ".whl" else "gztar")
    for inside in [*(folder / "unpacked").glob("*/deps"), folder / "unpacked/pyflink"]:
        for name in ("bin", "conf", "lib", "opt", "plugins"):
            _link(inside / name, folder / "flink" / name)
    (folder / "flink/log").mkdir(exist_ok=True)
    for name in ("fetched", "unpacked"):
        shutil.rmtree(folder / name)


def _has_pip() -> bool:
    return subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0


def _superset(folder: Path) -> None:
    shutil.copy(CHECKOUT / "superset/requirements.txt", folder)


#: Each image with its Dockerfile, what makes the folder beside it, and what of the checkout its contents depend on.
IMAGES: dict[str, tuple[str, Callable[[Path], None], list[str]]] = {
    "rust:1.95-slim-bookworm": (_RUST, _rust, []),
    "maven:3.9-eclipse-temurin-17": (_MAVEN, settings, []),
    "python:3.11-slim-bookworm": (_PYTHON, settings, []),
    "apache/kafka:4.3.1": (_KAFKA, _kafka, ["stack/kafka/jars.sha256"]),
    f"flink:{FLINK}-java17": (_FLINK, _flink, []),
    "apache/superset:6.1.0": (_SUPERSET, _superset, ["superset/requirements.txt"]),
}


def _label(image: str) -> str | None:
    """The label of an image that is here, empty if it has none; None if there is no such image."""
    done = subprocess.run(["podman", "image", "inspect", image], capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    return str((json.loads(done.stdout)[0].get("Labels") or {}).get(LABEL, ""))


def _debian(folder: Path, digest: str) -> None:
    root = folder / "root"
    said("debootstrap", "--variant=minbase", "bookworm", str(root), _mirror())
    for name in ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(root / name, ignore_errors=True)
    for name in ("var/cache/apt/archives/partial", "var/lib/apt/lists/partial"):
        (root / name).mkdir(parents=True)
    for name in ("sources.list.d", "apt.conf.d"):
        for path in (Path("/etc/apt") / name).glob("[!.]*"):
            if (
                path.suffix in (".sources", ".list")
                or "proxy" in path.read_text().lower()
                or "Acquire" in path.read_text()
            ):
                _link(path, root / "etc/apt" / name / path.name)
    if (root / "etc/apt/sources.list.d/debian.sources").exists():
        (root / "etc/apt/sources.list").unlink()
    line = f"tar -C '{root}' -c . | podman import -q --change 'LABEL {LABEL}={digest}' --change 'CMD [\"bash\"]' - {DEBIAN}"
    said("bash", "-o", "pipefail", "-c", line)


def _mirror() -> str:
    return os.environ.get("WEIR_DEBIAN_MIRROR", "http://deb.debian.org/debian")


def _build(image: str, folder: Path, digest: str) -> None:
    dockerfile, prepare, _ = IMAGES[image]
    prepare(folder)
    (folder / "Dockerfile").write_text(dockerfile)
    said(*PODMAN, "--network", "host", "--label", f"{LABEL}={digest}", "-t", image, str(folder))


def make(wanted: list[str] | None = None) -> None:
    """Make the images that are not here as they should be. Raises Failed."""
    todo: list[tuple[str, Callable[[Path, str], None], str]] = [(DEBIAN, _debian, "bookworm")]
    for image, (dockerfile, _, sources) in IMAGES.items():
        hashed = hashlib.sha256(dockerfile.encode())
        for name in sources:
            hashed.update((CHECKOUT / name).read_bytes())
        todo.append((image, functools.partial(_build, image), hashed.hexdigest()[:16]))
    for image, made, digest in todo:
        if wanted and image not in wanted:
            continue
        label = _label(image)
        if label in ("", digest):
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="weir-image-") as temporary:
            made(Path(temporary), digest)
        print(f"made {image} in {time.monotonic() - began:.0f} s", flush=True)


def remove() -> None:
    """Remove the images that this file made, and the layers of the builds on them."""
    for number in said("podman", "images", "-a", "-q", "--filter", f"label={LABEL}").split():
        subprocess.run(["podman", "rmi", "-f", number], capture_output=True, check=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make the base images.")
    parser.add_argument("--remove", action="store_true", help="remove them")
    parser.add_argument("image", nargs="*", help="these alone")
    options = parser.parse_args()
    try:
        remove() if options.remove else make(options.image)
    except Failed as error:
        sys.exit(f"base_images: {error}")
