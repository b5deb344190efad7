"""A ledger that is read again: unchanged parts are not parsed again."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.bounds import TooMuchWork, Work, bounded_by
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.open_charges import OpenCharge, Reservations, compact_text, select_amounts
from policies.quota.limits.quota import Limit, Quota
from policies.rules.charges import OWN, Bill

QUOTA = Quota((Limit("all", "gpus", Fraction(8)),))
AMOUNTS = st.sampled_from([{}, {"all": Fraction(1)}, {"all": Fraction(3, 7)}])
BILLS = st.builds(Bill, AMOUNTS, st.sampled_from([{}, {"gpus": Fraction(1)}, {"gpus": Fraction(0)}]))
UIDS = st.sampled_from(["a", "b", "c", "d", "e"])
CHARGES = st.builds(
    OpenCharge,
    UIDS,
    st.sampled_from(["Pod", "PodGroup", "ResourceClaim"]),
    st.sampled_from(["first", "second"]),
    st.sampled_from(["", "now"]),
    st.dictionaries(st.sampled_from([OWN, "claim"]), BILLS, max_size=2),
    st.none() | st.tuples(UIDS, st.sampled_from([OWN, "claim"])),
    AMOUNTS,
)
LEDGERS = st.lists(CHARGES, max_size=3).map(lambda charges: Ledger(reservations=Reservations(charges)))


def stored(ledger):
    return {"status": ledger.status(QUOTA, 1)}


@given(LEDGERS, LEDGERS)
def test_ledger_that_is_known_changes_nothing_of_what_is_read(known, ledger):
    document = stored(ledger)
    read, fresh = Ledger.read(document, known), Ledger.read(document)
    assert read == fresh
    assert [*read.reservations] == [*fresh.reservations]
    assert (read.reservations.total, read.reservations.size) == (fresh.reservations.total, fresh.reservations.size)


@given(st.lists(CHARGES, max_size=3), st.lists(st.lists(CHARGES, max_size=3), max_size=3), st.booleans())
def test_sums_that_are_continued_are_those_of_all_charges(first, batches, is_changed):
    """Claims before their pods, several claims for one piece, replaced charges, and removed ones."""
    continued = Reservations(first)
    for batch in batches:
        continued = continued.with_charges(batch)
        if is_changed:
            continued = continued.map(lambda charge: replace(charge, of=None) if charge.time else charge)
        anew = Reservations([*continued])
        assert select_amounts(continued.total, {"all"}) == select_amounts(anew.total, {"all"})
        assert (continued.places, continued.size) == (anew.places, anew.size)


def ledger_of(*uids, most=1):
    bill = Bill({"all": Fraction(1)}, {"gpus": Fraction(most)})
    return Ledger(reservations=Reservations(OpenCharge(uid, "Pod", uid, "", {OWN: bill}) for uid in uids))


def test_charges_that_are_as_they_were_are_not_read_again():
    known = ledger_of("a", "b")
    assert Ledger.read(stored(known), known).reservations is known.reservations
    more = Ledger.read(stored(ledger_of("a", "c", "b")), known).reservations
    assert [more.get("a") is known.reservations.get("a"), more.get("b") is known.reservations.get("b")] == [True, True]


@pytest.mark.parametrize("known", [None, ledger_of("a", "b")], ids=["unknown", "known"])
def test_charges_that_cannot_be_read_are_none(known):
    document = stored(ledger_of("a", "b"))
    charges = json.loads(document["status"]["openCharges"])
    document["status"]["openCharges"] = json.dumps([charges[0], [*charges[1], ["all"]]])
    assert [*Ledger.read(document, known).reservations] == []


@pytest.mark.parametrize("amount", [Fraction(10**200), Fraction(10**100, 10**99 + 7)], ids=["large", "long"])
def test_amount_that_was_written_is_read_however_long_it_is(amount):
    bill = Bill({"all": amount}, {"gpus": amount})
    ledger = Ledger(reservations=Reservations([OpenCharge("a", "Pod", "a", "", {OWN: bill})]))
    assert Ledger.read(stored(ledger)).reservations == ledger.reservations


def test_first_charge_on_a_ledger_that_was_read_is_counted_as_work():
    ledger = Ledger.read(stored(ledger_of(*map(str, range(1000)))))
    new = OpenCharge("new", "Pod", "new", "", {OWN: Bill({"all": Fraction(1)}, {"gpus": Fraction(1)})})
    with bounded_by(Work(1000)), pytest.raises(TooMuchWork):
        ledger.reservations.with_charge(new)
    charged = ledger.reservations.with_charge(new)
    with bounded_by(Work(0)):
        charged.with_charge(replace(new, uid="newer"))


def test_pieces_that_charges_share_are_written_once(monkeypatch):
    read = Ledger.read(stored(ledger_of("a", "b", "c"))).reservations
    written = []
    monkeypatch.setattr(OpenCharge, "pieces_text", property(lambda self: written.append(self.uid) or "[]"))
    assert compact_text(read)
    assert written == ["a"]
