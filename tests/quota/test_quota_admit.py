from fractions import Fraction

import pytest

from policies.quota.ledger.allowances import ChargeVerdict, Contended, admit, admit_unwritten
from policies.quota.ledger.ledger import ROOM, Exceeded, Full, Ledger, NotPrimed
from policies.quota.ledger.open_charges import OpenCharge, Reservations
from policies.quota.ledger.recount import Snapshot, recount
from policies.quota.limits.quota import Limit, Quota
from policies.rules.charges import OWN, Bill, Charge

LIMITS = (Limit("all", "gpus", Fraction(8)),)
QUOTA = Quota(LIMITS)
WARNING = Quota(LIMITS, mode="Warn")
PRIMED = recount(Ledger(), QUOTA, Snapshot({}, {}, "5", "5"))
CROWD = Reservations(
    OpenCharge(f"p{index}", "Pod", "n", "", {OWN: Bill({}, {"gpus": Fraction(0)})}) for index in range(ROOM.charges)
)
FULL = Ledger(PRIMED.limits, CROWD, PRIMED.counted)


def pod(amounts):
    most = {"gpus": Fraction(9), "memory": Fraction(9), "devices": Fraction(9)}
    return Charge("p", "Pod", "team-a", "p", {OWN: Bill(amounts, most)})


def pod_with_gpus(gpus):
    return pod({"all": Fraction(gpus)})


@pytest.mark.parametrize(
    ("ledger", "quota", "enforced", "gpus", "allowed", "verdict", "is_charged"),
    [
        (PRIMED, QUOTA, True, 8, True, type(None), True),
        (PRIMED, QUOTA, True, 9, False, Exceeded, False),
        (PRIMED, QUOTA, False, 9, False, Exceeded, False),
        (PRIMED, WARNING, True, 9, True, Exceeded, True),
        (Ledger(), QUOTA, True, 1, False, NotPrimed, False),
        (Ledger(), QUOTA, False, 1, True, NotPrimed, True),
        (Ledger(), WARNING, True, 1, True, NotPrimed, True),
        (FULL, QUOTA, True, 1, False, Full, False),
        (FULL, QUOTA, False, 1, True, Full, False),
        (FULL, WARNING, True, 1, True, Full, False),
    ],
    ids=[
        "fits",
        "over",
        "over-not-enforced",
        "over-warning",
        "unprimed",
        "unprimed-not-enforced",
        "unprimed-warning",
        "full",
        "full-not-enforced",
        "full-warning",
    ],
)
def test_admission_by_mode_and_label(ledger, quota, enforced, gpus, allowed, verdict, is_charged):
    admission, charged = admit(ledger, quota, pod_with_gpus(gpus), enforced=enforced)
    assert (admission.allowed, type(admission.reason)) == (allowed, verdict)
    assert (charged is not ledger) == is_charged


def test_admission_covers_a_claim_by_what_is_counted():
    claim = Charge("c", "ResourceClaim", "team-a", "c", {OWN: Bill({"all": Fraction(9)}, {})}, ("p", OWN))
    _, charged = admit(PRIMED, QUOTA, claim, enforced=True, counted={"all": Fraction(2)})
    assert charged.reservations.total == {"all": Fraction(7)}


@pytest.mark.parametrize(
    ("quota", "enforced", "charge", "allowed"),
    [
        (QUOTA, True, pod_with_gpus(1), False),
        (QUOTA, False, pod_with_gpus(1), True),
        (WARNING, True, pod_with_gpus(1), True),
        (QUOTA, True, pod({}), True),
        (QUOTA, True, pod({"gone": Fraction(1)}), True),
    ],
    ids=["enforced", "not-enforced", "warning", "touches-nothing", "touches-a-limit-that-is-gone"],
)
def test_charge_that_could_not_be_written_is_allowed_where_nothing_depends_on_it(quota, enforced, charge, allowed):
    assert admit_unwritten(quota, charge, enforced=enforced) == ChargeVerdict(allowed, Contended())
