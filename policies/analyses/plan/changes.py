"""Applying: what a stored object becomes when a manifest of it is applied."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from policies.configuration.change import SPEC
from policies.configuration.cluster_facts import Facts
from policies.devices.device_taint_rules import KIND as TAINT_RULE
from policies.devices.device_taint_rules import with_time_of_taint
from policies.devices.deviceclasses import CREATED_LAST
from policies.fleet.device_plugin import nodes_with_both
from policies.fleet.known_classes import known_classes
from policies.fleet.offers.published import gpu_slices
from policies.fleet.operands import cluster_classes, gpu_cluster, is_deployed, operator_place
from policies.kubernetes.names import format_count, format_list, format_ranges, list_command
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import DEFAULT_NAMESPACE, helm_release, in_namespace, lookup, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.workloads import group_of
from policies.nvidia.identifiers import MIG_CONFIG_LABEL, PRODUCT_LABEL
from policies.nvidia.pod_conditions import requested_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import Key
    from policies.outcome import Situation, Subject


_MERGED_KINDS = frozenset({"Namespace", "Node"})
"""Kinds whose objects no manifest has whole: others write their labels and taints too."""
_MOST_DEPTH = 40
"""Deeper mappings are replaced whole; no object of Kubernetes comes near it."""


def apply_manifest(stored: Object | None, manifest: Object) -> Object:
    """The stored object after a manifest was applied.

    A manifest of a Node or Namespace is merged into the stored object, and a null removes a field. Every other manifest
    is the whole object: a field that it leaves out is gone, as with `kubectl apply` after the object was applied before.
    The status stays, because the API server ignores it in what users apply; without a stored object, that of the manifest
    counts.
    """
    if stored is None:
        created: Object = _merge({}, manifest, 0)
        return created
    sent = {key: value for key, value in manifest.items() if key != "status"}
    if manifest.get("kind") in _MERGED_KINDS:
        merged: Object = _merge(stored, sent, 0)
        return merged
    metadata = _merge(stored.get("metadata"), sent.get("metadata"), 0)
    status = {"status": stored["status"]} if "status" in stored else {}
    return {**_merge({}, sent, 0), "metadata": metadata, **status}


def _merge(stored: Any, sent: Any, depth: int) -> Any:
    """A value with another one merged into it: mappings by field, nulls remove, the rest is replaced."""
    if not isinstance(sent, dict) or depth > _MOST_DEPTH:
        return sent
    before = stored if isinstance(stored, dict) else {}
    kept = {key: value for key, value in before.items() if key not in sent}
    return kept | {key: _merge(before.get(key), value, depth + 1) for key, value in sent.items() if value is not None}


KINDS: Mapping[str, tuple[str, bool]] = {
    "ClusterGPUQuota": ("gpu-admission.io", False),
    "ClusterPolicy": ("nvidia.com", False),
    "ConfigMap": ("", True),
    "DeviceClass": ("resource.k8s.io", False),
    "DeviceTaintRule": ("resource.k8s.io", False),
    "GPUAdmissionPolicy": ("gpu-admission.io", False),
    "GPUCluster": ("nvidia.com", False),
    "GPUQuota": ("gpu-admission.io", True),
    "NVIDIADriver": ("nvidia.com", False),
    "Namespace": ("", False),
    "Node": ("", False),
    "ResourceClaimTemplate": ("resource.k8s.io", True),
    "ResourceSlice": ("resource.k8s.io", False),
}
"""The kinds of a plan, each with its API group, and whether its objects are in namespaces."""

_PREDICTED = (
    ("daemonsets", "tolerations"),
    ("dcgm", "enabled"),
    ("dcgmExporter", "enabled"),
    ("devicePlugin", "config"),
    ("devicePlugin", "enabled"),
    ("driver", "enabled"),
    ("gfd", "enabled"),
    ("kataSandboxDevicePlugin", "enabled"),
    ("mig", "strategy"),
    ("migManager", "config"),
    ("migManager", "enabled"),
    ("nodeStatusExporter", "enabled"),
    ("sandboxDevicePlugin", "enabled"),
    ("sandboxWorkloads", "defaultWorkload"),
    ("sandboxWorkloads", "enabled"),
)
"""Fields of a ClusterPolicy's spec whose effect is predicted."""
_PREDICTED_OF_CLUSTER = (
    ("daemonsets", "tolerations"),
    ("dcgm",),
    ("dcgmExporter",),
    ("draDriver", "computeDomains"),
    ("draDriver", "featureGates"),
    ("draDriver", "gpus"),
)
"""The same of a GPUCluster's; of the variables of its plugin for GPUs, only CONSUMABLE_SHARES changes what nodes have."""
_MOST_FIELDS = 12


