"""Conversions: a pod to convert, the result, and the record from which its template is made."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from policies.conversion.constraints import NodeConstraints
from policies.conversion.device_layout import ContainerRequest, device_layout
from policies.conversion.gpu_slices import MOST_SLICES, SHARE, Slice
from policies.conversion.templates import ExactRequest, PrioritizedRequest, cel_expressions, claim_template
from policies.devices.deviceclasses import GPU_CLASS, MIG_CLASS
from policies.devices.resource_claims import MOST_DEVICES
from policies.kubernetes.bounds import BoundedCache, remember, text_length
from policies.kubernetes.names import format_count, is_attribute_name, is_dns_label, is_dns_subdomain
from policies.kubernetes.neighbours import HAMI_MEMORY
from policies.kubernetes.pods import has_pod_constraints_shape
from policies.kubernetes.quantities import mebibytes_text
from policies.nvidia.identifiers import DRIVER
from policies.nvidia.labels import Subject, device_predicate, profile_is
from policies.nvidia.mig import MIGProfile, parse_resource
from policies.nvidia.predicates import TRUE, Predicate, Shareable, all_of, any_of, negate
from policies.nvidia.wishes import Wish
from policies.rules.decision import Template
from policies.rules.settings import AlignedNIC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.conversion.constraints import ConstraintError
    from policies.conversion.device_layout import Piece
    from policies.kubernetes.objects import FieldPath
    from policies.kubernetes.pods import Pod
    from policies.kubernetes.resourceslices import Device
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.patch import Editor
    from policies.rules.settings import GPUAdmissionPolicy


_to_json = json.JSONEncoder(separators=(",", ":")).encode
_LONGEST = 256 * 1024
"""Characters of all annotations of an object together (k8s.io/apimachinery TotalAnnotationSizeLimitB)."""
_MOST_PARSED = 128 * 1024
"""Characters of records that stay parsed. The pods of a workload have equal ones, and each is read in every review."""
_MOST_CLAIMS = 256 * 1024
"""Characters of records, and of the templates made from them, that are kept."""


@dataclass(frozen=True, slots=True)
class RecordedClaim:
    """The claim that a record stands for; equal for records with equal annotations."""

    pieces: tuple[Piece, ...]
    """The requests of the claim."""
    predicates: Mapping[str, Predicate]
    """The predicate that a device must meet to serve each resource, whatever part of it the pod gets."""
    expressions: Mapping[str, list[str]]
    """The selectors of the devices of each resource, in CEL."""
    name: str
    """The name of the template."""
    spec: dict[str, Any]
    """The template's `spec`."""


_CLAIMS: BoundedCache[str, RecordedClaim] = BoundedCache(_MOST_CLAIMS)
"""By annotation: the predicates and the hash take a third of the time of a conversion."""


_CAPACITY = re.compile(r"[A-Za-z][A-Za-z0-9]{0,31}")


@dataclass(frozen=True, slots=True)
class DevicePart:
    """The part of each device that a resource stands for.

    Without values, it is the device as the driver hands it out by default.
    """

    shares: int = 0
    """The requested shares."""
    memory: int = 0
    """The requested memory in MiB."""
    unused: tuple[str, ...] = ()
    """Capacities of which it takes nothing, and a claim that does not name them takes all; sorted."""
    is_shareable: bool | None = None
    """True for devices that claims share, False for those that one claim holds alone; None for both."""

    @property
    def condition(self) -> Predicate:
        """The predicate that such devices meet."""
        if self.is_shareable is None:
            return TRUE
        return Shareable() if self.is_shareable else negate(Shareable())

    def words(self) -> str:
        """The part for people: `1 share of a device`."""
        if self.shares:
            return f"{format_count(self.shares, 'share')} of a device"
        if self.memory:
            return f"{mebibytes_text(self.memory)} of the memory of a device"
        return "a device that claims share" if self.is_shareable else "a device that is not shared"

    def fits(self, device: Device) -> bool:
        """True if the device has the part while nothing holds it."""
        amounts = {"shares": self.shares, "memory": self.memory * 2**20, **dict.fromkeys(self.unused, 0)}
        return self.condition.matches(device) and all(
            device.capacity.get(f"{DRIVER}/{name}", -1) >= amount
            for name, amount in amounts.items()
            if amount or name in self.unused
        )


UUID = f"{DRIVER}/uuid"
"""The attribute in which the devices of a claim differ. MIG devices have none with DynamicMIG."""


