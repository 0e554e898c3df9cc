"""`weir demo`: the whole path on one screen, with real packets where permitted.

Where network namespaces may be made, a veth pair joins two: an HTTP and a DNS server in one, clients in the other; the agent
captures on the servers' end. Elsewhere the demo generates a capture and replays it, and prints a note. Beside it, three sites of a
nation that does not exist send a trickle of made traffic as long as the demo runs, so that every page has something to show.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from weir import demo_sites, kafka, ledger, prefixes
from weir.clickhouse import ClickHouse, connect
from weir.commands import end_as_ctrl_c_does
from weir.config import Agent, Stack
from weir.demo_network import Namespaces, NoNamespacesError, Traffic, namespaces
from weir.doctor import captures_by_file
from weir.errors import WeirError
from weir.services import Service, agent, answers
from weir.stack import bring_up, dashboard_url, enrol_here, superset_up, take_down, take_over
from weir.stages import Stages
from weir.supervisor import MARK, Supervisor

PROBE = "demo"
MINIMUM_PACKETS = 10_000
# The servers are the site of the probe; the clients are a customer elsewhere in the nation.
SITE = "demo servers"
OWN_NETWORKS = {
    "198.18.0.0/24": prefixes.describe("Demo Clients", "", ["demo"], True),
    "198.18.0.1/32": prefixes.describe("Demo Hosting", SITE, ["demo"], True),
    "2001:db8::/64": prefixes.describe("Demo Clients", "", ["demo"], True),
    "2001:db8::1/128": prefixes.describe("Demo Hosting", SITE, ["demo"], True),
}


def run(stack: Stack, console: Console, *, pcap: Path | None, iface: str | None, once: bool, seconds: int) -> int:
    """Run the demo; returns the exit status.

    With `once`: 0 only if the agent captured at least 10,000 packets, the interface's own counters agree with the
    ledger, and the ledger balances.
    """
    if pcap and iface:
        raise WeirError("--pcap and --iface exclude each other")
    if pcap and not pcap.is_file():
        raise WeirError(f"{pcap} is not a file")
    if iface and os.geteuid() != 0 and not captures_by_file(stack):
        raise WeirError(
            f"no permission to capture on {iface}",
            hint=f"try: sudo make demo IFACE={iface}\n      or:  sudo setcap cap_net_raw,cap_net_admin=p '{stack.agent_binary}'",
        )
    supervisor = Supervisor(stack)
    take_over(stack, supervisor, console)
    end_as_ctrl_c_does(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    os.environ[MARK] = str(stack.home)  # so that `weir down` also finds the demo's services
    begin = time.monotonic()
    try:
        with contextlib.ExitStack() as stays:
            net = None if pcap or iface else _network(stack, console, stays)
            live = bool(net or iface)
            service = _agent(stack, net, iface) if live else None
            # Whoever brings traffic sees that alone.
            sites = [] if pcap or iface else [_site(stack, probe) for probe in demo_sites.SITES]
            if sites and not stack.config.flink.as_database and not stack.config.flink.country_database:
                stack.prepare()
                systems, countries = demo_sites.write_databases(stack.run)
                stack.config.flink.as_database, stack.config.flink.country_database = str(systems), str(countries)
            with Stages(console) as stages:
                bring_up(stack, supervisor, stages, [*([service] if service else []), *sites], wait_for_superset=False)
                new = enrol_here(stack, PROBE, site=SITE)
                prefixes.apply(stack, OWN_NETWORKS | (demo_sites.own_networks() if sites else {}))
                start = int(time.time())
                wire = None
                if service:
                    wire = _capture(stack, supervisor, stages, stays, service, net, iface, seconds, bool(new))
                else:
                    _replay(stack, stages, pcap)
                # Not before: what they send at once takes time from the live capture.
                _begin(stack, supervisor, stages, sites)
                superset_up(stack, supervisor, stages)
                rows = _settle(stack, stages, start if live else None, int(time.time()) - 10 if iface else None)
            good = _report(stack, console, rows, wire, live, time.monotonic() - begin)
            _tour(stack, console, bool(sites))
            if once:
                return 0 if good else 1
            console.print("Weir stays up until Ctrl-C.")
            while supervisor.running():
                time.sleep(1)
            return 0
    except KeyboardInterrupt:
        console.print("\nStopping Weir; another Ctrl-C changes nothing.")
        return 0
    finally:
        take_down(stack, supervisor, console, [f"agent-{PROBE}", *(f"site-{probe}" for probe in demo_sites.SITES)])


def _site(stack: Stack, probe: str) -> Service:
    """A made site: its traffic goes through the agent like a capture."""
    kept = stack.run / f"site-{probe}.second"
    made = [sys.executable, "-m", "weir.demo_sites", probe, "--kept", str(kept)]
    read = [str(stack.agent_binary), "read", "-", "--keep-time", "--to", "kafka", "--probe", probe]
    read += ["--credentials", str(stack.kept_credentials(probe))]
    return Service(
        name=f"site-{probe}",
        command=["bash", "-c", f"{shlex.join(made)} | {shlex.join(read)}"],
        environment={"PYTHONPATH": str(stack.checkout / "stack")},
        port=0,
        healthy=lambda: True,
        needs=stack.agent_binary,
    )


def _begin(stack: Stack, supervisor: Supervisor, stages: Stages, sites: list[Service]) -> None:
    """Start the made sites, with their last quarter of an hour."""
    if sites:
        stages.begin("three made sites")
        for (probe, site), service in zip(demo_sites.SITES.items(), sites, strict=True):
            enrol_here(stack, probe, site=site)
            supervisor.start(service)
        stages.done(
            "three made sites", f"{', '.join(demo_sites.SITES.values())}: their last 15 minutes, then a trickle"
        )


def _network(stack: Stack, console: Console, stays: contextlib.ExitStack) -> Namespaces | None:
    """The demo's network, if this user may make one here."""
    why = "this takes root"
    if os.geteuid() == 0:
        try:
            return stays.enter_context(namespaces(stack))
        except NoNamespacesError as error:
            why = str(error)
    console.print(
        f"No live traffic, as no network namespace can be made ({why}): the demo generates a capture and replays it.",
        highlight=False,
        soft_wrap=True,
    )
    return None


