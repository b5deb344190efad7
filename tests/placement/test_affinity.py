"""What is required of a node, AND-ed into a pod's node selector and required node affinity."""

import pytest

from policies.kubernetes.node_requirements import ALWAYS, NodeRequirement
from policies.kubernetes.nodes import REQUIRED, NodeIndex
from policies.kubernetes.paths import lookup
from policies.kubernetes.pods import Pod
from policies.patch import Editor
from policies.placement.affinity import TooManyTermsError, contradiction, require

PRODUCT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
MAJOR, MINOR = "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"
AFFINITY = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"{AFFINITY}/nodeSelectorTerms"
TERMS_PATH = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"

T4 = NodeRequirement(PRODUCT, "In", ("Tesla-T4",))
L4_OR_T4 = NodeRequirement(PRODUCT, "In", ("NVIDIA-L4", "Tesla-T4"))
BIG = NodeRequirement(MEMORY, "Gt", ("40000",))
AMPERE_86 = (
    (NodeRequirement(MAJOR, "Gt", ("8",)),),
    (NodeRequirement(MAJOR, "In", ("8",)), NodeRequirement(MINOR, "Gt", ("5",))),
)

ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
OTHER_ZONE = {"key": "zone", "operator": "In", "values": ["b"]}
ON_NODE = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}


