"""Workload kinds in the settings: mistakes, and settings that the installed webhooks do not cover."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from policies.admission.installed import opened_webhooks, uncovered_settings
from policies.rules.settings import DEFAULTS, SettingsError, parse_settings
from testbed import libyaml
from tests.findings import unplaced_text

KIND = {"group": "example.com", "kind": "TrainingRun", "templates": ["spec.workers[*].template"]}
REMEDY = "Set settings.spec of the Helm chart, or apply manifests that deploy/render.py --settings FILE renders"


def policy(**spec):
    head = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "metadata": {"name": "default"}}
    return {**head, "spec": spec}


def problems(**changes):
    """What is said of one kind, by its field."""
    with pytest.raises(SettingsError) as refused:
        parse_settings(policy(workloads={"kinds": [{**KIND, **changes}]}))
    prefix = "spec.workloads.kinds[0]."
    return {str(each.path).removeprefix(prefix): unplaced_text(each) for each in refused.value.problems}


def test_kind_is_read_with_its_paths():
    (kind,) = parse_settings(
        policy(workloads={"kinds": [{**KIND, "counts": ["spec.workers[*].size"]}]})
    ).workloads.kinds
    assert (kind.templates, kind.counts) == (("spec.workers[*].template",), ("spec.workers[*].size",))


@pytest.mark.parametrize(
    ("kind", "resource", "plural"),
    [("TrainingRun", "", "trainingruns"), ("Policy", "", "policies"), ("Mouse", "mice", "mice")],
)
def test_resource_is_the_plural_of_the_kind_if_not_named(kind, resource, plural):
    (read,) = parse_settings(
        policy(workloads={"kinds": [{**KIND, "kind": kind, "resource": resource or "x"}]})
    ).workloads.kinds
    assert read.resource == (resource or "x")
    (read,) = parse_settings(
        policy(workloads={"kinds": [{**KIND, "kind": kind} | ({"resource": resource} if resource else {})]})
    ).workloads.kinds
    assert read.plural == plural


@pytest.mark.parametrize(
    "path", ["$.spec.template", ".spec.template", "spec.workers[0].template", "spec..template", ""]
)
def test_path_in_another_spelling_is_refused_with_the_right_one(path):
    assert problems(templates=[path]) == {
        "templates[0]": f'is "{path}"; write a path such as spec.template or spec.workers[*].template'
    }


def test_kind_without_templates_is_refused():
    assert problems(templates=[]) == {
        "templates": "is empty; write where the pod templates are, such as [spec.template]"
    }


def test_count_that_multiplies_nothing_is_refused():
    assert problems(counts=["spec.head.replicas"]) == {
        "counts[0]": 'is "spec.head.replicas", and no template is in spec.head or below it, so it counts nothing; remove it'
    }


@pytest.mark.parametrize(
    ("field", "text", "wanted"),
    [
        ("group", "apps", "the API group of a custom resource, such as example.com"),
        ("kind", "trainingrun", "the kind as objects spell it, such as TrainingRun"),
        ("resource", "TrainingRuns", "the plural as kubectl api-resources lists it, such as trainingruns"),
    ],
)
def test_word_in_another_spelling_is_refused(field, text, wanted):
    assert problems(**{field: text}) == {field: f'is "{text}"; write {wanted}'}


@pytest.fixture(scope="module")
def installed():
    """The webhook configurations as far as settings concern them."""

    def webhook(entry, names, **more):
        terms = [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": names}]
        return {"name": f"{entry}.gpu-admission.io", "namespaceSelector": {"matchExpressions": terms}, **more}

    ours = ["kube-system", "gpu-admission"]
    operator, driver = ["gpu-operator", "nvidia-gpu-operator"], ["nvidia-dra-driver-gpu", "dra-driver-nvidia-gpu"]
    condition = {"name": "ours", "expression": 'o.metadata.namespace in ["gpu-operator", "nvidia-gpu-operator"]'}
    return [
        {"webhooks": [webhook("convert-pods", [*ours, *operator, *driver])]},
        {
            "webhooks": [
                webhook("enforce-quota", [*ours, *operator, *driver]),
                webhook("workloads", ours, rules=[{"apiGroups": ["apps"], "resources": ["deployments"]}]),
                webhook("configuration", ours, matchConditions=[condition]),
            ]
        },
    ]


def said(installed, **spec):
    return [each.text for each in uncovered_settings(installed, parse_settings(policy(**spec)))]


def test_webhooks_of_the_manifests_are_not_opened():
    folder = Path(__file__).parents[2] / "deploy" / "base" / "webhooks"
    stored = [libyaml.load(file.read_text()) for file in folder.glob("*ing.yaml")]
    assert len(stored) == 2
    assert [*opened_webhooks(stored)] == []


def test_webhooks_that_were_opened_in_an_emergency_are_named():
    names = ("convert-pods", "check-pods", "enforce-quota")
    installed = [{"webhooks": [{"name": f"{name}.gpu-admission.io", "failurePolicy": "Ignore"} for name in names]}]
    (said,) = opened_webhooks(installed)
    assert said.startswith(
        "failurePolicy of convert-pods.gpu-admission.io, enforce-quota.gpu-admission.io is Ignore, so pods"
    )


def test_defaults_are_covered(installed):
    assert [*uncovered_settings(installed, DEFAULTS)] == []


def test_kind_without_a_rule_is_named(installed):
    assert said(installed, workloads={"kinds": [KIND]}) == [
        (
            f"{REMEDY}: no rule of webhook workloads.gpu-admission.io matches trainingruns.example.com, so their authors get no "
            "warnings; spec.workloads.kinds[0]"
        )
    ]


def test_kind_with_a_rule_is_covered(installed):
    configured = copy.deepcopy(installed)
    configured[1]["webhooks"][1]["rules"].append({"apiGroups": ["example.com"], "resources": ["trainingruns"]})
    assert said(configured, workloads={"kinds": [KIND]}) == []


def test_namespace_that_a_setting_exempts_is_named_with_its_webhooks(installed):
    assert said(installed, quota={"exemptNamespaces": ["gpu-admission", "ci", "mon-*"]}) == [
        f"{REMEDY}: namespace ci is exempt, but still matched by webhook enforce-quota.gpu-admission.io; spec.quota.exemptNamespaces",
        (
            f"{REMEDY}: namespace dra-driver-nvidia-gpu is not exempt, but the selector of webhook enforce-quota.gpu-admission.io "
            "excludes it; spec.quota.exemptNamespaces"
        ),
        (
            f"{REMEDY}: namespace nvidia-dra-driver-gpu is not exempt, but the selector of webhook enforce-quota.gpu-admission.io "
            "excludes it; spec.quota.exemptNamespaces"
        ),
    ]


def test_operator_namespace_is_named_once_for_all_webhooks(installed):
    namespaces = ["gpu-operator", "nvidia-gpu-operator", "nvidia"]
    assert said(installed, configuration={"operatorNamespaces": namespaces}) == [
        (
            f"{REMEDY}: namespace nvidia is exempt, but still matched by webhooks convert-pods.gpu-admission.io, "
            "enforce-quota.gpu-admission.io; spec.configuration.operatorNamespaces"
        ),
        f"{REMEDY}: ConfigMaps of namespace nvidia are not reviewed in the cluster; spec.configuration.operatorNamespaces",
    ]


def test_nothing_installed_leaves_nothing_to_compare():
    assert said([], workloads={"kinds": [KIND]}, configuration={"operatorNamespaces": ["nvidia"]}) == []
