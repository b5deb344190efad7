"""NVIDIADriver and GPUCluster (`nvidia.com/v1alpha1`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.configuration.change import GPU_CLUSTER, NVIDIA_DRIVER
from policies.configuration.cluster_facts import counted_names, quoted_names
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import FieldPath, Object, items_at, lookup, name_of
from policies.kubernetes.versions import Feature, version_text
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import MIG_CONFIG_LABEL, PRESENT_LABEL
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

__all__ = ["GPU_CLUSTER", "NVIDIA_DRIVER", "selector_of", "selects"]


_DEFAULT_IMAGE = "nvcr.io/nvidia/driver"
_NVIDIAS_REGISTRY = "nvcr.io/"
_VGPU = ("vgpu", "vgpu-host-manager")


@NVIDIA_DRIVER.rule(
    "GA193",
    "An NVIDIADriver must name its image together with repository and version",
    remedy="write repository: nvcr.io/nvidia, image: driver and a version",
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1alpha1/nvidiadriver_types.go GetImagePath, internal/image/image.go",
    rows=("K-05",),
)
def named_image(change: Change) -> Iterator[Problem]:
    """The default of `image` is a whole path, and the operator puts the repository before it.

    So with a repository it is doubled, without one the version is refused, and alone it has no tag. The operator takes
    no image from its own settings here, as it does for a ClusterPolicy. A mirror may have images under their whole path,
    so a doubled path in another registry than NVIDIA's is only warned about.
    """
    image = change.text("image")
    if image not in ("", _DEFAULT_IMAGE):
        return
    repository, version = change.text("repository"), change.text("version")
    field, by_default = "image", " by default" if not image else ""
    if repository and version:
        mark = "@" if version.startswith("sha256:") else ":"
        text = f'is "{_DEFAULT_IMAGE}"{by_default}, so nodes would pull "{repository}/{_DEFAULT_IMAGE}{mark}{version}"'
        is_nvidias = repository.startswith(_NVIDIAS_REGISTRY)
        yield Problem(change.at(field), text, "write image: driver", severity=None if is_nvidias else Severity.WARN)
    elif repository or version:
        field, missing = ("version", "repository") if version else ("repository", "version")
        shown = f"repository={repository}, image={_DEFAULT_IMAGE}, version={version}"
        text = (
            f"is set without {missing}; the operator would report: invalid image specification: repository, image and "
        )
        text += f"version must all be set ({shown})"
        yield Problem(change.at(field), text)
    else:
        text = f'is "{_DEFAULT_IMAGE}"{by_default} and the whole reference, so nodes would pull "{_DEFAULT_IMAGE}-<os>"'
        yield Problem(change.at(field), text)


@NVIDIA_DRIVER.rule(
    "GA194",
    "Settings of an NVIDIADriver must fit its driver type, which must not change",
    remedy="set usePrecompiled: false, or disable gds and gdrcopy",
    source="github.com/NVIDIA/gpu-operator controllers/nvidiadriver_controller.go Reconcile, config/crd/bases; "
    "docs.nvidia.com GPU Operator, driver configuration",
    rows=("K-07", "K-08", "K-11", "K-18"),
)
def fitting_kind(change: Change) -> Iterator[Problem]:
    """GPUDirect Storage and GDRCopy are built beside the driver, which precompiled drivers are not.

    The operator stops at such an NVIDIADriver, and no driver is deployed. `driverType` and `usePrecompiled` cannot
    change afterwards: each makes another DaemonSet, and the drivers of one would be removed under running pods. vGPU
    drivers have none of these parts, and without a licence a vGPU slows down after some minutes.
    """
    for component in ("gds", "gdrcopy") if change.flag("usePrecompiled") else ():
        if change.flag(component, "enabled"):
            error = (
                "GPUDirect Storage driver (nvidia-fs) and/or GDRCopy driver is not supported along with pre-compiled"
            )
            text = f"does not work with usePrecompiled: true; the operator would report: {error} NVIDIA drivers"
            severity = Severity.WARN if change.is_disabled_driver else None
            yield Problem(change.at(component, "enabled"), text, severity=severity)
    yield from _vgpu(change)
    if change.old is not None:
        yield from _type_changes(change)


def _vgpu(change: Change) -> Iterator[Problem]:
    kind = change.text("driverType")
    if kind not in _VGPU:
        return
    for steps in (("gds", "enabled"), ("gdrcopy", "enabled"), ("rdma", "enabled"), ("usePrecompiled",)):
        if change.flag(*steps):
            text = f"is not supported with driverType: {kind}"
            remedy = f"remove {steps[0]}, or write driverType: gpu"
            yield Problem(change.at(*steps), text, remedy, severity=Severity.WARN)
    licence = change.mapping("licensingConfig")
    if kind == "vgpu" and not (licence.get("secretName") or licence.get("name")):
        text = "is missing, so the vGPUs stay unlicensed and slow down after some minutes"
        files = "gridd.conf and client_configuration_token.tok"
        remedy = f"write licensingConfig: {{secretName: ...}} with {files} in the Secret"
        yield Problem(change.at("licensingConfig"), text, remedy, severity=Severity.WARN)


def _type_changes(change: Change) -> Iterator[Problem]:
    anew = "delete this NVIDIADriver, and create another one"
    before, now = change.value_before("driverType") or "gpu", change.text("driverType") or "gpu"
    if isinstance(before, str) and before != now:
        text = f'was "{before}" and cannot change to "{now}"; the API server refuses it'
        yield Problem(change.at("driverType"), text, anew)
    was, precompiled = change.value_before("usePrecompiled"), change.flag("usePrecompiled")
    if isinstance(was, bool) and isinstance(change.value("usePrecompiled"), bool) and was != precompiled:
        text = "cannot change once it is set; the API server refuses it"
        yield Problem(change.at("usePrecompiled"), text, anew)
    elif was is None and precompiled:
        text = "was not set before, so the API server lets it pass, and the driver is replaced on every selected node"
        yield Problem(change.at("usePrecompiled"), text, f"{anew}, when the nodes are drained", severity=Severity.WARN)


_LEAST_SECONDS = 60
"""The time before which no driver is ready that compiles its modules: the operator's own probe does not look earlier."""
_ENOUGH_SECONDS = 600
"""The time that a driver may take to compile its modules."""
_DEFAULTS = {"initialDelaySeconds": 60, "periodSeconds": 10, "timeoutSeconds": 60, "failureThreshold": 120}
"""The operator's startup probe, for a driver that compiles its modules."""
_OF_KUBERNETES = {"initialDelaySeconds": 0, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3}
"""The values that the API server sets for the zeros that the operator writes for missing fields."""


