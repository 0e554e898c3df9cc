"""Which licences Weir's libraries may have: `licences.yaml` lists them, each with its reason."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml
from boolean import ParseError
from license_expression import AND, OR, ExpressionError, LicenseWithExceptionSymbol, get_spdx_licensing
from pydantic import BaseModel, ConfigDict

#: Stands for a licence that nobody states.
UNKNOWN = "NOASSERTION"
SPDX = get_spdx_licensing()


class Bundled(BaseModel):
    """A C library inside a crate."""

    model_config = ConfigDict(extra="forbid")
    name: str
    licence: str


class Stated(BaseModel):
    """A package's licence where its metadata do not state it by SPDX, and where it is stated."""

    model_config = ConfigDict(extra="forbid")
    licence: str
    where: str


class Permitted(BaseModel):
    """A package that may have a licence that others may not."""

    model_config = ConfigDict(extra="forbid")
    licence: str
    reason: str


class Licences(BaseModel):
    """`licences.yaml`; packages are keys `type/name` as in their package URLs."""

    model_config = ConfigDict(extra="forbid")
    allowed: dict[str, str]
    exceptions: dict[str, Permitted]
    names: dict[str, str]
    stated: dict[str, Stated]
    bundled: dict[str, Bundled]


@functools.cache
def declared() -> Licences:
    """What `licences.yaml` says."""
    return Licences.model_validate(yaml.safe_load(Path(__file__).with_name("licences.yaml").read_text()))


def package(component: dict[str, Any]) -> str:
    """A component's key in `licences.yaml`: its package URL from its type to its name."""
    return str(component.get("purl", component["name"])).removeprefix("pkg:").partition("@")[0]


def state(component: dict[str, Any], choice: bool) -> None:
    """Replaces the licences that a package's metadata state by one SPDX expression: that of `licences.yaml` where the
    metadata have none.

    choice: whether several mean that the user chooses one, as in Maven's POM; else all hold, as in Python's metadata.
    """
    known = declared()
    said = set()
    for one in component.get("licenses", []):
        name = one.get("expression") or one["license"].get("id") or one["license"].get("name")
        said.add(known.names.get(name, name))
    # Beside "BSD-3-Clause" it says the same less precisely.
    if any(name.startswith("BSD-") for name in said):
        said.discard("License :: OSI Approved :: BSD License")
    exact = sorted(name for name in said if spdx(name))
    if exact and (choice or len(exact) == len(said)):
        joint = " OR " if choice else " AND "
        inner = [f"({name})" if " " in name and len(exact) > 1 else name for name in exact]
        component["licenses"] = [{"acknowledgement": "declared", "expression": joint.join(inner)}]
        return
    stated = known.stated.get(package(component))
    expression = stated.licence if stated else UNKNOWN
    component["licenses"] = [{"acknowledgement": "concluded", "expression": expression}]


def spdx(name: str) -> bool:
    """Whether this is an expression of SPDX's identifiers."""
    try:
        SPDX.parse(name, validate=True, strict=True)
    except (ExpressionError, ParseError):
        return False
    return True


def problems(bill: dict[str, Any]) -> list[str]:
    """One line for each component of a bill whose licence is not allowed."""
    found = []
    for component in bill["components"]:
        said = [one.get("expression", "") for one in component.get("licenses", [])]
        exception = declared().exceptions.get(package(component))
        if len(said) != 1 or not permitted(said[0], exception.licence if exception else ""):
            found.append(f"{package(component)} {component['version']}: {' and '.join(said) or UNKNOWN}")
    return found


def permitted(expression: str, exception: str = "") -> bool:
    """Whether a licence expression can be met by allowed licences alone, and by that of an exception."""
    if not spdx(expression):
        return False
    return met(SPDX.parse(expression), {*declared().allowed, exception})


def met(parsed: Any, allowed: set[str]) -> bool:
    """Whether a parsed expression is met: one side of an OR, all sides of an AND, a licence as such or with its
    exception.
    """
    if isinstance(parsed, OR):
        return any(met(one, allowed) for one in parsed.args)
    if isinstance(parsed, AND):
        return all(met(one, allowed) for one in parsed.args)
    if isinstance(parsed, LicenseWithExceptionSymbol):
        return str(parsed) in allowed or parsed.license_symbol.key in allowed
    return parsed.key in allowed
