"""Holders of a quota, and the part of a claim that its pod holds already."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from policies.quota.counting import cover, holders
from policies.quota.limits.quota import parse_quota
from policies.quota.outcomes import Holder
from policies.rules.settings.choices import Quotas
from tests.quota.counted_objects import claim, document, pod, status_of
from webhook.cluster.manifests import ManifestsView

NOW = datetime(2027, 1, 4, tzinfo=UTC)


def held(*objects, quota=None):
    view = ManifestsView([{"kind": "PodList", "items": []}, {"kind": "ResourceClaimList", "items": []}, *objects])
    return holders("team-a", parse_quota(quota or document()), view, Quotas(), NOW)


def test_holders_are_named_with_their_namespace_and_age():
    assert held(pod("train", 4), claim("shared", 2)) == (
        Holder("team-a/train", {"all": Fraction(4)}, timedelta(days=3), waits=True),
        Holder("team-a/shared", {"all": Fraction(2)}, timedelta(days=1), waits=True, is_claim=True),
    )


def test_claims_made_for_a_pod_are_held_by_the_pod():
    status = status_of(gpu="generated", extended="scheduled")
    found = held(
        pod("train", 2, status=status), claim("generated", 3, "train", "gpu"), claim("scheduled", 2, of="train")
    )
    assert found == (Holder("team-a/train", {"all": Fraction(5)}, timedelta(days=3), waits=True),)


def test_claim_of_a_pod_that_is_gone_is_held_by_itself():
    assert [each.name for each in held(claim("generated", 3, "train", "gpu"))] == ["team-a/generated"]


def test_who_holds_nothing_is_no_holder():
    assert held(pod("train", 0), pod("done", 3, status={"phase": "Succeeded"})) == ()


def test_holders_are_empty_if_pods_are_unknown():
    assert holders("team-a", parse_quota(document()), ManifestsView(), Quotas(), NOW) == ()


@pytest.mark.parametrize("created", [None, "yesterday"], ids=["unsaid", "no-time"])
def test_holder_without_a_time_has_no_age(created):
    train = pod("train")
    train["metadata"]["creationTimestamp"] = created
    assert held(train)[0].age == timedelta()


def test_age_of_a_time_without_a_zone_is_that_of_utc():
    train = pod("train")
    train["metadata"]["creationTimestamp"] = "2027-01-03T23:00:00"
    assert held(train)[0].age == timedelta(hours=1)


def covered(train, *claims, uid="uid-of-new"):
    return cover(train, claims, uid, parse_quota(document()), ManifestsView(), Quotas())


def test_claim_of_the_scheduler_is_covered_by_what_its_pod_comes_to():
    assert covered(pod("train", 4)) == {"all": 4}


def test_what_other_claims_took_of_the_pod_covers_nothing():
    others = (claim("first", 1, of="train"), claim("another", 1, of="other"), claim("template", 1, "train", "gpu"))
    assert covered(pod("train", 4), *others) == {"all": 3}
    assert covered(pod("train", 1), *others) == {}


def test_claim_does_not_take_from_itself():
    assert covered(pod("train", 4), claim("new", 4, of="train")) == {"all": 4}


@pytest.mark.parametrize("train", [None, pod("train", 4, status={"phase": "Failed"})], ids=["gone", "ended"])
def test_pod_that_holds_nothing_covers_nothing(train):
    assert covered(train) == {}
