"""Allocation results, in the JSON that Kubernetes writes into a claim's status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.features import Implementation
from policies.dra.allocation.reading import objects, text, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.dra.allocation.node_selectors import TargetNode
    from policies.dra.allocation.picks import Pick
    from policies.dra.allocation.question import Question
    from policies.dra.allocation.slices import NodeSelection
    from policies.dra.deviceclasses import DeviceClass
    from policies.dra.resource_claims import Claim, Subrequest
    from policies.kubernetes.objects import Object

__all__ = ["allocation_result"]

_SHARES = UUID("6f9e1a52-3f0e-5b0b-9d4b-4c1b8a3f7d10")
"""The namespace of our share ids. Kubernetes draws them at random; ours are the same for the same question."""


def allocation_result(
    question: Question, claim: Claim, picks: Sequence[Pick], selected: Sequence[Subrequest], node: TargetNode
) -> Object:
    """One claim's `status.allocation`, with the devices picked and the alternative that each request got.

    Raises:
        AllocationError: a slice's node selector has several terms, which an allocation cannot express.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go Allocate,
    createNodeSelector.
    """
    devices = {
        "results": [_device(question, claim, number, pick) for number, pick in enumerate(picks)],
        "config": [
            *_class_configs(selected, question.classes),
            *_claim_configs(claim, selected),
        ],
    }
    result: Object = {"devices": {key: value for key, value in devices.items() if value}}
    selector = _node_selector(question, claim, picks, node)
    return result if selector is None else {**result, "nodeSelector": selector}


def _device(question: Question, claim: Claim, number: int, pick: Pick) -> Object:
    device = pick.candidate.device
    result: Object = {
        "request": pick.subrequest.full_name,
        "driver": device.slice.driver,
        "pool": device.slice.pool,
        "device": device.name,
    }
    if pick.subrequest.has_admin_access:
        result["adminAccess"] = True
    if pick.subrequest.tolerations:
        result["tolerations"] = [dict(toleration) for toleration in pick.subrequest.tolerations]
    if question.features.binding_conditions:
        for field in ("bindingConditions", "bindingFailureConditions"):
            conditions = texts(device.document, field, device.where)
            if conditions:
                result[field] = list(conditions)
    if pick.consumed is not None:
        identity = claim.uid or f"{claim.namespace}/{claim.name}"
        result["shareID"] = str(uuid5(_SHARES, f"{identity}/{pick.subrequest.full_name}/{number}"))
    if pick.consumed:
        result["consumedCapacity"] = {name: str(amount) for name, amount in pick.consumed.items()}
    return result


def _class_configs(selected: Sequence[Subrequest], classes: Mapping[str, DeviceClass]) -> Iterator[Object]:
    """Each class's configs once, for all requests of the class."""
    for name in dict.fromkeys(subrequest.device_class for subrequest in selected):
        requests = [subrequest.full_name for subrequest in selected if subrequest.device_class == name]
        for config in classes[name].configs:
            yield {"source": "FromClass", "requests": list(requests), **_opaque(config.fields)}


def _claim_configs(claim: Claim, selected: Sequence[Subrequest]) -> Iterator[Object]:
    """The claim's configs for all requests or a selected one; a config for two requests comes twice."""
    for config in claim.configs:
        if not config.requests:
            yield {"source": "FromClaim", **_opaque(config.fields)}
            continue
        for subrequest in selected:
            if config.covers(subrequest):
                yield {"source": "FromClaim", "requests": list(config.requests), **_opaque(config.fields)}


def _opaque(config: Mapping[str, Any]) -> Object:
    return {"opaque": config["opaque"]} if config.get("opaque") is not None else {}


def _node_selector(question: Question, claim: Claim, picks: Sequence[Pick], node: TargetNode) -> Object | None:
    """From which nodes all of the devices can be reached; None for all nodes."""
    fields: list[Object] = []
    expressions: list[Object] = []
    for pick in picks:
        device = pick.candidate.device
        selection = device.slice.selection_of(device)
        binds = question.features.implementation is not Implementation.STABLE and device.document.get("bindsToNode")
        if selection.node_name is not None or binds:
            only = {"key": "metadata.name", "operator": "In", "values": [node.name]}
            return {"nodeSelectorTerms": [{"matchFields": [only]}]}
        for term in _terms(selection, claim):
            _add_new(objects(term, "matchFields", device.where), fields)
            _add_new(objects(term, "matchExpressions", device.where), expressions)
    term = {"matchExpressions": expressions, "matchFields": fields}
    return {"nodeSelectorTerms": [{key: value for key, value in term.items() if value}]} if any(term.values()) else None


def _terms(selection: NodeSelection, claim: Claim) -> list[Object]:
    terms = [] if selection.selector is None else objects(selection.selector, "nodeSelectorTerms", "nodeSelector")
    if len(terms) > 1:
        raise AllocationError(
            f"create NodeSelector for claim {claim.name}: "
            f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
        )
    return terms


def _add_new(requirements: Sequence[Object], known: list[Object]) -> None:
    """Add what is not there yet; in another order, values are the same."""
    for requirement in requirements:
        if all(_meaning(requirement) != _meaning(other) for other in known):
            known.append(requirement)


def _meaning(requirement: Object) -> tuple[str, str, frozenset[str]]:
    where = "nodeSelector"
    values = frozenset(texts(requirement, "values", where))
    return text(requirement, "key", where), text(requirement, "operator", where), values
