"""RDMA, GPUDirect Storage, GDRCopy: GA165 to GA168."""

from textwrap import dedent, indent

import pytest

from policies.rules.decision import Severity
from tests.findings import plain_text

ADAPTER = "feature.node.kubernetes.io/pci-15b3.present"
POLICY = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\nspec:\n"
DRIVER = "apiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nmetadata: {name: gds}\nspec:\n"
IMAGE = "repository: nvcr.io/nvidia/cloud-native, image: nvidia-fs"


def of(head, spec, *cluster):
    return "\n---\n".join([head + indent(dedent(spec), "  "), *cluster])


def node(*labels, kernel="6.8.0-60-generic"):
    described = "".join(f', {label}: "true"' for label in ("feature.node.kubernetes.io/pci-10de.present", *labels))
    return (
        f'apiVersion: v1\nkind: Node\nmetadata: {{name: gpu-1, labels: {{nvidia.com/gpu.present: "true"{described}}}}}\n'
        f"status: {{nodeInfo: {{kernelVersion: {kernel}}}}}"
    )


def findings_of(found, rule):
    return [(finding.severity, plain_text(finding)) for finding in found if finding.rule.id == rule]


def test_host_mofed_without_rdma_has_no_effect(examined):
    assert findings_of(examined(of(POLICY, "driver: {rdma: {useHostMofed: true}}")), "GA165") == [
        (
            Severity.WARN,
            (
                "spec.driver.rdma.useHostMofed: has no effect, because the operator reads it only if "
                "rdma.enabled is true; write rdma.enabled: true beside it, or remove it"
            ),
        )
    ]
    assert findings_of(examined(of(DRIVER, "rdma: {useHostMofed: true}")), "GA165")


@pytest.mark.parametrize(
    "rdma", ["enabled: true, useHostMofed: true", "enabled: false, useHostMofed: false", "enabled: true"]
)
def test_rdma_that_acts_is_left_alone(examined, rdma):
    assert not findings_of(examined(of(POLICY, f"driver: {{rdma: {{{rdma}}}}}")), "GA165")


CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: plugin, namespace: gpu-operator}
data:
  any: |
    flags: {gdsEnabled: false, gdrcopyEnabled: false}
  broken: "a: ["
