"""GPUAdmissionPolicies: invalid ones are refused whatever the settings say, and can still be corrected."""

import pytest

from policies.admission import review
from policies.rules.decision import Severity
from policies.rules.request import Request, UserInfo
from policies.rules.settings import DEFAULTS, Exemption, GPUAdmissionPolicy, RuleOverride
from tests.findings import labelled_text, plain_text
from webhook.cluster.manifests import ManifestsView

INVALID = {"rules": [{"rule": "GA307", "severity": "never"}], "placement": {"wishes": [{"wish": {}}]}}
EMPTY = "is empty; write a wish such as product: H100*, or remove the entry"
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


def test_every_problem_is_reported_at_its_field():
    decision = decided(policy(INVALID))
    assert not decision.allowed
    assert [labelled_text(finding) for finding in decision.findings] == [
        'spec.rules[0].severity: is "never"; write deny, warn, audit or off [GA701]',
        f"spec.placement.wishes[0].wish: {EMPTY} [GA701]",
    ]


def test_other_name_and_version_are_refused():
    document = {**policy({}, name="mine"), "apiVersion": "gpu-admission.io/v1"}
    assert [str(finding.path) for finding in decided(document).denials] == ["apiVersion", "metadata.name"]


@pytest.mark.parametrize("entry", ["", "configuration"])
def test_valid_settings_pass_silently(entry):
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
    assert {finding.rule.id for finding in decided(policy(INVALID), settings=settings).denials} == {"GA701"}
    unknown = decided(policy({"rules": [{"rule": "GA999", "severity": "warn"}]}), settings=settings)
    assert [(finding.rule.id, finding.severity, finding.exempt) for finding in unknown.findings] == [
        ("GA702", Severity.WARN, False)
    ]


def test_severities_and_exemptions_without_effect_are_reported():
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
        "spec.rules[0].rule: rule GA999 does not exist in this version, so its severity has no effect",
        "spec.rules[1].rule: settings cannot change GA701, so its severity stays deny",
        "spec.exemptions[0].from[0]: GA701 allows no exemptions, so this entry has no effect",
        "spec.exemptions[0].from[1]: no rule matches GA99* in this version, so this entry has no effect",
    ]


BESIDE = (
    "GA609 is found only beside a finding of GA601, GA602, GA603, GA604, GA605, GA606, GA610 or GA611, and none of them "
    "refuses anything; privileges alone are always admitted; set spec.access.mode: deny; to refuse privileged pods, enforce "
    "the Pod Security level baseline"
)
SHADOWED = "and the later entry wins; remove one of the two"
UNSCOPED = "is about objects without a namespace, so namespaces never match them; leave namespaces out"
WINS = "everywhere, which wins; remove the entries of spec.rules, or this setting"


def rules(*entries):
    return {"rules": [dict(zip(("rule", "severity", "namespaces"), entry, strict=False)) for entry in entries]}


def placement(**chosen):
    return {"placement": chosen}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (rules(("GA609", "deny")), f"spec.rules[0]: {BESIDE}"),
        (
            {"access": {"legacyRuntime": True}, **rules(("GA608", "warn"), ("GA610", "warn"))},
            f"spec.access.legacyRuntime: is true, but spec.rules sets GA608 and GA610 {WINS}",
        ),
        (
            rules(("GA411", "deny")),
            (
                "spec.rules[0]: GA411 finds nothing while spec.placement.avoidSharedGPUs is false; set "
                "spec.placement.avoidSharedGPUs: true, or remove the entry"
            ),
        ),
        (
            rules(("GA318", "deny")),
            (
                "spec.rules[0]: GA318 finds nothing while spec.conversion.allowPodOptOut is true; set "
                "spec.conversion.allowPodOptOut: false, or remove the entry"
            ),
        ),
        (
            rules(("GA307", "warn", ["team-a"]), ("GA307", "deny")),
            f"spec.rules[0]: rules[1] sets GA307 for the same namespaces, {SHADOWED}",
        ),
        (rules(("GA110", "warn", ["team-a"])), f"spec.rules[0].namespaces: GA110 {UNSCOPED}"),
        (
            rules(("GA302", "warn", ["kube-system", "gpu-operator"])),
            (
                "spec.rules[0].namespaces: GA302 finds nothing in kube-system and gpu-operator: no webhook is called for it; "
                "remove the entry"
            ),
        ),
        (
            {"conversion": {"nativeQuota": "warn"}, **rules(("GA312", "deny"))},
            f"spec.conversion.nativeQuota: is warn, but spec.rules sets GA312 {WINS}",
        ),
        (
            {**placement(unsatisfiable="deny"), **rules(("GA404", "warn"), ("GA313", "warn"))},
            f"spec.placement.unsatisfiable: is deny, but spec.rules sets GA313 and GA404 {WINS}",
        ),
        (
            placement(
                wishes=[{"wish": {"product": "H100*"}, "namespaces": ["team-a"]}, {"wish": {"product": "A100*"}}]
            ),
            f"spec.placement.wishes[0].wish.product: wishes[1] says product for the same namespaces, {SHADOWED}",
        ),
        (
            placement(wishes=[{"wish": {"family": "hopper"}, "namespaces": ["kube-system"]}]),
            (
                "spec.placement.wishes[0].namespaces: holds in kube-system only: no webhook is called for it; "
                "remove the entry"
            ),
        ),
        (
            placement(avoidSharedGPUs=True, wishes=[{"wish": {"sharing": "any"}}]),
            (
                "spec.placement.avoidSharedGPUs: is true, but wishes[0] says for every pod whether it takes shared GPUs; "
                "remove one of the two"
            ),
        ),
        (
            placement(tolerateGPUNodes="Always", tolerations=[{"key": "nvidia.com/gpu"}]),
            "spec.placement.tolerations[0]: every GPU pod tolerates it already; remove the entry",
        ),
        (
            placement(tolerations=[{"key": "sku"}, {"key": "sku", "value": "gpu", "namespaces": ["team-a"]}]),
            (
                "spec.placement.tolerations[1]: the pods that it is for tolerate it already, by tolerations[0]; "
                "remove one of the two"
            ),
        ),
        (
            {"access": {"mode": "deny", "exemptNamespaces": ["*"]}},
            (
                "spec.access.mode: is deny, but access.exemptNamespaces exempts every namespace; "
                'remove "*" from access.exemptNamespaces'
            ),
        ),
        (
            {"quota": {"exemptNamespaces": ["*"]}},
            'spec.quota.exemptNamespaces: exempts every namespace, so no GPUQuota limits anything; remove "*"',
        ),
        (
            {
                "quota": {
                    "weights": [
                        {"products": ["Tesla-T4"], "sharing": "mps", "gpus": "1/4"},
                        {"products": ["*"], "sharing": "mps", "gpus": "1/2"},
                    ]
                }
            },
            f"spec.quota.weights[0]: weights[1] is for the same products, {SHADOWED}",
        ),
        (
            {"exemptions": [{"from": ["GA11*"], "users": ["alice"], "namespaces": ["team-a"]}]},
            f"spec.exemptions[0].namespaces: GA11* {UNSCOPED}",
        ),
        (
            {"draDriver": {"featureGates": {"MPSSuport": True}}},
            "spec.draDriver.featureGates.MPSSuport: NVIDIA's DRA driver has no such gate; write MPSSupport",
        ),
        (
            {"draDriver": {"version": "latest"}},
            'spec.draDriver.version: is "latest", which is not a release; write one such as "25.8.0"',
        ),
    ],
)
def test_setting_that_changes_nothing_is_reported(spec, text):
    decision = decided(policy(spec))
    assert [f"{each.path}: {each.message}; {each.remedy}" for each in decision.findings] == [text]
    assert {(each.rule.id, each.severity) for each in decision.findings} == {("GA707", Severity.WARN)}