@NVIDIA_DRIVER.rule(
    "GA196",
    "A startup probe must be complete, and settings must reach the pods of the driver",
    remedy="remove startupProbe, or write all of its fields",
    source="github.com/NVIDIA/gpu-operator internal/state/driver.go getDriverSpec, getDefaultStartupProbe, "
    "manifests/state-driver/0500_daemonset.yaml",
    rows=("K-12", "K-13", "K-17"),
)
def whole_probe(change: Change) -> Iterator[Problem]:
    """A startup probe replaces the operator's own; it is not merged with it as in a ClusterPolicy.

    A missing field gets Kubernetes' default: three failures, a timeout of one second. The kubelet then kills the driver
    again and again while it compiles its modules. If it has more than a minute, in which a fast node may compile them, this
    is only a warning. The driver's template has no liveness and readiness probes, and labels by which the operator finds
    the pods are dropped.
    """
    if change.mapping("startupProbe") and change.text("driverType") != "vgpu-host-manager":
        yield from _startup_probe(change)
    for probe in ("livenessProbe", "readinessProbe"):
        if change.mapping(probe):
            text = "has no effect, because the driver's container has a startup probe only"
            yield Problem(change.at(probe), text, "remove it", severity=Severity.WARN)
    for key in change.mapping("labels"):
        if key == "app" or key.startswith("app.kubernetes.io/"):
            text = "is silently dropped, because the operator finds its pods by this label"
            yield Problem(change.at("labels", key), text, "use another label", severity=Severity.WARN)


