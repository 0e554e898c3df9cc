"""Exported nProbe messages, read by `ntop_reader.py`: compares every field of every record with the agent's own lines."""

from __future__ import annotations

import json
import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

import ntop_reader
from capture_traces import new_flows
from harness import AGENT, RunningStack, eventually, free_ports
from nprobe_capture import ACK, FIN, RST, SYN, make
from ntop_reader import HEADER, MANDATORY, Message, Subscriber, flows
from weir import kafka

#: Every element that a record can fill.
TEMPLATE = (
    "@NTOPNG@ %TCP_FLAGS %FLOW_START_MILLISECONDS %FLOW_END_MILLISECONDS %FLOW_START_SEC %FLOW_END_SEC "
    "%FLOW_DURATION_MILLISECONDS %ICMP_IPV4_TYPE %ICMP_IPV4_CODE %L7_PROTO_NAME %L7_PROTO_CATEGORY %BIFLOW_DIRECTION "
    "%DOT1Q_SRC_VLAN %FLOW_END_REASON %EXPORTER_IPV6_ADDRESS"
)
#: nDPI's names for the capture's applications; an agent built without nDPI has none.
APPLICATIONS = {5: "DNS", 7: "HTTP", 81: "ICMP", 102: "ICMPV6"}
#: Text that an application's number stands for, compared separately.
NAMED = ("L7_PROTO_NAME", "L7_PROTO_CATEGORY")
Line = dict[str, Any]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nprobe") / "made.pcap"
    make(path)
    return path


@pytest.fixture(scope="module")
def lines(capture: Path) -> list[Line]:
    """The agent's own lines of the capture, with every application and both versions of IP."""
    done = subprocess.run(
        [str(AGENT), "read", str(capture), "--to", "jsonl", "--keep-time"], capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) > 100
    assert {line["ip_version"] for line in lines} == {4, 6}
    assert {line["protocol"] for line in lines} == {1, 6, 17, 58}
    assert all(sum(line.get(name, 0) for line in lines) for name in ("tcp_handshake_rtt_us", "fwd_tcp_retransmissions"))
    assert all(sum(line.get(name, 0) for line in lines) for name in ("fwd_tcp_rst", "rev_tcp_out_of_order"))
    return lines


def flags(line: Line, way: str) -> int:
    """TCP flags of one direction, as far as records count them."""
    if line["protocol"] != 6:
        return 0
    syn, synack, fin, rst = (int(line.get(f"{way}_tcp_{name}", 0)) for name in ("syn", "synack", "fin", "rst"))
    acknowledging = int(line[f"{way}_packets"]) > syn + rst
    return SYN * bool(syn or synack) | FIN * bool(fin) | RST * bool(rst) | ACK * acknowledging


def expected(line: Line) -> dict[str, Any]:
    """The expected nProbe message of a line."""
    version = line["ip_version"]
    first, last = (round(datetime.fromisoformat(line[name]).timestamp() * 1000) for name in ("first_seen", "last_seen"))
    icmp = line["dst_port"] if line["protocol"] in (1, 58) else 0
    record = {
        f"IPV{version}_SRC_ADDR": line["src_addr"],
        f"IPV{version}_DST_ADDR": line["dst_addr"],
        "L4_SRC_PORT": line["src_port"],
        "L4_DST_PORT": line["dst_port"],
        "PROTOCOL": line["protocol"],
        "IP_PROTOCOL_VERSION": version,
        "SRC_VLAN": line["vlan"],
        "DOT1Q_SRC_VLAN": line["vlan"],
        "IN_PKTS": line["fwd_packets"],
        "IN_BYTES": line["fwd_octets"],
        "OUT_PKTS": line["rev_packets"],
        "OUT_BYTES": line["rev_octets"],
        "FIRST_SWITCHED": first // 1000,
        "LAST_SWITCHED": last // 1000,
        "FLOW_START_SEC": first // 1000,
        "FLOW_END_SEC": last // 1000,
        "FLOW_START_MILLISECONDS": first,
        "FLOW_END_MILLISECONDS": last,
        "FLOW_DURATION_MILLISECONDS": last - first,
        "TCP_FLAGS": flags(line, "fwd") | flags(line, "rev"),
        "CLIENT_TCP_FLAGS": flags(line, "fwd"),
        "SERVER_TCP_FLAGS": flags(line, "rev"),
        "ICMP_TYPE": icmp,
        "ICMP_IPV4_TYPE": icmp >> 8,
        "ICMP_IPV4_CODE": icmp & 0xFF,
        "L7_PROTO": line.get("application_id", 0),
        "SERVER_NW_LATENCY_MS": line.get("tcp_handshake_rtt_us", 0) / 2000,
        "RETRANSMITTED_IN_PKTS": line.get("fwd_tcp_retransmissions", 0),
        "RETRANSMITTED_OUT_PKTS": line.get("rev_tcp_retransmissions", 0),
        "OOORDER_IN_PKTS": line.get("fwd_tcp_out_of_order", 0),
        "OOORDER_OUT_PKTS": line.get("rev_tcp_out_of_order", 0),
        "BIFLOW_DIRECTION": 0 if line["initiator_guess"] else 1,
        # Captured here, not collected: no interface index, no exporter, every packet sampled.
        "INPUT_SNMP": 0,
        "OUTPUT_SNMP": 0,
        "DIRECTION": 0,
        "FLOW_SOURCE": 0,
        "SAMPLING_INTERVAL": 1,
        "EXPORTER_IPV4_ADDRESS": "0.0.0.0",
        "EXPORTER_IPV6_ADDRESS": "::",
        # A record ends with its interval.
        "FLOW_END_REASON": 2,
    }
    for name, stated in (("TLS_SERVER_NAME", "server_name"), ("DNS_QUERY", "dns_query")):
        if stated in line:
            record[name] = line[stated]
    return record


