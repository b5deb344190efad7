"""Malformed objects in a file never break an audit."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.analyses.audit import AuditJSON, audit_json
from policies.kubernetes.objects import json_document

ODD = [None, 0, True, "x", "", [], {}, [None], ["x"], [{}], {"x": None}, {"x": {"y": []}}, [[]], 1.5]


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


@pytest.fixture(scope="module")
def documents(k8s):
    """One of each kind that an audit reads for itself."""
    pod = k8s.pod(owners=k8s.owner("ReplicaSet", "train"), annotations={"gpu-admission.io/product": "H100*"})
    pod["spec"]["volumes"] = [{"name": "kube-api-access-1"}, {"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "kube-api-access-1", "mountPath": "/x"}]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod["spec"]["affinity"] = {"nodeAffinity": required}
    pool = k8s.node_pool(limits={"nvidia.com/gpu": 8})
    pool["spec"]["template"]["spec"]["taints"] = [{"key": "nvidia.com/gpu"}]
    pool["spec"]["template"]["metadata"] = {"labels": {"a": "b"}}
    job = k8s.workload("Job") | {"status": {"conditions": [{"type": "Complete", "status": "False"}]}}
    claim = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}]}}
    return [
        pod,
        pool,
        job,
        k8s.workload("CronJob"),
        k8s.quota(),
        k8s.namespace(),
        k8s.thing("ResourceClaim", "c", "team-a", "resource.k8s.io/v1", spec=claim),
        k8s.thing("ResourceClaimTemplate", "t", "team-a", "resource.k8s.io/v1", spec={"spec": claim}),
        k8s.thing("Node", "n", labels={"nvidia.com/mig.config": "all-1g.10gb"}),
    ]


@given(data=st.data())
def test_odd_values_anywhere_are_no_mistake_of_ours(documents, audited, data):
    document = copy.deepcopy(data.draw(st.sampled_from(documents)))
    fixed = {("apiVersion",), ("kind",), (), ("metadata",), ("metadata", "labels")}
    path = data.draw(st.sampled_from([path for path in places(document) if path not in fixed]))
    parent = document
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
    others = [each for each in documents if each["kind"] != document["kind"]]
    json_document(audit_json(audited(document, *others)), AuditJSON)
