"""Redacted objects in the log."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.server.logs import REDACTED, redact

ENV = [
    {"name": "TOKEN", "value": "hunter2"},
    {"name": "REF", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    {"name": "EMPTY", "value": ""},
]
SHOWN = [
    {"name": "TOKEN", "value": REDACTED},
    {"name": "REF", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    {"name": "EMPTY", "value": REDACTED},
]


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
def test_environments_of_containers_are_hidden(kind):
    assert redact({"spec": {kind: [{"name": "c", "env": ENV}]}}) == {"spec": {kind: [{"name": "c", "env": SHOWN}]}}


def test_environments_in_templates_are_hidden():
    job = {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"env": ENV}]}}}}}}
    assert "hunter2" not in str(redact(job))


def test_environments_of_nvidias_configurations_are_hidden():
    assert redact({"spec": {"driver": {"env": ENV}}}) == {"spec": {"driver": {"env": SHOWN}}}


def test_what_kubectl_applied_is_hidden():
    key = "kubectl.kubernetes.io/last-applied-configuration"
    pod = {"metadata": {"annotations": {key: '{"env": "hunter2"}', "other": "x"}}}
    assert redact(pod) == {"metadata": {"annotations": {key: REDACTED, "other": "x"}}}


def test_everything_else_stays():
    pod = {"spec": {"containers": [{"image": "i", "args": ["--value"], "env": "none"}]}, "value": 7}
    assert redact(pod) == pod


def test_the_object_itself_is_not_touched():
    pod = {"spec": {"containers": [{"env": ENV}]}}
    before = copy.deepcopy(pod)
    redact(pod)
    assert pod == before


ANY_JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["env", "value", "name", "x"]), inner),
)


@given(ANY_JSON)
def test_any_object_can_be_shown(document):
    redact(document)
