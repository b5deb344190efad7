"""matchConditions, compiled and evaluated as the API server does."""

from webhook.sandbox.admission.expressions import compile_condition, value_of

BUDGET = 2_500_000
"""RuntimeCELCostBudgetMatchConditions of k8s.io/apiserver, for all conditions of a webhook together."""


class Question:
    """What the conditions of a webhook see."""

    def __init__(self, new, old=None, *, group="", user="alice"):
        kind = (new or old).get("kind", "")
        request = {"kind": {"group": group, "version": "v1", "kind": kind}, "userInfo": {"username": user}}
        self.variables = {"object": new, "oldObject": old, "request": request, "namespaceObject": None}


def called(webhook, question):
    """Whether the API server would call the webhook; an error is a failure of the test."""
    known = value_of(question.variables)
    verdicts = [compile_condition(each["expression"]).holds(known) for each in webhook["matchConditions"]]
    assert all(isinstance(verdict, bool) for verdict, _ in verdicts), verdicts
    assert sum(cost for _, cost in verdicts) < BUDGET
    return all(verdict for verdict, _ in verdicts)
