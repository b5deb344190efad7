"""Names, labels and annotations: of the objects, and of the claims that a template makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.field_errors import (
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
)
from policies.dra.claims.subject import CLAIMS
from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject

_METADATA = FieldPath(["metadata"])
_OF_TEMPLATES = FieldPath(["spec", "metadata"])
_MOST_ANNOTATED = 256 * 1024
"""Bytes of all keys and values together. Source: k8s.io/apimachinery pkg/api/validation TotalAnnotationSizeLimitB."""


@CLAIMS.rule(
    "GA203",
    "Objects must have valid names, labels and annotations",
    default=Severity.DENY,
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
        yield problem(_METADATA / "name", f"{REQUIRED}: name or generateName is required", "add a name")
    elif name and (error := subdomain_error(name)):
        yield problem(_METADATA / "name", invalid(name, error), _write(name))
    # The API server adds to what it is given, so it may end in a dash or a dot.
    if generated and (error := subdomain_error(f"{generated}x")):
        yield problem(_METADATA / "generateName", invalid(generated, error))
    yield from _namespace_problems(subject, _text(metadata, "namespace"))
    if subject.kind == "ResourceClaimTemplate":
        chosen = lookup(subject.object, _OF_TEMPLATES)
        for field, value in chosen.items() if isinstance(chosen, dict) else ():
            if value is not None and field in ("name", "generateName", "namespace", "finalizers", "ownerReferences"):
                text = forbidden("cannot be set; the claims of a template get labels and annotations from it")
                yield problem(_OF_TEMPLATES / field, text, "remove it")


def _labelling_problems(metadata: Any, path: FieldPath) -> Iterator[Problem]:
    for key, value in _texts(metadata, "labels").items():
        here = path / "labels" / key
        if error := label_key_error(key):
            yield problem(here, invalid(key, error), _write_key(key))
        if error := label_value_error(value):
            meant = as_label_value(value)
            remedy = f'write "{meant}"' if 0 < len(meant) <= LONGEST_LABEL else "make it an annotation, or remove it"
            yield problem(here, invalid(value, error), remedy)
    annotations = _texts(metadata, "annotations")
    for key in annotations:
        if error := label_key_error(key.lower()):
            yield problem(path / "annotations" / key, invalid(key, error), _write_key(key))
    size = sum(len(text.encode(errors="surrogatepass")) for pair in annotations.items() for text in pair)
    if size > _MOST_ANNOTATED:
        yield problem(path / "annotations", f"{too_long(_MOST_ANNOTATED)}, and have {size}", "shorten the annotations")


def _texts(metadata: Any, field: str) -> dict[str, str]:
    """Labels or annotations, as far as they are texts: other types are told by the rule on types."""
    found = lookup(metadata, (field,))
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def _write_key(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    meant = f"{as_dns_subdomain(prefix)}{slash}{as_label_value(name)}"
    # A key may be too long, or nothing be left of a part of it.
    return "shorten its name, or correct it" if label_key_error(meant) else f'write "{meant}"'


def _namespace_problems(subject: Subject, namespace: str | None) -> Iterator[Problem]:
    path = _METADATA / "namespace"
    if subject.kind == "DeviceClass":
        if namespace:
            text = forbidden("not allowed on this type; a DeviceClass is for the whole cluster")
            yield problem(path, text, "remove it")
    elif namespace and (error := label_error(namespace)):
        yield problem(path, invalid(namespace, error), "write the name of a namespace")


def _text(metadata: dict[str, Any] | None, field: str) -> str | None:
    """A text of the metadata, empty where it is missing; None where something else is there."""
    value = (metadata or {}).get(field)
    return "" if value is None else value if isinstance(value, str) else None


def _write(name: str) -> str | None:
    if len(name) > LONGEST_SUBDOMAIN:
        return "write a shorter one"
    meant = as_dns_subdomain(name)
    return f'write "{meant}"' if meant else None
