"""Prefixes, sites and services: a declaration made while records flow applies to the next records, without a restart."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import BENCH, RunningStack, eventually


@pytest.fixture
def traffic(stack: RunningStack) -> Iterator[subprocess.Popen[bytes]]:
    """Publishes some hundred records of the probe `flowing` per second until the test ends."""
    stack.enrol("flowing")
    words = "generate --probes flowing --records 200000 --rate 500 --per-interval 5000 --sources 100"
    command = [str(BENCH), *words.split(), "--credentials", str(stack.operator)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(120)


def attempts(stack: RunningStack) -> Any:
    """The jobs and the attempts of their vertices, which a restart would change."""
    overview = httpx.get(f"{stack.stack.flink_url}/jobs/overview").json()["jobs"]
    vertices = httpx.get(f"{stack.stack.flink_url}/jobs/{overview[0]['jid']}").json()["vertices"]
    return [(job["jid"], job["start-time"]) for job in overview], [one["start-time"] for one in vertices]


def shown(stack: RunningStack, where: str, columns: str) -> list[dict[str, Any]]:
    """Rows of v_flows of the probe `flowing`."""
    return stack.store.rows(
        f"SELECT {columns}, count() AS records FROM v_flows WHERE probe = 'flowing' AND {where} GROUP BY ALL ORDER BY ALL"
    )


def test_a_change_holds_while_records_flow(stack: RunningStack, traffic: subprocess.Popen[bytes]) -> None:
    def declare(*words: str) -> float:
        done = stack.weir("prefixes", "set", "0.0.0.0/0", "--site", "everywhere", "--national", *words)
        assert done.status == 0, done.err
        return time.monotonic()

    flink, before = stack.pid("flink"), attempts(stack)
    declare("--customer", "Ann's Archive", "--tag", "paper")
    eventually(
        lambda: shown(stack, "src_customer = 'Ann\\'s Archive'", "src_customer"), "records of the first customer"
    )
    old = stack.one("SELECT max(src_prefix) FROM flows WHERE probe = 'flowing'")

    began = declare("--customer", "Bob's Bakery", "--tag", "bread", "--tag", "warm")
    eventually(
        lambda: shown(stack, "src_customer = 'Bob\\'s Bakery'", "src_customer"), "records of the second customer"
    )
    print(f"stored under the new customer {time.monotonic() - began:.1f} s after the command")
    assert traffic.poll() is None, "records flowed until here"
    assert (stack.pid("flink"), attempts(stack)) == (flink, before), "nothing restarted"

    # Stored records keep their id; batches are numbered in order, and the new id begins after the old one.
    new = stack.one("SELECT max(src_prefix) FROM flows WHERE probe = 'flowing'")
    assert new > old
    last_old = stack.one(f"SELECT max(sequence) FROM flows WHERE probe = 'flowing' AND src_prefix = {old}")
    first_new = stack.one(f"SELECT min(sequence) FROM flows WHERE probe = 'flowing' AND src_prefix = {new}")
    assert last_old < first_new
    names = "src_prefix, src_customer, src_site, src_tags, nation_direction"
    assert [row for row in shown(stack, "src_prefix != ''", names) if row.pop("records")] == [
        dict(zip(names.split(", "), ("0.0.0.0/0", customer, "everywhere", tags, "internal"), strict=True))
        for customer, tags in (("Ann's Archive", ["paper"]), ("Bob's Bakery", ["bread", "warm"]))
    ]

    # Now the probe is declared at that site, so both ends are inside it.
    assert stack.weir("probe", "set", "flowing", "--site", "everywhere", "--rank", "5").status == 0
    eventually(
        lambda: shown(stack, "site_direction = 'internal'", "site_direction"), "records with a direction of the site"
    )
    assert shown(stack, "service = 'https'", "service"), "port 443 has a name"

    assert stack.weir("prefixes", "remove", "0.0.0.0/0").status == 0
    eventually(
        lambda: stack.one("SELECT argMax(src_prefix, sequence) FROM flows WHERE probe = 'flowing'") == 0,
        "records without a prefix",
    )


@pytest.mark.long
def test_a_file_of_100_000_prefixes(stack: RunningStack, tmp_path: Path) -> None:
    lines = [f"10.{n >> 8}.{n & 255}.{s}/26,Customer {n % 5000},Site {n % 40},,{'true' if n % 3 else ''}\n"
             for n in range(25_000) for s in (0, 64, 128, 192)]  # fmt: skip
    file = tmp_path / "many.csv"
    file.write_text("prefix,customer,site,tags,national\n" + "".join(lines))
    began = time.monotonic()
    done = stack.weir("prefixes", "import", str(file), "--replace")
    print(f"imported in {time.monotonic() - began:.1f} s: {done.out.strip()}")
    assert done.status == 0, done.err
    assert "100,000 set" in done.out
    numbers = stack.store.rows(
        "SELECT uniqExact(customer_id) AS c, uniqExact(site_id) AS s FROM prefixes WHERE startsWith(customer, 'Customer ')"
    )
    assert numbers == [{"c": 5000, "s": 40}]
    listed = stack.weir("prefixes", "list")
    assert len(listed.out.splitlines()) == 100_001
    (tmp_path / "listed.csv").write_text(listed.out)
    again = stack.weir("prefixes", "import", str(tmp_path / "listed.csv"), "--replace")
    assert "0 set, 0 removed, 100,000 unchanged" in again.out
    file.write_text("prefix\n192.0.2.0/33\n")
    wrong = stack.weir("prefixes", "import", str(file), "--replace")
    assert (wrong.status, len(wrong.err.splitlines())) == (2, 2)
    assert f"{file}:2: '192.0.2.0/33' is not a prefix" in wrong.err
    empty = tmp_path / "empty.csv"
    empty.write_text("prefix\n")
    assert "100,000 removed" in stack.weir("prefixes", "import", str(empty), "--replace").out
    assert stack.weir("prefixes", "list").out == "prefix,customer,site,tags,national\n"
