"""Quotas and NodePools that conversion affects, nodes with two drivers, and unknown facts."""

from __future__ import annotations

import pytest

from policies.analyses.audit import audit, surveyed_kinds
from policies.rules.decision import Severity
from policies.rules.settings import DEFAULTS


def test_quota_that_is_switched_off_is_reported(k8s, audited):
    (finding,) = audited(k8s.namespace(), k8s.quota()).findings
    assert (finding.rule.id, finding.severity, finding.kind, finding.name) == (
        "GA312",
        Severity.DENY,
        "ResourceQuota",
        "gpus",
    )
    assert str(finding.path) == "spec.hard[requests.nvidia.com/gpu]"
    assert finding.message == (
        'is "8", and does not count the claims of converted pods (DeviceClass "gpu.nvidia.com"); '
        "the namespace converts, so the quota is switched off"
    )


@pytest.mark.parametrize("mode", ["", "preview"])
def test_quota_that_opting_in_would_switch_off_is_worth_knowing(k8s, audited, mode):
    (finding,) = audited(k8s.namespace(mode=mode), k8s.quota()).findings
    assert finding.severity is Severity.AUDIT
    assert finding.message.endswith("opting the namespace in would switch the quota off")


def test_quota_on_other_resources_is_not_reported(k8s, audited):
    assert audited(k8s.namespace(), k8s.quota(**{"requests.cpu": "8"})).findings == ()


def test_quota_that_the_class_keeps_counting_is_not_reported(k8s, audited):
    counting = k8s.device_class(extendedResourceName="nvidia.com/gpu")
    base = ({"serverVersion": {"gitVersion": "v1.36.0"}}, counting, k8s.gpu_node())
    assert audited(k8s.namespace(), k8s.quota(), base=base).findings == ()


def test_quota_stays_where_pods_stay_as_they_are(k8s, audited):
    namespace = k8s.namespace(**{"gpu-admission.io/dra-strategy": "leave"})
    assert audited(namespace, k8s.quota()).findings == ()


def test_pool_of_gpu_nodes_is_a_warning_where_namespaces_convert(k8s, audited):
    namespaces = [k8s.namespace(f"team-{letter}") for letter in "abcde"]
    (finding,) = audited(*namespaces, k8s.node_pool()).findings
    assert (finding.rule.id, finding.severity, finding.kind, finding.name) == (
        "karpenter",
        Severity.WARN,
        "NodePool",
        "gpus",
    )
    assert finding.message == (
        "creates GPU nodes; Karpenter creates no nodes for pods with claims unless its support of DRA, which is alpha, is on; "
        "namespaces that convert: team-a, team-b, team-c and 2 more"
    )


def test_pool_of_gpu_nodes_is_worth_knowing_before_namespaces_convert(k8s, audited):
    (finding,) = audited(k8s.namespace(mode=""), k8s.node_pool()).findings
    assert finding.severity is Severity.AUDIT
    assert finding.message.endswith("is on; no namespace converts yet")


def test_pool_that_names_no_gpus_is_worth_knowing(k8s, audited):
    (finding,) = audited(k8s.namespace(), k8s.node_pool(key="kubernetes.io/arch")).findings
    assert finding.severity is Severity.AUDIT
    assert finding.message.startswith(
        "does not mention GPUs, but may create GPU nodes; Karpenter creates no nodes for pods"
    )


def test_static_pool_has_its_nodes_whatever_pods_request(k8s, audited):
    assert audited(k8s.namespace(), k8s.node_pool(replicas=3)).findings == ()


@pytest.mark.parametrize(("version", "severities"), [("v1.35.0", [Severity.WARN]), ("v1.36.0", [])])
def test_pool_of_auto_mode_is_reported_where_it_ignores_claims(k8s, audited, version, severities):
    pool = k8s.node_pool()
    pool["spec"]["template"]["spec"]["nodeClassRef"] = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "a"}
    base = ({"serverVersion": {"gitVersion": version}}, *k8s.BASE[1:])
    found = audited(k8s.namespace(), pool, base=base).findings
    assert [each.severity for each in found] == severities


def test_pool_of_another_group_is_not_karpenters(k8s, audited):
    pool = k8s.node_pool() | {"apiVersion": "container.example.com/v1"}
    assert audited(k8s.namespace(), pool).findings == ()


