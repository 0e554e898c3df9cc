"""A live capture with exports: every collector receives as many packets and octets as the ledger's closing records
state.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

import capture_traces
from bench_live import PROBE, Broker, Link, running
from capture_traces import packets_of
from check_peers import shown_by_nfdump, waiting
from harness import decoded, eventually, free_ports, live_possible
from nprobe_capture import make
from ntop_reader import Message, Subscriber, flows

#: Sends each frame of a capture from the named interface, over some seconds: a collector's socket holds few datagrams.
SENDER = """
import socket, sys, time
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from capture_traces import packets_of
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind((sys.argv[1], 0))
for number, frame in enumerate(packets_of(Path(sys.argv[2]))):
    wire.send(frame)
    if number % 100 == 0:
        time.sleep(0.05)
"""


@contextmanager
def nfcapd(folder: Path, port: int) -> Iterator[None]:
    """nfcapd, which stores in the folder; stopped once it has read everything."""
    words = ["nfcapd", "-b", "127.0.0.1", "-p", str(port), "-w", str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: waiting(port) is not None, "nfcapd listens")
        yield
        eventually(lambda: not waiting(port), "nfcapd has read everything")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def closings(broker: Broker) -> list[Any]:
    """The closing records that the agent published."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "tests", "enable.auto.commit": False})
    values, topic = [], f"weir.flows.{PROBE}"
    try:
        for number in consumer.list_topics(topic, timeout=10).topics[topic].partitions:
            place = TopicPartition(topic, number)
            low, high = consumer.get_watermark_offsets(place, timeout=10)
            consumer.assign([TopicPartition(topic, number, low)])
            while low < high:
                message = consumer.poll(10)
                assert message is not None, "no answer"
                assert not message.error(), message.error()
                low = message.offset() + 1
                values.append(message.value())
    finally:
        consumer.close()
    return [message.closing for message in decoded(values) if message.WhichOneof("body") == "closing"]


def ip_octets(frame: bytes) -> int:
    """Octets of the IP packet in a frame."""
    if frame[12:14] == b"\x86\xdd":
        return 40 + int(struct.unpack("!H", frame[18:20])[0])
    return int(struct.unpack("!H", frame[16:18])[0])


def volume(messages: list[Message]) -> tuple[int, int]:
    """Packets and octets of the published records."""
    records = flows(messages)
    return (
        sum(record["IN_PKTS"] + record["OUT_PKTS"] for record in records),
        sum(record["IN_BYTES"] + record["OUT_BYTES"] for record in records),
    )


def test_collectors_are_told_what_the_ledger_has(tmp_path: Path) -> None:
    """One capture, exported as IPFIX and NetFlow v9 to nfcapd and as nProbe's messages, plain and compressed, to two
    subscribers.
    """
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if not live_possible() or not shutil.which("nfcapd"):
        pytest.skip("no root, no network namespaces or no nfcapd here")
    capture = tmp_path / "made.pcap"
    make(capture, flows=2000)
    frames = list(packets_of(capture))
    sent = (len(frames), sum(map(ip_octets, frames)))
    binary = {form: (free_ports(1)[0], tmp_path / form) for form in ("ipfix", "netflow-v9")}
    for _, folder in binary.values():
        folder.mkdir()
    plain, compressed = free_ports(2)
    config = 'interval = "1s"\nworkers = 1\n'
    for form, (port, _) in binary.items():
        config += f'[[export]]\nto = "{form}"\naddress = "udp://127.0.0.1:{port}"\n'
    for port, compress in ((plain, "false"), (compressed, "true")):
        address = f"tcp://127.0.0.1:{port}"
        config += f'[[export]]\nto = "nprobe-zmq"\naddress = "{address}"\ncompress = {compress}\nsource = 9\n'
    broker = Broker()
    with (
        Link() as link,
        nfcapd(binary["ipfix"][1], binary["ipfix"][0]),
        nfcapd(binary["netflow-v9"][1], binary["netflow-v9"][0]),
        Subscriber(plain) as one,
        Subscriber(compressed) as other,
        running(link, broker, config) as agent,
    ):
        # An early subscriber receives the first interval's event.
        for subscriber in (one, other):
            eventually(functools.partial(subscriber.socket.poll, 0), "the agent publishes")
        before = link.received()
        inside = ["ip", "netns", "exec", link.sender, sys.executable, "-c", SENDER]
        subprocess.run([*inside, "weir1", str(capture), str(Path(capture_traces.__file__).parent)], check=True)
        eventually(lambda: link.received() - before >= sent[0], "all sent")
        eventually(lambda: captured(broker) >= sent, "all captured and published")
        summary = agent.stop()
        messages = [subscriber.receive(lambda: False) for subscriber in (one, other)]
    assert summary["dropped"]["kernel"] == 0
    assert captured(broker) == sent
    for form, (_, folder) in binary.items():
        told = shown_by_nfdump(folder)
        assert (told.packets.total(), told.octets.total()) == sent, form
    assert volume(messages[0]) == volume(messages[1]) == sent
    assert flows(messages[0]) == flows(messages[1])
    for some, is_compressed in zip(messages, (False, True), strict=True):
        assert {(message.source_id, message.compressed) for message in some} == {(9, is_compressed)}
        assert sum(message.topic == "flow" for message in some) > 10, "messages are full"
        event = [message.payload for message in some if message.topic == "event"][-1]
        assert (event["packets"], event["bytes"], event["iface"]["name"]) == (*sent, "weir0")
        counters = [message.payload for message in some if message.topic == "counter"]
        assert counters[-1]["ifName"] == "weir0"


def captured(broker: Broker) -> tuple[int, int]:
    """Packets and octets in records, from the closing records' sums of each interval."""
    volumes = [closing.interval.in_flow_records for closing in closings(broker)]
    return sum(volume.packets for volume in volumes), sum(volume.octets for volume in volumes)
