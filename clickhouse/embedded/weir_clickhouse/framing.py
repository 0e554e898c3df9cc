"""ClickHouse's own compression frames: `decompress=1` in requests, `compress=1` in responses.

A frame is a checksum (CityHash128 of ClickHouse's old version, 16 octets) of what follows: method (0x82 LZ4, 0x90 ZSTD,
0x02 none), size with these nine octets and size without compression (both 32 bits, little endian), data.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import lz4.block
import zstandard
from clickhouse_cityhash.cityhash import CityHash128

from .errors import ServerError

_HEAD = struct.Struct("<BII")
_NONE, _LZ4, _ZSTD = 0x02, 0x82, 0x90
#: Maximum size of a frame; ClickHouse itself accepts 1 GiB (DBMS_DEFAULT_MAX_COMPRESSED_SIZE), but clients send at most some MiB.
_LARGEST = 1 << 28
_BLOCK = 1 << 20


def _checksum(data: bytes) -> bytes:
    number: int = CityHash128(data)
    # The library gives the low word in the upper half.
    return struct.pack("<QQ", number >> 64, number & (1 << 64) - 1)


def decode(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The octets in the frames of `pieces`; raises ServerError 271 for a broken or a cut frame."""
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        while len(buffer) >= 16 + _HEAD.size:
            method, size, plain = _HEAD.unpack_from(buffer, 16)
            if not _HEAD.size <= size <= _LARGEST or plain > _LARGEST:
                raise ServerError(271, f"Cannot decompress: a frame of {size} octets claims to hold {plain} octets")
            if len(buffer) < 16 + size:
                break
            body = bytes(buffer[16 : 16 + size])
            if bytes(buffer[:16]) != _checksum(body):
                raise ServerError(271, "Cannot decompress: checksum of a frame doesn't match")
            del buffer[: 16 + size]
            out = _inflate(method, body[_HEAD.size :], plain)
            if len(out) != plain:
                raise ServerError(271, "Cannot decompress: a frame is not of the size it states")
            yield out
    if buffer:
        raise ServerError(271, "Cannot decompress: the body ends in the middle of a frame")


def _inflate(method: int, data: bytes, plain: int) -> bytes:
    try:
        if method == _LZ4:
            return bytes(lz4.block.decompress(data, uncompressed_size=plain))
        if method == _ZSTD:
            return zstandard.ZstdDecompressor().decompress(data, max_output_size=plain)
        if method == _NONE:
            return data
    except (lz4.block.LZ4BlockError, zstandard.ZstdError) as error:
        raise ServerError(271, f"Cannot decompress a frame: {error}") from None
    raise ServerError(271, f"Unknown codec family code: {method}")


class FrameEncoder:
    """Writes LZ4 frames of at most 1 MiB each; an `Encoder` of `codec`."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def encode(self, data: bytes) -> bytes:
        self._buffer += data
        out = bytearray()
        while len(self._buffer) >= _BLOCK:
            out += _frame(bytes(self._buffer[:_BLOCK]))
            del self._buffer[:_BLOCK]
        return bytes(out)

    def finish(self) -> bytes:
        out = _frame(bytes(self._buffer)) if self._buffer else b""
        self._buffer.clear()
        return out


def _frame(plain: bytes) -> bytes:
    packed: bytes = lz4.block.compress(plain, store_size=False)
    body = _HEAD.pack(_LZ4, len(packed) + _HEAD.size, len(plain)) + packed
    return bytes(_checksum(body) + body)
