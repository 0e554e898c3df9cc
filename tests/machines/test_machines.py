"""First runs on other machines: each works, or says in one sentence what to do. `docs/explanation/machines.md` is their table."""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path

from machine import BARE, PLACE, STOP, UP, USER, Done, Machine, clone, keep, machine, until

BALANCED = "the ledger balances: every packet is accounted for"
SEED = int(os.environ.get("WEIR_SEED", "1"))
#: The share of a demo within which moments of interrupts are drawn (s).
MOMENTS = 45
DEMO = "make demo ONCE=1"
#: How make ends after Ctrl-C: with the status of the demo, or by the signal.
ENDED = (0, 130)


def worked(done: Done) -> str:
    """What came of a demo that must have worked, for the table."""
    assert done.status == 0, done.shown[-6000:]
    packets = re.search(r"([\d,]+)$", done.line("✔ at least"))
    assert packets
    assert done.line(BALANCED).startswith("✔")
    return f"works: {packets[1]} packets, none lost"


def row(name: str, one: Machine, done: Done, came: str, typed: str = "make demo") -> None:
    """Keep and print a row."""
    started = one.peak > 1 << 30
    print(keep(name, typed, came, done.seconds, one.peak if started else 0, one.disk() if started else 0))
    one.peak = 0


def sentence(done: Done, part: str, hint: str) -> str:
    """The sentence and the hint with which a command ended; there is no traceback."""
    assert done.status not in (0, 130), done.shown[-6000:]
    assert "Traceback" not in done.shown
    assert "Exception in" not in done.shown
    said = f"{done.line(part)}; {done.line(hint)}" if hint else done.line(part)
    return f"says: {said}"


def test_a_user_with_nothing(built: Path) -> None:
    """No sudo, no capability, and none of the programs that only root needs."""
    with machine(built, "--security-opt", "no-new-privileges") as one:
        one.said("rm $(readlink -f $(command -v ping ethtool ip sudo))")
        before = {*one.written()}
        began = time.monotonic()
        with one.begin("make demo", f"{STOP}:ctrl-c") as process:
            shown = until(process, UP)
            up = time.monotonic() - began
            found = one.look()
            one.stop()
            rest, _ = process.communicate(timeout=120)
        assert process.returncode in ENDED
        done = Done(shown + rest, 0, up)
        came = worked(done)
        assert found["pages"] >= 8
        assert found["packets"] > 10_000
        named = [done.line("No live traffic"), done.line("left out, as installing takes root: ")]
        assert "this takes root" in named[0]
        assert all(word in named[1] for word in ("ip", "ping", "ethtool"))
        assert not one.ended()
        assert not {*one.written()} - before
        row("a user with nothing", one, done, f"{came}, {found['pages']} pages; {named[1]}; {named[0]}")
        gone = one.run("make uninstall YES=1")
        assert gone.status == 0, gone.shown
        assert one.said("ls -d .weir capture/target flink-jobs/target 2>/dev/null || true") == ""
        assert one.said("git status --porcelain", USER) == ""
        assert not {*one.written()} - before
        row("the same, afterwards", one, gone, "removed all that it names", "make uninstall YES=1")


def test_root_of_an_ordinary_container_and_then_a_user(built: Path) -> None:
    with machine(built) as one:
        done = one.run(DEMO, user="root")
        said = done.line("No live traffic")
        assert "Operation not permitted" in said
        row("root without CAP_NET_ADMIN", one, done, f"{worked(done)}; {said}", DEMO)
        assert not one.ended()
        after = one.run(DEMO)
        came = sentence(after, "belongs to root", "chown")
        row("a user, after root ran it", one, after, came, DEMO)
        one.said(after.line("chown").split("then: ")[1].removeprefix("sudo "))
        again = one.run(DEMO)
        row("the same, after doing that", one, again, worked(again), DEMO)


def test_sudo_in_between(built: Path) -> None:
    with machine(built) as one:
        one.said(f"echo '{USER} ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/{USER}")
        before = {*one.written()}
        first = one.run(f"sudo {DEMO}")
        row("a user with sudo", one, first, worked(first), f"sudo {DEMO}")
        then = one.run(DEMO)
        row("the same user without it", one, then, worked(then), DEMO)
        assert one.said("find . -user root -print -quit") == ""
        assert not {*one.written()} - before


ODD = f"/home/{USER}/my weir ø"


def test_a_path_with_a_space_and_letters_beyond_ascii(built: Path, tmp_path: Path) -> None:
    env = {"LC_ALL": "C", "TZ": "Asia/Kathmandu"}
    with machine(built, place=ODD) as one:
        before = {*one.written()}
        done = one.run(DEMO, env=env)
        row("a path with a space and ø, LC_ALL=C, Asia/Kathmandu", one, done, worked(done), DEMO)
        assert not one.ended()
        assert not {*one.written()} - before
    clone(tmp_path / "weir")
    with machine(tmp_path / "weir", place=ODD) as one:
        refused = one.run("make demo")
        came = sentence(refused, "librdkafka cannot be built in a path with a space", "")
        row("the same, nothing built", one, refused, came)


