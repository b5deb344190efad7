"""The driver: its version, its kernel modules, its GPUs, and settings without effect."""

import json

import pytest

POLICY = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\nspec:\n"
DRIVER = "apiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nmetadata: {name: pool}\nspec:\n"
IMAGE = "repository: nvcr.io/nvidia, image: driver"
KERNEL = "feature.node.kubernetes.io/kernel-version.full"
OS_ID = "feature.node.kubernetes.io/system-os_release.ID"
OS_VERSION = "feature.node.kubernetes.io/system-os_release.VERSION_ID"


@pytest.fixture
def findings_of(examined):
    """`findings_of("GA117", "driver: {...}")`: path, severity and message of a rule's findings on a spec."""

    def tell(rule, spec, *cluster, kind=POLICY, before=None, deleted=False):
        text = kind + "\n".join(f"  {line}" for line in spec.splitlines())
        if before:
            text += "\n--- # before\n" + kind + "\n".join(f"  {line}" for line in before.splitlines())
        text = "\n---\n".join([text, *cluster])
        found = examined("# operation: DELETE\n" + text if deleted else text)
        return [(str(one.path), str(one.severity), one.message) for one in found if one.rule.id == rule]

    return tell


def node(name, allocatable=None, **labels):
    short = {"family": "nvidia.com/gpu.family", "product": "nvidia.com/gpu.product", "pool": "example.com/pool"}
    short |= {"kernel": KERNEL, "os": OS_ID, "os_version": OS_VERSION, "deploy": "nvidia.com/gpu.deploy.driver"}
    short |= {"arch": "kubernetes.io/arch", "workload": "nvidia.com/gpu.workload.config"}
    written = {"nvidia.com/gpu.present": "true"} | {short[key]: value for key, value in labels.items()}
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": written}}
    return json.dumps(document | ({"status": {"allocatable": allocatable}} if allocatable else {}))


def test_precompiled_driver_has_a_branch(findings_of):
    assert findings_of("GA117", f"driver: {{usePrecompiled: true, {IMAGE}, version: 580.65.06}}") == [
        (
            "spec.driver.version",
            "deny",
            (
                '"580.65.06" is a full version, but precompiled drivers are tagged by branch: '
                '"580.65.06-<kernel>-<os>" does not exist'
            ),
        )
    ]
    assert findings_of("GA117", f"driver: {{usePrecompiled: true, {IMAGE}, version: '580'}}") == []
    assert findings_of("GA117", f"driver: {{usePrecompiled: true, {IMAGE}, version: 535-signed}}") == []


def test_other_driver_has_a_full_version(findings_of):
    assert findings_of("GA117", f"{{driverType: gpu, {IMAGE}, version: '580'}}", kind=DRIVER) == [
        (
            "spec.version",
            "deny",
            ('"580" is a branch, but only precompiled drivers are tagged by branch: "580-<os>" does not exist'),
        )
    ]


@pytest.mark.parametrize(
    ("setting", "remedy"),
    [
        ("version: v580.95.05", 'write version: "580.95.05"'),
        ("version: R580", "write a full version of the branch such as 580.95.05, or set usePrecompiled: true"),
        ("usePrecompiled: true, version: v580.95.05", 'write version: "580"'),
    ],
)
def test_version_of_a_driver_has_no_letter_before_it(examined, setting, remedy):
    text = f"apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {{name: a}}\nspec: {{driver: {{{IMAGE}, {setting}}}}}"
    (found,) = [one for one in examined(text) if one.rule.id == "GA117"]
    assert (found.severity, found.remedy) == ("deny", remedy)
    assert 'begins with a letter, and no tag of a driver does: "' in found.message


@pytest.mark.parametrize("setting", ["usePrecompiled: true, version: 580.65.06", "version: '580'"])
def test_version_of_another_form_is_only_warned_about_in_a_registry_of_ones_own(findings_of, setting):
    own = f"driver: {{repository: registry.example.com, image: driver, {setting}}}"
    ((_, severity, message),) = findings_of("GA117", own)
    assert severity == "warn"
    assert message.endswith(' must exist in "registry.example.com"')


