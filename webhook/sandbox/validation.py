"""Validation of ResourceClaims, ResourceClaimTemplates, DeviceClasses and webhook configurations.

Source: kubernetes/pkg/apis/resource/validation; the words as seen on Kubernetes 1.36.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from policies.cel import CelCompileError, compile_condition, compile_selector
from policies.devices.resource_claims import Claim, DeviceRequest, Subrequest
from policies.kubernetes.names import is_dns_label, is_dns_subdomain, quote
from policies.kubernetes.objects import FieldPath, mappings_at
from policies.kubernetes.quantities import QuantityError, parse_quantity
from webhook.sandbox.statuses import NO_LABEL, NO_SUBDOMAIN, Cause, invalid, unsupported_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.kubernetes.objects import Object
    from webhook.sandbox.statuses import Attempt


_MOST = 32
"""Of requests in a claim, and of selectors in a request."""
_ONE_OF_REQUEST = "exactly one of `exactly` or `firstAvailable` is required"
_SELECTORS = FieldPath(("spec", "selectors"))
"""Of a DeviceClass."""
_MODES = ("All", "ExactCount")


def claim_problems(document: Object) -> list[Cause]:
    """Problems of a document of one of these kinds; none for other kinds."""
    match document.get("kind"):
        case "DeviceClass":
            return list(_selector_problems(mappings_at(document, _SELECTORS), _SELECTORS))
        case "ResourceClaim" | "ResourceClaimTemplate" as kind:
            claim = Claim(document, kind)
            return list(_list_problems(claim.requests, claim.devices_path / "requests"))
    return []


def _list_problems(requests: Sequence[DeviceRequest], path: FieldPath) -> Iterator[Cause]:
    if len(requests) > _MOST:
        yield Cause(str(path), "TooMany", f"{len(requests)}: must have at most {_MOST} items")
    for request in requests:
        yield from _device_request_problems(request)
    yield from _repetitions(requests)


def _repetitions(named: Sequence[DeviceRequest | Subrequest]) -> Iterator[Cause]:
    names = [each.fields.get("name") for each in named]
    for index, each in enumerate(named):
        if names[index] in names[:index]:
            yield Cause(str(each.path), "Duplicate", quote(names[index]))


def _device_request_problems(request: DeviceRequest) -> Iterator[Cause]:
    yield from _name_problems(request)
    is_exact = request.fields.get("exactly") is not None
    if not is_exact and not request.is_prioritized:
        yield Cause(str(request.path), "Required", _ONE_OF_REQUEST)
    elif is_exact and request.is_prioritized:
        yield Cause(str(request.path), "Invalid", f"null: {_ONE_OF_REQUEST}, but multiple fields are set")
    for subrequest in request.subrequests:
        if request.is_prioritized:
            yield from _name_problems(subrequest)
        yield from _device_problems(subrequest)
    yield from _repetitions(request.subrequests)


def _name_problems(named: DeviceRequest | Subrequest) -> Iterator[Cause]:
    name = named.fields.get("name") or ""
    if not is_dns_label(name):
        yield Cause(f"{named.path}.name", "Invalid", f"{quote(name)}: {NO_LABEL}")


def _device_problems(request: Subrequest) -> Iterator[Cause]:
    """The devices of one request."""
    path = request.path
    if not request.device_class:
        yield Cause(f"{path}.deviceClassName", "Required", "")
    elif not is_dns_subdomain(request.device_class):
        yield Cause(f"{path}.deviceClassName", "Invalid", f"{quote(request.device_class)}: {NO_SUBDOMAIN}")
    yield from _selector_problems(mappings_at(request.fields, ("selectors",)), path / "selectors")
    mode, count = request.fields.get("allocationMode"), request.fields.get("count") or 0
    if mode not in _MODES:
        yield unsupported_value(f"{path}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        yield Cause(f"{path}.count", "Invalid", f"{count}: must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        yield Cause(f"{path}.count", "Invalid", f"{count}: must be greater than zero")


def _selector_problems(selectors: Sequence[Object], path: FieldPath) -> Iterator[Cause]:
    if len(selectors) > _MOST:
        yield Cause(str(path), "TooMany", f"{len(selectors)}: must have at most {_MOST} items")
        return
    for index, selector in enumerate(selectors):
        cel = selector.get("cel")
        if not isinstance(cel, dict):
            yield Cause(f"{path}[{index}].cel", "Required", "")
            continue
        text = cel.get("expression") or ""
        try:
            compile_selector(text)
        except CelCompileError as error:
            yield Cause(f"{path}[{index}].cel.expression", "Invalid", f"{quote(text)}: {error}")


_NATIVE = frozenset(["cpu", "memory", "ephemeral-storage"])
_ONE_OF = "`resourceClaimName`, `resourceClaimTemplateName`"


def pod_problems(pod: Object) -> list[Cause]:
    """Problems of a new pod.

    Source: ValidatePodSpec in kubernetes/pkg/apis/core/validation; words and order as seen on Kubernetes 1.36.2.
    """
    spec = pod.get("spec") or {}
    claims = mappings_at(spec, ("resourceClaims",))
    causes = list(_claim_problems(claims))
    names = [str(claim.get("name") or "") for claim in claims]
    if not spec.get("containers"):
        causes.append(Cause("spec.containers", "Required", ""))
    seen: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(mappings_at(spec, (field,))):
            path = f"spec.{field}[{index}]"
            causes += _container_problems(container, path, names)
            if (name := container.get("name")) in seen:
                causes.append(Cause(f"{path}.name", "Duplicate", f'"{name}"'))
            seen.add(str(name))
    return causes


def _claim_problems(claims: list[Object]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        path = f"spec.resourceClaims[{index}]"
        name = claim.get("name") or ""
        yield from _label_problems(name, f"{path}.name")
        if name and name in seen:
            yield Cause(f"{path}.name", "Duplicate", f'"{name}"')
        seen.add(name)
        template, existing = claim.get("resourceClaimTemplateName"), claim.get("resourceClaimName")
        if template is None and existing is None:
            shown = f'{{"Name":"{name}","ResourceClaimName":null,"ResourceClaimTemplateName":null}}'
            yield Cause(path, "Invalid", f"{shown}: must specify one of: {_ONE_OF}")
        elif template is not None and existing is not None:
            shown = f'{{"Name":"{name}","ResourceClaimName":"{existing}","ResourceClaimTemplateName":"{template}"}}'
            why = f"at most one of {_ONE_OF.replace(', ', ' or ')} may be specified"
            yield Cause(path, "Invalid", f"{shown}: {why}")
        for field, value in (("resourceClaimTemplateName", template), ("resourceClaimName", existing)):
            if value is not None and not is_dns_subdomain(value):
                yield Cause(f"{path}.{field}", "Invalid", f'"{value}": {NO_SUBDOMAIN}')


def _label_problems(name: str, path: str) -> Iterator[Cause]:
    if not name:
        yield Cause(path, "Required", "")
    elif not is_dns_label(name):
        yield Cause(path, "Invalid", f'"{name}": {NO_LABEL}')


def _container_problems(container: Object, path: str, claims: list[str]) -> Iterator[Cause]:
    yield from _label_problems(container.get("name") or "", f"{path}.name")
    if not container.get("image"):
        yield Cause(f"{path}.image", "Required", "")
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    yield from _amount_problems(limits, f"{path}.resources.limits")
    yield from _amount_problems(requests, f"{path}.resources.requests")
    for name in sorted(requests):
        yield from _request_problems(name, requests[name], limits.get(name), f"{path}.resources")
    yield from _use_problems(mappings_at(resources, ("claims",)), f"{path}.resources.claims", claims)


def _amount_problems(amounts: Object, path: str) -> Iterator[Cause]:
    for name, amount in sorted(amounts.items()):
        try:
            value = parse_quantity(amount)
        except QuantityError as error:
            yield Cause(f"{path}[{name}]", "Invalid", f'"{amount}": {error}')
            continue
        if value < 0:
            yield Cause(f"{path}[{name}]", "Invalid", f'"{amount}": must be greater than or equal to 0')
        elif not _is_native(name) and value.denominator != 1:
            yield Cause(f"{path}[{name}]", "Invalid", f'"{amount}": must be an integer')
        if not _is_native(name) and "/" not in name:
            yield Cause(f"{path}[{name}]", "Invalid", f'"{name}": must be a standard resource type or fully qualified')
            yield Cause(f"{path}[{name}]", "Invalid", f'"{name}": must be a standard resource for containers')


def _is_native(name: str) -> bool:
    return name in _NATIVE or name.startswith("hugepages-")


def _request_problems(name: str, request: Any, limit: Any, path: str) -> Iterator[Cause]:
    """Problems of a request beside its limit: devices cannot be overcommitted."""
    if limit is None:
        if not _is_native(name) and "/" in name:
            yield Cause(f"{path}.limits", "Required", "Limit must be set for non overcommitable resources")
        return
    try:
        asked, most = parse_quantity(request), parse_quantity(limit)
    except QuantityError:
        return
    if not _is_native(name) and asked != most:
        yield Cause(f"{path}.requests", "Invalid", f'"{request}": must be equal to {name} limit of {limit}')
    elif asked > most:
        yield Cause(
            f"{path}.requests", "Invalid", f'"{request}": must be less than or equal to {name} limit of {limit}'
        )


def _use_problems(uses: list[Object], path: str, claims: list[str]) -> Iterator[Cause]:
    """Problems of the claims that a container uses: unknown or duplicate ones."""
    seen: set[str] = set()
    for index, use in enumerate(uses):
        name, request = use.get("name") or "", use.get("request") or ""
        whole = f"{name}/{request}" if request else name
        if not name:
            yield Cause(f"{path}[{index}]", "Required", "")
        elif whole in seen or name in seen:
            yield Cause(f"{path}[{index}]", "Duplicate", f'"{name}"')
        elif name not in claims:
            known = f": {', '.join(claims)}" if claims else " which is empty"
            why = f"must be one of the names in pod.spec.resourceClaims{known}"
            yield Cause(f"{path}[{index}]", "NotFound", f'"{name}": {why}')
        seen.add(whole)


_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_MUTABLE = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
_CONTAINERS = ("containers", "initContainers")
_WHILE_GATED = ("nodeSelector", "affinity")


def pod_update_problems(old: Object, new: Object) -> list[Cause]:
    """Forbidden changes of a pod's spec.

    The API server adds a listing of the difference to the message; the sandbox does not.
    Source: ValidatePodUpdate in kubernetes/pkg/apis/core/validation; the words as seen on Kubernetes 1.36.2.
    """
    before, after = old.get("spec") or {}, new.get("spec") or {}
    gates = before.get("schedulingGates") or []
    causes = []
    for index, gate in enumerate(after.get("schedulingGates") or []):
        if gate not in gates:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            causes.append(Cause(f"spec.schedulingGates[{index}].name", "Forbidden", why))
    if changed := [field for field in _CONTAINERS if len(before.get(field) or ()) != len(after.get(field) or ())]:
        why = "pod updates may not add or remove containers"
        return [*causes, *(Cause(f"spec.{field}", "Forbidden", why) for field in changed)]
    selector = before.get("nodeSelector") or {}
    if gates and not selector.items() <= (after.get("nodeSelector") or {}).items():
        shown = orjson.dumps(after.get("nodeSelector")).decode()
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        return [*causes, Cause("spec.nodeSelector", "Invalid", f"{shown}: {why}")]
    if _immutable_part(before, gated=bool(gates)) != _immutable_part(after, gated=bool(gates)):
        causes.append(Cause("spec", "Forbidden", _IMMUTABLE))
    elif any(each not in (after.get("tolerations") or ()) for each in before.get("tolerations") or ()):
        why = "existing toleration can not be modified except its tolerationSeconds"
        causes.append(Cause("spec.tolerations", "Forbidden", why))
    return causes


def _immutable_part(spec: Object, *, gated: bool) -> Object:
    """The part of a spec that must not change."""
    free = (*_MUTABLE, *(_WHILE_GATED if gated else ()))
    fixed = {key: value for key, value in spec.items() if key not in free}
    for field in _CONTAINERS:
        if isinstance(fixed.get(field), list):
            fixed[field] = [
                {key: value for key, value in container.items() if key != "image"}
                for container in fixed[field]
                if isinstance(container, dict)
            ]
    return fixed


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
