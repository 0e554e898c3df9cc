"""`weir rules`: what the detectors of the jobs take for an attack, and where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf.json_format import MessageToDict

from weir import prefixes, rules
from weir.commands import configured, console
from weir.errors import WeirError, nearest


def set_(
    file: Annotated[Path, typer.Argument(help="A YAML file with all rules: those not in it are removed.")],
) -> None:
    """Put the rules of a file in force, within seconds and without a restart. If any of them is wrong, nothing changes.

    Example: weir rules set rules.yaml
    """
    print(rules.apply(configured(), rules.read_file(file), replace=True))


def off(
    detector: Annotated[str, typer.Argument(help="Such as scan_vertical; weir rules detectors lists them.")],
    prefix: Annotated[list[str] | None, typer.Option(help="Only for subjects in this prefix; repeat for more.")] = None,
    why: Annotated[str, typer.Option(help="The reason, for people.")] = "",
) -> None:
    """Switch a detector off, everywhere or for some prefixes. `weir rules set` with a file ends that.

    Example: weir rules off scan_vertical --prefix 192.0.2.7/32 --why "the house's own scanner"
    """
    if detector not in rules.DETECTORS:
        raise WeirError(f"no detector is called '{detector}'", hint=nearest(detector, rules.DETECTORS))
    try:
        scope = tuple(prefixes.canonical(one) for one in prefix or ())
    except ValueError as error:
        raise WeirError(str(error)) from None
    name = f"off-{detector.replace('_', '-')}"
    before = rules.declared(configured().brokers).get(name)
    if before and scope:
        scope = tuple(sorted({*before.prefixes, *scope})) if before.prefixes else ()
    said = rules.Said(name, detector, off=True, prefixes=scope, why=why or (before.why if before else ""))
    print(f"{name}: {rules.apply(configured(), [said], replace=False)}")


def list_(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the rules in force.

    Example: weir rules list
    """
    found = rules.declared(configured().brokers)
    if as_json:
        said = [MessageToDict(rule, preserving_proto_field_name=True) for rule in found.values()]
        print(json.dumps(said, indent=2))
    else:
        console.print(rules.table(found) if found else "No rule is set: each detector goes by its own parameters.")


def detectors(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the detectors with their parameters, which rules may replace.

    Example: weir rules detectors
    """
    if as_json:
        print(json.dumps(rules.DETECTORS, indent=2))
        return
    for detector, parameters in rules.DETECTORS.items():
        console.print(detector, style="bold")
        for name, one in parameters.items():
            console.print(
                f"  {name} {one['value']:g} ({one['least']:g} to {one['most']:g}): {one['comment']}", highlight=False
            )
