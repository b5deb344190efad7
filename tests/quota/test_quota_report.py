"""The report on a GPUQuota, from its status and the cluster."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction

import pytest

from policies.kubernetes.objects import json_document
from policies.quota.quota_json import QuotasJSON, quotas_json
from policies.quota.quota_report import QuotaState
from tests.quota.reported_quotas import before, charge, counted, namespace, node, pod, quota, reported


def test_used_is_what_the_status_says():
    report = reported(counted(quota(), charge(), all="3"), namespace())
    (use,) = report.limits
    assert (use.used, use.reserved, use.left, use.counted) == (3, 1, 4, True)
    assert (report.state, report.remarks) == (QuotaState.WITHIN, ())


def test_manifest_is_counted_from_what_the_cluster_shows():
    report = reported(quota(uid=None), namespace(), node(), pod("a", 2), pod("b", 3))
    assert (report.limits[0].used, report.state) == (5, QuotaState.WITHIN)
    assert report.remarks == ("its status does not say how much is used of all, so that is counted here",)


def test_manifest_without_pods_cannot_be_counted():
    report = reported(quota(uid=None), known=())
    assert (report.limits[0].used, report.limits[0].left, report.holders) == (None, None, None)
    assert report.state is QuotaState.UNCOUNTED
    assert report.remarks == (
        "its status does not say how much is used of all, and without pods it cannot be counted here",
    )


def test_limit_that_counts_something_else_now_is_not_counted():
    document = counted(quota(), all="3")
    document["spec"]["limits"][0]["selector"] = {"products": ["H100*"]}
    assert reported(document, namespace()).state is QuotaState.UNCOUNTED


def test_those_that_hold_the_largest_part_of_a_limit_come_first():
    limits = ({"name": "all", "gpus": 8}, {"name": "memory", "memory": "160Gi"})
    pods = (
        pod("young", 1, created=before(hours=1)),
        pod("large", 2, created=before(minutes=5)),
        pod("old", 1, created=before(days=3)),
        pod("ended", 4, phase="Succeeded"),
    )
    report = reported(quota(*limits, uid=None), namespace(), node(), *pods)
    assert [(each.name, each.age) for each in report.holders] == [
        ("team-a/large", timedelta(minutes=5)),
        ("team-a/old", timedelta(days=3)),
        ("team-a/young", timedelta(hours=1)),
    ]
    assert report.holders[0].amounts == {"all": 2, "memory": 2 * 81559 * 2**20}


def test_holder_of_something_that_is_not_allowed_at_all_comes_first():
    limits = ({"name": "all", "gpus": 8}, {"name": "t4", "selector": {"products": ["Tesla-T4"]}, "gpus": 0})
    nodes = (node(), node("gpu-2", {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": "15360"}))
    report = reported(quota(*limits, uid=None), namespace(), *nodes, pod("a", 8), pod("b", node="gpu-2"))
    assert [each.name for each in report.holders] == ["team-a/b", "team-a/a"]


def test_reservations_tell_what_they_wait_for_the_oldest_first():
    charges = (
        charge("next", time=before(seconds=5), pieces=("", "gpu", "more")),
        charge("claim", "ResourceClaim", time=before(seconds=40)),
        charge("seen", time=before(seconds=20), pieces=("gpu",)),
        charge("timeless"),
    )
    report = reported(counted(quota(), *charges, all="0"), namespace())
    assert [(each.name, each.age, each.waits_for) for each in report.reservations] == [
        ("claim", timedelta(seconds=40), ("the claim",)),
        ("seen", timedelta(seconds=20), ("its claim gpu",)),
        ("next", timedelta(seconds=5), ("the pod", "its claim gpu", "its claim more")),
        ("timeless", None, ("the pod",)),
    ]
    assert report.reservations[2].amounts == {"all": Fraction(3)}


def test_claim_of_a_pod_that_is_charged_for_it_says_so():
    charges = (
        charge("next", pieces=("", "gpu")),
        charge("next-gpu-x", "ResourceClaim", of={"uid": "uid-next", "piece": "gpu"}),
        charge("gone-gpu-y", "ResourceClaim", of={"uid": "uid-gone", "piece": "gpu"}),
    )
    report = reported(counted(quota(), *charges, all="0"), namespace())
    assert {each.name: each.of for each in report.reservations} == {"next": "", "next-gpu-x": "next", "gone-gpu-y": ""}


def test_unreadable_quota_reports_every_mistake():
    report = reported(quota({"name": "all", "gpus": 0.5}, mode="Allow"), namespace())
    assert (report.state, report.quota, report.limits) == (QuotaState.UNREADABLE, None, ())
    assert [each.text for each in report.problems] == [
        'Write a part of a GPU as text, such as "1/2" or "0.5": gpus is 0.5 without quotes; spec.limits[0].gpus',
        'Write Enforce or Warn: mode is "Allow"; spec.mode',
    ]


@pytest.mark.parametrize(
    "status", [None, [], {"conditions": {}}, {"limits": 3, "openCharges": 3, "conditions": [1, {}]}]
)
def test_garbage_in_a_status_is_no_count(status):
    report = reported({**quota(), "status": status}, namespace())
    assert (report.state, report.conditions, report.reservations) == (QuotaState.UNCOUNTED, (), ())


def test_time_without_a_zone_is_no_time():
    report = reported(counted(quota(), charge(time="2026-03-01T11:00:00"), all="0"), namespace())
    assert [each.age for each in report.reservations] == [None]


def test_json_has_exact_amounts_as_text():
    document = counted(quota({"name": "all", "gpus": "1/2"}), charge(time=before(seconds=3), amount="1/7"), all="1/3")
    document["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "Counted", "message": "all is"}]
    objects = (namespace(**{"gpu-admission.io/quota": "enforced"}),)
    assert json_document(quotas_json([reported(document, *objects)]), QuotasJSON)["quotas"][0] == {
        "kind": "GPUQuota",
        "namespace": "team-a",
        "name": "gpu",
        "state": "within",
        "mode": "Enforce",
        "unknownProducts": "WorstCase",
        "enforced": True,
        "exempt": "",
        "namespaces": ["team-a"],
        "limits": [
            {
                "name": "all",
                "unit": "gpus",
                "hard": "1/2",
                "used": "1/3",
                "reserved": "1/7",
                "left": "1/42",
                "counted": True,
                "held": "0",
                "waiting": "0",
                **dict.fromkeys(("expected", "lent", "borrowed")),
            }
        ],
        "holders": [],
        "reservations": [
            {
                "kind": "Pod",
                "name": "next",
                "uid": "uid-next",
                "seconds": 3,
                "amounts": {"all": "1/7"},
                "waitsFor": ["the pod"],
                "countedWithPod": "",
                "countedWithPodGroup": "",
            }
        ],
        "conditions": [{"type": "Ready", "status": "True", "reason": "Counted", "message": "all is"}],
        "problems": [],
        "remarks": [],
    }


def test_json_names_holders_with_their_age_in_seconds():
    held = pod("a", 2, created=before(hours=1))
    report = reported(counted(quota(), all="2"), namespace(), node(), held)
    assert json_document(quotas_json([report]), QuotasJSON)["quotas"][0]["holders"] == [
        {"kind": "Pod", "name": "team-a/a", "seconds": 3600, "amounts": {"all": "2"}, "waits": False}
    ]
