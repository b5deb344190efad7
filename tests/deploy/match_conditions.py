"""CEL of webhooks and admission policies, compiled and evaluated as the API server does."""

from policies.cel import compile_condition, value_of

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


def holds(expression, new, old):
    """Whether an expression of an admission policy is true of an object and the one before it."""
    known = value_of({"object": new, "oldObject": old, "request": None, "namespaceObject": None})
    verdict, _ = compile_condition(expression).holds(known)
    assert isinstance(verdict, bool), verdict
    return verdict


def namespace(labels=None, name="team-a"):
    """A namespace as the API server shows it to its admission policies."""
    metadata = {"name": name} | ({} if labels is None else {"labels": labels})
    return {"metadata": metadata, "spec": {}, "status": {}}
