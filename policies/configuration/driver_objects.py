"""ConfigMaps, Secrets and licences that a driver refers to."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from policies.configuration.change import CLUSTER_POLICY, NVIDIA_DRIVER, check_object, data_keys, not_found
from policies.configuration.drivers import Driver, drivers_of
from policies.kubernetes.names import is_dns_label
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.configuration.change import Change


_ONLY_FOR_BUILDS = ("repoConfig", "certConfig")
_MODULE_FILE = re.compile(r"nvidia(-[a-z-]+)?\.conf")
_LICENCE_FILE = "gridd.conf"
_TOKEN_FILE = "client_configuration_token.tok"  # noqa: S105 - the name of a file
_NOT_STARTED = "the driver pods would stay in ContainerCreating"


@CLUSTER_POLICY.rule(
    "GA125",
    "ConfigMaps and Secrets of the driver must exist and be mountable",
    remedy="write the name of a ConfigMap in the operator's namespace",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go transformDriverContainer, "
    "createConfigMapVolume, createConfigMapVolumeMounts, createSecretEnvReference; docs.nvidia.com GPU Operator, custom "
    "driver parameters",
    rows=("C-20", "C-21", "C-22", "C-23", "C-24", "C-29"),
)
def cluster_policy_objects(change: Change) -> Iterator[Problem]:
    """The operator reads these objects from its own namespace when it builds the driver's DaemonSet.

    If one is missing, reconciliation fails and the driver is not deployed. The ConfigMap's name becomes the name of a
    volume, which has stricter rules than the name of a ConfigMap and must be unique.
    """
    for driver in drivers_of(change):
        volumes = (("kernelModuleConfig", "name"), ("repoConfig", "configMapName"), ("certConfig", "name"))
        yield from _volumes(driver, volumes)
        yield from _topology(driver, "virtualTopology", "config")
        name = driver.text("kernelModuleConfig", "name")
        keys = data_keys(change.facts.operator_object("ConfigMap", name)) if name else []
        if unread := sorted(key for key in keys if not _MODULE_FILE.fullmatch(key)):
            listed = ", ".join(f'"{key}"' for key in unread)
            text = f'names ConfigMap "{name}" with {listed}, which the driver\'s container does not read'
            remedy = "use the keys nvidia.conf, nvidia-uvm.conf, nvidia-modeset.conf and nvidia-peermem.conf"
            yield Problem(driver.at("kernelModuleConfig", "name"), text, remedy, severity=Severity.WARN)
        if not driver.is_precompiled:
            secret = driver.text("secretEnv")
            error = f"the operator would report: ERROR: failed to attach secret {secret} to the driver container"
            yield from check_object(change, driver.at("secretEnv"), "Secret", error)


@NVIDIA_DRIVER.rule(
    "GA197",
    "Objects that an NVIDIADriver refers to must exist and be mountable",
    remedy="write the name of a ConfigMap in the operator's namespace",
    source="github.com/NVIDIA/gpu-operator internal/state/driver_volumes.go getDriverAdditionalConfigs, "
    "internal/state/driver.go getManifestObjects, createConfigMapVolumeMounts, controllers/nvidiadriver_controller.go Reconcile",
    rows=("K-16", "K-19"),
)
def nvidia_driver_objects(change: Change) -> Iterator[Problem]:
    """The operator reads these objects from its own namespace when it builds the driver's DaemonSet.

    Without the Secret it deploys no driver. If a ConfigMap is missing, it only logs that, and the driver runs without any
    of the ConfigMaps and without its licence. The ConfigMap's name becomes the name of a volume, which has stricter rules
    than the name of a ConfigMap and must be unique.
    """
    driver = Driver(change, ())
    yield from _volumes(driver, [(field, "name") for field in (*_ONLY_FOR_BUILDS, "kernelModuleConfig")])
    yield from _topology(driver, "virtualTopologyConfig", "name")
    error = f'the operator would report: secrets "{driver.text("secretEnv")}" not found'
    yield from check_object(change, driver.at("secretEnv"), "Secret", error)
    priority = change.text("priorityClassName")
    if priority and not priority.startswith("system-") and change.facts.view.get("PriorityClass", priority) is None:
        text = f'PriorityClass "{priority}" not found; Kubernetes would refuse the pods: no PriorityClass was found'
        remedy = "create it first, or remove the field; system-node-critical is the default"
        yield Problem(change.at("priorityClassName"), text, remedy, severity=Severity.WARN)


def _volumes(driver: Driver, fields: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    """Problems with ConfigMaps that become volumes of their own names, in the operator's order."""
    field_of: dict[str, str] = {}
    for field, key in fields:
        name, path = driver.text(field, key), driver.at(field, key)
        if not name or (driver.is_precompiled and field in _ONLY_FOR_BUILDS):
            continue
        if not driver.steps and driver.change.facts.operator_object("ConfigMap", name) is None:
            outcome = (
                f"the operator would only log: ERROR: could not get ConfigMap {name} from client; the driver would run"
            )
            outcome += " without its ConfigMaps and licence"
            yield replace(not_found(driver.change, path, "ConfigMap", name, outcome), severity=Severity.WARN)
            continue
        first = field_of.setdefault(name, field)
        if not is_dns_label(name):
            reason = "is longer than 63 characters" if len(name) > 63 else "has characters that volumes cannot have"
            text = f'"{name}" {reason}, and the operator names the volume after it, so Kubernetes refuses the DaemonSet'
            yield Problem(path, text, "name the ConfigMap with at most 63 lower-case letters, digits and dashes")
        elif first != field:
            text = f'"{name}" is also the ConfigMap of {first}, so Kubernetes refuses the DaemonSet: Duplicate value'
            yield Problem(path, text, "put this part into a ConfigMap of its own")
        else:
            error = f"the operator would report: ERROR: could not get ConfigMap {name} from client"
            yield from check_object(driver.change, path, "ConfigMap", error)


