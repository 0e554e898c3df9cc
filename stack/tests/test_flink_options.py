"""Each option of the jobs is set from `weir.yaml`, or is the stack's own to choose."""

from __future__ import annotations

import re
from pathlib import Path

from weir import config
from weir.services import Service, all_services

CHECKOUT = Path(__file__).resolve().parents[2]

# Options that the stack sets itself, with the reason.
_OWN = {
    "sink": "count is for measuring the jobs, never for running a stack",
    "listen": "everything of a stack listens on 127.0.0.1",
}

# Options that the stack gives without a key of `flink`: they follow from other parts of the configuration.
_FROM_ELSEWHERE = {
    "brokers",
    "kafka-properties",
    "group",
    "clickhouse",
    "database",
    "user",
    "checkpoints",
    "rest-port",
    "metrics-port",
}


def _documented() -> dict[str, str]:
    """The jobs' options and their defaults, from the reference, which another test compares with `--help`."""
    page = (CHECKOUT / "docs/reference/flink-jobs.md").read_text()
    options = re.split(r"^  --(?=[a-z-]+ [^ ,])", page.split("Options:")[1].split("  --help")[0], flags=re.M)[1:]
    defaults = [re.search(r"\[([^\]]+)\]\s*$", option) for option in options]
    return {option.split()[0]: found[1] if found else "" for option, found in zip(options, defaults, strict=True)}


def _flink(tmp_path: Path, **settings: object) -> Service:
    stack = config.Stack(config.Config.model_validate({"flink": settings}), tmp_path)
    return next(service for service in all_services(stack) if service.name == "flink")


def _given(service: Service) -> dict[str, str]:
    words = service.command
    return {word[2:]: words[at + 1] for at, word in enumerate(words) if word.startswith("--")}


def test_every_option_of_the_jobs_can_be_set(tmp_path: Path) -> None:
    given = set(_given(_flink(tmp_path, as_database="/a.mmdb", country_database="/c.mmdb", privacy_key="/k")))
    assert given >= _FROM_ELSEWHERE
    assert given | set(_OWN) == set(_documented())
    assert {name.replace("-", "_") for name in given - _FROM_ELSEWHERE} <= set(config.Flink.model_fields)


def test_the_jobs_and_the_configuration_have_the_same_defaults() -> None:
    documented = {name.replace("-", "_"): default for name, default in _documented().items()}
    configured = {key: value for key, value in config.Flink().model_dump().items() if key in documented}
    assert len(configured) > 15
    said = {key: ",".join(value) if isinstance(value, list) else str(value) for key, value in configured.items()}
    assert said == {key: documented[key] for key in said}
