"""The compiled policies refuse nothing that the rules admit, and what they can express they refuse too."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policies.admission import compile_policies, policy_refusals, review_concern
from policies.rules.decision import Severity
from policies.rules.request import Request, UserInfo
from policies.rules.settings import Access, Exemption, GPUAdmissionPolicy, RuleOverride
from webhook.cluster.manifests import ManifestsView

DENY = GPUAdmissionPolicy(access=Access(mode="deny"))
SETTINGS = {
    "deny": DENY,
    "legacy": GPUAdmissionPolicy(access=Access(mode="deny", legacy_runtime=True)),
    "raised in one namespace": GPUAdmissionPolicy(
        rules=(
            RuleOverride("GA601", Severity.DENY),
            RuleOverride("GA604", Severity.DENY, ("team-*",)),
            RuleOverride("GA604", Severity.WARN, ("team-b",)),
        )
    ),
    "lowered": GPUAdmissionPolicy(
        rules=(RuleOverride("GA602", Severity.OFF), RuleOverride("GA603", Severity.WARN, ("team-[a-b]",))),
        access=Access(mode="deny"),
    ),
    "exempt": GPUAdmissionPolicy(
        access=Access(
            mode="deny", exempt_namespaces=("mon?toring", "ops-*"), exempt_service_accounts=("team-*/dcgm-*",)
        ),
        exemptions=(
            Exemption(("access",), users=("admin-*",), namespaces=("team-*",)),
            Exemption(("GA60[14]",), groups=("[!s]*-admins",)),
            Exemption(("GA6*",), service_accounts=("ci/*",)),
        ),
    ),
}
CLASSES = ManifestsView(
    [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"extendedResourceName": resource, "selectors": [{"cel": {"expression": expression}}]},
        }
        for name, resource, expression in (
            ("gpu", "nvidia.com/gpu", 'device.driver == "gpu.nvidia.com"'),
            ("ours", "example.com/gpu", 'device.driver == "gpu.nvidia.com"'),
            ("nic", "example.com/nic", 'device.driver == "nic.example.com"'),
        )
    ]
)
VIEWS = {"nothing is known": ManifestsView([]), "DeviceClasses give GPUs": CLASSES}
EXPRESSED = {"GA601", "GA602", "GA603", "GA604", "GA605", "GA606", "GA608", "GA610"}

NAMES = st.sampled_from(["void", "none", "all", "0", "GPU-1", "", " ", "\t", "\xa0void", "voids"])
VALUES = st.lists(NAMES, max_size=4).map(",".join)
VARIABLES = st.sampled_from(
    ["NVIDIA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_VERSION", "NVIDIA_REQUIRE_CUDA", "X"]
)
ENTRIES = st.one_of(
    st.builds(lambda name, value: {"name": name, "value": value}, VARIABLES, VALUES),
    st.builds(lambda name: {"name": name}, VARIABLES),
    st.builds(lambda name: {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, VARIABLES),
)
RESOURCES = st.sampled_from(
    [
        "nvidia.com/gpu",
        "nvidia.com/mig-1g.5gb",
        "example.com/gpu",
        "example.com/nic",
        "cpu",
        "deviceclass.resource.kubernetes.io/gpu",
    ]
)
AMOUNTS = st.dictionaries(RESOURCES, st.sampled_from(["0", "1", "0k", "2"]), max_size=2)
STEPS = (
    "dev nvidia0 nvidia nvidiactl run var cdi proc 1 self task root cwd fd driver usr local opt char 195:0 195:254 vfio etc mps "
    "containerd lib kubelet plugins . device-plugins nvidia-container-devices all stdin home/kubernetes/bin/nvidia"
)
PATHS = st.lists(st.sampled_from([*STEPS.split(), ""]), max_size=6).map("/".join)
WHOLE_PATHS = st.sampled_from(
    [
        "dev/nvidia0",
        "/dev/./char//195:1",
        "/var/run/nvidia",
        "run/nvidia",
        "run/nvidia/driver/dev",
        "opt/nvidia/lib64",
        "run",
        "proc/1/root/proc/self/cwd/dev/nvidia1",
        "proc/driver/nvidia",
        "proc/1/fd/3",
        "dev/stdin",
        "dev/fd/5",
        "dev/vfio",
        "etc/cdi",
        "var/run/cdi/nvidia.yaml",
        "run/nvidia/mps",
        "run/containerd",
        "var/lib/kubelet",
        "var/lib/kubelet/plugins",
        "var/lib/kubelet/device-plugins/kubelet.sock",
        "var/lib/kubelet/plugins/gpu.nvidia.com",
        "var/run/nvidia-container-devices",
        "var//run/nvidia-container-devices/all",
        "run/nvidia-container-devicesall",
    ]
)
ANY_PATHS = st.one_of(WHOLE_PATHS, PATHS)
MOUNTS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "b"]),
        "mountPath": st.one_of(st.just("/x"), ANY_PATHS.map(lambda path: f"/{path}")),
    },
    optional={"subPath": PATHS, "readOnly": st.booleans(), "subPathExpr": PATHS.map(lambda path: f"{path}/$(X)/y")},
)
IMAGES = st.sampled_from(
    ["train", "nvcr.io/nvidia/cuda:12", "NVCR.io:443/nvidia/x", "docker.io/nvidia/cuda", "a/nvidia/b"]
)
CONTAINERS = st.fixed_dictionaries(
    {"image": IMAGES},
    optional={
        "env": st.lists(ENTRIES, max_size=3),
        "envFrom": st.just([{"configMapRef": {"name": "x"}}]),
        "resources": st.fixed_dictionaries(
            {}, optional={"requests": AMOUNTS, "limits": AMOUNTS, "claims": st.just([{"name": "gpu"}])}
        ),
        "volumeMounts": st.lists(MOUNTS, min_size=1, max_size=2),
    },
)
VOLUMES = st.builds(
    lambda a, b: [{"name": "a", "hostPath": {"path": f"/{a}"}}, {"name": "b", "hostPath": {"path": b}}],
    ANY_PATHS,
    ANY_PATHS,
)


def _named(lists):
    return {
        key: [{"name": f"{key[0]}{index}", **each} for index, each in enumerate(found)] for key, found in lists.items()
    }


SPECS = st.builds(
    lambda lists, rest: _named(lists) | rest,
    st.fixed_dictionaries(
        {"containers": st.lists(CONTAINERS, min_size=1, max_size=2)},
        optional={"initContainers": st.lists(CONTAINERS, max_size=1)},
    ),
    st.fixed_dictionaries(
        {"resourceClaims": st.just([{"name": "gpu", "resourceClaimTemplateName": "t"}]), "volumes": VOLUMES},
        optional={
            "nodeName": st.just("n"),
            "runtimeClassName": st.sampled_from(["nvidia", "nvidia-legacy", "gvisor"]),
            "schedulerName": st.sampled_from(["default-scheduler", "volcano", "mine"]),
            "serviceAccountName": st.sampled_from(["dcgm-exporter", "default"]),
        },
    ),
)
USERS = st.builds(
    UserInfo,
    st.sampled_from(["alice", "admin-bob", "system:serviceaccount:ci:runner", "system:serviceaccount:cd:runner"]),
    st.sampled_from([(), ("gpu-admins",), ("sre-admins",)]),
)
NAMESPACES = st.sampled_from(["team-a", "team-b", "team-c", "monitoring", "ops-1"])


def pod(spec, **metadata):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": spec}


def refused_by_rules(request, view, settings):
    """The rules that refuse an object; none in a namespace whose access is not reviewed."""
    from policies.rules.settings.exemptions import is_excluded

    if is_excluded(("access",), request.namespace, settings):
        return set()
    decision = review_concern("access", request, view, settings)
    return {found.rule.id for found in decision.findings if found.severity is Severity.DENY}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@given(spec=SPECS, user=USERS, namespace=NAMESPACES)
def test_policies_refuse_only_what_the_rules_refuse(spec, user, namespace, settings, view):
    request = Request(pod(spec), namespace=namespace, user=user)
    refused = policy_refusals(compile_policies(settings, VIEWS["nothing is known"]), request)
    by_rules = refused_by_rules(request, view, settings)
    assert [each for each in refused if by_rules.isdisjoint(each.rules)] == []


def requests_devices(spec):
    """True if a container requests what may be a GPU, so that a policy cannot know whether it gets one."""
    return any(
        container.get("resources", {}).get("claims")
        or any(
            "/" in name and amount not in ("0", "0k")
            for section in ("requests", "limits")
            for name, amount in container.get("resources", {}).get(section, {}).items()
        )
        for listed in ("containers", "initContainers")
        for container in spec.get(listed, ())
    )


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@given(spec=SPECS, user=USERS, namespace=NAMESPACES)
def test_policies_refuse_what_the_rules_refuse_of_pods_without_requests(spec, user, namespace, settings):
    assume(not requests_devices(spec))
    assume("$(" not in str(spec) and "envFrom" not in str(spec))
    request = Request(pod(spec), namespace=namespace, user=user)
    refused = policy_refusals(compile_policies(settings, VIEWS["nothing is known"]), request)
    by_policies = {rule for each in refused for rule in each.rules}
    assert refused_by_rules(request, VIEWS["nothing is known"], settings) & EXPRESSED <= by_policies
