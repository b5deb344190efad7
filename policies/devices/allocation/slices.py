"""ResourceSlices and their devices, and the nodes that reach them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.devices.allocation.reading import AllocationError, flag, integer, mapping, objects, text, texts
from policies.devices.allocation.usage import nanos
from policies.devices.device_taint_rules import PoolTaints
from policies.kubernetes.names import is_label_key, is_label_value
from policies.kubernetes.nodes import NodeIndex, labels_of
from policies.kubernetes.objects import name_of
from policies.kubernetes.resourceslices import device_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.kubernetes.objects import Object


_PLAIN = frozenset({"string", "int", "bool"})

PoolId = tuple[str, str]
"""Driver and pool name; in their order pools are searched."""


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """From which nodes the devices of a slice, or one device, can be reached."""

    node_name: str | None = None
    all_nodes: bool = False
    selector: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, document: Mapping[str, Any], where: str) -> NodeSelection:
        """Read the three fields that a slice's spec and a device have in common."""
        node_name = document.get("nodeName")
        return cls(
            node_name=None if node_name is None else text(document, "nodeName", where),
            all_nodes=flag(document, "allNodes", where),
            selector=None if document.get("nodeSelector") is None else mapping(document, "nodeSelector", where),
        )

    @property
    def is_set(self) -> bool:
        """True if any of the three is set."""
        return bool(self.node_name) or self.all_nodes or self.selector is not None


@dataclass(frozen=True, slots=True, eq=False)
class AllocatableDevice:
    """A published device with its counters, taints and conditions. Equal only to itself."""

    name: str
    slice: Slice
    document: Mapping[str, Any]
    attributes: Mapping[str, Any]
    doubtful_attributes: tuple[str, ...]
    """Attributes on which a selector may fail that does not read them, such as versions, which can be invalid."""
    is_shareable: bool
    """True if several claims can hold it at once (`allowMultipleAllocations`)."""
    counters: tuple[tuple[str, str, int], ...]
    """The amounts that it consumes of its pool's counters: set, counter, billionths."""
    counter_sets: tuple[str, ...]
    """The sets of which it consumes counters, if perhaps none of them."""
    taints: tuple[Mapping[str, Any], ...]
    """Those of its driver, then those of DeviceTaintRules."""
    binding_conditions: tuple[str, ...]

    @classmethod
    def read(cls, entry: dict[str, Any], owner: Slice) -> AllocatableDevice:
        """Read one entry of `spec.devices`."""
        name, document = text(entry, "name", owner.where), device_fields(entry)
        where = f"{owner.where}, device {name}"
        attributes = mapping(document, "attributes", where)
        is_shareable = flag(document, "allowMultipleAllocations", where)
        consumptions = objects(document, "consumesCounters", where)
        taints, added = tuple(objects(document, "taints", where)), owner.added_taints.of_device(name)
        return cls(
            name=name,
            slice=owner,
            document=document,
            attributes=attributes,
            doubtful_attributes=tuple([name for name, value in attributes.items() if not _is_plain(value)]),
            is_shareable=is_shareable,
            counters=tuple(_counter_amounts(consumptions, where)) if consumptions else (),
            counter_sets=tuple([text(each, "counterSet", where) for each in consumptions]),
            taints=(*taints, *added) if taints else added,
            binding_conditions=texts(document, "bindingConditions", where),
        )

    @property
    def id(self) -> str:
        """`driver/pool/device`."""
        return f"{self.slice.driver}/{self.slice.pool}/{self.name}"

    @property
    def where(self) -> str:
        """The name in messages."""
        return f"{self.slice.where}, device {self.name}"


_NO_TAINTS = PoolTaints()


