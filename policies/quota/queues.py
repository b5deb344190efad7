"""Rules on queues of Kueue and Volcano: flavors of no node, and resources that no pod requests.

They are reviewed in files and by the audit only: no webhook is called for a queue.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.devices.deviceclasses import class_remedy
from policies.devices.native_quotas import DEVICES_OF_CLASS, REQUESTS
from policies.devices.published_devices import gpu_groups
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.known_classes import known_classes
from policies.kubernetes.names import closest, format_list, shown
from policies.kubernetes.neighbours import (
    KUEUE_CONFIGURATION,
    KUEUE_FLAVOR,
    KUEUE_QUEUES,
    RESOURCES_OF_NEIGHBOURS,
    VOLCANO_QUEUE,
)
from policies.kubernetes.objects import FieldPath, items_at, lookup, mapping_at, mappings_at, name_of
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.yaml import YAMLError, load_document
from policies.nvidia.identifiers import GPU_RESOURCE, PRODUCT_LABEL, VENDOR_PREFIX
from policies.nvidia.mig import IMPLICIT_PREFIX, correct_name, parse_resource
from policies.nvidia.product_names import labels_like
from policies.nvidia.product_proposals import propose_labels
from policies.nvidia.products import KNOWN_PRODUCTS, Product
from policies.rules.checks import Problem, RulesOn
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.request import Request


_NODE_LABELS = FieldPath(["spec", "nodeLabels"])
_MAPPINGS = ("resources", "deviceClassMappings")
_GPU_WORDS = re.compile(
    r"gpu|nvidia|accelerator|mig-|rtx|(?<![a-z0-9])(?:a(?:10|16|30|40|100)|g?[bh](?:20|100|200|300)|l(?:4|20|40)|t4|v100)[a-z]?(?![a-z0-9])",
    re.IGNORECASE,
)
"""Words in names and labels of what is about GPUs."""
_MOST_NAMED = 3
_VOLCANO_CLASS = "deviceclass/"
_CLASS_IN_VOLCANO = re.compile(rf"(?:[^/]+\.)?{_VOLCANO_CLASS}(.+)")


def validate(request: Request, view: ClusterView) -> Iterator[Finding]:
    """Findings on a queue, a flavor or Kueue's Configuration that is created or updated."""
    document = request.object
    if request.operation == "DELETE" or request.subresource or not isinstance(document, dict):
        return
    kind = request.group, request.kind
    if kind == KUEUE_FLAVOR:
        yield from selected_labels(document, view)
    elif kind in (*KUEUE_QUEUES, VOLCANO_QUEUE):
        yield from counted_resources(document, view, is_kueue=kind != VOLCANO_QUEUE)
    else:
        yield from mapped_classes(document, view)


@RulesOn("ResourceFlavor", cluster_scoped=True).rule(
    "GA511",
    "A ResourceFlavor must select labels that GPU nodes have",
    default=Severity.WARN,
    remedy="compare with the labels of the nodes",
    source="kubernetes-sigs/kueue apis/kueue/v1beta2/resourceflavor_types.go ResourceFlavorSpec; "
    "pkg/scheduler/flavorassigner/flavorassigner.go",
)
def selected_labels(flavor: Object, view: ClusterView) -> Iterator[Problem]:
    """Kueue adds the labels of a flavor to the node selector of the pods that it admits.

    If no node has them, Kueue admits the pods by a quota that stands for nothing, and they stay Pending. Such a node may come
    later, so this is a warning. Without known nodes, only products that do not exist are reported.
    """
    labels = {key: str(value) for key, value in mapping_at(flavor, _NODE_LABELS).items()}
    if not any(_GPU_WORDS.search(text) for text in (name_of(flavor), *labels, *labels.values())):
        return
    fleet = gpu_nodes(view)
    nodes = () if fleet is UNKNOWN else fleet.all
    if any(all(node.labels.get(key) == value for key, value in labels.items()) for node in nodes):
        return
    unmatched = [key for key, value in labels.items() if all(node.labels.get(key) != value for node in nodes)]
    product = labels.get(PRODUCT_LABEL)
    if not nodes:
        if product is not None and Product.parse(product).name not in KNOWN_PRODUCTS:
            meant = list(map(shown, labels_like(product, KNOWN_PRODUCTS)))
            remedy = f"write the label {PRODUCT_LABEL} of its nodes"
            if meant:
                remedy += f", such as {format_list(meant, _MOST_NAMED)}"
            yield Problem(_NODE_LABELS / PRODUCT_LABEL, f"{shown(product)} is no known product of a GPU", remedy)
    elif unmatched:
        for key in unmatched:
            yield _unmatched_label(key, labels[key], {node.labels[key] for node in nodes if key in node.labels})
    elif labels:
        yield Problem(_NODE_LABELS, f"no node has all of these labels: {format_list([*labels])}")


