"""The ledger: packets on the wire, packets stored, and the cause of each difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from weir.clickhouse import ClickHouse
from weir.errors import WeirError
from weir.terminal import escaped

# A row is sound when every packet that the interface counted is stored, or is in no record for a stated reason.
_FIELDS = """
    toUnixTimestamp(ts) AS at, formatDateTime(ts, '%Y-%m-%dT%H:%i:%SZ') AS time, interval_ms, probe, worker, toString(state) AS state, epochs,
    on_interface_packets, captured_packets, captured_octets, dropped_packets, dropped, in_ring_packets, waited_packets,
    carried_in_packets, carried_out_packets, flow_packets, overflow_packets, not_metered_packets, not_metered,
    late_packets, published_batches, published_records, published_packets, published_octets, received_batches,
    received_records, received_packets, repeated_batches, missing_batches, missing_sequences, stored_records,
    stored_packets, stored_octets, published_nat_events, received_nat_events, stored_nat_events,
    published_interface_counters, received_interface_counters, stored_interface_counters, lost_packets, lost_octets, gap_packets, interface_packets, source,
    exporter_records, exporter_lost, exporter_without_sampling_rate, exporter_refused, exporter_sampling
"""


_AMOUNTS = {
    "on the wire": "on_interface_packets",
    "waited": "waited_packets",
    "dropped": "dropped_packets",
    "not metered": "not_metered_packets",
    "published": "published_packets",
    "stored": "stored_packets",
    "lost": "lost_packets",
}


@dataclass(frozen=True)
class Finding:
    """One irregularity, with its place and its amount; `loss` is true if packets are missing."""

    time: str
    probe: str
    worker: int
    text: str
    loss: bool


def read(clickhouse: ClickHouse, where: str) -> list[dict[str, Any]]:
    """The ledger's rows, oldest first; `where` is a condition over v_ledger."""
    return clickhouse.rows(f"SELECT {_FIELDS} FROM v_ledger WHERE {where} ORDER BY ts, probe, worker")


def condition(since: str, probe: str | None, until: str = "0 s") -> str:
    """The condition for a span such as `10 min`, `1 h` or `2 d` before now, and one probe."""
    if probe is not None and "'" in probe:
        raise WeirError(f"'{probe}' is not a probe name")
    parts = [f"ts >= now() - {interval(since)}", f"ts <= now() - {interval(until)}"]
    if probe:
        parts.append(f"probe = '{probe}'")
    return " AND ".join(parts)


def interval(text: str) -> str:
    """A span of time such as `90s`, `10min`, `1h` or `2d` in SQL."""
    units = {"s": "SECOND", "min": "MINUTE", "m": "MINUTE", "h": "HOUR", "d": "DAY"}
    number = text.strip().rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text.strip()[len(number) :].strip()
    if not number.isdigit() or unit not in units:
        raise WeirError(f"'{text}' is not a time span", hint="write it as 90s, 10min, 1h or 2d")
    return f"INTERVAL {number} {units[unit]}"


def findings(rows: list[dict[str, Any]]) -> list[Finding]:
    """The findings in these rows, in plain words."""
    found = []
    for row in rows:

        def say(text: str, loss: bool = True, row: dict[str, Any] = row) -> None:
            found.append(Finding(row["time"], row["probe"], row["worker"], text, loss))

        state, lost = row["state"], row["lost_packets"]
        if state == "missing":
            say("nothing arrived from this worker: no batch, no closing record")
        if state == "closing_missing":
            amount = (
                f"; packets in it by the epoch's sums: {row['published_packets']:,}" if row["published_packets"] else ""
            )
            say(
                f"{row['received_batches']} batches arrived, but no closing record (the agent was killed, or the record was lost){amount}"
            )
        if row["missing_batches"]:
            numbers = ", ".join(map(str, row["missing_sequences"][:10]))
            more = ", …" if row["missing_batches"] > 10 else ""
            say(
                f"{row['missing_batches']} of {row['published_batches']} batches are missing (sequence {numbers}{more})"
            )
        if lost > 0 and state != "closing_missing":
            say(f"{lost:,} packets ({row['lost_octets']:,} bytes) were published but are not stored")
        if lost < 0 and row["published_batches"]:
            say(f"{-lost:,} stored packets were never published")
        for name, words in _BESIDE.items():
            absent = row[f"published_{name}"] - row[f"received_{name}"]
            if absent > 0:
                say(f"{absent:,} {words} were published but did not arrive")
            unstored = row[f"received_{name}"] - row[f"stored_{name}"]
            if unstored > 0:
                say(
                    f"{unstored:,} {words} arrived but are not stored: the jobs or the store lost them, or retention dropped them"
                )
            if unstored < 0:
                say(f"{-unstored:,} stored {words} never arrived: some are stored twice")
        if row["dropped_packets"]:
            causes = ", ".join(f"{cause} {count:,}" for cause, count in row["dropped"].items() if count)
            say(f"{row['dropped_packets']:,} packets were dropped before the agent ({causes})")
        if row["gap_packets"]:
            say(f"{row['gap_packets']:,} packets passed the interface while no agent ran")
        if row["repeated_batches"]:
            say(f"{row['repeated_batches']} batches arrived again and were dropped", loss=False)
        balance = (
            row["captured_packets"]
            + row["carried_in_packets"]
            - row["flow_packets"]
            - row["overflow_packets"]
            - row["not_metered_packets"]
            - row["carried_out_packets"]
        )
        if state in ("closed", "batches_missing") and balance:
            say(f"the agent's own sums do not balance: {balance:+,} packets")
    return [*found, *_of_exporters(rows)]


