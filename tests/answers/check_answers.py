"""A second opinion: compares the tables' contents for a capture with its packets.

`make check-answers CAPTURE=file.pcap`, or `python tests/answers/check_answers.py CAPTURE ...`. The agent reads each
capture into a stack of its own, where the jobs compute and the store keeps the tables; tshark reads the same capture
packet by packet, and every list, indicator, mix, counter and filter is computed from its published definition
(definitions.py, counters.py) and compared with the rows. Without a capture: those of ../shared/pcaps.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import compare_ndpi
import counted
import definitions
import explained
import packets as packet_reader
import world
from definitions import MIX, WINDOW, Answer
from harness import CHECKOUT, RunningStack, eventually, skipped
from packets import SECOND, Flow, Packet
from selection import selection
from weir import kafka, prefixes
from weir.maxmind import address_file
from weir.stack import enrol

NUMBERS = {
    name.lower(): int(words[1])
    for line in Path("/etc/protocols").read_text().splitlines()
    if (words := line.split()) and not line.startswith("#")
    for name in (words[0], words[2])
} | {"icmpv6": 58}
SHARED = CHECKOUT.parent / "shared/pcaps"
#: Differences shown of each list.
SHOWN = 5


@dataclass
class Case:
    """A capture and the probe that read it."""

    capture: Path
    probe: str
    frames: list[Packet] = field(default_factory=list)
    packets: list[Packet] = field(default_factory=list)
    filters: dict[int, dict[str, Answer]] = field(default_factory=dict)
    shift: int = 0
    note: str = ""


@dataclass
class Verdicts:
    """The extent of the comparison: windows and figures by list, and the differences in words."""

    windows: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)
    different: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    #: Windows that differ, by capture.
    captures: Counter[str] = field(default_factory=Counter)

    def compare(self, what: str, where: str, expected: Answer, got: dict[Any, dict[str, Any]]) -> None:
        """Compare a list of one window. Rows of equal value at the end of a full list may be any of these. where: ends with the
        capture's name and the time of day.
        """
        self.windows[what] += 1
        wrong = differences(expected, got)
        self.figures[what] += sum(len(row) for key, row in expected.rows.items() if key in got) or 1
        if wrong:
            self.captures[where.split()[-2]] += 1
            self.different[what].append(
                f"{where}: {'; '.join(wrong[:3])}" + (f" (+{len(wrong) - 3})" if len(wrong) > 3 else "")
            )


def differences(expected: Answer, got: dict[Any, dict[str, Any]]) -> list[str]:
    """The differences in words; empty if the rows are correct."""
    wrong, wanted = [], expected.rows
    if expected.value and expected.top and len(wanted) > expected.top:
        order = sorted((row[expected.value] for row in wanted.values()), reverse=True)[: expected.top]
        if sorted((row[expected.value] for row in got.values()), reverse=True) != order:
            wrong.append(f"the {expected.top} highest values differ")
        wanted = {key: row for key, row in wanted.items() if row[expected.value] > order[-1] or key in got}
    for key in wanted.keys() - got.keys():
        wrong.append(f"{shown(key)} is missing, expected {wanted[key]}")
    for key in got.keys() - wanted.keys():
        wrong.append(f"{shown(key)} is there, {got[key]}")
    for key in wanted.keys() & got.keys():
        off = {name: value for name, value in wanted[key].items() if got[key][name] != value}
        wrong += [f"{shown(key)}: {name} is {got[key][name]}, expected {value}" for name, value in off.items()]
    return sorted(wrong)


def shown(key: Any) -> str:
    """A key for people."""
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)


Rows = dict[tuple[int, str], dict[Any, dict[str, Any]]]


class Tables:
    """The rows of all tables; each is read once, for all probes."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self.read: dict[str, dict[str, Rows]] = {}

    def rows(self, probe: str, view: str, key: str, lists: str = "''", where: str = "1") -> Rows:
        """Rows of a probe by (start of the window, list) and key; addresses as text."""
        columns = f"*, toUnixTimestamp(ts) AS w, toString({lists}) AS l, {key} AS k"
        sql = f"SELECT {columns} FROM {view} WHERE {where}"
        if sql not in self.read:
            found: dict[str, Rows] = defaultdict(lambda: defaultdict(dict))
            for row in self.stack.store.rows(sql):
                name = tuple(row["k"]) if isinstance(row["k"], list) else row["k"]
                found[row["probe"]][row["w"] * SECOND, row["l"]][name] = row
            self.read[sql] = found
        return self.read[sql][probe]


