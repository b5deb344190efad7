"""Sharing: one strategy, its settings, the gates that it needs, and intervals of time slices."""

import pytest

SHARING = "spec.devices.config[0].opaque.parameters.sharing"
STRATEGIES = "supported GPU sharing strategies: TimeSlicing, MPS"


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        ("{}", f"unknown GPU sharing strategy: , {STRATEGIES}; write TimeSlicing or MPS, or remove sharing"),
        ("{mpsConfig: {}}", f'unknown GPU sharing strategy: , {STRATEGIES}; write "MPS"'),
        ("{timeSlicingConfig: {}}", f'unknown GPU sharing strategy: , {STRATEGIES}; write "TimeSlicing"'),
        ("{strategy: mps}", f'unknown GPU sharing strategy: mps, {STRATEGIES}; write "MPS"'),
        ("{strategy: TimeSlice}", f'unknown GPU sharing strategy: TimeSlice, {STRATEGIES}; write "TimeSlicing"'),
        (
            "{strategy: Exclusive}",
            f"unknown GPU sharing strategy: Exclusive, {STRATEGIES}; write TimeSlicing or MPS, or remove sharing",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["GpuConfig", "MigDeviceConfig"])
def test_unknown_strategy_is_reported(config_findings, kind, sharing, expected):
    assert config_findings("GA243", f"{{kind: {kind}, sharing: {sharing}}}") == [f"{SHARING}.strategy: {expected}"]


@pytest.mark.parametrize("sharing", ["{strategy: MPS}", "{strategy: TimeSlicing}", "null", "[]", "{strategy: [1]}"])
def test_known_strategy_is_not_reported(config_findings, sharing):
    assert config_findings("GA243", f"{{kind: GpuConfig, sharing: {sharing}}}") == []


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        (
            "{strategy: TimeSlicing, timeSlicingConfig: {interval: Long}, mpsConfig: {}}",
            (f"{SHARING}.mpsConfig: cannot use MpsConfig with the 'TimeSlicing' strategy; remove mpsConfig"),
        ),
        (
            "{strategy: MPS, timeSlicingConfig: {interval: Nope}, mpsConfig: {}}",
            (
                f"{SHARING}.timeSlicingConfig: cannot use TimeSlicingConfig with the 'MPS' strategy; remove "
                "timeSlicingConfig"
            ),
        ),
        (
            "{strategy: TimeSlicing, mpsConfig: {}}",
            (
                f"{SHARING}.mpsConfig: cannot use MpsConfig with the 'TimeSlicing' strategy; remove mpsConfig, or write "
                "strategy: MPS"
            ),
        ),
    ],
)
def test_settings_of_the_other_strategy_are_reported(config_findings, sharing, expected):
    assert config_findings("GA243", f"{{kind: GpuConfig, sharing: {sharing}}}") == [expected]


def test_settings_of_mps_beside_time_slicing_have_no_effect_on_mig(config_findings):
    parameters = "{kind: MigDeviceConfig, sharing: {strategy: TimeSlicing, mpsConfig: {}}}"
    assert config_findings("GA243", parameters, device_class="mig.nvidia.com") == [
        f"{SHARING}.mpsConfig: has no effect with the 'TimeSlicing' strategy; remove mpsConfig, or write strategy: MPS"
    ]


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        (
            "{}",
            (
                'is missing, and the driver fails on that with "invalid memory address or nil pointer dereference"; write '
                "interval: Default, or leave timeSlicingConfig out"
            ),
        ),
        (
            "{interval: null}",
            (
                'is missing, and the driver fails on that with "invalid memory address or nil pointer dereference"; write '
                "interval: Default, or leave timeSlicingConfig out"
            ),
        ),
        (
            "{interval: long}",
            (
                "unknown time-slice interval: long, supported time-slice intervals: Default, Short, Medium, Long; write "
                '"Long"'
            ),
        ),
        (
            "{interval: 2ms}",
            (
                "unknown time-slice interval: 2ms, supported time-slice intervals: Default, Short, Medium, Long; write one "
                "of Default, Short, Medium, Long"
            ),
        ),
    ],
)
def test_interval_that_does_not_exist_is_reported(config_findings, interval, expected):
    parameters = f"{{kind: GpuConfig, sharing: {{strategy: TimeSlicing, timeSlicingConfig: {interval}}}}}"
    assert config_findings("GA245", parameters) == [f"{SHARING}.timeSlicingConfig.interval: {expected}"]


