"""Digests by object: computed once, cached while the object exists, always equal to a full computation."""

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.conversion.surroundings import kubelet_problem, node_problems
from policies.devices.published_devices import gpu_groups, published_devices
from policies.fleet.cluster_digest import read_cluster, used_amounts
from policies.fleet.gpu_nodes import gpu_nodes
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.view import UNKNOWN
from policies.placement.wanted_nodes import gpu_kinds
from policies.placement.wish_labels import seen_products
from webhook.cluster.live import LiveView
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.trimmed import store_of
from webhook.cluster.watched_kinds import watched_kinds

KINDS = ("Node", "ResourceSlice", "ResourceClaim", "Pod")


def node(name, **labels):
    return {"metadata": {"name": name, "labels": labels}}


class Part:
    """What is made of an object; unlike a text, it can be seen to be let go."""

    def __init__(self, item):
        self.name = item["metadata"]["name"]


class Counted:
    """Makes parts, and counts them."""

    def __init__(self):
        self.made = []

    def __call__(self, item):
        self.made.append(item["metadata"]["name"])
        return Part(item)


def names(parts):
    return [part.name for part in parts]


def test_part_is_computed_once_for_each_object(cluster):
    cluster.fill("Node", node("a"), node("b"))
    function = Counted()
    cluster.view.derive_each("Node", function)
    assert names(cluster.view.derive_each("Node", function)) == ["a", "b"]
    assert function.made == ["a", "b"]


def test_only_the_part_of_a_changed_object_is_computed_again(cluster):
    cluster.fill("Node", node("a"), node("b"), node("c"))
    function = Counted()
    cluster.view.derive_each("Node", function)
    cluster.put("Node", node("b", new="label"))
    assert names(cluster.view.derive_each("Node", function)) == ["a", "b", "c"]
    assert function.made == ["a", "b", "c", "b"]


def test_equal_list_recomputes_nothing(cluster):
    cluster.fill("Node", node("a"), node("b"))
    function = Counted()
    cluster.view.derive_each("Node", function)
    cluster.fill("Node", node("a"), node("b"), node("c"))
    assert names(cluster.view.derive_each("Node", function)) == ["a", "b", "c"]
    assert function.made == ["a", "b", "c"]


def test_parts_of_deleted_objects_are_dropped(cluster):
    cluster.fill("Node", node("a"), node("b"))
    function = Counted()
    gone = weakref.ref(cluster.view.derive_each("Node", function)[0])
    cluster.store("Node").apply({"type": "DELETED", "object": node("a")})
    cluster.view.derive_each("Node", function)
    gc.collect()
    assert gone() is None


def test_parts_computed_during_a_change_are_not_used_afterwards(cluster):
    """As where one thread makes parts of a list, and another has made those of the next one before it is done."""
    cluster.fill("Node", node("a"), node("b"))

    def function(item):
        if not meanwhile and item["metadata"]["name"] == "a":
            cluster.put("Node", node("b", new="label"))
            meanwhile.append(None)
            meanwhile.append(cluster.view.derive_each("Node", function))
        return item["metadata"]["labels"]

    meanwhile = []
    assert cluster.view.derive_each("Node", function) == [{}, {}]
    assert meanwhile[1] == [{}, {"new": "label"}]
    assert cluster.view.derive_each("Node", function) == [{}, {"new": "label"}]


def test_parts_are_dropped_when_their_kind_becomes_unknown(cluster):
    cluster.fill("Node", node("a"))
    function = Counted()
    gone = weakref.ref(cluster.view.derive_each("Node", function)[0])
    cluster.store("Node").mark("forbidden", "RBAC")
    assert cluster.view.derive_each("Node", function) is UNKNOWN
    gc.collect()
    assert gone() is None


def test_kind_that_is_not_known_has_no_parts(cluster):
    assert cluster.view.derive_each("Node", Counted()) is UNKNOWN
    assert ManifestsView().derive_each("Node", Counted()) is UNKNOWN


def test_parts_of_manifests_are_made_once():
    view = ManifestsView([{"apiVersion": "v1", "kind": "Node", **node("a")}])
    function = Counted()
    assert names(view.derive_each("Node", function)) == names(view.derive_each("Node", function)) == ["a"]
    assert function.made == ["a"]


def node_names(view):
    parts = view.derive_each("Node", Part)
    return UNKNOWN if parts is UNKNOWN else names(parts)


def test_digest_of_parts_is_made_anew_when_the_kind_changes(cluster):
    assert cluster.view.derive(node_names) is UNKNOWN
    cluster.fill("Node", node("a"))
    assert cluster.view.derive(node_names) == ["a"]
    cluster.put("Node", node("b"))
    assert cluster.view.derive(node_names) == ["a", "b"]


