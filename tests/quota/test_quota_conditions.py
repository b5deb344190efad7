"""The conditions in the status of a GPUQuota."""

from fractions import Fraction

import pytest

from policies.kubernetes.objects import FieldPath, with_conditions
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.recount import (
    enforced_condition,
    not_counted_condition,
    ready_condition,
    says_that_all_have_seen,
    unreadable_condition,
)
from policies.quota.ledger.status import Count
from policies.quota.limits.quota import Limit, Quota, QuotaError
from policies.rules.checks import Problem

LIMITS = (Limit("all", "gpus", Fraction(8)), Limit("memory", "memory", Fraction(2**40)))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            {"all": Count(LIMITS[0].key, Fraction(1)), "memory": Count("", None)},
            (
                "Limit memory cannot be counted while the amount of an open charge under it is unknown; counting resumes when the "
                "charged object is seen, or after two minutes."
            ),
        ),
        (
            {},
            (
                "Limits all, memory cannot be counted while the amount of an open charge under them is unknown; counting resumes "
                "when the charged object is seen, or after two minutes."
            ),
        ),
    ],
    ids=["one", "both"],
)
def test_limit_that_was_not_counted_is_not_ready(limits, message):
    found = ready_condition(Ledger(limits), Quota(LIMITS), guesses_memory=False, began_anew=False)
    assert (found["type"], found["status"], found["reason"], found["message"]) == (
        "Ready",
        "False",
        "NotCounted",
        message,
    )


def test_long_reasons_are_cut():
    assert not_counted_condition("x" * 5000)["message"] == f"X{'x' * 999}."
    error = QuotaError([Problem(FieldPath(["spec"]), "x" * 5000, "")])
    assert unreadable_condition(error)["message"] == f"{'x' * 1000}. Until this is put right, nothing can be charged."


def test_conditions_of_others_stay_in_their_place():
    other, ready = (
        {"type": "Other", "status": "True"},
        {"type": "Ready", "status": "True", "lastTransitionTime": "then"},
    )
    ours = {"type": "Ready", "status": "True", "reason": "Counted", "message": "."}
    assert with_conditions([ready, other], [ours], 3, "now") == [
        {**ours, "observedGeneration": 3, "lastTransitionTime": "then"},
        other,
    ]


@pytest.mark.parametrize("before", [[], [{"type": "Ready", "status": "False", "lastTransitionTime": "then"}]])
def test_condition_that_changes_has_the_time_of_now(before):
    ours = {"type": "Ready", "status": "True", "reason": "Counted", "message": "."}
    assert with_conditions(before, [ours], 1, "now")[0]["lastTransitionTime"] == "now"


@pytest.mark.parametrize(("guesses", "ends"), [(True, "nvidia.com/gpu.memory."), (False, "were counted.")])
def test_unknown_memory_is_told_in_the_condition(guesses, ends):
    ledger = Ledger({limit.name: Count(limit.key, Fraction(1)) for limit in LIMITS})
    found = ready_condition(ledger, Quota(LIMITS), guesses_memory=guesses, began_anew=False)
    assert (found["status"], found["message"].endswith(ends)) == ("True", True)


@pytest.mark.parametrize(
    ("exempt", "is_enforced", "status", "reason"),
    [
        ("", True, "True", "Enforced"),
        ("", False, "False", "FailsOpen"),
        ("no webhook is called for it", True, "False", "Exempt"),
    ],
)
def test_condition_says_whether_the_quota_fails_closed(exempt, is_enforced, status, reason):
    found = enforced_condition("team-a", exempt, is_enforced=is_enforced)
    assert (found["type"], found["status"], found["reason"]) == ("Enforced", status, reason)


@pytest.mark.parametrize(
    ("exempt", "unseen", "all_have_seen"),
    [
        ("", "", True),
        ("", "replica-b has not seen it", False),
        ("no webhook is called for it", "", False),
        ("no webhook is called for it", "replica-b has not seen it", False),
    ],
)
def test_condition_says_whether_all_replicas_have_seen_the_quota(exempt, unseen, all_have_seen):
    """An exempt namespace may stop being exempt, and its condition hides what replicas have seen."""
    written = enforced_condition("team-a", exempt, is_enforced=True, unseen=unseen)
    assert says_that_all_have_seen([{"type": "Ready", "status": "True"}, written]) is all_have_seen


def test_quota_without_conditions_may_not_have_been_seen():
    assert not says_that_all_have_seen([])
