"""The time that our webhooks add to the creation of a pod, beside one bare webhook."""

from __future__ import annotations

import asyncio
import base64
import os
import statistics
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure, Theme, figure_of_rounds
from benchmarks.servers import BARE, server_process
from testbed import manifests
from testbed.background import Background
from testbed.real_cluster import RealCluster
from testbed.sandbox_cluster import SandboxCluster
from webhook.cluster.client import APIClient
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.servers import Server

THEME = Theme(
    title="End to end",
    text="""One client creates pods as dry runs through the API server, one of each kind in turn. Measured is what our webhooks
add to the median time of the same pod in a namespace without webhooks, beside what one webhook with the bare handler adds. A
GPU pod costs two calls, one mutating and one validating. A pod without devices costs no call, only conditions that the
API server evaluates; the last columns have its time without webhooks, and what one webhook whose condition is `false` adds.""",
)
ROUNDS = 7
PODS = 40
"""Of each case in a round."""
WITHOUT = "kube-system"
"""A namespace that none of our webhooks is called for."""
LABEL = "webhook"
"""The label of pods that one of the other webhooks is about; its value is the name of that webhook."""
THRESHOLDS = {"checked GPU pod": (3.0, 6.0), "converted GPU pod": (4.0, 6.0), "pod without devices": (0.5, 1.0)}
"""Aim and limit."""


@dataclass(frozen=True, slots=True)
class Case:
    """Pods in a namespace, compared with the same pods in the namespace without webhooks."""

    name: str
    namespace: str
    has_gpu: bool = True
    labels: Mapping[str, str] = field(default_factory=lambda: {"app": "train"})


@dataclass(frozen=True, slots=True)
class Medians:
    """Milliseconds of one case in one round."""

    without: float
    added: float


def measure() -> list[Figure]:
    """A figure for each case, with the API server of the environment or the sandbox."""
    background = Background()
    with tempfile.TemporaryDirectory() as folder:
        is_real = any(os.environ.get(name) for name in ("KUBECONFIG", "KUBEBUILDER_ASSETS"))
        cluster = (
            RealCluster.of(background, os.environ, Path(folder))
            if is_real
            else SandboxCluster(background, Path(folder))
        )
        try:
            cluster.begin()
            elsewhere = cluster.namespace()
            cases = (
                Case("a bare webhook", WITHOUT, labels={LABEL: "bare"}),
                Case("a condition that is false", WITHOUT, has_gpu=False, labels={LABEL: "never"}),
                Case("checked GPU pod", elsewhere),
                Case("converted GPU pod", cluster.namespace(dra="enabled")),
                Case("pod without devices", elsewhere, has_gpu=False),
            )
            rounds = background.run(_measure(str(cluster.kubeconfig), cases), 600)
            cluster.tidy()
        finally:
            cluster.close()
            background.close()
    return _figures(cases, rounds)


def _figures(cases: tuple[Case, ...], rounds: list[list[Medians]]) -> list[Figure]:
    figures = []
    for place, case in enumerate(cases[2:], 2):
        aim, limit = THRESHOLDS[case.name]
        more = {
            "without webhooks in ms": (statistics.median(medians[place].without for medians in rounds), None),
            "added by one false condition in ms": (statistics.median(medians[1].added for medians in rounds), None),
        }
        pairs = [(medians[place].added, medians[0].added) for medians in rounds]
        figures.append(
            figure_of_rounds(case.name, pairs, unit="ms", beside="bare webhook", aim=aim, limit=limit, more=more)
        )
    return figures


async def _measure(kubeconfig: str, cases: tuple[Case, ...]) -> list[list[Medians]]:
    """Create the pods of all rounds, after one that is not counted."""
    client = await APIClient.connect(kubeconfig)
    path = RESOURCES["MutatingWebhookConfiguration"].path()
    async with server_process(*BARE) as bare:
        try:
            await client.post(path, _configuration(bare))
            # Nothing shows when an API server has taken note of a configuration.
            await asyncio.sleep(1.5)
            return [await _one_round(client, cases) for _ in range(ROUNDS + 1)][1:]
        finally:
            await client.delete(f"{path}/bare")
            await client.close()


async def _one_round(client: APIClient, cases: tuple[Case, ...]) -> list[Medians]:
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
    return (time.perf_counter() - begin) * 1e3


def _configuration(bare: Server) -> dict[str, Any]:
    """Two webhooks: one is called for each of its pods, the condition of the other is false."""
    bundle = base64.b64encode(bare.ca.encode()).decode()
    conditions: dict[str, list[dict[str, str]]] = {"bare": [], "never": [{"name": "never", "expression": "false"}]}
    webhooks = [
        {
            "name": f"{name}.example.com",
            "clientConfig": {"url": f"https://localhost:{bare.port}/{name}", "caBundle": bundle},
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
