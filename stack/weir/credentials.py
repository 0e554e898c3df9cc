"""Credentials of probes in the stack's own Kafka: a name and password (SCRAM-SHA-512, RFC 5802), and what they permit.

A probe may write to its own topics and read the orders to it, and nothing else. Kafka keeps a salted hash of the password; the password itself is
in the bundle that `weir probe add` or `weir probe rotate` hands out once.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from weir import kafka, orders
from weir.config import Stack
from weir.errors import WeirError

#: Iterations of the salted hash. Passwords are 192 random bits, which no number of iterations makes harder to guess.
_ITERATIONS = 4096


def manages(stack: Stack) -> bool:
    """Whether the stack's own broker runs, so that `weir` makes its users; others' brokers are their operators'."""
    return not stack.config.kafka.brokers


def has(stack: Stack, probe: str) -> bool:
    """Whether the probe has a password."""
    client = kafka.admin(stack.brokers)
    (future,) = client.describe_user_scram_credentials([probe], request_timeout=10).values()
    try:
        future.result(20)
    except KafkaException as error:
        if error.args[0].name() == "RESOURCE_NOT_FOUND":
            return False
        raise WeirError(f"Kafka did not say whether {probe} has a password: {error}", status=1) from error
    return True


def mint(stack: Stack, probe: str) -> str:
    """Give the probe a new password, in place of an earlier one, and its rights; returns its bundle."""
    client = kafka.admin(stack.brokers)
    password = secrets.token_urlsafe(24)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
    _users(client, UserScramCredentialUpsertion(probe, info, password.encode()))
    _permit(client, _rights(probe))
    return bundle(stack, probe, password)


def revoke(stack: Stack, probe: str) -> None:
    """Take the probe's rights, which ends its sending at once, and its password. Those without any are no error."""
    client = kafka.admin(stack.brokers)
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{probe}", None, AclOperation.ANY, AclPermissionType.ANY
    )
    try:
        for future in client.delete_acls([everything], request_timeout=10).values():
            future.result(20)
    except KafkaException as error:
        raise WeirError(f"Kafka did not take the rights of {probe}: {error}", status=1) from error
    if has(stack, probe):
        _users(client, UserScramCredentialDeletion(probe, ScramMechanism.SCRAM_SHA_512))


def permit(stack: Stack, probes: Iterable[str]) -> None:
    """Give these probes, as far as they have a password, the rights of this version."""
    client = kafka.admin(stack.brokers)
    for probe in probes:
        if has(stack, probe):
            _permit(client, _rights(probe))


def permit_jobs(stack: Stack) -> None:
    """Let the jobs read every topic of Weir, and write alerts and dead letters."""
    user = "weir.jobs"
    _permit(
        kafka.admin(stack.brokers),
        [
            _may(user, AclOperation.READ, ResourceType.TOPIC, "weir.", ResourcePatternType.PREFIXED),
            _may(user, AclOperation.READ, ResourceType.GROUP, kafka.GROUP),
            _may(user, AclOperation.WRITE, ResourceType.TOPIC, "weir.alerts"),
            _may(user, AclOperation.WRITE, ResourceType.TOPIC, "weir.dead-letters"),
        ],
    )


def bundle(stack: Stack, probe: str, password: str) -> str:
    """What a probe needs to reach Kafka, as `weir-probe enrol` reads it (TOML)."""
    issued = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return (
        f"# Credentials of the probe {probe}, issued {issued}. Whoever has this file can publish as {probe}.\n"
        f"# On the probe: weir-probe enrol FILE\n"
        f"probe = {json.dumps(probe)}\n"
        f"brokers = {json.dumps(stack.probes_brokers)}\n"
        f"user = {json.dumps(probe)}\n"
        f"password = {json.dumps(password)}\n"
        f"orders = {json.dumps(orders.public_key(stack))}\n"
        f"authority = '''\n{stack.certificates.authority.read_text()}'''\n"
    )


def of_this_command(stack: Stack) -> Path:
    """A file of credentials with this command's own certificate, which may write to the topics of every probe: for tests
    and measurements."""
    path = stack.run / "command.toml"
    part = stack.certificates.of("command").read_text()
    if not path.exists():
        write_secret(
            path,
            f"brokers = {json.dumps(stack.brokers.addresses)}\n"
            f"certificate = '''\n{part}'''\n"
            f"key = '''\n{part}'''\n"
            f"authority = '''\n{stack.certificates.authority.read_text()}'''\n",
        )
    return path


def write_secret(path: Path, text: str) -> None:
    """Write a file that its owner alone may read; nothing else of that name may be there.

    Raises WeirError if it cannot be written.
    """
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
    except OSError as error:
        raise WeirError(f"cannot write {path}: {error.strerror}", hint="name a file that does not exist") from error


def _rights(probe: str) -> list[AclBinding]:
    """What a probe may do in Kafka."""
    return [
        _may(probe, AclOperation.WRITE if writes else AclOperation.READ, ResourceType.TOPIC, name)
        for name, writes in kafka.topics_of(probe).items()
    ]


def _may(
    user: str,
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def _permit(client: AdminClient, rights: list[AclBinding]) -> None:
    try:
        for future in client.create_acls(rights, request_timeout=10).values():
            future.result(20)
    except KafkaException as error:
        raise WeirError(f"Kafka did not take the rights of {rights[0].principal}: {error}", status=1) from error


def _users(client: AdminClient, change: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
    try:
        for future in client.alter_user_scram_credentials([change], request_timeout=10).values():
            future.result(20)
    except KafkaException as error:
        raise WeirError(f"Kafka did not change the password of {change.user}: {error}", status=1) from error
