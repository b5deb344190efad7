"""Access of operands to the host, and GPUDirect RDMA, GPUDirect Storage and GDRCopy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.configuration.change import CLUSTER_POLICY, WITH_DRIVER
from policies.configuration.cluster_facts import is_k0s, is_microk8s, is_openshift, namespaced_name, the_nodes
from policies.configuration.drivers import drivers_of
from policies.fleet.operands import is_deployed
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import items_at, lookup, namespace_of
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.yaml import YAMLError, first_document
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from policies.configuration.change import Change, Section
    from policies.kubernetes.objects import Object


_PATHS = (
    ("hostPaths", "rootFS"),
    ("hostPaths", "driverInstallDir"),
    ("hostPaths", "kubeletRootDir"),
    ("toolkit", "installDir"),
    ("devicePlugin", "mps", "root"),
)
_ROOT = ("hostPaths", "rootFS")
_MOUNTED_BY = {
    ("hostPaths", "kubeletRootDir"): "dcgmExporter",
    ("toolkit", "installDir"): "toolkit",
    ("devicePlugin", "mps", "root"): "devicePlugin",
}
"""The component that mounts a path, if it is one only; the path of a disabled component is not read."""
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
    remedy="write an absolute path of its own without going up",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go transformForHostRoot, "
    "transformForDriverInstallDir, TransformToolkit, TransformDevicePlugin, TransformDCGMExporter; "
    "k8s.io/kubernetes pkg/apis/core/validation",
    rows=("F-11", "F-16", "F-17"),
)
def host_paths(change: Change) -> Iterator[Problem]:
    """The operands mount these directories of the host, and some write into them.

    With a relative path, or one with `..`, their pods cannot be created. With the root of the host as an installation
    directory, files are spread over it. With another directory than the kubelet's, the DCGM exporter does not find out
    which pods use which GPUs; the device plugin always registers below /var/lib/kubelet.
    """
    for steps in _PATHS:
        text, component = change.text(*steps), _MOUNTED_BY.get(steps)
        is_mounted = component is None or is_deployed(change.object, component)
        if text and is_mounted and (found := _path_problem(text, is_root_allowed=steps == _ROOT)):
            yield Problem(change.at(*steps), *found)
    directory = change.text("hostPaths", "driverInstallDir")
    is_valid = directory and not _path_problem(directory, is_root_allowed=False)
    if is_valid and directory.rstrip("/") != _DRIVER_CONTAINER and change.flag("driver", "enabled", default=True):
        text = f'"{directory}" is for drivers of the host; the driver container installs into {_DRIVER_CONTAINER}'
        remedy = f'write "{_DRIVER_CONTAINER}", or driver.enabled: false where the hosts have a driver'
        yield Problem(change.at("hostPaths", "driverInstallDir"), text, remedy, severity=Severity.WARN)
    directory = change.text("hostPaths", "kubeletRootDir") or _KUBELET
    for is_one, distribution, places in _KUBELETS:
        nodes = [node for node in change.facts.known_gpu_nodes() if is_one(node)]
        if nodes and directory.rstrip("/") not in places and is_deployed(change.object, "dcgmExporter"):
            text = f'"{directory}" is not the kubelet\'s directory of {distribution} on {the_nodes(nodes)}; '
            text += "metrics would not say which pods use the GPUs"
            path = change.at("hostPaths", "kubeletRootDir")
            yield Problem(path, text, f'write "{places[0]}"', severity=Severity.WARN)


def _path_problem(text: str, *, is_root_allowed: bool) -> tuple[str, str] | None:
    """The error in a path of the host, and the remedy; None if it is valid."""
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
    remedy=f"write psa.enabled: true, or label the namespace {_ENFORCE}=privileged",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go setPodSecurityLabelsForNamespace",
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
        # Only OpenShift has the driver toolkit.
        has_toolkit = change.flag("operator", "use_ocp_driver_toolkit")
        is_on_openshift = has_toolkit or any(map(is_openshift, change.facts.view.known_objects("Node")))
        if elsewhere and is_on_openshift and change.facts.view.get("Namespace", _OPENSHIFT_NAMESPACE) is None:
            text = f'has no effect on OpenShift in the namespace "{elsewhere[0]}", only in "{_OPENSHIFT_NAMESPACE}"'
            yield Problem(path, text, f"label the namespace {_ENFORCE}=privileged", severity=Severity.WARN)
        return
    strict = {name: labels[_ENFORCE] for name, labels in namespaces.items() if labels.get(_ENFORCE) in _STANDARDS}
    is_certain = len(strict) == len(namespaces) and not change.facts.operator_place.is_guess
    severity = None if is_certain else Severity.WARN
    for name, standard in strict.items():
        text = f'is false while the namespace "{name}" enforces the standard "{standard}", which forbids every operand'
        yield Problem(path, text, severity=severity)


def _namespace_labels(change: Change) -> dict[str, Mapping[str, str]]:
    """The labels of the operator's namespaces that exist."""
    namespaces = {name: change.facts.view.get("Namespace", name) for name in change.facts.operator_namespaces}
    return {name: labels_of(found) for name, found in namespaces.items() if isinstance(found, dict)}


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
    enforced = [(name, labels.get(_ENFORCE)) for name, labels in _namespace_labels(change).items()]
    strict = [(name, standard) for name, standard in enforced if standard in _STANDARDS]
    for name in ("driver", *_PORTS):
        if not change.flag(name, "hostNetwork") or not is_deployed(change.object, name):
            continue
        path, port = change.at(name, "hostNetwork"), _PORTS.get(name)
        if strict and not change.flag("psa", "enabled"):
            namespace, standard = strict[0]
            error = "violates PodSecurity: host namespaces (hostNetwork=true)"
            text = f'is refused in namespace "{namespace}", which enforces pod security "{standard}"'
            remedy = "write hostNetwork: false, or set psa.enabled: true"
            yield Problem(path, f"{text}; Kubernetes would report: {error}", remedy)
        for pod in change.facts.view.known_objects("Pod") if port else ():
            fields = ("hostPort", "containerPort") if lookup(pod, ("spec", "hostNetwork")) is True else ("hostPort",)
            containers = items_at(pod, ("spec", "containers"))
            ports = [each for container in containers for each in items_at(container, ("ports",))]
            is_used = any(lookup(each, (field,)) == port for each in ports for field in fields)
            if is_used and namespace_of(pod) not in change.facts.operator_namespaces:
                text = f'needs port {port} of each GPU node, which pod "{namespaced_name(pod)}" uses already'
                yield Problem(path, text)
                break