@pytest.mark.parametrize("setting", ["enabled: false", "useNvidiaDriverCRD: true"])
def test_driver_that_is_not_deployed_is_not_judged(findings_of, setting):
    assert findings_of("GA117", f"driver: {{{setting}, {IMAGE}, version: '580'}}") == []


def test_deleted_policy_is_not_judged(findings_of):
    spec = "driver: {useNvidiaDriverCRD: true, version: 580.95.05, livenessProbe: {periodSeconds: 1}}"
    for rule in ("GA118", "GA122", "GA123", "GA124", "GA125", "GA126", "GA127", "GA128"):
        assert findings_of(rule, spec, deleted=True) == []


def test_precompiled_driver_has_nothing_beside_it(findings_of):
    spec = f"""driver:
  {{usePrecompiled: true, {IMAGE}, version: "580", kernelModuleType: open, certConfig: {{name: certs}},
   licensingConfig: {{secretName: licence, nlsEnabled: true}}}}
gdrcopy: {{enabled: true}}"""
    assert findings_of("GA118", spec) == [
        (
            "spec.gdrcopy.enabled",
            "deny",
            (
                "does not work with driver.usePrecompiled; the operator would report: GDRCopy is not "
                "supported along with pre-compiled NVIDIA drivers"
            ),
        ),
        (
            "spec.driver.licensingConfig.secretName",
            "warn",
            "is for vGPU drivers, of which NVIDIA publishes no precompiled ones",
        ),
        (
            "spec.driver.certConfig.name",
            "warn",
            "has no effect with usePrecompiled, as nothing is built on the node",
        ),
        (
            "spec.driver.kernelModuleType",
            "warn",
            "cannot change the module that a precompiled driver comes with, except in images for Ubuntu",
        ),
    ]
    assert (
        findings_of("GA118", f"driver: {{usePrecompiled: true, {IMAGE}, version: '580', kernelModuleType: auto}}") == []
    )


PRECOMPILED = f"driver: {{usePrecompiled: true, {IMAGE}, version: '580'}}"


def test_two_systems_with_one_kernel_are_refused(findings_of):
    nodes = [node(os, kernel="6.8.0-60-generic", os="ubuntu", os_version=os) for os in ("22.04", "24.04")]
    [(path, severity, message)] = findings_of("GA119", PRECOMPILED, *nodes)
    assert (path, severity) == ("spec.driver.usePrecompiled", "deny")
    assert message.endswith(
        "the operator would report: different OS versions found for the same kernel version 6.8.0-60-generic, "
        "unsupported configuration"
    )


def test_nvidiadriver_has_a_daemonset_for_each_system_and_kernel(findings_of):
    nodes = [node(os, kernel="6.8.0-60-generic", os="ubuntu", os_version=os) for os in ("22.04", "24.04")]
    spec = f"{{driverType: gpu, usePrecompiled: true, {IMAGE}, version: '580'}}"
    assert findings_of("GA119", spec, *nodes, kind=DRIVER) == []


def test_precompiled_driver_for_ubuntu_has_both_kinds_of_modules(findings_of):
    spec = f"driver: {{usePrecompiled: true, {IMAGE}, version: '580', kernelModuleType: open}}"
    assert findings_of("GA118", spec, node("a", os="ubuntu", os_version="22.04")) == []
    assert len(findings_of("GA118", spec, node("a", os="ubuntu", os_version="22.04"), node("b", os="rhel"))) == 1


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({"os": "debian", "os_version": "12"}, "for ubuntu, rhel, rhcos, sles and sl-micro"),
        ({"arch": "arm64", "os": "ubuntu", "os_version": "22.04"}, "for x86_64 only"),
        (
            {"os": "ubuntu", "os_version": "22.04", "kernel": "5.15.0-1060-gkeop"},
            "for the Ubuntu kernels generic, aws, azure, nvidia and oracle",
        ),
    ],
)
def test_node_without_a_published_precompiled_driver_is_warned_of(findings_of, labels, reason):
    assert findings_of("GA119", PRECOMPILED, node("gpu-1", **labels)) == [
        (
            "spec.driver.usePrecompiled",
            "warn",
            f'has no image for the node "gpu-1"; NVIDIA publishes precompiled drivers {reason}',
        )
    ]
    own = "driver: {usePrecompiled: true, repository: registry.example.com, image: driver, version: '580'}"
    assert findings_of("GA119", own, node("gpu-1", **labels)) == []


