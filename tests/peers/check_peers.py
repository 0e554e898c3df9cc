"""The agent's exports as its peers read them, and the peers' exports as `weir-probe collect` reads them.

`make check-peers` prints a table of each. The script generates a capture packet by packet, so that every flow's packets
and octets are known. The agent reads it and exports it as IPFIX and NetFlow v9 to nfcapd, nfacctd, goflow2 and tshark;
each peer's records, added up by flow, must equal those of the capture. Then softflowd, pmacctd and nfpcapd read it and
export it; the collector's records must equal those that the peer itself reports, and those of the capture.
`test_peers.py` does the same with the installed peers.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from capture_traces import header
from harness import AGENT, eventually, free_ports, skipped
from weir.frames import Packet, recorded

Flow = tuple[str, str, int, int, int]
"""Source, destination, their ports (0 for ICMP, which each peer shows differently), protocol."""


@dataclass(frozen=True)
class Volumes:
    """Packets and octets by flow, each direction a flow of its own."""

    packets: Counter[Flow]
    octets: Counter[Flow]
    records: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Volumes) and (self.packets, self.octets) == (other.packets, other.octets)


def gather(records: list[tuple[Flow, int, int]]) -> Volumes:
    """Add records of (flow, packets, octets) up."""
    packets: Counter[Flow] = Counter()
    octets: Counter[Flow] = Counter()
    for (source, destination, source_port, destination_port, protocol), count, size in records:
        ports = (0, 0) if protocol in (1, 58) else (source_port, destination_port)
        flow = (source, destination, *ports, protocol)
        if count:
            packets[flow] += count
            octets[flow] += size
    return Volumes(packets, octets, len(records))


def make_capture(path: Path, flows: int = 400) -> Volumes:
    """Write a capture of UDP, TCP and ICMP over IPv4 and IPv6, in both directions, over three intervals; returns its
    flows.
    """
    dice = random.Random(20261122)
    sent: list[tuple[float, bytes, Flow, int]] = []
    for number in range(flows):
        six = number % 4 == 3
        hosts = (1 + number % 50, 200 + number % 7)
        ends = [f"2001:db8::{host:x}" if six else f"198.18.0.{host}" for host in hosts]
        protocol = dice.choice((6, 17, 17, 58 if six else 1))
        ports = (20_000 + number, dice.choice((53, 80, 443)))
        for _ in range(dice.randint(1, 12)):
            back = dice.random() < 0.4
            (source, destination), (from_port, to_port) = (ends[::-1], ports[::-1]) if back else (ends, ports)
            payload = dice.randbytes(dice.randint(0, 600))
            if protocol == 6:
                layer4 = struct.pack("!HHIIBBHHH", from_port, to_port, 1, 1, 0x50, 0x10, 1000, 0, 0) + payload
            elif protocol == 17:
                layer4 = struct.pack("!HHHH", from_port, to_port, 8 + len(payload), 0) + payload
            else:
                kind = {(1, False): 8, (1, True): 0, (58, False): 128, (58, True): 129}[protocol, back]
                layer4 = struct.pack("!BBHHH", kind, 0, 0, number, 1) + payload
            raw = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
            if six:
                packet = struct.pack("!IHBB", 0x60000000, len(layer4), protocol, 64) + raw + layer4
            else:
                packet = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(layer4), 0, 0, 64, protocol, 0) + raw + layer4
            frame = bytes(12) + (b"\x86\xdd" if six else b"\x08\x00") + packet
            flow = (source, destination, from_port, to_port, protocol)
            sent.append((1_790_000_000 + dice.random() * 29, frame, flow, len(packet)))
    sent.sort(key=lambda one: one[0])
    with path.open("wb") as file:
        write_pcap(file, [(when, frame) for when, frame, _, _ in sent])
    return gather([(flow, 1, octets) for _, _, flow, octets in sent])


def write_pcap(file: Any, packets: list[Packet]) -> None:
    """Write frames of Ethernet as pcap."""
    file.write(header())
    file.writelines(map(recorded, packets))


def waiting(port: int) -> int | None:
    """Octets that wait in the UDP socket bound to this port; none if there is no such socket."""
    for table in ("/proc/net/udp", "/proc/net/udp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[1].rpartition(":")[2], 16) == port:
                return int(fields[4].partition(":")[2], 16)
    return None


def export(capture: Path, form: str, address: str, options: list[str]) -> None:
    """Make the agent read the capture and export it."""
    command = [str(AGENT), "read", str(capture), "--to", "none", "--export", f"{form}={address}", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")


def through(command: list[str], port: int, capture: Path, form: str, options: list[str]) -> None:
    """Export to a peer started for this, and end it when it has read everything."""
    peer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: waiting(port) is not None or peer.poll() is not None, f"{command[0]} listens")
        if peer.poll() is not None:
            raise AssertionError(f"{' '.join(command)} ended with status {peer.returncode}")
        export(capture, form, f"udp://127.0.0.1:{port}", options)
        eventually(lambda: not waiting(port), f"{command[0]} has read everything")
        time.sleep(0.5)  # It also processes the datagrams it has read.
    finally:
        peer.send_signal(signal.SIGINT)
        try:
            peer.wait(20)
        except subprocess.TimeoutExpired:
            peer.kill()
            peer.wait()


def number(record: dict[str, Any], *keys: str) -> int:
    """The first of these fields that exists, as a number."""
    return next((int(record[key]) for key in keys if key in record), 0)


def protocol_number(text: Any) -> int:
    """A protocol's number, from the number or a name that peers use."""
    names = {"icmp": 1, "tcp": 6, "udp": 17, "ipv6-icmp": 58, "icmpv6": 58, "icmp6": 58}
    return names.get(str(text).lower()) or int(text)


