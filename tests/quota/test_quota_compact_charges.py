"""Open charges as one text: what is read is what was written, and anything else is refused."""

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.open_charges import OpenCharge, compact_text, expand_text
from policies.quota.limits.quota import Limit, Quota
from policies.rules.charges import OWN, Bill

QUOTA = Quota((Limit("all", "gpus", Fraction(8)),))
TIME = "2026-01-01T00:00:00Z"
TEXTS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)
AMOUNTS = st.dictionaries(TEXTS, st.fractions(min_value=1), max_size=2)
CHARGES = st.builds(
    OpenCharge,
    TEXTS,
    st.sampled_from(["Pod", "PodGroup", "ResourceClaim"]),
    TEXTS,
    st.sampled_from(["", TIME]),
    st.dictionaries(st.just(OWN) | TEXTS, st.builds(Bill, AMOUNTS, st.just({"gpus": Fraction(1)})), max_size=2),
    st.none() | st.tuples(TEXTS, st.just(OWN) | TEXTS),
    AMOUNTS,
    st.just("") | TEXTS,
    st.booleans(),
)


def pod(uid, gpus=1):
    return OpenCharge(uid, "Pod", f"train-{uid}", TIME, {OWN: Bill({"all": Fraction(gpus)}, {"gpus": Fraction(gpus)})})


@given(st.lists(CHARGES, max_size=4))
def test_text_holds_every_charge(charges):
    assert expand_text(compact_text(charges)) == [charge.document for charge in charges]


def test_pieces_of_pods_of_one_template_are_written_once():
    assert compact_text([pod("a"), pod("b"), pod("c", 2)]) == (
        '[["a","Pod","train-a","2026-01-01T00:00:00Z",null,null,null,null,[{"name":"","amounts":{"all":"1"},"most":{"gpus":"1"}}]],'
        '["b","Pod","train-b","2026-01-01T00:00:00Z",null,null,null,null],'
        '["c","Pod","train-c","2026-01-01T00:00:00Z",null,null,null,null,[{"name":"","amounts":{"all":"2"},"most":{"gpus":"2"}}]]]'
    )


def test_text_of_no_charges_is_empty():
    assert compact_text([]) == ""
    assert expand_text("") == []


GARBAGE = {
    "no JSON": "[",
    "no list": "7",
    "a mapping": "{}",
    "a charge that is no list": "[7]",
    "few values": '[["a","Pod"]]',
    "many values": json.dumps([["a", "Pod", "a", None, None, None, None, None, [], []]]),
    "no pieces before": json.dumps([["a", "Pod", "a", None, None, None, None, None]]),
    "deep": "[" * 100_000,
    "a number": 7,
}


@pytest.mark.parametrize("text", GARBAGE.values(), ids=GARBAGE)
def test_ledger_with_garbage_is_not_primed(text):
    status = Ledger().status(QUOTA, 1) | {
        "openCharges": text,
        "counted": {"pods": "5", "claims": "6"},
        "limits": [{"name": "all", "key": QUOTA.limits[0].key, "hard": "8", "reserved": "0", "used": "0"}],
    }
    ledger = Ledger.read({"status": status})
    assert ledger.used_amount(QUOTA.limits[0]) is None
    assert [*ledger.reservations] == []
