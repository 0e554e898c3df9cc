"""Accounts of the dashboards, which Superset keeps: made, removed and listed by `superset/weir_superset.py`."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from typing import Any

from weir import audit
from weir.config import Stack
from weir.errors import WeirError
from weir.services import superset_command


def let_in(stack: Stack, customer: str, user: str) -> str:
    """Create a user who sees only the customer's rows, or set a new password for the user; returns the password.

    Raises WeirError with Superset's message if the customer does not exist, or if the user has another role or
    customer.
    """
    password = secrets.token_urlsafe(15)
    _ask(stack, "customer", customer, user, password=password)
    return password


def prepare_customer(stack: Stack, customer: str) -> None:
    """Create the role of a customer's users, for those who sign on from a directory. Raises WeirError."""
    _ask(stack, "customer", customer)


def add(stack: Stack, name: str, role: str) -> str:
    """Make an account with the role `viewer` or `admin`, or set its password; returns the password. Raises WeirError."""
    password = secrets.token_urlsafe(15)
    _ask(stack, "user", "add", name, "--role", role, password=password)
    return password


def remove(stack: Stack, name: str) -> None:
    """Remove an account; its sessions end with it, at the store, too. Raises WeirError."""
    audit.tell(stack, "remove", name)
    _ask(stack, "user", "remove", name)


def unlock(stack: Stack, name: str) -> None:
    """Forget the failed logins of an account, at the dashboards and at the store. Raises WeirError."""
    _ask(stack, "user", "unlock", name)
    audit.tell(stack, "unlock", name)


def accounts(stack: Stack) -> list[dict[str, Any]]:
    """All accounts: user, roles, source and last_login. Raises WeirError."""
    found: list[dict[str, Any]] = json.loads(_ask(stack, "user", "list").strip().splitlines()[-1])
    return found


def _ask(stack: Stack, *words: str, password: str = "") -> str:
    python, script, environment = superset_command(stack)
    done = subprocess.run(
        [str(python), str(script), *words],
        env={**os.environ, **environment, "WEIR_SUPERSET_USER_PASSWORD": password},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise WeirError(said[-1].removeprefix("weir_superset: "), hint="the stack must be up: weir up")
    return done.stdout