def _unmatched_label(key: str, value: str, seen: set[str]) -> Problem:
    """The problem of a label that no node has with this value.

    Args:
        key: The label.
        value: Its value in the flavor.
        seen: Its values on nodes.
    """
    if not seen:
        return Problem(_NODE_LABELS / key, f"no node has the label {key}, so pods of this flavor stay Pending")
    text = f"{shown(value)} is the {key} of no node, so pods of this flavor stay Pending"
    if key == PRODUCT_LABEL and (proposal := propose_labels(value, seen)):
        return Problem(_NODE_LABELS / key, proposal.message(text), proposal.remedy())
    meant = closest(value, seen) if key != PRODUCT_LABEL else None
    remedy = f"write {shown(meant)}" if meant else f"write what nodes have: {format_list(sorted(seen), _MOST_NAMED)}"
    return Problem(_NODE_LABELS / key, text, remedy)


@RulesOn(*(kind for _, kind in (*KUEUE_QUEUES, VOLCANO_QUEUE)), cluster_scoped=True).rule(
    "GA512",
    "A queue must count resources that pods can request",
    default=Severity.WARN,
    remedy="write the resource as pods request it, such as nvidia.com/gpu",
    source="kubernetes-sigs/kueue pkg/scheduler/flavorassigner/flavorassigner.go findFlavorForPodSets; "
    "volcano-sh/volcano pkg/scheduler/api/resource_info.go NewResource, pkg/scheduler/plugins/capacity/capacity.go "
    "parseDRAResourceList",
)
def counted_resources(queue: Object, view: ClusterView, *, is_kueue: bool) -> Iterator[Problem]:
    """A queue counts what pods request, under the names that they request it by.

    Kueue never admits a workload whose resource its ClusterQueue does not cover. Volcano ignores names that are no
    resource, and then limits nothing. Claims count in Kueue by the names of deviceClassMappings, and in Volcano by
    deviceclass/<class>.
    """
    if not is_kueue:
        for fields in (("capability",), ("deserved",), ("guarantee", "resource")):
            for name in mapping_at(queue, ("spec", *fields)):
                yield from _volcano_problems(FieldPath(["spec", *fields, name]), name, view)
        return
    logical = _logical_names(view)
    for index, each in enumerate(mappings_at(queue, ("spec", "resourceGroups"))):
        for number, name in enumerate(map(str, items_at(each, ("coveredResources",)))):
            path = FieldPath(["spec", "resourceGroups", index, "coveredResources", number])
            if logical is not None and name in logical:
                continue
            if logical is not None and "/" not in name and _GPU_WORDS.search(name):
                text = f"no pod requests {name}, and no entry of Kueue's deviceClassMappings has this name"
                yield Problem(path, text, f"write {format_list(sorted(logical), _MOST_NAMED)}" if logical else None)
            else:
                yield from _unrequested_name(path, name, view)


def _volcano_problems(path: FieldPath, name: str, view: ClusterView) -> Iterator[Problem]:
    """The problems of a name by which a queue of Volcano counts nothing."""
    if match := _CLASS_IN_VOLCANO.fullmatch(name):
        yield from _missing_class(path, match[1], view, _VOLCANO_CLASS)
    elif name.endswith(DEVICES_OF_CLASS):
        text = "Volcano counts the devices of a class by another name"
        yield Problem(path, text, f'write "{_VOLCANO_CLASS}{name.removesuffix(DEVICES_OF_CLASS)}"')
    elif "/" not in name and _GPU_WORDS.search(name):
        yield Problem(path, f"{name} is no resource, so Volcano ignores it", f'write "{GPU_RESOURCE}"')
    else:
        yield from _unrequested_name(path, name, view)


def _unrequested_name(path: FieldPath, name: str, view: ClusterView) -> Iterator[Problem]:
    """The problem of a name that no pod requests; none for resources that are no GPUs."""
    resource = name.removeprefix(REQUESTS).removeprefix("limits.")
    if not resource.startswith((VENDOR_PREFIX, IMPLICIT_PREFIX)):
        return
    if resource != name:
        yield Problem(path, f"{name} is a name of ResourceQuotas; pods request {resource}", f'write "{resource}"')
    elif name.startswith(IMPLICIT_PREFIX):
        yield from _missing_class(path, name.removeprefix(IMPLICIT_PREFIX), view, IMPLICIT_PREFIX)
    else:
        yield from _unoffered_resource(path, name, view)


