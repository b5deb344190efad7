"""Bills: the most that asks can come to, limit by limit."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.quota.bills import UnknownMemory, UnknownProduct, bill
from policies.quota.charges import Ask, Bill, DeviceKind
from policies.quota.limits.quota import Limit, Quota
from policies.quota.limits.selectors import EVERYTHING, Selector

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


def ask(count, *kinds, **fields):
    return Ask(count, frozenset(kinds), **fields)


def amounts(*asks, quota=ALL):
    made = bill(asks, quota)
    assert isinstance(made, Bill), made
    return dict(made.amounts)


def only(*limits):
    return Quota(limits)


def test_nothing_comes_to_nothing():
    assert bill([], ALL) == Bill({}, {"gpus": 0, "memory": 0, "devices": 0})


def test_device_counts_in_every_limit_that_it_matches():
    assert amounts(ask(2, H100)) == {"h100": 2, "memory": 160 * GI, "devices": 2}


def test_slice_counts_its_share():
    assert amounts(ask(3, SLICE)) == {"h100": Fraction(3, 7), "memory": 30 * GI, "mig": 3, "devices": 3}


def test_replica_counts_its_share():
    assert amounts(ask(2, QUARTER)) == {"memory": 15 * GI // 4 * 2, "devices": 2}
    assert bill([ask(2, QUARTER)], ALL).most["gpus"] == Fraction(1, 2)


def test_most_that_an_ask_can_get_counts_in_each_limit():
    assert amounts(ask(2, H100, T4)) == {"h100": 2, "memory": 160 * GI, "devices": 2}
    assert amounts(ask(1, SLICE, T4)) == {"h100": Fraction(1, 7), "memory": 15 * GI, "mig": 1, "devices": 1}


def test_asks_add_up():
    assert amounts(ask(1, H100), ask(1, T4), ask(2, SLICE)) == {
        "h100": Fraction(9, 7),
        "memory": (80 + 15 + 20) * GI,
        "mig": 2,
        "devices": 4,
    }


def test_pod_of_a_priority_class_counts_in_its_limit():
    assert amounts(ask(1, T4, priority_class="batch"))["batch"] == 1
    assert "batch" not in amounts(ask(1, T4, priority_class="high"))


def test_ask_of_nobody_knows_which_pod_counts_in_every_priority_class():
    assert amounts(ask(1, T4, priority_class=None))["batch"] == 1


def test_unknown_product_counts_for_every_product():
    assert amounts(ask(1, NAMELESS)) == {"h100": 1, "memory": 24 * GI, "devices": 1}


def test_open_ask_counts_for_every_product_and_as_the_largest_that_is_known():
    assert amounts(ask(2, T4, is_open=True)) == {"h100": 2, "memory": 30 * GI, "devices": 2}


def test_open_request_slices_counts_among_slices():
    asked = ask(7, is_open=True, unseen=frozenset({UNSEEN_SLICE}))
    assert amounts(asked) == {"h100": 1, "memory": 70 * GI, "mig": 7, "devices": 7}


def test_open_ask_among_parts_of_gpus_counts_as_whole_ones():
    assert amounts(ask(1, QUARTER, is_open=True))["memory"] == 15 * GI // 4 * 4


def test_kind_of_unknown_memory_counts_as_the_largest_that_the_ask_could_get():
    assert amounts(ask(1, BARE, T4))["memory"] == 15 * GI


def test_largest_of_alternatives_counts_limit_by_limit():
    asked = ask(1, H100, alternatives=(ask(4, T4), ask(2, SLICE)))
    assert amounts(asked) == {"h100": 1, "memory": 80 * GI, "mig": 2, "devices": 4}


def test_what_nothing_can_grant_comes_to_nothing():
    assert amounts(ask(8)) == {}


def test_most_is_reported_whatever_limits_select():
    assert bill([ask(2, SLICE), ask(1, H100)], only(BATCH)) == Bill(
        {}, {"gpus": Fraction(9, 7), "memory": 100 * GI, "devices": 3}
    )


def test_most_has_no_memory_where_nobody_knows_it():
    assert bill([ask(1, BARE)], only(PRODUCT)) == Bill({}, {"gpus": 1, "devices": 1})


def test_unknown_memory_is_a_problem_where_memory_is_limited():
    asked = ask(1, BARE)
    problem = bill([ask(1, H100), asked], ALL)
    assert problem == UnknownMemory(MEMORY, asked)
    assert problem.text == (
        'limit "memory" counts memory, and no node or ResourceSlice says how much memory the possible GPUs have; '
        "name the product: in a pod by the annotation gpu-admission.io/product or a nodeSelector for "
        "nvidia.com/gpu.product, in a claim by a selector for productName, one that the cluster has, or make "
        "GPU Feature Discovery label GPU nodes with nvidia.com/gpu.memory"
    )


def test_unknown_memory_of_a_limit_that_is_not_touched_is_no_problem():
    elsewhere = replace(MEMORY, selector=Selector(products=("h100-*",)))
    assert amounts(ask(1, BARE), quota=only(elsewhere)) == {}


def test_open_ask_in_a_cluster_without_gpus_has_no_memory():
    asked = ask(1, is_open=True)
    assert bill([asked], only(MEMORY)) == UnknownMemory(MEMORY, asked)


NAME_IT = (
    "name the product: in a pod by the annotation gpu-admission.io/product or a nodeSelector for "
    "nvidia.com/gpu.product, in a claim by a selector for productName"
)


@pytest.mark.parametrize(
    ("asked", "limit", "said"),
    [
        (ask(1, H100, is_open=True), PRODUCT, 'limit "h100" counts by product'),
        (ask(1, NAMELESS), PRODUCT, 'limit "h100" counts by product'),
        (ask(1, T4, alternatives=(ask(1, NAMELESS),)), PRODUCT, 'limit "h100" counts by product'),
        (ask(1, H100, is_open=True), MEMORY, 'limit "memory" counts memory'),
    ],
    ids=["open", "nameless", "alternative", "memory"],
)
def test_unknown_product_can_be_denied(asked, limit, said):
    problem = bill([ask(1, T4), asked], replace(only(BATCH, limit), unknown_products="Deny"))
    assert problem == UnknownProduct(limit, asked)
    assert problem.text == (
        f"{said}, the request could get any product, and the quota has unknownProducts: Deny; {NAME_IT}"
    )


@pytest.mark.parametrize(
    ("asked", "limit"),
    [
        (ask(1, H100, T4), PRODUCT),
        (ask(1, H100, is_open=True), BATCH),
        (ask(1, H100, is_open=True), SLICES),
        (ask(1, H100, is_open=True), DEVICES),
        (ask(1, NAMELESS), MEMORY),
        (ask(1, SLICE, is_open=True, unseen=frozenset({UNSEEN_SLICE})), SLICES),
        (ask(0, is_open=True), PRODUCT),
        (ask(1, H100, is_open=True), replace(PRODUCT, selector=Selector(("h100-*",), (), ("batch",)))),
    ],
    ids=["known", "any", "whole", "devices", "known memory", "known slice", "none", "other priority"],
)
def test_unknown_product_is_not_denied_where_it_makes_no_difference(asked, limit):
    assert isinstance(bill([asked], replace(only(limit), unknown_products="Deny")), Bill)


KINDS = st.sampled_from([H100, T4, BARE, NAMELESS, QUARTER, SLICE])
PLAIN = st.builds(
    Ask,
    st.integers(0, 16),
    st.frozensets(KINDS, max_size=4),
    st.booleans(),
    st.sampled_from(["", "batch", None]),
    st.frozensets(st.sampled_from([DeviceKind(""), UNSEEN_SLICE]), min_size=1),
)
ASKS = st.builds(
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


@given(ASKS, QUOTAS, st.integers(0, 4))
def test_more_devices_never_come_to_less(asked, quota, more):
    assert covers(bill([replace(asked, count=asked.count + more)], quota), bill([asked], quota))


@given(st.lists(ASKS, max_size=3), ASKS, QUOTAS)
def test_more_asks_never_come_to_less(asked, another, quota):
    assert covers(bill([*asked, another], quota), bill(asked, quota))


@given(ASKS, QUOTAS, st.data())
def test_worst_case_covers_whatever_is_given(asked, quota, data):
    worst = bill([asked], replace(quota, unknown_products="WorstCase"))
    choice = data.draw(st.sampled_from(asked.choices))
    for kind in choice.kinds:
        name = data.draw(st.sampled_from(["batch", "high"])) if choice.priority_class is None else choice.priority_class
        granted = Ask(choice.count, frozenset({kind}), priority_class=name)
        assert covers(worst, bill([granted], replace(quota, unknown_products="WorstCase")))


@given(PLAIN, QUOTAS, st.sampled_from(["NVIDIA-H100-80GB-HBM3", "NVIDIA-B200"]))
def test_worst_case_covers_products_that_come_later(asked, quota, product):
    quota = replace(quota, limits=tuple(limit for limit in quota.limits if limit.unit != "memory"))
    if asked.is_open:
        for kind in asked.unseen:
            later = Ask(asked.count, frozenset({replace(kind, product=product)}), priority_class=asked.priority_class)
            assert covers(bill([asked], replace(quota, unknown_products="WorstCase")), bill([later], quota))


@given(st.lists(ASKS, max_size=3), QUOTAS)
def test_denying_changes_no_amount(asked, quota):
    strict, worst = (bill(asked, replace(quota, unknown_products=each)) for each in ("Deny", "WorstCase"))
    assert strict == worst or not isinstance(strict, Bill)


@given(st.lists(ASKS, max_size=3), QUOTAS)
def test_amounts_are_more_than_nothing_and_never_more_than_the_most(asked, quota):
    made = bill(asked, quota)
    if isinstance(made, Bill):
        units = {limit.name: limit.unit for limit in quota.limits}
        for name, amount in made.amounts.items():
            assert 0 < amount <= made.most.get(units[name], amount)
