"""Remove an address, or all addresses of a prefix, from everything in the store: `weir forget`.

The engine, not a list, determines which columns can hold an address: by type (IPv6, IPv4, 16 octets, text, and arrays,
maps and tuples of these). In texts, the command finds an address in every notation: IPv4, IPv6 short or long, mapped,
with hyphens as in host names, reversed as in DNS names, or with a prefix length. Rows are removed whole. Aggregates
that identify no host are kept, and so are rows that must be kept by law (`law` in `clickhouse/retention.yaml`), unless
the command names them.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.table import Table

from weir import kafka, snapshot
from weir.clickhouse import ClickHouse, mapped
from weir.errors import WeirError
from weir.schema import notations, retention
from weir.stages import Stages

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Prefix of the name of the database that holds the wanted range while statements need it, so that no statement, log or
#: list of mutations names the range. Each run has its own database, whose name shows when the run began.
_RANGE = "weir_forget_"
_FIRST, _LAST = f"(SELECT first FROM {_RANGE}.range)", f"(SELECT last FROM {_RANGE}.range)"
#: No run takes this many seconds: an older range was left behind by a killed run.
_LEFT_S = 7 * 86_400
#: Tables whose rows must be kept by law.
_LAW = frozenset(table for tier in retention.tiers().values() if tier.law for table in tier.tables)
#: No log records these statements; a removal waits until it has ended on every replica. Tables of the system's logs
#: have a hundred columns.
_SETTINGS = {
    "log_queries": "0",
    "mutations_sync": "2",
    "max_ast_elements": "1000000",
    "max_expanded_ast_elements": "1000000",
}

#: A table with more text columns than this, as the system's logs have, is first searched in all of them at once: the
#: engine needs longer to understand a condition for each of them than to search a small table.
_MANY_TEXTS = 16


@dataclass(frozen=True)
class Column:
    """A column that can hold addresses, and the condition that selects its matching rows."""

    name: str
    condition: str
    texts: str  # all its texts as an array; empty if it holds anything else


@dataclass
class Found:
    """The matches in one table: the total number of rows, and the number for each column that has any."""

    table: str
    rows: int
    columns: dict[str, int] = field(default_factory=dict)

    @property
    def law(self) -> bool:
        """Whether the table's rows must be kept by law."""
        return self.table.rpartition(".")[2].removesuffix("_local") in _LAW


def network(text: str) -> Network:
    """The address or prefix; raises WeirError if the text is neither, or has bits beyond its length."""
    try:
        found = ipaddress.ip_network(text)
    except ValueError as error:
        raise WeirError(f"{error}", hint="such as 192.0.2.7, 192.0.2.0/28 or 2001:db8::/64") from None
    mapped = found.network_address.ipv4_mapped if isinstance(found, ipaddress.IPv6Network) else None
    if mapped and found.prefixlen >= 96:
        return ipaddress.IPv4Network((mapped, found.prefixlen - 96))
    if found.prefixlen == 0:
        raise WeirError("that means every address", hint="to empty the store, remove its directory")
    if ipaddress.IPv6Address(0) in found:
        raise WeirError("stored rows use '::' for a missing address, so it cannot be removed")
    return found


def search(store: ClickHouse, wanted: Network, stages: Stages, stage: str = "search") -> list[Found]:
    """Every table with rows that name an address of `wanted`."""
    with _range(store, wanted) as own:
        return list(_search(store, own, _tables(store, own), stages, stage))


def forget(store: ClickHouse, wanted: Network, stages: Stages, found: list[Found]) -> None:
    """Remove the rows that `search` found, and search again. Raises WeirError if any match remains."""
    _refuse_replicas(store, found)
    with _range(store, wanted) as own:
        tables = _tables(store, own)
        stages.begin("remove")
        for at, one in enumerate(found, 1):
            stages.note("remove", f"{one.table}, {at} of {len(found)}")
            columns = [column for column in tables.get(one.table, ()) if column.name in one.columns]
            if not columns:
                continue  # a block of hourly rows that was written meanwhile: the search finds its rows where they are now
            condition = " OR ".join(f"({column.condition})" for column in columns)
            store.execute(f"ALTER TABLE {one.table} DELETE WHERE {condition}", database="", **_SETTINGS)
        stages.done("remove", f"{sum(one.rows for one in found):,} rows of {len(found)} tables")
        store.execute("SYSTEM RELOAD DICTIONARIES", database="")
        asked = {one.table for one in found}
        _check(store, own, wanted)
        left = [one for one in _search(store, own, tables, stages, "search again") if not one.law or one.table in asked]
    if left:
        names = ", ".join(one.table for one in left)
        raise WeirError(f"still named in {names}: new rows arrived meanwhile", hint="run the command again", status=1)


