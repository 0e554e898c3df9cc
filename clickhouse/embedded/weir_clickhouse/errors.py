"""Errors as ClickHouse words them, and the HTTP status that each code has."""

from __future__ import annotations

import re

#: Codes that the front raises itself; the engine names the others.
NAMES = {
    33: "CANNOT_READ_ALL_DATA",
    36: "BAD_ARGUMENTS",
    48: "NOT_IMPLEMENTED",
    62: "SYNTAX_ERROR",
    75: "CANNOT_WRITE_TO_FILE_DESCRIPTOR",
    81: "UNKNOWN_DATABASE",
    102: "UNEXPECTED_PACKET_FROM_CLIENT",
    108: "NO_DATA_TO_INSERT",
    115: "UNKNOWN_SETTING",
    117: "INCORRECT_DATA",
    164: "READONLY",
    201: "QUOTA_EXCEEDED",
    202: "TOO_MANY_SIMULTANEOUS_QUERIES",
    209: "SOCKET_TIMEOUT",
    210: "NETWORK_ERROR",
    214: "CANNOT_DECOMPRESS_HTTP",
    241: "MEMORY_LIMIT_EXCEEDED",
    271: "CANNOT_DECOMPRESS",
    307: "TOO_MANY_BYTES",
    344: "SUPPORT_IS_DISABLED",
    372: "SESSION_NOT_FOUND",
    373: "SESSION_IS_LOCKED",
    374: "INVALID_SESSION_TIMEOUT",
    394: "QUERY_WAS_CANCELLED",
    497: "ACCESS_DENIED",
    516: "AUTHENTICATION_FAILED",
    1001: "STD_EXCEPTION",
}

_STATUS = {194: 401, 192: 403, 193: 403, 516: 403, 482: 403, 48: 501, 209: 503, 202: 503, 381: 411, 307: 413}
_STATUS.update(dict.fromkeys((6, 25, 26, 27, 33, 38, 41, 53, 62, 72, 102, 108, 117, 167, 168, 457), 400))
_STATUS.update(dict.fromkeys((46, 47, 50, 56, 60, 63, 73, 78, 81, 106, 115, 336), 404))

_NESTED = re.compile(
    r"Code: \d+\. DB::Exception: (Code: \d+\. DB::Exception: .*\([A-Z_0-9]+\))(?: \(version [^)]*\))?\.? ?\([A-Z_0-9]+\)$",
    re.DOTALL,
)
_CODE = re.compile(r"Code: (\d+)\. ")


def http_status(code: int) -> int:
    """The HTTP status a ClickHouse server answers an error with."""
    return _STATUS.get(code, 500)


class ServerError(Exception):
    """An error for the client: `code` is ClickHouse's, `str()` the whole text without the version."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"Code: {code}. DB::Exception: {message.rstrip('.')}. ({NAMES[code]})")
        self.code = code

    @classmethod
    def from_engine(cls, text: str) -> ServerError:
        """The error for the engine's text; code 1001 if the text names none."""
        found = _CODE.search(text)
        error = cls.__new__(cls)
        if found:
            text = text[found.start() :].strip()
            # The engine repeats the same words around an error of one of its own threads.
            inner = _NESTED.match(text)
            if inner:
                text = inner[1]
            Exception.__init__(error, text)
            error.code = int(found[1])
        else:
            Exception.__init__(error, f"Code: 1001. DB::Exception: {text.strip()}. (STD_EXCEPTION)")
            error.code = 1001
        return error
