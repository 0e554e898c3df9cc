"""Compares exports of NetFlow, IPFIX and sFlow decoded by `weir-probe decode` with tshark: flows, packets, octets.

`python3 check_exports.py [CAPTURE ...]`: captures with exports inside; without arguments, those among the public
captures beside the checkout, and pmacctd's exports of a few others, if it is installed, as NetFlow v5, v9, IPFIX and
sFlow.

`python3 check_exports.py --vendors`: for each export in `../shared/exports`, as `capture/tests/golden/exports` records
the agent's decoding (`cargo test` compares both): the number of records, the number that tshark decodes equally,
refusals by cause, and elements left out; and a comparison with pmacct's expected results, field by field.
"""

from __future__ import annotations

import ipaddress
import json
import re
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
from harness import AGENT, CHECKOUT, skipped

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

#: Exports of vendors, and what the agent decodes of each.
VENDORS = SHARED.parent / "exports"
GOLDEN = CHECKOUT / "capture/tests/golden/exports"

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
        flows.update(sampled(layers.get("sflow", {})))
    return flows


def sampled(tree: Any) -> Iterator[Flow]:
    """The packets whose headers are in a dissected sFlow datagram."""
    for header in dicts(tree):
        for name in ("sflow_245.header", "sflow_245.header_tree"):
            for content in as_list(header.get(name, [])):
                if isinstance(content, dict) and (flow := flow_of_header(content)):
                    yield flow


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


# ---- exports of vendors ----

#: A flow in a golden text, and what belongs to one direction of it.
FLOW = re.compile(
    r"flow (?P<peer_ip_src>\S+) \S+ (?P<ip_src>\S+):(?P<port_src>\d+) > (?P<ip_dst>\S+):(?P<port_dst>\d+) "
    r"protocol (?P<ip_proto>\d+) vlan \d+: (?P<packets>\d+) packets (?P<bytes>\d+) octets "
    r"flags (?P<tcp_flags>\S+) class (?P<tos>\w+)(?:; back (?P<back>\d+) packets (?P<back_bytes>\d+) octets)?.*?"
    r"; interfaces (?P<iface_in>\d+) (?P<iface_out>\d+)(?:; 1 in (?P<rate>\d+))?"
)
PROTOCOLS = {"tcp": 6, "udp": 17, "ipv6-icmp": 58, "vrrp": 112}
FLAGS = {"FIN": 1, "SYN": 2, "RST": 4, "PSH": 8, "ACK": 16, "URG": 32}
#: Upper two bits of a forwarding status (IE 89), as pmacct names them.
STATUS = {0: "UNKNOWN", 1: "FORWARDED", 2: "DROPPED", 3: "CONSUMED"}

#: Captures whose flows pmacct reads by the template of another session.
BY_ANOTHER_PORT = ("pmacct-112-IPFIXv10-CISCO-options-map-reassignment",)


def golden_flows(name: str) -> list[tuple[dict[str, str], str]]:
    """The flows of a golden text, each with its routing data."""
    lines = (GOLDEN / f"{name}.txt").read_text().splitlines()
    found = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if matched := FLOW.match(line):
            found.append((matched.groupdict(), following.strip() if following.startswith("     ") else ""))
    return found


def golden_counts(name: str) -> tuple[str, str]:
    """Refusals and left-out elements of a golden text."""
    lines = (GOLDEN / f"{name}.txt").read_text().splitlines()
    refused = [line for line in lines if re.fullmatch(r"\w+: \d+", line)]
    return ", ".join(refused), ", ".join(line.removeprefix("left out: ") for line in lines if line.startswith("left"))


def as_decoded(name: str) -> Counter[Flow]:
    """The flows of a golden text as tshark would show them."""
    flows: Counter[Flow] = Counter()
    for flow, _ in golden_flows(name):
        protocol = int(flow["ip_proto"])
        both = ports(protocol, int(flow["port_src"]), int(flow["port_dst"]))
        source, destination = (str(ipaddress.ip_address(flow[end])) for end in ("ip_src", "ip_dst"))
        flows[source, destination, *both, protocol, int(flow["packets"]), int(flow["bytes"])] += 1
    return flows


def shown(path: Path) -> Counter[Flow]:
    """The flows that tshark decodes from datagrams to any port; of a repeated element the last value counts, which
    comes from the inner header."""
    fields = ["-e", "udp.dstport", "-e", "udp.payload"]
    listed = subprocess.run(["tshark", "-n", "-r", str(path), "-T", "fields", *fields], capture_output=True, text=True)
    decoders: dict[int, str] = {}
    for line in listed.stdout.splitlines():
        to, _, payload = line.partition("\t")
        if to.isdigit() and payload:
            decoders[int(to)] = "sflow" if payload.replace(":", "").startswith("00000005") else "cflow"
    command = ["tshark", "-n", "-r", str(path), "-T", "json", "--no-duplicate-keys"]
    for port, decoder in decoders.items():
        command += ["-d", f"udp.port=={port},{decoder}"]
    packets = json.loads(subprocess.run(command, capture_output=True, text=True).stdout or "[]")
    flows: Counter[Flow] = Counter()
    for packet in packets:
        layers = packet["_source"]["layers"]
        for record in dicts(layers.get("cflow", {})):
            # Of counters the first, before those of the other direction.
            first = {"cflow.octets", "cflow.packets"}
            last = {key: as_list(value)[0 if key in first else -1] for key, value in record.items()}
            counted = {"cflow.octets", "cflow.packets", "cflow.protocol"} <= last.keys()
            if counted and ("cflow.srcaddr" in last or "cflow.srcaddrv6" in last):
                flows[flow_of_record(last)] += 1
        flows.update(sampled(layers.get("sflow", {})))
    return flows


