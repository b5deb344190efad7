"""Facts about the cluster that rules of claims use: classes, versions, feature gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel import CelFeatures
from policies.dra.claims.effort import Effort
from policies.dra.deviceclasses import selector_texts
from policies.dra.feature_gates import offers
from policies.kubernetes.paths import lookup
from policies.nvidia.identifiers import ON_BY_DEFAULT
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy

__all__ = ["Facts"]


class Facts:
    """What a view knows around claims. Every answer may be `UNKNOWN`."""

    def __init__(self, view: ClusterView, settings: GPUAdmissionPolicy, *, compares: bool = True) -> None:
        self.view = view
        self.settings = settings
        self.effort = Effort(compares=compares)

    def device_class(self, name: str) -> Object | Unknown | None:
        """A DeviceClass; None if it certainly does not exist."""
        return self.view.get("DeviceClass", name)

    def class_selectors(self, name: str) -> tuple[str, ...] | None:
        """The CEL expressions of a class; None if the class is unknown or missing, or they are malformed."""
        return self.effort.cache((Facts.class_selectors, name), lambda: self._class_selectors(name))

    def _class_selectors(self, name: str) -> tuple[str, ...] | None:
        found = self.device_class(name)
        return selector_texts(found) if isinstance(found, dict) else None

    def device_classes(self) -> Sequence[Object] | Unknown:
        """All DeviceClasses."""
        return self.view.list("DeviceClass")

    def namespace_labels(self, namespace: str) -> dict[str, str] | Unknown:
        """The labels of a namespace; unknown if the namespace is."""
        found = self.view.get("Namespace", namespace)
        if not isinstance(found, dict):
            return UNKNOWN
        labels = lookup(found, ("metadata", "labels"))
        return labels if isinstance(labels, dict) else {}

    def offers(self, gate: str) -> bool | Unknown:
        """True if a feature gate of DRA is on: by default in this version, or proven by a stored object."""
        return offers(self.view, gate)

    def cel_features(self) -> CelFeatures:
        """What the API server lets a new selector use; where the version is unknown, what 1.36 does."""
        return CelFeatures(
            consumable_capacity=self.offers("DRAConsumableCapacity") is not False,
            list_type_attributes=self.offers("DRAListTypeAttributes") is True,
            new_expressions=True,
        )

    def driver_gate(self, gate: str) -> bool | Unknown:
        """True if a feature gate of NVIDIA's DRA driver is on: by the settings, else by the GPUCluster."""
        gates = self.settings.dra_driver.feature_gates
        if gates is None:
            clusters = self.view.list("GPUCluster")
            if clusters is UNKNOWN or not clusters:
                return UNKNOWN
            gates = lookup(clusters[0], ("spec", "draDriver", "featureGates")) or {}
        return bool(gates.get(gate, gate in ON_BY_DEFAULT)) if isinstance(gates, dict) else UNKNOWN

    def driver_version(self) -> str | Unknown:
        """The release of NVIDIA's DRA driver, `25.8.0`, if the settings name it."""
        return self.settings.dra_driver.version or UNKNOWN