class ChangeError(ValueError):
    """An object cannot be planned; the text is the reason, a clause."""


def key_of(document: Object, namespace: str, before: Situation) -> Key:
    """The key of an object of a plan.

    A ConfigMap without a namespace is the operator's, because no other is planned.

    Args:
        document: The object.
        namespace: The namespace of other objects that name none; empty for the default.
        before: The cluster before the change.

    Raises:
        ChangeError: It is of another kind, or has no name.
    """
    kind, name = str(document.get("kind")), name_of(document)
    group, is_namespaced = KINDS.get(kind, (None, False))
    if group is None or group != group_of(document):
        raise ChangeError(
            f"{kind} is not configuration that a plan is about ({format_list(list(KINDS), len(KINDS))}); "
            "gpu-admission review and gpu-admission explain are for pods, workloads and claims"
        )
    if not name:
        raise ChangeError(f"{kind} has no metadata.name; write the name of the object that is to be changed")
    if not is_namespaced:
        return kind, "", name
    return kind, namespace_of(document) or default_namespace(kind, name, namespace, before), name


def default_namespace(kind: str, name: str, namespace: str, before: Situation) -> str:
    """The namespace of an object that names none; empty for a cluster-scoped one.

    The other arguments are those of `key_of`.
    """
    if not KINDS[kind][1]:
        return ""
    if kind == "ConfigMap":
        return operator_place(before.view, before.settings).config_map_namespace(name, before.view)
    return namespace or DEFAULT_NAMESPACE


def changed_objects(
    manifests: Mapping[Key, Object], deleted: Iterable[Key], before: Situation
) -> dict[Key, Object | None]:
    """The objects as they would be stored, with manifests applied; None for what is deleted.

    A new DeviceClass is created after all others, which decides between those with one `extendedResourceName`.

    Raises:
        ChangeError: An object that is to be deleted does not exist.
    """
    found: dict[Key, Object | None] = {}
    for (kind, namespace, name), manifest in manifests.items():
        stored = before.view.get(kind, name, namespace)
        applied = in_namespace(apply_manifest(stored if isinstance(stored, dict) else None, manifest), namespace)
        if kind == "DeviceClass" and not isinstance(stored, dict):
            applied = {**applied, "metadata": {**applied["metadata"], "creationTimestamp": CREATED_LAST}}
        if kind == TAINT_RULE:
            applied = with_time_of_taint(applied, stored if isinstance(stored, dict) else None)
        found[kind, namespace, name] = applied
    for kind, namespace, name in deleted:
        if before.view.get(kind, name, namespace) is None:
            where = f" in namespace {namespace}" if namespace else ""
            raise ChangeError(f"{kind} {name}{where} does not exist, so it cannot be deleted")
        found[kind, namespace, name] = None
    return found


def find_unpredicted(objects: Mapping[Key, Object | None], before: Situation, after: Situation) -> Iterator[str]:
    """The parts of changed objects that the plan does not predict; sentences without full stops."""
    for (kind, namespace, name), document in objects.items():
        stored = before.view.get(kind, name, namespace)
        match kind:
            case "ClusterPolicy" | "GPUCluster":
                yield from _of_fields(kind, name, stored, document)
            case "NVIDIADriver" if document is not None and not _installs_first(stored, before, after):
                yield f"the effect of {kind} {name} is not predicted: drivers may start again on its nodes"
            case "ConfigMap":
                yield from _of_config_map(name, before, after)


