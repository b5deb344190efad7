"""The container runtime: `spec.toolkit` and `spec.cdi`, with the NRI plugin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import CLUSTER_POLICY
from policies.configuration.distributions import is_rancher, runtime_of
from policies.configuration.usage import counted, gpu_pods, listed, the_nodes
from policies.decision import Severity
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

__all__ = ["cdi_enabled", "nri_enabled", "toolkit_enabled"]

_SET_AS_DEFAULT = ("NVIDIA_RUNTIME_SET_AS_DEFAULT", "CONTAINERD_SET_AS_DEFAULT", "CRIO_SET_AS_DEFAULT")
_RANCHER_SOCKET = "/run/k3s/containerd/containerd.sock"


def cdi_enabled(change: Change) -> bool:
    """Whether pods get GPUs by CDI, which is so unless the policy says otherwise."""
    return change.flag("cdi", "enabled", default=True)


def nri_enabled(change: Change) -> bool:
    """Whether an NRI plugin hands GPUs to containers."""
    return change.flag("cdi", "nriPluginEnabled")


def toolkit_enabled(change: Change) -> bool:
    """Whether the operator installs the container toolkit, which it does unless the policy says otherwise."""
    return change.flag("toolkit", "enabled", default=True)


def _toolkit_env(change: Change) -> Iterator[tuple[int, str, str]]:
    """Index, name and value of each environment variable of the toolkit."""
    for index, item in enumerate(change.items("toolkit", "env")):
        name, value = lookup(item, ("name",)), lookup(item, ("value",))
        if isinstance(name, str):
            yield index, name, value if isinstance(value, str) else ""


@CLUSTER_POLICY.rule(
    "GA180",
    "With CDI, the nvidia runtime must not be the default",
    default=Severity.WARN,
    remedy="remove it",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go TransformToolkit",
    rows=("F-10",),
)
def default_runtime_left_alone(change: Change) -> Iterator[Problem]:
    """With CDI the operator leaves the node's default runtime as it is, and GPUs come through the CRI.

    The variable overrides that: every pod of the node then goes through the nvidia runtime, and one that sets
    NVIDIA_VISIBLE_DEVICES sees GPUs which nobody gave it.
    """
    if change.deleted or not (cdi_enabled(change) and toolkit_enabled(change)):
        return
    for index, name, value in _toolkit_env(change):
        if name in _SET_AS_DEFAULT and value.lower() in ("true", "1", "yes"):
            path = change.at("toolkit", "env", index, "name")
            yield problem(
                path, f"{name} overrides what the operator sets with CDI, which is on unless cdi.enabled is false"
            )


@CLUSTER_POLICY.rule(
    "GA182",
    "Nodes must have something that makes GPUs visible to containers",
    default=Severity.WARN,
    remedy="leave toolkit.enabled true, or install the NVIDIA Container Toolkit on every GPU node first",
    source="docs.nvidia.com/datacenter/cloud-native/gpu-operator getting-started.html, pre-installed toolkit",
    rows=("F-07", "F-12"),
)
def toolkit_somewhere(change: Change) -> Iterator[Problem]:
    """The toolkit writes the CDI specifications and configures the runtime.

    Without it, pods are handed devices and find no driver libraries: "nvidia-smi: not found". Nodes that have a toolkit
    of their own are fine, so this is told where the operator's is switched off, and audited where a driver in a container
    stands alone.
    """
    if change.deleted or toolkit_enabled(change):
        return
    path = change.at("toolkit", "enabled")
    if change.old is not None and change.before("toolkit", "enabled") is not False:
        lost = (
            "CDI specifications are no longer written" if cdi_enabled(change) else "the runtime is no longer configured"
        )
        yield problem(path, f"takes the toolkit from nodes that relied on it; {lost} unless the hosts have their own")
    elif change.created and change.flag("driver", "enabled", default=True):
        text = "is false while the driver runs in a container; a toolkit of the host must look under /run/nvidia/driver"
        yield problem(path, text, severity=Severity.AUDIT)


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

    K3s and RKE2 have the socket elsewhere, so that the toolkit crash-loops with a dial error; and a template is no TOML:
    what the toolkit writes into it keeps containerd from starting at the next reboot. With the NRI plugin the toolkit leaves
    the runtime alone.
    """
    if change.deleted or nri_enabled(change) or not toolkit_enabled(change):
        return
    socket_at: int | None = None
    socket = ""
    for index, name, value in _toolkit_env(change):
        if name == "CONTAINERD_CONFIG" and value.endswith(".tmpl"):
            text = f"{value} is a template and no TOML; what the toolkit writes there breaks containerd at the next restart"
            path = change.at("toolkit", "env", index, "value")
            yield problem(path, text, "remove it; K3s and RKE2 find the nvidia runtime by themselves")
        elif name == "CONTAINERD_SOCKET":
            socket_at, socket = index, value
    rancher = [node for node in change.facts.known_gpu_nodes() if is_rancher(node)]
    if not rancher:
        return
    if socket in ("", "/run/containerd/containerd.sock"):
        path = change.at("toolkit", "env") if socket_at is None else change.at("toolkit", "env", socket_at, "value")
        where = "no CONTAINERD_SOCKET" if socket_at is None else "the socket of another containerd"
        text = f"has {where}; on {the_nodes(rancher)} it is at {_RANCHER_SOCKET}, and the toolkit would exit with a dial error"
        yield problem(path, text)
    if not cdi_enabled(change):
        text = (
            f"is false, and on {the_nodes(rancher)} (K3s, RKE2) only pods with runtimeClassName: nvidia would get GPUs"
        )
        yield problem(change.at("cdi", "enabled"), text, "write cdi.enabled: true")


