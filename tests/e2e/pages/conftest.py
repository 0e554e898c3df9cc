"""The stack of all files in this folder: dashboards on what the agent and the jobs wrote from generated captures."""

from __future__ import annotations

import functools
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import page_traffic
from harness import SHARED, RunningStack, collector, eventually, free_ports
from render import Browser
from router_messages import NAT_FIELDS, data_set, ipfix, netflow5, template, translation
from viewers import Viewer
from weir import frames, kafka
from weir.clickhouse import ClickHouse, connect
from weir.maxmind import address_file
from weir.stack import enrol
from window_traffic import UDP, Loss, Publisher, Seen, Way, overflow

#: Two points of a chart of a day: pages leave out a point that is not over.
SECONDS = 1_200
#: A probe that never reports, and one that does so after the alert on its silence.
SILENT, RETURNED = "silent", "returned"
#: Real captures, each read by a probe of its own.
CAPTURES = {
    "page-scan": "ndpi/synscan.pcap",
    "page-mixture": "ndpi/bittorrent.pcap",
    "page-dns": "ndpi/dnscrypt-v1-and-resolver-pings.pcap",
}
#: The customer that has a user.
OWN = "Harbour Hosting"
#: Losses of ten intervals of 100 packets, by interval.
LOSSES = {
    0: Loss(dropped={"ring": 10}, waiting=1),
    1: Loss(dropped={"ring": 10}),
    2: Loss(dropped={"interface": 5}),
    4: Loss(batches=True),
    6: Loss(closing=True),
}


#: The first text of the page Now, before anything had arrived.
FIRST_TEXTS: list[str] = []


def first_text(viewer: Viewer, slug: str) -> str:
    """The text at the top of a page, as Markdown."""
    status, body = viewer.call(f"/api/v1/dashboard/{slug}")
    assert status == 200, body
    layout = json.loads(body["result"]["position_json"])
    (cell,) = layout[layout["GRID_ID"]["children"][0]]["children"]
    return str(layout[cell]["meta"]["code"])


@dataclass(frozen=True)
class Traffic:
    """Times of the captures, in seconds from 1970.

    `north` saw everything from `begin` to `end`, `south` the first third. `west` saw one flow of these, from its other end, and
    another one alone. `early` saw some packets of each minute from `hours` to `hours_end`. `lossy` lost packets of the ten intervals
    from `losses` on; `twice` lost none of those from `twice` on.
    """

    begin: int

    @property
    def end(self) -> int:
        return self.begin + SECONDS

    @property
    def hours(self) -> int:
        """In the midst of an hour."""
        return (self.begin - 4 * 3600) // 3600 * 3600 - 2400

    @property
    def hours_end(self) -> int:
        return self.hours + 9_000

    @property
    def losses(self) -> int:
        return self.begin - 300

    @property
    def twice(self) -> int:
        return self.hours - 600


