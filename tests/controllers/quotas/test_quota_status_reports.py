"""Conditions, metrics and logs of the leader's count."""

import logging

import pytest

from policies.rules.settings import GPUAdmissionPolicy, Quotas
from tests.controllers.quotas.conftest import KINDS, QUOTAS
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.store import TRUSTED_SECONDS
from webhook.controllers.presence import Presence

OWN = ""
FAILS_OPEN = (
    "False",
    "FailsOpen",
    (
        "Namespace team-a does not have the label gpu-admission.io/quota: enforced, so pods and claims that get GPUs are "
        "admitted without a charge while the quota cannot be charged."
    ),
)
ENFORCED = (
    "True",
    "Enforced",
    (
        "Namespace team-a has the label gpu-admission.io/quota: enforced, so pods and claims that get GPUs are refused while "
        "the quota cannot be charged."
    ),
)


def label(team, **labels):
    namespace = team.sandbox.get("Namespace", "team-a")
    found = {**namespace["metadata"].get("labels", {}), **labels}
    team.sandbox.replace({**namespace, "metadata": {**namespace["metadata"], "labels": found}})


async def test_status_says_whether_the_quota_fails_closed(team, leader):
    team.quota()
    await leader.count()
    assert team.condition("Enforced") == FAILS_OPEN
    label(team, **{"gpu-admission.io/quota": "enforced"})
    await leader.count()
    assert team.condition("Enforced") == ENFORCED


NOT_SEEN = (
    "Unknown",
    "NotSeen",
    (
        "Not all replicas charge to this GPUQuota yet: replica-b has not seen it. What they admit meanwhile is counted when it "
        "is seen."
    ),
)


@pytest.fixture
async def other(team, leader):
    """The presence of another replica, with the leader's cache of GPUQuotas."""
    team.sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-admission"}})
    other = Presence(
        leader.client,
        "gpu-admission",
        "replica-b",
        lambda: leader.stores,
        clockwork=Clockwork(clock=lambda: team.seconds),
    )
    await other._turn(team.seconds)
    return other


async def test_new_quota_is_not_said_to_hold_before_all_replicas_have_seen_it(team, leader, other):
    team.quota()
    await leader.count()
    assert team.condition("Enforced") == NOT_SEEN
    await leader.count()
    assert team.condition("Enforced") == NOT_SEEN
    await other._turn(team.seconds)
    await leader.count()
    assert team.condition("Enforced") == FAILS_OPEN


async def test_pods_that_replicas_missed_are_counted_before_a_new_quota_is_said_to_hold(team, leader, other):
    team.quota()
    await leader.count()
    team.pod("missed", 2)
    await other._turn(team.seconds)
    await leader.count_what_was_seen()  # its cache of pods is behind
    assert team.condition("Enforced") == FAILS_OPEN
    assert team.amounts == {"all": ("2", "0")}


async def test_new_quota_is_not_said_to_hold_while_pods_cannot_be_counted(team, leader, other):
    team.quota()
    await leader.count()
    await other._turn(team.seconds)
    leader.stores["Pod"].mark("forbidden", "pods is forbidden")
    await leader.count_what_was_seen()
    assert team.condition("Enforced") == NOT_SEEN


async def test_leader_whose_cache_shows_an_earlier_quota_says_nothing_of_the_new_one(team, leader, other):
    team.quota()
    await leader.count()
    await other._turn(team.seconds)
    await leader.count()
    team.sandbox.remove("GPUQuota", "gpu", "team-a")
    team.quota()
    team.pod("missed", 2)
    await leader.see("Pod")
    await leader.count_what_was_seen()
    assert "status" not in team.stored
    leader.stores["Pod"].mark("forbidden", "pods is forbidden")
    await leader.count_what_was_seen()
    assert "status" not in team.stored


async def test_quota_that_all_have_seen_stays_so_for_the_next_leader(team, leader, replica):
    team.quota()
    await leader.count()
    other = await replica()
    other.round.presences.why_unseen = None  # it is not asked
    await other.count()
    assert team.condition("Enforced") == FAILS_OPEN


async def test_quota_of_an_exempt_namespace_says_so_and_has_no_drift(team, leader):
    team.sandbox.create(
        {
            "apiVersion": "gpu-admission.io/v1alpha1",
            "kind": "GPUQuota",
            "metadata": {"name": "gpu", "namespace": "kube-system"},
            "spec": {"limits": [{"name": "all", "gpus": 8}]},
        }
    )
    await leader.count()
    system = {**team.pod("driver", 1), "metadata": {"name": "driver", "namespace": "kube-system"}}
    team.sandbox.create(system)
    await leader.count()
    status = team.sandbox.get("GPUQuota", "gpu", "kube-system")["status"]
    assert (status["summary"], leader.sample("gpu_admission_quota_drift_total")) == ("all 1 of 8", 0)
    conditions = status["conditions"]
    assert [(each["reason"], each["message"]) for each in conditions if each["type"] == "Enforced"] == [
        (
            "Exempt",
            "Namespace kube-system is exempt from quotas (no webhook is called for it), so this GPUQuota limits nothing.",
        )
    ]


async def test_condition_follows_the_settings(team, leader):
    team.quota()
    await leader.count()
    leader.settings = GPUAdmissionPolicy(quota=Quotas(exempt_namespaces=("team-*",)))
    await leader.count()
    (condition,) = (each for each in team.status["conditions"] if each["type"] == "Enforced")
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "Exempt",
        "Namespace team-a is exempt from quotas (quota.exemptNamespaces matches it), so this GPUQuota limits nothing.",
    )