class Slice:
    """A ResourceSlice; its devices are read on first use."""

    def __init__(self, document: Object, *, added_taints: PoolTaints = _NO_TAINTS, is_part: bool = False) -> None:
        """Read what identifies the pool.

        Args:
            document: The ResourceSlice.
            added_taints: The taints that DeviceTaintRules add to its devices.
            is_part: True for counters that were split off a slice that counts already.

        Raises:
            AllocationError: a field has the wrong type.
        """
        self.is_part = is_part
        self.added_taints = added_taints
        self._document = document
        self._tainted: Slice | None = None
        """The last result of `with_taints`."""
        self.name = name_of(document)
        self.where = f"ResourceSlice {self.name}"
        self._spec = mapping(document, "spec", self.where)
        pool = mapping(self._spec, "pool", self.where)
        self.driver = text(self._spec, "driver", self.where)
        self.pool = text(pool, "name", self.where)
        self.path = f"{self.driver}/{self.pool}"
        """The pool, as the names of its devices begin."""
        self.generation = integer(pool, "generation", self.where)
        self.slice_count = integer(pool, "resourceSliceCount", self.where)
        self.selection = NodeSelection.read(self._spec, self.where)
        self.has_counters = bool(self._spec.get("sharedCounters"))
        self.selects_per_device = flag(self._spec, "perDeviceNodeSelection", self.where)
        self.is_partitioned = self.has_counters or self._spec.get("perDeviceNodeSelection") is not None
        """True if it uses fields that clusters without partitionable devices do not know."""

    @property
    def pool_id(self) -> PoolId:
        """The pool that it is a part of."""
        return self.driver, self.pool

    @cached_property
    def parts(self) -> tuple[Slice, ...]:
        """The slice; if it has devices and counters, each apart, in slices of the same name."""
        if not (self.has_counters and self._spec.get("devices")):
            return (self,)
        devices, counters = (
            {field: value for field, value in self._spec.items() if field != other}
            for other in ("sharedCounters", "devices")
        )
        metadata = {"name": self.name}
        return (
            Slice({"metadata": metadata, "spec": devices}, added_taints=self.added_taints),
            Slice({"metadata": metadata, "spec": counters}, is_part=True),
        )

    @cached_property
    def devices(self) -> tuple[AllocatableDevice, ...]:
        """Its devices in their order."""
        return tuple(AllocatableDevice.read(device, self) for device in objects(self._spec, "devices", self.where))

    def with_taints(self, added: PoolTaints) -> Slice:
        """The slice with the taints that DeviceTaintRules add to its devices; itself if there are none.

        Source: k8s.io/dynamic-resource-allocation/resourceslice/tracker applyPatches.
        """
        if not added.rules:
            return self
        if self._tainted is None or self._tainted.added_taints != added:
            self._tainted = Slice(self._document, added_taints=added, is_part=self.is_part)
        return self._tainted

    @cached_property
    def counter_sets(self) -> tuple[tuple[str, Mapping[str, int]], ...]:
        """Its counter sets: name, and billionths by counter."""
        return tuple(
            (text(counter_set, "name", self.where), _amounts(counter_set, f"{self.where}, sharedCounters"))
            for counter_set in objects(self._spec, "sharedCounters", self.where)
        )

    def selection_of(self, device: AllocatableDevice) -> NodeSelection:
        """From which nodes one of its devices can be reached."""
        return NodeSelection.read(device.document, device.where) if self.selects_per_device else self.selection


def _is_plain(attribute: Any) -> bool:
    return isinstance(attribute, dict) and len(attribute) == 1 and not _PLAIN.isdisjoint(attribute)


def _amounts(counter_set: Mapping[str, Any], where: str) -> dict[str, int]:
    counters = mapping(counter_set, "counters", where)
    return {name: nanos(mapping(counters, name, where).get("value", "0"), f"{where}, {name}") for name in counters}


def _counter_amounts(consumptions: Iterable[Mapping[str, Any]], where: str) -> list[tuple[str, str, int]]:
    return [
        (text(consumption, "counterSet", where), name, amount)
        for consumption in consumptions
        for name, amount in _amounts(consumption, f"{where}, consumesCounters").items()
    ]


_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")


class TargetNode:
    """The node for which claims are to be allocated."""

    def __init__(self, document: Object) -> None:
        """Read the name of a Node."""
        self.name = name_of(document)
        self._document = document

    @cached_property
    def _labels(self) -> NodeIndex:
        return NodeIndex([{"metadata": {"name": self.name, "labels": labels_of(self._document)}}])

    def matches(self, selection: NodeSelection) -> bool:
        """True if devices can be reached from it.

        Raises:
            AllocationError: the node selector is invalid.

        Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating NodeMatches.
        """
        if selection.node_name:
            return selection.node_name == self.name
        if selection.all_nodes:
            return True
        if selection.selector is None:
            return False
        problems = list(dict.fromkeys(_problems(selection.selector)))
        if problems:
            said = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise AllocationError(f"failed to parse node selector {_kubernetes_text(selection.selector)}: {said}")
        required = {"requiredDuringSchedulingIgnoredDuringExecution": selection.selector}
        return self._labels.select({"affinity": {"nodeAffinity": required}}) != 0


