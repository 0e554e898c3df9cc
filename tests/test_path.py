"""A packet on the wire becomes a row in ClickHouse."""

from __future__ import annotations

import hashlib
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from weir.demo_traffic import write_capture

from harness import RunningStack, eventually


def test_every_packet_of_a_capture_is_stored(stack: RunningStack, tmp_path: Path) -> None:
    packets = write_capture(tmp_path / "made.pcap", packets=4_000)
    stack.enrol("made")
    summary = stack.read("made", tmp_path / "made.pcap")
    assert summary["packets"]["captured"] == packets
    sums = stack.settled("made", packets)
    assert sums == {"records": summary["records"], "packets": packets, "octets": summary["octets"]["in_flow_records"]}
    rows = eventually(
        lambda: [r for r in stack.ledger("made") if r["state"] == "closed"], "closed intervals in the ledger"
    )
    assert sum(row["captured_packets"] for row in rows) == packets
    done = stack.weir("ledger", "--probe", "made", "--since", "10min", "--until", "0s")
    assert done.status == 0, done.out
    assert "lost 0" in done.out


def test_top_flows_equal_plain_sql(stack: RunningStack, tmp_path: Path) -> None:
    packets = write_capture(tmp_path / "top.pcap", packets=4_000, seconds=40)
    stack.enrol("top")
    stack.read("top", tmp_path / "top.pcap")
    stack.settled("top", packets)
    windows = stack.store.rows(
        "SELECT toUnixTimestamp(toStartOfInterval(ts, INTERVAL 30 SECOND)) AS w, sum(fwd_octets + rev_octets) AS o "
        "FROM flows WHERE probe = 'top' GROUP BY w ORDER BY w"
    )
    assert len(windows) >= 2
    key = "src_addr, dst_addr, src_port, dst_port, protocol"
    for window in windows[:-1]:  # the last one may be partly filled, and complete only with a later interval
        listed = f"SELECT {key}, octets FROM top_flows FINAL WHERE probe = 'top' AND scope = 'probe' AND list = 'ip_octets' AND toUnixTimestamp(ts) = {window['w']} ORDER BY rank"
        direct = (
            f"SELECT {key}, sum(fwd_octets + rev_octets) AS octets FROM flows WHERE probe = 'top' "
            f"AND toUnixTimestamp(toStartOfInterval(ts, INTERVAL 30 SECOND)) = {window['w']} GROUP BY {key} ORDER BY octets DESC, {key} LIMIT 50"
        )
        rows = eventually(partial(stack.store.rows, listed), "the window's list")
        expected = stack.store.rows(direct)
        assert [row["octets"] for row in rows] == [row["octets"] for row in expected]
        # Flows of equal size may stand in any order, and at the list's end any of them may stand.
        assert flows_above(rows, expected[-1]["octets"]) == flows_above(expected, expected[-1]["octets"])
        whole = stack.one(
            f"SELECT DISTINCT window_octets FROM top_flows FINAL WHERE probe = 'top' AND toUnixTimestamp(ts) = {window['w']}"
        )
        assert whole == window["o"]


def flows_above(rows: list[dict[str, Any]], octets: int) -> set[tuple[Any, ...]]:
    """The rows of more octets than that."""
    return {tuple(row.values()) for row in rows if row["octets"] > octets}


def test_counters_add_up(stack: RunningStack, tmp_path: Path) -> None:
    packets = write_capture(tmp_path / "count.pcap", packets=2_000)
    stack.enrol("count")
    stack.read("count", tmp_path / "count.pcap")
    for name in ("cast", "ip_version", "protocol", "size"):
        question = f"SELECT sum(packets) FROM counters WHERE probe = 'count' AND counter_set = '{name}' HAVING sum(packets) = {packets}"
        eventually(partial(stack.store.rows, question), f"{packets} packets in the set {name}")


def ip_volume(capture: Path) -> tuple[int, int]:
    """IP packets and layer-3 octets, as tshark counts them; of nested IP headers the outermost.

    A packet counts where tshark reads a length from its IP header. One whose EtherType says IP and whose header says
    version 2 has none: tshark calls it bogus, the agent malformed.
    """
    fields = [word for name in ("frame.protocols", "ip.len", "ipv6.plen") for word in ("-e", name)]
    options = ["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE", "-E", "separator=;", "-E", "occurrence=f"]
    command = ["tshark", "-n", "-r", str(capture), "-Y", "ip.len or ipv6.plen", "-T", "fields", *options, *fields]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    packets = octets = 0
    for line in shown.stdout.splitlines():
        protocols, four, six = line.split(";")
        outermost = next(name for name in protocols.split(":") if name in ("ip", "ipv6"))
        length = four if outermost == "ip" else six
        if length:
            packets += 1
            octets += int(length) + (0 if outermost == "ip" else 40)
    return packets, octets


def chosen_captures(shared: Path, count: int = 20) -> list[Path]:
    """Those whose file names have the smallest SHA-256, among those that capinfos accepts; and one large one."""
    every = sorted(
        (path for path in (shared / "pcaps").rglob("*") if path.is_file()),
        key=lambda path: hashlib.sha256(path.name.encode()).hexdigest(),
    )
    chosen: list[Path] = []
    for path in every:
        if subprocess.run(["capinfos", str(path)], capture_output=True, check=False).returncode == 0:
            chosen.append(path)
        if len(chosen) == count:
            break
    return [*chosen, shared / "pcaps/zeek/echo-connections.pcap.gz"]


def test_public_captures_are_stored_to_the_packet(stack: RunningStack, shared: Path) -> None:
    captures = {f"public-{number}": capture for number, capture in enumerate(chosen_captures(shared))}
    for probe in captures:
        stack.enrol(probe)
    summaries = {probe: stack.read(probe, capture) for probe, capture in captures.items()}
    for probe, summary in summaries.items():
        stack.settled(probe, summary["packets"]["in_flow_records"])
    differences = []
    for probe, capture in captures.items():
        stored, expected = stack.sums(probe), ip_volume(capture)
        line = f"{capture.name:55} stored {stored['packets']:>7} packets {stored['octets']:>9} octets, tshark {expected[0]:>7} {expected[1]:>9}"
        print(line)
        if (stored["packets"], stored["octets"]) != expected:
            differences.append(f"{line}; {summaries[probe]}")
    assert not differences, "\n".join(differences)
