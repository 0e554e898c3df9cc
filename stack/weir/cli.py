"""The command line of `weir`: the commands, their names and their order."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from weir import __version__, commands, disks, owners
from weir.commands import (
    asking,
    audit,
    dead_letters,
    keeping,
    machine,
    people,
    prefixes,
    privacy,
    probes,
    rules,
    running,
    showing,
    storage,
)
from weir.config import home, use_name
from weir.errors import WeirError

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run Weir on one machine, and query what happened on the network.\n\nExample: weir up, then weir sql 'SELECT count() FROM v_flows'",
    pretty_exceptions_enable=False,
)


def _group(name: str, text: str, *, alone: bool = False) -> typer.Typer:
    """A group of commands; with `alone` the group's own name is a command too."""
    group = typer.Typer(no_args_is_help=not alone, invoke_without_command=alone, help=text)
    app.add_typer(group, name=name)
    return group


def _version(wanted: bool) -> None:
    if wanted:
        print(f"weir {__version__}")
        raise typer.Exit


@app.callback()
def _global(
    config_file: Annotated[
        Path | None, typer.Option("--config", help="Configuration; default: $WEIR_HOME/weir.yaml.")
    ] = None,
    name: Annotated[
        str, typer.Option(help="Another stack beside the first one, in .weir/stacks/NAME.", metavar="NAME")
    ] = "",
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    commands.use(config_file)
    if name:
        use_name(name)


for command in (
    running.up, running.down, running.upgrade, people.customer, running.status, running.migrate, running.prepare,
    asking.sql, asking.ledger, asking.alerts, asking.nat,
    keeping.backup, keeping.restore, keeping.forget, privacy.reveal, showing.demo, machine.doctor, machine.uninstall,
):  # fmt: skip
    app.command()(command)

_probe = _group("probe", "Enrol probes. Example: weir probe add border --workers 4")
_probe.command("add")(probes.add)
_probe.command("set")(probes.set_)
_probe.command("rotate")(probes.rotate)
_probe.command("revoke")(probes.revoke)
_probe.command("remove")(probes.remove)
_probe.command("filters")(probes.filters)
_probe.command("list")(probes.list_)

_user = _group("user", "Personal accounts for the dashboards. Example: weir user add kari --role admin")
_user.command("add")(people.add)
_user.command("remove")(people.remove)
_user.command("unlock")(people.unlock)
_user.command("list")(people.list_)

_letters = _group("dead-letters", "Messages that a reader refused. Example: weir dead-letters list")
_letters.command("list")(dead_letters.list_)
_letters.command("replay")(dead_letters.replay)

_prefixes = _group(
    "prefixes",
    "Customers, sites and tags of address prefixes. Example: weir prefixes set 192.0.2.0/24 --customer 'Fjord Power'",
)
_prefixes.command("set")(prefixes.set_)
_prefixes.command("remove")(prefixes.remove)
_prefixes.command("list")(prefixes.list_)
_prefixes.command("import")(prefixes.import_)

_rules = _group("rules", "What the detectors take for an attack, and where. Example: weir rules set rules.yaml")
_rules.command("set")(rules.set_)
_rules.command("off")(rules.off)
_rules.command("list")(rules.list_)
_rules.command("detectors")(rules.detectors)

_storage = _group(
    "storage",
    "Size of the store, and when its disk is full. Example: weir storage, then weir storage keep",
    alone=True,
)
_storage.callback()(storage.show)
_storage.command("keep")(storage.keep)
_storage.command("roll-up")(storage.roll_up)
_storage.command("hours")(storage.write_hours)
_storage.command("plan")(storage.plan)

_audit = _group("audit", "Who asked what, from where. Example: weir audit show --since 1h, then weir audit verify")
_audit.command("show")(audit.show)
_audit.command("verify")(audit.verify)

_privacy = _group(
    "privacy",
    "The key of pseudonyms, and its shares. Example: weir privacy split --holder anna --holder ben --to shares",
)
_privacy.command("split")(privacy.split)
_privacy.command("translate")(privacy.translate)


def _say_if_the_disk_is_full() -> None:
    """Most likely that is why the command failed."""
    if disks.is_full(home()):
        disks.full(home()).show()


def main() -> None:
    """Entry point: prints every expected error as one line and ends with its exit status."""
    os.environ["LC_ALL"] = "C.UTF-8"  # Java names files by it
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        app(prog_name="weir")
    except SystemExit as end:
        if end.code:
            _say_if_the_disk_is_full()
        raise
    except WeirError as error:
        error.show()
        _say_if_the_disk_is_full()
        sys.exit(error.status)
    except PermissionError as refused:
        said = owners.explained(refused, home())
        if said is None:
            raise
        said.show()
        sys.exit(said.status)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as failed:
        said = disks.explained(failed, home())
        if said is None:
            raise
        said.show()
        sys.exit(said.status)
