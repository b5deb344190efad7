"""All pods of a workload, compared with what is left of a quota."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from policies.kubernetes.objects import FieldPath
from policies.kubernetes.pod_templates import PodCount
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.recount import Counted, Snapshot, recount
from policies.quota.limits.quota import Limit, Quota
from policies.quota.workload_totals import PodsAtOnce, room_for_all
from policies.rules.charges import OWN, Bill, Charge

GI = 2**30
QUOTA = Quota((Limit("h100", "gpus", Fraction(8)), Limit("memory", "memory", Fraction(640 * GI))))
REPLICAS = FieldPath(["spec", "replicas"])


def pods(count, gpus, path=REPLICAS, group=None, **claims):
    bills = {OWN: _bill(gpus)} | {piece: _bill(requested) for piece, requested in claims.items()}
    return PodsAtOnce(Charge("", "Pod", "team-a", "", bills, shared=group), PodCount(count, path))


def ring(gpus, uid="ring"):
    """What pods share with a PodGroup."""
    return Charge(uid, "PodGroup", "team-a", uid, {"gpus": _bill(gpus)})


def _bill(gpus):
    amount = Fraction(gpus)
    return Bill({"h100": amount, "memory": amount * 16 * GI} if amount else {}, {})


def ledger(used=0):
    held = Counted("u", "Pod", "other", amounts={"h100": Fraction(used)})
    return recount(Ledger(), QUOTA, Snapshot({"u": held}, {}, "5", "5"))


def findings_of(*made, used=0, is_new=True, counted=None):
    found = room_for_all(made, QUOTA, counted or ledger(used), is_new=is_new)
    return [f"{finding.path}: {finding.message}" for finding in found]


def test_pods_that_fit_together_are_not_spoken_of():
    assert findings_of(pods(4, 2)) == []


def test_more_than_the_limit_ever_has_is_reported_with_how_many_fit():
    assert findings_of(pods(10, 1)) == [
        (
            'spec.replicas: 10 pods at once request 10 GPUs, but limit "h100" of GPUQuota gpu allows at most 8 GPUs, so 8 '
            "are created, and the others are refused until some end"
        )
    ]


def test_shortage_names_the_setting_if_gpus_count_whole_because_they_are_shared_without_limit():
    unlimited = replace(pods(10, 1), counts_unlimited=True)
    (found,) = room_for_all([unlimited], QUOTA, ledger(), is_new=True)
    assert found.message.endswith("; a claim counts as a whole GPU, because the driver shares GPUs without limit")
    assert found.administrator.startswith("set quota.unlimitedShare of the GPUAdmissionPolicy, or raise the limit")


def test_more_than_is_left_is_reported_with_what_is_left():
    assert findings_of(pods(4, 2), used=5) == [
        (
            'spec.replicas: 4 pods at once request 8 GPUs, but limit "h100" of GPUQuota gpu has 3 of 8 GPUs left, so 1 '
            "is created, and the others are refused until some end"
        )
    ]


def test_memory_is_reported_as_memory():
    quota = Quota(QUOTA.limits[1:])
    counted = recount(Ledger(), quota, Snapshot({}, {}, "5", "5"))
    (finding,) = room_for_all([pods(2, "41/2")], quota, counted, is_new=True)
    assert finding.message == (
        '2 pods at once request 656 GiB of memory, but limit "memory" of GPUQuota gpu allows at most 640 GiB of memory, so 1 '
        "is created, and the others are refused until some end"
    )


def test_only_the_limit_with_least_room_is_reported():
    quota = Quota((Limit("h100", "gpus", Fraction(8)), Limit("memory", "memory", Fraction(64 * GI))))
    counted = recount(Ledger(), quota, Snapshot({}, {}, "5", "5"))
    (finding,) = room_for_all([pods(10, 1)], quota, counted, is_new=True)
    assert finding.message == (
        '10 pods at once request 160 GiB of memory, but limit "memory" of GPUQuota gpu allows at most 64 GiB of memory, so 4 '
        "are created, and the others are refused until some end"
    )


def test_quota_that_only_warns_keeps_no_pod_from_being_created():
    (finding,) = room_for_all([pods(10, 1)], replace(QUOTA, mode="Warn"), ledger(), is_new=True)
    assert finding.message == (
        '10 pods at once request 10 GPUs, but limit "h100" of GPUQuota gpu allows at most 8 GPUs; all are admitted all the '
        "same, because the quota has mode: Warn"
    )


def test_pods_that_do_not_even_fit_alone_are_not_counted_among_the_others():
    assert findings_of(pods(2, 9), pods(4, 2)) == []
    assert len(findings_of(pods(2, 9), pods(5, 2))) == 1


def test_limit_that_all_fit_into_is_not_spoken_of_where_another_keeps_each_out():
    quota = Quota((Limit("h100", "gpus", Fraction(4)), Limit("memory", "memory", Fraction(160 * GI))))
    counted = recount(Ledger(), quota, Snapshot({}, {}, "5", "5"))
    assert list(room_for_all([pods(8, 5)], quota, counted, is_new=True)) == []


def test_pods_none_of_which_fits_are_left_to_the_refusal_of_each():
    assert findings_of(pods(2, 4), used=6) == []


def test_workload_that_exists_is_compared_with_all_that_the_quota_has():
    assert findings_of(pods(4, 2), used=8, is_new=False) == []
    assert len(findings_of(pods(5, 2), used=8, is_new=False)) == 1


def test_templates_are_added_up_and_reported_where_most_is_requested():
    workers = FieldPath(["spec", "workers"])
    assert findings_of(pods(1, 2), pods(4, 2, workers)) == [
        (
            'spec.workers: 5 pods at once request 10 GPUs, but limit "h100" of GPUQuota gpu allows at most 8 GPUs, so not all '
            "of them are created until some end"
        )
    ]


def test_claims_of_a_pod_count_with_what_it_requests_itself():
    assert len(findings_of(pods(3, 1, train=2))) == 1
    assert findings_of(pods(2, 1, train=2)) == []


@pytest.mark.parametrize("made", [pods(0, 4), pods(100, 0)], ids=["no pods", "no GPUs"])
def test_what_takes_nothing_is_not_spoken_of(made):
    assert findings_of(made, used=8) == []


def test_limit_that_is_not_primed_is_not_spoken_of():
    assert findings_of(pods(10, 1), counted=Ledger()) == []


def test_pods_of_a_workload_that_exists_are_reported_even_where_none_would_fit():
    assert findings_of(pods(1, 9), used=8, is_new=False) == [
        (
            'spec.replicas: 1 pod requests 9 GPUs, but limit "h100" of GPUQuota gpu allows at most 8 GPUs, so none is created'
        )
    ]


def test_claim_that_all_pods_share_counts_once():
    assert findings_of(pods(4, 1, group=ring(4))) == []
    assert findings_of(pods(5, 1, group=ring(4))) == [
        (
            'spec.replicas: 5 pods at once request 9 GPUs (4 GPUs in claims that they share), but limit "h100" of GPUQuota gpu '
            "allows at most 8 GPUs, so 4 are created, and the others are refused until some end"
        )
    ]


def test_pods_that_share_all_that_they_request_fit_however_many_they_are():
    assert findings_of(pods(1000, 0, group=ring(8))) == []


def test_claim_counts_once_for_templates_of_one_group():
    workers = FieldPath(["spec", "workers"])
    assert findings_of(pods(1, 1, group=ring(4)), pods(3, 1, workers, group=ring(4))) == []
    (line,) = findings_of(pods(1, 1, group=ring(4)), pods(3, 1, workers, group=ring(4, "other")))
    assert line.startswith("spec.workers: 4 pods at once request 12 GPUs (8 GPUs in claims that they share), but ")


def test_claim_of_a_group_that_is_charged_already_is_not_requested_again():
    charge = Charge("", "Pod", "team-a", "", {}, shared=ring(4))
    counted = ledger().charge(charge, QUOTA)
    assert findings_of(pods(4, 1, group=ring(4)), counted=counted) == []
    assert len(findings_of(pods(5, 1, group=ring(4)), counted=counted)) == 1


def test_pods_whose_shared_claim_does_not_fit_are_left_to_the_refusal_of_each():
    assert findings_of(pods(2, 1, group=ring(8))) == []


def test_pods_of_a_workload_that_exists_count_with_the_claim_that_they_share():
    assert findings_of(pods(4, 1, group=ring(4)), used=8, is_new=False) == []
    assert findings_of(pods(1, 1, group=ring(8)), used=8, is_new=False) == [
        (
            'spec.replicas: 1 pod requests 9 GPUs (8 GPUs in claims that they share), but limit "h100" of GPUQuota gpu allows '
            "at most 8 GPUs, so none is created"
        )
    ]


def test_pods_each_of_which_takes_all_that_is_left_do_not_fit_together():
    assert len(findings_of(pods(2, 8))) == 1


def test_pods_without_gpus_are_not_counted_among_the_others():
    assert findings_of(pods(1, 0), pods(10, 1)) == findings_of(pods(10, 1))
