"""Each key of `weir.yaml` reaches the commands, environments and files of the services that it is for, and no other."""

from __future__ import annotations

import configparser
import re
import shutil
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from weir import config
from weir.services import all_services
from weir.supervisor import Supervisor

_HOST = "http://store.example:9876"

# Where each key arrives; `{}` stands for its value. Any other key of `flink` is the option of its name.
_PLACES: dict[str, dict[str, str]] = {
    "ports.kafka": {
        "flink --brokers": "127.0.0.1:{}",
        "kafka listeners": "INTERNAL://127.0.0.1:{},PROBES://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093",
        "kafka advertised.listeners": "INTERNAL://127.0.0.1:{},PROBES://127.0.0.1:9094",
        "kafka port": "{}",
    },
    "ports.kafka_controller": {
        "kafka controller.quorum.bootstrap.servers": "127.0.0.1:{}",
        "kafka listeners": "INTERNAL://127.0.0.1:9092,PROBES://127.0.0.1:9094,CONTROLLER://127.0.0.1:{}",
    },
    "ports.kafka_probes": {
        "kafka -Dweir.probes.port": "{}",
        "kafka listeners": "INTERNAL://127.0.0.1:9092,PROBES://127.0.0.1:{},CONTROLLER://127.0.0.1:9093",
        "kafka advertised.listeners": "INTERNAL://127.0.0.1:9092,PROBES://127.0.0.1:{}",
    },
    "ports.clickhouse": {
        "clickhouse --listen": "127.0.0.1:{}",
        "clickhouse port": "{}",
        "flink --clickhouse": "http://127.0.0.1:{}",
        "superset WEIR_CLICKHOUSE_PORT": "{}",
    },
    "ports.flink": {"flink --rest-port": "{}", "flink port": "{}"},
    "ports.flink_metrics": {"flink --metrics-port": "{}"},
    "ports.superset": {"superset WEIR_SUPERSET_PORT": "{}", "superset port": "{}"},
    "ports.storage_metrics": {"storage port": "{}"},
    "kafka.brokers": {"flink --brokers": "{}", "flink --kafka-properties": "", "kafka": "not started"},
    "kafka.listen": {
        "kafka listeners": "INTERNAL://127.0.0.1:9092,PROBES://{}:9094,CONTROLLER://127.0.0.1:9093",
        "kafka advertised.listeners": "INTERNAL://127.0.0.1:9092,PROBES://{}:9094",
    },
    "kafka.advertised": {"kafka advertised.listeners": "INTERNAL://127.0.0.1:9092,PROBES://{}:9094"},
    "kafka.heap": {"kafka -Xmx": "{}", "kafka queued.max.request.bytes": "{two fifths}"},
    "kafka.probe_connections": {"kafka listener.name.probes.max.connections": "{}"},
    "kafka.address_connections": {"kafka max.connections.per.ip": "{}"},
    "flink.heap": {"flink -Xms": "{}", "flink -Xmx": "{}"},
    "flink.jobs": {"flink --jobs": "topn,indicators"},
    "flink.kafka_properties": {"flink --kafka-properties": "{home}/{}"},
    "flink.clickhouse_url": {"flink --clickhouse": "{}"},
    "clickhouse.backups": {"clickhouse --backups": "{home}/{}"},
    "clickhouse.url": {
        "clickhouse": "not started",
        "flink --clickhouse": "{}",
        "superset WEIR_CLICKHOUSE_HOST": "store.example",
        "superset WEIR_CLICKHOUSE_PORT": "9876",
    },
    "clickhouse.authority": {"superset WEIR_CLICKHOUSE_AUTHORITY": "{}"},
    "clickhouse.access": {"clickhouse --access": "{home}/{}"},
    "clickhouse.database": {"flink --database": "{}"},
    "clickhouse.memory": {"clickhouse --memory": "{}"},
    "storage.every_minutes": {"storage --every": "{}.0"},
    "superset.enabled": {"superset": "not started"},
    "superset.public": {"superset WEIR_SUPERSET_PUBLIC": "no"},
    "superset.url": {"superset WEIR_SUPERSET_URL": "{}", "superset WEIR_SUPERSET_PUBLIC": "no"},
}

