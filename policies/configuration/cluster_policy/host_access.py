"""Access of operands to the host: paths, and a namespace that admits privileged pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import CLUSTER_POLICY
from policies.configuration.distributions import is_k0s, is_microk8s, is_openshift
from policies.configuration.usage import the_nodes
from policies.decision import Severity
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup

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


_ENFORCE = "pod-security.kubernetes.io/enforce"
_STANDARDS = ("baseline", "restricted")
_OPENSHIFT_NAMESPACE = "nvidia-gpu-operator"


@CLUSTER_POLICY.rule(
    "GA185",
    "The namespace of the operator must admit privileged pods",
    default=Severity.DENY,
    remedy=f"write psa.enabled: true, or label the namespace {_ENFORCE}=privileged",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go",
    rows=("F-14", "F-15"),
)
def privileged_namespace(change: Change) -> Iterator[Problem]:
    """Driver, toolkit and device plugin run privileged and mount paths of the host.

    Where the namespace enforces the baseline or the restricted standard, their pods are forbidden and the DaemonSets stay
    at zero. With `psa.enabled` the operator labels its namespace itself; on OpenShift only the one that it knows.
    """
    if change.deleted:
        return
    namespaces = {name: change.facts.get("Namespace", name) for name in change.facts.operator_namespaces}
    present = {name: labels_of(found) for name, found in namespaces.items() if isinstance(found, dict)}
    if change.flag("psa", "enabled"):
        elsewhere = [name for name in present if name != _OPENSHIFT_NAMESPACE]
        if elsewhere and namespaces.get(_OPENSHIFT_NAMESPACE) is None and _is_openshift(change):
            text = f'has no effect on OpenShift in the namespace "{elsewhere[0]}", only in "{_OPENSHIFT_NAMESPACE}"'
            remedy = f"label the namespace {_ENFORCE}=privileged"
            yield problem(change.at("psa", "enabled"), text, remedy, severity=Severity.WARN)
        return
    strict = {name: labels[_ENFORCE] for name, labels in present.items() if labels.get(_ENFORCE) in _STANDARDS}
    for name, standard in strict.items():
        text = f'is false while the namespace "{name}" enforces the standard "{standard}", which forbids every operand'
        yield problem(
            change.at("psa", "enabled"), text, severity=None if len(strict) == len(present) else Severity.WARN
        )


def _is_openshift(change: Change) -> bool:
    """Whether the nodes, or the driver toolkit that only OpenShift has, say so."""
    return change.flag("operator", "use_ocp_driver_toolkit") or any(map(is_openshift, change.facts.known("Node")))


_PORTS = {"dcgm": 5555, "dcgmExporter": 9400}


@CLUSTER_POLICY.rule(
    "GA128",
    "A component must use the host network only where its port is free and the namespace allows it",
    default=Severity.WARN,
    remedy="write hostNetwork: false",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go applyHostNetworkConfig; kubernetes.io Pod "
    "Security Standards",
    rows=("C-35",),
)
def host_network(change: Change) -> Iterator[Problem]:
    """On the host's network a port can be taken once: DCGM listens on 5555, its exporter on 9400.

    A second listener leaves the pod pending or restarting. In a namespace whose pod security standard is baseline or
    restricted such pods are refused altogether.
    """
    if change.deleted:
        return
    for name in ("driver", *_PORTS):
        if not change.flag(name, "hostNetwork") or not change.flag(name, "enabled", default=True):
            continue
        path = change.at(name, "hostNetwork")
        if enforced := _enforced(change):
            yield problem(
                path,
                f"is refused in {enforced}; Kubernetes would report: violates PodSecurity: host namespaces "
                "(hostNetwork=true)",
                "write hostNetwork: false, or set psa.enabled: true",
            )
        port = _PORTS.get(name)
        if port and (other := _listener(change, port)):
            yield problem(path, f"needs port {port} of each GPU node, which {other} takes already")


def _enforced(change: Change) -> str:
    """The operator's namespace, where pod security keeps pods off the host's network and the operator leaves it so."""
    if change.flag("psa", "enabled"):
        return ""
    for name in change.facts.operator_namespaces:
        level = lookup(
            change.facts.get("Namespace", name), ("metadata", "labels", "pod-security.kubernetes.io/enforce")
        )
        if level in ("baseline", "restricted"):
            return f'namespace "{name}", which enforces pod security "{level}"'
    return ""


def _listener(change: Change, port: int) -> str:
    for pod in change.facts.known("Pod"):
        if namespace_of(pod) not in change.facts.operator_namespaces and _takes(pod, port):
            return f'pod "{namespace_of(pod)}/{name_of(pod)}"'
    return ""


def _takes(pod: Object, port: int) -> bool:
    on_host = lookup(pod, ("spec", "hostNetwork")) is True
    containers = lookup(pod, ("spec", "containers"))
    for container in containers if isinstance(containers, list) else []:
        ports = lookup(container, ("ports",))
        for one in ports if isinstance(ports, list) else []:
            if lookup(one, ("hostPort",)) == port or (on_host and lookup(one, ("containerPort",)) == port):
                return True
    return False
