"""Pseudonyms: equal to nfdump's on 10,000 addresses; in a whole stack, no topic, table or file names an address, SQL on
prefixes works, and two people turn a pseudonym back.
"""

from __future__ import annotations

import ipaddress
import json
import os
import random
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from check_peers import write_pcap
from harness import AGENT, RunningStack, eventually, run
from nprobe_capture import ethernet, request, tcp, udp
from weir import pseudonyms
from weir.clickhouse import connect
from weir.frames import question

Ends = dict[int, tuple[str, str]]

#: First packet, seconds from the Unix epoch.
START = 1_790_000_000
FLOWS = 10_000
PORTS = range(1024, 1024 + 2 * FLOWS)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Another pytest session deletes pytest's own folders."""
    with tempfile.TemporaryDirectory(prefix="weir-") as made:
        yield Path(made)


def key_file(folder: Path) -> Path:
    """A master key."""
    file = folder / "privacy.key"
    file.write_text("abcdefghijklmnopqrstuvwxyz012345")
    file.chmod(0o600)
    return file


def configured(folder: Path, key: Path, more: str = "") -> Path:
    """A configuration of an agent that publishes pseudonyms."""
    file = folder / "weir-probe.toml"
    file.write_text(f'[privacy]\nmode = "cryptopan"\nkey_file = "{key}"\n{more}')
    return file


# ---- beside nfdump ----


def random_flows(path: Path) -> None:
    """A capture of UDP flows, each of a port of its own, between random addresses: first IPv4, then IPv6."""
    drawn = random.Random(7)
    frames = []
    for port in PORTS:
        if port < PORTS[FLOWS]:
            ends = [str(ipaddress.IPv4Address(drawn.randrange(1 << 24, 224 << 24))) for _ in "sd"]
        else:
            ends = [str(ipaddress.IPv6Address(1 << 125 | drawn.getrandbits(125))) for _ in "sd"]
        frames.append((START + port / 100_000, ethernet(ends[0], ends[1], 17, udp((port, 53), b""))))
    with path.open("wb") as file:
        write_pcap(file, frames)


def seen_by_nfdump(file: Path) -> Ends:
    """Source and destination by the source's port."""
    words = ["nfdump", "-q", "-6", "-r", str(file), "-o", "fmt:%sp|%sa|%da"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    return {int(port): (src, dst) for port, src, dst in rows}


def seen_by_weir(capture: Path, words: Iterable[str]) -> Ends:
    """The same, as the agent publishes it."""
    done = run([str(AGENT), "read", str(capture), "--to", "jsonl", *words])
    assert done.status == 0, done.err
    records = [json.loads(line) for line in done.out.splitlines()]
    return {record["src_port"]: (record["src_addr"], record["dst_addr"]) for record in records}


def test_pseudonyms_are_those_of_nfanon(folder: Path) -> None:
    """IPv6 beside an implementation of its own: nfanon 1.7.1 does not preserve prefixes of IPv6, and makes the pseudonym of the
    destination from the source (docs/decisions/0008-pseudonyms.md).
    """
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if not shutil.which("nfanon") or not shutil.which("nfpcapd"):
        pytest.skip("nfdump is not installed")
    capture, flows, key = folder / "made.pcap", folder / "flows", key_file(folder)
    random_flows(capture)
    flows.mkdir()
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["nfpcapd", "-r", str(capture), "-w", str(flows)], **quiet)  # type: ignore[call-overload]
    (plain,) = flows.glob("nfcapd.*")
    hidden = folder / "hidden"
    subprocess.run(["nfanon", "-q", "-K", key.read_text(), "-r", str(plain), "-w", str(hidden)], **quiet)  # type: ignore[call-overload]
    real, theirs = seen_by_nfdump(plain), seen_by_nfdump(hidden)
    assert seen_by_weir(capture, []) == real
    ours = seen_by_weir(capture, ["--config", str(configured(folder, key, 'period = "0s"\n'))])
    assert list(real) == list(ours) == list(PORTS)
    differing = [port for port in PORTS[:FLOWS] if ours[port] != theirs[port]]
    assert not differing, (real[differing[0]], ours[differing[0]], theirs[differing[0]])
    pan = pseudonyms.CryptoPan(key.read_bytes())
    for port in PORTS[FLOWS:]:
        assert str(pan.pseudonym(ipaddress.ip_address(real[port][0]))) == ours[port][0]
        assert real[port][1] != ours[port][1]


# ---- in a stack ----

