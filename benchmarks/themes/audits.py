"""An audit: surveying 2,000 pods page by page, and reviewing a cluster of 200 nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.devices import CLASS, GPUS, example_cluster, node, resource_slice
from benchmarks.figures import Figure, Theme, figure_of_rounds
from benchmarks.pods import pod
from benchmarks.timing import READING, json_reader, time_in_turns
from policies.analyses.audit import Survey, audit
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Iterator

THEME = Theme(
    title="Audit",
    text="""An audit of the examples' cluster with 200 more nodes and 2,000 pods of 8 kB, of which one in five requests GPUs, in
ReplicaSets of 20. Surveying the pods and reviewing what the survey kept; CPU time beside reading the pods from JSON with
orjson.""",
)
NODES = 200
PODS = 2_000
PER_REPLICA_SET = 20


def measure() -> list[Figure]:
    """Figures of the survey and of the audit."""
    pods = [existing_pod(number) for number in range(PODS)]
    view = ManifestsView(cluster())

    def survey() -> Survey:
        found = Survey(view, DEFAULTS)
        found.add(pods)
        return found

    kept = survey()
    functions = {
        "survey of the pods": (survey, 1.5, 3.0),
        "audit": (lambda: audit(view, DEFAULTS, kept), 0.3, 0.6),
    }
    control = json_reader(pods)
    return [
        figure_of_rounds(
            name, time_in_turns(function, control, rounds=5), unit="ms", beside=READING, aim=aim, limit=limit
        )
        for name, (function, aim, limit) in functions.items()
    ]


def cluster() -> Iterator[dict[str, Any]]:
    """The cluster without its pods."""
    yield from example_cluster()
    yield CLASS
    for number in range(NODES):
        yield node(number)
        yield resource_slice(number)


def existing_pod(number: int) -> dict[str, Any]:
    """A pod on a node, with a claim for its GPU if it has one; those of one ReplicaSet follow each other."""
    replica_set = number // PER_REPLICA_SET
    has_gpu = replica_set % 5 == 0
    document = pod({"nvidia.com/gpu": "1"} if has_gpu else {}, namespace="team-a")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"app-{replica_set}", "controller": True}
    document["metadata"] |= {
        "name": f"app-{replica_set}-{number}",
        "uid": f"00000000-0000-4000-8000-{number:012}",
        "labels": {"app": f"app-{replica_set}", "pod-template-hash": f"{replica_set:010}"},
        "ownerReferences": [owner],
    }
    document["spec"]["nodeName"] = f"node-{number // GPUS % NODES:04}"
    document["status"] = {"phase": "Running"}
    if has_gpu:
        mapping = {"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "container-0-request-0"}
        claim = {"resourceClaimName": f"app-{number}-extended-resources", "requestMappings": [mapping]}
        document["status"]["extendedResourceClaimStatus"] = claim
    return document
