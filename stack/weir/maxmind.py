"""Databases of addresses in MaxMind's format."""

from __future__ import annotations

import ipaddress
import time
from pathlib import Path
from typing import Any

# Kinds of values in the format.
_STRING, _UINT16, _UINT32, _MAP, _UINT64, _ARRAY = 2, 5, 6, 7, 9, 11


def address_file(path: Path, places: dict[str, dict[str, Any]], about: str) -> Path:
    """Write the data of prefixes, none inside another, in MaxMind's database format, version 2.0; `about` describes them."""
    nodes: list[list[int | str | None]] = [[None, None]]
    data, offsets = b"", {}
    for prefix, said in places.items():
        network = ipaddress.ip_network(prefix)
        bits = network.prefixlen + (96 if network.version == 4 else 0)
        node = 0
        for bit in range(bits):
            side = int(network.network_address) >> (127 - bit) & 1
            if bit == bits - 1:
                nodes[node][side] = prefix
            else:
                if nodes[node][side] is None:
                    nodes[node][side] = len(nodes)
                    nodes.append([None, None])
                child = nodes[node][side]
                assert isinstance(child, int)
                node = child
        offsets[prefix] = len(data)
        data += _encoded(said)

    def pointer(child: int | str | None) -> int:
        if child is None:
            return len(nodes)
        return child if isinstance(child, int) else len(nodes) + 16 + offsets[child]

    tree = b"".join(pointer(child).to_bytes(3, "big") for node in nodes for child in node)
    described = {
        "node_count": len(nodes),
        "record_size": (_UINT16, 24),
        "ip_version": (_UINT16, 6),
        "database_type": "Weir",
        "languages": [],
        "binary_format_major_version": (_UINT16, 2),
        "binary_format_minor_version": (_UINT16, 0),
        "build_epoch": (_UINT64, int(time.time())),
        "description": {"en": about},
    }
    path.write_bytes(tree + bytes(16) + data + b"\xab\xcd\xefMaxMind.com" + _encoded(described))
    return path


def _encoded(value: Any) -> bytes:
    """A value of the format's data section; a number is a uint32 unless its kind precedes it."""
    if isinstance(value, dict):
        return _control(_MAP, len(value)) + b"".join(_encoded(part) for item in value.items() for part in item)
    if isinstance(value, list):
        return _control(_ARRAY, len(value)) + b"".join(map(_encoded, value))
    if isinstance(value, str):
        return _control(_STRING, len(value.encode())) + value.encode()
    kind, number = value if isinstance(value, tuple) else (_UINT32, value)
    octets: bytes = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return _control(kind, len(octets)) + octets


def _control(kind: int, size: int) -> bytes:
    """The control bytes: the kind and length of the value that follows."""
    short, more = (size, b"") if size < 29 else (29, bytes([size - 29]))
    return bytes([kind << 5 | short]) + more if kind < 8 else bytes([short, kind - 7]) + more
