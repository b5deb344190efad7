"""Replicas of shared GPUs, what sharing does to pods and quotas, and settings that others override."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.configuration.change import CONFIG_MAP
from policies.configuration.cluster_facts import counted_names, namespaced_name, the_nodes
from policies.configuration.config_maps.plugin_documents import (
    default_key,
    is_governed,
    is_used,
    nodes_using,
    policy_strategy,
    requesting_pods,
)
from policies.kubernetes.names import printable, shown
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import lookup
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.config_grammar import STRATEGIES
from policies.nvidia.identifiers import (
    COMPUTE_LABELS,
    MIG_CAPABLE_LABEL,
    PLUGIN_CONFIG_LABEL,
    full_resource_name,
    name_error,
)
from policies.nvidia.products import Product
from policies.nvidia.releases import NVIDIAFeature
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.config_maps.plugin_documents import Configuration
    from policies.kubernetes.objects import Object
    from policies.nvidia.plugin_configs import SharedResource
    from policies.rules.checks import Problem


MOST_CLIENTS = 48
"""The MPS clients that a GPU serves."""
MOST_CLIENTS_BEFORE_TURING = 16
_TURING = (7, 5)
"""The compute capability from which on the MPS control daemon allows 48 clients: V100 (7.0) is below it."""
MANY_SLICES = 20
"""The pods that share a GPU by time-slicing, beyond which there is a warning."""


@CONFIG_MAP.rule(
    "GA139",
    "A GPU must not be shared by more pods than it can serve",
    remedy="write fewer replicas",
    source="github.com/NVIDIA/k8s-device-plugin cmd/mps-control-daemon/mps/device.go assertReplicas; "
    "docs.nvidia.com gpu-sharing",
    rows=("G-14", "G-24"),
)
def not_too_many_replicas(configuration: Configuration) -> Iterator[Problem]:
    """An MPS server has at most 48 clients, and 16 on GPUs before Turing.

    Time-slicing has no limit, but neither does it divide the memory: with very many pods on one GPU the first that
    allocates freely ends the others with an out-of-memory error, and each gets a sliver of the time.
    """
    for resource in configuration.shared_resources():
        if resource.strategy.name == "mps":
            yield from _mps_problems(configuration, resource)
        elif resource.replicas > MANY_SLICES and configuration.strategy("mps") is None:
            text = f"is {resource.replicas}; time-slicing isolates no memory, and that many pods on one GPU rarely fit "
            text += "into it"
            remedy = f"write {MANY_SLICES} or fewer, unless every pod is known to need very little"
            steps = (*resource.steps, "replicas")
            yield configuration.embedded.problem(steps, text, remedy, severity=Severity.WARN)


def _mps_problems(configuration: Configuration, resource: SharedResource) -> Iterator[Problem]:
    """The problems of more replicas than MPS has clients."""
    steps = (*resource.steps, "replicas")
    replicas = resource.replicas
    if replicas <= MOST_CLIENTS_BEFORE_TURING:
        return
    would = f"the MPS control daemon would report: invalid device maximum allowed replicas exceeded: {replicas} >"
    if replicas > MOST_CLIENTS:
        text = f"is {replicas}, and no GPU serves more than {MOST_CLIENTS} MPS clients; {would} {MOST_CLIENTS}"
        yield configuration.embedded.problem(steps, text, f"write {MOST_CLIENTS} or fewer")
        return
    nodes = nodes_using(configuration.change, configuration.key)
    using = [] if nodes is UNKNOWN else nodes
    older = [node for node in using if (_capability(node) or _TURING) < _TURING]
    remedy = f"write {MOST_CLIENTS_BEFORE_TURING} or fewer"
    if older:
        text = f"is {replicas}, and {the_nodes(older)} with GPUs before Turing serve{'s' * (len(older) == 1)} "
        text += f"{MOST_CLIENTS_BEFORE_TURING} MPS clients; {would} {MOST_CLIENTS_BEFORE_TURING}"
        yield configuration.embedded.problem(steps, text, remedy)
        return
    # Before any node selects a key, any of them may.
    may_use = using or configuration.change.facts.known_gpu_nodes()
    if not may_use or any((_capability(node) or (0, 0)) < _TURING for node in may_use):
        text = f"is {replicas}, which only GPUs since Turing (compute capability 7.5) serve; which GPUs this is for is "
        text += "not known here"
        remedy = f"{remedy} where the GPU is older, a V100 for example"
        yield configuration.embedded.problem(steps, text, remedy, severity=Severity.WARN)


def _capability(node: Object) -> tuple[int, int] | None:
    labels = labels_of(node)
    major, minor = (labels.get(name, "") for name in COMPUTE_LABELS)
    is_known = major.isdecimal() and minor.isdecimal() and len(major + minor) < 10
    return (int(major), int(minor)) if is_known else None


@CONFIG_MAP.rule(
    "GA142",
    "Pods and quotas must fit the way in which GPUs are shared",
    default=Severity.WARN,
    remedy="change the pods first",
    source="docs.nvidia.com/datacenter/cloud-native/gpu-operator gpu-sharing; "
    "github.com/NVIDIA/k8s-device-plugin internal/rm/rm.go ValidateRequest",
    rows=("G-17", "G-19"),
)
def fitting_pods(configuration: Configuration) -> Iterator[Problem]:
    """Renaming removes the resource that pods request: they stay Pending when they start again.

    A ResourceQuota on the old name then limits nothing, and node labels lose their -SHARED suffix. A pod that requests
    two shares may get two of the same GPU and no more computing power than one gives; with failRequestsGreaterThanOne
    it is refused on the node. A pod that has whole GPUs today needs nodes that do not share theirs.
    """
    for resource in configuration.shared_resources():
        if resource.strategy.name == "timeSlicing" and configuration.strategy("mps") is not None:
            continue
        if resource.name and resource.strategy.get("renameByDefault") is True:
            yield from _rename_problems(configuration, resource)
        elif resource.name:
            yield from _more_than_one(configuration, resource)


def _rename_problems(configuration: Configuration, resource: SharedResource) -> Iterator[Problem]:
    steps = (*resource.strategy.steps, "renameByDefault")
    shared = f"{resource.name}.shared"
    text = f"makes {shared} of {resource.name}"
    pods = requesting_pods(configuration.change, configuration.key, resource.name, 0)
    if pods:
        users = f"{counted_names('pod', pods)} {'requests' if len(pods) == 1 else 'request'}"
        found = f"{text}, which {users} and could then not start again"
        remedy = f"request {shared} in these pods, or write renameByDefault: false"
        yield configuration.embedded.problem(steps, found, remedy)
    known = configuration.change.facts.view.known_objects("ResourceQuota")
    limits = [(quota, items if isinstance(items := lookup(quota, ("spec", "hard")), dict) else {}) for quota in known]
    only = [quota for quota, hard in limits if f"requests.{resource.name}" in hard and f"requests.{shared}" not in hard]
    quotas = sorted(map(namespaced_name, only))
    if quotas and is_used(configuration.change, configuration.key):
        limited = counted_names("ResourceQuota", quotas)
        found = f"{text}, which {limited} {'does' if len(quotas) == 1 else 'do'} not limit"
        yield configuration.embedded.problem(steps, found, f"add requests.{shared} to the quota")


def _more_than_one(configuration: Configuration, resource: SharedResource) -> Iterator[Problem]:
    change, key = configuration.change, configuration.key
    pods = requesting_pods(change, key, resource.name, 1)
    if not pods:
        return
    nodes = nodes_using(change, key)
    label = f"{resource.name}.product"
    is_new = nodes is UNKNOWN or not all(Product.parse(labels_of(node).get(label, "")).shared for node in nodes)
    users = f"{counted_names('pod', pods)} {'requests' if len(pods) == 1 else 'request'} more than one"
    fails = resource.strategy.get("failRequestsGreaterThanOne")
    if fails is True or (fails is None and resource.strategy.name == "mps"):
        text = f"is shared, and {users}; the kubelet would refuse them with: maximum request size for shared resources is 1"
    elif is_new:
        text = f"is shared, and {users}; when they start again, they get shares, several of which may be of one GPU"
    else:
        text = f"is shared, and {users}; two shares of the same GPU compute no faster than one"
    remedy = "request one in these pods"
    if is_new:
        remedy = f"keep these pods on nodes that do not share it: let label {PLUGIN_CONFIG_LABEL} of their nodes select another key"
    yield configuration.embedded.problem((*resource.steps, "name"), text, remedy)


_MPS_ROOT = "/run/nvidia/mps"


@CONFIG_MAP.rule(
    "GA141",
    "Settings of a device-plugin configuration must take effect",
    default=Severity.WARN,
    remedy="remove it",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go TransformDevicePlugin; "
    "github.com/NVIDIA/k8s-device-plugin api/config/v1/config.go DisableResourceNamingInConfig, "
    "api/config/v1/flags.go UpdateFromCLIFlags",
    rows=("G-16", "G-18", "G-21", "G-22", "S-45"),
)
def effective_settings(configuration: Configuration) -> Iterator[Problem]:
    """The command line wins over the environment, which the operator sets, and that over the file.

    So a file under the operator cannot choose the MIG strategy once the ClusterPolicy does, nor how devices are listed.
    Other fields the plugin parses, and then ignores with a line in its log. With another MIG strategy than the file's, nodes
    offer other resources than the file was written for.
    """
    yield from _contradicted_strategy(configuration)
    yield from _set_by_operator(configuration)
    yield from _not_supported(configuration)
    yield from _before_its_time(configuration)


def _contradicted_strategy(configuration: Configuration) -> Iterator[Problem]:
    change, of_file = configuration.change, configuration.mig_strategy
    of_policy = policy_strategy(change)
    if not of_file or of_policy not in STRATEGIES or of_file == of_policy:
        return
    text = f"is {printable(of_file)}, and spec.mig.strategy of the ClusterPolicy is {of_policy}, which wins"
    if of_file == "none":
        # On nodes without MIG the strategies are all the same, and saying none there is good style.
        nodes = nodes_using(change, configuration.key)
        if nodes is UNKNOWN and default_key(change) != configuration.key:
            return
        capable = [] if nodes is UNKNOWN else [n for n in nodes if labels_of(n).get(MIG_CAPABLE_LABEL) == "true"]
        if nodes is not UNKNOWN and not capable:
            return
        known = "which nodes can do MIG is not known here" if nodes is UNKNOWN else f"{the_nodes(capable)} can do MIG"
        text = f"{text}; {known}"
    steps, _ = configuration.find("flags", "migStrategy")
    yield configuration.embedded.problem(steps, text, f"remove it, or write {of_policy}")


def _set_by_operator(configuration: Configuration) -> Iterator[Problem]:
    if not is_governed(configuration.change):
        return
    root = configuration.change.facts.policy_value("devicePlugin", "mps", "root")
    root = root if isinstance(root, str) and root else _MPS_ROOT
    for names, usual, variable in (
        (("failOnInitError",), (True,), "FAIL_ON_INIT_ERROR"),
        (("mpsRoot",), ("", root), "MPS_ROOT"),
        (("plugin", "deviceListStrategy"), ("envvar", ["envvar"]), "DEVICE_LIST_STRATEGY"),
        (("plugin", "deviceIDStrategy"), ("uuid",), "DEVICE_ID_STRATEGY"),
    ):
        steps, value = configuration.find("flags", *names)
        if value is not None and value not in usual:
            text = (
                f"is {shown(value)}, but the operator sets {variable} for the device plugin, which wins over the file"
            )
            remedy = f"remove it, or set {variable} in spec.devicePlugin.env of the ClusterPolicy"
            yield configuration.embedded.problem(steps, text, remedy)


def _not_supported(configuration: Configuration) -> Iterator[Problem]:
    ignored = "is read and then ignored; the device plugin would log: Customizing the"
    for name in ("gpus", "mig"):
        steps, value = configuration.find("resources", name)
        if isinstance(value, list) and value:
            text = f"{ignored} 'resources' field is not yet supported in the config. Ignoring..."
            yield configuration.embedded.problem(steps, text, of_key=True)
    for resource in configuration.shared_resources():
        where = f"in sharing.{resource.strategy.name}.resources is not yet supported in the config. Ignoring..."
        if "devices" in resource.item and resource.item["devices"] != "all":
            text = f"{ignored} 'devices' field {where}"
            yield configuration.embedded.problem(
                (*resource.steps, "devices"), text, "remove it; all devices are shared"
            )
        if _is_renamed(resource):
            text = f"is read and then ignored; the device plugin would log: Setting the 'rename' field {where}"
            remedy = f"remove it; renameByDefault: true names it {resource.name}.shared"
            yield configuration.embedded.problem((*resource.steps, "rename"), text, remedy)


def _is_renamed(resource: SharedResource) -> bool:
    rename: Any = resource.item.get("rename")
    if not isinstance(rename, str) or name_error(rename) is not None:
        return False
    by_default = resource.strategy.get("renameByDefault") is True
    return not (by_default and full_resource_name(rename) == f"{resource.name}.shared")


def _before_its_time(configuration: Configuration) -> Iterator[Problem]:
    if not is_governed(configuration.change):
        return
    version, mps = configuration.change.facts.policy_value("devicePlugin", "version"), configuration.strategy("mps")
    release = version if isinstance(version, str) else UNKNOWN
    limit, policy = NVIDIAFeature.OptionalLimitOfMPS, NVIDIAFeature.AllocationPolicy
    if mps is not None and mps.get("failRequestsGreaterThanOne") is False and limit.is_in(release) is False:
        text = f"is false, which the device plugin follows since v{limit.since}; spec.devicePlugin.version is {version}"
        steps = (*mps.steps, "failRequestsGreaterThanOne")
        yield configuration.embedded.problem(steps, text, "remove it; with MPS a request for more than one share fails")
    steps, value = configuration.find("flags", "plugin", "sharedDevicesAllocationPolicy")
    if value is not None and policy.is_in(release) is False:
        text = f"is ignored before v{policy.since} of the device plugin; spec.devicePlugin.version is {version}"
        yield configuration.embedded.problem(steps, text)
