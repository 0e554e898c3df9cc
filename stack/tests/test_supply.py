"""Bills of materials: complete, valid, and with allowed licences alone."""

from __future__ import annotations

import collections
import hashlib
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from supply import bills, licences

Bill = dict[str, Any]


@pytest.fixture(scope="module")
def made() -> dict[str, Bill]:
    """Every bill that can be made here: `make check` installs no Superset."""
    stamp, pins = bills.VENVS / "superset/.stamp", bills.CHECKOUT / "superset/requirements.txt"
    installed = stamp.exists() and stamp.stat().st_mtime >= pins.stat().st_mtime
    return bills.make(name for name in bills.BILLS if name != "superset" or installed)


@pytest.fixture(params=bills.BILLS)
def bill(request: pytest.FixtureRequest, made: dict[str, Bill]) -> Bill:
    if request.param not in made:
        pytest.skip("Superset's environment is absent or older than its sources: make build")
    return made[request.param]


def pinned(name: str) -> list[str]:
    """`name==version` of each package that a lock file, or a POM for itself, pins."""
    if name in bills.PYTHON:
        text = (bills.CHECKOUT / bills.PYTHON[name] / "requirements.txt").read_text()
        return re.findall(r"^([^\s#]+==[^\s;]+)", text, re.M)
    if name == "weir-probe":
        text = (bills.CHECKOUT / "capture/Cargo.lock").read_text()
        found = re.findall(r'^name = "(.+)"\nversion = "(.+)"\nsource', text, re.M)
        return ["==".join(one) for one in found]
    text = (bills.CHECKOUT / bills.MAVEN[name] / "pom.xml").read_text()
    values = dict(re.findall(r"<([\w.-]+)>([^<]+)</\1>", text))
    block = re.search(r"<dependencies>(.*?)</dependencies>", text, re.S)
    assert block
    one = r"<artifactId>(.+?)</artifactId>\s*<version>(.+?)</version>(?:\s*<classifier>(.+?)</classifier>)?"
    resolved = re.sub(r"\$\{(.+?)\}", lambda key: values[key[1]], block[1])
    return [f"{artifact}:{classifier}=={version}" for artifact, version, classifier in re.findall(one, resolved)]


def written(component: Bill) -> str:
    """How a component stands in `pinned`."""
    (name,) = bills.artifact(component.get("purl", "")) or {component["name"]}
    return f"{name}=={component['version']}"


def test_every_pinned_package_is_there_once_with_version_licence_and_hash(bill: Bill) -> None:
    assert bills.invalid(bill) == ""
    name = bill["metadata"]["component"]["name"].removeprefix("weir-")
    name = {"probe": "weir-probe", "flink-jobs": "weir-flink-jobs"}.get(name, name)
    pins = pinned(name)
    assert len(pins) > {"kafka": 2, "weir-flink-jobs": 15}.get(name, 30)
    listed = collections.Counter(map(written, bill["components"]))
    assert {pin: listed[pin] for pin in pins} == dict.fromkeys(pins, 1)
    purls = [one["purl"] for one in bill["components"] if "purl" in one]
    assert len(purls) == len(set(purls))
    for one in bill["components"]:
        hashes = one.get("hashes") or [found for ref in one["externalReferences"] for found in ref.get("hashes", [])]
        assert hashes, one["name"]
        assert all(re.fullmatch(r"[0-9a-f]{64}", found["content"]) for found in hashes), one["name"]
        assert one["licenses"][0]["expression"], one["name"]


def test_every_licence_is_allowed(bill: Bill) -> None:
    assert licences.problems(bill) == []


def test_the_broker_s_jars_are_those_of_the_bill(made: dict[str, Bill]) -> None:
    jars = sorted((bills.CHECKOUT / ".weir/kafka").glob("*.jar"))
    if not jars:
        pytest.skip("the broker is absent or older than its sources: make build")
    listed = {one["hashes"][0]["content"] for one in made["kafka"]["components"]}
    assert {hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars} == listed


def test_what_is_only_built_or_tested_with_is_not_required(made: dict[str, Bill]) -> None:
    scopes = {one["name"]: one["scope"] for of in ("weir-probe", "weir-flink-jobs") for one in made[of]["components"]}
    for name in ("rdkafka", "librdkafka", "zstd", "flink-clients", "kafka-clients", "maxmind-db"):
        assert scopes[name] == "required", name
    for name in ("proptest", "protox", "windows-sys", "junit-jupiter", "flink-test-utils-junit"):
        assert scopes[name] == "excluded", name


def test_superset_s_front_end_is_named_with_what_is_in_it(made: dict[str, Bill]) -> None:
    if "superset" not in made:
        pytest.skip("Superset's environment is absent or older than its sources: make build")
    (front,) = [one for one in made["superset"]["components"] if one["name"] == "superset-frontend"]
    within = {one["name"]: one for one in front["components"]}
    assert within["react"]["purl"] == "pkg:npm/react"
    assert within["react"]["properties"][0]["value"]
    (assets,) = (bills.VENVS / "superset").glob("lib/python*/site-packages/superset/static/assets")
    scripts = [*assets.glob("*.js"), *assets.glob("*.css")]
    assert len(scripts) > 200
    for script in scripts:
        assert within[script.name]["hashes"][0]["content"] == hashlib.sha256(script.read_bytes()).hexdigest()