#: What the captures of the two probes name: clients, servers, and the flow that an ICMP error quotes.
PLAIN, PRIVATE = ("100.117.77", "2001:db8:e177"), ("100.117.78", "2001:db8:e178")


def named_flows(path: Path, nets: tuple[str, str]) -> int:
    """A capture whose flows name addresses in these networks; returns the number of packets."""
    four, six = nets
    client, server = f"{four}.1", f"{four}.200"
    quoted = ethernet(f"{four}.9", f"{four}.10", 17, udp((53, 7), b""))[14:]
    frames = [
        ethernet(client, server, 6, tcp((40_000, 80), 1, 0, 2)),
        ethernet(client, server, 6, tcp((40_000, 80), 2, 1, 16, request(f"host-of-{four}"))),
        ethernet(f"{four}.2", server, 17, udp((40_001, 53), question(f"{four}.example.net", 1))),
        ethernet(f"{six}::1", f"{six}::2", 17, udp((40_002, 53), question("www.example.net", 2))),
        ethernet(server, client, 1, struct.pack("!BBHI", 3, 3, 0, 0) + quoted),
    ]
    with path.open("wb") as file:
        write_pcap(file, [(START + number / 10, frame) for number, frame in enumerate(frames)])
    return len(frames)


def tables_with(stack: RunningStack, net: str) -> set[str]:
    """The tables of the store that name an address of a network, in whatever column."""
    done = stack.weir("forget", net, "--dry-run")
    assert done.status == 0, done.err
    return {line.split()[0].removeprefix("weir.") for line in done.out.splitlines() if line.startswith("weir.")}


def written(stack: RunningStack, probe: str) -> dict[str, bytes]:
    """What topics and files hold: messages of the topics that the probe or the jobs write, and the stack's logs and audit."""
    topics = (f"weir.flows.{probe}", f"weir.counters.{probe}", "weir.alerts", "weir.dead-letters")
    found = {topic: b"".join(value or b"" for _, value in stack.messages(topic)) for topic in topics}
    for folder in ("logs", "data/audit", "run"):
        for file in (stack.home / folder).rglob("*"):
            if file.is_file():
                found[str(file)] = file.read_bytes()
    return found


def naming(found: dict[str, bytes], nets: tuple[str, str]) -> set[str]:
    """Those that hold an address of these networks, as text or in network order."""
    four, six = nets
    octets = ipaddress.IPv4Address(f"{four}.0").packed[:3]
    needles = [f"{four}.".encode(), f"{six}:".encode(), ipaddress.IPv6Address(f"{six}::").packed[:12]]
    needles += [octets + bytes([last]) for last in (1, 2, 9, 10, 200)]
    return {place for place, content in found.items() if any(needle in content for needle in needles)}


