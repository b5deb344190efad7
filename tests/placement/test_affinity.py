"""Node requirements, AND-ed into the node selector and the required node affinity of a pod."""

import pytest

from policies.kubernetes.nodes import REQUIRED, NodeIndex
from policies.kubernetes.objects import lookup
from policies.kubernetes.selectors import ALWAYS, NodeRequirement
from policies.placement.affinity import require
from policies.rules.patch import Editor
from tests.placement.affinity_terms import (
    AMPERE_86,
    BIG,
    L4_OR_T4,
    MAJOR,
    MINOR,
    ON_NODE,
    OTHER_ZONE,
    PRODUCT,
    T4,
    ZONE,
    expression,
    pod_of,
    required,
    spec_of,
    terms_of,
)

AFFINITY = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"


TERMS = f"{AFFINITY}/nodeSelectorTerms"


def nodes_selected(edits, *nodes):
    return NodeIndex([{"metadata": {"labels": labels}} for labels in nodes]).select(edits.document["spec"])


@pytest.mark.parametrize(
    "spec",
    [{}, {"affinity": None}, {"affinity": {"podAffinity": {}}}, {"affinity": {"nodeAffinity": {REQUIRED[-1]: None}}}],
    ids=["none", "null", "of pods", "not required"],
)
def test_single_value_becomes_an_entry_of_the_node_selector(spec):
    edits = required(spec, (T4,))
    assert edits.operations == [{"op": "add", "path": "/spec/nodeSelector", "value": {PRODUCT: "Tesla-T4"}}]
    assert edits.document["spec"].get("affinity") == spec.get("affinity")


def test_node_selector_that_is_null_is_replaced():
    assert required({"nodeSelector": None}, (T4,)).operations == [
        {"op": "test", "path": "/spec/nodeSelector", "value": None},
        {"op": "replace", "path": "/spec/nodeSelector", "value": {PRODUCT: "Tesla-T4"}},
    ]


def test_single_values_become_entries_beside_those_of_the_user():
    edits = required({"nodeSelector": {"zone": "a"}}, (T4, NodeRequirement(MAJOR, "In", ("7",))))
    assert edits.operations == [
        {"op": "add", "path": "/spec/nodeSelector/nvidia.com~1gpu.product", "value": "Tesla-T4"},
        {"op": "add", "path": "/spec/nodeSelector/nvidia.com~1gpu.compute.major", "value": "7"},
    ]


def test_single_value_leaves_the_terms_of_the_user_alone():
    edits = required(spec_of({"matchExpressions": [ZONE]}), (T4,))
    assert edits.operations == [{"op": "add", "path": "/spec/nodeSelector", "value": {PRODUCT: "Tesla-T4"}}]


def test_only_values_that_some_term_leaves_open_become_entries():
    major = expression(MAJOR, "In", "7")
    spec = spec_of({"matchExpressions": [ZONE, major]}, {"matchExpressions": [OTHER_ZONE, major]})
    edits = required(spec, (T4, NodeRequirement(MAJOR, "In", ("7",))))
    assert edits.document["spec"]["nodeSelector"] == {PRODUCT: "Tesla-T4"}


@pytest.mark.parametrize(
    ("alternatives", "terms"),
    [
        pytest.param([(L4_OR_T4,)], [[L4_OR_T4.expression()]], id="several values"),
        pytest.param([(T4, BIG)], [[T4.expression(), BIG.expression()]], id="a value and a bound"),
        pytest.param(
            AMPERE_86,
            [[expression(MAJOR, "Gt", "8")], [expression(MAJOR, "In", "8"), expression(MINOR, "Gt", "5")]],
            id="alternatives",
        ),
        pytest.param([(T4,), (BIG,)], [[T4.expression()], [BIG.expression()]], id="alternative single values"),
    ],
)
def test_everything_else_becomes_node_affinity(alternatives, terms):
    edits = required({}, *alternatives)
    assert [term["matchExpressions"] for term in terms_of(edits)] == terms
    assert [operation["path"] for operation in edits.operations] == ["/spec/affinity"]


