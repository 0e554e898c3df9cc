"""Write `docs/reference` from its sources: schemas, topics, tables, and each program's own help.

`python docs/generate.py` writes the pages; `--check` only names the pages that would change and exits with status 1 if
there are any. Neither asks a program that is older than its sources.
"""

from __future__ import annotations

import argparse
import html
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import yaml
from google.protobuf import descriptor_pb2

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT / "schemas"))
import flow_columns  # noqa: E402

REFERENCE = CHECKOUT / "docs/reference"
AGENT = "capture/target/release/weir-probe"
BENCH = "capture/target/release/weir-bench"
JOBS = "flink-jobs/target/weir-flink-jobs.jar"
#: The programs that print a page: what `make build` compiles.
PROGRAMS = {"weir-probe.md": AGENT, "weir-bench.md": BENCH, "flink-jobs.md": JOBS}
VENVS = Path(os.environ.get("WEIR_VENVS", CHECKOUT / ".weir/venvs"))
NOTE = "<!-- Written by docs/generate.py from {}; do not edit. -->\n\n"
TYPES = {
    number: name.removeprefix("TYPE_").lower() for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}


def schemas() -> str:
    """The page of messages: every message and field, with its comment."""
    columns = flow_columns.by_field()
    text = NOTE.format("schemas/*.proto") + "# Messages\n\nWhat travels over Kafka, as protobuf (package `weir.v1`).\n"
    for one in flow_columns.compiled("--include_source_info"):
        comments = {
            tuple(place.path): (place.leading_comments or place.trailing_comments).strip()
            for place in one.source_code_info.location
        }
        detached: list[str] = next(
            (place.leading_detached_comments for place in one.source_code_info.location if tuple(place.path) == (12,)),
            [],
        )
        head = comments.get((12,), "") or "\n".join(detached)
        text += f"\n## {one.name}\n\n" + "\n".join(line.removeprefix(" ") for line in head.splitlines()) + "\n"
        for index, message in enumerate(one.message_type):
            text += _message(message, (4, index), comments, 3, columns)
        for index, enum in enumerate(one.enum_type):
            text += _enum(enum, (5, index), comments, 3)
    return text


def _flat(comment: str) -> str:
    return " ".join(comment.split()).replace("|", "\\|")


def _message(
    message: descriptor_pb2.DescriptorProto,
    place: tuple[int, ...],
    comments: dict[tuple[int, ...], str],
    depth: int,
    columns: dict[tuple[str, str], flow_columns.Column],
) -> str:
    if message.options.map_entry:
        return ""
    text = f"\n{'#' * depth} {message.name}\n\n{_flat(comments.get(place, ''))}\n"
    stored = any(name == message.name for name, _ in columns)
    text += f"\n| number | field | type |{' column of `flows` |' if stored else ''} meaning |\n|---|---|---|{'---|' if stored else ''}---|\n"
    maps = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    for index, field in enumerate(message.field):
        kind = field.type_name.rsplit(".", 1)[-1] or TYPES[field.type]
        if kind in maps:
            key, value = maps[kind].field
            kind = f"map of {TYPES[key.type]} to {TYPES[value.type]}"
        elif field.label == field.LABEL_REPEATED:
            kind = f"repeated {kind}"
        column = columns.get((message.name, field.name))
        where = f" `{column.name}` |" if column else " |" if stored else ""
        text += f"| {field.number} | `{field.name}` | {kind} |{where} {_flat(comments.get((*place, 2, index), ''))} |\n"
    for index, nested in enumerate(message.nested_type):
        text += _message(nested, (*place, 3, index), comments, depth + 1, columns)
    for index, enum in enumerate(message.enum_type):
        text += _enum(enum, (*place, 4, index), comments, depth + 1)
    return text


def _enum(
    enum: descriptor_pb2.EnumDescriptorProto, place: tuple[int, ...], comments: dict[tuple[int, ...], str], depth: int
) -> str:
    text = f"\n{'#' * depth} {enum.name}\n\n{_flat(comments.get(place, ''))}\n\n| number | value | meaning |\n|---|---|---|\n"
    for index, value in enumerate(enum.value):
        text += f"| {value.number} | `{value.name}` | {_flat(comments.get((*place, 2, index), ''))} |\n"
    return text


