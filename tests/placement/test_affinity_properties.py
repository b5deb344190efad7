"""Properties of added requirements: they are AND-ed exactly once, by a minimal patch."""

import copy
import itertools
import random

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.nodes import REQUIRED, NodeIndex
from policies.kubernetes.objects import lookup
from policies.kubernetes.pods import Pod
from policies.kubernetes.selectors import NodeRequirement
from policies.placement.affinity import contradiction, require, without_requirements
from policies.rules.patch import Editor

KEYS = ["a", "b"]
VALUES = ["4", "5", "6", "05", "", "x"]
NODES = [
    {"metadata": {"name": name, "labels": {key: value for key, value in labels if value is not None}}}
    for labels in itertools.product(*([(key, value) for value in [None, *VALUES, "3", "7", "fresh"]] for key in KEYS))
    for name in ("node-0", "node-1", "node-2")
]
"""All that the conditions below can tell apart."""
INDEX = NodeIndex(NODES)
OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]

keys = st.sampled_from(KEYS)
values = st.sampled_from(VALUES)

well_formed = st.one_of(
    st.builds(
        NodeRequirement, keys, st.sampled_from(["In", "NotIn"]), st.lists(values, min_size=1, max_size=3).map(tuple)
    ),
    st.builds(NodeRequirement, keys, st.just("In"), st.tuples(values)),
    st.builds(NodeRequirement, keys, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(NodeRequirement, keys, st.sampled_from(["Gt", "Lt"]), st.tuples(st.sampled_from(["4", "5", "6"]))),
)
alternatives = st.lists(st.lists(well_formed, max_size=3).map(tuple), max_size=3).map(tuple)

any_expressions = st.fixed_dictionaries(
    {},
    optional={
        "key": keys | st.none(),
        "operator": st.sampled_from([*OPERATORS, "Bogus", None]),
        "values": st.none() | st.lists(values, max_size=2),
    },
)
fields = st.fixed_dictionaries(
    {"key": st.sampled_from(["metadata.name", "spec.other"]), "operator": st.sampled_from(["In", "NotIn", "Exists"])},
    optional={"values": st.none() | st.lists(st.sampled_from(["node-0", "node-1", ""]), max_size=2)},
)
expressions = st.one_of(*[well_formed.map(NodeRequirement.expression)] * 4, any_expressions)


def pods_with(**parts):
    """Pods whose terms have these parts, or not."""
    terms = st.lists(st.fixed_dictionaries({}, optional=parts), max_size=3)
    required = st.sampled_from([None, {}, {"nodeSelectorTerms": None}]) | terms.map(
        lambda some: {"nodeSelectorTerms": some}
    )
    affinity = st.sampled_from([None, {}, {"nodeAffinity": None}]) | required.map(
        lambda some: {"nodeAffinity": {REQUIRED[-1]: some}}
    )
    selector = st.none() | st.dictionaries(keys, values, max_size=2)
    specs = st.fixed_dictionaries({}, optional={"nodeSelector": selector, "affinity": affinity})
    return specs.map(lambda spec: {"spec": {"containers": [{"name": "train"}], **spec}})


some_expressions = st.none() | st.lists(expressions, max_size=3)
pods = pods_with(matchExpressions=some_expressions, matchFields=st.none() | st.lists(fields, max_size=2))


def after(document, some):
    edits = Editor(document)
    require(some, edits)
    return edits


def meeting(some):
    """The nodes that meet an alternative."""
    return sum(
        1 << place
        for place, node in enumerate(NODES)
        if any(all(item.holds(node["metadata"]["labels"]) for item in branch) for branch in some)
    )


@given(pods, alternatives)
def test_nodes_are_those_selected_before_that_meet_an_alternative(document, some):
    selected = INDEX.select(after(document, some).document["spec"])
    assert selected == INDEX.select(document["spec"]) & meeting(some)


@given(pods, alternatives)
def test_second_time_changes_nothing(document, some):
    assert not after(after(document, some).document, some)


@given(pods, alternatives)
def test_what_is_required_can_be_taken_away_again(document, some):
    """So that a pod is judged by its own conditions, whether or not it has been placed."""
    before, placed = (
        without_requirements(spec, some) for spec in (document["spec"], after(document, some).document["spec"])
    )
    assert (placed.get("nodeSelector") or {}) == (before.get("nodeSelector") or {})
    assert lookup(placed, REQUIRED) == lookup(before, REQUIRED)


@given(pods, alternatives, st.randoms(use_true_random=False))
def test_order_in_which_others_put_things_changes_nothing(document, some, chance):
    shuffled = copy.deepcopy(after(document, some).document)
    shuffle(shuffled, chance)
    assert not after(shuffled, tuple(chance.sample(some, len(some))))


def shuffle(document, chance: random.Random):
    in_terms = lookup(document, ("spec", *REQUIRED, "nodeSelectorTerms")) or []
    chance.shuffle(in_terms)
    for term in in_terms:
        chance.shuffle(term.get("matchExpressions") or [])
        for expression in term.get("matchExpressions") or []:
            chance.shuffle(expression.get("values") or [])


@given(pods, alternatives)
def test_patch_makes_the_same_change_and_the_original_stays(document, some):
    before = copy.deepcopy(document)
    edits = after(document, some)
    assert document == before
    assert jsonpatch.JsonPatch(edits.operations).apply(before) == edits.document


@given(pods, alternatives)
def test_what_the_user_wrote_stays_in_its_place(document, some):
    edited = after(document, some).document
    for key, value in (document["spec"].get("nodeSelector") or {}).items():
        assert edited["spec"]["nodeSelector"][key] == value
    written = lookup(document, ("spec", *REQUIRED, "nodeSelectorTerms")) or []
    edited_terms = lookup(edited, ("spec", *REQUIRED, "nodeSelectorTerms")) or []
    for old, new in zip(written, edited_terms, strict=False):
        own = old.get("matchExpressions") or []
        assert (new.get("matchExpressions") or [])[: len(own)] == own
        assert new.get("matchFields") == old.get("matchFields")


@given(pods_with(matchExpressions=some_expressions), alternatives)
def test_contradiction_is_found_exactly_where_two_sides_leave_no_node(document, some):
    own, wanted = INDEX.select(document["spec"]), meeting(some)
    found = contradiction(Pod.read(document), some)
    assert (found is not None) == bool(own and wanted and not own & wanted)


@given(pods, alternatives)
def test_contradiction_names_what_is_there_and_leaves_no_node(document, some):
    found = contradiction(Pod.read(document), some)
    if found is not None:
        assert INDEX.select(after(document, some).document["spec"]) == 0
        assert any(found.requirement in branch for branch in some)
        assert lookup(document, found.path) is not None
