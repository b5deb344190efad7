"""Properties of node requirements: they agree with NodeIndex, for all labels."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.nodes import REQUIRED, NodeIndex
from policies.kubernetes.selectors import ALWAYS, Conjunction, NodeRequirement, both, can_hold

LEAST, MOST = "-9223372036854775808", "9223372036854775807"
KEYS = ["a", "b"]
NUMBERS = ["4", "5", "6", "05", "+6", "-1", LEAST, MOST, "-9223372036854775807", "9223372036854775806"]
VALUES = [*NUMBERS, "", "x", "y", "1.5", "9223372036854775808"]

keys = st.sampled_from(KEYS)
values = st.sampled_from(VALUES)
requirements = st.one_of(
    st.builds(
        NodeRequirement, keys, st.sampled_from(["In", "NotIn"]), st.lists(values, min_size=1, max_size=4).map(tuple)
    ),
    st.builds(NodeRequirement, keys, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(NodeRequirement, keys, st.sampled_from(["Gt", "Lt"]), st.tuples(st.sampled_from(NUMBERS))),
)
branches = st.lists(requirements, max_size=4).map(tuple)
alternatives = st.lists(branches, max_size=3).map(tuple)
labels = st.dictionaries(keys, values, max_size=2)

# Enough to tell any requirements above apart: values that none of them names, and other texts for each number.
PROBES = [None, *VALUES, "fresh", "7", "007", "004", "005", "006", "00", "-2", "-01", "-02"]
PROBES += [f"-0{LEAST[1:]}", "-09223372036854775807", f"0{MOST}", "09223372036854775806"]
ALL_LABELS = [
    {key: value for key, value in zip(KEYS, pair, strict=True) if value is not None}
    for pair in itertools.product(PROBES, repeat=2)
]


def hold(branch, node):
    return all(item.holds(node) for item in branch)


def some_hold(some, node):
    return any(hold(branch, node) for branch in some)


@given(
    st.fixed_dictionaries(
        {
            "key": keys,
            "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Bogus", None]),
        },
        optional={"values": st.none() | st.lists(values, max_size=3)},
    ),
    labels,
)
def test_expression_holds_where_the_node_index_says_so(expression, node):
    read = NodeRequirement.read(expression)
    affinity = {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}
    selected = NodeIndex([{"metadata": {"labels": node}}]).select({"affinity": affinity}) == 1
    assert (read is not None and read.holds(node)) == selected


@given(branches)
def test_requirements_can_hold_exactly_where_some_labels_meet_them(branch):
    assert can_hold(branch) == any(hold(branch, node) for node in ALL_LABELS)


@given(requirements, branches)
def test_requirement_is_implied_exactly_where_no_labels_speak_against_it(item, by):
    assert Conjunction(by).implies(item) == all(item.holds(node) for node in ALL_LABELS if hold(by, node))


@given(requirements, branches, branches)
def test_what_is_implied_stays_so_when_more_is_required(item, by, more):
    assert not Conjunction(by).implies(item) or Conjunction((*by, *more)).implies(item)


@given(alternatives, alternatives, labels)
def test_both_hold_where_each_of_them_does(first, second, node):
    assert some_hold(both(first, second), node) == (some_hold(first, node) and some_hold(second, node))


@given(alternatives, alternatives)
def test_both_leaves_out_what_cannot_hold_and_what_is_said_already(first, second):
    branches = both(first, second)
    assert all(map(can_hold, branches))
    assert all(len(set(branch)) == len(branch) for branch in branches)
    assert not any(set(one) <= set(other) for one, other in itertools.permutations(branches, 2))
    assert both(branches, ALWAYS) == branches