def test_facts_that_the_view_does_not_have_are_reported_as_unknown(k8s, audited):
    known = {kind: version for kind, version in k8s.KNOWN.items() if kind != "ResourceQuota"}
    report = audited(k8s.namespace(), known=known)
    assert [str(gap) for gap in report.gaps] == ["ResourceQuotas: whether opting in switches one off is unknown"]
    assert (report.counts.kinds_not_reviewed, report.findings) == (1, ())


def test_kinds_with_the_same_consequence_are_reported_together(k8s, audited):
    known = {kind: version for kind, version in k8s.KNOWN.items() if kind not in ("ClusterPolicy", "GPUCluster")}
    report = audited(k8s.namespace(), known=known)
    assert [str(gap) for gap in report.gaps] == ["ClusterPolicies, GPUClusters: their mistakes are not reported"]


@pytest.mark.parametrize("kind", dict.fromkeys(kind for _, kind in surveyed_kinds(DEFAULTS)))
def test_what_could_not_be_surveyed_is_reported_with_the_reason(k8s, kind):
    from policies.analyses.audit import audit

    view = k8s.view_of(k8s.namespace())
    survey = k8s.surveyed(view, [])
    survey.miss(kind, "forbidden: list them")
    (gap,) = audit(view, DEFAULTS, survey).gaps
    assert (gap.kinds, gap.reason) == ((kind,), "forbidden: list them")
    assert str(gap).startswith(f"{kind}s (forbidden: list them): ")


def test_cluster_without_anything_is_all_right(audited):
    report = audited()
    assert (report.findings, report.readiness, report.gaps, report.has_denials) == ((), (), (), False)
    assert report.summary == "0 objects would be refused, 0 with warnings; 0 of 0 namespaces ready to convert"


def plugin_node(k8s, name="node-1", kubelet="v1.36.0", offers="8"):
    status = {"allocatable": {"nvidia.com/gpu": offers}, "nodeInfo": {"kubeletVersion": kubelet}}
    return k8s.thing("Node", name, status=status)


def on_nodes(report):
    found = [each for each in report.findings if each.kind == "Node"]
    return [(each.rule.id, each.severity, each.name, f"{each.path}: {each.message}") for each in found]


def test_node_that_hands_out_gpus_twice_is_a_warning(k8s, audited):
    text = "status.allocatable: hands out the same GPUs by device plugin and by DRA; two pods could get one GPU"
    assert on_nodes(audited(plugin_node(k8s))) == [("GA314", Severity.WARN, "node-1", text)]


@pytest.mark.parametrize("node", [{"offers": "0"}, {"name": "other"}])
def test_node_that_hands_out_gpus_once_is_not_reported(k8s, audited, node):
    assert on_nodes(audited(plugin_node(k8s, **node))) == []


def test_device_plugin_of_the_cluster_policy_is_reported_there_only(k8s, audited):
    policy = k8s.thing(
        "ClusterPolicy", "cluster-policy", None, "nvidia.com/v1", spec={"devicePlugin": {"enabled": True}}
    )
    report = audited(plugin_node(k8s), policy)
    assert on_nodes(report) == []
    assert "GA145" in {each.rule.id for each in report.findings}


def test_kubelet_that_cannot_read_claims_is_a_warning(k8s, audited):
    text = (
        "status.nodeInfo.kubeletVersion: is v1.33.4, which does not read claims of resource.k8s.io/v1; "
        "a pod with a claim would not start here"
    )
    assert on_nodes(audited(plugin_node(k8s, kubelet="v1.33.4", offers="0"))) == [
        ("GA336", Severity.WARN, "node-1", text)
    ]


@pytest.mark.parametrize("kubelet", ["v1.34.0", "v1.35.1+k3s1", "unknown"])
def test_kubelet_that_may_read_claims_is_not_reported(k8s, audited, kubelet):
    assert on_nodes(audited(plugin_node(k8s, kubelet=kubelet, offers="0"))) == []


def test_nodes_are_not_reported_for_one_namespace(k8s):
    objects = [plugin_node(k8s)]
    view = k8s.view_of(*objects, base=k8s.BASE)
    assert on_nodes(audit(view, DEFAULTS, k8s.surveyed(view, objects, namespace="team-a"))) == []