COMPILED = "driver: {repository: nvcr.io/nvidia, image: driver, version: 580.95.05}"


@pytest.mark.parametrize(
    ("os", "version"),
    [
        *(
            ("debian", "12"),
            ("amzn", "2023"),
            ("talos", "v1.6.1"),
            ("almalinux", "9.6"),
            ("centos", "9"),
            ("ol", "9"),
        ),
        *(("opensuse-leap", "15.6"), ("scos", "4.18"), ("gardenlinux", "1592.8"), ("unheard-of", "1")),
    ],
)
def test_node_without_a_published_driver_is_warned_of(findings_of, os, version):
    assert findings_of("GA119", COMPILED, node("gpu-1", os=os, os_version=version)) == [
        (
            "spec.driver.repository",
            "warn",
            (
                f'has no image for the node "gpu-1": NVIDIA publishes none for {os}{version}, so the driver pods would stay in '
                "ImagePullBackOff"
            ),
        )
    ]


@pytest.mark.parametrize(
    ("os", "version"),
    [
        ("ubuntu", "24.04"),
        ("rhel", "9.7"),
        ("rhcos", "4.18"),
        ("rocky", "9.7"),
        ("sles", "15.7"),
        ("centos", "7"),
        ("", "1"),
    ],
)
def test_node_that_may_have_a_published_driver_is_left_alone(findings_of, os, version):
    assert findings_of("GA119", COMPILED, node("gpu-1", os=os, os_version=version)) == []


def test_own_driver_images_are_left_alone(findings_of):
    own = "driver: {repository: registry.example.com, image: driver, version: 580.95.05}"
    assert findings_of("GA119", own, node("gpu-1", os="debian", os_version="12")) == []


def test_usual_nodes_have_precompiled_drivers(findings_of):
    assert findings_of("GA119", PRECOMPILED) == []
    assert (
        findings_of("GA119", PRECOMPILED, node("a", os="ubuntu", os_version="22.04", kernel="5.15.0-102-generic")) == []
    )
    assert findings_of("GA119", PRECOMPILED, node("a", os="rhcos", os_version="4.18"), node("b")) == []


OLD_AUTO = (
    "spec.driver.kernelModuleType",
    '"auto" needs driver 570.86.15, or 570.124.06 and later, to choose; version is "560.35.03"',
)


def test_auto_with_an_old_driver_is_warned_about(findings_of):
    spec = f"driver: {{kernelModuleType: auto, {IMAGE}, version: 560.35.03}}"
    assert findings_of("GA120", spec) == [(OLD_AUTO[0], "warn", OLD_AUTO[1])]


@pytest.mark.parametrize(
    "fields",
    [
        f"kernelModuleType: auto, {IMAGE}, version: 570.86.15",
        f"kernelModuleType: auto, {IMAGE}, version: 580.95.05",
        f"kernelModuleType: open, {IMAGE}, version: 560.35.03",
        f"{IMAGE}, version: 560.35.03",
        f"usePrecompiled: true, kernelModuleType: auto, {IMAGE}, version: '535'",
        "kernelModuleType: auto, repository: registry.example.com, image: vgpu-guest-driver, version: 550.144.02",
    ],
)
def test_module_type_that_the_driver_knows_passes(findings_of, fields):
    assert findings_of("GA120", f"driver: {{{fields}}}") == []


