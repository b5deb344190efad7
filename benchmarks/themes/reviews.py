"""One decision in process, without server and network, beside reading the object from JSON."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from benchmarks.devices import example_cluster
from benchmarks.figures import Figure, Theme, figure_of_rounds
from benchmarks.pods import GPU, NAMESPACE, affinity, pod
from benchmarks.timing import READING, json_reader, time_in_turns
from policies.admission import load_rules, review_concern
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from policies.rules.request import Concern

THEME = Theme(
    title="One decision",
    text="""One concern reviews one object in process, in a new request and beside the cluster of the examples; no answer is
remembered. CPU time beside reading the object from JSON with orjson. `MIG` has four containers; `OR-ed affinity` two terms; the
wishes are product globs, versions and three terms; the misspelt ones are 20 products that do not exist; the
ClusterPolicy is what the Helm chart of the GPU Operator renders with its defaults.""",
)
PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
FAMILY = "nvidia.com/gpu.family"
CLUSTER_POLICY = Path(__file__).parents[2] / "tests" / "configuration" / "valid" / "cluster-policy-helm-defaults.yaml"
"""What the Helm chart of the GPU Operator renders with its defaults."""
GROUPS = {"Deployment": "apps", "ClusterPolicy": "nvidia.com"}
MISSPELT = ("H10O", "A10O-80GB", "TeslaT-4", "L40-S8", "RTX-A60000", "Hoper", "B20O", "V10O-32GB", "GH20O", "Blackwel")


class Case(NamedTuple):
    """A concern and what it reviews."""

    concern: Concern
    name: str
    document: dict[str, Any]
    aim: float
    limit: float


def measure() -> list[Figure]:
    """One figure for each concern and object."""
    load_rules()
    view = ManifestsView(example_cluster())
    return [_figure(case, view) for case in cases(view)]


def cases(view: ManifestsView) -> list[Case]:
    """The reviews that are measured."""
    by_product = pod(GPU, containers=2, nodeSelector=PRODUCT)
    converted = review_concern("conversion", Request(by_product, namespace=NAMESPACE), view, DEFAULTS).object
    if not isinstance(converted, dict):
        raise SystemExit("the pod was not converted, so that the check of converted pods has nothing to check")
    either = affinity({FAMILY: ["hopper"]}, {FAMILY: ["ampere"]})
    wishes = pod_with_wishes(
        pod(GPU, affinity=affinity(*({FAMILY: [name]} for name in ("hopper", "ampere", "blackwell")))),
        product="H100*,A100*,!*MIG*",
        min_compute_capability="8.6",
        min_cuda="12.4",
    )
    misspelt = pod_with_wishes(
        pod(GPU), product=",".join([*MISSPELT, *(f"*{pattern.lower()}-x*" for pattern in MISSPELT)])
    )
    mig = pod({"nvidia.com/mig-1g.10gb": "1"}, containers=4)
    return [
        Case("conversion", "no GPU", pod({}), 5.0, 10.0),
        Case("conversion", "by product", by_product, 25.0, 50.0),
        Case("conversion", "MIG", mig, 20.0, 40.0),
        Case("conversion", "OR-ed affinity", pod(GPU, affinity=either), 40.0, 80.0),
        Case("conversion-check", "converted pod", converted, 5.0, 15.0),
        Case("placement", "no GPU", pod({}), 5.0, 10.0),
        Case("placement", "no wish", pod(GPU), 20.0, 40.0),
        Case("placement", "wishes", wishes, 600.0, 1200.0),
        Case("placement", "misspelt wishes", misspelt, 4000.0, 8000.0),
        Case("access", "no GPU, 4 containers", pod({}, containers=4), 4.0, 8.0),
        Case("access", "every way to a GPU", pod_with_every_access(), 40.0, 80.0),
        Case("configuration", "full ClusterPolicy", yaml.safe_load(CLUSTER_POLICY.read_text()), 200.0, 400.0),
        Case("workloads", "Deployment, 1 GPU", deployment(pod(GPU)), 100.0, 200.0),
    ]


def _figure(case: Case, view: ManifestsView) -> Figure:
    kind = case.document["kind"]
    namespace = case.document["metadata"].get("namespace", "")
    request = Request(case.document, group=GROUPS.get(kind, ""), kind=kind, namespace=namespace)
    rounds = time_in_turns(
        # A request reads its pod once, so each review has a request of its own.
        lambda: review_concern(case.concern, replace(request), view, DEFAULTS),
        json_reader(case.document),
        per=1e-6,
    )
    name = f"{case.concern}: {case.name}"
    return figure_of_rounds(name, rounds, unit="µs", beside=READING, aim=case.aim, limit=case.limit)


def pod_with_wishes(document: dict[str, Any], **words: str) -> dict[str, Any]:
    """The pod with annotations, whose names are the words of a wish with `_` for `-`."""
    annotations = {f"gpu-admission.io/{word.replace('_', '-')}": text for word, text in words.items()}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


def pod_with_every_access() -> dict[str, Any]:
    """A pod that takes GPUs in every way that the access rules know."""
    folders = ("/dev", "/dev/nvidia0", "/usr/local/nvidia", "/var/lib/kubelet/device-plugins", "/etc/cdi", "/")
    document = pod({}, containers=4, runtimeClassName="nvidia", hostPID=True)
    mounts = [{"name": f"host-{place}", "mountPath": f"/host/{place}"} for place in range(len(folders))]
    mounts.append({"name": "data", "mountPath": "/var/run/nvidia-container-devices/all"})
    for container in document["spec"]["containers"]:
        container["image"] = "nvcr.io/nvidia/pytorch:25.08-py3"
        container["env"].append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"})
        container["envFrom"] = [{"configMapRef": {"name": "gpus"}}]
        container["securityContext"] = {"privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}
        container["volumeMounts"] += mounts
    document["spec"]["volumes"] += [
        {"name": f"host-{place}", "hostPath": {"path": path}} for place, path in enumerate(folders)
    ]
    document["metadata"]["annotations"] = {"nvidia.cdi.k8s.io/container.train-0": "nvidia.com/gpu=all"}
    return document


def deployment(template: dict[str, Any]) -> dict[str, Any]:
    """A Deployment of such pods."""
    metadata = {"name": "train", "namespace": NAMESPACE}
    spec = {"replicas": 1, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
