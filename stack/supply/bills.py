"""Bills of materials (CycloneDX 1.6, JSON): one file for each thing that Weir builds or installs.

    weir-probe.cdx.json       the agent: every crate of Cargo.lock, and the C libraries compiled into it
    weir-flink-jobs.cdx.json  the jobs' jar
    kafka.cdx.json            the broker that `weir up` starts
    stack.cdx.json, clickhouse.cdx.json, superset.cdx.json
                              the pinned Python libraries; with Superset its built front end

Each component has a version, a licence and the SHA-256 by which the lock file pins it (Python: one for each file that
the registry offers; Java: of the jar that Maven fetched, because a POM pins none). `scope` is `excluded` for what is
only built or tested with, or belongs to another platform. The bills contain no time, so equal inputs give equal files.

Example: .weir/venvs/stack/bin/python -m supply.bills .weir/sbom   (in stack/; `make sbom` calls it)
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from supply import licences

CHECKOUT = Path(__file__).resolve().parents[2]
VENVS = Path(os.environ.get("WEIR_VENVS", CHECKOUT / ".weir/venvs"))
#: Folder with requirements.txt of each Python part, by the name of its environment.
PYTHON = {"stack": "stack", "clickhouse": "clickhouse/embedded", "superset": "superset"}
#: Folder with pom.xml of each Maven module, by the name of its bill.
MAVEN = {"weir-flink-jobs": "flink-jobs", "kafka": "stack/kafka"}
CYCLONEDX_MAVEN = "org.cyclonedx:cyclonedx-maven-plugin:2.9.1:makeBom"
#: The platform that decides which crates are in the agent.
PLATFORM = "x86_64-unknown-linux-gnu"

Bill = dict[str, Any]


def agent(checkout: Path = CHECKOUT) -> Bill:
    """The agent's bill, from Cargo.lock and what the crates say of themselves.

    Raises CalledProcessError if cargo refuses Cargo.lock.
    """
    lock = tomllib.loads((checkout / "capture/Cargo.lock").read_text())
    checksums = {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}
    known = cargo_metadata(checkout)
    linked = linked_crates(cargo_metadata(checkout, PLATFORM))
    refs = {one["id"]: f"pkg:cargo/{one['name']}@{one['version'].replace('+', '%2B')}" for one in known["packages"]}
    root, components, dependencies = known["resolve"]["root"], [], []
    natives = {}
    for one in known["packages"]:
        if one["id"] == root:
            continue
        scope = "required" if one["id"] in linked else "excluded"
        component = {
            "type": "library",
            "bom-ref": refs[one["id"]],
            "name": one["name"],
            "version": one["version"],
            "purl": refs[one["id"]],
            "scope": scope,
            # Cargo's old form of OR.
            "licenses": [{"expression": re.sub(r"\s*/\s*", " OR ", one["license"] or licences.UNKNOWN)}],
            "hashes": [{"alg": "SHA-256", "content": checksums[one["name"], one["version"]]}],
        }
        components.append(component)
        if source := licences.declared().bundled.get(one["name"]):
            # Its version stands behind the crate's own: 4.10.0+2.12.1, 2.1.2+zstd.1.5.7.
            found = re.search(r"\d+(\.\d+)+$", one["version"].partition("+")[2])
            if not found:
                raise ValueError(f"{one['name']} {one['version']} does not say which {source.name} it contains")
            natives[one["id"]] = {
                "type": "library",
                "bom-ref": f"pkg:generic/{source.name}@{found[0]}",
                "name": source.name,
                "version": found[0],
                "purl": f"pkg:generic/{source.name}@{found[0]}",
                "scope": scope,
                "description": f"C sources inside the crate {one['name']}, whose hash covers them",
                "licenses": [{"expression": source.licence}],
                "hashes": component["hashes"],
            }
    for node in known["resolve"]["nodes"]:
        of = {refs[one] for one in node["dependencies"]}
        if native := natives.get(node["id"]):
            of.add(native["bom-ref"])
        dependencies.append({"ref": refs[node["id"]], "dependsOn": sorted(of)})
    itself = next(one for one in known["packages"] if one["id"] == root)
    return bill(itself["name"], itself["version"], refs[root], [*components, *natives.values()], dependencies)


def cargo_metadata(checkout: Path, platform: str = "") -> dict[str, Any]:
    """What cargo knows of the agent's crates, of all platforms unless one is named."""
    words = ["cargo", "metadata", "--locked", "--format-version", "1"]
    words += ["--manifest-path", str(checkout / "capture/Cargo.toml")]
    words += ["--filter-platform", platform] if platform else []
    known: dict[str, Any] = json.loads(run(words))
    return known


