"""The balance of a quota while objects are created one after another."""

from fractions import Fraction

import pytest

from policies.quota.balance import open_balance
from policies.quota.charging import charge_decision
from policies.quota.ledger.ledger import Ledger
from policies.quota.limits.quota import QuotaNames
from policies.rules.settings import DEFAULTS
from tests.quota.charge_requests import SCHEDULER, creating
from tests.quota.counted_objects import claim as counted_claim
from tests.quota.counted_objects import document, pod, status_of
from tests.quota.pod_group_objects import group, member
from webhook.cluster.manifests import ManifestsView

EMPTY = ({"kind": "PodList", "items": []}, {"kind": "ResourceClaimList", "items": []})


def balance_of(view, **spec):
    return open_balance(QuotaNames.of_namespace("team-a"), document(**spec), view, DEFAULTS.quota)


def charges(created, view, **fields):
    return [(charge, 1) for charge in charge_decision(creating(created, **fields), view, DEFAULTS).charges]


def admit(balance, key, requests):
    return balance.after(key, requests, balance.part_that_fits(key, requests))


def refuse(balance, key, requests):
    return balance.after(key, requests, ())


def used(balance, key=("Pod", "team-a", "other")):
    """What an object finds in the status: used and reserved amounts of the first limit."""
    (limit,) = Ledger.read(balance.document_for(key)).status(balance.quota, 0)["limits"]
    return Fraction(limit["used"]) + Fraction(limit["reserved"])


def test_claims_of_a_pod_group_are_charged_once_for_its_pods(pod, example, template, request_for):
    view = example(group(), template("gpus", request_for(count=3)))
    balance = balance_of(view)
    for number in range(3):
        created = member(pod, f"train-{number}", uid=str(number))
        balance = admit(balance, ("Pod", "team-a", f"train-{number}"), charges(created, view))
    assert used(balance) == 3


def test_claim_that_the_scheduler_makes_for_a_pod_is_not_charged_again():
    view = ManifestsView([*EMPTY, pod("train", 2, nodeName="n", status=status_of(extended="scheduled"))])
    made = charges(counted_claim("scheduled", 2, of="train"), view, user=SCHEDULER)
    assert made
    assert used(admit(balance_of(view), ("ResourceClaim", "team-a", "scheduled"), made)) == 2


def test_pod_in_two_files_is_charged_once():
    view = ManifestsView(EMPTY)
    balance = balance_of(view)
    for _ in range(2):
        assert used(balance, ("Pod", "team-a", "train")) == 0
        balance = admit(balance, ("Pod", "team-a", "train"), charges(pod("train", 2), view))
    assert used(balance) == 2


def test_pods_without_names_are_charged_each():
    view = ManifestsView(EMPTY)
    balance = balance_of(view)
    for _ in range(2):
        balance = admit(balance, ("Pod", "team-a", ""), charges(pod("train", 2), view))
    assert used(balance) == 4


def test_object_finds_what_others_hold():
    balance = balance_of(ManifestsView([*EMPTY, pod("train", 2), pod("infer", 3)]))
    assert [used(balance, ("Pod", "team-a", name)) for name in ("train", "infer", "new")] == [3, 2, 5]


def test_claims_made_for_a_pod_are_held_by_the_pod():
    status = status_of(gpu="generated")
    view = ManifestsView([*EMPTY, pod("train", 2, status=status), counted_claim("generated", 3, "train", "gpu")])
    assert [
        used(balance_of(view), key) for key in (("Pod", "team-a", "train"), ("ResourceClaim", "team-a", "generated"))
    ] == [0, 2]


def test_refused_object_is_a_part_of_the_shortage_only():
    view = ManifestsView(EMPTY)
    balance = refuse(balance_of(view), ("Pod", "team-a", "big"), charges(pod("big", 9), view))
    assert used(balance) == 0
    (sentence,) = balance.shortages
    assert sentence == (
        'raise limit "all" of GPUQuota gpu in namespace team-a to 9 to fit everything: 9 of 8 GPUs would be used'
    )


def test_quota_that_is_exceeded_already_lacks_nothing_for_stored_objects():
    view = ManifestsView([*EMPTY, pod("train", 9)])
    balance = refuse(balance_of(view), ("Pod", "team-a", "train"), charges(pod("train", 9), view))
    assert [*balance.shortages] == []


@pytest.mark.parametrize(("mode", "created"), [("Enforce", 6), ("Warn", 15)])
def test_as_many_pods_of_a_workload_are_created_as_fit(mode, created):
    view = ManifestsView(EMPTY)
    requests = [(charge, 5) for charge, _ in charges(pod("train", 3), view)]
    assert used(admit(balance_of(view, mode=mode), ("Job", "team-a", "train"), requests)) == created


def test_quota_that_cannot_be_read_has_no_balance():
    assert balance_of(ManifestsView(EMPTY), mode="x") is None
