"""What the groups of a person give: the same at the dashboards and at the store."""

from __future__ import annotations

from typing import Any

import weir_groups

ROLES = {
    "admin": ["Admins"],
    "viewer": ["noc", "x"],
    "analyst": [],
    "customers": {"Fjord": ["fjord"], "Other": ["other", "noc"]},
}


def test_groups_give_roles_and_customers() -> None:
    provider: dict[str, Any] = {"ldap": None, "oidc": {}, "roles": ROLES}
    assert weir_groups.given(provider, ["noc"]) == ({"viewer"}, ["Other"])
    assert weir_groups.given(provider, ["Admins", "fjord", "other"]) == ({"admin"}, ["Fjord", "Other"])
    # A provider's groups are compared exactly, a directory's without regard to case.
    for group in ("admins", " Admins", "ADMINS", "Adm\u0131ns"):
        assert weir_groups.given(provider, [group]) == (set(), [])
    directory = {**provider, "ldap": {"server": "ldaps://x"}, "oidc": None}
    assert weir_groups.given(directory, ["ADMINS"]) == ({"admin"}, [])


def test_only_texts_in_a_claim_name_groups() -> None:
    assert weir_groups.claimed("noc") == ["noc"]
    assert weir_groups.claimed(["noc", 7, None, {"admin": 1}, ["x"]]) == ["noc"]
    for claim in (None, {"Admins": {"noc": 1}}, 7, True):
        assert weir_groups.claimed(claim) == []
