"""Compares exports of NetFlow, IPFIX and sFlow decoded by `weir-probe decode` with tshark: flows, packets, octets.

`python3 check_exports.py [CAPTURE ...]`: captures with exports inside; without arguments, those among the public
captures beside the checkout, and what pmacctd, if installed, exports of a few others as NetFlow v5, v9, IPFIX and
sFlow.
"""

from __future__ import annotations

import ipaddress
import json
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capture_traces import SHARED
from capture_traces import header as pcap_header
from harness import AGENT

#: The only public captures with exports inside (tshark's filter `cflow or sflow` over all of them).
EXPORTS = [
    "tcpdump/sflow_expanded.pcap",
    "tcpdump/sflow-print-v6.pcap",
    "tcpdump/sflow_multiple_counter_30_pdus.pcap",
]
#: Captures that pmacctd exports.
TRAFFIC = ["ndpi/bitcoin.pcap", "ndpi/anyconnect-vpn.pcap"]
FORMS = {
    "netflow5": ("nfprobe", "nfprobe_version: 5"),
    "netflow9": ("nfprobe", "nfprobe_version: 9"),
    "ipfix": ("nfprobe", "nfprobe_version: 10"),
    "sflow": ("sfprobe", "sampling_rate: 1"),
}

#: Source, destination, ports, protocol, packets, octets.
Flow = tuple[str, str, int, int, int, int, int]


def ours(path: Path) -> Counter[Flow]:
    """The flows that the agent decodes."""
    done = subprocess.run([str(AGENT), "decode", str(path)], capture_output=True, text=True, check=True, timeout=120)
    flows: Counter[Flow] = Counter()
    for line in done.stdout.splitlines():
        one = json.loads(line)
        addresses = (one["src_addr"], one["dst_addr"])
        counted = (one["fwd"]["packets"], one["fwd"]["octets"])
        flows[
            *addresses, *ports(one["ip_protocol"], one["src_port"], one["dst_port"]), one["ip_protocol"], *counted
        ] += 1
    return flows


def ports(protocol: int, source: int, destination: int) -> tuple[int, int]:
    """Ports if the protocol has them: exporters put an ICMP message's type in various places."""
    return (source, destination) if protocol in (6, 17) else (0, 0)


