"""Bills: the most that demands can come to, limit by limit."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.quota.demands.bills import UnknownMemory, UnknownProduct, bill
from policies.quota.limits.quota import Limit, Quota
from policies.quota.limits.selectors import EVERYTHING, Selector
from policies.rules.charges import Bill, DeviceDemand, DeviceKind

GI = 2**30
H100 = DeviceKind("NVIDIA-H100-80GB-HBM3", memory=80 * GI)
T4 = DeviceKind("Tesla-T4", memory=15 * GI)
BARE = DeviceKind("NVIDIA-L40S")
NAMELESS = DeviceKind("", memory=24 * GI)
QUARTER = DeviceKind("Tesla-T4", gpus=Fraction(1, 4), memory=15 * GI // 4)
SLICE = DeviceKind("NVIDIA-H100-80GB-HBM3", "1g.10gb", Fraction(1, 7), 10 * GI)
UNSEEN_SLICE = DeviceKind("", "1g.10gb", Fraction(1, 7), 10 * GI)

PRODUCT = Limit("h100", "gpus", Fraction(8), Selector(products=("h100-*",)))
MEMORY = Limit("memory", "memory", Fraction(2**40), EVERYTHING)
SLICES = Limit("mig", "devices", Fraction(14), Selector(profiles=("1g.*",)))
BATCH = Limit("batch", "gpus", Fraction(4), Selector(priority_classes=("batch",)))
DEVICES = Limit("devices", "devices", Fraction(4), EVERYTHING)
ALL = Quota((PRODUCT, MEMORY, SLICES, BATCH, DEVICES))
STRICT = replace(ALL, unknown_products="Deny")


def demand(count, *kinds, **fields):
    return DeviceDemand(count, frozenset(kinds), **fields)


def amounts(*demands, quota=ALL):
    made = bill(demands, quota)
    assert isinstance(made, Bill), made
    return dict(made.amounts)


def only(*limits):
    return Quota(limits)


def test_nothing_comes_to_nothing():
    assert bill([], ALL) == Bill({}, {"gpus": 0, "memory": 0, "devices": 0})


def test_device_counts_in_every_limit_that_it_matches():
    assert amounts(demand(2, H100)) == {"h100": 2, "memory": 160 * GI, "devices": 2}


def test_slice_counts_its_share():
    assert amounts(demand(3, SLICE)) == {"h100": Fraction(3, 7), "memory": 30 * GI, "mig": 3, "devices": 3}


def test_replica_counts_its_share():
    assert amounts(demand(2, QUARTER)) == {"memory": 15 * GI // 4 * 2, "devices": 2}
    assert bill([demand(2, QUARTER)], ALL).most["gpus"] == Fraction(1, 2)


def test_most_that_a_demand_can_get_counts_in_each_limit():
    assert amounts(demand(2, H100, T4)) == {"h100": 2, "memory": 160 * GI, "devices": 2}
    assert amounts(demand(1, SLICE, T4)) == {"h100": Fraction(1, 7), "memory": 15 * GI, "mig": 1, "devices": 1}


def test_demands_add_up():
    assert amounts(demand(1, H100), demand(1, T4), demand(2, SLICE)) == {
        "h100": Fraction(9, 7),
        "memory": (80 + 15 + 20) * GI,
        "mig": 2,
        "devices": 4,
    }


def test_pod_of_a_priority_class_counts_in_its_limit():
    assert amounts(demand(1, T4, priority_class="batch"))["batch"] == 1
    assert "batch" not in amounts(demand(1, T4, priority_class="high"))


def test_demand_of_an_unknown_pod_counts_in_every_priority_class():
    assert amounts(demand(1, T4, priority_class=None))["batch"] == 1


def test_unknown_product_counts_for_every_product():
    assert amounts(demand(1, NAMELESS)) == {"h100": 1, "memory": 24 * GI, "devices": 1}


def test_open_demand_counts_for_every_product_and_as_the_largest_that_is_known():
    assert amounts(demand(2, T4, is_open=True)) == {"h100": 2, "memory": 30 * GI, "devices": 2}


def test_open_request_slices_counts_among_slices():
    wanted = demand(7, is_open=True, unseen=frozenset({UNSEEN_SLICE}))
    assert amounts(wanted) == {"h100": 1, "memory": 70 * GI, "mig": 7, "devices": 7}


def test_open_demand_among_parts_of_gpus_counts_as_whole_ones():
    assert amounts(demand(1, QUARTER, is_open=True))["memory"] == 15 * GI // 4 * 4


def test_kind_of_unknown_memory_counts_as_the_largest_that_the_demand_could_get():
    assert amounts(demand(1, BARE, T4))["memory"] == 15 * GI


def test_largest_of_alternatives_counts_limit_by_limit():
    wanted = demand(1, H100, alternatives=(demand(4, T4), demand(2, SLICE)))
    assert amounts(wanted) == {"h100": 1, "memory": 80 * GI, "mig": 2, "devices": 4}


def test_what_nothing_can_grant_comes_to_nothing():
    assert amounts(demand(8)) == {}


def test_most_is_reported_whatever_limits_select():
    assert bill([demand(2, SLICE), demand(1, H100)], only(BATCH)) == Bill(
        {}, {"gpus": Fraction(9, 7), "memory": 100 * GI, "devices": 3}
    )


def test_most_has_no_memory_if_it_is_unknown():
    assert bill([demand(1, BARE)], only(PRODUCT)) == Bill({}, {"gpus": 1, "devices": 1})


def test_unknown_memory_is_a_problem_where_memory_is_limited():
    wanted = demand(1, BARE)
    problem = bill([demand(1, H100), wanted], ALL)
    assert problem == UnknownMemory(MEMORY, wanted)
    assert problem.text == (
        'limit "memory" counts memory, and no node or ResourceSlice says how much memory the possible GPUs have'
    )
    assert problem.administrator == "let GPU Feature Discovery label GPU nodes with nvidia.com/gpu.memory"


def test_unknown_memory_of_a_limit_that_is_not_touched_is_no_problem():
    elsewhere = replace(MEMORY, selector=Selector(products=("h100-*",)))
    assert amounts(demand(1, BARE), quota=only(elsewhere)) == {}


def test_open_demand_in_a_cluster_without_gpus_has_no_memory():
    wanted = demand(1, is_open=True)
    assert bill([wanted], only(MEMORY)) == UnknownMemory(MEMORY, wanted)


@pytest.mark.parametrize(
    ("wanted", "limit", "said"),
    [
        (demand(1, H100, is_open=True), PRODUCT, 'limit "h100" counts by product'),
        (demand(1, NAMELESS), PRODUCT, 'limit "h100" counts by product'),
        (demand(1, T4, alternatives=(demand(1, NAMELESS),)), PRODUCT, 'limit "h100" counts by product'),
        (demand(1, H100, is_open=True), MEMORY, 'limit "memory" counts memory'),
    ],
    ids=["open", "nameless", "alternative", "memory"],
)
def test_unknown_product_can_be_denied(wanted, limit, said):
    problem = bill([demand(1, T4), wanted], replace(only(BATCH, limit), unknown_products="Deny"))
    assert problem == UnknownProduct(limit, wanted)
    assert problem.text == f"{said}, the request could get any product, and the quota has unknownProducts: Deny"


@pytest.mark.parametrize(
    ("wanted", "limit"),
    [
        (demand(1, H100, T4), PRODUCT),
        (demand(1, H100, is_open=True), BATCH),
        (demand(1, H100, is_open=True), SLICES),
        (demand(1, H100, is_open=True), DEVICES),
        (demand(1, NAMELESS), MEMORY),
        (demand(1, SLICE, is_open=True, unseen=frozenset({UNSEEN_SLICE})), SLICES),
        (demand(0, is_open=True), PRODUCT),
        (demand(1, H100, is_open=True), replace(PRODUCT, selector=Selector(("h100-*",), (), ("batch",)))),
    ],
    ids=["known", "any", "whole", "devices", "known memory", "known slice", "none", "other priority"],
)
def test_unknown_product_is_not_denied_where_it_makes_no_difference(wanted, limit):
    assert isinstance(bill([wanted], replace(only(limit), unknown_products="Deny")), Bill)


KINDS = st.sampled_from([H100, T4, BARE, NAMELESS, QUARTER, SLICE])
PLAIN = st.builds(
    DeviceDemand,
    st.integers(0, 16),
    st.frozensets(KINDS, max_size=4),
    st.booleans(),
    st.sampled_from(["", "batch", None]),
    st.frozensets(st.sampled_from([DeviceKind(""), UNSEEN_SLICE]), min_size=1),
)
DEMAND = st.builds(
    lambda first, others: replace(
        first, alternatives=tuple(replace(o, priority_class=first.priority_class) for o in others)
    ),
    PLAIN,
    st.lists(PLAIN, max_size=2),
)
QUOTAS = st.builds(
    lambda limits, unknown: Quota(tuple(limits), unknown_products=unknown),
    st.lists(st.sampled_from(ALL.limits), min_size=1, unique=True),
    st.sampled_from(["WorstCase", "Deny"]),
)


def covers(larger, smaller):
    """Whether a bill is as large as another, limit by limit; where one is none, there is nothing to compare."""
    if not (isinstance(larger, Bill) and isinstance(smaller, Bill)):
        return True
    return all(larger.amounts.get(name, 0) >= amount for name, amount in smaller.amounts.items()) and all(
        larger.most[unit] >= amount for unit, amount in smaller.most.items() if unit in larger.most
    )


@given(DEMAND, QUOTAS, st.integers(0, 4))
def test_bill_never_shrinks_with_more_devices(wanted, quota, more):
    assert covers(bill([replace(wanted, count=wanted.count + more)], quota), bill([wanted], quota))


@given(st.lists(DEMAND, max_size=3), DEMAND, QUOTAS)
def test_bill_never_shrinks_with_more_demands(wanted, another, quota):
    assert covers(bill([*wanted, another], quota), bill(wanted, quota))


@given(DEMAND, QUOTAS, st.data())
def test_worst_case_covers_whatever_is_given(wanted, quota, data):
    worst = bill([wanted], replace(quota, unknown_products="WorstCase"))
    choice = data.draw(st.sampled_from(wanted.choices))
    for kind in choice.kinds:
        name = data.draw(st.sampled_from(["batch", "high"])) if choice.priority_class is None else choice.priority_class
        granted = DeviceDemand(choice.count, frozenset({kind}), priority_class=name)
        assert covers(worst, bill([granted], replace(quota, unknown_products="WorstCase")))


@given(PLAIN, QUOTAS, st.sampled_from(["NVIDIA-H100-80GB-HBM3", "NVIDIA-B200"]))
def test_worst_case_covers_products_that_come_later(wanted, quota, product):
    quota = replace(quota, limits=tuple(limit for limit in quota.limits if limit.unit != "memory"))
    if wanted.is_open:
        for kind in wanted.unseen:
            later = DeviceDemand(
                wanted.count, frozenset({replace(kind, product=product)}), priority_class=wanted.priority_class
            )
            assert covers(bill([wanted], replace(quota, unknown_products="WorstCase")), bill([later], quota))


@given(st.lists(DEMAND, max_size=3), QUOTAS)
def test_denying_changes_no_amount(wanted, quota):
    strict, worst = (bill(wanted, replace(quota, unknown_products=each)) for each in ("Deny", "WorstCase"))
    assert strict == worst or not isinstance(strict, Bill)


@given(st.lists(DEMAND, max_size=3), QUOTAS)
def test_amounts_are_more_than_nothing_and_never_more_than_the_most(wanted, quota):
    made = bill(wanted, quota)
    if isinstance(made, Bill):
        units = {limit.name: limit.unit for limit in quota.limits}
        for name, amount in made.amounts.items():
            assert 0 < amount <= made.most.get(units[name], amount)
