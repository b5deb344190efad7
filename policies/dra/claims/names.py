"""Names: of the objects, and where they may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.field_errors import REQUIRED, forbidden, invalid
from policies.dra.claims.name_errors import LONGEST_SUBDOMAIN, as_dns_subdomain, label_error, subdomain_error
from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject

_METADATA = FieldPath(["metadata"])
_OF_TEMPLATES = FieldPath(["spec", "metadata"])


@CLAIMS.rule(
    "GA203",
    "Objects have names that they can have",
    default=Severity.DENY,
    remedy="write a name of lower case letters, digits, '-' and '.'",
    source="k8s.io/kubernetes pkg/apis/resource/validation ValidateResourceClaim, ValidateDeviceClass",
    wrong="""
    apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: gpu_large, namespace: team-a}
    spec: {}""",
    right="""
    apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: gpu-large}
    spec: {}""",
)
def object_names(subject: Subject) -> Iterator[Problem]:
    """Claims, templates and classes are named as DNS names are, or by a generateName that can begin one.

    A DeviceClass is in no namespace. The claims of a template are named by Kubernetes: of the metadata that a template
    gives them, only labels and annotations can be chosen.
    """
    metadata = subject.object.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        return
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
