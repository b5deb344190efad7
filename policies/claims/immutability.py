"""Fields that cannot change or be set: the spec of a claim that exists, the status of a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.claims.field_errors import invalid
from policies.devices.resource_claims import Claim
from policies.kubernetes.names import shown
from policies.kubernetes.objects import FieldPath, lookup, replace_at
from policies.kubernetes.quantities import quantity_or_none
from policies.rules.checks import Problem, RulesOn
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.claims.claim_subject import Subject
    from policies.kubernetes.objects import Object


_SPEC = FieldPath(["spec"])
_REMEDIES = {
    "ResourceClaim": "delete the claim and create it again, or give it another name",
    "ResourceClaimTemplate": "create a template of another name, and let the pods name that one",
    "ComputeDomain": "delete the ComputeDomain and create it again, or give it another name",
}


@RulesOn("ResourceClaim", "ResourceClaimTemplate", "ComputeDomain").rule(
    "GA217",
    "The spec of a claim must not change",
    remedy="create another object",
    source="k8s.io/kubernetes pkg/apis/resource/validation ValidateResourceClaimUpdate; the CRD of dra-driver-nvidia-gpu",
)
def immutable_spec(subject: Subject) -> Iterator[Problem]:
    """A claim may be allocated when it is changed, so the spec of a claim or template cannot change.

    Only what is meant is compared: defaults, and the order of versions of the API, make no difference.
    """
    if subject.old is None or subject.kind not in _REMEDIES:
        return
    changed = list(
        _differences(_normalized_spec(subject.old, subject), _normalized_spec(subject.object, subject), _SPEC)
    )
    if not changed:
        return
    path, before, after = changed[0]
    at = len(subject.spec_path) + 3
    if subject.claim is not None and subject.claim.is_flat and path[at : at + 1] == ("exactly",):
        path = FieldPath((*path[:at], *path[at + 1 :]))  # v1beta1 has no `exactly`
    if subject.old.get("apiVersion") == subject.object.get("apiVersion"):
        # A default has no value as it is written.
        written = lookup(subject.old, path), lookup(subject.object, path)
        before, after = (
            meant if value is None else value for value, meant in zip(written, (before, after), strict=True)
        )
    rule = "A computeDomain.spec is immutable" if subject.kind == "ComputeDomain" else "field is immutable"
    text = invalid(after, rule) if isinstance(after, str | int) else f"Invalid value: {rule}"
    if before is None or isinstance(before, str | int):
        text += ", and was not there" if before is None else f", and was {shown(before)}"
    if more := len(changed) - 1:
        text += f"; {more} other field{'s differ' if more > 1 else ' differs'} as well"
    yield Problem(path, text, _REMEDIES[subject.kind])


def _normalized_spec(document: Object, subject: Subject) -> Any:
    """The spec with defaults, in the form of v1, without what is empty."""
    if subject.claim is None:
        spec: Any = document.get("spec")
        if isinstance(channel := lookup(spec, ("channel",)), dict):
            spec = {"numNodes": 0, **spec, "channel": {"allocationMode": "Single", **channel}}
        return _compact(spec)
    path, is_flat = subject.claim.devices_path / "requests", Claim(document).is_flat
    requests = lookup(document, path)
    if isinstance(requests, list):
        document = replace_at(document, path, [_request(request, is_flat=is_flat) for request in requests])
    return _compact(document.get("spec"))


def _request(request: Any, *, is_flat: bool) -> Any:
    """A request in the form of v1, with its defaults."""
    if not isinstance(request, dict):
        return request
    listed = request.get("firstAvailable")
    if is_flat and not listed:
        # v1beta1 does not know `exactly`; an API server drops it.
        exactly = {key: value for key, value in request.items() if key not in ("name", "firstAvailable", "exactly")}
        request = {"name": request.get("name"), "exactly": exactly}
    return {
        **request,
        "exactly": _with_defaults(request.get("exactly")),
        "firstAvailable": [_with_defaults(item) for item in listed] if isinstance(listed, list) else listed,
    }


def _with_defaults(fields: Any) -> Any:
    """The fields of a subrequest with their defaults, quantities in one spelling."""
    if not isinstance(fields, dict):
        return fields
    mode = fields.get("allocationMode") or "ExactCount"
    count = fields.get("count") or (1 if mode == "ExactCount" else 0)
    tolerations, capacity = fields.get("tolerations"), lookup(fields, ("capacity", "requests"))
    if isinstance(tolerations, list):
        defaulted = [{"operator": "Equal", **item} if isinstance(item, dict) else item for item in tolerations]
        fields = {**fields, "tolerations": defaulted}
    if isinstance(capacity, dict):
        # Quantities in one spelling: 1Gi is 1024Mi.
        amounts = {name: quantity_or_none(value) for name, value in capacity.items()}
        written = {name: capacity[name] if amount is None else str(amount) for name, amount in amounts.items()}
        fields = {**fields, "capacity": {"requests": written}}
    return {**fields, "allocationMode": mode, "count": count}


def _compact(value: Any) -> Any:
    """A value without nulls and empty lists and mappings, which mean as much as nothing."""
    if isinstance(value, dict):
        items = ((name, _compact(item)) for name, item in value.items())
        return {name: item for name, item in items if item is not None and item not in ({}, [])} or None
    return [_compact(item) for item in value] if isinstance(value, list) else value


def _differences(old: Any, new: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Any, Any]]:
    """Where two values differ, as deep as both have the same form."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*new, *old)):
            yield from _differences(old.get(name), new.get(name), path / name)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _differences(before, after, path / index)
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        yield path, old, new


@RulesOn("ResourceClaim", "ComputeDomain").rule(
    "GA218",
    "A new claim must not have a status",
    default=Severity.WARN,
    remedy="remove it",
    source="k8s.io/kubernetes pkg/registry/resource/resourceclaim/strategy.go PrepareForCreate",
)
def no_status(subject: Subject) -> Iterator[Problem]:
    """The scheduler writes which devices a claim has got; a status in a manifest is silently dropped.

    A claim that was exported from a cluster gets other devices when it is created again. Certain devices are chosen by a
    selector, on their uuid for example.
    """
    if subject.old is None and subject.object.get("status") and subject.kind in ("ResourceClaim", "ComputeDomain"):
        yield Problem(FieldPath(["status"]), "is dropped when the object is created; Kubernetes writes it later")
