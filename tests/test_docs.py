"""The documents match the programs, and their links lead to existing files."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

import pytest
import yaml

import generate
from harness import CHECKOUT
from weir.config import Storage

#: Files that every project of their language has.
PACKAGING = {
    "README.md",
    "Cargo.toml",
    "Cargo.lock",
    "rustfmt.toml",
    "build.rs",
    "requirements.in",
    "requirements.txt",
} | {
    "__init__.py",
    "__main__.py",
}


@pytest.mark.parametrize("page", generate.PAGES)
def test_the_reference_is_what_the_programs_say(page: str) -> None:
    if reason := generate.outdated(page):
        pytest.skip(reason)
    assert (generate.REFERENCE / page).read_text() == generate.PAGES[page](), "make docs"


@pytest.mark.parametrize("page", generate.PROGRAMS)
def test_a_program_older_than_its_sources_is_not_asked(page: str, tmp_path: Path) -> None:
    shutil.copy(CHECKOUT / "Makefile", tmp_path)
    program = tmp_path / generate.PROGRAMS[page]
    sources = tmp_path / program.relative_to(tmp_path).parts[0] / "src"
    program.parent.mkdir(parents=True)
    sources.mkdir()
    (sources / "kept").touch()
    assert "absent" in generate.outdated(page, tmp_path)

    def build() -> None:
        for built in generate.PROGRAMS.values():
            if (tmp_path / built).parent.exists():
                (tmp_path / built).touch()
        later = time.time() + 10
        os.utime(program, (later, later))
        assert not generate.outdated(page, tmp_path)

    build()
    for source in (sources / "kept", sources):
        later = time.time() + 20
        os.utime(source, (later, later))
        assert "make build" in generate.outdated(page, tmp_path)
        os.utime(source)
        build()


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


def test_the_page_on_retention_has_every_tier_with_its_age() -> None:
    tiers = yaml.safe_load((CHECKOUT / "clickhouse/retention.yaml").read_text())
    page = (CHECKOUT / "docs/how-to/keep-the-store.md").read_text()
    shown = {
        name: (set(re.findall(r"`(\w+)`", tables)), kept)
        for name, tables, kept in re.findall(r"^\| (\w+) \| (`.*?) \| (.*?) \|", page, re.M)
    }
    defaults = Storage().model_dump()
    assert {name: kept for name, (_, kept) in shown.items()} == {
        name: f"{defaults[tier['days']]:,.0f} days" if "days" in tier else "for ever" for name, tier in tiers.items()
    }
    for name, (tables, _) in shown.items():
        assert tables <= set(tiers[name]["tables"]), name


def test_means_of_counters_go_no_earlier_than_other_windows() -> None:
    """Their table's TTL, which no configuration changes, is the default of the tier, and the page states it."""
    migration = (CHECKOUT / "clickhouse/migrations/0012_filters.sql").read_text()
    ttl = re.search(r"counter_means\b.*?INTERVAL (\d+) DAY", migration, re.S)
    assert ttl
    assert int(ttl[1]) == Storage().window_days
    assert f"for {ttl[1]} days at most" in (CHECKOUT / "docs/how-to/filter-sets.md").read_text()


def test_a_folders_readme_names_its_files() -> None:
    missing = []
    for folder, patterns in {
        "capture": ["*.*"],
        "schemas": ["*.*"],
        "stack": ["*.*", "weir/*.py", "tests"],
        "tests": ["*.*", "*/*.*"],
    }.items():
        readme = (CHECKOUT / folder / "README.md").read_text()
        files = [path for pattern in patterns for path in (CHECKOUT / folder).glob(pattern) if path.name[0] != "."]
        assert len(files) > 5, folder
        missing += [
            f"{folder}/README.md: {path.name}"
            for path in files
            if path.name not in readme and path.name not in PACKAGING and "cache" not in str(path).lower()
        ]
    assert not missing, missing
