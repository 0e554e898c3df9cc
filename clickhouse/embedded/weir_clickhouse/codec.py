"""Compression of bodies, by a request's Content-Encoding and Accept-Encoding.

A body may hold several frames in sequence (some client libraries write them); each decoder here reads them all and
detects a truncated last one. Memory stays bounded whatever the ratio: output comes in pieces.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import lz4.frame
import zstandard

from .errors import ServerError

#: Input is fed to the decoders in slices of this size where they cannot bound their output themselves: zstd's largest
#: ratio is some 1:32000, so a slice gives at most 64 MiB.
_SLICE = 2048
#: Pieces of output, octets.
_PIECE = 1 << 20


class _Frame(Protocol):
    """Decoder of one frame."""

    def feed(self, data: bytes) -> Iterator[bytes]: ...
    @property
    def rest(self) -> bytes | None:
        """The octets after the frame's end; None while it has not ended."""


class _Zlib:
    def __init__(self, window: int) -> None:
        self._decoder = zlib.decompressobj(window)

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            yield self._decoder.decompress(data, _PIECE)
            data = self._decoder.unconsumed_tail

    @property
    def rest(self) -> bytes | None:
        return self._decoder.unused_data if self._decoder.eof else None


class _Lz4:
    def __init__(self) -> None:
        self._decoder = lz4.frame.LZ4FrameDecompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield self._decoder.decompress(data, _PIECE)
        while not self._decoder.eof and not self._decoder.needs_input:
            yield self._decoder.decompress(b"", _PIECE)

    @property
    def rest(self) -> bytes | None:
        return (self._decoder.unused_data or b"") if self._decoder.eof else None


class _Zstd:
    def __init__(self) -> None:
        self._decoder = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield self._decoder.decompress(data)

    @property
    def rest(self) -> bytes | None:
        return self._decoder.unused_data if self._decoder.eof else None


_DECODERS: dict[str, tuple[Callable[[], _Frame], int]] = {
    "gzip": (lambda: _Zlib(31), 1 << 16),
    "deflate": (lambda: _Zlib(15), 1 << 16),
    "lz4": (_Lz4, 1 << 16),
    "zstd": (_Zstd, _SLICE),
}


def decode(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The octets that `pieces` hold under a Content-Encoding.

    Raises ServerError 48 for an unknown encoding, 271 for a broken or a cut body.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return iter(pieces)
    if encoding not in _DECODERS:
        raise ServerError(48, f"Unknown compression method {encoding}: this server reads gzip, deflate, lz4 and zstd")
    return _decode(pieces, encoding)


def _decode(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    make, step = _DECODERS[encoding]
    frame: _Frame | None = None
    try:
        for piece in pieces:
            for at in range(0, len(piece), step):
                data: bytes | None = piece[at : at + step]
                while data:
                    frame = frame or make()
                    for out in frame.feed(data):
                        if out:
                            yield out
                    data = frame.rest
                    if data is not None:
                        frame = None
    except (zlib.error, RuntimeError, zstandard.ZstdError, EOFError) as error:
        raise ServerError(271, f"Cannot decompress the body as {encoding}: {error}") from None
    if frame is not None:
        raise ServerError(271, f"Cannot decompress the body as {encoding}: it ends in the middle of a frame")


class Encoder(Protocol):
    """Compresses a response."""

    def encode(self, data: bytes) -> bytes: ...
    def finish(self) -> bytes: ...


class Identity:
    """No compression."""

    def encode(self, data: bytes) -> bytes:
        return data

    def finish(self) -> bytes:
        return b""


class _ZlibEncoder:
    def __init__(self, window: int) -> None:
        self._encoder = zlib.compressobj(1, zlib.DEFLATED, window)

    def encode(self, data: bytes) -> bytes:
        return self._encoder.compress(data)

    def finish(self) -> bytes:
        return self._encoder.flush()


class _Lz4Encoder:
    def __init__(self) -> None:
        self._encoder = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX256KB, auto_flush=True)
        self._begun = False

    def encode(self, data: bytes) -> bytes:
        head = b"" if self._begun else bytes(self._encoder.begin())
        self._begun = True
        return head + bytes(self._encoder.compress(data))

    def finish(self) -> bytes:
        head = b"" if self._begun else bytes(self._encoder.begin())
        return head + bytes(self._encoder.flush())


class _ZstdEncoder:
    def __init__(self) -> None:
        self._encoder = zstandard.ZstdCompressor(level=1).compressobj()

    def encode(self, data: bytes) -> bytes:
        return self._encoder.compress(data)

    def finish(self) -> bytes:
        return self._encoder.flush()


_ENCODERS: dict[str, Callable[[], Encoder]] = {
    "lz4": _Lz4Encoder,
    "zstd": _ZstdEncoder,
    "gzip": lambda: _ZlibEncoder(31),
    "deflate": lambda: _ZlibEncoder(15),
}


def choose(accept: str) -> str | None:
    """The encoding for a response, the cheapest of those that an Accept-Encoding header admits; None if it admits none."""
    offered = set()
    for item in accept.lower().split(","):
        name, _, parameter = item.partition(";")
        if parameter.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            offered.add(name.strip())
    return next((name for name in _ENCODERS if name in offered), None)


def encoder(encoding: str | None) -> Encoder:
    """The encoder of an encoding that `choose` returned."""
    return _ENCODERS[encoding]() if encoding else Identity()
