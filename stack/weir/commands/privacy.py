"""`weir privacy` and `weir reveal`: the key of the pseudonyms, its shares, and who turned one back."""

from __future__ import annotations

import getpass
import ipaddress
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from weir import audit, audit_log, forget, pseudonyms
from weir.commands import configured, console
from weir.config import Stack
from weir.errors import WeirError
from weir.pseudonyms import Address, CryptoPan, Network

_Period = Annotated[str, typer.Option(help="privacy.period of the probe: 7d, 12h, 90min; 0s: one key for ever.")]
_At = Annotated[str, typer.Option(help="A time within the period: that of the row (ts), UTC.")]
_Reason = Annotated[str, typer.Option(help="Why; it goes to the audit.")]
_Shares = Annotated[
    list[Path] | None,
    typer.Option("--share", metavar="FILE", help="File of a share, twice; without it, the command asks for two."),
]


def split(
    holders: Annotated[
        list[str], typer.Option("--holder", metavar="NAME", help="Who gets a share; repeat it, at least twice.")
    ],
    to: Annotated[Path, typer.Option(metavar="DIR", help="Directory for the shares.")],
    key_file: Annotated[Path, typer.Option(help="File of the master key; made if it does not exist.")] = Path(
        "privacy.key"
    ),
) -> None:
    """Split the key of the pseudonyms into shares, two of which give it. Hand each to its holder and delete it here; the key
    itself belongs on the probes alone.

    Example: weir privacy split --holder anna --holder ben --holder cleo --to shares
    """
    stack = configured()
    files = pseudonyms.split(stack, key_file, holders, to)
    for name, file in zip(holders, files, strict=True):
        console.print(f"{file}: the share of {name}", highlight=False, soft_wrap=True, markup=False)
    console.print(
        f"Any two of them give the key in {key_file}. Copy that file to the probes, and keep none here.",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )


def translate(
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="A prefix of addresses, or an address.")],
    period: _Period,
    at: _At,
    reason: _Reason,
    share: _Shares = None,
) -> None:
    """Print the prefix that the pseudonyms of these addresses have in a period, for statements on pseudonyms. It takes the
    shares of two people, as `weir reveal` does, since whoever can translate addresses at will finds out any of them.

    Example: weir privacy translate 192.0.2.0/24 --period 7d --at 2026-11-27 --reason 'report of customer 7' --share a --share b
    """
    wanted = forget.network(prefix)
    stack, pan, detail = _opened("translate", period, at, reason, share)
    found = pan.network(wanted)
    audit.note(stack, "translate", {**detail, "digest": audit.keyed(stack, wanted), "pseudonym": str(found)})
    print(_shown(found))


def reveal(
    pseudonym: Annotated[str, typer.Argument(metavar="ADDRESS", help="A pseudonym, as a row shows it.")],
    period: _Period,
    at: _At,
    reason: _Reason,
    share: _Shares = None,
) -> None:
    """Turn a pseudonym back into the address that it stands for. It takes the shares of two people; both names and the reason
    are in the audit before the address is shown.

    Example: weir reveal 62.4.233.236 --period 7d --at 2026-11-27T08:00:00 --reason 'order 17/26 of the court' --share a --share b
    """
    wanted = _address(pseudonym)
    stack, pan, detail = _opened("reveal", period, at, reason, share)
    found = pan.address(wanted)
    own = audit.keyed(stack, ipaddress.ip_network(found))
    audit.note(stack, "reveal", {**detail, "pseudonym": str(wanted), "digest": own})
    print(found)


def _address(text: str) -> Address:
    """The address; raises WeirError if the text is none."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError as error:
        raise WeirError(str(error)) from None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _shown(network: Network) -> str:
    return str(network.network_address) if network.num_addresses == 1 else str(network)


def _opened(
    kind: str, period: str, at: str, reason: str, files: list[Path] | None
) -> tuple[Stack, CryptoPan, dict[str, Any]]:
    """The stack, the pseudonyms of the period, and what the audit says of it. Raises WeirError; if the shares give no key, the
    audit has the attempt, as `kind` refused."""
    stack = configured()
    if not reason.strip():
        raise WeirError("a reason must say why")
    if not audit.here(stack):
        raise WeirError("nothing is shown: this stack's store writes no audit")
    seconds, moment = audit_log.seconds(period), pseudonyms.time(at)
    try:
        opened = pseudonyms.opened(stack, _shares(files))
    except WeirError as error:
        audit.note(stack, f"{kind}_refused", {"reason": reason.strip(), "period": period, "why": str(error)})
        raise
    number = pseudonyms.period(moment, seconds)
    pan = CryptoPan(pseudonyms.period_key(opened.master, seconds, number))
    detail = {
        "holders": list(opened.holders),
        "reason": reason.strip(),
        "period": period,
        "at": datetime.isoformat(moment),
    }
    return stack, pan, detail


def _shares(files: list[Path] | None) -> list[str]:
    """The shares in the files, or as they are typed. Raises WeirError."""
    try:
        if files:
            return [file.read_text() for file in files]
        if not sys.stdin.isatty():
            raise WeirError("there is no terminal to ask for shares", hint="--share FILE twice")
        return [getpass.getpass(f"Share {number}: ") for number in (1, 2)]
    except (OSError, UnicodeDecodeError) as error:
        raise WeirError(f"a share cannot be read: {error}") from error
