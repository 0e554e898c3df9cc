"""A prepared Superset without a store, shared by the tests that only need its addresses and its users."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PYTHON = Path(os.environ.get("WEIR_VENVS", CHECKOUT / ".weir/venvs")) / "superset/bin/python"
SCRIPT = CHECKOUT / "superset/weir_superset.py"
#: Password of the administrator.
ADMIN = "the-administrator's"


def environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a Superset whose state is in `home`."""
    return {
        **os.environ,
        "WEIR_SUPERSET_HOME": str(home),
        "WEIR_SUPERSET_SECRET_KEY": "k",
        "WEIR_SUPERSET_ADMIN_PASSWORD": ADMIN,
        "WEIR_PASSWORD_DASHBOARD": "d",
        "WEIR_CLICKHOUSE_PORT": "1",
        **more,
    }


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state after `init`; copy it to change it."""
    home = tmp_path_factory.mktemp("prepared") / "home"
    command: list[str | Path] = [PYTHON, SCRIPT, "init"]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture
def home(prepared: Path, tmp_path: Path) -> Path:
    """A copy of the prepared state."""
    return Path(shutil.copytree(prepared, tmp_path / "home"))
