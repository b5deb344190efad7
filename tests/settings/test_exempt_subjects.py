"""Exemptions of users and groups, whose every use is visible."""

import pytest

from policies.admission import review
from policies.admission.all_rules import rule_book
from policies.kubernetes.objects import FieldPath
from policies.rules.decision import Decision, Finding, Severity
from policies.rules.request import Request, UserInfo
from policies.rules.settings import DEFAULTS, Exemption, GPUAdmissionPolicy, SettingsError, parse_settings, settings_for
from tests.findings import unplaced_text
from webhook.cluster.manifests import ManifestsView

ALICE = UserInfo("alice", ("system:authenticated", "gpu-admins"))
DEPLOYER = UserInfo("system:serviceaccount:ci:deployer-7", ("system:serviceaccounts",))
NO_USER = "exempts no user; name users in users, groups or serviceAccounts"


def policy(*exemptions, **fields):
    return GPUAdmissionPolicy(exemptions=exemptions, **fields)


def judged(settings, *severities, rule="GA307", user=ALICE, namespace="team-a"):
    findings = [Finding(rule_book().get(rule), severity, FieldPath(), "is wrong", "") for severity in severities]
    return settings_for(user, namespace, settings).judge(findings, namespace)


def document(*exemptions):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
        "spec": {"exemptions": list(exemptions)},
    }


def problems(*exemptions):
    with pytest.raises(SettingsError) as refusal:
        parse_settings(document(*exemptions))
    return [(str(each.path), unplaced_text(each)) for each in refusal.value.problems]


def test_settings_without_exemptions_are_the_same_for_every_user():
    assert settings_for(ALICE, "team-a", DEFAULTS) is DEFAULTS


@pytest.mark.parametrize(
    ("exemption", "user"),
    [
        (Exemption(("GA307",), users=("alice",)), ALICE),
        (Exemption(("GA307",), users=("bob", "ali*")), ALICE),
        (Exemption(("GA307",), groups=("gpu-*",)), ALICE),
        (Exemption(("GA307",), service_accounts=("ci/deployer-*",)), DEPLOYER),
        (Exemption(("GA307",), users=("system:serviceaccount:ci:*",)), DEPLOYER),
        (Exemption(("GA3*",), users=("alice",)), ALICE),
        (Exemption(("GA601", "GA*"), users=("alice",)), ALICE),
        (Exemption(("GA307",), users=("alice",), namespaces=("team-*",)), ALICE),
    ],
)
def test_who_is_exempt_is_spared(exemption, user):
    (finding,) = judged(policy(exemption), Severity.DENY, user=user)
    assert (finding.severity, finding.exempt) == (Severity.AUDIT, True)


@pytest.mark.parametrize(
    ("exemption", "user"),
    [
        (Exemption(("GA307",), users=("bob",)), ALICE),
        (Exemption(("GA307",), groups=("alice",)), ALICE),
        (Exemption(("GA307",), service_accounts=("ci/deployer",)), DEPLOYER),
        (Exemption(("GA307",), service_accounts=("*/*",)), ALICE),
        (Exemption(("GA308", "GA6*", "access", "conversion"), users=("alice",)), ALICE),
        (Exemption(("GA307",), users=("alice",), namespaces=("prod",)), ALICE),
        (Exemption(("GA307",), users=("*",), groups=("*",)), UserInfo()),
    ],
)
def test_other_users_are_not_exempt(exemption, user):
    (finding,) = judged(policy(exemption), Severity.DENY, user=user)
    assert (finding.severity, finding.exempt) == (Severity.DENY, False)


def test_access_is_the_rules_on_access():
    (finding,) = judged(policy(Exemption(("access",), users=("alice",))), Severity.WARN, rule="GA603")
    assert finding.exempt


def test_what_is_audited_or_off_anyway_is_no_use_of_an_exemption():
    settings = policy(Exemption(("GA307",), users=("alice",)))
    assert [finding.exempt for finding in judged(settings, Severity.AUDIT, Severity.OFF)] == [False]


