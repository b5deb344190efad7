"""GPU access of containers: toolkit, CDI, NRI, host paths, pod security."""

import pytest

from policies.rules.decision import Severity
from tests.findings import plain_text


def policy(spec="{}", before=None, facts=""):
    def document(text):
        return f"\napiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {{name: cluster-policy}}\nspec: {text}\n"

    return document(spec) + (f"--- # before{document(before)}" if before is not None else "") + facts


def node(runtime="containerd://2.1.4", kubelet="v1.34.1", labels=""):
    return (
        f'---\napiVersion: v1\nkind: Node\nmetadata: {{name: gpu-1, labels: {{nvidia.com/gpu.present: "true"{labels}}}}}\n'
        f"status: {{nodeInfo: {{containerRuntimeVersion: '{runtime}', kubeletVersion: {kubelet}}}}}\n"
    )


@pytest.fixture
def found(examined):
    def find(rule, *arguments, **keywords):
        return [finding for finding in examined(policy(*arguments, **keywords)) if finding.rule.id == rule]

    return find


@pytest.fixture
def texts(found):
    return lambda *arguments, **keywords: [plain_text(finding) for finding in found(*arguments, **keywords)]


NRI = "cdi: {enabled: true, nriPluginEnabled: true}"


def test_nri_without_cdi_is_refused(texts):
    assert texts("GA179", "{cdi: {enabled: false, nriPluginEnabled: true}}") == [
        (
            "spec.cdi.nriPluginEnabled: is true while cdi.enabled is false; the operator would report: the NRI Plugin cannot "
            "be enabled when CDI is disabled; write cdi.enabled: true, or nriPluginEnabled: false"
        )
    ]


def test_nri_without_toolkit_is_refused(texts):
    assert texts("GA179", f"{{{NRI}, toolkit: {{enabled: false}}}}") == [
        (
            "spec.cdi.nriPluginEnabled: is true while toolkit.enabled is false; the operator would report: the NRI Plugin "
            "cannot be enabled when the Container Toolkit is disabled; write toolkit.enabled: true, or nriPluginEnabled: false"
        )
    ]


def test_nri_with_defaults_passes(texts):
    assert texts("GA179", "{cdi: {nriPluginEnabled: true}}") == []


@pytest.mark.parametrize("value", ["true", "1"])
def test_default_runtime_with_cdi_warns(texts, value):
    spec = f"{{toolkit: {{env: [{{name: NVIDIA_RUNTIME_SET_AS_DEFAULT, value: '{value}'}}]}}}}"
    assert texts("GA180", spec) == [
        (
            "spec.toolkit.env[0].name: NVIDIA_RUNTIME_SET_AS_DEFAULT overrides what the operator sets with CDI, which is on "
            "unless cdi.enabled is false; remove the variable"
        )
    ]


@pytest.mark.parametrize(
    "spec",
    [
        "{toolkit: {env: [{name: CONTAINERD_SET_AS_DEFAULT, value: 'false'}]}}",
        "{cdi: {enabled: false}, toolkit: {env: [{name: CONTAINERD_SET_AS_DEFAULT, value: 'true'}]}}",
        "{toolkit: {enabled: false, env: [{name: CONTAINERD_SET_AS_DEFAULT, value: 'true'}]}}",
    ],
)
def test_default_runtime_passes_where_nothing_is_overridden(texts, spec):
    assert texts("GA180", spec) == []


def test_nri_makes_no_runtime_class(texts):
    assert texts("GA181", f"{{{NRI}, operator: {{runtimeClass: gpu}}}}") == [
        (
            'spec.operator.runtimeClass: "gpu" is never created, because the NRI plugin needs no '
            "RuntimeClass; remove it, or write nriPluginEnabled: false"
        )
    ]


POD = """---
apiVersion: v1
kind: Pod
metadata: {name: training, namespace: team-a}
spec:
  nodeName: gpu-1
  runtimeClassName: nvidia
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "1"}}}]
"""


def test_nri_is_reported_for_pods_with_a_runtime_class(texts):
    assert texts("GA181", f"{{{NRI}}}", facts=POD) == [
        (
            'spec.cdi.nriPluginEnabled: removes the RuntimeClass "nvidia", which the pod '
            '"team-a/training" would need again; remove runtimeClassName from them, or write '
            "nriPluginEnabled: false"
        )
    ]


def test_nri_that_was_on_before_is_not_reported_again(texts):
    assert texts("GA181", f"{{{NRI}}}", before=f"{{{NRI}}}", facts=POD) == []