def _problems(selector: Mapping[str, Any]) -> Iterator[str]:
    """The errors of Kubernetes' parser; a term without any expression matches nothing and is skipped.

    Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity, k8s.io/apimachinery/pkg/labels NewRequirement.
    """
    for number, term in enumerate(objects(selector, "nodeSelectorTerms", "nodeSelector")):
        path = f"nodeSelectorTerms[{number}]"
        for position, expression in enumerate(objects(term, "matchExpressions", path)):
            yield from _expression_problems(expression, f"{path}.matchExpressions[{position}]")
        for position, expression in enumerate(objects(term, "matchFields", path)):
            yield from _field_problems(expression, f"{path}.matchFields[{position}]")


def _expression_problems(expression: Mapping[str, Any], path: str) -> Iterator[str]:
    key, operator, values = _parts(expression, path)
    if operator not in _OPERATORS:
        yield _unsupported_operator(path, operator, _OPERATORS)
        return
    if not is_label_key(key):
        yield f'{path}.key: Invalid value: "{key}": is no label key'
    if operator in ("In", "NotIn") and not values:
        yield f"{path}.values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    if operator in ("Exists", "DoesNotExist") and values:
        yield f"{path}.values: Invalid value: {_json(values)}: values set must be empty for exists and does not exist"
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield (
                f"{path}.values: Invalid value: {_json(values)}: "
                f"for 'Gt', 'Lt' operators, exactly one value is required"
            )
        for position, value in enumerate(values):
            if not _is_integer(value):
                yield (
                    f'{path}.values[{position}]: Invalid value: "{value}": '
                    f"for 'Gt', 'Lt' operators, the value must be an integer"
                )
    for position, value in enumerate(values):
        if not is_label_value(value):
            yield f'{path}.values[{position}][{key}]: Invalid value: "{value}": is no label value'


def _field_problems(expression: Mapping[str, Any], path: str) -> Iterator[str]:
    _, operator, values = _parts(expression, path)
    if operator not in _FIELD_OPERATORS:
        yield _unsupported_operator(path, operator, _FIELD_OPERATORS)
    elif len(values) != 1:
        yield f"{path}.values: Invalid value: {_json(values)}: must have one element"


def _parts(expression: Mapping[str, Any], path: str) -> tuple[str, str, tuple[str, ...]]:
    return text(expression, "key", path), text(expression, "operator", path), texts(expression, "values", path)


def _unsupported_operator(path: str, operator: str, supported: tuple[str, ...]) -> str:
    listed = ", ".join(f'"{name}"' for name in supported)
    return f'{path}.operator: Unsupported value: "{operator}": supported values: {listed}'


def _is_integer(value: str) -> bool:
    digits = value.removeprefix("+") if value.startswith("+") else value.removeprefix("-")
    return digits.isascii() and digits.isdigit() and -(2**63) <= int(value[:64]) < 2**63 and len(value) < 64


def _json(values: tuple[str, ...]) -> str:
    return "[" + ",".join(f'"{value}"' for value in values) + "]"


def _kubernetes_text(selector: Mapping[str, Any]) -> str:
    """A node selector as Kubernetes' generated `String` method spells it."""
    terms = "".join(
        "NodeSelectorTerm{"
        f"MatchExpressions:{_requirements(term.get('matchExpressions'))},"
        f"MatchFields:{_requirements(term.get('matchFields'))},}},"
        for term in selector.get("nodeSelectorTerms") or []
    )
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{terms}}},}}"


def _requirements(expressions: list[Mapping[str, Any]] | None) -> str:
    spelled = "".join(
        f"NodeSelectorRequirement{{Key:{expression.get('key') or ''},Operator:{expression.get('operator') or ''},"
        f"Values:[{' '.join(expression.get('values') or [])}],}},"
        for expression in expressions or []
    )
    return f"[]NodeSelectorRequirement{{{spelled}}}"
