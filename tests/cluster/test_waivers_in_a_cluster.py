"""Waivers in a cluster: the author of a waived finding gets no warning, and a waiver alone costs no call."""

import pytest

from testbed import manifests

UNKNOWN = {"gpu-admission.io/owner": "me"}
"""An annotation that GA406 warns about."""
WAIVER = {"gpu-admission.io/ignore": "GA406 because another team reads it"}


def annotated(team, annotations, **spec):
    document = manifests.pod(team, **spec)
    document["metadata"]["annotations"] = annotations
    return document


@pytest.mark.parametrize(("annotations", "is_warned"), [(UNKNOWN, True), (UNKNOWN | WAIVER, False)])
def test_waived_finding_is_no_warning(cluster, annotations, is_warned):
    answer = cluster.create(annotated(cluster.namespace(), annotations))
    assert answer.accepted
    assert any("[GA406]" in line for line in answer.warnings) is is_warned


def test_refusal_that_is_waived_stays_and_says_so(cluster):
    waiver = {"gpu-admission.io/ignore": "GA307 because x"}
    selector = {"nvidia.com/gpu.count": "2"}
    answer = cluster.create(annotated(cluster.namespace(dra="enabled"), waiver, nodeSelector=selector))
    assert not answer.accepted
    assert any("GA307 is a refusal and cannot be ignored" in line for line in answer.warnings)


def test_pod_with_only_a_waiver_costs_no_call(cluster):
    document = annotated(cluster.namespace(), {"gpu-admission.io/ignore": "GA406"})
    document["spec"]["containers"][0]["resources"] = {}
    assert cluster.create(document).warnings == ()