def test_two_stacks_side_by_side(built: Path) -> None:
    with machine(built) as one:
        began = time.monotonic()
        with one.begin("make demo", f"{STOP}:ctrl-c") as first:
            shown = until(first, UP)
            with one.begin("make demo NAME=lab") as second:
                other = until(second, UP)
                took = time.monotonic() - began
                moved = re.findall(r"(\w+ \d+) \(\d+ is taken\)", Done(other, 0, took).line("is taken)"))
                assert len(moved) >= 5
                lab = {"WEIR_HOME": f"{PLACE}/.weir/stacks/lab"}
                found = [one.look(), one.look(lab)]
                assert len({place["dashboards"] for place in found}) == 2
                assert len({place["store"] for place in found}) == 2
                assert str(found[1]["dashboards"]) in other
                came = f"both work; the second says: {', '.join(moved)}"
                row("two stacks side by side", one, Done(shown, 0, took), came, "make demo; make demo NAME=lab")
                gone = one.run("stack/bin/weir --name lab uninstall --yes")
                assert gone.status == 0, gone.shown
                assert "What is built stays: these stacks need it" in gone.shown
                second.communicate(timeout=120)
            assert one.look()["pages"] >= 8
            row("one of them removed", one, gone, gone.line("What is built stays"), "weir uninstall --yes")
            one.stop()
            first.communicate(timeout=120)
        assert not one.ended()
        again = one.run(DEMO)
        assert "✔" in again.line(BALANCED)


#: What a person may do to a demo, and what is then left of it.
ACTIONS = {
    "ctrl-c": ("Ctrl-C", "nothing is left"),
    "twice": ("Ctrl-C twice", "nothing is left"),
    "hangup": ("terminal closed", "nothing is left"),
    "kill": ("kill -9 of the command", "the next run stops what is left"),
}


def test_interrupts_at_any_moment(built: Path) -> None:
    drawn = random.Random(SEED)
    with machine(built) as one:
        for action, (name, left) in ACTIONS.items():
            moments = [round(drawn.uniform(1, MOMENTS), 1) for _ in range(2)]
            began = time.monotonic()
            for moment in moments:
                done = one.run("make demo", f"{moment}:{action}")
                assert f"{action}]" in done.shown, f"it ended before:\n{done.shown[-6000:]}"
                assert "Traceback" not in done.shown, done.shown[-6000:]
                assert "already up" not in done.shown
                if action != "kill":
                    assert not one.ended(), f"after {moment} s: {done.shown[-3000:]}"
            said = " and ".join(f"{moment:g} s" for moment in moments)
            row(f"{name} after {said}", one, Done("", 0, time.monotonic() - began), left)
        again = one.run(DEMO)
        row("after all these", one, again, worked(again), DEMO)
        assert not one.ended()


def test_full_disk(built: Path) -> None:
    with machine(built, "--tmpfs", "/small:size=64m,mode=1777", "--tmpfs", "/larger:size=700m,mode=1777") as one:
        done = one.run(DEMO, env={"WEIR_HOME": "/small/weir"})
        row(
            "64 MB of disk",
            one,
            done,
            sentence(done, "not enough room on the disk", "WEIR_HOME"),
            f"WEIR_HOME=/small/weir {DEMO}",
        )
        began = time.monotonic()
        with one.begin(DEMO, env={"WEIR_HOME": "/larger/weir"}) as process:
            while "weir." not in one.said("ls /larger/weir/data/kafka 2>/dev/null || true"):
                time.sleep(0.5)
            one.said("cat /dev/zero >/larger/taken || true", USER)
            shown, _ = process.communicate(timeout=600)
        done = Done(shown, process.returncode, time.monotonic() - began)
        row("a disk that fills up meanwhile", one, done, sentence(done, "the disk is full", "WEIR_HOME"), DEMO)
        assert not one.ended()


def test_four_gibibytes_of_memory(built: Path) -> None:
    with machine(built, "--memory", "4g", "--memory-swap", "4g") as one:
        done = one.run(DEMO)
        said = [line for line in done.lines if "a stack takes" in line]
        row("4 GiB of memory", one, done, worked(done) + (f"; {said[-1]}" if said else ""), DEMO)


def test_from_nothing(tmp_path: Path) -> None:
    """Debian 12 with git and make, and empty caches; packages come from the registries that this machine uses."""
    clone(tmp_path / "weir")
    with machine(tmp_path / "weir", "--network", "host", place="/root/weir", image=BARE) as one:
        one.said("chown -R 0:0 .")
        done = one.plain(DEMO, 5400)
        row("from nothing: Debian 12 with git and make", one, done, worked(done), DEMO)