def nfcapd(capture: Path, form: str, options: list[str], folder: Path) -> Volumes:
    """Records as nfcapd stores and nfdump shows them."""
    port, flows = free_ports(1)[0], folder / "flows"
    flows.mkdir()
    through(["nfcapd", "-b", "127.0.0.1", "-p", str(port), "-w", str(flows)], port, capture, form, options)
    return shown_by_nfdump(flows)


def shown_by_nfdump(flows: Path) -> Volumes:
    """Records of a folder, as nfdump shows them."""
    shown = subprocess.run(["nfdump", "-R", str(flows), "-o", "json"], capture_output=True, text=True, check=True)
    records = []
    for one in json.loads(shown.stdout or "[]"):
        ends = [next(str(one[key]) for key in (f"{end}4_addr", f"{end}6_addr") if key in one) for end in ("src", "dst")]
        ports = (number(one, "src_port"), number(one, "dst_port"))
        protocol = protocol_number(one["proto"])
        records.append(((*ends, *ports, protocol), number(one, "in_packets"), number(one, "in_bytes")))
        if number(one, "out_packets"):
            records.append(((*ends[::-1], *ports[::-1], protocol), one["out_packets"], one["out_bytes"]))
    return gather(records)  # type: ignore[arg-type]


def nfacctd(capture: Path, form: str, options: list[str], folder: Path) -> Volumes:
    """Records as pmacct's collector adds them up."""
    port, output = free_ports(1)[0], folder / "nfacctd.json"
    config = folder / "nfacctd.conf"
    config.write_text(
        f"daemonize: false\nnfacctd_ip: 127.0.0.1\nnfacctd_port: {port}\nplugins: print\nprint_output: json\n"
        f"aggregate: src_host, dst_host, src_port, dst_port, proto\nprint_refresh_time: 3600\n"
        f"print_output_file: {output}\nprint_output_file_append: true\n"
    )
    through(["nfacctd", "-f", str(config)], port, capture, form, options)
    return printed_by_pmacct(output)


def printed_by_pmacct(output: Path) -> Volumes:
    """Records as pmacct's plugin print writes them."""
    records = []
    for line in output.read_text().splitlines():
        one = json.loads(line)
        if "ip_src" not in one:
            continue
        flow = (one["ip_src"], one["ip_dst"], number(one, "port_src"), number(one, "port_dst"))
        records.append(((*flow, protocol_number(one["ip_proto"])), one["packets"], one["bytes"]))
    return gather(records)


def json_values(text: str) -> Iterator[Any]:
    """The JSON values of a text, with any white space or none between them."""
    decoder, at = json.JSONDecoder(), 0
    while begin := re.compile(r"\S").search(text, at):
        value, at = decoder.raw_decode(text, begin.start())
        yield value


def goflow2(capture: Path, form: str, options: list[str], folder: Path) -> Volumes:
    """Records as goflow2 decodes them."""
    port, output = free_ports(1)[0], folder / "goflow2.json"
    # One worker, because several write to the file without waiting for each other.
    listen = f"netflow://127.0.0.1:{port}?count=1&workers=1"
    command = ["goflow2", "-listen", listen, "-addr", "", "-transport.file", str(output), "-templates.path", ""]
    through(command, port, capture, form, options)
    records = []
    for one in json_values(output.read_text()):
        flow = (one["src_addr"], one["dst_addr"], one["src_port"], one["dst_port"], protocol_number(one["proto"]))
        records.append((flow, one["packets"], one["bytes"]))
    return gather(records)


