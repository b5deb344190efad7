"""Claims of a pod: whether they can bring its containers a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.view import ClusterView

__all__ = ["PodClaims", "can_bring_gpu"]

_WITHOUT_GPU = ("compute-domain-default-channel.nvidia.com", "compute-domain-daemon.nvidia.com")
_WITHOUT_GPU_DOMAIN = ".compute-domain.nvidia.com"
_REFERENCES = (
    ("resourceClaimTemplateName", "ResourceClaimTemplate", ("spec", "spec", "devices", "requests")),
    ("resourceClaimName", "ResourceClaim", ("spec", "devices", "requests")),
)


def can_bring_gpu(device_class: object) -> bool:
    """Whether the devices of a DeviceClass of this name can be GPUs: of most classes only the cluster knows.

    Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu deployments/helm templates/deviceclass-compute-domain-*
    (channels and daemons of ComputeDomains are no GPUs).
    """
    return (
        isinstance(device_class, str)
        and device_class not in _WITHOUT_GPU
        and not device_class.endswith(_WITHOUT_GPU_DOMAIN)
    )


@dataclass(frozen=True)
class PodClaims:
    """The claims in the `resourceClaims` of a pod; nothing is read before a container refers to one."""

    listed: Any
    """`resourceClaims` as it is written."""
    namespace: str
    view: ClusterView

    def can_bring_gpu(self, references: Any) -> bool:
        """Whether a container gets a GPU from what its `resources.claims` refer to, as far as anybody can tell."""
        return any(self._can_bring_gpu(reference) for reference in _mappings(references))

    def _can_bring_gpu(self, reference: dict[Any, Any]) -> bool:
        name, wanted = reference.get("name"), reference.get("request")
        if not isinstance(name, str) or name not in self._requests:
            return False
        requests = self._requests[name]
        if requests is None:
            return True
        return wanted in requests if isinstance(wanted, str) and wanted else bool(requests)

    @cached_property
    def _requests(self) -> dict[str, frozenset[str] | None]:
        """By the names of claims, the names of their requests that can be for GPUs; None where nobody knows them.

        A claim that does not exist yet is not known either.
        """
        named = ((claim.get("name"), claim) for claim in _mappings(self.listed))
        return {name: self._requests_of(claim) for name, claim in named if isinstance(name, str)}

    def _requests_of(self, claim: dict[Any, Any]) -> frozenset[str] | None:
        for field, kind, path in _REFERENCES:
            name = claim.get(field)
            found = self.view.get(kind, name, self.namespace) if isinstance(name, str) else None
            if isinstance(found, dict):
                requests = _mappings(lookup(found, path))
                return frozenset(str(each.get("name")) for each in requests if any(map(can_bring_gpu, _classes(each))))
        return None


def _classes(request: dict[Any, Any]) -> Iterator[object]:
    """The classes that a request asks for: one, or one of several, as v1 and v1beta2 write it, or flat as v1beta1."""
    yield request.get("deviceClassName")
    yield lookup(request, ("exactly", "deviceClassName"))
    for alternative in _mappings(request.get("firstAvailable")):
        yield alternative.get("deviceClassName")


def _mappings(listed: Any) -> Iterator[dict[Any, Any]]:
    return (item for item in (listed if isinstance(listed, list) else ()) if isinstance(item, dict))
