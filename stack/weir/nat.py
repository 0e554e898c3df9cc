"""Who had an address and port at a given time: `weir nat`, from the table `nat_events`.

A translator reports when it gives a port, a block of ports or a whole address to a subscriber, and when it takes them
back (RFC 8158; Cisco's NSEL). `judge` reads those reports one after the other. The answer names a subscriber only if
the stored reports leave no other possibility: if two subscribers could have had the port, or the report of the
beginning is not stored, the answer names nobody.

A translator may also map an address inwards: it passes a connection from outside on to an internal server, the
destination after translation. Reports of such connections name that server, for as long as one of them lasts.
"""

from __future__ import annotations

import ipaddress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from weir.clickhouse import ClickHouse, mapped
from weir.errors import WeirError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: The ports that each kind of report covers.
_FORMS = {
    "create": "port",
    "delete": "port",
    "port_block_allocate": "port block",
    "port_block_free": "port block",
    "address_bind": "address",
    "address_unbind": "address",
}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_BEGINS = {"create", "port_block_allocate", "address_bind"}
#: Maximum duration assumed for a session without a reported end: afterwards its port may belong to another subscriber,
#: or to none.
LONGEST = timedelta(hours=24)
#: How far before the moment to read reports on single ports; those on blocks and addresses, which last long, are all
#: read.
_BACK = timedelta(days=31)
#: Number of reports of either kind that are read before and after the moment, the nearest first. If more of them fall
#: into the last LONGEST before the moment, the answer names nobody.
_READ = 20_000
#: The kinds of reports that are read: on single ports, on blocks and addresses, and on connections from outside.
_READS: tuple[Literal["port", "block", "inwards"], ...] = ("port", "block", "inwards")
PROTOCOLS = {"tcp": 6, "udp": 17, "icmp": 1, "sctp": 132}


@dataclass(frozen=True)
class Who:
    """The query: who had this address and port, towards this destination if there is one.

    port 0: the whole address; protocol None: any.
    """

    address: Address
    port: int
    protocol: int | None = None
    to: Address | None = None


@dataclass(frozen=True)
class Report:
    """One report that covers the port: a row of `nat_events`."""

    at: datetime
    event: str
    protocol: int
    subscriber: str
    subscriber_port: int
    first_port: int
    last_port: int
    destination: str
    destination_port: int
    vrf: int
    user: str
    exporter: str
    #: The address is the destination that was asked for, and the subscriber the server that it was mapped to; then
    #: `destination` is who asked.
    inwards: bool = False

    @property
    def begins(self) -> bool:
        return self.event in _BEGINS

    @property
    def form(self) -> str:
        return _FORMS[self.event]

    @property
    def who(self) -> tuple[str, int]:
        """The subscriber: networks may use the same private addresses."""
        return self.subscriber, self.vrf

    def ends(self, begun: Report) -> bool:
        """Whether this report ends the holding that `begun` began; a field that this report does not state matches any
        value."""
        return (
            not self.begins
            and self.inwards == begun.inwards
            # The end of a connection from outside may leave the server open; clients have many at once.
            and (self.who == begun.who or (self.inwards and not self.subscriber))
            and (not self.inwards or self.destination_port in (0, begun.destination_port))
            and (self.form == begun.form or self.form == "address")
            and (self.protocol == begun.protocol or 0 in (self.protocol, begun.protocol))
            and (self.subscriber_port == begun.subscriber_port or 0 in (self.subscriber_port, begun.subscriber_port))
            and (self.destination == begun.destination or "" in (self.destination, begun.destination))
        )

    def replaces(self, begun: Report) -> bool:
        """Whether this report assigns the same port, block or address to another subscriber; if so, the report of the
        earlier end was lost. One port may be shared by several sessions to different destinations or of different
        protocols; the owner of a block excludes all others.
        """
        if not self.begins or self.who == begun.who or self.inwards != begun.inwards:
            return False
        if self.form != "port":
            return True
        same_protocol = self.protocol == begun.protocol or 0 in (self.protocol, begun.protocol)
        return begun.form == "port" and same_protocol and not (self.destination or begun.destination)