_RUNTIME = re.compile(r"(containerd|cri-o)://v?(\d+)\.(\d+)(?:\.(\d+))?")


@CLUSTER_POLICY.rule(
    "GA179",
    "The NRI plugin must have CDI and the container toolkit enabled",
    default=Severity.DENY,
    remedy="leave cdi.enabled and toolkit.enabled true, or write nriPluginEnabled: false",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go validateClusterPolicySpec",
    rows=("F-01", "F-02"),
)
def nri_has_what_it_needs(change: Change) -> Iterator[Problem]:
    """The operator checks this once, when it starts: an edit is half applied today, and refused at the next restart.

    The NRI plugin is a part of the toolkit and hands out CDI devices; without either it has nothing to do.
    """
    if change.deleted or not nri_enabled(change):
        return
    path, would = (
        change.at("cdi", "nriPluginEnabled"),
        "the operator would report: the NRI Plugin cannot be enabled when",
    )
    if not cdi_enabled(change):
        text = f"is true while cdi.enabled is false; {would} CDI is disabled"
        yield problem(path, text, "write cdi.enabled: true, or nriPluginEnabled: false")
    if not toolkit_enabled(change):
        text = f"is true while toolkit.enabled is false; {would} the Container Toolkit is disabled"
        yield problem(path, text, "write toolkit.enabled: true, or nriPluginEnabled: false")


@CLUSTER_POLICY.rule(
    "GA181",
    "The NRI plugin must suit the runtimes and the workloads",
    default=Severity.WARN,
    remedy="write nriPluginEnabled: false",
    source="docs.nvidia.com/datacenter/cloud-native/gpu-operator cdi.html; "
    "github.com/NVIDIA/gpu-operator controllers/state_manager.go",
    rows=("F-04", "F-05"),
)
def nri_suits(change: Change) -> Iterator[Problem]:
    """Runtimes older than those that NVIDIA documents do not let the plugin register, and pods get no GPU.

    With the plugin the operator makes no RuntimeClass, so that pods which name one are refused with "RuntimeClass not
    found".
    """
    if change.deleted or not nri_enabled(change) or not cdi_enabled(change) or not toolkit_enabled(change):
        return
    path = change.at("cdi", "nriPluginEnabled")
    runtime_class = change.text("operator", "runtimeClass")
    if runtime_class not in ("", "nvidia"):
        text = f'"{runtime_class}" is never made, because the NRI plugin does without a RuntimeClass'
        yield problem(change.at("operator", "runtimeClass"), text, "remove it, or write nriPluginEnabled: false")
    wanted = runtime_class or "nvidia"
    if not change.before("cdi", "nriPluginEnabled"):
        pods = gpu_pods(
            (pod for pod in change.facts.known("Pod") if lookup(pod, ("spec", "runtimeClassName")) == wanted),
            change.facts.view,
        )
        if pods:
            text = (
                f'removes the RuntimeClass "{wanted}", which {counted(len(pods), "pod", listed(pods))} would need again'
            )
            yield problem(path, text, "take runtimeClassName from them, or write nriPluginEnabled: false")
    old = [node for node in change.facts.known_gpu_nodes() if _lacks_nri(runtime_of(node))]
    if old:
        text = f"needs a newer runtime than {runtime_of(old[0])} of {the_nodes(old)}; the plugin could not register"
        yield problem(
            path, text, "upgrade to containerd 1.7.30 or 2.1, or CRI-O 1.34; or write nriPluginEnabled: false"
        )


def _lacks_nri(runtime: str) -> bool:
    """Whether a runtime is one that NVIDIA's documentation does not list and that is no newer one either."""
    match = _RUNTIME.match(runtime)
    if match is None:
        return bool(runtime)
    version = tuple(int(number or 0) for number in match.groups()[1:])
    if match[1] == "cri-o":
        return version < (1, 34, 0)
    return version < (1, 7, 30) or (2, 0, 0) <= version < (2, 1, 0)