def datagrams(capture: Path, form: str, options: list[str]) -> list[bytes]:
    """The messages themselves, by UDP."""
    found: list[bytes] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        ended = threading.Event()

        def receive() -> None:
            one.settimeout(0.2)
            while True:
                try:
                    found.append(one.recv(65535))
                except TimeoutError:
                    if ended.is_set():
                        return

        thread = threading.Thread(target=receive)
        thread.start()
        try:
            export(capture, form, f"udp://127.0.0.1:{one.getsockname()[1]}", options)
        finally:
            ended.set()
            thread.join()
    return found


def stream(capture: Path, form: str, options: list[str]) -> list[bytes]:
    """The messages themselves, by TCP."""
    octets = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def receive() -> None:
            connection, _ = listener.accept()
            with connection:
                while some := connection.recv(1 << 16):
                    octets.extend(some)

        thread = threading.Thread(target=receive, daemon=True)
        thread.start()
        export(capture, form, f"tcp://127.0.0.1:{listener.getsockname()[1]}", options)
        thread.join(60)
    found = []
    while octets:
        length = int.from_bytes(octets[2:4], "big")
        found.append(bytes(octets[:length]))
        del octets[:length]
    return found


def dissected(messages: list[bytes], folder: Path) -> Volumes:
    """Records as tshark's dissector shows them; `folder` gets the messages as a capture."""
    path = folder / "messages.pcap"
    frames = []
    for position, message in enumerate(messages):
        udp = struct.pack("!HHHH", 40_000, 2055, 8 + len(message), 0) + message
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + bytes([127, 0, 0, 1] * 2) + udp
        frames.append((1_790_000_000 + position / 1000, bytes(12) + b"\x08\x00" + ip))
    with path.open("wb") as file:
        write_pcap(file, frames)
    command = ["tshark", "-n", "-r", str(path), "-d", "udp.port==2055,cflow", "-T", "pdml"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    if "_ws.malformed" in shown.stdout:
        raise AssertionError("tshark calls a message malformed")
    records = []
    for flow in ElementTree.fromstring(shown.stdout).iter("field"):
        said: dict[str, list[str]] = {}
        for field in flow:
            said.setdefault(field.get("name", ""), []).append(field.get("show", ""))
        if "cflow.protocol" not in said or "cflow.packets" not in said:
            continue
        ends = [(said.get(f"cflow.{end}addr") or said[f"cflow.{end}addrv6"])[0] for end in ("src", "dst")]
        ports = [int(said[f"cflow.{end}port"][0]) for end in ("src", "dst")]
        protocol = int(said["cflow.protocol"][0])
        # The reverse counts of RFC 5103 have the same names, and come second; NetFlow v9 has names of their own.
        packets = said["cflow.packets"] + said.get("cflow.packetsout", said.get("cflow.post_packets", []))
        octets = said["cflow.octets"] + said.get("cflow.octetsout", said.get("cflow.post_octets", []))
        records.append(((*ends, *ports, protocol), int(packets[0]), int(octets[0])))
        if len(packets) > 1:
            records.append(((*ends[::-1], *ports[::-1], protocol), int(packets[1]), int(octets[1])))
    return gather(records)  # type: ignore[arg-type]


def tshark(capture: Path, form: str, options: list[str], folder: Path) -> Volumes:
    """Records by UDP, as tshark's dissector shows them."""
    return dissected(datagrams(capture, form, options), folder)


def tshark_by_tcp(capture: Path, form: str, options: list[str], folder: Path) -> Volumes:
    """Records by TCP, as tshark's dissector shows them."""
    return dissected(stream(capture, form, options), folder)


@dataclass(frozen=True)
class Trip:
    """One peer reading one format."""

    peer: str
    needs: str
    form: str
    options: tuple[str, ...]
    read: Callable[[Path, str, list[str], Path], Volumes]

    def name(self) -> str:
        """Name in the table."""
        return f"{self.peer}, {self.form}{''.join(' ' + option for option in self.options)}"

    def installed(self) -> bool:
        """Whether its program is installed."""
        return shutil.which(self.needs, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is not None

    def run(self, capture: Path) -> Volumes:
        """The peer's records."""
        with tempfile.TemporaryDirectory() as folder:
            return self.read(capture, self.form, list(self.options), Path(folder))


ONE_WAY: tuple[str, ...] = ()
BIFLOW = ("--biflow",)
NTOPNG = ("--template", "@NTOPNG@")
TRIPS = [
    *(Trip("nfcapd", "nfcapd", form, way, nfcapd) for form in ("ipfix", "netflow-v9") for way in (ONE_WAY, BIFLOW)),
    *(Trip("nfacctd", "nfacctd", form, ONE_WAY, nfacctd) for form in ("ipfix", "netflow-v9")),
    *(Trip("goflow2", "goflow2", form, ONE_WAY, goflow2) for form in ("ipfix", "netflow-v9")),
    *(
        Trip("tshark", "tshark", form, way, tshark)
        for form in ("ipfix", "netflow-v9")
        for way in (ONE_WAY, BIFLOW, NTOPNG)
    ),
    Trip("tshark by TCP", "tshark", "ipfix", ONE_WAY, tshark_by_tcp),
]


# ---- peers' exports into the collector ----


def without_six(volumes: Volumes) -> Volumes:
    """The part that NetFlow v5 can carry: IPv4."""
    packets, octets = (
        Counter({flow: count for flow, count in of.items() if ":" not in flow[0]})
        for of in (volumes.packets, volumes.octets)
    )
    return Volumes(packets, octets, volumes.records)


def said_by(command: list[str], harmless: str = "") -> str:
    """Run a peer to its end; returns its output. It may end with an error that says `harmless`."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode and not (harmless and harmless in done.stdout + done.stderr):
        raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")
    return done.stdout + done.stderr


def by_softflowd(capture: Path, version: str, port: int, folder: Path) -> Volumes:
    """Send softflowd's export of a capture; returns the flows that it reports as expired."""
    control = ["-c", str(folder / "ctl"), "-p", str(folder / "pid")]
    said = said_by(
        ["softflowd", "-D", "-a", *control, "-r", str(capture), "-n", f"127.0.0.1:{port}", "-v", version],
    )
    end = r"\[(\S+)\]:(\d+)"
    line = rf"EXPIRED: seq:\d+ {end} <> {end} proto:(\d+) octets>:(\d+) packets>:(\d+) octets<:(\d+) packets<:(\d+)"
    records = []
    for source, source_port, destination, destination_port, *numbers in re.findall(line, said):
        protocol, octets, packets, answered, answers = map(int, numbers)
        ends, ports = (source, destination), (int(source_port), int(destination_port))
        records.append(((*ends, *ports, protocol), packets, octets))
        records.append(((*ends[::-1], *ports[::-1], protocol), answers, answered))
    return gather(records)


def by_pmacctd(capture: Path, version: str, port: int, folder: Path) -> Volumes:
    """Send the export of pmacctd's plugin nfprobe for a capture; returns the output of its plugin print for the same
    packets.
    """
    config, output = folder / "pmacctd.conf", folder / "pmacctd.json"
    config.write_text(
        f"daemonize: false\npcap_savefile: {capture}\nplugins: nfprobe[send], print[say]\n"
        f"aggregate: src_host, dst_host, src_port, dst_port, proto\n"
        f"nfprobe_receiver[send]: 127.0.0.1:{port}\nnfprobe_version[send]: {version}\n"
        f"print_output[say]: json\nprint_output_file[say]: {output}\nprint_refresh_time[say]: 3600\n"
    )
    # At the capture's end it stops its plugins, and calls that an error if they end before it does.
    said_by(["pmacctd", "-f", str(config)], harmless="no more plugins active")
    eventually(output.exists, "pmacctd says what it added up")
    return printed_by_pmacct(output)


def by_nfreplay(capture: Path, version: str, port: int, folder: Path) -> Volumes:
    """Let nfpcapd make flows of a capture and nfreplay send them; returns nfdump's output for them."""
    flows = folder / "flows"
    flows.mkdir()
    said_by(["nfpcapd", "-r", str(capture), "-w", str(flows), "-t", "86400"])
    for file in sorted(flows.iterdir()):
        said_by(["nfreplay", "-r", str(file), "-H", "127.0.0.1", "-p", str(port), "-v", version, "-d", "500"])
    return shown_by_nfdump(flows)


def collected(path: Path) -> Volumes:
    """The collector's records, each direction a flow of its own."""
    records = []
    lines = path.read_text().splitlines()
    for line in lines:
        one = json.loads(line)
        ends, ports = (one["src_addr"], one["dst_addr"]), (one["src_port"], one["dst_port"])
        records.append(((*ends, *ports, one["protocol"]), number(one, "fwd_packets"), number(one, "fwd_octets")))
        back = (*ends[::-1], *ports[::-1], one["protocol"])
        records.append((back, number(one, "rev_packets"), number(one, "rev_octets")))
    volumes = gather(records)
    return Volumes(volumes.packets, volumes.octets, len(lines))


VERSIONS = {"netflow-v5": "5", "netflow-v9": "9", "ipfix": "10"}


@dataclass(frozen=True)
class Arrival:
    """One peer's export in one format, into `weir-probe collect`."""

    peer: str
    needs: tuple[str, ...]
    form: str
    send: Callable[[Path, str, int, Path], Volumes]

    def name(self) -> str:
        """Name in the table."""
        return f"{self.peer}, {self.form}"

    def missing(self) -> str | None:
        """The name of a required program that is missing."""
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        return next((program for program in self.needs if not shutil.which(program, path=path)), None)

    def expected(self, volumes: Volumes) -> Volumes:
        """The part of a capture that this format can carry."""
        return without_six(volumes) if self.form == "netflow-v5" else volumes

    def run(self, capture: Path) -> tuple[Volumes, Volumes]:
        """The collector's records, and those that the peer reports as sent."""
        port = free_ports(1)[0]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            output, log = folder / "collected.jsonl", folder / "log"
            command = [str(AGENT), "collect", "--netflow", f"127.0.0.1:{port}", "--to", "jsonl"]
            with output.open("w") as to, log.open("w") as told:
                collector = subprocess.Popen([*command, "--state-dir", str(folder / "state")], stdout=to, stderr=told)
            try:
                # The socket exists before the collector is ready for a signal to end.
                eventually(lambda: "listening on" in log.read_text() or collector.poll() is not None, "it listens")
                said = self.send(capture, VERSIONS[self.form], port, folder)
            finally:
                # It reads the datagrams waiting in its socket before it ends.
                collector.send_signal(signal.SIGINT)
                try:
                    status = collector.wait(60)
                except subprocess.TimeoutExpired:
                    collector.kill()
                    collector.wait()
                    raise
            if status:
                raise AssertionError(f"the collector ended with {status}: {log.read_text()}")
            return collected(output), self.expected(said)


ARRIVALS = [
    *(Arrival("softflowd", ("softflowd",), form, by_softflowd) for form in VERSIONS),
    *(Arrival("pmacctd", ("pmacctd",), form, by_pmacctd) for form in VERSIONS),
    *(
        Arrival("nfpcapd and nfreplay", ("nfpcapd", "nfreplay", "nfdump"), form, by_nfreplay)
        for form in ("netflow-v5", "netflow-v9")
    ),
]

LINE = "{:<46} {:>8} {:>8} {:>9} {:>12}  {}"


def row(name: str, volumes: Volumes, verdict: str = "") -> None:
    """Print a row of a table."""
    records = volumes.records or ""
    sums = (len(volumes.packets), volumes.packets.total(), volumes.octets.total())
    print(LINE.format(name, records, *sums, verdict), flush=True)


def ours_into_theirs(capture: Path, expected: Volumes) -> int:
    """Print the records that peers read; returns the number of mismatches."""
    wrong = 0
    print(LINE.format("ours into theirs: peer and form", "records", "flows", "packets", "octets", "verdict"))
    row("the capture itself", expected)
    for trip in TRIPS:
        if not trip.installed():
            print(LINE.format(trip.name(), "", "", "", "", "skipped"))
            skipped(f"{trip.needs} is not installed")
            continue
        found = trip.run(capture)
        wrong += found != expected
        row(trip.name(), found, "equal" if found == expected else "DIFFERS")
    return wrong


def theirs_into_ours(capture: Path, made: Volumes) -> int:
    """Print the records that peers report as sent beside the collector's; returns the number of mismatches."""
    wrong = 0
    print(LINE.format("theirs into ours: peer and form", "records", "flows", "packets", "octets", "verdict"))
    row("the capture itself", made)
    row("its IPv4, of which NetFlow v5 can tell", without_six(made))
    for arrival in ARRIVALS:
        if missing := arrival.missing():
            print(LINE.format(arrival.name(), "", "", "", "", "skipped"))
            skipped(f"{missing} is not installed")
            continue
        found, said = arrival.run(capture)
        expected = arrival.expected(made)
        verdict = "equal" if found == said else "DIFFERS from what it says"
        if said != expected:
            verdict += "; the capture has other"
        wrong += found != said
        row(f"{arrival.name()}: it says", Volumes(said.packets, said.octets))
        row("    weir-probe collect says", found, verdict)
    return wrong


def main() -> int:
    """Print the tables; returns 1 on any mismatch."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else "", epilog="Example: make check-peers"
    )
    parser.add_argument("--flows", type=int, default=400, help="number of flows in the generated capture")
    arguments = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "made.pcap"
        made = make_capture(capture, arguments.flows)
        wrong = ours_into_theirs(capture, made)
        print()
        wrong += theirs_into_ours(capture, made)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
