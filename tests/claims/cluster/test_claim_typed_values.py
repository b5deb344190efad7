"""Versions and quantities that are compared as text or numbers."""

import pytest
import yaml

from policies.rules.decision import Severity

A = 'device.attributes["gpu.nvidia.com"]'
C = 'device.capacity["gpu.nvidia.com"]'
WHERE = "selectors[0].cel.expression: "
STOPS = "that stops the pod on every node"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f'{A}.driverVersion == "580.95.05"',
            (
                f"compares driverVersion, which is a version, with text; {STOPS}; write "
                f'{A}.driverVersion.compareTo(semver("580.95.05", true)) == 0'
            ),
        ),
        (
            f'"580.95.05" == {A}.driverVersion',
            (
                "compares driverVersion, which is a version, with text; that is always false; write "
                f'{A}.driverVersion.compareTo(semver("580.95.05", true)) == 0'
            ),
        ),
        (
            f'"580.95.05" != {A}.driverVersion',
            (
                "compares driverVersion, which is a version, with text; that is always true; write "
                f'{A}.driverVersion.compareTo(semver("580.95.05", true)) != 0'
            ),
        ),
        (
            f"{A}.cudaComputeCapability >= 8.0",
            (
                f"compares cudaComputeCapability, which is a version, with a number; {STOPS}; write "
                f'{A}.cudaComputeCapability.compareTo(semver("8.0", true)) >= 0'
            ),
        ),
        (
            f'"12" <= {A}.cudaDriverVersion',
            (
                f"compares cudaDriverVersion, which is a version, with text; {STOPS}; write "
                f'{A}.cudaDriverVersion.compareTo(semver("12", true)) >= 0'
            ),
        ),
        (
            f'cel.bind(a, {A}, a.driverVersion == "latest")',
            (
                f"compares driverVersion, which is a version, with text; {STOPS}; write "
                f"{A}.driverVersion.compareTo(semver(..., true)) == 0"
            ),
        ),
        (
            f'{A}.driverVersion in ["580.95.05"]',
            (
                f"looks for driverVersion, which is a version, among other values; {STOPS}; compare it with each by "
                f"{A}.driverVersion.compareTo(semver(..., true)) == 0"
            ),
        ),
        (
            f'{A}.driverVersion.startsWith("580.")',
            (
                f"calls startsWith on driverVersion, which is a version and no text; {STOPS}; write "
                f"{A}.driverVersion.major() == 580"
            ),
        ),
        (
            f'{A}.driverVersion.matches("^5[78]0")',
            (
                f"calls matches on driverVersion, which is a version and no text; {STOPS}; use major(), minor(), or "
                "compareTo(semver(...))"
            ),
        ),
        (
            f'{A}.driverVersion.compareTo(semver("580.95.05")) == 0',
            (
                f'semver("580.95.05") is an error, Patch number must not contain leading zeroes "05"; {STOPS}; write '
                'semver("580.95.05", true)'
            ),
        ),
        (
            f'{A}.cudaDriverVersion.isGreaterThan(semver("latest"))',
            f'semver("latest") is an error, No Major.Minor.Patch elements found; {STOPS}; write a version such as 580.95.5',
        ),
        (
            f'{C}.memory.compareTo(quantity("80GB")) >= 0',
            f'quantity("80GB") is an error, because it is not an amount that Kubernetes can read; {STOPS}; write quantity("80G")',
        ),
        (
            f'{C}.memory.compareTo(quantity("80 GiB")) >= 0',
            f'quantity("80 GiB") is an error, because it is not an amount that Kubernetes can read; {STOPS}; write quantity("80Gi")',
        ),
        (
            f'{C}.memory.compareTo(quantity("a lot")) >= 0',
            (
                f'quantity("a lot") is an error, because it is not an amount that Kubernetes can read; {STOPS}; write quantity("40Gi") or '
                "the like"
            ),
        ),
    ],
)
def test_mistake_is_reported_with_the_right_form(said, asking, text, expected):
    assert said("GA229", asking(text)) == [f"{WHERE}{expected}"]


@pytest.mark.parametrize(
    "text",
    [
        f'{A}.driverVersion.compareTo(semver("580.95.05", true)) == 0',
        f'{A}.driverVersion.isGreaterThan(semver("570.0.0"))',
        f"{A}.cudaComputeCapability.major() >= 9",
        f'{C}.memory.compareTo(quantity("80Gi")) >= 0',
        f'{A}.productName.startsWith("NVIDIA")',
        'device.attributes["other.example.com"].driverVersion == "1.0"',
        f"{A}.driverVersion == {A}.cudaDriverVersion",
    ],
)
def test_right_form_is_fine(said, asking, text):
    assert said("GA229", asking(text)) == []


@pytest.mark.parametrize("text", [f'{A}.driverVersion == "580.95.05"', f'{A}.driverVersion.startsWith("580.")'])
def test_mistake_is_reported_once(examined, asking, device_class, gpu, on_node, text):
    documents = (asking(text), device_class(), on_node("node-1", gpu()))
    (found,) = examined("\n---\n".join(map(yaml.safe_dump, documents)))
    assert (found.rule.id, found.severity, found.place.line) == ("GA229", Severity.WARN, 1)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (f'{A}.driverVersion.compareTo(semver("580.95.05", true)) == 0', []),
        (f'"9.0" != "9" && {A}.cudaComputeCapability.compareTo(semver("9.0", true)) >= 0', []),
        (f'{C}.memory.compareTo(quantity("80G")) >= 0', []),
    ],
)
def test_right_form_matches_a_device(said, asking, device_class, gpu, on_node, text, verdict):
    assert said("GA222", asking(text), device_class(), on_node("node-1", gpu(memory="81559Mi"))) == verdict


def test_selectors_of_the_class_are_checked_too(said, device_class):
    assert len(said("GA229", device_class("mine", f'{A}.driverVersion == "580.95.05"'))) == 1
