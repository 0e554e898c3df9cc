"""The body of a request, undecoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from . import metrics
from .connections import Stream
from .errors import ServerError

#: Maximum octets of a body that are read at once.
_PIECE = 1 << 20


class Body:
    """The body of a request, in pieces, as sent; raises if it is truncated or too large."""

    def __init__(self, req: Any, largest: int) -> None:
        self._file: Stream = req.conn.rfile
        self._chunked: bool = req.chunked_read
        self._left = 0 if self._chunked else int(req.inheaders.get(b"Content-Length", 0))
        self._largest, self._seen = largest, 0
        self._broken = False
        self.ended = not self._chunked and not self._left
        if self._left < 0:
            raise ServerError(102, "Content-Length is below 0")

    def check(self) -> None:
        """Raise if the body is known to be too large."""
        if self._left > self._largest:
            raise self._too_large()

    def _too_large(self) -> ServerError:
        metrics.refused.labels("body_too_large").inc()
        return ServerError(307, f"The request's body is larger than the limit of {self._largest} octets")

    def _too_slow(self) -> ServerError:
        self._broken = True
        metrics.refused.labels("too_slow").inc()
        return ServerError(209, "Timeout exceeded while reading the request's body: it arrived too slowly")

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self._left and self._chunked and not self.ended:
            self._next_chunk()
        if self.ended or not self._left:
            self.ended = True
            raise StopIteration
        try:
            # read1 returns what has arrived, so that a slow sender's rows are passed on at once.
            piece: bytes = self._file.read1(min(_PIECE, self._left))
        except TimeoutError:
            raise self._too_slow() from None
        except OSError as error:
            raise ServerError(210, f"The body could not be read: {error}") from None
        if not piece:
            raise ServerError(210, "The client closed the connection in the middle of the body")
        self._left -= len(piece)
        self._seen += len(piece)
        metrics.octets_in.inc(len(piece))
        if not self._left:
            if self._chunked:
                if self._line() != b"":
                    self._broken = True
                    raise ServerError(102, "Chunked body: a chunk is longer than its stated size")
            else:
                self.ended = True
        return piece

    def _next_chunk(self) -> None:
        # Unless the chunk's size is valid, nothing more can be read from this body.
        self._broken = True
        text = self._line().split(b";")[0].strip()
        try:
            if not text or not set(text) <= set(b"0123456789abcdefABCDEF"):
                raise ValueError
            self._left = int(text, 16)
        except ValueError:
            raise ServerError(102, f"Chunked body: not a size: {text[:20]!r}") from None
        if not self._left:
            while self._line():
                pass
            self.ended = True
        self._broken = False
        if self._seen + self._left > self._largest:
            raise self._too_large()

    def _line(self) -> bytes:
        try:
            line: bytes = self._file.readline(4096)
        except TimeoutError:
            raise self._too_slow() from None
        except OSError as error:
            raise ServerError(210, f"The body could not be read: {error}") from None
        if not line.endswith(b"\n"):
            raise ServerError(210, "The client closed the connection in the middle of the body")
        return line.rstrip(b"\r\n")

    def drain(self, octets: int) -> bool:
        """Discard the rest of the body, as far as it has arrived and up to `octets`; returns whether the body has
        ended.
        """
        if self._broken:
            return False
        self._largest = 1 << 62
        self._file.allow(0)
        with suppress(ServerError):
            for piece in self:
                octets -= len(piece)
                if octets < 0:
                    break
        return self.ended


def bounded(pieces: Iterable[bytes], largest: int) -> Iterator[bytes]:
    """Passes the pieces on; raises an error once they exceed `largest` octets together."""
    seen = 0
    for piece in pieces:
        seen += len(piece)
        if seen > largest:
            metrics.refused.labels("body_too_large").inc()
            raise ServerError(307, f"The request's body is larger than the limit of {largest} octets")
        yield piece
