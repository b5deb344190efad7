"""Explanations of where a template fits, in a cluster of 1,000 nodes that is half in use."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.devices import CLASS, GPUS, node, resource_slice
from benchmarks.figures import Figure, Theme, figure_of_rounds
from benchmarks.pods import claim
from benchmarks.timing import READING, json_reader, time_in_turns
from policies.analyses.explain import explain
from policies.fleet.cluster_digest import read_cluster, used_amounts
from policies.outcome import questions
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Iterator

THEME = Theme(
    title="Explain",
    text="""`explain` for a template in a cluster of 1,000 nodes with 8 GPUs, of which about half are in use; which ones follows no
pattern that nodes share. CPU time beside reading the cluster from JSON with orjson. The digest is made once for each change of
the cluster.""",
)
NODES = 1_000
MANY = 5_000
PATTERNS = 4
"""Patterns of GPUs in use among alike nodes."""
MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) >= 0'
ROOT = "resource.kubernetes.io/pcieRoot"


def measure() -> list[Figure]:
    """Figures of the digest and of each question."""
    objects = list(cluster())

    def digest() -> None:
        fresh = ManifestsView(objects)
        fresh.derive(read_cluster)
        fresh.derive(used_amounts)

    times = time_in_turns(digest, json_reader(objects), rounds=3)
    return [
        figure_of_rounds("digest of the cluster", times, unit="ms", beside=READING, aim=1.0, limit=2.0),
        *_figures(objects, f"{NODES:,} nodes"),
        *_figures(list(cluster(MANY, PATTERNS)), f"{MANY:,} alike nodes"),
        *_figures(list(cluster(MANY)), f"{MANY:,} different nodes"),
    ]


def _figures(objects: list[dict[str, Any]], group: str) -> Iterator[Figure]:
    """A figure for each question about a cluster."""
    view, control = ManifestsView(objects), json_reader(objects)

    def answer(document: dict[str, Any]) -> None:
        for question in questions(document, "team-a", view, DEFAULTS):
            explain(question, view, DEFAULTS)

    for name, (document, aim, limit) in QUESTIONS.items():
        times = time_in_turns(partial(answer, document), control, rounds=3)
        yield figure_of_rounds(name, times, unit="ms", beside=READING, aim=aim, limit=limit, group=group)


def cluster(nodes: int = NODES, patterns: int = 0) -> Iterator[dict[str, Any]]:
    """Nodes, slices, and pods whose claims hold GPUs, in so many patterns; 0 for one of each node's own."""
    yield CLASS
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": {}}}
    for number in range(nodes):
        yield node(number)
        yield resource_slice(number)
        # Knuth's multiplicative hash, so that each node has another set of free GPUs.
        pattern = number % patterns if patterns else number
        held = [minor for minor in range(GPUS) if (pattern * 2_654_435_761 >> (8 + minor)) & 1]
        for holder, minors in enumerate((held[:2], held[2:])):
            if minors:
                yield from _holder(number, f"train-{number}-{holder}", minors)


def _holder(number: int, name: str, minors: list[int]) -> Iterator[dict[str, Any]]:
    """A pod and the claim that holds its GPUs."""
    place = f"node-{number:04}"
    results = [
        {"request": "gpu", "driver": "gpu.nvidia.com", "pool": place, "device": f"gpu-{minor}"} for minor in minors
    ]
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"{name}-gpu", "namespace": "team-b"},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": name}],
        },
    }
    requests = {"cpu": "8", "memory": "64Gi"}
    yield {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-b"},
        "spec": {"nodeName": place, "containers": [{"name": "train", "resources": {"requests": requests}}]},
        "status": {"phase": "Running"},
    }


def template(count: int, memory: str, **devices: Any) -> dict[str, Any]:
    """A template that requests GPUs with so much memory."""
    spec = claim(MEMORY.format(memory), count=count, **devices)["spec"]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpus", "namespace": "team-a"},
        "spec": {"spec": spec},
    }


QUESTIONS = {
    "1 GPU, fits": (template(1, "40Gi"), 0.5, 1.0),
    "8 GPUs, few nodes are free": (template(8, "79Gi"), 0.5, 1.0),
    "2 GPUs of 100Gi, no node has one": (template(2, "100Gi"), 0.5, 1.0),
    "4 GPUs of one root with two": (template(4, "40Gi", constraints=[{"matchAttribute": ROOT}]), 2.0, 4.0),
}
"""The template, aim and limit."""
