"""The container runtime: `spec.toolkit` and `spec.cdi`, with the NRI plugin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.configuration.change import CLUSTER_POLICY
from policies.configuration.cluster_facts import counted_names, gpu_pods, is_rancher, runtime_of, the_nodes
from policies.fleet.operands import is_deployed
from policies.kubernetes.objects import lookup
from policies.nvidia.container_toolkit import SET_AS_DEFAULT, is_true
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change


_RANCHER_SOCKET = "/run/k3s/containerd/containerd.sock"


def uses_cdi(change: Change) -> bool:
    """True if pods get GPUs by CDI, which is the default."""
    return change.flag("cdi", "enabled", default=True)


def uses_nri_plugin(change: Change) -> bool:
    """True if an NRI plugin hands GPUs to containers."""
    return change.flag("cdi", "nriPluginEnabled")


def installs_toolkit(change: Change) -> bool:
    """True if the operator installs the container toolkit, which is the default."""
    return is_deployed(change.object, "toolkit")


@CLUSTER_POLICY.rule(
    "GA180",
    "With CDI, the nvidia runtime must not be the default",
    default=Severity.WARN,
    remedy="remove the variable",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go TransformToolkit",
    rows=("F-10",),
)
def default_runtime_left_alone(change: Change) -> Iterator[Problem]:
    """With CDI the operator does not change the node's default runtime, and GPUs come through the CRI.

    The variable overrides that: every pod of the node then runs under the nvidia runtime, and one that sets
    NVIDIA_VISIBLE_DEVICES gets GPUs without a request.
    """
    if not (uses_cdi(change) and installs_toolkit(change)):
        return
    for index, name, value in change.variables("toolkit", "env"):
        if name in SET_AS_DEFAULT and is_true(value):
            text = f"{name} overrides what the operator sets with CDI, which is on unless cdi.enabled is false"
            yield Problem(change.at("toolkit", "env", index, "name"), text)


@CLUSTER_POLICY.rule(
    "GA182",
    "Nodes must have a container toolkit, which makes GPUs visible to containers",
    default=Severity.WARN,
    remedy="leave toolkit.enabled true, or install the NVIDIA Container Toolkit on every GPU node first",
    source="docs.nvidia.com/datacenter/cloud-native/gpu-operator getting-started.html, pre-installed toolkit",
    rows=("F-07", "F-12"),
)
def toolkit_somewhere(change: Change) -> Iterator[Problem]:
    """The toolkit writes the CDI specifications and configures the runtime.

    Without it, pods get devices but no driver libraries: "nvidia-smi: not found". Nodes can have their own toolkit, so
    this is a warning if the operator's is switched off, and audited if a new policy has only a driver in a container.
    """
    path = change.at("toolkit", "enabled")
    if installs_toolkit(change):
        return
    if change.old is not None and change.value_before("toolkit", "enabled") is not False:
        lost = "CDI specifications are not written" if uses_cdi(change) else "the runtime is not configured"
        yield Problem(path, f"removes the toolkit from nodes that rely on it; {lost} unless the hosts have their own")
    elif change.is_created and change.flag("driver", "enabled", default=True):
        text = "is false while the driver runs in a container; a toolkit of the host must look under /run/nvidia/driver"
        yield Problem(path, text, severity=Severity.AUDIT)


@CLUSTER_POLICY.rule(
    "GA183",
    "The container toolkit must use the containerd of K3s and RKE2",
    default=Severity.WARN,
    remedy=f'add to toolkit.env: {{name: CONTAINERD_SOCKET, value: "{_RANCHER_SOCKET}"}}',
    source="docs.rke2.io/advanced gpu-operators; github.com/NVIDIA/gpu-operator issues 406, 522, 992",
    rows=("F-06", "F-08", "F-09"),
)
def rancher_containerd(change: Change) -> Iterator[Problem]:
    """The toolkit reloads containerd through its socket, and edits its configuration as TOML.

    K3s and RKE2 have the socket at another path, so the toolkit crash-loops with a dial error. A template is not TOML:
    with what the toolkit writes into it, containerd does not start at the next reboot. With the NRI plugin the toolkit
    does not change the runtime.
    """
    if uses_nri_plugin(change) or not installs_toolkit(change):
        return
    path, socket = change.at("toolkit", "env"), ""
    for index, name, value in change.variables("toolkit", "env"):
        if name == "CONTAINERD_CONFIG" and value and value.endswith(".tmpl"):
            why = "what the toolkit writes there breaks containerd at the next restart"
            text = f"{value} is a template, not TOML; {why}"
            remedy = "remove it; K3s and RKE2 find the nvidia runtime by themselves"
            yield Problem(change.at("toolkit", "env", index, "value"), text, remedy)
        elif name == "CONTAINERD_SOCKET":
            path, socket = change.at("toolkit", "env", index, "value"), value or ""
    rancher = [node for node in change.facts.known_gpu_nodes() if is_rancher(node)]
    if rancher and socket in ("", "/run/containerd/containerd.sock"):
        where = "the socket of another containerd" if path[-1] == "value" else "no CONTAINERD_SOCKET"
        text = f"has {where}; on {the_nodes(rancher)} it is at {_RANCHER_SOCKET}, and the toolkit would exit with a dial error"
        yield Problem(path, text)
    if rancher and not uses_cdi(change):
        where = f"on {the_nodes(rancher)} (K3s, RKE2)"
        text = f"is false, and {where} only pods with runtimeClassName: nvidia would get GPUs"
        yield Problem(change.at("cdi", "enabled"), text, "write cdi.enabled: true")


_RUNTIME = re.compile(r"(containerd|cri-o)://v?(\d+)\.(\d+)(?:\.(\d+))?")


@CLUSTER_POLICY.rule(
    "GA179",
    "The NRI plugin must have CDI and the container toolkit enabled",
    remedy="leave cdi.enabled and toolkit.enabled true, or write nriPluginEnabled: false",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go validateClusterPolicySpec",
    rows=("F-01", "F-02"),
)
def nri_has_what_it_needs(change: Change) -> Iterator[Problem]:
    """The operator checks this only when it starts: an edit is refused at the next restart.

    The NRI plugin is a part of the toolkit and hands out CDI devices; it does nothing without either.
    """
    if not uses_nri_plugin(change):
        return
    for is_enabled, field, what in (
        (uses_cdi(change), "cdi.enabled", "CDI"),
        (installs_toolkit(change), "toolkit.enabled", "the Container Toolkit"),
    ):
        if not is_enabled:
            error = f"the operator would report: the NRI Plugin cannot be enabled when {what} is disabled"
            remedy = f"write {field}: true, or nriPluginEnabled: false"
            yield Problem(change.at("cdi", "nriPluginEnabled"), f"is true while {field} is false; {error}", remedy)


@CLUSTER_POLICY.rule(
    "GA181",
    "The NRI plugin must suit the runtimes and the workloads",
    default=Severity.WARN,
    remedy="write nriPluginEnabled: false",
    source="docs.nvidia.com/datacenter/cloud-native/gpu-operator cdi.html; github.com/NVIDIA/gpu-operator "
    "controllers/state_manager.go isStateEnabled",
    rows=("F-04", "F-05"),
)
def nri_suits(change: Change) -> Iterator[Problem]:
    """With runtimes older than those that NVIDIA documents the plugin cannot register.

    With the plugin the operator creates no RuntimeClass, so pods that name one are refused with "RuntimeClass not
    found".
    """
    if not (uses_nri_plugin(change) and uses_cdi(change) and installs_toolkit(change)):
        return
    path = change.at("cdi", "nriPluginEnabled")
    runtime_class = change.text("operator", "runtimeClass")
    if runtime_class not in ("", "nvidia"):
        text = f'"{runtime_class}" is never created, because the NRI plugin needs no RuntimeClass'
        yield Problem(change.at("operator", "runtimeClass"), text, "remove it, or write nriPluginEnabled: false")
    wanted = runtime_class or "nvidia"
    if not change.value_before("cdi", "nriPluginEnabled"):
        pods = gpu_pods(change.facts, lambda pod: lookup(pod, ("spec", "runtimeClassName")) == wanted)
        if pods:
            text = f'removes the RuntimeClass "{wanted}", which {counted_names("pod", pods)} would need again'
            yield Problem(path, text, "remove runtimeClassName from them, or write nriPluginEnabled: false")
    old = [node for node in change.facts.known_gpu_nodes() if _is_too_old_for_nri(runtime_of(node))]
    if old:
        text = f"needs a newer runtime than {runtime_of(old[0])} of {the_nodes(old)}; the plugin could not register"
        remedy = "upgrade to containerd 1.7.30 or 2.1, or CRI-O 1.34; or write nriPluginEnabled: false"
        yield Problem(path, text, remedy)


def _is_too_old_for_nri(runtime: str) -> bool:
    """True if NVIDIA's documentation does not list a runtime, and it is not newer either."""
    match = _RUNTIME.match(runtime)
    if match is None:
        return bool(runtime)
    version = tuple(int(number or 0) for number in match.groups()[1:])
    if match[1] == "cri-o":
        return version < (1, 34, 0)
    return version < (1, 7, 30) or (2, 0, 0) <= version < (2, 1, 0)
