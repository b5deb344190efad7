"""Policies compiled from rules: the requests that they see, and the settings that they know."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.admission import compile_policies, policy_refusals, review
from policies.admission.static_policies import _matches
from policies.cel import Map, compile_validation
from policies.nvidia.predicates import cel_string
from policies.rules.decision import Severity
from policies.rules.request import Request, UserInfo
from policies.rules.settings import DEFAULTS, Access, GPUAdmissionPolicy, RuleOverride
from webhook.cluster.manifests import ManifestsView

DENY = GPUAdmissionPolicy(access=Access(mode="deny", legacy_runtime=True))
READS = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "p"},
    "spec": {"cdi": {"nriPluginEnabled": True}},
}
MOVED = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "p"},
    "spec": {"hostPaths": {"driverInstallDir": "/srv/gpu driver"}, "operator": {"runtimeClass": "gpus"}},
}
ALL = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}


def container(name="main", image="train", **fields):
    return {"name": name, "image": image, **fields}


def pod(*containers, annotations=None, **spec):
    metadata = {"name": "p"} | ({"annotations": annotations} if annotations else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [*containers], **spec}}


def refused(document, *cluster, settings=DENY, **request):
    """The rules that a compiled policy names in its refusals."""
    policies = compile_policies(settings, ManifestsView([*cluster]))
    asked = Request(document, namespace="team-a", **request)
    return [" or ".join(each.rules) for each in policy_refusals(policies, asked)]


def updated(before, after, *cluster, subresource=""):
    return refused(after, *cluster, old_object=before, operation="UPDATE", subresource=subresource)


def test_debug_container_that_names_gpus_is_refused_and_those_before_it_are_not():
    before = pod(container(**ALL), ephemeralContainers=[container("old", **ALL)])
    after = pod(container(**ALL), ephemeralContainers=[container("old", **ALL), container("new", **ALL)])
    assert updated(before, after, subresource="ephemeralcontainers") == ["GA601"]
    assert updated(after, after, subresource="ephemeralcontainers") == []


def test_image_that_chooses_gpus_is_refused_when_it_is_changed_to():
    before, after = pod(container(image="train")), pod(container(image="nvcr.io/nvidia/cuda"))
    assert updated(before, after) == ["GA608"]
    assert updated(after, {**after, "metadata": {"name": "p", "labels": {"a": "b"}}}) == []
    assert updated(pod(container(**ALL)), pod(container(image="other", **ALL))) == []


def test_annotation_is_refused_where_nodes_read_it():
    key = "nvidia.cdi.k8s.io/main"
    named = pod(container(), annotations={key: "nvidia.com/gpu=all"})
    assert refused(named) == []
    assert refused(named, READS) == ["GA611"]
    assert updated(pod(container()), named, READS) == ["GA611"]
    assert updated(named, pod(container(image="other"), annotations={key: "nvidia.com/gpu=all"}), READS) == []
    assert refused(pod(container(), annotations={key: "example.com/nic=0"}), READS) == []


def test_cluster_moves_places_and_names_runtimes():
    volumes = [{"name": "v", "hostPath": {"path": "/srv/gpu driver/lib"}}]
    mounting = pod(container(volumeMounts=[{"name": "v", "mountPath": "/x"}]), volumes=volumes)
    assert (refused(mounting), refused(mounting, MOVED)) == ([], ["GA604"])
    runtime = pod(container(), runtimeClassName="gpus")
    assert (refused(runtime), refused(runtime, MOVED)) == ([], ["GA603"])
    other = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "runc"}
    assert refused(pod(container(), runtimeClassName="nvidia"), other) == []


@pytest.mark.parametrize("value", ["$(A)", "x$(B)y", "$(A),$(A)"])
def test_value_composed_of_variables_is_refused_whatever_it_becomes(value):
    env = [{"name": "A", "value": "void"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]
    assert refused(pod(container(env=env))) == ["GA601"]


def test_device_list_behind_a_detour_is_refused():
    mounts = [{"name": "v", "mountPath": "/var/run/x/../nvidia-container-devices/all"}]
    assert refused(pod(container(volumeMounts=mounts), volumes=[{"name": "v", "emptyDir": {}}])) == ["GA606"]


def test_only_refusals_are_compiled():
    names = [each.name for each in compile_policies(DEFAULTS, ManifestsView([]))]
    assert names == ["namespace-labels", "claims"]
    raised = GPUAdmissionPolicy(rules=(RuleOverride("GA605", Severity.DENY),))
    _, access, _ = compile_policies(raised, ManifestsView([]))
    assert [each.rules for each in access.validations] == [("GA605",)]
    off = GPUAdmissionPolicy(rules=(RuleOverride("GA227", Severity.WARN),))
    assert [each.name for each in compile_policies(off, ManifestsView([]))] == ["namespace-labels"]


@pytest.mark.parametrize("namespace", ["kube-system", "gpu-operator"])
def test_exempt_namespaces_are_left_alone(namespace):
    policies = compile_policies(DENY, ManifestsView([]))
    assert policy_refusals(policies, Request(pod(container(**ALL)), namespace=namespace)) == []


def test_message_says_what_to_change_where_and_by_which_rule():
    policies = compile_policies(DENY, ManifestsView([]))
    (refusal,) = policy_refusals(
        policies, Request(pod(container("a", **ALL), container("b", **ALL)), namespace="team-a")
    )
    assert refusal.message == (
        "request nvidia.com/gpu: 1 in resources.limits, or set NVIDIA_VISIBLE_DEVICES to void: a container without a GPU "
        "request must not set NVIDIA_VISIBLE_DEVICES; containers a, b [GA601]"
    )


def device_requests():
    exactly = st.fixed_dictionaries(
        {"deviceClassName": st.just("gpu.nvidia.com")},
        optional={"count": st.integers(1, 40), "allocationMode": st.sampled_from(["ExactCount", "All"])},
    )
    return st.one_of(
        exactly.map(lambda each: {"exactly": each}),
        st.lists(exactly, min_size=1, max_size=3).map(lambda each: {"firstAvailable": each}),
    )


def claim_of(requests, kind):
    named = [{"name": f"r{index}", **each} for index, each in enumerate(requests)]
    for each in named:
        for index, alternative in enumerate(each.get("firstAvailable", ())):
            alternative["name"] = f"s{index}"
    spec = {"devices": {"requests": named}}
    body = {"spec": spec} if kind == "ResourceClaimTemplate" else spec
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "c"}, "spec": body}


@given(st.lists(device_requests(), max_size=5), st.sampled_from(["ResourceClaim", "ResourceClaimTemplate"]))
def test_claims_are_refused_as_by_the_rule(requests, kind):
    # A count beside the mode All is another mistake, which the API server refuses.
    for each in requests:
        for part in (each.get("exactly"), *each.get("firstAvailable", ())):
            if part and part.get("allocationMode") == "All":
                part.pop("count", None)
    request = Request(
        claim_of(requests, kind), group="resource.k8s.io", kind=kind, namespace="team-a", user=UserInfo("alice")
    )
    found = review(request, ManifestsView([]), DEFAULTS).findings
    by_rule = any(each.rule.id == "GA227" and each.severity is Severity.DENY for each in found)
    by_policy = policy_refusals(compile_policies(DEFAULTS, ManifestsView([])), request)
    assert [each.rules for each in by_policy] == [("GA227",)] * by_rule


def test_claims_that_controllers_make_were_judged_with_their_template():
    request = Request(
        claim_of([{"exactly": {"deviceClassName": "gpu.nvidia.com", "count": 40}}], "ResourceClaim"),
        group="resource.k8s.io",
        kind="ResourceClaim",
        namespace="team-a",
        user=UserInfo("system:serviceaccount:kube-system:resource-claim-controller"),
    )
    assert policy_refusals(compile_policies(DEFAULTS, ManifestsView([])), request) == []


LABELS = st.dictionaries(
    st.sampled_from(["gpu-admission.io/dra", "gpu-admission.io/dra-strategy", "gpu-admission.io/quota", "a"]),
    st.sampled_from(["enabled", "preview", "enforced", "auto", "yes"]),
)


@given(
    LABELS,
    st.one_of(st.none(), LABELS),
    st.sampled_from(["team-a", "kube-system", "gpu-operator", "nvidia-dra-driver-gpu"]),
)
def test_labels_of_namespaces_are_refused_as_by_the_rules(labels, before, name):
    new, old = (
        None if each is None else {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": each}}
        for each in (labels, before)
    )
    operation = "CREATE" if old is None else "UPDATE"
    request = Request(new, old_object=old, operation=operation, kind="Namespace", name=name)
    found = review(request, ManifestsView([]), DEFAULTS).findings
    by_rules = {each.message for each in found if each.severity is Severity.DENY}
    by_policy = policy_refusals(compile_policies(DEFAULTS, ManifestsView([])), request)
    words = {each.message.partition("]: ")[2].partition("; ")[0] or each.message for each in by_policy}
    assert words == by_rules


@given(st.lists(st.text("ab*?[]!^-.\\", max_size=6), min_size=1, max_size=3), st.text("ab-^!.\\]", max_size=5))
def test_shell_patterns_match_in_cel_as_in_python(patterns, text):
    condition = compile_validation(_matches(cel_string(text), patterns), ())
    names = ("object", "oldObject", "request", "namespaceObject")
    verdict, _ = condition.holds(Map({**dict.fromkeys(names), "variables": Map({})}))
    assert verdict is any(fnmatchcase(text, pattern) for pattern in patterns)