def _installs_first(stored: Any, before: Situation, after: Situation) -> bool:
    """True if a new NVIDIADriver takes the place of the driver of a ClusterPolicy, which is predicted."""
    had_policy, has_policy = (isinstance(Facts(*each).cluster_policy(), dict) for each in (before, after))
    return not isinstance(stored, dict) and had_policy and not has_policy


def _of_fields(kind: str, name: str, stored: Any, document: Object | None) -> Iterator[str]:
    """The changed fields of a ClusterPolicy or GPUCluster that are not predicted."""
    if document is None or not isinstance(stored, dict):
        return
    predicted = _PREDICTED if kind == "ClusterPolicy" else _PREDICTED_OF_CLUSTER
    fields = list(_changed_fields(lookup(stored, SPEC), lookup(document, SPEC), predicted))
    if fields:
        shown = format_list([f"spec.{'.'.join(field)}" for field in fields], _MOST_FIELDS)
        yield f"{kind} {name}: the effect of {shown} is not predicted"


def _changed_fields(
    before: Any, after: Any, predicted: Sequence[tuple[str, ...]], above: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """The changed fields of a spec, at most two levels deep, without those that are predicted."""
    olds, news = (each if isinstance(each, dict) else {} for each in (before, after))
    for key in sorted({*olds, *news}, key=str):
        old, new, path = olds.get(key), news.get(key), (*above, str(key))
        if old == new or path in predicted:
            continue
        if not above and isinstance(new if new is not None else old, dict):
            yield from _changed_fields(old, new, predicted, path)
        else:
            yield path


def _of_config_map(name: str, before: Situation, after: Situation) -> Iterator[str]:
    if _readers(name, before, after):
        return
    if Facts(*after).cluster_policy() is UNKNOWN:
        yield (
            f"which nodes use ConfigMap {name} is unknown, because no ClusterPolicy is known; "
            f"add it: {list_command('ClusterPolicy')}"
        )
    else:
        yield f"ConfigMap {name} is not the one of the device plugin or the MIG manager; its effect is not predicted"


def _readers(name: str, before: Situation, after: Situation) -> set[str]:
    """The components that read a ConfigMap before or after the change."""
    return {
        component
        for situation in (before, after)
        for component in ("devicePlugin", "migManager")
        if Facts(*situation).policy_value(component, "config", "name") == name
    }


def find_delays(objects: Mapping[Key, Object | None], before: Situation, after: Situation) -> Iterator[str]:
    """The steps before the change takes effect; sentences without full stops."""
    for (kind, namespace, name), document in objects.items():
        stored = before.view.get(kind, name, namespace)
        if kind != "ConfigMap" or not isinstance(stored, dict) or document is None:
            continue
        if lookup(stored, ("data",)) == lookup(document, ("data",)):
            continue
        # Review warns about the device plugin, which reads a changed ConfigMap when it starts again (GA144).
        if "migManager" in _readers(name, before, after):
            yield f"the MIG manager reads the changed ConfigMap {name} when its pods start, or the label of a node changes"


def find_takeovers(subjects: Sequence[Subject], before: Situation, after: Situation) -> Iterator[str]:
    """The resources that another DeviceClass serves after the change, sentences without full stops."""
    was, will_be = known_classes(before.view), known_classes(after.view)
    for resource in sorted(was.extended_resources & will_be.extended_resources):
        old, new = was.standing_for(resource)[:1], will_be.standing_for(resource)[:1]
        if old == new:
            continue
        requesting = [each for each in subjects if resource in requested_names(each.document)]
        pods = format_count(sum(each.count for each in requesting), "pod")
        counts = f" ({pods} of {format_count(len(requesting), 'workload')})" if requesting else ""
        yield (
            f"DeviceClass {new[0]} takes {resource} over from DeviceClass {old[0]}: where DRA hands it out, pods that start "
            f"again get devices of {new[0]}{counts}"
        )


def find_cutover_risks(objects: Mapping[Key, Object | None], before: Situation, after: Situation) -> Iterator[str]:
    """The dangers that the changes of nodes and workloads do not show; sentences without full stops."""
    twice = sorted({*nodes_with_both(after.view)} - {*nodes_with_both(before.view)})
    if twice:
        yield (
            f"keep the device plugin or the DRA driver off {format_ranges(twice)}: both would hand out the same GPUs"
        )
    yield from _left_labels(before, after)
    cluster = gpu_cluster(after.view)
    if cluster is None or isinstance(Facts(*after).cluster_policy(), dict):
        return
    for name in cluster_classes(cluster):
        stored, later = (each.view.get("DeviceClass", name) for each in (before, after))
        if not isinstance(stored, dict) or not isinstance(later, dict):
            continue
        if objects.get(("DeviceClass", "", name), stored) is None:
            yield (
                f"DeviceClass {name} is missing until the operator creates it again, within a minute; pods and claims for it "
                "wait that long"
            )
        resource = lookup(stored, ("spec", "extendedResourceName"))
        if resource and not lookup(later, ("spec", "extendedResourceName")):
            yield (
                f"the operator overwrites DeviceClass {name} without extendedResourceName: pods that request {resource} get no "
                "devices of the class any more, unless conversion makes a claim of it"
            )
    if gpu_cluster(before.view) is None:
        yield from _other_drivers(cluster, before)


def _other_drivers(cluster: Object, before: Situation) -> Iterator[str]:
    """The DRA driver of another installation that a new GPUCluster meets, and the classes that go with it."""
    slices = before.view.derive(gpu_slices)
    if slices:
        yield (
            f"first uninstall the DRA driver that publishes the GPUs of {format_count(len(slices), 'node')}: both register as "
            "gpu.nvidia.com"
        )
    classes: defaultdict[str, list[str]] = defaultdict(list)
    for name in cluster_classes(cluster):
        stored = before.view.get("DeviceClass", name)
        if isinstance(stored, dict) and (release := helm_release(stored)):
            classes[f"{release.namespace}/{release.name}"].append(name)
    for owner, names in classes.items():
        one = len(names) == 1
        yield (
            f"the Helm release {owner} deletes {'DeviceClass' if one else 'DeviceClasses'} {format_list(names, len(names))} when "
            f"it is uninstalled; pods and claims for {'it' if one else 'them'} wait until the operator creates "
            f"{'it' if one else 'them'} again, within a minute"
        )


def _left_labels(before: Situation, after: Situation) -> Iterator[str]:
    """Labels of components that the operator removes: those that go, and those that go stale."""
    gone: list[str] = []
    stale: list[str] = []
    unread: list[str] = []
    loses_discovery, loses_manager = (_is_removed(component, before, after) for component in ("gfd", "migManager"))
    for node in before.view.known_objects("Node") if loses_discovery or loses_manager else ():
        later = after.view.get("Node", name_of(node))
        labels = labels_of(later) if isinstance(later, dict) else {}
        if loses_discovery and isinstance(later, dict) and PRODUCT_LABEL in labels_of(node):
            (stale if PRODUCT_LABEL in labels else gone).append(name_of(node))
        if loses_manager and MIG_CONFIG_LABEL in labels:
            unread.append(name_of(node))
    if gone:
        yield (
            f"the labels of GPU Feature Discovery, such as {PRODUCT_LABEL}, go from {format_count(len(gone), 'node')}; "
            "releases before 0.19 leave them, and nothing updates them then"
        )
    if stale:
        yield (
            f"the labels of GPU Feature Discovery stay on {format_count(len(stale), 'node')}, and nothing updates them; delete "
            "the NodeFeatures nvidia-features-for-NODE"
        )
    if unread:
        yield f"the label {MIG_CONFIG_LABEL} stays on {format_count(len(unread), 'node')}, and no MIG manager reads it"


def _is_removed(component: str, before: Situation, after: Situation) -> bool:
    """True if the operator deploys a component of the ClusterPolicy now, and does not after the change."""
    was, will_be = (Facts(*each).cluster_policy() for each in (before, after))
    return (
        isinstance(was, dict)
        and is_deployed(was, component)
        and not (will_be is UNKNOWN or (isinstance(will_be, dict) and is_deployed(will_be, component)))
    )
