"""vGPU: the manager on the host, its devices, the driver and licence of guests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import CLUSTER_POLICY
from policies.configuration.cluster_policy.sandbox_workloads import mode_of, runs_sandboxes
from policies.configuration.usage import listed
from policies.decision import Severity
from policies.kubernetes.misspellings import closest
from policies.kubernetes.paths import lookup
from policies.kubernetes.yaml import YAMLError, load_document
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

_BRANCH = re.compile(r"(\d{3})(\.|$|-)")
_OPEN_GUESTS_SINCE = 550
"""The driver branch of vGPU 17, the first whose guests run on the open kernel modules."""
_PARTS = ("repository", "image", "version")
_FILE = "config.yaml"
_DEFAULT_CONFIG = "default"


@CLUSTER_POLICY.rule(
    "GA189",
    "The vGPU Manager must have its own, private image, and guests a driver that can be licensed",
    default=Severity.DENY,
    remedy="write repository, image and version of the vGPU Manager that you have built",
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1/clusterpolicy_types.go, docs gpu-operator-kubevirt",
    rows=("J-08", "J-09", "J-16"),
)
def vgpu_images(change: Change) -> Iterator[Problem]:
    """NVIDIA's licence keeps the vGPU Manager out of public registries, so the operator has no default for it.

    The driver of a guest is another image; with it on the host no vGPU is made. Guests of vGPU before 17 cannot use the
    open kernel modules.
    """
    if change.deleted:
        return
    if (
        runs_sandboxes(change)
        and not change.flag("driver", "useNvidiaDriverCRD")
        and change.flag("vgpuManager", "enabled")
    ):
        yield from _manager(change)
    match = _BRANCH.match(change.text("driver", "version"))
    licensed = change.text("driver", "licensingConfig", "secretName") or change.text(
        "driver", "licensingConfig", "configMapName"
    )
    open_modules = change.text("driver", "kernelModuleType") == "open"
    if licensed and open_modules and match and int(match[1]) < _OPEN_GUESTS_SINCE:
        text = f'is "open", which vGPU guests can use from vGPU 17 (branch 550) on; the driver is of branch {match[1]}'
        remedy = "write kernelModuleType: proprietary, or a driver of branch 550 or later"
        yield problem(change.at("driver", "kernelModuleType"), text, remedy, severity=Severity.WARN)


def _manager(change: Change) -> Iterator[Problem]:
    repository, image, version = (change.text("vgpuManager", part) for part in _PARTS)
    if not repository and not version and image in ("", "vgpu-manager"):
        text = "is true without repository, image and version; there is no public image of the vGPU Manager to fall back to"
        yield problem(change.at("vgpuManager", "enabled"), text)
    elif image and (repository, image) == (change.text("driver", "repository"), change.text("driver", "image")):
        text = f'"{image}" is also the image of driver; the driver of guests is no vGPU Manager for hosts'
        remedy = "write the image of the vGPU Manager"
        yield problem(change.at("vgpuManager", "image"), text, remedy, severity=Severity.WARN)


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
    """The vGPU device manager reads `vgpu-configs` of `config.yaml`, and applies the default to nodes without a label.

    A default that is not there leaves these nodes without any vGPU, in the state "failed". The mode of confidential
    computing has no default in the ClusterPolicy at all: what the manager's image has built in is applied.
    """
    if not runs_sandboxes(change):
        return
    if change.flag("vgpuDeviceManager", "enabled"):
        yield from _vgpu_configs(change)
    cc_runs = mode_of(change) == "kata" and change.flag("ccManager", "enabled")
    if (
        cc_runs
        and not change.value("ccManager", "defaultMode")
        and change.value("ccManager", "defaultMode") is not False
    ):
        text = "is true without defaultMode, so the mode that is built into the image is applied to every GPU"
        remedy = 'write defaultMode: "on", "off" or "devtools", in quotes'
        yield problem(change.at("ccManager", "enabled"), text, remedy, severity=Severity.WARN)


def _vgpu_configs(change: Change) -> Iterator[Problem]:
    name = change.text("vgpuDeviceManager", "config", "name")
    config_map = change.facts.operator_object("ConfigMap", name) if name else UNKNOWN
    path = change.at("vgpuDeviceManager", "config", "name")
    if config_map is UNKNOWN:
        return
    if config_map is None:
        text = f'"{name}" is no ConfigMap in {" or ".join(change.facts.operator_namespaces)}; the pods would not start'
        yield problem(path, text, f'make the ConfigMap "{name}" first, with the key {_FILE}')
        return
    data = lookup(config_map, ("data",))
    file = data.get(_FILE) if isinstance(data, dict) else None
    if not isinstance(file, str):
        keys = [key for key in data if isinstance(key, str)] if isinstance(data, dict) else []
        has = f"has {listed(keys)}" if keys else "has no data"
        yield problem(
            path, f'"{name}" {has} and no {_FILE}, which is the one file that is read', f"rename its key to {_FILE}"
        )
        return
    try:
        configs = lookup(load_document(file).value, ("vgpu-configs",))
    except YAMLError as error:
        yield problem(path, f'"{name}" cannot be read: {error}', f"correct {_FILE} in the ConfigMap first")
        return
    known = [config for config in configs if isinstance(config, str)] if isinstance(configs, dict) else []
    chosen = change.text("vgpuDeviceManager", "config", "default") or _DEFAULT_CONFIG
    if chosen not in known:
        has = f"has {listed(known)}" if known else "has none"
        guess = closest(chosen, known)
        remedy = f'write "{guess}"' if guess else None
        text = f'"{chosen}" is none of the vgpu-configs of "{name}", which {has}; nodes without a label would fail'
        yield problem(change.at("vgpuDeviceManager", "config", "default"), text, remedy)
