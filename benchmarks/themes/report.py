"""The report of a cluster in files as a page: 2,000 nodes."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from benchmarks.devices import CLASS, GPUS, example_cluster, node, resource_slice
from benchmarks.figures import Figure, Theme, figure_of_rounds
from benchmarks.themes.audits import existing_pod
from benchmarks.timing import READING, json_reader, milliseconds_of_process, seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator

THEME = Theme(
    title="Report",
    text="""`gpu-admission report` of the examples' cluster in files with 2,000 more nodes of 8 GPUs and 2,000 pods of 8 kB, of which
one in five requests a GPU, 10 wait for one, and a GPUQuota counts them: reading the files, audit, usage, quota, wait list and the
page. CPU time of the command in its own process, beside reading the files from JSON with orjson.""",
)
ROUNDS = 3
AIM, LIMIT = 15.0, 30.0
NODES = 2_000
PODS = 2_000
WAITING = 10


def measure() -> list[Figure]:
    """The figure of the whole report."""
    objects = [*cluster()]
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for each in objects:
        by_kind.setdefault(each["kind"], []).append(each)
    control = json_reader(objects)
    with tempfile.TemporaryDirectory() as folder:
        for kind, items in by_kind.items():  # as `gpu-admission snapshot` writes them
            Path(folder, f"{kind.lower()}.json").write_bytes(
                orjson.dumps({"apiVersion": "v1", "kind": "List", "items": items})
            )
        page = Path(folder, "report.html")
        command = [sys.executable, "-m", "webhook", "report", "--cluster", folder, "-o", str(page)]
        rounds = [(milliseconds_of_process(command), seconds_of(control) * 1e3) for _ in range(ROUNDS)]
    return [figure_of_rounds("2,000 nodes", rounds, unit="ms", beside=READING, aim=AIM, limit=LIMIT)]


def cluster() -> Iterator[dict[str, Any]]:
    """The objects of the cluster."""
    yield from (each for each in example_cluster() if "kind" in each)  # without the version
    yield CLASS
    for number in range(NODES):
        yield node(number)
        yield resource_slice(number)
    for number in range(PODS):
        yield existing_pod(number)
    for number in range(WAITING):
        waiting = existing_pod(number)
        waiting["metadata"] |= {"name": f"waiting-{number}", "uid": f"{number:08}-0000-4000-9000-000000000000"}
        del waiting["spec"]["nodeName"]
        yield waiting | {"status": {"phase": "Pending"}}
    limits = [{"name": "all", "gpus": PODS // GPUS}]
    head = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUQuota"}
    yield {**head, "metadata": {"name": "gpu", "namespace": "team-a"}, "spec": {"limits": limits}}