def test_open_modules_on_old_gpus_are_refused(findings_of):
    spec = f"driver: {{kernelModuleType: open, {IMAGE}, version: 580.95.05}}"
    nodes = [node("v100", family="volta"), node("p4", family="pascal"), node("t4", family="turing")]
    assert findings_of("GA120", spec, *nodes) == [
        (
            "spec.driver.kernelModuleType",
            "deny",
            (
                '"open" does not work on 2 nodes ("v100", "p4") with Pascal and Volta GPUs, as the '
                "open modules begin with Turing"
            ),
        )
    ]
    assert findings_of("GA120", spec) == []


def test_proprietary_modules_on_grace_and_blackwell_are_refused(findings_of):
    spec = f"driver: {{kernelModuleType: proprietary, {IMAGE}, version: 580.95.05}}"
    nodes = [node("gh200", family="hopper", product="NVIDIA-GH200-480GB"), node("h100", family="hopper")]
    assert findings_of("GA120", spec, *nodes) == [
        (
            "spec.driver.kernelModuleType",
            "deny",
            '"proprietary" does not work on the node "gh200", whose GPUs have open modules only',
        )
    ]


@pytest.mark.parametrize("label", [{"deploy": "pre-installed"}, {"deploy": "false"}, {"workload": "vm-passthrough"}])
def test_node_that_gets_no_driver_does_not_count(findings_of, label):
    spec = f"driver: {{kernelModuleType: open, {IMAGE}, version: 580.95.05}}\nsandboxWorkloads: {{enabled: true}}"
    assert findings_of("GA120", spec, node("v100", family="volta", **label)) == []


def test_nvidiadriver_is_judged_by_the_nodes_it_selects(findings_of):
    fields = f"driverType: gpu, kernelModuleType: open, {IMAGE}, version: 580.95.05"
    nodes = [node("v100", family="volta", pool="old"), node("h100", family="hopper", pool="new")]
    selecting = f"{{{fields}, default: false, nodeSelector: {{example.com/pool: %s}}}}"
    assert findings_of("GA120", selecting % "new", *nodes, kind=DRIVER) == []
    assert len(findings_of("GA120", selecting % "old", *nodes, kind=DRIVER)) == 1


def test_default_nvidiadriver_gets_the_nodes_that_no_other_selects(findings_of):
    default = f"{{driverType: gpu, default: true, kernelModuleType: open, {IMAGE}, version: 580.95.05}}"
    other = """apiVersion: nvidia.com/v1alpha1
kind: NVIDIADriver
metadata: {name: old}
spec: {driverType: gpu, default: false, nodeSelector: {example.com/pool: old}}"""
    old = node("v100", family="volta", pool="old")
    assert findings_of("GA120", default, old, other, kind=DRIVER) == []
    assert len(findings_of("GA120", default, old, kind=DRIVER)) == 1


def test_open_and_proprietary_at_once_are_warned_about(findings_of):
    assert findings_of("GA120", "driver: {useOpenKernelModules: true, kernelModuleType: proprietary}") == [
        (
            "spec.driver.useOpenKernelModules",
            "warn",
            "contradicts kernelModuleType: proprietary, which wins",
        )
    ]
    assert findings_of("GA120", "driver: {useOpenKernelModules: true, kernelModuleType: open}") == []


def test_driver_older_than_a_gpu_is_warned_of(findings_of):
    nodes = [node(f"b200-{number}", family="blackwell", product="NVIDIA-B200") for number in range(5)]
    assert findings_of("GA121", f"driver: {{{IMAGE}, version: 570.86.15}}", *nodes) == [
        (
            "spec.driver.version",
            "warn",
            (
                '"570.86.15" does not support the HGX B200 GPUs of 5 nodes ("b200-0", "b200-1", '
                '"b200-2" and 2 more), which need 570.133.20 or later'
            ),
        )
    ]
    assert findings_of("GA121", f"driver: {{{IMAGE}, version: 580.95.05}}", *nodes) == []
    assert findings_of("GA121", f"driver: {{{IMAGE}, version: 570.86.15}}") == []