def _refuse_replicas(store: ClickHouse, found: list[Found]) -> None:
    """Raise WeirError for tables with replicas on other nodes: the table with the range exists on this node only, so
    the removal would fail on those nodes."""
    rows = store.rows("SELECT database, table FROM system.replicas WHERE total_replicas > 1", database="", **_SETTINGS)
    replicated = {f"{_quoted(row['database'])}.{_quoted(row['table'])}" for row in rows}
    if names := [one.table for one in found if one.table in replicated]:
        raise WeirError(
            f"nothing was removed: {', '.join(names)}: other nodes have replicas, where the removal would fail",
            hint="docs/how-to/run-on-a-cluster.md has the statements",
            status=1,
        )


def table(found: list[Found]) -> Table:
    """One row per table that names the address."""
    drawn = Table(header_style="bold", box=None, pad_edge=False)
    for title in ("table", "rows", "named in"):
        drawn.add_column(title, justify="right" if title == "rows" else "left")
    for one in found:
        drawn.add_row(one.table, f"{one.rows:,}", ", ".join(f"{column} {n:,}" for column, n in one.columns.items()))
    return drawn


def kept(found: list[Found], days: float) -> str:
    """One sentence on the rows that must be kept by law; empty if there are none."""
    if not found:
        return ""
    tables = ", ".join(one.table for one in found)
    rows = sum(one.rows for one in found)
    return (
        f"{tables}: {rows:,} rows that name it stay, because the law requires them (storage.nat_days: {days:g})."
        " --nat removes them, too."
    )


def elsewhere() -> list[str]:
    """Where else the address may remain, for how long, and what to do about it: one sentence each."""
    days = {
        topic["name"]: int(topic["config"].get("retention.ms", 0)) / 86_400_000 for topic in kafka.declared_topics()
    }
    kept = ", ".join(f"{name} {span:g} days" for name, span in days.items() if span)
    return [
        f"Kafka keeps the agents' messages, and the jobs read them again only if you configure it (flink.start: earliest): {kept}.",
        "The jobs write their open windows within minutes, and a host that is still active is seen again: run the command again.",
        "An agent's spool holds messages that Kafka has not accepted yet, at most spool.max, and sends them when Kafka is back.",
        "Earlier backups hold it, and one that is being written: make a new one, and delete the old.",
        "The engine removes replaced files after some 8 minutes. Cached answers of the dashboards are at most 15 s old.",
        "Rows that count a network (unanswered scans of a /24 or /48) or the remainder of a list stay: they name no host.",
        "The audit keeps who asked about it and when, without the text, and a keyed digest of it.",
        "The ledger counts stored records from the rows themselves: it now shows the removed ones as a loss.",
    ]


# ---- searching ----


@contextmanager
def _range(store: ClickHouse, wanted: Network) -> Iterator[str]:
    """A temporary database whose table holds the range of addresses."""
    first, last = (mapped(address) for address in (wanted[0], wanted[-1]))
    end_left(store)
    for row in _ranges(store):
        began = row["name"].removeprefix(_RANGE).partition("_")[0]
        if began.isdigit() and int(began) < time.time() - _LEFT_S:
            _drop(store, row["name"])
    own = f"{_RANGE}{time.time():.0f}_{secrets.token_hex(8)}"
    store.execute(f"CREATE DATABASE {own} ENGINE = Atomic", database="", **_SETTINGS)
    try:
        store.execute(
            f"CREATE TABLE {own}.range ENGINE = Memory AS SELECT toIPv6('{first}') AS first, toIPv6('{last}') AS last",
            database="",
            **_SETTINGS,
        )
        yield own
    finally:
        _drop(store, own)


