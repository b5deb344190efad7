"""Unknown fields in device-plugin configurations, and texts that are not configurations."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.rules.decision import Severity
from tests.configuration.device_plugin.documents import (
    GPU,
    config_map,
    findings_of,
    found_in,
    refused,
    reviewed,
    shares,
)
from tests.findings import plain_text

NO_FIELD = "unknown field: the device plugin ignores it silently"


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"flag": {}}, f'data.any.flag: {NO_FIELD}; write "flags"'),
        ({"timeSlicing": {}}, f"data.any.timeSlicing: {NO_FIELD}; indent it below sharing"),
        ({"migStrategy": "none"}, f"data.any.migStrategy: {NO_FIELD}; indent it below flags"),
        (
            {"flags": {"passDeviceSpecs": True}},
            f"data.any.flags.passDeviceSpecs: {NO_FIELD}; indent it below flags.plugin",
        ),
        ({"mig": {"strategy": "mixed"}}, f"data.any.mig: {NO_FIELD}; write flags: {{migStrategy: mixed}}"),
        ({"resources": {"migs": []}}, f'data.any.resources.migs: {NO_FIELD}; write "mig"'),
        (
            {"sharing": {"resources": [GPU]}},
            f"data.any.sharing.resources: {NO_FIELD}; indent it below timeSlicing or mps",
        ),
        ({"sharing": {"timeslice": {}}}, f'data.any.sharing.timeslice: {NO_FIELD}; write "timeSlicing"'),
        (
            shares({**GPU, "device": "all"}),
            f'data.any.sharing.timeSlicing.resources[0].device: {NO_FIELD}; write "devices"',
        ),
        (
            {"nodes": []},
            f"data.any.nodes: {NO_FIELD}; remove it; there are version, flags, resources, sharing, imex",
        ),
        (
            {"flags": {}, "Flags": {}},
            'data.any.Flags: is the same field as "flags"; the device plugin reads only one; remove Flags or flags',
        ),
    ],
    ids=json.dumps,
)
def test_unknown_fields_are_warned_about_with_a_suggestion(document, text):
    (found,) = found_in(document)
    assert (found.rule.id, found.severity, plain_text(found)) == ("GA135", Severity.WARN, text)


def test_an_unknown_field_that_may_be_newer_only_warns():
    (found,) = found_in({"flags": {"quantumRouting": True}})
    assert (found.rule.id, found.severity) == ("GA135", Severity.WARN)
    assert plain_text(found).startswith(
        f"data.any.flags.quantumRouting: {NO_FIELD}; remove it; there are migStrategy, "
    )


def test_fields_of_structs_count_in_any_case():
    document = {"Version": "v1", "Sharing": {"TIMESLICING": {"resources": [{**GPU, "replicas": 1}]}}}
    assert [(found.rule.id, str(found.path)) for found in found_in(document)] == [
        ("GA132", "data.any.Sharing.TIMESLICING.resources[0].replicas")
    ]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            shares({"name": "nvidia.com/gpu", "Replicas": 4}),
            (
                "GA132",
                (
                    "data.any.sharing.timeSlicing.resources[0].Replicas: is not read, because here a field counts only in its "
                    'exact spelling; the device plugin would exit with: no replicas specified; write "replicas"'
                ),
            ),
        ),
        (
            shares({"Name": "nvidia.com/gpu", "replicas": 4}),
            (
                "GA136",
                (
                    "data.any.sharing.timeSlicing.resources[0].Name: is not read, because here a field counts only in its "
                    'exact spelling; the device plugin would exit with: no resource name specified; write "name"'
                ),
            ),
        ),
        (
            {"sharing": {"timeSlicing": {"Resources": [GPU]}}},
            (
                "GA136",
                (
                    "data.any.sharing.timeSlicing.Resources: is not read, because here a field counts only in its exact "
                    'spelling; the device plugin would exit with: no resources specified; write "resources"'
                ),
            ),
        ),
    ],
    ids=["replicas", "name", "resources"],
)
def test_fields_of_shared_resources_count_in_their_exact_spelling(document, expected):
    assert findings_of(document) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "version: v1\nsharing:\n\ttimeSlicing: {}\n",
            (
                "is not YAML in line 3: a tab cannot indent; use spaces; the device plugin would "
                "exit, unable to parse its config file; correct line 3"
            ),
        ),
        (
            "just text",
            (
                "is a single value, not a mapping; the device plugin would exit, unable to parse its "
                "config file; write fields such as version: v1"
            ),
        ),
        (
            "- version: v1\n",
            (
                "is a list, not a mapping; the device plugin would exit, unable to parse its config "
                "file; write fields such as version: v1"
            ),
        ),
    ],
    ids=["tab", "scalar", "list"],
)
def test_texts_that_are_no_configuration_are_refused(text, expected):
    (found,) = refused(text)
    assert (found.rule.id, plain_text(found)) == ("GA133", f"data.any: {expected}")


SECOND_DOCUMENT = (
    "has a second document in line 3; the device plugin would read the first one only; merge the second document into the "
    "first"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "version: v1\nflags: {}\nversion: v1\n",
            (
                'has the duplicate key "version" in line 3, first given at line 1; the device plugin would keep the last one '
                'and say nothing; remove one key "version"'
            ),
        ),
        ("version: v1\n---\nversion: v1\n", SECOND_DOCUMENT),
        ("version: v1\n---\nversion: v1\nversion: v2\n", SECOND_DOCUMENT),
        ("version: v1\n---\n\tno: YAML\n", None),
    ],
    ids=["duplicate", "documents", "duplicate in the second document", "broken second document"],
)
def test_what_the_plugin_silently_ignores_in_a_text_is_warned_about(text, expected):
    found = [(each.rule.id, each.severity, plain_text(each)) for each in found_in(text)]
    assert found == ([("GA133", Severity.WARN, f"data.any: {expected}")] if expected else [])


def test_the_last_of_duplicate_keys_is_judged():
    text = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: %s}]}}\n"
    assert {each.rule.id for each in refused(text % 4 + text % 1)} == {"GA132"}
    assert {each.rule.id for each in found_in(text % 1 + text % 4)} == {"GA133"}


def test_empty_text_warns():
    (found,) = found_in("# nothing yet\n")
    assert (found.rule.id, found.severity) == ("GA133", Severity.WARN)
    assert plain_text(found) == (
        "data.any: holds nothing, so nodes that select it share no GPU and get every default; "
        'write "version: v1" to share nothing'
    )


@pytest.mark.parametrize("data", [{}, None])
def test_a_config_map_without_keys_that_nothing_names_is_a_placeholder(data):
    assert [*reviewed(config_map(data))] == []


def test_a_value_that_is_no_text_is_refused():
    (found,) = reviewed(config_map({"any": {"version": "v1"}}))
    assert plain_text(found) == (
        "data.any: must be a string; the API server refuses it; write any: |- and indent the configuration below it"
    )


def test_a_key_that_is_no_label_value_warns():
    (found,) = reviewed(config_map({"a100_": "version: v1"}))
    assert (found.rule.id, found.severity) == ("GA133", Severity.WARN)
    assert plain_text(found) == (
        "data.a100_: cannot be the value of a label, so no node can select it by nvidia.com/device-plugin.config; "
        "name it with at most 63 letters, digits, dashes, underscores and dots, and no sign at either end"
    )


@pytest.mark.parametrize("key", ["<GPU model>", "tesla/t4", "a b"])
def test_a_key_that_config_maps_cannot_have_is_refused(key):
    (found,) = reviewed(config_map({key: "version: v1"}))
    assert (found.rule.id, found.severity) == ("GA133", Severity.DENY)
    assert found.message == f'"{key}" is no key of a ConfigMap; the API server refuses it'


def test_aliases_without_end_cost_nothing():
    laughs = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    (found,) = found_in(laughs)
    assert (found.rule.id, str(found.severity)) == ("GA133", "warn")


def test_places_are_those_of_the_embedded_document():
    (found,) = found_in("version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: gpu\n      replicas: 1\n")
    assert (found.place.path, found.place.line, found.place.column) == (("data", "any"), 6, 17)


NAMES = st.sampled_from(
    [
        "version",
        "flags",
        "sharing",
        "timeSlicing",
        "mps",
        "resources",
        "name",
        "replicas",
        "devices",
        "gfd",
        "imex",
        "Name",
    ]
)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(ANYTHING)
def test_any_document_is_answered(value):
    found_in(json.dumps(value))
    found_in({"sharing": value})
    found_in({"sharing": {"timeSlicing": value, "mps": {"resources": [value, {"name": value, "replicas": value}]}}})
    found_in({"flags": {"gfd": value, "plugin": {"deviceListStrategy": value}}, "resources": {"gpus": [value]}})


@given(ANYTHING)
def test_any_config_map_is_answered(value):
    reviewed(config_map(value))
    reviewed(config_map({"any": value}), config_map(value))
