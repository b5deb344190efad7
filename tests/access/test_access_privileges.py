"""Privileges are reported only beside another finding."""

import pytest

from policies.admission.all_rules import rule_book
from policies.rules.decision import Severity
from policies.rules.settings import DEFAULTS, Access, GPUAdmissionPolicy, RuleOverride

ALL = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]


def pod(*, env=(), context=None, volume=None, **spec):
    mounts = [{"name": "node", "mountPath": "/x"}] if volume else []
    volumes = [{"name": "node", "hostPath": {"path": volume}}] if volume else []
    container = {"name": "a", "env": list(env), "securityContext": context, "volumeMounts": mounts}
    return {"containers": [container], "volumes": volumes, **spec}


PRIVILEGES = [
    (
        {"context": {"privileged": True}},
        (
            'spec.containers[0].securityContext.privileged: container "a" is privileged as well: it may use every device '
            "node of the node, whatever NVIDIA's container runtime injects, and its NVIDIA_VISIBLE_DEVICES counts where "
            "that of others is ignored"
        ),
        "privileged",
    ),
    (
        {"context": {"capabilities": {"add": ["NET_ADMIN", "SYS_ADMIN"]}}},
        (
            'spec.containers[0].securityContext.capabilities.add[1]: container "a" has the capability "SYS_ADMIN" as well: '
            "NVIDIA's container runtime takes it for privileged, and its NVIDIA_VISIBLE_DEVICES counts where that of "
            "others is ignored"
        ),
        "SYS_ADMIN",
    ),
    (
        {"hostPID": True},
        (
            "spec.hostPID: is true as well: the pod sees every process of the node, and through /proc/PID/root what they "
            "see"
        ),
        "it",
    ),
    (
        {"volume": "/dev"},
        (
            'spec.containers[0].volumeMounts[0]: container "a" mounts all of /dev of the node as well, and in it the '
            "device nodes of its GPUs"
        ),
        "the mount",
    ),
    (
        {"volume": "/"},
        (
            'spec.containers[0].volumeMounts[0]: container "a" mounts all of / of the node as well, and in it the device '
            "nodes of its GPUs"
        ),
        "the mount",
    ),
    (
        {"volume": "/var/run"},
        (
            'spec.containers[0].volumeMounts[0]: container "a" mounts all of /run of the node as well, and in it the '
            "driver of its GPUs, with their device nodes"
        ),
        "the mount",
    ),
    (
        {"volume": "/etc"},
        (
            'spec.containers[0].volumeMounts[0]: container "a" mounts all of /etc of the node as well, and in it CDI '
            "specs, by which container runtimes inject GPUs"
        ),
        "the mount",
    ),
]
privileges = pytest.mark.parametrize(
    ("privilege", "text", "what"), PRIVILEGES, ids=[str(privilege) for privilege, *_ in PRIVILEGES]
)


@privileges
def test_privilege_alone_is_nothing(rules, privilege, text, what):
    assert rules(pod(**privilege)) == []


@privileges
def test_privilege_beside_a_finding_is_reported(findings_of, privilege, text, what):
    first, second = findings_of(pod(env=ALL, **privilege))
    assert first.startswith("GA601 deny ")
    assert second == f"GA609 deny {text}; remove {what}, or what the other findings on this pod name"


GROUNDS = {
    "GA601": {"env": ALL},
    "GA602": {"env": ALL, "resources": {"limits": {"nvidia.com/gpu": 1}}},
    "GA603": {"runtime_class": "nvidia"},
    "GA604": {"mount": ("/dev/nvidia0", "/dev/nvidia0")},
    "GA605": {"mount": ("/var/lib/kubelet/device-plugins", "/kubelet")},
    "GA606": {"mount": ("/dev/null", "/var/run/nvidia-container-devices/all")},
    "GA610": {"env": [{"name": "CUDA_VERSION", "value": "12.8.1"}]},
    "GA611": {"annotations": {"nvidia.cdi.k8s.io/container.a": "nvidia.com/gpu=all"}},
}
"""What each ground is found on."""
NRI_PLUGIN = """
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec:
  cdi: {enabled: true, nriPluginEnabled: true}"""


@pytest.mark.parametrize("ground", GROUNDS)
def test_privilege_beside_each_ground_is_reported(rules, ground):
    given = GROUNDS[ground]
    host, inside = given.get("mount", ("/srv", "/srv"))
    spec = {
        "hostPID": True,
        "runtimeClassName": given.get("runtime_class"),
        "containers": [
            {
                "name": "a",
                "env": given.get("env"),
                "resources": given.get("resources"),
                "volumeMounts": [{"name": "node", "mountPath": inside}],
            }
        ],
        "volumes": [{"name": "node", "hostPath": {"path": host}}],
    }
    metadata = {"name": "p", "annotations": given.get("annotations", {})}
    assert rules(spec, metadata=metadata, cluster=NRI_PLUGIN) == [ground, "GA609"]


def test_grounds_are_all_tried():
    rules = rule_book()
    assert set(GROUNDS) == {rule.id for rule in rules.grounds_of(rules.get("GA609"))}


def test_privilege_of_another_container_is_reported(rules):
    spec = pod(env=ALL)
    spec["containers"].append({"name": "b", "securityContext": {"privileged": True}})
    assert rules(spec) == ["GA601", "GA609"]


@pytest.mark.parametrize(
    "context",
    [None, {}, [], {"privileged": False}, {"privileged": "true"}, {"capabilities": {"add": ["NET_ADMIN", 1, []]}}],
    ids=str,
)
def test_container_without_privileges_adds_nothing(rules, context):
    assert rules(pod(env=ALL, context=context, hostPID=False)) == ["GA601"]


def test_privilege_beside_a_suspicion_is_nothing(rules):
    spec = pod(context={"privileged": True})
    spec["containers"][0]["image"] = "nvidia/cuda"
    assert rules(spec) == ["GA608"]


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        (DEFAULTS, "warn"),
        (GPUAdmissionPolicy(access=Access(mode="deny")), "deny"),
        (GPUAdmissionPolicy(rules=(RuleOverride("GA601", Severity.DENY, ("team-*",)),)), "deny"),
        (GPUAdmissionPolicy(rules=(RuleOverride("GA601", Severity.DENY, ("other",)),)), "warn"),
        (GPUAdmissionPolicy(rules=(RuleOverride("GA601", Severity.AUDIT),)), "audit"),
    ],
    ids=["default", "mode", "override here", "override elsewhere", "audited"],
)
def test_privilege_is_as_severe_as_what_it_adds_to(found, settings, severity):
    findings = found(pod(env=ALL, hostPID=True), settings=settings)
    assert [finding.severity for finding in findings if finding.rule.id == "GA609"] == [severity]


def test_privilege_beside_a_rule_that_is_off_is_nothing(found):
    settings = GPUAdmissionPolicy(rules=(RuleOverride("GA601", Severity.OFF),))
    findings = settings.judge(found(pod(env=ALL, hostPID=True), settings=settings), "team-a")
    assert findings == ()


def test_privileged_csi_driver_is_only_audited(found):
    findings = found(pod(context={"privileged": True}, volume="/var/lib/kubelet/plugins_registry"))
    assert [(finding.rule.id, finding.severity) for finding in findings] == [("GA605", "audit"), ("GA609", "audit")]
