"""Objects: raw JSON as the API server writes it, field paths into it, and dataclasses as such JSON.

pydantic is imported when JSON of a dataclass is read or written, because text needs none of it.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from policies.kubernetes.names import HELM, is_dns_subdomain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic import TypeAdapter


Record = TypeVar("Record")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class FieldPath(tuple[str | int, ...]):
    """A place in a JSON document: mapping keys and list indexes, outermost first.

    It prints as Kubernetes prints field paths (`spec.containers[0].resources.limits[nvidia.com/gpu]`) and converts to
    the JSON Pointer that a patch needs.
    """

    __slots__ = ()

    def __truediv__(self, step: str | int) -> FieldPath:
        return FieldPath((*self, step))

    def __str__(self) -> str:
        text = ""
        for step in self:
            if isinstance(step, int) or not _IDENTIFIER.fullmatch(step):
                text += f"[{step}]" if str(step).isprintable() else f"[{step!r}]"
            else:
                text += f".{step}" if text else step
        return text

    def pointer(self) -> str:
        """The path as a JSON Pointer (RFC 6901)."""
        text = ""
        for step in self:
            text += f"/{step}" if isinstance(step, int) else "/" + step.replace("~", "~0").replace("/", "~1")
        return text


def lookup(document: Any, path: Iterable[str | int]) -> Any:
    """The value at `path`, or None where the path leads nowhere."""
    for step in path:
        if isinstance(document, dict):
            document = document.get(step)
        elif isinstance(document, list) and isinstance(step, int) and -len(document) <= step < len(document):
            document = document[step]
        else:
            return None
    return document


def items_at(document: Any, path: Iterable[str | int]) -> list[Any]:
    """The items of the list at `path`; empty if the value is missing or not a list."""
    value = lookup(document, path)
    return value if isinstance(value, list) else []


def mapping_at(document: Any, path: Iterable[str | int]) -> dict[str, Any]:
    """The mapping at `path`; empty if the value is missing or not a mapping."""
    value = lookup(document, path)
    return value if isinstance(value, dict) else {}


def mappings_at(document: Any, path: Iterable[str | int]) -> list[dict[str, Any]]:
    """The mappings in the list at `path`, without other items; empty if the value is not a list."""
    return [item for item in items_at(document, path) if isinstance(item, dict)]


def replace_at(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """A copy of a document with another value at `path`, which the document must have."""
    if not path:
        return value
    changed = document.copy()
    changed[path[0]] = replace_at(document[path[0]], path[1:], value)
    return changed


Object = dict[str, Any]
"""A Kubernetes object. Nothing is re-serialised through typed models, so no newer field is ever dropped."""
DEFAULT_NAMESPACE = "default"
"""The namespace of objects and contexts that name none."""


def name_of(document: Object) -> str:
    """`metadata.name`; empty if it is missing."""
    name = lookup(document, ("metadata", "name"))
    return name if isinstance(name, str) else ""


def generate_name_of(document: Object) -> str:
    """`metadata.generateName`; empty if it is missing. Several objects may have the same."""
    name = lookup(document, ("metadata", "generateName"))
    return name if isinstance(name, str) else ""


def namespace_of(document: Object) -> str:
    """`metadata.namespace`; empty if it is missing."""
    namespace = lookup(document, ("metadata", "namespace"))
    return namespace if isinstance(namespace, str) else ""


def uid_of(document: Object) -> str:
    """`metadata.uid`; empty if it is missing, as in manifests."""
    uid = lookup(document, ("metadata", "uid"))
    return uid if isinstance(uid, str) else ""


def has_ended(pod: Object) -> bool:
    """True if a pod's containers have ended for good."""
    return lookup(pod, ("status", "phase")) in ("Succeeded", "Failed")


def controller_of(document: Object) -> Object | None:
    """The ownerReference of the controller, of which an object has at most one; None if it has none."""
    owners = mappings_at(document, ("metadata", "ownerReferences"))
    return next((owner for owner in owners if owner.get("controller") is True), None)


@dataclass(frozen=True, slots=True)
class HelmRelease:
    """The release of Helm that an object belongs to."""

    name: str
    namespace: str


def helm_release(document: Object) -> HelmRelease | None:
    """The release that an object belongs to by the annotations of Helm; None without valid ones."""
    annotations = mapping_at(document, ("metadata", "annotations"))
    name, namespace = annotations.get(f"{HELM}name"), annotations.get(f"{HELM}namespace") or DEFAULT_NAMESPACE
    # Commands contain both; a name that begins with a dash would be an option.
    return HelmRelease(str(name), str(namespace)) if is_dns_subdomain(name) and is_dns_subdomain(namespace) else None


