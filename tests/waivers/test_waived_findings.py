"""Waived findings in decisions: they stay, warn nobody, and refusals are never among them."""

from dataclasses import replace

import pytest

from policies.admission import review
from policies.admission.all_rules import rule_book
from policies.rules.decision import MOST_FINDINGS, Decision, Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, RuleOverride
from policies.rules.waivers import once_per_cause, unmatched_waivers, with_waivers
from webhook.cluster.manifests import ManifestsView

WAIVER = "GA406 because another team reads it"
KINDS = {"Namespace": "v1", "Node": "v1", "ResourceSlice": "resource.k8s.io/v1", "DeviceClass": "resource.k8s.io/v1"}


def view(mode="disabled"):
    labels = {"gpu-admission.io/dra": mode}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-legacy", "labels": labels}}
    return ManifestsView([namespace])


def known(*kinds):
    return ManifestsView({"apiVersion": KINDS[kind], "kind": f"{kind}List", "items": []} for kind in kinds)


def found(document, settings=DEFAULTS, mode="disabled", **request):
    request = Request(document, namespace="team-legacy", **request)
    return review(request, view(mode), settings)


def with_severity(rule, severity):
    return GPUAdmissionPolicy(rules=(RuleOverride(rule, Severity(severity)),))


def said(decision):
    return [(each.rule.id, str(each.severity), each.waived) for each in decision.findings]


def test_waived_finding_stays_with_its_severity_and_the_reason(waiving):
    decision = found(waiving(WAIVER))
    assert said(decision) == [("GA406", "warn", "another team reads it")]


@pytest.mark.parametrize("entry", ["", "place-pods"])
def test_waived_finding_is_no_warning(waiving, entry):
    assert found(waiving(WAIVER), entry=entry).warnings == ()
    assert found(waiving("GA405 because x"), entry=entry).warnings != ()


def test_finding_that_is_only_audited_can_be_waived(waiving):
    decision = found(waiving(WAIVER), with_severity("GA406", "audit"))
    assert said(decision) == [("GA406", "audit", "another team reads it")]


def test_waivers_are_in_the_audit_log_as_they_are_written(waiving):
    assert found(waiving(WAIVER)).audit_annotations == {
        "findings": "GA406=warn",
        "waived": "GA406 because another team reads it",
    }


def test_refusal_is_not_waived(waiving):
    decision = found(waiving(WAIVER), with_severity("GA406", "deny"))
    assert not decision.allowed
    assert said(decision) == [("GA406", "deny", ""), ("GA708", "warn", "")]
    assert decision.findings[1].text == (
        "Correct what GA406 reports, and remove GA406 here: GA406 is a refusal and cannot be ignored; "
        "metadata.annotations[gpu-admission.io/ignore]"
    )


def test_refusal_in_a_preview_is_not_waived(waiving):
    decision = found(waiving("GA302 because x; GA406 because x", gpus="0.5"), mode="preview")
    assert ("GA302", "warn", "") in said(decision)
    assert ("GA708", "warn", "") in said(decision)