@dataclass(frozen=True)
class ConversionRecord:
    """Everything that a pod's template is made from; equal records give equal templates."""

    containers: tuple[ContainerRequest, ...]
    """In the order in which they start, without those that name no GPU resource."""
    constraints: NodeConstraints = field(default_factory=NodeConstraints)
    """The conditions on GPU labels that were in the pod's node selector and affinity."""
    gpu: Literal["gpu", "mig"] = "gpu"
    """The meaning of `nvidia.com/gpu`: a whole GPU, or a MIG device (single strategy)."""
    profile: MIGProfile | None = None
    """The profile of those MIG devices, if it comes from the nodes and not from the pod's own selector."""
    shares: Mapping[str, int] = field(default_factory=dict)
    """The number of shares of a device that a resource stands for, if the driver shares devices."""
    wish: Wish = field(default_factory=Wish)
    """The pod's wish when it was converted; its annotations may have been edited since."""
    slices: tuple[Slice, ...] = ()
    """The alternatives for the part of a GPU that it wishes, if it wishes one; the preferred one first."""
    foreign: Mapping[str, int] = field(default_factory=dict)
    """The resources of another system, in each container with a GPU, from which the wish was read."""
    nic: AlignedNIC | None = None
    """The network device beside each GPU, as the settings had it when the pod was converted."""
    classes: Mapping[str, str] = field(default_factory=dict)
    """The DeviceClass whose implicit name replaced each resource, if the pod was renamed and has no template."""
    memory: Mapping[str, int] = field(default_factory=dict)
    """The memory in MiB of a device that a resource stands for, if the driver shares devices by memory."""
    unused: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Capacities of which a resource takes nothing, and a claim that does not name them takes all."""
    shareable: Mapping[str, bool] = field(default_factory=dict)
    """True for resources that stand for devices which claims share, False for devices that one claim holds alone."""
    apart: tuple[str, ...] = ()
    """Resources that stand for parts of different devices, sorted."""

    @property
    def requested(self) -> tuple[str, ...]:
        """The resources that the pod requested at least once."""
        counts = (item for each in self.containers for item in each.resources.items())
        return tuple(dict.fromkeys(resource for resource, count in counts if count))

    @property
    def is_divided(self) -> bool:
        """True if a resource stands for a part of a device, whose rest others may hold."""
        return bool(self.shares or self.memory or self.slices or any(self.shareable.values()))

    @cached_property
    def claim(self) -> RecordedClaim:
        """The claim of this pod, if it has one.

        Raises:
            ConstraintError: a condition on node labels has no equivalent.
            TooManyDevicesError: more devices than a claim can hold.
        """
        known = _CLAIMS.get(self.annotation)
        if known is not None:
            return known
        pieces = device_layout(self.containers, with_nics=self.nic is not None)
        predicates: dict[str, Predicate] = {}
        expressions: dict[str, list[str]] = {}
        for resource in dict.fromkeys(piece.resource for piece in pieces):
            if parts := self.slices_of(resource):
                alternatives = [part.predicate(self.wish, self.constraints) for part in parts]
                predicates[resource] = any_of(alternatives)
                expressions[resource] = [text for each in alternatives for text in cel_expressions(each)]
                continue
            predicates[resource] = self.predicate(resource)
            expressions[resource] = cel_expressions(self._condition(resource, predicates[resource]))
        requests: list[ExactRequest | PrioritizedRequest] = []
        constraints: list[dict[str, Any]] = []
        for piece in pieces:
            requests.append(self._request(piece, predicates[piece.resource]))
            if self.nic is not None:
                requests.append(ExactRequest(piece.nic, self.nic.device_class, 1))
                constraints.append({"requests": [*piece.requests], "matchAttribute": self.nic.match_attribute})
        apart = [piece.request for piece in pieces if piece.resource in self.apart]
        shared = [piece for piece in pieces if SHARE in self.slices_of(piece.resource)]
        if sum(piece.count for piece in shared) > 1:
            apart += [piece.request if len(self.slices) == 1 else f"{piece.request}/{SHARE.name}" for piece in shared]
        if apart:
            constraints.append({"requests": apart, "distinctAttribute": UUID})
        template = claim_template("", requests, constraints)
        made = RecordedClaim(pieces, predicates, expressions, template.name, template.spec)
        _CLAIMS.put(self.annotation, made, len(self.annotation) + len(str(made.spec)))
        return made

    def _condition(self, resource: str, predicate: Predicate) -> Predicate:
        """The predicate of a resource, with that of the part that it stands for."""
        return all_of([predicate, self.part(resource).condition])

    def _request(self, piece: Piece, predicate: Predicate) -> ExactRequest | PrioritizedRequest:
        """The request for one piece."""
        parts = self.slices_of(piece.resource)
        if len(parts) == 1:
            return parts[0].request(piece.request, piece.count, self.wish, self.constraints)
        if parts:
            requests = [part.request(part.name, piece.count, self.wish, self.constraints) for part in parts]
            return PrioritizedRequest(piece.request, requests)
        part, condition = self.part(piece.resource), self._condition(piece.resource, predicate)
        device_class = self.device_class(piece.resource)
        return ExactRequest(piece.request, device_class, piece.count, condition, part.shares, part.memory, part.unused)

    def predicate(self, resource: str) -> Predicate:
        """The predicate that a device must meet to serve a resource, whatever part of it the pod gets.

        Raises:
            ConstraintError: a condition on node labels has no equivalent.
        """
        subject = self.subject(resource)
        profile = profile_is(subject.profile) if subject.profile else TRUE
        return all_of([profile, self.constraints.predicate(subject), device_predicate(self.wish, subject)])

    def part(self, resource: str) -> DevicePart:
        """The part of each device that a resource stands for."""
        return DevicePart(
            self.shares.get(resource, 0),
            self.memory.get(resource, 0),
            tuple(self.unused.get(resource, ())),
            self.shareable.get(resource),
        )

    def with_parts(self, parts: Mapping[str, DevicePart], apart: tuple[str, ...]) -> ConversionRecord:
        """The record with the parts that resources stand for.

        The parts of the resources in `apart` are of different devices.
        """
        return replace(
            self,
            shares={resource: part.shares for resource, part in parts.items() if part.shares},
            memory={resource: part.memory for resource, part in parts.items() if part.memory},
            unused={resource: part.unused for resource, part in parts.items() if part.unused},
            shareable={name: part.is_shareable for name, part in parts.items() if part.is_shareable is not None},
            apart=apart,
        )

    def shared_condition(self) -> ConstraintError | None:
        """The first condition on node labels that selects shared GPUs, for any resource of the pod."""
        errors = (error for name in self.requested for error in self.constraints.errors(self.subject(name)))
        return next((error for error in errors if error.shared), None)

    def subject(self, resource: str) -> Subject:
        """The kind of device that a resource stands for here."""
        parsed = parse_resource(resource)
        if parsed is not None and parsed.mig:
            return Subject("mig", parsed.profile)
        return Subject("mig-single", self.profile) if self.gpu == "mig" else Subject("gpu")

    def slices_of(self, resource: str) -> tuple[Slice, ...]:
        """The alternatives that a resource becomes; empty if it stands for devices of one kind."""
        if not self.slices:
            return ()
        parsed = parse_resource(resource)
        return () if parsed is None or parsed.mig else self.slices

    def device_classes(self, resource: str) -> tuple[str, ...]:
        """The DeviceClasses of which a resource becomes a device, each once."""
        alternatives = (part.device_class for part in self.slices_of(resource))
        return tuple(dict.fromkeys(alternatives)) or (self.device_class(resource),)

    def device_class(self, resource: str) -> str:
        """The DeviceClass that a resource becomes, if it stands for devices of one kind."""
        if resource in self.classes:
            return self.classes[resource]
        return GPU_CLASS if self.subject(resource).kind == "gpu" else MIG_CLASS

    def template(self, namespace: str) -> Template:
        """The template of this pod.

        Raises:
            ConstraintError: a condition on node labels has no equivalent.
            TooManyDevicesError: more devices than a claim can hold.
        """
        return Template(namespace, self.claim.name, self.claim.spec)

    @cached_property
    def annotation(self) -> str:
        """The annotation's value: JSON without default values."""
        document: dict[str, Any] = {
            "containers": [
                {"name": each.name, "kind": each.kind, "resources": dict(sorted(each.resources.items()))}
                for each in self.containers
            ]
        }
        if self.constraints.node_selector:
            document["nodeSelector"] = dict(sorted(self.constraints.node_selector.items()))
        if self.constraints.terms is not None:
            document["nodeSelectorTerms"] = self.constraints.terms
        if self.gpu != "gpu":
            document["gpu"] = self.gpu
        if self.profile is not None:
            document["profile"] = str(self.profile)
        if self.shares:
            document["shares"] = dict(sorted(self.shares.items()))
        if self.memory:
            document["memory"] = dict(sorted(self.memory.items()))
        if self.unused:
            document["unused"] = {resource: [*names] for resource, names in sorted(self.unused.items())}
        if self.shareable:
            document["shareable"] = dict(sorted(self.shareable.items()))
        if self.apart:
            document["apart"] = [*self.apart]
        if self.wish:
            document["wish"] = self.wish.words()
        if self.slices:
            document["slices"] = [str(each) for each in self.slices]
        if self.foreign:
            document["foreign"] = dict(sorted(self.foreign.items()))
        if self.nic is not None:
            document["nic"] = {"deviceClass": self.nic.device_class, "matchAttribute": self.nic.match_attribute}
        if self.classes:
            document["classes"] = dict(sorted(self.classes.items()))
        return _to_json(document)

    @classmethod
    def parse(cls, text: str) -> ConversionRecord | None:
        """Parse a record; None if `annotation` would write it differently, or if it is too long to be stored."""
        return _parse(text) if len(text) <= _LONGEST else None

    def is_sound(self) -> bool:
        """True if a conversion can have written such values."""
        return (
            all(
                is_dns_label(each.name)
                and each.kind in ("container", "init", "sidecar")
                and all(
                    parse_resource(resource) is not None and type(count) is int and 0 <= count <= MOST_DEVICES
                    for resource, count in each.resources.items()
                )
                for each in self.containers
            )
            and self.gpu in ("gpu", "mig")
            and all(type(count) is int and count > 0 for count in self.shares.values())
            and all(type(memory) is int and memory > 0 for memory in self.memory.values())
            and all(_CAPACITY.fullmatch(name) for names in self.unused.values() for name in names)
            and all(type(is_shareable) is bool for is_shareable in self.shareable.values())
            and set(self.apart) <= set(self.requested)
            and len(set(self.slices)) == len(self.slices) <= MOST_SLICES
            and (not self.slices or (self.wish.gpu_memory is not None and not self.classes))
            and all(
                name == HAMI_MEMORY and type(count) is int and count == self.wish.gpu_memory
                for name, count in self.foreign.items()
            )
            and (not self.classes or self.classes.keys() == {*self.requested})
            and all(map(is_dns_subdomain, self.classes.values()))
            and (self.nic is None) == (self.wish.nic is None)
            and (
                self.nic is None
                or (
                    not (self.is_divided or self.apart or self.classes)
                    and is_dns_subdomain(self.nic.device_class)
                    and is_attribute_name(self.nic.match_attribute)
                )
            )
            and has_pod_constraints_shape(self.constraints.node_selector, self.constraints.terms)
        )


