"""GPUAdmissionPolicy documents: valid settings, and messages about invalid ones."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.names import quote
from policies.kubernetes.yaml import load_document
from policies.rules.decision import Severity
from policies.rules.settings import (
    DEFAULTS,
    Access,
    AlignedNIC,
    Configuration,
    Conversion,
    DRADriver,
    Explanations,
    GPUAdmissionPolicy,
    Placement,
    RuleOverride,
    SettingsError,
    TaintTolerated,
    WishDefault,
    parse_settings,
)
from tests.findings import unplaced_text

NO_OPERATOR = (
    "is empty, so nothing of the GPU Operator would be found; remove it to mean gpu-operator and nvidia-gpu-operator"
)


def document(spec=None, **fields):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
        "spec": spec,
        **fields,
    }


def problems(policy):
    with pytest.raises(SettingsError) as refusal:
        parse_settings(policy)
    return [(str(each.path), unplaced_text(each)) for each in refusal.value.problems]


def problems_of(spec):
    return problems(document(spec))


@pytest.mark.parametrize("spec", [None, {}, {"rules": []}, {"conversion": {}, "configuration": {}}])
def test_what_is_not_written_has_its_default(spec):
    assert parse_settings(document(spec)) == DEFAULTS == GPUAdmissionPolicy()


def test_spec_may_be_missing():
    policy = document()
    del policy["spec"]
    assert parse_settings(policy) == DEFAULTS


def test_every_setting_is_read():
    policy = document(
        {
            "rules": [
                {"rule": "GA307", "severity": "warn", "namespaces": ["research-*", "b"]},
                {"rule": "GA301", "severity": "off"},
            ],
            "conversion": {
                "schedulers": ["a", "b"],
                "allowPodOptOut": False,
                "keepTranslatedLabels": True,
                "readWishesOf": ["HAMi"],
                "nativeQuota": "warn",
                "unsatisfiable": "deny",
                "nic": {"deviceClass": "rdma-nic", "matchAttribute": "dra.net/numaNode"},
            },
            "configuration": {"operatorNamespaces": ["nvidia"], "clusterPolicyDeletion": "deny"},
            "draDriver": {"featureGates": {"MPSSupport": True}, "version": "25.8.0"},
            "placement": {
                "wishes": [
                    {"wish": {"product": "H100*", "min-memory": "40Gi"}, "namespaces": ["a", "b-*"]},
                    {"wish": {"sharing": "any"}},
                ],
                "tolerations": [
                    {"key": "team", "value": "a", "effect": "PreferNoSchedule", "namespaces": ["team-a"]},
                    {"key": "example.com/gpu"},
                ],
                "unsatisfiable": "deny",
                "avoidSharedGPUs": True,
            },
            "access": {
                "mode": "deny",
                "exemptNamespaces": ["monitoring"],
                "exemptServiceAccounts": ["monitoring/dcgm-*"],
            },
            "explain": {"onPods": True},
        }
    )
    assert parse_settings(policy) == GPUAdmissionPolicy(
        rules=(
            RuleOverride("GA307", Severity.WARN, ("research-*", "b")),
            RuleOverride("GA301", Severity.OFF, ("*",)),
        ),
        conversion=Conversion(
            ("a", "b"), False, True, ("HAMi",), "warn", "deny", AlignedNIC("rdma-nic", "dra.net/numaNode")
        ),
        configuration=Configuration(("nvidia",), "deny"),
        dra_driver=DRADriver({"MPSSupport": True}, "25.8.0"),
        placement=Placement(
            wishes=(
                WishDefault({"product": "H100*", "min-memory": "40Gi"}, ("a", "b-*")),
                WishDefault({"sharing": "any"}),
            ),
            tolerations=(
                TaintTolerated("team", "a", "PreferNoSchedule", ("team-a",)),
                TaintTolerated("example.com/gpu"),
            ),
            unsatisfiable="deny",
            avoid_shared_gpus=True,
        ),
        access=Access("deny", ("monitoring",), ("monitoring/dcgm-*",)),
        explain=Explanations(on_pods=True),
    )


EXAMPLES = re.findall(r"```yaml\n(.*?)```", (Path(__file__).parents[2] / "docs" / "settings.md").read_text(), re.DOTALL)


def test_example_of_the_documentation_shows_the_defaults():
    example = load_document(EXAMPLES[0]).value
    policy = parse_settings(example)
    for section in ("conversion", "configuration", "placement", "access", "quota"):
        assert getattr(policy, section) == getattr(DEFAULTS, section)
        assert len(example["spec"][section]) == len(fields(getattr(DEFAULTS, section)))
    assert policy.exemptions == DEFAULTS.exemptions


@pytest.mark.parametrize(
    "example", EXAMPLES[1:], ids=["wishes", "nic", "tolerations", "access", "quota", "kinds", "exemptions"]
)
def test_other_examples_of_the_documentation_can_be_read(example):
    assert parse_settings(document(load_document(example).value)) != DEFAULTS


def test_what_the_api_server_adds_is_no_problem():
    metadata = {"name": "default", "uid": "1", "managedFields": []}
    assert parse_settings(document(metadata=metadata, status={"conditions": []})) == DEFAULTS


@pytest.mark.parametrize("policy", [None, [], "x", 1])
def test_document_is_a_mapping(policy):
    assert problems(policy) == [("", "a GPUAdmissionPolicy is a mapping with apiVersion, kind, metadata and spec")]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"apiVersion": None}, ("apiVersion", 'is missing; write "gpu-admission.io/v1alpha1"')),
        ({"apiVersion": "v1"}, ("apiVersion", 'is "v1"; write "gpu-admission.io/v1alpha1"')),
        ({"apiVersion": 1}, ("apiVersion", 'is not text; write "gpu-admission.io/v1alpha1"')),
        ({"kind": "GPUPolicy"}, ("kind", 'is "GPUPolicy"; write "GPUAdmissionPolicy"')),
        (
            {"metadata": None},
            ("metadata.name", 'is missing, and a cluster has only one GPUAdmissionPolicy; write "default"'),
        ),
        (
            {"metadata": {"name": "mine"}},
            ("metadata.name", 'is "mine", and a cluster has only one GPUAdmissionPolicy; write "default"'),
        ),
        (
            {"rules": []},
            (
                "rules",
                "is an unknown field of a GPUAdmissionPolicy; move it below spec if it is a setting, or remove it",
            ),
        ),
        (
            {"conversion": {}},
            (
                "conversion",
                "is an unknown field of a GPUAdmissionPolicy; move it below spec if it is a setting, or remove it",
            ),
        ),
    ],
)
def test_envelope_is_checked(fields, problem):
    assert problems(document(**fields)) == [problem]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ([], ("spec", "is a list; it must be a mapping; write its fields below it")),
        ("", ("spec", 'is ""; it must be a mapping; write its fields below it')),
        (False, ("spec", "is false; it must be a mapping; write its fields below it")),
        ({"nope": []}, ("spec.nope", "is unknown; write a setting that docs/settings.md lists")),
        (
            {"rule": [], "rules": []},
            ("spec.rule", 'is unknown; move what it says into "rules", which is there too'),
        ),
        ({"rule": []}, ("spec.rule", 'is unknown; write "rules"')),
        ({"rules": {"GA301": "off"}}, ("spec.rules", "is a mapping; it must be a list; put a dash before each entry")),
        ({"rules": "GA301"}, ("spec.rules", 'is "GA301"; it must be a list; put a dash before each entry')),
        ({"rules": None}, ("spec.rules", "is null; it must be a list; write entries, each with a dash before it")),
        (
            {"rules": ["GA301"]},
            ("spec.rules[0]", 'is "GA301"; it must be a mapping; write its fields below it'),
        ),
        (
            {"conversion": None},
            ("spec.conversion", "is null; it must be a mapping; write its fields below it"),
        ),
        (
            {"conversion": ["a"]},
            ("spec.conversion", "is a list; it must be a mapping; write its fields below it"),
        ),
    ],
)
def test_sections_have_their_shape(spec, problem):
    assert problems_of(spec) == [problem]


@pytest.mark.parametrize(
    ("conversion", "problem"),
    [
        (
            {"schedulers": "default-scheduler"},
            ("schedulers", 'is "default-scheduler"; it must be a list; put a dash before each entry'),
        ),
        ({"schedulers": [1]}, ("schedulers[0]", "is 1; it must be text; put it in quotes")),
        (
            {"schedulers": []},
            ("schedulers", "is empty, so nothing would be converted; remove it to mean default-scheduler"),
        ),
        ({"allowPodOptOut": "no"}, ("allowPodOptOut", 'is "no"; it must be true or false; write one of the two')),
        ({"allowPodOptOut": 1}, ("allowPodOptOut", "is 1; it must be true or false; write one of the two")),
        (
            {"keepTranslatedLabels": None},
            ("keepTranslatedLabels", "is null; it must be true or false; write one of the two"),
        ),
        ({"nativeQuota": "audit"}, ("nativeQuota", 'is "audit"; write deny or warn')),
        ({"nativeQuota": False}, ("nativeQuota", "is false; write deny or warn")),
        ({"unsatisfiable": ["deny"]}, ("unsatisfiable", "is a list; write warn or deny")),
        (
            {"allow_pod_opt_out": True},
            ("allow_pod_opt_out", 'is unknown; write "allowPodOptOut"'),
        ),
        ({"unsatisfyable": "deny"}, ("unsatisfyable", 'is unknown; write "unsatisfiable"')),
    ],
)
def test_setting_of_conversion_is_checked(conversion, problem):
    path, sentence = problem
    assert problems_of({"conversion": conversion}) == [(f"spec.conversion.{path}", sentence)]


@pytest.mark.parametrize(
    ("configuration", "problem"),
    [
        (
            {"operatorNamespaces": "gpu-operator"},
            ("operatorNamespaces", 'is "gpu-operator"; it must be a list; put a dash before each entry'),
        ),
        (
            {"operatorNamespaces": []},
            ("operatorNamespaces", NO_OPERATOR),
        ),
        ({"clusterPolicyDeletion": "allow"}, ("clusterPolicyDeletion", 'is "allow"; write warn or deny')),
        (
            {"operatorNamespace": []},
            ("operatorNamespace", 'is unknown; write "operatorNamespaces"'),
        ),
    ],
)
def test_setting_of_configuration_is_checked(configuration, problem):
    path, sentence = problem
    assert problems_of({"configuration": configuration}) == [(f"spec.configuration.{path}", sentence)]


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ({"severity": "off"}, ("rule", "is missing; write it")),
        ({"rule": "GA301"}, ("severity", "is missing; write it")),
        ({"rule": 301, "severity": "off"}, ("rule", "is 301; it must be text; put it in quotes")),
        ({"rule": "GA301", "severity": "error"}, ("severity", 'is "error"; write deny, warn, audit or off')),
        ({"rule": "GA301", "severity": "Deny"}, ("severity", 'is "Deny"; write deny, warn, audit or off')),
        ({"rule": "GA301", "severity": None}, ("severity", "is null; write deny, warn, audit or off")),
        (
            {"rule": "GA301", "severity": False},
            ("severity", 'is false, which is how YAML reads off; write "off" in quotes'),
        ),
        (
            {"rule": "GA301", "severity": "off", "namespaces": "a"},
            ("namespaces", 'is "a"; it must be a list; put a dash before each entry'),
        ),
        (
            {"rule": "GA301", "severity": "off", "namespaces": [None]},
            ("namespaces[0]", "is null; it must be text; put it in quotes"),
        ),
        (
            {"rule": "GA301", "severity": "off", "namespaces": []},
            ("namespaces", "is empty; remove it to mean every namespace"),
        ),
        (
            {"rule": "GA301", "severity": "off", "namespace": "a"},
            ("namespace", 'is unknown; write "namespaces"'),
        ),
    ],
)
def test_override_is_checked(override, problem):
    path, sentence = problem
    assert problems_of({"rules": [override]}) == [(f"spec.rules[0].{path}", sentence)]


@pytest.mark.parametrize(
    "rule", ["", "GA30", "GA3010", "ga301", "301", "GA3O1", "GA301\n", " GA301", "*", "GA\u0663\u0660\u0661"]
)
def test_override_names_a_rule(rule):
    assert problems_of({"rules": [{"rule": rule, "severity": "off"}]}) == [
        ("spec.rules[0].rule", f"is {quote(rule)}; write GA and three digits, such as GA307")
    ]


def test_all_problems_are_reported_at_once():
    policy = {
        "apiVersion": "v1",
        "kind": "GPUAdmissionPolicy",
        "spec": {"rules": [{"rule": "all", "severity": "never"}], "conversion": {"schedulers": 1}},
    }
    with pytest.raises(SettingsError) as refusal:
        parse_settings(policy)
    assert str(refusal.value) == (
        'Write "gpu-admission.io/v1alpha1": apiVersion is "v1"; apiVersion. '
        'Write "default": name is missing, and a cluster has only one GPUAdmissionPolicy; metadata.name. '
        'Write deny, warn, audit or off: severity is "never"; spec.rules[0].severity. '
        "Write entries, each with a dash before it: schedulers is 1; it must be a list; spec.conversion.schedulers. "
        'Write GA and three digits, such as GA307: rule is "all"; spec.rules[0].rule'
    )


KEYS = (
    "rules conversion rule severity namespaces schedulers nativeQuota x access exemptServiceAccounts placement wishes"
)
MORE_KEYS = "wish min-memory max-memory product tolerations key value effect"
keys = st.sampled_from(f"{KEYS} {MORE_KEYS}".split())
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["GA301", "off", "8Gi"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=10,
)
wishes = st.fixed_dictionaries({}, optional={"wish": anything, "namespaces": anything})
taints = st.fixed_dictionaries({}, optional={"key": anything, "value": anything, "effect": anything, "x": anything})
placement = st.fixed_dictionaries(
    {}, optional={"wishes": st.lists(wishes | anything), "tolerations": st.lists(taints | anything)}
)
specs = anything | st.fixed_dictionaries({"placement": placement}, optional={"access": anything, "rules": anything})


@given(specs)
def test_any_spec_is_read_or_refused_with_places_and_texts(spec):
    try:
        policy = parse_settings(document(spec))
    except SettingsError as refusal:
        reported = [(str(each.path), unplaced_text(each)) for each in refusal.problems]
    else:
        reported = [("spec", "read")]
        assert isinstance(policy, GPUAdmissionPolicy)
    assert all(path.startswith("spec") and sentence for path, sentence in reported)
    assert not any("tuple" in sentence or "nput" in sentence or "instance" in sentence for _, sentence in reported)
