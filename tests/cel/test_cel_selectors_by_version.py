"""Selectors with the verdicts, costs and error texts of Kubernetes' own packages of 1.36.2 and of 1.37.

Each case says whether it was compiled as a new expression, and with which feature gates. 1.37 is missing where it says the
same as 1.36. The figures of 1.37 are those of its code of July 2026 with the changes that were merged until its release.
"""

import json
from pathlib import Path

import pytest

from policies.cel import CelCompileError, CelDevice, CelFeatures, CelRuntimeError, compile_selector
from webhook.cluster.manifests import ManifestsView

MEASURED = json.loads(Path(__file__).with_name("measured_selectors_by_version.json").read_text())


def features(case, version):
    gates = {"DRAConsumableCapacity": case["capacity"], "DRAListTypeAttributes": case["lists"]}
    view = ManifestsView([{"serverVersion": {"gitVersion": f"v{version}.0"}, "featureGates": gates}])
    return CelFeatures.of_cluster(view, new_expressions=case["new"])


def outcome(case, version):
    """The outcome as the measurement has it; of a device's attributes, any of those that are not supported may be named."""
    try:
        selector = compile_selector(case["expression"], features(case, version))
    except CelCompileError as error:
        # Source lines are cut here where they are too wide for a terminal.
        lines = (line for line in str(error).split("\n") if not line.startswith(" |"))
        return {"verdict": "compile-error", "detail": "\n".join(lines)}
    verdict, cost = selector.measure(CelDevice.read(MEASURED["devices"][case["device"]]))
    if not isinstance(verdict, CelRuntimeError):
        return {"verdict": str(verdict).lower(), "maxCost": selector.max_cost, "cost": cost}
    unsupported = "unsupported attribute value"
    found = {"verdict": "runtime-error", "maxCost": selector.max_cost}
    if unsupported in verdict.message:
        return {**found, "detail": unsupported}
    return {**found, "cost": cost, "detail": verdict.message}


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_selectors_do_what_they_do_in_a_version_of_kubernetes(version):
    expected = {number: case.get(version, case["1.36"]) for number, case in enumerate(MEASURED["cases"])}
    found = {number: outcome(case, version) for number, case in enumerate(MEASURED["cases"])}
    assert {number: each for number, each in found.items() if each != expected[number]} == {}


def test_selector_of_an_unknown_version_does_what_it_does_in_1_36():
    assert CelFeatures.of_cluster(ManifestsView([]), new_expressions=False) == CelFeatures(list_type_attributes=False)
