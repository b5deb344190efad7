"""vGPU: the manager on the host, its devices, the driver and licence of guests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import CLUSTER_POLICY
from policies.configuration.cluster_policy.sandbox_workloads import mode_of, runs_sandboxes
from policies.configuration.named_objects import quoted_names
from policies.configuration.operator_objects import check_object
from policies.decision import Severity
from policies.kubernetes.misspellings import write_closest
from policies.kubernetes.paths import lookup
from policies.kubernetes.yaml import YAMLError, load_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

_BRANCH = re.compile(r"(\d{3})(\.|$|-)")
_OPEN_GUESTS_SINCE = 550
"""The driver branch of vGPU 17, the first whose guests run on the open kernel modules."""
_FILE = "config.yaml"


@CLUSTER_POLICY.rule(
    "GA189",
    "The vGPU Manager must have its own, private image, and guests a driver that can be licensed",
    default=Severity.DENY,
    remedy="write repository, image and version of the vGPU Manager that you have built",
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1/clusterpolicy_types.go, docs gpu-operator-kubevirt",
    rows=("J-08", "J-09", "J-16"),
)
def vgpu_images(change: Change) -> Iterator[Problem]:
    """The licence does not allow the vGPU Manager in public registries, so it has no default image.

    The driver of guests is another image; on the host it creates no vGPUs. Guests of vGPU before 17 cannot use the
    open kernel modules.
    """
    manager, driver = change.section("vgpuManager"), change.section("driver")
    if runs_sandboxes(change) and manager.flag("enabled") and not driver.flag("useNvidiaDriverCRD"):
        repository, image, version = (manager.text(part) for part in ("repository", "image", "version"))
        if not repository and not version and image in ("", "vgpu-manager"):
            text = "is true without repository, image and version, and the vGPU Manager has no public image"
            yield problem(manager.at("enabled"), text)
        elif image and (repository, image) == (driver.text("repository"), driver.text("image")):
            text = f'"{image}" is also the image of driver; the driver of guests is not a vGPU Manager for hosts'
            yield problem(manager.at("image"), text, "write the image of the vGPU Manager", severity=Severity.WARN)
    match = _BRANCH.match(driver.text("version"))
    licensed = any(driver.text("licensingConfig", field) for field in ("secretName", "configMapName"))
    if licensed and driver.text("kernelModuleType") == "open" and match and int(match[1]) < _OPEN_GUESTS_SINCE:
        text = f'is "open", which vGPU guests can use since vGPU 17 (branch 550); the driver is of branch {match[1]}'
        remedy = "write kernelModuleType: proprietary, or a driver of branch 550 or later"
        yield problem(driver.at("kernelModuleType"), text, remedy, severity=Severity.WARN)


@CLUSTER_POLICY.rule(
    "GA190",
    "Defaults of the components of sandbox workloads must exist",
    default=Severity.DENY,
    remedy="write the name of a configuration that the ConfigMap has",
    source="github.com/NVIDIA/gpu-operator assets/state-vgpu-device-manager, controllers/object_controls.go; "
    "issues 600, 591, 447",
    rows=("J-10", "J-11"),
)
def defaults_exist(change: Change) -> Iterator[Problem]:
    """The vGPU device manager applies the default of its ConfigMap to nodes without a label.

    If the default does not exist, these nodes get no vGPU and the state "failed". The mode of confidential computing has
    no default in the ClusterPolicy: the one that is built into the manager's image applies.
    """
    if not runs_sandboxes(change):
        return
    if change.flag("vgpuDeviceManager", "enabled"):
        yield from _vgpu_configs(change)
    manager = change.section("ccManager")
    if mode_of(change) == "kata" and manager.flag("enabled") and manager.value("defaultMode") in (None, ""):
        text = "is true without defaultMode, so the mode that is built into the image is applied to every GPU"
        remedy = 'write defaultMode: "on", "off" or "devtools", in quotes'
        yield problem(manager.at("enabled"), text, remedy, severity=Severity.WARN)


def _vgpu_configs(change: Change) -> Iterator[Problem]:
    config = change.section("vgpuDeviceManager", "config")
    yield from check_object(change, config.at("name"), "ConfigMap", "the pods would not start", [_FILE])
    name = config.text("name")
    found = change.facts.operator_object("ConfigMap", name) if name else None
    text = lookup(found, ("data", _FILE)) if isinstance(found, dict) else None
    if not isinstance(text, str):
        return
    try:
        configs = lookup(load_document(text).value, ("vgpu-configs",))
    except YAMLError as error:
        yield problem(config.at("name"), f'"{name}" cannot be read: {error}', f"correct {_FILE} in the ConfigMap first")
        return
    known = [each for each in configs if isinstance(each, str)] if isinstance(configs, dict) else []
    chosen = config.text("default") or "default"
    if chosen not in known:
        has = f"has {quoted_names(known)}" if known else "has none"
        message = (
            f'"{chosen}" is not one of the vgpu-configs of "{name}", which {has}; nodes without a label would fail'
        )
        yield problem(config.at("default"), message, write_closest(chosen, known, None))
