"""NRI: `spec.cdi.nriPluginEnabled`, which hands GPUs to containers without a RuntimeClass."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.cluster_policy.checks import CLUSTER_POLICY
from policies.configuration.cluster_policy.runtime import cdi_enabled, nri_enabled, toolkit_enabled
from policies.configuration.distributions import runtime_of
from policies.configuration.usage import counted, gpu_pods, listed, the_nodes
from policies.decision import Severity
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

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