def test_version_that_leaves_full_gpus_pending_is_warned_of(findings_of):
    spec = f"driver: {{{IMAGE}, version: 570.148.08}}"
    both = {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.5gb": "28"}
    [(_, severity, message)] = findings_of("GA121", spec, node("a100", both))
    assert (severity, message) == (
        "warn",
        '"570.148.08" leaves pods that request nvidia.com/gpu pending on nodes with MIG devices: the node "a100"',
    )
    assert findings_of("GA121", spec, node("a100", {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "56"})) == []
    assert findings_of("GA121", f"driver: {{{IMAGE}, version: 580.95.05}}", node("a100", both)) == []


def test_storage_without_driver_pods_is_warned_about(findings_of):
    assert findings_of("GA122", "driver: {enabled: false}\ngds: {enabled: true}") == [
        (
            "spec.gds.enabled",
            "warn",
            (
                "is a part of the driver's pods, which driver.enabled: false leaves out, but the "
                "device plugin relies on it"
            ),
        )
    ]


def test_settings_of_a_disabled_driver_are_warned_of(findings_of):
    spec = """driver:
  enabled: false
  usePrecompiled: true
  kernelModuleType: open
  licensingConfig: {secretName: licence, nlsEnabled: true}"""
    assert findings_of("GA122", spec) == [
        (f"spec.driver.{field}", "warn", "has no effect with driver.enabled: false")
        for field in ("usePrecompiled", "kernelModuleType", "licensingConfig.secretName")
    ]


def test_what_charts_write_of_a_disabled_driver_passes(findings_of):
    spec = f"""driver:
  {{enabled: false, kernelModuleType: auto, usePrecompiled: false, {IMAGE}, version: 580.95.05,
   rdma: {{enabled: false}}, upgradePolicy: {{autoUpgrade: true}}, licensingConfig: {{secretName: "", nlsEnabled: true}}}}
gds: {{enabled: false}}"""
    assert findings_of("GA122", spec) == []
    assert findings_of("GA122", spec, before=spec) == []


def test_new_version_of_a_disabled_driver_is_warned_of(findings_of):
    spec = f"driver: {{enabled: false, {IMAGE}, version: %s}}"
    assert findings_of("GA122", spec % "580.95.05", before=spec % "570.172.08") == [
        ("spec.driver.version", "warn", 'is changed to "580.95.05", which has no effect with driver.enabled: false')
    ]


def test_driver_beside_nvidiadrivers_is_warned_of(findings_of):
    spec = "driver: {useNvidiaDriverCRD: true, usePrecompiled: true, version: '580', kernelModuleType: auto}"
    assert findings_of("GA123", spec) == [
        ("spec.driver.version", "warn", 'is "580", and has no effect with useNvidiaDriverCRD: true'),
        ("spec.driver.usePrecompiled", "warn", "is true, and has no effect with useNvidiaDriverCRD: true"),
    ]
    assert findings_of("GA123", "driver: {useNvidiaDriverCRD: true, usePrecompiled: false}") == []


def test_jetson_is_warned_of_and_geforce_noted(findings_of):
    nodes = [node("jetson", product="Orin-nvgpu"), node("desk", product="NVIDIA-GeForce-RTX-4090")]
    assert findings_of("GA129", "driver: {enabled: true}", *nodes) == [
        (
            "spec.driver",
            "warn",
            'is deployed to the node "jetson", whose GPU is part of a Jetson; its driver cannot be installed',
        ),
        (
            "spec.driver",
            "audit",
            'is deployed to the node "desk" with GeForce GPUs, which NVIDIA does not support here',
        ),
    ]
    assert findings_of("GA129", "driver: {enabled: true}", node("a6000", product="NVIDIA-RTX-A6000")) == []