def _unoffered_resource(path: FieldPath, name: str, view: ClusterView) -> Iterator[Problem]:
    """The problem of a resource that no node offers.

    None where GPUs are handed out by DRA: a queue counts what jobs request before their pods are converted.
    """
    nodes, classes, groups = gpu_nodes(view), known_classes(view), gpu_groups(view)
    if nodes is UNKNOWN or groups is UNKNOWN or not nodes.all or not classes.are_listed:
        if name not in RESOURCES_OF_NEIGHBOURS and (correct := correct_name(name)):
            yield Problem(path, "NVIDIA's device plugin advertises no resource of this name", f'write "{correct}"')
        return
    offered = {*nodes.offers, *classes.extended_resources, *RESOURCES_OF_NEIGHBOURS}
    if name not in offered and not (groups and parse_resource(name) is not None):
        meant, wait = closest(name, offered), "wait for a node that offers it"
        text = f"no node offers {name}, and no DeviceClass stands for it"
        yield Problem(path, text, f'write "{meant}", or {wait}' if meant else wait)


def _missing_class(path: FieldPath, name: str, view: ClusterView, prefix: str = "") -> Iterator[Problem]:
    """The problem of a class that does not exist; none while classes are unknown.

    Args:
        path: Where the class is named.
        name: The class.
        view: The cluster.
        prefix: What stands before the name of a class there.
    """
    classes = known_classes(view)
    if classes.are_listed and name not in classes:
        text = f"there is no DeviceClass {shown(name)}, so nothing is counted"
        yield Problem(path, text, class_remedy(name, classes, before=prefix))


@RulesOn("ConfigMap", "Configuration").rule(
    "GA513",
    "Kueue's deviceClassMappings must name DeviceClasses that exist",
    default=Severity.WARN,
    remedy="write the name of a DeviceClass that exists",
    source="kubernetes-sigs/kueue pkg/dra/mapper.go PopulateFromConfiguration; pkg/dra/claims.go "
    "GetResourceRequestsForResourceClaimTemplates",
)
def mapped_classes(document: Object, view: ClusterView) -> Iterator[Problem]:
    """Kueue counts a claim by the mapping of its DeviceClass, and fails a workload whose class has none.

    A mapping of a class that does not exist counts nothing, and the class that was meant has no mapping.
    """
    for path, configuration in _configurations(document):
        for index, mapping in enumerate(mappings_at(configuration, _MAPPINGS)):
            for number, name in enumerate(items_at(mapping, ("deviceClassNames",))):
                place = path or FieldPath([*_MAPPINGS, index, "deviceClassNames", number])
                yield from _missing_class(place, str(name), view)


def maps_device_classes(document: Object) -> bool:
    """True if a ConfigMap has a Configuration of Kueue with deviceClassMappings."""
    return any(lookup(each, _MAPPINGS) for _, each in _configurations(document))


def _configurations(document: Object) -> Iterator[tuple[FieldPath, Any]]:
    """Kueue's Configurations in an object: itself, with an empty path, or texts of a ConfigMap."""
    if document.get("kind") == KUEUE_CONFIGURATION[1]:
        yield FieldPath(()), document
    for key, text in mapping_at(document, ("data",)).items():
        if isinstance(text, str) and _MAPPINGS[-1] in text and KUEUE_CONFIGURATION[0] in text:
            try:
                yield FieldPath(["data", key]), load_document(text).value
            except YAMLError:
                # Kueue does not start with it, and it maps no class.
                continue


def _logical_names(view: ClusterView) -> frozenset[str] | None:
    """The names under which Kueue counts devices; None if its Configuration is unknown."""
    objects = (*view.known_or_reviewed("ConfigMap"), *view.known_or_reviewed(KUEUE_CONFIGURATION[1]))
    configurations = [configuration for each in objects for _, configuration in _configurations(each)]
    if not configurations:
        return None
    names: set[str] = set()
    for configuration in configurations:
        names |= {str(mapping.get("name")) for mapping in mappings_at(configuration, _MAPPINGS)}
        for transformation in mappings_at(configuration, ("resources", "transformations")):
            names |= mapping_at(transformation, ("outputs",)).keys()
    return frozenset(names)
