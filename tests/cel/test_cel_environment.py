from pathlib import Path

import pytest

from policies.cel import types
from policies.cel.environment import DEVICE, CelFeatures, selector_environment
from policies.cel.libraries.quantities import QUANTITY
from policies.cel.types import map_of

SIGNATURES = Path(__file__).parent / "kubernetes_signatures.txt"
"""Every overload of Kubernetes 1.36.2's environment for DRA, as its own code lists them."""


def spelled(type_, parameters):
    if type_.kind == "parameter":
        return parameters.setdefault(type_.name, "ABC"[len(parameters)])
    inner = ", ".join(spelled(parameter, parameters) for parameter in type_.parameters)
    return f"{type_.name}({inner})" if inner else type_.name


def signature(function, overload):
    parameters = {}
    arguments = [spelled(parameter, parameters) for parameter in overload.parameters]
    target = f"{arguments.pop(0)}." if overload.is_member else ""
    result = spelled(overload.result, parameters)
    return f"{overload.id}: {target}{function.name}({', '.join(arguments)}) -> {result}"


def test_functions_and_the_order_of_their_overloads_are_those_of_kubernetes():
    known = sorted(selector_environment(CelFeatures()).functions.values(), key=lambda function: function.name)
    ours = [signature(function, overload) for function in known for overload in function.overloads]
    assert ours == SIGNATURES.read_text(encoding="utf-8").splitlines()


def test_function_is_known_by_its_name():
    assert all(name == function.name for name, function in selector_environment(CelFeatures()).functions.items())


def test_environment_is_made_once():
    assert selector_environment(CelFeatures()) is selector_environment(CelFeatures())


def test_device_is_the_only_variable():
    assert selector_environment(CelFeatures()).variables == {"device": types.Type(DEVICE, kind="object")}


def test_device_has_fields():
    fields = selector_environment(CelFeatures()).fields[DEVICE]
    assert fields["driver"] == types.STRING
    assert fields["capacity"] == map_of(types.STRING, map_of(types.STRING, QUANTITY))


@pytest.mark.parametrize(
    ("features", "attribute"),
    [
        pytest.param(CelFeatures(list_type_attributes=True), types.DYN, id="dyn with lists"),
        pytest.param(CelFeatures(list_type_attributes=False), types.ANY, id="any without"),
        pytest.param(CelFeatures(list_type_attributes=True, new_expressions=True), types.DYN, id="dyn in what is new"),
    ],
)
def test_type_of_attributes_depends_on_the_gate(features, attribute):
    attributes = selector_environment(features).fields[DEVICE]["attributes"]
    assert attributes == map_of(types.STRING, map_of(types.STRING, attribute))


@pytest.mark.parametrize(
    ("features", "is_declared"),
    [
        pytest.param(CelFeatures(consumable_capacity=False, new_expressions=True), False, id="new, gate off"),
        pytest.param(CelFeatures(consumable_capacity=True, new_expressions=True), True, id="new, gate on"),
        pytest.param(CelFeatures(consumable_capacity=False), True, id="stored, gate off"),
    ],
)
def test_stored_expressions_may_use_multiple_allocations_without_the_gate(features, is_declared):
    assert ("allowMultipleAllocations" in selector_environment(features).fields[DEVICE]) is is_declared


@pytest.mark.parametrize(
    ("features", "is_declared"),
    [
        pytest.param(CelFeatures(list_type_attributes=False, new_expressions=True), False, id="new, gate off"),
        pytest.param(CelFeatures(list_type_attributes=True, new_expressions=True), True, id="new, gate on"),
        pytest.param(CelFeatures(list_type_attributes=False), True, id="stored, gate off"),
    ],
)
def test_stored_expressions_may_use_includes_without_the_gate(features, is_declared):
    assert ("includes" in selector_environment(features).functions) is is_declared


@pytest.mark.parametrize(
    "name", ["int", "null_type", "optional_type", "net.IP", "net.CIDR", "google.protobuf.Duration"]
)
def test_types_can_be_named(name):
    assert name in selector_environment(CelFeatures()).type_names


@pytest.mark.parametrize("name", ["dyn", "any", "kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL"])
def test_other_types_cannot_be_named(name):
    assert name not in selector_environment(CelFeatures()).type_names
