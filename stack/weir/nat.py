"""Who had an address and port at a moment: `weir nat`, from the table `nat_events`.

A translator reports when it gives a port, a block of ports or a whole address to a subscriber, and when it takes it back
(RFC 8158; Cisco's NSEL). Somebody holds a port while the last report on it before that moment is a beginning. A report of a
single port counts for more than one of a block, and that for more than one of an address.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from weir.clickhouse import ClickHouse
from weir.errors import WeirError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_BEGINS = "('create', 'address_bind', 'port_block_allocate')"
_ENDS = "('delete', 'address_unbind', 'port_block_free')"
#: Subscribers at one moment that are shown at most.
_MOST = 20
#: A session whose end nobody reported is not believed to have lasted longer: its port may be another's, or nobody's.
LONGEST_HOURS = 24
#: Reports on single ports are looked for so many days around the moment.
_SEARCHED_DAYS = 31
PROTOCOLS = {"tcp": 6, "udp": 17, "icmp": 1, "sctp": 132}


@dataclass(frozen=True)
class Who:
    """The question: who had this address and port, towards this destination if one is given.

    port 0: of the whole address; protocol None: any.
    """

    address: Address
    port: int
    protocol: int | None = None
    to: Address | None = None


@dataclass(frozen=True)
class Answer:
    """holders: whoever had it, the one to believe first; before, after: the reports next to that moment, None for none.

    superseded: older holders whose end no report told, and whose port another subscriber was given since.
    """

    holders: list[dict[str, Any]]
    superseded: list[dict[str, Any]]
    before: dict[str, Any] | None
    after: dict[str, Any] | None

    @property
    def known(self) -> bool:
        """Exactly one subscriber had it."""
        return len({(row["subscriber"], row["vrf"]) for row in self.holders}) == 1


def who(text: str) -> tuple[Address, int]:
    """`192.0.2.7:4711`, `[2001:db8::7]:4711`, or an address alone with port 0. Raises WeirError."""
    host, _, port = text.rpartition(":")
    try:
        if not host or text.endswith("]") or (text.count(":") > 1 and not text.startswith("[")):
            return ipaddress.ip_address(text.strip("[]")), 0
        number = int(port)
        if not 0 < number < 65536:
            raise ValueError(f"port {port} is not one of 1 to 65535")
        return ipaddress.ip_address(host.strip("[]")), number
    except ValueError as error:
        raise WeirError(f"'{text}': {error}", hint="such as 192.0.2.7:4711 or [2001:db8::7]:4711") from None


def moment(text: str) -> datetime:
    """ISO 8601, UTC where it names no zone. Raises WeirError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise WeirError(f"'{text}' is not a time", hint="write it as 2026-11-22T18:30:05Z") from None
    return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)


def protocol(text: str | None) -> int | None:
    """A protocol's number, by name or number. Raises WeirError."""
    if text is None:
        return None
    if text.lower() in PROTOCOLS:
        return PROTOCOLS[text.lower()]
    if text.isdigit() and int(text) < 256:
        return int(text)
    raise WeirError(f"'{text}' is not a protocol", hint=f"{', '.join(PROTOCOLS)}, or a number below 256")


def ask(store: ClickHouse, wanted: Who, at: datetime) -> Answer:
    """Who had it, and the reports before and after."""
    time = f"toDateTime64('{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}', 3, 'UTC')"
    where = _where(wanted, time)
    form = "multiIf(port_block_end > 0, 'port block', post_src_port > 0, 'port', 'address') AS form"
    place = ("form", "protocol", "subscriber", "vrf", "subscriber_port", "first_port", "last_port", "exporter")
    columns = (*place, "destination", "destination_port")
    # One row for each that a report names: whether its last report before was a beginning, its first one after an end.
    grouped = (
        f"SELECT {form}, protocol, {_plain('src_addr')} AS subscriber, ingress_vrf AS vrf,"
        " if(form = 'port', src_port, 0) AS subscriber_port, post_src_port AS first_port, port_block_end AS last_port,"
        f" {_plain('exporter_addr')} AS exporter,"
        f" if(form = 'port', {_plain('dst_addr')}, '') AS destination, if(form = 'port', dst_port, 0) AS destination_port,"
        " max(user_name) AS user,"
        f" argMaxIf(event IN {_BEGINS}, (event_at, ts, sequence, event IN {_ENDS}), event_at <= {time}) AS begun,"
        f" countIf(event_at <= {time}) AS reports_before,"
        f" maxIf(event_at, event_at <= {time}) AS last_at,"
        f" maxIf(event_at, event_at <= {time} AND event IN {_BEGINS}) AS since_at,"
        f" argMinIf(event IN {_ENDS}, (event_at, ts, sequence), event_at > {time}) AS ended_next,"
        f" minIf(event_at, event_at > {time} AND event IN {_ENDS}) AS until_at"
        f" FROM nat_events WHERE {where} GROUP BY {', '.join(columns)}"
    )
    # An end that names no destination ends all that began before on the same ports; so does the next subscriber's beginning.
    over = f"OVER (PARTITION BY {', '.join(place)})"
    others = "OVER (PARTITION BY form, protocol, first_port, last_port, exporter, destination, destination_port)"
    to = f" AND destination IN ('', '::', '{wanted.to}')" if wanted.to else ""
    rows = store.rows(
        f"SELECT * EXCEPT (last_at, since_at, until_at), toString(since_at) AS since_time, toString(until_at) AS until_time,"
        f" form = 'port' AND NOT ended_next AND since_at < {time} - INTERVAL {LONGEST_HOURS} HOUR AS unended,"
        " begun AND NOT ended_next AND since_at < newest_at AS superseded"
        " FROM (SELECT *,"
        f" maxIf(last_at, NOT begun AND destination IN ('::', '')) {over} AS over_at, max(begun) {over} AS begun_there,"
        f" max(since_at) {others} AS newest_at"
        f" FROM ({grouped}))"
        f" WHERE ((begun AND since_at > over_at) OR (reports_before = 0 AND ended_next AND NOT begun_there)){to}"
        f" ORDER BY unended OR superseded, form = 'address', form = 'port block', begun DESC, since_at DESC LIMIT {_MOST}"
    )
    found: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for row in rows:
        if not row["unended"]:
            times = {
                "since": _utc(row["since_time"]) if row["begun"] else None,
                "until": _utc(row["until_time"]) if row["ended_next"] else None,
            }
            found[bool(row["superseded"])].append({name: row[name] for name in (*columns, "user")} | times)
    # A report on the port itself counts for more than one on a block, and that for more than one on an address.
    holders = [row for row in found[False] if row["form"] == found[False][0]["form"]]
    near = [
        store.rows(
            f"SELECT {form}, protocol, {_plain('src_addr')} AS subscriber, ingress_vrf AS vrf, src_port AS subscriber_port,"
            f" post_src_port AS first_port, port_block_end AS last_port, {_plain('exporter_addr')} AS exporter,"
            f" {_plain('dst_addr')} AS destination, dst_port AS destination_port, toString(event) AS event,"
            f" toString(event_at) AS time FROM nat_events"
            f" WHERE {where} AND event_at {sign} {time} ORDER BY event_at {order} LIMIT 1"
        )
        for sign, order in (("<=", "DESC"), (">", "ASC"))
    ]
    before, after = ({**rows[0], "time": _utc(rows[0]["time"])} if rows else None for rows in near)
    return Answer(holders, found[True], before, after)


