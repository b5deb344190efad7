"""Claims: a ResourceClaim or a ResourceClaimTemplate whose selectors guard what they read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.analyses.generate.documents import Generated, GenerationError, Step, read_products
from policies.analyses.generate.wanted_profiles import check_profile, read_profile
from policies.analyses.generate.wishes import memory_remarks, read_wish
from policies.conversion.templates import ExactRequest
from policies.devices.deviceclasses import GPU_CLASS, MIG_CLASS
from policies.devices.resource_claims import MOST_DEVICES
from policies.kubernetes.names import is_dns_label
from policies.kubernetes.phrases import shown
from policies.kubernetes.yaml_scalars import plain
from policies.nvidia.labels import Subject, profile_is
from policies.nvidia.predicates import all_of
from policies.nvidia.wish_predicates import device_predicate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object
    from policies.nvidia.predicates import Predicate

__all__ = ["ClaimWords", "generate_claim"]

_API_VERSION = "resource.k8s.io/v1"
_REQUEST = "gpu"


@dataclass(frozen=True, slots=True)
class ClaimWords:
    """The devices of a claim as text, and the name of the object."""

    wish: Mapping[str, str]
    """Texts by the names of the annotations of wishes."""
    mig: str = ""
    """The profile of MIG devices; empty for whole GPUs."""
    count: int = 1
    name: str = "gpu"
    namespace: str = ""
    """Empty to leave it to kubectl."""
    is_template: bool = False


def generate_claim(words: ClaimWords) -> Generated:
    """The claim, and the lines of a pod that use it.

    Raises:
        GenerationError: A word cannot be read, or no GPU can meet all of them.
    """
    if not 1 <= words.count <= MOST_DEVICES:
        raise GenerationError("--count", f"is {words.count}; a claim has 1 to {MOST_DEVICES} devices")
    if not is_dns_label(words.name):
        text = f"is {shown(words.name)}; write at most 63 lower-case letters, digits and dashes"
        raise GenerationError("--name", text)
    device_class, predicate = _devices(words)
    spec = {"devices": {"requests": [ExactRequest(_REQUEST, device_class, words.count, predicate).manifest()]}}
    kind = "ResourceClaimTemplate" if words.is_template else "ResourceClaim"
    metadata = {"name": words.name, **({"namespace": words.namespace} if words.namespace else {})}
    document: Object = {
        "apiVersion": _API_VERSION,
        "kind": kind,
        "metadata": metadata,
        "spec": {"spec": spec} if words.is_template else spec,
    }
    whose = "Each pod gets its own claim." if words.is_template else "All pods that refer to it share its devices."
    return Generated((whose, *memory_remarks(words.wish)), document, (_pod_lines(words),))


def _devices(words: ClaimWords) -> tuple[str, Predicate]:
    """The class of the devices, and what they must be."""
    wish = read_wish(words.wish)
    if not words.mig:
        return GPU_CLASS, device_predicate(wish, Subject("gpu"))
    profile = read_profile(words.mig, "--mig")
    check_profile(profile, read_products(str(wish.products or "*")).labels, "--mig")
    return MIG_CLASS, all_of([profile_is(profile), device_predicate(wish, Subject("mig", profile))])


def _pod_lines(words: ClaimWords) -> Step:
    field = "resourceClaimTemplateName" if words.is_template else "resourceClaimName"
    name = words.name if isinstance(plain(words.name), str) else f'"{words.name}"'
    return Step(
        "In the spec of a pod, beside its other fields:",
        (
            "resourceClaims:",
            "- name: gpu",
            f"  {field}: {name}",
            "containers:",
            "- name: main",
            "  resources:",
            "    claims:",
            "    - name: gpu",
        ),
    )
