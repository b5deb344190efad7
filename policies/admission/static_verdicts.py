"""The refusals of compiled policies, as an API server evaluates them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.cel import CelRuntimeError, Map, compile_condition, compile_validation, compile_variable, value_of
from policies.kubernetes.names import resource_name
from policies.kubernetes.objects import name_of
from policies.kubernetes.webhook_rules import Write, rule_matches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.admission.admission_policies import AdmissionPolicy
    from policies.cel import Condition, DeclaredVariables, Value
    from policies.rules.request import Request


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
