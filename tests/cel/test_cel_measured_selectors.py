"""Random selectors, with the verdicts, costs and error texts measured on Kubernetes 1.36.2's own packages.

Each is compiled as a new expression with the default gates of 1.36, and run on its own device.
"""

import json
from pathlib import Path

import pytest

from policies.cel import CelCompileError, CelFeatures, CelRuntimeError, compile_selector
from tests.cel.costs import actual_cost

CASES = json.loads(Path(__file__).with_name("measured_selectors.json").read_text())
FEATURES = CelFeatures(list_type_attributes=False, new_expressions=True)


def having(*verdicts):
    cases = [(number, case) for number, case in enumerate(CASES) if case["expect"]["verdict"] in verdicts]
    return pytest.mark.parametrize("case", [pytest.param(case, id=str(number)) for number, case in cases])


@having("compile-error")
def test_invalid_selector_does_not_compile(case):
    with pytest.raises(CelCompileError):
        compile_selector(case["expression"], FEATURES)


@having("runtime-error")
def test_selector_that_fails_says_why_as_kubernetes_does(case):
    selector = compile_selector(case["expression"], FEATURES)
    with pytest.raises(CelRuntimeError) as failed:
        selector.matches(case["device"])
    assert case["detail"] in str(failed.value)
    assert selector.max_cost == case["expect"]["maxCost"]


@having("true", "false")
def test_selector_matches_the_devices_that_kubernetes_matches(case):
    selector = compile_selector(case["expression"], FEATURES)
    assert selector.matches(case["device"]) is (case["expect"]["verdict"] == "true")
    assert selector.max_cost == case["expect"]["maxCost"]
    assert actual_cost(selector, case["device"]) <= selector.max_cost
