"""Objects in sentences: the pods and claims that hold GPUs, and lists of names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.resource_claims import Claim
from policies.fleet import extended_requests
from policies.kubernetes.objects import Object, has_ended, name_of, namespace_of
from policies.kubernetes.paths import lookup
from policies.nvidia.identifiers import DRIVER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.configuration.facts import Facts

__all__ = ["counted_names", "gpu_claims", "gpu_pods", "namespaced_name", "quoted_names", "the_nodes"]

_SHOWN = 3


def gpu_pods(facts: Facts, matches: Callable[[Object], bool] | None = None) -> list[str]:
    """The pods, as `namespace/name`, that run and request an extended resource that gives a GPU, or could."""
    return sorted(
        namespaced_name(pod)
        for pod in facts.known_objects("Pod")
        if (matches is None or matches(pod))
        and lookup(pod, ("spec", "nodeName"))
        and not has_ended(pod)
        and any(each.is_probable for each in extended_requests(pod, facts.view))
    )


def gpu_claims(facts: Facts) -> list[str]:
    """The claims, as `namespace/name`, that hold a GPU and are in use."""
    return sorted(
        namespaced_name(claim)
        for claim in facts.known_objects("ResourceClaim")
        if Claim(claim).consumers and any(device.get("driver") == DRIVER for device in Claim(claim).allocated_devices)
    )


def quoted_names(names: Sequence[str]) -> str:
    """The first few names in quotes, and how many more there are."""
    shown = ", ".join(f'"{name}"' for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def counted_names(noun: str, names: Sequence[str]) -> str:
    """`the node "a"`, or `2 nodes ("a", "b")`."""
    quoted = quoted_names(names)
    return f"the {noun} {quoted}" if len(names) == 1 else f"{len(names)} {noun}s ({quoted})"


def the_nodes(nodes: Sequence[Object], noun: str = "node") -> str:
    """`the node "gpu-1"`, or `2 nodes ("gpu-1", "gpu-2")`."""
    return counted_names(noun, [name_of(node) for node in nodes])


def namespaced_name(document: Object) -> str:
    """`namespace/name` of an object."""
    return f"{namespace_of(document) or 'default'}/{name_of(document)}"