"""
PLUGIN = "devicePlugin: {config: {name: plugin}}\n"


def test_flag_of_the_plugin_is_overruled_by_the_policy(examined):
    found = examined(of(POLICY, f"{PLUGIN}gds: {{enabled: true, {IMAGE}, version: 2.29.4}}", CONFIG_MAP))
    assert findings_of(found, "GA165") == [
        (
            Severity.WARN,
            (
                'spec.gds.enabled: overrules flags.gdsEnabled: false of "any" in ConfigMap "plugin": '
                "GDS_ENABLED is set to true; remove gdsEnabled from the ConfigMap, or disable gds "
                "here"
            ),
        )
    ]


def test_flags_of_an_unknown_config_map_are_not_guessed(examined):
    assert not findings_of(examined(of(POLICY, f"{PLUGIN}gds: {{enabled: true, {IMAGE}, version: 2.29.4}}")), "GA165")
    assert not findings_of(examined(of(POLICY, f"{PLUGIN}gds: {{enabled: false}}", CONFIG_MAP)), "GA165")


def test_rdma_without_adapters_waits_for_ever(examined):
    assert findings_of(examined(of(POLICY, "driver: {rdma: {enabled: true}}", node())), "GA166") == [
        (
            Severity.WARN,
            (
                "spec.driver.rdma.enabled: makes the driver wait for MOFED without end, because no "
                'network adapter of NVIDIA is on the GPU node "gpu-1"; install NVIDIA\'s network '
                "adapters and the Network Operator first, or write rdma.enabled: false"
            ),
        )
    ]


@pytest.mark.parametrize("spec", ["{enabled: true}", "{enabled: true, useHostMofed: true}"])
@pytest.mark.parametrize("label", [ADAPTER, "feature.node.kubernetes.io/pci-0207_15b3.present"])
def test_rdma_with_adapters_is_left_alone(examined, spec, label):
    assert not findings_of(examined(of(POLICY, f"driver: {{rdma: {spec}}}", node(label))), "GA166")


def test_rdma_is_left_alone_where_nodes_are_unknown_or_not_described(examined):
    bare = 'apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {nvidia.com/gpu.present: "true"}}'
    assert not findings_of(examined(of(POLICY, "driver: {rdma: {enabled: true}}")), "GA166")
    assert not findings_of(examined(of(POLICY, "driver: {rdma: {enabled: true}}", bare)), "GA166")


def test_rdma_of_a_driver_looks_at_its_own_nodes(examined):
    spec = "nodeSelector: {pool: rdma}\nrdma: {enabled: true}"
    assert not findings_of(examined(of(DRIVER, spec, node())), "GA166")
    assert findings_of(
        examined(of(DRIVER, spec.replace("pool: rdma", 'nvidia.com/gpu.present: "true"'), node())), "GA166"
    )


def test_peermem_on_new_kernels_is_noted(examined):
    spec = "driver: {kernelModuleType: open, rdma: {enabled: true}}"
    assert findings_of(examined(of(POLICY, spec, node(ADAPTER))), "GA166") == [
        (
            Severity.AUDIT,
            (
                "spec.driver.rdma.enabled: loads nvidia-peermem, which the open modules do not need "
                'on kernels since 5.12, as on the GPU node "gpu-1"; remove rdma and let applications '
                "use DMA-BUF, unless a library needs nvidia-peermem"
            ),
        )
    ]
    assert not findings_of(examined(of(POLICY, spec, node(ADAPTER, kernel="5.4.0"))), "GA166")
    assert not findings_of(examined(of(POLICY, spec.replace("open", "auto"), node(ADAPTER))), "GA166")


def test_storage_without_adapters_is_local(examined):
    spec = f"gds: {{enabled: true, {IMAGE}, version: 2.29.4}}"
    assert findings_of(examined(of(POLICY, spec, node())), "GA166") == [
        (
            Severity.WARN,
            (
                "spec.gds.enabled: serves only local NVMe: no network adapter of NVIDIA is on the "
                'GPU node "gpu-1", and rdma is not enabled; keep it if the data is on local NVMe; '
                "for remote storage install the Network Operator first"
            ),
        )
    ]
    assert not findings_of(examined(of(POLICY, spec, node(ADAPTER))), "GA166")
    assert not findings_of(examined(of(POLICY, spec)), "GA166")


def test_storage_beside_proprietary_modules_is_refused(examined):
    spec = f"driver: {{kernelModuleType: proprietary}}\ngds: {{enabled: true, {IMAGE}, version: 2.29.4}}"
    assert findings_of(examined(of(POLICY, spec)), "GA167") == [
        (
            Severity.DENY,
            (
                'spec.driver.kernelModuleType: is "proprietary"; nvidia-fs since 2.17.5 can be '
                "loaded only beside the open kernel modules, so gds fails; write kernelModuleType: "
                "open, or disable gds"
            ),
        )
    ]


@pytest.mark.parametrize(
    ("modules", "version"), [("open", "2.29.4"), ("auto", "2.29.4"), ("proprietary", "2.16.1"), ("proprietary", "v2.7")]
)
def test_storage_that_loads_is_left_alone(examined, modules, version):
    spec = f"driver: {{kernelModuleType: {modules}}}\ngds: {{enabled: true, {IMAGE}, version: {version}}}"
    assert not findings_of(examined(of(POLICY, spec)), "GA167")


@pytest.mark.parametrize("version", ["2.29.4", "v2.17.5", "sha256:" + "a" * 64])
def test_storage_of_a_driver_needs_the_word_open(examined, version):
    assert findings_of(examined(of(DRIVER, f"gds: {{enabled: true, {IMAGE}, version: '{version}'}}")), "GA167") == [
        (
            Severity.DENY,
            (
                'spec.kernelModuleType: is "auto", and gds needs "open"; the operator would report: GPUDirect Storage driver '
                f"'{version}' is only supported with NVIDIA OpenRM drivers; write kernelModuleType: open, or disable gds"
            ),
        )
    ]


def test_storage_of_a_driver_with_open_modules_is_left_alone(examined):
    spec = f"kernelModuleType: open\ngds: {{enabled: true, {IMAGE}, version: 2.29.4}}"
    assert not findings_of(examined(of(DRIVER, spec)), "GA167")


@pytest.mark.parametrize("version", ["2.16.1", "custom", ""])
def test_storage_of_a_version_that_the_operator_takes_for_old_is_left_alone(examined, version):
    assert not findings_of(examined(of(DRIVER, f"gds: {{enabled: true, {IMAGE}, version: '{version}'}}")), "GA167")


@pytest.mark.parametrize("driver", ["enabled: false", "useNvidiaDriverCRD: true"])
def test_storage_beside_another_driver_needs_no_image_and_no_modules(examined, driver):
    spec = f"driver: {{{driver}, kernelModuleType: proprietary}}\ngds: {{enabled: true, version: 2.29.4}}\ngdrcopy: {{enabled: true}}"
    found = examined(of(POLICY, spec))
    assert not findings_of(found, "GA167")
    assert not findings_of(found, "GA168")


def test_gdrcopy_without_image_is_refused(examined):
    assert findings_of(examined(of(POLICY, "gdrcopy: {enabled: true}")), "GA168") == [
        (
            Severity.DENY,
            (
                "spec.gdrcopy.enabled: is enabled without an image, and there is no default; the driver would not be "
                "deployed at all; write repository: nvcr.io/nvidia/cloud-native, image: gdrdrv and a version in gdrcopy"
            ),
        )
    ]


@pytest.mark.parametrize("component", ["gds", "gdrcopy"])
def test_sidecars_of_a_driver_have_no_image_anywhere(examined, component):
    openshift = "apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {node.openshift.io/os_id: rhel}}"
    assert findings_of(examined(of(DRIVER, f"{component}: {{enabled: true}}", openshift)), "GA168")


def test_openshift_brings_an_image_of_gdrcopy(examined):
    openshift = POLICY.replace("cluster-policy", "gpu-cluster-policy")
    assert not findings_of(examined(of(openshift, "gdrcopy: {enabled: true}")), "GA168")
    assert findings_of(examined(of(openshift, "gds: {enabled: true}")), "GA168")


def test_images_of_a_known_operator_are_checked(examined):
    operator = """
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: gpu-operator, namespace: gpu-operator}
    spec: {template: {spec: {containers: [{env: [{name: GDS_IMAGE, value: a}]}]}}}"""
    assert not findings_of(examined(of(POLICY, "gds: {enabled: true}", dedent(operator))), "GA168")
    assert findings_of(examined(of(POLICY, "gdrcopy: {enabled: true}", dedent(operator))), "GA168")
