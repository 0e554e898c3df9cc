"""What Superset's pages lack for some of their readers: a language, names of what has none, room on a narrow screen, and the next step
where there is nothing to show yet.
"""

from __future__ import annotations

import json
import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import weir_first_steps

#: `tail_js_custom_extra.html`, which Superset includes in every page, replaces Superset's empty one.
TEMPLATES = Path(__file__).resolve().parent / "templates"
#: The cookie by which that script says that the screen is narrow: `wide` or `narrow`.
COOKIE = "weir_screen"
_DASHBOARD = re.compile(r"/api/v1/dashboard/[^/]+$")
#: Of a text in a column as wide as a small phone: characters in a line, and height of a line, in Superset's units of 8 pixels.
_LINE, _LINE_HEIGHT, _PADDING = 38, 2.9, 6
#: Numbers of a row of cards.
_CARD_HEIGHT = 18


def attach(app: Any) -> None:
    """Give the pages a language, our script, the next step, and on a narrow screen one column."""
    from flask import request
    from flask_babel import get_locale
    from jinja2 import ChoiceLoader, FileSystemLoader
    from superset.extensions import security_manager
    from superset.views import api

    known = weir_first_steps.Known()

    # The filter asks what its words mean; charts read "Last day" as the 24 hours before now, and so must this answer.
    api.get_since_until = partial(api.get_since_until, relative_start="now", relative_end="now")

    app.jinja_env.loader = ChoiceLoader([FileSystemLoader(TEMPLATES), app.jinja_env.loader])

    def reads(response: Any) -> bool:
        # Who may change a page gets it as it is: saving it would keep what is added here.
        asked = request.method == "GET" and _DASHBOARD.fullmatch(request.path)
        found = response.status_code == 200 and response.is_json
        return bool(asked and found and not security_manager.can_access("can_write", "Dashboard"))

    @app.after_request  # type: ignore[untyped-decorator]
    def complete(response: Any) -> Any:
        if response.mimetype == "text/html" and not response.is_streamed:
            response.set_data(with_language(response.get_data(as_text=True), str(get_locale() or "en")))
        elif reads(response):
            body = response.get_json()
            layout = json.loads(body["result"]["position_json"] or "{}")
            held = known.held()
            if held and (text := weir_first_steps.next_step(held, body["result"]["slug"])):
                layout = weir_first_steps.above(layout, text)
            if request.cookies.get(COOKIE) == "narrow":
                layout = one_column(layout)
            body["result"]["position_json"] = json.dumps(layout)
            response.set_data(json.dumps(body))
        return response


def with_language(page: str, language: str) -> str:
    """The page whose <html> names its language, as screen readers need it."""
    return re.sub(r"<html(?![^>]*\blang=)", f'<html lang="{language.replace("_", "-")}"', page, count=1)


def one_column(layout: dict[str, Any]) -> dict[str, Any]:
    """Superset's layout with every cell in a row of its own, as wide as the page."""
    nodes = {name: dict(node) if isinstance(node, dict) else node for name, node in layout.items()}
    if "GRID_ID" not in nodes:
        return layout
    rows: list[str] = []
    for row in nodes["GRID_ID"]["children"]:
        for number, cell in enumerate(nodes[row]["children"]):
            name = row if number == 0 else f"{row}-{number}"
            nodes[name] = {**nodes[row], "id": name, "children": [cell]}
            rows.append(name)
            node = nodes[cell]
            height = node["meta"]["height"]
            if node["type"] == "MARKDOWN":
                lines = sum(math.ceil(max(1, len(_shown(line))) / _LINE) for line in node["meta"]["code"].splitlines())
                height = math.ceil(lines * _LINE_HEIGHT) + _PADDING
            elif height <= _CARD_HEIGHT + 4:
                height = _CARD_HEIGHT
            nodes[cell] = {
                **node,
                "parents": ["ROOT_ID", "GRID_ID", name],
                "meta": {**node["meta"], "width": 12, "height": height},
            }
    nodes["GRID_ID"]["children"] = rows
    return nodes


def _shown(line: str) -> str:
    """A line of Markdown as it is shown: links without their targets."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line).replace("*", "")