def test_uses_are_in_the_audit_annotations():
    exempt = [
        Finding(rule_book().get(rule), Severity.AUDIT, FieldPath(), "is wrong", "", exempt=True)
        for rule in ("GA601", "GA307", "GA601")
    ]
    annotations = Decision(findings=tuple(exempt)).audit_annotations
    assert annotations == {"findings": "GA601=audit, GA307=audit, GA601=audit", "exempt": "GA307, GA601"}


def test_pod_of_who_is_exempt_from_conversion_is_placed_and_not_converted():
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "a", "labels": {"gpu-admission.io/dra": "enabled"}},
    }
    gpu = {"nvidia.com/gpu": "1"}
    pod = {"spec": {"containers": [{"name": "a", "resources": {"limits": gpu, "requests": gpu}}]}}
    settings = policy(Exemption(("conversion",), users=("alice",)))
    request = Request(pod, namespace="a", user=ALICE, entry="convert-pods")
    decision = review(request, ManifestsView([namespace]), settings)
    assert [each["path"] for each in decision.patch] == ["/spec/tolerations"]
    assert decision.audit_annotations["exempt"] == "GA334"


def test_author_of_a_workload_is_not_who_creates_its_pods():
    gpu = {"nvidia.com/gpu": "0.5"}
    pod = {"spec": {"containers": [{"name": "a", "resources": {"limits": gpu, "requests": gpu}}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": pod}}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "a", "labels": {"gpu-admission.io/dra": "enabled"}},
    }
    settings = policy(Exemption(("GA3*", "conversion"), users=("alice",)))
    request = Request(job, group="batch", kind="Job", namespace="a", user=ALICE, entry="workloads")
    assert any("GA302" in line for line in review(request, ManifestsView([namespace]), settings).warnings)


def test_exemptions_are_read():
    read = parse_settings(
        document(
            {"users": ["alice"], "from": ["conversion", "access", "GA307", "GA4*"]},
            {"groups": ["g"], "serviceAccounts": ["ci/*"], "from": ["access"], "namespaces": ["ci-*"]},
        )
    )
    assert read.exemptions == (
        Exemption(("conversion", "access", "GA307", "GA4*"), users=("alice",)),
        Exemption(("access",), groups=("g",), service_accounts=("ci/*",), namespaces=("ci-*",)),
    )


@pytest.mark.parametrize(
    ("exemption", "said"),
    [
        ({"from": ["access"]}, [("spec.exemptions[0]", NO_USER)]),
        ({"from": ["access"], "users": []}, [("spec.exemptions[0]", NO_USER)]),
        ({"users": ["a"]}, [("spec.exemptions[0].from", "is missing; write it")]),
        (
            {"users": ["a"], "from": []},
            [
                (
                    "spec.exemptions[0].from",
                    "is empty, so it exempts from nothing; write conversion, access, or rules, such as [GA307]",
                )
            ],
        ),
        (
            {"users": ["a"], "from": ["GA3", "convert"]},
            [
                ("spec.exemptions[0].from[0]", 'is "GA3"; write conversion, access, or rules such as GA307 or GA6*'),
                (
                    "spec.exemptions[0].from[1]",
                    'is "convert"; write conversion, access, or rules such as GA307 or GA6*',
                ),
            ],
        ),
        (
            {"serviceAccounts": ["system:serviceaccount:ci:bot"], "from": ["access"]},
            [
                (
                    "spec.exemptions[0].serviceAccounts[0]",
                    'is "system:serviceaccount:ci:bot"; write "ci/bot"',
                )
            ],
        ),
        (
            {"users": ["a"], "from": ["access"], "namespaces": []},
            [("spec.exemptions[0].namespaces", "is empty; remove it to mean every namespace")],
        ),
    ],
)
def test_exemption_that_means_nothing_is_refused(exemption, said):
    assert problems(exemption) == said
