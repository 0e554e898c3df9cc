"""The checker itself must find the faults that it looks for. The tests generate the pages, without Superset."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from render import Browser

CHART = '<div data-test="chart-grid-component" data-test-chart-name="{name}" style="width:400px;height:200px">{inside}</div>'
DRAWN = CHART.format(name="good", inside='<canvas width="300" height="150"></canvas>')
PAGES = {
    "/good": DRAWN,
    "/error": DRAWN + CHART.format(name="bad", inside='<div class="ant-alert-error">Data error</div>'),
    "/empty": DRAWN
    + CHART.format(name="bare", inside='<div class="ant-empty">No results were returned for this query</div>'),
    "/loading": DRAWN
    + CHART.format(name="slow", inside='<div class="loading"></div><canvas width="300" height="150"></canvas>'),
    "/outside": DRAWN + '<img src="http://192.0.2.1/pixel.png">',
    "/policy": '<meta http-equiv="Content-Security-Policy" content="img-src \'self\'">'
    + DRAWN
    + '<img src="http://192.0.2.1/pixel.png">',
    "/script": DRAWN + "<script>throw new Error('broken')</script>",
    "/missing": DRAWN + '<img src="/nothing.png">',
    "/login": "<p>Sign in</p>",
}


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = PAGES.get(self.path)
        body = f"<!doctype html><title>t</title><body>{page}</body>".encode()
        self.send_response(200 if page or self.path == "/favicon.ico" else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    """The address of the pages."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all pages."""
    with Browser() as one:
        yield one


def test_a_good_page_is_good(browser: Browser, pages: str, tmp_path: Path) -> None:
    picture = tmp_path / "shot.png"
    report = browser.render(f"{pages}/good", picture, timeout=60)
    assert report.problems == []
    assert report.charts == {"good": "drawn"}
    assert picture.stat().st_size > 500


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("/error", "chart 'bad' is error"),
        ("/empty", "chart 'bare' is empty"),
        ("/outside", "request to the outside: http://192.0.2.1/pixel.png"),
        ("/policy", "content security policy"),
        ("/script", "page error: broken"),
        ("/missing", "HTTP 404"),
    ],
)
def test_a_bad_page_is_found(browser: Browser, pages: str, page: str, said: str) -> None:
    problems = browser.render(f"{pages}{page}", None, timeout=60).problems
    assert any(said in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("page", "said"), [("/loading", "chart 'slow' is loading"), ("/login", "no chart on the page; it says: 'Sign in'")]
)
def test_waiting_ends(browser: Browser, pages: str, page: str, said: str) -> None:
    problems = browser.render(f"{pages}{page}", None, timeout=6).problems
    assert any(said in problem for problem in problems), problems