def expression(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


def spec_of(*terms, **spec):
    """A pod's spec with node affinity of these terms."""
    return {"affinity": {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": list(terms)}}}, **spec}


def pod_of(spec):
    return Pod.read({"metadata": {"name": "train"}, "spec": {"containers": [{"name": "train"}], **spec}})


def required(spec, *alternatives):
    pod = pod_of(spec)
    edits = Editor(pod.document)
    require(alternatives, edits)
    return edits


def terms_of(edits):
    return lookup(edits.document, ("spec", *REQUIRED, "nodeSelectorTerms"))


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


def test_nothing_required_is_never_too_much():
    assert not required({"nodeSelector": {str(number): "" for number in range(1001)}}, ())


def test_document_of_the_pod_stays_as_it_was():
    pod = pod_of(spec_of({"matchExpressions": [ZONE]}))
    require(AMPERE_86, Editor(pod.document))
    assert lookup(pod.document, ("spec", *REQUIRED)) == {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}


def test_terms_are_multiplied_up_to_200():
    spec = spec_of(*({"matchExpressions": [expression("zone", "In", str(number))]} for number in range(100)))
    edits = required(spec, *AMPERE_86)
    assert len(terms_of(edits)) == 200
    assert not required(edits.document["spec"], *AMPERE_86)


def test_more_than_200_terms_are_refused():
    spec = spec_of(*({"matchExpressions": [expression("zone", "In", str(number))]} for number in range(101)))
    with pytest.raises(TooManyTermsError) as refused:
        required(spec, *AMPERE_86)
    assert str(refused.value.path) == TERMS_PATH
    assert str(refused.value) == "would have 202 terms, and 200 are the most that a pod is given"


def test_more_than_200_alternatives_are_refused():
    with pytest.raises(TooManyTermsError, match="would have 201 terms"):
        required(
            {}, *((NodeRequirement(MAJOR, "Gt", ("8",)), NodeRequirement("a", "In", (str(n),))) for n in range(201))
        )


def test_many_terms_of_the_user_are_narrowed_in_place():
    spec = spec_of(*({"matchExpressions": [expression("zone", "In", str(number))]} for number in range(300)))
    assert len(terms_of(required(spec, (BIG,)))) == 300


@pytest.mark.parametrize("ask", [contradiction, lambda pod, some: require(some, Editor(pod.document))])
@pytest.mark.parametrize(
    ("spec", "path", "sentence"),
    [
        (
            {"nodeSelector": {str(number): "" for number in range(1001)}},
            "spec.nodeSelector",
            "has 1001 labels, and 1000 can be judged in time",
        ),
        (spec_of(*[{}] * 1001), TERMS_PATH, "has 1001 terms, and 1000 can be judged in time"),
        (
            spec_of({"matchExpressions": [ZONE] * 600, "matchFields": [ON_NODE] * 401}),
            TERMS_PATH,
            "has 1001 expressions, and 1000 can be judged in time",
        ),
        (
            spec_of({"matchExpressions": [expression("zone", "In", *map(str, range(10_001)))]}),
            TERMS_PATH,
            "has 10001 values in its expressions, and 10000 can be judged in time",
        ),
    ],
    ids=["labels", "terms", "expressions", "values"],
)
def test_what_is_too_large_to_compare_is_refused(ask, spec, path, sentence):
    with pytest.raises(TooManyTermsError) as refused:
        ask(pod_of(spec), AMPERE_86)
    assert (str(refused.value.path), str(refused.value)) == (path, sentence)


@pytest.mark.parametrize(
    ("spec", "alternatives", "path", "condition", "requirement"),
    [
        pytest.param(
            {"nodeSelector": {"zone": "a", PRODUCT: "NVIDIA-L4"}},
            ((BIG, T4),),
            f"spec.nodeSelector[{PRODUCT}]",
            f"{PRODUCT}: NVIDIA-L4",
            f"{PRODUCT} In [Tesla-T4]",
            id="selector",
        ),
        pytest.param(
            spec_of({}, {"matchExpressions": [ZONE, expression(MEMORY, "Lt", "20000")]}),
            ((BIG,),),
            f"{TERMS_PATH}[1].matchExpressions[1]",
            f"{MEMORY} Lt 20000",
            f"{MEMORY} Gt 40000",
            id="the term that is alive",
        ),
        pytest.param(
            spec_of({"matchExpressions": [expression(PRODUCT, "DoesNotExist")]}, nodeSelector={MEMORY: "16384"}),
            ((T4, BIG), (L4_OR_T4, BIG)),
            f"spec.nodeSelector[{MEMORY}]",
            f"{MEMORY}: 16384",
            f"{MEMORY} Gt 40000",
            id="selector before terms",
        ),
        pytest.param(
            spec_of({"matchExpressions": [expression(MINOR, "In", "0")]}, nodeSelector={MAJOR: "8"}),
            AMPERE_86,
            f"{TERMS_PATH}[0].matchExpressions[0]",
            f"{MINOR} In [0]",
            f"{MINOR} Gt 5",
            id="the alternative that the selector admits",
        ),
        pytest.param(
            spec_of({"matchExpressions": [ZONE, expression(MAJOR, "Gt", "6"), expression(MAJOR, "Lt", "9")]}),
            ((T4, NodeRequirement(MAJOR, "In", ("5", "10"))),),
            f"{TERMS_PATH}[0].matchExpressions[1]",
            f"{MAJOR} Gt 6",
            f"{MAJOR} In [5, 10]",
            id="two conditions together",
        ),
        pytest.param(
            {"nodeSelector": {PRODUCT: "a\u202e\nb"}},
            ((T4,),),
            f"spec.nodeSelector[{PRODUCT}]",
            f"{PRODUCT}: a  b",
            f"{PRODUCT} In [Tesla-T4]",
            id="text that would not print",
        ),
    ],
)
def test_contradiction_shows_both_sides(spec, alternatives, path, condition, requirement):
    found = contradiction(pod_of(spec), alternatives)
    assert (str(found.path), found.condition, str(found.requirement)) == (path, condition, requirement)


@pytest.mark.parametrize(
    ("spec", "alternatives"),
    [
        ({}, ((T4,),)),
        ({"nodeSelector": {PRODUCT: "Tesla-T4"}}, ((T4,),)),
        ({"nodeSelector": {PRODUCT: "Tesla-T4"}}, ((BIG,),)),
        ({"nodeSelector": {MAJOR: "8"}}, AMPERE_86),
        (spec_of({"matchExpressions": [expression(MAJOR, "In", "7")]}, {"matchExpressions": [ZONE]}), AMPERE_86),
        (spec_of({"matchFields": [ON_NODE]}), ((T4,),)),
        (spec_of({}), ((T4,),)),
        (spec_of(), ((T4,),)),
        (spec_of({"matchExpressions": [ZONE, OTHER_ZONE]}), ((T4,),)),
        ({"nodeSelector": {PRODUCT: "Tesla-T4"}}, ()),
        ({"nodeSelector": {PRODUCT: "Tesla-T4"}}, ((T4, NodeRequirement(PRODUCT, "DoesNotExist")),)),
        ({"nodeSelector": {PRODUCT: "Tesla-T4"}}, ALWAYS),
    ],
    ids=[
        "nothing said",
        "the same",
        "another label",
        "one alternative",
        "one term",
        "a node",
        "empty term",
        "no terms",
        "pod impossible by itself",
        "no alternative",
        "alternative impossible by itself",
        "nothing required",
    ],
)
def test_no_contradiction_where_nothing_is_to_blame(spec, alternatives):
    assert contradiction(pod_of(spec), alternatives) is None
