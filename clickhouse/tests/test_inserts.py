"""Acknowledged rows are stored exactly once: with concurrent inserts, repeats, and kill -9."""

from __future__ import annotations

import http.client
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from conftest import Server, stop


def _insert(server: Server, table: str, first: int, rows: int, **params: object) -> None:
    body = b"".join(b"%d\t%d\n" % (n, n * 3) for n in range(first, first + rows))
    server.ask(body, query=f"INSERT INTO {table} FORMAT TSV", ok=True, **params)  # type: ignore[arg-type]


def test_eight_threads(server: Server, database: str) -> None:
    """Threads mix inserts, reads and failures; the settings of one request do not apply to another."""
    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} (a UInt64, b UInt64) ENGINE = MergeTree ORDER BY a")

    def work(thread: int) -> int:
        for turn in range(12):
            _insert(server, table, (thread * 12 + turn) * 1000, 1000)
            assert server.sql("SELECT getSetting('max_block_size')", max_block_size=1000 + thread) == str(1000 + thread)
            assert server.ask("SELECT nothing").code == 47
            bad = server.ask(b"1\tx\n", query=f"INSERT INTO {table} FORMAT TSV")
            assert bad.code == 27
            assert int(server.sql(f"SELECT count() FROM {table}")) % 1000 == 0
        return 12_000

    with ThreadPoolExecutor(8) as pool:
        sent = sum(pool.map(work, range(8)))
    assert server.sql(f"SELECT count(), uniqExact(a), sum(b) - 3 * sum(a) FROM {table}") == f"{sent}\t{sent}\t0"


def test_an_insert_cannot_hide_from_being_stopped(server: Server, database: str) -> None:
    """If an insert's body is cut off, the server finds the insert by its log_comment and stops it."""
    server.sql(f"CREATE TABLE {database}.t (a UInt64, log_comment UInt64) ENGINE = MergeTree ORDER BY a")
    query = f"INSERT INTO {database}.t (a, log_comment) SETTINGS max_threads = 1, `log_comment` = 'x' FORMAT CSV"
    assert server.ask("1,2\n", query=query).code == 36
    server.ask("1,2\n", query=f"INSERT INTO {database}.t (a, log_comment) FORMAT CSV", ok=True, log_comment="x")
    assert server.sql(f"SELECT count() FROM {database}.t") == "1"


_FORMATS = ["Native", "Values", "CSVWithNames", "JSONEachRow", "RowBinaryWithNamesAndTypes", "Parquet", "ORC", "ArrowStream"]


@pytest.mark.parametrize("data_format", _FORMATS)
def test_every_format_that_is_read_can_be_inserted(server: Server, database: str, data_format: str) -> None:
    """Formats that need to seek in their data, too."""
    server.sql(f"CREATE TABLE {database}.t (a UInt64, s String) ENGINE = MergeTree ORDER BY a")
    rows = server.ask(query=f"SELECT number AS a, toString(number) AS s FROM numbers(50000) FORMAT {data_format}", ok=True).body
    server.ask(rows, query=f"INSERT INTO {database}.t FORMAT {data_format}", ok=True)
    assert server.sql(f"SELECT count(), sum(a), sum(s = toString(a)) FROM {database}.t") == "50000\t1249975000\t50000"


@pytest.mark.parametrize(
    ("head", "data"),
    [
        ("(a, settings) FORMAT CSV", "1,x\n"),
        ("SETTINGS max_threads = 1 FORMAT CSV", "1,x\n"),
        ("(settings, a) SETTINGS max_threads = 1 VALUES", "('x', 1);"),
        ("FORMAT Values", "(1, 'x')"),
        ("VALUES (1, 'x') ;", ""),
    ],
)
def test_clauses_may_stand_between_the_table_and_its_data(server: Server, database: str, head: str, data: str) -> None:
    """A column whose name is a keyword does not begin a clause."""
    server.sql(f"CREATE TABLE {database}.settings (a UInt64, settings String) ENGINE = MergeTree ORDER BY a")
    server.ask(data, query=f"INSERT INTO {database}.settings {head}", ok=True)
    assert server.sql(f"SELECT a, settings FROM {database}.settings") == "1\tx"


