"""Problems of a GPUQuota that its report names."""

from __future__ import annotations

import pytest

from policies.quota.ledger.ledger import ROOM
from policies.quota.quota_report import QuotaState
from tests.quota.reported_quotas import EMPTY, before, charge, counted, namespace, node, pod, quota, reported

LEADER = "see whether gpu-admission runs and has a leader (kubectl describe lease gpu-admission -n gpu-admission)"


@pytest.mark.parametrize(
    ("labels", "spec", "fate"),
    [
        ({"gpu-admission.io/quota": "enforced"}, {}, "is refused for now (429)"),
        ({"gpu-admission.io/quota": "enforced"}, {"mode": "Warn"}, "is admitted with a warning"),
        ({}, {}, "is admitted with a warning"),
        (None, {}, "cannot be measured"),
    ],
    ids=["enforced", "warning", "not enforced", "unknown"],
)
def test_uncounted_stored_quota_says_what_happens_meanwhile(labels, spec, fate):
    report = reported(quota(**spec), *([] if labels is None else [namespace(**labels)]), node(), pod("a", 2))
    assert (report.state, report.limits[0].used) == (QuotaState.UNCOUNTED, 2)
    (remark,) = report.remarks
    assert remark == (
        f"all has not been counted yet, so what counts in it {fate}; that takes seconds after a limit is written: if it "
        f"stays so, {LEADER}"
    )


@pytest.mark.parametrize(
    ("mode", "fate"), [("Enforce", "is refused"), ("Warn", "is admitted with a warning")], ids=["Enforce", "Warn"]
)
def test_limit_below_what_is_taken_is_over(mode, fate):
    document = counted(quota({"name": "all", "gpus": 4}, mode=mode), charge(amount="2"), all="9/2")
    report = reported(document, namespace())
    assert (report.state, report.limits[0].left) == (QuotaState.OVER, 0)
    (remark,) = report.remarks
    assert remark == (
        "all is over its limit, 6.5 of 4 GPUs used: it was lowered, or objects were admitted in mode Warn or without a call "
        f"of the webhook; nothing is taken away, and a request for more {fate}"
    )


def test_count_that_is_less_than_what_is_there_is_old():
    report = reported(counted(quota(), charge(), all="1"), namespace(), node(), pod("a", 3))
    (remark,) = report.remarks
    assert remark == (
        "existing pods and claims use 3 GPUs of all, but the status says 1 GPU used and 1 GPU reserved; if that is still "
        f"so in a minute, the quota is not counted: {LEADER}"
    )


def test_count_that_is_more_than_what_is_there_is_old():
    report = reported(counted(quota(), all="4"), namespace(), node(), pod("a", 3))
    (remark,) = report.remarks
    assert remark == (
        "existing pods and claims use 3 GPUs of all, but the status says 4 GPUs used; if that is still so in a minute, "
        f"the quota is not counted: {LEADER}"
    )


def test_pod_that_was_seen_since_makes_no_count_old():
    report = reported(counted(quota(), charge("a"), all="2"), namespace(), node(), pod("a"), pod("b", 2))
    assert report.remarks == ()


def test_count_is_not_judged_by_pods_alone():
    known = [{"apiVersion": "v1", "kind": "PodList", "items": []}]
    assert reported(counted(quota(), all="4"), namespace(), node(), known=known).remarks == ()


def test_count_is_not_judged_without_slices():
    known = [each for each in EMPTY if each["kind"] != "ResourceSliceList"]
    assert reported(counted(quota(), all="4"), namespace(), node(), pod("a", 3), known=known).remarks == ()


@pytest.mark.parametrize(
    ("pieces", "made"), [(("",), ""), (("gpu",), "; whether its controller makes claims")], ids=["pod", "claim"]
)
def test_reservation_that_waits_for_long_is_reported(pieces, made):
    charges = (
        charge("next", time=before(minutes=12), pieces=pieces),
        charge("other", time=before(minutes=6)),
        charge("young", time=before(seconds=30)),
    )
    report = reported(counted(quota(), *charges, all="0"), namespace())
    (remark,) = report.remarks
    assert remark == (
        "Pod next has been waiting for 12 minutes, and 1 more for more than 5 minutes; an object that was never "
        f"stored is given up after two: {LEADER}{made}"
    )


def test_ledger_without_room_is_reported():
    charges = (charge(f"pod-{number}", amount="0") for number in range(ROOM.charges))
    report = reported(counted(quota(), *charges, all="0"), namespace())
    assert report.remarks == (
        "it has no room for more reservations: 5,000 are open, 5,000 are the most; new pods cannot be charged until some are closed",
    )


def test_quota_of_an_exempt_namespace_limits_nothing():
    document = counted(quota(), all="3")
    document["metadata"]["namespace"] = "kube-system"
    assert reported(document, namespace("kube-system")).remarks[0] == (
        "namespace kube-system is exempt from quotas (no webhook is called for it), so this GPUQuota limits nothing"
    )