@pytest.fixture(scope="package")
def traffic() -> Traffic:
    return Traffic((int(time.time()) - SECONDS) // 600 * 600)


@pytest.fixture(scope="package")
def stack(traffic: Traffic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack with dashboards and the rows of all probes, on a machine whose zone is far from UTC."""
    folder = tmp_path_factory.mktemp("pages")
    systems = str(address_file(folder / "systems.mmdb", page_traffic.SYSTEMS, "Places of a test"))
    countries = str(address_file(folder / "countries.mmdb", page_traffic.COUNTRIES, "Places of a test"))
    running = RunningStack(superset=True, national_delay="5s", as_database=systems, country_database=countries)
    running.environment["TZ"] = "Asia/Tokyo"
    with running:
        for probe in (SILENT, RETURNED):
            running.enrol(probe)
        FIRST_TEXTS.append(first_text(Viewer(running.stack.superset_url, running.stack.data / "superset"), "now"))
        _declare(running, folder)
        _collect(running, folder)
        _publish(running, "twice", traffic.twice, {})
        _publish(running, "lossy", traffic.losses, LOSSES)
        packets = _read_captures(running, folder, traffic)
        for probe, count in packets.items():
            assert running.settled(probe, count)["packets"] == count
        eventually(lambda: kafka.lag(running.stack.brokers) == 0, "everything in Kafka read")
        # Windows over all probes come after those of a probe.
        before, all_of = f"ts < {traffic.end}", "scope = 'all' AND"
        windows = f"(SELECT uniqExact(intDiv(toUnixTimestamp(ts), {{}})) FROM flows WHERE {before})"
        span = f"ts >= {traffic.begin} AND {before}"
        for asked, what in (
            (
                f"uniqExact(ts) = {windows.format(30)} FROM v_top_flows WHERE {all_of} {before}",
                "half minutes of the nation",
            ),
            (f"uniqExact(ts) = {windows.format(300)} FROM v_mixes WHERE {all_of} {before}", "mixes of the nation"),
            (
                f"uniqExact(ts) = {SECONDS // 300} FROM v_counter_means WHERE {all_of} window_s = 300 AND {span}",
                "means of counters",
            ),
            ("count() > 2 FROM v_exporters", "records of the routers"),
            (f"count() > 0 FROM v_ledger WHERE probe = '{SILENT}' AND state = 'missing'", "a silent probe"),
        ):
            eventually(functools.partial(running.one, f"SELECT {asked}"), what, 240)
        # Records of intervals whose hourly rows are written already wait for others; here none come.
        done = running.weir("storage", "roll-up")
        assert done.status == 0, done.err
        assert running.one("SELECT count() FROM v_host_days WHERE probe = 'north'"), "days of hosts"
        assert running.one("SELECT count() FROM v_mixes_daily"), "days of mixes"
        _return(running, folder, traffic)
        yield running


def _declare(stack: RunningStack, folder: Path) -> None:
    """Declare the prefixes, and wait until records carry them: the jobs read the declarations within seconds."""
    (folder / "prefixes.csv").write_text(page_traffic.PREFIXES)
    done = stack.weir("prefixes", "import", str(folder / "prefixes.csv"))
    assert done.status == 0, done.err
    stack.enrol("first")
    frames.write(folder / "first.pcap", page_traffic.mixture(time.time() - 3 * 86_400, 10))

    def known() -> Any:
        stack.read("first", folder / "first.pcap", words=("--keep-time",))
        time.sleep(2)
        return stack.one("SELECT countIf(src_customer != 0) FROM flows WHERE probe = 'first'")

    eventually(known, "the prefixes in force")


def _publish(stack: RunningStack, name: str, begin: int, losses: dict[int, Loss]) -> None:
    """Ten intervals of 100 packets of one flow, some of them lost; in the last one also nine packets that the agent, at its bound,
    counted without their addresses.
    """
    probe = Publisher(stack, name)
    for number in range(10):
        loss = losses.get(number, Loss())
        packets = 100 - sum(loss.dropped.values())
        seen = Seen("10.78.0.1", "203.0.113.78", 4000, 443, UDP, Way(packets, 100 * packets), Way())
        records = [seen.record(), *([overflow(3, UDP, 9, octets=900)] if number == 9 else [])]
        probe.interval(1000 * begin + 10_000 * number, records, loss=loss, last=number == 9)


def _read_captures(stack: RunningStack, folder: Path, traffic: Traffic) -> dict[str, int]:
    """Read a capture for each probe; returns the packets that each of them saw."""
    begin, third = traffic.begin, SECONDS // 3
    seen_by_two = list(page_traffic.lasting(begin, 10))
    hours = page_traffic.mixture(traffic.hours, traffic.hours_end - traffic.hours, every=60)
    other_end = page_traffic.lasting(begin, 10, turned=True)
    captures = {
        "early": (9, hours),
        "north": (5, [*page_traffic.mixture(begin, SECONDS), *seen_by_two]),
        "south": (9, [*page_traffic.mixture(begin, third), *seen_by_two]),
        "west": (7, [*other_end, *page_traffic.lasting(begin, 10, port=4001)]),
    }
    packets = {}
    for probe, name in CAPTURES.items():
        if (SHARED / "pcaps").is_dir():
            stack.enrol(probe)
            read = stack.read(probe, SHARED / "pcaps" / name, words=("--keep-time", "--interval", "5s"))
            packets[probe] = read["packets"]["in_flow_records"]
    for probe, (rank, capture) in captures.items():
        packets[probe] = frames.write(folder / "capture.pcap", capture)
        enrol(stack.stack, probe, site="north", rank=rank)
        stack.read(probe, folder / "capture.pcap", words=("--keep-time",))
    return packets


def _collect(stack: RunningStack, folder: Path) -> None:
    """A router exports two flows, between which three datagrams are lost; a translator exports a translation; and one datagram
    is no export.
    """
    (port,) = free_ports(1)
    stack.enrol("routers")
    exports = {
        "127.0.0.1": [
            netflow5(1, packets=10, octets=9_000),
            netflow5(5, packets=10, octets=9_000),
            b"\x00\x63 no export",
        ],
        "127.0.0.2": [
            ipfix(0, template(300, NAT_FIELDS), data_set(300, translation(4, int(time.time() * 1000), 1000, 4000)))
        ],
    }
    with collector(stack, port, folder):
        for address, datagrams in exports.items():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
                out.bind((address, 0))
                for datagram in datagrams:
                    out.sendto(datagram, ("127.0.0.1", port))
        time.sleep(2)


def _return(stack: RunningStack, folder: Path, traffic: Traffic) -> None:
    """A probe reports for the first time after the alert on its silence."""
    silence = f"SELECT count() FROM v_alerts WHERE reason = 'probe_silent' AND probe = '{RETURNED}'"
    eventually(functools.partial(stack.one, silence), "an alert")
    frames.write(folder / "late.pcap", page_traffic.lasting(traffic.losses, 2, client="10.79.0.2"))
    stack.read(RETURNED, folder / "late.pcap", words=("--keep-time",))


@pytest.fixture(scope="package")
def store(stack: RunningStack) -> ClickHouse:
    """The store, with all rights."""
    return connect(stack.stack, "admin")


@pytest.fixture(scope="package")
def viewer(stack: RunningStack) -> Viewer:
    """A viewer without a login."""
    return Viewer(stack.stack.superset_url, stack.stack.data / "superset")


@pytest.fixture(scope="package")
def login(stack: RunningStack) -> tuple[str, str]:
    """Name and password of the user of the customer OWN."""
    done = stack.weir("customer", OWN, "harbour")
    assert done.status == 0, done.err
    return "harbour", done.out.split()[-1]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for all pages."""
    with Browser() as one:
        yield one


@pytest.fixture(scope="package")
def usual(store: ClickHouse, traffic: Traffic) -> None:
    """Imitated: 26 earlier days on which each label counted as much at these hours as in the newest five minutes of the traffic,
    but `smb`, for which the scanners look, a tenth.
    """
    share = "packets_per_second * if(label = 'smb', 0.1, 1)"
    store.execute(f"""
        INSERT INTO counter_means (ts, window_s, scope, probe, counter_set, label, version, packets_per_second, octets_per_second,
            intervals_seen, intervals_expected, probes_reported, probes_expected)
        SELECT fromUnixTimestamp({traffic.begin - 3600 - 2 * 86_400} + toInt32(300 * n - 86400 * day)), 300, 'all', '', counter_set, label, 1,
            {share}, octets_per_second, 30, 30, 1, 1
        FROM (SELECT * FROM v_counter_means WHERE scope = 'all' AND window_s = 300 AND ts = {traffic.end - 300}) AS newest
        CROSS JOIN (SELECT number AS n FROM numbers(48)) AS fives CROSS JOIN (SELECT number AS day FROM numbers(26)) AS days""")


@pytest.fixture(scope="package")
def present(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Traffic of no customer, from two minutes ago until ten minutes from now."""
    capture = tmp_path_factory.mktemp("present") / "present.pcap"
    frames.write(capture, page_traffic.lasting(int(time.time()) // 10 * 10 - 120, 72, client="10.79.0.1"))
    for probe in ("present", "beside"):
        stack.enrol(probe)
        stack.read(probe, capture, words=("--keep-time",))