# Keys that no service receives at its start, with their readers.
_READ_ELSEWHERE = {
    "ports.agent_metrics": "the agent of the demo has it in its own configuration",
    "kafka.properties": "`weir` itself reads that file",
    "kafka.managed": "`weir` makes users in a broker that it does not start",
    "kafka.probe_rate": "`weir up` tells Kafka",
    "clickhouse.cluster": "`weir migrate` writes it into the tables' engines",
    "storage.budget": "`weir storage` reads the file",
    "storage.raw_days": "`weir storage` reads the file",
    "storage.window_days": "`weir storage` reads the file",
    "storage.agent_alert_days": "`weir storage` reads the file",
    "storage.hourly_days": "`weir storage` reads the file",
    "storage.nat_days": "`weir storage` reads the file",
    "storage.audit_days": "`weir storage` reads the file",
}


def _keys() -> Iterator[tuple[str, Any]]:
    for part, field in config.Config.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and not isinstance(kind, types.GenericAlias) and issubclass(kind, BaseModel):
            yield from ((f"{part}.{key}", own) for key, own in kind.model_fields.items())


def _values() -> dict[str, Any]:
    """A value for each key, unlike the default and unlike every other key's."""
    values = {}
    for number, (key, field) in enumerate(_keys()):
        kind, default = field.annotation, field.default
        least = max((bound.ge for bound in field.metadata if hasattr(bound, "ge")), default=0)
        if kind is bool:
            values[key] = not default
        elif kind == bool | None:
            values[key] = False
        elif kind in (int, float):
            values[key] = 11 + number + (least if least > 10 else 0)
        elif get_origin(kind) is Literal:
            values[key] = next(word for word in get_args(kind) if word != default)
        elif get_origin(kind) is Union:  # a number or a word
            values[key] = 20_000 + number
        elif kind is str:
            values[key] = f"{_HOST}/{number}" if key.endswith("url") else f"{100 + number}GB"
        else:
            values[key] = default[1:3]
        assert values[key] != default, key
    return values


def _places(settings: dict[str, Any], home: Path) -> dict[str, str]:
    """Everything that the services receive, by service and name of the option, variable or property."""
    stack = config.Stack(config.Config.model_validate(settings), home)
    found = {}
    for service in all_services(stack):
        # An option's value is the word after it; other words stand by their number.
        name = "start"
        for number, word in enumerate(service.command):
            if option := re.fullmatch(r"(-Xm[sx]|-Dweir[\w.]+(?==))=?(\w+)", word):
                found[f"{service.name} {option[1]}"] = option[2]
            elif word.startswith("--"):
                name = word
                found[f"{service.name} {name}"] = ""
            else:
                found[f"{service.name} {name if name[0] == '-' else number}"] = word
                name = "start"
        found |= {f"{service.name} {name}": value for name, value in service.environment.items()}
        found[f"{service.name} port"] = str(service.port)
        if service.name == "kafka":
            service.prepare()
            lines = (stack.run / "kafka.properties").read_text().splitlines()
            found |= {f"kafka {key}": value for key, value in (line.split("=", 1) for line in lines)}
    return found


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run").mkdir()
    # The key that names the users' file names this one, relative to the folder.
    monkeypatch.chdir(tmp_path)
    shutil.copy(config.CHECKOUT / "clickhouse/access.yaml", _values()["clickhouse.access"])
    # Kafka's storage counts as formatted.
    (tmp_path / "data/kafka").mkdir(parents=True)
    (tmp_path / "data/kafka/meta.properties").touch()
    return tmp_path


