"""The compose file conforms to the compose specification; `make test-compose` runs it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import yaml

from harness import CHECKOUT, run


def test_valid_by_the_specification() -> None:
    done = run(
        [
            str(Path(sys.executable).with_name("check-jsonschema")),
            "--builtin-schema",
            "vendor.compose-spec",
            str(CHECKOUT / "docker-compose.yml"),
        ]
    )
    assert done.status == 0, done.out + done.err


def test_what_it_names_is_there() -> None:
    compose = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    services = compose["services"]
    for name, service in services.items():
        if "build" in service:
            assert (CHECKOUT / service["build"]["dockerfile"]).is_file(), name
        for other in service.get("depends_on", {}):
            assert other in services, f"{name} depends on {other}"
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in compose["volumes"], f"{name}: {volume}"
        for port in service.get("ports", []):
            assert port.startswith(("127.0.0.1:", "${WEIR_PROBES_LISTEN:-127.0.0.1}:")), f"{name}: {port}"


def test_secrets_are_files_and_in_no_environment() -> None:
    compose = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    for name, service in compose["services"].items():
        read = set()
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET", key):
                assert key.endswith("_FILE"), f"{name}: {key}"
                read.add(value)
        assert read == {f"/run/secrets/{one}" for one in service.get("secrets", [])}, name
        assert set(service.get("secrets", [])) <= set(compose["secrets"])


def test_each_part_of_ours_can_write_nowhere_but_in_its_volumes() -> None:
    compose = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    ours = {name: one for name, one in compose["services"].items() if "WEIR_IMAGES" in one["image"]}
    assert len(ours) > 8
    for name, service in ours.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
    assert {name for name, one in ours.items() if one.get("cap_add")} == {"agent"}


def test_every_image_of_ours_has_a_health_check_and_a_user() -> None:
    for path in CHECKOUT.glob("*/Dockerfile"):
        for stage in re.split(r"^FROM ", path.read_text(), flags=re.MULTILINE)[1:]:
            if " AS build" not in stage.splitlines()[0]:
                users = re.findall(r"^USER (\S+)$", stage, re.MULTILINE)
                assert users, path
                assert users[-1] != "root", path
                assert re.search("^HEALTHCHECK ", stage, re.MULTILINE), path
