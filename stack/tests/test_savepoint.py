"""A savepoint of the jobs, from answers as Flink gives them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from weir import config, savepoint
from weir.errors import WeirError

NAME = "savepoint-0123ab-0123456789ab"


class Flink(ThreadingHTTPServer):
    """Answers a request to stop, and completes the savepoint at the second question about it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.jobs: list[dict[str, str]] = [{"jid": "old", "state": "FINISHED"}, {"jid": "j1", "state": "RUNNING"}]
        self.asked: dict[str, Any] = {}
        self.questions = 0
        #: The last answer: a failure, or none at all, because the process has ended.
        self.failure = ""
        self.ends = False
        self.hangs = False


class Answer(BaseHTTPRequestHandler):
    """One request."""

    server: Flink

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        if self.path == "/jobs/overview":
            self.answer({"jobs": self.server.jobs})
            return
        assert self.path == "/jobs/j1/savepoints/r1"
        self.server.questions += 1
        if self.server.questions == 1 or self.server.hangs:
            self.answer({"status": {"id": "IN_PROGRESS"}, "operation": None} if not self.server.ends else None)
        elif self.server.failure:
            self.answer(
                {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": {"stack-trace": self.server.failure}}}
            )
        else:
            folder = Path(self.server.asked["targetDirectory"].removeprefix("file://")) / NAME
            folder.mkdir()
            (folder / "_metadata").write_text("x")
            self.answer(None if self.server.ends else {"status": {"id": "COMPLETED"}, "operation": {"location": "x"}})

    def do_POST(self) -> None:
        assert self.path == "/jobs/j1/stop"
        self.server.asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer({"request-id": "r1"}, 202)

    def answer(self, body: object, status: int = 200) -> None:
        if body is None:
            self.close_connection = True
            return
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture
def flink() -> Iterator[Flink]:
    server = Flink()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def stack(flink: Flink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> config.Stack:
    monkeypatch.setenv("WEIR_HOME", str(tmp_path))
    (tmp_path / "weir.yaml").write_text(f"ports: {{flink: {flink.server_port}}}\n")
    stack = config.load(None)
    earlier = stack.data / "flink/savepoint-000000-000000000000"
    earlier.mkdir(parents=True)
    (earlier / "_metadata").write_text("x")
    return stack


@pytest.mark.parametrize("ends", [False, True])
def test_the_jobs_stop_with_a_savepoint_even_if_their_answer_is_lost(
    flink: Flink, stack: config.Stack, ends: bool
) -> None:
    flink.ends = ends
    assert savepoint.stop(stack) == stack.data / "flink" / NAME
    assert flink.asked == {"targetDirectory": (stack.data / "flink").as_uri(), "drain": False}


def test_a_savepoint_that_fails_is_an_error(flink: Flink, stack: config.Stack) -> None:
    flink.failure = "org.apache.CompletionException: x\n\tat y\nCaused by: java.io.IOException: no space"
    with pytest.raises(WeirError, match=r"the jobs keep running: Caused by: java\.io\.IOException: no space"):
        savepoint.stop(stack)


def test_without_a_running_job_there_is_none(flink: Flink, stack: config.Stack) -> None:
    flink.jobs.pop()
    with pytest.raises(WeirError, match="do not run"):
        savepoint.stop(stack)


def test_one_that_never_completes_is_an_error(flink: Flink, stack: config.Stack) -> None:
    flink.hangs = True
    with pytest.raises(WeirError, match="no savepoint after 1 s"):
        savepoint.stop(stack, patience=1)
