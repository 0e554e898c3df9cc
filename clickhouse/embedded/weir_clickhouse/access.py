"""access.yaml: users and their rights, compiled for the embedded engine and for a clickhouse-server.

The engine itself enforces grants and row policies: each role becomes a role of its users.xml, each user of a role with
`rows` one of its own, and every request's connection assumes exactly one (`SET ROLE`). The rules that the engine cannot
enforce are in `allowed.py`, in `refusals.py`, in `quotas.py` and in `Role.settings_for`.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import yaml

from . import allowed, slips
from .allowed import Allowed, Vocabulary
from .errors import ServerError
from .quotas import RESOURCES, Quota
from .refusals import FIXED_SETTINGS, VALUES_SETTINGS, refuse_settings, settings_clauses
from .statement import Statement

#: Rights of an administrator of the embedded engine: all except opening the machine's files, reaching other machines and
#: running code, which ALL would include.
_ADMIN = (
    "SHOW, SELECT, INSERT, ALTER, CREATE, DROP, UNDROP TABLE, TRUNCATE, OPTIMIZE, BACKUP, KILL QUERY, SYSTEM, "
    "SHOW ROW POLICIES, INTROSPECTION, dictGet, displaySecretsInShowAndSelect, TABLE ENGINE, CHECK, DISK"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OBJECT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\.(\*|[A-Za-z_][A-Za-z0-9_]*\*?)")
_GRANTS = ("all", "insert", "select")
_KEYS = {"what", "grants", "tables", "rows", "masked", "database", "readonly", "limits", "quota"}
_INTERVAL = re.compile(r"(\d{1,6}) (second|minute|hour|day)s?")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}

#: The setting of ClickHouse that bounds how many statements of one user run at once. The embedded engine knows one user
#: for all, so the front counts itself.
AT_ONCE = "max_concurrent_queries_for_user"
#: Settings by which a statement learns how many rows it would read.
_TELLS = frozenset(["max_rows_to_read", "max_bytes_to_read", "read_overflow_mode", "output_format_write_statistics"])

#: Settings of users who may see only some rows. A row policy is a filter; these two keep a reader's own conditions
#: from being computed before it, where throwIf() and the like would reveal rows that the policy hides.
_FILTER_FIRST = {"query_plan_merge_filters": 0, "allow_reorder_prewhere_conditions": 0}
#: Settings of users who see networks alone: without them the engine leaves out the shuffle of a view that a reader sorts or
#: groups, and equal rows would come in the order of their addresses.
_SHUFFLED = {"query_plan_remove_redundant_sorting": 0, "optimize_duplicate_order_by_and_distinct": 0}
#: Settings of both: answers do not tell how many rows the engine read for them.
_UNTOLD = {"output_format_write_statistics": 0}

#: System tables that show other users' queries, or data from rows that a reader may not see. In a clickhouse-server
#: they need a grant; the embedded engine has one user, to whom they are open, so they have no rows for readers.
HIDDEN_SYSTEM_TABLES = (
    "processes",
    "user_processes",
    "session_query_ids",
    "query_log",
    "statement_log",
    "user_query_log",
    "query_thread_log",
    "query_views_log",
    "query_metric_log",
    "part_log",
    "text_log",
    "session_log",
    "trace_log",
    "error_log",
    "crash_log",
    "errors",
    "events",
    "metrics",
    "asynchronous_metrics",
    "histogram_metrics",
    "dimensional_metrics",
    "jemalloc_arena_bins",
    "jemalloc_bins",
    "jemalloc_stats",
    "scheduler",
    "mutations",
    "merges",
    "moves",
    "query_cache",
    "query_condition_cache",
    "stack_trace",
    "asynchronous_inserts",
    "asynchronous_loader",
    "backups",
    "backup_log",
    "named_collections",
    "warnings",
    "view_refreshes",
    "background_schedule_pool",
    "background_schedule_pool_log",
    "remote_data_paths",
    "dropped_tables",
    "dropped_tables_parts",
    "schema_inference_cache",
)


class AccessError(ValueError):
    """access.yaml is wrong; the message names the place."""


def _explains(statement: Statement) -> bool:
    """Whether a statement, or a subquery of it, asks how it would be executed."""
    items = statement.items
    return any(
        (token.is_word("EXPLAIN") and (not at or items[at - 1].is_symbol("(")))
        or (token.is_name and token.value.lower() == "viewexplain")
        for at, token in enumerate(items)
    )


@dataclass(frozen=True)
class Role:
    """One role: its rights, its tables, its limits (settings of ClickHouse) and its quotas.

    rows: instead of tables, the views of which a user sees only some rows, each with its columns that name customers; a
    row belongs to a customer that one of them names. user, customers: the owner of a role with rows. masked: its views show
    networks instead of addresses. database: its default database, if it has one of its own.
    """

    name: str
    what: str
    grants: tuple[str, ...]
    tables: tuple[str, ...]
    readonly: bool
    limits: Mapping[str, int | float] = field(default_factory=dict)
    quotas: tuple[Quota, ...] = ()
    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    user: str = ""
    customers: tuple[str, ...] = ()
    masked: bool = False
    database: str | None = None
    allowed: Allowed = field(default_factory=Allowed, repr=False)

    @property
    def is_admin(self) -> bool:
        return "all" in self.grants

    @property
    def engine_role(self) -> str:
        """Name of the role in the embedded engine."""
        return f"weir_{self.name}_of_{self.user}" if self.user else f"weir_{self.name}"

    @property
    def objects(self) -> tuple[str, ...]:
        """The tables and views that its grants cover."""
        return self.tables or tuple(self.rows)

    @property
    def fixed(self) -> Mapping[str, int]:
        """Settings that nobody may change."""
        return {**(_FILTER_FIRST if self.rows else _SHUFFLED), **_UNTOLD} if self.hides else {}

    @property
    def hides(self) -> bool:
        """Whether its views hide something that the engine reads."""
        return bool(self.rows) or self.masked

    @property
    def at_once(self) -> int | None:
        """Maximum number of concurrent statements of a user of the role; None if the role sets no limit."""
        return int(self.limits[AT_ONCE]) if AT_ONCE in self.limits else None

    def row_filter(self, view: str) -> str:
        """The condition on the rows of a view, in SQL."""
        names = ", ".join("'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'" for name in self.customers)
        return " OR ".join(f"{column} IN ({names})" for column in self.rows[view])

    def may_begin(self, statement: Statement) -> bool:
        """Whether allowed.yaml lists statements that begin like this one for the role."""
        return self.is_admin or self.allowed.has_statement(self._group, statement)

    def check(self, statement: Statement, params: Mapping[str, str], known: Vocabulary) -> None:
        """Raise an error if this role may not send the statement; the engine itself checks tables.

        params: the request's parameters. known: what the engine has.
        """
        if self.is_admin:
            return
        if not self.may_begin(statement):
            word = statement.kind or "this statement"
            if self.readonly:
                raise ServerError(164, f"Cannot execute query in readonly mode: the role {self.name} may not {word}")
            raise ServerError(497, f"Not enough privileges: the role {self.name} may not {word}")
        self.allowed.check_functions(self.name, statement, params, known)
        self.allowed.check_settings(self._group, statement, self.limits if self.readonly else {}, known)
        if self.hides:
            # The engine prunes by keys before it filters rows: what it would read tells of rows that are not the reader's.
            if _explains(statement):
                raise ServerError(497, f"Not enough privileges: the role {self.name} may not EXPLAIN")
            for name in settings_clauses(statement, known.settings):
                if name in _TELLS:
                    raise allowed.fixed(name)
        if self.readonly:
            slips.refuse(statement)

    def check_format(self, name: str) -> None:
        """Raise error 497 if an answer in this format would tell what was read for it."""
        if self.hides and name.lower().endswith("withprogress"):
            raise ServerError(497, f"Not enough privileges: the role {self.name} may not see the progress of a statement")

    @property
    def _group(self) -> str:
        return "readers" if self.readonly else "writers"

    def settings_for(self, asked: Mapping[str, str], current: Mapping[str, str], known: Vocabulary) -> dict[str, str]:
        """The settings for a request of this role that asks for the settings `asked`.

        current: the engine's own values, so that a setting without effect passes. known: what the engine has. Raises
        error 164 as ClickHouse does for read-only users.
        """
        out = {name: str(value) for name, value in {**self.limits, **self.fixed}.items() if name != AT_ONCE}
        for name, value in asked.items():
            if self.hides and name in _TELLS:
                raise allowed.fixed(name)
            if not self.is_admin:
                without_effect = current.get(name) == value and name not in out
                if value in ("1", "2") and self.readonly if name == "readonly" else without_effect:
                    continue
                if self.allowed.closes_setting(self._group, name, known):
                    raise allowed.fixed(name)
            refuse_settings([name])
            if self.readonly and name in self.limits:
                try:
                    wanted = float(value)
                except ValueError:
                    raise ServerError(36, f"Setting {name} is not a number: {value}") from None
                if not 0 < wanted <= float(self.limits[name]):
                    raise ServerError(164, f"Setting {name} shouldn't be greater than {self.limits[name]}")
            out[name] = value
        return out


@dataclass(frozen=True)
class User:
    """A user: its role, with its customers if the role has rows; the networks it may connect from (any if empty)."""

    name: str
    role: Role
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]


@dataclass(frozen=True)
class Access:
    """All of access.yaml, and the SHA-256 of each user's password in hexadecimal; empty for one without a password.

    people: the role of those who belong to a customer by their groups, by the customer's name.
    """

    database: str | None
    roles: Mapping[str, Role]
    users: Mapping[str, User]
    hashes: Mapping[str, str] = field(default_factory=dict, repr=False)
    people: Mapping[str, Role] = field(default_factory=dict)

    def with_customers(self, names: Iterable[str]) -> Access:
        """The same, with roles for people of these customers, who have no users here."""
        role = self.roles.get("customer")
        if role is None or not role.rows:
            return self
        # No user's name begins with a digit.
        people = {name: replace(role, user=f"{at}_signed_on", customers=(name,)) for at, name in enumerate(names)}
        return replace(self, people=people)

    def person_role(self, roles: Collection[str], customers: Sequence[str]) -> Role | None:
        """The role of a person whose groups give these: the widest; None for nobody's, and for several customers'."""
        for name in ("analyst", "networks"):
            if name in roles and name in self.roles:
                return self.roles[name]
        return self.people.get(customers[0]) if len(customers) == 1 else None

    def authenticate(self, name: str, password: str, peer: str) -> User:
        """The user of this name and password, coming from the address `peer`; raises error 516."""
        user, known = self.users.get(name), self.hashes.get(name)
        right = hmac.compare_digest(known or "", _hash(password))
        if user is None or not known or not right or not _from(user, peer):
            raise ServerError(
                516,
                f"{name}: Authentication failed: password is incorrect, or there is no user with such name",
            )
        return user


def _from(user: User, peer: str) -> bool:
    if not user.networks:
        return True
    address = ipaddress.ip_address(peer.split("%", maxsplit=1)[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return any(address in network for network in user.networks)


def load(path: Path, environment: Mapping[str, str]) -> Access:
    """Read access.yaml, and allowed.yaml. A user's password is in the file that WEIR_PASSWORD_<USER>_FILE of `environment`
    names, else in WEIR_PASSWORD_<USER> itself. Raises AccessError, AllowedError, OSError.
    """
    listed = allowed.load()
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise AccessError(f"{path}: not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(tree, dict) or not set(tree) <= {"roles", "users", "database"} or not {"roles", "users"} <= set(tree):
        raise AccessError(f"{path}: needs the keys roles and users, and may have database")
    database = tree.get("database")
    if database is not None and not (isinstance(database, str) and _NAME.fullmatch(database)):
        raise AccessError(f"{path}: database: not a name")
    roles = {
        name: replace(_role(f"{path}: roles.{name}", name, body), allowed=listed)
        for name, body in _mapping(f"{path}: roles", tree["roles"])
    }
    users = {}
    for name, body in _mapping(f"{path}: users", tree["users"]):
        where = f"{path}: users.{name}"
        fields = dict(_mapping(where, body))
        if not set(fields) <= {"role", "networks", "customers"} or fields.get("role") not in roles:
            raise AccessError(f"{where}: needs `role`, one of {', '.join(roles)}; may have `networks` and `customers`")
        try:
            networks = tuple(ipaddress.ip_network(net) for net in fields.get("networks", ()))
        except (ValueError, TypeError) as error:
            raise AccessError(f"{where}: networks: {error}") from None
        role = roles[fields["role"]]
        customers = fields.get("customers", [])
        if not isinstance(customers, list) or not all(isinstance(one, str) and one for one in customers):
            raise AccessError(f"{where}: customers: a list of names, as `weir prefixes` shows them")
        if bool(customers) != bool(role.rows):
            raise AccessError(f"{where}: `customers` is for users of a role with `rows`, and is needed there")
        if customers:
            role = replace(role, user=name, customers=tuple(customers))
        users[name] = User(name, role, networks)
    passwords = {name: _password(environment, f"WEIR_PASSWORD_{name.upper()}") for name in users}
    return Access(database, roles, users, {name: _hash(password) if password else "" for name, password in passwords.items()})


def _password(environment: Mapping[str, str], name: str) -> str:
    file = environment.get(f"{name}_FILE", "")
    return Path(file).read_text(encoding="utf-8").strip() if file else environment.get(name, "")


def _hash(password: str) -> str:
    return hashlib.sha256(password.encode(errors="surrogateescape")).hexdigest()


def _mapping(where: str, value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict) or not all(isinstance(key, str) and _NAME.fullmatch(key) for key in value):
        raise AccessError(f"{where}: not a mapping of names")
    return list(value.items())


def _role(where: str, name: str, body: Any) -> Role:
    fields = dict(_mapping(where, body))
    if not set(fields) <= _KEYS:
        raise AccessError(f"{where}: has a key other than {', '.join(sorted(_KEYS))}")
    grants, tables, limits = fields.get("grants"), fields.get("tables", []), fields.get("limits", {})
    if not isinstance(grants, list) or not grants or not set(grants) <= set(_GRANTS):
        raise AccessError(f"{where}: grants must be a list of {', '.join(_GRANTS)}")
    if not isinstance(tables, list) or not all(isinstance(item, str) and _OBJECT.fullmatch(item) for item in tables):
        raise AccessError(f"{where}: tables must be a list of database.table, database.* or database.prefix*")
    rows = _rows(f"{where}: rows", fields.get("rows", {}))
    if sum(map(bool, ("all" in grants, tables, rows))) != 1:
        raise AccessError(f"{where}: give either `tables` or `rows`; a role with the grant all has neither")
    readonly = fields.get("readonly", False)
    if not isinstance(readonly, bool) or (readonly and grants != ["select"]):
        raise AccessError(f"{where}: readonly: true requires grants [select]")
    if rows and not readonly:
        raise AccessError(f"{where}: rows requires readonly: true")
    masked, database = fields.get("masked", False), fields.get("database")
    if not isinstance(masked, bool) or (masked and not (readonly and tables)):
        raise AccessError(f"{where}: masked: true requires tables and readonly: true")
    if database is not None and not (isinstance(database, str) and _NAME.fullmatch(database)):
        raise AccessError(f"{where}: database: not a name")
    for key, value in _mapping(f"{where}: limits", limits):
        _positive(f"{where}: limits.{key}", value)
    quotas = _quotas(f"{where}: quota", fields.get("quota", []))
    what = str(fields.get("what", ""))
    return Role(name, what, tuple(grants), tuple(tables), readonly, dict(limits), quotas, rows, masked=masked, database=database)


def _positive(where: str, value: Any) -> None:
    """Raise if a value is invalid."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise AccessError(f"{where} must be a positive number")


