"""vGPUs, confidential computing, and the nodes of sandbox workloads: GA189 to GA191."""

import pytest

from policies.rules.decision import Severity
from tests.configuration.sandbox_policies import CHART, findings_of, node, policy


@pytest.mark.parametrize("manager", ["{enabled: true}", "{enabled: true, image: vgpu-manager}"])
def test_vgpu_manager_without_image_is_refused(examined, manager):
    assert findings_of(examined(policy(vgpuManager=manager))) == [
        (
            Severity.DENY,
            (
                "spec.vgpuManager.enabled: is true without repository, image and version, and the "
                "vGPU Manager has no public image; write repository, image and version of the vGPU "
                "Manager that you have built"
            ),
        )
    ]


def test_driver_of_guests_on_hosts_is_warned_of(examined):
    image = "repository: registry.example.com/nvidia, image: driver, version: 580.65.06"
    assert findings_of(examined(policy(vgpuManager=f"{{enabled: true, {image}}}", driver=f"{{{image}}}"))) == [
        (
            Severity.WARN,
            (
                'spec.vgpuManager.image: "driver" is also the image of driver; the driver of guests '
                "is not a vGPU Manager for hosts; write the image of the vGPU Manager"
            ),
        )
    ]


def guest(version, modules="open", licence="secretName: licence"):
    return f"{{version: '{version}', kernelModuleType: {modules}, licensingConfig: {{{licence}}}}}"


def test_old_guest_with_open_modules_is_warned_of(examined):
    assert findings_of(examined(policy(sandbox="", driver=guest("535.183.06")))) == [
        (
            Severity.WARN,
            (
                'spec.driver.kernelModuleType: is "open", which vGPU guests can use since vGPU 17 '
                "(branch 550); the driver is of branch 535; write kernelModuleType: proprietary, or "
                "a driver of branch 550 or later"
            ),
        )
    ]


@pytest.mark.parametrize(
    "driver",
    [guest("550.90.07"), guest("535.183.06", "auto"), guest("535.183.06", licence="secretName: ''"), guest("x")],
)
def test_guest_that_can_be_licensed_is_left_alone(examined, driver):
    assert findings_of(examined(policy(sandbox="", driver=driver))) == []


def devices(data):
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: vgpus, namespace: gpu-operator}}\n{data}"


CONFIGS = devices("data: {config.yaml: 'vgpu-configs: {A40-24Q: [], A40-12Q: []}'}")


def device_manager(default="", *cluster):
    chosen = f", default: {default}" if default else ""
    return policy(*cluster, vgpuDeviceManager=f"{{enabled: true, config: {{name: vgpus{chosen}}}}}")


def test_default_that_exists_is_left_alone(examined):
    assert findings_of(examined(device_manager("A40-24Q", CONFIGS))) == []


def test_default_of_an_unknown_config_map_is_not_guessed(examined):
    assert findings_of(examined(device_manager("A40-24Q"))) == []


@pytest.mark.parametrize(
    ("default", "cluster", "text"),
    [
        (
            "A40-24G",
            CONFIGS,
            (
                '.default: "A40-24G" is not one of the vgpu-configs of "vgpus", which has "A40-24Q", '
                '"A40-12Q"; nodes without a label would fail; write "A40-24Q"'
            ),
        ),
        (
            "",
            CONFIGS,
            (
                '.default: "default" is not one of the vgpu-configs of "vgpus", which has "A40-24Q", '
                '"A40-12Q"; nodes without a label would fail; write the name of a configuration that '
                "the ConfigMap has"
            ),
        ),
        (
            "A40-24Q",
            devices("data: {config.yaml: 'version: v1'}"),
            (
                '.default: "A40-24Q" is not one of the vgpu-configs of "vgpus", which has none; '
                "nodes without a label would fail; write the name of a configuration that the "
                "ConfigMap has"
            ),
        ),
        (
            "A40-24Q",
            devices("data: {vgpus.yaml: ''}"),
            (
                '.name: ConfigMap "vgpus" has "vgpus.yaml" and not config.yaml; the pods would not '
                'start; rename the key in ConfigMap "vgpus" to config.yaml'
            ),
        ),
        (
            "A40-24Q",
            devices(""),
            (
                '.name: ConfigMap "vgpus" has no key config.yaml; the pods would not start; '
                "add the key config.yaml to it"
            ),
        ),
        (
            "A40-24Q",
            CONFIGS.replace("name: vgpus", "name: others"),
            (
                '.name: ConfigMap "vgpus" not found in gpu-operator; the pods '
                'would not start; create ConfigMap "vgpus" in gpu-operator first, with the key '
                "config.yaml"
            ),
        ),
    ],
)
def test_default_that_does_not_exist_is_refused(examined, default, cluster, text):
    found = findings_of(examined(device_manager(default, cluster)))
    assert found == [(Severity.DENY, f"spec.vgpuDeviceManager.config{text}")]


