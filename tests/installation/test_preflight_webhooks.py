"""Webhooks and policies of others."""

import pytest

from policies.analyses.installation.engine_policies import engine_checks, engine_policies
from policies.analyses.installation.other_webhooks import LabelledNamespace, other_webhooks, webhook_checks
from tests.installation.planned_objects import texts

OURS = LabelledNamespace("gpu-admission", {"kubernetes.io/metadata.name": "gpu-admission"})
TEAM = LabelledNamespace("team-a", {"kubernetes.io/metadata.name": "team-a", "team": "a"})
PODS = {"app.kubernetes.io/name": "gpu-admission"}
NEW_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
EVERYTHING = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}


def configuration(name, *, rule=NEW_PODS, **fields):
    hook = {"name": f"{name}.example.com", "failurePolicy": "Fail", "rules": [rule], **fields}
    return {"metadata": {"name": name}, "webhooks": [hook]}


def checks_of(*mutating, validating=()):
    webhooks = [*other_webhooks(mutating, is_mutating=True), *other_webhooks(validating, is_mutating=False)]
    return [*webhook_checks(webhooks, OURS, PODS, [TEAM])]


GOOD = ("ok", "no webhook of others that fails closed is called for the objects of namespace gpu-admission")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ("warning", "mutating webhook x.example.com (x) is called for pods of namespace gpu-admission")),
        (
            {"rule": EVERYTHING},
            (
                "warning",
                "mutating webhook x.example.com (x) is called for pods, leases and secrets of namespace gpu-admission",
            ),
        ),
        ({"failurePolicy": "Ignore"}, GOOD),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, GOOD),
        ({"objectSelector": {"matchLabels": {"inject": "yes"}}}, GOOD),
        (
            {"matchConditions": [{"name": "a", "expression": "true"}]},
            (
                "warning",
                (
                    "mutating webhook x.example.com (x) is called for pods of namespace gpu-admission unless its "
                    "matchConditions exclude them"
                ),
            ),
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Near"}]}},
            ("warning", "mutating webhook x.example.com (x) is called for pods of namespace gpu-admission"),
        ),
    ],
)
def test_webhook_that_could_keep_us_from_starting_is_warned_about(fields, expected):
    found = [each for each in checks_of(configuration("x", **fields)) if "gpu-admission" in each.what]
    assert texts(found, "what") == [expected]


def test_webhook_on_what_we_write_for_tenants_is_warned_about():
    rule = {**EVERYTHING, "apiGroups": ["resource.k8s.io", "gpu-admission.io"]}
    found = checks_of(validating=[configuration("x", rule=rule)])
    assert texts(found, "what")[1] == (
        "warning",
        (
            "validating webhook x.example.com (x) is called for resourceclaimtemplates and gpuquotas/status of namespace team-a"
        ),
    )


def test_order_is_that_of_the_names_of_configurations():
    last = configuration("zz", reinvocationPolicy="IfNeeded", failurePolicy="Ignore")
    first = configuration("a", failurePolicy="Ignore")
    elsewhere = configuration("b", namespaceSelector={"matchLabels": {"team": "b"}})
    assert texts(checks_of(last, elsewhere, first)[-1:], "what") == [
        (
            "ok",
            (
                "2 mutating webhooks of others see the same pods: a.example.com (a), reinvocationPolicy Never before ours, "
                "zz.example.com (zz), reinvocationPolicy IfNeeded after ours"
            ),
        )
    ]


def test_own_webhooks_are_left_out():
    assert other_webhooks([configuration("gpu-admission")], is_mutating=True) == []


def built_in(kind="ValidatingAdmissionPolicy", name="rules", resources=("pods",), group="", expression="true"):
    rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE"], "resources": list(resources)}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def binding(name="rules", *actions, kind="ValidatingAdmissionPolicyBinding"):
    spec = {"policyName": name, **({"validationActions": list(actions)} if actions else {})}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def kyverno(*kinds, action="Enforce", pattern=None, **spec):
    rule = {"match": {"any": [{"resources": {"kinds": list(kinds)}}]}, "validate": {"pattern": pattern}}
    rule["validate"] |= {"failureAction": action} if action else {}
    head = {"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "rules"}}
    return {**head, "spec": {"rules": [rule], **spec}}


def constraint(*kinds, group="", **spec):
    head = {"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "K8sAllowed", "metadata": {"name": "rules"}}
    return {**head, "spec": {"match": {"kinds": [{"apiGroups": [group], "kinds": list(kinds)}]}, **spec}}


CLAIMS = {"group": "resource.k8s.io", "resources": ["resourceclaimtemplates"]}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([built_in(), binding("rules", "Deny")], [((), False)]),
        ([built_in()], []),
        ([built_in(), binding("rules", "Warn", "Audit")], []),
        (
            [built_in(name="namespace-labels.gpu-admission.io"), binding("namespace-labels.gpu-admission.io", "Deny")],
            [],
        ),
        ([built_in(**CLAIMS), binding("rules", "Deny")], [(("ResourceClaimTemplate",), False)]),
        ([built_in(expression='"nvidia.com/gpu" in x'), binding("rules", "Deny")], [((), True)]),
        (
            [built_in("MutatingAdmissionPolicy"), binding(kind="MutatingAdmissionPolicyBinding")],
            [((), False)],
        ),
        ([kyverno("Pod", pattern={"resourceClaims": "?*"})], [((), True)]),
        ([kyverno("resource.k8s.io/*/ResourceClaim*")], [(("ResourceClaimTemplate", "ResourceClaim"), False)]),
        ([kyverno("apps/v1/Deployment")], []),
        ([kyverno("*")], [(("ResourceClaimTemplate", "ResourceClaim", "Lease", "Secret"), False)]),
        ([kyverno("Pod", action="Audit")], []),
        ([kyverno("Pod", action=None)], []),
        ([kyverno("Pod", action=None, validationFailureAction="enforce")], [((), False)]),
        ([constraint("Pod")], [((), False)]),
        ([constraint("Lease", group="coordination.k8s.io")], [(("Lease",), False)]),
        ([constraint("Lease", group="*", enforcementAction="dryrun")], []),
        ([constraint("Ingress", group="networking.k8s.io")], []),
        ([{"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "x"}, "spec": {}}], []),
        (
            [{"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "x"}, "spec": {"rules": 1}}],
            [],
        ),
    ],
)
def test_policies_are_read_as_their_engines_read_them(objects, expected):
    assert [(each.runtime_kinds, each.mentions_gpus) for each in engine_policies(objects)] == expected


def test_policies_on_kinds_with_a_dry_run_are_known():
    policies = engine_policies([built_in(**CLAIMS), binding("rules", "Deny")])
    unknown = "it is unknown what ValidatingAdmissionPolicy rules would say about ResourceClaimTemplate"
    assert texts(engine_checks(policies, [], frozenset(), 40), "what") == [("unknown", unknown)]
    tried = frozenset({"ResourceClaimTemplate"})
    assert texts(engine_checks(policies, [], tried, 40), "what") == [
        ("ok", "the dry runs of 40 objects evaluated 1 policy of other engines")
    ]


def test_policies_that_may_not_be_listed_are_unknown():
    found = engine_checks([], ["clusterpolicies.kyverno.io"], frozenset(), 40)
    assert texts(found, "what", "why") == [
        (
            "unknown",
            "it is unknown which policies of other engines exist",
            "you may not list clusterpolicies.kyverno.io",
        )
    ]