def _agent(stack: Stack, net: Namespaces | None, iface: str | None) -> Service:
    """The agent that captures live. Its configuration is written when it starts: its port is known by then."""
    path = stack.run / "weir-probe-demo.toml"

    def prepare() -> None:
        shutil.rmtree(stack.data / "agent-demo", ignore_errors=True)  # this interface is not the one of the last demo
        lines = [
            f'probe = "{PROBE}"',
            'interval = "10s"',
            "workers = 1",
            f'state_dir = "{stack.data / "agent-demo"}"',
            "[source]",
            f'interface = "{iface or (net.veth if net else "")}"',
            f'netns = "{net.servers}"' if net else "",
            'receive_offloads = "keep"' if net else "",
            "[metrics]",
            f'listen = "127.0.0.1:{stack.config.ports.agent_metrics}"',
        ]
        path.write_text("\n".join(line for line in lines if line) + "\n")

    return dataclasses.replace(agent(stack, Agent(probe=PROBE, config=path)), prepare=prepare)


def _capture(
    stack: Stack,
    supervisor: Supervisor,
    stages: Stages,
    stays: contextlib.ExitStack,
    service: Any,
    net: Namespaces | None,
    iface: str | None,
    seconds: int,
    new: bool,
) -> int | None:
    """Capture; returns the packets that the interface itself counted meanwhile, if the demo owns it."""
    before = net.packets() if net else 0
    what = f"capturing on {iface}" if iface else "capturing live: HTTP, DNS and ping over veth"
    stages.begin(what)
    if new:
        time.sleep(0.5)  # the topics' leaders are elected
    supervisor.start(service)
    supervisor.wait(service)
    _wait_for_agent(stack, supervisor)
    traffic = None
    if net:
        traffic = Traffic(net, stack.logs / "demo-traffic.log")
        stays.callback(traffic.stop)
        time.sleep(1)
        traffic.begin(seconds)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.5)
        stages.note(
            what, f"{max(0, end - time.monotonic()):.0f} s to go" + (f", {net.packets():,} packets" if net else "")
        )
    if traffic:
        traffic.wait()
    stages.done(what, f"{net.packets():,} packets by the interface's own counters" if net else "")
    if net is None:
        return None
    # The agent closes the last interval when it stops, so that the interface and the ledger can be compared. Stop it at
    # once: some seconds later the two ends probe for their neighbours.
    stages.begin("closing the last interval")
    supervisor.stop(service.name)
    wire = net.packets() - before
    stages.done("closing the last interval")
    return wire


