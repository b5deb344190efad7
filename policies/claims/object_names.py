"""Names, labels and annotations of objects and of claims from templates, and the limits of lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.claims.claim_subject import ALL_KINDS, CLAIMS_AND_CLASSES, DEVICE_CLASSES
from policies.claims.field_errors import (
    LONGEST_LABEL,
    LONGEST_SUBDOMAIN,
    REQUIRED,
    as_dns_subdomain,
    as_label_value,
    forbidden,
    invalid,
    label_error,
    label_key_error,
    label_value_error,
    subdomain_error,
    too_long,
    too_many,
)
from policies.devices.deviceclasses import extended_resource_name
from policies.devices.resource_claims import MOST_ENTRIES
from policies.kubernetes.names import is_label_key
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.versions import Feature, version_text
from policies.kubernetes.view import UNKNOWN
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.claims.claim_subject import Subject


_MOST_ALTERNATIVES = 8
_MOST_TOLERATIONS = 16


@CLAIMS_AND_CLASSES.rule(
    "GA208",
    "Lists must not exceed the limits of the API server",
    remedy="split the claim: a pod can have several",
    source="k8s.io/api/resource/v1/types.go, the constants ending in MaxSize",
)
def list_lengths(subject: Subject) -> Iterator[Problem]:
    """The API server limits most lists of a claim to 32 entries, and firstAvailable to 8.

    Of tolerations, 16 is the documented limit, which is not enforced (seen on Kubernetes 1.36.2).
    """
    remedies = {
        "selectors": "join selectors by && in one expression",
        "constraints": "name several requests in one constraint",
        "config": "name several requests in one config",
    }
    fields = ("selectors", "config") if subject.kind == "DeviceClass" else ("requests", "constraints", "config")
    lists = [(subject.devices_path, name, lookup(subject.devices, (name,))) for name in fields]
    lists += [(each.path, "selectors", each.fields.get("selectors")) for each in subject.subrequests]
    for owner, name, items in lists:
        if isinstance(items, list) and len(items) > MOST_ENTRIES:
            yield Problem(owner / name, too_many(len(items), MOST_ENTRIES), remedies.get(name))
    for request in subject.requests:
        alternatives = request.fields.get("firstAvailable")
        if isinstance(alternatives, list) and len(alternatives) > _MOST_ALTERNATIVES:
            text = too_many(len(alternatives), _MOST_ALTERNATIVES)
            yield Problem(request.path / "firstAvailable", text, "keep the alternatives that matter most")
    for part in subject.referring:
        if len(part.requests) > MOST_ENTRIES:
            text = too_many(len(part.requests), MOST_ENTRIES)
            yield Problem(part.path / "requests", text, "leave it out to mean all requests")
    for subrequest in subject.subrequests:
        tolerations = subrequest.fields.get("tolerations")
        if isinstance(tolerations, list) and len(tolerations) > _MOST_TOLERATIONS:
            text = f"has {len(tolerations)} items; {_MOST_TOLERATIONS} is the documented limit"
            remedy = "tolerate all of a kind by operator: Exists"
            yield Problem(subrequest.path / "tolerations", text, remedy, severity=Severity.WARN)


_METADATA = FieldPath(["metadata"])
_OF_TEMPLATES = FieldPath(["spec", "metadata"])
_MOST_ANNOTATED = 256 * 1024
"""Bytes of all keys and values together. Source: k8s.io/apimachinery pkg/api/validation TotalAnnotationSizeLimitB."""


@ALL_KINDS.rule(
    "GA203",
    "Objects must have valid names, labels and annotations",
    remedy="write a name of lower case letters, digits, '-' and '.'",
    source="k8s.io/kubernetes pkg/apis/resource/validation ValidateResourceClaim, ValidateDeviceClass; "
    "k8s.io/apimachinery pkg/api/validation ValidateObjectMeta",
)
def object_names(subject: Subject) -> Iterator[Problem]:
    """Claims, templates and classes are named as DNS names are, or by a generateName that can begin one.

    A DeviceClass is in no namespace. The claims of a template are named by Kubernetes: of the metadata that a template
    gives them, only labels and annotations can be chosen. A label has a short value without blanks; the annotations of
    an object may have 256 KiB together.
    """
    metadata = subject.object.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        return
    yield from _name_problems(subject, metadata)
    yield from _labelling_problems(metadata, _METADATA)
    if subject.kind == "ResourceClaimTemplate":
        yield from _labelling_problems(lookup(subject.object, _OF_TEMPLATES), _OF_TEMPLATES)


def _name_problems(subject: Subject, metadata: dict[str, Any] | None) -> Iterator[Problem]:
    name, generated = _text(metadata, "name"), _text(metadata, "generateName")
    if name == "" and not generated:
        yield Problem(_METADATA / "name", f"{REQUIRED}: name or generateName is required", "add a name")
    elif name and (error := subdomain_error(name)):
        meant = as_dns_subdomain(name)
        remedy = "write a shorter one" if len(name) > LONGEST_SUBDOMAIN else f'write "{meant}"' if meant else None
        yield Problem(_METADATA / "name", invalid(name, error), remedy)
    # The API server adds to what it is given, so it may end in a dash or a dot.
    if generated and (error := subdomain_error(f"{generated}x")):
        yield Problem(_METADATA / "generateName", invalid(generated, error))
    namespace = _text(metadata, "namespace")
    if namespace and subject.kind in ("DeviceClass", "DeviceTaintRule"):
        text = forbidden(f"not allowed on this type; a {subject.kind} is for the whole cluster")
        yield Problem(_METADATA / "namespace", text, "remove it")
    elif namespace and (error := label_error(namespace)):
        yield Problem(_METADATA / "namespace", invalid(namespace, error), "write the name of a namespace")
    if subject.kind == "ResourceClaimTemplate":
        chosen = lookup(subject.object, _OF_TEMPLATES)
        for field, value in chosen.items() if isinstance(chosen, dict) else ():
            if value is not None and field in ("name", "generateName", "namespace", "finalizers", "ownerReferences"):
                text = forbidden("cannot be set; the claims of a template get labels and annotations from it")
                yield Problem(_OF_TEMPLATES / field, text, "remove it")


def _labelling_problems(metadata: Any, path: FieldPath) -> Iterator[Problem]:
    for key, value in _texts(metadata, "labels").items():
        if error := label_key_error(key):
            yield Problem(path / "labels" / key, invalid(key, error), _key_remedy(key))
        if error := label_value_error(value):
            meant = as_label_value(value)
            remedy = f'write "{meant}"' if 0 < len(meant) <= LONGEST_LABEL else "make it an annotation, or remove it"
            yield Problem(path / "labels" / key, invalid(value, error), remedy)
    annotations = _texts(metadata, "annotations")
    for key in annotations:
        if error := label_key_error(key.lower()):
            yield Problem(path / "annotations" / key, invalid(key, error), _key_remedy(key))
    size = sum(len(text.encode(errors="surrogatepass")) for pair in annotations.items() for text in pair)
    if size > _MOST_ANNOTATED:
        yield Problem(path / "annotations", f"{too_long(_MOST_ANNOTATED)}, and have {size}", "shorten the annotations")


def _texts(metadata: Any, field: str) -> dict[str, str]:
    """Labels or annotations, as far as they are texts: the rule on types reports others."""
    found = lookup(metadata, (field,))
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def _key_remedy(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    meant = f"{as_dns_subdomain(prefix)}{slash}{as_label_value(name)}"
    # A key may be too long, or nothing be left of a part of it.
    return "shorten its name, or correct it" if label_key_error(meant) else f'write "{meant}"'


def _text(metadata: dict[str, Any] | None, field: str) -> str | None:
    """A text of the metadata, empty where it is missing; None where something else is there."""
    value = (metadata or {}).get(field)
    return "" if value is None else value if isinstance(value, str) else None


_EXTENDED_RESOURCE = FieldPath(["spec", "extendedResourceName"])


@DEVICE_CLASSES.rule(
    "GA214",
    "The extended resource of a DeviceClass must be one that pods can request",
    remedy="write a name such as nvidia.com/gpu",
    source="k8s.io/apimachinery pkg/api/validate ExtendedResourceName",
)
def extended_resource_names(subject: Subject) -> Iterator[Problem]:
    """Pods request the extended resource to get devices of the class, so it must be a valid request.

    It has a domain, which is not Kubernetes' own, and with "requests." before it it can be the key of a quota. Kubernetes
    has the field with the feature gate DRAExtendedResource, on by default since 1.36.
    """
    name = lookup(subject.object, _EXTENDED_RESOURCE) if subject.kind == "DeviceClass" else None
    if not isinstance(name, str):
        return
    if error := _extended_resource_error(name):
        yield Problem(_EXTENDED_RESOURCE, invalid(name, f"must be a valid extended resource name: {error}"))
    running = subject.facts.view.server_version()
    # What the API server sends it has not dropped.
    if running is UNKNOWN or subject.served:
        return
    gate = Feature.DRAExtendedResource
    if gate.stage_in(running) is None:
        text = f"unknown field in Kubernetes {version_text(running)}; it came with {gate.introduced}"
        yield Problem(_EXTENDED_RESOURCE, text, "remove it, or upgrade the cluster")
        return
    stored = subject.facts.view.list_before_review("DeviceClass")
    # The API server keeps the field if a stored class has it, maybe this one.
    is_kept = stored is not UNKNOWN and any(extended_resource_name(each) is not None for each in stored)
    if not subject.facts.view.feature_gates().get(gate.name, gate.default_in(running)) and not is_kept:
        text = f"is dropped by Kubernetes {version_text(running)} unless the feature gate {gate.name} is on"
        yield Problem(_EXTENDED_RESOURCE, text, gate.remedy_in(running), severity=Severity.WARN)


def _extended_resource_error(name: str) -> str:
    if "/" not in name:
        return "a name must be a domain-prefixed path, such as 'example.com/my-prop'"
    if "kubernetes.io/" in name:
        return 'must not have "kubernetes.io/" domain'
    if name.startswith("requests."):
        return 'must not have "requests." prefix'
    if not is_label_key(f"requests.{name}"):
        return 'must be a label key with "requests." before it, as in a quota'
    return ""