def test_no_entry_of_the_list_of_licences_is_out_of_use(made: dict[str, Bill]) -> None:
    if "superset" not in made:
        pytest.skip("Superset's environment is absent or older than its sources: make build")
    components = [one for bill in made.values() for one in bill["components"]]
    known = licences.declared()
    packages = {licences.package(one) for one in components}
    assert {*known.exceptions, *known.stated} <= packages
    said = " ".join(one["licenses"][0]["expression"] for one in components)
    assert [one for one in known.allowed if not re.search(rf"(?<![\w.-]){re.escape(one)}(?![\w.-])", said)] == []


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("MIT OR AGPL-3.0-only", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("MIT AND AGPL-3.0-only", False),
        ("AGPL-3.0-only", False),
        ("GPL-2.0-only WITH Classpath-exception-2.0", False),
        ("MIT OR", False),
        ("a licence of our own, version 2", False),
        (licences.UNKNOWN, False),
    ],
)
def test_a_licence_is_allowed_if_allowed_ones_alone_meet_it(expression: str, allowed: bool) -> None:
    assert licences.permitted(expression) == allowed


def test_a_forbidden_licence_is_found_in_each_kind_of_package(monkeypatch: pytest.MonkeyPatch) -> None:
    read = bills.cargo_metadata

    def with_forbidden(checkout: Path, platform: str = "") -> Bill:
        known = read(checkout, platform)
        for one in known["packages"]:
            one["license"] = {"anyhow": "MIT/AGPL-3.0-only", "bytesize": "AGPL-3.0-only", "caps": None}.get(
                one["name"], one["license"]
            )
        return known

    monkeypatch.setattr(bills, "cargo_metadata", with_forbidden)
    found = [line.split()[0] for line in licences.problems(bills.agent())]
    assert found == ["cargo/bytesize", "cargo/caps"]


@pytest.mark.parametrize(
    ("said", "choice", "expression"),
    [
        (["MIT", "License :: OSI Approved :: GNU General Public License (GPL)"], False, licences.UNKNOWN),
        (["BSD-3-Clause", "License :: OSI Approved :: BSD License"], False, "BSD-3-Clause"),
        (["License :: OSI Approved :: BSD License"], False, licences.UNKNOWN),
        (["Apache-2.0", "License :: OSI Approved :: Apache Software License"], False, "Apache-2.0"),
        (["MIT OR AGPL-3.0-only", "ISC"], False, "ISC AND (MIT OR AGPL-3.0-only)"),
        (
            ["EPL-2.0", "GPL-2.0-with-classpath-exception"],
            True,
            "EPL-2.0 OR (GPL-2.0-only WITH Classpath-exception-2.0)",
        ),
        ([], True, licences.UNKNOWN),
    ],
)
def test_what_a_package_states_becomes_one_expression(said: list[str], choice: bool, expression: str) -> None:
    component: Bill = {"name": "x", "purl": "pkg:pypi/x@1", "licenses": [{"license": {"name": one}} for one in said]}
    licences.state(component, choice)
    assert component["licenses"][0]["expression"] == expression


#: Files whose commands install something.
INSTALLERS = ["Makefile", "stack/setup.sh", "stack/Dockerfile", "superset/Dockerfile", "flink-jobs/Dockerfile"]


@pytest.mark.parametrize("file", INSTALLERS)
def test_nothing_is_installed_without_its_hash(file: str) -> None:
    text = (bills.CHECKOUT / file).read_text()
    commands = re.findall(r".*\bpip\"? (?:install|sync)\b.*", text)
    assert len(commands) == {"Makefile": 2, "flink-jobs/Dockerfile": 0}.get(file, 1)
    for command in commands:
        assert "--require-hashes" in command, command
    for command in re.findall(r".*\bmvn\b.*\bpackage\b.*", text):
        assert re.search(r"jars\.sh flink-jobs \S+\s", text), command
    assert "go install github.com" not in text


@pytest.mark.parametrize("changed", ["", "other", "more", "fewer"])
def test_jars_that_the_list_does_not_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    module, folder, registry = tmp_path / "module", tmp_path / "jars", tmp_path / "registry"
    registry.mkdir()
    module.mkdir()
    for name in ("a", "b"):
        (registry / f"{name}.jar").write_text(name)
    maven = tmp_path / "bin/mvn"
    maven.parent.mkdir()
    maven.write_text(
        f"#!/bin/sh\nfor word; do case $word in -DoutputDirectory=*) cp {registry}/* ${{word#*=}};; esac; done\n"
    )
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{maven.parent}", prepend=":")
    command = [str(bills.CHECKOUT / "stack/supply/jars.sh"), str(module), str(folder)]
    subprocess.run([*command, "--pin"], check=True)
    assert (module / "jars.sha256").read_text().count(".jar\n") == 2
    if changed == "other":
        (registry / "a.jar").write_text("something else under the same name and version")
    if changed == "more":
        (registry / "c.jar").write_text("c")
    if changed == "fewer":
        (registry / "a.jar").unlink()
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, folder.exists()) == ((1, False) if changed else (0, True))
    assert ("jars.sha256" in done.stderr) == bool(changed)


@pytest.mark.parametrize("name", bills.MAVEN)
def test_the_bill_s_jars_are_those_that_the_list_pins(made: dict[str, Bill], name: str) -> None:
    pins = dict(line.split() for line in (bills.CHECKOUT / bills.MAVEN[name] / "jars.sha256").read_text().splitlines())
    required = {one["hashes"][0]["content"] for one in made[name]["components"] if one["scope"] == "required"}
    assert required == set(pins)
