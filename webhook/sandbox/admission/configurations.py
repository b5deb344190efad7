"""CEL expressions of matchConditions over `object`, `oldObject` and `request`, and of schema rules.

The engine, which evaluates selectors, has one variable. The variables of a condition are its fields, and the expression is
wrapped into a `cel.bind` per variable; positions in messages stay those of the text.

Source: k8s.io/apiserver pkg/admission/plugin/cel (compile.go, condition.go, activation.go).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from policies.cel import (
    BOOL,
    DEVICE,
    DYN,
    STRING,
    CelCompileError,
    CelFeatures,
    CelRuntimeError,
    Comprehension,
    CountedProgram,
    Environment,
    Identifier,
    Issue,
    ListLiteral,
    Literal,
    Map,
    Select,
    Type,
    check,
    list_of,
    map_of,
    parse,
    plan_expression,
    selector_environment,
)
from policies.kubernetes.names import quote
from webhook.sandbox.statuses import Cause, invalid, unsupported_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.cel import Expression as Tree
    from policies.cel import Value
    from policies.kubernetes.objects import Object
    from webhook.sandbox.statuses import Attempt


NO_AUTHORIZER = (
    "the sandbox decides nothing by RBAC, so it cannot evaluate `authorizer`; leave this condition out to try the "
    "webhook here, and test the condition in a real cluster"
)

_ROOT = "@variables"
"""The engine's one variable; no expression can spell it."""
_VARIABLES = ("object", "oldObject", "request", "namespaceObject")
_OF_RULES = ("self", "oldSelf")
_BIND = re.compile(r"\bcel\s*\.\s*bind\s*\(")
_DRA_ONLY = frozenset({"includes"})
_KEPT = 256


def _object(name: str) -> Type:
    return Type(f"kubernetes.{name}", kind="object")


_FIELDS: Mapping[str, Mapping[str, Type]] = {
    "kubernetes.Variables": {
        "object": DYN,
        "oldObject": DYN,
        "request": _object("AdmissionRequest"),
        "namespaceObject": DYN,
        **dict.fromkeys(_OF_RULES, DYN),
    },
    "kubernetes.AdmissionRequest": {
        "kind": _object("GroupVersionKind"),
        "resource": _object("GroupVersionResource"),
        "subResource": STRING,
        "requestKind": _object("GroupVersionKind"),
        "requestResource": _object("GroupVersionResource"),
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _object("UserInfo"),
        "dryRun": BOOL,
        "options": DYN,
    },
    "kubernetes.GroupVersionKind": {"group": STRING, "version": STRING, "kind": STRING},
    "kubernetes.GroupVersionResource": {"group": STRING, "version": STRING, "resource": STRING},
    "kubernetes.UserInfo": {
        "username": STRING,
        "uid": STRING,
        "groups": list_of(STRING),
        "extra": map_of(STRING, list_of(STRING)),
    },
}


@cache
def _environment() -> Environment:
    """Kubernetes' libraries without DRA's additions, and the variables of conditions."""
    known = selector_environment(CelFeatures(list_type_attributes=False))
    return Environment(
        known.features,
        functions={name: function for name, function in known.functions.items() if name not in _DRA_ONLY},
        variables={
            _ROOT: _object("Variables"),
            "authorizer": _object("authorization.Authorizer"),
            "authorizer.requestResource": _object("authorization.ResourceCheck"),
        },
        type_names={name: type_ for name, type_ in known.type_names.items() if not name.startswith(DEVICE)},
        fields={**known.fields, **_FIELDS},
    )


@dataclass(eq=False)
class Condition:
    """A compiled expression of type bool."""

    text: str
    program: CountedProgram

    def holds(self, variables: Map) -> tuple[bool | str, int]:
        """The result, or the error message; and the cost.

        Args:
            variables: `object`, `oldObject`, `request` and `namespaceObject`, or for a rule `self` and `oldSelf`, as
                `value_of` makes them.
        """
        outcome, cost = self.program.evaluate(SimpleNamespace(value=variables))
        if isinstance(outcome, CelRuntimeError):
            return f"expression '{self.text}' resulted in error: {outcome.message}", cost
        return outcome is True, cost


@lru_cache(maxsize=_KEPT)
def compile_condition(text: str) -> Condition:
    """Compile a condition; cached.

    Raises:
        CelCompileError: The API server refuses it, or the sandbox cannot evaluate it.
    """
    return _compile(text, _VARIABLES)


@lru_cache(maxsize=_KEPT)
def compile_rule(text: str) -> Condition:
    """Compile a rule of a custom resource's schema, over `self` and `oldSelf`; cached.

    Raises:
        CelCompileError: The API server refuses it, or the sandbox cannot evaluate it.
    """
    return _compile(text, _OF_RULES)


def _compile(text: str, variables: Iterable[str]) -> Condition:
    if bind := _BIND.search(text):
        line, column = text.count("\n", 0, bind.start()) + 1, bind.start() - text.rfind("\n", 0, bind.start())
        raise CelCompileError((Issue("undeclared reference to 'cel' (in container '')", line, column),), text)
    known = _environment()
    tree = parse(text)
    for name in variables:
        tree = _bound(name, tree)
    try:
        checked = check(tree, text, known)
    except CelCompileError as error:
        # Conditions allow one type less than selectors.
        if _SELECTOR_TYPES not in error.message:
            raise
        raise _wrong_type(error.message.partition(_SELECTOR_TYPES)[2], error.text) from None
    if any(name.name.startswith("authorizer") for name in checked.names.values()):
        raise CelCompileError((Issue(NO_AUTHORIZER, 1, 1),), text, located=False)
    if checked.types[checked.root] != BOOL:
        raise _wrong_type("dyn", text)
    return Condition(text, CountedProgram(plan_expression(checked, text, known.functions)))


def _bound(name: str, tree: Tree) -> Tree:
    """`cel.bind(name, @variables.name, tree)`."""
    at = tree.offset
    return Comprehension(
        at,
        ListLiteral(at, ()),
        "#unused",
        "",
        name,
        Select(at, Identifier(at, _ROOT), name),
        Literal(at, value=False),
        Identifier(at, name),
        tree,
    )


_SELECTOR_TYPES = "must evaluate to bool or the unknown type, not "


def _wrong_type(name: str, text: str) -> CelCompileError:
    return CelCompileError((Issue(f"must evaluate to bool but got {name}", 1, 1),), text, located=False)


def value_of(json: Any) -> Value:
    """A JSON value as a CEL value."""
    if isinstance(json, dict):
        return Map({key: value_of(value) for key, value in json.items()})
    if isinstance(json, list):
        return tuple(map(value_of, json))
    value: Value = json
    return value


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
