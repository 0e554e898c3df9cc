"""A packet on the wire becomes a row in ClickHouse."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from harness import RunningStack, eventually
from public_captures import chosen_captures, ip_volume
from weir.demo_traffic import write_capture


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
        expected = stack.store.rows(direct)

        def newest(listed: str, expected: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
            """Wait until the newest version of the window's list equals plain SQL; returns it."""
            rows = stack.store.rows(listed)
            return rows if [row["octets"] for row in rows] == [row["octets"] for row in expected] else None

        rows = eventually(partial(newest, listed, expected), "the window's list equal to plain SQL")
        # Flows of equal size may appear in any order, and at the list's end any of them may appear.
        assert flows_above(rows, expected[-1]["octets"]) == flows_above(expected, expected[-1]["octets"])
        whole = stack.one(
            f"SELECT DISTINCT window_octets FROM top_flows FINAL WHERE probe = 'top' AND toUnixTimestamp(ts) = {window['w']}"
        )
        assert whole == window["o"]


def flows_above(rows: list[dict[str, Any]], octets: int) -> set[tuple[Any, ...]]:
    """The rows with more than `octets` octets."""
    return {tuple(row.values()) for row in rows if row["octets"] > octets}


def test_counters_add_up(stack: RunningStack, tmp_path: Path) -> None:
    packets = write_capture(tmp_path / "count.pcap", packets=2_000)
    stack.enrol("count")
    stack.read("count", tmp_path / "count.pcap")
    for name in ("cast", "ip_version", "protocol", "size"):
        question = f"SELECT sum(packets) FROM counters WHERE probe = 'count' AND counter_set = '{name}' HAVING sum(packets) = {packets}"
        eventually(partial(stack.store.rows, question), f"{packets} packets in the set {name}")


@pytest.mark.long
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


def test_nobody_else_reads_what_the_stack_keeps(stack: RunningStack) -> None:
    for name in ("data", "logs", "run", "secrets", "backups"):
        assert (stack.home / name).stat().st_mode & 0o077 == 0, name
    files = [path for name in ("data", "secrets") for path in (stack.home / name).rglob("*") if path.is_file()]
    assert len(files) > 20
    assert not [path for path in files if path.exists() and path.stat().st_mode & 0o007]


def test_no_secret_is_where_others_might_see_it(stack: RunningStack) -> None:
    """Neither in arguments, environments and the supervisor's file, nor in what Flink shows and keeps of the jobs."""
    folder = stack.home / "secrets"
    values = [path.read_bytes().strip() for path in folder.rglob("*") if path.is_file() and path.suffix != ".pem"]
    values += [path.read_bytes().split(b"-----")[2].strip() for path in folder.rglob("*.pem") if path.name != "ca.pem"]
    assert len(values) >= 8
    places = {"supervisord.conf": (stack.home / "run/supervisord.conf").read_bytes()}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("WEIR_INSTANCE") == str(stack.home):
                seen = Path(f"/proc/{process.pid}")
                places[f"{process.name()} {process.pid}"] = (seen / "environ").read_bytes() + (
                    seen / "cmdline"
                ).read_bytes()
    assert len(places) > 5
    (job,) = httpx.get(f"{stack.stack.flink_url}/jobs").json()["jobs"]
    for page in (f"jobs/{job['id']}", f"jobs/{job['id']}/config", "jobmanager/config", "jobmanager/environment"):
        places[page] = httpx.get(f"{stack.stack.flink_url}/{page}").content
    for path in (stack.home / "data/flink").rglob("_metadata"):
        places[str(path)] = path.read_bytes()
    assert not [(place, value[:6]) for place, text in places.items() for value in values if value in text]


def test_the_jobs_run_no_programs_for_others(stack: RunningStack) -> None:
    url = stack.stack.flink_url
    assert httpx.get(f"{url}/jobs/overview").status_code == 200
    answer = httpx.post(f"{url}/jars/upload", files={"jarfile": ("x.jar", b"PK", "application/x-java-archive")})
    assert answer.status_code >= 400, answer.text
    assert not list(stack.home.rglob("*x.jar"))
