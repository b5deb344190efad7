"""Applying: what a stored object becomes when a manifest of it is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.configuration.change import SPEC
from policies.configuration.cluster_facts import Facts
from policies.devices.device_taint_rules import KIND as TAINT_RULE
from policies.devices.device_taint_rules import with_time_of_taint
from policies.devices.deviceclasses import CREATED_LAST
from policies.fleet.known_classes import known_classes
from policies.fleet.operator_place import operator_place
from policies.kubernetes.names import format_count, format_list, list_command
from policies.kubernetes.objects import DEFAULT_NAMESPACE, in_namespace, lookup, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.workloads import group_of
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
    ("devicePlugin", "config"),
    ("devicePlugin", "enabled"),
    ("kataSandboxDevicePlugin", "enabled"),
    ("mig", "strategy"),
    ("migManager", "config"),
    ("migManager", "enabled"),
    ("sandboxDevicePlugin", "enabled"),
    ("sandboxWorkloads", "defaultWorkload"),
    ("sandboxWorkloads", "enabled"),
)
"""Fields of a ClusterPolicy's spec whose effect is predicted."""
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
            case "ClusterPolicy":
                yield from _of_policy(name, stored, document)
            case "GPUCluster" | "NVIDIADriver":
                yield f"the effect of {kind} {name} is not predicted: drivers and DRA drivers may start again on its nodes"
            case "ConfigMap":
                yield from _of_config_map(name, before, after)


def _of_policy(name: str, stored: Any, document: Object | None) -> Iterator[str]:
    if document is None:
        yield f"ClusterPolicy {name} is deleted: when the operator removes the driver from a node is not predicted"
        return
    fields = list(_changed_fields(lookup(stored, SPEC), lookup(document, SPEC)))
    if not isinstance(stored, dict) or not fields:
        return
    shown = format_list([f"spec.{'.'.join(field)}" for field in fields], _MOST_FIELDS)
    yield f"ClusterPolicy {name}: the effect of {shown} is not predicted"


def _changed_fields(before: Any, after: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The changed fields of a spec, at most two levels deep, without those that are predicted."""
    olds, news = (each if isinstance(each, dict) else {} for each in (before, after))
    for key in sorted({*olds, *news}, key=str):
        old, new, path = olds.get(key), news.get(key), (*above, str(key))
        if old == new or path in _PREDICTED:
            continue
        if not above and isinstance(new if new is not None else old, dict):
            yield from _changed_fields(old, new, path)
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
