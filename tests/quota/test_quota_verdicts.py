"""Answers for every verdict of a charge."""

from datetime import timedelta
from fractions import Fraction

import pytest

from policies.kubernetes.objects import FieldPath
from policies.quota.charging import existing_references
from policies.quota.demands.bills import Uncountable, UnknownMemory, UnknownProduct
from policies.quota.ledger.allowances import ChargeVerdict, Contended, NoQuota
from policies.quota.ledger.ledger import ChargedOtherwise, Exceeded, Full, Ledger, NotPrimed, Over, Unstorable
from policies.quota.ledger.open_charges import OpenCharge
from policies.quota.limits.quota import Limit, QuotaError, QuotaNames
from policies.quota.limits.selectors import Selector
from policies.quota.outcomes import OUTCOMES, Holder, QuotaOutcome, Unavailable, outcome_name, settle
from policies.rules.charges import ChargeRequest, DeviceDemand, DeviceKind, TooManyClaims
from policies.rules.checks import Problem
from policies.rules.decision import Decision, Severity
from tests.findings import labelled_text

H100 = Limit("h100", "gpus", Fraction(8), Selector(("h100*",)))
OVER = Over("h100", "gpus", Fraction(2), Fraction(5), Fraction(2), Fraction(8))
HOLDER = Holder("team-a/train-7", {"h100": Fraction(4)}, timedelta(days=3, hours=2))
DEMAND = DeviceDemand(2, frozenset(), is_open=True)
DOCUMENT = {"kind": "Pod"}

EXCEEDED = Exceeded((OVER,), Ledger())
NOT_PRIMED = NotPrimed(("h100",), Ledger())
FULL = Full(1001, 204800, 1000)
CHARGED_OTHERWISE = ChargedOtherwise(OpenCharge("u", "Pod", "pretrain-0", "", {}))
UNSTORABLE = Unstorable("metadata.uid must be at most 128 printable ASCII characters without blanks")
UNKNOWN_PRODUCT = UnknownProduct(H100, DEMAND)
UNKNOWN_MEMORY = UnknownMemory(Limit("memory", "memory", Fraction(2**40)), DEMAND)
UNREADABLE = QuotaError([Problem(FieldPath(["spec", "limits", 0, "gpus"]), "is 0.5 without quotas", "")])
UNAVAILABLE = Unavailable("no route\nto host.")
FORBIDDEN = Unavailable("gpuquotas is forbidden", is_lasting=True)
TOO_MANY = TooManyClaims(FieldPath(), "has 1,001 claims", "request fewer claims", is_lasting=True)


MI = 2**20


def in_namespace(outcome, *holders):
    return [QuotaOutcome(QuotaNames.of_namespace("team-a"), outcome, holders)]


def charge_decision(*, enforced=False, pieces=True, problems=()):
    charge = ChargeRequest("u", "Pod", "team-a", "train", {"": (DEMAND,)} if pieces else {}, enforced)
    return Decision(tuple(problems), object=DOCUMENT, charges=(charge,))


def answered(outcome, holders=(), **fields):
    return settle(charge_decision(**fields), in_namespace(outcome, *holders))


def said(outcome, holders=(), **fields):
    (finding,) = answered(outcome, holders, **fields).findings
    return labelled_text(finding)


def refused(verdict):
    return ChargeVerdict(False, verdict)


def let_in(verdict):
    return ChargeVerdict(True, verdict)


def test_what_fits_is_answered_silently():
    fits = answered(let_in(None), enforced=True)
    assert (fits.findings, fits.object, fits.retry_after) == ((), DOCUMENT, None)


def test_namespace_without_a_quota_gives_no_warning():
    missing = existing_references.rule.finding(
        FieldPath(), "no ResourceClaimTemplate gpus exists in team-a", "create it"
    )
    assert answered(NoQuota(), problems=(missing,)).findings == ()


def test_over_quota_says_what_is_left_who_holds_the_rest_and_what_would_help():
    assert said(refused(EXCEEDED), [HOLDER]) == (
        'needs 2 GPUs, 1 of 8 left in limit "h100" (2 reserved); exceeded quota: gpu; team-a/train-7 has held 4 for 3 days; '
        "request fewer GPUs, or wait until some pods end [GA502]"
    )


def test_over_quota_tells_an_administrator_which_limit_to_raise():
    (found,) = settle(charge_decision(), in_namespace(refused(EXCEEDED), HOLDER)).findings
    assert found.administrator == 'raise limit "h100" of GPUQuota gpu'


