"""The guard lets names through, and refuses SQL wherever a request holds it."""

from __future__ import annotations

import weir_guard


def test_the_guard_lets_names_through() -> None:
    assert (
        weir_guard.refused(
            {"columns": ["name", {"sqlExpression": "time", "label": "time"}], "orderby": [["mix_octets", False]]}
        )
        is None
    )
    assert weir_guard.refused({"queries": [{"extras": {"where": "", "having": ""}, "annotation_layers": []}]}) is None
    assert weir_guard.refused([None, {"form_data": '{"metrics": ["max(x)"]}'}]) is not None
    assert weir_guard.refused({"form_data": "no JSON"}) is None
