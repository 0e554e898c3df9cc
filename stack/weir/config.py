"""The stack's configuration: one YAML file, every key with a default.

The commented example is `stack/weir.example.yaml`; a test compares it with this file. `weir` reads `--config`, else
`$WEIR_HOME/weir.yaml`, else uses the defaults. It refuses unknown keys by name.
"""

from __future__ import annotations

import functools
import os
import re
import secrets
import socket
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from weir import ports, private
from weir.brokers import Brokers, read_properties
from weir.certificates import Certificates
from weir.errors import WeirError

CHECKOUT = Path(__file__).resolve().parents[2]
Job = Literal["ingest", "topn", "indicators", "mixes", "filters", "health", "alerts", "detect"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Ports(_Part):
    """TCP ports, all on 127.0.0.1, but for `kafka_probes` if `kafka.listen` says otherwise. Where another program holds one that
    this file does not set, `weir` takes a free one, shows it, and keeps it.
    """

    kafka: int = 9092
    kafka_probes: int = 9094
    kafka_controller: int = 9093
    clickhouse: int = 8123
    flink: int = 8081
    flink_metrics: int = 9249
    superset: int = 8088
    agent_metrics: int = 9110
    storage_metrics: int = 9120


class Kafka(_Part):
    """The broker. If `brokers` is set, the stack uses those and starts none; `properties` is then the file of
    librdkafka's properties by which this command logs in. managed: `brokers` trusts the certificates of this stack (its
    container does), so that `weir` makes the users there. Probes connect to `advertised`, by default the address that
    the broker listens on for them. probe_rate: octets a second that one probe may publish, unlimited if empty.
    probe_connections: connections that all probes together may have at once; address_connections: those from one
    address, other than 127.0.0.1. An agent has up to 5. The heap has to hold 10 MiB for each of the latter.
    """

    brokers: str = ""
    properties: str = ""
    managed: bool = False
    listen: str = "127.0.0.1"
    advertised: str = ""
    probe_rate: str = "50MB"
    probe_connections: int = Field(default=1000, ge=1)
    address_connections: int = Field(default=20, ge=1)
    heap: str = "512m"

    @field_validator("probe_rate")
    @classmethod
    def _is_rate(cls, value: str) -> str:
        return _checked_size(value)

    @property
    def is_foreign(self) -> bool:
        """Whether the broker is somebody else's, who makes its users and says how this command logs in."""
        return bool(self.brokers) and not self.managed


class Flink(_Part):
    """The jobs, run in one process."""

    heap: str = "1600m"
    parallelism: int = Field(default=2, ge=1)
    jobs: list[Job] = list(get_args(Job))
    checkpoint_interval: str = "3s"
    window: str = "30s"
    mix_window: str = "5m"
    top: int = Field(default=50, ge=10, le=100)
    port_report: int = Field(default=1000, ge=1, le=60_000)
    mix_top: int = Field(default=50, ge=1, le=10_000)
    mix_top_as: int = Field(default=20, ge=1, le=10_000)
    window_flows: Literal["auto"] | Annotated[int, Field(ge=10_000)] = "auto"
    answer_timeout: str = "10s"
    national_delay: str = "15s"
    discovery_interval: str = "5s"
    max_pending: str = "1GiB"
    retry_for: str = "7d"
    topics: str = ".+"
    start: Literal["committed", "earliest", "latest"] = "committed"
    resume: str = "latest"
    clickhouse_url: str = ""
    kafka_properties: str = ""
    as_database: str = ""
    country_database: str = ""
    privacy_key: str = ""
    privacy_period: str = "7d"
    privacy_names: Literal["drop", "keep"] = "drop"


class ClickHouse(_Part):
    """The store. If `url` is set, the stack uses that server and starts none; with https, `authority` is the file of the
    authority that the server must prove itself by, the system's if empty. backups: the only place where the
    embedded store may write besides its data; `backups` beside the data if empty.
    """

    url: str = ""
    authority: str = ""
    cluster: str = ""
    access: str = ""
    backups: str = ""
    database: str = "weir"
    memory: str = "1500MiB"


class Storage(_Part):
    """Retention of each tier in days, and the disk budget. The store keeps daily rows for ever."""

    budget: str = ""
    raw_days: float = Field(default=14, gt=0)
    window_days: float = Field(default=400, gt=0)
    agent_alert_days: float = Field(default=90, gt=0)
    hourly_days: float = Field(default=1100, gt=0)
    nat_days: float = Field(default=180, gt=0)
    audit_days: float = Field(default=400, gt=0)
    every_minutes: float = Field(default=10, ge=0)

    @model_validator(mode="after")
    def _hours_outlast_records(self) -> Storage:
        if self.hourly_days < self.raw_days:
            raise ValueError(
                f"hourly_days ({self.hourly_days:g}) is less than raw_days ({self.raw_days:g}): late records could not be"
                " added to hours whose rows have gone"
            )
        return self

    @field_validator("budget")
    @classmethod
    def _is_size(cls, value: str) -> str:
        return _checked_size(value)


class Ldap(_Part):
    """A directory. server: ldaps://…, or ldap://… with start_tls; authority: file of the authority that it must prove itself
    by, the system's if empty. The account bind_user looks people up under `search`: those whom `filter` finds may sign on.
    """

    server: str
    start_tls: bool = False
    authority: str = ""
    search: str
    filter: str = ""
    bind_user: str
    bind_password_file: str
    uid_field: str = "uid"
    group_field: str = "memberOf"

    @model_validator(mode="after")
    def _passwords_travel_by_tls(self) -> Ldap:
        if not self.server.startswith("ldaps://") and not (self.server.startswith("ldap://") and self.start_tls):
            raise ValueError("passwords would travel in the clear: use ldaps://, or ldap:// with start_tls: true")
        return self


class Oidc(_Part):
    """An OpenID Connect provider. The claims name a person, and its groups."""

    issuer: str
    client_id: str
    client_secret_file: str
    scope: str = "openid profile email"
    username_claim: str = "preferred_username"
    groups_claim: str = "groups"

    @field_validator("issuer")
    @classmethod
    def _is_proven(cls, value: str) -> str:
        url = urlsplit(value)
        if url.scheme != "https" and url.hostname not in ("127.0.0.1", "::1", "localhost"):
            raise ValueError("the provider must prove itself: use https://")
        return value


class Roles(_Part):
    """The groups whose members get each role: admin and viewer at the dashboards, analyst and networks at the store, and
    `customers`, by a customer's name, at both. Who is in none of them is refused.
    """

    admin: list[str] = []
    viewer: list[str] = []
    analyst: list[str] = []
    networks: list[str] = []
    customers: dict[str, list[str]] = {}


class SignOn(_Part):
    """Where people's accounts are, one of both; recheck_s: seconds between two checks of an open session; grace_s: for how
    long sessions go on if the directory does not answer.
    """

    ldap: Ldap | None = None
    oidc: Oidc | None = None
    roles: Roles = Roles()
    recheck_s: float = Field(default=60, ge=1)
    grace_s: float = Field(default=900, ge=0)

    @model_validator(mode="after")
    def _is_one(self) -> SignOn:
        if (self.ldap is None) == (self.oidc is None):
            raise ValueError("name either ldap or oidc")
        return self


class Superset(_Part):
    """The dashboards. public: whether people see them without a login; if it is not set, they do unless `url` or the key
    `sign_on` is. url: the address by which people reach them through a reverse proxy; with https, cookies travel by TLS alone.
    """

    enabled: bool = True
    public: bool | None = None
    url: str = ""

    @field_validator("url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        if value and not re.fullmatch(r"https?://\S+", value):
            raise ValueError(f"'{value}' is not an address such as https://weir.example.org")
        return value


class Agent(_Part):
    """One capture agent: the probe's name and the agent's own configuration file."""

    probe: str
    config: Path


class Config(_Part):
    """Every configuration key of `weir`."""

    ports: Ports = Ports()
    kafka: Kafka = Kafka()
    flink: Flink = Flink()
    clickhouse: ClickHouse = ClickHouse()
    storage: Storage = Storage()
    superset: Superset = Superset()
    sign_on: SignOn | None = None
    agents: list[Agent] = []

    @property
    def is_public(self) -> bool:
        """Whether people see the dashboards without a login."""
        own = self.superset
        return not (own.url or self.sign_on) if own.public is None else own.public


def _checked_size(text: str) -> str:
    if text:
        octets(text)
    return text


def octets(text: str) -> int:
    """The octets of a size such as `500GB` or `2TiB`. Raises ValueError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGTP]?)(I?)B?", text.strip().upper())
    if not found:
        raise ValueError(f"'{text}' is not a size: write it as 500GB or 2TiB")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** " KMGTP".index(found[2] or " "))


class Stack:
    """A configuration and its folder: the paths of a stack, and its secrets.

    The stack generates users' passwords once and keeps them in `secrets/`, readable only by the owner.
    """

    def __init__(self, config: Config, home: Path, file: Path | None = None) -> None:
        self.config = config
        self.home = home
        self.file = file  # file of the configuration, None for the defaults
        self.data = home / "data"
        self.logs = home / "logs"
        self.run = home / "run"
        # One build can serve many homes, such as those of the tests.
        self.venvs = Path(os.environ.get("WEIR_VENVS", CHECKOUT / ".weir/venvs"))
        self.kafka_jars = Path(os.environ.get("WEIR_KAFKA_JARS", CHECKOUT / ".weir/kafka"))
        self.checkout = CHECKOUT
        self.agent_binary = CHECKOUT / "capture/target/release/weir-probe"
        self.flink_jar = CHECKOUT / "flink-jobs/target/weir-flink-jobs.jar"
        self.broker_jar = self.flink_jar.with_name("weir-flink-jobs-broker.jar")

    def prepare(self) -> None:
        """Create the folders. What this process makes from now on belongs to its user alone."""
        os.umask(0o077)
        for folder in (self.data, self.logs, self.run):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)

    def secret(self, name: str) -> str:
        """The secret of that name, generated at the first call."""
        return self.secret_file(name).read_text().strip()

    def secret_file(self, name: str) -> Path:
        """The file of that secret, made at the first call."""
        path = self.home / "secrets" / name
        if not path.exists():
            private.write(path, secrets.token_urlsafe(24).encode())
        return path

    def password(self, user: str) -> str:
        """Password of a ClickHouse user: from WEIR_PASSWORD_<USER> or the file that WEIR_PASSWORD_<USER>_FILE names, else
        this stack's own secret. Raises WeirError if that file cannot be read.
        """
        name = f"WEIR_PASSWORD_{user.upper()}"
        if path := os.environ.get(f"{name}_FILE"):
            try:
                return Path(path).read_text().strip()
            except OSError as error:
                raise WeirError(f"{name}_FILE: cannot read {path}: {error.strerror}") from error
        return os.environ.get(name) or self.secret(f"clickhouse-{user}")

    def password_file(self, user: str) -> dict[str, str]:
        """The variable by which a process of the stack finds the password of a ClickHouse user; nothing if it inherits the
        password from the environment of this command.
        """
        name = f"WEIR_PASSWORD_{user.upper()}"
        if os.environ.get(name) or os.environ.get(f"{name}_FILE"):
            return {}
        return {f"{name}_FILE": str(self.secret_file(f"clickhouse-{user}"))}

    @property
    def access(self) -> Path:
        """The file of users, roles and grants."""
        return Path(self.config.clickhouse.access or CHECKOUT / "clickhouse/access.yaml").absolute()

    @property
    def users(self) -> list[str]:
        """The users of the store's access file.

        Raises WeirError if the file names no users; the store itself reports any other error in it.
        """
        try:
            return list(self._access_tree["users"])
        except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
            raise WeirError(f"{self.access}: is unreadable, or names no users ({type(error).__name__})") from error

    @functools.cached_property
    def _access_tree(self) -> Any:
        return yaml.safe_load(self.access.read_text())

    def database_of(self, user: str) -> str:
        """The database of a user's role in the store's access file; empty if the role has none of its own."""
        try:
            tree = self._access_tree
            return str(tree["roles"][tree["users"][user]["role"]].get("database", ""))
        except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError):
            return ""  # the store reports what is wrong with the file

    @property
    def passwords(self) -> dict[str, str]:
        """Environment variables that name the files of the users' passwords to the store. Raises WeirError."""
        return {key: value for user in self.users for key, value in self.password_file(user).items()}

    @property
    def brokers(self) -> Brokers:
        """Kafka's addresses for this command and the jobs, and how this command logs in there. Raises WeirError."""
        kafka = self.config.kafka
        if kafka.is_foreign:
            return Brokers(kafka.brokers, read_properties(Path(kafka.properties)) if kafka.properties else {})
        part = str(self.certificates.of("command"))
        login = {
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.certificates.authority),
            "ssl.certificate.location": part,
            "ssl.key.location": part,
        }
        return Brokers(kafka.brokers or f"127.0.0.1:{self.config.ports.kafka}", login)

    @property
    def probes_brokers(self) -> str:
        """Kafka's addresses for probes."""
        kafka = self.config.kafka
        if kafka.is_foreign:
            return kafka.brokers
        return f"{self.probes_host}:{self.config.ports.kafka_probes}"

    @property
    def probes_host(self) -> str:
        """The name or address by which probes reach the stack's own broker."""
        kafka = self.config.kafka
        everywhere = kafka.listen in ("0.0.0.0", "::")
        return kafka.advertised or (socket.gethostname() if everywhere else kafka.listen)

    def kept_credentials(self, probe: str) -> Path:
        """File of the credentials of a probe whose agent runs on this machine."""
        return self.home / "secrets/probes" / f"{probe}.toml"

    @property
    def certificates(self) -> Certificates:
        """The stack's certificates."""
        return Certificates(self.home / "secrets/tls")

    @property
    def audit(self) -> Path:
        """Where the embedded store writes its audit."""
        return self.data / "audit"

    @property
    def audit_heads(self) -> Path:
        """Where `weir` notes the audit's end: out of reach of the store."""
        return self.home / "audit-heads.json"

    @property
    def backups(self) -> Path:
        """Where the embedded store keeps backups."""
        return Path(self.config.clickhouse.backups or self.home / "backups").expanduser().absolute()

    @property
    def clickhouse_url(self) -> str:
        """Base URL of ClickHouse's HTTP interface."""
        return self.config.clickhouse.url or f"http://127.0.0.1:{self.config.ports.clickhouse}"

    @property
    def superset_url(self) -> str:
        """Base URL of Superset on this machine."""
        return f"http://127.0.0.1:{self.config.ports.superset}"

    @property
    def flink_url(self) -> str:
        """Base URL of Flink's REST interface."""
        return f"http://127.0.0.1:{self.config.ports.flink}"


def use_name(name: str) -> None:
    """Let `home` be that of another stack of this checkout. Raises WeirError."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", name):
        raise WeirError(f"'{name}' cannot name a stack", hint="use at most 31 of a-z, 0-9 and -")
    os.environ["WEIR_HOME"] = str(CHECKOUT / ".weir/stacks" / name)


def home() -> Path:
    """The folder of the stack."""
    return Path(os.environ.get("WEIR_HOME", CHECKOUT / ".weir")).absolute()


def load(path: Path | None) -> Stack:
    """Read the configuration.

    Raises WeirError if the file is absent, is not YAML, or holds an unknown key or a wrong value.
    """
    place = home()
    if path is None:
        default = place / "weir.yaml"
        if not default.exists():
            return _placed(Config(), place)
        path = default
    try:
        content = yaml.safe_load(path.read_text())
        config = Config.model_validate({} if content is None else content)
    except OSError as error:
        raise WeirError(f"cannot read {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise WeirError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise WeirError(f"{path}: {key}: {first['msg']}", hint="see stack/weir.example.yaml") from error
    return _placed(config, place, path.absolute())


def _placed(config: Config, home: Path, file: Path | None = None) -> Stack:
    moved = {name: port for name, port in ports.chosen(home).items() if name in Ports.model_fields}
    moved = {name: port for name, port in moved.items() if name not in config.ports.model_fields_set}
    config.ports = config.ports.model_copy(update=moved)
    return Stack(config, home, file)
