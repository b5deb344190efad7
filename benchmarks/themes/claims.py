"""Reviewing claims in a cluster of 1,000 nodes: typical, impossible and hostile ones."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from benchmarks.devices import CLASS, DOMAIN, resource_slice
from benchmarks.figures import Figure, Theme, figure_of_rounds
from benchmarks.pods import NAMESPACE, claim
from benchmarks.timing import json_reader, time_in_turns
from policies.admission import load_rules, review
from policies.devices.published_devices import published_devices
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Callable

THEME = Theme(
    title="Claims",
    text="""One review of a claim in process, in a cluster of 1,000 nodes with 8 GPUs whose devices are indexed already. CPU time
beside reading the ResourceSlices of that cluster from JSON with orjson, once. Hostile claims have thousands of CEL terms or
loops, another text in each call, so that nothing is cached; what they may cost is bounded, see
[bounded reviews](designs/bounded-reviews.md).""",
)
NODES = 1_000
ROOT, UUID = "resource.kubernetes.io/pcieRoot", "gpu.nvidia.com/uuid"
SHARED = {
    "opaque": {
        "driver": "gpu.nvidia.com",
        "parameters": {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "GpuConfig",
            "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}},
        },
    },
}
CLAIMS = {
    "1 GPU": (claim(), 0.02, 0.1),
    "shared GPU of a product": (
        claim(
            f'{DOMAIN}.brand == "Nvidia" && {DOMAIN}.cudaComputeCapability.isGreaterThan(semver("8.0.0"))',
            'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0',
            config=[{"requests": ["gpu"], **SHARED}],
        ),
        0.02,
        0.1,
    ),
    "8 of a product": (claim(f'{DOMAIN}.productName == "NVIDIA H100 80GB HBM3"', count=8), 0.02, 0.1),
    "memory that no GPU has": (
        claim('device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("100Gi")) >= 0'),
        0.02,
        0.1,
    ),
    "attribute that no GPU has": (claim(f"{DOMAIN}.index == 0"), 0.02, 0.1),
    "1 by its UUID": (claim(f'{DOMAIN}.uuid == "GPU-4711-3"'), 0.02, 0.1),
    "2 of one PCIe root": (claim(count=2, constraints=[{"matchAttribute": ROOT}]), 0.02, 0.1),
    "4 that never agree": (claim(count=4, constraints=[{"matchAttribute": UUID}]), 1.5, 3.0),
}
"""The claim, aim and limit."""
HOSTILE: dict[str, Callable[[int], dict[str, Any]]] = {
    "hostile: 6 long selectors": lambda unique: claim(
        *("||".join([f"[1].all(x,x>{unique}{number})"] * 480) for number in range(6))
    ),
    "hostile: 3 nested loops": lambda unique: claim(
        *(f"lists.range(330).all(x,lists.range(330).all(y,x+y>=-{unique}{number}))" for number in range(3))
    ),
    "hostile: 200 unknown attributes": lambda unique: claim(
        "||".join(f'{DOMAIN}.a{unique}x{number}=="x"' for number in range(200))
    ),
}
"""Each makes a claim like no other from a number."""


def measure() -> list[Figure]:
    """One figure for each claim."""
    load_rules()
    slices = [resource_slice(number) for number in range(NODES)]
    view = ManifestsView([CLASS, *slices])
    view.derive(published_devices)
    control = json_reader(slices)

    def figure(name: str, function: Callable[[], object], aim: float, limit: float) -> Figure:
        rounds = time_in_turns(function, control, rounds=5)
        return figure_of_rounds(name, rounds, unit="ms", beside="reading all slices", aim=aim, limit=limit)

    def review_claim(document: dict[str, Any]) -> None:
        request = Request(document, group="resource.k8s.io", kind="ResourceClaim", namespace=NAMESPACE, entry="claims")
        review(request, view, DEFAULTS)

    numbers = count(1000)

    def review_another(make: Callable[[int], dict[str, Any]]) -> None:
        review_claim(make(next(numbers)))

    return [
        *(figure(name, partial(review_claim, document), aim, limit) for name, (document, aim, limit) in CLAIMS.items()),
        *(figure(name, partial(review_another, make), 0.5, 2.0) for name, make in HOSTILE.items()),
    ]
