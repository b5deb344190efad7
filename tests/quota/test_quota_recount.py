from fractions import Fraction

import pytest

from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.recount import Counted, Snapshot, recount
from policies.quota.limits.quota import Limit, Quota
from policies.rules.charges import OWN, Bill, Charge

QUOTA = Quota((Limit("all", "gpus", Fraction(8)),))


def bill(count):
    return Bill({"all": Fraction(count)}, {unit: Fraction(count) for unit in ("gpus", "memory", "devices")})


def shown(uid, count, kind="Pod", **more):
    return Counted(uid, kind, uid, amounts={"all": Fraction(count)}, **more)


def snapshot(*things, pods_version="20", claims_version="20"):
    pods = {each.uid: each for each in things if each.kind == "Pod"}
    claims = {each.uid: each for each in things if each.kind != "Pod"}
    return Snapshot(pods, claims, pods_version, claims_version)


def claim(uid, count, owner="", piece=OWN):
    return shown(uid, count, "ResourceClaim", owner=owner, piece=piece)


@pytest.fixture
def ledger():
    first = recount(Ledger(), QUOTA, snapshot(pods_version="10", claims_version="10"))
    pieces = {OWN: bill(1), "train": bill(2)}
    return first.charge(Charge("p", "Pod", "team-a", "p", pieces), QUOTA)


@pytest.mark.parametrize(("claims", "reserved"), [(None, 2), (["train"], 2), (["other"], 0), ([], 0)])
def test_piece_ends_with_its_pod_where_the_pod_has_no_such_claim(ledger, claims, reserved):
    counted = recount(ledger, QUOTA, snapshot(shown("p", 1, claims=claims)))
    assert counted.reservations.total.get("all", 0) == reserved


@pytest.mark.parametrize(
    ("things", "used", "reserved"),
    [
        ((), 0, 3),
        ((shown("p", 1),), 1, 2),
        ((claim("c", 2, "p", "train"),), 2, 1),
        ((shown("p", 1), claim("c", 2, "p", "train")), 3, 0),
        ((shown("p", 1), claim("c", 2, "p", "train"), claim("s", 1, "p")), 3, 0),
        ((shown("p", 1), claim("s", 2, "p")), 2, 2),
        ((shown("p", 1), claim("s", 1)), 2, 2),
        ((shown("p", 1, ended=True),), 0, 0),
        ((shown("q", 4), claim("d", 1)), 5, 3),
    ],
    ids=["nothing", "pod", "claim", "both", "scheduled", "larger-scheduled", "unverified", "ended", "others"],
)
def test_recount_counts_what_is_seen_and_keeps_what_is_not(ledger, things, used, reserved):
    counted = recount(ledger, QUOTA, snapshot(*things))
    assert counted.used_amount(QUOTA.limits[0]) == used
    assert counted.reservations.total.get("all", 0) == reserved


@pytest.mark.parametrize(
    ("pods", "claims"),
    [("9", "20"), ("20", "9"), ("", "20"), ("20", "latest"), ("020", "20")],
    ids=["pods-older", "claims-older", "none", "no-number", "not-canonical"],
)
def test_lists_that_are_older_or_cannot_be_compared_change_nothing(ledger, pods, claims):
    assert recount(ledger, QUOTA, snapshot(pods_version=pods, claims_version=claims)) is None


def test_versions_are_compared_as_numbers_of_any_length(ledger):
    assert recount(ledger, QUOTA, snapshot(pods_version="1" + "0" * 100, claims_version="10")) is not None


def test_pod_that_was_seen_and_is_gone_gets_no_claims(ledger):
    seen = recount(ledger, QUOTA, snapshot(shown("p", 1)))
    assert list(recount(seen, QUOTA, snapshot()).reservations) == []


def test_newer_lists_that_show_the_same_need_not_be_written(ledger):
    later = recount(ledger, QUOTA, snapshot(pods_version="30"))
    assert later.holds_the_same(ledger)
    assert later != ledger


def seen(ledger, *things, version="30"):
    return recount(ledger, QUOTA, snapshot(*things, pods_version=version, claims_version=version))


def reserved(ledger):
    return ledger.reservations.total.get("all", 0)


def test_piece_stays_charged_when_only_its_pod_is_seen(ledger):
    counted = seen(ledger, shown("p", 1))
    assert [list(charge.pieces) for charge in counted.reservations] == [["train"]]
    assert reserved(seen(counted, shown("p", 1), version="40")) == 2


def test_piece_stays_charged_when_a_claim_for_another_piece_is_seen(ledger):
    assert reserved(seen(ledger, shown("p", 1), claim("c", 2, "p", "other"))) == 2


@pytest.mark.parametrize(
    "other",
    [Counted("q", "Pod", "p", amounts={"all": Fraction(1)}), claim("q", 2, "another", "train")],
    ids=["pod", "claim"],
)
def test_what_has_the_name_of_a_charged_pod_and_another_uid_takes_nothing_off(ledger, other):
    assert reserved(seen(ledger, other)) == 3


def test_claim_of_the_name_of_a_charged_claim_and_another_uid_takes_nothing_off(ledger):
    charged = ledger.charge(Charge("c", "ResourceClaim", "team-a", "data", {OWN: bill(2)}), QUOTA)
    other = Counted("d", "ResourceClaim", "data", amounts={"all": Fraction(2)})
    assert reserved(seen(charged, other)) == 5


@pytest.mark.parametrize(
    ("things", "left"),
    [
        ((shown("s", 4),), 0),
        ((shown("s", 3),), 1),
        ((), 4),
        ((shown("s", 4, ended=True),), 4),
        ((shown("s", 4), claim("other", 4, "s")), 4),
        ((shown("s", 4), claim("other", 1, "s")), 1),
        ((shown("s", 4), claim("other", 4)), 0),
        ((shown("t", 4),), 4),
    ],
    ids=["same", "pod-got-less", "gone", "ended", "taken", "taken-in-part", "unverified", "another-pod"],
)
def test_what_used_holds_for_a_claim_is_worked_out_anew_with_every_count(things, left):
    first = seen(Ledger(), shown("s", 4), version="10")
    scheduled = Charge("c", "ResourceClaim", "team-a", "c", {OWN: bill(4)}, ("s", OWN))
    charged = first.charge(scheduled, QUOTA, counted={"all": Fraction(4)})
    assert reserved(charged) == 0
    assert reserved(seen(charged, *things)) == left


def test_used_covers_two_claims_of_one_pod_once():
    first = seen(Ledger(), shown("s", 4), version="10")
    for uid in "cd":
        scheduled = Charge(uid, "ResourceClaim", "team-a", uid, {OWN: bill(4)}, ("s", OWN))
        first = first.charge(scheduled, QUOTA, counted={"all": Fraction(4)})
    assert reserved(first) == 4


def with_scheduled_claim(ledger):
    """The ledger with a claim for the extended resources of the pod `p`, which is charged too."""
    return ledger.charge(Charge("c", "ResourceClaim", "team-a", "c", {OWN: bill(1)}, ("p", OWN)), QUOTA)


def test_claim_for_extended_resources_stays_charged_until_its_pod_is_seen(ledger):
    counted = seen(with_scheduled_claim(ledger), claim("c", 1))
    assert [charge.uid for charge in counted.reservations] == ["p", "c"]


def test_claim_for_extended_resources_is_closed_with_its_pod(ledger):
    counted = seen(with_scheduled_claim(ledger), shown("p", 1), claim("c", 1, "p"))
    assert [(charge.uid, *charge.pieces) for charge in counted.reservations] == [("p", "train")]
