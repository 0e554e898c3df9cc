#!/usr/bin/env python3
"""Open a dashboard in headless Chromium as an anonymous viewer, and check the drawn page.

Waits until every chart of the page has been drawn, then fails on a chart with an error or without data, on a violation
of the content security policy, an error of the page, or a request to any other host and port than the dashboard's.
Saves a picture of the whole page. Prints one JSON object; the exit status is 1 if it found a problem, 2 on bad
arguments.

    render.py --url http://127.0.0.1:8088/superset/dashboard/nation/ --out shot.png
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Page, Request, Response, Route, sync_playwright

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--no-default-browser-check",
    "--no-pings",
]

# State of each chart of the page: its name, and whether it is loading, wrong, empty, or drawn.
CHARTS = """() => [...document.querySelectorAll('.dashboard-chart-id-none, [data-test="chart-grid-component"]')].map(cell => {
  const text = cell.innerText || '';
  const name = cell.getAttribute('data-test-chart-name') || cell.querySelector('[data-test="slice-header"]')?.innerText?.split('\\n')[0] || '?';
  const box = cell.querySelector('.slice_container, [data-test="slice-container"]') || cell;
  const loading = !!cell.querySelector('.loading, [data-test="loading-indicator"], .ant-spin-spinning');
  const wrong = !!cell.querySelector('.ant-alert-error, [data-test="error-container"], [data-test="alert-message"]') || /Unexpected error|Data error|Error:/.test(text);
  const empty = !!cell.querySelector('.ant-empty, [data-test="empty-state"]') || /No results were returned|No data/.test(text);
  const canvas = [...box.querySelectorAll('canvas')].some(one => one.width > 20 && one.height > 20);
  const map = box.querySelectorAll('svg path').length > 50;
  const rows = box.querySelectorAll('table tbody tr').length;
  const number = box.querySelector('.superset-legacy-chart-big-number .header-line, .header-line');
  const drawn = canvas || map || rows > 0 || !!(number && number.innerText.trim() && number.innerText.trim() !== 'N/A');
  return {name, state: wrong ? 'error' : loading ? 'loading' : empty ? 'empty' : drawn ? 'drawn' : 'waiting', rows, text: text.slice(0, 400)};
})"""

# Where the last chart or text of the page ends, in pixels.
BOTTOM = """() => Math.ceil(Math.max(300, ...[...document.querySelectorAll('[data-test="chart-grid-component"], [data-test="dashboard-markdown-editor"]')]
  .map(cell => cell.getBoundingClientRect().bottom + window.scrollY)) + 24)"""


@dataclass
class Report:
    """The findings. `charts`: name → state. `problems`: one line each; empty if there is none.

    `seconds` from the request for the page until every chart is drawn; `data_seconds` until the last answer with data.
    """

    url: str
    seconds: float = 0.0
    data_seconds: float = 0.0
    charts: dict[str, str] = field(default_factory=dict)
    queries: int = 0
    problems: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    #: What axe-core finds serious or critical: "rule: selector".
    barriers: list[str] = field(default_factory=list)


class Browser:
    """A headless Chromium with its own profile, for any number of pages: `with Browser() as browser`."""

    def __init__(self, width: int = 1500, chromium: str | None = None) -> None:
        """Raises FileNotFoundError if Chromium is missing."""
        self.width = width
        names = ("chromium", "chromium-browser", "google-chrome")
        self._binary = chromium or next((found for name in names if (found := shutil.which(name))), None)
        if self._binary is None:
            raise FileNotFoundError("no Chromium: install the package chromium")
        self._stays = contextlib.ExitStack()

    def __enter__(self) -> Browser:
        """Start it."""
        profile = self._stays.enter_context(tempfile.TemporaryDirectory(prefix="weir-chromium-"))
        playwright = self._stays.enter_context(sync_playwright())
        self.context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=self._binary,
            headless=True,
            args=CHROMIUM_FLAGS,
            viewport={"width": self.width, "height": 1000},
            timezone_id="UTC",
            locale="en-US",
        )
        self._stays.callback(self.context.close)
        return self

    def __exit__(self, *_: object) -> None:
        """End it, and remove its profile."""
        self._stays.close()

    def render(
        self,
        url: str,
        out: Path | None,
        *,
        timeout: float = 90.0,
        queries: list[dict[str, Any]] | None = None,
        dark: bool = False,
        axe: bool = False,
    ) -> Report:
        """Draw a page, with axe=True have axe-core look at it; `queries` collects each chart-data request with its response: {"asked", "status", "answer"}."""
        report = Report(url)
        page = self.context.new_page()
        try:
            page.set_viewport_size({"width": self.width, "height": 1000})
            page.emulate_media(color_scheme="dark" if dark else "light")
            began = time.monotonic()
            _watch(page, urlsplit(url).netloc, report, queries, began)
            page.goto(url, wait_until="domcontentloaded", timeout=timeout * 1000)
            # Charts are drawn when they come into view, so the window is as high as the page.
            _wait_for_charts(page, report, began + timeout, self.width)
            report.seconds = round(time.monotonic() - began, 1)
            if axe:
                report.barriers = barriers(page)
            if out is not None:
                page.wait_for_timeout(1500)
                bottom = page.evaluate(BOTTOM)
                page.screenshot(path=str(out), clip={"x": 0, "y": 0, "width": self.width, "height": max(300, bottom)})
        finally:
            page.close()
        return report


def barriers(page: Page) -> list[str]:
    """What keeps people from using a page, by axe-core: each serious or critical finding as "rule: selector: the element"."""
    page.wait_for_timeout(1000)
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations'], iframes: false})")
    return [
        f"{one['id']}: {' '.join(map(str, node['target']))}: {node['html'][:160]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def _watch(page: Page, origin: str, report: Report, queries: list[dict[str, Any]] | None, began: float) -> None:
    def route(one: Route, request: Request) -> None:
        target = urlsplit(request.url)
        if target.scheme in ("http", "https", "ws", "wss") and target.netloc != origin:
            report.problems.append(f"request to the outside: {request.url}")
            one.abort()
        else:
            one.continue_()

    def console(message: ConsoleMessage) -> None:
        text = message.text
        if "Content Security Policy" in text:
            # The policy refuses Superset's compiled-in tracking pixel before the request leaves the browser, as
            # intended.
            if "scarf.sh" in text:
                report.refused.append(text[:160])
            else:
                report.problems.append(f"content security policy: {text[:300]}")
        elif message.type == "error" and "Failed to load resource" not in text:
            report.problems.append(f"console: {text[:300]}")

    def response(answer: Response) -> None:
        if "/api/v1/chart/data" in answer.url:
            report.queries += 1
            report.data_seconds = round(time.monotonic() - began, 1)
            body: dict[str, Any] = {}
            try:
                body = answer.json()
            except Exception:
                report.problems.append(f"chart data: HTTP {answer.status}, not JSON")
            if queries is not None:
                asked = answer.request.post_data
                queries.append({"asked": json.loads(asked) if asked else None, "status": answer.status, "answer": body})
        if answer.status >= 400:
            report.problems.append(f"HTTP {answer.status}: {answer.url}")

    page.route("**/*", route)
    page.on("console", console)
    page.on("response", response)
    page.on("pageerror", lambda error: report.problems.append(f"page error: {str(error)[:300]}"))


def _wait_for_charts(page: Page, report: Report, deadline: float, width: int) -> None:
    charts: list[dict[str, Any]] = []
    tall = False
    while time.monotonic() < deadline:
        page.wait_for_timeout(500)
        charts = page.evaluate(CHARTS)
        if not charts:
            continue
        if not tall:
            height = page.evaluate("() => Math.max(...[...document.querySelectorAll('*')].map(e => e.scrollHeight))")
            page.set_viewport_size({"width": width, "height": min(int(height) + 100, 8000)})
            tall = True
            continue
        if all(chart["state"] in ("drawn", "error", "empty") for chart in charts):
            break
    if not charts:
        report.problems.append(f"no chart on the page; it says: {page.inner_text('body')[:300]!r}")
    for chart in charts:
        report.charts[chart["name"]] = chart["state"]
        if chart["state"] != "drawn":
            report.problems.append(f"chart {chart['name']!r} is {chart['state']}: {chart['text']!r}")


def main() -> int:
    """Command-line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="address of the dashboard")
    parser.add_argument("--out", type=Path, help="PNG file for the picture of the whole page")
    parser.add_argument("--timeout", type=float, default=90.0, help="seconds until every chart must be drawn (90)")
    parser.add_argument("--width", type=int, default=1500, help="width of the window in pixels (1500)")
    parser.add_argument("--dark", action="store_true", help="draw the page in dark mode")
    parser.add_argument("--axe", action="store_true", help="have axe-core look at the page")
    parser.add_argument("--chromium", help="the browser's binary (chromium)")
    given = parser.parse_args()
    with Browser(given.width, given.chromium) as browser:
        report = browser.render(given.url, given.out, timeout=given.timeout, dark=given.dark, axe=given.axe)
    print(json.dumps(asdict(report), indent=2))
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