def linked_crates(known: dict[str, Any]) -> set[str]:
    """Ids of the crates that the agent links or that write code for it: neither built nor tested with alone."""
    nodes = {node["id"]: node for node in known["resolve"]["nodes"]}
    linked, todo = set[str](), [known["resolve"]["root"]]
    while todo:
        one = todo.pop()
        if one not in linked:
            linked.add(one)
            todo += [dep["pkg"] for dep in nodes[one]["deps"] if any(not kind["kind"] for kind in dep["dep_kinds"])]
    return linked


def java(name: str, checkout: Path = CHECKOUT) -> Bill:
    """A Maven module's bill, by CycloneDX's plug-in."""
    pom = checkout / MAVEN[name] / "pom.xml"
    with tempfile.TemporaryDirectory() as folder:
        options = {"outputFormat": "json", "outputDirectory": folder, "outputName": name, "includeTestScope": "true"}
        words = [
            "mvn",
            "-q",
            "-B",
            "-f",
            str(pom),
            CYCLONEDX_MAVEN,
            *(f"-D{key}={value}" for key, value in options.items()),
        ]
        run(words)
        made: Bill = json.loads((Path(folder) / f"{name}.json").read_text())
    made["metadata"].pop("timestamp", None)
    of = {one["ref"]: one.get("dependsOn", []) for one in made["dependencies"]}
    root = made["metadata"]["component"]["bom-ref"]
    tests = test_artifacts(pom)
    shipped, todo = set[str](), [one for one in of[root] if not tests.intersection(artifact(one))]
    while todo:
        one = todo.pop()
        if one not in shipped:
            shipped.add(one)
            todo += of.get(one, [])
    for component in made["components"]:
        component["scope"] = "required" if component["bom-ref"] in shipped else "excluded"
        component["hashes"] = [one for one in component["hashes"] if one["alg"] == "SHA-256"]
        # The links of a POM are often dead, and some are no URLs.
        component.pop("externalReferences", None)
        licences.state(component, choice=True)
    return made


def artifact(purl: str) -> set[str]:
    """An artifact's id, with a colon and its classifier if it has one, as a set."""
    found = re.fullmatch(r"pkg:maven/[^/]+/([^@]+)@[^?]+\?(?:classifier=([^&]+)&)?.*", purl)
    return {f"{found[1]}:{found[2] or ''}"} if found else set()


def test_artifacts(pom: Path) -> set[str]:
    """Ids with classifiers of the dependencies that a POM has for its tests alone."""
    space = {"": "http://maven.apache.org/POM/4.0.0"}
    of_tests = [
        one
        for one in ElementTree.parse(pom).iterfind("dependencies/dependency", space)
        if one.findtext("scope", namespaces=space) == "test"
    ]
    return {
        f"{one.findtext('artifactId', namespaces=space)}:{one.findtext('classifier', '', namespaces=space)}"
        for one in of_tests
    }


def python(name: str, checkout: Path = CHECKOUT) -> Bill:
    """A Python environment's bill: what requirements.txt pins, by CycloneDX's reader of it, with the licences and
    dependencies that the installed libraries state.
    """
    program = Path(sys.executable).with_name("cyclonedx-py")
    # Its own check takes as long as all the rest; the whole bill is checked at the end.
    options = ["--no-validate", "--output-reproducible", "--spec-version", "1.6", "--output-format", "JSON"]
    pinned = json.loads(
        run([str(program), "requirements", *options, str(checkout / PYTHON[name] / "requirements.txt")])
    )
    installed = json.loads(run([str(program), "environment", *options, str(VENVS / name / "bin/python")]))
    here = {canonical(one["purl"]): one for one in installed["components"]}
    names = {one["bom-ref"]: canonical(one["purl"]) for one in installed["components"]}
    components = []
    for component in pinned["components"]:
        found = here.get(component["purl"])
        component["bom-ref"] = component["purl"]
        component["scope"] = "required" if found else "excluded"
        component["description"] = (found or {}).get("description", "for another platform or version of Python")
        component["licenses"] = (found or {}).get("licenses", [])
        licences.state(component, choice=False)
        components.append(component)
    pins = {one["purl"] for one in components}
    dependencies = [
        {"ref": names[one["ref"]], "dependsOn": sorted({names[of] for of in one.get("dependsOn", [])} & pins)}
        for one in installed["dependencies"]
        if names.get(one["ref"]) in pins
    ]
    if name == "superset":
        front = front_end(VENVS / name)
        components.append(front)
        dependencies.append({"ref": front["bom-ref"]})
    version = tomllib.loads((checkout / "stack/pyproject.toml").read_text())["project"]["version"]
    made = bill(f"weir-{name}", version, f"weir-{name}", components, dependencies)
    made["metadata"]["tools"] = pinned["metadata"]["tools"]
    return made