@dataclass(frozen=True)
class Answer:
    """holders: the subscribers who had the address and port at that time, according to the stored reports; before,
    after: the nearest reports before and after that time, or None.

    superseded: holdings without a reported end whose port has since been assigned to another subscriber, or that began
    too long ago. complete: all relevant reports were read.
    """

    holders: list[Report]
    superseded: list[Report]
    before: Report | None
    after: Report | None
    complete: bool = True

    @property
    def known(self) -> bool:
        """Whether exactly one subscriber had the address and port, and the reports name this subscriber."""
        named = {one.who for one in self.holders}
        return self.complete and len(named) == 1 and all(one.subscriber or one.user for one in self.holders)

    def json(self) -> dict[str, Any]:
        """For programs."""

        def plain(one: Report | None) -> dict[str, Any] | None:
            return {**asdict(one), "at": _iso(one.at), "form": one.form} if one else None

        return {
            "known": self.known,
            "holders": [plain(one) for one in self.holders],
            "superseded": [plain(one) for one in self.superseded],
            "before": plain(self.before),
            "after": plain(self.after),
        }


def who(text: str) -> tuple[Address, int]:
    """`192.0.2.7:4711`, `[2001:db8::7]:4711`, or an address alone with port 0. Raises WeirError."""
    host, _, port = text.rpartition(":")
    try:
        if not host or text.endswith("]") or (text.count(":") > 1 and not text.startswith("[")):
            return _address(text.strip("[]")), 0
        number = int(port) if port.isascii() and port.isdigit() else 0
        if not 0 < number < 65536:
            raise ValueError(f"port {port} is not one of 1 to 65535")
        return _address(host.strip("[]")), number
    except ValueError as error:
        raise WeirError(f"'{text}': {error}", hint="such as 192.0.2.7:4711 or [2001:db8::7]:4711") from None


def _address(text: str) -> Address:
    found = ipaddress.ip_address(text)
    if isinstance(found, ipaddress.IPv6Address) and found.scope_id:
        raise ValueError("an address with a zone is valid on one link only")
    return found


def moment(text: str) -> datetime:
    """A time in ISO 8601; UTC if it names no zone. Raises WeirError."""
    try:
        found = datetime.fromisoformat(text)
        found = found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
        if not 1970 <= found.year < 2100:
            raise ValueError(text)
    except (ValueError, OverflowError):
        raise WeirError(f"'{text}' is not a time", hint="write it as 2026-11-22T18:30:05Z") from None
    return found


def protocol(text: str | None) -> int | None:
    """A protocol's number, by name or number. Raises WeirError."""
    if text is None:
        return None
    if text.lower() in PROTOCOLS:
        return PROTOCOLS[text.lower()]
    if text.isascii() and text.isdigit() and int(text) < 256:
        return int(text)
    raise WeirError(f"'{text}' is not a protocol", hint=f"{', '.join(PROTOCOLS)}, or a number below 256")


def judge(before: list[Report], after: list[Report], at: datetime) -> Answer:
    """Who had the address and port at that time, from the reports up to that time and those after it, each in order of
    time."""
    open_: list[Report] = []
    superseded: list[Report] = []

    def lasts(one: Report) -> bool:
        """Whether the subscriber's next report ends this holding, so that it lasted beyond that time."""
        own = (report for report in after if report.who == one.who and report.inwards == one.inwards)
        following = next((report for report in own if report.form == one.form), None)
        return following is not None and following.ends(one)

    for report in before:
        # At the same moment, a release counts before an assignment.
        if report.begins:
            gone = [one for one in open_ if report.replaces(one) and not lasts(one)]
            superseded += gone
            open_ = [one for one in open_ if one not in gone]
            open_ = [one for one in open_ if not _again(report, one)]
            open_.append(report)
        else:
            open_ = [one for one in open_ if not report.ends(one)]
    for one in list(open_):
        if one.form == "port" and at - one.at > LONGEST and not lasts(one):
            open_.remove(one)
            superseded.append(one)
    # A session within the block or address of the same subscriber is more specific.
    particular = {one.who for one in open_ if one.form == "port"}
    holders = [one for one in open_ if one.form == "port" or one.who not in particular]
    return Answer(holders, superseded, before[-1] if before else None, after[0] if after else None)


def _again(report: Report, before: Report) -> bool:
    """A repeated report."""
    return replace(report, at=before.at, user=before.user, exporter=before.exporter) == before


