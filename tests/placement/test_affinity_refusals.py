"""Node affinity that is too large to change, and requirements that contradict it."""

import pytest

from policies.kubernetes.selectors import ALWAYS, NodeRequirement
from policies.placement.affinity import TooManyTermsError, contradiction, require
from policies.rules.patch import Editor
from tests.placement.affinity_terms import (
    AMPERE_86,
    BIG,
    L4_OR_T4,
    MAJOR,
    MEMORY,
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

TERMS_PATH = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def test_nothing_required_is_never_too_much():
    assert not required({"nodeSelector": {str(number): "" for number in range(1001)}}, ())


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
    assert str(refused.value) == "would have 202 terms, and at most 200 are written into a pod"


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
            "has 1001 labels, and at most 1000 can be compared in time",
        ),
        (spec_of(*[{}] * 1001), TERMS_PATH, "has 1001 terms, and at most 1000 can be compared in time"),
        (
            spec_of({"matchExpressions": [ZONE] * 600, "matchFields": [ON_NODE] * 401}),
            TERMS_PATH,
            "has 1001 expressions, and at most 1000 can be compared in time",
        ),
        (
            spec_of({"matchExpressions": [expression("zone", "In", *map(str, range(10_001)))]}),
            TERMS_PATH,
            "has 10001 values in its expressions, and at most 10000 can be compared in time",
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
