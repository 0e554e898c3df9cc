"""The result of `make mutants PART=jobs`: by package, how many changes of the jobs their tests notice.

PIT writes `.weir/mutants/jobs/mutations.xml`; this prints the table and writes `survivors.txt` beside it: the changes
that no test noticed or reached.
"""

from __future__ import annotations

import collections
import sys
from pathlib import Path
from xml.etree import ElementTree

FOLDER = Path(__file__).resolve().parents[2] / ".weir/mutants/jobs"
ROOT = "io.weir.jobs"
#: Outcomes of a change that a test noticed: it failed, took too long, or broke the process.
NOTICED = {"KILLED", "TIMED_OUT", "MEMORY_ERROR", "RUN_ERROR"}


def table(folder: Path) -> str:
    """One line for each package and one for all; writes the survivors.

    Raises SystemExit if PIT wrote no result.
    """
    report = folder / "mutations.xml"
    if not report.exists():
        raise SystemExit(f"PIT wrote no {report}")
    outcomes: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    survivors = []
    for change in ElementTree.parse(report).iter("mutation"):
        fields = {
            name: change.findtext(name, "") for name in ("mutatedClass", "mutatedMethod", "lineNumber", "description")
        }
        package = fields["mutatedClass"].rpartition(".")[0].removeprefix(ROOT).strip(".") or "(root)"
        status = change.get("status", "")
        outcome = "noticed" if status in NOTICED else "not reached" if status == "NO_COVERAGE" else "survived"
        for of in (package, "all"):
            outcomes[of][outcome] += 1
        if outcome != "noticed":
            name = fields["mutatedClass"].removeprefix(f"{ROOT}.")
            survivors.append(
                f"{name}:{int(fields['lineNumber']):4} {outcome:11} {fields['mutatedMethod']}: {fields['description']}"
            )
    (folder / "survivors.txt").write_text("".join(f"{line}\n" for line in sorted(survivors)))
    lines = [f"{'package':<14}{'made':>7}{'noticed':>9}{'survived':>10}{'not reached':>13}{'score':>8}"]
    for package, counts in sorted(outcomes.items(), key=lambda item: (item[0] == "all", item[0])):
        made = counts.total()
        lines.append(
            f"{package:<14}{made:>7}{counts['noticed']:>9}{counts['survived']:>10}{counts['not reached']:>13}"
            f"{100 * counts['noticed'] / made:>7.1f}%"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{table(FOLDER)}\nwithout a test that fails: {FOLDER / 'survivors.txt'}\n")
