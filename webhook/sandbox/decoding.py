"""Objects as they are read from requests: with the defaults of their schema, and without what nobody knows.

Only the schemas of custom resources are known here. Source of the words: Kubernetes 1.36.2.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from webhook.sandbox.statuses import Cause, bad_request, invalid
from webhook.sandbox.structural import filled, pruned

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.sandbox.cluster import Call
    from webhook.sandbox.kinds import Kind

__all__ = ["decoded", "decoded_quietly"]


def decoded(kind: Kind, document: Object, call: Call) -> Object:
    """The object as the schema of its kind has it; what its fields tell of typing errors is told.

    Raises:
        Refused: it has fields that the schema does not know, and the request wants none.
    """
    if kind.schema is None:
        return document
    known, unknown = pruned(kind.schema, document)
    problems = [f'unknown field "{path}"' for path in unknown]
    wanted = call.options.get("fieldValidation", "Warn")
    if problems and wanted == "Strict":
        error = f"strict decoding error: {', '.join(problems)}"
        if call.options["kind"] == "PatchOptions":
            patched = json.dumps(json.dumps(document, separators=(",", ":"), sort_keys=True, ensure_ascii=False))
            raise invalid("", "", "", [Cause("patch", "Invalid", f"{patched}: {error}")])
        named = kind.resource.kind
        raise bad_request(f'{named} in version "{kind.resource.version}" cannot be handled as a {named}: {error}')
    if wanted == "Warn":
        for problem in problems:
            call.warn(problem)
    filled_in: Object = filled(kind.schema, known)
    return filled_in


def decoded_quietly(kind: Kind, document: Object) -> Object:
    """The same of what a webhook made of an object, of whose unknown fields nobody is told."""
    if kind.schema is None:
        return document
    filled_in: Object = filled(kind.schema, pruned(kind.schema, document)[0])
    return filled_in
