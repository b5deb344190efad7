"""The cost of an audit of a large cluster: seconds of the processor, and MiB.

5,000 nodes with 40,000 GPUs in slices; 100,000 pods of which 20,000 request GPUs, in ReplicaSets of 20; a Deployment for
each ReplicaSet of these; 20,000 claims. Surveying is printed as a multiple of what digesting the pages takes; the API server's
time and the network's come on top.

Run it with `.venv/bin/python benchmarks/audit.py`.
"""

from __future__ import annotations

import gc
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from large_cluster import GPU_PODS, MADE, pod

from policies.admission import load_rules
from policies.analyses.audit import KeptProofs, Survey, audit
from policies.kubernetes.bounds import Work, bounded_by
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = 500
ABSENT = (
    "ResourceQuota",
    "LimitRange",
    "ResourceClaimTemplate",
    "ClusterPolicy",
    "NVIDIADriver",
    "GPUCluster",
    "ConfigMap",
)
DEVICE_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
}


def read(kind: str, made: dict[str, Any]) -> dict[str, Any]:
    """An object as a client reads it."""
    item: dict[str, Any] = orjson.loads(orjson.dumps(made))
    return {"apiVersion": RESOURCES[kind].api_version, "kind": kind, **item}


def object_list(kind: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    """The objects as the API server lists a kind."""
    return {"apiVersion": RESOURCES[kind].api_version, "kind": f"{kind}List", "items": items}


def pages() -> Iterator[list[dict[str, Any]]]:
    """All pods, page by page."""
    make, count = MADE["Pod"]
    for first in range(0, count, PAGE):
        yield [read("Pod", make(number)) for number in range(first, min(first + PAGE, count))]


def deployments() -> list[dict[str, Any]]:
    """The owners of the GPU pods, as if nothing stood between."""
    made = []
    for number in range(0, GPU_PODS, 20):
        asking = pod(number + 1)
        template = {"metadata": {"labels": asking["metadata"]["labels"]}, "spec": asking["spec"] | {"nodeName": None}}
        metadata = {key: asking["metadata"][key] for key in ("namespace",)} | {"name": f"app-{number // 20:05}"}
        made.append(read("Deployment", {"metadata": metadata, "spec": {"template": template}}))
    return made


def view() -> ManifestsView:
    """The cluster without its pods."""
    known = [
        object_list(kind, [read(kind, make(number)) for number in range(count)])
        for kind, (make, count) in MADE.items()
        if kind != "Pod"
    ]
    return ManifestsView(
        [*known, object_list("DeviceClass", [DEVICE_CLASS]), *(object_list(kind, []) for kind in ABSENT)]
    )


class Steps:
    """The longest time between two steps, in which a thread that computes does not rest."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._last = time.process_time()

    def __call__(self) -> None:
        """Take the time."""
        now = time.process_time()
        self.longest, self._last = max(self.longest, now - self._last), now


def resident() -> float:
    """MiB that this process has in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1024 / 1024


def main() -> None:
    """Print seconds, milliseconds and MiB."""
    load_rules()
    cluster = view()
    gc.freeze()
    before = resident()
    survey, surveying = Survey(cluster, DEFAULTS), 0.0
    for page in pages():
        begun = time.process_time()
        survey.add(page)
        surveying += time.process_time() - begun
    print(f"surveying 100,000 pods: {surveying:.1f} s; {len(survey.pods)} forms kept, {resident() - before:.0f} MiB")
    begun = time.process_time()
    survey.add(deployments())
    print(f"surveying 1,000 Deployments, made here: {time.process_time() - begun:.2f} s")
    kept = KeptProofs()
    for name in ("first audit", "second audit, nothing changed"):
        steps = Steps()
        begun = time.process_time()
        with bounded_by(Work(check=steps)):
            report = audit(cluster, DEFAULTS, survey, kept=kept)
        print(f"{name}: {time.process_time() - begun:.1f} s, the longest step {steps.longest * 1000:.0f} ms")
    print(report.summary)


if __name__ == "__main__":
    main()