def _topology(driver: Driver, *steps: str) -> Iterator[Problem]:
    return check_object(driver.change, driver.at(*steps), "ConfigMap", _NOT_STARTED, ["nvidia-topologyd.conf"])


@CLUSTER_POLICY.rule(
    "GA126",
    "The licence of a vGPU must be complete",
    default=Severity.WARN,
    remedy="set nlsEnabled: true and secretName",
    source="docs.nvidia.com GPU Operator, NVIDIA vGPU; github.com/NVIDIA/gpu-operator "
    "controllers/object_controls.go applyLicensingConfig",
    rows=("C-25", "C-26", "C-27", "C-28", "S-15"),
)
def complete_licence(change: Change) -> Iterator[Problem]:
    """A vGPU without a licence runs, and becomes very slow after some minutes.

    The licence is a token of the NVIDIA License System beside `gridd.conf`. Without `nlsEnabled`, which a ClusterPolicy
    omits as false, the token is not mounted. If a key that the operator mounts is missing, the driver pods stay in
    ContainerCreating.
    """
    for driver in drivers_of(change):
        secret, config_map = (driver.text("licensingConfig", name) for name in ("secretName", "configMapName"))
        nls = driver.flag("licensingConfig", "nlsEnabled")
        if secret and config_map:
            text = f'has no effect beside secretName, and leaves the credential in ConfigMap "{config_map}"'
            yield Problem(driver.at("licensingConfig", "configMapName"), text, "remove it, and delete the ConfigMap")
        if secret or config_map:
            kind, field = ("Secret", "secretName") if secret else ("ConfigMap", "configMapName")
            path = driver.at("licensingConfig", field)
            if not nls:
                text = (
                    "is not complete without nlsEnabled: true: the token is not mounted, and the vGPU stays unlicensed"
                )
                yield Problem(path, text, "write nlsEnabled: true beside it")
            keys = [_LICENCE_FILE, _TOKEN_FILE] if nls else [_LICENCE_FILE]
            yield from check_object(change, path, kind, _NOT_STARTED, keys, keys_severity=Severity.DENY)
        elif nls and not _is_left_empty(driver):
            remedy = "add secretName, or remove licensingConfig"
            yield Problem(driver.at("licensingConfig", "nlsEnabled"), "has no effect without secretName", remedy)


def _is_left_empty(driver: Driver) -> bool:
    """True if the name is written as "", as charts and OpenShift's example do, and was not set before."""
    fields = driver.mapping("licensingConfig")
    is_empty = "" in (fields.get("secretName"), fields.get("configMapName"))
    return is_empty and not driver.value_before("licensingConfig", "secretName")