def ask(store: ClickHouse, wanted: Who, at: datetime) -> Answer:
    """Who had the address and port. A time without a fraction means the whole second: every subscriber who had them
    during any part of that second counts.
    """
    until = at if at.microsecond else at + timedelta(milliseconds=999)
    read = [_read(store, wanted, form, f"<= {_time(until)}", "DESC", at - _BACK) for form in _READS]
    reports = sorted((one for some in read for one in reversed(some)), key=lambda one: (one.at, one.begins))
    later = [one for form in _READS for one in _read(store, wanted, form, f"> {_time(until)}", "ASC", at - _BACK)]
    later.sort(key=lambda one: one.at)
    early = [one for one in reports if one.at <= at]
    # Within the second, the port may have been assigned to another subscriber.
    ends = sorted({len(early), *range(len(early), len(reports) + 1)})
    answers = [judge(reports[:end], [*reports[end:], *later], at) for end in ends[:200]]
    holders = list(dict.fromkeys(one for answer in answers for one in answer.holders))
    far = all(len(some) < _READ or some[-1].at < at - LONGEST for some in read)
    before, after = reports[-1] if reports else None, later[0] if later else None
    return Answer(holders, answers[0].superseded, before, after, complete=far and len(ends) <= 200)


def _read(
    store: ClickHouse, wanted: Who, form: Literal["port", "block", "inwards"], when: str, order: str, back: datetime
) -> list[Report]:
    """The reports that cover the port (on single ports, or on blocks and addresses), or those on connections from
    outside to the port; the nearest first. A report without a translation identifies nobody.
    """
    port = wanted.port
    ports = form == "port"
    if form == "inwards":
        return _read_inwards(store, wanted, when, order, back)
    covers = (
        f"event IN ('create', 'delete') AND post_src_port = {port} AND {port} > 0 AND event_at >= {_time(back)}"
        if ports
        else "(event IN ('address_bind', 'address_unbind')"
        f" OR event IN ('port_block_allocate', 'port_block_free') AND post_src_port <= {port}"
        # A free may name the block's first port alone.
        f" AND (port_block_end >= {port} OR port_block_end = 0 AND event = 'port_block_free')"
        f" AND ({port} - post_src_port) % greatest(port_block_step, 1) = 0)"
    )
    parts = [
        f"post_src_addr = {_literal(wanted.address)}",
        covers,
        "NOT (src_addr = post_src_addr AND src_port = post_src_port AND port_block_end = 0)",
        f"event_at {when}",
    ]
    if wanted.protocol is not None:
        parts.append(f"protocol IN (0, {wanted.protocol})")
    columns = (
        f"toString(src_addr) AS subscriber, {'src_port' if ports else '0'} AS subscriber_port, post_src_port AS first_port,"
        " port_block_end AS last_port, toString(dst_addr) AS destination, toString(post_dst_addr) AS seen,"
        " dst_port AS destination_port, ingress_vrf AS vrf"
    )
    to = str(wanted.to) if wanted.to else None
    return [
        _report(row)
        for row in _rows(store, columns, parts, order)
        # For IPv6 subscribers, the destination that saw it is the translated one (NAT64).
        if to is None
        or to in (_plain(row["destination"]), _embedded(row["destination"]), _plain(row["seen"]))
        or not _plain(row["destination"])
    ]


def _read_inwards(store: ClickHouse, wanted: Who, when: str, order: str, back: datetime) -> list[Report]:
    """The nearest reports on connections from outside to the address and port that a translator passed on to an
    internal server. Its index on dst_addr finds them.
    """
    translated = "post_dst_addr != toIPv6('::') AND (post_dst_addr, post_dst_port) != (dst_addr, dst_port)"
    parts = [
        f"dst_addr = {_literal(wanted.address)}",
        f"dst_port = {wanted.port} AND {wanted.port} > 0",
        "event IN ('create', 'delete')",
        f"(event = 'delete' OR {translated})",
        f"event_at >= {_time(back)}",
        f"event_at {when}",
    ]
    if wanted.protocol is not None:
        parts.append(f"protocol IN (0, {wanted.protocol})")
    if wanted.to is not None:
        parts.append(f"src_addr IN ({_literal(wanted.to)}, toIPv6('::'))")
    columns = (
        f"toString(if({translated}, post_dst_addr, toIPv6('::'))) AS subscriber, if({translated}, post_dst_port, 0) AS subscriber_port,"
        f" {wanted.port} AS first_port, 0 AS last_port, toString(src_addr) AS destination, src_port AS destination_port,"
        " egress_vrf AS vrf"
    )
    return [_report(row, inwards=True) for row in _rows(store, columns, parts, order)]


