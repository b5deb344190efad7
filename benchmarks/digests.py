"""The cost of one change for the next review in a large cluster: digests, and whole reviews.

5,000 nodes with 40,000 GPUs in slices, 20,000 pods with GPUs and their claims, in the stores that watches fill. Kubelets
and drivers update their objects all day, and the event loop waits for what is made of them.

Run it with `.venv/bin/python benchmarks/digests.py`; the aim is a review below 50 ms after one slice or node changed.
"""

from __future__ import annotations

import gc
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import yaml
from large_cluster import GPU_PODS, MADE, claim, node, pod, resource_slice

from policies.admission import load_rules, review
from policies.conversion.surroundings import _old_kubelets
from policies.devices.published_devices import gpu_groups, published_devices
from policies.fleet.cluster_digest import read_cluster, used_amounts
from policies.fleet.device_plugin import _nodes_with_both
from policies.fleet.gpu_nodes import gpu_nodes
from policies.placement.wanted_nodes import _gpus, _gpus_without_gfd, gpu_kinds
from policies.placement.wish_labels import _products, seen_products
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from webhook.cluster.live import LiveView
from webhook.cluster.store import Listing
from webhook.cluster.trimmed import store_of
from webhook.cluster.watched_kinds import watched_kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.kubernetes.view import ClusterView

DEVICE_CLASSES = Path(__file__).parent.parent / "examples" / "cluster" / "deviceclasses.yaml"
ONE_GPU = {"nvidia.com/gpu": "1"}
SELECTED = {"nodeSelector": {"nvidia.com/gpu.fact-01": "NVIDIA-H100-80GB-HBM3-1"}}


def _selecting_nodes(view: ClusterView) -> None:
    """The GPU nodes, asked about once: their index is a part of the digest."""
    nodes = gpu_nodes(view)
    if hasattr(nodes, "select"):
        nodes.select(SELECTED)


def _plugin_products(view: ClusterView) -> object:
    """The meaning of nvidia.com/gpu on the nodes."""
    nodes = gpu_nodes(view)
    return getattr(nodes, "plugin_products", None)


def _counting_devices(view: ClusterView) -> None:
    """The devices, counted by node once, as most claims need them."""
    known = view.derive(published_devices)
    for group in getattr(known, "groups", ()):
        _ = group.sample, group.most_on_a_node


def _gpu_groups(view: ClusterView) -> object:
    """The GPUs, grouped and counted by node."""
    return [group.by_node for group in gpu_groups(view) or ()]


DIGESTS: dict[str, Callable[[ClusterView], object]] = {
    "published devices": published_devices,
    "GPU groups": _gpu_groups,
    "old kubelets": _old_kubelets,
    "nodes with both (GA314)": _nodes_with_both,
    "plugin products": _plugin_products,
    "GPU nodes": gpu_nodes,
    "GPU nodes, selected": _selecting_nodes,
    "seen products": seen_products,
    "GPU kinds": gpu_kinds,
    "GPUs": _gpus,
    "GPUs without GFD": _gpus_without_gfd,
    "spellings of products": _products,
    "devices, counted": _counting_devices,
    "explain: cluster": read_cluster,
    "explain: used": used_amounts,
}


class Cluster:
    """The stores of a large cluster, and the view of them."""

    def __init__(self) -> None:
        """Fill them as lists would."""
        self.stores = {each.kind: store_of(each) for each in watched_kinds(())}
        self.view = LiveView((each, self.stores[each.kind]) for each in watched_kinds(()))
        self.view.set_server_version((1, 36))
        for kind, store in self.stores.items():
            listing = Listing(store)
            listing.add(_objects(kind))
            listing.finish("1")
        self._version = 4_000_000_001

    def change(self, kind: str, made: dict[str, Any]) -> None:
        """Let a watch tell of an object."""
        self._version += 1
        made = orjson.loads(orjson.dumps(made))
        made["metadata"]["resourceVersion"] = str(self._version)
        before = self.stores[kind].version
        self.stores[kind].apply({"type": "MODIFIED", "object": made})
        if self.stores[kind].version == before:
            raise AssertionError(f"{kind} did not change")


