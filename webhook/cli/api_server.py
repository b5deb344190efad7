"""What an API server does with a pod before it stores it, as far as webhooks are concerned.

The demo needs somebody who asks. This asks our webhooks over TLS with real AdmissionReviews, in the API server's order,
applies their patches and refuses what they refuse.
"""

from __future__ import annotations

import base64
import copy
import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from policies.kubernetes.defaults import with_defaults
from policies.kubernetes.objects import name_of
from policies.review import entries_called

if TYPE_CHECKING:
    from collections.abc import Iterable

    import aiohttp

    from policies.kubernetes.objects import Object
    from policies.request import Request
    from policies.view import ClusterView

__all__ = ["Admission", "admit", "apply_patch"]


@dataclass(slots=True)
class Admission:
    """What came of creating an object."""

    object: Object
    """The object as it would be stored."""
    calls: list[str] = field(default_factory=list)
    """The webhooks that were asked, in order."""
    warnings: list[str] = field(default_factory=list)
    denied_by: str = ""
    status: dict[str, Any] = field(default_factory=dict)
    """The Status of a refusal."""


async def admit(session: aiohttp.ClientSession, url: str, request: Request, view: ClusterView) -> Admission:
    """Ask every webhook that an API server would ask about the creation of an object."""
    document = with_defaults(request.object or {})
    admission = Admission(document)
    for entry in entries_called(request, view):
        review = _review(request, admission.object)
        async with session.post(f"{url}/{entry.name}", params={"timeout": "10s"}, json=review) as answer:
            response = (await answer.json())["response"]
        admission.calls.append(entry.webhook)
        admission.warnings += response.get("warnings", [])
        if not response["allowed"]:
            admission.denied_by, admission.status = entry.webhook, response["status"]
            return admission
        if "patch" in response:
            admission.object = apply_patch(admission.object, json.loads(base64.b64decode(response["patch"])))
    return admission


def _review(request: Request, document: Object) -> dict[str, Any]:
    kind = {"group": request.group, "version": "v1", "kind": request.kind}
    resource = {"group": request.group, "version": "v1", "resource": "pods"}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": kind,
            "requestKind": kind,
            "resource": resource,
            "requestResource": resource,
            "namespace": request.namespace,
            "name": name_of(document),
            "operation": request.operation,
            "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
            "object": document,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


def apply_patch(document: Any, operations: Iterable[dict[str, Any]]) -> Any:
    """Apply a JSON Patch of the operations that webhooks here answer with: test, add, replace, remove.

    Raises:
        ValueError: a `test` fails; the API server would answer 500.
    """
    result = copy.deepcopy(document)
    for operation in operations:
        *parents, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
        target = result
        for step in parents:
            target = target[int(step)] if isinstance(target, list) else target[step]
        key: Any = last if isinstance(target, dict) else len(target) if last == "-" else int(last)
        match operation["op"]:
            case "test" if target[key] != operation["value"]:
                raise ValueError(f"testing value {operation['path']} failed: test failed")
            case "add" if isinstance(target, list):
                target.insert(key, operation["value"])
            case "add" | "replace":
                target[key] = operation["value"]
            case "remove":
                del target[key]
    return result
