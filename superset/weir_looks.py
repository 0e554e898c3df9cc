"""Appearance: name, logo, colours, and number formats."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import weir_assets

#: Front page of a visitor.
FRONT_PAGE = "/superset/dashboard/now/"
APP_NAME = "Weir"
_PRIMARY = "#1F8FB0"
#: Of text on white and on light grey: a contrast of more than 5 to 1 (WCAG asks 4.5), where that of the logo has less.
_INK = "#15718D"


def _wordmark(ink: str) -> str:
    """The logo as a data address: water falling over a weir, and the name in `ink`."""
    return "data:image/svg+xml," + quote(
        '<svg xmlns="http://www.w3.org/2000/svg" width="96" height="32" viewBox="0 0 96 32">'
        f'<g fill="none" stroke="{_PRIMARY}" stroke-width="2.6" stroke-linecap="round">'
        '<path d="M2 8h11c5 0 5 9 10 9h7M2 13h8c5 0 5 9 10 9h10M2 18h5c5 0 5 9 10 9h13"/></g>'
        f'<path d="M14 29V12l5 5v12z" fill="{ink}" fill-opacity=".9"/>'
        '<text x="36" y="23" font-family="Inter,Helvetica,Arial,sans-serif" font-size="22" font-weight="600" '
        f'fill="{ink}">Weir</text></svg>'
    )


_SPINNER = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" viewBox="0 0 40 40" fill="none" stroke="#1F8FB0" '
    'stroke-width="4" stroke-linecap="round"><path d="M20 5a15 15 0 0 1 15 15"><animateTransform attributeName="transform" '
    'type="rotate" from="0 20 20" to="360 20 20" dur="1s" repeatCount="indefinite"/></path></svg>'
)
APP_ICON = _wordmark("#1d3f4d")
_TOKENS: dict[str, Any] = {
    "brandAppName": APP_NAME,
    "brandLogoAlt": APP_NAME,
    "brandLogoUrl": APP_ICON,
    "brandLogoHref": FRONT_PAGE,
    "brandLogoHeight": "28px",
    "brandLogoMargin": "14px 0",
    "brandIconMaxWidth": 96,
    "brandSpinnerSvg": _SPINNER,
    "colorPrimary": _INK,
    "colorLink": _INK,
    "colorTextPlaceholder": "#5C6970",
    "colorError": "#CF4B47",
    "colorWarning": "#E89B2E",
    "colorSuccess": "#4FA974",
    "fontUrls": [],
    "fontFamily": "Inter, Helvetica, Arial, sans-serif",
}
_DARK_TOKENS = {
    "brandLogoUrl": _wordmark("#dfeaf0"),
    "colorPrimary": "#3FB1D2",
    "colorLink": "#5CC3E0",
    "colorTextPlaceholder": "#A3B2BA",
    "colorBgBase": "#10191f",
}
# Follows the browser's preference for dark colours; the switch at the top overrides it.
THEME_DEFAULT = {"token": _TOKENS, "algorithm": "default"}
THEME_DARK = {"token": _TOKENS | _DARK_TOKENS, "algorithm": "dark"}
# Eleven colours that are distinct on white and on the dark ground, for most colour-blind readers too.
EXTRA_CATEGORICAL_COLOR_SCHEMES = [
    {
        "id": weir_assets.COLORS,
        "description": "",
        "label": "Weir",
        "isDefault": True,
        "colors": [
            "#1F8FB0", "#E89B2E", "#4FA974", "#8E6BB0", "#CF4B47", "#7CC4DA",
            "#B98B4A", "#93CDA6", "#C3AEDA", "#E58A87", "#6C7F89",
        ],
    }
]  # fmt: skip
EXTRA_SEQUENTIAL_COLOR_SCHEMES = [
    {
        "id": weir_assets.COLORS,
        "description": "",
        "isDiverging": False,
        "label": "Weir",
        "isDefault": True,
        "colors": ["#D5ECF3", "#9FD3E3", "#63B5CE", "#1F8FB0", "#146680", "#0B3F51"],
    }
]
# "$" in a number format is the place of a currency; no money is shown here, so it carries the unit of rates.
D3_FORMAT = {"decimal": ".", "thousands": ",", "grouping": [3], "currency": ["", "bit/s"]}
