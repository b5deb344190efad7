"""MPS: percentages of threads, several users, and limits of pinned memory."""

import pytest

MPS = "spec.devices.config[0].opaque.parameters.sharing.mpsConfig"
UUID = "GPU-18e5b2a4-1c2d-4e3f-8a9b-0c1d2e3f4a5b"
SLICE = """
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: node-a}}
spec:
  driver: gpu.nvidia.com
  nodeName: node-a
  pool: {{name: node-a, generation: 1, resourceSliceCount: 1}}
  devices:
  - name: gpu-0
    attributes:
      type: {{string: gpu}}
      productName: {{string: Tesla P40}}
      cudaComputeCapability: {{version: {capability}}}
"""
LOW = "write 1Mi or more; a number without a unit counts bytes"
NAMES = 'write the index of a device, such as "0", or its UUID, GPU-...'


def mps(settings, kind="GpuConfig"):
    return f"{{kind: {kind}, sharing: {{strategy: MPS, mpsConfig: {settings}}}}}"


@pytest.mark.parametrize(
    ("percentage", "expected"),
    [
        (-1, "active thread percentage must not be negative"),
        (101, "active thread percentage must not be greater than 100"),
    ],
)
@pytest.mark.parametrize("kind", ["GpuConfig", "MigDeviceConfig"])
def test_percentage_out_of_its_bounds_is_reported(config_findings, kind, percentage, expected):
    assert config_findings("GA246", mps(f"{{defaultActiveThreadPercentage: {percentage}}}", kind)) == [
        f"{MPS}.defaultActiveThreadPercentage: {expected}; write a percentage from 0 to 100"
    ]


@pytest.mark.parametrize("percentage", ["0", "50", "100", "null", "'150'", "true"])
def test_percentage_in_its_bounds_is_not_reported(config_findings, percentage):
    assert config_findings("GA246", mps(f"{{defaultActiveThreadPercentage: {percentage}}}")) == []


def test_percentage_beside_another_strategy_is_not_reported(config_findings):
    parameters = "{kind: GpuConfig, sharing: {strategy: TimeSlicing, mpsConfig: {defaultActiveThreadPercentage: 150}}}"
    assert config_findings("GA246", parameters) == []


def test_several_users_of_a_gpu_before_volta_are_reported(config_findings):
    assert config_findings("GA246", mps("{multiUser: true}"), cluster=SLICE.format(capability="6.1.0")) == [
        (
            f'{MPS}.multiUser: needs cudaComputeCapability >= "7.0", and the cluster has Tesla-P40 with "6.1.0", where the '
            'driver says "multiuser mode was requested but is not supported"; select by cudaComputeCapability, or remove '
            "multiUser"
        )
    ]


@pytest.mark.parametrize(
    ("settings", "cluster"),
    [
        ("{multiUser: true}", ""),
        ("{multiUser: true}", SLICE.format(capability="7.0.0")),
        ("{multiUser: true}", SLICE.format(capability="odd")),
        ("{multiUser: false}", SLICE.format(capability="6.1.0")),
    ],
)
def test_several_users_elsewhere_are_not_reported(config_findings, settings, cluster):
    assert config_findings("GA246", mps(settings), cluster=cluster) == []


def test_several_users_of_gpus_that_are_selected_by_age_are_not_reported(config_findings):
    selector = 'device.attributes["gpu.nvidia.com"].cudaComputeCapability.major() >= 7'
    asked = {"deviceClassName": "gpu.nvidia.com", "selectors": [{"cel": {"expression": selector}}]}
    requests = [{"name": "gpu", "exactly": asked}]
    cluster = SLICE.format(capability="6.1.0")
    assert config_findings("GA246", mps("{multiUser: true}"), requests=requests, cluster=cluster) == []
    as_class = {"requests": asked["selectors"], "kind": "DeviceClass", "names": None}
    assert config_findings("GA246", mps("{multiUser: true}"), cluster=cluster, **as_class) == []


LIMITS = "defaultPerDevicePinnedMemoryLimit"
DEFAULT = "defaultPinnedDeviceMemoryLimit"


