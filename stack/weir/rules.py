"""Rules for the detectors of the jobs: a YAML file, and the compacted topic `weir.rules` that the jobs follow."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from google.protobuf.message import DecodeError
from rich.table import Table

from weir import kafka, locks, prefixes
from weir.brokers import Brokers
from weir.config import Stack
from weir.errors import WeirError, nearest
from weir.messages.alert_pb2 import Rule, Severity

TOPIC = "weir.rules"
#: Names, values and bounds of the parameters of each detector, as the jobs declare them.
DETECTORS: dict[str, dict[str, dict[str, Any]]] = json.loads((Path(__file__).parent / "detectors.json").read_text())
SEVERITIES = ("info", "warning", "critical")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_MOST = 1_000
_KEYS = ("name", "detector", "off", "prefixes", "customers", "probes", "parameters", "severity", "why")


@dataclass(frozen=True)
class Said:
    """A rule, as its file says it."""

    name: str
    detector: str
    off: bool = False
    prefixes: tuple[str, ...] = ()
    customers: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    parameters: dict[str, float] = field(default_factory=dict)
    severity: str = ""
    why: str = ""


class _At(ValueError):
    """Something is wrong in a line of the file, numbered from 1."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


def read_file(path: Path) -> list[Said]:
    """The rules of a file. Raises WeirError with the line and the reason if any is wrong: none of the file then counts."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)
    except OSError as error:
        raise WeirError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WeirError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise WeirError(f"{path}:{line}: {error.problem}", hint="nothing was changed") from error
    try:
        return list(_rules(node))
    except _At as error:
        raise WeirError(f"{path}:{error.line}: {error}", hint="nothing was changed") from None


def _like(name: str, known: Iterable[str]) -> str:
    return f" ({like})" if (like := nearest(name, known)) else ""


def _rules(node: yaml.Node | None) -> Iterator[Said]:
    top = dict(_pairs(node, ("rules",), "the file")) if node else {}
    if "rules" not in top:
        raise _At(1, "the file begins with 'rules:', a list")
    lines: dict[str, int] = {}
    for one in _items(top["rules"], "rules"):
        said = _rule(one)
        line = one.start_mark.line + 1
        if said.name in lines:
            raise _At(line, f"the rule '{said.name}' is already on line {lines[said.name]}")
        lines[said.name] = line
        yield said


def _pairs(node: yaml.Node, keys: tuple[str, ...], what: str) -> Iterator[tuple[str, yaml.Node]]:
    if not isinstance(node, yaml.MappingNode):
        raise _At(node.start_mark.line + 1, f"{what} is a mapping with {', '.join(keys)}")
    for key, value in node.value:
        if key.value not in keys:
            raise _At(key.start_mark.line + 1, f"{what} has no '{key.value}'{_like(str(key.value), keys)}")
        yield key.value, value


def _items(node: yaml.Node, what: str) -> list[yaml.Node]:
    if not isinstance(node, yaml.SequenceNode):
        raise _At(node.start_mark.line + 1, f"'{what}' is a list")
    if len(node.value) > _MOST:
        raise _At(node.start_mark.line + 1, f"'{what}' has more than {_MOST:,} entries")
    found: list[yaml.Node] = node.value
    return found


def _text(node: yaml.Node, what: str, longest: int = 200) -> str:
    if not isinstance(node, yaml.ScalarNode) or len(node.value) > longest or not node.value.isprintable():
        raise _At(node.start_mark.line + 1, f"'{what}' is a text of at most {longest:,} characters, on one line")
    return str(node.value).strip()


def _rule(node: yaml.Node) -> Said:
    found: dict[str, Any] = {}
    line = node.start_mark.line + 1
    for key, value in _pairs(node, _KEYS, "a rule"):
        at = value.start_mark.line + 1
        if key in ("prefixes", "customers", "probes"):
            texts = [_text(one, key) for one in _items(value, key)]
            found[key] = tuple(_prefix(at, text) for text in texts) if key == "prefixes" else tuple(texts)
        elif key == "parameters":
            found[key] = value
        elif key == "off":
            if value.value not in ("true", "false"):
                raise _At(at, "'off' is true or false")
            found[key] = value.value == "true"
        else:
            found[key] = _text(value, key, 1_000 if key == "why" else 200)
    if not _NAME.fullmatch(found.get("name", "")):
        raise _At(line, "a rule has a 'name' of small letters, digits and hyphens, 63 at most")
    if found.get("detector") not in DETECTORS:
        said = found.get("detector", "")
        raise _At(line, f"no detector is called '{said}'{_like(said, DETECTORS)}; there are {', '.join(DETECTORS)}")
    if found.get("severity", "info") not in SEVERITIES:
        raise _At(line, f"'severity' is one of {', '.join(SEVERITIES)}, not '{found['severity']}'")
    if "parameters" in found:
        found["parameters"] = dict(_parameters(found["parameters"], found["detector"]))
    return Said(**found)


def _prefix(line: int, text: str) -> str:
    try:
        return prefixes.canonical(text)
    except ValueError as error:
        raise _At(line, str(error)) from None


def _parameters(node: yaml.Node, detector: str) -> Iterator[tuple[str, float]]:
    bounds = DETECTORS[detector]
    for name, value in _pairs(node, tuple(bounds), f"the detector {detector}"):
        least, most = bounds[name]["least"], bounds[name]["most"]
        try:
            number = float(value.value)
        except (TypeError, ValueError):
            number = math.nan
        if not least <= number <= most:
            raise _At(
                value.start_mark.line + 1, f"'{name}' is a number from {least:g} to {most:g}: {bounds[name]['comment']}"
            )
        yield name, number


def declared(brokers: Brokers) -> dict[str, Rule]:
    """The rules in force, by name; those that the jobs cannot read either are left out."""
    found = {}
    for name, value in kafka.compacted(brokers, TOPIC).items():
        with contextlib.suppress(DecodeError):
            rule = Rule.FromString(value)
            if rule.major == 1 and rule.name == name:
                found[name] = rule
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class Changes:
    """The names of rules that a command set and removed."""

    set: list[str]
    removed: list[str]
    unchanged: int

    def __str__(self) -> str:
        return f"{len(self.set)} set, {len(self.removed)} removed, {self.unchanged} unchanged"


def apply(stack: Stack, wanted: list[Said], *, replace: bool) -> Changes:
    """Put rules in force; `replace` also removes those that are not in `wanted`. Raises WeirError if Kafka refuses, or a
    customer is not declared.
    """
    with locks.held(stack, "rules", refused="another command is changing the rules"):
        kafka.create_topics(stack.brokers)
        customers = {
            entry.description.customer: entry.customer_id
            for entry in (prefixes.declared(stack.brokers) if any(said.customers for said in wanted) else {}).values()
            if entry.description.customer
        }
        before = declared(stack.brokers)
        after = {said.name: message(said, customers) for said in wanted}
        changed = [name for name, rule in after.items() if before.get(name) != rule]
        removed = [name for name in before if name not in after] if replace else []
        sent: list[tuple[str, bytes | None]] = [
            (name, after[name].SerializeToString(deterministic=True)) for name in changed
        ]
        sent += [(name, None) for name in removed]
        if kafka.publish(stack.brokers, TOPIC, sent) < len(sent):
            raise WeirError(f"{TOPIC} did not accept all changes", hint="run the command again", status=1)
    return Changes(changed, removed, len(after) - len(changed))


def message(said: Said, customers: dict[str, int]) -> Rule:
    """A rule as the jobs read it. Raises WeirError if a customer has no number."""
    for name in said.customers:
        if name not in customers:
            raise WeirError(
                f"the rule '{said.name}' names the customer '{name}', who has no declared prefix{_like(name, customers)}",
                hint="weir prefixes list shows the customers",
            )
    return Rule(
        major=1,
        name=said.name,
        detector=said.detector,
        off=said.off,
        prefixes=said.prefixes,
        customer_ids=[customers[name] for name in said.customers],
        probes=said.probes,
        parameters=said.parameters,
        severity=f"SEVERITY_{said.severity.upper()}" if said.severity else None,
        why=said.why,
    )


def table(rules: dict[str, Rule]) -> Table:
    """One row for each rule."""
    drawn = Table(header_style="bold", box=None, pad_edge=False)
    for title in ("rule", "detector", "scope", "says", "why"):
        drawn.add_column(title, overflow="fold")
    for name, rule in rules.items():
        scope = [
            *rule.prefixes,
            *(f"customer {one}" for one in rule.customer_ids),
            *(f"probe {one}" for one in rule.probes),
        ]
        says = ["off"] if rule.off else [f"{key} {value:g}" for key, value in sorted(rule.parameters.items())]
        if rule.severity:
            says.append(Severity.Name(rule.severity).removeprefix("SEVERITY_").lower())
        drawn.add_row(name, rule.detector, ", ".join(scope) or "all", ", ".join(says), rule.why)
    return drawn
