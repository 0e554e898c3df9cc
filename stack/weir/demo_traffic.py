"""The demo's traffic: an HTTP and a DNS server, clients that query them, and the same traffic as a capture file.

`python -m weir.demo_traffic serve` and `… ask --seconds 20` run in two network namespaces.
"""

from __future__ import annotations

import random
import socket
import subprocess
import threading
import time
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated

import typer
from dnslib import QTYPE, RR, A, DNSRecord
from dnslib.server import BaseResolver, DNSServer

from weir.frames import TCP, UDP, ethernet, tcp, udp, write

app = typer.Typer(add_completion=False)
NAMES = ["www.example.net", "mail.example.net", "cdn.example.org", "api.example.com", "time.example.org"]
SIZES = [400, 2_000, 12_000, 60_000, 250_000]


class _Pages(BaseHTTPRequestHandler):
    """A path that is a number returns that many octets."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        size = int(self.path.strip("/") or 0)
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(b"w" * size)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _DualStack(ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class _Names(BaseResolver):  # type: ignore[misc]
    def resolve(self, request: DNSRecord, _handler: object) -> DNSRecord:
        reply = request.reply()
        reply.add_answer(RR(request.q.qname, QTYPE.A, rdata=A("198.18.0.1"), ttl=60))
        return reply


@app.command()
def serve() -> None:
    """Serve HTTP on port 80 and DNS on port 53 until ended."""
    DNSServer(_Names(), port=53, address="198.18.0.1").start_thread()
    _DualStack(("::", 80), _Pages).serve_forever()


@app.command()
def ask(seconds: Annotated[int, typer.Option(help="How long.")] = 20) -> None:
    """Clients with different habits, from twenty addresses, over IPv4 and IPv6."""
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=_client, args=(number, end)) for number in range(12)]
    for thread in threads:
        thread.start()
    ping = ["ping", "-q", "-i", "0.2", "-w", str(max(1, seconds - 1)), "198.18.0.1"]
    subprocess.run(ping, stdout=subprocess.DEVNULL, check=False)
    for thread in threads:
        thread.join()


def _client(number: int, end: float) -> None:
    chance = random.Random(number)
    source = f"198.18.0.{10 + number}"
    while time.monotonic() < end:
        name = chance.choice(NAMES)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as query:
            query.settimeout(2)
            query.bind((source, 0))
            query.sendto(DNSRecord.question(name).pack(), ("198.18.0.1", 53))
            query.recv(1500)
        if number % 4 == 0:
            connection = HTTPConnection("2001:db8::1", 80, timeout=5)
        else:
            connection = HTTPConnection("198.18.0.1", 80, timeout=5, source_address=(source, 0))
        for _ in range(chance.randint(1, 4)):
            connection.request("GET", f"/{chance.choice(SIZES)}", headers={"Host": name})
            connection.getresponse().read()
        connection.close()
        time.sleep(chance.uniform(0.05, 0.3))


def write_capture(path: Path, packets: int = 20_000, seconds: int = 60) -> int:
    """Write a capture (pcap, Ethernet) of HTTP and DNS traffic over the last minute; returns the number of packets.

    It serves demos without root; generating it means that no capture needs to be shipped.
    """
    chance = random.Random(1)
    begin = time.time() - seconds
    moments = sorted(begin + chance.random() * seconds for _ in range(packets // 20))
    events: list[tuple[float, bytes]] = []
    for number, moment in enumerate(moments):
        client, port = f"198.18.0.{10 + number % 20}", 20_000 + number % 40_000
        if number % 3 == 0:
            events.append((moment, ethernet(client, "198.18.0.1", UDP, udp(port, 53, bytes(32)))))
            events.append((moment + 0.002, ethernet("198.18.0.1", client, UDP, udp(53, port, bytes(48)))))
        turns = [(True, 0x02, 0), (False, 0x12, 0), (True, 0x10, 0), (True, 0x18, 120)]
        turns += [(False, 0x10, 1460)] * chance.randint(3, 30) + [(True, 0x11, 0), (False, 0x11, 0), (True, 0x10, 0)]
        for step, (forward, flags, size) in enumerate(turns):
            ends = (client, "198.18.0.1", port, 80) if forward else ("198.18.0.1", client, 80, port)
            segment = tcp(ends[2], ends[3], flags, bytes(size), (step, step))
            events.append((moment + 0.003 + step * 0.001, ethernet(ends[0], ends[1], TCP, segment)))
    return write(path, events)


if __name__ == "__main__":
    app()
