"""What our webhooks add to the creation of a pod, beside one bare webhook, through an API server.

    KUBEBUILDER_ASSETS=FOLDER python -m benchmarks.end_to_end

One client creates pods as dry runs, one of each case in turn. `added` is the median time beyond that of the same pod in a
namespace without webhooks; the last column has it as a multiple of what a bare webhook adds, the median of the rounds. A
pod without devices is not called for, and pays for conditions; so does one whose only webhook has the condition `false`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import calls
from benchmarks.webhook_latency import told_by
from testbed import manifests
from testbed.background import Background
from testbed.real_cluster import RealCluster
from webhook.cluster.client import APIClient
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping

ROUNDS = 9
PODS = 60
"""Of each case in a round."""
WITHOUT = "kube-system"
"""A namespace that none of our webhooks is called for."""
LABEL = "webhook"
"""The label of pods that one of the other webhooks is about; its value is the name of that webhook."""


@dataclass(frozen=True, slots=True)
class Case:
    """Pods in a namespace, compared with the same pods in the namespace without webhooks."""

    name: str
    namespace: str
    has_gpu: bool = True
    labels: Mapping[str, str] = field(default_factory=lambda: {"app": "train"})


def main() -> None:
    """Start everything, measure, and print a table."""
    background = Background()
    with tempfile.TemporaryDirectory() as folder:
        cluster = RealCluster.of(background, os.environ, Path(folder))
        try:
            cluster.begin()
            elsewhere = cluster.namespace()
            cases = (
                Case("a bare webhook", WITHOUT, labels={LABEL: "bare"}),
                Case("GPU pod, elsewhere", elsewhere),
                Case("GPU pod, converted", cluster.namespace(dra="enabled")),
                Case("pod without devices, elsewhere", elsewhere, has_gpu=False),
                Case("a condition that is false", WITHOUT, has_gpu=False, labels={LABEL: "never"}),
            )
            background.run(measure(str(cluster.kubeconfig), cases), 3600)
            cluster.tidy()
        finally:
            cluster.close()
            background.close()


async def measure(kubeconfig: str, cases: tuple[Case, ...]) -> None:
    """Create the pods of all rounds, after one that is not counted, and print the table."""
    bare = await asyncio.create_subprocess_exec(
        sys.executable, "-m", calls.__name__, "bare", stdout=asyncio.subprocess.PIPE
    )
    client = await APIClient.connect(kubeconfig)
    path = RESOURCES["MutatingWebhookConfiguration"].path()
    try:
        await client.post(path, _configuration(json.loads(await told_by(bare))))
        # Nothing shows when an API server has taken note of a configuration.
        await asyncio.sleep(1.5)
        rounds = [await one_round(client, cases) for _ in range(ROUNDS + 1)][1:]
    finally:
        await client.delete(f"{path}/bare")
        await client.close()
        bare.terminate()
        await bare.wait()
    print(f"{'pod':<32} {'without':>8} {'added':>8} {'bare = 1':>9}")
    for number, case in enumerate(cases):
        without = statistics.median(each[number].without for each in rounds)
        added = statistics.median(each[number].added for each in rounds)
        ratio = statistics.median(each[number].added / each[0].added for each in rounds)
        print(f"{case.name:<32} {without * 1e3:>5.2f} ms {added * 1e3:>5.2f} ms {ratio:>9.2f}")


@dataclass(frozen=True, slots=True)
class Medians:
    """Seconds of one case in one round."""

    without: float
    added: float


async def one_round(client: APIClient, cases: tuple[Case, ...]) -> list[Medians]:
    """Create a pod of each case and its twin without webhooks, again and again."""
    times: list[tuple[list[float], list[float]]] = [([], []) for _ in cases]
    for number in range(PODS):
        for case, (without, called) in zip(cases, times, strict=True):
            without.append(await _create(client, replace(case, namespace=WITHOUT, labels={"app": "train"}), number))
            called.append(await _create(client, case, number))
    return [
        Medians(statistics.median(without), statistics.median(called) - statistics.median(without))
        for without, called in times
    ]


async def _create(client: APIClient, case: Case, number: int) -> float:
    pod = manifests.pod(case.namespace, f"train-{number}-{os.urandom(3).hex()}")
    pod["metadata"]["labels"] = dict(case.labels)
    if not case.has_gpu:
        del pod["spec"]["containers"][0]["resources"]
    begin = time.perf_counter()
    await client.post(RESOURCES["Pod"].path(case.namespace), pod, {"dryRun": "All"})
    return time.perf_counter() - begin


def _configuration(told: dict[str, Any]) -> dict[str, Any]:
    """Two webhooks: one is called for each of its pods, the condition of the other is false."""
    bundle = base64.b64encode(told["ca"].encode()).decode()
    conditions: dict[str, list[dict[str, str]]] = {"bare": [], "never": [{"name": "never", "expression": "false"}]}
    webhooks = [
        {
            "name": f"{name}.example.com",
            "clientConfig": {"url": f"https://localhost:{told['port']}/{name}", "caBundle": bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "objectSelector": {"matchLabels": {LABEL: name}},
            "matchConditions": matches,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        for name, matches in conditions.items()
    ]
    kind = RESOURCES["MutatingWebhookConfiguration"]
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "bare"}, "webhooks": webhooks}


if __name__ == "__main__":
    main()