@pytest.fixture
def probes(server: Server) -> Iterator[str]:
    """A table that the writer may fill, without rows."""
    server.sql("TRUNCATE TABLE weir.probes SYNC")
    yield "weir.probes"
    server.sql("TRUNCATE TABLE weir.probes SYNC")


@pytest.mark.parametrize("user", ["admin", "writer"])
@pytest.mark.parametrize(
    "values",
    ["(1, 'x'); (2, 'y')", "(1, 'it''s; \\';'); garbage", "(1, 'x');" + " " * 2_000_000 + "(2, 'y')"],
)
def test_values_end_at_a_semicolon(server: Server, probes: str, user: str, values: str) -> None:
    """Rows after it are refused, not lost: none of the body is stored, in whichever pieces it comes."""
    table = probes
    query = f"INSERT INTO {table} (rank, probe) VALUES"
    assert server.ask(query=f"{query} {values[:1000]}{values[1000:].strip()}", user=user).code == 33
    for size in (len(values), 7):
        pieces = [values[at : at + size].encode() for at in range(0, min(len(values), 3000), size)]
        assert server.ask(iter([*pieces, values[3000:].encode()]), query=query, user=user).code == 33
    assert server.sql(f"SELECT count() FROM {table}") == "0"
    server.ask("(1, ';'), (2, 'a\\\\'), (3, 'it''s;\\';') ;\n ; ", query=query, user=user, ok=True)
    assert server.sql(f"SELECT count() FROM {table}") == "3"


def test_a_string_of_values_may_be_cut_anywhere(server: Server, probes: str) -> None:
    text = b"(1, 'a;\\\\'), (2, '\\';'), (3, 'c'';'),(4,'\\\\\\';b');"
    query = f"INSERT INTO {probes} (rank, probe) VALUES"
    for size in range(1, len(text)):
        pieces = (text[at : at + size] for at in range(0, len(text), size))
        server.ask(pieces, query=query, user="writer", ok=True, insert_deduplicate=0)
        assert server.ask(iter((text[:size], text[size:], b"(5, 'x')")), query=query, user="writer").code == 33
    found = server.sql(f"SELECT DISTINCT rank, probe FROM {probes} ORDER BY ALL FORMAT TSVRaw")
    assert found == "\n".join(f"{rank}\t{name}" for rank, name in enumerate(["a;\\", "';", "c';", "\\';b"], 1))


def test_parameters_of_an_insert(server: Server, database: str) -> None:
    """In its head and among its values, as in a clickhouse-server."""
    server.sql(f"CREATE TABLE {database}.t (a UInt64, s String) ENGINE = MergeTree ORDER BY a")
    params: dict[str, Any] = {"param_name": "t", "param_a": "7", "param_s": "it's; x", "database": database}
    server.ask("1\tx\n", query="INSERT INTO {name:Identifier} FORMAT TSV", ok=True, **params)
    server.ask("(2, 'y')", query="INSERT INTO {name:Identifier} VALUES", ok=True, **params)
    server.ask(query="INSERT INTO {name:Identifier} VALUES ({a:UInt64}, {s:String}), (8, 'z')", ok=True, **params)
    server.ask("INSERT INTO {name:Identifier} SELECT {a:UInt64} + 2, {s:String}", ok=True, **params)
    assert server.sql(f"SELECT groupArray((a, s)) FROM (SELECT * FROM {database}.t ORDER BY a)") == (
        "[(1,'x'),(2,'y'),(7,'it\\'s; x'),(8,'z'),(9,'it\\'s; x')]"
    )


@pytest.mark.embedded
def test_parameters_of_a_writer_are_values(server: Server, probes: str) -> None:
    query = f"INSERT INTO {probes} (rank, probe) VALUES ({{a:UInt64}}, {{b:String}})"
    server.ask(query=query, user="writer", param_a="7", param_b="file('x')", ok=True)
    assert server.ask(query=query, user="writer", param_a="length(file('x'))", param_b="x").status >= 400
    assert server.sql(f"SELECT rank, probe FROM {probes} FORMAT TSVRaw") == "7\tfile('x')"


@pytest.mark.embedded
def test_a_format_that_needs_a_file_is_refused(server: Server, database: str) -> None:
    server.sql(f"CREATE TABLE {database}.t (array UInt64) ENGINE = MergeTree ORDER BY array")
    rows = server.ask(query="SELECT number AS array FROM numbers(10) FORMAT Npy", ok=True).body
    answer = server.ask(rows, query=f"INSERT INTO {database}.t FORMAT Npy")
    assert (answer.code, "Npy" in answer.text) == (48, True)
    assert server.sql(f"SELECT count() FROM {database}.t") == "0"


def _table_with_tokens(server: Server, table: str, columns: str = "a UInt64, b UInt64", order: str = "a") -> str:
    """The name of a new table that remembers the tokens of its last blocks."""
    server.sql(
        f"CREATE TABLE {table} ({columns}) ENGINE = MergeTree ORDER BY {order} SETTINGS non_replicated_deduplication_window = 100"
    )
    return table


@pytest.mark.embedded
def test_deduplication_can_be_switched_off(server: Server, database: str) -> None:
    """By the setting that clients know, which this version of the engine does not read, too; where it cannot, the server says so."""
    table = _table_with_tokens(server, f"{database}.t")
    ways: list[dict[str, Any]] = [{"insert_deduplicate": 0}, {"insert_deduplicate": "false"}, {"deduplicate_insert": "disable"}]
    for settings in ways:
        for token in (None, "x"):
            server.sql(f"TRUNCATE TABLE {table} SYNC")
            for _ in range(2):
                _insert(server, table, 0, 10, **settings, **({"insert_deduplication_token": token} if token else {}))
            assert server.sql(f"SELECT count() FROM {table}") == "20", (settings, token)
    server.sql(f"TRUNCATE TABLE {table} SYNC")
    for _ in range(2):
        _insert(server, table, 0, 10, insert_deduplicate=1)
    answer = server.ask("1\t1\n", query=f"INSERT INTO {table} SETTINGS insert_deduplicate = 0 FORMAT TSV")
    assert (answer.code, "deduplicate_insert" in answer.text) == (36, True)
    session: dict[str, Any] = {"session_id": database}
    server.sql("SET insert_deduplicate = 0", **session)
    _insert(server, table, 0, 10, **session)
    assert server.sql(f"SELECT count() FROM {table}") == "20"


def test_a_token_counts_once(server: Server, database: str) -> None:
    table = _table_with_tokens(server, f"{database}.t")
    for _ in range(3):
        _insert(server, table, 0, 1000, insert_deduplication_token="run/t/1/0/0")
    assert server.sql(f"SELECT count() FROM {table}") == "1000"
    # The same rows under another token are other rows.
    _insert(server, table, 0, 1000, insert_deduplication_token="run/t/1/0/1")
    assert server.sql(f"SELECT count() FROM {table}") == "2000"
    # In the statement, as some clients write it.
    sql = f"INSERT INTO {table} SETTINGS insert_deduplication_token = 'run/t/1/0/1' FORMAT TSV"
    server.ask(b"7\t7\n", query=sql, ok=True)
    assert server.sql(f"SELECT count() FROM {table}") == "2000"


def test_an_insert_that_cannot_be_written_fails(server: Server, database: str) -> None:
    """Memory suffices to read the rows, not to sort and write them: nothing is acknowledged, and the token is free."""
    table = _table_with_tokens(server, f"{database}.t", order="(b, a)")
    body = server.ask(query="SELECT number AS a, rand64() AS b FROM numbers(400000) FORMAT Native", ok=True).body
    query = f"INSERT INTO {table} FORMAT Native"
    one_block = {"min_insert_block_size_rows": 1 << 20, "max_insert_block_size": 1 << 20, "min_insert_block_size_bytes": 0}
    refused = 0
    for mebibytes in range(8, 32, 2):
        limits: dict[str, object] = {**one_block, "insert_deduplication_token": "x", "max_memory_usage": mebibytes << 20}
        answer = server.ask(body, query=query, **limits)  # type: ignore[arg-type]
        stored = int(server.sql(f"SELECT count() FROM {table}"))
        assert (answer.status, stored) == (200, 400_000) or (answer.code, stored) == (241, 0), mebibytes
        refused += answer.code == 241
    assert refused > 1
    server.ask(body, query=query, ok=True, **one_block, insert_deduplication_token="x")  # type: ignore[arg-type]
    assert server.sql(f"SELECT count() FROM {table}") == "400000"


