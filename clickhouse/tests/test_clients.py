"""clickhouse-connect, the client of Superset, with the users of access.yaml."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import clickhouse_connect
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError
from conftest import Server

from weir_schema import files


def client_of(server: Server, user: str | None = None, **options: Any) -> Any:
    name, password = server.admin if user is None else (user, server.users[user])
    return clickhouse_connect.get_client(host=server.host, port=server.port, username=name, password=password, **options)


@pytest.mark.parametrize("user", ["admin", "writer", "analyst", "dashboard"])
def test_every_user_reads(server: Server, user: str) -> None:
    if user not in server.users:
        pytest.skip(f"WEIR_PASSWORD_{user.upper()} is not set")
    client = client_of(server, user, database="weir")
    assert client.query("SELECT number, toString(number) FROM numbers(3)").result_rows == [(0, "0"), (1, "1"), (2, "2")]
    assert client.query("SELECT {a:UInt8}, {b:String}", parameters={"a": 7, "b": "it's"}).result_rows == [(7, "it's")]
    assert client.command("SELECT count() FROM v_ledger") == 0
    frame = client.query_df("SELECT name, type, comment FROM system.columns WHERE table = 'v_flows' AND database = 'weir'")
    assert [*frame["name"]] == [*files._columns_of(files.views()["v_flows"])]
    assert client.query_arrow("SELECT 1 AS a").to_pydict() == {"a": [1]}
    with pytest.raises(DatabaseError, match="UNKNOWN_TABLE"):
        client.query("SELECT * FROM no_such_table")
    client.close()


@pytest.mark.parametrize("compression", ["lz4", "zstd", "gzip", False])
def test_inserts_and_reads_large(server: Server, database: str, compression: str | bool) -> None:
    client = client_of(server, database=database, compress=compression)
    client.command("CREATE TABLE t (a UInt64, b String, c DateTime64(3, 'UTC'), d IPv6) ENGINE = MergeTree ORDER BY a")
    rows = [[n, f"value {n}", datetime.fromtimestamp(n / 8, UTC), "::ffff:10.0.0.1"] for n in range(100_000)]
    client.insert("t", rows, column_names=["a", "b", "c", "d"])
    assert client.query("SELECT count(), sum(a), uniqExact(b) FROM t").result_rows == [(100_000, 4999950000, 100_000)]
    with client.query_row_block_stream("SELECT a, b, d FROM t ORDER BY a") as stream:
        count = sum(len(block) for block in stream)
    assert count == 100_000
    client.close()


def test_a_late_error_reaches_the_client(server: Server) -> None:
    client = client_of(server)
    sql = "SELECT number, throwIf(number = 4000000) FROM numbers(10000000)"
    with pytest.raises(Exception, match=r"395|throwIf|non-zero"), client.query_row_block_stream(sql) as stream:
        list(stream)
    client.close()