#: Collectors' reports other than flow records, as counted by the collector, by the jobs on arrival, and by the store
#: from its rows.
_BESIDE = {"nat_events": "events of translators and firewalls", "interface_counters": "samples of interface counters"}

#: A collector's counts per exporter: the column, its meaning in words, whether it means a loss.
_EXPORTERS = (
    ("exporter_lost", "{name}: {count:,} {detail} were sent but did not arrive", True),
    (
        "exporter_without_sampling_rate",
        "{name}: {count:,} records arrived without a sampling rate and are counted unscaled",
        False,
    ),
    ("exporter_sampling", "{name}: {count:,} records arrived while its sampling rate was {detail}", False),
    ("exporter_refused", "{name}: {count:,} were unreadable ({detail})", True),
)
#: The meaning of the values of `exporter_sampling`.
_SAMPLING = {
    "expected": "{name}: its sampling rate is announced, and has not arrived yet; {count:,} records are as exported",
    "not_understood": "{name}: its sampling rate is in a form that Weir cannot read; {count:,} records are as exported",
}
#: Causes in `exporter_refused` for which nothing is missing: the record was stored, or another record says the same.
_TAKEN = {
    "time_clamped": "{name}: {count:,} records were stored at the time of their export: theirs was impossible",
    "clock_off": "{name}: {count:,} messages came from a clock that is far off; their times were corrected",
    "payload_octets": "{name}: {count:,} records count the payload's bytes only, and were stored as they are",
    "repeated": "{name}: {count:,} arrived twice and were stored once",
    "totals_forgotten": "{name}: {count:,} flows' running totals were forgotten for newer ones",
}
#: Causes in `exporter_refused` of readable records that were not stored.
_NOT_TAKEN = {
    "may_be_repeated": "{name}: {count:,} running totals counted nothing: what came before them is unknown",
}


def _of_exporters(rows: list[dict[str, Any]]) -> list[Finding]:
    """One finding per exporter over all rows, at its first time."""
    found = []
    for column, text, loss in _EXPORTERS:
        sums: dict[tuple[str, str], tuple[dict[str, Any], int]] = {}
        for row in rows:
            for name, count in row[column].items():
                first, before = sums.get((row["probe"], name), (row, 0))
                sums[row["probe"], name] = (first, before + count)
        for (probe, label), (row, count) in sorted(sums.items()):
            name, _, detail = label.partition(", ")
            taken = {"exporter_refused": _TAKEN, "exporter_sampling": _SAMPLING}.get(column, {}).get(detail)
            said = (taken or _NOT_TAKEN.get(detail, text)).format(
                name=name, count=count, detail=detail.replace("_", " ")
            )
            found.append(Finding(row["time"], probe, row["worker"], said, loss and not taken))
    return found


def probes(clickhouse: ClickHouse) -> list[str]:
    """Names of the probes that are enrolled, or of which the ledger has rows."""
    rows = clickhouse.rows("SELECT probe FROM probes UNION DISTINCT SELECT probe FROM ledger")
    return [str(row["probe"]) for row in rows]