@dataclass
class Asked:
    """The rows of one probe; for scope `all`, those over all probes."""

    tables: Tables
    probe: str
    scope: str

    def rows(self, view: str, key: str, lists: str = "''", where: str = "1") -> Rows:
        """Rows by (start of the window, list) and key."""
        probe = self.probe if self.scope == "probe" else ""
        return self.tables.rows(probe, view, key, lists, f"scope = '{self.scope}' AND {where}")


def judge(
    tables: Tables, case: Case, customers: dict[str, int], verdicts: Verdicts, scopes: Iterable[str] = ("probe",)
) -> None:
    """Compare all rows of a probe with its packets; also the rows of scope `all` if there is no other probe."""
    for scope in scopes:
        asked = Asked(tables, case.probe, scope)
        judge_talkers(asked, case, customers, verdicts)
        judge_indicators(asked, case, verdicts)
        judge_mixes(asked, case, customers, verdicts)
    judge_counters(tables, case, verdicts)


def judge_talkers(asked: Asked, case: Case, customers: dict[str, int], verdicts: Verdicts) -> None:
    """Compare top flows and top talkers."""
    at = f"{asked.scope} {case.capture.name}"
    flows = asked.rows("v_top_flows", "(src, src_port, dst, dst_port, protocol_name)", "list")
    talkers = asked.rows("v_top_talkers", "(host, toString(number))", "list")
    windows = definitions.by_window(case.packets, WINDOW)
    for start, inside in windows.items():
        where = f"{at} {clock(start)}"
        for name, answer in definitions.flow_lists(inside).items():
            listed = {(*key[:4], protocol(key[4])): row for key, row in flows[start, name].items()}
            verdicts.compare(f"top_flows {name}", where, answer, listed)
        for name, answers in definitions.talker_lists(inside, customers).items():
            found = {k[0] if name.startswith("host") else int(k[1]): row for k, row in talkers[start, name].items()}
            for unit, answer in answers.items():
                ranks = {key: row[definitions.RANKS[unit]] for key, row in found.items()}
                largest = {key: row for key, row in found.items() if 0 < ranks[key] <= answer.top}
                verdicts.compare(f"top_talkers {name} {unit}", where, answer, largest)
    for table, rows in (("top_flows", flows), ("top_talkers", talkers)):
        for start, name in [key for key in rows if key[0] not in windows]:
            verdicts.compare(f"{table} {name}", f"{at} {clock(start)}", Answer({}), rows[start, name])


def judge_indicators(asked: Asked, case: Case, verdicts: Verdicts) -> None:
    """Compare the port report, the lists of indicators and their sums."""
    report = asked.rows("v_port_report", "host")
    tops = asked.rows("v_top_indicators", "host", "list")
    sums = asked.rows("v_indicators", "''")
    judged = definitions.first_contacts(case.packets)
    for start, inside in definitions.by_window(case.packets, WINDOW).items():
        where = f"{asked.scope} {case.capture.name} {clock(start)}"
        hosts, contacts = definitions.host_counts(inside), judged.get(start, {})
        verdicts.compare("port_report", where, definitions.port_report(inside, hosts, asked.scope), report[start, ""])
        for name, answer in definitions.indicator_lists(inside, hosts, contacts).items():
            verdicts.compare(f"top_indicators {name}", where, answer, tops[start, name])
        answer = definitions.indicators(inside, hosts, contacts, asked.scope)
        verdicts.compare("indicators", where, answer, sums[start, ""])


