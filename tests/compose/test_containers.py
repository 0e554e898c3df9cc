"""`docker-compose.yml` as it stands: brought up, captured with, stopped, brought up again, and taken down.

The tests run in their order, on one project: each leaves it as the next expects it. What they show holds for Weir's own
files: the base images under the vendors' names are made here, from packages (`base_images.py`).
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import base_images
from project import CHECKOUT, SECRETS, Project, Traffic, podman, until, wire
from viewers import DATASETS, Viewer, charts_of

COMPOSE = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
#: Services that run once, and those that stay.
ONCE = {"keys", "limits", "prepare"}
STAY = {name for name, one in COMPOSE["services"].items() if not one.get("profiles")} - ONCE
IMAGES = ("command", "broker", "store", "cluster", "superset", "agent")
#: A page of the dashboards that needs no more than some traffic.
PAGE = "talkers"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The project, and the wire that its agent captures on; its images are built."""
    if os.geteuid() != 0:
        pytest.fail("containers with networks of their own, and the wire, take root")
    os.environ["CONTAINERS_CONF"] = str(Path(__file__).with_name("containers.conf"))
    os.environ["BUILDAH_FORMAT"] = "docker"  # the other format has no health checks
    base_images.make()
    with wire() as (captured, other):
        made = Project(tmp_path_factory.mktemp("compose"), captured, other)
        try:
            yield made
        finally:
            made.remove()


