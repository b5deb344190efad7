"""The question of a call of `/v1/explain`, parsed strictly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import with_full_stop
from webhook.cluster.lookups import KindUnknownError, find_resource
from webhook.server.bodies import BadJSON, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object
    from policies.rules.settings import AddedKind
    from webhook.cluster.resources import Resource


MOST_TEMPLATES = 64
"""Pod templates of one workload; each is a question of its own, and RayClusters and JobSets have a handful."""

_HOW = 'post {"object": a manifest, "namespace": a name} or {"kind": "pod", "namespace": a name, "name": a name}'
_FIELDS = ("object", "namespace", "kind", "name")


class BadQuestion(ValueError):  # noqa: N818 - the name says what is wrong, as BadReview does
    """A body without a question that can be explained. Its text is one sentence for the caller."""


@dataclass(frozen=True, slots=True)
class PostedObject:
    """A question about an object in the body."""

    object: Object
    namespace: str
    """The namespace of an object without one; empty for `default`."""


@dataclass(frozen=True, slots=True)
class NamedObject:
    """A question about an object of the cluster."""

    resource: Resource
    name: str
    namespace: str
    """Empty for `default`."""


def decode_question(body: bytes, added: Iterable[AddedKind] = ()) -> PostedObject | NamedObject:
    """Read the question of a call.

    Args:
        body: The JSON body.
        added: The kinds that the settings add.

    Raises:
        BadQuestion: the body is not a valid question.
    """
    try:
        document = read_json(body)
    except BadJSON as error:
        raise BadQuestion(str(error)) from error
    if not isinstance(document, dict):
        raise BadQuestion(f"The body is not a JSON object; {_HOW}.")
    for field in document:
        if field not in _FIELDS:
            raise BadQuestion(f"The field {json.dumps(field[:100])} is unknown; {_HOW}.")
    namespace = _text(document, "namespace")
    if "object" in document:
        if "kind" in document or "name" in document:
            raise BadQuestion(f"The body has both an object and kind or name; {_HOW}.")
        posted = document["object"]
        if not isinstance(posted, dict):
            raise BadQuestion("The object must be a manifest with apiVersion and kind.")
        for field in ("apiVersion", "kind"):
            if not isinstance(posted.get(field), str) or not posted[field]:
                raise BadQuestion(f"The object has no {field}; every object of Kubernetes names one.")
        return PostedObject(posted, namespace)
    kind, name = _text(document, "kind"), _text(document, "name")
    if not kind or not name:
        raise BadQuestion(f"The body has neither an object, nor a kind and a name; {_HOW}.")
    try:
        return NamedObject(find_resource(kind, added), name, namespace)
    except KindUnknownError as error:
        raise BadQuestion(with_full_stop(f"The kind cannot be explained: {error}")) from error


def _text(document: dict[str, Any], field: str) -> str:
    value = document.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadQuestion(f"The field {field} must be a string; {_HOW}.")
    return value