def test_config_map_that_cannot_be_read_is_refused(examined):
    found = findings_of(examined(device_manager("A40-24Q", devices("data: {config.yaml: 'a: ['}"))))
    assert [severity for severity, _ in found] == [Severity.DENY]
    assert '"vgpus" cannot be read' in found[0][1]


KATA = "enabled: true, mode: kata, defaultWorkload: vm-passthrough"


def test_mode_of_confidential_computing_should_be_said(examined):
    assert findings_of(examined(policy(sandbox=KATA, **{**CHART, "ccManager": "{enabled: true}"}))) == [
        (
            Severity.WARN,
            (
                "spec.ccManager.enabled: is true without defaultMode, so the mode that is built into the image is applied to "
                'every GPU; write defaultMode: "on", "off" or "devtools", in quotes'
            ),
        )
    ]


def test_mislabelled_nodes_are_warned_of(examined):
    assert findings_of(examined(policy(node(workload="passthrough"), **CHART))) == [
        (
            Severity.WARN,
            (
                'spec.sandboxWorkloads.defaultWorkload: "container" applies to the GPU node "gpu-1", '
                "because the label nvidia.com/gpu.workload.config is not a known workload: "
                '"passthrough"; label them with one of container, vm-passthrough, vm-vgpu'
            ),
        )
    ]


def test_cut_gpus_for_machines_are_warned_of(examined):
    sandbox = "enabled: true, defaultWorkload: vm-passthrough"
    assert findings_of(examined(policy(node(mig="all-1g.10gb"), sandbox=sandbox, **CHART))) == [
        (
            Severity.WARN,
            (
                "spec.sandboxWorkloads.defaultWorkload: vm-passthrough hands out whole GPUs, but "
                'nvidia.com/mig.config divides those of the GPU node "gpu-1"; label them '
                "nvidia.com/gpu.workload.config: container, or nvidia.com/mig.config: all-disabled"
            ),
        )
    ]
    for fine in (node(mig="all-disabled"), node(mig="all-1g.10gb", workload="container")):
        assert findings_of(examined(policy(fine, sandbox=sandbox, **CHART))) == []


def test_confidential_computing_on_older_gpus_is_warned_of(examined):
    assert findings_of(examined(policy(node(family="ampere"), sandbox=KATA, **CHART))) == [
        (
            Severity.WARN,
            (
                'spec.ccManager.enabled: needs GPUs of Hopper or later, not "ampere" of the GPU node '
                '"gpu-1"; write ccManager.enabled: false, or defaultMode: "off"'
            ),
        )
    ]


def test_confidential_computing_where_it_is_possible_is_left_alone(examined):
    for nodes in ([node(family="hopper"), node("b", family="ampere")], [node(family="ampere"), node("b")], [node()]):
        assert findings_of(examined(policy(*nodes, sandbox=KATA, **CHART))) == []


@pytest.mark.parametrize(
    ("labels", "severity"),
    [
        ({"workload": "vm-vgpu"}, Severity.DENY),
        ({"workload": "vm-vgpu", "vgpu": "A40-12Q"}, Severity.WARN),
        ({"workload": "vm-passthrough"}, Severity.WARN),
    ],
)
def test_default_for_vgpus_is_needed_only_by_nodes_for_vgpus(examined, labels, severity):
    found = examined(device_manager("A40-24G", CONFIGS, node(**labels)))
    assert [one.severity for one in found if one.rule.id == "GA190"] == [severity]