def dissected(path: Path, wanted: str, on_6343: str) -> list[Any]:
    """The packets that tshark shows, with sFlow's port decoded as sFlow."""
    command = ["tshark", "-n", "-r", str(path), "-Y", wanted, "-T", "json", "--no-duplicate-keys"]
    for port in (2055, 2056, 4739, 9555, 9995, 9996):
        command += ["-d", f"udp.port=={port},cflow"]
    command += ["-d", f"udp.port==6343,{on_6343}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    packets: list[Any] = json.loads(done.stdout or "[]")
    return packets


def theirs(path: Path) -> Counter[Flow]:
    """The flows that tshark decodes."""
    flows: Counter[Flow] = Counter()
    # Some exporters send NetFlow to sFlow's port: the agent decodes by the datagram's content, tshark by the port.
    netflow_there = dissected(path, "udp.port == 6343 and cflow.version in {5, 9, 10}", "cflow")
    for packet in dissected(path, "cflow or sflow", "sflow") + netflow_there:
        layers = packet["_source"]["layers"]
        for record in dicts(layers.get("cflow", {})):
            if "cflow.octets" in record and ("cflow.srcaddr" in record or "cflow.srcaddrv6" in record):
                flows[flow_of_record(record)] += 1
        for header in dicts(layers.get("sflow", {})):
            for content in as_list(header.get("sflow_245.header", [])) + as_list(
                header.get("sflow_245.header_tree", [])
            ):
                flow = flow_of_header(content) if isinstance(content, dict) else None
                if flow:
                    flows[flow] += 1
    return flows


def as_list(value: Any) -> list[Any]:
    """One value or several, as a list."""
    return value if isinstance(value, list) else [value]


def dicts(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object in a tree."""
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from dicts(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from dicts(value)


def flow_of_record(record: dict[str, Any]) -> Flow:
    """A record of NetFlow or IPFIX."""
    either = "addr" if "cflow.srcaddr" in record else "addrv6"
    source, destination = record[f"cflow.src{either}"], record[f"cflow.dst{either}"]
    protocol = int(record["cflow.protocol"])
    both = ports(protocol, int(record.get("cflow.srcport", 0)), int(record.get("cflow.dstport", 0)))
    return (
        str(ipaddress.ip_address(source)),
        str(ipaddress.ip_address(destination)),
        *both,
        protocol,
        int(record["cflow.packets"]),
        int(record["cflow.octets"]),
    )


def flow_of_header(header: dict[str, Any]) -> Flow | None:
    """A sampled header of sFlow; None if tshark finds no addresses in it."""
    ip = as_list(header.get("ip") or header.get("ipv6") or {})[0]
    if not {"ip.src", "ipv6.src"} & ip.keys():
        return None
    if "ip.src" in ip:
        addresses, protocol, octets = (ip["ip.src"], ip["ip.dst"]), int(ip["ip.proto"]), int(ip["ip.len"])
    else:
        # The protocol that the last extension header names.
        following = [int(part[name]) for part in dicts(ip) for name in part if name.endswith(".nxt")]
        addresses, protocol, octets = (ip["ipv6.src"], ip["ipv6.dst"]), following[-1], int(ip["ipv6.plen"]) + 40
    both = (0, 0)
    for name in ("tcp", "udp"):
        if name in header:
            layer = as_list(header[name])[0]
            both = (int(layer[f"{name}.srcport"]), int(layer[f"{name}.dstport"]))
    return (*addresses, *both, protocol, 1, octets)


def exported(traffic: Path, form: str, folder: Path) -> Path:
    """pmacctd's exports of a capture, as a capture of its datagrams."""
    plugin, option = FORMS[form]
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
    listener.bind(("127.0.0.1", 0))
    listener.settimeout(3)
    config = folder / "pmacctd.conf"
    receiver = f"{plugin}_receiver"
    config.write_text(
        f"pcap_savefile: {traffic}\nplugins: {plugin}\n{receiver}: 127.0.0.1:{listener.getsockname()[1]}\n{option}\n"
        "aggregate: src_host, dst_host, src_port, dst_port, proto, tos\npcap_savefile_wait: false\n"
        + ("nfprobe_timeouts: tcp=5:maxlife=20\n" if plugin == "nfprobe" else "")
    )
    with (folder / "pmacctd.log").open("wb") as log:
        process = subprocess.Popen(["pmacctd", "-f", str(config)], stdout=log, stderr=log, start_new_session=True)
        datagrams = []
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                datagrams.append(listener.recv(65535))
        except TimeoutError:
            pass
        finally:
            process.terminate()
            process.wait(20)
    listener.close()
    port = 6343 if form == "sflow" else 2055
    path = folder / f"{traffic.stem}-{form}.pcap"
    with path.open("wb") as file:
        file.write(pcap_header(101))
        for data in datagrams:
            udp = struct.pack(">HHHH", 40_000, port, 8 + len(data), 0) + data
            ip = (
                struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, b"\x7f\0\0\1", b"\x7f\0\0\1")
                + udp
            )
            file.write(struct.pack("<IIII", int(time.time()), 0, len(ip), len(ip)) + ip)
    return path


def difference(path: Path) -> str:
    """Empty if both decode the same; else the flows that only one has."""
    mine, shown = ours(path), theirs(path)
    if mine == shown:
        return ""
    return f"only weir-probe {list((mine - shown).items())[:3]}, only tshark {list((shown - mine).items())[:3]}"


def check(path: Path) -> bool:
    """Compare one capture and print a line."""
    flows = ours(path)
    wrong = difference(path) if flows else "no flows in it"
    packets = sum(flow[5] * count for flow, count in flows.items())
    octets = sum(flow[6] * count for flow, count in flows.items())
    print(f"{path.name}: {flows.total()} records, {packets} packets, {octets} octets: {wrong or 'equal'}", flush=True)
    return not wrong


def main() -> None:
    """Check everything; exit status 1 if anything differs."""
    named = [Path(name) for name in sys.argv[1:]]
    if not named and not SHARED.is_dir():
        sys.exit(f"{SHARED} is not here: name captures with exports inside")
    results = [check(path) for path in named or [SHARED / name for name in EXPORTS]]
    if not named and shutil.which("pmacctd"):
        with tempfile.TemporaryDirectory() as folder:
            for name in TRAFFIC:
                results += [check(exported(SHARED / name, form, Path(folder))) for form in FORMS]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
