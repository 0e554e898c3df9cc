"""The documents match the programs, and their links lead to existing files."""

from __future__ import annotations

import re
import sys

from harness import CHECKOUT, run


def test_the_reference_is_what_the_programs_say() -> None:
    done = run([sys.executable, str(CHECKOUT / "docs/generate.py"), "--check"])
    assert done.status == 0, done.err


def test_links_lead_somewhere() -> None:
    missing = []
    for page in [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("*/README.md"), *CHECKOUT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            if not (page.parent / target).exists():
                missing.append(f"{page.relative_to(CHECKOUT)}: {target}")
    assert not missing, missing


def test_a_folders_readme_fits_one_screen() -> None:
    for folder in ("capture", "flink-jobs", "schemas", "clickhouse", "superset", "stack", "tests", "docs"):
        lines = (CHECKOUT / folder / "README.md").read_text().splitlines()
        assert len(lines) <= 60, f"{folder}/README.md has {len(lines)} lines"
