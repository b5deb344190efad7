"""matchConditions: all must hold, one that does not is enough to skip a webhook, and errors follow failurePolicy.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/matchconditions/matcher.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.errors import CelCompileError
from webhook.sandbox import statuses
from webhook.sandbox.admission.expressions import compile_condition, value_of
from webhook.sandbox.admission.reviews import request_of

if TYPE_CHECKING:
    from policies.dra.cel.values import Map
    from webhook.sandbox.admission.hooks import Hook
    from webhook.sandbox.attempt import Attempt

__all__ = ["Variables", "conditions_hold"]

_BUDGET = 2_500_000
"""RuntimeCELCostBudgetMatchConditions: what the conditions of one webhook may cost together."""
_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class Variables:
    """What the conditions of all webhooks see of one write; made when the first condition asks."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._value: Map | None = None

    def value(self) -> Map:
        """The variables; `namespaceObject` is declared for webhooks and always null, as in the API server."""
        if self._value is None:
            attempt = self._attempt
            variables = {
                "object": attempt.object,
                "oldObject": attempt.old_object,
                "request": request_of(attempt),
                "namespaceObject": None,
            }
            self._value = value_of(variables)  # type: ignore[assignment]  # a dict becomes a Map
        return self._value  # type: ignore[return-value]  # just made


def conditions_hold(hook: Hook, attempt: Attempt, variables: Variables) -> bool:
    """Whether a webhook that rules and selectors mean for a write is to be called.

    Raises:
        Refused: a condition fails, none is false, and the webhook's failurePolicy is Fail.
    """
    budget = _BUDGET
    verdicts: list[bool | str] = []
    for _, expression in hook.conditions:
        try:
            condition = compile_condition(expression)
        except CelCompileError as error:
            verdicts.append(f"compilation error: {error}")
            continue
        verdict, cost = condition.holds(variables.value())
        budget -= cost
        if budget < 0:
            verdicts = [_OUT_OF_BUDGET]
            break
        verdicts.append(verdict)
    if False in verdicts:
        return False
    failures = list(dict.fromkeys(verdict for verdict in verdicts if isinstance(verdict, str)))
    if not failures:
        return True
    if hook.ignores_failures:
        return False
    why = failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]"
    raise statuses.forbidden(attempt.resource, attempt.name, why)