GPU = {"nvidia.com/gpu": "8"}
devices = st.builds(
    lambda number, product, serial, own: {
        "name": f"gpu-{number}",
        "attributes": {
            "type": {"string": "gpu"},
            "productName": {"string": product},
            "uuid": {"string": f"GPU-{serial}"},
            "serial": {"int": serial},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
        **({"nodeName": own} if own else {}),
    },
    st.integers(0, 3),
    st.sampled_from(["NVIDIA L4", "NVIDIA H200"]),
    st.integers(0, 60),
    st.sampled_from(["", "", "n1"]),
)
objects = {
    "ResourceSlice": lambda name: st.builds(
        lambda pool, generation, count, found, driver: {
            "metadata": {"name": name},
            "spec": {
                "driver": driver,
                "nodeName": pool,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
                "devices": found,
            },
        },
        st.sampled_from(["n0", "n1", "n2"]),
        st.integers(1, 3),
        st.integers(1, 2),
        st.lists(devices, max_size=4),
        st.sampled_from(["gpu.nvidia.com", "gpu.nvidia.com", "other.example.com"]),
    ),
    "Node": lambda name: st.builds(
        lambda product, offers, kubelet: {
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, **({"nvidia.com/gpu.product": product} if product else {})},
            },
            "status": {"allocatable": offers, "nodeInfo": {"kubeletVersion": kubelet}},
        },
        st.sampled_from(["", "NVIDIA-L4", "NVIDIA-L4-SHARED", "NVIDIA-H200-MIG-1g.18gb"]),
        st.sampled_from([{}, GPU]),
        st.sampled_from(["v1.36.0", "v1.35.2"]),
    ),
    "ResourceClaim": lambda name: st.builds(
        lambda held, shared, pods: {
            "metadata": {"name": name, "namespace": "team-a"},
            "status": {
                "allocation": {
                    "devices": {
                        "results": [
                            {
                                "driver": "gpu.nvidia.com",
                                "pool": "n0",
                                "device": f"gpu-{number}",
                                **({"shareID": "s", "consumedCapacity": {"memory": "1Gi"}} if shared else {}),
                            }
                            for number in held
                        ]
                    }
                },
                "reservedFor": [{"resource": "pods", "name": f"pod-{number}"} for number in range(pods)],
            },
        },
        st.lists(st.integers(0, 3), max_size=2),
        st.booleans(),
        st.integers(0, 2),
    ),
    "Pod": lambda name: st.builds(
        lambda where, amount, phase: {
            "metadata": {"name": name, "namespace": "team-a"},
            "spec": {
                "nodeName": where,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": amount}, "limits": GPU}}],
            },
            "status": {"phase": phase},
        },
        st.sampled_from(["n0", "n1"]),
        st.sampled_from(["1", "2"]),
        st.sampled_from(["Running", "Succeeded"]),
    ),
}
changes = st.one_of(
    *(
        st.tuples(st.just("MODIFIED"), st.just(kind), st.sampled_from(["n0", "n1", "n2"]).flatmap(made))
        for kind, made in objects.items()
    ),
    *(
        st.tuples(st.just("DELETED"), st.just(kind), st.sampled_from(["n0", "n1", "n2"]).flatmap(made))
        for kind, made in objects.items()
    ),
    st.tuples(st.just("listed again"), st.sampled_from(KINDS), st.none()),
)


def digest(view):
    """Everything that is made of parts."""
    devices_known, explained = view.derive(published_devices), view.derive(read_cluster)
    return {
        "gpus": [group.devices for group in devices_known.gpus],
        "devices": [group.devices for group in devices_known.groups],
        "nodes": view.derive(gpu_nodes),
        "products": seen_products(view),
        "kinds": {
            *view.derive(gpu_kinds),
        },
        "kubelets": kubelet_problem(view),
        "node_problems": [finding.message for finding in node_problems(view, FieldPath())],
        "used": view.derive(used_amounts),
        "usage": explained.usage,
        "holding": sorted(explained.holding, key=lambda each: each.held),
        "problem": explained.problem,
        "pools": [[found.name for found in explained.index.of_pool(("gpu.nvidia.com", pool))] for pool in ("n0", "n1")],
    }


@given(st.lists(changes, max_size=12))
def test_digests_after_any_changes_are_those_made_from_scratch(take_list, sequence):
    stores = {each: store_of(each) for each in watched_kinds(())}
    for store in stores.values():
        take_list(store, [])
    of = {each.kind: store for each, store in stores.items()}
    live = LiveView(stores.items())
    for action, kind, item in sequence:
        if action == "listed again":
            take_list(of[kind], [*of[kind].list()])
        else:
            of[kind].apply({"type": action, "object": item})
        stored = [each for known in KINDS for each in of[known].list()]
        empty = [{"apiVersion": of[known].resource.api_version, "kind": f"{known}List", "items": []} for known in KINDS]
        assert digest(live) == digest(ManifestsView([*empty, *stored]))


@pytest.mark.parametrize("generation", [1, 2])
def test_slice_of_a_newer_generation_hides_all_older_ones(cluster, generation):
    device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}

    def part(name, number):
        pool = {"name": "n0", "generation": number, "resourceSliceCount": 2}
        spec = {"driver": "gpu.nvidia.com", "nodeName": "n0", "pool": pool, "devices": [device]}
        return {"metadata": {"name": name}, "spec": spec}

    cluster.fill("ResourceSlice", part("a", 1), part("b", 1))
    assert [len(group.devices) for group in gpu_groups(cluster.view)] == [2]
    cluster.put("ResourceSlice", part("c", generation))
    assert [len(group.devices) for group in gpu_groups(cluster.view)] == [{1: 3, 2: 1}[generation]]
