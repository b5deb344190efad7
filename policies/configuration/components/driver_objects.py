"""ConfigMaps and Secrets that the driver's pods mount."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.checks import CLUSTER_POLICY, NVIDIA_DRIVER
from policies.configuration.components.driver import Driver, drivers_of
from policies.decision import Severity
from policies.kubernetes.names import is_dns_label
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object

_VOLUMES = (("kernelModuleConfig", "name"), ("repoConfig", "configMapName"), ("certConfig", "name"))
"""Fields whose ConfigMap becomes a volume of its own name, in the order in which the operator adds them."""
_ONLY_FOR_BUILDS = {"repoConfig", "certConfig"}

_MODULE_FILE = re.compile(r"nvidia(-[a-z-]+)?\.conf")
_TOPOLOGY_FILE = "nvidia-topologyd.conf"
_LICENCE_FILE = "gridd.conf"
_TOKEN_FILE = "client_configuration_token.tok"  # noqa: S105 - the name of a file


@CLUSTER_POLICY.rule(
    "GA125",
    "ConfigMaps and Secrets of the driver must exist and be mountable",
    default=Severity.DENY,
    remedy="write the name of a ConfigMap in the operator's namespace",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go createConfigMapVolume, "
    "createConfigMapVolumeMounts; docs.nvidia.com GPU Operator, custom driver parameters",
    rows=("C-20", "C-21", "C-22", "C-23", "C-24", "C-29"),
)
def mounted_objects(change: Change) -> Iterator[Problem]:
    """The operator reads these from its own namespace while it puts the driver's DaemonSet together.

    One that is missing ends the reconciliation, and the driver is not deployed. The ConfigMap's name becomes the name
    of a volume, for which the rules are stricter than for a ConfigMap, and which can be there only once.
    """
    for driver in drivers_of(change):
        taken: dict[str, str] = {}
        for field, key in _VOLUMES:
            name = driver.text(field, key)
            if not name or (driver.precompiled and field in _ONLY_FOR_BUILDS):
                continue
            yield from _volume(driver, (field, key), name, taken)
            taken.setdefault(name, field)
        yield from _module_files(driver)
        yield from _secret_environment(driver)
        yield from _topology(driver)


def _volume(driver: Driver, steps: tuple[str, str], name: str, taken: dict[str, str]) -> Iterator[Problem]:
    path = driver.at(*steps)
    if not is_dns_label(name):
        reason = "is longer than 63 characters" if len(name) > 63 else "has characters that a volume's name cannot have"
        text = f'"{name}" {reason}, and the operator names the volume after it, so Kubernetes refuses the DaemonSet'
        yield problem(path, text, "name the ConfigMap with at most 63 lower-case letters, digits and dashes")
    elif name in taken:
        text = (
            f'"{name}" is the ConfigMap of {taken[name]} too, and the operator makes a volume for each, so Kubernetes '
            "refuses the DaemonSet: Duplicate value"
        )
        yield problem(path, text, "put this part into a ConfigMap of its own")
    elif driver.change.facts.operator_object("ConfigMap", name) is None:
        text = (
            f"{_absent(driver.change, 'ConfigMap', name)}; the operator would report: ERROR: could not get ConfigMap "
            f"{name} from client"
        )
        yield problem(path, text, _create(driver.change, "ConfigMap", name))


def _module_files(driver: Driver) -> Iterator[Problem]:
    name = driver.text("kernelModuleConfig", "name")
    found = driver.change.facts.operator_object("ConfigMap", name) if name else None
    if isinstance(found, dict):
        unread = sorted(key for key in _keys(found) if not _MODULE_FILE.fullmatch(key))
        if unread:
            listed = ", ".join(f'"{key}"' for key in unread)
            yield problem(
                driver.at("kernelModuleConfig", "name"),
                f'names ConfigMap "{name}" with {listed}, which the driver\'s container does not read',
                "use the keys nvidia.conf, nvidia-uvm.conf, nvidia-modeset.conf and nvidia-peermem.conf",
                severity=Severity.WARN,
            )


def _secret_environment(driver: Driver) -> Iterator[Problem]:
    name = driver.text("secretEnv")
    if name and not driver.precompiled and driver.change.facts.operator_object("Secret", name) is None:
        text = (
            f"{_absent(driver.change, 'Secret', name)}; the operator would report: ERROR: failed to attach secret "
            f"{name} to the driver container"
        )
        yield problem(driver.at("secretEnv"), text, _create(driver.change, "Secret", name))


def _topology(driver: Driver) -> Iterator[Problem]:
    name = driver.text("virtualTopology", "config")
    if not name:
        return
    found = driver.change.facts.operator_object("ConfigMap", name)
    path = driver.at("virtualTopology", "config")
    if found is None:
        text = f"{_absent(driver.change, 'ConfigMap', name)}, so the driver pods stay in ContainerCreating"
        yield problem(path, text, _create(driver.change, "ConfigMap", name))
    elif isinstance(found, dict) and _TOPOLOGY_FILE not in _keys(found):
        text = (
            f'names ConfigMap "{name}" without the key {_TOPOLOGY_FILE}, so the driver pods stay in ContainerCreating'
        )
        yield problem(path, text, f"add the key {_TOPOLOGY_FILE} to it")


@CLUSTER_POLICY.rule(
    "GA126",
    "The licence of a vGPU must be complete",
    default=Severity.WARN,
    remedy="set nlsEnabled: true and secretName",
    source="docs.nvidia.com GPU Operator, NVIDIA vGPU; github.com/NVIDIA/gpu-operator "
    "controllers/object_controls.go applyLicensingConfig",
    rows=("C-25", "C-26", "C-27", "C-28", "S-15"),
)
def licence(change: Change) -> Iterator[Problem]:
    """A vGPU without a licence runs, and slows down to a crawl after some minutes.

    The licence is a token of the NVIDIA License System beside `gridd.conf`; without `nlsEnabled`, which is false when
    omitted in a ClusterPolicy, the token is not mounted. A key that the operator mounts and that is not there leaves
    the driver pods in ContainerCreating.
    """
    for driver in drivers_of(change):
        secret, config_map = (driver.text("licensingConfig", name) for name in ("secretName", "configMapName"))
        nls = change.flag("driver", "licensingConfig", "nlsEnabled")
        if secret and config_map:
            text = f'has no effect beside secretName, and leaves the credential in ConfigMap "{config_map}"'
            yield problem(driver.at("licensingConfig", "configMapName"), text, "remove it, and delete the ConfigMap")
        kind, field, name = ("Secret", "secretName", secret) if secret else ("ConfigMap", "configMapName", config_map)
        if name:
            if not nls:
                text = (
                    "is not complete without nlsEnabled: true: the token is not mounted, and the vGPU stays unlicensed"
                )
                yield problem(driver.at("licensingConfig", field), text, "write nlsEnabled: true beside it")
            yield from _licence_files(driver, kind, field, name, nls=nls)
        elif nls and _lost_licence(driver):
            text = "has no effect without secretName"
            yield problem(driver.at("licensingConfig", "nlsEnabled"), text, "add secretName, or remove licensingConfig")


def _licence_files(driver: Driver, kind: str, field: str, name: str, *, nls: bool) -> Iterator[Problem]:
    found = driver.change.facts.operator_object(kind, name)
    path = driver.at("licensingConfig", field)
    if found is None:
        text = f"{_absent(driver.change, kind, name)}, so the driver pods stay in ContainerCreating"
        yield problem(path, text, _create(driver.change, kind, name))
    if not isinstance(found, dict) or (kind == "Secret" and not _keys(found)):
        return  # what is in a Secret may be kept from us
    keys = _keys(found)
    missing = [key for key in (_LICENCE_FILE, *([_TOKEN_FILE] if nls else [])) if key not in keys]
    if missing:
        listed = " and ".join(missing)
        text = f'names {kind} "{name}" without {listed}, so the driver pods stay in ContainerCreating'
        yield problem(path, text, f"add {listed} to it", severity=Severity.DENY)


def _lost_licence(driver: Driver) -> bool:
    """Whether nobody left the name empty on purpose: charts and OpenShift's example write it as ""."""
    fields = driver.value("licensingConfig")
    empty = isinstance(fields, dict) and "" in (fields.get("secretName"), fields.get("configMapName"))
    before = driver.change.before(*driver.steps, "licensingConfig", "secretName")
    return not empty or bool(before)


