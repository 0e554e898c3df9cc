"""What containers need that cannot share one user's files: `python -m weir.containers keys|prepare`.

`keys` writes weir.yaml, makes the authority and the certificates in $WEIR_HOME, and hands each part its own in a folder of
its own: the broker's with its properties; the jobs' with theirs, and with the key that the parts of Flink's cluster share.
`prepare` makes topics, tables and rights, and hands the agent its configuration and its credentials. The group of each folder
may read what it holds.

Example: python -m weir.containers keys --settings 'kafka: {brokers: "kafka:9092", managed: true}'
"""

from __future__ import annotations

import argparse
import functools
import secrets
import shlex
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import httpx

from weir import config, credentials, kafka, private
from weir.authority import issue, store_of_one
from weir.clickhouse import connect
from weir.config import Stack
from weir.errors import WeirError
from weir.java import properties
from weir.migrations import apply_access, migrate
from weir.services import broker_java, broker_properties, cluster_id, pem_files, probe_limits
from weir.stack import complete_probes, enrol_here

T = TypeVar("T")

#: Where the broker's container and that of the jobs find what they are handed.
HANDED = Path("/run/weir")
#: Port for probes in the broker's container; the host's may be another.
_PROBES = 9094
#: Seconds that the store and Kafka have to answer.
_PATIENCE = 180


def main(words: list[str]) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m weir.containers", description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=("keys", "prepare"))
    parser.add_argument("--settings", metavar="YAML", help="the text of weir.yaml, which `keys` writes")
    parser.add_argument("--agent", metavar="TOML", help="the configuration of the agent whose probe `prepare` enrols")
    parser.add_argument("--out", type=Path, default=HANDED, metavar="DIR", help="where the parts' folders are")
    options = parser.parse_args(words)
    try:
        if options.command == "keys":
            if options.settings is not None:
                private.write(config.home() / "weir.yaml", options.settings.encode(), over=True)
            stack = config.load(None)
            stack.prepare()
            keys(stack, options.out)
        else:
            prepare(config.load(None), options.out, options.agent)
    except WeirError as error:
        print(f"weir: {error}" + (f"; {error.hint}" if error.hint else ""), file=sys.stderr)
        return error.status
    return 0


def keys(stack: Stack, out: Path) -> None:
    """Make what is missing of the authority and its certificates, and hand the broker and the jobs their own."""
    addresses = stack.config.kafka.brokers
    host = addresses.rpartition(":")[0]
    issue(stack.certificates, [host, stack.probes_host])
    own, jobs = out / "broker", out / "jobs"
    ports = stack.config.ports
    broker = {
        **broker_properties(stack, Path("/var/lib/kafka/data")),
        "listeners": f"INTERNAL://:{ports.kafka},PROBES://:{_PROBES},CONTROLLER://127.0.0.1:{ports.kafka_controller}",
        "advertised.listeners": f"INTERNAL://{addresses},PROBES://{stack.probes_brokers}",
        **_pem(HANDED / "broker"),
    }
    login = {"security.protocol": "SSL", **_pem(HANDED / "broker")}
    _hand(own / "key.pem", stack.certificates.of("broker").read_text())
    _hand(own / "ca.pem", stack.certificates.authority.read_text())
    _hand(own / "broker.properties", properties(broker))
    _hand(own / "login.properties", properties(login))
    _hand(own / "java", "\n".join(broker_java(stack, _PROBES)) + "\n")
    _hand(own / "limits", shlex.join(["--bootstrap-server", addresses, *probe_limits(stack)]) + "\n")
    if not (own / "cluster-id").exists():
        _hand(own / "cluster-id", cluster_id() + "\n")
    if not (jobs / "cluster.p12").exists():
        password = secrets.token_hex(24)
        _hand(jobs / "cluster.password", password)
        _hand(jobs / "cluster.p12", store_of_one("cluster", password))
    _hand(jobs / "key.pem", stack.certificates.of("jobs").read_text())
    _hand(jobs / "ca.pem", stack.certificates.authority.read_text())
    _hand(jobs / "kafka.properties", properties({"security.protocol": "SSL", **_pem(HANDED / "jobs")}))


def prepare(stack: Stack, out: Path, agent: str | None) -> None:
    """Make topics, tables and rights, and hand the agent on this machine its credentials; safe to repeat."""
    server = _patiently(functools.partial(_is_server, stack.clickhouse_url))
    for step in (kafka.create_topics, kafka.configure_topics):
        _patiently(functools.partial(step, stack.brokers))
    _patiently(functools.partial(credentials.permit_jobs, stack))
    applied = migrate(connect(stack, "admin", patience=None), cluster=stack.config.clickhouse.cluster)
    print("\n".join(f"applied {name}" for name in applied) or "no new migration")
    if server:
        print(f"applied {apply_access(stack, connect(stack, 'admin'))} statements from {stack.access.name}")
    complete_probes(stack)
    if agent is not None:
        name = tomllib.loads(agent)["probe"]
        enrol_here(stack, name)
        _hand(out / "agent/credentials.toml", stack.kept_credentials(name).read_text())
        _hand(out / "agent/weir-probe.toml", agent)
        print(f"enrolled {name}")


def _patiently(step: Callable[[], T]) -> T:
    """Repeat what a server did not take: it may still be busy with its start. Returns what it gave. Raises WeirError."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return step()
        except WeirError:
            if time.monotonic() > end:
                raise
        time.sleep(1)


def _is_server(url: str) -> bool:
    """Whether the store is a clickhouse-server, whose users are made by SQL. Raises WeirError if it does not answer."""
    try:
        if httpx.get(f"{url}/ping", timeout=5).status_code == 200:
            # On this port a clickhouse-server has no such page.
            return httpx.get(f"{url}/metrics", timeout=5).status_code != 200
    except httpx.HTTPError:
        pass
    raise WeirError(f"the store at {url} does not answer", status=1)


def _pem(folder: Path) -> dict[str, object]:
    return pem_files(folder / "key.pem", folder / "ca.pem")


def _hand(path: Path, content: str | bytes) -> None:
    """Write a file as a whole, for its owner and the group of its folder. Raises WeirError."""
    try:
        octets = content.encode() if isinstance(content, str) else content
        private.write(path, octets, over=True, group=path.parent.stat().st_gid)
    except OSError as error:
        raise WeirError(f"cannot write {path}: {error.strerror}", status=1) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
