"""Sandbox workloads: GA186 to GA188."""

import pytest

from policies.rules.decision import Severity
from tests.configuration.sandbox_policies import CHART, findings_of, node, policy

MANAGER = "{enabled: true, repository: registry.example.com/nvidia, image: vgpu-manager, version: 580.65.05}"


@pytest.mark.parametrize("sandbox", ["enabled: false, defaultWorkload: container, mode: kubevirt", ""])
def test_what_the_chart_enables_in_advance_is_left_alone(examined, sandbox):
    assert findings_of(examined(policy(sandbox=sandbox, **CHART))) == []


@pytest.mark.parametrize(
    "sandbox",
    [
        "enabled: true",
        "enabled: true, defaultWorkload: vm-passthrough",
        "enabled: true, mode: kata, defaultWorkload: vm-passthrough",
    ],
)
def test_the_chart_with_sandboxes_is_left_alone(examined, sandbox):
    assert findings_of(examined(policy(sandbox=sandbox, **CHART))) == []


NEVER = "the operator never deploys {} while sandboxWorkloads.enabled is not true"
ENABLE = "write sandboxWorkloads.enabled: true, or {}.enabled: false"


def test_component_without_sandboxes_warns(examined):
    found = examined(policy(sandbox="", vfioManager="{enabled: true}"))
    assert findings_of(found) == [
        (Severity.WARN, f"spec.vfioManager.enabled: {NEVER.format('vfioManager')}; {ENABLE.format('vfioManager')}")
    ]
    found = examined(policy(sandbox="enabled: false", vfioManager="{enabled: true}"))
    assert findings_of(found) == [
        (Severity.WARN, f"spec.vfioManager.enabled: {NEVER.format('vfioManager')}; {ENABLE.format('vfioManager')}")
    ]


def test_vgpu_manager_without_sandboxes_warns_whatever_the_chart_enables(examined):
    found = examined(policy(sandbox="enabled: false", vgpuManager=MANAGER, **CHART))
    assert findings_of(found) == [
        (Severity.WARN, f"spec.vgpuManager.enabled: {NEVER.format('vgpuManager')}; {ENABLE.format('vgpuManager')}")
    ]


def test_workload_and_mode_without_sandboxes_are_warned_of(examined):
    found = examined(policy(sandbox="enabled: false, defaultWorkload: vm-vgpu, mode: kata"))
    text = "has no effect, because sandboxWorkloads.enabled is not true; every node runs containers"
    remedy = "remove it, or enable sandboxWorkloads and the components that serve machines"
    assert findings_of(found) == [
        (
            Severity.WARN,
            f'spec.sandboxWorkloads.{field}: "{value}" {text}; {remedy}',
        )
        for field, value in (("defaultWorkload", "vm-vgpu"), ("mode", "kata"))
    ]


def test_deleted_object_gives_no_finding(examined):
    for sandbox in ("", "enabled: true, defaultWorkload: vm-passthrough"):
        assert (
            findings_of(examined(f"# operation: DELETE\n{policy(sandbox=sandbox, vgpuManager='{enabled: true}')}"))
            == []
        )


@pytest.mark.parametrize(
    ("mode", "other", "own"),
    [
        ("kata", "sandboxDevicePlugin", "kataSandboxDevicePlugin"),
        ("kubevirt", "kataSandboxDevicePlugin", "sandboxDevicePlugin"),
    ],
)
def test_device_plugin_of_the_other_mode_is_warned_about(examined, mode, other, own):
    components = {"vfioManager": "{enabled: true}", other: "{enabled: true}"}
    assert findings_of(examined(policy(sandbox=f"enabled: true, mode: {mode}", **components))) == [
        (
            Severity.WARN,
            (
                f"spec.{other}.enabled: is true, but with mode: {mode} the operator deploys {own} instead, which is not "
                f"enabled; write {own}.enabled: true, or another mode"
            ),
        )
    ]