@pytest.mark.parametrize("interval", ["Default", "Short", "Medium", "Long"])
def test_interval_that_exists_is_not_reported(config_findings, interval):
    config = f"{{interval: {interval}}}"
    parameters = f"{{kind: GpuConfig, sharing: {{strategy: TimeSlicing, timeSlicingConfig: {config}}}}}"
    assert config_findings("GA245", parameters) == []


@pytest.mark.parametrize("config", ["null", "[]", "{interval: [1]}"])
def test_default_and_other_shapes_of_time_slicing_are_not_reported(config_findings, config):
    parameters = f"{{kind: GpuConfig, sharing: {{strategy: TimeSlicing, timeSlicingConfig: {config}}}}}"
    assert config_findings("GA245", parameters) == []


def test_time_slicing_of_mig_devices_is_reported_as_without_effect(config_findings):
    parameters = "{kind: MigDeviceConfig, sharing: {strategy: TimeSlicing}}"
    assert config_findings("GA245", parameters, device_class="mig.nvidia.com") == [
        (
            f"{SHARING}.strategy: has no effect on MIG devices, whose time slices cannot be set; remove sharing; pods share a "
            "MIG device by sharing its claim"
        )
    ]


@pytest.mark.parametrize(
    ("strategy", "gate"), [("TimeSlicing", "TimeSlicingSettings"), ("MPS", "MPSSupport")], ids=lambda text: text
)
def test_strategy_whose_gate_is_off_is_refused(config_findings, strategy, gate):
    parameters = f"{{kind: GpuConfig, sharing: {{strategy: {strategy}}}}}"
    expected = [
        (
            f'{SHARING}.strategy: "{strategy}" is selected as the GPU sharing strategy, but the "{gate}" feature gate is not '
            "enabled; turn the feature gate on in the values of the driver's chart, or remove sharing"
        )
    ]
    assert config_findings("GA244", parameters, gates={}) == expected
    assert config_findings("GA244", parameters, gates={gate: False}) == expected


@pytest.mark.parametrize(
    ("strategy", "gate"), [("TimeSlicing", "TimeSlicingSettings"), ("MPS", "MPSSupport")], ids=lambda text: text
)
def test_strategy_whose_gate_is_unknown_is_warned_about(config_findings, strategy, gate):
    assert config_findings("GA244", f"{{kind: MigDeviceConfig, sharing: {{strategy: {strategy}}}}}", gates=None) == [
        (
            f'{SHARING}.strategy: needs the driver\'s feature gate "{gate}", which is off by default; turn it on, and say so '
            "in spec.draDriver.featureGates of the GPUAdmissionPolicy"
        )
    ]


def test_strategies_whose_gates_are_on_are_not_reported(config_findings):
    for strategy in ("TimeSlicing", "MPS"):
        assert config_findings("GA244", f"{{kind: GpuConfig, sharing: {{strategy: {strategy}}}}}") == []


def test_gates_of_a_gpu_cluster_count(config_findings):
    cluster = "\n---\n{apiVersion: nvidia.com/v1alpha1, kind: GPUCluster, metadata: {name: a}, spec: {}}"
    (text,) = config_findings("GA244", "{kind: GpuConfig, sharing: {strategy: MPS}}", gates=None, cluster=cluster)
    assert '"MPSSupport" feature gate is not enabled' in text


@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        (
            "DynamicMIG",
            "MPS is not yet supported when using featureGates.DynamicMIG=true; remove sharing, or turn DynamicMIG off",
        ),
        (
            "ConsumableShares",
            (
                "MPS sharing is not supported when consumable shares is enabled, and its feature gate is on; request a share "
                "of a GPU in place of MPS, or set consumableShares of the driver to disabled"
            ),
        ),
    ],
)
def test_gate_that_forbids_mps_is_reported(config_findings, gate, expected):
    gates = {"MPSSupport": True, gate: True}
    parameters = "{kind: GpuConfig, sharing: {strategy: MPS}}"
    assert config_findings("GA244", parameters, gates=gates) == [f"{SHARING}.strategy: {expected}"]


def test_severity_follows_what_is_known_of_a_gate(examined):
    head = (
        "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: mps}, spec: {config: [{opaque: {driver: "
        "gpu.nvidia.com, parameters: {apiVersion: resource.nvidia.com/v1beta1, kind: GpuConfig, sharing: {strategy: "
        "MPS}}}}]}}"
    )
    cluster = "\n---\n{apiVersion: nvidia.com/v1alpha1, kind: GPUCluster, metadata: {name: a}, spec: {}}"
    assert [found.severity for found in examined(head) if found.rule.id == "GA244"] == ["warn"]
    assert [found.severity for found in examined(head + cluster) if found.rule.id == "GA244"] == ["deny"]
