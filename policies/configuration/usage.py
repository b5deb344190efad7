"""Usage: which pods and claims hold GPUs, and how to say so in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import Object, name_of, namespace_of
from policies.kubernetes.paths import lookup
from policies.nvidia.resources import asks_for_gpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["counted", "gpu_claims", "gpu_pods", "listed", "the_nodes"]

_SHOWN = 3
_GPU_DRIVER = "gpu.nvidia.com"


def gpu_pods(pods: Iterable[Object]) -> list[str]:
    """The pods, as `namespace/name`, that have a node, have not ended, and ask for a GPU by an extended resource."""
    return sorted(_full_name(pod) for pod in pods if _runs(pod) and any(map(asks_for_gpu, _resources(pod))))


def gpu_claims(claims: Iterable[Object]) -> list[str]:
    """The claims, as `namespace/name`, that are allocated a GPU and reserved for somebody."""
    return sorted(_full_name(claim) for claim in claims if _is_reserved(claim) and _GPU_DRIVER in _drivers(claim))


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
    return bool(lookup(pod, ("spec", "nodeName"))) and lookup(pod, ("status", "phase")) not in ("Succeeded", "Failed")


def _resources(pod: Object) -> Iterator[str]:
    for field in ("initContainers", "containers"):
        for container in _items(lookup(pod, ("spec", field))):
            for kind in ("limits", "requests"):
                amounts = lookup(container, ("resources", kind))
                if isinstance(amounts, dict):
                    yield from (name for name, amount in amounts.items() if str(amount) != "0")


def _is_reserved(claim: Object) -> bool:
    return bool(_items(lookup(claim, ("status", "reservedFor"))))


def _drivers(claim: Object) -> list[Any]:
    results = _items(lookup(claim, ("status", "allocation", "devices", "results")))
    return [lookup(result, ("driver",)) for result in results]


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