def test_node_affinity_goes_beside_other_affinity():
    preferred = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}, "podAffinity": {}}
    edits = required({"affinity": preferred}, (BIG,))
    assert edits.operations == [
        {"op": "add", "path": AFFINITY, "value": {"nodeSelectorTerms": [{"matchExpressions": [BIG.expression()]}]}}
    ]


def test_requirement_goes_into_every_term_and_adds_none():
    fields_first = {"matchFields": [ON_NODE], "matchExpressions": [OTHER_ZONE]}
    edits = required(spec_of({"matchExpressions": [ZONE]}, fields_first), (BIG,))
    assert terms_of(edits) == [
        {"matchExpressions": [ZONE, BIG.expression()]},
        {"matchFields": [ON_NODE], "matchExpressions": [OTHER_ZONE, BIG.expression()]},
    ]
    assert edits.operations == [
        {"op": "add", "path": f"{TERMS}/0/matchExpressions/-", "value": BIG.expression()},
        {"op": "add", "path": f"{TERMS}/1/matchExpressions/-", "value": BIG.expression()},
    ]


@pytest.mark.parametrize(
    ("term", "operations"),
    [
        ({"matchFields": [ON_NODE]}, [{"op": "add", "value": [BIG.expression()]}]),
        ({"matchFields": [ON_NODE], "matchExpressions": []}, [{"op": "add", "value": BIG.expression()}]),
        (
            {"matchFields": [ON_NODE], "matchExpressions": None},
            [{"op": "test", "value": None}, {"op": "replace", "value": [BIG.expression()]}],
        ),
    ],
    ids=["missing", "empty", "null"],
)
def test_requirement_goes_beside_fields(term, operations):
    edits = required(spec_of(term), (BIG,))
    assert terms_of(edits) == [{"matchFields": [ON_NODE], "matchExpressions": [BIG.expression()]}]
    assert [{**operation, "path": None} for operation in edits.operations] == [
        {**operation, "path": None} for operation in operations
    ]


def test_alternatives_multiply_terms_with_copies_at_the_end():
    edits = required(
        spec_of({"matchFields": [ON_NODE], "matchExpressions": [ZONE]}, {"matchFields": [ON_NODE]}), *AMPERE_86
    )
    above, (is_8, above_5) = (
        [expression(MAJOR, "Gt", "8")],
        [expression(MAJOR, "In", "8"), expression(MINOR, "Gt", "5")],
    )
    assert terms_of(edits) == [
        {"matchFields": [ON_NODE], "matchExpressions": [ZONE, *above]},
        {"matchFields": [ON_NODE], "matchExpressions": above},
        {"matchFields": [ON_NODE], "matchExpressions": [ZONE, is_8, above_5]},
        {"matchFields": [ON_NODE], "matchExpressions": [is_8, above_5]},
    ]


def test_term_is_given_only_the_alternatives_that_can_hold_with_it():
    edits = required(spec_of({"matchExpressions": [expression(MAJOR, "In", "8")]}), *AMPERE_86)
    assert terms_of(edits) == [{"matchExpressions": [expression(MAJOR, "In", "8"), expression(MINOR, "Gt", "5")]}]


def test_selector_of_the_user_decides_between_alternatives():
    edits = required({"nodeSelector": {MAJOR: "8"}}, *AMPERE_86)
    assert terms_of(edits) == [{"matchExpressions": [expression(MINOR, "Gt", "5")]}]


def test_selector_that_implies_an_alternative_is_enough():
    assert not required({"nodeSelector": {MAJOR: "9"}}, *AMPERE_86)


def test_term_that_implies_an_alternative_stays_as_it_is():
    hopper, zone = {"matchExpressions": [expression(MAJOR, "In", "9", "10")]}, {"matchExpressions": [ZONE]}
    edits = required(spec_of(hopper, zone), (NodeRequirement(MAJOR, "Gt", ("8",)),))
    assert terms_of(edits) == [hopper, {"matchExpressions": [ZONE, expression(MAJOR, "Gt", "8")]}]


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {PRODUCT: "Tesla-T4"}},
        spec_of({"matchExpressions": [ZONE, expression(PRODUCT, "In", "Tesla-T4")]}),
        spec_of({"matchExpressions": [expression(PRODUCT, "In", "Tesla-T4", "Tesla-T4")], "matchFields": [ON_NODE]}),
        spec_of({}, {"matchExpressions": [expression(PRODUCT, "In", "Tesla-T4")]}),
        spec_of({"matchExpressions": [ZONE]}, nodeSelector={PRODUCT: "Tesla-T4"}),
    ],
    ids=["selector", "term", "term with fields", "only term that is alive", "selector beside terms"],
)
def test_what_the_pod_says_itself_is_not_written_again(spec):
    assert not required(spec, (L4_OR_T4,))
    assert not required(spec, (T4,))