_OPEN_SINCE = (2, 17, 5)
"""The first GDS driver that only the open kernel modules can load."""
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")
_OVERRULED = {
    "gdsEnabled": ("gds", "GDS_ENABLED"),
    "mofedEnabled": ("gds", "MOFED_ENABLED"),
    "gdrcopyEnabled": ("gdrcopy", "GDRCOPY_ENABLED"),
}
"""Flags of a device-plugin configuration, what switches the same in a ClusterPolicy, and by which variable."""


def _driver(change: Change) -> Section:
    """The settings of an object's driver, also if the operator does not deploy it."""
    return change.section(*(("driver",) if change.kind == "ClusterPolicy" else ()))


@WITH_DRIVER.rule(
    "GA165",
    "Settings of RDMA, GPUDirect Storage and GDRCopy must not be overruled by others",
    default=Severity.WARN,
    remedy="write rdma.enabled: true beside it, or remove it",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go TransformDevicePlugin, "
    "transformDriverContainer",
    rows=("D-01", "D-10", "S-59"),
)
def settings_take_effect(change: Change) -> Iterator[Problem]:
    """The operator reads `useHostMofed` only if RDMA is enabled, so alone it changes nothing.

    It also sets environment variables of the device plugin for GPUDirect Storage and GDRCopy; these win over the flags in
    the plugin's ConfigMap.
    """
    driver = _driver(change)
    if driver.flag("rdma", "useHostMofed") and not driver.flag("rdma", "enabled"):
        text = "has no effect, because the operator reads it only if rdma.enabled is true"
        yield Problem(driver.at("rdma", "useHostMofed"), text)
    name = change.text("devicePlugin", "config", "name") if change.kind == "ClusterPolicy" else ""
    data = lookup(change.facts.operator_object("ConfigMap", name) if name else None, ("data",))
    for key, text in data.items() if isinstance(data, dict) else ():
        try:
            flags = lookup(first_document(text).value, ("flags",)) if isinstance(text, str) else None
        except YAMLError:
            continue  # the rules of the ConfigMap report it
        for flag, (component, variable) in _OVERRULED.items():
            if change.flag(component, "enabled") and lookup(flags, (flag,)) is False:
                message = f'overrules flags.{flag}: false of "{key}" in ConfigMap "{name}": {variable} is set to true'
                remedy = f"remove {flag} from the ConfigMap, or disable {component} here"
                yield Problem(change.at(component, "enabled"), message, remedy)