def _startup_probe(change: Change) -> Iterator[Problem]:
    probe = change.section("startupProbe")
    rendered = {name: probe.number(name) or default for name, default in _OF_KUBERNETES.items()}
    seconds = rendered["initialDelaySeconds"] + rendered["periodSeconds"] * rendered["failureThreshold"]
    missing = [name for name in ("failureThreshold", "periodSeconds") if not probe.number(name)]
    whole = ", ".join(f"{name}: {probe.number(name) or default}" for name, default in _DEFAULTS.items())
    remedy = f"write startupProbe: {{{whole}}}"
    if missing and seconds < _ENOUGH_SECONDS and not change.flag("usePrecompiled"):
        text = (
            f"leaves out {' and '.join(missing)}, which become Kubernetes' defaults and not the operator's; the driver "
        )
        text += f"would be killed after {seconds} seconds, while it compiles its modules"
        severity = None if seconds <= _LEAST_SECONDS else Severity.WARN
        yield Problem(probe.at(), text, remedy, severity=severity)
    elif not probe.number("timeoutSeconds"):
        text = "leaves out timeoutSeconds, which becomes 1 and not the operator's 60, too short for nvidia-smi at times"
        yield Problem(probe.at(), text, remedy, severity=Severity.WARN)


_OWNER = "nvidia.com/gpu-operator.driver.owner"
_EVERY_GPU_NODE = {PRESENT_LABEL: "true"}


def selector_of(driver: Object) -> dict[str, Any]:
    """The node labels that an NVIDIADriver selects; without a selector, that of all GPU nodes."""
    selector = lookup(driver, ("spec", "nodeSelector"))
    return selector if isinstance(selector, dict) else _EVERY_GPU_NODE


def selects(selector: dict[str, Any], node: Object) -> bool:
    """True if a node has all labels of a selector."""
    return selector.items() <= dict(labels_of(node)).items()


@NVIDIA_DRIVER.rule(
    "GA192",
    "A node must have one NVIDIADriver",
    remedy="give each NVIDIADriver a nodeSelector of its own, and default: true to the one for the rest",
    source="github.com/NVIDIA/gpu-operator internal/validator/validator.go Validate; "
    "github.com/NVIDIA/gpu-operator issues 2259, 1661, 2355",
    rows=("K-01", "K-02", "K-03", "K-04"),
)
def one_driver_per_node(change: Change) -> Iterator[Problem]:
    """If two NVIDIADrivers select the same node, the operator deploys no NVIDIADriver at all.

    Their state becomes notReady with the reason ConflictingNodeSelector, and no driver is installed or upgraded
    anywhere until one of them is changed. The one with `default: true` takes the nodes that are left, so it conflicts
    with none; there can be only one. Selectors that could meet and share none of the GPU nodes are a warning.
    """
    others = [
        driver
        for driver in change.facts.view.known_objects("NVIDIADriver")
        if name_of(driver) != change.name and not lookup(driver, ("metadata", "deletionTimestamp"))
    ]
    defaults = [driver for driver in others if lookup(driver, ("spec", "default")) is True]
    if _OWNER in change.mapping("nodeSelector"):
        error = f'NVIDIADriver "{change.name}" nodeSelector cannot use reserved label "{_OWNER}"'
        text = f"is the operator's own mark of the nodes that a driver has; it would report: {error}"
        yield Problem(change.at("nodeSelector", _OWNER), text, "select nodes by a label of your own")
    if change.flag("default") and defaults:
        names = [name_of(driver) for driver in defaults]
        error = f"multiple default NVIDIADrivers found: [{' '.join(sorted([*names, change.name]))}]"
        text = f"is true for {quoted_names(names)} too; the operator would report: {error}"
        yield Problem(change.at("default"), text, "write default: false, and a nodeSelector")
    for other in others if not change.flag("default") else ():
        if other not in defaults:
            yield from _conflict(change, other)