def test_confidential_computing_without_kata_is_warned_about(examined):
    components = {"vfioManager": "{enabled: true}", "ccManager": "{enabled: true, defaultMode: 'on'}"}
    assert findings_of(examined(policy(**components))) == [
        (
            Severity.WARN,
            (
                "spec.ccManager.enabled: is true, but the operator deploys it only with mode: kata; write "
                "sandboxWorkloads.mode: kata, or ccManager.enabled: false"
            ),
        )
    ]


def test_vgpu_with_kata_is_refused(examined):
    assert findings_of(examined(policy(sandbox="enabled: true, mode: kata, defaultWorkload: vm-vgpu", **CHART))) == [
        (
            Severity.DENY,
            (
                'spec.sandboxWorkloads.defaultWorkload: "vm-vgpu" does not work with mode: kata: '
                'Kata machines get whole GPUs only; write "vm-passthrough", or mode: kubevirt'
            ),
        )
    ]


@pytest.mark.parametrize(("mode", "plugin"), [("kubevirt", "sandboxDevicePlugin"), ("kata", "kataSandboxDevicePlugin")])
def test_passthrough_without_vfio_is_warned_about(examined, mode, plugin):
    sandbox = f"enabled: true, mode: {mode}, defaultWorkload: vm-passthrough"
    assert findings_of(examined(policy(sandbox=sandbox, **{plugin: "{enabled: true}"}))) == [
        (
            Severity.WARN,
            (
                'spec.sandboxWorkloads.defaultWorkload: "vm-passthrough" without vfioManager works only on hosts that bind '
                f"their GPUs to vfio-pci themselves; write vfioManager.enabled: true and {plugin}.enabled: true"
            ),
        )
    ]


VGPU = "enabled: true, defaultWorkload: vm-vgpu"


def test_vgpu_with_a_manager_that_the_host_may_have_is_warned_of(examined):
    assert findings_of(examined(policy(sandbox=VGPU))) == [
        (
            Severity.WARN,
            (
                'spec.sandboxWorkloads.defaultWorkload: "vm-vgpu" without vgpuManager works only on hosts where a vGPU '
                "Manager is installed already; write vgpuManager.enabled: true with repository, image and version"
            ),
        )
    ]


def test_vgpu_with_a_manager_is_left_alone(examined):
    assert findings_of(examined(policy(sandbox=VGPU, vgpuManager=MANAGER, **CHART))) == []
    assert findings_of(examined(policy(sandbox=VGPU, driver="{useNvidiaDriverCRD: true}", **CHART))) == []


def test_sandboxes_without_any_component_are_warned_of(examined):
    assert findings_of(examined(policy())) == [
        (
            Severity.WARN,
            (
                "spec.sandboxWorkloads.enabled: is true, but no component that serves machines is enabled; write "
                "vfioManager.enabled: true and sandboxDevicePlugin.enabled: true for whole GPUs"
            ),
        )
    ]


VGPU_MANAGER = "write vgpuManager.enabled: true with repository, image and version"


@pytest.mark.parametrize("default", ["container", "vm-passthrough"])
def test_nodes_for_vgpus_without_their_manager_are_warned_of(examined, default):
    text = policy(
        node(workload="vm-vgpu"),
        sandboxWorkloads=f"{{enabled: true, defaultWorkload: {default}}}",
        vfioManager="{enabled: true}",
        sandboxDevicePlugin="{enabled: true}",
    )
    assert findings_of(examined(text), "GA188") == [
        (
            Severity.WARN,
            (
                'spec.sandboxWorkloads.enabled: is true, but vgpuManager, which the node "gpu-1" would need, is not enabled; '
                f"{VGPU_MANAGER}, or label them nvidia.com/gpu.workload.config: vm-passthrough"
            ),
        )
    ]


def test_nodes_for_passthrough_without_vfio_are_warned_of(examined):
    assert findings_of(examined(policy(node(workload="vm-passthrough"), sandboxDevicePlugin="{enabled: true}"))) == [
        (
            Severity.WARN,
            (
                'spec.sandboxWorkloads.enabled: is true, but vfioManager, which the node "gpu-1" '
                "would need, is not enabled; write vfioManager.enabled: true"
            ),
        )
    ]