def _where(wanted: Who, time: str) -> str:
    port = wanted.port
    near = f"event_at BETWEEN {time} - INTERVAL {_SEARCHED_DAYS} DAY AND {time} + INTERVAL {_SEARCHED_DAYS} DAY"
    parts = [
        f"post_src_addr = {_literal(wanted.address)}",
        f"event IN {_BEGINS[:-1]}, {_ENDS[1:]}",
        # Sessions are many and short; blocks and addresses are held for long.
        f"(port_block_end > 0 OR post_src_port = 0 OR {near})",
        f"(port_block_end = 0 AND post_src_port IN (0, {port}) OR port_block_end > 0 AND post_src_port <= {port}"
        f" AND port_block_end >= {port} AND ({port} - post_src_port) % greatest(port_block_step, 1) = 0)",
    ]
    if wanted.protocol is not None:
        parts.append(f"protocol IN (0, {wanted.protocol})")
    return " AND ".join(parts)


def _literal(address: Address) -> str:
    return f"toIPv6('{'::ffff:' if address.version == 4 else ''}{address}')"


def _plain(column: str) -> str:
    return f"replaceOne(toString({column}), '::ffff:', '')"


def _utc(text: str) -> str:
    return text.replace(" ", "T") + "Z"


def show(console: Console, wanted: Who, at: datetime, answer: Answer) -> None:
    """The answer in a sentence, with the reports on which it rests."""
    port = f" port {wanted.port}" if wanted.port else ""
    name = f"{wanted.address}{port} at {at:%Y-%m-%dT%H:%M:%SZ}"
    if answer.known:
        one = answer.holders[0]
        own = f", port {one['subscriber_port']}" if one["subscriber_port"] else ""
        vrf = f" in VRF {one['vrf']}" if one["vrf"] else ""
        user = f" ({one['user']})" if one["user"] else ""
        console.print(f"{name}: [bold]{one['subscriber']}[/bold]{own}{vrf}{user}", highlight=False)
    elif answer.holders:
        console.print(f"{name}: several had it; --protocol or --to tells which", highlight=False)
    else:
        console.print(f"{name}: not known", highlight=False)
    table = Table(header_style="bold", box=None, pad_edge=False)
    for title in ("", "subscriber", "by", "protocol", "destination", "from", "to", "reported by"):
        table.add_column(title)
    for word, rows in (("held", answer.holders), ("superseded", answer.superseded)):
        for row in rows:
            table.add_row(word, *_cells(row), row["since"] or "before", row["until"] or "no end yet", row["exporter"])
    for word, near in (("before", answer.before), ("after", answer.after)):
        if near:
            table.add_row(word, *_cells(near), f"{near['time']} {near['event']}", "", near["exporter"])
        else:
            table.add_row(word, "nothing reported")
    # A pipe has no width: nothing is cut.
    (console if console.is_terminal else Console(width=250)).print(table)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    ports = f"{row['first_port']}-{row['last_port']}" if row["last_port"] else str(row["first_port"] or "")
    inside = f":{row['subscriber_port']}" if row["subscriber_port"] else ""
    names = {number: name for name, number in PROTOCOLS.items()}
    place = f"{row['destination']}:{row['destination_port']}" if row.get("destination", "") not in ("", "::") else ""
    spoken = names.get(row["protocol"], str(row["protocol"])) if row["protocol"] else "all"
    vrf = f" VRF {row['vrf']}" if row["vrf"] else ""
    return f"{row['subscriber']}{inside}{vrf}", f"{row['form']} {ports}".strip(), spoken, place
