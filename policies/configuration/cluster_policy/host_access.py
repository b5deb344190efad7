"""Access of operands to the host: paths, and a namespace that admits privileged pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import CLUSTER_POLICY
from policies.configuration.distributions import is_k0s, is_microk8s, is_openshift
from policies.configuration.named_objects import namespaced_name, the_nodes
from policies.decision import Severity
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import namespace_of
from policies.kubernetes.paths import items_at, lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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

    With a relative path, or one with `..`, their pods cannot be created. With the root of the host as an installation
    directory, files are spread over it. With another directory than the kubelet's, the device plugin finds no socket to
    register at, and the node has no GPUs.
    """
    for steps in _PATHS:
        text = change.text(*steps)
        if text and (found := _path_problem(text, is_root_allowed=steps == _ROOT)):
            yield problem(change.at(*steps), *found)
    directory = change.text("hostPaths", "driverInstallDir")
    is_valid = directory and not _path_problem(directory, is_root_allowed=False)
    if is_valid and directory.rstrip("/") != _DRIVER_CONTAINER and change.flag("driver", "enabled", default=True):
        text = f'"{directory}" is for drivers of the host; the driver container installs into {_DRIVER_CONTAINER}'
        remedy = f'write "{_DRIVER_CONTAINER}", or driver.enabled: false where the hosts have a driver'
        yield problem(change.at("hostPaths", "driverInstallDir"), text, remedy, severity=Severity.WARN)
    directory = change.text("hostPaths", "kubeletRootDir") or _KUBELET
    for is_one, distribution, places in _KUBELETS:
        nodes = [node for node in change.facts.known_gpu_nodes() if is_one(node)]
        if nodes and directory.rstrip("/") not in places:
            text = (
                f'"{directory}" is not the kubelet\'s directory of {distribution} on {the_nodes(nodes)}; '
                "the device plugin would find no socket to register at"
            )
            path = change.at("hostPaths", "kubeletRootDir")
            yield problem(path, text, f'write "{places[0]}"', severity=Severity.WARN)


def _path_problem(text: str, *, is_root_allowed: bool) -> tuple[str, str] | None:
    """What is wrong with a path of the host, and the remedy."""
    if ".." in text.split("/"):
        error = "the API server would refuse the DaemonSets that mount it: must not contain '..'"
        return f'"{text}" leads upwards; {error}', "write the path without .."
    if not text.startswith("/"):
        return f'"{text}" is relative; the DaemonSets that mount it could not start', f'write "/{text}"'
    if not text.strip("/") and not is_root_allowed:
        return f'"{text}" is the root of the host, over which files would be spread', "write a directory of its own"
    return None


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

    If the namespace enforces the baseline or the restricted standard, their pods are forbidden and the DaemonSets stay at
    zero. With `psa.enabled` the operator labels its namespace itself; on OpenShift only the default one.
    """
    path, namespaces = change.at("psa", "enabled"), _namespace_labels(change)
    if change.flag("psa", "enabled"):
        elsewhere = [name for name in namespaces if name != _OPENSHIFT_NAMESPACE]
        if elsewhere and change.facts.get("Namespace", _OPENSHIFT_NAMESPACE) is None and _is_openshift(change):
            text = f'has no effect on OpenShift in the namespace "{elsewhere[0]}", only in "{_OPENSHIFT_NAMESPACE}"'
            yield problem(path, text, f"label the namespace {_ENFORCE}=privileged", severity=Severity.WARN)
        return
    strict = {name: labels[_ENFORCE] for name, labels in namespaces.items() if labels.get(_ENFORCE) in _STANDARDS}
    severity = None if len(strict) == len(namespaces) else Severity.WARN
    for name, standard in strict.items():
        text = f'is false while the namespace "{name}" enforces the standard "{standard}", which forbids every operand'
        yield problem(path, text, severity=severity)


def _namespace_labels(change: Change) -> dict[str, Mapping[str, str]]:
    """The labels of the operator's namespaces that exist."""
    namespaces = {name: change.facts.get("Namespace", name) for name in change.facts.operator_namespaces}
    return {name: labels_of(found) for name, found in namespaces.items() if isinstance(found, dict)}


def _is_openshift(change: Change) -> bool:
    """True if the nodes show it, or the driver toolkit that only OpenShift has."""
    return change.flag("operator", "use_ocp_driver_toolkit") or any(
        map(is_openshift, change.facts.known_objects("Node"))
    )


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
    """On the host's network only one pod can use a port: DCGM listens on 5555, its exporter on 9400.

    A second listener stays pending or restarts. In a namespace whose pod security standard is baseline or restricted
    such pods are refused.
    """
    strict = [
        (name, labels[_ENFORCE])
        for name, labels in _namespace_labels(change).items()
        if labels.get(_ENFORCE) in _STANDARDS
    ]
    for name in ("driver", *_PORTS):
        if not change.flag(name, "hostNetwork") or not change.flag(name, "enabled", default=True):
            continue
        path, port = change.at(name, "hostNetwork"), _PORTS.get(name)
        if strict and not change.flag("psa", "enabled"):
            namespace, standard = strict[0]
            error = "violates PodSecurity: host namespaces (hostNetwork=true)"
            text = f'is refused in namespace "{namespace}", which enforces pod security "{standard}"'
            remedy = "write hostNetwork: false, or set psa.enabled: true"
            yield problem(path, f"{text}; Kubernetes would report: {error}", remedy)
        if port and (other := _listener(change, port)):
            yield problem(
                path, f'needs port {port} of each GPU node, which pod "{namespaced_name(other)}" uses already'
            )


def _listener(change: Change, port: int) -> Object | None:
    """A pod outside the operator's namespaces that uses a port of its node."""
    pods = (
        pod for pod in change.facts.known_objects("Pod") if namespace_of(pod) not in change.facts.operator_namespaces
    )
    return next((pod for pod in pods if _uses_port(pod, port)), None)


def _uses_port(pod: Object, port: int) -> bool:
    fields = ("hostPort", "containerPort") if lookup(pod, ("spec", "hostNetwork")) is True else ("hostPort",)
    ports = [each for container in items_at(pod, ("spec", "containers")) for each in items_at(container, ("ports",))]
    return any(lookup(each, (field,)) == port for each in ports for field in fields)
