import json
from fractions import Fraction

import pytest

from policies.quota.ledger.ledger import (
    ROOM,
    ChargedOtherwise,
    Exceeded,
    Full,
    Ledger,
    NotPrimed,
    Over,
    Unstorable,
)
from policies.quota.ledger.open_charges import OpenCharge, Reservations
from policies.quota.ledger.recount import Snapshot, recount
from policies.quota.ledger.status import charge_items
from policies.quota.limits.quota import Limit, Quota
from policies.quota.limits.selectors import Selector
from policies.rules.charges import OWN, Bill, Charge

QUOTA = Quota((Limit("h100", "gpus", Fraction(8), Selector(("h100",))),))
UNITS = ("gpus", "memory", "devices")


def bill(count, **amounts):
    return Bill({"h100": Fraction(count)} | amounts, {unit: Fraction(count) for unit in UNITS})


def pod(uid, own=0, **pieces):
    bills = {OWN: bill(own)} | {piece: bill(count) for piece, count in pieces.items()}
    return Charge(uid, "Pod", "team-a", f"name-{uid}", bills)


def claim(uid, count, of=None):
    return Charge(uid, "ResourceClaim", "team-a", f"name-{uid}", {OWN: bill(count)}, of)


def primed():
    return recount(Ledger(), QUOTA, Snapshot({}, {}, "5", "6"))


def charged(*charges, ledger=None):
    ledger = ledger or primed()
    for each in charges:
        ledger = ledger.charge(each, QUOTA)
    return ledger


def reserved(ledger):
    return ledger.reservations.total.get("h100", 0)


def test_status_is_read_as_it_was_written():
    ledger = charged(pod("p", 1, train=2), claim("c", 3, ("p", "train")))
    status = ledger.status(QUOTA, 3)
    assert Ledger.read({"status": status}) == ledger
    assert status["summary"] == "h100 4 of 8"
    assert status["observedGeneration"] == 3
    assert status["limits"] == [{"name": "h100", "hard": "8", "reserved": "4", "key": QUOTA.limits[0].key, "used": "0"}]
    assert status["counted"] == {"pods": "5", "claims": "6"}
    assert charge_items(status)[1] == {
        "uid": "c",
        "kind": "ResourceClaim",
        "name": "name-c",
        "of": {"uid": "p", "piece": "train"},
        "pieces": [{"name": "", "amounts": {"h100": "3"}, "most": {"gpus": "3", "memory": "3", "devices": "3"}}],
    }


