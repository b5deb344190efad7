"""Pods with 20,000 claims beside pods with as many variables: time of reviews, memory of a replica."""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.devices import example_cluster
from benchmarks.figures import ALLOWANCE, Figure, Theme, figure_of_rounds
from policies.admission import review
from policies.rules.settings import DEFAULTS
from testbed.background import Background
from testbed.memory import peak_mebibytes
from testbed.sandbox_cluster import SandboxCluster
from webhook.cluster.manifests import ManifestsView
from webhook.server.admission_review import decode

CLAIMS = 20_000
ROUNDS = 5
AT_ONCE = 3
MOST_MEBIBYTES = 250
NAMESPACE = "team-a"
CALLED = ("convert-pods", "enforce-quota")
THEME = Theme(
    title="Crowded pods",
    text="""Pods with 20,000 claims. Time is the CPU time of all entries that such a pod meets in a namespace with an enforced
GPUQuota, beside a pod of the same size with as many variables. Memory is the most that a replica held so far after it answered
three such pods at once, with the sandbox as API server, beside what it may hold.""",
)


def measure() -> list[Figure]:
    """Time of each kind of crowd beside the control, and memory beside what is allowed."""
    logging.disable(logging.CRITICAL)
    pods = crowds()
    view = cluster()
    return [*(time_of(name, document, view) for name, document in pods.items()), *memory(pods)]


def time_of(name: str, document: dict[str, Any], view: ManifestsView) -> Figure:
    """The cost of a pod beside its control, both measured in turns."""
    pair = body(document), body(control(document))
    rounds = [(milliseconds(pair[0], view), milliseconds(pair[1], view)) for _ in range(ROUNDS)]
    beside = "as many variables"
    return figure_of_rounds(f"time: {name}", rounds, unit="ms", beside=beside, aim=1.8, limit=2.0)


def crowds() -> dict[str, dict[str, Any]]:
    """Pods by what is crowded in them."""
    templates: dict[str, list[dict[str, str]]] = {
        "20,000 missing templates": [
            {"name": f"claim-{index}", "resourceClaimTemplateName": f"missing-{index}"} for index in range(CLAIMS)
        ],
        "one template 20,000 times": [
            {"name": f"claim-{index}", "resourceClaimTemplateName": "missing"} for index in range(CLAIMS)
        ],
        "20,000 claims by name": [
            {"name": f"claim-{index}", "resourceClaimName": f"missing-{index}"} for index in range(CLAIMS)
        ],
    }
    made = {name: pod(resourceClaims=listed) for name, listed in templates.items()}
    referred = pod(resourceClaims=templates["20,000 missing templates"])
    referred["spec"]["containers"][0]["resources"]["claims"] = [{"name": f"claim-{index}"} for index in range(CLAIMS)]
    made["20,000 claims of a container"] = referred
    return made


def control(document: dict[str, Any]) -> dict[str, Any]:
    """A pod of the same size as another one, with a variable for each entry of a list there."""
    resources = document["spec"]["containers"][0]["resources"]
    count = len(document["spec"]["resourceClaims"]) + len(resources.get("claims", ()))
    made = pod()
    size = (len(body(document)) - len(body(made))) // count
    names = [{"name": f"VARIABLE_{index}", "value": ""} for index in range(count)]
    made["spec"]["containers"][0]["env"] = [
        {**each, "value": "x" * (size - len(json.dumps(each)) - 2)} for each in names
    ]
    return made


def pod(**spec: Any) -> dict[str, Any]:
    """A pod with a GPU."""
    container = {"name": "main", "image": "train:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    metadata = {"name": "train", "namespace": NAMESPACE, "uid": "0a1b2c3d-0000-4000-8000-000000000001"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def quota(namespace: str) -> dict[str, Any]:
    """A GPUQuota that every pod fits into."""
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": namespace},
        "spec": {"limits": [{"name": "all", "gpus": 1000}]},
    }


def cluster() -> ManifestsView:
    """The cluster of the examples, where the namespace has a GPUQuota."""
    return ManifestsView([*example_cluster(), quota(NAMESPACE)])


def body(document: dict[str, Any], namespace: str = NAMESPACE, *, uid: str = "1") -> bytes:
    """The AdmissionReview about a pod."""
    metadata = {**document["metadata"], "namespace": namespace, "uid": uid}
    request = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": namespace,
        "name": "train",
        "operation": "CREATE",
        "userInfo": {"username": "alice"},
        "object": {**document, "metadata": metadata},
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def milliseconds(sent: bytes, view: ManifestsView) -> float:
    """CPU time of all entries together, from bytes to decisions."""
    begun = time.process_time()
    for entry in CALLED:
        review(decode(sent, entry), view, DEFAULTS)
    return 1000 * (time.process_time() - begun)


def memory(pods: dict[str, dict[str, Any]]) -> list[Figure]:
    """The most that a replica held after several pods at once of each kind, which only grows."""
    background = Background()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        cluster = SandboxCluster(background, Path(folder))
        try:
            cluster.begin()
            namespace = cluster.namespace(quota="enforced")
            cluster.create(quota(namespace))
            for name, document in pods.items():
                bodies = [body(document, namespace, uid=f"{name}-{index}"[-60:]) for index in range(AT_ONCE)]
                background.run(calls(cluster.service.url, bodies))
                held = peak_mebibytes(cluster.service.process_id)
                found.append(
                    figure_of_rounds(
                        f"memory: {name}",
                        [(held, MOST_MEBIBYTES)],
                        unit="MiB",
                        beside=ALLOWANCE,
                        aim=0.8,
                        limit=1.0,
                    )
                )
        finally:
            cluster.close()
            background.close()
    return found


async def calls(url: str, bodies: list[bytes]) -> None:
    """Ask every entry about several pods at once."""
    async with aiohttp.ClientSession(headers={"Content-Type": "application/json"}) as session:

        async def call(entry: str, sent: bytes) -> None:
            async with session.post(f"{url}/{entry}?timeout=30s", data=sent, ssl=False) as response:
                if response.status != 200:
                    raise SystemExit(f"{entry}: {response.status} {await response.text()}")

        for entry in CALLED:
            await asyncio.gather(*(call(entry, sent) for sent in bodies))
