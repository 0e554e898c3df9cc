"""The documents match the programs, and their links lead to existing files."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import documents
import generate
from harness import CHECKOUT
from weir.cli import app
from weir.config import Config, SignOn, Storage

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
    """The TTL of `counter_means`, which no configuration changes, is the default of the tier, and the page states
    it."""
    migration = (CHECKOUT / "clickhouse/migrations/0004_counters.sql").read_text()
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


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    """The files of the project."""
    return documents.project_files()


def test_make_has_the_targets_that_documents_name() -> None:
    known, named = documents.targets(), 0
    for page in documents.written():
        for words in page.commands("make"):
            for word in words:
                if re.fullmatch(r"[a-z][a-z-]*", word):
                    assert word in known, f"{page.path}: make {word}"
                    named += 1
    assert named > 40


def test_weir_has_the_commands_and_options_that_documents_name() -> None:
    whole: Any = typer.main.get_command(app)
    named = 0
    for page in documents.written():
        for words in page.commands("weir"):
            known = whole
            options = {name for one in known.params for name in one.opts}
            for word in words:
                bare = word.split("=")[0].strip("[]()…,.")
                commands = getattr(known, "commands", {})
                if bare in commands:
                    known = commands[bare]
                    options |= {name for one in known.params for name in (*one.opts, *one.secondary_opts)}
                    named += 1
                elif bare.startswith("--"):
                    assert bare in {*options, "--help"}, f"{page.path}: weir {' '.join(words)}"
                else:
                    # A group's own words are commands, a command's are its arguments.
                    wrong = commands and re.fullmatch(r"[a-z][a-z-]+", bare)
                    assert not wrong, f"{page.path}: weir {' '.join(words)}"
    assert named > 80


def test_documents_name_files_that_are_there(tracked: list[str]) -> None:
    missing, named = [], 0
    tops = {name.split("/")[0] for name in tracked if "/" in name}
    # Programs that `make build` makes, which may not have run.
    built = set(re.findall(r"^\w+ := (\S+/target/\S+)$", (CHECKOUT / "Makefile").read_text(), re.M))
    assert len(built) == 3
    for page in documents.written():
        for span in page.spans:
            if not re.fullmatch(r"[\w*][\w.*/-]*", span) or "NNNN" in span:
                continue
            if span.endswith(documents.SOURCES) or (span.split("/")[0] in tops and "/" in span):
                named += 1
                known = span in built or documents.is_file(span.rstrip("/"), page.path, tracked)
                if not known and not (CHECKOUT / span).exists():
                    missing.append(f"{page.path.relative_to(CHECKOUT)}: {span}")
    assert not missing, "\n".join(missing)
    assert named > 200


def test_pages_on_extending_name_what_the_sources_have(tracked: list[str]) -> None:
    suffixes = (*documents.SOURCES, ".toml", ".yaml", ".xml", "Makefile")
    code = [CHECKOUT / name for name in tracked if name.endswith(suffixes) and (CHECKOUT / name).is_file()]
    words = set(re.findall(r"\w+", " ".join(path.read_text(errors="replace") for path in code)))
    missing, named = [], 0
    for page in documents.pages("docs/how-to/extend/*.md"):
        for span in page.spans:
            for name in re.findall(r"[A-Za-z_]\w{3,}", span if re.fullmatch(r"[\w.:()]+", span) else ""):
                named += 1
                if name not in words:
                    missing.append(f"{page.path.name}: {span}")
    assert not missing, "\n".join(missing)
    assert named > 60


def test_links_lead_to_headings_that_are_there() -> None:
    every = documents.pages("*.md", "*/README.md", "docs/**/*.md")
    anchors, named = {page.path: page.anchors() for page in every}, 0
    for page in every:
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)#([^)]+)\)", page.text):
            place = (page.path.parent / target).resolve() if target else page.path
            assert anchor in anchors[place], f"{page.path}: {target}#{anchor}"
            named += 1
    assert named > 5


def test_examples_of_the_configuration_are_valid() -> None:
    checked = 0
    for page in documents.written():
        for block in page.blocks:
            try:
                tree = yaml.safe_load(block)
            except yaml.YAMLError:
                continue
            if isinstance(tree, dict) and set(tree) & set(Config.model_fields) and ":\n" in block:
                Config.model_validate(tree)
                checked += 1
        for key in page.spans:
            part, _, name = key.partition(".")
            if part in Config.model_fields and re.fullmatch(r"[a-z_]+", name) and part != "agents":
                known = SignOn if part == "sign_on" else type(Config.model_fields[part].default)
                assert name in known.model_fields, f"{page.path}: {key}"
                checked += 1
    assert checked > 6


def test_what_documents_name_is_found() -> None:
    page = documents.Page(
        CHECKOUT / "none.md",
        "# A `b`: c\n\nSee `make x` and `stack/bin/weir up --detach`.\n\n    $ T=1 make y Z=2   # make no\n\n    weir a \\\n      b | weir c\n\n```sh\nmake fenced\n```\n",
    )
    assert sorted(page.commands("make")) == [["fenced"], ["x"], ["y", "Z=2"]]
    assert list(page.commands("weir")) == [["up", "--detach"], ["a", "b"], ["c"]]
    assert page.anchors() == {"a-b-c"}
    assert documents.is_file("lib/harness.py", page.path, ["tests/lib/harness.py"])
    assert not documents.is_file("ib/harness.py", page.path, ["tests/lib/harness.py"])
