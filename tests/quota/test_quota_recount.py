from fractions import Fraction

import pytest

from policies.quota.charges import OWN, Bill, Charge
from policies.quota.ledger import Ledger
from policies.quota.quota import Limit, Quota
from policies.quota.recount import Counted, Snapshot, recount

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
    assert counted.used(QUOTA.limits[0]) == used
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
