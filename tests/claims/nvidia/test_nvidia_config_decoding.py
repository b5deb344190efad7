"""Strict decoding: unknown fields and values of wrong types."""

import pytest

PARAMETERS = "spec.devices.config[0].opaque.parameters"


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (
            "{kind: GpuConfig, sharing: {strateg: MPS}}",
            '.sharing.strateg: strict decoding error: unknown field "sharing.strateg"; write "strategy"',
        ),
        (
            "{kind: GpuConfig, Sharing: {}}",
            '.Sharing: strict decoding error: unknown field "Sharing"; write "sharing"',
        ),
        (
            "{kind: GpuConfig, strategy: MPS}",
            '.strategy: strict decoding error: unknown field "strategy"; write it under sharing',
        ),
        (
            "{kind: GpuConfig, sharing: {strategy: TimeSlicing, interval: Long}}",
            (
                '.sharing.interval: strict decoding error: unknown field "sharing.interval"; '
                "write it under sharing.timeSlicingConfig"
            ),
        ),
        (
            "{kind: GpuConfig, metadata: {name: a}}",
            '.metadata: strict decoding error: unknown field "metadata"; remove it; there is only sharing',
        ),
        (
            "{kind: GpuConfig, sharing: {strategy: MPS, mpsConfig: {replicas: 2}}}",
            (
                '.sharing.mpsConfig.replicas: strict decoding error: unknown field "sharing.mpsConfig.replicas"; remove it; '
                "there are defaultActiveThreadPercentage, defaultPerDevicePinnedMemoryLimit, "
                "defaultPinnedDeviceMemoryLimit, multiUser"
            ),
        ),
        (
            "{kind: MigDeviceConfig, sharing: {strategy: TimeSlicing, timeSlicingConfig: {interval: Long}}}",
            (
                '.sharing.timeSlicingConfig: strict decoding error: unknown field "sharing.timeSlicingConfig"; remove it; '
                "the time slices of MIG devices cannot be set"
            ),
        ),
        (
            "{kind: VfioDeviceConfig, iommu: {iommu: {}}}",
            '.iommu.iommu: strict decoding error: unknown field "iommu.iommu"; write it beside apiVersion and kind',
        ),
        (
            "{kind: VfioDeviceConfig, sharing: {}}",
            '.sharing: strict decoding error: unknown field "sharing"; remove it; there is only iommu',
        ),
    ],
)
def test_field_that_the_kind_does_not_have_is_reported(config_findings, parameters, expected):
    assert config_findings("GA241", parameters) == [PARAMETERS + expected]


def test_field_of_a_channel_that_does_not_exist_is_reported(config_findings):
    parameters = "{kind: ComputeDomainChannelConfig, domainId: a}"
    assert config_findings("GA241", parameters, driver="compute-domain.nvidia.com") == [
        f'{PARAMETERS}.domainId: strict decoding error: unknown field "domainId"; write "domainID"'
    ]


@pytest.mark.parametrize(
    "parameters",
    [
        "{kind: GpuConfig}",
        "{kind: GpuConfig, sharing: null}",
        "{kind: GpuConfig, sharing: {strategy: TimeSlicing, timeSlicingConfig: {interval: Long}}}",
        (
            "{kind: GpuConfig, sharing: {strategy: MPS, mpsConfig: {defaultActiveThreadPercentage: 50, "
            'defaultPinnedDeviceMemoryLimit: 10Gi, defaultPerDevicePinnedMemoryLimit: {"0": 1Gi}, multiUser: true}}}'
        ),
        "{kind: MigDeviceConfig, sharing: {strategy: MPS, mpsConfig: {}}}",
        "{kind: VfioDeviceConfig, iommu: {backendPolicy: PreferIommuFD, enableAPIDevice: true}}",
    ],
)
def test_fields_of_the_kind_are_not_reported(config_findings, parameters):
    assert config_findings("GA241", parameters) == []
    assert config_findings("GA242", parameters) == []


@pytest.mark.parametrize(
    ("parameters", "field", "expected"),
    [
        (
            "{kind: GpuConfig, sharing: {strategy: MPS, mpsConfig: {multiUser: true}}}",
            "sharing.mpsConfig.multiUser",
            {"0.4.1": "0.5.0", "25.12.0": "0.5.0", "0.5.0": None},
        ),
        (
            "{kind: VfioDeviceConfig, iommu: {enableAPIDevice: true}}",
            "iommu",
            {"25.12.0": "0.4.0", "0.4.0": None, "": None},
        ),
    ],
    ids=["multiUser", "iommu"],
)
def test_field_that_the_driver_has_not_yet_is_reported(config_findings, parameters, field, expected):
    for release, first in expected.items():
        assert config_findings("GA241", parameters, release=release) == (
            [
                (
                    f'{PARAMETERS}.{field}: strict decoding error: unknown field "{field}" in the driver\'s release {release}; '
                    f"upgrade the driver to {first}, or remove it"
                )
            ]
            if first
            else []
        )


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (
            "{kind: GpuConfig, sharing: MPS}",
            '.sharing: is "MPS"; it must be a mapping; write its fields below it',
        ),
        (
            "{kind: GpuConfig, sharing: {strategy: [MPS]}}",
            '.sharing.strategy: is a list; it must be text; write one value in quotes, such as "a"',
        ),
        (
            '{kind: GpuConfig, sharing: {strategy: MPS, mpsConfig: {defaultActiveThreadPercentage: "50"}}}',
            (
                '.sharing.mpsConfig.defaultActiveThreadPercentage: is "50"; it must be a whole number; write 50, '
                "without quotes"
            ),
        ),
        (
            "{kind: GpuConfig, sharing: {strategy: MPS, mpsConfig: {multiUser: 'yes'}}}",
            '.sharing.mpsConfig.multiUser: is "yes"; it must be true or false; write one of the two',
        ),
        (
            "{kind: GpuConfig, sharing: {strategy: MPS, mpsConfig: {multiUser: 'true'}}}",
            '.sharing.mpsConfig.multiUser: is "true"; it must be true or false; write true, without quotes',
        ),
        (
            "{kind: GpuConfig, sharing: {strategy: MPS, mpsConfig: {defaultPinnedDeviceMemoryLimit: 10GB}}}",
            (
                '.sharing.mpsConfig.defaultPinnedDeviceMemoryLimit: "10GB" has the unknown suffix "GB"; write a quantity such '
                'as "1Gi"'
            ),
        ),
        (
            "{kind: GpuConfig, sharing: {strategy: MPS, mpsConfig: {defaultPerDevicePinnedMemoryLimit: {'0': [1]}}}}",
            (
                ".sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit[0]: a list is not a quantity; write a quantity such as "
                '"1Gi"'
            ),
        ),
    ],
)
def test_value_of_another_type_is_reported(config_findings, parameters, expected):
    assert config_findings("GA242", parameters) == [PARAMETERS + expected]


def test_contents_of_another_kind_are_left_alone(config_findings):
    parameters = "{apiVersion: gpu.nvidia.com/v1alpha1, kind: GpuConfig, sharing: [1], other: 1}"
    assert config_findings("GA241", parameters) == []
    assert config_findings("GA242", parameters) == []