@WITH_DRIVER.rule(
    "GA167",
    "GPUDirect Storage must run on the open kernel modules",
    remedy="write kernelModuleType: open, or disable gds",
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1alpha1/nvidiadriver_types.go "
    "IsOpenKernelModulesRequired, controllers/nvidiadriver_controller.go Reconcile; docs "
    "gpu-operator-rdma",
    rows=("D-04", "D-05"),
)
def gds_on_open_modules(change: Change) -> Iterator[Problem]:
    """Since version 2.17.5 nvidia-fs cannot be loaded beside the proprietary kernel modules.

    For a ClusterPolicy the operator does not check that, and the driver pods fail on every node. For an NVIDIADriver it
    does, and stops: `auto`, the default, is not enough there, although it often chooses the open modules.
    """
    version = change.text("gds", "version")
    match = _VERSION.match(version)
    # The operator takes a digest for a recent version, and a tag that it cannot read for an old one.
    numbers = tuple(int(part or 0) for part in match.groups()) if match else ()
    is_recent = numbers >= _OPEN_SINCE if match else version.startswith("sha256")
    driver = next(drivers_of(change), None)
    if driver is None or not change.flag("gds", "enabled") or not is_recent:
        return
    chosen, path = driver.text("kernelModuleType") or "auto", driver.at("kernelModuleType")
    if change.kind == "NVIDIADriver" and chosen != "open":
        error = f"GPUDirect Storage driver '{version}' is only supported with NVIDIA OpenRM drivers"
        yield Problem(path, f'is "{chosen}", and gds needs "open"; the operator would report: {error}')
    elif change.kind == "ClusterPolicy" and chosen == "proprietary":
        why = "nvidia-fs since 2.17.5 can be loaded only beside the open kernel modules"
        yield Problem(path, f'is "proprietary"; {why}, so gds fails')


@WITH_DRIVER.rule(
    "GA168",
    "GPUDirect Storage and GDRCopy must name their images",
    remedy="write repository, image and version",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go transformGDSContainer, transformGDRCopyContainer, "
    "api/nvidia/v1/clusterpolicy_types.go ImagePath, api/nvidia/v1alpha1/nvidiadriver_types.go GetImagePath",
    rows=("D-09",),
)
def sidecars_name_images(change: Change) -> Iterator[Problem]:
    """Both are containers of the driver's pod without a default image, so no driver is deployed.

    A ClusterPolicy whose driver is the host's or that of NVIDIADrivers needs no image: there it only configures the device
    plugin.

    Only OpenShift's installation of the operator includes an image of GDRCopy, for ClusterPolicies and not for
    NVIDIADrivers.
    """
    if next(drivers_of(change), None) is None:
        return
    for component, image in (("gds", "nvidia-fs"), ("gdrcopy", "gdrdrv")):
        named = any(change.value(component, part) for part in ("repository", "image", "version"))
        if change.flag(component, "enabled") and not named and not _has_default_image(change, component):
            text = "is enabled without an image, and there is no default; the driver would not be deployed at all"
            remedy = f"write repository: nvcr.io/nvidia/cloud-native, image: {image} and a version in {component}"
            yield Problem(change.at(component, "enabled"), text, remedy)


