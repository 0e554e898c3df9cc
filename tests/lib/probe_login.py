"""Logs in to a stack's Kafka as a probe does, without its agent."""

from __future__ import annotations

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
