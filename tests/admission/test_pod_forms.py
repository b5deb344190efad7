"""The common part of pods: pods that rules judge differently never share one, and nothing that rules read is missing in it."""

from __future__ import annotations

import copy

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from policies.admission import REPEATABLE, as_running, common_part, form_of, review_concern
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, Access, Conversion, GPUAdmissionPolicy
from tests.properties import examples
from tests.robustness.bypass.generated_pods import (
    ANNOTATIONS,
    CLAIMS,
    CLASSES,
    EPHEMERAL,
    IMAGES,
    NAMESPACES,
    NODES,
    PODS,
    POLICY,
    SLICES,
    TEMPLATES,
)
from webhook.cluster.manifests import ManifestsView

SETTINGS = st.sampled_from(
    [
        DEFAULTS,
        GPUAdmissionPolicy(access=Access(mode="deny")),
        GPUAdmissionPolicy(conversion=Conversion(schedulers=("default-scheduler", "other"))),
    ]
)
TOKEN = {
    "projected": {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ],
    }
}
"""The volume that the API server adds to pods."""


def mounting(pod, name, source, path="/var/run/secrets/kubernetes.io/serviceaccount"):
    """The pod with one more volume, mounted by all its containers."""
    changed = copy.deepcopy(pod)
    changed["spec"].setdefault("volumes", []).append({"name": name, **source})
    for container in (*changed["spec"].get("initContainers", ()), *changed["spec"]["containers"]):
        container.setdefault("volumeMounts", []).append({"name": name, "mountPath": path})
    return changed


def in_metadata(pod, field, value):
    return {**pod, "metadata": {**pod["metadata"], field: value}}


def in_spec(pod, **fields):
    return {**pod, "spec": {**pod["spec"], **fields}}


def of_owner(kind, name):
    owner = {"apiVersion": "batch/v1", "kind": kind, "name": name, "uid": name, "controller": True}
    return lambda pod: in_metadata(pod, "ownerReferences", [owner])


def claimed(resource):
    """The status of a pod for whose extended resource its scheduler has made a claim."""
    mapping = {"containerName": "c0", "resourceName": resource, "requestName": "r"}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": [mapping]}}
    return lambda pod: {**pod, "status": status}


_SOURCES = st.sampled_from(
    [TOKEN, {"hostPath": {"path": "/dev/nvidia0"}}, {"hostPath": {"path": "/"}}, {"emptyDir": {}}]
)
_CHANGES = st.one_of(
    st.sampled_from(["a", "b"]).map(lambda name: lambda pod: in_metadata(pod, "name", name)),
    st.builds(
        lambda name, source, path: lambda pod: mounting(pod, f"kube-api-access-{name}", source, path),
        st.sampled_from(["x7b2p", "9qk4d"]),
        _SOURCES,
        st.sampled_from(["/x", "/var/run/nvidia-container-devices/all"]),
    ),
    ANNOTATIONS.map(lambda found: lambda pod: in_metadata(pod, "annotations", found)),
    st.sampled_from(
        [
            {"gpu-admission.io/ignore": "GA6* because we may"},
            {"gpu-admission.io/product": "H100*"},
            {"k8s.v1.cni.cncf.io/network-status": "10.0.0.1"},
        ]
    ).map(lambda found: lambda pod: in_metadata(pod, "annotations", {**pod["metadata"]["annotations"], **found})),
    st.sampled_from([{}, {"app": "a"}, {"gpu-admission.io/dra": "disabled"}, {"kueue.x-k8s.io/queue-name": "q"}]).map(
        lambda labels: lambda pod: in_metadata(pod, "labels", labels)
    ),
    st.builds(of_owner, st.sampled_from(["Job", "ReplicaSet", "DaemonSet"]), st.sampled_from(["a", "b"])),
    EPHEMERAL.map(
        lambda change: lambda pod: in_spec(pod, ephemeralContainers=change[1]["spec"]["ephemeralContainers"])
    ),
    st.sampled_from(["default-scheduler", "other", "kai-scheduler"]).map(
        lambda name: lambda pod: in_spec(pod, schedulerName=name)
    ),
    st.sampled_from(["node-1", "node-2", ""]).map(lambda name: lambda pod: in_spec(pod, nodeName=name)),
    st.sampled_from([None, "nvidia", "other"]).map(lambda name: lambda pod: in_spec(pod, runtimeClassName=name)),
    st.sampled_from([[], [{"operator": "Exists"}], [{"key": "nvidia.com/gpu", "operator": "Exists"}]]).map(
        lambda tolerations: lambda pod: in_spec(pod, tolerations=tolerations)
    ),
    st.sampled_from(["claim-0", "claim-1"]).map(
        lambda name: lambda pod: in_spec(pod, resourceClaims=[{"name": "pod-claim-0", "resourceClaimName": name}])
    ),
    st.sampled_from(["acme.com/accelerator", "nvidia.com/gpu"]).map(claimed),
    IMAGES.map(
        lambda image: (
            lambda pod: in_spec(
                pod, containers=[{**pod["spec"]["containers"][0], "image": image}, *pod["spec"]["containers"][1:]]
            )
        )
    ),
    st.just(
        lambda pod: in_spec(pod, containers=[{**each, "env": each["env"][1:]} for each in pod["spec"]["containers"]])
    ),
)