@pytest.mark.parametrize(
    ("devices", "settings", "expected"),
    [
        pytest.param(1, "{}", [], id="no limits"),
        pytest.param(
            1,
            f"{{{LIMITS}: {{'32': 1Gi}}}}",
            [f'{LIMITS}[32]: invalid device: invalid device index: 32; write "0"; the config is for one device'],
            id="index that no claim has",
        ),
        pytest.param(
            2,
            f"{{{DEFAULT}: 2Gi, {LIMITS}: {{'2': 1Gi}}}}",
            [
                (
                    f'{LIMITS}[2]: invalid device: invalid device index: 2; write an index from "0" to "1"; the config is for '
                    "at most 2 devices"
                )
            ],
            id="default with an index of no device",
        ),
        pytest.param(1, f"{{{DEFAULT}: 2Gi}}", [], id="default"),
        pytest.param(
            1,
            f"{{{DEFAULT}: 1M}}",
            [f"{DEFAULT}: invalid limit: default value set too low: 1M; {LOW}"],
            id="default too low",
        ),
        pytest.param(
            1,
            f"{{{LIMITS}: {{{UUID}: 1M}}}}",
            [f"{LIMITS}[{UUID}]: invalid limit: value set too low: {UUID}: 1M; {LOW}"],
            id="limit by UUID too low",
        ),
        pytest.param(1, f"{{{DEFAULT}: 2Gi, {LIMITS}: {{'0': 1Gi}}}}", [], id="index over default"),
        pytest.param(1, f"{{{DEFAULT}: 2Gi, {LIMITS}: {{{UUID}: 1Gi}}}}", [], id="UUID over default"),
        pytest.param(
            1,
            f"{{{DEFAULT}: 2Gi, {LIMITS}: {{UUID1: 1Gi}}}}",
            [f"{LIMITS}.UUID1: invalid device: unable to parse key as an integer: UUID1; {NAMES}"],
            id="neither UUID nor index",
        ),
        pytest.param(
            1,
            f"{{{DEFAULT}: 2Gi, {LIMITS}: {{'1': 1Gi}}}}",
            [f'{LIMITS}[1]: invalid device: invalid device index: 1; write "0"; the config is for one device'],
            id="index beyond the devices",
        ),
        pytest.param(1, f"{{{DEFAULT}: 10Mi}}", [], id="Mi"),
        pytest.param(1, f"{{{DEFAULT}: 1Gi}}", [], id="Gi"),
        pytest.param(1, f"{{{DEFAULT}: 10M}}", [], id="M"),
        pytest.param(1, f"{{{DEFAULT}: 1G}}", [], id="G"),
    ],
)
def test_pinned_memory_limits_are_judged_as_the_driver_does(config_findings, devices, settings, expected):
    assert config_findings("GA247", mps(settings), count=devices) == [f"{MPS}.{text}" for text in expected]


@pytest.mark.parametrize("limit", ["1Mi", "1048576", "'1048575.5'", "1.5Mi", "10GB", "[1]"])
def test_limit_of_a_mebibyte_is_not_reported(config_findings, limit):
    assert config_findings("GA247", mps(f"{{{DEFAULT}: {limit}}}")) == []


@pytest.mark.parametrize("limit", ["1048575", "0", "-1Gi", "512Ki", "10"])
def test_limit_below_a_mebibyte_is_reported(config_findings, limit):
    assert config_findings("GA247", mps(f"{{{DEFAULT}: {limit}}}")) == [
        f"{MPS}.{DEFAULT}: invalid limit: default value set too low: {limit}; {LOW}"
    ]


@pytest.mark.parametrize(
    "key", ["-1", "gpu-0", "GPU-18E5B2A4-1C2D-4E3F-8A9B-0C1D2E3F4A5B", "GPU-18e5b2a4", "''", "1e1"]
)
def test_key_that_no_device_has_is_reported(config_findings, key):
    assert len(config_findings("GA247", mps(f"{{{LIMITS}: {{{key}: 1Gi}}}}"), count=8)) == 1


@pytest.mark.parametrize("key", ["0", "+1", "007", "MIG-18e5b2a4-1c2d-4e3f-8a9b-0c1d2e3f4a5b"])
def test_key_that_a_device_can_have_is_not_reported(config_findings, key):
    assert config_findings("GA247", mps(f"{{{LIMITS}: {{'{key}': 1Gi}}}}"), count=8) == []


def test_index_is_counted_over_all_requests_of_a_config(config_findings, requests_for):
    requests = requests_for(
        a="gpu.nvidia.com", b={"two": "gpu.nvidia.com", "one": "gpu.nvidia.com"}, c="mig.nvidia.com"
    )
    requests[1]["firstAvailable"][0]["count"] = 2
    for index, known in (("2", True), ("3", False)):
        texts = config_findings("GA247", mps(f"{{{LIMITS}: {{'{index}': 1Gi}}}}"), names=None, requests=requests)
        assert (texts == []) is known


@pytest.mark.parametrize(("index", "known"), [("31", True), ("32", False)])
def test_index_among_all_devices_is_bounded_by_what_a_claim_holds(config_findings, index, known):
    settings = mps(f"{{{LIMITS}: {{'{index}': 1Gi}}}}")
    asked = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All"}
    every = config_findings("GA247", settings, requests=[{"name": "gpu", "exactly": asked}])
    of_class = config_findings("GA247", settings, names=None, kind="DeviceClass", requests=[])
    assert [every == [], of_class == []] == [known, known]
