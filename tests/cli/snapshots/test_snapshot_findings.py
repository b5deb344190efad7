"""The audit of a snapshot's pods finds what the audit of the live pods finds."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.analyses.audit import Survey, audit
from policies.rules.settings import DEFAULTS, Access, GPUAdmissionPolicy
from tests.properties import examples
from tests.robustness.bypass.generated_pods import (
    CLAIMS,
    CLASSES,
    EPHEMERAL,
    NAMESPACES,
    NODES,
    PODS,
    POLICY,
    SLICES,
    TEMPLATES,
)
from webhook.cli.snapshots.reductions import reduction_of
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES

DENY = GPUAdmissionPolicy(access=Access(mode="deny"))


def findings(pods, objects, chosen):
    view = ManifestsView([*objects, *pods])
    survey = Survey(view, chosen)
    survey.add(pods)
    report = audit(view, chosen, survey)
    return [
        (each.rule.id, each.severity, each.name, str(each.path), each.message, each.count) for each in report.findings
    ]


def reduced(pod):
    return reduction_of(RESOURCES["Pod"])(pod)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(60))
@given(
    pods=st.lists(PODS | EPHEMERAL.map(lambda change: change[1]), min_size=1, max_size=3),
    namespace=NAMESPACES,
    classes=CLASSES,
    claims=CLAIMS,
    templates=TEMPLATES,
    chosen=st.sampled_from([DEFAULTS, DENY]),
    claimed=st.sampled_from([(), ("acme.com/accelerator",), ("nvidia.com/gpu", "acme.com/device")]),
)
def test_audit_of_reduced_pods_finds_what_that_of_whole_pods_finds(
    pods, namespace, classes, claims, templates, chosen, claimed
):
    mappings = [{"containerName": "c0", "resourceName": name, "requestName": "r"} for name in claimed]
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": mappings}}
    pods = [
        {**pod, "metadata": {**pod["metadata"], "name": f"train-{number}"}, "status": status}
        for number, pod in enumerate(pods)
    ]
    objects = [namespace, POLICY, *NODES, *SLICES, *classes, *claims, *templates]
    assert findings([reduced(pod) for pod in pods], objects, chosen) == findings(pods, objects, chosen)


@pytest.mark.parametrize("key", ["nvidia.cdi.k8s.io", "nvidia.cdi.k8s.io/pod", "cdi.k8s.io/any"])
def test_snapshot_keeps_annotations_by_which_pods_name_devices(key):
    pod = {"metadata": {"name": "a", "annotations": {key: "nvidia.com/gpu=all"}}, "spec": {}}
    assert reduced(pod)["metadata"]["annotations"] == {key: "nvidia.com/gpu=all"}