def _rows(where: str, body: Any) -> dict[str, tuple[str, ...]]:
    """Views and their columns that name customers."""
    if not isinstance(body, dict):
        raise AccessError(f"{where} must map views to their columns that name customers")
    for view, columns in body.items():
        named = isinstance(view, str) and _OBJECT.fullmatch(view) and "*" not in view
        right = isinstance(columns, list) and columns and all(isinstance(c, str) and _NAME.fullmatch(c) for c in columns)
        if not named or not right:
            raise AccessError(f"{where}: {view}: must have the form database.view: [column, …]")
    return {view: tuple(columns) for view, columns in body.items()}


def _quotas(where: str, body: Any) -> tuple[Quota, ...]:
    if not isinstance(body, list):
        raise AccessError(f"{where} must be a list of intervals with bounds")
    out = []
    for item in body:
        bounds = dict(_mapping(where, item))
        interval = _INTERVAL.fullmatch(str(bounds.pop("interval", "")))
        if interval is None or not int(interval[1]):
            raise AccessError(f"{where}: interval must be such as 1 hour, 30 minutes, 1 day")
        if not bounds or not set(bounds) <= set(RESOURCES):
            raise AccessError(f"{where}: bounds of {', '.join(RESOURCES)} are needed")
        for key, value in bounds.items():
            _positive(f"{where}.{key}", value)
        out.append(Quota(int(interval[1]) * _SECONDS[interval[2]], bounds))
    if len({quota.seconds for quota in out}) != len(out):
        raise AccessError(f"{where}: two intervals are equally long")
    return tuple(out)