def drop_ranges(store: ClickHouse) -> None:
    """Drop the ranges that killed runs left, for no row of the store may name an address that was removed. The caller holds the
    lock of the service `storage`, as every run does.
    """
    for row in _ranges(store):
        _drop(store, row["name"])
    end_left(store)


def _ranges(store: ClickHouse) -> list[dict[str, str]]:
    return store.rows(f"SELECT name FROM system.databases WHERE startsWith(name, '{_RANGE}')", database="", **_SETTINGS)


def end_left(store: ClickHouse) -> None:
    """Cancel the removals of interrupted runs: their range no longer exists, so they would fail for ever and block
    every later change of their tables.
    """
    rows = store.rows(
        f"SELECT DISTINCT extract(command, '{_RANGE}[0-9]+_[0-9a-f]+') AS own FROM system.mutations"
        f" WHERE NOT is_done AND position(command, '{_RANGE}') > 0 AND own NOT IN (SELECT name FROM system.databases)",
        database="",
        **_SETTINGS,
    )
    for row in rows:
        _kill(store, row["own"])


def _kill(store: ClickHouse, own: str) -> None:
    store.execute(
        f"KILL MUTATION WHERE NOT is_done AND position(command, '{own}') > 0 SYNC FORMAT Null", database="", **_SETTINGS
    )


def _drop(store: ClickHouse, own: str) -> None:
    _kill(store, own)
    store.execute(f"DROP DATABASE IF EXISTS {own} SYNC", database="", **_SETTINGS)


def _check(store: ClickHouse, own: str, wanted: Network) -> None:
    """Raise WeirError unless the statements so far, and thus their removals, used exactly the addresses of `wanted`."""
    held = store.rows(
        f"SELECT IPv6NumToString(first) AS first, IPv6NumToString(last) AS last FROM {own}.range",
        database="",
        **_SETTINGS,
    )
    asked = [ipaddress.IPv6Address(mapped(address)) for address in (wanted[0], wanted[-1])]
    if [[ipaddress.IPv6Address(row["first"]), ipaddress.IPv6Address(row["last"])] for row in held] != [asked]:
        raise WeirError(
            "the range of addresses in the store was changed while it was used", hint="compare with a backup"
        )


def _tables(store: ClickHouse, own: str) -> dict[str, list[Column]]:
    """Every table that keeps rows, including the system's logs, with its columns that can hold addresses of `own`'s
    range; none of a copy that a backup or a restore is making, because removals would wait for the merges that it stopped."""
    snapshot.refuse_unfinished(store)
    store.execute("SYSTEM FLUSH LOGS", database="", **_SETTINGS)
    rows = store.rows(
        "SELECT c.database AS database, c.table AS table, c.name AS name, c.type AS type FROM system.columns AS c "
        "INNER JOIN system.tables AS t ON t.database = c.database AND t.name = c.table "
        "WHERE t.engine LIKE '%MergeTree' AND c.default_kind NOT IN ('ALIAS', 'EPHEMERAL') "
        f"AND c.database NOT IN {snapshot.names(store.database)} ORDER BY database, table, c.position",
        database="",
        **_SETTINGS,
    )
    tables: dict[str, list[Column]] = {}
    for row in rows:
        condition = _condition(row["type"], _quoted(row["name"]))
        if condition:
            table = f"{_quoted(row['database'])}.{_quoted(row['table'])}"
            texts = _texts(row["type"], _quoted(row["name"]))
            column = Column(row["name"], condition.replace(f"{_RANGE}.", f"{own}."), texts)
            tables.setdefault(table, []).append(column)
    return tables


def _quoted(name: str) -> str:
    return (
        name
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
        else "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
    )