def with_conditions(before: Sequence[Object], conditions: Iterable[Object], generation: int, time: str) -> list[Object]:
    """The conditions of a status with some replaced or added, each with the time of its last transition.

    Args:
        before: The stored conditions.
        conditions: The conditions to set.
        generation: The generation of the spec that they are about.
        time: Now, in RFC 3339.
    """
    after = list(before)
    for condition in conditions:
        place = next(
            (index for index, each in enumerate(after) if lookup(each, ("type",)) == condition["type"]), len(after)
        )
        known = after[place] if place < len(after) else {}
        since = known.get("lastTransitionTime") if known.get("status") == condition["status"] else None
        after[place : place + 1] = [
            {**condition, "observedGeneration": generation, "lastTransitionTime": since or time},
        ]
    return after


def in_namespace(document: Object, namespace: str) -> Object:
    """The object with a namespace filled in if it has none, as the API server does before admission."""
    metadata = document.get("metadata")
    if not namespace or not isinstance(metadata, dict | None) or namespace_of(document):
        return document
    return {**document, "metadata": {**(metadata or {}), "namespace": namespace}}


_TEXTS_OF_METADATA = ("labels", "annotations")


def fill_nulls(document: Any, field: str = "") -> Any:
    """The object or list with empty text for null in labels, annotations, node selectors and ConfigMaps.

    The API server decodes it so. Metadata and pod specs inside of it, as workloads have them, are read as well; its status,
    which no author writes, is not. The given document is not changed, and returned itself if it has no such null.

    Args:
        document: The object, a list, or a value in it.
        field: The name of the field that has the value.

    Source: Go's encoding/json, which sets the key of a map and leaves its text empty; k8s.io/apimachinery ObjectMeta.
    """
    if isinstance(document, list):
        items = [fill_nulls(item) if isinstance(item, dict | list) else item for item in document]
        return document if all(new is old for new, old in zip(items, document, strict=True)) else items
    if not isinstance(document, dict):
        return document
    changed = {}
    for key, value in document.items():
        if key == "status" or not isinstance(value, dict | list):
            continue
        is_text = (
            (field == "metadata" and key in _TEXTS_OF_METADATA)
            or (key == "nodeSelector" and "containers" in document)
            or (key == "data" and document.get("kind") == "ConfigMap")
        )
        if is_text and isinstance(value, dict):
            has_null = None in value.values()
            filled = {name: "" if text is None else text for name, text in value.items()} if has_null else value
        else:
            filled = fill_nulls(value, key)
        if filled is not value:
            changed[key] = filled
    return {**document, **changed} if changed else document


@cache
def documents_adapter(kind: Any) -> TypeAdapter[list[Any]]:
    """Reads, writes and describes lists of values of a type.

    pydantic takes no configuration for a dataclass itself, but for a list of it.
    """
    from pydantic import TypeAdapter

    return TypeAdapter(
        list[kind], config={"alias_generator": _camel, "json_schema_serialization_defaults_required": True}
    )


def filled_record(kind: type[Record], *sources: object, **own: Any) -> Record:
    """A dataclass for JSON with the fields of other objects, of which the first one with a field gives it.

    Args:
        kind: The dataclass.
        sources: The objects.
        own: Fields that differ from those of the objects.
    """
    for field in fields(kind):  # type: ignore[arg-type]  # always a dataclass
        if field.name not in own:
            found = (getattr(each, field.name, MISSING) for each in sources)
            own[field.name] = next(value for value in found if value is not MISSING)
    return kind(**own)


def json_document(value: Any, kind: Any) -> Any:
    """A value of a type as mappings, lists and scalars."""
    # Types are checked by mypy, and outputs by their schemas in tests; names in objects can be anything.
    (document,) = documents_adapter(kind).dump_python([value], mode="json", by_alias=True, warnings=False)
    return document


def parse_document(document: Any, kind: Any) -> Any:
    """The value of a type that `json_document` wrote; unknown keys are ignored.

    Raises:
        ValueError: The document has other types, or lacks a key that has no default.
    """
    from pydantic import ValidationError

    try:
        (value,) = documents_adapter(kind).validate_python([document])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"][1:]))
        raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from error
    return value


def _camel(name: str) -> str:
    """The name in camel case; a keyword of Python has a `_` at its end."""
    first, *others = name.rstrip("_").split("_")
    return first + "".join(each.capitalize() for each in others)
