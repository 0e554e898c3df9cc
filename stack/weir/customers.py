"""Customers' users in Superset."""

from __future__ import annotations

import os
import secrets
import subprocess

from weir.config import Stack
from weir.errors import WeirError
from weir.services import superset_command


def let_in(stack: Stack, customer: str, user: str) -> str:
    """Create a user who sees only the customer's rows, or set a new password for the user; returns the password.

    Raises WeirError with Superset's message if the customer does not exist, or if the user has another role or
    customer.
    """
    password = secrets.token_urlsafe(15)
    python, script, environment = superset_command(stack)
    done = subprocess.run(
        [str(python), str(script), "customer", customer, user],
        env={**os.environ, **environment, "WEIR_SUPERSET_USER_PASSWORD": password},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise WeirError(said[-1].removeprefix("weir_superset: "), hint="the stack must be up: weir up")
    return password
