"""Messages between replicas carry charges without a loss."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from policies.quota.ledger.ledger import Ledger
from policies.quota.limits.quota import parse_quota
from policies.rules.charges import OWN, Bill, Charge
from tests.ledger.conftest import TEAM_A
from webhook.ledger.documents import Spec
from webhook.ledger.peer_answers import (
    Answer,
    Cancellation,
    ChargeMessage,
    read_answer,
    read_question,
    write_answer,
    write_cancellation,
    write_charge,
)

QUOTA = parse_quota(
    {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": [{"name": "all", "gpus": 8}, {"name": "slices", "devices": 8}]},
    }
)
AMOUNTS = st.fractions(min_value=0, max_value=9, max_denominator=7)
NAMES = st.text("abc-09", min_size=1, max_size=8)
BILLS = st.builds(
    Bill,
    st.dictionaries(st.sampled_from(["all", "slices"]), AMOUNTS),
    st.dictionaries(st.sampled_from(["gpus", "devices", "memory"]), AMOUNTS),
)
PODS = st.builds(
    Charge,
    NAMES,
    st.just("Pod"),
    st.just("team-a"),
    NAMES,
    st.dictionaries(st.one_of(st.just(OWN), NAMES), BILLS, max_size=3),
    shared=st.none()
    | st.builds(Charge, st.just("group"), st.just("PodGroup"), st.just("team-a"), NAMES, st.dictionaries(NAMES, BILLS)),
)
CLAIMS = st.builds(
    Charge,
    NAMES,
    st.just("ResourceClaim"),
    st.just("team-a"),
    NAMES,
    st.fixed_dictionaries({OWN: BILLS}),
    of=st.none() | st.tuples(NAMES, st.just(OWN) | NAMES),
)


@given(st.one_of(PODS, CLAIMS), st.booleans())
def test_charge_makes_the_same_ledger_after_its_way(charge, needs_coverage):
    message = ChargeMessage(TEAM_A, charge, Spec("u", 3), "call", needs_coverage)
    arrived = read_question(write_charge(message, QUOTA))
    assert arrived._replace(charge=charge) == message
    ledgers = [Ledger().charge(each, QUOTA, time="t", call="call") for each in (charge, arrived.charge)]
    assert ledgers[0] == ledgers[1]


def test_largest_amount_arrives():
    bill = Bill({"all": Fraction(2**255 + 1, 3)}, {"gpus": Fraction(2**255 + 1, 3)})
    charge = Charge("a", "Pod", "team-a", "a", {OWN: bill})
    arrived = read_question(write_charge(ChargeMessage(TEAM_A, charge, Spec("u", 1), "call", False), QUOTA))
    assert arrived.charge.pieces == charge.pieces


def test_cancellation_arrives():
    cancellation = Cancellation(TEAM_A, "uid", "call")
    assert read_question(write_cancellation(cancellation)) == cancellation


def test_answers_arrive():
    answers = [Answer("call", is_charged=True), Answer("call", is_charged=False)]
    assert [read_answer(write_answer(each)) for each in answers] == answers