@pytest.mark.parametrize(
    "runtime", ["containerd://1.6.33", "containerd://1.7.29", "containerd://2.0.6", "cri-o://1.33.4", "docker://27.0.1"]
)
def test_nri_on_a_runtime_that_is_too_old_warns(texts, runtime):
    assert texts("GA181", f"{{{NRI}}}", facts=node(runtime)) == [
        (
            f'spec.cdi.nriPluginEnabled: needs a newer runtime than {runtime} of the node "gpu-1"; the plugin could not '
            "register; upgrade to containerd 1.7.30 or 2.1, or CRI-O 1.34; or write nriPluginEnabled: false"
        )
    ]


@pytest.mark.parametrize(
    "runtime", ["containerd://1.7.30", "containerd://2.1.4-k3s1", "containerd://2.3.0", "cri-o://1.34.0", ""]
)
def test_nri_on_a_runtime_that_knows_it_passes(texts, runtime):
    assert texts("GA181", f"{{{NRI}}}", facts=node(runtime)) == []


def test_toolkit_switched_off_warns(found):
    (one,) = found("GA182", "{toolkit: {enabled: false}}", before="{toolkit: {enabled: true}}")
    assert one.severity is Severity.WARN
    assert one.message == (
        "removes the toolkit from nodes that rely on it; CDI specifications are not written "
        "unless the hosts have their own"
    )


def test_driver_container_without_toolkit_is_only_audited(found):
    (one,) = found("GA182", "{toolkit: {enabled: false}}")
    assert one.severity is Severity.AUDIT


@pytest.mark.parametrize("before", ["{toolkit: {enabled: false}}", None])
def test_host_with_driver_and_toolkit_passes(texts, before):
    assert texts("GA182", "{driver: {enabled: false}, toolkit: {enabled: false}}", before=before) == []


def test_template_of_containerd_warns(texts):
    spec = "{toolkit: {env: [{name: CONTAINERD_CONFIG, value: /var/lib/rancher/k3s/agent/etc/containerd/config.toml.tmpl}]}}"
    assert texts("GA183", spec) == [
        (
            "spec.toolkit.env[0].value: "
            "/var/lib/rancher/k3s/agent/etc/containerd/config.toml.tmpl is a template, not TOML; "
            "what the toolkit writes there breaks containerd at the next restart; remove it; K3s "
            "and RKE2 find the nvidia runtime by themselves"
        )
    ]


SOCKET = "{toolkit: {env: [{name: CONTAINERD_SOCKET, value: /run/k3s/containerd/containerd.sock}]}}"


def test_rke2_without_its_socket_warns(texts):
    assert texts("GA183", facts=node(kubelet="v1.34.1+rke2r1")) == [
        (
            'spec.toolkit.env: has no CONTAINERD_SOCKET; on the node "gpu-1" it is at /run/k3s/containerd/containerd.sock, and '
            "the toolkit would exit with a dial error; add to toolkit.env: {name: CONTAINERD_SOCKET, value: "
            '"/run/k3s/containerd/containerd.sock"}'
        )
    ]


@pytest.mark.parametrize(
    ("spec", "kubelet"), [(SOCKET, "v1.34.1+k3s1"), ("{}", "v1.34.1"), ("{toolkit: {enabled: false}}", "v1.34.1+k3s1")]
)
def test_containerd_where_the_toolkit_looks_passes(texts, spec, kubelet):
    assert texts("GA183", spec, facts=node(kubelet=kubelet)) == []


def test_k3s_without_cdi_warns(texts):
    spec = SOCKET.replace("{toolkit", "{cdi: {enabled: false}, toolkit")
    assert texts("GA183", spec, facts=node(kubelet="v1.34.1+k3s1")) == [
        (
            'spec.cdi.enabled: is false, and on the node "gpu-1" (K3s, RKE2) only pods with runtimeClassName: nvidia would get '
            "GPUs; write cdi.enabled: true"
        )
    ]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            "{toolkit: {installDir: usr/local/nvidia}}",
            (
                'spec.toolkit.installDir: "usr/local/nvidia" is relative; the DaemonSets that mount it could not start; '
                'write "/usr/local/nvidia"'
            ),
        ),
        (
            "{hostPaths: {rootFS: /host/../other}}",
            (
                'spec.hostPaths.rootFS: "/host/../other" leads upwards; the API server would refuse the DaemonSets that mount '
                "it: must not contain '..'; write the path without .."
            ),
        ),
        (
            "{devicePlugin: {mps: {root: /}}}",
            (
                'spec.devicePlugin.mps.root: "/" is the root of the host, over which files would be spread; '
                "write a directory of its own"
            ),
        ),
    ],
)
def test_impossible_host_path_is_refused(found, spec, text):
    (one,) = found("GA184", spec)
    assert (one.severity, plain_text(one)) == (Severity.DENY, text)


