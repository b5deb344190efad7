"""Single shares: the nodes on which a container may request one share of a resource only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.fleet.device_plugin import active_cluster_policy
from policies.fleet.offers.shown import STRATEGY_SUFFIX, sharing_strategy
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.yaml import YAMLError, load_document
from policies.nvidia.identifiers import PLUGIN_CONFIG_LABEL
from policies.nvidia.plugin_configs import LIMITS, PluginConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["SingleShares", "sharing_labels"]

_FIELDS = {"mps": "mps", "time-slicing": "timeSlicing"}


class SingleShares:
    """The nodes whose device plugin refuses a container that requests more than one share of a resource.

    Source: github.com/NVIDIA/k8s-device-plugin cmd/config-manager; gpu-operator ClusterPolicy devicePlugin.config.
    """

    def __init__(self, view: ClusterView, settings: GPUAdmissionPolicy) -> None:
        config = lookup(active_cluster_policy(view), ("spec", "devicePlugin", "config"))
        name = lookup(config, ("name",))
        self._default = lookup(config, ("default",))
        self._texts: list[Any] = []
        if isinstance(name, str) and name:
            namespaces = settings.configuration.operator_namespaces
            self._texts = [lookup(view.get("ConfigMap", name, namespace), ("data",)) for namespace in namespaces]
        self._read: dict[str, PluginConfig] = {}
        self._single: dict[tuple[str, str], bool] = {}

    def is_single(self, labels: Mapping[str, str], resource: str) -> bool:
        """True if a container may request only one share of a resource on a node with these labels.

        Under MPS that is so unless the configuration sets failRequestsGreaterThanOne to false; under time-slicing only if
        it is true.

        Source: github.com/NVIDIA/k8s-device-plugin api/config/v1/config.go NewConfig, internal/rm/rm.go
        ValidateRequest.
        """
        strategy = sharing_strategy(labels, resource)
        if strategy is None:
            return False
        config = labels.get(PLUGIN_CONFIG_LABEL, "")
        if (strategy, config) not in self._single:
            self._single[strategy, config] = self._says_single(strategy, config or self._default)
        return self._single[strategy, config]

    def _says_single(self, strategy: str, key: Any) -> bool:
        written = self._config(key).strategy(_FIELDS[strategy]) if isinstance(key, str) else None
        fails = None if written is None else written.get("failRequestsGreaterThanOne")
        return fails is True or (strategy == "mps" and fails is not False)

    def _config(self, key: str) -> PluginConfig:
        """The device plugin configuration of a name; an empty one if it is unknown or unreadable."""
        if key not in self._read:
            text = next((data[key] for data in self._texts if isinstance(data, dict) and key in data), None)
            try:
                value = load_document(text, limits=LIMITS).value if isinstance(text, str) else None
            except YAMLError:
                value = None
            self._read[key] = PluginConfig(value)
        return self._read[key]


def sharing_labels(node: Object) -> frozenset[tuple[str, str]]:
    """The labels of a node that `SingleShares.is_single` reads, for all resources."""
    return frozenset(
        (name, value)
        for name, value in labels_of(node).items()
        if name == PLUGIN_CONFIG_LABEL or name.endswith(STRATEGY_SUFFIX)
    )
