"""Looks at a running stack as its user does: the pages of the tour, one question of a page, one in SQL. Run it with the stack's
Python in its checkout; prints JSON. Raises AssertionError if something does not answer.
"""

from __future__ import annotations

import json
import os

from viewers import DASHBOARDS, Viewer
from weir.clickhouse import connect
from weir.config import load


def main() -> None:
    """Look, and print what was found."""
    stack = load(None)
    os.umask(0o077)
    viewer = Viewer(stack.superset_url, stack.home / "data/superset")
    pages = {slug: viewer.client.get(f"/superset/dashboard/{slug}/") for slug in DASHBOARDS}
    assert not {slug: page.status_code for slug, page in pages.items() if page.status_code != 200}
    (row,) = connect(stack, "analyst").rows(
        "SELECT sum(packets) AS packets, uniq(src) AS hosts FROM v_flows WHERE probe = 'demo'"
    )
    ports = stack.config.ports
    print(json.dumps({"pages": len(pages), **row, "dashboards": ports.superset, "store": ports.clickhouse}))


if __name__ == "__main__":
    main()
