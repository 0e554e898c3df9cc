"""The compose file conforms to the compose specification; no container engine is available to run it."""

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
            assert port.startswith("127.0.0.1:"), f"{name} listens beyond loopback: {port}"


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