def staleness(clickhouse: ClickHouse) -> Finding | None:
    """A finding if probes are enrolled and the ledger has no row of the last two minutes.

    The jobs write a row for every probe and interval, even for silent probes. If there are no rows, the jobs themselves
    are silent, and the ledger cannot show losses.
    """
    state = clickhouse.rows(
        "SELECT (SELECT uniqExact(probe) FROM probes) AS probes, toUnixTimestamp(max(ts)) AS newest, "
        "toUnixTimestamp(now()) AS now, formatDateTime(max(ts), '%Y-%m-%dT%H:%i:%SZ') AS time FROM ledger"
    )[0]
    if not state["probes"] or state["now"] - state["newest"] <= 120:
        return None
    since = f"the ledger ends at {state['time']}" if state["newest"] else "the ledger is empty"
    return Finding(state["time"], "every probe", 0, f"{since}: the jobs are down or behind ('weir status')", True)


def totals(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Sums over the rows."""
    names = [
        "on_interface_packets",
        "captured_packets",
        "captured_octets",
        "dropped_packets",
        "not_metered_packets",
        "flow_packets",
        "overflow_packets",
        "published_packets",
        "published_octets",
        "stored_packets",
        "stored_octets",
        "stored_records",
        "lost_packets",
        "gap_packets",
        "waited_packets",
        "interface_packets",
        "late_packets",
    ]
    return {name: sum(row[name] for row in rows) for name in names}


def show(console: Console, rows: list[dict[str, Any]], *, limit: int = 20) -> bool:
    """Print the ledger as a table with its findings; returns whether nothing is missing."""
    if not rows:
        console.print("The ledger has no interval of any probe in this time span.", style="yellow")
        return True
    span = rows[0]["time"] if rows[0]["time"] == rows[-1]["time"] else f"{rows[0]['time']} to {rows[-1]['time']}"
    console.print(f"Ledger: the account of every packet, {span}", style="bold", highlight=False)
    table = Table(header_style="bold", box=None, pad_edge=False, collapse_padding=True)
    for name in ("time", "probe", "w", "state"):
        table.add_column(name, no_wrap=True)
    # Rows add up only with the packets that waited from one interval to the next; usually there are none.
    shown = {name: field for name, field in _AMOUNTS.items() if name != "waited" or any(row[field] for row in rows)}
    for name in shown:
        table.add_column(name, justify="right", no_wrap=True)
    if len(rows) > limit:
        table.caption = f"the last {limit} of {len(rows)} rows; the sums are over all"
        table.caption_justify = "left"
    for row in rows[-limit:]:
        style = {"closed": "", "stopped": "dim"}.get(row["state"], "red")
        amounts = (f"{row[field]:,}" for field in shown.values())
        table.add_row(row["time"][11:19], row["probe"], str(row["worker"]), row["state"], *amounts, style=style)
    total = totals(rows)
    table.add_section()
    table.add_row("sum", "", "", "", *(f"{total[field]:,}" for field in shown.values()), style="bold")
    console.print(table)
    causes: dict[str, int] = {}
    for row in rows:
        for cause, count in row["not_metered"].items():
            causes[cause] = causes.get(cause, 0) + count
    if causes:
        console.print(
            "not metered: "
            + ", ".join(f"{escaped(cause)} {count:,}" for cause, count in sorted(causes.items()) if count)
        )
    found = findings(rows)
    sound = not any(one.loss for one in found)
    for one in found[:30]:
        style = "red" if one.loss else "yellow"
        console.print(f"{one.time}  {one.probe} worker {one.worker}: {escaped(one.text)}", style=style, highlight=False)
    if len(found) > 30:
        console.print(f"and {len(found) - 30} more findings")
    if not sound:
        # The sentence that matters comes last, below whatever fills the screen.
        missing = f"lost {total['lost_packets']:,} packets, dropped {total['dropped_packets']:,}"
        where = sorted({one.probe for one in found if one.loss})
        console.print(
            f"{missing}: {len(where)} of {len({row['probe'] for row in rows})} probes ({', '.join(where[:5])}"
            f"{', …' if len(where) > 5 else ''}); docs/how-to/read-the-ledger.md says what to do",
            style="bold red",
            highlight=False,
            soft_wrap=True,
        )
    if sound:
        console.print(
            f"on the wire {total['on_interface_packets']:,}, stored {total['stored_packets']:,}, "
            f"not metered {total['not_metered_packets']:,} (causes above), lost 0",
            style="green",
            highlight=False,
        )
    return sound
