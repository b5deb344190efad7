"""VFIO: policies of the IOMMU backend, the gate, and one config for all VFIO devices of a claim."""

import pytest

PARAMETERS = "spec.devices.config[0].opaque.parameters"
VFIO = "{kind: VfioDeviceConfig}"
ONE = "write one VfioDeviceConfig without requests, which is for all VFIO devices of the claim"
CLASS = """
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: vfio.gpu.nvidia.com}
spec:
  selectors:
  - cel: {expression: "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'vfio'"}
  config:
  - opaque:
      driver: gpu.nvidia.com
      parameters: {apiVersion: resource.nvidia.com/v1beta1, kind: VfioDeviceConfig}
"""


@pytest.mark.parametrize(
    ("policy", "remedy"),
    [("LegacyOnl", 'write "LegacyOnly"'), ("None", "write one of LegacyOnly, PreferIommuFD")],
)
def test_unknown_policy_is_reported(config_findings, policy, remedy):
    parameters = f"{{kind: VfioDeviceConfig, iommu: {{backendPolicy: '{policy}'}}}}"
    assert config_findings("GA248", parameters, device_class="vfio.gpu.nvidia.com") == [
        (
            f"{PARAMETERS}.iommu.backendPolicy: unknown IOMMU backend policy: {policy}, supported IOMMU backend policies: "
            f"LegacyOnly, PreferIommuFD; {remedy}"
        )
    ]


@pytest.mark.parametrize("iommu", ["null", "{}", "{backendPolicy: ''}", "{backendPolicy: PreferIommuFD}", "[]"])
def test_known_policy_and_default_are_not_reported(config_findings, iommu):
    parameters = f"{{kind: VfioDeviceConfig, iommu: {iommu}}}"
    assert config_findings("GA248", parameters, device_class="vfio.gpu.nvidia.com") == []


@pytest.mark.parametrize(
    ("configs", "place", "groups"),
    [
        ([["a"]], 0, 2),
        ([["a"], ["b"]], 1, 2),
        ([None, ["b"]], 1, 2),
        ([["a", "b"]], None, 1),
        ([None], None, 1),
        ([["a"], None], None, 1),
    ],
)
def test_claim_with_several_groups_of_vfio_devices_is_reported(config_findings, requests_for, configs, place, groups):
    requests = requests_for(a="vfio.gpu.nvidia.com", b="vfio.gpu.nvidia.com")
    entries = [(VFIO, names, "gpu.nvidia.com") for names in configs]
    assert config_findings("GA248", *entries, requests=requests) == (
        []
        if place is None
        else [
            (
                f"spec.devices.config[{place}]: the claim contains {groups} VFIO device groups, but at most one is supported per "
                f"claim; {ONE}"
            )
        ]
    )


def test_config_of_a_class_is_a_group_of_its_own(config_findings, requests_for):
    requests = requests_for(a="vfio.gpu.nvidia.com", b="vfio.gpu.nvidia.com")
    (text,) = config_findings("GA248", (VFIO, ["a"], "gpu.nvidia.com"), requests=requests, cluster=CLASS)
    assert "contains 2 VFIO device groups" in text
    assert config_findings("GA248", (VFIO, None, "gpu.nvidia.com"), requests=requests, cluster=CLASS) == []


def test_alternatives_and_other_devices_are_no_groups(config_findings, requests_for):
    requests = requests_for(
        a="vfio.gpu.nvidia.com", b="gpu.nvidia.com", c={"x": "vfio.gpu.nvidia.com", "y": "gpu.nvidia.com"}
    )
    assert config_findings("GA248", (VFIO, ["a"], "gpu.nvidia.com"), requests=requests) == []


def test_passthrough_that_is_off_is_reported(config_findings):
    assert config_findings("GA244", VFIO, device_class="vfio.gpu.nvidia.com", gates={}) == [
        (
            f"{PARAMETERS}.kind: has no effect, since the driver offers no vfio devices while its feature gate "
            '"PassthroughSupport" is off; turn the feature gate on in the values of the driver\'s chart, or remove the config'
        )
    ]


def test_passthrough_that_is_unknown_is_reported(config_findings):
    assert config_findings("GA244", VFIO, device_class="vfio.gpu.nvidia.com", gates=None) == [
        (
            f'{PARAMETERS}.kind: needs the driver\'s feature gate "PassthroughSupport", which is off by default; turn it on, '
            "and say so in spec.draDriver.featureGates of the GPUAdmissionPolicy"
        )
    ]


@pytest.mark.parametrize(
    ("options", "severity"),
    [
        ({"release": "0.5.0"}, "deny"),
        ({"release": "0.4.1"}, "warn"),
        ({}, "warn"),
        ({"release": "0.5.0", "gates": {"PassthroughSupport": False}}, "warn"),
    ],
)
def test_several_groups_are_refused_by_the_releases_that_count_them(config_severities, requests_for, options, severity):
    requests = requests_for(a="vfio.gpu.nvidia.com", b="vfio.gpu.nvidia.com")
    config = (VFIO, ["a"], "gpu.nvidia.com")
    assert config_severities("GA248", config, requests=requests, **options) == [severity]


@pytest.mark.parametrize(("is_on", "severity"), [(True, "deny"), (False, "warn")])
def test_unknown_policy_is_refused_where_there_are_vfio_devices(config_severities, is_on, severity):
    parameters, gates = "{kind: VfioDeviceConfig, iommu: {backendPolicy: Legacy}}", {"PassthroughSupport": is_on}
    assert config_severities("GA248", parameters, device_class="vfio.gpu.nvidia.com", gates=gates) == [severity]