UNLIMITED = DeviceKind("NVIDIA-H100-80GB-HBM3", shared_without_limit=True)
EIGHTH = DeviceKind("Tesla-T4", gpus=Fraction(1, 8))


@pytest.mark.parametrize(
    ("kinds", "unseen", "is_named"),
    [
        ({UNLIMITED, EIGHTH}, {EIGHTH}, True),
        ({EIGHTH}, {DeviceKind("", shared_without_limit=True)}, True),
        ({UNLIMITED, DeviceKind("Tesla-T4")}, {EIGHTH}, False),
        ({EIGHTH}, {EIGHTH}, False),
        ({UNLIMITED}, {DeviceKind("")}, False),
    ],
)
def test_refusal_names_the_setting_if_gpus_count_whole_because_they_are_shared_without_limit(kinds, unseen, is_named):
    demand = DeviceDemand(1, frozenset(kinds), True, unseen=frozenset(unseen))
    charge = ChargeRequest("u", "ResourceClaim", "team-a", "gpus", {"": (demand,)}, enforced=True)
    (found,) = settle(Decision(object=DOCUMENT, charges=(charge,)), in_namespace(refused(EXCEEDED), HOLDER)).findings
    reason = "; a claim counts as a whole GPU, because the driver shares GPUs without limit"
    assert found.message.endswith(f"team-a/train-7 has held 4 for 3 days{reason if is_named else ''}")
    remedy = "set quota.unlimitedShare of the GPUAdmissionPolicy, or " if is_named else ""
    assert found.administrator == f'{remedy}raise limit "h100" of GPUQuota gpu'


def test_request_for_more_than_the_whole_limit_says_to_request_less():
    whole = Over("h100", "gpus", Fraction(9), Fraction(7), Fraction(0), Fraction(8))
    assert said(refused(Exceeded((whole,), Ledger()))) == (
        'needs 9 GPUs, and limit "h100" allows at most 8; exceeded quota: gpu; request fewer GPUs [GA502]'
    )


def test_memory_of_a_refusal_is_in_one_unit_with_one_decimal():
    over = Over(
        "memory", "memory", Fraction(326236 * MI), Fraction(571274 * MI), Fraction(0), Fraction(800 * 1024 * MI)
    )
    assert said(refused(Exceeded((over,), Ledger()))).startswith(
        'needs 318.6 GiB of memory, 242.1 of 800 GiB left in limit "memory";'
    )


def test_request_that_is_hardly_more_than_is_left_looks_like_more():
    over = Over("memory", "memory", Fraction(81921 * MI), Fraction(0), Fraction(0), Fraction(81920 * MI))
    assert said(refused(Exceeded((over,), Ledger()))).startswith(
        'needs just over 80 GiB of memory, and limit "memory" allows at most 80 GiB;'
    )


def test_memory_of_a_decimal_limit_has_decimal_units():
    over = Over("memory", "memory", Fraction(80 * 1024 * MI), Fraction(0), Fraction(0), Fraction(80 * 10**9))
    assert said(refused(Exceeded((over,), Ledger()))).startswith(
        'needs 85.9 GB of memory, and limit "memory" allows at most 80 GB;'
    )


def test_request_of_all_that_the_limit_allows_says_what_is_left():
    whole = Over("h100", "gpus", Fraction(8), Fraction(7), Fraction(0), Fraction(8))
    assert 'needs 8 GPUs, 1 of 8 left in limit "h100"' in said(refused(Exceeded((whole,), Ledger())))


@pytest.mark.parametrize(
    ("number", "text"), [(1, "1 pod or claim holds 4; gpu-"), (2, "2 pods and claims hold 8; gpu-")], ids=["one", "two"]
)
def test_holders_that_are_not_named_are_counted(number, text):
    found = settle(charge_decision(), in_namespace(refused(EXCEEDED), *[HOLDER] * number), names_holders=False)
    assert f"exceeded quota: gpu; {text}" in str(found.findings[0])


def test_over_quota_that_only_warns_says_that_it_is_admitted():
    warned = answered(let_in(EXCEEDED), [HOLDER])
    assert warned.allowed
    assert str(warned.findings[0]) == (
        'Request fewer GPUs, or wait until some pods end: needs 2 GPUs, 1 of 8 left in limit "h100" (2 reserved); '
        "exceeded quota: gpu; team-a/train-7 has held 4 for 3 days; it is admitted all the same, because the quota has "
        "mode: Warn [GA502]"
    )


