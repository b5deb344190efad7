"""Overviews: what they put together, and what each audience sees of it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from policies.analyses.audit import ConversionObstacle, Gap
from policies.analyses.overview import HIDDEN, NodeState, overview, visible_overview
from policies.conversion.preemption import no_lost_preemption
from policies.kubernetes.objects import FieldPath
from policies.outcome import Audience
from policies.rules.decision import Severity
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.cli.quota_files import TEAMS
from tests.pages.shown_cluster import NOW, earlier_objects, overview_of, quota, shown_objects
from tests.usage.usage_objects import NOTHING, device, node, pod, resource_slice
from webhook.cluster.manifests import ManifestsView
from webhook.pages.report import render_report_parts

GPU_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
}
VIEW = ManifestsView(shown_objects())
MEMBER = Audience("team-a", sees_nodes=False)


UNGUARDED = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "unguarded", "namespace": "team-a"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "any"}}]}}},
}
UNGUARDED["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [
    {"cel": {"expression": 'device.attributes["gpu.nvidia.com"].profile == "1g.10gb"'}}
]
ANY_CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}}


def seen_by(audience, found, objects=None):
    return visible_overview(found, ManifestsView(shown_objects() if objects is None else objects), audience)


@pytest.fixture(scope="module")
def whole():
    return overview_of(shown_objects(), earlier_objects())


def change_of(found, namespace="team-a"):
    (changed,) = (each for each in found.quotas if each.report.namespace == namespace)
    return changed.change(changed.report.limits[0])


def test_workloads_of_the_audit_that_lack_pods_wait(whole):
    container = {"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    short = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "refused", "namespace": "team-a"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
        "status": {"replicas": 0},
    }
    found = overview(VIEW, DEFAULTS, NOW, replace(whole.audit, short_workloads=(short,)))
    assert "Deployment team-a/refused (x2)" in [row.label for row in found.waiting.rows]


def test_quota_is_compared_with_the_earlier_cluster(whole):
    assert (change_of(whole), change_of(whole, "team-b")) == (Fraction(1), Fraction(0))


def test_quota_without_an_earlier_one_has_no_change():
    assert change_of(overview_of(shown_objects())) is None


def test_new_quota_has_no_change():
    before = [each for each in earlier_objects() if each["kind"] != "GPUQuota"]
    assert change_of(overview_of(shown_objects(), [*before, quota("team-b", 1)])) is None


def test_limit_of_another_unit_has_no_change():
    other = quota("team-a", 4)
    other["spec"]["limits"] = [{"name": "all", "devices": 4}]
    before = [each for each in earlier_objects() if each.get("metadata", {}).get("namespace") != "team-a"]
    assert change_of(overview_of(shown_objects(), [*before, other])) is None


def test_quotas_that_cannot_be_read_are_unknown():
    assert overview_of([each for each in shown_objects() if each["kind"] != "GPUQuota"]).quotas is None


def test_reader_of_everything_sees_everything(whole):
    assert visible_overview(whole, VIEW, Audience()) is whole


def test_totals_of_products_are_the_same_for_members(whole):
    seen = visible_overview(whole, VIEW, MEMBER)

    def amounts(found):
        return [(str(use.kind), use.total, use.held, use.free, use.unusable) for use in found.usage.products]

    assert amounts(seen) == amounts(whole)


def test_member_who_may_not_list_nodes_gets_their_number(whole):
    seen = visible_overview(whole, VIEW, MEMBER)
    assert (seen.nodes, seen.hidden_nodes) == ((), 5)
    assert {each.node for each in seen.usage.gpus} == {""}


def test_member_sees_holders_of_the_namespace_only(whole):
    seen = visible_overview(whole, VIEW, MEMBER)
    assert {each.holder.namespace for each in seen.usage.holders} == {"team-a"}
    assert [each.namespace for each in seen.usage.namespaces] == ["team-a"]


def test_holders_of_others_are_hidden_on_nodes(whole):
    seen = visible_overview(whole, VIEW, Audience("team-a"))
    holders = {part.holder for node in seen.nodes for cell in node.cells for part in cell.parts if part.holder}
    assert {each.namespace for each in holders} == {"team-a", ""}
    assert HIDDEN in holders


def test_member_sees_findings_of_the_namespace_only(whole):
    seen = visible_overview(whole, VIEW, MEMBER)
    assert {each.namespace for each in seen.audit.findings} == {"team-a"}
    assert sum(seen.audit.found.values()) == sum(each.count for each in seen.audit.findings)
    assert {each.namespace for each in seen.audit.readiness} == {"team-a"}
    assert [each.report.namespace for each in seen.quotas] == ["team-a"]


@pytest.mark.parametrize("sees_nodes", [False, True])
def test_sentences_of_findings_name_no_hidden_node(sees_nodes):
    wanted = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 9}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "huge", "namespace": "team-a"},
        "spec": {"devices": {"requests": [wanted]}},
    }
    objects = [*shown_objects(), claim, GPU_CLASS]
    seen = visible_overview(overview_of(objects), ManifestsView(objects), Audience("team-a", sees_nodes=sees_nodes))
    (message,) = (each.message for each in seen.audit.findings if each.name == "huge")
    shown = "h100-01" if sees_nodes else "<node>"
    assert message == f"requests 9 devices, and no node has more than 8 of this kind ({shown}); a claim is for one node"


@pytest.mark.parametrize(("sees_nodes", "named"), [(True, "gpu-0 on h100-01"), (False, "gpu-0 on <node>")])
def test_findings_name_nodes_only_to_readers_who_see_them(sees_nodes, named):
    objects = [*shown_objects(), ANY_CLASS, UNGUARDED]
    seen = seen_by(Audience("team-a", sees_nodes=sees_nodes), overview_of(objects), objects)
    (message,) = (each.message for each in seen.audit.findings if each.name == "unguarded")
    assert named in message


def test_obstacles_and_gaps_name_nothing_that_the_reader_must_not_see(whole):
    text = "node h100-01 runs team-b/notebook and team-a/train-0"
    (row,) = (each for each in whole.audit.readiness if each.namespace == "team-a")
    obstacle = ConversionObstacle(no_lost_preemption.rule, Severity.WARN, "Pod train-0", FieldPath(), text, text, 1)
    odd = replace(row, obstacles=(obstacle,), preemption=obstacle)
    found = replace(whole, audit=replace(whole.audit, readiness=(odd,), gaps=(Gap(("Pod",), text, "unknown"),)))
    audit = seen_by(MEMBER, found).audit
    (seen,) = audit.readiness
    hidden = "node <node> runs <object of another namespace> and team-a/train-0"
    shown = (*seen.obstacles, seen.preemption)
    assert {*(each.message for each in shown), *(each.remedy for each in shown), audit.gaps[0].reason} == {hidden}


def test_reasons_name_nothing_that_the_reader_must_not_see(whole):
    def odd(reason):
        return reason and reason._replace(sentence="kept for team-b/notebook")

    (cordoned,) = (each for each in whole.nodes if each.name == "h100-02")
    cells = tuple(
        replace(cell, parts=tuple(part._replace(reason=odd(part.reason)) for part in cell.parts))
        for cell in cordoned.cells
    )
    gpus = tuple(replace(each, reasons=tuple(map(odd, each.reasons))) for each in cordoned.gpus)
    found = replace(whole, nodes=(replace(cordoned, gpus=gpus, cells=cells),))
    (node,) = seen_by(Audience("team-a"), found).nodes
    of_parts = {part.reason.sentence for cell in node.cells for part in cell.parts if part.reason}
    assert {*node.remarks, *of_parts} == {"kept for <object of another namespace>"}


def test_member_is_told_that_findings_may_be_missing(whole):
    cut = replace(whole, audit=replace(whole.audit, findings=(), left_out=7))
    shown = render_report_parts(seen_by(MEMBER, cut))["findings"]
    assert "Less severe findings may be missing" in shown
    assert "Nothing was found" not in shown


UNREADY = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}


@pytest.mark.parametrize(
    ("objects", "states"),
    [
        ([node(gpus=1)], ()),
        ([node(gpus=1) | UNREADY, resource_slice([device()])], (NodeState.NOT_READY,)),
        (
            [node(gpus=1, taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}])],
            (NodeState.NOT_READY,),
        ),
        ([node(gpus=1, unschedulable=True)], (NodeState.CORDONED,)),
        (
            [node(gpus=1, taints=[{"key": "dedicated", "value": "render", "effect": "NoSchedule"}])],
            (NodeState.TAINTED,),
        ),
        ([node(gpus=1, taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}])], ()),
        ([node(gpus=1, labels={"nvidia.com/mig.config.state": "failed"})], (NodeState.MIG_FAILED,)),
        ([node(gpus=1, labels={"nvidia.com/mig.config.state": "success"})], ()),
        ([node(gpus=1), pod("a", 1), pod("b", 1)], (NodeState.OVER,)),
        ([node(gpus=1, capacity={"nvidia.com/gpu": "2"})], (NodeState.UNHEALTHY,)),
        (
            [node(), resource_slice([device(taints=[{"key": "x", "effect": "NoSchedule"}])])],
            (NodeState.DEVICE_TAINTED,),
        ),
        ([node(), resource_slice([device()], count=2)], (NodeState.POOL,)),
        ([node(labels={"nvidia.com/gpu.count": "2"})], (NodeState.NOT_OFFERED,)),
        ([resource_slice([device()], "gone")], (NodeState.MISSING,)),
    ],
)
def test_states_of_a_node(objects, states):
    (found,) = overview_of([*NOTHING, *objects]).nodes
    assert found.states == states
    assert found.needs_attention is (bool(states) and states != (NodeState.TAINTED,))


def test_member_sees_the_amounts_of_its_group_and_no_other_namespace():
    objects = [*NOTHING, *libyaml.load_all(TEAMS)]
    found = overview(ManifestsView(objects), DEFAULTS, NOW)
    seen = seen_by(Audience("vision-prod", sees_nodes=False), found, objects)
    (group,) = (each.report for each in seen.quotas)
    assert (group.name, group.limits[0].used, group.namespaces) == ("research.vision", 6, ("vision-prod",))
    assert [each.name for each in group.holders] == ["vision-prod/serve"]
    page = render_report_parts(seen)["quotas"]
    assert "research.vision" in page
    assert "vision-dev" not in page