@st.composite
def _alike(draw):
    """Two pods that differ by a few changes."""
    pod = draw(PODS)
    both = []
    for _ in range(2):
        other = pod
        for change in draw(st.lists(_CHANGES, max_size=2)):
            other = change(other)
        both.append(other)
    return both


CLUSTERS = st.builds(
    lambda namespace, classes, claims, templates: ManifestsView(
        [namespace, POLICY, *NODES, *SLICES, *classes, *claims, *templates]
    ),
    NAMESPACES,
    CLASSES,
    CLAIMS,
    TEMPLATES,
)


def verdicts(pod, view, chosen):
    """The findings on a pod by every concern whose rules see the common part of a pod only."""
    request = Request(pod, namespace="team-a")
    return {concern: review_concern(concern, request, view, chosen).findings for concern in sorted(REPEATABLE)}


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100))
@given(pods=_alike(), view=CLUSTERS, chosen=SETTINGS)
def test_pods_that_are_judged_differently_never_share_a_form(pods, view, chosen):
    running = [as_running(pod, view, chosen) for pod in pods]
    forms = [form_of(common_part(pod)) for pod in running]
    event("one form" if forms[0] == forms[1] else "two forms")
    found = [verdicts(pod, view, chosen) for pod in running]
    assert found[0] == found[1] or forms[0] != forms[1]


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100))
@given(pods=_alike(), view=CLUSTERS, chosen=SETTINGS)
def test_common_part_of_a_pod_is_judged_as_the_whole_pod(pods, view, chosen):
    pod, _ = pods
    assert verdicts(common_part(pod), view, chosen) == verdicts(pod, view, chosen)


def pod(**fields):
    container = {"name": "main", "image": "train:1", "resources": {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train"},
        "spec": {"containers": [container], **fields},
    }


@pytest.mark.parametrize(
    "mount",
    [
        lambda name, path: mounting(pod(), name, TOKEN, path),
        lambda name, path: in_spec(
            mounting(pod(), name, TOKEN, path),
            ephemeralContainers=[{"name": "debug", "volumeMounts": [{"name": name, "mountPath": path}]}],
        ),
    ],
    ids=["container", "ephemeral container"],
)
def test_generated_names_of_token_volumes_make_no_difference(mount):
    first, second = mount("kube-api-access-x7b2p", "/a"), mount("kube-api-access-9qk4d", "/a")
    assert common_part(first) == common_part(second)
    assert common_part(first) != common_part(mount("kube-api-access-x7b2p", "/b"))


@pytest.mark.parametrize(
    "source",
    [{"hostPath": {"path": "/dev"}}, {**TOKEN, "hostPath": {"path": "/dev"}}, {"projected": {"sources": []}}],
    ids=["hostPath", "both", "no token"],
)
def test_volumes_that_are_only_named_like_those_of_tokens_are_kept(source):
    named = mounting(pod(), "kube-api-access-x7b2p", source)
    assert common_part(named)["spec"] == named["spec"]


def test_mounts_of_a_host_path_named_like_the_token_volume_beside_it_are_kept():
    named = mounting(pod(), "kube-api-access-x7b2p", {"hostPath": {"path": "/dev/nvidia0"}})
    named["spec"]["volumes"].insert(0, {"name": "kube-api-access-x7b2p", **TOKEN})
    assert common_part(named)["spec"]["containers"] == named["spec"]["containers"]


def test_running_pod_keeps_its_node_only_if_it_lacks_what_it_requests():
    view = ManifestsView(NODES)
    requesting = pod(nodeName="node-1")
    requesting["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    elsewhere = in_spec(requesting, nodeName="node-2")
    assert "nodeName" not in as_running(requesting, view, DEFAULTS)["spec"]
    assert as_running(elsewhere, view, DEFAULTS)["spec"]["nodeName"] == "node-2"