def _conflict(change: Change, other: Object) -> Iterator[Problem]:
    mine, theirs, name = selector_of(change.object), selector_of(other), name_of(other)
    path, pair = change.at("nodeSelector"), " ".join(sorted([change.name, name]))
    shared = [
        name_of(node)
        for node in change.facts.view.known_objects("Node")
        if selects(mine, node) and selects(theirs, node)
    ]
    severity = Severity.WARN if change.facts.known_gpu_nodes() else None
    if shared:
        text = f'selects {counted_names("node", shared)}, and so does "{name}"; the operator would report: '
        text += f"multiple NVIDIADrivers match the same node {shared[0]}: [{pair}]"
        yield Problem(path, text)
    elif not change.mapping("nodeSelector"):
        text = f'is empty, which selects every GPU node, and "{name}" is for some of them'
        remedy = "add a nodeSelector, or default: true if it is for the nodes that are left"
        yield Problem(path, text, remedy, severity=severity)
    elif not lookup(other, ("spec", "nodeSelector")):
        text = f'selects nodes that "{name}" has already, as it has no nodeSelector and takes every GPU node'
        yield Problem(path, text, severity=severity)
    elif mine.items() <= theirs.items() or theirs.items() <= mine.items():
        wider, narrower = (change.name, name) if mine.items() <= theirs.items() else (name, change.name)
        text = f'"{wider}" selects every node that "{narrower}" selects; which nodes these are is not known here'
        yield Problem(path, text, severity=Severity.WARN)


_BY_DRIVER = tuple(
    f"nvidia.com/{name}"
    for name in (
        *("cuda.", "gfd.", "vgpu.", "mig.", "mig-", "mps.", "gpu.compute.", "gpu.product", "gpu.count", "gpu.replicas"),
        *("gpu.memory", "gpu.family", "gpu.mode", "gpu.machine", "gpu.sharing-strategy", "gpu.clique"),
    )
)
"""Prefixes of labels that GPU Feature Discovery sets, which starts when the driver runs."""
_BY_ADMINISTRATORS = (MIG_CONFIG_LABEL, "nvidia.com/vgpu.config")


@NVIDIA_DRIVER.rule(
    "GA195",
    "An NVIDIADriver must select at least one node",
    default=Severity.WARN,
    remedy="select nodes by a label of Node Feature Discovery or of your own",
    source="github.com/NVIDIA/gpu-operator controllers/nvidiadriver_controller.go Reconcile; docs.nvidia.com "
    "GPU Operator, driver configuration",
    rows=("K-06", "K-09", "K-10", "K-14"),
)
def nodes_to_run_on(change: Change) -> Iterator[Problem]:
    """An NVIDIADriver that selects no node is accepted and does nothing, without an event.

    Labels of GPU Feature Discovery come into being when a driver runs: a new node never has them before it has the
    driver, and so never gets it. As long as the ClusterPolicy does not say `useNvidiaDriverCRD: true`, every
    NVIDIADriver is `disabled`.
    """
    policy = change.facts.cluster_policy()
    if isinstance(policy, dict) and change.is_disabled_driver:
        text = f'"{change.name}" would be disabled; the operator would report: useNvidiaDriverCRD is not enabled in '
        text += "ClusterPolicy"
        remedy = f'write driver.useNvidiaDriverCRD: true in the ClusterPolicy "{name_of(policy)}"'
        yield Problem(FieldPath(["metadata", "name"]), text, remedy)
    for key in change.mapping("nodeSelector"):
        if key.startswith(_BY_DRIVER) and not key.startswith(_BY_ADMINISTRATORS):
            text = "is a label that needs a running driver, so a new node would never get the driver that it waits for"
            yield Problem(change.at("nodeSelector", key), text)
    nodes, selector = change.facts.known_gpu_nodes(), selector_of(change.object)
    if nodes and selector and not change.flag("default") and not any(selects(selector, node) for node in nodes):
        wanted = ", ".join(f"{key}={value}" for key, value in selector.items())
        text = f"none of the {len(nodes)} GPU nodes here has {wanted}, so nothing would be deployed"
        yield Problem(change.at("nodeSelector"), text, "label the nodes, or select a label that they have")
    required = ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    terms, written = change.items(*required), change.mapping("nodeSelector")
    by_term = [items_at(term, ("matchExpressions",)) for term in terms]
    if terms and all(any(_excludes(expression, written) for expression in each) for each in by_term):
        text = "excludes every node that nodeSelector selects; the driver's pods follow nodeSelector"
        remedy = "remove nodeAffinity, and say in nodeSelector which nodes you mean"
        yield Problem(change.at("nodeAffinity"), text, remedy)


