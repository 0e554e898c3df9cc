"""Stop the jobs with a savepoint: their state at one moment, from which another version of them continues."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx

from weir.config import Stack
from weir.errors import WeirError

#: Seconds that a savepoint may take: its barrier waits while the store does not accept rows.
PATIENCE = 600


class Unfinished(WeirError):
    """The savepoint took too long: the jobs may yet stop."""


def stop(stack: Stack, patience: float = PATIENCE) -> Path:
    """Stop the jobs once a savepoint is complete; returns its folder.

    Raises WeirError if no job runs, or if the savepoint fails; the jobs then keep running. Raises Unfinished if it
    takes too long.
    """
    folder = stack.data / "flink"
    before = _complete(folder)
    job = _running(stack)
    asked = _ask("POST", f"{stack.flink_url}/jobs/{job}/stop", {"targetDirectory": folder.as_uri(), "drain": False})
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            answer = _ask("GET", f"{stack.flink_url}/jobs/{job}/savepoints/{asked['request-id']}")
        except WeirError:
            answer = {}  # The jobs' process ends with the job, and its answer may be lost.
        if cause := (answer.get("operation") or {}).get("failure-cause"):
            lines = [line for line in str(cause.get("stack-trace", cause)).splitlines() if "Exception" in line]
            said = lines[-1].strip() if lines else cause
            raise WeirError(f"no savepoint, and the jobs keep running: {said}", status=1)
        if made := _complete(folder) - before:
            return made.pop()
        time.sleep(0.2)
    raise Unfinished(f"no savepoint after {patience:.0f} s", hint=f"see {stack.logs}/flink.log", status=1)


def _complete(folder: Path) -> set[Path]:
    """The complete savepoints of a folder. Flink writes `_metadata` last."""
    return {path.parent for path in folder.glob("savepoint-*/_metadata")}


def _running(stack: Stack) -> str:
    for job in _ask("GET", f"{stack.flink_url}/jobs/overview").get("jobs", []):
        if job["state"] == "RUNNING":
            return str(job["jid"])
    raise WeirError("the jobs do not run", hint="'weir status' says more; 'weir up' starts from the newest checkpoint")


def _ask(method: str, url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    try:
        answer = httpx.request(method, url, json=body, timeout=10)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise WeirError(f"Flink does not answer at {url}: {error}", status=1) from error
    return found
