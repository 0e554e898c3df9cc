"""Kafka's addresses, and the properties by which a client of this command logs in there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir.errors import WeirError


@dataclass(frozen=True)
class Brokers:
    """addresses: host:port, separated by commas. login: properties of librdkafka."""

    addresses: str
    login: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.addresses

    def client(self, properties: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The properties of a client that logs in, and these."""
        return {"bootstrap.servers": self.addresses, "log_level": 0, **self.login, **(properties or {})}


def read_properties(path: Path) -> dict[str, str]:
    """A file with one `key=value` on each line; empty lines, and lines that begin with #, mean nothing.

    Raises WeirError if the file cannot be read, or a line holds no `=`.
    """
    try:
        lines = [line.strip() for line in path.read_text().splitlines()]
    except OSError as error:
        raise WeirError(f"cannot read {path}: {error.strerror}") from error
    found = {}
    for number, line in enumerate(lines, 1):
        if line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            if not equals:
                raise WeirError(f"{path}: line {number} is not key=value")
            found[key.strip()] = value.strip()
    return found