def _search(
    store: ClickHouse, own: str, tables: dict[str, list[Column]], stages: Stages, stage: str
) -> Iterator[Found]:
    stages.begin(stage)
    total = 0
    with_rows = _with_rows(store)
    filled = {name: columns for name, columns in tables.items() if name in with_rows}
    for at, (table, columns) in enumerate(filled.items(), 1):
        stages.note(stage, f"{table}, {at} of {len(filled)}")
        if not _may_match(store, own, table, columns):
            continue
        conditions = ", ".join(f"({column.condition}) AS b{number}" for number, column in enumerate(columns))
        numbers = range(len(columns))
        counts = ", ".join(f"countIf(b{number}) AS n{number}" for number in numbers)
        anywhere = " OR ".join(f"b{number}" for number in numbers)
        row = store.rows(
            f"SELECT {counts}, countIf({anywhere}) AS found FROM (SELECT {conditions} FROM {table})",
            database="",
            **_SETTINGS,
        )[0]
        if row["found"]:
            total += row["found"]
            named = {column.name: row[f"n{number}"] for number, column in enumerate(columns) if row[f"n{number}"]}
            yield Found(table, row["found"], named)
    columns_in_all = sum(map(len, tables.values()))
    stages.done(stage, f"{total:,} matching rows, in {columns_in_all} columns of {len(tables)} tables")


def _may_match(store: ClickHouse, own: str, table: str, columns: list[Column]) -> bool:
    """Whether any row matches, if one condition can tell that for many columns; else True."""
    texts = [column.texts for column in columns if column.texts]
    if len(texts) <= _MANY_TEXTS:
        return True
    in_texts = _condition("Array(String)", f"arrayConcat({', '.join(texts)})")
    assert in_texts
    conditions = [column.condition for column in columns if not column.texts]
    conditions.append(in_texts.replace(f"{_RANGE}.", f"{own}."))
    anywhere = " OR ".join(f"({condition})" for condition in conditions)
    (row,) = store.rows(f"SELECT count() AS n FROM {table} WHERE {anywhere}", database="", **_SETTINGS)
    return bool(row["n"])


def _with_rows(store: ClickHouse) -> set[str]:
    """The tables that have rows: searching the others costs as much as searching small ones."""
    rows = store.rows("SELECT DISTINCT database, table FROM system.parts WHERE active", database="", **_SETTINGS)
    return {f"{_quoted(row['database'])}.{_quoted(row['table'])}" for row in rows}


# ---- conditions ----


def _texts(kind: str, value: str) -> str:
    """The texts of `value`, of ClickHouse's type `kind`, as an array; empty for a type that holds anything else."""
    return {
        "String": f"[{value}]",
        "Array(String)": value,
        "Map(String, String)": f"arrayConcat(mapKeys({value}), mapValues({value}))",
    }.get(kind.replace("LowCardinality(String)", "String"), "")


def _condition(kind: str, value: str, depth: int = 0) -> str | None:
    """Condition that `value`, of ClickHouse's type `kind`, names an address of the range; None for types that cannot."""
    name, inner = _split(kind)
    if name in ("Nullable", "LowCardinality"):
        found = _condition(inner[0], value, depth)
        return f"ifNull({found}, false)" if found and name == "Nullable" else found
    if name == "SimpleAggregateFunction":
        return _condition(inner[1], value, depth)
    if name in ("IPv6", "IPv4"):
        address = value if name == "IPv6" else f"IPv4ToIPv6({value})"
        return f"{address} BETWEEN {_FIRST} AND {_LAST}"
    if name == "FixedString" and inner == ["16"]:
        return f"CAST({value}, 'IPv6') BETWEEN {_FIRST} AND {_LAST}"
    if name in ("String", "FixedString", "JSON", "Object", "Dynamic", "Variant"):
        return _in_text(value if name == "String" else f"toString({value})", depth)
    if name == "Array":
        return _any(inner[0], value, depth)
    if name == "Map":
        return _either(_any(inner[0], f"mapKeys({value})", depth), _any(inner[1], f"mapValues({value})", depth))
    if name in ("Tuple", "Nested"):
        kinds = [re.sub(r"^(`[^`]*`|[A-Za-z_]\w*) (?=[A-Z])", "", part) for part in inner]
        parts = [_condition(part, f"tupleElement({value}, {at})", depth) for at, part in enumerate(kinds, 1)]
        if name == "Nested":
            return _any(f"Tuple({', '.join(kinds)})", value, depth)
        return _either(*parts)
    return None