def judge_mixes(asked: Asked, case: Case, customers: dict[str, int], verdicts: Verdicts) -> None:
    """Compare the mixes of five minutes."""
    mix = asked.rows("v_mixes", "(toString(direction), number, application, remainder)", "dimension", "window_s = 300")
    applications = named(case.capture)
    for start, inside in definitions.by_window(case.packets, MIX).items():
        where = f"{asked.scope} {case.capture.name} {clock(start)}"
        for name, answer in definitions.mixes(inside, customers, applications, asked.scope).items():
            verdicts.compare(f"mixes {name}", where, answer, mix[start, name])


#: nDPI's applications of protocols without ports.
PORTLESS = {1: 81, 2: 82, 4: 86, 8: 83, 47: 80, 50: 79, 51: 79, 58: 102, 89: 85, 132: 84}


def named(capture: Path) -> Callable[[Flow], int] | None:
    """The application of a flow according to ndpiReader; none for a flow with ports but without payload. None without
    ndpiReader."""
    if not shutil.which("ndpiReader"):
        return None
    try:
        seen = compare_ndpi.theirs(capture)
    except (RuntimeError, subprocess.SubprocessError):
        return None

    def of(flow: Flow) -> int:
        ends = [(flow.src, flow.src_port), (flow.dst, flow.dst_port)]
        found = seen.get(compare_ndpi.five_tuple(flow.protocol, ends), [])
        if flow.protocol not in compare_ndpi.WITH_PORTS:
            return PORTLESS.get(flow.protocol, 0)
        return next((one.app for one in found if one.app and one.octets_above_transport), 0)

    return of


def judge_counters(tables: Tables, case: Case, verdicts: Verdicts) -> None:
    """Compare the counters of each interval."""
    # A clock that was set back gives an interval two rows, of two epochs.
    sums = "(SELECT probe, ts, counter_set, label, sum(packets) AS packets, sum(octets) AS octets FROM v_counters GROUP BY ALL)"
    got = tables.rows(case.probe, sums, "label", "counter_set", "packets > 0")
    for kind, answers in (("counters", counted.fixed(case.frames)), ("filters", case.filters)):
        names = {name for by_set in answers.values() for name in by_set}
        for start, by_set in answers.items():
            where = f"{case.capture.name} {clock(start)}"
            for name in sorted(names):
                verdicts.compare(f"{kind} {name}", where, by_set.get(name, Answer({})), got[start, name])


