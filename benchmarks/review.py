"""One decision, in process: microseconds per review, beside reading the same pod from JSON.

Run it with `.venv/bin/python benchmarks/review.py`. Machines differ; compare the ratios.
"""

from __future__ import annotations

import copy
import timeit
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import yaml

from policies.request import Request
from policies.review import review_concern
from policies.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from policies.entries import Concern

CLUSTER = Path(__file__).parent.parent / "examples" / "cluster"


def pod(resources: dict[str, str], containers: int = 1, **spec: Any) -> dict[str, Any]:
    """A pod of about the size that a real one has, eight kilobytes with two containers."""
    container = {
        "image": "registry.example.com/team/train:1.0",
        "command": ["python", "train.py"],
        "env": [{"name": f"SETTING_{number}", "value": "a value of some length"} for number in range(40)],
        "resources": {"limits": dict(resources), "requests": dict(resources)},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team-a", "labels": {"app": "train"}},
        "spec": {
            "containers": [{"name": f"train-{number}", **copy.deepcopy(container)} for number in range(containers)],
            "volumes": [{"name": "data", "emptyDir": {}}],
            **spec,
        },
    }


def affinity(*terms: dict[str, list[str]]) -> dict[str, Any]:
    """Required node affinity with one `In` expression per key and term."""
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": key, "operator": "In", "values": term[key]} for key in term]}
                    for term in terms
                ]
            }
        }
    }


GPU = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}
PODS = {
    "no GPU, 1 container": pod({"cpu": "1"}),
    "1 GPU, 1 container": pod(GPU),
    "1 GPU by product, 2 containers": pod(GPU, 2, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}),
    "MIG, 4 containers": pod({"nvidia.com/mig-1g.10gb": "1"}, 4),
    "OR-ed affinity": pod(
        GPU, affinity=affinity({"nvidia.com/gpu.family": ["hopper"]}, {"nvidia.com/gpu.family": ["ampere"]})
    ),
}


def microseconds(function: Any) -> float:
    """The best of several runs: the one that other processes disturbed least."""
    return min(timeit.repeat(function, number=200, repeat=7)) / 200 * 1e6


def review_pod(concern: Concern, document: dict[str, Any], view: ManifestsView) -> None:
    """Review a pod by one concern, in a new request: a request reads its pod once."""
    review_concern(concern, Request(document, namespace="team-a"), view, DEFAULTS)


def main() -> None:
    """Print a line per kind of pod and concern."""
    view = ManifestsView(
        document for path in sorted(CLUSTER.glob("*.yaml")) for document in yaml.safe_load_all(path.open())
    )
    print(f"{'pod':34}{'concern':18}{'µs':>8}{'x reading it':>14}")
    for name, document in PODS.items():
        wire = orjson.dumps(document)
        reading = microseconds(lambda wire=wire: orjson.loads(wire))
        converted = review_concern("conversion", Request(document, namespace="team-a"), view, DEFAULTS).object
        cases: tuple[tuple[Concern, Any], ...]
        cases = ("conversion", document), ("placement", document), ("conversion-check", converted)
        for concern, given in cases:
            cost = microseconds(partial(review_pod, concern, given, view))
            print(f"{name:34}{concern:18}{cost:8.1f}{cost / reading:14.1f}")


if __name__ == "__main__":
    main()
