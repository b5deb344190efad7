"""The report on a GPUQuota: what its status says, what the cluster shows, and what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from policies.quota.ledger.ledger import MOST_CHARGES
from policies.quota.limits.quota import parse_quota
from policies.quota.report.report import QuotaState
from policies.quota.report.reporting import quota_report
from policies.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
LEADER = "see whether gpu-admission runs and has a leader (kubectl describe lease gpu-admission -n gpu-admission)"


def before(**ago):
    return (NOW - timedelta(**ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name="gpu-1", labels=H100):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}},
    }


def namespace(name="team-a", **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def pod(name, gpus=1, *, created=None, node="gpu-1", phase="Running"):
    limits = {"nvidia.com/gpu": str(gpus)}
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-{name}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | ({"creationTimestamp": created} if created else {}),
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "train:1", "resources": {"limits": limits}}],
        },
        "status": {"phase": phase},
    }


def quota(*limits, status=None, uid="uid-quota", **spec):
    document = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"} | ({"uid": uid} if uid else {}),
        "spec": {"limits": list(limits) or [{"name": "all", "gpus": 8}], **spec},
    }
    return document if status is None else {**document, "status": status}


def counted(document, *charges, **used):
    """A status that says what is used of each limit, and these charges."""
    limits = [
        {"name": limit.name, "key": limit.key, "hard": str(limit.hard), "reserved": "0", "used": used[limit.name]}
        for limit in parse_quota(document).limits
    ]
    status = {"limits": limits, "charges": list(charges), "counted": {"pods": "7", "claims": "7"}}
    return {**document, "status": status}


def charge(name="next", kind="Pod", *, time="", pieces=("",), amount="1", of=None):
    document = {"uid": f"uid-{name}", "kind": kind, "name": name, "time": time}
    bill = {"amounts": {"all": amount}, "most": {"gpus": amount, "memory": "0", "devices": amount}}
    return document | ({"of": of} if of else {}) | {"pieces": [{"name": piece, **bill} for piece in pieces]}


EMPTY = [
    {"apiVersion": version, "kind": f"{kind}List", "items": []}
    for version, kind in (("v1", "Pod"), ("resource.k8s.io/v1", "ResourceClaim"))
]


def reported(document, *objects, known=EMPTY):
    return quota_report(document, ManifestsView([*known, *objects]), DEFAULTS.quota, NOW)


def test_used_is_what_the_status_says():
    report = reported(counted(quota(), charge(), all="3"), namespace())
    (use,) = report.limits
    assert (use.used, use.reserved, use.left, use.counted) == (3, 1, 4, True)
    assert (report.state, report.remarks) == (QuotaState.WITHIN, ())


def test_manifest_is_counted_from_what_the_cluster_shows():
    report = reported(quota(uid=None), namespace(), node(), pod("a", 2), pod("b", 3))
    assert (report.limits[0].used, report.state) == (5, QuotaState.WITHIN)
    assert report.remarks == ("its status does not say what is used of all, so that is counted here",)


def test_manifest_without_pods_cannot_be_counted():
    report = reported(quota(uid=None), known=())
    assert (report.limits[0].used, report.limits[0].left, report.holders) == (None, None, None)
    assert report.state is QuotaState.UNCOUNTED
    assert report.remarks == (
        "its status does not say what is used of all, and without pods it cannot be counted here",
    )


@pytest.mark.parametrize(
    ("labels", "spec", "fate"),
    [
        ({"gpu-admission.io/quota": "enforced"}, {}, "is told to come again later (429)"),
        ({"gpu-admission.io/quota": "enforced"}, {"mode": "Warn"}, "is admitted with a warning"),
        ({}, {}, "is admitted with a warning"),
        (None, {}, "cannot be measured"),
    ],
    ids=["enforced", "warning", "not enforced", "unknown"],
)
def test_stored_quota_that_nobody_counted_says_what_happens_meanwhile(labels, spec, fate):
    report = reported(quota(**spec), *([] if labels is None else [namespace(**labels)]), node(), pod("a", 2))
    assert (report.state, report.limits[0].used) == (QuotaState.UNCOUNTED, 2)
    (remark,) = report.remarks
    assert remark == (
        f"all has not been counted yet, so what counts in it {fate}; that takes seconds after a limit is written: if it "
        f"stays so, {LEADER}"
    )


def test_limit_that_counts_something_else_now_is_not_counted():
    document = counted(quota(), all="3")
    document["spec"]["limits"][0]["selector"] = {"products": ["H100*"]}
    assert reported(document, namespace()).state is QuotaState.UNCOUNTED


@pytest.mark.parametrize(
    ("mode", "fate"), [("Enforce", "is refused"), ("Warn", "is admitted with a warning")], ids=["Enforce", "Warn"]
)
def test_limit_below_what_is_taken_is_over(mode, fate):
    document = counted(quota({"name": "all", "gpus": 4}, mode=mode), charge(amount="2"), all="9/2")
    report = reported(document, namespace())
    assert (report.state, report.limits[0].left) == (QuotaState.OVER, 0)
    (remark,) = report.remarks
    assert remark == (
        "all is over its limit by 5/2 GPUs: it was lowered, or something was admitted in mode Warn or while nobody was "
        f"asked; nothing is taken away, and what would take more {fate}"
    )


def test_count_that_is_less_than_what_is_there_is_old():
    report = reported(counted(quota(), charge(), all="1"), namespace(), node(), pod("a", 3))
    (remark,) = report.remarks
    assert remark == (
        "what is there now comes to 3 GPUs in all, and the status says 1 GPU used and 1 GPU reserved; if that is still "
        f"so in a minute, nobody counts: {LEADER}"
    )


def test_count_that_is_more_than_what_is_there_is_old():
    report = reported(counted(quota(), all="4"), namespace(), node(), pod("a", 3))
    (remark,) = report.remarks
    assert remark == (
        "what is there now comes to 3 GPUs in all, and the status says 4 GPUs used; if that is still so in a minute, "
        f"nobody counts: {LEADER}"
    )


def test_pod_that_was_seen_since_makes_no_count_old():
    report = reported(counted(quota(), charge("a"), all="2"), namespace(), node(), pod("a"), pod("b", 2))
    assert report.remarks == ()


def test_count_is_not_judged_by_pods_alone():
    known = [{"apiVersion": "v1", "kind": "PodList", "items": []}]
    assert reported(counted(quota(), all="4"), namespace(), node(), known=known).remarks == ()


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


@pytest.mark.parametrize(
    ("pieces", "made"), [(("",), ""), (("gpu",), "; whether its controller makes claims")], ids=["pod", "claim"]
)
def test_reservation_that_waits_for_long_is_told(pieces, made):
    charges = (
        charge("next", time=before(minutes=12), pieces=pieces),
        charge("other", time=before(minutes=6)),
        charge("young", time=before(seconds=30)),
    )
    report = reported(counted(quota(), *charges, all="0"), namespace())
    (remark,) = report.remarks
    assert remark == (
        "Pod next has been waiting for 12 minutes, and 1 more for more than 5 minutes; what was never stored is given "
        f"up after two: {LEADER}{made}"
    )


def test_ledger_without_room_is_told():
    charges = (charge(f"pod-{number}", amount="0") for number in range(MOST_CHARGES))
    report = reported(counted(quota(), *charges, all="0"), namespace())
    assert report.remarks == (
        "it has no room for more reservations: 1,000 are open, 1,000 are the most; new pods are told to come again later",
    )


def test_quota_of_a_namespace_that_nobody_is_asked_about_holds_nothing_back():
    document = counted(quota(), all="3")
    document["metadata"]["namespace"] = "kube-system"
    assert reported(document, namespace("kube-system")).remarks[0] == (
        "nobody is asked about namespace kube-system, so this quota holds nothing back"
    )


def test_quota_that_cannot_be_read_tells_every_mistake():
    report = reported(quota({"name": "all", "gpus": 0.5}, mode="Allow"), namespace())
    assert (report.state, report.quota, report.limits) == (QuotaState.UNREADABLE, None, ())
    assert [(str(path), said) for path, said in report.problems] == [
        ("spec.limits[0].gpus", 'is 0.5 without quotes; write a part of a GPU as text, such as "1/2" or "0.5"'),
        ("spec.mode", 'is "Allow"; write Enforce or Warn'),
    ]


@pytest.mark.parametrize("status", [None, [], {"conditions": {}}, {"limits": 3, "charges": "x", "conditions": [1, {}]}])
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
    assert reported(document, *objects).as_json() == {
        "namespace": "team-a",
        "name": "gpu",
        "state": "within",
        "mode": "Enforce",
        "unknownProducts": "WorstCase",
        "enforced": True,
        "limits": [
            {
                "name": "all",
                "unit": "gpus",
                "hard": "1/2",
                "used": "1/3",
                "reserved": "1/7",
                "left": "1/42",
                "counted": True,
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
            }
        ],
        "conditions": [{"type": "Ready", "status": "True", "reason": "Counted", "message": "all is"}],
        "problems": [],
        "remarks": [],
    }
