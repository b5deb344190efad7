"""Usage: which pods and claims hold GPUs, and how to say so in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.resource_claims import Claim
from policies.fleet import extended_requests
from policies.kubernetes.objects import Object, has_ended, name_of, namespace_of
from policies.kubernetes.paths import lookup
from policies.nvidia.identifiers import DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.view import ClusterView

__all__ = ["counted", "gpu_claims", "gpu_pods", "listed", "the_nodes"]

_SHOWN = 3


def gpu_pods(pods: Iterable[Object], view: ClusterView) -> list[str]:
    """The pods, as `namespace/name`, that run and request an extended resource that gives a GPU, or could."""
    return sorted(_full_name(pod) for pod in pods if _runs(pod) and _requests_gpu(pod, view))


def gpu_claims(claims: Iterable[Object]) -> list[str]:
    """The claims, as `namespace/name`, that hold a GPU and are in use."""
    return sorted(
        _full_name(claim)
        for claim in claims
        if Claim(claim).consumers and any(device.get("driver") == DRIVER for device in Claim(claim).allocated_devices)
    )


def listed(names: Sequence[str]) -> str:
    """The first few names in quotes, and how many more there are."""
    shown = ", ".join(f'"{name}"' for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def counted(number: int, noun: str, names: str) -> str:
    """`the node "a"`, or `2 nodes ("a", "b")`."""
    return f"the {noun} {names}" if number == 1 else f"{number} {noun}s ({names})"


def the_nodes(nodes: Sequence[Object]) -> str:
    """`the node "gpu-1"`, or `2 nodes ("gpu-1", "gpu-2")`."""
    return counted(len(nodes), "node", listed([name_of(node) for node in nodes]))


def _full_name(document: Object) -> str:
    return f"{namespace_of(document) or 'default'}/{name_of(document)}"


def _runs(pod: Object) -> bool:
    return bool(lookup(pod, ("spec", "nodeName"))) and not has_ended(pod)


def _requests_gpu(pod: Object, view: ClusterView) -> bool:
    return any(each.is_probable for each in extended_requests(pod, view))
