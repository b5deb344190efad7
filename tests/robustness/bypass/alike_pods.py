"""Pairs of pods that differ by a few changes, of which some are as between the pods of one template."""

from __future__ import annotations

import copy

from hypothesis import strategies as st

from tests.robustness.bypass.generated_pods import ANNOTATIONS, EPHEMERAL, IMAGES, PODS, UNSCHEDULED_PODS

__all__ = ["ALIKE", "TOKEN", "in_spec", "mounting"]

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
    st.sampled_from(["node-1", "node-2"]).map(lambda name: lambda pod: in_spec(pod, nodeName=name)),
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
    pod = draw(PODS | UNSCHEDULED_PODS)
    both = []
    for _ in range(2):
        other = pod
        for change in draw(st.lists(_CHANGES, max_size=2)):
            other = change(other)
        both.append(other)
    return both


ALIKE = _alike()