def users_xml(access: Access) -> str:
    """users.xml of the embedded engine: one engine role for each role, and its only user `default`, who holds them all.

    Every connection assumes one role before it sees a client's statement, so `default` itself has no rights. Row
    policies belong to that user, and test which role the connection has. Views read their tables, and dictionaries
    their source, with all roles, including the administrator's, to which no policy applies.
    """
    held = {role.engine_role: role for role in access.roles.values() if not role.rows}
    bound = {user.role.engine_role: user.role for user in access.users.values() if user.role.rows}
    bound |= {role.engine_role: role for role in access.people.values()}
    roles = []
    for name, role in (held | bound).items():
        if role.is_admin:
            queries = [f"GRANT {_ADMIN} ON *.*"]
        else:
            what = ", ".join(grant.upper() for grant in role.grants)
            queries = [f"GRANT {what} ON {target}" for target in role.objects]
        grants = "".join(f"<query>{escape(query)}</query>" for query in queries)
        roles.append(f"<{name}><grants>{grants}</grants></{name}>")
    admins = ", ".join(f"'{name}'" for name, role in held.items() if role.is_admin)
    is_admin = f"hasAny(currentRoles(), [{admins}])"
    filters: dict[str, dict[str, str]] = {"system": dict.fromkeys(HIDDEN_SYSTEM_TABLES, is_admin)}
    for view in sorted({view for role in bound.values() for view in role.rows}):
        terms = [
            f"(NOT has(currentRoles(), '{name}') OR {role.row_filter(view)})" for name, role in bound.items() if view in role.rows
        ]
        database, table = view.split(".")
        filters.setdefault(database, {})[table] = f"{is_admin} OR ({' AND '.join(terms)})"
    policies = "".join(
        f"<{database}>"
        + "".join(f"<{table}><filter>{escape(filter_)}</filter></{table}>" for table, filter_ in tables.items())
        + f"</{database}>"
        for database, tables in filters.items()
    )
    constraints = "".join(f"<{name}><const/></{name}>" for name in sorted(FIXED_SETTINGS))
    return (
        "<clickhouse>\n<profiles><default>"
        "<async_insert>0</async_insert><fsync_metadata>1</fsync_metadata><allow_python_table_function>0</allow_python_table_function>"
        f"{''.join(f'<{name}>0</{name}>' for name in sorted(VALUES_SETTINGS))}"
        f"<constraints>{constraints}</constraints>"
        "</default></profiles>\n<quotas><default/></quotas>\n"
        f"<roles>{''.join(roles)}</roles>\n"
        f"<users><default><no_password/><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>"
        f"<grants><query>GRANT {', '.join(held | bound)}</query></grants>\n<databases>{policies}</databases>"
        "</default></users>\n</clickhouse>\n"
    )


