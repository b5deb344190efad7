"""Warming up: the first review of a pod or a claim, and the first explanation, compute no digest again."""

from policies import outcome
from policies.admission import review
from policies.admission.concerns import warm
from policies.analyses import explain as explanation
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS

NODE = {
    "metadata": {"name": "a", "labels": {"nvidia.com/gpu.product": "NVIDIA-L4"}},
    "status": {"allocatable": {"nvidia.com/gpu": "1"}},
}
SLICE = {
    "metadata": {"name": "a-gpu.nvidia.com"},
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}],
    },
}
CLASS = {"metadata": {"name": "gpu.nvidia.com"}, "spec": {"selectors": []}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "annotations": {"gpu-admission.io/product": "L4"}},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
}
EXACTLY = {"deviceClassName": "gpu.nvidia.com", "count": 1}
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpu"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": EXACTLY}]}},
}
REQUESTS = (
    Request(POD, namespace="team-a", entry="place-pods"),
    Request(CLAIM, group="resource.k8s.io", kind="ResourceClaim", namespace="team-a", entry="claims"),
)


class Remembering:
    """A view that notes whose parts are asked for the first time."""

    def __init__(self, view):
        self._view = view
        self.first = []
        self._known = set()

    def __getattr__(self, name):
        return getattr(self._view, name)

    def derive(self, function):
        return function(self)

    def derive_each(self, kind, function):
        if function not in self._known:
            self._known.add(function)
            self.first.append(kind)
        return self._view.derive_each(kind, function)


def test_slices_are_read_before_the_first_review(cluster):
    cluster.fill("Node", NODE)
    cluster.fill("ResourceSlice", SLICE)
    cluster.fill("DeviceClass", CLASS)
    view = Remembering(cluster.view)
    warm(view)
    assert {"Node", "ResourceSlice"} <= set(view.first)
    view.first.clear()
    for request in REQUESTS:
        review(request, view, DEFAULTS)
    assert "ResourceSlice" not in view.first


def test_slices_claims_and_pods_are_read_before_the_first_explanation(cluster):
    cluster.fill("Node", NODE)
    cluster.fill("ResourceSlice", SLICE)
    cluster.fill("DeviceClass", CLASS)
    view = Remembering(cluster.view)
    warm(view)
    outcome.warm(view)
    assert {"ResourceSlice", "ResourceClaim", "Pod"} <= set(view.first)
    view.first.clear()
    (question,) = outcome.questions(CLAIM, "team-a", view, DEFAULTS)
    explanation.explain(question, view, DEFAULTS)
    assert not {"ResourceSlice", "ResourceClaim", "Pod"} & set(view.first)


def test_cluster_of_which_nothing_is_known_is_warmed_up(cluster):
    warm(cluster.view)
    outcome.warm(cluster.view)


def test_pods_that_have_ended_are_not_requested(cluster):
    (pods,) = [each for each in cluster.stores if each.kind == "Pod"]
    assert pods.query == {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
