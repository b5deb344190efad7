"""The test cases of the webhook of NVIDIA's own driver, in every version of the API, in claims and templates.

Source of the cases: dra-driver-nvidia-gpu cmd/webhook/main_test.go; those about HTTP are tests of our server.
"""

import pytest
import yaml

from policies.rules.settings import DRADriver, GPUAdmissionPolicy

TIME_SLICING = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Default"}}
BAD_INTERVAL = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Invalid Interval"}}
BAD_PERCENTAGE = {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": -1}}
MPS = {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50}}
INTERVAL_ERROR = (
    "unknown time-slice interval: Invalid Interval, supported time-slice intervals: Default, Short, Medium, Long"
)
PERCENTAGE_ERROR = "active thread percentage must not be negative"
GATE_ERROR = '"{}" is selected as the GPU sharing strategy, but the "{}" feature gate is not enabled'
OF_PARAMETERS = "devices.config[{}].opaque.parameters.sharing"

versions = pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1"])
kinds = pytest.mark.parametrize(
    ("kind", "spec_path"),
    [("ResourceClaim", "spec"), ("ResourceClaimTemplate", "spec.spec")],
    ids=["claim", "template"],
)


def claim(kind, version, *sharings):
    asked = {"deviceClassName": "gpu.nvidia.com"}
    requests = [
        {"name": f"gpu-{index}", **(asked if version == "v1beta1" else {"exactly": asked})}
        for index in range(len(sharings))
    ]
    configs = [
        {
            "requests": [f"gpu-{index}"],
            "opaque": {
                "driver": "gpu.nvidia.com",
                "parameters": {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": sharing},
            },
        }
        for index, sharing in enumerate(sharings)
    ]
    spec = {"devices": {"requests": requests, "config": configs}}
    document = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"spec": spec} if kind == "ResourceClaimTemplate" else spec,
    }
    return yaml.safe_dump(document)


@pytest.fixture
def refusals(examined):
    """`refusals(text, **gates)`: where a claim is refused, and with what message."""

    def find(text, **gates):
        settings = GPUAdmissionPolicy(dra_driver=DRADriver(gates))
        found = examined(text, settings=settings)
        return [(str(finding.path), finding.message) for finding in found if finding.severity == "deny"]

    return find


@versions
@kinds
def test_valid_config_is_accepted(refusals, kind, spec_path, version):
    assert spec_path
    assert refusals(claim(kind, version, TIME_SLICING), TimeSlicingSettings=True) == []


@versions
@kinds
def test_invalid_configs_are_refused_each_at_its_place(refusals, kind, spec_path, version):
    text = claim(kind, version, BAD_INTERVAL, BAD_PERCENTAGE)
    first, second = (f"{spec_path}.{OF_PARAMETERS.format(index)}" for index in range(2))
    assert refusals(text, TimeSlicingSettings=True, MPSSupport=True) == [
        (f"{first}.timeSlicingConfig.interval", INTERVAL_ERROR),
        (f"{second}.mpsConfig.defaultActiveThreadPercentage", PERCENTAGE_ERROR),
    ]


@versions
@kinds
@pytest.mark.parametrize(
    ("sharing", "gate"), [(TIME_SLICING, "TimeSlicingSettings"), (MPS, "MPSSupport")], ids=["TimeSlicing", "MPS"]
)
def test_strategy_without_its_gate_is_refused(refusals, kind, spec_path, version, sharing, gate):
    path = f"{spec_path}.{OF_PARAMETERS.format(0)}.strategy"
    expected = [(path, GATE_ERROR.format(sharing["strategy"], gate))]
    assert refusals(claim(kind, version, sharing), **{gate: False}) == expected
    assert refusals(claim(kind, version, sharing), **{gate: True}) == []
