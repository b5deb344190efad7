"""Overrides: what a configuration says and the operator, or the device plugin, does not follow."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.configuration.config_maps.device_plugin.documents import (
    CONFIGURATION,
    default_key,
    is_governed,
    nodes_using,
    policy_strategy,
)
from policies.configuration.facts import the_nodes
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.phrases import shown
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import MIG_CAPABLE_LABEL, full_resource_name, name_error
from policies.nvidia.plugin_grammar import STRATEGIES
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.config_maps.device_plugin.documents import Configuration
    from policies.nvidia.plugin_configs import SharedResource
    from policies.rules.registry import Problem

_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\..*)?")
_HONOURS_FALSE = (0, 20)
_MPS_ROOT = "/run/nvidia/mps"


@CONFIGURATION.rule(
    "GA141",
    "Settings of a device-plugin configuration must take effect",
    default=Severity.WARN,
    remedy="remove it",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go, assets/state-device-plugin; "
    "github.com/NVIDIA/k8s-device-plugin api/config/v1/config.go",
    rows=("G-16", "G-18", "G-21", "G-22", "S-45"),
)
def effective_settings(configuration: Configuration) -> Iterator[Problem]:
    """The command line wins over the environment, which the operator sets, and that over the file.

    So a file under the operator cannot choose the MIG strategy once the ClusterPolicy does, nor how devices are listed.
    Other fields the plugin parses, and then ignores with a line in its log. A MIG strategy that contradicts the
    ClusterPolicy is refused, because then nodes offer other resources than the file was written for.
    """
    yield from _contradicted_strategy(configuration)
    yield from _set_by_operator(configuration)
    yield from _not_supported(configuration)
    yield from _before_its_time(configuration)


def _contradicted_strategy(configuration: Configuration) -> Iterator[Problem]:
    change, of_file = configuration.change, configuration.mig_strategy
    of_policy = policy_strategy(change)
    if of_file not in STRATEGIES or not of_policy or of_file == of_policy:
        return
    severity: Severity | None = Severity.DENY
    text = f"is {of_file}, and spec.mig.strategy of the ClusterPolicy is {of_policy}, which wins"
    if of_file == "none":
        # On nodes without MIG the strategies are all the same, and saying none there is good style.
        nodes = nodes_using(change, configuration.key)
        if nodes is UNKNOWN and default_key(change) != configuration.key:
            return
        capable = [] if nodes is UNKNOWN else [n for n in nodes if labels_of(n).get(MIG_CAPABLE_LABEL) == "true"]
        if nodes is not UNKNOWN and not capable:
            return
        severity = Severity.WARN if nodes is UNKNOWN else Severity.DENY
        known = "which nodes can do MIG is not known here" if nodes is UNKNOWN else f"{the_nodes(capable)} can do MIG"
        text = f"{text}; {known}"
    steps, _ = configuration.find("flags", "migStrategy")
    yield configuration.embedded.problem(steps, text, f"remove it, or write {of_policy}", severity=severity)


def _set_by_operator(configuration: Configuration) -> Iterator[Problem]:
    if not is_governed(configuration.change):
        return
    root = configuration.change.facts.policy_value("devicePlugin", "mps", "root")
    root = root if isinstance(root, str) and root else _MPS_ROOT
    for names, usual, variable in (
        (("failOnInitError",), (True,), "FAIL_ON_INIT_ERROR"),
        (("mpsRoot",), ("", root), "MPS_ROOT"),
        (("plugin", "deviceListStrategy"), ("envvar", ["envvar"]), "DEVICE_LIST_STRATEGY"),
        (("plugin", "deviceIDStrategy"), ("uuid",), "DEVICE_ID_STRATEGY"),
    ):
        steps, value = configuration.find("flags", *names)
        if value is not None and value not in usual:
            text = (
                f"is {shown(value)}, but the operator sets {variable} for the device plugin, which wins over the file"
            )
            remedy = f"remove it, or set {variable} in spec.devicePlugin.env of the ClusterPolicy"
            yield configuration.embedded.problem(steps, text, remedy)


def _not_supported(configuration: Configuration) -> Iterator[Problem]:
    ignored = "is read and then ignored; the device plugin would log: Customizing the"
    for name in ("gpus", "mig"):
        steps, value = configuration.find("resources", name)
        if isinstance(value, list) and value:
            text = f"{ignored} 'resources' field is not yet supported in the config. Ignoring..."
            yield configuration.embedded.problem(steps, text, of_key=True)
    for resource in configuration.shared_resources():
        where = f"in sharing.{resource.strategy.name}.resources is not yet supported in the config. Ignoring..."
        if "devices" in resource.item and resource.item["devices"] != "all":
            text = f"{ignored} 'devices' field {where}"
            yield configuration.embedded.problem(
                (*resource.steps, "devices"), text, "remove it; all devices are shared"
            )
        if _is_renamed(resource):
            text = f"is read and then ignored; the device plugin would log: Setting the 'rename' field {where}"
            remedy = f"remove it; renameByDefault: true names it {resource.name}.shared"
            yield configuration.embedded.problem((*resource.steps, "rename"), text, remedy)


def _is_renamed(resource: SharedResource) -> bool:
    rename: Any = resource.item.get("rename")
    if not isinstance(rename, str) or name_error(rename) is not None:
        return False
    by_default = resource.strategy.get("renameByDefault") is True
    return not (by_default and full_resource_name(rename) == f"{resource.name}.shared")


def _before_its_time(configuration: Configuration) -> Iterator[Problem]:
    mps = configuration.strategy("mps")
    if mps is None or mps.get("failRequestsGreaterThanOne") is not False or not is_governed(configuration.change):
        return
    version = configuration.change.facts.policy_value("devicePlugin", "version")
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if match and (int(match[1]), int(match[2])) < _HONOURS_FALSE:
        text = f"is false, which the device plugin follows since v0.20; spec.devicePlugin.version is {version}"
        steps = (*mps.steps, "failRequestsGreaterThanOne")
        yield configuration.embedded.problem(steps, text, "remove it; with MPS a request for more than one share fails")