def access_sql(access: Access) -> str:
    """The same for a clickhouse-server: idempotent statements, each ending with `;` at the end of a line.

    Passwords appear only as SHA-256; a user without one is created but cannot log in. Read-only roles get readonly = 2
    (clients may choose formats), with their limits as maxima that they cannot raise. Row policies belong to users: a
    view with row policies shows all rows to everybody else.
    """
    lines = ["-- Made from access.yaml by `python -m weir_clickhouse access-sql`. Run as a user with ACCESS MANAGEMENT."]
    for role in access.roles.values():
        name = f"weir_{role.name}"
        lines += ["", f"-- {role.what}" if role.what else f"-- {role.name}"]
        settings = [f"{setting} = {value} MAX {value}" for setting, value in role.limits.items()]
        settings += [f"{setting} = {value} CONST" for setting, value in role.fixed.items()]
        if role.readonly:
            settings.append("readonly = 2")
        lines.append(
            f"CREATE SETTINGS PROFILE OR REPLACE {name}" + (f" SETTINGS {', '.join(settings)}" if settings else "") + ";"
        )
        lines.append(f"CREATE ROLE IF NOT EXISTS {name} SETTINGS PROFILE '{name}';")
        if role.is_admin:
            lines.append(f"GRANT ALL ON *.* TO {name} WITH GRANT OPTION;")
        else:
            lines.append(f"REVOKE ALL ON *.* FROM {name};")
            what = ", ".join(grant.upper() for grant in role.grants)
            lines += [f"GRANT {what} ON {target} TO {name};" for target in role.objects]
        intervals = [
            f"FOR INTERVAL {quota.seconds} second MAX "
            + ", ".join(f"{resource} = {most}" for resource, most in quota.limits.items())
            for quota in role.quotas
        ] or ["FOR INTERVAL 1 minute TRACKING ONLY"]
        lines.append(f"CREATE QUOTA OR REPLACE {name} KEYED BY user_name {', '.join(intervals)} TO {name};")
    lines.append("")
    for user in access.users.values():
        known = access.hashes.get(user.name)
        if known:
            login = f" IDENTIFIED WITH sha256_hash BY '{known}'"
            login += " HOST " + (", ".join(f"IP '{network}'" for network in user.networks) or "ANY")
        else:
            login = " HOST NONE"
        database = user.role.database or access.database
        default = f" DEFAULT DATABASE {database}" if database else ""
        lines.append(f"CREATE USER IF NOT EXISTS {user.name} HOST NONE;")
        # Of a user whose role in the file has changed.
        if others := ", ".join(f"weir_{name}" for name in access.roles if name != user.role.name):
            lines.append(f"REVOKE {others} FROM {user.name};")
        lines.append(f"GRANT weir_{user.role.name} TO {user.name};")
        lines += [
            f"CREATE ROW POLICY OR REPLACE weir_{user.name} ON {view} FOR SELECT USING {user.role.row_filter(view)} TO {user.name};"
            for view in user.role.rows
        ]
        lines.append(f"ALTER USER {user.name}{login} DEFAULT ROLE weir_{user.role.name}{default};")
    bound = {name: user.role for name, user in access.users.items() if user.role.rows}
    for view in sorted({view for role in bound.values() for view in role.rows}):
        some = ", ".join(name for name, role in bound.items() if view in role.rows)
        lines.append(f"CREATE ROW POLICY OR REPLACE weir_all_rows ON {view} FOR SELECT USING 1 TO ALL EXCEPT {some};")
    return "\n".join(lines) + "\n"