def _has_default_image(change: Change, component: str) -> bool:
    """True if the operator was, or may have been, installed with a custom image."""
    if change.kind != "ClusterPolicy":
        return False
    variables = change.facts.operator_variables()
    if variables is not UNKNOWN:
        return f"{component.upper()}_IMAGE" in variables
    return component == "gdrcopy" and (
        change.name == "gpu-cluster-policy"
        or change.flag("operator", "use_ocp_driver_toolkit")
        or bool(change.facts.nodes_with("node.openshift.io/os_id"))
    )


_NFD = "feature.node.kubernetes.io/"
_MELLANOX = re.compile(r"pci-([0-9a-f]{4}_)?15b3\.present")
"""NVIDIA's (Mellanox's) network adapters, after the prefix of Node Feature Discovery, with or without device class."""
_KERNEL = re.compile(r"(\d+)\.(\d+)")
_DMA_BUF_SINCE = (5, 12)


@WITH_DRIVER.rule(
    "GA166",
    "Nodes must have what GPUDirect RDMA and GPUDirect Storage need",
    default=Severity.WARN,
    remedy="install NVIDIA's network adapters and the Network Operator first, or write rdma.enabled: false",
    source="github.com/NVIDIA/gpu-operator issues 588, 448, 381; docs gpu-operator-rdma",
    rows=("D-02", "D-03", "D-06"),
)
def rdma_stack_on_nodes(change: Change) -> Iterator[Problem]:
    """With RDMA enabled the driver's pod waits for the network driver (MOFED), maybe without end.

    GPUDirect Storage over a network needs the same; from local NVMe it does not. On kernels since 5.12, the open kernel
    modules share memory by DMA-BUF, and only old libraries need the nvidia-peermem that `rdma.enabled` loads.
    """
    driver = _driver(change)
    nodes = _described_nodes(change)
    features = [key.removeprefix(_NFD) for node in nodes for key in labels_of(node) if key.startswith(_NFD)]
    without, names = bool(nodes) and not any(map(_MELLANOX.fullmatch, features)), the_nodes(nodes, "GPU node")
    kernels = [_KERNEL.match(str(lookup(node, ("status", "nodeInfo", "kernelVersion")))) for node in nodes]
    share_by_dma_buf = all(match and (int(match[1]), int(match[2])) >= _DMA_BUF_SINCE for match in kernels)
    rdma = driver.flag("rdma", "enabled")
    if rdma and without and not driver.flag("rdma", "useHostMofed"):
        text = f"makes the driver wait for MOFED without end, because no network adapter of NVIDIA is on {names}"
        yield Problem(driver.at("rdma", "enabled"), text)
    elif rdma and driver.text("kernelModuleType") == "open" and nodes and share_by_dma_buf:
        text = f"loads nvidia-peermem, which the open modules do not need on kernels since 5.12, as on {names}"
        remedy = "remove rdma and let applications use DMA-BUF, unless a library needs nvidia-peermem"
        yield Problem(driver.at("rdma", "enabled"), text, remedy, severity=Severity.AUDIT)
    if change.flag("gds", "enabled") and without and not rdma:
        text = f"serves only local NVMe: no network adapter of NVIDIA is on {names}, and rdma is not enabled"
        remedy = "keep it if the data is on local NVMe; for remote storage install the Network Operator first"
        yield Problem(change.at("gds", "enabled"), text, remedy)


def _described_nodes(change: Change) -> Sequence[Object]:
    """The GPU nodes of the object; empty if Node Feature Discovery has not labelled all of them."""
    wanted = change.mapping("nodeSelector").items() if change.kind == "NVIDIADriver" else ()
    nodes = [
        node
        for node in change.facts.known_gpu_nodes()
        if all(labels_of(node).get(key) == value for key, value in wanted)
    ]
    return nodes if all(any(key.startswith(_NFD) for key in labels_of(node)) for node in nodes) else ()