def test_builds_small_images_that_are_no_roots(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    # One after another: two of them begin with the same stages.
    project.compose("--parallel", "1", "build", timeout=7200)
    with capsys.disabled():
        print(f"\nbuilt in {time.monotonic() - began:.0f} s")
        for name in IMAGES:
            (found,) = json.loads(podman("image", "inspect", f"localhost/{project.name}-{name}"))
            print(f"  {name:10} {found['Size'] / 1e6:6.0f} MB, user {found['User']}")
            assert found["User"] not in ("", "root", "0"), name
            assert found["HealthCheck"] if "HealthCheck" in found else found["Healthcheck"], name


def test_a_broken_health_check_holds_its_dependants_back(project: Project, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    broken.write_text("services: {clickhouse: {healthcheck: {test: [CMD, 'false'], interval: 1s, retries: 1}}}\n")
    project.compose("up", "-d", "--no-build", files=(broken,), timeout=60, check=False)
    states = project.states()
    assert states["clickhouse"] == "running"
    assert (
        podman("container", "inspect", "-f", "{{.State.Health.Status}}", project.container("clickhouse")) == "unhealthy"
    )
    assert states["kafka"] == "running"
    assert {states[name] for name in ("prepare", "jobmanager", "taskmanager", "jobs", "superset", "agent")} == {
        "created"
    }
    project.compose("down", "-v", "-t", "20", files=(broken,))
    assert not any(project.left()[kind] for kind in ("containers", "volumes", "networks"))


def test_comes_up_and_stores_what_it_captures(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    project.compose("up", "-d", "--no-build")
    states = project.states()
    assert {name: states[name] for name in ONCE} == dict.fromkeys(ONCE, "exited")
    assert {name: states[name] for name in STAY} == dict.fromkeys(STAY, "running")
    for name in STAY:
        until(f"{name} is healthy", functools.partial(_is_healthy, project, name))
    with capsys.disabled():
        print(f"\nup and healthy in {time.monotonic() - began:.0f} s")
    with Traffic(project.other) as traffic:
        until("windows", lambda: project.rows("SELECT 1 AS found FROM top_talkers WHERE list = 'host_out' LIMIT 1"))
        traffic.stop()
        wanted = {"packets": traffic.packets, "octets": traffic.packets * traffic.OCTETS}
    until(f"every packet: {wanted}, not {_stored(project)}", lambda: _stored(project) == wanted, 120)
    project.counted = wanted
    with capsys.disabled():
        print(f"{wanted['packets']} packets stored; memory:")
        words = ("stats", "--no-stream", "--format", "{{.Name}} {{.MemUsage}}")
        for line in podman(*words, *(project.container(name) for name in sorted(STAY))).splitlines():
            print(f"  {line.removeprefix(f'{project.name}_')}")


def test_walls_of_the_store_hold_in_its_container(project: Project) -> None:
    said = project.logs("clickhouse")
    assert "second wall: user: " in said
    assert "NOT held" not in said


def test_only_who_should_reaches_kafka_and_flink(project: Project) -> None:
    for service in STAY:
        for variable in podman(
            "container", "inspect", "-f", "{{json .Config.Env}} {{json .Config.Cmd}}", project.container(service)
        ).split():
            for secret in SECRETS:
                assert (project.folder / secret).read_text() not in variable
    inside = "import socket, ssl; s = socket.create_connection(('kafka', {port}), 5); "
    # Without a certificate, at the listener of the stack's own parts.
    tried = inside.format(port=9092) + (
        "c = ssl.create_default_context(cafile='/var/lib/weir/secrets/tls/ca.pem'); t = c.wrap_socket(s, server_hostname='kafka'); "
        "t.send(bytes.fromhex('0000000a00120000000000010000')); print(len(t.recv(9)))"
    )
    assert "CERTIFICATE_REQUIRED" in _python(project, "storage", tried).upper()
    # In the clear, at that of the probes.
    plain = inside.format(port=9094) + "s.send(bytes.fromhex('0000000a00120000000000010000')); print(len(s.recv(4096)))"
    # An alert of TLS, and no answer.
    assert _python(project, "storage", plain).strip() == "7"
    # The port by which Flink's parts talk, without the key that they share.
    talk = "import socket, ssl; s = socket.create_connection(('jobmanager', 6123), 5); t = ssl._create_unverified_context().wrap_socket(s); "
    talk += "t.send(bytes(64)); print('answered', t.recv(9))"
    said = _python(project, "storage", talk)
    assert "SSLError" in said
    assert "answered" not in said
    # The port that takes jobs, from another container.
    assert "refused" in _python(project, "storage", "import socket; socket.create_connection(('jobmanager', 8081), 5)")


def test_a_dashboard_shows_it(project: Project, tmp_path: Path) -> None:
    podman("cp", f"{project.container('superset')}:/var/lib/weir-superset/superset.db", str(tmp_path / "superset.db"))
    viewer = Viewer(f"http://127.0.0.1:{project.dashboards}", tmp_path)
    page = viewer.client.get(f"/superset/dashboard/{PAGE}/")
    assert page.status_code == 200
    assert "/login" not in str(page.url)
    tables = {dataset["uuid"]: name for name, dataset in DATASETS.items()}
    shown = ""
    for chart in charts_of(PAGE):
        params = chart["params"] if isinstance(chart["params"], dict) else json.loads(chart["params"])
        metrics = params.get("metrics") or [one for one in [params.get("metric")] if one]
        asked = {"columns": params.get("all_columns") or params.get("groupby") or [], "metrics": metrics}
        answer = viewer.query(tables[chart["dataset_uuid"]], asked)
        shown += json.dumps(answer["data"])
    assert "192.0.2.1" in shown


def test_what_was_stored_stays_over_a_restart(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.compose("down", "-t", "30")
    assert not project.left()["containers"]
    assert project.left()["volumes"]
    began = time.monotonic()
    project.compose("up", "-d", "--no-build")
    for name in STAY:
        until(f"{name} is healthy", functools.partial(_is_healthy, project, name))
    with capsys.disabled():
        print(f"\nup again in {time.monotonic() - began:.0f} s")
    assert _stored(project) == project.counted
    assert "submitting the jobs, from /var/lib/weir/checkpoints/" in project.logs("jobs")
    with Traffic(project.other) as traffic:
        time.sleep(15)
        traffic.stop()
        wanted = {
            "packets": project.counted["packets"] + traffic.packets,
            "octets": project.counted["octets"] + traffic.packets * traffic.OCTETS,
        }
    until(f"every packet once: {wanted}", lambda: _stored(project) == wanted, 180)


def test_a_job_manager_that_ends_gets_the_jobs_back(project: Project) -> None:
    before = project.logs("jobs").count("submitting the jobs")
    # As a crash, not by the engine's command: the policy `unless-stopped` does not start again what somebody stopped by name.
    os.kill(
        int(podman("container", "inspect", "-f", "{{.State.Pid}}", project.container("jobmanager"))), signal.SIGKILL
    )
    until(
        "the jobs again",
        lambda: project.logs("jobs").count("submitting the jobs") > before and _is_healthy(project, "jobs"),
        300,
    )


def test_goes_and_leaves_nothing(project: Project) -> None:
    project.compose("down", "-v", "-t", "30")
    left = project.left()
    assert not any(left[kind] for kind in ("containers", "volumes", "networks")), left


def _is_healthy(project: Project, service: str) -> bool:
    words = ["podman", "healthcheck", "run", project.container(service)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def _stored(project: Project) -> dict[str, int]:
    asked = "SELECT sum(packets) AS packets, sum(octets) AS octets FROM v_flows WHERE src_addr = '192.0.2.1'"
    (row,) = project.rows(asked)
    return {name: int(value) for name, value in row.items()}


def _python(project: Project, service: str, program: str) -> str:
    """What a program in a container said, its errors too."""
    words = ["podman", "exec", project.container(service), "python", "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr
