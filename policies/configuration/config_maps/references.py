"""References: the fields by which a ClusterPolicy, an NVIDIADriver or a GPUCluster names ConfigMaps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object

__all__ = ["LIST_KEY", "Reference", "Role", "User", "references", "users"]

LIST_KEY = "dcgm-metrics.csv"
"""The key of a ConfigMap at which the DCGM exporter reads its list of metrics."""


class Role(StrEnum):
    """A component that reads a ConfigMap."""

    DEVICE_PLUGIN = "device-plugin"
    MIG_PARTED = "mig-parted"
    DCGM_METRICS = "dcgm-metrics"


@dataclass(frozen=True, slots=True)
class Reference:
    """A field that names a ConfigMap, and the key that is read from it if it is fixed."""

    steps: tuple[str, ...]
    key: str = ""
    role: Role | None = None
    """What reads the ConfigMap; None if its content is not reviewed."""
    default: bool = True
    """True if the component, the first of the steps, is enabled when it does not say."""

    @property
    def path(self) -> FieldPath:
        """The field, from the root of the object."""
        return FieldPath(("spec", *self.steps))

    def name_in(self, document: Object) -> str:
        """The ConfigMap that the field names; empty if there is none, or if the component is disabled."""
        enabled = lookup(document, ("spec", self.steps[0], "enabled"))
        name = lookup(document, self.path)
        is_enabled = enabled if isinstance(enabled, bool) else self.default
        return name if is_enabled and isinstance(name, str) else ""


_REFERENCES = {
    "ClusterPolicy": (
        Reference(("devicePlugin", "config", "name"), role=Role.DEVICE_PLUGIN),
        Reference(("migManager", "config", "name"), "config.yaml", Role.MIG_PARTED),
        Reference(("migManager", "gpuClientsConfig", "name"), "clients.yaml", Role.MIG_PARTED),
        Reference(("dcgmExporter", "config", "name"), LIST_KEY, Role.DCGM_METRICS),
        Reference(("vgpuDeviceManager", "config", "name"), "config.yaml", default=False),
        Reference(("vgpuManager", "kernelModuleConfig", "name"), default=False),
        Reference(("driver", "repoConfig", "configMapName")),
        Reference(("driver", "certConfig", "name")),
        Reference(("driver", "kernelModuleConfig", "name")),
        Reference(("driver", "virtualTopology", "config"), "nvidia-topologyd.conf"),
        Reference(("driver", "licensingConfig", "configMapName"), "gridd.conf"),
    ),
    "NVIDIADriver": (
        Reference(("repoConfig", "name")),
        Reference(("certConfig", "name")),
        Reference(("kernelModuleConfig", "name")),
        Reference(("virtualTopologyConfig", "name"), "nvidia-topologyd.conf"),
        Reference(("licensingConfig", "name"), "gridd.conf"),
    ),
    "GPUCluster": (Reference(("dcgmExporter", "config", "name"), LIST_KEY, Role.DCGM_METRICS),),
}
"""The references of each kind. The operator mounts them: pods do not start if a ConfigMap or key is missing."""


class User(NamedTuple):
    """An object that names a ConfigMap, and the field."""

    reference: Reference
    document: Object

    def __str__(self) -> str:
        return f'{self.reference.path} of the {self.document.get("kind")} "{name_of(self.document)}"'


def references(document: Object | None) -> Iterator[tuple[Reference, str]]:
    """The fields of an object that name ConfigMaps, with the names; without those of disabled components."""
    if document is None:
        return
    for reference in _REFERENCES.get(str(document.get("kind")), ()):
        if name := reference.name_in(document):
            yield reference, name


def users(change: Change) -> Iterator[User]:
    """The known objects that name the ConfigMap of a change."""
    if not change.is_read_by_operator:
        return
    policy = change.facts.cluster_policy()
    documents = [
        *([policy] if isinstance(policy, dict) else []),
        *change.facts.known_or_reviewed("NVIDIADriver"),
        *change.facts.known_or_reviewed("GPUCluster"),
    ]
    for document in documents:
        for reference, name in references(document):
            if name == change.name:
                yield User(reference, document)
