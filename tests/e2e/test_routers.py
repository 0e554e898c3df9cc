"""Data that routers send besides flows, from the wire to SQL: translation events, interface counters and names, and
routing data of a flow.

The test builds the datagrams of sFlow only from the specification of its version 5, as `router_messages.py` builds the others.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from harness import RunningStack, collector, eventually, free_ports
from router_messages import NAT_FIELDS, SEEN, SERVER, SUBSCRIBER, data_set, ipfix, packed, template, translation

#: A flow: addresses, ports, protocol, octets, packets, end, interfaces; AS, next hop, prefix lengths, VRF, end reason, TTL.
FLOW_FIELDS = (
    *((8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (1, 8), (2, 8), (153, 8), (10, 4), (14, 4)),
    *((16, 4), (17, 4), (15, 4), (9, 1), (13, 1), (234, 4), (136, 1), (192, 1)),
)
#: An option: interface as scope; its name and description.
NAME_FIELDS = ((10, 4), (82, 16), (83, 16))


def _sflow(sequence: int, uptime_ms: int, octets: int, packets: int) -> bytes:
    """One datagram with one sample of an interface's counters."""
    counters = struct.pack(
        ">IIQII Q6I Q5I I", 3, 6, 10**9, 1, 3, *(octets, packets, 0, 0, 0, 1, 0), *(2 * octets, packets, 0, 0, 0, 0), 0
    )
    sample = struct.pack(">IIIII", sequence, 3, 1, 1, len(counters)) + counters
    agent = struct.pack(">II4sIIII", 5, 1, bytes((127, 0, 0, 1)), 0, sequence, uptime_ms, 1)
    return agent + struct.pack(">II", 2, len(sample)) + sample


@pytest.fixture(scope="module")
def told(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunningStack, int]:
    """A stack with all of these reports from a router, and the beginning of its first session (ms)."""
    stack.enrol("told")
    port = free_ports(1)[0]
    folder: Path = tmp_path_factory.mktemp("told")
    now_ms = int(time.time() * 1000)
    router = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with collector(stack, port, folder, "told") as process:
        messages = [
            ipfix(0, template(300, NAT_FIELDS), template(301, FLOW_FIELDS), template(302, NAME_FIELDS, scopes=1)),
            ipfix(0, data_set(302, packed(NAME_FIELDS, [3, b"xe-0/0/1", b"to the north"]))),
            # A session on a port, and the next subscriber's on the same one.
            ipfix(
                1,
                data_set(
                    300, translation(4, now_ms - 60_000, 1000, 4000) + translation(5, now_ms - 30_000, 1000, 4000)
                ),
            ),
            ipfix(
                3,
                data_set(
                    301,
                    packed(
                        FLOW_FIELDS,
                        [
                            *(SUBSCRIBER.packed, SERVER.packed, 1000, 443, 6, 5000, 50, now_ms, 3, 4),
                            *(64500, 64501, IPv4Address("192.0.2.9").packed, 24, 16, 9, 3, 63),
                        ],
                    ),
                ),
            ),
            _sflow(1, 1000, 10**6, 1000),
        ]
        for message in messages:
            router.sendto(message, ("127.0.0.1", port))
        time.sleep(2)
        router.sendto(_sflow(2, 3000, 3 * 10**6, 1700), ("127.0.0.1", port))
    assert process.stdout is not None
    summary = json.loads(process.stdout.read())
    assert (summary["events"], summary["counter_samples"], summary["records_received"]) == (2, 2, 1), summary
    assert summary["refused"] == {}
    eventually(lambda: stack.one("SELECT count() FROM nat_events WHERE probe = 'told'") == 2, "the events stored")
    stack.settled("told", 50)
    return stack, now_ms


def test_a_translation_is_found_by_port_and_time(told: tuple[RunningStack, int]) -> None:
    stack, now_ms = told

    def ask(before_s: int) -> tuple[int, list[str]]:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_ms / 1000 - before_s))
        done = stack.weir("nat", f"{SEEN}:4000", "--at", at, "--json")
        return done.status, [row["subscriber"] for row in json.loads(done.out)["holders"]]

    assert ask(45) == (0, [str(SUBSCRIBER)])
    assert ask(70) == (1, [])
    assert ask(10) == (1, [])


def test_the_way_of_a_flow_is_stored(told: tuple[RunningStack, int]) -> None:
    stack, _ = told
    row = stack.store.rows(
        "SELECT routed_src_as, routed_dst_as, toString(next_hop) AS next_hop, src_prefix_length, dst_prefix_length,"
        " ingress_vrf, flow_end_reason, min_ttl, max_ttl FROM flows WHERE probe = 'told'"
    )[0]
    assert row == {
        "routed_src_as": 64500,
        "routed_dst_as": 64501,
        "next_hop": "::ffff:192.0.2.9",
        "src_prefix_length": 24,
        "dst_prefix_length": 16,
        "ingress_vrf": 9,
        "flow_end_reason": 3,
        "min_ttl": 63,
        "max_ttl": 63,
    }


def test_counters_of_an_interface_stand_beside_its_flows(told: tuple[RunningStack, int]) -> None:
    stack, _ = told
    question = (
        "SELECT name, description, sum(in_octets) AS counted, sum(out_octets) AS counted_out, sum(in_packets) AS packets,"
        " sum(flow_in_packets) AS flow_packets, any(speed) AS speed FROM v_interfaces"
        " WHERE exporter = '127.0.0.1' AND interface = 3 AND ts >= now() - 900 AND name != '' GROUP BY name, description"
    )
    eventually(lambda: bool(stack.store.rows(question)), "the interface named")
    row = stack.store.rows(question)[0]
    # Other tests' routers have the address 127.0.0.1, too: their flows are beside ours.
    assert row["flow_packets"] >= 50
    assert (row["name"], row["description"]) == ("xe-0/0/1", "to the north")
    assert (row["counted"], row["counted_out"], row["packets"]) == (2 * 10**6, 4 * 10**6, 700)
