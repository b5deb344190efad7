"""Opting in, in a cluster: the API server shows at the label what becomes of the workloads of the namespace."""

from __future__ import annotations

import pytest

from testbed import manifests
from testbed.waiting import until

DRA = "gpu-admission.io/dra"
COUNTED = "of this namespace request"


def labelled(cluster, team, value):
    return cluster.patch("Namespace", team, body={"metadata": {"labels": {DRA: value}}})


def test_label_says_how_many_workloads_would_be_refused_and_why(cluster):
    team = cluster.namespace()
    assert cluster.create(manifests.pod(team, "fits")).accepted
    assert cluster.create(manifests.pod(team, "stuck", nodeSelector={"nvidia.com/gpu.count": "8"})).accepted

    def look():
        answer = labelled(cluster, team, "enabled")
        assert answer.accepted
        labelled(cluster, team, None)
        said = " ".join(" ".join(answer.warnings).split())
        assert f"2 workloads {COUNTED} GPUs: 1 would be converted and 1 would be refused" in said
        assert "1 workload, such as Pod stuck, would be refused: spec.nodeSelector[nvidia.com/gpu.count]" in said
        return True

    until(look, "the webhook has seen both pods")


@pytest.mark.parametrize("label", ["team", "gpu-admission.io/quota"])
def test_other_label_of_a_namespace_costs_no_call(cluster, label):
    team = cluster.namespace(dra="enabled")
    value = "enforced" if "/" in label else "a"
    answer = cluster.patch("Namespace", team, body={"metadata": {"labels": {label: value}}})
    assert answer.accepted
    assert not any("GA339" in line or COUNTED in line for line in answer.warnings)