def test_driver_directory_of_the_host_with_a_driver_container_warns(found):
    (one,) = found("GA184", "{hostPaths: {driverInstallDir: /home/kubernetes/bin/nvidia}}")
    assert one.severity is Severity.WARN
    assert plain_text(one) == (
        'spec.hostPaths.driverInstallDir: "/home/kubernetes/bin/nvidia" is for drivers of '
        "the host; the driver container installs into /run/nvidia/driver; write "
        '"/run/nvidia/driver", or driver.enabled: false where the hosts have a driver'
    )


@pytest.mark.parametrize(
    "spec",
    [
        "{hostPaths: {rootFS: /, driverInstallDir: /run/nvidia/driver, kubeletRootDir: /var/lib/kubelet}}",
        "{driver: {enabled: false}, hostPaths: {driverInstallDir: /home/kubernetes/bin/nvidia}}",
        "{hostPaths: {driverInstallDir: '', rootFS: ''}}",
        "{toolkit: {enabled: false, installDir: usr/local}}",
        "{devicePlugin: {enabled: false, mps: {root: mps}}}",
        "{dcgmExporter: {enabled: false}, hostPaths: {kubeletRootDir: kubelet}}",
    ],
)
def test_usual_host_paths_pass(texts, spec):
    assert texts("GA184", spec) == []


MICROK8S = ', microk8s.io/cluster: "true"'


def test_kubelet_of_k0s_is_elsewhere(texts):
    assert texts("GA184", facts=node(kubelet="v1.34.1+k0s")) == [
        (
            'spec.hostPaths.kubeletRootDir: "/var/lib/kubelet" is not the kubelet\'s directory of '
            'k0s on the node "gpu-1"; metrics would not say which pods use the GPUs; '
            'write "/var/lib/k0s/kubelet"'
        )
    ]


def test_kubelet_of_microk8s_is_not_that_of_k0s(texts):
    spec = "{hostPaths: {kubeletRootDir: /var/lib/k0s/kubelet}}"
    assert len(texts("GA184", spec, facts=node(labels=MICROK8S))) == 1


@pytest.mark.parametrize("directory", ["", "/var/lib/kubelet", "/var/snap/microk8s/common/var/lib/kubelet/"])
def test_kubelet_of_microk8s_has_two_paths(texts, directory):
    assert texts("GA184", f"{{hostPaths: {{kubeletRootDir: '{directory}'}}}}", facts=node(labels=MICROK8S)) == []


def namespace(name, labels="{}"):
    return f"---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {labels}}}\n"


RESTRICTED = "{pod-security.kubernetes.io/enforce: restricted}"


def test_namespace_that_forbids_operands_is_refused(found):
    (one,) = found("GA185", facts=namespace("gpu-operator", RESTRICTED))
    assert one.severity is Severity.DENY
    assert plain_text(one) == (
        'spec.psa.enabled: is false while the namespace "gpu-operator" enforces the standard "restricted", which forbids '
        "every operand; write psa.enabled: true, or label the namespace pod-security.kubernetes.io/enforce=privileged"
    )


@pytest.mark.parametrize(
    ("spec", "facts"),
    [
        ("{psa: {enabled: true}}", namespace("gpu-operator", RESTRICTED)),
        ("{}", namespace("gpu-operator", "{pod-security.kubernetes.io/enforce: privileged}")),
        ("{}", namespace("gpu-operator", "{pod-security.kubernetes.io/warn: restricted}")),
        ("{}", namespace("team-a", RESTRICTED)),
        ("{}", ""),
    ],
)
def test_namespace_that_admits_operands_passes(texts, spec, facts):
    assert texts("GA185", spec, facts=facts) == []


OPENSHIFT = node(labels=", node.openshift.io/os_id: rhel")


def test_psa_on_openshift_outside_its_namespace_warns(texts):
    assert texts("GA185", "{psa: {enabled: true}}", facts=namespace("gpu-operator") + OPENSHIFT) == [
        (
            'spec.psa.enabled: has no effect on OpenShift in the namespace "gpu-operator", only in "nvidia-gpu-operator"; '
            "label the namespace pod-security.kubernetes.io/enforce=privileged"
        )
    ]


def test_psa_on_openshift_in_its_namespace_passes(texts):
    assert texts("GA185", "{psa: {enabled: true}}", facts=namespace("nvidia-gpu-operator") + OPENSHIFT) == []