def by_pmacct(name: str) -> list[str]:
    """How the agent's flows of a capture differ from pmacct's expected ones, field by field, over the fields that both have."""
    expected = [
        json.loads(line) for line in (VENDORS / f"{name}-expected.json").read_text().splitlines() if line.strip()
    ]
    wanted: Counter[tuple[tuple[str, Any], ...]] = Counter()
    for one in expected:
        wanted[tuple(sorted(fields_of_pmacct(one).items()))] += 1
    kept = {key for row in wanted for key, _ in row}
    mine: Counter[tuple[tuple[str, Any], ...]] = Counter()
    for flow, said in golden_flows(f"{name}-traffic-00"):
        mine[tuple(sorted((key, value) for key, value in fields_of_golden(flow, said).items() if key in kept))] += 1
    missing, added = list((wanted - mine).elements()), list((mine - wanted).elements())
    differences = []
    for row in missing:
        same = next((other for other in added if dict(other)["ip_src"] == dict(row)["ip_src"]), None)
        if same is None:
            differences.append(f"missing {dict(row)['ip_src']} > {dict(row)['ip_dst']}")
            continue
        added.remove(same)
        differences += [f"{key} {dict(same)[key]} instead of {value}" for key, value in row if dict(same)[key] != value]
    differences += [f"added {dict(row)['ip_src']} > {dict(row)['ip_dst']}" for row in added]
    return differences


def fields_of_pmacct(one: dict[str, Any]) -> dict[str, Any]:
    """The fields of an expected result that the agent has, too."""
    names = ("iface_in", "iface_out", "port_src", "port_dst", "tos", "packets", "bytes")
    fields: dict[str, Any] = {name: int(one[name]) for name in names}
    fields |= {name: str(ipaddress.ip_address(one[name])) for name in ("ip_src", "ip_dst")}
    fields |= {name: int(one[name]) for name in ("mask_src", "mask_dst") if name in one}
    fields["ip_proto"] = PROTOCOLS[one["ip_proto"]]
    fields["tcp_flags"] = sum(FLAGS[flag] for flag in one["tcp_flags"])
    fields["status"] = one["fwd_status"].split()[0]
    fields["label"] = int(one["mpls_label_stack"][0].partition("-")[2]) if one["mpls_label_stack"] else 0
    vrfs = one.get("custom_primitives", {})
    return fields | {way: int(vrfs[f"vrf_id_{way}"]) for way in ("ingress", "egress") if f"vrf_id_{way}" in vrfs}


def fields_of_golden(flow: dict[str, str], said: str) -> dict[str, Any]:
    """The same fields of a flow of the agent's, scaled by its sampling rate as pmacct does."""

    def two(name: str) -> tuple[int, int]:
        found = re.search(rf"(?:^|, ){name}: \[(\d+), (\d+)\]", said)
        return (int(found[1]), int(found[2])) if found else (0, 0)

    def one(name: str) -> int:
        found = re.search(rf"(?:^|, ){name}: (\d+)", said)
        return int(found[1]) if found else 0

    fields: dict[str, Any] = {
        name: int(flow[name]) for name in ("iface_in", "iface_out", "port_src", "port_dst", "ip_proto")
    }
    fields |= {name: int(flow[name]) * int(flow["rate"] or 1) for name in ("packets", "bytes")}
    fields |= {name: str(ipaddress.ip_address(flow[name])) for name in ("ip_src", "ip_dst")}
    fields |= {name: int(flow[name].rstrip(";"), 16) for name in ("tcp_flags", "tos")}
    (fields["mask_src"], fields["mask_dst"]), (fields["ingress"], fields["egress"]) = two("prefix_lengths"), two("vrf")
    fields["status"], fields["label"] = STATUS[one("forwarding_status") >> 6], one("mpls_top_label")
    return fields


def vendors() -> bool:
    """Print the table of the exports of vendors, and the differences from pmacct's results; returns whether there are
    none.
    """
    for path in sorted(VENDORS.glob("*.pcap")):
        mine, theirs_of_it = as_decoded(path.stem), shown(path)
        equal = (mine & theirs_of_it).total()
        more, less = mine.total() - equal, theirs_of_it.total() - equal
        refused, left_out = golden_counts(path.stem)
        line = (
            f"{path.stem}: {mine.total()} records, {equal} equal to tshark's, {more} others, {less} of tshark's alone"
        )
        print(f"{line}; refused: {refused or 'nothing'}; left out: {left_out or 'nothing'}", flush=True)
    wrong = 0
    for path in sorted(VENDORS.glob("*-expected.json")):
        name = path.name.removesuffix("-expected.json")
        differences = by_pmacct(name)
        print(f"{name}: {'; '.join(differences) or 'every field as pmacct expects it'}", flush=True)
        if name in BY_ANOTHER_PORT and "unknown_template" in golden_counts(f"{name}-traffic-00")[0]:
            print(
                "    its flows came from a different port from the template, which therefore does not apply to them (RFC 7011, section 8)"
            )
        else:
            wrong += len(differences)
    return not wrong


def main() -> None:
    """Check everything; exit status 1 if anything differs."""
    if sys.argv[1:] == ["--vendors"]:
        sys.exit(0 if vendors() else 1)
    named = [Path(name) for name in sys.argv[1:]]
    if not named and not SHARED.is_dir():
        sys.exit(f"{SHARED} is not here: name captures with exports inside")
    results = [check(path) for path in named or [SHARED / name for name in EXPORTS]]
    if not named and not shutil.which("pmacctd"):
        skipped("pmacctd is not installed", len(TRAFFIC) * len(FORMS))
    elif not named:
        with tempfile.TemporaryDirectory() as folder:
            for name in TRAFFIC:
                results += [check(exported(SHARED / name, form, Path(folder))) for form in FORMS]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