def _excludes(expression: Any, selector: dict[str, Any]) -> bool:
    key, values = lookup(expression, ("key",)), lookup(expression, ("values",))
    if not isinstance(key, str) or key not in selector:
        return False
    is_named = isinstance(values, list) and selector[key] in values
    operator = lookup(expression, ("operator",))
    return operator == "DoesNotExist" or (operator == "NotIn" and is_named) or (operator == "In" and not is_named)


_NAME = FieldPath(["metadata", "name"])
LEAST_BRANCH = 580
"""The oldest branch of drivers that works with a GPUCluster. Source: docs.nvidia.com GPU Operator, DRA."""
_BRANCH = re.compile(r"([0-9]{3,4})(?:\.|$)")


def is_old_branch(version: str) -> bool:
    """True if a version of the driver is certainly older than `LEAST_BRANCH`."""
    match = _BRANCH.match(version)
    return match is not None and int(match[1]) < LEAST_BRANCH


@GPU_CLUSTER.rule(
    "GA198",
    "A GPUCluster must have Kubernetes 1.34, driver 580 and no ClusterPolicy around it",
    remedy="stay with the ClusterPolicy, or delete it first",
    source="github.com/NVIDIA/gpu-operator controllers/gpucluster_controller.go validatePrerequisites, "
    "internal/state/gpucluster.go draResourceAPIVersion, controllers/clusterinfo/clusterinfo.go getDRAResourceGVR; "
    "docs.nvidia.com GPU Operator, DRA",
    rows=("A-02", "L-01", "L-05"),
)
def surroundings(change: Change) -> Iterator[Problem]:
    """The operator runs the device plugin for a ClusterPolicy, or the DRA driver for a GPUCluster.

    With both it stops to look after either; there is no migration in place, the ClusterPolicy has to go first. The DRA
    driver needs an API that Kubernetes serves since 1.34 (1.34.2 in fact), and a driver of branch 580 or later.
    Kubernetes 1.32 and 1.33 have that API as a beta, which is served only if the administrator enables it.
    """
    policies = [
        name_of(policy)
        for policy in change.facts.view.known_objects("ClusterPolicy")
        if not lookup(policy, ("metadata", "deletionTimestamp"))
    ]
    if change.is_created and policies:
        text = (
            f'"{change.name}" and the ClusterPolicy "{policies[0]}" exclude each other; the operator would report: A '
        )
        text += f'ClusterPolicy CR "{policies[0]}" exists; a ClusterPolicy CR and GPUCluster CR may not exist at the same time'
        yield Problem(_NAME, text)
    version = change.facts.view.server_version()
    if version is not UNKNOWN and not Feature.ResourceV1.default_in(version):
        if Feature.ResourceV1Beta1.stage_in(version) is None:
            severity, outcome = None, "the operator would report: the resource.k8s.io DeviceClass API is not served"
        else:
            severity, outcome = Severity.WARN, "resource.k8s.io is a beta there, which is not served by default"
        text = f"needs Kubernetes 1.34.2 or later, and this is {version_text(version)}; {outcome}"
        yield Problem(
            FieldPath(["kind"]), text, "write a ClusterPolicy, or upgrade Kubernetes first", severity=severity
        )
    drivers = change.facts.view.known_objects("NVIDIADriver")
    versions = [(name_of(driver), lookup(driver, ("spec", "version"))) for driver in drivers]
    old = [f"{name} {text}" for name, text in versions if isinstance(text, str) and is_old_branch(text)]
    # Hosts may have a driver without an NVIDIADriver.
    if old and len(old) == len(drivers):
        text = f"needs driver {LEAST_BRANCH} or later, and there is {counted_names('NVIDIADriver', old)}"
        remedy = "write a version such as 595.91.07 in the NVIDIADriver first"
        yield Problem(FieldPath(["kind"]), text, remedy, severity=Severity.WARN)
