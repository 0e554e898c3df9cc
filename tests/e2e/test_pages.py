"""Every page of the dashboards in a real browser, on what the agent and the jobs wrote from a capture of the last half hour."""

from __future__ import annotations

import functools
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import page_traffic
import weir_assets
from harness import RunningStack, collector, eventually, free_ports
from render import Browser
from weir import kafka
from window_traffic import address_file

PAGES = sorted(path.stem for path in (weir_assets.FOLDER / "dashboards").glob("*.yaml"))
CHARTS = {path.stem: yaml.safe_load(path.read_text()) for path in (weir_assets.FOLDER / "charts").glob("*.yaml")}
#: Two points of a chart of a day: pages leave out a point that is not over.
SECONDS = 1_200
SILENT = "silent"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack with dashboards, the networks of the capture, and its rows: two probes, one of which saw a part of it, a collector, and
    an enrolled probe that never reports."""
    folder = tmp_path_factory.mktemp("pages")
    systems = str(address_file(folder / "systems.mmdb", page_traffic.SYSTEMS))
    countries = str(address_file(folder / "countries.mmdb", page_traffic.COUNTRIES))
    with RunningStack(superset=True, national_delay="5s", as_database=systems, country_database=countries) as running:
        running.enrol(SILENT)
        _declare(running, folder)
        begin = (int(time.time()) - SECONDS) // 600 * 600
        packets = page_traffic.write(folder / "all.pcap", begin, SECONDS)
        part = page_traffic.write(folder / "part.pcap", begin, SECONDS // 3)
        for probe, capture in (("north", "all.pcap"), ("south", "part.pcap")):
            running.enrol(probe, 1, "--site", "north", "--rank", "5" if probe == "north" else "9")
            running.read(probe, folder / capture, words=("--keep-time",))
        (port,) = free_ports(1)
        running.enrol("routers")
        with collector(running, port, folder):
            _export(port)
        running.settled("north", packets)
        running.settled("south", part)
        eventually(lambda: kafka.lag(running.stack.brokers) == 0, "everything in Kafka read")
        # Records of intervals whose hourly rows are written already wait for others; here none come.
        done = running.weir("storage", "roll-up")
        assert done.status == 0, done.err
        for asked, what in (
            ("SELECT uniqExact(ts) >= 4 AS n FROM v_mixes WHERE scope = 'all'", "mixes of the nation"),
            (
                "SELECT count() > 0 AS n FROM v_counter_means WHERE window_s = 300 AND scope = 'all'",
                "means of counters",
            ),
            ("SELECT count() > 0 AS n FROM v_host_days WHERE probe = 'north'", "days of hosts"),
            ("SELECT count() > 0 AS n FROM v_exporters WHERE records > 0", "records of the router"),
            (f"SELECT count() > 0 AS n FROM v_ledger WHERE probe = '{SILENT}' AND state = 'missing'", "a silent probe"),
        ):
            eventually(functools.partial(running.one, asked), what, 240)
        yield running


def _declare(stack: RunningStack, folder: Path) -> None:
    """Declare the prefixes, and wait until records carry them: the jobs read the declarations within seconds."""
    (folder / "prefixes.csv").write_text(page_traffic.PREFIXES)
    done = stack.weir("prefixes", "import", str(folder / "prefixes.csv"))
    assert done.status == 0, done.err
    stack.enrol("first")
    page_traffic.write(folder / "first.pcap", time.time() - 3 * 86_400, 10)

    def known() -> Any:
        stack.read("first", folder / "first.pcap", words=("--keep-time",))
        time.sleep(2)
        return stack.one("SELECT countIf(src_customer != 0) FROM flows WHERE probe = 'first'")

    eventually(known, "the prefixes in force")


def _export(port: int) -> None:
    """A datagram of NetFlow v5 with one flow, of no customer."""
    now = int(time.time())
    head = struct.pack("!HHIIIIBBH", 5, 1, 3_600_000, now, 0, 1, 0, 0, 0)
    ends = socket.inet_aton("192.0.2.200") + socket.inet_aton("198.51.100.3") + bytes(4)
    flow = ends + struct.pack(
        "!HHIIIIHHBBBBHHBBH", 1, 2, 10, 9_000, 3_590_000, 3_599_000, 40_000, 443, 0, 0x1B, 6, 0, 0, 0, 0, 0, 0
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.sendto(head + flow, ("127.0.0.1", port))
    time.sleep(2)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all pages."""
    with Browser() as one:
        yield one


def drawn(stack: RunningStack, browser: Browser, page: str) -> list[dict[str, Any]]:
    """Draw a page, on which every chart has rows; returns the rows of all queries, by names of columns and metrics."""
    queries: list[dict[str, Any]] = []
    url = f"{stack.stack.superset_url}/superset/dashboard/{page}/"
    report = browser.render(url, None, timeout=180, queries=queries)
    assert report.problems == []
    rows = yaml.safe_load((weir_assets.FOLDER / f"dashboards/{page}.yaml").read_text())["rows"]
    named = [CHARTS[cell["chart"]]["slice_name"] for row in rows for cell in row["cells"] if "chart" in cell]
    assert report.charts == dict.fromkeys(named, "drawn")
    results = [result for one in queries for result in one["answer"]["result"]]
    assert not [result["error"] for result in results if result.get("error")]
    return [row for result in results for row in result["data"]]


def value(rows: list[dict[str, Any]], metric: str) -> Any:
    """The number of a card that shows this metric."""
    (found,) = {row[metric] for row in rows if set(row) == {metric}}
    return found


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_drawn_on_what_the_jobs_wrote(stack: RunningStack, browser: Browser, page: str) -> None:
    drawn(stack, browser, page)


def test_a_silent_probe_is_no_loss_of_packets(stack: RunningStack, browser: Browser) -> None:
    """Fleet: of what was reported nothing is missing, and the reports of one probe are."""
    rows = drawn(stack, browser, "fleet")
    assert (value(rows, "completeness"), value(rows, "packets_missing")) == (1, 0)
    assert 0 < value(rows, "reports_share") < 1


def test_the_page_of_a_customer_is_of_one(stack: RunningStack, browser: Browser) -> None:
    """Volume is that of the first customer by name, not of all of them."""
    rows = drawn(stack, browser, "customer")
    of_each = stack.store.rows(
        "SELECT customer_name AS name, sum(octets) AS octets FROM v_mixes WHERE scope = 'customer' AND dimension = 'total'"
        " AND ts > now() - INTERVAL 1 DAY GROUP BY name ORDER BY name"
    )
    assert [one["name"] for one in of_each] == ["Fjord Power", "Harbour Hosting", "Northern University"]
    assert int(value(rows, "mix_octets")) == of_each[0]["octets"] > 0


def test_scanners_are_listed_with_what_they_tried(stack: RunningStack, browser: Browser) -> None:
    rows = [row for row in drawn(stack, browser, "threats") if "suspect_tried" in row]
    assert {host for host in page_traffic.SCANNERS if any(host in row["host_link"] for row in rows)} == set(
        page_traffic.SCANNERS
    )
    assert all(row["suspect_tried"] >= row["suspect_failed"] > 0 for row in rows)
