"""Each test that SECURITY.md names for one of its sentences exists, and each row names one."""

from __future__ import annotations

import re

from harness import CHECKOUT


def test_each_sentence_names_tests_that_exist() -> None:
    text = (CHECKOUT / "SECURITY.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| what holds")]
    assert len(rows) > 20
    named = 0
    for row in rows:
        sentence, tests = (cell.strip() for cell in row.strip("|").rsplit("|", 1))
        assert sentence.endswith("."), sentence
        if tests == "the same":
            continue
        for part in tests.split(";"):
            file, *names = re.findall(r"`([^`]+)`", part)
            source = (CHECKOUT / file).read_text()
            assert names, f"no test for: {sentence}"
            for name in names:
                assert re.search(rf"\b(def|fn|void) {re.escape(name)}\(", source), f"{file} has no test {name}"
                named += 1
    assert named > 20