@remember(_MOST_PARSED, text_length)
def _parse(text: str) -> ConversionRecord | None:
    try:
        document = json.loads(text)
        record = ConversionRecord(
            containers=tuple(
                ContainerRequest(item["name"], item["kind"], item["resources"]) for item in document["containers"]
            ),
            constraints=NodeConstraints(document.get("nodeSelector", {}), document.get("nodeSelectorTerms")),
            gpu=document.get("gpu", "gpu"),
            profile=MIGProfile.parse(document["profile"]) if "profile" in document else None,
            shares=document.get("shares", {}),
            memory=document.get("memory", {}),
            unused={resource: tuple(names) for resource, names in document.get("unused", {}).items()},
            shareable=document.get("shareable", {}),
            apart=tuple(document.get("apart", ())),
            wish=Wish.of(document.get("wish", {})),
            slices=tuple(map(Slice.parse, document.get("slices", ()))),
            foreign=document.get("foreign", {}),
            nic=AlignedNIC(document["nic"]["deviceClass"], document["nic"]["matchAttribute"])
            if "nic" in document
            else None,
            classes=document.get("classes", {}),
        )
        return record if record.is_sound() and json.loads(record.annotation) == document else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class ConversionCandidate:
    """A pod that requests GPUs and is to be converted by a strategy."""

    pod: Pod
    namespace: str
    view: ClusterView
    settings: GPUAdmissionPolicy
    record: ConversionRecord
    places: dict[str, FieldPath]
    """The path at which each resource is first requested."""
    obstacles: tuple[Finding, ...]
    """The reasons why a claim cannot express what the pod requests; `record` is incomplete then."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of converting a pod."""

    obstacles: tuple[Finding, ...] = ()
    """The reasons why the pod cannot or must not be converted; it stays as it is unless one of them refuses it."""
    notices: tuple[Finding, ...] = ()
    """Other findings about the pod."""
    edits: Editor | None = None
    """The converted pod; None if there is nothing to convert."""
    template: Template | None = None
    """The template that the converted pod refers to; None if it needs none."""
    record: ConversionRecord | None = None
    """The record of a converted pod; None if the pod is not converted."""
    repeated: bool = False
    """True if the pod was converted before; `edits` then only remove what was added since."""
