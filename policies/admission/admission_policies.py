"""ValidatingAdmissionPolicies of ours: their manifests, and what an API server refuses by them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from policies.admission.installed import NAME_LABEL
from policies.cel import CelRuntimeError, Map, compile_condition, compile_validation, compile_variable, value_of
from policies.kubernetes.names import resource_name
from policies.kubernetes.objects import name_of
from policies.kubernetes.webhook_rules import Write, rule_matches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.admission.webhooks import ResourceRule
    from policies.cel import Condition, DeclaredVariables, Value
    from policies.kubernetes.objects import Object
    from policies.rules.request import Request


STATIC_SUFFIX = ".static.k8s.io"
"""The end of the names of objects in the files of an API server; no object of its API may have such a name.

Source: k8s.io/apiserver pkg/admission/plugin/manifest/validation.go.
"""
_LABELS = {
    "app.kubernetes.io/name": "gpu-admission",
    "app.kubernetes.io/component": "api",
    "app.kubernetes.io/part-of": "gpu-admission",
}
_API = "admissionregistration.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Validation:
    """One validation of a policy."""

    rules: tuple[str, ...]
    """Our rules, of which one refuses what the validation refuses."""
    expression: str
    message: str
    message_expression: str = ""
    reason: str = "Invalid"
    note: str = ""
    """A comment in the manifest."""

    @property
    def asks_for_rights(self) -> bool:
        """True if it depends on the rights of the user, which only an API server knows."""
        return "authorizer." in self.expression


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicy:
    """A ValidatingAdmissionPolicy with its binding."""

    name: str
    """Without `.gpu-admission.io`."""
    note: str
    """The comment in the manifest."""
    resource_rules: tuple[ResourceRule, ...]
    excluded: tuple[str, ...] = ()
    """Names of namespaces."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    """In an order in which each uses only earlier ones."""
    validations: tuple[Validation, ...]

    def documents(self, *, static: bool) -> tuple[Object, Object]:
        """The policy and its binding, for the files of an API server or for its API."""
        name = f"{self.name}.gpu-admission{STATIC_SUFFIX if static else '.io'}"
        selector: Object = {}
        if self.excluded:
            term = {"key": NAME_LABEL, "operator": "NotIn", "values": list(self.excluded)}
            selector = {"matchExpressions": [term]}
        spec: Object = {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": selector,
                "objectSelector": {},
                "resourceRules": [each.document() for each in self.resource_rules],
            },
            "matchConditions": [{"name": name, "expression": _line(text)} for name, text in self.conditions.items()],
            "variables": [{"name": name, "expression": _line(text)} for name, text in self.variables.items()],
            "validations": [_validation(each) for each in self.validations],
        }
        metadata = {"name": name, "labels": dict(_LABELS)}
        binding = {"policyName": name, "validationActions": ["Deny"]}
        kind = "ValidatingAdmissionPolicy"
        return (
            {
                "apiVersion": _API,
                "kind": kind,
                "metadata": metadata,
                "spec": {k: v for k, v in spec.items() if v != []},
            },
            {"apiVersion": _API, "kind": f"{kind}Binding", "metadata": metadata, "spec": binding},
        )


def _line(text: str) -> str:
    """A text of several lines in one, as YAML folds it."""
    return text.replace("\n", " ")


def _validation(validation: Validation) -> Object:
    texts = {
        "expression": validation.expression,
        "reason": validation.reason,
        "message": validation.message,
        "messageExpression": validation.message_expression,
    }
    return {key: _line(text) for key, text in texts.items() if text}


_MOST_COST = 10_000_000
"""For all validations of a policy together: RuntimeCELCostBudget of k8s.io/apiserver pkg/apis/cel."""
_MOST_CALL_COST = 1_000_000
"""For one expression: PerCallLimit of k8s.io/apiserver pkg/apis/cel."""


class PolicyRefusal(NamedTuple):
    """A refusal by a compiled policy."""

    policy: str
    rules: tuple[str, ...]
    """Of which one must refuse the object too."""
    message: str


class _FailedError(Exception):
    """An expression failed; the text says why."""


class _Evaluation:
    """The evaluation of one policy for one request, with the cost so far."""

    def __init__(self, policy: AdmissionPolicy, values: dict[str, Value]) -> None:
        self._policy = policy
        self._values: dict[object, Value] = dict(values.items())
        self.cost = 0

    def refusals(self) -> Iterator[PolicyRefusal]:
        """The refusals; the error of an expression is one, because the policies fail closed."""
        policy = self._policy
        try:
            if not all(self._value(compile_condition(text)) for text in policy.conditions.values()):
                return
            self.cost = 0
            variables: dict[object, Value] = {}
            declared: DeclaredVariables = ()
            self._values["variables"] = Map(variables)
            for name, text in policy.variables.items():
                compiled = compile_variable(text, declared)
                variables[name] = self._value(compiled)
                declared = (*declared, (name, compiled.type))
            for each in policy.validations:
                if not each.asks_for_rights and self._value(compile_validation(each.expression, declared)) is not True:
                    text = each.message
                    if each.message_expression:
                        text = str(self._value(compile_variable(each.message_expression, declared)))
                    yield PolicyRefusal(policy.name, each.rules, text)
        except _FailedError as error:
            yield PolicyRefusal(policy.name, (), str(error))

    def _value(self, expression: Condition) -> Value:
        outcome, cost = expression.evaluate(Map(self._values))
        self.cost += cost
        if isinstance(outcome, CelRuntimeError):
            raise _FailedError(f"expression '{expression.text}' resulted in error: {outcome.message}")
        if cost > _MOST_CALL_COST or self.cost > _MOST_COST:
            raise _FailedError(f"expression '{expression.text}' exceeds the cost limit of an API server")
        return outcome


def policy_refusals(policies: Sequence[AdmissionPolicy], request: Request, version: str = "v1") -> list[PolicyRefusal]:
    """The refusals of policies, one for each validation that fails.

    Validations that depend on the rights of the user are left out. If an expression fails, or costs more than an API server
    allows, the refusal has its error, and no rule.

    Args:
        policies: Those that may match.
        request: The request about the object, as it would be stored.
        version: The version of the object's API.
    """
    is_namespaced = (request.group, request.kind) != ("", "Namespace")
    resource = resource_name(request.kind)
    write = Write(request.operation, request.group, version, resource, request.subresource, is_namespaced)
    matched = [
        policy
        for policy in policies
        if request.namespace not in policy.excluded
        and any(rule_matches(rule.document(), write) for rule in policy.resource_rules)
    ]
    values = _values(request) if matched else {}
    return [refusal for policy in matched for refusal in _Evaluation(policy, values).refusals()]


def _values(request: Request) -> dict[str, Value]:
    kind = {"group": request.group, "version": "", "kind": request.kind}
    asked = {
        "kind": kind,
        "requestKind": kind,
        "subResource": request.subresource,
        "requestSubResource": request.subresource,
        "name": request.name or name_of(request.object or {}),
        "namespace": request.namespace,
        "operation": request.operation,
        "userInfo": {"username": request.user.username, "groups": [*request.user.groups]},
        "dryRun": request.dry_run,
    }
    known = {"object": request.object, "oldObject": request.old_object, "request": asked, "namespaceObject": None}
    return {name: value_of(value) for name, value in known.items()}
