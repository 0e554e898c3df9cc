"""What an upgrade must keep: stored rows, messages that the jobs have not read, windows that were open, the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness import RunningStack, eventually

#: Tables and views whose rows are complete when the records are stored: an upgrade keeps them as they are.
KEPT = {
    "flows": "count(), sum(fwd_packets + rev_packets), sum(fwd_octets + rev_octets)",
    "v_ledger": "sum(captured_packets), sum(stored_packets), sum(missing_batches), sum(repeated_batches)",
    "v_counters": "count(), sum(packets), sum(octets)",
}
#: Rows of windows, which hold what came before the upgrade and what came after it: each question names a view and sums
#: of it that equal those of `flows` or `counters`, however often the rows are written.
WINDOWS = {
    # Hours that are over, which the service "storage" writes.
    "hours": (
        "SELECT sum(records) AS records, sum(fwd_octets + rev_octets) AS octets FROM flows_hourly WHERE probe = '{probe}'",
        "SELECT count() AS records, sum(fwd_octets + rev_octets) AS octets FROM flows WHERE probe = '{probe}' "
        "AND toStartOfHour(ts) IN (SELECT ts FROM flows_hourly WHERE probe = '{probe}')",
    ),
    "mixes": (
        "SELECT sum(octets) AS octets, sum(packets) AS packets FROM v_mixes WHERE dimension = 'total' AND probe = '{probe}'",
        "SELECT sum(fwd_octets + rev_octets) AS octets, sum(fwd_packets + rev_packets) AS packets FROM flows WHERE probe = '{probe}'",
    ),
    "top flows": (
        "SELECT sum(window_octets) AS octets, sum(window_packets) AS packets FROM v_top_flows WHERE list = 'ip_octets' AND rank = 1 AND probe = '{probe}'",
        "SELECT sum(fwd_octets + rev_octets) AS octets, sum(fwd_packets + rev_packets) AS packets FROM flows WHERE probe = '{probe}'",
    ),
    **{
        f"means of {seconds} s": (
            f"SELECT sum(packets) AS packets, sum(octets) AS octets FROM v_counter_means WHERE window_s = {seconds} AND probe = '{{probe}}'",
            "SELECT sum(packets) AS packets, sum(octets) AS octets FROM v_counters WHERE probe = '{probe}'",
        )
        for seconds in (30, 300, 3_600)
    },
}
#: Seconds until rows of windows of five minutes are written.
WINDOW = 400


def kept(stack: RunningStack, probe: str) -> dict[str, list[dict[str, object]]]:
    """The stored rows of a probe."""
    return {
        name: stack.store.rows(f"SELECT {columns} FROM {name} WHERE probe = '{probe}'")
        for name, columns in KEPT.items()
    }


def wrong_windows(stack: RunningStack, probe: str) -> dict[str, tuple[object, object]]:
    """The rows of windows of a probe that differ from the sums of all that is stored of it: these sums, and those."""
    found = {
        name: (stack.store.rows(rows.format(probe=probe)), stack.store.rows(all_.format(probe=probe)))
        for name, (rows, all_) in WINDOWS.items()
    }
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}


def check(stack: RunningStack, packets: Mapping[str, int], *, over: Iterable[str] | None = None) -> None:
    """After an upgrade, wait until these packets of each probe are stored once and in the ledger, and those of the probes
    whose windows are `over` (None: of all) in all windows.
    """
    for probe, count in packets.items():
        assert stack.settled(probe, count, 180)["packets"] == count, f"{probe}: once, and not again"
    for probe in packets if over is None else over:
        eventually(lambda probe=probe: not wrong_windows(stack, probe), f"all windows of {probe} written", WINDOW)  # type: ignore[misc]
    for probe, count in packets.items():
        (sums,) = stack.store.rows(
            "SELECT sum(captured_packets) AS captured, sum(stored_packets) AS stored, sum(missing_batches) AS missing, "
            f"sum(repeated_batches) AS repeated FROM v_ledger WHERE probe = '{probe}'"
        )
        assert sums == {"captured": count, "stored": count, "missing": 0, "repeated": 0}, probe
    log = (stack.home / "logs/flink.log").read_text()
    assert "cannot read the state" not in log
