"""Malformed pods: every wrong shape gives a sentence with its path."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.names import is_dns_label, shown
from policies.kubernetes.objects import lookup
from policies.kubernetes.pods import MalformedPodError, Pod, has_pod_constraints_shape

POD = {
    "metadata": {
        "labels": {"app": "a"},
        "annotations": {"note": "b"},
        "ownerReferences": [{"controller": True}],
    },
    "spec": {
        "nodeName": "",
        "schedulerName": "default-scheduler",
        "nodeSelector": {"zone": "z1"},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}],
                            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}],
                        }
                    ]
                }
            }
        },
        "initContainers": [{"name": "fetch", "restartPolicy": "Always"}],
        "containers": [
            {
                "name": "train",
                "resources": {
                    "limits": {"nvidia.com/gpu": 1},
                    "requests": {"nvidia.com/gpu": 1},
                    "claims": [{"name": "gpu", "request": "train"}],
                },
            }
        ],
    },
}

REQUIRED = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
TERM = (*REQUIRED, "nodeSelectorTerms", 0)
TERM_TEXT = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
RESOURCES = ("spec", "containers", 0, "resources")
MAPPINGS = [
    ("metadata",),
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec", "nodeSelector"),
    ("spec", "affinity"),
    ("spec", "affinity", "nodeAffinity"),
    REQUIRED,
    RESOURCES,
    (*RESOURCES, "limits"),
    (*RESOURCES, "requests"),
]
LISTS = [
    ("metadata", "ownerReferences"),
    ("spec", "tolerations"),
    ("spec", "resourceClaims"),
    TERM[:-1],
    (*TERM, "matchExpressions"),
    (*TERM, "matchFields"),
    ("spec", "initContainers"),
    ("spec", "containers"),
    (*RESOURCES, "claims"),
]
TEXTS = [
    ("spec", "nodeName"),
    ("spec", "schedulerName"),
    ("spec", "tolerations", 0, "key"),
    ("spec", "tolerations", 0, "operator"),
    ("spec", "tolerations", 0, "effect"),
    ("spec", "resourceClaims", 0, "name"),
    ("spec", "resourceClaims", 0, "resourceClaimTemplateName"),
    (*TERM, "matchExpressions", 0, "key"),
    (*TERM, "matchExpressions", 0, "operator"),
    (*TERM, "matchFields", 0, "key"),
    ("spec", "initContainers", 0, "restartPolicy"),
    ("spec", "containers", 0, "name"),
    (*RESOURCES, "claims", 0, "name"),
    (*RESOURCES, "claims", 0, "request"),
]
OPTIONAL = [
    path
    for path in (*MAPPINGS, *LISTS, *TEXTS, (*TERM, "matchFields", 0, "values"))
    if path not in (("spec", "containers"), ("spec", "containers", 0, "name"))
]
SHAPES = {"a number": 1, "text": "x", "true or false": True, "a list": [], "a mapping": {}}


def with_value(path, value):
    pod = copy.deepcopy(POD)
    parent = pod
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    return pod


def problems(document):
    with pytest.raises(MalformedPodError) as refusal:
        Pod.read(document)
    return [(str(path), f"{message}; {remedy}") for path, message, remedy in refusal.value.problems]


def printed(path):
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def test_pod_of_these_tests_is_well_formed():
    assert Pod.read(POD).document is POD


@pytest.mark.parametrize("path", MAPPINGS, ids=printed)
@pytest.mark.parametrize("shape", ["a number", "text", "true or false", "a list"])
def test_what_should_be_a_mapping(path, shape):
    assert problems(with_value(path, SHAPES[shape])) == [(printed(path), f"is {shape}; write it as a mapping")]


@pytest.mark.parametrize("path", LISTS, ids=printed)
@pytest.mark.parametrize("shape", ["a number", "text", "true or false", "a mapping"])
def test_what_should_be_a_list(path, shape):
    assert problems(with_value(path, SHAPES[shape])) == [(printed(path), f"is {shape}; write it as a list")]


@pytest.mark.parametrize("path", LISTS, ids=printed)
@pytest.mark.parametrize(("shape", "item"), [("a number", 1.5), ("text", "x"), ("a list", []), ("null", None)])
def test_what_should_be_a_list_of_mappings(path, shape, item):
    assert problems(with_value(path, [item])) == [(f"{printed(path)}[0]", f"is {shape}; write it as a mapping")]


@pytest.mark.parametrize("path", TEXTS, ids=printed)
@pytest.mark.parametrize("shape", ["a number", "true or false", "a list", "a mapping"])
def test_what_should_be_text(path, shape):
    assert problems(with_value(path, SHAPES[shape])) == [(printed(path), f"is {shape}; write it as text")]


@pytest.mark.parametrize("path", [("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector")])
@pytest.mark.parametrize(("shape", "value"), [("a number", 8), ("true or false", True), ("null", None), ("a list", [])])
def test_what_should_be_text_in_quotes(path, shape, value):
    assert problems(with_value(path, {"nvidia.com/gpu.count": value})) == [
        (f"{printed(path)}[nvidia.com/gpu.count]", f"is {shape}; write it as text, in quotes")
    ]


@pytest.mark.parametrize("value", ["z1", 1, {}, [1], ["z1", None]])
@pytest.mark.parametrize("field", ["matchExpressions", "matchFields"])
def test_values_of_an_expression_are_a_list_of_texts(field, value):
    path = (*TERM, field, 0, "values")
    assert problems(with_value(path, value)) == [
        (f"{TERM_TEXT}.{field}[0].values", "is not a list of texts; write it as a list of texts")
    ]


@pytest.mark.parametrize("path", OPTIONAL, ids=printed)
def test_null_counts_as_absent(path):
    assert Pod.read(with_value(path, None)).containers


@pytest.mark.parametrize("document", [{}, {"spec": None}, {"spec": {"containers": None}}, {"spec": {"containers": []}}])
def test_pod_has_containers(document):
    assert problems(document) == [("spec.containers", "is empty; add a container")]


@pytest.mark.parametrize("document", [None, [], "x", 1])
def test_what_is_no_object_has_no_containers(document):
    assert problems(document) == [("spec.containers", "is empty; add a container")]


@pytest.mark.parametrize("name", [None, ""])
def test_container_has_a_name(name):
    assert problems({"spec": {"containers": [{"name": name}, {"image": "x"}]}}) == [
        ("spec.containers[0].name", "is missing; write a name"),
        ("spec.containers[1].name", "is missing; write a name"),
    ]


@pytest.mark.parametrize("name", ["Train", "a_b", "-a", "a-", "a.b", "x" * 64, "a\n"])
def test_container_name_is_a_dns_label(name):
    assert problems({"spec": {"containers": [{"name": name}]}}) == [
        (
            "spec.containers[0].name",
            f"is {shown(name)}; write at most 63 lower-case letters, digits and dashes, without a dash at either end",
        )
    ]


def test_container_name_is_used_once():
    spec = {"initContainers": [{"name": "a"}], "containers": [{"name": "a"}, {"name": "b"}, {"name": "b"}]}
    assert problems({"spec": spec}) == [
        ("spec.containers[0].name", '"a" names another container already; write another name'),
        ("spec.containers[2].name", '"b" names another container already; write another name'),
    ]


def test_all_problems_are_reported_at_once():
    pod = {"metadata": {"labels": 1}, "spec": {"nodeName": 1, "containers": {"name": "train"}}}
    with pytest.raises(MalformedPodError) as refusal:
        Pod.read(pod)
    assert str(refusal.value) == (
        "metadata.labels is a number; write it as a mapping; "
        "spec.nodeName is a number; write it as text; "
        "spec.containers is a mapping; write it as a list"
    )


@pytest.mark.parametrize(
    ("selector", "terms", "expected"),
    [
        ({}, None, True),
        ({"zone": "z1"}, [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}], True),
        ({}, [{}], True),
        ({"zone": 1}, None, False),
        ([], None, False),
        ({}, {}, False),
        ({}, [None], False),
        ({}, [{"matchExpressions": [{"key": 1}]}], False),
        ({}, [{"matchExpressions": [{"values": [1]}]}], False),
    ],
)
def test_shape_of_constraints(selector, terms, expected):
    assert has_pod_constraints_shape(selector, terms) is expected


anything = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1) | st.sampled_from(["", "a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "key", "name"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(st.lists(st.tuples(st.sampled_from([*MAPPINGS, *LISTS, *TEXTS]), anything), min_size=1, max_size=3))
def test_whatever_is_in_a_pod_it_is_read_or_refused_with_places(changes):
    pod = copy.deepcopy(POD)
    for path, value in changes:
        parent = lookup(pod, path[:-1])
        if isinstance(parent, dict):
            parent[path[-1]] = value
    try:
        read = Pod.read(pod)
    except MalformedPodError as refusal:
        assert all(lookup(pod, path[:1]) is not None and all(words) for path, *words in refusal.problems)  # noqa: PT017 - both outcomes are right
    else:
        assert all(is_dns_label(container.name) for container in read.all_containers)
        assert (type(read.controller_kind), type(read.is_past_scheduling)) == (str, bool)