def test_a_token_holds_for_the_targets_of_views(server: Server, database: str) -> None:
    _table_with_tokens(server, f"{database}.t")
    _table_with_tokens(server, f"{database}.s", "s UInt64", "s")
    server.sql(f"CREATE MATERIALIZED VIEW {database}.v TO {database}.s AS SELECT sum(a) AS s FROM {database}.t")
    for _ in range(2):
        _insert(
            server, f"{database}.t", 0, 100, insert_deduplication_token="x", deduplicate_blocks_in_dependent_materialized_views=1
        )
    assert server.sql(f"SELECT sum(s) FROM {database}.s") == "4950"


@pytest.mark.embedded
def test_blocks_do_not_depend_on_the_pieces_of_a_body(server: Server, database: str) -> None:
    """The server recognises a repeated body of several blocks, block by block, even in other pieces."""
    table = _table_with_tokens(server, f"{database}.t", "a UInt64")
    body = server.ask("SELECT number FROM numbers(2500000) FORMAT RowBinary", ok=True).body
    for size in (1 << 20, 50_001, 7_777_777):
        pieces = (body[at : at + size] for at in range(0, len(body), size))
        server.ask(pieces, query=f"INSERT INTO {table} FORMAT RowBinary", insert_deduplication_token="many", ok=True)
    assert server.sql(f"SELECT count(), uniqExact(a) FROM {table}") == "2500000\t2500000"


@pytest.mark.embedded
def test_a_token_whose_part_a_kill_prevented_is_free_again(own_server: Callable[..., Server]) -> None:
    """The engine notes a token just before it puts the part in place; a kill in between must not cost the rows."""
    server = own_server()
    server.sql("CREATE DATABASE `d\\n1`")
    server.sql(
        "CREATE TABLE `d\\n1`.t (a UInt64, b UInt64) ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 100"
    )
    table = "`d\\n1`.t"

    def insert_all() -> None:
        for batch in range(6):
            _insert(server, table, batch * 10, 10, insert_deduplication_token=f"b{batch}")
            if batch == 3:
                server.sql(f"OPTIMIZE TABLE {table} FINAL")

    insert_all()
    path = server.sql("SELECT path FROM system.parts WHERE database = 'd\\n1' AND active AND name = 'all_6_6_0'")
    stop(server, signal.SIGKILL)
    shutil.rmtree(path)
    for _ in range(2):
        server = own_server()
        insert_all()
        assert server.sql(f"SELECT count(), uniqExact(a) FROM {table}") == "60\t60"
        stop(server, signal.SIGKILL)


@pytest.mark.embedded
def test_kill_9_keeps_every_acknowledged_row(own_server: Callable[..., Server]) -> None:
    """Three times: inserts from four threads, kill -9 in the middle, start again; the test repeats unacknowledged
    inserts with their tokens, and in the end every row is stored once.
    """
    server = own_server()
    server.sql("CREATE DATABASE d")
    server.sql(
        "CREATE TABLE d.t (a UInt64, b UInt64) ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 10000"
    )
    acknowledged: set[int] = set()
    sent: set[int] = set()
    lock = threading.Lock()
    counter = iter(range(10**9))

    def work(running: Server, until: threading.Event) -> None:
        while not until.is_set():
            with lock:
                batch = next(counter)
                sent.add(batch)
            try:
                _insert(running, "d.t", batch * 500, 500, insert_deduplication_token=f"b{batch}")
            except (OSError, http.client.HTTPException):
                return
            with lock:
                acknowledged.add(batch)

    for turn in range(3):
        until = threading.Event()
        threads = [threading.Thread(target=work, args=(server, until)) for _ in range(4)]
        before = len(acknowledged)
        for thread in threads:
            thread.start()
        while len(acknowledged) < before + 15:
            time.sleep(0.01)
        stop(server, signal.SIGKILL)
        until.set()
        for thread in threads:
            thread.join()
        server = own_server()
        rows = server.sql("SELECT DISTINCT intDiv(a, 500) FROM d.t")
        stored = {int(line) for line in rows.splitlines()}
        assert acknowledged <= stored <= sent, turn
        assert server.sql("SELECT count() % 500, count() - uniqExact(a) FROM d.t") == "0\t0"
    for batch in sent - acknowledged:
        _insert(server, "d.t", batch * 500, 500, insert_deduplication_token=f"b{batch}")
    total = len(sent) * 500
    assert server.sql("SELECT count(), uniqExact(a) FROM d.t") == f"{total}\t{total}"
