"""What a flood from strangers costs a known exporter: `make bench-strangers`, one minute.

`weir-bench strangers` sends 100,000 datagrams a second from 30,000 addresses of 127.0.0.0/8 to `weir-probe collect`: empty
messages of ever new domains, templates, sampling rates, data without templates, records, counters, noise. Meanwhile an
exporter at 127.0.0.1, which sent its template once before, sends records; first every address may send, then only that
exporter. The exporter must keep its template and its saved state and lose at most 1 % of its datagrams; its sequence
numbers must show each loss; and each datagram that was sent is either read, or in the kernel's count, or in the
collector's. A table on standard output and in `.weir/bench/strangers.md`; exit status 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil

from bench_capture import FOLDER
from harness import AGENT, BENCH, eventually, free_ports

KNOWN = "127.0.0.1"
#: Targets: share of the exporter's datagrams that may be lost, octets of the saved state, octets of memory.
MOST_LOST, MOST_SAVED, MOST_MEMORY = 0.01, 16 << 20, 512 << 20


def metric(text: str, name: str, **labels: str) -> int:
    """Sum of the metrics of this name that have these labels."""
    lines = [line for line in text.splitlines() if line.startswith(f"weir_probe_{name}{{")]
    having = [line for line in lines if all(f'{key}="{value}"' in line for key, value in labels.items())]
    return sum(int(line.rsplit(" ", 1)[1]) for line in having)


def measure(allowed: list[str], rate: int, seconds: int) -> dict[str, Any]:
    """Flood a collector that listens to these prefixes; returns what was sent and what it reports."""
    udp, http = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "weir-probe.toml")
        config.write_text(f'probe = "flood"\ninterval = "1s"\n[metrics]\nlisten = "127.0.0.1:{http}"\n')
        command = [str(AGENT), "collect", "--ipfix", f"127.0.0.1:{udp}", "--to", "none", "--summary", "json"]
        command += ["--config", str(config), "--state-dir", folder]
        command += [word for prefix in allowed for word in ("--exporter", prefix)]

        def scrape(path: str = "metrics") -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{http}/{path}", timeout=5) as answer:
                return str(answer.read().decode())

        def healthy() -> bool:
            try:
                return scrape("health") == "ok\n"
            except OSError:
                return False

        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as collector:
            try:
                eventually(healthy, "the collector listens")
                process = psutil.Process(collector.pid)
                sender = [str(BENCH), "strangers", "--to", f"127.0.0.1:{udp}", "--rate", str(rate)]
                done = subprocess.run(
                    [*sender, "--seconds", str(seconds)],
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=seconds + 60,
                )
                sent = json.loads(done.stdout)
                time.sleep(3)  # Two intervals, and their closing records.
                text, scraped = scrape(), len(scrape())
                status = Path(f"/proc/{collector.pid}/status").read_text()
                cpu = sum(process.cpu_times()[:2])
            finally:
                collector.send_signal(signal.SIGTERM)
                output, _ = collector.communicate(timeout=60)
        states = list(Path(folder).glob("*-exporters-0.json"))
        saved = json.loads(states[0].read_text())["exporters"]
        kept = [one for one in saved if one["address"] == KNOWN and any(of["templates"] for of in one["sessions"])]
        summary = json.loads(output)
        return {
            "sent": sent,
            "records": metric(text, "exporter_records_total", exporter=KNOWN, protocol="ipfix"),
            "lost": metric(text, "exporter_lost_total", exporter=KNOWN, protocol="ipfix"),
            "no_template": metric(text, "exporter_refused_total", exporter=KNOWN, cause="unknown_template"),
            "read": summary["datagrams"],
            "causes": summary["refused"],
            "scraped": scraped,
            "saved": states[0].stat().st_size,
            "kept": len(kept),
            "peak": int((re.findall(r"VmHWM:\s+(\d+)", status) or ["0"])[0]) << 10,
            "cpu": cpu,
        }


def faults(found: dict[str, Any]) -> list[str]:
    """The targets that were missed."""
    exporter, strangers = found["sent"]["exporter"], found["sent"]["strangers"]
    causes = found["causes"]
    unread = ("socket_full", "strangers_shed", "exporter_not_allowed")
    counted = found["read"] + sum(causes.get(cause, 0) for cause in unread)
    # One template beside the records.
    all_sent = exporter["datagrams"] + 1 + strangers["datagrams"]
    checks = {
        f"{counted} of {all_sent} datagrams are in a count": counted == all_sent,
        "the exporter lost more": exporter["records"] - found["records"] <= MOST_LOST * exporter["records"],
        "sequence numbers show another loss": abs(exporter["records"] - found["records"] - found["lost"]) <= 10,
        "the exporter lost its template": not found["no_template"] and found["kept"] == 1,
        "the saved state is too large": found["saved"] <= MOST_SAVED,
        "the memory is too large": found["peak"] <= MOST_MEMORY,
    }
    return [what for what, holds in checks.items() if not holds]


def main() -> int:
    """Measure with and without a list of exporters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=100_000, help="datagrams of strangers per second")
    parser.add_argument("--seconds", type=int, default=20, help="how long the flood lasts")
    arguments = parser.parse_args()
    lines = [
        "| who may send | strangers' datagrams/s | exporter's datagrams | lost | dropped by the kernel | shed | peak memory | saved state "
        "| scrape | collector's CPU | verdict |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    missed = False
    for who, allowed in (("every address", []), (f"`{KNOWN}/32`", [f"{KNOWN}/32"])):
        found = measure(allowed, arguments.rate, arguments.seconds)
        wrong = faults(found)
        missed |= bool(wrong)
        exporter, strangers = found["sent"]["exporter"], found["sent"]["strangers"]
        lost = 1 - found["records"] / exporter["records"]
        cells = [
            who,
            f"{strangers['datagrams'] / strangers['seconds']:,.0f}",
            f"{exporter['datagrams']:,}",
            f"{lost:.2%}",
            f"{found['causes'].get('socket_full', 0):,}",
            f"{found['causes'].get('strangers_shed', 0):,}",
            f"{found['peak'] / (1 << 20):.0f} MiB",
            f"{found['saved'] / 1000:,.0f} kB",
            f"{found['scraped'] / 1000:,.0f} kB",
            f"{found['cpu']:.1f} s",
            "; ".join(wrong) or "met",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    text = "\n".join(lines) + "\n"
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "strangers.md").write_text(text)
    sys.stdout.write(text)
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