def _rows(store: ClickHouse, columns: str, parts: list[str], order: str) -> list[dict[str, Any]]:
    """The nearest events that meet all conditions in `parts`, with these columns in addition to those that every report
    has."""
    rows = store.rows(
        "SELECT toUnixTimestamp64Milli(event_at) AS ms, toString(event) AS event, protocol, user_name,"
        f" toString(exporter_addr) AS exporter, {columns}"
        f" FROM nat_events WHERE {' AND '.join(parts)} ORDER BY event_at {order} LIMIT {_READ}"
    )
    return [row for row in rows if 0 <= row["ms"] < 4_000_000_000_000]


def _report(row: dict[str, Any], *, inwards: bool = False) -> Report:
    return Report(
        datetime.fromtimestamp(row["ms"] / 1000, UTC),
        row["event"],
        row["protocol"],
        _plain(row["subscriber"]),
        row["subscriber_port"],
        row["first_port"],
        row["last_port"],
        _plain(row["destination"]),
        row["destination_port"],
        row["vrf"],
        row["user_name"],
        _plain(row["exporter"]),
        inwards,
    )


def _time(at: datetime) -> str:
    return f"toDateTime64('{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}', 3, 'UTC')"


def _literal(address: Address) -> str:
    return f"toIPv6('{mapped(address)}')"


def _plain(text: str) -> str:
    """An address as people write it; empty for none."""
    found = ipaddress.ip_address(text)
    four = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return "" if int(found) == 0 else str(four or found)


def _embedded(text: str) -> str:
    """The IPv4 address in one of the well-known prefix of NAT64 (RFC 6052); empty for others."""
    found = ipaddress.ip_address(text)
    return str(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)) if found in _NAT64 else ""


def _iso(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


def show(console: Console, wanted: Who, at: datetime, answer: Answer) -> None:
    """The answer in one sentence, with the reports that support it."""
    port = f" port {wanted.port}" if wanted.port else ""
    name = f"{wanted.address}{port} at {at:%Y-%m-%dT%H:%M:%SZ}"
    if answer.known:
        one = answer.holders[0]
        own = f", port {one.subscriber_port}" if one.subscriber_port else ""
        vrf = f" in VRF {one.vrf}" if one.vrf else ""
        user = f" ({one.user})" if one.user else ""
        inwards = ", to which connections from outside were mapped" if one.inwards else ""
        console.print(f"{name}: [bold]{one.subscriber}[/bold]{own}{vrf}{user}{inwards}", highlight=False)
    elif answer.holders:
        console.print(
            f"{name}: not known: several subscribers may have had this port; --protocol or --to may narrow it to one",
            highlight=False,
        )
    else:
        console.print(f"{name}: not known", highlight=False)
    table = Table(header_style="bold", box=None, pad_edge=False)
    for title in ("", "subscriber", "by", "protocol", "destination", "reported", "", "by"):
        table.add_column(title)
    near = [("before", answer.before), ("after", answer.after)]
    rows = [
        *(("held", one) for one in answer.holders),
        *(("no end reported", one) for one in answer.superseded[-5:]),
        *near,
    ]
    for word, report in rows:
        table.add_row(word, *(_cells(report) if report else ("nothing reported",)))
    # A pipe has no width: nothing is cut.
    (console if console.is_terminal else Console(width=250)).print(table)


def _cells(row: Report) -> tuple[str, ...]:
    ports = f"{row.first_port}-{row.last_port}" if row.last_port else str(row.first_port or "")
    inside = f":{row.subscriber_port}" if row.subscriber_port else ""
    vrf = f" VRF {row.vrf}" if row.vrf else ""
    names = {number: name for name, number in PROTOCOLS.items()}
    place = f"{row.destination}:{row.destination_port}" if row.destination else ""
    spoken = names.get(row.protocol, str(row.protocol)) if row.protocol else "all"
    return (
        f"{row.subscriber}{inside}{vrf}",
        f"{row.form} {ports}".strip(),
        spoken,
        place,
        _iso(row.at),
        row.event,
        row.exporter,
    )