def workload(waiver, template):
    metadata = {"name": "train", "namespace": "team-legacy", "annotations": {"gpu-admission.io/ignore": waiver}}
    spec = {"template": {"metadata": {"annotations": template["metadata"]["annotations"]}, "spec": template["spec"]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def of_workload(document, settings=DEFAULTS):
    return found(document, settings, group="apps", kind="Deployment", entry="workloads")


def test_workload_waives_findings_on_its_pods(waiving):
    decision = of_workload(workload(WAIVER, waiving("")))
    assert said(decision) == [("GA406", "warn", "another team reads it")]


def test_pod_template_waives_findings_on_its_pods(waiving):
    decision = of_workload(workload("", waiving(WAIVER)))
    assert said(decision) == [("GA406", "warn", "another team reads it")]


def test_workload_does_not_waive_refusals_of_its_pods(waiving):
    decision = of_workload(workload(WAIVER, waiving("")), with_severity("GA406", "deny"))
    assert decision.findings[0].message.startswith("its pods would be refused: ")
    assert said(decision) == [("GA406", "warn", ""), ("GA708", "warn", "")]


def test_invalid_waiver_of_a_pod_template_has_its_place_in_the_workload(waiving):
    decision = of_workload(workload("", waiving("GA405")))
    (invalid,) = (each for each in decision.findings if each.rule.id == "GA708")
    assert str(invalid.path) == "spec.template.metadata.annotations[gpu-admission.io/ignore]"


@pytest.mark.parametrize("severity", ["deny", "warn", "audit", "off"])
def test_settings_decide_the_severity_of_invalid_waivers(waiving, severity):
    decision = found(waiving("GA999 because x"), with_severity("GA708", severity))
    severities = [str(each.severity) for each in decision.findings if each.rule.id == "GA708"]
    assert severities == ([] if severity == "off" else [severity])


def test_second_review_adds_nothing(waiving):
    request = Request(waiving(f"{WAIVER}; GA999 because x"), namespace="team-legacy")
    once = review(request, view(), DEFAULTS).findings
    assert with_waivers(once, request, DEFAULTS, rule_book()) == once


def test_waived_finding_does_not_stand_for_the_same_one_on_another_object():
    shared = rule_book().get("GA324").finding((), "namespace unknown")
    waived = replace(shared, waived="x")
    assert once_per_cause([[waived], [shared]], "object") == [(waived,), (shared,)]


def test_waived_findings_that_are_left_out_are_no_warning(waiving):
    many = tuple(rule_book().get("GA406").finding((), str(number)) for number in range(MOST_FINDINGS + 10))
    request = Request(waiving(WAIVER))
    assert Decision(findings=with_waivers(many, request, DEFAULTS, rule_book())).limit_findings().warnings == ()


def test_waived_mistake_of_a_config_map_does_not_say_who_uses_it():
    data = {"config.yaml": "version: v1\nflags: {migStrategy: none}\nsharing: {}\nunknown: 1\n"}
    metadata = {"name": "plugin", "namespace": "gpu-operator", "annotations": {}}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    policy = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "policy"},
        "spec": {"devicePlugin": {"config": {"name": "plugin"}}},
    }
    request = Request(document, kind="ConfigMap", namespace="gpu-operator", name="plugin", entry="configuration")
    rules = {each.rule.id for each in review(request, ManifestsView([policy]), DEFAULTS).findings}
    settings = GPUAdmissionPolicy(rules=tuple(RuleOverride(rule, Severity.WARN) for rule in rules))
    assert review(request, ManifestsView([policy]), settings).remarks
    metadata["annotations"]["gpu-admission.io/ignore"] = "; ".join(f"{rule} because x" for rule in rules)
    assert review(request, ManifestsView([policy]), settings).warnings == ()


def unmatched(waivers, cluster, settings=DEFAULTS):
    document = {"metadata": {"annotations": {"gpu-admission.io/ignore": waivers}}}
    return [
        (each.rule.id, str(each.severity), each.message)
        for each in unmatched_waivers((), Request(document, namespace="team-a"), cluster, settings, rule_book())
    ]


def test_waiver_that_matches_nothing_is_reported():
    assert unmatched("GA405 because x", known(*KINDS)) == [("GA709", "warn", "GA405 matches no finding")]


def test_waiver_may_match_in_a_cluster_that_the_review_does_not_know():
    expected = "GA405 matches no finding, but this review has no objects of kind ResourceSlice and DeviceClass"
    assert unmatched("GA405 because x", known("Namespace", "Node")) == [("GA709", "audit", expected)]


def test_unmatched_waiver_of_a_rule_that_denies_is_invalid():
    expected = [("GA708", "warn", "GA405 is a refusal and cannot be ignored")]
    assert unmatched("GA405 because x", known(), with_severity("GA405", "deny")) == expected


def test_objects_are_not_searched_for_gpus_by_their_waivers():
    metadata = {"name": "m", "annotations": {"gpu-admission.io/ignore": "GA405 because of nvidia.com/gpu"}}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    decision = review(Request(document, kind="ConfigMap", namespace="team-a"), view(), DEFAULTS)
    assert decision.findings == ()
