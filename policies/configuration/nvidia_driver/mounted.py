"""What the driver's pods refer to: ConfigMaps, Secrets, a priority class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.nvidia_driver.checks import NVIDIA_DRIVER
from policies.decision import Severity
from policies.kubernetes.names import is_dns_label
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

_VOLUMES = ("repoConfig", "certConfig", "kernelModuleConfig")
"""Fields whose ConfigMap becomes a volume of its own name."""
_ONLY_FOR_BUILDS = ("repoConfig", "certConfig")
_TOPOLOGY = "virtualTopologyConfig"
_TOPOLOGY_FILE = "nvidia-topologyd.conf"


@NVIDIA_DRIVER.rule(
    "GA197",
    "Objects that an NVIDIADriver refers to must exist and be mountable",
    default=Severity.DENY,
    remedy="write the name of a ConfigMap in the operator's namespace",
    source="github.com/NVIDIA/gpu-operator internal/state/driver_volumes.go, controllers/nvidiadriver_controller.go",
    rows=("K-16", "K-19"),
)
def references_exist(change: Change) -> Iterator[Problem]:
    """The operator reads these ConfigMaps from its own namespace while it puts the driver's DaemonSet together.

    One that is missing ends the reconciliation, and the driver is not deployed. The ConfigMap's name becomes the name
    of a volume, for which the rules are stricter than for a ConfigMap, and which can be there only once.
    """
    if change.deleted:
        return
    taken: dict[str, str] = {}
    for field in _VOLUMES:
        name = change.text(field, "name")
        if name and not (change.flag("usePrecompiled") and field in _ONLY_FOR_BUILDS):
            yield from _volume(change, field, name, taken.setdefault(name, field))
    yield from _topology(change)
    secret = change.text("secretEnv")
    if secret and change.facts.operator_object("Secret", secret) is None:
        text = f'there is no Secret "{secret}" in {_spaces(change)}; the operator would report: secrets "{secret}" not found'
        yield problem(change.at("secretEnv"), text, "create the Secret in the operator's namespace first")
    priority = change.text("priorityClassName")
    if priority and not priority.startswith("system-") and change.facts.get("PriorityClass", priority) is None:
        text = f'there is no PriorityClass "{priority}"; Kubernetes would refuse the pods: no PriorityClass was found'
        remedy = "create it first, or remove the field; system-node-critical is the default"
        yield problem(change.at("priorityClassName"), text, remedy, severity=Severity.WARN)


def _volume(change: Change, field: str, name: str, first: str) -> Iterator[Problem]:
    path = change.at(field, "name")
    if not is_dns_label(name):
        reason = "is longer than 63 characters" if len(name) > 63 else "has characters that a volume's name cannot have"
        text = f'"{name}" {reason}, and the operator names the volume after it, so Kubernetes refuses the DaemonSet'
        yield problem(path, text, "name the ConfigMap with at most 63 lower-case letters, digits and dashes")
    elif first != field:
        text = (
            f'"{name}" is the ConfigMap of {first} too, and the operator makes a volume for each, so Kubernetes refuses '
            "the DaemonSet: Duplicate value"
        )
        yield problem(path, text, "put this part into a ConfigMap of its own")
    elif change.facts.operator_object("ConfigMap", name) is None:
        text = (
            f'there is no ConfigMap "{name}" in {_spaces(change)}; the operator would report: ERROR: could not get '
            f"ConfigMap {name} from client"
        )
        yield problem(path, text)


def _topology(change: Change) -> Iterator[Problem]:
    name, path = change.text(_TOPOLOGY, "name"), change.at(_TOPOLOGY, "name")
    found = change.facts.operator_object("ConfigMap", name) if name else {"data": {_TOPOLOGY_FILE: ""}}
    data = lookup(found, ("data",)) if isinstance(found, dict) else None
    if found is None:
        text = f'there is no ConfigMap "{name}" in {_spaces(change)}, so the driver\'s pods stay in ContainerCreating'
        yield problem(path, text)
    elif isinstance(found, dict) and not (isinstance(data, dict) and _TOPOLOGY_FILE in data):
        text = f'the ConfigMap "{name}" has no key {_TOPOLOGY_FILE}, so the driver\'s pods stay in ContainerCreating'
        yield problem(path, text, f"add the key {_TOPOLOGY_FILE} to it")


def _spaces(change: Change) -> str:
    return " or ".join(change.facts.operator_namespaces)