def _objects(kind: str) -> Iterator[dict[str, Any]]:
    if kind == "DeviceClass":
        yield from next(yaml.safe_load_all(DEVICE_CLASSES.open()))["items"]
    make, count = MADE.get(kind, (node, 0))
    for number in range(GPU_PODS if kind == "Pod" else count):
        yield orjson.loads(orjson.dumps(make(number)))


def changed_slice(number: int) -> tuple[str, dict[str, Any]]:
    """A driver takes a GPU away."""
    made = resource_slice(number)
    made["spec"]["pool"]["generation"] = 2 + number
    made["spec"]["devices"].pop()
    return "ResourceSlice", made


def changed_node(number: int) -> tuple[str, dict[str, Any]]:
    """A label of a node changes."""
    made = node(number)
    made["metadata"]["labels"]["nvidia.com/gpu.fact-00"] = f"new-{number}"
    return "Node", made


def changed_claim(number: int) -> tuple[str, dict[str, Any]]:
    """A claim is given back."""
    made = claim(number)
    made["status"] = {}
    return "ResourceClaim", made


def changed_pod(number: int) -> tuple[str, dict[str, Any]]:
    """A pod moves on."""
    made = pod(number)
    made["status"]["phase"] = "Pending"
    return "Pod", made


CHANGES = {"slice": changed_slice, "node": changed_node, "claim": changed_claim, "pod": changed_pod}


def asking_pod(wishes: dict[str, str] | None = None, **spec: object) -> dict[str, Any]:
    """A pod that requests a GPU."""
    annotations = {f"gpu-admission.io/{name}": value for name, value in (wishes or {}).items()}
    container = {"name": "main", "image": "x", "resources": {"limits": ONE_GPU, "requests": ONE_GPU}}
    metadata = {"name": "train", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpus", "namespace": "team-000"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 8}}]}},
}
REQUESTS = {
    "convert": Request(asking_pod(), namespace="team-000", entry="convert-pods"),
    "convert, wish": Request(asking_pod({"product": "H100*"}), namespace="team-000", entry="convert-pods"),
    "convert, selector": Request(asking_pod(None, **SELECTED), namespace="team-000", entry="convert-pods"),
    "place": Request(asking_pod(), namespace="team-001", entry="place-pods"),
    "place, wish": Request(asking_pod({"min-memory": "79Gi"}), namespace="team-001", entry="place-pods"),
    "place, selector": Request(asking_pod(None, **SELECTED), namespace="team-001", entry="place-pods"),
    "claim": Request(CLAIM, group="resource.k8s.io", kind="ResourceClaim", namespace="team-000", entry="claims"),
}


def milliseconds(call: Callable[[], object]) -> float:
    """The time that a call takes."""
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1000


def after(cluster: Cluster, change: Callable[[int], tuple[str, dict[str, Any]]], call: Callable[[], object]) -> float:
    """The best of several times that a call takes after a change."""
    times = []
    for _ in range(3):
        AGE[0] += 1
        cluster.change(*change(AGE[0]))
        times.append(milliseconds(call))
    return min(times)


AGE = [0]


def main() -> None:
    """Print a table of digests, and one of reviews."""
    load_rules()
    gc.disable()
    cluster = Cluster()
    gc.enable()
    gc.freeze()
    view = cluster.view
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'milliseconds':26}{'first':>10}" + "".join(f"{f'after a {name}':>16}" for name in CHANGES))
    for name, digest in DIGESTS.items():
        first = milliseconds(lambda digest=digest: view.derive(digest))
        later = [after(cluster, change, lambda digest=digest: view.derive(digest)) for change in CHANGES.values()]
        print(f"{name:26}{first:10.1f}" + "".join(f"{each:16.2f}" for each in later))
    for name, request in REQUESTS.items():
        first = milliseconds(lambda request=request: review(request, view, DEFAULTS))
        same = min(milliseconds(lambda request=request: review(request, view, DEFAULTS)) for _ in range(300))
        later = [
            after(cluster, change, lambda request=request: review(request, view, DEFAULTS))
            for change in CHANGES.values()
        ]
        print(f"{name:26}{first:10.1f}" + "".join(f"{each:16.2f}" for each in later) + f"{same:10.3f} unchanged")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before:.0f} MiB more than the stores")


if __name__ == "__main__":
    main()
