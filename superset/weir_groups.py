"""What the groups of a person give, for the dashboards and the embedded store alike: the key `sign_on.roles` of weir.yaml.

Names of groups in an LDAP directory are distinguished names, which do not depend on case; those that an OpenID Connect
provider names are compared exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def claimed(claim: Any) -> list[str]:
    """The groups in a claim: a text, or a list of texts. Anything else names none."""
    found = [claim] if isinstance(claim, str) else claim
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def given(sign_on: Mapping[str, Any], groups: Iterable[str]) -> tuple[set[str], list[str]]:
    """The roles that groups give (admin, viewer, analyst, networks), and the customers. sign_on: the key of weir.yaml."""

    def form(name: str) -> str:
        return name.strip().casefold() if sign_on.get("ldap") else name

    roles, held = sign_on["roles"], {form(group) for group in groups}

    def any_of(listed: Iterable[str]) -> bool:
        return bool(held & {form(one) for one in listed})

    plain = {role for role in ("admin", "viewer", "analyst", "networks") if any_of(roles.get(role) or ())}
    return plain, [name for name, listed in (roles.get("customers") or {}).items() if any_of(listed)]
