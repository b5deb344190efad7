"""The step from the installed version to the manifests, and its owners."""

import pytest

from policies.analyses.installation.preflight import KNOWN_WEBHOOKS
from policies.analyses.installation.steps import step_checks, step_of, storage_checks
from policies.kubernetes.view import UNKNOWN
from testbed.webhook_configurations import current_configurations
from tests.installation.planned_objects import planned, texts

MUTATING, VALIDATING = current_configurations()


def deployment(tag, installed=None, **metadata):
    template = {"spec": {"containers": [{"image": f"registry.example:5000/gpu-admission{tag}"}]}}
    stored = None
    if installed is not None:
        image = {"spec": {"containers": [{"image": f"gpu-admission{installed}"}]}}
        stored = {"kind": "Deployment", "metadata": metadata, "spec": {"template": image}}
    return planned("Deployment", "gpu-admission", "gpu-admission", stored=stored, spec={"template": template})


def configurations(stored=(None, None)):
    return [
        planned(each["kind"], "gpu-admission", stored=before, webhooks=each["webhooks"])
        for each, before in zip((MUTATING, VALIDATING), stored, strict=True)
    ]


def checks_of(objects):
    return [*step_checks(objects, step_of(objects), KNOWN_WEBHOOKS)]


@pytest.mark.parametrize(
    ("installed", "tag", "status", "what"),
    [
        (None, ":0.1.0", "ok", "gpu-admission is not installed; the manifests have 0.1.0"),
        (":0.1.0", ":0.1.0", "ok", "applying 0.1.0 again is supported"),
        (":0.1.0", ":v0.1.3", "ok", "upgrading from 0.1.0 to 0.1.3 is supported"),
        (":0.1.9", ":0.2.0", "ok", "upgrading from 0.1.9 to 0.2.0 is supported"),
        (":0.1.0", ":0.3.0", "failing", "upgrading from 0.1.0 to 0.3.0 is not supported"),
        (":0.9.0", ":1.0.0", "ok", "upgrading from 0.9.0 to 1.0.0 is supported"),
        (":0.9.0", ":1.1.0", "failing", "upgrading from 0.9.0 to 1.1.0 is not supported"),
        (":0.2.0", ":0.1.0", "warning", "going back from 0.2.0 to 0.1.0: the order of the steps is reversed"),
        (":0.3.0", ":0.1.0", "failing", "going back from 0.3.0 to 0.1.0 is not supported"),
        (":latest", ":0.1.0", "unknown", "it is unknown which step this is"),
        (":0.1.0", "@sha256:00", "unknown", "it is unknown which step this is"),
        (":latest", ":latest", "unknown", "it is unknown which step this is"),
    ],
)
def test_step_of_one_release_is_supported(installed, tag, status, what):
    stored = (None, None) if installed is None else (MUTATING, VALIDATING)
    found = checks_of([deployment(tag, installed), *configurations(stored)])
    assert texts(found, "what") == [(status, what)]


def test_unknown_installed_webhooks_are_failing():
    newer = {**MUTATING, "webhooks": [{"name": "share-pods.gpu-admission.io"}]}
    (found,) = checks_of([deployment(":0.1.0", ":0.1.0"), *configurations((newer, VALIDATING))])
    assert (found.status, found.why) == (
        "failing",
        "the installed webhooks share-pods.gpu-admission.io are unknown to this version, so their calls would fail",
    )


def test_manifests_of_another_version_than_the_command_are_unknown():
    other = planned("MutatingWebhookConfiguration", "gpu-admission", webhooks=[{"name": "share-pods.gpu-admission.io"}])
    found = checks_of([deployment(":0.2.0"), other])
    assert texts(found, "what")[0] == ("unknown", "the manifests are of another version than this command")


HELM = {"annotations": {"meta.helm.sh/release-name": "gpus"}}


@pytest.mark.parametrize(
    ("metadata", "labels", "expected"),
    [
        ({}, {}, []),
        (HELM, {}, [("warning", "the installed objects belong to the Helm release gpus")]),
        (HELM, {"app.kubernetes.io/managed-by": "Helm"}, []),
        (
            {},
            {"app.kubernetes.io/managed-by": "Helm"},
            [("failing", "Helm would not take over Deployment gpu-admission/gpu-admission")],
        ),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}, {}, [("warning", "Flux manages installed objects")]),
        (
            {"annotations": {"argocd.argoproj.io/tracking-id": "x"}},
            {},
            [("warning", "Argo CD manages installed objects")],
        ),
    ],
)
def test_other_owners_of_installed_objects_are_named(metadata, labels, expected):
    found = deployment(":0.1.0", ":0.1.0", **metadata)
    found.document["metadata"]["labels"] = labels
    assert texts(checks_of([found])[1:], "what") == expected


CHART = {"annotations": {"helm.sh/resource-policy": "keep"}}


def test_webhooks_that_a_hook_of_the_chart_applies_have_no_owner():
    crd = planned("CustomResourceDefinition", "gpuquotas.gpu-admission.io", stored={"metadata": HELM})
    crd.document["metadata"] |= CHART
    found = checks_of([deployment(":0.1.0", ":0.1.0", **HELM), crd, *configurations((MUTATING, VALIDATING))])
    assert texts(found, "what") == [("ok", "applying 0.1.0 again is supported")]


def definition(*versions, stored=(), conversion=None):
    spec = {"versions": [{"name": name} for name in versions]}
    status = {"storedVersions": list(stored)}
    installed = {"spec": {"conversion": {"strategy": conversion or "None"}}, "status": status}
    return planned("CustomResourceDefinition", "gpuquotas.gpu-admission.io", stored=installed, spec=spec)


@pytest.mark.parametrize(
    ("crd", "expected"),
    [
        (
            definition("v1alpha1", stored=["v1alpha1"]),
            ("ok", "no object is stored in a version that the manifests lack"),
        ),
        (
            definition("v1alpha1", stored=["v1alpha1", "v1beta1"]),
            ("failing", "CustomResourceDefinition gpuquotas.gpu-admission.io would lose the version v1beta1"),
        ),
        (
            definition("v1alpha1", stored=["v1alpha1"], conversion="Webhook"),
            ("warning", "CustomResourceDefinition gpuquotas.gpu-admission.io is converted by a webhook"),
        ),
    ],
)
def test_versions_of_stored_objects_are_kept(crd, expected):
    assert texts(storage_checks([crd]), "what") == [expected]


def test_version_that_may_not_be_read_is_unknown():
    hidden = planned("Deployment", "gpu-admission", "gpu-admission", stored=UNKNOWN)
    found = checks_of([hidden, *configurations((UNKNOWN, UNKNOWN))])
    assert texts(found, "what") == [("unknown", "it is unknown which version is installed")]


def test_stored_versions_that_may_not_be_read_are_unknown():
    hidden = planned("CustomResourceDefinition", "gpuquotas.gpu-admission.io", stored=UNKNOWN)
    assert texts(storage_checks([hidden]), "what") == [
        ("unknown", "it is unknown in which versions objects are stored")
    ]
