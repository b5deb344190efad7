"""Node labels of GPU Feature Discovery, and wishes, as predicates on devices.

A label speaks of a node, an attribute of a device; a translation is exact when every device that the device plugin
could have handed out on a labelled node meets the predicate, and no other. Where there is no such predicate the
translation is refused with the reason.

Sources: github.com/NVIDIA/k8s-device-plugin internal/lm and docs/gpu-feature-discovery (labels),
github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/deviceinfo.go (attributes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from policies.nvidia.identifiers import GKE_CLIENTS, GKE_PARTITION, GKE_SHARING, VENDOR_PREFIX
from policies.nvidia.label_readings import (
    MIG_CAPACITIES,
    Family,
    FullVersion,
    Implied,
    Label,
    Memory,
    NoEquivalent,
    OfProfile,
    PartitionSize,
    ProductLabel,
    SharedClients,
    SharedGPUError,
    SharingStrategy,
    Slices,
    Strategy,
    Subject,
    UntranslatableError,
    VersionNumber,
    profile_is,
)
from policies.nvidia.mig import MIGProfile
from policies.nvidia.number_predicates import CapacityIs, MemoryWithin, VersionAtLeast
from policies.nvidia.predicates import FALSE, Predicate, ProductLike, TextIn, all_of, any_of, negate
from policies.nvidia.wish_words import driver_text, pair_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.nvidia.wishes import Wish

__all__ = [
    "SharedGPUError",
    "Subject",
    "UntranslatableError",
    "device_predicate",
    "is_gpu_label",
    "profile_is",
    "translate",
]


def is_gpu_label(key: str) -> bool:
    """True if a node label is one that describes GPUs: GPU Feature Discovery's or the GPU Operator's."""
    return key.startswith(VENDOR_PREFIX) and _label(key.removeprefix(VENDOR_PREFIX)) is not None


def translate(key: str, operator: str, values: Sequence[str], subject: Subject) -> Predicate:
    """The predicate on devices that one expression on a node label becomes.

    `NotIn` and `DoesNotExist` also hold where the label is missing, so the guarded positive is negated.

    Raises:
        UntranslatableError: there is none; the text says why.
    """
    label = _label(key.removeprefix(VENDOR_PREFIX))
    if label is None:
        raise UntranslatableError("is not a label of a GPU")
    match operator:
        case "In":
            return any_of(label.equals(value, subject) for value in values)
        case "NotIn":
            excluded = negate(any_of(label.excludes(value, subject) for value in values))
            if excluded == FALSE:
                raise UntranslatableError("excludes every node with such a device")
            return excluded
        case "Exists":
            return label.present(subject)
        case "DoesNotExist":
            present = label.present(subject)
            if not isinstance(present, CapacityIs):
                raise UntranslatableError("excludes every node with such a device")
            return negate(present)
        case "Gt" | "Lt":
            return label.compares(">" if operator == "Gt" else "<", int(values[0]), subject)
        case _:
            raise UntranslatableError(f'has the unknown operator "{operator}"')


_OF_THE_NODE = "describes the node and not the GPU; no device has such an attribute"
_LABELS: dict[str, Label] = {
    "gpu.product": ProductLabel(),
    "gpu.family": Family(),
    "gpu.memory": Memory(),
    "gpu.compute.major": VersionNumber("cudaComputeCapability", "major"),
    "gpu.compute.minor": VersionNumber("cudaComputeCapability", "minor"),
    "cuda.driver.major": VersionNumber("driverVersion", "major"),
    "cuda.driver.minor": VersionNumber("driverVersion", "minor"),
    "cuda.driver.rev": VersionNumber("driverVersion", "patch"),
    "cuda.driver-version.major": VersionNumber("driverVersion", "major"),
    "cuda.driver-version.minor": VersionNumber("driverVersion", "minor"),
    "cuda.driver-version.revision": VersionNumber("driverVersion", "patch"),
    "cuda.driver-version.full": FullVersion("driverVersion"),
    "cuda.runtime.major": VersionNumber("cudaDriverVersion", "major"),
    "cuda.runtime.minor": VersionNumber("cudaDriverVersion", "minor"),
    "cuda.runtime-version.major": VersionNumber("cudaDriverVersion", "major"),
    "cuda.runtime-version.minor": VersionNumber("cudaDriverVersion", "minor"),
    "cuda.runtime-version.full": FullVersion("cudaDriverVersion"),
    "gpu.present": Implied("true", ("gpu", "mig", "mig-single")),
    "gpu.sharing-strategy": SharingStrategy(),
    "mig.strategy": Strategy(),
    "mig.capable": NoEquivalent("tells whether some GPU of the node can do MIG; no device has such an attribute"),
    "gpu.count": NoEquivalent("counts the GPUs of the node; no device knows how many there are"),
    "gpu.replicas": NoEquivalent("counts how many pods share a GPU; a claim holds a GPU alone"),
    "mps.capable": NoEquivalent("tells whether the node shares GPUs by MPS; a claim holds a GPU alone"),
    "gpu.mode": NoEquivalent(_OF_THE_NODE),
    "gpu.machine": NoEquivalent(_OF_THE_NODE),
    "gfd.timestamp": NoEquivalent(_OF_THE_NODE),
    "gpu.clique": NoEquivalent(
        "names the node's NVLink domain, which no GPU attribute does; a ComputeDomain requests one"
    ),
    "vgpu.present": NoEquivalent(_OF_THE_NODE),
    "vgpu.host-driver-version": NoEquivalent(_OF_THE_NODE),
    "vgpu.host-driver-branch": NoEquivalent(_OF_THE_NODE),
    "mig.config": NoEquivalent("names a configuration of the MIG manager; request the MIG profile itself"),
    "mig.config.state": NoEquivalent("is the MIG manager's progress; no device has such an attribute"),
    "gpu.slices.gi": Slices(),
    "gpu.slices.ci": Slices(),
    **{f"gpu.{name}": label for name, label in MIG_CAPACITIES.items()},
    GKE_PARTITION: PartitionSize(),
    GKE_SHARING: Implied("time-sharing", ("gpu",)),
    GKE_CLIENTS: SharedClients(),
}


def _label(name: str) -> Label | None:
    if name in _LABELS:
        return _LABELS[name]
    if name.startswith("gpu.deploy."):
        return NoEquivalent("steers the GPU Operator's own pods; no device has such an attribute")
    for rest in _PROFILE_PROPERTIES if name.startswith("mig-") else ():
        profile = MIGProfile.from_label(name.removeprefix("mig-").removesuffix("." + rest))
        if name.endswith("." + rest) and profile is not None:
            return OfProfile(profile, rest)
    return None


_PROFILE_PROPERTIES = (
    *("product", "count", "replicas", "sharing-strategy", "memory", "slices.gi", "slices.ci"),
    *MIG_CAPACITIES,
)


_NAMES: dict[Literal["gpu", "mig", "mig-single"], Literal["name", "name with profile", "either"]] = {
    "gpu": "name",
    "mig": "either",
    "mig-single": "name with profile",
}


def device_predicate(wish: Wish, subject: Subject) -> Predicate:
    """The predicate of a wish on devices of one kind; sharing is no property of a device."""
    return all_of(_parts(wish, subject))


def _parts(wish: Wish, subject: Subject) -> Iterator[Predicate]:
    if wish.products is not None:
        yield ProductLike(wish.products.includes, wish.products.excludes, _NAMES[subject.kind])
    if wish.least_memory is not None or wish.max_memory is not None:
        yield MemoryWithin(wish.least_memory, wish.max_memory, is_whole=subject.kind == "gpu")
    if wish.min_compute_capability is not None:
        version = wish.min_compute_capability
        yield VersionAtLeast("cudaComputeCapability", (*version, 0), "compute capability", pair_text(version))
    if wish.families:
        yield TextIn("architecture", tuple(sorted(wish.families)), "lower dashed", "family")
    if wish.min_driver is not None:
        yield VersionAtLeast("driverVersion", wish.min_driver, "driver", driver_text(wish.min_driver))
    if wish.min_cuda is not None:
        yield VersionAtLeast("cudaDriverVersion", (*wish.min_cuda, 0), "CUDA", pair_text(wish.min_cuda))
