"""Credentials of probes in the stack's own Kafka: a name and password (SCRAM-SHA-512, RFC 5802), and what they permit.

A probe may write to its own topics and read the orders to it, and nothing else. Kafka keeps a salted hash of the password; the password itself is
in the bundle that `weir probe add` or `weir probe rotate` hands out once.
"""

from __future__ import annotations

import json
import secrets
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
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

from weir import kafka, orders, private
from weir.config import Stack
from weir.errors import WeirError

#: Iterations of the salted hash. Passwords are 192 random bits, which no number of iterations makes harder to guess.
_ITERATIONS = 4096


class Unusable(WeirError):
    """An agent on this machine keeps credentials that Kafka does not accept."""


def manages(stack: Stack) -> bool:
    """Whether `weir` makes the broker's users: it is the stack's own; others' brokers are their operators'."""
    return not stack.config.kafka.is_foreign


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
    text = bundle(stack, probe, password := secrets.token_urlsafe(24))
    # The password comes last: whoever has one has the rights, wherever this is interrupted.
    _permit(client, _rights(probe))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
    _users(client, UserScramCredentialUpsertion(probe, info, password.encode()))
    _delete(client, _denials(probe))
    return text


def check_not_revoked(stack: Stack, probe: str) -> None:
    """Raises Unusable if somebody revoked the probe's credentials and nobody has rotated them since."""
    client = kafka.admin(stack.brokers)
    try:
        revoked = client.describe_acls(_denials(probe)).result(30)
    except KafkaException as error:
        raise WeirError(f"Kafka did not say whether {probe} is revoked: {error}", status=1) from error
    if revoked:
        raise Unusable(
            f"the credentials of {probe} were revoked",
            hint=f"'weir probe rotate {probe}' gives it new ones; or take it out of agents:",
        )


def check_kept(stack: Stack, probe: str, path: Path) -> None:
    """Try the credentials that an agent on this machine keeps. Raises Unusable, which says what to do, if Kafka refuses them."""
    again = f"'weir probe rotate {probe}' gives its agent new ones, and the next 'weir up' starts it"
    if not has(stack, probe):
        raise Unusable(f"the credentials of {probe} were revoked", hint=f"{again}; or take it out of agents:")
    try:
        kept = tomllib.loads(path.read_text())
        brokers = kept["brokers"]
        login = {"sasl.username": kept["user"], "sasl.password": kept["password"], "ssl.ca.pem": kept["authority"]}
    except (OSError, ValueError, KeyError) as error:
        raise Unusable(f"{path} holds no credentials ({type(error).__name__})", hint=again) from error
    refusals: list[KafkaError] = []
    client = AdminClient(
        {
            "bootstrap.servers": brokers,
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "ssl.endpoint.identification.algorithm": "none",
            "error_cb": refusals.append,
            "log_level": 0,
            **login,
        }
    )
    try:
        client.list_topics(timeout=10)
    except KafkaException as error:
        client.poll(1)
        # Whatever else is wrong, the agent's log says it.
        if any(one.name() in ("_AUTHENTICATION", "_SSL") for one in refusals):
            raise Unusable(f"{path} holds credentials that Kafka refuses", hint=again, status=1) from error


def revoke(stack: Stack, probe: str) -> None:
    """Deny the probe everything, which ends its sending at once, until `mint`; take its rights and its password. Those
    without any are no error.
    """
    client = kafka.admin(stack.brokers)
    # The denial comes first, so that what was interrupted here is not mistaken for a probe without credentials yet.
    topics = ResourceType.TOPIC, "weir.", ResourcePatternType.PREFIXED
    denial = AclBinding(*topics, f"User:{probe}", "*", AclOperation.ALL, AclPermissionType.DENY)
    _permit(client, [denial])
    _delete(client, _of(probe, AclPermissionType.ALLOW))
    if has(stack, probe):
        _users(client, UserScramCredentialDeletion(probe, ScramMechanism.SCRAM_SHA_512))


def forget(stack: Stack, probe: str) -> None:
    """Forget that a probe is revoked, once it is no longer enrolled."""
    _delete(kafka.admin(stack.brokers), _denials(probe))


def permit(stack: Stack, probes: Iterable[str]) -> None:
    """Complete the rights of these probes; those that have none, such as revoked ones, stay without."""
    client = kafka.admin(stack.brokers)
    every = AclBindingFilter(
        ResourceType.TOPIC, None, ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ALLOW
    )
    try:
        held = {(one.principal, one.operation, one.name) for one in client.describe_acls(every).result(30)}
    except KafkaException as error:
        raise WeirError(f"Kafka did not list the rights of probes: {error}", status=1) from error
    some = {principal for principal, _, _ in held}
    lacking = [
        right
        for probe in probes
        for right in _rights(probe)
        if right.principal in some and (right.principal, right.operation, right.name) not in held
    ]
    if lacking:
        _permit(client, lacking)


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
        private.write_new(
            path,
            f"brokers = {json.dumps(stack.brokers.addresses)}\n"
            f"certificate = '''\n{part}'''\n"
            f"key = '''\n{part}'''\n"
            f"authority = '''\n{stack.certificates.authority.read_text()}'''\n",
        )
    return path


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


def _of(probe: str, permission: AclPermissionType) -> AclBindingFilter:
    """The probe's rules of this kind."""
    user = f"User:{probe}"
    return AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, user, None, AclOperation.ANY, permission)


def _denials(probe: str) -> AclBindingFilter:
    return _of(probe, AclPermissionType.DENY)


def _delete(client: AdminClient, rules: AclBindingFilter) -> None:
    try:
        for future in client.delete_acls([rules], request_timeout=10).values():
            future.result(20)
    except KafkaException as error:
        raise WeirError(f"Kafka did not take rules away from {rules.principal}: {error}", status=1) from error


def _permit(client: AdminClient, rights: list[AclBinding]) -> None:
    try:
        for future in client.create_acls(rights, request_timeout=10).values():
            future.result(20)
    except KafkaException as error:
        raise WeirError(f"Kafka did not take rights: {error}", status=1) from error


def _users(client: AdminClient, change: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
    try:
        for future in client.alter_user_scram_credentials([change], request_timeout=10).values():
            future.result(20)
    except KafkaException as error:
        raise WeirError(f"Kafka did not change the password of {change.user}: {error}", status=1) from error