def _any(kind: str, array: str, depth: int) -> str | None:
    element = f"e{depth}"
    found = _condition(kind, element, depth + 1)
    return f"arrayExists({element} -> {found}, {array})" if found else None


def _either(*conditions: str | None) -> str | None:
    held = [f"({condition})" for condition in conditions if condition]
    return " OR ".join(held) or None


def _split(kind: str) -> tuple[str, list[str]]:
    """The name and arguments of a type."""
    if not kind.endswith(")"):
        return kind, []
    name, _, rest = kind[:-1].partition("(")
    parts, depth, begin, quoted = [], 0, 0, False
    for at, char in enumerate(rest):
        if char == "'":
            quoted = not quoted
        elif not quoted and char in "()":
            depth += 1 if char == "(" else -1
        elif not quoted and char == "," and not depth:
            parts.append(rest[begin:at].strip())
            begin = at + 1
    return name, [*parts, rest[begin:].strip()]


def _sql(pattern: str) -> str:
    """A pattern within a literal."""
    return pattern.replace("\\", "\\\\")


def _in_text(text: str, depth: int) -> str:
    """Condition that a text names an address of the range, or a prefix entirely within it. An address with a prefix
    length (`192.0.2.7/24`, as on an interface) is an address; a network has no bits set beyond its length.
    """
    group, number, pair = f"g{depth}", f"i{depth}", f"p{depth}"
    # Most texts are names without anything like an address.
    worth = f"if(match({text}, '{_sql(notations.WORTH)}'), {text}, '')"
    forward = f"replaceRegexpAll({worth}, '{_sql(notations.REVERSED4)}', '\\\\4.\\\\3.\\\\2.\\\\1')"

    def groups(*forms: str) -> str:
        found = (f"extractAllGroupsVertical({forward}, '{_sql(form)}')" for form in forms)
        return f"arrayConcat([], {', '.join(found)})"

    def bits(before: int) -> str:
        given = f"toUInt16OrZero({group}[2])"
        given = f"if({given} <= 32, {before} + {given}, {given})" if before else given
        return f"if({group}[2] = '', 128, {given})"

    # Names of hosts have zeros before numbers.
    numbers = f"splitByNonAlpha(replaceRegexpAll({group}[1], '(^|[.-])0+([0-9])', '\\\\1\\\\2'))"
    four = f"toIPv6OrNull(arrayStringConcat(arraySlice({numbers}, {number}, 4), '.'))"
    last = f"{number} + 3 = length({numbers})"
    fours = f"arrayMap({number} -> ({four}, if({last}, {bits(96)}, 128)), range(1, length({numbers}) - 2))"
    # A colon that follows may belong to the text.
    six = f"toIPv6OrNull(replaceRegexpOne({group}[1], '([^:]):$', '\\\\1'))"
    hyphened = f"toIPv6OrNull(replaceAll({group}[1], '-', ':'))"
    nibbles = f"toIPv6OrNull(IPv6NumToString(toFixedString(unhex(reverse(replaceAll({group}, '.', ''))), 16)))"
    named = ", ".join(
        (
            f"arrayFlatten(arrayMap({group} -> {fours}, {groups(*notations.IPV4)}))",
            f"arrayMap({group} -> ({six}, {bits(0)}), {groups(*notations.IPV6)})",
            f"arrayMap({group} -> ({hyphened}, 128), {groups(notations.HYPHENED6)})",
            f"arrayMap({group} -> ({nibbles}, 128), extractAll({worth}, '{_sql(notations.REVERSED6)}'))",
        )
    )
    address = f"assumeNotNull({pair}.1)"
    # Both addresses of a network of two belong to hosts.
    network = f"IPv6CIDRToRange({address}, toUInt8(if({pair}.2 >= 127, 128, {pair}.2)))"
    return (
        f"arrayExists({pair} -> isNotNull({pair}.1) AND {address} >= {_FIRST}"
        f" AND if({network}.1 = {address}, {network}.2, {address}) <= {_LAST}, arrayConcat({named}))"
    )
