"""The next step, at the top of each page of an installation that has nothing to show there yet."""

from __future__ import annotations

import threading
import time
from typing import Any

#: What the store holds: enrolled probes (the first three names), stored flows, declared customers, flows with a known AS.
_ASKED = """
SELECT (SELECT arrayStringConcat(arraySlice(groupArray(probe), 1, 3), ', ') FROM (SELECT probe FROM v_probes ORDER BY probe)) AS probes,
    (SELECT count() FROM (SELECT 1 FROM v_flows LIMIT 1)) AS flows, (SELECT count() FROM v_customers) AS customers,
    (SELECT count() FROM v_autonomous_systems) AS systems
"""
#: Seconds for which an answer holds, and one that nothing is missing from.
_HOLDS, _COMPLETE_HOLDS = 20, 600
#: Height of the text's row, in Superset's units of 8 pixels.
_HEIGHT = 8

_ENROL = (
    "**No probe is enrolled yet, so there is nothing to show.** On this machine: `weir probe add NAME --bundle NAME.bundle`. "
    "On the probe: `weir-probe enrol NAME.bundle`, then `weir-probe run`. The first numbers come a minute later. "
    "To look around before: `make demo`."
)
_START = (
    "**Nothing has arrived from {probes} yet.** Does the agent run there (`weir-probe run`), and may it log in? `weir status` says how "
    "each service is, `weir ledger` what each probe reported, and `weir doctor` what is wrong on this machine. The first numbers come a "
    "minute after the first packet."
)
_CUSTOMERS = (
    '**No customer is declared yet, so this page is empty.** `weir prefixes set 192.0.2.0/24 --customer "Fjord Power" --national` declares '
    "one; it holds for the records that arrive from then on."
)
_SYSTEMS = (
    "**No network (AS) is known: the lists of networks and countries are empty.** Name files in MaxMind's format as `flink.as_database` and "
    "`flink.country_database` in weir.yaml, then `weir up`."
)


def next_step(held: dict[str, Any], page: str) -> str:
    """What to do before this page (its slug) has something to show, as Markdown; empty if nothing is to be done. `held` has the
    columns of the question above."""
    if not held["flows"]:
        # A customer learns no probe's name.
        named = "any probe" if page == "customer" else held["probes"]
        return _START.format(probes=named) if held["probes"] else _ENROL
    if page == "customer" and not held["customers"]:
        return _CUSTOMERS
    if page == "nation" and not held["systems"]:
        return _SYSTEMS
    return ""


def above(layout: dict[str, Any], text: str) -> dict[str, Any]:
    """Superset's layout with this text (Markdown) in a row of its own above the others; `layout` stays as it is."""
    if "GRID_ID" not in layout:
        return layout
    grid = layout["GRID_ID"]
    row = next(iter(grid["children"]))
    cell = next(one for one in layout[row]["children"] if layout[one]["type"] == "MARKDOWN")
    ours, within = "ROW-next-step", "MARKDOWN-next-step"
    meta = {**layout[cell]["meta"], "code": text, "width": 12, "height": _HEIGHT}
    return {
        **layout,
        "GRID_ID": {**grid, "children": [ours, *grid["children"]]},
        ours: {**layout[row], "id": ours, "children": [within]},
        within: {**layout[cell], "id": within, "meta": meta, "parents": ["ROOT_ID", "GRID_ID", ours]},
    }


class Known:
    """What the store holds, asked seldom: each page that is opened needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, Any] | None = None
        self._until = 0.0

    def held(self) -> dict[str, Any] | None:
        """The columns of the question; None if the store did not answer."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._held = _ask()
                complete = self._held is not None and all(self._held.values())
                self._until = time.monotonic() + (_COMPLETE_HOLDS if complete else _HOLDS)
            return self._held


def _ask() -> dict[str, Any] | None:
    from superset import db
    from superset.models.core import Database

    import weir_assets

    try:
        uuid = weir_assets.uuid_of("databases", weir_assets.DATABASE)
        found = db.session.query(Database).filter_by(uuid=uuid).one().get_df(_ASKED)
        return dict(found.iloc[0])
    except Exception:  # Whatever keeps the store from answering, the page's charts say it.
        return None
