"""No more than two files of `capture/src` import each other in a circle."""

from __future__ import annotations

from pathlib import Path

import imports


def test_no_circle_of_imports_has_more_than_two_files() -> None:
    graph = imports.graph()
    large = [group for group in imports.circles(graph) if len(group) > 2]
    shown = "\n".join(imports.told(graph, group) for group in large)
    assert not large, shown
    # The imports were found.
    assert sum(map(len, graph.values())) > 300


def test_a_circle_is_found(tmp_path: Path) -> None:
    sources = {
        "lib.rs": "pub mod a; pub use a::A;",
        "a/mod.rs": "mod under; use under::{Under, other::{self, Other}}; use crate::{c::{C, D}, x::X as Y}; // use crate::z;",
        "a/under.rs": "pub struct Under; use super::A;",
        "b.rs": "fn f() { crate::a::A::new(); }",
        "c.rs": "use super::b::*;\n#[cfg(test)]\nmod tests {\n    use crate::x::X;\n}\n",
        "x.rs": "use std::fmt;",
        "x_tests.rs": "use crate::a::A;",
        "bin/main.rs": "use crate::a::A;",
    }
    for name, text in sources.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    graph = imports.graph(tmp_path)
    assert graph == {
        (): set(),
        ("a",): {("c",), ("x",)},
        ("a", "under"): {("a",)},
        ("b",): {("a",)},
        ("c",): {("b",)},
        ("x",): set(),
    }
    assert imports.circles(graph) == [[("a",), ("b",), ("c",)]]
    graph["x",] = {("x",), ("a",)}
    assert imports.circles(graph) == [[("a",), ("b",), ("c",), ("x",)]]
