"""Errors in the agent's messages, each of which the second opinion must notice.

`make check-answers-seeded`, or `python tests/answers/seeded.py`. The agent reads a capture; for each error its messages
are published again as those of another probe, with one field of one record (or the time of one batch) altered, and the
jobs and the store do the rest. A copy without an error shows the differences that exist anyway.
"""

from __future__ import annotations

import copy
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import world
from check_answers import SHARED, Case, Tables, Verdicts, declare, feed, judge, read_packets, settle
from harness import RunningStack, eventually, schemas, skipped
from variants import at_once
from weir import kafka
from weir.maxmind import address_file
from weir.stack import enrol

#: Captures with scans, ICMP errors, UDP without answers and ordinary connections.
MIXED = [
    "zeek/icmp-destunreach-udp.pcap",
    "zeek/icmp.pcap",
    "ndpi/synscan.pcap",
    "ipfixprobe/http.pcap",
    "ipfixprobe/sip.pcap",
    "ndpi/KakaoTalk_chat.pcap",
    "zeek/ipv6.pcap",
    "slips/test12-icmp-portscan.pcap",
]
Change = Callable[[Any], bool]


def one_record(condition: Callable[[Any], bool], change: Callable[[Any], None]) -> Change:
    """Alters the first record that fits; returns whether the batch had one."""

    def alter(message: Any) -> bool:
        for record in message.batch.flows:
            if condition(record):
                change(record)
                return True
        return False

    return alter


def swap(record: Any, one: str, other: str) -> None:
    """Exchange two fields."""
    first, second = getattr(record, one), getattr(record, other)
    setattr(record, one, second)
    setattr(record, other, first)


def add(name: str, number: int) -> Callable[[Any], None]:
    """Add a number to a field."""
    return lambda record: setattr(record, name, getattr(record, name) + number)


def turned(record: Any) -> None:
    """Swaps source and destination, but not the counts."""
    swap(record, "src_addr", "dst_addr")
    swap(record, "src_port", "dst_port")


def a_window_later(message: Any) -> bool:
    """Moves the whole batch to the next window."""
    message.interval_start_ms += 30_000
    return True


ERRORS: dict[str, Change] = {
    "octets": one_record(lambda r: r.fwd_octets, add("fwd_octets", 1)),
    "direction": one_record(lambda r: r.protocol == 6 and r.rev_octets != r.fwd_octets, turned),
    "syn": one_record(lambda r: r.fwd_tcp_syn, add("fwd_tcp_syn", -1)),
    "ports": one_record(lambda r: r.src_port != r.dst_port and r.src_port, lambda r: swap(r, "src_port", "dst_port")),
    "time": a_window_later,
    "protocol": one_record(lambda r: r.protocol == 17, lambda r: setattr(r, "protocol", 6)),
    "packets": one_record(lambda r: r.rev_packets, lambda r: setattr(r, "rev_packets", 2 * r.rev_packets)),
    "icmp-type": one_record(lambda r: r.protocol == 1, add("dst_port", 256)),
    "application": one_record(lambda r: r.application_id, add("application_id", 1)),
    "icmp-errors": one_record(lambda r: r.fwd_icmp_errors, add("fwd_icmp_errors", -1)),
}
#: The jobs find this one: they are given a file in which two systems have each other's addresses.
SYSTEM = "as"


def republish(stack: RunningStack, source: str, target: str, change: Change | None) -> None:
    """Publish the messages of a probe as those of another; the change alters the first message it fits."""
    for topic, kind in (("flows", schemas("flow").FlowMessage), ("counters", schemas("counters").CounterMessage)):
        altered = change is None or topic == "counters"
        values = []
        for _, value in stack.messages(f"weir.{topic}.{source}"):
            message = kind.FromString(value)
            message.probe = target
            if not altered and message.WhichOneof("body") == "batch":
                altered = change(message) if change else True
            values.append(message.SerializeToString())
        assert altered, f"{source} has no record for the error {target}"
        stack.publish(f"weir.{topic}.{target}", values)


def main() -> int:
    """Generate the capture, seed each error, and compare; exit status 1 if an error goes unnoticed."""
    if not SHARED.is_dir():
        skipped("../shared/pcaps is not here")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        capture = at_once((SHARED / one for one in MIXED), folder, "mixed", 100)
        systems, countries = world.places()
        as_file = address_file(folder / "systems.mmdb", systems, "Places of a test")
        country_file = address_file(folder / "countries.mmdb", countries, "Places of a test")
        with RunningStack(as_database=str(as_file), country_database=str(country_file), national_delay="5s") as stack:
            customers = declare(stack)
            probes = ["copy", *ERRORS, SYSTEM]
            for probe in probes:
                enrol(stack.stack, probe, 1, site=world.SITE)
            case = Case(capture, "agent")
            feed(stack, [case])
            for probe in probes[:-1]:
                republish(stack, "agent", probe, ERRORS.get(probe))
            eventually(lambda: kafka.lag(stack.stack.brokers) == 0, "everything in Kafka read", 300)
            swapped = copy.deepcopy(systems)
            swapped["54.0.0.0/8"], swapped["147.0.0.0/8"] = systems["147.0.0.0/8"], systems["54.0.0.0/8"]
            address_file(folder / "new.mmdb", swapped, "Places of a test").rename(as_file)
            time.sleep(20)
            republish(stack, "agent", SYSTEM, None)
            eventually(lambda: kafka.lag(stack.stack.brokers) == 0, "everything in Kafka read", 300)
            read_packets([case])
            settle(stack)
            tables = Tables(stack)
            return report({probe: compared(tables, case, probe, customers) for probe in probes})


def compared(tables: Tables, case: Case, probe: str, customers: dict[str, int]) -> set[str]:
    """The differences of a probe, each as text."""
    verdicts = Verdicts()
    judge(tables, replace(case, probe=probe), customers, verdicts)
    return {f"{what} {line}" for what, lines in verdicts.different.items() for line in lines}


def report(found: dict[str, set[str]]) -> int:
    """One line for each error."""
    anyway = found.pop("copy")
    print(f"without an error {len(anyway)} lists differ")
    missed = 0
    for error, lines in found.items():
        new = sorted(lines - anyway)
        missed += not new
        print(f"{error:12} {'noticed in' if new else 'NOT NOTICED'} {len(new):3} lists; {new[0][:200] if new else ''}")
    print(f"{len(found) - missed} of {len(found)} errors noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