def _wait_for_agent(stack: Stack, supervisor: Supervisor) -> None:
    """Wait until the agent itself runs and its metrics respond, which shows that it captures."""
    name = f"agent-{PROBE}"
    for _ in range(60):
        state = supervisor.states().get(name)
        if (
            state
            and state.word == "RUNNING"
            and answers(f"http://127.0.0.1:{stack.config.ports.agent_metrics}/metrics")
        ):
            return
        time.sleep(0.25)
    said = supervisor.last_line(name)
    raise WeirError(f"the agent did not start capturing: {said}", hint=supervisor.log_of(name), status=1)


def _replay(stack: Stack, stages: Stages, pcap: Path | None) -> None:
    if pcap is None:
        from weir.demo_traffic import write_capture

        pcap = stack.run / "demo.pcap"
        stages.begin("making a capture")
        stages.done("making a capture", f"{write_capture(pcap):,} packets")
    what = f"replaying {pcap.name}"
    stages.begin(what)
    command = [
        str(stack.agent_binary),
        "read",
        str(pcap),
        "--to",
        "kafka",
        "--probe",
        PROBE,
        "--credentials",
        str(stack.kept_credentials(PROBE)),
        "--summary",
        "json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        raise WeirError(f"weir-probe: {done.stderr.strip()}", status=1)
    summary = json.loads(done.stdout)
    stages.done(
        what,
        f"{summary['packets']['captured']:,} packets, {summary['records']:,} records"
        + (f"; {done.stderr.strip().splitlines()[-1]}" if done.returncode else ""),
    )


def _settle(stack: Stack, stages: Stages, since: int | None, until: int | None) -> list[dict[str, Any]]:
    """Wait until every published record is stored; returns the ledger's rows of this run.

    `since` and `until` (seconds from 1970), if given, select intervals that begin between `since` less one interval and
    `until`: an agent that keeps capturing always has records in transit.
    """
    what = "storing in ClickHouse"
    stages.begin(what)
    store = connect(stack, "analyst")
    where = f"probe = '{PROBE}' AND epoch = (SELECT max(epoch) FROM ledger WHERE probe = '{PROBE}')"
    if since is not None:
        where += f" AND ts >= toDateTime({since - 20}, 'UTC')"
    if until is not None:
        where += f" AND ts <= toDateTime({until}, 'UTC')"
    rows: list[dict[str, Any]] = []
    steady = 0
    for _ in range(240):
        before, rows = rows, ledger.read(store, where)
        stored = ledger.totals(rows)["stored_packets"] if rows else 0
        stages.note(what, f"{stored:,} packets")
        settled = (
            rows
            and rows == before
            and not any(row["lost_packets"] for row in rows)
            and not kafka.lag(stack.brokers, probe=PROBE)
        )
        steady = steady + 1 if settled else 0
        if steady >= 6:
            break
        time.sleep(0.5)
    stages.done(what)
    return rows


def _report(
    stack: Stack, console: Console, rows: list[dict[str, Any]], wire: int | None, live: bool, took: float
) -> bool:
    store: ClickHouse = connect(stack, "analyst")
    console.print()
    first, last = (rows[0]["at"], rows[-1]["at"]) if rows else (0, 0)
    top = store.rows(
        "SELECT src, src_port, dst, dst_port, protocol_name, sum(octets) AS octets, sum(packets) AS packets FROM v_flows "
        f"WHERE probe = '{PROBE}' AND ts BETWEEN toDateTime({first}, 'UTC') AND toDateTime({last}, 'UTC') "
        "GROUP BY ALL ORDER BY octets DESC LIMIT 10"
    )
    table = Table(
        title="Top flows, read back from ClickHouse",
        title_justify="left",
        header_style="bold",
        box=None,
        pad_edge=False,
    )
    for name in ("source", "destination", "protocol"):
        table.add_column(name)
    for name in ("packets", "octets"):
        table.add_column(name, justify="right")
    for row in top:
        table.add_row(
            _end(row["src"], row["src_port"]),
            _end(row["dst"], row["dst_port"]),
            row["protocol_name"],
            f"{row['packets']:,}",
            f"{row['octets']:,}",
        )
    console.print(table)
    console.print()
    sound = ledger.show(console, rows)
    total = ledger.totals(rows)
    checks = [
        (
            f"at least {MINIMUM_PACKETS:,} packets captured",
            total["captured_packets"] >= MINIMUM_PACKETS,
            f"{total['captured_packets']:,}",
        )
    ]
    if wire is not None:
        checks.append(
            (
                "the interface's own counters agree with the ledger",
                wire == total["on_interface_packets"],
                f"{wire:,} and {total['on_interface_packets']:,}",
            )
        )
    checks.append(
        ("the ledger balances: every packet is accounted for", sound and bool(rows), f"lost {total['lost_packets']:,}")
    )
    console.print()
    for text, good, amount in checks:
        console.print(("✔ " if good else "✘ ") + f"{text}: {amount}", style="green" if good else "red", highlight=False)
    where = f"Dashboard: {dashboard_url(stack)}   " if stack.config.superset.enabled else ""
    console.print(f"\n{where}(to here: {took:.0f} s)", highlight=False, soft_wrap=True)
    return all(good for _, good, _ in checks)


def _tour(stack: Stack, console: Console, sites: bool) -> None:
    """What to look at, in which order, with what login."""
    if not stack.config.superset.enabled:
        return
    pages = {
        "now": "the first look: what is loud, every filter's picture, alerts, completeness",
        "talkers": "who sends most, every 30 s",
        "nation": "the whole nation: applications, AS, countries, and where traffic goes",
        "threats": "scans, floods and worms"
        + ("; a school scans in minutes 3 and 4 of each quarter of an hour" if sites else ""),
        "customer": "one customer's own page" + (": choose Fjord University" if sites else ""),
        "investigate": "one address, over years" + (": try 198.19.8.77, who scans" if sites else ""),
        "filters": "counts by your own expressions",
        "fleet": "the probes, and whether every packet is accounted for",
    }
    base = f"{stack.superset_url}/superset/dashboard"
    console.print("\nLook at these, in this order; reading takes no login:", highlight=False)
    for name, what in pages.items():
        console.print(f"  {base}/{name}/  {what}", highlight=False, soft_wrap=True)
    secret = os.path.relpath(stack.secret_file("superset-admin"))
    console.print(f"To change them, log in as admin; the password is in {secret}.", highlight=False, soft_wrap=True)
    if sites:
        console.print("The three sites, their AS and their countries are made up.", highlight=False)


def _end(addr: str, port: int) -> str:
    return f"[{addr}]:{port}" if ":" in addr else f"{addr}:{port}"