@pytest.mark.parametrize(
    ("outcome", "remedy"),
    [
        (refused, "wait until some pods end"),
        (let_in, "request fewer GPUs, or wait until some pods end"),
    ],
)
def test_nothing_left_is_waited_for_only_by_what_is_refused(outcome, remedy):
    nothing_left = Over("h100", "gpus", Fraction(2), Fraction(8), Fraction(0), Fraction(8))
    assert said(outcome(Exceeded((nothing_left,), Ledger()))).endswith(f"; {remedy} [GA502]")


def test_what_cannot_be_counted_says_what_to_write():
    assert said(Uncountable(UNKNOWN_PRODUCT, "Enforce")) == (
        'quota gpu cannot count the request: limit "h100" counts by product, the request could get any product, and the '
        "quota has unknownProducts: Deny; name the product, in a pod by the annotation gpu-admission.io/product, in a claim by "
        "a selector for productName [GA503]"
    )


def test_unknown_memory_is_reported_by_the_same_rule():
    assert said(Uncountable(UNKNOWN_MEMORY, "Enforce")).startswith(
        'quota gpu cannot count the request: limit "memory" counts memory, and no node or ResourceSlice says how much '
    )


def test_what_cannot_be_counted_is_admitted_where_the_quota_only_warns():
    warned = answered(Uncountable(UNKNOWN_PRODUCT, "Warn"), enforced=True)
    assert warned.allowed
    assert str(warned.findings[0]).startswith("Name the product, in a pod by the annotation gpu-admission.io/product, ")
    assert str(warned.findings[0]).endswith("; it is admitted all the same, because the quota has mode: Warn [GA503]")


def test_uncounted_limit_says_to_try_again():
    assert said(refused(NOT_PRIMED), enforced=True) == (
        "status unknown for quota: gpu, limits: h100; what namespace team-a holds already has not been counted yet for it, "
        "which takes seconds after a limit is written; try again in 1 s, and if that does not help, look for the reason "
        "with kubectl describe gpuquota gpu -n team-a [GA504]"
    )


def test_uncounted_limit_is_charged_where_quotas_are_not_enforced():
    assert said(let_in(NOT_PRIMED)) == (
        "status unknown for quota: gpu, limits: h100; what namespace team-a holds already has not been counted yet for it, "
        "which takes seconds after a limit is written; it is admitted and charged all the same; if that stays so, look for "
        "the reason with kubectl describe gpuquota gpu -n team-a [GA504]"
    )


def test_full_ledger_says_what_fills_it():
    assert said(refused(FULL), enforced=True) == (
        "quota gpu of namespace team-a has no room for one more pod or claim on its way: it remembers 1,000 (200 KiB) that "
        "were admitted and have not been seen since, and 1,000 are the most; those that were never stored are given up "
        "after two minutes; try again in 10 s, and if that does not help, see whether something refuses what the quota "
        "admits, and whether the controllers that make claims and count quotas run [GA504]"
    )


def test_full_ledger_is_no_hindrance_where_quotas_are_not_enforced():
    assert said(let_in(FULL)).endswith(
        "after two minutes; it is admitted all the same, and counted when it is seen; see whether something refuses what "
        "the quota admits, and whether the controllers that make claims and count quotas run [GA504]"
    )


def test_refusal_of_a_call_for_another_object_says_what_is_charged():
    assert said(refused(CHARGED_OTHERWISE), enforced=True) == (
        "quota gpu of namespace team-a: uid u is already charged for Pod pretrain-0, and this call requests more than that "
        "or describes another object; try again in 1 s, and if that does not help, see whether two webhook configurations "
        "call gpu-admission, or something else than the API server does [GA504]"
    )


def test_call_that_describes_another_object_is_no_hindrance_where_quotas_are_not_enforced():
    assert said(let_in(CHARGED_OTHERWISE)).endswith(
        "describes another object; it is admitted all the same, and counted when it is seen; see whether two webhook "
        "configurations call gpu-admission, or something else than the API server does [GA504]"
    )


def test_message_about_an_object_that_cannot_be_stored_names_the_field():
    assert said(refused(UNSTORABLE), enforced=True) == (
        "quota gpu of namespace team-a cannot be charged: metadata.uid must be at most 128 printable ASCII characters "
        "without blanks; request what the API server can store [GA504]"
    )


def test_contention_says_that_nothing_was_charged():
    assert said(refused(Contended()), enforced=True) == (
        "quota gpu of namespace team-a is being changed by too many requests at once, so nothing could be charged; try "
        "again in 1 s, or create fewer pods at a time [GA504]"
    )