def canonical(purl: str) -> str:
    """A Python package's URL with its normalized name: `backports.zstd` is `backports-zstd`."""
    head, _, version = purl.partition("@")
    return f"{re.sub(r'[._]', '-', head)}@{version}"


def front_end(environment: Path) -> Bill:
    """Superset's built front end: its scripts and styles with their hashes, and the libraries that it names.

    The wheel tells which versions its authors allowed, not which ones they built with: these have no version.
    """
    (assets,) = environment.glob("lib/python*/site-packages/superset/static/assets")
    package = json.loads((assets / "package.json").read_text())
    files = sorted(one for one in assets.iterdir() if one.suffix in {".js", ".css"})
    digests = {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in files}
    whole = hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in digests.items()).encode())
    libraries = [
        {
            "type": "library",
            "bom-ref": f"pkg:npm/{name.replace('@', '%40')}",
            "name": name,
            "purl": f"pkg:npm/{name.replace('@', '%40')}",
            "properties": [{"name": "weir:range", "value": allowed}],
        }
        for name, allowed in sorted(package["dependencies"].items())
        # The others are parts of Superset itself.
        if not allowed.startswith("file:")
    ]
    return {
        "type": "application",
        "bom-ref": f"superset-frontend@{package['version']}",
        "name": "superset-frontend",
        "version": package["version"],
        "scope": "required",
        "description": f"{len(files)} scripts and styles of the wheel; the hash is that of their `sha256sum` lines by name",
        "licenses": [{"expression": package["license"]}],
        "hashes": [{"alg": "SHA-256", "content": whole.hexdigest()}],
        "components": libraries
        + [
            {"type": "file", "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}
            for name, digest in digests.items()
        ],
    }


def bill(name: str, version: str, ref: str, components: list[Bill], dependencies: list[Bill]) -> Bill:
    """A bill of one part of Weir."""
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": ref,
                "name": name,
                "version": version,
                "licenses": [{"expression": "Apache-2.0"}],
            }
        },
        "components": sorted(components, key=lambda one: str(one["bom-ref"])),
        "dependencies": sorted(dependencies, key=lambda one: str(one["ref"])),
    }


#: What makes each bill.
BILLS: dict[str, Callable[[], Bill]] = {
    "weir-probe": agent,
    **{name: functools.partial(java, name) for name in MAVEN},
    **{name: functools.partial(python, name) for name in PYTHON},
}


def make(names: Iterable[str] = BILLS) -> dict[str, Bill]:
    """The bills of these names, two at a time: Maven and Python's tools take seconds for each."""
    chosen = list(names)
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(chosen, pool.map(lambda name: BILLS[name](), chosen), strict=True))


def invalid(made: Bill) -> str:
    """Where a bill breaks CycloneDX's schema; empty if it is valid."""
    found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(made))
    return str(found or "")


def run(words: list[str]) -> str:
    """A program's output. Raises SystemExit with what the program said if it fails."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def main(folder: Path) -> int:
    """Writes every bill into this folder; 1 if one is invalid or names a licence that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    refused = 0
    for name, made in make().items():
        if wrong := invalid(made):
            raise SystemExit(f"{name}: not valid CycloneDX: {wrong}")
        place = folder / f"{name}.cdx.json"
        place.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
        problems = licences.problems(made)
        refused += len(problems)
        print(f"{place}: {len(made['components'])} components, {len(problems)} without an allowed licence")
        for problem in problems:
            print(f"  {problem}", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
