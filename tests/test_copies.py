"""The sources do not repeat themselves more than before; removing a copy lowers the bound."""

from __future__ import annotations

from pathlib import Path

import pytest

import copies

#: Pairs of places that share six lines or more: all of them in migrations, which are never edited.
BOUND = 4
#: Pairs of files with lines alike but for names, strings and numbers; 16 of them are pairs of migrations.
ALIKE = 61


def test_the_sources_have_no_more_copies() -> None:
    found = copies.copies(copies.sources())
    listed = "\n".join(map(str, found))
    assert all("/migrations/" in one.first[0] and "/migrations/" in one.second[0] for one in found), listed
    assert len(found) <= BOUND, listed


def test_the_sources_have_no_more_files_alike() -> None:
    found = copies.alike(copies.sources())
    listed = "\n".join(map(" ".join, found))
    views = [pair for pair in found if all(name.endswith(".sql") and "/migrations/" not in name for name in pair)]
    assert not views, listed
    assert len(found) <= ALIKE, listed


def test_lines_alike_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "CHECKOUT", tmp_path)
    (tmp_path / "a.py").write_text("\n".join(f"count_{n} = add(first[{n}], 'a', second)" for n in range(copies.RUN)))
    (tmp_path / "b.py").write_text("\n".join(f'  sum = put(x[{n}0], "it\'s", y{n})' for n in range(copies.RUN)))
    (tmp_path / "c.py").write_text("\n".join(f"sum = put(x, {n}, y)" for n in range(copies.RUN)))
    (tmp_path / "d.py").write_text("\n".join(f"a{n}: int = 0" for n in range(2 * copies.RUN)))
    assert copies.alike(["a.py", "b.py", "c.py", "d.py"]) == [("a.py", "b.py")]


def test_a_copy_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "CHECKOUT", tmp_path)
    shared = [f"    call({number})" for number in range(copies.RUN)]
    (tmp_path / "a.py").write_text("\n".join(["import os", "", *shared, "end()"]))
    (tmp_path / "b.py").write_text("\n".join(["# a comment", *(line.strip() for line in shared), "", "other()"]))
    (tmp_path / "c.py").write_text("\n".join(shared[1:]))
    assert copies.copies(["a.py", "b.py", "c.py"]) == [copies.Copy(copies.RUN, ("a.py", 3), ("b.py", 2))]
