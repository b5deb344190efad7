"""GPUAdmissionPolicies: the invalid are refused, whatever the settings that hold say, and nobody is locked out."""

import pytest

from policies.decision import Severity
from policies.request import Request, UserInfo
from policies.review import review
from policies.settings import DEFAULTS, Exemption, GPUAdmissionPolicy, RuleOverride
from webhook.cluster.manifests import ManifestsView

INVALID = {"rules": [{"rule": "GA307", "severity": "never"}], "placement": {"wishes": [{"wish": {}}]}}
EMPTY = "is empty; write what is wished, such as product: H100*, or take the entry away"
ALICE = UserInfo("alice", ("system:masters",))


def policy(spec, **metadata):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default", **metadata},
        "spec": spec,
    }


def decided(new, old=None, operation="", settings=DEFAULTS, **fields):
    request = Request(
        new,
        old,
        operation or ("UPDATE" if old else "CREATE"),
        "gpu-admission.io",
        "GPUAdmissionPolicy",
        name="default",
        user=ALICE,
        **fields,
    )
    return review(request, ManifestsView(), settings)


def test_every_problem_is_told_at_its_field():
    decision = decided(policy(INVALID))
    assert not decision.allowed
    assert [str(finding) for finding in decision.findings] == [
        'spec.rules[0].severity: is "never"; write deny, warn, audit or off [GA701]',
        f"spec.placement.wishes[0].wish: {EMPTY} [GA701]",
    ]


def test_other_name_and_version_are_refused():
    document = {**policy({}, name="mine"), "apiVersion": "gpu-admission.io/v1"}
    assert [str(finding.path) for finding in decided(document).denials] == ["apiVersion", "metadata.name"]


@pytest.mark.parametrize("entry", ["", "configuration"])
def test_valid_settings_pass_without_a_word(entry):
    decision = decided(policy({"rules": [{"rule": "GA307", "severity": "warn"}]}), entry=entry)
    assert (decision.allowed, decision.findings) == (True, ())


@pytest.mark.parametrize(
    "settings",
    [
        GPUAdmissionPolicy(rules=(RuleOverride("GA701", Severity.OFF), RuleOverride("GA702", Severity.DENY))),
        GPUAdmissionPolicy(exemptions=(Exemption(("GA*",), users=("alice",)),)),
    ],
    ids=["off", "exempt"],
)
def test_settings_do_not_decide_about_settings(settings):
    assert {finding.rule for finding in decided(policy(INVALID), settings=settings).denials} == {"GA701"}
    unknown = decided(policy({"rules": [{"rule": "GA999", "severity": "warn"}]}), settings=settings)
    assert [(finding.rule, finding.severity, finding.exempt) for finding in unknown.findings] == [
        ("GA702", Severity.WARN, False)
    ]


def test_severities_and_exemptions_without_effect_are_told():
    spec = {
        "rules": [
            {"rule": "GA999", "severity": "warn"},
            {"rule": "GA701", "severity": "off"},
            {"rule": "GA307", "severity": "warn"},
        ],
        "exemptions": [{"users": ["a"], "from": ["GA701", "GA99*", "GA3*", "conversion", "access"]}],
    }
    decision = decided(policy(spec))
    assert decision.allowed
    assert [f"{finding.path}: {finding.message}" for finding in decision.findings] == [
        "spec.rules[0].rule: there is no rule GA999 in this version, so its severity changes nothing",
        "spec.rules[1].rule: GA701 holds whatever settings say, so its severity stays deny",
        "spec.exemptions[0].from[0]: GA701 holds for everybody, so nobody is exempt from it",
        "spec.exemptions[0].from[1]: there is no rule GA99* in this version, so nobody is exempt from it",
    ]


def test_invalid_settings_can_be_deleted():
    assert decided(None, policy(INVALID), "DELETE").findings == ()


def test_finalizer_of_invalid_settings_can_be_taken_away():
    deleted = policy(INVALID, deletionTimestamp="2026-01-01T00:00:00Z")
    assert decided(deleted, {**deleted, "spec": {}}).allowed


def test_invalid_settings_can_be_labelled_and_are_told():
    decision = decided(policy(INVALID, labels={"team": "a"}), policy(INVALID))
    assert decision.allowed
    assert {(finding.rule, finding.severity) for finding in decision.findings} == {("GA701", Severity.WARN)}


def test_settings_that_become_invalid_are_refused():
    assert not decided(policy(INVALID), policy({})).allowed


def test_invalid_settings_can_be_put_right():
    assert decided(policy({}), policy(INVALID)).findings == ()


def test_status_is_none_of_our_business():
    assert decided(policy(INVALID), policy({}), subresource="status").findings == ()


def test_settings_without_bottom_are_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    (finding,) = decided(policy({"rules": deep})).denials
    assert finding.text == "spec: is nested more deeply than any setting is"
    while deep:  # freeing it at once would take as many frames
        deep = deep.pop()


def test_kind_of_the_same_name_is_somebody_elses():
    request = Request({"kind": "GPUAdmissionPolicy"}, group="example.com", kind="GPUAdmissionPolicy")
    assert review(request, ManifestsView(), DEFAULTS).findings == ()
