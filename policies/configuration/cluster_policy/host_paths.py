"""Host paths: `spec.hostPaths` and the other directories of the nodes that operands mount."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.cluster_policy.checks import CLUSTER_POLICY
from policies.configuration.distributions import is_k0s, is_microk8s
from policies.configuration.usage import the_nodes
from policies.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object

_PATHS = (
    ("hostPaths", "rootFS"),
    ("hostPaths", "driverInstallDir"),
    ("hostPaths", "kubeletRootDir"),
    ("toolkit", "installDir"),
    ("devicePlugin", "mps", "root"),
)
_ROOT = ("hostPaths", "rootFS")
_DRIVER_CONTAINER = "/run/nvidia/driver"
_KUBELET = "/var/lib/kubelet"
_K0S = "/var/lib/k0s/kubelet"
_MICROK8S = "/var/snap/microk8s/common/var/lib/kubelet"
_KUBELETS: tuple[tuple[Callable[[Object], bool], str, tuple[str, ...]], ...] = (
    (is_k0s, "k0s", (_K0S,)),
    (is_microk8s, "MicroK8s", (_KUBELET, _MICROK8S)),
)
"""Where the kubelet of a distribution is; the first is the one to write."""


@CLUSTER_POLICY.rule(
    "GA184",
    "Host paths must be absolute, and match the nodes",
    default=Severity.DENY,
    remedy="write an absolute path of its own without going up",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go; k8s.io/kubernetes pkg/apis/core/validation",
    rows=("F-11", "F-16", "F-17"),
)
def host_paths(change: Change) -> Iterator[Problem]:
    """The operands mount these directories of the host, and some write into them.

    A relative path and one with `..` keep their pods from being made; the root of the host as an installation directory
    has files spread over it. A kubelet's directory that is not the node's leaves the device plugin without a socket to
    register at, and the node without GPUs.
    """
    if change.deleted:
        return
    for steps in _PATHS:
        text = change.text(*steps)
        if text and (complaint := _complaint(text, root_is_fine=steps == _ROOT)):
            yield problem(change.at(*steps), *complaint)
    yield from _driver_directory(change)
    yield from _kubelet_directory(change)


def _complaint(text: str, *, root_is_fine: bool) -> tuple[str, str] | None:
    """What is wrong with a path of the host, and what to write."""
    if ".." in text.split("/"):
        wrong = "leads upwards; the API server would refuse the DaemonSets that mount it: must not contain '..'"
        return f'"{text}" {wrong}', "write the path without .."
    if not text.startswith("/"):
        return f'"{text}" is relative; the DaemonSets that mount it could not start', f'write "/{text}"'
    if not text.strip("/") and not root_is_fine:
        return f'"{text}" is the root of the host, over which files would be spread', "write a directory of its own"
    return None


def _driver_directory(change: Change) -> Iterator[Problem]:
    directory = change.text("hostPaths", "driverInstallDir")
    if not directory or _complaint(directory, root_is_fine=False) or directory.rstrip("/") == _DRIVER_CONTAINER:
        return
    if change.flag("driver", "enabled", default=True):
        text = f'"{directory}" is for drivers of the host, while the driver container installs into {_DRIVER_CONTAINER}'
        remedy = f'write "{_DRIVER_CONTAINER}", or driver.enabled: false where the hosts have a driver'
        yield problem(change.at("hostPaths", "driverInstallDir"), text, remedy, severity=Severity.WARN)


def _kubelet_directory(change: Change) -> Iterator[Problem]:
    directory = change.text("hostPaths", "kubeletRootDir") or _KUBELET
    for is_one, distribution, places in _KUBELETS:
        nodes = [node for node in change.facts.known_gpu_nodes() if is_one(node)]
        if nodes and directory.rstrip("/") not in places:
            text = (
                f'"{directory}" is not where {distribution} has its kubelet on {the_nodes(nodes)}; '
                "the device plugin would find no socket to register at"
            )
            path = change.at("hostPaths", "kubeletRootDir")
            yield problem(path, text, f'write "{places[0]}"', severity=Severity.WARN)