def test_conditions_survive_a_charge():
    document = {"status": primed().status(QUOTA, 1) | {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert (
        charged(pod("p", 1), ledger=Ledger.read(document)).status(QUOTA, 1)["conditions"]
        == document["status"]["conditions"]
    )


@pytest.mark.parametrize(
    "garbage",
    [
        {"limits": "eight"},
        {"limits": [{"name": "h100", "used": "-1"}]},
        {"limits": [{"name": "h100", "used": 5}]},
        {"counted": {"pods": "x", "claims": "5"}},
        {"counted": {"pods": "05", "claims": "5"}},
        {"counted": {"pods": 5, "claims": "5"}},
        {"counted": None},
        {"openCharges": '[["p"]]'},
        {"openCharges": {}},
        {"openCharges": json.dumps([["p", "Pod", "n", *[None] * 5, []]] * 2)},
        {"openCharges": json.dumps([["p", "Pod", "n", *[None] * 5, [{"name": "", "amounts": {"h100": "1/0"}}]]])},
    ],
    ids=str,
)
def test_status_that_cannot_be_read_is_unprimed(garbage):
    ledger = Ledger.read({"status": primed().status(QUOTA, 1) | garbage})
    assert ledger.used_amount(QUOTA.limits[0]) is None
    assert isinstance(ledger.charge(pod("p", 1), QUOTA), NotPrimed)


@pytest.mark.parametrize("document", [None, {}, {"status": None}, {"status": []}], ids=str)
def test_no_status_is_unprimed(document):
    assert isinstance(Ledger.read(document).charge(pod("p", 1), QUOTA), NotPrimed)


def test_charge_that_fits_exactly_is_admitted():
    assert reserved(charged(pod("p", 8))) == 8


def test_charge_beyond_hard_is_refused_and_says_by_how_much():
    refusal = charged(pod("p", 7)).charge(pod("q", 2), QUOTA)
    assert isinstance(refusal, Exceeded)
    assert refusal.limits == (Over("h100", "gpus", Fraction(2), Fraction(0), Fraction(7), Fraction(8)),)
    assert reserved(refusal.anyway) == 9


def test_charge_is_idempotent_by_uid():
    ledger = charged(pod("p", 8))
    assert ledger.charge(pod("p", 8), QUOTA) is ledger


def test_charge_is_taken_back_by_the_call_that_made_it():
    ledger = primed().charge(pod("p", 8), QUOTA, call="one")
    assert ledger.take_back("p", "two") is ledger
    assert reserved(ledger.take_back("p", "one")) == 0
    assert ledger.take_back("q", "one") is ledger


def test_charge_that_a_second_call_is_answered_on_is_taken_back_by_neither():
    shared = primed().charge(pod("p", 8), QUOTA, call="one").charge(pod("p", 8), QUOTA, call="two")
    assert shared.reservations.get("p").call == ""
    assert shared.take_back("p", "one").take_back("p", "two") is shared


def test_call_that_finds_its_own_charge_keeps_it_and_may_request_more():
    ledger = primed().charge(pod("p", 2), QUOTA, call="one").charge(pod("p", 3), QUOTA, call="one")
    assert (reserved(ledger), ledger.reservations.get("p").call) == (3, "one")


OTHERS = {
    "more": pod("p", 3),
    "more-pieces": pod("p", 2, train=1),
    "name": Charge("p", "Pod", "team-a", "renamed", {OWN: bill(2)}),
    "kind": Charge("p", "ResourceClaim", "team-a", "name-p", {OWN: bill(2)}),
    "owner": Charge("p", "Pod", "team-a", "name-p", {OWN: bill(2)}, ("q", OWN)),
    "name-and-nothing": Charge("p", "Pod", "team-a", "renamed", {OWN: Bill({}, {"gpus": Fraction(1)})}),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("call", ["", "two"])
def test_second_call_that_describes_something_else_is_not_charged(other, call):
    ledger = primed().charge(pod("p", 2), QUOTA, call="one")
    assert ledger.charge(other, QUOTA, call=call) == ChargedOtherwise(ledger.reservations.get("p"))


@pytest.mark.parametrize("count", [0, 1])
def test_second_call_that_requests_less_shrinks_no_charge(count):
    ledger = charged(pod("p", 2)).charge(pod("p", count), QUOTA, call="two")
    assert reserved(ledger) == 2


LONG = "u" * 1_000_000
FORGED = {
    "uid": Charge(LONG, "Pod", "team-a", "p", {OWN: bill(1)}),
    "uid-with-controls": Charge("a\nb", "Pod", "team-a", "p", {OWN: bill(1)}),
    "name": Charge("p", "Pod", "team-a", LONG, {OWN: bill(1)}),
    "name-with-controls": Charge("p", "Pod", "team-a", "a\x1b[31m", {OWN: bill(1)}),
    "surrogate": Charge("p", "Pod", "team-a", "\ud800", {OWN: bill(1)}),
    "piece": Charge("p", "Pod", "team-a", "p", {OWN: bill(1), "c" * 64: bill(1)}),
    "pod-of-a-claim": Charge("p", "ResourceClaim", "team-a", "p", {OWN: bill(1)}, (LONG, OWN)),
    "piece-of-a-claim": Charge("p", "ResourceClaim", "team-a", "p", {OWN: bill(1)}, ("q", LONG)),
    "amount": Charge("p", "Pod", "team-a", "p", {OWN: bill(10**5000)}),
    "fraction": Charge("p", "Pod", "team-a", "p", {OWN: bill(Fraction(1, 10**100))}),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_charge_that_no_api_server_would_store_is_none(forged):
    assert isinstance(primed().charge(forged, QUOTA), Unstorable)


@pytest.mark.parametrize(("field", "longest"), [("uid", 128), ("name", 253), ("piece", 63)])
@pytest.mark.parametrize("more", [0, 1])
def test_charge_is_refused_where_its_texts_are_longer_than_an_api_server_stores(field, longest, more):
    texts = {"uid": "u", "name": "n", "piece": "p", field: "x" * (longest + more)}
    forged = Charge(texts["uid"], "Pod", "team-a", texts["name"], {OWN: bill(1), texts["piece"]: bill(1)})
    assert isinstance(primed().charge(forged, QUOTA), Unstorable) is bool(more)


def test_what_requests_nothing_is_not_written():
    ledger = primed()
    assert ledger.charge(pod("p", 0), QUOTA) is ledger


def test_limit_that_is_not_touched_never_refuses():
    other = Charge("p", "Pod", "team-a", "p", {OWN: Bill({}, {unit: Fraction(1) for unit in UNITS})})
    assert isinstance(Ledger().charge(other, QUOTA), Ledger)


def test_generated_claim_is_charged_by_the_difference():
    ledger = charged(pod("p", 0, train=2), claim("c", 3, ("p", "train")))
    assert reserved(ledger) == 3


def test_second_claim_for_one_piece_is_charged_in_full():
    ledger = charged(pod("p", 0, train=2), claim("c", 2, ("p", "train")), claim("d", 2, ("p", "train")))
    assert reserved(ledger) == 4


def test_claim_stays_charged_when_its_pod_is_released():
    ledger = charged(pod("p", 1, train=2), claim("c", 2, ("p", "train"))).release("p")
    assert reserved(ledger) == 2


def test_piece_counts_again_when_its_claim_is_released():
    assert reserved(charged(pod("p", 0, train=2), claim("c", 2, ("p", "train"))).release("c")) == 2


def test_claim_for_extended_resources_is_covered_by_what_its_pod_uses():
    ledger = primed().charge(claim("c", 8, ("p", OWN)), QUOTA, counted={"h100": Fraction(8)})
    assert reserved(ledger) == 0
    assert reserved(recount(ledger, QUOTA, Snapshot({}, {}, "6", "6"))) == 8


def test_release_of_a_piece_leaves_the_others():
    assert reserved(charged(pod("p", 1, train=2)).release("p", ["train"])) == 1


def test_limit_that_counts_something_else_is_unprimed_and_charges_count_the_most():
    ledger = charged(pod("p", 2))
    changed = Quota((Limit("h100", "devices", Fraction(8)),))
    assert ledger.under(changed).used_amount(changed.limits[0]) is None
    assert reserved(ledger.under(changed)) == 2


def test_limit_stays_unprimed_while_a_charge_is_not_known_under_it():
    unknown = Charge("p", "Pod", "team-a", "p", {OWN: Bill({"h100": Fraction(1)}, {"gpus": Fraction(1)})})
    changed = Quota((Limit("memory", "memory", Fraction(2**40)),))
    ledger = recount(charged(unknown), changed, Snapshot({}, {}, "6", "6"))
    assert Ledger.read({"status": ledger.status(changed, 2)}).used_amount(changed.limits[0]) is None


def test_ledger_without_room_refuses_pods_but_not_the_claims_that_it_waits_for():
    bills = {OWN: bill(0), "train": Bill({"h100": Fraction(1, 1000)}, {unit: Fraction(1) for unit in UNITS})}
    crowd = Reservations(OpenCharge(f"p{index}", "Pod", "n", "", bills) for index in range(ROOM.charges))
    ledger = Ledger(primed().limits, crowd, primed().counted)
    assert isinstance(ledger.charge(pod("q", 1), QUOTA), Full)
    assert isinstance(ledger.charge(claim("c", 0, ("p1", "train")), QUOTA), Ledger)
    small = Charge("c", "ResourceClaim", "team-a", "c", {OWN: bills["train"]}, ("p1", "train"))
    assert isinstance(ledger.charge(small, QUOTA), Ledger)


def test_another_uid_of_the_same_name_is_charged_again():
    again = Charge("q", "Pod", "team-a", "name-p", {OWN: bill(2)})
    assert reserved(charged(pod("p", 2), again)) == 4


def test_release_is_of_the_uid_whatever_the_name():
    again = Charge("q", "Pod", "team-a", "name-p", {OWN: bill(2)})
    assert [charge.uid for charge in charged(pod("p", 2), again).release("q").reservations] == ["p"]


def test_claim_is_measured_against_the_pod_of_its_uid_whatever_the_name():
    charges = (Charge("p", "Pod", "team-a", "train", {OWN: bill(0), "gpus": bill(2)}), claim("c", 2, ("q", "gpus")))
    assert reserved(charged(*charges)) == 4


def test_piece_is_open_until_it_is_released():
    ledger = charged(pod("p", 1, train=2))
    assert ledger.reservations.is_open("p", "train")
    assert not ledger.reservations.is_open("p", "other")
    assert not ledger.release("p", ["train"]).reservations.is_open("p", "train")


def test_charge_keeps_no_amount_of_a_limit_that_is_gone():
    changed = Quota((Limit("slices", "devices", Fraction(8)),))
    charge = charged(pod("p", 2)).under(changed).reservations.get("p")
    assert charge.pieces[OWN].amounts == {"slices": 2}
