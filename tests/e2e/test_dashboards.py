"""The datasets of the dashboards, on what the agent and the jobs wrote from captures: their sums are those of the raw records."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import weir_assets
from harness import RunningStack, eventually
from rendered import rendered
from weir.clickhouse import ClickHouse, connect

CAPTURES = {
    "page-scan": "ndpi/synscan.pcap",
    "page-mixture": "ndpi/bittorrent.pcap",
    "page-dns": "ndpi/dnscrypt-v1-and-resolver-pings.pcap",
}
#: Datasets of which these captures have nothing, or that list what is there now.
ELSEWHERE = {
    "alerts": "alerts are open at present",
    "customers": "no customer is declared",
    "directions": "constant",
    "exporters": "no device exports",
    "filter_graphs": "means of 400 days at most",
    "filter_sets": "the filter sets of today",
    "filters": "means of 400 days at most",
    "host_days": "the last year",
    "hosts": "the hosts of the last hour",
    "services": "means of 400 days at most",
}
NOBODY = {
    "suspects": "host != 'nobody'",
    "signatures": "hosts > 0",
    "port_report": "tcp_packets > 0",
    "findings": "windows > 0",
}


@dataclass(frozen=True)
class Pages:
    """The time and host of a capture, as a viewer chooses them."""

    store: ClickHouse
    admin: ClickHouse
    probe: str
    first: int
    last: int
    host: str

    def rows(self, name: str, what: str = "count() AS n", where: str = "true", end: int = 0) -> dict[str, Any]:
        """An aggregate over a dataset's rows, with the filter on the probe that the dashboard adds."""
        begin, until = self.first // 3600 * 3600, end or self.last // 3600 * 3600 + 3600
        chosen = {"probe": [self.probe], "host": [self.host], "counter_set": ["protocol"]}
        sql = rendered(name, begin, until, **chosen)
        own = f"probe = '{self.probe}'" if re.search(r"\bAS probe\b", sql) else "true"
        (row,) = self.store.rows(f"SELECT {what} FROM ({sql}) WHERE {own} AND ({where})")
        return row

    def raw(self, what: str, where: str = "true") -> dict[str, Any]:
        """The same question, about the raw records."""
        (row,) = self.admin.rows(f"SELECT {what} FROM flows AS f WHERE probe = '{self.probe}' AND ({where})")
        return row


@pytest.fixture(scope="module")
def pages(stack: RunningStack, shared: Path) -> dict[str, Pages]:
    found, sent = {}, {}
    store = connect(stack.stack, "dashboard")
    admin = connect(stack.stack, "admin")
    for probe, capture in CAPTURES.items():
        stack.enrol(probe)
        read = stack.read(probe, shared / "pcaps" / capture, words=("--keep-time", "--interval", "5s"))
        sent[probe] = read["packets"]["in_flow_records"]
    for probe in CAPTURES:
        # All of it, of which the test takes the span and the sums.
        assert stack.settled(probe, sent[probe], 180)["packets"] == sent[probe]
        span = "toUnixTimestamp(min(ts)) AS first, toUnixTimestamp(max(ts)) AS last"
        host = "weir_addr(topKWeighted(1)(src_addr, fwd_octets + rev_octets)[1]) AS host"
        (row,) = admin.rows(f"SELECT {span}, {host} FROM flows WHERE probe = '{probe}'")
        found[probe] = Pages(store, admin, probe, **row)
    return found


def same(page: Pages, name: str, raw: dict[str, Any], what: str, where: str = "true", end: int = 0) -> None:
    """Wait until the dataset agrees with the raw records."""
    said: list[dict[str, Any]] = []

    def agree() -> bool:
        said.append(page.rows(name, what, where, end))
        return said[-1] == raw

    try:
        eventually(agree, name, 60)
    except AssertionError:
        assert said[-1] == raw, (page.probe, name)


@pytest.mark.parametrize("probe", CAPTURES)
def test_sums_are_those_of_the_raw_records(pages: dict[str, Pages], probe: str) -> None:
    page = pages[probe]
    total = page.raw("sum(fwd_octets + rev_octets) AS octets, sum(fwd_packets + rev_packets) AS packets")
    same(page, "windows", total, "sum(octets) AS octets, sum(packets) AS packets")
    same(page, "mixes", total, "sum(octets) AS octets, sum(packets) AS packets", "dimension = 'total'")
    same(page, "mixes", total, "sum(octets) AS octets, sum(packets) AS packets", "dimension = 'application'")
    same(page, "mixes", total, "sum(octets) AS octets, sum(packets) AS packets", "dimension = 'as_application'")
    octets = "toUInt64(round(sum(bits_per_second) * 300 / 8)) AS octets"
    same(page, "rates", page.raw("sum(fwd_octets + rev_octets) AS octets"), octets)
    stored = page.raw("sum(fwd_packets + rev_packets) AS stored, count() AS records")
    same(page, "ledger", stored, "sum(stored) AS stored, sum(records) AS records")
    own = f"'{page.host}' IN (weir_addr(src_addr), weir_addr(dst_addr))"
    of_host = page.raw("sum(fwd_octets + rev_octets) AS octets, sum(fwd_packets + rev_packets) AS packets", own)
    same(page, "address", of_host, "sum(sent_octets + received_octets) AS octets, sum(packets) AS packets")
    same(page, "identity", page.raw("count() AS records", own), "sum(records) AS records")


@pytest.mark.parametrize("name", sorted(path.stem for path in (weir_assets.FOLDER / "datasets/weir").glob("*.sql")))
def test_every_dataset_has_rows_of_the_jobs(pages: dict[str, Pages], name: str) -> None:
    page = pages["page-scan"]
    if name in ELSEWHERE:
        assert page.rows(name)["n"] >= 0, "it can be asked"
        return
    eventually(lambda: page.rows(name, where=NOBODY.get(name, "true"))["n"] > 0, name, 120)
