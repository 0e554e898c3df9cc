"""Bodies: compressed, chunked, truncated, framed; the tests compare stored rows with those sent."""

from __future__ import annotations

import gzip
import random
import socket
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import lz4.frame
import pytest
import zstandard
from conftest import Server
from weir_clickhouse import framing

ROWS = 200_000


def _tsv(first: int, last: int) -> bytes:
    return b"".join(b"%d\tvalue %d\n" % (n, n * 7919) for n in range(first, last))


def _frames(compress: Callable[[bytes], bytes], frames: int) -> bytes:
    """The rows in several frames, cut in the middle of rows."""
    plain = _tsv(0, ROWS)
    step = len(plain) // frames + 1
    return b"".join(compress(plain[at : at + step]) for at in range(0, len(plain), step))


def _unsized_zstd(data: bytes) -> bytes:
    encoder = zstandard.ZstdCompressor().compressobj()
    return encoder.compress(data) + encoder.flush()


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "lz4": lz4.frame.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.fixture
def table(server: Server, database: str) -> str:
    name = f"{database}.t"
    server.sql(f"CREATE TABLE {name} (a UInt64, b String) ENGINE = MergeTree ORDER BY a")
    return name


def _stored(server: Server, table: str) -> str:
    return server.sql(f"SELECT count(), sum(a), uniqExact(a), sum(b = 'value ' || toString(a * 7919)) FROM {table}")


EXPECTED = f"{ROWS}\t{ROWS * (ROWS - 1) // 2}\t{ROWS}\t{ROWS}"


def _pieces(data: bytes, seed: int) -> Iterator[bytes]:
    """The body in chunks of all sizes."""
    dice = random.Random(seed)
    at = 0
    while at < len(data):
        size = dice.choice([1, 7, 300, 4096, 65536, 1 << 20])
        yield data[at : at + size]
        at += size


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("frames", [1, 13])
@pytest.mark.parametrize("encoding", [*COMPRESS, "zstd without sizes"])
def test_every_compression_with_several_frames(server: Server, table: str, encoding: str, frames: int, chunked: bool) -> None:
    compress = COMPRESS.get(encoding, _unsized_zstd)
    body = _frames(compress, frames)
    headers = {"Content-Encoding": encoding.split(maxsplit=1)[0]}
    server.ask(_pieces(body, frames) if chunked else body, headers=headers, query=f"INSERT INTO {table} FORMAT TSV", ok=True)
    assert _stored(server, table) == EXPECTED


@pytest.mark.parametrize("encoding", COMPRESS)
def test_a_statement_inside_a_compressed_body(server: Server, table: str, encoding: str) -> None:
    body = COMPRESS[encoding](f"INSERT INTO {table} (a, b) FORMAT TSV\n".encode()) + _frames(COMPRESS[encoding], 3)
    server.ask(_pieces(body, 5), headers={"Content-Encoding": encoding}, ok=True)
    assert _stored(server, table) == EXPECTED


