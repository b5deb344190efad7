"""Kinds of configs that the driver can decode."""

import pytest

PARAMETERS = "spec.devices.config[0].opaque.parameters"
GPU_KINDS = "GpuConfig, MigDeviceConfig, VfioDeviceConfig"


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("{}", f".kind: Object 'Kind' is missing; write one of {GPU_KINDS}"),
        ("kind: ''", f".kind: Object 'Kind' is missing; write one of {GPU_KINDS}"),
        (
            "kind: 1",
            f".kind: couldn't get version/kind; json parse error: kind is not text; write one of {GPU_KINDS}",
        ),
        (
            "kind: GPUConfig",
            '.kind: no kind "GPUConfig" is registered for version "resource.nvidia.com/v1beta1"; write "GpuConfig"',
        ),
        (
            "kind: Sharing",
            (
                '.kind: no kind "Sharing" is registered for version "resource.nvidia.com/v1beta1"; '
                f"write one of {GPU_KINDS}"
            ),
        ),
        (
            "kind: ComputeDomainDaemonConfig",
            (
                ".kind: runtime object is not a recognized configuration: gpu.nvidia.com reads no "
                f"ComputeDomainDaemonConfig; write driver: compute-domain.nvidia.com, or one of {GPU_KINDS}"
            ),
        ),
        (
            "kind: ComputeDomain",
            (
                ".kind: runtime object is not a recognized configuration: gpu.nvidia.com reads no ComputeDomain; create the "
                "ComputeDomain as an object of its own"
            ),
        ),
        (
            "{apiVersion: null, kind: GpuConfig}",
            ".apiVersion: Object 'apiVersion' is missing; write resource.nvidia.com/v1beta1",
        ),
        (
            "{apiVersion: 1, kind: GpuConfig}",
            (
                ".apiVersion: couldn't get version/kind; json parse error: apiVersion is not text; write "
                "resource.nvidia.com/v1beta1"
            ),
        ),
        (
            "{apiVersion: gpu.nvidia.com/v1alpha1, kind: GpuConfig}",
            (
                '.apiVersion: no kind "GpuConfig" is registered for version "gpu.nvidia.com/v1alpha1"; write '
                "resource.nvidia.com/v1beta1"
            ),
        ),
        (
            "{apiVersion: gpu.nvidia.com/v1alpha1, kind: ImexChannelConfig}",
            (
                '.kind: no kind "ImexChannelConfig" is registered for version "gpu.nvidia.com/v1alpha1"; '
                f"write one of {GPU_KINDS}"
            ),
        ),
    ],
)
def test_kind_that_the_driver_cannot_decode_is_reported(config_findings, parameters, expected):
    assert config_findings("GA240", parameters) == [PARAMETERS + expected]


@pytest.mark.parametrize(
    ("kind", "driver"),
    [
        ("GpuConfig", "gpu.nvidia.com"),
        ("MigDeviceConfig", "gpu.nvidia.com"),
        ("VfioDeviceConfig", "gpu.nvidia.com"),
        ("ComputeDomainChannelConfig", "compute-domain.nvidia.com"),
        ("ComputeDomainDaemonConfig", "compute-domain.nvidia.com"),
    ],
)
def test_kind_of_the_driver_is_not_reported(config_findings, kind, driver):
    assert config_findings("GA240", f"kind: {kind}", driver=driver) == []


def test_gpu_config_for_the_driver_of_compute_domains_is_reported(config_findings):
    assert config_findings("GA240", "kind: GpuConfig", driver="compute-domain.nvidia.com") == [
        (
            f"{PARAMETERS}.kind: runtime object is not a recognized configuration: compute-domain.nvidia.com reads no "
            "GpuConfig; write driver: gpu.nvidia.com, or one of ComputeDomainChannelConfig, ComputeDomainDaemonConfig"
        )
    ]


@pytest.mark.parametrize("driver", ["nvidia.com", "GPU.nvidia.com"])
def test_config_for_an_unknown_driver_is_reported(config_findings, driver):
    assert config_findings("GA240", "kind: GpuConfig", driver=driver) == [
        (
            f'spec.devices.config[0].opaque.driver: "{driver}" is not a driver that reads GpuConfig, so the config has no '
            'effect; write "gpu.nvidia.com"'
        )
    ]


@pytest.mark.parametrize("version", ["gpu.nvidia.com/v1alpha1", "resource.nvidia.com/v1"])
def test_config_of_another_version_for_an_unknown_driver_is_reported(config_findings, version):
    assert config_findings("GA240", f"{{apiVersion: {version}, kind: GpuConfig}}", driver="nvidia.com") == [
        (
            'spec.devices.config[0].opaque.driver: "nvidia.com" is not a driver that reads GpuConfig, so the config has no '
            'effect; write "gpu.nvidia.com", and parameters.apiVersion: resource.nvidia.com/v1beta1'
        )
    ]


def test_config_of_another_vendor_is_not_reported(config_findings):
    assert config_findings("GA240", "{apiVersion: example.com/v1, kind: GpuConfig}", driver="example.com") == []


@pytest.mark.parametrize("parameters", ["[]", "text", "null"])
def test_parameters_that_are_no_mapping_are_left_to_the_rule_on_them(config_findings, parameters):
    assert config_findings("GA240", parameters) == []


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        (
            "25.8.1",
            [
                (
                    f'{PARAMETERS}.kind: no kind "VfioDeviceConfig" is registered for version "resource.nvidia.com/v1beta1" '
                    "in the driver's release 25.8.1; upgrade the driver to 25.12.0, or remove the config"
                )
            ],
        ),
        ("25.12.0", []),
        ("0.4.1", []),
        ("v25.3.0-rc.1", None),
        ("latest", []),
    ],
)
def test_kind_that_the_driver_has_not_yet_is_reported(config_findings, release, expected):
    texts = config_findings("GA240", "kind: VfioDeviceConfig", device_class="vfio.gpu.nvidia.com", release=release)
    assert len(texts) == 1 if expected is None else texts == expected


def test_config_of_a_class_is_reported_at_its_place(config_findings):
    texts = config_findings("GA240", "kind: GPUConfig", names=None, kind="DeviceClass", requests=[])
    assert [text.partition(":")[0] for text in texts] == ["spec.config[0].opaque.parameters.kind"]


def test_kind_of_another_driver_is_refused_where_the_config_names_a_request(config_severities):
    assert config_severities("GA240", "kind: ComputeDomainDaemonConfig") == ["deny"]
    assert config_severities("GA240", "kind: GpuConfig", driver="compute-domain.nvidia.com", names=None) == ["deny"]


def test_kind_of_another_driver_without_requests_is_warned_about(config_findings, config_severities):
    assert config_findings("GA240", "kind: ComputeDomainDaemonConfig", names=None) == [
        (
            f"{PARAMETERS}.kind: has no effect, since gpu.nvidia.com reads no ComputeDomainDaemonConfig; "
            f"write driver: compute-domain.nvidia.com, or one of {GPU_KINDS}"
        )
    ]
    assert config_severities("GA240", "kind: ComputeDomainDaemonConfig", names=None) == ["warn"]
    assert config_severities("GA240", "kind: ComputeDomainDaemonConfig", names=None, release="0.4.1") == ["deny"]