def compare(records: list[dict[str, Any]], lines: list[Line], template: set[str] | None = None) -> None:
    """Every field of every record, regardless of the order of arrival."""

    def ordered(some: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(some, key=lambda record: json.dumps(record, sort_keys=True))

    for record in records:
        if name := record.get("L7_PROTO_NAME"):
            assert name == APPLICATIONS[record["L7_PROTO"]]
            assert template is not None or record["L7_PROTO_CATEGORY"]
    wanted = [expected(line) for line in lines]
    if template is not None:
        wanted = [{name: value for name, value in record.items() if name in template} for record in wanted]
    bare = [{name: value for name, value in record.items() if name not in NAMED} for record in records]
    assert ordered(bare) == ordered(wanted)


def subscribed(command: list[str], port: int) -> list[Message]:
    """Run an agent and read the messages it publishes."""
    with Subscriber(port) as subscriber:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            messages = subscriber.receive(lambda: process.poll() is None)
        finally:
            process.kill()
            _, said = process.communicate()
    assert process.returncode == 0, said
    return messages


@pytest.mark.parametrize("labels", [False, True], ids=["numbers", "labels"])
def test_ntopng_reads_every_field(labels: bool, capture: Path, lines: list[Line]) -> None:
    """Over ZeroMQ: records, the template before them, the agent's sums."""
    port = free_ports(1)[0]
    words = ["--keep-time", "--template", TEMPLATE, "--export", f"nprobe-zmq=tcp://127.0.0.1:{port}"]
    messages = subscribed([str(AGENT), "read", str(capture), *words, *["--json-labels"] * labels], port)
    compare(flows(messages), lines)
    assert {message.form for message in messages if message.topic == "flow"} == {"labels" if labels else "numbers"}
    assert {message.topic for message in messages} == {"template", "flow", "event"}
    assert messages[0].topic == "template", "names are known before a record has them"
    told = {element["name"] for element in messages[0].payload}
    assert told >= MANDATORY | set().union(*(record.keys() for record in flows(messages)))
    last = [message.payload for message in messages if message.topic == "event"][-1]
    assert last["packets"] == sum(line["fwd_packets"] + line["rev_packets"] for line in lines)
    assert last["bytes"] == sum(line["fwd_octets"] + line["rev_octets"] for line in lines)
    assert last["zmq"]["num_flow_exports"] == len(lines)
    assert last["packet_drops"] == last["drops"]["export_queue_full"] == 0


def test_weir_probe_nprobe_publishes_the_same(capture: Path, lines: list[Line]) -> None:
    """The nProbe options that ntopng's documents recommend."""
    port = free_ports(1)[0]
    words = ["-i", str(capture), "-n", "none", "--zmq", f"tcp://127.0.0.1:{port}", "-T", "@NTOPNG@", "--json-labels"]
    messages = subscribed([str(AGENT), "nprobe", *words], port)
    compare(flows(messages), lines, {element["name"] for element in messages[0].payload})


def test_a_replay_waits_for_a_subscriber_that_is_slow(tmp_path: Path) -> None:
    """A subscriber that reads nothing until long after the first messages, of which there are more than may wait for
    it.
    """
    capture, port, records = tmp_path / "many.pcap", free_ports(1)[0], 300_000
    new_flows(capture, records)
    found, numbers = 0, []
    with Subscriber(port, waiting=100) as subscriber:
        words = ["read", str(capture), "--export", f"nprobe-zmq=tcp://127.0.0.1:{port}"]
        process = subprocess.Popen([str(AGENT), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            eventually(lambda: subscriber.socket.poll(0), "the first message")
            time.sleep(5)
            while process.poll() is None or subscriber.socket.poll(1000):
                if subscriber.socket.poll(100):
                    head, body = subscriber.socket.recv_multipart()
                    numbers.append(HEADER.unpack(head)[-1])
                    found += len(json.loads(body)) if head.startswith(b"flow") else 0
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0
    assert found == records
    assert len(numbers) > 10_000
    assert numbers == list(range(len(numbers)))


def test_consumers_of_kafka_read_every_field(stack: RunningStack, capture: Path, lines: list[Line]) -> None:
    """Every message of a real Kafka is one record, from `read --export` and from both spellings of `nprobe --kafka`."""
    brokers = stack.stack.brokers
    login = [word for property in stack.login for word in ("--kafka-conf", property)]
    as_nprobe = [str(AGENT), "nprobe", "-i", str(capture), "-n", "none", "-T", TEMPLATE, *login]
    as_weir = [str(AGENT), "read", str(capture), "--keep-time", "--template", TEMPLATE, *login]
    commands = {
        "numbers": [*as_weir, "--export", f"nprobe-kafka={brokers};numbers"],
        "labels": [*as_weir, "--json-labels", "--export", f"nprobe-kafka={brokers};labels"],
        "four-parts": [*as_nprobe, "--kafka", f"{brokers};four-parts;1;snappy", "--kafka-conf", "linger.ms=1"],
        "five-parts": [*as_nprobe, "--kafka", f"{brokers};five-parts;options;1;gzip", "--json-labels"],
    }
    topics = [NewTopic(topic, num_partitions=1) for topic in commands]
    admin = kafka.admin(brokers)
    for created in admin.create_topics(topics).values():
        created.result(30)
    for topic, command in commands.items():
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        read = [ntop_reader.kafka(value) for _, value in stack.messages(topic)]
        assert all(len(records) == 1 for records, _ in read)
        assert {form for _, form in read} == {"labels" if "--json-labels" in command else "numbers"}
        compare([records[0] for records, _ in read], lines)
