"""Logs in to a stack's Kafka as a probe does, without its agent."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
import tomllib
from pathlib import Path
from typing import Any


def login(bundle: Path) -> dict[str, Any]:
    """Properties of librdkafka that do what the bundle says."""
    found = tomllib.loads(bundle.read_text())
    return {
        "bootstrap.servers": found["brokers"],
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": found["user"],
        "sasl.password": found["password"],
        "ssl.ca.pem": found["authority"],
        "log_level": 0,
        "socket.timeout.ms": 8_000,
    }


class RawLogin:
    """A connection that has logged in by SCRAM-SHA-512 (RFC 5802), on which a test sends what no client would."""

    def __init__(self, bundle: Path, source: str) -> None:
        found = tomllib.loads(bundle.read_text())
        host, port = found["brokers"].rsplit(":", 1)
        checked = ssl.create_default_context(cadata=found["authority"])
        checked.check_hostname = False
        plain = socket.create_connection((host, int(port)), 60, (source, 0))
        self.socket = checked.wrap_socket(plain)
        mechanism = b"SCRAM-SHA-512"
        self._ask(17, 1, struct.pack(">h", len(mechanism)) + mechanism)
        nonce = secrets.token_hex(12)
        first = f"n={found['user']},r={nonce}"
        challenge = self._authenticate(f"n,,{first}")
        said = dict(part.split("=", 1) for part in challenge.split(","))
        salted = hashlib.pbkdf2_hmac("sha512", found["password"].encode(), base64.b64decode(said["s"]), int(said["i"]))
        final = f"c=biws,r={said['r']}"
        key = hmac.digest(salted, b"Client Key", "sha512")
        proof = hmac.digest(hashlib.sha512(key).digest(), f"{first},{challenge},{final}".encode(), "sha512")
        proven = base64.b64encode(bytes(a ^ b for a, b in zip(key, proof, strict=True))).decode()
        self._authenticate(f"{final},p={proven}")

    def _authenticate(self, message: str) -> str:
        answer = self._ask(36, 1, struct.pack(">i", len(message)) + message.encode())
        error, text = struct.unpack_from(">hh", answer)
        if error:
            raise PermissionError(answer[4 : 4 + text].decode())
        at = 4 + max(text, 0)
        (length,) = struct.unpack_from(">i", answer, at)
        return answer[at + 4 : at + 4 + length].decode()

    def _ask(self, api: int, version: int, body: bytes) -> bytes:
        """The body of the answer to a request of the binary protocol."""
        request = struct.pack(">hhih", api, version, 1, -1) + body
        self.socket.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", self._read(4))
        return self._read(length)[4:]

    def _read(self, length: int) -> bytes:
        read = b""
        while len(read) < length:
            part = self.socket.recv(length - len(read))
            if not part:
                raise ConnectionError("the broker closed the connection")
            read += part
        return read

    def begin(self, octets: int) -> None:
        """Announce a request of this length, and send none of it but its first octet."""
        self.socket.sendall(struct.pack(">i", octets) + b"\0")

    def close(self) -> None:
        self.socket.close()
