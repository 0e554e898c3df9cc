"""The test's declarations: prefixes with customers and sites, autonomous systems and countries of all addresses."""

from __future__ import annotations

import functools
import ipaddress
from dataclasses import dataclass
from typing import Any

SITE = "here"


@dataclass(frozen=True)
class Prefix:
    """One declared prefix."""

    prefix: str
    customer: str = ""
    site: bool = False
    national: bool = False


#: The longest prefix that contains an address holds, and nothing is inherited from a shorter one.
PREFIXES = [
    Prefix("10.0.0.0/8", "Ten", site=True, national=True),
    Prefix("10.0.2.0/24", "Two", site=True, national=True),
    Prefix("10.1.0.0/16", "One", national=True),
    Prefix("172.16.0.0/12", "Twelve", site=True, national=True),
    Prefix("192.168.0.0/16", "House", site=True, national=True),
    Prefix("192.168.1.0/24", "Lan", site=True, national=True),
    Prefix("141.0.0.0/8", "Campus", site=True, national=True),
    Prefix("128.0.0.0/7", "Old", national=True),
    Prefix("2001:470::/32", "Tunnels", site=True, national=True),
    Prefix("3ffe::/16", "Six", site=True, national=True),
    Prefix("fe80::/10", "Link", site=True, national=True),
    Prefix("fc00::/7", "Local", site=True, national=True),
]
NETWORKS = sorted(((ipaddress.ip_network(one.prefix), one) for one in PREFIXES), key=lambda pair: -pair[0].prefixlen)
#: Octets that begin an address without an autonomous system and a country.
NOWHERE = (0, 10, 127, 192, 255)


@functools.cache
def declared(address: str) -> Prefix | None:
    """The declared prefix of an address."""
    ip = ipaddress.ip_address(address)
    return next((one for network, one in NETWORKS if ip.version == network.version and ip in network), None)


def inside(address: str, scope: str) -> bool:
    """Whether an address is inside: at the site for a probe, in the nation for all probes, or in the customer's
    prefixes for a customer."""
    one = declared(address)
    if scope == "probe":
        return bool(one and one.site)
    return bool(one and one.national) if scope == "all" else bool(one and one.customer == scope)


def customer(address: str) -> str:
    """The customer of an address."""
    one = declared(address)
    return one.customer if one else ""


def _first(address: str) -> tuple[int, int]:
    ip = ipaddress.ip_address(address)
    return ip.version, ip.packed[0]


@functools.cache
def system(address: str) -> int:
    """The autonomous system of an address, 0 for none."""
    version, octet = _first(address)
    if version == 4:
        return 0 if octet in NOWHERE else 64_000 + octet
    return 66_000 + octet if 0x20 <= octet <= 0x3F else 0


@functools.cache
def country(address: str) -> int:
    """The country of an address: first letter * 256 + second, 0 for none."""
    version, octet = _first(address)
    if version == 4:
        return 0 if octet in NOWHERE else ord("A") * 256 + ord("A") + octet % 7
    return ord("S") * 256 + ord("A") + octet % 7 if 0x20 <= octet <= 0x3F else 0


def places() -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """The same in the form of two address files: autonomous systems and countries by prefix."""
    systems: dict[str, dict[str, Any]] = {}
    countries: dict[str, dict[str, Any]] = {}
    prefixes = [(f"{octet}.0.0.0/8", f"{octet}.0.0.1") for octet in range(256)]
    prefixes += [(f"{octet:02x}00::/8", f"{octet:02x}00::1") for octet in range(0x20, 0x40)]
    for prefix, address in prefixes:
        if system(address):
            systems[prefix] = {
                "autonomous_system_number": system(address),
                "autonomous_system_organization": f"System {system(address)}",
            }
            code = country(address)
            countries[prefix] = {"country": {"iso_code": chr(code >> 8) + chr(code & 255)}}
    return systems, countries
