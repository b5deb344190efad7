"""Selectors on many nodes give the answers of each node alone, with one pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.nodes import REQUIRED, NodeIndex

keys = st.sampled_from(["zone", "memory", "missing"])
texts = st.sampled_from(["", "a", "b", "7", "07", "8", "-1", "9223372036854775808"])
names = st.sampled_from(["n1", "n2", ""])
nodes = st.lists(
    st.fixed_dictionaries(
        {"metadata": st.fixed_dictionaries({"labels": st.dictionaries(keys, texts)}, optional={"name": names})}
    ),
    max_size=6,
)
operators = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equals"])


def expressions(keys, values):
    return st.fixed_dictionaries({"key": keys, "operator": operators, "values": st.lists(values, max_size=2)})


terms = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(expressions(keys, texts), max_size=2),
        "matchFields": st.lists(expressions(st.sampled_from(["metadata.name", "x"]), names), max_size=1),
    },
)


def affinity(terms):
    return {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": terms}}}


specs = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.dictionaries(keys, texts, max_size=1),
        "affinity": st.lists(terms, max_size=3).map(affinity),
    },
)


@given(nodes, specs)
def test_nodes_answer_together_as_each_alone(nodes, spec):
    together = NodeIndex(nodes).select(spec)
    assert [together >> position & 1 for position in range(len(nodes))] == [
        NodeIndex([node]).select(spec) for node in nodes
    ]


@given(nodes, st.lists(specs, max_size=4))
def test_index_answers_the_same_whatever_it_was_asked_before(nodes, specs):
    index = NodeIndex(nodes)
    assert [index.select(spec) for spec in specs] == [NodeIndex(nodes).select(spec) for spec in specs]


def test_no_nodes_are_selected_among_none():
    assert NodeIndex([]).select({}) == 0


def numbered(count):
    return [{"metadata": {"name": f"n{number}", "labels": {"host": f"n{number}"}}} for number in range(count)]


def test_sets_have_the_first_node_lowest():
    spec = {"nodeSelector": {"host": "n2"}}
    assert NodeIndex(numbered(5)).select(spec) == 0b100


class CountedLabels(dict):
    """Labels that count how often one of them is read."""

    reads = 0

    def get(self, key, default=None):
        CountedLabels.reads += 1
        return super().get(key, default)


@pytest.mark.parametrize("operator", ["In", "NotIn", "Gt", "Lt", "Exists"])
def test_each_label_is_read_once_of_each_node_however_many_ask(monkeypatch, operator):
    monkeypatch.setattr(CountedLabels, "reads", 0)
    index = NodeIndex([{"metadata": {"labels": CountedLabels(host=str(number))}} for number in range(50)])
    for number in range(50):
        expression = {"key": "host", "operator": operator, "values": [str(number)]}
        index.select({"affinity": affinity([{"matchExpressions": [expression]}] * 20)})
    assert CountedLabels.reads == 50


def test_labels_that_no_node_has_are_not_looked_for(monkeypatch):
    monkeypatch.setattr(CountedLabels, "reads", 0)
    index = NodeIndex([{"metadata": {"labels": CountedLabels(host="a")}}])
    assert index.select({"nodeSelector": {f"key-{number}": "a" for number in range(50)}}) == 0
    assert CountedLabels.reads == 0
