"""Overviews: what they put together, and what each audience sees of it."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

import pytest

from policies.audit import Survey, audit
from policies.explanation import Audience
from policies.overview import HIDDEN, overview, visible_overview
from policies.settings import DEFAULTS
from tests.pages.shown_cluster import earlier_objects, quota, shown_objects
from webhook.cluster.manifests import ManifestsView

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
GPU_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
}
VIEW = ManifestsView(shown_objects())
MEMBER = Audience("team-a", sees_nodes=False)


def overview_of(objects, before=None):
    view = ManifestsView(objects)
    survey = Survey(view, DEFAULTS)
    survey.add(objects)
    earlier = None if before is None else ManifestsView(before)
    return overview(view, DEFAULTS, NOW, audit(view, DEFAULTS, survey), earlier)


@pytest.fixture(scope="module")
def whole():
    return overview_of(shown_objects(), earlier_objects())


def change_of(found, namespace="team-a"):
    (changed,) = (each for each in found.quotas if each.report.namespace == namespace)
    return changed.change(changed.report.limits[0])


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