async def test_condition_keeps_the_time_of_its_last_change(team, leader):
    team.quota()
    await leader.count()
    conditions = [{**each, "lastTransitionTime": "2026-01-01T00:00:00Z"} for each in team.status["conditions"]]
    stored = team.stored
    team.sandbox.replace({**stored, "status": {**stored["status"], "conditions": conditions}})
    team.quota({"name": "all", "gpus": 4})
    label(team, **{"gpu-admission.io/quota": "enforced"})
    await leader.count()
    assert [
        (each["type"], each["lastTransitionTime"], each["observedGeneration"]) for each in team.status["conditions"]
    ] == [("Ready", "2026-01-01T00:00:00Z", 2), ("Enforced", "2027-01-01T00:00:00Z", 2)]


async def test_quota_that_cannot_be_read_is_reported_and_nothing_else_is_touched(team, leader):
    team.quota()
    team.pod("train", 2)
    await leader.count()
    await leader.charge("late", {OWN: 1})
    before = {key: value for key, value in team.status.items() if key != "conditions"}
    team.quota({"name": "all", "memory": 80})
    for _ in range(2):
        await leader.count()
    assert team.condition("Ready") == (
        "False",
        "Unreadable",
        (
            'Write a unit, such as "80Gi": memory is 80, less memory than any GPU has; spec.limits[0].memory. Until this is put '
            "right, nothing can be charged."
        ),
    )
    assert {key: value for key, value in team.status.items() if key != "conditions"} == before
    assert team.requests("patch", "gpuquotas") == 1
    team.quota({"name": "all", "gpus": 8})
    await leader.count()
    assert team.condition("Ready")[:2] == ("True", "Counted")


async def test_pods_that_cannot_be_listed_are_reported_and_what_was_counted_holds(team, leader):
    team.quota()
    team.pod("train", 2)
    await leader.count()
    await leader.charge("late", {OWN: 1})
    await leader.see()
    leader.stores["Pod"].mark("forbidden", "pods is forbidden")
    await leader.count_what_was_seen()
    assert team.condition("Ready") == ("False", "NotCounted", "Pods are unknown: pods is forbidden.")
    assert team.amounts == {"all": ("2", "1")}
    await leader.count()
    assert team.condition("Ready")[:2] == ("True", "Counted")


async def test_new_quota_stays_unprimed_while_nothing_is_known(team, leader):
    team.quota()
    await leader.see()
    leader.stores["ResourceSlice"].mark("forbidden", "resourceslices.resource.k8s.io is forbidden")
    await leader.count_what_was_seen()
    assert team.condition("Ready") == (
        "False",
        "NotCounted",
        "ResourceSlices are unknown: resourceslices.resource.k8s.io is forbidden.",
    )
    assert team.amounts == {"all": (None, "0")}
    assert team.status["summary"] == "all ? of 8"


async def test_unknown_memory_counts_as_zero_and_is_reported(team, leader):
    team.quota({"name": "memory", "memory": "1Ti"})
    team.pod("train", 2)
    await leader.count()
    assert team.amounts == {"memory": ("0", "0")}
    assert team.condition("Ready") == (
        "True",
        "Counted",
        (
            "All pods and claims of the namespace were counted. No node and no ResourceSlice says how much memory a GPU has, "
            "so memory counts as 0 unless the product says it; make GPU Feature Discovery label GPU nodes with "
            "nvidia.com/gpu.memory."
        ),
    )


async def test_what_is_found_without_a_charge_is_counted_as_drift_and_logged(team, leader, caplog):
    team.quota()
    team.pod("before", 1)
    await leader.count()
    await leader.charge("charged", {OWN: 1})
    team.pod("charged", 1)
    team.pod("unlimited", 0)
    await leader.count()
    assert leader.sample("gpu_admission_quota_drift_total") == 0
    team.pod("smuggled", 1)
    team.claim("too", 1)
    with caplog.at_level(logging.WARNING, "gpu_admission.controllers"):
        await leader.count()
    assert team.amounts == {"all": ("4", "0")}
    assert leader.sample("gpu_admission_quota_drift_total") == 2
    assert caplog.messages == ["2 pods and claims had no charge and count now: Pod smuggled, ResourceClaim too"]
    await leader.count()
    assert leader.sample("gpu_admission_quota_drift_total") == 2


@pytest.mark.parametrize(("amount", "value"), [("hard", 8), ("used", 2), ("reserved", 0.5)])
async def test_leader_shows_the_amounts_of_limits(team, leader, amount, value):
    labels = {"namespace": "team-a", "limit": "all", "unit": "gpus", "amount": amount}
    team.quota()
    team.pod("train", 2)
    await leader.count()
    await leader.charge("part", {OWN: "1/2"})
    await leader.count()
    assert leader.sample("gpu_admission_quota", **labels) == value
    leader.round.forget()
    assert leader.sample("gpu_admission_quota", **labels) is None


async def test_leader_whose_pods_are_silent_frees_nothing(team, leader):
    team.quota()
    await leader.charge("train", {"": 2})
    team.pod("train", gpus=2)
    await leader.count()
    team.sandbox.remove("Pod", "train", "team-a")
    team.seconds += TRUSTED_SECONDS
    await leader.see(*(kind for kind in (*KINDS, *QUOTAS) if kind != "Pod"))
    await leader.round.round()
    assert team.amounts["all"] == ("2", "0")
    assert team.condition("Ready")[1:] == (
        "NotCounted",
        "Pods are unknown: the watch is open, and the API server sends nothing.",
    )
