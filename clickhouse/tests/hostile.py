"""Hostile clients of the store, many at once, for `test_availability.py` and `make bench-availability`.

`python hostile.py HOST PORT CONNECTIONS SECONDS USER PASSWORD` holds so many connections open for so long, and opens a
new one for each that the store closes. Most of them never log in; the others are a customer's, with the password given.
Prints one line of JSON: connections opened by kind, and the answers' status codes by kind.
"""

from __future__ import annotations

import asyncio
import collections
import json
import random
import sys
import time
from contextlib import suppress

#: Kinds of connections, and how many of 100 are of each.
KINDS = {
    "silent": 20,  # nothing is sent
    "half a head": 35,  # a head that grows by an octet now and then
    "half a body": 15,  # of a request that needs no login
    "wrong password": 10,  # with a body of 1 GiB to come
    "customer's half body": 12,
    "customer's heavy statement": 8,
}
#: Seconds between two octets, and between the end of a connection and the next one in its place.
_DRIP, _PAUSE = 2.0, 0.5
_HEAVY = b"SELECT uniqExact(a.number, b.number, sipHash64(toString(a.number + b.number))) FROM numbers(100000) AS a CROSS JOIN numbers(10000) AS b"


def begin(kind: str, user: str, password: str) -> tuple[bytes, bytes]:
    """What a connection of this kind sends at first, and then again and again."""

    def post(key: str, length: int) -> bytes:
        return f"POST / HTTP/1.1\r\nHost: x\r\nX-ClickHouse-User: {user}\r\nX-ClickHouse-Key: {key}\r\nContent-Length: {length}\r\n\r\n".encode()

    return {
        "silent": (b"", b""),
        "half a head": (b"POST /?query=SELECT HTTP/1.1\r\nHost: x\r\nX-A: ", b"a"),
        "half a body": (b"POST /ping HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx", b"x"),
        "wrong password": (post("wrong", 1 << 30) + b"SELECT ", b"1"),
        "customer's half body": (post(password, 1000) + b"SELECT 1", b" "),
        "customer's heavy statement": (post(password, len(_HEAVY)) + _HEAVY, b""),
    }[kind]


async def attack(host: str, port: int, connections: int, seconds: float, user: str, password: str) -> dict[str, dict[str, int]]:
    """Hold the connections; returns what the docstring above says."""
    opened: collections.Counter[str] = collections.Counter()
    answers: collections.Counter[str] = collections.Counter()
    end = time.monotonic() + seconds
    kinds = [kind for kind, share in KINDS.items() for _ in range(share)]

    async def one(number: int) -> None:
        kind = kinds[number % 100]
        first, again = begin(kind, user, password)
        # Not all of them in the same moment.
        await asyncio.sleep(random.random() * 2)
        while time.monotonic() < end:
            with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                await _held(kind, first, again)
            await asyncio.sleep(_PAUSE * (1 + random.random()))

    async def _held(kind: str, first: bytes, again: bytes) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        opened[kind] += 1
        try:
            writer.write(first)
            while time.monotonic() < end:
                try:
                    line = await asyncio.wait_for(reader.read(12), _DRIP)
                except TimeoutError:
                    writer.write(again)
                    continue
                if line:
                    answers[f"{kind}: {line[9:].decode(errors='replace')}"] += 1
                return
        finally:
            writer.close()

    await asyncio.gather(*(one(number) for number in range(connections)))
    return {"opened": dict(opened), "answers": dict(answers)}


if __name__ == "__main__":
    place, number, many, long, name, secret = sys.argv[1:]
    print(json.dumps(asyncio.run(attack(place, int(number), int(many), float(long), name, secret))))