def clock(nanos: int) -> str:
    """A time of day."""
    return time.strftime("%H:%M:%S", time.gmtime(nanos // SECOND))


def protocol(name: str) -> int:
    """The number of a protocol's name."""
    return int(name) if name.isdigit() else NUMBERS.get(name.lower(), -1)


def declare(stack: RunningStack) -> dict[str, int]:
    """Declare the world's prefixes; returns the numbers of the customers."""
    wanted = {
        one.prefix: prefixes.describe(one.customer, world.SITE if one.site else "", [], one.national)
        for one in world.PREFIXES
    }
    prefixes.apply(stack.stack, wanted)
    rows = stack.store.rows("SELECT customer, customer_id FROM v_customers")
    return {row["customer"]: row["customer_id"] for row in rows}


def read_packets(cases: list[Case]) -> None:
    """tshark and tcpdump read the captures."""
    for case in cases:
        if not case.note:
            case.frames = packet_reader.read(case.capture)
            packet_reader.place(case.frames, case.shift)
            case.packets = [frame for frame in case.frames if frame.version]
    plain = [case for case in cases if case.packets and all(packet.plain for packet in case.packets)]
    for case, found in zip(plain, counted.filters([(case.capture, case.frames) for case in plain]), strict=True):
        case.filters = found


def feed(stack: RunningStack, cases: list[Case]) -> None:
    """The agent reads the captures, and everything is stored."""
    for case in cases:
        enrol(stack.stack, case.probe, 1, site=world.SITE)
    time.sleep(8)
    for case in cases:
        done = subprocess.run(stack.read_command(case.probe, case.capture), capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            case.note = f"the agent refused it: {done.stderr.strip()[-100:]}"
            continue
        case.shift = json.loads(done.stdout)["time_shift_ms"] * 1_000_000
    eventually(lambda: kafka.lag(stack.stack.brokers) == 0, "everything in Kafka read", 300)


def settle(stack: RunningStack) -> None:
    """Wait until no table of windows changes any more."""
    tables = ("top_flows", "top_talkers", "port_report", "top_indicators", "indicators", "mixes", "counters")
    question = " UNION ALL ".join(f"SELECT count() AS n FROM {table}" for table in tables)
    # A mix is written when its five minutes are over.
    mixed = time.time() // 300 * 300 + 325
    before, quiet = None, 0
    while quiet < 4 or time.time() < mixed:
        time.sleep(5)
        now = sorted(row["n"] for row in stack.store.rows(question))
        quiet = quiet + 1 if now == before else 0
        before = now


def run(captures: list[Path], keep: bool = False, reason: Callable[[str], str | None] = lambda _: None) -> int:
    """Check captures on one stack and print a table; returns the exit status: 1 if a capture differs for which there is no
    reason.
    """
    with tempfile.TemporaryDirectory() as folder:
        systems, countries = world.places()
        options: dict[str, Any] = {
            "as_database": str(address_file(Path(folder) / "systems.mmdb", systems, "Places of a test")),
            "country_database": str(address_file(Path(folder) / "countries.mmdb", countries, "Places of a test")),
            "national_delay": "5s",
        }
        cases = [
            Case(path, f"p{n}-" + re.sub(r"[^a-z0-9]+", "-", path.name.lower())[:40].strip("-"))
            for n, path in enumerate(captures)
        ]
        with RunningStack(**options) as stack:
            customers = declare(stack)
            began = time.monotonic()
            feed(stack, cases)
            print(f"{len(cases)} captures read and stored in {time.monotonic() - began:.0f} s", flush=True)
            read_packets(cases)
            settle(stack)
            tables, verdicts = Tables(stack), Verdicts()
            if not shutil.which("ndpiReader"):
                print("applications are left out: ndpiReader is not installed (libndpi-bin)")
            for case in cases:
                if case.note:
                    print(f"{case.capture.name}: {case.note}")
                else:
                    judge(tables, case, customers, verdicts, ("probe", "all") if len(cases) == 1 else ("probe",))
            report(verdicts)
            for capture, count in verdicts.captures.most_common():
                print(f"{count:5} in {capture}: {reason(capture) or 'NO REASON IS KNOWN'}")
            if keep:
                print(f"WEIR_HOME={stack.home}", flush=True)
                input()
    return 0 if all(map(reason, verdicts.captures)) else 1


def report(verdicts: Verdicts) -> None:
    """The table: list, windows, figures, how many windows differ, the first differences."""
    print(f"{'list':38} {'windows':>8} {'figures':>9} {'differ':>7}")
    for what in verdicts.windows:
        wrong = verdicts.different.get(what, [])
        print(f"{what:38} {verdicts.windows[what]:8} {verdicts.figures[what]:9} {len(wrong):7}")
        for line in wrong[:SHOWN]:
            print(f"    {line[:400]}")
    print(
        f"{sum(verdicts.windows.values())} lists of windows, {sum(verdicts.figures.values())} figures, {sum(map(len, verdicts.different.values()))} differ"
    )


def main() -> int:
    """Command-line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", type=Path, nargs="*")
    parser.add_argument("--keep", action="store_true", help="leave the stack running until a line is entered")
    options = parser.parse_args()
    captures = options.captures
    if not captures and not SHARED.is_dir():
        skipped("../shared/pcaps is not here, and no CAPTURE was named")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        if captures:
            return run(captures, options.keep)
        return run(selection(SHARED, Path(folder)), options.keep, explained.reason)


if __name__ == "__main__":
    sys.exit(main())