def test_no_topic_table_or_file_names_an_address(stack: RunningStack, folder: Path) -> None:
    key, shares = folder / "privacy.key", folder / "shares"
    split = ["privacy", "split", "--holder", "anna", "--holder", "ben", "--key-file", str(key), "--to", str(shares)]
    done = stack.weir(*split)
    assert done.status == 0, done.err
    options = {"plain-one": [], "private-one": ["--config", str(configured(folder, key))]}
    for (probe, words), nets in zip(options.items(), (PLAIN, PRIVATE), strict=True):
        stack.enrol(probe)
        capture = folder / f"{probe}.pcap"
        packets = named_flows(capture, nets)
        stack.read(probe, capture, words=words)
        stack.settled(probe, packets)
    probes = "(SELECT count(DISTINCT probe) FROM {} WHERE probe IN ('plain-one', 'private-one'))"
    both = f"SELECT {probes.format('top_talkers')} + {probes.format('top_flows')} + {probes.format('flows_hourly')}"
    eventually(lambda: stack.one(both) == 6, "windows and hours of both probes are written", 240)
    # First the files: the audit has the questions that search the tables.
    assert naming(written(stack, "plain-one"), PLAIN) == {"weir.flows.plain-one"}
    assert naming(written(stack, "private-one"), PRIVATE) == set()
    assert {"flows", "top_flows", "top_talkers", "flows_hourly"} <= tables_with(stack, f"{PLAIN[0]}.0/24")
    assert "flows" in tables_with(stack, f"{PLAIN[1]}::/48")
    for net in (f"{PRIVATE[0]}.0/24", f"{PRIVATE[1]}::/48"):
        assert tables_with(stack, net) == set()

    store = connect(stack.stack, "analyst")
    rows = store.rows(
        "SELECT ts, replaceOne(toString(src_addr), '::ffff:', '') AS src, server_name, dns_query, pseudonyms, src_as, src_country, src_prefix,"
        " site_direction, replaceOne(toString(icmp_quoted_src_addr), '::ffff:', '') AS quoted FROM flows WHERE probe = 'private-one'"
        " AND ip_version = 4 ORDER BY protocol DESC, src_port"
    )
    assert {row["pseudonyms"] for row in rows} == {"both"}
    nothing = {"server_name": "", "dns_query": "", "src_as": 0, "src_country": 0, "src_prefix": 0}
    assert all(row | nothing | {"site_direction": "unknown"} == row for row in rows)

    # Prefixes still compare.
    at = str(rows[0]["ts"])
    because = ["--period", "7d", "--at", at, "--reason", "order 17", "--share", str(shares / "anna.share")]
    two = [*because, "--share", str(shares / "ben.share")]
    done = stack.weir("privacy", "translate", f"{PRIVATE[0]}.0/24", *two)
    assert done.status == 0, done.err
    first, last = (ipaddress.ip_network(done.out.strip())[place] for place in (0, -1))
    within = f"src_addr BETWEEN toIPv6('::ffff:{first}') AND toIPv6('::ffff:{last}')"
    count = "SELECT count() FROM flows WHERE probe = 'private-one' AND ip_version = 4 AND"
    assert stack.one(f"{count} {within}") == stack.one(f"{count} true") == len(rows) == 3

    # Two people turn one back, wherever it stands; one does not.
    quoted = next(row["quoted"] for row in rows if row["quoted"] != "::")
    for pseudonym, real in ((quoted, f"{PRIVATE[0]}.9"), (rows[-1]["src"], f"{PRIVATE[0]}.200")):
        done = stack.weir("reveal", pseudonym, *two)
        assert (done.status, done.out.strip()) == (0, real), done.err
    refused = stack.weir("reveal", quoted, *because)
    assert (refused.status, refused.out) == (2, "")
    assert "it takes the shares of 2 people, and these are of anna" in refused.err
    lines = [json.loads(line) for line in stack.weir("audit", "show", "--json", "--limit", "10000").out.splitlines()]
    revealed = [line["detail"] for line in lines if line.get("action") == "reveal"]
    assert [(detail["holders"], detail["reason"]) for detail in revealed] == [(["anna", "ben"], "order 17")] * 2
    assert stack.weir("audit", "verify").status == 0


@pytest.mark.long
def test_jobs_with_a_key_keep_no_address(folder: Path) -> None:
    """AS, country, customer and direction are those of the addresses; Kafka alone still has these."""
    key = key_file(folder)
    with RunningStack(privacy_key=str(key), privacy_period="0s") as stack:
        declared = stack.weir(
            "prefixes", "set", f"{PRIVATE[0]}.0/25", "--customer", "Fjord", "--site", "oslo", "--national"
        )
        assert declared.status == 0, declared.err
        stack.enrol("private-one", 1, "--site", "oslo")
        capture = folder / "made.pcap"
        packets = named_flows(capture, PRIVATE)
        stack.read("private-one", capture)
        stack.settled("private-one", packets)
        tables = " + ".join(f"(SELECT count() > 0 FROM {one})" for one in ("top_talkers", "top_flows", "flows_hourly"))
        eventually(lambda: stack.one(f"SELECT {tables}") == 3, "windows and hours are written", 240)
        stack.stop("flink")
        places = written(stack, "private-one")
        for file in (stack.home / "data/flink").rglob("*"):
            if file.is_file():
                places[str(file)] = file.read_bytes()
        assert naming(places, PRIVATE) == {"weir.flows.private-one"}
        for net in (f"{PRIVATE[0]}.0/24", f"{PRIVATE[1]}::/48"):
            assert tables_with(stack, net) <= {"prefixes"}
        (row,) = connect(stack.stack, "analyst").rows(
            "SELECT pseudonyms, src_customer > 0 AS customer, site_direction, nation_direction,"
            " replaceOne(toString(src_addr), '::ffff:', '') AS src FROM flows WHERE src_port = 40000"
        )
        real = ipaddress.ip_address(f"{PRIVATE[0]}.1")
        assert row == {
            "pseudonyms": "both",
            "customer": 1,
            "site_direction": "out",
            "nation_direction": "out",
            "src": str(pseudonyms.CryptoPan(key.read_bytes()).pseudonym(real)),
        }