@pytest.mark.parametrize("encoding", COMPRESS)
@pytest.mark.parametrize("kind", ["cut", "broken"])
def test_a_bad_compressed_body_is_not_acknowledged(server: Server, table: str, encoding: str, kind: str) -> None:
    body = bytearray(_frames(COMPRESS[encoding], 3))
    if kind == "cut":
        del body[-20:]
    else:
        body[: len(body) // 2] = bytes(len(body) // 2)
    answer = server.ask(bytes(body), headers={"Content-Encoding": encoding}, query=f"INSERT INTO {table} FORMAT TSV")
    assert answer.status >= 400
    assert answer.code
    assert server.sql(f"SELECT count() FROM {table}") == "0"


@pytest.mark.embedded
def test_an_unknown_encoding_is_said_so(server: Server, table: str) -> None:
    answer = server.ask(b"x", headers={"Content-Encoding": "snappy-ish"}, query=f"INSERT INTO {table} FORMAT TSV")
    assert (answer.status, answer.code) == (501, 48)


DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    "lz4": lz4.frame.decompress,
    "zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}


@pytest.mark.parametrize("rows", [3, 500_000])
@pytest.mark.parametrize("encoding", DECOMPRESS)
def test_compressed_answers(server: Server, encoding: str, rows: int) -> None:
    answer = server.ask(
        f"SELECT number FROM numbers({rows})", headers={"Accept-Encoding": encoding}, enable_http_compression=1, ok=True
    )
    assert answer.headers["content-encoding"] == encoding
    assert DECOMPRESS[encoding](answer.body) == b"".join(b"%d\n" % n for n in range(rows))
    plain = server.ask("SELECT 1", headers={"Accept-Encoding": encoding}, enable_http_compression=0, ok=True)
    assert "content-encoding" not in plain.headers


@pytest.mark.parametrize("rows", [3, 500_000])
def test_clickhouses_own_frames(server: Server, table: str, rows: int) -> None:
    answer = server.ask(f"SELECT number, 'value ' || toString(number * 7919) FROM numbers({rows})", compress=1, ok=True)
    plain = b"".join(framing.decode(iter([answer.body])))
    assert plain == _tsv(0, rows)
    server.ask(_pieces(answer.body, 3), query=f"INSERT INTO {table} FORMAT TSV", decompress=1, ok=True)
    assert server.sql(f"SELECT count() FROM {table}") == str(rows)


@pytest.mark.embedded
@pytest.mark.parametrize("codec", ["LZ4", "ZSTD(1)", "NONE"])
def test_frames_are_those_of_the_engine(server: Server, database: str, codec: str) -> None:
    """The engine stores a column on disk in the same frames: the test reads them, including the checksums."""
    server.sql(
        f"CREATE TABLE {database}.f (a UInt64 CODEC({codec})) ENGINE = MergeTree ORDER BY tuple() SETTINGS min_bytes_for_wide_part = 0"
    )
    server.sql(f"INSERT INTO {database}.f SELECT number FROM numbers(100000)")
    folder = server.sql(f"SELECT path FROM system.parts WHERE database = '{database}' AND active")
    data = b"".join(framing.decode(iter([(Path(folder) / "a.bin").read_bytes()])))
    assert data == b"".join(n.to_bytes(8, "little") for n in range(100_000))


def test_a_wrong_checksum_is_refused(server: Server, table: str) -> None:
    body = bytearray(server.ask("SELECT number, 'x' FROM numbers(100)", compress=1, ok=True).body)
    body[30] ^= 1
    assert server.ask(bytes(body), query=f"INSERT INTO {table} FORMAT TSV", decompress=1).status >= 400
    assert server.sql(f"SELECT count() FROM {table}") == "0"


@pytest.mark.parametrize(
    "name",
    [
        "Native",
        "RowBinary",
        "JSONEachRow",
        "CSV",
        "TSV",
        "ArrowStream",
        "Arrow",
        "Parquet",
        "Values",
        "RowBinaryWithNamesAndTypes",
    ],
)
def test_insert_formats(server: Server, table: str, name: str) -> None:
    rows = server.ask(f"SELECT number AS a, 'value ' || toString(number * 7919) AS b FROM numbers({ROWS}) FORMAT {name}", ok=True)
    sql = f"INSERT INTO {table} VALUES " if name == "Values" else f"INSERT INTO {table} (a, b) FORMAT {name}\n"
    server.ask(_pieces(sql.encode() + rows.body, 1), ok=True)
    assert _stored(server, table) == EXPECTED


def test_format_of_an_insert_by_header(server: Server, table: str) -> None:
    server.ask(_tsv(0, ROWS), headers={"X-ClickHouse-Format": "TabSeparated"}, query=f"INSERT INTO {table} (a, b)", ok=True)
    assert _stored(server, table) == EXPECTED


def test_insert_select(server: Server, table: str) -> None:
    server.sql(f"INSERT INTO {table} SELECT number, 'value ' || toString(number * 7919) FROM numbers({ROWS})")
    assert _stored(server, table) == EXPECTED


@pytest.mark.embedded
def test_input_is_refused_in_words(server: Server, table: str) -> None:
    """The engine's library cannot stream into INSERT ... SELECT ... FROM input()."""
    answer = server.ask(_tsv(0, 9), query=f"INSERT INTO {table} SELECT a, b FROM input('a UInt64, b String') FORMAT TSV")
    assert (answer.status, answer.code) == (501, 48)
    assert "input()" in answer.text


def test_summary_counts_written_rows(server: Server, table: str) -> None:
    answer = server.ask(_tsv(0, 1000), query=f"INSERT INTO {table} FORMAT TSV", ok=True)
    assert '"written_rows":"1000"' in answer.headers["x-clickhouse-summary"]


def test_an_error_in_mid_body_acknowledges_nothing(server: Server, table: str) -> None:
    answer = server.ask(_tsv(0, 50_000) + b"not a number\tx\n" + _tsv(0, 50_000), query=f"INSERT INTO {table} FORMAT TSV")
    assert answer.status == 400
    assert answer.code == 27
    assert server.sql(f"SELECT count() FROM {table}") == "0"


@pytest.mark.parametrize("chunked", [False, True])
def test_a_client_that_goes_away_in_mid_body(server: Server, table: str, chunked: bool) -> None:
    import base64

    name, password = server.admin
    token = base64.b64encode(f"{name}:{password}".encode()).decode()
    with socket.create_connection((server.host, server.port), timeout=60) as raw:
        length = "Transfer-Encoding: chunked" if chunked else "Content-Length: 1000000"
        raw.sendall(
            f"POST /?query=INSERT%20INTO%20{table}%20FORMAT%20TSV HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Basic {token}\r\n{length}\r\n\r\n".encode()
        )
        rows = _tsv(0, 5000)
        raw.sendall(b"%x\r\n%s\r\n" % (len(rows), rows) if chunked else rows)
    # The next statement comes after the end of this one, which stops at the end of its input.
    import time

    time.sleep(0.5)
    assert server.sql(f"SELECT count() FROM {table}") == "0"


@pytest.mark.parametrize("bad", [b"zz\r\nabc\r\n", b"5\r\nabcdefgh\r\n0\r\n\r\n", b"-5\r\nabc\r\n"])
def test_bad_chunks(server: Server, bad: bytes) -> None:
    import base64

    name, password = server.admin
    token = base64.b64encode(f"{name}:{password}".encode()).decode()
    with socket.create_connection((server.host, server.port), timeout=60) as raw:
        raw.sendall(
            f"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {token}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + bad
        )
        assert raw.recv(100).split(b" ")[1] in (b"400", b"500")


@pytest.mark.embedded
def test_a_body_beyond_the_limit(own_server: Callable[..., Server]) -> None:
    server = own_server("--max-body", "1M")
    server.sql("CREATE DATABASE d")
    server.sql("CREATE TABLE d.t (a UInt64, b String) ENGINE = Memory")
    long = _tsv(0, 100_000)
    for body in (long, _pieces(long, 1), None):
        headers = {} if body else {"Content-Encoding": "zstd"}
        answer = server.ask(
            body or zstandard.ZstdCompressor().compress(bytes(50 << 20)), headers=headers, query="INSERT INTO d.t FORMAT TSV"
        )
        assert (answer.status, answer.code) == (413, 307)
    assert server.sql("SELECT count() FROM d.t") == "0"