@pytest.mark.parametrize("alternatives", [ALWAYS, ((BIG,), ())], ids=["nothing", "something or nothing"])
def test_nothing_required_changes_nothing(alternatives):
    assert not required(spec_of({"matchExpressions": [ZONE]}), *alternatives)


@pytest.mark.parametrize(
    "terms",
    [
        [],
        [{}],
        [{"matchExpressions": None, "matchFields": []}],
        [{"matchExpressions": [ZONE, expression("zone", "Like", "a*")]}],
        [{"matchExpressions": [expression("zone", "In")]}],
        [{"matchExpressions": [{"key": None, "operator": None, "values": None}]}],
        [{"matchFields": [expression("metadata.name", "Exists")]}],
        [{"matchFields": [expression("metadata.name", "In", "a", "b")], "matchExpressions": [ZONE]}],
        [{"matchExpressions": [ZONE, OTHER_ZONE]}],
    ],
    ids=[
        "no term",
        "empty term",
        "null expressions",
        "unknown operator",
        "no values",
        "null expression",
        "fields do not exist",
        "two names",
        "two zones",
    ],
)
@pytest.mark.parametrize("alternatives", [((T4,),), ((BIG,),), AMPERE_86, ()], ids=["entry", "bound", "two", "never"])
def test_affinity_that_matches_nothing_stays_as_it_is(terms, alternatives):
    assert not required(spec_of(*terms), *alternatives)


@pytest.mark.parametrize("terms", [None, []], ids=["null", "empty"])
def test_required_affinity_without_terms_is_given_none(terms):
    assert not required({"affinity": {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": terms}}}}, (BIG,))


def test_term_that_holds_with_no_alternative_is_kept_and_dead():
    old, zone = {"matchExpressions": [expression(MAJOR, "Lt", "8")]}, {"matchExpressions": [ZONE]}
    edits = required(spec_of(old, zone), *AMPERE_86)
    assert terms_of(edits)[0] == {"matchExpressions": [expression(MAJOR, "Lt", "8"), expression(MAJOR, "Gt", "8")]}
    assert nodes_selected(edits, {MAJOR: "7"}, {MAJOR: "9", "zone": "a"}, {MAJOR: "9"}) == 0b010


@pytest.mark.parametrize(
    "spec",
    [{}, {"nodeSelector": {"zone": "a"}}, spec_of({"matchExpressions": [ZONE]})],
    ids=["none", "selector", "term"],
)
def test_no_alternative_leaves_no_node(spec):
    edits = required(spec)
    assert nodes_selected(edits, {}, {"zone": "a"}, {"zone": "a", "kubernetes.io/hostname": "node-1"}) == 0
    assert edits


def test_selector_with_another_value_is_not_touched_and_leaves_no_node():
    edits = required({"nodeSelector": {PRODUCT: "NVIDIA-L4"}}, (T4,))
    assert edits.document["spec"]["nodeSelector"] == {PRODUCT: "NVIDIA-L4"}
    assert nodes_selected(edits, {PRODUCT: "NVIDIA-L4"}, {PRODUCT: "Tesla-T4"}) == 0


def test_second_requirement_reads_what_the_first_has_written():
    pod = pod_of(spec_of({"matchExpressions": [ZONE]}))
    edits = Editor(pod.document)
    require(AMPERE_86, edits)
    require(((NodeRequirement(MINOR, "Lt", ("9",)),),), edits)
    assert [len(term["matchExpressions"]) for term in terms_of(edits)] == [3, 4]


def test_document_of_the_pod_stays_as_it_was():
    pod = pod_of(spec_of({"matchExpressions": [ZONE]}))
    require(AMPERE_86, Editor(pod.document))
    assert lookup(pod.document, ("spec", *REQUIRED)) == {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}