def _keys(found: Object) -> set[str]:
    parts = [found.get(part) for part in ("data", "binaryData", "stringData")]
    return {key for part in parts if isinstance(part, dict) for key in part if isinstance(key, str)}


def _absent(change: Change, kind: str, name: str) -> str:
    namespaces = " or ".join(change.facts.operator_namespaces)
    return f'names {kind} "{name}", which is not in the operator\'s namespace ({namespaces})'


def _create(change: Change, kind: str, name: str) -> str:
    where: Any = next(iter(change.facts.operator_namespaces), "the operator's namespace")
    return f'create {kind} "{name}" in {where}, or write the name of one that is there'


_VOLUMES2 = ("repoConfig", "certConfig", "kernelModuleConfig")
"""Fields whose ConfigMap becomes a volume of its own name."""
_ONLY_FOR_BUILDS2 = ("repoConfig", "certConfig")
_TOPOLOGY = "virtualTopologyConfig"
_TOPOLOGY_FILE2 = "nvidia-topologyd.conf"


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
    for field in _VOLUMES2:
        name = change.text(field, "name")
        if name and not (change.flag("usePrecompiled") and field in _ONLY_FOR_BUILDS2):
            yield from _volume2(change, field, name, taken.setdefault(name, field))
    yield from _topology2(change)
    secret = change.text("secretEnv")
    if secret and change.facts.operator_object("Secret", secret) is None:
        text = f'there is no Secret "{secret}" in {_spaces(change)}; the operator would report: secrets "{secret}" not found'
        yield problem(change.at("secretEnv"), text, "create the Secret in the operator's namespace first")
    priority = change.text("priorityClassName")
    if priority and not priority.startswith("system-") and change.facts.get("PriorityClass", priority) is None:
        text = f'there is no PriorityClass "{priority}"; Kubernetes would refuse the pods: no PriorityClass was found'
        remedy = "create it first, or remove the field; system-node-critical is the default"
        yield problem(change.at("priorityClassName"), text, remedy, severity=Severity.WARN)


def _volume2(change: Change, field: str, name: str, first: str) -> Iterator[Problem]:
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


def _topology2(change: Change) -> Iterator[Problem]:
    name, path = change.text(_TOPOLOGY, "name"), change.at(_TOPOLOGY, "name")
    found = change.facts.operator_object("ConfigMap", name) if name else {"data": {_TOPOLOGY_FILE2: ""}}
    data = lookup(found, ("data",)) if isinstance(found, dict) else None
    if found is None:
        text = f'there is no ConfigMap "{name}" in {_spaces(change)}, so the driver\'s pods stay in ContainerCreating'
        yield problem(path, text)
    elif isinstance(found, dict) and not (isinstance(data, dict) and _TOPOLOGY_FILE2 in data):
        text = f'the ConfigMap "{name}" has no key {_TOPOLOGY_FILE2}, so the driver\'s pods stay in ContainerCreating'
        yield problem(path, text, f"add the key {_TOPOLOGY_FILE2} to it")


def _spaces(change: Change) -> str:
    return " or ".join(change.facts.operator_namespaces)
