"""Large and hostile objects: CPU time, memory of selectors, and the lag of the event loop."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from typing import Any

import orjson

from benchmarks.figures import ALLOWANCE, Figure, Theme, figure_of_rounds
from policies.admission import ENTRIES, load_rules, review
from policies.cel import CelDevice, compile_selector
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView
from webhook.server.admission import Admission
from webhook.server.admission_review import decode, encode
from webhook.server.listeners import set_up_interpreter
from webhook.server.metrics import Metrics

ROUNDS = 5
SELECTORS = 100
MOST_MEBIBYTES = 40
CLAIMS = 20
MOST_LAG = 50

_VIEW = ManifestsView([])


THEME = Theme(
    title="Large and hostile objects",
    text="""Time is the CPU time of reading, reviewing and answering one call, beside a ConfigMap of one small document. Memory is
what 100 different selectors of 8 kB leave behind. Lateness is the 99th percentile of how late the event loop is while it
answers hostile claims. Both are beside what is allowed.""",
)


def measure() -> list[Figure]:
    """Time of each large object beside the control, memory and lateness beside what is allowed."""
    logging.disable(logging.CRITICAL)
    load_rules()
    control = body(config_map(1, "x" * 900))
    times = [
        figure_of_rounds(
            name,
            [(milliseconds(entry, sent), milliseconds("configuration", control)) for _ in range(ROUNDS)],
            unit="ms",
            beside="small ConfigMap",
            aim=150.0,
            limit=200.0,
        )
        for name, (entry, sent) in {
            "ConfigMap of 18,000 documents": ("configuration", body(config_map(18_000))),
            "ClusterPolicy with 10,000 unknown fields": ("configuration", body(cluster_policy(), "nvidia.com")),
            "Deployment with a template of 1 MB": ("workloads", body(deployment(), "apps")),
        }.items()
    ]
    return [
        *times,
        _beside_allowance("memory of 100 selectors", mebibytes_of_selectors(), MOST_MEBIBYTES, "MiB"),
        _beside_allowance("lateness of the event loop", asyncio.run(lateness()), MOST_LAG, "ms"),
    ]


def _beside_allowance(name: str, measured: float, allowed: float, unit: str) -> Figure:
    return figure_of_rounds(name, [(measured, allowed)], unit=unit, beside=ALLOWANCE, aim=0.6, limit=1.0)


def milliseconds(entry: str, sent: bytes) -> float:
    """CPU time of one call."""
    gc.collect()
    begun = time.process_time()
    request = decode(sent, entry)
    orjson.dumps(encode(review(request, _VIEW, DEFAULTS), ENTRIES[entry], request))
    return 1000 * (time.process_time() - begun)


def mebibytes_of_selectors() -> float:
    """The memory that selectors keep once they were compiled and evaluated."""
    device = CelDevice.read({"driver": "gpu.nvidia.com"})
    compile_selector("true").matches(device)
    before = resident()
    for number in range(SELECTORS):
        compile_selector(hostile(number)).matches(device)
    return resident() - before


async def lateness() -> float:
    """The 99th percentile of how late the loop is, in milliseconds."""
    set_up_interpreter()
    admission = Admission(_VIEW, lambda: DEFAULTS, Metrics())
    late: list[float] = []

    async def probe() -> None:
        while True:
            due = time.monotonic() + 0.002
            await asyncio.sleep(0.002)
            late.append(1000 * (time.monotonic() - due))

    probing = asyncio.create_task(probe())
    for number in range(CLAIMS):
        sent = body(claim(hostile(SELECTORS + number)), "resource.k8s.io")
        await admission.answer(ENTRIES["claims"], sent, admission.deadline("30s"))
    probing.cancel()
    return sorted(late)[int(len(late) * 0.99)]


def resident() -> float:
    """Resident memory of this process in MiB."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - Linux' own file
        return int(file.read().split()[1]) * 4096 / 2**20


def hostile(number: int) -> str:
    """A selector of 8 KB that is costly to compile."""
    return "||".join([f"[1].all(x,x>{1000 + number})"] * 360)


def body(document: dict[str, Any], group: str = "") -> bytes:
    """An AdmissionReview of its creation."""
    kind = document["kind"]
    request = {
        "uid": "u",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": f"{kind.lower()}s"},
        "namespace": document["metadata"].get("namespace", ""),
        "operation": "CREATE",
        "userInfo": {"username": "somebody"},
        "object": document,
    }
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def config_map(documents: int, comment: str = "") -> dict[str, Any]:
    """A ConfigMap of the device plugin."""
    labels = {"gpu-admission.io/config": "device-plugin"}
    sharing = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "configs", "namespace": "gpu-operator", "labels": labels},
        "data": {f"c{number}": f"version: v1\n{sharing}\n# {comment}" for number in range(documents)},
    }


def cluster_policy() -> dict[str, Any]:
    """A ClusterPolicy with 10,000 fields that there are not."""
    spec: dict[str, Any] = {f"unknown{number}": {} for number in range(10_000)}
    return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "gpus"}, "spec": spec}


def deployment() -> dict[str, Any]:
    """A Deployment whose pods have a megabyte of containers that take GPUs without a request."""
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    containers = [{"name": f"c{number}", "image": "i", "env": env} for number in range(12_000)]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "team-a"},
        "spec": {"replicas": 1, "template": {"metadata": {}, "spec": {"containers": containers}}},
    }


def claim(text: str) -> dict[str, Any]:
    """A claim with one selector."""
    exactly = {"deviceClassName": "gpu.nvidia.com", "selectors": [{"cel": {"expression": text}}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team-a"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
