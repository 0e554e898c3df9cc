"""The SQL of a dataset, as Superset sends it to the store: its templates are filled in by Superset's own library, which is
in Superset's environment only.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

SUPERSET = Path(__file__).resolve().parents[1]
VENVS = Path(os.environ.get("WEIR_VENVS", SUPERSET.parent / ".weir/venvs"))


def rendered(name: str, begin: int, end: int, **filters: list[str]) -> str:
    """The SQL of a dataset for a time range, seconds from 1970, and the values chosen for its filters."""
    return _rendered(name, begin, end, json.dumps(filters))


@functools.cache
def _rendered(name: str, begin: int, end: int, filters: str) -> str:
    command = [str(VENVS / "superset/bin/python"), __file__, name, str(begin), str(end), filters]
    return subprocess.run(command, env={"PYTHONPATH": str(SUPERSET)}, check=True, capture_output=True, text=True).stdout


def _main(name: str, begin: str, end: str, filters: str) -> None:
    import jinja2

    import weir_assets
    import weir_templates

    chosen: dict[str, list[str]] = json.loads(filters)
    text = (weir_assets.FOLDER / f"datasets/weir/{name}.sql").read_text()
    begun, ended = (datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%S") for moment in (begin, end))
    print(
        jinja2.Template(text).render(
            weir_templates.FUNCTIONS,
            filter_values=lambda column: chosen.get(column, []),
            from_dttm=begun,
            to_dttm=ended,
        )
    )


if __name__ == "__main__":
    _main(*sys.argv[1:])
