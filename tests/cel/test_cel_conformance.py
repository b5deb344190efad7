"""Kubernetes' own test cases, if they lie beside the repository; see ../shared/conformance/README.md.

They are not ours to copy. The cases of test_cel_measured_selectors.py are ours, and always run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from policies.cel import CelCompileError, CelFeatures, CelRuntimeError, compile_selector
from tests.cel.costs import actual_cost

CASES = Path(__file__).parents[3] / "shared" / "conformance" / "cel.json"


def read_cases() -> list[Any]:
    if not CASES.is_file():
        reason = f"Kubernetes' cases are kept beside the repository, in {CASES.parent}, and are not there"
        return [pytest.param({}, True, marks=pytest.mark.skip(reason=reason), id="absent")]
    return [
        pytest.param(case, lists, id=f"{case['name']}-lists-{'on' if lists else 'off'}")
        for case in json.loads(CASES.read_text())
        for lists in ([True, False] if case["enableListTypeAttributes"] is None else [case["enableListTypeAttributes"]])
    ]


@pytest.mark.parametrize(("case", "lists"), read_cases())
def test_selector_does_what_kubernetes_does(case: dict[str, Any], lists: bool) -> None:
    features = CelFeatures(
        consumable_capacity=bool(case["enableConsumableCapacity"]),
        list_type_attributes=lists,
        new_expressions=case["env"] == "new",
    )

    if case["expectCompileError"]:
        with pytest.raises(CelCompileError) as refused:
            compile_selector(case["expression"], features)
        assert case["expectCompileError"] in str(refused.value)
        return
    selector = compile_selector(case["expression"], features)
    assert selector.max_cost == case["expectCost"]
    if case["expectMatchError"]:
        with pytest.raises(CelRuntimeError) as failed:
            selector.matches(case["device"])
        assert case["expectMatchError"] in str(failed.value)
    else:
        assert selector.matches(case["device"]) is case["expectMatch"]
        assert actual_cost(selector, case["device"]) <= selector.max_cost