@pytest.mark.parametrize(
    "spec",
    [
        {"access": {"mode": "deny"}, **rules(("GA609", "deny"))},
        {"access": {"legacyRuntime": True}, **rules(("GA608", "audit"))},
        rules(("GA601", "deny", ["team-a"]), ("GA609", "deny")),
        rules(("GA609", "audit")),
        rules(("GA318", "off"), ("GA110", "warn"), ("GA110", "audit", [""])),
        {"conversion": {"allowPodOptOut": False}, **rules(("GA318", "deny"))},
        rules(("GA307", "deny"), ("GA307", "warn", ["team-a"])),
        {**placement(unsatisfiable="deny"), **rules(("GA404", "warn"))},
        {"conversion": {"unsatisfiable": "deny"}, **rules(("GA313", "warn", ["team-a"]))},
        placement(wishes=[{"wish": {"product": "H100*"}}, {"wish": {"product": "A100*"}, "namespaces": ["team-a"]}]),
        placement(tolerations=[{"key": "sku", "value": "gpu"}, {"key": "sku"}]),
        {"draDriver": {"featureGates": {"MPSSupport": True, "OfTomorrow": True}, "version": "25.8.0"}},
    ],
)
def test_settings_that_take_effect_are_not_reported(spec):
    assert decided(policy(spec)).findings == ()


def test_wish_for_a_product_that_does_not_exist_is_reported_with_one_that_does():
    decision = decided(policy(placement(wishes=[{"wish": {"product": "H10O*"}}])))
    assert decision.allowed
    assert [labelled_text(finding) for finding in decision.findings] == [
        'spec.placement.wishes[0].wish.product: "H10O*" names no GPU that is known; write "H100*" [GA405]'
    ]
    assert decided(policy(placement(wishes=[{"wish": {"product": "H100*"}}]))).findings == ()


def test_invalid_settings_can_be_deleted():
    assert decided(None, policy(INVALID), "DELETE").findings == ()


def test_finalizer_of_invalid_settings_can_be_taken_away():
    deleted = policy(INVALID, deletionTimestamp="2026-01-01T00:00:00Z")
    assert decided(deleted, {**deleted, "spec": {}}).allowed


def test_invalid_settings_can_be_labelled_and_are_reported():
    decision = decided(policy(INVALID, labels={"team": "a"}), policy(INVALID))
    assert decision.allowed
    assert {(finding.rule.id, finding.severity) for finding in decision.findings} == {("GA701", Severity.WARN)}


def test_settings_that_become_invalid_are_refused():
    assert not decided(policy(INVALID), policy({})).allowed


def test_invalid_settings_can_be_put_right():
    assert decided(policy({}), policy(INVALID)).findings == ()


@pytest.mark.parametrize("entry", ["", "configuration"])
def test_status_is_not_reviewed(entry):
    assert decided(policy(INVALID), policy({}), subresource="status", entry=entry).findings == ()


def test_settings_without_bottom_are_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    (finding,) = decided(policy({"rules": deep})).denials
    assert (
        plain_text(finding)
        == "spec: is nested more deeply than any setting; write only settings that docs/settings.md lists"
    )
    while deep:  # freeing it at once would take as many frames
        deep = deep.pop()


def test_kind_of_the_same_name_in_another_group_is_ignored():
    request = Request({"kind": "GPUAdmissionPolicy"}, group="example.com", kind="GPUAdmissionPolicy")
    assert review(request, ManifestsView(), DEFAULTS).findings == ()
