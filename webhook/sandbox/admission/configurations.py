"""Webhook configurations, validated as the API server does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from policies.cel import CelCompileError, compile_condition
from policies.kubernetes.names import quote
from webhook.sandbox.statuses import Cause, invalid, unsupported_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object
    from webhook.sandbox.statuses import Attempt


_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_CHOICES = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "reinvocationPolicy": ("IfNeeded", "Never"),
}
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_VERSIONS = "must specify one of v1, v1beta1"
_LEAST_SEGMENTS = 3
_LONGEST_TIMEOUT = 30


def check_configuration(attempt: Attempt) -> None:
    """Validate a configuration: each webhook can be called, and each condition compiles.

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
    name = webhook.get("name") or ""
    if not name:
        yield Cause(f"{path}.name", "Required", "")
    elif name.count(".") < _LEAST_SEGMENTS - 1:
        why = "should be a domain with at least three segments separated by dots"
        yield Cause(f"{path}.name", "Invalid", f"{quote(name)}: {why}")
    effects = webhook.get("sideEffects")
    if effects is None:
        yield Cause(f"{path}.sideEffects", "Required", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    elif effects not in _SIDE_EFFECTS:
        yield unsupported_value(f"{path}.sideEffects", effects, _SIDE_EFFECTS)
    for field, supported_values in _CHOICES.items():
        if (chosen := webhook.get(field)) is not None and chosen not in supported_values:
            yield unsupported_value(f"{path}.{field}", chosen, supported_values)
    timeout = webhook.get("timeoutSeconds")
    if timeout is not None and not (isinstance(timeout, int) and 1 <= timeout <= _LONGEST_TIMEOUT):
        why = f"the timeout value must be between 1 and {_LONGEST_TIMEOUT} seconds"
        yield Cause(f"{path}.timeoutSeconds", "Invalid", f"{quote(timeout)}: {why}")
    for index, rule in enumerate(webhook.get("rules") or []):
        yield from _rule_problems(rule, f"{path}.rules[{index}]")
    yield from _client_problems(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
    for index, condition in enumerate(webhook.get("matchConditions") or []):
        yield from _condition_problems(condition, f"{path}.matchConditions[{index}]")


def _client_problems(client: dict[str, Any], path: str) -> Iterator[Cause]:
    service = client.get("service")
    if (client.get("url") is None) == (service is None):
        yield Cause(path, "Required", "exactly one of url or service is required")
    elif service is None:
        yield from _url_problems(client["url"], f"{path}.url")
    for field in ("name", "namespace"):
        if service is not None and not service.get(field):
            yield Cause(f"{path}.service.{field}", "Required", "")


def _url_problems(url: Any, path: str) -> Iterator[Cause]:
    """Problems of a URL."""
    form = "desired format: https://host[/path]"
    try:
        parts = urlsplit(str(url))
    except ValueError as error:
        yield Cause(path, "Required", f"url must be a valid URL: {error}; {form}")
        return
    if parts.scheme != "https":
        yield Cause(path, "Invalid", f"{quote(parts.scheme)}: 'https' is the only allowed URL scheme; {form}")
    if not parts.netloc:
        yield Cause(path, "Invalid", f'"": host must be specified; {form}')
    if parts.username is not None:
        yield Cause(path, "Invalid", f"{quote(parts.username)}: user information is not permitted in the URL")
    if parts.fragment:
        yield Cause(path, "Invalid", f"{quote(parts.fragment)}: fragments are not permitted in the URL")
    if parts.query:
        yield Cause(path, "Invalid", f"{quote(parts.query)}: query parameters are not permitted in the URL")


def _rule_problems(rule: Object, path: str) -> Iterator[Cause]:
    for field in ("operations", "apiGroups", "apiVersions", "resources"):
        if not rule.get(field):
            yield Cause(f"{path}.{field}", "Required", "")
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            yield unsupported_value(f"{path}.operations[{index}]", operation, _OPERATIONS)


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
        yield Cause(f"{path}.expression", "Invalid", f"{quote(expression)}: {error}")