@pytest.mark.parametrize("key", _values())
def test_a_value_arrives_where_it_belongs_and_nowhere_else(home: Path, key: str) -> None:
    value, (part, name) = _values()[key], key.split(".")
    before, after = _places({}, home), _places({part: {name: value}}, home)
    stopped = {place.split()[0] for place in before} - {place.split()[0] for place in after}
    changed = {place: text for place, text in after.items() if before.get(place) != text}
    gone = {place for place in before if place not in after and place.split()[0] not in stopped}
    assert not gone
    expected = _PLACES.get(key, {f"flink --{name.replace('_', '-')}": "{}"} if part == "flink" else {})
    assert bool(expected) != (key in _READ_ELSEWHERE)
    meant = {"{home}": str(home), "{}": str(value)}
    if "{two fifths}" in expected.values():
        meant["{two fifths}"] = str(config.octets(str(value)) * 2 // 5)
    for text, meaning in meant.items():
        expected = {place: there.replace(text, meaning) for place, there in expected.items()}
    assert changed | dict.fromkeys(stopped, "not started") == expected


def test_the_values_differ_and_no_key_is_forgotten() -> None:
    values = _values()
    told = [str(value) for value in values.values() if not isinstance(value, bool)]
    assert len(set(told)) == len(told) > 40
    assert set(values) >= {*_PLACES, *_READ_ELSEWHERE}
    assert {key.split(".")[0] for key in values} == set(config.Config.model_fields) - {"agents", "sign_on"}


def test_a_store_with_tls_is_asked_by_tls(home: Path) -> None:
    for url, port, tls in (("https://store.example", "8443", "yes"), ("http://store.example", "8123", "no")):
        places = _places({"clickhouse": {"url": url}}, home)
        assert (places["superset WEIR_CLICKHOUSE_PORT"], places["superset WEIR_CLICKHOUSE_TLS"]) == (port, tls)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"ldap": {"server": "ldap://directory.example"}}, "passwords would travel in the clear"),
        ({"oidc": {"issuer": "http://login.example"}}, "the provider must prove itself"),
        ({"roles": {"viewer": ["noc"]}}, "name either ldap or oidc"),
    ],
)
def test_signing_on_needs_tls_and_one_directory(wrong: dict[str, Any], said: str) -> None:
    names = {
        "search": "o=x",
        "bind_user": "cn=x",
        "bind_password_file": "p",
        "client_id": "w",
        "client_secret_file": "s",
    }
    models = {"ldap": config.Ldap, "oidc": config.Oidc}
    complete = {
        part: {key: value for key, value in names.items() if part in models and key in models[part].model_fields} | own
        for part, own in wrong.items()
    }
    with pytest.raises(ValueError, match=said):
        config.Config.model_validate({"sign_on": complete})


def test_the_store_and_the_dashboards_know_the_same_people(home: Path) -> None:
    directory = {"oidc": {"issuer": "https://login.example", "client_id": "weir", "client_secret_file": "s"}}
    places, without = _places({"sign_on": directory}, home), _places({}, home)
    file = f"{home}/run/sign-on.json"
    assert places["clickhouse --sign-on"] == places["superset WEIR_SUPERSET_SIGN_ON_FILE"] == file
    assert "clickhouse --sign-on" not in without


def test_each_agent_is_given_its_own_file(home: Path) -> None:
    agents = [{"probe": "north", "config": "/n.toml"}, {"probe": "south", "config": "/s.toml"}]
    places = _places({"agents": agents}, home)
    assert (places["agent-north --config"], places["agent-south --config"]) == ("/n.toml", "/s.toml")


def test_services_are_given_the_configuration_file(home: Path) -> None:
    """The service `storage` reads the retention of each tier from the configuration itself."""
    stack = config.Stack(config.Config(), home, home / "other.yaml")
    command = next(service.command for service in all_services(stack) if service.name == "storage")
    assert command[1:3] == ["--config", str(home / "other.yaml")]


def test_only_jobs_that_ended_with_a_savepoint_stay_down(home: Path) -> None:
    """Started again by the supervisor, they would resume from a checkpoint that is older than the savepoint."""
    stack = config.Stack(config.Config(), home)
    supervisor = Supervisor(stack)
    supervisor._write(all_services(stack))
    written = configparser.RawConfigParser(strict=False)
    written.read(supervisor.configuration)
    words = {name: written[name]["autorestart"] for name in written.sections() if name.startswith("program:")}
    assert {name for name, word in words.items() if word != "true"} == {"program:flink"}
    assert words["program:flink"] == "unexpected"


def test_dashboards_that_people_reach_from_elsewhere_ask_for_a_login() -> None:
    """An address or a directory means other people than those at the machine; what the file says itself wins."""
    directory = {"oidc": {"issuer": "https://login.example", "client_id": "weir", "client_secret_file": "s"}}
    cases: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"superset": {"url": "https://weir.example"}}, False),
        ({"sign_on": directory}, False),
        ({"superset": {"url": "https://weir.example", "public": True}}, True),
        ({"sign_on": directory, "superset": {"public": True}}, True),
        ({"superset": {"public": False}}, False),
    ]
    for settings, public in cases:
        assert config.Config.model_validate(settings).is_public is public, settings