def topics() -> str:
    """The page of topics."""
    text = (
        NOTE.format("schemas/topics.yaml")
        + "# Topics\n\n| topic | message | partitions | contents | configuration |\n|---|---|---|---|---|\n"
    )
    for topic in yaml.safe_load((CHECKOUT / "schemas/topics.yaml").read_text())["topics"]:
        configuration = ", ".join(f"`{key}={value}`" for key, value in topic["config"].items())
        text += f"| `{topic['name']}` | `{topic['message']}` | {topic['partitions']} | {topic['what']} | {configuration} |\n"
    return text


def tables() -> str:
    """Tables and views with the comments of their columns, read from the engine after all migrations."""
    python = VENVS / "clickhouse/bin/python"
    return NOTE.format("clickhouse/migrations") + _run(
        [str(python), "-m", "weir_clickhouse", "tables-md", str(CHECKOUT / "clickhouse/migrations")],
        CHECKOUT / "clickhouse/embedded",
    )


def weir() -> str:
    """The page of the command `weir`."""
    shown = _run([sys.executable, "-m", "typer", "weir.cli", "utils", "docs", "--name", "weir"], CHECKOUT / "stack")
    return NOTE.format("stack/weir/cli.py") + html.unescape(shown).replace("# `weir`", "# The command `weir`", 1)


def weir_probe() -> str:
    """The page of the agent."""
    return NOTE.format("`weir-probe docs`") + _run([str(CHECKOUT / AGENT), "docs"])


def weir_bench() -> str:
    """The agent's benchmarks."""
    shown = _run([str(CHECKOUT / BENCH), "docs"])
    return (
        NOTE.format("`weir-bench docs`")
        + "# weir-bench\n\nBenchmarks of the agent, and loads for those of the rest.\n\n"
        + shown
    )


def flink_jobs() -> str:
    """The page of the jobs."""
    return NOTE.format("the jobs' `--docs`") + _run(["java", "-jar", str(CHECKOUT / JOBS), "--docs"])


def configuration() -> str:
    """The page of the configuration files, as their commented examples."""
    text = NOTE.format("the commented examples") + "# Configuration\n"
    for title, path, language in (
        ("The stack: `weir.yaml`", "stack/weir.example.yaml", "yaml"),
        ("The agent: `weir-probe.toml`", "capture/weir-probe.example.toml", "toml"),
        ("Users and roles: `access.yaml`", "clickhouse/access.yaml", "yaml"),
    ):
        text += f"\n## {title}\n\n```{language}\n{(CHECKOUT / path).read_text().rstrip()}\n```\n"
    return text


def outdated(page: str, checkout: Path = CHECKOUT) -> str:
    """Why the program that prints this page must be built first; empty if it is up to date, or there is none."""
    program = PROGRAMS.get(page)
    if program is None:
        return ""
    # Options of a make that runs this are not for that one.
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    asked = subprocess.run(
        ["make", "--question", program], cwd=checkout, env=environment, capture_output=True, check=False
    )
    return f"{program} is absent or older than its sources: make build" if asked.returncode else ""


def _run(command: list[str], python_path: Path | None = None) -> str:
    environment = os.environ | ({"PYTHONPATH": str(python_path)} if python_path else {})
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.rstrip() + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "messages.md": schemas,
    "topics.md": topics,
    "tables.md": tables,
    "weir.md": weir,
    "weir-probe.md": weir_probe,
    "weir-bench.md": weir_bench,
    "flink-jobs.md": flink_jobs,
    "configuration.md": configuration,
}


def main() -> None:
    """Write or check every page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with status 1 if a page is stale")
    options = parser.parse_args()
    for reason in filter(None, map(outdated, PAGES)):
        raise SystemExit(reason)
    stale = []
    for name, page in PAGES.items():
        path, text = REFERENCE / name, page()
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not options.check:
                path.write_text(text)
    if options.check and stale:
        raise SystemExit(f"stale: {', '.join(stale)}; run 'make docs'")
    print(f"written: {', '.join(stale)}" if stale else "nothing new")


if __name__ == "__main__":
    main()
