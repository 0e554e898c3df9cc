"""A running Superset, for the tests on people; and browsers."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from conftest import PYTHON, SCRIPT, environment


def free_port() -> int:
    """A port of the loopback interface that nobody uses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def eventually(holds: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Wait until something holds; returns it."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)
    return found


@contextmanager
def serving(home: Path, **more: str) -> Iterator[str]:
    """A running Superset; its address."""
    port = free_port()
    with (home.parent / "serve.log").open("w") as log:
        process = subprocess.Popen(
            [PYTHON, SCRIPT, "serve"],
            env=environment(home, WEIR_SUPERSET_PORT=str(port), **more),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            eventually(
                lambda: process.poll() is not None or answers(f"http://127.0.0.1:{port}/health"), "Superset", 180
            )
            assert process.poll() is None, (home.parent / "serve.log").read_text()[-3000:]
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def answers(url: str) -> bool:
    """Whether a GET returns 200."""
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def command(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """One command of `weir_superset.py`."""
    known = environment(home, WEIR_SUPERSET_USER_PASSWORD="p", **more)
    return subprocess.run([PYTHON, SCRIPT, *words], env=known, capture_output=True, text=True, check=False)


class Person:
    """A browser of somebody."""

    def __init__(self, url: str, **options: Any) -> None:
        self.client = httpx.Client(base_url=url, timeout=60, **options)

    def log_in(self, name: str, password: str, path: str = "/login/", **headers: str) -> httpx.Response:
        """Send the form; what came back."""
        form = self.client.get(path, headers=headers).text
        token = re.search(r'csrf_token[^>]*?value="([^"]+)"|"csrf_token": ?"([^"]+)"', form)
        assert token, form[:500]
        fields = {"username": name, "password": password, "csrf_token": token[1] or token[2]}
        return self.client.post(path, data=fields, headers=headers)

    def name(self) -> str:
        """Who is logged in; empty if nobody is."""
        answer = self.client.get("/api/v1/me/")
        return str(answer.json()["result"].get("username", "")) if answer.status_code == 200 else ""

    def roles(self) -> list[str]:
        """Names of the roles of whoever is logged in."""
        return [*self.client.get("/api/v1/me/roles/").json()["result"]["roles"]]
