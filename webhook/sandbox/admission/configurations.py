"""Webhook configurations as they are written: what the API server refuses, as far as calling webhooks depends on it.

Source: k8s.io/kubernetes pkg/apis/admissionregistration/validation/validation.go, k8s.io/apiserver pkg/util/webhook/validation.go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.dra.cel.errors import CelCompileError
from webhook.sandbox.admission.expressions import compile_condition
from webhook.sandbox.statuses import Cause, invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object
    from webhook.sandbox.attempt import Attempt

__all__ = ["check_configuration"]

_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_VERSIONS = "must specify one of v1, v1beta1"
_LEAST_SEGMENTS = 3
_LONGEST_TIMEOUT = 30


def check_configuration(attempt: Attempt) -> None:
    """Refuse a configuration with a webhook that could not be called, or a condition that does not compile.

    Raises:
        Refused: 422, with every cause.
    """
    configuration = attempt.object
    if configuration is None or not attempt.resource.kind.endswith("WebhookConfiguration"):
        return
    webhooks = configuration.get("webhooks") or []
    causes = [cause for index, webhook in enumerate(webhooks) for cause in _problems(webhook, f"webhooks[{index}]")]
    if causes:
        raise invalid(attempt.resource.kind, attempt.resource.group, attempt.name, causes)


def _problems(webhook: Object, path: str) -> Iterator[Cause]:
    if not webhook.get("admissionReviewVersions"):
        yield Cause(f"{path}.admissionReviewVersions", "Required", _VERSIONS)
    yield from _name_problems(webhook.get("name") or "", f"{path}.name")
    effects = webhook.get("sideEffects")
    if effects is None:
        yield Cause(f"{path}.sideEffects", "Required", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    elif effects not in _SIDE_EFFECTS:
        supported = ", ".join(map(_quoted, _SIDE_EFFECTS))
        yield Cause(f"{path}.sideEffects", "NotSupported", f"{_quoted(effects)}: supported values: {supported}")
    timeout = webhook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= _LONGEST_TIMEOUT:
        why = f"the timeout value must be between 1 and {_LONGEST_TIMEOUT} seconds"
        yield Cause(f"{path}.timeoutSeconds", "Invalid", f"{timeout}: {why}")
    yield from _client_problems(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
    for index, condition in enumerate(webhook.get("matchConditions") or []):
        yield from _condition_problems(condition, f"{path}.matchConditions[{index}]")


def _name_problems(name: str, path: str) -> Iterator[Cause]:
    if not name:
        yield Cause(path, "Required", "")
    elif name.count(".") < _LEAST_SEGMENTS - 1:
        why = "should be a domain with at least three segments separated by dots"
        yield Cause(path, "Invalid", f"{_quoted(name)}: {why}")


def _client_problems(client: dict[str, Any], path: str) -> Iterator[Cause]:
    service = client.get("service")
    if (client.get("url") is None) == (service is None):
        yield Cause(path, "Required", "exactly one of url or service is required")
    for field in ("name", "namespace"):
        if service is not None and not service.get(field):
            yield Cause(f"{path}.service.{field}", "Required", "")


def _condition_problems(condition: Object, path: str) -> Iterator[Cause]:
    if not condition.get("name"):
        yield Cause(f"{path}.name", "Required", "")
    expression = condition.get("expression") or ""
    if not expression:
        yield Cause(f"{path}.expression", "Required", "")
        return
    try:
        compile_condition(expression)
    except CelCompileError as error:
        yield Cause(f"{path}.expression", "Invalid", f"{_quoted(expression)}: {error}")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