def test_contention_is_no_hindrance_where_quotas_are_not_enforced():
    assert said(let_in(Contended())) == (
        "quota gpu of namespace team-a is being changed by too many requests at once, so nothing could be charged; it is "
        "admitted all the same, and counted when it is seen; create fewer pods at a time [GA504]"
    )


def test_unreadable_quota_says_what_is_wrong_with_it():
    assert said(UNREADABLE, enforced=True) == (
        "quota gpu of namespace team-a cannot be read: spec.limits[0].gpus: is 0.5 without quotas; the namespace "
        "enforces its quota, so GPUs must be charged first; show this to your administrator [GA504]"
    )


def test_unreadable_quota_lets_in_what_is_counted_once_it_can_be_read():
    assert said(UNREADABLE).endswith(
        "; it is admitted all the same, and counted when that is put right; show this to your administrator [GA504]"
    )


def test_unavailable_quota_says_why():
    assert said(UNAVAILABLE, enforced=True) == (
        "quota gpu of namespace team-a cannot be charged: no route to host; the namespace enforces its quota, so GPUs must "
        "be charged first; try again in 5 s, and if that does not help, show this to your administrator [GA504]"
    )


def test_unavailable_quota_is_no_hindrance_where_quotas_are_not_enforced():
    assert said(UNAVAILABLE) == (
        "quota gpu of namespace team-a cannot be charged: no route to host; it is admitted all the same, and counted when "
        "it is seen; if that stays so, show this to your administrator [GA504]"
    )


@pytest.mark.parametrize(
    ("outcome", "seconds"),
    [
        (refused(EXCEEDED), None),
        (Uncountable(UNKNOWN_PRODUCT, "Enforce"), None),
        (refused(NOT_PRIMED), 1),
        (refused(FULL), 10),
        (refused(CHARGED_OTHERWISE), 1),
        (refused(UNSTORABLE), None),
        (refused(Contended()), 1),
        (UNREADABLE, None),
        (UNAVAILABLE, 5),
        (FORBIDDEN, None),
    ],
    ids=[
        "exceeded",
        "uncountable",
        "not-primed",
        "full",
        "charged-otherwise",
        "unstorable",
        "contended",
        "unreadable",
        "unavailable",
        "forbidden",
    ],
)
def test_refusal_that_will_not_last_says_when_to_come_again(outcome, seconds):
    reported = answered(outcome, enforced=True)
    assert (reported.allowed, reported.retry_after) == (False, seconds)


@pytest.mark.parametrize("outcome", [UNREADABLE, UNAVAILABLE], ids=["unreadable", "unavailable"])
def test_what_requests_nothing_need_not_wait_until_it_can_be_charged(outcome):
    reported = answered(outcome, enforced=True, pieces=False)
    assert (reported.allowed, reported.retry_after) == (True, None)


def test_pod_with_too_many_claims_is_refused_even_if_nothing_else_is_charged():
    reported = answered(TOO_MANY, enforced=True, pieces=False)
    assert (reported.allowed, reported.retry_after) == (False, None)


def test_what_is_missing_is_a_warning_beside_everything_else():
    path = FieldPath(["spec", "resourceClaims", 0, "resourceClaimTemplateName"])
    missing = existing_references.rule.finding(
        path, "no ResourceClaimTemplate gpus exists in team-a", "create it first"
    )
    reported = answered(refused(EXCEEDED), problems=(missing,))
    assert [(finding.rule.id, finding.severity) for finding in reported.findings] == [
        ("GA502", Severity.DENY),
        ("GA505", Severity.WARN),
    ]
    assert str(reported.findings[1]) == (
        "Create it first: no ResourceClaimTemplate gpus exists in team-a; spec.resourceClaims[0].resourceClaimTemplateName "
        "[GA505]"
    )


def test_names_of_outcomes_differ():
    outcomes = [
        let_in(None),
        NoQuota(),
        refused(EXCEEDED),
        refused(NOT_PRIMED),
        refused(FULL),
        refused(CHARGED_OTHERWISE),
        refused(UNSTORABLE),
        refused(Contended()),
        Uncountable(UNKNOWN_PRODUCT, "Warn"),
        Uncountable(UNKNOWN_MEMORY, "Warn"),
        UNREADABLE,
        UNAVAILABLE,
        TOO_MANY,
    ]
    assert sorted(map(outcome_name, outcomes)) == sorted(OUTCOMES)
