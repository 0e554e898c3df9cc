"""A Kafka of somebody else that asks for tokens (SASL/OAUTHBEARER): the agent, the jobs and `weir` fetch theirs from an issuer
and get in with their properties alone. That Kafka takes what the stack's own refuses, and the jobs skip it.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from harness import BUILT, RunningStack, collector, eventually, free_ports
from router_messages import netflow5
from weir import credentials
from weir.authority import issue
from weir.certificates import Certificates
from weir.kafka import admin, topics_of
from weir.services import cluster_id

pytestmark = pytest.mark.long

#: Clients of the issuer, and their secrets.
SECRETS = {"weir.command": "secret-of-the-command", "weir.jobs": "secret-of-the-jobs", "border": "secret-of-a-probe"}
#: Codecs of Kafka, and octets that each compresses to a message which that Kafka takes.
OCTETS = {"gzip": 100_000_000, "snappy": 50_000_000, "lz4": 100_000_000, "zstd": 100_000_000}
CODECS = list(OCTETS)
#: Seconds that a token is valid: each of these clients needs several in a test.
VALID_S = 20


def part(octets: bytes) -> str:
    """Octets in a JSON web token."""
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")


class Issuer(ThreadingHTTPServer):
    """An OAuth 2.0 server that knows the grant of client credentials; tokens are signed with RS256."""

    def __init__(self, port: int) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{port}"
        super().__init__(("127.0.0.1", port), Answer)

    def token(self, subject: str, key: rsa.RSAPrivateKey) -> str:
        """A token of this issuer, signed with a key."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": "kafka", "sub": subject, "iat": now, "exp": now + VALID_S}
        head = {"alg": "RS256", "typ": "JWT", "kid": "1"}
        signed = ".".join(part(json.dumps(one).encode()) for one in (head, claims))
        return f"{signed}.{part(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def shown(self, subject: str, key: rsa.RSAPrivateKey, _: str) -> tuple[str, float]:
        """A token and its end, as librdkafka's callback returns them."""
        return self.token(subject, key), time.time() + VALID_S

    def keys(self) -> dict[str, Any]:
        """The public key, as a JSON web key set."""
        public = self.key.public_key().public_numbers()
        of = {name: part(n.to_bytes((n.bit_length() + 7) // 8)) for name, n in (("n", public.n), ("e", public.e))}
        return {"keys": [{"kty": "RSA", "kid": "1", "use": "sig", "alg": "RS256", **of}]}


class Answer(BaseHTTPRequestHandler):
    """`GET /keys` and `POST /token`."""

    server: Issuer

    def do_GET(self) -> None:
        self.reply(200, self.server.keys())

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        name, _, secret = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode().partition(":")
        if form["grant_type"] != ["client_credentials"] or SECRETS.get(name) != secret:
            self.reply(401, {"error": "invalid_client"})
            return
        self.server.asked.append(name)
        made = self.server.token(name, self.server.key)
        self.reply(200, {"access_token": made, "token_type": "Bearer", "expires_in": VALID_S})

    def reply(self, status: int, body: dict[str, Any]) -> None:
        octets = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(octets)))
        self.end_headers()
        self.wfile.write(octets)

    def log_message(self, *_: Any) -> None:
        """Nothing: the tests read `asked`."""


@contextmanager
def broker(folder: Path, issuer: Issuer) -> Iterator[tuple[str, Certificates]]:
    """A Kafka that lets in whoever shows a token of the issuer, over TLS; its address, and the authority to trust."""
    clients, inside, controller = free_ports(3)
    made = Certificates(folder / "tls")
    issue(made, ["localhost"])
    modules = "org.apache.kafka.common.security.oauthbearer"
    properties = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CLIENTS://127.0.0.1:{clients},INSIDE://127.0.0.1:{inside},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"CLIENTS://127.0.0.1:{clients},INSIDE://127.0.0.1:{inside}",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": made.of("broker"),
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"{issuer.url}/keys",
        "sasl.oauthbearer.expected.issuer": issuer.url,
        "sasl.oauthbearer.expected.audience": "kafka",
        "listener.name.clients.oauthbearer.sasl.server.callback.handler.class": f"{modules}.OAuthBearerValidatorCallbackHandler",
        "listener.name.clients.oauthbearer.sasl.jaas.config": f"{modules}.OAuthBearerLoginModule required;",
        # Who was let in has to show a new token before the old one ends.
        "listener.name.clients.oauthbearer.connections.max.reauth.ms": 2 * VALID_S * 1000,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:weir.command;User:ANONYMOUS",
        "log.dirs": folder / "data",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "message.max.bytes": 8388608,
    }
    file = folder / "broker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    java = ["java", "-Xmx300m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    java += [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.url}/keys", "-cp", f"{BUILT}/kafka/*"]
    words = ["kafka.tools.StorageTool", "format", "-t", cluster_id(), "-c", str(file), "--standalone"]
    subprocess.run([*java, *words], check=True, capture_output=True)
    with (folder / "kafka.log").open("w") as log:
        process = subprocess.Popen([*java, "kafka.Kafka", str(file)], stdout=log, stderr=log)
        try:
            yield f"127.0.0.1:{clients}", made
        finally:
            process.terminate()
            process.wait(60)


def of_librdkafka(issuer: Issuer, made: Certificates, name: str, secret: str = "") -> dict[str, str]:
    """Properties by which librdkafka logs in as a client of the issuer."""
    return {
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": str(made.authority),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": name,
        "sasl.oauthbearer.client.secret": secret or SECRETS[name],
        "sasl.oauthbearer.token.endpoint.url": f"{issuer.url}/token",
    }


def of_java(issuer: Issuer, made: Certificates, name: str) -> dict[str, str]:
    """Properties by which Kafka's Java clients log in as a client of the issuer."""
    modules = "org.apache.kafka.common.security.oauthbearer"
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(made.authority),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{modules}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": f"{issuer.url}/token",
        "sasl.oauthbearer.client.credentials.client.id": name,
        "sasl.oauthbearer.client.credentials.client.secret": SECRETS[name],
        "sasl.jaas.config": f"{modules}.OAuthBearerLoginModule required;",
    }


class TokenStack(RunningStack):
    """A stack without a Kafka of its own, in a folder beside its properties."""

    def __init__(self, address: str, folder: Path) -> None:
        self.kafka = {"brokers": address, "properties": str(folder / "weir.command.properties")}
        self.agent = folder / "weir-probe.toml"
        super().__init__(kafka_properties=str(folder / "weir.jobs.properties"))

    def _configure(self, superset: bool, proxied_clickhouse: bool, flink: dict[str, Any]) -> None:
        super()._configure(superset, proxied_clickhouse, flink)
        file = self.home / "weir.yaml"
        file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "kafka": self.kafka}))

    def login_of(self, probe: str) -> list[str]:
        return ["--config", str(self.agent)]


def bombs(address: str, properties: dict[str, str]) -> list[str]:
    """Send a message that is large once decompressed to a topic of the probe, in each codec; Kafka's answers."""
    answers: list[str] = []

    def answered(error: KafkaError | None, _message: Message) -> None:
        answers.append("written" if error is None else error.name())

    for codec in CODECS:
        large = {"compression.type": codec, "message.max.bytes": 1_000_000_000, "message.timeout.ms": 120_000}
        producer = Producer({"bootstrap.servers": address, **properties, **large})
        producer.produce("weir.flows.border", bytes(OCTETS[codec]), partition=0, on_delivery=answered)
        producer.flush(150)
    return answers


def has_stored(stack: RunningStack, packets: int) -> bool:
    """Whether the store has so many packets of the probe."""
    return bool(stack.sums("border")["packets"] == packets)


def topics(address: str, properties: dict[str, Any]) -> list[str] | None:
    """The topics that a client sees; none if it does not get in."""
    client = AdminClient({"bootstrap.servers": address, "log_level": 0, **properties}, logger=None)
    try:
        return list(client.list_topics(timeout=8).topics)
    except KafkaException:
        return None


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer(free_ports(1)[0])
    Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()


def test_agent_jobs_and_command_get_in_with_tokens(issuer: Issuer, tmp_path: Path) -> None:
    with broker(tmp_path, issuer) as (address, made):
        command = of_librdkafka(issuer, made, "weir.command")
        eventually(lambda: topics(address, command) is not None, "the broker answers")
        assert topics(address, of_librdkafka(issuer, made, "weir.command", "guessed")) is None
        forger = rsa.generate_private_key(65537, 2048)
        shown: dict[str, Any] = {key: value for key, value in command.items() if "oauthbearer" not in key}
        for key, seen in ((issuer.key, True), (forger, False)):
            shown["oauth_cb"] = partial(issuer.shown, "weir.command", key)
            assert (topics(address, shown) is not None) == seen

        for name, properties in (("weir.command", command), ("weir.jobs", of_java(issuer, made, "weir.jobs"))):
            lines = "".join(f"{key}={value}\n" for key, value in properties.items())
            (tmp_path / f"{name}.properties").write_text(lines)
        agent = "".join(f'"{key}" = "{value}"\n' for key, value in of_librdkafka(issuer, made, "border").items())
        kept = f'probe = "border"\n[kafka]\nbrokers = "{address}"\n[kafka.properties]\n{agent}'
        (tmp_path / "weir-probe.toml").write_text(kept)
        stack = TokenStack(address, tmp_path)
        credentials.permit_jobs(stack.stack)
        rights = [credentials._may("border", AclOperation.WRITE, ResourceType.TOPIC, of) for of in topics_of("border")]
        credentials._permit(admin(stack.stack.brokers), rights)
        issuer.asked.clear()
        port = free_ports(1)[0]
        with stack:
            stack.enrol("border")
            with collector(stack, port, tmp_path, "border"), socket.socket(type=socket.SOCK_DGRAM) as exporter:
                sent = 0
                # The second time, tokens of the first have ended, and so have the connections that nobody logged in anew.
                for number in range(2):
                    if number:
                        assert bombs(address, of_librdkafka(issuer, made, "border")) == ["written"] * len(CODECS)
                    exporter.sendto(netflow5(number, 7, 700), ("127.0.0.1", port))
                    sent += 7
                    eventually(partial(has_stored, stack, sent), f"flow {number} stored")
                    asked = {name: issuer.asked.count(name) for name in SECRETS}
                    assert all(asked.values()), asked
                    time.sleep(VALID_S + 5)
            log = (stack.home / "logs/flink.log").read_text()
            skipped = log.count("skipped weir.flows.border-0")
            assert skipped >= len(CODECS), log[-2000:]
            assert "OutOfMemory" not in log
            assert issuer.asked.count("border") > 1
            assert issuer.asked.count("weir.jobs") > 1
